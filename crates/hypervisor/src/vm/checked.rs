//! A guest's heap, checked: what its kernel's allocator does is followed, and accesses are compared with that
//! ([`spica_heap_check`]).
//!
//! Translated code tells of places in the allocator ([`Vm::at_hook`]), and of accesses whose mark is set
//! ([`Vm::check_access`]). Which places these are, whoever asks finds out from the kernel's names and code, and says
//! ([`Heap`]); so nothing here depends on a version of Linux but how a cache has its sizes and flags side by side.
//!
//! All that is read here is the guest's to write, and the traps may be forged: a guest that does so lies about itself.
//! What is done for a trap is bounded, and so is the memory: a twenty-first part of the guest's RAM, taken from what RAM
//! the board has left, for as long as the heap is checked.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use spica_addr::{CachePc, GuestPa, GuestVa};
use spica_console::debug::{Heap as Said, Hook};
use spica_dbt::checks::{Accessed, Checks, MARKS_SIZE, MOST_HOOKS};
use spica_dbt::trap;
use spica_heap_check::{Call, Calls, Content, Error, Errors, Freed, GRANULE, Heap, Kind, MARKED, MOST_BYTES, State, Wrong};
use spica_mmu::lookup;

use super::ram::Ram;
use super::sampled::{Samples, Wanted};
use super::{Vm, regime, trap as traps};
use crate::host_cpu::{HostCpu, HostSpace};
use crate::machine::{GuestMachine, Machine};
use crate::memory::pool::Loan;

const PAGE: u32 = 4096;

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
    /// Addresses of the kernel's code, its modules' included: what on its stack may be return addresses.
    pub code: (u32, u32),
    /// The first address of its linear map.
    pub base: u32,
    /// Where a `struct kmem_cache` has its `object_size`. In front of that is `size`, and three words in front of it
    /// are its flags.
    pub object_size: u32,
    /// The array of `struct page`, and bytes of one.
    pub pages: (u32, u32),
}

/// See the module's text.
pub struct Checker {
    places: Places,
    /// What translated code is to do, until it does.
    checks: Option<Box<Checks>>,
    hooks: Vec<Hook>,
    /// If reads of what was never written are errors: where a `struct kmem_cache` has its constructor.
    constructor: Option<u32>,
    /// Code that may read that: it copies.
    copies: Vec<(u32, u32)>,
    /// Memory of marks and records, once it is checked. Behind them is a page of zeros.
    memory: Option<Loan>,
    /// Bytes of the guest's RAM.
    ram: u32,
    turn: usize,
    forgotten: u32,
    calls: Calls,
    errors: Errors,
    /// Objects that were allocated and freed, accesses that were looked at, and objects that were not cleared.
    counts: [u32; 4],
}

/// Bytes of marks and records for so much RAM.
const fn memory_bytes(ram: u32) -> u32 {
    3 * marks_bytes(ram)
}

/// Bytes of marks, in whole pages.
const fn marks_bytes(ram: u32) -> u32 {
    ram.div_ceil(MARKED).next_multiple_of(PAGE)
}

const _: () = assert!(MARKS_SIZE == MOST_BYTES / MARKED && MARKED == 8 * GRANULE);

/// A kernel's memory that is looked at.
struct View<'a> {
    vm: &'a Vm,
    ram: &'a Ram,
    host_space: HostSpace<'a>,
    base: u32,
}

impl View<'_> {
    /// The word at a virtual address.
    fn word(&self, va: u32) -> Option<u32> {
        let linear = Machine::RAM.wrapping_add(va.wrapping_sub(self.base));
        if va >= self.base && self.ram.contains(linear) {
            return self.ram.load(self.host_space, linear, 4);
        }
        let mapping = lookup(&self.ram.at(self.host_space), &regime(&self.vm.vcpu.context.cpu), GuestVa(va)).ok()?;
        self.ram.load(self.host_space, mapping.pa, 4)
    }
}

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

impl Checker {
    /// A guest's registers and stack are at one of the places that are told of.
    fn at(&mut self, view: &View<'_>, words: &mut [u32], hook: Hook, noted: &mut bool) -> Option<()> {
        let Self { places, turn, forgotten, .. } = *self;
        let mut heap = Heap::over(places.base, view.ram.size(), words, turn, forgotten)?;
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
                    heap.forget_within(places.base + offset / bytes * PAGE, PAGE << r1);
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
                self.counts[3] = self.counts[3].saturating_add(1);
            }
            heap.allocated(object, size, slot, by, content);
        }
    }

    /// A device has written to guest RAM.
    pub fn note_device_write(&mut self, host_space: HostSpace<'_>, pa: GuestPa, bytes: u32) {
        if self.constructor.is_none() {
            return;
        }
        let Self { places, turn, forgotten, ram, .. } = *self;
        if let Some(memory) = &mut self.memory
            && let Some(mut heap) = Heap::over(places.base, ram, memory.words_mut(host_space), turn, forgotten)
        {
            heap.written(places.base.wrapping_add(pa.0.wrapping_sub(Machine::RAM.0)), bytes);
        }
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
}

