use crate::testing::{BUFFERS, Buffer, Rig};
use crate::{Plug, Work};

const B: u64 = BUFFERS as u64;

#[test]
fn waits_for_randomness() {
    let mut rig = Rig::new(&Plug::Rng);
    rig.request(0, &[Buffer::Write(B, 64)]);
    assert_eq!(rig.used(0), None);
    rig.ends.entropy.extend([7; 10]);
    rig.poke();
    assert_eq!(rig.used(0), Some((0, 10)), "some are better than none");
    assert_eq!(rig.ram.get(BUFFERS + 8, 4), [7, 7, 0, 0]);
}

#[test]
fn gives_no_more_at_once_than_is_reasonable() {
    let mut rig = Rig::new(&Plug::Rng);
    rig.ends.entropy.extend([7; 4096]);
    rig.request(0, &[Buffer::Write(B, 0x8000)]);
    assert_eq!(rig.used(0), Some((0, 256)));
}

#[test]
fn lets_others_work() {
    let mut rig = Rig::new(&Plug::Rng);
    rig.ends.entropy.extend([7; 4096]);
    for _ in 0..4 {
        rig.driver.queues[0].put(&mut rig.ram, &[Buffer::Write(B, 8)]);
    }
    rig.driver.kick(&mut rig.slot, 0);
    for served in 1..=4 {
        rig.slot.serve(&mut rig.ram, &mut rig.ends, &mut Work::new(1));
        assert!(rig.used(0).is_some() && rig.used(0).is_none(), "{served}");
        assert!(rig.slot.wants_service());
        assert_eq!(rig.interrupt(), u32::from(served == 1), "the driver wanted to be told of the first");
    }
    rig.serve();
}

#[test]
fn a_random_byte_costs_more_than_one_that_is_copied() {
    let mut rig = Rig::new(&Plug::Rng);
    rig.ends.entropy.extend([7; 4096]);
    for _ in 0..4 {
        rig.driver.queues[0].put(&mut rig.ram, &[Buffer::Write(B, 256)]);
    }
    rig.driver.kick(&mut rig.slot, 0);
    // Enough to copy all of it thirty times. The second buffer begins within it, and is completed.
    rig.slot.serve(&mut rig.ram, &mut rig.ends, &mut Work::new(256 * Work::RANDOM + 4 * Work::REQUEST));
    assert!(rig.used(0).is_some() && rig.used(0).is_some());
    assert_eq!(rig.used(0), None);
    assert!(rig.slot.wants_service());
    rig.serve();
    assert!(rig.used(0).is_some() && rig.used(0).is_some());
}
