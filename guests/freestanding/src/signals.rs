//! Handlers of signals.

use core::arch::global_asm;

use crate::linux::{call, number};

/// Numbers of signals, by their names in Linux.
#[expect(missing_docs, reason = "the names are the kernel's")]
pub mod signal {
    pub const ILL: u32 = 4;
    pub const TRAP: u32 = 5;
    pub const BUS: u32 = 7;
    pub const USR1: u32 = 10;
    pub const SEGV: u32 = 11;
    pub const ALRM: u32 = 14;
}

/// The signal is not masked while its handler runs: the handler need not return.
pub const NODEFER: u32 = 0x4000_0000;

/// Linux's `struct sigaction`.
#[repr(C)]
struct SignalAction {
    handler: u32,
    flags: u32,
    restorer: u32,
    mask: [u32; 2],
}

unsafe extern "C" {
    fn signal_return();
}

global_asm!(
    ".arm",
    "signal_return:",
    "mov r7, #173", // rt_sigreturn
    "svc #0",
);

/// Installs the handler at an address, which gets the signal's number, Linux's `siginfo_t` and `struct ucontext`; with
/// flags besides those that this takes.
///
/// # Panics
/// If there is no such signal.
#[inline]
pub fn install(signal: u32, handler: u32, flags: u32) {
    const SIGINFO: u32 = 4;
    const RESTORER: u32 = 0x0400_0000;
    let restorer = signal_return as *const () as u32;
    let action = SignalAction { handler, flags: SIGINFO | RESTORER | flags, restorer, mask: [0, 0] };
    let mask_size = size_of::<[u32; 2]>() as u32;
    // SAFETY: the kernel only reads the structure, which is as it expects.
    let result = unsafe { call(number::RT_SIGACTION, [signal, (&raw const action) as u32, 0, mask_size, 0, 0]) };
    assert_eq!(result, 0, "sigaction");
}
