//! Times programs and kernel operations in a guest, for `spica bench`.
//!
//! A static Linux program without a C library: what it adds to a measurement is a handful of instructions that we know,
//! and it is the same natively and under Spica. The clock is the guest's own, `CLOCK_MONOTONIC`.
//!
//! * `stopwatch run [-i FILE] [-o FILE] PROGRAM [ARGUMENT…]` runs a program to its end, with its standard input and
//!   output in files, and prints nanoseconds and exit status. The time begins before `fork` and ends after `wait`: a
//!   program is loaded, linked, run and taken down in it, as when a person waits for it.
//! * `stopwatch operation NAME [ENOUGH]` repeats one kernel operation for at least ENOUGH microseconds and prints the
//!   nanoseconds of one. It stands in for lmbench where that cannot be had, with the same definitions.
//! * `stopwatch profile NAME COUNT` does the same COUNT times and twice that, with places in between where a debugger
//!   can stop the board, for `spica profile`.
//! * `stopwatch probe NAME TIMES` runs a probe of the core, and prints the nanoseconds of one operation.
#![no_std]
#![no_main]

mod linux;
mod operations;
mod probes;
mod run;

use core::ffi::CStr;

use spica_freestanding::output::{ERROR, line};
use spica_freestanding::{Arguments, linux::exit};

/// The exit status for arguments that make no sense.
const USAGE: u32 = 2;

spica_freestanding::start!(run);

fn run(arguments: &Arguments) -> ! {
    match arguments.get(1).map(CStr::to_bytes) {
        Some(b"run") => run::run(arguments),
        Some(b"operation") => operations::run(arguments),
        Some(b"profile") => operations::profile(arguments),
        Some(b"probe") => probes::run(arguments),
        _ => usage(
            "stopwatch run [-i FILE] [-o FILE] PROGRAM... | stopwatch operation NAME [ENOUGH] | \
             stopwatch profile NAME COUNT | stopwatch probe NAME TIMES",
        ),
    }
}

/// Says how to use this program, and ends.
fn usage(text: &str) -> ! {
    line(ERROR, format_args!("usage: {text}"));
    exit(USAGE);
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    line(ERROR, format_args!("stopwatch: {}", info.message()));
    exit(1);
}
