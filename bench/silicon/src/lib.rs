//! A plugin for QEMU 10 that feeds the checker of what an emulator forgives (`spica_silicon`).
//!
//! QEMU calls the plugin for each instruction that it executes and for each access to memory that succeeds. The plugin
//! gives both to the checker, which reads tables where QEMU keeps the board's memory, and registers when it needs them.
//! Nothing in the guest can notice, and `-icount` counts what it counted before.
//!
//! Arguments, as `-plugin file=…,NAME=VALUE,…` gives them:
//!
//! | argument | meaning |
//! |---|---|
//! | `report=FILE` | where the report is written ([`spica_silicon::Report::text`]) |
//! | `core=a8`, `core=a9` | the core |
//! | `ram=ADDRESS:BYTES` | where the board's memory is |
//!
//! The report is written anew whenever something was found in a new place, now and then, and at QEMU's end; it takes
//! the place of the old one as a whole, so whoever reads it finds all of one.

// Its symbols are QEMU's own: no test program has them.
#[cfg(not(test))]
mod qemu;

#[cfg(not(test))]
pub use qemu::{qemu_plugin_install, qemu_plugin_version};
