//! The code cache's memory: code pages, the vCPU page between them, the pages of the return mirror, and the
//! second-level tables that map them.
//!
//! Mapped in the kernel view only (layout: [`spica_dbt::layout`]): code pages and those of the mirror readable and
//! executable by User mode, the vCPU page readable and writable and never executable.
//!
//! Where the guest's kernel runs in place, the cache is near that, and small, since it has what is sensitive alone.
//! There is no mirror then, and the memory that is left has the kernel's twins.

use spica_addr::HostPa;
use spica_dbt::CodeMemory;
use spica_dbt::checks::{MARKS, MARKS_SIZE};
use spica_dbt::layout::{Layout, PAGE, PAGE_WORDS, Window};
use spica_dbt::return_mirror::LARGE;

use crate::arch::barrier::dsb;
use crate::arch::cp15::{Dccmvau, SysRegWrite};
use crate::arch::{cache, tlb};
use crate::layout::{
    CODE_CACHE_SIZE, CODE_CACHE_START, HOST_DOMAIN, LINEAR_MAP, MEGABYTE, MIRROR_SIZE, MIRROR_START, NEAR_CODE_SIZE,
    mirror, near_code,
};
use crate::memory::pool::{Block, Share};
use crate::papers::SharedSlot;

/// Small page, normal write-back write-allocate memory, not global (B3.5.1): TEX = 001, C = B = 1, nG.
pub(crate) const SMALL_PAGE: u32 = 1 << 11 | 0b001 << 6 | 0b1100 | 0b10;
/// Large page, the same memory (B3.5.1): sixteen times the same entry.
const LARGE_PAGE: u32 = 1 << 11 | 0b001 << 12 | 0b1100 | 0b01;
/// Read-only for User mode: AP = 010.
const USER_READ: u32 = 0b10 << 4;
/// Readable and writable for User mode: AP = 011.
const USER_WRITE: u32 = 0b11 << 4;
/// Execute never.
pub(crate) const XN: u32 = 1;

/// See the module's text.
pub struct CodePages {
    /// Code pages, and behind them those of the mirror; or twins, where the guest's kernel runs in place.
    pages: Block,
    room: Room,
    vcpu_page: HostPa,
    pub(crate) slot: SharedSlot,
    tables: Block,
    mirror_tables: Block,
    /// That of the marks of memory that is looked at, where nothing is mapped otherwise.
    marks_tables: Block,
    layout: Layout,
    written: Written,
}

/// For how many pages there is memory.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// Code pages, a multiple of [`LARGE`], in the hypervisor region,
    pub code: u32,
    /// and with them, pages of the return mirror.
    pub mirror: u32,
    /// Code pages, a multiple of [`LARGE`], near a guest's kernel that runs in place: all else is for twins then.
    pub near: u32,
}

impl Room {
    /// Pages that code and mirror have, or code and twins.
    const fn pages(self) -> u32 {
        self.code + if self.mirror == 0 { 1 } else { self.mirror }
    }

    /// For how many twins there is room.
    pub const fn twins(self) -> u16 {
        (self.pages().saturating_sub(self.near) / LARGE as u32 * LARGE as u32) as u16
    }
}

/// What translated code finds at [`MARKS`].
#[derive(Clone, Copy)]
pub struct Marks {
    /// Where its memory begins.
    pub first: HostPa,
    /// Pages that translated code reads,
    pub read: u32,
    /// and those behind them, which it writes to as well.
    pub written: u32,
    /// What is mapped behind these, again and again.
    pub blank: HostPa,
}

/// What was written since instruction fetches were last made to see it.
#[derive(Default)]
struct Written {
    /// Where it is executed, its bytes, and the page that has to be mapped there, or 0 where that is certain.
    ranges: [(u32, u32, u32); Written::MOST],
    count: usize,
    /// All bytes of `ranges`.
    bytes: u32,
    /// Anything else was as well.
    more: bool,
    /// Anything was.
    any: bool,
}

impl Written {
    /// A block is in two ranges, and what leads to it in one or more. Emptying the instruction cache costs some 400
    /// lines that have to come again; more than so much by single operations would cost the same.
    const MOST: usize = 16;
    const MOST_BYTES: u32 = 512;

