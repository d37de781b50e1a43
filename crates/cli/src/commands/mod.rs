//! The subcommands: their arguments, their help, and what of the library they call.

pub mod bench;
pub mod control;
pub mod gdb;
pub mod install;
pub mod line;
pub mod man;
pub mod pack;
pub mod profile;
pub mod prove;
pub mod run;
pub mod snapshot;
pub mod symbols;
pub mod top;
pub mod trace;
pub mod watch;

use clap::builder::RangedU64ValueParser;

/// A time to wait: some, but not longer than anybody would.
fn seconds() -> RangedU64ValueParser {
    clap::value_parser!(u64).range(1..=365 * 24 * 3600)
}
