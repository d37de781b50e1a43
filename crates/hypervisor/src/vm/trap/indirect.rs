//! Indirect branches of translated code that found no block: traps from the return mirror
//! ([`spica_dbt::return_mirror`]), and from where it was closed for an interrupt.

use spica_addr::CachePc;
use spica_dbt::return_mirror::LINK_SLOT;
use spica_isa::t32::ItState;

use crate::engine::blocks::From;
use crate::vm::{Resume, Stop, Vm};

/// The core is, or trapped, at `pc`, where a branch through the mirror led: the guest is at the branch's target, which
/// LR says, with the LR that waits for its landing.
pub fn reflected(vm: &mut Vm, pc: u32) -> Resume {
    let cpu = &mut vm.vcpu.context.cpu;
    let Some(target) = vm.common.engine.blocks.mirrored(cpu.regs[14]) else {
        return Resume::Stop(Stop::WildJump(pc));
    };
    cpu.regs[14] = cpu.page.spill[LINK_SLOT as usize];
    Resume::Led(vm.vcpu.leave_block(target, ItState::OUTSIDE), From::Mirror)
}

/// The branch through the mirror at `svc` was closed, for the guest to take an interrupt at the end of its block.
pub fn closed(vm: &mut Vm, svc: CachePc) -> Resume {
    let cpu = &mut vm.vcpu.context.cpu;
    let Some(target) = vm.common.engine.blocks.reopen(svc, cpu.regs[14]) else {
        return Resume::Stop(Stop::WildJump(svc.0));
    };
    cpu.regs[14] = cpu.page.spill[LINK_SLOT as usize];
    vm.vcpu.branch(target.0)
}
