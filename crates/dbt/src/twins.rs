//! The copies of pages that run in place: which there are, what is in them, and which must not be mapped any more.
//!
//! A *twin* is a copy of a page of the guest's text for one virtual address, with what is sensitive replaced
//! ([`crate::in_place`]). It is found by that address, and by the guest's page. The memory of all of them is taken at
//! the start, and so is that of their records.
//!
//! Twins lie in *groups* of [`GROUP`], as many as are in a large page (B3.5.1). A group is for the twins of one 64 KiB
//! region of virtual addresses, each at its place: when all of them are there, one entry of the TLB can map them. Or it
//! is for twins from anywhere. When no group is left, those go, and with them some regions' twins.
//!
//! What a kernel executes while it starts is not what it executes later. So now and then it is [looked
//! anew](Twins::look_anew) which twins are executed, and regions that got no group get those of regions that are not
//! executed any more ([`Twins::gather`]).

mod lately;
mod patches;

use alloc::vec;
use alloc::vec::Vec;
use core::ops::RangeInclusive;

use spica_addr::{CachePc, GuestPa, GuestVa};
use spica_isa::{Cond, asm};

use crate::in_place::{Text, WordSet, Words, instead, stub_length};
use crate::layout::{PAGE, PAGE_WORDS, Window};
use crate::originals::Originals;
use crate::records;
use crate::{CodeMemory, Translator, trap};

use lately::{Clock, Lately};
pub use patches::Patchable;

/// No twin, where a twin's number is expected.
const NONE: u16 = u16::MAX;
/// Lists by PA.
const LISTS: usize = 1024;
/// A twin goes whose page was [lately](Lately) written so often: some 2,000 times in a second. A kernel whose function
/// tracer is turned on and off twice in that time writes 1,400 times to a page full of small functions.
const MOST_WRITES: u16 = 4096;
/// A page does not run in place of which so many copies were made lately, as one by one they had to go.
const MOST_COPIES: u16 = 16;
/// How many twins are in a group.
pub const GROUP: usize = 16;
/// One of so many groups is kept for twins from anywhere.
const SHARED_PART: usize = 8;
/// So many pages of a region are executed if they are worth to be mapped as one.
const BUSY: u32 = 2;
/// No group, where a group's number is expected.
const NO_GROUP: u16 = u16::MAX;
/// The same, but there should be one, and none was free.
const WANTED: u16 = NO_GROUP - 1;
/// Where no page of the guest's is, nor is asked for.
const NOWHERE: GuestPa = GuestPa(u32::MAX);

/// The memory of the twins.
pub trait TwinMemory {
    /// The words of twin `number`, to be read and written.
    fn twin(&mut self, number: u16) -> &mut Words;
    /// Makes words `first..first + words` of a twin, just written, visible to instruction fetches (B2.2.9). It is
    /// executed at `va` and nowhere else, and has been mapped there.
    fn publish_twin(&mut self, number: u16, va: GuestVa, first: usize, words: usize);
    /// Words `first..first + words` of a twin were just written, which is mapped nowhere. Before it is,
    /// [`Self::publish_cleaned`] follows.
    fn clean_twin(&mut self, number: u16, first: usize, words: usize);
    /// Makes all visible to instruction fetches that was [cleaned](Self::clean_twin) before.
    fn publish_cleaned(&mut self);
}

/// The same with the code cache, which has the stubs.
pub trait StubMemory: TwinMemory {
    /// The memory of the code cache.
    type Code: CodeMemory;
    /// See [`Self::Code`].
    fn code(&mut self) -> &mut Self::Code;
}

struct Twin {
    va: GuestVa,
    pa: GuestPa,
    next_by_pa: u16,
    writes: Lately,
    replaced: WordSet,
    /// Some of its words lead to stubs.
    leads: bool,
}

impl Twin {
    const NONE: Twin = Twin {
        va: GuestVa(0),
        pa: NOWHERE,
        next_by_pa: NONE,
        writes: Lately::NEVER,
        replaced: WordSet::EMPTY,
        leads: false,
    };
}

/// What a group's twins are of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Of {
    /// It has none.
    Nothing,
    /// Pages from anywhere.
    Anything,
    /// The pages of the region with this number in the window, in their order.
    Region(u16),
}

