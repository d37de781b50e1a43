//! What all spaces have in common: the global mappings of the guest's kernel.
//!
//! A kernel's own pages are the same in all of its processes. In a TLB, an entry of theirs that is global (nG = 0)
//! serves them all, whatever TTBR0 it was found under; so here, what is found for one space is put into the tables of
//! all. [`Common`] owns the second-level tables, and knows the sections; a space *borrows* a megabyte's first-level
//! entry, if it has nothing of its own there. A new process begins with all of it.
//!
//! It is so from [`PAGEWISE_FROM`](crate::PAGEWISE_FROM) on, for spaces that differ in nothing but TTBR0 and the ASID.
//! Supersections are not shared, nor is a megabyte in which the active space has something private; and nothing is
//! where writes to guest tables are tracked, as that goes by space.

use crate::guest::walk::{Mapping, PageSize};
use crate::piece::Budget;
use crate::shadow::Shadow;
use crate::space::{Key, Space, View, ViewTables};
use crate::table::{FIRST_LEVEL_BYTES, HostTlb, TableMemory};
use crate::watched;
use alloc::boxed::Box;
use spica_addr::HostPa;

/// See the module.
pub(crate) struct Common {
    /// One of the spaces that all this is of.
    key: Option<Key>,
    /// By [`Separation::table_of`](crate::Separation). Of the first-level tables, nothing is used but to know what is
    /// lent; they are never walked, and have no ASID: see [`Borrowers`].
    pub(crate) views: Box<[ViewTables; 2]>,
    /// All of it is to go before the guest runs: see [`Shadow::settle`]. Nothing is lent any more.
    pub(crate) stale: bool,
}

impl Common {
    // Not inlined: a view has kilobytes, which are to be off the stack before anything else is made.
    #[inline(never)]
    pub(crate) fn new() -> Self {
        Self { key: None, views: Box::new([ViewTables::new(0), ViewTables::new(0)]), stale: false }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.views.iter().all(ViewTables::is_empty)
    }

    fn is_of(&self, key: Key) -> bool {
        !self.stale && self.key.is_some_and(|own| own.same_kernel(&key))
    }
}

/// The TLB, for what is lent: it may hold that under the ASID of any space.
pub(crate) struct Borrowers<'a, T> {
    pub(crate) tlb: &'a mut T,
    pub(crate) spaces: &'a [Space],
    /// Which of their tables.
    pub(crate) table: usize,
}

impl<T: HostTlb> Borrowers<'_, T> {
    fn each(&mut self, flush: impl Fn(&mut T, u8)) {
        for space in self.spaces.iter().filter(|space| space.has_roots()) {
            flush(self.tlb, space.views[self.table].asid);
        }
    }
}

impl<T: HostTlb> HostTlb for Borrowers<'_, T> {
    fn flush_asid(&mut self, _: u8) {
        self.each(T::flush_asid);
    }

    fn flush_page(&mut self, va: u32, _: u8) {
        self.each(|tlb, asid| tlb.flush_page(va, asid));
    }
}

impl Shadow {
    /// Whether what `mapping` says of `mb` is for all spaces; if so, there is a place for it. If not, the active space
    /// has borrowed nothing there any more.
    pub(crate) fn shares(
        &mut self,
        view: View,
        mb: usize,
        mapping: &Mapping,
        tables: &mut impl TableMemory,
        tlb: &mut impl HostTlb,
    ) -> bool {
        let active = self.active_index();
        let space = &mut self.spaces[active];
        let index = self.separation.table_of(view);
        let own = &mut space.views[index];
        let for_all = watched::is_pagewise(mb) && mapping.global && mapping.size != PageSize::Super16M;
        if let Some(key) = space.key
            && for_all
            && key != Key::FLAT
            && self.share_kernel
            && !self.tracked.is_on()
            && !own.is_populated(mb)
        {
            if self.common.is_empty() && !self.common.stale {
                self.common.key = Some(key);
            }
            let root = &mut self.common.views[index].root;
            if root.is_none() {
                *root = tables.alloc(FIRST_LEVEL_BYTES);
            }
            if root.is_some() && self.common.is_of(key) {
                return true;
            }
        }
        if own.give_back(mb, tables) {
            tlb.flush_asid(own.asid);
        }
        false
    }

    /// Lends what is in `mb`, to whoever has nothing there, if the active space is among them.
    pub(crate) fn lend(&mut self, view: View, mb: usize, tables: &mut impl TableMemory) {
        let index = self.separation.table_of(view);
        if self.spaces[self.active_index()].views[index].has_borrowed(mb) {
            return;
        }
        let word = self.common.views[index].first_level_word(mb, tables);
        for space in &mut self.spaces {
            if space.has_roots() && space.key.is_some_and(|key| self.common.is_of(key)) {
                space.views[index].borrow(mb, word, tables);
            }
        }
    }

    /// Lends all there is to the space of that number, which borrowed nothing yet.
    pub(crate) fn lend_all(&mut self, space: usize, tables: &mut impl TableMemory) {
        let space = &mut self.spaces[space];
        if space.key.is_some_and(|key| self.common.is_of(key)) {
            for (view, common) in space.views.iter_mut().zip(self.common.views.iter()) {
                view.borrow_all(common, tables);
            }
        }
    }

    /// Forgets everything in `mb` of those tables.
    pub(crate) fn drop_common(
        &mut self,
        table: usize,
        mb: usize,
        tables: &mut impl TableMemory,
        tlb: &mut impl HostTlb,
    ) {
        for space in &mut self.spaces {
            space.views[table].give_back(mb, tables);
        }
        self.common.views[table].drop_megabyte(mb, tables, &mut Borrowers { tlb, spaces: &self.spaces, table });
    }

    /// Forgets what there is, as far as `budget` goes. Whether nothing is left.
    pub(crate) fn clear_common(
        &mut self,
        budget: &mut Budget,
        tables: &mut impl TableMemory,
        tlb: &mut impl HostTlb,
    ) -> bool {
        for table in 0..self.common.views.len() {
            let given_back = self.spaces.iter_mut().all(|space| space.views[table].give_back_all(budget, tables).1);
            let mut borrowers = Borrowers { tlb, spaces: &self.spaces, table };
            if !given_back || !self.common.views[table].clear(budget, tables, &mut borrowers) {
                borrowers.flush_asid(0);
                return false;
            }
        }
        self.common.stale = false;
        true
    }

    /// Forgets what came from the guest entry that maps `va`.
    pub(crate) fn invalidate_common(&mut self, va: u32, tables: &mut impl TableMemory, tlb: &mut impl HostTlb) {
        let mb = (va >> 20) as usize;
        for table in 0..self.common.views.len() {
            let view = &mut self.common.views[table];
            if view.goes_whole(mb, tables) {
                self.drop_common(table, mb, tables, tlb);
            } else {
                view.invalidate_page(va, true, tables, &mut Borrowers { tlb, spaces: &self.spaces, table });
            }
        }
    }

    /// Takes the writable section that maps host megabyte `base` out of `mb`, if it is there.
    pub(crate) fn drop_common_section(
        &mut self,
        table: usize,
        mb: usize,
        base: HostPa,
        tables: &mut impl TableMemory,
        tlb: &mut impl HostTlb,
    ) {
        if self.common.views[table].has_writable_section(mb, base, tables) {
            self.drop_common(table, mb, tables, tlb);
        }
    }
}
