//! The return mirror: where a branch through it ends, as the core would see it, for each word of its window.
//!
//! The memory of the fixture is fetched from as it was published and mapped, so that a word that was written but not
//! made visible does not count. After every operation a branch leads to the landing of its block, or to a trap; where
//! it has to lead is what a naive model says.

use spica_addr::{CachePc, GuestPa, GuestVa};
use spica_dbt::layout::{Layout, PAGE, PAGE_WORDS, Window};
use spica_dbt::return_mirror::{EMPTY, undone};
use spica_dbt::{BlockId, Capacity, CodeMemory, Options, Translator, trap};
use spica_isa::{DpOp, Op, Operand2, Reg, ShiftType};
use spica_prove::random::Random;
use spica_prove::work::attempt;
use std::collections::{BTreeMap, BTreeSet};

/// The guest's code: so many pages of it have a place in the mirror, which has memory for three.
const VA: u32 = 0xc000_0000;
const PA: u32 = 0x4000_0000;
const VA_PAGES: u32 = 5;
const MEMORY: u32 = 3;
/// Within reach of a branch from the code cache, and not.
const NEAR: Window = Window { start: VA, size: 0x10_0000, distance: 0x3200_0000, t32: false, guarded: false };
const FAR: Window = Window { distance: 0x2400_0000, ..NEAR };
/// The same for T32 code: twice as many bytes for each of half as many addresses, in the same place.
const T32: Window = Window { size: 0x8_0000, distance: 0x7200_0000, t32: true, ..NEAR };
const BASE: u32 = 0xf1c3_0000;

const NOP: u32 = 0xe320_f000;
const BX_LR: u32 = 0xe12f_ff1e;

/// Memory of the code cache and of the mirror: each page as written and as fetched.
struct Code {
    pages: Vec<[[u32; PAGE_WORDS]; 2]>,
    mirror: Vec<[[u32; PAGE_WORDS]; 2]>,
    mapped: BTreeMap<u32, u32>,
}

fn publish(page: &mut [[u32; PAGE_WORDS]; 2], first: usize, words: usize) {
    let [from, to] = page;
    to[first..first + words].copy_from_slice(&from[first..first + words]);
}

impl CodeMemory for Code {
    fn page(&mut self, page: u32) -> &mut [u32; PAGE_WORDS] {
        &mut self.pages[page as usize][0]
    }

    fn publish(&mut self, page: u32, first: usize, words: usize) {
        publish(&mut self.pages[page as usize], first, words);
    }

    fn mirror_page(&mut self, page: u32) -> &mut [u32; PAGE_WORDS] {
        &mut self.mirror[page as usize][0]
    }

    fn publish_mirror(&mut self, page: u32, va: u32, first: usize, words: usize) {
        assert!(self.mapped.get(&va).is_none_or(|&there| there == page), "not where it is mapped");
        assert!(self.mapped.values().all(|&there| there != page) || self.mapped.contains_key(&va), "nor there");
        publish(&mut self.mirror[page as usize], first, words);
    }

    fn map_mirror(&mut self, va: u32, page: u32) {
        assert!(self.mapped.values().all(|&used| used != page), "a page of memory at two places");
        assert_eq!(self.mapped.insert(va, page), None, "mapped already");
    }

    fn unmap_mirror(&mut self, va: Option<u32>) {
        match va {
            Some(va) => assert!(self.mapped.remove(&va).is_some(), "not mapped"),
            None => self.mapped.clear(),
        }
    }
}

struct Fixture {
    translator: Translator,
    code: Code,
    window: Window,
    /// By PA.
    guest: BTreeMap<u32, [u32; PAGE_WORDS]>,
}

impl Fixture {
    fn with(window: Window, options: Options, pages: u32) -> Fixture {
        Fixture::with_memory(window, options, pages, MEMORY)
    }

    fn with_memory(window: Window, options: Options, pages: u32, memory: u32) -> Fixture {
        let layout = Layout { base: BASE, pages, mirror: Some(window) };
        let capacity = Capacity { blocks: 4000, exits: 16000, mirror_pages: memory };
        // Nobody promises that memory is empty.
        let blank = [[0xeafe_0000; PAGE_WORDS]; 2];
        Fixture {
            translator: Translator::new(layout, options, capacity),
            code: Code {
                pages: vec![blank; pages as usize],
                mirror: vec![blank; memory as usize],
                mapped: BTreeMap::new(),
            },
            window,
            guest: BTreeMap::new(),
        }
    }

    fn new(window: Window) -> Fixture {
        Fixture::with(window, Options { max_block: 2, ..Options::all() }, 12)
    }

    fn put(&mut self, pa: u32, words: &[u32]) {
        let page = self.guest.entry(pa & !0xfff).or_insert([NOP; PAGE_WORDS]);
        let at = (pa & 0xfff) as usize / 4;
        page[at..at + words.len()].copy_from_slice(words);
    }

