//! Code that counts which runs it executes: where the counters are, and that nothing of them is left.

use super::fixture::{BX_LR, Fixture, LAYOUT, NOP, PA, VA};
use spica_addr::GuestVa;
use spica_dbt::layout::PAGE_WORDS;
use spica_dbt::{Counted, Run};

fn run(start: u32, length: u32) -> Run {
    Run { start: GuestVa(start), length }
}

/// All that was counted.
fn counted(f: &mut Fixture) -> Vec<(u32, u32, u64)> {
    let counters = *f.translator.counters().expect("counters");
    let (mut at, mut found) = (0, Vec::new());
    loop {
        match counters.next(at, &mut f.code) {
            Ok(Some((Counted { run, count }, behind))) => {
                found.push((run.start.0, run.length, count));
                at = behind;
            }
            Ok(None) => break,
            Err(next) => at = next,
        }
    }
    found.sort_unstable();
    found
}

/// What the code of a counter counts at, if one begins at word `at` of `page`.
fn counter(page: &[u32; PAGE_WORDS], at: usize) -> Option<u32> {
    let address = |at: usize| {
        let half = |word: u32| word >> 4 & 0xf000 | word & 0xfff;
        let is = page[at] & 0xfff0_f000 == 0xe300_2000 && page[at + 1] & 0xfff0_f000 == 0xe340_2000;
        is.then(|| half(page[at]) | half(page[at + 1]) << 16)
    };
    let body = [(5, 0xe1c2_00d0), (6, 0xe3a0_2001), (7, 0xe0a1_0292), (10, 0xe1c2_00f0)];
    let is = at + 14 <= PAGE_WORDS && body.iter().all(|&(n, word)| page[at + n] == word);
    let found = is.then(|| address(at + 3))??;
    assert_eq!(address(at + 8), Some(found), "it counts elsewhere than it reads");
    Some(found)
}

/// Begins each run once, as its code would.
fn execute(f: &mut Fixture) -> usize {
    let mut count = 0;
    for page in 0..3 {
        for at in 64..PAGE_WORDS {
            if let Some(address) = counter(&f.code.fetched[page], at) {
                let (page, word) = (0..LAYOUT.pages)
                    .find_map(|n| {
                        let offset = address.wrapping_sub(LAYOUT.code_page(n).0);
                        (offset < 4096).then_some((n, offset as usize / 4))
                    })
                    .expect("in a code page");
                assert_eq!(page, 3, "a page for code");
                f.code.written[page as usize][word] += 1;
                count += 1;
            }
        }
    }
    count
}

/// TST; BEQ; NOP; POPNE with the PC; BLNE; NOP; BX LR.
const CODE: [u32; 7] = [0xe310_0001, 0x0a00_0003, NOP, 0x18bd_8010, 0x1b00_0010, NOP, BX_LR];

#[test]
fn a_run_ends_where_the_block_may_be_left() {
    let mut f = Fixture::roomy();
    f.put(PA, &CODE);
    f.translator.start_counting(false, &mut f.code);
    let block = f.translate(VA, PA, true);
    assert_eq!(f.translator.length(block), CODE.len());
    assert_eq!(execute(&mut f), 4);
    let runs = [(VA, 2), (VA + 8, 2), (VA + 16, 1), (VA + 20, 2)];
    assert_eq!(counted(&mut f), runs.map(|(start, length)| (start, length, 1)));
    let words = f.guest[&PA];
    for (start, length) in runs {
        for at in (start..start + 4 * length).step_by(4) {
            assert_eq!(f.translator.run_of(block, GuestVa(at), &words), Some(run(start, length)));
        }
    }
    assert_eq!(f.translator.run_of(block, GuestVa(VA + 28), &words), None);
    // Left behind its first instruction, before that, and at its end.
    f.translator.leave_run(run(VA + 8, 2), 1, &mut f.code);
    f.translator.leave_run(run(VA, 2), 0, &mut f.code);
    f.translator.leave_run(run(VA + 20, 2), 2, &mut f.code);
    assert_eq!(counted(&mut f), [(VA + 8, 1, 1), (VA + 16, 1, 1), (VA + 20, 2, 1)]);
}

