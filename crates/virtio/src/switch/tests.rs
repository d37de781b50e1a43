use alloc::vec;
use alloc::vec::Vec;

use super::{Network, Port, Switch, table};

const A: [u8; 6] = [2, 0, 0, 0, 0, 0xa];
const B: [u8; 6] = [2, 0, 0, 0, 0, 0xb];
const C: [u8; 6] = [2, 0, 0, 0, 0, 0xc];
const X: [u8; 6] = [2, 0, 0, 0, 0, 0x10];
const Y: [u8; 6] = [2, 0, 0, 0, 0, 0x11];
const ALL: [u8; 6] = [0xff; 6];

/// Stations A, B, C at ports 0, 1, 2, and trunks at ports 3 and 4.
fn switch() -> Switch {
    let ports = [Port::Station(A), Port::Station(B), Port::Station(C), Port::Trunk, Port::Trunk];
    Switch::new(&ports, 16)
}

fn frame(target: [u8; 6], source: [u8; 6], text: &[u8]) -> Vec<u8> {
    [&target[..], &source, &[0x88, 0xb5], text].concat()
}

/// Sends a frame and says which ports got it.
fn send(switch: &mut Switch, port: usize, target: [u8; 6], source: [u8; 6]) -> Vec<usize> {
    let frame = frame(target, source, b"hello");
    switch.send(port, &frame);
    let pending = switch.take_pending();
    let got: Vec<usize> = (0..5).filter(|&port| switch.next(port).is_some()).collect();
    assert_eq!(got.iter().fold(0, |bits, port| bits | 1 << port), pending);
    for &port in &got {
        assert_eq!(switch.next(port), Some(&frame[..]));
        switch.pop(port);
        assert_eq!(switch.next(port), None);
    }
    got
}

#[test]
fn stations_get_what_is_theirs() {
    let mut switch = switch();
    assert_eq!(send(&mut switch, 0, B, A), [1]);
    assert_eq!(send(&mut switch, 1, A, B), [0]);
    assert_eq!(send(&mut switch, 0, ALL, A), [1, 2, 3, 4]);
    assert_eq!(send(&mut switch, 0, [0x33, 0x33, 0, 0, 0, 1], A), [1, 2, 3, 4]);
    assert_eq!(send(&mut switch, 0, A, A), [] as [usize; 0], "to itself");
    assert_eq!(send(&mut switch, 0, X, A), [3, 4], "unknown: wherever networks are");
    for last in [0, 0x0e] {
        assert_eq!(send(&mut switch, 0, [1, 0x80, 0xc2, 0, 0, last], A), [] as [usize; 0]);
    }
    assert_eq!(send(&mut switch, 0, [1, 0x80, 0xc2, 0, 0, 0x10], A), [1, 2, 3, 4]);
    let counters = switch.counters(1).unwrap();
    assert_eq!((counters.sent, counters.delivered, counters.dropped, counters.refused), (1, 4, 0, 0));
}

#[test]
fn nobody_speaks_in_anothers_name() {
    let mut switch = switch();
    for (port, source) in [(0, B), (0, X), (0, ALL), (3, A), (3, ALL), (9, A)] {
        assert_eq!(send(&mut switch, port, C, source), [] as [usize; 0], "{port} {source:x?}");
    }
    assert_eq!(switch.counters(0).unwrap().refused, 3);
    assert_eq!(send(&mut switch, 1, A, B), [0], "and gets nothing by it");
    for len in [0, 13, 1519] {
        switch.send(0, &vec![0xff; len]);
        switch.send(0, &[&ALL[..], &A, &vec![0; len]].concat()[..len.max(12)]);
        assert_eq!(switch.take_pending(), 0, "{len}");
    }
}

