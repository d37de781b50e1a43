//! Queues by means of the simplest device, the entropy device, whose chains are one request each.

use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;

use crate::testing::driver::{INDIRECT, NEXT, WRITE};
use crate::testing::{BUFFERS, Buffer, RAM, Rig, read, write};
use crate::{Malformed, Plug, features};

const NO_EVENT_IDX: u64 = !features::EVENT_IDX;

fn rig(features: u64) -> Rig {
    let mut rig = Rig::with(&Plug::Rng, features, 8);
    rig.ends.entropy.extend((0..=255).cycle().take(10_000));
    rig
}

/// The device gave up, for this reason, told the driver so by an interrupt, and does nothing more until it is reset.
fn assert_malformed(mut rig: Rig, why: Malformed) {
    assert!(rig.needs_reset(), "{why:?}");
    assert_eq!(rig.interrupt() & 2, 2, "{why:?}");
    let report = rig.slot.to_string();
    assert!(report.ends_with(&why.to_string()), "{report}: not {why}");
    let used = rig.ram.get_u16(rig.driver.queues[0].device + 2);
    rig.request(0, &[Buffer::Write(BUFFERS.into(), 8)]);
    assert_eq!(rig.ram.get_u16(rig.driver.queues[0].device + 2), used, "{why:?}");
    assert_eq!(rig.interrupt(), 0);
    rig = Rig { driver: crate::testing::Driver::start(&mut rig.slot, &mut rig.ram, u64::MAX, 8), ..rig };
    assert!(!rig.needs_reset());
    rig.request(0, &[Buffer::Write(BUFFERS.into(), 8)]);
    assert_eq!(rig.used(0), Some((0, 8)), "works again after a reset");
}

/// Descriptors, written as they are, with the first one made available.
fn descriptors(features: u64, descriptors: &[((u64, u32), u16, u16)]) -> Rig {
    let mut rig = rig(features);
    for (index, &(place, flags, next)) in descriptors.iter().enumerate() {
        rig.driver.queues[0].descriptor(&mut rig.ram, index as u16, place, flags, next);
    }
    rig.driver.queues[0].offer(&mut rig.ram, 0);
    rig.kick(0);
    rig
}

const B: u64 = BUFFERS as u64;
const TABLE: u64 = B + 0x1000;

#[test]
fn a_chain_is_used_and_the_driver_told() {
    for features in [NO_EVENT_IDX, u64::MAX] {
        let mut rig = rig(features);
        let head = rig.request(0, &[Buffer::Write(B, 3), Buffer::Write(B + 0x800, 5)]);
        assert_eq!(rig.used(0), Some((head, 8)));
        assert_eq!(rig.used(0), None);
        assert_eq!(rig.ram.get(BUFFERS, 4), [0, 1, 2, 0]);
        assert_eq!(rig.ram.get(BUFFERS + 0x800, 6), [3, 4, 5, 6, 7, 0]);
        assert_eq!(rig.interrupt(), 1);
    }
}

#[test]
fn indices_wrap_at_the_ring_and_at_16_bits() {
    let mut rig = rig(u64::MAX);
    for round in 0..70_000u32 {
        rig.ends.entropy.push_back(0);
        let queue = &mut rig.driver.queues[0];
        // The driver wants to be told of each.
        rig.ram.set(queue.driver + 4 + 16, &(round as u16).to_le_bytes());
        let head = rig.request(0, &[Buffer::Write(B, 1)]);
        assert_eq!(rig.used(0), Some((head, 1)), "{round}");
        assert_eq!(rig.interrupt(), 1, "{round}");
    }
    assert!(!rig.needs_reset());
}

#[test]
fn a_full_ring_is_used_in_order() {
    let mut rig = rig(u64::MAX);
    let heads: Vec<u16> = (0..8).map(|n| rig.driver.queues[0].put(&mut rig.ram, &[Buffer::Write(B + n, 1)])).collect();
    rig.kick(0);
    let used: Vec<u16> = core::iter::from_fn(|| rig.used(0)).map(|(head, _)| head).collect();
    assert_eq!(used, heads);
    assert_eq!(rig.ram.get(BUFFERS, 8), [0, 1, 2, 3, 4, 5, 6, 7]);
}

