//! Two DMTimers of the AM335x (AM335x TRM, SPRUH73, section 20.1): 32-bit up-counters that raise an interrupt when they
//! overflow.
//!
//! The first `ti,am335x-timer` of the device tree (timer 2) is the one-shot: of those, it alone has its clock described
//! there, and U-Boot has used it. The next (timer 3) runs freely and is the clock. Timer 1, `ti,am335x-timer-1ms`, has
//! other registers.
//!
//! The registers of the counting side belong to the timer's clock; a write takes two or three of its ticks to arrive.
//! The one-shot is *posted*: writes go on at once, and TWPS says whether one is still under way. Its counter is not
//! read after boot. The clock is not posted: a read takes as long as it takes, and is right. In posted mode it could be
//! wrong after the timer was idle (OMAP erratum i103), and would depend on the ratio of two clocks.
//!
//! **How fast they run** says the device tree, which asks a register: see [`super::am33xx_clock`]. That the one-shot
//! counts with this clock is seen to; that the other one does (its multiplexer is at CLK_M_OSC after reset, and U-Boot
//! leaves it alone), is measured, against the first. Whether the crystal is what the board's pins say cannot be seen
//! from inside; if it were not, U-Boot's console would have shown it, as its PLLs rest on the same pins.

use alloc::boxed::Box;
use alloc::format;

use super::error::BoardError;
use super::hardware::{Hardware, Registers};
use super::tree::{Node, Tree};
use super::wrap::{Extended, ticks_until};
use super::{Counter, HostTimer, PATIENCE, am33xx_clock, map};

/// What such a timer is called in the device tree.
pub const COMPATIBLE: &str = "ti,am335x-timer";

const CONFIG: u32 = 0x10;
const STATUS: u32 = 0x28;
const INTERRUPT_SET: u32 = 0x2c;
const CONTROL: u32 = 0x38;
const COUNTER: u32 = 0x3c;
const LOAD: u32 = 0x40;
const PENDING: u32 = 0x48;
const INTERFACE: u32 = 0x54;

/// CONFIG: reads as 1 until it is done.
const SOFT_RESET: u32 = 1 << 0;
/// CONFIG: the timer never goes idle by itself, nor when asked to.
const NO_IDLE: u32 = 1 << 2;
/// STATUS and the register that enables.
const OVERFLOW: u32 = 1 << 1;
/// CONTROL: run. A one-shot timer clears it when it overflows.
const START: u32 = 1 << 0;
/// CONTROL: go on from LOAD after an overflow.
const RELOAD: u32 = 1 << 1;
/// PENDING: a write to CONTROL, and to COUNTER, is under way.
const CONTROL_PENDING: u32 = 1 << 0;
const COUNTER_PENDING: u32 = 1 << 1;
const POSTED: u32 = 1 << 2;

/// One tick before the overflow is a place that no counter is set to.
const NEAREST: u32 = 2;

struct Timer<R> {
    one_shot: R,
    counter: R,
    frequency: u32,
    clock: Extended,
}

/// Takes over the timer of `node`, and the next one of its kind.
pub fn probe<H: Hardware>(tree: Tree<'_>, node: &Node<'_>) -> Result<Box<dyn HostTimer>, BoardError> {
    let mut past_first = false;
    let next = tree.find(|other| {
        let is_it = other.is_enabled() && other.is(COMPATIBLE);
        is_it && core::mem::replace(&mut past_first, true)
    });
    let next = next.ok_or_else(|| node.error("compatible", "is the only one of its kind; two are needed"))?;
    let frequency = am33xx_clock::frequency::<H>(tree, node)?;
    let (one_shot, counter) = (take_over::<H>(tree, node)?, take_over::<H>(tree, &next)?);

    counter.write(INTERFACE, 0);
    counter.write(LOAD, 0);
    counter.write(COUNTER, 0);
    counter.write(CONTROL, START | RELOAD);
    one_shot.write(INTERFACE, POSTED);

    let mut timer = Timer { one_shot, counter, frequency, clock: Extended::new() };
    timer.compare(node, &next)?;
    one_shot.write(INTERRUPT_SET, OVERFLOW);
    timer.now();
    Ok(Box::new(timer))
}

