//! Memory modes that are there to be compared with what Spica uses (docs/memory.md): they must be as right.

use std::time::Duration;

use spica_tests::bare::{Guest, run_with};
use spica_tests::exact::{GUESTS, MACHINES, same_with};
use spica_tests::{Machine, debian_boots};

/// One shadow table for the guest's kernel and its user code.
const SINGLE: &str = "spica.tables=single";
/// Write-protected guest tables, with a reverse map.
const WRITES: &str = "spica.tracking=writes";

#[test]
#[ignore = "a boot of an image that is never shipped: a minute and a half with its build"]
fn debian_under_a_single_table() {
    debian_boots(SINGLE);
}

#[test]
#[ignore = "all exact guests on both boards, for a mode that is off by default: a minute"]
fn all_exact_guests_under_a_single_table() {
    for &machine in MACHINES {
        GUESTS.iter().for_each(|name| same_with(machine, name, 0, SINGLE));
    }
}

/// What is for the guest's kernel alone is out of its user code's reach, and Spica out of both.
#[test]
#[ignore = "attacks on an image that is never shipped: a minute"]
fn a_single_table_is_no_way_out() {
    no_way_out(SINGLE);
}

fn no_way_out(words: &str) {
    for parameters in [[3, 0], [3, 1], [1, 0], [0, 3]] {
        let guest = Guest { name: "hostile", parameters: &[parameters[0], parameters[1], 0, 0, 0, 1], payload: &[] };
        let outcome = run_with(Machine::Cubieboard, &guest, Duration::from_secs(120), words).expect("a run");
        let what = format!("hostile {parameters:?}:\n{}", outcome.tail());
        assert!((outcome.ended || outcome.answered) && !outcome.panicked(), "{what}");
        assert!(outcome.guest.contains("survived") || outcome.reason().is_some(), "{what}");
    }
}

#[test]
#[ignore = "a boot that takes six times the instructions"]
fn debian_under_tracked_writes() {
    debian_boots(WRITES);
}

#[test]
fn exact_guests_under_tracked_writes() {
    for name in ["mmu", "code", "region"] {
        same_with(Machine::Cubieboard, name, 0, WRITES);
    }
}

#[test]
#[ignore = "all exact guests on both boards, for a mode that is off by default: a minute"]
fn all_exact_guests_under_tracked_writes() {
    for &machine in MACHINES {
        GUESTS.iter().for_each(|name| same_with(machine, name, 0, WRITES));
    }
}

#[test]
#[ignore = "attacks in a mode that is off by default: a minute"]
fn tracked_writes_are_no_way_out() {
    no_way_out(WRITES);
}
