//! The code cache's books: look-up, links, dropped and unmapped pages, flushes, and the jump cache.
//!
//! First one test for each promise, then a random sequence of everything against a naive model that knows each block
//! word by word. After every step the whole of code memory is what the model says: each word as it was translated, but
//! for the branches of links that still hold.

mod model;
mod support;

use model::Random;
use spica_addr::{CachePc, GuestPa, GuestVa};
use spica_dbt::jump_cache::ENTRIES;
use spica_dbt::layout::{HOT_FIELDS, Layout, PAGE, PAGE_WORDS};
use spica_dbt::{BlockId, Capacity, CodeMemory, ExitId, Options, Translator, trap};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use support::{Seed, cases};

const LAYOUT: Layout = Layout { base: 0xa5c3_0000, pages: 4, mirror: None };
const VA: u32 = 0x8000_0000;
const PA: u32 = 0x4000_0000;

const NOP: u32 = 0xe320_f000;
const BX_LR: u32 = 0xe12f_ff1e;

/// `B<cond>` at `at` to `to`.
fn b(cond: u32, at: u32, to: u32) -> u32 {
    cond << 28 | 0x0a00_0000 | (to.wrapping_sub(at + 8) >> 2) & 0x00ff_ffff
}

/// Where the branch `word` at `at` leads, if it is one.
fn branch_target(at: u32, word: u32) -> Option<u32> {
    (word >> 24 & 0xf == 0xa && word >> 28 != 15)
        .then(|| at.wrapping_add(8).wrapping_add(((word << 8) as i32 >> 6) as u32))
}

/// Code memory that takes notes of what is published.
struct Code {
    written: Vec<[u32; PAGE_WORDS]>,
    fetched: Vec<[u32; PAGE_WORDS]>,
    published: Vec<(u32, usize, usize)>,
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

    fn publish_mirror(&mut self, _page: u32, _first: usize, _words: usize) {}

    fn map_mirror(&mut self, _va: u32, _page: u32) {}

    fn unmap_mirror(&mut self, _va: Option<u32>) {}
}

/// A translator with its memory, and guest pages by PA.
struct Fixture {
    translator: Translator,
    code: Code,
    guest: BTreeMap<u32, [u32; PAGE_WORDS]>,
}

impl Fixture {
    fn new(options: Options, pages: u32, capacity: Capacity) -> Fixture {
        let blank = vec![[0xe7f0_00f0; PAGE_WORDS]; LAYOUT.pages as usize];
        Fixture {
            translator: Translator::new(Layout { pages, ..LAYOUT }, options, capacity),
            code: Code { written: blank.clone(), fetched: blank, published: Vec::new() },
            guest: BTreeMap::new(),
        }
    }

    /// Room for all that a small test can want.
    fn roomy() -> Fixture {
        Fixture::new(Options::all(), LAYOUT.pages, Capacity { blocks: 1000, exits: 4000, mirror_pages: 0 })
    }

    /// Puts guest code at `pa`; the rest of its page is returns.
    fn put(&mut self, pa: u32, words: &[u32]) {
        let page = self.guest.entry(pa & !0xfff).or_insert([BX_LR; PAGE_WORDS]);
        let at = (pa & 0xfff) as usize / 4;
        page[at..at + words.len()].copy_from_slice(words);
    }

    fn translate(&mut self, va: u32, pa: u32, global: bool) -> BlockId {
        let words = self.guest.entry(pa & !0xfff).or_insert([BX_LR; PAGE_WORDS]);
        self.translator.translate(GuestVa(va), GuestPa(pa), global, words, &mut self.code)
    }

    fn lookup(&self, va: u32, pa: u32) -> Option<BlockId> {
        self.translator.lookup(GuestVa(va), GuestPa(pa))
    }

    fn word(&self, pc: u32) -> u32 {
        let (page, word) = self.translator.layout().find(CachePc(pc)).expect("in a code page");
        assert_eq!(self.code.written[page as usize][word], self.code.fetched[page as usize][word], "not published");
        self.code.written[page as usize][word]
    }

    fn entry(&self, id: BlockId) -> u32 {
        self.translator.entry(id).0
    }

    /// The exits of a block: the addresses of their `SVC`, in the order of their numbers.
    fn exits(&self, id: BlockId) -> Vec<(ExitId, CachePc, u32)> {
        let base = self.entry(id) & !0xfff;
        let mut found: Vec<_> = (base..base + PAGE - 4)
            .step_by(4)
            .map(CachePc)
            .filter(|&pc| self.translator.block_at(pc) == Some(id))
            .filter_map(|pc| {
                let number = self.word(pc.0 + 4);
                self.translator.exit(number, pc).map(|(exit, _)| (number, exit, pc))
            })
            .collect();
        found.sort_unstable_by_key(|&(number, _, _)| number);
        found.into_iter().map(|(number, exit, pc)| (exit, pc, number)).collect()
    }

    fn link(&mut self, exit: ExitId, to: BlockId) -> bool {
        self.translator.link(exit, to, &mut self.code)
    }

