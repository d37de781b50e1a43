//! T32 code in the cache: blocks by address and state, an instruction across the end of a page, IT blocks.

use super::fixture::{Fixture, LAYOUT, NOP, PA, VA, b, branch_target};
use spica_addr::{CachePc, GuestPa, GuestVa};
use spica_dbt::layout::PAGE_WORDS;
use spica_dbt::trap::LineLoop;
use spica_dbt::{BlockId, Capacity, NextPage, Options, Start, is_across, trap};
use spica_isa::Cond;
use spica_isa::t32::ItState;

const NOPS: u32 = 0xbf00_bf00;
const BX_LR: u32 = 0x4770;

/// Puts half-words at `pa`.
fn put(f: &mut Fixture, pa: u32, halves: &[u32]) {
    let page = f.guest.entry(pa & !0xfff).or_insert([NOPS; PAGE_WORDS]);
    for (n, half) in halves.iter().enumerate() {
        let at = (pa & 0xfff) as usize + 2 * n;
        let shift = 8 * (at & 2);
        page[at / 4] = page[at / 4] & !(0xffff << shift) | half << shift;
    }
}

fn translate(f: &mut Fixture, va: u32, pa: u32, start: Start) -> BlockId {
    let words = &f.guest[&(pa & !0xfff)];
    f.translator.translate_from(GuestVa(va), GuestPa(pa), true, words, start, &mut f.code)
}

/// The words of a block.
fn words(f: &Fixture, block: BlockId) -> Vec<u32> {
    let first = f.entry(block);
    (first..(first & !0xfff) + 0x1000)
        .step_by(4)
        .take_while(|&pc| f.translator.block_at(CachePc(pc)) == Some(block))
        .map(|pc| f.word(pc))
        .collect()
}

#[test]
fn code_at_one_address_in_both_states_is_not_mixed_up() {
    let mut f = Fixture::roomy();
    put(&mut f, PA, &[0x2001, BX_LR, 0x2002, BX_LR]);
    let thumb = translate(&mut f, VA | 1, PA, Start::default());
    let second = translate(&mut f, (VA + 4) | 1, PA + 4, Start::default());
    assert_eq!(f.lookup(VA, PA), None);
    f.put(PA, &[NOP, super::fixture::BX_LR]);
    let arm = f.translate(VA, PA, true);
    assert_eq!((f.lookup(VA | 1, PA), f.lookup(VA, PA)), (Some(thumb), Some(arm)));
    assert_eq!(f.lookup((VA + 4) | 1, PA + 4), Some(second));
    // MOVS R0, #1 and its like in A32
    assert_eq!((words(&f, thumb)[0], words(&f, arm)[0]), (0xe3b0_0001, NOP));
    f.translator.remember(thumb);
    f.translator.remember(arm);
    // Both states of one address share a place.
    assert_eq!(f.translator.jump_cache.get(VA | 1), None);
    assert_eq!(f.translator.jump_cache.get(VA), Some(f.entry(arm)));
    f.drop_page(PA);
    assert_eq!((f.lookup(VA | 1, PA), f.lookup(VA, PA)), (None, None));
}

#[test]
fn a_call_is_linked_across_states() {
    let mut f = Fixture::roomy();
    // BLX to A32, 16 bytes on
    put(&mut f, PA, &[0xf000, 0xe806]);
    f.put(PA + 0x10, &[b(14, VA + 0x10, VA + 0x10)]);
    let caller = translate(&mut f, VA | 1, PA, Start::default());
    let [(exit, svc, target)] = f.exits(caller)[..] else { panic!("one exit") };
    assert_eq!(target, VA + 0x10, "without bit 0");
    let callee = f.translate(VA + 0x10, PA + 0x10, true);
    assert!(f.link(exit, callee));
    assert_eq!(branch_target(svc.0, f.word(svc.0)), Some(f.entry(callee)));
    // LR = behind it, with bit 0
    assert_eq!(words(&f, caller)[..2], [0xe300_e005, 0xe348_e000]);
}

