//! A translator whose memory and guest pages a test can look into.

use spica_addr::{CachePc, GuestPa, GuestVa};
use spica_dbt::layout::{Layout, PAGE, PAGE_WORDS};
use spica_dbt::{BlockId, Capacity, CodeMemory, ExitId, Options, Translator};
use std::collections::{BTreeMap, BTreeSet};

pub const LAYOUT: Layout = Layout { base: 0xa5c3_0000, pages: 4, mirror: None };

pub const VA: u32 = 0x8000_0000;
pub const PA: u32 = 0x4000_0000;

pub const NOP: u32 = 0xe320_f000;
pub const BX_LR: u32 = 0xe12f_ff1e;

/// `B<cond>` at `at` to `to`.
pub fn b(cond: u32, at: u32, to: u32) -> u32 {
    cond << 28 | 0x0a00_0000 | (to.wrapping_sub(at + 8) >> 2) & 0x00ff_ffff
}

/// Where the branch `word` at `at` leads, if it is one.
pub fn branch_target(at: u32, word: u32) -> Option<u32> {
    (word >> 24 & 0xf == 0xa && word >> 28 != 15)
        .then(|| at.wrapping_add(8).wrapping_add(((word << 8) as i32 >> 6) as u32))
}

/// Code memory that takes notes of what is published.
pub struct Code {
    pub written: Vec<[u32; PAGE_WORDS]>,
    pub fetched: Vec<[u32; PAGE_WORDS]>,
    pub published: Vec<(u32, usize, usize)>,
}

impl CodeMemory for Code {
    fn page(&mut self, page: u32) -> &mut [u32; PAGE_WORDS] {
        &mut self.written[page as usize]
    }

    fn publish(&mut self, page: u32, first: usize, words: usize) {
        self.published.push((page, first, words));
        let (from, to) = (&self.written[page as usize], &mut self.fetched[page as usize]);
        to[first..first + words].copy_from_slice(&from[first..first + words]);
    }

    fn mirror_page(&mut self, _page: u32) -> &mut [u32; PAGE_WORDS] {
        unreachable!("no return mirror here")
    }

    fn publish_mirror(&mut self, _page: u32, _va: u32, _first: usize, _words: usize) {}

    fn map_mirror(&mut self, _va: u32, _page: u32) {}

    fn unmap_mirror(&mut self, _va: Option<u32>) {}
}

/// A translator with its memory, and guest pages by PA.
pub struct Fixture {
    pub translator: Translator,
    pub code: Code,
    pub guest: BTreeMap<u32, [u32; PAGE_WORDS]>,
}

impl Fixture {
    pub fn new(options: Options, pages: u32, capacity: Capacity) -> Fixture {
        let blank = vec![[0xe7f0_00f0; PAGE_WORDS]; LAYOUT.pages as usize];
        Fixture {
            translator: Translator::new(Layout { pages, ..LAYOUT }, options, capacity),
            code: Code { written: blank.clone(), fetched: blank, published: Vec::new() },
            guest: BTreeMap::new(),
        }
    }

    /// Room for all that a small test can want.
    pub fn roomy() -> Fixture {
        Fixture::new(Options::all(), LAYOUT.pages, Capacity { blocks: 1000, exits: 4000, mirror_pages: 0 })
    }

    /// Puts guest code at `pa`; the rest of its page is returns.
    pub fn put(&mut self, pa: u32, words: &[u32]) {
        let page = self.guest.entry(pa & !0xfff).or_insert([BX_LR; PAGE_WORDS]);
        let at = (pa & 0xfff) as usize / 4;
        page[at..at + words.len()].copy_from_slice(words);
    }

    pub fn translate(&mut self, va: u32, pa: u32, global: bool) -> BlockId {
        let words = self.guest.entry(pa & !0xfff).or_insert([BX_LR; PAGE_WORDS]);
        self.translator.translate(GuestVa(va), GuestPa(pa), global, words, &mut self.code)
    }

    pub fn lookup(&self, va: u32, pa: u32) -> Option<BlockId> {
        self.translator.lookup(GuestVa(va), GuestPa(pa))
    }

    pub fn word(&self, pc: u32) -> u32 {
        let (page, word) = self.translator.layout().find(CachePc(pc)).expect("in a code page");
        assert_eq!(self.code.written[page as usize][word], self.code.fetched[page as usize][word], "not published");
        self.code.written[page as usize][word]
    }

