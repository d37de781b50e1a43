//! The PL011 UART (Arm PrimeCell UART PL011 TRM, DDI 0183).
//!
//! Line settings, FIFOs and baud rate are the boot loader's: this driver moves bytes and turns on interrupts.

use alloc::boxed::Box;

use spica_console::SerialPort;

use super::error::BoardError;
use super::hardware::{Hardware, Registers};
use super::map;
use super::tree::Node;

const DATA: u32 = 0x00;
const FLAGS: u32 = 0x18;
const CONTROL: u32 = 0x30;
const INTERRUPT_MASK: u32 = 0x38;
const RAW_INTERRUPTS: u32 = 0x3c;
const INTERRUPT_CLEAR: u32 = 0x44;

const BUSY: u32 = 1 << 3;
const RECEIVE_EMPTY: u32 = 1 << 4;
const TRANSMIT_FULL: u32 = 1 << 5;
/// UART, transmitter and receiver enabled.
const ENABLED: u32 = UART | 1 << 8 | 1 << 9;
const UART: u32 = 1 << 0;
/// Receive FIFO filled to its mark, and receive timeout: both end when the FIFO has been read (DDI 0183, 2.8). If one
/// is there all the same, left by somebody else or come while the last byte was read, only INTERRUPT_CLEAR ends it.
const RECEIVE_INTERRUPTS: u32 = 1 << 4 | 1 << 6;
/// Transmit FIFO emptied to its mark (UARTTXINTR, DDI 0183, 2.8): raised by the step to the mark, not by being below
/// it, and taken back by filling the FIFO beyond it. It is remembered while it is masked. So whoever fills the FIFO and
/// asks for the interrupt afterwards gets it.
const TRANSMIT_INTERRUPT: u32 = 1 << 5;

struct Pl011<R> {
    registers: R,
}

/// Takes over the UART of `node`.
pub fn probe<H: Hardware>(node: &Node<'_>) -> Result<Box<dyn SerialPort>, BoardError> {
    let registers = map::<H>(node, 0)?;
    if node.reg(0)?.1 < INTERRUPT_CLEAR + 4 {
        return Err(node.error("reg", "is too small for a PL011's registers"));
    }
    let control = registers.read(CONTROL);
    if control & ENABLED != ENABLED {
        // CONTROL is to be changed while the UART is off, which is not to be turned off while it sends (DDI 0183,
        // 3.3.8).
        if control & UART != 0 {
            let _ = (0..super::PATIENCE).any(|_| registers.read(FLAGS) & BUSY == 0);
            registers.write(CONTROL, control & !UART);
        }
        registers.write(CONTROL, control | ENABLED);
    }
    registers.write(INTERRUPT_MASK, 0);
    Ok(Box::new(Pl011 { registers }))
}

impl<R: Registers> SerialPort for Pl011<R> {
    fn try_put(&mut self, byte: u8) -> bool {
        let room = self.registers.read(FLAGS) & TRANSMIT_FULL == 0;
        if room {
            self.registers.write(DATA, byte.into());
        }
        room
    }

    fn set_tx_interrupt(&mut self, on: bool) {
        let others = self.registers.read(INTERRUPT_MASK) & !TRANSMIT_INTERRUPT;
        self.registers.write(INTERRUPT_MASK, others | if on { TRANSMIT_INTERRUPT } else { 0 });
    }

    fn get(&mut self) -> Option<u8> {
        let received = || {
            // The upper bits of the data register are errors of this byte; a damaged byte is still what arrived.
            (self.registers.read(FLAGS) & RECEIVE_EMPTY == 0).then(|| self.registers.read(DATA) as u8)
        };
        let byte = received();
        if byte.is_none() && self.registers.read(RAW_INTERRUPTS) & RECEIVE_INTERRUPTS != 0 {
            self.registers.write(INTERRUPT_CLEAR, RECEIVE_INTERRUPTS);
            // A byte that came meanwhile would have no interrupt any more.
            return received();
        }
        byte
    }

    fn enable_rx_interrupt(&mut self) {
        let others = self.registers.read(INTERRUPT_MASK);
        self.registers.write(INTERRUPT_MASK, others | RECEIVE_INTERRUPTS);
    }
}
