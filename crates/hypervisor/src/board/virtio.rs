//! What the drivers of the board's own virtio devices (`spica-virtio-driver`) stand on.
//!
//! The memory that driver and device share is the hypervisor's own: write-back and not shareable, as all of it. A bus
//! that is coherent (`dma-coherent`) keeps caches coherent for shareable memory only; so each access cleans and
//! invalidates the lines that it touches, whatever the bus promises. That is right on every bus, and cheap beside the
//! request.

use spica_virtio_driver::Memory;

use crate::arch::barrier::dsb;
use crate::arch::cache::clean_invalidate;
use crate::memory::device::Mmio;
use crate::memory::pool::{Block, Share};

/// A device that no driver has taken over yet.
pub type Device = spica_drivers::virtio::Device<Mmio>;

/// A device's registers.
pub type Window = spica_drivers::virtio::Window<Mmio>;

/// Memory that a driver shares with its device.
#[derive(Debug)]
pub struct Shared(Block);

impl Shared {
    /// `bytes` bytes of `share`; `None` if it has not so many.
    pub fn take(share: &mut Share, bytes: u32) -> Option<Self> {
        let block = share.alloc(bytes, 4096)?;
        // What clearing it left in the caches must not be written over what the device writes.
        clean_invalidate(block.va(), block.len());
        Some(Self(block))
    }

    /// Virtual address of `len` bytes at `at`.
    fn va(&self, at: u32, len: usize) -> u32 {
        let end = at.checked_add(len as u32).filter(|&end| end <= self.0.len());
        assert!(end.is_some() && len > 0, "{len} bytes at {at:#x} are not all shared with a device");
        self.0.va() + at
    }
}

impl Memory for Shared {
    fn address(&self) -> u64 {
        self.0.pa().0.into()
    }

    fn len(&self) -> u32 {
        self.0.len()
    }

    fn read(&self, at: u32, into: &mut [u8]) {
        let va = self.va(at, into.len());
        clean_invalidate(va, into.len() as u32);
        // SAFETY: the bytes are in the block, which no reference of Rust's covers. The device is done with them, or
        // they mean nothing yet to whoever reads them.
        unsafe { core::ptr::copy_nonoverlapping(va as *const u8, into.as_mut_ptr(), into.len()) }
    }

    fn write(&mut self, at: u32, from: &[u8]) {
        let va = self.va(at, from.len());
        // SAFETY: as above, and the device does not have them yet.
        unsafe { core::ptr::copy_nonoverlapping(from.as_ptr(), va as *mut u8, from.len()) }
        clean_invalidate(va, from.len() as u32);
    }

    fn read_number(&self, at: u32) -> u16 {
        let va = self.va(at, 2);
        assert!(va.is_multiple_of(2), "a number at {at:#x}");
        clean_invalidate(va, 2);
        // SAFETY: in the block, aligned; one access, whatever the device does meanwhile.
        unsafe { (va as *const u16).read_volatile() }
    }

    fn write_number(&mut self, at: u32, value: u16) {
        let va = self.va(at, 2);
        assert!(va.is_multiple_of(2), "a number at {at:#x}");
        // SAFETY: as above.
        unsafe { (va as *mut u16).write_volatile(value) }
        clean_invalidate(va, 2);
    }

    fn order(&self) {
        dsb();
    }
}