#[test]
fn interrupts_come_where_the_driver_wants_them() {
    // By flag.
    let mut flag = rig(NO_EVENT_IDX);
    flag.ram.set(flag.driver.queues[0].driver, &1u16.to_le_bytes());
    flag.request(0, &[Buffer::Write(B, 1)]);
    assert_eq!((flag.used(0).is_some(), flag.interrupt()), (true, 0));
    flag.ram.set(flag.driver.queues[0].driver, &0u16.to_le_bytes());
    flag.request(0, &[Buffer::Write(B, 1)]);
    assert_eq!(flag.interrupt(), 1);
    // By index: at the third chain, and not for those before and after.
    let mut event = rig(u64::MAX);
    let place = event.driver.queues[0].driver + 4 + 16;
    event.ram.set(place, &2u16.to_le_bytes());
    let told: Vec<u32> = (0..5)
        .map(|_| {
            event.request(0, &[Buffer::Write(B, 1)]);
            event.interrupt()
        })
        .collect();
    assert_eq!(told, [0, 0, 1, 0, 0]);
    // One interrupt for several chains, one of which is the one named.
    event.ram.set(place, &6u16.to_le_bytes());
    for _ in 0..4 {
        event.driver.queues[0].put(&mut event.ram, &[Buffer::Write(B, 1)]);
    }
    event.kick(0);
    assert_eq!(event.interrupt(), 1);
}

#[test]
fn the_device_asks_for_the_next_kick() {
    let mut rig = rig(u64::MAX);
    for n in 1..=20u16 {
        rig.request(0, &[Buffer::Write(B, 1)]);
        assert_eq!(rig.ram.get_u16(rig.driver.queues[0].device + 4 + 8 * 8), n);
    }
}

#[test]
fn an_indirect_table_is_a_chain() {
    let mut rig = rig(u64::MAX);
    rig.driver.queues[0].put_indirect(&mut rig.ram, TABLE as u32, &[Buffer::Write(B, 2), Buffer::Write(B + 9, 2)]);
    rig.kick(0);
    assert_eq!(rig.used(0), Some((0, 4)));
    // Behind direct descriptors, and with the flag of writing, which means nothing there.
    let mut rig = self::rig(u64::MAX);
    rig.ram.set(TABLE as u32, &crate::testing::driver::encode((B + 1, 2), WRITE, 0));
    rig.driver.queues[0].descriptor(&mut rig.ram, 0, (B, 1), WRITE | NEXT, 1);
    rig.driver.queues[0].descriptor(&mut rig.ram, 1, (TABLE, 16), INDIRECT | WRITE, 0);
    rig.driver.queues[0].offer(&mut rig.ram, 0);
    rig.kick(0);
    assert_eq!(rig.used(0), Some((0, 3)));
}

#[test]
fn every_malformed_chain_is_refused() {
    let table_of = |bytes| ((TABLE, bytes), INDIRECT, 0);
    let cases: Vec<(Vec<_>, Malformed)> = vec![
        (vec![((B, 0), WRITE, 0)], Malformed::EmptyBuffer),
        (vec![((0, 4), WRITE, 0)], Malformed::Address),
        (vec![((u64::from(RAM) - 1, 4), WRITE, 0)], Malformed::Address),
        (vec![((u64::from(RAM) + 0xf_fffe, 4), WRITE, 0)], Malformed::Address),
        (vec![((B | 1 << 32, 4), WRITE, 0)], Malformed::Address),
        (vec![((u64::MAX, u32::MAX), WRITE, 0)], Malformed::Address),
        (vec![((B, u32::MAX), WRITE, 0)], Malformed::Address),
        (vec![((B, 4), WRITE | NEXT, 0)], Malformed::ChainLength),
        (vec![((B, 4), WRITE | NEXT, 1), ((B, 4), WRITE | NEXT, 0)], Malformed::ChainLength),
        (vec![((B, 4), WRITE | NEXT, 8)], Malformed::DescriptorIndex(8)),
        (vec![((B, 4), WRITE | NEXT, 0xffff)], Malformed::DescriptorIndex(0xffff)),
        (vec![((B, 4), WRITE | NEXT, 1), ((B, 4), 0, 0)], Malformed::ReadAfterWrite),
        (vec![((TABLE, 16), INDIRECT | NEXT, 1)], Malformed::IndirectFlags),
        (vec![table_of(0)], Malformed::IndirectLength(0)),
        (vec![table_of(17)], Malformed::IndirectLength(17)),
        (vec![table_of(u32::MAX - 15)], Malformed::ChainLength),
        (vec![((8, 16), INDIRECT, 0)], Malformed::Address),
        (vec![((u64::MAX - 15, 16), INDIRECT, 0)], Malformed::Address),
        (vec![table_of(16)], Malformed::EmptyBuffer),
        (vec![((B, 4), 0, 0)], Malformed::Request),
    ];
    for (chain, why) in cases {
        assert_malformed(descriptors(u64::MAX, &chain), why);
    }
    let without = descriptors(!features::INDIRECT_DESC, &[table_of(16)]);
    assert_malformed(without, Malformed::IndirectFlags);
}

