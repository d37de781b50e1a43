//! What was written down of a device makes another one like it, and what no guest can bring a device to is refused.

use std::vec::Vec;

use crate::fw_cfg::{Boot, Items, Memory};
use crate::gic::{CpuInterface, Distributor};
use crate::robustness::{Random, access};
use crate::{Flash, FwCfg, GenericTimer, Gic, Mmio, Pl011, Pl031, Pl061, State, TimerReg, Width};

fn bytes(state: &impl State) -> Vec<u8> {
    postcard::to_allocvec(state).unwrap()
}

/// Puts what `device` is into `fresh`, and gives that.
fn put<T: State>(device: &T, mut fresh: T) -> T {
    let kept = bytes(device);
    fresh.restore(postcard::from_bytes(&kept).unwrap()).unwrap();
    assert_eq!(bytes(&fresh), kept);
    fresh
}

/// Memory that reads as this word everywhere.
struct Same(u32);

impl Memory for Same {
    fn read(&self, _at: u32, into: &mut [u8]) -> bool {
        into.chunks_mut(4).for_each(|word| word.copy_from_slice(&self.0.to_le_bytes()[..word.len()]));
        true
    }

    fn write(&mut self, _at: u32, _from: &[u8]) -> bool {
        !self.0.is_multiple_of(16)
    }
}

/// Whatever accesses bring the devices to, another device goes on from there as they do.
#[test]
fn a_device_that_was_put_back_goes_on_as_the_first() {
    let random = &mut Random(3);
    let (mut uart, mut rtc, mut gpio, mut gic) = (Pl011::new(), Pl031::new(1000), Pl061::new(), Gic::new());
    let mut timer = GenericTimer::new(62_500_000);
    let mut flash = Flash::new(4 << 18);
    let boot = Boot { kernel: &[3; 100], initrd: None, command_line: "quiet".into() };
    let items = Items::new(Some(boot), &[("opt/file", &[1; 50])]);
    let mut fw_cfg = FwCfg::new(items);
    const TIMER: [TimerReg; 6] = [
        TimerReg::Cntkctl,
        TimerReg::CntpTval,
        TimerReg::CntpCtl,
        TimerReg::CntvCtl,
        TimerReg::CntpCval,
        TimerReg::CntvCval,
    ];
    for round in 0..20_000u64 {
        access(&mut uart, 0x50, random);
        let _accepted = uart.receive(round as u8);
        access(&mut rtc, 0x40, random);
        rtc.set_time(1000 + round / 100);
        access(&mut gpio, 0x440, random);
        access(&mut Distributor(&mut gic), 0x1000, random);
        access(&mut CpuInterface(&mut gic), 0x40, random);
        gic.set_line(random.next() % 300, random.next() & 1 != 0);
        timer.write(TIMER[random.next() as usize % TIMER.len()], random.next().into(), round);
        flash.write(
            random.next() % (4 << 18),
            Width::Word,
            [0x20, 0xd0, 0xe8, 0x40, 0x60, 0xff][random.next() as usize % 6],
        );
        flash.go_on();
        fw_cfg.write(8, Width::Half, (random.next() % 0x22) << 8);
        access(&mut fw_cfg, 0x18, random);
        if random.next() & 1 == 0 {
            fw_cfg.step(&mut Same(random.next()));
        }
        if round % 37 == 0 {
            uart.take_output(random.next() as usize % 20, drop);
        }
        if round % 50 != 0 {
            continue;
        }
        let again = put(&gic, Gic::new());
        assert_eq!((again.irq_asserted(), again.fiq_asserted()), (gic.irq_asserted(), gic.fiq_asserted()), "{round}");
        assert_eq!(again.signalled(), gic.signalled(), "{round}");
        gic = again;
        uart = put(&uart, Pl011::new());
        rtc = put(&rtc, Pl031::new(1000 + round / 100));
        gpio = put(&gpio, Pl061::new());
        timer = put(&timer, GenericTimer::new(1));
        flash = put(&flash, Flash::new(4 << 18));
        fw_cfg = put(&fw_cfg, FwCfg::new(items));
    }
}

