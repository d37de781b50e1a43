//! Devices, as guests and their drivers reach them.

use super::bytes::Bytes;
use std::sync::LazyLock;

use spica_addr::GuestPa;
use spica_devices::Width;
use spica_machine::fw_cfg::{Boot, FRAME, Items};
use spica_machine::{GuestMachine, MachineConfig, TimerReg, Virt, map};
use spica_virtio::testing::hostile::{self, Act};
use spica_virtio::testing::{BUFFERS, Buffer, RAM, Rig};
use spica_virtio::{Dma as _, Plug, Work};

const SECTORS: u64 = 64;

fn plugs() -> [Plug; 6] {
    [
        Plug::Rng,
        Plug::Console { terminal: 0 },
        Plug::Block { disk: 0, sectors: SECTORS, read_only: false, serial: [0; 20] },
        Plug::Block { disk: 0, sectors: SECTORS, read_only: true, serial: [0; 20] },
        Plug::Net { port: 0, mac: [2, 0, 0, 0, 0, 1] },
        Plug::Balloon { pages: 256, base: GuestPa(RAM) },
    ]
}

/// Made once, for what is made is kept.
static ITEMS: LazyLock<Items> = LazyLock::new(|| {
    let boot = Boot { kernel: &[1; 9000], initrd: Some(&[2; 10]), command_line: "quiet".into() };
    Items::new(Some(boot), &[("opt/a", b"a"), ("opt/b", &[3; 5000])])
});

const TIMERS: [TimerReg; 10] = [
    TimerReg::Cntfrq,
    TimerReg::Cntkctl,
    TimerReg::CntpTval,
    TimerReg::CntpCtl,
    TimerReg::CntpCval,
    TimerReg::CntvTval,
    TimerReg::CntvCtl,
    TimerReg::CntvCval,
    TimerReg::Cntpct,
    TimerReg::Cntvct,
];

/// An address in some device's frame, mostly of a register.
fn address(bytes: &mut Bytes<'_>) -> GuestPa {
    let virtio = map::VIRTIO.0 + map::VIRTIO_FRAME * u32::from(bytes.byte() % 32);
    let frames = [map::GICD.0, map::GICC.0, map::UART.0, map::RTC.0, map::FW_CFG.0, map::GPIO.0, virtio, virtio];
    let frame = bytes.pick(&frames);
    let offset = u32::from(bytes.half()) % if frame == map::FW_CFG.0 { FRAME + 4 } else { 0x1100 };
    GuestPa(frame + if bytes.byte().is_multiple_of(8) { offset } else { offset & !3 })
}

/// A load, as the hypervisor makes it.
fn read(machine: &mut Virt, pa: GuestPa, bytes: u32, now: u64) {
    let _ = machine.fw_cfg_read(pa, bytes).or_else(|| machine.mmio_read(pa, bytes, now));
}

/// The same of a store.
fn write(machine: &mut Virt, pa: GuestPa, bytes: u32, value: u32, now: u64) {
    let _ = machine.fw_cfg_write(pa, bytes, value).or_else(|| machine.mmio_write(pa, bytes, value, now));
}

/// A descriptor for the firmware configuration device, and its address. Then the guest waits, as it does.
fn fw_cfg_dma(machine: &mut Virt, rig: &mut Rig, bytes: &mut Bytes<'_>) {
    let (at, length) = place(bytes);
    let key = if bytes.bit() { bytes.byte().into() } else { bytes.half() };
    let control = u32::from(key) << 16 | u32::from(bytes.byte());
    let (to, _) = place(bytes);
    let descriptor = [&control.to_be_bytes()[..], &length.to_be_bytes(), &to.to_be_bytes()].concat();
    if let Ok(at) = u32::try_from(at) {
        let _ = rig.ram.write(GuestPa(at), &descriptor);
    }
    write(machine, map::FW_CFG.wrapping_add(16), 4, ((at >> 32) as u32).swap_bytes(), 0);
    write(machine, map::FW_CFG.wrapping_add(20), 4, (at as u32).swap_bytes(), 0);
    wait_for_fw_cfg(machine, rig);
}

/// All of RAM has 256 pages, and the virtio devices have a share of the work.
fn wait_for_fw_cfg(machine: &mut Virt, rig: &mut Rig) {
    let mut rounds = 0;
    while machine.holds_guest() {
        machine.serve(&mut rig.ram, &mut rig.ends, &mut Work::new(1 << 16));
        rounds += 1;
        assert!(rounds < 100, "DMA without an end");
    }
}

