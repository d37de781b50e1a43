//! A random sequence of everything against a naive model that knows each block word by word.
//!
//! After every step the whole of code memory is what the model says: each word as it was translated, but for the
//! branches of links that still hold.

use super::fixture::{BX_LR, Fixture, LAYOUT, NOP, PA, VA, b, branch_target};
use spica_addr::{CachePc, GuestPa, GuestVa};
use spica_dbt::layout::{PAGE, PAGE_WORDS};
use spica_dbt::{BlockId, Capacity, Options, trap};
use spica_prove::random::Random;
use spica_prove::translator::generate;
use spica_prove::work::attempt;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// A block as the model knows it.
struct Known {
    id: BlockId,
    va: u32,
    pa: u32,
    global: bool,
    live: bool,
    entry: u32,
    /// Address and word, as translated.
    words: Vec<(u32, u32)>,
    /// Offsets of the first and the last guest word that it was made from.
    source: (u32, u32),
    /// Address of the `SVC`, address of the word that a link patches, target.
    exits: Vec<(u32, u32, u32)>,
}

/// The naive model of the cache, with the fixture that it watches.
struct World {
    f: Fixture,
    random: Random,
    blocks: Vec<Known>,
    /// Address of the `SVC` of an exit → index of the block that it leads to.
    links: BTreeMap<u32, usize>,
    /// VA → code-cache address: what the jump cache may hold.
    remembered: HashMap<u32, u32>,
    /// Writes to each PA page since all of its blocks were dropped.
    writes: [usize; PA_PAGES as usize],
    /// Words written of which other blocks of the page were to stay.
    patches: u32,
    /// VA page → PA page, and whether the mapping is global.
    mapping: [(u32, bool); VA_PAGES as usize],
}

const VA_PAGES: u32 = 6;
const PA_PAGES: u32 = 4;

/// `LDR r1, [PC, #16]`, and `LDR r1, [PC, #-24]`.
const LITERAL: u32 = 0xe59f_1010;
const LITERAL_BEFORE: u32 = 0xe51f_1018;

impl World {
    fn new(seed: u64) -> World {
        let mut random = Random::new(seed);
        let options = Options { max_block: random.pick(&[2, 8, 32]), ..generate::options(&mut random) };
        // Ways back from calls are not followed here: lockstep does that.
        let options = Options { link: true, shadow_stack: false, ..options };
        let capacity = random.pick(&[
            Capacity { blocks: 25, exits: 1000, mirror_pages: 0 },
            Capacity { blocks: 1000, exits: 100, mirror_pages: 0 },
            Capacity { blocks: 1000, exits: 4000, mirror_pages: 0 },
        ]);
        let pages = 1 + random.below(3);
        let mut world = World {
            f: Fixture::new(options, pages, capacity),
            random,
            blocks: Vec::new(),
            links: BTreeMap::new(),
            remembered: HashMap::new(),
            writes: [0; PA_PAGES as usize],
            patches: 0,
            mapping: [(PA, true); VA_PAGES as usize],
        };
        for page in 0..PA_PAGES {
            world.rewrite(PA + PAGE * page);
        }
        for page in 0..VA_PAGES {
            world.remap(page);
        }
        world
    }

    /// New code in a guest page: branches among a few places in all pages, and some of each rule.
    fn rewrite(&mut self, pa: u32) {
        let words = std::array::from_fn(|_| self.instruction());
        self.f.guest.insert(pa, words);
    }

    fn instruction(&mut self) -> u32 {
        let random = &mut self.random;
        let target = PAGE * random.below(VA_PAGES) + 16 * random.below(256);
        match random.below(8) {
            // The distance is right for one of the pages that the code may be mapped at.
            0 | 1 => b(random.pick(&[14, 14, 0, 1, 12]), PAGE * random.below(VA_PAGES), target),
            2 => b(14, 0, target) | 1 << 24,
            3 => random.pick(&[LITERAL, LITERAL, LITERAL_BEFORE]),
            4 => 0xe08f_1002,
            5 => 0xee11_0f10,
            6 => BX_LR,
            _ => NOP,
        }
    }

