//! A guest's flash: the chips are the machine's ([`spica_machine::flash`]), what they hold is in the guest's memory.
//!
//! While a bank is not in the middle of a command, loads and fetches reach its memory natively, as far as there is
//! memory ([`spica_mmu::Shadow::set_rom_open`]). Everything else ends here: stores, loads from chips that were given a
//! command, and loads behind the memory, where the bank is erased for good.

use spica_addr::GuestPa;
use spica_machine::Width;
use spica_machine::flash::Change;

use super::Common;
use super::mmu::Mmu;
use crate::arch::cache;
use crate::engine::Engine;
use crate::host_cpu::HostSpace;
use crate::machine::{GuestMachine, Machine};

impl Common {
    /// A load of 1, 2 or 4 bytes from flash; `None` if the guest has none at `pa`.
    pub fn flash_load(&mut self, mmu: &mut Mmu, host_space: HostSpace<'_>, pa: GuestPa, bytes: u32) -> Option<u32> {
        let width = Width::from_bytes(bytes)?;
        let (_, offset, flash) = self.machine.flash(pa)?;
        let value = flash.read(offset, width);
        self.flash_went_on(mmu, host_space, pa);
        Some(value.unwrap_or_else(|| self.contents(host_space, pa, bytes)))
    }

    /// A store of the low `bytes` of `value` to flash; `None` if the guest has none at `pa`.
    pub fn flash_store(
        &mut self,
        mmu: &mut Mmu,
        host_space: HostSpace<'_>,
        pa: GuestPa,
        bytes: u32,
        value: u32,
    ) -> Option<()> {
        let width = Width::from_bytes(bytes)?;
        let (bank, offset, flash) = self.machine.flash(pa)?;
        if let Some(change) = flash.write(offset, width, value) {
            self.change_flash(host_space, bank, change);
        }
        self.flash_went_on(mmu, host_space, pa);
        Some(())
    }

    /// Loads and fetches reach all banks: the machine is new.
    pub fn open_flash(&mut self, mmu: &mut Mmu) {
        for bank in Machine::FLASH {
            mmu.set_rom_open(bank, true);
        }
    }

    /// After an access: long work goes on by a piece, and loads go where they are to go now.
    fn flash_went_on(&mut self, mmu: &mut Mmu, host_space: HostSpace<'_>, pa: GuestPa) {
        let Some((bank, _, flash)) = self.machine.flash(pa) else { return };
        let change = flash.go_on();
        let open = flash.is_array();
        if let Some(change) = change {
            self.change_flash(host_space, bank, change);
        }
        mmu.set_rom_open(pa, open);
    }

    fn contents(&mut self, host_space: HostSpace<'_>, pa: GuestPa, bytes: u32) -> u32 {
        let erased = u32::MAX >> (32 - 8 * bytes);
        let memory = self.ram.flash_mut(host_space, pa, bytes);
        memory.map_or(erased, |memory| memory.iter().rev().fold(0, |value, &byte| value << 8 | u32::from(byte)))
    }

    /// What the chips have checked to be within the bank's memory.
    fn change_flash(&mut self, host_space: HostSpace<'_>, bank: usize, change: Change) {
        let at = |offset| Machine::FLASH[bank].wrapping_add(offset);
        let (pa, len) = match change {
            Change::Program { offset, width, .. } => (at(offset), width.bytes()),
            Change::Erase { offset, len } => (at(offset), len),
        };
        // What was translated from there goes.
        for page in pa.0 >> 12..=(pa.0 + len - 1) >> 12 {
            self.engine.page_changed(GuestPa(page << 12));
        }
        let Some(memory) = self.ram.flash_mut(host_space, pa, len) else { return };
        match change {
            Change::Program { value, .. } => {
                memory.iter_mut().zip(value.to_le_bytes()).for_each(|(byte, value)| *byte &= value);
            }
            Change::Erase { .. } => memory.fill(0xff),
        }
        // A chip's contents are nowhere else: user code is fetched from the point of unification on, and a guest that
        // has changed them by commands has nothing to clean. What it invalidates is its own business.
        cache::clean_to_pou(memory.as_ptr() as u32, len);
    }
}
