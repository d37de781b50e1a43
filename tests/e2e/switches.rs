//! Exact guests under sets of the translator's switches (docs/translator.md, "Options"): with none, and with some that
//! were drawn once. `spica prove --part board-switches` draws others, for as long as you like.

use spica_tests::Machine;
use spica_tests::exact::{GUESTS, MACHINES, same_but_for, same_with};

/// STAR's translator without an optimisation.
const NAIVE: &str = "spica.translation=naive";
/// Half of the switches, and the other half.
const SOME: &str = "spica.translation=naive,+link,+indirect,+shadow-stack,+lazy-dacr,+cache-maintenance,+tlb-page,\
                    +space-switch,+exception-return,+quick-faults,+masks";
const OTHERS: &str = "spica.translation=naive,+side-exits,+indirect,+plain-registers,+free-registers,+fpexc,\
                      +unprivileged,+counter,+user-bank,+fast-switches,+literals";

/// Guests of ours begin where their RAM does.
const IN_PLACE: &str = "spica.engine=in-place-from-start@0x40000000";

/// What runs in place is what they do with their MMU on. `mmu` maps memory where the code cache is then.
fn same_in_place(machine: Machine) {
    for name in GUESTS.iter().filter(|name| **name != "mmu") {
        same_with(machine, name, 0, IN_PLACE);
    }
}

/// What a guest can notice that runs in place: sensitive words of its text, once the page was executed, and nothing
/// else. Each look at its pages finds so many of them as they are, replaced by a trap, by a branch, and by another
/// instruction.
fn seen_in_place(machine: Machine) {
    // Before; of the first page, all; two are never executed, one only by the stub of another, and one later; again,
    // with what opens a domain and closes it, four traps that stay, in another page; with what was written near another
    // one; and with the first page by blocks.
    const LOOKS: [[u32; 4]; 6] =
        [[28, 0, 0, 0], [11, 16, 0, 1], [10, 4, 13, 1], [0, 8, 19, 1], [0, 8, 19, 1], [17, 4, 7, 0]];
    let mut looks = LOOKS.into_iter();
    same_but_for(machine, "looks", 0, "spica.engine=in-place-from-start", |line| {
        if !line.starts_with("  at ") {
            return line.to_string();
        }
        let [kept, traps, branches, others] = looks.next().expect("as many looks");
        format!("  at kept={kept:08x} traps={traps:08x} branches={branches:08x} others={others:08x}")
    });
    assert_eq!(looks.next(), None);
}

/// A guest that wants the addresses for itself where its kernel's stubs are runs by blocks from then on.
#[test]
fn in_place_gives_way() {
    for &machine in MACHINES {
        let outcome = same_but_for(machine, "gives_way", 0, IN_PLACE, str::to_string);
        let left = "it needs 0x3fa00000, where its kernel's stubs are: that runs by blocks now";
        let times = outcome.spica.iter().filter(|line| line.ends_with(left)).count();
        assert_eq!(times, 1, "{machine:?}: {:#?}", outcome.spica);
    }
}

#[test]
fn in_place() {
    same_in_place(Machine::Cubieboard);
}

#[test]
fn what_runs_in_place_is_seen() {
    MACHINES.iter().for_each(|&machine| seen_in_place(machine));
}

#[test]
#[ignore = "what the other board shows, too: a minute"]
fn in_place_on_vexpress_a9() {
    same_in_place(Machine::VexpressA9);
}

#[test]
fn without_any() {
    for name in ["code", "interrupts", "modes"] {
        same_with(Machine::Cubieboard, name, 0, NAIVE);
    }
}

#[test]
fn with_some() {
    for words in [SOME, OTHERS] {
        for name in ["exceptions", "interrupts"] {
            same_with(Machine::Cubieboard, name, 0, words);
        }
    }
}

#[test]
#[ignore = "all exact guests on both boards, where every branch is a trap: three minutes"]
fn all_without_any() {
    for &machine in MACHINES {
        GUESTS.iter().for_each(|name| same_with(machine, name, 0, NAIVE));
    }
}

#[test]
#[ignore = "all exact guests on both boards: two minutes"]
fn all_with_a_shadow_stack() {
    for &machine in MACHINES {
        GUESTS.iter().for_each(|name| same_with(machine, name, 0, "spica.translation=-return-mirror,+shadow-stack"));
    }
}
