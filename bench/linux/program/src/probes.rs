//! Probes of the core (`spica-probes`): each is put into memory and called.
//!
//! How often, the caller says, and the rounds are fixed: what a run for two times takes longer than one for one time is
//! the probe's loop alone, whatever its data took to be made.

use core::ffi::CStr;

use spica_freestanding::Arguments;
use spica_freestanding::linux::{Backing, exit, map, number, protection, simple};
use spica_freestanding::output::{OUTPUT, line};
use spica_probes::{code, data};

use crate::linux::now;
use crate::usage;

/// Runs the probe that the second argument names for as many times as the third says, and prints the nanoseconds of one
/// operation.
///
/// # Panics
/// If there is no memory for it.
pub fn run(arguments: &Arguments) -> ! {
    let text = |index| arguments.get(index).and_then(|text: &CStr| text.to_str().ok());
    let times = text(3).and_then(|times| times.parse::<u32>().ok()).filter(|times| (1..=1000).contains(times));
    let (Some(probe), Some(times)) = (text(2).and_then(spica_probes::find), times) else {
        usage("stopwatch probe NAME TIMES; no such probe, or not 1 to 1000 times");
    };
    let kind = probe.kind;
    let data_bytes = data::bytes(kind) as usize;
    let code_bytes = code::words(kind) * 4;
    let data_at = map(data_bytes, protection::READ | protection::WRITE, Backing::Fresh);
    let code_at = map(code_bytes, protection::READ | protection::WRITE | protection::EXEC, Backing::Fresh);
    let (base, code_base) = (data_at as u32, code_at as u32);
    // SAFETY: memory that was mapped just now, aligned to pages, as long as that, and nobody else's.
    let (words, instructions) = unsafe {
        (
            core::slice::from_raw_parts_mut(data_at.cast::<u32>(), data_bytes / 4),
            core::slice::from_raw_parts_mut(code_at.cast::<u32>(), code_bytes / 4),
        )
    };
    data::fill(kind, words, base, |n| code::target(code_base, n));
    let length = code::write(kind, instructions) as u32 * 4;
    assert_eq!(simple(number::CACHEFLUSH, code_base, code_base + length, 0), 0, "cacheflush");
    // SAFETY: a function by the rules of C for ARM, which reads and writes the data that was made for it.
    let call: extern "C" fn(u32, u32) = unsafe { core::mem::transmute(code_at) };
    call(base, kind.warming());
    let rounds = kind.rounds() * times;
    let start = now();
    call(base, rounds);
    let time = now() - start;
    // In thousandths, since there is no floating point here: of most operations one is one instruction.
    let thousandths = time * 1000 / (u64::from(rounds) * u64::from(kind.in_round()));
    line(OUTPUT, format_args!("{}.{:03}", thousandths / 1000, thousandths % 1000));
    exit(0);
}
