//! What a debugger does with a guest: it stops it between two instructions, looks at it, changes it, and lets it go on.
//!
//! None of this costs a guest anything that has no debugger. Who wants something of a guest puts
//! [`Stop::Debugger`] where it goes on: so [`Vm::run`] loads what is to be loaded, does what is left to do, and comes
//! back at once. What is wanted is done then, in the guest's turn ([`Vm::debug_turn`]). A breakpoint is an address for
//! which no block is made ([`spica_dbt::MOST_BREAKPOINTS`]): it is looked for where a block would be translated.
//! Breakpoints and single steps of user code are another matter: [`super::user_code`].
//!
//! A guest whose kernel was interrupted in a block is let run to the end of it, as for an interrupt; its user code can
//! be stopped anywhere. A single step is a block of one instruction. Interrupts of the guest wait meanwhile.

use alloc::vec::Vec;

use spica_addr::{GuestPa, GuestVa, pieces};
use spica_console::debug::{self, Group, Space};
use spica_dbt::Start;
use spica_dbt::at::address;
use spica_mmu::{Access, AccessKind, Permission, lookup, translate};
use spica_vcpu::{Exception, psr};

use super::{Resume, Stop, Vcpu, Vm, regime, trap};
use crate::arch::cache;
use crate::engine::{Engine, Source};
use crate::host::Host;
use crate::host_cpu::HostCpu;
use crate::world::{Privilege, Trap};

/// Traps that the guest makes in one turn on its way to the end of a block: more than a block of 32 instructions has.
const TRAPS: u32 = 64;

/// What a debugger wants of a virtual CPU.
pub struct Debug {
    wish: Option<Wish>,
    /// With a wish, where the guest goes on.
    at: Resume,
    /// Breakpoints at which the guest stands only if a register has a value: of those at an address, of one.
    conditions: Vec<(GuestVa, (u8, u32))>,
    /// A single step of user code has begun there, and is over when the guest is elsewhere.
    in_step: Option<GuestVa>,
    /// A change of TTBR0 is caught.
    ttbr: Option<CatchTtbr>,
    /// The last one since the guest went on: from, and to.
    ttbr_caught: Option<(u32, u32)>,
}

/// A change of TTBR0 that is caught.
struct CatchTtbr {
    /// To this, or to any.
    wanted: Option<u32>,
    /// Its value so far.
    now: u32,
}

/// What of TTBR0 says where the tables are, whatever TTBCR.N is (B4.1.154). The rest is memory attributes.
const TTBR_BASE: u32 = !0x7f;

/// Conditions of breakpoints at most.
const MOST_CONDITIONS: usize = 64;

/// What is to be done when the guest's turn comes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wish {
    /// It is to stand between two instructions.
    Halt,
    /// It executes an instruction before that.
    Step,
    /// It executes an instruction, and goes on.
    StepAndGo,
    /// It goes on when it stands between two instructions.
    Go,
}

impl Default for Debug {
    fn default() -> Self {
        Debug {
            wish: None,
            at: Resume::Wait(GuestVa(0)),
            conditions: Vec::new(),
            in_step: None,
            ttbr: None,
            ttbr_caught: None,
        }
    }
}

/// What came of a turn.
pub enum Turn {
    /// There is more to do.
    More,
    /// The guest stands between two instructions.
    Halted,
    /// It goes on.
    Goes,
    /// It is over.
    Stop(Stop),
}

impl Vcpu {
    /// It goes on there, once a debugger has got what it wants.
    pub(super) fn go_on_at(&mut self, resume: Resume) {
        match self.debug.wish {
            Some(_) => (self.debug.at, self.debug.wish) = (resume, Some(Wish::Halt)),
            None => self.next = resume,
        }
    }

    fn wish(&mut self, wish: Wish) {
        if self.debug.wish.is_none() {
            self.debug.at = self.next;
        }
        (self.debug.wish, self.next) = (Some(wish), Resume::Stop(Stop::Debugger));
    }

    /// Nothing is wanted of it any more.
    fn forget_wish(&mut self) {
        if self.debug.wish.take().is_some() {
            self.next = self.debug.at;
        }
    }
}

