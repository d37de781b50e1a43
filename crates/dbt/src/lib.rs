//! The dynamic binary translator: guest kernel code in, code that is safe and exact in User mode out.
//!
//! In the life of a trap: the world switch finds that the guest's kernel must go on at some guest PC;
//! [`Translator::lookup`] finds its block or [`Translator::translate`] makes one. The block runs in the code cache
//! until one of its exits (`SVC`, see [`trap`]) or a fault leaves it; [`Translator::locate`] then says which guest
//! instruction a code-cache address stands for. Direct branches between blocks are linked at their first use and
//! unlinked when either end goes, or when an interrupt must be delivered at the next block boundary.
//!
//! One file per class of instruction under `rules`, one switch per optimisation in [`Options`]. The layout of the code
//! cache is that of [`layout`]: code pages alternate with the vCPU page.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod at;
mod block;
mod breakpoints;
mod cache;
pub mod checks;
mod client;
pub mod code_map;
pub mod edges;
mod emit;
mod guest_pages;
pub mod in_place;
pub mod jump_cache;
pub mod layout;
mod located;
pub mod looks;
mod options;
pub mod originals;
#[cfg_attr(not(feature = "papers"), path = "papers/absent.rs")]
mod papers;
pub mod preemptive_flush;
mod records;
pub mod return_mirror;
mod rules;
pub mod trap;
pub mod twins;
pub mod volatile;

pub use block::{LAST_HALF_WORD, Location, Undo};
pub use breakpoints::MOST_BREAKPOINTS;
pub use cache::{BlockId, Capacity, CodeMemory, ExitId, NextPage, Start, Stats, Translator, is_across};
pub use client::{Counted, Counters, Run};
pub use options::{Options, Spill};
#[cfg(feature = "papers")]
pub use papers::shadow_stack;
pub use papers::{lacking, spill};