/// ADD R0, R0, #1 at the end of a page, or what its second half makes of it, behind a branch to it. Where it is.
fn across(f: &mut Fixture) -> (GuestVa, GuestPa) {
    put(f, PA + 0xff8, &[0xe001, 0xbf00, 0xbf00, 0xf100]);
    (GuestVa((VA + 0xffe) | 1), GuestPa(PA + 0xffe))
}

/// How it begins, with `half` behind, in the page at PA + `page`.
fn start_across(half: u16, page: u32) -> Start {
    Start { it: ItState::OUTSIDE, next_page: Some(NextPage { half, pa: GuestPa(PA + page) }) }
}

fn found_across(f: &Fixture, half: u16, page: u32) -> Option<BlockId> {
    f.translator.lookup_from(GuestVa((VA + 0xffe) | 1), GuestPa(PA + 0xffe), start_across(half, page))
}

#[test]
fn an_instruction_across_pages_is_found_by_both_halves() {
    let mut f = Fixture::roomy();
    let (va, pa) = across(&mut f);
    assert!(is_across(va, &f.guest[&PA]));
    assert!(!is_across(GuestVa(va.0 - 2), &f.guest[&PA]) && !is_across(GuestVa(va.0 - 1), &f.guest[&PA]));
    let one = translate(&mut f, va.0, pa.0, start_across(0x0001, 0x1000));
    let two = translate(&mut f, va.0, pa.0, start_across(0x0002, 0x1000));
    let elsewhere = translate(&mut f, va.0, pa.0, start_across(0x0001, 0x5000));
    let found = [(1, 0x1000), (2, 0x1000), (3, 0x1000), (1, 0x5000), (2, 0x5000)];
    let found = found.map(|(half, page)| found_across(&f, half, page));
    assert_eq!(found, [Some(one), Some(two), None, Some(elsewhere), None]);
    assert_eq!(f.lookup(va.0, pa.0), None, "not without looking");
    assert_eq!((words(&f, one)[0], words(&f, two)[0]), (0xe280_0001, 0xe280_0002));
    // What stands for it behind is no block, and has no word.
    assert_eq!(f.lookup((VA + 0x1000) | 1, PA + 0x1000), None);
    // A block that goes on to it ends in front of it.
    let middle = translate(&mut f, (VA + 0xffa) | 1, PA + 0xffa, Start::default());
    assert_eq!((f.translator.length(middle), f.exits(middle)[0].2), (2, va.0));
    for block in [one, two, elsewhere, middle] {
        let pc = f.entry(block);
        assert_eq!(f.translator.block_at(CachePc(pc)), Some(block));
        let [(_, svc, _)] = f.exits(block)[..] else { panic!("one exit") };
        assert_eq!(f.translator.block_at(svc), Some(block));
    }
    let location = f.translator.locate(two, CachePc(f.entry(two)), &f.guest[&PA]).expect("a word of the block");
    assert_eq!(location.guest, va);
    // A change of its first half drops all of them, and nothing else.
    translate(&mut f, (VA + 0xff8) | 1, PA + 0xff8, Start::default());
    assert!(f.patch(PA + 0xffc, 0xf101_bf00));
    assert_eq!((found_across(&f, 1, 0x1000), found_across(&f, 2, 0x1000)), (None, None));
}

