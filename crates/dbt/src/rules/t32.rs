//! T32 instructions (A6): most are A32 instructions in other bits, and have the rules of those. Here is the rest.
//!
//! What a wide offset or an offset that A32 lacks needs is done to the base register itself, and undone behind the
//! access: [`Undo`] puts it right if the access faults. That takes no other register, and no memory.

use super::{
    Flow, ModeChange, bit, branch, compare_branch, emulate, indirect, memory, restore, scratch, spill, status,
};
use crate::at::At;
use crate::block::Undo;
use crate::emit::Emitter;
use crate::options::Options;
use spica_isa::t32::{Decoded, MemDual, ModImm, Op, OrNotOperand};
use spica_isa::{Cond, DpOp, Mem, MemMultiple, MemSize, Offset, Operand2, Reg, ShiftType, asm, encode};
use spica_vcpu::field;

/// Translates one instruction.
pub fn translate(e: &mut Emitter<'_>, options: &Options, d: &Decoded, at: At) -> Flow {
    let cond = d.cond;
    let change = core::mem::take(&mut e.mode_change);
    match d.op {
        // A32 has no condition for these: they are skipped as a whole.
        Op::A32(same) if same.uncond && cond != Cond::Al => {
            let skip = e.begin_skip(cond);
            let flow = super::translate(e, options, &same, at);
            e.end_skip(skip);
            if flow == Flow::Ends { Flow::Continues } else { flow }
        }
        Op::A32(same) => {
            e.mode_change = change.behind(&same);
            if let spica_isa::Op::MsrReg { spsr: false, mask: 1, rn } = same.op
                && let ModeChange::Toggled(toggled, to_system) = change
                && toggled == rn
                && options.masks
                && options.user_bank
            {
                return match to_system.then(|| status::through_system_mode(e, &same, rn, at)).flatten() {
                    Some(flow) => flow,
                    None => status::change_mode(e, &same, rn, to_system),
                };
            }
            same_in_a32(e, options, &same, at)
        }
        Op::DataProcessing { op, s, rd, rn, imm } => constant(e, d, op, s, rd, rn, imm),
        Op::OrNot { s, rd, rn, op2 } => or_not(e, d, s, rd, rn, op2),
        Op::AddWide { subtract, rd, rn, imm } => {
            let imm = i32::from(imm);
            let offset = if subtract { -imm } else { imm };
            if rn.is_pc() {
                e.load_constant(cond, rd, at.base().0.wrapping_add(offset as u32));
            } else {
                add(e, cond, rd, rn, offset);
            }
            Flow::Continues
        }
        Op::Mem(mem) if mem.unprivileged => unprivileged(e, options, d, mem),
        Op::Mem(mem) => single(e, d, mem, at),
        Op::MemDual(m) => dual(e, d, &m, at),
        Op::LoadExclusive { rt, rt2: None, rn, offset } => {
            let base = Base::begin(e, cond, rn, i32::from(offset));
            e.emit(LDREX & 0x0fff_ffff | (cond as u32) << 28 | rn.n() << 16 | rt.n() << 12);
            base.end(e, bit(rt));
            Flow::Continues
        }
        Op::StoreExclusive { rd, rt, rt2: None, rn, offset } if rt == rn => {
            // Its base is stored. What is spilled is another word than the monitor's.
            let rs = scratch(bit(rd) | bit(rn));
            spill(e, cond, rs);
            add(e, cond, rs, rn, i32::from(offset));
            e.emit(STREX & 0x0fff_ffff | (cond as u32) << 28 | rs.n() << 16 | rd.n() << 12 | rt.n());
            restore(e, cond, rs);
            Flow::Continues
        }
        Op::StoreExclusive { rd, rt, rt2: None, rn, offset } => {
            let base = Base::begin(e, cond, rn, i32::from(offset));
            e.emit(STREX & 0x0fff_ffff | (cond as u32) << 28 | rn.n() << 16 | rd.n() << 12 | rt.n());
            base.end(e, bit(rd));
            Flow::Continues
        }
        Op::Branch { link, offset } => {
            let d = conditional(cond);
            branch::direct(e, options, &d, link, at.in_state(at.pc().wrapping_add(offset as u32)), at)
        }
        // To A32: bit 0 stays clear.
        Op::BranchLinkExchangeImm { offset } => {
            let d = conditional(cond);
            branch::direct(e, options, &d, true, at.base().wrapping_add(offset as u32), at)
        }
        Op::CompareBranch { nonzero, rn, offset } => {
            compare_branch::translate(e, options, nonzero, rn, at.pc().wrapping_add(u32::from(offset)), at)
        }
        Op::TableBranch { half, rn, rm } => table(e, options, d, half, rn, rm, at),
        // What it means is in the conditions of those behind it.
        Op::IfThen(_) | Op::Hint => Flow::Continues,
        Op::LoadExclusive { rt, rt2: Some(rt2), rn, .. } => {
            let word = LDREXD & 0x0fff_ffff | (cond as u32) << 28 | rn.n() << 16;
            exclusive_of_two(e, cond, true, word, [rt, rt2], bit(rn))
        }
        Op::StoreExclusive { rd, rt, rt2: Some(rt2), rn, .. } => {
            let word = STREXD & 0x0fff_ffff | (cond as u32) << 28 | rn.n() << 16 | rd.n() << 12;
            exclusive_of_two(e, cond, false, word, [rt, rt2], bit(rn) | bit(rd))
        }
        // LEAVEX has no effect in Thumb state (A9.3.1); whether ENTERX is there, the interpreter knows.
        Op::ThumbEe { enter: false } => Flow::Continues,
        // What is undefined need not be so where its condition fails (B1.9.5): it is nothing then, as in A32. So is
        // UDF.
        Op::Undefined => emulate(e, &conditional(e.it().cond()), true),
        Op::ThumbEe { .. } | Op::Unpredictable => emulate(e, &conditional(cond), true),
    }
}

