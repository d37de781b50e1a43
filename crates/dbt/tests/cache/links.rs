//! Links: which exits become branches to which blocks, and what is left when they are cut.

use super::fixture::{Fixture, LAYOUT, NOP, PA, VA, b, branch_target, chain};
use spica_addr::CachePc;
use spica_dbt::layout::PAGE_WORDS;
use spica_dbt::{BlockId, Capacity, Options};

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
    assert!(f.translator.settle(&mut f.code));
    assert_eq!(f.snapshot(), before);
}

#[test]
fn a_block_can_link_to_itself() {
    let mut f = Fixture::roomy();
    f.put(PA, &[NOP, b(0, VA + 4, VA), b(14, VA + 8, VA)]);
    let block = f.translate(VA, PA, false);
    let before = f.snapshot();
    assert_eq!(f.exits(block).len(), 2);
    for (exit, _, _) in f.exits(block) {
        assert!(f.link(exit, block));
    }
    assert_ne!(f.snapshot(), before);
    f.translator.close(block, &mut f.code);
    assert_eq!(f.snapshot(), before);
    for (exit, _, _) in f.exits(block) {
        assert!(f.link(exit, block));
    }
    f.drop_page(PA);
    assert_eq!(f.snapshot(), before, "a dropped block leads nowhere");
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
    let known: Vec<_> = blocks.iter().flat_map(|&block| f.exits(block)).map(|(_, pc, _)| pc).collect();
    assert_eq!(known.len(), 2, "a return has no exit");
    let base = LAYOUT.base;
    for pc in (base..base + LAYOUT.va_size()).map(CachePc) {
        assert_eq!(f.translator.exit(pc).is_some(), known.contains(&pc), "an exit at {pc}");
    }
    assert!(f.translator.exit(CachePc(0)).is_none());
}

/// A translator with `count` blocks that each link to one in a page of its own. That block, theirs, and the exits.
fn crowd(count: u32) -> (Fixture, BlockId, Vec<BlockId>) {
    let mut f = Fixture::new(Options::all(), LAYOUT.pages, Capacity { blocks: 4000, exits: 8000, mirror_pages: 0 });
    let target = f.translate(VA + 0x8_0000, PA + 0x8_0000, true);
    let from = (0..count)
        .map(|n| {
            f.put(PA + 4 * n, &[b(14, VA + 4 * n, VA + 0x8_0000)]);
            let block = f.translate(VA + 4 * n, PA + 4 * n, true);
            let (exit, _, _) = f.exits(block)[0];
            assert!(f.link(exit, target));
            block
        })
        .collect();
    f.code.published.clear();
    (f, target, from)
}

#[test]
fn exits_of_a_crowd_are_unlinked_by_and_by() {
    for how in 0..3 {
        let (mut f, target, from) = crowd(1500);
        match how {
            0 => f.drop_page(PA + 0x8_0000),
            1 => f.unmap_page(VA + 0x8_0000),
            _ => f.translator.unlink_all(&mut f.code),
        }
        let linked = |f: &Fixture| {
            let leads = |block: &&BlockId| branch_target(f.entry(**block), f.word(f.entry(**block))).is_some();
            from.iter().filter(leads).count()
        };
        // Some, and not all.
        let left = if how < 2 { 1000 } else { 1500 };
        assert_eq!((f.code.published.len(), linked(&f)), (1500 - left, left));
        assert!(!f.translator.is_settled());
        while !f.translator.settle(&mut f.code) {}
        assert!(f.translator.is_settled());
        assert_eq!((f.code.published.len(), linked(&f)), (1500, 0));
        assert_eq!(f.translator.is_live(target), how != 0);
        let (exit, _, _) = f.exits(from[7])[0];
        assert_eq!(f.link(exit, target), how != 0);
    }
}

#[test]
fn more_crowds_than_are_known_one_by_one_are_all_unlinked() {
    const CROWDS: u32 = 40;
    let mut f = Fixture::new(Options::all(), 5, Capacity { blocks: 4000, exits: 8000, mirror_pages: 0 });
    let targets: Vec<BlockId> =
        (0..CROWDS).map(|n| f.translate(VA + 0x8_0000 + 16 * n, PA + 0x8_0000 + 16 * n, true)).collect();
    // One that takes up what is unlinked at once, and two for each of the others.
    for n in 0..500 + 2 * CROWDS {
        let to = n.saturating_sub(500) / 2;
        f.put(PA + 4 * n, &[b(14, VA + 4 * n, VA + 0x8_0000 + 16 * to)]);
        let block = f.translate(VA + 4 * n, PA + 4 * n, true);
        let (exit, _, _) = f.exits(block)[0];
        assert!(f.link(exit, targets[to as usize]));
    }
    let links = f.translator.stats().links;
    f.drop_page(PA + 0x8_0000);
    assert!(!f.translator.is_settled());
    while !f.translator.settle(&mut f.code) {}
    assert_eq!(f.translator.stats().unlinks, links);
}

#[test]
fn a_block_of_a_crowd_is_closed_at_once_and_linked_again() {
    let (mut f, target, from) = crowd(1500);
    let block = from[3];
    let linked = f.word(f.entry(block));
    for _ in 0..3 {
        f.code.published.clear();
        f.translator.close(block, &mut f.code);
        assert_eq!((f.code.published.len(), branch_target(f.entry(block), f.word(f.entry(block)))), (1, None));
        f.translator.close(block, &mut f.code);
        assert_eq!(f.code.published.len(), 1, "it is closed already");
        let (exit, _, _) = f.exits(block)[0];
        assert!(f.link(exit, target) && !f.link(exit, target));
        assert_eq!(f.word(f.entry(block)), linked);
    }
    f.translator.close(block, &mut f.code);
    f.drop_page(PA + 0x8_0000);
    while !f.translator.settle(&mut f.code) {}
    assert!(from.iter().all(|&block| branch_target(f.entry(block), f.word(f.entry(block))).is_none()));
}

#[test]
fn a_closed_exit_can_lead_to_another_block_later() {
    let mut f = Fixture::roomy();
    let blocks = chain(&mut f, true);
    let (exit, _, _) = f.exits(blocks[0])[0];
    assert!(f.link(exit, blocks[1]));
    f.translator.close(blocks[0], &mut f.code);
    // The same guest code once more, as is made where the first was not found.
    let again = f.translate(VA + 0x1000, PA + 0x1000, true);
    assert!(f.link(exit, again));
    assert_eq!(branch_target(f.entry(blocks[0]), f.word(f.entry(blocks[0]))), Some(f.entry(again)));
    f.unmap_page(VA + 0x1000);
    assert_eq!(branch_target(f.entry(blocks[0]), f.word(f.entry(blocks[0]))), None);
    assert!(f.link(exit, blocks[1]));
}
