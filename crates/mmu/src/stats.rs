//! What the shadow tables count. Plain additions on slow paths, so always on.

/// Counters of one guest's shadow tables, since it started; the first three are levels, not counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Level: spaces whose entries are usable.
    pub spaces_live: u64,
    /// Level: first-level tables (16 KiB) in use.
    pub first_level_tables: u64,
    /// Level: second-level tables (1 KiB) in use.
    pub second_level_tables: u64,
    /// Spaces made.
    pub spaces_created: u64,
    /// Spaces that took on a new guest ASID, because nothing in them depended on it.
    pub spaces_renamed: u64,
    /// Spaces given up for lack of places or of memory.
    pub spaces_evicted: u64,
    /// Times that the active space had to be emptied, because all other spaces were gone and a table was still needed.
    pub active_emptied: u64,
    /// Sections filled.
    pub section_fills: u64,
    /// Small pages filled.
    pub page_fills: u64,
    /// Fills that found the entry in place already: the fault came from elsewhere, such as a lazily opened domain.
    pub idle_fills: u64,
    /// Faults that turned out to be the guest's own.
    pub guest_faults: u64,
    /// Times that a page was found to be mapped at one virtual address only, of those that were known.
    pub hints_narrowed: u64,
    /// Writes to protected tables of the guest's.
    pub table_writes: u64,
    /// Pages of tables that were written too often, or in bulk, and released.
    pub tables_released: u64,
    /// Guest TLBIALL operations.
    pub invalidate_all: u64,
    /// Guest TLBIMVA and TLBIMVAA operations.
    pub invalidate_page: u64,
    /// Guest TLBIASID operations.
    pub invalidate_asid: u64,
    /// Megabytes dropped by TLBIASID.
    pub megabytes_dropped: u64,
    /// Changes of the guest's DACR that cost all entries.
    pub dacr_drops: u64,
    /// Pages write-protected.
    pub protections: u64,
    /// Scans of all that is populated, to find the writable mappings of one page.
    pub protection_scans: u64,
}
