//! The engine of translated blocks: [`spica_dbt`]'s translator and the memory of its code cache; and pages that run in
//! place beside them, where a guest's kernel does ([`spica_dbt::in_place`]).

use core::ops::RangeInclusive;

use alloc::boxed::Box;

use spica_addr::{CachePc, GuestPa, GuestVa, HostPa};
use spica_dbt::at::is_thumb;
use spica_dbt::in_place::{self, Text};
use spica_dbt::jump_cache::JumpCache;
use spica_dbt::twins::{Made, TwinMemory, Twins};
use spica_dbt::{BlockId, Capacity, ExitId, Location, Options, Translator, Undo};
use spica_isa::Reg;
use spica_isa::t32::ItState;
use spica_vcpu::VcpuPage;

use super::code::{CodePages, InPlace};
use super::{Engine, Source, Words};
use crate::layout::{CODE_CACHE_START, MEGABYTE, MIRROR, NEAR_CODE_SIZE, in_place as window_in_place};
use crate::papers::Returns;

/// A piece of code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Piece {
    /// A block.
    Block(BlockId),
    /// The guest's own address, in a page that runs in place, and where that lies.
    InPlace(GuestVa, GuestPa),
}

/// What leads to a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum From {
    /// An exit, which is linked to the block.
    Exit(ExitId),
    /// The return mirror.
    Mirror,
}

/// See the module's text.
pub struct Blocks {
    pub(crate) translator: Translator,
    pub(crate) code: CodePages,
    /// The pages that run in place, if any may.
    twins: Option<Box<Twins>>,
    /// The translator's, when the twins were made: they lead to its blocks.
    twins_generation: u64,
    returns: Returns,
}

impl Blocks {
    /// An engine without blocks, in the memory of `code`.
    /// `in_place` is for pages that run in place.
    pub fn new(code: CodePages, options: Options, capacity: Capacity, in_place: Option<InPlace>) -> Blocks {
        let layout = code.layout();
        let cache = (layout.base, NEAR_CODE_SIZE);
        Blocks {
            translator: Translator::new(layout, options, capacity),
            code,
            twins: in_place
                .map(|InPlace { base, twins, .. }| Box::new(Twins::new(window_in_place(base), cache, twins))),
            twins_generation: 0,
            returns: Returns::default(),
        }
    }

    /// Whether code at `pc` of the kernel view is the guest's own address.
    #[inline]
    pub fn is_in_place(&self, pc: CachePc) -> bool {
        self.twins.as_ref().is_some_and(|twins| twins.covers(GuestVa(pc.0)))
    }

    /// Where translated code reaches what is not the guest's: an address, and how many megabytes. Nothing of the
    /// guest's may be mapped there.
    pub fn place(&self) -> (u32, u32) {
        match self.runs_in_place() {
            true => (self.code.layout().base, NEAR_CODE_SIZE / MEGABYTE),
            false => (CODE_CACHE_START, (MIRROR.base() + MIRROR.size - CODE_CACHE_START) / MEGABYTE),
        }
    }

    /// Whether any code may run in place.
    #[inline]
    pub fn runs_in_place(&self) -> bool {
        self.twins.is_some()
    }

    /// Whether the page of `source` may run in place.
    pub fn is_fit(&self, source: Source) -> bool {
        let fit = self.twins.as_ref().is_some_and(|twins| twins.is_fit(source.va));
        fit && !is_thumb(source.va) && source.global && !self.translator.has_breakpoint_near(source.va)
    }

    /// What is to be mapped at the page of `va`, which is mapped to `pa`, if it runs in place.
    pub fn twin(&self, va: GuestVa, pa: GuestPa) -> Option<HostPa> {
        self.code.twin_pa(self.twins.as_ref()?.of(va, pa)?)
    }

    /// Makes the page of `source` run in place; where nobody can tell what in it is code, or where there is no room,
    /// that is said.
    pub fn make_twin(&mut self, source: Source, text: Text<'_>) -> Made {
        match &mut self.twins {
            Some(twins) => twins.make(source.va, source.pa, text, &mut self.code),
            None => Made::Unfit,
        }
    }

