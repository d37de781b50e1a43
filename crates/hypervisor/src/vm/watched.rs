//! Watchpoints: memory that a guest's debugger wants to be told of when it is written or read, by the guest's kernel,
//! its programs, or its devices.
//!
//! A page with such memory is *covered*: for what is watched for writing only, it is write-protected as a page of code
//! is; else nothing maps it, as a page that the guest has given away. So whoever accesses it traps, whatever address
//! it uses, and the access is interpreted. Interpreted accesses, and those of devices, are compared with what is
//! watched ([`Watches::note`]). If one is in it, the guest stands behind the instruction.
//!
//! Exclusive accesses, and those of VFP, are not interpreted: a STREX must not succeed that would have failed. For them
//! the page is *open* for a millisecond, so that what a lock is taken by gets done. What has changed meanwhile is
//! seen by a checksum, so the guest stands a little behind what has changed it. All this is looked at once a turn
//! ([`Vm::look_at_watches`]); a guest without watchpoints pays for that question only.
//!
//! What is watched is physical memory: where the address was when the watchpoint was set.

use alloc::vec::Vec;

use spica_addr::{CachePc, GuestPa, GuestVa, pieces};
use spica_console::debug::Watch as Kind;
use spica_isa::t32::{self, Code, ItState};
use spica_mmu::{Access, AccessKind, lookup, translate};
use spica_vcpu::interp::Step;
use spica_vcpu::{Effect, Exception, psr};

use super::env::TrapEnv;
use super::instruction::Instruction;
use super::mmu::Mmu;
use super::trap::{find, restore};
use super::{Common, Resume, Stop, Vm, regime};
use crate::host::Host;
use crate::host_cpu::{HostCpu, HostSpace};
use crate::world::Privilege;

/// Pieces of memory, each within a page, that are watched at most.
const MOST: usize = 256;
/// Pages that are open at the same time at most: a copy has two.
const MOST_OPEN: usize = 4;

/// How long pages are open, in microseconds.
const OPEN_US: u32 = 1000;

/// A piece of memory, within a page.
struct Watch {
    /// What the debugger has set: address and bytes.
    set: (u32, u32),
    kind: Kind,
    pa: GuestPa,
    bytes: u32,
    /// Of what it reads, while its page is open.
    sum: u64,
}

/// Whether pages are open.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Open {
    #[default]
    No,
    /// They are, and the guest has not run since.
    Just,
    /// Until this host time.
    Until(u64),
}

/// See the module's text.
#[derive(Default)]
pub struct Watches {
    all: Vec<Watch>,
    open: Open,
    /// The pages that are.
    pages: [Option<GuestPa>; MOST_OPEN],
    /// What was accessed, since the guest went on: as it was set.
    hit: Option<(Kind, u32)>,
}

impl Watches {
    /// Whether there is something to look at.
    #[inline]
    fn is_on(&self) -> bool {
        !self.all.is_empty()
    }

    /// Whether the page at `pa` has something that is watched.
    #[inline]
    pub fn has_page(&self, pa: GuestPa) -> bool {
        self.is_on() && self.all.iter().any(|watch| watch.pa.page() == pa.page())
    }

    /// Whether pages are open, which is to end even if the guest waits.
    #[inline]
    pub fn are_open(&self) -> bool {
        self.open != Open::No
    }

    /// Memory is accessed, or was.
    #[inline]
    pub fn note(&mut self, pa: GuestPa, bytes: u32, write: bool, host: &mut Host) {
        if self.is_on() && self.compare(pa, bytes, write) {
            host.want_attention();
        }
    }

    /// Whether what is watched was accessed since the guest went on.
    #[inline]
    pub fn are_hit(&self) -> bool {
        self.hit.is_some()
    }

    /// A device writes: the guest stands in its next turn, which it gets at once ([`Self::are_hit`]).
    #[inline]
    pub fn note_device_write(&mut self, pa: GuestPa, bytes: u32) {
        if self.is_on() {
            self.compare(pa, bytes, true);
        }
    }

    /// Whether it is watched.
    #[cold]
    fn compare(&mut self, pa: GuestPa, bytes: u32, write: bool) -> bool {
        let wanted = |watch: &&Watch| {
            let kind = if write { watch.kind != Kind::Read } else { watch.kind != Kind::Write };
            kind && (watch.pa.0.wrapping_sub(pa.0) < bytes || pa.0.wrapping_sub(watch.pa.0) < watch.bytes)
        };
        let found = self.all.iter().find(wanted).map(|watch| (watch.kind, watch.set.0));
        self.hit = self.hit.or(found);
        found.is_some()
    }
}

