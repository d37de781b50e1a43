//! Which pages have twins, and where, as a kernel executes now this and now that.

use std::collections::HashMap;

use spica_addr::{CachePc, GuestPa, GuestVa};
use spica_dbt::trap;
use spica_dbt::twins::{GROUP, Made, Twins};
use spica_prove::random::Random;

use super::in_place::{CACHE, MRS_R0, Memory, PA, VA, WINDOW, page_with, text};

const REGION: u32 = 0x1_0000;

/// The page `n` of a kernel's text, and where the guest has it.
fn place(n: u32) -> (GuestVa, GuestPa) {
    (VA.wrapping_add(n << 12), PA.wrapping_add(n << 12))
}

fn make(twins: &mut Twins, memory: &mut Memory, n: u32) -> u16 {
    let (va, pa) = place(n);
    match twins.make(va, pa, text(&page_with(7, MRS_R0)), memory) {
        Made::Twin(number) => number,
        Made::Unfit => panic!("page {n} cannot run in place"),
    }
}

#[test]
fn what_is_executed_later_gets_the_groups_of_what_is_not_any_more() {
    let (mut twins, mut memory) = (Twins::new(WINDOW, CACHE, 128), Memory::new(128));
    let region = |n: u32| VA.wrapping_add(n * REGION);
    let executes = |twins: &mut Twins, n: u32, pages: u32| {
        (0..pages).for_each(|page| twins.executes(region(n).wrapping_add(page << 12)));
    };
    // Of eight groups, one is not for regions. Regions 7 and 8 come too late.
    for n in 0..9 {
        twins.begin_region(region(n));
        (0..2).for_each(|page| {
            make(&mut twins, &mut memory, 16 * n + page);
        });
        executes(&mut twins, n, 2);
    }
    assert_eq!((twins.regions(), twins.wants_groups()), ((0, 7), true));
    let late = twins.at(region(7)).expect("it was made");
    // All are executed as far as one knows, so nothing is to be had.
    assert!(!twins.gather(&mut memory));
    twins.look_anew();
    assert_eq!((twins.take_gone(), twins.is_anything_gone()), (None, false), "all are unmapped");
    // Nor for what is not executed, or a single page.
    assert!(!twins.gather(&mut memory));
    [0, 1, 2, 4, 5, 6].into_iter().for_each(|n| executes(&mut twins, n, 2));
    executes(&mut twins, 7, 1);
    assert!(!twins.gather(&mut memory));
    executes(&mut twins, 7, 2);
    // Not while some may lead to stubs that are gone: these are looked for from one twin to the next.
    assert!(twins.lead_to(late, 7, CachePc(CACHE.0 + 0x100), &mut memory));
    twins.forget_stubs();
    assert!(!twins.gather(&mut memory));
    assert!(twins.settle(&mut memory));
    assert!(twins.gather(&mut memory));
    assert_eq!((twins.at(region(3)), twins.usage().0), (None, 16), "its group is that of region 7 now");
    let moved = twins.at(region(7)).expect("it has moved");
    assert_eq!((usize::from(moved) % GROUP, moved != late), (0, true));
    assert_eq!(memory.words(moved), memory.words(late));
    let gone: Vec<_> = std::iter::from_fn(|| twins.is_anything_gone().then(|| twins.take_gone())).collect();
    assert!([region(3), region(7)].iter().all(|&va| gone.contains(&Some(va))), "{gone:?}");
    // Its neighbours are asked for, it is the fourth of those that have some, and then it is whole.
    let left = std::iter::from_fn(|| twins.take_left()).take(4 * 14);
    let left = left.filter(|va| va.0 & !(REGION - 1) == region(7).0).count();
    for n in 114..128 {
        make(&mut twins, &mut memory, n);
    }
    assert_eq!((left, twins.whole(region(7))), (14, Some(moved)));
    // Region 8 is not executed, and there is no other one.
    assert!(!twins.gather(&mut memory));
    // Neighbours are asked for of what is executed, and more than a page of it.
    twins.look_anew();
    assert_eq!(twins.take_left(), None);
    executes(&mut twins, 4, 1);
    assert_eq!(twins.take_left(), None);
    executes(&mut twins, 4, 2);
    assert_eq!(twins.take_left(), Some(region(4).wrapping_add(0x2000)));
    // That one makes room that has not been executed for longest.
    twins.look_anew();
    [0, 1, 2, 7, 4, 6].into_iter().for_each(|n| executes(&mut twins, n, 2));
    twins.look_anew();
    executes(&mut twins, 8, 2);
    assert!(twins.gather(&mut memory));
    assert!((0..9).all(|n| twins.at(region(n)).is_none() == [3, 5].contains(&n)));
}

