//! The emitter: puts words into one code page and keeps account of which guest instruction each belongs to.
//!
//! Hot code grows upwards from [`layout::HOT_FIELDS`], cold words (exit stubs, literals) grow downwards from the end of
//! the page. The same code runs in two ways: to write a block, and without a page to write to, to find the guest
//! instruction of a code-cache address (STAR §3.7.1); both must emit exactly the same words.

use crate::block::{Location, Undo};
use crate::layout::{self, HOT_FIELDS, PAGE_WORDS, Window};
use spica_addr::{CachePc, GuestVa};
use spica_isa::{Cond, Reg, asm};

/// An exit of the block being emitted.
#[derive(Clone, Copy, Debug)]
pub struct PendingExit {
    /// The word that is patched when the exit is linked.
    pub site: CachePc,
    /// The `SVC` of the exit; the same as `site` where the exit is unconditional.
    pub stub: CachePc,
    /// Where it goes.
    pub target: GuestVa,
}

/// At most this many exits in a block; a block ends where it would get more.
pub const MAX_EXITS: usize = 24;
/// Room that must be left in a page for a block to take one more guest instruction: the longest translation, the words
/// that it puts into the cold part, and the exit that ends the block.
pub const ROOM: usize = 32;

/// The cold part of an inlined translation that may have to leave: its first word, and the one that leads back.
pub struct SlowPath {
    first: usize,
    back: usize,
}

/// See the module's text.
pub struct Emitter<'a> {
    page: Option<&'a mut [u32; PAGE_WORDS]>,
    base: CachePc,
    hot: usize,
    cold: usize,
    first_exit: u32,
    exits: [PendingExit; MAX_EXITS],
    exit_count: usize,
    guest: GuestVa,
    undo: Undo,
    wanted: Option<usize>,
    found: Option<Location>,
    mirror: Option<Window>,
    source: Option<&'a [u32; PAGE_WORDS]>,
}

impl<'a> Emitter<'a> {
    #[expect(clippy::too_many_arguments, reason = "where the block lies, and what it may use")]
    /// An emitter for the page at `base`, with words `hot..cold` free. `first_exit` is the number that its first exit
    /// will get. Without a `page` nothing is written; `wanted` is then the word to locate. Indirect branches go through
    /// `mirror` where they can. Constants may be taken from `source`, the guest's page.
    pub fn new(
        page: Option<&'a mut [u32; PAGE_WORDS]>,
        base: CachePc,
        hot: usize,
        cold: usize,
        first_exit: u32,
        wanted: Option<usize>,
        mirror: Option<Window>,
        source: Option<&'a [u32; PAGE_WORDS]>,
    ) -> Self {
        debug_assert!(hot >= HOT_FIELDS as usize / 4 && hot <= cold && cold <= PAGE_WORDS);
        let none = PendingExit { site: CachePc(0), stub: CachePc(0), target: GuestVa(0) };
        Emitter {
            page,
            base,
            hot,
            cold,
            first_exit,
            exits: [none; MAX_EXITS],
            exit_count: 0,
            guest: GuestVa(0),
            undo: Undo::NONE,
            wanted,
            found: None,
            mirror,
            source,
        }
    }

    /// The next free hot word.
    pub fn hot(&self) -> usize {
        self.hot
    }

    /// The lowest used cold word.
    pub fn cold(&self) -> usize {
        self.cold
    }

    /// The exits so far.
    pub fn exits(&self) -> &[PendingExit] {
        &self.exits[..self.exit_count]
    }

    /// What was found of the word that was wanted.
    pub fn found(&self) -> Option<Location> {
        self.found
    }

    /// Whether one more guest instruction fits, with the exit behind it.
    pub fn has_room(&self) -> bool {
        self.hot + ROOM <= self.cold && self.exit_count + 2 <= MAX_EXITS
    }

    /// The return mirror, if code at `pc` has one.
    pub fn mirror_of(&self, pc: GuestVa) -> Option<Window> {
        self.mirror.filter(|window| window.contains(pc.0))
    }

