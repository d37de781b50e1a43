//! The driver of the core's own timer, on a model of it.

use crate::support::plain;
use plain::discover;
use spica_drivers::Line;
use spica_drivers::models::bus;
use spica_drivers::models::generic_timer::{attach, raised};

const HERTZ: u32 = 62_500_000;

#[test]
fn a_deadline_raises_the_virtual_timers_line_until_it_is_used_up() {
    attach(HERTZ, HERTZ);
    assert!(raised(), "firmware's deadline");
    let board = discover(None, []).unwrap();
    assert!(!raised(), "firmware's deadline is still there");
    assert_eq!((board.timer_line, board.console_line), (Line(11), None));
    let mut timer = board.timer.driver;
    assert_eq!((timer.frequency(), timer.counter()), (HERTZ, None));
    let deadline = timer.now() + u64::from(HERTZ) / 100;
    timer.set_deadline(Some(deadline));
    bus::pass(9_990_000);
    assert!(!raised() && timer.now() < deadline);
    bus::pass(20_000);
    assert!(raised() && timer.now() >= deadline);
    timer.acknowledge();
    assert!(!raised());
    timer.set_deadline(Some(0));
    assert!(raised(), "a deadline that has passed");
    timer.set_deadline(None);
    bus::pass(100_000_000_000);
    assert!(!raised());
}

#[test]
fn the_device_tree_makes_good_for_firmware_that_tells_no_frequency() {
    attach(HERTZ, 0);
    assert_eq!(discover(Some(HERTZ), []).unwrap().timer.driver.frequency(), HERTZ);
}

#[test]
fn a_frequency_that_nobody_tells_is_an_error() {
    attach(HERTZ, 0);
    let error = discover(None, []).err().unwrap();
    assert_eq!((error.node.as_str(), error.property), ("/timer", "clock-frequency"));
}

#[test]
fn a_core_without_the_timer_is_told_from_its_device_tree() {
    let error = discover(None, []).err().unwrap();
    assert!(error.problem.contains("the core has no generic timer"), "{error}");
}
