//! The `spica` command's side of this terminal: a guest's console on it, progress, and the summary of the tests.
//!
//! What boots boards and measures on them is the crate `spica-runner`, which knows no terminal.

pub mod allocator;
pub mod attached;
pub mod counts;
pub mod cycles;
pub mod debugger;
pub mod edges;
pub mod heap;
pub mod interactive;
pub mod kernel_code;
pub mod lines;
pub mod sharing;
pub mod signals;
pub mod snapshot;
pub mod stacks;
pub mod suite;
pub mod switching;
pub mod symbols;
pub mod tasks;
pub mod terminal;
pub mod times;
pub mod top;
pub mod tracer;
pub mod unwind;