    /// The return mirror, if an indirect branch at `pc` is likely to have a target in it: code that has one, and high
    /// exception vectors.
    pub fn mirror_for(&self, pc: GuestVa) -> Option<Window> {
        const VECTORS: u32 = 0xffff_0000;
        self.mirror.filter(|window| window.contains(pc.0) || pc.0 >= VECTORS)
    }

    /// The guest's word at `at` in the page that is being translated, if it may be taken as a constant.
    pub fn source_word(&self, at: GuestVa) -> Option<u32> {
        let source = self.source?;
        (at.page() == self.guest.page() && at.0 & 3 == 0).then(|| source[at.page_offset() as usize / 4])
    }

    /// From now on words belong to the guest instruction at `pc`.
    pub fn begin(&mut self, pc: GuestVa) {
        self.guest = pc;
        self.undo = Undo::NONE;
    }

    /// From now on a fault has to be undone like this before the guest sees it.
    pub fn set_undo(&mut self, undo: Undo) {
        self.undo = undo;
    }

    /// Code-cache address of a word of this page.
    fn address(&self, word: usize) -> CachePc {
        self.base.wrapping_add(4 * word as u32)
    }

    fn put(&mut self, at: usize, word: u32) {
        if let Some(page) = &mut self.page {
            page[at] = word;
        }
        if self.wanted == Some(at) {
            self.found = Some(Location { guest: self.guest, undo: self.undo });
        }
    }

    /// Emits one hot word.
    pub fn emit(&mut self, word: u32) {
        debug_assert!(self.hot < self.cold, "the caller checked for room");
        self.put(self.hot, word);
        self.hot += 1;
    }

    /// Emits cold words; returns the index of the first.
    fn emit_cold<const N: usize>(&mut self, words: [u32; N]) -> usize {
        self.cold -= N;
        debug_assert!(self.hot <= self.cold, "the caller checked for room");
        for (n, word) in words.into_iter().enumerate() {
            self.put(self.cold + n, word);
        }
        self.cold
    }

    /// Offset in bytes for a PC-relative access from hot word `from` to word `to` of this page.
    fn relative(from: usize, to: usize) -> i32 {
        4 * (to as i32 - from as i32) - 8
    }

    /// `LDR`/`STR<cond> rt, [field of the vCPU page]` as it reads at word `at`.
    fn field_access(at: usize, load: bool, cond: Cond, rt: Reg, field: u32) -> u32 {
        debug_assert!(field < HOT_FIELDS);
        // The data page behind this one; the offset is below 4096 because the field lies below the instruction.
        let offset = (layout::PAGE + field) as i32 - 4 * at as i32 - 8;
        match asm::ldr_str(load, cond, rt, Reg::PC, offset) {
            Some(word) => word,
            None => unreachable!("code starts behind the hot fields"),
        }
    }

    /// `LDR`/`STR<cond> rt, [field of the vCPU page]`.
    pub fn page_field(&mut self, load: bool, cond: Cond, rt: Reg, field: u32) {
        self.emit(Self::field_access(self.hot, load, cond, rt, field));
    }

    /// `STRB<cond> rt, [lowest byte of a field of the vCPU page]`.
    pub fn store_page_byte(&mut self, cond: Cond, rt: Reg, field: u32) {
        let word = Self::field_access(self.hot, false, cond, rt, field);
        self.emit(asm::as_byte(word));
    }

    /// Puts a way out of an inlined translation into the cold part: it gets `spilled` back from spill slot 0, interprets
    /// `word`, the instruction being translated, and goes on where [`Self::end_slow`] says.
    pub fn begin_slow(&mut self, spilled: Reg, word: u32) -> SlowPath {
        let at = self.cold - 5;
        let reload = Self::field_access(at, true, Cond::Al, spilled, spica_vcpu::field::spill(0));
        self.emit_cold([reload, asm::svc(Cond::Al, crate::trap::EMULATE), word, self.guest.0, asm::NOP]);
        SlowPath { first: at, back: at + 4 }
    }

