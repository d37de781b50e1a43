//! The vCPU page: the part of a virtual CPU that translated guest kernel code reads and writes itself.
//!
//! It is mapped, user-writable and never executable, before and after every page of the code cache, so that a load or
//! store relative to the program counter reaches any of its words: a spill costs one store, a reload one load, and a
//! banked register or a CP15 register that is plain storage one load.
//!
//! **Everything in it is hostile input.** The guest's kernel can write it at will. It holds only what belongs to the
//! guest anyway; whoever reads it checks the value ([`crate::Cpu::mode`] is the model) and never indexes with it.

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
    /// −1 if a virtual IRQ waits, whether masked or not, else 0: translated code that unmasks IRQs adds it, in words,
    /// to its PC, in front of which is the way out of its block.
    pub pending: u32,
    /// SPSR of the current mode.
    pub spsr: u32,
    /// Virtual CPSR bits A, I, F and M, where the CPSR has them; the other bits are 0.
    pub control: u32,
    /// TPIDRURW (B4.1.150) while the kernel runs, if translated code uses the real one for itself.
    pub tpidrurw: u32,
    /// TPIDRURO (B4.1.149). The real register follows when User mode is entered.
    pub tpidruro: u32,
    /// Non-zero if the guest has invalidated branch predictors, or instruction caches: it is done before its user code
    /// runs, which runs from the real ones.
    pub stale: u32,
    /// DACR (B4.1.43), as the guest last wrote it.
    pub dacr: u32,
    /// The guest's DACR of which the real one is a function now; it allows no more than `dacr` does.
    pub dacr_real: u32,
    /// Where translated code last wrote `dacr`: 8 bytes behind the store.
    pub dacr_site: u32,
    /// TPIDRPRW (B4.1.148).
    pub tpidrprw: u32,
    /// Copies of registers for reading.
    pub shown: Shown,
    /// The banks that are not current.
    pub bank: [Banked; 6],
    /// R8 to R12 of the modes other than FIQ while in FIQ mode, and of FIQ mode otherwise.
    pub bank_r8_r12: [u32; 5],
    /// FPEXC (B4.1.57), as the guest last wrote it: only EN means anything.
    pub fpexc: u32,
    /// FPEXC.EN of the real core; off where the guest's is on is how its registers are loaded lazily.
    pub fpexc_real: u32,
    /// TEEHBR (B4.1.147), on cores that have it.
    pub teehbr: u32,
    /// The generic timer's counter (CNTPCT and CNTVCT, B4.1.30), low half first, as it was when translated code last
    /// asked.
    pub counter: [u32; 2],
    /// Address of the newest of `returns`, for a translator that keeps a shadow stack.
    pub newest_return: u32,
    /// FPSID, MVFR1 and MVFR0 (B4.1.58, B4.1.110, B4.1.111), on cores that have VFP.
    pub vfp_ids: [u32; 3],
    /// Non-zero, as `stale` is then, if it was instruction caches.
    pub stale_code: u32,
    /// The last pages at which unprivileged loads, and stores, were found to be allowed; an address in the hypervisor
    /// region if there is none. A guest that writes here allows itself what its kernel is allowed.
    pub unprivileged: [u32; 2],
    _cold: [u32; RETURNS_AT - 59],
    /// The shadow stack: where in the code cache calls are returned to. The first is below the ring and never written,
    /// the last is what overflows.
    pub returns: [u32; RETURNS + 2],
    _rest: [u32; 1024 - RETURNS_AT - RETURNS - 2],
}

/// Entries of the ring of [`VcpuPage::returns`].
pub const RETURNS: usize = 64;
/// Words before it and its first one: its offset in bytes less than twice its size has only the bit of that size.
const RETURNS_AT: usize = 2 * RETURNS - 1;

/// One bank. In this order, SP and LR of one bank are right behind a word, and those of the bank before it right in
/// front of that: each has its LDM and STM.
#[repr(C)]
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the manual's names")]
pub struct Banked {
    /// That of User mode is unused.
    pub spsr: u32,
    pub sp: u32,
    pub lr: u32,
}

/// What translated code reads of system control registers that it cannot write.
#[repr(C)]
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the manual's names")]
pub struct Shown {
    pub ctr: u32,
    pub sctlr: u32,
    pub ttbr0: u32,
    pub ttbr1: u32,
    pub contextidr: u32,
    pub dfsr: u32,
    pub dfar: u32,
    pub ifsr: u32,
    pub ifar: u32,
}

const _: () = assert!(core::mem::size_of::<VcpuPage>() == 4096);

