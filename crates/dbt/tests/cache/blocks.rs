//! What is in one block: the guest instruction of each word, literals, and where it ends.

use super::fixture::{BX_LR, Fixture, LAYOUT, NOP, PA, VA, b, literal_of};
use spica_addr::{CachePc, GuestVa};
use spica_dbt::layout::{HOT_FIELDS, PAGE, PAGE_WORDS};
use spica_dbt::trap::{self, LineLoop};
use spica_dbt::{Capacity, Options};

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
    assert_eq!(f.exits(block)[0].2, VA + 0x3000);
}

/// Each word of a block stands for a guest instruction for as long as the block lives, whatever is translated later.
#[test]
fn blocks_from_before_vfp_was_allowed_are_found_again() {
    let mut f = Fixture::roomy();
    // VMRS r1, FPEXC; LDR r2, [r3]
    f.put(PA, &[0xeef8_1a10, 0xe593_2000]);
    let block = f.translate(VA, PA, true);
    f.translator.set_vfp(true, &mut f.code);
    assert_eq!(f.lookup(VA, PA), Some(block), "what it does is right with VFP as well");
    let words = f.guest[&PA];
    let base = f.entry(block);
    let load = (base..base + 40).step_by(4).find(|&pc| f.word(pc) == 0xe593_2000).expect("a copy");
    let location = f.translator.locate(block, CachePc(load), &words).expect("a word of the block");
    assert_eq!(location.guest, GuestVa(VA + 4));
}

#[test]
fn rounds_over_pages_are_those_of_the_loop() {
    let slowly = |first: u32, end: u32| {
        let mut page = first;
        loop {
            // ADD, CMP, BCC; the megabyte is not left.
            let next = page.wrapping_add(0x1000);
            if next >= end || next >> 20 != first >> 20 {
                return ((page - first) >> 12) + 1;
            }
            page = next;
        }
    };
    for first in [0, 0x7, 0x1000, 0xc00f_f001, 0xc00f_e001, 0xc010_0001, 0xfff0_0001, 0xffff_f001, u32::MAX] {
        for pages in [0, 1, 2, 3, 255, 256, 257, 1000, 0xf_ffff] {
            for bytes in [0_u32, 1, 0xfff, 0x8000_0000, 0xffff_ffff] {
                let end = first.wrapping_add(pages << 12).wrapping_add(bytes);
                assert_eq!(trap::tlb_range_rounds(first, end), slowly(first, end), "{first:#x} to {end:#x}");
            }
        }
    }
    assert_eq!(trap::tlb_range_registers(0xef00_0000 | trap::tlb_range(2, 5)), (2, 5));
}