/// See [`super::TARGETS`].
pub fn devices(data: &[u8]) {
    let bytes = &mut Bytes::new(data);
    let mut machine = Virt::new(&MachineConfig {
        rtc_base_seconds: bytes.double(),
        virtio: plugs().into(),
        fw_cfg: *ITEMS,
        ..MachineConfig::default()
    });
    // RAM and the other ends of the virtio devices.
    let mut rig = Rig::new(&Plug::Rng);
    let mut now = 0u64;
    while !bytes.is_empty() {
        match bytes.byte() % 17 {
            0..=3 => read(&mut machine, address(bytes), bytes.pick(&[4, 4, 4, 1, 2, 8, 3]), now),
            4..=9 => {
                write(&mut machine, address(bytes), bytes.pick(&[4, 4, 4, 1, 2, 8, 3]), bytes.value(), now);
                wait_for_fw_cfg(&mut machine, &mut rig);
            }
            10 => drop(machine.timer_read(bytes.pick(&TIMERS), now)),
            11 => machine.timer_write(bytes.pick(&TIMERS), u64::from(bytes.value()) << (bytes.byte() % 40), now),
            12 => {
                // Time passes, seldom for long; it never goes back.
                now = now.saturating_add(u64::from(bytes.half()) << (bytes.byte() % 48));
                machine.update(now);
                assert!(machine.next_deadline().is_none_or(|deadline| deadline > now), "a deadline that has passed");
            }
            13 => drop(machine.console_input(bytes.byte())),
            14 => machine.serve(&mut rig.ram, &mut rig.ends, &mut Work::new(u32::from(bytes.half()))),
            15 => fw_cfg_dma(&mut machine, &mut rig, bytes),
            _ if bytes.bit() => machine.press_power_key(),
            _ => machine.release_power_key(),
        }
        // What was said of the lines stays so while nothing happens.
        let lines = (machine.irq_asserted(), machine.fiq_asserted());
        machine.update(now);
        assert_eq!(lines, (machine.irq_asserted(), machine.fiq_asserted()), "the lines were out of date");
    }
    machine.take_output(usize::MAX, drop);
}

/// Mostly RAM, sometimes its edges, seldom anything.
fn place(bytes: &mut Bytes<'_>) -> (u64, u32) {
    let at = match bytes.byte() % 8 {
        0 => bytes.double(),
        1 => u64::from(RAM) + 0x10_0000 - u64::from(bytes.byte() % 64),
        _ => u64::from(BUFFERS) + u64::from(bytes.half()),
    };
    (at, bytes.value())
}

fn act(bytes: &mut Bytes<'_>) -> Act {
    let width = bytes.pick(&[Width::Word, Width::Word, Width::Half, Width::Byte]);
    let queue = usize::from(bytes.byte() % 3);
    match bytes.byte() % 16 {
        0 => Act::Read(u32::from(bytes.half()), width),
        1 => Act::Write(u32::from(bytes.byte()) * 4, width, bytes.value()),
        2 => Act::Write(u32::from(bytes.half()), width, bytes.word()),
        3 => Act::Start(if bytes.bit() { u64::MAX } else { bytes.double() }, 1 << (2 + bytes.byte() % 3)),
        4..=7 => Act::Good(queue, bytes.byte(), u32::from(bytes.half() % 6000), bytes.bit()),
        8 => {
            let count = 1 + bytes.byte() % 4;
            let buffer = |bytes: &mut Bytes<'_>| match (place(bytes), bytes.bit()) {
                ((at, len), true) => Buffer::Write(at, len),
                ((at, len), false) => Buffer::Read(at, len),
            };
            Act::Put(queue, (0..count).map(|_| buffer(bytes)).collect(), bytes.bit())
        }
        9 | 10 => {
            let (flags, next) = (u16::from(bytes.byte() % 8), u16::from(bytes.byte() % 20));
            Act::Descriptor(queue, u16::from(bytes.byte() % 16), place(bytes), flags, next, bytes.bit())
        }
        11 => {
            let at = match bytes.byte() % 3 {
                0 => RAM + queue as u32 * 0x4000 + u32::from(bytes.byte()),
                1 => RAM + queue as u32 * 0x4000 + 0x2000 + u32::from(bytes.byte() % 0x30),
                _ => BUFFERS + u32::from(bytes.half() % 0x2000),
            };
            Act::Memory(at, bytes.word().to_le_bytes().to_vec())
        }
        12 | 13 => Act::World(bytes.byte()),
        _ => Act::Serve(bytes.pick(&[1, 100, 5000, 1 << 20])),
    }
}

/// See [`super::TARGETS`].
pub fn virtio(data: &[u8]) {
    let bytes = &mut Bytes::new(data);
    let mut rig = Rig::new(&plugs()[usize::from(bytes.byte()) % plugs().len()]);
    for _ in 0..200 {
        if bytes.is_empty() {
            break;
        }
        let act = act(bytes);
        hostile::perform(&mut rig, act);
    }
    hostile::check(&mut rig);
}

/// Bytes with a bit of each act.
pub fn seeds() -> Vec<Vec<u8>> {
    super::code::noise(8, 400)
}
