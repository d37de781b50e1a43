//! Guests that print all that the architecture lets them see: natively and under Spica, they must print the same.

use std::time::Duration;

use crate::Machine;
use crate::bare::{self, Guest, Outcome};
use crate::known::Known;

/// For one guest: they take a second; a busy machine may take many.
const TIMEOUT: Duration = Duration::from_secs(60);

/// All of them: files of `tests/bare`.
pub const GUESTS: &[&str] = &[
    "exceptions",
    "faults",
    "modes",
    "pc",
    "mmu",
    "attributes",
    "region",
    "code",
    "stale",
    "exclusive",
    "cp15",
    "interrupts",
    "ticks",
    "vfp",
    "ranges",
    "looks",
    "gives_way",
    "thumb",
    "exceptions_thumb",
    "faults_thumb",
    "interrupts_thumb",
    "returns_thumb",
];

/// Those of them that throw dice: with another seed, they look at something else.
pub const RANDOM: &[&str] = &["mmu", "interrupts", "ticks"];

/// The boards that they run on.
pub const MACHINES: &[Machine] = &[Machine::Cubieboard, Machine::VexpressA9];

fn run(machine: Machine, guest: &Guest<'_>, words: &str) -> Outcome {
    bare::run_with(machine, guest, TIMEOUT, words).unwrap_or_else(|error| panic!("{machine:?}: {error}"))
}

/// Runs a guest under Spica and on the machine itself, which must agree. Its random numbers begin at `seed`; with 0,
/// where they always do.
///
/// # Panics
/// If they do not.
#[track_caller]
pub fn same(machine: Machine, name: &str, seed: u32) {
    same_with(machine, name, seed, "");
}

/// [`same`] with `words` on Spica's command line.
///
/// # Panics
/// As [`same`].
#[track_caller]
pub fn same_with(machine: Machine, name: &str, seed: u32, words: &str) {
    same_but_for(machine, name, seed, words, str::to_string);
}

/// [`same_with`], if `change` is made to what the machine itself prints, line by line. Gives what Spica said, as well.
///
/// # Panics
/// As [`same`].
#[track_caller]
pub fn same_but_for(
    machine: Machine,
    name: &str,
    seed: u32,
    words: &str,
    mut change: impl FnMut(&str) -> String,
) -> Outcome {
    // While unprivileged code runs, QEMU's vexpress-a9 takes SCTLR.A from the bank of the other security state:
    // misaligned accesses cannot be tested there.
    let no_alignment = u32::from(machine == Machine::VexpressA9);
    let guest = Guest { name, parameters: &[no_alignment, 0, 0, 0, 0, seed], payload: &[] };
    let place = || Known::of(&format!("exact-{name}-{no_alignment}")).unwrap_or_else(|error| panic!("{error}"));
    // With dice thrown anew, there is nothing to be found.
    let known = (seed == 0).then(place);
    let before = known.as_ref().and_then(Known::text);
    let new = before.is_none();
    let real = before.unwrap_or_else(|| {
        let real = run(Machine::VirtNative, &guest, "");
        assert!(real.ended && real.guest.ends_with("\nend\n"), "the test itself fails:\n{}", real.tail());
        real.guest
    });
    let outcome = run(machine, &guest, words);
    for (at, (is, should)) in outcome.guest.lines().zip(real.lines()).enumerate() {
        assert_eq!(
            is,
            change(should),
            "{name}, line {}, is not what the real machine prints\n{}",
            at + 1,
            outcome.tail()
        );
    }
    assert_eq!(outcome.guest.lines().count(), real.lines().count(), "{name} printed:\n{}", outcome.tail());
    assert!(outcome.reason().is_some_and(|r| r.starts_with("powered off")), "{}", outcome.tail());
    if let Some(known) = known.filter(|_| new) {
        known.keep(&real).unwrap_or_else(|error| panic!("{error}"));
    }
    outcome
}
