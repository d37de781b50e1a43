//! Putting a guest's kernel in place, at first and after each reset.
//!
//! The device tree is made once. Kernel and initial RAM disk are megabytes, and RAM that is cleared is more: that is
//! done when the guest's turn comes, in its own time and piece by piece: whoever wants the core meanwhile gets it as
//! from a guest that runs.
//!
//! RAM is cleared where somebody else may have left something there, before a guest first runs, and where a guest was
//! off: as a board's is where its power was. After a reset it holds what it held, as a board's does: see
//! docs/decisions.md.

use alloc::vec::Vec;
use core::fmt;

use sha2::{Digest, Sha256};
use spica_addr::GuestPa;
use spica_bundle::{GuestSpec, Kernel, Start};
use spica_machine::fdt::{AdaptError, Blob, FdtSpec};
use spica_machine::loader::{LoadError as PlaceError, Placement, Program};

use super::ram::Ram;
use super::{Vm, regime};
use crate::arch::{cache, identity};
use crate::engine::Engine;
use crate::host::Host;
use crate::host_cpu::{HostCpu, HostSpace};
use crate::machine::{GuestMachine, Machine, MachineConfig};
use crate::world::core_state::CoreState;

/// Bytes that are copied or cleared before anybody else is asked: some 40 µs of a Cortex-A8.
const PIECE: u32 = 64 * 1024;

/// Something that is to be put into a guest's memory.
#[derive(Clone, Copy)]
struct Part {
    at: GuestPa,
    what: Filling,
}

#[derive(Clone, Copy)]
enum Filling {
    /// Bytes of the bundle.
    Bytes(&'static [u8]),
    /// So many bytes of this value.
    Same(u32, u8),
}

impl Part {
    const fn len(&self) -> u32 {
        match self.what {
            Filling::Bytes(bytes) => bytes.len() as u32,
            Filling::Same(len, _) => len,
        }
    }
}

/// What a guest starts with, kept for its resets. The files stay in the bundle, in the host's memory.
pub struct Image {
    /// What is put into RAM at each start.
    parts: &'static [Part],
    /// What is put into flash when it is new.
    flash: &'static [Part],
    /// The kernel's length, as far as it is in the bundle.
    kernel_len: u32,
    place: Placement,
}

// What is said of a kernel's addresses before a board starts is said of this machine.
const _: () = assert!(spica_bundle::RAM_START == Machine::RAM.0);

impl Image {
    /// What `spec` names, for a guest with `ram_size` bytes of RAM. What the bundle holds is host memory, mapped in the
    /// host address space.
    ///
    /// # Errors
    /// If its device tree is not usable, or there is no place for its files.
    pub fn new(_: HostSpace<'_>, spec: &GuestSpec<'static>, ram_size: u32) -> Result<Image, LoadError> {
        // What firmware is to start is in fw_cfg, and nowhere else, as on QEMU.
        let of_kernel = spec.initrd.filter(|_| matches!(spec.start, Start::Kernel(_)));
        let initrd = of_kernel.unwrap_or(&[]);
        let tree = |initrd_at: Option<GuestPa>| -> Result<Blob, LoadError> {
            let wanted = FdtSpec {
                ram_size,
                bootargs: &spec.append,
                initrd: initrd_at.map(|at| (at, initrd.len() as u32)),
                cpu_compatible: identity::compatible(),
                flash: matches!(spec.start, Start::Firmware { .. }),
            };
            Machine::tree(spec.dtb, &wanted).map_err(LoadError::DeviceTree)
        };
        let size = tree(of_kernel.map(|_| Machine::RAM))?.len();
        let mut extents = Vec::new();
        let program = match &spec.start {
            Start::Kernel(Kernel::ZImage(file)) => Program::ZImage(file.len() as u32),
            Start::Kernel(Kernel::Fixed(kernel)) => {
                extents.extend(kernel.pieces.iter().map(|piece| (GuestPa(piece.start), piece.len() as u32)));
                Program::Fixed { pieces: &extents, entry: GuestPa(kernel.entry) }
            }
            Start::Firmware { .. } => Program::Firmware,
        };
        let place = Machine::plan(&program, initrd.len() as u32, size, ram_size).map_err(LoadError::Place)?;
        let Blob { bytes: tree, zeroes } = tree(of_kernel.map(|_| place.initrd))?;
        let behind = Part { at: place.dtb.wrapping_add(tree.len() as u32), what: Filling::Same(zeroes, 0) };
        let bytes = |at, bytes| Part { at, what: Filling::Bytes(bytes) };
        let (mut parts, mut flash) = (Vec::from([bytes(place.dtb, tree.leak()), behind]), Vec::new());
        match &spec.start {
            Start::Kernel(Kernel::ZImage(file)) => parts.push(bytes(place.entry, file)),
            Start::Kernel(Kernel::Fixed(kernel)) => {
                for piece in &kernel.pieces {
                    let at = GuestPa(piece.start);
                    parts.push(bytes(at, piece.data));
                    let behind = at.wrapping_add(piece.data.len() as u32);
                    parts.push(Part { at: behind, what: Filling::Same(piece.zeroes, 0) });
                }
            }
            Start::Firmware { banks, .. } => {
                for ((file, at), room) in banks.iter().zip(Machine::FLASH).zip(spec.flash_bytes()) {
                    flash.push(bytes(at, file));
                    let len = file.len() as u32;
                    // Erased.
                    flash.push(Part { at: at.wrapping_add(len), what: Filling::Same(room - len, 0xff) });
                }
            }
        }
        parts.push(bytes(place.initrd, initrd));
        let kernel_len = match &spec.start {
            Start::Kernel(Kernel::ZImage(file)) => file.len() as u32,
            Start::Kernel(Kernel::Fixed(kernel)) => kernel.pieces.iter().map(|piece| piece.data.len() as u32).sum(),
            Start::Firmware { banks: [file, _], .. } => file.len() as u32,
        };
        // Kept for the resets, which there may be as long as the board is on.
        Ok(Image { parts: parts.leak(), flash: flash.leak(), kernel_len, place })
    }
}

/// What is still to be done before a guest runs.
#[derive(Default)]
pub struct Loading {
    /// How many bytes at the end of RAM are to be cleared. Comes first.
    unclear: u32,
    /// What is to be put in place behind that, flash first, and how much of the first of it is.
    parts: [&'static [Part]; 2],
    done: u32,
}

impl Loading {
    /// Whether nothing is left.
    pub fn is_done(&self) -> bool {
        self.unclear == 0 && self.parts.iter().all(|parts| parts.is_empty())
    }

