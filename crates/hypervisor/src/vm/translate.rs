//! Blocks: made from pages that are protected first, and dropped when these change.

use super::Parts;
use super::call_vector::CallVector;
use super::tables::RealTlb;
use crate::engine::blocks::Blocks;
use crate::engine::{Engine, Source};
use crate::host_cpu::Home;
use spica_addr::{CachePc, GuestPa, GuestVa};
use spica_mmu::{Fault, FaultKind, Mapping, PageSize};
use spica_switches::Switches;

/// A piece of code.
type Code = <Blocks as Engine>::Code;

impl Parts {
    /// Makes the code for a guest address; and whether all other code had to go for it. Its page is write-protected first, so
    /// that no change of it goes unseen.
    pub(super) fn translate(&mut self, home: Home<'_>, source: Source) -> Result<(Code, bool), Fault> {
        let page = source.pa;
        let external = Fault::without_descriptor(FaultKind::External);
        if !self.ram.contains(page) {
            return Err(external);
        }
        self.shadow.protect_code_page(page, &mut self.tables, &mut RealTlb);
        let words = self.ram.page(home, page).ok_or(external)?;
        let (code, flushed) = self.engine.make(source, words);
        if flushed {
            // No code is left but this.
            self.unprotect_code();
            self.shadow.protect_code_page(page, &mut self.tables, &mut RealTlb);
        }
        Ok((code, flushed))
    }

    /// Makes the code at `pc`, in a volatile page or in FIQ mode, for one execution: what it was made from may change any
    /// time, or it is not for other modes. So it is never found again, nor linked to.
    pub(super) fn translate_once(&mut self, home: Home<'_>, pc: GuestVa, mapping: &Mapping) -> Result<CachePc, Fault> {
        let external = Fault::without_descriptor(FaultKind::External);
        if self.volatile.contains(mapping.pa) {
            self.engine.page_changed(mapping.pa);
            let words = self.ram.page(home, mapping.pa).ok_or(external)?;
            self.snapshot.copy_from_slice(words);
        } else {
            self.shadow.protect_code_page(mapping.pa, &mut self.tables, &mut RealTlb);
        }
        let words = self.ram.page(home, mapping.pa).ok_or(external)?;
        Ok(self.engine.make_once(pc, mapping.pa, words))
    }

    /// What is at `va`, mapped by something as large as `size`, has been looked through for code, or in it. TLB maintenance there
    /// must come here, to be looked at with [`CodeMap::may_have_code`](super::code_map::CodeMap::may_have_code).
    pub fn watch_code(&mut self, va: GuestVa, size: PageSize) {
        self.code_map.watch(va.0);
        self.shadow.watch(va, size);
    }

    /// The words that live blocks from the page at `pa` were made from.
    pub fn source_words<'a>(&'a self, home: Home<'a>, pa: GuestPa) -> Option<&'a [u32; 1024]> {
        if self.volatile.contains(pa) { Some(&self.snapshot) } else { self.ram.page(home, pa) }
    }

    /// Forgets which pages are volatile, and everything that was translated: the machine is reset.
    pub fn forget_code(&mut self) {
        self.volatile.clear();
        self.call_vector = CallVector::default();
        self.sites.clear();
        self.code_map.forget_descriptors();
        self.backlog.clear();
        self.engine.set_vfp(false);
        self.engine.forget_all();
        self.unprotect_code();
    }

    /// Other switches from now on, between two blocks.
    pub fn set_switches(&mut self, switches: Switches) {
        self.switches = switches;
        self.engine.set_options(switches.translation);
        self.unprotect_code();
        self.sides_known = false;
    }

    /// No translated code is left: the pages that it came from may be written. What rests on their protection is forgotten.
    pub fn unprotect_code(&mut self) {
        self.shadow.unprotect_all_code_pages(&mut self.tables, &mut RealTlb);
        self.call_vector.forget();
        self.sides_known = false;
    }

    /// Drops what was translated from the page at `pa`, which is about to be written, and lets it be written.
    pub fn code_changes(&mut self, pa: GuestPa) {
        self.counters.code_page_writes += 1;
        self.sides_known &= !self.call_vector.forget_page(pa);
        self.engine.page_changed(pa);
        self.shadow.unprotect_code_page(pa);
    }
}
