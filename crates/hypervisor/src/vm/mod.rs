//! A virtual machine: everything that one guest owns, and the loop that runs it.
//!
//! The path of a trap: the vectors in `world/switch.s` save the guest and return from [`Context::enter`]; [`Vm::run`]
//! passes the trap to `trap/`, one file per class, which says in a [`Resume`] where the guest goes on; [`Vm::resume`]
//! takes interrupts that wait, finds or makes the block for a guest PC, puts the guest's world in place, and enters.

pub mod backlog;
pub mod boot;
pub mod call_vector;
#[cfg(feature = "check-fast-paths")]
pub mod check;
pub mod code;
pub mod code_map;
pub mod counters;
pub mod devices;
pub mod disk_room;
pub mod env;
pub mod later;
pub mod load;
pub mod mmio;
pub mod ram;
pub mod report;
pub mod tables;
pub mod volatile;

use alloc::boxed::Box;
use alloc::string::String;

use spica_addr::{CachePc, GuestPa, GuestVa, HostPa};
use spica_dbt::{ExitId, Translator, shadow_stack};
use spica_machine::Machine;
use spica_mmu::{Access, AccessKind, Fault, FaultKind, Mapping, PageSize, Regime, Shadow, View, quick, translate};
use spica_vcpu::cp15::{FPEXC_EN, SCTLR_EE, SCTLR_M, SCTLR_TE};
use spica_vcpu::psr::Mode;
use spica_vcpu::{Exception, psr};

use crate::arch::cache;
use crate::host::Host;
use crate::layout::{MEGABYTE, TTBR_WALK};
use crate::trap::{self, quick::Answer};
use crate::world::spaces::KnownSpaces;
use crate::world::{Context, NO_ASID, SEPARATION, Trap, World, mirror::Mirror, space};
use backlog::Backlog;
use boot::Loading;
use call_vector::CallVector;
use code::CodePages;
use code_map::CodeMap;
use counters::Counters;
use devices::Devices;
use later::Later;
use ram::Ram;
use tables::{RealTlb, Tables};
use volatile::VolatilePages;

/// Where the guest goes on after a trap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Resume {
    /// At this code-cache address, in the same block: nothing happened that the block does not know.
    Cache(CachePc),
    /// The same, and the guest's world is as it was: no interrupt, register or table that it depends on has changed.
    Back(CachePc),
    /// At this guest address, in the mode and state that the CPSR now has. A precise point: interrupts may be taken.
    Guest(GuestVa),
    /// At this guest address; if it is linkable, the exit is linked to its block.
    Link(GuestVa, ExitId),
    /// At this guest address; if it is linkable, the inline cache of the exit guesses it from now on.
    Guess(GuestVa, ExitId),
    /// At this guest address; if it is linkable, the return mirror leads to its block from now on.
    Land(GuestVa),
    /// At this guest address, once there is an interrupt for the guest, masked or not (B1.8.13).
    Wait(GuestVa),
    /// Nowhere: the VM stops.
    Stop(Stop),
}

/// Why a VM does not run on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pause {
    /// It could, but the host has something else to see to.
    Yield,
    /// It waits for an interrupt.
    Wait,
    /// It is over.
    Stop(Stop),
}

/// Why the guest was left.
enum Left {
    /// A trap, in this world, that nobody has answered.
    Trap(Trap, World),
    /// One that was answered; but there is more to see to before the guest goes on here.
    Answered(Resume),
}

/// From where a block is looked for: what shall lead there at once the next time.
#[derive(Clone, Copy)]
enum From {
    Spica,
    Exit(ExitId),
    Guess(ExitId),
    Mirror,
}

/// Why a VM stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stop {
    /// The guest powered itself off.
    PowerOff,
    /// The guest asked for a reset.
    Reset,
    /// The guest's kernel entered Thumb state, which the translator does not know.
    ThumbKernel,
    /// The guest's kernel accesses data big-endian, which translated code cannot.
    BigEndianKernel,
    /// Taking an exception raises an exception, endlessly.
    ExceptionLoop,
    /// The guest's kernel jumped into the middle of Spica's code cache.
    WildJump(u32),
    /// The guest maps memory where Spica lives.
    HoleMapped(GuestVa),
    /// No memory for the least that the guest needs.
    OutOfTables,
    /// An abort that says that the hardware is broken, or that Spica is.
    BadAbort {
        /// DFSR or IFSR.
        fsr: u32,
        /// DFAR or IFAR.
        far: u32,
    },
}

