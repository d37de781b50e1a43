//! The engine of code in place: pages of the guest's kernel are executed at the guest's own addresses, from copies with
//! what is sensitive replaced ([`spica_dbt::in_place`]). What is replaced is executed by blocks, and so is all that
//! cannot run in place: so this is an engine beside [`Blocks`], never without it.
//!
//! What is mapped at a guest address decides where its kernel is, and a page that is to run in place must be copied and
//! mapped first: so `vm::in_place` knows more of this engine than [`Engine`] has.

use core::ops::RangeInclusive;

use spica_addr::{CachePc, GuestPa, GuestVa, HostPa};
use spica_dbt::at::is_thumb;
use spica_dbt::in_place::Text;
use spica_dbt::layout::{PAGE_WORDS, Window};
use spica_dbt::originals::Originals;
use spica_dbt::twins::{Made, Patchable, StubMemory, TwinMemory, Twins};

use super::blocks::Blocks;
use super::code::{CodePages, Place};
use super::kernel::KernelEngine;
use super::{Engine, Gone, Source, Words};
use crate::layout::{LINEAR_MAP, MEGABYTE, NEAR_CODE_SIZE, in_place as window, mirror, near_code};

/// How a guest's kernel runs in place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Setup {
    /// Where its linear map begins, if that was said. Else it is where the kernel is found.
    pub base: Option<u32>,
    /// From the guest's first instruction on, not only once it has taken an interrupt or run user code. Where no base
    /// was said, it is [`LINEAR_MAP`].
    pub from_start: bool,
}

/// Bytes of records that `twins` of them take.
pub const fn heap_bytes(twins: u16) -> u32 {
    Twins::bytes(window(LINEAR_MAP), twins as usize) as u32
}

/// See the module's text.
pub struct InPlace {
    twins: Twins,
    setup: Setup,
    state: State,
}

/// Whether the guest's kernel runs in place by now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// Not yet: all of it runs by blocks.
    Waits,
    /// It does. The code cache is near the kernel that begins there.
    Runs(u32),
    /// The same, but the guest wants the addresses for itself where the code cache is: it is to go.
    Wanted(u32),
    /// Not until the guest starts anew: all of it runs by blocks.
    Left,
}

/// Where no code is.
const NOWHERE: Window = Window { size: 0, ..window(LINEAR_MAP) };

impl InPlace {
    /// With no page that runs in place, but room for so many `twins`.
    pub fn new(setup: Setup, twins: u16) -> InPlace {
        let mut twins = Twins::new(window(LINEAR_MAP), (0, 0), twins);
        twins.move_to(NOWHERE, (0, 0));
        InPlace { twins, setup, state: State::Waits }
    }

    /// Where the kernel begins that the code cache is near.
    const fn base(&self) -> Option<u32> {
        match self.state {
            State::Runs(base) | State::Wanted(base) => Some(base),
            State::Waits | State::Left => None,
        }
    }

    /// Whether code at `pc` of the kernel view runs in place.
    #[inline]
    pub(super) fn covers(&self, pc: CachePc) -> bool {
        self.twins.covers(GuestVa(pc.0))
    }

    /// Where the guest has the page that is executed at `pc`, and `pc` in it.
    pub(super) fn source_at(&self, pc: CachePc) -> Option<GuestPa> {
        let pa = self.twins.source(self.twins.at(GuestVa(pc.0))?);
        Some(pa.wrapping_add(pc.0 & 0xfff))
    }

    /// Whether the page of `pa` is what is executed at `va`.
    pub(super) fn runs(&self, va: GuestVa, pa: GuestPa) -> bool {
        self.twins.of(va, pa).is_some()
    }

    /// Whether the page at `pa` runs in place anywhere.
    pub(super) fn has(&self, pa: GuestPa) -> bool {
        self.twins.has(pa)
    }

    /// The word that is executed at `pc`.
    pub(super) fn word(&self, code: &mut CodePages, pc: CachePc) -> Option<u32> {
        let number = self.twins.at(GuestVa(pc.0))?;
        Some(code.twin(number)[(pc.0 & 0xfff) as usize / 4])
    }

