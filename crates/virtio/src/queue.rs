//! A split queue (virtio 2.7), the device's side.
//!
//! A queue hands out one chain at a time. [`Queue::next`] takes it from the available ring, and gives the same one
//! again until [`Queue::complete`] puts it into the used ring. So a request that is too long for one turn, or whose
//! backend is not ready, simply stays open.
//!
//! The driver does not run while its queues are served, unless it has another CPU. The fences are for that: what is
//! read after an index is what was written before it.

mod chain;

use core::sync::atomic::{Ordering, fence};

pub use chain::Chain;

use serde::{Deserialize, Serialize};

use crate::dma::{Dma, address, read_u16, write_u16};
use crate::{Malformed, Work, features};

/// Available ring: the driver does not want to be told of used buffers.
const NO_INTERRUPT: u16 = 1;
/// Offsets in both rings: flags, index, entries.
const FLAGS: u32 = 0;
const INDEX: u32 = 2;
const RING: u32 = 4;

/// Where a queue's parts are in guest memory.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Place {
    /// The descriptor table.
    pub(crate) table: u64,
    /// The available ring, which the driver writes.
    pub(crate) driver: u64,
    /// The used ring, which the device writes.
    pub(crate) device: u64,
}

/// What is kept of a queue.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Kept {
    size: u32,
    place: [u64; 3],
    ready: bool,
    taken: u16,
    used: u16,
    told: u16,
}

/// One queue of a device.
#[derive(Clone, Debug)]
pub struct Queue {
    max: u16,
    size: u32,
    place: Place,
    ready: bool,
    event_idx: bool,
    indirect: bool,
    /// The available index up to which chains were taken.
    taken: u16,
    /// The used index.
    used: u16,
    /// The used index when the driver was last told, or spared.
    told: u16,
    open: bool,
    chain: Chain,
}

impl Queue {
    /// A queue of at most `max` descriptors, not ready.
    #[must_use]
    pub(crate) fn new(max: u16) -> Self {
        Self {
            max,
            size: max.into(),
            place: Place::default(),
            ready: false,
            event_idx: false,
            indirect: false,
            taken: 0,
            used: 0,
            told: 0,
            open: false,
            chain: Chain::new(max),
        }
    }

    /// The most descriptors.
    pub(crate) const fn max(&self) -> u16 {
        self.max
    }

    /// Back to how it was made, but for the features.
    pub(crate) fn reset(&mut self) {
        (self.size, self.place) = (self.max.into(), Place::default());
        (self.ready, self.open) = (false, false);
    }

    /// Whether nothing was written to the chain that is open, if one is: it can be taken anew.
    pub(crate) fn is_quiet(&self) -> bool {
        !self.open || self.chain.written() == 0
    }

    /// What is kept of it while it is quiet.
    pub(crate) fn kept(&self) -> Kept {
        let Place { table, driver, device } = self.place;
        Kept {
            size: self.size,
            place: [table, driver, device],
            ready: self.ready,
            taken: self.taken.wrapping_sub(self.open.into()),
            used: self.used,
            told: self.told,
        }
    }

    /// Takes that over. The features are known.
    ///
    /// # Errors
    /// What is wrong with its size or addresses.
    pub(crate) fn restore(&mut self, kept: &Kept) -> Result<(), Malformed> {
        self.reset();
        let [table, driver, device] = kept.place;
        (self.size, self.place) = (kept.size, Place { table, driver, device });
        self.set_ready(kept.ready)?;
        (self.taken, self.used, self.told) = (kept.taken, kept.used, kept.told);
        Ok(())
    }

    /// The features that the driver accepted.
    pub(crate) const fn negotiate(&mut self, accepted: u64) {
        self.event_idx = accepted & features::EVENT_IDX != 0;
        self.indirect = accepted & features::INDIRECT_DESC != 0;
    }

    /// Whether it may be used.
    #[must_use]
    pub const fn is_ready(&self) -> bool {
        self.ready
    }

    /// The number of descriptors, to be set up; `None` while the queue is ready.
    pub(crate) fn size_mut(&mut self) -> Option<&mut u32> {
        (!self.ready).then_some(&mut self.size)
    }

    /// The addresses, to be set up; `None` while the queue is ready.
    pub(crate) fn place_mut(&mut self) -> Option<&mut Place> {
        (!self.ready).then_some(&mut self.place)
    }