    /// Clears or copies a piece. False if there is none left.
    fn step(&mut self, host_space: HostSpace<'_>, ram: &mut Ram) -> bool {
        if self.unclear != 0 {
            let piece = self.unclear.min(PIECE);
            ram.clear(host_space, Machine::RAM.wrapping_add(ram.size() - self.unclear), piece);
            self.unclear -= piece;
            return true;
        }
        let Some(parts) = self.parts.iter_mut().find(|parts| !parts.is_empty()) else { return false };
        let Some((part, rest)) = parts.split_first() else { return false };
        let piece = (part.len() - self.done).min(PIECE);
        let at = part.at.wrapping_add(self.done);
        // Where it lies was planned.
        if let Some(to) = ram.loaded_mut(host_space, at, piece) {
            match part.what {
                Filling::Bytes(bytes) => to.copy_from_slice(&bytes[self.done as usize..][..piece as usize]),
                Filling::Same(_, value) => to.fill(value),
            }
            // A loader leaves what it loads where instruction fetches see it (Linux's boot protocol: "the data cache
            // must be off"), and the guest may jump there in User mode.
            cache::clean_to_pou(to.as_ptr() as u32, to.len() as u32);
            cache::invalidate_instructions();
        }
        self.done += piece;
        if self.done == part.len() {
            (*parts, self.done) = (rest, 0);
        }
        true
    }
}

/// Why a guest cannot be loaded.
#[derive(Debug)]
pub enum LoadError {
    /// Its own device tree is not usable.
    DeviceTree(AdaptError),
    /// There is no place for its files.
    Place(PlaceError),
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::DeviceTree(error) => write!(f, "dtb: {error}"),
            LoadError::Place(error) => write!(f, "{error}"),
        }
    }
}

