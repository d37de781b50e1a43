//! Work on the tables that a guest decides how much there is of, done in pieces.
//!
//! A guest may fill all of its tables, in as many spaces as there are, and then ask with one instruction for all of it
//! to go; or have one page protected that may be mapped anywhere. Nobody else shall wait for that. So each such
//! operation does a piece, and leaves the rest to [`Shadow::settle`]. Until that is done, the guest does not run: what
//! it sees is what it would see if all had been done at once.

use crate::common::Borrowers;
use crate::ram::{UNUSED, Writers};
use crate::shadow::Shadow;
use crate::space::{Space, ViewTables};
use crate::table::{HostTlb, TableMemory};
use spica_addr::{GuestPa, HostPa};

/// How much may be done before somebody else is asked, in units of what it takes to drop one first-level entry: some
/// hundred instructions.
pub(crate) struct Budget(u32);

/// What it takes to empty a second-level table, in such units.
pub(crate) const CLEAR_TABLE: u32 = 4;
/// What it takes to look at all entries of one.
const SCAN_TABLE: u32 = 20;
/// Hints that are looked at for one unit.
const HINTS: usize = 16;
/// Pages that can wait for a search at once. An operation of the guest protects fewer.
const SEARCHES: usize = 4;

impl Budget {
    pub(crate) const fn new(units: u32) -> Self {
        Self(units)
    }

    pub(crate) const fn is_spent(&self) -> bool {
        self.0 == 0
    }

    /// Takes `units`, of which the last may be more than there are. False if there are none.
    pub(crate) const fn spend(&mut self, units: u32) -> bool {
        let any = self.0 != 0;
        self.0 = self.0.saturating_sub(units);
        any
    }
}

/// A search for writable mappings of a page everywhere.
#[derive(Clone, Copy)]
struct Search {
    /// What they map.
    target: Target,
    /// Which view is next, by number, and which megabyte of it.
    view: usize,
    megabyte: usize,
}

#[derive(Clone, Copy)]
enum Target {
    /// Sections that map this megabyte of the host's.
    Section(HostPa),
    /// Small pages that map this page of the host's.
    Page(HostPa),
}

/// What is still to be done, beside what is stale.
#[derive(Default)]
pub(crate) struct Pending {
    /// There may be something, here or in what is stale.
    any: bool,
    searches: [Option<Search>; SEARCHES],
    /// Hints from this one on rest on a linear map that is another by now.
    hints: Option<usize>,
    /// Spaces without a tenant are to give their tables back.
    release: bool,
}

