//! What stands behind a guest's virtio devices, and how those reach its memory.
//!
//! The models are in `crates/virtio`; a kick is only noted. [`Parts::serve`] lets them work when the guest does not run, within a
//! budget, so that what a guest asks for is done in its own share of time.

use alloc::vec::Vec;

use spica_addr::GuestPa;
use spica_bundle::{DiskMode, DiskSource, GuestSpec};
use spica_dbt::Translator;
use spica_machine::map::RAM as RAM_BASE;
use spica_mmu::Shadow;
use spica_virtio::backend::{Backends, Disk, Entropy, Network, Pages, SECTOR, Terminal};
use spica_virtio::disk::{Image, Overlay};
use spica_virtio::{Dma, OutsideRam, Plug, Work};

use super::Parts;
use super::code::CodePages;
use super::counters::Counters;
use super::ram::Ram;
use crate::guests::disks::{DiskProblem, HostDisk};
use crate::host::Host;
use crate::memory::{phys, ram as host_ram};
use crate::world::space;

/// What devices may do before the guest, or another one, runs on: bytes moved, see [`Work`].
const BUDGET: u32 = 256 * 1024;

/// The most that can be written to a copy-on-write disk, in bytes: what is known of each cluster takes room on the heap.
const OVERLAY_MOST: u32 = 128 << 20;

/// RAM of the host that belongs to a disk.
struct DiskMemory {
    pa: spica_addr::HostPa,
    len: u32,
}

impl AsRef<[u8]> for DiskMemory {
    fn as_ref(&self) -> &[u8] {
        space::go_home();
        // SAFETY: taken for this disk alone, and mapped at home, where we are until the disk's method returns.
        unsafe { phys::slice(self.pa, self.len) }
    }
}

impl AsMut<[u8]> for DiskMemory {
    fn as_mut(&mut self) -> &mut [u8] {
        space::go_home();
        // SAFETY: as above, and `self` is borrowed mutably.
        unsafe { phys::slice_mut(self.pa, self.len) }
    }
}

