//! The guest's MMU: what its translation tables say, what its fault registers hold, and the shadow tables that make
//! the real MMU do the same.
//!
//! Where this stands in the life of a trap: a data or prefetch abort arrives, the world switch has saved the guest's
//! registers, and somebody must decide whose fault it is. [`Shadow::fill`] walks the guest's own tables
//! ([`guest::walk`]) and answers: the guest's (then [`Fault`] encodes the guest's DFSR or IFSR), or ours (then a shadow
//! entry was missing and now exists), or a device's, or a write to a page from which code was translated.
//!
//! Everything here is pure logic over traits: [`GuestMemory`] to read guest tables, [`TableMemory`] to hold shadow
//! tables, [`HostTlb`] to forget stale translations. It knows the *format* of ARMv7-A short descriptors on both sides
//! but touches no machine register, so that all of it is tested on the development machine against slow models. What
//! the guest's tables look like is known to [`guest`] alone, what the shadow's look like to `host.rs` alone.
//!
//! Sources: ARM DDI 0406C ("ARM ARM"), chapter B3 (VMSA) and B4 (registers).
#![no_std]
#![deny(missing_docs)]

extern crate alloc;

mod absent;
pub mod assembly;
mod bitmap;
mod common;
pub mod fast_fill;
mod fill;
pub mod guest;
mod host;
#[cfg_attr(not(feature = "papers"), path = "papers/absent.rs")]
mod papers;
mod piece;
mod pool;
mod protect;
mod ram;
mod rom;
mod separation;
mod shadow;
mod space;
mod stats;
mod table;
mod trapped;
mod watched;

pub use fast_fill::FastFill;
pub use fill::Fill;
pub use guest::fault::{Fault, FaultKind};
pub use guest::regime::{Access, AccessKind, DomainAccess, Regime};
pub use guest::walk::{
    GuestMemory, Mapping, PageSize, Permission, find_mapped, first_level_descriptor, has_no_descriptors, lookup,
    translate,
};
pub use papers::Separation;
#[cfg(feature = "papers")]
pub use papers::{TRACKED_BYTES, Tracking, separation as by_domains};
pub use pool::Pool;
pub use ram::{Chunk, MAX_ALIASED, MAX_ROMS, RamError};
pub use separation::HostDacr;
pub use shadow::{Changed, Config, ConfigError, Root, Shadow};
pub use space::View;
pub use stats::Stats;
pub use table::{FIRST_LEVEL_BYTES, HostTlb, OutOfTables, SECOND_LEVEL_BYTES, Table, TableMemory};
pub use trapped::MOST_TRAPPED;
pub use watched::PAGEWISE_FROM;
