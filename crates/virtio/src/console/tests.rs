use alloc::vec;
use alloc::vec::Vec;

use crate::testing::{BUFFERS, Buffer, Rig, write};
use crate::{Plug, Work};

const B: u64 = BUFFERS as u64;
const PLUG: Plug = Plug::Console { terminal: 0 };

#[test]
fn output_comes_in_order_and_is_used_at_once() {
    let mut rig = Rig::new(&PLUG);
    rig.ram.set(BUFFERS, b"Hello, world");
    rig.request(1, &[Buffer::Read(B, 5), Buffer::Read(B + 5, 7)]);
    rig.request(1, &[Buffer::Read(B, 1)]);
    assert_eq!(rig.ends.output, b"Hello, worldH");
    assert_eq!((rig.used(1), rig.used(1)), (Some((0, 0)), Some((2, 0))));
}

#[test]
fn output_waits_for_the_terminal_and_nothing_is_lost() {
    let mut rig = Rig::new(&PLUG);
    let text: Vec<u8> = (0..5000).map(|n| n as u8).collect();
    rig.ram.set(BUFFERS, &text);
    rig.ends.output_room = 10;
    rig.request(1, &[Buffer::Read(B, 5000)]);
    assert_eq!((rig.ends.output.len(), rig.used(1)), (10, None));
    while rig.ends.output.len() < 5000 {
        rig.ends.output_room = 333;
        rig.poke();
    }
    assert_eq!(rig.ends.output, text);
    assert!(rig.used(1).is_some());
}

#[test]
fn a_reset_forgets_output() {
    let mut rig = Rig::new(&PLUG);
    rig.ends.output_room = 1;
    rig.ram.set(BUFFERS, b"abc");
    rig.request(1, &[Buffer::Read(B, 3)]);
    write(&mut rig.slot, 0x070, 0);
    rig.driver = crate::testing::Driver::start(&mut rig.slot, &mut rig.ram, u64::MAX, 8);
    rig.ends.output_room = 100;
    rig.poke();
    assert_eq!(rig.ends.output, b"a");
}

#[test]
fn a_reset_of_one_queue_concerns_that_queue() {
    for (queue, output) in [(0, &b"abc"[..]), (1, b"a")] {
        let mut rig = Rig::new(&PLUG);
        rig.ends.output_room = 1;
        rig.ram.set(BUFFERS, b"abc");
        rig.request(1, &[Buffer::Read(B, 3)]);
        write(&mut rig.slot, 0x030, queue);
        write(&mut rig.slot, 0x0c0, 1);
        rig.ends.output_room = 100;
        rig.poke();
        assert_eq!(rig.ends.output, output, "{queue}");
    }
}

#[test]
fn input_fills_buffers_and_wakes_the_driver() {
    let mut rig = Rig::new(&PLUG);
    rig.request(0, &[Buffer::Write(B, 4)]);
    rig.request(0, &[Buffer::Write(B + 4, 2), Buffer::Write(B + 6, 8)]);
    assert_eq!((rig.used(0), rig.interrupt()), (None, 0));
    rig.ends.input.extend(b"root\n");
    rig.poke();
    assert_eq!((rig.used(0), rig.used(0)), (Some((0, 4)), Some((1, 1))));
    assert_eq!(rig.ram.get(BUFFERS, 6), b"root\n\0");
    assert_eq!(rig.interrupt(), 1);
    rig.ends.input.push_back(b'x');
    rig.poke();
    assert_eq!(rig.used(0), None, "no buffer");
    assert_eq!(rig.ends.input, [b'x']);
    rig.request(0, &[Buffer::Write(B, 1)]);
    assert_eq!(rig.used(0), Some((3, 1)));
}

#[test]
fn long_input_and_output_take_turns() {
    let mut rig = Rig::new(&PLUG);
    rig.ends.input.extend(vec![1; 3000]);
    rig.driver.queues[0].put(&mut rig.ram, &[Buffer::Write(B, 4000)]);
    rig.driver.queues[1].put(&mut rig.ram, &[Buffer::Read(B + 4000, 4000)]);
    rig.driver.kick(&mut rig.slot, 0);
    let mut turns = 0;
    while rig.slot.wants_service() {
        let (input, output) = (rig.ends.input.len(), rig.ends.output.len());
        rig.slot.serve(&mut rig.ram, &mut rig.ends, &mut Work::new(1000));
        let moved = input - rig.ends.input.len() + rig.ends.output.len() - output;
        assert!(moved <= 1000 + 256);
        turns += 1;
    }
    assert!(turns >= 7);
    assert_eq!((rig.used(0), rig.used(1)), (Some((0, 3000)), Some((0, 0))));
}
