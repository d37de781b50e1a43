//! A UART (TRM, chapter 19) at 115200 baud: FIFOs of 64 bytes, an interrupt after eight bytes or a pause, and one while
//! the FIFO has room for eight bytes, or only when all is sent.

use std::collections::VecDeque;
use std::vec::Vec;

use super::{Lines, set_line};
use crate::models::bus::{self, Model};

/// Nanoseconds that a byte takes on the wire.
const BYTE: u64 = 86_806;
const FIFO: usize = 64;

/// See the module's text.
pub struct Uart {
    lines: Lines,
    line: u32,
    received: VecDeque<u8>,
    last: u64,
    time_out: bool,
    sending: Vec<u64>,
    enabled: u32,
    /// SCR.
    supplementary: u32,
    line_control: u32,
    /// MDR1.
    pub mode: u32,
    /// What was sent.
    pub sent: Vec<u8>,
}

impl Uart {
    /// As U-Boot leaves it; the divisor latch open, and transmit interrupts enabled, as something else might have.
    pub(super) fn new(lines: &Lines, line: u32) -> Self {
        Uart {
            lines: lines.clone(),
            line,
            received: VecDeque::new(),
            last: 0,
            time_out: false,
            sending: Vec::new(),
            enabled: 2,
            supplementary: 0,
            line_control: 0x83,
            mode: 0,
            sent: Vec::new(),
        }
    }

    /// Bytes come in, all at once.
    pub fn receive(&mut self, bytes: &[u8]) {
        self.received.extend(bytes);
        assert!(self.received.len() <= FIFO, "overrun");
        self.last = bus::now();
    }

    /// The interrupt of a pause is raised after its bytes were taken.
    pub fn raise_late(&mut self) {
        self.time_out = true;
    }
}

impl Model for Uart {
    fn run(&mut self, now: u64) {
        self.time_out |= !self.received.is_empty() && now > self.last + 4 * BYTE;
        self.sending.retain(|&end| end > now);
        let received = self.received.len() >= 8 || self.time_out;
        let most = if self.supplementary & 8 != 0 { 0 } else { FIFO - 8 };
        let raised = self.enabled & 1 != 0 && received || self.enabled & 2 != 0 && self.sending.len() <= most;
        set_line(&self.lines, self.line, raised);
    }

    fn read(&mut self, offset: u32) -> Option<u32> {
        let value = match offset {
            0x00 => {
                assert_eq!(self.line_control & 0x80, 0, "that is the baud rate");
                let byte = self.received.pop_front();
                // A pause that was seen is over with the read, also with one that is answered with an abort.
                self.time_out = false;
                self.last = bus::now();
                u32::from(byte?)
            }
            0x08 if self.time_out && self.enabled & 1 != 0 => 0xcc,
            0x08 if self.received.len() >= 8 && self.enabled & 1 != 0 => 0xc4,
            0x08 => 0xc1,
            0x0c => self.line_control,
            0x14 => u32::from(!self.received.is_empty()) | u32::from(self.sending.is_empty()) << 5,
            0x20 => self.mode,
            0x40 => self.supplementary,
            _ => panic!("UART register {offset:#x} is read"),
        };
        self.run(bus::now());
        Some(value)
    }

    fn write(&mut self, offset: u32, value: u32) {
        match offset {
            0x00 => {
                assert_eq!(self.line_control & 0x80, 0, "that is the baud rate");
                assert!(self.sending.len() < FIFO, "external abort: the FIFO is full");
                let begins = self.sending.last().copied().unwrap_or(0).max(bus::now());
                self.sending.push(begins + BYTE);
                self.sent.push(value as u8);
            }
            0x04 => {
                assert_eq!(self.line_control & 0x80, 0, "that is the baud rate");
                self.enabled = value;
            }
            0x0c => self.line_control = value,
            0x40 => self.supplementary = value,
            0x54 => assert_eq!(value & 0x1b, 0x08, "no reset, no idling"),
            _ => panic!("UART register {offset:#x} is written"),
        }
        self.run(bus::now());
    }
}
