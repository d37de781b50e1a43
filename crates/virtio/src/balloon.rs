//! The memory balloon (virtio 5.5): pages that the guest can do without, for the host to use.
//!
//! The host says in the configuration space how many pages it would like ([`Balloon::set_target`]); the driver gives
//! and takes back pages in two queues. Which pages are given is remembered in a bitmap, so that the host hears of each
//! page once, whatever the driver says. A page that the host cannot return yet keeps its request waiting, and all
//! behind it. Where the driver resets the device, all pages are the guest's again: a kernel that has been started by
//! another knows of no balloon.

use alloc::vec;
use alloc::vec::Vec;

use spica_addr::GuestPa;

use crate::Malformed;
use crate::backend::{Backends, Pages};
use crate::device::{CONFIG, Device, Io, put};
use crate::work::{Progress, Work};

/// Features (virtio 5.5.3): the driver asks before it uses a page again; statistics; it may do so when out of memory.
const MUST_TELL_HOST: u64 = 1 << 0;
const STATISTICS: u64 = 1 << 1;
const DEFLATE_ON_OOM: u64 = 1 << 2;

/// The queues: pages given, pages taken back, statistics.
const QUEUES: usize = 3;
const STATISTICS_QUEUE: usize = 2;
/// A statistic's bytes: a tag and a value.
const STATISTIC: usize = 10;
/// Statistics that the standard names (virtio 5.5.6.4).
pub(crate) const STATISTIC_TAGS: usize = 10;
/// What a page costs that is given: the host changes its records and its tables, in some 500 instructions.
const GIVE: u32 = 2048;
/// And one that comes back: what somebody else has in it is put elsewhere.
const TAKE: u32 = 8192;

/// The device.
#[derive(Clone, Debug)]
pub(crate) struct Balloon {
    base: GuestPa,
    pages: u32,
    given: Vec<u32>,
    /// How many bits are set there.
    count: u32,
    /// Pages from this one on are to go back to the guest, after a reset; `None`: no reset.
    returning: Option<u32>,
    /// The page that the driver wants back, and has to wait for, by its address divided by 4096.
    awaited: Option<u32>,
    target: u32,
    actual: u32,
    statistics: [u64; STATISTIC_TAGS],
    /// The host wants newer ones.
    ask: bool,
}

impl Balloon {
    pub(crate) fn new(base: GuestPa, pages: u32) -> Self {
        Self {
            base,
            pages,
            given: vec![0; pages.div_ceil(32) as usize],
            count: 0,
            returning: None,
            awaited: None,
            target: 0,
            actual: 0,
            statistics: [0; STATISTIC_TAGS],
            ask: false,
        }
    }

    /// How many pages the host would like to have. True if that is a change.
    pub(crate) fn set_target(&mut self, pages: u32) -> bool {
        let pages = pages.min(self.pages);
        core::mem::replace(&mut self.target, pages) != pages
    }

    /// What is kept of it while it has no pages: how many the host would like, and how many the driver says.
    pub(crate) const fn kept(&self) -> [u32; 2] {
        [self.target, self.actual]
    }

    /// Takes that over.
    pub(crate) fn restore(&mut self, [target, actual]: [u32; 2]) {
        self.target = target.min(self.pages);
        self.actual = actual;
    }

    /// How many pages the host has.
    pub(crate) const fn count(&self) -> u32 {
        self.count
    }

    /// What the driver last said of its memory, by tag, and asks it to say it anew.
    pub(crate) fn statistics(&mut self) -> [u64; STATISTIC_TAGS] {
        self.ask = true;
        self.statistics
    }

    /// Whether page `index` is given; `None` if there is no such page.
    fn is_given(&self, index: u32) -> Option<bool> {
        let word = self.given.get((index / 32) as usize).filter(|_| index < self.pages)?;
        Some(word >> (index % 32) & 1 != 0)
    }

    /// Gives page `index`, or takes it back, unless that is so already or there is no such page. False if the host does
    /// not let it go.
    fn turn(&mut self, index: u32, give: bool, pages: &mut dyn Pages) -> bool {
        if self.is_given(index) != Some(!give) {
            return true;
        }
        let page = self.base.wrapping_add(index << 12);
        if give {
            pages.give(page);
            self.count += 1;
        } else if pages.take(page) {
            self.count -= 1;
        } else {
            return false;
        }
        if let Some(word) = self.given.get_mut((index / 32) as usize) {
            *word ^= 1 << (index % 32);
        }
        true
    }