impl Vm {
    /// Sees to it that kernel, initrd and device tree are put into RAM, and puts the CPU at the start, as the Linux ARM
    /// boot protocol has it for a kernel: R0 = 0, R1 = all ones, R2 = the device tree, MMU and caches off, Supervisor
    /// mode, everything masked; A32 state unless the entry point is odd. `cold`: all of RAM is cleared before.
    pub fn load(&mut self, image: &Image, cold: bool) {
        let place = image.place;
        // What was to be cleared and is not yet is still to be.
        let unclear = if cold { self.common.ram.size() } else { self.loading.unclear };
        // So does flash, whose contents outlive a reset.
        let new = cold || !self.loading.parts[0].is_empty();
        let flash = if new { image.flash } else { &[] };
        self.loading = Loading { unclear, parts: [flash, image.parts], done: 0 };
        let cpu = &mut self.vcpu.context.cpu;
        cpu.reset();
        // Firmware knows where it is.
        if image.flash.is_empty() {
            cpu.regs[1] = u32::MAX;
            cpu.regs[2] = place.dtb.0;
        }
        cpu.pc = place.entry.0 & !1;
        let regime = regime(cpu);
        let start = self.vcpu.branch(place.entry.0);
        self.vcpu.go_on_at(start);
        self.vcpu.core_state = CoreState::new();
        self.vcpu.mmu.reset(&regime);
        self.common.open_flash(&mut self.vcpu.mmu);
        self.common.engine.vcpu_reset();
    }

    /// Clears what is to be cleared, all of it: while no guest runs yet, nobody waits for the end of that.
    pub fn clear(&mut self, host_space: HostSpace<'_>) {
        while self.loading.unclear != 0 {
            self.loading.step(host_space, &mut self.common.ram);
        }
    }

    /// Goes on with that. False if the host has something else to see to first.
    pub(super) fn load_on(&mut self, core: &mut HostCpu, host: &mut Host) -> bool {
        while !self.loading.is_done() {
            self.loading.step(core.enter_host_space(), &mut self.common.ram);
            if !host.may_go_on() {
                return false;
            }
        }
        true
    }

    /// Where the kernel lies before it first runs, and how long it is.
    pub fn kernel(&self, image: &Image) -> (GuestPa, u32) {
        (GuestPa(self.vcpu.context.cpu.pc), image.kernel_len)
    }

    /// SHA-256 of the kernel as it lies in the guest's RAM, before it first runs.
    pub fn kernel_digest(&mut self, host_space: HostSpace<'_>, image: &Image) -> [u8; 32] {
        while self.loading.step(host_space, &mut self.common.ram) {}
        let (at, len) = self.kernel(image);
        Sha256::digest(self.common.ram.bytes(host_space, at, len).unwrap_or_default()).into()
    }

    /// Resets the machine, and has the guest loaded again when it runs next. `cold`: its RAM does not hold what it
    /// held. It has all of its RAM ([`Common::take_back`](super::Common::take_back)).
    pub fn reboot(&mut self, image: &Image, cold: bool, core: &mut HostCpu, host: &mut Host) {
        self.common.counters.resets += 1;
        // Tables that are in force are not to be freed.
        self.vcpu.mmu.release(core.enter_host_space());
        self.forget_code();
        let Vm { vcpu, common, .. } = self;
        common.engine.blocks.forget_kernel();
        let (virtio, flash) = (common.devices.plugs(), common.ram.flash().map(|(_, _, bytes)| bytes));
        let fw_cfg = common.devices.fw_cfg();
        common.machine = Machine::new(&MachineConfig { rtc_base_seconds: host.wall_clock(), virtio, flash, fw_cfg });
        common.devices.forget_half(core.enter_host_space());
        common.devices.reset();
        common.start = host.now();
        vcpu.nested = 0;
        host.arm_timer(common.start, None);
        self.load(image, cold);
    }
}