#[derive(Clone, Copy)]
struct Group {
    of: Of,
    /// A bit for each place that has a twin.
    used: u16,
    /// A bit for each place of a region for whose twin nobody has asked yet.
    left: u16,
    /// A bit for each place that was executed since [`Twins::look_anew`].
    executed: u16,
    /// A bit for each place whose twin may be mapped somewhere.
    mapped: u16,
    /// A bit for each place whose twin was written while it was mapped nowhere.
    stale: u16,
    /// So many times before, it was looked anew and none had been executed.
    idle: u8,
}

impl Group {
    const FREE: Group = Group { of: Of::Nothing, used: 0, left: 0, executed: 0, mapped: 0, stale: 0, idle: 0 };

    /// Whether it is worth to map its pages as one: several are executed.
    const fn is_busy(&self) -> bool {
        (self.used & self.executed).count_ones() >= BUSY
    }

    /// Words `first..first + words` of twin `number`, which is one of its own, were written.
    fn wrote(&mut self, number: u16, va: GuestVa, first: usize, words: usize, memory: &mut impl TwinMemory) {
        let bit = 1 << (usize::from(number) % GROUP);
        if self.mapped & bit != 0 {
            memory.publish_twin(number, va, first, words);
        } else {
            self.stale |= bit;
            memory.clean_twin(number, first, words);
        }
    }
}

/// What became of a page that was to run in place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Made {
    /// Its twin has this number.
    Twin(u16),
    /// It cannot run in place.
    Unfit,
}

/// See the module's text.
pub struct Twins {
    window: Window,
    /// Where the cache lies, whose pages nobody else has.
    cache: (u32, u32),
    /// By page of the window.
    by_va: Vec<u16>,
    by_pa: Vec<u16>,
    /// By region of the window: its group.
    by_region: Vec<u16>,
    /// How many of these are [`WANTED`].
    wanted: usize,
    /// Copies made of each page of the window lately; [`Lately::FOR_GOOD`] where it cannot run in place.
    copies: Vec<Lately>,
    clock: Clock,
    /// By number: [`GROUP`] of the first group, then those of the next.
    twins: Vec<Twin>,
    groups: Vec<Group>,
    originals: Originals,
    /// The generation of the blocks that the twins lead to.
    generation: u64,
    /// Any twin may lead to a stub.
    any_leads: bool,
    /// Stubs are gone: twins from this number on may lead to them.
    left: Option<usize>,
    /// Nothing is known of any page.
    blank: bool,
    /// Where twins have been that are no more: to be unmapped.
    gone: Vec<GuestVa>,
    all_gone: bool,
    /// Which regions go next.
    turn: usize,
}

/// Where the word at `pc` leads, if it is a branch to a stub.
fn branch_target(pc: GuestVa, word: u32) -> Option<CachePc> {
    // B (A8.8.18).
    let offset = (word << 8) as i32 >> 6;
    (word >> 24 == 0xea).then(|| CachePc(pc.0.wrapping_add(8).wrapping_add(offset as u32)))
}

const fn list(pa: GuestPa) -> usize {
    (pa.0 >> 12) as usize % LISTS
}

impl Twins {
    /// Bytes that [`Twins::new`] takes.
    #[must_use]
    pub const fn bytes(window: Window, capacity: usize) -> usize {
        let pages = window.size as usize / 4096;
        let groups = capacity / GROUP * size_of::<Group>() + pages / GROUP * 2;
        pages * (2 + size_of::<Lately>())
            + LISTS * 2
            + Originals::BYTES
            + groups
            + capacity * size_of::<Twin>()
            + MOST_GONE * size_of::<GuestVa>()
    }

