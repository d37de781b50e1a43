//! The loop that runs a guest: from one trap to the next.

use super::devices::TakeBack;
use super::{Pause, Resume, Vm};
use crate::engine::Engine;
use crate::host::Host;
use crate::host_cpu::{HostCpu, HostSpace};
use crate::machine::{Done, GuestMachine};
use crate::vm::events::What;
use crate::vm::trap::{self, Answer};
use crate::world::{IRQ_WAITS, Privilege, Trap};
use spica_addr::GuestPa;
use spica_machine::map::GICC;
use spica_machine::{GICC_EOIR, GICC_IAR};
use spica_sched::Latency;

impl Vm {
    /// Runs the guest until the host has something else to see to ([`Host::wants_attention`]), or the guest waits or
    /// stops. `latency` hears how late it was woken where it slept meanwhile.
    pub fn run(&mut self, core: &mut HostCpu, host: &mut Host, latency: &mut Latency) -> Pause {
        if let Some(stop) = self.look_at_watches(core, host) {
            return Pause::Stop(stop);
        }
        let mut resume = self.vcpu.next;
        let begun = host.now();
        if self.catch_up(core, host) || !self.loading.is_done() || !self.is_settled() {
            host.note_entry(begun);
        }
        if self.common.machine.wants_service() {
            host.ask_soon();
        }
        self.show_time(host);
        self.common.arm_timer(&mut self.vcpu.context.timer, host);
        if !self.load_on(core, host) {
            return Pause::Yield;
        }
        if self.common.machine.holds_guest() {
            // Its DMA is not done yet: the next piece is another turn's.
            return Pause::Yield;
        }
        if let Resume::Cache(pc) = resume {
            trap::leave_soon(self, pc);
        }
        let translated = self.common.engine.made();
        let mut first = true;
        loop {
            match self.work_off(core, host) {
                Ok(true) => {}
                Ok(false) => {
                    self.vcpu.next = at_leisure(resume);
                    return Pause::Yield;
                }
                Err(stop) => return Pause::Stop(stop),
            }
            let mut due = None;
            if let Resume::Wait(pc) = resume {
                match self.wait(core, host, latency) {
                    Ok(time) => due = Some(time),
                    Err(pause) => {
                        self.vcpu.next = resume;
                        return pause;
                    }
                }
                resume = Resume::Guest(pc);
            }
            let at_once = due.is_some() && self.goes_on_behind_wait(core, host, resume);
            let privilege = match if at_once { Ok(Privilege::Kernel) } else { self.resume(core, resume) } {
                Ok(privilege) => privilege,
                Err(stop) => return Pause::Stop(stop),
            };
            if let Some(due) = due {
                host.stay_until(due);
            }
            if !self.is_settled() {
                resume = self.vcpu.unresumed(privilege);
                continue;
            }
            if core::mem::take(&mut first) {
                // Translation is work for this guest, the rest is the way back to it.
                let only_back = self.common.engine.made() == translated;
                let entered = if only_back { host.now() } else { begun };
                host.note_entry(entered);
            }
            resume = self.enter(core, host, privilege);
            if self.common.machine.wants_service() && !host.is_wanted() {
                resume = self.serve(core, host, resume);
            }
            if host.wants_attention() && !matches!(resume, Resume::Stop(_)) {
                self.vcpu.next = at_leisure(resume);
                return Pause::Yield;
            }
        }
    }