/// LDREX, STREX, LDREXD and STREXD without operands (A8.8.75, A8.8.77, A8.8.212, A8.8.214).
const LDREX: u32 = 0xe190_0f9f;
const STREX: u32 = 0xe180_0f90;
const LDREXD: u32 = 0xe1b0_0f9f;
const STREXD: u32 = 0xe1a0_0f90;

/// LDREXD or STREXD of any two registers; A32 has those of a pair. Both use the monitor in any case: one of them would
/// not work if the other one was interpreted. What is spilled is another word than the monitor's, as above. `word` is
/// that of A32 without the pair, `others` its other registers.
fn exclusive_of_two(e: &mut Emitter<'_>, cond: Cond, load: bool, word: u32, two: [Reg; 2], others: u32) -> Flow {
    let place = if load { 12 } else { 0 };
    if is_pair(two[0], two[1]) {
        e.emit(word | two[0].n() << place);
        return Flow::Continues;
    }
    // Of the six pairs below SP, four registers take four at most.
    let used = bit(two[0]) | bit(two[1]) | others;
    let low = (0..12).step_by(2).find(|n| used >> n & 0b11 == 0).unwrap_or(0);
    let pair = [Reg::new(low), Reg::new(low + 1)];
    spill(e, cond, pair[0]);
    e.page_field(false, cond, pair[1], field::spill(1));
    e.set_undo(Undo { beside: Some(pair[1]), ..e.undo() });
    let moves = |e: &mut Emitter<'_>| {
        for (mine, guests) in pair.into_iter().zip(two) {
            let (to, from) = if load { (guests, mine) } else { (mine, guests) };
            e.emit(data_processing(cond, DpOp::Mov, false, to, Reg::new(0), register(from)));
        }
    };
    if load {
        e.emit(word | low << place);
        moves(e);
    } else {
        moves(e);
        e.emit(word | low << place);
    }
    e.page_field(true, cond, pair[1], field::spill(1));
    e.set_undo(Undo { beside: None, ..e.undo() });
    restore(e, cond, pair[0]);
    Flow::Continues
}