#[test]
fn an_instruction_across_pages_is_linked_to_if_both_are_global() {
    let mut f = Fixture::roomy();
    let (va, pa) = across(&mut f);
    let one = translate(&mut f, va.0, pa.0, start_across(0x0001, 0x1000));
    let before = translate(&mut f, (VA + 0xff8) | 1, PA + 0xff8, Start::default());
    let [(exit, svc, target)] = f.exits(before)[..] else { panic!("one exit") };
    assert_eq!(target, va.0);
    // The page behind is not: that it is in the same page does not help.
    f.translator.set_global(one, false);
    f.translator.remember(one);
    assert_eq!((f.link(exit, one), f.translator.jump_cache.get(va.0)), (false, None));
    f.translator.set_global(one, true);
    f.translator.remember(one);
    assert_eq!((f.link(exit, one), f.translator.jump_cache.get(va.0)), (true, Some(f.entry(one))));
    assert_eq!(branch_target(svc.0, f.word(svc.0)), Some(f.entry(one)));
    let is_led_to = |f: &Fixture| {
        let linked = branch_target(svc.0, f.word(svc.0)) == Some(f.entry(one));
        assert_eq!(f.translator.jump_cache.get(va.0).is_some(), linked);
        linked
    };
    // When the page behind is mapped otherwise, nothing leads there, until it is looked up.
    f.translator.unmap_page(GuestVa(VA + 0x1000), &mut f.code);
    assert!(!is_led_to(&f));
    assert_eq!(found_across(&f, 1, 0x1000), Some(one));
    assert!(f.link(exit, one));
    f.translator.remember(one);
    assert!(is_led_to(&f));
    // When the second half changes, it goes; not when another word there does.
    put(&mut f, PA + 0x1000, &[0x0001, 0xbf00, 0xbf00, 0xbf00]);
    let other = translate(&mut f, (VA + 0x1004) | 1, PA + 0x1004, Start::default());
    assert!(f.patch(PA + 0x1004, 0xbf00_4770));
    assert!(is_led_to(&f) && f.lookup((VA + 0x1004) | 1, PA + 0x1004).is_none());
    let again = translate(&mut f, (VA + 0x1004) | 1, PA + 0x1004, Start::default());
    assert_ne!(again, other);
    assert!(f.patch(PA + 0x1000, 0xbf00_0002));
    assert!(!is_led_to(&f));
    assert_eq!((found_across(&f, 1, 0x1000), found_across(&f, 2, 0x1000)), (None, None));
    assert_eq!(f.lookup((VA + 0x1004) | 1, PA + 0x1004), Some(again));
    // The same of the whole page, and of one that was dropped already.
    let one = translate(&mut f, va.0, pa.0, start_across(0x0002, 0x1000));
    let [two, three] = [3, 4].map(|half| translate(&mut f, va.0, pa.0, start_across(half, 0x1000)));
    let dropped = |f: &Fixture| f.translator.stats().dropped;
    let before = dropped(&f);
    f.drop_page(PA + 0x1000);
    assert_eq!(dropped(&f) - before, 4, "and the other one there");
    f.drop_page(PA);
    assert_eq!(dropped(&f) - before, 5, "and what led to them");
    assert!([one, two, three].iter().all(|&block| !f.translator.is_live(block)));
}

#[test]
fn an_instruction_across_pages_has_room_for_two_records() {
    let mut f = Fixture::roomy();
    let (va, pa) = across(&mut f);
    let mut flushes = 0;
    for half in 0..20_000u32 {
        translate(&mut f, va.0, pa.0, start_across(half as u16 & 0xff | 0x8000, 0x1000 * (half % 3 + 1)));
        flushes = f.translator.stats().flushes;
    }
    assert!(flushes > 1, "{flushes}");
}

#[test]
fn it_blocks_are_conditions_and_known_at_each_word() {
    let mut f = Fixture::roomy();
    // ITET EQ: LDR R0, [R1]; STR R0, [R1]; LDR R2, [R1]
    put(&mut f, PA, &[0xbf0a, 0x6808, 0x6008, 0x680a, BX_LR]);
    let block = translate(&mut f, VA | 1, PA, Start::default());
    let words = words(&f, block);
    assert_eq!(words[..3], [0x0591_0000, 0x1581_0000, 0x0591_2000]);
    let at = |f: &Fixture, n: u32| {
        let pc = CachePc(f.entry(block) + 4 * n);
        f.translator.locate(block, pc, &f.guest[&PA]).expect("a word of the block")
    };
    let whole = ItState::new(0x0a);
    for (n, it) in [whole, whole.advance(), whole.advance().advance()].into_iter().enumerate() {
        let location = at(&f, n as u32);
        assert_eq!((location.guest.0, location.it), ((VA + 2 + 2 * n as u32) | 1, it));
    }
    assert_eq!(at(&f, 3).it, ItState::OUTSIDE);
}