    /// Waits for an interrupt of the guest's: here, as long as nobody else wants to run, and nothing else is to be seen
    /// to, so that a guest that sleeps often is not taken out of the core each time. The host time from which on it may
    /// go on ([`Host::stay_until`]); else what its turn ends with.
    fn wait(&mut self, core: &mut HostCpu, host: &mut Host, latency: &mut Latency) -> Result<u64, Pause> {
        self.catch_up(core, host);
        self.common.arm_timer(&mut self.vcpu.context.timer, host);
        let mut now = 0;
        while !self.common.interrupted() {
            host.stay_until(now);
            if self.common.watches.are_open() {
                return Err(Pause::Yield);
            }
            if !host.may_sleep() || self.wants_turn() {
                return Err(Pause::Wait);
            }
            let due = self.deadline(host);
            now = if self.work_ahead(core, host, due) { host.serve_interrupts() } else { host.sleep(due) };
            self.catch_up_to(core, host, now);
            if host.wants_attention() {
                host.stay_until(now);
                return Err(Pause::Wait);
            }
            if let Some(due) = due.filter(|&due| due <= now) {
                let late = host.now().saturating_sub(due);
                latency.record(late, host.latency_bounds());
            }
        }
        Ok(now)
    }

    /// Lets virtio devices work, because the driver has just told them to. If there is more than a budget allows, the
    /// scheduler decides who is next.
    fn serve(&mut self, core: &mut HostCpu, host: &mut Host, resume: Resume) -> Resume {
        self.common.serve(&mut self.vcpu.mmu, core, host);
        if self.common.machine.wants_service() || self.common.watches.are_hit() {
            host.want_attention();
        }
        let resume = at_leisure(resume);
        if let Resume::Cache(pc) = resume {
            trap::leave_soon(self, pc);
        }
        resume
    }

    /// Runs the guest at `privilege` until a trap after which there is more to see to than that it goes on. Where it
    /// does.
    // Not a function of its own: that would begin with working out 40 addresses for what seldom happens in its loop.
    #[inline(always)]
    fn enter(&mut self, core: &mut HostCpu, host: &mut Host, mut privilege: Privilege) -> Resume {
        loop {
            let asked = self.vcpu.mmu.is_asked();
            let (trap, left) =
                if asked { self.look_and_enter(core, host, privilege) } else { self.enter_storing(core, privilege) };
            if trap == Trap::Irq {
                // Looks itself at what assembly has answered.
                self.vcpu.arrived(core, left);
            } else {
                self.arrived(core, host, left);
            }
            // Most traps of kernel code are none of those.
            let kernel_call = (trap, left) == (Trap::SupervisorCall, Privilege::Kernel);
            let answer = if kernel_call { Answer::None } else { trap::at_once(self, core, host, left, trap) };
            privilege = match answer {
                Answer::Enter(next) => next,
                Answer::Resume(resume) => return resume,
                Answer::None => match trap::handle(self, core, host, left, trap) {
                    Resume::Back(pc) if self.goes_on(core, host, pc) => Privilege::Kernel,
                    resume => return resume,
                },
            };
            if !self.is_settled() {
                return self.vcpu.unresumed(privilege);
            }
        }
    }

    /// [`Self::enter_once`], and records that if it is to be.
    #[cold]
    #[inline(never)]
    fn look_and_enter(&mut self, core: &mut HostCpu, host: &mut Host, privilege: Privilege) -> (Trap, Privilege) {
        self.run_goes_on(privilege);
        let recorded = host.tracer.is_on();
        let (trap, left) = if recorded { self.enter_traced(host, privilege) } else { self.enter_once(privilege) };
        if left == Privilege::Kernel && self.common.engine.blocks.counts() {
            self.arrived(core, host, left);
            self.note_trapped(core, trap);
            // Whoever comes next finds what a trap leaves.
            core.go_to(self.vcpu.context.view_registers(left));
        }
        (trap, left)
    }

    /// Runs the guest at `privilege` until the next trap that assembly does not answer.
    #[inline]
    pub(super) fn enter_once(&mut self, privilege: Privilege) -> (Trap, Privilege) {
        self.vcpu.mmu.catch_up_spaces();
        self.enter_settled(privilege)
    }

    /// The same where [`crate::world::spaces`] has nothing to catch up with.
    #[inline(always)]
    fn enter_settled(&mut self, privilege: Privilege) -> (Trap, Privilege) {
        self.offer(privilege);
        self.vcpu.context.set_entries(privilege, &mut self.common.engine, &self.common.switches);
        self.common.engine.mend(self.vcpu.context.cpu.page);
        self.vcpu.context.enter(privilege)
    }

