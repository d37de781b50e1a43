//! The program in User mode, and how it calls the kernel. It is T32, as the kernel is, and shares its text: only what
//! it may load and store is its own.

use core::arch::asm;

use crate::memory::USER_STACK;
use crate::{cp15, println, work};

/// Its mode in a status register.
pub const MODE: u32 = 0x10;

/// Calls, by the number in SVC: the program leaves, with a result.
pub const LEAVE: u32 = 0;
/// Text is printed: its address and length.
pub const WRITE: u32 = 1;
/// How many interrupts came in User mode so far.
pub const TICKS: u32 = 2;
/// Something is wrong: the machine is switched off.
pub const FAIL: u32 = 3;

/// Whether the processor is in User mode.
#[must_use]
pub fn is_here() -> bool {
    cp15::mode() == MODE
}

/// Has the kernel print text.
pub fn write(text: &str) {
    // SAFETY: The kernel reads the text, and keeps all registers but R0.
    unsafe {
        asm!("svc #{n}", n = const WRITE, inout("r0") text.as_ptr() => _, in("r1") text.len(),
            options(nostack, readonly));
    }
}

/// Has the kernel switch the machine off.
pub fn fail() -> ! {
    // SAFETY: It does not come back.
    unsafe { asm!("svc #{n}", "1: b 1b", n = const FAIL, options(noreturn, nostack)) }
}

fn ticks() -> u32 {
    let count;
    // SAFETY: The kernel answers in R0, and keeps the others.
    unsafe { asm!("svc #{n}", n = const TICKS, out("r0") count, options(nostack, nomem)) };
    count
}

fn leave(result: u32) -> ! {
    // SAFETY: The kernel goes on behind `enter_user`.
    unsafe { asm!("svc #{n}", "1: b 1b", n = const LEAVE, in("r0") result, options(noreturn, nostack)) }
}

/// The program.
extern "C" fn program(argument: u32) -> ! {
    assert!(is_here());
    println!("user: argument {argument}");
    let mut words = [0; 300];
    work::fill(&mut words, argument);
    words.sort_unstable();
    println!("user: sorted, the median is {:#010x}", words[150]);
    // The kernel's data are not for it, nor are system registers: in the end, R0 is 0.
    let mut loaded: u32 = 1;
    // SAFETY: It faults, and the kernel goes on behind it with another R0. It does not touch the stack.
    unsafe { asm!("ldr r0, [r0]", inout("r0") 0x4020_0000 => loaded, options(nostack, readonly)) };
    let mut read: u32 = 1;
    // SAFETY: The same.
    unsafe { asm!("mrc p15, 0, r0, c1, c0, 0", inout("r0") read, options(nostack, nomem)) };
    println!("user: loaded {loaded}, read {read}");
    // Work, until it was interrupted often enough.
    let first = work::sha256::of_row(argument, 1000);
    let mut rounds = 0;
    while ticks() < 10 || rounds == 0 {
        assert!(work::sha256::of_row(argument, 1000) == first, "another hash");
        rounds += 1;
    }
    println!("user: hash {}, interrupted 10 times", work::sha256::Hex(&first));
    leave(argument * 2 + loaded + read)
}

/// Runs the program; gives its result.
pub fn run(argument: u32) -> u32 {
    unsafe extern "C" {
        fn enter_user(program: extern "C" fn(u32) -> !, argument: u32, stack: u32) -> u32;
    }
    // SAFETY: The stack is nobody else's. The program can touch nothing beside it, and comes back by `LEAVE` alone.
    unsafe { enter_user(program, argument, USER_STACK) }
}
