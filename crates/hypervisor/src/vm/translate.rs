//! Blocks: made from pages that are protected first, and dropped when these change.

use super::Common;
use super::mmu::Mmu;
use crate::engine::{Code, Engine, Source};
use crate::host::Host;
use crate::host_cpu::HostSpace;
use spica_addr::{CachePc, GuestPa, GuestVa};
use spica_dbt::at::address;
use spica_dbt::{LAST_HALF_WORD, NextPage};
use spica_mmu::{Access, AccessKind, Fault, FaultKind, Mapping, PageSize, Regime};
use spica_switches::Switches;
use spica_switches::later::Later;

impl Common {
    /// Makes the code for a guest address; and whether all other code had to go for it. Its page is write-protected
    /// first, so that no change of it goes unseen.
    pub(super) fn translate(
        &mut self,
        mmu: &mut Mmu,
        host_space: HostSpace<'_>,
        source: Source,
    ) -> Result<(Code, bool), Fault> {
        let page = source.pa;
        let external = Fault::without_descriptor(FaultKind::External);
        if self.ram.page(host_space, page).is_none() {
            return Err(external);
        }
        let protect = |mmu: &mut Mmu| {
            mmu.protect_code_page(page);
            if let Some(next) = source.start.next_page {
                mmu.protect_code_page(next.pa);
            }
        };
        protect(mmu);
        let words = self.ram.page(host_space, page).ok_or(external)?;
        let (code, flushed) = self.engine.make(source, words);
        if flushed {
            // No code is left but this.
            self.code_is_gone(mmu);
            protect(mmu);
        }
        Ok((code, flushed))
    }

    /// Makes the code of `source`, in a volatile page or in FIQ mode, for one execution: what it was made from may
    /// change any time, or it is not for other modes. So it is never found again, nor linked to. `one`: of a single
    /// instruction.
    pub(super) fn translate_once(
        &mut self,
        mmu: &mut Mmu,
        host_space: HostSpace<'_>,
        source: Source,
        one: bool,
    ) -> Result<CachePc, Fault> {
        let external = Fault::without_descriptor(FaultKind::External);
        let pa = source.pa;
        if self.volatile.contains(pa) {
            self.engine.page_changed(pa);
            let words = self.ram.page(host_space, pa).ok_or(external)?;
            self.snapshot.copy_from_slice(words);
        } else {
            mmu.protect_code_page(pa);
        }
        let words = self.ram.page(host_space, pa).ok_or(external)?;
        Ok(if one { self.engine.make_one(source, words) } else { self.engine.make_once(source, words) })
    }

    /// What the page behind has of the instruction at `pc`, in a page that is mapped as `mapping` says, if half of it
    /// is there, and how that page is mapped.
    ///
    /// # Errors
    /// If the guest may not execute there.
    pub(super) fn next_page(
        &self,
        host_space: HostSpace<'_>,
        regime: &Regime,
        pc: GuestVa,
        mapping: &Mapping,
    ) -> Result<Option<(NextPage, Mapping)>, Fault> {
        // For all others, this is all that there is to do.
        if pc.page_offset() != LAST_HALF_WORD | 1 {
            return Ok(None);
        }
        let external = Fault::without_descriptor(FaultKind::External);
        if !spica_dbt::is_across(pc, self.ram.page(host_space, mapping.pa).ok_or(external)?) {
            return Ok(None);
        }
        let access = Access { kind: AccessKind::Fetch, privileged: true };
        let behind = spica_mmu::translate(&self.ram.at(host_space), regime, address(pc).wrapping_add(2), access)?;
        let words = self.ram.page(host_space, behind.pa).ok_or(external)?;
        Ok(Some((NextPage { half: words[0] as u16, pa: behind.pa.page() }, behind)))
    }

    /// What is at `va`, mapped by something as large as `size`, has been looked through for code, or in it. TLB
    /// maintenance there must come here, to be looked at with
    /// [`CodeMap::may_have_code`](spica_dbt::code_map::CodeMap::may_have_code).
    pub fn watch_code(&mut self, mmu: &mut Mmu, va: GuestVa, size: PageSize) {
        self.code_map.watch(va.0);
        mmu.watch(va, size);
    }

    /// The words that live blocks from the page at `pa` were made from.
    pub fn source_words<'a>(&'a self, host_space: HostSpace<'a>, pa: GuestPa) -> Option<&'a [u32; 1024]> {
        if self.volatile.contains(pa) { Some(&self.snapshot) } else { self.ram.page(host_space, pa) }
    }

