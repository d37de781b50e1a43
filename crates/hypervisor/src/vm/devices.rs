//! What stands behind a guest's virtio devices and its firmware configuration device, and how those reach its memory.
//!
//! The models are in `crates/virtio`; a kick is only noted. [`Common::serve`] lets them work when the guest does not
//! run, within a budget, so that what a guest asks for is done in its own share of time.

use alloc::vec::Vec;

use core::cell::RefCell;

use spica_addr::{GuestPa, HostPa};
use spica_bundle::{DiskMode, DiskSource, FwCfgSource, GuestSpec, Start};
use spica_machine::fw_cfg::{Boot, Items};
use spica_sharing::Device;
use spica_virtio::backend::{Backends, Disk, Entropy, Network, Pages, Terminal};
use spica_virtio::disk::{Image, Overlay};
use spica_virtio::{Dma, OutsideRam, Plug, Work};

use super::Common;
use super::checked::OfDevices;
use super::counters::Counters;
use super::disk_room::DiskRoom;
use super::kept_disks::Base;
use super::mmu::Mmu;
use super::ram::Ram;
use super::watched::Watches;
use crate::engine::{Engine, KernelEngine};
use crate::host::Host;
use crate::host::disks::{DiskProblem, HostDisk};
use crate::host_cpu::{HostCpu, HostSpace};
use crate::machine::{GuestMachine, Machine};
use crate::memory::lending;
use spica_ram::lent::Return;

/// What devices may do before the guest, or another one, runs on: bytes moved, see [`Work`].
const BUDGET: u32 = 256 * 1024;

/// One of a guest's disks.
pub(super) enum AnyDisk {
    Image(Image<'static>),
    Overlay(Overlay<Image<'static>, DiskRoom>),
    Host(HostDisk),
    HostOverlay(Overlay<HostDisk, DiskRoom>),
}

impl AnyDisk {
    /// The disk; what the bundle and the guests' RAM hold of it is mapped in the host address space only.
    fn at(&mut self, _: HostSpace<'_>) -> &mut dyn Disk {
        match self {
            AnyDisk::Image(disk) => disk,
            AnyDisk::Overlay(disk) => disk,
            AnyDisk::Host(disk) => disk,
            AnyDisk::HostOverlay(disk) => disk,
        }
    }
}

/// The back of a guest's virtio devices.
pub struct Devices {
    pub(super) disks: Vec<AnyDisk>,
    /// What is known of what is below them.
    pub(super) bases: Vec<Base>,
    /// Some of them are being replaced ([`super::kept_disks`]).
    pub(super) half_replaced: bool,
    /// What is plugged, from slot 0 on.
    plugs: Vec<Plug>,
    /// What its firmware configuration device has.
    fw_cfg: Items,
    /// A driver takes the console's input from the virtio console: the UART gets none.
    console_listens: bool,
    /// Stands for a disk that is not there. No device asks for one.
    no_disk: Image<'static>,
}

/// Why a guest's devices cannot be made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DeviceError {
    /// A disk of the board's own cannot be had.
    HostDisk(DiskProblem),
    /// No memory for what is written to a copy-on-write disk: bytes asked for.
    Memory(u32),
}

impl core::fmt::Display for DeviceError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            DeviceError::HostDisk(problem) => write!(f, "disks: {problem}"),
            DeviceError::Memory(bytes) => {
                write!(f, "disks: no {} MiB of memory for what is written to a copy-on-write disk", bytes >> 20)
            }
        }
    }
}

