//! Pages of a guest's kernel that run in place, at the guest's own addresses: copies of them with what is sensitive
//! replaced ([`spica_dbt::in_place`]), mapped in the kernel view where the guest has the page.
//!
//! The page itself is write-protected, as one from which blocks were made is. What is mapped at an address decides
//! where the guest's kernel is: a branch to a page that is not there, or may not be executed, aborts, and
//! [`fetch`] says what is to be executed.

use spica_addr::{GuestPa, GuestVa};
use spica_dbt::Start;
use spica_dbt::in_place::Text;
use spica_dbt::looks::Now;
use spica_dbt::twins::{Made, Twins};
use spica_isa::Op;
use spica_mmu::{Access, AccessKind, Fill, Regime, translate};

use super::instruction::Instruction;
use super::load::kernel_entries;
use super::mmu::Mmu;
use super::{Common, Resume, Stop, Vm, regime};
use crate::engine::{Engine, Source};
use crate::host::Host;
use crate::host_cpu::{HostCpu, HostSpace};
use crate::layout::{MEGABYTE, linear_map};
use crate::vm::trap;
use spica_vcpu::cp15::SCTLR_M;
use spica_vcpu::psr;

/// What is looked through at interrupts takes no more than one part of so many of the guest's time: as a rule, it has
/// waited before, and all is done.
const SHARE: u64 = 32;
/// While the guest waits, a page is looked through if nothing is due for so many microseconds: twice what it takes
/// where nothing of it is in the caches.
const AHEAD_US: u32 = 200;
/// A second, in microseconds.
const SECOND_US: u32 = 1_000_000;

impl Common {
    /// Sees to it that the page of `source` runs in place, under `regime`. False if it cannot.
    pub(super) fn run_in_place(
        &mut self,
        mmu: &mut Mmu,
        host_space: HostSpace<'_>,
        regime: &Regime,
        source: Source,
    ) -> bool {
        if !regime.mmu_on() || !self.engine.is_fit(source) {
            return false;
        }
        if !self.engine.has_twin(source.va, source.pa) && !self.make_twin(mmu, host_space, regime, source) {
            return false;
        }
        let Some(code) = self.engine.map_twin(source.va, source.pa) else { return false };
        self.engine.executes(source.va);
        mmu.fill_code(&self.ram.at(host_space), regime, source.va, code) == Fill::Mapped
    }

    fn make_twin(&mut self, mmu: &mut Mmu, host_space: HostSpace<'_>, regime: &Regime, source: Source) -> bool {
        mmu.protect_code_page(source.pa);
        if self.is_section(host_space, regime, source.va) {
            self.engine.begin_region(source.va);
        }
        let made = self.copy_text(host_space, regime, source);
        if made == Made::Unfit {
            self.counters.unfit_pages += 1;
            log::info!("guest {}: the code of the page at {} is not run in place", self.name, source.va.page());
        } else {
            self.counters.twins += 1;
        }
        matches!(made, Made::Twin(_))
    }

    /// Whether the guest fetches what is at `va` from a section, which natively takes one entry of the TLB.
    fn is_section(&self, host_space: HostSpace<'_>, regime: &Regime, va: GuestVa) -> bool {
        let access = Access { kind: AccessKind::Fetch, privileged: true };
        translate(&self.ram.at(host_space), regime, va, access).is_ok_and(|mapping| mapping.size.is_first_level())
    }

    /// Makes a twin of a page that has none yet and lies in 64 KiB with one that does, if it can run in place. Not of
    /// all in one go: to look through a page takes some 50,000 instructions. False if there is none.
    fn make_left(&mut self, mmu: &mut Mmu, host_space: HostSpace<'_>, regime: &Regime) -> bool {
        let Some(va) = self.engine.take_left() else { return false };
        let access = Access { kind: AccessKind::Fetch, privileged: true };
        let Ok(mapping) = translate(&self.ram.at(host_space), regime, va, access) else { return true };
        let page = Source { va, start: Start::default(), pa: mapping.pa, global: mapping.global };
        if self.volatile.contains(page.pa) || !self.engine.is_fit(page) {
            return true;
        }
        mmu.protect_code_page(page.pa);
        if let Made::Twin(_) = self.copy_text(host_space, regime, page) {
            self.counters.twins += 1;
            if self.engine.is_whole(va)
                && let Some(code) = self.engine.map_twin(va, page.pa)
            {
                let _ = mmu.fill_code(&self.ram.at(host_space), regime, va, code);
            }
        }
        true
    }

