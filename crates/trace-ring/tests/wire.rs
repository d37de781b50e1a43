//! Records arrive as they were, and bytes that are none do no harm.

use spica_trace_ring::record::LOST;
use spica_trace_ring::{Record, Ring, SLOTS, wire};

use crate::Random;

const PIECE: usize = 1536;

#[test]
fn a_piece_byte_by_byte() {
    let ring = Ring::new(SLOTS).unwrap();
    ring.push(Record { time: 0xffff_fff0, kind: 8, guest: 1, detail: 0x80, length: 300, argument: 5 });
    ring.push(Record { time: 0xffff_ffee, kind: 2, guest: 1, detail: 0, length: 0, argument: 0x1000_0000 });
    ring.push(Record { time: 4, kind: 3, guest: 0, detail: 0, length: 1, argument: 0 });
    ring.push(Record { time: 4, kind: 2, guest: 0, detail: 0, length: 0, argument: 0x0fff_ffff });
    // The clock has turned since the first two.
    let mut last = 0x6_ffff_0000;
    let piece = wire::take(&ring, &mut last, 0x7_0000_0010, PIECE);
    let expected = [
        &[0xf0, 0xff, 0xff, 0xff, 6, 0, 0, 0][..],
        &[0xe8, 1, 0, 0x80, 1, 0xac, 2, 10],
        &[2, 3, 0x80, 0x80, 0x80, 0x80, 2],
        &[0xa3, 0, 44, 1, 0],
        &[2, 0, 1],
    ];
    assert_eq!((piece.clone(), last), (expected.concat(), 0x7_0000_0004));
    let times: Vec<u64> = wire::read(&piece).unwrap().iter().map(|(time, _)| *time).collect();
    assert_eq!(times, [0x6_ffff_fff0, 0x6_ffff_ffee, 0x7_0000_0004, 0x7_0000_0004]);
    assert!(wire::take(&ring, &mut last, 0, PIECE).is_empty());
}

#[test]
fn random_records_arrive() {
    let ring = Ring::new(SLOTS).unwrap();
    let (mut random, mut now) = (Random(2), u64::from(u32::MAX) - 100_000);
    let mut last = now;
    for _ in 0..300 {
        let mut sent = Vec::new();
        for _ in 0..random.next() % 400 {
            // However long nobody reads.
            now += u64::from(random.number() >> 4);
            // What took long began before others did.
            let time = now - u64::from(random.number() >> 6);
            let record = random.record(time as u32);
            ring.push(record);
            sent.push((time, record));
        }
        let mut arrived = Vec::new();
        loop {
            let piece = wire::take(&ring, &mut last, now, PIECE);
            if piece.is_empty() {
                break;
            }
            assert!(piece.len() <= PIECE);
            arrived.extend(wire::read(&piece).unwrap());
        }
        assert_eq!(arrived, sent);
    }
}

#[test]
fn times_are_right_however_long_a_ring_was_full() {
    let ring = Ring::new(4).unwrap();
    let at = |time: u64| Record { time: time as u32, kind: 1, ..Record::default() };
    let (mut last, hour) = (1000, 3600 * 24_000_000);
    (0..9).for_each(|n| ring.push(at(1000 + n)));
    let mut times = Vec::new();
    let mut take = |now: u64, most: usize| {
        let records = wire::read(&wire::take(&ring, &mut last, now, most)).unwrap();
        times.extend(records.iter().map(|(time, record)| (*time, record.kind, record.argument)));
    };
    // Three of four places are free, an hour later; then they are full again, for another one.
    take(hour, 40);
    ring.set_time(hour);
    [5, 6, 7].iter().for_each(|n| ring.push(at(hour + n)));
    take(2 * hour, PIECE);
    let expected = [(1000, 1, 0), (1001, 1, 0), (1002, 1, 0), (1003, 1, 0), (hour + 5, LOST, 5), (hour + 5, 1, 0)];
    assert_eq!(times[..6], expected);
    assert_eq!(times[6..], [(hour + 6, 1, 0), (2 * hour, LOST, 1)]);
}

#[test]
fn what_is_no_piece_is_refused_or_means_something() {
    let mut random = Random(3);
    for _ in 0..20_000 {
        let bytes: Vec<u8> = (0..random.next() % 40).map(|_| random.next() as u8).collect();
        let _ = wire::read(&bytes);
    }
    let head = [0; 8];
    assert_eq!(wire::read(&head[..7]), None);
    assert_eq!(wire::read(&head), Some(Vec::new()));
    let with = |bytes: &[u8]| wire::read(&[&head, bytes].concat());
    assert!(with(&[1, 0, 0]).is_some());
    assert_eq!(with(&[1, 0]), None);
    // A time of more than 64 bits, and one that never ends; an argument and a length of more than 32.
    let long = |last: u8| [&[1][..], &[0xff; 9], &[last, 0]].concat();
    assert!(with(&long(1)).is_some());
    assert_eq!(with(&long(2)), None);
    assert_eq!(with(&[0x80; 30]), None);
    assert_eq!(with(&[1, 0, 0xff, 0xff, 0xff, 0xff, 0x1f]), None);
    assert_eq!(with(&[0x21, 0, 0xff, 0xff, 0xff, 0xff, 0x1f, 0]), None);
    // A detail of more than 16.
    assert_eq!(with(&[0x41, 0, 0x80, 0x80, 4, 0]), None);
}
