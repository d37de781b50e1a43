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
    let skip = e.begin_skip(d.cond);
    let done = if mem.load { load(e, d, mem, low, high, first, high_at) } else { store(e, d, mem, low, high, first, high_at) };
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
    let mem = MemMultiple { user: false, increment: true, before: false, writeback: false, rn, regs: low as u16, ..mem };
    e.emit(encode(&Decoded { cond: Cond::Al, op: Op::MemMultiple(mem), ..*d }));
}

/// A load of R0 to R12 goes last, into a register of the list as base, which is one of those that hold something else before.
fn load(e: &mut Emitter<'_>, d: &Decoded, mem: MemMultiple, low: u32, high: u32, first: i32, high_at: i32) -> bool {
    let base = (0..13).map(Reg::new).find(|&r| low & bit(r) != 0 && r != mem.rn);
    let rs = match base {
        Some(base) => base,
        None if low == 0 => scratch(bit(mem.rn)),
        None => return false,
    };
    spill(e, Cond::Al, rs);
    for (n, field) in fields(high).enumerate() {
        at(e, true, rs, mem.rn, high_at + 4 * n as i32);
        e.page_field(false, Cond::Al, rs, field);
    }
    if low == 0 {
        restore(e, Cond::Al, rs);
        return true;
    }
    e.emit(asm::offset(Cond::Al, rs, mem.rn, first));
    rest(e, d, mem, rs, low);
    true
}

/// A store of both R0 to R12 and others needs a base for the first that is not stored.
fn store(e: &mut Emitter<'_>, d: &Decoded, mem: MemMultiple, low: u32, high: u32, first: i32, high_at: i32) -> bool {
    let rs = scratch(low | bit(mem.rn));
    if rs.n() > 12 {
        return false;
    }
    spill(e, Cond::Al, rs);
    for (n, field) in fields(high).enumerate() {
        e.page_field(true, Cond::Al, rs, field);
        at(e, false, rs, mem.rn, high_at + 4 * n as i32);
    }
    if low != 0 {
        e.emit(asm::offset(Cond::Al, rs, mem.rn, first));
        rest(e, d, mem, rs, low);
    }
    restore(e, Cond::Al, rs);
    true
}
