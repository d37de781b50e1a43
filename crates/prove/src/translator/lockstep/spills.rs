//! Ways to spill a register beside the vCPU page: lightweight traps, as `world/spill.s` of the hypervisor answers them,
//! and where a spilled register is found for a fault.

use crate::translator::LAYOUT;
use crate::translator::lockstep::blocks::Place;
use crate::translator::lockstep::{Lockstep, Next};
use crate::translator::model;
use spica_addr::CachePc;
use spica_dbt::{Spill, spill};
use spica_isa::Reg;

/// Undefined mode, between a lightweight trap and the return from it.
#[derive(Clone, Copy)]
pub struct Privileged {
    /// SP and LR of User mode.
    stack_and_link: [u32; 2],
    /// The SPSR.
    psr: u32,
}

impl Lockstep {
    /// As `spill_undefined`: goes on in Undefined mode behind the trap at `pc`, if it is one.
    pub(super) fn lightweight_trap(&mut self, pc: CachePc) -> Option<Next> {
        if self.word(pc.0) != spill::TRAP {
            return None;
        }
        if !self.options.spill.traps() || self.privileged.is_some() || self.machine.psr & model::T != 0 {
            self.fail(&format!("a lightweight trap at {pc}, where none can be"));
        }
        let machine = &mut self.machine;
        let stack_and_link = [machine.r[13], machine.r[14]];
        self.privileged = Some(Privileged { stack_and_link, psr: machine.psr });
        (machine.r[13], machine.r[14]) = (0xdead_0007, pc.0.wrapping_add(4));
        // The handler compares.
        machine.psr ^= self.random.word() & (model::N | model::Z | model::C | model::V);
        Some(Next::Cache(pc.0.wrapping_add(4)))
    }

    /// The return to User mode at `pc`, if that is where the core is.
    pub(super) fn return_from_trap(&mut self, pc: CachePc) -> Option<Next> {
        let Privileged { stack_and_link, psr } = self.privileged?;
        if self.word(pc.0) != spill::RETURN {
            return None;
        }
        self.privileged = None;
        [self.machine.r[13], self.machine.r[14]] = stack_and_link;
        self.machine.psr = psr;
        Some(Next::Cache(pc.0.wrapping_add(4)))
    }

    /// A register that is not in its place.
    pub(super) fn spilled(&self, place: spill::Place) -> u32 {
        match place {
            spill::Place::Slot(slot) => self.cpu.page.spill[slot as usize],
            spill::Place::Word(pc) => self.word(pc.0),
            spill::Place::Shared => self.shared_slot,
            spill::Place::Tpidrurw => self.machine.thread[0],
            spill::Place::Pmccntr => self.machine.cycles.expect("User mode can reach it"),
        }
    }

    /// The guest's TPIDRURW.
    pub(super) fn thread_id(&self) -> u32 {
        let elsewhere = self.options.spill == Spill::Tpidrurw || self.options.lent_thread_id;
        if elsewhere { self.cpu.page.tpidrurw } else { self.machine.thread[0] }
    }

    /// Takes note of what happens while a register is spilled.
    pub(super) fn note_spilled(&mut self, place: Place, interrupted: bool) {
        if let Some((reg, spilled)) = place.location.undo.spilled
            && reg != Reg::LR
        {
            self.note(name(spilled, interrupted));
        }
    }
}

fn name(place: spill::Place, interrupted: bool) -> &'static str {
    match (place, interrupted) {
        (spill::Place::Slot(_), false) => "a fault with a register in the vCPU page",
        (spill::Place::Word(_), false) => "a fault with a register in a private slot",
        (spill::Place::Shared, false) => "a fault with a register in the shared slot",
        (spill::Place::Tpidrurw, false) => "a fault with a register in TPIDRURW",
        (spill::Place::Pmccntr, false) => "a fault with a register in PMCCNTR",
        (spill::Place::Slot(_), true) => "an interrupt with a register in the vCPU page",
        (spill::Place::Word(_), true) => "an interrupt with a register in a private slot",
        (spill::Place::Shared, true) => "an interrupt with a register in the shared slot",
        (spill::Place::Tpidrurw, true) => "an interrupt with a register in TPIDRURW",
        (spill::Place::Pmccntr, true) => "an interrupt with a register in PMCCNTR",
    }
}

/// What a privileged access of translated code may reach beside literals: the block's own page, and the shared slot.
pub(in crate::translator) fn is_shared_slot(address: u32) -> bool {
    address == LAYOUT.shared_slot()
}
