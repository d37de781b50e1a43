//! The interrupt controller of the AM335x (AM335x TRM, SPRUH73, chapter 6): 128 level-triggered lines, one IRQ output.
//!
//! The controller sorts what is raised by priority, asserts IRQ, and then stands still until it is told NEWIRQAGR. This
//! driver gives all lines one priority and looks at what is pending, not at the result of the sorting (SIR_IRQ): that
//! one is stale or marked as spurious when a line falls, or is masked, while it is sorted (6.2.5), whereas a pending
//! bit follows its line. With the lines that Spica uses, it is one register read either way. An IRQ without a pending
//! line is agreed to and forgotten.

use alloc::boxed::Box;

use super::error::BoardError;
use super::hardware::{Hardware, Registers};
use super::tree::Node;
use super::{InterruptController, Line, map};

const SYSTEM_CONFIG: u32 = 0x10;
const SYSTEM_STATUS: u32 = 0x14;
const CONTROL: u32 = 0x48;
/// Of lines 0 to 31; those of the next 32 are [`BANK`] further on.
const MASK_CLEAR: u32 = 0x88;
const MASK_SET: u32 = 0x8c;
const PENDING_IRQ: u32 = 0x98;
const BANK: u32 = 0x20;

const SOFT_RESET: u32 = 1 << 1;
const RESET_DONE: u32 = 1 << 0;
const NEW_IRQ: u32 = 1 << 0;

const BANKS: usize = 4;

struct Intc<H: Hardware> {
    registers: H::Registers,
    /// Which lines are enabled: other banks need not be looked at.
    enabled: [u32; BANKS],
}

/// Takes over the controller of `node`. Its reset disables all lines and makes them IRQs of one priority, without a
/// threshold; what was asserted is forgotten (6.5.1: the registers' reset values).
pub fn probe<H: Hardware>(node: &Node<'_>) -> Result<Box<dyn InterruptController>, BoardError> {
    let registers = map::<H>(node, 0)?;
    if node.reg(0)?.1 < PENDING_IRQ + BANK * BANKS as u32 {
        return Err(node.error("reg", "is too small for an INTC with 128 lines"));
    }
    registers.write(SYSTEM_CONFIG, SOFT_RESET);
    if !(0..super::PATIENCE).any(|_| registers.read(SYSTEM_STATUS) & RESET_DONE != 0) {
        return Err(node.error("reg", "the INTC does not come out of its reset (SYSSTATUS)"));
    }
    // Its clock is never gated: no interrupt waits for it to wake up.
    registers.write(SYSTEM_CONFIG, 0);
    Ok(Box::new(Intc::<H> { registers, enabled: [0; BANKS] }))
}

impl<H: Hardware> Intc<H> {
    /// The controller may assert IRQ again. What was written to devices has to have reached them, or their lines are
    /// still up and their interrupts come twice; and IRQ has to have fallen before the core looks at it (6.2.2).
    fn agree(&self) {
        H::dsb();
        self.registers.write(CONTROL, NEW_IRQ);
        H::dsb();
    }
}

impl<H: Hardware> InterruptController for Intc<H> {
    fn line(&self, cells: &[u32]) -> Option<Line> {
        match cells {
            [line] if (*line as usize) < 32 * BANKS => Some(Line(*line)),
            _ => None,
        }
    }

    fn enable(&mut self, line: Line) {
        let (bank, bit) = (line.0 / 32, 1 << (line.0 % 32));
        self.enabled[bank as usize] |= bit;
        self.registers.write(MASK_CLEAR + BANK * bank, bit);
    }

    fn disable(&mut self, line: Line) {
        let (bank, bit) = (line.0 / 32, 1 << (line.0 % 32));
        self.enabled[bank as usize] &= !bit;
        self.registers.write(MASK_SET + BANK * bank, bit);
    }

    fn acknowledge(&mut self) -> Option<Line> {
        for (bank, _) in (0..).zip(&self.enabled).filter(|&(_, &enabled)| enabled != 0) {
            let pending = self.registers.read(PENDING_IRQ + BANK * bank);
            if pending != 0 {
                return Some(Line(32 * bank + pending.trailing_zeros()));
            }
        }
        self.agree();
        None
    }

    fn end(&mut self, _: Line) {
        self.agree();
    }
}
