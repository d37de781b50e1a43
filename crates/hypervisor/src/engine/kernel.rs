//! The engine that a guest's kernel runs by: the one place that chooses.
//!
//! All of it runs by blocks, or it runs in place, and by blocks what cannot. In place or not is asked where the two
//! differ, and nowhere else: what most traps ask for is answered by blocks at once.

use core::ops::RangeInclusive;

use alloc::boxed::Box;

use spica_addr::{CachePc, GuestPa, GuestVa};
use spica_dbt::originals::Originals;
use spica_dbt::{BlockId, Location, Options, Undo};
use spica_isa::t32::ItState;
use spica_vcpu::VcpuPage;

use super::blocks::{Blocks, From};
use super::in_place::InPlace;
use super::{Engine, Gone, Source, Words};

/// A piece of code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Piece {
    /// A block.
    Block(BlockId),
    /// The guest's own address, in a page that runs in place, and where that lies.
    InPlace(GuestVa, GuestPa),
}

/// See the module's text.
pub struct KernelEngine {
    /// Translated code. Whoever asks it for more than [`Engine`] has belongs to it.
    pub blocks: Blocks,
    pub(super) in_place: Option<Box<InPlace>>,
    /// Of a guest that ran in place before it came here, where it does not.
    pub(super) originals: Option<Originals>,
}

impl KernelEngine {
    /// By blocks alone, or in place.
    pub fn new(blocks: Blocks, in_place: Option<Box<InPlace>>) -> KernelEngine {
        KernelEngine { blocks, in_place, originals: None }
    }

    /// Other options for blocks from now on. All code goes.
    pub fn set_options(&mut self, options: Options) {
        self.blocks.set_options(options);
        self.follow();
    }

    /// All blocks may have gone: nothing is to lead to any.
    pub(super) fn follow(&mut self) {
        if let Some(in_place) = &mut self.in_place {
            in_place.follow(&self.blocks);
        }
    }
}

impl Engine for KernelEngine {
    type Code = Piece;
    type From = From;

    fn region(&self) -> (u32, u32) {
        self.blocks.region()
    }

    #[inline]
    fn known(&self, pc: GuestVa) -> Option<CachePc> {
        self.blocks.known(pc)
    }

    fn forget_known(&mut self, pc: GuestVa) {
        self.blocks.forget_known(pc);
    }

    fn find(&mut self, source: Source) -> Option<Piece> {
        // Whether the page runs in place is not for here: it may have a twin, and the MMU be off.
        self.blocks.find(source).map(Piece::Block)
    }

    fn make(&mut self, source: Source, words: &Words) -> (Piece, bool) {
        let (block, flushed) = self.blocks.make(source, words);
        self.follow();
        (Piece::Block(block), flushed)
    }

    fn make_once(&mut self, source: Source, words: &Words) -> CachePc {
        let entry = self.blocks.make_once(source, words);
        self.follow();
        entry
    }

    fn make_one(&mut self, source: Source, words: &Words) -> CachePc {
        let entry = self.blocks.make_one(source, words);
        self.follow();
        entry
    }

    fn enter(&mut self, code: Piece, from: Option<From>) -> CachePc {
        match code {
            Piece::Block(block) => self.blocks.enter(block, from),
            Piece::InPlace(va, _) => self.blocks.enter_in_place(va, from),
        }
    }

    #[inline]
    fn is_guest_address(&self, pc: CachePc) -> bool {
        self.in_place.as_ref().is_some_and(|in_place| in_place.covers(pc))
    }

    fn code_at(&self, pc: CachePc) -> Option<Piece> {
        match &self.in_place {
            Some(in_place) if in_place.covers(pc) => Some(Piece::InPlace(GuestVa(pc.0), in_place.source_at(pc)?)),
            _ => self.blocks.code_at(pc).map(Piece::Block),
        }
    }

    fn is_live(&self, code: Piece) -> bool {
        match code {
            Piece::Block(block) => self.blocks.is_live(block),
            Piece::InPlace(va, pa) => self.in_place.as_ref().is_some_and(|in_place| in_place.runs(va, pa)),
        }
    }

    fn source(&self, code: Piece) -> (GuestVa, GuestPa) {
        match code {
            Piece::Block(block) => self.blocks.source(block),
            Piece::InPlace(va, pa) => (va, pa),
        }
    }

