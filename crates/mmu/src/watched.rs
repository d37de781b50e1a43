//! Where TLB maintenance by address concerns more than one entry of the active space, and where it concerns nothing.
//!
//! A guest kernel gives up ranges of its own part of the address space page by page, and Linux saves them up: it goes
//! through all that lies between the first and the last of them, most of which was never mapped. So in that part it is
//! known page by page where any space may have anything. Elsewhere, where a process's pages are, megabytes do.

use crate::bitmap::{MEGABYTES, MegabyteSet};
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use spica_addr::GuestVa;

/// From here on, to the end of the address space, pages are told apart: a bit each, 32.5 KiB. Linux's modules are below
/// its kernel, which has the last GiB of the address space (Documentation/arm/memory.rst). Where a guest divides it
/// otherwise, maintenance costs more, no more than that.
pub const PAGEWISE_FROM: GuestVa = GuestVa(0xbf00_0000);

const FIRST: usize = (PAGEWISE_FROM.0 >> 20) as usize;
const PAGES: usize = 256;

/// The places that are watched.
pub(crate) struct Watched {
    /// For good. From [`PAGEWISE_FROM`] on, all pages of these are in `pages`.
    megabytes: MegabyteSet,
    /// A bit for each page from [`PAGEWISE_FROM`] on.
    pages: Vec<u32>,
    /// The megabytes that have such bits, those of `megabytes` left out.
    partly: MegabyteSet,
    /// Of these, the ones that have some on behalf of others: see [`Self::for_others`].
    others: MegabyteSet,
}

pub(crate) const fn is_pagewise(mb: usize) -> bool {
    mb >= FIRST
}

impl Watched {
    /// `megabytes` are watched for good; so are all from [`PAGEWISE_FROM`] on, without `by_page`.
    #[inline(never)]
    pub(crate) fn new(megabytes: impl Iterator<Item = usize>, by_page: bool) -> Box<Self> {
        let mut watched = Box::new(Self {
            megabytes: MegabyteSet::new(),
            pages: vec![0; (MEGABYTES - FIRST) * PAGES / 32],
            partly: MegabyteSet::new(),
            others: MegabyteSet::new(),
        });
        let others = if by_page { MEGABYTES } else { FIRST }..MEGABYTES;
        megabytes.chain(others).for_each(|mb| watched.megabyte(mb));
        watched
    }

    pub(crate) fn megabytes(&self) -> &[u32; 128] {
        self.megabytes.words()
    }

    pub(crate) fn pages(&self) -> &[u32] {
        &self.pages
    }

    pub(crate) fn contains(&self, va: GuestVa) -> bool {
        let mb = (va.0 >> 20) as usize;
        if is_pagewise(mb) { self.pages[Self::word(va)] & Self::bit(va) != 0 } else { self.megabytes.contains(mb) }
    }

    fn word(va: GuestVa) -> usize {
        ((va.0 - PAGEWISE_FROM.0) >> 17) as usize
    }

    const fn bit(va: GuestVa) -> u32 {
        1 << (va.0 >> 12 & 31)
    }

    fn words_of(&mut self, mb: usize) -> &mut [u32] {
        const WORDS: usize = PAGES / 32;
        &mut self.pages[(mb - FIRST) * WORDS..][..WORDS]
    }

    /// From now on, for good.
    #[inline(never)]
    pub(crate) fn megabyte(&mut self, mb: usize) {
        if self.megabytes.contains(mb) {
            return;
        }
        self.megabytes.insert(mb);
        if is_pagewise(mb) {
            self.partly.remove(mb);
            self.others.remove(mb);
            self.words_of(mb).fill(u32::MAX);
        }
    }

    /// The sixteen megabytes around `va`, for good.
    #[inline(never)]
    pub(crate) fn sixteen(&mut self, va: GuestVa) {
        let mb = (va.0 >> 20) as usize;
        if self.megabytes.group16(mb) != 0xffff {
            (mb & !15..(mb & !15) + 16).for_each(|mb| self.megabyte(mb));
        }
    }

    /// A small page at `va` is about to be mapped in some space.
    pub(crate) fn small(&mut self, va: GuestVa, global: bool) {
        let mb = (va.0 >> 20) as usize;
        match (is_pagewise(mb), global) {
            (true, true) => self.page(va),
            // What only one ASID has is not told apart there.
            (true, false) | (false, true) => self.megabyte(mb),
            (false, false) => {}
        }
    }

    /// Something larger, or a piece of something larger, is about to be mapped in `mb` in some space. Maintenance of
    /// any of its pages removes all that is there.
    pub(crate) fn large(&mut self, mb: usize, global: bool) {
        if !is_pagewise(mb) || !global {
            self.megabyte(mb);
        } else if !self.megabytes.contains(mb) {
            self.partly.insert(mb);
            self.words_of(mb).fill(u32::MAX);
        }
    }

    /// Somebody else wants to hear of maintenance of the page at `va`, once.
    pub(crate) fn for_others(&mut self, va: GuestVa) {
        let mb = (va.0 >> 20) as usize;
        if !is_pagewise(mb) {
            self.megabyte(mb);
        } else if !self.megabytes.contains(mb) {
            self.others.insert(mb);
            self.page(va);
        }
    }

    fn page(&mut self, va: GuestVa) {
        let mb = (va.0 >> 20) as usize;
        if !self.megabytes.contains(mb) {
            self.partly.insert(mb);
            self.pages[Self::word(va)] |= Self::bit(va);
        }
    }

    /// Whether there is anything to forget in `mb`.
    fn forgets(&self, mb: usize) -> bool {
        self.partly.contains(mb)
    }

    /// No space has anything at `va` any more, and if `all_gone`, nowhere in its megabyte. Nobody is going to be told
    /// again.
    pub(crate) fn forget(&mut self, va: GuestVa, all_gone: bool) {
        let mb = (va.0 >> 20) as usize;
        if !self.forgets(mb) {
            return;
        }
        if all_gone && !self.others.contains(mb) {
            self.partly.remove(mb);
            self.words_of(mb).fill(0);
        } else {
            self.pages[Self::word(va)] &= !Self::bit(va);
        }
    }

    /// No space has anything any more. Nobody is going to be told again.
    pub(crate) fn forget_all(&mut self) {
        let mut next = 0;
        while let Some(mb) = self.partly.next(next) {
            self.words_of(mb).fill(0);
            next = mb + 1;
        }
        self.partly = MegabyteSet::new();
        self.others = MegabyteSet::new();
    }
}