/// A virtual machine.
pub struct Vm {
    /// The virtual CPU.
    pub context: Box<Context>,
    /// All else.
    pub parts: Parts,
    /// Where the guest goes on when it runs again.
    next: Resume,
    /// What is to be put in place before.
    loading: Loading,
}

/// What a VM has beside its virtual CPU.
pub struct Parts {
    /// Its name, from the manifest.
    pub name: String,
    /// Memory.
    pub ram: Ram,
    /// Devices.
    pub machine: Machine,
    /// What stands behind its virtio devices.
    pub devices: Devices,
    /// Translated code.
    pub translator: Translator,
    /// Its memory.
    pub code: CodePages,
    /// Shadow tables.
    pub shadow: Shadow,
    /// Their memory.
    pub tables: Tables,
    /// What the real core has on the guest's behalf.
    pub mirror: Mirror,
    /// Its address spaces that assembly may switch to.
    pub spaces: KnownSpaces,
    /// Figures for the report.
    pub counters: Counters,
    /// The regime that the shadow tables were last activated for, DACR apart.
    pub active: Regime,
    /// Where code was translated from.
    pub code_map: Box<CodeMap>,
    /// What is to be done before the guest goes on.
    pub backlog: Box<Backlog>,
    /// Pages whose code is translated anew each time that it is entered.
    pub volatile: Box<VolatilePages>,
    /// The page of the last block from a volatile page, as it was when the block was made: the block may change it.
    pub snapshot: Box<[u32; 1024]>,
    /// Exceptions taken since guest code last ran.
    nested: u32,
    /// The tables and the vector in [`Context`] are those of the active space. To be cleared when those change.
    pub sides_known: bool,
    /// What the translator does later, if that is something else than now.
    pub later: Option<Later>,
    /// The [`Translator::generation`] that the entries of the guest's shadow stack are of, once there are any.
    returns_of: Option<u64>,
    /// Places that reach devices.
    pub sites: mmio::Sites,
    /// Where system calls lead.
    pub call_vector: CallVector,
    /// The guest's tables are such as [`Shadow::quick_fill`] can read.
    ///
    /// [`Shadow::quick_fill`]: spica_mmu::Shadow::quick_fill
    pub plain_tables: bool,
    /// Nothing but interrupts keeps `fast.s` from changing worlds.
    plain: bool,
    /// Whether VFP is on for the kernel, and for user code.
    vfp: [bool; 2],
    /// Host time at which the guest's counter was 0.
    pub start: u64,
    /// Bytes of the hypervisor's memory that this VM takes beyond the guest's RAM, without its devices' ([`load::Sizes::bytes`]).
    pub overhead: u32,
}

/// That many exceptions without an instruction in between are an endless loop.
const MAX_NESTED: u32 = 16;

impl Vm {
    /// Makes the core this guest's. To be called before [`Self::run`] whenever another one's it was, or nobody's.
    pub fn arrive(&mut self) {
        // Predictions are hints, but what one guest taught the predictor is no business of the next one's.
        cache::invalidate_branch_predictor();
        self.context.install();
        self.parts.mirror.arrive();
        // SCTLR is the last guest's still.
        self.parts.sides_known = false;
    }

    /// Leaves nothing of this guest in the core.
    pub fn depart(&mut self) {
        space::go_home();
        self.parts.mirror.depart();
    }

