//! Drivers for the virtio devices of the board itself (*Virtual I/O Device (VIRTIO) Version 1.2*, cited as "virtio"
//! with a section): a disk and a network card, behind virtio-mmio of version 2.
//!
//! This is the other side of `spica-virtio`, which has the devices that guests see. What a guest asks of its own disk
//! ends here when the disk is the board's:
//!
//! 1. A [`Client`] is a guest's claim to a disk, with a buffer of its own. It starts a request and says
//!    [`Later`](spica_virtio::backend::DiskError::Later).
//! 2. The device raises its interrupt; [`Block::collect`] says whose requests are done.
//! 3. Those clients' guests are poked, and ask again. Now the answer is there.
//!
//! Nothing waits in here, and nothing is allocated once a driver was made: each client has one request under way at
//! most.
//!
//! What touches the board is behind two traits: the registers ([`Registers`]), and memory that driver and device share
//! ([`Memory`]), where caches and barriers are dealt with. The tests drive the devices of `spica-virtio` with this.
//!
//! A library for such drivers exists (`virtio-drivers`). It brings a dozen crates and procedural macros along, takes a
//! bus that is coherent for granted, and has requests wait for each other; this is 400 lines.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod block;
mod client;
mod net;
mod queue;
mod transport;

pub use block::{BUFFER, Block, Request, State};
pub use client::Client;
pub use net::Net;
pub use transport::{Error, Kind, kind};

/// A device's registers, little-endian (virtio 4.2.2).
pub trait Registers {
    /// Reads a 32-bit register.
    fn read(&self, offset: u32) -> u32;
    /// Writes a 32-bit register.
    fn write(&mut self, offset: u32, value: u32);
}

/// Memory that driver and device share. Offsets and lengths are within [`len`](Self::len).
///
/// What the device writes and what the driver writes is never in the same [`LINE`], so that an implementation may clean
/// and invalidate caches around each access.
pub trait Memory {
    /// Where the device finds the first byte; a multiple of 4096.
    fn address(&self) -> u64;
    /// The number of bytes.
    fn len(&self) -> u32;
    /// Reads what the device has written.
    fn read(&self, at: u32, into: &mut [u8]);
    /// Writes what the device will read.
    fn write(&mut self, at: u32, from: &[u8]);
    /// Reads a number of 16 bits that the device may be writing, in one access. `at` is even.
    fn read_number(&self, at: u32) -> u16;
    /// Writes a number of 16 bits that the device may be reading, in one access. `at` is even.
    fn write_number(&mut self, at: u32, value: u16);
    /// The device sees what was written before this before what is written after it, registers included; and what is
    /// read after this is not older than what was read before it.
    fn order(&self);

    /// Whether there is none at all.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// More than a line of any cache of ARMv7-A cores, in bytes.
pub const LINE: u32 = 64;

#[cfg(test)]
mod tests;
