//! Bare-metal guests.
//!
//! *Exact* guests print all that the architecture lets them see; the same file runs on the real machine that Spica's guest
//! machine is modelled on, and must print the same there.

#[path = "../bare/mod.rs"]
mod bare;

use std::time::Duration;

use bare::{Guest, Outcome};
use spica_tests::Machine;

/// For one guest: they take a second; a busy machine may take many.
const TIMEOUT: Duration = Duration::from_secs(60);

fn run(machine: Machine, guest: &Guest<'_>) -> Outcome {
    bare::run(machine, guest, TIMEOUT).unwrap_or_else(|error| panic!("{machine:?}: {error}"))
}

/// Runs a guest under Spica and on the machine itself, which must agree.
#[track_caller]
fn exact(machine: Machine, name: &str) {
    let guest = Guest { name, parameters: &[], payload: &[] };
    let real = run(Machine::VirtNative, &guest);
    assert!(real.ended && real.guest.ends_with("\nend\n"), "the test itself fails:\n{}", real.tail());
    let outcome = run(machine, &guest);
    for (at, (is, should)) in outcome.guest.lines().zip(real.guest.lines()).enumerate() {
        assert_eq!(is, should, "{name}, line {}, is not what the real machine prints\n{}", at + 1, outcome.tail());
    }
    assert_eq!(outcome.guest.lines().count(), real.guest.lines().count(), "{name} printed:\n{}", outcome.tail());
    assert!(outcome.reason().is_some_and(|r| r.starts_with("powered off")), "{}", outcome.tail());
}

macro_rules! boards {
    ($($module:ident: $machine:ident;)*) => { $(
        mod $module {
            use super::*;
            const MACHINE: Machine = Machine::$machine;

            #[test]
            fn exceptions() {
                exact(MACHINE, "exceptions");
            }

            #[test]
            fn modes() {
                exact(MACHINE, "modes");
            }
        }
    )* };
}

boards! {
    cubieboard: Cubieboard;
    vexpress_a9: VexpressA9;
}
