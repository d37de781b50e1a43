//! Times programs and kernel operations in a guest, for `spica bench`.
//!
//! A static Linux program without a C library: what it adds to a measurement is a handful of instructions that we know,
//! and it is the same natively and under Spica. The clock is the guest's own, `CLOCK_MONOTONIC`.
//!
//! * `stopwatch run [-i FILE] [-o FILE] PROGRAM [ARGUMENT…]` runs a program to its end, with its standard input and output
//!   in files, and prints nanoseconds and exit status. The time begins before `fork` and ends after `wait`: a program is
//!   loaded, linked, run and taken down in it, as when a person waits for it.
//! * `stopwatch operation NAME [ENOUGH]` repeats one kernel operation for at least ENOUGH microseconds and prints the
//!   nanoseconds of one. It stands in for lmbench where that cannot be had, with the same definitions.
#![no_std]
#![no_main]

mod linux;
mod operations;
mod output;
mod run;

use core::ffi::CStr;

core::arch::global_asm!(
    ".arm",
    ".global _start",
    "_start:",
    "mov r0, sp",
    "bic sp, sp, #7", // The procedure call standard wants it so.
    "bl {main}",
    "udf #0",
    main = sym main,
);

/// The exit status for arguments that make no sense.
const USAGE: u32 = 2;

/// What the program was started with: arguments and environment, each ended by a null.
#[derive(Clone, Copy)]
pub struct Arguments {
    /// The addresses of the arguments.
    first: *const *const u8,
    /// How many there are.
    count: usize,
}

impl Arguments {
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

/// `stack` is what the kernel left at the program's start: the number of arguments, then their addresses.
extern "C" fn main(stack: *const usize) -> ! {
    // SAFETY: the kernel put them there.
    let arguments = unsafe { Arguments { first: stack.add(1).cast(), count: *stack } };
    match arguments.get(1).map(CStr::to_bytes) {
        Some(b"run") => run::run(&arguments),
        Some(b"operation") => operations::run(&arguments),
        _ => usage("stopwatch run [-i FILE] [-o FILE] PROGRAM... | stopwatch operation NAME [ENOUGH]"),
    }
}

/// Says how to use this program, and ends.
fn usage(text: &str) -> ! {
    output::line(2, format_args!("usage: {text}"));
    linux::exit(USAGE);
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    output::line(2, format_args!("stopwatch: {}", info.message()));
    linux::exit(1);
}