    /// As [`Engine::words_change`], of a page that runs in place, whose blocks are stubs.
    pub(super) fn words_change(
        &mut self,
        blocks: &mut Blocks,
        pa: GuestPa,
        words: Option<RangeInclusive<u16>>,
    ) -> bool {
        let Blocks { translator, code, .. } = blocks;
        self.twins.change_stubs(translator, pa, words, &mut Memory(code))
    }

    /// The page at `pa` is about to change.
    pub(super) fn page_changed(&mut self, pa: GuestPa) {
        self.twins.remove(pa);
    }

    /// The page at `va` is not to run in place for now.
    pub(super) fn leave(&mut self, va: GuestVa) {
        self.twins.leave(va);
    }

    /// Blocks may have been flushed, to which twins lead.
    pub(super) fn follow(&mut self, blocks: &Blocks) {
        self.twins.follow(&blocks.translator);
    }

    /// Whether no page is to be unmapped, and no twin leads to a block that is gone.
    #[inline]
    pub(super) fn is_settled(&self) -> bool {
        !self.twins.is_anything_gone() && self.twins.is_settled()
    }

    /// Has some twins more lead to no block that is gone. Whether none does.
    pub(super) fn settle(&mut self, blocks: &mut Blocks) -> bool {
        self.twins.settle(&mut Memory(&mut blocks.code))
    }

    /// Nothing runs in place any more, until it is executed again.
    pub(super) fn forget_all(&mut self) {
        self.twins.clear();
    }

    pub(super) fn next_gone(&mut self) -> Option<Gone> {
        self.twins.is_anything_gone().then(|| self.twins.take_gone().map_or(Gone::All, Gone::Page))
    }
}

/// The memory of the twins, and what makes it visible to instruction fetches.
struct Memory<'a>(&'a mut CodePages);

impl TwinMemory for Memory<'_> {
    fn twin(&mut self, number: u16) -> &mut [u32; PAGE_WORDS] {
        self.0.twin(number)
    }

    fn publish_twin(&mut self, number: u16, va: GuestVa, first: usize, words: usize) {
        self.0.publish_twin(number, va.page().0, first, words);
    }

    fn clean_twin(&mut self, number: u16, first: usize, words: usize) {
        self.0.clean_twin(number, first, words);
    }

    fn publish_cleaned(&mut self) {
        self.0.publish_cleaned();
    }
}

impl StubMemory for Memory<'_> {
    type Code = CodePages;

    fn code(&mut self) -> &mut CodePages {
        self.0
    }
}

/// What `vm::in_place` asks for.
impl KernelEngine {
    /// Whether the guest's kernel runs in place, as far as it can.
    #[inline]
    pub fn runs_in_place(&self) -> bool {
        self.in_place.as_ref().is_some_and(|in_place| in_place.base().is_some())
    }

    /// The first address that the guest must not have for itself, and how many megabytes from there on.
    pub fn kept_from_guest(&self) -> (u32, u32) {
        match self.in_place.as_ref().and_then(|in_place| in_place.base()) {
            Some(base) => Self::kept_near(base),
            None => self.region(),
        }
    }

    /// The same of a code cache near a kernel that begins at `base`: in front of it, one megabyte is only so that it is
    /// seen in time who comes near.
    pub const fn kept_near(base: u32) -> (u32, u32) {
        (near_code(base) - MEGABYTE, NEAR_CODE_SIZE / MEGABYTE + 1)
    }

    /// The guest has mapped something among [`Self::kept_from_guest`]. False if the cache cannot give way.
    pub fn give_way(&mut self) -> bool {
        let Some(in_place) = &mut self.in_place else { return false };
        let Some(base) = in_place.base() else { return false };
        in_place.state = State::Wanted(base);
        true
    }

    /// Whether the cache is to give way, where user code begins, or the guest takes an interrupt.
    #[inline]
    pub fn is_to_leave_in_place(&self) -> bool {
        self.in_place.as_ref().is_some_and(|in_place| matches!(in_place.state, State::Wanted(_)))
    }

    /// Whether the kernel will run in place, once it is seen where it is: not while somebody counts what is executed,
    /// or looks at accesses, which is done by blocks.
    #[inline]
    pub fn waits_for_in_place(&self) -> bool {
        self.in_place.as_ref().is_some_and(|in_place| in_place.state == State::Waits) && !self.blocks.is_watched()
    }

