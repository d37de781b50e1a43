//! What a trap asks for: one file per class.
//!
//! | trap            | from translated kernel code         | from native user code             |
//! |-----------------|-------------------------------------|-----------------------------------|
//! | SVC             | [`call`]: exits, emulation          | [`call`]: the guest's system call |
//! | undefined       | [`undefined`]: VFP off, or guest's  | the same                          |
//! | data abort      | [`abort`]: shadow fill, device, guest's | the same                      |
//! | prefetch abort  | [`indirect`]: a target without a block | [`abort`]                         |
//! | IRQ             | [`interrupt`]                       | [`interrupt`]                     |
//!
//! Ordinary aborts are answered in [`fast_abort`], before anything else is looked at.

pub(crate) mod abort;
mod call;
mod emulate;
mod fast_abort;
mod indirect;
mod interrupt;
mod locate;
mod timer;
mod undefined;

use crate::host::Host;
use crate::host_cpu::HostCpu;
use crate::vm::{Resume, Stop, Vm};
use crate::world::{Privilege, Trap};

pub use emulate::instruction as emulate_instruction;
pub use fast_abort::{Answer, end_patching, stores_on};
pub use interrupt::{handle_in_step, leave_soon};
pub use locate::{find, guest_pc_of, restore};

/// Takes over what translated code has changed of the virtual CPU by itself.
#[inline]
fn settle(vm: &mut Vm, core: &mut HostCpu) {
    if vm.vcpu.context.cpu.take_vfp() {
        vm.vcpu.note_vfp();
    }
    if let Some(old) = vm.vcpu.context.cpu.take_dacr() {
        emulate::domains_changed(vm, core, old);
    }
}

/// Brings the virtual CPU and the shadow tables' records up to what translated code and assembly have done.
///
/// # Errors
/// Why the guest cannot go on, since assembly has switched to another space.
#[inline]
pub fn catch_up(vm: &mut Vm, core: &mut HostCpu) -> Result<(), Stop> {
    settle(vm, core);
    if vm.vcpu.context.take_space_switch() { vm.regime_changed(core) } else { Ok(()) }
}

/// Answers a trap at once, if it is one of those that need little.
pub fn at_once(vm: &mut Vm, core: &mut HostCpu, host: &mut Host, privilege: Privilege, trap: Trap) -> Answer {
    match trap {
        Trap::Irq | Trap::Fiq => {
            interrupt::handle(vm, core, host, privilege).map_or_else(Answer::Resume, Answer::Enter)
        }
        _ => fast_abort::handle(vm, core, host, privilege, trap),
    }
}

/// Handles a trap, and says where the guest goes on.
// See `Vm::prepare`.
#[inline(always)]
pub fn handle(vm: &mut Vm, core: &mut HostCpu, host: &mut Host, privilege: Privilege, trap: Trap) -> Resume {
    if let Err(stop) = catch_up(vm, core) {
        return Resume::Stop(stop);
    }
    match (trap, privilege) {
        (Trap::SupervisorCall, Privilege::Kernel) => call::from_kernel(vm, core, host),
        (Trap::SupervisorCall, Privilege::User) => call::from_user(vm),
        (Trap::Undefined, _) => undefined::handle(vm, core, host, privilege),
        (Trap::DataAbort, _) => abort::data(vm, core, host, privilege),
        (Trap::PrefetchAbort, _) => abort::prefetch(vm, core, host, privilege),
        (Trap::Irq | Trap::Fiq, _) => match interrupt::handle(vm, core, host, privilege) {
            Ok(next) => vm.vcpu.unresumed(next),
            Err(resume) => resume,
        },
    }
}
