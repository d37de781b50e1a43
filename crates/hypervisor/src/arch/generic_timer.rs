//! The registers of the virtual timer (ARM ARM B8.1.5). Only where [`super::cpu::has_generic_timer`] says so.

use core::arch::asm;

use super::barrier::isb;
use super::cp15::{Cntfrq, CntvCtl, SysRegRead, SysRegWrite};

/// Hz, as firmware set it in CNTFRQ.
pub fn frequency() -> u32 {
    Cntfrq::read_raw()
}

/// CNTVCT. The barrier keeps the read from being done early.
pub fn now() -> u64 {
    isb();
    let (low, high): (u32, u32);
    // SAFETY: reads a counter.
    unsafe { asm!("mrrc p15, 1, {}, {}, c14", out(reg) low, out(reg) high, options(nomem, nostack, preserves_flags)) }
    u64::from(high) << 32 | u64::from(low)
}

/// Raises the timer's line once the counter reaches `deadline`.
pub fn start(deadline: u64) {
    // SAFETY: the virtual timer is the hypervisor's alone.
    unsafe {
        asm!(
            "mcrr p15, 3, {}, {}, c14",
            in(reg) deadline as u32, in(reg) (deadline >> 32) as u32, options(nomem, nostack, preserves_flags)
        );
        CntvCtl::write_raw(1);
    }
    isb();
}

/// Lowers the timer's line and keeps it low.
pub fn stop() {
    // SAFETY: as above.
    unsafe { CntvCtl::write_raw(0) }
    isb();
}