/// One of a guest's disks.
enum AnyDisk {
    Image(Image<'static>),
    Overlay(Overlay<Image<'static>, DiskMemory>),
    Host(HostDisk),
    HostOverlay(Overlay<HostDisk, DiskMemory>),
}

impl AnyDisk {
    /// The disk; what the bundle holds of it is mapped at home only.
    fn at_home(&mut self) -> &mut dyn Disk {
        space::go_home();
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
    disks: Vec<AnyDisk>,
    /// What is plugged, from slot 0 on.
    plugs: Vec<Plug>,
    /// Pages that the guest has given to its balloon.
    given_pages: u32,
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
    /// The devices of `spec`, which is guest `guest`. `overlay` are the bytes that can be written to each of its copy-on-write
    /// disks.
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
                        _ => AnyDisk::Overlay(Overlay::new(image, sectors, disk_memory(sectors, overlay)?)),
                    };
                    (disk, sectors)
                }
                (source, mode) => {
                    let claimed = host.disks.claim(source, mode, guest, disks.len());
                    let (claim, sectors) = claimed.map_err(DeviceError::HostDisk)?;
                    let disk = match mode {
                        DiskMode::CopyOnWrite => {
                            AnyDisk::HostOverlay(Overlay::new(claim, sectors, disk_memory(sectors, overlay)?))
                        }
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
            plugs.push(Plug::Balloon { pages: spec.memory_bytes / 4096, base: RAM_BASE });
        }
        Ok(Devices { disks, plugs, given_pages: 0, console_listens: false, no_disk: Image(&[]) })
    }

    /// What is plugged into the guest's machine, from slot 0 on.
    pub fn plugs(&self) -> Vec<Plug> {
        self.plugs.clone()
    }

    /// The slot of the virtio console, if its driver takes the console's input.
    pub fn listening_console(&self) -> Option<usize> {
        let slot = self.plugs.iter().position(|plug| matches!(plug, Plug::Console { .. }));
        slot.filter(|_| self.console_listens)
    }

    /// The slot of the balloon.
    pub fn balloon(&self) -> Option<usize> {
        self.plugs.iter().position(|plug| matches!(plug, Plug::Balloon { .. }))
    }

    /// The machine is reset, with what its drivers had set up. What is on the disks stays.
    pub fn reset(&mut self) {
        self.given_pages = 0;
        self.console_listens = false;
    }

    /// Pages that the guest has given to its balloon.
    pub fn given_pages(&self) -> u32 {
        self.given_pages
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

fn sum((a, b): (usize, usize), (c, d): (usize, usize)) -> (usize, usize) {
    (a + c, b + d)
}

/// Bytes that can be written to a copy-on-write disk of `sectors` sectors where each gets `share` at most.
fn overlay_bytes(sectors: u64, share: u32) -> u32 {
    let most = u64::from(share.min(OVERLAY_MOST));
    (sectors * u64::from(SECTOR)).min(most).next_multiple_of(4096) as u32
}

/// Memory for what is written to a copy-on-write disk.
fn disk_memory(sectors: u64, share: u32) -> Result<DiskMemory, DeviceError> {
    let len = overlay_bytes(sectors, share);
    let pa = host_ram::take(spica_addr::HostPa(0), len, 4096).ok_or(DeviceError::Memory(len))?;
    Ok(DiskMemory { pa, len })
}

/// How many bytes can be written to each copy-on-write disk of `guests`, if `taken` bytes of the RAM that is free now go to
/// others.
pub fn overlay_share(guests: &[GuestSpec<'static>], taken: u64) -> u32 {
    let disks = guests.iter().flat_map(|guest| &guest.disks);
    let count = disks.filter(|disk| disk.mode == DiskMode::CopyOnWrite).count() as u64;
    let spare = host_ram::free_bytes().saturating_sub(taken);
    let share = spare.checked_div(count).map_or(0, |share| share.min(host_ram::most_bytes_each(count)));
    (share.min(u32::MAX.into()) as u32) & !0xfff
}

/// Bytes of the heap that the books of a guest's copy-on-write disks may need, if each can have `share` bytes.
pub fn overlay_records(guest: &GuestSpec<'static>, share: u32) -> u32 {
    let bytes = guest.disks.iter().map(|disk| match (&disk.source, disk.mode) {
        (DiskSource::File(bytes), DiskMode::CopyOnWrite) => overlay_bytes(Image(bytes).sectors(), share),
        // How large it is, is not known yet.
        (_, DiskMode::CopyOnWrite) => overlay_bytes(u32::MAX.into(), share),
        _ => 0,
    });
    // Two places for each cluster, and what a B-tree takes around them.
    bytes.sum::<u32>() / 4096 * 2 * 48
}

/// Guest memory for devices.
struct GuestMemory<'a> {
    ram: &'a mut Ram,
    shadow: &'a mut Shadow,
    translator: &'a mut Translator,
    code: &'a mut CodePages,
    counters: &'a mut Counters,
}

impl Dma for GuestMemory<'_> {
    fn read(&self, pa: GuestPa, into: &mut [u8]) -> Result<(), OutsideRam> {
        into.copy_from_slice(self.ram.bytes(pa, into.len() as u32).ok_or(OutsideRam)?);
        Ok(())
    }

    fn write(&mut self, pa: GuestPa, from: &[u8]) -> Result<(), OutsideRam> {
        let len = from.len() as u32;
        self.ram.bytes(pa, len).ok_or(OutsideRam)?;
        let mut page = pa.page();
        while page.0 - pa.page().0 < (pa.0 & 0xfff) + len {
            if self.shadow.is_code_page(page) {
                self.counters.code_page_writes += 1;
                self.translator.drop_page(page, self.code);
                self.shadow.unprotect_code_page(page);
            }
            page = page.wrapping_add(4096);
        }
        self.ram.bytes_mut(pa, len).ok_or(OutsideRam)?.copy_from_slice(from);
        Ok(())
    }

    fn is_ram(&self, pa: GuestPa, len: u32) -> bool {
        self.ram.bytes(pa, len).is_some()
    }
}

/// The other ends of a guest's devices.
struct Ends<'a> {
    devices: &'a mut Devices,
    host: &'a mut Host,
}

impl Backends for Ends<'_> {
    fn disk(&mut self, disk: usize) -> &mut dyn Disk {
        match self.devices.disks.get_mut(disk) {
            Some(disk) => disk.at_home(),
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
        from.iter().for_each(|&byte| self.host.console_put(byte));
        from.len()
    }

    fn get(&mut self, into: &mut [u8]) -> usize {
        self.devices.console_listens = true;
        self.host.take_input(into)
    }
}

impl Pages for Ends<'_> {
    fn give(&mut self, _page: GuestPa) {
        self.devices.given_pages += 1;
    }

    fn take(&mut self, _page: GuestPa) {
        self.devices.given_pages -= 1;
    }
}

impl Parts {
    /// Lets the guest's virtio devices do what they have to do, as far as a budget goes. True if there was anything.
    pub fn serve(&mut self, host: &mut Host) -> bool {
        let mut news = host.take_news();
        while news != 0 {
            self.machine.with_slot(news.trailing_zeros() as usize, spica_virtio::Slot::poke);
            news &= news - 1;
        }
        if !self.machine.wants_service() {
            return false;
        }
        let Parts { machine, ram, shadow, translator, code, counters, devices, .. } = self;
        let mut memory = GuestMemory { ram, shadow, translator, code, counters };
        machine.serve(&mut memory, &mut Ends { devices, host }, &mut Work::new(BUDGET));
        host.spread_news();
        true
    }
}
