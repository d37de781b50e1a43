//! The code cache: which blocks there are, where they lie, how they are linked, and what makes them go.
//!
//! Blocks are found by guest VA and guest PA. Links are recorded in both directions, and guest pages know their blocks,
//! so that a block is unlinked or dropped without a scan. Space is not reused piecemeal: when pages, block records or
//! exit records run out, everything is flushed (STAR §3.5), and counted.
//!
//! Guest code pages are write-protected by the MMU, so that a write to one is known at once: blocks that were made from
//! the words that change are dropped ([`Translator::change_words`]), or all of the page ([`Translator::drop_page`]). A
//! change of mapping is announced by the guest's TLB maintenance ([`Translator::unmap_page`]). A link to another page
//! holds until then; links within a page, always.

use crate::at::{address, is_thumb};
use crate::block::{self, Extent, LAST_HALF_WORD, Location};
use crate::breakpoints::Breakpoints;
use crate::emit::{self, Emitter};
use crate::guest_pages::{GuestPages, Job};
use crate::jump_cache::{Entry, JumpCache};
use crate::layout::{HOT_FIELDS, Layout, PAGE, PAGE_WORDS};
use crate::located::Located;
use crate::options::Options;
use crate::papers::{self, Spilling, shadow_stack};
use crate::records::{Block, Exit, Flag, IN_PLACE, MAX_BLOCKS, MAX_EXITS, Made, NO_BLOCK, NO_EXIT};
use crate::return_mirror::{self, LARGE, ReturnMirror};
use crate::rules;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::{Range, RangeInclusive};
use spica_addr::{CachePc, GuestPa, GuestVa};
use spica_isa::t32::{Code, ItState};
use spica_isa::{Cond, Reg, asm};

/// The memory of the code pages.
pub trait CodeMemory {
    /// The words of code page `page`, to be read and written.
    fn page(&mut self, page: u32) -> &mut [u32; PAGE_WORDS];
    /// Makes words `first..first + words` of a page, just written, visible to instruction fetches (B2.2.9).
    fn publish(&mut self, page: u32, first: usize, words: usize);
    /// The words of page `page` of the return mirror's memory.
    fn mirror_page(&mut self, page: u32) -> &mut [u32; PAGE_WORDS];
    /// The same as [`CodeMemory::publish`] for those.
    fn publish_mirror(&mut self, page: u32, first: usize, words: usize);
    /// Maps page `page` of that memory at `va`, where nothing is.
    fn map_mirror(&mut self, va: u32, page: u32);
    /// The same for [`LARGE`](crate::return_mirror::LARGE) pages in a row, of which the first is a multiple of that,
    /// and `va` of all their bytes. Until all is unmapped, none of them is by itself.
    fn map_large_mirror(&mut self, va: u32, page: u32) {
        (0..LARGE as u32).for_each(|next| self.map_mirror(va + next * PAGE, page + next));
    }
    /// Unmaps the page at `va`, or all of them; no processor may remember them.
    fn unmap_mirror(&mut self, va: Option<u32>);
}

/// How long a block is kept, and how many instructions it has at most.
#[derive(Clone, Copy)]
enum Kept {
    /// As long as what it was made from is as it was.
    Always(usize),
    /// For one execution.
    Once(usize),
}

/// Number of a block. Valid until the next flush.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockId(u16);

/// Number of an exit that was checked to exist. Valid until the next flush.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ExitId(u32);

const BUCKETS: usize = 16384;
/// Blocks of a bucket that are looked at. A guest can have any number of them in one; those behind are made anew.
const CHAIN: usize = 32;
/// Exits that are unlinked at once. A guest can link any number of them to one block; the others are left to
/// [`Translator::settle`].
const UNLINKED_AT_ONCE: u32 = 500;
/// Blocks that are looked through at once for such exits.
const LOOKED_THROUGH_AT_ONCE: u16 = 4096;
/// Blocks that are dropped or unmapped at once. A page of a kernel's text has 200 if all of it was executed.
const DROPPED_AT_ONCE: usize = 400;
/// A page is written that often for each of its blocks before all of them are dropped. A write that keeps them costs
/// some 1,500 instructions, the trap included; to translate a block again costs some 3,000. So when a page is given up,
/// the writes to it have cost what its blocks will: with that, whatever comes, no more is spent than twice of what
/// would have been spent by whoever knew it beforehand.
const WRITES_PER_BLOCK: u32 = 2;
/// Guest pages that are looked through at once for such of which blocks are left.
const PAGES_AT_ONCE: usize = 4096;
/// Blocks with exits that are left, as far as they are known one by one.
const LEFT: usize = 32;

/// Figures for the report.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Stats {
    /// Blocks translated, since the start.
    pub translated: u64,
    /// Guest instructions translated, since the start.
    pub instructions: u64,
    /// Links made.
    pub links: u64,
    /// Links undone.
    pub unlinks: u64,
    /// Times that everything was flushed because the cache was full.
    pub flushes: u64,
    /// Blocks dropped because their code changed.
    pub dropped: u64,
}

/// How much a code cache can hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Capacity {
    /// Block records.
    pub blocks: usize,
    /// Exit records.
    pub exits: usize,
    /// Pages of the return mirror.
    pub mirror_pages: u32,
}

impl Capacity {
    /// Guest pages that can have blocks.
    const fn pages(self) -> usize {
        let pages = self.blocks / 6;
        if pages < 1024 { 1024 } else { pages }
    }

    /// Bytes of memory that the records take, all of them from the start, for up to 1,023 code pages.
    #[must_use]
    pub const fn bytes(self) -> usize {
        self.blocks * size_of::<Block>()
            + self.exits * size_of::<Exit>()
            + BUCKETS * size_of::<u16>()
            + crate::jump_cache::ENTRIES * size_of::<Entry>()
            + self.mirror_pages as usize * size_of::<u32>()
            + GuestPages::bytes(self.pages())
            // A place in the return mirror for every page of its window, of 40 MiB.
            + 20 * 1024
            + 1023 * size_of::<u16>()
    }
}

