//! The same guests under sets of switches: none, then any. Debian boots in between, under all but a few.
//!
//! The parts that know the translator alone draw switches for each case, too. Here is what they lack: the hypervisor
//! around it, whose fast paths depend on switches as well, and long runs.

use spica_switches::Switches as Set;
use spica_tests::exact::{self, GUESTS, MACHINES};
use spica_tests::{Machine, debian_boots};

use crate::board::{machine, unknown};
use crate::part::{Failure, Part};
use crate::random::Random;
use crate::work::{Work, attempt, verdict};

/// The guest that is no file of `tests/bare`.
const DEBIAN: &str = "debian";
/// So many cases to a boot of Debian, which takes as long as a dozen of them.
const BETWEEN_BOOTS: u32 = 26;
/// Without these a boot takes a hundred times the instructions.
const BOOT_NEEDS: &[&str] = &["link", "indirect"];

/// Exact guests and Debian, under sets of switches.
pub struct Switches;

/// Any switches: as a list for `spica.translation`.
fn any(random: &mut Random) -> String {
    let on = |_: &&str| random.one_in(2);
    Set::names().filter(on).fold("naive".into(), |list, name| format!("{list},+{name}"))
}

/// All switches but a few, and some of those that are off by default.
fn nearly_all(random: &mut Random) -> String {
    let mut all = Set::all();
    Set::names().filter(|name| !BOOT_NEEDS.contains(name)).fold("all".into(), |list, name| {
        let on = all.switch(name).is_some_and(|on| *on);
        match (on, random.one_in(if on { 6 } else { 2 })) {
            (true, true) => format!("{list},-{name}"),
            (false, true) => format!("{list},+{name}"),
            _ => list,
        }
    })
}

/// The four pieces of a case's name.
fn pieces(case: &str) -> Option<(Machine, &str, u32, &str)> {
    let mut pieces = case.split('/');
    let found = (machine(pieces.next()?)?, pieces.next()?, pieces.next()?.parse().ok()?, pieces.next()?);
    let known = GUESTS.contains(&found.1) || found.1 == DEBIAN && found.0 == Machine::Cubieboard;
    (known && pieces.next().is_none() && Set::parse(found.3).is_ok()).then_some(found)
}

fn run(machine: Machine, name: &str, seed: u32, switches: &str) {
    let words = format!("spica.translation={switches}");
    if name == DEBIAN {
        // Its transcript is kept for ever, too.
        debian_boots(words.leak());
    } else {
        exact::same_with(machine, name, seed, &words);
    }
}

fn check(work: &Work, (machine, name): (Machine, &str), seed: u32, switches: &str) -> Result<(), Failure> {
    let id = format!("{}/{name}/{seed}/{switches}", machine.board());
    work.say(id.clone());
    verdict(&id, attempt(|| run(machine, name, seed, switches)))?;
    work.note(name, 1);
    work.count(1);
    Ok(())
}

impl Part for Switches {
    fn name(&self) -> &str {
        "board-switches"
    }

    fn about(&self) -> &str {
        "the same guests, and Debian, with the translator's switches off, and any of them on"
    }

    fn weight(&self) -> u32 {
        2
    }

    fn on_board(&self) -> bool {
        true
    }

    fn must_see(&self) -> Vec<String> {
        GUESTS.iter().map(ToString::to_string).collect()
    }

    fn run(&self, work: &Work) -> Result<(), Failure> {
        let mut random = Random::new(work.seed);
        for &name in GUESTS {
            for &machine in MACHINES {
                if work.is_over() {
                    return Ok(());
                }
                check(work, (machine, name), 0, "naive")?;
            }
        }
        for number in 1.. {
            if work.is_over() {
                break;
            }
            if number % BETWEEN_BOOTS == 0 {
                check(work, (Machine::Cubieboard, DEBIAN), 0, &nearly_all(&mut random))?;
            } else {
                let guest = (random.pick(MACHINES), random.pick(GUESTS));
                let seed = random.word() | 1;
                let switches = if random.one_in(4) { nearly_all(&mut random) } else { any(&mut random) };
                check(work, guest, seed, &switches)?;
            }
        }
        Ok(())
    }

    fn repeat(&self, case: &str, _: &Work) -> Result<(), Failure> {
        let Some((machine, name, seed, switches)) = pieces(case) else { return Err(unknown(case)) };
        verdict(case, attempt(|| run(machine, name, seed, switches)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_lists_and_differ() {
        let mut random = Random::new(1);
        let lists: Vec<String> = (0..50).flat_map(|_| [any(&mut random), nearly_all(&mut random)]).collect();
        for list in &lists {
            assert!(Set::parse(list).is_ok(), "{list}");
        }
        let mut different = lists.clone();
        different.sort();
        different.dedup();
        assert!(different.len() > 80);
        for name in Set::names() {
            assert!(lists.iter().any(|list| list.split(',').any(|word| &word[1..] == name)), "{name}");
        }
    }

    #[test]
    fn cases_have_four_pieces() {
        assert_eq!(pieces("cubieboard/mmu/7/naive,+link"), Some((Machine::Cubieboard, "mmu", 7, "naive,+link")));
        assert!(pieces("cubieboard/debian/0/all").is_some());
        for wrong in ["cubieboard/mmu/7", "vexpress-a9/debian/0/all", "cubieboard/mmu/7/lnik", "cubieboard/x/7/all"] {
            assert_eq!(pieces(wrong), None, "{wrong}");
        }
    }
}
