//! What stands here without the feature `papers`: registers are spilled to the vCPU page, and returns go through the
//! mirror.

use crate::emit::{Emitter, ROOM};
use crate::layout::{Layout, PAGE_WORDS};
use crate::options::{Options, Spill};
use crate::rules::Flow;
use spica_addr::{CachePc, GuestVa};
use spica_isa::{Cond, Op, Reg};
use spill::Place;

/// Where registers are spilled to.
pub mod spill {
    /// Where the value of a register is while a rule uses the register.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum Place {
        /// This slot of the vCPU page.
        Slot(u32),
    }

    pub(crate) const fn literal(word: u32) -> u32 {
        word
    }

    pub(crate) const fn literal_t32(code: u32) -> u32 {
        code
    }
}

/// There is none.
pub(crate) mod shadow_stack {
    use super::{Cond, Emitter, Flow, GuestVa, Op, Options};

    pub(crate) const fn is_used(_: &Options) -> bool {
        false
    }

    pub(crate) const fn call(_: &mut Emitter<'_>, _: &Options, _: GuestVa) -> bool {
        false
    }

    pub(crate) const fn return_by(_: &mut Emitter<'_>, _: &Options, _: Cond, _: Option<Op>) -> Option<Flow> {
        None
    }

    pub(crate) const fn closed(_: u32) -> Option<u32> {
        None
    }
}

/// What of `options` this build does not have, as a list of switches has it.
#[must_use]
pub fn lacking(options: &Options) -> Option<&'static str> {
    match options.spill {
        Spill::VcpuPage if options.shadow_stack => Some("+shadow-stack"),
        Spill::VcpuPage => None,
        Spill::TrapPrivate => Some("spill=trap-private"),
        Spill::TrapShared => Some("spill=trap-shared"),
        Spill::Tpidrurw => Some("spill=tpidrurw"),
        Spill::Pmccntr => Some("spill=pmccntr"),
    }
}

pub(crate) const fn takes_tpidrurw(_: &Options) -> bool {
    false
}

pub(crate) struct Pages;

impl Pages {
    pub(crate) const fn new(_: &Options) -> Self {
        Self
    }

    pub(crate) const fn set_options(&mut self, _: &Options) {}

    pub(crate) const fn begin(&self, _: &Options, _: &mut [u32; PAGE_WORDS]) -> usize {
        0
    }
}

/// How an emitter spills registers: to the vCPU page.
pub(crate) struct Spilling;

impl Spilling {
    pub(crate) const fn new(_: Spill, _: &Layout, _: CachePc) -> Self {
        Self
    }

    /// The room that a block needs for one more guest instruction.
    pub(crate) const fn room(&self) -> usize {
        ROOM
    }
}

pub(crate) const fn room(_: Spill) -> usize {
    ROOM
}

impl Emitter<'_> {
    /// Where a register is when it is spilled.
    pub(crate) const fn place(&self, _: Reg) -> Place {
        Place::Slot(0)
    }

    pub(crate) const fn make_slot(&mut self, _: Reg) {}

    /// A spill or a reload as it reads at word `at`.
    pub(crate) fn spilled_access(&self, at: usize, load: bool, cond: Cond, reg: Reg) -> [u32; 1] {
        [Self::field_access(at, load, cond, reg, spica_vcpu::field::spill(0))]
    }
}
