//! What the code cache knows of each block and each exit. There are tens of thousands of both, so that their size
//! decides how much memory a guest costs.

use core::ops::RangeInclusive;

use spica_addr::{GuestPa, GuestVa};
use spica_isa::t32::ItState;

use crate::at::{address, is_thumb};
use crate::emit::PendingExit;
use crate::layout::PAGE_WORDS;

/// No block, where a block's number is expected.
pub(crate) const NO_BLOCK: u16 = u16::MAX;
/// Where an exit leads to the guest's own address, to code that runs in place.
pub(crate) const IN_PLACE: u16 = NO_BLOCK - 1;
/// Blocks that can have numbers.
pub(crate) const MAX_BLOCKS: usize = IN_PLACE as usize;
/// No exit, where an exit's number is expected.
pub(crate) const NO_EXIT: u32 = (1 << NUMBER_BITS) - 1;
/// Exits that can have numbers.
pub(crate) const MAX_EXITS: usize = NO_EXIT as usize;

/// Bits of an exit's number.
const NUMBER_BITS: u32 = 17;

/// Makes all of `numbers` the same. There are tens of thousands, all of which go at once, and one by one that would be
/// half of what it takes to forget all blocks.
pub(crate) fn fill(numbers: &mut [u16], number: u16) {
    let (eights, rest) = numbers.as_chunks_mut();
    eights.iter_mut().for_each(|eight| *eight = [number; 8]);
    rest.fill(number);
}

/// A block.
#[derive(Clone, Copy)]
pub(crate) struct Block {
    /// With its state in bit 0.
    pub(crate) va: GuestVa,
    /// The page of its PA, whose place in the page is that of its VA; and flags.
    page_and_flags: u32,
    /// Guest instructions, and the last word of the page that it was made from. Of a single instruction across the end
    /// of its page, the half-word in the page behind: the others are known.
    length_and_last: u16,
    pub(crate) code_page: u16,
    /// Its words of the code page: from, and up to.
    pub(crate) hot: (u16, u16),
    pub(crate) cold: (u16, u16),
    /// Its exits are those from here up to the first of the next block.
    pub(crate) first_exit: u32,
    /// Of a block for one execution, which is in no bucket, the ITSTATE that it begins in.
    pub(crate) next_in_bucket: u16,
    pub(crate) next_in_page: u16,
    /// First of the exits that are linked to it.
    pub(crate) incoming: u32,
}

const _: () = assert!(size_of::<Block>() == 32 && size_of::<Exit>() == 12);

/// What is true of a block, or not.
#[derive(Clone, Copy)]
#[repr(u32)]
pub(crate) enum Flag {
    /// The mapping of its page is global: it may be linked to from other pages.
    Global = 1,
    /// Made for one execution.
    Once = 2,
    /// [`crate::Options::vfp`] as it was.
    Vfp = 4,
    /// Dropped: not to be found or linked to. It keeps its place and its exits, and code that is in it runs on to its
    /// end.
    Dropped = 8,
    /// Made from words in front of its first instruction, too.
    Backwards = 16,
    /// One T32 instruction across the end of its page. Whoever looks it up says what is in the page behind.
    Across = 32,
    /// No block, but what stands for the one before it, which is [across](Flag::Across), in the page behind: that one
    /// goes, or nothing leads to it any more, if this is to.
    Second = 64,
}

/// Guest instructions that a block can have.
pub(crate) const MAX_LENGTH: usize = (1 << LENGTH_BITS) - 1;
const LENGTH_BITS: u32 = 6;
const LAST_WORD: u16 = PAGE_WORDS as u16 - 1;

/// What a block was made of.
#[derive(Clone, Copy)]
pub(crate) struct Made {
    /// Guest instructions.
    pub(crate) length: usize,
    /// The word of the page that the last of them ends in.
    pub(crate) last: u16,
    /// The half-word in the page behind, if its one instruction lies across the end.
    pub(crate) across: Option<u16>,
}

impl Block {
    /// A block made as `made` says at `va`, which is mapped to `pa`, and of `constants`: the words of
    /// the page, from and to, that were looked at besides. Nothing is linked to it, and it is in no list.
    pub(crate) fn new(va: GuestVa, pa: GuestPa, made: Made, constants: Option<(u16, u16)>, exit: usize) -> Block {
        let Made { length, last: end, across } = made;
        debug_assert!(address(va).page_offset() == pa.0 & 0xffe, "a page is mapped to a page");
        debug_assert!(length <= MAX_LENGTH, "{length} instructions are more than can be noted");
        let first = (va.page_offset() / 4) as u16;
        let (lowest, last) = constants.map_or((first, end), |(from, to)| (from.min(first), to.max(end)));
        Block {
            va,
            page_and_flags: pa.page().0
                | if lowest < first { Flag::Backwards as u32 } else { 0 }
                | if across.is_some() { Flag::Across as u32 } else { 0 },
            length_and_last: across.unwrap_or(length as u16 | last << LENGTH_BITS),
            code_page: 0,
            hot: (0, 0),
            cold: (0, 0),
            first_exit: exit as u32,
            next_in_bucket: NO_BLOCK,
            next_in_page: NO_BLOCK,
            incoming: NO_EXIT,
        }
    }