/// Something with no meaning but a condition, for rules that look at nothing else: what a trap is for is known to the
/// emitter.
const fn conditional(cond: Cond) -> spica_isa::Decoded {
    spica_isa::Decoded { word: 0, cond, uncond: false, op: spica_isa::Op::Plain }
}

/// Whether A32 has transfers of these two registers: the first is even.
fn is_pair(rt: Reg, rt2: Reg) -> bool {
    rt.n().is_multiple_of(2) && rt2.n() == rt.n() + 1 && rt2.n() < 15
}

/// What A32 does as well, but for the PC.
fn same_in_a32(e: &mut Emitter<'_>, options: &Options, same: &spica_isa::Decoded, at: At) -> Flow {
    match same.op {
        // To a PC that is no multiple of four, it is UNPREDICTABLE (A2.3.1).
        spica_isa::Op::BranchExchange { link: false, rm } if rm.is_pc() && at.pc().0 & 3 == 0 => {
            branch::direct(e, options, same, false, at.pc(), at)
        }
        spica_isa::Op::DataProcessing { op, s: false, rd, .. } if rd.is_pc() && !op.is_test() => {
            indirect::alu_in_state(e, options, same, at)
        }
        _ => super::translate(e, options, same, at),
    }
}

/// `rd = rn + offset`, less than 4,096 either way, in one or two instructions.
fn add(e: &mut Emitter<'_>, cond: Cond, rd: Reg, rn: Reg, offset: i32) {
    let mut part = |rd: Reg, rn: Reg, imm: u32| {
        let imm = spica_isa::ModImm::encode(imm).unwrap_or(asm::imm(0));
        e.emit(if offset < 0 { asm::sub_imm(cond, rd, rn, imm) } else { asm::add_imm(cond, rd, rn, imm) });
    };
    let size = offset.unsigned_abs();
    if size & 0xf00 != 0 && spica_isa::ModImm::encode(size).is_none() {
        part(rd, rn, size & 0xf00);
        part(rd, rd, size & 0xff);
    } else {
        part(rd, rn, size);
    }
}

/// A base register that is moved for an access.
struct Base {
    cond: Cond,
    rn: Reg,
    by: i32,
}

impl Base {
    /// Moves `rn` by as much.
    fn begin(e: &mut Emitter<'_>, cond: Cond, rn: Reg, by: i32) -> Base {
        if by != 0 {
            add(e, cond, rn, rn, by);
            e.set_undo(e.undo().adjusting(rn, by.wrapping_neg() as u32));
        }
        Base { cond, rn, by }
    }

    /// Moves it back, unless it is one of the registers `loaded`, a bit each.
    fn end(self, e: &mut Emitter<'_>, loaded: u32) {
        let Base { cond, rn, by } = self;
        e.set_undo(Undo { adjust: None, ..e.undo() });
        if by != 0 && loaded & bit(rn) == 0 {
            add(e, cond, rn, rn, -by);
        }
    }
}

/// The carry of a constant, where an instruction sets flags (A6.3.2): bit 31 of one that is rotated.
fn sets_carry(imm: ModImm) -> bool {
    imm.field() >= 0x400
}

/// A data-processing instruction with its operands, of a condition.
fn data_processing(cond: Cond, op: DpOp, s: bool, rd: Reg, rn: Reg, op2: Operand2) -> u32 {
    let op = spica_isa::Op::DataProcessing { op, s, rd, rn, op2 };
    encode(&spica_isa::Decoded { word: 0, cond, uncond: false, op })
}

const fn register(rm: Reg) -> Operand2 {
    Operand2::Shifted { rm, shift: ShiftType::Lsl, amount: 0 }
}

