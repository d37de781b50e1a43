//! The marks, and what becomes of them.

use crate::table::{Shared, Table, User};
use crate::{Context, Device, LINE, LOADS, STORES};

/// Lines that are open at most: with one more, all of them are closed.
pub const MOST_OPEN: usize = 2048;
/// Of these, so many of an interrupt's are opened again at the next one.
const MOST_KEPT: usize = 512;
/// In what is kept of a line that was open, from this bit on: which accesses did not trap.
const WAS_OPEN: u32 = 24;

/// Of so many bytes of RAM, one line may have a record.
const SHARE: u32 = 16 << 10;
/// Records at most.
const MOST_RECORDS: usize = 16 << 10;
/// Bytes of a page: marks are mapped.
const PAGE: u32 = 4096;

/// A mark: both bits that have accesses trap.
const CLOSED: u8 = 1 << LOADS | 1 << STORES;
/// The context that has used the line, from this bit on; [`Context::SEVERAL`] if there are more.
const CONTEXT: u32 = 2;
/// It has written; with several, the line has a record, or there was no room for it.
const WROTE: u8 = 1 << 7;

/// What is done with memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Use {
    /// It is read.
    pub reads: bool,
    /// It is written.
    pub writes: bool,
}

/// Which accesses of a line trap when it is closed. If several have read it and nobody has written, more of them are no
/// news.
const fn closed(mark: u8) -> u8 {
    let only_read = mark >> CONTEXT == Context::SEVERAL.number();
    if only_read { 1 << STORES } else { CLOSED }
}

/// A line, and which accesses did not trap.
const fn split(kept: u32) -> (u32, u8) {
    (kept & !(u32::MAX << WAS_OPEN), (kept >> WAS_OPEN) as u8)
}

impl Use {
    const fn bits(self) -> u8 {
        (self.reads as u8) << LOADS | (self.writes as u8) << STORES
    }
}

/// What is to be kept of lines beside their memory.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct State {
    /// Who uses memory now, if that is known.
    context: Option<Context>,
    /// Lines that are open.
    open: usize,
    /// What an interrupt has interrupted.
    aside: Option<Aside>,
    /// Lines that the last interrupt had open.
    kept: usize,
    /// Lines that should have a record, and have none.
    lost: u32,
}

/// Who was interrupted, with the lines that were open then.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Aside {
    context: Option<Context>,
    open: usize,
    /// Which of them were used since is still seen in their marks.
    valid: bool,
}

impl State {
    /// Lines that several contexts use, for which there was no room.
    #[must_use]
    pub const fn lost(&self) -> u32 {
        self.lost
    }
}

/// See the crate's text. Places in RAM are given by how far from its start they are.
pub struct Lines<'a> {
    /// The lines of RAM.
    count: u32,
    /// Their marks, a byte each.
    marks: &'a mut [u32],
    table: Table<'a>,
    /// Where lines were used of late, by a context that had them for itself: of each place the line plus 1, and the
    /// first load and store.
    recent: &'a mut [[u32; 3]],
    /// The lines that are open.
    open: &'a mut [u32],
    /// Those that were, of who was interrupted.
    aside: &'a mut [u32],
    /// Those that were, of the last interrupt.
    kept: &'a mut [u32],
    state: &'a mut State,
}

/// Bytes of marks for so much RAM, in whole pages.
const fn marks_bytes(ram: u32) -> u32 {
    ram.div_ceil(LINE).next_multiple_of(PAGE)
}

/// How many records there are for so much RAM.
const fn records(ram: u32) -> usize {
    let records = (ram / SHARE) as usize;
    if records == 0 {
        1
    } else if records < MOST_RECORDS {
        records
    } else {
        MOST_RECORDS
    }
}

/// Bytes of memory for so much RAM, in whole pages; the marks come first.
#[must_use]
pub const fn memory_bytes(ram: u32) -> u32 {
    let words = Table::words(records(ram)) + 3 * records(ram) + 2 * MOST_OPEN + MOST_KEPT;
    marks_bytes(ram) + (4 * words as u32).next_multiple_of(PAGE)
}