    /// Runs the guest until the host has something else to see to ([`Host::wants_attention`]), or the guest waits or stops.
    pub fn run(&mut self, host: &mut Host) -> Pause {
        let mut resume = self.next;
        let begun = host.now();
        if self.parts.catch_up(host) || !self.loading.is_done() || !self.parts.is_settled() {
            host.note_entry(begun);
        }
        self.context.clock = host.clock(self.parts.start);
        host.arm_timer(self.parts.start, self.parts.machine.next_deadline());
        if !self.load_on(host) {
            return Pause::Yield;
        }
        if let Resume::Cache(pc) = resume {
            trap::leave_soon(self, pc);
        }
        let translated = self.parts.translator.stats().translated;
        let mut first = true;
        loop {
            match self.work_off(host) {
                Ok(true) => {}
                Ok(false) => {
                    self.next = at_leisure(resume);
                    return Pause::Yield;
                }
                Err(stop) => return Pause::Stop(stop),
            }
            if let Resume::Wait(pc) = resume {
                self.parts.catch_up(host);
                if !self.parts.interrupted() {
                    self.next = resume;
                    return Pause::Wait;
                }
                resume = Resume::Guest(pc);
            }
            let world = match self.resume(resume) {
                Ok(world) => world,
                Err(stop) => return Pause::Stop(stop),
            };
            if !self.parts.is_settled() {
                resume = self.unresumed(world);
                continue;
            }
            if core::mem::take(&mut first) {
                // Translation is work for this guest, the rest is the way back to it.
                let only_back = self.parts.translator.stats().translated == translated;
                let entered = if only_back { host.now() } else { begun };
                host.note_entry(entered);
            }
            resume = match self.enter(host, world) {
                Left::Trap(trap, world) => trap::handle(self, host, world, trap),
                Left::Answered(resume) => resume,
            };
            if self.parts.machine.wants_service() {
                resume = self.serve(host, resume);
            }
            if host.wants_attention() && !matches!(resume, Resume::Stop(_)) {
                self.next = at_leisure(resume);
                return Pause::Yield;
            }
        }
    }

    /// Lets virtio devices work, because the driver has just told them to. If there is more than a budget allows, the
    /// scheduler decides who is next.
    fn serve(&mut self, host: &mut Host, resume: Resume) -> Resume {
        self.parts.serve(host);
        if self.parts.machine.wants_service() {
            host.want_attention();
        }
        let resume = at_leisure(resume);
        if let Resume::Cache(pc) = resume {
            trap::leave_soon(self, pc);
        }
        resume
    }

    /// Puts everything in place for the guest to go on.
    fn resume(&mut self, mut resume: Resume) -> Result<World, Stop> {
        loop {
            let (pc, from) = match resume {
                Resume::Stop(stop) => return Err(stop),
                Resume::Cache(pc) => {
                    self.context.cpu.pc = pc.0;
                    self.prepare(World::Kernel);
                    return Ok(World::Kernel);
                }
                // A switch of spaces that assembly made, and that is Rust's only now, may have led to other tables.
                Resume::Back(pc) if !self.parts.sides_known => {
                    resume = Resume::Cache(pc);
                    continue;
                }
                Resume::Back(pc) => {
                    self.context.cpu.pc = pc.0;
                    self.parts.code.publish_all();
                    let side = self.context.kernel;
                    space::go_to_guest(HostPa(side.ttbr0 & !0x3fff), side.contextidr as u8);
                    return Ok(World::Kernel);
                }
                // Whoever waits has waited.
                Resume::Guest(pc) | Resume::Wait(pc) => (pc, From::Spica),
                Resume::Link(pc, exit) => (pc, From::Exit(exit)),
                Resume::Guess(pc, exit) => (pc, From::Guess(exit)),
                Resume::Land(pc) => (pc, From::Mirror),
            };
            if let Some(exception) = self.deliverable(pc) {
                self.parts.counters.interrupts += 1;
                resume = self.take(exception);
                continue;
            }
            if !self.context.cpu.privileged() {
                self.parts.nested = 0;
                self.context.cpu.pc = pc.0;
                self.context.leave = 0;
                self.prepare(World::User);
                return Ok(World::User);
            }
            if self.context.cpu.psr & psr::T != 0 {
                return Err(Stop::ThumbKernel);
            }
            if self.context.cpu.psr & psr::E != 0 {
                return Err(Stop::BigEndianKernel);
            }
            match self.find_block(pc, from) {
                Ok(entry) => resume = Resume::Cache(entry),
                Err(fault) => {
                    self.parts.counters.guest_aborts += 1;
                    resume = self.take(Exception::PrefetchAbort { pc: pc.0, fsr: fault.ifsr(), far: pc.0 });
                }
            }
        }
    }

