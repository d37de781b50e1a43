//! The vCPU page: the part of a virtual CPU that translated guest kernel code reads and writes itself.
//!
//! It is mapped, user-writable and never executable, before and after every page of the code cache, so that a load or
//! store relative to the program counter reaches any of its words: a spill costs one store, a reload one load, and a
//! banked register or a CP15 register that is plain storage one load.
//!
//! **Everything in it is hostile input.** The guest's kernel can write it at will. It holds only what belongs to the
//! guest anyway; whoever reads it checks the value ([`crate::Vcpu::mode`] is the model) and never indexes with it.

use crate::psr::{self, Mode};

/// A register bank: which SP, LR and SPSR a mode uses (B1.3.2).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(usize)]
#[expect(missing_docs, reason = "the manual's names")]
pub enum Bank {
    Usr,
    Svc,
    Abt,
    Und,
    Irq,
    Fiq,
}

impl Bank {
    /// The bank of a mode; System shares User's.
    #[must_use]
    pub const fn of(mode: Mode) -> Bank {
        match mode {
            Mode::Usr | Mode::Sys => Bank::Usr,
            Mode::Svc => Bank::Svc,
            Mode::Abt => Bank::Abt,
            Mode::Und => Bank::Und,
            Mode::Irq => Bank::Irq,
            Mode::Fiq => Bank::Fiq,
        }
    }
}

/// The page. Words that translated code touches often come first, below offset 256, so that one data-TLB entry serves a
/// code page.
#[repr(C, align(4096))]
pub struct VcpuPage {
    /// Spill slots of the translation rules.
    pub spill: [u32; 4],
    /// Where an indirect branch goes: a guest PC, bit 0 set for Thumb.
    pub target: u32,
    /// Virtual CPSR bits A, I, F and M, where the CPSR has them; the other bits are 0.
    pub control: u32,
    /// −1 if a virtual IRQ waits, whether masked or not, else 0: translated code that unmasks IRQs leaves its block if it is
    /// negative.
    pub pending: u32,
    /// SPSR of the current mode.
    pub spsr: u32,
    /// TPIDRPRW (B4.1.148).
    pub tpidrprw: u32,
    /// TPIDRURO (B4.1.149), beside the real register.
    pub tpidruro: u32,
    /// SP of the banks that are not current.
    pub bank_sp: [u32; 6],
    /// LR of the banks that are not current.
    pub bank_lr: [u32; 6],
    /// SPSR of the modes that are not current (that of User is unused).
    pub bank_spsr: [u32; 6],
    /// R8 to R12 of the modes other than FIQ while in FIQ mode, and of FIQ mode otherwise.
    pub bank_r8_r12: [u32; 5],
    _cold: [u32; 1024 - 33],
}

const _: () = assert!(core::mem::size_of::<VcpuPage>() == 4096);

/// Byte offsets of the fields that translated code uses.
pub mod field {
    use super::VcpuPage;
    use core::mem::offset_of;

    /// Spill slot `n` of 4.
    #[must_use]
    pub const fn spill(n: u32) -> u32 {
        offset_of!(VcpuPage, spill) as u32 + 4 * (n & 3)
    }
    /// [`VcpuPage::target`].
    pub const TARGET: u32 = offset_of!(VcpuPage, target) as u32;
    /// [`VcpuPage::control`].
    pub const CONTROL: u32 = offset_of!(VcpuPage, control) as u32;
    /// [`VcpuPage::pending`].
    pub const PENDING: u32 = offset_of!(VcpuPage, pending) as u32;
    /// [`VcpuPage::spsr`].
    pub const SPSR: u32 = offset_of!(VcpuPage, spsr) as u32;
    /// [`VcpuPage::tpidrprw`].
    pub const TPIDRPRW: u32 = offset_of!(VcpuPage, tpidrprw) as u32;
}

impl VcpuPage {
    /// A page in the reset state: Supervisor mode, everything masked (B1.9.1).
    #[must_use]
    pub const fn reset() -> VcpuPage {
        VcpuPage {
            spill: [0; 4],
            target: 0,
            control: psr::A | psr::I | psr::F | Mode::Svc as u32,
            pending: 0,
            spsr: 0,
            tpidrprw: 0,
            tpidruro: 0,
            bank_sp: [0; 6],
            bank_lr: [0; 6],
            bank_spsr: [0; 6],
            bank_r8_r12: [0; 5],
            _cold: [0; 1024 - 33],
        }
    }
}