    fn translate_at(&mut self, va: u32, pa: u32, global: bool) -> BlockId {
        let words = self.guest.entry(pa & !0xfff).or_insert([NOP; PAGE_WORDS]);
        self.translator.translate(GuestVa(va), GuestPa(pa), global, words, &mut self.code)
    }

    fn translate(&mut self, va: u32) -> BlockId {
        self.translate_at(va, va - VA + PA, true)
    }

    /// Translates the block at `va` and makes branches find it; its landing.
    fn land(&mut self, va: u32) -> u32 {
        let block = self.translate(va);
        self.translator.land(block, &mut self.code);
        self.landing(block)
    }

    fn landing(&self, block: BlockId) -> u32 {
        self.translator.entry(block).0 - 4
    }

    fn mirror_word(&self, pc: u32) -> Option<u32> {
        let page = *self.code.mapped.get(&(pc & !0xfff))?;
        let [written, fetched] = &self.code.mirror[page as usize];
        let word = (pc & 0xfff) as usize / 4;
        assert_eq!(written[word], fetched[word], "not published");
        Some(fetched[word])
    }

    /// Where a branch through the mirror to `va` gets; `None` is a trap.
    fn follow(&self, va: u32) -> Option<u32> {
        let pc = self.window.place(va);
        let word = self.mirror_word(pc)?;
        match spica_isa::decode(word).op {
            Op::Undefined => None,
            Op::Branch { link: false, offset } => Some(pc.wrapping_add(8).wrapping_add(offset as u32)),
            Op::Mem(mem) if mem.load && mem.rt.is_pc() && mem.rn.is_pc() => {
                let offset = word & 0xfff;
                let at = pc.wrapping_add(8).wrapping_add(if mem.add { offset } else { offset.wrapping_neg() });
                assert_eq!(at & !0xfff, pc & !0xfff, "an address in another page");
                let address = self.mirror_word(at).expect("in the same page");
                assert_eq!(address >> 24, 0xf1, "not an address");
                Some(address)
            }
            op => panic!("the mirror has {word:#x}, {op:?}, at {pc:#x}"),
        }
    }

    /// All branches that lead anywhere.
    fn all(&self) -> BTreeMap<u32, u32> {
        (VA..VA + VA_PAGES * PAGE).step_by(4).filter_map(|va| Some((va, self.follow(va)?))).collect()
    }

    fn code_word(&self, pc: u32) -> u32 {
        let (page, word) = self.translator.layout().find(CachePc(pc)).expect("in a code page");
        let [written, fetched] = &self.code.pages[page as usize];
        assert_eq!(written[word], fetched[word], "not published");
        fetched[word]
    }

    /// The words of a block, with their addresses.
    fn words(&self, block: BlockId) -> Vec<(u32, u32)> {
        let pages = (0..self.translator.layout().pages).flat_map(|page| {
            let base = self.translator.layout().code_page(page).0;
            (base..base + PAGE).step_by(4)
        });
        pages
            .filter(|&pc| self.translator.block_at(CachePc(pc)) == Some(block))
            .map(|pc| (pc, self.code_word(pc)))
            .collect()
    }
}

#[test]
fn an_empty_word_traps_in_both_states_and_at_both_half_words() {
    assert_eq!(spica_isa::decode(EMPTY).op, Op::Undefined);
    // UDF of T32 (A8.8.247)
    assert_eq!(EMPTY as u16 >> 8, 0xde);
    // B of T32 (A8.8.18, T2), to the half-word before: the PC reads as 4 more than its own address.
    let behind = EMPTY >> 16;
    assert_eq!(behind >> 11, 0b11100);
    let offset = ((behind << 21) as i32 >> 20) + 4;
    assert_eq!(offset, -2);
}

#[test]
fn a_near_landing_is_a_branch_and_a_far_one_a_load() {
    for (window, form) in [(NEAR, 0xea00_0000), (FAR, 0xe51f_f000)] {
        let mut f = Fixture::new(window);
        assert_eq!(f.all(), BTreeMap::new());
        let landing = f.land(VA + 0x1010);
        assert_eq!(f.all(), BTreeMap::from([(VA + 0x1010, landing)]));
        let word = f.mirror_word(VA + 0x1010 + window.distance).expect("mapped");
        assert_eq!(word & if window == NEAR { 0xff00_0000 } else { 0xffff_f000 }, form);
        // The landing gets LR from where it waits.
        assert_eq!(f.code_word(landing) & 0xffff_f000, 0xe59f_e000);
        // Everything else in the page is a trap, and other pages are not there.
        let others = (VA + 0x1000..VA + 0x2000).step_by(4).filter(|&va| f.follow(va).is_none()).count();
        assert_eq!(others, 1023);
        assert_eq!(f.code.mapped.len(), 1);
    }
}

