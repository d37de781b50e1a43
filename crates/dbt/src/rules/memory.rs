//! Single loads and stores with the PC as base or as stored register (STAR §3.6).

use super::{Flow, bit, copy, emulate, restore, scratch, spill};
use crate::at::At;
use crate::emit::Emitter;
use crate::options::Options;
use spica_isa::{Cond, Decoded, Mem, MemSize, ModImm, Offset, Op, Reg, asm, encode};
use spica_vcpu::field;

/// A load or store whose destination is not the PC.
pub fn single(e: &mut Emitter<'_>, d: &Decoded, mem: Mem, at: At) -> Flow {
    let stores_pc = !mem.load && mem.rt.is_pc();
    if !mem.rn.is_pc() && !stores_pc {
        return copy(e, d);
    }
    let value = if mem.rn.is_pc() { at.base() } else { at.pc() };
    if let (true, Offset::Imm(imm)) = (mem.load, mem.offset) {
        let imm = u32::from(imm);
        let literal = value.wrapping_add(if mem.add { imm } else { imm.wrapping_neg() });
        // A literal in the instruction's own page can be read wherever the instruction could be fetched, so that no
        // fault that the guest sees can find Rt overwritten; a misaligned one can fault.
        if mem.size == MemSize::Word
            && let Some(value) = e.source_word(literal)
        {
            e.load_constant(d.cond, mem.rt, value);
            return Flow::Continues;
        }
        let bytes = if mem.size == MemSize::Dual { 8 } else { 4 };
        if literal.page() == at.entry().page() && literal.page_offset() + bytes <= 4096 && literal.0 & 3 == 0 {
            e.load_constant(d.cond, mem.rt, literal.0);
            let mem = Mem { rn: mem.rt, offset: Offset::Imm(0), add: true, pre: true, writeback: false, ..mem };
            e.emit(encode(&Decoded { op: Op::Mem(mem), ..*d }));
            return Flow::Continues;
        }
    }
    let mut used = bit(mem.rt) | bit(mem.rn);
    if mem.size == MemSize::Dual {
        used |= bit(Reg::new(mem.rt.n() + 1));
    }
    if let Offset::Reg { rm, .. } = mem.offset {
        used |= bit(rm);
    }
    let rs = scratch(used);
    spill(e, d.cond, rs);
    e.load_constant(d.cond, rs, value.0);
    let mem = Mem { rn: if mem.rn.is_pc() { rs } else { mem.rn }, rt: if stores_pc { rs } else { mem.rt }, ..mem };
    e.emit(encode(&Decoded { op: Op::Mem(mem), ..*d }));
    restore(e, d.cond, rs);
    Flow::Continues
}

/// `LDRT`, `STRT` and their siblings, which are post-indexed: the check, then the access.
pub fn unprivileged(e: &mut Emitter<'_>, options: &Options, d: &Decoded, mem: Mem) -> Flow {
    // UNPREDICTABLE with the PC, and with the base as the register to be transferred (A8.8.92).
    if !options.unprivileged || mem.rn.is_pc() || mem.rt.is_pc() || mem.rt == mem.rn {
        return emulate(e, d, false);
    }
    let plain = Mem { unprivileged: false, ..mem };
    let access = encode(&Decoded { cond: Cond::Al, op: Op::Mem(plain), ..*d });
    if e.take_checked() {
        e.emit(access);
        return Flow::Continues;
    }
    let more = bytes_behind(e, d, mem);
    let skip = e.begin_skip(d.cond);
    check_unprivileged(e, mem, more);
    e.emit(access);
    e.end_skip(skip);
    e.set_checked(more);
    Flow::Continues
}

/// How many instructions behind `LDRBT Rt, [Rn], #1` do the same with another Rt, so that one check is enough for all:
/// a kernel that mends misaligned accesses transfers words so. The same for `STRBT`.
fn bytes_behind(e: &Emitter<'_>, d: &Decoded, mem: Mem) -> u8 {
    const RT: u32 = 0xf000;
    let is_byte = mem.size == MemSize::Byte && mem.offset == Offset::Imm(1) && mem.add && d.cond == Cond::Al;
    let Some(next) = e.next_words().filter(|_| is_byte) else { return 0 };
    let same = |word: &&u32| {
        let rt = Reg::new(**word >> 12);
        **word & !RT == d.word & !RT && rt != mem.rn && !rt.is_pc()
    };
    next.iter().take_while(same).count() as u8
}

/// The check of an unprivileged access at the address in the base register, in front of the plain access, which is to
/// be emitted next: a trap. A byte needs none where it is in the page of the last one that was found to be allowed
/// ([`field::unprivileged`]), but at its end. What is longer may go on in the next page. `more` bytes behind it are
/// accessed with no check of their own, three at most: where the trap is answered so that the access follows, there are
/// sixteen bytes up to the end of the page.
///
/// It works with the register that a load overwrites, if that is another one than the base; its value is in its spill
/// slot until then, for a fault of the access.
pub fn check_unprivileged(e: &mut Emitter<'_>, mem: Mem, more: u8) {
    let number = if mem.load { crate::trap::UNPRIVILEGED_LOAD } else { crate::trap::UNPRIVILEGED_STORE };
    if mem.size != MemSize::Byte && mem.size != MemSize::SignedByte {
        e.page_field(false, Cond::Al, mem.rn, field::TARGET);
        return e.emit(asm::svc(Cond::Al, number));
    }
    let overwritten = mem.load && mem.rt != mem.rn && mem.rt.n() < 13;
    let rs = if overwritten { mem.rt } else { scratch(bit(mem.rn) | bit(mem.rt)) };
    spill(e, Cond::Al, rs);
    let slow = e.begin_slow_operand(rs, number, mem.rn);
    e.page_field(true, Cond::Al, rs, field::unprivileged(!mem.load));
    e.emit(asm::eor_reg(Cond::Al, rs, rs, mem.rn));
    if more == 0 {
        // 1 if it is that page, else 0: so many words are left out behind the next.
        e.emit(asm::lsr_imm(Cond::Al, rs, rs, 12));
        e.emit(asm::clz(Cond::Al, rs, rs));
        e.emit(asm::lsr_imm(Cond::Al, rs, rs, 5));
        e.emit(asm::add_pc(rs));
    } else {
        // The offset in that page, if it is that page, in 16 bytes. Below the last 16, this is negative: then a word is
        // left out behind the next.
        e.emit(asm::lsr_imm(Cond::Al, rs, rs, 4));
        e.emit(asm::sub_imm(Cond::Al, rs, rs, asm::imm(0xff)));
        if let Some(sign) = ModImm::encode(1 << 31) {
            e.emit(asm::and_imm(Cond::Al, rs, rs, sign));
        }
        e.emit(asm::add_pc_lsr(rs, 29));
    }
    e.emit(asm::NOP);
    e.branch_slow(&slow);
    if !overwritten {
        restore(e, Cond::Al, rs);
    }
    e.end_slow(slow);
}

/// `VLDR`, `VSTR` and their multiple forms with the PC as base.
pub fn vfp(e: &mut Emitter<'_>, d: &Decoded, at: At) -> Flow {
    let Op::VfpMem { load, multiple, writeback, .. } = d.op else { return copy(e, d) };
    let rs = scratch(0);
    spill(e, d.cond, rs);
    e.load_constant(d.cond, rs, at.base().0);
    e.emit(encode(&Decoded { op: Op::VfpMem { load, rn: rs, multiple, writeback }, ..*d }));
    restore(e, d.cond, rs);
    Flow::Continues
}