    /// Where its kernel begins, if that was said.
    pub fn said_base(&self) -> Option<u32> {
        self.in_place.as_ref()?.setup.base
    }

    /// Where it begins, if it is to run in place from the start on.
    pub fn base_from_start(&self) -> Option<u32> {
        let setup = self.in_place.as_ref()?.setup;
        setup.from_start.then(|| setup.base.unwrap_or(LINEAR_MAP))
    }

    /// It runs in place from now on, and begins at `base`. All code goes. What is mapped is to follow.
    pub fn begin_in_place(&mut self, base: u32) {
        if let Some(in_place) = &mut self.in_place {
            in_place.state = State::Runs(base);
            in_place.twins.move_to(window(base), (near_code(base), NEAR_CODE_SIZE));
            self.blocks.move_to(Place::Near(base));
        }
    }

    /// All of it runs by blocks from now on: until it may [begin](Self::waits_for_in_place) `again`, if that could be,
    /// or until the guest starts anew. All code goes. What is mapped is to follow.
    pub fn leave_in_place(&mut self, again: bool) {
        let Some(in_place) = &mut self.in_place else { return };
        let base = in_place.base();
        in_place.state = if again && in_place.state != State::Left { State::Waits } else { State::Left };
        if let Some(base) = base {
            in_place.twins.move_to(NOWHERE, (0, 0));
            self.blocks.move_to(Place::Region(mirror(base)));
        }
    }

    /// The guest is a machine that was just reset, and nothing runs in place.
    pub fn start_anew(&mut self) {
        self.originals = None;
        if let Some(in_place) = &mut self.in_place {
            in_place.state = State::Waits;
        }
    }

    /// Whether the page of `source` may run in place.
    pub fn is_fit(&self, source: Source) -> bool {
        let fits = |in_place: &InPlace| in_place.base().is_some() && in_place.twins.is_fit(source.va);
        let fit = self.in_place.as_deref().is_some_and(fits);
        fit && !is_thumb(source.va) && source.global && !self.blocks.translator().has_breakpoint_near(source.va)
    }

    /// Whether the page of `va`, which the guest maps to `pa`, runs in place.
    pub fn has_twin(&self, va: GuestVa, pa: GuestPa) -> bool {
        self.in_place.as_ref().is_some_and(|in_place| in_place.twins.of(va, pa).is_some())
    }

    /// Whether all pages in the 64 KiB around `va` do.
    pub fn is_whole(&self, va: GuestVa) -> bool {
        self.in_place.as_ref().is_some_and(|in_place| in_place.twins.whole(va).is_some())
    }

    /// What is mapped from now on at the page of `va`, which the guest maps to `pa`, if it runs in place; and whether
    /// those around it in 64 KiB do as well, so that one large page can map them where they are one behind the other.
    pub fn map_twin(&mut self, va: GuestVa, pa: GuestPa) -> Option<(HostPa, bool)> {
        let InPlace { twins, .. } = self.in_place.as_deref_mut()?;
        let number = twins.of(va, pa)?;
        twins.maps(va, &mut Memory(&mut self.blocks.code));
        Some((self.blocks.code.twin_pa(number), twins.whole(va).is_some()))
    }

    /// The pages that run in place, if any may.
    pub fn twins(&self) -> Option<&Twins> {
        self.in_place.as_ref().filter(|in_place| in_place.base().is_some()).map(|in_place| &in_place.twins)
    }

    /// The pages in the 64 KiB around `va` should have their twins together: see [`Twins::begin_region`].
    pub fn begin_region(&mut self, va: GuestVa) {
        if let Some(in_place) = &mut self.in_place {
            in_place.twins.begin_region(va);
        }
    }

    /// A page that should have a twin, and was not asked for yet.
    #[inline]
    pub fn take_left(&mut self) -> Option<GuestVa> {
        self.in_place.as_mut()?.twins.take_left()
    }

    /// The page at `va` is about to be mapped where it runs in place, as it is to be executed.
    pub fn executes(&mut self, va: GuestVa) {
        if let Some(in_place) = &mut self.in_place {
            in_place.twins.executes(va);
        }
    }

    /// All that runs in place is to be unmapped, so that it shows what is executed: see [`Twins::look_anew`].
    pub fn look_anew(&mut self) {
        if let Some(in_place) = &mut self.in_place {
            in_place.twins.look_anew();
        }
    }

