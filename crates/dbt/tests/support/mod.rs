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
use spica_isa::{Decoded, Op};
use spica_vcpu::cp15::{TimerReg, TlbOp};
use spica_vcpu::interp::{self, Abort, Env, Step};
use spica_vcpu::{Bank, CpuId, Effect, Shown, StackAndLink, Vcpu, VcpuPage, psr};
use std::collections::{BTreeMap, HashMap, HashSet};
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

/// What the guest's CTR says.
pub const CTR: u32 = 0x8444_c004;

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
    /// The guest maps it for its kernel only.
    pub kernel_only: Vec<bool>,
    /// An unprivileged access is under way.
    unprivileged: bool,
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
            kernel_only: vec![false; PAGES],
            unprivileged: false,
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
                self.present[page]
                    && !(self.unprivileged && self.kernel_only[page])
                    && !(real && (self.hidden[page] || write && self.protected[page]))
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

    fn set_unprivileged(&mut self, unprivileged: bool) {
        self.unprivileged = unprivileged;
    }
}

impl Memory {
    /// An access of the interpreter's, with the given rights.
    fn check_as(&mut self, privileged: bool, address: u32, bytes: u32, write: bool) -> Result<(), Abort> {
        self.unprivileged = !privileged;
        let result = self.check(address, bytes, write, false);
        self.unprivileged = false;
        result.map_err(abort)
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
    /// What the DACR that is real would still open after the write, if translated code has looked.
    closing: &'a mut Option<u32>,
    /// The same for FPEXC.
    turning_off: &'a mut Option<u32>,
}

/// How translated code may reach a word of the vCPU page.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reach {
    Load,
    Store,
    StoreByte,
}

impl KernelView<'_> {
    /// The word of the vCPU page that a load or store of translated code means.
    fn field(&mut self, address: u32, reach: Reach) -> Option<&mut u32> {
        // Words, in the page behind; anything else is a stray pointer of the guest.
        if address & !0xfff != (self.pc & !0xfff).wrapping_add(PAGE) || address & 3 != 0 {
            return None;
        }
        let field = (address & 0xfff) as usize;
        const SPILL_END: usize = offset_of!(VcpuPage, spill) + 15;
        const TARGET: usize = offset_of!(VcpuPage, target);
        const CONTROL: usize = offset_of!(VcpuPage, control);
        const PENDING: usize = offset_of!(VcpuPage, pending);
        const SPSR: usize = offset_of!(VcpuPage, spsr);
        const PRIVATE: usize = offset_of!(VcpuPage, tpidrprw);
        const READ_ONLY: usize = offset_of!(VcpuPage, tpidruro);
        const STALE: usize = offset_of!(VcpuPage, stale);
        const DACR: usize = offset_of!(VcpuPage, dacr);
        const DACR_REAL: usize = offset_of!(VcpuPage, dacr_real);
        const DACR_SITE: usize = offset_of!(VcpuPage, dacr_site);
        const FPEXC: usize = offset_of!(VcpuPage, fpexc);
        const FPEXC_REAL: usize = offset_of!(VcpuPage, fpexc_real);
        const TEEHBR: usize = offset_of!(VcpuPage, teehbr);
        const SHOWN: usize = offset_of!(VcpuPage, shown);
        const SHOWN_END: usize = SHOWN + size_of::<Shown>() - 1;
        const USER_SP: usize = offset_of!(VcpuPage, bank) + Bank::Usr as usize * size_of::<StackAndLink>();
        const USER_LR: usize = USER_SP + offset_of!(StackAndLink, lr);
        let page = &mut *self.page;
        let (word, load, store) = match field {
            0..=SPILL_END => (&mut page.spill[field / 4], true, true),
            TARGET => (&mut page.target, false, true),
            CONTROL => (&mut page.control, true, true),
            PENDING => (&mut page.pending, true, false),
            SPSR => (&mut page.spsr, true, true),
            PRIVATE => (&mut page.tpidrprw, true, true),
            READ_ONLY => (&mut page.tpidruro, true, true),
            STALE => (&mut page.stale, false, true),
            DACR => (&mut page.dacr, true, true),
            DACR_REAL => {
                *self.closing = Some(page.dacr_real & !page.dacr);
                (&mut page.dacr_real, true, false)
            }
            DACR_SITE => (&mut page.dacr_site, false, true),
            FPEXC => (&mut page.fpexc, true, true),
            FPEXC_REAL => {
                *self.turning_off = Some(page.fpexc_real & !page.fpexc);
                (&mut page.fpexc_real, true, false)
            }
            TEEHBR => (&mut page.teehbr, true, true),
            SHOWN..=SHOWN_END => {
                let Shown { ctr, sctlr, ttbr0, ttbr1, contextidr, dfsr, ifsr, dfar, ifar } = &mut page.shown;
                let word = match field - SHOWN {
                    n if n == offset_of!(Shown, ctr) => ctr,
                    n if n == offset_of!(Shown, sctlr) => sctlr,
                    n if n == offset_of!(Shown, ttbr0) => ttbr0,
                    n if n == offset_of!(Shown, ttbr1) => ttbr1,
                    n if n == offset_of!(Shown, contextidr) => contextidr,
                    n if n == offset_of!(Shown, dfsr) => dfsr,
                    n if n == offset_of!(Shown, ifsr) => ifsr,
                    n if n == offset_of!(Shown, dfar) => dfar,
                    n if n == offset_of!(Shown, ifar) => ifar,
                    other => panic!("word {other} of what is shown"),
                };
                (word, true, false)
            }
            USER_SP => (&mut page.bank[Bank::Usr as usize].sp, true, true),
            USER_LR => (&mut page.bank[Bank::Usr as usize].lr, true, true),
            other => panic!("translated code at {:#x} reaches word {other:#x} of the vCPU page", self.pc),
        };
        let allowed = match reach {
            Reach::Load => load,
            Reach::Store => store,
            Reach::StoreByte => field == CONTROL,
        };
        assert!(allowed, "translated code at {:#x} reaches word {field:#x} of the vCPU page as it must not", self.pc);
        Some(word)
    }
}