/// A checksum: FNV-1a, of 64 bits.
fn sum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, &byte| (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

impl Common {
    /// Pages with what is watched are covered from now on, or are not: all, or one.
    fn cover(&mut self, mmu: &mut Mmu, host_space: HostSpace<'_>, only: Option<GuestPa>, cover: bool) {
        let mut hides = false;
        for n in 0..self.watches.all.len() {
            let page = self.watches.all[n].pa.page();
            if only.is_some_and(|only| only != page) {
                continue;
            }
            if !cover {
                mmu.set_covered(page, None);
                // Code of it was not made with the protection that it is to have, or is no more.
                self.code_changes(mmu, page);
                mmu.set_absent(page, !self.ram.has(page, 1));
            } else {
                let here = |watch: &Watch| watch.pa.page() == page && watch.kind != Kind::Write;
                let hidden = self.watches.all.iter().any(here);
                mmu.set_covered(page, Some(hidden));
                if hidden {
                    mmu.set_absent(page, true);
                    hides = true;
                } else {
                    mmu.protect_code_page(page);
                }
            }
        }
        if hides {
            mmu.forget_all(host_space);
        }
        mmu.make_stale();
    }

    /// Checksums of what is watched in a page.
    fn sums(&mut self, host_space: HostSpace<'_>, page: GuestPa, mut each: impl FnMut(&mut Watch, u64)) {
        let Common { watches, ram, .. } = self;
        for watch in watches.all.iter_mut().filter(|watch| watch.pa.page() == page) {
            if let Some(bytes) = ram.bytes(host_space, watch.pa, watch.bytes) {
                each(watch, sum(bytes));
            }
        }
    }
}

impl Vm {
    /// Watches so many bytes at a virtual address, where they are now. The guest stands.
    ///
    /// # Errors
    /// If that cannot be.
    pub fn set_watch(&mut self, core: &mut HostCpu, kind: Kind, va: u32, bytes: u32) -> Result<(), &'static str> {
        let mut places = Vec::new();
        for (at, len) in pieces(va, bytes as usize) {
            let memory = self.common.ram.at(core.enter_host_space());
            let place = lookup(&memory, &regime(&self.vcpu.context.cpu), GuestVa(va.wrapping_add(at as u32)));
            let pa = place.ok().map(|mapping| mapping.pa).filter(|&pa| self.common.ram.has(pa, len as u32));
            let pa = pa.ok_or("there is no RAM: only RAM is watched")?;
            places.push(Watch { set: (va, bytes), kind, pa, bytes: len as u32, sum: 0 });
        }
        let watches = &mut self.common.watches.all;
        if watches.len() + places.len() > MOST {
            return Err("there are too many watchpoints: 256, of which each page of a range is one");
        }
        watches.try_reserve_exact(places.len()).map_err(|_| "there is no memory")?;
        self.vcpu.mmu.reserve_covered(MOST).map_err(|_| "there is no memory")?;
        self.uncover(core);
        self.common.watches.all.extend(places);
        self.common.cover(&mut self.vcpu.mmu, core.enter_host_space(), None, true);
        Ok(())
    }

    /// Watches that no longer. False if it was not watched.
    pub fn clear_watch(&mut self, core: &mut HostCpu, kind: Kind, va: u32, bytes: u32) -> bool {
        let before = self.common.watches.all.len();
        self.uncover(core);
        self.common.watches.all.retain(|watch| (watch.kind, watch.set) != (kind, (va, bytes)));
        self.common.cover(&mut self.vcpu.mmu, core.enter_host_space(), None, true);
        self.common.watches.all.len() != before
    }

    /// Watches nothing any more.
    pub fn clear_watches(&mut self, core: &mut HostCpu) {
        if self.common.watches.is_on() {
            self.uncover(core);
        }
        self.common.watches = Watches::default();
    }

    /// Which watchpoint the guest has come to, since it went on.
    pub fn watch_hit(&self) -> Option<(Kind, u32)> {
        self.common.watches.hit
    }

    /// The guest goes on.
    pub(super) fn forget_hit(&mut self) {
        self.common.watches.hit = None;
    }

    fn uncover(&mut self, core: &mut HostCpu) {
        self.common.watches.open = Open::No;
        self.common.watches.pages = [None; MOST_OPEN];
        self.common.cover(&mut self.vcpu.mmu, core.enter_host_space(), None, false);
    }

    /// The guest's turn begins. Whether it is to stand for its debugger.
    #[inline]
    pub(super) fn look_at_watches(&mut self, core: &mut HostCpu, host: &mut Host) -> Option<Stop> {
        if self.common.watches.is_on() { self.look(core, host) } else { None }
    }

    #[cold]
    fn look(&mut self, core: &mut HostCpu, host: &mut Host) -> Option<Stop> {
        match self.common.watches.open {
            Open::No => {}
            Open::Just => {
                self.common.watches.open = Open::Until(host.now() + host.ticks(OPEN_US));
                host.want_attention();
            }
            Open::Until(end) if host.now() < end => host.want_attention(),
            Open::Until(_) => self.close_watches(core),
        }
        self.common.watches.hit?;
        self.halt_soon();
        Some(Stop::Debugger)
    }

    /// Lets the guest's accesses to what is watched in the page of `pa` through.
    fn open_watches(&mut self, core: &mut HostCpu, host: &mut Host, pa: GuestPa) {
        let page = pa.page();
        if self.common.watches.pages.iter().all(Option::is_some) {
            self.close_watches(core);
        }
        if let Some(place) = self.common.watches.pages.iter_mut().find(|place| place.is_none()) {
            *place = Some(page);
        }
        self.common.cover(&mut self.vcpu.mmu, core.enter_host_space(), Some(page), false);
        self.common.sums(core.enter_host_space(), page, |watch, sum| watch.sum = sum);
        self.common.watches.open = Open::Just;
        host.want_attention();
    }

    /// No page is open any more: what has changed in one is known then.
    fn close_watches(&mut self, core: &mut HostCpu) {
        self.common.watches.open = Open::No;
        let mut changed = None;
        for page in core::mem::take(&mut self.common.watches.pages).into_iter().flatten() {
            self.common.sums(core.enter_host_space(), page, |watch, sum| {
                if watch.kind != Kind::Read && watch.sum != sum {
                    changed = changed.or(Some((watch.kind, watch.set.0)));
                }
            });
            self.common.cover(&mut self.vcpu.mmu, core.enter_host_space(), Some(page), true);
        }
        let watches = &mut self.common.watches;
        watches.hit = watches.hit.or(changed);
    }
}

