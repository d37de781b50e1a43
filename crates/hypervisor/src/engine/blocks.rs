//! The engine of translated blocks: [`spica_dbt`]'s translator and the memory of its code cache.

use alloc::boxed::Box;
use core::ops::RangeInclusive;

use spica_addr::{CachePc, GuestPa, GuestVa};
use spica_dbt::checks::Checks;
use spica_dbt::jump_cache::JumpCache;
use spica_dbt::layout::Window;
use spica_dbt::{BlockId, Capacity, Counters, ExitId, Location, Options, Run, Translator};
use spica_vcpu::VcpuPage;

use super::code::{CodePages, Marks, Place};
use super::{Engine, Gone, Source, Words};
use crate::layout::{self, CODE_CACHE_START, MEGABYTE, MIRROR_SIZE, MIRROR_START, NEAR_CODE_SIZE};
use crate::papers::Returns;

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
    returns: Returns,
    elsewhere: Elsewhere,
}

/// Where the guest's kernel was found, if the return mirror does not stand for that.
#[derive(Default)]
struct Elsewhere {
    /// The window that would have it.
    window: Option<Window>,
    /// How often in a row it was there.
    times: u16,
    /// How often the mirror has moved.
    moves: u8,
}

impl Elsewhere {
    /// After how many times the mirror moves: what runs before a kernel does is soon over. A move costs all blocks, and
    /// code may be here and there, so that it takes twice as many after each move from the fourth on, up to 256.
    fn enough(&self) -> u16 {
        16 << self.moves.saturating_sub(3).min(4)
    }
}

impl Blocks {
    /// An engine without blocks, in the memory of `code`.
    pub fn new(code: CodePages, options: Options, capacity: Capacity) -> Blocks {
        let translator = Translator::new(code.layout(), options, capacity);
        Blocks { translator, code, returns: Returns::default(), elsewhere: Elsewhere::default() }
    }

    /// The translator, for its figures.
    pub fn translator(&self) -> &Translator {
        &self.translator
    }

    /// The code at `va` is about to be entered in place: as [`Engine::enter`].
    pub(super) fn enter_in_place(&mut self, va: GuestVa, from: Option<From>) -> CachePc {
        let exit = match from {
            Some(From::Exit(exit)) => Some(exit),
            Some(From::Mirror) | None => None,
        };
        self.translator.enter_in_place(va, exit, &mut self.code);
        CachePc(va.0)
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
    }

    /// The `N` words from `pc` on, 0 for those that are in no code page.
    #[inline]
    pub fn words<const N: usize>(&mut self, pc: CachePc) -> [u32; N] {
        let words = self.code.words(pc);
        core::array::from_fn(|at| words.get(at).copied().unwrap_or(0))
    }

    /// The exit whose trap is at `svc`, if there is one.
    pub fn exit(&self, svc: CachePc) -> Option<ExitId> {
        self.translator.exit(svc)
    }

    /// The block at `target`, with its state in bit 0, if the jump cache knows it: `exit` is linked to it, if that may
    /// be. Not of code in place.
    pub fn link_known(&mut self, exit: ExitId, target: GuestVa) -> Option<CachePc> {
        let entry = self.known(target)?;
        let block = self.translator.block_at(entry)?;
        self.translator.link(exit, block, &mut self.code);
        Some(entry)
    }

    /// Whether exits are linked.
    pub fn links(&self) -> bool {
        self.translator.options().link
    }

    /// Whether `pc` lies in the return mirror.
    pub fn is_in_mirror(&self, pc: u32) -> bool {
        self.translator.mirror().holds(pc)
    }

    /// Where a block goes on in A32 state that was left in Thumb state at `pc`, if it is one.
    pub fn in_a32(&self, pc: CachePc) -> Option<CachePc> {
        self.translator.in_a32(pc)
    }

    /// The target, with its state in bit 0, of a branch through the return mirror whose last word reads `value` in LR.
    pub fn mirrored(&self, value: u32) -> Option<GuestVa> {
        self.translator.mirror().target(value)
    }

    /// Code of the guest's kernel at `pc`, with its state in bit 0, takes an interrupt, or is where a branch went that
    /// the jump cache did not know. The window that the return mirror should have, of those that are `fit` for this
    /// guest, if the kernel is elsewhere and stays there.
    #[inline]
    pub fn kernel_is_at(&mut self, pc: GuestVa, fit: impl Fn(Window) -> bool) -> Option<Window> {
        match self.translator.mirror().window() {
            Some(window) if !window.has(pc) => self.is_elsewhere(pc, fit),
            _ => {
                self.elsewhere.times = 0;
                None
            }
        }
    }

