//! The host board: what the device tree says there is, and drivers for the few devices that the hypervisor itself
//! needs.
//!
//! A serial port, an interrupt controller and a timer, each picked by `compatible` from the tables below: a new driver
//! is a file and a line. Virtio disks and network cards are found, and driven by `spica-virtio-driver` if guests are to
//! have them. A watchdog that would reset the board is stopped. Everything else on the board is left alone.
//!
//! What a driver needs of the machine is behind the traits of [`hardware`]: registers, a barrier, the core's own timer.
//! So the drivers themselves touch no machine, and are tested against models of their devices. They are generic, so
//! that the image's own access to a register is compiled into them.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(feature = "models")]
extern crate std;

mod am33xx_clock;
mod am33xx_intc;
mod am33xx_timer;
mod am33xx_uart;
mod am33xx_watchdog;
mod arch_timer;
pub mod error;
mod gic;
pub mod hardware;
pub mod info;
#[cfg(feature = "models")]
pub mod models;
mod pl011;
mod sp804;
mod sun4i_intc;
mod sun4i_timer;
pub mod tree;
mod uart_16550;
pub mod virtio;
pub mod wrap;

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use spica_console::SerialPort;

use error::BoardError;
use hardware::Hardware;
use tree::{Node, Tree};

/// An interrupt line, as the board's interrupt controller numbers it (on a GIC: the interrupt ID).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Line(pub u32);

/// An interrupt controller. All lines start out disabled; level-triggered devices are assumed.
pub trait InterruptController: Send {
    /// The line that an interrupt specifier of the device tree means; `None` if it is malformed.
    fn line(&self, cells: &[u32]) -> Option<Line>;
    /// Lets a line's interrupts come.
    fn enable(&mut self, line: Line);
    /// Stops a line's interrupts from coming.
    fn disable(&mut self, line: Line);
    /// The most urgent interrupt that waits; it is the caller's now, until [`end`](Self::end).
    fn acknowledge(&mut self) -> Option<Line>;
    /// The interrupt has been dealt with: its device no longer raises the line, or the line is disabled.
    fn end(&mut self, line: Line);
    /// How assembly finds out that `line` is the most urgent one that waits. If its device lowers it then, there is
    /// nothing to acknowledge, nor to end. `None` where that is not so.
    fn waiting(&self, _line: Line) -> Option<Waiting> {
        None
    }
}

/// See [`InterruptController::waiting`]: so it is if the bits `mask` of a register are `value`. To read it changes
/// nothing.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Virtual address of a register of 32 bits, valid under every table; 0 is none.
    pub address: u32,
    /// The bits that count.
    pub mask: u32,
    /// What they are.
    pub value: u32,
}

/// The host's clock and alarm.
pub trait HostTimer: Send {
    /// Ticks per second.
    fn frequency(&self) -> u32;
    /// Ticks since some moment before boot; never goes back.
    fn now(&mut self) -> u64;
    /// Raises the line at `deadline` (in ticks), at once if that has passed; replaces the deadline before. The line may
    /// be raised earlier (a counter of 32 bits has to be looked at now and then, also with no deadline): look at
    /// [`now`](Self::now), and set the deadline again.
    fn set_deadline(&mut self, deadline: Option<u64>);
    /// Lowers the line. The deadline is used up: set the next. [`Now`](Self::now), behind that.
    fn acknowledge(&mut self) -> u64;
    /// Where assembly can read the clock itself; `None` where the clock is a system register (CNTVCT).
    fn counter(&self) -> Option<Counter>;
    /// How assembly can set a deadline itself; `None` where it cannot.
    fn alarm(&self) -> Option<Alarm> {
        None
    }
}

/// A one-shot timer in registers: what [`HostTimer::set_deadline`] does. Beside the clock of [`Counter`], by which it
/// runs. `stop` is written to `control`; once the clock has taken `pause` ticks, the ticks to the deadline to
/// `interval`, at least 1 and at most 2^31; then `start` to `control`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alarm {
    /// Virtual address of a register of 32 bits, valid under every table.
    pub control: u32,
    /// The same.
    pub interval: u32,
    /// What stops the timer.
    pub stop: u32,
    /// What starts it.
    pub start: u32,
    /// Ticks of the clock from stop to start.
    pub pause: u32,
    /// As `control`: of the register to which `lower` is written to lower the line, once the deadline has come.
    pub status: u32,
    /// See there.
    pub lower: u32,
    /// Bits of `control` that are 0 then, if the timer has come to a stop by itself: it is set again without `stop` and
    /// `pause`. 0 where it is to be stopped all the same, and `pause` is none.
    pub running: u32,
}

