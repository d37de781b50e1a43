//! What the techniques to spill registers beside the vCPU page need of the real core ([`spica_dbt::spill`]): TPIDRURW
//! and PMCCNTR belong to translated code while the guest's kernel runs, and to its user code otherwise.
//!
//! [`Context::enter`] calls this for privilege switches that go through Rust; `spill.s` has the same for `fast.s`. For
//! measurements only, with one guest.

use spica_dbt::Spill;
use spica_dbt::layout::PAGE;
use spica_dbt::spill::{Place, TRAP};

use crate::arch::barrier::isb;
use crate::arch::cp15::{Pmccntr, Pmcr, Pmuserenr, SysRegRead, SysRegWrite, Tpidrurw};
use crate::engine::Engine;
use crate::engine::code::{SMALL_PAGE, XN};
use crate::memory::pool::{Block, Share};
use crate::vm::Vm;
use crate::world::{Context, Privilege};

/// For `spill.s`: [`CoreRegister::Tpidrurw`], and the word of a lightweight trap.
pub const SPILL: (u32, u32) = (CoreRegister::Tpidrurw as u32, TRAP);

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
    pub(crate) fn set_spill(&mut self, spill: Spill) {
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

    /// The guest is about to go on at `privilege`.
    pub(crate) fn lend_register(&self, privilege: Privilege) {
        // SAFETY: as above.
        unsafe {
            match (self.spill, privilege) {
                (CoreRegister::Tpidrurw, Privilege::User) => Tpidrurw::write_raw(self.cpu.page.tpidrurw),
                (CoreRegister::Pmccntr, _) => Pmuserenr::write_raw(u32::from(privilege == Privilege::Kernel)),
                (CoreRegister::Tpidrurw, Privilege::Kernel) | (CoreRegister::None, _) => {}
            }
        }
    }

    /// The guest was left at `privilege`.
    pub(crate) fn take_register_back(&mut self, privilege: Privilege) {
        if self.spill == CoreRegister::Tpidrurw && privilege == Privilege::User {
            self.cpu.page.tpidrurw = Tpidrurw::read_raw();
        }
    }
}

/// The value of a register that is not in its place.
pub fn spilled(vm: &mut Vm, place: Place) -> u32 {
    match place {
        Place::Slot(slot) => vm.cpu().page.spill[slot as usize % 4],
        Place::Word(pc) => vm.engine().word(pc).unwrap_or_default(),
        Place::Shared => vm.engine().blocks.code.slot.value(),
        Place::Tpidrurw => Tpidrurw::read_raw(),
        Place::Pmccntr => Pmccntr::read_raw(),
    }
}

/// Readable and writable for privileged code only: AP = 001.
const PRIVILEGED: u32 = 0b01 << 4;

/// The shared slot for spills, behind the code cache.
pub struct SharedSlot(Block);

impl SharedSlot {
    /// Bytes of VA behind the code cache.
    pub const BYTES: u32 = PAGE;

    /// A slot of its own; `None` if the share is exhausted.
    pub fn new(share: &mut Share) -> Option<SharedSlot> {
        let mut slot = share.alloc(PAGE, PAGE)?;
        slot.words_mut().fill(0);
        Some(SharedSlot(slot))
    }

    /// The first of `entries` maps it.
    pub fn map(&self, entries: &mut [u32]) {
        entries[0] = self.0.pa().0 | SMALL_PAGE | PRIVILEGED | XN;
    }

    /// The same.
    pub const fn bytes(&self) -> u32 {
        Self::BYTES
    }

    /// What was last spilled there.
    pub fn value(&self) -> u32 {
        self.0.words()[0]
    }
}
