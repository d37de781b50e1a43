//! The interrupt controller and two of the timers of an Allwinner A10 (A10 user manual, INTC and timer controller;
//! where it is short, the A20's manual, which has the same timers, and linux-sunxi.org on the INTC).

use super::bus::{self, Model};
use super::ticks::Ticks;
use super::{Lines, set_line};

/// The line of timer 0.
pub const TIMER0: u32 = 22;

/// The interrupt controller.
pub struct Intc {
    lines: Lines,
    /// The NMI pin was active, and nobody has written its pending bit since.
    latch: bool,
    protection: u32,
    nmi_control: u32,
    select: [u32; 3],
    enable: [u32; 3],
    mask: [u32; 3],
}

impl Intc {
    /// As something else has left it: much is enabled, much is masked, and some lines are FIQs.
    #[must_use]
    pub fn left(lines: &Lines) -> Self {
        Intc {
            lines: lines.clone(),
            latch: true,
            protection: 0,
            nmi_control: 1,
            select: [1 << TIMER0 | 1, 0, 8],
            enable: [u32::MAX; 3],
            mask: [0xffff_0000; 3],
        }
    }

    /// Whether a line's interrupts come, as IRQs.
    #[must_use]
    pub fn is_enabled(&self, line: u32) -> bool {
        let bank = line as usize / 32;
        self.enable[bank] & !self.mask[bank] & !self.select[bank] & 1 << (line % 32) != 0
    }

    /// The output to the core.
    #[must_use]
    pub fn irq(&self) -> bool {
        self.first().is_some()
    }

    /// What is pending, whether it is enabled or not: lines, and the latch behind the NMI pin.
    fn pending(&self, bank: usize) -> u32 {
        let lines = self.lines.borrow()[bank];
        if bank == 0 { lines | u32::from(self.latch) } else { lines }
    }

    /// The first line that is pending and enabled; all have the same priority.
    fn first(&self) -> Option<u32> {
        (0..96).find(|&line| self.is_enabled(line) && self.pending(line as usize / 32) >> (line % 32) & 1 != 0)
    }
}

impl Model for Intc {
    fn run(&mut self, _: u64) {
        self.latch |= self.lines.borrow()[0] & 1 != 0;
    }

    fn read(&mut self, offset: u32) -> Option<u32> {
        self.run(bus::now());
        let bank = (offset % 0x10 / 4) as usize;
        Some(match offset {
            0x00 => self.first().unwrap_or(0) << 2,
            0x10..0x1c => self.pending(bank),
            0x40..0x4c => self.enable[bank],
            _ => panic!("INTC register {offset:#x} is read"),
        })
    }

    fn write(&mut self, offset: u32, value: u32) {
        let bank = (offset % 0x10 / 4) as usize;
        match offset {
            0x08 => {
                assert_eq!(value & !1, 0, "INTC protection: reserved bits");
                self.protection = value;
            }
            0x0c => {
                assert_eq!(value & !3, 0, "NMI control: reserved bits");
                self.nmi_control = value;
            }
            // Only the latch can be cleared.
            0x10 => self.latch &= value & 1 == 0,
            0x14 | 0x18 => {}
            0x30..0x3c => self.select[bank] = value,
            0x40..0x4c => self.enable[bank] = value,
            0x50..0x5c => self.mask[bank] = value,
            _ => panic!("INTC register {offset:#x} is written"),
        }
        self.run(bus::now());
    }
}

/// Control register of a timer.
const ENABLE: u32 = 1 << 0;
const RELOAD: u32 = 1 << 1;
const SINGLE: u32 = 1 << 7;

/// Ticks that a timer needs to notice that it was stopped, or is to begin at its interval (A20 user manual, 1.9.3.3).
const NOTICE: u64 = 2;

struct Counter {
    ticks: Ticks,
    control: u32,
    interval: u32,
    current: u32,
    /// Ticks until it begins at its interval; it shows until then what was there before.
    reload: Option<u64>,
    /// Ticks until it stands still.
    stopping: u64,
    expired: bool,
}

impl Counter {
    fn left(control: u32, interval: u32, current: u32) -> Self {
        let ticks = Ticks::default();
        Counter { ticks, control, interval, current, reload: None, stopping: 0, expired: true }
    }

    fn hertz(&self) -> u64 {
        let source = match self.control >> 2 & 3 {
            0 => 32_768,
            1 => 24_000_000,
            _ => panic!("no source of a timer that is known"),
        };
        source >> (self.control >> 4 & 7)
    }