/// A clock in a register: the low 32 bits of [`HostTimer::now`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counter {
    /// Virtual address of the 32-bit register, valid under every table.
    pub address: u32,
    /// The register counts down: the clock is its complement.
    pub down: bool,
}

/// How often a register is read at most until a device has done what it was told: a tenth of a second and more, on any
/// board.
const PATIENCE: u32 = 1_000_000;

/// Whether a counter takes so many steps.
fn takes_steps(steps: u32, count: impl Fn() -> u32) -> bool {
    let mut last = count();
    (0..steps).all(|_| {
        (0..PATIENCE).any(|_| {
            let before = last;
            last = count();
            last != before
        })
    })
}

/// Registers of a device: the `index`th `reg` entry of its node.
#[inline(never)]
fn map<H: Hardware>(node: &Node<'_>, index: usize) -> Result<H::Registers, BoardError> {
    let (pa, len) = node.reg(index)?;
    H::map(pa, len).map_err(|error| node.error("reg", format!("{error}")))
}

type ProbeSerial = fn(&Node<'_>) -> Result<Box<dyn SerialPort>, BoardError>;
type ProbeController = fn(&Node<'_>) -> Result<Box<dyn InterruptController>, BoardError>;
type StopWatchdog = fn(Tree<'_>, &Node<'_>) -> Result<(), BoardError>;
type ProbeTimer = fn(Tree<'_>, &Node<'_>) -> Result<Box<dyn HostTimer>, BoardError>;

/// A device that was found: its driver, what it is, and its interrupt.
pub struct Found<T: ?Sized> {
    /// The driver.
    pub driver: Box<T>,
    /// The `compatible` string by which it was chosen.
    pub compatible: &'static str,
    /// Path of its node.
    pub node: String,
}

/// The devices that the hypervisor uses, besides the console.
pub struct Board<H: Hardware> {
    /// The interrupt controller.
    pub interrupts: Found<dyn InterruptController>,
    /// Clock and alarm.
    pub timer: Found<dyn HostTimer>,
    /// The timer's interrupt.
    pub timer_line: Line,
    /// The console's interrupt, where the device tree tells it.
    pub console_line: Option<Line>,
    /// Disks and network cards that nobody drives so far.
    pub virtio: Vec<virtio::Device<H::Registers>>,
    /// What is not as it should be, and Spica goes on without: sentences for people, without an end.
    pub warnings: Vec<String>,
}

fn matching<'t, T>(node: &Node<'_>, table: &'t [T], name: impl Fn(&T) -> &'static str) -> Option<&'t T> {
    table.iter().find(|entry| node.is(name(entry)))
}

/// The serial port that `/chosen/stdout-path` names, else the first for which there is a driver.
///
/// # Errors
/// If there is none, or its description does not make sense.
#[inline(never)]
pub fn find_serial<H: Hardware>(tree: Tree<'_>) -> Result<Found<dyn SerialPort>, BoardError> {
    let driver = |node: &Node<'_>| matching(node, Board::<H>::SERIAL_PORTS, |entry| entry.0);
    let named = tree
        .at("/chosen")
        .and_then(|chosen| chosen.string("stdout-path").or_else(|| chosen.string("linux,stdout-path")))
        // Behind a colon are the line settings, which are the boot loader's business.
        .and_then(|path| tree.at(path.split(':').next().unwrap_or(path)))
        .filter(|node| driver(node).is_some());
    let node = named
        .or_else(|| tree.find(|node| node.is_enabled() && driver(node).is_some()))
        .ok_or_else(|| missing("serial port", Board::<H>::SERIAL_PORTS.iter().map(|entry| entry.0)))?;
    let Some(&(compatible, probe)) = driver(&node) else {
        return Err(node.error("compatible", "no driver"));
    };
    Ok(Found { driver: probe(&node)?, compatible, node: node.path() })
}

