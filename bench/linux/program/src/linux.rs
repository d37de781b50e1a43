//! The system calls that are timed, and those that the timing needs.
//!
//! Numbers and structures are those of Linux on 32-bit ARM (`arch/arm/tools/syscall.tbl`).

use core::arch::{asm, global_asm};
use core::ffi::CStr;

/// Numbers of system calls.
pub mod number {
    pub const EXIT: u32 = 1;
    pub const FORK: u32 = 2;
    pub const READ: u32 = 3;
    pub const WRITE: u32 = 4;
    pub const OPEN: u32 = 5;
    pub const CLOSE: u32 = 6;
    pub const EXECVE: u32 = 11;
    pub const GETPID: u32 = 20;
    pub const KILL: u32 = 37;
    pub const PIPE: u32 = 42;
    pub const DUP2: u32 = 63;
    pub const GETPPID: u32 = 64;
    pub const MUNMAP: u32 = 91;
    pub const WAIT4: u32 = 114;
    pub const SELECT: u32 = 142;
    pub const RT_SIGACTION: u32 = 174;
    pub const MMAP2: u32 = 192;
    pub const STAT64: u32 = 195;
    pub const FSTAT64: u32 = 197;
    pub const SOCKETPAIR: u32 = 288;
    pub const CLOCK_GETTIME64: u32 = 403;
}

/// Flags of `open`.
pub mod open {
    pub const READ: u32 = 0;
    pub const WRITE: u32 = 1;
    pub const READ_WRITE: u32 = 2;
    pub const CREATE: u32 = 0o100;
    pub const TRUNCATE: u32 = 0o1000;
}

/// Makes a system call.
///
/// # Safety
/// The arguments must be such that the kernel does nothing to this program's memory that Rust does not expect.
#[inline]
pub unsafe fn call(number: u32, args: [u32; 6]) -> i32 {
    let result;
    // SAFETY: the kernel keeps all registers but r0; the caller vouches for the rest.
    unsafe {
        asm!(
            "svc #0",
            in("r7") number,
            inlateout("r0") args[0] => result,
            in("r1") args[1], in("r2") args[2], in("r3") args[3], in("r4") args[4], in("r5") args[5],
            options(nostack)
        );
    }
    result
}

/// Makes a system call without memory arguments, or with such that cannot hurt.
#[inline]
pub fn simple(number: u32, a: u32, b: u32, c: u32) -> i32 {
    // SAFETY: by its contract.
    unsafe { call(number, [a, b, c, 0, 0, 0]) }
}

/// Ends the process.
pub fn exit(status: u32) -> ! {
    simple(number::EXIT, status, 0, 0);
    loop {
        core::hint::spin_loop();
    }
}

/// Writes bytes to a file.
pub fn write(file: u32, bytes: &[u8]) -> i32 {
    simple(number::WRITE, file, bytes.as_ptr() as u32, bytes.len() as u32)
}

/// Reads bytes from a file.
pub fn read(file: u32, bytes: &mut [u8]) -> i32 {
    simple(number::READ, file, bytes.as_mut_ptr() as u32, bytes.len() as u32)
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

/// Makes one file descriptor stand for another's file.
pub fn redirect(file: u32, as_file: u32) {
    assert!(simple(number::DUP2, file, as_file, 0) >= 0, "dup2");
    simple(number::CLOSE, file, 0, 0);
}

/// Forks: 0 in the child, the child's number in the parent.
///
/// # Panics
/// If there cannot be another process.
pub fn fork() -> u32 {
    let child = simple(number::FORK, 0, 0, 0);
    assert!(child >= 0, "fork: error {}", -child);
    child as u32
}

/// Becomes another program; returns only if that cannot be.
pub fn exec(program: &CStr, arguments: *const *const u8, environment: *const *const u8) -> i32 {
    simple(number::EXECVE, program.as_ptr() as u32, arguments as u32, environment as u32)
}

/// Waits for a child to end, and gives its status as a shell does: its exit status, or 128 and the signal's number.
pub fn wait(child: u32) -> u32 {
    let mut status = 0u32;
    let ended = simple(number::WAIT4, child, (&raw mut status) as u32, 0);
    assert_eq!(ended as u32, child, "wait");
    // SAFETY: it is this function's own variable, which the kernel has written.
    let status = unsafe { (&raw const status).read_volatile() };
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

/// Two connected ends: what is written to the second can be read from the first.
pub fn pipe() -> [u32; 2] {
    let mut ends = [0u32; 2];
    assert_eq!(simple(number::PIPE, (&raw mut ends) as u32, 0, 0), 0, "pipe");
    // SAFETY: it is this function's own variable, which the kernel has written.
    unsafe { (&raw const ends).read_volatile() }
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

/// How memory may be used that [`map`] gives.
pub mod protection {
    pub const READ: u32 = 1;
    pub const WRITE: u32 = 2;
}

/// Maps `size` bytes of a file, shared.
///
/// # Panics
/// If that cannot be.
pub fn map(file: u32, size: u32, protection: u32) -> *mut u8 {
    const SHARED: u32 = 1;
    // SAFETY: the kernel chooses an address where nothing is.
    let address = unsafe { call(number::MMAP2, [0, size, protection, SHARED, file, 0]) };
    assert!(!(-4095..0).contains(&address), "mmap: error {}", -address);
    address as u32 as *mut u8
}

/// Unmaps memory that [`map`] gave.
pub fn unmap(address: *mut u8, size: u32) {
    assert_eq!(simple(number::MUNMAP, address as u32, size, 0), 0, "munmap");
}

/// Numbers of signals.
pub mod signal {
    pub const SEGV: u32 = 11;
    pub const USR1: u32 = 10;
}

#[repr(C)]
struct SignalAction {
    handler: u32,
    flags: u32,
    restorer: u32,
    mask: [u32; 2],
}

unsafe extern "C" {
    fn signal_return();
    fn signal_ignored();
    fn signal_skip();
}

global_asm!(
    ".arm",
    "signal_return:",
    "mov r7, #173", // rt_sigreturn
    "svc #0",
    // A handler that does nothing.
    "signal_ignored:",
    "bx lr",
    // A handler that goes on behind the instruction that faulted. The third argument is Linux's `struct ucontext`: flags,
    // link, three words of stack, then `struct sigcontext`, whose registers come behind three words; R15 is the last.
    "signal_skip:",
    "ldr r3, [r2, #(5 + 3 + 15) * 4]",
    "add r3, r3, #4",
    "str r3, [r2, #(5 + 3 + 15) * 4]",
    "bx lr",
);

/// Installs a handler that does nothing.
#[inline]
pub fn ignore(signal: u32) {
    install(signal, signal_ignored as *const () as u32);
}

/// Installs a handler that skips the A32 instruction that faulted.
pub fn skip_faults() {
    install(signal::SEGV, signal_skip as *const () as u32);
}

#[inline]
fn install(signal: u32, handler: u32) {
    const SIGINFO: u32 = 4;
    const RESTORER: u32 = 0x0400_0000;
    let restorer = signal_return as *const () as u32;
    let action = SignalAction { handler, flags: SIGINFO | RESTORER, restorer, mask: [0, 0] };
    // SAFETY: the kernel only reads the structure, which is as it expects.
    let result = unsafe { call(number::RT_SIGACTION, [signal, (&raw const action) as u32, 0, 8, 0, 0]) };
    assert_eq!(result, 0, "sigaction");
}