    /// The same with a trap of its own, `number`, instead of the interpreter.
    pub fn begin_slow_trap(&mut self, spilled: Reg, number: u32) -> SlowPath {
        let at = self.cold - 3;
        let reload = Self::field_access(at, true, Cond::Al, spilled, spica_vcpu::field::spill(0));
        self.emit_cold([reload, asm::svc(Cond::Al, number), asm::NOP]);
        SlowPath { first: at, back: at + 2 }
    }

    /// Emits a branch to the slow path.
    pub fn branch_slow(&mut self, slow: &SlowPath) {
        let offset = Self::relative(self.hot, slow.first);
        self.emit(asm::b(Cond::Al, offset).unwrap_or(asm::NOP));
    }

    /// The slow path goes on here.
    pub fn end_slow(&mut self, slow: SlowPath) {
        let offset = Self::relative(slow.back, self.hot);
        self.put(slow.back, asm::b(Cond::Al, offset).unwrap_or(asm::NOP));
    }

    /// `rd = value` by MOVW and MOVT.
    pub fn load_constant(&mut self, cond: Cond, rd: Reg, value: u32) {
        self.emit(asm::movw(cond, rd, value as u16));
        if value >> 16 != 0 {
            self.emit(asm::movt(cond, rd, (value >> 16) as u16));
        }
    }

    /// `rd = value` by one load of a cold literal.
    pub fn load_literal(&mut self, cond: Cond, rd: Reg, value: u32) {
        let literal = self.emit_cold([value]);
        let offset = Self::relative(self.hot, literal);
        match asm::ldr_str(true, cond, rd, Reg::PC, offset) {
            Some(word) => self.emit(word),
            None => unreachable!("a page is within reach of itself"),
        }
    }

    /// Emits a branch that is taken where `cond` does not hold, over words emitted until [`Self::end_skip`].
    pub fn begin_skip(&mut self, cond: Cond) -> Option<usize> {
        let inverse = cond.inverse()?;
        let site = self.hot;
        // The target is not known yet: a branch to itself keeps the place.
        self.emit(asm::b(inverse, 0).unwrap_or(asm::NOP));
        Some(site)
    }

    /// Makes the branch of [`Self::begin_skip`] land here.
    pub fn end_skip(&mut self, site: Option<usize>) {
        let Some(site) = site else { return };
        let offset = Self::relative(site, self.hot);
        if let Some(page) = &mut self.page {
            page[site] = page[site] & 0xff00_0000 | (offset >> 2) as u32 & 0x00ff_ffff;
        }
    }

    fn new_exit(&mut self, site: usize, stub: usize, target: GuestVa) -> u32 {
        let number = self.first_exit + self.exit_count as u32;
        self.exits[self.exit_count] = PendingExit { site: self.address(site), stub: self.address(stub), target };
        self.exit_count += 1;
        number
    }

    /// An exit to `target` that is always taken when reached.
    pub fn exit(&mut self, target: GuestVa) {
        let number = self.new_exit(self.hot, self.hot, target);
        self.emit(asm::svc(Cond::Al, crate::trap::LINK));
        self.emit(number);
    }

    /// A side exit to `target` that is taken where `cond` (not `Al`) holds: one hot instruction.
    pub fn side_exit(&mut self, cond: Cond, target: GuestVa) {
        let number = self.first_exit + self.exit_count as u32;
        let stub = self.emit_cold([asm::svc(Cond::Al, crate::trap::LINK), number]);
        self.new_exit(self.hot, stub, target);
        let offset = Self::relative(self.hot, stub);
        self.emit(asm::b(cond, offset).unwrap_or(asm::NOP));
    }

    /// A trap to the interpreter for `word`, the instruction that is being translated.
    pub fn emulate(&mut self, word: u32) {
        self.emit(asm::svc(Cond::Al, crate::trap::EMULATE));
        self.emit(word);
        self.emit(self.guest.0);
    }
}
