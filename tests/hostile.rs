//! Guests that attack, beside one that has something to lose.
//!
//! Each attack of `hostile.S` and `assault.S` runs on a board with a witness (`witness.S`): its memory, its clock and
//! its share of the processor must stay its own. Spica's memory has words of its own that must stay (the monitor's
//! `check`), and the monitor must answer while the attack goes on.

use std::collections::BTreeMap;

pub use spica_runner::attacks::{ATTACKS, Attack};
use spica_runner::bare::{PULSE, woken};

use crate::bare::Guest;
use crate::several::{Board, Part, value};
use crate::{Machine, garbage};

/// How often the witness says what it has seen, in milliseconds of its clock.
const PERIOD: [u32; 1] = [300];

/// What an attack's neighbours got.
#[derive(Clone, Debug)]
pub struct Got {
    /// Rounds of the witness, in the first of its periods.
    pub rounds: u32,
    /// How late the guest that sleeps was woken at worst, in microseconds; only where there is one.
    pub late: Option<f64>,
    /// What Spica said of the attacker's end; nothing if it goes on.
    pub end: Option<String>,
    /// The attacker's counters.
    pub counters: BTreeMap<String, u64>,
    /// What the attacker printed.
    pub console: String,
}

/// When an attack is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Until {
    /// When the guest is: it switches itself off, or Spica stops it.
    End,
    /// Never: the witness speaks once, and that is it.
    Never,
    /// It may be endless or not: the witness speaks so many times at most.
    Spoken(usize),
}

/// What the neighbours of `other` get, one that sleeps among them if `pulse`; and nobody is harmed until the attack is
/// over.
#[track_caller]
fn witnessed(machine: Machine, what: &str, other: Part<'_>, until: Until, pulse: bool) -> Got {
    const IN_PLACE: &str = "spica.engine=in-place-from-start";
    let end = format!("guest {}: ", other.name);
    let name = other.name.to_string();
    // Networks are for everybody.
    let in_place = other.keys.contains("engine");
    // What it gets done is compared with what it gets beside another guest, by blocks.
    let by_blocks = |part: Part<'static>| if in_place { part.with("engine", "\"blocks\"") } else { part };
    let mut witness = by_blocks(Part::new("witness", "witness", &PERIOD));
    if other.keys.contains("networks") {
        witness = witness.with("networks", "[\"lan\"]");
    }
    let mut parts = vec![other, witness];
    if pulse {
        parts.push(by_blocks(Part::new("pulse", "pulse", &PULSE)));
    }
    let mut board = Board::start_with(machine, &parts, true, if in_place { IN_PLACE } else { "" });
    let _ = board.line("witness", "up", 1);
    // Where it is seen how late somebody is woken, nothing is typed meanwhile: so a run repeats to the digit.
    if !pulse {
        assert_eq!(board.tell("list").len(), 2, "{what}");
    }
    // All that the witness has said, at least `count` times, once `ready`.
    let mut hear = |what: &str, count: usize, ready: &dyn Fn(&Board, usize) -> bool| {
        let found = board.until(what, |board| {
            let (complete, _) = board.console("witness").rsplit_once('\n').unwrap_or_default();
            let lines: Vec<_> = complete.lines().filter(|l| l.starts_with("seen")).map(str::to_string).collect();
            let panicked = board.spica.iter().any(|line| line.starts_with("panic"));
            if panicked {
                Some(None)
            } else {
                (lines.len() >= count && ready(board, lines.len())).then_some(Some(lines))
            }
        });
        found.unwrap_or_else(|| panic!("{what}: Spica failed\n{}", board.tail()))
    };
    // A guest that resets itself goes on.
    let end_of = |board: &Board| {
        let said = board.spica.iter().filter_map(|line| line.strip_prefix(&end));
        said.filter(|text| !text.starts_with("restarted")).map(str::to_string).next()
    };
    let ended = |board: &Board| end_of(board).is_some();
    let mut seen = hear(what, 1, &|board, count| match until {
        Until::End => ended(board),
        Until::Never => true,
        Until::Spoken(most) => ended(board) || count >= most,
    });
    if until != Until::Never {
        // Once more, for what happened at the very end.
        seen = hear(what, seen.len() + 1, &|_, _| true);
    }
    // How late a guest was woken is what it says behind all that. The monitor's `check` takes long.
    let late = pulse.then(|| {
        let said = board.console("pulse").lines().filter(|line| line.starts_with("woken")).count();
        woken(&board.line("pulse", "woken", said + 1)).expect("the pulse says how late")
    });
    assert_eq!(board.tell("check"), ["intact"], "{what}\n{}", board.tail());
    for (line, mistake) in seen.iter().flat_map(|line| ["wrong", "backwards"].map(|mistake| (line, mistake))) {
        assert_eq!(value(line, mistake), 0, "{what}: {line}\n{}", board.tail());
    }
    assert!(!board.console(&name).contains("neither"), "{what}:\n{}", board.tail());
    assert!(!board.console(&name).contains("reached="), "{what}:\n{}", board.tail());
    let end = end_of(&board);
    let counters = if end.is_some() { board.last_counters(&name) } else { board.counters(&name) };
    Got { rounds: value(&seen[0], "rounds"), late, end, counters, console: board.console(&name).to_string() }
}

