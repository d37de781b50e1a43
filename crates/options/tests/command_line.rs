//! Spica's command line.

use log::LevelFilter;
use spica_options::Options;
use spica_switches::Switches;

#[test]
fn nothing_asks_for_nothing() {
    let options = Options::parse("  ");
    assert_eq!((options.level, options.selftest, options.unknown.len()), (LevelFilter::Warn, false, 0));
}

#[test]
fn our_words_are_obeyed_and_the_last_counts() {
    let options = Options::parse("spica.verbose spica.selftest");
    assert_eq!((options.level, options.selftest, options.faults), (LevelFilter::Info, true, false));
    assert!(Options::parse("spica.faults").faults);
    assert_eq!(Options::parse("spica.verbose spica.loglevel=error").level, LevelFilter::Error);
    assert_eq!(Options::parse("spica.loglevel=debug").level, LevelFilter::Debug);
}

#[test]
fn words_of_others_are_ignored_and_unknown_ones_of_ours_reported() {
    let options = Options::parse("console=ttyS0 spica.loglevel=loud spica.selftest=maybe spica.x");
    assert_eq!(options.unknown, ["spica.loglevel=loud", "spica.selftest=maybe", "spica.x"]);
    assert_eq!((options.level, options.selftest), (LevelFilter::Warn, false));
}

#[test]
fn a_guest_may_boot_with_other_switches() {
    let options =
        Options::parse("spica.translation=naive spica.boot-translation=all spica.boot-translation-until=@bench");
    assert_eq!((options.switches, options.boot_switches), (Switches::naive(), Some(Switches::all())));
    assert_eq!((options.boot_until.as_str(), options.unknown.len()), ("@bench", 0));
}

#[test]
fn memory_modes_have_names() {
    let options = Options::parse("spica.tables=single spica.tracking=writes");
    assert_eq!((options.single_table, options.tracked_writes), (Some(true), true));
    let options = Options::parse("spica.tables=double spica.tables=triple spica.tracking=all");
    assert_eq!((options.single_table, options.tracked_writes), (Some(false), false));
    assert_eq!(options.unknown, ["spica.tables=triple", "spica.tracking=all"]);
}

#[test]
fn the_time_is_a_number_of_seconds() {
    assert_eq!(Options::parse("spica.time=1767225600 spica.digest").time, 1_767_225_600);
    let wrong = Options::parse("spica.time=today spica.time=-1");
    assert_eq!((wrong.time, wrong.digest, wrong.unknown.len()), (0, false, 2));
}

#[test]
fn room_for_disks_is_in_kib() {
    assert_eq!(Options::parse("spica.overlay=64").overlay, 65536);
    assert_eq!(Options::parse("").overlay, u32::MAX);
    assert_eq!(Options::parse("spica.overlay=much").unknown, ["spica.overlay=much"]);
}
