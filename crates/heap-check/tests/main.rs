//! Tests: objects come and go at random, and what is said of them is compared with a plain list.

use proptest::prelude::*;
use spica_heap_check::{Call, Calls, Content, Error, Errors, Freed, Heap, Kind, MOST_ERRORS, Object, State};

const BASE: u32 = 0xc000_0000;
const BYTES: u32 = 64 << 10;
const MARKS: usize = (BYTES / 256) as usize;

fn memory(records: usize) -> Vec<u32> {
    vec![0xdead_beef; 2 * MARKS + 4 * records]
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Allocate { slot: usize, size: u32, cleared: bool },
    Write { slot: usize, at: u32, bytes: u32 },
    Free { slot: usize, open: bool },
    FreeWithin { slot: usize, at: u32 },
    Resize { slot: usize, size: u32 },
    GiveBack { slab: usize },
}

/// A slab has so many slots of so many bytes.
const SLOTS: usize = 16;
const SLABS: [u32; 4] = [64, 96, 256, 1024];

fn slot_of(slot: usize) -> (u32, u32) {
    let slab = slot / SLOTS;
    let slot_bytes = SLABS[slab];
    (BASE + slab as u32 * 0x4000 + (slot % SLOTS) as u32 * slot_bytes, slot_bytes)
}

fn step() -> impl Strategy<Value = Step> {
    let slots = 0..SLABS.len() * SLOTS;
    prop_oneof![
        4 => (slots.clone(), 1..1025_u32, any::<bool>())
            .prop_map(|(slot, size, cleared)| Step::Allocate { slot, size, cleared }),
        4 => (slots.clone(), 0..1024_u32, 1..40_u32).prop_map(|(slot, at, bytes)| Step::Write { slot, at, bytes }),
        3 => (slots.clone(), any::<bool>()).prop_map(|(slot, open)| Step::Free { slot, open }),
        1 => (slots.clone(), 1..64_u32).prop_map(|(slot, at)| Step::FreeWithin { slot, at }),
        1 => (slots, 1..1025_u32).prop_map(|(slot, size)| Step::Resize { slot, size }),
        1 => (0..SLABS.len()).prop_map(|slab| Step::GiveBack { slab }),
    ]
}

/// What is known of a slot: the size that was asked for, whether it was freed, and which bytes may be read.
#[derive(Clone)]
struct It {
    size: u32,
    freed: bool,
    initialised: Vec<bool>,
}

type Known = Option<It>;

impl It {
    fn new(size: u32, freed: bool, content: Content) -> It {
        let mut initialised = vec![content == Content::Initialised; 1024];
        // Of what is shared with nobody's bytes, nothing is said.
        initialised[size as usize / 8 * 8..].fill(true);
        It { size, freed, initialised }
    }
}

const ALL: Content = Content::Initialised;

/// What an access at `address` is, by the list.
fn expected(known: &[Known], address: u32, bytes: u32, write: bool) -> Option<Kind> {
    let offset = address - BASE;
    let slab = (offset / 0x4000) as usize;
    let within = offset % 0x4000;
    let slot = (within / SLABS[slab]) as usize;
    if slot >= SLOTS {
        return None;
    }
    let It { size, freed, initialised } = known[slab * SLOTS + slot].as_ref()?;
    let (size, from) = (*size, within % SLABS[slab]);
    if *freed {
        return Some(Kind::UseAfterFree);
    }
    let ends_outside = from + bytes > size && (write || from + bytes >= size + 4);
    if from >= size || ends_outside {
        return Some(Kind::OutOfBounds);
    }
    let all = initialised[from as usize..(from + bytes) as usize].iter().all(|byte| *byte);
    (!write && !all).then_some(Kind::Uninitialised)
}