    /// See [`Vm::forget_code`](super::Vm::forget_code).
    pub(super) fn forget_code(&mut self, mmu: &mut Mmu) {
        self.volatile.clear();
        mmu.forget_derived();
        self.code_map.forget_descriptors();
        self.backlog.clear();
        self.engine.start_anew();
        self.engine.set_vfp(false);
        // What was known of its memory is so no longer.
        if self.engine.blocks.checks() {
            self.engine.blocks.stop_checking();
        }
        self.engine.forget_all();
        self.code_is_gone(mmu);
    }

    /// Other switches from now on, between two blocks.
    pub fn set_switches(&mut self, mmu: &mut Mmu, switches: Switches) {
        self.switches = switches;
        self.engine.set_options(switches.translation);
        self.code_is_gone(mmu);
    }

    /// No block is left. What runs in place, if anything, stays, and stays protected.
    pub(super) fn code_is_gone(&mut self, mmu: &mut Mmu) {
        self.preemptive_flush.flushed();
        mmu.unprotect_all_code_pages();
        // Nothing can have been written in between: these are not mapped writable anywhere.
        self.engine.in_place_pages().for_each(|pa| {
            mmu.protect_code_page(pa);
        });
    }

    /// Asked now and then while the guest runs: if it is time, and the guest is `between_blocks`, all that was
    /// translated goes, to be made anew where it is executed ([`PreemptiveFlush`]). Whether it has.
    ///
    /// [`PreemptiveFlush`]: spica_dbt::preemptive_flush::PreemptiveFlush
    pub fn flush_preemptively(&mut self, mmu: &mut Mmu, host: &mut Host, between_blocks: bool) -> bool {
        let (now, per_ms) = (host.now(), host.ticks(1000));
        let blocks = (self.engine.pieces(), self.engine.runs_in_place());
        let due = self.preemptive_flush.is_due(now, per_ms, self.engine.made(), blocks)
            && between_blocks
            && self.switches.preemptive_flush;
        if due {
            self.counters.preemptive_flushes += 1;
            self.engine.forget_blocks();
            if self.engine.runs_in_place() {
                // Most pages of code run in place, and stay protected; and so do the others. Whoever writes to one of
                // these finds that nothing was made from it. To sort them out would take half a million instructions.
                self.preemptive_flush.flushed();
                mmu.blocks_are_gone();
            } else {
                self.code_is_gone(mmu);
            }
        }
        due
    }

    /// Other switches from some point on.
    pub fn set_later(&mut self, later: Later) {
        self.later = Some(later);
    }

    /// Code in the page at `pa` wrote to its own page, see [`VolatilePages::wrote_to_itself`].
    ///
    /// [`VolatilePages::wrote_to_itself`]: spica_dbt::volatile::VolatilePages::wrote_to_itself
    pub fn wrote_to_itself(&mut self, mmu: &mut Mmu, pa: GuestPa, at_once: bool) {
        self.volatile.wrote_to_itself(pa, at_once);
        // Nothing of it is to be found or led to any more.
        if self.volatile.contains(pa) && mmu.shadow().is_code_page(pa) {
            self.code_changes(mmu, pa);
        }
    }

    /// The guest is about to store the low `bytes` of `value` at `pa`, within a page that is protected because code was
    /// made from it, and may do so. What was translated from words that change is dropped. As a rule the page stays
    /// protected, and all else that was translated from it stays: so a kernel that patches an instruction here and
    /// there, as Linux does to trace its functions, need not be translated again. Where that does not pay, or if words
    /// are not to change `singly`, the page changes as a whole. Whether anything is dropped.
    pub fn code_is_stored_to(
        &mut self,
        mmu: &mut Mmu,
        host_space: HostSpace<'_>,
        (pa, bytes, value): (GuestPa, u32, u32),
        singly: bool,
    ) -> bool {
        mmu.user_code_changes(pa);
        let version = self.engine.version();
        let mask = u32::MAX >> (32 - 8 * bytes);
        let same = self.ram.load(host_space, pa, bytes) == Some(value & mask);
        let word = |pa: u32| (pa >> 2 & 0x3ff) as u16;
        let words = (!same).then(|| word(pa.0)..=word(pa.0 + bytes - 1));
        let singly = singly && !self.volatile.contains(pa) && (same || !mmu.call_vector.rests_on(pa, bytes));
        if singly && self.engine.words_change(pa, words) {
            self.counters.code_patches += 1;
        } else {
            self.code_changes(mmu, pa);
        }
        self.engine.version() != version
    }

    /// Drops what was translated from the page at `pa`, which is about to be written, and lets it be written.
    pub fn code_changes(&mut self, mmu: &mut Mmu, pa: GuestPa) {
        self.counters.code_page_writes += 1;
        self.engine.page_changed(pa);
        mmu.code_page_changes(pa);
    }
}
