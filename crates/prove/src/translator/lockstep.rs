//! One guest, twice: its state here, each part of what happens to it in a file below.

mod blocks;
pub(super) mod checks;
mod compare;
pub(super) mod edges;
mod emulate;
mod faults;
pub(super) mod in_place;
mod returns;
mod run;
mod spills;
mod traps;

use crate::random::Random;
use crate::translator::code::Code;
use crate::translator::coverage::Coverage;
use crate::translator::env::TrapEnv;
use crate::translator::generate::Window;
use crate::translator::instruction::Instruction;
use crate::translator::lockstep::blocks::Place;
use crate::translator::lockstep::in_place::{InPlace, NEAR_LAYOUT};
use crate::translator::lockstep::spills::Privileged;
pub(super) use crate::translator::lockstep::spills::is_shared_slot;
use crate::translator::memory::Memory;
use crate::translator::model::{self, Machine};
use crate::translator::{CAPACITY, CODE, CODE_PAGES, CTR, LAYOUT, Mirrored, VFP_IDS};
use spica_addr::CachePc;
use spica_dbt::checks::Look;
use spica_dbt::layout::Layout;
use spica_dbt::{BlockId, ExitId, Options, Spill, Translator, shadow_stack};
use spica_isa::t32::ItState;
use spica_vcpu::interp::{self, Step};
use spica_vcpu::{Bank, Banked, Cpu, CpuId, VcpuPage, psr};
use std::collections::{BTreeMap, HashMap, HashSet};

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

/// What happens in a run that the guest's own code is not the cause of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Disturb {
    /// Nothing.
    Nothing,
    /// Now and then: an interrupt, a hidden page, VFP that another guest had, and more of the kind.
    Random,
    /// An interrupt at the word with this number, counted over the words that are executed.
    Interrupt(u32),
    /// From that word on, no page is mapped by Spica until it is asked for.
    Hide(u32),
    /// From that word on, if a guest instruction begins there, no data page is mapped by the guest until its handler
    /// does so.
    Unmap(u32),
}

/// One guest, twice.
pub struct Lockstep {
    pub reference: Machine,
    pub reference_memory: Memory,
    /// The real core while it runs translated code.
    pub machine: Machine,
    pub memory: Memory,
    pub cpu: Cpu,
    pub translator: Translator,
    pub code: Code,
    /// Where the code cache lies.
    layout: Layout,
    /// The guest's kernel runs in place, and by blocks what cannot.
    in_place: Option<InPlace>,
    places: HashMap<u32, Place>,
    /// The host has begun a guest instruction that the reference has not executed yet.
    under_way: bool,
    /// The word is executed again, after something that the guest knows nothing of.
    retry: bool,
    /// The ITSTATE in which the guest goes on, while the host is not in a block.
    it: ItState,
    /// There was a trap since the last boundary.
    trapped: bool,
    /// A return by the shadow stack has not reached its target yet.
    popped: bool,
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
    /// See [`KernelView::closing`](super::view::KernelView::closing).
    closing: Option<u32>,
    /// The last instruction wrote DACR in place, by a trap whatever it closes.
    dacr_in_place: bool,
    turning_off: Option<u32>,
    /// There was a trap for a write to DACR since the last boundary.
    closed: bool,
    /// Writes to DACR that the reference had made at the last boundary.
    dacr_writes: u32,
    /// Where [`Translator::make_dacr_eager`] changed something.
    eager: HashSet<u32>,
    /// The interpreter was asked to invalidate branch predictors, and instruction caches.
    invalidated: [bool; 2],
    /// As [`Supervisor::tlb`](model::Supervisor::tlb).
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
    /// What happens that the guest's own code is not the cause of.
    disturb: Disturb,
    /// Words executed since the start.
    words: u32,
    /// What the translator made of what was executed.
    pub coverage: Coverage,
    /// Every word executed goes to standard error.
    tracing: bool,
    /// What was asked for.
    options: Options,
    /// The host is in Undefined mode, behind a lightweight trap.
    privileged: Option<Privileged>,
    /// The word for [`Spill::TrapShared`].
    shared_slot: u32,
    /// What is told of, what is looked for, and where it is not, while accesses are looked at.
    hooks: Vec<u32>,
    look: (Look, bool),
    skipped_code: std::ops::Range<u32>,
    /// Marks of the guest's instruction that were found to be set.
    looked: u32,
    /// There was an exclusive access.
    exclusives: bool,
    /// While edges are counted.
    edges: Option<edges::Edges>,
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

/// What the guest sees of the processor.
fn id() -> CpuId {
    let [fpsid, mvfr1, mvfr0] = VFP_IDS;
    CpuId { ctr: CTR, pfr: [0x1031, 0], fpsid, mvfr: [mvfr0, mvfr1], ..CpuId::default() }
}

impl Lockstep {
    pub fn new(options: Options) -> Lockstep {
        let page = Box::leak(Box::new(VcpuPage::reset()));
        Lockstep {
            reference: Machine {
                r: [0; 15],
                pc: CODE,
                psr: 0,
                length: 4,
                vfp: [0; 64],
                thread: [0; 2],
                cycles: None,
                vfp_on: false,
                mode: 0x10,
                strict: false,
                supervisor: None,
            },
            reference_memory: Memory::new(),
            machine: Machine {
                r: [0; 15],
                pc: 0,
                psr: 0,
                length: 4,
                vfp: [0; 64],
                thread: [0; 2],
                cycles: None,
                vfp_on: false,
                mode: 0x10,
                strict: false,
                supervisor: None,
            },
            memory: Memory::new(),
            cpu: Cpu::new(page, id()),
            translator: Translator::new(LAYOUT, options, CAPACITY),
            code: Code::new(&LAYOUT),
            layout: LAYOUT,
            in_place: None,
            places: HashMap::new(),
            under_way: false,
            retry: false,
            it: ItState::OUTSIDE,
            trapped: false,
            popped: false,
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
            dacr_in_place: false,
            turning_off: None,
            closed: false,
            dacr_writes: 0,
            eager: HashSet::new(),
            invalidated: [false; 2],
            tlb: (0, 0),
            volatile: [false; CODE_PAGES as usize],
            snapshot: None,
            stop_at_faults: false,
            random: Random::new(0),
            window: Window { start: CODE, words: 96, thumb: 0 },
            disturb: Disturb::Nothing,
            words: 0,
            coverage: Coverage::default(),
            tracing: std::env::var_os("SPICA_TRACE").is_some(),
            options,
            privileged: None,
            shared_slot: 0,
            hooks: Vec::new(),
            look: (Look::default(), false),
            skipped_code: 0..0,
            looked: 0,
            exclusives: false,
            edges: None,
        }
    }

