//! The watchdog of the AM335x (AM335x TRM, SPRUH73, section 20.4), which resets the board unless it is fed.
//!
//! The ROM starts it and U-Boot stops it; but U-Boot may start it again before it boots a kernel, for that kernel's
//! driver to go on. Spica feeds no watchdog, so it stops this one.

use super::error::BoardError;
use super::hardware::{Hardware, Registers};
use super::tree::{Node, Tree};
use super::{PATIENCE, am33xx_clock, map};

/// Writes that are under way.
const PENDING: u32 = 0x34;
const START_STOP: u32 = 0x48;

/// PENDING: of START_STOP.
const START_STOP_PENDING: u32 = 1 << 4;
/// Written to START_STOP one after the other.
const STOP: [u32; 2] = [0xaaaa, 0x5555];

/// Stops the watchdog of `node`.
pub fn stop<H: Hardware>(tree: Tree<'_>, node: &Node<'_>) -> Result<(), BoardError> {
    am33xx_clock::enable::<H>(tree, node)?;
    let registers = map::<H>(node, 0)?;
    if node.reg(0)?.1 < START_STOP + 4 {
        return Err(node.error("reg", "is too small for the watchdog's registers"));
    }
    for word in STOP {
        registers.write(START_STOP, word);
        if !(0..PATIENCE).any(|_| registers.read(PENDING) & START_STOP_PENDING == 0) {
            return Err(node.error("reg", "the watchdog does not take a write to WDT_WSPR"));
        }
    }
    Ok(())
}