impl Vm {
    /// The guest has come to a breakpoint, at this address with the state in bit 0.
    #[cold]
    pub(super) fn at_breakpoint(&mut self, pc: GuestVa) -> Stop {
        self.vcpu.next = Resume::Guest(address(pc));
        let wish = if self.is_wanted_at(pc) { Wish::Halt } else { Wish::StepAndGo };
        self.vcpu.wish(wish);
        Stop::Debugger
    }

    /// Whether the guest is to stand at the breakpoint at `pc`.
    fn is_wanted_at(&self, pc: GuestVa) -> bool {
        let regs = &self.vcpu.context.cpu.regs;
        let holds = |&(n, value): &(u8, u32)| regs.get(usize::from(n)) == Some(&value);
        let mut here = self.vcpu.debug.conditions.iter().filter(|(at, _)| *at == pc).map(|(_, condition)| condition);
        // Without conditions, always.
        here.clone().next().is_none() || here.any(holds)
    }

    /// The guest's PC, if it stands between two instructions.
    pub fn stands_at(&self) -> Option<GuestVa> {
        match self.vcpu.next {
            Resume::Guest(pc) | Resume::Wait(pc) => Some(pc),
            _ => None,
        }
    }

    /// Whether it stands between two instructions, with nothing left to do.
    pub fn stands(&self) -> bool {
        self.stands_at().is_some() && self.loading.is_done() && self.is_settled()
    }

    /// It is to stand between two instructions.
    pub fn halt_soon(&mut self) {
        self.vcpu.wish(Wish::Halt);
    }

    /// It is to execute an instruction.
    pub fn step_soon(&mut self) {
        self.forget_hit();
        self.vcpu.debug.ttbr_caught = None;
        self.vcpu.wish(Wish::Step);
    }

    /// It is to go on, over a breakpoint if there is one where it stands.
    pub fn go_soon(&mut self) {
        self.forget_hit();
        self.vcpu.debug.ttbr_caught = None;
        self.vcpu.mmu.forget_cleared_breakpoints();
        match self.vcpu.next {
            Resume::Guest(pc) if self.stops_at(pc) => self.vcpu.wish(Wish::StepAndGo),
            _ => {}
        }
    }

    /// The guest is to stand when it has changed TTBR0, to this if it is said.
    pub fn catch_ttbr(&mut self, wanted: Option<u32>) {
        self.vcpu.debug.ttbr = Some(CatchTtbr { wanted, now: self.vcpu.context.cpu.cp15.ttbr0 });
        // None that assembly knows: all switches come here.
        self.vcpu.mmu.set_knows_spaces(false);
    }

    /// No longer.
    pub fn uncatch_ttbr(&mut self) {
        if self.vcpu.debug.ttbr.take().is_some() {
            self.vcpu.mmu.set_knows_spaces(true);
        }
    }

    /// What was caught since the guest went on: from, and to.
    pub fn ttbr_caught(&self) -> Option<(u32, u32)> {
        self.vcpu.debug.ttbr_caught
    }

    /// The guest goes on at `resume` behind a write to a register of its translation regime, if that is not what its
    /// debugger waits for.
    #[inline]
    pub(super) fn look_for_ttbr(&mut self, resume: Resume) -> Resume {
        if self.vcpu.debug.ttbr.is_some() { self.compare_ttbr(resume) } else { resume }
    }

    #[cold]
    fn compare_ttbr(&mut self, resume: Resume) -> Resume {
        let debug = &mut self.vcpu.debug;
        let new = self.vcpu.context.cpu.cp15.ttbr0;
        let Some(catch) = &mut debug.ttbr else { return resume };
        let old = core::mem::replace(&mut catch.now, new);
        let differs = |other: u32| (other ^ new) & TTBR_BASE != 0;
        if !differs(old) || catch.wanted.is_some_and(differs) {
            return resume;
        }
        debug.ttbr_caught = Some((old, new));
        if debug.wish.is_some() {
            // It is executing an instruction for the debugger, and stands behind it anyway.
            return resume;
        }
        self.vcpu.next = resume;
        self.vcpu.wish(Wish::Halt);
        Resume::Stop(Stop::Debugger)
    }