/// See the module's text.
pub struct Translator {
    layout: Layout,
    options: Options,
    capacity: Capacity,
    blocks: Vec<Block>,
    exits: Vec<Exit>,
    buckets: Vec<u16>,
    /// First block of each code page in use, in the order of the pages.
    page_starts: Vec<u16>,
    hot: usize,
    cold: usize,
    guest_pages: GuestPages,
    left: Left,
    /// Where indirect branches look first.
    pub jump_cache: JumpCache,
    mirror: ReturnMirror,
    pages: papers::Pages,
    located: Located,
    breakpoints: Breakpoints,
    version: u32,
    generation: u64,
    stats: Stats,
}

/// Exits that are still linked, and must not be; and blocks that are still to be dropped, or unmapped.
#[derive(Default)]
struct Left {
    /// Blocks that they lead to.
    blocks: [u16; LEFT],
    count: usize,
    /// Any that lead to this block, or one behind it; and the jump cache has something left to clear.
    from: Option<u16>,
    /// Blocks of guest pages with this number or a higher one ([`GuestPages::job`]),
    pages: Option<usize>,
    /// of the former from this one on.
    block: Option<u16>,
}

impl Left {
    fn add(&mut self, block: u16) {
        match self.blocks.get_mut(self.count) {
            Some(place) => {
                *place = block;
                self.count += 1;
            }
            // To unlink all is always right.
            None => self.from = Some(0),
        }
    }
}

/// The condition of the side exit at word `site`.
fn site_cond(page: u32, site: u16, memory: &mut impl CodeMemory) -> Cond {
    Cond::ALL[(memory.page(page)[usize::from(site)] >> 28) as usize % 15]
}

pub(crate) fn patch(page: u32, at: usize, word: u32, memory: &mut impl CodeMemory) {
    memory.page(page)[at] = word;
    memory.publish(page, at, 1);
}

/// How a block of T32 code begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Start {
    /// In this state of an IT block.
    pub it: ItState,
    /// The first half-word of the page behind its own, if its first instruction [lies across the end](is_across).
    pub next_page: Option<u16>,
}

/// Whether code at `va`, in the page `words`, begins with an instruction of which half is in the page behind.
#[must_use]
pub fn is_across(va: GuestVa, words: &[u32; PAGE_WORDS]) -> bool {
    va.page_offset() == LAST_HALF_WORD | 1 && Code::begins_wide((words[PAGE_WORDS - 1] >> 16) as u16)
}

fn make_a32(
    emitter: &mut Emitter<'_>,
    options: &Options,
    va: GuestVa,
    limit: usize,
    words: &[u32; PAGE_WORDS],
) -> Made {
    let length = block::translate(emitter, options, va, limit, |pc| words[pc.page_offset() as usize / 4]);
    Made { length, last: (va.page_offset() / 4) as u16 + length as u16 - 1, across: None }
}

fn make_t32(
    emitter: &mut Emitter<'_>,
    options: &Options,
    va: GuestVa,
    start: Start,
    extent: Extent,
    words: &[u32; PAGE_WORDS],
) -> Made {
    let fetch = |pc: GuestVa| {
        if pc.page() == va.page() {
            (words[pc.page_offset() as usize / 4] >> (8 * (pc.0 & 2))) as u16
        } else {
            debug_assert!(start.next_page.is_some(), "what the page behind has is known");
            start.next_page.unwrap_or(0)
        }
    };
    let (length, end) = block::translate_t32(emitter, options, va, start.it, extent, fetch);
    // Behind the last one; 0 is the end of the page, 2 is behind it.
    let last_half = end.0.wrapping_sub(2);
    let across = start.next_page.filter(|_| last_half & !0xfff != va.page().0);
    let last = if across.is_some() { PAGE_WORDS as u16 - 1 } else { (last_half & 0xfff) as u16 / 4 };
    Made { length, last, across }
}

fn bucket(va: GuestVa) -> usize {
    let word = va.0 >> 2;
    ((word ^ word >> 14) as usize) % BUCKETS
}

impl Translator {
    /// An empty cache for `layout`. All memory that it will ever use for records is taken here.
    ///
    /// # Panics
    /// If `capacity` is more than there are numbers for: 65,535 blocks, 131,071 exits.
    #[must_use]
    pub fn new(layout: Layout, options: Options, capacity: Capacity) -> Translator {
        assert!(capacity.blocks <= MAX_BLOCKS && capacity.exits <= MAX_EXITS, "{capacity:?} is more than has numbers");
        Translator {
            layout,
            options,
            capacity,
            blocks: Vec::with_capacity(capacity.blocks),
            exits: Vec::with_capacity(capacity.exits),
            buckets: vec![NO_BLOCK; BUCKETS],
            page_starts: Vec::with_capacity(layout.pages as usize),
            hot: 0,
            cold: 0,
            guest_pages: GuestPages::new(capacity.pages()),
            left: Left::default(),
            jump_cache: JumpCache::new(),
            mirror: ReturnMirror::new(
                layout.mirror.filter(|_| options.indirect && options.return_mirror),
                capacity.mirror_pages,
            ),
            pages: papers::Pages::new(&options),
            located: Located::new(),
            breakpoints: Breakpoints::new(),
            version: 0,
            generation: 0,
            stats: Stats::default(),
        }
    }

    /// Where the cache lies.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The switches.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Figures for the report.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// Blocks now in the cache, exits now recorded, code pages in use.
    #[must_use]
    pub fn in_use(&self) -> (usize, usize, usize) {
        (self.blocks.len(), self.exits.len(), self.page_starts.len())
    }

    /// Guest pages that have code in the cache, each as often as it is mapped to others.
    #[must_use]
    pub fn guest_pages(&self) -> usize {
        self.guest_pages.len()
    }

    /// Changes whenever a block was dropped or everything was flushed: code-cache addresses from before may be stale.
    #[must_use]
    pub fn version(&self) -> u32 {
        self.version
    }

