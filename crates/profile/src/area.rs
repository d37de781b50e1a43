//! What the counting plugin and its reader share: a file of counters, one for each word of code that matters, and a
//! copy of that code.
//!
//! Places are worked out from addresses alone, so there is nothing to look up and nothing to run full: the regions of
//! Spica's own address space (`crates/hypervisor/src/layout.rs`) have a counter for each word, all else is summed. The
//! file is sparse.

use std::ops::Range;

use spica_cycles::Count;

use crate::cycles::Places;
use crate::slow::KINDS;

/// The code cache in the hypervisor region.
pub const CACHE: Range<u32> = 0xf180_0000..0xf200_0000;
/// The code cache near a guest's kernel that begins at 0xC000_0000 and runs in place.
pub const NEAR: Range<u32> = 0xbfa0_0000..0xbfe0_0000;
/// The return mirror.
pub const MIRROR: Range<u32> = 0xf200_0000..0xf480_0000;
/// Spica's image.
pub const IMAGE: Range<u32> = 0xf600_0000..0xf620_0000;
/// The first address of guest kernels here: the modules of Linux.
const KERNEL: u32 = 0xbf00_0000;
/// Linux's user helpers: a page of the kernel's that user code executes.
const USER_HELPERS: Range<u32> = 0xffff_0f00..0xffff_1000;

/// The counter of all that is executed at addresses of user code, and before the MMU is on.
pub const USER: usize = 0;
/// The counter of what is executed at a kernel's addresses: under Spica, in place.
pub const KERNEL_CODE: usize = 1;
/// The counter of the return mirror.
pub const REFLECTED: usize = 2;
/// The counter of all that is executed in the image.
pub const OF_THE_IMAGE: usize = 3;
/// The counter of branches that stand in a kernel's code in place, and lead to stubs.
pub const TO_STUBS: usize = 4;
/// The counter of blocks at a kernel's addresses that are executed for the first time, as QEMU divides code.
pub const NEW_BLOCKS: usize = 5;
const FIRST_KIND: usize = 6;
const FIRST_WORD: usize = FIRST_KIND + 2 * KINDS;
const OF_CACHE: usize = (CACHE.end - CACHE.start) as usize / 4;
/// Words of the code cache, in the one place and in the other.
const CACHE_WORDS: usize = OF_CACHE + (NEAR.end - NEAR.start) as usize / 4;
const IMAGE_WORDS: usize = (IMAGE.end - IMAGE.start) as usize / 4;
/// How many counters there are, of 64 bits each.
pub const COUNTERS: usize = FIRST_WORD + CACHE_WORDS + IMAGE_WORDS;
/// Bytes of the file: the counters, then the words of the code cache.
pub const BYTES: usize = COUNTERS * size_of::<u64>() + CACHE_WORDS * size_of::<u32>();

/// Bytes of a page of code.
pub const PAGE: usize = 4096;

/// The number of the word of the code cache at an address.
fn cached(address: u32) -> Option<usize> {
    if CACHE.contains(&address) {
        Some((address - CACHE.start) as usize / 4)
    } else {
        NEAR.contains(&address).then(|| OF_CACHE + (address - NEAR.start) as usize / 4)
    }
}

/// Whether an address is one of the code cache.
#[must_use]
pub fn is_cached(address: u32) -> bool {
    cached(address).is_some()
}

/// The addresses of the pages of the code cache.
pub fn cached_pages() -> impl Iterator<Item = u32> {
    CACHE.step_by(PAGE).chain(NEAR.step_by(PAGE))
}

/// The counter of an instruction, by its address and its word.
#[must_use]
pub fn counter_of(address: u32, word: u32) -> usize {
    match counter(address) {
        KERNEL_CODE if leads_to_a_stub(address, word) => TO_STUBS,
        counter => counter,
    }
}

/// Whether `B` (A8.8.18), without a condition, leads to [`NEAR`]. No kernel branches there by itself.
fn leads_to_a_stub(address: u32, word: u32) -> bool {
    let offset = ((word << 8).cast_signed() >> 6).cast_unsigned();
    word >> 24 == 0xea && NEAR.contains(&address.wrapping_add(8).wrapping_add(offset))
}

/// The counter of the instruction at an address.
#[must_use]
pub fn counter(address: u32) -> usize {
    if let Some(word) = cached(address) {
        FIRST_WORD + word
    } else if IMAGE.contains(&address) {
        FIRST_WORD + CACHE_WORDS + (address - IMAGE.start) as usize / 4
    } else if MIRROR.contains(&address) {
        REFLECTED
    } else if address >= KERNEL && !USER_HELPERS.contains(&address) {
        KERNEL_CODE
    } else {
        USER
    }
}

/// The counters of a kind of slow trap: its instructions, and how often.
#[must_use]
pub fn of_kind(kind: usize) -> [usize; 2] {
    let first = FIRST_KIND + 2 * kind.min(KINDS - 1);
    [first, first + 1]
}

/// Where in the file the copy of the code page with this address is, in bytes; `None` outside of the code cache.
#[must_use]
pub fn copy_of_page(address: u32) -> Option<usize> {
    let page = cached(address & !(PAGE as u32 - 1))?;
    Some(COUNTERS * size_of::<u64>() + page * size_of::<u32>())
}

/// What had been counted at some time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Counted {
    /// The instructions executed since reset, as QEMU says.
    pub executed: u64,
    counters: Vec<u64>,
    /// The words of the code cache.
    code: Vec<u32>,
}

