use super::*;

mod virtio;

use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;

use spica_devices::fw_cfg::Items;
use spica_virtio::testing::{BUFFERS, RAM, Rig};

const HZ: u64 = map::COUNTER_HZ as u64;

fn machine() -> Virt {
    Virt::new(&MachineConfig { rtc_base_seconds: 1_700_000_000, virtio: Vec::new(), ..MachineConfig::default() })
}

fn write(machine: &mut Virt, pa: u32, value: u32, now: u64) {
    machine.mmio_write(GuestPa(pa), 4, value, now).unwrap();
}

fn read(machine: &mut Virt, pa: u32, now: u64) -> u32 {
    machine.mmio_read(GuestPa(pa), 4, now).unwrap()
}

/// Brings up the interrupt controller as Linux does, with these interrupts enabled.
fn with_interrupts(intids: &[u32]) -> Virt {
    let mut machine = machine();
    write(&mut machine, 0x0800_0000, 1, 0);
    for intid in intids {
        write(&mut machine, 0x0800_0100 + intid / 32 * 4, 1 << (intid % 32), 0);
        machine.mmio_write(GuestPa(0x0800_0400 + intid), 1, 0xa0, 0).unwrap();
    }
    write(&mut machine, 0x0801_0004, 0xf0, 0);
    write(&mut machine, 0x0801_0000, 1, 0);
    machine
}

fn acknowledge(machine: &mut Virt, now: u64) -> u32 {
    read(machine, 0x0801_000c, now)
}

#[test]
fn nothing_answers_between_the_devices() {
    let mut machine = machine();
    for pa in [0, 0x07ff_fffc, 0x0802_0000, 0x0900_1000, 0x0902_0000, 0x0a00_4000, 0x4000_0000, 0xffff_fffc] {
        assert_eq!(machine.mmio_read(GuestPa(pa), 4, 0), None, "{pa:#x}");
        assert_eq!(machine.mmio_write(GuestPa(pa), 4, 0, 0), None, "{pa:#x}");
    }
}

#[test]
fn misaligned_and_odd_sized_accesses_are_refused() {
    let mut machine = machine();
    for (pa, bytes) in [(0x0900_0fe1, 4), (0x0900_0fe2, 4), (0x0900_0fe1, 2), (0x0900_0fe0, 8), (0x0900_0fe0, 0)] {
        assert_eq!(machine.mmio_read(GuestPa(pa), bytes, 0), None, "{pa:#x} {bytes}");
    }
    assert_eq!(machine.mmio_read(GuestPa(0x0900_0fe0), 1, 0), Some(0x11));
    assert_eq!(machine.mmio_read(GuestPa(0x0900_0fe0), 2, 0), Some(0x11));
}

fn kept_of(machine: &Virt) -> Vec<u8> {
    let mut kept = Writer::default();
    machine.keep(&mut kept);
    kept.finish().unwrap()
}

#[test]
fn a_machine_that_was_kept_goes_on_in_another() {
    let mut first = with_interrupts(&[SPI_BASE + map::UART_SPI, PPI_BASE + map::TIMER_VIRTUAL_PPI]);
    write(&mut first, 0x0900_0038, 0x10 | 0x40, 10);
    first.timer_write(TimerReg::CntvCval, 5000, 10);
    first.timer_write(TimerReg::CntvCtl, 1, 10);
    assert!(first.console_input(b'x'));
    write(&mut first, 0x0900_0000, u32::from(b'y'), 20);
    write(&mut first, 0x0901_0004, 1_700_000_009, 20);
    write(&mut first, 0x0901_0010, 1, 20);
    let kept = kept_of(&first);

    // A day later, on another board.
    let config = MachineConfig { rtc_base_seconds: 1_700_086_400, ..MachineConfig::default() };
    let mut second = Virt::new(&config);
    second.restore(&kept, 20).unwrap();
    assert_eq!(kept_of(&second).len(), kept.len());
    assert_eq!((second.updated(), second.timers()), (20, first.timers()));
    assert_eq!(acknowledge(&mut second, 30), SPI_BASE + map::UART_SPI);
    write(&mut second, 0x0801_0010, SPI_BASE + map::UART_SPI, 30);
    assert_eq!(read(&mut second, 0x0900_0000, 30), u32::from(b'x'));
    let mut output = Vec::new();
    second.take_output(9, |byte| output.push(byte));
    assert_eq!(output, b"y");
    // The alarm's second has passed meanwhile.
    assert_eq!(read(&mut second, 0x0901_0000, 30), 1_700_086_400);
    assert_eq!(read(&mut second, 0x0901_0018, 30), 1);
    assert!(!second.irq_asserted());
    second.update(5000);
    assert_eq!(acknowledge(&mut second, 5000), PPI_BASE + map::TIMER_VIRTUAL_PPI);
}