    /// The debugger has gone.
    pub fn forget_debugger(&mut self, core: &mut HostCpu) {
        self.clear_watches(core);
        self.common.engine.clear_breakpoints();
        self.vcpu.mmu.forget_user_breakpoints();
        self.vcpu.debug.conditions.clear();
        self.vcpu.debug.in_step = None;
        self.uncatch_ttbr();
        self.vcpu.forget_wish();
        self.forget_counters();
        self.forget_checker();
    }

    /// Counting or checking ends as soon as the guest stands between two instructions, and it goes on.
    pub(super) fn stop_counting_and_go(&mut self) {
        self.common.uncounting = true;
        self.vcpu.wish(Wish::Go);
    }

    /// Does some of what a debugger wants, in the guest's turn.
    pub fn debug_turn(&mut self, core: &mut HostCpu, host: &mut Host) -> Turn {
        let Some(wish) = self.vcpu.debug.wish else { return Turn::Goes };
        if let Err(stop) = trap::catch_up(self, core) {
            return self.stopped_under_debugger(stop);
        }
        let mut resume = self.vcpu.debug.at;
        let next = match wish {
            Wish::Step => Wish::Halt,
            Wish::StepAndGo => Wish::Go,
            Wish::Halt | Wish::Go => wish,
        };
        if next != wish
            && let Resume::Guest(pc) | Resume::Wait(pc) = resume
        {
            resume = match self.begin_step(core, host, pc) {
                Ok(resume) => resume,
                // It stands where it stood.
                Err(problem) => {
                    log::warn!("guest {}: {problem}", self.name());
                    return self.arrived_for_debugger(core, next, resume);
                }
            };
        }
        self.vcpu.debug.wish = Some(next);
        for _ in 0..TRAPS {
            let pc = match resume {
                // What runs in place stands between two instructions at any time.
                Resume::Cache(pc) | Resume::Back(pc) if self.common.engine.is_guest_address(pc) => {
                    return self.arrived_for_debugger(core, next, Resume::Guest(GuestVa(pc.0)));
                }
                Resume::Cache(pc) | Resume::Back(pc) => pc,
                Resume::Stop(stop) => return self.stopped_under_debugger(stop),
                Resume::Led(pc, _) => return self.arrived_for_debugger(core, next, Resume::Guest(pc)),
                Resume::Guest(pc) if self.vcpu.debug.in_step == Some(pc) && !self.vcpu.context.cpu.privileged() => {
                    if !self.is_settled() {
                        break;
                    }
                    resume = self.run_user_step(core, host, pc);
                    continue;
                }
                Resume::Guest(_) | Resume::Wait(_) => return self.arrived_for_debugger(core, next, resume),
            };
            self.vcpu.debug.at = Resume::Cache(pc);
            if !self.is_settled() {
                break;
            }
            // Every way out of this block leads here.
            self.common.engine.leave_soon(pc);
            self.vcpu.context.cpu.pc = pc.0;
            self.prepare(core, Privilege::Kernel);
            (self.vcpu.context.leave, self.vcpu.context.slow_path) = (1, 1);
            self.run_goes_on(Privilege::Kernel);
            let (trap, left) = self.enter_once(Privilege::Kernel);
            self.arrived(core, host, left);
            if self.common.engine.blocks.counts() && left == Privilege::Kernel {
                self.note_trapped(core, trap);
            }
            resume = trap::handle(self, core, host, left, trap);
        }
        self.vcpu.debug.at = match resume {
            Resume::Back(pc) => Resume::Cache(pc),
            resume => resume,
        };
        Turn::More
    }

    /// Runs user code, which is at `pc`, until its next trap: by that, it has executed an instruction, or not yet.
    fn run_user_step(&mut self, core: &mut HostCpu, host: &mut Host, pc: GuestVa) -> Resume {
        self.vcpu.nested = 0;
        self.vcpu.context.cpu.pc = pc.0;
        self.prepare(core, Privilege::User);
        (self.vcpu.context.leave, self.vcpu.context.slow_path) = (0, 1);
        let (trap, left) = self.enter_once(Privilege::User);
        self.arrived(core, host, left);
        match (trap, left) {
            (Trap::Irq | Trap::Fiq, Privilege::User) => trap::handle_in_step(self, core, host),
            _ => trap::handle(self, core, host, left, trap),
        }
    }