impl Devices {
    /// The devices of `spec`, which is guest `guest`. `overlay` are the bytes that can be written to each of its
    /// copy-on-write disks.
    ///
    /// # Errors
    /// What is missing.
    pub fn new(spec: &GuestSpec<'static>, guest: usize, host: &mut Host, overlay: u32) -> Result<Devices, DeviceError> {
        let first_port = host.networks.first_card(guest);
        let mut disks = Vec::new();
        let mut plugs = Vec::new();
        for disk in &spec.disks {
            let mut serial = [0; 20];
            serial.iter_mut().zip(disk.name.bytes()).for_each(|(to, byte)| *to = byte);
            let read_only = disk.mode == DiskMode::ReadOnly;
            let (disk, sectors) = match (&disk.source, disk.mode) {
                (DiskSource::File(bytes), mode) => {
                    let image = Image(bytes);
                    let sectors = image.sectors();
                    let disk = match mode {
                        DiskMode::ReadOnly => AnyDisk::Image(image),
                        _ => AnyDisk::Overlay(Overlay::new(
                            image,
                            sectors,
                            DiskRoom::new(sectors, overlay).map_err(DeviceError::Memory)?,
                        )),
                    };
                    (disk, sectors)
                }
                (source, mode) => {
                    let claimed = host.disks.claim(source, mode, guest, disks.len());
                    let (claim, sectors) = claimed.map_err(DeviceError::HostDisk)?;
                    let disk = match mode {
                        DiskMode::CopyOnWrite => AnyDisk::HostOverlay(Overlay::new(
                            claim,
                            sectors,
                            DiskRoom::new(sectors, overlay).map_err(DeviceError::Memory)?,
                        )),
                        _ => AnyDisk::Host(claim),
                    };
                    (disk, sectors)
                }
            };
            plugs.push(Plug::Block { disk: disks.len(), sectors, read_only, serial });
            disks.push(disk);
        }
        let nets = spec.options.networks.iter().enumerate();
        plugs.extend(nets.map(|(at, network)| Plug::Net { port: first_port + at, mac: network.mac.0 }));
        if spec.options.console {
            plugs.push(Plug::Console { terminal: 0 });
        }
        if spec.options.rng {
            plugs.push(Plug::Rng);
        }
        if spec.options.balloon {
            plugs.push(Plug::Balloon { pages: spec.memory_bytes / 4096, base: Machine::RAM });
        }
        let bases = disks.iter().map(|_| Base::default()).collect();
        let fw_cfg = fw_cfg(spec);
        Ok(Devices { disks, bases, half_replaced: false, plugs, fw_cfg, console_listens: false, no_disk: Image(&[]) })
    }

    /// The first thing that is plugged of which this holds.
    pub(super) fn plug(&self, is_it: impl Fn(&&Plug) -> bool) -> Option<&Plug> {
        self.plugs.iter().find(is_it)
    }

    /// What is plugged into the guest's machine, from slot 0 on.
    pub fn plugs(&self) -> Vec<Plug> {
        self.plugs.clone()
    }

    /// What the guest's firmware configuration device has.
    pub fn fw_cfg(&self) -> Items {
        self.fw_cfg
    }

    /// The slot of the virtio console, if its driver takes the console's input.
    pub fn listening_console(&self) -> Option<usize> {
        self.console().filter(|_| self.console_listens)
    }

    /// The slot of the virtio console.
    pub fn console(&self) -> Option<usize> {
        self.plugs.iter().position(|plug| matches!(plug, Plug::Console { .. }))
    }

    /// The slot of the balloon.
    pub fn balloon(&self) -> Option<usize> {
        self.plugs.iter().position(|plug| matches!(plug, Plug::Balloon { .. }))
    }

    /// The machine is reset, with what its drivers had set up. What is on the disks stays.
    pub fn reset(&mut self) {
        self.console_listens = false;
    }

    /// Bytes written to copy-on-write disks, and bytes that can be.
    pub fn overlay_usage(&self) -> (usize, usize) {
        self.disks.iter().fold((0, 0), |(used, total), disk| match disk {
            AnyDisk::Image(_) | AnyDisk::Host(_) => (used, total),
            AnyDisk::Overlay(disk) => sum((used, total), disk.used()),
            AnyDisk::HostOverlay(disk) => sum((used, total), disk.used()),
        })
    }
}

/// The bytes of Spica's memory that [`fw_cfg`] takes for a guest: its directory, its command line, its strings.
pub fn fw_cfg_bytes(spec: &GuestSpec<'_>) -> u32 {
    let text = |source: &FwCfgSource<_>| match source {
        FwCfgSource::File(_) => 0,
        FwCfgSource::Text(text) => text.len(),
    };
    let texts: usize = spec.fw_cfg.iter().map(|file| text(&file.source)).sum();
    FW_CFG_BYTES + (spec.append.len() + texts) as u32
}

/// Of these, what all guests have: 2,052 bytes of directory, some 40 items of 12 bytes and a few numbers.
const FW_CFG_BYTES: u32 = 4096;

/// What a guest's firmware configuration device has. Files stay in the bundle; the rest is made once, and kept for
/// ever.
fn fw_cfg(spec: &GuestSpec<'static>) -> Items {
    let boot = match spec.start {
        Start::Firmware { kernel: Some(kernel), .. } => {
            Some(Boot { kernel, initrd: spec.initrd, command_line: spec.append.clone() })
        }
        _ => None,
    };
    let files: Vec<(&str, &'static [u8])> = spec
        .fw_cfg
        .iter()
        .map(|file| match &file.source {
            FwCfgSource::File(bytes) => (file.name.as_str(), *bytes),
            FwCfgSource::Text(text) => (file.name.as_str(), &*text.clone().into_bytes().leak()),
        })
        .collect();
    Items::new(boot, &files)
}

fn sum((a, b): (usize, usize), (c, d): (usize, usize)) -> (usize, usize) {
    (a + c, b + d)
}

/// Guest memory for devices.
struct GuestMemory<'a> {
    host_space: HostSpace<'a>,
    ram: &'a mut Ram,
    mmu: &'a mut Mmu,
    engine: &'a mut KernelEngine,
    counters: &'a mut Counters,
    watches: &'a mut Watches,
    /// The device that is served, and who looks at what it does.
    device: Device,
    seen: RefCell<OfDevices<'a>>,
}

