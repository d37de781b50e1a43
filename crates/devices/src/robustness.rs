//! No access by a guest may panic a model, whatever the offset, width and value, and none may leave the interrupt
//! controller's cached output different from what its registers say.

use crate::fw_cfg::Items;
use crate::gic::{CpuInterface, Distributor};
use crate::{FwCfg, Gic, Mmio, Pl011, Pl031, Pl061, Width};

/// A xorshift generator: the tests need variety and repeatability, no quality.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as u32
    }
}

pub(crate) fn access(device: &mut dyn Mmio, frame: u32, random: &mut Random) {
    let width = [Width::Byte, Width::Half, Width::Word][random.next() as usize % 3];
    // Mostly where registers are, sometimes anywhere at all, misaligned and beyond the frame.
    let offset = match random.next() % 16 {
        0 => random.next(),
        1 => u32::MAX - random.next() % 8,
        _ => random.next() % frame,
    };
    if random.next() & 1 == 0 {
        device.read(offset, width);
    } else {
        let value = random.next();
        device.write(offset, width, value);
    }
}

#[test]
fn peripherals_survive_any_access() {
    let random = &mut Random(1);
    let (mut uart, mut rtc, mut gpio) = (Pl011::new(), Pl031::new(1 << 31), Pl061::new());
    let mut fw_cfg = FwCfg::new(Items::new(None, &[("opt/a", b"a")]));
    for round in 0..100_000u64 {
        access(&mut uart, 0x1000, random);
        access(&mut rtc, 0x40, random);
        access(&mut gpio, 0x440, random);
        access(&mut fw_cfg, 0x18, random);
        let _accepted = uart.receive(round as u8);
        rtc.set_time(u64::from(random.next()) * round);
        gpio.set_input(random.next() % 10, round & 1 != 0);
    }
    rtc.set_time(u64::MAX);
    uart.take_output(usize::MAX, drop);
}

#[test]
fn interrupt_controller_survives_any_access_and_stays_consistent() {
    let random = &mut Random(2);
    let mut gic = Gic::new();
    for round in 0..200_000 {
        match round % 3 {
            0 => access(&mut Distributor(&mut gic), 0x1000, random),
            1 => access(&mut CpuInterface(&mut gic), 0x1004, random),
            _ => gic.set_line(random.next() % 300, random.next() & 1 != 0),
        }
        let mut fresh = gic.clone();
        fresh.recompute_from_scratch();
        assert_eq!((gic.irq_asserted(), gic.fiq_asserted()), (fresh.irq_asserted(), fresh.fiq_asserted()), "{round}");
        assert_eq!(gic.signalled(), fresh.signalled(), "{round}");
    }
}
