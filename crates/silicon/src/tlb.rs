//! A TLB that forgets nothing by itself.
//!
//! What was used may stay until it is invalidated, and the invalidation is complete with a DSB; an instruction fetch
//! may use it until the ISB behind that (B3.10.1). Invalidations take entries out of the tables below, to where they
//! wait for their barriers, so that invalidating all costs no more than invalidating one.

use spica_cycles::walk::Translation;

use crate::hash::Map;

/// Sizes of entries (B3.5.1), by their logarithms.
const SIZES: [u32; 4] = [12, 16, 20, 24];
/// Where entries of all address spaces are; the others are at their ASIDs.
const GLOBAL: usize = 256;
/// How many entries are kept in all.
const MOST: usize = 1 << 20;

/// The key of an entry: its address, with its size in the lower bits.
const fn key(address: u32, size_shift: u32) -> u32 {
    address & (u32::MAX << size_shift) | size_shift
}

type Entries = Map<u32, Translation>;

/// Entries of one address space that were invalidated.
#[derive(Debug)]
struct Dying {
    space: usize,
    entries: Entries,
    /// Whether there was a DSB since.
    complete: bool,
}

/// The TLB.
#[derive(Debug)]
pub struct Tlb {
    spaces: Vec<Entries>,
    held: usize,
    dying: Vec<Dying>,
    /// How many entries were invalidated.
    pub invalidated: u64,
}

impl Default for Tlb {
    fn default() -> Tlb {
        Tlb { spaces: (0..=GLOBAL).map(|_| Entries::default()).collect(), held: 0, dying: Vec::new(), invalidated: 0 }
    }
}

fn space(asid: Option<u8>) -> usize {
    asid.map_or(GLOBAL, usize::from)
}

impl Tlb {
    /// Calls for each entry that the core may use for an address.
    pub fn each(&self, address: u32, asid: u8, fetch: bool, mut found: impl FnMut(&Translation)) {
        for at in [GLOBAL, asid.into()] {
            let dying = self.dying.iter().filter(|d| d.space == at && (fetch || !d.complete)).map(|d| &d.entries);
            for entries in dying.chain([&self.spaces[at]]).filter(|entries| !entries.is_empty()) {
                SIZES.iter().filter_map(|&size| entries.get(&key(address, size))).for_each(&mut found);
            }
        }
    }

    /// An entry was used. It takes the place of one of the same size.
    pub fn put(&mut self, entry: Translation) {
        if self.held == MOST {
            self.spaces.iter_mut().for_each(Entries::clear);
            self.held = 0;
        }
        let old = self.spaces[space(entry.asid)].insert(key(entry.address, entry.size_shift), entry);
        self.held += usize::from(old.is_none());
    }

    /// Drops what the core may use for an address, as if it had been invalidated: it was complained of.
    pub fn forgive(&mut self, address: u32, asid: u8) {
        for at in [GLOBAL, asid.into()] {
            for size in SIZES {
                self.held -= usize::from(self.spaces[at].remove(&key(address, size)).is_some());
            }
        }
        for dying in &mut self.dying {
            if dying.space == GLOBAL || dying.space == usize::from(asid) {
                for size in SIZES {
                    dying.entries.remove(&key(address, size));
                }
            }
        }
    }

    fn doom(&mut self, space: usize, entries: Entries) {
        self.held -= entries.len();
        self.invalidated += entries.len() as u64;
        if !entries.is_empty() {
            self.dying.push(Dying { space, entries, complete: false });
        }
    }

    /// TLBIALL.
    pub fn invalidate_all(&mut self) {
        for at in 0..=GLOBAL {
            if !self.spaces[at].is_empty() {
                let entries = std::mem::take(&mut self.spaces[at]);
                self.doom(at, entries);
            }
        }
    }

    /// TLBIASID.
    pub fn invalidate_asid(&mut self, asid: u8) {
        let entries = std::mem::take(&mut self.spaces[usize::from(asid)]);
        self.doom(asid.into(), entries);
    }

