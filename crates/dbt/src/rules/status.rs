//! The CPSR: reading it, and changing the interrupt mask, in the vCPU page (STAR §5.2).
//!
//! Flags, GE and E of the real CPSR are the guest's own; A, I, F and the mode are in [`field::CONTROL`]. No flag is
//! touched: what has to be tested is made 0 or ±1, and that many words are added to the PC, over or onto a branch to
//! the slow path, which interprets the instruction. Unmasking stores the mask *first* and looks for an interrupt that
//! waits afterwards.

use super::{Flow, bit, restore, scratch, spill};
use crate::emit::Emitter;
use spica_isa::{Cond, Decoded, Reg, asm};
use spica_vcpu::{field, psr};

/// `MRS rd, CPSR`. Bits 9:0 are not defined in User mode (B9.3.8), and E is 0 in translated code.
pub fn read(e: &mut Emitter<'_>, d: &Decoded, rd: Reg) -> Flow {
    let rs = scratch(bit(rd));
    spill(e, d.cond, rs);
    e.emit(asm::mrs(d.cond, rd));
    e.page_field(true, d.cond, rs, field::CONTROL);
    e.emit(asm::bfi(d.cond, rd, rs, 0, 10));
    restore(e, d.cond, rs);
    Flow::Continues
}

/// `CPSID i` and `CPSIE i`.
pub fn mask_irq(e: &mut Emitter<'_>, d: &Decoded, mask: bool) -> Flow {
    let rs = scratch(0);
    let i = asm::imm(psr::I);
    spill(e, Cond::Al, rs);
    e.page_field(true, Cond::Al, rs, field::CONTROL);
    e.emit(if mask { asm::orr_imm(Cond::Al, rs, rs, i) } else { asm::bic_imm(Cond::Al, rs, rs, i) });
    e.page_field(false, Cond::Al, rs, field::CONTROL);
    if mask {
        restore(e, Cond::Al, rs);
    } else {
        let slow = e.begin_slow(rs, d.word);
        leave_if_pending(e, rs, &slow);
        restore(e, Cond::Al, rs);
        e.end_slow(slow);
    }
    Flow::Continues
}

/// `MSR CPSR_c, rn`: inline where nothing but I changes.
pub fn write(e: &mut Emitter<'_>, d: &Decoded, rn: Reg) -> Flow {
    let rs = scratch(bit(rn));
    let skip = e.begin_skip(d.cond);
    spill(e, Cond::Al, rs);
    let slow = e.begin_slow(rs, d.word);
    e.page_field(true, Cond::Al, rs, field::CONTROL);
    e.emit(asm::eor_reg(Cond::Al, rs, rs, rn));
    // 1 if the low seven bits are the same, else 0: only of zero there are 32 leading zeroes.
    e.emit(asm::lsl_imm(Cond::Al, rs, rs, 25));
    e.emit(asm::clz(Cond::Al, rs, rs));
    e.emit(asm::lsr_imm(Cond::Al, rs, rs, 5));
    // 0 adds nothing to an address 8 bytes on, where the way out is; 1 leads over that. The word between is never
    // reached.
    e.emit(asm::add_pc(rs));
    e.emit(asm::NOP);
    e.branch_slow(&slow);
    e.store_page_byte(Cond::Al, rn, field::CONTROL);
    leave_if_pending(e, rs, &slow);
    restore(e, Cond::Al, rs);
    e.end_slow(slow);
    e.end_skip(skip);
    Flow::Continues
}

/// Leaves by the slow path if a virtual interrupt waits: [`field::PENDING`] is −1 then, which leads to the branch; 0
/// leads over it. A guest that writes something else there branches somewhere in its own world. If the interrupt is
/// masked still, the slow path comes back.
fn leave_if_pending(e: &mut Emitter<'_>, rs: Reg, slow: &crate::emit::SlowPath) {
    e.page_field(true, Cond::Al, rs, field::PENDING);
    e.emit(asm::add_pc(rs));
    e.branch_slow(slow);
}