    /// Offsets of the words that a block at `va` was made from: its instructions, and the literals that they load, with
    /// all that lies between.
    fn source(&self, id: BlockId, va: u32, pa: u32) -> (u32, u32) {
        let first = va & 0xfff;
        let end = first + 4 * self.f.translator.length(id) as u32;
        let page = &self.f.guest[&(pa & !0xfff)];
        let (mut lowest, mut last) = (first, end - 4);
        for at in (first..end).step_by(4).filter(|_| self.f.translator.options().literals) {
            match page[at as usize / 4] {
                LITERAL if at + 0x18 < PAGE => last = last.max(at + 0x18),
                LITERAL_BEFORE if at >= 0x10 && at - 0x10 < first => lowest = 0,
                _ => {}
            }
        }
        (lowest, last)
    }

    /// A word of a page is written: what was made from it goes, and nothing else, if that pays.
    fn patch(&mut self, at: u32) {
        let page = self.random.below(PA_PAGES);
        let pa = PA + PAGE * page;
        let old = self.f.guest[&pa][at as usize / 4];
        let word = if self.random.one_in(4) { old } else { self.instruction() };
        let of_page = |block: &&Known| block.live && block.pa & !0xfff == pa;
        let concerned = |block: &Known| word != old && block.source.0 <= at && at <= block.source.1;
        let blocks = self.blocks.iter().filter(of_page).count();
        let dropped = self.blocks.iter().filter(of_page).filter(|block| concerned(block)).count();
        self.writes[page as usize] += 1;
        let version = self.f.translator.version();
        let patched = self.f.patch(pa + at, word);
        if patched {
            assert!(dropped < blocks);
            assert_eq!(self.f.translator.version() != version, dropped > 0);
            self.patches += u32::from(dropped > 0);
        } else {
            assert!(dropped == blocks || self.writes[page as usize] > 2 * blocks, "{dropped} of {blocks}");
            assert_eq!(self.f.translator.version(), version);
            self.f.drop_page(pa);
        }
        self.drop_where(pa, |block| !patched || concerned(block));
    }

    /// Those blocks of the page at `pa` are dropped.
    fn drop_where(&mut self, pa: u32, concerned: impl Fn(&Known) -> bool) {
        let dropped = |block: &Known| block.live && block.pa & !0xfff == pa && concerned(block);
        self.unlink_where(|w, _, to| dropped(&w.blocks[to]));
        for block in self.blocks.iter_mut().filter(|block| dropped(block)) {
            block.live = false;
            self.remembered.remove(&block.va);
        }
        if !self.blocks.iter().any(|block| block.live && block.pa & !0xfff == pa) {
            self.writes[((pa - PA) / PAGE) as usize] = 0;
        }
    }

    fn remap(&mut self, page: u32) {
        let global = !self.random.one_in(3);
        self.mapping[page as usize] = (PA + PAGE * self.random.below(PA_PAGES), global);
    }

    fn translate_address(&self, va: u32) -> Option<(u32, bool)> {
        let page = va.wrapping_sub(VA) / PAGE;
        self.mapping.get(page as usize).map(|&(pa, global)| (pa | va & 0xfff, global))
    }

    fn forget_all(&mut self) {
        self.blocks.clear();
        self.links.clear();
        self.remembered.clear();
        self.writes = [0; PA_PAGES as usize];
    }

