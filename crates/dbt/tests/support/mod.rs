//! The hypervisor's part, in small: guest memory with pages that fault, code memory that must be published before it
//! can be fetched, and the handling of the traps that translated code makes, as `trap/` of the hypervisor does it.
//!
//! [`Lockstep`] runs the same guest on the [model](crate::model) twice: untranslated at its own addresses, and
//! translated in the code cache. At every boundary between two guest instructions, and at every fault, all that the
//! guest could see must be the same.
// Each test file uses a part of this.
#![allow(dead_code)]

pub mod generate;

use crate::model::{self, Bus, Event, Fault, Machine, Random, Supervisor};
use spica_addr::{CachePc, GuestPa, GuestVa};
use spica_dbt::layout::{Layout, PAGE, PAGE_WORDS, Window as Mirrored};
use spica_dbt::return_mirror::LINK_SLOT;
use spica_dbt::{BlockId, Capacity, CodeMemory, ExitId, Location, Options, Translator, trap};
use spica_isa::Op;
use spica_vcpu::cp15::TimerReg;
use spica_vcpu::interp::{self, Abort, Env, Step};
use spica_vcpu::{Bank, CpuId, Effect, Vcpu, VcpuPage, psr};
use std::collections::HashMap;
use std::mem::offset_of;

/// Where the guest's code is: three pages.
pub const CODE: u32 = 0x8000_0000;
pub const CODE_PAGES: u32 = 3;
/// Where its data is: four pages.
pub const DATA: u32 = 0x9000_0000;
pub const DATA_PAGES: u32 = 4;
/// Guest PA = VA - this, so that a mix-up of the two does not go unseen.
const VA_TO_PA: u32 = 0x4000_0000;
/// The code cache, where no guest pointer is likely to point by accident.
pub const LAYOUT: Layout = Layout { base: 0xf1c3_0000, pages: 16, mirror: Some(NEAR) };
/// The return mirror of all of the guest's code that is mapped global: within the reach of a branch, and not.
const NEAR: Mirrored = Mirrored { start: CODE + PAGE, size: 0x10_0000, distance: 0x7200_0000 };
const FAR: Mirrored = Mirrored { distance: 0x2500_0000, ..NEAR };
const CAPACITY: Capacity = Capacity { blocks: 1000, exits: 4000, mirror_pages: 2 };

/// The number of cases a random test runs, from the environment, and the first seed.
pub fn cases(default: u64) -> std::ops::Range<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let seed = number("SPICA_SEED").unwrap_or(1);
    seed..seed + number("SPICA_CASES").unwrap_or(default)
}

/// Says, while a test panics, which seed it was.
pub struct Seed(pub u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("failed with SPICA_SEED={} SPICA_CASES=1", self.0);
        }
    }
}

/// Guest memory.
#[derive(Clone)]
pub struct Memory {
    /// Code pages first, then data pages.
    pub bytes: Vec<u8>,
    /// The guest maps the page.
    pub present: Vec<bool>,
    /// Spica does not map it yet.
    pub hidden: Vec<bool>,
    /// Code was translated from it.
    pub protected: Vec<bool>,
}

const PAGES: usize = (CODE_PAGES + DATA_PAGES) as usize;

impl Memory {
    pub fn new() -> Memory {
        Memory {
            bytes: vec![0; PAGES * PAGE as usize],
            present: vec![true; PAGES],
            hidden: vec![false; PAGES],
            protected: vec![false; PAGES],
        }
    }

    /// Index of the page of `va`, if there is one.
    pub fn page(va: u32) -> Option<usize> {
        if va.wrapping_sub(CODE) < CODE_PAGES * PAGE {
            Some((va.wrapping_sub(CODE) / PAGE) as usize)
        } else if va.wrapping_sub(DATA) < DATA_PAGES * PAGE {
            Some((CODE_PAGES + va.wrapping_sub(DATA) / PAGE) as usize)
        } else {
            None
        }
    }

    pub fn is_code(va: u32) -> bool {
        va.wrapping_sub(CODE) < CODE_PAGES * PAGE
    }

    fn index(va: u32) -> Option<usize> {
        Some(Self::page(va)? * PAGE as usize + (va % PAGE) as usize)
    }

    pub fn word(&self, va: u32) -> u32 {
        let at = Self::index(va).expect("in the guest's memory");
        u32::from_le_bytes(self.bytes[at..at + 4].try_into().expect("four bytes"))
    }

    pub fn set_word(&mut self, va: u32, value: u32) {
        let at = Self::index(va).expect("in the guest's memory");
        self.bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }

    pub fn page_words(&self, va: u32) -> [u32; PAGE_WORDS] {
        std::array::from_fn(|n| self.word((va & !0xfff) + 4 * n as u32))
    }

