//! A virtual CPU's state, to be kept and put back ([`spica_devices::State`] has the same for devices).

use serde::{Deserialize, Serialize};
use spica_devices::Unsound;

use crate::page::{Bank, Banked};
use crate::psr::{self, Mode};
use crate::{Cp15, Cpu};

/// All registers of a virtual CPU that stands between two instructions, but for those that the real core holds: VFP's
/// and TPIDRURW.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CpuState {
    /// R0 to R14 of the current mode.
    pub regs: [u32; 15],
    /// The next instruction.
    pub pc: u32,
    /// CPSR.
    pub cpsr: u32,
    /// SPSR of the current mode.
    pub spsr: u32,
    /// SP, LR and SPSR of User, Supervisor, Abort, Undefined, IRQ and FIQ mode, where they are not current.
    pub banks: [[u32; 3]; 6],
    /// R8 to R12 of the modes other than FIQ while in FIQ mode, and of FIQ mode otherwise.
    pub other_r8_r12: [u32; 5],
    /// TPIDRPRW and TPIDRURO.
    pub thread_ids: [u32; 2],
    /// System control registers.
    pub cp15: Cp15,
}

/// The bits of the CPSR that there are.
const CPSR: u32 = psr::USER_BITS | psr::A | psr::I | psr::F | 0x1f;

impl Cpu {
    /// Its state, while it stands at `pc`.
    #[must_use]
    pub fn state(&self, pc: u32) -> CpuState {
        let page = &*self.page;
        // What translated code writes is in the page before Rust knows of it.
        let cp15 = Cp15 {
            dacr: page.dacr,
            fpexc: page.fpexc & crate::cp15::FPEXC_EN,
            teehbr: page.teehbr & !3,
            ..self.cp15.clone()
        };
        let mut banks = [[0; 3]; 6];
        for (bank, Banked { spsr, sp, lr }) in banks.iter_mut().zip(page.bank) {
            *bank = [sp, lr, spsr];
        }
        CpuState {
            regs: self.regs,
            pc,
            cpsr: self.cpsr(),
            spsr: page.spsr,
            banks,
            other_r8_r12: page.bank_r8_r12,
            thread_ids: [page.tpidrprw, page.tpidruro],
            cp15,
        }
    }

    /// Whether this CPU can be brought to `state`: a guest could do so.
    ///
    /// # Errors
    /// If not.
    pub fn check(&self, state: &CpuState) -> Result<(), Unsound> {
        if state.cpsr & !CPSR != 0 || Mode::from_bits(state.cpsr).is_none() {
            return Err(Unsound("a CPSR that cannot be"));
        }
        if state.pc & if state.cpsr & psr::T != 0 { 1 } else { 3 } != 0 {
            return Err(Unsound("a PC that is not aligned"));
        }
        state.cp15.check(&self.id)
    }

    /// Brings it to `state`, from whatever it is in. Where it goes on is the caller's to see to.
    ///
    /// # Errors
    /// As [`Self::check`]; nothing has changed then.
    pub fn set_state(&mut self, state: &CpuState) -> Result<(), Unsound> {
        self.check(state)?;
        let mode = Mode::from_bits(state.cpsr).unwrap_or(Mode::Svc);
        self.reset();
        let page = &mut *self.page;
        page.control = state.cpsr & (psr::A | psr::I | psr::F) | mode as u32;
        page.spsr = state.spsr;
        for (n, [sp, lr, spsr]) in state.banks.into_iter().enumerate() {
            page.bank[n] = Banked { spsr, sp, lr };
        }
        page.bank_r8_r12 = state.other_r8_r12;
        [page.tpidrprw, page.tpidruro] = state.thread_ids;
        // Whatever was fetched before is not what is there now.
        (page.stale, page.stale_code) = (1, 1);
        self.regs = state.regs;
        self.psr = psr::sanitize(state.cpsr);
        self.cp15 = state.cp15.clone();
        self.show();
        Ok(())
    }
}

const _: () = assert!(Bank::Fiq as usize == 5);
