//! The trap handlers in assembly against those in Rust, in an image that does nothing else: random sessions, on both
//! boards, under the usual switches and others.
//!
//! A case is a boot with some sessions. Of one that fails, the session is tried alone, and steps of it are left out
//! for as long as it fails still.

use spica_switches::Switches;
use spica_tests::Machine;
use spica_tests::exact::MACHINES;
use spica_tests::fast_paths::{self, ANSWERED, Cases, Verdict};

use crate::board::{machine, unknown};
use crate::part::{Failure, Part};
use crate::random::Random;
use crate::reduce;
use crate::work::{Work, attempt};

/// Sessions of a boot.
const SESSIONS: u32 = 100;
/// Boots that may be spent on making a case smaller.
const REDUCTIONS: u32 = 60;

/// See the module's text.
pub struct FastPaths;

/// Switches that decide what the handlers meet: all of them on, or some off.
fn any_switches(random: &mut Random) -> String {
    const RELEVANT: &[&str] = &[
        "link",
        "return-mirror",
        "lazy-dacr",
        "free-registers",
        "quick-vfp",
        "quick-faults",
        "fast-switches",
        "share-kernel",
        "watch-pages",
        "keep-tables",
        "masks",
        "tlb-range",
        "line-range",
        "quick-timer",
    ];
    let mut all = Switches::all();
    RELEVANT.iter().fold(String::from("all"), |list, name| {
        // A name that is no switch any more is left out, which `repeat` would refuse.
        if all.switch(name).is_some() && random.one_in(5) { format!("{list},-{name}") } else { list }
    })
}

/// A case by its name: `BOARD/FIRST+COUNT/SWITCHES/TRACKING`, and of the last session `/STEPS` and `/WITHOUT,…`.
fn name(machine: Machine, cases: &Cases, switches: &str, tracking: &str) -> String {
    let mut name = format!("{}/{}+{}/{switches}/{tracking}", machine.board(), cases.first, cases.count);
    if let Some(steps) = cases.steps {
        let without: Vec<String> = cases.without.iter().map(u32::to_string).collect();
        name += &format!("/{steps}/{}", without.join(","));
    }
    name
}

fn words(switches: &str, tracking: &str) -> String {
    format!(" spica.translation={switches} spica.tracking={tracking}")
}

fn parse(case: &str) -> Option<(Machine, Cases)> {
    let mut pieces = case.split('/');
    let machine = machine(pieces.next()?)?;
    let (first, count) = pieces.next()?.split_once('+')?;
    let (switches, tracking) = (pieces.next()?, pieces.next()?);
    Switches::parse(switches).ok()?;
    if !["maintenance", "writes"].contains(&tracking) {
        return None;
    }
    let steps = pieces.next().map(str::parse).transpose().ok()?;
    let without = pieces.next().unwrap_or_default().split(',').filter(|step| !step.is_empty());
    let without = without.map(str::parse).collect::<Result<_, _>>().ok()?;
    let cases =
        Cases { steps, without, ..Cases::all(first.parse().ok()?, count.parse().ok()?, &words(switches, tracking)) };
    pieces.next().is_none().then_some((machine, cases))
}

/// Runs a boot. What differs is a report.
fn verdict(machine: Machine, cases: &Cases) -> Result<Verdict, String> {
    attempt(|| fast_paths::run(machine, cases)).and_then(|result| result.map_err(|error| error.to_string()))
}

/// The smallest case that fails still, and its report.
fn reduced(machine: Machine, cases: &Cases, session: u32, step: u32, report: String) -> (Cases, String) {
    let fails = |cases: &Cases| match verdict(machine, cases) {
        Ok(Verdict::Bad { session: also, report, .. }) if also == session => Some(report),
        _ => None,
    };
    let last = Cases { count: session + 1 - cases.first, steps: Some(step + 1), ..cases.clone() };
    let alone = Cases { first: session, count: 1, ..last.clone() };
    let (mut small, mut said) = match (fails(&alone), fails(&last)) {
        (Some(report), _) => (alone, report),
        (None, Some(report)) => (last, report),
        (None, None) => return (cases.clone(), report),
    };
    let steps: Vec<u32> = (0..step).collect();
    let without = |kept: &[u32]| steps.iter().copied().filter(|step| !kept.contains(step)).collect::<Vec<_>>();
    let kept =
        reduce::list(&steps, REDUCTIONS, |kept| fails(&Cases { without: without(kept), ..small.clone() }).is_some());
    small.without = without(&kept);
    if let Some(report) = fails(&small) {
        said = report;
    }
    (small, said)
}

impl Part for FastPaths {
    fn name(&self) -> &str {
        "fast-paths"
    }

    fn about(&self) -> &str {
        "the trap handlers in assembly against those in Rust: registers, memory, shadow tables behind random steps"
    }

    fn on_board(&self) -> bool {
        true
    }

    fn must_see(&self) -> Vec<String> {
        ANSWERED.iter().map(ToString::to_string).collect()
    }

    fn run(&self, work: &Work) -> Result<(), Failure> {
        let mut random = Random::new(work.seed);
        for number in 0.. {
            if work.is_over() {
                break;
            }
            let machine = MACHINES[number % MACHINES.len()];
            // The first of each board as it is shipped.
            let usual = number < MACHINES.len();
            let switches = if usual { "all".into() } else { any_switches(&mut random) };
            let tracking = if !usual && random.one_in(4) { "writes" } else { "maintenance" };
            let cases = Cases::all(random.word() >> 1, SESSIONS, &words(&switches, tracking));
            work.say(name(machine, &cases, &switches, tracking));
            match verdict(machine, &cases) {
                Ok(Verdict::Good { answered, .. }) => answered.iter().for_each(|(name, &times)| work.note(name, times)),
                Ok(Verdict::Bad { session, step, report }) => {
                    let (small, report) = reduced(machine, &cases, session, step, report);
                    return Err(Failure::of(name(machine, &small, &switches, tracking), report));
                }
                Err(error) => return Err(Failure::of(name(machine, &cases, &switches, tracking), error)),
            }
            work.count(SESSIONS.into());
        }
        Ok(())
    }

    fn repeat(&self, case: &str, _: &Work) -> Result<(), Failure> {
        let Some((machine, cases)) = parse(case) else { return Err(unknown(case)) };
        match verdict(machine, &cases) {
            Ok(Verdict::Good { .. }) => Ok(()),
            Ok(Verdict::Bad { report, .. }) => Err(Failure::of(case, report)),
            Err(error) => Err(Failure::of(case, error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_which_case_it_is() {
        let mut cases = Cases::all(7, 100, &words("all,-link", "writes"));
        for (steps, without) in [(None, vec![]), (Some(9), vec![]), (Some(9), vec![1, 3])] {
            (cases.steps, cases.without) = (steps, without);
            let name = name(Machine::Cubieboard, &cases, "all,-link", "writes");
            assert_eq!(parse(&name), Some((Machine::Cubieboard, cases.clone())), "{name}");
        }
        for wrong in
            ["cubieboard/7/all/writes", "cubieboard/7+1/lnik/writes", "cubieboard/7+1/all/x", "x/7+1/all/writes"]
        {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn switches_are_known() {
        let mut random = Random::new(1);
        let lists: Vec<String> = (0..100).map(|_| any_switches(&mut random)).collect();
        assert!(lists.iter().all(|list| Switches::parse(list).is_ok()), "{lists:?}");
    }
}