impl Shadow {
    /// Whether nothing is left of what the guest must not see. If something is, it must not run before
    /// [`Shadow::settle`] says so.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        !self.pending.any
    }

    /// Does some of what is left, in a time that is bounded. Whether nothing is.
    pub fn settle(&mut self, tables: &mut impl TableMemory, tlb: &mut impl HostTlb) -> bool {
        if self.pending.any {
            let mut budget = Budget::new(self.piece);
            self.pending.any = !(self.sweep_stale(&mut budget, tables, tlb)
                && self.search_all(&mut budget, tables, tlb)
                && self.renew_hints(&mut budget)
                && self.release_spaces(&mut budget, tables, tlb));
        }
        !self.pending.any
    }

    /// Something is stale that the guest could reach, or is to be searched.
    pub(crate) fn unsettle(&mut self) {
        self.pending.any = true;
    }

    /// Clears what is stale of what the guest would run with.
    fn sweep_stale(&mut self, budget: &mut Budget, tables: &mut impl TableMemory, tlb: &mut impl HostTlb) -> bool {
        if self.common.stale && !self.clear_common(budget, tables, tlb) {
            return false;
        }
        if let Some(active) = self.active
            && self.spaces[active].stale
        {
            if !self.spaces[active].clear(budget, tables, tlb) {
                return false;
            }
            self.lend_all(active, tables);
        }
        true
    }

    /// Takes write permission from all sections that map the megabyte of the guest page `pa`, and from all small pages
    /// that map `pa`, which is `page` on the host. It is done when the shadow is settled.
    pub(crate) fn drop_writers(
        &mut self,
        pa: GuestPa,
        page: HostPa,
        tables: &mut impl TableMemory,
        tlb: &mut impl HostTlb,
    ) {
        let base = HostPa(page.0 & !0xf_ffff);
        match self.ram.take_section_writers(pa) {
            Writers::Nowhere => {}
            Writers::At(megabytes) => {
                for mb in megabytes.into_iter().filter(|&mb| mb != UNUSED) {
                    self.each_view(|shadow, view| shadow.drop_section(view, mb as usize, base, tables, tlb));
                }
            }
            Writers::Anywhere => self.search(Target::Section(base)),
        }
        match self.ram.take_page_writers(pa) {
            Writers::Nowhere => {}
            Writers::At(pages) => {
                for number in pages.into_iter().filter(|&number| number != UNUSED) {
                    let (mb, index) = ((number >> 8) as usize, (number & 0xff) as usize);
                    self.each_view(|shadow, view| shadow.downgrade(view, (mb, Some(index)), page, tables, tlb));
                }
            }
            Writers::Anywhere => self.search(Target::Page(page)),
        }
        self.settle(tables, tlb);
    }

    fn search(&mut self, target: Target) {
        self.stats.protection_scans += 1;
        self.unsettle();
        match self.pending.searches.iter_mut().find(|search| search.is_none()) {
            Some(place) => *place = Some(Search { target, view: 0, megabyte: 0 }),
            // Where nothing is mapped, nothing is to be found.
            None => {
                self.pending.searches = [None; SEARCHES];
                self.mark_stale(|_| true);
            }
        }
    }

    /// Views, by number: two of each space, then those that all spaces have in common.
    fn views(&self) -> usize {
        2 * self.spaces.len() + self.common.views.len()
    }

    /// All [`Self::view_at`] that there are, by their numbers.
    fn each_view(&mut self, mut f: impl FnMut(&mut Self, usize)) {
        let spaces = self.spaces.len();
        for space in 0..spaces {
            if self.spaces[space].is_live() {
                [2 * space, 2 * space + 1].into_iter().for_each(|view| f(self, view));
            }
        }
        (2 * spaces..self.views()).for_each(|view| f(self, view));
    }

    /// The tables of a view, by number; `None` for those of a space that has no tenant, or is stale.
    fn view_at(&self, view: usize) -> Option<&ViewTables> {
        match self.spaces.get(view / 2) {
            Some(space) => Some(&space.views[view % 2]).filter(|_| space.is_live()),
            None => self.common.views.get(view - 2 * self.spaces.len()),
        }
    }

    /// Takes write permission from what maps host page `base` writable in `mb` of a view: from the small page at
    /// `index`, or from all.
    fn downgrade(
        &mut self,
        view: usize,
        (mb, index): (usize, Option<usize>),
        base: HostPa,
        tables: &mut impl TableMemory,
        tlb: &mut impl HostTlb,
    ) {
        match view.checked_sub(2 * self.spaces.len()) {
            Some(table) => {
                let mut borrowers = Borrowers { tlb, spaces: &self.spaces, table };
                self.common.views[table].downgrade(mb, index, base, tables, &mut borrowers);
            }
            None => {
                let space = &mut self.spaces[view / 2];
                if space.is_live() {
                    space.views[view % 2].downgrade(mb, index, base, tables, tlb);
                }
            }
        }
    }

    /// Takes the writable section that maps host megabyte `base` out of `mb` of a view, if it is there.
    fn drop_section(
        &mut self,
        view: usize,
        mb: usize,
        base: HostPa,
        tables: &mut impl TableMemory,
        tlb: &mut impl HostTlb,
    ) {
        match view.checked_sub(2 * self.spaces.len()) {
            Some(table) => self.drop_common_section(table, mb, base, tables, tlb),
            None => {
                let space = &mut self.spaces[view / 2];
                if space.is_live() {
                    space.views[view % 2].drop_writable_section(mb, base, tables, tlb);
                }
            }
        }
    }

    fn search_all(&mut self, budget: &mut Budget, tables: &mut impl TableMemory, tlb: &mut impl HostTlb) -> bool {
        for at in 0..SEARCHES {
            if let Some(search) = self.pending.searches[at] {
                self.pending.searches[at] = self.search_on(search, budget, tables, tlb);
                if self.pending.searches[at].is_some() {
                    return false;
                }
            }
        }
        true
    }

    /// Goes on with a search: what is left of it.
    fn search_on(
        &mut self,
        mut search: Search,
        budget: &mut Budget,
        tables: &mut impl TableMemory,
        tlb: &mut impl HostTlb,
    ) -> Option<Search> {
        while search.view < self.views() {
            let Some(mb) = self.view_at(search.view).and_then(|view| view.next_populated(search.megabyte)) else {
                (search.view, search.megabyte) = (search.view + 1, 0);
                continue;
            };
            let is_table = self.view_at(search.view).is_some_and(|view| view.has_table(mb, tables));
            if !budget.spend(if is_table { SCAN_TABLE } else { 1 }) {
                return Some(search);
            }
            match search.target {
                Target::Section(base) => self.drop_section(search.view, mb, base, tables, tlb),
                Target::Page(page) if is_table => {
                    self.downgrade(search.view, (mb, None), page, tables, tlb);
                }
                Target::Page(_) => {}
            }
            search.megabyte = mb + 1;
        }
        None
    }

    /// Hints rest on a linear map that is another by now.
    pub(crate) fn linear_map_changed(&mut self) {
        self.pending.hints = Some(0);
        self.unsettle();
    }

    fn renew_hints(&mut self, budget: &mut Budget) -> bool {
        while let Some(from) = self.pending.hints {
            if !budget.spend(1) {
                return false;
            }
            self.pending.hints = self.ram.renew_hints(from, HINTS);
        }
        true
    }

    /// All spaces give their tables back.
    pub(crate) fn begin_release(&mut self) {
        self.pending.release = true;
        self.unsettle();
    }

    fn release_spaces(&mut self, budget: &mut Budget, tables: &mut impl TableMemory, tlb: &mut impl HostTlb) -> bool {
        if self.pending.release {
            let without_tenant = |space: &&mut Space| space.key.is_none() && space.has_roots();
            for space in self.spaces.iter_mut().filter(without_tenant) {
                if !space.release(budget, tables, tlb) {
                    return false;
                }
            }
            if self.common.is_empty() {
                self.common.views.iter_mut().filter_map(|view| view.root.take()).for_each(|root| tables.free(root));
            }
            self.pending.release = false;
        }
        true
    }
}
