//! What stands here without the feature `papers`: two tables, registers in the vCPU page, returns through the mirror,
//! and mappings that the guest's TLB maintenance tells of.

use alloc::format;
use alloc::string::String;

use spica_addr::{CachePc, GuestPa};
use spica_dbt::spill::Place;
use spica_dbt::{Spill, Translator};
use spica_mmu::{Separation, Shadow};
use spica_vcpu::VcpuPage;

use crate::host::Host;
use crate::host_cpu::HostCpu;
use crate::memory::pool::Share;
use crate::vm::tables::Tables;
use crate::vm::{Resume, Stop, Vm};
use crate::world::{Context, Privilege};
use spica_options::Options;

macro_rules! spilling_assembly {
    () => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/papers/absent.s"))
    };
}
pub(crate) use spilling_assembly;

/// How shadow tables keep kernel and user code apart.
pub const SEPARATION: Separation = Separation;

/// For assembly: not by domains.
pub const BY_DOMAINS: (u32, u32, u32) = (0, 0, 0);

/// For assembly: nothing.
pub const SPILL: (u32, u32) = (0, 0);

/// What is asked for must be what this image has.
pub fn check(options: &Options, _: usize) -> Result<(), String> {
    let lacks = |word: &str| format!("{word}: this image does not have that; it takes one with the feature papers");
    if options.single_table == Some(true) {
        return Err("tables=single: this image has tables=double; it takes one with the feature single-table".into());
    }
    if options.tracked_writes {
        return Err(lacks("tracking=writes"));
    }
    let mut switches = [Some(options.switches), options.boot_switches].into_iter().flatten();
    match switches.find_map(|switches| spica_dbt::lacking(&switches.translation)) {
        Some(word) => Err(lacks(word)),
        None => Ok(()),
    }
}

/// No register of the core is used.
#[derive(Clone, Copy, Default)]
pub struct CoreRegister(());

impl Context {
    pub(crate) const fn set_spill(&mut self, _: Spill) {}

    pub(crate) const fn lend_register(&self, _: Privilege) {}

    pub(crate) const fn take_register_back(&mut self, _: Privilege) {}
}

/// The value of a register that is not in its place.
pub fn spilled(vm: &mut Vm, place: Place) -> u32 {
    let Place::Slot(slot) = place;
    vm.cpu().page.spill[slot as usize % 4]
}

/// There is no shared slot.
pub struct SharedSlot;

impl SharedSlot {
    /// Bytes of VA behind the code cache.
    pub const BYTES: u32 = 0;

    /// The same.
    pub const fn bytes(&self) -> u32 {
        Self::BYTES
    }

    pub(crate) const fn new(_: &mut Share) -> Option<Self> {
        Some(Self)
    }

    pub(crate) const fn map(&self, _: &mut [u32]) {}
}

/// There is no shadow stack.
#[derive(Default)]
pub struct Returns(());

impl Returns {
    pub(crate) const fn mend(&mut self, _: &mut VcpuPage, _: &Translator) {}

    pub(crate) const fn reset(&mut self) {}
}

/// No translated code has such a trap: a guest went there by itself.
pub fn closed_return(_: &mut Vm, svc: CachePc) -> Resume {
    Resume::Stop(Stop::WildJump(svc.0))
}

pub(crate) const fn record_bytes(_: &Options) -> u32 {
    0
}

pub(crate) const fn set_tracking(_: &mut Shadow, _: &Options) {}

pub(crate) const fn tracks_writes(_: &Shadow) -> bool {
    false
}

pub(crate) const fn release_table(_: &mut Shadow, _: GuestPa, _: &mut Tables) {}

pub(crate) const fn table_written(_: &mut Shadow, _: GuestPa, _: u32, _: &mut Tables) {}

/// Protected pages are those that code was translated from.
pub const fn write_to_table(
    _: &mut Vm,
    _: &mut HostCpu,
    _: &mut Host,
    _: Privilege,
    _: GuestPa,
    _: u32,
    _: Resume,
) -> Option<Resume> {
    None
}
