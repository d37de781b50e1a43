//! A Generic Interrupt Controller as one core sees it, in one security state: of architecture version 2 (IHI 0048B,
//! whose sections are cited), or of version 1, as in a Cortex-A9 MPCore (DDI 0407, chapter 3). What is UNPREDICTABLE is
//! a panic, and so is a register that is reserved in the version.
//!
//! It is found as something else has left it: everything on, of all priorities, for another core and, where that can be
//! chosen, edge-triggered; with two interrupts that were acknowledged, one within the other, and never ended.

use std::vec;
use std::vec::Vec;

use crate::models::bus::{self, Model, Shared};

/// What kind of GIC.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// 1 or 2.
    pub version: u32,
    /// How many cores there are. The one that drives it is the last.
    pub cores: u32,
    /// Interrupts, in steps of 32 up to 1020.
    pub lines: u32,
    /// Accesses are secure; else all interrupts are of group 1, which alone can be seen (4.3.4).
    pub secure: bool,
}

/// Bits of a priority: 32 levels.
const PRIORITY_BITS: u8 = 0xf8;
/// The lower half of the priorities is what the non-secure state has (4.3.11).
const NON_SECURE: u8 = 0x80;
/// What is acknowledged when nothing can be (4.4.4).
const SPURIOUS: u32 = 1023;
/// GICC_CTLR: EOIR lowers the running priority and no more (4.4.1).
const EOI_MODE: u32 = 1 << 9;

/// See the module's text.
pub struct Gic {
    shape: Shape,
    forwarding: bool,
    enabled: Vec<bool>,
    /// The inputs.
    raised: Vec<bool>,
    /// Pending, whatever the input is now: an edge came.
    latched: Vec<bool>,
    active: Vec<bool>,
    edge: Vec<bool>,
    priority: Vec<u8>,
    targets: Vec<u8>,
    /// For each software-generated interrupt, the cores that have sent it.
    sent: [u8; 16],
    control: u32,
    mask: u8,
    /// What was acknowledged and not ended, with its priority: the last one runs.
    running: Vec<(u32, u8)>,
}

struct Distributor(Shared<Gic>);
struct CpuInterface(Shared<Gic>);

/// Puts a GIC on the bus, and connects its two register files.
pub fn attach(distributor: u32, cpu_interface: u32, shape: Shape) -> Shared<Gic> {
    let gic = Shared::new(Gic::left(shape).into());
    bus::attach(distributor, 0x1000, Distributor(gic.clone()));
    bus::attach(cpu_interface, 0x100, CpuInterface(gic.clone()));
    gic
}

impl Gic {
    fn left(shape: Shape) -> Self {
        let all = |value: fn(u32) -> bool| -> Vec<bool> { (0..shape.lines).map(value).collect() };
        let base = if shape.secure { 0 } else { NON_SECURE };
        let mut gic = Gic {
            shape,
            forwarding: true,
            enabled: all(|_| true),
            raised: all(|_| false),
            latched: all(|line| line % 5 == 2 && line >= 32),
            active: all(|_| false),
            edge: all(|line| line % 3 == 0 && line >= 32),
            priority: (0..shape.lines).map(|line| base + (line % 4) as u8 * 0x20).collect(),
            targets: vec![1; shape.lines as usize],
            sent: [0; 16],
            control: if shape.version == 2 { 1 | EOI_MODE } else { 1 },
            mask: base | 0x10,
            running: Vec::new(),
        };
        for line in [43, 41] {
            gic.active[line as usize] = true;
            gic.running.push((line, gic.priority[line as usize]));
        }
        gic
    }

    /// Raises or lowers the input of an interrupt.
    pub fn set_line(&mut self, line: u32, raised: bool) {
        let line = line as usize;
        self.latched[line] |= raised && !self.raised[line];
        self.raised[line] = raised;
    }

    /// A core sends this one a software-generated interrupt.
    pub fn send(&mut self, line: u32, from: u32) {
        self.sent[line as usize] |= 1 << from;
    }

    /// Secure firmware keeps interrupts of the non-secure state's priorities back.
    pub fn hold_back(&mut self) {
        self.mask = NON_SECURE / 2;
    }

    /// The output to the core.
    #[must_use]
    pub fn irq(&self) -> bool {
        self.most_urgent().is_some()
    }