#[test]
fn what_is_no_machine_of_this_kind_is_refused() {
    let mut kept = kept_of(&machine());
    let restore = |bytes: &[u8]| machine().restore(bytes, 0);
    assert!(restore(&kept).is_ok());
    assert_eq!(restore(&kept[..kept.len() - 1]).unwrap_err().0, "the state of a device that is none");
    kept.push(0);
    assert_eq!(restore(&kept).unwrap_err().0, "devices that this guest does not have");
    let flash = MachineConfig { flash: [1 << 18, 0], ..MachineConfig::default() };
    let mut with_flash = Virt::new(&flash);
    assert!(with_flash.restore(&kept[..kept.len() - 1], 0).is_err());
    let plugged =
        |plug| Virt::new(&MachineConfig { virtio: vec![spica_virtio::Plug::Rng, plug], ..Default::default() });
    let (mut first, mut second) = (plugged(spica_virtio::Plug::Rng), plugged(spica_virtio::Plug::Rng));
    assert_eq!((first.unkept(), machine().unkept()), (None, None));
    first.with_slot(1, Slot::poke);
    assert_eq!(first.unkept(), Some((1, Unkept::Busy)));
    let kept = kept_of(&first);
    assert_eq!(second.restore(&kept, 0), Ok(()));
    assert!(second.wants_service());
    let mut other = plugged(spica_virtio::Plug::Console { terminal: 0 });
    assert_eq!(other.restore(&kept, 0).unwrap_err().0, "a virtio device of another kind than this guest's");
}

#[test]
fn every_device_is_where_the_map_says() {
    let mut machine = machine();
    assert_eq!(read(&mut machine, 0x0800_0fe8, 0), 0x2b);
    assert_eq!(read(&mut machine, 0x0801_00fc, 0) & 0xf_0fff, 0x2_043b);
    assert_eq!(read(&mut machine, 0x0900_0fe0, 0), 0x11);
    assert_eq!(read(&mut machine, 0x0901_0fe0, 0), 0x31);
    assert_eq!(read(&mut machine, 0x0903_0fe0, 0), 0x61);
    for slot in 0..32 {
        assert_eq!(read(&mut machine, 0x0a00_0000 + slot * 0x200, 0), 0x7472_6976);
        assert_eq!(read(&mut machine, 0x0a00_0008 + slot * 0x200, 0), 0);
    }
}

#[test]
fn physical_timer_interrupts_at_its_deadline() {
    let mut machine = with_interrupts(&[30]);
    machine.timer_write(TimerReg::CntpTval, 1_000, 500);
    machine.timer_write(TimerReg::CntpCtl, 1, 500);
    assert_eq!(machine.next_deadline(), Some(1_500));
    machine.update(1_499);
    assert!(!machine.irq_asserted());
    machine.update(1_500);
    assert!(machine.irq_asserted());
    assert_eq!(machine.next_deadline(), None, "it has fired");
    assert_eq!(acknowledge(&mut machine, 1_510), 30);
    assert!(!machine.irq_asserted());
    // The handler moves the deadline, which takes the line down, and ends the interrupt.
    machine.timer_write(TimerReg::CntpTval, 1_000, 1_520);
    write(&mut machine, 0x0801_0010, 30, 1_530);
    assert!(!machine.irq_asserted());
    assert_eq!(machine.next_deadline(), Some(2_520));
    machine.update(2_520);
    assert!(machine.irq_asserted());
}

