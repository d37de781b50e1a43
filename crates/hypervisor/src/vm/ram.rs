//! A guest's RAM as the hypervisor reads and writes it: by guest physical address, checked, with its own tables in
//! force.

use alloc::vec;
use alloc::vec::Vec;

use spica_addr::{GuestPa, HostPa};
use spica_mmu::GuestMemory;

use crate::arch::cache;
use crate::host_cpu::HostSpace;
use crate::memory::phys;
use crate::world::GuestRam;

const PAGE: u32 = 4096;

/// Guest RAM: one run of host memory.
pub struct Ram {
    base: GuestPa,
    host: HostPa,
    size: u32,
    /// Its first byte under the host table.
    start: *mut u8,
    /// Pages that the guest has given away, a bit each, and how many they are.
    absent: Vec<u32>,
    absent_count: u32,
    /// The memory of banks of flash: where the guest has it, its first byte under the host table, and its length.
    flash: [(GuestPa, *mut u8, u32); 2],
}

impl Ram {
    /// RAM of `size` bytes at guest physical `base`, which lies at `host`, and behind it memory of so many bytes for
    /// each bank of flash.
    ///
    /// # Safety
    /// The host memory belongs to this guest alone, that for flash included.
    ///
    /// # Panics
    /// If the host memory is not RAM, or the guest's not whole pages.
    pub unsafe fn new(base: GuestPa, host: HostPa, size: u32, flash: [(GuestPa, u32); 2]) -> Ram {
        assert!((base.0 | size).is_multiple_of(PAGE), "{size:#x} bytes of RAM at {base} are not whole pages");
        let mut behind = host.wrapping_add(size);
        let flash = flash.map(|(at, bytes)| {
            let start = phys::pointer(behind, bytes);
            behind = behind.wrapping_add(bytes);
            (at, start, bytes)
        });
        Ram { base, host, size, start: phys::pointer(host, size), absent: Vec::new(), absent_count: 0, flash }
    }

    /// The memory of the banks of flash: where the guest has it, where it lies, how long it is.
    pub fn flash(&self) -> [(GuestPa, HostPa, u32); 2] {
        let mut behind = self.host.wrapping_add(self.size);
        self.flash.map(|(at, _, bytes)| {
            let host = behind;
            behind = behind.wrapping_add(bytes);
            (at, host, bytes)
        })
    }

    /// Pointer to `len` bytes at `pa`, if they are all in the memory of one bank of flash.
    fn flash_pointer(&self, pa: GuestPa, len: u32) -> Option<*mut u8> {
        self.flash.iter().find_map(|&(at, start, bytes)| {
            let offset = pa.0.wrapping_sub(at.0);
            (offset < bytes && len <= bytes - offset).then(|| start.wrapping_add(offset as usize))
        })
    }

    /// Whether there is flash at `pa`.
    pub fn is_flash(&self, pa: GuestPa) -> bool {
        self.flash_pointer(pa, 1).is_some()
    }

    /// `len` bytes of flash at `pa`.
    pub fn flash_mut<'a>(&'a mut self, _: HostSpace<'a>, pa: GuestPa, len: u32) -> Option<&'a mut [u8]> {
        let start = self.flash_pointer(pa, len)?;
        // SAFETY: the range is this guest's (`new`), mapped in the host address space, where we are; the guest does not
        // run, and `self` is borrowed mutably.
        Some(unsafe { core::slice::from_raw_parts_mut(start, len as usize) })
    }

    /// Takes the page at `pa` away, or gives it back.
    pub fn set_absent(&mut self, pa: GuestPa, absent: bool) {
        if self.absent.is_empty() {
            self.absent = vec![0; (self.size / PAGE).div_ceil(32) as usize];
        }
        let index = pa.0.wrapping_sub(self.base.0) / PAGE;
        let Some(word) = self.absent.get_mut(index as usize / 32) else { return };
        if (*word >> (index % 32) & 1 != 0) != absent {
            *word ^= 1 << (index % 32);
            self.absent_count = if absent { self.absent_count + 1 } else { self.absent_count - 1 };
        }
    }

    /// The first page from number `from` on that the guest has given away: its number and its address.
    pub fn next_absent(&self, from: u32) -> Option<(u32, GuestPa)> {
        let index = (from..self.size / PAGE).find(|&index| self.is_absent(index))?;
        Some((index, self.base.wrapping_add(index * PAGE)))
    }

    /// How many they are.
    pub fn absent_count(&self) -> u32 {
        self.absent_count
    }

    fn is_absent(&self, index: u32) -> bool {
        self.absent.get(index as usize / 32).is_some_and(|word| word >> (index % 32) & 1 != 0)
    }

    /// Bytes.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Where it lies on the host.
    pub fn host(&self) -> HostPa {
        self.host
    }

    /// The same for assembly.
    pub fn place(&self) -> GuestRam {
        GuestRam { base: self.base.0, size: self.size, host: self.start as u32 }
    }

    /// Pointer to `len` bytes at `pa`, if they are all RAM that the guest has.
    fn pointer(&self, pa: GuestPa, len: u32) -> Option<*mut u8> {
        let offset = pa.0.wrapping_sub(self.base.0);
        if offset >= self.size || len > self.size - offset {
            return None;
        }
        let mut pages = offset / PAGE..=(offset + len.max(1) - 1) / PAGE;
        if self.absent_count != 0 && pages.any(|index| self.is_absent(index)) {
            return None;
        }
        Some(self.start.wrapping_add(offset as usize))
    }

