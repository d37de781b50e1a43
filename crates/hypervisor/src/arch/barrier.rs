//! Barriers and the wait for an interrupt (ARM ARM A3.8.3, B1.8.13).

use core::arch::asm;

/// Data memory barrier: accesses before it are seen by other observers before those after it.
#[inline(always)]
pub fn dmb() {
    // SAFETY: a barrier changes no state that Rust knows of; without `nomem` the compiler moves no access across it.
    unsafe { asm!("dmb sy", options(nostack, preserves_flags)) }
}

/// Data synchronisation barrier: waits until all accesses and all cache, TLB and predictor maintenance before it are
/// complete.
#[inline(always)]
pub fn dsb() {
    // SAFETY: as for `dmb`.
    unsafe { asm!("dsb sy", options(nostack, preserves_flags)) }
}

/// Instruction synchronisation barrier: what follows is fetched anew, with all changes of context before it in effect.
#[inline(always)]
pub fn isb() {
    // SAFETY: as for `dmb`.
    unsafe { asm!("isb", options(nostack, preserves_flags)) }
}

/// Waits for an interrupt, masked or not: outstanding stores are finished first, then the core may sleep.
#[inline(always)]
pub fn wait_for_interrupt() {
    dsb();
    // SAFETY: `wfi` only delays.
    unsafe { asm!("wfi", options(nostack, preserves_flags)) }
}

/// Clears the local exclusive monitor: a store-exclusive that is under way fails (A3.4.2).
#[inline(always)]
pub fn clear_exclusive() {
    // SAFETY: Rust's own atomics retry.
    unsafe { asm!("clrex", options(nostack, preserves_flags)) }
}
