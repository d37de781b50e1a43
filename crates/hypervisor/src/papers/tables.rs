//! Write-protected guest tables ([`Tracking::Writes`]): who tells the shadow of writes to them.

use spica_addr::{CachePc, GuestPa, GuestVa};
use spica_isa::Op;
use spica_mmu::{Shadow, TRACKED_BYTES, Tracking};

use crate::engine::Engine;
use crate::host::Host;
use crate::host_cpu::HostCpu;
use crate::vm::tables::{RealTlb, Tables};
use crate::vm::trap::abort::{emulate_access, emulate_user_access};
use crate::vm::{Resume, Vm};
use crate::world::Privilege;
use spica_options::Options;

/// Bytes that a guest's share needs more for it, in the end.
pub fn record_bytes(options: &Options) -> u32 {
    if options.tracked_writes { TRACKED_BYTES } else { 0 }
}

/// Says to a guest's shadow tables how they learn of changed mappings, before there are any.
pub fn set_tracking(shadow: &mut Shadow, options: &Options) {
    shadow.set_tracking(if options.tracked_writes { Tracking::Writes } else { Tracking::Maintenance });
}

/// Whether the shadow knows of changed mappings before the guest's TLB maintenance says so.
pub fn tracks_writes(shadow: &Shadow) -> bool {
    shadow.tracking() == Tracking::Writes
}

/// The page is going to be written as a whole, or is to be the guest's no more.
pub fn release_table(shadow: &mut Shadow, page: GuestPa, tables: &mut Tables) {
    shadow.release_table(page, tables, &mut RealTlb);
}

/// What the guest wrote at `pa` may be in its tables.
pub fn table_written(shadow: &mut Shadow, pa: GuestPa, bytes: u32, tables: &mut Tables) {
    if shadow.is_table_page(pa) {
        shadow.table_written(pa, bytes, tables, &mut RealTlb);
    }
}

/// A write to a protected page: if it is one of the guest's tables, a plain store is emulated, and anything else finds
/// the page released. User code's stores are emulated, too: the page may hold the tables that the store's own page, or
/// its instruction's, is mapped by. Released, it would be tracked and protected again by the fetch, without end. `None`
/// if code was translated from it.
#[inline(never)]
pub fn write_to_table(
    vm: &mut Vm,
    core: &mut HostCpu,
    host: &mut Host,
    privilege: Privilege,
    pa: GuestPa,
    far: u32,
    again: Resume,
) -> Option<Resume> {
    if vm.mmu().shadow().is_code_page(pa) {
        return None;
    }
    let pc = CachePc(vm.cpu().pc);
    let plain = |word| matches!(spica_isa::decode(word).op, Op::Mem(_) | Op::MemMultiple(_));
    if privilege == Privilege::Kernel && vm.engine().word(pc).is_some_and(plain) {
        return Some(emulate_access(vm, core, host, pc, (GuestVa(far), pa), true, None));
    }
    if privilege == Privilege::User
        && let Some(resume) = emulate_user_access(vm, core, host, pc.0)
    {
        return Some(resume);
    }
    vm.mmu().release_table(core.enter_host_space(), pa);
    Some(again)
}