#[test]
fn trunks_are_learned_and_forgotten() {
    let mut switch = switch();
    assert_eq!(send(&mut switch, 3, A, X), [0]);
    assert_eq!(send(&mut switch, 0, X, A), [3], "learned");
    assert_eq!(send(&mut switch, 4, X, Y), [3]);
    assert_eq!(send(&mut switch, 3, Y, X), [4]);
    assert_eq!(send(&mut switch, 3, X, Y), [] as [usize; 0], "moved, and is where it came from");
    assert_eq!(send(&mut switch, 0, Y, A), [3]);
    switch.set_time(table::AGE);
    assert_eq!(send(&mut switch, 0, X, A), [3]);
    switch.set_time(table::AGE + 1);
    assert_eq!(send(&mut switch, 0, X, A), [3, 4], "forgotten");
    send(&mut switch, 3, A, X);
    switch.clear(3);
    assert_eq!(send(&mut switch, 0, X, A), [3, 4]);
}

#[test]
fn invented_addresses_drive_out_their_own_kind_only() {
    let mut switch = switch();
    send(&mut switch, 3, A, X);
    for n in 0..1000u16 {
        switch.set_time(u64::from(n) / 100);
        let [high, low] = n.to_be_bytes();
        send(&mut switch, 4, A, [2, 9, 9, 9, high, low]);
    }
    assert_eq!(send(&mut switch, 0, X, A), [3], "still known");
    assert_eq!(send(&mut switch, 0, [2, 9, 9, 9, 3, 0xe7], A), [4], "the last one");
    assert_eq!(send(&mut switch, 0, [2, 9, 9, 9, 0, 0], A), [3, 4], "the first one");
}

#[test]
fn a_flood_drops_its_own_frames_only() {
    let mut switch = switch();
    for n in 0..1000u32 {
        switch.send(0, &frame(ALL, A, &n.to_le_bytes()));
    }
    switch.send(1, &frame(C, B, b"B"));
    switch.send(3, &frame(C, X, b"X"));
    let got: Vec<Vec<u8>> = core::iter::from_fn(|| {
        let frame = switch.next(2)?.to_vec();
        switch.pop(2);
        Some(frame)
    })
    .collect();
    // 16 frames, divided among 4 senders; in order.
    let expected: Vec<Vec<u8>> = (0..4u32).map(|n| frame(ALL, A, &n.to_le_bytes())).collect();
    assert_eq!(got[..4], expected);
    assert_eq!(got[4..], [frame(C, B, b"B"), frame(C, X, b"X")]);
    assert_eq!(switch.counters(2).unwrap().dropped, 996);
    assert_eq!(switch.counters(2).unwrap().delivered, 6);
    // The share is free again.
    switch.send(0, &frame(C, A, b"again"));
    assert_eq!(switch.next(2), Some(&frame(C, A, b"again")[..]));
    switch.clear(2);
    assert_eq!(switch.next(2), None);
}

#[test]
fn queues_go_round() {
    let mut switch = Switch::new(&[Port::Station(A), Port::Station(B)], 3);
    for n in 0..20u32 {
        for k in 0..3 {
            switch.send(0, &frame(B, A, &(3 * n + k).to_le_bytes()));
        }
        switch.send(0, &frame(B, A, b"lost"));
        for k in 0..3 {
            assert_eq!(switch.next(1), Some(&frame(B, A, &(3 * n + k).to_le_bytes())[..]));
            switch.pop(1);
        }
        switch.pop(1);
        assert_eq!(switch.next(1), None);
    }
}

#[test]
fn a_switch_may_be_tiny() {
    for depth in [0, 1] {
        let mut switch = Switch::new(&[Port::Trunk], depth);
        switch.send(0, &frame(ALL, A, b""));
        switch.send(1, &frame(ALL, A, b""));
        assert_eq!((switch.next(0), switch.next(1)), (None, None));
    }
    let mut switch = Switch::new(&[Port::Trunk, Port::Trunk], 0);
    switch.send(0, &frame(ALL, A, b""));
    assert_eq!(switch.counters(1).unwrap().dropped, 1);
    assert_eq!(Switch::new(&[], 4).take_pending(), 0);
}
