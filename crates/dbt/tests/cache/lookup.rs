//! Which blocks are found, and what takes them away: dropped and unmapped pages, flushes.

use super::fixture::{Fixture, LAYOUT, PA, VA, b, branch_target, chain, literal_of};
use spica_addr::{CachePc, GuestPa, GuestVa};
use spica_dbt::layout::PAGE;
use spica_dbt::{BlockId, Capacity, Options, trap};
use std::collections::BTreeSet;

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
fn dropping_a_page_cuts_the_links_into_it() {
    let mut f = Fixture::roomy();
    let blocks = chain(&mut f, true);
    let before = f.snapshot();
    let (into, out) = (f.exits(blocks[0])[0].0, f.exits(blocks[1])[0].0);
    assert!(f.link(into, blocks[1]) && f.link(out, blocks[2]));
    let version = f.translator.version();
    assert!(f.has_code(PA + 0x1ffc));
    f.drop_page(PA + 0x1ffc);
    // Who is in it goes on to where it led.
    assert_eq!(branch_target(f.entry(blocks[1]), f.word(f.entry(blocks[1]))), Some(f.entry(blocks[2])));
    f.translator.close(blocks[1], &mut f.code);
    assert_eq!(f.snapshot(), before);
    assert_ne!(f.translator.version(), version, "code-cache addresses may be stale");
    assert_eq!(f.lookup(VA + 0x1000, PA + 0x1000), None);
    assert!(!f.has_code(PA + 0x1000));
    assert!(f.mapped_at(VA + 0x1abc).is_empty());
    assert!(!f.translator.is_live(blocks[1]));
    assert_eq!(f.translator.stats().dropped, 1);
    // Code may still run in it, but it is not linked any more, neither from nor to.
    assert_eq!(f.translator.block_at(CachePc(f.entry(blocks[1]))), Some(blocks[1]));
    assert!(!f.link(into, blocks[1]));
    assert!(!f.link(out, blocks[2]));
    // A new block takes its place.
    let again = f.translate(VA + 0x1000, PA + 0x1000, true);
    assert_eq!(f.lookup(VA + 0x1000, PA + 0x1000), Some(again));
    assert!(f.link(into, again));
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
    assert!(f.mapped_pages().is_empty());
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
        assert!(!f.has_code(PA));
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

#[test]
fn of_many_blocks_in_one_bucket_the_newest_are_found() {
    let mut f = Fixture::new(Options::all(), 4, Capacity { blocks: 4000, exits: 8000, mirror_pages: 0 });
    let all: Vec<_> = (0..300).map(|n| f.translate(VA, PA + 0x1000 * n, true)).collect();
    for (n, &block) in (0..300).zip(&all) {
        let found = f.lookup(VA, PA + 0x1000 * n);
        assert_eq!(found, (n >= 300 - 32).then_some(block), "{n}");
    }
    // Made anew, and then there are two of one page.
    let again = f.translate(VA, PA, true);
    assert_eq!(f.lookup(VA, PA), Some(again));
    for n in 0..300 {
        f.drop_page(PA + 0x1000 * n);
        assert_eq!(f.lookup(VA, PA + 0x1000 * n), None);
        assert!(!f.translator.is_live(all[n as usize]));
    }
    assert!(!f.translator.is_live(again));
    assert!(f.mapped_pages().is_empty());
}

#[test]
fn a_page_with_very_many_blocks_is_dropped_or_unmapped_by_and_by() {
    for unmap in [false, true] {
        let mut f = Fixture::new(Options::all(), 4, Capacity { blocks: 4000, exits: 8000, mirror_pages: 0 });
        let other = f.translate(VA + 0x100_0000, PA + 0x100_0000, true);
        let blocks: Vec<_> = (0..1300)
            .map(|n| {
                let page = 0x1000 * (1 + n / 2);
                let (va, pa) = if unmap { (VA, PA + page) } else { (VA + page, PA) };
                let (va, pa) = (va + n % 2 * 8, pa + n % 2 * 8);
                f.put(pa, &[b(14, va, va)]);
                let block = f.translate(va, pa, true);
                let (exit, _, _) = f.exits(block)[0];
                assert!(f.link(exit, block));
                f.translator.remember(block);
                block
            })
            .collect();
        let (version, generation) = (f.translator.version(), f.translator.generation());
        if unmap {
            f.unmap_page(VA)
        } else {
            f.drop_page(PA)
        }
        assert!(!f.translator.is_settled());
        assert_eq!(f.translator.version() != version, !unmap);
        // What is made of it now is not concerned.
        let new = f.translate(VA + 0x40, PA + 0x40, true);
        let mut pieces = 0;
        while !f.translator.settle(&mut f.code) {
            pieces += 1;
        }
        assert!(pieces >= 3, "{pieces} pieces");
        for (n, &block) in (0..).zip(&blocks) {
            assert_eq!(f.translator.is_live(block), unmap);
            assert_eq!(branch_target(f.entry(block), f.word(f.entry(block))), None);
            let (va, _) = f.translator.source(block);
            assert_eq!(f.translator.jump_cache.get(va.0), None, "{n}");
        }
        assert!(f.translator.is_live(new) && f.translator.is_live(other));
        assert_eq!(f.translator.generation(), generation);
        assert_eq!(f.translator.guest_pages(), if unmap { 652 } else { 2 });
        f.mapped_pages();
    }
}
