//! The interrupt controller of the Allwinner A10 (A10 user manual, INTC): 95 level-triggered lines, one vector
//! register.
//!
//! Line 0 is the NMI pin, at which boards have the power management. It has a latch, and its pending bit does not ask
//! whether the line is enabled.

use alloc::boxed::Box;

use super::error::BoardError;
use super::hardware::{Hardware, Registers};
use super::tree::Node;
use super::{InterruptController, Line, Waiting, map};

/// The line of the highest-priority pending interrupt, times 4.
const VECTOR: u32 = 0x00;
const PROTECTION: u32 = 0x08;
const NMI_CONTROL: u32 = 0x0c;
const PENDING: u32 = 0x10;
/// Which lines are FIQs.
const SELECT: u32 = 0x30;
const ENABLE: u32 = 0x40;
const MASK: u32 = 0x50;

/// Lines 0 to 31, 32 to 63, 64 to 95.
const BANKS: u32 = 3;

struct Intc<R> {
    registers: R,
    /// Line 0 is enabled.
    nmi: bool,
}

/// Takes over the controller of `node`: everything disabled.
pub fn probe<H: Hardware>(node: &Node<'_>) -> Result<Box<dyn InterruptController>, BoardError> {
    let registers = map::<H>(node, 0)?;
    if node.reg(0)?.1 < MASK + 4 * BANKS {
        return Err(node.error("reg", "is too small for an INTC with 95 lines"));
    }
    for bank in 0..BANKS {
        registers.write(ENABLE + 4 * bank, 0);
        registers.write(MASK + 4 * bank, 0);
        registers.write(SELECT + 4 * bank, 0);
        registers.write(PENDING + 4 * bank, u32::MAX);
    }
    // Registers accessible to privileged code only; the external NMI pin low-level sensitive.
    registers.write(PROTECTION, 1);
    registers.write(NMI_CONTROL, 0);
    Ok(Box::new(Intc { registers, nmi: false }))
}

impl<R: Registers> InterruptController for Intc<R> {
    fn line(&self, cells: &[u32]) -> Option<Line> {
        match cells {
            [line] if *line < 32 * BANKS => Some(Line(*line)),
            _ => None,
        }
    }

    fn enable(&mut self, line: Line) {
        self.nmi |= line.0 == 0;
        let bank = ENABLE + 4 * (line.0 / 32);
        self.registers.write(bank, self.registers.read(bank) | 1 << (line.0 % 32));
    }

    fn disable(&mut self, line: Line) {
        self.nmi &= line.0 != 0;
        let bank = ENABLE + 4 * (line.0 / 32);
        self.registers.write(bank, self.registers.read(bank) & !(1 << (line.0 % 32)));
    }

    fn acknowledge(&mut self) -> Option<Line> {
        let line = self.registers.read(VECTOR) >> 2;
        // Vector 0 is line 0 as well as "none". If the line is enabled, its pending bit tells; if not, nobody would
        // ever lower it.
        (line != 0 || self.nmi && self.registers.read(PENDING) & 1 != 0).then_some(Line(line))
    }

    fn end(&mut self, line: Line) {
        // Lines follow their devices; only the NMI pin is latched.
        if line.0 == 0 {
            self.registers.write(PENDING, 1);
        }
    }

    fn waiting(&self, line: Line) -> Option<Waiting> {
        // Vector 0 says nothing: see `acknowledge`.
        let address = self.registers.address(VECTOR, 4);
        (line.0 != 0).then_some(Waiting { address, mask: u32::MAX, value: line.0 << 2 })
    }
}