    /// Where the guest goes on that was about to be entered in `world`.
    fn unresumed(&self, world: World) -> Resume {
        let pc = self.context.cpu.pc;
        match world {
            World::Kernel => Resume::Cache(CachePc(pc)),
            World::User => Resume::Guest(GuestVa(pc)),
        }
    }

    /// The code-cache address for a guest PC: translated if need be, linked if asked for.
    fn find_block(&mut self, pc: GuestVa, from: From) -> Result<CachePc, Fault> {
        let parts = &mut self.parts;
        let pc = GuestVa(pc.0 & !3);
        // No block expects the other R8 to R12 of FIQ mode: the code that runs in it is translated for once.
        let fiq = self.context.cpu.mode() == Mode::Fiq;
        self.context.leave = fiq.into();
        if matches!(from, From::Spica)
            && !fiq
            && let Some(entry) = parts.translator.jump_cache.get(pc.0)
        {
            parts.nested = 0;
            return Ok(CachePc(entry));
        }
        let regime = regime(&self.context.cpu);
        let access = Access { kind: AccessKind::Fetch, privileged: true };
        let mapping = translate(&parts.ram, &regime, pc, access)?;
        if fiq || parts.volatile.contains(mapping.pa) {
            let block = parts.translate_once(pc, &mapping)?;
            parts.nested = 0;
            return Ok(parts.translator.entry(block));
        }
        parts.watch_code(pc, mapping.size);
        let known = parts.translator.lookup(pc, mapping.pa);
        let made = known.is_none();
        let block = match known {
            Some(block) => {
                parts.translator.set_global(block, !regime.mmu_on() || mapping.global);
                block
            }
            None => {
                let version = parts.translator.version();
                let block = parts.translate(pc, &mapping, regime.mmu_on())?;
                if parts.translator.version() != version {
                    // Everything was flushed, the exit is gone with it.
                    parts.translator.remember(block);
                    parts.nested = 0;
                    return Ok(parts.translator.entry(block));
                }
                block
            }
        };
        let megabyte = pc.0 / MEGABYTE;
        if regime.mmu_on() && (made || !parts.code_map.has(megabyte)) {
            let descriptor = spica_mmu::first_level_descriptor(&parts.ram, &regime, pc);
            parts.code_map.note(megabyte, descriptor.unwrap_or(0));
        }
        match from {
            From::Exit(exit) => {
                parts.translator.link(exit, block, &mut parts.code);
            }
            From::Guess(exit) => {
                parts.translator.guess(exit, pc, block, &mut parts.code);
            }
            From::Mirror => parts.translator.land(block, &mut parts.code),
            From::Spica => {}
        }
        parts.translator.remember(block);
        // The vector for system calls is looked through once it has a block.
        parts.sides_known &= pc.0 != self.context.cpu.vector_base().wrapping_add(8);
        parts.nested = 0;
        Ok(parts.translator.entry(block))
    }

    /// Takes an exception on the guest's behalf.
    pub fn take(&mut self, exception: Exception) -> Resume {
        self.parts.nested += 1;
        if self.parts.nested > MAX_NESTED {
            return Resume::Stop(Stop::ExceptionLoop);
        }
        // A virtual exception clears the local monitor (B1.8.3, note on exclusives: software must not rely on it, and
        // a guest must not inherit another context's reservation).
        crate::arch::barrier::clear_exclusive();
        let vector = self.context.cpu.take_exception(exception);
        self.branch(vector)
    }

    /// A branch to `target`, bit 0 of which selects the instruction set.
    pub fn branch(&mut self, target: u32) -> Resume {
        if target & 1 != 0 {
            self.context.cpu.psr |= psr::T;
            Resume::Guest(GuestVa(target & !1))
        } else {
            self.context.cpu.psr &= !psr::T;
            Resume::Guest(GuestVa(target & !3))
        }
    }