impl<'a> Lines<'a> {
    /// The lines of `ram` bytes, which nobody has used, in [`memory_bytes`] of memory. All of that is overwritten.
    ///
    /// `None` if `memory` is too small.
    #[must_use]
    pub fn new(ram: u32, memory: &'a mut [u32], state: &'a mut State) -> Option<Lines<'a>> {
        memory.fill(0);
        *state = State::default();
        let lines = Self::over(ram, memory, state)?;
        let marks = &mut lines.marks[..lines.count.div_ceil(4) as usize];
        marks.fill(u32::from_ne_bytes([CLOSED; 4]));
        Some(lines)
    }

    /// The same of memory that has been in use, with the state that belongs to it.
    #[must_use]
    pub fn over(ram: u32, memory: &'a mut [u32], state: &'a mut State) -> Option<Lines<'a>> {
        let (marks, rest) = memory.split_at_mut_checked(marks_bytes(ram) as usize / 4)?;
        let (table, rest) = rest.split_at_mut_checked(Table::words(records(ram)))?;
        let (recent, rest) = rest.split_at_mut_checked(3 * records(ram))?;
        let (open, rest) = rest.split_at_mut_checked(MOST_OPEN)?;
        let (aside, rest) = rest.split_at_mut_checked(MOST_OPEN)?;
        let (kept, _) = rest.split_at_mut_checked(MOST_KEPT)?;
        let (recent, _) = recent.as_chunks_mut();
        Some(Lines { count: ram / LINE, marks, table: Table::new(table), recent, open, aside, kept, state })
    }

    /// The mark of a line.
    fn mark(&self, line: u32) -> Option<u8> {
        let word = self.marks.get(line as usize / 4).filter(|_| line < self.count)?;
        Some((word >> (8 * (line % 4))) as u8)
    }

    fn set_mark(&mut self, line: u32, mark: u8) {
        if let Some(word) = self.marks.get_mut(line as usize / 4) {
            let shift = 8 * (line % 4);
            *word = *word & !(0xff << shift) | u32::from(mark) << shift;
        }
    }

    /// Whether code traps that does this with a place in RAM.
    #[must_use]
    pub fn traps(&self, offset: u32, what: Use) -> bool {
        self.mark(offset / LINE).is_some_and(|mark| mark & what.bits() != 0)
    }

    /// From now on, memory is used by `context`, or by nobody who is known. At most [`MOST_OPEN`] lines are closed.
    pub fn enter(&mut self, context: Option<Context>) {
        self.close_all();
        (self.state.context, self.state.aside) = (context, None);
    }

    /// From now on, memory is used by interrupts, until whoever used it does again ([`Lines::resume`]). At most
    /// [`MOST_OPEN`] lines are closed, and some of those opened that the last interrupt had open, if nobody else has
    /// used them since.
    pub fn interrupt(&mut self) {
        let open = core::mem::take(&mut self.state.open).min(MOST_OPEN);
        for at in 0..open {
            let line = self.open[at];
            self.aside[at] = self.was_open(line);
            self.close(line);
        }
        self.state.aside = Some(Aside { context: self.state.context, open, valid: true });
        self.state.context = Some(Context::INTERRUPTS);
        for at in 0..core::mem::take(&mut self.state.kept).min(MOST_KEPT) {
            let (line, was_open) = split(self.kept[at]);
            if let Some(mark) = self.mark(line).filter(|mark| mark & CLOSED == CLOSED)
                && self.last_user(line, mark) == Some(Context::INTERRUPTS)
            {
                self.set_mark(line, mark & !was_open);
                self.open[self.state.open] = line;
                self.state.open += 1;
            }
        }
    }

    /// A line that is open, with how much.
    fn was_open(&self, line: u32) -> u32 {
        line | u32::from(!self.mark(line).unwrap_or(CLOSED) & CLOSED) << WAS_OPEN
    }

    /// Who has used a line last, if it was not several that only read it.
    fn last_user(&self, line: u32, mark: u8) -> Option<Context> {
        match Context::of_number(u32::from(mark >> CONTEXT) & 31) {
            Some(Context::SEVERAL) => self.table.last_user(line),
            only => only,
        }
    }

    /// Memory is used again by who was interrupted: what nobody has used meanwhile is as open as it was. At most twice
    /// [`MOST_OPEN`] lines are looked at.
    pub fn resume(&mut self) {
        let Some(Aside { context, open, valid }) = self.state.aside.take() else { return };
        let mut kept = 0;
        self.state.kept = self.state.open.min(MOST_KEPT);
        for at in 0..self.state.kept {
            self.kept[at] = self.was_open(self.open[at]);
        }
        for at in 0..if valid { open } else { 0 } {
            let (line, was_open) = split(self.aside[at]);
            // The interrupt's own lines are open still.
            if let Some(mark) = self.mark(line).filter(|&mark| mark & CLOSED == closed(mark)) {
                self.set_mark(line, mark & !was_open);
                self.aside[kept] = line;
                kept += 1;
            }
        }
        self.close_all();
        self.open[..kept].copy_from_slice(&self.aside[..kept]);
        (self.state.context, self.state.open) = (context, kept);
    }

    /// Closes the lines that are open.
    fn close_all(&mut self) {
        for at in 0..core::mem::take(&mut self.state.open).min(MOST_OPEN) {
            self.close(self.open[at]);
        }
    }

    /// Closes a line.
    fn close(&mut self, line: u32) {
        if let Some(mark) = self.mark(line) {
            self.set_mark(line, mark & !CLOSED | closed(mark));
        }
    }

    /// Some lines are closed that were used: nobody can see in their marks that they were.
    fn closed_early(&mut self) {
        if let Some(aside) = &mut self.state.aside {
            aside.valid = false;
        }
    }

    /// `bytes` are used from a place in RAM on, by the instruction at `pc`, which has found that a mark there was set.
    /// A place that is no RAM has none. Two lines are looked at, at most.
    pub fn accessed(&mut self, offset: u32, bytes: u32, what: Use, pc: u32) {
        let first = offset / LINE;
        let last = offset.saturating_add(bytes.saturating_sub(1)) / LINE;
        for line in first..=last.min(first + 1) {
            self.open(line, what, pc);
        }
    }

    fn open(&mut self, line: u32, what: Use, pc: u32) {
        let Some(mark) = self.mark(line) else { return };
        let new = mark & what.bits();
        if new == 0 {
            return;
        }
        if let Some(context) = self.state.context {
            let what = Use { reads: new >> LOADS & 1 != 0, writes: new >> STORES & 1 != 0 };
            self.note(line, context, what, pc);
        }
        if mark & CLOSED == closed(mark) {
            if self.state.open >= MOST_OPEN {
                self.close_all();
                self.closed_early();
            }
            self.open[self.state.open] = line;
            self.state.open += 1;
        }
        if let Some(mark) = self.mark(line) {
            self.set_mark(line, mark & !new);
        }
    }

    /// A device reads `bytes` from a place in RAM on, or writes them. All lines of them are looked at.
    pub fn device(&mut self, device: Device, offset: u32, bytes: u32, write: bool) {
        if bytes == 0 {
            return;
        }
        self.closed_early();
        let last = offset.saturating_add(bytes - 1) / LINE;
        for line in offset / LINE..=last.min(self.count.saturating_sub(1)) {
            self.note(line, Context::of_device(device), Use { reads: !write, writes: write }, 0);
            // Whoever runs uses it anew from now on.
            self.close(line);
        }
    }

    /// A context uses a line.
    fn note(&mut self, line: u32, context: Context, what: Use, pc: u32) {
        let Some(mark) = self.mark(line) else { return };
        let wrote = mark & WROTE != 0;
        let with =
            |context: Context, wrote: bool| mark & CLOSED | context.number() << CONTEXT | if wrote { WROTE } else { 0 };
        match Context::of_number(u32::from(mark >> CONTEXT) & 31) {
            None => {
                self.set_mark(line, with(context, what.writes));
                self.remember(line, what, pc);
            }
            Some(only) if only == context => {
                self.set_mark(line, with(context, wrote || what.writes));
                self.remember(line, what, pc);
            }
            Some(Context::SEVERAL) if wrote => self.table.note(line, context, what, pc),
            Some(only) if wrote || what.writes => {
                // Who has it open may be another one.
                self.set_mark(line, with(Context::SEVERAL, true) | CLOSED);
                let first = self.user_so_far(line, only, wrote);
                if self.table.add(line, first) {
                    self.table.note(line, context, what, pc);
                } else {
                    self.state.lost = self.state.lost.saturating_add(1);
                }
            }
            // Whoever only reads what nobody writes is not told apart, and need not ask.
            Some(_) => self.set_mark(line, with(Context::SEVERAL, false)),
        }
    }

    /// Where lines were used of late: the place of a line.
    fn place(&mut self, line: u32) -> Option<&mut [u32; 3]> {
        let spread = u64::from(line.wrapping_mul(0x9e37_79b1)) * self.recent.len() as u64;
        self.recent.get_mut((spread >> 32) as usize)
    }

    /// Keeps where a line was used.
    fn remember(&mut self, line: u32, what: Use, pc: u32) {
        if pc == 0 {
            return;
        }
        let Some(place) = self.place(line) else { return };
        if place[0] != line + 1 {
            *place = [line + 1, 0, 0];
        }
        for (word, done) in place[1..].iter_mut().zip([what.reads, what.writes]) {
            if done && *word == 0 {
                *word = pc;
            }
        }
    }

    /// What is known of the only user of a line, or of several that have only read it.
    fn user_so_far(&mut self, line: u32, context: Context, wrote: bool) -> User {
        let own = context != Context::SEVERAL;
        let known = self.place(line).filter(|place| own && place[0] == line + 1);
        let [_, load, store] = known.copied().unwrap_or_default();
        User { context, reads: !wrote || load != 0, writes: wrote, turns: 1, load, store }
    }

    /// The first line with a record, from record number `from` on, if it is near; and where to go on, if there are
    /// more.
    #[must_use]
    pub fn next(&self, from: usize) -> (Option<Shared>, Option<usize>) {
        self.table.next(from)
    }
}
