//! UARTs at 115,200 baud, written from their manuals, as far as Spica's drivers use them: a byte takes its time on the
//! wire, and a byte for a full transmitter is a panic. So is one that comes in and finds no room.

use std::collections::VecDeque;
use std::vec::Vec;

use crate::models::bus::{self, Model};

/// Nanoseconds that a byte takes on the wire.
pub const BYTE: u64 = 86_806;

/// A transmitter with its FIFO, and what went out.
#[derive(Default)]
struct Wire {
    fifo: VecDeque<u8>,
    /// When the first byte of the FIFO is out.
    until: u64,
    sent: Vec<u8>,
}

impl Wire {
    fn run(&mut self, now: u64) {
        while self.until <= now
            && let Some(byte) = self.fifo.pop_front()
        {
            self.sent.push(byte);
            self.until += BYTE;
        }
    }

    fn push(&mut self, byte: u8, depth: usize) {
        assert!(self.fifo.len() < depth, "a byte is lost");
        if self.fifo.is_empty() {
            self.until = bus::now() + BYTE;
        }
        self.fifo.push_back(byte);
    }
}

/// A 16550A, or a 16450 without FIFOs (PC16550D data sheet, whose sections are cited), or a DesignWare UART
/// (DW_apb_uart databook).
#[derive(Default)]
pub struct Uart16550 {
    wire: Wire,
    /// Bytes of the FIFO; 1: there is none.
    pub depth: usize,
    /// Registers are bytes, one behind the other; else they are words.
    pub narrow: bool,
    /// DesignWare: LINE_CONTROL was written while it was busy. Reading UART_STATUS ends that interrupt.
    pub busy_detect: bool,
    /// The time-out interrupt is raised, with or without a byte. Reading a byte ends it.
    time_out: bool,
    /// When the last byte came, or was read.
    last: u64,
    fifos: bool,
    /// Bytes that raise the receive interrupt (8.4).
    trigger: usize,
    enabled: u32,
    modem: u32,
    /// The transmitter became empty, and nobody has seen it.
    pending: bool,
    received: VecDeque<u8>,
}

impl Uart16550 {
    /// With a FIFO of so many bytes, which the boot loader left off, and interrupts that it left on.
    #[must_use]
    pub fn new(depth: usize) -> Self {
        Uart16550 { depth, enabled: 0x82, trigger: 1, modem: 0x10, ..Uart16550::default() }
    }

    /// What went out.
    #[must_use]
    pub fn sent(&self) -> &[u8] {
        &self.wire.sent
    }

    /// Bytes come in, all at once.
    pub fn receive(&mut self, bytes: &[u8]) {
        self.received.extend(bytes);
        assert!(self.received.len() <= if self.fifos { self.depth } else { 1 }, "overrun");
        self.last = bus::now();
    }

    /// The time-out interrupt of bytes that were read meanwhile.
    pub fn raise_late(&mut self) {
        self.time_out = true;
    }

    /// Whether it lets the other side send, and its interrupts out of the chip: DTR, RTS and OUT2, and no loop (8.7).
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.modem & 0x1f == 0b1011
    }

    /// Whether the line is raised.
    #[must_use]
    pub fn raised(&self) -> bool {
        self.interrupt() != 1
    }

    /// INTERRUPT_ID (8.5, table IV): the most urgent interrupt.
    fn interrupt(&self) -> u32 {
        let receive = self.enabled & 1 != 0;
        if receive && self.received.len() >= self.trigger {
            4
        } else if receive && self.time_out {
            0xc
        } else if self.enabled & 2 != 0 && self.pending {
            2
        } else if self.busy_detect {
            7
        } else {
            1
        }
    }
}

impl Model for Uart16550 {
    fn run(&mut self, now: u64) {
        let before = self.wire.fifo.len();
        self.wire.run(now);
        self.pending |= before != 0 && self.wire.fifo.is_empty();
        // 8.5: there is a byte, and none came or went for as long as four take.
        self.time_out |= self.fifos && !self.received.is_empty() && now > self.last + 4 * BYTE;
    }

