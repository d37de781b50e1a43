//! Traps and translation, as the timeline shows them ([`crate::host::trace`]).

use spica_addr::CachePc;
use spica_trace_ring::record::{self, Record};

use super::Vm;
use crate::arch::cp15::{Dfar, Ifar, SysRegRead};
use crate::engine::Engine;
use crate::host::Host;
use crate::host::trace::{Counted, Interrupts};
use crate::machine::GuestMachine;
use crate::world::{Privilege, Trap};
use spica_dbt::trap;
use spica_vcpu::psr::Mode;

impl Vm {
    /// [`Self::enter_once`], where the trap that led here ends and the next one begins.
    pub(super) fn enter_traced(&mut self, host: &mut Host, privilege: Privilege) -> (Trap, Privilege) {
        self.trap_ends(host, Some(privilege));
        let (trap, left) = self.enter_once(privilege);
        let (detail, argument) = self.describe(trap, left);
        let cpu = &self.vcpu.context.cpu;
        if left == Privilege::Kernel && cpu.mode() == Mode::Svc {
            host.trace_task(cpu.page.tpidruro, cpu.regs[13]);
        }
        let from = if left == Privilege::User { record::trap::FROM_USER } else { 0 };
        let kind = record::TRAP + trap as u8;
        host.trace_trap(Record { kind, detail: detail | from, argument, ..Record::default() });
        (trap, left)
    }

    /// The guest's turn ends, as far as it is traced.
    pub fn turn_ends(&mut self, host: &mut Host) {
        self.trap_ends(host, None);
    }

    fn trap_ends(&mut self, host: &mut Host, next: Option<Privilege>) {
        host.trace_answer(next, self.counted(), || self.interrupts());
    }

    /// Its interrupt that is signalled, and one that is active.
    pub fn interrupts(&self) -> Interrupts {
        self.common.machine.interrupts()
    }

    fn counted(&self) -> Counted {
        let c = &self.common.counters;
        Counted {
            shadow_faults: c.hidden_faults as u32,
            guest_aborts: c.guest_aborts as u32,
            device_accesses: c.mmio as u32,
            code_writes: (c.code_page_writes + c.code_patches) as u32,
            blocks: self.common.engine.made() as u32,
            flushes: self.common.engine.blocks.translator().stats().flushes as u32,
            interrupts: c.interrupts as u32,
        }
    }

    /// What a record says of a trap: what an SVC is for, and what is known from the registers.
    fn describe(&mut self, trap: Trap, left: Privilege) -> (u16, u32) {
        let cpu = &self.vcpu.context.cpu;
        if left == Privilege::Kernel && self.common.engine.is_guest_address(CachePc(cpu.pc)) {
            return self.describe_in_place(trap);
        }
        match (trap, left) {
            (Trap::DataAbort, _) => (0, Dfar::read_raw()),
            (Trap::PrefetchAbort, _) => (0, Ifar::read_raw()),
            (Trap::SupervisorCall, Privilege::User) => (0, cpu.regs[7]),
            (Trap::SupervisorCall, Privilege::Kernel) => {
                let (behind, target) = (CachePc(cpu.pc), cpu.page.target);
                let engine = &mut self.common.engine;
                let number = engine.word(CachePc(behind.0.wrapping_sub(4))).map_or(0, trap::number);
                let argument = match number {
                    trap::LINK | trap::EMULATE => engine.word(behind).unwrap_or(0),
                    _ => target,
                };
                (number as u16 & record::trap::NUMBER, argument)
            }
            (Trap::Undefined | Trap::Irq | Trap::Fiq, _) => (0, cpu.pc),
        }
    }

    /// The same of a trap of the guest's kernel at its own address.
    fn describe_in_place(&mut self, trap: Trap) -> (u16, u32) {
        let pc = self.vcpu.context.cpu.pc;
        // Of these two, the link register is behind the instruction (B1.8.1).
        let trapped = CachePc(pc.wrapping_sub(4));
        let argument = match trap {
            Trap::DataAbort => Dfar::read_raw(),
            Trap::PrefetchAbort => Ifar::read_raw(),
            Trap::Undefined => self.common.engine.word(trapped).unwrap_or(0),
            Trap::SupervisorCall => trapped.0,
            Trap::Irq | Trap::Fiq => pc,
        };
        (record::trap::IN_PLACE, argument)
    }
}