    fn drop_page(&mut self, pa: u32) {
        self.translator.drop_page(GuestPa(pa), &mut self.code);
    }

    fn unmap_page(&mut self, va: u32) {
        self.translator.unmap_page(GuestVa(va), &mut self.code);
    }

    /// All words of code memory.
    fn snapshot(&self) -> Vec<[u32; PAGE_WORDS]> {
        self.code.fetched.clone()
    }
}

#[test]
fn a_block_is_found_by_va_and_pa() {
    let mut f = Fixture::roomy();
    let block = f.translate(VA + 0x10, PA + 0x10, true);
    assert_eq!(f.lookup(VA + 0x10, PA + 0x10), Some(block));
    assert_eq!(f.lookup(VA + 0x14, PA + 0x14), None);
    assert_eq!(f.lookup(VA + 0x10, PA + 0x1010), None);
    assert_eq!(f.lookup(VA + 0x1010, PA + 0x10), None);
    // The same code through another mapping is another block.
    let alias = f.translate(VA + 0x1010, PA + 0x10, true);
    assert_ne!(block, alias);
    assert_eq!(f.lookup(VA + 0x10, PA + 0x10), Some(block));
    assert_eq!(f.lookup(VA + 0x1010, PA + 0x10), Some(alias));
    assert_eq!(f.translator.source(alias), (GuestVa(VA + 0x1010), GuestPa(PA + 0x10)));
}

#[test]
fn blocks_whose_addresses_share_a_bucket_are_kept_apart() {
    let mut f = Fixture::roomy();
    // The hash folds bits 29:16 onto bits 15:2.
    let vas: Vec<u32> = (0..8).map(|n| (n << 16) | ((n ^ 5) << 2)).collect();
    let blocks: Vec<BlockId> = vas.iter().map(|&va| f.translate(va, PA + (va & 0xfff), true)).collect();
    for (&va, &block) in vas.iter().zip(&blocks) {
        assert_eq!(f.lookup(va, PA + (va & 0xfff)), Some(block));
    }
    f.translate(0x14, PA + 0x1014, true);
    f.drop_page(PA + 0x1000);
    for (&va, &block) in vas.iter().zip(&blocks) {
        assert_eq!(f.lookup(va, PA + (va & 0xfff)), Some(block));
    }
}

#[test]
fn a_link_is_a_branch_and_unlinking_restores_the_exact_words() {
    let mut f = Fixture::roomy();
    // BEQ, BLNE, B: a side exit, an exit that is skipped, an exit.
    f.put(PA, &[b(0, VA, VA + 0x40), b(1, VA + 4, VA + 0x40) | 1 << 24, b(14, VA + 8, VA + 0x40)]);
    let from = f.translate(VA, PA, true);
    let to = f.translate(VA + 0x40, PA + 0x40, true);
    let before = f.snapshot();
    let exits = f.exits(from);
    assert_eq!(exits.len(), 3);
    for &(exit, _, _) in &exits {
        assert!(f.link(exit, to));
        assert!(!f.link(exit, to), "a linked exit is not linked again");
    }
    let linked = f.snapshot();
    let mut conditions = Vec::new();
    for page in 0..LAYOUT.pages {
        for word in 0..PAGE_WORDS {
            let (old, new) = (before[page as usize][word], linked[page as usize][word]);
            if old != new {
                let at = LAYOUT.code_page(page).0 + 4 * word as u32;
                assert_eq!(branch_target(at, new), Some(f.entry(to)));
                conditions.push(new >> 28);
            }
        }
    }
    assert_eq!(conditions, [0, 14, 14], "one branch for each link, with the guest's condition");
    f.translator.close(from, &mut f.code);
    assert_eq!(f.snapshot(), before);
    let stats = f.translator.stats();
    assert_eq!((stats.links, stats.unlinks), (3, 3));
    // And again, from the target's side.
    for &(exit, _, _) in &exits {
        assert!(f.link(exit, to));
    }
    f.translator.unlink_all(&mut f.code);
    assert_eq!(f.snapshot(), before);
}

#[test]
fn a_block_can_link_to_itself() {
    let mut f = Fixture::roomy();
    f.put(PA, &[NOP, b(0, VA + 4, VA), b(14, VA + 8, VA)]);
    let block = f.translate(VA, PA, false);
    let before = f.snapshot();
    for (exit, _, _) in f.exits(block) {
        assert!(f.link(exit, block));
    }
    f.translator.close(block, &mut f.code);
    assert_eq!(f.snapshot(), before);
    for (exit, _, _) in f.exits(block) {
        assert!(f.link(exit, block));
    }
    f.drop_page(PA);
    assert_eq!(f.snapshot(), before, "a dropped block leads nowhere");
}

/// A caller in one page, a callee in another that calls on into a third.
fn chain(f: &mut Fixture, global: bool) -> [BlockId; 3] {
    let at = |n: u32| VA + 0x1000 * n;
    f.put(PA, &[b(14, at(0), at(1))]);
    f.put(PA + 0x1000, &[b(14, at(1), at(2))]);
    [0, 1, 2].map(|n| f.translate(at(n), PA + 0x1000 * n, global))
}