    fn add(&mut self, va: u32, bytes: u32, page: u32) {
        // Not every block has a cold part.
        if bytes == 0 {
            return;
        }
        self.any = true;
        match self.ranges.get_mut(self.count) {
            Some(range) if self.bytes + bytes <= Written::MOST_BYTES => {
                *range = (va, bytes, page);
                self.count += 1;
                self.bytes += bytes;
            }
            _ => self.more = true,
        }
    }

    /// Something was that cannot be named.
    fn add_unknown(&mut self) {
        (self.any, self.more) = (true, true);
    }
}

/// Bytes of the tables that map marks.
const MARKS_TABLES: u32 = MARKS_SIZE / MEGABYTE * 1024;

/// The code cache in the hypervisor region, with a return mirror for `window`; or near a guest's kernel that runs in
/// place and begins there, where there is no mirror.
const fn layout(room: Room, place: Place) -> Layout {
    match place {
        Place::Region(window) => Layout { base: CODE_CACHE_START, pages: room.code, mirror: Some(window) },
        Place::Near(base) => Layout { base: near_code(base), pages: room.near, mirror: None },
    }
}

/// Where the code cache is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// In the hypervisor region, with a return mirror for this window.
    Region(Window),
    /// Near the guest's kernel, whose linear map begins there.
    Near(u32),
}

/// Bytes that [`CodePages::new`] takes.
pub const fn block_bytes(room: Room) -> u32 {
    // A code page needs an entry for itself and one for the vCPU page beside it; tables are rounded to pages.
    let cache = (layout(room, Place::Region(mirror(LINEAR_MAP))).va_pages() * 4).next_multiple_of(1024) + 1024;
    let tables = cache + MIRROR_SIZE / MEGABYTE * 1024 + MARKS_TABLES;
    // The pages are aligned to a large one.
    (room.pages() + LARGE as u32 - 1) * PAGE + SharedSlot::BYTES + tables.next_multiple_of(PAGE) + PAGE
}

impl CodePages {
    /// Memory for as many pages as `room` says, with mappings of the vCPU page at `vcpu_page` between code pages;
    /// `None` if the share is exhausted. The cache is in the hypervisor region.
    pub fn new(share: &mut Share, room: Room, vcpu_page: HostPa) -> Option<CodePages> {
        let place = Place::Region(mirror(LINEAR_MAP));
        let layout = layout(room, place);
        assert!(
            layout.va_size() + SharedSlot::BYTES <= CODE_CACHE_SIZE,
            "the code cache is larger than its place in the hypervisor region"
        );
        assert!(room.near <= room.code && self::layout(room, Place::Near(LINEAR_MAP)).va_size() <= NEAR_CODE_SIZE);
        assert!(
            (room.code | room.near).is_multiple_of(LARGE as u32),
            "what is behind code pages is aligned as they are"
        );
        let pages = share.alloc(room.pages() * PAGE, LARGE as u32 * PAGE)?;
        let megabytes = (layout.va_size() + SharedSlot::BYTES).div_ceil(MEGABYTE);
        let tables = share.alloc(megabytes * 1024, 1024)?;
        let slot = SharedSlot::new(share)?;
        let mut empty = |bytes: u32| {
            let mut tables = share.alloc(bytes, 1024)?;
            tables.words_mut().fill(0);
            cache::clean_table(tables.va(), bytes);
            Some(tables)
        };
        let mirror_tables = empty(MIRROR_SIZE / MEGABYTE * 1024)?;
        let marks_tables = empty(MARKS_TABLES)?;
        let written = Written::default();
        let mut code = CodePages { pages, room, vcpu_page, slot, tables, mirror_tables, marks_tables, layout, written };
        code.move_to(place);
        Some(code)
    }

    /// Where the cache lies.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Where it would lie.
    pub fn layout_at(&self, place: Place) -> Layout {
        layout(self.room, place)
    }

    /// The cache lies there from now on. Nothing of it has been entered there, and no page of the mirror is mapped.
    pub fn move_to(&mut self, place: Place) {
        self.layout = self.layout_at(place);
        let entries = self.tables.words_mut();
        entries.fill(0);
        for (at, entry) in (0..self.layout.va_pages()).zip(entries.iter_mut()) {
            *entry = match self.layout.page_at(at) {
                Some(page) => (self.pages.pa().0 + page * PAGE) | SMALL_PAGE | USER_READ,
                None => self.vcpu_page.0 | SMALL_PAGE | USER_WRITE | XN,
            };
        }
        self.slot.map(&mut entries[self.layout.va_pages() as usize..]);
        cache::clean_table(self.tables.va(), self.tables.len());
        dsb();
        self.written.add_unknown();
    }