#[test]
fn virtual_timer_is_interrupt_27() {
    let mut machine = with_interrupts(&[27, 30]);
    machine.timer_write(TimerReg::CntvCval, 100, 0);
    machine.timer_write(TimerReg::CntvCtl, 1, 0);
    assert_eq!(acknowledge(&mut machine, 100), 27, "an access lets time pass as well");
}

/// What is built for QEMU's `virt` may know that without a device tree.
#[test]
fn the_physical_timers_interrupt_is_the_non_secure_one() {
    let mut machine = with_interrupts(&[29, 30]);
    machine.timer_write(TimerReg::CntpCtl, 1, 500);
    assert_eq!(acknowledge(&mut machine, 510), 30);
    assert_eq!(acknowledge(&mut machine, 510), 1023, "and no other");
}

#[test]
fn a_timer_written_into_the_past_interrupts_at_once() {
    let mut machine = with_interrupts(&[30]);
    machine.timer_write(TimerReg::CntpCtl, 1, 500);
    assert!(machine.irq_asserted());
    machine.timer_write(TimerReg::CntpCtl, 3, 501);
    assert!(!machine.irq_asserted(), "masked");
}

/// A tick that is all over is what it is step by step; what is no such tick changes nothing.
#[test]
fn a_tick_comes_round() {
    // The other timer's line is high or low, and the next second of the wall clock is far or has begun.
    let setting = |compare: u64| Setting { compare, control: 1 };
    let mut rounds = 0;
    for (first, other, next, now) in [27, 30].into_iter().flat_map(|first| {
        let others = [setting(90), setting(150), Setting::default()];
        others.into_iter().flat_map(move |other| {
            [(120, 140), (120, 160), (150, 140), (HZ, HZ - 1), (HZ - 1, HZ), (120, 99)]
                .map(|(a, b)| (first, other, a, b))
        })
    }) {
        let mut before = with_interrupts(&[first]);
        let both = |tick| if first == 27 { [other, setting(tick)] } else { [setting(tick), other] };
        before.catch_up(Done { timers: Some(both(100)), ..Done::default() });
        before.update(100);
        assert!(before.irq_asserted());
        let done = Done { acknowledged: true, timers: Some(both(next)), ended: Some(first) };
        let (mut at_once, mut by_steps) = (before.clone(), before.clone());
        let round = at_once.comes_round(done, now);
        if round {
            rounds += 1;
            assert_eq!(by_steps.catch_up(done), Some(first));
            by_steps.update(now);
            assert!(by_steps.irq_asserted());
        }
        assert_eq!(kept_of(&at_once), kept_of(&by_steps), "{first} {other:?} {next} {now}");
        assert_eq!(at_once.interrupt_outlook(), by_steps.interrupt_outlook());
        assert_eq!(at_once.next_deadline(), by_steps.next_deadline());
        assert_eq!(at_once.updated(), by_steps.updated());
        assert_eq!(round, next <= now && (101..HZ).contains(&now) && (other.compare != 150 || now < 150));
        // Not without each of the three.
        for done in [
            Done { acknowledged: false, ..done },
            Done { timers: None, ..done },
            Done { ended: None, ..done },
            Done { ended: Some(57 - first), ..done },
        ] {
            assert!(!before.clone().comes_round(done, now));
        }
    }
    assert_eq!(rounds, 10);
}

#[test]
fn console_input_interrupts_until_it_is_read() {
    let mut machine = with_interrupts(&[33]);
    write(&mut machine, 0x0900_0038, 0x50, 0);
    assert!(machine.console_input(b'x'));
    assert!(!machine.console_input(b'y'), "no FIFO yet: one character fits");
    assert!(machine.irq_asserted());
    assert_eq!(acknowledge(&mut machine, 0), 33);
    assert_eq!(read(&mut machine, 0x0900_0000, 0), u32::from(b'x'));
    write(&mut machine, 0x0801_0010, 33, 0);
    assert!(!machine.irq_asserted());
    assert!(machine.console_input(b'y') && machine.irq_asserted());
}