    /// The same to the word at `pa`, rounded down: `base` and `size` are whole pages.
    #[inline(always)]
    fn word_pointer(&self, pa: GuestPa) -> Option<*mut u32> {
        let offset = pa.0.wrapping_sub(self.base.0) & !3;
        if offset >= self.size || self.absent_count != 0 && self.is_absent(offset / PAGE) {
            return None;
        }
        Some(self.start.wrapping_add(offset as usize).cast())
    }

    /// Whether `pa` is RAM, given away or not.
    pub fn contains(&self, pa: GuestPa) -> bool {
        pa.0.wrapping_sub(self.base.0) < self.size
    }

    /// The same for those who know no more of memory than that.
    pub fn at<'a>(&'a self, host_space: HostSpace<'a>) -> ReachableRam<'a> {
        ReachableRam(self, host_space)
    }

    /// Whether `len` bytes at `pa` are all RAM that the guest has.
    pub fn has(&self, pa: GuestPa, len: u32) -> bool {
        self.pointer(pa, len).is_some()
    }

    /// The same of the word at `pa`.
    #[inline]
    pub fn has_word(&self, pa: GuestPa) -> bool {
        self.word_pointer(pa).is_some()
    }

    /// The word at `pa`, rounded down, to be written: as [`Self::bytes_mut`].
    #[inline]
    pub fn word_mut<'a>(&'a mut self, _: HostSpace<'a>, pa: GuestPa) -> Option<&'a mut u32> {
        let word = self.word_pointer(pa)?;
        // SAFETY: as below, and `self` is borrowed mutably; aligned.
        Some(unsafe { &mut *word })
    }

    /// `len` bytes at `pa`.
    pub fn bytes<'a>(&'a self, _: HostSpace<'a>, pa: GuestPa, len: u32) -> Option<&'a [u8]> {
        let start = self.pointer(pa, len)?;
        // SAFETY: the range is this guest's RAM (`new`), mapped in the host address space, where we are; the guest does
        // not run.
        Some(unsafe { core::slice::from_raw_parts(start, len as usize) })
    }

    /// `len` bytes at `pa`, to be written. Whoever writes sees to the translated code made from them.
    pub fn bytes_mut<'a>(&'a mut self, _: HostSpace<'a>, pa: GuestPa, len: u32) -> Option<&'a mut [u8]> {
        let start = self.pointer(pa, len)?;
        // SAFETY: as above, and `self` is borrowed mutably.
        Some(unsafe { core::slice::from_raw_parts_mut(start, len as usize) })
    }

    /// `len` bytes at `pa`, of RAM or flash: for a loader.
    pub fn loaded_mut<'a>(&'a mut self, host_space: HostSpace<'a>, pa: GuestPa, len: u32) -> Option<&'a mut [u8]> {
        if self.contains(pa) { self.bytes_mut(host_space, pa, len) } else { self.flash_mut(host_space, pa, len) }
    }

    /// `len` bytes at `pa`, of RAM or flash, as they are.
    pub fn loaded<'a>(&'a self, host_space: HostSpace<'a>, pa: GuestPa, len: u32) -> Option<&'a [u8]> {
        if self.contains(pa) {
            return self.bytes(host_space, pa, len);
        }
        let start = self.flash_pointer(pa, len)?;
        // SAFETY: as `flash_mut`, and nobody writes as long as `self` is borrowed.
        Some(unsafe { core::slice::from_raw_parts(start, len as usize) })
    }

    /// Clears `len` bytes at `pa`. Both are multiples of 4, and all of it is RAM that the guest has.
    pub fn clear(&mut self, _: HostSpace<'_>, pa: GuestPa, len: u32) {
        let Some(start) = self.pointer(pa, len) else { return };
        // SAFETY: as above; guest RAM starts at a megabyte, so that `start` is aligned for words.
        cache::clear(unsafe { core::slice::from_raw_parts_mut(start.cast(), len as usize / 4) });
    }

    /// The words of the page at `pa`, in RAM or flash.
    pub fn page<'a>(&'a self, _: HostSpace<'a>, pa: GuestPa) -> Option<&'a [u32; 1024]> {
        let start = self.pointer(pa.page(), 4096).or_else(|| self.flash_pointer(pa.page(), 4096))?;
        // SAFETY: as above; guest RAM and flash start at a megabyte, so a page of them is aligned for words.
        Some(unsafe { &*start.cast() })
    }

    /// Reads 1, 2 or 4 bytes, little-endian, at any alignment.
    pub fn load(&self, host_space: HostSpace<'_>, pa: GuestPa, bytes: u32) -> Option<u32> {
        let slice = self.bytes(host_space, pa, bytes)?;
        Some(slice.iter().rev().fold(0, |value, &byte| value << 8 | u32::from(byte)))
    }

    /// Writes the low 1, 2 or 4 bytes of `value`, little-endian.
    pub fn store(&mut self, host_space: HostSpace<'_>, pa: GuestPa, bytes: u32, value: u32) -> Option<()> {
        let slice = self.bytes_mut(host_space, pa, bytes)?;
        slice.copy_from_slice(&value.to_le_bytes()[..bytes as usize]);
        Some(())
    }
}

/// A guest's RAM with Spica's own tables in force: what a walk of the guest's tables reads.
pub struct ReachableRam<'a>(&'a Ram, HostSpace<'a>);

impl GuestMemory for ReachableRam<'_> {
    fn read_word(&self, pa: GuestPa) -> Option<u32> {
        let start = self.0.word_pointer(pa)?;
        // SAFETY: as above; aligned.
        Some(unsafe { start.read() })
    }

    fn words(&self, pa: GuestPa, count: usize) -> Option<&[u32]> {
        let start = self.0.pointer(GuestPa(pa.0 & !3), 4 * count as u32)?;
        // SAFETY: as above; aligned.
        Some(unsafe { core::slice::from_raw_parts(start.cast(), count) })
    }
}
