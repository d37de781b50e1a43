//! The marks and the records.

use crate::{GRANULE, MARKED, MOST_SIZE};

/// Words of a record.
const RECORD: usize = 4;
/// Records of a bucket.
const WAYS: usize = 8;
/// Bytes that code loads at once though it does not want them all.
const WORD: u32 = 4;
/// In the first word of a record, beside the object's address: it was freed.
const FREED: u32 = 1;

/// See the crate's text.
pub struct Heap<'a> {
    /// The first address that has a mark, a multiple of 512 MiB.
    base: u32,
    /// A bit for each granule: an access there may be wrong. The lowest bit of a word is the first, as of its bytes.
    marks: &'a mut [u32],
    /// A bit for each granule: a known object begins there.
    starts: &'a mut [u32],
    /// Of each object its address and whether it was freed, its size and its slot's in halves of a word, who allocated
    /// it, and who freed it.
    records: &'a mut [u32],
    /// Which record of a bucket makes room next.
    turn: usize,
    /// Objects that were forgotten because there was no room.
    forgotten: u32,
}

/// Whether an object is in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// It is.
    Live,
    /// It was freed, by who is there.
    Freed(u32),
}

/// An object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Object {
    /// Where it begins.
    pub start: u32,
    /// Its bytes: what was asked for.
    pub size: u32,
    /// Bytes from its start to that of the next one.
    pub slot: u32,
    /// Who allocated it; 0 if that was before anybody looked.
    pub allocated_by: u32,
    /// Whether it is in use.
    pub state: State,
}

impl Object {
    /// The end of its last granule that is its own as a whole.
    const fn whole(&self) -> u32 {
        self.start + self.size / GRANULE * GRANULE
    }
}

/// What is wrong with an access, or with freeing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Kind {
    /// The object was freed.
    UseAfterFree,
    /// It is behind the object's end, in its slot.
    OutOfBounds,
    /// The object was freed already.
    DoubleFree,
    /// No object begins there, but one is there.
    InvalidFree,
    /// It is read, and nobody has written there since it was allocated.
    Uninitialised,
}

/// What is wrong, and with which object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wrong {
    /// What.
    pub kind: Kind,
    /// The object.
    pub object: Object,
}

/// What is in the memory of an object that was allocated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Content {
    /// Something that may be read.
    Initialised,
    /// What was left there by somebody else. A granule is initialised by the first store to any of its bytes; one that
    /// is the object's in part only counts as initialised.
    Uninitialised,
}

/// What becomes of the memory of an object that is freed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Freed {
    /// Nobody may access it.
    Closed,
    /// It may be read for a while (`SLAB_TYPESAFE_BY_RCU`): nothing is known of it.
    Open,
}

