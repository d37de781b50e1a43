//! Undefined Instruction: VFP that is off for now, or the guest's own exception.

use spica_addr::CachePc;
use spica_vcpu::{Exception, psr};

use super::locate;
use crate::host::Host;
use crate::vm::{Resume, Stop, Vm, vfp_enabled};
use crate::world::World;

/// See the module's text.
pub fn handle(vm: &mut Vm, _host: &mut Host, world: World) -> Resume {
    let cpu = &vm.context.cpu;
    let pc = cpu.pc.wrapping_sub(if cpu.psr & psr::T != 0 { 2 } else { 4 });
    // The guest has VFP on and the core has it off: turn it on, and try again. Should the instruction be another one,
    // it comes back here with VFP on.
    if vfp_enabled(cpu, world) && vm.parts.mirror.enable_vfp() {
        vm.parts.counters.vfp_switches += 1;
        return match world {
            World::Kernel => Resume::Cache(CachePc(pc)),
            World::User => Resume::Guest(spica_addr::GuestVa(pc)),
        };
    }
    vm.parts.counters.undefined += 1;
    match world {
        World::User => vm.take(Exception::Undefined { pc }),
        World::Kernel => match locate::guest_pc(vm, CachePc(pc)) {
            Some(guest) => vm.take(Exception::Undefined { pc: guest.0 }),
            None => Resume::Stop(Stop::WildJump(pc)),
        },
    }
}