#[test]
fn console_output_comes_in_order() {
    let mut machine = machine();
    for &byte in b"Linux" {
        machine.mmio_write(GuestPa(0x0900_0000), 1, byte.into(), 0).unwrap();
    }
    let mut bytes = Vec::new();
    machine.take_output(usize::MAX, |byte| bytes.push(byte));
    assert_eq!(bytes, b"Linux");
    machine.take_output(usize::MAX, |byte| panic!("{byte:#x} again"));
}

#[test]
fn clock_runs_with_the_counter_and_its_alarm_is_a_deadline() {
    let mut machine = with_interrupts(&[34]);
    assert_eq!(read(&mut machine, 0x0901_0000, 0), 1_700_000_000);
    assert_eq!(read(&mut machine, 0x0901_0000, HZ - 1), 1_700_000_000);
    assert_eq!(read(&mut machine, 0x0901_0000, HZ), 1_700_000_001);
    assert_eq!(read(&mut machine, 0x0901_0000, 100 * HZ + 5), 1_700_000_100);
    write(&mut machine, 0x0901_0004, 1_700_000_200, 100 * HZ + 6);
    write(&mut machine, 0x0901_0010, 1, 100 * HZ + 7);
    assert_eq!(machine.next_deadline(), Some(200 * HZ));
    machine.timer_write(TimerReg::CntpCval, 150 * HZ, 101 * HZ);
    machine.timer_write(TimerReg::CntpCtl, 1, 101 * HZ);
    assert_eq!(machine.next_deadline(), Some(150 * HZ), "the earlier of the two");
    machine.update(200 * HZ - 1);
    assert!(!machine.irq_asserted());
    machine.update(200 * HZ);
    assert_eq!(acknowledge(&mut machine, 200 * HZ), 34);
}

#[test]
fn power_key_interrupts_on_both_edges() {
    let mut machine = with_interrupts(&[39]);
    write(&mut machine, 0x0903_0408, 1 << 3, 0);
    write(&mut machine, 0x0903_0410, 1 << 3, 0);
    machine.press_power_key();
    assert!(machine.irq_asserted());
    write(&mut machine, 0x0903_041c, 1 << 3, 0);
    assert!(!machine.irq_asserted());
    machine.release_power_key();
    assert!(machine.irq_asserted());
}

#[test]
fn report_names_who_waits() {
    let mut machine = with_interrupts(&[30]);
    machine.timer_write(TimerReg::CntpCtl, 1, 77);
    assert!(machine.console_input(b'x'));
    write(&mut machine, 0x0900_0038, 0x50, 77);
    let report = machine.to_string();
    assert!(report.contains("pending: 30 33\n"), "{report}");
    assert!(report.contains("pending but disabled: 33\n"), "{report}");
    assert!(report.contains("mask 0xf0"), "{report}");
    assert!(report.contains("physical timer: control 0x5, compare 0, counter 77"), "{report}");
}

#[test]
fn no_access_panics() {
    let mut machine = machine();
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let frames = [0x0800_0000u32, 0x0801_0000, 0x0900_0000, 0x0901_0000, 0x0903_0000, 0x0a00_0000];
    let regs = [
        TimerReg::Cntfrq,
        TimerReg::Cntkctl,
        TimerReg::CntpTval,
        TimerReg::CntpCtl,
        TimerReg::CntvTval,
        TimerReg::CntvCtl,
        TimerReg::CntpCval,
        TimerReg::CntvCval,
    ];
    let mut deadlines = 0;
    for _ in 0..200_000 {
        let pick = random();
        let pa = GuestPa(frames[pick as usize % frames.len()] + (pick >> 8) as u32 % 0x1100);
        let bytes = 1 << ((pick >> 40) % 3);
        let now = random() >> (pick >> 58);
        match pick >> 44 & 7 {
            0..3 => drop(machine.mmio_read(pa, bytes, now)),
            3..6 => drop(machine.mmio_write(pa, bytes, random() as u32, now)),
            6 => machine.timer_write(regs[(pick >> 50) as usize % regs.len()], random(), now),
            _ => drop(machine.console_input(pick as u8)),
        }
        let deadline = machine.next_deadline();
        assert!(deadline.is_none_or(|deadline| deadline > machine.updated), "a deadline lies ahead");
        deadlines += u32::from(deadline.is_some());
    }
    assert!(deadlines > 1000, "{deadlines} deadlines");
    machine.take_output(usize::MAX, drop);
}

