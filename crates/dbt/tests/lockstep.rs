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

/// Runs one case in `memory`, whose present contents do not matter.
fn case(lockstep: &mut Lockstep, memory: &mut Memory, seed: u64) -> End {
    let _seed = Seed(seed);
    let mut random = Random::new(seed);
    let window = Window::random(&mut random);
    for at in (CODE..CODE + CODE_PAGES * 4096).chain(DATA..DATA + DATA_PAGES * 4096).step_by(4) {
        memory.set_word(at, 0);
    }
    generate::memory(&mut random, memory, &window);
    let machine = generate::machine(&mut random, &window);
    lockstep.start(machine, memory, window, seed);
    lockstep.run(80, true)
}

/// What must happen in the tests beside instructions of all [`generate::KINDS`]: with all options, and for once.
const RULES: &[&str] = &[
    "DACR, eagerly",
    "DACR, with a trap",
    "DACR, without a trap",
    "FPEXC, with a trap",
    "FPEXC, without a trap",
    "TLB, by its own trap",
    "a block for once",
    "a fault of cache maintenance",
    "a fault of the User bank",
    "an exception return that is followed",
    "an unprivileged access, checked",
];

fn run(options: impl Fn(&mut Random) -> Options, default_cases: u64, expected: &[&str]) {
    let mut lockstep = Lockstep::new(Options::all());
    let mut memory = Memory::new();
    let (mut whole, mut mirrored) = (0, false);
    let cases = cases(default_cases);
    for seed in cases.clone() {
        let options = options(&mut Random::new(!seed));
        mirrored |= options.indirect && options.return_mirror;
        lockstep.set_options(options, seed & 1 == 0);
        whole += u64::from(case(&mut lockstep, &mut memory, seed) == End::Enough);
    }
    let Lockstep { faults, interrupts, skipped, strayed, landings, seen, .. } = lockstep;
    let count = cases.end - cases.start;
    eprintln!(
        "{whole} of {count} whole, {faults} faults, {interrupts} interrupts, {skipped} skipped, {strayed} strayed, {landings} landings"
    );
    if count >= default_cases {
        let enough = 9 * count / 10;
        assert!(whole > enough && u64::from(faults.min(interrupts)) > count, "the cases have become too tame");
        assert!(landings != 0 || !mirrored, "nothing went through the return mirror");
        for what in generate::KINDS.iter().chain(expected) {
            let times = seen.get(what).copied().unwrap_or(0);
            assert!(times >= 3, "{what}: {times} times only; {seen:#?}");
        }
    }
}

#[test]
fn all_optimisations() {
    run(|_| Options { vfp: true, thumbee: true, ..Options::all() }, 2000, RULES);
}

#[test]
fn naive() {
    run(|_| Options::naive(), 1500, &["an exception return that is followed"]);
}

#[test]
fn any_options() {
    run(generate::options, 2500, RULES);
}
