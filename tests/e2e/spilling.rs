//! Debian under translations that are there to be compared with what Spica uses (docs/translator.md): techniques to spill registers,
//! in the board image that has them, and inline caches.

use spica_tests::{Machine, transcript_with};

/// The shell, and all of the guest's own checks.
#[track_caller]
fn debian_boots(words: &'static str) {
    let transcript = transcript_with(Machine::Cubieboard, "spilling.sh", words);
    assert_eq!(transcript.passed("shell-script").lines, ["sum 10793960"]);
    for probe in [
        "thread-register",
        "fault-loop",
        "mprotect",
        "copy-on-write",
        "efault",
        "fork-exit",
        "pipe",
        "alarm",
        "float",
        "kuser",
        "mode-change",
    ] {
        let _ = transcript.passed(&format!("probe-{probe}"));
    }
}

#[test]
fn lightweight_traps_to_a_private_slot() {
    debian_boots("spica.translation=all,spill=trap-private");
}

#[test]
#[ignore = "a boot like that with private slots; three minutes for all that are ignored here"]
fn lightweight_traps_to_the_shared_slot() {
    debian_boots("spica.translation=all,spill=trap-shared");
}

#[test]
fn tpidrurw() {
    debian_boots("spica.translation=all,spill=tpidrurw");
}

#[test]
#[ignore = "a boot like that with TPIDRURW"]
fn pmccntr() {
    debian_boots("spica.translation=all,spill=pmccntr");
}

/// Not a way to spill, but a way that is there to be compared, too: indirect branches without the return mirror.
#[test]
#[ignore = "a boot of its own for a switch that is off by default"]
fn inline_caches() {
    debian_boots("spica.translation=all,-return-mirror,+inline-cache");
}