proptest! {
    #[test]
    fn what_is_said_is_what_a_list_says(steps in prop::collection::vec(step(), 1..120)) {
        let mut memory = memory(4096);
        let mut heap = Heap::new(BASE, BYTES, &mut memory).expect("enough memory");
        let mut known: Vec<Known> = vec![None; SLABS.len() * SLOTS];
        for step in steps {
            match step {
                Step::Allocate { slot, size, cleared } => {
                    let (start, bytes) = slot_of(slot);
                    let content = if cleared { ALL } else { Content::Uninitialised };
                    heap.allocated(start, size.min(bytes), bytes, 1, content);
                    known[slot] = Some(It::new(size.min(bytes), false, content));
                }
                Step::Write { slot, at, bytes } => {
                    let (start, slot_bytes) = slot_of(slot);
                    let at = at % slot_bytes;
                    heap.written(start + at, bytes);
                    if let Some(It { size, freed: false, initialised }) = &mut known[slot] {
                        let end = (at + bytes).min(*size).next_multiple_of(8) as usize;
                        let from = at as usize / 8 * 8;
                        initialised[from.min(end)..end].fill(true);
                    }
                }
                Step::Free { slot, open } => {
                    let (start, bytes) = slot_of(slot);
                    let how = if open { Freed::Open } else { Freed::Closed };
                    let done = heap.freed(start, bytes, bytes, how, 2);
                    if matches!(known[slot], Some(It { freed: true, .. })) {
                        prop_assert_eq!(done.expect_err("freed twice").kind, Kind::DoubleFree);
                    } else {
                        prop_assert!(done.is_ok());
                        let size = known[slot].as_ref().map_or(bytes, |it| it.size);
                        known[slot] = (!open).then(|| It::new(size, true, ALL));
                    }
                }
                Step::FreeWithin { slot, at } => {
                    let (start, bytes) = slot_of(slot);
                    if matches!(known[slot], Some(It { size, freed: false, .. }) if at < size) {
                        let wrong = heap.freed(start + at, bytes, bytes, Freed::Closed, 2).expect_err("within");
                        prop_assert_eq!((wrong.kind, wrong.object.start), (Kind::InvalidFree, start));
                    }
                }
                Step::Resize { slot, size } => {
                    let (start, bytes) = slot_of(slot);
                    heap.resized(start, size);
                    if matches!(known[slot], Some(It { freed: false, .. })) {
                        known[slot] = Some(It::new(size.min(bytes), false, ALL));
                    }
                }
                Step::GiveBack { slab } => {
                    heap.forget_within(BASE + slab as u32 * 0x4000, 0x4000);
                    known[slab * SLOTS..(slab + 1) * SLOTS].fill(None);
                }
            }
        }
        for slot in 0..known.len() {
            let (start, bytes) = slot_of(slot);
            for at in 0..bytes {
                for (width, write) in [(1, false), (1, true)] {
                    let said = heap.check(start + at, width, write).map(|wrong| wrong.kind);
                    prop_assert_eq!(said, expected(&known, start + at, width, write), "{:x}+{:x}", start, at);
                }
                // Where there is no mark, nobody asks; where there is nothing wrong with a whole granule, there is
                // none.
                let whole = (0..8).all(|n| expected(&known, start + at / 8 * 8 + n, 1, false).is_none());
                prop_assert_eq!(heap.is_marked(start + at), !whole);
            }
            for at in (0..bytes).step_by(4) {
                for (width, write) in [(4, false), (4, true), (8, false)] {
                    if at + width <= bytes {
                        let said = heap.check(start + at, width, write).map(|wrong| wrong.kind);
                        prop_assert_eq!(said, expected(&known, start + at, width, write), "{:x}+{:x}", start, at);
                    }
                }
            }
        }
    }

    #[test]
    fn an_object_that_had_to_make_room_is_never_reported(starts in prop::collection::vec(0..1024_u32, 1..400)) {
        // One bucket.
        let mut memory = memory(8);
        let mut heap = Heap::new(BASE, BYTES, &mut memory).expect("enough memory");
        for start in starts {
            heap.allocated(BASE + 64 * start, 10, 64, 1, ALL);
            let known: Vec<u32> = (0..1024).filter(|n| heap.object_at(BASE + 64 * n).is_some()).collect();
            prop_assert!(known.len() <= 8 && known.contains(&start));
            for n in 0..1024 {
                let marked = heap.is_marked(BASE + 64 * n + 60);
                prop_assert_eq!(marked, known.contains(&n));
                prop_assert_eq!(heap.check(BASE + 64 * n + 60, 4, true).is_some(), marked);
            }
        }
    }

    /// A guest may say anything.
    #[test]
    fn nothing_that_is_said_breaks_it(said in prop::collection::vec((0..6_u8, any::<u32>(), any::<u32>(), any::<u32>()), 0..60)) {
        let mut memory = memory(64);
        let mut heap = Heap::new(BASE, BYTES, &mut memory).expect("enough memory");
        for (what, at, size, slot) in said {
            let at = if what & 1 == 0 { BASE + at % (2 * BYTES) } else { at };
            let slot = if size & 1 == 0 { slot % 0x1_0000 } else { slot };
            let content = if what & 2 == 0 { ALL } else { Content::Uninitialised };
            heap.allocated(at, size, slot, 1, content);
            let _ = heap.check(at, size, false);
            heap.written(at, slot);
            let _ = heap.freed(at, size, slot, Freed::Closed, 2);
            heap.cleared(at, slot);
            heap.resized(at, size);
            let _ = heap.check(at, size, true);
            if what == 5 {
                heap.forget_within(at, size);
            }
        }
    }
}