    /// None, and memory for `capacity` of them, of code in `window`, but for the `(address, bytes)` of the code cache.
    ///
    /// # Panics
    /// If the capacity is no multiple of [`GROUP`], or if the window does not begin at a region.
    #[must_use]
    pub fn new(window: Window, cache: (u32, u32), capacity: u16) -> Twins {
        assert!(capacity < NONE, "{capacity} twins are more than have numbers");
        assert!(usize::from(capacity).is_multiple_of(GROUP), "{capacity} twins are not so many groups");
        assert!((window.start | window.size) & 0xffff == 0, "the window has parts of regions");
        let pages = window.size as usize / 4096;
        Twins {
            window,
            cache,
            by_va: vec![NONE; pages],
            by_pa: vec![NONE; LISTS],
            by_region: vec![NO_GROUP; pages / GROUP],
            wanted: 0,
            copies: vec![Lately::NEVER; pages],
            clock: Clock::default(),
            twins: (0..capacity).map(|_| Twin::NONE).collect(),
            groups: vec![Group::FREE; usize::from(capacity) / GROUP],
            originals: Originals::new(),
            generation: 0,
            any_leads: false,
            left: None,
            blank: true,
            gone: Vec::with_capacity(MOST_GONE),
            all_gone: false,
            turn: 0,
        }
    }

    /// From now on, they are of code in `window`, no larger than at first, but for the code cache; all go. In one of no
    /// bytes, there are none.
    ///
    /// # Panics
    /// As [`Self::new`], or if it is larger.
    pub fn move_to(&mut self, window: Window, cache: (u32, u32)) {
        assert!((window.start | window.size) & 0xffff == 0, "the window has parts of regions");
        assert!(window.size as usize / 4096 <= self.by_va.len(), "the window is larger than at first");
        self.clear();
        (self.window, self.cache) = (window, cache);
    }

    /// Whether code at `va` could run in place.
    #[must_use]
    pub const fn covers(&self, va: GuestVa) -> bool {
        self.window.contains(va.0) && va.0.wrapping_sub(self.cache.0) >= self.cache.1
    }

    fn page(&self, va: GuestVa) -> usize {
        (va.0.wrapping_sub(self.window.start) / 4096) as usize
    }

    /// Whether the page at `va` may have a twin.
    #[must_use]
    pub fn is_fit(&self, va: GuestVa) -> bool {
        self.covers(va) && self.copies.get(self.page(va)).is_some_and(|copies| copies.times(self.clock) < MOST_COPIES)
    }

    /// A second has passed, about: half of what was done to a page before counts no more.
    pub fn second_passes(&mut self) {
        self.clock.second_passes();
    }

    /// The page at `va` cannot run in place from now on.
    pub fn refuse(&mut self, va: GuestVa) {
        let page = self.page(va);
        if self.covers(va)
            && let Some(copies) = self.copies.get_mut(page)
        {
            *copies = Lately::FOR_GOOD;
            self.blank = false;
            self.remove_at(va);
        }
    }

    /// The twin at `va`.
    #[must_use]
    pub fn at(&self, va: GuestVa) -> Option<u16> {
        if !self.covers(va) {
            return None;
        }
        self.by_va.get(self.page(va)).copied().filter(|&number| number != NONE)
    }

    /// The twin at `va` of the guest's page at `pa`.
    #[must_use]
    pub fn of(&self, va: GuestVa, pa: GuestPa) -> Option<u16> {
        self.at(va).filter(|&number| self.twins[usize::from(number)].pa == pa.page())
    }

    /// The guest's page that a twin was made from.
    #[must_use]
    pub fn source(&self, number: u16) -> GuestPa {
        self.twins[usize::from(number)].pa
    }

    /// How many there are, and how many there can be.
    #[must_use]
    pub fn usage(&self) -> (usize, usize) {
        (self.by_va.iter().filter(|&&number| number != NONE).count(), self.twins.len())
    }

    /// How many regions have twins of all their pages, and how many have a group.
    #[must_use]
    pub fn regions(&self) -> (usize, usize) {
        let begun = || self.groups.iter().filter(|group| matches!(group.of, Of::Region(_)));
        (begun().filter(|group| group.used == u16::MAX).count(), begun().count())
    }

    /// The number of the region of `va`, which is in the window.
    fn region(&self, va: GuestVa) -> usize {
        self.page(va) / GROUP
    }

    /// Keeps a group for the twins of the region of `va`, if it has none and enough others are free. Once several
    /// of its pages are executed, all should be made: [`Self::take_left`] says which.
    pub fn begin_region(&mut self, va: GuestVa) {
        if !self.covers(va) {
            return;
        }
        self.blank = false;
        let region = self.region(va);
        if self.by_region[region] < WANTED {
            return;
        }
        match self.free_group() {
            Some(group) => self.give(group, region),
            None => self.set_group(region, WANTED),
        }
    }

