//! The drivers of interrupt controllers, on models of them (`gic`, `sun4i`, `am33xx`): what holds for all of them, and
//! what is the GIC's and the A10's own.

use crate::support;
use crate::support::am33xx as shape;
use crate::support::controllers as boards;
use boards::{GIC, INTC, with, with_gic, with_intc};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use spica_drivers::models::bus::{self, Bus, Shared, attach};
use spica_drivers::models::gic::{self, Gic, Shape};
use spica_drivers::models::{Lines, am33xx, generic_timer, set_line, sun4i};
use spica_drivers::tree::Tree;
use spica_drivers::{InterruptController, Line};
use support::{node, text, words};

type Board = spica_drivers::Board<Bus>;

/// A controller that was taken over, and its other side.
struct Rig {
    driver: Box<dyn InterruptController>,
    /// Lines of all kinds.
    lines: [u32; 6],
    set: Box<dyn Fn(u32, bool)>,
    is_enabled: Box<dyn Fn(u32) -> bool>,
    irq: Box<dyn Fn() -> bool>,
    /// Once raised, its output stays so until somebody looks.
    sticky: bool,
}

impl Rig {
    fn set(&self, line: u32, raised: bool) {
        (self.set)(line, raised);
        bus::pass(1_000);
    }

    fn irq(&self) -> bool {
        bus::pass(1_000);
        (self.irq)()
    }
}

fn discover(tree: &[u8]) -> Result<Board, spica_drivers::error::BoardError> {
    generic_timer::attach(1_000_000, 1_000_000);
    Board::discover(Tree::new(tree).unwrap(), "/none")
}

/// The node of the core's own timer, whose interrupts are these.
fn timer(interrupts: &[u32]) -> [dtoolkit::model::DeviceTreeNode; 1] {
    [node("timer", [text("compatible", "arm,armv7-timer"), words("interrupts", interrupts)], [])]
}

const TIMER_ON_GIC: [u32; 12] = [1, 13, 4, 1, 14, 4, 1, 11, 4, 1, 10, 4];

const A9: Shape = Shape { version: 1, cores: 4, lines: 96, secure: true };
const SHAPES: [Shape; 5] = [
    A9,
    Shape { cores: 1, ..A9 },
    Shape { secure: false, ..A9 },
    Shape { version: 2, cores: 2, lines: 1020, secure: true },
    Shape { version: 2, cores: 8, lines: 160, secure: false },
];

fn gic(shape: Shape) -> (Shared<Gic>, Box<dyn InterruptController>) {
    bus::clear();
    let gic = gic::attach(GIC[0], GIC[1], shape);
    let board = discover(&with_gic(timer(&TIMER_ON_GIC))).unwrap_or_else(|error| panic!("{error}"));
    (gic, board.interrupts.driver)
}

fn gic_rig(shape: Shape) -> Rig {
    let (gic, driver) = gic(shape);
    let [set, irq, enabled] = [(); 3].map(|()| gic.clone());
    Rig {
        driver,
        lines: [27, 34, 41, 43, 64, if shape.lines == 1020 { 1019 } else { 95 }],
        set: Box::new(move |line, raised| set.borrow_mut().set_line(line, raised)),
        is_enabled: Box::new(move |line| enabled.borrow().is_enabled(line)),
        irq: Box::new(move || irq.borrow().irq()),
        sticky: false,
    }
}

fn a10() -> (Shared<sun4i::Intc>, Lines, Box<dyn InterruptController>) {
    bus::clear();
    let lines = Lines::default();
    let intc = attach(INTC, 0x400, sun4i::Intc::left(&lines));
    let board = discover(&with_intc(timer(&[13, 14, 11, 10]))).unwrap_or_else(|error| panic!("{error}"));
    (intc, lines, board.interrupts.driver)
}

fn a10_rig() -> Rig {
    let (intc, lines, driver) = a10();
    let enabled = intc.clone();
    Rig {
        driver,
        lines: [1, 22, 31, 32, 64, 94],
        set: Box::new(move |line, raised| set_line(&lines, line, raised)),
        is_enabled: Box::new(move |line| enabled.borrow().is_enabled(line)),
        irq: Box::new(move || intc.borrow().irq()),
        sticky: false,
    }
}