    /// The same, again as long as it is a word of its own text that a kernel patches: which may be a hundred thousand
    /// words.
    #[inline(always)]
    fn enter_storing(&mut self, core: &mut HostCpu, privilege: Privilege) -> (Trap, Privilege) {
        let mut left = self.enter_settled(privilege);
        while left == (Trap::DataAbort, Privilege::Kernel) && trap::stores_on(self, core) {
            left = self.vcpu.context.enter_again();
        }
        if self.vcpu.context.patching.is_any() {
            trap::end_patching(self);
        }
        left
    }

    /// Tells assembly what it may answer of accesses to the interrupt controller, once the guest is entered at
    /// `privilege`.
    #[inline(always)]
    pub(super) fn offer(&mut self, privilege: Privilege) {
        self.vcpu.context.interrupts.withdraw();
        if self.common.machine.is_interrupting() && privilege == Privilege::Kernel {
            self.offer_interrupts();
        }
    }

    #[inline(never)]
    fn offer_interrupts(&mut self) {
        let Vm { vcpu, common, .. } = self;
        if !matches!(vcpu.context.slow_path, 0 | IRQ_WAITS) {
            return;
        }
        let interrupts = &mut vcpu.context.interrupts;
        vcpu.mmu.show_interrupt_sites(interrupts, common.engine.generation());
        // A kernel that has masked what waits, and does something else, comes here often.
        if interrupts.offer_again(common.machine.interrupts_changed()) {
            return;
        }
        if let Some(outlook) = common.machine.interrupt_outlook() {
            let timer = outlook.acknowledge.and_then(|intid| common.machine.timer_of(intid));
            vcpu.context.offer_interrupts(outlook, timer);
        }
    }

    /// The guest was left at `privilege`.
    #[inline]
    pub(super) fn arrived(&mut self, core: &mut HostCpu, host: &mut Host, privilege: Privilege) {
        self.vcpu.arrived(core, privilege);
        if self.vcpu.context.has_answered() {
            self.take_answers(host);
        }
    }

    /// Assembly has answered accesses to the timers or the interrupt controller: tells these.
    #[inline(never)]
    fn take_answers(&mut self, host: &mut Host) {
        // In the order in which assembly lets these come.
        let Vm { vcpu, common, .. } = self;
        vcpu.context.learnt_answers();
        let (acknowledged, ended) = vcpu.context.interrupts.take();
        let ticked = vcpu.context.timer.has_ticked();
        let timers = vcpu.context.timer.take_changed();
        if let Some(intid) = common.machine.catch_up(Done { acknowledged, timers, ended }) {
            vcpu.events.note_value(What::Read(GICC.wrapping_add(GICC_IAR)), intid);
        }
        if ticked {
            // The line that rose is not known yet, if it is still high.
            common.machine.update(host.guest_now(common.start));
        }
        if let Some(set) = vcpu.context.timer.take_armed() {
            host.forget_deadline();
            if set {
                // For this, or before: what has changed behind it can only have made it later.
                host.note_deadline(common.start, common.machine.next_deadline());
            }
        }
        if let Some(intid) = ended {
            vcpu.events.note_value(What::Write(GICC.wrapping_add(GICC_EOIR)), intid);
        }
    }

    /// Serves all interrupts of the host that wait, and brings the guest's devices up to date, as what assembly has
    /// answered may not be. The host time.
    pub(super) fn serve_interrupts(&mut self, core: &mut HostCpu, host: &mut Host) -> u64 {
        let answered = self.vcpu.context.has_answered();
        if answered && self.vcpu.context.interrupts.ended_answer().is_some() {
            let now = host.serve_interrupts();
            if self.comes_round(host, now) {
                return now;
            }
            self.take_answers(host);
            // It may have interrupted since assembly set it.
            host.forget_deadline();
            self.catch_up_to(core, host, now);
            return now;
        }
        if answered {
            self.take_answers(host);
        }
        let now = host.serve_interrupts();
        self.catch_up_to(core, host, now);
        now
    }