#[test]
fn loops_over_lines_are_told_by_their_trap() {
    // 1: MCR p15, 0, r12, c7, c11, 1; ADD r12, r12, r2; CMP r12, r1; BCC 1b
    const LOOP: [u32; 4] = [0xee07_cf3b, 0xe08c_c002, 0xe15c_0001, 0x3aff_fffb];
    let trap_of = |words: &[u32], at: u32| {
        let mut f = Fixture::roomy();
        f.put(PA + at, words);
        let block = f.translate(VA + at, PA + at, true);
        let base = f.entry(block);
        // Whatever its condition.
        let words = (base..base + 24).step_by(4).map(|pc| f.word(pc) & 0x0fff_ffff);
        words.into_iter().find(|word| word >> 24 == 0xf).expect("a trap") & 0xff_ffff
    };
    let around = LineLoop { at: 12, end: 1, step: 2 };
    assert_eq!(trap_of(&LOOP, 0), around.svc(trap::CLEAN_LINES));
    assert_eq!(trap::number(around.svc(trap::CLEAN_LINES)), trap::CLEAN_LINE);
    assert_eq!(trap::number(around.svc(trap::FORGET_LINES)), trap::FORGET_LINE);
    let by_page = LineLoop { at: 0, ..around };
    for (number, line) in [(trap::CLEAN_LINES, trap::CLEAN_LINE), (trap::FORGET_LINES, trap::FORGET_LINE)] {
        for around in [around, by_page] {
            assert_eq!(trap::number(around.svc(number)), line);
            assert_eq!(trap::is_line_at_r12(around.svc(number)), around.at == 12);
        }
    }
    // DCCIMVAC of R0; ICIMVAU.
    let flush = [0xee07_0f3e, 0xe080_0002, 0xe150_0001, 0x3aff_fffb];
    assert_eq!(trap_of(&flush, 0), LineLoop { at: 0, ..around }.svc(trap::CLEAN_LINES));
    let instructions = [0xee07_cf35, 0xe08c_c002, 0xe15c_0001, 0x3aff_fffb];
    assert_eq!(trap_of(&instructions, 0), around.svc(trap::FORGET_LINES));
    // Another instruction in between, another register or condition, flags, a shift, back to elsewhere; registers that
    // no handler knows; and words that may not be there when it is executed.
    for (at, word) in [
        (0, 0x0e07_cf3b),
        (0, 0xee07_0f3b),
        (1, 0xe09c_c002),
        (1, 0xe08c_c102),
        (1, 0xe08c_c008),
        (1, 0xe08c_c00c),
        (1, 0xe04c_c002),
        (2, 0xe15c_0008),
        (2, 0xe15c_000c),
        (2, 0xe35c_0001),
        (3, 0x3aff_fffc),
        (3, 0x9aff_fffb),
    ] {
        let mut other = LOOP;
        other[at] = word;
        assert_eq!(trap_of(&other, 0), trap::CLEAN_LINE, "{word:#x}");
    }
    let high = [0xee07_8f3b, 0xe088_8002, 0xe158_0001, 0x3aff_fffb];
    assert_eq!(trap_of(&high, 0), trap::CLEAN_LINE);
    assert_eq!(trap_of(&LOOP[..3], 0x1000 - 12), trap::CLEAN_LINE);
}

#[test]
fn bytes_behind_each_other_are_checked_once() {
    // LDRBT Rt, [R7], #1.
    let byte = |rt: u32| 0xe4f7_0001 | rt << 12;
    let traps = |words: &[u32], at: u32, number: u32| {
        let mut f = Fixture::roomy();
        f.put(PA + at, words);
        let block = f.translate(VA + at, PA + at, true);
        // Its ways out are at the end of the page.
        let base = f.entry(block);
        (base..(base | 0xfff)).step_by(4).filter(|&pc| f.word(pc) == 0xef00_0000 | number).count()
    };
    let checks = |words: &[u32], at: u32| traps(words, at, trap::UNPRIVILEGED_LOAD);
    let emulates = |words: &[u32]| traps(words, 0, trap::EMULATE) != 0;
    assert_eq!(checks(&[1, 2, 3, 4].map(byte), 0), 1);
    // Four at most.
    assert_eq!(checks(&[1, 2, 3, 4, 5].map(byte), 0), 2);
    // To R7, which is the base, is emulated; to the PC, too. That ends the block.
    for rt in [7, 15] {
        assert_eq!(checks(&[byte(1), byte(2), byte(rt), byte(3)], 0), 1, "r{rt}");
        assert_eq!(checks(&[byte(rt), byte(1)], 0), 0, "r{rt}");
        assert!(emulates(&[byte(1), byte(rt)]), "r{rt}");
    }
    // Under a condition, of a word, without a step or with another one, downwards, of another base, a store; and what
    // may not be there when it is executed.
    for other in [0x04f7_2001, 0xe4f7_2000, 0xe4f7_2004, 0xe477_2001, 0xe4f8_2001] {
        assert_eq!(checks(&[byte(1), other], 0), 2, "{other:x}");
        assert_eq!(checks(&[other, byte(1)], 0), 2, "{other:x}");
    }
    assert_eq!(checks(&[byte(1), 0xe4e7_2001, byte(3)], 0), 2);
    assert_eq!(checks(&[1, 2].map(byte), 0x1000 - 8), 2);
}