#[test]
fn every_malformed_indirect_table_is_refused() {
    let table = |entries: &[((u64, u32), u16, u16)]| {
        let mut rig = rig(u64::MAX);
        for (n, &(place, flags, next)) in entries.iter().enumerate() {
            let bytes = crate::testing::driver::encode(place, flags, next);
            rig.ram.set(TABLE as u32 + n as u32 * 16, &bytes);
        }
        let len = entries.len() as u32 * 16;
        rig.driver.queues[0].descriptor(&mut rig.ram, 0, (TABLE, len), INDIRECT, 0);
        rig.driver.queues[0].offer(&mut rig.ram, 0);
        rig.kick(0);
        rig
    };
    assert_malformed(table(&[((B, 1), WRITE | NEXT, 0)]), Malformed::ChainLength);
    assert_malformed(table(&[((B, 1), WRITE | NEXT, 1)]), Malformed::DescriptorIndex(1));
    assert_malformed(table(&[((TABLE, 16), INDIRECT, 0)]), Malformed::IndirectFlags);
    assert_malformed(table(&[((B, 1), WRITE | NEXT, 1), ((B, 1), 0, 0)]), Malformed::ReadAfterWrite);
    // As long as the device's queue, which is 8, and one more.
    let mut long: Vec<_> = (1..=8).map(|next| ((B, 1), WRITE | NEXT, next)).collect();
    assert_malformed(table(&[&long[..], &[((B, 1), WRITE, 0)]].concat()), Malformed::ChainLength);
    long[7].1 = WRITE;
    assert_eq!(table(&long).used(0), Some((0, 8)));
}

#[test]
fn a_chain_of_four_gibibytes_is_refused() {
    // Guest memory that says yes to everything: nobody has so much of it to test with.
    struct Endless(crate::testing::Ram);
    impl crate::Dma for Endless {
        fn read(&self, pa: spica_addr::GuestPa, into: &mut [u8]) -> Result<(), crate::OutsideRam> {
            self.0.read(pa, into)
        }
        fn write(&mut self, pa: spica_addr::GuestPa, from: &[u8]) -> Result<(), crate::OutsideRam> {
            self.0.write(pa, from)
        }
        fn is_ram(&self, _pa: spica_addr::GuestPa, _len: u32) -> bool {
            true
        }
    }
    let mut rig = rig(u64::MAX);
    let ends = [((0, 0xc000_0000), WRITE | NEXT, 1), ((0, 0x4000_0000), WRITE, 0)];
    for (index, (place, flags, next)) in ends.into_iter().enumerate() {
        rig.driver.queues[0].descriptor(&mut rig.ram, index as u16, place, flags, next);
    }
    rig.driver.queues[0].offer(&mut rig.ram, 0);
    rig.driver.kick(&mut rig.slot, 0);
    let mut endless = Endless(rig.ram.clone());
    rig.slot.serve(&mut endless, &mut rig.ends, &mut crate::Work::new(1 << 20));
    assert_malformed(rig, Malformed::ChainBytes);
}