    /// Changes whenever everything was flushed: what the guest has of code-cache addresses, its shadow stack, is to be
    /// cleared (`shadow_stack::clear`) before it runs again. What leads to blocks that are dropped or unlinked traps.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The newest live block at a guest address, if it is soon found.
    #[must_use]
    pub fn lookup(&self, va: GuestVa, pa: GuestPa) -> Option<BlockId> {
        let mut at = self.buckets[bucket(va)];
        for _ in 0..CHAIN {
            let block = self.blocks.get(usize::from(at))?;
            if block.va == va && block.pa() == pa && !block.is_any(Flag::Dropped, Flag::Across) {
                return Some(BlockId(at));
            }
            at = block.next_in_bucket;
        }
        None
    }

    /// The same of a T32 instruction across the end of its page, of which `second` is in the page behind.
    #[must_use]
    pub fn lookup_across(&self, va: GuestVa, pa: GuestPa, second: u16) -> Option<BlockId> {
        let mut at = self.buckets[bucket(va)];
        for _ in 0..CHAIN {
            let block = self.blocks.get(usize::from(at))?;
            if (block.va, block.pa(), block.across()) == (va, pa, Some(second)) && !block.is(Flag::Dropped) {
                return Some(BlockId(at));
            }
            at = block.next_in_bucket;
        }
        None
    }

    /// Where a block starts.
    #[must_use]
    pub fn entry(&self, id: BlockId) -> CachePc {
        let landing = self.landing(id);
        if self.mirror.has(self.blocks[usize::from(id.0)].va) { landing.wrapping_add(4) } else { landing }
    }

    /// Where a branch through the return mirror enters a block: before its start, where LR is reloaded.
    fn landing(&self, id: BlockId) -> CachePc {
        let block = &self.blocks[usize::from(id.0)];
        self.layout.code_page(block.code_page.into()).wrapping_add(4 * u32::from(block.hot.0))
    }

    /// The return mirror.
    #[must_use]
    pub fn mirror(&self) -> &ReturnMirror {
        &self.mirror
    }

    /// Makes branches through the return mirror find a block, if its page is mapped in all address spaces.
    pub fn land(&mut self, id: BlockId, memory: &mut impl CodeMemory) {
        let block = &self.blocks[usize::from(id.0)];
        if block.is(Flag::Global) && !block.is_any(Flag::Dropped, Flag::Across) {
            self.mirror.set(block.va, self.landing(id), memory);
        }
    }

    /// Guest address of a block's first instruction, with its state in bit 0.
    #[must_use]
    pub fn source(&self, id: BlockId) -> (GuestVa, GuestPa) {
        let block = &self.blocks[usize::from(id.0)];
        (block.va, block.pa())
    }

    /// The half-word in the page behind its own that a block was made from, if it is one instruction across the end.
    #[must_use]
    pub fn across(&self, id: BlockId) -> Option<u16> {
        self.blocks[usize::from(id.0)].across()
    }

    /// Translates the block at `va`, whose page is `words` and lies at the page of `pa`; `global` says whether the
    /// guest maps that page in all address spaces. T32 code is meant if bit 0 of `va` is set: it must not begin with an
    /// instruction across the end of the page ([`is_across`]).
    pub fn translate(
        &mut self,
        va: GuestVa,
        pa: GuestPa,
        global: bool,
        words: &[u32; PAGE_WORDS],
        memory: &mut impl CodeMemory,
    ) -> BlockId {
        self.translate_with(Kept::Always(usize::MAX), (va, pa), global, words, Start::default(), memory)
    }

    /// The same with no more than `limit` instructions.
    pub fn translate_some(
        &mut self,
        limit: usize,
        va: GuestVa,
        pa: GuestPa,
        global: bool,
        words: &[u32; PAGE_WORDS],
        memory: &mut impl CodeMemory,
    ) -> BlockId {
        self.translate_with(Kept::Always(limit), (va, pa), global, words, Start::default(), memory)
    }

    /// The same of T32 code that begins as `start` says. In the middle of an IT block, that is for one execution.
    pub fn translate_from(
        &mut self,
        va: GuestVa,
        pa: GuestPa,
        global: bool,
        words: &[u32; PAGE_WORDS],
        start: Start,
        memory: &mut impl CodeMemory,
    ) -> BlockId {
        let once = start.it.in_block();
        let kept = if once { Kept::Once(usize::MAX) } else { Kept::Always(usize::MAX) };
        self.translate_with(kept, (va, pa), global && !once, words, start, memory)
    }

    /// The same for one execution of at most `limit` instructions.
    pub fn translate_once_from(
        &mut self,
        va: GuestVa,
        pa: GuestPa,
        words: &[u32; PAGE_WORDS],
        (start, limit): (Start, usize),
        memory: &mut impl CodeMemory,
    ) -> BlockId {
        self.translate_with(Kept::Once(limit), (va, pa), false, words, start, memory)
    }

    /// Translates the block at `va` for one execution: from a page that may change without notice, or in FIQ mode. It
    /// is not to be linked to.
    pub fn translate_once(
        &mut self,
        va: GuestVa,
        pa: GuestPa,
        words: &[u32; PAGE_WORDS],
        memory: &mut impl CodeMemory,
    ) -> BlockId {
        self.translate_with(Kept::Once(usize::MAX), (va, pa), false, words, Start::default(), memory)
    }

    /// The same with no more than the first instruction, whether there is a breakpoint or not.
    pub fn translate_one(
        &mut self,
        va: GuestVa,
        pa: GuestPa,
        words: &[u32; PAGE_WORDS],
        memory: &mut impl CodeMemory,
    ) -> BlockId {
        self.translate_with(Kept::Once(1), (va, pa), false, words, Start::default(), memory)
    }

