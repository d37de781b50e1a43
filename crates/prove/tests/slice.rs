//! A short slice of each part that needs no board: always the same cases, so that it fails only if something changed.

use spica_prove::run::{Plan, part};
use spica_prove::work::Limit;

/// Runs so many cases of a part. Nothing may be wrong, and everything that a part has to see must be seen.
fn slice(name: &str, cases: u64) {
    let parts = spica_prove::parts();
    let one = parts.iter().find(|part| part.name() == name).expect("there is such a part");
    let state = std::env::temp_dir().join(format!("spica-prove-{}-{name}", std::process::id()));
    let plan = Plan { limit: Limit::Cases(cases), seed: 1, jobs: 2, state: state.clone() };
    let outcome = part(one.as_ref(), plan.limit, &plan);
    eprint!("{}{}", outcome.coverage(), outcome.report());
    let _ = std::fs::remove_dir_all(state);
    assert!(outcome.failure.is_none(), "{}", outcome.report());
    assert!(outcome.unseen.is_empty(), "{}", outcome.report());
    assert!(outcome.cases >= cases);
}

#[test]
fn names_are_unique() {
    let parts = spica_prove::parts();
    let mut names: Vec<_> = parts.iter().map(|part| part.name().to_string()).collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), parts.len());
}

#[test]
fn encoder() {
    slice("encoder", 4_000_000);
}

#[test]
fn decoder() {
    slice("decoder", 1_500_000);
}

#[test]
fn decoder_all() {
    slice("decoder-all", 500_000);
}

#[test]
fn translator() {
    slice("translator", 10_000);
}

#[test]
fn translator_points() {
    slice("translator-points", 8_000);
}

/// Needs QEMU, and no board image.
#[test]
fn model() {
    slice("model", 3_200);
}

#[test]
fn copies() {
    slice("copies", 640);
}

#[test]
fn mmu_walk() {
    slice("mmu-walk", 40);
}

#[test]
fn mmu_shadow() {
    slice("mmu-shadow", 150);
}

/// All that comes from outside, without coverage to guide it: `spica prove --part fuzz-` has that.
#[test]
fn fuzz() {
    for target in spica_prove::fuzz::TARGETS {
        slice(&format!("fuzz-{}", target.name), 4_000);
    }
}