/// An access, of this kind, that reached a page with what is watched, that of `pa`, by the instruction where the core
/// is.
#[cold]
pub fn accessed(
    vm: &mut Vm,
    core: &mut HostCpu,
    host: &mut Host,
    (privilege, kind): (Privilege, AccessKind),
    pa: GuestPa,
) -> Resume {
    let pc = vm.vcpu.context.cpu.pc;
    let wild = Resume::Stop(Stop::WildJump(pc));
    let (instruction, guest) = match privilege {
        Privilege::Kernel => {
            let Some((location, instruction)) = find(vm, core.enter_host_space(), CachePc(pc)) else { return wild };
            (Some(instruction), restore(vm, &location))
        }
        Privilege::User => (of_user(vm, core.enter_host_space(), pc), GuestVa(pc)),
    };
    let known = instruction.filter(|instruction| instruction.is_transfer() && kind != AccessKind::Fetch);
    let Some(instruction) = known else {
        vm.open_watches(core, host, pa);
        return Resume::Guest(guest);
    };
    let (cpu, mut env) = TrapEnv::new(vm, core, host);
    match instruction.execute(cpu, &mut env, guest.0) {
        Step::Next(Effect::None) => Resume::Guest(guest.wrapping_add(instruction.length())),
        Step::Branch(target) if privilege == Privilege::Kernel => vm.branch(target),
        Step::Branch(target) => vm.vcpu.branch(target),
        Step::Abort(abort) => {
            vm.common.counters.guest_aborts += 1;
            vm.vcpu.take(Exception::DataAbort { pc: guest.0, fsr: abort.fsr, far: abort.far })
        }
        _ => wild,
    }
}

/// The instruction of user code at `pc`.
pub(super) fn of_user(vm: &Vm, host_space: HostSpace<'_>, pc: u32) -> Option<Instruction> {
    let cpu = &vm.vcpu.context.cpu;
    let half = |va: u32| {
        let access = Access { kind: AccessKind::Fetch, privileged: false };
        let mapping = translate(&vm.common.ram.at(host_space), &regime(cpu), GuestVa(va), access).ok()?;
        vm.common.ram.load(host_space, mapping.pa, 2).map(|half| half as u16)
    };
    let first = half(pc)?;
    // It need not be there if it is no part of the instruction.
    let second = half(pc.wrapping_add(2)).unwrap_or(0);
    if cpu.psr & psr::T == 0 {
        return Some(Instruction::A32(spica_isa::decode(u32::from(second) << 16 | u32::from(first))));
    }
    Some(Instruction::T32(t32::decode(Code::new(first, second), ItState::from_psr(cpu.psr))))
}