#[test]
fn dropping_a_page_cuts_the_links_into_it_and_out_of_it() {
    let mut f = Fixture::roomy();
    let blocks = chain(&mut f, true);
    let before = f.snapshot();
    let (into, out) = (f.exits(blocks[0])[0].0, f.exits(blocks[1])[0].0);
    assert!(f.link(into, blocks[1]) && f.link(out, blocks[2]));
    let version = f.translator.version();
    assert!(f.translator.has_code(GuestPa(PA + 0x1ffc)));
    f.drop_page(PA + 0x1ffc);
    assert_eq!(f.snapshot(), before);
    assert_ne!(f.translator.version(), version, "code-cache addresses may be stale");
    assert_eq!(f.lookup(VA + 0x1000, PA + 0x1000), None);
    assert!(!f.translator.has_code(GuestPa(PA + 0x1000)));
    assert_eq!(f.translator.mapped_pages(GuestVa(VA + 0x1abc)..=GuestVa(VA + 0x1abc)).count(), 0);
    assert!(!f.translator.is_live(blocks[1]));
    assert_eq!(f.translator.stats().dropped, 1);
    // Code may still run in it, but it is linked neither from nor to.
    assert_eq!(f.translator.block_at(CachePc(f.entry(blocks[1]))), Some(blocks[1]));
    assert!(!f.link(into, blocks[1]));
    assert!(!f.link(out, blocks[2]));
    // A new block takes its place.
    let again = f.translate(VA + 0x1000, PA + 0x1000, true);
    assert_eq!(f.lookup(VA + 0x1000, PA + 0x1000), Some(again));
    assert!(f.link(into, again));
}

#[test]
fn unlinking_one_of_many_leaves_the_others_linked() {
    for gone in 0..4u32 {
        let mut f = Fixture::roomy();
        let target = f.translate(VA + 0x2000, PA + 0x2000, true);
        let from: Vec<BlockId> = (0..4u32)
            .map(|n| {
                f.put(PA + 0x40 * n, &[b(14, VA + 0x40 * n, VA + 0x2000)]);
                f.translate(VA + 0x40 * n, PA + 0x40 * n, true)
            })
            .collect();
        let before = f.snapshot();
        for &block in &from {
            let (exit, _, _) = f.exits(block)[0];
            assert!(f.link(exit, target));
        }
        f.translator.close(from[gone as usize], &mut f.code);
        for (n, &block) in from.iter().enumerate() {
            let linked = branch_target(f.entry(block), f.word(f.entry(block))) == Some(f.entry(target));
            assert_eq!(linked, n != gone as usize);
        }
        f.drop_page(PA + 0x2000);
        assert_eq!(f.snapshot(), before, "the target goes, and so do the others");
    }
}

#[test]
fn dropping_a_page_that_has_no_code_changes_nothing() {
    let mut f = Fixture::roomy();
    let blocks = chain(&mut f, true);
    let (before, version) = (f.snapshot(), f.translator.version());
    f.drop_page(PA + 0x8000);
    assert_eq!((f.snapshot(), f.translator.version()), (before, version));
    assert!(blocks.iter().all(|&block| f.translator.is_live(block)));
}

#[test]
fn dropping_a_page_drops_it_under_all_its_addresses() {
    let mut f = Fixture::roomy();
    for va in [VA, VA + 0x5000, VA + 0x9000] {
        f.translate(va, PA, true);
        f.translate(va + 8, PA + 8, true);
    }
    f.drop_page(PA);
    assert_eq!(f.translator.stats().dropped, 6);
    assert_eq!(f.translator.mapped_pages(GuestVa(0)..=GuestVa(u32::MAX)).count(), 0);
    for va in [VA, VA + 0x5000, VA + 0x9000] {
        assert_eq!(f.lookup(va, PA), None);
    }
}

#[test]
fn unmapping_a_page_cuts_the_links_into_it_and_keeps_its_blocks() {
    let mut f = Fixture::roomy();
    let blocks = chain(&mut f, true);
    let (into, out) = (f.exits(blocks[0])[0].0, f.exits(blocks[1])[0].0);
    assert!(f.link(out, blocks[2]));
    let before = f.snapshot();
    assert!(f.link(into, blocks[1]));
    f.translator.remember(blocks[1]);
    f.unmap_page(VA + 0x1abc);
    assert_eq!(f.snapshot(), before, "the link out stays, the one in goes");
    assert_eq!(f.lookup(VA + 0x1000, PA + 0x1000), Some(blocks[1]));
    assert_eq!(f.translator.jump_cache.get(VA + 0x1000), None);
    assert!(f.link(into, blocks[1]), "the mapping came back");
}

#[test]
fn links_to_another_page_need_a_global_target() {
    let mut f = Fixture::roomy();
    let blocks = chain(&mut f, false);
    let (exit, _, _) = f.exits(blocks[0])[0];
    assert!(!f.link(exit, blocks[1]));
    f.put(PA + 0x100, &[b(14, VA + 0x100, VA + 0x200)]);
    let from = f.translate(VA + 0x100, PA + 0x100, false);
    let to = f.translate(VA + 0x200, PA + 0x200, false);
    let (exit, _, _) = f.exits(from)[0];
    assert!(f.link(exit, to), "within a page, always");
    // The same VA over another PA is another page.
    let other = f.translate(VA + 0x200, PA + 0x7200, false);
    f.translator.close(from, &mut f.code);
    assert!(!f.link(exit, other));
}

