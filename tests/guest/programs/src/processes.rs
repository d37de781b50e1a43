//! Processes: many of them, pipes between them, signals from a timer, a long computation, the kernel's user helpers.

use spica_freestanding::linux::{self, call, exit, fork, number, read, simple, wait, write};
use spica_freestanding::signals::signal;

use crate::line;
use crate::signals::{Frame, Shared, SignalInfo, on_signal};

/// Forks and waits, a thousand times.
pub fn fork_exit() {
    for i in 0..1000u32 {
        let child = fork();
        if child == 0 {
            exit(i & 0x7f);
        }
        assert_eq!(wait(child), (i & 0x7f) << 8, "the child's status");
    }
    line(format_args!("ok"));
}

/// A megabyte through a pipe, checked byte by byte.
pub fn pipe() {
    const TOTAL: usize = 1 << 20;
    let value = |at: usize| (at * 7 + (at >> 8)) as u8;
    let ends = linux::pipe();
    let child = fork();
    let mut buffer = [0u8; 3000];
    let mut at = 0;
    if child == 0 {
        simple(number::CLOSE, ends[0], 0, 0);
        while at < TOTAL {
            let part = buffer.len().min(TOTAL - at);
            buffer[..part].iter_mut().enumerate().for_each(|(i, b)| *b = value(at + i));
            let written = write(ends[1], &buffer[..part]);
            assert!(written > 0, "write: {written}");
            at += written as usize;
        }
        exit(0);
    }
    simple(number::CLOSE, ends[1], 0, 0);
    loop {
        let got = read(ends[0], &mut buffer);
        assert!(got >= 0, "read: {got}");
        if got == 0 {
            break;
        }
        for (i, &byte) in buffer[..got as usize].iter().enumerate() {
            assert_eq!(byte, value(at + i), "byte {}", at + i);
        }
        at += got as usize;
    }
    assert_eq!(at, TOTAL, "bytes");
    assert_eq!(wait(child), 0, "the child");
    line(format_args!("ok"));
}

static ALARMS: Shared<u32> = Shared::new(0);

extern "C" fn count_alarm(_signal: u32, _info: &SignalInfo, _frame: &mut Frame) {
    ALARMS.set(ALARMS.get() + 1);
}

/// Fifty signals from a timer interrupt a computation, which must not notice.
pub fn alarm() {
    on_signal(signal::ALRM, count_alarm);
    let timer = [0u32, 10_000, 0, 10_000]; // Every 10 ms: interval and first, seconds and microseconds.
    let mut sums = [1u32, 2, 3, 4, 5, 6, 7, 8];
    let mut expected = sums;
    // SAFETY: the kernel only reads the timer.
    assert_eq!(unsafe { call(number::SETITIMER, [0, timer.as_ptr() as u32, 0, 0, 0, 0]) }, 0, "setitimer");
    let mut rounds = 0u32;
    while ALARMS.get() < 50 {
        for sum in &mut sums {
            *sum = core::hint::black_box(sum.wrapping_mul(1_664_525).wrapping_add(1_013_904_223));
        }
        rounds += 1;
    }
    // SAFETY: as above.
    assert_eq!(unsafe { call(number::SETITIMER, [0, [0u32; 4].as_ptr() as u32, 0, 0, 0, 0]) }, 0, "setitimer");
    for _ in 0..rounds {
        for sum in &mut expected {
            *sum = sum.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        }
    }
    assert_eq!(sums, expected, "after {rounds} rounds");
    line(format_args!("ok"));
}

/// A loop of 10^8 instructions.
pub fn count() {
    let left: u32;
    // SAFETY: it counts a register down.
    unsafe {
        core::arch::asm!("2:", "subs {0}, {0}, #1", "bne 2b", inlateout(reg) 50_000_000u32 => left, options(nomem, nostack));
    }
    line(format_args!("{left} left"));
}

/// The kernel's helpers for user programs, in the page of the vectors.
pub fn kuser_helpers() {
    // SAFETY: the kernel documents these addresses (Documentation/arch/arm/kernel_user_helpers.rst).
    let (version, get_tls, barrier, compare_exchange) = unsafe {
        (
            (0xffff_0ffc as *const u32).read_volatile(),
            core::mem::transmute::<usize, extern "C" fn() -> u32>(0xffff_0fe0),
            core::mem::transmute::<usize, extern "C" fn()>(0xffff_0fa0),
            core::mem::transmute::<usize, extern "C" fn(u32, u32, *mut u32) -> u32>(0xffff_0fc0),
        )
    };
    assert!(version >= 5, "version {version}");
    assert_eq!(simple(number::SET_TLS, 0xcafe_f00c, 0, 0), 0, "set_tls");
    assert_eq!(get_tls(), 0xcafe_f00c, "get_tls");
    barrier();
    let mut value = 5u32;
    assert_eq!(compare_exchange(5, 6, &raw mut value), 0, "an exchange that succeeds");
    assert_ne!(compare_exchange(5, 7, &raw mut value), 0, "an exchange that does not");
    assert_eq!(value, 6);
    assert!(simple(number::GETPID, 0, 0, 0) > 0, "getpid");
    line(format_args!("version {version}, ok"));
}