    #[cold]
    fn is_elsewhere(&mut self, pc: GuestVa, fit: impl Fn(Window) -> bool) -> Option<Window> {
        let elsewhere = &mut self.elsewhere;
        if !elsewhere.window.is_some_and(|window| window.has(pc)) {
            elsewhere.window = layout::mirrors(pc).find(|&window| fit(window));
            elsewhere.times = 0;
        }
        let window = elsewhere.window?;
        elsewhere.times += 1;
        if elsewhere.times < elsewhere.enough() {
            return None;
        }
        elsewhere.times = 0;
        elsewhere.moves = elsewhere.moves.saturating_add(1);
        Some(window)
    }

    /// The guest begins anew: nothing is known of where its kernel is. There are no blocks.
    pub fn forget_kernel(&mut self) {
        self.elsewhere = Elsewhere::default();
        let first = layout::mirror(layout::LINEAR_MAP);
        if self.translator.mirror().window().is_some_and(|window| window != first) {
            self.move_mirror(first);
        }
    }

    /// The return mirror stands for `window` from now on. All blocks go.
    pub fn move_mirror(&mut self, window: Window) {
        self.translator.move_mirror(window, &mut self.code);
    }

    /// The code cache is there from now on. TPIDRURW is lent to a kernel that it is near
    /// ([`Options::lent_thread_id`]). All blocks go.
    pub(super) fn move_to(&mut self, place: Place) {
        let lent = matches!(place, Place::Near(_));
        self.translator.move_to(self.code.layout_at(place), lent, &mut self.code);
        self.code.move_to(place);
    }

    /// Somebody counts what is executed, or has counted it and still reads that, or looks at accesses: the code cache
    /// must be in the hypervisor region.
    pub fn is_watched(&self) -> bool {
        self.translator.counters().is_some() || self.checks()
    }

    /// Opens a branch through the mirror again that [`Engine::leave_soon`] has closed, if there is one at `svc`; its
    /// target, as [`Self::mirrored`].
    pub fn reopen(&mut self, svc: CachePc, value: u32) -> Option<GuestVa> {
        if self.translator.reopen(svc, &mut self.code) { self.mirrored(value) } else { None }
    }

    /// See [`Translator::start_counting`].
    pub fn start_counting(&mut self, samples: bool) {
        self.translator.start_counting(samples, &mut self.code);
    }

    /// See [`Translator::stop_counting`].
    pub fn stop_counting(&mut self) {
        self.translator.stop_counting(&mut self.code);
    }

    /// See [`Translator::forget_counters`].
    pub fn forget_counters(&mut self) {
        self.translator.forget_counters(&mut self.code);
    }

    /// See [`Translator::start_checking`]. The marks are mapped as [`CodePages::map_marks`] does it.
    pub fn start_checking(&mut self, checks: Box<Checks>, marks: Marks) {
        self.code.map_marks(Some(marks));
        self.translator.start_checking(checks, &mut self.code);
    }

    /// See [`Translator::stop_checking`].
    pub fn stop_checking(&mut self) {
        self.translator.stop_checking(&mut self.code);
        self.code.map_marks(None);
    }

    /// Whether accesses of the kernel are looked at.
    #[inline]
    pub fn checks(&self) -> bool {
        self.translator.checks()
    }

    /// Whether what the kernel executes is counted.
    #[inline]
    pub fn counts(&self) -> bool {
        self.translator.counts()
    }

    /// The counters, and the memory that they are in.
    pub fn counters(&mut self) -> Option<(Counters, &mut CodePages)> {
        Some((*self.translator.counters()?, &mut self.code))
    }

    /// The counted run of `block` that the instruction at `guest` is in; `words` is what its page read when the code
    /// was made.
    pub fn run_of(&self, block: BlockId, guest: GuestVa, words: &Words) -> Option<Run> {
        self.translator.run_of(block, guest, words)
    }

    /// Whether `pc` is in `block`, and not where that is entered.
    pub fn goes_on_in(&self, block: BlockId, pc: CachePc) -> bool {
        self.translator.block_at(pc) == Some(block) && self.translator.entry(block) != pc
    }

    /// A run has been left behind the first `executed` of its instructions.
    pub fn leave_run(&mut self, run: Run, executed: u32) {
        self.translator.leave_run(run, executed, &mut self.code);
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
        self.translator.entry(block)
    }
}

