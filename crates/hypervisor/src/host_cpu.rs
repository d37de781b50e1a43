//! The processor that this code runs on: which translation tables are in force there, Spica's own (the *host address
//! space*) or a guest's, and who takes turns on it.
//!
//! Spica runs under either: the hypervisor region is in all of them. It stays under the guest's tables as long as it
//! needs nothing but its own memory, since most traps don't. Whoever reaches for RAM at its physical address, a guest's
//! first of all, or changes shadow tables, takes a [`HostSpace`] for that: it cannot be had under other tables, nor can
//! others be put in force while somebody has it.

use core::marker::PhantomData;

use spica_addr::HostPa;
use spica_sched::RunQueue;

use crate::arch::tlb;
use crate::layout::{HOST_ASID, TTBR_WALK};
use crate::memory::host_space::HostTables;
use crate::world::ViewRegisters;

/// See the module's text.
pub struct HostCpu {
    tables: HostTables,
    /// TTBR0's table, with its ASID in the low bits that its alignment leaves free.
    in_force: u32,
    /// Who takes turns here.
    pub queue: RunQueue,
}

/// Spica's own tables are in force as long as this lives: all RAM is at its physical address.
#[derive(Clone, Copy)]
pub struct HostSpace<'a>(PhantomData<&'a HostCpu>);

impl HostSpace<'_> {
    /// For those to whom no [`HostSpace`] can be passed.
    ///
    /// # Safety
    /// Whoever called them has one, which outlives this.
    pub const unsafe fn assume() -> Self {
        HostSpace(PhantomData)
    }
}

/// A table and its ASID as one word. Tables are aligned to 16 KiB.
fn key(table: HostPa, asid: u32) -> u32 {
    table.0 | asid
}

impl HostCpu {
    /// The processor, where the host table is in force.
    pub const fn new(tables: HostTables, queue: RunQueue) -> HostCpu {
        HostCpu { tables, in_force: tables.host.0 | HOST_ASID, queue }
    }

    fn switch(&mut self, table: HostPa, asid: u32) {
        let key = key(table, asid);
        if self.in_force != key {
            // SAFETY: Spica's tables and every shadow table hold the hypervisor region, where code, stack and heap are;
            // RAM is reached only by those who have a `HostSpace`, and nobody has, for it would borrow `self`.
            unsafe { tlb::switch_table(self.tables.region, table, asid) }
            self.in_force = key;
        }
    }

    /// Puts Spica's own tables in force.
    pub fn enter_host_space(&mut self) -> HostSpace<'_> {
        self.switch(self.tables.host, HOST_ASID);
        HostSpace(PhantomData)
    }

    /// The same, whatever tables are in force: after a failure, nobody knows.
    pub fn return_to_host_space(&mut self) {
        self.in_force = 0;
        self.enter_host_space();
    }

    /// TTBR0 for the host table, and for that of the hypervisor region alone.
    pub fn host_ttbr0s(&self) -> [u32; 2] {
        [self.tables.host, self.tables.region].map(|table| table.0 | TTBR_WALK)
    }

    /// Puts the tables of a guest's view in force.
    pub fn go_to(&mut self, registers: &ViewRegisters) {
        let (table, asid) = registers.tables();
        self.switch(table, asid);
    }

    /// The guest's trap handlers in assembly may have changed tables: in force are these.
    pub fn found(&mut self, registers: &ViewRegisters) {
        let (table, asid) = registers.tables();
        self.in_force = key(table, asid);
    }
}
