//! UARTs at 115,200 baud, written from their manuals, as far as Spica's drivers use them: a byte takes its time on the
//! wire, and a byte for a full transmitter is a panic.

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

/// A 16550A, or a 16450 without FIFOs, with registers that are words.
#[derive(Default)]
pub struct Uart16550 {
    wire: Wire,
    /// Bytes of the FIFO; 1: there is none.
    pub depth: usize,
    fifos: bool,
    enabled: u32,
    /// The transmitter became empty, and nobody has seen it.
    pending: bool,
    /// What was received.
    pub received: VecDeque<u8>,
}

impl Uart16550 {
    /// With a FIFO of so many bytes, which the boot loader left off, and interrupts that it left on.
    #[must_use]
    pub fn new(depth: usize) -> Self {
        Uart16550 { depth, enabled: 0x82, ..Uart16550::default() }
    }

    /// What went out.
    #[must_use]
    pub fn sent(&self) -> &[u8] {
        &self.wire.sent
    }

    /// Whether the line is raised.
    #[must_use]
    pub fn raised(&self) -> bool {
        self.enabled & 1 != 0 && !self.received.is_empty() || self.enabled & 2 != 0 && self.pending
    }
}

impl Model for Uart16550 {
    fn run(&mut self, now: u64) {
        let before = self.wire.fifo.len();
        self.wire.run(now);
        self.pending |= before != 0 && self.wire.fifo.is_empty();
    }

    fn read(&mut self, offset: u32) -> Option<u32> {
        self.run(bus::now());
        Some(match offset / 4 {
            0 => self.received.pop_front().unwrap_or(0).into(),
            2 => {
                let fifos = if self.fifos { 0xc0 } else { 0 };
                let received = self.enabled & 1 != 0 && !self.received.is_empty();
                let transmit = !received && self.enabled & 2 != 0 && self.pending;
                self.pending &= !transmit;
                fifos
                    | match (received, transmit) {
                        (true, _) => 4,
                        (_, true) => 2,
                        _ => 1,
                    }
            }
            // Transmitter empty, and with PTIME on, what is not full is called so, too.
            5 => {
                let empty = self.wire.fifo.is_empty() || self.enabled & 0x80 != 0 && self.wire.fifo.len() < self.depth;
                u32::from(!self.received.is_empty()) | u32::from(empty) << 5
            }
            register => panic!("UART register {register} is read"),
        })
    }

    fn write(&mut self, offset: u32, value: u32) {
        self.run(bus::now());
        match offset / 4 {
            0 => {
                let depth = if self.fifos { self.depth } else { 1 };
                self.wire.push(value as u8, depth);
                self.pending = false;
            }
            1 => {
                self.pending |= value & !self.enabled & 2 != 0 && self.wire.fifo.is_empty();
                self.enabled = value;
            }
            2 => {
                assert_eq!(value & 6, 0, "what was sent and received is thrown away");
                self.fifos = value & 1 != 0 && self.depth > 1;
            }
            4 => {}
            register => panic!("UART register {register} is written"),
        }
    }
}

/// A PL011 with FIFOs of 16 bytes, on, and the transmit interrupt at half of that.
#[derive(Default)]
pub struct Pl011 {
    wire: Wire,
    raw: u32,
    mask: u32,
}

const PL011_FIFO: usize = 16;
const PL011_TRANSMIT: u32 = 1 << 5;

impl Pl011 {
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
}

impl Model for Pl011 {
    fn run(&mut self, now: u64) {
        let before = self.wire.fifo.len();
        self.wire.run(now);
        if before > PL011_FIFO / 2 && self.wire.fifo.len() <= PL011_FIFO / 2 {
            self.raw |= PL011_TRANSMIT;
        }
    }

    fn read(&mut self, offset: u32) -> Option<u32> {
        self.run(bus::now());
        Some(match offset {
            0x18 => 1 << 4 | u32::from(self.wire.fifo.len() == PL011_FIFO) << 5,
            0x30 => 0x301,
            0x38 => self.mask,
            _ => panic!("UART register {offset:#x} is read"),
        })
    }

    fn write(&mut self, offset: u32, value: u32) {
        self.run(bus::now());
        match offset {
            0x00 => {
                self.wire.push(value as u8, PL011_FIFO);
                if self.wire.fifo.len() > PL011_FIFO / 2 {
                    self.raw &= !PL011_TRANSMIT;
                }
            }
            0x38 => self.mask = value,
            _ => panic!("UART register {offset:#x} is written"),
        }
    }
}
