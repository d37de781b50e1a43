//! What becomes of a benchmark run: the file that it leaves behind, and all that is read out of that file.
//!
//! Spica is measured against the bare board: the same board, kernel and initramfs run natively and as Spica's guest
//! under QEMU's `-icount`, where guest time counts executed instructions and the same run gives the same figure
//! everywhere. The command that starts those runs lives in the `spica` command; this crate is the part that needs no
//! board, no QEMU and no file system: text in, text out, so that all of it can be tested against figures worked out by
//! hand.
//!
//! * [`results`]: the machine-readable result file, its checks, and how an interrupted run is resumed;
//! * [`catalogue`]: the names that the runner and the report share;
//! * [`events`]: the names of what is counted beside instructions: traps by class, and architectural events;
//! * [`compare`]: what changed between two result files;
//! * [`mod@format`]: how numbers are written;
//! * [`model`]: from counts to cycles on a Cortex-A8 and a Cortex-A9, after ARMvisor;
//! * [`boards`]: what others measured on real boards;
//! * [`papers`]: what STAR and ARMvisor report, with where they say so;
//! * [`report`]: tables in Markdown, and a page in HTML with the papers' figures redrawn from our data.

pub mod boards;
pub mod catalogue;
pub mod compare;
pub mod events;
pub mod format;
pub mod model;
pub mod papers;
pub mod report;
pub mod results;