    /// Other options, and the return mirror; everything is flushed.
    pub fn set_options(&mut self, options: Options, mirror: Mirrored) {
        self.options = options;
        self.use_engine(Layout { mirror: Some(mirror), ..LAYOUT }, None);
    }

    /// The same, with code in place.
    pub fn set_in_place(&mut self, options: Options) {
        self.options = Options { spill: Spill::default(), lent_thread_id: true, ..options };
        let in_place = self.in_place.take().unwrap_or_else(InPlace::new);
        self.use_engine(NEAR_LAYOUT, Some(in_place));
    }

    fn use_engine(&mut self, layout: Layout, in_place: Option<InPlace>) {
        (self.layout, self.in_place) = (layout, in_place);
        self.translator = Translator::new(layout, self.options, CAPACITY);
        self.code = Code::new(&layout);
        self.forget_places();
    }

    /// Everything was flushed.
    fn forget_places(&mut self) {
        self.places.clear();
        self.eager.clear();
        self.snapshot = None;
    }

    /// Puts both guests into the same state; the cache is flushed.
    pub fn start(&mut self, reference: Machine, memory: &Memory, window: Window, seed: u64) {
        self.random = Random::new(seed);
        self.window = window;
        self.translator.flush(&mut self.code);
        self.forget_places();
        if let Some(in_place) = &mut self.in_place {
            in_place.clear();
            in_place.first_is_global = !self.random.one_in(4);
        }
        self.follow();
        self.reference = reference;
        self.reference_memory.clone_from(memory);
        self.memory.clone_from(memory);
        let supervisor = reference.supervisor.expect("the reference is in Supervisor mode");
        self.cpu.reset();
        self.cpu.set_masks(supervisor.masks, psr::A | psr::I | psr::F);
        self.cpu.page.spsr = supervisor.spsr;
        let [sp, lr] = supervisor.banked;
        self.cpu.page.bank[Bank::Usr as usize] = Banked { spsr: 0, sp, lr };
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
        self.follow();
        self.cpu.show();
        self.cpu.page.dacr_site = 0xdead_0005;
        self.cpu.page.tpidrprw = supervisor.thread_private;
        self.cpu.page.tpidruro = reference.thread[1];
        self.cpu.cp15.tpidrurw = reference.thread[0];
        // Whatever a spill slot holds must not matter.
        self.cpu.page.spill = [0xdead_0000, 0xdead_0001, 0xdead_0002, 0xdead_0003];
        self.cpu.page.target = 0xdead_0004;
        shadow_stack::clear(self.cpu.page, &self.layout);
        // The real TPIDRURO is that of user code: nothing is read from there.
        self.machine = Machine {
            supervisor: None,
            vfp_on: reference.has_vfp(),
            pc: 0,
            thread: [reference.thread[0], 0xdead_0006],
            ..reference
        };
        self.cpu.page.tpidrurw = reference.thread[0];
        match self.options.spill {
            Spill::Tpidrurw => self.machine.thread[0] = 0xdead_0008,
            Spill::Pmccntr => self.machine.cycles = Some(0xdead_0009),
            _ => {}
        }
        (self.privileged, self.shared_slot) = (None, 0xdead_000a);
        (self.closing, self.closed, self.dacr_writes) = (None, false, supervisor.dacr_writes);
        self.dacr_in_place = false;
        self.turning_off = None;
        (self.invalidated, self.tlb) = ([false; 2], supervisor.tlb);
        self.volatile = [false; CODE_PAGES as usize];
        self.prepare();
        self.machine.psr &= !(model::T | model::IT);
        self.it = ItState::from_psr(reference.psr);
        self.under_way = false;
        self.retry = false;
        self.trapped = false;
        self.popped = false;
        self.leave = None;
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

    /// As `Vm::prepare`: the guest's state is put in place.
    fn prepare(&mut self) {
        self.real_dacr = self.cpu.cp15.dacr;
        self.cpu.page.dacr_real = self.real_dacr;
        self.machine.vfp_on &= self.vfp_enabled();
        self.cpu.page.fpexc_real = if self.machine.vfp_on { model::EN } else { 0 };
        self.cpu.page.unprivileged = [u32::MAX; 2];
        self.lend_thread_id();
    }

    /// As `Context::lend_thread_ids`.
    fn lend_thread_id(&mut self) {
        if self.options.lent_thread_id {
            self.machine.thread[0] = self.cpu.page.tpidruro;
        }
    }

    /// The registers go to the virtual CPU for a trap.
    fn save(&mut self) {
        self.cpu.regs = self.machine.r;
        self.cpu.psr = self.machine.psr;
        if !self.options.lent_thread_id {
            self.cpu.cp15.tpidrurw = self.machine.thread[0];
        }
    }

    fn restore(&mut self) {
        self.machine.r = self.cpu.regs;
        // The state is known from where the guest is.
        self.machine.psr = self.cpu.psr & psr::USER_BITS & !(psr::T | psr::IT);
        if !self.options.lent_thread_id {
            self.machine.thread[0] = self.cpu.cp15.tpidrurw;
        }
    }

    /// Where the reference is, with its state in bit 0.
    pub(super) fn reference_entry(&self) -> u32 {
        self.reference.pc | u32::from(self.reference.psr & model::T != 0)
    }

    /// Puts the reference to `entry`, in its state and `it`.
    pub(super) fn put_reference(&mut self, entry: u32, it: ItState) {
        self.reference.pc = entry & !1;
        let state = if entry & 1 != 0 { model::T | it.to_psr() } else { 0 };
        self.reference.psr = self.reference.psr & !(model::T | model::IT) | state;
    }

    /// The guest's instruction at `entry`, executed in `it`.
    pub(super) fn instruction(&self, entry: u32, it: ItState) -> Instruction {
        Instruction::at(&self.reference_memory, entry, it)
    }

    /// As `locate::restore`: the virtual CPU's state is the guest's at the instruction at `entry`.
    pub(super) fn save_in_state(&mut self, entry: u32, it: ItState) {
        self.save();
        if entry & 1 != 0 {
            self.cpu.psr |= psr::T | it.to_psr();
        }
    }

    /// The interpreter's turn, with the instruction at `pc`, bit 0 of which is the state. Where it goes on then, the
    /// ITSTATE is noted.
    pub(super) fn interpret_at(&mut self, instruction: &Instruction, pc: u32) -> Step {
        let (mut env, cpu) = self.env();
        let step = match instruction {
            Instruction::A32(decoded) => interp::execute(cpu, &mut env, decoded, pc),
            Instruction::T32(decoded) => interp::execute_t32(cpu, &mut env, decoded, pc & !1),
        };
        self.it = ItState::from_psr(self.cpu.psr);
        step
    }

    /// What the interpreter sees, and the virtual CPU.
    fn env(&mut self) -> (TrapEnv<'_>, &mut Cpu) {
        let Lockstep { translator, code, memory, in_place, cpu, .. } = self;
        (TrapEnv { translator, code, memory, in_place: in_place.as_mut(), patched: false }, cpu)
    }

    /// Counts something that must not be missing from a test.
    fn note(&mut self, what: &'static str) {
        *self.seen.entry(what).or_default() += 1;
    }

    fn fail(&self, what: &str) -> ! {
        panic!("{what}\nreference {:x?}\nhost      {:x?}", self.reference, self.machine);
    }
}