    /// A group for a region. Some are not for regions.
    fn free_group(&self) -> Option<usize> {
        let free = |group: &Group| group.of == Of::Nothing;
        let enough = self.groups.iter().filter(|group| free(group)).count() > self.groups.len().div_ceil(SHARED_PART);
        self.groups.iter().position(free).filter(|_| enough)
    }

    /// A free group is a region's.
    fn give(&mut self, group: usize, region: usize) {
        self.groups[group] = Group { of: Of::Region(region as u16), left: u16::MAX, ..Group::FREE };
        self.set_group(region, group as u16);
    }

    /// What is noted of the group of a region.
    fn set_group(&mut self, region: usize, group: u16) {
        let before = core::mem::replace(&mut self.by_region[region], group);
        self.wanted += usize::from(group == WANTED);
        self.wanted -= usize::from(before == WANTED);
    }

    /// The twin at `va` is about to be mapped, as it is to be executed.
    pub fn executes(&mut self, va: GuestVa) {
        if let Some(number) = self.at(va).map(usize::from) {
            self.groups[number / GROUP].executed |= 1 << (number % GROUP);
        }
    }

    /// The twin at `va` is about to be mapped, or all of its region if that is [whole](Self::whole). What was written
    /// to them meanwhile is to be seen.
    pub fn maps(&mut self, va: GuestVa, memory: &mut impl TwinMemory) {
        let Some(number) = self.at(va).map(usize::from) else { return };
        let places = if self.whole(va).is_some() { u16::MAX } else { 1 << (number % GROUP) };
        let group = &mut self.groups[number / GROUP];
        if group.stale & places != 0 {
            // What caches of instructions have of it is of when it was mapped before.
            memory.publish_cleaned();
            group.stale &= !places;
        }
        group.mapped |= places;
    }

    /// Whether regions have no group that should have one: then it is worth to [look](Self::look_anew).
    #[must_use]
    pub fn wants_groups(&self) -> bool {
        debug_assert_eq!(self.wanted, self.by_region.iter().filter(|&&group| group == WANTED).count());
        self.wanted != 0
    }

    /// All are to be unmapped, so that it shows which are executed from now on.
    pub fn look_anew(&mut self) {
        for group in &mut self.groups {
            group.idle = if group.executed == 0 { group.idle.saturating_add(1) } else { 0 };
            group.executed = 0;
            group.mapped = 0;
        }
        self.all_gone = true;
    }

    /// A region of which several twins were executed since it was [looked anew](Self::look_anew), and which should have
    /// a group, gets that of the one of which none were for longest. False if there are no such regions, or not
    /// [`Self::is_settled`].
    pub fn gather(&mut self, memory: &mut impl TwinMemory) -> bool {
        if !self.is_settled() {
            return false;
        }
        let Some(region) = (0..self.by_region.len()).find(|&region| self.is_wanted(region)) else { return false };
        let idle = |(_, group): &(usize, &Group)| matches!(group.of, Of::Region(_)) && group.executed == 0;
        let idle = || self.groups.iter().enumerate().filter(idle).max_by_key(|(_, group)| group.idle);
        let Some(group) = self.free_group().or_else(|| Some(idle()?.0)) else { return false };
        self.empty(group);
        self.give(group, region);
        for place in 0..GROUP {
            let va = GuestVa(self.window.start + ((region * GROUP + place) << 12) as u32);
            if let Some(from) = self.at(va) {
                self.move_twin(from, group * GROUP + place, memory);
            }
        }
        true
    }

    /// Whether a region should have a group, and it is worth it.
    fn is_wanted(&self, region: usize) -> bool {
        let executed = |&&number: &&u16| {
            let number = usize::from(number);
            number != usize::from(NONE) && self.groups[number / GROUP].executed >> (number % GROUP) & 1 != 0
        };
        let twins = || self.by_va[region * GROUP..][..GROUP].iter();
        self.by_region[region] == WANTED && twins().filter(executed).count() >= BUSY as usize
    }

    /// All twins of a group go, not because of what is in them.
    fn empty(&mut self, group: usize) {
        for number in group * GROUP..(group + 1) * GROUP {
            if self.twins[number].pa != NOWHERE {
                self.make_room(number);
            }
        }
        if let Of::Region(region) = self.groups[group].of {
            self.set_group(usize::from(region), NO_GROUP);
        }
        self.groups[group] = Group::FREE;
    }

