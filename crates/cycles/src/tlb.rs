//! Translation look-aside buffers, with ASIDs and entries of several sizes.

use crate::walk::Translation;

/// A TLB: some sets of some ways each, replaced in turn. With one set it is fully associative.
#[derive(Clone, Debug)]
pub struct Tlb {
    entries: Vec<Option<Translation>>,
    sets: usize,
    ways: usize,
    /// For each set, the way that is replaced next.
    next: Vec<usize>,
    /// The slot of the entry that was used last.
    last: usize,
}

/// The sizes that entries have (B3.5.1), by their logarithms.
const SIZES: [u32; 4] = [12, 16, 20, 24];

impl Tlb {
    /// An empty TLB.
    #[must_use]
    pub fn new(sets: usize, ways: usize) -> Tlb {
        Tlb { entries: vec![None; sets * ways], sets, ways, next: vec![0; sets], last: 0 }
    }

    fn set(&self, address: u32, size_shift: u32) -> usize {
        (address >> size_shift) as usize & (self.sets - 1)
    }

    /// The translation of an address in the address space of an ASID, if it is here.
    pub fn find(&mut self, address: u32, asid: u8) -> Option<Translation> {
        let fits = |e: &Option<Translation>| e.filter(|e| e.covers(address, asid));
        if let Some(entry) = fits(&self.entries[self.last]) {
            return Some(entry);
        }
        // In a TLB of one set, the size makes no difference to where an entry is.
        let sizes = if self.sets == 1 { &SIZES[..1] } else { &SIZES[..] };
        for &size_shift in sizes {
            let first = self.set(address, size_shift) * self.ways;
            let found = self.entries[first..][..self.ways].iter().position(|e| fits(e).is_some());
            if let Some(way) = found {
                self.last = first + way;
                return self.entries[self.last];
            }
        }
        None
    }

    /// Puts a translation in, in the place of the one whose turn it is.
    pub fn put(&mut self, entry: Translation) {
        let set = self.set(entry.address, entry.size_shift);
        let first = set * self.ways;
        let free = self.entries[first..][..self.ways].iter().position(Option::is_none);
        let way = free.unwrap_or_else(|| {
            let way = self.next[set];
            self.next[set] = (way + 1) % self.ways;
            way
        });
        self.last = first + way;
        self.entries[self.last] = Some(entry);
    }

    /// Removes the entries that are so.
    pub fn remove(&mut self, mut is_so: impl FnMut(&Translation) -> bool) {
        self.entries.iter_mut().filter(|e| e.as_ref().is_some_and(&mut is_so)).for_each(|e| *e = None);
    }

    /// Removes all entries.
    pub fn clear(&mut self) {
        self.entries.fill(None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::walk::Rights;

    fn page(address: u32, asid: Option<u8>) -> Translation {
        let (physical, rights) = (address ^ 0x4000_0000, Rights::default());
        Translation { address, size_shift: 12, physical, asid, cached: true, memory: true, rights }
    }

    #[test]
    fn entries_are_of_an_address_space() {
        let mut tlb = Tlb::new(1, 4);
        tlb.put(page(0x1000, Some(3)));
        tlb.put(page(0x2000, None));
        assert_eq!(tlb.find(0x1abc, 3).unwrap().physical, 0x4000_1000);
        assert_eq!(tlb.find(0x1abc, 4), None);
        assert!(tlb.find(0x2abc, 4).is_some());
        tlb.remove(|e| e.asid == Some(3));
        assert_eq!(tlb.find(0x1000, 3), None);
        tlb.clear();
        assert_eq!(tlb.find(0x2000, 3), None);
    }

    #[test]
    fn what_fits_stays_and_the_oldest_goes() {
        let mut tlb = Tlb::new(1, 32);
        (0..32).for_each(|n| tlb.put(page(n << 12, None)));
        assert!((0..32).all(|n| tlb.find(n << 12, 0).is_some()));
        tlb.put(page(32 << 12, None));
        assert_eq!(tlb.find(0, 0), None);
        assert!((1..33).all(|n| tlb.find(n << 12, 0).is_some()));
    }

    #[test]
    fn sets_hold_all_sizes() {
        let mut tlb = Tlb::new(64, 2);
        tlb.put(Translation { size_shift: 20, ..page(0x8010_0000, None) });
        tlb.put(page(0x1000, None));
        assert!(tlb.find(0x801f_f000, 9).is_some() && tlb.find(0x1fff, 9).is_some());
        assert_eq!(tlb.find(0x8020_0000, 9), None);
        // Three pages of one set in two ways.
        [0x0004_1000, 0x0008_1000].into_iter().for_each(|a| tlb.put(page(a, None)));
        assert_eq!(tlb.find(0x1000, 9), None);
    }
}
