//! Clients of the translator: what else translated code is to do, for somebody who looks at the guest from outside.
//!
//! A client sees where *runs* begin and end: instructions of a block that are executed one behind the other, from
//! the block's beginning, or from behind an instruction by which it may be left, to the next such instruction or the
//! block's end. Where a run begins, the client may emit words, which leave registers and flags as they are. Without a
//! client, which is `()`, nothing of this is left in what the compiler makes of [`crate::block`].
//!
//! One client is here: [`CountRuns`], with the [`Counters`] that its code counts in; another one is
//! [`crate::checks::CheckAccesses`]. What is executed of a run that is
//! left in its middle, by an exception, is put right by whoever handles that ([`Translator::leave_run`]): a run that
//! was left early is one that was shorter.
//!
//! [`Translator::leave_run`]: crate::Translator::leave_run

use crate::cache::CodeMemory;
use crate::emit::Emitter;
use crate::layout::{Layout, PAGE_WORDS};
use crate::records::MAX_LENGTH;
use crate::trap;
use spica_addr::GuestVa;
use spica_isa::{Cond, Decoded, Reg, asm};
use spica_vcpu::field;

/// See the module's text.
pub trait Client {
    /// Words that it emits at most where a run begins, or in front of an instruction.
    const ROOM: usize;

    /// A run begins with the instruction at `pc`.
    fn run_begins(&mut self, e: &mut Emitter<'_>, pc: GuestVa);

    /// The run ends in front of `pc`.
    fn run_ends(&mut self, pc: GuestVa);

    /// The instruction at `pc` is translated next. What the client emits here is counted in [`Self::ROOM`], too.
    #[inline(always)]
    fn instruction(&mut self, e: &mut Emitter<'_>, d: &Decoded, pc: GuestVa) {
        let _ = (e, d, pc);
    }
}

/// Nobody.
impl Client for () {
    const ROOM: usize = 0;

    #[inline(always)]
    fn run_begins(&mut self, _: &mut Emitter<'_>, _: GuestVa) {}

    #[inline(always)]
    fn run_ends(&mut self, _: GuestVa) {}
}

/// A run of A32 instructions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// The first one's address.
    pub start: GuestVa,
    /// How many there are.
    pub length: u32,
}

/// Words of a counter's code, without samples.
const COUNT: usize = 14;
/// In it, where the address of the counter is loaded, by two words each time.
const ADDRESSES: [usize; 2] = [3, 8];
/// Words more where samples are taken.
const SAMPLE: usize = 8;
/// Where, with samples, the run's length is subtracted.
const LENGTH: usize = 15;

/// Emits code that counts executions of each run, in 64 bits. With samples, it also takes the run's length from a
/// countdown, and traps where that falls below 0 ([`trap::SAMPLE`]).
pub(crate) struct CountRuns {
    runs: [(Run, u16); MAX_LENGTH + 1],
    count: usize,
    /// The address of the countdown, if there are samples.
    countdown: Option<u32>,
}

impl CountRuns {
    pub(crate) const fn new(countdown: Option<u32>) -> CountRuns {
        CountRuns { runs: [(Run { start: GuestVa(0), length: 0 }, 0); MAX_LENGTH + 1], count: 0, countdown }
    }

    /// The runs of the block, each with the first word of its counter's code.
    pub(crate) fn runs(&self) -> impl Iterator<Item = (Run, usize)> {
        self.runs[..self.count].iter().map(|&(run, site)| (run, site.into()))
    }
}

impl Client for CountRuns {
    const ROOM: usize = COUNT + SAMPLE;

    fn run_begins(&mut self, e: &mut Emitter<'_>, pc: GuestVa) {
        let Some(place) = self.runs.get_mut(self.count) else { return };
        *place = (Run { start: pc, length: 0 }, e.hot() as u16);
        self.count += 1;
        // A multiplication that accumulates adds to 64 bits and leaves the flags alone. Slot 3 may be the guest's LR.
        let [lo, hi, address] = [0, 1, 2].map(Reg::new);
        let spilled = [lo, hi, address];
        for (slot, reg) in (0..).zip(spilled) {
            e.page_field(false, Cond::Al, reg, field::spill(slot));
        }
        load_address(e, address);
        e.emit(LDRD_R0_R2);
        e.emit(MOV_R2_1);
        e.emit(UMLAL_R0_R1_1);
        load_address(e, address);
        e.emit(STRD_R0_R2);
        if let Some(countdown) = self.countdown {
            e.emit(asm::movw(Cond::Al, address, countdown as u16));
            e.emit(asm::movt(Cond::Al, address, (countdown >> 16) as u16));
            e.emit(LDR_R0_R2);
            e.emit(asm::mrs(Cond::Al, hi));
            e.emit(SUBS_R0);
            e.emit(STR_R0_R2);
            e.emit(asm::svc(Cond::Mi, trap::SAMPLE));
            e.emit(MSR_FLAGS_R1);
        }
        for (slot, reg) in (0..).zip(spilled) {
            e.page_field(true, Cond::Al, reg, field::spill(slot));
        }
    }

