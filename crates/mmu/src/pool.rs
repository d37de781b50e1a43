//! Bookkeeping for table memory: which kilobytes of a contiguous region are in use.
//!
//! A [`Pool`] touches no memory; the board's [`TableMemory`](crate::TableMemory) pairs it with the region itself. The
//! region is an array of 16 KiB blocks. A block is free, one first-level table, or split into sixteen second-level
//! tables; it is whole again when the last of them comes back, so that first-level tables do not starve.
//!
//! A linear search with a hint, because a pool has a few hundred blocks and second-level tables come in runs.

use crate::table::{FIRST_LEVEL_BYTES, SECOND_LEVEL_BYTES, Table};
use alloc::{vec, vec::Vec};
use spica_addr::HostPa;

/// One 16 KiB block: a bit per kilobyte in use, or the mark of a first-level table.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Block {
    Split(u16),
    Whole,
}

const FREE: Block = Block::Split(0);

/// An allocator for translation tables in one region of host memory.
pub struct Pool {
    base: HostPa,
    blocks: Vec<Block>,
    /// Where the last second-level table was found.
    hint: usize,
    used_bytes: usize,
}

impl Pool {
    /// A pool over `bytes` of host memory from `base`; `base` is a multiple of 16 KiB, and a tail of `bytes` that does
    /// not fill a block is left alone.
    ///
    /// # Panics
    /// If `base` is not aligned.
    #[must_use]
    pub fn new(base: HostPa, bytes: usize) -> Self {
        assert!((base.0 as usize).is_multiple_of(FIRST_LEVEL_BYTES), "table pool at {base} is not 16 KiB aligned");
        Self { base, blocks: vec![FREE; bytes / FIRST_LEVEL_BYTES], hint: 0, used_bytes: 0 }
    }

    /// A block of `bytes` ([`FIRST_LEVEL_BYTES`] or [`SECOND_LEVEL_BYTES`]); its content is whatever was there before.
    ///
    /// # Panics
    /// For any other size.
    pub fn alloc(&mut self, bytes: usize) -> Option<Table> {
        let offset = match bytes {
            FIRST_LEVEL_BYTES => self.alloc_whole()?,
            SECOND_LEVEL_BYTES => self.alloc_kilobyte()?,
            _ => panic!("no translation table has {bytes} bytes"),
        };
        self.used_bytes += bytes;
        Some(Table { pa: self.base.wrapping_add(offset as u32), bytes })
    }

    fn alloc_whole(&mut self) -> Option<usize> {
        // From the top, so that first-level tables do not land between the kilobytes.
        let block = self.blocks.iter().rposition(|&block| block == FREE)?;
        self.blocks[block] = Block::Whole;
        Some(block * FIRST_LEVEL_BYTES)
    }

    fn alloc_kilobyte(&mut self) -> Option<usize> {
        let has_room = |block: &Block| matches!(block, Block::Split(used) if *used != u16::MAX);
        let partial = |block: &Block| has_room(block) && *block != FREE;
        let found = match self.blocks.get(self.hint) {
            Some(block) if partial(block) => self.hint,
            _ => self.blocks.iter().position(partial).or_else(|| self.blocks.iter().position(has_room))?,
        };
        self.hint = found;
        let Block::Split(used) = &mut self.blocks[found] else { unreachable!("a whole block has no room") };
        let kilobyte = used.trailing_ones() as usize;
        *used |= 1 << kilobyte;
        Some(found * FIRST_LEVEL_BYTES + kilobyte * SECOND_LEVEL_BYTES)
    }

    /// Takes a table back.
    ///
    /// # Panics
    /// If the table is not one that this pool gave out and has not got back.
    pub fn free(&mut self, table: Table) {
        let offset = table.pa.0.wrapping_sub(self.base.0) as usize;
        let block = self.blocks.get_mut(offset / FIRST_LEVEL_BYTES).expect("table is not from this pool");
        match (*block, table.bytes) {
            (Block::Whole, FIRST_LEVEL_BYTES) => *block = FREE,
            (Block::Split(used), SECOND_LEVEL_BYTES) => {
                let bit = 1 << (offset % FIRST_LEVEL_BYTES / SECOND_LEVEL_BYTES);
                assert!(used & bit != 0, "second-level table at {} freed twice", table.pa);
                *block = Block::Split(used & !bit);
            }
            _ => panic!("{} bytes at {} were not given out as such", table.bytes, table.pa),
        }
        self.used_bytes -= table.bytes;
    }

    /// How many bytes are given out.
    #[must_use]
    pub fn used_bytes(&self) -> usize {
        self.used_bytes
    }

    /// How many bytes the pool manages.
    #[must_use]
    pub fn total_bytes(&self) -> usize {
        self.blocks.len() * FIRST_LEVEL_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_split_and_heal() {
        let mut pool = Pool::new(HostPa(0x8000_4000), 2 * FIRST_LEVEL_BYTES);
        let small: Vec<Table> = (0..16).map(|_| pool.alloc(SECOND_LEVEL_BYTES).unwrap()).collect();
        let root = pool.alloc(FIRST_LEVEL_BYTES).unwrap();
        assert_eq!(root.pa, HostPa(0x8000_8000));
        assert_eq!(pool.alloc(SECOND_LEVEL_BYTES), None);
        for (index, table) in small.iter().enumerate() {
            assert_eq!(table.pa.0, 0x8000_4000 + index as u32 * 1024);
            assert_eq!(pool.alloc(FIRST_LEVEL_BYTES), None);
            pool.free(*table);
        }
        assert_eq!(pool.alloc(FIRST_LEVEL_BYTES).unwrap().pa, HostPa(0x8000_4000));
        pool.free(root);
        assert_eq!(pool.used_bytes(), FIRST_LEVEL_BYTES);
        assert_eq!(pool.total_bytes(), 2 * FIRST_LEVEL_BYTES);
    }

    #[test]
    #[should_panic(expected = "freed twice")]
    fn a_double_free_is_noticed() {
        let mut pool = Pool::new(HostPa(0), FIRST_LEVEL_BYTES);
        let keep = pool.alloc(SECOND_LEVEL_BYTES).unwrap();
        let table = pool.alloc(SECOND_LEVEL_BYTES).unwrap();
        assert_ne!(keep, table);
        pool.free(table);
        pool.free(table);
    }
}
