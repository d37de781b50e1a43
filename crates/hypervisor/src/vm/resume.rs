//! Where a guest goes on: interrupts that wait, exceptions that it takes, and the block for its next instruction.

use super::{Resume, Stop, Vm, regime};
use crate::engine::LedFrom;
use crate::engine::kernel::Piece;
use crate::engine::{Engine, Source};
use crate::host_cpu::HostCpu;
use crate::layout::{MEGABYTE, unseen};
use crate::machine::GuestMachine;
use crate::world::Privilege;
use spica_addr::{CachePc, GuestPa, GuestVa};
use spica_dbt::at::address;
use spica_dbt::layout::PAGE;
use spica_dbt::{ExitId, Start};
use spica_mmu::{Access, AccessKind, Fault, translate};
use spica_vcpu::exception::HIGH_VECTORS;
use spica_vcpu::psr::Mode;
use spica_vcpu::{Exception, psr};

/// Why there is no block for a guest PC.
enum NoBlock {
    /// The guest may not execute there.
    Fault(Fault),
    /// The same of the page behind, where the other half of the instruction is.
    Behind(Fault),
    /// A debugger wants the guest to be stopped there.
    Breakpoint,
}

impl From<Fault> for NoBlock {
    fn from(fault: Fault) -> NoBlock {
        NoBlock::Fault(fault)
    }
}

impl Vm {
    /// Puts everything in place for the guest to go on.
    pub(super) fn resume(&mut self, core: &mut HostCpu, mut resume: Resume) -> Result<Privilege, Stop> {
        loop {
            let (pc, from) = match resume {
                Resume::Stop(stop) => return Err(stop),
                // Behind the latter, there is more to see to than usual: see `Vm::goes_on`.
                Resume::Cache(pc) | Resume::Back(pc)
                    if self.common.engine.is_guest_address(pc) && self.interrupt_deliverable() =>
                {
                    // Code in place can be left between any two instructions.
                    (GuestVa(pc.0), None)
                }
                Resume::Cache(pc) | Resume::Back(pc) => {
                    self.vcpu.context.cpu.pc = pc.0;
                    self.prepare(core, Privilege::Kernel);
                    return Ok(Privilege::Kernel);
                }
                // Whoever waits has waited.
                Resume::Guest(pc) | Resume::Wait(pc) => (pc, None),
                Resume::Led(pc, from) => (pc, Some(from)),
            };
            if let Some(exception) = self.deliverable(pc) {
                self.common.counters.interrupts += 1;
                if self.common.engine.waits_for_in_place() {
                    self.may_begin_in_place(core, Some(pc));
                }
                if self.common.engine.is_to_leave_in_place() {
                    self.give_way();
                }
                let (at, _) = self.vcpu.entry(pc);
                self.note_kernel(at);
                resume = self.vcpu.take(exception);
                continue;
            }
            if !self.vcpu.context.cpu.privileged() {
                self.vcpu.nested = 0;
                self.vcpu.context.cpu.pc = pc.0;
                self.vcpu.context.leave = 0;
                self.prepare(core, Privilege::User);
                return Ok(Privilege::User);
            }
            if self.vcpu.context.cpu.psr & psr::E != 0 {
                return Err(Stop::BigEndianKernel);
            }
            match self.find_block(core, pc, from) {
                Ok(entry) => {
                    self.vcpu.enter_block();
                    resume = Resume::Cache(entry);
                }
                Err(NoBlock::Breakpoint) => {
                    let (at, _) = self.vcpu.entry(pc);
                    return Err(self.at_breakpoint(at));
                }
                Err(NoBlock::Fault(fault)) => resume = self.no_fetch(pc, pc, fault),
                Err(NoBlock::Behind(fault)) => {
                    let behind = pc.page().wrapping_add(PAGE);
                    resume = self.no_fetch(pc, behind, fault);
                }
            }
        }
    }

    /// The guest takes the abort of the instruction at `pc`, which cannot be fetched at `at`.
    fn no_fetch(&mut self, pc: GuestVa, at: GuestVa, fault: Fault) -> Resume {
        self.common.counters.guest_aborts += 1;
        self.vcpu.take(Exception::PrefetchAbort { pc: pc.0, fsr: fault.ifsr(), far: at.0 })
    }

