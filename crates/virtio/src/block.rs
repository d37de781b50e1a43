//! The block device (virtio 5.2): one queue of requests, one after the other.
//!
//! A request of any length is carried out in pieces of [`PIECE`] bytes. Between two pieces the device may be told to
//! let others work, or the disk may need time; the request then stays open with what is known of it in [`Request`].

mod request;

use alloc::boxed::Box;
use alloc::vec;

use crate::device::{CONFIG, Device, Io, put};
use crate::work::Progress;
use crate::{Malformed, features};
use request::{Request, Step};

/// The device's queue: as long as QEMU's, and as many buffers in a request as fit with header and status.
const QUEUE: u16 = 128;
const SEG_MAX: u32 = QUEUE as u32 - 2;
/// How much goes to or from the disk at once.
const PIECE: usize = 4096;
/// The longest run of sectors that one range of a discard or write-zeroes request may have, and how many ranges.
const RANGE_SECTORS: u32 = 1 << 16;
const RANGES: u32 = 16;

/// Features (virtio 5.2.3).
const SEG_MAX_FEATURE: u64 = 1 << 2;
const READ_ONLY: u64 = 1 << 5;
const BLOCK_SIZE: u64 = 1 << 6;
const FLUSH: u64 = 1 << 9;
const DISCARD: u64 = 1 << 13;
const WRITE_ZEROES: u64 = 1 << 14;

/// What the device is, whatever its driver does.
#[derive(Clone, Debug)]
struct Geometry {
    disk: usize,
    sectors: u64,
    read_only: bool,
    serial: [u8; 20],
}

/// The device.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    geometry: Geometry,
    accepted: u64,
    /// What is known of the open chain.
    request: Option<Request>,
    piece: Box<[u8]>,
}

impl Block {
    pub(crate) fn new(disk: usize, sectors: u64, read_only: bool, serial: [u8; 20]) -> Self {
        let geometry = Geometry { disk, sectors, read_only, serial };
        Self { geometry, accepted: 0, request: None, piece: vec![0; PIECE].into_boxed_slice() }
    }
}

impl Device for Block {
    fn id(&self) -> u32 {
        2
    }

    fn features(&self) -> u64 {
        SEG_MAX_FEATURE | BLOCK_SIZE | FLUSH | if self.geometry.read_only { READ_ONLY } else { DISCARD | WRITE_ZEROES }
    }

    fn queues(&self) -> &'static [u16] {
        &[QUEUE]
    }

    /// virtio 5.2.4.
    fn config(&self) -> [u8; CONFIG] {
        let mut config = [0; CONFIG];
        put(&mut config, 0, &self.geometry.sectors.to_le_bytes());
        put(&mut config, 12, &SEG_MAX.to_le_bytes());
        put(&mut config, 20, &crate::backend::SECTOR.to_le_bytes());
        if !self.geometry.read_only {
            put(&mut config, 36, &RANGE_SECTORS.to_le_bytes());
            put(&mut config, 40, &RANGES.to_le_bytes());
            // Discards are best in the units of overlays.
            put(&mut config, 44, &(PIECE as u32 / crate::backend::SECTOR).to_le_bytes());
            put(&mut config, 48, &RANGE_SECTORS.to_le_bytes());
            put(&mut config, 52, &RANGES.to_le_bytes());
            // A cleared range may give its memory back.
            put(&mut config, 56, &[1]);
        }
        config
    }

    fn reset(&mut self) {
        self.request = None;
    }

    fn negotiate(&mut self, accepted: u64) {
        // A flush means something even to a driver that did not ask whether there is one.
        self.accepted = accepted & !features::COMMON;
    }

    fn is_quiet(&self) -> bool {
        self.request.is_none()
    }

    fn serve(&mut self, io: Io<'_>) -> Result<Progress, Malformed> {
        let [queue] = io.queues else { return Ok(Progress::Idle) };
        let disk = io.backends.disk(self.geometry.disk);
        while io.work.is_left() {
            let Some(chain) = queue.next(io.dma, io.work)? else { return Ok(Progress::Idle) };
            let request = match &mut self.request {
                Some(request) => request,
                none => none.insert(Request::new(chain, io.dma, &self.geometry, self.accepted)?),
            };
            match request.step(chain, io.dma, disk, &self.geometry, &mut self.piece, io.work)? {
                Step::Again => {}
                Step::Wait => return Ok(Progress::Idle),
                Step::Done(status) => {
                    chain.write_last(io.dma, status as u8)?;
                    queue.complete(io.dma)?;
                    self.request = None;
                }
            }
        }
        Ok(Progress::More)
    }
}

#[cfg(test)]
mod tests;