/// With samples, a run's length is taken from the countdown, with the flags kept.
#[test]
fn a_countdown_has_the_length_of_each_run() {
    let mut f = Fixture::roomy();
    f.put(PA, &CODE);
    f.translator.start_counting(true, &mut f.code);
    f.translate(VA, PA, true);
    let page = f.code.fetched[0];
    let half = |word: u32| word >> 4 & 0xf000 | word & 0xfff;
    let mut lengths = Vec::new();
    for at in (0..PAGE_WORDS - 22).filter(|&at| counter(&page, at).is_some()) {
        let &[low, high, load, save, subtract, store, trap, restore, reload, ..] = &page[at + 11..] else { panic!() };
        assert_eq!((load, store), (0xe592_0000, 0xe582_0000));
        assert_eq!((save, restore), (0xe10f_1000, 0xe12c_f001), "MRS, MSR of the flags");
        assert_eq!(trap, 0x4f00_0000 | spica_dbt::trap::SAMPLE, "SVCMI");
        assert_eq!((subtract & !0xff, reload >> 20), (0xe250_0000, 0xe59));
        lengths.push(subtract & 0xff);
        let countdown = half(low) | half(high) << 16;
        let counters = *f.translator.counters().expect("counters");
        *counters.countdown(&mut f.code) = 17;
        let at = countdown.wrapping_sub(LAYOUT.code_page(3).0) as usize / 4;
        assert_eq!(f.code.written[3][at], 17);
    }
    assert_eq!(lengths, [2, 2, 1, 2]);
}

#[test]
fn words_of_counted_code_are_found_as_others_are() {
    for samples in [false, true] {
        words_are_found(samples);
    }
}

fn words_are_found(samples: bool) {
    let mut f = Fixture::roomy();
    f.put(PA, &CODE);
    f.translator.start_counting(samples, &mut f.code);
    f.code.published.clear();
    let block = f.translate(VA, PA, true);
    let words = f.guest[&PA];
    let (page, first, count) = f.code.published[0];
    let mut last = VA;
    for word in first..first + count {
        let pc = LAYOUT.code_page(page).wrapping_add(4 * word as u32);
        let guest = f.translator.locate(block, pc, &words).expect("a word of the block").guest.0;
        assert!(guest == last || guest == last + 4, "in order");
        last = guest;
    }
    assert_eq!(last, VA + 24);
}

#[test]
fn nothing_is_left_of_counting() {
    let (mut plain, mut f) = (Fixture::roomy(), Fixture::roomy());
    f.put(PA, &CODE);
    plain.put(PA, &CODE);
    f.translator.start_counting(false, &mut f.code);
    f.translate(VA, PA, true);
    f.translate(VA + 8, PA + 8, true);
    f.translator.stop_counting(&mut f.code);
    assert!(f.lookup(VA, PA).is_none() && !f.translator.counts());
    execute(&mut f);
    assert!(!counted(&mut f).is_empty(), "what was counted can be read");
    f.translator.forget_counters(&mut f.code);
    assert!(f.translator.counters().is_none());
    for f in [&mut plain, &mut f] {
        f.translate(VA, PA, true);
    }
    // Behind the last word of the one there is what was there before.
    let (page, first, count) = *plain.code.published.first().expect("code");
    assert_eq!(
        f.code.fetched[page as usize][first..first + count],
        plain.code.fetched[page as usize][first..first + count]
    );
}

#[test]
fn what_the_cache_has_left_is_no_counter() {
    let mut f = Fixture::roomy();
    f.put(PA, &CODE);
    f.code.fetched.iter_mut().for_each(|page| page.fill(1));
    f.translator.start_counting(false, &mut f.code);
    assert_eq!(counted(&mut f), []);
    let written = f.code.fetched.iter().filter(|page| page.iter().any(|&word| word != 1)).count();
    assert!(written <= 1, "{written} pages are cleared at once");
    f.translate(VA, PA, true);
    assert_eq!(counted(&mut f), []);
    assert_eq!(execute(&mut f), 4);
    assert_eq!(counted(&mut f).iter().map(|&(.., count)| count).collect::<Vec<_>>(), [1; 4]);
}

#[test]
fn a_run_has_one_counter_however_often_it_is_translated_and_none_if_there_is_no_room() {
    let mut f = Fixture::roomy();
    f.translator.start_counting(false, &mut f.code);
    for _ in 0..3 {
        f.translate(VA, PA, true);
        assert_eq!(execute(&mut f), 1);
        f.translator.flush(&mut f.code);
        f.code.fetched.iter_mut().for_each(|page| page.fill(0));
    }
    assert_eq!(counted(&mut f), [(VA, 1, 3)]);
    let entries = f.translator.counters().expect("counters").entries() as u32;
    for n in 0..2 * entries {
        let at = 4 * (n % 1000);
        f.translate(VA + 0x1000 * (n / 1000) + at, PA + at, true);
    }
    let counters = *f.translator.counters().expect("counters");
    assert!(counters.missed() >= entries, "{} of {entries}", counters.missed());
    f.code.fetched.iter_mut().for_each(|page| page.fill(0));
    f.translator.flush(&mut f.code);
    f.translate(VA + 0x4000, PA, true);
    execute(&mut f);
    assert_eq!(counters.uncounted(&mut f.code), 1);
}
