//! What makes blocks go, or nothing lead to them: writes to the guest's code, maintenance of its TLB, breakpoints.
//!
//! A guest can have any number of blocks in a page, and any number of exits that lead to one of them. So in one go only
//! so much is done, and the rest is *left*, to be done in pieces before the guest runs ([`Translator::settle`]).

use core::ops::RangeInclusive;

use spica_addr::{GuestPa, GuestVa};

use super::{CHAIN, CodeMemory, Translator, bucket};
use crate::at::address;
use crate::breakpoints::Breakpoints;
use crate::guest_pages::{GuestPages, Job};
use crate::layout::PAGE_WORDS;
use crate::records::{Block, Flag, NO_BLOCK};

/// Exits that are unlinked at once. A guest can link any number of them to one block; the others are left to
/// [`Translator::settle`].
const UNLINKED_AT_ONCE: u32 = 500;
/// Blocks that are looked through at once for such exits.
const LOOKED_THROUGH_AT_ONCE: u16 = 4096;
/// Blocks that are dropped or unmapped at once. A page of a kernel's text has 200 if all of it was executed.
const DROPPED_AT_ONCE: usize = 400;
/// A page is written that often for each of its blocks before all of them are dropped. A write that keeps them costs
/// some 1,500 instructions, the trap included; to translate a block again costs some 3,000. So when a page is given up,
/// the writes to it have cost what its blocks will: with that, whatever comes, no more is spent than twice of what
/// would have been spent by whoever knew it beforehand.
const WRITES_PER_BLOCK: u32 = 2;
/// Guest pages that are looked through at once for such of which blocks are left.
const PAGES_AT_ONCE: usize = 4096;
/// Blocks with exits that are left, as far as they are known one by one.
const LEFT: usize = 32;

/// Exits that are still linked, and must not be; and blocks that are still to be dropped, or unmapped.
#[derive(Default)]
pub(super) struct Left {
    /// Blocks that they lead to.
    blocks: [u16; LEFT],
    count: usize,
    /// Any that lead to this block, or one behind it; and the jump cache has something left to clear.
    from: Option<u16>,
    /// Blocks of guest pages with this number or a higher one ([`GuestPages::job`]),
    pages: Option<usize>,
    /// of the former from this one on.
    block: Option<u16>,
}

impl Left {
    /// All exits that are linked.
    pub(super) fn all() -> Left {
        Left { from: Some(0), ..Left::default() }
    }

    /// Those that lead to `block`.
    pub(super) fn add(&mut self, block: u16) {
        match self.blocks.get_mut(self.count) {
            Some(place) => {
                *place = block;
                self.count += 1;
            }
            // To unlink all is always right.
            None => self.from = Some(0),
        }
    }
}

