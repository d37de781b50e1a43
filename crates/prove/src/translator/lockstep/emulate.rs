//! Instructions that the interpreter executes, because they were translated to a trap, or for what stands for them in
//! the cache is not enough.

use crate::translator::env::abort;
use crate::translator::instruction::{Instruction, length_at};
use crate::translator::lockstep::blocks::Place;
use crate::translator::lockstep::{End, Lockstep, Next};
use crate::translator::model::{Event, Fault};
use spica_dbt::spill;
use spica_isa::Op;
use spica_isa::t32::{self, Code, ItState};
use spica_vcpu::interp::{Abort, Step};
use spica_vcpu::{Effect, psr};

/// What a lightweight trap of the guest's own becomes.
const UDF: u32 = 0xe7f0_00f0;
const T32_UDF: u32 = 0xf7f0_a000;

impl Lockstep {
    /// As `vm/trap/emulate.rs`. The reference executes the instruction at the same time.
    pub(super) fn emulate(&mut self, word: u32, pc: u32, next: u32, place: Place) -> Next {
        self.leave = None;
        let guest = self.reference_memory.word(pc);
        // No literal is a lightweight trap.
        let expected = if guest == spill::TRAP { UDF } else { guest };
        if pc != place.location.guest.0 || word != expected {
            self.fail("the literals of an emulation");
        }
        self.emulate_instruction(Instruction::A32(spica_isa::decode(word)), pc, Some(next))
    }

    /// The same of a T32 instruction, in the state that the trap says.
    pub(super) fn emulate_t32(&mut self, it: ItState, bits: u32, pc: u32, next: u32, place: Place) -> Next {
        self.leave = None;
        let Instruction::T32(guest) = self.instruction(pc, it) else { self.fail("an A32 instruction") };
        let expected = if guest.code.bits() == spill::TRAP { T32_UDF } else { guest.code.bits() };
        if (pc, it) != (place.location.guest.0, place.location.it) || bits != expected {
            self.fail("the literals of an emulation");
        }
        let code =
            if bits >> 16 == 0 { Code::new(bits as u16, 0) } else { Code::new((bits >> 16) as u16, bits as u16) };
        self.emulate_instruction(Instruction::T32(t32::decode(code, it)), pc, Some(next))
    }

    /// The block goes on at `next`, if there is one.
    pub(super) fn emulate_instruction(&mut self, decoded: Instruction, pc: u32, next: Option<u32>) -> Next {
        let it = match decoded {
            Instruction::A32(_) => ItState::OUTSIDE,
            Instruction::T32(_) => ItState::from_psr(self.reference.psr),
        };
        self.it = it;
        let op = decoded.op();
        // An inlined change of the mask stores it before it looks whether it has to leave.
        let control = self.cpu.page.control;
        if matches!(op, Some(Op::ChangeState { .. } | Op::MsrReg { spsr: false, .. })) {
            let expected = self.reference.supervisor.map_or(0, |supervisor| supervisor.masks);
            self.cpu.page.control = control & !psr::I | expected & psr::I;
        }
        self.compare(&self.machine.r.clone(), pc);
        self.cpu.page.control = control;
        self.under_way = false;
        self.trapped = true;
        if decoded.is_unpredictable() {
            return self.skip(pc);
        }
        let event = self.advance();
        match event {
            Event::Privileged => return self.skip(pc),
            // Not modelled, unless nobody knows it.
            Event::Undefined if !decoded.is_undefined() => return self.skip(pc),
            Event::Unpredictable => return Next::End(End::Unpredictable),
            _ => {}
        }
        let (masks, flags) = (self.cpu.page.control, self.machine.psr);
        self.save_in_state(pc, it);
        let version = self.translator.version();
        let step = self.interpret_at(&decoded, pc);
        if let (Event::Return(target), Step::Return(found)) = (event, step) {
            // What the interpreter did to mode and CPSR is undone, and done again if it is to Supervisor mode.
            self.cpu.change_mode(psr::Mode::Svc);
            self.cpu.set_masks(masks, psr::A | psr::I | psr::F);
            self.cpu.psr = flags;
            self.restore();
            let spsr = self.cpu.page.spsr;
            if found != target & if spsr & psr::T != 0 { !1 } else { !3 } {
                self.fail(&format!("interpreted exception return to {found:#x}, expected {target:#x}"));
            }
            self.it = it;
            self.compare(&self.machine.r.clone(), pc);
            return self.returned(target, false);
        }
        self.left = self.left.saturating_sub(1);
        self.restore();
        let behind = pc.wrapping_add(decoded.length());
        let step = match step {
            Step::Next(effect) => match self.apply(effect) {
                Ok(()) if effect == Effect::Regime => Step::Branch(behind),
                Ok(()) => step,
                Err(abort) => Step::Abort(abort),
            },
            other => other,
        };
        let stays = version == self.translator.version();
        match (event, step) {
            (Event::Done, Step::Next(_)) => {
                // What only reads comes back to a world that is as it was.
                if !matches!(op, Some(Op::CoprocMove { load: true, .. } | Op::Mrs { .. })) {
                    self.prepare();
                }
                match next {
                    Some(next) if stays => Next::Cache(next),
                    _ => Next::Guest(behind),
                }
            }
            (Event::Done, Step::Return(target)) if target == behind & !1 => {
                let deliverable = self.cpu.page.pending != 0 && !self.cpu.irq_masked();
                self.prepare();
                match next {
                    Some(next) if !deliverable => Next::Cache(next),
                    _ => Next::Guest(behind),
                }
            }
            (Event::Done, Step::Branch(target)) if target == behind => Next::Guest(behind),
            (Event::Done, Step::Branch(target)) => Next::Branch(target),
            // The reference is behind it in its IT block.
            (Event::Supervisor(_), Step::SupervisorCall) => {
                self.compare(&self.machine.r.clone(), pc);
                self.go_on_behind(pc)
            }
            (Event::Undefined, Step::Undefined) => {
                self.it = it;
                self.compare(&self.machine.r.clone(), pc);
                self.skip(pc)
            }
            (Event::Fault(fault), Step::Abort(found)) => {
                if found != abort(fault) {
                    self.fail(&format!("{found:x?}, expected {fault:x?}"));
                }
                self.it = it;
                self.compare(&self.machine.r.clone(), pc);
                self.guest_fault(fault, pc)
            }
            other => self.fail(&format!("interpreted {decoded}: {other:x?}")),
        }
    }

