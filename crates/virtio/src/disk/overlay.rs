//! Copy on write: a disk that can be written over one that cannot, or shall not. What is written stays in memory, and
//! is gone when the overlay is.
//!
//! The unit is a cluster of 4 KiB, the block of most file systems, so that most writes replace a cluster as a whole and
//! need nothing of the disk below. [`Clusters`] has the memory, and so bounds what can be written; when it is used up,
//! a write to a new cluster fails. Discarding gives it back.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::SECTOR_LEN;
use crate::backend::{Disk, DiskError};

/// The bytes of a cluster.
pub const CLUSTER: usize = 4096;
/// Sectors in a cluster.
const SECTORS: u64 = (CLUSTER / SECTOR_LEN) as u64;

/// Memory for clusters. Slots go by number.
pub trait Clusters {
    /// A slot that is not in use. Its contents are anything.
    fn take(&mut self) -> Option<usize>;

    /// A slot is not in use any more.
    fn free(&mut self, slot: usize);

    /// The bytes of a slot in use.
    fn bytes(&mut self, slot: usize) -> &mut [u8];

    /// How many slots are in use, and how many can be.
    fn used(&self) -> (usize, usize);

    /// How many there are for nobody else, in use or not.
    fn own(&self) -> usize;
}

/// Slots in one piece of memory.
#[derive(Debug)]
pub struct Slab<M> {
    memory: M,
    /// Slots that were used before.
    freed: Vec<usize>,
    /// The first slot that never was.
    fresh: usize,
}

impl<M: AsRef<[u8]>> Slab<M> {
    /// As many as `memory` has room for.
    #[must_use]
    pub const fn new(memory: M) -> Self {
        Self { memory, freed: Vec::new(), fresh: 0 }
    }

    fn slots(&self) -> usize {
        self.memory.as_ref().len() / CLUSTER
    }
}

impl<M: AsRef<[u8]> + AsMut<[u8]>> Clusters for Slab<M> {
    fn take(&mut self) -> Option<usize> {
        self.freed.pop().or_else(|| {
            let slot = self.fresh;
            self.fresh += usize::from(slot < self.slots());
            (slot < self.slots()).then_some(slot)
        })
    }

    fn free(&mut self, slot: usize) {
        // A slot that cannot be noted is lost: nothing that a guest does may fail for want of memory.
        if self.freed.try_reserve(1).is_ok() {
            self.freed.push(slot);
        }
    }

    fn bytes(&mut self, slot: usize) -> &mut [u8] {
        self.memory.as_mut().get_mut(slot * CLUSTER..(slot + 1) * CLUSTER).unwrap_or_default()
    }

    fn used(&self) -> (usize, usize) {
        (self.fresh - self.freed.len(), self.slots())
    }

    fn own(&self) -> usize {
        self.slots()
    }
}

/// Where a cluster is that was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    /// In this slot of the memory.
    Slot(usize),
    /// Nowhere: it is all zero.
    Zero,
}

/// A disk over another one.
#[derive(Debug)]
pub struct Overlay<B, M> {
    base: B,
    sectors: u64,
    memory: M,
    places: BTreeMap<u64, Place>,
}

/// The part of a run of sectors that is in one cluster.
#[derive(Clone, Copy)]
struct Part {
    cluster: u64,
    /// In bytes.
    start: usize,
    len: usize,
}

impl<B: Disk, M: Clusters> Overlay<B, M> {
    /// Over the first `sectors` sectors of `base`, with `memory` for what is written.
    #[must_use]
    pub const fn new(base: B, sectors: u64, memory: M) -> Self {
        Self { base, sectors, memory, places: BTreeMap::new() }
    }

    /// Its size in sectors.
    #[must_use]
    pub const fn sectors(&self) -> u64 {
        self.sectors
    }

    /// How many bytes of the memory are used, and how many there are.
    #[must_use]
    pub fn used(&self) -> (usize, usize) {
        let (used, slots) = self.memory.used();
        (used * CLUSTER, slots * CLUSTER)
    }

    /// How many clusters can be noted, with what is in memory and what is zero: a bound on the map itself.
    fn most_places(&self) -> usize {
        2 * self.memory.used().1
    }

    /// Whether one more cluster can be noted, if this one is not.
    fn has_place(&self, cluster: u64) -> bool {
        self.places.contains_key(&cluster) || self.places.len() < self.most_places()
    }

    fn forget(&mut self, cluster: u64) {
        if let Some(Place::Slot(slot)) = self.places.remove(&cluster) {
            self.memory.free(slot);
        }
    }

    /// The parts of `len` bytes from `sector` on, all of them on the disk.
    fn parts(&self, sector: u64, len: usize) -> Result<impl Iterator<Item = Part> + use<B, M>, DiskError> {
        let end = sector.checked_add((len / SECTOR_LEN) as u64);
        if !len.is_multiple_of(SECTOR_LEN) || end.is_none_or(|end| end > self.sectors) {
            return Err(DiskError::Failed);
        }
        let (mut cluster, mut start, mut left) = (sector / SECTORS, (sector % SECTORS) as usize * SECTOR_LEN, len);
        Ok(core::iter::from_fn(move || {
            let part = Part { cluster, start, len: left.min(CLUSTER - start) };
            (cluster, start, left) = (cluster + 1, 0, left - part.len);
            (part.len != 0).then_some(part)
        }))
    }

    /// The bytes of a cluster that the disk has: fewer than a cluster's at its end.
    fn extent(&self, cluster: u64) -> usize {
        (self.sectors - cluster * SECTORS).min(SECTORS) as usize * SECTOR_LEN
    }