impl Translator {
    /// Whether exits are left that lead to blocks which they must not lead to. If so, the guest must not run before
    /// [`Self::settle`] says that there are none.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.left.count == 0 && self.left.from.is_none() && self.left.pages.is_none()
    }

    /// Unlinks some of the exits that are left, in a time that is bounded. Whether none is left.
    pub fn settle(&mut self, memory: &mut impl CodeMemory) -> bool {
        let mut budget = UNLINKED_AT_ONCE;
        while let Some(last) = self.left.count.checked_sub(1) {
            if !self.unlink_incoming(self.left.blocks[last], &mut budget, memory) {
                return false;
            }
            self.left.count = last;
        }
        if self.left.from.is_some() && !self.jump_cache.settle() {
            return false;
        }
        if let Some(from) = self.left.from {
            let blocks = self.blocks.len() as u16;
            let end = from.saturating_add(LOOKED_THROUGH_AT_ONCE).min(blocks);
            let stopped = (from..end).find(|&id| !self.unlink_incoming(id, &mut budget, memory));
            let next = stopped.unwrap_or(end);
            self.left.from = (next < blocks).then_some(next);
        }
        if self.left.from.is_none()
            && let Some(from) = self.left.pages
        {
            self.left.pages = self.do_jobs(from, &mut budget, memory);
        }
        self.is_settled()
    }

    /// Drops or unmaps blocks of guest pages whose turn it is, some of them, from page number `from` on. Where to go
    /// on.
    fn do_jobs(&mut self, from: usize, budget: &mut u32, memory: &mut impl CodeMemory) -> Option<usize> {
        let mut blocks = 0;
        let end = (from + PAGES_AT_ONCE).min(self.guest_pages.numbers());
        for number in from..end {
            let Some(job) = self.guest_pages.job(number) else { continue };
            let (drops, first) = match job {
                Job::Drop(first) => (true, first),
                Job::Unmap(first) => (false, self.left.block.take().unwrap_or(first)),
            };
            let mut at = first;
            while at != NO_BLOCK {
                if blocks == DROPPED_AT_ONCE {
                    if drops {
                        self.guest_pages.dropped_to(number, at);
                    } else {
                        self.left.block = Some(at);
                    }
                    return Some(number);
                }
                let next = self.blocks[usize::from(at)].next_in_page;
                if drops {
                    self.drop_block(at, budget, memory);
                } else {
                    self.isolate(at, budget, memory);
                }
                at = next;
                blocks += 1;
            }
            if drops {
                self.guest_pages.dropped_to(number, NO_BLOCK);
            } else {
                self.guest_pages.unmapped(number);
            }
        }
        (end < self.guest_pages.numbers()).then_some(end)
    }

    /// Drops every block made from the page at `pa`: its code changes. The guest must not run before [`Self::settle`]
    /// is done.
    pub fn drop_page(&mut self, pa: GuestPa, memory: &mut impl CodeMemory) {
        let page = pa.page().0;
        let next = |pages: &GuestPages, after| pages.next_of(page, after);
        if self.are_many(next) {
            self.guest_pages.doom(page);
            self.version = self.version.wrapping_add(1);
            (self.left.pages, self.left.block) = (Some(0), None);
            return;
        }
        let mut budget = UNLINKED_AT_ONCE;
        while let Some(first) = self.guest_pages.take(page) {
            let mut at = first;
            while at != NO_BLOCK {
                let next = self.blocks[usize::from(at)].next_in_page;
                self.drop_block(at, &mut budget, memory);
                at = next;
            }
            self.version = self.version.wrapping_add(1);
        }
    }

    /// The guest writes to the page at `pa`, where code was made from, and `changed` are the words of it that become
    /// others, if any: drops the blocks that were made from these, and keeps the others, with what leads to them. The
    /// guest must not run before [`Self::settle`] is done.
    ///
    /// False if the page is to be dropped as a whole, with [`Self::drop_page`], and has not been touched: nothing would
    /// be left of it, or it has been written too often to be worth it, or has too many blocks to look through.
    pub fn change_words(
        &mut self,
        pa: GuestPa,
        changed: Option<RangeInclusive<u16>>,
        memory: &mut impl CodeMemory,
    ) -> bool {
        let page = pa.page().0;
        if self.left.pages.is_some() {
            return false;
        }
        let concerned = |block: &Block| changed.as_ref().is_some_and(|words| block.is_made_from(words));
        let (mut blocks, mut dropped) = (0, 0);
        let mut next = self.guest_pages.next_of(page, None);
        while let Some((number, mut at)) = next {
            while let Some(block) = self.blocks.get(usize::from(at)) {
                blocks += 1;
                dropped += u32::from(concerned(block));
                at = block.next_in_page;
            }
            if blocks > DROPPED_AT_ONCE as u32 {
                return false;
            }
            next = self.guest_pages.next_of(page, Some(number));
        }
        if dropped == blocks || self.guest_pages.count_write(page) > WRITES_PER_BLOCK * blocks {
            return false;
        }
        if dropped > 0 {
            self.drop_where(page, concerned, memory);
        }
        true
    }

    /// The same for a page that runs in place, of which no more has blocks than must: whatever is left of it. False,
    /// and nothing is done, if there are too many blocks to look through.
    pub fn change_stubs(&mut self, pa: GuestPa, changed: RangeInclusive<u16>, memory: &mut impl CodeMemory) -> bool {
        let page = pa.page().0;
        if self.left.pages.is_some() || self.are_many(|pages, after| pages.next_of(page, after)) {
            return false;
        }
        self.drop_where(page, |block| block.is_made_from(&changed), memory);
        true
    }

    /// Whether a block may be made from word `at` of the page at `page`: [`Self::change_stubs`] would have something to
    /// do.
    #[must_use]
    pub fn has_made_from(&self, page: GuestPa, at: u16) -> bool {
        !self.all_blocks(page, |block| !block.is_made_from(&(at..=at)))
    }

    /// Says of each block that was made from the page at `page` of which words, as far as is noted. False if there may
    /// be more than it has said.
    pub fn made_from(&self, page: GuestPa, mut each: impl FnMut(RangeInclusive<u16>)) -> bool {
        self.all_blocks(page, |block| {
            each(block.made_from());
            true
        })
    }

    /// Whether `holds` is true for all blocks made from the page at `page`. False if they are many, or not all known.
    fn all_blocks(&self, page: GuestPa, mut holds: impl FnMut(&Block) -> bool) -> bool {
        let mut next = self.guest_pages.next_of(page.0, None);
        let mut budget = DROPPED_AT_ONCE;
        while let Some((number, mut at)) = next {
            while let Some(block) = self.blocks.get(usize::from(at)) {
                if budget == 0 || !holds(block) {
                    return false;
                }
                budget -= 1;
                at = block.next_in_page;
            }
            next = self.guest_pages.next_of(page.0, Some(number));
        }
        self.left.pages.is_none()
    }

    /// Drops the blocks made from the page at `page` of which `concerned` is true.
    fn drop_where(&mut self, page: u32, concerned: impl Fn(&Block) -> bool, memory: &mut impl CodeMemory) {
        let mut budget = UNLINKED_AT_ONCE;
        let mut next = self.guest_pages.next_of(page, None);
        while let Some((number, mut at)) = next {
            // A page without blocks is removed.
            next = self.guest_pages.next_of(page, Some(number));
            let mut before = None;
            while at != NO_BLOCK {
                let block = &self.blocks[usize::from(at)];
                let behind = block.next_in_page;
                if concerned(block) {
                    self.drop_block(at, &mut budget, memory);
                    match before {
                        Some(before) => self.blocks[usize::from(before)].next_in_page = behind,
                        None => self.guest_pages.dropped_to(number, behind),
                    }
                } else {
                    before = Some(at);
                }
                at = behind;
            }
        }
        self.version = self.version.wrapping_add(1);
    }

    /// Whether there is a breakpoint at `va`: then no block is to be made there.
    #[inline]
    #[must_use]
    pub fn is_breakpoint(&self, va: GuestVa) -> bool {
        self.breakpoints.contains(address(va))
    }

    /// Whether there is a breakpoint in the page of `va`.
    #[must_use]
    pub fn has_breakpoint_near(&self, va: GuestVa) -> bool {
        self.breakpoints.contains(va.page()) || self.breakpoints.room_at(va.page()) < PAGE_WORDS
    }

    /// Sets a breakpoint, at any address, for both states, and drops the blocks that contain it. The guest must be in
    /// none of them, and must not run before [`Self::settle`] is done. False if there are [`crate::MOST_BREAKPOINTS`]
    /// already.
    pub fn set_breakpoint(&mut self, va: GuestVa, memory: &mut impl CodeMemory) -> bool {
        let va = address(va);
        if !self.breakpoints.insert(va) {
            return false;
        }
        self.drop_around(va, memory);
        true
    }

    /// Takes a breakpoint away, at any time. Blocks that end in front of it stay as they are, and lead on. False if
    /// there is none.
    pub fn clear_breakpoint(&mut self, va: GuestVa) -> bool {
        self.breakpoints.remove(address(va))
    }

    /// Takes all of them away.
    pub fn clear_breakpoints(&mut self) {
        self.breakpoints = Breakpoints::new();
    }

    /// Drops the blocks that contain `va`; all that there are, if its page has many to look at.
    fn drop_around(&mut self, at: GuestVa, memory: &mut impl CodeMemory) {
        let va = at.page().0;
        let at_va = |pages: &GuestPages, after| pages.next_at(va, after).map(|(number, _, first)| (number, first));
        if self.left.pages.is_some() || self.are_many(at_va) {
            self.flush(memory);
            return;
        }
        let mut next = self.guest_pages.next_at(va, None);
        while let Some((number, pa, _)) = next {
            next = self.guest_pages.next_at(va, Some(number));
            if self.are_many(|pages, after| pages.next_of(pa, after)) {
                self.flush(memory);
                return;
            }
            self.drop_where(pa, |block| at.0.wrapping_sub(address(block.va).0) < 4 * block.length() as u32, memory);
        }
    }

    /// Whether guest pages, of which `next` says what comes behind another one, have more blocks than are dropped at
    /// once.
    fn are_many(&self, next: impl Fn(&GuestPages, Option<usize>) -> Option<(usize, u16)>) -> bool {
        let mut blocks = 0;
        let mut page = next(&self.guest_pages, None);
        while let Some((number, mut at)) = page {
            while at != NO_BLOCK {
                at = self.blocks[usize::from(at)].next_in_page;
                blocks += 1;
                if blocks > DROPPED_AT_ONCE {
                    return true;
                }
            }
            page = next(&self.guest_pages, Some(number));
        }
        false
    }

    /// Drops a block. Its exits stay as they are, for code that is in it runs on to its end.
    fn drop_block(&mut self, id: u16, budget: &mut u32, memory: &mut impl CodeMemory) {
        let id = self.stands_for(id);
        // One across the end of its page goes with either of them.
        if self.blocks[usize::from(id)].is(Flag::Dropped) {
            return;
        }
        self.isolate(id, budget, memory);
        let block = &mut self.blocks[usize::from(id)];
        block.set(Flag::Dropped, true);
        let (head, next) = (bucket(block.va), block.next_in_bucket);
        if self.buckets[head] == id {
            self.buckets[head] = next;
        } else {
            // One that is further behind is never looked at.
            let mut at = self.buckets[head];
            for _ in 0..CHAIN {
                let Some(before) = self.blocks.get_mut(usize::from(at)) else { break };
                if before.next_in_bucket == id {
                    before.next_in_bucket = next;
                    break;
                }
                at = before.next_in_bucket;
            }
        }
        self.stats.dropped += 1;
    }

    /// The guest's mapping of the page at `va` changed: nothing may branch there without looking again. Blocks stay, in
    /// case the mapping comes back. The guest must not run before [`Self::settle`] is done. How many blocks and exits
    /// that concerned.
    pub fn unmap_page(&mut self, va: GuestVa, memory: &mut impl CodeMemory) -> u32 {
        let page = va.page().0;
        let next = |pages: &GuestPages, after| pages.next_at(page, after).map(|(number, _, first)| (number, first));
        if self.are_many(next) {
            self.guest_pages.note_move(page);
            (self.left.pages, self.left.block) = (Some(0), None);
            return UNLINKED_AT_ONCE;
        }
        let mut budget = UNLINKED_AT_ONCE;
        let mut blocks = 0;
        let mut page = next(&self.guest_pages, None);
        while let Some((number, mut at)) = page {
            while at != NO_BLOCK {
                self.isolate(at, &mut budget, memory);
                at = self.blocks[usize::from(at)].next_in_page;
                blocks += 1;
            }
            page = next(&self.guest_pages, Some(number));
        }
        blocks + (UNLINKED_AT_ONCE - budget)
    }

    /// Unlinks everything: the whole translation regime changed. The guest must not run before [`Self::settle`] is
    /// done.
    pub fn unlink_all(&mut self, memory: &mut impl CodeMemory) {
        self.left.from = Some(0);
        self.jump_cache.clear();
        self.mirror.clear(memory);
    }
}
