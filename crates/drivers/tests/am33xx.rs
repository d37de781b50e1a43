//! The drivers of the AM335x, on models of its devices that do what the manual says (`am33xx`).
//!
//! The device tree here is small and made for this; the board's own is tried where Debian's file is at hand
//! (`tests/e2e/beaglebone.rs`).

use crate::support::am33xx as shape;
use shape::{UART, tree};
use spica_console::SerialPort;
use spica_drivers::error::BoardError;
use spica_drivers::models::am33xx::{Chip, TIMER2, UART0, set_line};
use spica_drivers::models::bus::{self, Bus};
use spica_drivers::tree::Tree;
use spica_drivers::{Counter, Line, find_serial};

type Board = spica_drivers::Board<Bus>;

const HERTZ: u64 = 24_000_000;

fn serial() -> Result<Box<dyn SerialPort>, BoardError> {
    let tree = tree(true, 2);
    find_serial::<Bus>(Tree::new(&tree).unwrap()).map(|found| found.driver)
}

fn discover() -> Result<Board, BoardError> {
    Board::discover(Tree::new(&tree(true, 2)).unwrap(), UART)
}

/// The counter is `ticks` of the timer away from `time`, a thousandth and the time of some accesses apart.
#[track_caller]
fn about(time: u64, ticks: u64) {
    assert!(time.abs_diff(ticks) <= ticks / 1000 + 48, "{time} instead of {ticks} ticks");
}

#[test]
fn the_chip_is_taken_over() {
    let chip = Chip::new();
    assert!(serial().is_ok());
    let board = discover().unwrap();
    assert_eq!((board.timer_line, board.console_line), (Line(TIMER2), Some(Line(UART0))));
    assert_eq!(board.timer.driver.frequency(), HERTZ as u32);
    assert!(board.timer.node.ends_with("/target-module@40000/timer@0"), "{}", board.timer.node);
    assert_eq!(board.timer.driver.counter(), Some(Counter { address: 0x4804_203c, down: false }));
    assert!(!chip.watchdog.borrow().runs, "the watchdog resets the board");
    assert!(chip.clocks.borrow().is_on(0x84), "timer 3 is off");
    // Nothing comes that nobody asked for, also if everything is enabled, and whatever was asserted before.
    bus::pass(1_000_000);
    let intc = chip.intc.borrow();
    assert!((0..128).all(|line| !intc.is_enabled(line)) && !intc.irq());
    assert!(intc.line.iter().all(|&line| line == 0), "a line is an FIQ, or of another priority");
    let [one_shot, clock] = chip.timers.each_ref().map(|timer| timer.borrow());
    assert!(!one_shot.runs() && clock.runs() && !clock.is_posted());
    assert_eq!(*chip.lines.borrow(), [0; 4]);
}

#[test]
fn the_crystal_is_the_one_that_the_pins_tell() {
    let chip = Chip::new();
    chip.control.borrow_mut().sysboot = 3;
    assert_eq!(discover().unwrap().timer.driver.frequency(), 26_000_000);
}

#[test]
fn the_one_shot_gets_the_clock_that_the_tree_assigns() {
    let chip = Chip::new();
    chip.clocks.borrow_mut().put(0x508, 2);
    assert_eq!(discover().unwrap().timer.driver.frequency(), HERTZ as u32);
}

#[test]
fn timers_of_different_speed_are_refused() {
    let chip = Chip::new();
    chip.clocks.borrow_mut().put(0x50c, 0);
    let error = discover().err().unwrap();
    assert!(error.node.ends_with("/target-module@42000/timer@0"), "{error}");
    assert!(error.problem.contains("must have the same clock"), "{error}");
}

#[test]
fn what_is_missing_in_the_tree_is_said() {
    let _chip = Chip::new();
    let said = |tree: Vec<u8>| Board::discover(Tree::new(&tree).unwrap(), UART).err().unwrap();
    assert_eq!(said(tree(false, 2)).property, "clocks");
    assert!(said(tree(true, 1)).problem.contains("two are needed"));
}

