//! What the techniques to spill registers beside the vCPU page need of the real core ([`spica_dbt::spill`]): TPIDRURW and
//! PMCCNTR belong to translated code while the guest's kernel runs, and to its user code otherwise.
//!
//! [`Context::enter`] calls this for changes of worlds that go through Rust; `spill.s` has the same for `fast.s`. For
//! measurements only, with one guest: the feature `spill-techniques`.

use spica_dbt::Spill;

use super::{Context, World};
use crate::arch::barrier::isb;
use crate::arch::cp15::{Pmcr, Pmuserenr, SysRegRead, SysRegWrite, Tpidrurw};

/// Which register of the core is used. The numbers are known to `spill.s`.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CoreRegister {
    /// None.
    #[default]
    None = 0,
    /// TPIDRURW.
    Tpidrurw = 1,
    /// PMCCNTR.
    Pmccntr = 2,
}

impl Context {
    /// Translated code uses `spill` from now on.
    pub fn set_spill(&mut self, spill: Spill) {
        let new = match spill {
            Spill::Tpidrurw => CoreRegister::Tpidrurw,
            Spill::Pmccntr => CoreRegister::Pmccntr,
            Spill::VcpuPage | Spill::TrapPrivate | Spill::TrapShared => CoreRegister::None,
        };
        let old = core::mem::replace(&mut self.spill, new);
        if old == new {
            return;
        }
        // SAFETY: none of these registers has an effect on the hypervisor. PMCR.E = 0: PMCCNTR keeps what is put there.
        unsafe {
            match old {
                CoreRegister::Tpidrurw => Tpidrurw::write_raw(self.cpu.page.tpidrurw),
                CoreRegister::Pmccntr => Pmuserenr::write_raw(0),
                CoreRegister::None => {}
            }
            match new {
                CoreRegister::Tpidrurw => self.cpu.page.tpidrurw = Tpidrurw::read_raw(),
                CoreRegister::Pmccntr => Pmcr::write_raw(0),
                CoreRegister::None => {}
            }
        }
        isb();
    }

    /// The guest is about to go on in `world`.
    pub(super) fn lend_register(&self, world: World) {
        // SAFETY: as above.
        unsafe {
            match (self.spill, world) {
                (CoreRegister::Tpidrurw, World::User) => Tpidrurw::write_raw(self.cpu.page.tpidrurw),
                (CoreRegister::Pmccntr, _) => Pmuserenr::write_raw(u32::from(world == World::Kernel)),
                (CoreRegister::Tpidrurw, World::Kernel) | (CoreRegister::None, _) => {}
            }
        }
    }

    /// The guest was left in `world`.
    pub(super) fn take_register_back(&mut self, world: World) {
        if self.spill == CoreRegister::Tpidrurw && world == World::User {
            self.cpu.page.tpidrurw = Tpidrurw::read_raw();
        }
    }
}