    /// A twin goes, not because of what is in it.
    fn make_room(&mut self, number: usize) {
        let va = self.twins[number].va;
        self.remove_at(va);
        let page = self.page(va);
        self.copies[page].take_back(self.clock);
    }

    /// A twin goes to another place, which is free.
    fn move_twin(&mut self, from: u16, place: usize, memory: &mut impl TwinMemory) {
        for first in (0..PAGE_WORDS).step_by(PART) {
            let part: [u32; PART] = core::array::from_fn(|at| memory.twin(from)[first + at]);
            memory.twin(place as u16)[first..first + PART].copy_from_slice(&part);
        }
        let Twin { va, pa, writes, ref replaced, leads, .. } = self.twins[usize::from(from)];
        let twin = Twin { va, pa, writes, replaced: replaced.clone(), leads, next_by_pa: NONE };
        let executed = self.groups[usize::from(from) / GROUP].executed >> (usize::from(from) % GROUP) & 1;
        self.remove_at(va);
        self.put(place, twin);
        let group = &mut self.groups[place / GROUP];
        group.executed |= executed << (place % GROUP);
        group.wrote(place as u16, va, 0, PAGE_WORDS, memory);
    }

    /// There is a twin at a place that was free.
    fn put(&mut self, place: usize, twin: Twin) {
        let (page, first) = (self.page(twin.va), &mut self.by_pa[list(twin.pa)]);
        let next_by_pa = core::mem::replace(first, place as u16);
        self.by_va[page] = place as u16;
        self.twins[place] = Twin { next_by_pa, ..twin };
        let (group, bit) = (&mut self.groups[place / GROUP], 1 << (place % GROUP));
        group.used |= bit;
        group.left &= !bit;
        group.executed &= !bit;
        group.mapped &= !bit;
    }

    /// All twins from anywhere go, so that there is room for others: while a kernel starts, most are of code that is
    /// executed once. Those of regions stay, which were made to be there together; but in turn, one region of
    /// [`SHARED_PART`] goes as well, so that what a guest does later has regions, too. False if there is nothing to go.
    fn evict(&mut self) -> bool {
        self.turn = (self.turn + 1) % SHARED_PART;
        let mut any = false;
        for number in 0..self.twins.len() {
            let group = number / GROUP;
            let goes = self.groups[group].of == Of::Anything || group % SHARED_PART == self.turn;
            if goes && self.twins[number].pa != NOWHERE {
                self.make_room(number);
                any = true;
            }
        }
        any
    }

    /// A page of a region of which several are executed, which has no twin and has never been asked for: now it has.
    pub fn take_left(&mut self) -> Option<GuestVa> {
        let group = self.groups.iter_mut().find(|group| group.left != 0 && group.is_busy())?;
        let place = group.left.trailing_zeros();
        group.left &= group.left - 1;
        let Of::Region(region) = group.of else { return None };
        Some(GuestVa(self.window.start + ((u32::from(region) * GROUP as u32 + place) << 12)))
    }

    /// The first twin of the region of `va`, if all are there, of pages that lie one behind the other: where the guest
    /// has a section, they can be mapped as one.
    #[must_use]
    pub fn whole(&self, va: GuestVa) -> Option<u16> {
        let group = self.by_region.get(self.region(va)).copied().filter(|_| self.covers(va))?;
        self.groups.get(usize::from(group)).filter(|group| group.used == u16::MAX)?;
        let first = usize::from(group) * GROUP;
        let twins = &self.twins[first..first + GROUP];
        let follows = |(at, twin): (usize, &Twin)| twin.pa == twins[0].pa.wrapping_add(at as u32 * PAGE);
        (twins[0].pa.0 & 0xffff == 0 && twins.iter().enumerate().all(follows)).then_some(first as u16)
    }

