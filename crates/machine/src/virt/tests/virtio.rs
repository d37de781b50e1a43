//! Virtio devices in the machine: where they are, how their interrupts come, and who is served when.

use super::*;
use crate::virtio::Plug;
use spica_virtio::testing::driver::WRITE;
use spica_virtio::testing::{Ends, Ram, Rings};

const RAM: u32 = map::RAM.0;

/// A machine with two entropy devices in slots 0 and 1, whose drivers are ready with one queue each. SPI 16 and 17 are
/// enabled, as edge-triggered: ICFGR has two bits for each.
fn with_devices() -> (Virt, Ram, [Rings; 2]) {
    let mut machine = Virt::new(&MachineConfig {
        rtc_base_seconds: 0,
        virtio: vec![Plug::Rng, Plug::Rng],
        ..MachineConfig::default()
    });
    let mut ram = Ram::new(RAM, 0x1_0000);
    write(&mut machine, 0x0800_0000, 1, 0);
    write(&mut machine, 0x0800_0c0c, 0b1010, 0);
    write(&mut machine, 0x0800_0104, 0b11 << 16, 0);
    write(&mut machine, 0x0801_0004, 0xf0, 0);
    write(&mut machine, 0x0801_0000, 1, 0);
    let rings = [0, 1].map(|slot| {
        let table = RAM + slot * 0x4000;
        let rings = Rings::new(0, table, 8);
        let registers = [
            (0x070, 3),
            (0x024, 1),
            (0x020, 1),
            (0x070, 11),
            (0x038, 8),
            (0x080, rings.table),
            (0x090, rings.driver),
            (0x0a0, rings.device),
            (0x044, 1),
            (0x070, 15),
        ];
        for (register, value) in registers {
            write(&mut machine, 0x0a00_0000 + slot * 0x200 + register, value, 0);
        }
        rings
    });
    machine.serve(&mut ram, &mut Ends::default(), &mut Work::new(1000));
    assert!(!machine.wants_service() && !machine.irq_asserted());
    (machine, ram, rings)
}

/// Puts a buffer of 8 bytes into a queue, and kicks.
fn ask(machine: &mut Virt, ram: &mut Ram, rings: &mut Rings, slot: u32) {
    rings.descriptor(ram, 0, (u64::from(RAM) + 0xf000, 8), WRITE, 0);
    rings.offer(ram, 0);
    write(machine, 0x0a00_0050 + slot * 0x200, 0, 0);
}

#[test]
fn slots_are_filled_from_the_first() {
    let (mut machine, ..) = with_devices();
    assert_eq!([0, 1, 2, 31].map(|slot| read(&mut machine, 0x0a00_0008 + slot * 0x200, 0)), [4, 4, 0, 0]);
    let report = machine.to_string();
    assert!(
        report.ends_with("\nvirtio 0: device 4, status 0xf, line false\nvirtio 1: device 4, status 0xf, line false")
    );
    let mut many =
        Virt::new(&MachineConfig { rtc_base_seconds: 0, virtio: vec![Plug::Rng; 40], ..MachineConfig::default() });
    assert_eq!(read(&mut many, 0x0a00_3e08, 0), 4);
    assert_eq!(many.mmio_read(GuestPa(0x0a00_4008), 4, 0), None);
}

#[test]
fn a_kick_is_served_later_and_interrupts() {
    let (mut machine, mut ram, mut rings) = with_devices();
    let mut ends = Ends::default();
    ends.entropy.extend([1; 100]);
    ask(&mut machine, &mut ram, &mut rings[1], 1);
    assert!(machine.wants_service() && !machine.irq_asserted());
    assert_eq!(rings[1].used(&ram), None, "the access itself touches no memory");
    machine.serve(&mut ram, &mut ends, &mut Work::new(10_000));
    assert!(!machine.wants_service());
    assert_eq!(rings[1].used(&ram), Some((0, 8)));
    assert_eq!(acknowledge(&mut machine, 0), 32 + 17);
    // The line stays high until the driver has acknowledged the cause, but an edge is an edge.
    assert!(!machine.irq_asserted());
    write(&mut machine, 0x0a00_0264, 1, 0);
    write(&mut machine, 0x0801_0010, 32 + 17, 0);
    ask(&mut machine, &mut ram, &mut rings[1], 1);
    machine.serve(&mut ram, &mut ends, &mut Work::new(10_000));
    assert_eq!(acknowledge(&mut machine, 0), 32 + 17);
}

