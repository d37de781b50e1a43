//! A kernel that a compiler has made in T32, for QEMU's `virt` and so for Spica's guest machine. It takes its
//! exceptions in Thumb state, has a program in User mode and functions in A32, is interrupted all the time, and prints
//! what it computes: the same wherever it runs, as nothing of it depends on time.
//!
//! `cargo build --release` in this directory makes an ELF file for `spica run --kernel`, and for QEMU's `-kernel`. What
//! it prints is in `expected.txt`; the test is `tests/e2e/rust_t32.rs`.
#![no_std]
#![no_main]

mod a32;
mod cp15;
mod devices;
mod exceptions;
mod memory;
mod paging;
mod user;
mod work;

use core::arch::{asm, global_asm};
use core::panic::PanicInfo;
use core::sync::atomic::{AtomicBool, Ordering};

use exceptions::{A32_TICKS, TICKS, USER_TICKS};

global_asm!(include_str!("start.s"), options(raw));

/// Called by start.s, in Supervisor mode with a stack.
#[unsafe(no_mangle)]
extern "C" fn kernel() -> ! {
    unsafe extern "C" {
        static vectors: u8;
    }
    memory::on(&raw const vectors as u32);
    devices::uart_on();
    // Bits M, C, Z, I and TE.
    println!("t32: mode {:#x}, SCTLR {:#x}", cp15::mode(), cp15::sctlr() & 0x4000_1805);
    devices::timer_on();
    // SAFETY: The vectors are there, and the timer is the only device that interrupts.
    unsafe { cp15::unmask_interrupts() };

    calls();
    paging::run();
    a32::run();
    work::run();
    println!("user: left with {}", user::run(21));
    until_interrupted();
    println!("end");
    devices::power_off()
}

/// Exceptions that instructions ask for, alone and in IT blocks.
fn calls() {
    println!("calls:");
    let (mut call, mut turned, mut wide): (u32, u32, u32) = (12, 0x8000_0001, 0x1234_5678);
    // SAFETY: The handlers return behind the instruction, with R0 changed alone. LR of this mode is overwritten.
    unsafe {
        asm!("svc #200", inout("r0") call, in("r1") 34, out("lr") _);
        asm!("udf #4", inout("r0") turned);
        asm!("udf.w #0x1008", inout("r0") wide);
    }
    println!("  {call}, {turned:#x}, {wide:#x}");
    let [mut taken, mut skipped, mut behind]: [u32; 3] = [5, 6, 0];
    // SAFETY: The same. The call that is taken is the second one of four in its block, whose state is that of the third
    // one by then (TakeSVCException, B1.9.10).
    unsafe {
        asm!("cmp r0, #5", "ittee eq", "addeq r2, #1", "svceq #201", "addne r2, #10", "addne r2, #100",
            inout("r0") taken, in("r1") 7, inout("r2") behind, out("lr") _);
        asm!("cmp r0, #5", "itt eq", "svceq #202", "addeq r0, #1", inout("r0") skipped, in("r1") 8, out("lr") _);
    }
    println!("  {taken}, {skipped}, {behind}");
}

/// Works until the timer has come often enough.
fn until_interrupted() {
    let first = work::sha256::of_row(1, 5000);
    while TICKS.load(Ordering::Relaxed) < 50 {
        assert_eq!(work::sha256::of_row(1, 5000), first);
    }
    let [user, a32] = [&USER_TICKS, &A32_TICKS].map(|ticks| ticks.load(Ordering::Relaxed) > 0);
    println!("interrupts: at least 50; in User mode: {user}; in A32 code: {a32}");
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    if user::is_here() {
        println!("{info}");
        user::fail()
    }
    // One while it is printed is no news.
    static ONCE: AtomicBool = AtomicBool::new(false);
    if !ONCE.load(Ordering::Relaxed) {
        ONCE.store(true, Ordering::Relaxed);
        println!("{info}");
    }
    devices::power_off()
}
