//! The code cache: which blocks there are, where they lie, how they are linked, and what makes them go.
//!
//! Blocks are found by guest VA and guest PA. [Links](links) are recorded in both directions, and guest pages know
//! their blocks, so that a block is unlinked or dropped without a scan. Space is not reused piecemeal: when pages,
//! block records or exit records run out, everything is flushed (STAR §3.5), and counted.
//!
//! Guest code pages are write-protected by the MMU, so that a write to one is known at once: blocks that were made from
//! the words that change are dropped ([`Translator::change_words`]), or all of the page ([`Translator::drop_page`]). A
//! change of mapping is announced by the guest's TLB maintenance ([`Translator::unmap_page`]). A link to another page
//! holds until then; links within a page, always.

mod changes;
mod counting;
mod links;

use self::changes::Left;
use crate::at::{address, is_thumb};
use crate::block::{self, Extent, LAST_HALF_WORD, Location};
use crate::breakpoints::Breakpoints;
use crate::checks::{CheckAccesses, Checks};
use crate::client::{Client, CountRuns, Counters};
use crate::edges::CountEdges;
use crate::emit::{self, Emitter, Exits, NO_EXITS};
use crate::guest_pages::GuestPages;
use crate::jump_cache::{Entry, JumpCache};
use crate::layout::{HOT_FIELDS, Layout, PAGE, PAGE_WORDS, Window};
use crate::located::Located;
use crate::options::Options;
use crate::papers::{self, Spilling};
use crate::records::{self, Block, Exit, Flag, MAX_BLOCKS, MAX_EXITS, Made, NO_BLOCK};
use crate::return_mirror::{LARGE, ReturnMirror};
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;
use spica_addr::{CachePc, GuestPa, GuestVa};
use spica_isa::t32::{Code, ItState};

/// The memory of the code pages.
pub trait CodeMemory {
    /// The words of code page `page`, to be read and written.
    fn page(&mut self, page: u32) -> &mut [u32; PAGE_WORDS];
    /// Makes words `first..first + words` of a page, just written, visible to instruction fetches (B2.2.9).
    fn publish(&mut self, page: u32, first: usize, words: usize);
    /// The words of page `page` of the return mirror's memory.
    fn mirror_page(&mut self, page: u32) -> &mut [u32; PAGE_WORDS];
    /// The same as [`CodeMemory::publish`] for those. `va`: where the page is mapped, or will be next.
    fn publish_mirror(&mut self, page: u32, va: u32, first: usize, words: usize);
    /// Maps page `page` of that memory at `va`, where nothing is.
    fn map_mirror(&mut self, va: u32, page: u32);
    /// The same for [`LARGE`](crate::return_mirror::LARGE) pages in a row, of which the first is a multiple of that,
    /// and `va` of all their bytes. Until all is unmapped, none of them is by itself.
    fn map_large_mirror(&mut self, va: u32, page: u32) {
        (0..LARGE as u32).for_each(|next| self.map_mirror(va + next * PAGE, page + next));
    }
    /// Unmaps the page at `va`, or all of them; no processor may remember them.
    fn unmap_mirror(&mut self, va: Option<u32>);
    /// Code pages `pages` are for data that translated code reads and writes from now on, or for code again.
    fn make_data(&mut self, pages: Range<u32>, data: bool) {
        let _ = (pages, data);
    }
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
/// Places for blocks that begin in the middle of an IT block: there is one where a page ends in such, and few pages do.
const PLACES_IN_IT: usize = 64;

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
            + PLACES_IN_IT * size_of::<u16>()
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
    /// Those of the block that is being made.
    pending: Exits,
    buckets: Vec<u16>,
    /// Blocks that begin in the middle of an IT block, by [`place_in_it`].
    in_it: Vec<u16>,
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
    /// What is counted, or was counted last.
    counters: Option<Counters>,
    counts: bool,
    /// What is checked and told of, while that is so.
    checks: Option<Box<Checks>>,
    version: u32,
    generation: u64,
    stats: Stats,
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
    /// The page behind its own, if its first instruction [lies across the end](is_across).
    pub next_page: Option<NextPage>,
}