    /// The stub of the instruction at `source`, which is replaced in the page's twin; made if need be, and led to from
    /// now on. `None` if the instruction is not replaced any more: it can be executed where it is.
    pub fn stub(&mut self, source: Source, words: &Words) -> Option<CachePc> {
        let at = source.va.page_offset() as usize / 4;
        let twins = self.twins.as_mut()?;
        let number = twins.of(source.va, source.pa)?;
        if !twins.replaced(number).contains(at) {
            return None;
        }
        let replaced = twins.replaced(number);
        let limit = in_place::stub_length(at, |at| replaced.contains(at));
        let block = match self.translator.lookup(source.va, source.pa) {
            Some(block) => block,
            None => self.translator.translate_some(limit, source.va, source.pa, source.global, words, &mut self.code),
        };
        let entry = self.translator.entry(block);
        let page = source.va.page();
        let same_page = |target: GuestVa| target.page() == page;
        self.translator.link_all_in_place(block, same_page, &mut self.code);
        self.follow_flush();
        if let Some(twins) = &mut self.twins
            && let Some(number) = twins.of(source.va, source.pa)
        {
            twins.lead_to(number, at, entry, &mut self.code);
        }
        Some(entry)
    }

    /// The guest has written word `at` of the page at `pa`, which has code and reads `page` now: so what runs in place
    /// there does.
    /// False if the page is to be dropped as a whole.
    pub fn word_changed(&mut self, pa: GuestPa, at: usize, page: &Words) -> bool {
        let Some(twins) = &mut self.twins else { return true };
        twins.change_word(pa, at, page, &mut self.code)
    }

    /// Nothing leads to `pc` without [`Engine::find`].
    pub fn forget_known(&mut self, pc: GuestVa) {
        self.translator.jump_cache.remove(pc.0);
    }

    /// Whether something that ran in place is to be unmapped before the guest runs.
    #[inline]
    pub fn is_anything_gone(&self) -> bool {
        self.twins.as_ref().is_some_and(|twins| twins.is_anything_gone())
    }

    /// What it is: see [`Twins::take_gone`].
    pub fn take_gone(&mut self) -> Option<GuestVa> {
        self.twins.as_mut()?.take_gone()
    }

    /// The translator may have flushed: twins lead to blocks that are no more then.
    fn follow_flush(&mut self) {
        let generation = self.translator.generation();
        if generation != self.twins_generation {
            self.twins_generation = generation;
            if let Some(twins) = &mut self.twins {
                twins.clear();
            }
        }
    }

    /// The translator, for its figures.
    pub fn translator(&self) -> &Translator {
        &self.translator
    }

    /// First-level entries for what translated code needs mapped: VA and entry.
    pub fn first_level(&self) -> impl Iterator<Item = (u32, u32)> {
        self.code.first_level()
    }

    /// Where [`Engine::known`] looks, for assembly.
    pub fn jump_cache(&self) -> &JumpCache {
        &self.translator.jump_cache
    }

    /// Other options from now on. All blocks go.
    pub fn set_options(&mut self, options: Options) {
        self.translator.set_options(options, &mut self.code);
        self.follow_flush();
    }

    /// The exit whose trap is at `svc`, if there is one.
    pub fn exit(&self, svc: CachePc) -> Option<ExitId> {
        self.translator.exit(svc)
    }

    /// Whether exits are linked.
    pub fn links(&self) -> bool {
        self.translator.options().link
    }

    /// Whether `pc` lies in the return mirror.
    pub fn is_in_mirror(&self, pc: u32) -> bool {
        self.translator.mirror().holds(pc)
    }

    /// The guest address that `pc` in the return mirror stands for.
    pub fn mirrored(&self, pc: u32) -> Option<GuestVa> {
        self.translator.mirror().target(pc)
    }