impl Counted {
    /// Nothing yet.
    #[must_use]
    pub fn nothing() -> Self {
        Self { executed: 0, counters: vec![0; COUNTERS], code: vec![0; CACHE_WORDS] }
    }

    /// From the bytes of the file; `None` if these are not all.
    #[must_use]
    pub fn from_bytes(executed: u64, bytes: &[u8]) -> Option<Self> {
        let (counters, code) = bytes.get(..BYTES)?.split_at(COUNTERS * size_of::<u64>());
        let counters = counters.as_chunks().0.iter().map(|bytes| u64::from_ne_bytes(*bytes)).collect();
        let code = code.as_chunks().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect();
        Some(Self { executed, counters, code })
    }

    /// The same of a run in which a model noted what is due to each instruction (`spica_cycles::ledger`): the bytes
    /// have the copies of code alone. Slow traps are not told apart then.
    #[must_use]
    pub fn of_places(executed: u64, bytes: &[u8], places: &Places) -> Option<Self> {
        let mut counted = Self::from_bytes(executed, bytes)?;
        for (&address, counts) in places {
            let instructions = counts.get(Count::Instructions);
            counted.counters[counter(address)] += instructions;
            if IMAGE.contains(&address) {
                counted.counters[OF_THE_IMAGE] += instructions;
            }
        }
        Some(counted)
    }

    /// The words of the code page at an address; none if it is none of the code cache.
    #[must_use]
    pub fn page(&self, address: u32) -> &[u32] {
        let first = cached(address & !(PAGE as u32 - 1)).unwrap_or(CACHE_WORDS);
        self.code.get(first..first + PAGE / 4).unwrap_or(&[])
    }
}

/// What was counted in a window of time, or in one less another.
#[derive(Clone, Copy, Debug)]
pub struct Window<'a> {
    from: &'a Counted,
    to: &'a Counted,
    /// A window that is taken off.
    less: Option<(&'a Counted, &'a Counted)>,
}

impl<'a> Window<'a> {
    /// From one time to another.
    #[must_use]
    pub fn between(from: &'a Counted, to: &'a Counted) -> Self {
        Self { from, to, less: None }
    }

    /// What the window from `middle` to `to` has more than the one from `from` to `middle`: of a workload that is done
    /// twice as often in it, that much of the work, without beginning and end.
    #[must_use]
    pub fn beyond(from: &'a Counted, middle: &'a Counted, to: &'a Counted) -> Self {
        Self { from: middle, to, less: Some((from, middle)) }
    }

    fn difference(&self, of: impl Fn(&Counted) -> u64) -> i64 {
        let between = |from, to| of(to).wrapping_sub(of(from)).cast_signed();
        between(self.from, self.to) - self.less.map_or(0, |(from, to)| between(from, to))
    }

    /// The instructions that QEMU says were executed.
    #[must_use]
    pub fn executed(&self) -> i64 {
        self.difference(|counted| counted.executed)
    }

    /// What a counter counted.
    #[must_use]
    pub fn counter(&self, counter: usize) -> i64 {
        self.difference(|counted| counted.counters[counter])
    }

    /// How often the instruction at an address of the code cache or the image was executed.
    #[must_use]
    pub fn at(&self, address: u32) -> i64 {
        self.counter(counter(address))
    }

    /// The code cache at the end.
    #[must_use]
    pub fn code(&self) -> &'a Counted {
        self.to
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_address_has_its_counter() {
        assert_eq!(counter(0x1_0000), USER);
        assert_eq!(counter(0xffff_0fe0), USER);
        assert_eq!(counter(0xffff_0008), KERNEL_CODE);
        assert_eq!(counter(0xc010_0000), KERNEL_CODE);
        assert_eq!(counter(MIRROR.start), REFLECTED);
        assert_eq!(of_kind(KINDS - 1)[1] + 1, counter(CACHE.start));
        assert_eq!(counter(CACHE.start), FIRST_WORD);
        assert_eq!(counter(CACHE.end - 4) + 1, counter(NEAR.start));
        assert_eq!(counter(NEAR.end - 4) + 1, counter(IMAGE.start));
        // B to the first word of the cache near a kernel, and to the one in front of it.
        assert_eq!(counter_of(0xc010_0000, 0xeae3_fffe), TO_STUBS);
        assert_eq!(counter_of(0xc010_0000, 0xeae3_fffd), KERNEL_CODE);
        assert_eq!(counter_of(NEAR.start, 0xea00_0000), counter(NEAR.start));
        assert_eq!(counter(IMAGE.end - 4) + 1, COUNTERS);
        assert_eq!(copy_of_page(NEAR.end - 4), Some(BYTES - PAGE));
        assert_eq!(copy_of_page(CACHE.end - 4).map(|page| page + PAGE), copy_of_page(NEAR.start));
        assert_eq!((copy_of_page(MIRROR.start), copy_of_page(0)), (None, None));
    }

    #[test]
    fn windows_are_differences() {
        let at = |executed: u64, n: u64| {
            let mut bytes = vec![0; BYTES];
            bytes[..8].copy_from_slice(&n.to_ne_bytes());
            Counted::from_bytes(executed, &bytes).unwrap()
        };
        let (a, b, c) = (at(100, 7), at(200, 10), at(500, 20));
        assert_eq!((Window::between(&a, &b).executed(), Window::between(&a, &b).counter(USER)), (100, 3));
        let more = Window::beyond(&a, &b, &c);
        assert_eq!((more.executed(), more.counter(USER)), (200, 7));
        assert_eq!(Counted::from_bytes(0, &[0; 8]), None);
    }
}