/// What an instruction across the end of a page has of the page behind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NextPage {
    /// Its first half-word.
    pub half: u16,
    /// Where it is.
    pub pa: GuestPa,
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
    client: &mut impl Client,
) -> Made {
    let length = block::translate(emitter, options, va, limit, client, |pc| words[pc.page_offset() as usize / 4]);
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
            start.next_page.map_or(0, |page| page.half)
        }
    };
    let (length, end) = block::translate_t32(emitter, options, va, start.it, extent, fetch);
    // Behind the last one; 0 is the end of the page, 2 is behind it.
    let last_half = end.0.wrapping_sub(2);
    let across = start.next_page.filter(|_| last_half & !0xfff != va.page().0).map(|page| page.half);
    let last = if across.is_some() { PAGE_WORDS as u16 - 1 } else { (last_half & 0xfff) as u16 / 4 };
    Made { length, last, across }
}

fn bucket(va: GuestVa) -> usize {
    let word = va.0 >> 2;
    ((word ^ word >> 14) as usize) % BUCKETS
}

/// As many of these begin a page, its number counts.
fn place_in_it(va: GuestVa, it: ItState) -> usize {
    (va.0 >> 12 ^ va.0 >> 1 ^ u32::from(it.bits())) as usize % PLACES_IN_IT
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
            pending: NO_EXITS,
            buckets: vec![NO_BLOCK; BUCKETS],
            in_it: vec![NO_BLOCK; PLACES_IN_IT],
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
            counters: None,
            counts: false,
            checks: None,
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

    /// The same of a T32 instruction across the end of its page, which goes on in the page behind as `next` says.
    #[must_use]
    pub fn lookup_across(&self, va: GuestVa, pa: GuestPa, next: NextPage) -> Option<BlockId> {
        let mut at = self.buckets[bucket(va)];
        for _ in 0..CHAIN {
            let block = self.blocks.get(usize::from(at))?;
            if (block.va, block.pa(), block.across()) == (va, pa, Some(next.half)) && !block.is(Flag::Dropped) {
                let behind = self.blocks.get(usize::from(at) + 1)?;
                if behind.is(Flag::Second) && behind.pa().page() == next.pa.page() {
                    return Some(BlockId(at));
                }
            }
            at = block.next_in_bucket;
        }
        None
    }

    /// The block that begins as `start` says, of T32 code, or of A32 code as by [`Self::lookup`]. In the middle of an
    /// IT block, that is the last one that was made with its place.
    #[must_use]
    pub fn lookup_from(&self, va: GuestVa, pa: GuestPa, start: Start) -> Option<BlockId> {
        match start {
            Start { it, next_page: None } if it.in_block() => {
                let id = self.in_it[place_in_it(va, it)];
                let block = self.blocks.get(usize::from(id))?;
                let is_it = (block.va, block.pa(), block.first_it()) == (va, pa, it) && !block.is(Flag::Dropped);
                is_it.then_some(BlockId(id))
            }
            Start { it, .. } if it.in_block() => None,
            Start { next_page: Some(next), .. } => self.lookup_across(va, pa, next),
            Start { next_page: None, .. } => self.lookup(va, pa),
        }
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
        if block.is(Flag::Global) && !block.is(Flag::Dropped) {
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

    /// The same of T32 code that begins as `start` says. In the middle of an IT block, nothing is linked to it: only
    /// [`Self::lookup_from`] finds it.
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
        let id = self.translate_with(kept, (va, pa), global && !once, words, start, memory);
        if once && start.next_page.is_none() {
            self.in_it[place_in_it(va, start.it)] = id.0;
        }
        id
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
        self.make_room(start.next_page.is_some(), memory);
        let code_page = self.page_starts.len() as u32 - 1;
        let (hot, cold) = (self.hot, self.cold);
        let base = self.layout.code_page(code_page);
        let (once, limit) = match kept {
            Kept::Always(limit) => (false, limit),
            Kept::Once(limit) => (true, limit),
        };
        let of_once;
        let options = if once {
            of_once = self.options.once();
            &of_once
        } else {
            &self.options
        };
        let limit = limit.min(options.max_block);
        let mirror = self.mirror.window();
        let source = Some(words).filter(|_| options.literals);
        let page = Some(memory.page(code_page));
        let spilling = Spilling::new(options.spill, &self.layout, base);
        let mut runs = (self.counts && !is_thumb(va)).then(|| self.count_runs());
        let mut emitter = Emitter::new(page, hot..cold, None, mirror, source, spilling, &mut self.pending);
        let made = if is_thumb(va) {
            let whole_it_blocks = limit == options.max_block;
            let extent = Extent { limit, whole_it_blocks, stop: self.breakpoints.next_behind(address(va)) };
            make_t32(&mut emitter, options, va, start, extent, words)
        } else {
            let limit = limit.min(self.breakpoints.room_at(va));
            match (&mut runs, &self.checks) {
                (None, None) => make_a32(&mut emitter, options, va, limit, words, &mut ()),
                (None, Some(checks)) if checks.counts_edges() => {
                    make_a32(&mut emitter, options, va, limit, words, &mut CountEdges::new(checks))
                }
                (None, Some(checks)) => {
                    make_a32(&mut emitter, options, va, limit, words, &mut CheckAccesses::new(checks))
                }
                (Some(runs), _) => make_a32(&mut emitter, options, va, limit, words, runs),
            }
        };
        (self.hot, self.cold) = (emitter.hot(), emitter.cold());
        let id = self.blocks.len() as u16;
        let mut block = Block::new(va, pa, made, emitter.constants(), self.exits.len());
        self.exits.extend(emitter.exits().map(|(exit, way_back)| Exit::new(exit, way_back, id)));
        if self.counts {
            self.place_counters(runs.as_ref(), code_page, memory);
        }
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
        if let Some(next) = start.next_page.filter(|_| !once && made.across.is_some()) {
            self.note_second(va, next.pa);
        }
        self.stats.translated += 1;
        self.stats.instructions += made.length as u64;
        BlockId(id)
    }

    /// Puts what stands for the newest block, the instruction at `va` across the end of its page, into the list of the
    /// page behind, which is at `pa`: an empty block.
    fn note_second(&mut self, va: GuestVa, pa: GuestPa) {
        let (va, pa) = (GuestVa(va.page().0.wrapping_add(PAGE) | 1), pa.page());
        let id = self.blocks.len() as u16;
        let mut second = Block::new(va, pa, Made { length: 1, last: 0, across: None }, None, self.exits.len());
        let first = &self.blocks[usize::from(id) - 1];
        second.code_page = first.code_page;
        second.hot = (first.hot.1, first.hot.1);
        second.cold = (first.cold.0, first.cold.0);
        second.set(Flag::Second, true);
        second.next_in_page = self.guest_pages.enter(pa.0, va.page().0, id);
        self.blocks.push(second);
    }

    /// Changes the switches. All blocks go, which were made with others.
    pub fn set_options(&mut self, options: Options, memory: &mut impl CodeMemory) {
        self.flush(memory);
        self.pages.set_options(&options);
        let Options { thumbee, vfp, lent_thread_id, .. } = self.options;
        self.options = Options { thumbee, vfp, lent_thread_id, ..options };
        if !(options.indirect && options.return_mirror) {
            self.mirror = ReturnMirror::new(None, self.capacity.mirror_pages);
        }
    }

    /// The return mirror, which stays where it is, stands for the guest addresses of `window` from now on, as many as
    /// before. All blocks go.
    pub fn move_mirror(&mut self, window: Window, memory: &mut impl CodeMemory) {
        self.flush(memory);
        self.layout.mirror = Some(window);
        self.mirror.move_to(self.layout.mirror);
    }

    /// The code pages, no more than at first, lie as `layout` says from now on, where they are mapped by then. All
    /// blocks go. `lent_thread_id`: that option, for those that are made from now on.
    ///
    /// # Panics
    /// If there are more, or if what is counted lies in them.
    pub fn move_to(&mut self, layout: Layout, lent_thread_id: bool, memory: &mut impl CodeMemory) {
        assert!(layout.pages as usize <= self.page_starts.capacity(), "the code cache has no more pages than at first");
        assert!(self.counters.is_none(), "what was counted lies in the code cache");
        self.flush(memory);
        self.layout = layout;
        self.options.lent_thread_id = lent_thread_id;
        self.mirror.move_to(layout.mirror);
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

    /// Sees to it that the last code page has room for a block, and the records too, which are two if it lies `across`
    /// the end of a page.
    fn make_room(&mut self, across: bool, memory: &mut impl CodeMemory) {
        let records = 1 + usize::from(across);
        let full = self.blocks.len() + records > self.capacity.blocks
            || !self.guest_pages.has_room(records)
            || self.exits.len() + emit::MAX_EXITS > self.capacity.exits;
        if full {
            self.flush(memory);
            self.stats.flushes += 1;
        }
        let client = match (self.counts, &self.checks) {
            (false, None) => 0,
            (false, Some(_)) => CheckAccesses::ROOM,
            (true, _) => CountRuns::ROOM,
        };
        let room = papers::room(self.options.spill) + client;
        if self.page_starts.is_empty() || self.hot + 2 * room > self.cold {
            if self.page_starts.len() >= self.code_pages() as usize {
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
        records::fill(&mut self.buckets, NO_BLOCK);
        records::fill(&mut self.in_it, NO_BLOCK);
        self.page_starts.clear();
        self.guest_pages.clear();
        // Nothing is left of blocks, but the jump cache is still to be cleared.
        self.left = Left::all();
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
        // Cold parts begin behind all hot ones.
        let last = blocks.last()?;
        let found = if word < last.cold.0 {
            let at = blocks.partition_point(|b| b.hot.0 <= word).checked_sub(1)?;
            Some(at).filter(|&at| word < blocks[at].hot.1)?
        } else {
            let at = blocks.partition_point(|b| b.cold.0 > word);
            Some(at).filter(|&at| at < blocks.len() && word < blocks[at].cold.1)?
        };
        Some(BlockId((first + found) as u16))
    }

    /// Where a block goes on that was left in Thumb state at `pc`: in A32 state, as all that is asked about its words.
    /// `None` if no block is there.
    #[must_use]
    pub fn in_a32(&self, pc: CachePc) -> Option<CachePc> {
        self.block_at(CachePc(pc.0 & !3)).map(|_| crate::rules::in_a32(pc))
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
        let (_, word) = self.layout.find(pc)?;
        match (self.counts, &self.checks) {
            (false, None) => self.make_again(id, Some(word), words, &mut ()),
            (false, Some(checks)) if checks.counts_edges() => {
                self.make_again(id, Some(word), words, &mut CountEdges::new(checks))
            }
            (false, Some(checks)) => self.make_again(id, Some(word), words, &mut CheckAccesses::new(checks)),
            (true, _) => self.make_again(id, Some(word), words, &mut self.count_runs()),
        }
    }

    /// Translates block `id` again without writing. Where its word `wanted` comes from.
    fn make_again(
        &self,
        id: BlockId,
        wanted: Option<usize>,
        words: &[u32; PAGE_WORDS],
        client: &mut impl Client,
    ) -> Option<Location> {
        let block = &self.blocks[usize::from(id.0)];
        let base = self.layout.code_page(block.code_page.into());
        let (hot, cold) = (usize::from(block.hot.0), usize::from(block.cold.1));
        let options = self.options_of(block.is(Flag::Once), block.is(Flag::Vfp));
        let source = Some(words).filter(|_| options.literals);
        let mirror = self.mirror.window();
        let spilling = Spilling::new(options.spill, &self.layout, base);
        let mut exits = NO_EXITS;
        let mut emitter = Emitter::new(None, hot..cold, wanted, mirror, source, spilling, &mut exits);
        if is_thumb(block.va) {
            let next_page = block.across().map(|half| NextPage { half, pa: GuestPa(0) });
            let start = Start { it: block.first_it(), next_page };
            let extent = Extent { limit: block.length(), whole_it_blocks: false, stop: None };
            make_t32(&mut emitter, &options, block.va, start, extent, words);
        } else {
            make_a32(&mut emitter, &options, block.va, block.length(), words, client);
        }
        emitter.found()
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

    /// Says whether the page of a block is mapped in all address spaces under the present regime, which may not be the
    /// one that the block was made under.
    pub fn set_global(&mut self, id: BlockId, global: bool) {
        self.blocks[usize::from(id.0)].set(Flag::Global, global);
    }

    /// Enters a block into the jump cache, if its page is mapped in all address spaces.
    pub fn remember(&mut self, id: BlockId) {
        let block = &self.blocks[usize::from(id.0)];
        if block.is(Flag::Global) && !block.is(Flag::Dropped) {
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
