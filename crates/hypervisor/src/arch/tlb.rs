//! TLB maintenance, and the change of address spaces (ARM ARM B3.10, B4.2.2).
//!
//! Spica runs on one core, so these are the local operations. Each finishes with the barriers that make its effect
//! certain for the code after it. Stores to tables must have been made visible to walks before
//! ([`super::cache::clean_table`]).

use spica_addr::HostPa;

use super::barrier::{dsb, isb};
use super::cp15::{Ats1cpr, Ats1cur, Contextidr, Par, SysRegRead, SysRegWrite, Tlbiall, Tlbiasid, Tlbimva, Ttbr0};
use crate::layout::TTBR_WALK;

fn complete() {
    dsb();
    isb();
}

/// Drops all translations, global ones included.
pub fn invalidate_all() {
    dsb();
    // SAFETY: translations are fetched again from the tables; the operand is ignored.
    unsafe { Tlbiall::write_raw(0) }
    complete();
}

/// Drops all non-global translations of an address space.
pub fn invalidate_asid(asid: u32) {
    dsb();
    // SAFETY: as above.
    unsafe { Tlbiasid::write_raw(asid & 0xff) }
    complete();
}

/// Drops the translation of one page, whatever its size, of an address space, and a global one of the same address.
pub fn invalidate_page(va: u32, asid: u32) {
    dsb();
    // SAFETY: as above.
    unsafe { Tlbimva::write_raw(va & 0xffff_f000 | asid & 0xff) }
    complete();
}

/// Whether User mode may read at `va`, by the tables and DACR in force.
pub fn user_reads(va: u32) -> bool {
    // SAFETY: a translation accesses nothing but tables; PAR is nobody else's (a guest's own is emulated).
    unsafe { Ats1cur::write_raw(va) }
    isb();
    Par::read_raw() & 1 == 0
}

/// The word at `va`, if User mode may read it, by the tables and DACR in force: those of a guest's view, in which that
/// is the guest's, or is code that Spica has made for it. In the host address space, where User mode may read nothing,
/// there is none.
pub fn user_word(va: u32) -> Option<u32> {
    if va & 3 != 0 || !user_reads(va) {
        return None;
    }
    // SAFETY: readable by User mode, and so by Spica; the guest, whose memory it is (devices are not mapped), does not
    // run.
    Some(unsafe { core::ptr::with_exposed_provenance::<u32>(va as usize).read_volatile() })
}

/// The page that is mapped at `va` for us, by the tables and DACR in force. Not for supersections, of which Spica has
/// none.
pub fn mapped_page(va: u32) -> Option<HostPa> {
    // SAFETY: as above.
    unsafe { Ats1cpr::write_raw(va) }
    isb();
    let par = Par::read_raw();
    (par & 1 == 0).then_some(HostPa(par & 0xffff_f000))
}

/// Makes `table` (16 KiB aligned) with address space identifier `asid` the current translation tables.
///
/// The order is the one of ARM ARM B3.10.4 that goes through a table of global entries alone, `region`: so no
/// translation of one table can be remembered under the identifier of the other.
///
/// # Safety
/// Both tables must hold the hypervisor region as [`crate::memory::host_space::region_entries`] has it, and `table`
/// must map whatever the caller goes on to use.
pub unsafe fn switch_table(region: HostPa, table: HostPa, asid: u32) {
    // SAFETY: passed on to the caller; the code that runs here and its stack lie in the hypervisor region, mapped alike
    // before, meanwhile and after.
    unsafe {
        Ttbr0::write_raw(region.0 | TTBR_WALK);
        isb();
        // No walk that began under the old table may end after the ASID has changed (Cortex-A9 erratum 754322).
        dsb();
        Contextidr::write_raw(asid & 0xff);
        isb();
        Ttbr0::write_raw(table.0 | TTBR_WALK);
        isb();
    }
}