#[test]
fn what_a_guest_address_has_to_do_with_the_mirror() {
    let mut f = Fixture::new(NEAR);
    let mirror = f.translator.mirror();
    for (va, has) in [(VA - 4, false), (VA, true), (VA + 0xf_fffc, true), (VA + 0x10_0000, false), (0, false)] {
        assert_eq!(mirror.has(GuestVa(va)), has);
        assert_eq!(mirror.holds(va.wrapping_add(NEAR.distance)), has);
        assert_eq!(mirror.target(va), Some(GuestVa(va)));
    }
    // Nothing lands outside of the window, nor from a page that is not mapped in all address spaces.
    let outside = f.translate_at(0x1000, PA, true);
    f.translator.land(outside, &mut f.code);
    assert_eq!(f.code_word(f.translator.entry(outside).0), NOP, "no landing in front");
    let local = f.translate_at(VA, PA, false);
    f.translator.land(local, &mut f.code);
    assert_eq!((f.all(), f.code.mapped.len()), (BTreeMap::new(), 0));
    f.translator.set_global(local, true);
    f.translator.land(local, &mut f.code);
    assert_eq!(f.all().len(), 1);
}

#[test]
fn without_the_option_or_without_memory_there_is_no_mirror() {
    for (options, mirror_pages) in [
        (Options { return_mirror: false, ..Options::all() }, 1),
        (Options { indirect: false, ..Options::all() }, 1),
        (Options::all(), 0),
    ] {
        let layout = Layout { base: BASE, pages: 1, mirror: Some(NEAR) };
        let translator = Translator::new(layout, options, Capacity { blocks: 4, exits: 16, mirror_pages });
        assert!(translator.mirror().window().is_none() && !translator.mirror().has(GuestVa(VA)));
        assert_eq!(translator.mirror().target(VA), None);
    }
}

#[test]
fn an_address_moves_where_a_block_is_to_land() {
    let mut f = Fixture::new(FAR);
    let mut expected = BTreeMap::from([(VA + 0x800, f.land(VA + 0x800))]);
    // Wherever the address lies, a block lands just there, and again.
    for _ in 0..20 {
        let taken: Vec<u32> = (VA..VA + PAGE)
            .step_by(4)
            .filter(|&va| f.mirror_word(va + FAR.distance).expect("mapped") >> 24 == 0xf1)
            .collect();
        assert_eq!(taken.len(), expected.len(), "an address for each landing, and no more");
        expected.insert(taken[0], f.land(taken[0]));
        assert_eq!(f.all(), expected);
    }
}

#[test]
fn a_page_full_of_blocks_leads_right_or_traps() {
    for window in [NEAR, FAR] {
        let mut f = Fixture::with(window, Options { max_block: 1, ..Options::all() }, 12);
        let mut random = Random::new(5);
        let mut expected = BTreeMap::new();
        let mut left: Vec<u32> = (0..PAGE_WORDS as u32).map(|n| VA + 4 * n).collect();
        while !left.is_empty() {
            let va = left.swap_remove(random.below(left.len() as u32) as usize);
            expected.insert(va, f.land(va));
            if !left.len().is_multiple_of(64) {
                continue;
            }
            let found = f.all();
            assert!(found.iter().all(|(va, landing)| expected.get(va) == Some(landing)));
            if window == NEAR || expected.len() <= PAGE_WORDS / 2 {
                assert_eq!(found, expected, "there is room for all");
            }
        }
        assert_eq!(f.translator.stats().flushes, 0);
        // It does not stay that way: what goes makes room.
        f.translator.unlink_all(&mut f.code);
        let landing = f.land(VA + 4);
        assert_eq!(f.all(), BTreeMap::from([(VA + 4, landing)]));
    }
}

#[test]
fn landing_twice_takes_no_second_address() {
    let mut f = Fixture::new(FAR);
    let block = f.translate(VA + 0x100);
    for _ in 0..5000 {
        f.translator.land(block, &mut f.code);
    }
    assert_eq!(f.follow(VA + 0x100), Some(f.landing(block)));
    let used = (VA..VA + PAGE).step_by(4).filter(|va| f.mirror_word(va + FAR.distance) != Some(EMPTY)).count();
    assert_eq!(used, 2);
}

