//! The machine: devices at their addresses, their interrupt lines at the interrupt controller.
//!
//! In the life of a trap: the fault handler found that a guest physical address is no RAM and asks
//! [`Machine::mmio_read`] or [`Machine::mmio_write`]; the emulator of CP15 asks [`Machine::timer_read`] or
//! [`Machine::timer_write`]. Every one of them leaves the interrupt lines up to date, so on the way back into the guest
//! [`Machine::irq_asserted`] is all there is to ask. Time alone changes things too: when a deadline that
//! [`Machine::next_deadline`] named has passed, [`Machine::update`] lets the machine notice.
//!
//! Virtio devices reach for guest memory and for what is behind them, which an access cannot give them. An access only
//! notes that there is work; [`Machine::serve`] does it when the guest does not run.

use alloc::vec::Vec;
use core::fmt;

use spica_addr::GuestPa;
use spica_devices::gic::{CpuInterface, Distributor, PPI_BASE, SPI_BASE};
use spica_devices::{GenericTimer, Gic, Mmio, Pl011, Pl031, Pl061, TimerReg, Width};
use spica_virtio::{Backends, Dma, Plug, Slot, Work};

use crate::map;

/// What distinguishes one machine from another.
#[derive(Clone, Debug, Default)]
pub struct MachineConfig {
    /// The wall-clock time at the machine's start, in seconds since 1970.
    pub rtc_base_seconds: u64,
    /// The virtio devices, from slot 0 on. There are [`map::VIRTIO_SLOTS`] slots; what is beyond is not plugged.
    pub virtio: Vec<Plug>,
}

const SLOTS: usize = map::VIRTIO_SLOTS as usize;

/// One guest's devices.
#[derive(Clone, Debug)]
pub struct Machine {
    gic: Gic,
    timer: GenericTimer,
    uart: Pl011,
    rtc: Pl031,
    gpio: Pl061,
    virtio: [Slot; SLOTS],
    /// A bit for each slot that wants to be served.
    wanting: u32,
    /// The slot that is served first the next time.
    turn: usize,
    rtc_base_seconds: u64,
    /// The counter value up to which the lines are up to date.
    updated: u64,
    /// The counter value at which the next second of the wall clock begins.
    next_second: u64,
}

/// Which device an address belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Device {
    Distributor,
    CpuInterface,
    Uart,
    Rtc,
    Gpio,
    Virtio(usize),
}

/// The device at a guest physical address, and the offset into its frame.
fn device_at(pa: GuestPa) -> Option<(Device, u32)> {
    let frames = [
        (Device::CpuInterface, map::GICC, map::GIC_FRAME),
        (Device::Distributor, map::GICD, map::GIC_FRAME),
        (Device::Uart, map::UART, map::PRIMECELL_FRAME),
        (Device::Rtc, map::RTC, map::PRIMECELL_FRAME),
        (Device::Gpio, map::GPIO, map::PRIMECELL_FRAME),
    ];
    let virtio = pa.0.wrapping_sub(map::VIRTIO.0);
    if virtio < map::VIRTIO_SLOTS * map::VIRTIO_FRAME {
        return Some((Device::Virtio((virtio / map::VIRTIO_FRAME) as usize), virtio % map::VIRTIO_FRAME));
    }
    frames.into_iter().find_map(|(device, base, size)| {
        let offset = pa.0.wrapping_sub(base.0);
        (offset < size).then_some((device, offset))
    })
}

/// The device at `pa` for an access of `bytes` bytes. There is none for a misaligned access: Device memory has none.
fn target(pa: GuestPa, bytes: u32) -> Option<(Device, u32, Width)> {
    let width = Width::from_bytes(bytes)?;
    let (device, offset) = device_at(pa)?;
    (pa.0 & (bytes - 1) == 0).then_some((device, offset, width))
}

impl Machine {
    /// A machine at power-on.
    #[must_use]
    pub fn new(config: &MachineConfig) -> Self {
        Self {
            gic: Gic::new(),
            timer: GenericTimer::new(map::COUNTER_HZ),
            uart: Pl011::new(),
            rtc: Pl031::new(config.rtc_base_seconds),
            gpio: Pl061::new(),
            virtio: core::array::from_fn(|slot| config.virtio.get(slot).map(Slot::new).unwrap_or_default()),
            wanting: 0,
            turn: 0,
            rtc_base_seconds: config.rtc_base_seconds,
            updated: 0,
            next_second: map::COUNTER_HZ.into(),
        }
    }

