//! What must be seen to work in the guest.
//!
//! One module per machine with the same tests in it; those under Spica and those without must agree.

use spica_tests::{Machine, Section, Transcript, transcript};

/// The checks that take long, and in which neither the processor nor a device of the board makes a difference: a boot
/// with `checks.sh brief` does not have them.
const LONG: [&str; 9] =
    ["shell-script", "fork-exec", "pipes", "probe-mmap", "files", "compression", "modules", "block-devices", "network"];

/// The boot that has a check.
fn boot(machine: Machine, check: &str) -> &'static Transcript {
    let brief = matches!(machine, Machine::VexpressA9 | Machine::Virt) && !LONG.contains(&check);
    transcript(machine, if brief { "checks.sh brief" } else { "checks.sh" })
}

/// The section of a check that must have passed.
#[track_caller]
fn passed(machine: Machine, check: &str) -> &'static Section {
    boot(machine, check).passed(check)
}

/// A check that must have printed exactly these lines.
#[track_caller]
fn prints(machine: Machine, check: &str, lines: &[&str]) {
    assert_eq!(passed(machine, check).lines, lines, "{check}");
}

/// A look at the guest's date, whole seconds, from before to after it in seconds since its start.
struct Instant {
    before: f64,
    date: f64,
    after: f64,
    /// When the board said so, by this machine's clock: later than `after`, however little.
    said: f64,
}

/// The emulated board's clock is this machine's, and the guest's date goes with it.
///
/// On a busy machine a process needs a second to start, and a line as long to arrive. What is asserted therefore
/// follows from the order of events, and of each five looks the quickest counts.
fn clock(machine: Machine) {
    let section = passed(machine, "clock");
    let mut instants = vec![];
    let mut sleeps = vec![];
    let mut interrupts = vec![];
    for (line, said) in section.lines.iter().zip(&section.times) {
        let numbers: Vec<f64> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
        match numbers[..] {
            [before, date, after] => instants.push(Instant { before, date, after, said: said.as_secs_f64() }),
            [before, after] => sleeps.push(after - before),
            [count] => interrupts.push(count),
            _ => panic!("{line}"),
        }
    }
    assert_eq!((instants.len(), sleeps.len(), interrupts.len()), (10, 3, 2), "{:?}", section.lines);
    let (first, last) = instants.split_at(5);

    let shortest = sleeps.iter().copied().fold(f64::MAX, f64::min);
    assert!((2.0..3.0).contains(&shortest), "sleeps of 2 s took {sleeps:?}");
    // What the date is ahead of the time since the start does not change: what each look leaves open has a value in
    // common, but for the hundredths that `uptime` rounds.
    let least = instants.iter().map(|i| i.date - i.after).fold(f64::MIN, f64::max);
    let most = instants.iter().map(|i| i.date + 1.0 - i.before).fold(f64::MAX, f64::min);
    assert!(least <= most + 0.05, "the date is ahead by {least} s at least, by {most} s at most: {:?}", section.lines);

    let behind = |instants: &[Instant]| instants.iter().map(|i| i.said - i.after).fold(f64::MAX, f64::min);
    let drift = behind(last) - behind(first);
    assert!(drift.abs() <= 1.0, "the guest's clock lost {drift} s against the board's");

    // An idle kernel still has its timer; a storm would have many more.
    let (interrupts, between) = (interrupts[1] - interrupts[0], sleeps.iter().sum::<f64>());
    assert!((6.0..1000.0 * between).contains(&interrupts), "{interrupts} interrupts in {between} s");
}

fn loop_costs(machine: Machine) {
    let transcript = boot(machine, "loop-costs");
    let section = transcript.passed("loop-costs");
    if machine.native() {
        return;
    }
    let [start, baseline, end] = &transcript.reports[..] else { panic!("{} reports", transcript.reports.len()) };
    // All numbers in the lines that count traps.
    let traps = |report: &[String]| -> u64 {
        let from = report.iter().position(|l| l.contains("traps")).expect("a report that counts traps");
        let to = report.iter().position(|l| l.contains("host interrupts")).expect("a report that counts interrupts");
        let words = report[from..to].iter().flat_map(|l| l.split_whitespace());
        words.filter_map(|w| w.trim_matches(',').parse::<u64>().ok()).sum()
    };
    // Such a boot comes to rest again and again, the more often the longer it takes, and most of its code was for
    // booting. It has 30 in 90 s where nothing else runs, and 82 in 226 s on a busy machine.
    if machine == Machine::Cubieboard {
        let said = end.iter().find_map(|line| line.trim().strip_suffix(" preemptive ones"));
        let count: u64 = said.and_then(|line| line.rsplit(' ').next()?.parse().ok()).expect("a count");
        let seconds = section.times.last().expect("a line").as_secs();
        assert!((1..=seconds / 2).contains(&count), "{count} preemptive flushes in {seconds} s");
    }
    let interrupts = |report: &[String]| -> u64 {
        let line = report.iter().find(|l| l.contains("host interrupts")).expect("a report that counts interrupts");
        line.split_whitespace().find_map(|w| w.parse().ok()).expect("a count")
    };
    let without = traps(baseline) - traps(start);
    let with = traps(end) - traps(baseline);
    let more_interrupts = interrupts(end).saturating_sub(2 * interrupts(baseline)) + interrupts(start);
    // What the guest's kernel does for an interrupt costs some hundreds of traps; the loop itself has 10^8
    // instructions.
    let allowed = without + without / 2 + 3000 * more_interrupts + 20_000;
    assert!(with <= allowed, "{with} traps with the loop, {without} without, {more_interrupts} more interrupts");
}

