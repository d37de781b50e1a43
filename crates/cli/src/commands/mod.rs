//! The subcommands: their arguments, their help, and what of the library they call.

pub mod bench;
pub mod control;
pub mod pack;
pub mod profile;
pub mod prove;
pub mod run;
