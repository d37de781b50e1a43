//! What a guest's kernel executes, counted ([`spica_dbt::Counters`]): when that begins and ends, and what is put right
//! where an exception leaves a run of instructions in its middle.
//!
//! The latter is looked at between a trap of translated code and the guest's next entry, where timelines look, too
//! ([`super::traced`]): a run has been left if the guest does not go on in the same block. Nothing of this is asked
//! while nobody counts.

use alloc::vec::Vec;

use spica_addr::{CachePc, GuestVa};
use spica_console::debug::COUNT_BYTES;

use spica_dbt::{BlockId, Counted, Options, Run, trap};

use super::sampled::{Samples, Wanted};
use super::{Vm, trap as traps};
use crate::engine::Engine;
use crate::host_cpu::HostCpu;
use crate::world::{Privilege, Trap};

/// A run from which a trap came.
#[derive(Clone, Copy)]
pub(super) struct Trapped {
    block: BlockId,
    generation: u64,
    run: Run,
    /// Instructions in front of the one that has trapped.
    before: u32,
    /// That is executed, whatever comes of it, unless it aborts.
    interpreted: bool,
    guest_aborts: u64,
}

impl Vm {
    /// Counts from now on what the guest's kernel executes, and takes samples if they are wanted. The guest stands
    /// between two instructions.
    ///
    /// # Errors
    /// If that cannot be counted.
    pub fn start_counting(&mut self, wanted: Option<Wanted>) -> Result<(), &'static str> {
        self.common.trapped = None;
        self.common.samples = None;
        let mut samples = wanted.map(Samples::new).transpose()?;
        // In place, nothing can be counted.
        self.leave_in_place(true);
        // Rounds of a loop that are done at once would not be seen.
        let every_round = Options { tlb_range: false, line_range: false, ..self.common.switches.translation };
        self.common.engine.set_options(every_round);
        self.common.engine.blocks.start_counting(samples.is_some());
        if let Some(samples) = &mut samples
            && let Some((counters, memory)) = self.common.engine.blocks.counters()
        {
            *counters.countdown(memory) = samples.next_distance();
        }
        self.common.samples = samples;
        self.counting_changed(true);
        Ok(())
    }

    /// Counts no longer; what was counted is kept. The guest stands between two instructions.
    pub fn stop_counting(&mut self) {
        if self.common.engine.blocks.counts() {
            self.run_goes_on(Privilege::User);
            self.common.engine.blocks.stop_counting();
            self.common.engine.set_options(self.common.switches.translation);
            self.counting_changed(false);
        }
    }

    /// The same as soon as the guest stands, and nothing is kept.
    pub fn forget_counters(&mut self) {
        if self.common.engine.blocks.counts() && !self.stands() {
            self.stop_counting_and_go();
            return;
        }
        self.stop_counting();
        self.common.engine.blocks.forget_counters();
        self.common.samples = None;
    }

    fn counting_changed(&mut self, counts: bool) {
        self.translations_changed();
        let Vm { vcpu, .. } = self;
        vcpu.mmu.notice(counts || vcpu.context.is_traced());
    }

    /// All translations are gone, and what is translated has more to do or less.
    pub(super) fn translations_changed(&mut self) {
        let Vm { vcpu, common, .. } = self;
        common.code_is_gone(&mut vcpu.mmu);
        vcpu.mmu.forget_call_vector(&(GuestVa(0)..=GuestVa(u32::MAX)));
        vcpu.mmu.make_stale();
    }

    /// Translated code has trapped: which run it is in, if that may have been left with it.
    pub(super) fn note_trapped(&mut self, core: &mut HostCpu, trap: Trap) {
        let pc = self.vcpu.context.cpu.pc;
        let (pc, interpreted) = match trap {
            Trap::SupervisorCall => (CachePc(pc.wrapping_sub(4)), true),
            Trap::Undefined | Trap::PrefetchAbort | Trap::DataAbort => (CachePc(pc), false),
            Trap::Irq | Trap::Fiq => return,
        };
        let engine = &mut self.common.engine.blocks;
        if interpreted && engine.word(pc).is_none_or(|word| ends_a_run(trap::number(word))) {
            return;
        }
        let Some(block) = engine.code_at(pc) else { return };
        let Some((location, _)) = traps::find(self, core.enter_host_space(), pc) else { return };
        let engine = &self.common.engine.blocks;
        let words = self.common.source_words(core.enter_host_space(), engine.source(block).1);
        if let Some(run) = words.and_then(|words| engine.run_of(block, location.guest, words)) {
            let (generation, guest_aborts) = (engine.generation(), self.common.counters.guest_aborts);
            let before = location.guest.0.wrapping_sub(run.start.0) / 4;
            self.common.trapped = Some(Trapped { block, generation, run, before, interpreted, guest_aborts });
        }
    }

    /// The guest goes on at `privilege`, and where its PC says if that is its kernel: puts the count of the run right
    /// from which the last trap came, if that has been left with it.
    pub(super) fn run_goes_on(&mut self, privilege: Privilege) {
        let Some(trapped) = self.common.trapped.take() else { return };
        let Trapped { block, generation, run, before, interpreted, guest_aborts } = trapped;
        let engine = &mut self.common.engine.blocks;
        let pc = CachePc(self.vcpu.context.cpu.pc);
        let stays = privilege == Privilege::Kernel && engine.generation() == generation && engine.goes_on_in(block, pc);
        if !stays {
            let executed = interpreted && self.common.counters.guest_aborts == guest_aborts;
            engine.leave_run(run, before + u32::from(executed));
        }
    }
}

/// Whether a trap of this number ends a run by itself.
const fn ends_a_run(number: u32) -> bool {
    // A sample is no instruction of the guest's.
    matches!(
        number,
        trap::SAMPLE | trap::LINK | trap::INDIRECT | trap::EXCEPTION_RETURN | trap::CLOSED_RETURN | trap::IN_IT
    ) || number & !0xf == trap::CLOSED
}

/// Runs in a piece of an answer.
const PIECE: usize = spica_console::trace::PIECE_BYTES / COUNT_BYTES;

impl Vm {
    /// How many runs have no counter of their own, each time that they were translated, and how often these were
    /// executed.
    pub fn not_counted(&mut self) -> (u32, u64) {
        let counters = self.common.engine.blocks.counters();
        counters.map_or((0, 0), |(counters, memory)| (counters.missed(), counters.uncounted(memory)))
    }

    /// What was counted, from counter `from` on: a piece of it ([`spica_console::debug::Debug::Counts`]), and where to
    /// go on.
    pub fn take_counts(&mut self, from: usize) -> (Vec<u8>, Option<usize>) {
        let Some((counters, memory)) = self.common.engine.blocks.counters() else { return (Vec::new(), None) };
        let mut piece = Vec::with_capacity(PIECE * COUNT_BYTES);
        let mut next = from;
        while piece.len() < PIECE * COUNT_BYTES {
            match counters.next(next, memory) {
                Ok(Some((Counted { run, count }, behind))) => {
                    piece.extend_from_slice(&run.start.0.to_le_bytes());
                    piece.push(run.length as u8);
                    piece.extend_from_slice(&count.to_le_bytes());
                    next = behind;
                }
                Ok(None) => return (piece, None),
                // There may be many of nothing: others have their turn in between.
                Err(behind) => return (piece, Some(behind)),
            }
        }
        (piece, Some(next))
    }
}