/// Byte offsets of the fields that translated code uses.
pub mod field {
    use super::{Bank, Banked, Shown, VcpuPage};
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
    /// [`VcpuPage::tpidruro`].
    pub const TPIDRURO: u32 = offset_of!(VcpuPage, tpidruro) as u32;
    /// [`VcpuPage::stale`].
    pub const STALE: u32 = offset_of!(VcpuPage, stale) as u32;
    /// [`VcpuPage::stale_code`].
    pub const STALE_CODE: u32 = offset_of!(VcpuPage, stale_code) as u32;
    /// [`VcpuPage::unprivileged`], of stores if `write`.
    #[must_use]
    pub const fn unprivileged(write: bool) -> u32 {
        offset_of!(VcpuPage, unprivileged) as u32 + 4 * write as u32
    }
    /// [`VcpuPage::dacr`].
    pub const DACR: u32 = offset_of!(VcpuPage, dacr) as u32;
    /// [`VcpuPage::dacr_real`].
    pub const DACR_REAL: u32 = offset_of!(VcpuPage, dacr_real) as u32;
    /// [`VcpuPage::dacr_site`].
    pub const DACR_SITE: u32 = offset_of!(VcpuPage, dacr_site) as u32;
    /// [`VcpuPage::fpexc`].
    pub const FPEXC: u32 = offset_of!(VcpuPage, fpexc) as u32;
    /// [`VcpuPage::fpexc_real`].
    pub const FPEXC_REAL: u32 = offset_of!(VcpuPage, fpexc_real) as u32;
    /// [`VcpuPage::teehbr`].
    pub const TEEHBR: u32 = offset_of!(VcpuPage, teehbr) as u32;
    /// [`VcpuPage::counter`], the low half.
    pub const COUNTER: u32 = offset_of!(VcpuPage, counter) as u32;
    /// [`VcpuPage::tpidrurw`].
    pub const TPIDRURW: u32 = offset_of!(VcpuPage, tpidrurw) as u32;
    /// [`VcpuPage::newest_return`].
    pub const NEWEST_RETURN: u32 = offset_of!(VcpuPage, newest_return) as u32;
    /// FPSID, MVFR1 or MVFR0: number 0, 6 or 7 of VMRS.
    #[must_use]
    pub const fn vfp_id(sysreg: u8) -> Option<u32> {
        let place = match sysreg {
            0 => 0,
            6 => 1,
            7 => 2,
            _ => return None,
        };
        Some(offset_of!(VcpuPage, vfp_ids) as u32 + 4 * place)
    }
    /// [`VcpuPage::returns`].
    pub const RETURNS: u32 = offset_of!(VcpuPage, returns) as u32;
    /// `bank`, where it is not current.
    const fn bank(bank: Bank) -> u32 {
        offset_of!(VcpuPage, bank) as u32 + bank as u32 * size_of::<Banked>() as u32
    }
    /// SP of `bank`, where it is not current.
    #[must_use]
    pub const fn bank_sp(which: Bank) -> u32 {
        bank(which) + offset_of!(Banked, sp) as u32
    }
    /// LR of `bank`, where it is not current.
    #[must_use]
    pub const fn bank_lr(which: Bank) -> u32 {
        bank(which) + offset_of!(Banked, lr) as u32
    }
    /// SPSR of `bank`, where it is not current.
    #[must_use]
    pub const fn bank_spsr(which: Bank) -> u32 {
        bank(which) + offset_of!(Banked, spsr) as u32
    }

    macro_rules! shown {
        ($($name:ident: $field:ident,)+) => {
            $(#[doc = concat!("[`Shown::", stringify!($field), "`].")]
            pub const $name: u32 = (offset_of!(VcpuPage, shown) + offset_of!(Shown, $field)) as u32;)+
        };
    }
    shown! {
        CTR: ctr,
        SCTLR: sctlr,
        TTBR0: ttbr0,
        TTBR1: ttbr1,
        CONTEXTIDR: contextidr,
        DFSR: dfsr,
        IFSR: ifsr,
        DFAR: dfar,
        IFAR: ifar,
    }
}

impl VcpuPage {
    /// A page in the reset state: Supervisor mode, everything masked (B1.9.1).
    #[must_use]
    pub const fn reset() -> VcpuPage {
        VcpuPage {
            spill: [0; 4],
            target: 0,
            pending: 0,
            spsr: 0,
            control: psr::A | psr::I | psr::F | Mode::Svc as u32,
            tpidrurw: 0,
            tpidruro: 0,
            stale: 0,
            dacr: 0,
            dacr_real: 0,
            dacr_site: 0,
            tpidrprw: 0,
            shown: Shown { ctr: 0, sctlr: 0, ttbr0: 0, ttbr1: 0, contextidr: 0, dfsr: 0, ifsr: 0, dfar: 0, ifar: 0 },
            bank: [Banked { spsr: 0, sp: 0, lr: 0 }; 6],
            bank_r8_r12: [0; 5],
            fpexc: 0,
            fpexc_real: 0,
            teehbr: 0,
            counter: [0; 2],
            newest_return: 0,
            vfp_ids: [0; 3],
            stale_code: 0,
            unprivileged: [u32::MAX; 2],
            _cold: [0; RETURNS_AT - 59],
            returns: [0; RETURNS + 2],
            _rest: [0; 1024 - RETURNS_AT - RETURNS - 2],
        }
    }
}
