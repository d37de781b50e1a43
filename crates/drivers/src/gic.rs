//! The Generic Interrupt Controller, architecture versions 1 and 2 (IHI 0048): Cortex-A9, A7, A15, GIC-400.
//!
//! Works in secure and in non-secure state alike: interrupt groups are left as they are (reset, or secure firmware,
//! decided), and both views of the registers used here mean the same.

use alloc::boxed::Box;

use super::error::BoardError;
use super::hardware::{Hardware, Registers};
use super::tree::Node;
use super::{InterruptController, Line, Waiting, map};

const D_CONTROL: u32 = 0x000;
const D_TYPE: u32 = 0x004;
const D_SET_ENABLE: u32 = 0x100;
const D_CLEAR_ENABLE: u32 = 0x180;
const D_CLEAR_PENDING: u32 = 0x280;
const D_ACTIVE: u32 = 0x300;
/// Version 2 only.
const D_CLEAR_ACTIVE: u32 = 0x380;
const D_PRIORITY: u32 = 0x400;
const D_TARGET: u32 = 0x800;
const D_CONFIG: u32 = 0xc00;

const C_CONTROL: u32 = 0x00;
const C_PRIORITY_MASK: u32 = 0x04;
const C_ACKNOWLEDGE: u32 = 0x0c;
const C_END: u32 = 0x10;
const C_RUNNING: u32 = 0x14;
const C_HIGHEST_PENDING: u32 = 0x18;
const C_ID: u32 = 0xfc;

/// One priority for all, above (numerically below) the mask.
const PRIORITY: u32 = 0xa0;
/// [`D_CONFIG`] of 16 interrupts that follow their lines' levels.
const LEVEL: u32 = 0;
/// What [`C_RUNNING`] reads as when no interrupt is active.
const IDLE: u32 = 0xff;
/// Interrupt numbers from here on mean that there is none.
const SPECIAL: u32 = 1020;
/// In what is acknowledged: which core has sent this interrupt to us. 0 for all that do not come from cores.
const SOURCE: u32 = 7 << 10;

struct Gic<H: Hardware> {
    distributor: H::Registers,
    cpu: H::Registers,
    lines: u32,
    /// The [`SOURCE`] of what was acknowledged last; [`C_END`] has to be told of it (IHI 0048B, 4.4.5).
    source: u32,
}

/// Takes over the controller of `node`: everything disabled, shared interrupts sent to this core.
pub fn probe<H: Hardware>(node: &Node<'_>) -> Result<Box<dyn InterruptController>, BoardError> {
    let (distributor, cpu) = (map::<H>(node, 0)?, map::<H>(node, 1)?);
    if node.reg(0)?.1 < 0x1000 || node.reg(1)?.1 < 0x100 {
        return Err(node.error("reg", "must be 4 KiB of distributor and at least 256 bytes of CPU interface"));
    }
    distributor.write(D_CONTROL, 0);
    cpu.write(C_CONTROL, 1);
    cpu.write(C_PRIORITY_MASK, 0xff);
    if cpu.read(C_PRIORITY_MASK) & 0xff <= PRIORITY {
        // The non-secure state cannot raise a mask of the secure one's range (IHI 0048B, 4.4.2).
        return Err(node.error("reg", "secure firmware keeps all interrupts from this state (GICC_PMR)"));
    }
    // The registers' last fields, of 1020 to 1023, are those of no interrupts.
    let lines = (((distributor.read(D_TYPE) & 0x1f) + 1) * 32).min(SPECIAL);
    let mut gic = Gic::<H> { distributor, cpu, lines, source: 0 };
    gic.end_what_is_active();
    let has_clear_active = cpu.read(C_ID) >> 16 & 0xf >= 2;
    for bank in 0..lines.div_ceil(32) {
        distributor.write(D_CLEAR_ENABLE + 4 * bank, u32::MAX);
        distributor.write(D_CLEAR_PENDING + 4 * bank, u32::MAX);
        if has_clear_active {
            // Interrupts that were ended but not deactivated, which are two things if EOImode is on.
            distributor.write(D_CLEAR_ACTIVE + 4 * bank, u32::MAX);
        }
    }
    for word in 0..lines / 4 {
        distributor.write(D_PRIORITY + 4 * word, PRIORITY * 0x0101_0101);
    }
    // Those of the private interrupts are fixed, or not ours to choose. Behind the clearing of the enables: a change of
    // what is enabled is UNPREDICTABLE (4.3.13).
    for word in 2..lines.div_ceil(16) {
        distributor.write(D_CONFIG + 4 * word, LEVEL);
    }
    // The target registers of the private interrupts read as this core's own bit; as 0 where there is one core only,
    // which then needs no targets.
    let this_core = (0..8).fold(0, |all, word| all | distributor.read(D_TARGET + 4 * word));
    let this_core = (this_core | this_core >> 8 | this_core >> 16 | this_core >> 24) & 0xff;
    for word in 8..lines / 4 {
        distributor.write(D_TARGET + 4 * word, this_core * 0x0101_0101);
    }
    distributor.write(D_CONTROL, 1);
    Ok(Box::new(gic))
}

impl<H: Hardware> Gic<H> {
    /// Whoever ran before may have left interrupts without ending them. Then they do not come again, nor does any that
    /// is not more urgent. Version 1 has no other way to clear them, and in no version does anything else let go of the
    /// running priority. The last one comes first, so the most urgent one (IHI 0048B, 4.4.5).
    fn end_what_is_active(&mut self) {
        for _ in 0..self.lines {
            if self.cpu.read(C_RUNNING) & 0xff == IDLE {
                break;
            }
            let active =
                (0..self.lines).filter(|id| self.distributor.read(D_ACTIVE + id / 32 * 4) >> (id % 32) & 1 != 0);
            let Some(id) =
                active.min_by_key(|id| self.distributor.read(D_PRIORITY + id / 4 * 4) >> (id % 4 * 8) & 0xff)
            else {
                break;
            };
            self.end(Line(id));
        }
    }
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
        let acknowledged = self.cpu.read(C_ACKNOWLEDGE);
        let id = acknowledged & 0x3ff;
        if id >= SPECIAL {
            return None;
        }
        self.source = acknowledged & SOURCE;
        Some(Line(id))
    }

    fn end(&mut self, line: Line) {
        // The device's line must be low before the interrupt is ended, or it comes again.
        H::dsb();
        self.cpu.write(C_END, line.0 | self.source);
    }

    fn waiting(&self, line: Line) -> Option<Waiting> {
        // A shared interrupt follows its line's level, as `probe` had it: it waits no longer when that falls, if nobody
        // has acknowledged it (IHI 0048B, 3.2.4). What a private one does is not ours to choose.
        let address = self.cpu.address(C_HIGHEST_PENDING, 4);
        (line.0 >= 32).then_some(Waiting { address, mask: 0x3ff, value: line.0 })
    }
}