#[test]
fn without_the_option_nothing_is_linked() {
    let mut f = Fixture::new(Options::naive(), LAYOUT.pages, Capacity { blocks: 100, exits: 400, mirror_pages: 0 });
    let blocks = chain(&mut f, true);
    let before = f.snapshot();
    let (exit, _, _) = f.exits(blocks[0])[0];
    assert!(!f.link(exit, blocks[1]));
    assert_eq!(f.snapshot(), before);
}

#[test]
fn forged_exits_are_refused() {
    let mut f = Fixture::roomy();
    // An exit, and a side exit with its stub.
    f.put(PA, &[b(0, VA, VA + 0x40), b(14, VA + 4, VA + 0x1000)]);
    let blocks = [f.translate(VA, PA, true), f.translate(VA + 0x40, PA + 0x40, true)];
    let mut known = Vec::new();
    for block in blocks {
        known.extend(f.exits(block).into_iter().map(|(_, pc, number)| (number, pc)));
    }
    let base = LAYOUT.base;
    for number in [0, 1, 2, 3, 4, 100, 3999, 4000, u32::MAX] {
        for pc in (base..base + LAYOUT.va_size()).step_by(4) {
            let pc = CachePc(pc);
            assert_eq!(f.translator.exit(number, pc).is_some(), known.contains(&(number, pc)), "exit {number} at {pc}");
        }
        assert!(f.translator.exit(number, CachePc(0)).is_none());
        assert!(f.translator.exit(number, CachePc(base + PAGE + 2)).is_none());
    }
}

#[test]
fn the_jump_cache_holds_global_blocks_only() {
    let mut f = Fixture::roomy();
    let local = f.translate(VA, PA, false);
    let global = f.translate(VA + 8, PA + 8, true);
    f.translator.remember(local);
    f.translator.remember(global);
    assert_eq!(f.translator.jump_cache.get(VA), None);
    assert_eq!(f.translator.jump_cache.get(VA + 8), Some(f.entry(global)));
    f.drop_page(PA);
    assert_eq!(f.translator.jump_cache.get(VA + 8), None);
    f.translator.remember(global);
    assert_eq!(f.translator.jump_cache.get(VA + 8), None, "a dropped block is not entered");
}

#[test]
fn the_jump_cache_is_cleared_with_the_regime_and_by_a_flush() {
    let mut f = Fixture::roomy();
    for clear in
        [|f: &mut Fixture| f.translator.unlink_all(&mut f.code), |f: &mut Fixture| f.translator.flush(&mut f.code)]
    {
        let block = f.translate(VA, PA, true);
        f.translator.remember(block);
        assert!(f.translator.jump_cache.get(VA).is_some());
        clear(&mut f);
        assert_eq!(f.translator.jump_cache.get(VA), None);
    }
}

#[test]
fn an_empty_jump_cache_answers_nothing_whatever_is_asked() {
    let mut f = Fixture::roomy();
    let block = f.translate(VA, PA, true);
    for round in 0..3 {
        for index in 0..ENTRIES as u32 {
            for guest in [index << 2, index << 2 | 1, index << 2 | 2, !(index << 2), 0x8000_0001 | index << 2] {
                assert_eq!(f.translator.jump_cache.get(guest), None, "{guest:#x} in round {round}");
            }
        }
        // Emptied in one way and in the other.
        f.translator.remember(block);
        if round == 0 {
            f.unmap_page(VA)
        } else {
            f.translator.flush(&mut f.code)
        }
        if round == 1 {
            assert_eq!(f.translate(VA, PA, true), block);
        }
    }
}

#[test]
fn the_jump_cache_keeps_addresses_apart_that_share_an_entry() {
    let mut f = Fixture::roomy();
    let other = VA + 4 * ENTRIES as u32;
    let first = f.translate(VA, PA, true);
    let second = f.translate(other, PA + 0x4000, true);
    f.translator.remember(first);
    f.translator.remember(second);
    assert_eq!(f.translator.jump_cache.get(VA), None);
    assert_eq!(f.translator.jump_cache.get(other), Some(f.entry(second)));
    f.unmap_page(VA);
    assert_eq!(f.translator.jump_cache.get(other), Some(f.entry(second)), "not the one that was unmapped");
}

