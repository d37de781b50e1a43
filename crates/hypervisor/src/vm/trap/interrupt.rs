//! Interrupts of the host.

use spica_addr::{CachePc, GuestVa};
use spica_vcpu::{Exception, psr};

use super::indirect;
use crate::arch::barrier;
use crate::engine::Engine;
use crate::host::Host;
use crate::host_cpu::HostCpu;
use crate::machine::GuestMachine;
use crate::vm::counters::Class;
use crate::vm::events::What;
use crate::vm::{Resume, Vm, regime};
use crate::world::{IRQ_WAITS, Privilege};

/// An IRQ came while the guest ran. What it is for is settled at once. If the guest must take a virtual interrupt, it
/// takes it where it is, if that is user code. In translated code it does so at the end of its block, whose exits are
/// unlinked for that (STAR §5.1.2).
///
/// At which privilege the guest can be entered, with everything in place.
///
/// # Errors
/// Where it goes on otherwise, once others have seen to what they have to.
pub fn handle(vm: &mut Vm, core: &mut HostCpu, host: &mut Host, privilege: Privilege) -> Result<Privilege, Resume> {
    vm.common.counters.host_interrupts += 1;
    if privilege == Privilege::Kernel {
        to_a32(vm);
    }
    super::catch_up(vm, core).map_err(Resume::Stop)?;
    let now = vm.serve_interrupts(core, host);
    if vm.common.glance_is_due(host, now) {
        let regime = regime(&vm.vcpu.context.cpu);
        vm.common.glance_at_cache(core.enter_host_space(), &regime).map_err(Resume::Stop)?;
        // What runs in place is left between any two instructions.
        let pc = CachePc(vm.vcpu.context.cpu.pc);
        let between = privilege == Privilege::User || vm.common.engine.is_guest_address(pc);
        let mmu = &mut vm.vcpu.mmu;
        if vm.common.flush_preemptively(mmu, host, between)
            || between && vm.common.go_on_in_place(mmu, host, core.enter_host_space(), &regime)
        {
            return Err(if privilege == Privilege::User { Resume::Guest(GuestVa(pc.0)) } else { Resume::Cache(pc) });
        }
    }
    let pc = vm.vcpu.context.cpu.pc;
    if privilege == Privilege::User {
        return at_once(vm, core, host, privilege).ok_or(Resume::Guest(GuestVa(pc)));
    }
    if vm.common.engine.blocks.is_in_mirror(pc) {
        return Err(indirect::reflected(vm, pc));
    }
    let pc = CachePc(pc);
    if vm.common.engine.is_guest_address(pc)
        && let Some(next) = at_once(vm, core, host, privilege)
    {
        return Ok(next);
    }
    leave_soon(vm, pc);
    if vm.common.machine.irq_asserted() {
        // The kernel takes it where it unmasks it, in assembly: from then on its timer may tick there.
        vm.common.allow_ticks(&mut vm.vcpu.context.timer, host);
    }
    if vm.goes_on_behind_device(core, host, pc) { Ok(Privilege::Kernel) } else { Err(Resume::Cache(pc)) }
}

/// A block has a few instructions in Thumb state: whoever looks where it is, and whoever goes on with it, finds it in
/// A32 state.
fn to_a32(vm: &mut Vm) {
    let cpu = &mut vm.vcpu.context.cpu;
    if cpu.psr & psr::T != 0
        && let Some(pc) = vm.common.engine.blocks.in_a32(CachePc(cpu.pc))
    {
        cpu.pc = pc.0;
        vm.vcpu.enter_block();
    }
}

/// The same while a debugger has a single instruction of user code executed: the guest's interrupts wait.
pub fn handle_in_step(vm: &mut Vm, core: &mut HostCpu, host: &mut Host) -> Resume {
    vm.common.counters.host_interrupts += 1;
    match super::catch_up(vm, core) {
        Ok(()) => {
            vm.serve_interrupts(core, host);
            Resume::Guest(GuestVa(vm.vcpu.context.cpu.pc))
        }
        Err(stop) => Resume::Stop(stop),
    }
}

