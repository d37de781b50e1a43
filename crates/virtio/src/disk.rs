//! Disks that need nothing but memory: an image that is there ([`Image`]), one of zeroes ([`Blank`]), and a layer over
//! another disk that takes what is written ([`Overlay`]).

mod overlay;

pub use overlay::{CLUSTER, Clusters, Overlay, Slab};

use crate::backend::{Disk, DiskError, SECTOR};

/// The bytes of a sector, as a length.
const SECTOR_LEN: usize = SECTOR as usize;

/// An image in memory, which cannot be written. Behind its end, a last sector that is not whole is filled with zeroes.
#[derive(Clone, Copy, Debug)]
pub struct Image<'a>(pub &'a [u8]);

impl Image<'_> {
    /// Its size in sectors.
    #[must_use]
    pub const fn sectors(&self) -> u64 {
        self.0.len().div_ceil(SECTOR_LEN) as u64
    }
}

impl Disk for Image<'_> {
    fn read(&mut self, sector: u64, into: &mut [u8]) -> Result<(), DiskError> {
        let start = usize::try_from(sector).ok().and_then(|sector| sector.checked_mul(SECTOR_LEN));
        let there = start.and_then(|start| self.0.get(start..)).unwrap_or_default();
        let (image, behind) = into.split_at_mut(there.len().min(into.len()));
        image.copy_from_slice(there.get(..image.len()).unwrap_or_default());
        behind.fill(0);
        Ok(())
    }

    fn write(&mut self, _sector: u64, _from: &[u8]) -> Result<(), DiskError> {
        Err(DiskError::Failed)
    }

    fn flush(&mut self) -> Result<(), DiskError> {
        Ok(())
    }

    fn clear(&mut self, _sector: u64, _sectors: u32) -> Result<(), DiskError> {
        Err(DiskError::Failed)
    }
}

/// A disk of any size on which everything is zero, and which cannot be written. With an [`Overlay`], it is a RAM disk
/// that takes as much memory as is written.
#[derive(Clone, Copy, Debug)]
pub struct Blank;

impl Disk for Blank {
    fn read(&mut self, _sector: u64, into: &mut [u8]) -> Result<(), DiskError> {
        into.fill(0);
        Ok(())
    }

    fn write(&mut self, _sector: u64, _from: &[u8]) -> Result<(), DiskError> {
        Err(DiskError::Failed)
    }

    fn flush(&mut self) -> Result<(), DiskError> {
        Ok(())
    }

    fn clear(&mut self, _sector: u64, _sectors: u32) -> Result<(), DiskError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