    fn translate_with(
        &mut self,
        kept: Kept,
        (va, pa): (GuestVa, GuestPa),
        global: bool,
        words: &[u32; PAGE_WORDS],
        start: Start,
        memory: &mut impl CodeMemory,
    ) -> BlockId {
        // With no instruction left in it, this is no IT block, whatever else ITSTATE has.
        let it = if start.it.in_block() { start.it } else { ItState::OUTSIDE };
        let start = Start { it, ..start };
        self.make_room(memory);
        let code_page = self.page_starts.len() as u32 - 1;
        let (hot, cold) = (self.hot, self.cold);
        let base = self.layout.code_page(code_page);
        let (once, limit) = match kept {
            Kept::Always(limit) => (false, limit),
            Kept::Once(limit) => (true, limit),
        };
        let options = self.options_of(once, self.options.vfp);
        let limit = limit.min(options.max_block);
        let mirror = self.mirror.window();
        let source = Some(words).filter(|_| options.literals);
        let page = Some(memory.page(code_page));
        let spilling = Spilling::new(options.spill, &self.layout, base);
        let mut emitter = Emitter::new(page, hot, cold, None, mirror, source, spilling);
        let made = if is_thumb(va) {
            let whole_it_blocks = limit == options.max_block;
            let extent = Extent { limit, whole_it_blocks, stop: self.breakpoints.next_behind(address(va)) };
            make_t32(&mut emitter, &options, va, start, extent, words)
        } else {
            let limit = limit.min(self.breakpoints.room_at(va));
            make_a32(&mut emitter, &options, va, limit, words)
        };
        (self.hot, self.cold) = (emitter.hot(), emitter.cold());
        let id = self.blocks.len() as u16;
        let mut block = Block::new(va, pa, made, emitter.constants(), self.exits.len());
        self.exits.extend(emitter.exits().iter().map(|exit| Exit::new(exit, id)));
        memory.publish(code_page, hot, self.hot - hot);
        memory.publish(code_page, self.cold, cold - self.cold);
        block.code_page = code_page as u16;
        block.hot = (hot as u16, self.hot as u16);
        block.cold = (self.cold as u16, cold as u16);
        block.set(Flag::Global, global);
        block.set(Flag::Once, once);
        block.set(Flag::Vfp, self.options.vfp);
        block.next_in_page = self.guest_pages.enter(pa.page().0, va.page().0, id);
        if !once {
            block.next_in_bucket = core::mem::replace(&mut self.buckets[bucket(va)], id);
        } else {
            block.set_first_it(start.it);
        }
        self.blocks.push(block);
        self.stats.translated += 1;
        self.stats.instructions += made.length as u64;
        BlockId(id)
    }

    /// Changes the switches. All blocks go, which were made with others.
    pub fn set_options(&mut self, options: Options, memory: &mut impl CodeMemory) {
        self.flush(memory);
        self.pages.set_options(&options);
        self.options = Options { thumbee: self.options.thumbee, vfp: self.options.vfp, ..options };
        if !(options.indirect && options.return_mirror) {
            self.mirror = ReturnMirror::new(None, self.capacity.mirror_pages);
        }
    }

    /// The guest has given itself access to VFP's system registers, or taken it away. True if the latter has made all
    /// that was translated wrong: it is gone.
    pub fn set_vfp(&mut self, vfp: bool, memory: &mut impl CodeMemory) -> bool {
        let before = core::mem::replace(&mut self.options.vfp, vfp);
        if before && !vfp {
            self.flush(memory);
        }
        before && !vfp
    }

    /// The options of a block.
    fn options_of(&self, once: bool, vfp: bool) -> Options {
        let options = Options { vfp, ..self.options };
        if once { options.once() } else { options }
    }

    /// Sees to it that the last code page has room for a block, and the records too.
    fn make_room(&mut self, memory: &mut impl CodeMemory) {
        let full = self.blocks.len() == self.capacity.blocks
            || self.guest_pages.is_full()
            || self.exits.len() + emit::MAX_EXITS > self.capacity.exits;
        if full {
            self.flush(memory);
            self.stats.flushes += 1;
        }
        if self.page_starts.is_empty() || self.hot + 2 * papers::room(self.options.spill) > self.cold {
            if self.page_starts.len() == self.layout.pages as usize {
                self.flush(memory);
                self.stats.flushes += 1;
            }
            self.page_starts.push(self.blocks.len() as u16);
            self.hot = HOT_FIELDS as usize / 4;
            self.cold = PAGE_WORDS;
            let page = self.page_starts.len() as u32 - 1;
            let written = self.pages.begin(&self.options, memory.page(page));
            if written > 0 {
                memory.publish(page, 0, written);
            }
        }
    }

    /// Forgets all blocks.
    pub fn flush(&mut self, memory: &mut impl CodeMemory) {
        self.blocks.clear();
        self.exits.clear();
        self.buckets.fill(NO_BLOCK);
        self.page_starts.clear();
        self.guest_pages.clear();
        // Nothing is left of blocks, but the jump cache is still to be cleared.
        self.left = Left { from: Some(0), ..Left::default() };
        self.jump_cache.clear();
        self.mirror.clear(memory);
        self.mirror.flushed();
        self.version = self.version.wrapping_add(1);
        self.located.clear();
        self.generation += 1;
    }

    /// The block whose translation holds `pc`, and the word in its code page; live or dropped.
    #[must_use]
    pub fn block_at(&self, pc: CachePc) -> Option<BlockId> {
        let (page, word) = self.layout.find(pc)?;
        let first = usize::from(*self.page_starts.get(page as usize)?);
        let end = self.page_starts.get(page as usize + 1).map_or(self.blocks.len(), |&next| next.into());
        let blocks = self.blocks.get(first..end)?;
        let word = word as u16;
        let in_hot = blocks.partition_point(|b| b.hot.0 <= word).checked_sub(1);
        let in_cold = blocks.partition_point(|b| b.cold.0 > word);
        let found = match in_hot {
            Some(at) if word < blocks[at].hot.1 => at,
            _ => Some(in_cold).filter(|&at| at < blocks.len() && word < blocks[at].cold.1)?,
        };
        Some(BlockId((first + found) as u16))
    }

    /// Whether a block can still be found; a dropped one may be executing, but what it was made from is gone.
    #[must_use]
    pub fn is_live(&self, id: BlockId) -> bool {
        !self.blocks[usize::from(id.0)].is(Flag::Dropped)
    }