#[test]
fn loops_over_pages_are_told_by_their_trap() {
    // 1: MCR p15, 0, r2, c8, c7, 1; ADD r2, r2, #0x1000; CMP r2, r5; BCC 1b
    const LOOP: [u32; 4] = [0xee08_2f37, 0xe282_2a01, 0xe152_0005, 0x3aff_fffb];
    let svc = |number: u32| 0xef00_0000 | number;
    let trap_of = |words: &[u32], at: u32| {
        let mut f = Fixture::roomy();
        f.put(PA + at, words);
        let block = f.translate(VA + at, PA + at, true);
        let base = f.entry(block);
        // Whatever its condition.
        let words = (base..base + 24).step_by(4).map(|pc| f.word(pc) | 0xe000_0000);
        words.into_iter().find(|word| word >> 24 == 0xef).expect("a trap")
    };
    assert_eq!(trap_of(&LOOP, 0), svc(trap::tlb_range(2, 5)));
    assert_eq!(trap::number(svc(trap::tlb_range(2, 5))), trap::TLB_RANGE);
    // Another instruction in between, another register or condition, another step, back to elsewhere; and words that
    // are not in this page, or may not be there when it is executed.
    for (at, word) in [(0, 0x0e08_2f37), (0, 0xee08_3f37), (1, 0xe282_2a02), (1, 0xe283_2a01), (2, 0xe152_0002)] {
        let mut other = LOOP;
        other[at] = word;
        assert_eq!(trap_of(&other, 0), svc(trap::TLB_PAGE), "{word:#x}");
    }
    for (at, word) in [(2, 0xe152_0008), (2, 0xe152_0105), (3, 0x3aff_fffc), (3, 0x1aff_fffb), (3, 0xeaff_fffb)] {
        let mut other = LOOP;
        other[at] = word;
        assert_eq!(trap_of(&other, 0), svc(trap::TLB_PAGE), "{word:#x}");
    }
    assert_eq!(trap_of(&LOOP[..3], 0x1000 - 12), svc(trap::TLB_PAGE));
    let high: [u32; 4] = [0xee08_8f37, 0xe288_8a01, 0xe158_0005, 0x3aff_fffb];
    assert_eq!(trap_of(&high, 0), svc(trap::TLB_PAGE), "R8 is not at hand");
}

#[test]
fn locations_are_those_of_the_blocks_that_are_there() {
    let mut f = Fixture::roomy();
    // MOV r0, r0 and LDR r2, [r3], in this order and in the other.
    let (load, other) = (0xe593_2000, NOP);
    let mut located = |first: u32, second: u32| {
        f.put(PA, &[first, second, BX_LR]);
        let block = f.translate(VA, PA, true);
        let (base, words) = (f.entry(block), f.guest[&PA]);
        let at = (base..base + 40).step_by(4).find(|&pc| f.word(pc) == load).expect("a copy");
        let locate = || f.translator.locate(block, CachePc(at), &words).expect("a word of the block").guest;
        let guest = locate();
        assert_eq!(locate(), guest, "the second time");
        let next = f.translator.locate(block, CachePc(at + 4), &words).map(|location| location.guest);
        f.translator.flush(&mut f.code);
        (block, at, guest, next)
    };
    let before = located(other, load);
    assert_eq!(before.2, GuestVa(VA + 4));
    // The number of the block is the same, and the load is where the other word was.
    let behind = located(load, other);
    assert_eq!((behind.0, behind.1 + 4, behind.2), (before.0, before.1, GuestVa(VA)));
    assert_eq!(behind.3, Some(GuestVa(VA + 4)), "not the other block's");
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

/// What gets a spilled register back looks like the load of such a write, and what is behind it may be the code of
/// another block.
#[test]
fn a_stale_site_changes_no_other_load() {
    let mut f = Fixture::new(Options::naive(), 1, Capacity { blocks: 10, exits: 40, mirror_pages: 0 });
    f.translator.set_options(Options { indirect: true, ..Options::naive() }, &mut f.code);
    f.put(PA, &[0xe49d_f004, 0xe16f_6f10]); // LDR PC, [SP], #4; CLZ R6, R0
    let block = f.translate(VA, PA, true);
    let next = f.translate(VA + 4, PA + 4, true);
    let behind = f.entry(next);
    assert!(f.entry(block) < behind && f.word(behind) == 0xe16f_6f10);
    assert_eq!(f.word(behind - 8) >> 16, 0xe59f, "the load of the spilled register");
    let before = f.snapshot();
    f.translator.make_dacr_eager(CachePc(behind - 4), &mut f.code);
    assert_eq!(f.snapshot(), before);
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
