//! Guests that ask of Spica as much as they can (`tests/bare/flood.S`), and what their neighbours get meanwhile.

use spica_tests::Machine;
use spica_tests::several::{Board, Part};

use super::{SHORT, SLEEPS, Slept, rate, slept};

/// A flood: its name, what it needs in the manifest, and a counter that says that it is one.
type Flood = (&'static str, Option<(&'static str, &'static str)>, &'static str, u64);

/// Floods of `flood.S` in its order.
const FLOODS: &[Flood] = &[
    ("computing", None, "scheduler.ticks", 1),
    ("page tables", None, "mmu.invalidate-page", 1000),
    ("TLB maintenance", None, "mmu.invalidate-all", 100),
    ("address spaces", None, "mmu.spaces-evicted", 100),
    ("device registers", None, "trap.mmio", 1000),
    ("virtio: random bytes", Some(("rng", "true")), "trap.mmio", 100),
    ("virtio: frames", Some(("networks", "[\"lan\"]")), "trap.mmio", 100),
    ("code cache", None, "translator.flushes", 1),
    ("code that changes", None, "translator.blocks", 1000),
    ("exceptions", None, "trap.guest-abort", 1000),
    ("resets", None, "guest.resets", 5),
    ("wakes", None, "guest.waits", 1000),
    ("output", None, "trap.mmio", 1000),
    ("virtio: output", Some(("console", "true")), "trap.mmio", 10),
];
/// The flood of resets: once more with a kernel of 12 MiB.
const RESETS: u32 = 10;
const LARGE: usize = 3 << 20;
/// The flood that comes at several speeds, in ticks of sleep.
const WAKES: u32 = 11;

/// A spinner's rate and what a sleeper hears beside flood `kind`, which has so many words behind its kernel's image.
pub fn flooded(machine: Machine, kind: u32, speed: u32, words: usize) -> (f64, Slept) {
    let (_, needs, counter, least) = FLOODS[kind as usize];
    let parameters = [kind, speed];
    let payload = vec![0; words];
    let mut flood = Part::new("flood", "flood", &parameters).with("memory", "\"64M\"");
    if let Some(guest) = &mut flood.guest {
        guest.payload = &payload;
    }
    let mut spinner = Part::new("spinner", "spin", &SHORT);
    if let Some((key, value)) = needs {
        flood = flood.with(key, value);
        // Frames are for everybody.
        spinner = if key == "networks" { spinner.with(key, value) } else { spinner };
    }
    let parts = [spinner, Part::new("sleeper", "sleep", &SLEEPS), flood];
    let mut board = Board::start(machine, &parts, true);
    let figures = (rate(&mut board, "spinner"), slept(&mut board, "sleeper", SLEEPS));
    let counters = board.counters("flood");
    assert!(counters[counter] >= least, "flood {kind} is none: {counter} is {}", counters[counter]);
    figures
}

/// All floods, with their names: what [`flooded`] wants to know.
pub fn all_floods() -> Vec<(String, u32, u32, usize)> {
    let mut all = Vec::new();
    for (kind, (name, ..)) in (0..).zip(FLOODS) {
        if kind == WAKES {
            all.extend([500, 1000, 4000].map(|speed| (format!("{name} after {} µs", speed * 2 / 125), kind, speed, 0)));
            continue;
        }
        all.push(((*name).to_string(), kind, 0, 0));
        if kind == RESETS {
            all.push((format!("{name} of a large kernel"), kind, 0, LARGE));
        }
    }
    all
}

/// No flood takes more of the core than its share, or keeps others from waking.
pub fn floods(machine: Machine) {
    let (should, _) = flooded(machine, 0, 0, 0);
    let mut wrong = String::new();
    for (name, kind, speed, words) in all_floods().into_iter().skip(1) {
        let (rate, Slept { worst, average, .. }) = flooded(machine, kind, speed, words);
        println!(
            "{}: {name}: {rate:.1} of {should:.1}, wakes {average:.0} us late, {worst:.0} at worst",
            machine.board()
        );
        if rate < should * 0.95 || worst >= 2_000.0 {
            wrong += &format!("{name}: {rate} instead of {should}, worst wake {worst} us\n");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}
