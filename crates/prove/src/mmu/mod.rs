//! The MMU: shadow tables and the guest's walk, against models that are slow and obvious.

#![allow(missing_docs, reason = "named after the manual, and after what a core has")]

pub mod model;
mod shadow;
pub mod sim;
mod walk;
mod world;

pub use shadow::Shadow;
pub use walk::Walk;
