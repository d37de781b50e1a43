//! Between two guest instructions: the reference catches up, and all that the guest can see is compared.

use crate::translator::generate;
use crate::translator::instruction::Instruction;
use crate::translator::lockstep::{End, Lockstep};
use crate::translator::memory::Memory;
use crate::translator::model::{self, Event, Machine, Supervisor};
use spica_isa::Reg;
use spica_isa::t32::ItState;
use spica_vcpu::{Bank, Banked, Shown, psr};

impl Lockstep {
    /// Between two guest instructions: the reference catches up, and all is compared but a register that the next one
    /// overwrites, if the translation has `lost` it. `Some` ends the run.
    pub(super) fn boundary(&mut self, guest_pc: u32, lost: Option<Reg>) -> Option<End> {
        let masked = |machine: &Machine| machine.supervisor.is_some_and(|s| s.masks & psr::I != 0);
        let (was_masked, trapped) = (masked(&self.reference), std::mem::take(&mut self.trapped));
        if std::mem::take(&mut self.under_way) {
            self.compare_looks();
            let (before, mode) = (self.reference.pc, self.reference.mode);
            match self.advance() {
                Event::Done => self.note_branch(before),
                Event::Unpredictable => return Some(End::Unpredictable),
                other => self.fail(&format!("at {guest_pc:#x}, but the last instruction is {other:?}")),
            }
            self.left = self.left.saturating_sub(1);
            if self.reference.mode != mode && !trapped {
                self.note_mode(mode, guest_pc);
            }
            if was_masked && !masked(&self.reference) && self.cpu.page.pending != 0 && !trapped {
                self.fail(&format!("before {guest_pc:#x}: unmasked, but the interrupt that waits is not taken"));
            }
        }
        self.check_dacr(guest_pc);
        match self.turning_off.take() {
            Some(0) => self.note("FPEXC, without a trap"),
            Some(_) => self.fail(&format!("before {guest_pc:#x}: no trap for FPEXC")),
            None => {}
        }
        // A preload that was dropped has no word in the block.
        while self.reference_entry() != guest_pc && self.is_wordless() {
            let it = ItState::from_psr(self.reference.psr);
            if let Instruction::T32(decoded) = self.instruction(self.reference_entry(), it)
                && let Some(kind) = generate::kind_of_t32(&decoded)
            {
                self.note(kind);
            }
            self.reference.step(&mut self.reference_memory);
        }
        let mut r = self.machine.r;
        if let Some(lost) = lost {
            self.note("a register is lost");
            if generate::is_isb(self.reference_memory.word(guest_pc)) {
                self.note("a register is lost across an ISB");
            }
            r[lost.n() as usize] = self.reference.r[lost.n() as usize];
        }
        self.compare(&r, guest_pc);
        (self.left == 0).then_some(End::Enough)
    }

    /// The mode was another one before the instruction, which has not trapped. Where the translation stands for all
    /// that the guest does in System mode, up to `guest_pc`, the reference does that, too.
    fn note_mode(&mut self, before: u32, guest_pc: u32) {
        if before == model::SYSTEM_MODE {
            return self.note("back from System mode, without a trap");
        }
        self.note("to System mode, without a trap");
        if self.reference_entry() == guest_pc {
            return;
        }
        self.note("all of System mode at once");
        // Two accesses, EOR, MSR.
        for _ in 0..4 {
            match self.advance() {
                Event::Done => self.left = self.left.saturating_sub(1),
                other => self.fail(&format!("before {guest_pc:#x}, an instruction in System mode is {other:?}")),
            }
        }
    }

    /// The reference executes one instruction, which is counted.
    pub(super) fn advance(&mut self) -> Event {
        if self.reference.psr & model::T != 0 {
            return self.advance_t32();
        }
        let word = self.reference_memory.word(self.reference.pc);
        let passed = word >> 28 == 15 || model::condition_passed(word >> 28, self.reference.psr);
        let event = self.reference.step(&mut self.reference_memory);
        if let (true, Some(kind)) = (passed && event != Event::Privileged, generate::kind(word)) {
            self.note(kind);
            if matches!(event, Event::Fault(_)) {
                self.note("a fault of one of these");
            }
        }
        event
    }

    fn advance_t32(&mut self) -> Event {
        let it = ItState::from_psr(self.reference.psr);
        let instruction = self.instruction(self.reference_entry(), it);
        let passed = match instruction {
            Instruction::T32(decoded) => decoded.cond.holds(self.reference.psr),
            Instruction::A32(_) => true,
        };
        let event = self.reference.step(&mut self.reference_memory);
        if let (true, Instruction::T32(decoded)) = (passed && event != Event::Privileged, instruction)
            && let Some(kind) = generate::kind_of_t32(&decoded)
        {
            self.note(kind);
            if it.in_block() {
                self.note("T32, in an IT block");
            }
            if matches!(event, Event::Fault(_)) {
                self.note("a fault of T32");
                if it.in_block() {
                    self.note("a fault in an IT block");
                }
            }
        }
        event
    }

