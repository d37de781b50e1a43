//! A guest's state, to be kept in a file and put back: on this board, or in another run of it.
//!
//! The guest stands between two instructions, for its debugger ([`super::debug`]): whoever saves it or puts it back is
//! that. What is kept of its processor and devices is small, and goes in one piece ([`Vm::keep`]); its memory is read
//! and written page by page, each question in a bounded time.
//!
//! What comes back may be anything. It is looked at as a whole before anything of the guest is changed
//! ([`Vm::check_kept`]), and nothing is taken over that the guest could not have come to by itself. While its memory is
//! replaced ([`Vm::begin_replacing`]) the guest is a machine that was just reset, which must not run; it has no
//! translations and no shadow tables, so that nothing follows from a page that changes.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use spica_addr::{GuestPa, GuestVa};
use spica_dbt::originals::Originals;
use spica_machine::Unsound;
use spica_machine::state::{self, Writer};
use spica_machine::virtio::{Plug, Unkept};
use spica_snapshot::{PAGE, sum};
use spica_vcpu::{CpuId, CpuState};

use super::boot::Loading;
use super::kept_disks::KeptDisk;
use super::{Resume, Vm, regime};
use crate::arch::cache;
use crate::engine::Engine;
use crate::host::Host;
use crate::host_cpu::HostCpu;
use crate::machine::{GuestMachine, Machine, MachineConfig};
use crate::world::core_state::CoreState;

/// Pages that are looked at in one go: some 30,000 instructions.
const LOOKS: usize = 16;
/// Pages whose checksums are worked out in one go: some 60,000.
const SUMS: usize = 8;
/// The counter that a guest can have at most: more than it reaches in 30 years.
const MOST_COUNT: u64 = 1 << 56;

/// What a snapshot is of. It is put back where this is the same.
#[derive(PartialEq, Eq, Serialize, Deserialize)]
struct Kind {
    version: u32,
    ram: u32,
    flash: [u32; 2],
    cpu: CpuId,
    /// Its virtio devices by their numbers (virtio 5), from slot 0 on; 0 where there is none.
    devices: [u8; 32],
}

/// What virtio devices are called, by their numbers from 1 on.
const DEVICES: [&str; 5] = ["network card", "disk", "virtio console", "source of random numbers", "balloon"];

/// The devices of these numbers, in words.
fn device_names(numbers: &[u8; 32]) -> String {
    let names: Vec<&str> = numbers
        .iter()
        .filter(|&&number| number != 0)
        .map(|&number| DEVICES.get(usize::from(number) - 1).copied().unwrap_or("unknown device"))
        .collect();
    if names.is_empty() { "no virtio devices".into() } else { names.join(", ") }
}

/// What is kept of the processor.
#[derive(Serialize, Deserialize)]
struct Processor {
    state: CpuState,
    vfp: [u64; 32],
    fpscr: u32,
    /// TPIDRURW.
    thread_id: u32,
    /// It waits for an interrupt.
    waits: bool,
    /// The generic timer's counter.
    counter: u64,
}

/// What was kept, and can be put back.
struct Understood {
    disks: Vec<KeptDisk>,
    processor: Processor,
    machine: Box<Machine>,
    originals: Originals,
}

/// Why a guest cannot be saved.
pub enum Unkeepable {
    /// The virtio device in this slot is in the midst of something: it is to be tried again.
    Yet(usize),
    /// Something that does not pass by itself.
    For(String),
}

/// What is found where pages are looked for.
pub enum Look {
    /// A page that is not blank.
    Page(u32, Box<[u8; PAGE]>),
    /// None so far: from this address on, there may be more.
    Blank(u32),
    /// No more.
    End,
}

impl Vm {
    fn kind(&self) -> Kind {
        let mut devices = [0; 32];
        for (number, plug) in devices.iter_mut().zip(self.common.devices.plugs()) {
            *number = match plug {
                Plug::Net { .. } => 1,
                Plug::Block { .. } => 2,
                Plug::Console { .. } => 3,
                Plug::Rng => 4,
                Plug::Balloon { .. } => 5,
            };
        }
        Kind {
            version: state::VERSION,
            ram: self.common.ram.size(),
            flash: self.common.ram.flash().map(|(_, _, bytes)| bytes),
            cpu: self.vcpu.context.cpu.id,
            devices,
        }
    }