fn am33xx_rig() -> Rig {
    bus::clear();
    let chip = am33xx::Chip::new();
    let board = Board::discover(Tree::new(&shape::tree(true, 2)).unwrap(), shape::UART);
    let (lines, intc, enabled) = (chip.lines, chip.intc.clone(), chip.intc);
    Rig {
        driver: board.unwrap_or_else(|error| panic!("{error}")).interrupts.driver,
        lines: [3, 31, 32, 65, 95, 127],
        set: Box::new(move |line, raised| set_line(&lines, line, raised)),
        is_enabled: Box::new(move |line| enabled.borrow().is_enabled(line)),
        irq: Box::new(move || intc.borrow().irq()),
        sticky: true,
    }
}

/// Does something with every controller. A failure's output ends with the name of the one that failed.
fn with_each(act: impl Fn(&mut Rig)) {
    for shape in SHAPES {
        println!("{shape:?}");
        act(&mut gic_rig(shape));
    }
    println!("A10");
    act(&mut a10_rig());
    println!("AM335x");
    act(&mut am33xx_rig());
}

#[test]
fn nothing_comes_that_nobody_asked_for() {
    with_each(|rig| {
        assert!(rig.lines.iter().all(|&line| !(rig.is_enabled)(line)), "a line is enabled");
        for line in rig.lines {
            rig.set(line, true);
        }
        assert!(!rig.irq());
        assert_eq!(rig.driver.acknowledge(), None);
    });
}

#[test]
fn an_interrupt_goes_from_its_line_to_its_end() {
    with_each(|rig| {
        for line in rig.lines {
            rig.driver.enable(Line(line));
            assert!(!rig.irq(), "{line}");
            rig.set(line, true);
            assert!(rig.irq(), "{line}");
            assert_eq!(rig.driver.acknowledge(), Some(Line(line)));
            rig.set(line, false);
            rig.driver.end(Line(line));
            assert!(!rig.irq(), "{line}");
            assert_eq!(rig.driver.acknowledge(), None);
        }
    });
}

#[test]
fn a_line_that_stays_raised_comes_again() {
    with_each(|rig| {
        for line in rig.lines {
            rig.driver.enable(Line(line));
            rig.set(line, true);
            for _ in 0..3 {
                assert!(rig.irq());
                assert_eq!(rig.driver.acknowledge(), Some(Line(line)));
                rig.driver.end(Line(line));
            }
            rig.driver.disable(Line(line));
            assert!(rig.sticky || !rig.irq());
            assert_eq!(rig.driver.acknowledge(), None);
            rig.driver.enable(Line(line));
            assert!(rig.irq(), "it was raised meanwhile");
            rig.driver.disable(Line(line));
        }
    });
}

#[test]
fn an_interrupt_that_goes_away_is_nothing() {
    with_each(|rig| {
        let [one, other, ..] = rig.lines;
        rig.driver.enable(Line(one));
        rig.driver.enable(Line(other));
        rig.set(one, true);
        rig.set(one, false);
        assert_eq!(rig.driver.acknowledge(), None);
        assert!(!rig.irq());
        rig.set(other, true);
        assert!(rig.irq());
        assert_eq!(rig.driver.acknowledge(), Some(Line(other)));
    });
}

#[test]
fn lines_come_one_after_the_other() {
    with_each(|rig| {
        for line in rig.lines {
            rig.driver.enable(Line(line));
            rig.set(line, true);
        }
        rig.driver.disable(Line(rig.lines[2]));
        let mut seen = Vec::new();
        while seen.len() < 10
            && let Some(line) = rig.driver.acknowledge()
        {
            seen.push(line.0);
            rig.set(line.0, false);
            rig.driver.end(line);
        }
        let expected = [0, 1, 3, 4, 5].map(|at| rig.lines[at]);
        assert_eq!(seen, expected);
    });
}

