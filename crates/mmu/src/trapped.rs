//! Trapped pages: virtual pages from which user code fetches nothing without being seen, as a debugger has breakpoints
//! there.
//!
//! In the user view, such a page is mapped execute-never, and by a small page. So the first fetch from it comes to
//! [`Shadow::fill`], which answers [`Fill::Trapped`](crate::Fill::Trapped). Whoever asked makes a copy of the page,
//! with something else at the breakpoints, and has it mapped by [`Shadow::fill_trapped`]. The copy can be read but not
//! written: the guest's page must be write-protected as long as there is a copy of it
//! ([`Shadow::protect_code_page`]).

use crate::shadow::Shadow;
use crate::space::View;
use crate::table::{HostTlb, TableMemory};
use spica_addr::GuestVa;

/// Trapped pages at most.
pub const MOST_TRAPPED: usize = 65;

/// See the module's text.
pub(crate) struct Trapped {
    /// Page numbers.
    pages: [u32; MOST_TRAPPED],
    count: usize,
}

impl Trapped {
    pub(crate) const NONE: Trapped = Trapped { pages: [0; MOST_TRAPPED], count: 0 };

    fn all(&self) -> &[u32] {
        &self.pages[..self.count]
    }

    /// Whether there are any.
    #[inline]
    pub(crate) const fn is_on(&self) -> bool {
        self.count != 0
    }

    /// Whether the page at `va` is one.
    pub(crate) fn contains(&self, va: GuestVa) -> bool {
        self.all().contains(&(va.0 >> 12))
    }

    /// Whether there is one in the megabyte at `va`.
    pub(crate) fn has_megabyte(&self, va: GuestVa) -> bool {
        self.all().iter().any(|page| page >> 8 == va.0 >> 20)
    }
}

impl Shadow {
    /// The pages at `pages` are trapped from now on, [`MOST_TRAPPED`] at most, and no others. While there are any,
    /// [`Shadow::fast_fill`] must not be asked. What the user view has at those that were not trapped, or are not any
    /// more, is for [`Shadow::forget_user_page`].
    pub fn set_trapped(&mut self, pages: impl Iterator<Item = GuestVa>) {
        self.trapped.count = 0;
        for page in pages {
            if !self.trapped.contains(page) && self.trapped.count < MOST_TRAPPED {
                self.trapped.pages[self.trapped.count] = page.0 >> 12;
                self.trapped.count += 1;
            }
        }
    }

    /// Whether there are trapped pages.
    #[must_use]
    pub const fn has_trapped(&self) -> bool {
        self.trapped.is_on()
    }

    /// In no space, the user view has anything of the page at `va` any more.
    pub fn forget_user_page(&mut self, va: GuestVa, tables: &mut impl TableMemory, tlb: &mut impl HostTlb) {
        let table = self.separation.table_of(View::User);
        for space in &mut self.spaces {
            space.views[table].invalidate_page(va.0, true, tables, tlb);
        }
        self.invalidate_common(va.0, tables, tlb);
    }
}