#[test]
fn a_full_cache_is_flushed_and_counted() {
    let few = |blocks, exits, pages| Fixture::new(Options::all(), pages, Capacity { blocks, exits, mirror_pages: 0 });
    // Out of block records; out of exit records; out of code pages.
    for (name, mut f, limit) in
        [("blocks", few(10, 4000, 4), 10), ("exits", few(1000, 40, 4), 1000), ("pages", few(1000, 4000, 1), 1000)]
    {
        let first = f.translate(VA, PA, true);
        f.translator.remember(first);
        let version = f.translator.version();
        let mut blocks = 1;
        while f.translator.stats().flushes == 0 {
            assert!(blocks <= limit, "no flush for want of {name}");
            assert_eq!(f.lookup(VA, PA), Some(first));
            f.put(PA + 0x1000 + 8 * blocks, &[b(0, 8, 0), b(14, 12, 0)]);
            let id = f.translate(VA + 0x1000 + 8 * blocks, PA + 0x1000 + 8 * blocks, true);
            assert_eq!(f.lookup(VA + 0x1000 + 8 * blocks, PA + 0x1000 + 8 * blocks), Some(id));
            blocks += 1;
        }
        assert!(blocks > 5, "{name}: flushed after {blocks} blocks");
        assert_ne!(f.translator.version(), version);
        assert_eq!(f.lookup(VA, PA), None);
        assert_eq!(f.translator.jump_cache.get(VA), None);
        let (blocks, exits, pages) = f.translator.in_use();
        assert_eq!((blocks, pages), (1, 1), "{name}: the block that did not fit is there");
        assert!(exits <= 2);
        assert!(!f.translator.has_code(GuestPa(PA)));
    }
}

#[test]
fn every_word_of_a_block_has_its_guest_instruction() {
    let mut f = Fixture::roomy();
    let mut code = vec![
        0xe08f_1002,           // ADD r1, pc, r2
        0xe91d_ff0f | 1 << 15, // LDMDB sp, {..., pc}, which ends in an exit
    ];
    code[1] = 0xe92d_d8ff; // STMDB sp!, {r0-r7, fp, ip, lr, pc}
    code.extend([
        b(0, VA + 8, VA + 0x40),
        0x1bff_fffe, // BLNE .
        0xe14f_0000, // MRS r0, SPSR
        0xee11_0f10, // MRC SCTLR
        0xe79f_1002, // LDR r1, [pc, r2]
        0xe49d_f004, // LDR pc, [sp], #4
    ]);
    f.put(PA, &code);
    f.translate(VA + 0x3f0, PA + 0x3f0, true);
    f.code.published.clear();
    let block = f.translate(VA, PA, true);
    assert_eq!(f.translator.length(block), code.len());
    let words = f.guest[&PA];
    let ranges = f.code.published.clone();
    assert_eq!(ranges.len(), 2, "hot and cold words");
    for (part, (page, first, count)) in ranges.into_iter().enumerate() {
        let mut last = VA;
        assert!(count > 0);
        for word in first..first + count {
            let pc = CachePc(LAYOUT.code_page(page).0 + 4 * word as u32);
            assert_eq!(f.translator.block_at(pc), Some(block));
            let location = f.translator.locate(block, pc, &words).expect("a word of the block");
            assert!(location.guest.0 >= VA && location.guest.0 < VA + 4 * code.len() as u32);
            if part == 0 {
                assert!(location.guest.0 == last || location.guest.0 == last + 4, "in order");
                last = location.guest.0;
            }
        }
    }
    // What lies outside is in no block.
    let (page, end) = (LAYOUT.code_page(0).0, LAYOUT.code_page(0).0 + PAGE);
    assert_eq!(f.translator.block_at(CachePc(page)), None);
    assert_eq!(f.translator.block_at(CachePc(page + HOT_FIELDS - 4)), None);
    assert_eq!(f.translator.block_at(CachePc(page + HOT_FIELDS + 2)), None, "between words");
    assert_eq!(f.translator.block_at(CachePc(end)), None, "a data page");
    assert_eq!(f.translator.block_at(CachePc(end + PAGE)), None, "a code page that is not in use");
    assert_eq!(f.translator.block_at(CachePc(LAYOUT.base - 4)), None);
    assert_eq!(f.translator.block_at(CachePc(LAYOUT.base + LAYOUT.va_size())), None);
}

#[test]
fn a_block_ends_before_it_has_too_many_exits_or_instructions() {
    let mut f = Fixture::roomy();
    let branches: Vec<u32> = (0..64).map(|n| b(0, VA + 4 * n, VA)).collect();
    f.put(PA, &branches);
    let block = f.translate(VA, PA, true);
    let exits = f.exits(block).len();
    assert_eq!(exits, f.translator.length(block) + 1, "one for each branch and one behind");
    assert!(exits > 16);
    f.put(PA + 0x1000, &[NOP; 64]);
    let block = f.translate(VA + 0x1000, PA + 0x1000, true);
    assert_eq!(f.translator.length(block), Options::all().max_block);
    // The longest translations, until a code page is full.
    f.put(PA + 0x2000, &[0xe92d_c001; 1024]);
    for n in 0..200 {
        f.translate(VA + 0x2000 + 4 * n, PA + 0x2000 + 4 * n, true);
    }
    // And up to the end of the guest's page, never beyond.
    let block = f.translate(VA + 0x2ff8, PA + 0x2ff8, true);
    assert_eq!(f.translator.length(block), 2);
    let exit = f.exits(block)[0];
    assert_eq!(f.translator.exit(exit.2, exit.1).expect("an exit").1, GuestVa(VA + 0x3000));
}