    /// The virtual interrupt that waits and may be taken before the instruction at `pc`; FIQ comes first (B1.8.1).
    fn deliverable(&self, pc: GuestVa) -> Option<Exception> {
        let (machine, cpu) = (&self.parts.machine, &self.context.cpu);
        if machine.fiq_asserted() && !cpu.fiq_masked() {
            Some(Exception::Fiq { pc: pc.0 })
        } else if machine.irq_asserted() && !cpu.irq_masked() {
            Some(Exception::Irq { pc: pc.0 })
        } else {
            None
        }
    }

    /// Whether a virtual interrupt waits and may be taken.
    pub fn interrupt_deliverable(&self) -> bool {
        self.deliverable(GuestVa(0)).is_some()
    }

    /// Puts the guest's tables, DACR and the rest of its world in place, and what `fast.s` needs to change worlds.
    fn prepare(&mut self, world: World) {
        let mut changing = self.parts.later.as_ref().is_some_and(Later::is_due);
        // Between two blocks, which is where user code begins at the latest: that is entered from here then.
        if changing
            && world == World::User
            && let Some(later) = self.parts.later.take()
        {
            self.parts.translator.set_options(later.options(), &mut self.parts.code);
            self.parts.unprotect_code();
            changing = false;
        }
        let Vm { context, parts, .. } = self;
        let cpu = &mut context.cpu;
        let mmu_on = cpu.cp15.sctlr & SCTLR_M != 0;
        match world {
            World::Kernel => {
                cpu.page.dacr_real = cpu.cp15.dacr;
                parts.code.publish_all();
            }
            World::User => {
                if core::mem::take(&mut cpu.page.stale) != 0 {
                    cache::invalidate_instructions();
                }
                parts.mirror.set_thread_id_read_only(cpu.page.tpidruro);
                parts.sides_known &= !parts.call_vector.release();
            }
        }
        let guest_dacr = cpu.cp15.dacr;
        let view = if world == World::Kernel { View::Kernel } else { View::User };
        let dacr = if mmu_on { SEPARATION.host_dacr(guest_dacr, view) } else { SEPARATION.flat_dacr(view) };
        if !core::mem::replace(&mut parts.sides_known, true) {
            Self::learn_sides(context, parts);
        } else if parts.plain && parts.spaces.is_behind(&parts.shadow) {
            Self::learn_space(context, parts);
        }
        Self::note_interrupts(context, parts, changing);
        parts.mirror.set_dacr(dacr);
        if !parts.vfp[world as usize] {
            parts.mirror.disable_vfp();
        }
        context.cpu.page.fpexc_real = if parts.mirror.vfp_on() { FPEXC_EN } else { 0 };
        let both = vfp_allowed(&context.cpu, World::Kernel) && vfp_allowed(&context.cpu, World::User);
        context.vfp_ready =
            u32::from(both && parts.mirror.holds_vfp() && parts.translator.options().quick_vfp && !changing);
        let side = context.side(world);
        (side.dacr, side.guest_dacr) = (dacr, guest_dacr);
        let side = *side;
        if mmu_on {
            context.note_dacr(guest_dacr);
        }
        space::go_to_guest(HostPa(side.ttbr0 & !0x3fff), side.contextidr as u8);
    }

    /// What translated code and assembly need to know of the virtual interrupts that wait. `changing`: the translator is to be
    /// changed where user code begins.
    fn note_interrupts(context: &mut Context, parts: &Parts, changing: bool) {
        let waits = parts.machine.irq_asserted();
        context.cpu.page.pending = if waits { u32::MAX } else { 0 };
        let plain = parts.plain && !changing && !waits && !parts.machine.fiq_asserted();
        context.long_way = u32::from(!plain);
    }

    /// A device has been accessed by translated code, and nothing else has happened: the guest can go on at `pc`, unless there is
    /// something for others to see to.
    pub fn goes_on_behind_device(&mut self, host: &mut Host, pc: CachePc) -> bool {
        let Vm { context, parts, .. } = self;
        if !parts.sides_known || parts.machine.wants_service() || host.wants_attention() {
            return false;
        }
        context.cpu.pc = pc.0;
        Self::note_interrupts(context, parts, parts.later.as_ref().is_some_and(Later::is_due));
        parts.code.publish_all();
        let side = context.kernel;
        space::go_to_guest(HostPa(side.ttbr0 & !0x3fff), side.contextidr as u8);
        true
    }