    /// The guest instruction that `pc`, in block `id`, belongs to, by translating the block again without writing
    /// (STAR §3.7.1). `words` is the guest's page as it was when the block was made.
    #[must_use]
    pub fn locate(&self, id: BlockId, pc: CachePc, words: &[u32; PAGE_WORDS]) -> Option<Location> {
        self.located.get(id, pc, || self.find_location(id, pc, words))
    }

    fn find_location(&self, id: BlockId, pc: CachePc, words: &[u32; PAGE_WORDS]) -> Option<Location> {
        let block = &self.blocks[usize::from(id.0)];
        let (_, word) = self.layout.find(pc)?;
        let base = self.layout.code_page(block.code_page.into());
        let (hot, cold) = (usize::from(block.hot.0), usize::from(block.cold.1));
        let options = self.options_of(block.is(Flag::Once), block.is(Flag::Vfp));
        let source = Some(words).filter(|_| options.literals);
        let mirror = self.mirror.window();
        let spilling = Spilling::new(options.spill, &self.layout, base);
        let mut emitter = Emitter::new(None, hot, cold, Some(word), mirror, source, spilling);
        if is_thumb(block.va) {
            let start = Start { it: block.first_it(), next_page: block.across() };
            let extent = Extent { limit: block.length(), whole_it_blocks: false, stop: None };
            make_t32(&mut emitter, &options, block.va, start, extent, words);
        } else {
            make_a32(&mut emitter, &options, block.va, block.length(), words);
        }
        emitter.found()
    }

    /// The exit whose `SVC` is at `svc`, if there is one: the guest can execute any word of a code page.
    #[must_use]
    pub fn exit(&self, svc: CachePc) -> Option<ExitId> {
        let (_, word) = self.layout.find(svc)?;
        let block = self.block_at(svc)?;
        self.exits_of(block).find(|&exit| usize::from(self.exits[exit as usize].stub) == word).map(ExitId)
    }

    /// The exits of a block.
    fn exits_of(&self, id: BlockId) -> Range<u32> {
        let next = self.blocks.get(usize::from(id.0) + 1);
        self.blocks[usize::from(id.0)].first_exit..next.map_or(self.exits.len() as u32, |next| next.first_exit)
    }

    /// Makes `exit` branch straight to block `to`, if that holds for as long as the block does: the target is in the
    /// same guest page, or its page is mapped in all address spaces.
    pub fn link(&mut self, exit: ExitId, to: BlockId, memory: &mut impl CodeMemory) -> bool {
        if !self.options.link {
            return false;
        }
        let from = self.exits[exit.0 as usize];
        let (source, target) = (&self.blocks[usize::from(from.source)], &self.blocks[usize::from(to.0)]);
        let same_page = source.va.page() == target.va.page() && source.pa().page() == target.pa().page();
        let holds = same_page && !from.is_way_back() || target.is(Flag::Global);
        let dropped = source.is(Flag::Dropped) || target.is_any(Flag::Dropped, Flag::Across);
        if dropped || !holds {
            return false;
        }
        let page = u32::from(source.code_page);
        let listed = from.linked == to.0;
        if from.linked != NO_BLOCK && (!from.is_closed() || !listed && !self.remove_incoming(exit.0, memory)) {
            return false;
        }
        let site = self.layout.code_page(page).wrapping_add(4 * u32::from(from.site));
        let offset = self.entry(to).0.wrapping_sub(site.0).wrapping_sub(8) as i32;
        let cond = if from.site == from.stub { Cond::Al } else { site_cond(page, from.site, memory) };
        let Some(word) = asm::b(cond, offset) else { return false };
        patch(page, from.site.into(), word, memory);
        let from = &mut self.exits[exit.0 as usize];
        from.set_closed(false);
        if !listed {
            from.linked = to.0;
            let target = &mut self.blocks[usize::from(to.0)];
            from.set_next_incoming(core::mem::replace(&mut target.incoming, exit.0));
        }
        self.stats.links += 1;
        true
    }

    /// Makes `exit` branch straight to the guest's own address `to`, where code runs in place. That holds for ever: if
    /// nothing is there to be executed, the branch aborts. False if it is out of reach, or linked otherwise.
    pub fn link_in_place(&mut self, exit: ExitId, to: GuestVa, memory: &mut impl CodeMemory) -> bool {
        let from = self.exits[exit.0 as usize];
        let source = &self.blocks[usize::from(from.source)];
        if !self.options.link || from.linked != NO_BLOCK && !(from.linked == IN_PLACE && from.is_closed()) {
            return false;
        }
        let page = u32::from(source.code_page);
        let site = self.layout.code_page(page).wrapping_add(4 * u32::from(from.site));
        let offset = to.0.wrapping_sub(site.0).wrapping_sub(8) as i32;
        let cond = if from.site == from.stub { Cond::Al } else { site_cond(page, from.site, memory) };
        let Some(word) = asm::b(cond, offset) else { return false };
        patch(page, from.site.into(), word, memory);
        let from = &mut self.exits[exit.0 as usize];
        from.set_closed(false);
        from.linked = IN_PLACE;
        self.stats.links += 1;
        true
    }

    /// [`Self::link_in_place`] for those exits of a block of which `is_in_place` says that their target is such a
    /// place.
    pub fn link_all_in_place(
        &mut self,
        id: BlockId,
        is_in_place: impl Fn(GuestVa) -> bool,
        memory: &mut impl CodeMemory,
    ) {
        let page = u32::from(self.blocks[usize::from(id.0)].code_page);
        for exit in self.exits_of(id) {
            let stub = usize::from(self.exits[exit as usize].stub);
            // The target is behind the SVC.
            if let Some(target) = memory.page(page).get(stub + 1).map(|&target| GuestVa(target))
                && is_in_place(target)
            {
                self.link_in_place(ExitId(exit), target, memory);
            }
        }
    }

