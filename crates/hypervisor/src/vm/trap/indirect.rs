//! Indirect branches of translated code that found no block: traps from the return mirror
//! ([`spica_dbt::return_mirror`]), and from where it was closed for an interrupt.

use spica_addr::CachePc;
use spica_dbt::return_mirror::LINK_SLOT;
use spica_vcpu::psr;

use crate::engine::blocks::From;
use crate::vm::{Resume, Stop, Vm};

/// The core is, or trapped, at `pc`, where a branch through the mirror led: the guest is at the branch's target, with
/// the LR that waits for its landing. In Thumb state if the target was odd, as BX has it.
pub fn reflected(vm: &mut Vm, pc: u32) -> Resume {
    let Some(target) = vm.common.engine.blocks.mirrored(pc) else { return Resume::Stop(Stop::WildJump(pc)) };
    let cpu = &mut vm.vcpu.context.cpu;
    cpu.regs[14] = cpu.page.spill[LINK_SLOT as usize];
    // ITSTATE is 0 behind a branch, unless T32 code of nobody's was executed on the way.
    cpu.psr &= !psr::IT;
    if cpu.psr & psr::T != 0 { Resume::Guest(target) } else { Resume::Led(target, From::Mirror) }
}

/// The branch through the mirror at `svc` was closed, for the guest to take an interrupt at the end of its block.
pub fn closed(vm: &mut Vm, svc: CachePc) -> Resume {
    let Some(register) = vm.common.engine.blocks.reopen(svc) else {
        return Resume::Stop(Stop::WildJump(svc.0));
    };
    let cpu = &mut vm.vcpu.context.cpu;
    let target = cpu.regs[register.n() as usize % 15];
    cpu.regs[14] = cpu.page.spill[LINK_SLOT as usize];
    vm.vcpu.branch(target)
}