    /// What [`Self::prepare`] needs to know of system registers, after a change of any.
    fn learn_sides(context: &mut Context, parts: &mut Parts) {
        for (world, view) in [(World::Kernel, View::Kernel), (World::User, View::User)] {
            let root = parts.shadow.root(view);
            let side = context.side(world);
            (side.ttbr0, side.contextidr) = (root.ttbr0.0 | TTBR_WALK, root.asid.into());
            parts.vfp[world as usize] = vfp_enabled(&context.cpu, world);
        }
        #[cfg(feature = "spill-techniques")]
        context.set_spill(parts.translator.options().spill);
        let sctlr = context.cpu.cp15.sctlr;
        // What the handlers in assembly do not look at must be the same in both worlds, and settle nothing.
        parts.plain = parts.translator.options().fast_switches
            && sctlr & (SCTLR_M | SCTLR_EE | SCTLR_TE) == SCTLR_M
            && parts.vfp[0] == parts.vfp[1];
        parts.plain_tables = parts.translator.options().quick_faults && quick::is_plain(&parts.active);
        parts.mirror.set_sctlr(sctlr);
        context.tlb_asid = parts.shadow.sole_asid().map_or(NO_ASID, u32::from);
        context.note_space();
        context.watched = parts.shadow.watched_megabytes().as_ptr();
        context.watched_pages = Context::watched_pages(parts.shadow.watched_pages());
        context.table_offset = parts.tables.va_offset();
        let call = parts.call_target(&context.cpu);
        context.set_vectors(context.cpu.vector_base(), call);
        // What was given away may be somebody else's: tables there are not to be read.
        context.quick = u32::from(parts.plain_tables && parts.ram.absent_count() == 0 && !parts.shadow.fills_around());
        context.private = parts.shadow.private_megabytes().as_ptr();
        context.hints = parts.shadow.page_hints();
        context.aliases = parts.shadow.aliases();
        context.home = space::home().0 | TTBR_WALK;
        context.ram = parts.ram.place();
        if parts.plain {
            Self::learn_space(context, parts);
        }
    }

    /// The guest has turned VFP on or off, by FPEXC alone.
    pub fn note_vfp(&mut self) {
        let Vm { context, parts, .. } = self;
        let alike = parts.vfp[0] == parts.vfp[1];
        parts.vfp = [World::Kernel, World::User].map(|world| vfp_enabled(&context.cpu, world));
        // Of what Vm::learn_sides learns, nothing but this depends on it.
        parts.sides_known &= (parts.vfp[0] == parts.vfp[1]) == alike;
    }

    /// Notes the active space as one that assembly may switch to.
    fn learn_space(context: &Context, parts: &mut Parts) {
        // What holds nothing of its ASID is good under any; whose pages may be forgotten is another question.
        let asid = parts.shadow.holds_private().then(|| context.cpu.cp15.asid());
        let tlb_asid = asid.map_or(NO_ASID, |_| context.tlb_asid);
        parts.spaces.catch_up(&mut parts.shadow);
        parts.spaces.enter(context, parts.shadow.active_space(), asid, tlb_asid);
    }

    /// Runs the guest in `world` until a trap that is not answered quickly.
    fn enter(&mut self, host: &mut Host, mut world: World) -> Left {
        loop {
            self.parts.spaces.catch_up(&mut self.parts.shadow);
            self.context.set_entries(world, &mut self.parts.translator);
            self.forget_returns();
            let (trap, left) = self.context.enter(world);
            self.arrived(left);
            match trap::quick::handle(self, host, left, trap) {
                Answer::Enter(next) if self.parts.is_settled() => world = next,
                Answer::Enter(next) => return Left::Answered(self.unresumed(next)),
                Answer::Resume(resume) => return Left::Answered(resume),
                Answer::None => return Left::Trap(trap, left),
            }
        }
    }

    /// Empties the guest's shadow stack if its code cache was flushed.
    fn forget_returns(&mut self) {
        let translator = &self.parts.translator;
        if self.parts.returns_of != Some(translator.generation()) {
            self.parts.returns_of = Some(translator.generation());
            shadow_stack::clear(self.context.cpu.page, translator.layout());
        }
    }

