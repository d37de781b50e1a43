//! The code cache: which blocks there are, where they lie, how they are linked, and what makes them go.
//!
//! Blocks are found by guest VA and guest PA. Links are recorded in both directions, and guest pages know their blocks,
//! so that a block is unlinked or dropped without a scan. Space is not reused piecemeal: when pages, block records or
//! exit records run out, everything is flushed (STAR §3.5), and counted.
//!
//! Guest code pages are write-protected by the MMU, so that a write to one is known at once ([`Translator::drop_page`]);
//! a change of mapping is announced by the guest's TLB maintenance ([`Translator::unmap_page`]). A link to another page
//! holds until then; links within a page, always.

use crate::block::{self, Location};
use crate::emit::{self, Emitter};
use crate::jump_cache::{Entry, JumpCache};
use crate::layout::{HOT_FIELDS, Layout, PAGE_WORDS};
use crate::located::Located;
use crate::options::Options;
use crate::return_mirror::{self, ReturnMirror};
use crate::rules;
use crate::shadow_stack;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;
use core::ops::RangeInclusive;
use spica_addr::{CachePc, GuestPa, GuestVa};
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
    /// Unmaps the page at `va`, or all of them; no processor may remember them.
    fn unmap_mirror(&mut self, va: Option<u32>);
}

/// Number of a block. Valid until the next flush.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockId(u32);

/// Number of an exit that was checked to exist. Valid until the next flush.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExitId(u32);

const NONE: u32 = u32::MAX;
const BUCKETS: usize = 16384;
/// An inline cache that was wrong so often does not guess anew.
const GUESSES: u8 = 4;

#[derive(Clone, Copy)]
struct Block {
    va: GuestVa,
    pa: GuestPa,
    /// Guest instructions.
    length: u16,
    code_page: u16,
    hot: (u16, u16),
    cold: (u16, u16),
    first_exit: u32,
    exit_count: u8,
    /// The mapping of its page is global: it may be linked to from other pages.
    global: bool,
    /// Made for one execution.
    once: bool,
    /// [`Options::vfp`] as it was.
    vfp: bool,
    /// Still to be found and linked to; a dropped block keeps its place, and code that is in it runs on to its end.
    live: bool,
    next_in_bucket: u32,
    next_in_page: u32,
    /// First of the exits that are linked to it.
    incoming: u32,
}

#[derive(Clone, Copy)]
struct Exit {
    site: CachePc,
    stub: CachePc,
    target: GuestVa,
    source: u32,
    linked: u32,
    next_incoming: u32,
    /// The word with the target that is guessed, for an inline cache; else 0.
    guess: CachePc,
    /// Times that the guess was wrong.
    wrong: u8,
    /// See [`emit::PendingExit::way_back`].
    way_back: bool,
}

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
    /// Guest pages that can have blocks: [`Translator`]'s books of them grow as they come, and a guest chooses how many.
    fn pages(self) -> usize {
        (self.blocks / 4).max(1024)
    }

    /// Bytes of memory that the records take from the start. The books of pages come on top, half a megabyte at most for
    /// 46,000 blocks.
    #[must_use]
    pub fn bytes(self) -> usize {
        self.blocks * size_of::<Block>()
            + self.exits * size_of::<Exit>()
            + BUCKETS * size_of::<u32>()
            + crate::jump_cache::ENTRIES * size_of::<Entry>()
            + self.mirror_pages as usize * size_of::<u32>()
            // A place in the return mirror for every page of its window, of 40 MiB.
            + 20 * 1024
    }
}

