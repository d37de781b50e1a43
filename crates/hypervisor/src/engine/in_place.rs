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
use spica_dbt::layout::{PAGE, PAGE_WORDS};
use spica_dbt::originals::Originals;
use spica_dbt::twins::{GROUP, Made, StubMemory, TwinMemory, Twins};

use super::blocks::Blocks;
use super::code::{CodePages, page_of};
use super::kernel::KernelEngine;
use super::{Engine, Gone, Source, Words};
use crate::layout::{MEGABYTE, NEAR_CODE_SIZE, in_place as window, near_code};
use crate::memory::pool::{Block, Share};

/// How a guest's kernel runs in place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Setup {
    /// Where it begins: the code cache is near that.
    pub base: u32,
    /// For how many pages there is room.
    pub twins: u16,
    /// From the guest's first instruction on, not only once it has taken an interrupt or run user code.
    pub from_start: bool,
}

impl Setup {
    /// Bytes of records that it takes.
    pub const fn heap_bytes(&self) -> u32 {
        Twins::bytes(window(self.base), self.twins as usize) as u32
    }

    /// Bytes of pages that it takes, aligned to a large page.
    pub const fn block_bytes(&self) -> u32 {
        (self.twins as u32 + GROUP as u32 - 1) * PAGE
    }
}

/// See the module's text.
pub struct InPlace {
    twins: Twins,
    memory: Block,
    /// The guest's kernel runs in place by now.
    begun: bool,
    from_start: bool,
    /// All of it runs by blocks for now.
    suspended: bool,
    /// Where the code cache is.
    place: Place,
}

/// Where the code cache is that stubs are in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    /// Near the guest's kernel.
    Near,
    /// There, but the guest wants the addresses for itself: it is to go.
    Wanted,
    /// In the hypervisor region. Nothing runs in place any more, since branches do not reach that.
    Left,
}

impl InPlace {
    /// With no page that runs in place; `None` if the share is exhausted.
    pub fn new(share: &mut Share, setup: Setup) -> Option<InPlace> {
        let Setup { base, twins, from_start } = setup;
        Some(InPlace {
            twins: Twins::new(window(base), (near_code(base), NEAR_CODE_SIZE), twins),
            memory: share.alloc(u32::from(twins) * PAGE, GROUP as u32 * PAGE)?,
            begun: from_start,
            from_start,
            suspended: false,
            place: Place::Near,
        })
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
    pub(super) fn word(&mut self, pc: CachePc) -> Option<u32> {
        let number = self.twins.at(GuestVa(pc.0))?;
        Some(page_of(&mut self.memory, number.into())[(pc.0 & 0xfff) as usize / 4])
    }

    /// As [`Engine::words_change`], of a page that runs in place, whose blocks are stubs.
    pub(super) fn words_change(
        &mut self,
        blocks: &mut Blocks,
        pa: GuestPa,
        words: Option<RangeInclusive<u16>>,
    ) -> bool {
        let Blocks { translator, code, .. } = blocks;
        self.twins.change_stubs(translator, pa, words, &mut Memory(&mut self.memory, code))
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
    pub(super) fn follow(&mut self, blocks: &mut Blocks) {
        self.twins.follow(&blocks.translator, &mut Memory(&mut self.memory, &mut blocks.code));
    }

    /// Nothing runs in place any more, until it is executed again.
    pub(super) fn forget_all(&mut self) {
        self.twins.clear();
    }

    #[inline]
    pub(super) fn is_anything_gone(&self) -> bool {
        self.twins.is_anything_gone()
    }

    pub(super) fn next_gone(&mut self) -> Option<Gone> {
        self.is_anything_gone().then(|| self.twins.take_gone().map_or(Gone::All, Gone::Page))
    }
}

/// The memory of the twins, and what makes it visible to instruction fetches.
struct Memory<'a>(&'a mut Block, &'a mut CodePages);

impl TwinMemory for Memory<'_> {
    fn twin(&mut self, number: u16) -> &mut [u32; PAGE_WORDS] {
        page_of(self.0, number.into())
    }

    fn publish_twin(&mut self, number: u16, executed: Option<GuestVa>, first: usize, words: usize) {
        self.1.publish_page(self.0.va() + u32::from(number) * PAGE, executed.map(|va| va.page().0), first, words);
    }
}

impl StubMemory for Memory<'_> {
    type Code = CodePages;

    fn code(&mut self) -> &mut CodePages {
        self.1
    }
}

/// What `vm::in_place` asks for.
impl KernelEngine {
    /// Whether the guest's kernel was made to run in place, whether it does so already or no longer.
    #[inline]
    pub fn runs_in_place(&self) -> bool {
        self.in_place.is_some()
    }

    /// Whether it did, and cannot any more ([`Self::leave_in_place`]).
    pub fn has_left(&self) -> bool {
        self.in_place.as_ref().is_some_and(|in_place| in_place.place == Place::Left)
    }