    fn locate(&self, code: Piece, pc: CachePc, words: &Words) -> Option<Location> {
        match code {
            Piece::Block(block) => self.blocks.locate(block, pc, words),
            Piece::InPlace(..) => Some(Location { guest: GuestVa(pc.0 & !3), it: ItState::OUTSIDE, undo: Undo::NONE }),
        }
    }

    fn next_page_of(&self, code: Piece) -> Option<u16> {
        match code {
            Piece::Block(block) => self.blocks.next_page_of(block),
            Piece::InPlace(..) => None,
        }
    }

    #[inline]
    fn word(&mut self, pc: CachePc) -> Option<u32> {
        match &self.in_place {
            Some(in_place) if in_place.covers(pc) => in_place.word(&mut self.blocks.code, pc),
            _ => self.blocks.word(pc),
        }
    }

    fn page_changed(&mut self, pa: GuestPa) {
        if let Some(in_place) = &mut self.in_place {
            in_place.page_changed(pa);
        }
        self.blocks.page_changed(pa);
    }

    fn words_change(&mut self, pa: GuestPa, words: Option<RangeInclusive<u16>>) -> bool {
        match &mut self.in_place {
            Some(in_place) if in_place.has(pa) => in_place.words_change(&mut self.blocks, pa, words),
            _ => self.blocks.words_change(pa, words),
        }
    }

    fn page_moved(&mut self, va: GuestVa) -> u32 {
        self.blocks.page_moved(va)
    }

    fn next_gone(&mut self) -> Option<Gone> {
        self.in_place.as_mut()?.next_gone()
    }

    fn next_page(&self, from: usize) -> Option<(usize, GuestVa, GuestPa)> {
        self.blocks.next_page(from)
    }

    fn next_page_at(&self, va: GuestVa, after: Option<usize>) -> Option<(usize, GuestPa)> {
        self.blocks.next_page_at(va, after)
    }

    fn all_moved(&mut self) {
        self.blocks.all_moved();
    }

    fn forget_all(&mut self) {
        self.forget_blocks();
        if let Some(in_place) = &mut self.in_place {
            in_place.forget_all();
        }
    }

    // See `Vm::prepare`.
    #[inline(always)]
    fn leave_soon(&mut self, pc: CachePc) {
        if !self.is_guest_address(pc) {
            self.blocks.leave_soon(pc);
        }
    }

    #[inline]
    fn is_breakpoint(&self, pc: GuestVa) -> bool {
        self.blocks.is_breakpoint(pc)
    }

    fn set_breakpoint(&mut self, pc: GuestVa) -> bool {
        let set = self.blocks.set_breakpoint(pc);
        self.follow();
        if let Some(in_place) = &mut self.in_place {
            in_place.leave(pc);
        }
        set
    }

    fn clear_breakpoint(&mut self, pc: GuestVa) -> bool {
        self.blocks.clear_breakpoint(pc)
    }

    fn clear_breakpoints(&mut self) {
        self.blocks.clear_breakpoints();
    }

    fn set_vfp(&mut self, vfp: bool) -> bool {
        let gone = self.blocks.set_vfp(vfp);
        self.follow();
        gone
    }

    #[inline]
    fn is_settled(&self) -> bool {
        self.blocks.is_settled() && self.in_place.as_ref().is_none_or(|in_place| in_place.is_settled())
    }

    fn settle(&mut self) -> bool {
        self.blocks.settle() && self.in_place.as_mut().is_none_or(|in_place| in_place.settle(&mut self.blocks))
    }

    #[inline]
    fn publish(&mut self, mapped: bool) {
        self.blocks.publish(mapped);
    }

    #[inline]
    fn mend(&mut self, page: &mut VcpuPage) {
        self.blocks.mend(page);
    }

    fn vcpu_reset(&mut self) {
        self.blocks.vcpu_reset();
    }

    fn version(&self) -> u32 {
        self.blocks.version()
    }

    #[inline]
    fn generation(&self) -> u64 {
        self.blocks.generation()
    }

    #[inline]
    fn known_version(&self) -> u32 {
        self.blocks.known_version()
    }

    fn watch_known(&mut self, vectors: GuestVa, other: GuestVa) {
        self.blocks.watch_known(vectors, other);
    }

    #[inline]
    fn made(&self) -> u64 {
        self.blocks.made()
    }

    fn pieces(&self) -> usize {
        self.blocks.pieces()
    }
}
