//! What a guest's user program can see of its machine.
//!
//! A static Linux program without a C library: Debian's guest has none either, and here every instruction and every
//! system call is the one that the test means. `probe NAME` runs one test and prints what it saw; the end-to-end tests
//! know what that must be, and run the same program without Spica to learn whether they are right. A test that can
//! judge by itself prints `ok`, or says what is wrong and exits with status 1.
#![no_std]
#![no_main]

mod bpf;
mod faults;
mod float;
mod memory;
mod processes;
mod signals;

use core::ffi::CStr;
use core::fmt;

use spica_freestanding::{Arguments, linux, output};

/// Every test, by name.
const TESTS: &[(&str, fn())] = &[
    ("null-read", faults::null_read),
    ("null-write", faults::null_write),
    ("null-call", faults::null_call),
    ("text-write", faults::text_write),
    ("stack-execute", faults::data_execute),
    ("kernel-read", faults::kernel_read),
    ("kernel-write", faults::kernel_write),
    ("kernel-call", faults::kernel_call),
    ("undefined-arm", faults::undefined_arm),
    ("undefined-thumb", faults::undefined_thumb),
    ("undefined-neon", faults::undefined_neon),
    ("divide", faults::divide),
    ("divide-thumb", faults::divide_thumb),
    ("privileged", faults::privileged),
    ("mode-change", faults::mode_change),
    ("thread-register", faults::thread_register),
    ("efault", memory::efault),
    ("mmap", memory::mmap),
    ("mprotect", memory::mprotect),
    ("fault-loop", memory::fault_loop),
    ("copy-on-write", memory::copy_on_write),
    ("self-modifying", memory::self_modifying),
    ("float", float::float),
    ("fork-exit", processes::fork_exit),
    ("pipe", processes::pipe),
    ("alarm", processes::alarm),
    ("loop", processes::count),
    ("kuser", processes::kuser_helpers),
    ("bpf", bpf::bpf),
];

spica_freestanding::start!(run);

fn run(arguments: &Arguments) -> ! {
    let wanted = arguments.get(1).map_or(&b""[..], CStr::to_bytes);
    for (name, test) in TESTS {
        if name.as_bytes() == wanted {
            test();
            linux::exit(0);
        }
    }
    line(format_args!("no such test; there are:"));
    for (name, _) in TESTS {
        line(format_args!("  {name}"));
    }
    linux::exit(2);
}

/// Prints a line.
fn line(text: fmt::Arguments<'_>) {
    output::line(output::OUTPUT, text);
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    line(format_args!("FAILED: {}", info.message()));
    if let Some(location) = info.location() {
        line(format_args!("  at {}:{}", location.file(), location.line()));
    }
    linux::exit(1);
}
