//! The whole on emulated boards: guests that compare, guests that attack, and one that works for long. What they are is
//! in `tests/`, whose own runs throw the same dice each time; here, they throw others.

mod endurance;
mod fast_paths;
mod silicon;
mod switches;
mod wild;

pub use endurance::Endurance;
pub use fast_paths::FastPaths;
pub use silicon::Silicon;
pub use switches::Switches;
pub use wild::Wild;

use spica_runner::board;
use spica_tests::Machine;
use spica_tests::exact::{self, GUESTS, MACHINES, RANDOM};
use spica_tests::hostile::{self, ATTACKS, Attack};
use std::collections::BTreeMap;

use crate::part::{Failure, Part};
use crate::random::Random;
use crate::work::{Work, attempt, verdict};

/// The board of this name that guests are run on.
fn machine(name: &str) -> Option<Machine> {
    MACHINES.iter().copied().find(|machine| machine.board() == name)
}

fn unknown(case: &str) -> Failure {
    Failure::trouble(format!(
        "{case:?} is no case: expected BOARD/GUEST/SEED, with /SWITCHES for board-switches, and a board of {}",
        names().join(" or ")
    ))
}

fn names() -> Vec<&'static str> {
    board::BOARDS.iter().map(|board| board.name).filter(|name| machine(name).is_some()).collect()
}

/// The three pieces of a case's name.
fn pieces(case: &str) -> Option<(Machine, &str, u32)> {
    let mut pieces = case.split('/');
    let found = (machine(pieces.next()?)?, pieces.next()?, pieces.next()?.parse().ok()?);
    pieces.next().is_none().then_some(found)
}

/// Runs cases until the work is over: `all` of them on each board once, then those of `again` with one seed after the
/// other.
fn throw<'a>(
    work: &Work,
    all: &[&'a str],
    again: &[&'a str],
    mut case: impl FnMut(Machine, &'a str, u32),
) -> Result<(), Failure> {
    let mut random = Random::new(work.seed);
    let mut round = all;
    loop {
        for (name, machine) in round.iter().flat_map(|name| MACHINES.iter().map(move |machine| (*name, *machine))) {
            if work.is_over() {
                return Ok(());
            }
            let seed = random.word() | 1;
            let id = format!("{}/{name}/{seed}", machine.board());
            work.say(id.clone());
            verdict(&id, attempt(|| case(machine, name, seed)))?;
            work.note(name, 1);
            work.count(1);
        }
        round = again;
    }
}

/// Guests print under Spica what they print without it.
pub struct Same;

impl Part for Same {
    fn name(&self) -> &str {
        "board"
    }

    fn about(&self) -> &str {
        "bare-metal guests against the machine itself: what they print must be the same"
    }

    fn on_board(&self) -> bool {
        true
    }

    fn must_see(&self) -> Vec<String> {
        GUESTS.iter().map(ToString::to_string).collect()
    }

    fn run(&self, work: &Work) -> Result<(), Failure> {
        throw(work, GUESTS, RANDOM, exact::same)
    }

    fn repeat(&self, case: &str, _: &Work) -> Result<(), Failure> {
        let Some((machine, name, seed)) = pieces(case).filter(|(_, name, _)| GUESTS.contains(name)) else {
            return Err(unknown(case));
        };
        verdict(case, attempt(|| exact::same(machine, name, seed)))
    }
}

/// Guests attack, and nobody else notices.
pub struct Hostile;

/// Random words are no attack of the table.
const WORDS: &str = "random words";

fn attacks() -> impl Iterator<Item = &'static Attack> {
    ATTACKS.iter().flat_map(|(_, attacks)| attacks.iter())
}

fn attack(machine: Machine, name: &str, seed: u32, share: u32) {
    match attacks().find(|attack| attack.name == name) {
        Some(attack) => drop(hostile::withstand(machine, attack, seed, share)),
        None => hostile::random_words(machine, seed),
    }
}

impl Part for Hostile {
    fn name(&self) -> &str {
        "hostile"
    }

    fn about(&self) -> &str {
        "guests that attack, beside one whose memory, clock and share of time must stay its own"
    }

    fn on_board(&self) -> bool {
        true
    }

    fn must_see(&self) -> Vec<String> {
        attacks().map(|attack| attack.name.to_string()).chain([WORDS.to_string()]).collect()
    }

    fn run(&self, work: &Work) -> Result<(), Failure> {
        let all: Vec<&str> = attacks().map(|attack| attack.name).chain([WORDS]).collect();
        let mut shares = BTreeMap::new();
        throw(work, &all, &all, |machine, name, seed| {
            let share = *shares.entry(machine).or_insert_with(|| hostile::share(machine));
            attack(machine, name, seed, share);
        })
    }

    fn repeat(&self, case: &str, _: &Work) -> Result<(), Failure> {
        let known = |name: &str| name == WORDS || attacks().any(|attack| attack.name == name);
        let Some((machine, name, seed)) = pieces(case).filter(|(_, name, _)| known(name)) else {
            return Err(unknown(case));
        };
        verdict(case, attempt(|| attack(machine, name, seed, hostile::share(machine))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_have_three_pieces() {
        assert_eq!(pieces("cubieboard/mmu/7"), Some((Machine::Cubieboard, "mmu", 7)));
        for wrong in ["cubieboard/mmu", "nothing/mmu/7", "cubieboard/mmu/x", "cubieboard/mmu/7/8", ""] {
            assert_eq!(pieces(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn names_are_names_of_one_thing() {
        let mut names: Vec<&str> = attacks().map(|attack| attack.name).chain([WORDS]).collect();
        names.sort_unstable();
        assert!(
            names.windows(2).all(|two| two[0] != two[1]) && names.iter().all(|name| !name.contains('/')),
            "{names:?}"
        );
    }
}