impl Vm {
    /// Does what is said of its heap. The guest stands.
    ///
    /// # Errors
    /// If that cannot be.
    pub fn say_of_heap(&mut self, core: &mut HostCpu, said: Said) -> Result<(), &'static str> {
        match said {
            Said::Begin { base, object_size, pages, code } => {
                self.prepare_checking(Places { base, object_size, pages, code })?;
            }
            Said::Hook(pc, hook) => self.hook(GuestVa(pc), hook)?,
            Said::Skip(from, to) => self.skip_checks(GuestVa(from), GuestVa(to))?,
            Said::Uninitialised(constructor) => self.look_for_uninitialised(constructor)?,
            Said::Copies(from, to) => self.skip_copies(from, to)?,
            Said::On => self.start_checking(core)?,
            Said::Off => self.stop_checking(),
            Said::Errors => {}
        }
        Ok(())
    }

    /// Its heap is going to be checked: next it is said how ([`Vm::hook`], [`Vm::skip_checks`]), and then that it is
    /// ([`Vm::start_checking`]).
    ///
    /// # Errors
    /// If that cannot be.
    pub fn prepare_checking(&mut self, places: Places) -> Result<(), &'static str> {
        if self.common.engine.runs_in_place() {
            return Err("its kernel runs in place, where nothing can be checked");
        }
        if self.common.ram.size() > MOST_BYTES || !places.base.is_multiple_of(MOST_BYTES) {
            return Err(
                "a heap is checked in 512 MiB of RAM at most, which the kernel maps from a multiple of that on",
            );
        }
        self.stop_checking();
        let (from, to) = places.code;
        self.common.samples = Some(Samples::new(Wanted { every: 1, code: (from < to).then_some(from..to) })?);
        let mut hooks = Vec::new();
        hooks.try_reserve_exact(MOST_HOOKS).map_err(|_| "there is no memory")?;
        self.common.checker = Some(Box::new(Checker {
            places,
            checks: Some(Box::default()),
            hooks,
            constructor: None,
            copies: Vec::new(),
            memory: None,
            ram: self.common.ram.size(),
            turn: 0,
            forgotten: 0,
            calls: Calls::default(),
            errors: Errors::default(),
            counts: [0; 4],
        }));
        Ok(())
    }

    /// Where its heap is told of, and as what.
    ///
    /// # Errors
    /// If there is no room.
    pub fn hook(&mut self, pc: GuestVa, hook: Hook) -> Result<(), &'static str> {
        let checker = self.common.checker.as_mut().ok_or(NOT_PREPARED)?;
        let checks = checker.checks.as_mut().ok_or(NOT_PREPARED)?;
        let number = checker.hooks.len() as u8;
        if checker.hooks.len() == MOST_HOOKS || !checks.hook(pc, number) {
            return Err("there are too many hooks, or two at one address");
        }
        checker.hooks.push(hook);
        Ok(())
    }

    /// Its code from `from` up to `to` is not checked.
    ///
    /// # Errors
    /// If there is no room.
    pub fn skip_checks(&mut self, from: GuestVa, to: GuestVa) -> Result<(), &'static str> {
        let checks = self.common.checker.as_mut().and_then(|checker| checker.checks.as_mut()).ok_or(NOT_PREPARED)?;
        checks.skip(from, to).then_some(()).ok_or("there are too many ranges")
    }

    /// Reads of what nobody has written are errors, too; a cache has there what initialises its objects once.
    ///
    /// # Errors
    /// If nothing is prepared.
    pub fn look_for_uninitialised(&mut self, constructor: u32) -> Result<(), &'static str> {
        let checker = self.common.checker.as_mut().ok_or(NOT_PREPARED)?;
        checker.checks.as_mut().ok_or(NOT_PREPARED)?.look_at_both();
        checker.constructor = Some(constructor);
        Ok(())
    }

    /// Its code from `from` up to `to` may read what nobody has written.
    ///
    /// # Errors
    /// If there is no room.
    pub fn skip_copies(&mut self, from: u32, to: u32) -> Result<(), &'static str> {
        let copies = &mut self.common.checker.as_mut().ok_or(NOT_PREPARED)?.copies;
        if copies.len() == MOST_COPIES || copies.try_reserve(1).is_err() {
            return Err("there are too many ranges");
        }
        copies.push((from, to));
        Ok(())
    }

    /// Checks its heap from now on. The guest stands between two instructions.
    ///
    /// # Errors
    /// If there is no memory for what is to be known of it.
    pub fn start_checking(&mut self, core: &mut HostCpu) -> Result<(), &'static str> {
        let ram = self.common.ram.size();
        let checker = self.common.checker.as_mut().ok_or(NOT_PREPARED)?;
        let mut memory = Loan::take(memory_bytes(ram) + PAGE)
            .ok_or("the board has not enough RAM left: a twentieth of the guest's is needed")?;
        memory.words_mut(core.enter_host_space()).fill(0);
        let checks = checker.checks.take().ok_or(NOT_PREPARED)?;
        let blank = memory.pa().wrapping_add(memory_bytes(ram));
        let marks = (memory.pa(), marks_bytes(ram) / PAGE);
        if !self.common.engine.blocks.start_checking(checks, marks, blank) {
            return Err("its kernel runs in place, where nothing can be checked");
        }
        checker.memory = Some(memory);
        self.translations_changed();
        Ok(())
    }

    /// Checks it no longer; what was found is kept. The guest stands between two instructions.
    pub fn stop_checking(&mut self) {
        if self.common.engine.blocks.checks() {
            self.common.engine.blocks.stop_checking();
            self.translations_changed();
        }
        if let Some(checker) = &mut self.common.checker {
            checker.memory = None;
        }
    }

    /// The same as soon as the guest stands, and nothing is kept.
    pub fn forget_checker(&mut self) {
        if self.common.engine.blocks.checks() && !self.stands() {
            self.stop_counting_and_go();
            return;
        }
        self.stop_checking();
        if self.common.checker.take().is_some() {
            self.common.samples = None;
        }
    }

    /// Translated code is about to execute the instruction of a hook, says a trap, which may be forged.
    #[cold]
    pub(super) fn at_hook(&mut self, core: &mut HostCpu, behind: CachePc, number: u8) {
        let Some(mut checker) = self.common.checker.take() else { return };
        let host_space = core.enter_host_space();
        if let Some(mut memory) = checker.memory.take() {
            if let Some(&hook) = checker.hooks.get(usize::from(number)) {
                let view = View { vm: self, ram: &self.common.ram, host_space, base: checker.places.base };
                let mut noted = false;
                checker.at(&view, memory.words_mut(host_space), hook, &mut noted);
                if noted {
                    let pc = traps::guest_pc_of(self, host_space, CachePc(behind.0.wrapping_sub(4)));
                    self.keep_stack(host_space, pc.map_or(0, |pc| pc.0));
                }
            }
            checker.memory = Some(memory);
        }
        self.common.checker = Some(checker);
    }

    /// The mark of what is accessed next is set, says translated code in front of `behind`, by the trap `word`, which
    /// may be forged.
    #[cold]
    pub(super) fn check_access(&mut self, core: &mut HostCpu, behind: CachePc, word: u32) {
        let Some(mut checker) = self.common.checker.take() else { return };
        let host_space = core.enter_host_space();
        if let Some(mut memory) = checker.memory.take() {
            checker.counts[2] = checker.counts[2].saturating_add(1);
            let words = memory.words_mut(host_space);
            if let Some(error) = self.look_at_access(host_space, &checker, words, behind, word)
                && checker.errors.note(error)
            {
                self.keep_stack(host_space, error.pc);
            }
            checker.memory = Some(memory);
        }
        self.common.checker = Some(checker);
    }

    /// Keeps what on the stack may be return addresses, of an error at `pc`.
    fn keep_stack(&mut self, host_space: HostSpace<'_>, pc: u32) {
        if let Some(mut samples) = self.common.samples.take() {
            self.take_sample(host_space, &mut samples, pc);
            self.common.samples = Some(samples);
        }
    }

    fn look_at_access(
        &self,
        host_space: HostSpace<'_>,
        checker: &Checker,
        words: &mut [u32],
        behind: CachePc,
        word: u32,
    ) -> Option<Error> {
        let (location, instruction) = traps::find(self, host_space, CachePc(behind.0.wrapping_sub(4)))?;
        let cpu = &self.vcpu.context.cpu;
        let decoded = instruction.a32();
        if !decoded.cond.holds(cpu.psr) {
            return None;
        }
        let accessed = Accessed::of(decoded)?;
        let mut regs = cpu.regs;
        for (reg, spilled) in trap::check_registers(word).into_iter().zip(cpu.page.spill) {
            *regs.get_mut(reg)? = spilled;
        }
        let address = accessed.address(&regs);
        let mut heap = Heap::over(checker.places.base, self.common.ram.size(), words, checker.turn, checker.forgotten)?;
        let (write, bytes, pc) = (accessed.write, accessed.bytes, location.guest.0);
        let wrong = heap.check(address, bytes, write);
        let uninitialised = matches!(wrong, Some(Wrong { kind: Kind::Uninitialised, .. }));
        if uninitialised && checker.copies.iter().any(|&(from, to)| (from..to).contains(&pc)) {
            return None;
        }
        if checker.constructor.is_some() && (write || uninitialised) {
            // What was read once is told of once.
            heap.written(address, bytes);
        }
        let Wrong { kind, object } = wrong?;
        Some(Error { kind, write, bytes, pc, address, object, count: 1 })
    }

    /// What was found: [`spica_console::debug::Debug::Heap`].
    pub fn heap_errors(&self) -> Vec<String> {
        let Some(checker) = &self.common.checker else { return Vec::new() };
        let [allocated, freed, looked, uninitialised] = checker.counts;
        let is_on = u32::from(self.common.engine.blocks.checks());
        let (lost, forgotten) = (checker.errors.lost(), checker.forgotten);
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
        core::iter::once(first).chain(checker.errors.iter().map(line)).collect()
    }
}

const NOT_PREPARED: &str = "it was not said how the heap is to be checked";
