//! Records arrive as they were, and bytes that are none do no harm.

use spica_trace_ring::{Record, Ring, wire};

use crate::Random;

const PIECE: usize = 1536;

#[test]
fn a_piece_byte_by_byte() {
    let ring = Ring::new().unwrap();
    ring.push(Record { time: 0xffff_fff0, kind: 8, guest: 1, detail: 0x80, length: 300, argument: 5 });
    ring.push(Record { time: 0xffff_ffee, kind: 2, guest: 1, detail: 0, length: 0, argument: 0x1000_0000 });
    ring.push(Record { time: 4, kind: 3, guest: 0, detail: 0, length: 1, argument: 0 });
    // The clock has turned since the first two.
    let piece = wire::take(&ring, 0x7_0000_0010, PIECE);
    let expected = [
        &[0xf0, 0xff, 0xff, 0xff, 6, 0, 0, 0][..],
        &[0xe8, 1, 0, 0x80, 1, 0xac, 2, 5],
        &[2, 3, 0x80, 0x80, 0x80, 0x80, 1],
        &[0xa3, 0, 44, 1, 0],
    ];
    assert_eq!(piece, expected.concat());
    let times: Vec<u64> = wire::read(&piece).unwrap().iter().map(|(time, _)| *time).collect();
    assert_eq!(times, [0x6_ffff_fff0, 0x6_ffff_ffee, 0x7_0000_0004]);
    assert!(wire::take(&ring, 0, PIECE).is_empty());
}

#[test]
fn random_records_arrive() {
    let ring = Ring::new().unwrap();
    let (mut random, mut now) = (Random(2), u64::from(u32::MAX) - 100_000);
    for _ in 0..300 {
        let mut sent = Vec::new();
        for _ in 0..random.next() % 400 {
            now += u64::from(random.number() >> 12);
            // What took long began before others did.
            let time = now - u64::from(random.number() >> 14);
            let record = random.record(time as u32);
            ring.push(record);
            sent.push((time, record));
        }
        let mut arrived = Vec::new();
        loop {
            let piece = wire::take(&ring, now, PIECE);
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
    // A number of more than 32 bits, and one that never ends.
    assert_eq!(with(&[1, 0xff, 0xff, 0xff, 0xff, 0x1f, 0]), None);
    assert_eq!(with(&[1, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80]), None);
    // A detail of more than 16.
    assert_eq!(with(&[0x41, 0, 0x80, 0x80, 4, 0]), None);
}