impl<'a> Heap<'a> {
    /// A heap of `bytes` from `base` on, of which nothing is known. `memory` has its marks, one byte for each
    /// [`MARKED`], first, then as much again, and what is left is for records. All of it is cleared.
    ///
    /// `None` if `memory` is too small.
    #[must_use]
    pub fn new(base: u32, bytes: u32, memory: &'a mut [u32]) -> Option<Heap<'a>> {
        memory.fill(0);
        Self::over(base, bytes, memory, 0, 0)
    }

    /// The same of a heap whose memory has been in use, as [`Heap::saved`] says.
    #[must_use]
    pub fn over(base: u32, bytes: u32, memory: &'a mut [u32], turn: usize, forgotten: u32) -> Option<Heap<'a>> {
        let words = bytes.div_ceil(MARKED).div_ceil(4) as usize;
        let (marks, rest) = memory.split_at_mut_checked(words)?;
        let (starts, records) = rest.split_at_mut_checked(words)?;
        if records.len() < WAYS * RECORD {
            return None;
        }
        Some(Heap { base, marks, starts, records, turn, forgotten })
    }

    /// What is to be kept of it beside its memory.
    #[must_use]
    pub fn saved(&self) -> (usize, u32) {
        (self.turn, self.forgotten)
    }

    /// Objects that were forgotten because there was no room.
    #[must_use]
    pub fn forgotten(&self) -> u32 {
        self.forgotten
    }

    /// The granule of an address, if it has a mark.
    fn granule(&self, address: u32) -> Option<usize> {
        let granule = (address.wrapping_sub(self.base) / GRANULE) as usize;
        (granule < 32 * self.marks.len()).then_some(granule)
    }

    /// Whether all of a slot has marks, and begins where objects do.
    fn holds(&self, start: u32, slot: u32) -> bool {
        start.is_multiple_of(GRANULE)
            && (1..=MOST_SIZE).contains(&slot)
            && self.granule(start).is_some()
            && start.checked_add(slot - 1).is_some_and(|last| self.granule(last).is_some())
    }

    /// Whether the mark of an address is set.
    #[must_use]
    pub fn is_marked(&self, address: u32) -> bool {
        self.granule(address).is_some_and(|granule| self.marks[granule / 32] >> (granule % 32) & 1 != 0)
    }

    /// Sets or clears the marks of granules from that of `from` up to, and without, that of `to`.
    fn mark(&mut self, from: u32, to: u32, set: bool) {
        let Some(first) = self.granule(from) else { return };
        let end = (to.wrapping_sub(self.base).div_ceil(GRANULE) as usize).min(32 * self.marks.len());
        set_bits(self.marks, first, end, set);
    }

    /// An object was allocated. Its start is a multiple of [`GRANULE`], and its size no larger than its slot, or
    /// nothing is known of it.
    pub fn allocated(&mut self, start: u32, size: u32, slot: u32, by: u32, content: Content) {
        let slot = slot.next_multiple_of(GRANULE);
        if !self.holds(start, slot) {
            return;
        }
        let object = Object { start, size: size.min(slot), slot, allocated_by: by, state: State::Live };
        self.forget_within(start, slot);
        self.keep(object);
        self.mark_live(object, content);
    }

    /// Marks what of a slot is no part of the object, and what of the object is not initialised.
    fn mark_live(&mut self, object: Object, content: Content) {
        let Object { start, slot, .. } = object;
        // A granule that is the object's in part is marked: its records tell.
        let whole = object.whole();
        self.mark(start, whole, content == Content::Uninitialised);
        self.mark(whole, start + slot, true);
    }

    /// These bytes were written, or are not to be told of again: the granules of an object in use that they are in are
    /// initialised.
    pub fn written(&mut self, address: u32, bytes: u32) {
        let Some(object) = self.object_around(address).filter(|object| object.state == State::Live) else { return };
        let end = address.saturating_add(bytes).min(object.whole());
        if address < end {
            self.mark(address, end, false);
        }
    }

    /// Whether an access within an object in use reads what nobody has written.
    fn is_uninitialised(&self, object: Object, address: u32, bytes: u32) -> bool {
        let first = address.max(object.start) / GRANULE * GRANULE;
        let end = address.saturating_add(bytes).min(object.whole());
        (first..end).step_by(GRANULE as usize).any(|granule| self.is_marked(granule))
    }

    /// Memory is being cleared by the allocator, for an object that it is about to give away.
    pub fn cleared(&mut self, start: u32, bytes: u32) {
        if bytes != 0 && bytes <= MOST_SIZE && self.granule(start).is_some() {
            self.mark(start, start.saturating_add(bytes), false);
        }
    }

    /// All of an object's slot is its owner's, from now on (`ksize`).
    pub fn resized(&mut self, start: u32, size: u32) {
        if let Some(object) = self.object_at(start).filter(|object| object.state == State::Live) {
            let object = Object { size: size.min(object.slot), ..object };
            self.keep(object);
            self.mark_live(object, Content::Initialised);
        }
    }

    /// An object was freed. One that is not known becomes so, with `slot` bytes, if that is not 0. `freed` says what
    /// becomes of it.
    ///
    /// # Errors
    /// If it cannot be freed.
    pub fn freed(&mut self, start: u32, size: u32, slot: u32, freed: Freed, by: u32) -> Result<(), Wrong> {
        let known = self.object_at(start);
        if let Some(object) = known
            && object.state != State::Live
        {
            return Err(Wrong { kind: Kind::DoubleFree, object });
        }
        if known.is_none()
            && let Some(object) = self.object_around(start)
            && object.state == State::Live
            && start.wrapping_sub(object.start) < object.size
        {
            return Err(Wrong { kind: Kind::InvalidFree, object });
        }
        let slot = slot.next_multiple_of(GRANULE);
        let unknown = Object { start, size: size.min(slot), slot, allocated_by: 0, state: State::Live };
        let Some(object) = known.or_else(|| self.holds(start, slot).then_some(unknown)) else { return Ok(()) };
        match freed {
            Freed::Closed => {
                if known.is_none() {
                    self.forget_within(start, slot);
                }
                self.keep(Object { state: State::Freed(by), ..object });
                self.mark(start, start + object.slot, true);
            }
            Freed::Open => self.forget_within(start, object.slot),
        }
        Ok(())
    }

    /// Nothing is known of this memory any more: its pages were given back.
    pub fn forget_within(&mut self, start: u32, bytes: u32) {
        let end = start.saturating_add(bytes);
        let start = start.max(self.base);
        if let Some(first) = self.granule(start) {
            let last = (end.wrapping_sub(self.base).div_ceil(GRANULE) as usize).min(32 * self.marks.len());
            set_bits(self.marks, first, last, false);
            set_bits(self.starts, first, last, false);
        }
    }

    /// What is wrong with an access of `bytes` at `address`, if anything is.
    ///
    /// A load that begins in an object and ends less than a word behind it is taken as right: code that looks for a
    /// string's end, or copies from where no word begins, loads whole words.
    #[must_use]
    pub fn check(&self, address: u32, bytes: u32, write: bool) -> Option<Wrong> {
        let last = address.checked_add(bytes.max(1) - 1)?;
        if !self.is_marked(address) && !self.is_marked(last) {
            return None;
        }
        let object = self.object_around(address).or_else(|| self.object_around(last))?;
        let from = address.saturating_sub(object.start);
        let bytes = bytes.saturating_sub(object.start.saturating_sub(address));
        let slack = if write { 0 } else { WORD - 1 };
        let kind = match object.state {
            State::Freed(_) => Kind::UseAfterFree,
            State::Live if from >= object.size => Kind::OutOfBounds,
            State::Live if bytes > object.size - from + slack => Kind::OutOfBounds,
            State::Live if !write && self.is_uninitialised(object, address, bytes) => Kind::Uninitialised,
            State::Live => return None,
        };
        Some(Wrong { kind, object })
    }

    /// Nothing is to be said of this object any more.
    pub fn forget(&mut self, object: Object) {
        self.forget_within(object.start, object.slot);
    }

    /// The object that begins there.
    #[must_use]
    pub fn object_at(&self, start: u32) -> Option<Object> {
        let granule = self.granule(start).filter(|_| start.is_multiple_of(GRANULE))?;
        if self.starts[granule / 32] >> (granule % 32) & 1 == 0 {
            return None;
        }
        let bucket = self.bucket(start);
        let record = self.records[bucket..bucket + WAYS * RECORD]
            .as_chunks::<RECORD>()
            .0
            .iter()
            .find(|record| record[0] & !FREED == start)?;
        let &[head, sizes, allocated_by, freed_by] = record;
        let state = if head & FREED == 0 { State::Live } else { State::Freed(freed_by) };
        Some(Object { start, size: sizes & 0xffff, slot: sizes >> 16, allocated_by, state })
    }

    /// The object whose slot has this address.
    #[must_use]
    pub fn object_around(&self, address: u32) -> Option<Object> {
        let granule = self.granule(address)?;
        let least = granule.saturating_sub((MOST_SIZE / GRANULE) as usize);
        let found = last_bit(self.starts, least, granule)?;
        let object = self.object_at(self.base + found as u32 * GRANULE)?;
        (address - object.start < object.slot).then_some(object)
    }

    /// The first word of the bucket of an object.
    fn bucket(&self, start: u32) -> usize {
        let buckets = self.records.len() / (WAYS * RECORD);
        let spread = u64::from((start / GRANULE).wrapping_mul(0x9e37_79b1)) * buckets as u64;
        (spread >> 32) as usize * WAYS * RECORD
    }

    /// Keeps an object; if there is no room, another one is forgotten.
    fn keep(&mut self, object: Object) {
        let Object { start, size, slot, allocated_by, state } = object;
        let Some(granule) = self.granule(start) else { return };
        let bucket = self.bucket(start);
        let at = |way: usize| bucket + way * RECORD;
        let of = |heap: &Self, way: usize| heap.records[at(way)] & !FREED;
        let in_use = |heap: &Self, way: usize| {
            heap.granule(of(heap, way)).is_some_and(|granule| heap.starts[granule / 32] >> (granule % 32) & 1 != 0)
        };
        let same = (0..WAYS).find(|&way| of(self, way) == start);
        let way = match same.or_else(|| (0..WAYS).find(|&way| !in_use(self, way))) {
            Some(way) => way,
            None => {
                self.turn = (self.turn + 1) % WAYS;
                if let Some(other) = self.object_at(of(self, self.turn)) {
                    self.forget(other);
                    self.forgotten = self.forgotten.saturating_add(1);
                }
                self.turn
            }
        };
        let (freed, by) = match state {
            State::Live => (0, 0),
            State::Freed(by) => (FREED, by),
        };
        let record = [start | freed, size | slot << 16, allocated_by, by];
        self.records[at(way)..at(way) + RECORD].copy_from_slice(&record);
        self.starts[granule / 32] |= 1 << (granule % 32);
    }
}

/// Sets or clears bits `from..to`.
fn set_bits(bits: &mut [u32], from: usize, to: usize, set: bool) {
    let mut at = from;
    while at < to {
        let (word, first) = (at / 32, at % 32);
        let count = (32 - first).min(to - at);
        let mask = (u32::MAX >> (32 - count)) << first;
        bits[word] = if set { bits[word] | mask } else { bits[word] & !mask };
        at += count;
    }
}

/// The last bit of `from..=to` that is set.
fn last_bit(bits: &[u32], from: usize, to: usize) -> Option<usize> {
    let mut word = to / 32;
    let mut value = bits[word] & (u32::MAX >> (31 - to % 32));
    loop {
        if value != 0 {
            let found = 32 * word + 31 - value.leading_zeros() as usize;
            return (found >= from).then_some(found);
        }
        if word <= from / 32 {
            return None;
        }
        word -= 1;
        value = bits[word];
    }
}
