use alloc::vec;
use alloc::vec::Vec;

use crate::testing::{BUFFERS, Buffer, Rig, read};
use crate::{Plug, Work};

const B: u64 = BUFFERS as u64;
const PLUG: Plug = Plug::Net { port: 3, mac: [0x52, 0x54, 0, 1, 2, 3] };

fn frame(len: usize) -> Vec<u8> {
    (0..len).map(|n| n as u8 ^ 0x5a).collect()
}

/// Makes a frame available, with its header in a buffer of its own as Linux has it.
fn offer(rig: &mut Rig, at: u32, frame: &[u8]) {
    rig.ram.set(at, &[0; 12]);
    rig.ram.set(at + 12, frame);
    let buffers = [Buffer::Read(at.into(), 12), Buffer::Read(u64::from(at) + 12, frame.len() as u32)];
    rig.driver.queues[1].put(&mut rig.ram, &buffers);
}

#[test]
fn says_its_address_and_its_link() {
    let mut rig = Rig::new(&PLUG);
    assert_eq!(read(&mut rig.slot, 0x100).to_le_bytes(), [0x52, 0x54, 0, 1]);
    assert_eq!(read(&mut rig.slot, 0x104).to_le_bytes(), [2, 3, 1, 0]);
    let generation = read(&mut rig.slot, 0x0fc);
    rig.slot.set_link(true);
    assert_eq!((rig.interrupt(), read(&mut rig.slot, 0x0fc)), (0, generation), "no change");
    rig.slot.set_link(false);
    assert_eq!(rig.interrupt(), 2);
    assert_ne!(read(&mut rig.slot, 0x0fc), generation);
    assert_eq!(read(&mut rig.slot, 0x104).to_le_bytes(), [2, 3, 0, 0]);
    offer(&mut rig, BUFFERS, &frame(60));
    rig.kick(1);
    assert!(rig.used(1).is_some() && rig.ends.sent.is_empty(), "lost");
    rig.ends.frames.push_back(frame(60));
    rig.poke();
    assert!(rig.ends.frames.is_empty(), "lost");
}

#[test]
fn frames_go_out() {
    let mut rig = Rig::new(&PLUG);
    for len in [14, 60, 1514, 1518] {
        offer(&mut rig, BUFFERS, &frame(len));
        rig.kick(1);
        assert!(rig.used(1).is_some());
        assert_eq!(rig.ends.sent.pop(), Some(frame(len)));
    }
    for len in [1, 13, 1519, 9000] {
        offer(&mut rig, BUFFERS, &frame(len));
        rig.kick(1);
        assert!(rig.used(1).is_some() && rig.ends.sent.is_empty(), "{len}: no frame");
    }
    assert!(!rig.needs_reset());
    rig.request(1, &[Buffer::Read(B, 11)]);
    assert!(rig.needs_reset(), "no header");
}

#[test]
fn frames_come_in() {
    let mut rig = Rig::new(&PLUG);
    rig.ends.frames.extend([frame(60), frame(1514)]);
    rig.poke();
    assert_eq!((rig.used(0), rig.ends.frames.len()), (None, 2), "they wait for buffers");
    for n in 0..2 {
        rig.driver.queues[0]
            .put(&mut rig.ram, &[Buffer::Write(B + n * 0x800, 12), Buffer::Write(B + n * 0x800 + 12, 1514)]);
    }
    rig.kick(0);
    assert_eq!((rig.used(0), rig.used(0)), (Some((0, 72)), Some((2, 1526))));
    assert_eq!(rig.ram.get(BUFFERS, 12), [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0]);
    assert_eq!(rig.ram.get(BUFFERS + 12, 60), frame(60));
    assert_eq!(rig.ram.get(BUFFERS + 0x80c, 1514), frame(1514));
    assert_eq!(rig.interrupt(), 1);
    // One who sends frames with a tag does not harm a driver that has just the room it must have.
    rig.ends.frames.extend([frame(1518), frame(1515), frame(1514)]);
    let head = rig.request(0, &[Buffer::Write(B, 1526)]);
    assert_eq!((rig.used(0), rig.used(0)), (Some((head, 1526)), None));
    assert!(rig.ends.frames.is_empty() && !rig.needs_reset());
    rig.ends.frames.push_back(frame(1518));
    rig.request(0, &[Buffer::Write(B, 1530)]);
    assert_eq!(rig.used(0), Some((head + 1, 1530)));
    rig.ends.frames.push_back(frame(100));
    rig.request(0, &[Buffer::Write(B, 1525)]);
    assert!(rig.needs_reset(), "less room than a driver must have");
}

#[test]
fn neither_direction_waits_for_the_other() {
    let mut rig = Rig::with(&PLUG, u64::MAX, 64);
    rig.ends.frames.extend(vec![frame(1000); 20]);
    for n in 0..20 {
        rig.driver.queues[0].put(&mut rig.ram, &[Buffer::Write(B + n * 0x800, 1600)]);
        offer(&mut rig, BUFFERS + 0x1_0000 + n as u32 * 0x800, &frame(1000));
    }
    rig.driver.kick(&mut rig.slot, 0);
    for _ in 0..10 {
        rig.slot.serve(&mut rig.ram, &mut rig.ends, &mut Work::new(4000));
        assert!(rig.slot.wants_service());
        assert!(rig.ends.sent.len().abs_diff(20 - rig.ends.frames.len()) <= 1);
    }
    rig.serve();
    assert_eq!((rig.ends.sent.len(), rig.ends.frames.len()), (20, 0));
}