    /// All that the guest can see is the same, with the host's registers `r`.
    pub(super) fn compare(&self, r: &[u32; 15], guest_pc: u32) {
        let reference = &self.reference;
        let supervisor = reference.supervisor.expect("the reference is in Supervisor mode");
        let page = &self.cpu.page;
        let masks = self.cpu.cpsr() & (psr::A | psr::I | psr::F);
        let system = reference.mode == model::SYSTEM_MODE;
        let other = if system { Bank::Svc } else { Bank::Usr };
        let Banked { sp, lr, .. } = page.bank[other as usize];
        let Shown { ctr, sctlr, ttbr0, ttbr1, contextidr, dfsr, ifsr, dfar, ifar } = page.shown;
        let seen = Supervisor {
            masks,
            spsr: if system { page.bank[Bank::Svc as usize].spsr } else { page.spsr },
            banked: [sp, lr],
            thread_private: page.tpidrprw,
            system: [ctr, sctlr, ttbr0, ttbr1, page.dacr, dfsr, ifsr, dfar, ifar, contextidr],
            dacr_writes: supervisor.dacr_writes,
            stale: self.invalidated[0] || page.stale != 0,
            stale_code: self.invalidated[1] || page.stale_code != 0,
            fpexc: page.fpexc & model::EN,
            vfp_denied: supervisor.vfp_denied,
            teehbr: page.teehbr,
            tlb: self.tlb,
        };
        if self.cpu.mode() as u32 != reference.mode {
            self.fail(&format!("before {guest_pc:#x}: {:?} mode, expected {:#x}", self.cpu.mode(), reference.mode));
        }
        if self.reference_entry() != guest_pc {
            self.fail(&format!("guest PC {guest_pc:#x}, expected {:#x}", self.reference_entry()));
        }
        for (n, (have, want)) in r.iter().zip(&reference.r).enumerate() {
            if have != want {
                self.fail(&format!("before {guest_pc:#x}: R{n} = {have:#x}, expected {want:#x}"));
            }
        }
        if (self.machine.psr ^ reference.psr) & psr::USER_BITS & !(psr::T | psr::IT) != 0 {
            let (have, want) = (self.machine.psr, reference.psr);
            self.fail(&format!("before {guest_pc:#x}: flags {have:#x}, expected {want:#x}"));
        }
        if self.machine.vfp != reference.vfp {
            self.fail(&format!("before {guest_pc:#x}: a VFP register differs"));
        }
        if seen != supervisor || [self.thread_id(), page.tpidruro] != reference.thread {
            self.fail(&format!("before {guest_pc:#x}: {seen:x?}, expected {supervisor:x?}"));
        }
        if self.options.lent_thread_id && self.machine.thread[0] != page.tpidruro {
            let (have, want) = (self.machine.thread[0], page.tpidruro);
            self.fail(&format!("before {guest_pc:#x}: {have:#x} is lent, expected {want:#x}"));
        }
        if self.machine.vfp_on && !reference.has_vfp() {
            self.fail(&format!("before {guest_pc:#x}: VFP is on"));
        }
        if self.real_dacr != page.dacr_real || self.real_dacr & !supervisor.system[model::DACR] != 0 {
            let (real, guest) = (self.real_dacr, supervisor.system[model::DACR]);
            self.fail(&format!("before {guest_pc:#x}: a domain is open, DACR {real:#x}, the guest's {guest:#x}"));
        }
        if self.memory.bytes != self.reference_memory.bytes {
            let same = |(a, b): (&u8, &u8)| a == b;
            let at = self.memory.bytes.iter().zip(&self.reference_memory.bytes).position(|pair| !same(pair));
            self.fail(&format!("before {guest_pc:#x}: memory differs at byte {at:#x?}"));
        }
    }

    /// A write to DACR has trapped just if it closed what was really open.
    fn check_dacr(&mut self, guest_pc: u32) {
        let Some(supervisor) = self.reference.supervisor else { return };
        let written = std::mem::replace(&mut self.dacr_writes, supervisor.dacr_writes) != supervisor.dacr_writes;
        let (closed, closing) = (std::mem::take(&mut self.closed), self.closing.take());
        if std::mem::take(&mut self.dacr_in_place) {
            if !written {
                self.fail(&format!("before {guest_pc:#x}: DACR was written in place, and not by the guest"));
            }
            return;
        }
        if !self.translator.options().lazy_dacr || !written {
            if closed || closing.is_some() {
                self.fail(&format!("before {guest_pc:#x}: a trap for DACR, which was not written"));
            }
            return;
        }
        let eager = self.eager.contains(&self.cpu.page.dacr_site);
        let expected = match closing {
            Some(closing) => closing != 0,
            None if eager => supervisor.system[model::DACR] != u32::MAX,
            None => self.fail(&format!("before {guest_pc:#x}: nobody looked what DACR closes")),
        };
        if closed != expected {
            self.fail(&format!("before {guest_pc:#x}: trap for DACR: {closed}, expected {expected}"));
        }
        self.note(match (eager, closed) {
            (true, _) => "DACR, eagerly",
            (false, true) => "DACR, with a trap",
            (false, false) => "DACR, without a trap",
        });
    }

    fn is_wordless(&self) -> bool {
        let pc = self.reference_entry();
        if pc & 1 != 0 {
            let it = ItState::from_psr(self.reference.psr);
            return Memory::is_code(pc & !1) && self.instruction(pc, it).is_wordless();
        }
        Memory::is_code(pc) && pc & 3 == 0 && model::is_preload(self.reference_memory.word(pc))
    }
}