#[test]
fn the_first_page_used_is_the_first_to_go() {
    let mut f = Fixture::new(NEAR);
    let first: Vec<u32> = (0..MEMORY).map(|n| f.land(VA + PAGE * n)).collect();
    assert_eq!(f.translator.mirror().usage(), (MEMORY as usize, 0));
    assert_eq!(
        (0..MEMORY).map(|n| f.follow(VA + PAGE * n)).collect::<Vec<_>>(),
        first.into_iter().map(Some).collect::<Vec<_>>()
    );
    let next = f.land(VA + PAGE * MEMORY);
    assert_eq!(f.translator.mirror().usage(), (MEMORY as usize, 1));
    assert_eq!((f.follow(VA), f.follow(VA + PAGE * MEMORY)), (None, Some(next)));
    assert!(!f.code.mapped.contains_key(&(VA + NEAR.distance)));
    assert!(f.follow(VA + PAGE).is_some());
    // The one that has gone comes back in place of the next.
    let again = f.land(VA);
    assert_eq!((f.follow(VA), f.follow(VA + PAGE)), (Some(again), None));
    assert_eq!(f.translator.mirror().usage(), (MEMORY as usize, 2));
}

#[test]
fn after_a_flush_the_first_pages_are_kept_together_and_stay() {
    const GROUP: u32 = 0x1_0000;
    // One large page, and 24 small ones.
    let mut f = Fixture::with_memory(NEAR, Options { max_block: 2, ..Options::all() }, 12, 40);
    f.land(VA + 0x3000);
    assert_eq!(f.code.mapped.len(), 1);
    f.translator.flush(&mut f.code);
    let first = f.land(VA + 0x3010);
    let place = |f: &Fixture, va: u32| f.code.mapped.get(&(va + NEAR.distance)).copied();
    let together: Vec<_> = (0..16).map(|page| place(&f, VA + page * PAGE)).collect();
    assert_eq!(together, (0..16).map(Some).collect::<Vec<_>>());
    assert_eq!(f.all(), BTreeMap::from([(VA + 0x3010, first)]), "the others are empty");
    // Others come one by one, and go; those stay.
    for page in 0..25 {
        let landing = f.land(VA + GROUP + page * PAGE);
        assert_eq!(f.follow(VA + GROUP + page * PAGE), Some(landing));
        assert_eq!(f.code.mapped.len(), 16 + (page as usize + 1).min(24));
    }
    assert_eq!((place(&f, VA + GROUP), f.translator.mirror().usage()), (None, (40, 1)));
    let more = f.land(VA + 0xf004);
    assert_eq!([0x3010, 0xf004, 0x3000].map(|at| f.follow(VA + at)), [Some(first), Some(more), None]);
    // Where all branches are to trap, all is unmapped, and another may have it.
    f.translator.unlink_all(&mut f.code);
    assert!(f.code.mapped.is_empty());
    f.land(VA + GROUP + 0x5000);
    assert_eq!((place(&f, VA + GROUP), place(&f, VA)), (Some(0), None));
}

#[test]
fn whatever_takes_a_block_away_takes_its_landing() {
    for window in [NEAR, FAR] {
        for (name, remove, all) in [
            (
                "drop_page",
                (|f: &mut Fixture| f.translator.drop_page(GuestPa(PA + 0x10), &mut f.code)) as fn(&mut Fixture),
                false,
            ),
            ("unmap_page", |f| assert!(f.translator.unmap_page(GuestVa(VA + 0x10), &mut f.code) != 0), false),
            ("unlink_all", |f| f.translator.unlink_all(&mut f.code), true),
            ("flush", |f| f.translator.flush(&mut f.code), true),
        ] {
            let mut f = Fixture::new(window);
            let (a, b) = (f.land(VA + 0x20), f.land(VA + 0x30));
            let other = f.land(VA + PAGE + 0x20);
            assert_eq!(f.all(), BTreeMap::from([(VA + 0x20, a), (VA + 0x30, b), (VA + PAGE + 0x20, other)]));
            remove(&mut f);
            let expected = if all { BTreeMap::new() } else { BTreeMap::from([(VA + PAGE + 0x20, other)]) };
            assert_eq!(f.all(), expected, "{name}");
            if all {
                assert_eq!((f.code.mapped.len(), f.translator.mirror().usage().0), (0, 0), "{name}");
            } else {
                // No address is left behind either.
                let page = f.code.mapped[&window.base()] as usize;
                assert!(f.code.mirror[page][0].iter().all(|&word| word == EMPTY), "{name}");
            }
            let again = f.land(VA + 0x20);
            assert_eq!(f.follow(VA + 0x20), Some(again), "{name}");
        }
    }
}

#[test]
fn a_dropped_block_does_not_land() {
    let mut f = Fixture::new(NEAR);
    let block = f.translate(VA);
    f.translator.drop_page(GuestPa(PA), &mut f.code);
    f.translator.land(block, &mut f.code);
    assert_eq!(f.all(), BTreeMap::new());
}

