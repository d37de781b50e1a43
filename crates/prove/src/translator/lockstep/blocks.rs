//! Blocks: found or made for a guest PC, with notes of what each word of them stands for.

use crate::translator::coverage::{Form, Made};
use crate::translator::instruction::{Instruction, half, length_at};
use crate::translator::lockstep::Lockstep;
use crate::translator::memory::Memory;
use crate::translator::model;
use crate::translator::{CODE, VA_TO_PA};
use spica_addr::{CachePc, GuestPa, GuestVa};
use spica_dbt::layout::{PAGE, PAGE_WORDS};
use spica_dbt::{BlockId, Location, NextPage, Start, is_across, shadow_stack};
use std::collections::BTreeMap;

/// What the word of a block stands for.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) location: Location,
    /// It is the first word of its guest instruction.
    pub(super) first: bool,
    /// It is part of the exit behind the last instruction.
    pub(super) behind: bool,
    /// What the translator made of the instruction.
    pub(super) form: Form,
}

impl Lockstep {
    /// The block at a guest PC, made if need be.
    pub(super) fn find_block(&mut self, pc: u32) -> BlockId {
        let (va, pa) = (GuestVa(pc), GuestPa((pc & !1).wrapping_sub(VA_TO_PA)));
        let words = self.memory.page_words(pc);
        let start = self.start_at(va, &words);
        // The first code page is of a mapping that is not global.
        let all = self.in_place.as_ref().is_some_and(|in_place| in_place.first_is_global);
        let global = all || pc.wrapping_sub(CODE) >= PAGE;
        if let Some(block) = self.translator.lookup_from(va, pa, start) {
            self.translator.set_global(block, global && !start.it.in_block());
            return block;
        }
        self.memory.protected[Memory::page(pc).expect("code")] = true;
        if start.next_page.is_some() {
            self.memory.protected[Memory::page(pc.wrapping_add(1)).expect("code")] = true;
        }
        let flushes = self.translator.stats().flushes;
        let block = self.translator.translate_from(va, pa, global, &words, start, &mut self.code);
        if self.translator.stats().flushes != flushes {
            self.forget_places();
            shadow_stack::clear(self.cpu.page, &self.layout);
        }
        self.follow();
        self.record_places(block, pc, &words);
        block
    }

    /// As `Common::translate_once`, for a page that is volatile, or as in FIQ mode.
    pub(super) fn block_for_once(&mut self, pc: u32) -> BlockId {
        let (va, pa) = (GuestVa(pc), GuestPa((pc & !1).wrapping_sub(VA_TO_PA)));
        let page = Memory::page(pc).expect("code");
        let volatile = self.volatile[page];
        if volatile {
            self.env().0.code_changes(pc & !1);
        } else {
            self.memory.protected[page] = true;
        }
        let words = self.memory.page_words(pc);
        let flushes = self.translator.stats().flushes;
        let start = self.start_at(va, &words);
        let block = self.translator.translate_once_from(va, pa, &words, (start, usize::MAX), &mut self.code);
        if self.translator.stats().flushes != flushes {
            self.forget_places();
            shadow_stack::clear(self.cpu.page, &self.layout);
        }
        self.follow();
        self.snapshot = volatile.then(|| (block, words.to_vec()));
        self.record_places(block, pc, &words);
        self.note("a block for once");
        block
    }

    /// Whether the page of `pc`, which has code, may change without notice, or a block of such a page was left last.
    pub(super) fn is_volatile(&self, pc: u32) -> bool {
        self.snapshot.is_some() || self.volatile[Memory::page(pc).expect("code")]
    }

    /// Whether the block is from a volatile page that has changed since: without an ISB, what its code does is not
    /// defined.
    pub(super) fn is_outdated(&self, block: BlockId) -> bool {
        let (va, _) = self.translator.source(block);
        self.snapshot.as_ref().is_some_and(|(of, words)| *of == block && words[..] != self.memory.page_words(va.0))
    }

    /// The instruction in front of `pc` of the outdated block, with no more between than preloads, which have no word.
    pub(super) fn behind_preloads(&self, pc: u32) -> u32 {
        let Some((_, words)) = &self.snapshot else { return pc };
        let next = self.reference.pc.wrapping_add(if self.under_way { 4 } else { 0 });
        let dropped = |at: u32| model::is_preload(words[(at & 0xfff) as usize / 4]);
        let near = pc > next && pc - next < PAGE && next & 0xfff != 0;
        if near && (next..pc).step_by(4).all(dropped) { next } else { pc }
    }

