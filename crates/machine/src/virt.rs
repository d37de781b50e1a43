//! QEMU's `virt`: devices at their addresses, their interrupt lines at the interrupt controller.
//!
//! In the life of a trap: the fault handler found that a guest physical address is no RAM and asks
//! [`GuestMachine::mmio_read`] or [`GuestMachine::mmio_write`]; the emulator of CP15 asks [`GuestMachine::timer_read`]
//! or [`GuestMachine::timer_write`]. Every one of them leaves the interrupt lines up to date, so on the way back into
//! the guest [`GuestMachine::irq_asserted`] is all there is to ask. Time alone changes things too: when a deadline that
//! [`GuestMachine::next_deadline`] named has passed, [`GuestMachine::update`] lets the machine notice.
//!
//! Virtio devices, and the firmware configuration device, reach for guest memory and for what is behind them, which an
//! access cannot give them. An access only notes that there is work; [`GuestMachine::serve`] does it when the guest
//! does not run.

use core::fmt;

use spica_addr::GuestPa;
use spica_devices::fw_cfg::{self, Memory};
use spica_devices::gic::{CpuInterface, Distributor, Outlook, PPI_BASE, SPI_BASE};
use spica_devices::state::{self, Writer};
use spica_devices::{
    Flash, FwCfg, GenericTimer, Gic, Mmio, Pl011, Pl031, Pl061, Setting, State, TimerReg, Unsound, Width,
};
use spica_virtio::{Backends, Dma, Slot, Unkept, Work};

use crate::fdt::{self, AdaptError, Blob, FdtSpec};
use crate::loader::{self, LoadError, Placement, Program};
use crate::psci::{self, PsciResult};
use crate::{Done, GuestMachine, MachineConfig, map};

const SLOTS: usize = map::VIRTIO_SLOTS as usize;

/// The bit of [`Virt::wanting`] that says that the firmware configuration device does.
const FW_CFG_WANTS: u64 = 1 << SLOTS;

/// One guest's devices.
#[derive(Clone, Debug)]
pub struct Virt {
    gic: Gic,
    timer: GenericTimer,
    uart: Pl011,
    rtc: Pl031,
    gpio: Pl061,
    virtio: [Slot; SLOTS],
    flash: Option<[Flash; 2]>,
    fw_cfg: FwCfg,
    /// A bit for each slot that wants to be served, and [`FW_CFG_WANTS`].
    wanting: u64,
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
    // The most frequent: with every interrupt.
    let offset = pa.0.wrapping_sub(map::GICC.0);
    if offset < map::GIC_FRAME {
        return Some((Device::CpuInterface, offset));
    }
    let frames = [
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

/// The offset in the firmware configuration device, for an access at `pa` of `bytes` bytes.
fn fw_cfg_at(pa: GuestPa, bytes: u32) -> Option<(u32, Width)> {
    let width = Width::from_bytes(bytes)?;
    let offset = pa.0.wrapping_sub(map::FW_CFG.0);
    (offset < fw_cfg::FRAME && offset & (bytes - 1) == 0).then_some((offset, width))
}

/// The device at `pa` for an access of `bytes` bytes. There is none for a misaligned access: Device memory has none.
fn target(pa: GuestPa, bytes: u32) -> Option<(Device, u32, Width)> {
    let width = Width::from_bytes(bytes)?;
    let (device, offset) = device_at(pa)?;
    (pa.0 & (bytes - 1) == 0).then_some((device, offset, width))
}

impl Virt {
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
        let bit = 1u64 << index;
        self.wanting = if slot.wants_service() { self.wanting | bit } else { self.wanting & !bit };
    }

    /// The firmware configuration device has no line, but may have work.
    fn wire_fw_cfg(&mut self) {
        let others = self.wanting & !FW_CFG_WANTS;
        self.wanting = if self.fw_cfg.is_busy() { others | FW_CFG_WANTS } else { others };
    }

    /// The timers' lines. Without Security Extensions there is one physical timer, and its interrupt is that of the
    /// non-secure one, as on QEMU. Linux takes the device tree's word that it is in Secure state, and has handlers for
    /// both then.
    fn wire_timers(&mut self) {
        for (intid, high) in self.timer_lines(self.updated) {
            self.gic.set_line(intid, high);
        }
    }

    fn timer_lines(&self, now: u64) -> [(u32, bool); 2] {
        [
            (PPI_BASE + map::TIMER_NONSECURE_PPI, self.timer.line_p(now)),
            (PPI_BASE + map::TIMER_VIRTUAL_PPI, self.timer.line_v(now)),
        ]
    }

    /// Lets go of the power key.
    pub fn release_power_key(&mut self) {
        self.gpio.set_input(map::POWER_KEY_LINE, false);
        self.wire(Device::Gpio);
    }
}

impl GuestMachine for Virt {
    const RAM: GuestPa = map::RAM;
    const FLASH: [GuestPa; 2] = map::FLASH;
    const COUNTER_HZ: u32 = map::COUNTER_HZ;