    /// Where a twin for the page at `va` can be.
    fn place(&mut self, va: GuestVa) -> Option<usize> {
        let group = self.by_region[self.region(va)];
        if group < WANTED {
            return Some(usize::from(group) * GROUP + self.page(va) % GROUP);
        }
        let has_room = |group: &Group| group.of == Of::Anything && group.used != u16::MAX;
        let group = self.groups.iter().position(has_room).or_else(|| {
            let free = self.groups.iter().position(|group| group.of == Of::Nothing)?;
            self.groups[free].of = Of::Anything;
            Some(free)
        })?;
        Some(group * GROUP + self.groups[group].used.trailing_ones() as usize)
    }

    /// Makes the twin of the page at `va`, which is mapped to `pa`.
    pub fn make(&mut self, va: GuestVa, pa: GuestPa, text: Text<'_>, memory: &mut impl TwinMemory) -> Made {
        let (va, pa) = (va.page(), pa.page());
        if !self.is_fit(va) {
            return Made::Unfit;
        }
        self.blank = false;
        self.remove_at(va);
        let Some(place) = self.place(va).or_else(|| self.evict().then(|| self.place(va))?) else { return Made::Unfit };
        let Some(mut replaced) = text.replaced() else {
            self.refuse(va);
            self.release_if_empty(place / GROUP);
            return Made::Unfit;
        };
        let number = place as u16;
        let words = memory.twin(number);
        words.copy_from_slice(text.page);
        for at in replaced.clone().iter() {
            words[at] = match instead(text.page[at]) {
                Some(word) => {
                    replaced.remove(at);
                    word
                }
                None => self.originals.stand_in_at(text.page, at),
            };
        }
        self.put(place, Twin { va, pa, replaced, ..Twin::NONE });
        self.groups[place / GROUP].wrote(number, va, 0, PAGE_WORDS, memory);
        let page = self.page(va);
        self.copies[page].add(1, self.clock);
        Made::Twin(number)
    }

    /// The words of a twin's page that have stubs, or will.
    #[must_use]
    pub fn replaced(&self, number: u16) -> &WordSet {
        &self.twins[usize::from(number)].replaced
    }

    /// Word `at` of a twin is a branch to its stub, at `stub`, from now on. False if that is out of reach.
    pub fn lead_to(&mut self, number: u16, at: usize, stub: CachePc, memory: &mut impl TwinMemory) -> bool {
        let twin = &mut self.twins[usize::from(number)];
        let pc = twin.va.wrapping_add(4 * at as u32);
        let offset = stub.0.wrapping_sub(pc.0).wrapping_sub(8) as i32;
        let Some(branch) = asm::b(Cond::Al, offset) else { return false };
        (twin.leads, self.any_leads) = (true, true);
        memory.twin(number)[at] = branch;
        self.groups[usize::from(number) / GROUP].wrote(number, twin.va, at, 1, memory);
        true
    }

    /// The stub of the instruction at `va`, of a page that is mapped to `pa` and reads `words`, which is replaced in
    /// the page's twin: made if need be, and led to from now on. `global`: the page is mapped in all address spaces.
    /// `None` if the instruction is not replaced any more: it can be executed where it is.
    pub fn stub(
        &mut self,
        translator: &mut Translator,
        (va, pa): (GuestVa, GuestPa),
        global: bool,
        words: &Words,
        memory: &mut impl StubMemory,
    ) -> Option<CachePc> {
        let at = va.page_offset() as usize / 4;
        let number = self.of(va, pa)?;
        let replaced = self.replaced(number);
        if !replaced.contains(at) {
            return None;
        }
        let length = stub_length(words, at, replaced);
        let entry = translator.stub(length, (va, pa), global, words, memory.code());
        self.follow(translator);
        if !trap::is_dacr_in_place(memory.twin(number)[at]) {
            self.lead_to(number, at, entry, memory);
        }
        Some(entry)
    }

    /// The guest writes to its page at `pa`, which has twins, and `changed` are the words of it that become others, if
    /// any: the stubs that were made from these are dropped, and what leads to them is to be asked for anew. A stub may
    /// be made from any word of its page, as a literal. False, and nothing is done, as [`Translator::change_stubs`].
    pub fn change_stubs(
        &mut self,
        translator: &mut Translator,
        pa: GuestPa,
        changed: Option<RangeInclusive<u16>>,
        memory: &mut impl StubMemory,
    ) -> bool {
        let Some(changed) = changed else { return true };
        let dropped = translator.stats().dropped;
        if !translator.change_stubs(pa, changed, memory.code()) {
            return false;
        }
        if translator.stats().dropped != dropped {
            self.forget_dropped(translator, pa, memory);
        }
        true
    }