    /// Checks an access byte by byte; `real` is the translated guest's, which knows hidden and protected pages.
    fn check(&self, address: u32, bytes: u32, write: bool, real: bool) -> Result<(), Fault> {
        for n in 0..bytes {
            let address = address.wrapping_add(n);
            let allowed = Self::page(address).is_some_and(|page| {
                self.present[page] && !(real && (self.hidden[page] || write && self.protected[page]))
            });
            if !allowed {
                return Err(Fault { address, write, alignment: false });
            }
        }
        Ok(())
    }

    fn get(&self, address: u32, bytes: u32) -> u32 {
        let byte = |n| self.bytes[Self::index(address.wrapping_add(n)).expect("checked")];
        (0..bytes).fold(0, |value, n| value | u32::from(byte(n)) << (8 * n))
    }

    fn set(&mut self, address: u32, bytes: u32, value: u32) {
        for n in 0..bytes {
            let at = Self::index(address.wrapping_add(n)).expect("checked");
            self.bytes[at] = (value >> (8 * n)) as u8;
        }
    }
}

/// The reference machine's view.
impl Bus for Memory {
    fn fetch(&mut self, address: u32) -> u32 {
        self.word(address)
    }

    fn load(&mut self, address: u32, bytes: u32) -> Result<u32, Fault> {
        self.check(address, bytes, false, false)?;
        Ok(self.get(address, bytes))
    }

    fn store(&mut self, address: u32, bytes: u32, value: u32) -> Result<(), Fault> {
        self.check(address, bytes, true, false)?;
        self.set(address, bytes, value);
        Ok(())
    }
}

/// The code pages. What was written but not published is not fetched.
pub struct Code {
    pub written: Vec<[u32; PAGE_WORDS]>,
    pub fetched: Vec<[u32; PAGE_WORDS]>,
    /// The pages of the return mirror, written and as they are fetched, and where they are mapped.
    mirror: Vec<[[u32; PAGE_WORDS]; 2]>,
    mapped: HashMap<u32, u32>,
}

/// UDF: what code memory is full of at first.
const UNUSED: u32 = 0xe7f0_00f0;

impl Code {
    pub fn new(layout: &Layout) -> Code {
        let pages = vec![[UNUSED; PAGE_WORDS]; layout.pages as usize];
        let mirror = vec![[[UNUSED; PAGE_WORDS]; 2]; CAPACITY.mirror_pages as usize];
        Code { written: pages.clone(), fetched: pages, mirror, mapped: HashMap::new() }
    }

    /// The word of the return mirror at `pc`.
    fn mirror_word(&self, pc: u32) -> Option<u32> {
        let page = *self.mapped.get(&(pc & !0xfff))?;
        Some(self.mirror[page as usize][1][(pc & 0xfff) as usize / 4])
    }
}

impl CodeMemory for Code {
    fn page(&mut self, page: u32) -> &mut [u32; PAGE_WORDS] {
        &mut self.written[page as usize]
    }

    fn publish(&mut self, page: u32, first: usize, words: usize) {
        let page = page as usize;
        self.fetched[page][first..first + words].copy_from_slice(&self.written[page][first..first + words]);
    }

    fn mirror_page(&mut self, page: u32) -> &mut [u32; PAGE_WORDS] {
        &mut self.mirror[page as usize][0]
    }

    fn publish_mirror(&mut self, page: u32, first: usize, words: usize) {
        let [from, to] = &mut self.mirror[page as usize];
        to[first..first + words].copy_from_slice(&from[first..first + words]);
    }

    fn map_mirror(&mut self, va: u32, page: u32) {
        assert_eq!(self.mapped.insert(va, page), None, "mapped already");
    }

    fn unmap_mirror(&mut self, va: Option<u32>) {
        match va {
            Some(va) => assert!(self.mapped.remove(&va).is_some(), "not mapped"),
            None => self.mapped.clear(),
        }
    }
}

/// The kernel view of the guest's address space while translated code runs.
struct KernelView<'a> {
    code: &'a Code,
    page: &'a mut VcpuPage,
    memory: &'a mut Memory,
    pc: u32,
}

impl KernelView<'_> {
    /// The word of the vCPU page that a load or store of translated code means.
    fn field(&mut self, address: u32, bytes: u32) -> Option<&mut u32> {
        // Words, in the page behind; anything else is a stray pointer of the guest.
        if address & !0xfff != (self.pc & !0xfff).wrapping_add(PAGE) || (bytes, address & 3) != (4, 0) {
            return None;
        }
        let field = address & 0xfff;
        const CONTROL: usize = offset_of!(VcpuPage, control);
        const PENDING: usize = offset_of!(VcpuPage, pending);
        const SPSR: usize = offset_of!(VcpuPage, spsr);
        const TARGET: usize = offset_of!(VcpuPage, target);
        const PRIVATE: usize = offset_of!(VcpuPage, tpidrprw);
        const READ_ONLY: usize = offset_of!(VcpuPage, tpidruro);
        Some(match field as usize {
            0..=15 => &mut self.page.spill[field as usize / 4],
            CONTROL => &mut self.page.control,
            PENDING => &mut self.page.pending,
            SPSR => &mut self.page.spsr,
            TARGET => &mut self.page.target,
            PRIVATE => &mut self.page.tpidrprw,
            READ_ONLY => &mut self.page.tpidruro,
            other => panic!("translated code at {:#x} reaches word {other:#x} of the vCPU page", self.pc),
        })
    }
}