    fn takes_bytes(&self) -> bool {
        self.narrow
    }

    fn read(&mut self, offset: u32) -> Option<u32> {
        self.run(bus::now());
        Some(match if self.narrow { offset } else { offset / 4 } {
            0 => {
                self.time_out = false;
                self.last = bus::now();
                self.received.pop_front().unwrap_or(0).into()
            }
            2 => {
                let interrupt = self.interrupt();
                self.pending &= interrupt != 2;
                interrupt | if self.fifos { 0xc0 } else { 0 }
            }
            // Transmitter empty, and with PTIME on, what is not full is called so, too.
            5 => {
                let empty = self.wire.fifo.is_empty() || self.enabled & 0x80 != 0 && self.wire.fifo.len() < self.depth;
                u32::from(!self.received.is_empty()) | u32::from(empty) << 5
            }
            31 => {
                self.busy_detect = false;
                0
            }
            register => panic!("UART register {register} is read"),
        })
    }

    fn write(&mut self, offset: u32, value: u32) {
        self.run(bus::now());
        match if self.narrow { offset } else { offset / 4 } {
            0 => {
                let depth = if self.fifos { self.depth } else { 1 };
                self.wire.push(value as u8, depth);
                self.pending = false;
            }
            1 => {
                assert_eq!(value & !3, 0, "interrupts that nobody serves");
                self.pending |= value & !self.enabled & 2 != 0 && self.wire.fifo.is_empty();
                self.enabled = value;
            }
            2 => {
                assert_eq!(value & 6, 0, "what was sent and received is thrown away");
                self.fifos = value & 1 != 0 && self.depth > 1;
                self.trigger = if self.fifos { [1, 4, 8, 14][value as usize >> 6] } else { 1 };
            }
            4 => {
                assert_eq!(value & !0x1f, 0, "MODEM_CONTROL: reserved bits");
                self.modem = value;
            }
            register => panic!("UART register {register} is written"),
        }
    }
}

/// A PL011 (DDI 0183, whose sections are cited) with FIFOs of 16 bytes, or without, and interrupts when they are half
/// full and half empty.
pub struct Pl011 {
    wire: Wire,
    received: VecDeque<u8>,
    /// When the last byte came.
    last: u64,
    /// The time-out of the bytes that are there was raised already, or taken back by hand.
    told: bool,
    fifos: bool,
    control: u32,
    raw: u32,
    mask: u32,
}

const PL011_RECEIVE: u32 = 1 << 4;
const PL011_TRANSMIT: u32 = 1 << 5;
const PL011_TIME_OUT: u32 = 1 << 6;
/// All interrupts that there are.
const PL011_ALL: u32 = 0x7ff;
/// CONTROL: the UART, its transmitter, its receiver.
const PL011_ENABLED: u32 = 0x301;

impl Pl011 {
    /// As a boot loader leaves it that has used it: it is on.
    #[must_use]
    pub fn new(fifos: bool) -> Self {
        Pl011 {
            wire: Wire::default(),
            received: VecDeque::new(),
            last: 0,
            told: false,
            fifos,
            control: PL011_ENABLED,
            raw: 0,
            mask: PL011_ALL,
        }
    }

    /// As a boot loader leaves it that has only sent.
    #[must_use]
    pub fn deaf() -> Self {
        Pl011 { control: 0x101, ..Pl011::new(true) }
    }

    /// What went out.
    #[must_use]
    pub fn sent(&self) -> &[u8] {
        &self.wire.sent
    }

    /// Whether the line is raised.
    #[must_use]
    pub fn raised(&self) -> bool {
        self.raw & self.mask != 0
    }

    /// The interrupts that are not masked.
    #[must_use]
    pub fn mask(&self) -> u32 {
        self.mask
    }

