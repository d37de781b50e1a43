//! Guests that attack, beside one that has something to lose: see `spica_tests::hostile`.

use spica_prove::wild::Program;
use spica_tests::Machine;
use spica_tests::hostile::{ATTACKS, fair, random_words, share, wild, withstand};
use spica_tests::siege::{LATE, calm};

/// All attacks of a group.
fn all_of(machine: Machine, group: &str) {
    let share = share(machine);
    let (_, attacks) = ATTACKS.iter().find(|(name, _)| *name == group).expect("a group");
    for attack in *attacks {
        let rounds = withstand(machine, attack, 0, share);
        println!("{}: {rounds} rounds, {share} beside one that computes", attack.name);
    }
}

/// Random operations of a kernel: the short form of `spica prove --part hostile-random`.
fn random(machine: Machine, seeds: &[u64]) {
    let calm = calm(machine);
    for &seed in seeds {
        let got = wild(machine, &format!("seed {seed}"), &Program::new(seed).words());
        println!(
            "seed {seed}: {:?}, woken {:?} us late, {}",
            got.end,
            got.late,
            got.console.lines().last().unwrap_or("")
        );
        fair("random operations", got.rounds, calm.rounds);
        assert!(got.late.is_some_and(|late| late < LATE), "seed {seed}: woken {:?} us late", got.late);
    }
}

macro_rules! boards {
    ($($module:ident: $machine:ident $(, #[$slow:meta])?;)*) => { $(
        mod $module {
            use super::*;
            const MACHINE: Machine = Machine::$machine;

            #[test]
            $(#[$slow])?
            fn code_cache_and_vcpu_page() {
                all_of(MACHINE, "code cache and vCPU page");
            }

            #[test]
            #[ignore = "more of what `code_cache_and_vcpu_page` has: a minute"]
            fn forged_returns() {
                all_of(MACHINE, "forged returns");
            }

            #[test]
            $(#[$slow])?
            fn supervisor_calls() {
                all_of(MACHINE, "supervisor calls");
            }

            #[test]
            $(#[$slow])?
            fn translation_tables() {
                all_of(MACHINE, "translation tables");
            }

            #[test]
            $(#[$slow])?
            fn devices() {
                all_of(MACHINE, "devices");
            }

            #[test]
            $(#[$slow])?
            fn storms() {
                all_of(MACHINE, "storms");
            }

            #[test]
            $(#[$slow])?
            fn states() {
                all_of(MACHINE, "states");
            }

            #[test]
            $(#[$slow])?
            fn in_place() {
                all_of(MACHINE, "in place");
            }

            #[test]
            #[ignore = "in place, what `code_cache_and_vcpu_page` and others have by blocks: a minute"]
            fn more_in_place() {
                all_of(MACHINE, "in place, what others have by blocks");
            }

            #[test]
            $(#[$slow])?
            fn random() {
                super::random(MACHINE, &[6, 7]);
            }

            #[test]
            $(#[$slow])?
            fn random_words() {
                for seed in 1..=2 {
                    super::random_words(MACHINE, seed);
                }
            }
        }
    )* };
}

boards! {
    cubieboard: Cubieboard;
    vexpress_a9: VexpressA9, #[ignore = "attacks that the other board has, too: three minutes for all of them"];
}
