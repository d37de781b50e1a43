//! Several guests on a board: shares of time, clocks, floods, and that none sees anything of another's.
//!
//! The guests are small ones of our own (`tests/bare`). Instructions are counted: the figures are the same in each run,
//! so that a test can ask for them to the percent. `spica bench --workload 'several/*'` measures the same guests.

mod floods;
mod slow;

use floods::{all_floods, flooded, floods};
use spica_runner::bare::{self, Slept};
use spica_tests::Machine;
use spica_tests::several::{Board, Part, value};

/// When a spinner counts: from when to when, and until when it goes on for others to count, in milliseconds since its
/// start.
type During = [u32; 3];
const SHORT: During = [100, 600, 700];
const LONG: During = [150, 2150, 2300];
/// 50 slices for each of eight.
const LONGER: During = [150, 4150, 4300];

/// Rounds of 1,000 loops that a spinner got done in a millisecond.
#[track_caller]
fn rate(board: &mut Board, name: &str) -> f64 {
    let line = board.line(name, "done", 1);
    bare::rate(&line).unwrap_or_else(|| panic!("{line:?}"))
}

/// What sleeper `name` says at its end.
#[track_caller]
fn slept(board: &mut Board, name: &str, [period, count, ..]: [u32; 4]) -> Slept {
    let line = board.line(name, "slept", 1);
    Slept::read(&line, period, count).unwrap_or_else(|problem| panic!("{problem}"))
}

/// A sleeper: 250 ticks a second, for less long than a spinner spins.
const SLEEPS: [u32; 4] = [250_000, 125, 0, 1];
/// The same, but awake between its ticks.
const AWAKE: [u32; 4] = [250_000, 125, 1, 1];
/// A guest that waits for ever, without a timer.
const IDLES: [u32; 2] = [0, 3];

/// The rates of spinners with weights of 100 and 300.
fn weighted(machine: Machine) -> [f64; 2] {
    let spinner = |name, weight| Part::new(name, "spin", &LONG).with("weight", weight);
    let mut board = Board::start(machine, &[spinner("one", "100"), spinner("three", "300")], true);
    ["one", "three"].map(|name| rate(&mut board, name))
}

fn weights(machine: Machine) {
    let [one, three] = weighted(machine);
    assert!((three / one / 3.0 - 1.0).abs() < 0.02, "300 : 100 is {three} : {one}");
}

fn eight(machine: Machine) {
    let names: Vec<_> = (0..8).map(|n| format!("spinner{n}")).collect();
    let parts: Vec<_> = names.iter().map(|name| Part::new(name, "spin", &LONGER)).collect();
    let mut board = Board::start(machine, &parts, true);
    let rates: Vec<_> = names.iter().map(|name| rate(&mut board, name)).collect();
    let mean = rates.iter().sum::<f64>() / 8.0;
    // Who is a slice ahead of another when the time begins may be one behind at its end: two of 50.
    assert!(rates.iter().all(|rate| (rate / mean - 1.0).abs() < 0.04), "{rates:?}");
    board.end();
}

/// A spinner's rate alone, beside a guest that waits for ever, and beside one with a timer of 250 Hz.
fn idle_neighbours(machine: Machine) -> [f64; 3] {
    let spinner = || Part::new("spinner", "spin", &SHORT);
    let ticking = [250_000, 1 << 30, 0];
    [
        vec![spinner()],
        vec![spinner(), Part::new("idle", "end", &IDLES)],
        vec![spinner(), Part::new("ticking", "sleep", &ticking)],
    ]
    .map(|parts| rate(&mut Board::start(machine, &parts, true), "spinner"))
}

fn idle_neighbour(machine: Machine) {
    let [alone, idle, ticking] = idle_neighbours(machine);
    assert!(idle > alone * 0.995, "{idle} instead of {alone}");
    assert!(ticking > alone * 0.98, "{ticking} instead of {alone}");
}

fn clocks(machine: Machine) {
    let parts = [
        Part::new("spinner", "spin", &SHORT),
        Part::new("sleeper", "sleep", &SLEEPS),
        Part::new("awake", "sleep", &AWAKE),
    ];
    let mut board = Board::start(machine, &parts, true);
    // Two that spin share the time in slices of 10 ms; one that sleeps does not wait for their end.
    let asleep = slept(&mut board, "sleeper", SLEEPS);
    assert!(asleep.worst < 1000.0, "{asleep:?}");
    let awake = slept(&mut board, "awake", AWAKE);
    assert!(awake.worst < 11_000.0, "{awake:?}");
}