#[test]
fn locating_writes_nothing() {
    let mut f = Fixture::roomy();
    let blocks = chain(&mut f, true);
    let (exit, _, _) = f.exits(blocks[0])[0];
    assert!(f.link(exit, blocks[1]));
    let (before, stats, in_use) = (f.snapshot(), f.translator.stats(), f.translator.in_use());
    let words = f.guest[&PA];
    assert!(f.translator.locate(blocks[0], CachePc(f.entry(blocks[0])), &words).is_some());
    assert_eq!((f.snapshot(), f.translator.stats(), f.translator.in_use()), (before, stats, in_use));
}

/// Each word of a block stands for a guest instruction for as long as the block lives, whatever is translated later.
#[test]
fn blocks_from_before_vfp_was_allowed_are_found_again() {
    let mut f = Fixture::roomy();
    // VMRS r1, FPEXC; LDR r2, [r3]
    f.put(PA, &[0xeef8_1a10, 0xe593_2000]);
    let block = f.translate(VA, PA, true);
    f.translator.set_vfp(true, &mut f.code);
    if f.lookup(VA, PA) == Some(block) {
        let words = f.guest[&PA];
        let base = f.entry(block);
        let load = (base..base + 40).step_by(4).find(|&pc| f.word(pc) == 0xe593_2000).expect("a copy");
        let location = f.translator.locate(block, CachePc(load), &words).expect("a word of the block");
        assert_eq!(location.guest, GuestVa(VA + 4));
    }
}

#[test]
fn vfp_that_is_taken_away_flushes_what_relied_on_it() {
    let mut f = Fixture::roomy();
    assert!(!f.translator.set_vfp(true, &mut f.code));
    f.put(PA, &[0xeef8_1a10]);
    let block = f.translate(VA, PA, true);
    let base = f.entry(block);
    assert_ne!(f.word(base), 0xef00_0000 | trap::EMULATE, "VMRS FPEXC is inlined");
    assert!(!f.translator.set_vfp(true, &mut f.code), "no change");
    assert_eq!(f.lookup(VA, PA), Some(block));
    let version = f.translator.version();
    assert!(f.translator.set_vfp(false, &mut f.code));
    assert_eq!(f.lookup(VA, PA), None);
    assert_ne!(f.translator.version(), version);
    let block = f.translate(VA, PA, true);
    assert_eq!(f.word(f.entry(block)), 0xef00_0000 | trap::EMULATE);
}

/// The word that the first word of a block, `LDR rt, [PC, #offset]`, loads.
fn literal_of(f: &Fixture, block: BlockId) -> Option<u32> {
    let pc = f.entry(block);
    let word = f.word(pc);
    (word & 0x0fff_0000 == 0x059f_0000).then(|| f.word(pc + 8 + (word & 0xfff)))
}

#[test]
fn literals_are_those_of_the_page_that_the_block_was_made_from() {
    let mut f = Fixture::roomy();
    // LDR r1, [pc, #16]
    f.put(PA, &[0xe59f_1010, BX_LR, 0, 0, 0, 0, 0x1234_5678]);
    let block = f.translate(VA, PA, true);
    assert_eq!(literal_of(&f, block), Some(0x1234_5678));
    // The page is written: what was folded goes with the block.
    f.drop_page(PA + 0x18);
    f.put(PA + 0x18, &[0x9abc_def0]);
    assert_eq!(f.lookup(VA, PA), None);
    let block = f.translate(VA, PA, true);
    assert_eq!(literal_of(&f, block), Some(0x9abc_def0));
    // The same code at another place has the words of that.
    f.put(PA + 0x1000, &[0xe59f_1010, BX_LR, 0, 0, 0, 0, 7]);
    let other = f.translate(VA, PA + 0x1000, true);
    assert_eq!(literal_of(&f, other), Some(7));
}

#[test]
fn literals_of_other_pages_are_loaded() {
    let mut f = Fixture::roomy();
    // The last word of the page, the first behind it, one in front of it, one that straddles two words.
    for (at, word, folded) in [
        (0xff0, 0xe59f_1004, true),
        (0xff0, 0xe59f_1008, false),
        (0, 0xe51f_100c, false),
        (8, 0xe51f_1010, true),
        (0, 0xe59f_1012, false),
    ] {
        f.put(PA + at, &[word]);
        let block = f.translate(VA + at, PA + at, true);
        assert_eq!(literal_of(&f, block).is_some(), folded, "{word:#x} at {at:#x}");
        f.drop_page(PA);
    }
}