    fn run_ends(&mut self, pc: GuestVa) {
        if let Some((run, _)) = self.count.checked_sub(1).and_then(|last| self.runs.get_mut(last)) {
            run.length = pc.0.wrapping_sub(run.start.0) / 4;
        }
    }
}

/// The address is not known yet: see [`set_address`].
fn load_address(e: &mut Emitter<'_>, reg: Reg) {
    e.emit(asm::movw(Cond::Al, reg, 0));
    e.emit(asm::movt(Cond::Al, reg, 0));
}

/// `LDRD R0, R1, [R2]` (A8.8.72).
const LDRD_R0_R2: u32 = 0xe1c2_00d0;
/// `STRD R0, R1, [R2]` (A8.8.210).
const STRD_R0_R2: u32 = 0xe1c2_00f0;
/// `MOV R2, #1` (A8.8.102).
const MOV_R2_1: u32 = 0xe3a0_2001;
/// `UMLAL R0, R1, R2, R2` (A8.8.256).
const UMLAL_R0_R1_1: u32 = 0xe0a1_0292;

/// `LDR R0, [R2]` (A8.8.63).
const LDR_R0_R2: u32 = 0xe592_0000;
/// `STR R0, [R2]` (A8.8.204).
const STR_R0_R2: u32 = 0xe582_0000;
/// `SUBS R0, R0, #0` (A8.8.222), which gets the run's length.
const SUBS_R0: u32 = 0xe250_0000;
/// `MSR APSR_nzcvqg, R1` (A8.8.112).
const MSR_FLAGS_R1: u32 = 0xe12c_f001;

/// Makes the counter's code at word `site`, which is one with samples or without, count `run` at `address`.
pub(crate) fn set_run(page: &mut [u32; PAGE_WORDS], site: usize, run: Run, address: u32, samples: bool) {
    if samples {
        page[site + LENGTH] = SUBS_R0 | run.length;
    }
    for at in ADDRESSES {
        page[site + at] = asm::movw(Cond::Al, Reg::new(2), address as u16);
        page[site + at + 1] = asm::movt(Cond::Al, Reg::new(2), (address >> 16) as u16);
    }
}

/// How many executions of each run have begun: a table in the last of the code pages, which translated code writes to
/// meanwhile. So a guest pays with its own memory, and what it may write over there is what it is told of itself.
///
/// An entry has four words: the run's start, its length, which is 0 where there is no entry, and the count, its low
/// half first. It is found by hashing. The entry behind the table's end counts what has found no place; its first word
/// is the countdown to the next sample.
///
/// A page of the table is cleared when its first entry is made: all of them would be a megabyte in one go. Until then
/// it has what the code cache has left there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Counters {
    first_page: u32,
    entries: usize,
    /// The pages that are cleared, a bit for each.
    cleared: [u32; MOST_PAGES / 32],
    /// Runs that have found no place, and blocks of T32 code, which have none, as often as they were translated.
    missed: u32,
    /// Whether samples are taken.
    samples: bool,
}

/// Words of an entry.
const ENTRY: usize = 4;
/// Entries of a page.
const IN_PAGE: usize = PAGE_WORDS / ENTRY;
/// Places that a run may have.
const PROBES: usize = 64;
/// Of so many code pages, one is for counters.
const SHARE: u32 = 4;
/// Pages of the table at most.
const MOST_PAGES: usize = 512;

/// A run, and how often it has begun. What it says may be the guest's own invention.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Counted {
    /// The run.
    pub run: Run,
    /// How often.
    pub count: u64,
}

impl Counters {
    /// An empty table in pages of `layout`, for code that asks for samples or does not.
    pub(crate) fn new(layout: &Layout, samples: bool, memory: &mut impl CodeMemory) -> Counters {
        let pages = (layout.pages / SHARE).clamp(1, MOST_PAGES as u32);
        let first_page = layout.pages - pages;
        let entries = (pages as usize * IN_PAGE).saturating_sub(1);
        let mut counters = Counters { first_page, entries, cleared: [0; MOST_PAGES / 32], missed: 0, samples };
        // That of what finds no place.
        counters.clear(entries, memory);
        counters
    }

    /// Where the page of an entry is marked as cleared, and how.
    const fn mark(entry: usize) -> (usize, u32) {
        let page = entry / IN_PAGE;
        (page / 32, 1 << (page % 32))
    }

    /// Whether the page of an entry is cleared. If not, there are no entries in it.
    fn is_cleared(&self, entry: usize) -> bool {
        let (at, bit) = Self::mark(entry);
        self.cleared.get(at).is_some_and(|marks| marks & bit != 0)
    }