#[test]
fn a_module_that_does_not_come_on_is_an_error() {
    let chip = Chip::new();
    chip.clocks.borrow_mut().broken = Some(0x84);
    let error = discover().err().unwrap();
    assert!(error.node.ends_with("/target-module@42000") && error.problem.contains("does not come on"), "{error}");
}

#[test]
fn the_clock_goes_on_through_turns() {
    let chip = Chip::new();
    let mut timer = discover().unwrap().timer.driver;
    let start = timer.now();
    bus::pass(1_000_000_000);
    about(timer.now() - start, HERTZ);
    chip.timers[1].borrow_mut().set_count(0xffff_ff00);
    let before = timer.now();
    bus::pass(1_000_000);
    about(timer.now() - before, HERTZ / 1000);
    assert_eq!(timer.now() >> 32, 1);
}

#[test]
fn a_deadline_raises_the_line_and_is_used_up() {
    let chip = Chip::new();
    let mut board = discover().unwrap();
    let (timer, intc) = (&mut board.timer.driver, &mut board.interrupts.driver);
    intc.enable(Line(TIMER2));
    let deadline = timer.now() + HERTZ / 100;
    timer.set_deadline(Some(deadline));
    while !chip.intc.borrow().irq() {
        bus::pass(1_000);
    }
    assert_eq!(intc.acknowledge(), Some(Line(TIMER2)));
    about(timer.now(), deadline);
    assert!(timer.now() >= deadline);
    timer.acknowledge();
    intc.end(Line(TIMER2));
    assert_eq!(intc.acknowledge(), None);
    bus::pass(200_000_000);
    assert!(!chip.intc.borrow().irq(), "it comes twice");
}

#[test]
fn a_deadline_replaces_the_one_before() {
    let chip = Chip::new();
    let mut timer = discover().unwrap().timer.driver;
    let raised = || chip.lines.borrow()[TIMER2 as usize / 32] >> (TIMER2 % 32) & 1 != 0;
    for (first, then) in [(1_000, 2_400_000), (2_400_000, 1_000)] {
        let now = timer.now();
        timer.set_deadline(Some(now + first));
        timer.set_deadline(Some(now + then));
        bus::pass(then * 1_000_000_000 / HERTZ - 20_000);
        assert!(!raised(), "{first}, then {then}");
        bus::pass(40_000);
        assert!(raised(), "{first}, then {then}");
        timer.acknowledge();
        assert!(!raised());
    }
}

#[test]
fn a_deadline_that_has_passed_comes_at_once_and_none_within_half_a_turn() {
    let chip = Chip::new();
    let mut timer = discover().unwrap().timer.driver;
    let raised = || chip.lines.borrow()[TIMER2 as usize / 32] >> (TIMER2 % 32) & 1 != 0;
    timer.set_deadline(Some(0));
    bus::pass(5_000);
    assert!(raised());
    timer.acknowledge();
    timer.set_deadline(None);
    bus::pass(89_000_000_000);
    assert!(!raised());
    bus::pass(1_000_000_000);
    assert!(raised(), "nobody looks at the clock before it wraps");
}

#[test]
fn an_interrupt_that_goes_away_is_agreed_to() {
    let chip = Chip::new();
    let mut intc = discover().unwrap().interrupts.driver;
    intc.enable(Line(5));
    set_line(&chip.lines, 5, true);
    bus::pass(50);
    set_line(&chip.lines, 5, false);
    bus::pass(1_000);
    assert!(chip.intc.borrow().irq(), "asserted by what was raised when it was sorted");
    assert_eq!(intc.acknowledge(), None);
    assert!(!chip.intc.borrow().irq(), "the core takes the same interrupt for ever");
    set_line(&chip.lines, 5, true);
    bus::pass(1_000);
    assert!(chip.intc.borrow().irq());
    assert_eq!(intc.acknowledge(), Some(Line(5)));
}

