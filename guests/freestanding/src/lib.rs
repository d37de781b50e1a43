//! What our Linux programs for guests have in common: how they start, system calls, signals, printing.
//!
//! They are static programs without a C library: Debian's guest has none, and here every instruction and every system
//! call is known, which is what tests and measurements want. The tests' program is in `tests/guest/programs`, that of
//! the benchmarks in `bench/linux/program`; both are built for `armv7a-none-eabi`, and so is this crate with them.
#![no_std]

pub mod linux;
pub mod output;
pub mod signals;

use core::ffi::CStr;

/// Defines `_start`, which calls this function with the [`Arguments`].
#[macro_export]
macro_rules! start {
    ($main:path) => {
        core::arch::global_asm!(
            ".arm",
            ".global _start",
            "_start:",
            "mov r0, sp",
            "bic sp, sp, #7", // The procedure call standard wants it so.
            "bl {main}",
            "udf #0",
            main = sym start,
        );

        extern "C" fn start(stack: *const usize) -> ! {
            let main: fn(&$crate::Arguments) -> ! = $main;
            // SAFETY: it is what the kernel left.
            main(&unsafe { $crate::Arguments::new(stack) })
        }
    };
}

/// What a program was started with: arguments and environment, each ended by a null.
#[derive(Clone, Copy)]
pub struct Arguments {
    /// The addresses of the arguments.
    first: *const *const u8,
    /// How many there are.
    count: usize,
}

impl Arguments {
    /// From what the kernel leaves on the stack at the program's start: the number of arguments, then their addresses.
    ///
    /// # Safety
    /// It must be that.
    #[must_use]
    pub unsafe fn new(stack: *const usize) -> Self {
        // SAFETY: by the contract.
        unsafe { Self { first: stack.add(1).cast(), count: *stack } }
    }

    /// One argument; `None` behind the last.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<&'static CStr> {
        if index >= self.count {
            return None;
        }
        // SAFETY: the kernel put that many addresses of NUL-terminated strings there, which stay.
        Some(unsafe { CStr::from_ptr((*self.first.add(index)).cast()) })
    }

    /// The list from one argument on, as `execve` takes it.
    #[must_use]
    pub fn from(&self, index: usize) -> *const *const u8 {
        // SAFETY: at most the null behind the last argument.
        unsafe { self.first.add(index.min(self.count)) }
    }

    /// The environment, as `execve` takes it.
    #[must_use]
    pub fn environment(&self) -> *const *const u8 {
        // SAFETY: the kernel put it behind the arguments' null.
        unsafe { self.first.add(self.count + 1) }
    }
}
