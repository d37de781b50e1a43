//! Numbers that a hypervisor's trap handlers in assembly share with the shadow tables: descriptors, hints, domains.

use core::mem::offset_of;

use crate::host::{self, OWN_DOMAIN};
use crate::ram::{Hint, KNOWN, RETURNS, Several};
use crate::separation::client;

/// A small page that is read-only and executable, without its address.
pub const PAGE: u32 = host::PAGE;
/// In a small page: writable, too.
pub const PAGE_WRITABLE: u32 = host::PAGE_WRITABLE;
/// In a small page: not executable.
pub const PAGE_XN: u32 = host::PAGE_XN;
/// In a section: writable, too.
pub const SECTION_WRITABLE: u32 = host::SECTION_WRITABLE;

/// The hint of a page that is mapped writable nowhere: see [`Shadow::page_hints`](crate::Shadow::page_hints).
pub const HINT_NOWHERE: u32 = Hint::NOWHERE.0;
/// Of one that may be anywhere.
pub const HINT_ANYWHERE: u32 = Hint::ANYWHERE.0;
/// Of one that is mapped writable nowhere and may not be, or is not there.
pub const HINT_GUARDED: u32 = Hint::GUARDED.0;
/// Beside the number of a virtual page: and at its linear address.
pub const HINT_AND_LINEAR: u32 = Hint::AND_LINEAR;
/// Beside the number of an entry of [`Shadow::aliases`](crate::Shadow::aliases): at the addresses that it has.
pub const HINT_ALIASED: u32 = Hint::ALIASED;

/// Numbers of virtual pages in an entry of [`Shadow::aliases`](crate::Shadow::aliases), from its first word on.
pub const ALIASES_KNOWN: usize = KNOWN;
/// Where in it the count of mappings that came back is.
pub const ALIASES_RETURNS: usize = offset_of!(Several, returns);
/// Bytes of it.
pub const ALIASES_BYTES: usize = size_of::<Several>();
/// At so many mappings that came back, and each power of two from there on, it is for Rust.
pub const ALIASES_LOOK: u32 = RETURNS;
/// No number of a page.
pub const UNUSED: u32 = crate::ram::UNUSED;

/// In a DACR: the bits of client (and of manager) of all domains that are a guest's.
pub const CLIENTS: u32 = 0x5555_5555 & !client(OWN_DOMAIN);

/// The domain of all entries of the user view, where tables keep the views apart.
pub const USER_VIEW_DOMAIN: u32 = OWN_DOMAIN as u32;

const _: () = assert!(offset_of!(Several, numbers) == 0);
