//! The trap handlers in assembly do what those in Rust do: the same sessions of random steps each time, under several
//! sets of switches. `spica prove --part fast-paths` runs others.

use spica_tests::Machine;
use spica_tests::fast_paths::{self, ANSWERED, Cases};

/// Sessions with these words on the command line. Between them, each handler has to have had something to do.
fn sessions(machine: Machine, count: u32, words: &str) {
    let (steps, answered) = fast_paths::agree(machine, &Cases::all(1, count, words));
    assert!(steps > u64::from(count) * 20, "{steps} steps only");
    for name in ANSWERED {
        assert!(answered.get(*name).is_some_and(|&times| times > 0), "no {name} in assembly: {answered:?}");
    }
}

#[test]
fn fast_paths_on_cubieboard() {
    sessions(Machine::Cubieboard, 30, "");
}

#[test]
fn fast_paths_on_vexpress_a9() {
    sessions(Machine::VexpressA9, 30, "");
}

#[test]
fn fast_paths_without_the_return_mirror() {
    sessions(Machine::Cubieboard, 30, " spica.translation=all,-return-mirror,-link");
}

/// What `spica prove --part fast-paths` found once: user code that stores to the table that its own page is mapped by,
/// with tracked tables. The fetch protected the page again that the store had released, without end.
#[test]
fn fast_paths_where_user_code_writes_its_table() {
    fast_paths::agree(
        Machine::Cubieboard,
        &Cases::all(1_206_379_778, 1, " spica.translation=all,-return-mirror spica.tracking=writes"),
    );
}

/// What it found once, too: a store to what is no RAM, first of a domain whose manager may do anything, then of the
/// same as client of a page that may not be written. That it reaches a device was remembered from the first.
#[test]
fn fast_paths_where_a_manager_reaches_a_device() {
    fast_paths::agree(Machine::Cubieboard, &Cases::all(1_847_502_732, 1, ""));
}

/// A page that was found for unprivileged accesses, and whose entry is then removed in assembly: none of the sessions
/// above comes upon that.
#[test]
fn fast_paths_where_an_unprivileged_page_goes() {
    fast_paths::agree(Machine::Cubieboard, &Cases::all(1024, 1, ""));
}

/// A loop over cache lines that begins in a page that is mapped, and goes on into one that is not.
#[test]
fn fast_paths_where_lines_go_on_into_nothing() {
    fast_paths::agree(Machine::Cubieboard, &Cases::all(196_925_047, 1, ""));
}
