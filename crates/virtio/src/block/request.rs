//! One request to a block device (virtio 5.2.6): header, data, and a status byte at the very end.

use super::{DISCARD, FLUSH as FLUSH_FEATURE, Geometry, RANGE_SECTORS, RANGES, WRITE_ZEROES};
use crate::backend::{Disk, DiskError, RANGE_MOST, SECTOR};
use crate::queue::Chain;
use crate::{Dma, Malformed, Work};

/// Request types.
const IN: u32 = 0;
const OUT: u32 = 1;
const FLUSH: u32 = 4;
const GET_ID: u32 = 8;
const DISCARD_RANGES: u32 = 11;
const CLEAR_RANGES: u32 = 13;

/// A range's bytes: sector, number of sectors, flags.
const RANGE: u32 = 16;
/// The flag of a range: it may be discarded as well. All others are reserved.
const UNMAP: u32 = 1;

/// What the driver is told in the end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Status {
    Ok = 0,
    Error = 1,
    Unsupported = 2,
}

/// How a piece of a request went.
pub(super) enum Step {
    /// There are more.
    Again,
    /// The disk needs time.
    Wait,
    /// That was the last one.
    Done(Status),
}

/// A request in the midst of being carried out.
#[derive(Clone, Debug)]
pub(super) enum Request {
    /// Data to the driver, from this sector on.
    In { sector: u64 },
    /// Data from the driver, to this sector and those behind; the first bytes of the piece were read already. With
    /// `through`, it is to last when the request is done.
    Out { sector: u64, held: usize, through: bool },
    /// What was written is to last.
    Flush,
    /// The serial number is wanted.
    Id,
    /// Ranges are to be cleared, or discarded; what is left of the one that was read.
    Ranges { discard: bool, sector: u64, sectors: u32 },
    /// It is over before it began.
    Refused(Status),
}

impl Geometry {
    /// Whether there are `bytes` bytes from `sector` on, in whole sectors.
    fn has(&self, sector: u64, bytes: u32) -> bool {
        let end = sector.checked_add(u64::from(bytes / SECTOR));
        bytes.is_multiple_of(SECTOR) && end.is_some_and(|end| end <= self.sectors)
    }
}

impl Request {
    /// Reads the header, and refuses what cannot be done.
    ///
    /// # Errors
    /// If header or status byte are missing.
    pub(super) fn new(chain: &mut Chain, dma: &dyn Dma, geometry: &Geometry, accepted: u64) -> Result<Self, Malformed> {
        let header = u128::from_le_bytes(chain.read_part(dma)?);
        let (kind, sector) = (header as u32, (header >> 64) as u64);
        let data = chain.writable().checked_sub(1).ok_or(Malformed::Request)?;
        let ranges = |discard| {
            let bytes = chain.readable();
            if geometry.read_only || bytes == 0 || !bytes.is_multiple_of(RANGE) || bytes / RANGE > RANGES {
                return Self::Refused(Status::Error);
            }
            Self::Ranges { discard, sector: 0, sectors: 0 }
        };
        Ok(match kind {
            IN if geometry.has(sector, data) => Self::In { sector },
            OUT if !geometry.read_only && geometry.has(sector, chain.readable()) => {
                // A driver that knows of no flush counts on what was written (5.2.6.2).
                Self::Out { sector, held: 0, through: accepted & FLUSH_FEATURE == 0 }
            }
            IN | OUT => Self::Refused(Status::Error),
            FLUSH => Self::Flush,
            GET_ID => Self::Id,
            DISCARD_RANGES if accepted & DISCARD != 0 => ranges(true),
            CLEAR_RANGES if accepted & WRITE_ZEROES != 0 => ranges(false),
            _ => Self::Refused(Status::Unsupported),
        })
    }

    /// Does a piece of it.
    ///
    /// # Errors
    /// If RAM has gone away.
    pub(super) fn step(
        &mut self,
        chain: &mut Chain,
        dma: &mut dyn Dma,
        disk: &mut dyn Disk,
        geometry: &Geometry,
        piece: &mut [u8],
        work: &mut Work,
    ) -> Result<Step, Malformed> {
        let result = match self {
            Self::In { sector } => {
                let left = chain.writable().saturating_sub(1);
                let len = piece.len().min(left as usize);
                let piece = piece.get_mut(..len).unwrap_or_default();
                if piece.is_empty() {
                    return Ok(Step::Done(Status::Ok));
                }
                let result = disk.read(*sector, piece);
                if result.is_ok() {
                    chain.write(dma, piece)?;
                    *sector += u64::from(len as u32 / SECTOR);
                    work.spend(len as u32);
                }
                result
            }
            Self::Out { sector, held, through } => {
                if *held == 0 {
                    *held = chain.read(dma, piece)?;
                    work.spend(*held as u32);
                }
                let piece = piece.get(..*held).unwrap_or_default();
                if piece.is_empty() && *through {
                    *self = Self::Flush;
                    return Ok(Step::Again);
                }
                if piece.is_empty() {
                    return Ok(Step::Done(Status::Ok));
                }
                let result = disk.write(*sector, piece);
                if result.is_ok() {
                    *sector += u64::from(*held as u32 / SECTOR);
                    *held = 0;
                }
                result
            }
            Self::Ranges { discard, sector, sectors } => {
                if *sectors == 0 {
                    if chain.readable() == 0 {
                        return Ok(Step::Done(Status::Ok));
                    }
                    match range(chain, dma, geometry, *discard)? {
                        Ok(range) => (*sector, *sectors) = range,
                        Err(status) => return Ok(Step::Done(status)),
                    }
                }
                let now = RANGE_MOST.min(*sectors);
                let result = if *discard { disk.discard(*sector, now) } else { disk.clear(*sector, now) };
                if result.is_ok() {
                    *sector += u64::from(now);
                    *sectors -= now;
                    work.spend(now * SECTOR);
                }
                result
            }
            Self::Flush => match disk.flush() {
                Ok(()) => return Ok(Step::Done(Status::Ok)),
                Err(error) => Err(error),
            },
            Self::Id => {
                let len = chain.writable().saturating_sub(1).min(geometry.serial.len() as u32);
                chain.write(dma, geometry.serial.get(..len as usize).unwrap_or_default())?;
                return Ok(Step::Done(Status::Ok));
            }
            Self::Refused(status) => return Ok(Step::Done(*status)),
        };
        Ok(match result {
            Ok(()) => Step::Again,
            Err(DiskError::Later) => Step::Wait,
            Err(DiskError::Failed) => Step::Done(Status::Error),
        })
    }
}

/// The next range of a discard or write-zeroes request: its first sector and their number.
fn range(
    chain: &mut Chain,
    dma: &dyn Dma,
    geometry: &Geometry,
    discard: bool,
) -> Result<Result<(u64, u32), Status>, Malformed> {
    let bytes = u128::from_le_bytes(chain.read_part::<{ RANGE as usize }>(dma)?);
    let (sector, sectors, flags) = (bytes as u64, (bytes >> 64) as u32, (bytes >> 96) as u32);
    // A discard may not be asked to unmap as well (virtio 5.2.6.2).
    Ok(if flags & !UNMAP != 0 || discard && flags != 0 {
        Err(Status::Unsupported)
    } else if sectors > RANGE_SECTORS || !geometry.has(sector, sectors * SECTOR) {
        Err(Status::Error)
    } else {
        Ok((sector, sectors))
    })
}
