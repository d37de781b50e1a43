//! What was located last. A kernel that copies from and to its users' memory takes its faults at a handful of
//! instructions, and a block is translated again to find out which guest instruction one of its words belongs to:
//! thousands of instructions.

use core::cell::Cell;

use spica_addr::CachePc;

use crate::block::Location;
use crate::cache::BlockId;

/// Places, chosen by the address.
const ENTRIES: usize = 16;

/// Locations of code-cache addresses, until the cache is flushed: a block stays what it was made from, dropped or not.
pub(crate) struct Located([Cell<Option<(BlockId, CachePc, Location)>>; ENTRIES]);

impl Located {
    pub(crate) const fn new() -> Located {
        Located([const { Cell::new(None) }; ENTRIES])
    }

    fn place(&self, pc: CachePc) -> &Cell<Option<(BlockId, CachePc, Location)>> {
        &self.0[(pc.0 >> 2) as usize % ENTRIES]
    }

    /// The location of `pc` in `block`, if it is known; else what `find` finds is kept.
    pub(crate) fn get(&self, block: BlockId, pc: CachePc, find: impl FnOnce() -> Option<Location>) -> Option<Location> {
        let place = self.place(pc);
        match place.get() {
            Some((known, at, location)) if (known, at) == (block, pc) => Some(location),
            _ => {
                let location = find()?;
                place.set(Some((block, pc, location)));
                Some(location)
            }
        }
    }

    /// Forgets all: there will be other blocks.
    pub(crate) fn clear(&mut self) {
        *self = Located::new();
    }
}