impl Bus for KernelView<'_> {
    fn fetch(&mut self, address: u32) -> u32 {
        let (page, word) = LAYOUT.find(CachePc(address)).expect("translated code stays in the code pages");
        self.code.fetched[page as usize][word]
    }

    fn load(&mut self, address: u32, bytes: u32) -> Result<u32, Fault> {
        // Literals, in its own page; anything else is a stray pointer of the guest.
        if let Some((page, word)) = LAYOUT.find(CachePc(address))
            && LAYOUT.find(CachePc(self.pc)).is_some_and(|(own, _)| own == page)
        {
            return Ok(self.code.fetched[page as usize][word]);
        }
        if bytes == 4
            && let Some(field) = self.field(address, Reach::Load)
        {
            return Ok(*field);
        }
        self.memory.check(address, bytes, false, true)?;
        Ok(self.memory.get(address, bytes))
    }

    fn store(&mut self, address: u32, bytes: u32, value: u32) -> Result<(), Fault> {
        assert!(LAYOUT.find(CachePc(address & !3)).is_none(), "a store to a code page at {:#x}", self.pc);
        let reach = match bytes {
            4 => Some(Reach::Store),
            1 => Some(Reach::StoreByte),
            _ => None,
        };
        if let Some(field) = reach.and_then(|reach| self.field(address, reach)) {
            let mask = u32::MAX >> (32 - 8 * bytes);
            *field = *field & !mask | value & mask;
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
    fn load(&mut self, _cpu: &mut Vcpu, va: u32, bytes: u32, privileged: bool) -> Result<u32, Abort> {
        self.memory.check_as(privileged, va, bytes, false)?;
        Ok(self.memory.get(va, bytes))
    }

    fn store(&mut self, _cpu: &mut Vcpu, va: u32, bytes: u32, value: u32, privileged: bool) -> Result<(), Abort> {
        self.memory.check_as(privileged, va, bytes, true)?;
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
    /// A fault of translated code that the guest is to see; nothing was checked.
    Fault,
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
    /// How often instructions of each kind were executed, and what else was to happen happened.
    pub seen: BTreeMap<&'static str, u32>,
    /// The guest's DACR of which the real one is a function.
    real_dacr: u32,
    /// See [`KernelView::closing`].
    closing: Option<u32>,
    turning_off: Option<u32>,
    /// There was a trap for a write to DACR since the last boundary.
    closed: bool,
    /// Writes to DACR that the reference had made at the last boundary.
    dacr_writes: u32,
    /// Where [`Translator::make_dacr_eager`] changed something.
    eager: HashSet<u32>,
    /// The interpreter was asked to invalidate instruction caches or branch predictors.
    invalidated: bool,
    /// As [`Supervisor::tlb`].
    tlb: (u32, u32),
    /// Code pages that are not protected: their code is translated anew each time.
    volatile: [bool; CODE_PAGES as usize],
    /// The page of the last block from such a page, as it was then, and which block.
    snapshot: Option<(BlockId, Vec<u32>)>,
    /// The run is over at the first fault that the guest is to see, with its registers put right.
    pub stop_at_faults: bool,
    /// Where the guest's handlers get what they put right.
    random: Random,
    window: Window,
    /// Interrupts arrive now and then, pages get hidden, and more of the kind.
    disturb: bool,
    /// Every word executed goes to standard error.
    tracing: bool,
    /// What was asked for.
    options: Options,
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
            reference: Machine {
                r: [0; 15],
                pc: CODE,
                psr: 0,
                vfp: [0; 64],
                thread: [0; 2],
                vfp_on: false,
                supervisor: None,
            },
            reference_memory: Memory::new(),
            machine: Machine {
                r: [0; 15],
                pc: 0,
                psr: 0,
                vfp: [0; 64],
                thread: [0; 2],
                vfp_on: false,
                supervisor: None,
            },
            memory: Memory::new(),
            cpu: Vcpu::new(page, CpuId { ctr: CTR, pfr: [0x1031, 0], ..CpuId::default() }),
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
            seen: BTreeMap::new(),
            real_dacr: 0,
            closing: None,
            turning_off: None,
            closed: false,
            dacr_writes: 0,
            eager: HashSet::new(),
            invalidated: false,
            tlb: (0, 0),
            volatile: [false; CODE_PAGES as usize],
            snapshot: None,
            stop_at_faults: false,
            random: Random::new(0),
            window: Window { start: CODE, words: 96 },
            disturb: false,
            tracing: std::env::var_os("SPICA_TRACE").is_some(),
            options,
        }
    }

    /// Other options, and whether the return mirror is `far`, out of reach of a branch; everything is flushed.
    pub fn set_options(&mut self, options: Options, far: bool) {
        self.options = options;
        let mirror = Some(if far { FAR } else { NEAR });
        self.translator = Translator::new(Layout { mirror, ..LAYOUT }, options, CAPACITY);
        self.code = Code::new(&LAYOUT);
        self.forget_places();
    }

    /// Everything was flushed.
    fn forget_places(&mut self) {
        self.places.clear();
        self.eager.clear();
        self.snapshot = None;
    }

    /// Counts something that must not be missing from a test.
    fn note(&mut self, what: &'static str) {
        *self.seen.entry(what).or_default() += 1;
    }

    /// As `trap::handle`: translated code may have written to DACR.
    fn take_over(&mut self) {
        self.cpu.take_vfp();
        self.cpu.take_dacr();
    }

    /// As `vfp_enabled`, in privileged modes.
    fn vfp_enabled(&self) -> bool {
        self.cpu.cp15.cpacr >> 20 & 3 != 0 && self.cpu.cp15.fpexc & model::EN != 0
    }

    /// As `Vm::prepare`: the guest's world is put in place.
    fn prepare(&mut self) {
        self.real_dacr = self.cpu.cp15.dacr;
        self.cpu.page.dacr_real = self.real_dacr;
        self.machine.vfp_on &= self.vfp_enabled();
        self.cpu.page.fpexc_real = if self.machine.vfp_on { model::EN } else { 0 };
    }

    /// Puts both guests into the same state; the cache is flushed.
    pub fn start(&mut self, reference: Machine, memory: &Memory, window: Window, seed: u64) {
        self.random = Random::new(seed);
        self.window = window;
        self.translator.flush(&mut self.code);
        self.forget_places();
        self.reference = reference;
        self.reference_memory.clone_from(memory);
        self.memory.clone_from(memory);
        let supervisor = reference.supervisor.expect("the reference is in Supervisor mode");
        self.cpu.reset();
        self.cpu.set_masks(supervisor.masks, psr::A | psr::I | psr::F);
        self.cpu.page.spsr = supervisor.spsr;
        let [sp, lr] = supervisor.user;
        self.cpu.page.bank[Bank::Usr as usize] = StackAndLink { sp, lr };
        let system = supervisor.system;
        assert_eq!(system[model::CTR], CTR);
        let cp15 = &mut self.cpu.cp15;
        (cp15.sctlr, cp15.ttbr0, cp15.ttbr1) = (system[model::SCTLR], system[model::TTBR0], system[model::TTBR1]);
        (cp15.dacr, cp15.contextidr) = (system[model::DACR], system[model::CONTEXTIDR]);
        (cp15.dfsr, cp15.ifsr) = (system[model::DFSR], system[model::IFSR]);
        (cp15.dfar, cp15.ifar) = (system[model::DFAR], system[model::IFAR]);
        cp15.cpacr = if supervisor.vfp_denied { 0 } else { 0x00f0_0000 };
        (cp15.fpexc, cp15.teehbr) = (supervisor.fpexc, supervisor.teehbr);
        self.translator.set_vfp(self.options.vfp && !supervisor.vfp_denied, &mut self.code);
        self.cpu.show();
        self.cpu.page.dacr_site = 0xdead_0005;
        self.cpu.page.tpidrprw = supervisor.thread_private;
        self.cpu.page.tpidruro = reference.thread[1];
        self.cpu.cp15.tpidrurw = reference.thread[0];
        // Whatever a spill slot holds must not matter.
        self.cpu.page.spill = [0xdead_0000, 0xdead_0001, 0xdead_0002, 0xdead_0003];
        self.cpu.page.target = 0xdead_0004;
        // The real TPIDRURO is that of user code: nothing is read from there.
        self.machine = Machine {
            supervisor: None,
            vfp_on: reference.has_vfp(),
            pc: 0,
            thread: [reference.thread[0], 0xdead_0006],
            ..reference
        };
        (self.closing, self.closed, self.dacr_writes) = (None, false, supervisor.dacr_writes);
        self.turning_off = None;
        (self.invalidated, self.tlb) = (false, supervisor.tlb);
        self.volatile = [false; CODE_PAGES as usize];
        self.prepare();
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
        let StackAndLink { sp, lr } = page.bank[Bank::Usr as usize];
        let Shown { ctr, sctlr, ttbr0, ttbr1, contextidr, dfsr, ifsr, dfar, ifar } = page.shown;
        let seen = Supervisor {
            masks,
            spsr: page.spsr,
            user: [sp, lr],
            thread_private: page.tpidrprw,
            system: [ctr, sctlr, ttbr0, ttbr1, page.dacr, dfsr, ifsr, dfar, ifar, contextidr],
            dacr_writes: supervisor.dacr_writes,
            stale: self.invalidated || page.stale != 0,
            fpexc: page.fpexc & model::EN,
            vfp_denied: supervisor.vfp_denied,
            teehbr: page.teehbr,
            tlb: self.tlb,
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
        if seen != supervisor || [self.machine.thread[0], page.tpidruro] != reference.thread {
            self.fail(&format!("before {guest_pc:#x}: {seen:x?}, expected {supervisor:x?}"));
        }
        if self.machine.vfp_on && !reference.has_vfp() {
            self.fail(&format!("before {guest_pc:#x}: VFP is on"));
        }
        if self.real_dacr != page.dacr_real || self.real_dacr & !supervisor.system[model::DACR] != 0 {
            let (real, guest) = (self.real_dacr, supervisor.system[model::DACR]);
            self.fail(&format!("before {guest_pc:#x}: a domain is open, DACR {real:#x}, the guest's {guest:#x}"));
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
            match self.advance() {
                Event::Done => {}
                Event::Unpredictable => return Some(End::Unpredictable),
                other => self.fail(&format!("at {guest_pc:#x}, but the last instruction is {other:?}")),
            }
            self.left = self.left.saturating_sub(1);
            if was_masked && !masked(&self.reference) && self.cpu.page.pending != 0 && !trapped {
                self.fail(&format!("before {guest_pc:#x}: unmasked, but the interrupt that waits is not taken"));
            }
        }
        self.check_dacr(guest_pc);
        match self.turning_off.take() {
            Some(0) => self.note("FPEXC, without a trap"),
            Some(_) => self.fail(&format!("before {guest_pc:#x}: no trap for FPEXC")),
            None => {}
        }
        // A preload that was dropped has no word in the block.
        while self.reference.pc != guest_pc && self.at_preload() {
            self.reference.step(&mut self.reference_memory);
        }
        self.compare(&self.machine.r.clone(), guest_pc);
        (self.left == 0).then_some(End::Enough)
    }

    /// The reference executes one instruction, which is counted.
    fn advance(&mut self) -> Event {
        let word = self.reference_memory.word(self.reference.pc);
        let passed = word >> 28 == 15 || model::condition_passed(word >> 28, self.reference.psr);
        let event = self.reference.step(&mut self.reference_memory);
        if let (true, Some(kind)) = (passed && event != Event::Privileged, generate::kind(word)) {
            self.note(kind);
            if matches!(event, Event::Fault(_)) {
                self.note("a fault of one of these");
            }
        }
        event
    }

    /// A write to DACR has trapped just if it closed what was really open.
    fn check_dacr(&mut self, guest_pc: u32) {
        let Some(supervisor) = self.reference.supervisor else { return };
        let written = std::mem::replace(&mut self.dacr_writes, supervisor.dacr_writes) != supervisor.dacr_writes;
        let (closed, closing) = (std::mem::take(&mut self.closed), self.closing.take());
        if !self.translator.options().lazy_dacr || !written {
            if closed || closing.is_some() {
                self.fail(&format!("before {guest_pc:#x}: a trap for DACR, which was not written"));
            }
            return;
        }
        let eager = self.eager.contains(&self.cpu.page.dacr_site);
        let expected = match closing {
            Some(closing) => closing != 0,
            None if eager => supervisor.system[model::DACR] != u32::MAX,
            None => self.fail(&format!("before {guest_pc:#x}: nobody looked what DACR closes")),
        };
        if closed != expected {
            self.fail(&format!("before {guest_pc:#x}: trap for DACR: {closed}, expected {expected}"));
        }
        self.note(match (eager, closed) {
            (true, _) => "DACR, eagerly",
            (false, true) => "DACR, with a trap",
            (false, false) => "DACR, without a trap",
        });
    }

    /// The bet on a DACR write was lost, or a guest forged its site.
    fn make_eager(&mut self) {
        let site = if self.random.one_in(4) {
            let block = self.random.pick(&[0, 1, 2, 3]) * 2 * PAGE;
            LAYOUT.code_page(0).0.wrapping_add(block + 4 * self.random.below(1100))
        } else {
            self.cpu.page.dacr_site
        };
        let before = self.code.written.clone();
        self.translator.make_dacr_eager(CachePc(site), &mut self.code);
        for (page, (old, new)) in before.iter().zip(&self.code.written).enumerate() {
            for at in (0..PAGE_WORDS).filter(|&at| old[at] != new[at]) {
                let pc = LAYOUT.code_page(page as u32).0 + 4 * at as u32;
                assert_eq!(pc, site - 4, "another word than that of the site was changed");
                // LDR rs, [field]; MVN rs, #0
                assert_eq!((old[at] >> 16, new[at]), (0xe59f, 0xe3e0_0000 | old[at] & 0xf000));
                self.eager.insert(site);
            }
        }
    }

    fn at_preload(&self) -> bool {
        let pc = self.reference.pc;
        Memory::is_code(pc) && pc & 3 == 0 && model::is_preload(self.reference_memory.word(pc))
    }

    /// The block at a guest PC, made if need be.
    fn find_block(&mut self, pc: u32) -> BlockId {
        let (va, pa) = (GuestVa(pc), GuestPa(pc.wrapping_sub(VA_TO_PA)));
        let words = self.memory.page_words(pc);
        // The first code page is of a mapping that is not global.
        let global = pc.wrapping_sub(CODE) >= PAGE;
        if let Some(block) = self.translator.lookup(va, pa) {
            self.translator.set_global(block, global);
            return block;
        }
        self.memory.protected[Memory::page(pc).expect("code")] = true;
        let flushes = self.translator.stats().flushes;
        let block = self.translator.translate(va, pa, global, &words, &mut self.code);
        if self.translator.stats().flushes != flushes {
            self.forget_places();
        }
        self.record_places(block, pc, &words);
        block
    }

    /// As `Parts::translate_once`, for a page that is volatile, or as in FIQ mode.
    fn block_for_once(&mut self, pc: u32) -> BlockId {
        let (va, pa) = (GuestVa(pc), GuestPa(pc.wrapping_sub(VA_TO_PA)));
        let page = Memory::page(pc).expect("code");
        let volatile = self.volatile[page];
        if volatile {
            self.translator.drop_page(pa, &mut self.code);
            self.memory.protected[page] = false;
        } else {
            self.memory.protected[page] = true;
        }
        let words = self.memory.page_words(pc);
        let flushes = self.translator.stats().flushes;
        let block = self.translator.translate_once(va, pa, &words, &mut self.code);
        if self.translator.stats().flushes != flushes {
            self.forget_places();
        }
        self.snapshot = volatile.then(|| (block, words.to_vec()));
        self.record_places(block, pc, &words);
        self.note("a block for once");
        block
    }

    /// Whether the block is from a volatile page that has changed since: without an ISB, what its code does is not defined.
    fn is_outdated(&self, block: BlockId) -> bool {
        let (va, _) = self.translator.source(block);
        self.snapshot.as_ref().is_some_and(|(of, words)| *of == block && words[..] != self.memory.page_words(va.0))
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

    /// The instruction in front of `pc` of the outdated block, with no more between than preloads, which have no word.
    fn behind_preloads(&self, pc: u32) -> u32 {
        let Some((_, words)) = &self.snapshot else { return pc };
        let next = self.reference.pc.wrapping_add(4);
        let dropped = |at: u32| model::is_preload(words[(at & 0xfff) as usize / 4]);
        let near = self.under_way && pc > next && pc - next < PAGE && next & 0xfff != 0;
        if near && (next..pc).step_by(4).all(dropped) { next } else { pc }
    }

    /// Runs at most `instructions`, or until something ends it. With `disturb`, interrupts arrive now and then, and pages
    /// get hidden.
    pub fn run(&mut self, instructions: u32, disturb: bool) -> End {
        self.left = instructions;
        self.disturb = disturb;
        if disturb {
            self.volatile = std::array::from_fn(|_| self.random.one_in(8));
        }
        let mut next = Next::Guest(self.reference.pc);
        // Words executed: an endless loop in the host would be a bug.
        for _ in 0..40 * instructions + 100 {
            next = match next {
                Next::End(end) => return end,
                Next::Cache(pc) => {
                    self.machine.pc = pc;
                    self.execute()
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
        self.take_over();
        self.prepare();
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
        if self.volatile[Memory::page(pc).expect("code")] || self.disturb && self.random.one_in(16) {
            let block = self.block_for_once(pc);
            return Ok(self.translator.entry(block).0);
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
    fn execute(&mut self) -> Next {
        let disturb = self.disturb;
        let pc = CachePc(self.machine.pc);
        if LAYOUT.find(pc).is_none() {
            return self.reflected();
        }
        let Some(&place) = self.places.get(&pc.0) else { self.fail("the host is not in a block") };
        let block = self.translator.block_at(pc).expect("it has a place");
        if place.first && !std::mem::take(&mut self.retry) {
            let outdated = self.is_outdated(block);
            let guest_pc = place.location.guest.0;
            let guest_pc = if outdated { self.behind_preloads(guest_pc) } else { guest_pc };
            if let Some(end) = self.boundary(guest_pc) {
                return Next::End(end);
            }
            if outdated {
                return Next::Guest(guest_pc);
            }
            self.under_way = !place.behind;
        }
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
                self.take_over();
                self.prepare();
            }
            if place.first && self.random.one_in(16) {
                self.cpu.page.pending = self.random.pick(&[0, u32::MAX]);
            }
            if place.first && self.random.one_in(16) {
                self.make_eager();
            }
            if self.random.one_in(32) {
                // Another guest had VFP.
                self.take_over();
                self.machine.vfp_on = false;
                self.prepare();
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
        let mut view = KernelView {
            code: &self.code,
            page: self.cpu.page,
            memory: &mut self.memory,
            pc: pc.0,
            closing: &mut self.closing,
            turning_off: &mut self.turning_off,
        };
        match self.machine.step(&mut view) {
            // A branch through the mirror to where the code cache is, less the distance: no place for a guest's code.
            Event::Done if self.mirrors_into_itself(pc) => Next::End(End::Unpredictable),
            Event::Done => Next::Cache(self.machine.pc),
            Event::Supervisor(number) => self.trapped(number, pc, place),
            Event::Fault(fault) => self.faulted(fault, pc, place),
            Event::Undefined => {
                self.take_over();
                if self.vfp_enabled() && !std::mem::replace(&mut self.machine.vfp_on, true) {
                    self.retry = place.first;
                    self.prepare();
                    return Next::Cache(pc.0);
                }
                // A copy of an instruction that is not modelled.
                let guest = self.undo(place);
                let word = self.reference_memory.word(guest);
                let known = !matches!(spica_isa::decode(word).op, Op::Undefined | Op::Unpredictable);
                let event = self.advance();
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

    /// Whether a branch through the mirror at `pc` led into the code cache itself, where its distance leaves no place for code
    /// of the guest's.
    fn mirrors_into_itself(&self, pc: CachePc) -> bool {
        let branch = self.word(pc.0) & 0x0ff0_f000 == 0x0280_f000 && self.machine.pc != pc.0.wrapping_add(4);
        branch && LAYOUT.find(CachePc(self.machine.pc)).is_some()
    }

    /// As `trap/indirect.rs`: the host is where a branch through the return mirror led.
    fn reflected(&mut self) -> Next {
        let disturb = self.disturb;
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

    /// As `trap/call.rs`, and `world/fast.s` in front of it.
    fn trapped(&mut self, number: u32, svc: CachePc, place: Place) -> Next {
        let behind = svc.0.wrapping_add(4);
        let fast = self.random.one_in(2);
        match number {
            trap::INDIRECT if fast && self.leave.is_none() => {
                let target = self.cpu.page.target;
                match self.translator.jump_cache.get(target) {
                    Some(pc) => return Next::Cache(pc),
                    None => return Next::Branch(target),
                }
            }
            trap::DACR => return self.close_domains(behind, fast),
            trap::EXCEPTION_RETURN => return self.exception_return(fast),
            _ => {}
        }
        self.take_over();
        match number {
            trap::LINK => {
                let Some((exit, target)) = self.translator.exit(self.word(behind), svc) else {
                    self.fail("an exit that is not recorded")
                };
                if self.leave.is_some() { Next::Guest(target.0) } else { Next::Link(target.0, exit) }
            }
            trap::INDIRECT => Next::Branch(self.cpu.page.target),
            number if number & !0xf == trap::CLOSED => {
                let Some(register) = self.translator.reopen(svc, &mut self.code) else {
                    self.fail("not a closed branch")
                };
                let target = self.machine.r[register.n() as usize];
                self.machine.r[14] = self.cpu.page.spill[LINK_SLOT as usize];
                Next::Branch(target)
            }
            trap::TLB_PAGE => {
                let value = self.cpu.page.target;
                self.maintain_tlb(TlbOp::Page { va: value & !0xfff, asid: Some(value as u8) });
                self.note("TLB, by its own trap");
                Next::Cache(behind)
            }
            trap::VFP => {
                if self.turning_off.take().is_none_or(|bits| bits == 0) {
                    self.fail("a trap for FPEXC, which turns nothing off");
                }
                self.note("FPEXC, with a trap");
                self.prepare();
                Next::Cache(behind)
            }
            trap::UNPRIVILEGED_LOAD | trap::UNPRIVILEGED_STORE => {
                let write = number == trap::UNPRIVILEGED_STORE;
                let va = self.cpu.page.target;
                let decoded = spica_isa::decode(self.reference_memory.word(place.location.guest.0));
                if !matches!(decoded.op, Op::Mem(mem) if mem.unprivileged && mem.load != write) {
                    self.fail(&format!("a trap for an unprivileged access stands for {decoded}"));
                }
                // As `abort::unprivileged`: the rights are User mode's, for the first byte.
                let mapped = self.memory.check_as(false, va, 1, write).is_ok();
                let protected = write && Memory::page(va).is_some_and(|page| self.memory.protected[page]);
                if va & 0xfff <= 0xff0 && mapped && !protected {
                    self.note("an unprivileged access, checked");
                    return Next::Cache(behind);
                }
                self.under_way = false;
                let guest_pc = self.undo(place);
                self.interpret(&decoded, guest_pc)
            }
            trap::EMULATE => self.emulate(self.word(behind), self.word(behind + 4), behind + 8, place),
            _ => self.fail(&format!("trap {number:#x} at {svc}, which is none")),
        }
    }

    /// DACR was written, and closes something.
    fn close_domains(&mut self, behind: u32, fast: bool) -> Next {
        if std::mem::replace(&mut self.closed, true) {
            self.fail("two traps for one write to DACR");
        }
        if fast {
            self.real_dacr = self.cpu.page.dacr;
            self.cpu.page.dacr_real = self.real_dacr;
        } else {
            self.take_over();
            self.prepare();
        }
        Next::Cache(behind)
    }

    /// As `trap/call.rs`: the registers are as the guest's, the target is in the vCPU page.
    fn exception_return(&mut self, fast: bool) -> Next {
        let pc = self.reference.pc;
        if !std::mem::take(&mut self.under_way) {
            self.fail("an exception return between instructions");
        }
        let target = match self.advance() {
            Event::Return(target) => target,
            other => self.fail(&format!("an exception return at {pc:#x}, expected {other:x?}")),
        };
        if self.cpu.page.target != target {
            self.fail(&format!("an exception return to {:#x}, expected {target:#x}", self.cpu.page.target));
        }
        self.compare(&self.machine.r.clone(), pc);
        self.returned(target, fast)
    }

    /// Both guests return from an exception, if that is to Supervisor mode and A32 again; the other cases belong to the
    /// tests of the virtual CPU.
    fn returned(&mut self, target: u32, fast: bool) -> Next {
        let spsr = self.cpu.page.spsr;
        let pc = self.reference.pc;
        (self.trapped, self.left) = (true, self.left.saturating_sub(1));
        if spsr & (psr::J | psr::E | psr::T | psr::MODE) != 0x13 {
            return self.skip(pc);
        }
        self.note("an exception return that is followed");
        self.save();
        self.cpu.set_cpsr(spsr);
        self.restore();
        self.reference.return_to(target);
        let target = target & !3;
        match self.translator.jump_cache.get(target).filter(|_| fast && self.leave.is_none()) {
            Some(pc) => Next::Cache(pc),
            None => Next::Guest(target),
        }
    }

    fn maintain_tlb(&mut self, op: TlbOp) {
        let what = match op {
            TlbOp::All => 0,
            TlbOp::Page { va, asid: Some(asid) } => va | u32::from(asid) | 1 << 8,
            TlbOp::Asid(asid) => u32::from(asid) | 2 << 8,
            TlbOp::Page { va, asid: None } => va | 3 << 8,
        };
        self.tlb = (self.tlb.0 + 1, what);
    }

    /// As `emulate::apply`.
    fn apply(&mut self, effect: Effect) -> Result<(), Abort> {
        match effect {
            Effect::None | Effect::Mirror | Effect::ThreadIdReadOnly(_) | Effect::Regime | Effect::Dacr { .. } => {}
            Effect::Vfp => {}
            Effect::Tlb(op) => self.maintain_tlb(op),
            Effect::InstructionCache(_) | Effect::BranchPredictor => self.invalidated = true,
            Effect::DataCache(_, va) => {
                self.memory.check(va, 1, false, false).map_err(|fault| abort(Fault { write: true, ..fault }))?;
            }
            Effect::ThreadIdReadWrite(value) => self.machine.thread[0] = value,
            other => self.fail(&format!("an effect that is not expected: {other:?}")),
        }
        Ok(())
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
        let event = self.advance();
        match event {
            Event::Privileged => return self.skip(pc),
            // Not modelled, unless nobody knows it.
            Event::Undefined if decoded.op != Op::Undefined => return self.skip(pc),
            Event::Unpredictable => return Next::End(End::Unpredictable),
            _ => {}
        }
        let (masks, flags) = (self.cpu.page.control, self.machine.psr);
        self.save();
        let version = self.translator.version();
        let mut env = TrapEnv { translator: &mut self.translator, code: &mut self.code, memory: &mut self.memory };
        let step = interp::execute(&mut self.cpu, &mut env, &decoded, pc);
        if let (Event::Return(target), Step::Return(found)) = (event, step) {
            // What the interpreter did to mode and CPSR is undone, and done again if it is to Supervisor mode.
            self.cpu.change_mode(psr::Mode::Svc);
            self.cpu.set_masks(masks, psr::A | psr::I | psr::F);
            self.cpu.psr = flags;
            self.restore();
            let spsr = self.cpu.page.spsr;
            if found != target & if spsr & psr::T != 0 { !1 } else { !3 } {
                self.fail(&format!("interpreted exception return to {found:#x}, expected {target:#x}"));
            }
            self.compare(&self.machine.r.clone(), pc);
            return self.returned(target, false);
        }
        self.left = self.left.saturating_sub(1);
        self.restore();
        let step = match step {
            Step::Next(effect) => match self.apply(effect) {
                Ok(()) if effect == Effect::Regime => Step::Branch(pc.wrapping_add(4)),
                Ok(()) => step,
                Err(abort) => Step::Abort(abort),
            },
            other => other,
        };
        let behind = pc.wrapping_add(4);
        let stays = version == self.translator.version();
        match (event, step) {
            (Event::Done, Step::Next(_)) => {
                // What only reads comes back to a world that is as it was.
                if !matches!(decoded.op, Op::CoprocMove { load: true, .. } | Op::Mrs { .. }) {
                    self.prepare();
                }
                if stays { Next::Cache(next) } else { Next::Guest(behind) }
            }
            (Event::Done, Step::Return(target)) if target == behind => {
                let deliverable = self.cpu.page.pending != 0 && !self.cpu.irq_masked();
                self.prepare();
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
                let Memory { present, kernel_only, .. } = &self.reference_memory;
                assert!(!present[page] || kernel_only[page], "a fault without a reason");
                for memory in [&mut self.memory, &mut self.reference_memory] {
                    (memory.present[page], memory.kernel_only[page]) = (true, false);
                }
                Next::Guest(pc)
            }
            _ => {
                // The handler puts something better into the base register, and goes on behind.
                let better = generate::value(&mut self.random, &self.window);
                let word = self.reference_memory.word(pc);
                let is_system = word >> 24 & 15 == 14;
                if let base @ 0..=14 = (word >> if is_system { 12 } else { 16 } & 15) as usize {
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
        self.take_over();
        if let (Some(page), false) = (Memory::page(fault.address), fault.alignment)
            && self.memory.hidden[page]
        {
            self.memory.hidden[page] = false;
            self.retry = place.first;
            self.prepare();
            return Next::Cache(pc.0);
        }
        let decoded = spica_isa::decode(self.reference_memory.word(place.location.guest.0));
        // As `abort::stands_for_another`.
        let stands_for_another = match decoded.op {
            Op::CoprocMove { load, .. } => !load,
            Op::MemMultiple(mem) => mem.user,
            _ => false,
        };
        if let (Some(page), false) = (Memory::page(fault.address), fault.alignment || stands_for_another)
            && self.memory.present[page]
            && fault.write
            && self.memory.protected[page]
        {
            return self.write_to_code(fault, pc, place);
        }
        let guest_pc = self.undo(place);
        if self.stop_at_faults {
            return Next::End(End::Fault);
        }
        if !std::mem::take(&mut self.under_way) {
            self.fail("a fault between instructions");
        }
        if stands_for_another {
            let cache = matches!(decoded.op, Op::CoprocMove { .. });
            self.note(if cache { "a fault of cache maintenance" } else { "a fault of the User bank" });
            return self.interpret(&decoded, guest_pc);
        }
        match self.advance() {
            Event::Fault(expected) if expected == fault => {}
            other => self.fail(&format!("{fault:x?} at {guest_pc:#x}, expected {other:x?}")),
        }
        self.forgive(&decoded);
        self.compare(&self.machine.r.clone(), guest_pc);
        self.guest_fault(fault, guest_pc)
    }

    /// As `abort::interpret`: what stands for an instruction in the cache is not enough this time.
    fn interpret(&mut self, decoded: &Decoded, pc: u32) -> Next {
        self.trapped = true;
        self.save();
        let mut env = TrapEnv { translator: &mut self.translator, code: &mut self.code, memory: &mut self.memory };
        let step = interp::execute(&mut self.cpu, &mut env, decoded, pc);
        self.restore();
        let result = match step {
            Step::Next(effect) => self.apply(effect),
            Step::Abort(abort) => Err(abort),
            other => self.fail(&format!("interpreted {decoded}: {other:?}")),
        };
        match (self.advance(), result) {
            (Event::Done, Ok(())) => {
                self.left = self.left.saturating_sub(1);
                Next::Guest(pc.wrapping_add(4))
            }
            (Event::Fault(fault), Err(found)) if abort(fault) == found => {
                self.forgive(decoded);
                self.compare(&self.machine.r.clone(), pc);
                self.guest_fault(fault, pc)
            }
            (event, found) => self.fail(&format!("{decoded} at {pc:#x}: {found:x?}, expected {event:x?}")),
        }
    }

    /// What is UNKNOWN behind an abort of a block transfer (B1.9.8) becomes what the reference has: registers of the list
    /// that are not the base, and words that were to be stored by another order.
    fn forgive(&mut self, decoded: &Decoded) {
        let Op::MemMultiple(mem) = decoded.op else { return };
        let bank = mem.user && !(mem.load && mem.regs & 0x8000 != 0);
        for n in (0..15usize).filter(|&n| mem.load && mem.regs >> n & 1 != 0) {
            let user = &mut self.cpu.page.bank[Bank::Usr as usize];
            let Some(supervisor) = self.reference.supervisor else { return };
            match n {
                13 if bank => user.sp = supervisor.user[0],
                14 if bank => user.lr = supervisor.user[1],
                n if n != mem.rn.n() as usize => self.machine.r[n] = self.reference.r[n],
                _ => {}
            }
        }
        if mem.load || !bank || mem.rn.is_pc() {
            return;
        }
        let base = self.reference.r[mem.rn.n() as usize];
        for offset in (0..=64).flat_map(|n| [4 * n, 0u32.wrapping_sub(4 * n)]) {
            let at = base.wrapping_add(offset) & !3;
            if Memory::page(at).is_some() {
                self.memory.set_word(at, self.reference_memory.word(at));
            }
        }
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
            self.prepare();
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
                match self.advance() {
                    Event::Fault(expected) if abort(expected) == found => {
                        self.forgive(&decoded);
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
