//! The memory of shadow tables, and the real TLB behind them.

use spica_addr::HostPa;
use spica_mmu::{HostTlb, Pool, Table, TableMemory};

use crate::arch::{cache, tlb};
use crate::memory::pool::Block;

/// Shadow tables in a block of the hypervisor's pool.
pub struct Tables {
    block: Block,
    pool: Pool,
}

impl Tables {
    /// Tables in `block`, which is aligned to 16 KiB.
    pub fn new(block: Block) -> Tables {
        let pool = Pool::new(block.pa(), block.len() as usize);
        Tables { block, pool }
    }

    /// Bytes in use, and bytes there are.
    pub fn usage(&self) -> (usize, usize) {
        (self.pool.used_bytes(), self.pool.total_bytes())
    }

    /// Stores `words` from `index` on in a table that holds instructions, where fetches see them.
    pub fn write_code(&mut self, table: &Table, index: usize, words: &[u32]) {
        let start = self.start(table) + index;
        self.block.words_mut()[start..start + words.len()].copy_from_slice(words);
        cache::clean_to_pou(self.va(table.pa) + 4 * index as u32, 4 * words.len() as u32);
    }

    /// The word at `pa`, which is in a table.
    #[cfg(feature = "check-fast-paths")]
    pub fn word(&self, pa: HostPa) -> u32 {
        self.block.words()[(pa.0.wrapping_sub(self.block.pa().0) / 4) as usize]
    }

    /// What makes the address of a table of its host PA.
    pub fn va_offset(&self) -> u32 {
        self.block.va().wrapping_sub(self.block.pa().0)
    }

    fn start(&self, table: &Table) -> usize {
        (table.pa.0.wrapping_sub(self.block.pa().0) / 4) as usize
    }

    fn va(&self, pa: HostPa) -> u32 {
        self.block.va() + pa.0.wrapping_sub(self.block.pa().0)
    }
}

impl TableMemory for Tables {
    fn alloc(&mut self, bytes: usize) -> Option<Table> {
        let table = self.pool.alloc(bytes)?;
        self.clear(&table);
        Some(table)
    }

    fn clear(&mut self, table: &Table) {
        let start = self.start(table);
        cache::clear(&mut self.block.words_mut()[start..start + table.bytes / 4]);
        cache::clean_table(self.va(table.pa), table.bytes as u32);
    }

    fn free(&mut self, table: Table) {
        self.pool.free(table);
    }

    fn read(&self, table: &Table, index: usize) -> u32 {
        self.block.words()[self.start(table) + index]
    }

    fn write(&mut self, table: &Table, index: usize, value: u32) {
        self.write_run(table, index, &[value]);
    }

    fn write_run(&mut self, table: &Table, index: usize, values: &[u32]) {
        let start = self.start(table) + index;
        self.block.words_mut()[start..start + values.len()].copy_from_slice(values);
        cache::clean_table(self.va(table.pa) + 4 * index as u32, 4 * values.len() as u32);
    }
}

/// The real TLB.
pub struct RealTlb;

impl HostTlb for RealTlb {
    fn flush_asid(&mut self, asid: u8) {
        tlb::invalidate_asid(u32::from(asid));
    }

    fn flush_page(&mut self, va: u32, asid: u8) {
        tlb::invalidate_page(va, u32::from(asid));
    }
}