impl GuestMemory<'_> {
    /// A device uses memory that is RAM.
    #[inline]
    fn note(&self, pa: GuestPa, len: usize, write: bool) {
        if let Ok(mut seen) = self.seen.try_borrow_mut() {
            seen.note(self.device, pa.0.wrapping_sub(Machine::RAM.0), len as u32, write);
        }
    }
}

/// What a virtio device of this number is (virtio 5).
const fn device(number: u32) -> Device {
    match number {
        1 => Device::Network,
        2 => Device::Disk,
        3 => Device::Console,
        _ => Device::Other,
    }
}

impl Dma for GuestMemory<'_> {
    fn read(&self, pa: GuestPa, into: &mut [u8]) -> Result<(), OutsideRam> {
        into.copy_from_slice(self.ram.bytes(self.host_space, pa, into.len() as u32).ok_or(OutsideRam)?);
        self.note(pa, into.len(), false);
        Ok(())
    }

    fn write(&mut self, pa: GuestPa, from: &[u8]) -> Result<(), OutsideRam> {
        let len = from.len() as u32;
        if !self.ram.has(pa, len) {
            return Err(OutsideRam);
        }
        let mut page = pa.page();
        while page.0 - pa.page().0 < (pa.0 & 0xfff) + len {
            if self.mmu.shadow().is_code_page(page) || self.mmu.hides_page(page) {
                self.counters.code_page_writes += 1;
                self.engine.page_changed(page);
                self.mmu.code_page_changes(page);
            }
            self.mmu.release_table(self.host_space, page);
            page = page.wrapping_add(4096);
        }
        self.watches.note_device_write(pa, len);
        self.note(pa, from.len(), true);
        self.ram.bytes_mut(self.host_space, pa, len).ok_or(OutsideRam)?.copy_from_slice(from);
        Ok(())
    }

    fn is_ram(&self, pa: GuestPa, len: u32) -> bool {
        self.ram.has(pa, len)
    }

    fn serves(&mut self, number: u32) {
        self.device = device(number);
    }
}

/// The other ends of a guest's devices.
struct Ends<'a> {
    host_space: HostSpace<'a>,
    devices: &'a mut Devices,
    host: &'a mut Host,
    /// Where the guest's RAM lies.
    ram: HostPa,
    /// Pages that the guest has just given, or has back.
    moved: Vec<(GuestPa, bool)>,
}

impl Backends for Ends<'_> {
    fn disk(&mut self, disk: usize) -> &mut dyn Disk {
        match self.devices.disks.get_mut(disk) {
            Some(disk) => disk.at(self.host_space),
            None => &mut self.devices.no_disk,
        }
    }

    fn entropy(&mut self) -> &mut dyn Entropy {
        self
    }

    fn terminal(&mut self, _terminal: usize) -> &mut dyn Terminal {
        self
    }

    fn network(&mut self) -> &mut dyn Network {
        &mut self.host.networks
    }

    fn pages(&mut self) -> &mut dyn Pages {
        self
    }
}

impl Entropy for Ends<'_> {
    fn fill(&mut self, into: &mut [u8]) -> usize {
        self.host.random(into);
        into.len()
    }
}

impl Terminal for Ends<'_> {
    fn put(&mut self, from: &[u8]) -> usize {
        let taken = from.len().min(self.host.console_room());
        from.iter().take(taken).for_each(|&byte| self.host.console_put(byte));
        self.host.console_printed(taken < from.len());
        taken
    }

    fn get(&mut self, into: &mut [u8]) -> usize {
        self.devices.console_listens = true;
        self.host.take_input(into)
    }
}

impl Pages for Ends<'_> {
    fn give(&mut self, page: GuestPa) {
        lending::give(self.ram.wrapping_add(page.0.wrapping_sub(Machine::RAM.0)));
        self.moved.push((page, true));
    }

    fn take(&mut self, page: GuestPa) -> bool {
        let free = lending::take_back(self.host_space, self.ram.wrapping_add(page.0.wrapping_sub(Machine::RAM.0)))
            != Return::InUse;
        if free {
            self.moved.push((page, false));
        }
        free
    }
}