    /// How T32 code at `va` begins.
    fn start_at(&mut self, va: GuestVa, words: &[u32; PAGE_WORDS]) -> Start {
        let it = std::mem::take(&mut self.it);
        let across = is_across(va, words);
        if across {
            self.note("an instruction across the end of a page");
        }
        let next = va.page().0.wrapping_add(PAGE);
        let page = || NextPage { half: half(&self.memory, next) as u16, pa: GuestPa(next.wrapping_sub(VA_TO_PA)) };
        let next_page = across.then(page);
        Start { it, next_page }
    }

    /// The address behind a block's last instruction.
    fn end_of(&self, block: BlockId, va: u32) -> u32 {
        let instructions = self.translator.length(block);
        (0..instructions).fold(va, |at, _| at.wrapping_add(length_at(&self.memory, at)))
    }

    pub(super) fn record_places(&mut self, block: BlockId, va: u32, words: &[u32; PAGE_WORDS]) {
        let entry = self.translator.entry(block);
        let landing = CachePc(entry.0 - 4);
        if self.translator.mirror().has(GuestVa(va)) {
            // LR is not the guest's yet: its instruction begins behind it.
            let location = self.translator.locate(block, landing, words).expect("every word has its place");
            self.places.insert(landing.0, Place { location, first: false, behind: false, form: Form::default() });
        }
        let end = self.end_of(block, va);
        let page_end = (entry.0 & !0xfff) + PAGE;
        let (mut last, mut cold) = (None, false);
        let mut instructions = BTreeMap::<u32, Made>::new();
        let belongs = |pc: u32| self.translator.block_at(CachePc(pc)) == Some(block);
        let hot_end = (entry.0..page_end).step_by(4).find(|&pc| !belongs(pc)).unwrap_or(page_end);
        // Literals and stubs fill the page from its end; those of the newest block begin where nothing is free any
        // more.
        let (mut free, mut full) = (hot_end, page_end);
        while free < full {
            let middle = free + (full - free) / 8 * 4;
            match self.translator.block_at(CachePc(middle)) {
                None => free = middle + 4,
                Some(_) => full = middle,
            }
        }
        let stubs: Vec<u32> = (full..page_end).step_by(4).take_while(|&pc| belongs(pc)).collect();
        for pc in (entry.0..hot_end).step_by(4).chain(stubs) {
            cold |= pc >= hot_end;
            let location = self.translator.locate(block, CachePc(pc), words).expect("every word has its place");
            let first = !cold && last != Some(location.guest);
            last = Some(location.guest);
            let behind = location.guest.0 == end;
            self.places.insert(pc, Place { location, first, behind, form: Form::default() });
            let made = instructions.entry(location.guest.0).or_default();
            if cold { made.cold.push(self.word(pc)) } else { made.hot.push((pc, self.word(pc))) }
        }
        // Of an instruction whose access is checked, more is made than there are names for.
        if self.translator.checks() {
            return;
        }
        for (at, made) in instructions {
            let Some(&(first, _)) = made.hot.first().filter(|_| at != end) else { continue };
            let it = self.places[&first].location.it;
            let form = self.coverage.form(&Instruction::at(&self.memory, at, it), &made);
            self.places.get_mut(&first).expect("just put there").form = form;
        }
    }

    pub(super) fn word(&self, pc: u32) -> u32 {
        if let Some(word) = self.in_place.as_ref().and_then(|in_place| in_place.word(pc)) {
            return word;
        }
        let (page, word) = self.layout.find(CachePc(pc)).expect("in a code page");
        self.code.written[page as usize][word]
    }

    /// The bet on a DACR write was lost, or a guest forged its site.
    pub(super) fn make_eager(&mut self) {
        let site = if self.random.one_in(4) {
            let block = self.random.pick(&[0, 1, 2, 3]) * 2 * PAGE;
            self.layout.code_page(0).0.wrapping_add(block + 4 * self.random.below(1100))
        } else {
            self.cpu.page.dacr_site
        };
        let before = self.code.written.clone();
        self.translator.make_dacr_eager(CachePc(site), &mut self.code);
        for (page, (old, new)) in before.iter().zip(&self.code.written).enumerate() {
            for at in (0..PAGE_WORDS).filter(|&at| old[at] != new[at]) {
                let pc = self.layout.code_page(page as u32).0 + 4 * at as u32;
                assert_eq!(pc, site - 4, "another word than that of the site was changed");
                // LDR rs, [field]; MVN rs, #0
                assert_eq!((old[at] >> 16, new[at]), (0xe59f, 0xe3e0_0000 | old[at] & 0xf000));
                self.eager.insert(site);
            }
        }
    }
}
