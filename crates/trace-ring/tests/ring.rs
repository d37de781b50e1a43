//! What is written is read, in order, and what has no room is counted.

use std::collections::VecDeque;

use spica_trace_ring::record::{LOST, NOBODY};
use spica_trace_ring::{Record, Ring};

use crate::Random;

/// Few, so that it is soon full.
const SLOTS: usize = 256;

#[test]
fn a_record_is_four_words() {
    let record = Record { time: 1, kind: 2, guest: 3, detail: 4, length: 5, argument: 6 };
    assert_eq!(record.words(), [1, 0x0004_0302, 5, 6]);
    assert_eq!(Record::of_words(record.words()), record);
}

#[test]
fn a_full_ring_loses_the_newest_and_says_so_where_it_goes_on() {
    let ring = Ring::new(SLOTS).unwrap();
    assert_eq!((ring.slots(), Ring::bytes(SLOTS)), (SLOTS, 4096));
    ring.set_time(0x7_0001_0002);
    let record = |n: u32| Record { time: n, argument: n, ..Record::default() };
    (0..SLOTS as u32 + 7).for_each(|n| ring.push(record(n)));
    assert_eq!((ring.len(), ring.lost.get()), (SLOTS, 7));
    // One place is not enough for what has to be said and the record.
    assert_eq!(ring.take(0), Some(record(0)));
    ring.push(record(9));
    assert_eq!(ring.lost.get(), 8);
    assert_eq!(ring.take(0), Some(record(1)));
    ring.push(record(10));
    let rest: Vec<_> = std::iter::from_fn(|| ring.take(0)).collect();
    let lost = Record { time: 10, kind: LOST, guest: NOBODY, detail: 0, length: 0x7_0001, argument: 8 };
    assert_eq!(rest[rest.len() - 3..], [record(SLOTS as u32 - 1), lost, record(10)]);
    assert!(ring.is_empty());
}

#[test]
fn what_is_lost_at_the_end_is_said_when_all_is_read() {
    let ring = Ring::new(SLOTS).unwrap();
    (0..=SLOTS).for_each(|_| ring.push(Record::default()));
    (0..SLOTS).for_each(|_| assert_eq!(ring.take(5), Some(Record::default())));
    assert!(!ring.is_empty());
    let lost = Record { time: 5, kind: LOST, guest: NOBODY, detail: 0, length: 0x3_0000, argument: 1 };
    assert_eq!((ring.take(0x3_0000_0005), ring.take(5)), (Some(lost), None));
}

#[test]
fn random_writes_and_reads() {
    let ring = Ring::new(SLOTS).unwrap();
    // Counts go over their end.
    ring.head.set(u32::MAX - 9);
    ring.tail.set(u32::MAX - 9);
    let (mut random, mut model, mut lost) = (Random(1), VecDeque::new(), 0);
    for time in 0..50_000 {
        // Now more are written, now more are read.
        if random.next() % 100 < if time / 5_000 % 2 == 0 { 90 } else { 20 } {
            let record = random.record(time);
            if lost != 0 && model.len() + 2 <= SLOTS {
                model.push_back(Record { time, kind: LOST, guest: NOBODY, detail: 0, length: 0, argument: lost });
                lost = 0;
            }
            if model.len() == SLOTS || lost != 0 {
                lost += 1
            } else {
                model.push_back(record)
            }
            ring.push(record);
        } else if !model.is_empty() {
            assert_eq!(ring.take(time.into()), model.pop_front());
        }
        assert_eq!((ring.len(), ring.lost.get()), (model.len(), lost));
    }
}