    /// What is kept of the guest's processor and devices, but for memory. It stands since host time `since`.
    ///
    /// # Errors
    /// If something cannot be kept: what, and why.
    pub fn keep(&mut self, core: &mut HostCpu, host: &mut Host, since: u64) -> Result<Vec<u8>, Unkeepable> {
        // What devices have begun is finished first, in pieces.
        self.common.serve(&mut self.vcpu.mmu, core, host);
        self.check_devices(&self.common.machine)?;
        let name = self.common.name.clone();
        let (pc, waits) = match self.vcpu.next {
            Resume::Guest(pc) => (pc, false),
            Resume::Wait(pc) => (pc, true),
            _ => return Err(Unkeepable::For(format!("{name} does not stand between two instructions"))),
        };
        let thread_id = self.vcpu.thread_id_read_write();
        let (registers, fpscr) = self.vcpu.core_state.vfp();
        let processor = Processor {
            state: self.vcpu.context.cpu.state(pc.0),
            vfp: *registers,
            fpscr: *fpscr,
            thread_id,
            waits,
            counter: host.guest_at(self.common.start, since),
        };
        let mut kept = Writer::default();
        kept.append(&self.kind());
        self.common.devices.kept_disks().map_err(Unkeepable::For)?.iter().for_each(|disk| kept.append(disk));
        kept.append(&processor);
        let originals = || self.common.engine.originals().into_iter().flat_map(Originals::kept);
        kept.append(&(originals().count() as u32));
        originals().for_each(|original| kept.append(&original));
        self.common.machine.keep(&mut kept);
        kept.finish().ok_or_else(|| Unkeepable::For(format!("there is no memory to save {name}")))
    }

    /// Whether all devices of a machine of this guest's can be kept.
    fn check_devices(&self, machine: &Machine) -> Result<(), Unkeepable> {
        let name = &self.common.name;
        if let Some(disk) = self.common.devices.foreign_disk() {
            return Err(Unkeepable::For(format!(
                "{name} has the disk {disk}, which is the board's own: what is on it is not part of snapshots"
            )));
        }
        Err(match machine.unkept() {
            None => return Ok(()),
            Some((slot, Unkept::Busy)) => Unkeepable::Yet(slot),
            Some((_, Unkept::HasPages)) => {
                Unkeepable::For(format!("{name} has given memory to its balloon: `balloon {name} 0` gives it back"))
            }
        })
    }

    /// Understands what was kept of a guest like this one.
    ///
    /// # Errors
    /// What of it cannot be put into this guest, and what would be right.
    fn understand(&self, kept: &[u8], host: &mut Host) -> Result<Understood, String> {
        let no_state = |_| String::from("what was saved is damaged: it is no guest's state");
        // Whatever comes behind it, the version is first.
        let version: u32 = state::take(&mut { kept }).map_err(no_state)?;
        if version != state::VERSION {
            return Err(format!(
                "it was saved by another version of Spica: its state has version {version}, and this one reads \
                 {}",
                state::VERSION
            ));
        }
        let kept = &mut { kept };
        let kind: Kind = state::take(kept).map_err(no_state)?;
        let own = self.kind();
        if kind.ram != own.ram {
            let [saved, here] = [kind.ram, own.ram].map(|bytes| bytes >> 20);
            return Err(format!(
                "the saved guest has {saved}M of memory and this one {here}M: it needs one of {saved}M"
            ));
        }
        if kind.flash != own.flash {
            let [saved, here] = [kind.flash, own.flash].map(|[a, b]| format!("{} KiB and {} KiB", a >> 10, b >> 10));
            return Err(format!("the saved guest has flash of {saved}, and this one of {here}: they must be the same"));
        }
        if kind.devices != own.devices {
            let [saved, here] = [kind.devices, own.devices].map(|numbers| device_names(&numbers));
            return Err(format!("the saved guest has {saved}, and this one {here}: they must be the same"));
        }
        if kind.cpu != own.cpu {
            let (saved, here) = (kind.cpu.midr, own.cpu.midr);
            return Err(format!(
                "it was saved on another processor: its MIDR is {saved:#010x}, and this board's {here:#010x}; it can \
                 be restored on a board like the first"
            ));
        }
        let disks = kind.devices.iter().filter(|&&number| number == 2);
        let disks: Vec<KeptDisk> = disks.map(|_| state::take(kept)).collect::<Result<_, _>>().map_err(no_state)?;
        self.common.devices.check_disks(&disks)?;
        let processor: Processor = state::take(kept).map_err(no_state)?;
        let damaged = |what: Unsound| format!("what was saved is damaged: it has {what}");
        self.vcpu.context.cpu.check(&processor.state).map_err(damaged)?;
        if processor.counter >= MOST_COUNT {
            return Err("what was saved is damaged: it has a counter that cannot be".into());
        }
        let count: u32 = state::take(kept).map_err(no_state)?;
        // One that cannot be stands for one that cannot be read.
        let originals = (0..count).map(|_| state::take(kept).unwrap_or((u16::MAX, 0)));
        let originals = Originals::restore(originals).map_err(|problem| damaged(Unsound(problem)))?;
        let seconds = processor.counter / u64::from(Machine::COUNTER_HZ);
        let config = MachineConfig {
            rtc_base_seconds: host.wall_clock().saturating_sub(seconds),
            virtio: self.common.devices.plugs(),
            flash: own.flash,
            fw_cfg: self.common.devices.fw_cfg(),
        };
        let mut machine = Box::new(Machine::new(&config));
        // Those that are new are never busy.
        if let Err(Unkeepable::For(problem)) = self.check_devices(&machine) {
            return Err(problem);
        }
        machine.restore(kept, processor.counter).map_err(damaged)?;
        Ok(Understood { disks, processor, machine, originals })
    }