/// Puts a constant into `rs`, and gives the operand that is it, with its carry.
fn operand(e: &mut Emitter<'_>, cond: Cond, rs: Reg, imm: ModImm, with_carry: bool) -> Operand2 {
    if with_carry && sets_carry(imm) {
        // The carry of a rotation is bit 31 of its result (A2.2.1).
        e.load_constant(cond, rs, imm.value().rotate_left(1));
        Operand2::Shifted { rm: rs, shift: ShiftType::Ror, amount: 1 }
    } else {
        e.load_constant(cond, rs, imm.value());
        register(rs)
    }
}

/// Data processing with a constant that A32 cannot encode.
fn constant(e: &mut Emitter<'_>, d: &Decoded, op: DpOp, s: bool, rd: Reg, rn: Reg, imm: ModImm) -> Flow {
    let test = op.is_test();
    let cond = d.cond;
    match op {
        DpOp::Mov if !s => {
            e.load_constant(cond, rd, imm.value());
            return Flow::Continues;
        }
        DpOp::Mvn if !s => {
            e.load_constant(cond, rd, !imm.value());
            return Flow::Continues;
        }
        DpOp::Add | DpOp::Sub | DpOp::Orr | DpOp::Eor | DpOp::Bic if !s => {
            if let Some([first, second]) = two_parts(imm.value()) {
                e.emit(data_processing(cond, op, false, rd, rn, Operand2::Imm(first)));
                e.emit(data_processing(cond, op, false, rd, rd, Operand2::Imm(second)));
                return Flow::Continues;
            }
        }
        _ => {}
    }
    let logical = !matches!(op, DpOp::Add | DpOp::Adc | DpOp::Sub | DpOp::Sbc | DpOp::Rsb | DpOp::Cmp | DpOp::Cmn);
    let carry = s && logical;
    let sources = if op.has_rn() { bit(rn) } else { 0 };
    if !test && sources & bit(rd) == 0 && rd != Reg::SP {
        // It is overwritten anyway. Nothing between can fault.
        let op2 = operand(e, cond, rd, imm, carry);
        e.emit(data_processing(cond, op, s, rd, rn, op2));
        return Flow::Continues;
    }
    let rs = scratch(sources | if test { 0 } else { bit(rd) });
    // Where flags change, what is behind cannot have the same condition.
    let (skip, cond) = if s { (e.begin_skip(cond), Cond::Al) } else { (None, cond) };
    spill(e, cond, rs);
    let op2 = operand(e, cond, rs, imm, carry);
    e.emit(data_processing(cond, op, s, rd, rn, op2));
    restore(e, cond, rs);
    e.end_skip(skip);
    Flow::Continues
}

/// Two constants that A32 can encode, with no bit in common, that make `value`.
fn two_parts(value: u32) -> Option<[spica_isa::ModImm; 2]> {
    (0..32).step_by(2).find_map(|rotation| {
        let part = value & 0xffu32.rotate_left(rotation);
        Some([spica_isa::ModImm::encode(part)?, spica_isa::ModImm::encode(value & !part)?])
    })
}

/// ORN: the complement of the operand, then ORR. The carry is that of the operand.
fn or_not(e: &mut Emitter<'_>, d: &Decoded, s: bool, rd: Reg, rn: Reg, op2: OrNotOperand) -> Flow {
    let operands = match op2 {
        OrNotOperand::Imm(_) => 0,
        OrNotOperand::Shifted { rm, .. } => bit(rm),
    } | bit(rn);
    let stands_in = rd != rn;
    let (skip, cond) = if s { (e.begin_skip(d.cond), Cond::Al) } else { (None, d.cond) };
    let rs = if stands_in { rd } else { scratch(operands | bit(rd)) };
    if !stands_in {
        spill(e, cond, rs);
    }
    match op2 {
        OrNotOperand::Imm(imm) if s && sets_carry(imm) => {
            let op2 = operand(e, cond, rs, imm, true);
            e.emit(data_processing(cond, DpOp::Mvn, true, rs, Reg::new(0), op2));
        }
        OrNotOperand::Imm(imm) => e.load_constant(cond, rs, !imm.value()),
        OrNotOperand::Shifted { rm, shift, amount } => {
            let op2 = Operand2::Shifted { rm, shift, amount };
            e.emit(data_processing(cond, DpOp::Mvn, s, rs, Reg::new(0), op2));
        }
    }
    e.emit(data_processing(cond, DpOp::Orr, s, rd, rn, register(rs)));
    if !stands_in {
        restore(e, cond, rs);
    }
    e.end_skip(skip);
    Flow::Continues
}

