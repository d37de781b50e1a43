//! What a guest's user program can see of its machine.
//!
//! A static Linux program without a C library: Debian's guest has none either, and here every instruction and every
//! system call is the one that the test means. `probe NAME` runs one test and prints what it saw; the end-to-end tests
//! know what that must be, and run the same program without Spica to learn whether they are right. A test that can judge
//! by itself prints `ok`, or says what is wrong and exits with status 1.
#![no_std]
#![no_main]

mod faults;
mod float;
mod linux;
mod memory;
mod output;
mod processes;

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
];

/// `stack` is what the kernel left at the program's start: the number of arguments, then their addresses.
extern "C" fn main(stack: *const usize) -> ! {
    // SAFETY: the kernel put at least one argument and a null there.
    let (count, first) = unsafe { (*stack, *stack.add(2)) };
    let wanted = if count >= 2 {
        // SAFETY: the kernel put NUL-terminated strings there, which stay.
        unsafe { CStr::from_ptr(first as *const _) }.to_bytes()
    } else {
        b""
    };
    for (name, test) in TESTS {
        if name.as_bytes() == wanted {
            test();
            linux::exit(0);
        }
    }
    output::line(format_args!("no such test; there are:"));
    for (name, _) in TESTS {
        output::line(format_args!("  {name}"));
    }
    linux::exit(2);
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    output::line(format_args!("FAILED: {}", info.message()));
    if let Some(location) = info.location() {
        output::line(format_args!("  at {}:{}", location.file(), location.line()));
    }
    linux::exit(1);
}