    /// Finds or makes the block at `va`. The index, and whether the cache was flushed for it.
    fn enter(&mut self, va: u32) -> (usize, bool) {
        let (pa, global) = self.translate_address(va).expect("mapped");
        let known = self.blocks.iter().rposition(|block| block.live && block.va == va && block.pa == pa);
        let found = self.f.lookup(va, pa);
        assert_eq!(found, known.map(|at| self.blocks[at].id));
        if let Some(at) = known {
            let id = self.blocks[at].id;
            self.f.translator.set_global(id, global);
            self.blocks[at].global = global;
            return (at, false);
        }
        let (version, flushes) = (self.f.translator.version(), self.f.translator.stats().flushes);
        self.f.code.published.clear();
        let id = self.f.translate(va, pa, global);
        let flushed = self.f.translator.version() != version;
        assert_eq!(flushed, self.f.translator.stats().flushes != flushes);
        if flushed {
            self.forget_all();
        }
        let mut words = Vec::new();
        // A whole page is one that is emptied before it is used.
        for (page, first, count) in self.f.code.published.clone().into_iter().filter(|publish| publish.2 < PAGE_WORDS) {
            for word in first..first + count {
                let pc = LAYOUT.code_page(page).0 + 4 * word as u32;
                words.push((pc, self.f.word(pc)));
            }
        }
        let mut exits = Vec::new();
        for (at, &(pc, word)) in words.iter().enumerate() {
            if word != 0xef00_0000 | trap::LINK || at + 1 == words.len() {
                continue;
            }
            if self.f.translator.exit(CachePc(pc)).is_none() {
                continue;
            }
            // A stub is led to by one branch; any other exit is its own site.
            let leads =
                |&&(from, word): &&(u32, u32)| branch_target(from, word) == Some(pc) && from < pc && pc - from > 8;
            let cold = words[..=at].windows(2).any(|pair| pair[1].0 < pair[0].0 || pair[1].0 - pair[0].0 > 4);
            let site = if cold { words.iter().find(leads).expect("a stub that something leads to").0 } else { pc };
            exits.push((pc, site, words[at + 1].1));
        }
        let (entry, source) = (self.f.entry(id), self.source(id, va, pa));
        self.blocks.push(Known { id, va, pa, global, live: true, entry, words, source, exits });
        (self.blocks.len() - 1, flushed)
    }

    fn unlink_where(&mut self, gone: impl Fn(&World, u32, usize) -> bool) {
        let all: Vec<(u32, usize)> = self.links.iter().map(|(&exit, &to)| (exit, to)).collect();
        for (exit, to) in all {
            if gone(self, exit, to) {
                self.links.remove(&exit);
            }
        }
    }

    fn source_of(&self, exit: u32) -> usize {
        self.blocks.iter().position(|block| block.exits.iter().any(|e| e.0 == exit)).expect("a known exit")
    }

    fn step(&mut self) {
        let va = VA + PAGE * self.random.below(VA_PAGES) + 16 * self.random.below(256);
        match self.random.below(20) {
            0..=3 => {
                let (at, _) = self.enter(va);
                self.remember(at);
            }
            4..=12 => self.take_exit(),
            13 | 14 => {
                // Where a block begins, and near one that there is or was.
                let known = self.blocks.get(self.random.below(self.blocks.len() as u32 + 1) as usize);
                let near = known.map_or(va, |block| block.va) & 0xff0;
                let word = self.random.below(8);
                self.patch((near + 4 * word) & 0xffc);
            }
            15 => {
                let pa = PA + PAGE * self.random.below(PA_PAGES);
                self.f.drop_page(pa | va & 0xfff);
                self.rewrite(pa);
                self.drop_where(pa, |_| true);
            }
            16 => {
                let page = va & !0xfff;
                self.remap((page - VA) / PAGE);
                self.f.unmap_page(va);
                self.unlink_where(|w, _, to| w.blocks[to].va & !0xfff == page);
                self.remembered.retain(|va, _| va & !0xfff != page);
            }
            17 if !self.blocks.is_empty() => {
                let mut at = self.random.below(self.blocks.len() as u32) as usize;
                if let (Some((&exit, _)), true) = (self.links.first_key_value(), self.random.one_in(2)) {
                    at = self.source_of(exit);
                }
                let id = self.blocks[at].id;
                self.f.translator.close(id, &mut self.f.code);
                self.unlink_where(|w, exit, _| w.source_of(exit) == at);
            }
            18 if self.random.one_in(10) => {
                self.f.translator.unlink_all(&mut self.f.code);
                self.links.clear();
                self.remembered.clear();
            }
            19 if self.random.one_in(30) => {
                self.f.translator.flush(&mut self.f.code);
                self.forget_all();
            }
            _ => {}
        }
        // As before the guest runs again.
        while !self.f.translator.settle(&mut self.f.code) {}
    }

    fn remember(&mut self, at: usize) {
        let block = &self.blocks[at];
        self.f.translator.remember(block.id);
        if block.global && block.live {
            assert_eq!(self.f.translator.jump_cache.get(block.va), Some(block.entry));
            self.remembered.insert(block.va, block.entry);
        }
    }

