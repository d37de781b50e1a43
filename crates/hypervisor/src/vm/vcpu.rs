//! A virtual CPU: its registers and what the handlers in assembly need beside them, its MMU, what the real core has on
//! its behalf, and where the guest goes on when it runs again.

use alloc::boxed::Box;

use spica_addr::{CachePc, GuestVa};
use spica_dbt::at::{address, is_thumb};
use spica_isa::t32::ItState;
use spica_vcpu::{Exception, psr};

use super::debug::Debug;
use super::events::{Events, What};
use super::mmu::Mmu;
use super::{Resume, Stop, prepare};
use crate::arch::{barrier, cache};
use crate::host_cpu::HostCpu;
use crate::world::core_state::CoreState;
use crate::world::{Context, Privilege};

/// That many exceptions without an instruction in between are an endless loop.
const MAX_NESTED: u32 = 16;

/// See the module's text.
pub struct Vcpu {
    /// The registers, with what assembly needs beside them.
    pub(super) context: &'static mut Context,
    /// The MMU.
    pub(super) mmu: Mmu,
    /// What the real core has on its behalf.
    pub(super) core_state: CoreState,
    /// Where it goes on when it runs again.
    pub(super) next: Resume,
    /// What a debugger wants of it.
    pub(super) debug: Debug,
    /// Exceptions taken since guest code last ran.
    pub(super) nested: u32,
    /// What it did last.
    pub(super) events: Box<Events>,
    /// Nothing but interrupts keeps `fast.s` from switching privilege.
    pub(super) plain: bool,
    /// Whether VFP is on for the kernel, and for user code.
    pub(super) vfp: [bool; 2],
}

impl Vcpu {
    /// A virtual CPU that waits for [`Vm::load`](super::Vm::load).
    pub fn new(context: &'static mut Context, mmu: Mmu) -> Vcpu {
        Vcpu {
            context,
            mmu,
            core_state: CoreState::new(),
            next: Resume::Wait(GuestVa(0)),
            debug: Debug::default(),
            nested: 0,
            events: Box::default(),
            plain: false,
            vfp: [false; 2],
        }
    }

    /// Makes the core this one's. To be called before it runs whenever another one's it was, or nobody's.
    pub fn arrive(&mut self) {
        // Predictions are hints, but what one guest taught the predictor is no business of the next one's.
        cache::invalidate_branch_predictor();
        self.context.install();
        self.core_state.arrive();
        // SCTLR is the last guest's still.
        self.mmu.make_stale();
    }

    /// Leaves nothing of it in the core.
    pub fn depart(&mut self, core: &mut HostCpu) {
        core.enter_host_space();
        self.core_state.depart();
    }

    /// What its user code reads and writes as its thread ID (TPIDRURW).
    pub fn thread_id_read_write(&self) -> u32 {
        let kept = &self.context.cpu.page.tpidrurw;
        if self.context.lends_thread_id() { *kept } else { self.core_state.thread_id_read_write() }
    }

    /// The core's TPIDRURW is lent to its kernel from now on, or not any more: see [`Context::lend_thread_id`].
    pub(super) fn lend_thread_id(&mut self, base: Option<u32>) {
        let value = self.thread_id_read_write();
        self.context.lend_thread_id(base);
        self.context.cpu.page.tpidrurw = value;
        self.core_state.set_thread_id_read_write(value);
    }

    /// It was left at `privilege`, which may not be the one that was entered.
    pub(super) fn arrived(&mut self, core: &mut HostCpu, privilege: Privilege) {
        let registers = self.context.view_registers(privilege);
        core.found(registers);
        self.core_state.found_dacr(self.context.dacr_in_force(privilege));
        self.core_state.found_vfp();
    }

    /// Where it goes on, which was about to be entered at `privilege`.
    pub(super) fn unresumed(&self, privilege: Privilege) -> Resume {
        let pc = self.context.cpu.pc;
        match privilege {
            Privilege::Kernel => Resume::Cache(CachePc(pc)),
            Privilege::User => Resume::Guest(GuestVa(pc)),
        }
    }

    /// Whether it has taken exception upon exception, with no instruction in between, too often.
    pub fn is_in_loop(&self) -> bool {
        self.nested > MAX_NESTED
    }

    /// It takes an exception.
    pub fn take(&mut self, exception: Exception) -> Resume {
        self.nested += 1;
        self.events.note(match exception {
            Exception::SupervisorCall { pc } => What::SystemCall { number: self.context.cpu.regs[7], pc },
            _ => What::Exception(exception),
        });
        if self.is_in_loop() {
            return Resume::Stop(Stop::ExceptionLoop);
        }
        // A virtual exception clears the local monitor (B1.8.3, note on exclusives: software must not rely on it, and
        // a guest must not inherit another context's reservation).
        barrier::clear_exclusive();
        let vector = self.context.cpu.take_exception(exception);
        self.branch(vector)
    }

    /// It branches to `target`, bit 0 of which selects the instruction set.
    pub fn branch(&mut self, target: u32) -> Resume {
        let cpu = &mut self.context.cpu;
        if target & 1 != 0 {
            cpu.psr |= psr::T;
            Resume::Guest(GuestVa(target & !1))
        } else {
            cpu.psr &= !psr::T;
            Resume::Guest(GuestVa(target & !3))
        }
    }

    /// The address of code at `pc` in the state that the guest is in, with that in bit 0, and its ITSTATE.
    pub fn entry(&self, pc: GuestVa) -> (GuestVa, ItState) {
        let psr = self.context.cpu.psr;
        if psr & psr::T == 0 {
            (GuestVa(pc.0 & !3), ItState::OUTSIDE)
        } else {
            (GuestVa(pc.0 | 1), ItState::from_psr(psr))
        }
    }

    /// The guest's kernel goes on in a block, which is A32 code whatever it was made from: the guest's state is known
    /// from where it is ([`super::trap`]'s `locate`).
    #[inline]
    pub fn enter_block(&mut self) {
        self.context.cpu.psr &= !(psr::T | psr::IT);
    }

    /// The guest is at the kernel instruction at `entry`, bit 0 of which says its state, in `it`.
    pub fn leave_block(&mut self, entry: GuestVa, it: ItState) -> GuestVa {
        self.enter_block();
        if is_thumb(entry) {
            self.context.cpu.psr |= psr::T | it.to_psr();
        }
        address(entry)
    }

    /// The guest has turned VFP on or off, by FPEXC alone.
    pub fn note_vfp(&mut self) {
        let alike = self.vfp[0] == self.vfp[1];
        self.vfp =
            [Privilege::Kernel, Privilege::User].map(|privilege| prepare::vfp_enabled(&self.context.cpu, privilege));
        // Of what is learnt of system registers, nothing but this depends on it.
        if (self.vfp[0] == self.vfp[1]) != alike {
            self.mmu.make_stale();
        }
    }
}