    /// A load of 1, 2 or 4 bytes from a guest physical address at time `now`; `None` if nothing answers there, which
    /// the CPU reports as an external abort.
    pub fn mmio_read(&mut self, pa: GuestPa, bytes: u32, now: u64) -> Option<u32> {
        let (device, offset, width) = target(pa, bytes)?;
        // First of all: the interrupt that software is about to acknowledge may have become due on the way here.
        self.update(now);
        let value = self.with(device, |device| device.read(offset, width));
        self.wire(device);
        Some(value)
    }

    /// Whether a device answers in the page at `pa`.
    #[must_use]
    pub fn has_device(&self, pa: GuestPa) -> bool {
        target(pa.page(), 4).is_some()
    }

    /// A store of 1, 2 or 4 bytes to a guest physical address at time `now`; `None` if nothing answers there.
    pub fn mmio_write(&mut self, pa: GuestPa, bytes: u32, value: u32, now: u64) -> Option<()> {
        let (device, offset, width) = target(pa, bytes)?;
        self.update(now);
        self.with(device, |device| device.write(offset, width, value));
        self.wire(device);
        Some(())
    }

    fn with<R: Default>(&mut self, device: Device, access: impl FnOnce(&mut dyn Mmio) -> R) -> R {
        match device {
            Device::Distributor => access(&mut Distributor(&mut self.gic)),
            Device::CpuInterface => access(&mut CpuInterface(&mut self.gic)),
            Device::Uart => access(&mut self.uart),
            Device::Rtc => access(&mut self.rtc),
            Device::Gpio => access(&mut self.gpio),
            Device::Virtio(slot) => self.virtio.get_mut(slot).map(|slot| access(slot)).unwrap_or_default(),
        }
    }

    /// Passes a device's line on to the interrupt controller.
    fn wire(&mut self, device: Device) {
        match device {
            Device::Uart => self.gic.set_line(SPI_BASE + map::UART_SPI, self.uart.line()),
            Device::Rtc => self.gic.set_line(SPI_BASE + map::RTC_SPI, self.rtc.line()),
            Device::Gpio => self.gic.set_line(SPI_BASE + map::GPIO_SPI, self.gpio.line()),
            Device::Virtio(slot) => self.wire_virtio(slot),
            Device::Distributor | Device::CpuInterface => {}
        }
    }

    fn wire_virtio(&mut self, index: usize) {
        let Some(slot) = self.virtio.get_mut(index) else { return };
        let intid = SPI_BASE + map::VIRTIO_SPI + index as u32;
        if slot.take_edge() {
            self.gic.set_line(intid, false);
        }
        self.gic.set_line(intid, slot.line());
        let bit = 1 << index;
        self.wanting = if slot.wants_service() { self.wanting | bit } else { self.wanting & !bit };
    }

    /// The timers' lines. A guest whose firmware left it in Secure state gets the physical timer's interrupt as the
    /// secure one, and the virtual timer's, which has but one.
    fn wire_timers(&mut self) {
        self.gic.set_line(PPI_BASE + map::TIMER_SECURE_PPI, self.timer.line_p(self.updated));
        self.gic.set_line(PPI_BASE + map::TIMER_VIRTUAL_PPI, self.timer.line_v(self.updated));
    }

    /// Reads a register of the generic timer at time `now`; 32-bit registers are zero-extended.
    #[must_use]
    pub fn timer_read(&mut self, reg: TimerReg, now: u64) -> u64 {
        self.timer.read(reg, now)
    }

    /// Writes a register of the generic timer at time `now`.
    pub fn timer_write(&mut self, reg: TimerReg, value: u64, now: u64) {
        self.timer.write(reg, value, now);
        self.update(now);
    }

    /// Lets time pass until `now`: timers and alarms that have become due raise their lines.
    pub fn update(&mut self, now: u64) {
        self.updated = self.updated.max(now);
        self.wire_timers();
        // Most calls are within the same second; they are spared a division, which is dear on a small CPU.
        if self.updated >= self.next_second {
            let seconds = self.updated / u64::from(map::COUNTER_HZ);
            self.next_second = (seconds + 1).saturating_mul(map::COUNTER_HZ.into());
            self.rtc.set_time(self.rtc_base_seconds.saturating_add(seconds));
            self.wire(Device::Rtc);
        }
    }

    /// Whether the CPU's IRQ input is asserted.
    #[inline]
    #[must_use]
    pub fn irq_asserted(&self) -> bool {
        self.gic.irq_asserted()
    }

