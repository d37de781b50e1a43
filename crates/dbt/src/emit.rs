//! The emitter: puts words into one code page and keeps account of which guest instruction each belongs to.
//!
//! Hot code grows upwards from [`layout::HOT_FIELDS`], cold words (exit stubs, ways out) grow downwards from the end of
//! the page. The same code runs in two ways: to write a block, and without a page to write to, to find the guest
//! instruction of a code-cache address (STAR §3.7.1); both must emit exactly the same words.

use crate::at::{address, is_thumb};
use crate::block::{Location, Undo};
use crate::layout::{self, HOT_FIELDS, PAGE_WORDS, Window};
use crate::papers::{Spilling, spill};
use crate::rules::{ModeChange, is_copied};
use core::cell::Cell;
use core::ops::Range;
use spica_addr::GuestVa;
use spica_isa::t32::{Code, ItState};
use spica_isa::{Cond, Reg, asm};

/// An exit of the block being emitted, by words of its code page.
#[derive(Clone, Copy, Debug)]
pub struct PendingExit {
    /// The word that is patched when the exit is linked.
    pub site: u16,
    /// The `SVC` of the exit; the same as `site` where the exit is unconditional.
    pub stub: u16,
}

/// At most this many exits in a block; a block ends where it would get more.
pub const MAX_EXITS: usize = 25;
/// Room for the exits of a block.
pub type Exits = [PendingExit; MAX_EXITS];
/// Nothing in it.
pub const NO_EXITS: Exits = [PendingExit { site: 0, stub: 0 }; MAX_EXITS];
/// Room that must be left in a page for a block to take one more guest instruction: the longest translation, the words
/// that it puts into the cold part, and the exit that ends the block.
pub(crate) const ROOM: usize = 32;

/// The cold part of an inlined translation that may have to leave: its first word, and the one that leads back.
pub struct SlowPath {
    first: usize,
    back: usize,
}

/// See the module's text.
pub struct Emitter<'a> {
    page: Option<&'a mut [u32; PAGE_WORDS]>,
    hot: usize,
    cold: usize,
    exits: &'a mut Exits,
    exit_count: usize,
    /// A bit for each exit that may be come to from another block, in another address space: the way back from a call.
    ways_back: u32,
    /// The instruction being translated; bit 0 is its state.
    guest: GuestVa,
    /// Its code, if it is T32.
    code: Option<Code>,
    it: ItState,
    /// The block goes no further than to here.
    last: GuestVa,
    undo: Undo,
    wanted: Option<usize>,
    found: Option<Location>,
    mirror: Option<Window>,
    source: Option<&'a [u32; PAGE_WORDS]>,
    /// The first and the last word of it that was asked for.
    constants: Cell<Option<(u16, u16)>>,
    /// The next instruction belongs to this block in any case: it overwrites this register.
    joined: Option<Reg>,
    /// For so many instructions that follow, it is known that User mode may do them.
    checked: u8,
    /// What the T32 instructions so far look like they do.
    pub(crate) mode_change: ModeChange,
    /// The T32 code that may belong to this block behind the instruction being translated: instructions, and up to
    /// which address, if that is known.
    may_take: (usize, Option<GuestVa>),
    /// How many of these its translation stands for as well, and their bytes.
    taken: (usize, u32),
    pub(crate) spilling: Spilling,
    /// The block loads registers of User mode: an exception return behind that leads there.
    pub(crate) loads_user_bank: bool,
}

