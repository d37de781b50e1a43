//! Where the code cache lies in the kernel view of a guest's address space.
//!
//! ```text
//! VA:   | data | code 0 | data | code 1 | data | …
//! PA:      P      C0       P      C1       P
//! ```
//!
//! Every data page is the same physical page P, the vCPU page ([`spica_vcpu::VcpuPage`]). From a code page, `LDR` and
//! `STR` with a PC-relative offset reach the page after it for the fields below their own offset, so no instruction
//! needs a register for the address.

use spica_addr::CachePc;

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

/// The guest addresses that have a place in the return mirror ([`crate::return_mirror`]), word for word, at a constant
/// distance.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    /// First guest VA.
    pub start: u32,
    /// Bytes, whole megabytes.
    pub size: u32,
    /// What is added to a guest VA for its place; a modified immediate constant of A32 (A5.2.4).
    pub distance: u32,
}

impl Window {
    /// Whether guest code at `va` has a place in the mirror.
    #[must_use]
    pub const fn contains(&self, va: u32) -> bool {
        va.wrapping_sub(self.start) < self.size
    }

    /// VA of the mirror's first word.
    #[must_use]
    pub const fn base(&self) -> u32 {
        self.start.wrapping_add(self.distance)
    }
}

impl Layout {
    /// VA of code page `page`.
    #[must_use]
    pub const fn code_page(&self, page: u32) -> CachePc {
        CachePc(self.base + PAGE + page * 2 * PAGE)
    }

    /// Bytes of VA, from the first data page to the last.
    #[must_use]
    pub const fn va_size(&self) -> u32 {
        self.pages * 2 * PAGE + PAGE
    }

    /// The code page and the word in it that `pc` points to; `None` outside the code pages or between words.
    #[must_use]
    pub const fn find(&self, pc: CachePc) -> Option<(u32, usize)> {
        let offset = pc.0.wrapping_sub(self.base);
        if offset >= self.va_size() || offset & PAGE == 0 || pc.0 & 3 != 0 {
            return None;
        }
        Some((offset / (2 * PAGE), (offset as usize & 0xfff) / 4))
    }
}