    /// The memory of a cluster, of which `part` is about to be written: what is around it has been copied there.
    fn own(&mut self, part: Part) -> Result<usize, DiskError> {
        let place = self.places.get(&part.cluster).copied();
        if let Some(Place::Slot(slot)) = place {
            return Ok(slot);
        }
        if !self.has_place(part.cluster) {
            return Err(DiskError::Failed);
        }
        let slot = self.memory.take().ok_or(DiskError::Failed)?;
        let extent = self.extent(part.cluster);
        if part.len < extent {
            let memory = self.memory.bytes(slot).get_mut(..extent).unwrap_or_default();
            let copied = match place {
                None => self.base.read(part.cluster * SECTORS, memory),
                Some(_) => {
                    memory.fill(0);
                    Ok(())
                }
            };
            if let Err(error) = copied {
                self.memory.free(slot);
                return Err(error);
            }
        }
        self.places.insert(part.cluster, Place::Slot(slot));
        Ok(slot)
    }
}

/// What has been written, to be kept and put back: by clusters that take memory, and those that are noted as zero.
impl<B: Disk, M: Clusters> Overlay<B, M> {
    /// What it is over.
    #[must_use]
    pub const fn base(&self) -> &B {
        &self.base
    }

    /// How many clusters take memory, and how many are noted.
    #[must_use]
    pub fn written(&self) -> (usize, usize) {
        (self.memory.used().0, self.places.len())
    }

    /// Whether so many would fit into memory that nobody else can take.
    #[must_use]
    pub fn has_room(&self, (slots, places): (usize, usize)) -> bool {
        slots <= self.memory.own() && places <= 2 * self.memory.own()
    }

    /// Copies the first cluster that was written, from cluster `from` on, to `into`: which one that is.
    pub fn next_written(&mut self, from: u64, into: &mut [u8; CLUSTER]) -> Option<u64> {
        let (&cluster, &place) = self.places.range(from..).next()?;
        into.fill(0);
        if let Place::Slot(slot) = place {
            // Behind the disk's end there may be anything.
            let extent = self.extent(cluster);
            let bytes = self.memory.bytes(slot).get(..extent)?;
            into.get_mut(..extent)?.copy_from_slice(bytes);
        }
        Some(cluster)
    }

    /// A cluster has been written, and has these bytes.
    ///
    /// # Errors
    /// If there is no such cluster, or no room for it.
    pub fn put(&mut self, cluster: u64, bytes: &[u8; CLUSTER]) -> Result<(), DiskError> {
        let sector = cluster.checked_mul(SECTORS).filter(|&sector| sector < self.sectors).ok_or(DiskError::Failed)?;
        let extent = self.extent(cluster);
        if bytes.iter().all(|&byte| byte == 0) {
            self.clear(sector, (extent / SECTOR_LEN) as u32)
        } else {
            self.write(sector, bytes.get(..extent).unwrap_or_default())
        }
    }

    /// A cluster has not been written.
    pub fn take_back(&mut self, cluster: u64) {
        self.forget(cluster);
    }

    /// Nothing has been written.
    pub fn take_all_back(&mut self) {
        while let Some((_, place)) = self.places.pop_first() {
            if let Place::Slot(slot) = place {
                self.memory.free(slot);
            }
        }
    }
}

impl<B: Disk, M: Clusters> Disk for Overlay<B, M> {
    fn read(&mut self, sector: u64, into: &mut [u8]) -> Result<(), DiskError> {
        let mut rest = into;
        for part in self.parts(sector, rest.len())? {
            let (now, behind) = rest.split_at_mut(part.len);
            rest = behind;
            match self.places.get(&part.cluster) {
                Some(&Place::Slot(slot)) => {
                    let cluster = self.memory.bytes(slot);
                    now.copy_from_slice(cluster.get(part.start..part.start + part.len).ok_or(DiskError::Failed)?);
                }
                Some(Place::Zero) => now.fill(0),
                None => self.base.read(part.cluster * SECTORS + (part.start / SECTOR_LEN) as u64, now)?,
            }
        }
        Ok(())
    }

    fn write(&mut self, sector: u64, from: &[u8]) -> Result<(), DiskError> {
        let mut rest = from;
        for part in self.parts(sector, rest.len())? {
            let (now, behind) = rest.split_at(part.len);
            rest = behind;
            let slot = self.own(part)?;
            let cluster = self.memory.bytes(slot);
            cluster.get_mut(part.start..part.start + part.len).ok_or(DiskError::Failed)?.copy_from_slice(now);
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), DiskError> {
        Ok(())
    }

    fn clear(&mut self, sector: u64, sectors: u32) -> Result<(), DiskError> {
        for part in self.parts(sector, sectors as usize * SECTOR_LEN)? {
            if part.len == self.extent(part.cluster) {
                if !self.has_place(part.cluster) {
                    return Err(DiskError::Failed);
                }
                self.forget(part.cluster);
                self.places.insert(part.cluster, Place::Zero);
            } else if self.places.get(&part.cluster) != Some(&Place::Zero) {
                let slot = self.own(part)?;
                self.memory.bytes(slot).get_mut(part.start..part.start + part.len).unwrap_or_default().fill(0);
            }
        }
        Ok(())
    }

    /// Whole clusters show the disk below again.
    fn discard(&mut self, sector: u64, sectors: u32) -> Result<(), DiskError> {
        for part in self.parts(sector, sectors as usize * SECTOR_LEN)? {
            if part.len == self.extent(part.cluster) {
                self.forget(part.cluster);
            }
        }
        Ok(())
    }
}
