//! The 16550 UART and its DesignWare variant (Synopsys DW_apb_uart databook; Allwinner A10 user manual, UART).
//!
//! Line settings and baud rate are the boot loader's: this driver moves bytes and turns on the receive interrupt.

use alloc::boxed::Box;

use super::error::BoardError;
use super::tree::Node;
use super::{SerialPort, map};
use crate::memory::device::Mmio;

/// Register numbers; multiplied by the register spacing.
const DATA: u32 = 0;
const INTERRUPT_ENABLE: u32 = 1;
const INTERRUPT_ID: u32 = 2;
const MODEM_CONTROL: u32 = 4;
const LINE_STATUS: u32 = 5;
/// DesignWare only: reading it ends the "busy detect" interrupt.
const UART_STATUS: u32 = 31;

const RECEIVED: u32 = 1 << 0;
const TRANSMITTER_EMPTY: u32 = 1 << 5;
const BUSY_DETECT: u32 = 7;

struct Uart {
    registers: Mmio,
    /// log2 of the distance between registers (`reg-shift`).
    shift: u32,
    /// Registers take 32-bit accesses (`reg-io-width` = 4), else bytes.
    wide: bool,
    design_ware: bool,
}

/// Takes over the UART of `node`.
pub fn probe(node: &Node<'_>) -> Result<Box<dyn SerialPort>, BoardError> {
    let shift = node.word("reg-shift").unwrap_or(0);
    if shift > 4 {
        return Err(node.error("reg-shift", "must be at most 4"));
    }
    let wide = node.word("reg-io-width") == Some(4);
    let registers = map(node, 0)?;
    let design_ware = node.is("snps,dw-apb-uart");
    // Every register that is used has to be within `reg`.
    let (last, size) = (if design_ware { UART_STATUS } else { LINE_STATUS } << shift, if wide { 4 } else { 1 });
    if node.reg(0)?.1 < last + size || wide && shift < 2 {
        return Err(node.error("reg", "is too small for the UART's registers at this reg-shift and reg-io-width"));
    }
    Ok(Box::new(Uart { registers, shift, wide, design_ware }))
}

impl Uart {
    fn read(&self, register: u32) -> u32 {
        let offset = register << self.shift;
        if self.wide { self.registers.read(offset) } else { self.registers.read_byte(offset).into() }
    }

    fn write(&self, register: u32, value: u32) {
        let offset = register << self.shift;
        if self.wide { self.registers.write(offset, value) } else { self.registers.write_byte(offset, value as u8) }
    }
}

impl SerialPort for Uart {
    fn put(&mut self, byte: u8) {
        while self.read(LINE_STATUS) & TRANSMITTER_EMPTY == 0 {}
        self.write(DATA, byte.into());
    }

    fn get(&mut self) -> Option<u8> {
        if self.design_ware && self.read(INTERRUPT_ID) & 0xf == BUSY_DETECT {
            self.read(UART_STATUS);
        }
        (self.read(LINE_STATUS) & RECEIVED != 0).then(|| self.read(DATA) as u8)
    }

    fn enable_rx_interrupt(&mut self) {
        // OUT2 is what lets the interrupt out of the chip on PC-like boards; DTR and RTS tell the other side to send.
        self.write(MODEM_CONTROL, 0b1011);
        self.write(INTERRUPT_ENABLE, 1);
    }
}