    fn new(config: &MachineConfig) -> Self {
        Self {
            gic: Gic::new(),
            timer: GenericTimer::new(map::COUNTER_HZ),
            uart: Pl011::new(),
            rtc: Pl031::new(config.rtc_base_seconds),
            gpio: Pl061::new(),
            virtio: core::array::from_fn(|slot| config.virtio.get(slot).map(Slot::new).unwrap_or_default()),
            fw_cfg: FwCfg::new(config.fw_cfg),
            flash: (config.flash != [0; 2]).then(|| config.flash.map(Flash::new)),
            wanting: 0,
            turn: 0,
            rtc_base_seconds: config.rtc_base_seconds,
            updated: 0,
            next_second: map::COUNTER_HZ.into(),
        }
    }

    fn mmio_read(&mut self, pa: GuestPa, bytes: u32, now: u64) -> Option<u32> {
        let (device, offset, width) = target(pa, bytes)?;
        // First of all: the interrupt that software is about to acknowledge may have become due on the way here.
        self.update(now);
        let value = self.with(device, |device| device.read(offset, width));
        self.wire(device);
        Some(value)
    }

    fn flash(&mut self, pa: GuestPa) -> Option<(usize, u32, &mut Flash)> {
        // Both banks are in a row.
        let bank = (pa.0 / map::FLASH_BANK) as usize;
        let flash = self.flash.as_mut()?.get_mut(bank)?;
        Some((bank, pa.0 % map::FLASH_BANK, flash))
    }

    fn has_device(&self, pa: GuestPa) -> bool {
        target(pa.page(), 4).is_some() || pa.page() == map::FW_CFG
    }

    fn mmio_write(&mut self, pa: GuestPa, bytes: u32, value: u32, now: u64) -> Option<()> {
        let (device, offset, width) = target(pa, bytes)?;
        self.update(now);
        self.with(device, |device| device.write(offset, width, value));
        self.wire(device);
        Some(())
    }

    fn fw_cfg_read(&mut self, pa: GuestPa, bytes: u32) -> Option<u32> {
        let (offset, width) = fw_cfg_at(pa, bytes)?;
        Some(self.fw_cfg.read(offset, width))
    }

    fn fw_cfg_write(&mut self, pa: GuestPa, bytes: u32, value: u32) -> Option<()> {
        let (offset, width) = fw_cfg_at(pa, bytes)?;
        self.fw_cfg.write(offset, width, value);
        self.wire_fw_cfg();
        Some(())
    }

    fn holds_guest(&self) -> bool {
        self.fw_cfg.is_busy()
    }

    fn absent(pa: GuestPa) -> Option<&'static str> {
        map::absent(pa)
    }

    fn timer_read(&mut self, reg: TimerReg, now: u64) -> u64 {
        self.timer.read(reg, now)
    }

    fn timer_write(&mut self, reg: TimerReg, value: u64, now: u64) {
        self.timer.write(reg, value, now);
        self.update(now);
    }

    fn timers(&self) -> [Setting; 2] {
        self.timer.settings()
    }