#[test]
fn a_poke_wakes_a_device_that_waits() {
    let (mut machine, mut ram, mut rings) = with_devices();
    let mut ends = Ends::default();
    ask(&mut machine, &mut ram, &mut rings[0], 0);
    machine.serve(&mut ram, &mut ends, &mut Work::new(10_000));
    assert!(!machine.wants_service() && !machine.irq_asserted());
    ends.entropy.extend([1; 100]);
    machine.with_slot(0, Slot::poke);
    assert!(machine.wants_service());
    machine.serve(&mut ram, &mut ends, &mut Work::new(10_000));
    assert!(machine.irq_asserted());
}

#[test]
fn devices_take_turns_when_work_is_short() {
    let (mut machine, mut ram, mut rings) = with_devices();
    let mut ends = Ends::default();
    ends.entropy.extend([1; 10_000]);
    for round in 1..=8 {
        for slot in [0, 1] {
            for _ in 0..4 {
                ask(&mut machine, &mut ram, &mut rings[slot], slot as u32);
            }
        }
        // Enough for one request at a time.
        let mut used = [0, 0];
        while machine.wants_service() {
            machine.serve(&mut ram, &mut ends, &mut Work::new(1));
            for slot in [0, 1] {
                used[slot] += core::iter::from_fn(|| rings[slot].used(&ram)).count();
            }
            assert!(used[0].abs_diff(used[1]) <= 1, "{round}: {used:?}");
        }
        assert_eq!(used, [4, 4]);
    }
}

#[test]
fn a_cause_that_was_overlooked_interrupts_again() {
    let mut machine = Virt::new(&MachineConfig {
        rtc_base_seconds: 0,
        virtio: vec![Plug::Net { port: 0, mac: [0; 6] }],
        ..MachineConfig::default()
    });
    write(&mut machine, 0x0800_0000, 1, 0);
    write(&mut machine, 0x0800_0c0c, 0b10, 0);
    write(&mut machine, 0x0800_0104, 1 << 16, 0);
    write(&mut machine, 0x0801_0004, 0xf0, 0);
    write(&mut machine, 0x0801_0000, 1, 0);
    for (register, value) in [(0x070, 3), (0x024, 1), (0x020, 1), (0x070, 11), (0x070, 15)] {
        write(&mut machine, 0x0a00_0000 + register, value, 0);
    }
    machine.with_slot(0, |slot| slot.set_link(false));
    assert_eq!(acknowledge(&mut machine, 0), 48);
    // A driver that acknowledges something else than what is there.
    write(&mut machine, 0x0a00_0064, 1, 0);
    write(&mut machine, 0x0801_0010, 48, 0);
    assert_eq!(acknowledge(&mut machine, 0), 48);
    write(&mut machine, 0x0a00_0064, 2, 0);
    write(&mut machine, 0x0801_0010, 48, 0);
    assert!(!machine.irq_asserted());
}

#[test]
fn no_access_to_a_device_panics() {
    let plugs = vec![
        Plug::Rng,
        Plug::Console { terminal: 0 },
        Plug::Block { disk: 0, sectors: 64, read_only: false, serial: [0; 20] },
        Plug::Net { port: 0, mac: [2, 0, 0, 0, 0, 1] },
        Plug::Balloon { pages: 16, base: map::RAM },
    ];
    let mut machine = Virt::new(&MachineConfig { rtc_base_seconds: 0, virtio: plugs, ..MachineConfig::default() });
    let (mut ram, mut ends) = (Ram::new(RAM, 0x1_0000), Ends::new(64));
    let mut state = 0x2545_f491_4f6c_dd1du64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let started = [(0x070, 3), (0x024, 1), (0x020, 1), (0x070, 11), (0x070, 15)];
    for _ in 0..100_000 {
        let pick = random();
        let slot = map::VIRTIO.0 + (pick >> 32) as u32 % 6 * map::VIRTIO_FRAME;
        match pick % 8 {
            0 => drop(machine.mmio_read(GuestPa(slot + (pick >> 8) as u32 % 0x200), 1 << (pick >> 40 & 3), 0)),
            1..4 => drop(machine.mmio_write(GuestPa(slot + (pick >> 8) as u32 % 0x50 * 4), 4, random() as u32 % 16, 0)),
            4 => drop(machine.mmio_write(GuestPa(slot + 0x80 + (pick >> 8) as u32 % 9 * 4), 4, RAM + 0x1000, 0)),
            5 => started.iter().for_each(|&(register, value)| write(&mut machine, slot + register, value, 0)),
            6 => ram.set(RAM + 0x1000, &random().to_le_bytes()),
            _ => machine.with_slot((pick >> 32) as usize % 32, Slot::poke),
        }
        machine.serve(&mut ram, &mut ends, &mut Work::new(pick as u32 % 4096));
    }
    assert!(!machine.to_string().is_empty());
}
