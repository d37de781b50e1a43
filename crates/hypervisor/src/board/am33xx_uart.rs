//! The UART of the AM335x (AM335x TRM, SPRUH73, chapter 19): a 16550 with a mode register, and registers that are words.
//!
//! Clock, pins, mode, FIFOs and baud rate are the boot loader's, whose console it is: this driver moves bytes and turns on the
//! receive interrupt. That comes when eight bytes have arrived, or after a pause of four.

use alloc::boxed::Box;

use super::error::BoardError;
use super::tree::Node;
use super::{SerialPort, map};
use crate::arch::fixup;
use crate::memory::device::Mmio;

const DATA: u32 = 0x00;
const INTERRUPT_ENABLE: u32 = 0x04;
const INTERRUPT_ID: u32 = 0x08;
const LINE_CONTROL: u32 = 0x0c;
const LINE_STATUS: u32 = 0x14;
const MODE: u32 = 0x20;
const SYSTEM_CONFIG: u32 = 0x54;

/// LINE_CONTROL: the first registers are the baud rate's.
const DIVISOR_LATCH: u32 = 1 << 7;
const RECEIVED: u32 = 1 << 0;
const TRANSMITTER_EMPTY: u32 = 1 << 5;
/// INTERRUPT_ID: a pause after some bytes (the lowest bit is 0: it is raised).
const TIME_OUT: u32 = 0b00_1100;
const INTERRUPT_TYPE: u32 = 0b11_1111;
/// SYSTEM_CONFIG: the UART never goes idle, so that no byte finds it asleep.
const NO_IDLE: u32 = 1 << 3;

struct Uart {
    registers: Mmio,
}

/// Takes over the UART of `node`.
pub fn probe(node: &Node<'_>) -> Result<Box<dyn SerialPort>, BoardError> {
    let registers = map(node, 0)?;
    if node.reg(0)?.1 < SYSTEM_CONFIG + 4 {
        return Err(node.error("reg", "is too small for the UART's registers"));
    }
    // 16 or 13 samples a bit; after reset it is off, and then it has no baud rate either.
    if !matches!(registers.read(MODE) & 7, 0 | 3) {
        return Err(node.error("compatible", "is no UART at the moment (MDR1): the boot loader has to set it up"));
    }
    registers.write(SYSTEM_CONFIG, NO_IDLE);
    registers.write(LINE_CONTROL, registers.read(LINE_CONTROL) & 0xff & !DIVISOR_LATCH);
    registers.write(INTERRUPT_ENABLE, 0);
    Ok(Box::new(Uart { registers }))
}

impl SerialPort for Uart {
    fn put(&mut self, byte: u8) {
        // Empty means that there is room; a byte for a full FIFO would be answered with an abort.
        while self.registers.read(LINE_STATUS) & TRANSMITTER_EMPTY == 0 {}
        self.registers.write(DATA, byte.into());
    }

    fn get(&mut self) -> Option<u8> {
        if self.registers.read(LINE_STATUS) & RECEIVED != 0 {
            return Some(self.registers.read(DATA) as u8);
        }
        // The interrupt of a pause may come after its bytes have been taken; only a read of the data ends it, which, with no
        // data, may be answered with an abort.
        if self.registers.read(INTERRUPT_ID) & INTERRUPT_TYPE == TIME_OUT {
            // SAFETY: it takes a byte from a FIFO that has none.
            unsafe { fixup::read_word(self.registers.address(DATA, 4)) };
        }
        None
    }

    fn enable_rx_interrupt(&mut self) {
        self.registers.write(INTERRUPT_ENABLE, 1);
    }
}
