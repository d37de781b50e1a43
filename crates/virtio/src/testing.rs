//! Doubles for tests: guest memory, a driver's side of queues, and the other ends of devices.
//!
//! Code here may panic: a test then fails where something is wrong.

pub mod driver;
mod ends;
pub mod hostile;
mod rig;

use alloc::vec;
use alloc::vec::Vec;

use spica_addr::GuestPa;

pub use driver::{Buffer, Driver, Rings, read, write};
pub use ends::Ends;
pub use rig::{BUFFERS, RAM, Rig};

use crate::{Dma, OutsideRam};

/// Guest memory in a vector.
#[derive(Clone, Debug)]
pub struct Ram {
    /// Its first address.
    pub base: u32,
    /// What is in it.
    pub bytes: Vec<u8>,
    /// How many bytes devices have read and written; for tests of budgets.
    pub moved: core::cell::Cell<u64>,
}

impl Ram {
    /// Zeroed RAM of `size` bytes at `base`.
    #[must_use]
    pub fn new(base: u32, size: usize) -> Self {
        Self { base, bytes: vec![0; size], moved: 0.into() }
    }

    fn range(&self, pa: GuestPa, len: usize) -> Result<core::ops::Range<usize>, OutsideRam> {
        let start = pa.0.checked_sub(self.base).ok_or(OutsideRam)? as usize;
        let end = start.checked_add(len).filter(|&end| end <= self.bytes.len()).ok_or(OutsideRam)?;
        Ok(start..end)
    }

    /// The driver's own access: the bytes at `pa`.
    #[must_use]
    pub fn get(&self, pa: u32, len: usize) -> &[u8] {
        &self.bytes[self.range(GuestPa(pa), len).unwrap()]
    }

    /// The driver's own access: puts bytes at `pa`.
    pub fn set(&mut self, pa: u32, bytes: &[u8]) {
        let range = self.range(GuestPa(pa), bytes.len()).unwrap();
        self.bytes[range].copy_from_slice(bytes);
    }

    /// Two bytes at `pa`.
    #[must_use]
    pub fn get_u16(&self, pa: u32) -> u16 {
        u16::from_le_bytes(self.get(pa, 2).try_into().unwrap())
    }

    /// Four bytes at `pa`.
    #[must_use]
    pub fn get_u32(&self, pa: u32) -> u32 {
        u32::from_le_bytes(self.get(pa, 4).try_into().unwrap())
    }
}

impl Dma for Ram {
    fn read(&self, pa: GuestPa, into: &mut [u8]) -> Result<(), OutsideRam> {
        into.copy_from_slice(&self.bytes[self.range(pa, into.len())?]);
        self.moved.set(self.moved.get() + into.len() as u64);
        Ok(())
    }

    fn write(&mut self, pa: GuestPa, from: &[u8]) -> Result<(), OutsideRam> {
        let range = self.range(pa, from.len())?;
        self.bytes[range].copy_from_slice(from);
        self.moved.set(self.moved.get() + from.len() as u64);
        Ok(())
    }

    fn is_ram(&self, pa: GuestPa, len: u32) -> bool {
        self.range(pa, len as usize).is_ok()
    }
}