/// How much spinners `a` and `b` get of the core from now on, while `b` gets a quarter of a second, in ticks of the
/// host's timer.
fn from_now_on(board: &mut Board, machine: Machine) -> [u64; 2] {
    let got = |board: &mut Board| ["a", "b"].map(|name| board.counters(name)["scheduler.ticks"]);
    let before = got(board);
    let enough = before[1] + (timer_hertz(machine) / 4.0) as u64;
    let mut after = before;
    board.poll("a quarter of a second of b", |board| {
        after = got(board);
        after[1] >= enough
    });
    [after[0] - before[0], after[1] - before[1]]
}

/// Whoever was paused, or off, or started while nobody wanted to run, gets its share from then on: no more.
fn comes_back(machine: Machine) {
    let endless = [100, 600, 60_000];
    let spinner = |name| Part::new(name, "spin", &endless);

    let mut board = Board::start(machine, &[spinner("a"), spinner("b")], true);
    board.line("b", "up", 1);
    board.tell("pause b");
    board.line("a", "done", 1);
    board.tell("resume b");
    let [a, b] = from_now_on(&mut board, machine);
    assert!(a * 10 > b * 9, "after a pause, {a} : {b}");
    board.tell("stop b");
    let before = board.counters("a")["scheduler.ticks"];
    let enough = before + (timer_hertz(machine) / 2.0) as u64;
    board.poll("half a second of a", |board| board.counters("a")["scheduler.ticks"] >= enough);
    board.tell("start b");
    let [a, b] = from_now_on(&mut board, machine);
    assert!(a * 10 > b * 9, "after a stop, {a} : {b}");

    let mut board = Board::start(machine, &[spinner("a"), spinner("b").with("autostart", "false")], true);
    board.line("a", "done", 1);
    board.tell("stop a");
    board.tell("start b");
    board.line("b", "up", 1);
    board.tell("start a");
    let [a, b] = from_now_on(&mut board, machine);
    assert!(a * 10 > b * 9, "after a start while nobody ran, {a} : {b}");
}

fn leaks(machine: Machine) {
    // While unprivileged code runs, QEMU's vexpress-a9 takes SCTLR.A from the bank of the other security state.
    let no_alignment = u32::from(machine == Machine::VexpressA9);
    let [a, b, c] = [0x11, 0, 0x33].map(|seed| [seed, 40, no_alignment]);
    let parts = [Part::new("a", "leak", &a), Part::new("b", "leak", &b), Part::new("c", "leak", &c)];
    let mut board = Board::start(machine, &parts, true);
    for name in ["a", "b", "c"] {
        let line = board.line(name, "looked", 1);
        for what in ["strange", "rights", "alignment", "reserved", "foreign", "window", "reached"] {
            assert_eq!(value(&line, what), 0, "{name}: {line}\n{}", board.tail());
        }
    }
    // They did take turns in between.
    board.end();
    assert!(["a", "b", "c"].iter().all(|name| board.last_counters(name)["scheduler.switches"] > 5), "{}", board.tail());
}

/// The frequency of the host's timer.
pub fn timer_hertz(machine: Machine) -> f64 {
    if machine == Machine::Cubieboard { 24e6 } else { 1e6 }
}

/// Prints what floods take from their neighbours, for docs/scheduling.md.
fn figures(machine: Machine) {
    println!("\n{}", machine.board());
    let (should, _) = flooded(machine, 0, 0, 0);
    for (name, kind, speed, words) in all_floods() {
        let (rate, slept) = flooded(machine, kind, speed, words);
        println!("{name}: {:+.2} %, worst wake {:.0} µs", (rate / should - 1.0) * 100.0, slept.worst);
    }
}

macro_rules! boards {
    ($($module:ident: $machine:ident $(, #[$slow:meta])?;)*) => { $(
        mod $module {
            use super::*;
            const MACHINE: Machine = Machine::$machine;

            #[test]
            fn shares_are_as_weights() {
                weights(MACHINE);
            }

            #[test]
            $(#[$slow])?
            fn eight_at_once() {
                eight(MACHINE);
            }

            #[test]
            fn an_idle_neighbour_costs_nothing() {
                idle_neighbour(MACHINE);
            }

            #[test]
            $(#[$slow])?
            fn who_comes_back_gets_its_share() {
                comes_back(MACHINE);
            }

            #[test]
            fn clocks_are_right() {
                clocks(MACHINE);
            }

            #[test]
            $(#[$slow])?
            fn floods_take_no_more_than_their_share() {
                floods(MACHINE);
            }

            #[test]
            fn nothing_leaks() {
                leaks(MACHINE);
            }

            #[test]
            #[ignore = "checks nothing: prints the figures of docs/scheduling.md, for who asks"]
            fn figures() {
                super::figures(MACHINE);
            }
        }
    )* };
}

boards! {
    cubieboard: Cubieboard;
    vexpress_a9: VexpressA9, #[ignore = "what the other board shows, too: three minutes for all that are ignored here"];
}