    /// Whether the CPU's FIQ input is asserted.
    #[inline]
    #[must_use]
    pub fn fiq_asserted(&self) -> bool {
        self.gic.fiq_asserted()
    }

    /// The time, in counter ticks, at which a timer or alarm will next raise a line by itself: always later than the
    /// last [`update`](Self::update). `None`: nothing will happen however long one waits.
    #[must_use]
    pub fn next_deadline(&self) -> Option<u64> {
        let alarm = self
            .rtc
            .next_alarm()
            .map(|seconds| seconds.saturating_sub(self.rtc_base_seconds).saturating_mul(u64::from(map::COUNTER_HZ)));
        match (self.timer.next_deadline(self.updated), alarm) {
            (Some(timer), Some(alarm)) => Some(timer.min(alarm)),
            (timer, alarm) => timer.or(alarm),
        }
    }

    /// A character from the host's console. False if the guest has no room for it now: keep it, and offer it again
    /// once the guest has read.
    #[must_use]
    pub fn console_input(&mut self, byte: u8) -> bool {
        let accepted = self.uart.receive(byte);
        self.wire(Device::Uart);
        accepted
    }

    /// Whether the guest has written to its console what nobody has taken.
    #[inline]
    #[must_use]
    pub const fn has_output(&self) -> bool {
        self.uart.has_output()
    }

    /// Hands what the guest has written to its console to `f`, in order, at most so many characters.
    pub fn take_output(&mut self, most: usize, f: impl FnMut(u8)) {
        self.uart.take_output(most, f);
        self.wire(Device::Uart);
    }

    /// Whether a virtio device has something to do, as far as the machine knows: its driver has told it so, its work
    /// did not suffice, or its slot was poked.
    #[inline]
    #[must_use]
    pub const fn wants_service(&self) -> bool {
        self.wanting != 0
    }

    /// Lets the virtio devices do what they have to do, as far as `work` goes. What is left over
    /// [is wanted](Self::wants_service) afterwards, and the next call begins with another device.
    pub fn serve(&mut self, dma: &mut dyn Dma, backends: &mut dyn Backends, work: &mut Work) {
        for index in (self.turn..SLOTS).chain(0..self.turn) {
            if !work.is_left() {
                break;
            }
            if self.wanting >> index & 1 != 0 {
                if let Some(slot) = self.virtio.get_mut(index) {
                    slot.serve(dma, backends, work);
                }
                self.wire_virtio(index);
                self.turn = (index + 1) % SLOTS;
            }
        }
    }

    /// What the host wants of the device in a slot, such as [`Slot::poke`] or [`Slot::set_link`]. An empty slot does not
    /// mind.
    ///
    /// # Panics
    /// If there is no such slot.
    pub fn with_slot<R>(&mut self, index: usize, act: impl FnOnce(&mut Slot) -> R) -> R {
        let result = act(&mut self.virtio[index]);
        self.wire_virtio(index);
        result
    }

    /// Presses the power key: the guest's `gpio-keys` driver asks for an orderly power-off. The key stays
    /// down until [`release_power_key`](Self::release_power_key), for the driver debounces it.
    pub fn press_power_key(&mut self) {
        self.gpio.set_input(map::POWER_KEY_LINE, true);
        self.wire(Device::Gpio);
    }

    /// Lets go of the power key.
    pub fn release_power_key(&mut self) {
        self.gpio.set_input(map::POWER_KEY_LINE, false);
        self.wire(Device::Gpio);
    }
}

/// The machine's state for a report about a silent guest.
impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let now = self.updated;
        write!(f, "{}", self.gic)?;
        for (name, control, compare) in
            [("physical", TimerReg::CntpCtl, TimerReg::CntpCval), ("virtual", TimerReg::CntvCtl, TimerReg::CntvCval)]
        {
            writeln!(
                f,
                "{name} timer: control {:#x}, compare {}, counter {now}",
                self.timer.read(control, now),
                self.timer.read(compare, now)
            )?;
        }
        write!(f, "lines: uart {}, rtc {}, gpio {}", self.uart.line(), self.rtc.line(), self.gpio.line())?;
        for (index, slot) in self.virtio.iter().enumerate().filter(|(_, slot)| slot.device_id() != 0) {
            let wants = if slot.wants_service() { ", has work" } else { "" };
            write!(f, "\nvirtio {index}: {slot}, line {}{wants}", slot.line())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
