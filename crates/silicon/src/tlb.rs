//! A TLB that forgets nothing by itself.
//!
//! What was used may stay until it is invalidated, and the invalidation is complete with a DSB, and sure to be noticed
//! by what follows with an ISB behind that (B3.10.1). Invalidations take entries out of the tables below, to where they
//! wait for their barriers, so that invalidating all costs no more than invalidating one.
//!
//! An invalidation that comes before its descriptor's change is visible to walks is in vain: a walk behind it may read
//! the old descriptor, and the entry is there again. So it stays.

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

/// A translation, with the physical addresses of the descriptors that it is of; twice the same if it is one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The translation.
    pub translation: Translation,
    /// The descriptors.
    pub descriptors: [u32; 2],
}

type Entries = Map<u32, Entry>;

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
    pub fn each(&self, address: u32, asid: u8, mut found: impl FnMut(&Translation)) {
        for at in [GLOBAL, asid.into()] {
            let dying = self.dying.iter().filter(|d| d.space == at).map(|d| &d.entries);
            for entries in dying.chain([&self.spaces[at]]).filter(|entries| !entries.is_empty()) {
                let here = SIZES.iter().filter_map(|&size| entries.get(&key(address, size)));
                here.for_each(|entry| found(&entry.translation));
            }
        }
    }

    /// An entry was used. It takes the place of one of the same size.
    pub fn put(&mut self, entry: Entry) {
        if self.held == MOST {
            self.spaces.iter_mut().for_each(Entries::clear);
            self.held = 0;
        }
        let Translation { address, size_shift, asid, .. } = entry.translation;
        let old = self.spaces[space(asid)].insert(key(address, size_shift), entry);
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

    /// Invalidates all of a space, but for what stays.
    fn doom(&mut self, space: usize, stays: &impl Fn(&Entry) -> bool) {
        let mut entries = std::mem::take(&mut self.spaces[space]);
        if entries.values().any(stays) {
            self.spaces[space] =
                entries.iter().filter(|(_, entry)| stays(entry)).map(|(&k, &entry)| (k, entry)).collect();
            entries.retain(|_, entry| !stays(entry));
        }
        self.held -= entries.len();
        self.invalidated += entries.len() as u64;
        if !entries.is_empty() {
            self.dying.push(Dying { space, entries, complete: false });
        }
    }

    /// TLBIALL. `stays` says of which entries walks may still read the old descriptors; in the functions below as well.
    pub fn invalidate_all(&mut self, stays: impl Fn(&Entry) -> bool) {
        for at in 0..=GLOBAL {
            if !self.spaces[at].is_empty() {
                self.doom(at, &stays);
            }
        }
    }

    /// TLBIASID.
    pub fn invalidate_asid(&mut self, asid: u8, stays: impl Fn(&Entry) -> bool) {
        self.doom(asid.into(), &stays);
    }

    /// TLBIMVA, which takes global entries as well (B4.2.2).
    pub fn invalidate_page(&mut self, address: u32, asid: u8, stays: impl Fn(&Entry) -> bool) {
        self.invalidate_page_in(address, GLOBAL, &stays);
        self.invalidate_page_in(address, asid.into(), &stays);
    }

    /// TLBIMVAA.
    pub fn invalidate_page_of_all(&mut self, address: u32, stays: impl Fn(&Entry) -> bool) {
        (0..=GLOBAL).for_each(|at| self.invalidate_page_in(address, at, &stays));
    }

    fn invalidate_page_in(&mut self, address: u32, at: usize, stays: &impl Fn(&Entry) -> bool) {
        for size in SIZES {
            let key = key(address, size);
            let Some(entry) = self.spaces[at].get(&key).copied().filter(|entry| !stays(entry)) else { continue };
            self.spaces[at].remove(&key);
            self.held -= 1;
            self.invalidated += 1;
            // Loops over pages make one.
            if !self.dying.last().is_some_and(|last| last.space == at && !last.complete) {
                self.dying.push(Dying { space: at, entries: Entries::default(), complete: false });
            }
            if let Some(last) = self.dying.last_mut() {
                last.entries.insert(key, entry);
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

    fn entry(address: u32, size_shift: u32, asid: Option<u8>) -> Entry {
        let (physical, rights) = (address ^ 0x4000_0000, Rights::default());
        let translation = Translation { address, size_shift, physical, asid, cached: true, memory: true, rights };
        Entry { translation, descriptors: [address >> 12; 2] }
    }

    fn count(tlb: &Tlb, address: u32, asid: u8) -> usize {
        let mut count = 0;
        tlb.each(address, asid, |_| count += 1);
        count
    }

    const INVALIDATE: [fn(&mut Tlb, bool); 4] = [
        |t, stays| t.invalidate_all(|_| stays),
        |t, stays| t.invalidate_asid(5, |_| stays),
        |t, stays| t.invalidate_page(0x1abc, 5, |_| stays),
        |t, stays| t.invalidate_page_of_all(0x1000, |_| stays),
    ];

    #[test]
    fn entries_stay_until_their_barriers() {
        for one in INVALIDATE {
            let mut tlb = Tlb::default();
            tlb.put(entry(0x1000, 12, Some(5)));
            tlb.dsb();
            tlb.synchronise();
            assert_eq!((count(&tlb, 0x1fff, 5), count(&tlb, 0x1fff, 6)), (1, 0));
            one(&mut tlb, false);
            assert_eq!(count(&tlb, 0x1fff, 5), 1);
            tlb.synchronise();
            assert_eq!(count(&tlb, 0x1fff, 5), 1, "ISB alone");
            tlb.dsb();
            assert_eq!(count(&tlb, 0x1fff, 5), 1, "DSB alone");
            tlb.synchronise();
            assert_eq!(count(&tlb, 0x1fff, 5), 0);
            assert_eq!((tlb.invalidated, tlb.held), (1, 0));
        }
    }

    #[test]
    fn too_early_is_in_vain() {
        for one in INVALIDATE {
            let mut tlb = Tlb::default();
            tlb.put(entry(0x1000, 12, Some(5)));
            one(&mut tlb, true);
            tlb.dsb();
            tlb.synchronise();
            assert_eq!((count(&tlb, 0x1fff, 5), tlb.invalidated, tlb.held), (1, 0, 1));
        }
    }

    #[test]
    fn others_are_not_meant() {
        let mut tlb = Tlb::default();
        tlb.put(entry(0x1000, 12, Some(5)));
        tlb.put(entry(0x10_0000, 20, None));
        tlb.invalidate_asid(6, |_| false);
        tlb.invalidate_page(0x1000, 6, |_| false);
        tlb.invalidate_page(0x2000, 5, |_| false);
        tlb.dsb();
        tlb.synchronise();
        assert_eq!((count(&tlb, 0x1000, 5), count(&tlb, 0x1f_f000, 9)), (1, 1));
        // An address within a section is of the section, and global entries are of all.
        tlb.invalidate_page(0x15_5000, 77, |_| false);
        tlb.dsb();
        tlb.synchronise();
        assert_eq!(count(&tlb, 0x1f_f000, 9), 0);
        tlb.forgive(0x1000, 5);
        assert_eq!((count(&tlb, 0x1000, 5), tlb.held), (0, 0));
    }
}