fn access(cond: Cond, mem: Mem) -> u32 {
    encode(&spica_isa::Decoded { word: 0, cond, uncond: false, op: spica_isa::Op::Mem(mem) })
}

/// Halfwords and signed bytes with an offset of twelve bits, or a shifted index: A32 has eight bits and no shift.
fn single(e: &mut Emitter<'_>, d: &Decoded, mem: Mem, at: At) -> Flow {
    let cond = d.cond;
    match mem.offset {
        Offset::Imm(imm) if mem.rn.is_pc() => {
            let imm = u32::from(imm);
            let literal = at.base().wrapping_add(if mem.add { imm } else { imm.wrapping_neg() });
            let rs = scratch(bit(mem.rt));
            spill(e, cond, rs);
            e.load_constant(cond, rs, literal.0);
            e.emit(access(cond, Mem { rn: rs, offset: Offset::Imm(0), add: true, ..mem }));
            restore(e, cond, rs);
        }
        // The base cannot be moved if it is stored itself.
        Offset::Imm(imm) if mem.load || mem.rt != mem.rn => {
            let (far, near) = (imm & 0xf00, imm & 0xff);
            let base = Base::begin(e, cond, mem.rn, if mem.add { far.into() } else { -i32::from(far) });
            e.emit(access(cond, Mem { offset: Offset::Imm(near), ..mem }));
            base.end(e, if mem.load { bit(mem.rt) } else { 0 });
        }
        Offset::Imm(imm) => {
            let rs = scratch(bit(mem.rt) | bit(mem.rn));
            spill(e, cond, rs);
            add(e, cond, rs, mem.rn, if mem.add { imm.into() } else { -i32::from(imm) });
            e.emit(access(cond, Mem { rn: rs, offset: Offset::Imm(0), add: true, ..mem }));
            restore(e, cond, rs);
        }
        Offset::Reg { rm, shift, amount } => {
            let rs = scratch(bit(mem.rt) | bit(mem.rn) | bit(rm));
            spill(e, cond, rs);
            let index = Operand2::Shifted { rm, shift, amount };
            e.emit(data_processing(cond, DpOp::Add, false, rs, mem.rn, index));
            e.emit(access(cond, Mem { rn: rs, offset: Offset::Imm(0), ..mem }));
            restore(e, cond, rs);
        }
    }
    Flow::Continues
}

/// LDRT, STRT and their siblings: the check, then the access. In T32 they have an offset, and leave the base alone.
fn unprivileged(e: &mut Emitter<'_>, options: &Options, d: &Decoded, mem: Mem) -> Flow {
    let Offset::Imm(imm) = mem.offset else { return emulate(e, &conditional(d.cond), false) };
    if !options.unprivileged || mem.rn.is_pc() || mem.rt.is_pc() {
        return emulate(e, &conditional(d.cond), false);
    }
    let skip = e.begin_skip(d.cond);
    if imm == 0 {
        memory::check_unprivileged(e, mem, 0);
    } else {
        let rs = scratch(bit(mem.rn));
        spill(e, Cond::Al, rs);
        add(e, Cond::Al, rs, mem.rn, imm.into());
        e.page_field(false, Cond::Al, rs, field::TARGET);
        restore(e, Cond::Al, rs);
        let number = if mem.load { crate::trap::UNPRIVILEGED_LOAD } else { crate::trap::UNPRIVILEGED_STORE };
        e.emit(asm::svc(Cond::Al, number));
    }
    e.emit(access(Cond::Al, Mem { unprivileged: false, ..mem }));
    e.end_skip(skip);
    Flow::Continues
}