    /// An exit of any block, dropped ones included, is taken and linked if that may be.
    fn take_exit(&mut self) {
        if self.blocks.is_empty() {
            return;
        }
        let from = self.random.below(self.blocks.len() as u32) as usize;
        if self.blocks[from].exits.is_empty() {
            return;
        }
        let pick = self.random.below(self.blocks[from].exits.len() as u32) as usize;
        let (svc, _, target) = self.blocks[from].exits[pick];
        let exit = self.f.translator.exit(CachePc(svc)).expect("a known exit");
        if self.translate_address(target).is_none() {
            return;
        }
        let (to, flushed) = self.enter(target);
        if !flushed {
            let (source, destination) = (&self.blocks[from], &self.blocks[to]);
            let same_page =
                source.va & !0xfff == destination.va & !0xfff && source.pa & !0xfff == destination.pa & !0xfff;
            let may = source.live && !self.links.contains_key(&svc) && (same_page || destination.global);
            assert_eq!(self.f.link(exit, self.blocks[to].id), may);
            if may {
                self.links.insert(svc, to);
            }
        }
        self.remember(to);
    }

    /// Everything is as the model says.
    fn check(&self) {
        let mut covered = HashMap::new();
        for (at, block) in self.blocks.iter().enumerate() {
            assert_eq!(self.f.translator.is_live(block.id), block.live);
            let sites: HashMap<u32, u32> = block.exits.iter().map(|exit| (exit.1, exit.0)).collect();
            for &(pc, original) in &block.words {
                assert_eq!(covered.insert(pc, at), None, "two blocks on one word");
                let word = self.f.word(pc);
                let link = sites.get(&pc).and_then(|svc| self.links.get(svc));
                let Some(&to) = link else {
                    assert_eq!(word, original, "{pc:#x}");
                    continue;
                };
                let target = &self.blocks[to];
                let exit = block.exits.iter().find(|exit| exit.1 == pc).expect("a site");
                assert_eq!(branch_target(pc, word), Some(target.entry));
                assert!(target.live && target.va == exit.2, "a link that must not be");
                let cond = if exit.0 == exit.1 { 14 } else { original >> 28 };
                assert_eq!(word >> 28, cond);
            }
        }
        for page in 0..self.f.translator.layout().pages {
            for word in 0..PAGE_WORDS as u32 {
                let pc = LAYOUT.code_page(page).0 + 4 * word;
                let expected = covered.get(&pc).map(|&at| self.blocks[at].id);
                assert_eq!(self.f.translator.block_at(CachePc(pc)), expected, "{pc:#x}");
            }
        }
        for va in (VA..VA + VA_PAGES * PAGE).step_by(16) {
            if let Some(host) = self.f.translator.jump_cache.get(va) {
                assert_eq!(self.remembered.get(&va), Some(&host), "{va:#x} in the jump cache");
            }
        }
        let pages = |block: &Known| (GuestVa(block.va & !0xfff), GuestPa(block.pa & !0xfff));
        let expected: BTreeSet<_> = self.blocks.iter().filter(|block| block.live).map(pages).collect();
        assert_eq!(self.f.mapped_pages(), expected);
        for page in 0..VA_PAGES {
            let va = VA + PAGE * page;
            let here = expected.iter().filter(|key| key.0 == GuestVa(va)).map(|key| key.1);
            assert_eq!(self.f.mapped_at(va + 0x123), here.collect());
        }
        assert!(self.f.translator.is_settled());
        let (blocks, exits, _) = self.f.translator.in_use();
        assert_eq!(blocks, self.blocks.len());
        assert_eq!(exits, self.blocks.iter().map(|block| block.exits.len()).sum::<usize>());
    }
}

#[test]
fn random_sequences() {
    let (mut links, mut flushes, mut dropped, mut patches) = (0, 0, 0, 0);
    for seed in 1..=100 {
        let world = attempt(|| {
            let mut world = World::new(seed);
            for _ in 0..300 {
                world.step();
                world.check();
            }
            world
        });
        let world = world.unwrap_or_else(|message| panic!("seed {seed}: {message}"));
        let stats = world.f.translator.stats();
        links += stats.links;
        flushes += stats.flushes;
        dropped += stats.dropped;
        patches += world.patches;
    }
    eprintln!("{links} links, {flushes} flushes, {dropped} blocks dropped, {patches} patches");
    assert!(links > 1000 && flushes > 20 && dropped > 500 && patches > 100, "the sequences have become too tame");
}