    /// Makes a block of the instruction at `pc`, if it is the kernel's. Where to go on for it to be executed.
    ///
    /// # Errors
    /// If there is no memory.
    fn begin_step(&mut self, core: &mut HostCpu, host: &mut Host, pc: GuestVa) -> Result<Resume, &'static str> {
        if !self.vcpu.context.cpu.privileged() {
            let done = self.begin_user_step(core, host, pc)?;
            self.vcpu.debug.in_step = if done.is_none() { Some(pc) } else { None };
            return Ok(done.unwrap_or(Resume::Guest(pc)));
        }
        let Vm { vcpu, common, .. } = self;
        let cpu = &vcpu.context.cpu;
        if cpu.psr & psr::E != 0 {
            return Ok(Resume::Stop(Stop::BigEndianKernel));
        }
        let (pc, it) = vcpu.entry(pc);
        let regime = regime(cpu);
        let access = Access { kind: AccessKind::Fetch, privileged: true };
        let host_space = core.enter_host_space();
        let made = translate(&common.ram.at(host_space), &regime, address(pc), access).and_then(|mapping| {
            let next_page = common.next_page(host_space, &regime, pc, &mapping)?.map(|(next, _)| next);
            let source = Source { va: pc, start: Start { it, next_page }, pa: mapping.pa, global: false };
            common.translate_once(&mut vcpu.mmu, host_space, source, true)
        });
        let pc = address(pc);
        Ok(match made {
            Ok(entry) => {
                vcpu.nested = 0;
                vcpu.enter_block();
                Resume::Cache(entry)
            }
            Err(fault) => {
                common.counters.guest_aborts += 1;
                vcpu.take(Exception::PrefetchAbort { pc: pc.0, fsr: fault.ifsr(), far: pc.0 })
            }
        })
    }

    /// The guest stands between two instructions.
    fn arrived_for_debugger(&mut self, core: &mut HostCpu, wish: Wish, at: Resume) -> Turn {
        self.vcpu.debug.wish = None;
        self.vcpu.next = at;
        self.end_user_step();
        if let Err(stop) = trap::catch_up(self, core) {
            return Turn::Stop(stop);
        }
        // What was executed may have left something to do, which the guest's next turn begins with.
        if !self.is_settled() {
            self.vcpu.wish(wish);
            return Turn::More;
        }
        if core::mem::take(&mut self.common.uncounting) {
            self.forget_counters();
            self.forget_checker();
        }
        if wish == Wish::Go && self.vcpu.debug.ttbr_caught.is_none() { Turn::Goes } else { Turn::Halted }
    }

    /// A single step of user code is over, if there was one.
    fn end_user_step(&mut self) {
        self.vcpu.debug.in_step = None;
        // To forget takes no memory.
        let _ = self.vcpu.mmu.step_user_code(None);
    }

    fn stopped_under_debugger(&mut self, stop: Stop) -> Turn {
        self.vcpu.debug.wish = None;
        self.end_user_step();
        Turn::Stop(stop)
    }
}