    /// Makes it ready, or not.
    ///
    /// # Errors
    /// What is wrong with its size or addresses.
    pub(crate) fn set_ready(&mut self, ready: bool) -> Result<(), Malformed> {
        if ready && !self.ready {
            if self.size == 0 || !self.size.is_power_of_two() || self.size > self.max.into() {
                return Err(Malformed::QueueSize(self.size));
            }
            let Place { table, driver, device } = self.place;
            if table % 16 != 0 || driver % 2 != 0 || device % 4 != 0 {
                return Err(Malformed::RingAlignment);
            }
            (self.taken, self.used, self.told, self.open) = (0, 0, 0, false);
        }
        self.ready = ready;
        Ok(())
    }

    /// The size, as 16 bits have it once it was checked.
    const fn len(&self) -> u16 {
        self.size as u16
    }

    /// The offset of an index's entry in a ring with entries of `bytes`.
    const fn entry(&self, index: u16, bytes: u32) -> u32 {
        RING + (index % self.len()) as u32 * bytes
    }

    /// The offset of the event index behind a ring with entries of `bytes`.
    const fn event(&self, bytes: u32) -> u32 {
        RING + self.len() as u32 * bytes
    }

    /// How many chains wait in the available ring.
    fn waiting(&self, dma: &dyn Dma) -> Result<u16, Malformed> {
        let waiting = read_u16(dma, self.place.driver, INDEX)?.wrapping_sub(self.taken);
        if waiting > self.len() {
            return Err(Malformed::AvailableIndex);
        }
        Ok(waiting)
    }

    /// The chain that is open, or else the next one that the driver has made available, which then is open.
    ///
    /// # Errors
    /// What is wrong with the rings or the chain.
    pub fn next(&mut self, dma: &mut dyn Dma, work: &mut Work) -> Result<Option<&mut Chain>, Malformed> {
        if !self.ready {
            return Ok(None);
        }
        if !self.open {
            if self.waiting(dma)? == 0 {
                if !self.event_idx {
                    return Ok(None);
                }
                // Ask for a kick at the next one; it may have come meanwhile.
                write_u16(dma, self.place.device, self.event(8), self.taken)?;
                fence(Ordering::SeqCst);
                if self.waiting(dma)? == 0 {
                    return Ok(None);
                }
            }
            fence(Ordering::Acquire);
            let head = read_u16(dma, self.place.driver, self.entry(self.taken, 2))?;
            work.spend(Work::REQUEST);
            let table = (self.place.table, self.len());
            self.chain.load(dma, table, head, self.indirect, self.max, work)?;
            self.taken = self.taken.wrapping_add(1);
            self.open = true;
        }
        Ok(Some(&mut self.chain))
    }

    /// The open chain goes back to the driver, with the number of bytes that were written to it.
    ///
    /// # Errors
    /// If the used ring is not in RAM.
    pub fn complete(&mut self, dma: &mut dyn Dma) -> Result<(), Malformed> {
        if !core::mem::take(&mut self.open) {
            return Ok(());
        }
        let element = u64::from(self.chain.head()) | u64::from(self.chain.written()) << 32;
        dma.write(address(self.place.device, self.entry(self.used, 8))?, &element.to_le_bytes())?;
        self.used = self.used.wrapping_add(1);
        fence(Ordering::Release);
        write_u16(dma, self.place.device, INDEX, self.used)
    }

    /// Whether the driver is to be told of what was completed since the last time (virtio 2.7.7).
    ///
    /// # Errors
    /// If the available ring is not in RAM.
    pub(crate) fn take_interrupt(&mut self, dma: &dyn Dma) -> Result<bool, Malformed> {
        let new = self.used.wrapping_sub(self.told);
        if !self.ready || new == 0 {
            return Ok(false);
        }
        fence(Ordering::SeqCst);
        self.told = self.used;
        if !self.event_idx {
            return Ok(read_u16(dma, self.place.driver, FLAGS)? & NO_INTERRUPT == 0);
        }
        // Whether the index that the driver named is among the new ones.
        let event = read_u16(dma, self.place.driver, self.event(2))?;
        Ok(self.used.wrapping_sub(event).wrapping_sub(1) < new)
    }
}

#[cfg(test)]
mod tests;
