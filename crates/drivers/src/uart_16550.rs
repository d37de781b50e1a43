//! The 16550 UART and its DesignWare variant (Synopsys DW_apb_uart databook; Allwinner A10 user manual, UART).
//!
//! Line settings and baud rate are the boot loader's: this driver moves bytes and turns on FIFOs and interrupts.
//! Sections are those of the PC16550D data sheet (National Semiconductor, June 1995).

use alloc::boxed::Box;

use spica_console::SerialPort;

use super::error::BoardError;
use super::hardware::{Hardware, Registers};
use super::map;
use super::tree::Node;

/// Register numbers; multiplied by the register spacing.
const DATA: u32 = 0;
const INTERRUPT_ENABLE: u32 = 1;
const INTERRUPT_ID: u32 = 2;
/// Where [`INTERRUPT_ID`] is, for writing.
const FIFO_CONTROL: u32 = 2;
const MODEM_CONTROL: u32 = 4;
const LINE_STATUS: u32 = 5;
/// DesignWare only: reading it ends the "busy detect" interrupt.
const UART_STATUS: u32 = 31;

const RECEIVED: u32 = 1 << 0;
const TRANSMITTER_EMPTY: u32 = 1 << 5;
/// INTERRUPT_ID, of a DesignWare UART.
const BUSY_DETECT: u32 = 7;
/// INTERRUPT_ID: bytes have been waiting for a while. A DesignWare UART may say so with no byte there, for instance if
/// it comes while the last one is read, and raises the interrupt until one is read (Linux has met that: 8250_dw.c).
const TIME_OUT: u32 = 0xc;
/// FIFO_CONTROL: FIFOs on, the receive interrupt at one byte, and nothing thrown away.
const FIFOS: u32 = 1;
/// FIFO_CONTROL: the receive interrupt at 8 bytes of 16, or when some have been waiting for as long as four take.
const AT_EIGHT: u32 = 0b10 << 6;
/// INTERRUPT_ID, where FIFOs are on; an 8250 or 16450, which has none, shows zeroes (8.5).
const FIFOS_ON: u32 = 0b11 << 6;
/// Bytes of the transmit FIFO: what every 16550A has. Others have more, but how many is not to be found out from all.
const FIFO: u32 = 16;
/// INTERRUPT_ENABLE (8.6). The transmitter's is raised when the FIFO, or the register, becomes empty, and when it is
/// enabled while that is so. Reading INTERRUPT_ID takes it back, as does writing a byte (8.5, table IV).
const RECEIVE_INTERRUPT: u32 = 1 << 0;
const TRANSMIT_INTERRUPT: u32 = 1 << 1;

struct Uart<R> {
    registers: R,
    /// log2 of the distance between registers (`reg-shift`).
    shift: u32,
    /// Registers take 32-bit accesses (`reg-io-width` = 4), else bytes.
    wide: bool,
    design_ware: bool,
    /// Bytes that the transmitter takes once it is empty.
    depth: u32,
    /// Bytes that it still takes, as far as is known: it was empty, and so many fewer have been written since.
    room: u32,
    /// INTERRUPT_ENABLE.
    enabled: u32,
}

/// Takes over the UART of `node`.
pub fn probe<H: Hardware>(node: &Node<'_>) -> Result<Box<dyn SerialPort>, BoardError> {
    let shift = node.word("reg-shift").unwrap_or(0);
    if shift > 4 {
        return Err(node.error("reg-shift", "must be at most 4"));
    }
    let wide = node.word("reg-io-width") == Some(4);
    let registers = map::<H>(node, 0)?;
    let design_ware = node.is("snps,dw-apb-uart");
    // Every register that is used has to be within `reg`.
    let (last, size) = (if design_ware { UART_STATUS } else { LINE_STATUS } << shift, if wide { 4 } else { 1 });
    if node.reg(0)?.1 < last + size || wide && shift < 2 {
        return Err(node.error("reg", "is too small for the UART's registers at this reg-shift and reg-io-width"));
    }
    let mut uart = Uart { registers, shift, wide, design_ware, depth: 1, room: 0, enabled: 0 };
    // A DesignWare UART with PTIME in INTERRUPT_ENABLE would call "empty" what is not full.
    uart.write(INTERRUPT_ENABLE, 0);
    // If the boot loader has them on, this changes nothing; what it has sent goes out.
    uart.write(FIFO_CONTROL, FIFOS);
    if uart.read(INTERRUPT_ID) & FIFOS_ON == FIFOS_ON {
        uart.depth = FIFO;
    }
    Ok(Box::new(uart))
}

impl<R: Registers> Uart<R> {
    fn read(&self, register: u32) -> u32 {
        let offset = register << self.shift;
        if self.wide { self.registers.read(offset) } else { self.registers.read_byte(offset).into() }
    }

    fn write(&self, register: u32, value: u32) {
        let offset = register << self.shift;
        if self.wide { self.registers.write(offset, value) } else { self.registers.write_byte(offset, value as u8) }
    }
}

impl<R: Registers> SerialPort for Uart<R> {
    fn expect_much(&mut self, much: bool) {
        self.write(FIFO_CONTROL, if much { FIFOS | AT_EIGHT } else { FIFOS });
    }

    fn try_put(&mut self, byte: u8) -> bool {
        if self.room == 0 {
            if self.read(LINE_STATUS) & TRANSMITTER_EMPTY == 0 {
                return false;
            }
            self.room = self.depth;
        }
        self.write(DATA, byte.into());
        self.room -= 1;
        true
    }

    fn try_put_all(&mut self, bytes: &[u8]) -> usize {
        let mut left = bytes;
        while let Some((&first, more)) = left.split_first()
            && self.try_put(first)
        {
            // What there is room for now, without asking for each byte.
            let (now, later) = more.split_at(more.len().min(self.room as usize));
            now.iter().for_each(|&byte| self.write(DATA, byte.into()));
            self.room -= now.len() as u32;
            left = later;
        }
        bytes.len() - left.len()
    }

    fn set_tx_interrupt(&mut self, on: bool) {
        self.enabled = self.enabled & !TRANSMIT_INTERRUPT | if on { TRANSMIT_INTERRUPT } else { 0 };
        self.write(INTERRUPT_ENABLE, self.enabled);
    }

    fn get(&mut self) -> Option<u8> {
        let interrupt = if self.design_ware { self.read(INTERRUPT_ID) & 0xf } else { 0 };
        if interrupt == BUSY_DETECT {
            self.read(UART_STATUS);
        }
        let received = self.read(LINE_STATUS) & RECEIVED != 0;
        if !received && interrupt == TIME_OUT {
            self.read(DATA);
        }
        received.then(|| self.read(DATA) as u8)
    }

    fn enable_rx_interrupt(&mut self) {
        // OUT2 is what lets the interrupt out of the chip on PC-like boards; DTR and RTS tell the other side to send.
        self.write(MODEM_CONTROL, 0b1011);
        self.enabled |= RECEIVE_INTERRUPT;
        self.write(INTERRUPT_ENABLE, self.enabled);
    }
}