/// Whatever comes and goes: what is mapped is the twin of its page, as long as it is not said to be gone.
#[test]
fn nothing_stays_mapped_that_is_not_the_twin_of_its_page() {
    const PAGES: u32 = 24 * GROUP as u32;
    let mut happened = (0, 0);
    for seed in 0..40 {
        let mut random = Random::new(seed);
        let (mut twins, mut memory) = (Twins::new(WINDOW, CACHE, 160), Memory::new(160));
        // Twins by the number of the page that are mapped.
        let mut mapped: HashMap<u32, u16> = HashMap::new();
        let mut stubs = false;
        let (mut gathered, mut large) = (0, 0);
        for _ in 0..4_000 {
            // Its answer is checked, if assertions are on, as they are in tests.
            let _ = twins.wants_groups();
            // A kernel is at some places at a time.
            let n = (random.below(60) + PAGES / 4 * random.below(2)) % PAGES;
            let (va, pa) = place(n);
            match random.below(40) {
                0 => twins.look_anew(),
                1..5 => gathered += u32::from(twins.gather(&mut memory)),
                5 => twins.remove(pa),
                6 => twins.leave(va),
                7 if stubs => {
                    twins.forget_stubs();
                    while !twins.settle(&mut memory) {}
                    stubs = false;
                }
                8 if random.one_in(10) => {
                    twins.clear();
                    stubs = false;
                }
                9..16 => {
                    if let Some(left) = twins.take_left() {
                        make(&mut twins, &mut memory, left.0.wrapping_sub(VA.0) >> 12);
                    }
                }
                16..20 => {
                    if let Some(number) = twins.at(va) {
                        stubs |= twins.lead_to(number, 7, CachePc(CACHE.0 + 0x100), &mut memory);
                    }
                }
                _ => {
                    if twins.of(va, pa).is_none() {
                        if !random.one_in(4) {
                            twins.begin_region(va);
                        }
                        make(&mut twins, &mut memory, n);
                    }
                    twins.executes(va);
                    twins.maps(va, &mut memory);
                    let whole = twins.whole(va).is_some();
                    large += u32::from(whole);
                    let pages = if whole { n & !15..(n & !15) + 16 } else { n..n + 1 };
                    for n in pages {
                        let (va, pa) = place(n);
                        mapped.insert(n, twins.of(va, pa).expect("it was made"));
                    }
                }
            }
            while twins.is_anything_gone() {
                match twins.take_gone() {
                    Some(va) => drop(mapped.remove(&(va.0.wrapping_sub(VA.0) >> 12))),
                    None => mapped.clear(),
                }
            }
            for (&n, &number) in &mapped {
                let (va, pa) = place(n);
                assert_eq!(twins.of(va, pa), Some(number), "seed {seed}, page {n}");
                assert!(memory.is_seen(number), "seed {seed}, page {n}: what is executed is older than what is there");
                let word = memory.words(number)[7];
                let (svc, leads) = (word >> 24 == 0xef, word >> 24 == 0xea);
                assert!(svc || leads && stubs, "seed {seed}, page {n}: {word:#x} where the page has an MRS");
                assert!(
                    !svc || word == 0xef00_0000 | trap::REPLACED
                        || twins.originals().of(word & 0xff_ffff) == Some(MRS_R0)
                );
            }
        }
        happened = (happened.0 + gathered, happened.1 + large);
        // No twin is found that has none of its own memory.
        let numbers: Vec<_> = (0..PAGES).filter_map(|n| twins.at(place(n).0)).collect();
        let different: std::collections::HashSet<_> = numbers.iter().collect();
        assert_eq!((numbers.len(), different.len()), (twins.usage().0, numbers.len()));
    }
    assert!(happened.0 > 500 && happened.1 > 500, "{happened:?} regions were gathered, and whole");
}
