//! The console: a PL011 UART (DDI 0183), revision r1p3, with FIFOs of 16 characters.
//!
//! Reception is modelled in full: FIFO, trigger levels, timeout, overrun. A character arrives when the host delivers it
//! ([`Pl011::receive`]); there is no baud rate, so the receive timeout has "passed" as soon as a character waits below
//! the trigger level.
//!
//! Transmission is instantaneous: a written character is at once in an output queue that the host empties
//! ([`Pl011::take_output`]), so the transmit FIFO is always empty and each write raises the transmit interrupt, as a
//! FIFO that drains through its trigger level would. Only when the host falls behind is the queue's end the guest's
//! FIFO: while there is less room than a FIFO has, the transmit interrupt is low (drivers write half a FIFO at each
//! without looking whether it is full), and when there is none, the guest sees a full FIFO. It waits instead of losing
//! text. Characters go out whether or not CR enables the UART: kernels print early, trusting a boot loader that here
//! does not exist.

use crate::mmio::{Mmio, Width};
use crate::primecell;
use crate::ring::Ring;
use crate::state::{State, Unsound, check};

use serde::{Deserialize, Serialize};

const DR: u32 = 0x00;
const RSR_ECR: u32 = 0x04;
const FR: u32 = 0x18;
const ILPR: u32 = 0x20;
const IBRD: u32 = 0x24;
const FBRD: u32 = 0x28;
const LCR_H: u32 = 0x2c;
const CR: u32 = 0x30;
const IFLS: u32 = 0x34;
const IMSC: u32 = 0x38;
const RIS: u32 = 0x3c;
const MIS: u32 = 0x40;
const ICR: u32 = 0x44;
const DMACR: u32 = 0x48;

/// FR: the other side is there: clear to send, data set ready, carrier.
const FR_MODEM: u32 = 0b111;
const FR_RXFE: u32 = 1 << 4;
const FR_TXFF: u32 = 1 << 5;
const FR_RXFF: u32 = 1 << 6;
const FR_TXFE: u32 = 1 << 7;

const LCR_FEN: u32 = 1 << 4;
const CR_LBE: u32 = 1 << 7;

const INT_RX: u32 = 1 << 4;
const INT_TX: u32 = 1 << 5;
const INT_RT: u32 = 1 << 6;
const INT_BITS: u32 = 0x7ff;

/// PeriphID: part 0x011, designer ARM, revision 1, hence 16 characters in a FIFO.
const ID: [u8; 4] = [0x11, 0x10, 0x14, 0x00];

const FIFO: usize = 16;
/// How much output waits for the host before the guest has to.
const OUTPUT: usize = 1024;

/// The UART.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Pl011 {
    input: Ring<FIFO>,
    output: Ring<OUTPUT>,
    /// The output queue is nearly full, or was: the guest may wait for the transmit interrupt.
    throttled: bool,
    raw: u32,
    mask: u32,
    lcr: u32,
    cr: u32,
    ifls: u32,
    ilpr: u32,
    ibrd: u32,
    fbrd: u32,
    dmacr: u32,
}

impl Default for Pl011 {
    fn default() -> Self {
        Self::new()
    }
}

impl Pl011 {
    /// The UART after reset.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            input: Ring::new(),
            output: Ring::new(),
            throttled: false,
            raw: 0,
            mask: 0,
            lcr: 0,
            cr: 0x300,
            ifls: 0x12,
            ilpr: 0,
            ibrd: 0,
            fbrd: 0,
            dmacr: 0,
        }
    }

    /// A character comes in from the host. False if the FIFO is full: the host keeps it and tries again later, so
    /// nothing is lost and the overrun error never happens.
    #[must_use]
    pub fn receive(&mut self, byte: u8) -> bool {
        if self.input.len() >= self.depth() || !self.input.push(byte) {
            return false;
        }
        if self.input.len() >= self.trigger() {
            self.raw |= INT_RX;
        }
        self.raw |= INT_RT;
        true
    }

    /// Whether the guest has sent characters that nobody has taken.
    #[must_use]
    pub const fn has_output(&self) -> bool {
        !self.output.is_empty()
    }

    /// Hands the characters that the guest has sent to `f`, in order, at most so many.
    pub fn take_output(&mut self, most: usize, mut f: impl FnMut(u8)) {
        for _ in 0..most {
            let Some(byte) = self.output.pop() else { break };
            f(byte);
        }
        if self.throttled && self.output.len() <= OUTPUT - FIFO {
            self.throttled = false;
            self.raw |= INT_TX;
        }
    }

    /// Whether the UART's interrupt line, the combined one, is high.
    #[must_use]
    pub const fn line(&self) -> bool {
        self.raw & self.mask != 0
    }

    const fn depth(&self) -> usize {
        if self.lcr & LCR_FEN != 0 { FIFO } else { 1 }
    }

    /// How many received characters raise the receive interrupt.
    const fn trigger(&self) -> usize {
        if self.lcr & LCR_FEN == 0 {
            return 1;
        }
        match (self.ifls >> 3) & 7 {
            0 => FIFO / 8,
            1 => FIFO / 4,
            2 => FIFO / 2,
            3 => FIFO * 3 / 4,
            _ => FIFO * 7 / 8,
        }
    }

    fn flags(&mut self) -> u32 {
        let mut flags = FR_MODEM;
        if self.input.is_empty() {
            flags |= FR_RXFE;
        }
        if self.input.len() >= self.depth() {
            flags |= FR_RXFF;
        }
        flags |= if self.output.is_full() { FR_TXFF } else { FR_TXFE };
        flags
    }

    fn read_data(&mut self) -> u32 {
        let byte = self.input.pop().unwrap_or(0);
        if self.input.len() < self.trigger() {
            self.raw &= !INT_RX;
        }
        if self.input.is_empty() {
            self.raw &= !INT_RT;
        }
        byte.into()
    }

    fn write_data(&mut self, value: u32) {
        let byte = value as u8;
        if self.cr & CR_LBE != 0 {
            // Sent to ourselves. A full FIFO loses it and would set the overrun bit; loop-back tests stay below that.
            let _accepted = self.receive(byte);
        } else {
            // Lost if the guest did not heed FR.TXFF, as on hardware.
            let _queued = self.output.push(byte);
        }
        self.throttled = self.output.len() > OUTPUT - FIFO;
        self.raw = if self.throttled { self.raw & !INT_TX } else { self.raw | INT_TX };
    }
}