/// LDRD and STRD of any two registers. A32 has them for pairs, and a smaller offset; LDM and STM need the same
/// alignment, and have any two registers in one order: for the other one, two registers change places.
fn dual(e: &mut Emitter<'_>, d: &Decoded, m: &MemDual, at: At) -> Flow {
    let cond = d.cond;
    let MemDual { load, rt, rt2, rn, add: upwards, pre, writeback, .. } = *m;
    let offset = if upwards { i32::from(m.offset) } else { -i32::from(m.offset) };
    let both = bit(rt) | bit(rt2);
    if is_pair(rt, rt2) && m.offset < 0x100 && !rn.is_pc() {
        let offset = Offset::Imm(m.offset);
        let size = MemSize::Dual;
        let unprivileged = false;
        e.emit(access(cond, Mem { load, size, rt, rn, offset, add: upwards, pre, writeback, unprivileged }));
        return Flow::Continues;
    }
    if rn.is_pc() {
        // A literal: it is loaded, and not written back.
        let rs = scratch(both);
        spill(e, cond, rs);
        e.load_constant(cond, rs, at.base().0.wrapping_add(offset as u32));
        e.emit(multiple(cond, true, rs, both));
        restore(e, cond, rs);
        swap_if_descending(e, cond, rt, rt2);
        return Flow::Continues;
    }
    if !load && (rt >= rt2 || both & bit(rn) != 0) {
        return store_dual(e, d, m, offset);
    }
    let base = Base::begin(e, cond, rn, if pre { offset } else { 0 });
    e.emit(multiple(cond, load, rn, both));
    match (writeback, pre) {
        (true, true) => e.set_undo(Undo::NONE),
        (true, false) => {
            base.end(e, 0);
            add(e, cond, rn, rn, offset);
        }
        (false, _) => base.end(e, if load { both } else { 0 }),
    }
    if load {
        swap_if_descending(e, cond, rt, rt2);
    }
    Flow::Continues
}

/// LDMIA or STMIA without write-back.
fn multiple(cond: Cond, load: bool, rn: Reg, regs: u32) -> u32 {
    let all =
        MemMultiple { load, before: false, increment: true, user: false, writeback: false, rn, regs: regs as u16 };
    encode(&spica_isa::Decoded { word: 0, cond, uncond: false, op: spica_isa::Op::MemMultiple(all) })
}

/// Two registers that were loaded in the order of their numbers change places, if that was not theirs.
fn swap_if_descending(e: &mut Emitter<'_>, cond: Cond, rt: Reg, rt2: Reg) {
    if rt > rt2 {
        e.emit(asm::eor_reg(cond, rt, rt, rt2));
        e.emit(asm::eor_reg(cond, rt2, rt, rt2));
        e.emit(asm::eor_reg(cond, rt, rt, rt2));
    }
}