impl Bus for KernelView<'_> {
    fn fetch(&mut self, address: u32) -> u32 {
        let (page, word) = LAYOUT.find(CachePc(address)).expect("translated code stays in the code pages");
        self.code.fetched[page as usize][word]
    }

    fn load(&mut self, address: u32, bytes: u32) -> Result<u32, Fault> {
        // Literals.
        if let Some((page, word)) = LAYOUT.find(CachePc(address)) {
            assert_eq!(page, LAYOUT.find(CachePc(self.pc)).expect("executing").0, "a literal is in its own page");
            return Ok(self.code.fetched[page as usize][word]);
        }
        if let Some(field) = self.field(address, bytes) {
            return Ok(*field);
        }
        self.memory.check(address, bytes, false, true)?;
        Ok(self.memory.get(address, bytes))
    }

    fn store(&mut self, address: u32, bytes: u32, value: u32) -> Result<(), Fault> {
        assert!(LAYOUT.find(CachePc(address & !3)).is_none(), "a store to a code page at {:#x}", self.pc);
        if let Some(field) = self.field(address, bytes) {
            *field = value;
            return Ok(());
        }
        self.memory.check(address, bytes, true, true)?;
        self.memory.set(address, bytes, value);
        Ok(())
    }
}

/// What the interpreter sees of the world.
struct TrapEnv<'a> {
    translator: &'a mut Translator,
    code: &'a mut Code,
    memory: &'a mut Memory,
}

impl TrapEnv<'_> {
    fn code_changes(&mut self, va: u32) {
        let page = Memory::page(va).expect("in the guest's memory");
        self.translator.drop_page(GuestPa(va.wrapping_sub(VA_TO_PA)), self.code);
        self.memory.protected[page] = false;
    }
}

fn abort(fault: Fault) -> Abort {
    Abort { fsr: fsr(fault), far: fault.address }
}

/// DFSR of a fault: alignment, or a translation fault of a page (table B3-23).
fn fsr(fault: Fault) -> u32 {
    u32::from(fault.write) << 11 | if fault.alignment { 0b00001 } else { 0b00111 }
}

impl Env for TrapEnv<'_> {
    fn load(&mut self, _cpu: &mut Vcpu, va: u32, bytes: u32, _privileged: bool) -> Result<u32, Abort> {
        self.memory.check(va, bytes, false, false).map_err(abort)?;
        Ok(self.memory.get(va, bytes))
    }

    fn store(&mut self, _cpu: &mut Vcpu, va: u32, bytes: u32, value: u32, _privileged: bool) -> Result<(), Abort> {
        self.memory.check(va, bytes, true, false).map_err(abort)?;
        for va in [va, va.wrapping_add(bytes - 1)] {
            if self.memory.protected[Memory::page(va).expect("checked")] {
                self.code_changes(va);
            }
        }
        self.memory.set(va, bytes, value);
        Ok(())
    }

    fn timer_read(&mut self, _reg: TimerReg) -> u64 {
        0
    }

    fn timer_write(&mut self, _reg: TimerReg, _value: u64) {}
}

/// What the word of a block stands for.
#[derive(Clone, Copy)]
struct Place {
    location: Location,
    /// It is the first word of its guest instruction.
    first: bool,
    /// It is part of the exit behind the last instruction.
    behind: bool,
}

/// Why a run ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// As many instructions as wanted were executed.
    Enough,
    /// Something UNPREDICTABLE.
    Unpredictable,
}

/// One guest, twice.
pub struct Lockstep {
    pub reference: Machine,
    pub reference_memory: Memory,
    /// The real core while it runs translated code.
    pub machine: Machine,
    pub memory: Memory,
    pub cpu: Vcpu,
    pub translator: Translator,
    pub code: Code,
    places: HashMap<u32, Place>,
    /// The host has begun a guest instruction that the reference has not executed yet.
    under_way: bool,
    /// The word is executed again, after something that the guest knows nothing of.
    retry: bool,
    /// There was a trap since the last boundary.
    trapped: bool,
    /// Guest instructions left to execute.
    left: u32,
    /// An interrupt waits for the end of the block that starts here.
    leave: Option<CachePc>,
    /// Guest faults that were seen and checked.
    pub faults: u32,
    /// Interrupts that were asked for and reached the end of their block.
    pub interrupts: u32,
    /// Exceptions, and sensitive instructions that are not modelled: both guests go on behind them.
    pub skipped: u32,
    /// Branches that the return mirror led to their block.
    pub landings: u32,
    /// Branches to where there is no code, or into Thumb state: both guests go on elsewhere.
    pub strayed: u32,
    /// Where the guest's handlers get what they put right.
    random: Random,
    window: Window,
    /// Every word executed goes to standard error.
    tracing: bool,
    /// The return mirror is out of reach of a branch.
    far: bool,
}