    /// After a reset, gives pages back to the guest; more to do if there is. Nothing can be done while the host does
    /// not let a page go.
    fn give_back(&mut self, pages: &mut dyn Pages, work: &mut Work) -> Progress {
        while let Some(index) = self.returning.filter(|&index| index < self.pages && self.count != 0) {
            if !work.is_left() {
                return Progress::More;
            }
            work.spend(1);
            if self.is_given(index) == Some(true) {
                if !self.turn(index, false, pages) {
                    return Progress::Idle;
                }
                work.spend(TAKE);
            }
            self.returning = Some(index + 1);
        }
        self.returning = None;
        Progress::Idle
    }

    /// One queue of page numbers.
    fn pages(&mut self, give: bool, io: &mut Io<'_>) -> Result<Progress, Malformed> {
        let Some(queue) = io.queues.get_mut(usize::from(!give)) else { return Ok(Progress::Idle) };
        while io.work.is_left() {
            let Some(chain) = queue.next(io.dma, io.work)? else { return Ok(Progress::Idle) };
            let awaited = if give { None } else { self.awaited.take() };
            if awaited.is_none() && chain.readable() < 4 {
                queue.complete(io.dma)?;
                continue;
            }
            // The driver names a page by its address divided by 4096 (virtio 5.5.6).
            let frame = match awaited {
                Some(frame) => frame,
                None => u32::from_le_bytes(chain.read_part(io.dma)?),
            };
            io.work.spend(if give { GIVE } else { TAKE });
            if !self.turn(frame.wrapping_sub(self.base.0 >> 12), give, io.backends.pages()) {
                self.awaited = Some(frame);
                return Ok(Progress::Idle);
            }
        }
        Ok(Progress::More)
    }

    /// The queue of statistics. It has one chain, which the device keeps until it wants newer ones (virtio 5.5.6.3).
    fn take_statistics(&mut self, io: &mut Io<'_>) -> Result<Progress, Malformed> {
        let Some(queue) = io.queues.get_mut(STATISTICS_QUEUE) else { return Ok(Progress::Idle) };
        while io.work.is_left() {
            let Some(chain) = queue.next(io.dma, io.work)? else { return Ok(Progress::Idle) };
            if chain.readable() as usize >= STATISTIC {
                let bytes: [u8; STATISTIC] = chain.read_part(io.dma)?;
                let [t0, t1, value @ ..] = bytes;
                let tag = u16::from_le_bytes([t0, t1]);
                if let Some(place) = self.statistics.get_mut(usize::from(tag)) {
                    *place = u64::from_le_bytes(value);
                }
                io.work.spend(STATISTIC as u32);
            } else if core::mem::take(&mut self.ask) {
                queue.complete(io.dma)?;
            } else {
                return Ok(Progress::Idle);
            }
        }
        Ok(Progress::More)
    }
}

impl Device for Balloon {
    fn id(&self) -> u32 {
        5
    }

    fn features(&self) -> u64 {
        MUST_TELL_HOST | STATISTICS | DEFLATE_ON_OOM
    }

    fn queues(&self) -> &'static [u16] {
        &[128; QUEUES]
    }

    /// virtio 5.5.4.
    fn config(&self) -> [u8; CONFIG] {
        let mut config = [0; CONFIG];
        put(&mut config, 0, &self.target.to_le_bytes());
        put(&mut config, 4, &self.actual.to_le_bytes());
        config
    }

    /// The driver says how many pages it has given: kept for it to read, and believed by nobody.
    fn write_config(&mut self, offset: u32, bytes: &[u8]) {
        if (4..8).contains(&offset) {
            let mut actual = self.actual.to_le_bytes();
            for (place, byte) in actual.iter_mut().skip(offset as usize - 4).zip(bytes) {
                *place = *byte;
            }
            self.actual = u32::from_le_bytes(actual);
        }
    }

    fn reset(&mut self) {
        self.returning = Some(0);
        self.awaited = None;
        self.actual = 0;
        self.statistics = [0; STATISTIC_TAGS];
    }

    fn reset_queue(&mut self, _queue: usize) {}

    fn settle(&mut self, backends: &mut dyn Backends, work: &mut Work) -> Progress {
        self.give_back(backends.pages(), work)
    }

    fn is_quiet(&self) -> bool {
        self.returning.is_none() && self.awaited.is_none()
    }

    fn serve(&mut self, mut io: Io<'_>) -> Result<Progress, Malformed> {
        let io = &mut io;
        // Pages that come back first: they are those that the guest wants to use.
        let back = self.pages(false, io)?;
        let given = self.pages(true, io)?;
        Ok(back.and(given).and(self.take_statistics(io)?))
    }
}

#[cfg(test)]
mod tests;