#[test]
fn lines_of_all_banks_come_one_after_the_other() {
    let chip = Chip::new();
    let mut intc = discover().unwrap().interrupts.driver;
    let lines = [3, 31, 32, 65, 95, 127];
    for line in lines.into_iter().chain([40]) {
        intc.enable(Line(line));
        set_line(&chip.lines, line, true);
    }
    set_line(&chip.lines, 90, true);
    intc.disable(Line(40));
    let mut seen = Vec::new();
    while let Some(line) = intc.acknowledge() {
        seen.push(line.0);
        set_line(&chip.lines, line.0, false);
        intc.end(line);
    }
    assert_eq!(seen, lines);
    assert_eq!([&[127][..], &[128], &[1, 2]].map(|cells| intc.line(cells)), [Some(Line(127)), None, None]);
}

#[test]
fn a_line_that_stays_raised_comes_again() {
    let chip = Chip::new();
    let mut intc = discover().unwrap().interrupts.driver;
    intc.enable(Line(40));
    set_line(&chip.lines, 40, true);
    for _ in 0..3 {
        bus::pass(1_000);
        assert!(chip.intc.borrow().irq());
        assert_eq!(intc.acknowledge(), Some(Line(40)));
        intc.end(Line(40));
        assert!(!chip.intc.borrow().irq());
    }
}

#[test]
fn bytes_go_out_and_come_in() {
    let chip = Chip::new();
    let mut port = serial().unwrap();
    let text = b"spica: a line that is longer than the 64 bytes of the FIFO, and then some\n";
    text.iter().for_each(|&byte| port.put(byte));
    assert_eq!(chip.uart.borrow().sent, text);
    let raised = || {
        bus::pass(1_000_000);
        chip.lines.borrow()[UART0 as usize / 32] >> (UART0 % 32) & 1 != 0
    };
    chip.uart.borrow_mut().receive(b"x");
    assert!(!raised(), "nobody has asked for the interrupt");
    port.enable_rx_interrupt();
    assert!(raised(), "one byte alone");
    assert_eq!((port.get(), port.get()), (Some(b'x'), None));
    assert!(!raised());
    chip.uart.borrow_mut().receive(b"several bytes");
    assert!(raised());
    assert!(b"several bytes".iter().all(|&byte| port.get() == Some(byte)));
    assert_eq!(port.get(), None);
    assert!(!raised());
}

#[test]
fn a_full_fifo_refuses_and_tells_when_it_is_empty() {
    let chip = Chip::new();
    let mut port = serial().unwrap();
    let raised = || chip.lines.borrow()[UART0 as usize / 32] >> (UART0 % 32) & 1 != 0;
    for round in 1..4 {
        let taken = (0..=u8::MAX).take_while(|&byte| port.try_put(byte)).count();
        assert_eq!(taken, 64, "the FIFO");
        assert_eq!(chip.uart.borrow().sent.len(), 64 * round);
        port.set_tx_interrupt(true);
        bus::pass(60 * 86_806);
        assert!(!raised() && !port.try_put(0), "an interrupt that nobody can settle");
        bus::pass(5 * 86_806);
        assert!(raised());
    }
    assert!(port.try_put(0));
    bus::pass(1);
    assert!(!raised(), "a byte takes it back");
    bus::pass(100_000);
    assert!(raised());
    port.set_tx_interrupt(false);
    bus::pass(1);
    assert!(!raised());
    port.enable_rx_interrupt();
    chip.uart.borrow_mut().receive(b"x");
    bus::pass(1_000_000);
    assert!(raised(), "what is received is another interrupt");
}

#[test]
fn a_pause_that_is_seen_late_raises_no_interrupt_for_ever() {
    let chip = Chip::new();
    let mut port = serial().unwrap();
    port.enable_rx_interrupt();
    chip.uart.borrow_mut().raise_late();
    bus::pass(1_000);
    assert_eq!(port.get(), None);
    bus::pass(1_000_000);
    assert_eq!(chip.lines.borrow()[UART0 as usize / 32] >> (UART0 % 32) & 1, 0);
}

#[test]
fn a_uart_that_is_off_is_refused() {
    let chip = Chip::new();
    chip.uart.borrow_mut().mode = 7;
    assert!(serial().err().unwrap().problem.contains("MDR1"));
}
