//! How long guests were left waiting.

use spica_sched::{BOUNDS, Latency, bounds_in_ticks};

#[test]
fn a_time_counts_in_the_first_class_above_it() {
    let mut latency = Latency::default();
    for microseconds in [0, 9, 10, 29_999, 30_000, u64::MAX] {
        latency.record(microseconds, &bounds_in_ticks(1_000_000));
    }
    let counted: Vec<_> = latency.classes().filter(|&(_, count)| count != 0).collect();
    assert_eq!(counted, [(Some(10), 2), (Some(30), 1), (Some(30_000), 1), (None, 2)]);
    assert_eq!(latency.classes().count(), BOUNDS.len() + 1);
}

/// Whatever the clock is, the classes are those of whole microseconds.
#[test]
fn bounds_in_ticks_are_those_in_microseconds() {
    for frequency in [1_000_000, 24_000_000, 32_768, 13_000_001, u32::MAX] {
        let bounds = bounds_in_ticks(frequency);
        for (ticks, bound) in bounds.into_iter().zip(BOUNDS) {
            for late in ticks.saturating_sub(2)..ticks + 2 {
                let microseconds = late * 1_000_000 / u64::from(frequency);
                assert_eq!(late < ticks, microseconds < u64::from(bound), "{late} at {frequency} Hz, {bound}");
            }
        }
    }
}