/// STRD of registers in descending order, of one twice, or of its base: a register that is free stands for one of them,
/// or is the base.
fn store_dual(e: &mut Emitter<'_>, d: &Decoded, m: &MemDual, offset: i32) -> Flow {
    let MemDual { rt, rt2, rn, pre, writeback, .. } = *m;
    let used = bit(rt) | bit(rt2) | bit(rn);
    let at = if pre { offset } else { 0 };
    if rt < rt2 {
        // The base is stored: it is not written back then.
        let rs = scratch(used);
        spill(e, d.cond, rs);
        add(e, d.cond, rs, rn, at);
        e.emit(multiple(d.cond, false, rs, bit(rt) | bit(rt2)));
        restore(e, d.cond, rs);
        return Flow::Continues;
    }
    let is_free = |n: &u32| used >> n & 1 == 0;
    // Where that makes them a pair that A32 has, no more is needed.
    let partner = if rt2.n() & 1 != 0 { rt2.n() - 1 } else { rt.n() + 1 };
    if m.offset < 0x100 && partner < 13 && is_free(&partner) && (partner < rt2.n() || rt.n() & 1 == 0) {
        let rs = Reg::new(partner);
        let (first, copied) = if partner < rt2.n() { (rs, rt) } else { (rt, rt2) };
        spill(e, d.cond, rs);
        e.emit(data_processing(d.cond, DpOp::Mov, false, rs, Reg::new(0), register(copied)));
        e.emit(access(
            d.cond,
            Mem {
                load: false,
                size: MemSize::Dual,
                rt: first,
                rn,
                offset: Offset::Imm(m.offset),
                add: m.add,
                pre,
                writeback,
                unprivileged: false,
            },
        ));
        restore(e, d.cond, rs);
        return Flow::Continues;
    }
    // One below the second for the first, or one above the first for the second.
    let below = (0..rt2.n()).find(is_free);
    let above = (rt.n() + 1..13).find(is_free);
    let (rs, copied, pair) = match (below, above) {
        _ if bit(rn) & (bit(rt) | bit(rt2)) != 0 && at != 0 => {
            return emulate(e, &conditional(d.cond), false);
        }
        (Some(below), _) => (Reg::new(below), rt, 1 << below | bit(rt2)),
        (None, Some(above)) => (Reg::new(above), rt2, bit(rt) | 1 << above),
        (None, None) => return emulate(e, &conditional(d.cond), false),
    };
    spill(e, d.cond, rs);
    e.emit(data_processing(d.cond, DpOp::Mov, false, rs, Reg::new(0), register(copied)));
    let base = Base::begin(e, d.cond, rn, at);
    e.emit(multiple(d.cond, false, rn, pair));
    if writeback && pre {
        e.set_undo(Undo { adjust: None, ..e.undo() });
    } else {
        base.end(e, 0);
    }
    restore(e, d.cond, rs);
    if writeback && !pre {
        add(e, d.cond, rn, rn, offset);
    }
    Flow::Continues
}

/// TBB and TBH: what is loaded counts half-words from the PC on.
fn table(e: &mut Emitter<'_>, options: &Options, d: &Decoded, half: bool, rn: Reg, rm: Reg, at: At) -> Flow {
    if !options.indirect {
        return emulate(e, &conditional(d.cond), true);
    }
    let al = Cond::Al;
    let skip = e.begin_skip(d.cond);
    let used = bit(rn) | bit(rm);
    let window = indirect::window(e, options, at).filter(|_| used & bit(Reg::LR) == 0);
    let rs = if window.is_some() {
        indirect::put_link_away(e, al);
        Reg::LR
    } else {
        let rs = scratch(used);
        spill(e, al, rs);
        rs
    };
    let base = if rn.is_pc() {
        e.load_constant(al, rs, at.pc().0);
        rs
    } else {
        rn
    };
    let index = Operand2::Shifted { rm, shift: ShiftType::Lsl, amount: u8::from(half) };
    e.emit(data_processing(al, DpOp::Add, false, rs, base, index));
    let size = if half { MemSize::Half } else { MemSize::Byte };
    let offset = Offset::Imm(0);
    let (pre, writeback, unprivileged) = (true, false, false);
    e.emit(access(al, Mem { load: true, size, rt: rs, rn: rs, offset, add: true, pre, writeback, unprivileged }));
    e.emit(asm::lsl_imm(al, rs, rs, 1));
    let pc = at.in_state(at.pc()).0;
    for part in (0..32).step_by(8).map(|lo| pc & 0xff << lo).filter(|&part| part != 0) {
        if let Some(imm) = spica_isa::ModImm::encode(part) {
            e.emit(asm::add_imm(al, rs, rs, imm));
        }
    }
    match window {
        Some(window) => {
            indirect::reflect(e, al, rs, window);
            indirect::left(e, skip)
        }
        None => indirect::leave_spilled(e, rs, skip),
    }
}