/// What the guest knows when it is about to be entered.
enum Next {
    Cache(u32),
    Guest(u32),
    Link(u32, ExitId),
    Land(u32),
    Branch(u32),
    End(End),
}

use generate::Window;

impl Lockstep {
    pub fn new(options: Options) -> Lockstep {
        let page = Box::leak(Box::new(VcpuPage::reset()));
        Lockstep {
            reference: Machine { r: [0; 15], pc: CODE, psr: 0, vfp: [0; 64], thread: [0; 2], supervisor: None },
            reference_memory: Memory::new(),
            machine: Machine { r: [0; 15], pc: 0, psr: 0, vfp: [0; 64], thread: [0; 2], supervisor: None },
            memory: Memory::new(),
            cpu: Vcpu::new(page, CpuId::default()),
            translator: Translator::new(LAYOUT, options, CAPACITY),
            code: Code::new(&LAYOUT),
            places: HashMap::new(),
            under_way: false,
            retry: false,
            trapped: false,
            left: 0,
            leave: None,
            faults: 0,
            interrupts: 0,
            skipped: 0,
            landings: 0,
            strayed: 0,
            random: Random::new(0),
            window: Window { start: CODE, words: 96 },
            tracing: std::env::var_os("SPICA_TRACE").is_some(),
            far: false,
        }
    }

    /// Other options; everything is flushed.
    pub fn set_options(&mut self, options: Options) {
        self.far = !self.far;
        let mirror = Some(if self.far { FAR } else { NEAR });
        self.translator = Translator::new(Layout { mirror, ..LAYOUT }, options, CAPACITY);
        self.code = Code::new(&LAYOUT);
        self.places.clear();
    }

    /// Puts both guests into the same state; the cache is flushed.
    pub fn start(&mut self, reference: Machine, memory: &Memory, window: Window, seed: u64) {
        self.random = Random::new(seed);
        self.window = window;
        self.translator.flush(&mut self.code);
        self.places.clear();
        self.reference = reference;
        self.reference_memory.clone_from(memory);
        self.memory.clone_from(memory);
        let supervisor = reference.supervisor.expect("the reference is in Supervisor mode");
        self.cpu.reset();
        self.cpu.set_masks(supervisor.masks, psr::A | psr::I | psr::F);
        self.cpu.page.spsr = supervisor.spsr;
        self.cpu.page.bank_sp[Bank::Usr as usize] = supervisor.user[0];
        self.cpu.page.bank_lr[Bank::Usr as usize] = supervisor.user[1];
        self.cpu.page.tpidrprw = supervisor.thread_private;
        self.cpu.page.tpidruro = reference.thread[1];
        self.cpu.cp15.tpidrurw = reference.thread[0];
        // Whatever a spill slot holds must not matter.
        self.cpu.page.spill = [0xdead_0000, 0xdead_0001, 0xdead_0002, 0xdead_0003];
        self.cpu.page.target = 0xdead_0004;
        self.machine = Machine { supervisor: None, pc: 0, ..reference };
        self.under_way = false;
        self.retry = false;
        self.trapped = false;
        self.leave = None;
    }

    fn fail(&self, what: &str) -> ! {
        let host = &self.machine;
        eprintln!("reference {:x?}", self.reference);
        eprintln!("host      {host:x?}");
        panic!("{what}");
    }

    /// All that the guest can see is the same, with the host's registers `r`.
    fn compare(&self, r: &[u32; 15], guest_pc: u32) {
        let reference = &self.reference;
        let supervisor = reference.supervisor.expect("the reference is in Supervisor mode");
        let page = &self.cpu.page;
        let masks = self.cpu.cpsr() & (psr::A | psr::I | psr::F);
        let seen = Supervisor {
            masks,
            spsr: page.spsr,
            user: [page.bank_sp[Bank::Usr as usize], page.bank_lr[Bank::Usr as usize]],
            thread_private: page.tpidrprw,
        };
        if reference.pc != guest_pc {
            self.fail(&format!("guest PC {guest_pc:#x}, expected {:#x}", reference.pc));
        }
        for (n, (have, want)) in r.iter().zip(&reference.r).enumerate() {
            if have != want {
                self.fail(&format!("before {guest_pc:#x}: R{n} = {have:#x}, expected {want:#x}"));
            }
        }
        if (self.machine.psr ^ reference.psr) & psr::USER_BITS != 0 {
            let (have, want) = (self.machine.psr, reference.psr);
            self.fail(&format!("before {guest_pc:#x}: flags {have:#x}, expected {want:#x}"));
        }
        if self.machine.vfp != reference.vfp {
            self.fail(&format!("before {guest_pc:#x}: a VFP register differs"));
        }
        if seen != supervisor || self.machine.thread != reference.thread {
            self.fail(&format!("before {guest_pc:#x}: {seen:x?}, expected {supervisor:x?}"));
        }
        if self.memory.bytes != self.reference_memory.bytes {
            let same = |(a, b): (&u8, &u8)| a == b;
            let at = self.memory.bytes.iter().zip(&self.reference_memory.bytes).position(|pair| !same(pair));
            self.fail(&format!("before {guest_pc:#x}: memory differs at byte {at:#x?}"));
        }
    }

