//! Guest memory faults, and how the guest's fault status registers spell them.
//!
//! A [`Fault`] is what a guest walk answers when the bare core would have aborted. It stands at the end of the
//! abort path: the virtual CPU writes [`Fault::fsr`] into the guest's DFSR (or [`Fault::ifsr`] into its IFSR) and takes
//! the exception. The encodings are those of short descriptors (ARM ARM table B3-23), and of long ones (B3-24).
//!
//! The domain field of a DFSR is not always valid. Where the manual says UNKNOWN this encoder writes zero, so that the
//! same access always gives the same register and nothing of the host leaks through.

use super::regime::Regime;

/// What went wrong, one variant per fault source of ARM ARM table B3-23 that a guest can see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FaultKind {
    /// Misaligned access (data only).
    Alignment,
    /// Debug event (breakpoint, watchpoint, vector catch).
    Debug,
    /// No valid descriptor for the address.
    Translation,
    /// SCTLR.AFE is set and the descriptor's access flag is clear.
    AccessFlag,
    /// DACR gives no access to the descriptor's domain.
    Domain,
    /// The access permissions, or execute-never, forbid the access.
    Permission,
    /// The walk read a descriptor from an address where there is no memory.
    ExternalOnWalk,
    /// The access itself went to a physical address where nothing answers.
    External,
}

/// A fault as the guest is to see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fault {
    /// The source of the fault.
    pub kind: FaultKind,
    /// The domain (0..=15) of the descriptor that faulted; meaningful only where [`Fault::domain_valid`] says so. With
    /// long descriptors, `LONG` and the level of the descriptor, 0 to 3.
    pub domain: u8,
    /// True where the first-level descriptor decided (a section, a supersection, or no second level reached); false
    /// where the second-level descriptor did. Tells "first level" from "second level" status codes.
    pub section_level: bool,
}

/// See [`Fault::domain`].
const LONG: u8 = 1 << 4;

impl Fault {
    /// A fault of a long descriptor of this level.
    #[must_use]
    pub(super) const fn long(kind: FaultKind, level: u8) -> Self {
        Self { kind, domain: LONG | level, section_level: level < 3 }
    }

    /// The same fault as the guest sees it under `regime`.
    #[must_use]
    pub const fn under(self, regime: &Regime) -> Self {
        if regime.is_long() && self.domain & LONG == 0 { Self { domain: LONG, ..self } } else { self }
    }

    const fn is_long(&self) -> bool {
        self.domain & LONG != 0
    }

    /// The six-bit fault status of ARM ARM table B3-24.
    const fn long_status(&self) -> u32 {
        let level = (self.domain & 0b11) as u32;
        match self.kind {
            FaultKind::Translation => 0b00_0100 | level,
            FaultKind::AccessFlag => 0b00_1000 | level,
            FaultKind::Permission => 0b00_1100 | level,
            FaultKind::External => 0b01_0000,
            FaultKind::ExternalOnWalk => 0b01_0100 | level,
            FaultKind::Alignment => 0b10_0001,
            FaultKind::Debug => 0b10_0010,
            // There are none with long descriptors.
            FaultKind::Domain => 0b11_1101,
        }
    }

    /// A fault that did not come from a descriptor: alignment, debug event, or an external abort of the access itself.
    #[must_use]
    pub const fn without_descriptor(kind: FaultKind) -> Self {
        Self { kind, domain: 0, section_level: true }
    }

    /// Whether the DFSR's domain field means something for this fault: not where no descriptor with a domain was read
    /// (ARM ARM B3.13.3).
    #[must_use]
    pub const fn domain_valid(&self) -> bool {
        if self.is_long() {
            return false;
        }
        match self.kind {
            FaultKind::Alignment | FaultKind::Debug | FaultKind::External => false,
            FaultKind::Translation | FaultKind::ExternalOnWalk => !self.section_level,
            FaultKind::AccessFlag | FaultKind::Domain | FaultKind::Permission => true,
        }
    }

    /// The five-bit fault status FS\[4:0\] of ARM ARM table B3-23.
    #[must_use]
    pub const fn status(&self) -> u32 {
        let (first, second) = match self.kind {
            FaultKind::Alignment => (0b00001, 0b00001),
            FaultKind::Debug => (0b00010, 0b00010),
            FaultKind::AccessFlag => (0b00011, 0b00110),
            FaultKind::Translation => (0b00101, 0b00111),
            FaultKind::External => (0b01000, 0b01000),
            FaultKind::Domain => (0b01001, 0b01011),
            FaultKind::ExternalOnWalk => (0b01100, 0b01110),
            FaultKind::Permission => (0b01101, 0b01111),
        };
        if self.section_level { first } else { second }
    }

    /// The guest's DFSR after this fault (ARM ARM B4.1.52): FS in bits 10 and 3:0, the domain in 7:4 where it is
    /// valid, WnR in bit 11 for `write`. ExT (bit 12, implementation defined) and CM (LPAE only) are zero.
    #[must_use]
    pub const fn fsr(&self, write: bool) -> u32 {
        let domain = if self.domain_valid() { (self.domain as u32 & 0xf) << 4 } else { 0 };
        self.ifsr() | domain | (write as u32) << 11
    }

    /// The guest's IFSR after this fault (ARM ARM B4.1.96): as [`Fault::fsr`], without domain and WnR, which IFSR does
    /// not have.
    #[must_use]
    pub const fn ifsr(&self) -> u32 {
        if self.is_long() {
            return 1 << 9 | self.long_status();
        }
        let status = self.status();
        (status & 0x10) << 6 | (status & 0xf)
    }
}
