//! The switch between guests: frames of any kind from any port, against a bridge that is slow and obvious.

use super::bytes::Bytes;
use spica_virtio::backend::Network;
use spica_virtio::switch::{Mac, Port, Switch};
use std::collections::VecDeque;

/// What a frame may measure in bytes, without its checksum, but with a tag (IEEE 802.3).
const SIZES: std::ops::RangeInclusive<usize> = 14..=1518;

/// An address of a few: stations', others', groups, those that no bridge forwards.
fn mac(bytes: &mut Bytes<'_>) -> Mac {
    match bytes.byte() % 16 {
        n @ 0..=9 => [2, 0, 0, 0, 0, n],
        10 => [0xff; 6],
        11 => [1, 0x80, 0xc2, 0, 0, bytes.byte() % 32],
        12 => [1, 0, 0x5e, 0, 0, bytes.byte()],
        13 => [0; 6],
        _ => std::array::from_fn(|_| bytes.byte()),
    }
}

fn group(mac: Mac) -> bool {
    mac[0] & 1 != 0
}

/// The slow bridge: what waits for each port, as whole frames with their senders.
struct Slow {
    /// Frames that may wait for a port.
    depth: usize,
    ports: Vec<Port>,
    waiting: Vec<VecDeque<(usize, Vec<u8>)>>,
}

impl Slow {
    /// Whether a port may send from an address: a station from its own, a trunk from none of a station's and no
    /// group's.
    fn admits(&self, port: usize, source: Mac) -> bool {
        match self.ports[port] {
            Port::Station(own) => own == source,
            Port::Trunk => !group(source) && !self.ports.contains(&Port::Station(source)),
        }
    }

    /// Whether a frame that was accepted must go to that station; to trunks it may go, which depends on what was
    /// learned.
    fn must(&self, to: usize, target: Mac) -> bool {
        matches!(self.ports[to], Port::Station(own) if own == target || group(target))
    }
}

/// See [`super::TARGETS`].
pub fn frames(data: &[u8]) {
    let bytes = &mut Bytes::new(data);
    let count = 1 + usize::from(bytes.byte()) % 8;
    let mut stations = 0;
    let ports: Vec<Port> = (0..count)
        .map(|_| {
            if bytes.byte().is_multiple_of(4) {
                return Port::Trunk;
            }
            stations += 1;
            Port::Station([2, 0, 0, 0, 0, stations])
        })
        .collect();
    let depth = usize::from(bytes.byte() % 16);
    let mut switch = Switch::new(&ports, depth);
    let mut slow = Slow { depth, waiting: vec![VecDeque::new(); count], ports };
    let (mut serial, mut seconds) = (0u32, 0u64);
    while !bytes.is_empty() {
        let port = usize::from(bytes.byte()) % (count + 1);
        match bytes.byte() % 16 {
            0..=8 => {
                serial += 1;
                let (target, source) = (mac(bytes), mac(bytes));
                // Mostly of its own, so that it is accepted.
                let source = match slow.ports.get(port) {
                    Some(Port::Station(own)) if !bytes.byte().is_multiple_of(4) => *own,
                    _ => source,
                };
                let length = match bytes.byte() % 8 {
                    0 => usize::from(bytes.half()) % 1700,
                    _ => 60,
                };
                let mut frame: Vec<u8> = target.into_iter().chain(source).chain(serial.to_le_bytes()).collect();
                frame.resize(length, 0);
                send(&mut switch, &mut slow, port, &frame, target, source);
            }
            9..=12 => receive(&mut switch, &mut slow, port),
            13 => {
                switch.clear(port);
                if let Some(waiting) = slow.waiting.get_mut(port) {
                    waiting.clear();
                }
            }
            14 => {
                seconds = seconds.saturating_add(bytes.half().into());
                switch.set_time(seconds);
            }
            // Into the past, which is not believed.
            _ => switch.set_time(bytes.half().into()),
        }
    }
    for port in 0..count {
        while switch.next(port).is_some() {
            receive(&mut switch, &mut slow, port);
        }
        assert!(slow.waiting[port].is_empty(), "a frame for port {port} was lost");
    }
}

/// A frame is sent. Who got it is told from the counters, and must be who may and, but for full queues, who must.
fn send(switch: &mut Switch, slow: &mut Slow, port: usize, frame: &[u8], target: Mac, source: Mac) {
    let counters = |switch: &Switch| -> Vec<_> { (0..=slow.ports.len()).map(|n| switch.counters(n)).collect() };
    let before = counters(switch);
    let _ = switch.take_pending();
    switch.send(port, frame);
    let (after, pending) = (counters(switch), switch.take_pending());
    assert!(after[slow.ports.len()].is_none(), "there is no such port");
    let Some((was, now)) = before.get(port).copied().flatten().zip(after.get(port).copied().flatten()) else {
        return assert_eq!((before, pending), (after, 0), "a frame from nowhere");
    };
    let accepted = SIZES.contains(&frame.len()) && slow.admits(port, source);
    let counted = frame.len() >= 12;
    assert_eq!(now.sent - was.sent, u64::from(accepted), "{frame:x?} from {port}");
    assert_eq!(now.refused - was.refused, u64::from(!accepted && counted), "{frame:x?} from {port}");
    let local = target[..5] == [1, 0x80, 0xc2, 0, 0] && target[5] < 16;
    for to in 0..slow.ports.len() {
        let got = pending >> to & 1 != 0;
        let dropped = after[to].expect("a port").dropped - before[to].expect("a port").dropped;
        let wanted = accepted && to != port && !local;
        let station = slow.ports.contains(&Port::Station(target));
        let may = wanted && (slow.must(to, target) || slow.ports[to] == Port::Trunk && !station);
        assert!(may || !got && dropped == 0, "port {to} has a frame that is not for it: {frame:x?}");
        if wanted && slow.must(to, target) {
            assert_eq!(u64::from(got) + dropped, 1, "port {to} neither has the frame, nor was it dropped");
        }
        // Only who has taken its part of a queue loses frames.
        let part = (slow.depth / slow.ports.len().saturating_sub(1).max(1)).max(1);
        let taken = slow.waiting[to].iter().filter(|(from, _)| *from == port).count();
        let full = slow.waiting[to].len() >= slow.depth || taken >= part;
        assert!(dropped == 0 || full, "port {port} has {taken} frames at port {to}, and lost one");
        if got {
            slow.waiting[to].push_back((port, frame.to_vec()));
        }
    }
}

/// The next frame of a port, if there is one, is the oldest that waits.
fn receive(switch: &mut Switch, slow: &mut Slow, port: usize) {
    let first = slow.waiting.get_mut(port).and_then(VecDeque::pop_front);
    assert_eq!(switch.next(port), first.as_ref().map(|(_, frame)| frame.as_slice()), "at port {port}");
    let delivered = |switch: &Switch| switch.counters(port).map(|counters| counters.delivered);
    let before = delivered(switch);
    switch.pop(port);
    assert_eq!(delivered(switch), before.map(|n| n + u64::from(first.is_some())));
}
