//! Exceptions that the guest takes: which mode, which vector, which return address (B1.8, B1.9).

use crate::Cpu;
use crate::page::Bank;
use crate::psr::{self, Mode};

/// Where exception vectors may be instead of at VBAR (SCTLR.V, B1.8.1).
pub const HIGH_VECTORS: u32 = 0xffff_0000;

/// An exception for the guest. Addresses are the guest's own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exception {
    /// Undefined Instruction at `pc`.
    Undefined {
        /// The instruction's address.
        pc: u32,
    },
    /// Supervisor Call at `pc`.
    SupervisorCall {
        /// The instruction's address.
        pc: u32,
    },
    /// Prefetch Abort at `pc`; sets IFSR and IFAR.
    PrefetchAbort {
        /// The instruction's address.
        pc: u32,
        /// IFSR (B4.1.96).
        fsr: u32,
        /// IFAR.
        far: u32,
    },
    /// Data Abort by the instruction at `pc`; sets DFSR and DFAR.
    DataAbort {
        /// The instruction's address.
        pc: u32,
        /// DFSR (B4.1.52).
        fsr: u32,
        /// DFAR.
        far: u32,
    },
    /// IRQ before the instruction at `pc`.
    Irq {
        /// The address of the instruction that was not executed.
        pc: u32,
    },
    /// FIQ before the instruction at `pc`.
    Fiq {
        /// The address of the instruction that was not executed.
        pc: u32,
    },
}

impl Cpu {
    /// Takes an exception as B1.9.3 to B1.9.12 lay down: banked LR and SPSR, masks, mode, endianness and instruction
    /// set, fault registers.
    ///
    /// Returns the guest address of the vector, bit 0 set where exceptions are taken in Thumb state.
    pub fn take_exception(&mut self, exception: Exception) -> u32 {
        let spsr = self.cpsr();
        let thumb = spsr & psr::T != 0;
        let (mode, vector, lr) = match exception {
            Exception::Undefined { pc } => (Mode::Und, 0x04, pc.wrapping_add(if thumb { 2 } else { 4 })),
            Exception::SupervisorCall { pc } => (Mode::Svc, 0x08, pc.wrapping_add(if thumb { 2 } else { 4 })),
            Exception::PrefetchAbort { pc, fsr, far } => {
                (self.cp15.ifsr, self.page.shown.ifsr) = (fsr, fsr);
                (self.cp15.ifar, self.page.shown.ifar) = (far, far);
                (Mode::Abt, 0x0c, pc.wrapping_add(4))
            }
            Exception::DataAbort { pc, fsr, far } => {
                (self.cp15.dfsr, self.page.shown.dfsr) = (fsr, fsr);
                (self.cp15.dfar, self.page.shown.dfar) = (far, far);
                (Mode::Abt, 0x10, pc.wrapping_add(8))
            }
            Exception::Irq { pc } => (Mode::Irq, 0x18, pc.wrapping_add(4)),
            Exception::Fiq { pc } => (Mode::Fiq, 0x1c, pc.wrapping_add(4)),
        };
        self.change_mode(mode);
        debug_assert_eq!(Bank::of(mode), Bank::of(self.mode()));
        self.page.spsr = spsr;
        self.regs[14] = lr;
        let masks = match exception {
            Exception::Undefined { .. } | Exception::SupervisorCall { .. } => psr::I,
            Exception::Fiq { .. } => psr::I | psr::F | psr::A,
            _ => psr::I | psr::A,
        };
        self.set_masks(masks, masks);
        let sctlr = self.cp15.sctlr;
        self.psr &= !(psr::IT | psr::J | psr::T | psr::E);
        if sctlr & crate::cp15::SCTLR_EE != 0 {
            self.psr |= psr::E;
        }
        if sctlr & crate::cp15::SCTLR_TE != 0 {
            self.psr |= psr::T;
        }
        self.vectors().wrapping_add(vector)
    }

    /// Where the exception vectors are (B1.8.1): high vectors, or VBAR.
    #[must_use]
    pub fn vector_base(&self) -> u32 {
        if self.cp15.sctlr & crate::cp15::SCTLR_V != 0 { HIGH_VECTORS } else { self.cp15.vbar }
    }

    /// The same as an address of code: bit 0 is the state in which exceptions are taken (SCTLR.TE).
    #[must_use]
    pub fn vectors(&self) -> u32 {
        self.vector_base() | u32::from(self.cp15.sctlr & crate::cp15::SCTLR_TE != 0)
    }
}