/// Damage is refused, or it is a state that a guest could have made: then the device bears all accesses.
#[test]
fn garbage_is_refused_or_harmless() {
    let random = &mut Random(4);
    let mut uart = Pl011::new();
    (0..40).for_each(|byte| uart.write(0, Width::Byte, byte));
    let (mut refused, mut taken) = (0, 0);
    for _ in 0..20_000 {
        let mut spoil = |mut bytes: Vec<u8>| {
            for _ in 0..=random.next() % 3 {
                let at = random.next() as usize % bytes.len();
                bytes[at] = random.next() as u8;
            }
            bytes.truncate(if random.next().is_multiple_of(4) {
                random.next() as usize % bytes.len()
            } else {
                bytes.len()
            });
            bytes
        };
        fn take<T: State>(bytes: &[u8], device: &mut T) -> bool {
            postcard::from_bytes(bytes).is_ok_and(|kept| device.restore(kept).is_ok())
        }
        let (mut gic, mut other, mut flash) = (Gic::new(), Pl011::new(), Flash::new(1 << 18));
        let mut timer = GenericTimer::new(1);
        let (of_gic, of_uart) = (spoil(bytes(&Gic::new())), spoil(bytes(&uart)));
        let (of_flash, of_timer) = (spoil(bytes(&flash)), spoil(bytes(&timer)));
        let results = [
            take(&of_gic, &mut gic),
            take(&of_uart, &mut other),
            take(&of_flash, &mut flash),
            take(&of_timer, &mut timer),
        ];
        refused += results.iter().filter(|done| !**done).count();
        taken += results.iter().filter(|done| **done).count();
        for _ in 0..5 {
            access(&mut Distributor(&mut gic), 0x1000, random);
            access(&mut CpuInterface(&mut gic), 0x1004, random);
            access(&mut other, 0x50, random);
            let change = flash.write(random.next(), Width::Word, [0x20, 0xd0, 0x40][random.next() as usize % 3]);
            for change in change.into_iter().chain(flash.go_on()) {
                use crate::flash::Change;
                let (offset, len) = match change {
                    Change::Program { offset, width, .. } => (offset, width.bytes()),
                    Change::Erase { offset, len } => (offset, len),
                };
                assert!(offset.checked_add(len).is_some_and(|end| end <= 1 << 18), "{change:?}");
            }
        }
        other.take_output(usize::MAX, drop);
    }
    assert!(refused > 10_000 && taken > 1000, "{refused} {taken}");
}

#[test]
fn what_no_guest_can_do_is_refused() {
    // A priority between two of those that there are, and software interrupts that are off.
    let kept = bytes(&Gic::new());
    let with = |at: usize, value: u8| {
        let mut bytes = kept.clone();
        bytes[at] = value;
        postcard::from_bytes(&bytes).map(|kept: Gic| Gic::new().restore(kept))
    };
    let distributor = with(0, 4).unwrap().unwrap_err();
    assert_eq!(distributor.0, "an interrupt controller's register that cannot be");
    let priorities = kept.windows(3).position(|bytes| bytes == [0xa0, 0x02, 0]).unwrap() + 2;
    assert!(with(priorities, 8).unwrap().is_ok() && with(priorities, 9).unwrap().is_err());
}

/// The layout is what [`crate::state::VERSION`] says: who changes a field finds this, and changes that.
#[test]
fn the_layout_is_that_of_the_version() {
    assert_eq!(crate::state::VERSION, 6);
    let lengths = [
        bytes(&Gic::new()).len(),
        bytes(&GenericTimer::new(1)).len(),
        bytes(&Pl011::new()).len(),
        bytes(&Pl031::new(1)).len(),
        bytes(&Pl061::new()).len(),
        bytes(&Flash::new(1)).len(),
        bytes(&FwCfg::new(Items::default())).len(),
    ];
    assert_eq!(lengths, [354, 6, 13, 11, 9, 5, 4]);
}