#[derive(Clone, Copy, Debug)]
enum Act {
    Set(usize, bool),
    Enable(usize),
    Disable(usize),
    /// All that waits is served, as Spica does.
    Serve,
    /// One interrupt is ended while its line is still raised.
    Miss,
}

fn act() -> impl Strategy<Value = Act> {
    let line = 0..6usize;
    prop_oneof![
        4 => (line.clone(), any::<bool>()).prop_map(|(line, raised)| Act::Set(line, raised)),
        2 => line.clone().prop_map(Act::Enable),
        1 => line.prop_map(Act::Disable),
        2 => Just(Act::Serve),
        1 => Just(Act::Miss),
    ]
}

/// What is raised and enabled comes, and nothing else does.
fn run(rig: &mut Rig, acts: &[Act]) {
    let (mut raised, mut enabled) = ([false; 6], [false; 6]);
    for &act in acts {
        match act {
            Act::Set(at, value) => {
                raised[at] = value;
                rig.set(rig.lines[at], value);
            }
            Act::Enable(at) => {
                enabled[at] = true;
                rig.driver.enable(Line(rig.lines[at]));
            }
            Act::Disable(at) => {
                enabled[at] = false;
                rig.driver.disable(Line(rig.lines[at]));
            }
            Act::Serve | Act::Miss => {
                while let Some(line) = rig.driver.acknowledge() {
                    let at = rig.lines.iter().position(|&known| known == line.0).expect("a line that is raised");
                    assert!(raised[at] && enabled[at], "{line:?} comes");
                    if matches!(act, Act::Miss) {
                        rig.driver.end(line);
                        break;
                    }
                    raised[at] = false;
                    rig.set(line.0, false);
                    rig.driver.end(line);
                }
            }
        }
        let waits = (0..6).any(|at| raised[at] && enabled[at]);
        assert!(!waits || !matches!(act, Act::Serve), "an interrupt is left");
        assert!(rig.irq() == waits || rig.sticky && !waits, "the output is not {waits}");
    }
}

