//! Attacks on what Spica does in one go (`bare/siege.S`), beside a witness and a guest that sleeps (`bare/pulse.S`):
//! nobody is woken late. Each makes some of Spica's records as long as they get, and then has it go through them.

pub use spica_runner::attacks::{SIEGES, Siege};

use spica_runner::bare::Part;

use crate::Machine;
use crate::hostile::{Got, beside, computing};
use crate::several::Board;

/// How late a guest may be woken, in microseconds, whatever its neighbours do.
pub const LATE: f64 = 500.0;

/// What the witness gets of its share at least. It gets 0.999 of it and more: what a siege has Spica do is charged to
/// the guest that lays it.
const SHARE: f64 = 0.98;

/// What a guest's neighbours get that only computes.
///
/// # Panics
/// If anything is wrong even so.
#[must_use]
pub fn calm(machine: Machine) -> Got {
    computing(machine, true)
}

/// Runs a siege, beside neighbours that get `calm` otherwise. Gives what they get.
///
/// # Panics
/// If it succeeds.
#[must_use]
pub fn hold(machine: Machine, (attack, counter, least): &Siege, calm: &Got) -> Got {
    let got = beside(machine, attack, 0, true);
    let name = attack.name;
    assert!(got.counters[*counter] >= *least, "{name} is no siege: {counter} is {}", got.counters[*counter]);
    assert!(got.late.is_some_and(|late| late < LATE), "{name}: woken {:?} us late", got.late);
    let share = f64::from(got.rounds) / f64::from(calm.rounds);
    assert!(share > SHARE, "{name}: {} rounds instead of {}", got.rounds, calm.rounds);
    got
}

/// The siege of the console has a board nearly for itself: it waits for the device with interrupts masked, and no timer
/// is set. It gets further even so, by more than the device does at once.
///
/// # Panics
/// If it does not.
pub fn goes_on_alone(machine: Machine) {
    const LINES: usize = 200;
    /// An eighth of half a turn of a board's timer, which interrupts then, if nothing else does.
    const MOST_TICKS: u64 = 1 << 28;
    let (console, ..) = SIEGES.iter().find(|(siege, ..)| siege.name == "console output").expect("a siege");
    let parameters = console.parameters(0);
    let parts = [console.part("it", &parameters), Part::new("idle", "end", &[0, 3])];
    let mut board = Board::start(machine, &parts, true);
    let _ = board.line("it", "...", LINES);
    let ran = board.counters("it")["scheduler.ticks"];
    assert!(ran < MOST_TICKS, "{LINES} lines took {ran} ticks of the board's timer");
}
