//! Interrupts of the host.

use spica_addr::{CachePc, GuestVa};

use super::indirect;
use crate::engine::Engine;
use crate::host::Host;
use crate::host_cpu::HostCpu;
use crate::machine::GuestMachine;
use crate::vm::{Resume, Vm, regime};
use crate::world::Privilege;

/// An IRQ came while the guest ran. What it is for is settled at once; if the guest must take a virtual interrupt and
/// is in translated code, it does so at the end of its block, whose exits are unlinked for that (STAR §5.1.2).
pub fn handle(vm: &mut Vm, core: &mut HostCpu, host: &mut Host, privilege: Privilege) -> Resume {
    vm.common.counters.host_interrupts += 1;
    serve(vm, core, host);
    if let Err(stop) = vm.common.glance_at_cache(core.enter_host_space(), &regime(&vm.vcpu.context.cpu)) {
        return Resume::Stop(stop);
    }
    let pc = vm.vcpu.context.cpu.pc;
    if privilege == Privilege::User {
        return Resume::Guest(GuestVa(pc));
    }
    if vm.common.engine.is_in_mirror(pc) {
        return indirect::reflected(vm, pc);
    }
    let pc = CachePc(pc);
    leave_soon(vm, pc);
    Resume::Cache(pc)
}

/// If a virtual interrupt can be delivered, sees to it that the block at `pc` is left at its end: its exits are
/// unlinked, and the fast path of indirect branches is closed.
pub fn leave_soon(vm: &mut Vm, pc: CachePc) {
    if vm.interrupt_deliverable() {
        vm.common.engine.leave_soon(pc);
        vm.vcpu.context.leave = 1;
    }
}

/// Serves all interrupts of the host that wait, and brings the guest's devices up to date.
fn serve(vm: &mut Vm, core: &mut HostCpu, host: &mut Host) {
    host.serve_interrupts();
    vm.catch_up(core, host);
    // The host's clock makes less than a turn from one of its timer's interrupts to the next.
    vm.vcpu.context.clock = host.clock(vm.common.start);
    host.arm_timer(vm.common.start, vm.common.machine.next_deadline());
}
