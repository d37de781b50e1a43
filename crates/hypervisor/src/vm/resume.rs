//! Where a guest goes on: interrupts that wait, exceptions that it takes, and the block for its next instruction.

use super::{Resume, Stop, Vm, regime};
use crate::engine::blocks::From;
use crate::engine::{Engine, Source};
use crate::host_cpu::HostCpu;
use crate::layout::MEGABYTE;
use crate::world::World;
use spica_addr::{CachePc, GuestVa};
use spica_mmu::{Access, AccessKind, Fault, translate};
use spica_vcpu::psr::Mode;
use spica_vcpu::{Exception, psr};

/// That many exceptions without an instruction in between are an endless loop.
const MAX_NESTED: u32 = 16;

impl Vm {
    /// Puts everything in place for the guest to go on.
    pub(super) fn resume(&mut self, core: &mut HostCpu, mut resume: Resume) -> Result<World, Stop> {
        loop {
            let (pc, from) = match resume {
                Resume::Stop(stop) => return Err(stop),
                Resume::Cache(pc) => {
                    self.context.cpu.pc = pc.0;
                    self.prepare(core, World::Kernel);
                    return Ok(World::Kernel);
                }
                // A switch of spaces that assembly made, and that is Rust's only now, may have led to other tables.
                Resume::Back(pc) if !self.parts.sides_known => {
                    resume = Resume::Cache(pc);
                    continue;
                }
                Resume::Back(pc) => {
                    self.context.cpu.pc = pc.0;
                    self.parts.engine.publish();
                    core.go_to(&self.context.kernel);
                    return Ok(World::Kernel);
                }
                // Whoever waits has waited.
                Resume::Guest(pc) | Resume::Wait(pc) => (pc, None),
                Resume::Led(pc, from) => (pc, Some(from)),
            };
            if let Some(exception) = self.deliverable(pc) {
                self.parts.counters.interrupts += 1;
                resume = self.take(exception);
                continue;
            }
            if !self.context.cpu.privileged() {
                self.parts.nested = 0;
                self.context.cpu.pc = pc.0;
                self.context.leave = 0;
                self.prepare(core, World::User);
                return Ok(World::User);
            }
            if self.context.cpu.psr & psr::T != 0 {
                return Err(Stop::ThumbKernel);
            }
            if self.context.cpu.psr & psr::E != 0 {
                return Err(Stop::BigEndianKernel);
            }
            match self.find_block(core, pc, from) {
                Ok(entry) => resume = Resume::Cache(entry),
                Err(fault) => {
                    self.parts.counters.guest_aborts += 1;
                    resume = self.take(Exception::PrefetchAbort { pc: pc.0, fsr: fault.ifsr(), far: pc.0 });
                }
            }
        }
    }

    /// The code-cache address for a guest PC: translated if need be, linked if asked for.
    fn find_block(&mut self, core: &mut HostCpu, pc: GuestVa, from: Option<From>) -> Result<CachePc, Fault> {
        let parts = &mut self.parts;
        let pc = GuestVa(pc.0 & !3);
        // No block expects the other R8 to R12 of FIQ mode: the code that runs in it is translated for once.
        let fiq = self.context.cpu.mode() == Mode::Fiq;
        self.context.leave = fiq.into();
        if from.is_none()
            && !fiq
            && let Some(entry) = parts.engine.known(pc)
        {
            parts.nested = 0;
            return Ok(entry);
        }
        let regime = regime(&self.context.cpu);
        let access = Access { kind: AccessKind::Fetch, privileged: true };
        let home = core.go_home();
        let mapping = translate(&parts.ram.at(home), &regime, pc, access)?;
        if fiq || parts.volatile.contains(mapping.pa) {
            let entry = parts.translate_once(home, pc, &mapping)?;
            parts.nested = 0;
            return Ok(entry);
        }
        parts.watch_code(pc, mapping.size);
        let source = Source { va: pc, pa: mapping.pa, global: !regime.mmu_on() || mapping.global };
        let known = parts.engine.find(source);
        let made = known.is_none();
        let code = match known {
            Some(code) => code,
            None => {
                let (code, flushed) = parts.translate(home, source)?;
                if flushed {
                    // What led here is gone, too.
                    parts.nested = 0;
                    return Ok(parts.engine.enter(code, None));
                }
                code
            }
        };
        let megabyte = pc.0 / MEGABYTE;
        if regime.mmu_on() && (made || !parts.code_map.has(megabyte)) {
            let descriptor = spica_mmu::first_level_descriptor(&parts.ram.at(home), &regime, pc);
            parts.code_map.note(megabyte, descriptor.unwrap_or(0));
        }
        let entry = parts.engine.enter(code, from);
        // The vector for system calls is looked through once it has a block.
        parts.sides_known &= pc.0 != self.context.cpu.vector_base().wrapping_add(8);
        parts.nested = 0;
        Ok(entry)
    }

    /// Takes an exception on the guest's behalf.
    pub fn take(&mut self, exception: Exception) -> Resume {
        self.parts.nested += 1;
        if self.parts.nested > MAX_NESTED {
            return Resume::Stop(Stop::ExceptionLoop);
        }
        // A virtual exception clears the local monitor (B1.8.3, note on exclusives: software must not rely on it, and
        // a guest must not inherit another context's reservation).
        crate::arch::barrier::clear_exclusive();
        let vector = self.context.cpu.take_exception(exception);
        self.branch(vector)
    }

    /// A branch to `target`, bit 0 of which selects the instruction set.
    pub fn branch(&mut self, target: u32) -> Resume {
        if target & 1 != 0 {
            self.context.cpu.psr |= psr::T;
            Resume::Guest(GuestVa(target & !1))
        } else {
            self.context.cpu.psr &= !psr::T;
            Resume::Guest(GuestVa(target & !3))
        }
    }

    /// Goes on at `target`, to which an exit leads that is not linked, and that traps each time. Which exit it is does not matter: a
    /// forged one leads to where the guest could have branched. The jump cache answers, as it does for indirect branches in
    /// assembly: to ask the guest's tables would take a change of worlds.
    pub fn leave_unlinked(&mut self, target: GuestVa) -> Resume {
        self.parts.counters.links += 1;
        let stays = self.context.leave == 0 && !self.interrupt_deliverable();
        match self.parts.engine.known(target).filter(|_| stays) {
            Some(entry) => {
                self.parts.nested = 0;
                Resume::Back(entry)
            }
            None => Resume::Guest(target),
        }
    }

    /// The virtual interrupt that waits and may be taken before the instruction at `pc`; FIQ comes first (B1.8.1).
    fn deliverable(&self, pc: GuestVa) -> Option<Exception> {
        let (machine, cpu) = (&self.parts.machine, &self.context.cpu);
        if machine.fiq_asserted() && !cpu.fiq_masked() {
            Some(Exception::Fiq { pc: pc.0 })
        } else if machine.irq_asserted() && !cpu.irq_masked() {
            Some(Exception::Irq { pc: pc.0 })
        } else {
            None
        }
    }

    /// Whether a virtual interrupt waits and may be taken.
    pub fn interrupt_deliverable(&self) -> bool {
        self.deliverable(GuestVa(0)).is_some()
    }
}