/// What the witness gets done beside a guest that only computes: its share.
///
/// # Panics
/// If anything is wrong even so.
#[must_use]
pub fn share(machine: Machine) -> u32 {
    computing(machine, false).rounds
}

/// What the neighbours of a guest get that only computes, one that sleeps among them if `pulse`.
pub(crate) fn computing(machine: Machine, pulse: bool) -> Got {
    beside(machine, &Attack::COMPUTING, 0, pulse)
}

/// Runs an attack, with random numbers from `seed` on (0: where they always begin), beside a witness whose share is
/// `share`.
///
/// Gives the rounds that the witness got done.
///
/// # Panics
/// If it succeeds.
pub fn withstand(machine: Machine, attack: &Attack, seed: u32, share: u32) -> u32 {
    let Got { rounds, .. } = beside(machine, attack, seed, false);
    fair(attack.name, rounds, share);
    rounds
}

/// The witness got its share.
///
/// # Panics
/// If it did not.
#[track_caller]
pub fn fair(what: &str, rounds: u32, share: u32) {
    assert!(f64::from(rounds) > f64::from(share) * 0.88, "{what}: {rounds} rounds instead of {share}");
}

/// Runs an attack beside a witness, and a guest that sleeps if `pulse`.
///
/// # Panics
/// If it harms anybody.
#[must_use]
pub fn beside(machine: Machine, attack: &Attack, seed: u32, pulse: bool) -> Got {
    let parameters = attack.parameters(seed);
    let until = if attack.endless { Until::Never } else { Until::End };
    let got = witnessed(machine, attack.name, attack.part("other", &parameters), until, pulse);
    let ran = !attack.in_place || got.counters["in-place.twins"] > 0;
    assert!(ran, "{}: it did not run in place", attack.name);
    got
}

/// Runs `wild.S` with operations behind its image that `spica_prove::wild` has drawn, until it ends, or for as long as
/// the witness speaks five times.
///
/// # Panics
/// If it harms anybody.
#[must_use]
pub fn wild(machine: Machine, what: &str, words: &[u32]) -> Got {
    let guest = Guest { name: "wild", parameters: &[1], payload: words };
    let part = Part { guest: Some(guest), ..Part::new("other", "wild", &[]) }.with("rng", "true");
    witnessed(machine, what, part, Until::Spoken(5), true)
}

/// Random words of a seed as kernel code, with the MMU off and on (`hostile.S`, 0), and as user code (28).
///
/// # Panics
/// If they do harm.
pub fn random_words(machine: Machine, seed: u32) {
    let words = garbage::words(seed);
    for (number, second) in [(0, 0), (0, 3), (28, 0)] {
        let parameters = [number, seed, second];
        let guest = Guest { name: "hostile", parameters: &parameters, payload: &words };
        let part = Part { guest: Some(guest), ..Part::new("other", "hostile", &[]) };
        witnessed(machine, &format!("garbage {number} of seed {seed}"), part, Until::Spoken(8), false);
    }
}