    /// [`Self::take_answers`] and [`Self::catch_up_to`] for a guest with a timer that ticks: since the last tick, it
    /// has acknowledged that, set the timer and ended the interrupt, and now the timer interrupts again; and nobody
    /// else wants anything of its devices. False, with nothing done, if it is not so.
    fn comes_round(&mut self, host: &mut Host, now: u64) -> bool {
        let Vm { vcpu, common, .. } = self;
        let machine = &mut common.machine;
        if host.has_news() || machine.wants_service() || machine.has_output() {
            return false;
        }
        let (interrupts, timer) = (&mut vcpu.context.interrupts, &mut vcpu.context.timer);
        let done = Done { acknowledged: true, timers: timer.changed(), ended: interrupts.ended_answer() };
        if !machine.comes_round(done, host.guest_at(common.start, now)) {
            return false;
        }
        interrupts.come_round();
        timer.learnt_change();
        timer.take_armed();
        vcpu.context.learnt_answers();
        let intid = done.ended.unwrap_or_default();
        vcpu.events.note_value(What::Read(GICC.wrapping_add(GICC_IAR)), intid);
        vcpu.events.note_value(What::Write(GICC.wrapping_add(GICC_EOIR)), intid);
        host.forget_deadline();
        host.renew_clock(&mut vcpu.context.clock, common.start, now);
        common.arm_timer(&mut vcpu.context.timer, host);
        true
    }

    /// Tells assembly how the guest's counter runs, and what its timers are set to.
    pub(super) fn show_time(&mut self, host: &mut Host) {
        self.vcpu.context.clock = host.clock(self.common.start);
        self.vcpu.context.timer.note(self.common.machine.timers());
        self.vcpu.context.timer.alarm = host.alarm();
    }

    /// Brings the devices up to date, see [`Common::catch_up`](super::Common::catch_up).
    pub fn catch_up(&mut self, core: &mut HostCpu, host: &mut Host) -> bool {
        self.common.catch_up(&mut self.vcpu.mmu, core, host)
    }

    /// The same up to host time `now`, behind interrupts of the host: its timer is armed again.
    pub(super) fn catch_up_to(&mut self, core: &mut HostCpu, host: &mut Host, now: u64) {
        let Vm { vcpu, common, .. } = self;
        // If the scheduler is wanted, somebody may wait for the core: what there is to do is the next turn's.
        if !host.is_wanted() {
            common.serve_host(&mut vcpu.mmu, core, host);
        }
        common.time_passes(host, now);
        // The host's clock makes half a turn at most from one of its timer's interrupts to the next.
        host.renew_clock(&mut vcpu.context.clock, common.start, now);
        common.arm_timer(&mut vcpu.context.timer, host);
    }

    /// The page at `pa` is about to be written, see [`Common::code_changes`](super::Common::code_changes).
    pub fn code_changes(&mut self, pa: GuestPa) {
        self.common.code_changes(&mut self.vcpu.mmu, pa);
    }

    /// Takes back pages that the guest has given, see [`Common::take_back`](super::Common::take_back).
    pub fn take_back(&mut self, host_space: HostSpace<'_>, back: &mut TakeBack) -> Result<bool, u32> {
        self.common.take_back(&mut self.vcpu.mmu, host_space, back)
    }
}

/// Where the guest goes on if other things happen in between: devices may have raised interrupts or written over code.
fn at_leisure(resume: Resume) -> Resume {
    match resume {
        Resume::Back(pc) => Resume::Cache(pc),
        Resume::Led(pc, _) => Resume::Guest(pc),
        Resume::Cache(_) | Resume::Guest(_) | Resume::Wait(_) | Resume::Stop(_) => resume,
    }
}
