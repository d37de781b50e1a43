//! A short slice of each part that needs no board: always the same cases, so that it fails only if something changed.

use spica_prove::run::{Plan, part};
use spica_prove::work::{Limit, Work};

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
fn decoder_t32() {
    slice("decoder-t32", 500_000);
}

#[test]
fn decoder_t32_all() {
    slice("decoder-t32-all", 400_000);
}

/// Debian's programs for armhf are T32: the first 256 KiB of busybox, nearly all of them code.
#[test]
fn t32_of_a_real_program() {
    let project = spica_runner::project::Project::find(None).expect("this is it");
    let guest = spica_runner::guest::prepare(&project, false).expect("the guest that all tests use");
    let busybox = std::fs::read(guest.tree.join("bin/busybox")).expect("it is in the guest");
    let work = Work::new(Limit::Cases(0), 1, 1, std::path::PathBuf::new());
    let count = spica_prove::decoder::t32::parts::program(&busybox[..256 << 10], &work);
    eprintln!("{count} instructions");
    for (what, times) in work.notes() {
        eprintln!("{times:>8} {what}");
    }
}

#[test]
fn translator() {
    slice("translator", 10_000);
}

#[test]
fn translator_t32() {
    slice("translator-t32", 4_000);
}

#[test]
fn translator_points() {
    slice("translator-points", 8_000);
}

#[test]
fn translator_checked() {
    slice("translator-checked", 5_000);
}

#[test]
fn translator_checked_points() {
    slice("translator-checked-points", 5_000);
}

#[test]
fn translator_in_place() {
    slice("translator-in-place", 2_500);
}

#[test]
fn translator_in_place_points() {
    slice("translator-in-place-points", 2_500);
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
