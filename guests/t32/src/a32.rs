//! Functions in A32 among those in T32, which call each other: directly, by BLX, and by pointers.

use core::arch::asm;
use core::hint::black_box;
use core::sync::atomic::Ordering;

use crate::exceptions::A32_TICKS;
use crate::println;

/// Folds numbers by a function, in A32. That is without iterators, whose code would be T32: they are functions of
/// others.
#[instruction_set(arm::a32)]
#[inline(never)]
extern "C" fn folded(numbers: &[u32; 64], by: extern "C" fn(u32, u32) -> u32) -> u32 {
    let (mut folded, mut at) = (0, 0);
    while at < numbers.len() {
        folded = by(folded, numbers[at]) ^ mixed(numbers[at]);
        at += 1;
    }
    folded
}

/// A function in T32 that is called by a pointer.
#[inline(never)]
extern "C" fn turned(folded: u32, number: u32) -> u32 {
    folded.rotate_left(number % 32).wrapping_add(number)
}

/// A function in T32 that is called directly.
#[inline(never)]
extern "C" fn mixed(number: u32) -> u32 {
    black_box(number).wrapping_mul(0x9e37_79b9)
}

/// Ackermann's function, where A32 and T32 take turns.
#[instruction_set(arm::a32)]
#[inline(never)]
fn ackermann(m: u32, n: u32) -> u32 {
    if m == 0 { n + 1 } else { ackermann_in_t32(m, n) }
}

#[inline(never)]
fn ackermann_in_t32(m: u32, n: u32) -> u32 {
    let below = if n == 0 { 1 } else { ackermann(m, n - 1) };
    ackermann(m - 1, below)
}

/// What the handlers, which are T32, see of A32.
#[instruction_set(arm::a32)]
#[inline(never)]
fn calls() -> (u32, u32) {
    let (mut call, mut turned): (u32, u32) = (56, 0x8000_0001);
    // SAFETY: The handlers return behind the instruction, with R0 changed alone. LR of this mode is overwritten.
    unsafe {
        asm!("svc #300", inout("r0") call, in("r1") 78, out("lr") _);
        asm!("udf #260", inout("r0") turned);
    }
    (call, turned)
}

/// Waits until A32 code was interrupted: this, or some before. The function that loads the count is T32, so it is not
/// asked all the time.
#[instruction_set(arm::a32)]
#[inline(never)]
fn waited() {
    while A32_TICKS.load(Ordering::Relaxed) == 0 {
        let mut rounds = 0;
        while rounds < 1000 {
            core::hint::spin_loop();
            rounds += 1;
        }
    }
}

/// All of that.
pub fn run() {
    println!("A32:");
    let numbers = core::array::from_fn(|at| (at as u32).pow(3));
    println!("  folded {:#010x}", folded(black_box(&numbers), black_box(turned)));
    println!("  ackermann(2, 9) = {}", ackermann(black_box(2), 9));
    let (call, turned) = calls();
    println!("  {call}, {turned:#x}");
    waited();
}
