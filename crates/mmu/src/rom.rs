//! Memory that the guest reads and executes in place but does not simply write: flash.
//!
//! While such memory is *open*, loads and fetches reach it natively, through entries that are never writable; a store
//! is [`Fill::Device`](crate::Fill::Device), as everything is while it is closed: a flash chip that was given a command
//! answers loads itself.

use crate::shadow::Shadow;
use crate::table::{HostTlb, TableMemory};
use spica_addr::{GuestPa, HostPa};

impl Shadow {
    /// Adds `bytes` of ROM, closed. All of it is in whole pages, and neither RAM nor another ROM is there; false if
    /// that is not so, or if there are as many as there can be.
    pub fn add_rom(&mut self, guest: GuestPa, host: HostPa, bytes: u32) -> bool {
        self.ram.add_rom(guest, host, bytes)
    }

    /// Opens or closes the ROM that holds `pa`. What was mapped of it when it is closed is forgotten, as by
    /// [`Shadow::forget_all`]: one that was not looked at since it was last closed costs nothing.
    pub fn set_rom_open(&mut self, pa: GuestPa, open: bool, tables: &mut impl TableMemory, tlb: &mut impl HostTlb) {
        if self.ram.set_rom_open(pa, open) && !open && core::mem::take(&mut self.rom_filled) {
            self.forget_all(tables, tlb);
        }
    }
}
