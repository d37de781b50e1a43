//! A guest's kernel whose accesses to memory are looked at ([`spica_dbt::checks`]), for somebody who has its heap
//! checked ([`heap`]), or wants to know who uses which lines of its memory ([`sharing`]), or which edges of its control
//! flow its processes take ([`edges`]), where no accesses are looked at.
//!
//! Translated code tells of places in the kernel ([`Vm::at_hook`]), and of accesses whose mark is set
//! ([`Vm::check_access`]). Which places these are, whoever asks finds out from the kernel's names and code, and says;
//! so nothing here depends on a version of Linux but what stands at the client that needs it.
//!
//! All that is read here is the guest's to write, and the traps may be forged: a guest that does so lies about itself.
//! What is done for a trap is bounded, and so is the memory, which is taken from what RAM the board has left, for as
//! long as somebody looks.

pub mod edges;
pub mod heap;
pub mod sharing;

use alloc::boxed::Box;
use alloc::vec::Vec;

use spica_addr::{CachePc, GuestVa};
use spica_dbt::checks::{Accessed, Checks, Look, MARKS_SIZE, MOST_HOOKS};
use spica_dbt::trap;
use spica_heap_check::Heap;
use spica_isa::decode;
use spica_mmu::lookup;
use spica_sharing::{Device, Lines};

use super::ram::Ram;
use super::{Vm, regime, trap as traps};
use crate::engine::Engine;
use crate::engine::code::Marks;
use crate::host_cpu::{HostCpu, HostSpace};
use crate::machine::{GuestMachine, Machine};
use crate::memory::pool::Loan;

const PAGE: u32 = 4096;
/// Instructions in front of traps that are remembered, with so many words each: the generation of the code cache, the
/// trap's address, the guest's, and the instruction. To find one otherwise, its block is translated again.
const MOST_FOUND: usize = 4096;
const FOUND: usize = 4;
const FOUND_BYTES: u32 = 4 * (FOUND * MOST_FOUND) as u32;
/// The most RAM that has marks, and bytes of it that have one byte of marks.
const MOST_BYTES: u32 = spica_heap_check::MOST_BYTES;
const MARKED: u32 = spica_heap_check::MARKED;

const _: () = assert!(MARKS_SIZE == MOST_BYTES / MARKED);
const _: () = assert!(MOST_BYTES == spica_sharing::MOST_BYTES && MARKED == spica_sharing::LINE);

/// A kernel whose accesses are looked at.
pub struct Checker {
    /// The first address of its linear map.
    base: u32,
    /// What translated code is to do, until it does.
    checks: Option<Box<Checks>>,
    /// Memory of the marks and of what else the client knows, and behind that of instructions that were found, once
    /// accesses are looked at. The last page is of zeros.
    memory: Option<Loan>,
    /// Accesses that were looked at here.
    looked: u32,
    client: Client,
}

/// For whom.
enum Client {
    Heap(Box<heap::Known>),
    Sharing(Box<sharing::Known>),
    Edges(Box<edges::Known>),
}

impl Client {
    /// Bytes of memory that it needs for so much RAM, in whole pages, and what to say if there are not so many.
    const fn memory_bytes(&self, ram: u32) -> (u32, &'static str) {
        match self {
            Client::Heap(_) => {
                (heap::memory_bytes(ram), "the board has not enough RAM left: a twentieth of the guest's is needed")
            }
            Client::Sharing(_) => (
                spica_sharing::memory_bytes(ram),
                "the board has not enough RAM left: a fortieth of the guest's is needed",
            ),
            Client::Edges(_) => (edges::PAGES * PAGE, "the board has not enough RAM left: 4.1 MiB are needed"),
        }
    }

    /// Of the memory, its own part, and that of instructions that were found.
    fn parts<'a>(&self, ram: u32, words: &'a mut [u32]) -> (&'a mut [u32], &'a mut [u32]) {
        let (bytes, _) = self.memory_bytes(ram);
        let own = (bytes as usize / 4).min(words.len());
        words.split_at_mut(own)
    }

    /// What translated code is to do.
    fn checks(&self) -> Checks {
        match self {
            Client::Heap(_) => Checks::new(Look::Granule),
            Client::Sharing(_) => Checks::new(Look::Line),
            Client::Edges(_) => Checks::of_edges(),
        }
    }

    /// Pages of its memory that translated code reads and does not write to, and those that it writes to, behind them.
    const fn mapped(&self, ram: u32) -> (u32, u32) {
        match self {
            Client::Heap(_) | Client::Sharing(_) => (marks_bytes(ram) / PAGE, 0),
            Client::Edges(_) => (edges::READ_ONLY_PAGES, edges::PAGES - edges::READ_ONLY_PAGES),
        }
    }
}