#[test]
fn flash_is_two_banks_below_the_devices_or_none() {
    let mut without = machine();
    assert!(without.flash(GuestPa(0)).is_none());
    let mut with = Virt::new(&MachineConfig { flash: [0x10_0000; 2], ..MachineConfig::default() });
    let mut at = |pa| with.flash(GuestPa(pa)).map(|(bank, offset, _)| (bank, offset));
    assert_eq!(at(0x10), Some((0, 0x10)));
    assert_eq!(at(0x03ff_ffff), Some((0, 0x03ff_ffff)));
    assert_eq!(at(0x0400_0004), Some((1, 4)));
    assert_eq!(at(0x0800_0000), None);
    assert_eq!(with.mmio_read(GuestPa(0), 4, 0), None, "its contents are not the machine's");
}

#[test]
fn fw_cfg_is_where_qemu_has_it_and_the_guest_waits_for_its_dma() {
    let items = Items::new(None, &[("opt/a", &[5; 300_000])]);
    let config = MachineConfig { fw_cfg: items, ..MachineConfig::default() };
    let mut machine = Virt::new(&config);
    assert!(machine.has_device(GuestPa(0x0902_0004)));
    assert_eq!(machine.mmio_read(GuestPa(0x0902_0000), 4, 0), None, "its contents are not the machine's to read");
    for (pa, bytes) in [(0x0901_fffc, 4), (0x0902_0018, 4), (0x0902_0002, 4), (0x0902_0010, 8)] {
        assert_eq!(machine.fw_cfg_read(GuestPa(pa), bytes), None, "{pa:#x}");
        assert_eq!(machine.fw_cfg_write(GuestPa(pa), bytes, 0), None, "{pa:#x}");
    }
    assert_eq!(machine.fw_cfg_read(GuestPa(0x0902_0000), 4), Some(u32::from_le_bytes(*b"QEMU")));

    let mut rig = Rig::new(&spica_virtio::Plug::Rng);
    let (descriptor, to) = (RAM + 0x100, BUFFERS);
    let control = 0x0020_000au32;
    rig.ram.set(descriptor, &[control.to_be_bytes(), 300_000u32.to_be_bytes(), [0; 4], to.to_be_bytes()].concat());
    assert!(!machine.wants_service());
    assert_eq!(machine.fw_cfg_write(GuestPa(0x0902_0014), 4, descriptor.swap_bytes()), Some(()));
    let mut rounds = 0;
    while machine.holds_guest() {
        assert!(machine.wants_service());
        // Whoever kept it in the middle goes on from there.
        let kept = kept_of(&machine);
        machine = Virt::new(&config);
        assert_eq!(machine.restore(&kept, 0), Ok(()));
        assert!(machine.wants_service() && machine.holds_guest());
        machine.serve(&mut rig.ram, &mut rig.ends, &mut Work::new(100_000));
        rounds += 1;
    }
    assert!(rounds >= 3 && !machine.wants_service(), "{rounds} rounds");
    assert_eq!(rig.ram.get(descriptor, 4), [0; 4]);
    assert!(rig.ram.get(to, 300_000).iter().all(|&byte| byte == 5));

    // A reset forgets it.
    machine.fw_cfg_write(GuestPa(0x0902_0014), 4, descriptor.swap_bytes());
    assert!(!Virt::new(&config).holds_guest());
    // What was kept of a guest with other files is put back where the place in them can be.
    let mut other = Virt::new(&MachineConfig::default());
    assert_eq!(other.restore(&kept_of(&Virt::new(&config)), 0), Ok(()));
    machine.serve(&mut rig.ram, &mut rig.ends, &mut Work::new(1 << 20));
    assert!(other.restore(&kept_of(&machine), 0).is_err());
}
