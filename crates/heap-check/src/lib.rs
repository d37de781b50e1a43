//! Which objects of a kernel's heap may be accessed: marks that translated code looks at, records of objects, and what
//! was done wrong with them.
//!
//! A *mark* is a bit for each 8 bytes of the kernel's linear map. Where it is set, an access may be wrong, and whoever
//! asked looks at the records ([`Heap::check`]); where it is not, the access is right, or nothing is known of the
//! memory. So an object whose record had to make room for another's is forgotten, and never reported.
//!
//! Nothing here grows: the memory is given at the start ([`Heap::new`]), and is shared out by its size.

#![no_std]

mod calls;
mod errors;
mod heap;

pub use calls::{Call, Calls};
pub use errors::{Error, Errors, MOST_ERRORS};
pub use heap::{Content, Freed, Heap, Kind, Object, State, Wrong};

/// Bytes that one mark stands for: what SLUB aligns objects to, at least (`ARCH_SLAB_MINALIGN` of ARM).
pub const GRANULE: u32 = 8;
/// Bytes of the linear map that one byte of marks stands for.
pub const MARKED: u32 = 8 * GRANULE;
/// The most bytes of the linear map that have marks. It begins at a multiple of that, so that where an address has its
/// mark is in its low bits.
pub const MOST_BYTES: u32 = 512 << 20;
/// The largest object that is known: SLUB's slabs have 8 pages at most.
pub const MOST_SIZE: u32 = 32 << 10;
