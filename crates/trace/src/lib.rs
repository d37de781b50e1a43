//! Timelines of what guests do: from the board's records to files that people look at.
//!
//! The board records what happens ([`spica_trace_ring`]); [`Timeline`] makes of that what each guest did when, in rows
//! of spans and points; [`perfetto`] writes them for Perfetto's viewer, [`page`] as a page that needs no other file,
//! [`summary`] as a table. [`calls`] makes lines of what was recorded of system calls alone.

pub mod calls;
pub mod names;
pub mod page;
pub mod perfetto;
mod state;
pub mod summary;
mod timeline;

pub use timeline::{Details, Point, Recording, Row, Span, Subject, Timeline, Value};
