//! A chain of buffers, as a driver makes it available (virtio 2.7.5): walked and checked once, then only the copy is
//! used. So a driver that changes descriptors behind the device's back changes nothing.

use alloc::vec::Vec;

use spica_addr::GuestPa;

use crate::dma::{Dma, address};
use crate::{Malformed, Work};

/// A descriptor's bytes: address, length, flags, next.
pub(super) const DESCRIPTOR: u32 = 16;
const NEXT: u16 = 1;
const WRITE: u16 = 2;
const INDIRECT: u16 = 4;

struct Descriptor {
    pa: u64,
    len: u32,
    flags: u16,
    next: u16,
}

impl Descriptor {
    fn read(dma: &dyn Dma, table: u64, index: u16) -> Result<Self, Malformed> {
        let mut bytes = [0; DESCRIPTOR as usize];
        dma.read(address(table, u32::from(index) * DESCRIPTOR)?, &mut bytes)?;
        let value = u128::from_le_bytes(bytes);
        Ok(Self {
            pa: value as u64,
            len: (value >> 64) as u32,
            flags: (value >> 96) as u16,
            next: (value >> 112) as u16,
        })
    }
}

/// A buffer in RAM.
#[derive(Clone, Copy, Debug)]
struct Buffer {
    pa: GuestPa,
    len: u32,
}

/// How far the buffers of one direction have been used.
#[derive(Clone, Copy, Debug, Default)]
struct Side {
    /// The buffer that is next, and the one behind the last.
    at: usize,
    end: usize,
    /// Bytes.
    left: u32,
}

impl Side {
    /// The next run of at most `most` bytes that are together in memory.
    fn piece(&mut self, buffers: &mut [Buffer], most: u32) -> Option<Buffer> {
        let buffer = buffers.get_mut(self.at..self.end)?.first_mut()?;
        let piece = Buffer { pa: buffer.pa, len: buffer.len.min(most) };
        buffer.pa = buffer.pa.wrapping_add(piece.len);
        buffer.len -= piece.len;
        self.left -= piece.len;
        if buffer.len == 0 {
            self.at += 1;
        }
        Some(piece)
    }
}

/// Walks a table, and what it finds goes to the chain.
struct Walk<'a> {
    dma: &'a dyn Dma,
    indirect: bool,
    /// How many descriptors there may yet be.
    allowed: u16,
    bytes: u64,
}

/// The buffers of one request: first those that the device reads, then those that it writes. Both are used from front
/// to back, in pieces of any size.
#[derive(Clone, Debug, Default)]
pub struct Chain {
    head: u16,
    /// Those to be read come first, as the standard has it. There is room for the longest chain from the beginning.
    buffers: Vec<Buffer>,
    readable: Side,
    writable: Side,
    written: u32,
}

impl Chain {
    /// A chain of nothing, with room for as many buffers.
    pub(super) fn new(most: u16) -> Self {
        Self { buffers: Vec::with_capacity(most.into()), ..Self::default() }
    }

    /// Walks the chain that begins at `head` of a queue's table.
    pub(super) fn load(
        &mut self,
        dma: &dyn Dma,
        (table, size): (u64, u16),
        head: u16,
        indirect: bool,
        most: u16,
        work: &mut Work,
    ) -> Result<(), Malformed> {
        self.head = head;
        self.written = 0;
        self.buffers.clear();
        (self.readable, self.writable) = (Side::default(), Side::default());
        let mut walk = Walk { dma, indirect, allowed: most, bytes: 0 };
        let result = walk.table(self, table, size, head);
        work.spend(u32::from(most - walk.allowed) * Work::DESCRIPTOR);
        result
    }

    fn add(&mut self, descriptor: &Descriptor, walk: &mut Walk<'_>) -> Result<(), Malformed> {
        if descriptor.len == 0 {
            return Err(Malformed::EmptyBuffer);
        }
        let pa = address(descriptor.pa, 0)?;
        if !walk.dma.is_ram(pa, descriptor.len) {
            return Err(Malformed::Address);
        }
        walk.bytes += u64::from(descriptor.len);
        if walk.bytes > u64::from(u32::MAX) {
            return Err(Malformed::ChainBytes);
        }
        let end = self.buffers.len() + 1;
        if descriptor.flags & WRITE != 0 {
            self.writable = Side { at: self.readable.end, end, left: self.writable.left + descriptor.len };
        } else if self.writable.end != 0 {
            return Err(Malformed::ReadAfterWrite);
        } else {
            self.readable = Side { at: 0, end, left: self.readable.left + descriptor.len };
        }
        self.buffers.push(Buffer { pa, len: descriptor.len });
        Ok(())
    }

    pub(super) const fn head(&self) -> u16 {
        self.head
    }