impl Common {
    /// A load of 1, 2 or 4 bytes from the firmware configuration device, whose items are in the bundle, which is mapped
    /// in the host address space; `None` if that device is not at `pa`.
    pub fn fw_cfg_load(&mut self, _: HostSpace<'_>, pa: GuestPa, bytes: u32) -> Option<u32> {
        self.machine.fw_cfg_read(pa, bytes)
    }

    /// Lets the guest's devices that reach its memory do what they have to do, as far as a budget goes. True if there
    /// was anything.
    #[inline]
    pub fn serve(&mut self, mmu: &mut Mmu, core: &mut HostCpu, host: &mut Host) -> bool {
        let mut pending = host.take_pending();
        while pending != 0 {
            self.machine.with_slot(pending.trailing_zeros() as usize, spica_virtio::Slot::poke);
            pending &= pending - 1;
        }
        if self.machine.wants_service() {
            self.serve_drivers(mmu, core, host);
            return true;
        }
        false
    }

    /// There is something to do.
    #[inline(never)]
    fn serve_drivers(&mut self, mmu: &mut Mmu, core: &mut HostCpu, host: &mut Host) {
        let Common { machine, ram, engine, counters, devices, watches, checker, .. } = self;
        let at = ram.host();
        let host_space = core.enter_host_space();
        let checker = checker.as_mut().filter(|_| engine.blocks.checks());
        let seen = checker.map_or(OfDevices::Nobody, |checker| checker.of_devices(host_space, ram.size()));
        let device = Device::Other;
        let seen = RefCell::new(seen);
        let mut memory = GuestMemory { host_space, ram, mmu, engine, counters, watches, device, seen };
        let begun = host.trace_begin();
        let mut ends = Ends { host_space, devices, host, ram: at, moved: Vec::new() };
        machine.serve(&mut memory, &mut ends, &mut Work::new(BUDGET));
        let moved = ends.moved;
        host.trace_virtio(begun);
        if !moved.is_empty() {
            self.exchange(mmu, host_space, &moved);
        }
        if lending::take_change() {
            host.tell_balloons();
        }
        host.mark_pending();
    }

    /// Pages are the guest's no more, or are its again. When this returns, it cannot reach those that are not.
    fn exchange(&mut self, mmu: &mut Mmu, host_space: HostSpace<'_>, moved: &[(GuestPa, bool)]) {
        for &(page, given) in moved {
            if given && mmu.shadow().is_code_page(page) {
                self.code_changes(mmu, page);
            }
            mmu.release_table(host_space, page);
            self.ram.set_absent(page, given);
            mmu.set_absent(page, given);
        }
        // Assembly reads guest tables only where nothing is given away.
        mmu.make_stale();
        if moved.iter().any(|&(_, given)| given) {
            mmu.forget_all(host_space);
        }
    }

    /// Takes back some of the pages that the guest has given, which is to be loaded anew: from the page that `back` has
    /// come to, as many as do not take others' time. Whether these were the last.
    ///
    /// # Errors
    /// How many are in use, so that they cannot be had: behind the last.
    pub fn take_back(&mut self, mmu: &mut Mmu, host_space: HostSpace<'_>, back: &mut TakeBack) -> Result<bool, u32> {
        let mut budget = TAKEN_BACK_AT_ONCE;
        while let Some((index, page)) = self.ram.next_absent(back.from) {
            if budget == 0 {
                return Ok(false);
            }
            back.from = index + 1;
            let done =
                lending::take_back(host_space, self.ram.host().wrapping_add(page.0.wrapping_sub(Machine::RAM.0)));
            budget = budget.saturating_sub(if matches!(done, Return::Moved(_)) { MOVE } else { 1 });
            if done == Return::InUse {
                back.kept += 1;
            } else {
                self.ram.set_absent(page, false);
                mmu.set_absent(page, false);
            }
        }
        match core::mem::take(back).kept {
            0 => Ok(true),
            kept => Err(kept),
        }
    }
}

/// Pages that are taken back in one go, if nobody uses them: some 40,000 instructions.
const TAKEN_BACK_AT_ONCE: u32 = 120;
/// Of these, what it takes to put what is in a page elsewhere.
const MOVE: u32 = 20;

/// How far a guest has got that takes back what it has given.
#[derive(Default)]
pub struct TakeBack {
    /// The page to look at next.
    from: u32,
    /// Pages that cannot be had.
    kept: u32,
}