    /// First-level entries for the megabytes of the cache and of the mirror: VA and entry.
    pub fn first_level(&self) -> impl Iterator<Item = (u32, u32)> {
        let entries = |va: u32, table: u32, megabytes: u32| {
            (0..megabytes).map(move |mb| (va + mb * MEGABYTE, (table + mb * 1024) | HOST_DOMAIN << 5 | 0b01))
        };
        let megabytes = (self.layout.va_size() + self.slot.bytes()).div_ceil(MEGABYTE);
        let cache = entries(self.layout.base, self.tables.pa().0, megabytes);
        let mirror = if self.layout.mirror.is_some() { MIRROR_SIZE / MEGABYTE } else { 0 };
        let marks = entries(MARKS, self.marks_tables.pa().0, MARKS_SIZE / MEGABYTE);
        cache.chain(entries(MIRROR_START, self.mirror_tables.pa().0, mirror)).chain(marks)
    }

    /// Maps marks for translated code, or nothing any more.
    pub fn map_marks(&mut self, marks: Option<Marks>) {
        let tables = &mut self.marks_tables;
        for (at, entry) in (0..MARKS_SIZE / PAGE).zip(tables.words_mut()) {
            *entry = match marks {
                Some(Marks { first, read, .. }) if at < read => (first.0 + at * PAGE) | SMALL_PAGE | USER_READ | XN,
                Some(Marks { first, read, written, .. }) if at - read < written => {
                    (first.0 + at * PAGE) | SMALL_PAGE | USER_WRITE | XN
                }
                Some(Marks { blank, .. }) => blank.0 | SMALL_PAGE | USER_READ | XN,
                None => 0,
            };
        }
        cache::clean_table(tables.va(), tables.len());
        dsb();
        // They may be remembered for the kernel view of any space.
        tlb::invalidate_all();
    }

    /// The word at code-cache address `pc`.
    pub fn word(&mut self, pc: spica_addr::CachePc) -> Option<u32> {
        let (page, word) = self.layout.find(pc)?;
        Some(self.page(page)[word])
    }

    /// The words from code-cache address `pc` on, to the end of its page. None if it is none.
    #[inline]
    pub fn words(&mut self, pc: spica_addr::CachePc) -> &[u32] {
        match self.layout.find(pc) {
            Some((page, word)) => &self.page(page)[word..],
            None => &[],
        }
    }

    /// Makes all that was written since the last call visible to instruction fetches (B2.2.9). `mapped`: the kernel
    /// view is in force. Instruction caches may be indexed by the address where the code runs, and maintenance by
    /// address translates it, so only then lines can be invalidated alone. The lines of data caches were cleaned when
    /// they were written.
    pub fn publish_all(&mut self, mapped: bool) {
        if self.written.any {
            self.written.any = false;
            self.forget_written(mapped);
        }
    }

    #[cold]
    fn forget_written(&mut self, mapped: bool) {
        let Written { ranges, count, bytes, more, .. } = &mut self.written;
        dsb();
        let line = cache::instruction_line();
        let all = core::mem::take(more) || !mapped;
        let forget = |&(va, bytes, page): &(u32, u32, u32)| {
            (page == 0 || tlb::mapped_page(va) == Some(HostPa(page))) && cache::forget_code(va, bytes, line)
        };
        if all || !ranges[..*count].iter().all(forget) {
            cache::invalidate_instructions();
        } else {
            // The guest is entered by an exception return, which is as good as an `ISB`.
            dsb();
        }
        (*count, *bytes) = (0, 0);
    }
}

impl CodeMemory for CodePages {
    fn page(&mut self, page: u32) -> &mut [u32; PAGE_WORDS] {
        page_of(&mut self.pages, page)
    }

    fn publish(&mut self, page: u32, first: usize, words: usize) {
        self.clean(self.pages.va() + page * PAGE, first, words);
        self.written.add(self.layout.code_page(page).0 + 4 * first as u32, 4 * words as u32, 0);
    }

    fn mirror_page(&mut self, page: u32) -> &mut [u32; PAGE_WORDS] {
        page_of(&mut self.pages, self.room.code + page)
    }

