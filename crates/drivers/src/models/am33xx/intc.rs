//! The interrupt controller (TRM 6.2): sorts what is raised, asserts IRQ, and stands still until NEWIRQAGR.

use super::Lines;
use crate::models::bus::{self, Model};

/// See the module's text.
pub struct Intc {
    lines: Lines,
    mask: [u32; 4],
    irq: bool,
    reset_until: u64,
    /// What was written for each line.
    pub line: [u32; 128],
}

impl Intc {
    /// As something else may have left it: all lines enabled, of several priorities, some FIQs, one asserted and not
    /// agreed to.
    pub(super) fn new(lines: &Lines) -> Self {
        let line = std::array::from_fn(|line| line as u32 % 7);
        Intc { lines: lines.clone(), mask: [0; 4], irq: true, reset_until: 0, line }
    }

    /// The output to the core.
    #[must_use]
    pub fn irq(&self) -> bool {
        self.irq
    }

    /// Whether a line's interrupts come.
    #[must_use]
    pub fn is_enabled(&self, line: u32) -> bool {
        self.mask[line as usize / 32] >> (line % 32) & 1 == 0
    }

    fn pending(&self, bank: usize) -> u32 {
        self.lines.borrow()[bank] & !self.mask[bank]
    }
}

impl Model for Intc {
    fn run(&mut self, _: u64) {
        // Once asserted, it stays so, also if the line falls: a spurious interrupt.
        self.irq |= (0..4).any(|bank| self.pending(bank) != 0);
    }

    fn read(&mut self, offset: u32) -> Option<u32> {
        Some(match offset {
            0x14 => u32::from(bus::now() >= self.reset_until),
            0x98 | 0xb8 | 0xd8 | 0xf8 => self.pending((offset as usize - 0x98) / 0x20),
            _ => panic!("INTC register {offset:#x} is read"),
        })
    }

    fn write(&mut self, offset: u32, value: u32) {
        assert!(offset == 0x10 || bus::now() >= self.reset_until, "INTC is written during its reset");
        let bank = offset.wrapping_sub(0x80) as usize / 0x20;
        match offset {
            0x10 if value & 2 != 0 => {
                self.reset_until = bus::now() + 1_000;
                (self.mask, self.line, self.irq) = ([u32::MAX; 4], [0; 128], false);
            }
            0x10 => assert_eq!(value & 1, 0, "its clock may be gated"),
            0x48 => {
                assert!(!bus::unordered(), "NEWIRQAGR overtakes what was written to devices");
                self.irq &= value & 1 == 0;
            }
            0x80..0x100 => match (offset - 0x80) % 0x20 {
                0x08 => self.mask[bank] &= !value,
                0x0c => self.mask[bank] |= value,
                _ => panic!("INTC register {offset:#x} is written"),
            },
            _ => panic!("INTC register {offset:#x} is written"),
        }
    }
}
