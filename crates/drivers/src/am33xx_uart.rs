//! The UART of the AM335x (AM335x TRM, SPRUH73, chapter 19): a 16550 with a mode register, and registers that are
//! words.
//!
//! Clock, pins, mode, FIFOs and baud rate are the boot loader's, whose console it is: this driver moves bytes and turns
//! on interrupts. That of the receiver comes when eight bytes have arrived, or after a pause of four; that of the
//! transmitter when all is sent.

use alloc::boxed::Box;

use spica_console::SerialPort;

use super::error::BoardError;
use super::hardware::{Hardware, Registers};
use super::map;
use super::tree::Node;

const DATA: u32 = 0x00;
const INTERRUPT_ENABLE: u32 = 0x04;
const INTERRUPT_ID: u32 = 0x08;
const LINE_CONTROL: u32 = 0x0c;
const LINE_STATUS: u32 = 0x14;
const MODE: u32 = 0x20;
const SUPPLEMENTARY_CONTROL: u32 = 0x40;
const SYSTEM_CONFIG: u32 = 0x54;

/// LINE_CONTROL: the first registers are the baud rate's.
const DIVISOR_LATCH: u32 = 1 << 7;
const RECEIVED: u32 = 1 << 0;
const TRANSMITTER_EMPTY: u32 = 1 << 5;
/// INTERRUPT_ID: a pause after some bytes (the lowest bit is 0: it is raised).
const TIME_OUT: u32 = 0b00_1100;
const INTERRUPT_TYPE: u32 = 0b11_1111;
/// INTERRUPT_ID: FIFOs are on.
const FIFOS_ON: u32 = 0b11 << 6;
/// Bytes of the transmit FIFO.
const FIFO: u32 = 64;
/// INTERRUPT_ENABLE.
const RECEIVE_INTERRUPT: u32 = 1 << 0;
const TRANSMIT_INTERRUPT: u32 = 1 << 1;
/// SUPPLEMENTARY_CONTROL (UART_SCR, TXEMPTYCTLIT): the transmit interrupt waits until FIFO and shift register are
/// empty. Without that it is a level, raised as long as the FIFO has room for a few bytes (UART interrupts: "write to
/// THR until the condition disappears"), and LINE_STATUS does not tell of that room.
const INTERRUPT_WHEN_EMPTY: u32 = 1 << 3;
/// SYSTEM_CONFIG: the UART never goes idle, so that no byte finds it asleep.
const NO_IDLE: u32 = 1 << 3;

struct Uart<R> {
    registers: R,
    /// Bytes that the transmitter takes once it is empty.
    depth: u32,
    /// Bytes that it still takes, as far as is known. A byte for a full FIFO would be answered with an abort.
    room: u32,
    /// INTERRUPT_ENABLE.
    enabled: u32,
}

/// Takes over the UART of `node`.
pub fn probe<H: Hardware>(node: &Node<'_>) -> Result<Box<dyn SerialPort>, BoardError> {
    let registers = map::<H>(node, 0)?;
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
    let control = registers.read(SUPPLEMENTARY_CONTROL) & 0xff;
    registers.write(SUPPLEMENTARY_CONTROL, control | INTERRUPT_WHEN_EMPTY);
    let depth = if registers.read(INTERRUPT_ID) & FIFOS_ON == FIFOS_ON { FIFO } else { 1 };
    Ok(Box::new(Uart { registers, depth, room: 0, enabled: 0 }))
}

impl<R: Registers> SerialPort for Uart<R> {
    fn try_put(&mut self, byte: u8) -> bool {
        if self.room == 0 {
            if self.registers.read(LINE_STATUS) & TRANSMITTER_EMPTY == 0 {
                return false;
            }
            self.room = self.depth;
        }
        self.registers.write(DATA, byte.into());
        self.room -= 1;
        true
    }

    fn set_tx_interrupt(&mut self, on: bool) {
        self.enabled = self.enabled & !TRANSMIT_INTERRUPT | if on { TRANSMIT_INTERRUPT } else { 0 };
        self.registers.write(INTERRUPT_ENABLE, self.enabled);
    }

    fn get(&mut self) -> Option<u8> {
        if self.registers.read(LINE_STATUS) & RECEIVED != 0 {
            return Some(self.registers.read(DATA) as u8);
        }
        // The interrupt of a pause may come after its bytes have been taken; only a read of the data ends it, which,
        // with no data, may be answered with an abort.
        if self.registers.read(INTERRUPT_ID) & INTERRUPT_TYPE == TIME_OUT {
            self.registers.try_read(DATA);
        }
        None
    }

    fn enable_rx_interrupt(&mut self) {
        self.enabled |= RECEIVE_INTERRUPT;
        self.registers.write(INTERRUPT_ENABLE, self.enabled);
    }
}