#[test]
fn a_block_that_ends_in_an_it_block_says_where_in_it() {
    let mut f = Fixture::roomy();
    // ITT NE at the end of the page: MOV R0, #1, and one in the page behind
    put(&mut f, PA + 0xffc, &[0xbf1c, 0x2001]);
    put(&mut f, PA + 0x1000, &[0x2002, 0x2003, BX_LR]);
    let block = translate(&mut f, (VA + 0xffc) | 1, PA + 0xffc, Start::default());
    let it = ItState::new(0x1c).advance();
    assert_eq!(words(&f, block), [0x13a0_0001, 0xef00_0000 | trap::in_it(it), (VA + 0x1000) | 1]);
    assert_eq!((trap::number(trap::in_it(it)), trap::it_state(trap::in_it(it))), (trap::IN_IT, it));
    assert!(f.exits(block).is_empty(), "it is never linked");
    // From there on it is another block, in the middle of the IT block, which only who comes from there finds.
    let (va, pa, start) = (GuestVa((VA + 0x1000) | 1), GuestPa(PA + 0x1000), Start { it, next_page: None });
    let rest = translate(&mut f, va.0, pa.0, start);
    assert_eq!(words(&f, rest)[..2], [0x13a0_0002, 0xe3b0_0003]);
    assert_eq!((f.lookup(va.0, pa.0), f.translator.lookup_from(va, pa, Start::default())), (None, None));
    assert_eq!(f.translator.lookup_from(va, pa, start), Some(rest));
    assert_eq!(f.translator.lookup_from(va, GuestPa(pa.0 + 0x1000), start), None);
    let other = Start { it: ItState::new(0x0c), next_page: None };
    assert_eq!(f.translator.lookup_from(va, pa, other), None);
    f.translator.remember(rest);
    assert_eq!(f.translator.jump_cache.get(va.0), None);
    let pc = CachePc(f.entry(rest));
    let location = f.translator.locate(rest, pc, &f.guest[&(PA + 0x1000)]).expect("a word of the block");
    assert_eq!((location.guest.0, location.it), ((VA + 0x1000) | 1, it));
    // It goes with its page, and with all others.
    f.translator.drop_page(pa.page(), &mut f.code);
    assert_eq!(f.translator.lookup_from(va, pa, start), None);
    let rest = translate(&mut f, va.0, pa.0, start);
    assert_eq!(f.translator.lookup_from(va, pa, start), Some(rest));
    f.translator.flush(&mut f.code);
    assert_eq!(f.translator.lookup_from(va, pa, start), None);
    // An IT block is not cut by the size limit: the last instruction of the second one is the sixth.
    let options = Options { max_block: 4, ..Options::all() };
    let mut f = Fixture::new(options, LAYOUT.pages, Capacity { blocks: 10, exits: 100, mirror_pages: 0 });
    put(&mut f, PA, &[0xbf1c, 0x2001, 0x2001, 0xbf1c, 0x2001, 0x2001, 0x2001]);
    let block = translate(&mut f, VA | 1, PA, Start::default());
    assert_eq!(f.translator.length(block), 6);
}

#[test]
fn breakpoints_end_blocks_of_t32_code() {
    let mut f = Fixture::roomy();
    put(&mut f, PA, &[0x2001, 0xf04f, 0x0002, 0x2003, 0x2004, BX_LR]);
    let whole = translate(&mut f, VA | 1, PA, Start::default());
    assert!(f.translator.set_breakpoint(GuestVa(VA + 6), &mut f.code));
    assert!(!f.translator.is_live(whole));
    assert!(f.translator.is_breakpoint(GuestVa((VA + 6) | 1)) && !f.translator.is_breakpoint(GuestVa((VA + 4) | 1)));
    let before = translate(&mut f, VA | 1, PA, Start::default());
    assert_eq!((f.translator.length(before), f.exits(before)[0].2), (2, (VA + 6) | 1));
    assert!(f.translator.clear_breakpoint(GuestVa(VA + 6)));
}

#[test]
fn conditions_of_it_blocks_hold_for_what_a32_has_no_condition_for() {
    let mut f = Fixture::roomy();
    // IT NE: DMB; BX LR
    put(&mut f, PA, &[0xbf18, 0xf3bf, 0x8f5f, BX_LR]);
    let block = translate(&mut f, VA | 1, PA, Start::default());
    let skip = b(Cond::Eq as u32, 0, 8);
    assert_eq!(words(&f, block)[..2], [skip, 0xf57f_f05f]);
}

