//! `CBZ` and `CBNZ` (A8.8.29), which leave the flags alone: A32 has no such branch, and would need six instructions and
//! a register. So the core executes the guest's own, in Thumb state, and comes back:
//!
//! | word               | state |                                                                                 |
//! |--------------------|-------|---------------------------------------------------------------------------------|
//! | `SUB PC, PC, #1`   | A32   | to the second half of the next word, in Thumb state (`ALUWritePC`, A2.3.2)      |
//! | `UDF`, `CBZ rn, 1` | T32   | the opposite of the guest's: it is taken where that is not                      |
//! | `BX PC`, `UDF`     | T32   | to the next word, in A32 state: its own address is a multiple of four (A8.8.27) |
//! | an exit            | A32   | two words                                                                       |
//! | 1: `BX PC`, `UDF`  | T32   | to what follows                                                                 |
//!
//! Neither of the two can fault, and no ITSTATE comes from A32 state, so this is nothing but three instructions to the
//! guest's next one. But an interrupt can find the core in Thumb state: [`in_a32`] says where it goes on.

use super::Flow;
use crate::at::At;
use crate::emit::Emitter;
use crate::options::Options;
use spica_addr::{CachePc, GuestVa};
use spica_isa::{Cond, Reg, asm};

/// `UDF` in T32 (A8.8.247), where nothing gets to.
const UDF: u32 = 0xdefe;
const BX_PC: u32 = 0x4778;
/// `CBZ`, and the bit that makes it `CBNZ`.
const CBZ: u32 = 0xb100;
const NONZERO: u32 = 1 << 11;
/// Half-words from what `CBZ` reads as its PC to the second `BX PC`, in their place.
const TO_SECOND: u32 = 5 << 3;

/// `CBZ rn, target`, or `CBNZ`. `rn` is one of R0 to R7.
pub fn translate(e: &mut Emitter<'_>, options: &Options, nonzero: bool, rn: Reg, target: GuestVa, at: At) -> Flow {
    let opposite = CBZ | TO_SECOND | if nonzero { 0 } else { NONZERO } | rn.n() & 7;
    e.emit(asm::sub_imm(Cond::Al, Reg::PC, Reg::PC, asm::imm(1)));
    e.emit(UDF | opposite << 16);
    e.emit(BX_PC | UDF << 16);
    e.exit(at.in_state(target));
    e.emit(BX_PC | UDF << 16);
    if options.side_exits { Flow::Continues } else { Flow::Splits }
}

/// Where a block goes on in A32 state that was left in Thumb state at `pc`, before the instruction there: `CBZ` from
/// the beginning, `BX PC` where it leads to.
#[must_use]
pub const fn in_a32(pc: CachePc) -> CachePc {
    if pc.0 & 2 != 0 { pc.wrapping_add(6u32.wrapping_neg()) } else { pc.wrapping_add(4) }
}
