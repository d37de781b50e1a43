//! Which tables the core may have walked for which ASID.
//!
//! A core may walk the tables of any address at any time, and remember what it finds under the ASID that is in force
//! (B3.10.4). TTBR0 and the ASID are two registers, and so for a moment the one goes with the wrong other. That is
//! harmless if nobody uses the ASID (the first of the manual's orders), or if the table has nothing that is not global
//! (the second); else translations of one table stay under the ASID of another. So the pairs that were in force are
//! kept, and a use is compared with what the other tables of its ASID have for the address.
//!
//! A register that was written and not synchronised has its old value and its new one. On a Cortex-A9, a walk of the
//! old table may still be under way then, and end under the new ASID, until a DSB (erratum 754322 of its errata
//! notice).

/// How many tables of one ASID are kept; the oldest goes.
const MOST: usize = 8;

/// The pairs.
#[derive(Debug)]
pub struct Spaces {
    /// For each ASID, values of TTBR0.
    tables: Vec<Vec<u32>>,
    /// Values that the core may use: those since the last synchronisation.
    bases: Vec<u32>,
    asids: Vec<u8>,
    /// Whether walks outlive their table's time (Cortex-A9).
    walks_on: bool,
    /// Values that walks may still use, because no DSB came.
    under_way: Vec<u32>,
}

impl Spaces {
    /// None. `walks_on` says whether the core has erratum 754322.
    #[must_use]
    pub fn new(walks_on: bool) -> Spaces {
        let (bases, asids, under_way) = (Vec::new(), Vec::new(), Vec::new());
        Spaces { tables: vec![Vec::new(); 256], bases, asids, walks_on, under_way }
    }

    /// TTBR0 and the ASID are these now; `walks` says if anything is walked. Says whether there is a new pair.
    pub fn set(&mut self, base: u32, asid: u8, walks: bool) -> bool {
        if !self.bases.contains(&base) {
            self.bases.push(base);
        }
        if !self.asids.contains(&asid) {
            self.asids.push(asid);
        }
        walks && self.pair()
    }

    fn pair(&mut self) -> bool {
        let mut new = false;
        for &asid in &self.asids {
            let tables = &mut self.tables[usize::from(asid)];
            for &base in self.bases.iter().chain(&self.under_way) {
                if !tables.contains(&base) {
                    if tables.len() == MOST {
                        tables.remove(0);
                    }
                    tables.push(base);
                    new = true;
                }
            }
        }
        new
    }

    /// An ISB, or an exception's entry or return: registers have the values that were written last.
    pub fn synchronise(&mut self, base: u32, asid: u8) {
        if self.bases.len() > 1 {
            let old = std::mem::replace(&mut self.bases, vec![base]);
            if self.walks_on {
                self.under_way.extend(old.into_iter().filter(|&old| old != base));
            }
        }
        (self.asids.len() > 1).then(|| self.asids = vec![asid]);
    }

    /// A DSB: walks of tables that are in force no more are over.
    pub fn dsb(&mut self) {
        self.under_way.clear();
    }

    /// TLBIASID: nothing is remembered of what was; what is in force may be walked again.
    pub fn forget(&mut self, asid: u8, walks: bool) {
        self.tables[usize::from(asid)].clear();
        if walks {
            self.pair();
        }
    }

    /// TLBIALL.
    pub fn forget_all(&mut self, walks: bool) {
        self.tables.iter_mut().for_each(Vec::clear);
        if walks {
            self.pair();
        }
    }

    /// The other tables that may have been walked for an ASID.
    pub fn others(&self, asid: u8, base: u32) -> impl Iterator<Item = u32> + '_ {
        self.tables[usize::from(asid)].iter().copied().filter(move |&other| other != base)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: u32 = 0x4000_0000;
    const NEW: u32 = 0x4000_4000;

    fn others(spaces: &Spaces, asid: u8, base: u32) -> Vec<u32> {
        spaces.others(asid, base).collect()
    }

    fn running() -> Spaces {
        running_on(false)
    }

    fn running_on(walks_on: bool) -> Spaces {
        let mut spaces = Spaces::new(walks_on);
        spaces.set(OLD, 1, true);
        spaces.synchronise(OLD, 1);
        spaces
    }

    /// Writes in this order, with an ISB behind each if it is asked for.
    fn go(spaces: &mut Spaces, steps: &[(u32, u8)], isb: bool) {
        for &(base, asid) in steps {
            spaces.set(base, asid, true);
            if isb {
                spaces.synchronise(base, asid);
            }
        }
        let (base, asid) = steps[steps.len() - 1];
        spaces.synchronise(base, asid);
    }

    #[test]
    fn by_way_of_an_asid_that_nobody_uses() {
        let mut spaces = running();
        go(&mut spaces, &[(OLD, 0), (NEW, 0), (NEW, 2)], true);
        assert_eq!((others(&spaces, 2, NEW), others(&spaces, 1, OLD)), (vec![], vec![]));
        assert_eq!(others(&spaces, 0, NEW), [OLD]);
    }

    #[test]
    fn without_barriers_that_is_no_way() {
        let mut spaces = running();
        go(&mut spaces, &[(OLD, 0), (NEW, 0), (NEW, 2)], false);
        assert_eq!((others(&spaces, 2, NEW), others(&spaces, 1, OLD)), (vec![OLD], vec![NEW]));
    }

    #[test]
    fn walks_under_way_end_with_a_barrier() {
        for dsb in [false, true] {
            let mut spaces = running_on(true);
            // By way of a table without anything of its own.
            go(&mut spaces, &[(0, 1)], true);
            if dsb {
                spaces.dsb();
            }
            go(&mut spaces, &[(0, 2), (NEW, 2)], true);
            assert_eq!(others(&spaces, 2, NEW).contains(&OLD), !dsb);
        }
    }

    #[test]
    fn straight_ahead_mixes_either() {
        let mut spaces = running();
        go(&mut spaces, &[(NEW, 1), (NEW, 2)], true);
        assert_eq!((others(&spaces, 2, NEW), others(&spaces, 1, OLD)), (vec![], vec![NEW]));
        let mut spaces = running();
        go(&mut spaces, &[(OLD, 2), (NEW, 2)], true);
        assert_eq!((others(&spaces, 2, NEW), others(&spaces, 1, OLD)), (vec![OLD], vec![]));
    }

    #[test]
    fn invalidation_forgets() {
        let mut spaces = running();
        go(&mut spaces, &[(OLD, 2), (NEW, 2)], true);
        spaces.forget(2, true);
        assert!(others(&spaces, 2, NEW).is_empty());
        assert_eq!(others(&spaces, 2, 0), [NEW], "what is in force may be walked at once");
        go(&mut spaces, &[(OLD, 2)], true);
        spaces.forget_all(false);
        assert!(others(&spaces, 2, 0).is_empty());
        spaces.set(OLD, 3, false);
        assert!(others(&spaces, 3, 0).is_empty(), "nothing is walked while the MMU is off");
    }
}
