//! A guest's heap, checked: what its kernel's allocator does is followed, and accesses are compared with that
//! ([`spica_heap_check`]).
//!
//! Of Linux this knows how a cache has its sizes and flags side by side. Memory for it is a twenty-first part of the
//! guest's RAM.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use spica_addr::GuestVa;
use spica_console::debug::{Heap as Said, Hook};
use spica_heap_check::{Call, Calls, Content, Error, Errors, Freed, GRANULE, Heap, Kind, State, Wrong};

use super::{Access, Client, Hooks, MARKED, MOST_BYTES, NOT_PREPARED, PAGE, View, marks_bytes};
use crate::host_cpu::{HostCpu, HostSpace};
use crate::vm::Vm;
use crate::vm::sampled::{Samples, Wanted};

/// Objects that are looked at in one array of them, at most: what `kfree_rcu` frees at once.
const MOST_AT_ONCE: u32 = 1024;
/// The largest order of a slab's pages that is believed.
const MOST_ORDER: u32 = 10;
/// Ranges of code that copies, at most.
const MOST_COPIES: usize = 16;
/// `SLAB_TYPESAFE_BY_RCU` of a cache's flags.
const TYPESAFE_BY_RCU: u32 = 0x0008_0000;

/// Where things are in a kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Places {
    /// Where a `struct kmem_cache` has its `object_size`. In front of that is `size`, and three words in front of it
    /// are its flags.
    pub object_size: u32,
    /// The array of `struct page`, and bytes of one.
    pub pages: (u32, u32),
}

/// See the module's text.
pub struct Known {
    places: Places,
    hooks: Hooks<Hook>,
    /// If reads of what was never written are errors: where a `struct kmem_cache` has its constructor.
    constructor: Option<u32>,
    /// Code that may read that: it copies.
    copies: Vec<(u32, u32)>,
    turn: usize,
    forgotten: u32,
    calls: Calls,
    errors: Errors,
    /// Objects that were allocated and freed, and objects that were not cleared.
    counts: [u32; 3],
}

/// Bytes of marks and records for so much RAM.
pub(super) const fn memory_bytes(ram: u32) -> u32 {
    3 * marks_bytes(ram)
}

const _: () = assert!(MARKED == 8 * GRANULE);

/// Sizes of a cache's objects, and whether their memory may be read for a while when they are freed.
#[derive(Clone, Copy)]
struct Cache {
    size: u32,
    slot: u32,
    freed: Freed,
}

impl Places {
    fn cache(&self, view: &View<'_>, cache: u32) -> Option<Cache> {
        let at = |distance: u32| view.word(cache.wrapping_add(self.object_size).wrapping_sub(distance));
        let (size, slot, flags) = (at(0)?, at(4)?, at(12)?);
        let freed = if flags & TYPESAFE_BY_RCU != 0 { Freed::Open } else { Freed::Closed };
        (size <= slot).then_some(Cache { size, slot, freed })
    }
}

impl Known {
    /// A guest's registers and stack are at the place of this number, which may be forged. Whether something was wrong
    /// there, for the first time.
    pub(super) fn at(&mut self, view: &View<'_>, words: &mut [u32], number: u8) -> bool {
        let mut noted = false;
        if let Some(hook) = self.hooks.get(number) {
            self.at_place(view, words, hook, &mut noted);
        }
        noted
    }

