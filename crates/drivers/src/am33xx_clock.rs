//! Clocks of the AM335x (AM335x TRM, SPRUH73, chapter 8, and the bindings `ti,clkctrl` and `ti,mux-clock` of the device
//! tree).
//!
//! A module of the chip answers only while its clocks run: an access to one that is off is an external abort. U-Boot
//! turns on what it uses itself (UART0, timer 2, the watchdog), so what else is used here is turned on here. Which
//! register does that is in the device tree: a device lies in a `ti,sysc` node, whose first clock is an offset in a
//! part of the clock manager.
//!
//! How fast a clock runs, the tree tells as well. At the end of the way is the crystal, of which it lists four: the
//! board's pins said at reset which it is, and a register of the control module shows that (CONTROL_STATUS,
//! SYSBOOT\[15:14\]).

use alloc::format;
use alloc::vec::Vec;

use super::error::BoardError;
use super::hardware::{Hardware, Registers};
use super::tree::{Node, Tree};
use super::{PATIENCE, map};

/// CM_…_CLKCTRL: how the module is driven, and how it is.
const MODULE_MODE: u32 = 0x3;
const MODULE_ENABLED: u32 = 0x2;
const IDLE_STATUS: u32 = 0x3 << 16;

/// A clock of a tree that goes on for longer than this is none.
const LONGEST: u32 = 4;

/// Turns on the module that `device` lies in, and waits until it answers. What does not lie in a `ti,sysc` node, or has
/// a clock of another kind, is taken for on.
///
/// # Errors
/// If the module does not come on, or its description does not make sense.
pub fn enable<H: Hardware>(tree: Tree<'_>, device: &Node<'_>) -> Result<(), BoardError> {
    let Some(module) = device.parent().filter(|module| module.is("ti,sysc")) else { return Ok(()) };
    let clocks = module.words("clocks").unwrap_or_default();
    let [phandle, offset, ..] = clocks[..] else { return Ok(()) };
    let Some(control) = tree.phandle(phandle).filter(|clock| clock.is("ti,clkctrl")) else { return Ok(()) };
    let broken = || module.error("clocks", "the first does not lie in a clock manager");
    let manager = control.parent().ok_or_else(broken)?;
    let ((first, _), (start, len)) = (control.reg(0)?, manager.reg(0)?);
    let at = first.0.checked_sub(start.0).and_then(|at| at.checked_add(offset)).ok_or_else(broken)?;
    if !at.is_multiple_of(4) || at >= len {
        return Err(broken());
    }
    let registers = map::<H>(&manager, 0)?;
    let value = registers.read(at);
    if value & MODULE_MODE != MODULE_ENABLED {
        registers.write(at, value & !MODULE_MODE | MODULE_ENABLED);
    }
    if (0..PATIENCE).any(|_| registers.read(at) & IDLE_STATUS == 0) {
        return Ok(());
    }
    Err(module.error("clocks", format!("the module does not come on: its CLKCTRL is {:#x}", registers.read(at))))
}

/// Hz of the clock that `device` counts with, the first of its `clocks`; if the device tree assigns that one a parent,
/// it has it from now on.
///
/// # Errors
/// If the tree does not tell.
pub fn frequency<H: Hardware>(tree: Tree<'_>, device: &Node<'_>) -> Result<u32, BoardError> {
    let unknown = || device.error("clocks", "the first is neither a fixed-clock nor chosen by a ti,mux-clock");
    let first = |name| device.words(name).and_then(|words| words.first().copied());
    let clock = first("clocks").and_then(|clock| tree.phandle(clock)).ok_or_else(unknown)?;
    if let Some(parent) = first("assigned-clock-parents")
        && let Some(mux) = Mux::<H>::new(tree, &clock)?
        && let Some(index) = mux.parents.iter().position(|&phandle| phandle == parent)
    {
        mux.choose(index as u32);
    }
    rate::<H>(tree, clock, LONGEST)?.ok_or_else(unknown)
}

fn rate<H: Hardware>(tree: Tree<'_>, clock: Node<'_>, steps: u32) -> Result<Option<u32>, BoardError> {
    if let Some(rate) = clock.word("clock-frequency") {
        return Ok(Some(rate).filter(|&rate| rate != 0));
    }
    let Some(mux) = Mux::<H>::new(tree, &clock)?.filter(|_| steps > 0) else { return Ok(None) };
    let parent = mux.parents.get(mux.chosen() as usize).and_then(|&phandle| tree.phandle(phandle));
    parent.map_or(Ok(None), |parent| rate::<H>(tree, parent, steps - 1))
}

/// A `ti,mux-clock`: a field of a register says which parent it passes on.
struct Mux<H: Hardware> {
    registers: H::Registers,
    at: u32,
    shift: u32,
    parents: Vec<u32>,
}

impl<H: Hardware> Mux<H> {
    /// The multiplexer of `node`, if it is one. Its `reg` is an offset in the device around the node `clocks` that it
    /// lies in.
    fn new(tree: Tree<'_>, node: &Node<'_>) -> Result<Option<Self>, BoardError> {
        if !node.is("ti,mux-clock") {
            return Ok(None);
        }
        let broken = || node.error("reg", "is not a register of the device around this clock's parent");
        let shift = node.word("ti,bit-shift").unwrap_or(0);
        let device = node.parent().and_then(|clocks| clocks.parent()).ok_or_else(broken)?;
        let at = node.word("reg").ok_or_else(broken)?;
        if !at.is_multiple_of(4) || at >= device.reg(0)?.1 || shift > 31 {
            return Err(broken());
        }
        let mut parents = Vec::new();
        let words = node.words("clocks").unwrap_or_default();
        let mut rest = words.iter();
        while let Some(&phandle) = rest.next() {
            let cells = tree.phandle(phandle).and_then(|parent| parent.word("#clock-cells")).unwrap_or(0);
            rest.by_ref().take(cells as usize).for_each(drop);
            parents.push(phandle);
        }
        Ok(Some(Self { registers: map::<H>(&device, 0)?, at, shift, parents }))
    }

    /// The field has as many bits as the number of the last parent.
    fn mask(&self) -> u32 {
        let last = self.parents.len().saturating_sub(1) as u32;
        last.checked_ilog2().map_or(0, |top| (2 << top) - 1)
    }

    fn chosen(&self) -> u32 {
        self.registers.read(self.at) >> self.shift & self.mask()
    }

    fn choose(&self, index: u32) {
        if self.chosen() != index {
            let others = self.registers.read(self.at) & !(self.mask() << self.shift);
            self.registers.write(self.at, others | index << self.shift);
        }
    }
}
