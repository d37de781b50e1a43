//! Random guest code runs untranslated and translated, in step: whatever the guest can see is the same between any two
//! of its instructions, and at every fault.
//!
//! `SPICA_CASES` and `SPICA_SEED` say how many cases run and with which seed they begin.

mod model;
mod support;

use model::Random;
use spica_dbt::Options;
use support::generate::{self, Window};
use support::{CODE, CODE_PAGES, DATA, DATA_PAGES, End, Lockstep, Memory, Seed, cases};

/// Runs one case; the memory goes on from one case to the next.
fn case(lockstep: &mut Lockstep, memory: &mut Memory, seed: u64) -> End {
    let _seed = Seed(seed);
    let mut random = Random::new(seed);
    let window = Window::random(&mut random);
    for at in (CODE..CODE + CODE_PAGES * 4096).chain(DATA..DATA + DATA_PAGES * 4096).step_by(4) {
        memory.set_word(at, 0);
    }
    generate::memory(&mut random, memory, &window);
    let machine = generate::machine(&mut random, &window);
    lockstep.start(machine, memory);
    lockstep.run(80, Some(&mut random))
}

fn run(options: impl Fn(&mut Random) -> Options, default_cases: u64) {
    let mut lockstep = Lockstep::new(Options::all());
    let mut memory = Memory::new();
    let mut ends = std::collections::HashMap::new();
    for seed in cases(default_cases) {
        lockstep.set_options(options(&mut Random::new(!seed)));
        *ends.entry(format!("{:?}", case(&mut lockstep, &mut memory, seed))).or_insert(0u32) += 1;
    }
    eprintln!("{ends:?}, {} guest faults, {} interrupts", lockstep.faults, lockstep.interrupts);
}

#[test]
fn all_optimisations() {
    run(|_| Options::all(), 3000);
}

#[test]
fn naive() {
    run(|_| Options::naive(), 2000);
}

#[test]
fn any_options() {
    run(generate::options, 3000);
}
