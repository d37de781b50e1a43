//! A plugin for QEMU that counts executed instructions by what they would cost on silicon, and traps by their class.
//!
//! QEMU asks the plugin about each block of instructions when it translates it. The plugin decides then, once, what
//! each instruction counts as (the module `classify`), and QEMU adds one to a counter whenever that instruction is
//! executed. Nothing in the guest can notice, and `-icount` counts what it counted before, so the figures of a boot
//! with the plugin are those of one without.
//!
//! Arguments, as `-plugin file=…,NAME=VALUE,…` gives them:
//!
//! | argument | meaning |
//! |---|---|
//! | `counts=FILE` | where the counters are: [`COUNTERS`] numbers of 64 bits, in the order of `events::place` |
//! | `profile=FILE` | instead or as well: a counter for each word of code, see `spica_profile::area` |
//! | `enter=ADDRESS:KIND`, `leave=ADDRESS` | with it: where Rust is entered, by kind of trap, and where it is left |
//! | `at=ADDRESS:COUNTER` | one more of that counter whenever the instruction at this address is executed |
//! | `traps=on` | translated code runs here: its `SVC`s are traps, and `at` counts all of them as coprocessor traps at their vector |
//!
//! The file is mapped, so whoever started QEMU can read the counters at any time; they are exact while the board stands
//! still.
//!
//! What is counted is that an instruction begins, whether its condition holds or not, and once more if it is begun
//! again after a fault. Thumb code is not looked at: only user programs have it, which run as they are on both sides.
//! QEMU does not say which instructions are Thumb; see `classify::is_thumb`.

mod classify;
mod slow;
// Its symbols are QEMU's own: no test program has them.
#[cfg(not(test))]
mod qemu;

#[cfg(not(test))]
pub use qemu::{qemu_plugin_install, qemu_plugin_version};

/// How many counters there are.
pub const COUNTERS: usize = spica_bench::events::COUNTERS;