    /// Between two guest instructions: the reference catches up, and all is compared. `Some` ends the run.
    fn boundary(&mut self, guest_pc: u32) -> Option<End> {
        let masked = |machine: &Machine| machine.supervisor.is_some_and(|s| s.masks & psr::I != 0);
        let (was_masked, trapped) = (masked(&self.reference), std::mem::take(&mut self.trapped));
        if std::mem::take(&mut self.under_way) {
            match self.reference.step(&mut self.reference_memory) {
                Event::Done => {}
                Event::Unpredictable => return Some(End::Unpredictable),
                other => self.fail(&format!("at {guest_pc:#x}, but the last instruction is {other:?}")),
            }
            self.left = self.left.saturating_sub(1);
            if was_masked && !masked(&self.reference) && self.cpu.page.pending != 0 && !trapped {
                self.fail(&format!("before {guest_pc:#x}: unmasked, but the interrupt that waits is not taken"));
            }
        }
        // A preload that was dropped has no word in the block.
        while self.reference.pc != guest_pc && self.at_preload() {
            self.reference.step(&mut self.reference_memory);
        }
        self.compare(&self.machine.r.clone(), guest_pc);
        (self.left == 0).then_some(End::Enough)
    }

    fn at_preload(&self) -> bool {
        let pc = self.reference.pc;
        Memory::is_code(pc) && pc & 3 == 0 && model::is_preload(self.reference_memory.word(pc))
    }

    /// The block at a guest PC, made if need be.
    fn find_block(&mut self, pc: u32) -> BlockId {
        let (va, pa) = (GuestVa(pc), GuestPa(pc.wrapping_sub(VA_TO_PA)));
        if let Some(block) = self.translator.lookup(va, pa) {
            return block;
        }
        self.memory.protected[Memory::page(pc).expect("code")] = true;
        let words = self.memory.page_words(pc);
        let version = self.translator.version();
        // The first code page is of a mapping that is not global.
        let global = pc.wrapping_sub(CODE) >= PAGE;
        let block = self.translator.translate(va, pa, global, &words, &mut self.code);
        if self.translator.version() != version {
            self.places.clear();
        }
        self.record_places(block, pc, &words);
        block
    }

    fn record_places(&mut self, block: BlockId, va: u32, words: &[u32; PAGE_WORDS]) {
        let entry = self.translator.entry(block);
        let landing = CachePc(entry.0 - 4);
        if self.translator.mirror().has(GuestVa(va)) {
            // LR is not the guest's yet: its instruction begins behind it.
            let location = self.translator.locate(block, landing, words).expect("every word has its place");
            self.places.insert(landing.0, Place { location, first: false, behind: false });
        }
        let end = va.wrapping_add(4 * self.translator.length(block) as u32);
        let page_end = (entry.0 & !0xfff) + PAGE;
        let (mut last, mut cold) = (None, false);
        for pc in (entry.0..page_end).step_by(4) {
            if self.translator.block_at(CachePc(pc)) != Some(block) {
                // What comes after a gap is literals and stubs.
                cold = true;
                continue;
            }
            let location = self.translator.locate(block, CachePc(pc), words).expect("every word has its place");
            let first = !cold && last != Some(location.guest);
            last = Some(location.guest);
            self.places.insert(pc, Place { location, first, behind: location.guest.0 == end });
        }
    }

    /// Runs at most `instructions`, or until something ends it. With `disturb`, interrupts arrive now and then, and pages
    /// get hidden.
    pub fn run(&mut self, instructions: u32, disturb: bool) -> End {
        self.left = instructions;
        let mut next = Next::Guest(self.reference.pc);
        // Words executed: an endless loop in the host would be a bug.
        for _ in 0..40 * instructions + 100 {
            next = match next {
                Next::End(end) => return end,
                Next::Cache(pc) => {
                    self.machine.pc = pc;
                    self.execute(disturb)
                }
                other => match self.enter(other) {
                    Ok(pc) => Next::Cache(pc),
                    Err(end) => return end,
                },
            };
        }
        self.fail("the host does not get on")
    }