#[test]
fn what_the_allocator_clears_may_be_accessed_before_it_is_known() {
    let mut memory = memory(64);
    let mut heap = Heap::new(BASE, BYTES, &mut memory).expect("enough memory");
    heap.freed(BASE, 40, 64, Freed::Closed, 2).expect("it was not known");
    let wrong = heap.check(BASE, 4, true).expect("it was freed");
    let object = Object { start: BASE, size: 40, slot: 64, allocated_by: 0, state: State::Freed(2) };
    assert_eq!((wrong.kind, wrong.object), (Kind::UseAfterFree, object));
    heap.cleared(BASE, 40);
    assert_eq!(heap.check(BASE, 4, true), None);
    assert!(heap.check(BASE + 40, 4, true).is_some());
    heap.allocated(BASE, 38, 64, 3, ALL);
    assert_eq!(heap.check(BASE + 36, 4, false), None, "a word that begins in it");
    assert_eq!(heap.check(BASE + 36, 4, true).expect("a store").kind, Kind::OutOfBounds);
    assert_eq!(heap.check(BASE + 36, 8, false).expect("two words").kind, Kind::OutOfBounds);
}

#[test]
fn a_heap_needs_room_for_records() {
    assert!(Heap::new(BASE, BYTES, &mut memory(7)).is_none());
    assert!(Heap::new(BASE, BYTES, &mut [0; 8]).is_none());
}

#[test]
fn a_call_is_known_by_its_stack() {
    let mut calls = Calls::default();
    let call = |by| Call::Allocate { size: 1, slot: 2, by, cleared: false };
    calls.begins(0x1000, call(1));
    calls.begins(0xf00, call(2));
    calls.begins(0x1000, call(3));
    assert_eq!(calls.returns(0xe00), None);
    assert_eq!(calls.returns(0x1000), Some(call(3)), "the one before was left");
    assert_eq!(calls.returns(0x1000), None);
    assert_eq!(calls.returns(0xf00), Some(call(2)));
    // One that takes long is there still, however many come and go meanwhile.
    calls.begins(0x2000, call(4));
    for n in 0..100 {
        calls.begins(n, call(n));
        assert_eq!(calls.returns(n), Some(call(n)));
    }
    assert_eq!(calls.returns(0x2000), Some(call(4)));
    for n in 0..100 {
        calls.begins(n, call(n));
    }
    assert_eq!(calls.returns(99), Some(call(99)));
    assert_eq!((0..100).filter(|&n| calls.returns(n).is_some()).count(), 31, "no more are kept");
}

#[test]
fn memory_is_cleared_for_the_innermost_call_on_its_stack() {
    let mut calls = Calls::default();
    let call = |by, cleared| Call::Allocate { size: 1, slot: 2, by, cleared };
    for (by, sp) in [(1, 0x3f00), (2, 0x3e00), (3, 0x3c00), (4, 0x5e00)] {
        calls.begins(sp, call(by, false));
    }
    // An interrupt's handler has another stack, and calls that are to come are deeper.
    calls.clears(0x3d00);
    calls.clears(0x9000);
    let all = [0x3f00, 0x3e00, 0x3c00, 0x5e00].map(|sp| calls.returns(sp).expect("a call"));
    assert_eq!(all, [call(1, false), call(2, true), call(3, false), call(4, false)]);
}

#[test]
fn each_place_is_one_error() {
    let object = Object { start: BASE, size: 8, slot: 8, allocated_by: 0, state: State::Live };
    let error = |pc| Error { kind: Kind::OutOfBounds, write: false, bytes: 4, pc, address: BASE + 8, object, count: 1 };
    let mut errors = Errors::default();
    assert_eq!([1, 2, 1].map(|pc| errors.note(error(pc))), [true, true, false]);
    assert_eq!(errors.iter().map(|error| (error.pc, error.count)).collect::<Vec<_>>(), [(1, 2), (2, 1)]);
    for pc in 3..100 {
        errors.note(error(pc));
    }
    assert_eq!((errors.iter().count(), errors.lost()), (MOST_ERRORS, 99 - MOST_ERRORS as u32));
}