#[test]
fn closed_branches_trap_and_open_again_to_the_same_words() {
    for window in [NEAR, FAR] {
        let mut f = Fixture::with(window, Options::all(), 2);
        // BXNE r3; POPEQ {r4, pc}; LDRMI pc, [r1]; BLX r2
        f.put(PA, &[0x112f_ff13, 0x08bd_8010, 0x4591_f000, 0xe12f_ff32]);
        let block = f.translate(VA);
        let before = f.words(block);
        f.translator.close(block, &mut f.code);
        let closed: Vec<(u32, u32)> = f.words(block).into_iter().filter(|word| !before.contains(word)).collect();
        let svc = |cond: u32, register: u32| cond << 28 | 0x0f00_0000 | trap::CLOSED | register;
        assert_eq!(closed.iter().map(|word| word.1).collect::<Vec<_>>(), [1, 0, 4, 14].map(|cond| svc(cond, 14)));
        // Closing again changes nothing.
        let words = f.words(block);
        f.translator.close(block, &mut f.code);
        assert_eq!(f.words(block), words);
        for &(pc, word) in &closed {
            assert!(f.translator.reopen(CachePc(pc), &mut f.code), "{word:#x}");
            assert!(!f.translator.reopen(CachePc(pc), &mut f.code), "it is open");
        }
        assert_eq!(f.words(block), before);
    }
}

#[test]
fn the_branches_of_other_blocks_stay_open() {
    let mut f = Fixture::with(FAR, Options::all(), 2);
    f.put(PA + 0x1000, &[BX_LR, BX_LR]);
    let (one, two) = (f.translate_at(VA + 0x1000, PA + 0x1000, true), f.translate_at(VA + 0x1004, PA + 0x1004, true));
    let words = f.words(two);
    f.translator.close(one, &mut f.code);
    assert_eq!(f.words(two), words);
}

#[test]
fn forged_sites_are_not_opened() {
    let mut f = Fixture::with(NEAR, Options::all(), 2);
    f.put(PA, &[0x112f_ff13, 0xee02_1f10, BX_LR]);
    let block = f.translate(VA);
    f.translator.close(block, &mut f.code);
    let words = f.words(block);
    let closed: BTreeSet<u32> =
        words.iter().filter(|word| word.1 & 0x0fff_fff0 == 0x0f00_0010).map(|word| word.0).collect();
    assert_eq!(closed.len(), 2);
    for site in (BASE - 8..BASE + 5 * PAGE + 8).chain([0, 4, u32::MAX]).filter(|site| !closed.contains(site)) {
        assert!(!f.translator.reopen(CachePc(site), &mut f.code), "{site:#x}");
    }
    assert_eq!(f.words(block), words);
}

/// What the model knows: which block each address leads to, which pages are in use, in the order of their use.
struct World {
    f: Fixture,
    random: Random,
    /// VA to landing.
    lands: BTreeMap<u32, u32>,
    /// For each page of memory, the page of the window that it is used for.
    users: [Option<u32>; MEMORY as usize],
    next: usize,
    /// (VA, PA) of blocks, with what they are.
    blocks: BTreeMap<(u32, u32), BlockId>,
    /// VA page to PA page.
    mapping: [u32; VA_PAGES as usize],
}

impl World {
    fn new(seed: u64) -> World {
        let mut random = Random::new(seed);
        let window = random.pick(&[NEAR, FAR]);
        let mut f = Fixture::with(window, Options { max_block: 1 + random.below(2) as usize, ..Options::all() }, 10);
        for page in 0..VA_PAGES + 1 {
            f.put(PA + PAGE * page, &[BX_LR; PAGE_WORDS]);
        }
        World {
            f,
            random,
            lands: BTreeMap::new(),
            users: [None; MEMORY as usize],
            next: 0,
            blocks: BTreeMap::new(),
            mapping: std::array::from_fn(|page| PA + PAGE * page as u32),
        }
    }

    fn va(&mut self) -> u32 {
        // Few addresses of a page, its first words among them: that is where addresses are put.
        let word = if self.random.one_in(2) { self.random.below(8) } else { 64 * self.random.below(16) };
        VA + PAGE * self.random.below(VA_PAGES) + 4 * word
    }

    fn forget_page(&mut self, page: u32) {
        self.lands.retain(|va, _| va & !0xfff != page);
    }

    fn forget_all(&mut self) {
        self.lands.clear();
        (self.users, self.next) = ([None; MEMORY as usize], 0);
    }

    fn land(&mut self) {
        let va = self.va();
        let pa = self.mapping[((va - VA) / PAGE) as usize] | va & 0xfff;
        let flushes = self.f.translator.stats().flushes;
        let block = match self.blocks.get(&(va, pa)) {
            Some(&block) => block,
            None => self.f.translate_at(va, pa, true),
        };
        if self.f.translator.stats().flushes != flushes {
            self.blocks.clear();
            self.forget_all();
        }
        self.blocks.insert((va, pa), block);
        self.f.translator.land(block, &mut self.f.code);
        let page = va & !0xfff;
        if !self.users.contains(&Some(page)) {
            if let Some(gone) = self.users[self.next].replace(page) {
                self.forget_page(gone);
            }
            self.next = (self.next + 1) % MEMORY as usize;
        }
        self.lands.insert(va, self.f.landing(block));
    }