impl Mmio for Pl011 {
    fn read(&mut self, offset: u32, width: Width) -> u32 {
        let word = match offset & !3 {
            DR => self.read_data(),
            // No character ever arrives with an error.
            RSR_ECR => 0,
            FR => self.flags(),
            ILPR => self.ilpr,
            IBRD => self.ibrd,
            FBRD => self.fbrd,
            LCR_H => self.lcr,
            CR => self.cr,
            IFLS => self.ifls,
            IMSC => self.mask,
            RIS => self.raw,
            MIS => self.raw & self.mask,
            DMACR => self.dmacr,
            id => primecell::id_register(ID, id).unwrap_or(0),
        };
        width.extract(word, offset)
    }

    fn write(&mut self, offset: u32, width: Width, value: u32) {
        let value = value & width.mask();
        match offset {
            DR => self.write_data(value),
            ILPR => self.ilpr = value & 0xff,
            IBRD => self.ibrd = value & 0xffff,
            FBRD => self.fbrd = value & 0x3f,
            LCR_H => {
                // Switching the FIFOs on or off empties them.
                if (self.lcr ^ value) & LCR_FEN != 0 {
                    self.input.clear();
                    self.raw &= !(INT_RX | INT_RT);
                }
                self.lcr = value & 0xff;
            }
            CR => self.cr = value & 0xff87,
            IFLS => self.ifls = value & 0x3f,
            IMSC => self.mask = value & INT_BITS,
            ICR => self.raw &= !value,
            DMACR => self.dmacr = value & 7,
            _ => {}
        }
    }
}