    /// Whether what was kept can be put into this guest. Nothing of it is changed.
    ///
    /// # Errors
    /// What of it cannot, and what would be right.
    pub fn check_kept(&self, kept: &[u8], host: &mut Host) -> Result<(), String> {
        if let Err(Unkeepable::For(problem)) = self.check_devices(&self.common.machine) {
            return Err(problem);
        }
        if self.common.ram.absent_count() != 0 {
            return Err(format!("{} has memory in a balloon: only a start takes it back", self.common.name));
        }
        let understood = self.understand(kept, host)?;
        self.common.devices.check_room(&understood.disks)
    }

    /// The guest's memory is going to be replaced: nothing is known any more of what was in it. It must not run until
    /// [`Self::put_back`], or it is loaded anew.
    pub fn begin_replacing(&mut self, core: &mut HostCpu) {
        self.forget_memory(core);
        self.vcpu.context.cpu.reset();
        self.start_over(Resume::Guest(GuestVa(0)));
    }

    /// Drops translations and shadow tables.
    fn forget_memory(&mut self, core: &mut HostCpu) {
        // Tables that are in force are not to be freed.
        self.vcpu.mmu.release(core.enter_host_space());
        self.forget_code();
    }

    /// The processor goes on at `next` with the registers that it now has, and nothing else is known of it.
    fn start_over(&mut self, next: Resume) {
        let Vm { vcpu, common, loading } = self;
        *loading = Loading::default();
        vcpu.nested = 0;
        vcpu.next = next;
        vcpu.core_state = CoreState::new();
        vcpu.mmu.reset(&regime(&vcpu.context.cpu));
        common.engine.vcpu_reset();
        for bank in Machine::FLASH {
            let open = common.machine.flash(bank).is_none_or(|(_, _, flash)| flash.is_array());
            vcpu.mmu.set_rom_open(bank, open);
        }
    }

    /// Puts what was kept into the guest, whose memory was replaced. It stands since host time `since`.
    ///
    /// # Errors
    /// As [`Self::check_kept`]: it stays as it is then.
    pub fn put_back(&mut self, core: &mut HostCpu, host: &mut Host, kept: &[u8], since: u64) -> Result<(), String> {
        let Understood { processor, machine, originals, .. } = self.understand(kept, host)?;
        self.forget_memory(core);
        let Vm { vcpu, common, .. } = self;
        common.engine.set_originals(originals);
        common.machine = *machine;
        common.devices.half_replaced = false;
        common.devices.reset();
        common.start = host.start_for(processor.counter, since);
        host.arm_timer(common.start, None);
        vcpu.context.cpu.set_state(&processor.state).map_err(|problem| format!("{problem}"))?;
        vcpu.context.cpu.page.tpidrurw = processor.thread_id;
        let pc = GuestVa(processor.state.pc);
        self.start_over(if processor.waits { Resume::Wait(pc) } else { Resume::Guest(pc) });
        let [_, read_only] = processor.state.thread_ids;
        self.vcpu.core_state.set_thread_ids(read_only, processor.thread_id);
        let (registers, fpscr) = self.vcpu.core_state.vfp();
        (*registers, *fpscr) = (processor.vfp, processor.fpscr);
        Ok(())
    }

    /// Where memory of the guest's is, from `from` on: its first address, how much follows without a gap, and the byte
    /// that it is full of where nothing was ever written.
    fn place_from(&self, from: u32) -> Option<(u32, u32, u8)> {
        let [first, second] = self.common.ram.flash().map(|(at, _, bytes)| (at.0, bytes, 0xff));
        // In the order of their addresses.
        let all = [first, second, (Machine::RAM.0, self.common.ram.size(), 0)];
        let (at, bytes, blank) = all.into_iter().find(|&(at, bytes, _)| bytes != 0 && from <= at + (bytes - 1))?;
        let start = from.max(at) & !(PAGE as u32 - 1);
        Some((start, bytes - (start - at), blank))
    }

    /// Looks at some more of what is below a disk: see [`Devices::look_at_base`](super::devices::Devices).
    ///
    /// # Errors
    /// If the guest has a disk that cannot be kept.
    pub fn look_at_base(&mut self, core: &mut HostCpu, disk: u32) -> Result<Option<(usize, usize)>, String> {
        if let Err(Unkeepable::For(problem)) = self.check_devices(&self.common.machine) {
            return Err(problem);
        }
        Ok(self.common.devices.look_at_base(core.enter_host_space(), disk as usize))
    }

