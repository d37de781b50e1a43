//! Attacks on what Spica does in one go (`bare/siege.S`), beside a witness and a guest that sleeps (`bare/pulse.S`):
//! nobody is woken late. Each makes some of Spica's records as long as they get, and then has it go through them.

pub use spica_runner::attacks::{SIEGES, Siege};

use crate::Machine;
use crate::hostile::{Got, beside, computing, fair};

/// How late a guest may be woken, in microseconds, whatever its neighbours do.
pub const LATE: f64 = 500.0;

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
    fair(name, got.rounds, calm.rounds);
    got
}
