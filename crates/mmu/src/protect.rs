//! Write protection of the pages from which code was translated.
//!
//! A translated block is a cache of guest memory. Where the guest's own cache maintenance does not tell when that
//! memory changes, the page is mapped read-only everywhere: in every space, in both views, whatever the guest's tables
//! and its domains say. The guest's store then faults, [`Shadow::fill`] answers
//! [`Fill::CodePageWrite`](crate::Fill::CodePageWrite), and the translator drops the blocks.
//!
//! Protection is by guest *physical* page, so aliases do not get around it. While any page of a megabyte is protected,
//! guest sections over that megabyte are mapped by small pages.

use crate::host;
use crate::ram::{KNOWN, UNUSED};
use crate::shadow::Shadow;
use crate::table::{HostTlb, TableMemory};
use spica_addr::{GuestPa, HostPa};

impl Shadow {
    /// Makes the guest page that holds `pa` unwritable until [`Shadow::unprotect_code_page`]. When [`Shadow::settle`]
    /// says that all is done, no TLB holds a writable translation of it. False if it was protected already, or is not
    /// RAM.
    pub fn protect_code_page(&mut self, pa: GuestPa, tables: &mut impl TableMemory, tlb: &mut impl HostTlb) -> bool {
        let pa = pa.page();
        let Some(page) = self.ram.host(pa) else { return false };
        if let Some(code) = self.tracked.code_mut(pa) {
            return !core::mem::replace(code, true);
        }
        if !self.ram.set_protected(pa, true) {
            return false;
        }
        self.stats.protections += 1;
        self.drop_writers(pa, page, tables, tlb);
        true
    }

    /// Allows writable mappings of the page again; they appear when the guest next writes. False if it was not
    /// protected.
    pub fn unprotect_code_page(&mut self, pa: GuestPa) -> bool {
        if let Some(code) = self.tracked.code_mut(pa) {
            return core::mem::take(code);
        }
        self.ram.set_protected(pa, false)
    }

    /// [`Shadow::unprotect_code_page`] for every page: the code cache was emptied.
    pub fn unprotect_all_code_pages(&mut self, tables: &mut impl TableMemory, tlb: &mut impl HostTlb) {
        self.release_all_tables(tables, tlb);
        self.ram.unprotect_all();
    }

    /// Whether the page that holds `pa` is write-protected.
    #[must_use]
    pub fn is_code_page(&self, pa: GuestPa) -> bool {
        let table = self.tracked.code(pa);
        table.unwrap_or_else(|| self.ram.is_protected(pa))
    }

    /// The page at `pa` comes back at virtual page `va_page` again and again, and was at those of `known`. If the
    /// active space does not have it at others still, these need not be known any more: other spaces, most often those
    /// of processes that are no more, lose theirs, as a TLB may lose what it likes. The linear map has all pages and
    /// keeps them: it is known beside one.
    pub(crate) fn narrow(
        &mut self,
        pa: GuestPa,
        va_page: u32,
        known: [u32; KNOWN],
        tables: &mut impl TableMemory,
        tlb: &mut impl HostTlb,
    ) {
        let Some(page) = self.ram.host(pa.page()) else { return };
        let linear = self.ram.linear_page(pa);
        let others = || known.into_iter().filter(|number| ![UNUSED, va_page, linear].contains(number));
        let active = &self.spaces[self.active_index()];
        if active
            .views
            .iter()
            .chain(self.common.views.iter())
            .any(|view| others().any(|number| view.maps_writable(number, page, tables)))
        {
            return;
        }
        for view in self.spaces.iter_mut().filter(|space| space.is_live()).flat_map(|space| &mut space.views) {
            others().for_each(|number| view.forget_writable(number, page, tables, tlb));
        }
        self.stats.hints_narrowed += 1;
        self.ram.narrow(pa, va_page, known.contains(&linear));
    }
}

// A protected page's entries are told from writable ones by AP alone.
const _: () = assert!(host::read_only_page(host::page(HostPa(0), true, false)) == host::page(HostPa(0), false, false));