/// The bits that the guest can set of each register.
impl State for Pl011 {
    fn restore(&mut self, kept: Self) -> Result<(), Unsound> {
        let fields = [
            (kept.raw, INT_RX | INT_TX | INT_RT),
            (kept.mask, INT_BITS),
            (kept.lcr, 0xff),
            (kept.cr, 0xff87),
            (kept.ifls, 0x3f),
            (kept.ilpr, 0xff),
            (kept.ibrd, 0xffff),
            (kept.fbrd, 0x3f),
            (kept.dmacr, 7),
        ];
        check(fields.iter().all(|(value, bits)| value & !bits == 0), "a UART's register that cannot be")?;
        check(kept.input.len() <= kept.depth(), "more in a UART's FIFO than it holds")?;
        check(kept.throttled == (kept.output.len() > OUTPUT - FIFO), "a UART that is not as full as it says")?;
        *self = kept;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn read(uart: &mut Pl011, offset: u32) -> u32 {
        uart.read(offset, Width::Word)
    }

    fn fifo_on(uart: &mut Pl011) {
        uart.write(LCR_H, Width::Half, 0x70);
    }

    fn output(uart: &mut Pl011) -> Vec<u8> {
        let mut bytes = Vec::new();
        uart.take_output(usize::MAX, |byte| bytes.push(byte));
        bytes
    }

    #[test]
    fn sends_at_once_and_raises_the_transmit_interrupt() {
        let mut uart = Pl011::new();
        assert_eq!(read(&mut uart, FR), FR_MODEM | FR_RXFE | FR_TXFE);
        uart.write(DR, Width::Byte, u32::from(b'h'));
        uart.write(DR, Width::Word, u32::from(b'i'));
        assert_eq!(read(&mut uart, RIS), INT_TX);
        assert!(!uart.line(), "masked");
        uart.write(IMSC, Width::Half, INT_TX);
        assert!(uart.line());
        assert_eq!(read(&mut uart, MIS), INT_TX);
        uart.write(ICR, Width::Half, INT_TX);
        assert!(!uart.line());
        assert_eq!(output(&mut uart), b"hi");
        assert!(!uart.line(), "taking output wakes only a guest that waits");
    }

    #[test]
    fn a_slow_host_makes_the_guest_wait_and_loses_nothing() {
        let mut uart = Pl011::new();
        uart.write(IMSC, Width::Half, INT_TX);
        let mut sent = 0;
        while read(&mut uart, FR) & FR_TXFF == 0 {
            uart.write(DR, Width::Byte, sent & 0xff);
            sent += 1;
        }
        uart.write(ICR, Width::Half, INT_TX);
        assert!(!uart.line());
        let bytes = output(&mut uart);
        assert_eq!(bytes.len(), sent as usize);
        assert!(bytes.iter().enumerate().all(|(i, &byte)| byte == i as u8));
        assert!(uart.line(), "room again");
        assert_eq!(read(&mut uart, FR) & (FR_TXFF | FR_TXFE), FR_TXFE);
    }

    #[test]
    fn a_driver_that_writes_half_a_fifo_at_each_interrupt_loses_nothing_at_a_slow_host() {
        let mut uart = Pl011::new();
        fifo_on(&mut uart);
        uart.write(IMSC, Width::Half, INT_TX);
        let (mut sent, mut got) = (0u32, Vec::new());
        // The first character starts it.
        uart.write(DR, Width::Byte, 0);
        sent += 1;
        while sent < 5000 {
            while uart.line() {
                for _ in 0..FIFO / 2 {
                    uart.write(DR, Width::Byte, sent & 0xff);
                    sent += 1;
                }
            }
            assert_ne!(read(&mut uart, FR) & FR_TXFE, 0, "a FIFO that has room is not called full");
            uart.take_output(7, |byte| got.push(byte));
        }
        assert!(uart.has_output());
        uart.take_output(usize::MAX, |byte| got.push(byte));
        assert!(!uart.has_output());
        assert_eq!(got.len(), sent as usize);
        assert!(got.iter().enumerate().all(|(i, &byte)| byte == i as u8));
    }

    #[test]
    fn without_fifo_one_character_fits() {
        let mut uart = Pl011::new();
        assert!(uart.receive(b'a') && !uart.receive(b'b'));
        assert_eq!(read(&mut uart, FR) & (FR_RXFF | FR_RXFE), FR_RXFF);
        assert_eq!(read(&mut uart, RIS), INT_RX | INT_RT);
        assert_eq!(read(&mut uart, DR), u32::from(b'a'));
        assert_eq!(read(&mut uart, RIS), 0);
        assert_eq!(read(&mut uart, FR) & (FR_RXFF | FR_RXFE), FR_RXFE);
    }

    #[test]
    fn receive_interrupt_at_the_trigger_and_timeout_below_it() {
        let mut uart = Pl011::new();
        fifo_on(&mut uart);
        for byte in 0..7 {
            assert!(uart.receive(byte));
            assert_eq!(read(&mut uart, RIS), INT_RT);
        }
        assert!(uart.receive(7), "the eighth of sixteen");
        assert_eq!(read(&mut uart, RIS), INT_RT | INT_RX);
        assert_eq!(read(&mut uart, DR), 0);
        assert_eq!(read(&mut uart, RIS), INT_RT, "below the trigger again");
        for byte in 1..8 {
            assert_eq!(read(&mut uart, DR), byte);
        }
        assert_eq!(read(&mut uart, RIS), 0);
        let accepted = (0..20).filter(|&byte| uart.receive(byte)).count();
        assert_eq!(accepted, 16);
    }

    #[test]
    fn every_trigger_level() {
        for (ifls, level) in [(0, 2), (1, 4), (2, 8), (3, 12), (4, 14)] {
            let mut uart = Pl011::new();
            fifo_on(&mut uart);
            uart.write(IFLS, Width::Half, ifls << 3);
            let mut count = 0;
            while read(&mut uart, RIS) & INT_RX == 0 {
                assert!(uart.receive(0));
                count += 1;
            }
            assert_eq!(count, level);
        }
    }

    #[test]
    fn a_cleared_timeout_stays_clear_until_the_next_character() {
        let mut uart = Pl011::new();
        fifo_on(&mut uart);
        uart.write(IMSC, Width::Half, INT_RT);
        assert!(uart.receive(1) && uart.line());
        uart.write(DR, Width::Byte, 0);
        uart.write(ICR, Width::Half, INT_RT);
        assert!(!uart.line());
        assert_eq!(read(&mut uart, RIS), INT_TX, "only what the write names is cleared");
        assert!(uart.receive(2) && uart.line());
    }

    #[test]
    fn loops_back() {
        let mut uart = Pl011::new();
        uart.write(CR, Width::Half, 0x381);
        uart.write(DR, Width::Byte, 0x5a);
        assert_eq!(read(&mut uart, DR), 0x5a);
        uart.take_output(usize::MAX, |byte| panic!("{byte:#x} went out"));
    }

    #[test]
    fn identifies_itself() {
        let mut uart = Pl011::new();
        let id: Vec<u32> = (0xfe0..0x1000).step_by(4).map(|offset| read(&mut uart, offset)).collect();
        assert_eq!(id, [0x11, 0x10, 0x14, 0x00, 0x0d, 0xf0, 0x05, 0xb1]);
    }
}
