//! The two cores, and the sizes of what they have.
//!
//! Where the figures are from: the technical reference manuals of the Cortex-A8 (DDI 0344K) and the Cortex-A9
//! (DDI 0388I), J. Hennessy and D. Patterson, *Computer Architecture: A Quantitative Approach*, 5th edition (H&P), and
//! the measurements of a Cortex-A9 published at 7-cpu.com (7-cpu). What the boards' chips choose (the second-level
//! cache) is the chip's: Allwinner's A10 on the Cubieboard; for ARM's Versatile Express, whose test chip has a PL310 of
//! 512 KiB, that one.

use std::fmt;

/// A processor core.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Core {
    /// In-order, two-wide, 13 stages.
    CortexA8,
    /// Out of order, two-wide.
    CortexA9,
}

impl Core {
    /// Both.
    pub const ALL: [Core; 2] = [Core::CortexA8, Core::CortexA9];

    /// Its name in arguments: `a8` or `a9`.
    #[must_use]
    pub const fn key(self) -> &'static str {
        match self {
            Core::CortexA8 => "a8",
            Core::CortexA9 => "a9",
        }
    }

    /// The core of this [`Core::key`].
    #[must_use]
    pub fn from_key(key: &str) -> Option<Core> {
        Core::ALL.into_iter().find(|core| core.key() == key)
    }

    /// What it has.
    #[must_use]
    pub const fn parts(self) -> &'static Parts {
        match self {
            Core::CortexA8 => &CORTEX_A8,
            Core::CortexA9 => &CORTEX_A9,
        }
    }
}

impl fmt::Display for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Core::CortexA8 => "Cortex-A8",
            Core::CortexA9 => "Cortex-A9",
        })
    }
}

/// The form of a cache. All sizes are powers of two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CacheShape {
    /// Its size in bytes.
    pub bytes: u32,
    /// Its ways.
    pub ways: u32,
    /// The bytes of a line.
    pub line: u32,
    /// Whether the set is chosen by the virtual address; the tag is physical in any case.
    pub virtual_index: bool,
}

/// What a core has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Parts {
    /// First-level instruction cache.
    pub instruction_cache: CacheShape,
    /// First-level data cache.
    pub data_cache: CacheShape,
    /// Second-level cache, for both; physically indexed.
    pub outer_cache: CacheShape,
    /// Entries of the TLB that instructions use, and of that for data: fully associative, replaced in turn.
    pub tlb_entries: [usize; 2],
    /// Whether those hold only what runs now: emptied whenever the address space changes, and backed by a main TLB.
    pub micro_tlbs: bool,
    /// Sets and ways of the main TLB, if there is one.
    pub main_tlb: Option<(usize, usize)>,
    /// Whether table walks look into the data cache before the outer one.
    pub walks_in_data_cache: bool,
    /// Sets and ways of the buffer of branch targets.
    pub branch_targets: (usize, usize),
    /// The logarithm of the number of two-bit counters for the direction of branches.
    pub direction_bits: u32,
    /// How many of the last branches choose a counter; the rest of the index is the address.
    pub history_bits: u32,
    /// Entries of the return stack.
    pub return_stack: usize,
    /// Whether a store that misses the data cache brings its line there.
    pub stores_allocate: bool,
    /// Whether instructions overtake others that wait for their operands; then how many may be under way.
    pub window: Option<usize>,
}

const KIB: u32 = 1 << 10;

/// L1: TRM §7.1, H&P §2.6 (virtually indexed, 4 ways, 64-byte lines). L2: TRM §8.2 (8 ways, physically addressed),
/// 256 KiB in the A10. TLBs: TRM §6.1 (32 entries each, fully associative, round robin). Prediction: TRM §5.1
/// (512-entry 2-way BTB, 4096-entry GHB, return stack of 8), with 10 bits of history. That stores that miss
/// go past the data cache is an estimate.
static CORTEX_A8: Parts = Parts {
    instruction_cache: CacheShape { bytes: 32 * KIB, ways: 4, line: 64, virtual_index: true },
    data_cache: CacheShape { bytes: 32 * KIB, ways: 4, line: 64, virtual_index: true },
    outer_cache: CacheShape { bytes: 256 * KIB, ways: 8, line: 64, virtual_index: false },
    tlb_entries: [32, 32],
    micro_tlbs: false,
    main_tlb: None,
    walks_in_data_cache: false,
    branch_targets: (256, 2),
    direction_bits: 12,
    history_bits: 10,
    return_stack: 8,
    stores_allocate: false,
    window: None,
};

/// L1: TRM §7.1 (4 ways, 32-byte lines; instructions virtually indexed, data physically). L2: PL310, 512 KiB. TLBs:
/// TRM §6.2, 7-cpu (micro 32 and 32, main 128 entries in 2 ways). Prediction: TRM §7.3 (2-way BTAC of 512 entries,
/// 4096 counters, return stack of 8); how many bits of history choose a counter, the manual does not say: an
/// estimate, 8. The window is an estimate, too: 56 physical registers (7-cpu), 16 of which are the architecture’s.
/// Stores that miss bring their line: 7-cpu finds so.
static CORTEX_A9: Parts = Parts {
    instruction_cache: CacheShape { bytes: 32 * KIB, ways: 4, line: 32, virtual_index: true },
    data_cache: CacheShape { bytes: 32 * KIB, ways: 4, line: 32, virtual_index: false },
    outer_cache: CacheShape { bytes: 512 * KIB, ways: 8, line: 32, virtual_index: false },
    tlb_entries: [32, 32],
    micro_tlbs: true,
    main_tlb: Some((64, 2)),
    walks_in_data_cache: true,
    branch_targets: (256, 2),
    direction_bits: 12,
    history_bits: 8,
    return_stack: 8,
    stores_allocate: true,
    window: Some(40),
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_name_cores() {
        for core in Core::ALL {
            assert_eq!(Core::from_key(core.key()), Some(core));
        }
        assert_eq!(Core::from_key("a5"), None);
    }
}