/// User code was interrupted, or kernel code in place, both of which can be left between any two instructions: the
/// guest takes its interrupt, if the block for that is at hand and nobody has anything else to see to; or user code
/// goes on. What [`Vm::resume`] looks after does not matter then, as in [`super::fast_abort`]: the guest goes on at the
/// privilege that was left, or at one that `fast.s` could have switched to.
fn at_once(vm: &mut Vm, core: &mut HostCpu, host: &Host, left: Privilege) -> Option<Privilege> {
    if vm.vcpu.mmu.is_stale() || vm.common.machine.wants_service() || host.is_wanted() {
        return None;
    }
    vm.note_interrupts();
    let Vm { vcpu, common, .. } = vm;
    let context = &mut vcpu.context;
    match context.slow_path {
        0 if left == Privilege::User => {
            context.leave = 0;
            core.go_to(&context.user);
            Some(Privilege::User)
        }
        IRQ_WAITS if !context.cpu.irq_masked() => {
            let entry = common.engine.known(GuestVa(context.cpu.vectors().wrapping_add(0x18)))?;
            common.counters.interrupts += 1;
            context.leave = 0;
            let pc = context.cpu.pc;
            // See `Vcpu::take`.
            barrier::clear_exclusive();
            vcpu.events.note(What::Exception(Exception::Irq { pc }));
            context.cpu.take_exception(Exception::Irq { pc });
            context.cpu.pc = entry.0;
            context.cpu.page.dacr_real = context.kernel.guest_dacr;
            vcpu.core_state.set_dacr(context.kernel.dacr);
            core.go_to(&context.kernel);
            common.allow_ticks(&mut context.timer, host);
            vcpu.enter_block();
            Some(Privilege::Kernel)
        }
        _ => None,
    }
}

/// The guest's kernel has carried out `word` at `pc`, by which it takes interrupts again (`rules::status` of
/// `spica_dbt`), and one waits: it is taken, as by [`at_once`]. So each sleep of a kernel ends. Where the guest goes
/// on; `None`, with nothing done, if that is not all, or if `word` is something else.
pub fn unmasked(vm: &mut Vm, core: &mut HostCpu, host: &Host, word: u32, pc: GuestVa) -> Option<Resume> {
    const CPSIE_I: u32 = 0xf108_0080;
    const MSR_CPSR_C: u32 = 0xe121_f000;
    let Vm { vcpu, common, .. } = vm;
    let cpu = &mut vcpu.context.cpu;
    let mode_and_masks = match word {
        CPSIE_I => cpu.page.control & !psr::I,
        _ if word & !0xf == MSR_CPSR_C => *cpu.regs.get((word & 0xf) as usize)?,
        _ => return None,
    };
    // Where something else would change, or the engine, there is more to it.
    let done = (cpu.page.control ^ mode_and_masks) & 0xff == 0;
    let engine = &common.engine;
    if !done || !cpu.privileged() || engine.waits_for_in_place() || engine.is_to_leave_in_place() {
        return None;
    }
    let behind = pc.wrapping_add(4).0;
    let before = core::mem::replace(&mut cpu.pc, behind);
    if at_once(vm, core, host, Privilege::Kernel).is_none() {
        vm.vcpu.context.cpu.pc = before;
        return None;
    }
    vm.common.counters.emulated[Class::ModeChange as usize] += 1;
    Some(Resume::Back(CachePc(vm.vcpu.context.cpu.pc)))
}

/// If a virtual interrupt can be delivered, sees to it that the block at `pc` is left at its end: its exits are
/// unlinked, and the fast path of indirect branches is closed.
pub fn leave_soon(vm: &mut Vm, pc: CachePc) {
    // What runs in place is left at once, where it goes on: see `Vm::resume`.
    if !vm.common.engine.is_guest_address(pc) && vm.interrupt_deliverable() {
        vm.common.engine.leave_soon(pc);
        vm.vcpu.context.leave = 1;
    }
}