    /// Makes a linked exit trap, which stays in its target's list.
    fn close_exit(&mut self, exit: u32, memory: &mut impl CodeMemory) {
        let from = self.exits[exit as usize];
        if from.linked == NO_BLOCK || from.is_closed() {
            return;
        }
        let page = u32::from(self.blocks[usize::from(from.source)].code_page);
        let word = if from.site == from.stub {
            asm::svc(Cond::Al, crate::trap::LINK)
        } else {
            let offset = 4 * (i32::from(from.stub) - i32::from(from.site)) - 8;
            asm::b(site_cond(page, from.site, memory), offset).unwrap_or(asm::NOP)
        };
        patch(page, from.site.into(), word, memory);
        self.exits[exit as usize].set_closed(true);
        self.stats.unlinks += 1;
    }

    /// Makes an exit trap that is in no list any more.
    fn unlink(&mut self, exit: u32, memory: &mut impl CodeMemory) {
        self.close_exit(exit, memory);
        let from = &mut self.exits[exit as usize];
        from.linked = NO_BLOCK;
        from.set_next_incoming(NO_EXIT);
        from.set_closed(false);
    }

    /// Makes the next way out of a block trap, whichever it is: an interrupt waits for the end of the block.
    pub fn close(&mut self, id: BlockId, memory: &mut impl CodeMemory) {
        for exit in self.exits_of(id) {
            self.close_exit(exit, memory);
        }
        let window = self.mirror.window();
        let pops = shadow_stack::is_used(&self.options);
        if window.is_none() && !pops {
            return;
        }
        let block = &self.blocks[usize::from(id.0)];
        let (page, first, end) = (u32::from(block.code_page), usize::from(block.hot.0), usize::from(block.hot.1));
        let mut at = first;
        while at < end {
            let word = memory.page(page)[at];
            let reflects = window.and_then(|window| return_mirror::closed(word, window));
            if let Some(closed) = reflects.or_else(|| shadow_stack::closed(word).filter(|_| pops)) {
                memory.page(page)[at] = closed;
                memory.publish(page, at, 1);
            }
            at += 1 + crate::trap::literals(word);
        }
    }

    /// Makes the write to DACR that the guest was 8 bytes behind trap from now on, because what it opened is used at
    /// once. `site` is hearsay: what is there is looked at.
    pub fn make_dacr_eager(&self, site: CachePc, memory: &mut impl CodeMemory) {
        let load = CachePc(site.0.wrapping_sub(4));
        if let Some((page, at)) = self.layout.find(load)
            && let Some(word) = rules::make_eager(memory.page(page)[at])
            && memory.page(page).get(at + 2).is_some_and(|&next| next & 0x0fff_0ff0 == 0x016f_0f10)
        {
            patch(page, at, word, memory);
        }
    }

    /// Undoes [`Self::close`] for the branch through the mirror at `site`. Returns the register with its target.
    pub fn reopen(&mut self, site: CachePc, memory: &mut impl CodeMemory) -> Option<Reg> {
        let window = self.mirror.window()?;
        let (page, at) = self.layout.find(site)?;
        let (open, target) = return_mirror::reopened(memory.page(page)[at], window)?;
        memory.page(page)[at] = open;
        memory.publish(page, at, 1);
        Some(target)
    }

    /// Takes a linked exit out of its target's list, if it is found soon enough.
    fn remove_incoming(&mut self, exit: u32, memory: &mut impl CodeMemory) -> bool {
        let Exit { linked, .. } = self.exits[exit as usize];
        if linked == IN_PLACE {
            self.unlink(exit, memory);
            return true;
        }
        let next = self.exits[exit as usize].next_incoming();
        let target = &mut self.blocks[usize::from(linked)];
        let mut at = target.incoming;
        if at == exit {
            target.incoming = next;
            self.unlink(exit, memory);
            return true;
        }
        for _ in 0..CHAIN {
            let Some(before) = self.exits.get_mut(at as usize) else { break };
            let following = before.next_incoming();
            if following == exit {
                before.set_next_incoming(next);
                self.unlink(exit, memory);
                return true;
            }
            at = following;
        }
        false
    }

    /// Unlinks exits that lead to a block, `budget` at most, which is less by as many then. Whether none is left.
    fn unlink_incoming(&mut self, id: u16, budget: &mut u32, memory: &mut impl CodeMemory) -> bool {
        loop {
            let exit = self.blocks[usize::from(id)].incoming;
            if exit == NO_EXIT {
                return true;
            }
            if *budget == 0 {
                return false;
            }
            *budget -= 1;
            self.blocks[usize::from(id)].incoming = self.exits[exit as usize].next_incoming();
            self.unlink(exit, memory);
        }
    }

    /// Nothing leads to a block any more, but for exits that are [left](Self::settle).
    fn isolate(&mut self, id: u16, budget: &mut u32, memory: &mut impl CodeMemory) {
        if !self.unlink_incoming(id, budget, memory) {
            self.left.add(id);
        }
        let va = self.blocks[usize::from(id)].va;
        self.jump_cache.remove(va.0);
        self.mirror.remove(va, memory);
    }