    /// The boot loader's last words, which are on their way.
    pub fn send(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.wire.push(byte, self.depth());
        }
    }

    /// Bytes come in, all at once.
    pub fn receive(&mut self, bytes: &[u8]) {
        self.run(bus::now());
        assert_eq!(self.control & PL011_ENABLED, PL011_ENABLED, "the receiver is off");
        let before = self.received.len();
        self.received.extend(bytes);
        assert!(self.received.len() <= self.depth(), "overrun");
        // UARTRXINTR (2.8): the step to the mark, not being above it.
        if before < self.mark() && self.received.len() >= self.mark() {
            self.raw |= PL011_RECEIVE;
        }
        (self.last, self.told) = (bus::now(), false);
    }

    /// Receive interrupts are raised of bytes that were read meanwhile.
    pub fn raise_late(&mut self) {
        self.raw |= PL011_RECEIVE | PL011_TIME_OUT;
    }

    fn depth(&self) -> usize {
        if self.fifos { 16 } else { 1 }
    }

    /// Bytes at which the receive interrupt is raised.
    fn mark(&self) -> usize {
        if self.fifos { 8 } else { 1 }
    }

    fn wrote(&mut self) {
        // UARTTXINTR (2.8): taken back above the mark; without FIFOs, by a byte.
        if self.wire.fifo.len() > self.depth() / 2 {
            self.raw &= !PL011_TRANSMIT;
        }
    }
}

impl Default for Pl011 {
    fn default() -> Self {
        Pl011::new(true)
    }
}

impl Model for Pl011 {
    fn run(&mut self, now: u64) {
        let (before, mark) = (self.wire.fifo.len(), self.depth() / 2);
        self.wire.run(now);
        if before > mark && self.wire.fifo.len() <= mark {
            self.raw |= PL011_TRANSMIT;
        }
        // UARTRTINTR (2.8): there are bytes, and none came for as long as 32 bits take, of which a byte has ten.
        if self.fifos && !self.received.is_empty() && !self.told && now > self.last + BYTE * 32 / 10 {
            (self.raw, self.told) = (self.raw | PL011_TIME_OUT, true);
        }
    }

    fn read(&mut self, offset: u32) -> Option<u32> {
        self.run(bus::now());
        Some(match offset {
            0x00 => {
                let byte = self.received.pop_front();
                if self.received.len() < self.mark() {
                    self.raw &= !PL011_RECEIVE;
                }
                if byte.is_some() && self.received.is_empty() {
                    self.raw &= !PL011_TIME_OUT;
                }
                let Some(byte) = byte else { panic!("a byte is read where there is none") };
                byte.into()
            }
            0x18 => {
                let busy = !self.wire.fifo.is_empty();
                let full = self.wire.fifo.len() == self.depth();
                u32::from(busy) << 3 | u32::from(self.received.is_empty()) << 4 | u32::from(full) << 5
            }
            0x30 => self.control,
            0x38 => self.mask,
            0x3c => self.raw,
            _ => panic!("UART register {offset:#x} is read"),
        })
    }

    fn write(&mut self, offset: u32, value: u32) {
        self.run(bus::now());
        match offset {
            0x00 => {
                assert_eq!(self.control & 0x101, 0x101, "the transmitter is off");
                self.wire.push(value as u8, self.depth());
                self.wrote();
            }
            0x30 => {
                assert_eq!(value & !0xff87, 0, "UARTCR: reserved bits");
                // 3.3.8: only UARTEN is to be changed while it is set, and not while a byte is on its way.
                let changed = value ^ self.control;
                assert!(self.control & 1 == 0 || changed & !1 == 0, "UARTCR is changed while the UART is on");
                assert!(self.wire.fifo.is_empty() || changed & 1 == 0, "the UART is turned off while it sends");
                self.control = value;
            }
            0x38 => {
                assert_eq!(value & !PL011_ALL, 0, "UARTIMSC: reserved bits");
                self.mask = value;
            }
            0x44 => self.raw &= !value,
            _ => panic!("UART register {offset:#x} is written"),
        }
    }
}
