//! The driver of the core's own timer, on a model of it. The interrupt controller is the AM335x's, which has nothing to do
//! with that timer on a real board: one is needed, and its specifiers are short.

mod support;

use spica_drivers::Line;
use spica_drivers::error::BoardError;
use spica_drivers::models::am33xx::Chip;
use spica_drivers::models::bus::{self, Bus};
use spica_drivers::models::generic_timer::{attach, raised};
use spica_drivers::tree::Tree;
use support::{blob, node, text, words};

type Board = spica_drivers::Board<Bus>;

const HERTZ: u32 = 62_500_000;

/// A board with the timer; `frequency` is what its node says about that.
fn discover(frequency: Option<u32>) -> Result<Board, BoardError> {
    let _chip = Chip::new();
    let intc = [
        text("compatible", "ti,am33xx-intc"),
        words("#interrupt-cells", &[1]),
        words("reg", &[0x4820_0000, 0x1000]),
        words("phandle", &[1]),
    ];
    let timer = [text("compatible", "arm,armv7-timer"), words("interrupts", &[13, 14, 11, 10])];
    let timer = timer.into_iter().chain(frequency.map(|hertz| words("clock-frequency", &[hertz])));
    let tree = blob(
        [words("interrupt-parent", &[1]), words("#address-cells", &[1]), words("#size-cells", &[1])],
        [node("interrupt-controller@48200000", intc, []), node("timer", timer, [])],
    );
    Board::discover(Tree::new(&tree).unwrap(), "/none")
}

#[test]
fn a_deadline_raises_the_virtual_timers_line_until_it_is_used_up() {
    attach(HERTZ, HERTZ);
    assert!(raised(), "firmware's deadline");
    let board = discover(None).unwrap();
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
    assert_eq!(discover(Some(HERTZ)).unwrap().timer.driver.frequency(), HERTZ);
}

#[test]
fn a_frequency_that_nobody_tells_is_an_error() {
    attach(HERTZ, 0);
    let error = discover(None).err().unwrap();
    assert_eq!((error.node.as_str(), error.property), ("/timer", "clock-frequency"));
}

#[test]
fn a_core_without_the_timer_is_told_from_its_device_tree() {
    let error = discover(None).err().unwrap();
    assert!(error.problem.contains("the core has no generic timer"), "{error}");
}
