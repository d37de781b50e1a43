//! A guest's claim to a disk of the board: what its own virtio disk stands on.
//!
//! A request comes in pieces, each of which is asked for until the answer is there ([`DiskError::Later`]). The guest
//! may have been reset in between and ask for something else: an answer counts only for the question that it belongs
//! to. A write's question includes the bytes, which the buffer still holds.
//!
//! Reads bring more than was asked for: the whole clusters of 4 KiB around it, two at least, which is what copy on
//! write asks for in two steps; and a buffer full where a guest reads on where it was. What was read is good until the
//! client writes: nobody else writes where two read.

use alloc::rc::Rc;
use core::cell::RefCell;
use core::ops::Range;

use spica_virtio::backend::{Disk, DiskError, SECTOR};

use crate::block::{BUFFER, Block, Request, State};
use crate::{Memory, Registers};

/// Sectors of a cluster.
const CLUSTER: u64 = 8;
/// Sectors of a buffer.
const MOST: u64 = (BUFFER / SECTOR) as u64;
/// Bytes that are compared, or cleared, at once: a sector.
const CHUNK: usize = 512;

/// A client of a disk, by its tag.
#[derive(Debug)]
pub struct Client<R, M> {
    disk: Rc<RefCell<Block<R, M>>>,
    tag: usize,
    /// The sectors that the buffer holds.
    held: Range<u64>,
    /// Where the last read ended.
    next: u64,
}

impl<R: Registers, M: Memory> Client<R, M> {
    /// The client of `disk` with this tag, which nobody else has.
    #[must_use]
    pub const fn new(disk: Rc<RefCell<Block<R, M>>>, tag: usize) -> Self {
        Self { disk, tag, held: 0..0, next: 0 }
    }

    /// Whether the last request was this one and is done; `None` if there is none under way, so that it can be started.
    fn answer(disk: &Block<R, M>, tag: usize, wanted: impl Fn(Request) -> bool) -> Option<Result<(), DiskError>> {
        match disk.state(tag) {
            State::Busy(_) => Some(Err(DiskError::Later)),
            State::Done(request, well) if wanted(request) => Some(if well { Ok(()) } else { Err(DiskError::Failed) }),
            State::Done(..) | State::Idle => None,
        }
    }

    /// Writes `sectors` sectors, whose bytes `put` puts into the buffer, where `same` finds them again.
    fn write_with(
        &mut self,
        request: Request,
        same: impl Fn(&Block<R, M>) -> bool,
        put: impl FnOnce(&mut Block<R, M>),
    ) -> Result<(), DiskError> {
        let mut disk = self.disk.borrow_mut();
        self.held = 0..0;
        if let Some(answer) = Self::answer(&disk, self.tag, |done| done == request && same(&disk)) {
            if answer != Err(DiskError::Later) {
                disk.forget(self.tag);
            }
            return answer;
        }
        put(&mut disk);
        disk.start(self.tag, request);
        Err(DiskError::Later)
    }
}

/// Whether a client's buffer has these bytes from `at` on.
fn holds<R: Registers, M: Memory>(disk: &Block<R, M>, tag: usize, at: u32, bytes: &[u8]) -> bool {
    let mut held = [0; CHUNK];
    bytes.chunks(CHUNK).zip((at..).step_by(CHUNK)).all(|(chunk, at)| {
        let held = &mut held[..chunk.len()];
        disk.read_buffer(tag, at, held);
        held == chunk
    })
}

impl<R: Registers, M: Memory> Disk for Client<R, M> {
    fn read(&mut self, sector: u64, into: &mut [u8]) -> Result<(), DiskError> {
        let end = sector + into.len() as u64 / u64::from(SECTOR);
        let within = |outer: &Range<u64>| outer.start <= sector && end <= outer.end;
        let mut disk = self.disk.borrow_mut();
        if !within(&self.held) {
            let range = |request| match request {
                Request::Read { sector, sectors } => sector..sector + u64::from(sectors),
                _ => 0..0,
            };
            let wanted = |request| within(&range(request));
            match Self::answer(&disk, self.tag, wanted) {
                None => {
                    let aligned = sector / CLUSTER * CLUSTER;
                    let start = if end <= aligned + MOST { aligned } else { sector };
                    let least = if sector == self.next { MOST } else { 2 * CLUSTER };
                    let until = end.next_multiple_of(CLUSTER).max(start + least).min(start + MOST).min(disk.sectors());
                    if until < end {
                        return Err(DiskError::Failed);
                    }
                    self.held = 0..0;
                    disk.start(self.tag, Request::Read { sector: start, sectors: (until - start) as u32 });
                    return Err(DiskError::Later);
                }
                Some(Ok(())) => {
                    if let State::Done(request, _) = disk.state(self.tag) {
                        self.held = range(request);
                    }
                }
                Some(Err(DiskError::Failed)) => {
                    disk.forget(self.tag);
                    return Err(DiskError::Failed);
                }
                Some(later) => return later,
            }
        }
        disk.read_buffer(self.tag, (sector - self.held.start) as u32 * SECTOR, into);
        self.next = end;
        Ok(())
    }

    fn write(&mut self, sector: u64, from: &[u8]) -> Result<(), DiskError> {
        let request = Request::Write { sector, sectors: from.len() as u32 / SECTOR };
        let tag = self.tag;
        self.write_with(request, |disk| holds(disk, tag, 0, from), |disk| disk.write_buffer(tag, 0, from))
    }

    fn flush(&mut self) -> Result<(), DiskError> {
        if !self.disk.borrow().needs_flush() {
            return Ok(());
        }
        self.write_with(Request::Flush, |_| true, |_| {})
    }

    fn clear(&mut self, sector: u64, sectors: u32) -> Result<(), DiskError> {
        let (request, tag) = (Request::Write { sector, sectors }, self.tag);
        if u64::from(sectors) > MOST {
            return Err(DiskError::Failed);
        }
        let places = || (0..sectors).map(|sector| sector * SECTOR);
        self.write_with(
            request,
            |disk| places().all(|at| holds(disk, tag, at, &[0; CHUNK])),
            |disk| places().for_each(|at| disk.write_buffer(tag, at, &[0; CHUNK])),
        )
    }
}
