//! Supervisor calls of translated code, as `vm/trap/call.rs` answers them, and `world/fast.s` in front of it.

use crate::translator::lockstep::blocks::Place;
use crate::translator::lockstep::{End, Lockstep, Next};
use crate::translator::memory::Memory;
use crate::translator::model::{self, Event};
use spica_addr::CachePc;
use spica_dbt::return_mirror::LINK_SLOT;
use spica_dbt::trap;
use spica_isa::t32::ItState;
use spica_isa::{CpReg, Op};
use spica_vcpu::cp15::TlbOp;
use spica_vcpu::psr;

/// DCCMVAC, DCCMVAU, DCCIMVAC.
const CLEANS: [CpReg; 3] = [line(10), line(11), line(14)];

/// The operation on a line of a cache by its address with that CRm; 5 is ICIMVAU.
const fn line(crm: u8) -> CpReg {
    CpReg { coproc: 15, opc1: 0, crn: 7, crm, opc2: 1 }
}

impl Lockstep {
    /// As `vm/trap/call.rs`, and `world/fast.s` in front of it.
    pub(super) fn trapped(&mut self, number: u32, svc: CachePc, place: Place) -> Next {
        if matches!(trap::number(number), trap::CHECK | trap::HOOK) {
            return self.checked(number, svc.wrapping_add(4), place);
        }
        let (number, behind) = (trap::number(number), svc.0.wrapping_add(4));
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
                let Some(exit) = self.translator.exit(svc) else { self.fail("an exit that is not recorded") };
                let target = self.word(behind);
                self.it = ItState::OUTSIDE;
                if self.leave.is_some() { Next::Guest(target) } else { Next::Link(target, exit) }
            }
            trap::INDIRECT => Next::Branch(self.cpu.page.target),
            trap::CLOSED_RETURN => {
                if !self.translator.reopen_return(svc, &mut self.code) {
                    self.fail("not a closed return");
                }
                let target = self.machine.r[14];
                self.machine.r[0] = self.cpu.page.spill[0];
                self.machine.r[14] = self.cpu.page.spill[LINK_SLOT as usize];
                self.note("a return by the shadow stack, closed");
                Next::Branch(target)
            }
            number if number & !0xf == trap::CLOSED => {
                let reopened = self.translator.reopen(svc, &mut self.code);
                let Some(target) = self.translator.mirror().target(self.machine.r[14]).filter(|_| reopened) else {
                    self.fail("not a closed branch")
                };
                self.machine.r[14] = self.cpu.page.spill[LINK_SLOT as usize];
                if self.mirrors_t32() {
                    self.note("a branch of T32 code through the mirror, closed");
                }
                Next::Branch(target.0)
            }
            trap::TLB_PAGE | trap::TLB_RANGE => {
                let value = self.cpu.page.target;
                self.maintain_tlb(TlbOp::Page { va: value & !0xfff, asid: Some(value as u8) });
                self.note("TLB, by its own trap");
                Next::Cache(behind)
            }
            trap::TTBR0 | trap::CONTEXTIDR => {
                let value = self.cpu.page.target;
                let cp15 = &mut self.cpu.cp15;
                *(if number == trap::TTBR0 { &mut cp15.ttbr0 } else { &mut cp15.contextidr }) = value;
                self.cpu.show();
                self.note("a change of address spaces, by its own trap");
                Next::Cache(behind)
            }
            trap::COUNTER => {
                self.cpu.page.counter = [model::COUNTER as u32, (model::COUNTER >> 32) as u32];
                self.note("the counter, by its own trap");
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
                let decoded = self.instruction(place.location.guest.0, place.location.it);
                if decoded.unprivileged() != Some(!write) {
                    self.fail(&format!("a trap for an unprivileged access stands for {decoded}"));
                }
                // As `abort::unprivileged`: the rights are User mode's, for the first byte.
                let mapped = self.memory.check_as(false, va, 1, write).is_ok();
                let protected = write && Memory::page(va).is_some_and(|page| self.memory.protected[page]);
                if va & 0xfff <= 0xff0 && mapped && !protected {
                    // As `unprivileged_load` in `fast.s`.
                    if fast {
                        self.cpu.page.unprivileged[usize::from(write)] = va & !0xfff;
                    }
                    self.note("an unprivileged access, checked");
                    return Next::Cache(behind);
                }
                self.under_way = false;
                let guest_pc = self.undo(place);
                self.interpret(&decoded, guest_pc)
            }
            trap::CLEAN_LINE | trap::FORGET_LINE => {
                let at_r12 = trap::is_line_at_r12(self.word(svc.0));
                let va = if at_r12 { self.machine.r[12] } else { self.cpu.page.target };
                let decoded = self.instruction(place.location.guest.0, place.location.it);
                let is_meant = match decoded.op() {
                    Some(Op::CoprocMove { load: false, reg, rt }) => {
                        let operations = if number == trap::CLEAN_LINE { &CLEANS[..] } else { &[line(5)] };
                        operations.contains(&reg) && self.machine.r[rt.n() as usize] == va
                    }
                    _ => false,
                };
                if !is_meant {
                    self.fail(&format!("a trap for the cache line at {va:#x} stands for {decoded}"));
                }
                // As `clean_line` in `fast.s`: where Spica has the page mapped.
                if fast && self.memory.check(va, 1, false, true).is_ok() {
                    if number == trap::FORGET_LINE {
                        // What is done at once is to the model what will be done before user code runs.
                        (self.cpu.page.stale, self.cpu.page.stale_code) = (1, 1);
                    }
                    self.note("a cache line, by its own trap");
                    return Next::Cache(behind);
                }
                // As `abort::clean_line`, which maps it.
                if number == trap::CLEAN_LINE
                    && let Some(page) = Memory::page(va)
                {
                    self.memory.hidden[page] = false;
                }
                self.under_way = false;
                let guest_pc = self.undo(place);
                self.interpret(&decoded, guest_pc)
            }
            trap::EMULATE => self.emulate(self.word(behind), self.word(behind + 4), behind + 8, place),
            trap::EMULATE_T32 => {
                let it = trap::it_state(self.word(svc.0));
                self.emulate_t32(it, self.word(behind), self.word(behind + 4), behind + 8, place)
            }
            trap::IN_IT => {
                self.it = trap::it_state(self.word(svc.0));
                self.note("the end of a block in an IT block");
                Next::Guest(self.word(behind))
            }
            _ => self.fail(&format!("trap {number:#x} at {svc}, which is none")),
        }
    }

    /// DACR was written, and closes something.
    pub(super) fn close_domains(&mut self, behind: u32, fast: bool) -> Next {
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

    /// As `vm/trap/call.rs`: the registers are as the guest's, the target is in the vCPU page.
    fn exception_return(&mut self, fast: bool) -> Next {
        let pc = self.reference_entry();
        if !std::mem::take(&mut self.under_way) {
            self.fail("an exception return between instructions");
        }
        let target = match self.advance() {
            Event::Return(target) => target,
            Event::Unpredictable => return Next::End(End::Unpredictable),
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
    pub(super) fn returned(&mut self, target: u32, fast: bool) -> Next {
        let spsr = self.cpu.page.spsr;
        (self.trapped, self.left) = (true, self.left.saturating_sub(1));
        let thumb = spsr & psr::T != 0;
        if spsr & (psr::J | psr::E | psr::MODE) != 0x13 || thumb && self.window.thumb == 0 {
            self.it = ItState::from_psr(self.reference.psr);
            return self.skip(self.reference_entry());
        }
        self.note("an exception return that is followed");
        self.save();
        self.cpu.set_cpsr(spsr);
        self.restore();
        self.it = if thumb { ItState::from_psr(spsr) } else { ItState::OUTSIDE };
        self.reference.return_to(target);
        let target = if thumb { target | 1 } else { target & !3 };
        if thumb {
            self.note("an exception return to Thumb state");
            return Next::Guest(target);
        }
        match self.translator.jump_cache.get(target).filter(|_| fast && self.leave.is_none()) {
            Some(pc) => Next::Cache(pc),
            None => Next::Guest(target),
        }
    }

    pub(super) fn maintain_tlb(&mut self, op: TlbOp) {
        let what = match op {
            TlbOp::All => 0,
            TlbOp::Page { va, asid: Some(asid) } => va | u32::from(asid) | 1 << 8,
            TlbOp::Asid(asid) => u32::from(asid) | 2 << 8,
            TlbOp::Page { va, asid: None } => va | 3 << 8,
        };
        self.tlb = (self.tlb.0 + 1, what);
    }
}