    fn run(&mut self, now: u64, broken: bool) {
        let mut ticks = self.ticks.new_at(now, self.hertz());
        while ticks > 0 {
            let mut part = ticks;
            if self.stopping > 0 {
                part = part.min(self.stopping);
            }
            if let Some(reload) = self.reload {
                part = part.min(reload);
            }
            ticks -= part;
            if !broken && self.reload.is_none() && (self.control & ENABLE != 0 || self.stopping > 0) {
                self.count(part);
            }
            self.stopping = self.stopping.saturating_sub(part);
            self.reload = self.reload.map(|reload| reload - part);
            if self.reload == Some(0) {
                self.reload = None;
                self.control &= !RELOAD;
                self.current = if broken { self.current } else { self.interval };
            }
        }
    }

    fn count(&mut self, ticks: u64) {
        let current = u64::from(self.current);
        if ticks < current {
            self.current = (current - ticks) as u32;
            return;
        }
        if self.control & SINGLE != 0 {
            self.expired |= current != 0;
            self.control &= !ENABLE;
            self.current = 0;
            return;
        }
        self.expired = true;
        let round = u64::from(self.interval) + 1;
        self.current = match (ticks - current) % round {
            0 => 0,
            behind => (round - behind) as u32,
        };
    }

    fn write(&mut self, register: u32, value: u32) {
        match register {
            0x0 => {
                assert_eq!(value & !0xff, 0, "timer control: reserved bits");
                assert!(
                    value & ENABLE == 0 || self.control & ENABLE != 0 || self.stopping == 0,
                    "a timer is started less than two of its ticks after it was stopped"
                );
                // The bit is not to be written again before it has cleared itself.
                assert!(value & self.control & RELOAD == 0, "a timer is to reload while it reloads");
                if self.control & !value & ENABLE != 0 {
                    self.stopping = NOTICE;
                }
                if value & RELOAD != 0 {
                    self.reload = Some(NOTICE);
                }
                self.control = value;
            }
            0x4 => {
                // 1.9.3.3: it can be modified while the timer pauses.
                let counts = self.control & ENABLE != 0 || self.stopping > 0;
                assert!(!counts, "a timer's interval is written while it counts");
                self.interval = value;
            }
            _ => panic!("timer register {register:#x} is written"),
        }
    }
}

/// Timers 0 and 1.
pub struct Timers {
    lines: Lines,
    enabled: u32,
    counters: [Counter; 2],
    /// They stand still.
    pub broken: bool,
}

impl Timers {
    /// As something else has left them: both run, at different speeds, and have expired.
    #[must_use]
    pub fn left(lines: &Lines) -> Self {
        let first = Counter::left(ENABLE | 1 << 2 | 4 << 4, u32::MAX, 0x4321);
        let second = Counter::left(ENABLE, 0xffff, 0x1234);
        Timers { lines: lines.clone(), enabled: 3, counters: [first, second], broken: false }
    }

    /// Sets timer 1 as if it had counted down to there.
    pub fn set_current(&mut self, current: u32) {
        self.run(bus::now());
        self.counters[1].current = current;
    }

    /// Timers whose interrupts are enabled.
    #[must_use]
    pub fn enabled(&self) -> u32 {
        self.enabled
    }
}

impl Model for Timers {
    fn run(&mut self, now: u64) {
        self.counters.iter_mut().for_each(|counter| counter.run(now, self.broken));
        for (counter, n) in self.counters.iter().zip(0..) {
            set_line(&self.lines, TIMER0 + n, counter.expired && self.enabled >> n & 1 != 0);
        }
    }

    fn read(&mut self, offset: u32) -> Option<u32> {
        self.run(bus::now());
        Some(match offset {
            0x10 => self.counters[0].control,
            0x20 => self.counters[1].control,
            0x18 => self.counters[0].current,
            0x28 => self.counters[1].current,
            _ => panic!("timer register {offset:#x} is read"),
        })
    }

    fn write(&mut self, offset: u32, value: u32) {
        self.run(bus::now());
        match offset {
            // Six timers, and the watchdog.
            0x00 | 0x04 => {
                assert_eq!(value & !0x13f, 0, "timer interrupts: reserved bits");
                if offset == 0 {
                    self.enabled = value;
                } else {
                    for (counter, n) in self.counters.iter_mut().zip(0..) {
                        counter.expired &= value >> n & 1 == 0;
                    }
                }
            }
            0x10..0x30 => self.counters[offset as usize / 0x10 - 1].write(offset % 0x10, value),
            _ => panic!("timer register {offset:#x} is written"),
        }
        self.run(bus::now());
    }
}