    /// Clears the page of an entry, if that has not been done.
    fn clear(&mut self, entry: usize, memory: &mut impl CodeMemory) {
        let (at, bit) = Self::mark(entry);
        if !self.is_cleared(entry)
            && let Some(marks) = self.cleared.get_mut(at)
        {
            *marks |= bit;
            memory.page(self.place(entry).0).fill(0);
        }
    }

    /// The first page of the table.
    pub(crate) const fn first_page(&self) -> u32 {
        self.first_page
    }

    /// How many runs have places at most.
    #[must_use]
    pub const fn entries(&self) -> usize {
        self.entries
    }

    /// See the field.
    #[must_use]
    pub const fn missed(&self) -> u32 {
        self.missed
    }

    /// See the field.
    pub(crate) const fn samples(&self) -> bool {
        self.samples
    }

    /// Where the countdown is, for translated code, if samples are taken.
    pub(crate) fn countdown_address(&self, layout: &Layout) -> Option<u32> {
        let (page, word) = self.place(self.entries);
        self.samples.then(|| layout.code_page(page).0 + 4 * word as u32)
    }

    /// How many instructions the guest's kernel executes until the next sample; below 0, one is due. Translated code
    /// counts it down, if samples are taken. It may be the guest's own invention.
    pub fn countdown<'a>(&self, memory: &'a mut impl CodeMemory) -> &'a mut u32 {
        let (page, word) = self.place(self.entries);
        &mut memory.page(page)[word]
    }

    /// Something is not counted.
    pub(crate) const fn miss(&mut self) {
        self.missed = self.missed.saturating_add(1);
    }

    const fn place(&self, entry: usize) -> (u32, usize) {
        (self.first_page + (entry / IN_PAGE) as u32, entry % IN_PAGE * ENTRY)
    }

    /// The entry of a run, made if need be; the last one where there is no place.
    fn entry(&mut self, run: Run, memory: &mut impl CodeMemory) -> usize {
        // Starts are words, lengths are small: this spreads both over the table.
        let key = (run.start.0 >> 2) ^ run.length << 24;
        let spread = u64::from(key.wrapping_mul(0x9e37_79b1)) * self.entries as u64;
        let first = (spread >> 32) as usize;
        for probe in 0..PROBES.min(self.entries) {
            let entry = (first + probe) % self.entries;
            self.clear(entry, memory);
            let (page, word) = self.place(entry);
            let words = &mut memory.page(page)[word..word + 2];
            if words[1] == 0 {
                words.copy_from_slice(&[run.start.0, run.length]);
                return entry;
            }
            if words == [run.start.0, run.length] {
                return entry;
            }
        }
        self.miss();
        self.entries
    }

    /// Where the count of a run is, for translated code.
    pub(crate) fn address(&mut self, run: Run, layout: &Layout, memory: &mut impl CodeMemory) -> u32 {
        let entry = self.entry(run, memory);
        let (page, word) = self.place(entry);
        layout.code_page(page).0 + 4 * (word as u32 + 2)
    }

    /// Adds to the count of a run, or takes away from it.
    pub(crate) fn add(&mut self, run: Run, difference: i64, memory: &mut impl CodeMemory) {
        if run.length == 0 {
            return;
        }
        let entry = self.entry(run, memory);
        let (page, word) = self.place(entry);
        let words = &mut memory.page(page)[word + 2..word + 4];
        let count = u64::from(words[0]) | u64::from(words[1]) << 32;
        let count = count.wrapping_add_signed(difference);
        words.copy_from_slice(&[count as u32, (count >> 32) as u32]);
    }

    /// The next run that has begun at least once, in entry `from` or behind, with the number of the entry behind it;
    /// looks through one page at most. `Err` says where to look next, `Ok(None)` that there is none.
    ///
    /// # Errors
    /// That is none: see above.
    pub fn next(&self, from: usize, memory: &mut impl CodeMemory) -> Result<Option<(Counted, usize)>, usize> {
        for entry in (from..self.entries.min(from + IN_PAGE)).filter(|&entry| self.is_cleared(entry)) {
            let (page, word) = self.place(entry);
            let [start, length, low, high] = [0, 1, 2, 3].map(|n: usize| memory.page(page)[word + n]);
            let count = u64::from(low) | u64::from(high) << 32;
            if length != 0 && count != 0 {
                return Ok(Some((Counted { run: Run { start: GuestVa(start), length }, count }, entry + 1)));
            }
        }
        if from + IN_PAGE < self.entries { Err(from + IN_PAGE) } else { Ok(None) }
    }

    /// How many executions have no entry of their own.
    pub fn uncounted(&self, memory: &mut impl CodeMemory) -> u64 {
        let (page, word) = self.place(self.entries);
        let words = &memory.page(page)[word..word + ENTRY];
        u64::from(words[2]) | u64::from(words[3]) << 32
    }
}