macro_rules! machines {
    ($($module:ident: $machine:ident $(, all #[$slow:meta])? $(, long #[$long:meta])?;)*) => {
        /// First in the tests' order: as many machines boot at a time as tests run at a time, while all the tests of a
        /// machine would wait for the same boot.
        mod all_checks_are_reached {
            use super::*;
            $(
            #[test]
            $(#[$slow])?
            fn $module() {
                assert_eq!(boot(Machine::$machine, "information").error, None);
            }
        )* }

        $(
        mod $module {
            use super::*;
            const MACHINE: Machine = Machine::$machine;

            #[test]
            $(#[$slow])?
            fn kernel_and_processor() {
                let lines = &passed(MACHINE, "information").lines;
                assert!(lines[0].starts_with("Linux 6.") && lines[0].ends_with(" armv7l"), "{lines:?}");
                let features = lines.iter().find(|l| l.starts_with("Features")).expect("features");
                // User code runs on the real processor: what that lacks must not be announced.
                let has = MACHINE == Machine::Virt;
                for feature in ["idiva", "idivt", "vfpv4"] {
                    assert_eq!(features.contains(feature), has, "{features}");
                }
                // Long descriptors do not exist for the guest, whatever the processor has.
                assert!(!features.contains("lpae"), "{features}");
                for present in ["half", "thumb", "vfpv3", "neon", "tls"] {
                    assert!(features.contains(present), "{features}");
                }
            }

            #[test]
            $(#[$slow])?
            $(#[$long])?
            fn shell_scripts() {
                prints(MACHINE, "shell-script", &["sum 4458256", "words 3"]);
            }

            #[test]
            $(#[$slow])?
            $(#[$long])?
            fn fork_and_exec() {
                prints(MACHINE, "fork-exec", &[]);
            }

            #[test]
            $(#[$slow])?
            fn fork_and_exit() {
                prints(MACHINE, "probe-fork-exit", &["ok"]);
            }

            #[test]
            $(#[$slow])?
            $(#[$long])?
            fn pipes() {
                let sums = ["5000", "c631cb1fc390424e0383f92af43b2f36  -", "4b448dcdfa8cc1dfc0031948b0490f13  -"];
                prints(MACHINE, "pipes", &sums);
            }

            #[test]
            $(#[$slow])?
            fn pipe() {
                prints(MACHINE, "probe-pipe", &["ok"]);
            }

            #[test]
            $(#[$slow])?
            fn signals() {
                prints(MACHINE, "signals", &["usr1", "after", "status 143", "Segmentation fault", "status 139"]);
                prints(MACHINE, "probe-alarm", &["ok"]);
            }

            #[test]
            $(#[$slow])?
            fn null_pointers() {
                prints(MACHINE, "probe-null-read", &[
                    "read 0: SIGSEGV code 1 at 0x0 far 0x0 fsr 0x17 pc +0",
                    "read 0xff0: SIGSEGV code 1 at 0xff0 far 0xff0 fsr 0x17 pc +0",
                ]);
                prints(MACHINE, "probe-null-write", &["write 0: SIGSEGV code 1 at 0x0 far 0x0 fsr 0x817 pc +0"]);
                prints(MACHINE, "probe-null-call", &[
                    "call 0: SIGSEGV code 1 at 0x0 far 0x0 fsr 0x80000007 pc +0",
                    "call 0x7000: SIGSEGV code 1 at 0x7000 far 0x7000 fsr 0x80000007 pc +0",
                ]);
            }

            #[test]
            $(#[$slow])?
            fn forbidden_accesses() {
                prints(MACHINE, "probe-text-write", &["write to text: SIGSEGV code 2 at 0x10000 far 0x10000 fsr 0x81f pc +0"]);
                prints(MACHINE, "probe-stack-execute", &[
                    "signal 11 code 2 fsr 0x8000000f, at the page: true true true",
                ]);
            }

            #[test]
            $(#[$slow])?
            fn the_kernels_addresses() {
                prints(MACHINE, "probe-kernel-read", &["0 megabytes readable, 0 other signals", "read: ok"]);
                assert_eq!(passed(MACHINE, "probe-kernel-write").lines[0], "write: ok");
                prints(MACHINE, "probe-kernel-call", &["call: ok"]);
            }

            #[test]
            $(#[$slow])?
            fn undefined_instructions() {
                prints(MACHINE, "probe-undefined-arm", &["udf: SIGILL code 1 at +0 pc +0"]);
                prints(MACHINE, "probe-undefined-thumb", &["udf: SIGILL code 1 at +0 pc +0, T32"]);
                prints(MACHINE, "probe-undefined-neon", &["neon: SIGILL code 1 at +0 pc +0"]);
            }

            #[test]
            $(#[$slow])?
            fn division_by_instruction() {
                let divides = MACHINE == Machine::Virt;
                let line = |otherwise| if divides { "sdiv 700/7: 0x64" } else { otherwise };
                prints(MACHINE, "probe-divide", &[line("sdiv 700/7: SIGILL code 1 at +4 pc +4")]);
                prints(MACHINE, "probe-divide-thumb", &[line("sdiv 700/7: SIGILL code 1 at +2 pc +2, T32")]);
            }

            #[test]
            $(#[$slow])?
            fn privileged_instructions() {
                let mut expected = Vec::new();
                for what in ["read MIDR", "read SCTLR", "write SCTLR", "write TTBR0", "write DACR", "flush the TLB",
                    "clean the cache", "write VBAR", "read TPIDRPRW", "write TPIDRURO", "smc"] {
                    expected.push(format!("{what}: SIGILL code 1 at +0 pc +0"));
                }
                expected.push("barriers: 0x1".to_string());
                assert_eq!(passed(MACHINE, "probe-privileged").lines, expected);
                prints(MACHINE, "probe-mode-change", &["mode and interrupt mask 0x10"]);
            }

            #[test]
            $(#[$slow])?
            fn thread_registers() {
                prints(MACHINE, "probe-thread-register", &["ok"]);
                prints(MACHINE, "probe-kuser", &["version 5, ok"]);
            }

            #[test]
            $(#[$slow])?
            fn bad_pointers_in_system_calls() {
                prints(MACHINE, "probe-efault", &["ok"]);
            }

            #[test]
            $(#[$slow])?
            $(#[$long])?
            fn memory_mapping() {
                prints(MACHINE, "probe-mmap", &["ok"]);
            }

            #[test]
            $(#[$slow])?
            fn protection_and_faults() {
                prints(MACHINE, "probe-mprotect", &["192 faults"]);
                prints(MACHINE, "probe-fault-loop", &["2000 faults"]);
                prints(MACHINE, "probe-copy-on-write", &["ok"]);
            }

            #[test]
            $(#[$slow])?
            fn self_modifying_code() {
                prints(MACHINE, "probe-self-modifying", &["ok"]);
            }

            #[test]
            $(#[$slow])?
            fn floating_point_of_two_processes() {
                prints(MACHINE, "probe-float", &["ok"]);
            }

            #[test]
            $(#[$slow])?
            $(#[$long])?
            fn files() {
                prints(MACHINE, "files", &["sum 79800", "400"]);
            }

            #[test]
            $(#[$slow])?
            $(#[$long])?
            fn compression() {
                prints(MACHINE, "compression", &["72d4ff27a28afbc066d5804999d5a504  -"]);
            }

            #[test]
            $(#[$slow])?
            $(#[$long])?
            fn kernel_modules() {
                prints(MACHINE, "modules", &[]);
            }

            #[test]
            $(#[$slow])?
            fn socket_filters() {
                prints(MACHINE, "probe-bpf", &["ok"]);
            }

            #[test]
            $(#[$slow])?
            fn neon_in_the_kernel() {
                assert_ne!(passed(MACHINE, "neon-in-kernel").lines, ["0"]);
            }

            #[test]
            $(#[$slow])?
            $(#[$long])?
            fn block_devices() {
                prints(MACHINE, "block-devices", &["ok"]);
            }

            #[test]
            $(#[$slow])?
            $(#[$long])?
            fn network() {
                prints(MACHINE, "network", &[]);
            }

            #[test]
            $(#[$slow])?
            fn time() {
                super::clock(MACHINE);
                let _ = passed(MACHINE, "sleeps");
            }

            #[test]
            $(#[$slow])?
            fn user_loops_cost_nothing() {
                super::loop_costs(MACHINE);
            }

            #[test]
            $(#[$slow])?
            fn the_kernel_cannot_touch_user_memory_by_itself() {
                let lines = &passed(MACHINE, "access-protection").lines;
                assert!(lines.iter().any(|l| l == "insmod: 139"), "{lines:?}");
                // First or second level, by how the page is mapped; a small page it is.
                assert!(lines.iter().any(|l| l == "Unhandled fault: page domain fault (0x01b) at 0x00010000"), "{lines:?}");
            }

            #[test]
            $(#[$slow])?
            fn the_kernel_does_not_complain() {
                prints(MACHINE, "complaints", &[]);
            }
        }
        )*
    };
}

machines! {
    cubieboard: Cubieboard;
    vexpress_a9: VexpressA9, long #[ignore = "takes long, and is the same on all boards: a minute for all of them"];
    virt: Virt, long #[ignore = "takes long, and is the same on all boards: a minute for all of them"];
    cubieboard_native: CubieboardNative;
    vexpress_a9_native: VexpressA9Native, all #[ignore = "checks the checks, as the other bare board does: a minute"];
}