#[test]
fn an_available_ring_that_lies_is_refused() {
    let mut jump = rig(u64::MAX);
    jump.ram.set(jump.driver.queues[0].driver + 2, &9u16.to_le_bytes());
    jump.kick(0);
    assert_malformed(jump, Malformed::AvailableIndex);
    let mut back = rig(u64::MAX);
    back.request(0, &[Buffer::Write(B, 1)]);
    back.ram.set(back.driver.queues[0].driver + 2, &0u16.to_le_bytes());
    back.kick(0);
    assert_malformed(back, Malformed::AvailableIndex);
    for head in [8, 0x7fff, 0xffff] {
        let mut wrong = rig(u64::MAX);
        wrong.driver.queues[0].offer(&mut wrong.ram, head);
        wrong.kick(0);
        assert_malformed(wrong, Malformed::DescriptorIndex(head));
    }
}

/// Sets queue 0 up with one register different, between a reset and DRIVER_OK.
fn set_up(register: u32, value: u32) -> Rig {
    let mut rig = rig(u64::MAX);
    let queue = rig.driver.queues[0].clone();
    for status in [0, 3] {
        write(&mut rig.slot, 0x070, status);
    }
    for (half, bits) in [(0, 0), (1, 1)] {
        write(&mut rig.slot, 0x024, half);
        write(&mut rig.slot, 0x020, bits);
    }
    write(&mut rig.slot, 0x070, 11);
    let registers = [(0x038, 8), (0x080, queue.table), (0x090, queue.driver), (0x0a0, queue.device)];
    for (register, value) in registers.into_iter().chain([(register, value), (0x044, 1), (0x070, 15)]) {
        write(&mut rig.slot, register, value);
    }
    rig.driver.queues[0].put(&mut rig.ram, &[Buffer::Write(B, 1)]);
    rig.kick(0);
    rig
}

#[test]
fn a_queue_that_is_set_up_wrongly_is_refused() {
    assert_eq!(set_up(0x038, 8).used(0), Some((0, 1)));
    for size in [0, 3, 16, 0x1_0000, 0x1_0008] {
        assert_malformed(set_up(0x038, size), Malformed::QueueSize(size));
    }
    for (register, low) in [(0x080, RAM + 8), (0x090, RAM + 1), (0x0a0, RAM + 2)] {
        assert_malformed(set_up(register, low), Malformed::RingAlignment);
    }
    // Outside RAM: before it, behind it, straddling its end, above 4 GiB.
    for register in [0x080, 0x090, 0x0a0] {
        assert_malformed(set_up(register, 0x1000), Malformed::Address);
        assert_malformed(set_up(register, 0xffff_fff0), Malformed::Address);
        assert_malformed(set_up(register + 4, 1), Malformed::Address);
    }
    assert_malformed(set_up(0x0a0, RAM + 0xf_fffc), Malformed::Address);
}

#[test]
fn a_ready_queue_keeps_its_place() {
    let mut rig = rig(u64::MAX);
    for register in [0x038, 0x080, 0x084, 0x090, 0x0a0] {
        write(&mut rig.slot, register, 4);
    }
    rig.request(0, &[Buffer::Write(B, 1)]);
    assert_eq!(rig.used(0), Some((0, 1)));
    // Not ready: nothing happens.
    write(&mut rig.slot, 0x030, 0);
    write(&mut rig.slot, 0x044, 0);
    assert_eq!(read(&mut rig.slot, 0x044), 0);
    rig.request(0, &[Buffer::Write(B, 1)]);
    assert_eq!((rig.used(0), rig.needs_reset()), (None, false));
}

#[test]
fn a_queue_is_reset_by_itself() {
    let mut rig = rig(u64::MAX);
    rig.ends.entropy.clear();
    rig.request(0, &[Buffer::Write(B, 1)]);
    write(&mut rig.slot, 0x030, 0);
    write(&mut rig.slot, 0x0c0, 1);
    assert_eq!((read(&mut rig.slot, 0x0c0), read(&mut rig.slot, 0x044)), (0, 0));
    rig.ends.entropy.push_back(1);
    rig.poke();
    assert_eq!(rig.used(0), None, "what was open is forgotten");
    assert!(!rig.needs_reset());
}