impl Engine for Blocks {
    type Code = BlockId;
    type From = From;

    fn region(&self) -> (u32, u32) {
        match self.code.layout().base {
            CODE_CACHE_START => (CODE_CACHE_START, (MIRROR_START + MIRROR_SIZE - CODE_CACHE_START) / MEGABYTE),
            near => (near, NEAR_CODE_SIZE / MEGABYTE),
        }
    }

    #[inline]
    fn known(&self, pc: GuestVa) -> Option<CachePc> {
        self.translator.jump_cache.get(pc.0).map(CachePc)
    }

    fn forget_known(&mut self, pc: GuestVa) {
        self.translator.jump_cache.remove(pc.0);
    }

    fn find(&mut self, source: Source) -> Option<BlockId> {
        let Source { va, pa, start, .. } = source;
        let block = self.translator.lookup_from(va, pa, start)?;
        self.translator.set_global(block, source.global && !start.it.in_block());
        Some(block)
    }

    fn make(&mut self, source: Source, words: &Words) -> (BlockId, bool) {
        let generation = self.translator.generation();
        let Source { va, pa, global, start } = source;
        let block = self.translator.translate_from(va, pa, global, words, start, &mut self.code);
        (block, self.translator.generation() != generation)
    }

    fn make_once(&mut self, source: Source, words: &Words) -> CachePc {
        self.make_at_most(source, words, usize::MAX)
    }

    fn make_one(&mut self, source: Source, words: &Words) -> CachePc {
        self.make_at_most(source, words, 1)
    }

    fn enter(&mut self, block: BlockId, from: Option<From>) -> CachePc {
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

    fn is_guest_address(&self, _pc: CachePc) -> bool {
        false
    }

    fn code_at(&self, pc: CachePc) -> Option<BlockId> {
        self.translator.block_at(pc)
    }

    fn is_live(&self, block: BlockId) -> bool {
        self.translator.is_live(block)
    }

    fn source(&self, block: BlockId) -> (GuestVa, GuestPa) {
        self.translator.source(block)
    }

    fn locate(&self, block: BlockId, pc: CachePc, words: &Words) -> Option<Location> {
        self.translator.locate(block, pc, words)
    }

    fn next_page_of(&self, block: BlockId) -> Option<u16> {
        self.translator.across(block)
    }

    #[inline]
    fn word(&mut self, pc: CachePc) -> Option<u32> {
        self.code.word(pc)
    }

    fn page_changed(&mut self, pa: GuestPa) {
        self.translator.drop_page(pa, &mut self.code);
    }

    fn words_change(&mut self, pa: GuestPa, words: Option<RangeInclusive<u16>>) -> bool {
        self.translator.change_words(pa, words, &mut self.code)
    }

    fn page_moved(&mut self, va: GuestVa) -> u32 {
        self.translator.unmap_page(va, &mut self.code)
    }

    fn next_gone(&mut self) -> Option<Gone> {
        None
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
    }

    // See `Vm::prepare`.
    #[inline(always)]
    fn leave_soon(&mut self, pc: CachePc) {
        if let Some(block) = self.translator.block_at(pc) {
            self.translator.close(block, &mut self.code);
        }
    }

    #[inline]
    fn is_breakpoint(&self, pc: GuestVa) -> bool {
        self.translator.is_breakpoint(pc)
    }

    fn set_breakpoint(&mut self, pc: GuestVa) -> bool {
        self.translator.set_breakpoint(pc, &mut self.code)
    }

    fn clear_breakpoint(&mut self, pc: GuestVa) -> bool {
        self.translator.clear_breakpoint(pc)
    }

    fn clear_breakpoints(&mut self) {
        self.translator.clear_breakpoints();
    }

    fn set_vfp(&mut self, vfp: bool) -> bool {
        self.translator.set_vfp(vfp, &mut self.code)
    }

    #[inline]
    fn is_settled(&self) -> bool {
        self.translator.is_settled()
    }

    fn settle(&mut self) -> bool {
        self.translator.settle(&mut self.code)
    }

    #[inline]
    fn publish(&mut self, mapped: bool) {
        self.code.publish_all(mapped);
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

    fn watch_known(&mut self, vectors: GuestVa, other: GuestVa) {
        self.translator.jump_cache.watch(vectors.0, other.0);
    }

    #[inline]
    fn made(&self) -> u64 {
        self.translator.stats().translated
    }

    fn pieces(&self) -> usize {
        self.translator.in_use().0
    }
}