/// What can be asked and told while the guest stands between two instructions, and another one or nobody has the core.
impl Vm {
    /// The registers of a group, in the order of [`Group`].
    pub fn registers(&mut self, group: Group) -> Vec<u32> {
        let pc = self.stands_at().unwrap_or(GuestVa(0)).0;
        let thread_id = self.vcpu.thread_id_read_write();
        let cpu = &mut self.vcpu.context.cpu;
        match group {
            Group::Core => cpu.regs.iter().copied().chain([pc, cpu.cpsr()]).collect(),
            Group::Banked => (0..Group::Banked.count()).filter_map(|n| cpu.banked(n).map(|place| *place)).collect(),
            Group::System => {
                let cp15 = &cpu.cp15;
                alloc::vec![
                    cp15.sctlr,
                    cp15.cpacr,
                    cp15.ttbr0,
                    cp15.ttbr1,
                    cp15.ttbcr,
                    cp15.dacr,
                    cp15.dfsr,
                    cp15.ifsr,
                    cp15.dfar,
                    cp15.ifar,
                    cp15.vbar,
                    cp15.contextidr,
                    thread_id,
                    cpu.page.tpidruro,
                    cpu.page.tpidrprw,
                    cp15.fpexc,
                ]
            }
            Group::Vfp => {
                let (registers, fpscr) = self.vcpu.core_state.vfp();
                let words = registers.iter().flat_map(|&d| [d as u32, (d >> 32) as u32]);
                words.chain([*fpscr]).collect()
            }
        }
    }