    /// No twin of the page at `pa` leads to a block that is gone.
    fn forget_dropped(&mut self, translator: &Translator, pa: GuestPa, memory: &mut impl TwinMemory) {
        let mut number = self.by_pa[list(pa)];
        while let Some(twin) = self.twins.get(usize::from(number)) {
            let is_it = twin.leads && twin.pa == pa.page();
            for at in twin.replaced.iter().filter(|_| is_it) {
                let pc = twin.va.wrapping_add(4 * at as u32);
                let leads_to = |block| translator.block_at(block).is_some_and(|block| translator.is_live(block));
                if branch_target(pc, memory.twin(number)[at]).is_some_and(|stub| !leads_to(stub)) {
                    memory.twin(number)[at] = asm::svc(Cond::Al, trap::REPLACED);
                    self.groups[usize::from(number) / GROUP].wrote(number, twin.va, at, 1, memory);
                }
            }
            number = twin.next_by_pa;
        }
    }

    /// All blocks may have been flushed, stubs among them: then each is to be asked for anew, which is to be
    /// [settled](Self::settle) before the guest runs.
    pub fn follow(&mut self, translator: &Translator) {
        let generation = translator.generation();
        if core::mem::replace(&mut self.generation, generation) != generation {
            self.forget_stubs();
        }
    }

    /// All stubs are gone: as [`Self::follow`].
    pub fn forget_stubs(&mut self) {
        self.left = self.any_leads.then_some(0);
    }