/// Bytes of marks, in whole pages.
const fn marks_bytes(ram: u32) -> u32 {
    ram.div_ceil(MARKED).next_multiple_of(PAGE)
}

/// Places that are told of, with what each is.
struct Hooks<T>(Vec<T>);

impl<T: Copy> Hooks<T> {
    /// None, and room for all that there can be.
    fn new() -> Result<Self, &'static str> {
        let mut hooks = Vec::new();
        hooks.try_reserve_exact(MOST_HOOKS).map_err(|_| "there is no memory")?;
        Ok(Hooks(hooks))
    }

    fn add(&mut self, checks: &mut Checks, pc: u32, hook: T) -> Result<(), &'static str> {
        if self.0.len() == MOST_HOOKS || !checks.hook(GuestVa(pc), self.0.len() as u8) {
            return Err("there are too many hooks, or two at one address");
        }
        self.0.push(hook);
        Ok(())
    }

    /// That of a number, which may be forged.
    fn get(&self, number: u8) -> Option<T> {
        self.0.get(usize::from(number)).copied()
    }
}

/// The handler of an interrupt, which is told of where it begins and where it returns. If the end of one was missed,
/// the next one begins with the same stack pointer, or there is a switch to another process before.
#[derive(Default)]
struct Handler(Option<u32>);

impl Handler {
    /// It begins, with this stack pointer. False if it has interrupted another one.
    fn begins(&mut self, sp: u32) -> bool {
        self.0.replace(self.0.unwrap_or(sp)).is_none()
    }

    /// One returns, where so many words are still to be popped. False if it is not that which has begun.
    fn ends(&mut self, sp: u32, words: u8) -> bool {
        self.0.take_if(|began| *began == sp.wrapping_add(4 * u32::from(words))).is_some()
    }

    const fn runs(&self) -> bool {
        self.0.is_some()
    }
}

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

/// Who looks at what devices do with a guest's memory.
pub enum OfDevices<'a> {
    /// Nobody.
    Nobody,
    /// Who wants to know who uses which lines.
    Sharing(Lines<'a>),
    /// Who has the heap checked, from this address on: what a device has written can be read.
    Heap(u32, Heap<'a>),
}

impl OfDevices<'_> {
    /// A device uses so many bytes of RAM, from this offset on.
    #[inline]
    pub fn note(&mut self, device: Device, offset: u32, bytes: u32, write: bool) {
        match self {
            OfDevices::Nobody => {}
            OfDevices::Sharing(lines) => lines.device(device, offset, bytes, write),
            OfDevices::Heap(base, heap) if write => heap.written(base.wrapping_add(offset), bytes),
            OfDevices::Heap(..) => {}
        }
    }
}

impl Checker {
    /// Who looks at what devices do with the memory of a guest with so much RAM.
    pub fn of_devices<'a>(&'a mut self, host_space: HostSpace<'a>, ram: u32) -> OfDevices<'a> {
        let Some(memory) = &mut self.memory else { return OfDevices::Nobody };
        let (words, _) = self.client.parts(ram, memory.words_mut(host_space));
        match &mut self.client {
            Client::Sharing(known) => known.lines(ram, words).map_or(OfDevices::Nobody, OfDevices::Sharing),
            Client::Heap(known) => known
                .initialised(self.base, ram, words)
                .map_or(OfDevices::Nobody, |heap| OfDevices::Heap(self.base, heap)),
            Client::Edges(_) => OfDevices::Nobody,
        }
    }
}

/// An access whose mark is set.
struct Access {
    pc: u32,
    address: u32,
    what: Accessed,
}