    /// Sets register `n` of a group.
    ///
    /// # Errors
    /// If there is none, or it cannot be set.
    pub fn set_register(&mut self, group: Group, n: usize, value: u32) -> Result<(), &'static str> {
        const NONE: &str = "no such register";
        let cpu = &mut self.vcpu.context.cpu;
        match (group, n) {
            (Group::Core, 0..=14) => cpu.regs[n] = value,
            (Group::Core, 15) => self.vcpu.next = Resume::Guest(GuestVa(value)),
            (Group::Core, 16) => cpu.set_cpsr(value),
            (Group::Core, _) => return Err(NONE),
            (Group::Banked, _) => *cpu.banked(n).ok_or(NONE)? = value,
            (Group::System, _) => return Err("system control registers are only shown"),
            (Group::Vfp, 0..=63) => {
                let place = &mut self.vcpu.core_state.vfp().0[n / 2];
                let shift = 32 * (n as u32 % 2);
                *place = *place & !(0xffff_ffff << shift) | u64::from(value) << shift;
            }
            (Group::Vfp, 64) => *self.vcpu.core_state.vfp().1 = value,
            (Group::Vfp, _) => return Err(NONE),
        }
        Ok(())
    }

    /// Where `address` lies, whoever may access it there.
    fn place(&self, core: &mut HostCpu, space: Space, address: u32) -> Option<GuestPa> {
        match space {
            Space::Physical => Some(GuestPa(address)),
            Space::Virtual => {
                let memory = self.common.ram.at(core.enter_host_space());
                lookup(&memory, &regime(&self.vcpu.context.cpu), GuestVa(address)).ok().map(|mapping| mapping.pa)
            }
        }
    }

    /// Reads memory: as much of it as there is RAM without a gap.
    pub fn read_memory(&self, core: &mut HostCpu, space: Space, address: u32, bytes: usize) -> Vec<u8> {
        let mut read = Vec::with_capacity(bytes);
        for (at, len) in pieces(address, bytes) {
            let Some(pa) = self.place(core, space, address.wrapping_add(at as u32)) else { break };
            let Some(found) = self.common.ram.bytes(core.enter_host_space(), pa, len as u32) else { break };
            read.extend_from_slice(found);
        }
        read
    }

    /// Where `pattern` begins in so many bytes of physical memory, if it does.
    pub fn find(&self, core: &mut HostCpu, address: u32, bytes: u32, pattern: &[u8]) -> Option<u32> {
        let host_space = core.enter_host_space();
        pieces(address, bytes as usize).find_map(|(at, len)| {
            let pa = address.wrapping_add(at as u32);
            // It may end in the next page, if there is one.
            let beyond = len + pattern.len() - 1;
            let piece = self.common.ram.bytes(host_space, GuestPa(pa), beyond as u32);
            let piece = piece.or_else(|| self.common.ram.bytes(host_space, GuestPa(pa), len as u32))?;
            debug::find(piece, pattern).map(|found| pa.wrapping_add(found as u32))
        })
    }

    /// Writes memory, whoever may write there; code that was made from it is dropped.
    ///
    /// # Errors
    /// If not all of it is RAM: nothing is written.
    pub fn write_memory(
        &mut self,
        core: &mut HostCpu,
        space: Space,
        address: u32,
        bytes: &[u8],
    ) -> Result<(), &'static str> {
        let mut places = Vec::new();
        for (at, len) in pieces(address, bytes.len()) {
            let pa = self.place(core, space, address.wrapping_add(at as u32));
            let pa = pa.filter(|&pa| self.common.ram.has(pa, len as u32)).ok_or("there is no RAM")?;
            places.push((pa, &bytes[at..at + len]));
        }
        let Vm { vcpu, common, .. } = self;
        let host_space = core.enter_host_space();
        for (pa, piece) in places {
            if vcpu.mmu.shadow().is_code_page(pa) {
                common.code_changes(&mut vcpu.mmu, pa);
            }
            vcpu.mmu.table_written(host_space, pa, piece.len() as u32);
            if let Some(to) = common.ram.bytes_mut(host_space, pa, piece.len() as u32) {
                to.copy_from_slice(piece);
                // User code may be fetched from there.
                cache::clean_to_pou(to.as_ptr() as u32, to.len() as u32);
            }
        }
        vcpu.context.cpu.page.stale = 1;
        Ok(())
    }

    /// Sets a breakpoint at an address with the state in bit 0, or adds to what the guest stands there for: that this
    /// register has this value. It is one for whoever may execute there, kernel or user code or both.
    ///
    /// # Errors
    /// If there can be none.
    pub fn set_breakpoint(
        &mut self,
        core: &mut HostCpu,
        pc: GuestVa,
        condition: Option<(u8, u32)>,
    ) -> Result<(), &'static str> {
        if pc.0 & 3 == 2 {
            return Err("no A32 instruction is there");
        }
        let regime = regime(&self.vcpu.context.cpu);
        let mapping = lookup(&self.common.ram.at(core.enter_host_space()), &regime, address(pc)).ok();
        let of_user = mapping.as_ref().is_none_or(|mapping| mapping.user != Permission::None);
        // A kernel may run from memory that user code reaches, but hardly from that of a process.
        let of_kernel = mapping.is_none_or(|mapping| mapping.user == Permission::None || mapping.global);
        let always = self.has_breakpoint(pc) && !self.vcpu.debug.conditions.iter().any(|(at, _)| *at == pc);
        let conditions = &mut self.vcpu.debug.conditions;
        if condition.is_some() && (conditions.len() == MOST_CONDITIONS || conditions.try_reserve(1).is_err()) {
            return Err("there are too many breakpoints with conditions");
        }
        if of_kernel && !self.common.engine.set_breakpoint(pc) {
            return Err("there are too many breakpoints");
        }
        if of_user && let Err(problem) = self.set_user_breakpoint(core, pc) {
            self.common.engine.clear_breakpoint(pc);
            return Err(problem);
        }
        let conditions = &mut self.vcpu.debug.conditions;
        match condition {
            Some(condition) if !always => conditions.push((pc, condition)),
            Some(_) => {}
            None => conditions.retain(|(at, _)| *at != pc),
        }
        self.vcpu.mmu.forget_call_vector(&(GuestVa(0)..=GuestVa(u32::MAX)));
        Ok(())
    }

    /// Takes a breakpoint away. False if there is none.
    pub fn clear_breakpoint(&mut self, pc: GuestVa) -> bool {
        self.vcpu.debug.conditions.retain(|(at, _)| *at != pc);
        let of_user = self.vcpu.mmu.clear_user_breakpoint(pc);
        self.common.engine.clear_breakpoint(pc) || of_user
    }

    /// Whether there is a breakpoint at this address with the state in bit 0.
    fn has_breakpoint(&self, pc: GuestVa) -> bool {
        self.common.engine.is_breakpoint(pc) || self.vcpu.mmu.user_code.has(pc)
    }

    /// Whether there is a breakpoint where the guest stands, at `pc`.
    pub fn stops_at(&self, pc: GuestVa) -> bool {
        let (at, _) = self.vcpu.entry(pc);
        if self.vcpu.context.cpu.privileged() {
            self.common.engine.is_breakpoint(at)
        } else {
            self.vcpu.mmu.user_code.has(at)
        }
    }
}
