//! What others have measured, to be compared with what Spica does: STAR's ways to spill registers ([`spilling`]) and
//! its shadow stack ([`returns`]), write-protected guest tables ([`tables`]), and ARMvisor's single shadow table
//! ([`SEPARATION`]).
//!
//! Feature `papers`, never in an image that is shipped: some of it is unsafe by nature. `absent.rs` stands here without
//! it, and has the same for the rest of the image. docs/papers.md has what was compared, and with what result.

mod returns;
mod spilling;
mod tables;

use alloc::format;
use alloc::string::String;

use spica_dbt::Spill;
use spica_mmu::{Separation, by_domains};

use spica_options::Options;

pub use returns::{Returns, closed_return};
pub use spilling::{CoreRegister, SPILL, SharedSlot, spilled};
pub use tables::{record_bytes, release_table, set_tracking, table_written, tracks_writes, write_to_table};

/// The assembly that goes with [`spilling`]. What compares the handlers in assembly with those in Rust spills to the
/// vCPU page alone, and has the handlers as they are shipped.
#[cfg(not(feature = "check-fast-paths"))]
macro_rules! spilling_assembly {
    () => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/papers/spill.s"))
    };
}
#[cfg(feature = "check-fast-paths")]
macro_rules! spilling_assembly {
    () => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/papers/absent.s"))
    };
}
pub(crate) use spilling_assembly;

/// How shadow tables keep kernel and user code apart. `fast.s` and `faults.s` are assembled for one way: so it is not
/// chosen at run time.
pub const SEPARATION: Separation =
    if cfg!(feature = "single-table") { Separation::Domains } else { Separation::Tables };

/// For assembly: whether kernel and user code are kept apart by domains; the bits of client of the domains that both
/// have, and what is added to one for what the kernel alone may reach.
pub const BY_DOMAINS: (u32, u32, u32) =
    (SEPARATION as u32, by_domains::assembly::SHARED_CLIENTS, by_domains::assembly::PRIVILEGED_ALONE);

/// What is asked for must be what this image has, and what so many guests can have.
pub fn check(options: &Options, guests: usize) -> Result<(), String> {
    if options.single_table.is_some_and(|single| single != (SEPARATION == Separation::Domains)) {
        return Err(if SEPARATION == Separation::Domains {
            "tables=double: this image has the feature single-table; it takes one without".into()
        } else {
            "tables=single: this image has tables=double; it takes one with the feature single-table".into()
        });
    }
    let spills = [Some(options.switches), options.boot_switches].into_iter().flatten();
    match spills.map(|switches| switches.translation.spill).find(|&spill| spill != Spill::VcpuPage) {
        Some(spill) if guests != 1 => {
            let name = spill.name();
            Err(format!("spill={name}: such a technique is for one guest alone, and there are {guests}"))
        }
        _ => Ok(()),
    }
}