/// See the module's text.
pub struct Translator {
    layout: Layout,
    options: Options,
    capacity: Capacity,
    blocks: Vec<Block>,
    exits: Vec<Exit>,
    buckets: Vec<u32>,
    /// First block of each code page in use, in the order of the pages.
    page_starts: Vec<u32>,
    hot: usize,
    cold: usize,
    /// (PA page, VA page) → first block.
    by_page: BTreeMap<(u32, u32), u32>,
    /// (VA page, PA page).
    mapped: BTreeSet<(u32, u32)>,
    /// Where indirect branches look first.
    pub jump_cache: JumpCache,
    mirror: ReturnMirror,
    /// Code pages may have lightweight traps in them.
    trapping: bool,
    located: Located,
    version: u32,
    generation: u64,
    stats: Stats,
}

fn bucket(va: GuestVa) -> usize {
    let word = va.0 >> 2;
    ((word ^ word >> 14) as usize) % BUCKETS
}

impl Translator {
    /// An empty cache for `layout`. All memory that it will ever use for records is taken here.
    #[must_use]
    pub fn new(layout: Layout, options: Options, capacity: Capacity) -> Translator {
        Translator {
            layout,
            options,
            capacity,
            blocks: Vec::with_capacity(capacity.blocks),
            exits: Vec::with_capacity(capacity.exits),
            buckets: vec![NONE; BUCKETS],
            page_starts: Vec::with_capacity(layout.pages as usize),
            hot: 0,
            cold: 0,
            by_page: BTreeMap::new(),
            mapped: BTreeSet::new(),
            jump_cache: JumpCache::new(),
            mirror: ReturnMirror::new(
                layout.mirror.filter(|_| options.indirect && options.return_mirror),
                capacity.mirror_pages,
            ),
            trapping: options.spill.traps(),
            located: Located::new(),
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

    /// Bytes of memory that the records take, by their capacity.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.blocks.capacity() * size_of::<Block>()
            + self.exits.capacity() * size_of::<Exit>()
            + self.buckets.capacity() * size_of::<u32>()
            + crate::jump_cache::ENTRIES * size_of::<Entry>()
            + self.mirror.bytes()
    }

    /// Blocks now in the cache, exits now recorded, code pages in use.
    #[must_use]
    pub fn in_use(&self) -> (usize, usize, usize) {
        (self.blocks.len(), self.exits.len(), self.page_starts.len())
    }

    /// Entries in the books of guest pages that have code in the cache: all that it takes of the heap after its beginning, at most
    /// 64 bytes each.
    #[must_use]
    pub fn books(&self) -> usize {
        self.by_page.len() + self.mapped.len()
    }

    /// Changes whenever a block was dropped or everything was flushed: code-cache addresses from before may be stale.
    #[must_use]
    pub fn version(&self) -> u32 {
        self.version
    }

    /// Changes whenever everything was flushed: what the guest has of code-cache addresses, its shadow stack, is to be cleared
    /// ([`shadow_stack::clear`]) before it runs again. What leads to blocks that are dropped or unlinked traps.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The live block at a guest address.
    #[must_use]
    pub fn lookup(&self, va: GuestVa, pa: GuestPa) -> Option<BlockId> {
        let mut at = self.buckets[bucket(va)];
        while at != NONE {
            let block = &self.blocks[at as usize];
            if block.va == va && block.pa == pa {
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
        if self.mirror.has(self.blocks[id.0 as usize].va) { landing.wrapping_add(4) } else { landing }
    }

    /// Where a branch through the return mirror enters a block: before its start, where LR is reloaded.
    fn landing(&self, id: BlockId) -> CachePc {
        let block = &self.blocks[id.0 as usize];
        self.layout.code_page(block.code_page.into()).wrapping_add(4 * u32::from(block.hot.0))
    }

    /// The return mirror.
    #[must_use]
    pub fn mirror(&self) -> &ReturnMirror {
        &self.mirror
    }

    /// Makes branches through the return mirror find a block, if its page is mapped in all address spaces.
    pub fn land(&mut self, id: BlockId, memory: &mut impl CodeMemory) {
        let block = &self.blocks[id.0 as usize];
        if block.global && block.live {
            self.mirror.set(block.va, self.landing(id), memory);
        }
    }

    fn forget_landing(&mut self, id: u32, memory: &mut impl CodeMemory) {
        let va = self.blocks[id as usize].va;
        self.mirror.remove(va, memory);
    }

    /// Guest address of a block's first instruction.
    #[must_use]
    pub fn source(&self, id: BlockId) -> (GuestVa, GuestPa) {
        let block = &self.blocks[id.0 as usize];
        (block.va, block.pa)
    }

    /// Translates the block at `va`, whose page is `words` and lies at the page of `pa`; `global` says whether the guest
    /// maps that page in all address spaces.
    pub fn translate(
        &mut self,
        va: GuestVa,
        pa: GuestPa,
        global: bool,
        words: &[u32; PAGE_WORDS],
        memory: &mut impl CodeMemory,
    ) -> BlockId {
        self.translate_with(false, va, pa, global, words, memory)
    }

    /// Translates the block at `va` for one execution: from a page that may change without notice, or in FIQ mode. It is not
    /// to be linked to.
    pub fn translate_once(
        &mut self,
        va: GuestVa,
        pa: GuestPa,
        words: &[u32; PAGE_WORDS],
        memory: &mut impl CodeMemory,
    ) -> BlockId {
        self.translate_with(true, va, pa, false, words, memory)
    }

    fn translate_with(
        &mut self,
        once: bool,
        va: GuestVa,
        pa: GuestPa,
        global: bool,
        words: &[u32; PAGE_WORDS],
        memory: &mut impl CodeMemory,
    ) -> BlockId {
        self.make_room(memory);
        let code_page = self.page_starts.len() as u32 - 1;
        let (hot, cold) = (self.hot, self.cold);
        let first_exit = self.exits.len() as u32;
        let base = self.layout.code_page(code_page);
        let options = self.options_of(once, self.options.vfp);
        let mirror = self.mirror.window();
        let source = Some(words).filter(|_| options.literals);
        let page = Some(memory.page(code_page));
        let spill = (options.spill, self.layout.shared_slot());
        let mut emitter = Emitter::new(page, base, hot, cold, first_exit, None, mirror, source, spill);
        let length = block::translate(&mut emitter, &options, va, |pc| words[pc.page_offset() as usize / 4]);
        (self.hot, self.cold) = (emitter.hot(), emitter.cold());
        let id = self.blocks.len() as u32;
        for exit in emitter.exits() {
            self.exits.push(Exit {
                site: exit.site,
                stub: exit.stub,
                target: exit.target,
                source: id,
                linked: NONE,
                next_incoming: NONE,
                guess: exit.guess.unwrap_or(CachePc(0)),
                wrong: 0,
                way_back: exit.way_back,
            });
        }
        memory.publish(code_page, hot, self.hot - hot);
        memory.publish(code_page, self.cold, cold - self.cold);
        let key = (pa.page().0, va.page().0);
        let in_page = self.by_page.insert(key, id).unwrap_or(NONE);
        self.mapped.insert((key.1, key.0));
        let bucket = bucket(va);
        self.blocks.push(Block {
            va,
            pa,
            length: length as u16,
            code_page: code_page as u16,
            hot: (hot as u16, self.hot as u16),
            cold: (self.cold as u16, cold as u16),
            first_exit,
            exit_count: (self.exits.len() as u32 - first_exit) as u8,
            global,
            once,
            vfp: self.options.vfp,
            live: true,
            next_in_bucket: if once { NONE } else { self.buckets[bucket] },
            next_in_page: in_page,
            incoming: NONE,
        });
        if !once {
            self.buckets[bucket] = id;
        }
        self.stats.translated += 1;
        self.stats.instructions += length as u64;
        BlockId(id)
    }

    /// Changes the switches. All blocks go, which were made with others.
    pub fn set_options(&mut self, options: Options, memory: &mut impl CodeMemory) {
        self.flush(memory);
        self.trapping |= options.spill.traps();
        self.options = Options { thumbee: self.options.thumbee, vfp: self.options.vfp, ..options };
        if !(options.indirect && options.return_mirror) {
            self.mirror = ReturnMirror::new(None, self.capacity.mirror_pages);
        }
    }

    /// The guest has given itself access to VFP's system registers, or taken it away. True if the latter has made all that
    /// was translated wrong: it is gone.
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
            || self.by_page.len() >= self.capacity.pages()
            || self.exits.len() + crate::emit::MAX_EXITS > self.capacity.exits;
        if full {
            self.flush(memory);
            self.stats.flushes += 1;
        }
        if self.page_starts.is_empty() || self.hot + 2 * emit::room(self.options.spill) > self.cold {
            if self.page_starts.len() == self.layout.pages as usize {
                self.flush(memory);
                self.stats.flushes += 1;
            }
            self.page_starts.push(self.blocks.len() as u32);
            self.hot = HOT_FIELDS as usize / 4;
            self.cold = PAGE_WORDS;
            if self.trapping {
                // No part of a privileged sequence stays from before.
                let page = self.page_starts.len() as u32 - 1;
                memory.page(page).fill(crate::spill::UNDEFINED);
                memory.publish(page, 0, PAGE_WORDS);
            }
            if self.options.shadow_stack {
                let page = self.page_starts.len() as u32 - 1;
                shadow_stack::begin_page(memory.page(page));
                memory.publish(page, 0, HOT_FIELDS as usize / 4);
            }
        }
    }

    /// Forgets all blocks.
    pub fn flush(&mut self, memory: &mut impl CodeMemory) {
        self.blocks.clear();
        self.exits.clear();
        self.buckets.fill(NONE);
        self.page_starts.clear();
        self.by_page.clear();
        self.mapped.clear();
        self.jump_cache.clear();
        self.mirror.clear(memory);
        self.version = self.version.wrapping_add(1);
        self.located.clear();
        self.generation += 1;
    }

    /// The block whose translation holds `pc`, and the word in its code page; live or dropped.
    #[must_use]
    pub fn block_at(&self, pc: CachePc) -> Option<BlockId> {
        let (page, word) = self.layout.find(pc)?;
        let first = *self.page_starts.get(page as usize)? as usize;
        let end = self.page_starts.get(page as usize + 1).map_or(self.blocks.len(), |&next| next as usize);
        let blocks = self.blocks.get(first..end)?;
        let word = word as u16;
        let in_hot = blocks.partition_point(|b| b.hot.0 <= word).checked_sub(1);
        let in_cold = blocks.partition_point(|b| b.cold.0 > word);
        let found = match in_hot {
            Some(at) if word < blocks[at].hot.1 => at,
            _ => Some(in_cold).filter(|&at| at < blocks.len() && word < blocks[at].cold.1)?,
        };
        Some(BlockId((first + found) as u32))
    }

    /// Whether a block can still be found; a dropped one may be executing, but what it was made from is gone.
    #[must_use]
    pub fn is_live(&self, id: BlockId) -> bool {
        self.blocks[id.0 as usize].live
    }

    /// The guest instruction that `pc`, in block `id`, belongs to, by translating the block again without writing
    /// (STAR §3.7.1). `words` is the guest's page as it was when the block was made.
    #[must_use]
    pub fn locate(&self, id: BlockId, pc: CachePc, words: &[u32; PAGE_WORDS]) -> Option<Location> {
        self.located.get(id, pc, || self.find_location(id, pc, words))
    }

    fn find_location(&self, id: BlockId, pc: CachePc, words: &[u32; PAGE_WORDS]) -> Option<Location> {
        let block = &self.blocks[id.0 as usize];
        let (_, word) = self.layout.find(pc)?;
        let base = self.layout.code_page(block.code_page.into());
        let (hot, cold) = (usize::from(block.hot.0), usize::from(block.cold.1));
        let options = self.options_of(block.once, block.vfp);
        let source = Some(words).filter(|_| options.literals);
        let mirror = self.mirror.window();
        let spill = (options.spill, self.layout.shared_slot());
        let mut emitter = Emitter::new(None, base, hot, cold, block.first_exit, Some(word), mirror, source, spill);
        block::translate(&mut emitter, &options, block.va, |pc| words[pc.page_offset() as usize / 4]);
        emitter.found()
    }

    /// Checks that exit `number` has its `SVC` at `svc`: the guest can execute any word of a code page, so the number
    /// alone is hearsay.
    #[must_use]
    pub fn exit(&self, number: u32, svc: CachePc) -> Option<(ExitId, GuestVa)> {
        let exit = self.exits.get(number as usize)?;
        (exit.stub == svc).then_some((ExitId(number), exit.target))
    }

    /// Makes `exit` branch straight to block `to`, if that holds for as long as the block does: the target is in the
    /// same guest page, or its page is mapped in all address spaces.
    pub fn link(&mut self, exit: ExitId, to: BlockId, memory: &mut impl CodeMemory) -> bool {
        self.options.link && self.connect(exit, to, memory)
    }

    /// Makes the inline cache that `exit` belongs to guess `target`, whose block is `to`, where [`Self::link`] would link. A site
    /// that was wrong too often keeps what it guesses, and its misses are looked up in the trap handler from then on.
    pub fn guess(&mut self, exit: ExitId, target: GuestVa, to: BlockId, memory: &mut impl CodeMemory) -> bool {
        let Exit { guess, stub, linked, wrong, .. } = self.exits[exit.0 as usize];
        let Some((page, at)) = self.layout.find(guess) else { return false };
        if memory.page(page)[at] != target.0 {
            self.exits[exit.0 as usize].wrong = wrong.saturating_add(1);
            if wrong >= GUESSES {
                self.patch(stub, asm::svc(Cond::Al, crate::trap::INDIRECT), memory);
                return false;
            }
        }
        if linked != NONE {
            self.remove_incoming(linked, exit.0);
            self.unpatch(exit.0, memory);
        }
        self.patch(guess, target.0, memory);
        self.connect(exit, to, memory)
    }

    fn connect(&mut self, exit: ExitId, to: BlockId, memory: &mut impl CodeMemory) -> bool {
        let from = self.exits[exit.0 as usize];
        let (source, target) = (&self.blocks[from.source as usize], &self.blocks[to.0 as usize]);
        let same_page = source.va.page() == target.va.page() && source.pa.page() == target.pa.page();
        let holds = same_page && !from.way_back || target.global;
        if !source.live || !target.live || from.linked != NONE || !holds {
            return false;
        }
        let entry = self.entry(to);
        let offset = entry.0.wrapping_sub(from.site.0).wrapping_sub(8) as i32;
        let cond = if from.site == from.stub { Cond::Al } else { self.site_cond(from.site, memory) };
        let Some(word) = asm::b(cond, offset) else { return false };
        self.patch(from.site, word, memory);
        let target = &mut self.blocks[to.0 as usize];
        let next_incoming = core::mem::replace(&mut target.incoming, exit.0);
        let from = &mut self.exits[exit.0 as usize];
        from.linked = to.0;
        from.next_incoming = next_incoming;
        self.stats.links += 1;
        true
    }

    /// The condition of the side exit at `site`.
    fn site_cond(&self, site: CachePc, memory: &mut impl CodeMemory) -> Cond {
        let word = self.layout.find(site).map_or(0, |(page, word)| memory.page(page)[word]);
        Cond::ALL[(word >> 28) as usize % 15]
    }

    fn patch(&self, site: CachePc, word: u32, memory: &mut impl CodeMemory) {
        if let Some((page, at)) = self.layout.find(site) {
            memory.page(page)[at] = word;
            memory.publish(page, at, 1);
        }
    }

    /// Makes an exit trap again; the target's list is the caller's business.
    fn unpatch(&mut self, exit: u32, memory: &mut impl CodeMemory) {
        let from = self.exits[exit as usize];
        let word = if from.site == from.stub {
            asm::svc(Cond::Al, crate::trap::LINK)
        } else {
            let offset = from.stub.0.wrapping_sub(from.site.0).wrapping_sub(8) as i32;
            asm::b(self.site_cond(from.site, memory), offset).unwrap_or(asm::NOP)
        };
        self.patch(from.site, word, memory);
        let from = &mut self.exits[exit as usize];
        from.linked = NONE;
        from.next_incoming = NONE;
        self.stats.unlinks += 1;
    }

    /// Makes the next way out of a block trap, whichever it is: an interrupt waits for the end of the block.
    pub fn close(&mut self, id: BlockId, memory: &mut impl CodeMemory) {
        self.unlink_exits(id, memory);
        let (window, shadow_stack) = (self.mirror.window(), self.options.shadow_stack);
        if window.is_none() && !shadow_stack {
            return;
        }
        let block = &self.blocks[id.0 as usize];
        let (page, first, end) = (u32::from(block.code_page), usize::from(block.hot.0), usize::from(block.hot.1));
        let mut at = first;
        while at < end {
            let word = memory.page(page)[at];
            let reflects = window.and_then(|window| return_mirror::closed(word, window));
            if let Some(closed) = reflects.or_else(|| shadow_stack::closed(word).filter(|_| shadow_stack)) {
                memory.page(page)[at] = closed;
                memory.publish(page, at, 1);
            }
            at += 1 + crate::trap::literals(word);
        }
    }

    /// Makes the write to DACR that the guest was 8 bytes behind trap from now on, because what it opened is used at once.
    /// `site` is hearsay: what is there is looked at.
    pub fn make_dacr_eager(&self, site: CachePc, memory: &mut impl CodeMemory) {
        let load = CachePc(site.0.wrapping_sub(4));
        if let Some((page, at)) = self.layout.find(load)
            && let Some(word) = rules::make_eager(memory.page(page)[at])
            && memory.page(page).get(at + 2).is_some_and(|&next| next & 0x0fff_0ff0 == 0x016f_0f10)
        {
            self.patch(load, word, memory);
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

    /// The same for a return by the shadow stack. False if there is none.
    pub fn reopen_return(&mut self, site: CachePc, memory: &mut impl CodeMemory) -> bool {
        let closed =
            |(page, at): &(u32, usize)| shadow_stack::closed(shadow_stack::POP) == Some(memory.page(*page)[*at]);
        let found = self.layout.find(site).filter(closed).is_some();
        if found {
            self.patch(site, shadow_stack::POP, memory);
        }
        found
    }

    /// Unlinks the exits of a block.
    fn unlink_exits(&mut self, id: BlockId, memory: &mut impl CodeMemory) {
        let block = self.blocks[id.0 as usize];
        for exit in block.first_exit..block.first_exit + u32::from(block.exit_count) {
            let target = self.exits[exit as usize].linked;
            if target != NONE {
                self.remove_incoming(target, exit);
                self.unpatch(exit, memory);
            }
        }
    }

    fn remove_incoming(&mut self, target: u32, exit: u32) {
        let next = self.exits[exit as usize].next_incoming;
        let mut at = self.blocks[target as usize].incoming;
        if at == exit {
            self.blocks[target as usize].incoming = next;
            return;
        }
        while at != NONE {
            let following = self.exits[at as usize].next_incoming;
            if following == exit {
                self.exits[at as usize].next_incoming = next;
                return;
            }
            at = following;
        }
    }

    /// Unlinks every exit that leads to a block.
    fn unlink_incoming(&mut self, id: u32, memory: &mut impl CodeMemory) {
        let mut at = core::mem::replace(&mut self.blocks[id as usize].incoming, NONE);
        while at != NONE {
            let next = self.exits[at as usize].next_incoming;
            self.unpatch(at, memory);
            at = next;
        }
    }

    /// Drops every block made from the page at `pa`: its code changes.
    pub fn drop_page(&mut self, pa: GuestPa, memory: &mut impl CodeMemory) {
        let page = pa.page().0;
        while let Some((&key, &first)) = self.by_page.range((page, 0)..=(page, u32::MAX)).next() {
            self.by_page.remove(&key);
            self.mapped.remove(&(key.1, key.0));
            let mut at = first;
            while at != NONE {
                let next = self.blocks[at as usize].next_in_page;
                self.drop_block(at, memory);
                at = next;
            }
            self.version = self.version.wrapping_add(1);
        }
    }

    fn drop_block(&mut self, id: u32, memory: &mut impl CodeMemory) {
        self.unlink_incoming(id, memory);
        self.unlink_exits(BlockId(id), memory);
        let block = &mut self.blocks[id as usize];
        block.live = false;
        let (va, next) = (block.va, block.next_in_bucket);
        self.jump_cache.remove(va.0);
        self.forget_landing(id, memory);
        let head = bucket(va);
        if self.buckets[head] == id {
            self.buckets[head] = next;
        } else {
            let mut at = self.buckets[head];
            while at != NONE {
                let following = self.blocks[at as usize].next_in_bucket;
                if following == id {
                    self.blocks[at as usize].next_in_bucket = next;
                    break;
                }
                at = following;
            }
        }
        self.stats.dropped += 1;
    }

    /// The guest's mapping of the page at `va` changed: nothing may branch there without looking again. Blocks stay, in
    /// case the mapping comes back.
    pub fn unmap_page(&mut self, va: GuestVa, memory: &mut impl CodeMemory) {
        let page = va.page().0;
        let keys: Vec<u32> = self.mapped.range((page, 0)..=(page, u32::MAX)).map(|key| key.1).collect();
        for pa in keys {
            let mut at = self.by_page.get(&(pa, page)).copied().unwrap_or(NONE);
            while at != NONE {
                self.unlink_incoming(at, memory);
                self.forget_landing(at, memory);
                let block = &self.blocks[at as usize];
                at = block.next_in_page;
                let va = block.va;
                self.jump_cache.remove(va.0);
            }
        }
    }

    /// The pages in `range` of which code is in the cache: VA and the PA that it was mapped to.
    pub fn mapped_pages(&self, range: RangeInclusive<GuestVa>) -> impl Iterator<Item = (GuestVa, GuestPa)> + '_ {
        let (first, last) = (range.start().page().0, range.end().page().0);
        self.mapped.range((first, 0)..=(last, u32::MAX)).map(|&(va, pa)| (GuestVa(va), GuestPa(pa)))
    }

    /// Unlinks everything: the whole translation regime changed.
    pub fn unlink_all(&mut self, memory: &mut impl CodeMemory) {
        for id in 0..self.blocks.len() as u32 {
            self.unlink_incoming(id, memory);
        }
        self.jump_cache.clear();
        self.mirror.clear(memory);
    }

    /// Says whether the page of a block is mapped in all address spaces under the present regime, which may not be the one
    /// that the block was made under.
    pub fn set_global(&mut self, id: BlockId, global: bool) {
        self.blocks[id.0 as usize].global = global;
    }

    /// Enters a block into the jump cache, if its page is mapped in all address spaces.
    pub fn remember(&mut self, id: BlockId) {
        let block = &self.blocks[id.0 as usize];
        if block.global && block.live {
            let entry = self.entry(id);
            self.jump_cache.insert(self.blocks[id.0 as usize].va.0, entry.0);
        }
    }

    /// Guest instructions in a block.
    #[must_use]
    pub fn length(&self, id: BlockId) -> usize {
        self.blocks[id.0 as usize].length.into()
    }
}