impl<H: Hardware> Board<H> {
    /// Serial ports by `compatible`.
    const SERIAL_PORTS: &'static [(&'static str, ProbeSerial)] = &[
        ("snps,dw-apb-uart", uart_16550::probe::<H>),
        ("ns16550a", uart_16550::probe::<H>),
        ("arm,pl011", pl011::probe::<H>),
        ("ti,am3352-uart", am33xx_uart::probe::<H>),
    ];

    /// Interrupt controllers by `compatible`.
    const CONTROLLERS: &'static [(&'static str, ProbeController)] = &[
        ("allwinner,sun4i-a10-ic", sun4i_intc::probe::<H>),
        ("arm,cortex-a9-gic", gic::probe::<H>),
        ("arm,cortex-a15-gic", gic::probe::<H>),
        ("arm,cortex-a7-gic", gic::probe::<H>),
        ("arm,gic-400", gic::probe::<H>),
        ("ti,am33xx-intc", am33xx_intc::probe::<H>),
    ];

    /// Timers by `compatible`, with the index of the interrupt that is used; the best first.
    const TIMERS: &'static [(&'static str, usize, ProbeTimer)] = &[
        ("arm,armv7-timer", arch_timer::INTERRUPT, |_, node| arch_timer::probe::<H>(node)),
        ("allwinner,sun4i-a10-timer", 0, |_, node| sun4i_timer::probe::<H>(node)),
        ("arm,sp804", 0, sp804::probe::<H>),
        (am33xx_timer::COMPATIBLE, 0, am33xx_timer::probe::<H>),
    ];

    /// Watchdogs by `compatible`, with what stops them.
    const WATCHDOGS: &'static [(&'static str, StopWatchdog)] = &[("ti,omap3-wdt", am33xx_watchdog::stop::<H>)];

    /// Finds and takes over interrupt controller and timer, and stops watchdogs. `console` is the path of the node
    /// whose interrupt to look up.
    ///
    /// # Errors
    /// If one is missing, or its description does not make sense.
    #[inline(never)]
    pub fn discover(tree: Tree<'_>, console: &str) -> Result<Self, BoardError> {
        stop_watchdogs(tree, Self::WATCHDOGS)?;
        let controller_driver = |node: &Node<'_>| matching(node, Self::CONTROLLERS, |entry| entry.0);
        let node = tree
            .find(|node| node.is_enabled() && controller_driver(node).is_some())
            .ok_or_else(|| missing("interrupt controller", Self::CONTROLLERS.iter().map(|entry| entry.0)))?;
        let Some(&(compatible, probe)) = controller_driver(&node) else {
            return Err(node.error("compatible", "no driver"));
        };
        let interrupts = Found { driver: probe(&node)?, compatible, node: node.path() };

        let (compatible, index, probe, node) = Self::TIMERS
            .iter()
            .find_map(|&(compatible, index, probe)| {
                let is_it = |node: &Node<'_>| node.is_enabled() && node.is(compatible);
                Some((compatible, index, probe, tree.find(is_it)?))
            })
            .ok_or_else(|| missing("timer", Self::TIMERS.iter().map(|entry| entry.0)))?;
        let timer_line = resolve(tree, &interrupts, &node, index)?;
        let timer = Found { driver: probe(tree, &node)?, compatible, node: node.path() };

        let console_line = tree.at(console).and_then(|node| resolve(tree, &interrupts, &node, 0).ok());
        let mut warnings = Vec::new();
        let virtio = virtio::find::<H>(tree, &interrupts, &mut warnings)?;
        Ok(Self { interrupts, timer, timer_line, console_line, virtio, warnings })
    }
}

#[inline(never)]
fn stop_watchdogs(tree: Tree<'_>, watchdogs: &[(&'static str, StopWatchdog)]) -> Result<(), BoardError> {
    let mut outcome = Ok(());
    tree.find(|node| {
        if node.is_enabled()
            && let Some((_, stop)) = matching(node, watchdogs, |entry| entry.0)
        {
            outcome = stop(tree, node);
        }
        outcome.is_err()
    });
    outcome
}

/// The line of a device's interrupt, which has to end at the controller that we drive.
#[inline(never)]
fn resolve(
    tree: Tree<'_>,
    controller: &Found<dyn InterruptController>,
    node: &Node<'_>,
    index: usize,
) -> Result<Line, BoardError> {
    let interrupt = tree.interrupt(node, index)?;
    if interrupt.controller != controller.node {
        let problem = format!("goes to {}, not to {}", interrupt.controller, controller.node);
        return Err(node.error("interrupts", problem));
    }
    let malformed =
        || node.error("interrupts", format!("{:x?} is no interrupt of {}", interrupt.cells, controller.compatible));
    controller.driver.line(&interrupt.cells).ok_or_else(malformed)
}

fn missing(what: &str, known: impl Iterator<Item = &'static str>) -> BoardError {
    let known: Vec<_> = known.collect();
    BoardError::new("/", "", format!("no {what} that Spica can drive: one of {} is needed", known.join(", ")))
}
