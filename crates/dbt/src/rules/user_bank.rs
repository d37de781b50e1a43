//! `LDM` and `STM` of User-mode registers, `{…}^` without the PC (B9.3.5, B9.3.17).
//!
//! SP and LR of User mode are in the vCPU page while the guest is in another mode; R0 to R12 are the real ones in every
//! mode but FIQ, whose blocks do not come here ([`Options::once`](crate::Options::once)). In User and System mode the
//! instructions are UNPREDICTABLE.

use super::{Flow, bit, emulate, restore, scratch, spill};
use crate::emit::Emitter;
use crate::options::Options;
use spica_isa::{Cond, Decoded, MemMultiple, Op, Reg, asm, encode};
use spica_vcpu::{Bank, field};

const HIGH: u32 = 0x6000;

/// See the module's text.
pub fn transfer(e: &mut Emitter<'_>, options: &Options, d: &Decoded, mem: MemMultiple) -> Flow {
    let regs = u32::from(mem.regs);
    let (low, high) = (regs & !HIGH, regs & HIGH);
    // Writeback is UNPREDICTABLE, and so is the PC in a store.
    if !options.user_bank || regs & 0x8000 != 0 || mem.writeback || mem.rn.is_pc() || regs == 0 {
        return emulate(e, d, false);
    }
    // Offset of the lowest register from the base, and of the first that comes from the page.
    let bytes = 4 * regs.count_ones() as i32;
    let first = match (mem.increment, mem.before) {
        (true, false) => 0,
        (true, true) => 4,
        (false, false) => 4 - bytes,
        (false, true) => -bytes,
    };
    let high_at = first + 4 * low.count_ones() as i32;
    e.loads_user_bank |= mem.load;
    let skip = e.begin_skip(d.cond);
    let done =
        if mem.load { load(e, d, mem, low, high, first, high_at) } else { store(e, d, mem, low, high, first, high_at) };
    if !done {
        e.emulate(d.word);
    }
    e.end_skip(skip);
    Flow::Continues
}

/// The fields of the registers in `high`.
fn fields(high: u32) -> impl Iterator<Item = u32> {
    [(0x2000, field::bank_sp(Bank::Usr)), (0x4000, field::bank_lr(Bank::Usr))]
        .into_iter()
        .filter(move |&(bit, _)| high & bit != 0)
        .map(|(_, field)| field)
}

/// `LDR`/`STR rt, [rn, #offset]`; all offsets are small.
fn at(e: &mut Emitter<'_>, load: bool, rt: Reg, rn: Reg, offset: i32) {
    if let Some(word) = asm::ldr_str(load, Cond::Al, rt, rn, offset) {
        e.emit(word);
    }
}

/// The rest of the list, as a transfer from `rn` upwards.
fn rest(e: &mut Emitter<'_>, d: &Decoded, mem: MemMultiple, rn: Reg, low: u32) {
    let mem =
        MemMultiple { user: false, increment: true, before: false, writeback: false, rn, regs: low as u16, ..mem };
    e.emit(encode(&Decoded { cond: Cond::Al, op: Op::MemMultiple(mem), ..*d }));
}