impl Vm {
    /// Its accesses are going to be looked at for this client: next it is said how, and then that it is
    /// ([`Vm::start_checking`]).
    ///
    /// # Errors
    /// If that cannot be.
    fn prepare_checking(&mut self, base: u32, client: Client) -> Result<(), &'static str> {
        let looks = !matches!(client, Client::Edges(_));
        if looks && (self.common.ram.size() > MOST_BYTES || !base.is_multiple_of(MOST_BYTES)) {
            return Err(
                "memory is looked at in 512 MiB of RAM at most, which the kernel maps from a multiple of that on",
            );
        }
        self.stop_checking();
        let checks = Some(Box::new(client.checks()));
        self.common.checker = Some(Box::new(Checker { base, checks, memory: None, looked: 0, client }));
        Ok(())
    }

    /// Looks at accesses from now on. The guest stands between two instructions.
    ///
    /// # Errors
    /// If there is no memory for what is to be known.
    fn start_checking(&mut self, core: &mut HostCpu) -> Result<(), &'static str> {
        let ram = self.common.ram.size();
        if self.common.checker.is_none() {
            return Err(NOT_PREPARED);
        }
        // In place, nothing can be looked at.
        self.leave_in_place(true);
        let checker = self.common.checker.as_mut().ok_or(NOT_PREPARED)?;
        let (bytes, problem) = checker.client.memory_bytes(ram);
        let mut memory = Loan::take(bytes + FOUND_BYTES + PAGE).ok_or(problem)?;
        let words = memory.words_mut(core.enter_host_space());
        words.fill(0);
        let own = &mut words[..bytes as usize / 4];
        match &mut checker.client {
            Client::Sharing(known) => known.begin(ram, own),
            Client::Edges(known) => known.begin(own),
            Client::Heap(_) => {}
        }
        let checks = checker.checks.take().ok_or(NOT_PREPARED)?;
        let blank = memory.pa().wrapping_add(bytes + FOUND_BYTES);
        let (read, written) = checker.client.mapped(ram);
        let marks = Marks { first: memory.pa(), read, written, blank };
        self.common.engine.blocks.start_checking(checks, marks);
        checker.memory = Some(memory);
        self.translations_changed();
        Ok(())
    }

    /// Looks at them no longer; what was found is kept. The guest stands between two instructions.
    fn stop_checking(&mut self) {
        if self.common.engine.blocks.checks() {
            self.common.engine.blocks.stop_checking();
            self.translations_changed();
        }
        // Which lines are used by whom, or edges were taken, is only there; it goes with the client.
        if let Some(checker) = &mut self.common.checker
            && let Client::Heap(_) = checker.client
        {
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
        if let Some(memory) = &mut checker.memory {
            let (words, _) = checker.client.parts(self.common.ram.size(), memory.words_mut(host_space));
            let view = View { vm: self, ram: &self.common.ram, host_space, base: checker.base };
            match &mut checker.client {
                Client::Heap(known) => {
                    if known.at(&view, words, number) {
                        let pc = traps::guest_pc_of(self, host_space, CachePc(behind.0.wrapping_sub(4)));
                        self.keep_stack(host_space, pc.map_or(0, |pc| pc.0));
                    }
                }
                Client::Sharing(known) => known.at(&view, words, number),
                Client::Edges(known) => known.at(&view, words, number),
            }
        }
        self.common.checker = Some(checker);
    }

    /// The mark of what is accessed next is set, says translated code in front of `behind`, by the trap `word`, which
    /// may be forged.
    #[cold]
    pub(super) fn check_access(&mut self, core: &mut HostCpu, behind: CachePc, word: u32) {
        let Some(mut checker) = self.common.checker.take() else { return };
        let host_space = core.enter_host_space();
        if let Some(memory) = &mut checker.memory {
            checker.looked = checker.looked.saturating_add(1);
            let ram = self.common.ram.size();
            let (words, found) = checker.client.parts(ram, memory.words_mut(host_space));
            let (found, _) = found.as_chunks_mut();
            if let Some(access) = self.access_behind(host_space, found, behind, word) {
                match &mut checker.client {
                    Client::Heap(known) => {
                        if known.check(checker.base, ram, words, &access) {
                            self.keep_stack(host_space, access.pc);
                        }
                    }
                    Client::Sharing(known) => known.accessed(checker.base, ram, words, &access),
                    Client::Edges(_) => {}
                }
            }
        }
        self.common.checker = Some(checker);
    }

    /// What is accessed next. `None` if it is not: a condition does not hold.
    fn access_behind(
        &self,
        host_space: HostSpace<'_>,
        known: &mut [[u32; FOUND]],
        behind: CachePc,
        word: u32,
    ) -> Option<Access> {
        // Words of the code cache stay what they are until all of it is flushed. Traps are some ten words apart.
        let generation = self.common.engine.generation() as u32;
        let place = known.get_mut((behind.0.wrapping_mul(0x9e37_79b1) >> 16) as usize % MOST_FOUND)?;
        if place[..2] != [generation, behind.0] {
            let (location, instruction) = traps::find(self, host_space, CachePc(behind.0.wrapping_sub(4)))?;
            *place = [generation, behind.0, location.guest.0, instruction.a32().word];
        }
        let [_, _, pc, word_there] = *place;
        let (cpu, decoded) = (&self.vcpu.context.cpu, decode(word_there));
        if !decoded.cond.holds(cpu.psr) {
            return None;
        }
        let what = Accessed::of(&decoded)?;
        let mut regs = cpu.regs;
        trap::unspill(word, &mut regs, &cpu.page.spill);
        Some(Access { pc, address: what.address(&regs), what })
    }
}

const NOT_PREPARED: &str = "it was not said how memory is to be looked at";