#[test]
fn breakpoints_cut_blocks_in_the_middle_of_it_blocks_too() {
    let mut f = Fixture::roomy();
    // MOVS R0, #1; ITE EQ; ADDEQ.W R0, R0, #5; MOVNE R0, #0; BX LR
    put(&mut f, PA, &[0x2001, 0xbf0c, 0xf100, 0x0005, 0x2000, BX_LR]);
    let whole = translate(&mut f, VA | 1, PA, Start::default());
    assert_eq!(f.translator.length(whole), 5);
    let other = translate(&mut f, (VA + 10) | 1, PA + 10, Start::default());
    let behind = GuestVa((VA + 8) | 1);
    assert!(f.translator.set_breakpoint(behind, &mut f.code));
    assert!(!f.translator.is_live(whole) && f.translator.is_live(other));
    assert!(f.translator.is_breakpoint(behind) && f.translator.is_breakpoint(GuestVa(VA + 8)));
    let short = translate(&mut f, VA | 1, PA, Start::default());
    assert_eq!(f.translator.length(short), 3);
    // What is left has its state, and does not go beyond the next one.
    assert!(f.translator.set_breakpoint(GuestVa((VA + 10) | 1), &mut f.code));
    let it = ItState::new(0x0c).advance();
    let rest = translate(&mut f, behind.0, PA + 8, Start { it, next_page: None });
    assert_eq!(f.translator.length(rest), 1);
    assert!(f.translator.clear_breakpoint(behind) && !f.translator.is_breakpoint(behind));
    let again = translate(&mut f, VA | 1, PA, Start::default());
    assert_eq!(f.translator.length(again), 4);
}

#[test]
fn loops_over_pages_are_told_by_their_trap() {
    // 1: MCR p15, 0, r2, c8, c7, 1; ADD.W r2, r2, #0x1000; CMP r2, r5; BCC 1b
    const LOOP: [u32; 6] = [0xee08, 0x2f37, 0xf502, 0x5280, 0x42aa, 0xd3f9];
    let trap_of = |halves: &[u32], at: u32| {
        let mut f = Fixture::roomy();
        put(&mut f, PA + at, halves);
        let block = translate(&mut f, VA + at + 1, PA + at, Start::default());
        // Whatever its condition.
        words(&f, block).into_iter().find(|word| word >> 24 & 0xf == 0xf).expect("a trap") & 0xff_ffff
    };
    for at in [0, 2, 0x1000 - 12] {
        assert_eq!(trap_of(&LOOP, at), trap::tlb_range(2, 5), "at {at:#x}");
    }
    for (at, half) in [(1, 0x3f37), (2, 0xf503), (3, 0x5380), (3, 0x1280), (4, 0x4292), (4, 0x42ab), (5, 0xd3f8)] {
        let mut other = LOOP;
        other[at] = half;
        assert_eq!(trap_of(&other, 0), trap::TLB_PAGE, "{half:#x}");
    }
    assert_eq!(trap_of(&LOOP[..5], 0x1000 - 10), trap::TLB_PAGE, "it goes on in another page");
    // The same within an IT block is another loop.
    let conditional: Vec<u32> = [0xbf08].into_iter().chain(LOOP).collect();
    assert_eq!(trap_of(&conditional, 0), trap::TLB_PAGE);
}