/// Block transfers have to be word-aligned whatever SCTLR.A says (A3.2.1), single ones need not: so the first access of
/// each sequence is a block transfer. Their order is not the architecture's; whoever handles a fault in them interprets
/// the instruction.
///
/// A load of R0 to R12 goes last, into a register of the list as base, which is one of those that hold something else
/// before. What an aborted load would have loaded is UNKNOWN, but for its base (B1.9.8): so if the other two are next
/// to the base, they can go by way of two of the list.
fn load(e: &mut Emitter<'_>, d: &Decoded, mem: MemMultiple, low: u32, high: u32, first: i32, high_at: i32) -> bool {
    // An abort restores the base (B1.9.8): if the list has it, it must be the guest's.
    let own_base = low & bit(mem.rn) != 0;
    let rs = match (0..13).map(Reg::new).find(|&r| low & bit(r) != 0 && r != mem.rn) {
        Some(rs) => rs,
        None if own_base => return false,
        None => scratch(bit(mem.rn)),
    };
    let other = (rs.n() + 1..13).map(Reg::new).find(|&r| low & bit(r) != 0 && r != mem.rn);
    if let (HIGH, false, Some(other)) = (high, mem.increment, other) {
        let both = MemMultiple { user: false, writeback: false, regs: (bit(rs) | bit(other)) as u16, ..mem };
        e.emit(encode(&Decoded { cond: Cond::Al, op: Op::MemMultiple(both), ..*d }));
        fields(high).zip([rs, other]).for_each(|(field, rt)| e.page_field(false, Cond::Al, rt, field));
    } else {
        spill(e, Cond::Al, rs);
        for (n, field) in fields(high).enumerate() {
            let offset = high_at + 4 * n as i32;
            if n == 0 {
                aligned_load(e, d, rs, mem.rn, offset);
            } else {
                at(e, true, rs, mem.rn, offset);
            }
            e.page_field(false, Cond::Al, rs, field);
        }
    }
    if low == 0 {
        restore(e, Cond::Al, rs);
        return true;
    }
    if own_base {
        let high_bytes = 4 * high.count_ones();
        if !mem.increment && high_bytes != 0 {
            // What is left of the list lies that much below the base.
            e.emit(asm::offset(Cond::Al, mem.rn, mem.rn, -(high_bytes as i32)));
            e.set_undo(e.undo().adjusting(mem.rn, high_bytes));
        }
        let plain = MemMultiple { user: false, writeback: false, regs: low as u16, ..mem };
        e.emit(encode(&Decoded { cond: Cond::Al, op: Op::MemMultiple(plain), ..*d }));
        return true;
    }
    e.emit(asm::offset(Cond::Al, rs, mem.rn, first));
    rest(e, d, mem, rs, low);
    true
}

/// `rs` = the word at `rn` + `offset`, which has to be aligned.
pub fn aligned_load(e: &mut Emitter<'_>, d: &Decoded, rs: Reg, rn: Reg, offset: i32) {
    e.emit(asm::offset(Cond::Al, rs, rn, offset));
    let one = MemMultiple {
        load: true,
        before: false,
        increment: true,
        user: false,
        writeback: false,
        rn: rs,
        regs: bit(rs) as u16,
    };
    e.emit(encode(&Decoded { cond: Cond::Al, op: Op::MemMultiple(one), ..*d }));
}

/// A store of both R0 to R12 and others needs a base for the first that is not stored. Without any of those, the word
/// next to the base goes first, by a transfer of one register in the same direction.
fn store(e: &mut Emitter<'_>, d: &Decoded, mem: MemMultiple, low: u32, high: u32, first: i32, high_at: i32) -> bool {
    let rs = scratch(low | bit(mem.rn));
    if rs.n() > 12 {
        return false;
    }
    spill(e, Cond::Al, rs);
    let count = high.count_ones() as usize;
    let next_to_base = if mem.increment { 0 } else { count.saturating_sub(1) };
    if low != 0 {
        e.emit(asm::offset(Cond::Al, rs, mem.rn, first));
        rest(e, d, mem, rs, low);
    } else if let Some(field) = fields(high).nth(next_to_base) {
        e.page_field(true, Cond::Al, rs, field);
        let one = MemMultiple { user: false, writeback: false, regs: bit(rs) as u16, ..mem };
        e.emit(encode(&Decoded { cond: Cond::Al, op: Op::MemMultiple(one), ..*d }));
    }
    for (n, field) in fields(high).enumerate().filter(|&(n, _)| low != 0 || n != next_to_base) {
        e.page_field(true, Cond::Al, rs, field);
        at(e, false, rs, mem.rn, high_at + 4 * n as i32);
    }
    restore(e, Cond::Al, rs);
    true
}