    fn step(&mut self) {
        let va = self.va();
        let page = ((va - VA) / PAGE) as usize;
        match self.random.below(24) {
            0 => {
                let pa = PA + PAGE * self.random.below(VA_PAGES + 1);
                self.f.translator.drop_page(GuestPa(pa), &mut self.f.code);
                let gone: Vec<(u32, u32)> = self.blocks.keys().copied().filter(|key| key.1 & !0xfff == pa).collect();
                for key in gone {
                    self.blocks.remove(&key);
                    self.lands.remove(&key.0);
                }
            }
            1 => {
                // The guest maps something else there.
                self.mapping[page] = PA + PAGE * self.random.below(VA_PAGES + 1);
                self.f.translator.unmap_page(GuestVa(va), &mut self.f.code);
                self.forget_page(va & !0xfff);
            }
            2 if self.random.one_in(4) => {
                self.f.translator.unlink_all(&mut self.f.code);
                self.forget_all();
            }
            3 if self.random.one_in(8) => {
                self.f.translator.flush(&mut self.f.code);
                self.blocks.clear();
                self.forget_all();
            }
            _ => self.land(),
        }
    }

    fn check(&self, everything: bool) {
        for page in 0..VA_PAGES {
            for word in 0..PAGE_WORDS as u32 {
                let va = VA + PAGE * page + 4 * word;
                if everything || word < 24 || word % 64 == 0 {
                    assert_eq!(self.f.follow(va), self.lands.get(&va).copied(), "{va:#x}");
                }
            }
        }
        let used = self.users.iter().flatten().count();
        assert_eq!((self.f.translator.mirror().usage().0, self.f.code.mapped.len()), (used, used));
    }
}

#[test]
fn random_sequences() {
    let (mut taken, mut far) = (0, 0);
    for seed in 1..=60 {
        let world = attempt(|| {
            let mut world = World::new(seed);
            for step in 0..300 {
                world.step();
                world.check(step % 50 == 0);
            }
            world
        });
        let world = world.unwrap_or_else(|message| panic!("seed {seed}: {message}"));
        taken += world.f.translator.mirror().usage().1;
        far += u32::from(world.f.window == FAR);
    }
    assert!(taken > 500 && far > 10, "{taken} pages taken, {far} far mirrors");
}

#[test]
fn a_mirror_that_moves_stands_for_as_many_addresses_elsewhere() {
    let mut f = Fixture::new(NEAR);
    f.land(VA + 0x10);
    let mirror = NEAR.base();
    let moved = Window { start: 0x8000_0000, distance: mirror.wrapping_sub(0x8000_0000), ..NEAR };
    f.translator.move_mirror(moved, &mut f.code);
    // Nothing is left of what was there, and nothing lands from there.
    assert_eq!((f.all(), f.code.mapped.len(), f.translator.mirror().window()), (BTreeMap::new(), 0, Some(moved)));
    let before = f.translate(VA + 0x10);
    f.translator.land(before, &mut f.code);
    assert_eq!((f.all(), f.code.mapped.len()), (BTreeMap::new(), 0));
    assert_eq!(f.code_word(f.translator.entry(before).0), NOP, "no landing in front");
    // What the new addresses have to do with it.
    let has = [0x7fff_fffc, 0x8000_0000, 0x800f_fffc, 0x8010_0000].map(|va| f.translator.mirror().has(GuestVa(va)));
    assert_eq!(has, [false, true, true, false]);
    f.window = moved;
    let block = f.translate_at(0x8000_1010, PA + 0x1010, true);
    f.translator.land(block, &mut f.code);
    assert_eq!(f.follow(0x8000_1010), Some(f.landing(block)));
    assert_eq!(f.translator.mirror().target(0x8000_1010), Some(GuestVa(0x8000_1010)));
    // And branches there go through it, by the new distance.
    f.put(PA + 0x2000, &[BX_LR]);
    let returns = f.translate_at(0x8000_2000, PA + 0x2000, true);
    let through = spica_isa::asm::add_imm(
        spica_isa::Cond::Al,
        spica_isa::Reg::PC,
        spica_isa::Reg::LR,
        spica_isa::ModImm::encode(moved.distance).expect("an immediate"),
    );
    assert!(f.words(returns).iter().any(|&(_, word)| word == through), "ADD PC, LR, #distance");
}

