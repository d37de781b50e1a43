//! The guest pages that have blocks in the cache, by guest PA and by guest VA.
//!
//! A guest chooses how many such pages there are, and at which addresses. So all memory is taken at the start, and to
//! forget all of them takes the same time however many there are. Whoever asks for one page gets through a list of
//! those whose addresses have the same low bits.

use alloc::vec;
use alloc::vec::Vec;

use crate::records::{self, NO_BLOCK};

/// No page, where a page's number is expected.
const NONE: u16 = u16::MAX;
/// Lists by PA, and lists by VA.
const LISTS: usize = 4096;

/// Beside a page's PA: it is to be dropped, and is none that anybody asks for.
const DOOMED: u32 = 1;
/// Beside its PA: how often it was written while its blocks stayed.
const WRITES: u32 = 0xffe;
const ONE_WRITE: u32 = 2;
/// Beside its VA: it is to be unmapped.
const MOVED: u32 = 1;

/// A guest page: what is mapped to what, and the newest block made from it.
#[derive(Clone, Copy)]
struct Page {
    /// And [`DOOMED`], [`WRITES`].
    pa: u32,
    /// And [`MOVED`].
    va: u32,
    /// Newest block; [`NO_BLOCK`] where this is no page.
    first: u16,
    /// The next of the same list by PA; or of those that are free.
    next_by_pa: u16,
    next_by_va: u16,
    previous_by_va: u16,
}

impl Page {
    /// The PA by which it is found, if it is.
    fn asked_for(&self) -> u32 {
        self.pa & !WRITES
    }
}

/// What is to be done with a page later, and its newest block.
pub(crate) enum Job {
    /// Its blocks are to be dropped.
    Drop(u16),
    /// They are not to be branched to without looking.
    Unmap(u16),
}

/// See the module's text.
pub(crate) struct GuestPages {
    pages: Vec<Page>,
    by_pa: Vec<u16>,
    by_va: Vec<u16>,
    free: u16,
    used: usize,
    capacity: usize,
}

fn list(page: u32) -> usize {
    (page >> 12) as usize % LISTS
}

impl GuestPages {
    /// Bytes that [`GuestPages::new`] takes.
    pub(crate) const fn bytes(capacity: usize) -> usize {
        capacity * size_of::<Page>() + 2 * LISTS * size_of::<u16>()
    }

    /// No pages, and room for `capacity` of them, less than 65,535.
    pub(crate) fn new(capacity: usize) -> GuestPages {
        assert!(capacity < usize::from(NONE), "{capacity} pages are more than have numbers");
        GuestPages {
            pages: Vec::with_capacity(capacity),
            by_pa: vec![NONE; LISTS],
            by_va: vec![NONE; LISTS],
            free: NONE,
            used: 0,
            capacity,
        }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.used
    }

    /// Whether there is room for `more`.
    pub(crate) fn has_room(&self, more: usize) -> bool {
        self.used + more <= self.capacity
    }

    /// Forgets all of them.
    pub(crate) fn clear(&mut self) {
        self.pages.clear();
        records::fill(&mut self.by_pa, NONE);
        records::fill(&mut self.by_va, NONE);
        self.free = NONE;
        self.used = 0;
    }

    /// Notes `block` as the newest one from the page at `va`, which is mapped to `pa`. The one that was the newest, or
    /// [`NO_BLOCK`]. There is room.
    pub(crate) fn enter(&mut self, pa: u32, va: u32, block: u16) -> u16 {
        let mut at = self.by_pa[list(pa)];
        while at != NONE {
            let page = &mut self.pages[usize::from(at)];
            if (page.asked_for(), page.va & !MOVED) == (pa, va) {
                return core::mem::replace(&mut page.first, block);
            }
            at = page.next_by_pa;
        }
        let at = match self.free {
            NONE => self.pages.len() as u16,
            free => free,
        };
        let next_by_pa = core::mem::replace(&mut self.by_pa[list(pa)], at);
        let next_by_va = core::mem::replace(&mut self.by_va[list(va)], at);
        let page = Page { pa, va, first: block, next_by_pa, next_by_va, previous_by_va: NONE };
        match self.pages.get_mut(usize::from(at)) {
            Some(place) => {
                self.free = place.next_by_pa;
                *place = page;
            }
            None => self.pages.push(page),
        }
        if let Some(next) = self.pages.get_mut(usize::from(next_by_va)) {
            next.previous_by_va = at;
        }
        self.used += 1;
        NO_BLOCK
    }

