//! The kernel's log: under Spica, no warning or error that the same kernel does not print elsewhere, too.
//!
//! What it says of the processor is compared with the same board without Spica; what it says of the machine, with the
//! board whose devices Spica's guest machine has.

use std::collections::BTreeSet;

use spica_tests::known::Known;
use spica_tests::{Machine, counted_transcript, transcript};

/// Messages that only a guest of Spica's prints, each with its reason: none is unexplained.
const ALLOWED: &[(&str, &str)] = &[];

/// What Linux prints where timers expire faster than it serves them. The clock is that of the machine that emulates the
/// board, which others may keep busy: so it says something of Spica only where time is counted in instructions, and is
/// looked for there.
const SLOW: &str = "hrtimer: interrupt took";

/// The most important level that is not looked at: `KERN_NOTICE`.
const NOTICE: u32 = 5;

/// The place for the log of a board without Spica.
fn place(machine: Machine) -> Known {
    Known::of(&format!("log-{machine:?}")).unwrap_or_else(|error| panic!("{error}"))
}

/// The kernel's log. Without Spica, it may be one of an earlier run. Where a boot with the guest's checks is made
/// anyway (`guest.rs`), it is of that one.
fn log(machine: Machine) -> Vec<String> {
    let script = match machine {
        Machine::Cubieboard | Machine::CubieboardNative => "checks.sh",
        Machine::VexpressA9 | Machine::Virt => "checks.sh brief",
        Machine::VexpressA9Native | Machine::VirtNative => "kernel_log.sh",
    };
    match Some(machine).filter(|m| m.native()).and_then(|m| place(m).text()) {
        Some(text) => text.lines().map(str::to_string).collect(),
        None => transcript(machine, script).passed("log").lines.clone(),
    }
}

/// Messages of a log that matter, with numbers made equal: times, addresses and sizes differ from run to run.
fn complaints(lines: &[String]) -> BTreeSet<String> {
    let (mut found, mut levels) = (BTreeSet::new(), 0);
    assert!(lines.iter().any(|l| l.contains("Linux version")), "the log has no beginning: {} lines", lines.len());
    for line in lines {
        let Some((level, text)) = line.strip_prefix('<').and_then(|l| l.split_once('>')) else { continue };
        let Ok(level) = level.parse::<u32>() else { continue };
        levels += 1;
        // The facility is in the upper bits.
        if level & 7 >= NOTICE {
            continue;
        }
        let text = text.split_once("] ").map_or(text, |(_, text)| text);
        let mut plain = String::new();
        for c in text.chars() {
            if !c.is_ascii_digit() {
                plain.push(c);
            } else if !plain.ends_with('#') {
                plain.push('#');
            }
        }
        found.insert(plain);
    }
    assert!(levels > 50, "{levels} of {} lines have a level", lines.len());
    found
}

/// What the kernel prints in a guest's log, and not without Spica, there or on the board with the guest's devices.
fn only_there(log_of_guest: &[String], same_board: Machine) -> Vec<String> {
    let mut known = complaints(&log(same_board));
    known.extend(complaints(&log(Machine::VirtNative)));
    let new = complaints(log_of_guest).into_iter().filter(|c| !known.contains(c));
    new.filter(|c| !ALLOWED.iter().any(|(text, _)| c.starts_with(text))).collect()
}

fn compare(machine: Machine, same_board: Machine) {
    let mut new = only_there(&log(machine), same_board);
    new.retain(|c| !c.starts_with(SLOW));
    assert!(new.is_empty(), "only under Spica, the kernel prints: {new:#?}");
    for native in [same_board, Machine::VirtNative] {
        place(native).keep(&log(native).join("\n")).unwrap_or_else(|error| panic!("{error}"));
    }
}

#[test]
fn where_time_is_counted() {
    let transcript = counted_transcript(Machine::Cubieboard, "kernel_log.sh");
    let new = only_there(&transcript.passed("log").lines, Machine::CubieboardNative);
    assert!(new.is_empty(), "only under Spica, the kernel prints: {new:#?}");
}

#[test]
fn cubieboard() {
    compare(Machine::Cubieboard, Machine::CubieboardNative);
}

#[test]
fn vexpress_a9() {
    compare(Machine::VexpressA9, Machine::VexpressA9Native);
}

#[test]
fn virt() {
    compare(Machine::Virt, Machine::VirtNative);
}
