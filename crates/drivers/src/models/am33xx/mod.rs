//! An AM335x, as far as Spica uses it: models of its devices, written from the manual (AM335x TRM, SPRUH73), which know
//! what software must not do and panic if it does.

mod control;
mod intc;
mod timer;
mod uart;

pub use control::{ClockManager, ControlModule, Watchdog};
pub use intc::Intc;
pub use timer::Timer;
pub use uart::Uart;

use crate::models::bus::{Shared, attach};
pub use crate::models::{Lines, set_line};

/// The line of timer 2, and of UART 0 (TRM, table 6-1).
pub const TIMER2: u32 = 68;
/// See [`TIMER2`].
pub const UART0: u32 = 72;

/// The chip, as U-Boot leaves it: UART 0, timer 2 and the watchdog are on, timer 3 is off.
pub struct Chip {
    /// Clocks and modules.
    pub clocks: Shared<ClockManager>,
    /// The pins' choice of the crystal.
    pub control: Shared<ControlModule>,
    /// The interrupt controller.
    pub intc: Shared<Intc>,
    /// Timers 2 and 3.
    pub timers: [Shared<Timer>; 2],
    /// UART 0.
    pub uart: Shared<Uart>,
    /// Watchdog 1.
    pub watchdog: Shared<Watchdog>,
    /// The interrupt lines.
    pub lines: Lines,
}

impl Chip {
    /// Puts all devices on the bus, at their addresses (TRM, table 2-1 to 2-3).
    #[must_use]
    pub fn new() -> Self {
        let lines = Lines::default();
        let clocks = attach(0x44e0_0000, 0x2000, ClockManager::new());
        let timer = |at, gate, select, line| attach(at, 0x400, Timer::new(&clocks, gate, select, &lines, line));
        let timers = [timer(0x4804_0000, 0x80, 0x508, TIMER2), timer(0x4804_2000, 0x84, 0x50c, 69)];
        Chip {
            timers,
            control: attach(0x44e1_0000, 0x800, ControlModule { sysboot: 1 }),
            uart: attach(0x44e0_9000, 0x1000, Uart::new(&lines, UART0)),
            watchdog: attach(0x44e3_5000, 0x1000, Watchdog::new(&clocks, 0x4d4)),
            // Last: it looks at what the others raise.
            intc: attach(0x4820_0000, 0x1000, Intc::new(&lines)),
            clocks,
            lines,
        }
    }
}

impl Default for Chip {
    fn default() -> Self {
        Chip::new()
    }
}