    /// What is executed lies together: see [`Twins::gather`].
    pub fn gather(&mut self) -> bool {
        let Some(InPlace { twins, .. }) = self.in_place.as_deref_mut() else { return false };
        twins.gather(&mut Memory(&mut self.blocks.code))
    }

    /// Makes the page of `source` run in place; where nobody can tell what in it is code, or where there is no room,
    /// that is said.
    pub fn make_twin(&mut self, source: Source, text: Text<'_>) -> Made {
        let Some(InPlace { twins, .. }) = self.in_place.as_deref_mut() else { return Made::Unfit };
        twins.make(source.va, source.pa, text, &mut Memory(&mut self.blocks.code))
    }

    /// The guest's pages that run in place, wherever they do.
    pub fn in_place_pages(&self) -> impl Iterator<Item = GuestPa> {
        self.in_place.iter().flat_map(|in_place| in_place.twins.sources())
    }

    /// All blocks go, stubs among them; what runs in place stays.
    pub fn forget_blocks(&mut self) {
        self.blocks.forget_all();
        self.follow();
    }

    /// The stub of the instruction at `source`, which is replaced in the page's twin; made if need be, and led to from
    /// now on. `None` if the instruction is not replaced any more: it can be executed where it is.
    pub fn stub(&mut self, source: Source, words: &Words) -> Option<CachePc> {
        let InPlace { twins, .. } = self.in_place.as_deref_mut()?;
        let Blocks { translator, code, .. } = &mut self.blocks;
        twins.stub(translator, (source.va, source.pa), source.global, words, &mut Memory(code))
    }

    /// What an `SVC` of the guest's may be a copy of, which it has made from what runs in place, or ran.
    pub fn originals(&self) -> Option<&Originals> {
        match &self.in_place {
            Some(in_place) => Some(in_place.twins.originals()),
            None => self.originals.as_ref(),
        }
    }

    /// The same, of another guest, which this one becomes. No code is left.
    pub fn set_originals(&mut self, originals: Originals) {
        self.forget_all();
        match &mut self.in_place {
            Some(in_place) => in_place.twins.set_originals(originals),
            None => {
                let any = originals.kept().next().is_some();
                self.originals = any.then_some(originals);
            }
        }
    }

    /// The guest writes `word` as word `at` of the page at `pa`: false, and nothing is done, unless that page runs in
    /// place and nothing depends on that word: see [`Twins::patch`].
    pub fn patch(&mut self, place: (GuestPa, usize), word: u32) -> bool {
        let Some(InPlace { twins, .. }) = self.in_place.as_deref_mut() else { return false };
        let Blocks { translator, code, .. } = &mut self.blocks;
        twins.patch(translator, place, word, &mut Memory(code))
    }

    /// Which words of the page at `pa` may be patched without asking: see [`Twins::patchable`]. With where the twin is
    /// to be written, and where it is.
    pub fn patchable(&mut self, pa: GuestPa) -> Option<(Patchable, (u32, HostPa))> {
        let InPlace { twins, .. } = self.in_place.as_deref_mut()?;
        let Blocks { translator, code, .. } = &mut self.blocks;
        let patchable = twins.patchable(translator, pa)?;
        let place = (code.twin_va(patchable.number), code.twin_pa(patchable.number));
        Some((patchable, place))
    }

    /// So many words of a twin were patched so.
    pub fn were_patched(&mut self, number: u16, times: u16) {
        if let Some(InPlace { twins, .. }) = self.in_place.as_deref_mut() {
            twins.were_patched(number, times);
        }
    }

    /// See [`Twins::second_passes`].
    pub fn second_passes(&mut self) {
        if let Some(InPlace { twins, .. }) = self.in_place.as_deref_mut() {
            twins.second_passes();
        }
    }

    /// The guest has written word `at` of the page at `pa`, which has code and reads `page` now: so what runs in place
    /// there does. False if the page is to be dropped as a whole.
    pub fn word_changed(&mut self, pa: GuestPa, at: usize, page: &Words) -> bool {
        let Some(InPlace { twins, .. }) = self.in_place.as_deref_mut() else { return true };
        twins.change_word(pa, at, page, &mut Memory(&mut self.blocks.code))
    }
}
