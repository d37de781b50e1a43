//! The descriptors that shadow tables are made of.
//!
//! The host runs with SCTLR.AFE = 0, TRE = 0 and TTBCR = 0, so these are plain short descriptors. Every one is:
//!
//! * *non-global*: two guests, and two views of one guest, differ in nothing but the ASID;
//! * *normal, write-back, write-allocate, not shareable* (TEX = 001, C = B = 1, S = 0), whatever the guest asked for:
//!   only guest RAM is ever mapped, and one memory type for all of it rules out mismatched aliases;
//! * readable by USR mode. What the guest's mode may not read has no entry at all, so AP is either 0b011 (read/write)
//!   or 0b010 (read-only for USR). The hypervisor can write through both: its own stores to guest addresses must be
//!   unprivileged (`STRT`), or they pass the write protection of code pages.

use crate::table::{SECOND_LEVEL_BYTES, Table};
use spica_addr::HostPa;

/// Host domain of the hypervisor's own mappings; also of guest mappings whose domain was resolved at fill time.
pub(crate) const OWN_DOMAIN: u8 = 15;

const SECTION: u32 = 0b10 | 0b11 << 2 | 0b001 << 12 | 0b10 << 10 | 1 << 17;
pub(crate) const SECTION_WRITABLE: u32 = 1 << 10;
const SECTION_XN: u32 = 1 << 4;

pub(crate) const PAGE: u32 = 0b10 | 0b11 << 2 | 0b001 << 6 | 0b10 << 4 | 1 << 11;
pub(crate) const PAGE_WRITABLE: u32 = 1 << 4;
pub(crate) const PAGE_XN: u32 = 1 << 0;

const TABLE: u32 = 0b01;

/// A section at `base` (a multiple of 1 MiB).
pub(crate) const fn section(base: HostPa, domain: u8, writable: bool, xn: bool) -> u32 {
    SECTION
        | base.0 & 0xfff0_0000
        | (domain as u32) << 5
        | if writable { SECTION_WRITABLE } else { 0 }
        | if xn { SECTION_XN } else { 0 }
}

/// A small page at `base` (a multiple of 4 KiB).
pub(crate) const fn page(base: HostPa, writable: bool, xn: bool) -> u32 {
    PAGE | base.0 & 0xffff_f000 | if writable { PAGE_WRITABLE } else { 0 } | if xn { PAGE_XN } else { 0 }
}

/// How many entries of a second-level table a large page has, all the same (B3.5.1).
pub(crate) const LARGE: usize = 16;
const LARGE_PAGE: u32 = 0b01 | 0b11 << 2 | 0b001 << 12 | 0b10 << 4 | 1 << 11;
const LARGE_PAGE_XN: u32 = 1 << 15;

/// A large page at `base` (a multiple of 64 KiB) that is read-only, and may be executed.
pub(crate) const fn large_page(base: HostPa) -> u32 {
    LARGE_PAGE | base.0 & 0xffff_0000
}

/// Whether a second-level entry of ours is one of a large page.
pub(crate) const fn is_large_page(word: u32) -> bool {
    word & 0b11 == 0b01
}

/// The entries that go with the one at `index`, which reads `word`: all of its large page, or it alone. A TLB has no
/// more than one entry of these.
pub(crate) const fn entries_with(word: u32, index: usize) -> core::ops::Range<usize> {
    let first = index & !(LARGE - 1);
    if is_large_page(word) { first..first + LARGE } else { index..index + 1 }
}

/// A first-level descriptor that points to a second-level table.
pub(crate) const fn table(table: Table, domain: u8) -> u32 {
    TABLE | table.pa.0 & 0xffff_fc00 | (domain as u32) << 5
}

/// What a first-level entry of ours is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum FirstLevel {
    Invalid,
    Section { base: HostPa, writable: bool },
    Table { table: Table, domain: u8 },
}

impl FirstLevel {
    pub(crate) const fn decode(word: u32) -> Self {
        match word & 0b11 {
            0b00 => Self::Invalid,
            0b01 => Self::Table {
                table: Table { pa: HostPa(word & 0xffff_fc00), bytes: SECOND_LEVEL_BYTES },
                domain: (word >> 5 & 0xf) as u8,
            },
            _ => Self::Section { base: HostPa(word & 0xfff0_0000), writable: word & SECTION_WRITABLE != 0 },
        }
    }
}

/// Whether a second-level entry of ours maps the page at `base` writable.
pub(crate) const fn is_writable_page(word: u32, base: HostPa) -> bool {
    word & 0b10 != 0 && word & PAGE_WRITABLE != 0 && word & 0xffff_f000 == base.0
}

/// Whether a second-level entry of ours maps a page that User mode may execute.
pub(crate) const fn is_executable_page(word: u32) -> bool {
    word & 0b10 != 0 && word & PAGE_XN == 0 || is_large_page(word) && word & LARGE_PAGE_XN == 0
}

/// The same entry without write permission.
pub(crate) const fn read_only_page(word: u32) -> u32 {
    word & !PAGE_WRITABLE
}
