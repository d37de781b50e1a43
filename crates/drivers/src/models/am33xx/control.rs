//! The clock manager (TRM 8.1.12), the control module (9.3) and a watchdog (20.4).

use std::collections::BTreeMap;

use crate::models::bus::{Model, Shared, now};

/// CM_PER, CM_WKUP and CM_DPLL: a register for each module, and multiplexers.
pub struct ClockManager {
    words: BTreeMap<u32, u32>,
    /// When a module that was turned on answers.
    since: BTreeMap<u32, u64>,
    /// A module that never comes on.
    pub broken: Option<u32>,
}

/// Nanoseconds that a module takes to come on.
const COMING_ON: u64 = 2_000;

impl ClockManager {
    pub(super) fn new() -> Self {
        // Modules that U-Boot uses: timer 2, UART 0, watchdog 1. Multiplexers of timers 2 and 3: CLK_M_OSC.
        let words = BTreeMap::from([(0x80, 2), (0x4b4, 2), (0x4d4, 2), (0x508, 1), (0x50c, 1)]);
        ClockManager { words, since: BTreeMap::new(), broken: None }
    }

    /// Whether a module's registers answer, given the offset of its CLKCTRL.
    #[must_use]
    pub fn is_on(&self, gate: u32) -> bool {
        self.words.get(&gate).is_some_and(|word| word & 3 == 2)
            && self.since.get(&gate).is_none_or(|&since| since + COMING_ON <= now())
            && self.broken != Some(gate)
    }

    /// What a timer's clock comes to.
    #[must_use]
    pub fn hertz(&self, select: u32) -> u64 {
        match self.words[&select] {
            0 => 12_000_000,
            1 => 24_000_000,
            2 => 32_768,
            other => panic!("CLKSEL {select:#x} is {other}, which is reserved"),
        }
    }

    /// Puts a value into a register, as U-Boot might have.
    pub fn put(&mut self, at: u32, value: u32) {
        self.words.insert(at, value);
    }
}

impl Model for ClockManager {
    fn read(&mut self, offset: u32) -> Option<u32> {
        let word = self.words.get(&offset).copied().unwrap_or(0);
        Some(match offset {
            // Multiplexers: what is reserved may read as anything.
            0x500..0x600 => word | !3,
            _ if self.is_on(offset) => word,
            _ => word | 3 << 16,
        })
    }

    fn write(&mut self, offset: u32, value: u32) {
        assert!(offset.is_multiple_of(4));
        let before = self.words.insert(offset, value & 3).unwrap_or(0);
        if before != 2 {
            self.since.insert(offset, now());
        }
    }
}

/// CONTROL_STATUS, of which bits 23 and 22 are the pins that tell the crystal.
pub struct ControlModule {
    /// 0 to 3: 19.2, 24, 25, 26 MHz.
    pub sysboot: u32,
}

impl Model for ControlModule {
    fn read(&mut self, offset: u32) -> Option<u32> {
        // The other pins are at 1: what they say belongs to others.
        Some(if offset == 0x40 { self.sysboot << 22 | 0xff3f_ffff } else { 0 })
    }

    fn write(&mut self, offset: u32, _: u32) {
        panic!("CONTROL_STATUS and its like are not to be written: {offset:#x}");
    }
}

/// Watchdog 1, running.
pub struct Watchdog {
    clocks: Shared<ClockManager>,
    gate: u32,
    last: u32,
    until: u64,
    /// Whether it would reset the board some time.
    pub runs: bool,
}

impl Watchdog {
    pub(super) fn new(clocks: &Shared<ClockManager>, gate: u32) -> Self {
        Watchdog { clocks: clocks.clone(), gate, last: 0, until: 0, runs: true }
    }
}

impl Model for Watchdog {
    fn read(&mut self, offset: u32) -> Option<u32> {
        if !self.clocks.borrow().is_on(self.gate) {
            return None;
        }
        Some(match offset {
            0x34 => u32::from(self.until > now()) << 4,
            _ => 0,
        })
    }

    fn write(&mut self, offset: u32, value: u32) {
        assert!(self.clocks.borrow().is_on(self.gate), "external abort: the watchdog is off");
        assert_eq!(offset, 0x48, "only WDT_WSPR is to be written");
        assert!(self.until <= now(), "WDT_WSPR is written while a write is under way");
        // Its clock is 32 kHz.
        self.until = now() + 90_000;
        match (self.last, value) {
            (0xaaaa, 0x5555) => self.runs = false,
            (0xbbbb, 0x4444) => self.runs = true,
            _ => {}
        }
        self.last = value;
    }
}