    /// Whether exits are left that lead to blocks which they must not lead to. If so, the guest must not run before
    /// [`Self::settle`] says that there are none.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.left.count == 0 && self.left.from.is_none() && self.left.pages.is_none()
    }

    /// Unlinks some of the exits that are left, in a time that is bounded. Whether none is left.
    pub fn settle(&mut self, memory: &mut impl CodeMemory) -> bool {
        let mut budget = UNLINKED_AT_ONCE;
        while let Some(last) = self.left.count.checked_sub(1) {
            if !self.unlink_incoming(self.left.blocks[last], &mut budget, memory) {
                return false;
            }
            self.left.count = last;
        }
        if self.left.from.is_some() && !self.jump_cache.settle() {
            return false;
        }
        if let Some(from) = self.left.from {
            let blocks = self.blocks.len() as u16;
            let end = from.saturating_add(LOOKED_THROUGH_AT_ONCE).min(blocks);
            let stopped = (from..end).find(|&id| !self.unlink_incoming(id, &mut budget, memory));
            let next = stopped.unwrap_or(end);
            self.left.from = (next < blocks).then_some(next);
        }
        if self.left.from.is_none()
            && let Some(from) = self.left.pages
        {
            self.left.pages = self.do_jobs(from, &mut budget, memory);
        }
        self.is_settled()
    }

    /// Drops or unmaps blocks of guest pages whose turn it is, some of them, from page number `from` on. Where to go
    /// on.
    fn do_jobs(&mut self, from: usize, budget: &mut u32, memory: &mut impl CodeMemory) -> Option<usize> {
        let mut blocks = 0;
        let end = (from + PAGES_AT_ONCE).min(self.guest_pages.numbers());
        for number in from..end {
            let Some(job) = self.guest_pages.job(number) else { continue };
            let (drops, first) = match job {
                Job::Drop(first) => (true, first),
                Job::Unmap(first) => (false, self.left.block.take().unwrap_or(first)),
            };
            let mut at = first;
            while at != NO_BLOCK {
                if blocks == DROPPED_AT_ONCE {
                    if drops {
                        self.guest_pages.dropped_to(number, at);
                    } else {
                        self.left.block = Some(at);
                    }
                    return Some(number);
                }
                let next = self.blocks[usize::from(at)].next_in_page;
                if drops {
                    self.drop_block(at, budget, memory);
                } else {
                    self.isolate(at, budget, memory);
                }
                at = next;
                blocks += 1;
            }
            if drops {
                self.guest_pages.dropped_to(number, NO_BLOCK);
            } else {
                self.guest_pages.unmapped(number);
            }
        }
        (end < self.guest_pages.numbers()).then_some(end)
    }

    /// Drops every block made from the page at `pa`: its code changes. The guest must not run before [`Self::settle`]
    /// is done.
    pub fn drop_page(&mut self, pa: GuestPa, memory: &mut impl CodeMemory) {
        let page = pa.page().0;
        let next = |pages: &GuestPages, after| pages.next_of(page, after);
        if self.are_many(next) {
            self.guest_pages.doom(page);
            self.version = self.version.wrapping_add(1);
            (self.left.pages, self.left.block) = (Some(0), None);
            return;
        }
        let mut budget = UNLINKED_AT_ONCE;
        while let Some(first) = self.guest_pages.take(page) {
            let mut at = first;
            while at != NO_BLOCK {
                let next = self.blocks[usize::from(at)].next_in_page;
                self.drop_block(at, &mut budget, memory);
                at = next;
            }
            self.version = self.version.wrapping_add(1);
        }
    }

    /// The guest writes to the page at `pa`, where code was made from, and `changed` are the words of it that become
    /// others, if any: drops the blocks that were made from these, and keeps the others, with what leads to them. The
    /// guest must not run before [`Self::settle`] is done.
    ///
    /// False if the page is to be dropped as a whole, with [`Self::drop_page`], and has not been touched: nothing would
    /// be left of it, or it has been written too often to be worth it, or has too many blocks to look through.
    pub fn change_words(
        &mut self,
        pa: GuestPa,
        changed: Option<RangeInclusive<u16>>,
        memory: &mut impl CodeMemory,
    ) -> bool {
        let page = pa.page().0;
        if self.left.pages.is_some() {
            return false;
        }
        let concerned = |block: &Block| changed.as_ref().is_some_and(|words| block.is_made_from(words));
        let (mut blocks, mut dropped) = (0, 0);
        let mut next = self.guest_pages.next_of(page, None);
        while let Some((number, mut at)) = next {
            while let Some(block) = self.blocks.get(usize::from(at)) {
                blocks += 1;
                dropped += u32::from(concerned(block));
                at = block.next_in_page;
            }
            if blocks > DROPPED_AT_ONCE as u32 {
                return false;
            }
            next = self.guest_pages.next_of(page, Some(number));
        }
        if dropped == blocks || self.guest_pages.count_write(page) > WRITES_PER_BLOCK * blocks {
            return false;
        }
        if dropped > 0 {
            self.drop_where(page, concerned, memory);
        }
        true
    }

    /// The same for a page that runs in place, of which no more has blocks than must: whatever is left of it. False,
    /// and nothing is done, if there are too many blocks to look through.
    pub fn change_stubs(&mut self, pa: GuestPa, changed: RangeInclusive<u16>, memory: &mut impl CodeMemory) -> bool {
        let page = pa.page().0;
        if self.left.pages.is_some() || self.are_many(|pages, after| pages.next_of(page, after)) {
            return false;
        }
        self.drop_where(page, |block| block.is_made_from(&changed), memory);
        true
    }

    /// Drops the blocks made from the page at `page` of which `concerned` is true.
    fn drop_where(&mut self, page: u32, concerned: impl Fn(&Block) -> bool, memory: &mut impl CodeMemory) {
        let mut budget = UNLINKED_AT_ONCE;
        let mut next = self.guest_pages.next_of(page, None);
        while let Some((number, mut at)) = next {
            // A page without blocks is removed.
            next = self.guest_pages.next_of(page, Some(number));
            let mut before = None;
            while at != NO_BLOCK {
                let block = &self.blocks[usize::from(at)];
                let behind = block.next_in_page;
                if concerned(block) {
                    self.drop_block(at, &mut budget, memory);
                    match before {
                        Some(before) => self.blocks[usize::from(before)].next_in_page = behind,
                        None => self.guest_pages.dropped_to(number, behind),
                    }
                } else {
                    before = Some(at);
                }
                at = behind;
            }
        }
        self.version = self.version.wrapping_add(1);
    }

    /// Whether there is a breakpoint at `va`: then no block is to be made there.
    #[inline]
    #[must_use]
    pub fn is_breakpoint(&self, va: GuestVa) -> bool {
        self.breakpoints.contains(address(va))
    }

    /// Whether there is a breakpoint in the page of `va`.
    #[must_use]
    pub fn has_breakpoint_near(&self, va: GuestVa) -> bool {
        self.breakpoints.contains(va.page()) || self.breakpoints.room_at(va.page()) < PAGE_WORDS
    }

    /// Sets a breakpoint, at any address, and drops the blocks that contain it. The guest must be in none of them, and
    /// must not run before [`Self::settle`] is done. False if there are [`crate::MOST_BREAKPOINTS`] already.
    pub fn set_breakpoint(&mut self, va: GuestVa, memory: &mut impl CodeMemory) -> bool {
        if !self.breakpoints.insert(va) {
            return false;
        }
        self.drop_around(va, memory);
        true
    }

    /// Takes a breakpoint away, at any time. Blocks that end in front of it stay as they are, and lead on. False if
    /// there is none.
    pub fn clear_breakpoint(&mut self, va: GuestVa) -> bool {
        self.breakpoints.remove(va)
    }

    /// Takes all of them away.
    pub fn clear_breakpoints(&mut self) {
        self.breakpoints = Breakpoints::new();
    }

    /// Drops the blocks that contain `va`; all that there are, if its page has many to look at.
    fn drop_around(&mut self, at: GuestVa, memory: &mut impl CodeMemory) {
        let va = at.page().0;
        let at_va = |pages: &GuestPages, after| pages.next_at(va, after).map(|(number, _, first)| (number, first));
        if self.left.pages.is_some() || self.are_many(at_va) {
            self.flush(memory);
            return;
        }
        let mut next = self.guest_pages.next_at(va, None);
        while let Some((number, pa, _)) = next {
            next = self.guest_pages.next_at(va, Some(number));
            if self.are_many(|pages, after| pages.next_of(pa, after)) {
                self.flush(memory);
                return;
            }
            self.drop_where(pa, |block| at.0.wrapping_sub(address(block.va).0) < 4 * block.length() as u32, memory);
        }
    }

    /// Whether guest pages, of which `next` says what comes behind another one, have more blocks than are dropped at
    /// once.
    fn are_many(&self, next: impl Fn(&GuestPages, Option<usize>) -> Option<(usize, u16)>) -> bool {
        let mut blocks = 0;
        let mut page = next(&self.guest_pages, None);
        while let Some((number, mut at)) = page {
            while at != NO_BLOCK {
                at = self.blocks[usize::from(at)].next_in_page;
                blocks += 1;
                if blocks > DROPPED_AT_ONCE {
                    return true;
                }
            }
            page = next(&self.guest_pages, Some(number));
        }
        false
    }

    /// Drops a block. Its exits stay as they are, for code that is in it runs on to its end.
    fn drop_block(&mut self, id: u16, budget: &mut u32, memory: &mut impl CodeMemory) {
        self.isolate(id, budget, memory);
        let block = &mut self.blocks[usize::from(id)];
        block.set(Flag::Dropped, true);
        let (head, next) = (bucket(block.va), block.next_in_bucket);
        if self.buckets[head] == id {
            self.buckets[head] = next;
        } else {
            // One that is further behind is never looked at.
            let mut at = self.buckets[head];
            for _ in 0..CHAIN {
                let Some(before) = self.blocks.get_mut(usize::from(at)) else { break };
                if before.next_in_bucket == id {
                    before.next_in_bucket = next;
                    break;
                }
                at = before.next_in_bucket;
            }
        }
        self.stats.dropped += 1;
    }

    /// The guest's mapping of the page at `va` changed: nothing may branch there without looking again. Blocks stay, in
    /// case the mapping comes back. The guest must not run before [`Self::settle`] is done. How many blocks and exits
    /// that concerned.
    pub fn unmap_page(&mut self, va: GuestVa, memory: &mut impl CodeMemory) -> u32 {
        let page = va.page().0;
        let next = |pages: &GuestPages, after| pages.next_at(page, after).map(|(number, _, first)| (number, first));
        if self.are_many(next) {
            self.guest_pages.note_move(page);
            (self.left.pages, self.left.block) = (Some(0), None);
            return UNLINKED_AT_ONCE;
        }
        let mut budget = UNLINKED_AT_ONCE;
        let mut blocks = 0;
        let mut page = next(&self.guest_pages, None);
        while let Some((number, mut at)) = page {
            while at != NO_BLOCK {
                self.isolate(at, &mut budget, memory);
                at = self.blocks[usize::from(at)].next_in_page;
                blocks += 1;
            }
            page = next(&self.guest_pages, Some(number));
        }
        blocks + (UNLINKED_AT_ONCE - budget)
    }

    /// One of the pages of which code is in the cache, the first whose number is `from` or more: its number, VA and the
    /// PA that it was mapped to. Numbers of pages stay until the next flush.
    #[must_use]
    pub fn next_page(&self, from: usize) -> Option<(usize, GuestVa, GuestPa)> {
        self.guest_pages.next(from).map(|(number, va, pa)| (number, GuestVa(va), GuestPa(pa)))
    }

    /// The same of the pages at `va`: the first, or that behind number `after`.
    #[must_use]
    pub fn next_page_at(&self, va: GuestVa, after: Option<usize>) -> Option<(usize, GuestPa)> {
        self.guest_pages.next_at(va.page().0, after).map(|(number, pa, _)| (number, GuestPa(pa)))
    }

    /// Unlinks everything: the whole translation regime changed. The guest must not run before [`Self::settle`] is
    /// done.
    pub fn unlink_all(&mut self, memory: &mut impl CodeMemory) {
        self.left.from = Some(0);
        self.jump_cache.clear();
        self.mirror.clear(memory);
    }

    /// Says whether the page of a block is mapped in all address spaces under the present regime, which may not be the
    /// one that the block was made under.
    pub fn set_global(&mut self, id: BlockId, global: bool) {
        self.blocks[usize::from(id.0)].set(Flag::Global, global);
    }

    /// Enters a block into the jump cache, if its page is mapped in all address spaces.
    pub fn remember(&mut self, id: BlockId) {
        let block = &self.blocks[usize::from(id.0)];
        if block.is(Flag::Global) && !block.is_any(Flag::Dropped, Flag::Across) {
            let entry = self.entry(id);
            self.jump_cache.insert(self.blocks[usize::from(id.0)].va.0, entry.0);
        }
    }

    /// Guest instructions in a block.
    #[must_use]
    pub fn length(&self, id: BlockId) -> usize {
        self.blocks[usize::from(id.0)].length()
    }
}