    fn publish_mirror(&mut self, page: u32, va: u32, first: usize, words: usize) {
        self.clean(self.pages.va() + (self.room.code + page) * PAGE, first, words);
        self.written.add(va + 4 * first as u32, 4 * words as u32, 0);
    }

    fn map_mirror(&mut self, va: u32, page: u32) {
        self.set_mirror_entries(va, 1, self.mirror_page_pa(page) | SMALL_PAGE | USER_READ);
        dsb();
    }

    fn map_large_mirror(&mut self, va: u32, page: u32) {
        self.set_mirror_entries(va, LARGE, self.mirror_page_pa(page) | LARGE_PAGE | USER_READ);
        dsb();
    }

    fn make_data(&mut self, pages: core::ops::Range<u32>, data: bool) {
        let access = if data { USER_WRITE | XN } else { USER_READ };
        for page in pages {
            let at = (self.layout.code_page(page).0 - self.layout.base) / PAGE;
            self.tables.words_mut()[at as usize] = (self.pages.pa().0 + page * PAGE) | SMALL_PAGE | access;
            cache::clean_table(self.tables.va() + 4 * at, 4);
        }
        dsb();
        tlb::invalidate_all();
    }

    fn unmap_mirror(&mut self, va: Option<u32>) {
        // What was written there cannot be named any more.
        self.written.more |= self.written.any;
        match va {
            Some(va) => self.set_mirror_entries(va, 1, 0),
            None => {
                self.mirror_tables.words_mut().fill(0);
                cache::clean_table(self.mirror_tables.va(), self.mirror_tables.len());
            }
        }
        // It may be remembered for the kernel view of any space.
        tlb::invalidate_all();
    }
}

/// The words of a page of `block`.
fn page_of(block: &mut Block, page: u32) -> &mut [u32; PAGE_WORDS] {
    let start = page as usize * PAGE_WORDS;
    match block.words_mut()[start..start + PAGE_WORDS].as_mut_array() {
        Some(words) => words,
        None => unreachable!("the slice has a page's length"),
    }
}

impl CodePages {
    fn mirror_page_pa(&self, page: u32) -> u32 {
        self.pages.pa().0 + (self.room.code + page) * PAGE
    }

    /// The words of a twin.
    pub(super) fn twin(&mut self, number: u16) -> &mut [u32; PAGE_WORDS] {
        page_of(&mut self.pages, self.room.near + u32::from(number))
    }

    /// Where that is.
    pub(super) fn twin_pa(&self, number: u16) -> HostPa {
        HostPa(self.pages.pa().0 + (self.room.near + number as u32) * PAGE)
    }

    /// Where it is written.
    pub(super) fn twin_va(&self, number: u16) -> u32 {
        self.pages.va() + (self.room.near + u32::from(number)) * PAGE
    }

    /// Writes second-level entries of pages of the mirror, all the same.
    fn set_mirror_entries(&mut self, va: u32, count: usize, entry: u32) {
        let at = (va.wrapping_sub(MIRROR_START) / PAGE) as usize;
        self.mirror_tables.words_mut()[at..at + count].fill(entry);
        cache::clean_table(self.mirror_tables.va() + 4 * at as u32, 4 * count as u32);
    }

    /// Words of a twin are to be seen by instruction fetches after the next [`CodePages::publish_all`], which is
    /// executed at `va` and nowhere else, if it is mapped there.
    pub(super) fn publish_twin(&mut self, number: u16, va: u32, first: usize, words: usize) {
        self.clean_twin(number, first, words);
        self.written.add(va + 4 * first as u32, 4 * words as u32, self.twin_pa(number).0);
    }

    /// Words of a twin were written that is mapped nowhere, before [`Self::publish_cleaned`].
    pub(super) fn clean_twin(&mut self, number: u16, first: usize, words: usize) {
        self.clean(self.twin_va(number), first, words);
    }

    /// Twins are to be seen as they are by instruction fetches after the next [`CodePages::publish_all`].
    pub(super) fn publish_cleaned(&mut self) {
        self.written.add_unknown();
    }

    /// Cleans words of a page.
    fn clean(&mut self, page_va: u32, first: usize, words: usize) {
        let start = page_va + 4 * first as u32;
        let line = cache::data_line();
        let mut at = start & !(line - 1);
        while at < start + 4 * words as u32 {
            // SAFETY: a clean changes no value that any access could read.
            unsafe { Dccmvau::write_raw(at) }
            at += line;
        }
    }
}