    /// Finds the code-cache address for where the guest goes on.
    fn enter(&mut self, next: Next) -> Result<u32, End> {
        self.leave = None;
        let landing = matches!(next, Next::Land(_));
        let (pc, exit) = match next {
            Next::Link(pc, exit) => (pc, Some(exit)),
            Next::Guest(pc) | Next::Land(pc) => (pc, None),
            Next::Branch(target) => {
                if target & 1 != 0 {
                    self.machine.psr |= model::T;
                    (target & !1, None)
                } else {
                    (target & !3, None)
                }
            }
            Next::Cache(_) | Next::End(_) => unreachable!("not a guest address"),
        };
        let (mut pc, mut exit, mut landing) = (pc, exit, landing);
        if self.machine.psr & model::T != 0 || !Memory::is_code(pc) {
            if let Some(end) = self.boundary(pc) {
                return Err(end);
            }
            self.strayed += 1;
            (pc, exit, landing) = (self.window.address(&mut self.random), None, false);
            self.reference.pc = pc;
            self.reference.psr &= !model::T;
            self.machine.psr &= !model::T;
        }
        let version = self.translator.version();
        let block = self.find_block(pc);
        if let (Some(exit), true) = (exit, version == self.translator.version()) {
            self.translator.link(exit, block, &mut self.code);
        }
        if landing {
            self.translator.land(block, &mut self.code);
        }
        self.translator.remember(block);
        Ok(self.translator.entry(block).0)
    }

    /// Executes one word of translated code.
    fn execute(&mut self, disturb: bool) -> Next {
        let pc = CachePc(self.machine.pc);
        if LAYOUT.find(pc).is_none() {
            return self.reflected(disturb);
        }
        let Some(&place) = self.places.get(&pc.0) else { self.fail("the host is not in a block") };
        if place.first && !std::mem::take(&mut self.retry) {
            if let Some(end) = self.boundary(place.location.guest.0) {
                return Next::End(end);
            }
            self.under_way = !place.behind;
        }
        let block = self.translator.block_at(pc).expect("it has a place");
        let entry = self.translator.entry(block);
        if self.leave.is_some_and(|waiting| waiting != entry) {
            self.fail("an interrupt waits, and the block was left without a trap");
        }
        if disturb {
            if self.random.one_in(24) {
                // A host interrupt brings one for the guest, at any word.
                self.translator.close(block, &mut self.code);
                self.leave = Some(entry);
                self.interrupts += 1;
            }
            if place.first && self.random.one_in(16) {
                self.cpu.page.pending = self.random.pick(&[0, 4u32.wrapping_neg()]);
            }
            if self.random.one_in(64) {
                let page = self.random.below(PAGES as u32) as usize;
                self.memory.hidden[page] = true;
            }
        }
        if self.tracing {
            let (page, word) = LAYOUT.find(pc).expect("in a code page");
            let word = self.code.fetched[page as usize][word];
            let guest = place.location.guest;
            eprintln!("{guest}: {pc} {word:08x} {}", spica_isa::decode(word));
        }
        let mut view = KernelView { code: &self.code, page: self.cpu.page, memory: &mut self.memory, pc: pc.0 };
        match self.machine.step(&mut view) {
            Event::Done => Next::Cache(self.machine.pc),
            Event::Supervisor(number) => self.trapped(number, pc, place),
            Event::Fault(fault) => self.faulted(fault, pc, place),
            Event::Undefined => {
                // A copy of an instruction that is not modelled.
                let guest = self.undo(place);
                let word = self.reference_memory.word(guest);
                let known = !matches!(spica_isa::decode(word).op, Op::Undefined | Op::Unpredictable);
                let event = self.reference.step(&mut self.reference_memory);
                self.under_way = false;
                if !known || event != Event::Undefined {
                    self.fail(&format!("translated code at {pc} is undefined"));
                }
                self.compare(&self.machine.r.clone(), guest);
                self.skip(guest)
            }
            other => self.fail(&format!("translated code at {pc} is {other:?}")),
        }
    }

    /// As `trap/indirect.rs`: the host is where a branch through the return mirror led.
    fn reflected(&mut self, disturb: bool) -> Next {
        let pc = self.machine.pc;
        if self.leave.is_some() {
            self.fail("an interrupt waits, and the block was left through the mirror");
        }
        let Some(target) = self.translator.mirror().target(pc) else { self.fail("the host is not in a block") };
        let thumb = self.machine.psr & model::T != 0;
        let interrupted = disturb && self.random.one_in(24);
        if let Some(word) = self.code.mirror_word(pc)
            && !(interrupted || thumb)
        {
            let landing = match spica_isa::decode(word).op {
                Op::Branch { link: false, offset } => Some(pc.wrapping_add(8).wrapping_add(offset as u32)),
                Op::Mem(mem) if mem.load && mem.rt.is_pc() && mem.rn.is_pc() => {
                    let offset = word & 0xfff;
                    let at = pc.wrapping_add(8).wrapping_add(if mem.add { offset } else { offset.wrapping_neg() });
                    Some(self.code.mirror_word(at).expect("an address in the same page"))
                }
                Op::Undefined => None,
                op => self.fail(&format!("the mirror has {op:?} at {pc:#x}")),
            };
            if let Some(landing) = landing {
                self.landings += 1;
                return Next::Cache(landing);
            }
        }
        self.machine.r[14] = self.cpu.page.spill[LINK_SLOT as usize];
        if interrupted || thumb { Next::Guest(target.0) } else { Next::Land(target.0) }
    }