    pub fn entry(&self, id: BlockId) -> u32 {
        self.translator.entry(id).0
    }

    /// The exits of a block, in the order of their numbers: each with the address of its `SVC`, and where it leads to.
    pub fn exits(&self, id: BlockId) -> Vec<(ExitId, CachePc, u32)> {
        let base = self.entry(id) & !0xfff;
        let mut found: Vec<_> = (base..base + PAGE - 4)
            .step_by(4)
            .map(CachePc)
            .filter(|&pc| self.translator.block_at(pc) == Some(id))
            .filter_map(|pc| self.translator.exit(pc).map(|exit| (exit, pc, self.word(pc.0 + 4))))
            .collect();
        found.sort_unstable();
        found
    }

    /// Whether there is code from the page of `pa`.
    pub fn has_code(&self, pa: u32) -> bool {
        self.mapped_pages().iter().any(|&(_, page)| page == GuestPa(pa).page())
    }

    /// The pages that there is code from: VA and PA.
    pub fn mapped_pages(&self) -> BTreeSet<(GuestVa, GuestPa)> {
        let mut next = 0;
        let mut found = BTreeSet::new();
        while let Some((number, va, pa)) = self.translator.next_page(next) {
            assert!(found.insert((va, pa)), "{va}, {pa} twice");
            next = number + 1;
        }
        assert_eq!(found.len(), self.translator.guest_pages());
        found
    }

    /// The PAs of the page at `va`.
    pub fn mapped_at(&self, va: u32) -> BTreeSet<GuestPa> {
        let page = |after| self.translator.next_page_at(GuestVa(va), after);
        let pages: Vec<_> = std::iter::successors(page(None), |&(number, _)| page(Some(number))).collect();
        let found = BTreeSet::from_iter(pages.iter().map(|&(_, pa)| pa));
        assert_eq!(found.len(), pages.len(), "one of them twice");
        found
    }

    pub fn link(&mut self, exit: ExitId, to: BlockId) -> bool {
        self.translator.link(exit, to, &mut self.code)
    }

    pub fn drop_page(&mut self, pa: u32) {
        self.translator.drop_page(GuestPa(pa), &mut self.code);
    }

    /// The guest writes `word` at `pa`: whether only what was made from it is dropped, or nothing. If not, nothing has
    /// been done.
    pub fn patch(&mut self, pa: u32, word: u32) -> bool {
        let at = (pa & 0xfff) as usize / 4;
        let old = std::mem::replace(&mut self.guest.get_mut(&(pa & !0xfff)).expect("a page")[at], word);
        let changed = (old != word).then_some(at as u16..=at as u16);
        self.translator.change_words(GuestPa(pa), changed, &mut self.code)
    }

    pub fn unmap_page(&mut self, va: u32) {
        self.translator.unmap_page(GuestVa(va), &mut self.code);
    }

    /// All words of code memory.
    pub fn snapshot(&self) -> Vec<[u32; PAGE_WORDS]> {
        self.code.fetched.clone()
    }
}

/// A caller in one page, a callee in another that calls on into a third.
pub fn chain(f: &mut Fixture, global: bool) -> [BlockId; 3] {
    let at = |n: u32| VA + 0x1000 * n;
    f.put(PA, &[b(14, at(0), at(1))]);
    f.put(PA + 0x1000, &[b(14, at(1), at(2))]);
    [0, 1, 2].map(|n| f.translate(at(n), PA + 0x1000 * n, global))
}

/// The constant that the first guest instruction of a block, a load of a literal, has become.
pub fn literal_of(f: &Fixture, block: BlockId) -> Option<u32> {
    let half = |word: u32| word >> 4 & 0xf000 | word & 0xfff;
    let pc = f.entry(block);
    let low = f.word(pc);
    if low & 0x0ff0_0000 != 0x0300_0000 {
        return None;
    }
    let next = f.word(pc + 4);
    let top = next & 0x0ff0_f000 == 0x0340_0000 | low & 0xf000;
    let behind = if top { f.word(pc + 8) } else { next };
    // An address that is loaded from is none.
    let loads = behind & 0x0f3f_ffff == 0x0510_0000 | (low & 0xf000) | (low & 0xf000) << 4;
    (!loads).then(|| half(low) | if top { half(next) << 16 } else { 0 })
}
