//! A DMTimer (TRM 20.1): a 32-bit up-counter with a clock of its own, to which writes have to travel.

use std::vec::Vec;

use super::{ClockManager, Lines, set_line};
use crate::models::bus::{self, Model, Shared};

const CONTROL: u32 = 0x38;
const COUNTER: u32 = 0x3c;
const LOAD: u32 = 0x40;

/// Ticks that a write takes to arrive: more than in truth, so that nobody gets by without waiting.
const TRAVEL: u64 = 20;

/// See the module's text.
pub struct Timer {
    clocks: Shared<ClockManager>,
    gate: u32,
    select: u32,
    lines: Lines,
    line: u32,
    control: u32,
    count: u32,
    load: u32,
    posted: bool,
    status: u32,
    enabled: u32,
    config: u32,
    /// Writes that are under way: register, value, and when they arrive.
    under_way: Vec<(u32, u32, u64)>,
    reset_until: u64,
    /// Nanoseconds up to which it has counted, and what is left of a tick, in Hz times nanoseconds.
    counted: u64,
    part: u64,
}

impl Timer {
    /// As U-Boot leaves it: running, with an overflow that nobody has looked at.
    pub(super) fn new(clocks: &Shared<ClockManager>, gate: u32, select: u32, lines: &Lines, line: u32) -> Self {
        Timer {
            clocks: clocks.clone(),
            gate,
            select,
            lines: lines.clone(),
            line,
            control: 3,
            count: 0xffff_0000,
            load: 0,
            posted: true,
            status: 2,
            enabled: 7,
            config: 0,
            under_way: Vec::new(),
            reset_until: 0,
            counted: 0,
            part: 0,
        }
    }

    /// Sets the counter as if it had run until there.
    pub fn set_count(&mut self, count: u32) {
        self.catch_up(bus::now());
        self.count = count;
    }

    /// Whether it counts.
    #[must_use]
    pub fn runs(&self) -> bool {
        self.control & 1 != 0
    }

    /// Whether writes go on at once; then what is read need not be right after a while of idleness.
    #[must_use]
    pub fn is_posted(&self) -> bool {
        self.posted
    }

    fn hertz(&self) -> u64 {
        self.clocks.borrow().hertz(self.select)
    }

    fn count_until(&mut self, now: u64) {
        let passed = now.saturating_sub(self.counted);
        self.counted = self.counted.max(now);
        if self.control & 1 == 0 || !self.clocks.borrow().is_on(self.gate) {
            return;
        }
        let all = passed * self.hertz() + self.part;
        self.part = all % 1_000_000_000;
        let mut count = u64::from(self.count) + all / 1_000_000_000;
        while count > u64::from(u32::MAX) {
            self.status |= 2;
            if self.control & 2 == 0 {
                // One-shot: it stops by itself.
                self.control &= !1;
                count = 0;
                break;
            }
            count = count - (1 << 32) + u64::from(self.load);
        }
        self.count = count as u32;
    }

    fn catch_up(&mut self, now: u64) {
        while let Some(next) = (0..self.under_way.len()).min_by_key(|&write| self.under_way[write].2) {
            let (register, value, arrives) = self.under_way[next];
            if arrives > now {
                break;
            }
            self.under_way.remove(next);
            self.count_until(arrives);
            match register {
                CONTROL => self.control = value,
                COUNTER => self.count = value,
                _ => self.load = value,
            }
        }
        self.count_until(now);
        set_line(&self.lines, self.line, self.status & self.enabled != 0);
    }

    fn answers(&self) -> bool {
        self.clocks.borrow().is_on(self.gate)
    }
}

impl Model for Timer {
    fn run(&mut self, now: u64) {
        self.catch_up(now);
    }

    fn read(&mut self, offset: u32) -> Option<u32> {
        if !self.answers() {
            return None;
        }
        self.catch_up(bus::now());
        let pending = |register| u32::from(self.under_way.iter().any(|write| write.0 == register));
        Some(match offset {
            0x10 => self.config | u32::from(bus::now() < self.reset_until),
            0x28 => self.status & self.enabled,
            CONTROL => self.control,
            COUNTER => self.count,
            LOAD => self.load,
            0x48 => pending(CONTROL) | pending(COUNTER) << 1 | pending(LOAD) << 2,
            _ => panic!("DMTimer register {offset:#x} is read"),
        })
    }

    fn write(&mut self, offset: u32, value: u32) {
        assert!(self.answers(), "external abort: the timer is off");
        assert!(bus::now() >= self.reset_until, "a timer is written during its reset");
        self.catch_up(bus::now());
        match offset {
            0x10 if value & 1 != 0 => {
                self.reset_until = bus::now() + 1_000;
                (self.control, self.count, self.load, self.status, self.enabled) = (0, 0, 0, 0, 0);
                (self.posted, self.config) = (false, 0);
                self.under_way.clear();
            }
            0x10 => self.config = value,
            0x28 => self.status &= !value,
            0x2c => self.enabled |= value,
            0x30 => self.enabled &= !value,
            0x54 => self.posted = value & 4 != 0,
            CONTROL | COUNTER | LOAD => {
                assert!(offset == CONTROL || value != u32::MAX, "the counter cannot begin at its overflow");
                assert!(
                    self.under_way.iter().all(|write| write.0 != offset),
                    "DMTimer register {offset:#x} is written while a write is under way"
                );
                // Three ticks of its clock, says the manual. Not posted, the writer waits for it.
                let ticks = if offset == CONTROL { 2 * TRAVEL } else { TRAVEL };
                let arrives = bus::now() + ticks * 1_000_000_000 / self.hertz() + 1;
                self.under_way.push((offset, value, arrives));
                if !self.posted {
                    bus::pass(arrives - bus::now());
                }
            }
            _ => panic!("DMTimer register {offset:#x} is written"),
        }
        self.catch_up(bus::now());
    }
}