    /// Asked now and then while the guest stands between two instructions, under `regime`: goes on with
    /// [`Self::make_left`], a page at a time, and sees to it that those lie together that are executed. Whether it has
    /// done something.
    pub(super) fn go_on_in_place(
        &mut self,
        mmu: &mut Mmu,
        host: &mut Host,
        host_space: HostSpace<'_>,
        regime: &Regime,
    ) -> bool {
        let begun = host.now();
        if begun >= self.backlog.second_due {
            self.backlog.second_due = begun + host.ticks(SECOND_US);
            self.engine.second_passes();
        }
        // Another guest may be due, which should not wait for this.
        if !self.engine.runs_in_place() || !regime.mmu_on() || begun < self.backlog.look_due || host.is_wanted() {
            return false;
        }
        let engine = &mut self.engine;
        let any = match self.looks.now(begun, host.ticks(1000), || engine.twins().is_some_and(Twins::wants_groups)) {
            Now::Nothing => self.make_left(mmu, host_space, regime),
            Now::Look => {
                engine.look_anew();
                true
            }
            Now::Gather => {
                let any = engine.gather();
                self.looks.gathered(any);
                any
            }
        };
        if !any {
            return false;
        }
        let now = host.now();
        self.backlog.look_due = now + (now - begun) * (SHARE - 1);
        true
    }

    fn copy_text(&mut self, host_space: HostSpace<'_>, regime: &Regime, source: Source) -> Made {
        let near = |va: GuestVa| {
            let access = Access { kind: AccessKind::Read, privileged: true };
            let mapping = translate(&self.ram.at(host_space), regime, va, access).ok()?;
            self.ram.page(host_space, mapping.pa)
        };
        let va = source.va.page();
        let Some(page) = self.ram.page(host_space, source.pa) else { return Made::Unfit };
        let (before, behind) = (near(va.wrapping_add(-4096i32 as u32)), near(va.wrapping_add(4096)));
        let text = Text { va, page, before, behind };
        self.engine.make_twin(source, text)
    }

    /// The guest has stored `bytes` at `pa`, in a page that is protected because code was made from it.
    pub(super) fn code_was_stored_to(&mut self, mmu: &mut Mmu, host_space: HostSpace<'_>, pa: GuestPa, bytes: u32) {
        if !self.engine.runs_in_place() {
            return;
        }
        let Some(page) = self.ram.page(host_space, pa) else { return };
        let word = |pa: u32| (pa >> 2 & 0x3ff) as usize;
        for at in word(pa.0)..=word(pa.0 + bytes - 1) {
            if !self.engine.word_changed(pa, at, page) {
                return self.code_changes(mmu, pa);
            }
        }
    }
}

impl Vm {
    /// The guest waits, and nothing is due for it before `due`: goes on with [`Common::make_left`], by one page. False
    /// if there is none, or no time for it.
    pub(super) fn work_ahead(&mut self, core: &mut HostCpu, host: &mut Host, due: Option<u64>) -> bool {
        let Vm { vcpu, common, .. } = self;
        let regime = regime(&vcpu.context.cpu);
        common.engine.runs_in_place()
            && regime.mmu_on()
            && due.is_none_or(|due| due.saturating_sub(host.now()) > host.ticks(AHEAD_US))
            && common.make_left(&mut vcpu.mmu, core.enter_host_space(), &regime)
    }

    /// The guest takes an interrupt at `pc`, or is about to run user code, and its kernel is to run in place, but does
    /// not yet. It does from now on, if it is known where it begins: before, a kernel that starts may copy code of its
    /// own to elsewhere, as Linux does with its vectors and with what user code finds beside them; it must not find
    /// there what has been replaced.
    ///
    /// Where it begins, code of it says that is interrupted, if it was not told: in A32 state, and not in memory that
    /// is mapped one to one, as firmware has it. All other kernels run by blocks.
    #[cold]
    pub(super) fn may_begin_in_place(&mut self, core: &mut HostCpu, pc: Option<GuestVa>) {
        let Vm { vcpu, common, .. } = self;
        let cpu = &vcpu.context.cpu;
        if cpu.cp15.sctlr & SCTLR_M == 0 {
            return;
        }
        let is_kernel = |pc: &GuestVa| cpu.privileged() && cpu.psr & psr::T == 0 && !common.ram.contains(GuestPa(pc.0));
        let found = || pc.filter(is_kernel).and_then(|pc| linear_map(pc.0));
        let Some(base) = common.engine.said_base().or_else(found) else { return };
        if common.has_tables_near(core.enter_host_space(), &regime(cpu), base) {
            log::info!("guest {}: its kernel runs by blocks: it has tables for memory in front of it", common.name);
            common.engine.leave_in_place(false);
            return;
        }
        log::info!("guest {}: its kernel, which begins at {base:#x}, runs in place now", common.name);
        self.begin_in_place(base);
    }

    /// The guest's kernel runs in place from now on, and begins at `base`.
    pub(super) fn begin_in_place(&mut self, base: u32) {
        self.common.engine.begin_in_place(base);
        self.code_has_moved(Some(base));
    }

    /// All of the guest's kernel runs by blocks from now on, until it may begin again to run in place, or for good. It
    /// stands between two instructions.
    pub(super) fn leave_in_place(&mut self, again: bool) {
        let moves = self.common.engine.runs_in_place();
        self.common.engine.leave_in_place(again);
        if moves {
            self.code_has_moved(None);
        }
    }