    /// The first address that the guest must not have for itself, and how many megabytes from there on. In front of a
    /// cache near the guest's kernel, one of them is only so that it is seen in time who comes near.
    pub fn kept_from_guest(&self) -> (u32, u32) {
        let (start, megabytes) = self.region();
        let near = self.in_place.as_ref().is_some_and(|in_place| in_place.place != Place::Left);
        if near { (start - MEGABYTE, megabytes + 1) } else { (start, megabytes) }
    }

    /// The guest has mapped something among [`Self::kept_from_guest`]. False if the cache cannot give way.
    pub fn give_way(&mut self) -> bool {
        let in_place = self.in_place.as_deref_mut().filter(|in_place| in_place.place != Place::Left);
        in_place.map(|in_place| in_place.place = Place::Wanted).is_some()
    }

    /// Whether [`Self::leave_in_place`] is to be called, where user code begins, or the guest takes an interrupt.
    #[inline]
    pub fn is_to_leave_in_place(&self) -> bool {
        self.in_place.as_ref().is_some_and(|in_place| in_place.place == Place::Wanted)
    }

    /// The cache is in the hypervisor region from now on, so that all of the guest's kernel runs by blocks. All code
    /// goes. What is mapped is to follow.
    pub fn leave_in_place(&mut self) {
        self.forget_all();
        if let Some(in_place) = &mut self.in_place {
            in_place.place = Place::Left;
            self.blocks.move_to_region();
        }
    }

    /// Whether it will, once it has started.
    #[inline]
    pub fn waits_for_in_place(&self) -> bool {
        self.in_place.as_ref().is_some_and(|in_place| !in_place.begun)
    }

    /// It does from now on.
    pub fn begin_in_place(&mut self) {
        if let Some(in_place) = &mut self.in_place {
            in_place.begun = true;
        }
    }

    /// From now on, or no longer, all of the guest's kernel runs by blocks, for somebody who counts in them. All code
    /// goes, if it runs in place otherwise.
    pub fn suspend_in_place(&mut self, suspended: bool) {
        if let Some(in_place) = &mut self.in_place {
            in_place.suspended = suspended;
            self.forget_all();
        }
    }

    /// The guest is a machine that was just reset.
    pub fn start_anew(&mut self) {
        self.originals = None;
        if let Some(in_place) = &mut self.in_place {
            in_place.begun = in_place.from_start;
        }
    }

    /// Whether the page of `source` may run in place.
    pub fn is_fit(&self, source: Source) -> bool {
        let runs = |in_place: &InPlace| in_place.begun && !in_place.suspended && in_place.place != Place::Left;
        let fits = |in_place: &InPlace| runs(in_place) && in_place.twins.is_fit(source.va);
        let fit = self.in_place.as_deref().is_some_and(fits);
        fit && !is_thumb(source.va) && source.global && !self.blocks.translator().has_breakpoint_near(source.va)
    }

    /// What is to be mapped at the page of `va`, which the guest maps to `pa`, if it runs in place; and whether those
    /// around it in 64 KiB do as well, so that one large page can map them where they are one behind the other.
    pub fn twin(&self, va: GuestVa, pa: GuestPa) -> Option<(HostPa, bool)> {
        let in_place = self.in_place.as_ref()?;
        let number = in_place.twins.of(va, pa)?;
        let code = in_place.memory.pa().wrapping_add(u32::from(number) * PAGE);
        Some((code, in_place.twins.whole(va).is_some()))
    }

    /// All pages in the 64 KiB around `va` should have twins: see [`Self::take_left`].
    pub fn begin_region(&mut self, va: GuestVa) {
        if let Some(in_place) = &mut self.in_place {
            in_place.twins.begin_region(va);
        }
    }

    /// A page that should have a twin, near `near` if that is said, and was not asked for yet.
    #[inline]
    pub fn take_left(&mut self, near: Option<GuestVa>) -> Option<GuestVa> {
        self.in_place.as_mut()?.twins.take_left(near)
    }

    /// Makes the page of `source` run in place; where nobody can tell what in it is code, or where there is no room,
    /// that is said.
    pub fn make_twin(&mut self, source: Source, text: Text<'_>) -> Made {
        let Some(InPlace { twins, memory, .. }) = self.in_place.as_deref_mut() else { return Made::Unfit };
        twins.make(source.va, source.pa, text, &mut Memory(memory, &mut self.blocks.code))
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
        let InPlace { twins, memory, .. } = self.in_place.as_deref_mut()?;
        let Blocks { translator, code, .. } = &mut self.blocks;
        twins.stub(translator, (source.va, source.pa), source.global, words, &mut Memory(memory, code))
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

    /// The guest has written word `at` of the page at `pa`, which has code and reads `page` now: so what runs in place
    /// there does. False if the page is to be dropped as a whole.
    pub fn word_changed(&mut self, pa: GuestPa, at: usize, page: &Words) -> bool {
        let Some(InPlace { twins, memory, .. }) = self.in_place.as_deref_mut() else { return true };
        twins.change_word(pa, at, page, &mut Memory(memory, &mut self.blocks.code))
    }
}
