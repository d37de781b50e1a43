//! The ring: who writes is Rust or assembly, who reads is Rust, and none of them interrupts another.

use alloc::vec::Vec;
use core::cell::Cell;

use crate::record::{NOBODY, Record};

/// Records in a ring of the usual size.
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
    /// Records that had no room since this was last said. As long as that is to be said, what comes is lost, too.
    pub lost: Cell<u32>,
    /// The number of slots, a power of two, less one.
    pub mask: u32,
    /// The running guest's number, where a record has it: in bits 15:8.
    pub guest: Cell<u32>,
    /// Where the low half of the host's clock is read; 0 where it is no device's register.
    pub clock: Cell<u32>,
    /// All ones if that counts down, else 0.
    pub complement: Cell<u32>,
    /// The first slot.
    pub first: &'static Slot,
    /// All slots.
    slots: &'static [Slot],
    /// The host's clock, all 64 bits, when it was last looked at: for what is said of records that were lost.
    seen: Cell<u64>,
}

impl Ring {
    /// An empty ring for so many records, whose memory is never given back. `None` if there is none.
    ///
    /// # Panics
    /// If `slots` is no power of two.
    #[must_use]
    pub fn new(slots: usize) -> Option<Ring> {
        assert!(slots.is_power_of_two(), "a ring of {slots} records");
        let mut memory: Vec<Slot> = Vec::new();
        memory.try_reserve_exact(slots).ok()?;
        memory.resize_with(slots, Slot::default);
        let slots: &'static [Slot] = memory.leak();
        Some(Ring {
            head: Cell::new(0),
            tail: Cell::new(0),
            lost: Cell::new(0),
            mask: slots.len() as u32 - 1,
            guest: Cell::new(u32::from(NOBODY) << 8),
            clock: Cell::new(0),
            complement: Cell::new(0),
            first: &slots[0],
            slots,
            seen: Cell::new(0),
        })
    }

    /// Bytes of the records of a ring for so many.
    #[must_use]
    pub const fn bytes(slots: usize) -> usize {
        slots * size_of::<Slot>()
    }

    /// How many records it has room for.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.slots.len()
    }

    /// Forgets what is in it.
    pub fn clear(&self) {
        self.tail.set(self.head.get());
        self.lost.set(0);
    }

    /// It is `now`. To be said more often than the clock's low half takes to get half round.
    pub fn set_time(&self, now: u64) {
        self.seen.set(now);
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
        if lost != 0 && self.len() + 2 <= self.slots() {
            self.lost.set(0);
            self.put(Record::lost(lost, record.time, self.seen.get()));
        }
        if self.len() == self.slots() || self.lost.get() != 0 {
            self.lost.set(self.lost.get().saturating_add(1));
            return;
        }
        self.put(record);
    }

    fn slot(&self, count: u32) -> &Slot {
        &self.slots[(count & self.mask) as usize]
    }

    fn put(&self, record: Record) {
        let head = self.head.get();
        self.slot(head).iter().zip(record.words()).for_each(|(cell, word)| cell.set(word));
        self.head.set(head.wrapping_add(1));
    }

    /// Takes the oldest record; behind the last one, how many were lost, as of `now`.
    pub fn take(&self, now: u64) -> Option<Record> {
        let tail = self.tail.get();
        if tail == self.head.get() {
            let lost = self.lost.take();
            return (lost != 0).then(|| Record::lost(lost, now as u32, now));
        }
        self.tail.set(tail.wrapping_add(1));
        let slot = self.slot(tail);
        Some(Record::of_words([0, 1, 2, 3].map(|n: usize| slot[n].get())))
    }
}
