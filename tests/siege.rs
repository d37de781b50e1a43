//! Attacks on what Spica does in one go (`bare/siege.S`), beside a witness and a guest that sleeps (`bare/pulse.S`):
//! nobody is woken late. Each makes some of Spica's books as long as they get, and then has it go through them.

use crate::Machine;
use crate::hostile::{Attack, Got, attack, beside, computing, fair};

/// How late a guest may be woken, in microseconds, whatever its neighbours do.
pub const LATE: f64 = 1_000.0;

/// A siege: an attack, and one of the attacker's counters that shows that it was one, with what that has at least.
pub type Siege = (Attack, &'static str, u64);

/// All of them.
pub const SIEGES: &[Siege] = &[
    (attack("TLB maintenance with junk in its operands", "siege", 0), "trap.branch.unlinked", 10),
    (
        attack("pages that write to themselves", "siege", 1).with(98_000, 0).needs(&[("memory", "\"400M\"")]),
        "translator.blocks",
        196_000,
    ),
    (attack("exits linked to one block", "siege", 2), "translator.links", 80_000),
    (attack("console output", "siege", 3).with(0x8000, 0).needs(&[("console", "true")]).endless(), "trap.mmio", 20),
    (
        attack("TLB maintenance with many pages of code", "siege", 4).with(8_000, 0).needs(&[("memory", "\"64M\"")]),
        "translator.blocks-now",
        8_000,
    ),
    (attack("system control with many blocks", "siege", 5).with(51_000, 0), "translator.links", 51_000),
    (attack("tables to nowhere in the hole", "siege", 6).with(0, 0), "mmu.invalidate-all", 2_000),
    (attack("empty tables in the hole", "siege", 6).with(1, 0), "mmu.invalidate-all", 2_000),
    (attack("pages that are nowhere in the hole", "siege", 6).with(2, 0), "mmu.invalidate-all", 2_000),
    (attack("sections that are nowhere in the hole", "siege", 6).with(3, 0), "mmu.invalidate-all", 2_000),
];

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