    fn at_place(&mut self, view: &View<'_>, words: &mut [u32], hook: Hook, noted: &mut bool) -> Option<()> {
        let Self { places, turn, forgotten, .. } = *self;
        let mut heap = Heap::over(view.base, view.ram.size(), words, turn, forgotten)?;
        let regs = &view.vm.vcpu.context.cpu.regs;
        let [r0, r1, r2, r3] = [regs[0], regs[1], regs[2], regs[3]];
        let (sp, lr) = (regs[13], regs[14]);
        match hook {
            Hook::Allocate => {
                let Cache { size, slot, .. } = places.cache(view, r0)?;
                let cleared = self.keeps_content(view, r0);
                self.calls.begins(sp, Call::Allocate { size, slot, by: lr, cleared });
            }
            Hook::AllocateSize => {
                let Cache { slot, .. } = places.cache(view, r0)?;
                let (by, cleared) = (view.word(sp)?, self.keeps_content(view, r0));
                self.calls.begins(sp, Call::Allocate { size: r3, slot, by, cleared });
            }
            Hook::AllocateMany => {
                let Cache { size, slot, .. } = places.cache(view, r0)?;
                self.calls.begins(sp, Call::AllocateMany { array: r3, size, slot, by: lr });
            }
            Hook::Size => self.calls.begins(sp, Call::Size { object: r0 }),
            Hook::Return(words) => match self.calls.returns(sp.wrapping_add(4 * u32::from(words)))? {
                Call::Allocate { size, slot, by, cleared } => {
                    let content = if cleared { Content::Initialised } else { Content::Uninitialised };
                    self.allocated(&mut heap, r0, size, slot, by, content);
                }
                Call::AllocateMany { array, size, slot, by } => {
                    // The array may be an object itself, and what the allocator does is not checked.
                    heap.written(array, r0.min(MOST_AT_ONCE) * 4);
                    for n in 0..r0.min(MOST_AT_ONCE) {
                        let object = view.word(array.wrapping_add(4 * n))?;
                        self.allocated(&mut heap, object, size, slot, by, Content::Initialised);
                    }
                }
                Call::Size { object } => heap.resized(object, r0),
            },
            Hook::Clear => {
                heap.cleared(r0, r2);
                self.calls.clears(sp);
            }
            Hook::Free => {
                let cache = places.cache(view, r0)?;
                *noted |= self.freed(&mut heap, r1, Some(cache), lr);
            }
            Hook::FreeFor => {
                let cache = places.cache(view, r0)?;
                *noted |= self.freed(&mut heap, r1, Some(cache), r2);
            }
            Hook::FreeMany => {
                let cache = places.cache(view, r0);
                for n in 0..r1.min(MOST_AT_ONCE) {
                    let object = view.word(r2.wrapping_add(4 * n))?;
                    *noted |= self.freed(&mut heap, object, cache, lr);
                }
            }
            Hook::FreePages => {
                let (first, bytes) = places.pages;
                let offset = r0.wrapping_sub(first);
                if r1 <= MOST_ORDER && bytes != 0 && offset.is_multiple_of(bytes) && offset / bytes < MOST_BYTES / PAGE
                {
                    heap.forget_within(view.base + offset / bytes * PAGE, PAGE << r1);
                }
            }
        }
        (self.turn, self.forgotten) = heap.saved();
        Some(())
    }

    /// Whether objects of a cache are as who freed them has left them, which may be read; or nobody asks.
    fn keeps_content(&self, view: &View<'_>, cache: u32) -> bool {
        let Some(constructor) = self.constructor else { return true };
        let typesafe = self.places.cache(view, cache).is_none_or(|cache| cache.freed == Freed::Open);
        typesafe || view.word(cache.wrapping_add(constructor)) != Some(0)
    }

    fn allocated(&mut self, heap: &mut Heap<'_>, object: u32, size: u32, slot: u32, by: u32, content: Content) {
        if object != 0 {
            self.counts[0] = self.counts[0].saturating_add(1);
            if content == Content::Uninitialised {
                self.counts[2] = self.counts[2].saturating_add(1);
            }
            heap.allocated(object, size, slot, by, content);
        }
    }

    /// The heap, if devices that write to it initialise something.
    pub(super) fn initialised<'a>(&self, base: u32, ram: u32, words: &'a mut [u32]) -> Option<Heap<'a>> {
        self.constructor.and_then(|_| Heap::over(base, ram, words, self.turn, self.forgotten))
    }

    /// Whether that was wrong, for the first time there.
    fn freed(&mut self, heap: &mut Heap<'_>, object: u32, cache: Option<Cache>, by: u32) -> bool {
        if object == 0 {
            return false;
        }
        self.counts[1] = self.counts[1].saturating_add(1);
        // Without its cache, an object that is not known stays so.
        let Cache { size, slot, freed } = cache.unwrap_or(Cache { size: 0, slot: 0, freed: Freed::Closed });
        match heap.freed(object, size, slot, freed, by) {
            Ok(()) => false,
            Err(Wrong { kind, object: known }) => {
                let error = Error { kind, write: false, bytes: 0, pc: by, address: object, object: known, count: 1 };
                self.errors.note(error)
            }
        }
    }

    /// Something is accessed whose mark is set. Whether that is wrong, for the first time there.
    pub(super) fn check(&mut self, base: u32, ram: u32, words: &mut [u32], access: &Access) -> bool {
        let &Access { pc, address, what } = access;
        let (write, bytes) = (what.write, what.bytes);
        let Some(mut heap) = Heap::over(base, ram, words, self.turn, self.forgotten) else { return false };
        let wrong = heap.check(address, bytes, write);
        let uninitialised = matches!(wrong, Some(Wrong { kind: Kind::Uninitialised, .. }));
        if uninitialised && self.copies.iter().any(|&(from, to)| (from..to).contains(&pc)) {
            return false;
        }
        if self.constructor.is_some() && (write || uninitialised) {
            // What was read once is told of once.
            heap.written(address, bytes);
        }
        wrong.is_some_and(|Wrong { kind, object }| {
            self.errors.note(Error { kind, write, bytes, pc, address, object, count: 1 })
        })
    }
}