#[test]
fn loops_over_lines_are_told_by_their_trap() {
    let trap_of = |halves: &[u32], at: u32| {
        let mut f = Fixture::roomy();
        put(&mut f, PA + at, halves);
        let block = translate(&mut f, VA + at + 1, PA + at, Start::default());
        // Whatever its condition.
        words(&f, block).into_iter().find(|word| word >> 24 & 0xf == 0xf).expect("a trap") & 0xff_ffff
    };
    // 1: MCR p15, 0, r12, c7, c5, 1; ADD r12, r2; CMP r12, r1; BCC 1b
    const LOOP: [u32; 5] = [0xee07, 0xcf35, 0x4494, 0x458c, 0xd3fa];
    let around = LineLoop { at: 12, end: 1, step: 2 };
    for at in [0, 2, 0x1000 - 10] {
        assert_eq!(trap_of(&LOOP, at), around.svc(trap::FORGET_LINES), "at {at:#x}");
    }
    // MCR p15, 0, r0, c7, c14, 1; ADD r0, r2; CMP r0, r1
    let flush = [0xee07, 0x0f3e, 0x4410, 0x4288, 0xd3fa];
    assert_eq!(trap_of(&flush, 0), LineLoop { at: 0, ..around }.svc(trap::CLEAN_LINES));
    for (at, half) in [(1, 0xbf35), (2, 0x4414), (2, 0x44c4), (3, 0x450c), (3, 0x458e), (3, 0x45cc), (4, 0xd3f9)] {
        let mut other = LOOP;
        other[at] = half;
        assert_eq!(trap_of(&other, 0), trap::FORGET_LINE, "{half:#x}");
    }
    assert_eq!(trap_of(&LOOP[..4], 0x1000 - 8), trap::FORGET_LINE, "it goes on in another page");
}

#[test]
fn all_of_system_mode_is_one_translation() {
    // MRS R3, CPSR; EOR R3, R3, #12; MSR CPSR_c, R3; STR SP, [R2]; STR LR, [R2, #4]; EOR and MSR again; BX LR
    const CODE: [u32; 15] = [
        0xf3ef, 0x8300, 0xf083, 0x030c, 0xf383, 0x8100, 0xf8c2, 0xd000, 0xf8c2, 0xe004, 0xf083, 0x030c, 0xf383, 0x8100,
        BX_LR,
    ];
    // The guest instructions that the block's words stand for, in order, and how many instructions it has.
    let made = |f: &mut Fixture| {
        let block = translate(f, VA | 1, PA, Start::default());
        let (count, first) = (f.translator.length(block), f.entry(block));
        let page = f.guest[&PA];
        let places = (first..first + 4 * words(f, block).len() as u32).step_by(4);
        let located = places.map(|pc| f.translator.locate(block, CachePc(pc), &page).expect("a word of it").guest.0);
        let mut guests: Vec<u32> = located.map(|guest| guest - VA - 1).collect();
        guests.dedup();
        (guests, count)
    };
    let with = |halves: &[u32]| {
        let mut f = Fixture::roomy();
        put(&mut f, PA, halves);
        made(&mut f)
    };
    assert_eq!(with(&CODE), (vec![0, 4, 8, 24 + 4], 8), "the first MSR stands for the four behind it");
    let each = (vec![0, 4, 8, 12, 16, 20, 24, 28], 8);
    // Another base register that changes, a load beside a store, another register, another constant.
    for (at, half) in [(6, 0xf8c3), (8, 0xf8d2), (10, 0xf082), (11, 0x030d), (12, 0xf382), (7, 0xc000)] {
        let mut other = CODE;
        other[at] = half;
        assert_eq!(with(&other), each, "{half:#x} at {at}");
    }
    // One of them must not belong to the block.
    let mut f = Fixture::roomy();
    put(&mut f, PA, &CODE);
    assert!(f.translator.set_breakpoint(GuestVa(VA + 20), &mut f.code));
    assert_eq!(made(&mut f), (vec![0, 4, 8, 12, 16, 20], 5), "the exit in front of the breakpoint is the last");
    let capacity = Capacity { blocks: 10, exits: 100, mirror_pages: 0 };
    let mut f = Fixture::new(Options { max_block: 6, ..Options::all() }, LAYOUT.pages, capacity);
    put(&mut f, PA, &CODE);
    assert_eq!(made(&mut f).1, 6);
    // What the translation rests on is looked at when it is written.
    let mut f = Fixture::roomy();
    put(&mut f, PA, &CODE);
    let [block, other] = [0, 0x100].map(|at| translate(&mut f, (VA + at) | 1, PA + at, Start::default()));
    assert!(f.translator.change_words(GuestPa(PA), Some(6..=6), &mut f.code));
    assert_eq!([block, other].map(|block| f.translator.is_live(block)), [false, true]);
}