    fn update(&mut self, now: u64) {
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

    #[inline]
    fn updated(&self) -> u64 {
        self.updated
    }

    #[inline]
    fn irq_asserted(&self) -> bool {
        self.gic.irq_asserted()
    }

    #[inline]
    fn fiq_asserted(&self) -> bool {
        self.gic.fiq_asserted()
    }

    #[inline]
    fn is_interrupting(&self) -> bool {
        self.gic.is_busy()
    }

    fn interrupt_outlook(&self) -> Option<Outlook> {
        self.gic.outlook()
    }

    fn interrupts_changed(&mut self) -> bool {
        self.gic.take_changed()
    }

    fn timer_of(&self, intid: u32) -> Option<usize> {
        [map::TIMER_NONSECURE_PPI, map::TIMER_VIRTUAL_PPI].iter().position(|ppi| PPI_BASE + ppi == intid)
    }

    fn catch_up(&mut self, Done { acknowledged, timers, ended }: Done) -> Option<u32> {
        if let Some(settings) = timers {
            self.timer.set(settings);
        }
        self.gic.catch_up(acknowledged, self.timer_lines(self.updated), ended)
    }

    fn comes_round(&mut self, done: Done, now: u64) -> bool {
        let Done { acknowledged: true, timers: Some(settings), ended: Some(ended) } = done else { return false };
        if now < self.updated || now >= self.next_second {
            return false;
        }
        let before = self.timer.settings();
        self.timer.set(settings);
        let round = self.gic.comes_round(ended, self.timer_lines(now));
        if round {
            self.updated = now;
        } else {
            self.timer.set(before);
        }
        round
    }

    fn interrupts(&self) -> (Option<u32>, Option<u32>) {
        (self.gic.signalled(), self.gic.active())
    }

    fn next_deadline(&self) -> Option<u64> {
        match (self.timer.next_deadline(self.updated), self.next_alarm()) {
            (Some(timer), Some(alarm)) => Some(timer.min(alarm)),
            (timer, alarm) => timer.or(alarm),
        }
    }

    fn next_alarm(&self) -> Option<u64> {
        let seconds = self.rtc.next_alarm()?.saturating_sub(self.rtc_base_seconds);
        Some(seconds.saturating_mul(map::COUNTER_HZ.into()))
    }

    fn console_input(&mut self, byte: u8) -> bool {
        let accepted = self.uart.receive(byte);
        self.wire(Device::Uart);
        accepted
    }

    #[inline]
    fn has_output(&self) -> bool {
        self.uart.has_output()
    }

    fn take_output(&mut self, most: usize, f: impl FnMut(u8)) {
        self.uart.take_output(most, f);
        self.wire(Device::Uart);
    }

    #[inline]
    fn wants_service(&self) -> bool {
        self.wanting != 0
    }

    fn serve(&mut self, dma: &mut dyn Dma, backends: &mut dyn Backends, work: &mut Work) {
        if self.fw_cfg.is_busy() {
            // None of virtio's.
            dma.serves(0);
            // First, for the guest waits for it.
            while work.is_left() && self.fw_cfg.is_busy() {
                work.spend(self.fw_cfg.step(&mut RamOf(dma)).saturating_add(Work::DESCRIPTOR));
            }
            self.wire_fw_cfg();
        }
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

    fn with_slot<R>(&mut self, index: usize, act: impl FnOnce(&mut Slot) -> R) -> R {
        let result = act(&mut self.virtio[index]);
        self.wire_virtio(index);
        result
    }

    fn unkept(&self) -> Option<(usize, Unkept)> {
        let all = || self.virtio.iter().enumerate().filter_map(|(index, slot)| Some((index, slot.unkept()?)));
        all().find(|(_, why)| *why != Unkept::Busy).or_else(|| all().next())
    }

    fn keep(&self, into: &mut Writer) {
        into.append(&self.gic);
        into.append(&self.timer);
        into.append(&self.uart);
        into.append(&self.rtc);
        into.append(&self.gpio);
        into.append(&self.fw_cfg);
        for bank in self.flash.iter().flatten() {
            into.append(bank);
        }
        self.virtio.iter().for_each(|slot| slot.keep(into));
    }

    fn restore(&mut self, kept: &[u8], now: u64) -> Result<(), Unsound> {
        let rest = &mut { kept };
        self.updated = now;
        let seconds = now / u64::from(map::COUNTER_HZ);
        self.next_second = (seconds + 1).saturating_mul(map::COUNTER_HZ.into());
        self.rtc.set_time(self.rtc_base_seconds.saturating_add(seconds));
        take(rest, &mut self.gic)?;
        take(rest, &mut self.timer)?;
        take(rest, &mut self.uart)?;
        take(rest, &mut self.rtc)?;
        take(rest, &mut self.gpio)?;
        take(rest, &mut self.fw_cfg)?;
        for bank in self.flash.iter_mut().flatten() {
            take(rest, bank)?;
        }
        for slot in &mut self.virtio {
            slot.restore(rest)?;
        }
        if !rest.is_empty() {
            return Err(Unsound("devices that this guest does not have"));
        }
        // Lines are what the devices say, whatever the controller's state said.
        [Device::Uart, Device::Rtc, Device::Gpio].into_iter().for_each(|device| self.wire(device));
        (0..SLOTS).for_each(|slot| self.wire_virtio(slot));
        self.wire_fw_cfg();
        self.wire_timers();
        Ok(())
    }

    fn press_power_key(&mut self) {
        self.gpio.set_input(map::POWER_KEY_LINE, true);
        self.wire(Device::Gpio);
    }

    fn firmware(&mut self, function: u32, arguments: [u32; 3]) -> PsciResult {
        psci::call(function, arguments)
    }

    fn plan(kernel: &Program<'_>, initrd_len: u32, tree_len: u32, ram_size: u32) -> Result<Placement, LoadError> {
        loader::plan(kernel, initrd_len, tree_len, ram_size)
    }

    fn tree(own: Option<&[u8]>, spec: &FdtSpec<'_>) -> Result<Blob, AdaptError> {
        let bytes = own.map_or_else(|| Ok(fdt::build(spec)), |blob| fdt::adapt(blob, spec))?;
        // There is flash where there is firmware.
        Ok(if spec.flash { Blob::for_firmware(bytes) } else { Blob::for_kernel(bytes) })
    }
}

/// Guest memory for the firmware configuration device.
struct RamOf<'a>(&'a mut dyn Dma);

impl Memory for RamOf<'_> {
    fn read(&self, at: u32, into: &mut [u8]) -> bool {
        self.0.read(GuestPa(at), into).is_ok()
    }

    fn write(&mut self, at: u32, from: &[u8]) -> bool {
        self.0.write(GuestPa(at), from).is_ok()
    }
}

/// Reads a device's state from the beginning of `rest`.
fn take<T: State>(rest: &mut &[u8], device: &mut T) -> Result<(), Unsound> {
    device.restore(state::take(rest)?)
}

/// The machine's state for a report about a silent guest.
impl fmt::Display for Virt {
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
