//! The seams of the shadow tables to the machine: memory that the table walker reads, and the TLB.
//!
//! On the board, [`TableMemory`] is a pool of the hypervisor's own RAM and [`HostTlb`] a handful of CP15 writes; in the
//! tests both are models, and the TLB model remembers everything until it is told to forget.

use spica_addr::HostPa;

/// The size in bytes of a first-level table: 4,096 entries, aligned to its size.
pub const FIRST_LEVEL_BYTES: usize = 16 * 1024;
/// The size in bytes of a second-level table: 256 entries, aligned to its size.
pub const SECOND_LEVEL_BYTES: usize = 1024;

/// A translation table of the host: a block of memory that the table walker reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Table {
    /// Where it lies; aligned to its size.
    pub pa: HostPa,
    /// Its size: [`FIRST_LEVEL_BYTES`] or [`SECOND_LEVEL_BYTES`].
    pub bytes: usize,
}

/// Where shadow tables live. The memory must be out of every guest's reach.
pub trait TableMemory {
    /// A zeroed block of `bytes` ([`FIRST_LEVEL_BYTES`] or [`SECOND_LEVEL_BYTES`]), aligned to its size, whose zeroes
    /// the table walker already sees. `None` when the memory is exhausted.
    fn alloc(&mut self, bytes: usize) -> Option<Table>;

    /// Takes a block back. No translation table refers to it any more. The TLB may still hold translations that came
    /// from it, until the next TLB operation of the same call of [`Shadow`](crate::Shadow); no `alloc` comes in
    /// between.
    fn free(&mut self, table: Table);

    /// The word at `index`.
    fn read(&self, table: &Table, index: usize) -> u32;

    /// Stores a word, and makes the table walker see it before returning: on ARMv7 without coherent walks, clean the
    /// line to the point of unification, then DSB (ARM ARM B3.10.1), and ISB where the next instruction may depend on
    /// it.
    fn write(&mut self, table: &Table, index: usize, value: u32);

    /// Stores 0 in all of a second-level table, as that many calls of [`TableMemory::write`] would.
    fn clear(&mut self, table: &Table) {
        self.write_run(table, 0, &[0; SECOND_LEVEL_BYTES / 4]);
    }

    /// Stores `values` from `index` on, as that many calls of [`TableMemory::write`] would. A chance to clean whole
    /// lines and to wait once.
    fn write_run(&mut self, table: &Table, index: usize, values: &[u32]) {
        for (offset, &value) in values.iter().enumerate() {
            self.write(table, index + offset, value);
        }
    }
}

/// The host's TLB. Each operation is complete, barriers included, when it returns.
pub trait HostTlb {
    /// Forgets everything non-global under `asid` (TLBIASID).
    fn flush_asid(&mut self, asid: u8);

    /// Forgets the translation of the page at `va` under `asid` (TLBIMVA).
    fn flush_page(&mut self, va: u32, asid: u8);
}

/// The table memory cannot hold the least that a guest needs in order to run: two first-level tables and one
/// second-level table. It is a mistake of configuration; no guest can bring it about in a pool of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfTables;
