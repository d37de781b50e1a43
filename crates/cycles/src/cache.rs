//! Caches: which lines they hold, not what is in them.

use crate::core::CacheShape;

/// A line that is not there. Tags are line numbers, and there are fewer of them.
const NONE: u32 = u32::MAX;

/// A cache. Lines are known by their physical addresses; which set they are in may depend on the virtual one.
#[derive(Clone, Debug)]
pub struct Cache {
    tags: Vec<u32>,
    ways: usize,
    sets: usize,
    line_shift: u32,
    virtual_index: bool,
    /// For the choice of the way to replace.
    random: u32,
    /// The line that was used last, by its virtual and physical numbers: most accesses are to it again.
    last: (u32, u32),
}

impl Cache {
    /// An empty cache.
    ///
    /// # Panics
    /// If a size is no power of two.
    #[must_use]
    pub fn new(shape: CacheShape) -> Cache {
        let sets = shape.bytes / shape.line / shape.ways;
        assert!(sets.is_power_of_two() && shape.line.is_power_of_two(), "{shape:?}");
        Cache {
            tags: vec![NONE; (sets * shape.ways) as usize],
            ways: shape.ways as usize,
            sets: sets as usize,
            line_shift: shape.line.trailing_zeros(),
            virtual_index: shape.virtual_index,
            random: 0x9e37_79b9,
            last: (NONE, NONE),
        }
    }

    /// The logarithm of the bytes of a line.
    #[must_use]
    pub const fn line_shift(&self) -> u32 {
        self.line_shift
    }

    fn set(&mut self, address: u32, physical: u32) -> &mut [u32] {
        let index = if self.virtual_index { address } else { physical };
        let set = (index >> self.line_shift) as usize & (self.sets - 1);
        &mut self.tags[set * self.ways..][..self.ways]
    }

    /// Looks the line of an address up, and fetches it if it is not there. Whether it was.
    pub fn touch(&mut self, address: u32, physical: u32) -> bool {
        let tag = physical >> self.line_shift;
        let now = (address >> self.line_shift, tag);
        if now == self.last {
            return true;
        }
        self.last = now;
        let set = self.set(address, physical);
        if set.contains(&tag) {
            return true;
        }
        let free = set.iter().position(|t| *t == NONE);
        let way = free.unwrap_or_else(|| self.victim());
        self.set(address, physical)[way] = tag;
        false
    }

    /// Whether the line of an address is there. Nothing changes.
    #[must_use]
    pub fn holds(&self, address: u32, physical: u32) -> bool {
        let index = if self.virtual_index { address } else { physical };
        let set = (index >> self.line_shift) as usize & (self.sets - 1);
        self.tags[set * self.ways..][..self.ways].contains(&(physical >> self.line_shift))
    }

    /// The way to replace: pseudo-random, as the manuals of both cores and of the PL310 have it (xorshift).
    fn victim(&mut self) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 17;
        self.random ^= self.random << 5;
        (self.random >> 8) as usize % self.ways
    }

    /// Removes the line of an address.
    pub fn invalidate(&mut self, address: u32, physical: u32) {
        let tag = physical >> self.line_shift;
        self.set(address, physical).iter_mut().filter(|t| **t == tag).for_each(|t| *t = NONE);
        self.last = (NONE, NONE);
    }

    /// Removes all lines.
    pub fn clear(&mut self) {
        self.tags.fill(NONE);
        self.last = (NONE, NONE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: CacheShape = CacheShape { bytes: 4096, ways: 4, line: 32, virtual_index: false };

    /// The same cache, written as plainly as can be: sets of lines, without an order.
    fn plain(accesses: &[u32]) -> usize {
        let mut lines = std::collections::BTreeSet::new();
        accesses.iter().filter(|a| !lines.insert(**a >> 5)).count()
    }

    #[test]
    fn what_fits_is_missed_once() {
        let mut cache = Cache::new(SHAPE);
        // Four times over all lines, in an order that leaps.
        let accesses: Vec<u32> = (0..4 * 128u32).map(|n| (n * 37 % 128) * 32 + n % 32).collect();
        let hits = accesses.iter().filter(|a| cache.touch(**a, **a)).count();
        assert_eq!(hits, plain(&accesses));
        assert_eq!(hits, 3 * 128);
    }

    #[test]
    fn more_than_fits_is_missed_again() {
        let mut cache = Cache::new(SHAPE);
        let round = |cache: &mut Cache, lines: u32| (0..lines).filter(|n| cache.touch(n * 32, n * 32)).count();
        round(&mut cache, 256);
        let hits = round(&mut cache, 256);
        assert!(hits < 128, "{hits} of 256 lines in a cache of 128");
    }

    #[test]
    fn a_virtual_index_keeps_aliases_apart() {
        let mut cache = Cache::new(CacheShape { bytes: 32 << 10, virtual_index: true, ..SHAPE });
        assert!(!cache.touch(0x1000, 0x4000));
        assert!(!cache.touch(0x2000, 0x4000), "the other colour");
        assert!(cache.touch(0x1000, 0x4000));
        cache.invalidate(0x1000, 0x4000);
        assert!(!cache.touch(0x1000, 0x4000) && cache.touch(0x2000, 0x4000));
        cache.clear();
        assert!(!cache.holds(0x2000, 0x4000) && !cache.touch(0x2000, 0x4000));
    }

    #[test]
    fn a_line_that_was_just_fetched_is_there() {
        let mut cache = Cache::new(SHAPE);
        let mut random = 1u32;
        for _ in 0..10_000 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let address = random >> 12;
            cache.touch(address, address);
            assert!(cache.holds(address, address) && cache.touch(address ^ 1, address ^ 1));
        }
    }
}
