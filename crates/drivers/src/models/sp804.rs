//! An SP804 dual timer (DDI 0271, whose sections are cited) and the SP810 system controller that chooses its clock (DDI
//! 0254).

use super::bus::{self, Model, Shared};
use super::ticks::Ticks;

/// Control register (3.3).
const ENABLE: u32 = 1 << 7;
const PERIODIC: u32 = 1 << 6;
const INTERRUPT_ENABLE: u32 = 1 << 5;
const PRESCALE: u32 = 3 << 2;
const WIDE: u32 = 1 << 1;
const ONE_SHOT: u32 = 1 << 0;
const SETTINGS: u32 = PERIODIC | PRESCALE | WIDE | ONE_SHOT;

/// One of the two counters.
struct Counter {
    load: u32,
    value: u32,
    control: u32,
    raw: bool,
    /// LOAD was written since the last tick, which takes it over, whether the counter is enabled or not.
    loading: bool,
    /// Ticks that the prescaler has swallowed.
    part: u64,
}

impl Counter {
    fn left(control: u32, load: u32, value: u32) -> Self {
        Counter { load, value, control, raw: true, loading: false, part: 0 }
    }

    fn largest(&self) -> u32 {
        if self.control & WIDE != 0 { u32::MAX } else { 0xffff }
    }

    fn run(&mut self, mut ticks: u64) {
        if ticks == 0 {
            return;
        }
        if std::mem::take(&mut self.loading) {
            self.value = self.load & self.largest();
            self.part = 0;
            ticks -= 1;
        }
        if self.control & ENABLE == 0 {
            return;
        }
        let divisor = [1, 16, 256, 1][(self.control & PRESCALE) as usize >> 2];
        let all = ticks + self.part;
        self.part = all % divisor;
        let (steps, value) = (all / divisor, u64::from(self.value));
        if steps == 0 || self.control & ONE_SHOT != 0 && value == 0 {
            return;
        }
        self.raw |= value != 0 && steps >= value;
        self.value = if steps <= value {
            (value - steps) as u32
        } else if self.control & ONE_SHOT != 0 {
            0
        } else {
            let again = if self.control & PERIODIC != 0 { self.load & self.largest() } else { self.largest() };
            let round = u64::from(again) + 1;
            let behind = (steps - value - 1) % round;
            self.raw |= behind + 1 == round || steps - value > round;
            (u64::from(again) - behind) as u32
        };
    }

    fn raised(&self) -> bool {
        self.raw && self.control & INTERRUPT_ENABLE != 0
    }

    fn read(&self, register: u32) -> u32 {
        match register {
            0x04 => self.value,
            0x08 => self.control,
            _ => panic!("SP804 register {register:#x} is read"),
        }
    }

    fn write(&mut self, register: u32, value: u32) {
        match register {
            0x00 => (self.load, self.loading) = (value, true),
            0x08 => {
                assert_eq!(value & !(ENABLE | INTERRUPT_ENABLE | SETTINGS), 0, "SP804: reserved bits");
                let changes = (value ^ self.control) & SETTINGS != 0;
                let counts = (value | self.control) & ENABLE != 0;
                assert!(!counts || !changes, "SP804: mode, size or prescaler change while it counts");
                self.control = value;
            }
            0x0c => self.raw = false,
            _ => panic!("SP804 register {register:#x} is written"),
        }
    }
}

/// See the module's text.
pub struct Sp804 {
    system: Shared<Sp810>,
    ticks: Ticks,
    counters: [Counter; 2],
    /// It stands still.
    pub broken: bool,
}

impl Sp804 {
    /// As something else has left it: both count, in other modes, and have expired.
    #[must_use]
    pub fn left(system: &Shared<Sp810>) -> Self {
        let first = Counter::left(ENABLE | PERIODIC | INTERRUPT_ENABLE | 1 << 2, 1000, 77);
        let second = Counter::left(ENABLE | INTERRUPT_ENABLE | 2 << 2 | WIDE, 5, 0x1234_5678);
        let system = system.clone();
        Sp804 { system, ticks: Ticks::default(), counters: [first, second], broken: false }
    }

    /// Whether the first counter's interrupt is raised, and the second's.
    #[must_use]
    pub fn raised(&self) -> [bool; 2] {
        self.counters.each_ref().map(Counter::raised)
    }

    /// Sets the second counter as if it had counted down to there.
    pub fn set_value(&mut self, value: u32) {
        self.run(bus::now());
        self.counters[1].value = value;
    }
}

impl Model for Sp804 {
    fn run(&mut self, now: u64) {
        let ticks = self.ticks.new_at(now, self.system.borrow().hertz());
        if !self.broken {
            self.counters.iter_mut().for_each(|counter| counter.run(ticks));
        }
    }

    fn read(&mut self, offset: u32) -> Option<u32> {
        self.run(bus::now());
        Some(self.counters[offset as usize / 0x20].read(offset % 0x20))
    }

    fn write(&mut self, offset: u32, value: u32) {
        self.run(bus::now());
        self.counters[offset as usize / 0x20].write(offset % 0x20, value);
    }
}

/// SCCTRL: which clock each of four timers has.
const TIMERS: u32 = 1 << 15 | 1 << 17 | 1 << 19 | 1 << 21;

/// A system controller, of which only the choice of clocks is to be touched.
pub struct Sp810 {
    control: u32,
    /// There is none: accesses abort.
    pub missing: bool,
}

impl Sp810 {
    /// As after reset, in its normal mode.
    #[must_use]
    pub fn new() -> Self {
        Sp810 { control: 0x9, missing: false }
    }

    /// The clock of the timers: TIMCLK, or the reference clock.
    fn hertz(&self) -> u64 {
        if self.missing || self.control & TIMERS == TIMERS { 1_000_000 } else { 32_768 }
    }
}

impl Default for Sp810 {
    fn default() -> Self {
        Sp810::new()
    }
}

impl Model for Sp810 {
    fn read(&mut self, offset: u32) -> Option<u32> {
        assert_eq!(offset, 0, "SP810: another register than SCCTRL is read");
        (!self.missing).then_some(self.control)
    }

    fn write(&mut self, offset: u32, value: u32) {
        assert!(offset == 0 && !self.missing, "SP810: another register than SCCTRL is written");
        assert_eq!((value ^ self.control) & !TIMERS, 0, "SCCTRL: more than the timers' clocks is changed");
        self.control = value;
    }
}