    fn word(&self, pc: u32) -> u32 {
        let (page, word) = LAYOUT.find(CachePc(pc)).expect("in a code page");
        self.code.written[page as usize][word]
    }

    /// As `trap/call.rs`.
    fn trapped(&mut self, number: u32, svc: CachePc, place: Place) -> Next {
        let behind = svc.0.wrapping_add(4);
        match number {
            trap::LINK => {
                let Some((exit, target)) = self.translator.exit(self.word(behind), svc) else {
                    self.fail("an exit that is not recorded")
                };
                if self.leave.is_some() { Next::Guest(target.0) } else { Next::Link(target.0, exit) }
            }
            trap::INDIRECT => {
                let target = self.cpu.page.target;
                match self.translator.jump_cache.get(target).filter(|_| self.leave.is_none()) {
                    Some(pc) => Next::Cache(pc),
                    None => Next::Branch(target),
                }
            }
            number if number & !0xf == trap::CLOSED => {
                let Some(register) = self.translator.reopen(svc, &mut self.code) else {
                    self.fail("not a closed branch")
                };
                let target = self.machine.r[register.n() as usize];
                self.machine.r[14] = self.cpu.page.spill[LINK_SLOT as usize];
                Next::Branch(target)
            }
            trap::EMULATE => self.emulate(self.word(behind), self.word(behind + 4), behind + 8, place),
            _ => self.fail("a trap of no known number"),
        }
    }

    /// The registers go to the virtual CPU for a trap.
    fn save(&mut self) {
        self.cpu.regs = self.machine.r;
        self.cpu.psr = self.machine.psr;
        self.cpu.cp15.tpidrurw = self.machine.thread[0];
    }

    fn restore(&mut self) {
        self.machine.r = self.cpu.regs;
        self.machine.psr = self.cpu.psr & psr::USER_BITS;
        self.machine.thread[0] = self.cpu.cp15.tpidrurw;
    }

    /// As `trap/emulate.rs`. The reference executes the instruction at the same time.
    fn emulate(&mut self, word: u32, pc: u32, next: u32, place: Place) -> Next {
        self.leave = None;
        if pc != place.location.guest.0 || word != self.reference_memory.word(pc) {
            self.fail("the literals of an emulation");
        }
        let decoded = spica_isa::decode(word);
        // An inlined change of the mask stores it before it looks whether it has to leave.
        let control = self.cpu.page.control;
        if matches!(decoded.op, Op::ChangeState { .. } | Op::MsrReg { spsr: false, .. }) {
            let expected = self.reference.supervisor.map_or(0, |supervisor| supervisor.masks);
            self.cpu.page.control = control & !psr::I | expected & psr::I;
        }
        self.compare(&self.machine.r.clone(), pc);
        self.cpu.page.control = control;
        self.under_way = false;
        self.trapped = true;
        if decoded.op == Op::Unpredictable {
            return self.skip(pc);
        }
        let event = self.reference.step(&mut self.reference_memory);
        match event {
            Event::Privileged => return self.skip(pc),
            // Not modelled, unless nobody knows it.
            Event::Undefined if decoded.op != Op::Undefined => return self.skip(pc),
            Event::Unpredictable => return Next::End(End::Unpredictable),
            _ => {}
        }
        self.left = self.left.saturating_sub(1);
        self.save();
        let version = self.translator.version();
        let mut env = TrapEnv { translator: &mut self.translator, code: &mut self.code, memory: &mut self.memory };
        let step = interp::execute(&mut self.cpu, &mut env, &decoded, pc);
        self.restore();
        let behind = pc.wrapping_add(4);
        let stays = version == self.translator.version();
        match (event, step) {
            (Event::Done, Step::Next(effect)) => {
                if let Effect::ThreadIdReadOnly(value) = effect {
                    self.machine.thread[1] = value;
                }
                if stays { Next::Cache(next) } else { Next::Guest(behind) }
            }
            (Event::Done, Step::Return(target)) if target == behind => {
                let deliverable = self.cpu.page.pending != 0 && !self.cpu.irq_masked();
                if deliverable { Next::Guest(behind) } else { Next::Cache(next) }
            }
            (Event::Done, Step::Branch(target)) => Next::Branch(target),
            (Event::Supervisor(_), Step::SupervisorCall) | (Event::Undefined, Step::Undefined) => {
                self.compare(&self.machine.r.clone(), pc);
                self.skip(pc)
            }
            (Event::Fault(fault), Step::Abort(found)) => {
                if found != abort(fault) {
                    self.fail(&format!("{found:x?}, expected {fault:x?}"));
                }
                self.compare(&self.machine.r.clone(), pc);
                self.guest_fault(fault, pc)
            }
            other => self.fail(&format!("interpreted {decoded}: {other:x?}")),
        }
    }

