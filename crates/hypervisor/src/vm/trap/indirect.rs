//! Indirect branches of translated code that found no block: traps from the return mirror
//! ([`spica_dbt::return_mirror`]), and from where it was closed for an interrupt.

use spica_addr::CachePc;
use spica_dbt::return_mirror::LINK_SLOT;
use spica_isa::t32::ItState;
use spica_vcpu::psr;

use crate::engine::blocks::From;
use crate::vm::{Resume, Stop, Vm};

/// The core is, or trapped, at `pc`, where a branch through the mirror led: the guest is at the branch's target, with
/// the LR that waits for its landing. A branch of A32 code to an odd target leaves the core in Thumb state, as BX has
/// it; that of T32 code is always in A32 state, and the target's bit 0 says the guest's.
pub fn reflected(vm: &mut Vm, pc: u32) -> Resume {
    let cpu = &mut vm.vcpu.context.cpu;
    let Some(target) = vm.common.engine.blocks.mirrored(pc, cpu.regs[14]) else {
        return Resume::Stop(Stop::WildJump(pc));
    };
    cpu.regs[14] = cpu.page.spill[LINK_SLOT as usize];
    // ITSTATE is 0 behind a branch, unless T32 code of nobody's was executed on the way.
    cpu.psr &= !psr::IT;
    if cpu.psr & psr::T != 0 {
        return Resume::Guest(target);
    }
    Resume::Led(vm.vcpu.leave_block(target, ItState::OUTSIDE), From::Mirror)
}

/// The branch through the mirror at `svc` was closed, for the guest to take an interrupt at the end of its block.
pub fn closed(vm: &mut Vm, svc: CachePc) -> Resume {
    let cpu = &mut vm.vcpu.context.cpu;
    let Some(target) = vm.common.engine.blocks.reopen(svc, &cpu.regs) else {
        return Resume::Stop(Stop::WildJump(svc.0));
    };
    cpu.regs[14] = cpu.page.spill[LINK_SLOT as usize];
    vm.vcpu.branch(target.0)
}
