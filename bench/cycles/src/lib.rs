//! A plugin for QEMU 10 that feeds the model of time (`spica_cycles`).
//!
//! QEMU calls the plugin for each instruction that it executes and for each access to memory. The plugin knows what the
//! instruction is, because it looked when QEMU translated it, and gives both to the model. Tables are read where QEMU
//! keeps the board's memory; the registers of CP15, when an instruction that writes one was executed.
//!
//! Nothing in the guest can notice, and `-icount` counts what it counted before.
//!
//! Arguments, as `-plugin file=…,NAME=VALUE,…` gives them:
//!
//! | argument | meaning |
//! |---|---|
//! | `counts=FILE` | where the counts are: numbers of 64 bits, in the order of [`spica_cycles::Count`] |
//! | `core=a8`, `core=a9` | the core |
//! | `ram=ADDRESS:BYTES` | where the board's memory is |
//! | `places=FILE` | where it is noted what is due to each instruction, see [`spica_cycles::ledger`] |
//! | `code=FILE` | where pages of the code cache are copied to, see [`spica_profile::area`] |
//! | `from=ADDRESS` | nothing is modelled before the instruction there; without it, all is |
//!
//! The files are mapped. Counts are written at each return from an exception: where a guest's program begins,
//! which a debugger stops it at, they are those of all before it. What is due to an instruction is written at once.

// Its symbols are QEMU's own: no test program has them.
#[cfg(not(test))]
mod qemu;

#[cfg(not(test))]
pub use qemu::{qemu_plugin_install, qemu_plugin_version};
