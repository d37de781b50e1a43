//! The other ends of devices, in vectors.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use spica_addr::GuestPa;

use crate::backend::{Backends, Disk, DiskError, Entropy, Network, Pages, SECTOR, Terminal};

/// Other ends that remember what they were told. There is one of each kind, whatever its number.
#[derive(Clone, Debug, Default)]
pub struct Ends {
    /// The disk's bytes.
    pub disk: Vec<u8>,
    /// The disk fails, or needs time.
    pub disk_error: Option<DiskError>,
    /// How often the disk was flushed.
    pub flushes: usize,
    /// Ranges of sectors that were discarded.
    pub discarded: Vec<(u64, u32)>,
    /// Random bytes that there are.
    pub entropy: VecDeque<u8>,
    /// What the guest wrote to its terminal.
    pub output: Vec<u8>,
    /// How much of that there is room for.
    pub output_room: usize,
    /// What was typed.
    pub input: VecDeque<u8>,
    /// Frames that the guest has sent.
    pub sent: Vec<Vec<u8>>,
    /// Frames for the guest.
    pub frames: VecDeque<Vec<u8>>,
    /// Pages that the guest has given, and taken back, in order.
    pub pages: Vec<(GuestPa, bool)>,
    /// Pages that it cannot have back now.
    pub kept: Vec<GuestPa>,
}

impl Ends {
    /// With a disk of so many sectors, each filled with what identifies it, and much room for output.
    #[must_use]
    pub fn new(sectors: u32) -> Self {
        let byte = |n: u32| (n / SECTOR).wrapping_mul(31).wrapping_add(n % SECTOR / 7) as u8;
        Self { disk: (0..sectors * SECTOR).map(byte).collect(), output_room: usize::MAX, ..Self::default() }
    }

    fn range(&mut self, sector: u64, len: usize) -> &mut [u8] {
        let start = usize::try_from(sector * u64::from(SECTOR)).unwrap();
        &mut self.disk[start..start + len]
    }

    fn checked(&self) -> Result<(), DiskError> {
        self.disk_error.map_or(Ok(()), Err)
    }
}

impl Disk for Ends {
    fn read(&mut self, sector: u64, into: &mut [u8]) -> Result<(), DiskError> {
        self.checked()?;
        assert_eq!(into.len() % SECTOR as usize, 0);
        into.copy_from_slice(self.range(sector, into.len()));
        Ok(())
    }

    fn write(&mut self, sector: u64, from: &[u8]) -> Result<(), DiskError> {
        self.checked()?;
        assert_eq!(from.len() % SECTOR as usize, 0);
        self.range(sector, from.len()).copy_from_slice(from);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), DiskError> {
        self.checked()?;
        self.flushes += 1;
        Ok(())
    }

    fn clear(&mut self, sector: u64, sectors: u32) -> Result<(), DiskError> {
        self.checked()?;
        self.range(sector, (sectors * SECTOR) as usize).fill(0);
        Ok(())
    }

    fn discard(&mut self, sector: u64, sectors: u32) -> Result<(), DiskError> {
        self.checked()?;
        let _in_range = self.range(sector, (sectors * SECTOR) as usize);
        self.discarded.push((sector, sectors));
        Ok(())
    }
}

impl Entropy for Ends {
    fn fill(&mut self, into: &mut [u8]) -> usize {
        let len = into.len().min(self.entropy.len());
        into.iter_mut().zip(self.entropy.drain(..len)).for_each(|(to, from)| *to = from);
        len
    }
}

impl Terminal for Ends {
    fn put(&mut self, from: &[u8]) -> usize {
        let len = from.len().min(self.output_room);
        self.output.extend_from_slice(&from[..len]);
        self.output_room -= len;
        len
    }

    fn get(&mut self, into: &mut [u8]) -> usize {
        let len = into.len().min(self.input.len());
        into.iter_mut().zip(self.input.drain(..len)).for_each(|(to, from)| *to = from);
        len
    }
}

impl Network for Ends {
    fn send(&mut self, _port: usize, frame: &[u8]) {
        self.sent.push(frame.to_vec());
    }

    fn next(&self, _port: usize) -> Option<&[u8]> {
        self.frames.front().map(Vec::as_slice)
    }

    fn pop(&mut self, _port: usize) {
        self.frames.pop_front();
    }
}

impl Pages for Ends {
    fn give(&mut self, page: GuestPa) {
        self.pages.push((page, true));
    }

    fn take(&mut self, page: GuestPa) -> bool {
        let free = !self.kept.contains(&page);
        if free {
            self.pages.push((page, false));
        }
        free
    }
}

impl Backends for Ends {
    fn disk(&mut self, _disk: usize) -> &mut dyn Disk {
        self
    }

    fn entropy(&mut self) -> &mut dyn Entropy {
        self
    }

    fn terminal(&mut self, _terminal: usize) -> &mut dyn Terminal {
        self
    }

    fn network(&mut self) -> &mut dyn Network {
        self
    }

    fn pages(&mut self) -> &mut dyn Pages {
        self
    }
}
