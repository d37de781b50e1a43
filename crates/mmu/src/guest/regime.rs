//! The guest's translation regime: the register values that decide what a virtual address means.
//!
//! These are the *guest's* values, copied out of the vCPU once per trap. They are hostile: any bit pattern must walk to
//! an answer. The real registers of the host are derived elsewhere and never copied from here.

/// SCTLR.M: the stage 1 MMU is on.
pub const SCTLR_M: u32 = 1 << 0;
/// SCTLR.EE: big-endian exceptions, and big-endian translation tables.
pub const SCTLR_EE: u32 = 1 << 25;
/// SCTLR.TRE: TEX remap, memory types come from PRRR and NMRR.
pub const SCTLR_TRE: u32 = 1 << 28;
/// SCTLR.AFE: AP\[0\] is an access flag, and permissions use the simplified AP\[2:1\] model.
pub const SCTLR_AFE: u32 = 1 << 29;
/// TTBCR.PD0: walks through TTBR0 are disabled.
pub const TTBCR_PD0: u32 = 1 << 4;
/// TTBCR.PD1: walks through TTBR1 are disabled.
pub const TTBCR_PD1: u32 = 1 << 5;

/// TTBCR.EAE: translation tables have long descriptors.
pub const TTBCR_EAE: u32 = 1 << 31;

/// The guest's CP15 values on which a walk depends (ARM ARM B4.1 names).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Regime {
    /// System control register: M, EE, TRE and AFE matter here. A8 and A9 have neither HA nor WXN/UWXN.
    pub sctlr: u32,
    /// Translation table base 0.
    pub ttbr0: u32,
    /// Translation table base 1.
    pub ttbr1: u32,
    /// The upper words of both, without the ASID: with long descriptors only.
    pub tops: [u32; 2],
    /// Translation table base control: N, PD0, PD1; or EAE and what goes with it, where the guest's CPU has that.
    pub ttbcr: u32,
    /// Domain access control.
    pub dacr: u32,
    /// Primary region remap, used where SCTLR.TRE is set; MAIR0 with long descriptors.
    pub prrr: u32,
    /// Normal memory remap. Cacheability is not translated to the host, so nothing reads it here; it is part of the
    /// regime because a change of it is a change of regime. MAIR1 with long descriptors.
    pub nmrr: u32,
    /// CONTEXTIDR.ASID, or that of the TTBR that TTBCR.A1 says.
    pub asid: u8,
    /// The guest's CPU implements privileged execute-never (ID_MMFR0.VMSA ≥ 4). Where false, as on A8 and A9,
    /// first-level type 0b11 is reserved and faults, and bit 2 of a page-table descriptor is ignored.
    pub pxn: bool,
}

impl Regime {
    /// Whether the guest's MMU is on.
    #[must_use]
    pub const fn mmu_on(&self) -> bool {
        self.sctlr & SCTLR_M != 0
    }

    /// Whether the tables have long descriptors.
    #[must_use]
    pub const fn is_long(&self) -> bool {
        self.ttbcr & TTBCR_EAE != 0
    }

    /// Whether SCTLR.AFE is set.
    #[must_use]
    pub const fn access_flag(&self) -> bool {
        self.sctlr & SCTLR_AFE != 0
    }

    /// What the guest's DACR says of `domain` (0..=15). Long descriptors have no domains.
    #[must_use]
    pub const fn domain_access(&self, domain: u8) -> DomainAccess {
        if self.is_long() { DomainAccess::Client } else { DomainAccess::of(self.dacr, domain) }
    }
}

/// A two-bit DACR field (ARM ARM B4.1.43).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DomainAccess {
    /// Every access is a domain fault. Also stands for the reserved value 0b10, which is UNPREDICTABLE.
    None,
    /// Accesses are checked against the descriptor's permissions.
    Client,
    /// Accesses are not checked, execute-never included.
    Manager,
}

impl DomainAccess {
    /// The field of `domain` (0..=15; higher bits are ignored) in `dacr`.
    #[must_use]
    pub const fn of(dacr: u32, domain: u8) -> Self {
        match dacr >> ((domain as u32 & 0xf) * 2) & 0b11 {
            0b01 => Self::Client,
            0b11 => Self::Manager,
            _ => Self::None,
        }
    }
}

/// What an access wants to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AccessKind {
    /// Load.
    Read,
    /// Store.
    Write,
    /// Instruction fetch.
    Fetch,
}

/// One access by the guest, as its permission checks see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Access {
    /// What it does.
    pub kind: AccessKind,
    /// Whether the guest makes it from a (virtual) privileged mode, and not by an unprivileged load or store.
    pub privileged: bool,
}