    /// It was not put back to the end. What it had written to its disks is gone if half of it was replaced: whether
    /// that is so.
    pub fn forget_half(&mut self, core: &mut HostCpu) -> bool {
        self.common.devices.forget_half(core.enter_host_space())
    }

    /// The first page from address `from` on, of memory or of a disk, that is not blank, or how far none is.
    pub fn look_for_page(&mut self, core: &mut HostCpu, disk: Option<u32>, from: u32) -> Look {
        if let Some(disk) = disk {
            let page = self.common.devices.next_written(core.enter_host_space(), disk as usize, from);
            return page.map_or(Look::End, |(at, page)| Look::Page(at, page));
        }
        let Some((start, bytes, blank)) = self.place_from(from) else { return Look::End };
        let host_space = core.enter_host_space();
        let blank = u32::from_le_bytes([blank; 4]);
        let pages = (start..=start + (bytes - 1)).step_by(PAGE);
        let mut next = start;
        for at in pages.take(LOOKS) {
            next = at.wrapping_add(PAGE as u32);
            let page = self.common.ram.page(host_space, GuestPa(at));
            if page.is_some_and(|page| page.iter().any(|&word| word != blank))
                && let Some(bytes) = self.common.ram.loaded(host_space, GuestPa(at), PAGE as u32)
            {
                let mut copy = Box::new([0; PAGE]);
                copy.copy_from_slice(bytes);
                return Look::Page(at, copy);
            }
        }
        Look::Blank(next)
    }

    /// The checksums of some pages from address `from` on, and the address of the first of them. `None`: there are
    /// none. Of a disk, blank ones are left out.
    pub fn sums(&mut self, core: &mut HostCpu, disk: Option<u32>, from: u32) -> Option<(u32, Vec<u64>)> {
        if let Some(disk) = disk {
            let mut next = |from| self.common.devices.next_written(core.enter_host_space(), disk as usize, from);
            let (start, page) = next(from)?;
            let mut sums = Vec::from([sum(&page[..])]);
            while sums.len() < SUMS {
                let at = start.wrapping_add((sums.len() * PAGE) as u32);
                let Some((_, page)) = next(at).filter(|&(found, _)| found == at) else { break };
                sums.push(sum(&page[..]));
            }
            return Some((start, sums));
        }
        let (start, bytes, _) = self.place_from(from)?;
        let host_space = core.enter_host_space();
        let pages = (start..=start + (bytes - 1)).step_by(PAGE).take(SUMS);
        let of_page = |at| self.common.ram.loaded(host_space, GuestPa(at), PAGE as u32).map_or(0, sum);
        Some((start, pages.map(of_page).collect()))
    }

    /// Replaces a page, of memory or of a disk.
    ///
    /// # Errors
    /// If there is none at `at`.
    pub fn put_page(
        &mut self,
        core: &mut HostCpu,
        disk: Option<u32>,
        at: u32,
        page: &[u8; PAGE],
    ) -> Result<(), String> {
        if let Some(disk) = disk {
            return self.common.devices.put_written(core.enter_host_space(), disk as usize, at, page);
        }
        let place = self.common.ram.loaded_mut(core.enter_host_space(), GuestPa(at), PAGE as u32);
        let place = place.filter(|_| at.is_multiple_of(PAGE as u32)).ok_or_else(|| no_page(at))?;
        place.copy_from_slice(page);
        // User code may be fetched from there.
        cache::clean_to_pou(place.as_ptr() as u32, PAGE as u32);
        Ok(())
    }

    /// Makes `bytes` bytes from `at` on what they are where nothing was written.
    ///
    /// # Errors
    /// If they are not whole pages, or not all there.
    pub fn put_blank(&mut self, core: &mut HostCpu, disk: Option<u32>, at: u32, bytes: u32) -> Result<(), String> {
        if let Some(disk) = disk {
            return self.common.devices.put_unwritten(core.enter_host_space(), disk as usize, at, bytes);
        }
        let pages = [at, bytes].iter().all(|n| n.is_multiple_of(PAGE as u32));
        let (_, _, blank) = self.place_from(at).filter(|_| pages).ok_or_else(|| no_page(at))?;
        let place = self.common.ram.loaded_mut(core.enter_host_space(), GuestPa(at), bytes);
        let place = place.ok_or_else(|| no_page(at))?;
        place.fill(blank);
        cache::clean_to_pou(place.as_ptr() as u32, bytes);
        Ok(())
    }
}

fn no_page(at: u32) -> String {
    format!("there is no page of memory at {at:x}")
}
