//! What walks have read: where tables are, and what their descriptors were when a walk last saw them for certain.
//!
//! A walk that comes before the DSB behind a store to a table may read the old descriptor (B3.10.1); where it does not
//! look into the data cache, before the line is cleaned as well ([`crate::code`] knows). If the old one raises a fault,
//! an operating system may take that fault and find nothing to do; if it leads elsewhere, nobody notices.

use crate::hash::Map;

/// The shift of a block of memory that has descriptors: the smaller of the two kinds of table.
const BLOCK_SHIFT: u32 = 10;
/// How many descriptors are remembered.
const MOST: usize = 1 << 21;

/// The board's memory.
#[derive(Debug)]
pub struct Tables {
    start: u32,
    blocks: Vec<bool>,
    seen: Map<u32, u32>,
}

impl Tables {
    /// So many bytes of memory, without a table.
    #[must_use]
    pub fn new(start: u32, bytes: u32) -> Tables {
        Tables { start, blocks: vec![false; (bytes >> BLOCK_SHIFT) as usize], seen: Map::default() }
    }

    /// Whether there is a descriptor nearby that a walk has read.
    #[inline]
    #[must_use]
    pub fn holds(&self, physical: u32) -> bool {
        self.blocks.get((physical.wrapping_sub(self.start) >> BLOCK_SHIFT) as usize).is_some_and(|&is| is)
    }

    /// What a walk last saw for certain of a descriptor.
    #[must_use]
    pub fn seen(&self, physical: u32) -> Option<u32> {
        self.seen.get(&physical).copied()
    }

    /// A walk reads a descriptor. If it might see an older one, gives that; `None` in it is one that no walk has read.
    pub fn read(&mut self, physical: u32, descriptor: u32, is_seen: bool) -> Option<Option<u32>> {
        let block = self.blocks.get_mut((physical.wrapping_sub(self.start) >> BLOCK_SHIFT) as usize);
        block.into_iter().for_each(|block| *block = true);
        if !is_seen {
            return Some(self.seen(physical));
        }
        if self.seen.len() == MOST {
            self.seen.clear();
        }
        self.seen.insert(physical, descriptor);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_older_descriptor_is_the_last_that_was_seen() {
        let mut tables = Tables::new(0x4000_0000, 0x1_0000);
        assert!(!tables.holds(0x4000_4000));
        assert_eq!(tables.read(0x4000_4000, 1, true), None);
        assert_eq!(tables.read(0x4000_4000, 2, false), Some(Some(1)));
        assert_eq!(tables.read(0x4000_4000, 3, false), Some(Some(1)));
        assert_eq!(tables.read(0x4000_4004, 3, false), Some(None));
        assert_eq!(tables.read(0x4000_4000, 4, true), None);
        assert_eq!(tables.read(0x4000_4000, 5, false), Some(Some(4)));
        assert!(tables.holds(0x4000_43ff) && !tables.holds(0x4000_4400) && !tables.holds(0));
        // Outside of memory.
        assert_eq!(tables.read(0x1000_0000, 4, true), None);
    }
}