#[test]
fn a_block_for_once_keeps_nothing_of_its_page_and_is_not_global() {
    let mut f = Fixture::roomy();
    f.put(PA, &[0xe59f_1010, 0xe8c1_6000, b(14, VA + 8, VA + 0x40)]);
    f.put(PA + 0x1000, &[b(14, VA + 0x1000, VA)]);
    let words = f.guest[&PA];
    let block = f.translator.translate_once(GuestVa(VA), GuestPa(PA), &words, &mut f.code);
    assert_eq!(literal_of(&f, block), None, "the literal is loaded when the code runs");
    assert!((0..8).any(|n| f.word(f.entry(block) + 4 * n) == 0xe8c1_6000), "as a literal of its emulation");
    // The words of the block are found again as they were emitted.
    let ours: Vec<u32> = (0..PAGE)
        .step_by(4)
        .map(|at| LAYOUT.code_page(0).0 + at)
        .filter(|&pc| f.translator.block_at(CachePc(pc)) == Some(block))
        .collect();
    let guests: BTreeSet<u32> =
        ours.iter().map(|&pc| f.translator.locate(block, CachePc(pc), &words).expect("its word").guest.0).collect();
    assert_eq!(guests, BTreeSet::from([VA, VA + 4, VA + 8]));
    // It is neither remembered nor linked to from elsewhere.
    f.translator.remember(block);
    assert_eq!(f.translator.jump_cache.get(VA), None);
    let other = f.translate(VA + 0x1000, PA + 0x1000, true);
    let (exit, _, _) = f.exits(other)[0];
    assert!(!f.link(exit, block));
    // It is not found: a later one is made of the same words.
    assert_eq!(f.lookup(VA, PA), None);
    let again = f.translator.translate_once(GuestVa(VA), GuestPa(PA), &words, &mut f.code);
    assert_ne!(again, block);
    assert_eq!(f.lookup(VA, PA), None);
    f.drop_page(PA);
    assert!(!f.translator.is_live(block) && !f.translator.is_live(again));
}

/// MCR DACR of r1, conditional and not, between other code.
#[test]
fn an_eager_write_to_dacr_is_one_word_and_forged_sites_change_nothing() {
    for code in [[0xee03_1f10, NOP, BX_LR], [0x0e03_1f10, 0xee03_0f10, BX_LR], [0xee07_1fba, NOP, NOP]] {
        let mut f = Fixture::roomy();
        f.put(PA, &code);
        let block = f.translate(VA, PA, true);
        let before = f.snapshot();
        let stores: Vec<u32> = (0..PAGE)
            .step_by(4)
            .map(|at| LAYOUT.code_page(0).0 + at)
            // STR pc, [pc, #...]
            .filter(|&pc| f.translator.block_at(CachePc(pc)) == Some(block) && f.word(pc) >> 12 == 0xe58ff)
            .collect();
        let expected = code.iter().filter(|&&word| word & 0x0fff_0fff == 0x0e03_0f10).count();
        assert_eq!(stores.len(), expected);
        let base = LAYOUT.base;
        for site in [0, 1, 3, 4, 8].into_iter().chain(base - 16..base + LAYOUT.va_size() + 16).chain([u32::MAX]) {
            f.translator.make_dacr_eager(CachePc(site), &mut f.code);
            let after = f.snapshot();
            let changed: Vec<u32> = (0..LAYOUT.pages)
                .flat_map(|page| (0..PAGE_WORDS).map(move |word| (page, word)))
                .filter(|&(page, word)| before[page as usize][word] != after[page as usize][word])
                .map(|(page, word)| LAYOUT.code_page(page).0 + 4 * word as u32)
                .collect();
            let allowed: Vec<u32> = stores.iter().filter(|&&store| store + 8 <= site).map(|store| store + 4).collect();
            assert_eq!(changed, allowed, "site {site:#x}");
        }
        // Once more is no change, and a new translation is as before.
        for store in stores {
            f.translator.make_dacr_eager(CachePc(store + 8), &mut f.code);
        }
        f.translator.flush(&mut f.code);
        f.translate(VA, PA, true);
        assert_eq!(f.snapshot(), before);
    }
}

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
    /// Number, address of the `SVC`, address of the word that a link patches, target.
    exits: Vec<(u32, u32, u32, u32)>,
}

/// The naive model of the cache, with the fixture that it watches.
struct World {
    f: Fixture,
    random: Random,
    blocks: Vec<Known>,
    /// Exit number → index of the block that it leads to.
    links: BTreeMap<u32, usize>,
    /// VA → code-cache address: what the jump cache may hold.
    remembered: HashMap<u32, u32>,
    /// VA page → PA page, and whether the mapping is global.
    mapping: [(u32, bool); VA_PAGES as usize],
}

const VA_PAGES: u32 = 6;
const PA_PAGES: u32 = 4;

