//! Whose turn it is.

use std::num::NonZeroU32;

use spica_sched::{Floor, Turn};

fn turn(weight: u32, floor: u64) -> Turn {
    Turn::new(NonZeroU32::new(weight).unwrap(), floor)
}

/// Always lets the one with the least virtual time run for `slice`.
fn spin(weights: &[u32], slices: usize, slice: impl Fn(usize) -> u64) -> Vec<u64> {
    let mut turns: Vec<Turn> = weights.iter().map(|&weight| turn(weight, 0)).collect();
    let mut ran = vec![0; weights.len()];
    for n in 0..slices {
        let at = (0..turns.len()).min_by_key(|&at| turns[at].used()).unwrap();
        turns[at].charge(slice(n));
        ran[at] += slice(n);
    }
    ran
}

#[test]
fn spinning_guests_get_their_weights() {
    for weights in [&[100, 100][..], &[100, 300], &[1, 1000], &[50, 100, 150, 700], &[7, 11, 13, 17, 19, 23, 29, 31]] {
        // Slices are cut short, by whatever comes.
        let ran = spin(weights, 200_000, |n| 100_000 + (n as u64 * 7919) % 140_000);
        let (all, total) = (ran.iter().sum::<u64>() as f64, weights.iter().sum::<u32>() as f64);
        for (at, &weight) in weights.iter().enumerate() {
            let (share, fair) = (ran[at] as f64 / all, f64::from(weight) / total);
            assert!((share / fair - 1.0).abs() < 0.01, "{weights:?}: {at} got {share}, not {fair}");
        }
    }
}

#[test]
fn whoever_slept_is_ahead_by_the_credit_and_no_more() {
    let (mut sleeper, mut busy) = (turn(100, 0), turn(100, 0));
    busy.charge(1_000_000_000);
    sleeper.wake(busy.used(), 1000);
    assert!(sleeper.preempts(&busy, 100));
    // With its credit used up, it is behind like everybody.
    sleeper.charge(1000);
    assert!(!sleeper.preempts(&busy, 100));
    assert_eq!(sleeper.used(), busy.used());
}

#[test]
fn waking_takes_nothing_back() {
    let mut guest = turn(100, 0);
    guest.charge(5000);
    let used = guest.used();
    guest.wake(0, 1000);
    assert_eq!(guest.used(), used);
    // Waiting for a moment again and again gains nothing either: what was used stays used.
    for _ in 0..1000 {
        guest.wake(used, 1000);
        guest.charge(10);
    }
    assert!(guest.used() >= used + 10 * 1000);
}

#[test]
fn a_small_lead_is_no_reason_to_switch() {
    let (mut running, other) = (turn(100, 0), turn(100, 0));
    running.charge(99);
    assert!(!other.preempts(&running, 100));
    running.charge(2);
    assert!(other.preempts(&running, 100));
}

#[test]
fn the_floor_stands_while_nobody_wants_to_run() {
    let mut floor = Floor::default();
    assert_eq!(floor.follow([700, 500].into_iter()), 500);
    assert_eq!(floor.follow([].into_iter()), 500);
    // Somebody who used little, long ago, joins those who were here.
    let mut late = turn(100, 20);
    late.wake(floor.follow([].into_iter()), 0);
    assert_eq!(late.used(), 500);
    assert_eq!(floor.follow([30].into_iter()), 500);
    assert_eq!(floor.follow([900].into_iter()), 900);
}
