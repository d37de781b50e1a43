//! Bare-metal guests.
//!
//! *Exact* guests print all that the architecture lets them see; the same file runs on the real machine that Spica's
//! guest machine is modelled on, and must print the same there.
//!
//! *Hostile* guests attack. Whatever they do, Spica goes on, or stops the guest and says why; it never fails itself,
//! and never falls silent.

use std::time::Duration;

use spica_tests::Machine;
use spica_tests::bare::{self, Guest, Outcome};
use spica_tests::exact::same;
use spica_tests::garbage;

/// For one guest: most take a second, some four; a busy machine has taken more than a minute.
const TIMEOUT: Duration = Duration::from_secs(240);

/// What has to come of an attack.
#[derive(Clone, Copy, Debug)]
enum Ending {
    /// The guest gets through all of it, and switches itself off.
    Survives,
    /// Spica stops the guest, for a reason that contains this.
    Stops(&'static str),
    /// It goes on for ever; Spica answers when asked for a report.
    GoesOn,
    /// Any of these.
    Any,
}

/// For an attack that goes on for ever, or may.
const ENDLESS: Duration = Duration::from_secs(2);

/// Runs attack `number` of `hostile.S`, with two parameters and words for it to execute.
#[track_caller]
fn attack(machine: Machine, number: u32, parameters: [u32; 2], payload: &[u32], ending: Ending) -> Outcome {
    let guest = Guest { name: "hostile", parameters: &[number, parameters[0], parameters[1]], payload };
    let timeout = if matches!(ending, Ending::GoesOn | Ending::Any) { ENDLESS } else { TIMEOUT };
    let outcome = bare::run(machine, &guest, timeout).unwrap_or_else(|error| panic!("{machine:?}: {error}"));
    let what = format!("attack {number} with {parameters:x?}");
    assert!(!outcome.panicked(), "{what}: Spica failed:\n{}", outcome.tail());
    let reason = outcome.reason().unwrap_or_default();
    let survived = outcome.guest.contains("survived") && reason.starts_with("powered off");
    let as_expected = match ending {
        Ending::Survives => survived,
        Ending::Stops(why) => outcome.ended && reason.starts_with("stopped: ") && reason.contains(why),
        Ending::GoesOn => outcome.answered,
        Ending::Any => outcome.answered || outcome.ended && !reason.is_empty(),
    };
    assert!(as_expected, "{what} should end like this: {ending:?}\n{}", outcome.tail());
    outcome
}

const VECTORS: Ending = Ending::Stops("exception vectors fault");
const BIG_ENDIAN: Ending = Ending::Stops("big-endian");

macro_rules! boards {
    ($($module:ident: $machine:ident $(, #[$slow:meta])?;)*) => { $(
        mod $module {
            use super::*;
            const MACHINE: Machine = Machine::$machine;

            #[test]
            fn exceptions() {
                same(MACHINE, "exceptions", 0);
            }

            #[test]
            fn modes() {
                same(MACHINE, "modes", 0);
            }

            #[test]
            fn program_counter() {
                same(MACHINE, "pc", 0);
            }

            #[test]
            fn thumb_state() {
                same(MACHINE, "thumb", 0);
                same(MACHINE, "returns_thumb", 0);
            }

            #[test]
            fn thumb_state_for_exceptions() {
                for name in ["exceptions_thumb", "faults_thumb", "interrupts_thumb"] {
                    same(MACHINE, name, 0);
                }
            }

            #[test]
            fn mmu() {
                same(MACHINE, "mmu", 0);
            }

            #[test]
            fn mmu_where_spica_lives() {
                same(MACHINE, "region", 0);
            }

            #[test]
            fn changing_code() {
                same(MACHINE, "code", 0);
            }

            #[test]
            fn text_reads_as_it_is() {
                same(MACHINE, "looks", 0);
            }

            #[test]
            $(#[$slow])?
            fn gives_way() {
                same(MACHINE, "gives_way", 0);
            }

            #[test]
            fn faults() {
                same(MACHINE, "faults", 0);
            }

            #[test]
            fn memory_attributes() {
                same(MACHINE, "attributes", 0);
            }

            #[test]
            fn code_without_maintenance() {
                same(MACHINE, "stale", 0);
            }

            #[test]
            fn exclusives() {
                same(MACHINE, "exclusive", 0);
            }

            #[test]
            fn system_registers() {
                same(MACHINE, "cp15", 0);
            }

            #[test]
            fn interrupts_in_tight_loops() {
                same(MACHINE, "interrupts", 0);
            }

            #[test]
            fn ticks_of_a_timer() {
                same(MACHINE, "ticks", 0);
            }

            #[test]
            fn maintenance_of_ranges() {
                same(MACHINE, "ranges", 0);
            }

            #[test]
            fn vector_registers() {
                same(MACHINE, "vfp", 0);
            }

            #[test]
            $(#[$slow])?
            fn garbage_as_kernel_code() {
                // Parameter 2: bit 0 turns the MMU on, bit 1 lets registers point into the code cache.
                for seed in 1..=8 {
                    attack(MACHINE, 0, [seed, seed & 3], &garbage::words(seed), Ending::Any);
                }
            }

            #[test]
            fn the_code_cache_is_no_way_in() {
                attack(MACHINE, 1, [0; 2], &[], Ending::Any);
                attack(MACHINE, 2, [0; 2], &[], Ending::Any);
                attack(MACHINE, 3, [0; 2], &[], Ending::Survives);
                attack(MACHINE, 3, [1, 0], &[], Ending::Survives);
                let outcome = attack(MACHINE, 4, [0; 2], &[], Ending::Survives);
                assert!(outcome.guest.contains("exceptions=00000200"), "{}", outcome.tail());
            }

            #[test]
            fn mapping_the_region() {
                attack(MACHINE, 5, [0xf600_0000, 0], &[], Ending::Survives);
                attack(MACHINE, 5, [0xfcf0_0000, 0], &[], Ending::Survives);
                attack(MACHINE, 5, [0xf180_0000, 0], &[], Ending::Stops("it uses 0xf1800000"));
                attack(MACHINE, 5, [0xf300_0000, 0], &[], Ending::Stops("it uses 0xf3000000"));
            }

            #[test]
            fn translation_tables() {
                attack(MACHINE, 6, [0; 2], &[], Ending::Survives);
                attack(MACHINE, 7, [0; 2], &[], Ending::Survives);
                attack(MACHINE, 8, [0; 2], &[], Ending::Survives);
                attack(MACHINE, 18, [0; 2], &[], VECTORS);
            }

            #[test]
            fn everything_outside_the_cpu() {
                attack(MACHINE, 9, [0; 2], &[], Ending::Survives);
                attack(MACHINE, 10, [0; 2], &[], Ending::Survives);
                attack(MACHINE, 11, [0; 2], &[], Ending::Survives);
                attack(MACHINE, 12, [0; 2], &[], Ending::Survives);
            }

            #[test]
            fn status_registers() {
                attack(MACHINE, 13, [0; 2], &[], Ending::Survives);
            }

            #[test]
            $(#[$slow])?
            fn code_without_end() {
                attack(MACHINE, 14, [0; 2], &[], Ending::Survives);
                attack(MACHINE, 15, [0; 2], &[], Ending::Survives);
            }

            #[test]
            $(#[$slow])?
            fn nothing_goes_on() {
                attack(MACHINE, 16, [0; 2], &[], VECTORS);
                for endless in [17, 19, 20, 21] {
                    attack(MACHINE, endless, [0; 2], &[], Ending::GoesOn);
                }
            }

            #[test]
            fn states() {
                attack(MACHINE, 22, [0; 2], &[], Ending::Survives);
                attack(MACHINE, 23, [0; 2], &[], Ending::Survives);
                attack(MACHINE, 24, [0; 2], &[], BIG_ENDIAN);
                attack(MACHINE, 25, [0; 2], &[], Ending::Any);
                attack(MACHINE, 26, [0; 2], &[], BIG_ENDIAN);
            }

            #[test]
            fn user_code() {
                attack(MACHINE, 27, [0; 2], &[], Ending::Survives);
                for seed in 1..=2 {
                    attack(MACHINE, 28, [0; 2], &garbage::words(seed), Ending::Survives);
                }
            }
        }
    )* };
}

boards! {
    cubieboard: Cubieboard;
    vexpress_a9: VexpressA9, #[ignore = "attacks that the other board has, too, some without end: a minute for all of them"];
}

/// The return mirror stands for where interrupts find the kernel: at the start of RAM, where this guest has its first
/// loops, and then where Linux has its kernel; and for T32 code, at either place in turn. What the guests print does
/// not show it (`interrupts` and `thumb_state` above).
///
/// Instructions are counted: on a busy machine, an interrupt would often wait already where the one before it returns
/// to, and too few would be found in the loops.
#[test]
fn the_return_mirror_follows_the_kernel() {
    for (name, expected) in [("interrupts", "2"), ("returns_thumb", "4")] {
        let guest = Guest { name, parameters: &[0; 6], payload: &[] };
        let outcome = bare::run_counted(Machine::Cubieboard, &guest, TIMEOUT, "spica.stats spica.engine=blocks");
        let outcome = outcome.unwrap_or_else(|error| panic!("{error}"));
        assert!(outcome.guest.ends_with("\nend\n"), "{}", outcome.tail());
        let moves = outcome.spica.iter().find_map(|line| Some(line.split_once("translator.mirror-moves ")?.1.trim()));
        assert_eq!(moves, Some(expected), "{name}: {:#?}", outcome.spica);
    }
}

/// A guest that waits for its timer is woken ahead, so that it goes on in time, but never before.
#[test]
fn nobody_wakes_before_it_is_due() {
    for machine in [Machine::Cubieboard, Machine::VexpressA9] {
        // 3,000 times some 100 µs, which is no multiple of a tick of the host's.
        let guest = Guest { name: "sleep", parameters: &[6_263, 3_000, 0, 0, 0, 0], payload: &[] };
        let outcome = bare::run_counted(machine, &guest, TIMEOUT, "").unwrap_or_else(|error| panic!("{error}"));
        let slept = outcome.guest.lines().find(|line| line.starts_with("slept")).unwrap_or_default();
        for right in ["ticks=00000bb8", "backwards=00000000", "before=00000000", "waiting=00000000"] {
            assert!(slept.contains(right), "{machine:?}: {right}: {}", outcome.tail());
        }
    }
}

/// Most ticks of a timer that interrupts user code, and is handled as Linux does it, are answered in assembly.
#[test]
fn ticks_need_no_rust() {
    for machine in [Machine::Cubieboard, Machine::VexpressA9] {
        let guest = Guest { name: "ticks", parameters: &[0; 6], payload: &[] };
        let outcome =
            bare::run_counted(machine, &guest, TIMEOUT, "spica.stats").unwrap_or_else(|error| panic!("{error}"));
        assert!(outcome.guest.ends_with("\nend\n"), "{}", outcome.tail());
        let count = |name: &str| {
            let found = outcome.spica.iter().find_map(|line| line.split_once(name)?.1.trim().parse::<u32>().ok());
            found.unwrap_or_else(|| panic!("no {name}: {:#?}", outcome.spica))
        };
        let (answered, all) = (count("trap.fast.tick "), count("guest.interrupts "));
        assert!(all >= 4000 && answered >= all / 2, "{machine:?}: {answered} of {all}");
    }
}