    /// Opens a branch through the mirror again that [`Engine::leave_soon`] has closed; the register that has its
    /// target.
    pub fn reopen(&mut self, svc: CachePc) -> Option<Reg> {
        self.translator.reopen(svc, &mut self.code)
    }

    /// The write of DACR at `site` is done at once from now on.
    pub fn make_dacr_eager(&mut self, site: CachePc) {
        self.translator.make_dacr_eager(site, &mut self.code);
    }
}

impl Blocks {
    /// Makes a block for one execution, of at most `limit` instructions.
    fn make_at_most(&mut self, source: Source, words: &Words, limit: usize) -> CachePc {
        let Source { va, pa, start, .. } = source;
        let block = self.translator.translate_once_from(va, pa, words, (start, limit), &mut self.code);
        self.follow_flush();
        self.translator.entry(block)
    }
}

impl Engine for Blocks {
    type Code = Piece;
    type From = From;

    #[inline]
    fn known(&self, pc: GuestVa) -> Option<CachePc> {
        self.translator.jump_cache.get(pc.0).map(CachePc)
    }

    fn find(&mut self, source: Source) -> Option<Piece> {
        // Whether the page runs in place is not for here: it may have a twin, and the MMU be off.
        let Source { va, pa, start, .. } = source;
        let block = match start.next_page {
            None => self.translator.lookup(va, pa),
            Some(second) => self.translator.lookup_across(va, pa, second),
        }
        .filter(|_| !start.it.in_block())?;
        self.translator.set_global(block, source.global);
        Some(Piece::Block(block))
    }

    fn make(&mut self, source: Source, words: &Words) -> (Piece, bool) {
        let generation = self.translator.generation();
        let Source { va, pa, global, start } = source;
        let block = self.translator.translate_from(va, pa, global, words, start, &mut self.code);
        self.follow_flush();
        (Piece::Block(block), self.translator.generation() != generation)
    }

    fn make_once(&mut self, source: Source, words: &Words) -> CachePc {
        self.make_at_most(source, words, usize::MAX)
    }

    fn make_one(&mut self, source: Source, words: &Words) -> CachePc {
        self.make_at_most(source, words, 1)
    }

    fn enter(&mut self, code: Piece, from: Option<From>) -> CachePc {
        let block = match code {
            Piece::Block(block) => block,
            Piece::InPlace(va, _) => {
                if let Some(From::Exit(exit)) = from {
                    self.translator.link_in_place(exit, va, &mut self.code);
                }
                self.translator.jump_cache.insert(va.0, va.0);
                return CachePc(va.0);
            }
        };
        match from {
            Some(From::Exit(exit)) => {
                self.translator.link(exit, block, &mut self.code);
            }
            Some(From::Mirror) => self.translator.land(block, &mut self.code),
            None => {}
        }
        self.translator.remember(block);
        self.translator.entry(block)
    }

    fn code_at(&self, pc: CachePc) -> Option<Piece> {
        if self.is_in_place(pc) {
            let twins = self.twins.as_ref()?;
            let pa = twins.source(twins.at(GuestVa(pc.0))?);
            return Some(Piece::InPlace(GuestVa(pc.0), pa.wrapping_add(pc.0 & 0xfff)));
        }
        self.translator.block_at(pc).map(Piece::Block)
    }

    fn is_live(&self, code: Piece) -> bool {
        match code {
            Piece::Block(block) => self.translator.is_live(block),
            Piece::InPlace(va, pa) => self.twins.as_ref().is_some_and(|twins| twins.of(va, pa).is_some()),
        }
    }

    fn source(&self, code: Piece) -> (GuestVa, GuestPa) {
        match code {
            Piece::Block(block) => self.translator.source(block),
            Piece::InPlace(va, pa) => (va, pa),
        }
    }

    fn locate(&self, code: Piece, pc: CachePc, words: &Words) -> Option<Location> {
        match code {
            Piece::Block(block) => self.translator.locate(block, pc, words),
            Piece::InPlace(..) => Some(Location { guest: GuestVa(pc.0 & !3), it: ItState::OUTSIDE, undo: Undo::NONE }),
        }
    }