/// The same cases each time.
fn cases() -> ProptestConfig {
    let rng_seed = RngSeed::Fixed(1);
    ProptestConfig { cases: 64, rng_seed, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn what_is_raised_and_enabled_comes(acts in prop::collection::vec(act(), 1..40)) {
        with_each(|rig| run(rig, &acts));
    }
}

#[test]
fn a_gic_is_taken_over_whatever_was_left() {
    for shape in SHAPES {
        let (gic, _driver) = gic(shape);
        let gic = gic.borrow();
        assert!((32..shape.lines).all(|line| !gic.is_enabled(line) && gic.is_plain(line)), "{shape:?}");
        assert_eq!(gic.depth(), 0, "{shape:?}: somebody else's interrupt is still active");
    }
}

#[test]
fn an_interrupt_of_a_gic_is_not_signalled_while_it_is_active() {
    let (gic, mut driver) = gic(A9);
    for line in [40, 50] {
        driver.enable(Line(line));
        gic.borrow_mut().set_line(line, true);
    }
    assert_eq!(driver.acknowledge(), Some(Line(40)));
    // The other one has the same priority, so it waits.
    assert!(!gic.borrow().irq());
    assert_eq!((driver.acknowledge(), gic.borrow().depth()), (None, 1));
    driver.end(Line(40));
    assert_eq!((gic.borrow().depth(), gic.borrow().irq()), (0, true));
}

#[test]
fn an_interrupt_that_another_core_sends_is_ended_as_it_was_acknowledged() {
    for shape in [A9, Shape { version: 2, ..A9 }] {
        let (gic, mut driver) = gic(shape);
        gic.borrow_mut().send(5, 2);
        gic.borrow_mut().send(5, 1);
        for _ in 0..2 {
            assert_eq!(driver.acknowledge(), Some(Line(5)));
            driver.end(Line(5));
        }
        driver.enable(Line(40));
        gic.borrow_mut().set_line(40, true);
        assert_eq!(driver.acknowledge(), Some(Line(40)));
        driver.end(Line(40));
    }
}

#[test]
fn specifiers_are_shared_and_private_interrupts() {
    let lines = |shape, cells: [&[u32]; 6]| {
        let (_gic, driver) = gic(shape);
        cells.map(|cells| driver.line(cells).map(|line| line.0))
    };
    let small = [&[0, 63, 4][..], &[0, 64, 4], &[1, 15, 4], &[1, 16, 4], &[2, 1, 4], &[0, u32::MAX, 4]];
    assert_eq!(lines(A9, small), [Some(95), None, Some(31), None, None, None]);
    let large = [&[0, 987, 4][..], &[0, 988, 4], &[0, 3], &[0], &[], &[0, 1, 4, 0]];
    assert_eq!(lines(SHAPES[3], large), [Some(1019), None, None, None, None, None]);
}

#[test]
fn a_gic_that_secure_firmware_holds_back_is_an_error() {
    for shape in SHAPES {
        bus::clear();
        gic::attach(GIC[0], GIC[1], shape).borrow_mut().hold_back();
        let outcome = discover(&with_gic(timer(&TIMER_ON_GIC)));
        assert_eq!(outcome.is_ok(), shape.secure, "{shape:?}");
        assert!(outcome.err().is_none_or(|error| error.problem.contains("GICC_PMR")));
    }
}

#[test]
fn registers_that_are_too_few_are_an_error() {
    let said = |compatible, cells, registers: &[u32], interrupts: &[u32]| {
        let error = discover(&with(compatible, cells, registers, timer(interrupts))).err().unwrap();
        assert_eq!(error.property, "reg", "{error}");
    };
    said("arm,gic-400", 3, &[GIC[0], 0x1000, GIC[1], 0xfc], &TIMER_ON_GIC);
    said("arm,gic-400", 3, &[GIC[0], 0x800, GIC[1], 0x100], &TIMER_ON_GIC);
    said("allwinner,sun4i-a10-ic", 1, &[INTC, 0x50], &[13, 14, 11, 10]);
}

#[test]
fn an_a10_is_taken_over_whatever_was_left() {
    let (intc, lines, mut driver) = a10();
    assert!((0..96).all(|line| !intc.borrow().is_enabled(line)));
    // Line 22 was an FIQ, line 16 and on were masked.
    for line in [22, 16, 63] {
        driver.enable(Line(line));
        assert!(intc.borrow().is_enabled(line), "{line}");
        set_line(&lines, line, true);
        assert_eq!(driver.acknowledge(), Some(Line(line)));
        set_line(&lines, line, false);
        driver.end(Line(line));
    }
    assert_eq!([&[95][..], &[96], &[1, 2], &[]].map(|cells| driver.line(cells)), [Some(Line(95)), None, None, None]);
}

#[test]
fn the_pin_of_an_a10_is_latched_until_its_end() {
    let (intc, lines, mut driver) = a10();
    driver.enable(Line(0));
    assert!(!intc.borrow().irq(), "what was latched before");
    for _ in 0..2 {
        set_line(&lines, 0, true);
        bus::pass(1_000);
        set_line(&lines, 0, false);
        bus::pass(1_000);
        assert!(intc.borrow().irq());
        assert_eq!(driver.acknowledge(), Some(Line(0)));
        driver.end(Line(0));
        assert!(!intc.borrow().irq());
        assert_eq!(driver.acknowledge(), None);
    }
}

#[test]
fn a_pin_of_an_a10_that_nobody_serves_does_not_come() {
    let (_intc, lines, mut driver) = a10();
    driver.enable(Line(22));
    // The power management pulls it because somebody has pressed a button.
    set_line(&lines, 0, true);
    set_line(&lines, 22, true);
    assert_eq!(driver.acknowledge(), Some(Line(22)));
    set_line(&lines, 22, false);
    driver.end(Line(22));
    assert_eq!(driver.acknowledge(), None, "it would come for ever");
    driver.enable(Line(0));
    assert_eq!(driver.acknowledge(), Some(Line(0)));
    driver.disable(Line(0));
    assert_eq!(driver.acknowledge(), None);
}
