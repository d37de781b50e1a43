//! Which lines of a guest's memory are used by several of its contexts, one of which writes: marks that translated code
//! looks at, and records of who used what.
//!
//! A *line* is 64 bytes of RAM, as of a cache. A *context* is who uses memory: a process, interrupts, a device
//! ([`Context`]). Each line has a byte, its mark. Two bits of it have loads and stores trap: a line with both is
//! *closed*. So the first load and the first store of a line in a context come to Rust, which notes who that was, and
//! opens the line for the rest; when another context begins, what was opened is closed again ([`Lines::enter`]). Behind
//! an interrupt, what it has not used is opened as it was ([`Lines::resume`]).
//!
//! As long as one context alone has used a line, or several have only read it, the other six bits of its byte say so,
//! and no memory is needed beyond that. With the second context, if one of them has written, the line gets a record
//! ([`Shared`]).
//!
//! Nothing here grows: the memory is given at the start ([`Lines::new`]), and what is done in one go has a bound.

#![no_std]

mod context;
mod lines;
mod table;

pub use context::{Context, Device, MOST_PROCESSES, Processes};
pub use lines::{Lines, MOST_OPEN, State, Use, memory_bytes};
pub use table::{MOST_USERS, Shared, User};

/// Bytes of a line.
pub const LINE: u32 = 64;
/// The most RAM that has lines. Where it is mapped begins at a multiple of that, so that where an address has its mark
/// is in its low bits.
pub const MOST_BYTES: u32 = 512 << 20;
/// The bit of a mark that has loads trap, and the one that has stores trap, as numbers.
pub const LOADS: u32 = 0;
/// See [`LOADS`].
pub const STORES: u32 = 1;
