use spica_devices::{Mmio, Width};

use super::Slot;
use crate::testing::{Driver, Ram, Rig, read, write};
use crate::{Plug, features};

const PLUGS: [Plug; 5] = [
    Plug::Net { port: 0, mac: [0; 6] },
    Plug::Block { disk: 0, sectors: 8, read_only: false, serial: [0; 20] },
    Plug::Console { terminal: 0 },
    Plug::Rng,
    Plug::Balloon { pages: 8, base: spica_addr::GuestPa(0x4000_0000) },
];

#[test]
fn an_empty_slot_says_virtio_and_nobody_home() {
    let mut slot = Slot::default();
    assert_eq!([0, 4, 8].map(|offset| read(&mut slot, offset)), [0x7472_6976, 2, 0]);
    write(&mut slot, 8, 1);
    write(&mut slot, 0x070, 15);
    assert_eq!((read(&mut slot, 8), read(&mut slot, 0x070)), (0, 0));
    assert!(!slot.line() && !slot.wants_service());
}

#[test]
fn every_device_says_who_it_is() {
    for (plug, id) in PLUGS.iter().zip([1, 2, 3, 4, 5]) {
        let mut slot = Slot::new(plug);
        assert_eq!([0, 4, 8].map(|offset| read(&mut slot, offset)), [0x7472_6976, 2, id]);
        assert_eq!(slot.device_id(), id);
        assert_eq!([0x0b0, 0x0b4, 0x0b8, 0x0bc].map(|offset| read(&mut slot, offset)), [u32::MAX; 4]);
    }
}

#[test]
fn features_are_negotiated_before_anything_else() {
    let mut slot = Slot::new(&Plug::Rng);
    let accept = |slot: &mut Slot, features: u64| {
        write(slot, 0x070, 0);
        write(slot, 0x070, 3);
        for half in [0u32, 1] {
            write(slot, 0x024, half);
            write(slot, 0x020, (features >> (32 * half)) as u32);
        }
        write(slot, 0x070, 11);
        read(slot, 0x070)
    };
    assert_eq!(accept(&mut slot, features::VERSION_1), 11);
    assert_eq!(accept(&mut slot, features::COMMON), 11);
    assert_eq!(accept(&mut slot, 0), 3, "a driver of older standards");
    assert_eq!(accept(&mut slot, features::COMMON | 1), 3, "more than was offered");
    assert_eq!(accept(&mut slot, u64::MAX), 3);
    // Without FEATURES_OK there is no DRIVER_OK, and with it the features stay.
    write(&mut slot, 0x070, 7);
    assert_eq!(read(&mut slot, 0x070), 3);
    assert_eq!(accept(&mut slot, features::VERSION_1), 11);
    write(&mut slot, 0x020, 0);
    write(&mut slot, 0x070, 15);
    assert_eq!(read(&mut slot, 0x070), 15);
    // Bits are not taken back, but by a reset.
    write(&mut slot, 0x070, 1);
    assert_eq!(read(&mut slot, 0x070), 15);
    write(&mut slot, 0x070, 0x40);
    assert_eq!(read(&mut slot, 0x070), 15, "that one is the device's");
    write(&mut slot, 0x070, 0x80);
    assert_eq!(read(&mut slot, 0x070), 0x8f);
    write(&mut slot, 0x070, 0);
    assert_eq!(read(&mut slot, 0x070), 0);
}

#[test]
fn features_have_two_halves_and_no_more() {
    let mut slot = Slot::new(&Plug::Rng);
    let halves = [0, 1, 2, u32::MAX].map(|half| {
        write(&mut slot, 0x014, half);
        read(&mut slot, 0x010)
    });
    assert_eq!(halves, [3 << 28, 1 | 1 << 8, 0, 0]);
}

#[test]
fn queues_are_selected() {
    let mut slot = Slot::new(&Plug::Console { terminal: 0 });
    let max = [0, 1, 2, u32::MAX].map(|queue| {
        write(&mut slot, 0x030, queue);
        write(&mut slot, 0x044, 1);
        read(&mut slot, 0x034)
    });
    assert_eq!(max, [64, 64, 0, 0]);
}

#[test]
fn accesses_of_the_wrong_width_do_nothing() {
    for plug in &PLUGS {
        let mut slot = Slot::new(plug);
        for width in [Width::Byte, Width::Half] {
            for offset in 0..0x100 {
                assert_eq!(slot.read(offset, width), 0);
                slot.write(offset, width, u32::MAX);
            }
        }
        assert_eq!((read(&mut slot, 0x070), slot.wants_service()), (0, false));
    }
    // The configuration space has fields of all widths.
    let mut slot = Slot::new(&Plug::Net { port: 0, mac: [1, 2, 3, 4, 5, 6] });
    assert_eq!(slot.read(0x101, Width::Byte), 2);
    assert_eq!(slot.read(0x104, Width::Half), 0x0605);
    assert_eq!(slot.read(0x13e, Width::Word), 0);
    assert_eq!(slot.read(0x1fc, Width::Word), 0);
    assert_eq!(slot.read(u32::MAX, Width::Word), 0);
}

#[test]
fn a_kick_is_noted_and_no_more() {
    let mut rig = Rig::new(&Plug::Rng);
    rig.serve();
    rig.driver.kick(&mut rig.slot, 1);
    assert!(!rig.slot.wants_service(), "no such queue");
    rig.driver.kick(&mut rig.slot, 0);
    assert!(rig.slot.wants_service());
    rig.serve();
    assert!(!rig.slot.wants_service());
}

#[test]
fn nothing_is_done_before_the_driver_is_ready() {
    let (mut slot, mut ram) = (Slot::new(&Plug::Rng), Ram::new(0x4000_0000, 0x10_0000));
    Driver::start(&mut slot, &mut ram, u64::MAX, 8);
    write(&mut slot, 0x070, 0);
    let before = ram.moved.get();
    let mut ends = crate::testing::Ends::new(0);
    slot.poke();
    slot.serve(&mut ram, &mut ends, &mut crate::Work::new(1000));
    assert_eq!(ram.moved.get(), before);
}

#[test]
fn a_cause_that_is_left_makes_an_edge() {
    let mut rig = Rig::new(&Plug::Net { port: 0, mac: [0; 6] });
    rig.slot.set_link(false);
    assert!(rig.slot.line() && !rig.slot.take_edge());
    write(&mut rig.slot, 0x064, 1);
    assert!(rig.slot.line() && rig.slot.take_edge() && !rig.slot.take_edge());
    write(&mut rig.slot, 0x064, 2);
    assert!(!rig.slot.line() && !rig.slot.take_edge());
}
