//! Breakpoints: no block contains one, everything that leads to one traps, and nothing is left of one that is gone.

use super::fixture::{BX_LR, Fixture, NOP, PA, VA, b};
use spica_addr::{CachePc, GuestPa, GuestVa};
use spica_dbt::{MOST_BREAKPOINTS, Options};

fn set(f: &mut Fixture, va: u32) -> bool {
    f.translator.set_breakpoint(GuestVa(va), &mut f.code)
}

fn clear(f: &mut Fixture, va: u32) -> bool {
    f.translator.clear_breakpoint(GuestVa(va))
}

/// Eight instructions that do nothing, and a return.
fn straight(f: &mut Fixture) {
    f.put(PA, &[NOP, NOP, NOP, NOP, NOP, NOP, NOP, NOP, BX_LR]);
}

#[test]
fn blocks_end_in_front_of_a_breakpoint() {
    let mut f = Fixture::roomy();
    straight(&mut f);
    assert!(set(&mut f, VA + 0x10) && f.translator.is_breakpoint(GuestVa(VA + 0x10)));
    let block = f.translate(VA, PA, true);
    assert_eq!(f.translator.length(block), 4);
    assert_eq!(f.exits(block).iter().map(|exit| exit.2).collect::<Vec<_>>(), [VA + 0x10]);
    // The same page elsewhere has none.
    let alias = f.translate(VA + 0x1000, PA, true);
    assert_eq!(f.translator.length(alias), 9);
    let behind = f.translate(VA + 0x14, PA + 0x14, true);
    assert_eq!(f.translator.length(behind), 4);
}

#[test]
fn blocks_that_contain_a_new_breakpoint_go() {
    let mut f = Fixture::roomy();
    straight(&mut f);
    f.put(PA + 0x1000, &[b(14, VA + 0x1000, VA + 8)]);
    let [whole, inner, behind, other] = [0, 8, 0x14, 0x1000].map(|at| f.translate(VA + at, PA + at, true));
    let alias = f.translate(VA + 0x2000, PA, true);
    let exit = f.exits(other)[0].0;
    assert!(f.link(exit, inner));
    let version = f.translator.version();
    assert!(set(&mut f, VA + 0x10));
    assert_ne!(f.translator.version(), version);
    assert_eq!(
        [whole, inner, behind, other, alias].map(|block| f.translator.is_live(block)),
        [false, false, true, true, true]
    );
    // What led to one of them traps, and leads to its successor.
    assert_eq!(f.word(f.entry(other)) >> 24, 0xef);
    let shorter = f.translate(VA + 8, PA + 8, true);
    assert_eq!(f.translator.length(shorter), 2);
    assert!(f.link(exit, shorter));
    // Without the breakpoint, a block need not end there, and those that do go on.
    let short_exit = f.exits(shorter)[0].0;
    assert!(clear(&mut f, VA + 0x10) && f.translator.is_live(shorter));
    let again = f.translate(VA, PA, true);
    assert_eq!(f.translator.length(again), 9);
    let rest = f.translate(VA + 0x10, PA + 0x10, true);
    assert!(f.link(short_exit, rest));
}

#[test]
fn a_breakpoint_on_a_blocks_first_instruction_drops_it() {
    let mut f = Fixture::roomy();
    straight(&mut f);
    f.translate(VA, PA, true);
    assert!(set(&mut f, VA));
    assert_eq!(f.lookup(VA, PA), None);
    assert_eq!(f.translator.jump_cache.get(VA), None);
}

#[test]
fn one_instruction_goes_over_a_breakpoint() {
    let mut f = Fixture::roomy();
    straight(&mut f);
    assert!(set(&mut f, VA + 4));
    let words = f.guest[&PA];
    let block = f.translator.translate_one(GuestVa(VA + 4), GuestPa(PA + 4), &words, &mut f.code);
    assert_eq!(f.translator.length(block), 1);
    assert_eq!(f.exits(block).iter().map(|exit| exit.2).collect::<Vec<_>>(), [VA + 8]);
    assert_eq!(f.lookup(VA + 4, PA + 4), None);
}

#[test]
fn where_a_block_was_cut_can_be_told_when_the_breakpoint_is_gone() {
    let mut f = Fixture::roomy();
    // LDR r0, [r1]; MCR DACR, r2; MOV r3, #0, by which the write to DACR has a register free; LDR r0, [r1].
    f.put(PA, &[0xe591_0000, 0xee03_2f10, 0xe3a0_3000, 0xe591_0000, BX_LR]);
    let all = f.translate(VA, PA, true);
    assert_eq!(f.translator.length(all), 5);
    for at in [4, 8, 12] {
        assert!(set(&mut f, VA + at));
        let block = f.translate(VA, PA, true);
        assert_eq!(f.translator.length(block), at as usize / 4, "not even joined instructions go beyond");
        let words = f.guest[&PA];
        let of = |f: &Fixture, pc| f.translator.locate(block, CachePc(pc), &words);
        let start = f.entry(block);
        let cut: Vec<_> = (0..40).map(|n| of(&f, start + 4 * n)).collect();
        assert!(clear(&mut f, VA + at));
        assert_eq!((0..40).map(|n| of(&f, start + 4 * n)).collect::<Vec<_>>(), cut);
        assert_eq!(cut[0].expect("a word of the block").guest, GuestVa(VA));
    }
}

#[test]
fn there_is_an_end_to_breakpoints() {
    let mut f = Fixture::new(Options::all(), 1, spica_dbt::Capacity { blocks: 10, exits: 100, mirror_pages: 0 });
    let at = |n: usize| VA + 4 * n as u32;
    assert!((0..MOST_BREAKPOINTS).all(|n| set(&mut f, at(n))));
    assert!(!set(&mut f, at(MOST_BREAKPOINTS)), "one too many");
    assert!(set(&mut f, at(3)), "that one is there");
    assert!(clear(&mut f, at(3)) && !clear(&mut f, at(3)));
    assert!(set(&mut f, at(MOST_BREAKPOINTS)));
    f.translator.clear_breakpoints();
    assert!((0..=MOST_BREAKPOINTS).all(|n| !f.translator.is_breakpoint(GuestVa(at(n)))));
}
