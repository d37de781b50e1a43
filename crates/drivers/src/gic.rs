//! The Generic Interrupt Controller, architecture versions 1 and 2 (IHI 0048): Cortex-A9, A7, A15, GIC-400.
//!
//! Works in secure and in non-secure state alike: interrupt groups are left as they are (reset, or secure firmware,
//! decided), and both views of the registers used here mean the same.

use alloc::boxed::Box;

use super::error::BoardError;
use super::hardware::{Hardware, Registers};
use super::tree::Node;
use super::{InterruptController, Line, map};

const D_CONTROL: u32 = 0x000;
const D_TYPE: u32 = 0x004;
const D_SET_ENABLE: u32 = 0x100;
const D_CLEAR_ENABLE: u32 = 0x180;
const D_CLEAR_PENDING: u32 = 0x280;
const D_CLEAR_ACTIVE: u32 = 0x380;
const D_PRIORITY: u32 = 0x400;
const D_TARGET: u32 = 0x800;

const C_CONTROL: u32 = 0x00;
const C_PRIORITY_MASK: u32 = 0x04;
const C_ACKNOWLEDGE: u32 = 0x0c;
const C_END: u32 = 0x10;

/// One priority for all, above (numerically below) the mask.
const PRIORITY: u32 = 0xa0a0_a0a0;
/// Interrupt numbers from here on mean that there is none.
const SPECIAL: u32 = 1020;

struct Gic<H: Hardware> {
    distributor: H::Registers,
    cpu: H::Registers,
    lines: u32,
}

/// Takes over the controller of `node`: everything disabled, shared interrupts sent to this core.
pub fn probe<H: Hardware>(node: &Node<'_>) -> Result<Box<dyn InterruptController>, BoardError> {
    let (distributor, cpu) = (map::<H>(node, 0)?, map::<H>(node, 1)?);
    if node.reg(0)?.1 < 0x1000 || node.reg(1)?.1 < 0x100 {
        return Err(node.error("reg", "must be 4 KiB of distributor and at least 256 bytes of CPU interface"));
    }
    distributor.write(D_CONTROL, 0);
    let lines = ((distributor.read(D_TYPE) & 0x1f) + 1) * 32;
    for bank in 0..lines / 32 {
        distributor.write(D_CLEAR_ENABLE + 4 * bank, u32::MAX);
        distributor.write(D_CLEAR_PENDING + 4 * bank, u32::MAX);
        // Whoever ran before may have left one without ending it.
        distributor.write(D_CLEAR_ACTIVE + 4 * bank, u32::MAX);
    }
    for word in 0..lines / 4 {
        distributor.write(D_PRIORITY + 4 * word, PRIORITY);
    }
    // The target registers of the private interrupts read as this core's own bit; as 0 where there is one core only,
    // which then needs no targets.
    let this_core = (0..8).fold(0, |all, word| all | distributor.read(D_TARGET + 4 * word));
    let this_core = (this_core | this_core >> 8 | this_core >> 16 | this_core >> 24) & 0xff;
    for word in 8..lines / 4 {
        distributor.write(D_TARGET + 4 * word, this_core * 0x0101_0101);
    }
    distributor.write(D_CONTROL, 1);
    cpu.write(C_PRIORITY_MASK, 0xff);
    cpu.write(C_CONTROL, 1);
    Ok(Box::new(Gic::<H> { distributor, cpu, lines }))
}

impl<H: Hardware> InterruptController for Gic<H> {
    fn line(&self, cells: &[u32]) -> Option<Line> {
        let line = match cells {
            [0, number, _flags] => number.checked_add(32)?,
            [1, number, _flags] if *number < 16 => number + 16,
            _ => return None,
        };
        (line < self.lines.min(SPECIAL)).then_some(Line(line))
    }

    fn enable(&mut self, line: Line) {
        self.distributor.write(D_SET_ENABLE + 4 * (line.0 / 32), 1 << (line.0 % 32));
    }

    fn disable(&mut self, line: Line) {
        self.distributor.write(D_CLEAR_ENABLE + 4 * (line.0 / 32), 1 << (line.0 % 32));
    }

    fn acknowledge(&mut self) -> Option<Line> {
        let id = self.cpu.read(C_ACKNOWLEDGE) & 0x3ff;
        (id < SPECIAL).then_some(Line(id))
    }

    fn end(&mut self, line: Line) {
        // The device's line must be low before the interrupt is ended, or it comes again.
        H::dsb();
        self.cpu.write(C_END, line.0);
    }
}
