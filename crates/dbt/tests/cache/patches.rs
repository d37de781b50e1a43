//! Words that change: what was made from them goes, and nothing else.

use super::fixture::{BX_LR, Fixture, LAYOUT, NOP, PA, VA, b, literal_of};
use spica_dbt::{BlockId, Capacity, Options};
use spica_prove::random::Random;
use spica_prove::translator::generate::{self, Window};
use spica_prove::work::attempt;

/// `LDR r0, [PC, #offset]`.
fn load(offset: u32) -> u32 {
    0xe59f_0000 | offset
}

/// Functions of four words, a block each, in one page.
fn functions(f: &mut Fixture, count: u32) -> Vec<BlockId> {
    let at = |n: u32| 0x10 * n;
    (0..count).for_each(|n| f.put(PA + at(n), &[NOP, NOP, BX_LR, NOP]));
    (0..count).map(|n| f.translate(VA + at(n), PA + at(n), true)).collect()
}

fn live(f: &Fixture, blocks: &[BlockId]) -> Vec<bool> {
    blocks.iter().map(|&block| f.translator.is_live(block)).collect()
}

#[test]
fn a_block_goes_with_its_own_words() {
    for word in 0..4 {
        let mut f = Fixture::roomy();
        let blocks = functions(&mut f, 3);
        let version = f.translator.version();
        assert!(f.patch(PA + 0x10 + 4 * word, 0xe1a0_0000));
        // The fourth is behind its end.
        assert_eq!(live(&f, &blocks), [true, word == 3, true], "word {word}");
        assert_eq!(f.translator.version() != version, word < 3);
        assert_eq!(f.lookup(VA + 0x10, PA + 0x10).is_some(), word == 3);
        assert_eq!(f.translator.jump_cache.get(VA + 0x10), None);
    }
}

#[test]
fn what_is_stored_again_changes_nothing() {
    let mut f = Fixture::roomy();
    let blocks = functions(&mut f, 1);
    let before = f.snapshot();
    assert!(f.patch(PA, NOP));
    assert_eq!((live(&f, &blocks), f.snapshot()), (vec![true], before));
}

#[test]
fn links_of_other_blocks_stay() {
    let mut f = Fixture::roomy();
    f.put(PA, &[b(14, 0, 0x40)]);
    f.put(PA + 0x20, &[b(14, 0x20, 0x40)]);
    f.put(PA + 0x40, &[b(14, 0x40, 0x20)]);
    let [first, second, third] = [0, 0x20, 0x40].map(|at| f.translate(VA + at, PA + at, true));
    for (from, to) in [(first, third), (second, third), (third, second)] {
        let exit = f.exits(from)[0].0;
        assert!(f.link(exit, to));
    }
    let before = f.snapshot();
    assert!(f.patch(PA, NOP));
    assert_eq!(live(&f, &[first, second, third]), [false, true, true]);
    assert_eq!(f.snapshot(), before, "nothing leads to the block that went");
    assert!(f.patch(PA + 0x20, NOP));
    assert_eq!(live(&f, &[second, third]), [false, true]);
    let changed = f.snapshot().iter().flatten().zip(before.iter().flatten()).filter(|(a, b)| a != b).count();
    assert_eq!(changed, 1, "the one link to it is undone");
}

#[test]
fn literals_are_a_part_of_a_block() {
    // From in front, and from behind.
    for (at, word) in [(0, load(0x38)), (0x80, 0xe51f_0048)] {
        let mut f = Fixture::roomy();
        f.put(PA + at, &[word, BX_LR]);
        f.put(PA + 0x40, &[17]);
        f.put(PA + 0x100, &[NOP]);
        let [block, _] = [at, 0x100].map(|at| f.translate(VA + at, PA + at, true));
        assert_eq!(literal_of(&f, block), Some(17));
        assert!(f.patch(PA + 0x40, 18));
        assert!(!f.translator.is_live(block));
        let block = f.translate(VA + at, PA + at, true);
        assert_eq!(literal_of(&f, block), Some(18));
    }
}

#[test]
fn a_page_is_given_up_when_writes_have_cost_as_much_as_its_blocks() {
    for count in [1, 5, 40] {
        let mut f = Fixture::roomy();
        let blocks = functions(&mut f, count);
        // The word behind the last.
        let writes = (0..).take_while(|&n| f.patch(PA + 0xffc, n)).count();
        assert_eq!(writes, 2 * blocks.len());
        // Whoever asks has to drop them.
        assert!(live(&f, &blocks).iter().all(|&live| live));
        f.drop_page(PA);
        functions(&mut f, count);
        assert!(f.patch(PA + 0xffc, 0), "it begins anew");
    }
}