    pub(crate) fn pa(&self) -> GuestPa {
        GuestPa(self.page_and_flags & !0xfff | address(self.va).page_offset())
    }

    /// Guest instructions.
    pub(crate) fn length(&self) -> usize {
        if self.is(Flag::Across) { 1 } else { usize::from(self.length_and_last) & MAX_LENGTH }
    }

    /// The half-word that it was made from in the page behind its own.
    pub(crate) fn across(&self) -> Option<u16> {
        self.is(Flag::Across).then_some(self.length_and_last)
    }

    /// From which words of its page it was made, as far as is noted: what lies between its instructions and the last
    /// constant counts, and all in front of that if any constant lies in front of it.
    pub(crate) fn made_from(&self) -> RangeInclusive<u16> {
        let first = if self.is(Flag::Backwards) { 0 } else { (self.va.page_offset() / 4) as u16 };
        let last = if self.is(Flag::Across) { LAST_WORD } else { self.length_and_last >> LENGTH_BITS };
        first..=last
    }

    /// Whether it was made from any of these words of its page.
    pub(crate) fn is_made_from(&self, words: &RangeInclusive<u16>) -> bool {
        let made_from = self.made_from();
        made_from.start() <= words.end() && words.start() <= made_from.end()
    }

    pub(crate) fn is(&self, flag: Flag) -> bool {
        self.page_and_flags & flag as u32 != 0
    }

    /// Whether it is one of the two.
    pub(crate) fn is_any(&self, one: Flag, other: Flag) -> bool {
        self.page_and_flags & (one as u32 | other as u32) != 0
    }

    /// The ITSTATE that it begins in.
    pub(crate) fn first_it(&self) -> ItState {
        if self.is(Flag::Once) && is_thumb(self.va) {
            ItState::new(self.next_in_bucket as u8)
        } else {
            ItState::OUTSIDE
        }
    }

    /// Notes that of a block for one execution.
    pub(crate) fn set_first_it(&mut self, it: ItState) {
        if is_thumb(self.va) {
            self.next_in_bucket = it.bits().into();
        }
    }

    pub(crate) fn set(&mut self, flag: Flag, holds: bool) {
        self.page_and_flags = self.page_and_flags & !(flag as u32) | if holds { flag as u32 } else { 0 };
    }
}

/// An exit. Its places are words of the code page of its block.
#[derive(Clone, Copy)]
pub(crate) struct Exit {
    /// The word that is patched when it is linked.
    pub(crate) site: u16,
    /// Its `SVC`.
    pub(crate) stub: u16,
    /// Whose exit it is.
    pub(crate) source: u16,
    /// The block that it is linked to, in whose list of such exits it is then; or [`IN_PLACE`], and in none.
    pub(crate) linked: u16,
    /// From bit 0: the next exit that is linked to the same block; at the top, [`Exit::is_way_back`] and
    /// [`Exit::is_closed`].
    rest: u32,
}

const WAY_BACK: u32 = 1 << 30;
const CLOSED: u32 = 1 << 31;

impl Exit {
    /// An exit of block `source`, linked to nothing. `way_back`: it is the way back from a call.
    pub(crate) fn new(exit: PendingExit, way_back: bool, source: u16) -> Exit {
        let PendingExit { site, stub } = exit;
        Exit { site, stub, source, linked: NO_BLOCK, rest: NO_EXIT | if way_back { WAY_BACK } else { 0 } }
    }

    pub(crate) fn next_incoming(&self) -> u32 {
        self.rest & NO_EXIT
    }

    pub(crate) fn set_next_incoming(&mut self, next: u32) {
        self.rest = self.rest & !NO_EXIT | next & NO_EXIT;
    }

    /// Whether it traps although it is linked, because the block was to be left at its end.
    pub(crate) fn is_closed(&self) -> bool {
        self.rest & CLOSED != 0
    }

    pub(crate) fn set_closed(&mut self, closed: bool) {
        self.rest = self.rest & !CLOSED | if closed { CLOSED } else { 0 };
    }

    pub(crate) fn is_way_back(&self) -> bool {
        self.rest & WAY_BACK != 0
    }
}