    /// The code-cache address for a guest PC: translated if need be, linked if asked for.
    fn find_block(&mut self, core: &mut HostCpu, pc: GuestVa, from: Option<LedFrom>) -> Result<CachePc, NoBlock> {
        let Vm { vcpu, common, .. } = self;
        let (pc, it) = vcpu.entry(pc);
        // No block expects the other R8 to R12 of FIQ mode: the code that runs in it is translated for once.
        let fiq = vcpu.context.cpu.mode() == Mode::Fiq;
        vcpu.context.leave = fiq.into();
        if from.is_none()
            && !fiq
            && !it.in_block()
            && let Some(entry) = common.engine.known(pc)
        {
            vcpu.nested = 0;
            return Ok(entry);
        }
        let regime = regime(&vcpu.context.cpu);
        let access = Access { kind: AccessKind::Fetch, privileged: true };
        let host_space = core.enter_host_space();
        let mapping = translate(&common.ram.at(host_space), &regime, address(pc), access)?;
        let behind = common.next_page(host_space, &regime, pc, &mapping).map_err(NoBlock::Behind)?;
        let start = Start { it, next_page: behind.map(|(next, _)| next) };
        let global = mapping.global && behind.is_none_or(|(_, mapping)| mapping.global);
        let source = Source { va: pc, start, pa: mapping.pa, global: !regime.mmu_on() || global };
        let volatile = |pa| common.volatile.contains(pa);
        let volatile = volatile(mapping.pa) || behind.is_some_and(|(next, _)| volatile(next.pa));
        if fiq || volatile {
            if common.engine.is_breakpoint(pc) {
                return Err(NoBlock::Breakpoint);
            }
            let entry = common.translate_once(&mut vcpu.mmu, host_space, source, false)?;
            vcpu.nested = 0;
            return Ok(entry);
        }
        common.watch_code(&mut vcpu.mmu, pc, mapping.size);
        if let Some((_, mapping)) = behind {
            common.watch_code(&mut vcpu.mmu, pc.page().wrapping_add(PAGE), mapping.size);
        }
        if common.engine.runs_in_place() {
            let (begun, twins) = (vcpu.context.trace_time(), common.counters.twins);
            if common.run_in_place(&mut vcpu.mmu, host_space, &regime, source) {
                if let Some(begun) = begun.filter(|_| common.counters.twins != twins) {
                    vcpu.context.trace_translation(begun, pc);
                }
                vcpu.nested = 0;
                return Ok(common.engine.enter(Piece::InPlace(pc, mapping.pa), from));
            }
        }
        let known = common.engine.find(source);
        let made = known.is_none();
        let code = match known {
            Some(code) => code,
            None if common.engine.is_breakpoint(pc) => return Err(NoBlock::Breakpoint),
            None => {
                let begun = vcpu.context.trace_time();
                let (code, flushed) = common.translate(&mut vcpu.mmu, host_space, source)?;
                if let Some(begun) = begun {
                    vcpu.context.trace_translation(begun, pc);
                }
                if flushed {
                    // What led here is gone, too.
                    vcpu.nested = 0;
                    return Ok(common.engine.enter(code, None));
                }
                code
            }
        };
        let mut note = |va: GuestVa| {
            let megabyte = va.0 / MEGABYTE;
            if regime.mmu_on() && (made || !common.code_map.has(megabyte)) {
                let descriptor = spica_mmu::first_level_descriptor(&common.ram.at(host_space), &regime, va);
                common.code_map.note(megabyte, descriptor.unwrap_or(0));
            }
        };
        note(address(pc));
        if behind.is_some() {
            note(pc.page().wrapping_add(PAGE));
        }
        let entry = common.engine.enter(code, from);
        // The vector for system calls is looked through once it has a block.
        if pc.0 == vcpu.context.cpu.vectors().wrapping_add(8) {
            vcpu.mmu.make_stale();
        }
        vcpu.nested = 0;
        Ok(entry)
    }

    /// Translated code branches to `target`, bit 0 of which selects the instruction set, and nothing else has changed.
    /// The jump cache answers, as it does for indirect branches in assembly: the blocks there lie in pages that are
    /// mapped as they were, so that the guest's tables need not be asked, which takes a privilege switch.
    pub fn branch(&mut self, target: u32) -> Resume {
        let entry = GuestVa(if target & 1 == 0 { target & !3 } else { target });
        // An interrupt that waits is taken here, if it is not masked.
        if self.vcpu.context.leave == 0
            && !self.common.interrupted()
            && let Some(entry) = self.common.engine.known(entry)
        {
            self.vcpu.enter_block();
            self.vcpu.nested = 0;
            return Resume::Back(entry);
        }
        self.vcpu.branch(target)
    }

    /// The same of an exit that leads to `target`, and that is linked from now on, if it can be. `None`, and nothing is
    /// done, where the jump cache has no answer.
    pub fn link_known(&mut self, exit: ExitId, target: GuestVa) -> Option<CachePc> {
        if self.vcpu.context.leave != 0 || self.common.interrupted() {
            return None;
        }
        let entry = self.common.engine.blocks.link_known(exit, target)?;
        self.vcpu.enter_block();
        self.vcpu.nested = 0;
        Some(entry)
    }

    /// Code at `pc`, with its state in bit 0, takes an interrupt, or is branched to, which may show where the guest's
    /// kernel is.
    pub(super) fn note_kernel(&mut self, pc: GuestVa) {
        let Vm { vcpu, common, .. } = self;
        if !vcpu.context.cpu.privileged() {
            return;
        }
        let ram = &common.ram;
        // Who maps memory one to one, as firmware does, may have code anywhere. So may anybody at high vectors.
        let is_code = |at: u32| ram.contains(GuestPa(at)) || ram.is_flash(GuestPa(at)) || at >= HIGH_VECTORS;
        let fit = |window| !unseen(window).any(|va| is_code(va.0));
        let Some(window) = common.engine.blocks.kernel_is_at(pc, fit) else { return };
        common.counters.mirror_moves += 1;
        common.engine.blocks.move_mirror(window);
        common.code_is_gone(&mut vcpu.mmu);
    }

    /// The virtual interrupt that waits and may be taken before the instruction at `pc`; FIQ comes first (B1.8.1).
    fn deliverable(&self, pc: GuestVa) -> Option<Exception> {
        let (machine, cpu) = (&self.common.machine, &self.vcpu.context.cpu);
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
