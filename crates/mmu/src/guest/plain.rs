//! The walk of tables as they are most of the time: for small pages of a client domain, where the tables are
//! little-endian, all of them under TTBR0, and have no access flag. It is two loads and some tests; what is anything
//! else is left to [`walk`](super::walk).

use super::fault::{Fault, FaultKind};
use super::regime::{AccessKind, DomainAccess, Regime, SCTLR_AFE, SCTLR_EE, SCTLR_M, TTBCR_EAE, TTBCR_PD0};
use super::walk::{GuestMemory, Permission, decode_ap};
use spica_addr::{GuestPa, GuestVa};

const XN: u32 = 1 << 0;
const SMALL: u32 = 1 << 1;
const NOT_GLOBAL: u32 = 1 << 11;

/// Whether guest tables have the form that [`Shadow::fast_fill`](crate::Shadow::fast_fill) can read: little-endian, all
/// of it under TTBR0, no access flag.
#[must_use]
pub const fn is_plain(regime: &Regime) -> bool {
    regime.sctlr & (SCTLR_M | SCTLR_EE | SCTLR_AFE) == SCTLR_M && regime.ttbcr & (0b111 | TTBCR_PD0 | TTBCR_EAE) == 0
}

/// What plain tables say about an access.
pub(crate) enum Plain {
    /// It is permitted, by this.
    Page(Page),
    /// The guest's fault.
    Fault(Fault),
    /// Ask [`lookup`](super::walk::lookup).
    Other,
}

/// A small page of a client domain.
pub(crate) struct Page {
    pub pa: GuestPa,
    pub global: bool,
    pub domain: u8,
    /// What the access's own privilege may do.
    pub permission: Permission,
    /// What unprivileged accesses may do.
    pub user: Permission,
    pub xn: bool,
}

/// What the tables at `ttbr0` say about an access to `va`. They [are plain](is_plain). Privileged fetches are not for
/// here. Whoever calls it wants one kind of access, and most of what is found is for others: so it is inlined.
#[inline(always)]
pub(crate) fn walk(
    mem: &impl GuestMemory,
    (ttbr0, dacr): (u32, u32),
    va: GuestVa,
    kind: AccessKind,
    privileged: bool,
) -> Plain {
    let Some(l1) = mem.read_word(GuestPa(ttbr0 & !0x3fff | va.0 >> 20 << 2)) else { return Plain::Other };
    let domain = (l1 >> 5 & 0xf) as u8;
    let second = |kind| Plain::Fault(Fault { kind, domain, section_level: false });
    match l1 & 0b11 {
        0b00 => return Plain::Fault(Fault { kind: FaultKind::Translation, domain: 0, section_level: true }),
        0b01 => {}
        _ => return Plain::Other,
    }
    let Some(l2) = mem.read_word(GuestPa(l1 & 0xffff_fc00 | va.0 >> 10 & 0x3fc)) else { return Plain::Other };
    if l2 & 0b11 == 0 {
        return second(FaultKind::Translation);
    }
    if l2 & SMALL == 0 || DomainAccess::of(dacr, domain) != DomainAccess::Client {
        return Plain::Other;
    }
    let (user, kernel) = decode_ap(l2 >> 7 & 0b100 | l2 >> 4 & 0b11, false);
    let xn = l2 & XN != 0;
    let permission = if privileged { kernel } else { user };
    let permitted = match kind {
        AccessKind::Read => permission != Permission::None,
        AccessKind::Write => permission == Permission::ReadWrite,
        AccessKind::Fetch if privileged => return Plain::Other,
        AccessKind::Fetch => permission != Permission::None && !xn,
    };
    if !permitted {
        return second(FaultKind::Permission);
    }
    let global = l2 & NOT_GLOBAL == 0;
    Plain::Page(Page { pa: GuestPa(l2 & 0xffff_f000), global, domain, permission, user, xn })
}

/// Where a privileged store to `va` goes, if a small page of a client domain permits it. The guest's tables, at
/// `ttbr0`, [are plain](is_plain).
#[must_use]
pub fn stores_to(mem: &impl GuestMemory, (ttbr0, dacr): (u32, u32), va: GuestVa) -> Option<GuestPa> {
    match walk(mem, (ttbr0, dacr), va, AccessKind::Write, true) {
        Plain::Page(page) => Some(GuestPa(page.pa.0 | va.0 & 0xfff)),
        Plain::Fault(_) | Plain::Other => None,
    }
}