    /// The guest is about to run user code, or takes an interrupt, and wants the addresses for itself where the stubs
    /// of what runs in place are. They are near its kernel, and branches reach nothing else: from now on, all of it
    /// runs by blocks.
    #[cold]
    pub(super) fn give_way(&mut self) {
        let (start, _) = self.common.engine.region();
        let name = &self.common.name;
        log::warn!("guest {name}: it needs {start:#x}, where its kernel's stubs are: that runs by blocks now");
        self.leave_in_place(false);
    }

    /// The code cache is elsewhere: near a kernel that begins at `near`, to which TPIDRURW is lent from now on, or in
    /// the hypervisor region.
    fn code_has_moved(&mut self, near: Option<u32>) {
        let Vm { vcpu, common, .. } = self;
        vcpu.lend_thread_id(near);
        let (region, entries) = kernel_entries(&common.engine);
        let first = (common.engine.region().0 / MEGABYTE) as usize;
        vcpu.mmu.move_code(&region, near.map(|_| (first, &entries[..])));
        common.code_is_gone(&mut vcpu.mmu);
    }

    /// Forgets which pages are volatile, and everything that was translated: the machine is reset.
    pub(super) fn forget_code(&mut self) {
        self.leave_in_place(true);
        self.common.forget_code(&mut self.vcpu.mmu);
        // Not while it is counted, which a reset does not end.
        if self.common.engine.waits_for_in_place()
            && let Some(base) = self.common.engine.base_from_start()
        {
            self.begin_in_place(base);
        }
    }
}

/// The guest's kernel branched to `pc`, in A32 state, and nothing there could be executed.
pub fn fetch(vm: &mut Vm, pc: GuestVa) -> Resume {
    // An exception return led here, where Rust has found a block before: assembly is to look for it.
    let context = &mut vm.vcpu.context;
    if context.cpu.page.target == pc.0 && vm.common.engine.known(pc).is_some_and(|entry| entry.0 != pc.0) {
        context.blocks_beside = 1;
    }
    // Wherever that led, it is to be looked at.
    vm.common.engine.forget_known(pc);
    Resume::Guest(pc)
}

/// The guest's kernel executed the word at `pc`, which runs in place, and is replaced by a trap there: goes on with its
/// stub.
pub fn replaced(vm: &mut Vm, core: &mut HostCpu, host: &mut Host, pc: GuestVa) -> Resume {
    if vm.interrupt_deliverable() {
        return Resume::Guest(pc);
    }
    let Vm { vcpu, common, .. } = vm;
    let regime = regime(&vcpu.context.cpu);
    let access = Access { kind: AccessKind::Fetch, privileged: true };
    let host_space = core.enter_host_space();
    let Ok(mapping) = translate(&common.ram.at(host_space), &regime, pc, access) else { return fetch(vm, pc) };
    let source = Source { va: pc, start: Start::default(), pa: mapping.pa, global: mapping.global };
    if !common.engine.has_twin(pc, mapping.pa) {
        // What was executed is the guest's no more.
        vcpu.mmu.forget_code(pc);
        return fetch(vm, pc);
    }
    common.watch_code(&mut vcpu.mmu, pc, mapping.size);
    let Some(words) = common.ram.page(host_space, mapping.pa) else { return Resume::Stop(Stop::WildJump(pc.0)) };
    let (begun, made) = (vcpu.context.trace_time(), common.engine.made());
    let stub = common.engine.stub(source, words);
    if let Some(begun) = begun.filter(|_| common.engine.made() != made) {
        vcpu.context.trace_translation(begun, pc);
    }
    match stub {
        Some(stub) => Resume::Cache(stub),
        // It is the guest's own SVC.
        None => trapped(vm, core, host, pc),
    }
}

/// The instruction that an `SVC` of the guest's kernel stands for, if the guest has copied it from what runs in place.
pub fn original(vm: &Vm, svc: &Instruction) -> Option<Instruction> {
    let Instruction::A32(decoded) = svc else { return None };
    let Op::SupervisorCall { .. } = decoded.op else { return None };
    Some(Instruction::A32(spica_isa::decode(vm.common.engine.originals()?.of(decoded.word & 0x00ff_ffff)?)))
}

/// The guest's instruction at `pc`, which runs in place, trapped by itself: it is interpreted.
pub fn trapped(vm: &mut Vm, core: &mut HostCpu, host: &mut Host, pc: GuestVa) -> Resume {
    let host_space = core.enter_host_space();
    let regime = regime(&vm.vcpu.context.cpu);
    let access = Access { kind: AccessKind::Fetch, privileged: true };
    let mapped = translate(&vm.common.ram.at(host_space), &regime, pc, access).ok();
    let Some(word) = mapped.and_then(|mapping| vm.common.ram.load(host_space, mapping.pa, 4)) else {
        return fetch(vm, pc);
    };
    let decoded = spica_isa::decode(word);
    if !decoded.cond.holds(vm.vcpu.context.cpu.psr) {
        return Resume::Guest(pc.wrapping_add(4));
    }
    trap::emulate_instruction(vm, core, host, &Instruction::A32(decoded), pc, None)
}