/// The registers of a timer that is on, and after its reset: it stands still and raises nothing.
fn take_over<H: Hardware>(tree: Tree<'_>, node: &Node<'_>) -> Result<H::Registers, BoardError> {
    am33xx_clock::enable::<H>(tree, node)?;
    let registers = map::<H>(node, 0)?;
    if node.reg(0)?.1 < INTERFACE + 4 {
        return Err(node.error("reg", "is too small for a DMTimer's registers"));
    }
    registers.write(CONFIG, SOFT_RESET);
    if !(0..PATIENCE).any(|_| registers.read(CONFIG) & SOFT_RESET == 0) {
        return Err(node.error("reg", "the timer does not come out of its reset (TIOCP_CFG)"));
    }
    registers.write(CONFIG, NO_IDLE);
    Ok(registers)
}

impl<R: Registers> Timer<R> {
    /// Waits until the last write to a register of the one-shot has arrived.
    fn settle(&self, pending: u32) {
        let _ = (0..PATIENCE).any(|_| self.one_shot.read(PENDING) & pending == 0);
    }

    /// Starts the one-shot at `count`.
    fn start(&self, count: u32) {
        self.settle(COUNTER_PENDING);
        self.one_shot.write(COUNTER, count);
        self.settle(CONTROL_PENDING);
        self.one_shot.write(CONTROL, START);
    }

    /// Whether the two timers run, and at the same speed: for a tenth of a millisecond. Leaves the one-shot stopped.
    fn compare(&mut self, node: &Node<'_>, next: &Node<'_>) -> Result<(), BoardError> {
        self.start(0);
        self.settle(COUNTER_PENDING | CONTROL_PENDING);
        let count = |of: R| of.read(COUNTER);
        let (wanted, start) = (self.frequency / 10_000, [count(self.one_shot), count(self.counter)]);
        let passed =
            |this: &Self| [count(this.one_shot).wrapping_sub(start[0]), count(this.counter).wrapping_sub(start[1])];
        let mut counts = passed(self);
        for _ in 0..PATIENCE {
            if counts[0] >= wanted {
                break;
            }
            counts = passed(self);
        }
        self.settle(CONTROL_PENDING);
        self.one_shot.write(CONTROL, 0);
        self.settle(CONTROL_PENDING);
        if counts[0] < wanted {
            return Err(node.error("clocks", format!("the timer does not run: {} ticks of {wanted}", counts[0])));
        }
        if counts[0].abs_diff(counts[1]) > wanted / 16 {
            let problem = format!("counts {} ticks while {} counts {}", counts[1], node.path(), counts[0]);
            return Err(next.error("clocks", format!("{problem}: it must have the same clock")));
        }
        Ok(())
    }
}

impl<R: Registers> HostTimer for Timer<R> {
    fn frequency(&self) -> u32 {
        self.frequency
    }

    fn now(&mut self) -> u64 {
        let count = self.counter.read(COUNTER);
        self.clock.at(count)
    }

    fn set_deadline(&mut self, deadline: Option<u64>) {
        let now = self.now();
        // The one-shot need not be stopped for this: an overflow meanwhile is an interrupt that comes early.
        self.start(ticks_until(deadline, now).max(NEAREST).wrapping_neg());
    }

    fn acknowledge(&mut self) -> u64 {
        self.one_shot.write(STATUS, OVERFLOW);
        // The answer comes behind the write: the line has fallen.
        self.one_shot.read(STATUS);
        self.now()
    }

    fn counter(&self) -> Option<Counter> {
        Some(Counter { address: self.counter.address(COUNTER, 4), down: false })
    }
}
