//! The timers of the Allwinner A10 (A10 user manual, timer controller): six 32-bit down-counters at 24 MHz.
//!
//! Timer 1 runs freely and is the clock, timer 0 is the one-shot.

use alloc::boxed::Box;

use super::error::BoardError;
use super::hardware::{Hardware, Registers};
use super::tree::Node;
use super::wrap::{Extended, ticks_until};
use super::{Alarm, Counter, HostTimer, map, takes_steps};

const INTERRUPT_ENABLE: u32 = 0x00;
const INTERRUPT_STATUS: u32 = 0x04;
/// Control, interval and current value of timer 0; timer 1's are 0x10 further on.
const CONTROL: u32 = 0x10;
const INTERVAL: u32 = 0x14;
const CURRENT: u32 = 0x18;
const CLOCK: u32 = 0x10;

const ENABLE: u32 = 1 << 0;
/// Take over the interval now; reads as 1 until it has been.
const RELOAD: u32 = 1 << 1;
const SOURCE_24_MHZ: u32 = 1 << 2;
const ONE_SHOT: u32 = 1 << 7;
/// The one-shot, stopped. It stops with the same clock that it had: another one might need longer to notice.
const ALARM: u32 = SOURCE_24_MHZ | ONE_SHOT;

/// The counter runs on a clock of its own and needs up to three of its ticks to notice that it was stopped.
const PAUSE: u32 = 3;

const FREQUENCY: u32 = 24_000_000;

/// Reads of a register that take longer than two ticks of 32 kHz, the slowest clock that a timer may have been left at.
const STOPS: u32 = 1024;

struct Timer<R> {
    registers: R,
    clock: Extended,
    /// The one-shot's interrupt has been acknowledged since its deadline was set.
    expired: bool,
}

/// Takes over the timers of `node`. Their interrupt is the first of the node.
pub fn probe<H: Hardware>(node: &Node<'_>) -> Result<Box<dyn HostTimer>, BoardError> {
    let registers = map::<H>(node, 0)?;
    if node.reg(0)?.1 < CLOCK + CURRENT + 4 {
        return Err(node.error("reg", "is too small for two timers"));
    }
    registers.write(INTERRUPT_ENABLE, 0);
    for control in [CONTROL, CLOCK + CONTROL] {
        registers.write(control, registers.read(control) & !(ENABLE | RELOAD));
    }
    // A timer must not be started within two of its ticks after it was stopped, and its interval is not to be changed
    // while it counts (A20 user manual, 1.9.3.3).
    for _ in 0..STOPS {
        registers.read(CLOCK + CONTROL);
    }
    registers.write(CLOCK + INTERVAL, u32::MAX);
    registers.write(CLOCK + CONTROL, ENABLE | RELOAD | SOURCE_24_MHZ);
    // The interval is taken over up to three ticks later: the clock must not begin with what was there before, and look
    // as if it had turned.
    if !takes_steps(4, || registers.read(CLOCK + CURRENT)) {
        return Err(node.error("reg", "the second timer does not count"));
    }
    registers.write(INTERRUPT_STATUS, 1);
    registers.write(INTERRUPT_ENABLE, 1);
    Ok(Box::new(Timer { registers, clock: Extended::new(), expired: false }))
}

impl<R: Registers> Timer<R> {
    fn count(&self) -> u32 {
        !self.registers.read(CLOCK + CURRENT)
    }
}

impl<R: Registers> HostTimer for Timer<R> {
    fn frequency(&self) -> u32 {
        FREQUENCY
    }

    fn now(&mut self) -> u64 {
        let count = self.count();
        self.clock.at(count)
    }

    fn set_deadline(&mut self, deadline: Option<u64>) {
        // What has come to zero has stopped by itself, and need not be waited for.
        let stands = core::mem::take(&mut self.expired) && self.registers.read(CONTROL) & ENABLE == 0;
        if !stands {
            self.registers.write(CONTROL, ALARM);
            let stopped = self.count();
            while self.count().wrapping_sub(stopped) < PAUSE {}
        }
        let now = self.now();
        self.registers.write(INTERVAL, ticks_until(deadline, now));
        self.registers.write(CONTROL, ALARM | ENABLE | RELOAD);
    }

    fn acknowledge(&mut self) -> u64 {
        self.registers.write(INTERRUPT_STATUS, 1);
        self.expired = true;
        self.now()
    }

    fn counter(&self) -> Option<Counter> {
        Some(Counter { address: self.registers.address(CLOCK + CURRENT, 4), down: true })
    }

    fn alarm(&self) -> Option<Alarm> {
        let [control, interval] = [CONTROL, INTERVAL].map(|register| self.registers.address(register, 4));
        let start = ALARM | ENABLE | RELOAD;
        let status = self.registers.address(INTERRUPT_STATUS, 4);
        Some(Alarm { control, interval, stop: ALARM, start, pause: PAUSE, status, lower: 1, running: ENABLE })
    }
}
