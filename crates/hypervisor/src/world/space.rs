//! Which translation tables are in force: Spica's own (*home*) or a guest's.
//!
//! Spica runs under either: the hole is in all of them. It stays under the guest's tables as long as it needs nothing but
//! its own memory, since most traps don't; whoever reaches for guest RAM, or changes shadow tables, goes home first.

use core::sync::atomic::{AtomicU32, Ordering};

use spica_addr::HostPa;

use crate::arch::tlb;
use crate::layout::HOME_ASID;

/// The home table.
static HOME: AtomicU32 = AtomicU32::new(0);
/// TTBR0's table, with its ASID in the low bits that its alignment leaves free.
static CURRENT: AtomicU32 = AtomicU32::new(0);

fn switch(table: HostPa, asid: u32) {
    let key = table.0 | asid;
    if CURRENT.load(Ordering::Relaxed) != key {
        // SAFETY: the home table and every shadow table hold the hole, where code, stack and heap are; guest RAM is
        // reached only by those who call `go_home` first.
        unsafe { tlb::switch_table(table, asid) }
        CURRENT.store(key, Ordering::Relaxed);
    }
}

/// Says where the home table is, which is the current one. To be called before any other of these functions.
pub fn start_at(home: HostPa) {
    HOME.store(home.0, Ordering::Relaxed);
    CURRENT.store(home.0 | HOME_ASID, Ordering::Relaxed);
}

/// The home table.
pub fn home() -> HostPa {
    HostPa(HOME.load(Ordering::Relaxed))
}

/// Makes Spica's own tables the current ones: all RAM is at its physical address then.
pub fn go_home() {
    switch(home(), HOME_ASID);
}

/// The same, whatever tables are in force: after a failure, [`CURRENT`] may not be what is.
pub fn return_home() {
    CURRENT.store(0, Ordering::Relaxed);
    go_home();
}

/// The guest's trap handlers in assembly may have changed tables: the current ones are these.
pub fn found(root: HostPa, asid: u8) {
    CURRENT.store(root.0 | u32::from(asid), Ordering::Relaxed);
}

/// Makes a guest's shadow tables the current ones.
pub fn go_to_guest(root: HostPa, asid: u8) {
    switch(root, u32::from(asid));
}