    /// Whether all twins that lead to stubs lead to such as there are.
    #[inline]
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.left.is_none()
    }

    /// Some twins more do no longer lead to stubs that are gone. Whether all is done.
    pub fn settle(&mut self, memory: &mut impl TwinMemory) -> bool {
        let Some(from) = self.left else { return true };
        let mut budget = WORDS_AT_ONCE;
        for (number, twin) in self.twins.iter_mut().enumerate().skip(from) {
            if !core::mem::take(&mut twin.leads) {
                continue;
            }
            for at in twin.replaced.iter() {
                let word = &mut memory.twin(number as u16)[at];
                // The others still say what they stand for.
                if branch_target(twin.va, *word).is_some() {
                    *word = asm::svc(Cond::Al, trap::REPLACED);
                    self.groups[number / GROUP].wrote(number as u16, twin.va, at, 1, memory);
                }
                budget -= 1;
            }
            if budget <= 0 {
                self.left = Some(number + 1);
                return false;
            }
        }
        (self.left, self.any_leads) = (None, false);
        true
    }

    /// The guest's pages that have twins.
    pub fn sources(&self) -> impl Iterator<Item = GuestPa> {
        self.twins.iter().map(|twin| twin.pa).filter(|&pa| pa != NOWHERE)
    }

    /// The guest's page at `pa`, of which word `at` has been written, reads `page` now: so its twins do. What leads to
    /// stubs that may be made from that word is to be asked for anew. False if the twins should go instead: it cannot
    /// be told what the word is, or the page is written again and again.
    pub fn change_word(&mut self, pa: GuestPa, at: usize, page: &Words, memory: &mut impl TwinMemory) -> bool {
        let mut number = self.by_pa[list(pa)];
        while let Some(twin) = self.twins.get_mut(usize::from(number)) {
            if twin.pa == pa.page() {
                let writes = twin.writes.add(1, self.clock);
                let text = Text { va: twin.va, page, before: None, behind: None };
                let Some(replaced) = text.is_replaced(at).filter(|_| writes <= MOST_WRITES) else { return false };
                let instead = instead(page[at]).filter(|_| replaced);
                if replaced && instead.is_none() {
                    twin.replaced.insert(at);
                } else {
                    twin.replaced.remove(at);
                }
                let words = memory.twin(number);
                words[at] = instead.unwrap_or(page[at]);
                let mut first = at;
                for asked in twin.replaced.up_to(at) {
                    words[asked] = self.originals.stand_in_at(page, asked);
                    first = first.min(asked);
                }
                self.groups[usize::from(number) / GROUP].wrote(number, twin.va, first, at + 1 - first, memory);
            }
            number = twin.next_by_pa;
        }
        true
    }

    /// What an `SVC` of the guest's is a copy of.
    #[must_use]
    pub const fn originals(&self) -> &Originals {
        &self.originals
    }

    /// The same, of another guest, which this one becomes. No twin is left.
    pub fn set_originals(&mut self, originals: Originals) {
        self.clear();
        self.originals = originals;
    }

    /// Whether the guest's page at `pa` has a twin.
    #[must_use]
    pub fn has(&self, pa: GuestPa) -> bool {
        let mut number = self.by_pa[list(pa)];
        while let Some(twin) = self.twins.get(usize::from(number)) {
            if twin.pa == pa.page() {
                return true;
            }
            number = twin.next_by_pa;
        }
        false
    }

    /// The guest's page at `pa` changes: its twins go.
    pub fn remove(&mut self, pa: GuestPa) {
        let mut number = self.by_pa[list(pa)];
        while let Some(twin) = self.twins.get(usize::from(number)) {
            let (next, va, here) = (twin.next_by_pa, twin.va, twin.pa == pa.page());
            if here {
                self.remove_at(va);
            }
            number = next;
        }
    }

    /// The page at `va` is not to run in place for now.
    pub fn leave(&mut self, va: GuestVa) {
        self.remove_at(va);
    }

    fn remove_at(&mut self, va: GuestVa) {
        let Some(number) = self.at(va) else { return };
        let page = self.page(va);
        self.by_va[page] = NONE;
        let (pa, next) = (self.twins[usize::from(number)].pa, self.twins[usize::from(number)].next_by_pa);
        let mut before = self.by_pa[list(pa)];
        if before == number {
            self.by_pa[list(pa)] = next;
        } else {
            while let Some(twin) = self.twins.get_mut(usize::from(before)) {
                if twin.next_by_pa == number {
                    twin.next_by_pa = next;
                    break;
                }
                before = twin.next_by_pa;
            }
        }
        self.twins[usize::from(number)] = Twin::NONE;
        let group = usize::from(number) / GROUP;
        self.groups[group].used &= !(1 << (usize::from(number) % GROUP));
        self.release_if_empty(group);
        if self.gone.len() < MOST_GONE {
            self.gone.push(va.page());
        } else {
            self.all_gone = true;
        }
    }

    fn release_if_empty(&mut self, group: usize) {
        if self.groups[group].used == 0 {
            if let Of::Region(region) = self.groups[group].of {
                self.set_group(usize::from(region), NO_GROUP);
            }
            self.groups[group] = Group::FREE;
        }
    }

    /// All twins go, and what could not run in place may again.
    pub fn clear(&mut self) {
        if core::mem::replace(&mut self.blank, true) {
            return;
        }
        (self.any_leads, self.left) = (false, None);
        self.all_gone |= self.groups.iter().any(|group| group.used != 0);
        for (twins, group) in self.twins.chunks_mut(GROUP).zip(&mut self.groups) {
            // Most have none, in a guest that does so again and again.
            if group.used != 0 {
                twins.fill_with(|| Twin::NONE);
            }
            *group = Group::FREE;
        }
        records::fill(&mut self.by_va, NONE);
        records::fill(&mut self.by_pa, NONE);
        records::fill(&mut self.by_region, NO_GROUP);
        self.wanted = 0;
        self.copies.fill(Lately::NEVER);
    }

    /// Whether there is something to unmap, before the guest runs.
    #[must_use]
    pub fn is_anything_gone(&self) -> bool {
        self.all_gone || !self.gone.is_empty()
    }

    /// What is to be unmapped: a page, or `None` for all that there may have been. To be asked until
    /// [`Self::is_anything_gone`] is false.
    pub fn take_gone(&mut self) -> Option<GuestVa> {
        if core::mem::take(&mut self.all_gone) {
            self.gone.clear();
            return None;
        }
        self.gone.pop()
    }
}

/// Words that may lead to stubs, of which so many are looked at in one go: some 20,000 instructions.
const WORDS_AT_ONCE: i32 = 400;

/// Words of a twin that are moved at once.
const PART: usize = 64;

/// Pages to unmap that are known one by one.
const MOST_GONE: usize = 32;