/// What the words of a branch through the mirror make of `target` in LR, and where it ends: bits 1:0 of that and the
/// state are the processor's business.
fn branched(target: u32, window: Window) -> (u32, u32) {
    let mut f = Fixture::with(window, Options::all(), 2);
    // BX LR
    f.put(PA, &[if window.t32 { 0xbf00_4770 } else { BX_LR }]);
    let block = f.translate_at(window.start | u32::from(window.t32), PA, true);
    let mut lr = target;
    // Behind the landing, and what puts LR away.
    for (_, word) in f.words(block).into_iter().skip(2) {
        let Op::DataProcessing { op, rd, rn, op2, .. } = spica_isa::decode(word).op else { panic!("{word:#x}") };
        let second = match op2 {
            Operand2::Imm(value) => value.value(),
            Operand2::Shifted { shift: ShiftType::Lsl, amount, .. } => lr << amount,
            Operand2::Shifted { shift: ShiftType::Lsr, amount, .. } => lr >> amount,
            Operand2::Shifted { shift: ShiftType::Ror, amount, .. } => lr.rotate_right(amount.into()),
            _ => panic!("{word:#x}"),
        };
        assert!(op == DpOp::Mov || rn == Reg::LR, "{word:#x}");
        let result = match op {
            DpOp::Mov => second,
            DpOp::Add => lr.wrapping_add(second),
            DpOp::Sub => lr.wrapping_sub(second),
            DpOp::Eor => lr ^ second,
            DpOp::Bic => lr & !second,
            _ => panic!("{word:#x}"),
        };
        if rd.is_pc() {
            return (lr, result);
        }
        lr = result;
    }
    panic!("no branch");
}

/// What a branch to `target` leaves in LR.
fn in_lr(target: u32, window: Window) -> u32 {
    branched(target, window).0
}

/// Those that share their place in `window` with the T32 code at `va`.
fn shared(va: GuestVa, window: Window) -> [GuestVa; 3] {
    let own = 2 | window.start >> 31;
    let others: Vec<_> = (0..4).filter(|&low| low != own).map(|low| undone(window.place(va.0) | low, window)).collect();
    others.try_into().expect("three")
}

/// A guarded window is exact for 256 MiB in front of it and behind it: wherever the target is, the branch ends in its
/// place, or nowhere near, and the target is known again. The addresses that lead to the code cache are further away.
#[test]
fn a_guarded_window_knows_what_is_in_front_of_it() {
    const CACHE: u32 = 0xf180_0000;
    let mut random = Random::new(7);
    for t32 in [false, true] {
        for start in [0, 0x4000_0000, 0x4600_0000, 0x9e00_0000, 0xc000_0000] {
            let distance = 0xf200_0000_u32.wrapping_sub(start << u32::from(t32));
            let size = Window::GUARDED >> u32::from(t32);
            let window = Window { start, size, distance, t32, guarded: true };
            assert_eq!(window.base(), 0xf200_0000);
            let f = Fixture::new(window);
            let mirror = f.translator.mirror();
            let mut targets =
                vec![start, start + size - 4, start.wrapping_sub(4), start.wrapping_sub(128), start + size];
            targets.extend((0..500).map(|_| random.word()));
            targets.extend((0..200).map(|_| start.wrapping_sub(random.below(2 * size))));
            targets.extend((0..200).map(|_| start + random.below(size)));
            for target in targets.into_iter().flat_map(|target| [target & !3, target & !3 | 1, target | 3]) {
                // In A32 state, bits 1:0 = 0b11 are T32 code at the half-word behind.
                let (lr, end) = branched(target, window);
                let at = GuestVa(target);
                assert_eq!(mirror.target(lr), Some(at), "{window:x?}: {target:#x}");
                assert_eq!((undone(lr, window), end), (at, lr & !3), "in A32 state");
                let inside = end.wrapping_sub(CACHE) < 0x80_0000 + window.mirror_size();
                if window.has(at) {
                    assert_eq!(end & !3, window.place(target), "{window:x?}: {target:#x}");
                } else if inside {
                    // Nothing in front or behind gets there, but for T32 code with what differs in bit 31.
                    let away = target.wrapping_sub(start.wrapping_sub(0x80_0000));
                    let other = t32 && (target ^ start) >> 31 == 1;
                    assert!(away.wrapping_add(0x1000_0000) > 0x2200_0000 || other, "{window:x?}: {target:#x}");
                }
            }
        }
    }
}

