//! Debian under translations that are there to be compared with what Spica uses (docs/translator.md): techniques to
//! spill registers, in the board image that has them, and a shadow stack.

use std::time::Duration;

use spica_tests::bare::{Guest, run_with};
use spica_tests::{Machine, debian_boots};

#[test]
fn lightweight_traps_to_a_private_slot() {
    debian_boots("spica.translation=all,spill=trap-private");
}

#[test]
#[ignore = "a boot like that with private slots; three minutes for all that are ignored here"]
fn lightweight_traps_to_the_shared_slot() {
    debian_boots("spica.translation=all,spill=trap-shared");
}

#[test]
#[ignore = "a boot like that with private slots"]
fn tpidrurw() {
    debian_boots("spica.translation=all,spill=tpidrurw");
}

#[test]
#[ignore = "a boot like that with TPIDRURW"]
fn pmccntr() {
    debian_boots("spica.translation=all,spill=pmccntr");
}

/// Not a way to spill, but a way that is there to be compared, too: returns without the return mirror.
#[test]
#[ignore = "a boot of its own for a switch that is off by default"]
fn shadow_stack() {
    debian_boots("spica.translation=all,-return-mirror,+shadow-stack");
}

/// A guest that jumps anywhere, and stores anywhere, does not come to run in Undefined mode what it likes: Spica lives,
/// and says what became of the guest.
#[test]
#[ignore = "two minutes of attacks on an image that is never shipped"]
fn lightweight_traps_are_no_way_out() {
    for technique in ["trap-private", "trap-shared"] {
        // Branches, loads and stores in the hypervisor region with the MMU off and on, stores to and jumps to all of
        // Spica's places.
        for (name, parameters) in [("hostile", [3, 0]), ("hostile", [3, 1]), ("assault", [0, 0]), ("assault", [1, 0])] {
            let guest = Guest { name, parameters: &[parameters[0], parameters[1], 0, 0, 0, 1], payload: &[] };
            let words = format!("spica.translation=all,spill={technique}");
            let outcome = run_with(Machine::Cubieboard, &guest, Duration::from_secs(120), &words).expect("a run");
            let what = format!("{name} {parameters:?} with {technique}:\n{}", outcome.tail());
            assert!((outcome.ended || outcome.answered) && !outcome.panicked(), "{what}");
            assert!(outcome.guest.contains("survived") || outcome.reason().is_some(), "{what}");
        }
    }
}