    fn next_page_of(&self, code: Piece) -> Option<u16> {
        match code {
            Piece::Block(block) => self.translator.across(block),
            Piece::InPlace(..) => None,
        }
    }

    #[inline]
    fn word(&mut self, pc: CachePc) -> Option<u32> {
        if self.is_in_place(pc) {
            let number = self.twins.as_ref()?.at(GuestVa(pc.0))?;
            return Some(self.code.twin(number)[(pc.0 & 0xfff) as usize / 4]);
        }
        self.code.word(pc)
    }

    fn page_changed(&mut self, pa: GuestPa) {
        if let Some(twins) = &mut self.twins {
            twins.remove(pa);
        }
        self.translator.drop_page(pa, &mut self.code);
    }

    fn words_change(&mut self, pa: GuestPa, words: Option<RangeInclusive<u16>>) -> bool {
        if self.twins.as_ref().is_some_and(|twins| twins.has(pa)) {
            return words.is_none_or(|words| self.translator.change_stubs(pa, words, &mut self.code));
        }
        self.translator.change_words(pa, words, &mut self.code)
    }

    fn page_moved(&mut self, va: GuestVa) -> u32 {
        self.translator.unmap_page(va, &mut self.code)
    }

    fn next_page(&self, from: usize) -> Option<(usize, GuestVa, GuestPa)> {
        self.translator.next_page(from)
    }

    fn next_page_at(&self, va: GuestVa, after: Option<usize>) -> Option<(usize, GuestPa)> {
        self.translator.next_page_at(va, after)
    }

    fn all_moved(&mut self) {
        self.translator.unlink_all(&mut self.code);
    }

    fn forget_all(&mut self) {
        self.translator.flush(&mut self.code);
        self.follow_flush();
    }

    // See `Vm::prepare`.
    #[inline(always)]
    fn leave_soon(&mut self, pc: CachePc) {
        if !self.is_in_place(pc)
            && let Some(block) = self.translator.block_at(pc)
        {
            self.translator.close(block, &mut self.code);
        }
    }

    #[inline]
    fn is_breakpoint(&self, pc: GuestVa) -> bool {
        self.translator.is_breakpoint(pc)
    }

    fn set_breakpoint(&mut self, pc: GuestVa) -> bool {
        let set = self.translator.set_breakpoint(pc, &mut self.code);
        self.follow_flush();
        if let Some(twins) = &mut self.twins {
            twins.leave(pc);
        }
        set
    }

    fn clear_breakpoint(&mut self, pc: GuestVa) -> bool {
        self.translator.clear_breakpoint(pc)
    }

    fn clear_breakpoints(&mut self) {
        self.translator.clear_breakpoints();
    }

    fn set_vfp(&mut self, vfp: bool) -> bool {
        let gone = self.translator.set_vfp(vfp, &mut self.code);
        self.follow_flush();
        gone
    }

    #[inline]
    fn is_settled(&self) -> bool {
        self.translator.is_settled()
    }

    fn settle(&mut self) -> bool {
        self.translator.settle(&mut self.code)
    }

    #[inline]
    fn publish(&mut self) {
        self.code.publish_all();
    }

    #[inline]
    fn mend(&mut self, page: &mut VcpuPage) {
        self.returns.mend(page, &self.translator);
    }

    fn vcpu_reset(&mut self) {
        self.returns.reset();
    }

    fn version(&self) -> u32 {
        self.translator.version()
    }

    #[inline]
    fn generation(&self) -> u64 {
        self.translator.generation()
    }

    #[inline]
    fn known_version(&self) -> u32 {
        self.translator.jump_cache.version()
    }

    #[inline]
    fn made(&self) -> u64 {
        self.translator.stats().translated
    }

    fn pieces(&self) -> usize {
        self.translator.in_use().0
    }
}