#[test]
fn a_page_of_which_nothing_would_be_left_is_given_up() {
    let mut f = Fixture::roomy();
    let blocks = functions(&mut f, 1);
    assert!(!f.patch(PA, BX_LR));
    assert_eq!(live(&f, &blocks), [true]);
    f.put(PA + 0x5000, &[NOP]);
    assert!(!f.patch(PA + 0x5000, BX_LR), "a page without code");
}

#[test]
fn a_page_with_too_many_blocks_to_look_through_is_given_up() {
    let mut f = Fixture::new(Options::all(), LAYOUT.pages, Capacity { blocks: 1000, exits: 4000, mirror_pages: 0 });
    let blocks: Vec<_> = (0..401).map(|n| f.translate(VA + 4 * n, PA + 4 * n, true)).collect();
    assert!(!f.patch(PA, NOP));
    assert!(f.translator.is_live(blocks[0]));
}

/// All words that a block at `va` becomes in an empty cache, and its length.
fn anew(f: &mut Fixture, va: u32) -> (usize, Vec<[u32; 1024]>) {
    f.translator.flush(&mut f.code);
    f.code.fetched.iter_mut().chain(&mut f.code.written).for_each(|page| page.fill(0));
    let block = f.translate(va, PA | va & 0xfff, true);
    (f.translator.length(block), f.snapshot())
}

/// Random code, and random words of it that change. To drop everything would be right. What a block becomes when it is
/// made anew says whether it has to go.
#[test]
fn random_patches() {
    let (mut kept, mut needless, mut patches) = (0, 0, 0);
    for seed in 1..=12 {
        let found = attempt(|| {
            let mut random = Random::new(seed);
            let options = Options { max_block: random.pick(&[1, 3, 8]), ..generate::options(&mut random) };
            let window = Window { start: VA, words: 1024, thumb: 0 };
            let capacity = Capacity { blocks: 1000, exits: 4000, mirror_pages: 0 };
            let (mut f, mut fresh) =
                (Fixture::new(options, LAYOUT.pages, capacity), Fixture::new(options, 1, capacity));
            let words = std::array::from_fn(|n| generate::instruction(&mut random, VA + 4 * n as u32, &window));
            f.guest.insert(PA, words);
            fresh.guest.insert(PA, words);
            let mut blocks = Vec::new();
            for _ in 0..20 {
                let va = VA + 4 * random.below(1000);
                if f.lookup(va, PA | va & 0xfff).is_none() {
                    blocks.push((va, f.translate(va, PA | va & 0xfff, true)));
                }
            }
            assert_eq!(f.translator.stats().flushes, 0, "too much code for this test");
            for _ in 0..12 {
                let near = random.pick(&blocks).0;
                let at = (near & 0xfff) / 4 + random.below(12);
                let pa = PA | (4 * at.min(1023));
                let word = match random.below(3) {
                    0 => generate::instruction(&mut random, VA | pa & 0xfff, &window),
                    1 => f.guest[&PA][(pa & 0xfff) as usize / 4] ^ 1 << random.below(32),
                    _ => random.word(),
                };
                let before: Vec<_> = blocks.iter().map(|&(va, _)| anew(&mut fresh, va)).collect();
                fresh.guest.get_mut(&PA).unwrap()[(pa & 0xfff) as usize / 4] = word;
                if !f.patch(pa, word) {
                    f.drop_page(PA);
                    return (kept, needless, patches);
                }
                patches += 1;
                let mut left = Vec::new();
                for ((va, block), before) in blocks.into_iter().zip(before) {
                    let changes = anew(&mut fresh, va) != before;
                    let live = f.translator.is_live(block);
                    assert_eq!(f.lookup(va, PA | va & 0xfff).is_some(), live);
                    // One that was cut where the page of the cache was full is not made from all of that.
                    assert!(!(changes && live) || before.0 > f.translator.length(block), "{va:#x} stays");
                    kept += u32::from(live);
                    needless += u32::from(!live && !changes);
                    if live {
                        left.push((va, block));
                    }
                }
                blocks = left;
                if blocks.is_empty() {
                    break;
                }
            }
            (kept, needless, patches)
        });
        (kept, needless, patches) = found.unwrap_or_else(|message| panic!("seed {seed}: {message}"));
    }
    eprintln!("{patches} patches, {kept} blocks stayed, {needless} were dropped needlessly");
    assert!(patches > 60 && kept > 600 && needless < patches / 4, "{patches} {kept} {needless}");
}
