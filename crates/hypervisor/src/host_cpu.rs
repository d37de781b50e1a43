//! The processor that this code runs on: which translation tables are in force there, Spica's own (*home*) or a guest's,
//! and who takes turns on it.
//!
//! Spica runs under either: the hole is in all of them. It stays under the guest's tables as long as it needs nothing but
//! its own memory, since most traps don't. Whoever reaches for RAM at its physical address, a guest's first of all, or
//! changes shadow tables, takes a [`Home`] for that: it cannot be had under other tables, nor can others be put in force
//! while somebody has it.

use core::marker::PhantomData;

use spica_addr::HostPa;
use spica_sched::RunQueue;

use crate::arch::tlb;
use crate::layout::{HOME_ASID, TTBR_WALK};
use crate::world::Side;

/// See the module's text.
pub struct HostCpu {
    /// The home table.
    home: HostPa,
    /// TTBR0's table, with its ASID in the low bits that its alignment leaves free.
    in_force: u32,
    /// Who takes turns here.
    pub queue: RunQueue,
}

/// Spica's own tables are in force as long as this lives: all RAM is at its physical address.
#[derive(Clone, Copy)]
pub struct Home<'a>(PhantomData<&'a HostCpu>);

impl Home<'_> {
    /// For those to whom no [`Home`] can be passed.
    ///
    /// # Safety
    /// Whoever called them has one, which outlives this.
    pub const unsafe fn assume() -> Self {
        Home(PhantomData)
    }
}

/// A table and its ASID as one word. Tables are aligned to 16 KiB.
fn key(table: HostPa, asid: u32) -> u32 {
    table.0 | asid
}

impl HostCpu {
    /// The processor, whose tables in force are those at `home`.
    pub const fn new(home: HostPa, queue: RunQueue) -> HostCpu {
        HostCpu { home, in_force: home.0 | HOME_ASID, queue }
    }

    fn switch(&mut self, table: HostPa, asid: u32) {
        let key = key(table, asid);
        if self.in_force != key {
            // SAFETY: the home table and every shadow table hold the hole, where code, stack and heap are; RAM is reached
            // only by those who have a `Home`, and nobody has, for it would borrow `self`.
            unsafe { tlb::switch_table(table, asid) }
            self.in_force = key;
        }
    }

    /// Puts Spica's own tables in force.
    pub fn go_home(&mut self) -> Home<'_> {
        self.switch(self.home, HOME_ASID);
        Home(PhantomData)
    }

    /// The same, whatever tables are in force: after a failure, nobody knows.
    pub fn return_home(&mut self) {
        self.in_force = 0;
        self.go_home();
    }

    /// The home table's TTBR0.
    pub fn home_ttbr0(&self) -> u32 {
        self.home.0 | TTBR_WALK
    }

    /// Puts in force what a world of a guest's has for its tables.
    pub fn go_to(&mut self, side: &Side) {
        let (table, asid) = side.tables();
        self.switch(table, asid);
    }

    /// The guest's trap handlers in assembly may have changed tables: in force are these.
    pub fn found(&mut self, side: &Side) {
        let (table, asid) = side.tables();
        self.in_force = key(table, asid);
    }
}
