//! The ring: who writes is Rust or assembly, who reads is Rust, and none of them interrupts another.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cell::Cell;

use crate::record::{self, NOBODY, Record};

/// Records in a ring: a power of two.
pub const SLOTS: usize = 1 << 14;

/// A record's four words.
type Slot = [Cell<u32>; 4];

/// See the module's text. Its fields are public for assembly, which knows where they are.
#[repr(C)]
pub struct Ring {
    /// Records ever written; those that were lost do not count.
    pub head: Cell<u32>,
    /// Records ever read.
    pub tail: Cell<u32>,
    /// Records that had no room since this was last said.
    pub lost: Cell<u32>,
    /// The running guest's number, where a record has it: in bits 15:8.
    pub guest: Cell<u32>,
    /// Where the low half of the host's clock is read; 0 where it is no device's register.
    pub clock: Cell<u32>,
    /// All ones if that counts down, else 0.
    pub complement: Cell<u32>,
    /// The records.
    pub slots: &'static [Slot; SLOTS],
}

impl Ring {
    /// An empty ring, whose memory is never given back. `None` if there is none.
    #[must_use]
    pub fn new() -> Option<Ring> {
        let mut slots: Vec<Slot> = Vec::new();
        slots.try_reserve_exact(SLOTS).ok()?;
        slots.resize_with(SLOTS, Slot::default);
        let slots: Box<[Slot; SLOTS]> = slots.into_boxed_slice().try_into().ok()?;
        Some(Ring {
            head: Cell::new(0),
            tail: Cell::new(0),
            lost: Cell::new(0),
            guest: Cell::new(u32::from(NOBODY) << 8),
            clock: Cell::new(0),
            complement: Cell::new(0),
            slots: Box::leak(slots),
        })
    }

    /// Bytes of a ring's records.
    pub const BYTES: usize = SLOTS * size_of::<Slot>();

    /// Forgets what is in it.
    pub fn clear(&self) {
        self.tail.set(self.head.get());
        self.lost.set(0);
    }

    /// The number of the running guest, or [`NOBODY`]'s.
    pub fn set_guest(&self, guest: u8) {
        self.guest.set(u32::from(guest) << 8);
    }

    /// The number that [`Self::set_guest`] set.
    #[must_use]
    pub fn running(&self) -> u8 {
        (self.guest.get() >> 8) as u8
    }

    /// How many records are in it.
    #[must_use]
    pub fn len(&self) -> usize {
        self.head.get().wrapping_sub(self.tail.get()) as usize
    }

    /// Whether there is nothing to read: no record, and none that was lost.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0 && self.lost.get() == 0
    }

    /// Writes a record, if there is room; before it, how many were lost.
    pub fn push(&self, record: Record) {
        let lost = self.lost.get();
        if lost != 0 && self.len() + 2 <= SLOTS {
            self.lost.set(0);
            self.put(Record { kind: record::LOST, guest: NOBODY, argument: lost, detail: 0, length: 0, ..record });
        }
        if self.len() == SLOTS || self.lost.get() != 0 {
            self.lost.set(self.lost.get().saturating_add(1));
            return;
        }
        self.put(record);
    }

    fn put(&self, record: Record) {
        let head = self.head.get();
        let slot = &self.slots[head as usize % SLOTS];
        slot.iter().zip(record.words()).for_each(|(cell, word)| cell.set(word));
        self.head.set(head.wrapping_add(1));
    }

    /// Takes the oldest record; behind the last one, how many were lost, as of `now`.
    pub fn take(&self, now: u32) -> Option<Record> {
        let tail = self.tail.get();
        if tail == self.head.get() {
            let lost = self.lost.take();
            let record = Record { time: now, kind: record::LOST, guest: NOBODY, argument: lost, ..Record::default() };
            return (lost != 0).then_some(record);
        }
        let slot = &self.slots[tail as usize % SLOTS];
        self.tail.set(tail.wrapping_add(1));
        Some(Record::of_words([0, 1, 2, 3].map(|n: usize| slot[n].get())))
    }
}
