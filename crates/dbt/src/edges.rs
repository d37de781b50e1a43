//! A client that counts which runs of a kernel follow which: the edges of its control flow, for whoever looks for new
//! ones by feeding the kernel what it does not expect (`CountEdges`).
//!
//! It is the map that AFL made usual (its `technical_details.txt`, section 1): each run has a [`place`], a number of 16
//! bits made of its address. Where it begins, translated code adds 1 to the byte with the number `place ^ last` of the
//! map that is in force, and makes `place >> 1` the last one, so that an edge and its opposite are two, and a loop of
//! one run is not 0. A byte that is full goes on with 1: what was executed is never 0. Two edges may have one byte.
//!
//! Which map is in force, Rust says in a word that translated code can read and not write ([`CURRENT`]). So the memory
//! that is written to is always in one of the maps, whatever the guest makes of [`LAST`], which it can write: a number
//! of 16 bits.

use spica_addr::GuestVa;
use spica_isa::{Cond, Decoded, Reg, asm};
use spica_vcpu::field;

use crate::checks::{Checks, MARKS};
use crate::client::Client;
use crate::emit::Emitter;
use crate::layout::PAGE;
use crate::trap;

/// Where translated code finds the address of the map that is in force, in a page that it cannot write to.
pub const CURRENT: u32 = LAST - 4;
/// Where it keeps what is left of the last place, in 16 bits: the first of its pages that it can write to.
pub const LAST: u32 = MARKS + PAGE;
/// Where the first map is.
pub const MAPS: u32 = LAST + PAGE;
/// Bytes of a map.
pub const MAP: u32 = 1 << 16;

/// The number of the place at which a run begins.
#[must_use]
pub const fn place(pc: GuestVa) -> u16 {
    // All bits of an address have a part in it.
    (pc.0.wrapping_mul(0x9e37_79b1) >> 16) as u16
}

/// See the module's text.
pub(crate) struct CountEdges<'a> {
    checks: &'a Checks,
}

impl<'a> CountEdges<'a> {
    /// Tells of places and leaves code out as `checks` says.
    pub(crate) const fn new(checks: &'a Checks) -> Self {
        CountEdges { checks }
    }
}

impl Client for CountEdges<'_> {
    // A count, and a hook.
    const ROOM: usize = 18 + 1;

    fn run_begins(&mut self, e: &mut Emitter<'_>, pc: GuestVa) {
        if self.checks.skips(pc) {
            return;
        }
        let place = place(pc);
        let [address, at, other] = [0, 1, 2].map(Reg::new);
        let spilled = [address, at, other];
        for (slot, reg) in (0..).zip(spilled) {
            e.page_field(false, Cond::Al, reg, field::spill(slot));
        }
        e.emit(asm::movw(Cond::Al, address, LAST as u16));
        e.emit(asm::movt(Cond::Al, address, (LAST >> 16) as u16));
        e.emit(LDRH_R1_R0);
        e.emit(asm::movw(Cond::Al, other, place));
        e.emit(EOR_R1_R2);
        e.emit(asm::movw(Cond::Al, other, place >> 1));
        e.emit(STRH_R2_R0);
        e.emit(LDR_R2_CURRENT);
        e.emit(LDRB_R0_R2_R1);
        e.emit(ADD_R0_1);
        e.emit(ORR_R0_CARRY);
        e.emit(STRB_R0_R2_R1);
        for (slot, reg) in (0..).zip(spilled) {
            e.page_field(true, Cond::Al, reg, field::spill(slot));
        }
    }

    fn run_ends(&mut self, _: GuestVa) {}

    fn instruction(&mut self, e: &mut Emitter<'_>, d: &Decoded, pc: GuestVa) {
        if let Some(number) = self.checks.hook_at(pc) {
            e.emit(asm::svc(d.cond, trap::hook(number)));
        }
    }
}

/// `LDRH R1, [R0]` (A8.8.80).
const LDRH_R1_R0: u32 = 0xe1d0_10b0;
/// `EOR R1, R1, R2` (A8.8.47).
const EOR_R1_R2: u32 = 0xe021_1002;
/// `STRH R2, [R0]` (A8.8.217).
const STRH_R2_R0: u32 = 0xe1c0_20b0;
/// `LDR R2, [R0, #-4]` (A8.8.63).
const LDR_R2_CURRENT: u32 = 0xe510_2004;
/// `LDRB R0, [R2, R1]` (A8.8.70).
const LDRB_R0_R2_R1: u32 = 0xe7d2_0001;
/// `ADD R0, R0, #1` (A8.8.5).
const ADD_R0_1: u32 = 0xe280_0001;
/// `ORR R0, R0, R0, LSR #8` (A8.8.123): 256 becomes 257, of which the byte is 1.
const ORR_R0_CARRY: u32 = 0xe180_0420;
/// `STRB R0, [R2, R1]` (A8.8.208).
const STRB_R0_R2_R1: u32 = 0xe7c2_0001;

const _: () = assert!(LAST - CURRENT == 4 && CURRENT >= MARKS);
