//! The loop that runs a guest: from one trap to the next.

use super::{Pause, Resume, Vm};
use crate::engine::Engine;
use crate::host::Host;
use crate::host_cpu::HostCpu;
use crate::trap::{self, quick::Answer};
use crate::world::{Trap, World};
use spica_addr::{CachePc, GuestVa};

/// Why the guest was left.
enum Left {
    /// A trap, in this world, that nobody has answered.
    Trap(Trap, World),
    /// One that was answered; but there is more to see to before the guest goes on here.
    Answered(Resume),
}

impl Vm {
    /// Runs the guest until the host has something else to see to ([`Host::wants_attention`]), or the guest waits or stops.
    pub fn run(&mut self, core: &mut HostCpu, host: &mut Host) -> Pause {
        let mut resume = self.next;
        let begun = host.now();
        if self.parts.catch_up(core, host) || !self.loading.is_done() || !self.parts.is_settled() {
            host.note_entry(begun);
        }
        self.context.clock = host.clock(self.parts.start);
        host.arm_timer(self.parts.start, self.parts.machine.next_deadline());
        if !self.load_on(core, host) {
            return Pause::Yield;
        }
        if let Resume::Cache(pc) = resume {
            trap::leave_soon(self, pc);
        }
        let translated = self.parts.engine.made();
        let mut first = true;
        loop {
            match self.work_off(core, host) {
                Ok(true) => {}
                Ok(false) => {
                    self.next = at_leisure(resume);
                    return Pause::Yield;
                }
                Err(stop) => return Pause::Stop(stop),
            }
            if let Resume::Wait(pc) = resume {
                self.parts.catch_up(core, host);
                if !self.parts.interrupted() {
                    self.next = resume;
                    return Pause::Wait;
                }
                resume = Resume::Guest(pc);
            }
            let world = match self.resume(core, resume) {
                Ok(world) => world,
                Err(stop) => return Pause::Stop(stop),
            };
            if !self.parts.is_settled() {
                resume = self.unresumed(world);
                continue;
            }
            if core::mem::take(&mut first) {
                // Translation is work for this guest, the rest is the way back to it.
                let only_back = self.parts.engine.made() == translated;
                let entered = if only_back { host.now() } else { begun };
                host.note_entry(entered);
            }
            resume = match self.enter(core, host, world) {
                Left::Trap(trap, world) => trap::handle(self, core, host, world, trap),
                Left::Answered(resume) => resume,
            };
            if self.parts.machine.wants_service() {
                resume = self.serve(core, host, resume);
            }
            if host.wants_attention() && !matches!(resume, Resume::Stop(_)) {
                self.next = at_leisure(resume);
                return Pause::Yield;
            }
        }
    }

    /// Lets virtio devices work, because the driver has just told them to. If there is more than a budget allows, the
    /// scheduler decides who is next.
    fn serve(&mut self, core: &mut HostCpu, host: &mut Host, resume: Resume) -> Resume {
        self.parts.serve(core, host);
        if self.parts.machine.wants_service() {
            host.want_attention();
        }
        let resume = at_leisure(resume);
        if let Resume::Cache(pc) = resume {
            trap::leave_soon(self, pc);
        }
        resume
    }

    /// Where the guest goes on that was about to be entered in `world`.
    pub(super) fn unresumed(&self, world: World) -> Resume {
        let pc = self.context.cpu.pc;
        match world {
            World::Kernel => Resume::Cache(CachePc(pc)),
            World::User => Resume::Guest(GuestVa(pc)),
        }
    }

    /// Runs the guest in `world` until a trap that is not answered quickly.
    fn enter(&mut self, core: &mut HostCpu, host: &mut Host, mut world: World) -> Left {
        loop {
            self.parts.spaces.catch_up(&mut self.parts.shadow);
            self.context.set_entries(world, &mut self.parts.engine, &self.parts.switches);
            self.parts.engine.mend(self.context.cpu.page);
            let (trap, left) = self.context.enter(world);
            self.arrived(core, left);
            match trap::quick::handle(self, core, host, left, trap) {
                Answer::Enter(next) if self.parts.is_settled() => world = next,
                Answer::Enter(next) => return Left::Answered(self.unresumed(next)),
                Answer::Resume(resume) => return Left::Answered(resume),
                Answer::None => return Left::Trap(trap, left),
            }
        }
    }

    /// The guest was left in `world`, which may not be the one that was entered.
    pub(super) fn arrived(&mut self, core: &mut HostCpu, world: World) {
        let side = self.context.side(world);
        core.found(side);
        self.parts.core_state.found_dacr(side.dacr);
        self.parts.core_state.found_vfp();
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