    /// The guest was left in `world`, which may not be the one that was entered.
    fn arrived(&mut self, world: World) {
        let side = *self.context.side(world);
        space::found(HostPa(side.ttbr0 & !0x3fff), side.contextidr as u8);
        self.parts.mirror.found_dacr(side.dacr);
        self.parts.mirror.found_vfp();
    }

    /// Activates the shadow tables for the guest's translation registers, after a change.
    pub fn regime_changed(&mut self) -> Result<(), Stop> {
        space::go_home();
        let parts = &mut self.parts;
        let new = regime(&self.context.cpu);
        let old = core::mem::replace(&mut parts.active, new);
        // A process switch changes TTBR0 and the ASID. Anything more changes what global mappings mean, too.
        let process_switch = Regime { ttbr0: old.ttbr0, asid: old.asid, dacr: old.dacr, ..new } == old;
        if !process_switch {
            parts.code_map.forget_descriptors();
            parts.sites.clear();
            parts.call_vector.forget();
            parts.spaces.clear();
            parts.translator.unlink_all(&mut parts.code);
        }
        parts.sides_known = false;
        let created = parts.shadow.spaces_created();
        parts.shadow.activate(&new, &mut parts.tables, &mut RealTlb).map_err(|_| Stop::OutOfTables)?;
        // A space that is known was looked at when it was new, and is looked at again at each interrupt.
        if !process_switch || parts.shadow.spaces_created() != created {
            parts.backlog.look_through_cache();
        }
        Ok(())
    }
}

/// Where the guest goes on if other things happen in between: devices may have raised interrupts or written over code.
fn at_leisure(resume: Resume) -> Resume {
    match resume {
        Resume::Back(pc) => Resume::Cache(pc),
        Resume::Link(pc, _) | Resume::Guess(pc, _) | Resume::Land(pc) => Resume::Guest(pc),
        Resume::Cache(_) | Resume::Guest(_) | Resume::Wait(_) | Resume::Stop(_) => resume,
    }
}

/// Whether the guest's VFP is on for what runs in `world` (CPACR, B4.1.40, and FPEXC.EN).
pub fn vfp_enabled(cpu: &spica_vcpu::Vcpu, world: World) -> bool {
    vfp_allowed(cpu, world) && cpu.cp15.fpexc & FPEXC_EN != 0
}

fn vfp_allowed(cpu: &spica_vcpu::Vcpu, world: World) -> bool {
    let access = cpu.cp15.cpacr >> 20 & 0xf;
    access == 0xf || access == 0b0101 && world == World::Kernel
}

/// The guest's translation regime.
pub fn regime(cpu: &spica_vcpu::Vcpu) -> Regime {
    let cp15 = &cpu.cp15;
    Regime {
        sctlr: cp15.sctlr,
        ttbr0: cp15.ttbr0,
        ttbr1: cp15.ttbr1,
        ttbcr: cp15.ttbcr,
        dacr: cp15.dacr,
        prrr: cp15.prrr,
        nmrr: cp15.nmrr,
        asid: cp15.asid(),
        pxn: cpu.id.mmfr[0] & 0xf >= 4,
    }
}

impl Parts {
    /// Brings the devices up to date: time has passed, and somebody may have typed. True if virtio devices had work to do.
    pub fn catch_up(&mut self, host: &mut Host) -> bool {
        match self.devices.listening_console() {
            Some(slot) if host.has_input() => self.machine.with_slot(slot, spica_virtio::Slot::poke),
            Some(_) => {}
            None => host.feed_console(&mut self.machine),
        }
        let worked = self.serve(host);
        let now = host.guest_now(self.start);
        self.machine.update(now);
        self.pass_output(host);
        worked
    }

    /// What the guest's UART has sent goes to the console.
    pub fn pass_output(&mut self, host: &mut Host) {
        if !self.machine.has_output() {
            return;
        }
        self.machine.take_output(host.console_room(), |byte| {
            host.console_put(byte);
            if let Some(later) = &mut self.later {
                later.printed(byte);
            }
        });
        host.console_printed(self.machine.has_output());
    }

