//! VFP and NEON: two processes that fill all registers and compute, and are switched all the time.
//!
//! Every value is a small whole number, so every result is exact, and integers tell what it must be.

use core::arch::global_asm;

use spica_freestanding::linux::{exit, fork, number, simple, wait};

use crate::line;

unsafe extern "C" {
    fn float_fill(base: u32);
    fn float_step(addend: u32);
    fn float_read(out: *mut u32);
    fn float_status(write: u32, value: u32) -> u32;
}

global_asm!(
    ".arm",
    ".fpu neon",
    // d0 to d15 hold base, base + 1, … as doubles; d16 to d31 hold vectors of two words of base, base + 1, …
    "float_fill:",
    ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
    "vmov s30, r0",
    "vcvt.f64.u32 d\\n, s30",
    "add r0, r0, #1",
    ".endr",
    ".irp n, 16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
    "vdup.32 d\\n, r0",
    "add r0, r0, #1",
    ".endr",
    "bx lr",
    // Adds to each: by VFP in doubles, by NEON in words.
    "float_step:",
    "push {{r0, r1}}",
    "vpush {{d0}}",
    "vmov s0, r0",
    "vcvt.f64.u32 d0, s0",
    ".irp n, 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
    "vadd.f64 d\\n, d\\n, d0",
    ".endr",
    "vpop {{d0}}",
    "vpush {{d31}}",
    "vdup.32 d31, r0",
    ".irp n, 16,17,18,19,20,21,22,23,24,25,26,27,28,29,30",
    "vadd.i32 d\\n, d\\n, d31",
    ".endr",
    "vpop {{d31}}",
    "pop {{r0, r1}}",
    "bx lr",
    // Stores d1 to d14 as words, then both words of d16 to d30.
    "float_read:",
    "vpush {{d0}}",
    ".irp n, 1,2,3,4,5,6,7,8,9,10,11,12,13,14",
    "vcvt.u32.f64 s0, d\\n",
    "vstr s0, [r0]",
    "add r0, r0, #4",
    ".endr",
    "vpop {{d0}}",
    "vstmia r0!, {{d16-d30}}",
    "bx lr",
    "float_status:",
    "cmp r0, #0",
    "vmsrne fpscr, r1",
    "vmrs r0, fpscr",
    "bx lr",
);

const WORDS: usize = 14 + 2 * 15;
const STEPS: u32 = 30_000;

/// Two processes compute at once; each has its own rounding mode and exception flags in FPSCR, too.
pub fn float() {
    let child = fork();
    let (base, addend, status) = if child == 0 { (7, 3, 0x0040_0000) } else { (1_000_000, 11, 0x00c0_0000) };
    // SAFETY: the functions change VFP and NEON registers only, which nothing else here uses: this program is compiled
    // for soft floating point.
    unsafe {
        float_status(1, status);
        float_fill(base);
    }
    for step in 1..=STEPS {
        // SAFETY: as above.
        unsafe { float_step(addend) };
        if step % 500 == 0 {
            simple(number::SCHED_YIELD, 0, 0, 0);
        }
        if step % 1000 != 0 {
            continue;
        }
        let mut words = [0u32; WORDS];
        // SAFETY: as above; it writes WORDS words.
        let fpscr = unsafe {
            float_read(words.as_mut_ptr());
            float_status(0, 0)
        };
        assert_eq!(fpscr & 0x00c0_0000, status, "rounding mode");
        for (i, &word) in words.iter().enumerate() {
            let register = if i < 14 { i as u32 + 1 } else { 16 + (i as u32 - 14) / 2 };
            assert_eq!(word, base + register + step * addend, "d{register} after {step} steps");
        }
    }
    if child == 0 {
        exit(0);
    }
    assert_eq!(wait(child), 0, "the child");
    line(format_args!("ok"));
}