    /// How many bytes the device has not read yet.
    #[must_use]
    pub const fn readable(&self) -> u32 {
        self.readable.left
    }

    /// How many bytes the device can yet write.
    #[must_use]
    pub const fn writable(&self) -> u32 {
        self.writable.left
    }

    /// How many bytes the device has written.
    #[must_use]
    pub const fn written(&self) -> u32 {
        self.written
    }

    /// Reads the next bytes, `into.len()` or as many as are left, and says how many.
    ///
    /// # Errors
    /// If RAM has gone away.
    pub fn read(&mut self, dma: &dyn Dma, into: &mut [u8]) -> Result<usize, Malformed> {
        let mut done = 0;
        while let Some(rest) = into.get_mut(done..).filter(|rest| !rest.is_empty()) {
            let Some(piece) = self.readable.piece(&mut self.buffers, clamp(rest.len())) else { break };
            let (now, _) = rest.split_at_mut(piece.len as usize);
            dma.read(piece.pa, now)?;
            done += now.len();
        }
        Ok(done)
    }

    /// Reads exactly as many bytes as a part of a request has.
    ///
    /// # Errors
    /// If the chain has fewer.
    pub fn read_part<const N: usize>(&mut self, dma: &dyn Dma) -> Result<[u8; N], Malformed> {
        let mut bytes = [0; N];
        if self.read(dma, &mut bytes)? == N { Ok(bytes) } else { Err(Malformed::Request) }
    }

    /// Passes over bytes to be read.
    pub fn skip(&mut self, mut bytes: u32) {
        while bytes != 0
            && let Some(piece) = self.readable.piece(&mut self.buffers, bytes)
        {
            bytes -= piece.len;
        }
    }

    /// Writes `from`, or as much as there is room for, and says how many bytes.
    ///
    /// # Errors
    /// If RAM has gone away.
    pub fn write(&mut self, dma: &mut dyn Dma, from: &[u8]) -> Result<usize, Malformed> {
        let mut done = 0;
        while let Some(rest) = from.get(done..).filter(|rest| !rest.is_empty()) {
            let Some(piece) = self.writable.piece(&mut self.buffers, clamp(rest.len())) else { break };
            let (now, _) = rest.split_at(piece.len as usize);
            dma.write(piece.pa, now)?;
            done += now.len();
            self.written += piece.len;
        }
        Ok(done)
    }

    /// Writes the very last byte of the chain, whatever is between, and ends it.
    ///
    /// # Errors
    /// If there is no byte to be written.
    pub fn write_last(&mut self, dma: &mut dyn Dma, byte: u8) -> Result<(), Malformed> {
        let last = self.buffers.get(self.writable.at..self.writable.end).and_then(<[Buffer]>::last);
        let last = last.ok_or(Malformed::Request)?;
        dma.write(last.pa.wrapping_add(last.len - 1), &[byte])?;
        // The device's report counts bytes from the start without a gap (virtio 2.7.8.2).
        if self.writable.left == 1 {
            self.written += 1;
        }
        self.writable = Side::default();
        Ok(())
    }
}

/// A length as guest memory has it; there is no more of it than that.
fn clamp(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

impl Walk<'_> {
    fn table(&mut self, chain: &mut Chain, table: u64, size: u16, first: u16) -> Result<(), Malformed> {
        let mut index = first;
        loop {
            if index >= size {
                return Err(Malformed::DescriptorIndex(index));
            }
            self.allowed = self.allowed.checked_sub(1).ok_or(Malformed::ChainLength)?;
            let descriptor = Descriptor::read(self.dma, table, index)?;
            if descriptor.flags & INDIRECT != 0 {
                return self.indirect_table(chain, &descriptor);
            }
            chain.add(&descriptor, self)?;
            if descriptor.flags & NEXT == 0 {
                return Ok(());
            }
            index = descriptor.next;
        }
    }

    /// A table elsewhere, which ends the chain (virtio 2.7.5.3). Its descriptor's WRITE flag means nothing.
    fn indirect_table(&mut self, chain: &mut Chain, descriptor: &Descriptor) -> Result<(), Malformed> {
        // Taken once: a table in a table finds it gone.
        if !core::mem::take(&mut self.indirect) || descriptor.flags & NEXT != 0 {
            return Err(Malformed::IndirectFlags);
        }
        if descriptor.len == 0 || !descriptor.len.is_multiple_of(DESCRIPTOR) {
            return Err(Malformed::IndirectLength(descriptor.len));
        }
        // The descriptor that leads to it is none of the chain's own.
        self.allowed += 1;
        let entries = u16::try_from(descriptor.len / DESCRIPTOR).map_err(|_| Malformed::ChainLength)?;
        self.table(chain, descriptor.pa, entries, 0)
    }
}