    /// Whether an interrupt is there for the guest, masked or not.
    pub fn interrupted(&self) -> bool {
        self.machine.irq_asserted() || self.machine.fiq_asserted()
    }

    /// Translates the block at `pc`. Its page is write-protected first, so that no change of it goes unseen.
    fn translate(&mut self, pc: GuestVa, mapping: &Mapping, mmu_on: bool) -> Result<spica_dbt::BlockId, Fault> {
        if !self.ram.contains(mapping.pa) {
            return Err(Fault::without_descriptor(FaultKind::External));
        }
        space::go_home();
        self.shadow.protect_code_page(mapping.pa, &mut self.tables, &mut RealTlb);
        let words = self.ram.page(mapping.pa).ok_or(Fault::without_descriptor(FaultKind::External))?;
        let global = !mmu_on || mapping.global;
        let flushes = self.translator.stats().flushes;
        let block = self.translator.translate(pc, mapping.pa, global, words, &mut self.code);
        if self.translator.stats().flushes != flushes {
            // No code is left but this block.
            self.unprotect_code();
            self.shadow.protect_code_page(mapping.pa, &mut self.tables, &mut RealTlb);
        }
        Ok(block)
    }

    /// Translates the block at `pc`, in a volatile page or in FIQ mode, for one execution: what it was made from may change
    /// any time, or it is not for other modes. So it is never found again, nor linked to.
    fn translate_once(&mut self, pc: GuestVa, mapping: &Mapping) -> Result<spica_dbt::BlockId, Fault> {
        let external = Fault::without_descriptor(FaultKind::External);
        if self.volatile.contains(mapping.pa) {
            self.translator.drop_page(mapping.pa, &mut self.code);
            let words = self.ram.page(mapping.pa).ok_or(external)?;
            self.snapshot.copy_from_slice(words);
        } else {
            space::go_home();
            self.shadow.protect_code_page(mapping.pa, &mut self.tables, &mut RealTlb);
        }
        let words = self.ram.page(mapping.pa).ok_or(external)?;
        Ok(self.translator.translate_once(pc, mapping.pa, words, &mut self.code))
    }

    /// What is at `va`, mapped by something as large as `size`, has been looked through for code, or in it. TLB maintenance there
    /// must come here, to be looked at with [`CodeMap::may_have_code`].
    pub fn watch_code(&mut self, va: GuestVa, size: PageSize) {
        self.code_map.watch(va.0);
        self.shadow.watch(va, size);
    }

    /// The words that live blocks from the page at `pa` were made from.
    pub fn source_words(&self, pa: GuestPa) -> Option<&[u32; 1024]> {
        if self.volatile.contains(pa) { Some(&self.snapshot) } else { self.ram.page(pa) }
    }

    /// Forgets which pages are volatile, and everything that was translated: the machine is reset.
    pub fn forget_code(&mut self) {
        self.volatile.clear();
        self.call_vector = CallVector::default();
        self.sites.clear();
        self.code_map.forget_descriptors();
        self.backlog.clear();
        self.translator.set_vfp(false, &mut self.code);
        self.translator.flush(&mut self.code);
        self.unprotect_code();
    }

    /// What the guest wrote at `pa` may be in its tables, where these are tracked.
    pub fn table_changes(&mut self, pa: GuestPa, bytes: u32) {
        if self.shadow.is_table_page(pa) {
            space::go_home();
            self.shadow.table_written(pa, bytes, &mut self.tables, &mut RealTlb);
        }
    }

    /// No translated code is left: the pages that it came from may be written. What rests on their protection is forgotten.
    pub fn unprotect_code(&mut self) {
        self.shadow.unprotect_all_code_pages(&mut self.tables, &mut RealTlb);
        self.call_vector.forget();
        self.sides_known = false;
    }

    /// Drops what was translated from the page at `pa`, which is about to be written, and lets it be written.
    pub fn code_changes(&mut self, pa: GuestPa) {
        self.counters.code_page_writes += 1;
        self.sides_known &= !self.call_vector.forget_page(pa);
        self.translator.drop_page(pa, &mut self.code);
        self.shadow.unprotect_code_page(pa);
    }
}