    /// The guest's handler maps what was missing, if that can be.
    fn guest_fault(&mut self, fault: Fault, pc: u32) -> Next {
        self.faults += 1;
        match Memory::page(fault.address) {
            Some(page) if !fault.alignment => {
                assert!(!self.reference_memory.present[page], "a fault without a reason");
                self.memory.present[page] = true;
                self.reference_memory.present[page] = true;
                Next::Guest(pc)
            }
            _ => {
                // The handler puts something better into the base register, and goes on behind.
                let better = generate::value(&mut self.random, &self.window);
                if let base @ 0..=14 = (self.reference_memory.word(pc) >> 16 & 15) as usize {
                    self.reference.r[base] = better;
                    self.machine.r[base] = better;
                }
                self.skip(pc)
            }
        }
    }

    /// Both guests go on behind the instruction.
    fn skip(&mut self, pc: u32) -> Next {
        self.skipped += 1;
        self.reference.pc = pc.wrapping_add(4);
        Next::Guest(self.reference.pc)
    }

    /// As `trap/abort.rs` and `trap/locate.rs`.
    fn faulted(&mut self, fault: Fault, pc: CachePc, place: Place) -> Next {
        if let (Some(page), false) = (Memory::page(fault.address), fault.alignment) {
            if self.memory.hidden[page] {
                self.memory.hidden[page] = false;
                self.retry = place.first;
                return Next::Cache(pc.0);
            }
            if self.memory.present[page] && fault.write && self.memory.protected[page] {
                return self.write_to_code(fault, pc, place);
            }
        }
        let guest_pc = self.undo(place);
        if !std::mem::take(&mut self.under_way) {
            self.fail("a fault between instructions");
        }
        match self.reference.step(&mut self.reference_memory) {
            Event::Fault(expected) if expected == fault => {}
            other => self.fail(&format!("{fault:x?} at {guest_pc:#x}, expected {other:x?}")),
        }
        self.compare(&self.machine.r.clone(), guest_pc);
        self.guest_fault(fault, guest_pc)
    }

    /// Puts the guest's registers right, as for an exception, and returns its PC.
    fn undo(&mut self, place: Place) -> u32 {
        let undo = place.location.undo;
        if let Some((reg, slot)) = undo.spilled {
            self.machine.r[reg.n() as usize] = self.cpu.page.spill[slot as usize];
        }
        if let Some((reg, by)) = undo.adjust {
            let reg = &mut self.machine.r[reg.n() as usize];
            *reg = reg.wrapping_add(by);
        }
        place.location.guest.0
    }

    /// The guest writes to a page that code was translated from.
    fn write_to_code(&mut self, fault: Fault, pc: CachePc, place: Place) -> Next {
        let block = self.translator.block_at(pc).expect("it has a place");
        let (_, source) = self.translator.source(block);
        let own = source.page().0 == fault.address.wrapping_sub(VA_TO_PA) & !0xfff;
        let mut env = TrapEnv { translator: &mut self.translator, code: &mut self.code, memory: &mut self.memory };
        if !own {
            env.code_changes(fault.address);
            self.retry = place.first;
            return Next::Cache(pc.0);
        }
        let guest_pc = self.undo(place);
        let word = self.memory.word(guest_pc);
        let decoded = spica_isa::decode(word);
        self.save();
        let mut env = TrapEnv { translator: &mut self.translator, code: &mut self.code, memory: &mut self.memory };
        if !matches!(decoded.op, Op::Mem(_) | Op::MemMultiple(_)) {
            // The interpreter knows neither exclusives nor VFP: none of it is executed, what was stored so far included.
            self.under_way = false;
            self.memory.bytes.clone_from(&self.reference_memory.bytes);
            self.compare(&self.machine.r.clone(), guest_pc);
            return self.skip(guest_pc);
        }
        match interp::execute(&mut self.cpu, &mut env, &decoded, guest_pc) {
            Step::Next(_) => {
                self.restore();
                Next::Guest(guest_pc.wrapping_add(4))
            }
            Step::Abort(found) => {
                self.restore();
                self.under_way = false;
                match self.reference.step(&mut self.reference_memory) {
                    Event::Fault(expected) if abort(expected) == found => {
                        self.compare(&self.machine.r.clone(), guest_pc);
                        self.guest_fault(expected, guest_pc)
                    }
                    other => self.fail(&format!("{found:x?} at {guest_pc:#x}, expected {other:x?}")),
                }
            }
            other => self.fail(&format!("a store to code: {other:?}")),
        }
    }
}
