//! The system calls that are timed, and those that the timing needs, as far as no other program has them.

use core::arch::global_asm;
use core::ffi::CStr;

use spica_freestanding::linux::{self, call, number, simple};
use spica_freestanding::signals::{install, signal};

/// Flags of `open`.
pub mod open {
    pub const READ: u32 = 0;
    pub const WRITE: u32 = 1;
    pub const READ_WRITE: u32 = 2;
    pub const CREATE: u32 = 0o100;
    pub const TRUNCATE: u32 = 0o1000;
}

/// Opens a file, as [`open`] says.
///
/// # Panics
/// If it cannot be opened.
pub fn open_file(path: &CStr, flags: u32) -> u32 {
    let file = simple(number::OPEN, path.as_ptr() as u32, flags, 0o644);
    assert!(file >= 0, "cannot open {}: error {}", path.to_str().unwrap_or("?"), -file);
    file as u32
}

/// Mounts a file system of that kind at `place`, a directory that is made if need be. It may be mounted there already.
///
/// # Panics
/// If it cannot be mounted.
pub fn mount(kind: &CStr, place: &CStr) {
    const EXISTS: i32 = -17;
    const BUSY: i32 = -16;
    let [kind, place] = [kind, place].map(|text| text.as_ptr() as u32);
    assert!(matches!(simple(number::MKDIR, place, 0o755, 0), 0 | EXISTS), "mkdir");
    // SAFETY: the kernel reads the three texts.
    let result = unsafe { call(number::MOUNT, [kind, place, kind, 0, 0, 0]) };
    assert!(matches!(result, 0 | BUSY), "mount: error {}", -result);
}

/// Makes one file descriptor stand for another's file.
pub fn redirect(file: u32, as_file: u32) {
    assert!(simple(number::DUP2, file, as_file, 0) >= 0, "dup2");
    simple(number::CLOSE, file, 0, 0);
}

/// Becomes another program; returns only if that cannot be.
pub fn exec(program: &CStr, arguments: *const *const u8, environment: *const *const u8) -> i32 {
    simple(number::EXECVE, program.as_ptr() as u32, arguments as u32, environment as u32)
}

/// Waits for a child to end, and gives its status as a shell does: its exit status, or 128 and the signal's number.
pub fn wait(child: u32) -> u32 {
    let status = linux::wait(child);
    if status & 0x7f == 0 { status >> 8 & 0xff } else { 128 + (status & 0x7f) }
}

/// Nanoseconds of `CLOCK_MONOTONIC`.
pub fn now() -> u64 {
    const MONOTONIC: u32 = 1;
    let mut time = [0i64; 2];
    let result = simple(number::CLOCK_GETTIME64, MONOTONIC, (&raw mut time) as u32, 0);
    assert_eq!(result, 0, "clock_gettime");
    // SAFETY: it is this function's own variable, which the kernel has written.
    let [seconds, nanoseconds] = unsafe { (&raw const time).read_volatile() };
    seconds as u64 * 1_000_000_000 + nanoseconds as u64
}

/// Two connected sockets of the family `AF_UNIX`.
pub fn socket_pair() -> [u32; 2] {
    const UNIX: u32 = 1;
    const STREAM: u32 = 1;
    let mut ends = [0u32; 2];
    // SAFETY: the kernel writes the two ends.
    let result = unsafe { call(number::SOCKETPAIR, [UNIX, STREAM, 0, (&raw mut ends) as u32, 0, 0]) };
    assert_eq!(result, 0, "socketpair");
    // SAFETY: it is this function's own variable, which the kernel has written.
    unsafe { (&raw const ends).read_volatile() }
}

unsafe extern "C" {
    fn signal_ignored();
    fn signal_skip();
}

global_asm!(
    ".arm",
    // A handler that does nothing.
    "signal_ignored:",
    "bx lr",
    // A handler that goes on behind the instruction that faulted. The third argument is Linux's `struct ucontext`:
    // flags, link, three words of stack, then `struct sigcontext`, whose registers come behind three words; R15 is the
    // last.
    "signal_skip:",
    "ldr r3, [r2, #(5 + 3 + 15) * 4]",
    "add r3, r3, #4",
    "str r3, [r2, #(5 + 3 + 15) * 4]",
    "bx lr",
);

/// Installs a handler that does nothing.
#[inline]
pub fn ignore(signal: u32) {
    install(signal, signal_ignored as *const () as u32, 0);
}

/// Installs a handler that skips the A32 instruction that faulted.
pub fn skip_faults() {
    install(signal::SEGV, signal_skip as *const () as u32, 0);
}