    /// Whether an interrupt may come.
    #[must_use]
    pub fn is_enabled(&self, line: u32) -> bool {
        // Those of software always can, on a Cortex-A9; elsewhere it depends (4.3.5).
        line < 16 || self.enabled[line as usize]
    }

    /// Whether an interrupt follows its input, goes to this core, and has no other priority than the others that do.
    #[must_use]
    pub fn is_plain(&self, line: u32) -> bool {
        let at = line as usize;
        (line < 32 || !self.edge[at] && self.is_for_us(line)) && self.priority[at] == self.priority[32]
    }

    /// How many interrupts were acknowledged and not ended.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.running.len()
    }

    fn is_for_us(&self, line: u32) -> bool {
        line < 32 || self.shape.cores == 1 || self.targets[line as usize] == self.us()
    }

    /// This core, as a target.
    fn us(&self) -> u8 {
        1 << (self.shape.cores - 1)
    }

    fn is_pending(&self, line: u32) -> bool {
        let at = line as usize;
        match line {
            0..16 => self.sent[at] != 0,
            _ if self.edge[at] => self.latched[at],
            _ => self.raised[at],
        }
    }

    fn running_priority(&self) -> u8 {
        self.running.last().map_or(0xff, |&(_, priority)| priority)
    }

    /// The interrupt that is signalled (3.3): pending, enabled and not active, the lowest number among those of the
    /// highest priority, if that is above the mask and above what runs.
    fn most_urgent(&self) -> Option<u32> {
        if !self.forwarding || self.control & 1 == 0 {
            return None;
        }
        let at = |line: u32| line as usize;
        (0..self.shape.lines)
            .filter(|&line| self.is_pending(line) && self.is_enabled(line) && !self.active[at(line)])
            .filter(|&line| self.is_for_us(line))
            .min_by_key(|&line| self.priority[at(line)])
            .filter(|&line| self.priority[at(line)] < self.mask.min(self.running_priority()))
    }

    /// GICC_IAR is read (4.4.4).
    fn acknowledge(&mut self) -> u32 {
        let Some(line) = self.most_urgent() else {
            return SPURIOUS;
        };
        let at = line as usize;
        let mut value = line;
        if line < 16 {
            let from = self.sent[at].trailing_zeros();
            self.sent[at] &= !(1 << from);
            value |= from << 10;
        }
        self.latched[at] = false;
        self.active[at] = true;
        self.running.push((value, self.priority[at]));
        value
    }

    /// GICC_EOIR is written (4.4.5).
    fn end(&mut self, value: u32) {
        assert!(!bus::unordered(), "GICC_EOIR overtakes what was written to devices");
        let Some((running, _)) = self.running.pop() else {
            panic!("GICC_EOIR: {value:#x} is ended, and nothing is active");
        };
        assert_eq!(value, running, "GICC_EOIR: not what was acknowledged last");
        if self.control & EOI_MODE == 0 {
            self.active[value as usize & 0x3ff] = false;
        }
    }

    /// A priority as it is kept, and as it is shown to this state (4.3.11).
    fn priority_of(&self, value: u8) -> u8 {
        if self.shape.secure { value & PRIORITY_BITS } else { NON_SECURE | value >> 1 & PRIORITY_BITS }
    }

    fn shown(&self, priority: u8) -> u8 {
        match (self.shape.secure, priority) {
            (true, _) => priority,
            (false, 0..NON_SECURE) => 0,
            (false, _) => priority << 1,
        }
    }

    /// The interrupts of a register that has so many for each of its words. Registers of interrupts that there are not
    /// are reserved.
    fn of_word(&self, offset: u32, each: u32) -> std::ops::Range<u32> {
        let first = offset / 4 * each;
        assert!(first < self.shape.lines, "GIC: a register of interrupts {first} and on, which there are not");
        first..(first + each).min(self.shape.lines)
    }

    fn bits(&self, offset: u32, bit: impl Fn(u32) -> bool) -> u32 {
        self.of_word(offset, 32).fold(0, |all, line| all | u32::from(bit(line)) << (line % 32))
    }

    fn bytes(&self, offset: u32, byte: impl Fn(u32) -> u8) -> u32 {
        self.of_word(offset, 4).fold(0, |all, line| all | u32::from(byte(line)) << (line % 4 * 8))
    }

    fn read_distributor(&self, offset: u32) -> u32 {
        match offset {
            0x000 => self.forwarding.into(),
            0x004 => (self.shape.lines.div_ceil(32) - 1) | ((self.shape.cores - 1) << 5),
            0x300..0x380 => self.bits(offset - 0x300, |line| self.active[line as usize]),
            0x400..0x7fc => self.bytes(offset - 0x400, |line| self.shown(self.priority[line as usize])),
            // Those of the private interrupts tell this core; with one core, there are no targets (4.3.12).
            0x800..0xbfc if self.shape.cores == 1 => 0,
            0x800..0x820 => u32::from(self.us()) * 0x0101_0101,
            0x820..0xbfc => self.bytes(offset - 0x800, |line| self.targets[line as usize]),
            _ => panic!("GICD register {offset:#x} is read"),
        }
    }

    fn write_distributor(&mut self, offset: u32, value: u32) {
        let set = |line: u32| value >> (line % 32) & 1 != 0;
        let byte = |line: u32| (value >> (line % 4 * 8)) as u8;
        match offset {
            0x000 => {
                assert_eq!(value & !3, 0, "GICD_CTLR: reserved bits");
                self.forwarding = value & 1 != 0;
            }
            0x100..0x180 => {
                for line in self.of_word(offset - 0x100, 32).filter(|&line| set(line)) {
                    self.enabled[line as usize] = true;
                }
            }
            0x180..0x200 => {
                for line in self.of_word(offset - 0x180, 32).filter(|&line| set(line)) {
                    self.enabled[line as usize] = false;
                }
            }
            // Those of software, and what an input holds up, stay (4.3.8).
            0x280..0x300 => {
                for line in self.of_word(offset - 0x280, 32).filter(|&line| set(line)) {
                    self.latched[line as usize] = false;
                }
            }
            // The running priority stays as it is (4.3.10, 3.2.1). In version 1, this is reserved.
            0x380..0x400 if self.shape.version >= 2 => {
                for line in self.of_word(offset - 0x380, 32).filter(|&line| set(line)) {
                    self.active[line as usize] = false;
                }
            }
            0x400..0x7fc => {
                for line in self.of_word(offset - 0x400, 4) {
                    self.priority[line as usize] = self.priority_of(byte(line));
                }
            }
            0x820..0xbfc => {
                for line in self.of_word(offset - 0x800, 4) {
                    self.targets[line as usize] = byte(line);
                }
            }
            0xc08..0xd00 => {
                for line in self.of_word(offset - 0xc00, 16) {
                    let edge = value >> (line % 16 * 2) & 2 != 0;
                    let changes = edge != self.edge[line as usize];
                    assert!(!changes || !self.is_enabled(line), "GICD_ICFGR: {line} is enabled (4.3.13)");
                    self.edge[line as usize] = edge;
                }
            }
            _ => panic!("GICD register {offset:#x} is written"),
        }
    }

    fn read_cpu_interface(&mut self, offset: u32) -> u32 {
        match offset {
            0x04 => self.shown(self.mask).into(),
            0x0c => self.acknowledge(),
            0x14 if self.running.is_empty() => 0xff,
            0x14 => self.shown(self.running_priority()).into(),
            // GICC_HPPIR: what would be acknowledged.
            0x18 => self.most_urgent().unwrap_or(SPURIOUS),
            0xfc => self.shape.version << 16 | 0x43b,
            _ => panic!("GICC register {offset:#x} is read"),
        }
    }

    fn write_cpu_interface(&mut self, offset: u32, value: u32) {
        match offset {
            0x00 => {
                assert!(self.shape.version >= 2 || value & !0x1f == 0, "GICC_CTLR: reserved bits");
                self.control = value;
            }
            // The non-secure state cannot raise a mask of the secure one's (4.4.2).
            0x04 if !self.shape.secure && self.mask < NON_SECURE => {}
            0x04 => self.mask = self.priority_of(value as u8),
            0x10 => self.end(value),
            _ => panic!("GICC register {offset:#x} is written"),
        }
    }
}

impl Model for Distributor {
    fn read(&mut self, offset: u32) -> Option<u32> {
        Some(self.0.borrow().read_distributor(offset))
    }

    fn write(&mut self, offset: u32, value: u32) {
        self.0.borrow_mut().write_distributor(offset, value);
    }
}

impl Model for CpuInterface {
    fn read(&mut self, offset: u32) -> Option<u32> {
        Some(self.0.borrow_mut().read_cpu_interface(offset))
    }

    fn write(&mut self, offset: u32, value: u32) {
        self.0.borrow_mut().write_cpu_interface(offset, value);
    }
}