#[test]
fn every_half_word_of_t32_code_has_a_word() {
    let mut f = Fixture::new(T32);
    let mirror = f.translator.mirror();
    let ends = [(VA - 1, false), (VA | 1, true), (VA + 0x7_ffff, true), (VA + 0x8_0001, false), (VA, false)];
    for (va, has) in ends {
        assert_eq!(mirror.has(GuestVa(va)), has, "{va:#x}");
    }
    for (pc, holds) in [(0xf1ff_fffc, false), (0xf200_0000, true), (0xf20f_fffc, true), (0xf210_0000, false)] {
        assert_eq!(mirror.holds(pc), holds, "{pc:#x}");
    }
    // Two that are beside each other, the second in the last half-word of a page, and one in A32 state.
    let landings = [0xffd, 0xfff].map(|at| f.land(VA + at));
    let a32 = f.translate(VA + 0xff8);
    f.translator.land(a32, &mut f.code);
    let found: Vec<_> = (VA..VA + PAGE).step_by(2).filter_map(|va| Some((va, f.follow(va)?))).collect();
    assert_eq!(found, [(VA + 0xffc, landings[0]), (VA + 0xffe, landings[1])]);
    assert_eq!(f.code.mapped.keys().collect::<Vec<_>>(), [&0xf200_1000]);
    assert_eq!(f.code_word(f.translator.entry(a32).0), NOP, "no landing in front");
    assert_eq!(f.code_word(landings[1]) & 0xffff_f000, 0xe59f_e000);
    // One page of code takes two of the mirror.
    f.land(VA + 1);
    assert_eq!(f.code.mapped.len(), 2);
    f.translator.unmap_page(GuestVa(VA), &mut f.code);
    assert!((VA..VA + PAGE).step_by(2).all(|va| f.follow(va).is_none()));
}

#[test]
fn a_branch_of_t32_code_has_its_whole_target_in_lr() {
    let twin = VA ^ 1 << 31;
    let lower = Window { start: twin, ..T32 };
    let f = Fixture::new(lower);
    for target in [twin + 0x1235, twin + 0x1234, VA + 0x1235, VA + 0x1234, 0x1235] {
        let lr = in_lr(target, lower);
        assert_eq!(f.translator.mirror().target(lr), Some(GuestVa(target)), "{target:#x}");
        assert_eq!(f.translator.mirror().holds(lr), lower.has(GuestVa(target)), "{target:#x}");
    }
    assert_eq!(in_lr(twin + 0x1235, lower) & !3, lower.place(twin + 0x1235));
    let others = shared(GuestVa(twin + 0x1235), lower);
    assert_eq!(others, [0x0000_1234, 0xe000_1234, 0xa000_1235].map(GuestVa));
    let f = Fixture::new(T32);
    let mirror = f.translator.mirror();
    // In the window, in A32 state, where bit 31 is the only difference, and elsewhere.
    for target in [VA + 0x1235, VA + 0x1234, VA + 0x1237, twin + 0x1235, twin + 0x1234, 0x1235, 0xffff_0009] {
        let lr = in_lr(target, T32);
        assert_eq!(mirror.target(lr), Some(GuestVa(target)), "{target:#x}");
        // None of the others gets where those of the window do.
        assert_eq!(mirror.holds(lr), T32.has(GuestVa(target)), "{target:#x}");
        if T32.has(GuestVa(target)) {
            assert_eq!(lr & !3, T32.place(target));
        }
    }
    // These do: two of A32 code, and one of T32 code.
    let others = shared(GuestVa(VA + 0x1235), T32);
    assert_eq!(others, [0x2000_1234, 0x8000_1234, 0x6000_1235].map(GuestVa));
    for other in others {
        assert_eq!(in_lr(other.0, T32) & !3, T32.place(VA + 0x1235));
    }
    let lr = in_lr(VA + 0x1236, T32);
    assert_eq!(mirror.target(lr), Some(GuestVa(VA + 0x1234)), "UNPREDICTABLE");
}

#[test]
fn a_closed_branch_of_t32_code_is_opened_again() {
    let mut f = Fixture::new(T32);
    // BX LR, and another instruction.
    f.put(PA, &[0xbf00_4770]);
    let block = f.translate(VA + 1);
    let before = f.words(block);
    let bic = before.iter().position(|&(_, word)| word == 0xe3ce_f003).expect("BIC PC, LR, #3");
    f.translator.close(block, &mut f.code);
    let (site, closed) = f.words(block)[bic];
    assert_eq!(closed, 0xef00_0000 | trap::CLOSED | 14);
    assert!(f.translator.reopen(CachePc(site), &mut f.code));
    assert_eq!(f.words(block), before);
}

#[test]
fn a_mirror_can_stand_for_t32_code_instead() {
    let mut f = Fixture::new(Window { size: 0x10_0000, ..NEAR });
    f.land(VA + 0x10);
    f.translator.move_mirror(T32, &mut f.code);
    f.window = T32;
    assert_eq!((f.code.mapped.len(), f.translator.mirror().window()), (0, Some(T32)));
    let landing = f.land(VA + 0x7_f003);
    assert_eq!(f.follow(VA + 0x7_f002), Some(landing));
    assert_eq!(f.follow(VA + 0x7_f000), None);
}
