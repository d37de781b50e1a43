//! Aborts of translated code: pages that Spica does not map yet, writes to code, and the guest's own faults.

use crate::translator::env::abort;
use crate::translator::instruction::Instruction;
use crate::translator::lockstep::blocks::Place;
use crate::translator::lockstep::{End, Lockstep, Next};
use crate::translator::memory::Memory;
use crate::translator::model::{self, Event, Fault};
use crate::translator::{VA_TO_PA, generate};
use spica_addr::CachePc;
use spica_dbt::layout::PAGE;
use spica_isa::{Decoded, Op, t32};
use spica_vcpu::Bank;
use spica_vcpu::interp::{self, Abort, Step};

impl Lockstep {
    /// As `vm/trap/abort.rs` and `vm/trap/locate.rs`.
    pub(super) fn faulted(&mut self, fault: Fault, pc: CachePc, place: Place) -> Next {
        self.take_over();
        if let (Some(page), false) = (Memory::page(fault.address), fault.alignment)
            && self.memory.hidden[page]
        {
            self.memory.hidden[page] = false;
            self.retry = place.first;
            self.prepare();
            return Next::Cache(pc.0);
        }
        let decoded = self.instruction(place.location.guest.0, place.location.it);
        // As `abort::stands_for_another`.
        let stands_for_another = match decoded.op() {
            Some(Op::CoprocMove { load, .. }) => !load,
            Some(Op::MemMultiple(mem)) => mem.user,
            Some(Op::MsrReg { spsr, .. }) => !spsr,
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
            self.note(match decoded.op() {
                Some(Op::CoprocMove { .. }) => "a fault of cache maintenance",
                Some(Op::MsrReg { .. }) => "a fault in System mode, which did not begin",
                _ => "a fault of the User bank",
            });
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

    /// The guest's handler maps what was missing, if that can be.
    pub(super) fn guest_fault(&mut self, fault: Fault, pc: u32) -> Next {
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
                if let Some(base) = self.instruction(pc, self.it).base() {
                    self.reference.r[base] = better;
                    self.machine.r[base] = better;
                }
                self.skip(pc)
            }
        }
    }

    /// The guest writes to a page that code was translated from.
    fn write_to_code(&mut self, fault: Fault, pc: CachePc, place: Place) -> Next {
        let own = self.source_page(pc).0 == fault.address.wrapping_sub(VA_TO_PA) & !0xfff;
        if !own {
            let store = spica_isa::decode(self.word(pc.0));
            let within = (8..=0xff8).contains(&(fault.address % PAGE));
            if within && matches!(store.op, Op::Mem(_)) {
                return self.patch(&store, pc, place);
            }
            self.env().0.code_changes(fault.address);
            self.retry = place.first;
            self.prepare();
            return Next::Cache(pc.0);
        }
        let guest_pc = self.undo(place);
        let it = self.it;
        let decoded = Instruction::at(&self.memory, guest_pc, it);
        if !decoded.is_transfer() {
            // The interpreter knows neither exclusives nor VFP: none of it is executed, what was stored so far
            // included.
            self.under_way = false;
            self.memory.bytes.clone_from(&self.reference_memory.bytes);
            self.compare(&self.machine.r.clone(), guest_pc);
            return self.skip(guest_pc);
        }
        self.save_in_state(guest_pc, it);
        match self.interpret_at(&decoded, guest_pc) {
            Step::Next(_) => {
                self.restore();
                // Where the instruction was copied, the block goes on, unless it went with what it wrote.
                let copied = decoded.a32().is_some_and(|decoded| decoded.word == self.word(pc.0));
                if copied && self.is_live(pc) {
                    self.note("a store of a block to its own page that leaves it");
                    Next::Cache(pc.0.wrapping_add(4))
                } else {
                    Next::Guest(guest_pc.wrapping_add(decoded.length()))
                }
            }
            Step::Abort(found) => {
                self.restore();
                self.it = it;
                self.aborted(found, &decoded, guest_pc)
            }
            other => self.fail(&format!("a store to code: {other:?}")),
        }
    }

    /// A store of one register to code of another page: what is in the cache is interpreted.
    fn patch(&mut self, store: &Decoded, pc: CachePc, place: Place) -> Next {
        self.save();
        let version = self.translator.version();
        let (mut env, cpu) = self.env();
        let step = interp::execute(cpu, &mut env, store, pc.0);
        self.restore();
        let dropped = self.translator.version() != version;
        self.note(if dropped { "a store to code, of a word" } else { "a store to code that concerns no block" });
        match step {
            Step::Next(_) => Next::Cache(pc.0.wrapping_add(4)),
            Step::Abort(found) => {
                let guest_pc = self.undo(place);
                let decoded = self.instruction(guest_pc, self.it);
                self.aborted(found, &decoded, guest_pc)
            }
            other => self.fail(&format!("a store to code: {other:?}")),
        }
    }

    /// The interpreter says that the guest's instruction aborts, as the reference must.
    fn aborted(&mut self, found: Abort, decoded: &Instruction, guest_pc: u32) -> Next {
        self.under_way = false;
        match self.advance() {
            Event::Fault(expected) if abort(expected) == found => {
                self.forgive(decoded);
                self.compare(&self.machine.r.clone(), guest_pc);
                self.guest_fault(expected, guest_pc)
            }
            other => self.fail(&format!("{found:x?} at {guest_pc:#x}, expected {other:x?}")),
        }
    }

    /// Puts the guest's registers right, as for an exception, and returns its PC.
    pub(super) fn undo(&mut self, place: Place) -> u32 {
        let undo = place.location.undo;
        if let Some((reg, spilled)) = undo.spilled {
            self.note_spilled(place, false);
            self.machine.r[reg.n() as usize] = self.spilled(spilled);
        }
        if let Some(reg) = undo.beside {
            self.machine.r[reg.n() as usize] = self.cpu.page.spill[1];
            self.note("a fault with two registers in the vCPU page");
        }
        if let Some((reg, by)) = undo.adjust {
            let reg = &mut self.machine.r[reg.n() as usize];
            *reg = reg.wrapping_add(by);
        }
        self.it = place.location.it;
        if !place.behind && self.it.to_psr() != self.reference.psr & model::IT {
            self.fail(&format!("ITSTATE {:?} at {}", self.it, place.location.guest));
        }
        place.location.guest.0
    }

    /// What is UNKNOWN behind an abort of a block transfer (B1.9.8) becomes what the reference has: registers of the
    /// list that are not the base, and words that were to be stored by another order.
    pub(super) fn forgive(&mut self, decoded: &Instruction) {
        if let Instruction::T32(t32::Decoded { op: t32::Op::MemDual(m), .. }) = decoded {
            for n in [m.rt, m.rt2].into_iter().filter(|&n| m.load && n != m.rn).map(|n| n.n() as usize) {
                self.machine.r[n] = self.reference.r[n];
            }
            return;
        }
        let Some(Op::MemMultiple(mem)) = decoded.op() else { return };
        let bank = mem.user && !(mem.load && mem.regs & 0x8000 != 0);
        for n in (0..15usize).filter(|&n| mem.load && mem.regs >> n & 1 != 0) {
            let user = &mut self.cpu.page.bank[Bank::Usr as usize];
            let Some(supervisor) = self.reference.supervisor else { return };
            match n {
                13 if bank => user.sp = supervisor.banked[0],
                14 if bank => user.lr = supervisor.banked[1],
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
}