    /// TLBIMVA, which takes global entries as well (B4.2.2).
    pub fn invalidate_page(&mut self, address: u32, asid: u8) {
        self.invalidate_page_in(address, GLOBAL);
        self.invalidate_page_in(address, asid.into());
    }

    /// TLBIMVAA.
    pub fn invalidate_page_of_all(&mut self, address: u32) {
        (0..=GLOBAL).for_each(|at| self.invalidate_page_in(address, at));
    }

    fn invalidate_page_in(&mut self, address: u32, at: usize) {
        for size in SIZES {
            let Some(entry) = self.spaces[at].remove(&key(address, size)) else { continue };
            self.held -= 1;
            self.invalidated += 1;
            // Loops over pages make one.
            if !self.dying.last().is_some_and(|last| last.space == at && !last.complete) {
                self.dying.push(Dying { space: at, entries: Entries::default(), complete: false });
            }
            if let Some(last) = self.dying.last_mut() {
                last.entries.insert(key(address, size), entry);
            }
        }
    }

    /// A DSB.
    pub fn dsb(&mut self) {
        self.dying.iter_mut().for_each(|dying| dying.complete = true);
    }

    /// An ISB, or an exception's entry or return.
    pub fn synchronise(&mut self) {
        if !self.dying.is_empty() {
            self.dying.retain(|dying| !dying.complete);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spica_cycles::walk::Rights;

    fn entry(address: u32, size_shift: u32, asid: Option<u8>) -> Translation {
        let physical = address ^ 0x4000_0000;
        Translation { address, size_shift, physical, asid, cached: true, memory: true, rights: Rights::default() }
    }

    fn count(tlb: &Tlb, address: u32, asid: u8, fetch: bool) -> usize {
        let mut count = 0;
        tlb.each(address, asid, fetch, |_| count += 1);
        count
    }

    #[test]
    fn entries_stay_until_their_barriers() {
        let invalidate: [fn(&mut Tlb); 4] = [
            Tlb::invalidate_all,
            |t| t.invalidate_asid(5),
            |t| t.invalidate_page(0x1abc, 5),
            |t| t.invalidate_page_of_all(0x1000),
        ];
        for one in invalidate {
            let mut tlb = Tlb::default();
            tlb.put(entry(0x1000, 12, Some(5)));
            tlb.dsb();
            tlb.synchronise();
            assert_eq!((count(&tlb, 0x1fff, 5, false), count(&tlb, 0x1fff, 6, false)), (1, 0));
            one(&mut tlb);
            assert_eq!((count(&tlb, 0x1fff, 5, false), count(&tlb, 0x1fff, 5, true)), (1, 1));
            tlb.synchronise();
            assert_eq!((count(&tlb, 0x1fff, 5, false), count(&tlb, 0x1fff, 5, true)), (1, 1), "ISB alone");
            tlb.dsb();
            assert_eq!((count(&tlb, 0x1fff, 5, false), count(&tlb, 0x1fff, 5, true)), (0, 1));
            tlb.synchronise();
            assert_eq!((count(&tlb, 0x1fff, 5, false), count(&tlb, 0x1fff, 5, true)), (0, 0));
            assert_eq!((tlb.invalidated, tlb.held), (1, 0));
        }
    }

    #[test]
    fn others_are_not_meant() {
        let mut tlb = Tlb::default();
        tlb.put(entry(0x1000, 12, Some(5)));
        tlb.put(entry(0x10_0000, 20, None));
        tlb.invalidate_asid(6);
        tlb.invalidate_page(0x1000, 6);
        tlb.invalidate_page(0x2000, 5);
        tlb.dsb();
        tlb.synchronise();
        assert_eq!((count(&tlb, 0x1000, 5, false), count(&tlb, 0x1f_f000, 9, false)), (1, 1));
        // An address within a section is of the section, and global entries are of all.
        tlb.invalidate_page(0x15_5000, 77);
        tlb.dsb();
        assert_eq!(count(&tlb, 0x1f_f000, 9, false), 0);
        tlb.forgive(0x1000, 5);
        assert_eq!((count(&tlb, 0x1000, 5, true), tlb.held), (0, 0));
    }
}
