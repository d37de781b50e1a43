//! A driver: it sets a device up through its slot's registers, fills rings in memory, and collects what was used.

use alloc::vec::Vec;

use spica_devices::{Mmio, Width};

use super::Ram;
use crate::{Slot, features};

/// The bytes that the rings of a queue have, one after the other; those of queue 0 are at the start of RAM.
pub const APART: u32 = 0x4000;
const DRIVER_RING: u32 = 0x2000;
const DEVICE_RING: u32 = 0x3000;

/// A buffer of a chain.
#[derive(Clone, Copy, Debug)]
pub enum Buffer {
    /// The device reads it: address and length.
    Read(u64, u32),
    /// The device writes it.
    Write(u64, u32),
}

/// Flags of descriptors.
pub const NEXT: u16 = 1;
/// The device writes the buffer.
pub const WRITE: u16 = 2;
/// The buffer is a table of descriptors.
pub const INDIRECT: u16 = 4;

/// A driver's side of one queue.
#[derive(Clone, Debug)]
pub struct Rings {
    /// The queue's number.
    pub index: u32,
    /// The descriptor table.
    pub table: u32,
    /// The available ring.
    pub driver: u32,
    /// The used ring.
    pub device: u32,
    /// The number of descriptors.
    pub size: u16,
    free: u16,
    available: u16,
    seen: u16,
}

impl Rings {
    /// Rings one after the other from `table` on, in [`APART`] bytes.
    #[must_use]
    pub const fn new(index: u32, table: u32, size: u16) -> Self {
        let (driver, device) = (table + DRIVER_RING, table + DEVICE_RING);
        Self { index, table, driver, device, size, free: 0, available: 0, seen: 0 }
    }

    /// Writes a descriptor.
    pub fn descriptor(&self, ram: &mut Ram, index: u16, (pa, len): (u64, u32), flags: u16, next: u16) {
        ram.set(self.table + u32::from(index) * 16, &encode((pa, len), flags, next));
    }

    /// Makes the chain that begins at `head` available.
    pub fn offer(&mut self, ram: &mut Ram, head: u16) {
        ram.set(self.driver + 4 + u32::from(self.available % self.size) * 2, &head.to_le_bytes());
        self.available = self.available.wrapping_add(1);
        ram.set(self.driver + 2, &self.available.to_le_bytes());
    }

    /// Makes a chain available, and says where it begins. Descriptors are taken in turn: a test with more chains than
    /// the queue is long has to see to it that the old ones were used.
    pub fn put(&mut self, ram: &mut Ram, buffers: &[Buffer]) -> u16 {
        let head = self.free;
        for (n, buffer) in buffers.iter().enumerate() {
            let index = self.free;
            self.free = (index + 1) % self.size;
            let more = if n + 1 < buffers.len() { NEXT } else { 0 };
            let (place, flags) = match *buffer {
                Buffer::Read(pa, len) => ((pa, len), more),
                Buffer::Write(pa, len) => ((pa, len), more | WRITE),
            };
            self.descriptor(ram, index, place, flags, self.free);
        }
        self.offer(ram, head);
        head
    }

    /// Makes a chain available whose descriptors are in a table at `at`.
    pub fn put_indirect(&mut self, ram: &mut Ram, at: u32, buffers: &[Buffer]) -> u16 {
        for (n, buffer) in buffers.iter().enumerate() {
            let more = if n + 1 < buffers.len() { NEXT } else { 0 };
            let bytes = match *buffer {
                Buffer::Read(pa, len) => encode((pa, len), more, n as u16 + 1),
                Buffer::Write(pa, len) => encode((pa, len), more | WRITE, n as u16 + 1),
            };
            ram.set(at + n as u32 * 16, &bytes);
        }
        let head = self.free;
        self.free = (head + 1) % self.size;
        self.descriptor(ram, head, (at.into(), buffers.len() as u32 * 16), INDIRECT, 0);
        self.offer(ram, head);
        head
    }

    /// The next chain that the device has used: where it begins, and how many bytes were written.
    pub fn used(&mut self, ram: &Ram) -> Option<(u16, u32)> {
        if ram.get_u16(self.device + 2) == self.seen {
            return None;
        }
        let entry = self.device + 4 + u32::from(self.seen % self.size) * 8;
        self.seen = self.seen.wrapping_add(1);
        Some((ram.get_u32(entry) as u16, ram.get_u32(entry + 4)))
    }
}

/// A descriptor's bytes.
#[must_use]
pub fn encode((pa, len): (u64, u32), flags: u16, next: u16) -> Vec<u8> {
    [&pa.to_le_bytes()[..], &len.to_le_bytes(), &flags.to_le_bytes(), &next.to_le_bytes()].concat()
}

/// A driver's side of a device.
#[derive(Clone, Debug)]
pub struct Driver {
    /// Its queues.
    pub queues: Vec<Rings>,
}

impl Driver {
    /// Resets the device and sets it up, up to DRIVER_OK, with the features of `wanted` that it offers, and with queues
    /// of at most `most` descriptors, whose rings are at the start of RAM.
    pub fn start(slot: &mut Slot, ram: &mut Ram, wanted: u64, most: u16) -> Self {
        write(slot, 0x070, 0);
        assert_eq!(read(slot, 0x070), 0);
        write(slot, 0x070, 1);
        write(slot, 0x070, 3);
        let offered = [0, 1].map(|half| {
            write(slot, 0x014, half);
            u64::from(read(slot, 0x010)) << (32 * half)
        });
        let accepted = (offered[0] | offered[1]) & (wanted | features::VERSION_1);
        for half in [0, 1] {
            write(slot, 0x024, half);
            write(slot, 0x020, (accepted >> (32 * half)) as u32);
        }
        write(slot, 0x070, 11);
        assert_eq!(read(slot, 0x070), 11);
        let mut queues = Vec::new();
        for index in 0.. {
            write(slot, 0x030, index);
            let max = read(slot, 0x034) as u16;
            if max == 0 {
                break;
            }
            assert_eq!(read(slot, 0x044), 0, "no queue is ready at first");
            let rings = Rings::new(index, ram.base + index * APART, max.min(most));
            ram.set(rings.table, &[0; APART as usize]);
            write(slot, 0x038, rings.size.into());
            for (register, address) in [(0x080, rings.table), (0x090, rings.driver), (0x0a0, rings.device)] {
                write(slot, register, address);
                write(slot, register + 4, 0);
            }
            write(slot, 0x044, 1);
            queues.push(rings);
        }
        write(slot, 0x070, 15);
        assert_eq!(read(slot, 0x070), 15);
        Self { queues }
    }

    /// Tells the device of new chains.
    pub fn kick(&self, slot: &mut Slot, queue: u32) {
        write(slot, 0x050, queue);
    }

    /// Reads and acknowledges the interrupt status.
    pub fn interrupt(&self, slot: &mut Slot) -> u32 {
        let status = read(slot, 0x060);
        write(slot, 0x064, status);
        status
    }
}

/// Reads a register.
pub fn read(slot: &mut Slot, offset: u32) -> u32 {
    slot.read(offset, Width::Word)
}

/// Writes a register.
pub fn write(slot: &mut Slot, offset: u32, value: u32) {
    slot.write(offset, Width::Word, value);
}
