//! Counting: what translated code counts of itself ([`Counters`]), when that begins and ends, and what of the code
//! cache it takes.

use alloc::boxed::Box;

use spica_addr::GuestVa;

use super::{BlockId, CodeMemory, Translator};
use crate::at::is_thumb;
use crate::checks::Checks;
use crate::client::{self, CountRuns, Counters, Run};
use crate::layout::PAGE_WORDS;

impl Translator {
    /// Gives the runs of a block their counters.
    #[cold]
    pub(super) fn place_counters(&mut self, runs: Option<&CountRuns>, code_page: u32, memory: &mut impl CodeMemory) {
        let Some(counters) = &mut self.counters else { return };
        let Some(runs) = runs else { return counters.miss() };
        for (run, site) in runs.runs() {
            let address = counters.address(run, &self.layout, memory);
            client::set_run(memory.page(code_page), site, run, address, counters.samples());
        }
    }

    /// From now on, translated code counts which runs it executes ([`Counters`]), from 0 on. With `samples`, it also
    /// traps where its countdown ([`Counters::countdown`]) falls below 0. All blocks go.
    pub fn start_counting(&mut self, samples: bool, memory: &mut impl CodeMemory) {
        self.forget_counters(memory);
        self.flush(memory);
        let counters = Counters::new(&self.layout, samples, memory);
        memory.make_data(counters.first_page()..self.layout.pages, true);
        (self.counters, self.counts) = (Some(counters), true);
    }

    /// Translated code counts no longer. All blocks go; the counters can be read until they are forgotten.
    pub fn stop_counting(&mut self, memory: &mut impl CodeMemory) {
        if core::mem::take(&mut self.counts) {
            self.flush(memory);
        }
    }

    /// The pages of the counters are for code again. All blocks go, if code counts still.
    pub fn forget_counters(&mut self, memory: &mut impl CodeMemory) {
        self.stop_counting(memory);
        if let Some(counters) = self.counters.take() {
            memory.make_data(counters.first_page()..self.layout.pages, false);
        }
    }

    /// From now on, translated code looks at accesses, and tells of places ([`crate::checks`]). All blocks go.
    pub fn start_checking(&mut self, checks: Box<Checks>, memory: &mut impl CodeMemory) {
        self.forget_counters(memory);
        self.flush(memory);
        self.checks = Some(checks);
    }

    /// It does no longer. All blocks go, if it did.
    pub fn stop_checking(&mut self, memory: &mut impl CodeMemory) {
        if self.checks.take().is_some() {
            self.flush(memory);
        }
    }

    /// Whether translated code looks at accesses.
    #[inline]
    #[must_use]
    pub fn checks(&self) -> bool {
        self.checks.is_some()
    }

    /// Whether translated code counts.
    #[inline]
    #[must_use]
    pub fn counts(&self) -> bool {
        self.counts
    }

    /// What was counted, if anything was.
    #[must_use]
    pub fn counters(&self) -> Option<&Counters> {
        self.counters.as_ref()
    }

    /// The run of block `id` that the guest instruction at `guest` belongs to. `words` is the guest's page as it was
    /// when the block was made.
    #[must_use]
    pub fn run_of(&self, id: BlockId, guest: GuestVa, words: &[u32; PAGE_WORDS]) -> Option<Run> {
        let block = &self.blocks[usize::from(id.0)];
        if !self.counts || is_thumb(block.va) {
            return None;
        }
        let mut runs = self.count_runs();
        self.make_again(id, None, words, &mut runs);
        runs.runs().map(|(run, _)| run).find(|run| (guest.0.wrapping_sub(run.start.0)) / 4 < run.length)
    }

    /// A run has been left behind the first `executed` of its instructions, by an exception: its execution counts as
    /// one of a run that is so short.
    pub fn leave_run(&mut self, run: Run, executed: u32, memory: &mut impl CodeMemory) {
        if executed < run.length
            && let Some(counters) = &mut self.counters
        {
            counters.add(run, -1, memory);
            counters.add(Run { length: executed, ..run }, 1, memory);
        }
    }

    /// What emits the code of counters.
    pub(super) fn count_runs(&self) -> CountRuns {
        CountRuns::new(self.counters.as_ref().and_then(|counters| counters.countdown_address(&self.layout)))
    }

    /// Code pages that are for code.
    pub(super) fn code_pages(&self) -> u32 {
        self.counters.as_ref().map_or(self.layout.pages, Counters::first_page)
    }
}
