//! System calls.
//!
//! Numbers are those of Linux on 32-bit ARM (`arch/arm/tools/syscall.tbl`, `uapi/asm/unistd.h`).

use core::arch::asm;

/// Numbers of system calls, by their names in Linux.
#[expect(missing_docs, reason = "the names are the kernel's")]
pub mod number {
    pub const EXIT: u32 = 1;
    pub const FORK: u32 = 2;
    pub const READ: u32 = 3;
    pub const WRITE: u32 = 4;
    pub const OPEN: u32 = 5;
    pub const CLOSE: u32 = 6;
    pub const EXECVE: u32 = 11;
    pub const GETPID: u32 = 20;
    pub const MOUNT: u32 = 21;
    pub const KILL: u32 = 37;
    pub const MKDIR: u32 = 39;
    pub const PIPE: u32 = 42;
    pub const DUP2: u32 = 63;
    pub const GETPPID: u32 = 64;
    pub const MUNMAP: u32 = 91;
    pub const SETITIMER: u32 = 104;
    pub const WAIT4: u32 = 114;
    pub const UNAME: u32 = 122;
    pub const MPROTECT: u32 = 125;
    pub const SELECT: u32 = 142;
    pub const SCHED_YIELD: u32 = 158;
    pub const NANOSLEEP: u32 = 162;
    pub const PRCTL: u32 = 172;
    pub const RT_SIGACTION: u32 = 174;
    pub const MMAP2: u32 = 192;
    pub const STAT64: u32 = 195;
    pub const FSTAT64: u32 = 197;
    pub const SOCKETPAIR: u32 = 288;
    pub const RECV: u32 = 291;
    pub const SETSOCKOPT: u32 = 294;
    pub const CLOCK_GETTIME64: u32 = 403;
    pub const CACHEFLUSH: u32 = 0x0f_0002;
    pub const SET_TLS: u32 = 0x0f_0005;
}

/// Makes a system call; a negative result is an error's number.
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

/// Two connected ends: what is written to the second can be read from the first.
///
/// # Panics
/// If there cannot be any.
pub fn pipe() -> [u32; 2] {
    let mut ends = [0u32; 2];
    assert_eq!(simple(number::PIPE, (&raw mut ends) as u32, 0, 0), 0, "pipe");
    // SAFETY: it is this function's own variable, which the kernel has written.
    unsafe { (&raw const ends).read_volatile() }
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

/// Waits for a child to end, and gives its status as the kernel encodes it: the exit status in bits 15:8, the number of
/// the signal that ended it in bits 6:0.
///
/// # Panics
/// If it is not a child.
pub fn wait(child: u32) -> u32 {
    let mut status = 0u32;
    let ended = simple(number::WAIT4, child, (&raw mut status) as u32, 0);
    assert_eq!(ended as u32, child, "wait");
    // SAFETY: it is this function's own variable, which the kernel has written.
    unsafe { (&raw const status).read_volatile() }
}

/// How memory may be used that [`map`] gives; to be combined.
pub mod protection {
    /// Not at all.
    pub const NONE: u32 = 0;
    /// It can be read.
    pub const READ: u32 = 1;
    /// It can be written.
    pub const WRITE: u32 = 2;
    /// It can be executed.
    pub const EXEC: u32 = 4;
}

/// What is behind mapped memory.
#[derive(Clone, Copy)]
pub enum Backing {
    /// Nothing: fresh memory of the process's own.
    Fresh,
    /// A file, shared.
    File(u32),
}

/// Maps `size` bytes.
///
/// # Panics
/// If that cannot be.
pub fn map(size: usize, protection: u32, backing: Backing) -> *mut u8 {
    const SHARED: u32 = 0x01;
    const PRIVATE_ANONYMOUS: u32 = 0x22;
    let (flags, file) = match backing {
        Backing::Fresh => (PRIVATE_ANONYMOUS, u32::MAX),
        Backing::File(file) => (SHARED, file),
    };
    // SAFETY: the kernel chooses an address where nothing is.
    let address = unsafe { call(number::MMAP2, [0, size as u32, protection, flags, file, 0]) };
    assert!(!(-4095..0).contains(&address), "mmap: error {}", -address);
    address as u32 as *mut u8
}

/// Unmaps memory that [`map`] gave.
///
/// # Panics
/// If that cannot be.
pub fn unmap(address: *mut u8, size: usize) {
    assert_eq!(simple(number::MUNMAP, address as u32, size as u32, 0), 0, "munmap");
}

/// Changes the protection of memory that [`map`] gave.
///
/// # Panics
/// If that cannot be.
pub fn protect(address: *mut u8, size: usize, protection: u32) {
    assert_eq!(simple(number::MPROTECT, address as u32, size as u32, protection), 0, "mprotect");
}