impl Vm {
    /// Does what is said of its heap. The guest stands.
    ///
    /// # Errors
    /// If that cannot be.
    pub fn say_of_heap(&mut self, core: &mut HostCpu, said: Said) -> Result<(), &'static str> {
        match said {
            Said::Begin { base, object_size, pages, code: (from, to) } => {
                let known = Known {
                    places: Places { object_size, pages },
                    hooks: Hooks::new()?,
                    constructor: None,
                    copies: Vec::new(),
                    turn: 0,
                    forgotten: 0,
                    calls: Calls::default(),
                    errors: Errors::default(),
                    counts: [0; 3],
                };
                let samples = Samples::new(Wanted { every: 1, code: (from < to).then_some(from..to) })?;
                self.prepare_checking(base, Client::Heap(Box::new(known)))?;
                self.common.samples = Some(samples);
            }
            Said::Hook(pc, hook) => {
                let checker = self.common.checker.as_mut().ok_or(NOT_PREPARED)?;
                let (Client::Heap(known), Some(checks)) = (&mut checker.client, &mut checker.checks) else {
                    return Err(NOT_PREPARED);
                };
                known.hooks.add(checks, pc, hook)?;
            }
            Said::Skip(from, to) => {
                let checker = self.common.checker.as_mut().ok_or(NOT_PREPARED)?;
                let checks = checker.checks.as_mut().ok_or(NOT_PREPARED)?;
                if !checks.skip(GuestVa(from), GuestVa(to)) {
                    return Err("there are too many ranges");
                }
            }
            Said::Uninitialised(constructor) => {
                let checker = self.common.checker.as_mut().ok_or(NOT_PREPARED)?;
                let (Client::Heap(known), Some(checks)) = (&mut checker.client, &mut checker.checks) else {
                    return Err(NOT_PREPARED);
                };
                checks.look_at_both();
                known.constructor = Some(constructor);
            }
            Said::Copies(from, to) => {
                let checker = self.common.checker.as_mut().ok_or(NOT_PREPARED)?;
                let Client::Heap(known) = &mut checker.client else { return Err(NOT_PREPARED) };
                if known.copies.len() == MOST_COPIES || known.copies.try_reserve(1).is_err() {
                    return Err("there are too many ranges");
                }
                known.copies.push((from, to));
            }
            Said::On => self.start_checking(core)?,
            Said::Off => self.stop_checking(),
            Said::Errors => {}
        }
        Ok(())
    }

    /// Keeps what on the stack may be return addresses, of an error at `pc`.
    pub(super) fn keep_stack(&mut self, host_space: HostSpace<'_>, pc: u32) {
        if let Some(mut samples) = self.common.samples.take() {
            self.take_sample(host_space, &mut samples, pc);
            self.common.samples = Some(samples);
        }
    }

    /// What was found: [`spica_console::debug::Debug::Heap`].
    pub fn heap_errors(&self) -> Vec<String> {
        let Some(checker) = &self.common.checker else { return Vec::new() };
        let Client::Heap(known) = &checker.client else { return Vec::new() };
        let [allocated, freed, uninitialised] = known.counts;
        let (is_on, looked) = (u32::from(self.common.engine.blocks.checks()), checker.looked);
        let (lost, forgotten) = (known.errors.lost(), known.forgotten);
        let first = format!("heap {is_on} {allocated} {freed} {looked} {forgotten} {lost} {uninitialised}");
        let line = |error: &Error| {
            let Error { kind, write, bytes, pc, address, object, count } = error;
            let kind = match kind {
                Kind::UseAfterFree => "freed",
                Kind::OutOfBounds => "outside",
                Kind::DoubleFree => "twice",
                Kind::InvalidFree => "within",
                Kind::Uninitialised => "uninitialised",
            };
            let way = if *write { 'w' } else { 'r' };
            let freed_by = match object.state {
                State::Live => 0,
                State::Freed(by) => by,
            };
            format!(
                "fault {kind} {way} {bytes:x} {pc:x} {address:x} {:x} {:x} {:x} {freed_by:x} {count}",
                object.start, object.size, object.allocated_by
            )
        };
        core::iter::once(first).chain(known.errors.iter().map(line)).collect()
    }
}