impl<'a> Emitter<'a> {
    /// An emitter for a page, with words `free`. Without a `page` nothing is written; `wanted` is then the
    /// word to locate. Indirect branches go through `mirror` where they can. Constants may be taken from `source`, the
    /// guest's page. Registers are spilled as `spilling` says. Exits are noted in `exits`, whatever is there.
    pub fn new(
        page: Option<&'a mut [u32; PAGE_WORDS]>,
        free: Range<usize>,
        wanted: Option<usize>,
        mirror: Option<Window>,
        source: Option<&'a [u32; PAGE_WORDS]>,
        spilling: Spilling,
        exits: &'a mut Exits,
    ) -> Self {
        let Range { start: hot, end: cold } = free;
        debug_assert!(hot >= HOT_FIELDS as usize / 4 && hot <= cold && cold <= PAGE_WORDS);
        const { assert!(MAX_EXITS <= 32, "there is a bit for each exit") }
        Emitter {
            page,
            hot,
            cold,
            exits,
            exit_count: 0,
            ways_back: 0,
            guest: GuestVa(0),
            code: None,
            it: ItState::OUTSIDE,
            last: GuestVa(0),
            undo: Undo::NONE,
            wanted,
            found: None,
            mirror,
            source,
            constants: Cell::new(None),
            joined: None,
            checked: 0,
            mode_change: ModeChange::None,
            may_take: (0, None),
            taken: (0, 0),
            spilling,
            loads_user_bank: false,
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

    /// The exits so far, each with whether it is the way back from a call.
    pub fn exits(&self) -> impl ExactSizeIterator<Item = (PendingExit, bool)> {
        let exits = self.exits[..self.exit_count].iter().enumerate();
        exits.map(|(n, &exit)| (exit, self.ways_back >> n & 1 != 0))
    }

    /// What was found of the word that was wanted.
    pub fn found(&self) -> Option<Location> {
        self.found
    }

    /// Whether one more guest instruction fits, with the exit behind it.
    pub fn has_room(&self) -> bool {
        self.hot + self.spilling.room() <= self.cold && self.exit_count + 3 <= MAX_EXITS
    }

    /// The same beside `more` words.
    #[inline(always)]
    pub fn has_room_beside(&self, more: usize) -> bool {
        self.has_room() && (more == 0 || self.hot + self.spilling.room() + more <= self.cold)
    }

    /// The return mirror, if code at `pc` has one.
    pub fn mirror_of(&self, pc: GuestVa) -> Option<Window> {
        self.mirror.filter(|window| window.has(pc))
    }

    /// The return mirror, if an indirect branch at `pc` is likely to have a target in it: code that has one, and high
    /// exception vectors.
    pub fn mirror_for(&self, pc: GuestVa) -> Option<Window> {
        const VECTORS: u32 = 0xffff_0000;
        self.mirror.filter(|window| window.has(pc) || pc.0 >= VECTORS && window.t32 == is_thumb(pc))
    }

    /// The guest's word at `at` in the page that is being translated, if it may be taken as a constant.
    pub fn source_word(&self, at: GuestVa) -> Option<u32> {
        let source = self.source.filter(|_| at.page() == self.guest.page() && at.0 & 3 == 0)?;
        let word = (at.page_offset() / 4) as u16;
        let (first, last) = self.constants.get().unwrap_or((word, word));
        self.constants.set(Some((first.min(word), last.max(word))));
        Some(source[usize::from(word)])
    }

    /// The first and the last word of the page that the translation rests on beside the instructions' own: all that
    /// [`Self::source_word`] was asked for lies between them.
    pub fn constants(&self) -> Option<(u16, u16)> {
        self.constants.get()
    }

    /// The word of the guest's instruction so many behind the one at hand, as [`Self::source_word`], if that may belong
    /// to this block.
    pub fn word_behind(&self, instructions: u32) -> Option<u32> {
        let left = self.last.0.wrapping_sub(self.guest.0);
        let may = self.code.is_none() && 4 * instructions <= left;
        if may { self.source_word(self.guest.wrapping_add(4 * instructions)) } else { None }
    }

    /// The same for the next three.
    pub fn next_words(&self) -> Option<[u32; 3]> {
        if self.code.is_some() {
            return None;
        }
        let next = |n: u32| self.source_word(self.guest.wrapping_add(4 * n));
        Some([next(1)?, next(2)?, next(3)?])
    }

    /// The next half-words of T32 code, as [`Self::source_word`].
    pub fn next_halves<const N: usize>(&self) -> Option<[u16; N]> {
        let behind = address(self.guest).wrapping_add(self.code?.length());
        let mut halves = [0; N];
        for (n, half) in halves.iter_mut().enumerate() {
            let at = behind.0.wrapping_add(2 * n as u32);
            *half = (self.source_word(GuestVa(at & !3))? >> (8 * (at & 2))) as u16;
        }
        Some(halves)
    }

    /// The block must not end behind this instruction: `lost` gets a value of ours, and is right again only behind the
    /// next one, which has to be translated to one word; or behind the one that comes behind an ISB.
    pub fn join_next(&mut self, lost: Reg) {
        self.joined = Some(lost);
    }

    /// The `more` instructions that follow are unprivileged accesses that need no check any more.
    pub fn set_checked(&mut self, more: u8) {
        self.checked = more;
    }

    /// Whether that is so of the one at hand.
    pub fn take_checked(&mut self) -> bool {
        let checked = self.checked != 0;
        self.checked = self.checked.saturating_sub(1);
        checked
    }

    /// What the instruction that was translated last has lost, if it is joined to the next.
    pub fn take_joined(&mut self) -> Option<Reg> {
        self.joined.take()
    }

    /// The block goes no further than to the instruction at `pc`.
    pub(crate) fn set_last(&mut self, pc: GuestVa) {
        self.last = pc;
    }

    /// From now on words belong to the guest instruction at `pc`.
    pub fn begin(&mut self, pc: GuestVa) {
        self.guest = pc;
        self.undo = Undo::NONE;
        (self.code, self.it) = (None, ItState::OUTSIDE);
    }

    /// The same in Thumb state, with the `code` of the instruction, if one follows, in this state of its IT block.
    pub fn begin_t32(&mut self, pc: GuestVa, code: Option<Code>, it: ItState) {
        self.begin(pc);
        (self.code, self.it) = (code, it);
    }

    /// So many instructions behind this one may belong to its block, but none from `stop` on.
    pub(crate) fn set_may_take(&mut self, instructions: usize, stop: Option<GuestVa>) {
        self.may_take = (instructions, stop);
    }

    /// The translation of this instruction stands for so many behind it, of `bytes` together, if they may belong to the
    /// block.
    pub fn take_next(&mut self, instructions: usize, bytes: u32) -> bool {
        let (most, stop) = self.may_take;
        let first = address(self.guest).0.wrapping_add(self.code.map_or(4, Code::length));
        let stops = stop.is_some_and(|stop| stop.0.wrapping_sub(first) < bytes);
        let takes = instructions <= most && !stops;
        self.taken = if takes { (instructions, bytes) } else { (0, 0) };
        takes
    }

    /// How many that are, and their bytes.
    pub(crate) fn take_taken(&mut self) -> (usize, u32) {
        core::mem::take(&mut self.taken)
    }

    /// The state of the IT block that the instruction is executed in.
    pub fn it(&self) -> ItState {
        self.it
    }

    /// From now on a fault has to be undone like this before the guest sees it.
    pub fn set_undo(&mut self, undo: Undo) {
        self.undo = undo;
    }

    /// How a fault has to be undone now.
    pub fn undo(&self) -> Undo {
        self.undo
    }

    fn put(&mut self, at: usize, word: u32) {
        if let Some(page) = &mut self.page {
            page[at] = word;
        }
        if self.wanted == Some(at) {
            self.found = Some(Location { guest: self.guest, it: self.it, undo: self.undo });
        }
    }

    /// Emits one hot word.
    pub fn emit(&mut self, word: u32) {
        debug_assert!(self.hot < self.cold, "the caller checked for room");
        self.put(self.hot, word);
        self.hot += 1;
    }

    /// Emits the instructions from `pc` on, at most `most`, as long as they are [copied](is_copied) and there is room:
    /// how many. There is for the first.
    #[inline(always)]
    pub(crate) fn copy(&mut self, pc: GuestVa, most: usize, fetch: &mut impl FnMut(GuestVa) -> u32) -> usize {
        let first = self.hot;
        let most = most.min((self.cold - first).saturating_sub(self.spilling.room()) + 1);
        let mut copied = 0;
        while copied < most {
            let word = fetch(pc.wrapping_add(4 * copied as u32));
            if !is_copied(word) {
                break;
            }
            if let Some(page) = &mut self.page {
                page[first + copied] = word;
            }
            copied += 1;
        }
        if let Some(at) = self.wanted.and_then(|wanted| wanted.checked_sub(first)).filter(|&at| at < copied) {
            let guest = pc.wrapping_add(4 * at as u32);
            self.found = Some(Location { guest, it: ItState::OUTSIDE, undo: Undo::NONE });
        }
        self.hot += copied;
        copied
    }

    /// Emits cold words; returns the index of the first.
    pub(crate) fn emit_cold(&mut self, words: &[u32]) -> usize {
        self.cold -= words.len();
        debug_assert!(self.hot <= self.cold, "the caller checked for room");
        for (n, &word) in words.iter().enumerate() {
            self.put(self.cold + n, word);
        }
        self.cold
    }

    /// Offset in bytes for a PC-relative access from hot word `from` to word `to` of this page.
    pub(crate) fn relative(from: usize, to: usize) -> i32 {
        4 * (to as i32 - from as i32) - 8
    }

    /// `LDR`/`STR<cond> rt, [field of the vCPU page]` as it reads at word `at`.
    pub(crate) fn field_access(at: usize, load: bool, cond: Cond, rt: Reg, field: u32) -> u32 {
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

    /// Frees `reg`, until [`Self::reload`]. There is one such register at a time.
    pub fn spill(&mut self, cond: Cond, reg: Reg) {
        self.make_slot(reg);
        self.access_spilled(false, cond, reg);
        self.undo.spilled = Some((reg, self.place(reg)));
    }

    /// Gets `reg` back.
    pub fn reload(&mut self, cond: Cond, reg: Reg) {
        self.access_spilled(true, cond, reg);
        self.undo.spilled = None;
    }

    fn access_spilled(&mut self, load: bool, cond: Cond, reg: Reg) {
        let sequence = self.spilled_access(self.hot, load, cond, reg);
        sequence.iter().for_each(|&word| self.emit(word));
    }

    /// Puts a way out of an inlined translation into the cold part: it gets `spilled` back, interprets `word`, the
    /// instruction being translated, and goes on where [`Self::end_slow`] says.
    pub fn begin_slow(&mut self, spilled: Reg, word: u32) -> SlowPath {
        let [svc, code, guest] = self.emulation(word);
        self.slow_path(spilled, &[svc, code, guest, asm::NOP])
    }

    /// The same where the translation stands for others behind the instruction, too: the guest goes on at `next`.
    pub fn begin_slow_alone(&mut self, spilled: Reg, word: u32, next: GuestVa) -> SlowPath {
        let [svc, code, guest] = self.emulation(word);
        let slow = self.slow_path(spilled, &[svc, code, guest, asm::svc(Cond::Al, crate::trap::LINK), next.0]);
        self.new_exit(slow.back - 1, slow.back - 1);
        slow
    }

    /// The same with a trap of its own, `number`, instead of the interpreter.
    pub fn begin_slow_trap(&mut self, spilled: Reg, number: u32) -> SlowPath {
        self.slow_path(spilled, &[asm::svc(Cond::Al, number), asm::NOP])
    }

    /// The same with a trap whose operand `rn` holds.
    pub fn begin_slow_operand(&mut self, spilled: Reg, number: u32, rn: Reg) -> SlowPath {
        const WORDS: usize = 3;
        let store = Self::field_access(self.cold - WORDS, false, Cond::Al, rn, spica_vcpu::field::TARGET);
        let slow: [u32; WORDS] = [store, asm::svc(Cond::Al, number), asm::NOP];
        self.slow_path(spilled, &slow)
    }

    /// The same where no register is spilled.
    pub fn begin_slow_trap_unspilled(&mut self, number: u32) -> SlowPath {
        let first = self.emit_cold(&[asm::svc(Cond::Al, number), asm::NOP]);
        SlowPath { first, back: first + 1 }
    }

    fn slow_path(&mut self, spilled: Reg, then: &[u32]) -> SlowPath {
        self.make_slot(spilled);
        let len = self.spilled_access(self.cold, true, Cond::Al, spilled).len();
        let first = self.cold - then.len() - len;
        let reload = self.spilled_access(first, true, Cond::Al, spilled);
        // Downwards: the reload comes first.
        let back = self.emit_cold(then) + then.len() - 1;
        self.emit_cold(&reload);
        SlowPath { first, back }
    }

    /// Emits a branch to the slow path.
    pub fn branch_slow(&mut self, slow: &SlowPath) {
        self.branch_to(slow.first);
    }

    /// Emits a branch to a word of this page.
    pub fn branch_to(&mut self, word: usize) {
        let offset = Self::relative(self.hot, word);
        self.emit(asm::b(Cond::Al, offset).unwrap_or(asm::NOP));
    }

    /// The slow path goes on here.
    pub fn end_slow(&mut self, slow: SlowPath) {
        let offset = Self::relative(slow.back, self.hot);
        self.put(slow.back, asm::b(Cond::Al, offset).unwrap_or(asm::NOP));
    }

    /// `rd = value` by MOVW and MOVT, or one of the two. A literal would take one instruction, but an entry of the data
    /// TLB for the code page, and a line of the data cache.
    pub fn load_constant(&mut self, cond: Cond, rd: Reg, value: u32) {
        if value == u32::MAX {
            return self.emit(asm::all_ones(cond, rd));
        }
        self.emit(asm::movw(cond, rd, value as u16));
        if value >> 16 != 0 {
            self.emit(asm::movt(cond, rd, (value >> 16) as u16));
        }
    }

    /// A cold literal.
    #[cfg(feature = "papers")]
    pub fn literal(&mut self, value: u32) -> usize {
        self.emit_cold(&[value])
    }

    /// `rd` = a literal.
    #[cfg(feature = "papers")]
    pub fn load(&mut self, cond: Cond, rd: Reg, literal: usize) {
        match asm::ldr_str(true, cond, rd, Reg::PC, Self::relative(self.hot, literal)) {
            Some(word) => self.emit(word),
            None => unreachable!("a page is within reach of itself"),
        }
    }

    /// Emits a branch that is taken where `cond` does not hold, over words emitted until [`Self::end_skip`].
    pub fn begin_skip(&mut self, cond: Cond) -> Option<usize> {
        let inverse = cond.inverse()?;
        Some(self.begin_over(inverse))
    }

    /// Emits a branch that is taken where `cond` holds, over words emitted until [`Self::end_skip`].
    pub fn begin_over(&mut self, cond: Cond) -> usize {
        let site = self.hot;
        // The target is not known yet: a branch to itself keeps the place.
        self.emit(asm::b(cond, 0).unwrap_or(asm::NOP));
        site
    }

    /// Makes the branch of [`Self::begin_skip`] land here.
    pub fn end_skip(&mut self, site: Option<usize>) {
        let Some(site) = site else { return };
        let offset = Self::relative(site, self.hot);
        if let Some(page) = &mut self.page {
            page[site] = page[site] & 0xff00_0000 | (offset >> 2) as u32 & 0x00ff_ffff;
        }
    }

    fn new_exit(&mut self, site: usize, stub: usize) {
        self.exits[self.exit_count] = PendingExit { site: site as u16, stub: stub as u16 };
        self.exit_count += 1;
    }

    /// The exit before is the way back from a call.
    #[cfg(feature = "papers")]
    pub(crate) fn mark_way_back(&mut self) {
        self.ways_back |= 1 << (self.exit_count - 1);
    }

    /// An exit to `target` that is always taken when reached.
    pub fn exit(&mut self, target: GuestVa) {
        self.new_exit(self.hot, self.hot);
        self.emit(asm::svc(Cond::Al, crate::trap::LINK));
        self.emit(target.0);
    }

    /// A side exit to `target` that is taken where `cond` (not `Al`) holds: one hot instruction.
    pub fn side_exit(&mut self, cond: Cond, target: GuestVa) {
        let stub = self.emit_cold(&[asm::svc(Cond::Al, crate::trap::LINK), target.0]);
        self.new_exit(self.hot, stub);
        let offset = Self::relative(self.hot, stub);
        self.emit(asm::b(cond, offset).unwrap_or(asm::NOP));
    }

    /// A trap to the interpreter for `word`, the instruction that is being translated.
    pub fn emulate(&mut self, word: u32) {
        self.emulation(word).into_iter().for_each(|word| self.emit(word));
    }

    /// The trap to the interpreter for the instruction that is being translated, which is `word` if it is A32.
    fn emulation(&self, word: u32) -> [u32; 3] {
        match self.code {
            None => [asm::svc(Cond::Al, crate::trap::EMULATE), spill::literal(word), self.guest.0],
            Some(code) => {
                [asm::svc(Cond::Al, crate::trap::emulate_t32(self.it)), spill::literal_t32(code.bits()), self.guest.0]
            }
        }
    }

    /// The end of a block in front of the instruction at `target`, in Thumb state, in this state of its IT block.
    pub fn exit_t32(&mut self, target: GuestVa, it: ItState) {
        if it.in_block() {
            self.emit(asm::svc(Cond::Al, crate::trap::in_it(it)));
            self.emit(target.0);
        } else {
            self.exit(target);
        }
    }
}