    /// The page at `pa` is written, and is to keep blocks: how often that was so by now, of those pages that are mapped
    /// to it the first.
    pub(crate) fn count_write(&mut self, pa: u32) -> u32 {
        let Some((number, _)) = self.next_of(pa, None) else { return 0 };
        let page = &mut self.pages[number];
        if page.pa & WRITES != WRITES {
            page.pa += ONE_WRITE;
        }
        (page.pa & WRITES) / ONE_WRITE
    }

    /// Removes one of the pages that are mapped to `pa`: its newest block.
    pub(crate) fn take(&mut self, pa: u32) -> Option<u16> {
        let (number, first) = self.next_of(pa, None)?;
        self.remove(number);
        Some(first)
    }

    /// Removes the page of that number.
    fn remove(&mut self, number: usize) {
        let Page { pa, va, next_by_pa, next_by_va, previous_by_va, .. } = self.pages[number];
        let (by_pa, by_va) = (list(pa), list(va));
        let mut before = self.by_pa[by_pa];
        if usize::from(before) == number {
            self.by_pa[by_pa] = next_by_pa;
        } else {
            while let Some(page) = self.pages.get_mut(usize::from(before)) {
                if usize::from(page.next_by_pa) == number {
                    page.next_by_pa = next_by_pa;
                    break;
                }
                before = page.next_by_pa;
            }
        }
        match self.pages.get_mut(usize::from(previous_by_va)) {
            Some(previous) => previous.next_by_va = next_by_va,
            None => self.by_va[by_va] = next_by_va,
        }
        if let Some(next) = self.pages.get_mut(usize::from(next_by_va)) {
            next.previous_by_va = previous_by_va;
        }
        let page = &mut self.pages[number];
        (page.first, page.next_by_pa) = (NO_BLOCK, self.free);
        self.free = number as u16;
        self.used -= 1;
    }

    /// All pages that are mapped to `pa` are to be dropped, later: see [`GuestPages::job`].
    pub(crate) fn doom(&mut self, pa: u32) {
        while let Some((number, _)) = self.next_of(pa, None) {
            self.pages[number].pa |= DOOMED;
        }
    }

    /// All pages at `va` are to be unmapped, later.
    pub(crate) fn note_move(&mut self, va: u32) {
        while let Some((number, ..)) = self.next_at(va, None) {
            self.pages[number].va |= MOVED;
        }
    }

    /// What is to be done with the page of that number, where it is the first thing that is.
    pub(crate) fn job(&self, number: usize) -> Option<Job> {
        let page = self.pages.get(number).filter(|page| page.first != NO_BLOCK)?;
        if page.pa & DOOMED != 0 {
            Some(Job::Drop(page.first))
        } else {
            (page.va & MOVED != 0).then_some(Job::Unmap(page.first))
        }
    }

    /// Numbers of pages are less than this.
    pub(crate) fn numbers(&self) -> usize {
        self.pages.len()
    }

    /// The page of that number, of which blocks are dropped, has `first` as its newest block now; it is removed if that
    /// is none.
    pub(crate) fn dropped_to(&mut self, number: usize, first: u16) {
        if first == NO_BLOCK {
            self.remove(number);
        } else {
            self.pages[number].first = first;
        }
    }

    /// The page of that number is unmapped.
    pub(crate) fn unmapped(&mut self, number: usize) {
        self.pages[number].va &= !MOVED;
    }

    /// One of the pages that are mapped to `pa`, the first or that behind number `after`: its number, and newest block.
    pub(crate) fn next_of(&self, pa: u32, after: Option<usize>) -> Option<(usize, u16)> {
        let mut at = match after {
            Some(after) => self.pages.get(after)?.next_by_pa,
            None => self.by_pa[list(pa)],
        };
        loop {
            let page = self.pages.get(usize::from(at))?;
            if page.asked_for() == pa {
                return Some((at.into(), page.first));
            }
            at = page.next_by_pa;
        }
    }

    /// One of the pages at `va`, the first or that behind number `after`: its number, PA and newest block.
    pub(crate) fn next_at(&self, va: u32, after: Option<usize>) -> Option<(usize, u32, u16)> {
        let mut at = match after {
            Some(after) => self.pages.get(after)?.next_by_va,
            None => self.by_va[list(va)],
        };
        loop {
            let page = self.pages.get(usize::from(at))?;
            if page.va == va {
                return Some((at.into(), page.asked_for(), page.first));
            }
            at = page.next_by_va;
        }
    }

    /// The first page whose number is `from` or more: its number, VA and PA. Numbers stay until [`GuestPages::clear`].
    pub(crate) fn next(&self, from: usize) -> Option<(usize, u32, u32)> {
        let rest = self.pages.get(from..)?;
        let at = rest.iter().position(|page| page.first != NO_BLOCK)?;
        Some((from + at, rest[at].va & !MOVED, rest[at].pa & !(DOOMED | WRITES)))
    }
}
