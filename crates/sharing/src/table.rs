//! The records of lines that several contexts use, one of which writes.

use crate::{Context, LINE, Use};

/// Words of a record: the line with who used it last, and three of each user.
const RECORD: usize = 16;
/// Records of a bucket.
const WAYS: usize = 8;
/// Records that [`Table::next`] looks at in one go.
const AT_ONCE: usize = 256;
/// Users of a line that are told apart; those beyond are [`Context::SEVERAL`].
pub const MOST_USERS: usize = 4;
/// Places for users: the last one is for [`Context::SEVERAL`].
const PLACES: usize = MOST_USERS + 1;

/// In a record's first word, beside the line: it is one; and who used the line last.
const TAKEN: u32 = 1 << 31;
const LAST: u32 = 24;
const LINE_BITS: u32 = 0x00ff_ffff;
/// In a user's first word: the context, whether it has read and written, and how many turns it had.
const READS: u32 = 1 << 5;
const WRITES: u32 = 1 << 6;
const TURN: u32 = 1 << 8;

/// What a context did with a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct User {
    /// Who.
    pub context: Context,
    /// Whether it has read.
    pub reads: bool,
    /// Whether it has written.
    pub writes: bool,
    /// How often it came to use the line after somebody else had.
    pub turns: u32,
    /// The instruction of its first load that is known; 0 if none is.
    pub load: u32,
    /// The same of a store.
    pub store: u32,
}

/// A line that several contexts use, one of which writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shared {
    /// Where in RAM the line begins.
    pub offset: u32,
    users: [Option<User>; PLACES],
}

impl Shared {
    /// Its users; [`Context::SEVERAL`], if there are so many, comes last.
    pub fn users(&self) -> impl Iterator<Item = &User> {
        self.users.iter().flatten()
    }
}

/// See the module's text.
pub struct Table<'a> {
    records: &'a mut [[u32; RECORD]],
}

impl<'a> Table<'a> {
    /// `memory` is cleared, or was in use.
    pub(crate) fn new(memory: &'a mut [u32]) -> Table<'a> {
        let (records, _) = memory.as_chunks_mut();
        Table { records }
    }

    /// Words for so many records, which are a multiple of those of a bucket.
    pub(crate) const fn words(records: usize) -> usize {
        records.next_multiple_of(WAYS) * RECORD
    }

    /// Where the bucket of a line begins.
    fn bucket(&self, line: u32) -> usize {
        let buckets = self.records.len() / WAYS;
        let spread = u64::from(line.wrapping_mul(0x9e37_79b1)) * buckets as u64;
        (spread >> 32) as usize * WAYS
    }

    /// The bucket of a line, and the line's own record in it, if there is one.
    fn find(&mut self, line: u32) -> (&mut [[u32; RECORD]], Option<usize>) {
        let first = self.bucket(line);
        let bucket = self.records.get_mut(first..first + WAYS).unwrap_or_default();
        let own = bucket.iter().position(|record| record[0] & (TAKEN | LINE_BITS) == TAKEN | line);
        (bucket, own)
    }

    /// A line has users: `first` was there before. False if there is no room.
    pub(crate) fn add(&mut self, line: u32, first: User) -> bool {
        let (bucket, _) = self.find(line);
        let Some(free) = bucket.iter_mut().find(|record| record[0] & TAKEN == 0) else { return false };
        *free = [0; RECORD];
        free[0] = TAKEN | u32::from(first.context.number()) << LAST | line;
        let place = if first.context == Context::SEVERAL { MOST_USERS } else { 0 };
        let mut word = u32::from(first.context.number()) | (first.turns * TURN);
        word |= if first.reads { READS } else { 0 } | if first.writes { WRITES } else { 0 };
        free[1 + 3 * place..4 + 3 * place].copy_from_slice(&[word, first.load, first.store]);
        true
    }

    /// A context uses a line that has a record; if it has none, nothing happens.
    pub(crate) fn note(&mut self, line: u32, context: Context, what: Use, pc: u32) {
        let (bucket, own) = self.find(line);
        let Some(record) = own.and_then(|own| bucket.get_mut(own)) else { return };
        let number = u32::from(context.number());
        let (head, places) = record.split_at_mut(1);
        let last = head[0] >> LAST & 31;
        head[0] = head[0] & !(31 << LAST) | number << LAST;
        let (users, _) = places.as_chunks_mut::<3>();
        let own = users.iter().position(|user| user[0] & 31 == number);
        let free = || users.iter().take(MOST_USERS).position(|user| user[0] & 31 == 0);
        let place = own.or_else(free).unwrap_or(MOST_USERS);
        let Some([word, load, store]) = users.get_mut(place) else { return };
        if *word & 31 == 0 {
            *word = if place == MOST_USERS { u32::from(Context::SEVERAL.number()) } else { number };
        }
        if last != number {
            *word = word.checked_add(TURN).unwrap_or(*word);
        }
        if what.reads {
            *word |= READS;
            *load = if *load == 0 { pc } else { *load };
        }
        if what.writes {
            *word |= WRITES;
            *store = if *store == 0 { pc } else { *store };
        }
    }

    /// Who has used a line with a record last.
    pub(crate) fn last_user(&self, line: u32) -> Option<Context> {
        let first = self.bucket(line);
        let bucket = self.records.get(first..first + WAYS)?;
        let own = bucket.iter().find(|record| record[0] & (TAKEN | LINE_BITS) == TAKEN | line)?;
        Context::of_number(own[0] >> LAST & 31)
    }

    /// The first record from number `from` on, if it is near, and where to go on, if there are more.
    pub(crate) fn next(&self, from: usize) -> (Option<Shared>, Option<usize>) {
        let end = self.records.len().min(from.saturating_add(AT_ONCE));
        let records = self.records.get(from..end).unwrap_or_default();
        let found = records.iter().position(|record| record[0] & TAKEN != 0);
        let next = found.map_or(end, |found| from + found + 1);
        let shared = found.and_then(|found| records.get(found)).map(read);
        (shared, (next < self.records.len()).then_some(next))
    }
}

fn read(record: &[u32; RECORD]) -> Shared {
    let mut users = [None; PLACES];
    for (user, &[word, load, store]) in users.iter_mut().zip(record[1..].as_chunks::<3>().0) {
        *user = Context::of_number(word & 31).map(|context| User {
            context,
            reads: word & READS != 0,
            writes: word & WRITES != 0,
            turns: word / TURN,
            load,
            store,
        });
    }
    Shared { offset: (record[0] & LINE_BITS) * LINE, users }
}
