//! A split queue (virtio 2.7), the driver's side. Who uses it knows which descriptors are free.
//!
//! The three parts are in lines of their own: descriptors and available ring are written here only, the used ring by
//! the device only.

use crate::{LINE, Memory};

/// Flags of descriptors: another one follows; the device writes the buffer.
const NEXT: u16 = 1;
const WRITE: u16 = 2;
/// Flag of the available ring: no interrupts, please.
const NO_INTERRUPT: u16 = 1;
/// Flag of the used ring: no notifications, please.
const NO_NOTIFY: u16 = 1;

/// A buffer: where the device finds it, how long it is, and whether the device writes to it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Buffer {
    pub(crate) address: u64,
    pub(crate) len: u32,
    pub(crate) device_writes: bool,
}

/// A queue.
#[derive(Debug)]
pub(crate) struct Queue {
    /// Its number.
    pub(crate) index: u16,
    size: u16,
    /// Where the parts are in the memory: descriptors, available ring, used ring.
    places: [u32; 3],
    available: u16,
    seen: u16,
}

/// The bytes of the parts of a queue of `size` descriptors, in whole lines.
const fn parts(size: u16) -> [u32; 3] {
    let size = size as u32;
    [(16 * size).next_multiple_of(LINE), (6 + 2 * size).next_multiple_of(LINE), (6 + 8 * size).next_multiple_of(LINE)]
}

impl Queue {
    /// The bytes that a queue of `size` descriptors needs; a multiple of [`LINE`].
    pub(crate) const fn bytes(size: u16) -> u32 {
        let [table, available, used] = parts(size);
        table + available + used
    }

    /// An empty queue of `size` descriptors, a power of two, at `at`, a multiple of [`LINE`].
    pub(crate) fn new(memory: &mut impl Memory, index: u16, size: u16, at: u32) -> Self {
        let [table, available, _] = parts(size);
        (0..Self::bytes(size)).step_by(LINE as usize).for_each(|line| memory.write(at + line, &[0; LINE as usize]));
        Self { index, size, places: [at, at + table, at + table + available], available: 0, seen: 0 }
    }

    /// Where the parts are: descriptors, available ring, used ring.
    pub(crate) const fn places(&self) -> [u32; 3] {
        self.places
    }

    /// Makes a chain of `buffers`, in the descriptors from `head` on, available.
    pub(crate) fn offer(&mut self, memory: &mut impl Memory, head: u16, buffers: &[Buffer]) {
        let [table, available, _] = self.places;
        for (index, (buffer, left)) in (head..).zip(buffers.iter().zip((0..buffers.len()).rev())) {
            let flags = if left > 0 { NEXT } else { 0 } | if buffer.device_writes { WRITE } else { 0 };
            let mut descriptor = [0; 16];
            descriptor[..8].copy_from_slice(&buffer.address.to_le_bytes());
            descriptor[8..12].copy_from_slice(&buffer.len.to_le_bytes());
            descriptor[12..14].copy_from_slice(&flags.to_le_bytes());
            descriptor[14..].copy_from_slice(&(index + 1).to_le_bytes());
            memory.write(table + 16 * u32::from(index), &descriptor);
        }
        memory.write(available + 4 + 2 * u32::from(self.available % self.size), &head.to_le_bytes());
        // The chain first, then that it is there (2.7.13.3.1).
        memory.order();
        self.available = self.available.wrapping_add(1);
        memory.write_number(available + 2, self.available);
        memory.order();
    }

    /// The next chain that the device is done with: its head, and how many bytes the device says that it has written.
    pub(crate) fn used(&mut self, memory: &impl Memory) -> Option<(u16, u32)> {
        let [_, _, used] = self.places;
        if memory.read_number(used + 2) == self.seen {
            return None;
        }
        memory.order();
        let mut element = [0; 8];
        memory.read(used + 4 + 8 * u32::from(self.seen % self.size), &mut element);
        self.seen = self.seen.wrapping_add(1);
        let [a, b, c, d, len @ ..] = element;
        Some((u32::from_le_bytes([a, b, c, d]) as u16, u32::from_le_bytes(len)))
    }

    /// Whether the device wants to be told of chains.
    pub(crate) fn wants_notice(&self, memory: &impl Memory) -> bool {
        let [_, _, used] = self.places;
        memory.read_number(used) & NO_NOTIFY == 0
    }

    /// Whether the device shall raise an interrupt for used chains. It may do so anyway.
    pub(crate) fn set_interrupt(&self, memory: &mut impl Memory, wanted: bool) {
        let [_, available, _] = self.places;
        memory.write_number(available, if wanted { 0 } else { NO_INTERRUPT });
        memory.order();
    }
}
