//! Where the code cache lies in the kernel view of a guest's address space.
//!
//! ```text
//! VA:   | data | code 0 | data | code 2 | data | … | data | data | code 1 | data | code 3 | data | …
//! PA:      P      C0       P      C2       P          P      P      C1       P      C3       P
//! ```
//!
//! Every data page is the same physical page P, the vCPU page ([`spica_vcpu::VcpuPage`]). From a code page, `LDR` and
//! `STR` with a PC-relative offset reach the page after it for the fields below their own offset, so no instruction
//! needs a register for the address.
//!
//! The first half of the code pages has odd numbers, the second has even ones: an instruction cache of 8 KiB a way that
//! is indexed by virtual addresses, as that of a Cortex-A8 or A9, has room for odd pages in half of its sets alone.
//! Pages are filled one after the other, in turn from either half.

use spica_addr::{CachePc, GuestVa};

use crate::at::is_thumb;

/// Bytes in a page.
pub const PAGE: u32 = 4096;
/// Words in a page.
pub const PAGE_WORDS: usize = 1024;
/// Code starts at this offset of a code page. From there on the words of the vCPU page below this offset are all
/// reached in the *next* page, so that one data-TLB entry serves a code page (a Cortex-A8 has 32).
pub const HOT_FIELDS: u32 = 0x100;

/// The geometry of one code cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    /// VA of the first data page.
    pub base: u32,
    /// Number of code pages.
    pub pages: u32,
    /// Which guest code has a return mirror, and where.
    pub mirror: Option<Window>,
}

/// The guest addresses that have a place in the return mirror ([`crate::return_mirror`]), a word for each instruction
/// that may begin there, at a constant distance.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    /// First guest VA.
    pub start: u32,
    /// Bytes, whole megabytes.
    pub size: u32,
    /// What is added to a guest VA for its place, or to twice the VA; a modified immediate constant of A32 (A5.2.4).
    pub distance: u32,
    /// The mirror is that of T32 code, which has an instruction at any half-word: two words for a word of it. All of
    /// the addresses have the same bit 31 then.
    pub t32: bool,
    /// What is in front of the window does not get to what is in front of the mirror, for some instructions more. The
    /// beginning, or twice that for T32 code, is a multiple of [`Window::GUARDED`] then, and the mirror is no larger.
    pub guarded: bool,
}

impl Window {
    /// What the beginning of a guarded window is a multiple of: an address in the window, less that beginning, has
    /// zeroes in its upper bits.
    pub const GUARDED: u32 = 1 << 25;

    /// Whether the guest address `va` is one of these, whatever the state.
    #[must_use]
    pub const fn contains(&self, va: u32) -> bool {
        va.wrapping_sub(self.start) < self.size
    }

    /// Whether guest code at `va`, with its state in bit 0, has a place in the mirror.
    #[must_use]
    pub const fn has(&self, va: GuestVa) -> bool {
        is_thumb(va) == self.t32 && self.contains(va.0)
    }

    /// VA of the mirror's first word.
    #[must_use]
    pub const fn base(&self) -> u32 {
        self.place(self.start)
    }

    /// Bytes of the mirror.
    #[must_use]
    pub const fn mirror_size(&self) -> u32 {
        self.size << self.t32 as u32
    }

    /// VA of the word for the guest address `va`.
    #[must_use]
    pub const fn place(&self, va: u32) -> u32 {
        if self.t32 { ((va & !1) << 1).wrapping_add(self.distance) } else { va.wrapping_add(self.distance) }
    }
}

impl Layout {
    /// Pages of VA that the first half takes: from data page to data page.
    const fn first_half(&self) -> u32 {
        self.pages.div_ceil(2) * 2 + 1
    }

    /// VA of code page `page`.
    #[must_use]
    pub const fn code_page(&self, page: u32) -> CachePc {
        let half = if page.is_multiple_of(2) { 0 } else { self.first_half() };
        CachePc(self.base + (half + 1 + page / 2 * 2) * PAGE)
    }

    /// Pages of VA, from the first data page to the last.
    #[must_use]
    pub const fn va_pages(&self) -> u32 {
        self.pages * 2 + 2
    }

    /// The same in bytes.
    #[must_use]
    pub const fn va_size(&self) -> u32 {
        self.va_pages() * PAGE
    }

    /// What is at page `index` of the VA: a code page, or the vCPU page.
    #[must_use]
    pub const fn page_at(&self, index: u32) -> Option<u32> {
        let (half, within) = if index < self.first_half() { (0, index) } else { (1, index - self.first_half()) };
        if within.is_multiple_of(2) { None } else { Some(within / 2 * 2 + half) }
    }

    /// The code page and the word in it that `pc` points to; `None` outside the code pages or between words.
    #[must_use]
    pub const fn find(&self, pc: CachePc) -> Option<(u32, usize)> {
        let offset = pc.0.wrapping_sub(self.base);
        if offset / PAGE >= self.va_pages() || pc.0 & 3 != 0 {
            return None;
        }
        match self.page_at(offset / PAGE) {
            Some(page) => Some((page, (offset as usize & 0xfff) / 4)),
            None => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_pages_are_between_data_pages_half_of_them_at_odd_numbers() {
        for pages in 1..20 {
            let layout = Layout { base: 0xf180_0000, pages, mirror: None };
            let number = |page: u32| (layout.code_page(page).0 - layout.base) / PAGE;
            for page in 0..pages {
                let pc = layout.code_page(page);
                assert_eq!(layout.find(pc.wrapping_add(8)), Some((page, 2)));
                assert_eq!(layout.find(pc.wrapping_add(6)), None);
                let around = [number(page) - 1, number(page) + 1].map(|index| layout.page_at(index));
                assert_eq!((around, number(page) + 1 < layout.va_pages()), ([None; 2], true));
                assert_eq!(number(page) % 2, 1 - page % 2, "page {page} of {pages}");
            }
            let code = (0..layout.va_pages()).filter_map(|index| layout.page_at(index));
            assert_eq!(code.count() as u32, pages);
            for outside in [layout.base - 4, layout.base + layout.va_size()] {
                assert_eq!(layout.find(CachePc(outside)), None);
            }
        }
    }
}