impl World {
    fn new(seed: u64) -> World {
        let mut random = Random::new(seed);
        let options = Options { max_block: random.pick(&[2, 8, 32]), ..support::generate::options(&mut random) };
        let options = Options { link: true, ..options };
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
        let random = &mut self.random;
        let words = std::array::from_fn(|_| {
            let target = PAGE * random.below(VA_PAGES) + 16 * random.below(256);
            match random.below(8) {
                // The distance is right for one of the pages that the code may be mapped at.
                0 | 1 => b(random.pick(&[14, 14, 0, 1, 12]), PAGE * random.below(VA_PAGES), target),
                2 => b(14, 0, target) | 1 << 24,
                3 => 0xe59f_1010,
                4 => 0xe08f_1002,
                5 => 0xee11_0f10,
                6 => BX_LR,
                _ => NOP,
            }
        });
        self.f.guest.insert(pa, words);
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
        for (page, first, count) in self.f.code.published.clone() {
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
            let number = words[at + 1].1;
            let Some((_, target)) = self.f.translator.exit(number, CachePc(pc)) else { continue };
            // A stub is led to by one branch; any other exit is its own site.
            let leads =
                |&&(from, word): &&(u32, u32)| branch_target(from, word) == Some(pc) && from < pc && pc - from > 8;
            let cold = words[..=at].windows(2).any(|pair| pair[1].0 < pair[0].0 || pair[1].0 - pair[0].0 > 4);
            let site = if cold { words.iter().find(leads).expect("a stub that something leads to").0 } else { pc };
            exits.push((number, pc, site, target.0));
        }
        self.blocks.push(Known { id, va, pa, global, live: true, entry: self.f.entry(id), words, exits });
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
            4..=14 => self.take_exit(),
            15 => {
                let pa = PA + PAGE * self.random.below(PA_PAGES);
                self.f.drop_page(pa | va & 0xfff);
                self.rewrite(pa);
                let dropped = |block: &Known| block.pa & !0xfff == pa;
                self.unlink_where(|w, exit, to| dropped(&w.blocks[to]) || dropped(&w.blocks[w.source_of(exit)]));
                let blocks = &mut self.blocks;
                for block in blocks.iter_mut().filter(|block| block.live && dropped(block)) {
                    block.live = false;
                    self.remembered.remove(&block.va);
                }
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
        let (number, svc, _, target) = self.blocks[from].exits[pick];
        let (exit, found) = self.f.translator.exit(number, CachePc(svc)).expect("a known exit");
        assert_eq!(found.0, target);
        if self.translate_address(target).is_none() {
            return;
        }
        let (to, flushed) = self.enter(target);
        if !flushed {
            let (source, destination) = (&self.blocks[from], &self.blocks[to]);
            let same_page =
                source.va & !0xfff == destination.va & !0xfff && source.pa & !0xfff == destination.pa & !0xfff;
            let may = source.live && !self.links.contains_key(&number) && (same_page || destination.global);
            assert_eq!(self.f.link(exit, self.blocks[to].id), may);
            if may {
                self.links.insert(number, to);
            }
        }
        self.remember(to);
    }

    /// Everything is as the model says.
    fn check(&self) {
        let mut covered = HashMap::new();
        for (at, block) in self.blocks.iter().enumerate() {
            assert_eq!(self.f.translator.is_live(block.id), block.live);
            let sites: HashMap<u32, u32> = block.exits.iter().map(|exit| (exit.2, exit.0)).collect();
            for &(pc, original) in &block.words {
                assert_eq!(covered.insert(pc, at), None, "two blocks on one word");
                let word = self.f.word(pc);
                let link = sites.get(&pc).and_then(|number| self.links.get(number));
                let Some(&to) = link else {
                    assert_eq!(word, original, "{pc:#x}");
                    continue;
                };
                let target = &self.blocks[to];
                let exit = block.exits.iter().find(|exit| exit.2 == pc).expect("a site");
                assert_eq!(branch_target(pc, word), Some(target.entry));
                assert!(block.live && target.live && target.va == exit.3, "a link that must not be");
                let cond = if exit.1 == exit.2 { 14 } else { original >> 28 };
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
        assert_eq!(self.f.translator.mapped_pages(GuestVa(0)..=GuestVa(u32::MAX)).collect::<BTreeSet<_>>(), expected);
        for page in 0..VA_PAGES.max(PA_PAGES) {
            let (va, pa) = (GuestVa(VA + PAGE * page), GuestPa(PA + PAGE * page));
            assert_eq!(self.f.translator.has_code(pa), expected.iter().any(|key| key.1 == pa));
            let here = va.wrapping_add(0x123)..=va.wrapping_add(PAGE);
            let expected = expected.iter().filter(|key| key.0 == va || key.0 == va.wrapping_add(PAGE));
            assert!(self.f.translator.mapped_pages(here).eq(expected.copied()));
        }
        let (blocks, exits, _) = self.f.translator.in_use();
        assert_eq!(blocks, self.blocks.len());
        assert_eq!(exits, self.blocks.iter().map(|block| block.exits.len()).sum::<usize>());
    }
}

#[test]
fn random_sequences() {
    let (mut links, mut flushes, mut dropped) = (0, 0, 0);
    for seed in cases(100) {
        let _seed = Seed(seed);
        let mut world = World::new(seed);
        for _ in 0..300 {
            world.step();
            world.check();
        }
        let stats = world.f.translator.stats();
        links += stats.links;
        flushes += stats.flushes;
        dropped += stats.dropped;
    }
    eprintln!("{links} links, {flushes} flushes, {dropped} blocks dropped");
    if std::env::var_os("SPICA_CASES").is_none() {
        assert!(links > 1000 && flushes > 20 && dropped > 500, "the sequences have become too tame");
    }
}
