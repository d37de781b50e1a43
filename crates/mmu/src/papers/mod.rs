//! What others do, to be compared with what Spica does: ARMvisor's single shadow table ([`Separation::Domains`]), and
//! guest tables that are write-protected, with a reverse map ([`Tracking::Writes`]). Feature `papers`; `absent.rs`
//! stands here without it, and has the same for the rest of the crate.

pub mod separation;
mod tracked;

pub use separation::Separation;
pub(crate) use tracked::Tracked;
pub use tracked::{TRACKED_BYTES, Tracking};
