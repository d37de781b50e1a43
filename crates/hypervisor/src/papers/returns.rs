//! STAR's shadow stack ([`spica_dbt::shadow_stack`]): what there is to do for it outside of translated code.

use spica_addr::CachePc;
use spica_dbt::return_mirror::LINK_SLOT;
use spica_dbt::{Translator, shadow_stack};
use spica_vcpu::VcpuPage;

use crate::vm::{Resume, Stop, Vm};

/// The shadow stack of a guest, whose entries are in its vCPU page.
#[derive(Default)]
pub struct Returns {
    /// The generation of the translator's that the entries are of, once there are any.
    of: Option<u64>,
}

impl Returns {
    /// The entries lead to code that `translator` has.
    #[inline]
    pub fn mend(&mut self, page: &mut VcpuPage, translator: &Translator) {
        if self.of != Some(translator.generation()) {
            self.of = Some(translator.generation());
            shadow_stack::clear(page, translator.layout());
        }
    }

    /// The vCPU page is new.
    pub fn reset(&mut self) {
        self.of = None;
    }
}

/// The return by the shadow stack at `svc`, whose target is in LR, was closed, for the guest to take an interrupt at
/// the end of its block.
pub fn closed_return(vm: &mut Vm, svc: CachePc) -> Resume {
    let engine = &mut vm.engine().blocks;
    if !engine.translator.reopen_return(svc, &mut engine.code) {
        return Resume::Stop(Stop::WildJump(svc.0));
    }
    let cpu = vm.cpu();
    let target = cpu.regs[14];
    (cpu.regs[0], cpu.regs[14]) = (cpu.page.spill[0], cpu.page.spill[LINK_SLOT as usize]);
    vm.branch(target)
}
