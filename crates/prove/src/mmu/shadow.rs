//! The part of the shadow tables: guests of many kinds, and what is left of a case that fails.

use spica_mmu::{Separation, Tracking};

use super::world::{Kind, World};
use crate::part::{Failure, Part};
use crate::random::Random;
use crate::reduce;
use crate::work::{Work, attempt, verdict};

/// Steps of a guest.
const STEPS: u32 = 2000;

/// A kind of guest, and a host for it.
fn kind(seed: u64) -> Kind {
    let mut random = Random::new(!seed);
    let plenty = Kind {
        seed,
        pool_bytes: 64 * 16 * 1024,
        max_spaces: 3 + random.below(6) as usize,
        separation: if random.one_in(3) { Separation::Domains } else { Separation::Tables },
        tracking: if random.one_in(4) { Tracking::Writes } else { Tracking::Maintenance },
        plain: false,
        odd: 0,
        ee: random.one_in(3),
        by_word_only: random.one_in(4),
        ballast: 0,
        share_kernel: !random.one_in(4),
        watch_pages: !random.one_in(4),
        keep_tables: !random.one_in(4),
        piece: random.pick(&[1, 2, 7, 30, 1000]),
    };
    match random.below(3) {
        0 => plenty,
        1 => Kind { plain: true, odd: random.pick(&[0, 20]), ..plenty },
        _ => {
            // The tables of one space or two, and six second-level tables.
            let spaces = 1 + random.below(2) as usize;
            Kind { pool_bytes: (2 * spaces + 1) * 16 * 1024, max_spaces: 5, ballast: 10, ..plenty }
        }
    }
}

/// A guest's life: its seed, and which steps it takes.
fn run(seed: u64, steps: &[u32]) -> Vec<(&'static str, u64)> {
    let mut world = World::new(&kind(seed));
    world.run(seed, steps);
    let seen = world.seen();
    world.finish();
    seen
}

/// How tables are read makes no difference.
fn compare(seed: u64) {
    let outcome = |ee, by_word_only| {
        // Where writes are tracked, the fast path of a fault does not count as an entry from the guest's tables.
        let tracking = Tracking::Maintenance;
        let mut world = World::new(&Kind { ee, by_word_only, tracking, ..kind(seed) });
        world.run(seed, &(0..STEPS).collect::<Vec<_>>());
        format!("{:?}", world.finish())
    };
    let expected = outcome(false, false);
    for (ee, by_word_only) in [(true, false), (false, true), (true, true)] {
        assert_eq!(outcome(ee, by_word_only), expected, "EE = {ee}, by word only: {by_word_only}");
    }
}

fn once(seed: u64, steps: &[u32]) -> Vec<(&'static str, u64)> {
    if seed.is_multiple_of(16) && steps.len() == STEPS as usize {
        compare(seed);
    }
    run(seed, steps)
}

/// The shadow tables.
pub struct Shadow;

impl Part for Shadow {
    fn name(&self) -> &str {
        "mmu-shadow"
    }

    fn about(&self) -> &str {
        "random tables, registers and maintenance: shadow tables on a simulated core with the worst of TLBs, against a model"
    }

    fn weight(&self) -> u32 {
        2
    }

    fn must_see(&self) -> Vec<String> {
        let mut world = World::new(&kind(0));
        world.run(0, &[]);
        world.seen().into_iter().map(|(what, _)| what.to_string()).collect()
    }

    fn run(&self, work: &Work) -> Result<(), Failure> {
        let all: Vec<u32> = (0..STEPS).collect();
        let case = |(): &mut (), seed| {
            for (what, times) in once(seed, &all).into_iter().filter(|&(_, times)| times != 0) {
                work.note(what, times);
            }
        };
        work.cases(work.numbers(), 1, || (), case).map(drop).map_err(|(seed, message)| {
            let steps = reduce::list(&all, 2000, |steps| attempt(|| run(seed, steps)).is_err());
            let last = attempt(|| run(seed, &steps)).err();
            let steps: Vec<String> = steps.iter().map(u32::to_string).collect();
            match last {
                Some(message) => Failure::of(format!("{seed} {}", steps.join(",")), message),
                None => Failure::of(seed.to_string(), message),
            }
        })
    }

    fn repeat(&self, case: &str, _work: &Work) -> Result<(), Failure> {
        let wrong = || Failure::trouble("a case is a seed, and perhaps the numbers of steps: 17 3,4,80");
        let (seed, steps) = case.split_once(' ').unwrap_or((case, ""));
        let seed = seed.parse().map_err(|_| wrong())?;
        let steps = match steps {
            "" => (0..STEPS).collect(),
            steps => steps.split(',').map(str::parse).collect::<Result<Vec<u32>, _>>().map_err(|_| wrong())?,
        };
        verdict(case, attempt(|| once(seed, &steps))).map(drop)
    }
}