    /// As `abort::interpret`: what stands for an instruction in the cache is not enough this time.
    pub(super) fn interpret(&mut self, decoded: &Instruction, pc: u32) -> Next {
        self.trapped = true;
        let it = self.it;
        self.save_in_state(pc, it);
        let step = self.interpret_at(decoded, pc);
        self.restore();
        let result = match step {
            Step::Next(effect) => self.apply(effect),
            Step::Abort(abort) => Err(abort),
            // MSR to System mode.
            Step::Return(target) if target == pc.wrapping_add(decoded.length()) & !1 => Ok(()),
            other => self.fail(&format!("interpreted {decoded}: {other:?}")),
        };
        match (self.advance(), result) {
            (Event::Done, Ok(())) => {
                self.left = self.left.saturating_sub(1);
                Next::Guest(pc.wrapping_add(decoded.length()))
            }
            (Event::Fault(fault), Err(found)) if abort(fault) == found => {
                self.it = it;
                self.forgive(decoded);
                self.compare(&self.machine.r.clone(), pc);
                self.guest_fault(fault, pc)
            }
            (Event::Unpredictable, _) => Next::End(End::Unpredictable),
            (event, found) => self.fail(&format!("{decoded} at {pc:#x}: {found:x?}, expected {event:x?}")),
        }
    }

    /// As `emulate::apply`.
    pub(super) fn apply(&mut self, effect: Effect) -> Result<(), Abort> {
        match effect {
            Effect::None
            | Effect::DataCacheBySet
            | Effect::Mirror
            | Effect::ThreadIdReadOnly(_)
            | Effect::Regime
            | Effect::Dacr { .. } => {}
            Effect::Vfp => {}
            Effect::Tlb(op) => self.maintain_tlb(op),
            Effect::InstructionCache(_) => self.invalidated = [true; 2],
            Effect::BranchPredictor => self.invalidated[0] = true,
            Effect::DataCache(_, va) => {
                self.memory.check(va, 1, false, false).map_err(|fault| abort(Fault { write: true, ..fault }))?;
            }
            Effect::ThreadIdReadWrite(value) if self.options.lent_thread_id => self.cpu.page.tpidrurw = value,
            Effect::ThreadIdReadWrite(value) => self.machine.thread[0] = value,
            other => self.fail(&format!("an effect that is not expected: {other:?}")),
        }
        Ok(())
    }

    /// Both guests go on behind the instruction.
    pub(super) fn skip(&mut self, pc: u32) -> Next {
        self.it = self.it.advance();
        self.go_on_behind(pc)
    }

    /// The same, with the ITSTATE advanced already.
    fn go_on_behind(&mut self, pc: u32) -> Next {
        self.skipped += 1;
        let behind = pc.wrapping_add(length_at(&self.reference_memory, pc));
        self.put_reference(behind, self.it);
        Next::Guest(behind)
    }
}
