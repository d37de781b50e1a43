//! The SP804 dual timer (Arm Dual-Timer Module SP804 TRM, DDI 0271): two 32-bit down-counters.
//!
//! Timer 2 runs freely and is the clock, timer 1 is the one-shot. On Versatile Express their clocks come through the
//! SP810 system controller, which after reset passes on 32 kHz: it is told to pass on TIMCLK, 1 MHz (SP810 TRM, DDI
//! 0254, SCCTRL).

use alloc::boxed::Box;

use super::error::BoardError;
use super::hardware::{Hardware, Registers};
use super::tree::{Node, Tree};
use super::wrap::{Extended, ticks_until};
use super::{Alarm, Counter, HostTimer, map, takes_steps};

/// Registers of timer 1; those of timer 2 are 0x20 further on.
const LOAD: u32 = 0x00;
const VALUE: u32 = 0x04;
const CONTROL: u32 = 0x08;
const INTERRUPT_CLEAR: u32 = 0x0c;
const CLOCK: u32 = 0x20;

/// CONTROL. While a counter is enabled, its mode, size and prescaler are not to be changed: it is stopped with the same
/// settings, then gets others (DDI 0271, 3.3).
const ENABLE: u32 = 1 << 7;
const INTERRUPT_ENABLE: u32 = 1 << 5;
const WIDE: u32 = 1 << 1;
const ONE_SHOT: u32 = 1 << 0;
/// The one-shot's settings, without [`ENABLE`].
const ALARM: u32 = INTERRUPT_ENABLE | WIDE | ONE_SHOT;

/// SP810: bits 15, 17, 19 and 21 of SCCTRL select TIMCLK for timers 0 to 3.
const SYSTEM_CONTROL: u32 = 0x00;
const SELECT_TIMCLK: u32 = 1 << 15 | 1 << 17 | 1 << 19 | 1 << 21;

struct Timer<R> {
    registers: R,
    frequency: u32,
    clock: Extended,
}

/// Takes over the timers of `node`.
pub fn probe<H: Hardware>(tree: Tree<'_>, node: &Node<'_>) -> Result<Box<dyn HostTimer>, BoardError> {
    let frequency = select_clock::<H>(tree, node)?;
    let registers = map::<H>(node, 0)?;
    if node.reg(0)?.1 < CLOCK + INTERRUPT_CLEAR + 4 {
        return Err(node.error("reg", "is too small for two timers"));
    }
    for (timer, settings) in [(0, ALARM), (CLOCK, WIDE)] {
        registers.write(timer + CONTROL, registers.read(timer + CONTROL) & !ENABLE);
        registers.write(timer + CONTROL, settings);
        registers.write(timer + INTERRUPT_CLEAR, 0);
    }
    registers.write(CLOCK + LOAD, u32::MAX);
    registers.write(CLOCK + CONTROL, ENABLE | WIDE);
    // What is loaded is taken over with the next tick (DDI 0271, 3.3): the clock must not begin with what was there
    // before, and look as if it had turned.
    if !takes_steps(2, || registers.read(CLOCK + VALUE)) {
        return Err(node.error("clocks", "the second timer does not count"));
    }
    Ok(Box::new(Timer { registers, frequency, clock: Extended::new() }))
}

/// The frequency of the timers' clock, from the first entry of `clocks`: a fixed clock, or the SP810 behind which there
/// is one.
fn select_clock<H: Hardware>(tree: Tree<'_>, node: &Node<'_>) -> Result<u32, BoardError> {
    let unknown =
        || node.error("clocks", "the first clock is neither a fixed-clock nor an arm,sp810 with a fixed timclk");
    let first = node.words("clocks").and_then(|clocks| clocks.first().copied()).ok_or_else(unknown)?;
    let source = tree.phandle(first).ok_or_else(unknown)?;
    if let Some(frequency) = source.word("clock-frequency") {
        return Ok(frequency);
    }
    if !source.is("arm,sp810") {
        return Err(unknown());
    }
    let names = source.property("clock-names").unwrap_or_default();
    let index = names.split(|&byte| byte == 0).position(|name| name == b"timclk").ok_or_else(unknown)?;
    // The inputs of an SP810 are fixed clocks, which have no argument cells.
    let phandle = source.words("clocks").and_then(|clocks| clocks.get(index).copied()).ok_or_else(unknown)?;
    let frequency = tree.phandle(phandle).and_then(|clock| clock.word("clock-frequency")).ok_or_else(unknown)?;
    let registers = map::<H>(&source, 0)?;
    // An emulated board may lack the SP810, and clocks its timers with TIMCLK anyhow.
    if let Some(control) = registers.try_read(SYSTEM_CONTROL)
        && control & SELECT_TIMCLK != SELECT_TIMCLK
    {
        registers.write(SYSTEM_CONTROL, control | SELECT_TIMCLK);
    }
    Ok(frequency)
}

impl<R: Registers> HostTimer for Timer<R> {
    fn frequency(&self) -> u32 {
        self.frequency
    }

    fn now(&mut self) -> u64 {
        let count = !self.registers.read(CLOCK + VALUE);
        self.clock.at(count)
    }

    fn set_deadline(&mut self, deadline: Option<u64>) {
        self.registers.write(CONTROL, ALARM);
        let now = self.now();
        self.registers.write(LOAD, ticks_until(deadline, now));
        self.registers.write(CONTROL, ALARM | ENABLE);
    }

    fn acknowledge(&mut self) -> u64 {
        self.registers.write(INTERRUPT_CLEAR, 0);
        self.now()
    }

    fn counter(&self) -> Option<Counter> {
        Some(Counter { address: self.registers.address(CLOCK + VALUE, 4), down: true })
    }

    fn alarm(&self) -> Option<Alarm> {
        let registers = [CONTROL, LOAD, INTERRUPT_CLEAR];
        let [control, interval, status] = registers.map(|register| self.registers.address(register, 4));
        let start = ALARM | ENABLE;
        Some(Alarm { control, interval, stop: ALARM, start, pause: 0, status, lower: 0, running: 0 })
    }
}
