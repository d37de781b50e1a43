//! What was done wrong: each place of the kernel once, with how often.

use crate::{Kind, Object};

/// Errors that are kept at most, each of another place.
pub const MOST_ERRORS: usize = 64;

/// Something that was done wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Error {
    /// What.
    pub kind: Kind,
    /// Whether it was a store.
    pub write: bool,
    /// Bytes that were accessed; 0 where something was freed.
    pub bytes: u32,
    /// The instruction; the caller of the allocator where something was freed.
    pub pc: u32,
    /// The address that was accessed or freed, the first time.
    pub address: u32,
    /// The object, the first time.
    pub object: Object,
    /// How often.
    pub count: u32,
}

/// See the module's text.
#[derive(Clone, Debug)]
pub struct Errors {
    errors: [Option<Error>; MOST_ERRORS],
    /// How many had no place.
    lost: u32,
}

impl Default for Errors {
    fn default() -> Self {
        Errors { errors: [None; MOST_ERRORS], lost: 0 }
    }
}

impl Errors {
    /// Notes an error; whether it is the first of its kind at its place, and has been kept.
    pub fn note(&mut self, error: Error) -> bool {
        let same = |known: &Error| known.pc == error.pc && known.kind == error.kind && known.write == error.write;
        for place in &mut self.errors {
            match place {
                Some(known) if same(known) => {
                    known.count = known.count.saturating_add(1);
                    return false;
                }
                Some(_) => {}
                None => {
                    *place = Some(Error { count: 1, ..error });
                    return true;
                }
            }
        }
        self.lost = self.lost.saturating_add(1);
        false
    }

    /// What was noted, in the order in which it happened first.
    pub fn iter(&self) -> impl Iterator<Item = &Error> {
        self.errors.iter().flatten()
    }

    /// How many had no place.
    #[must_use]
    pub const fn lost(&self) -> u32 {
        self.lost
    }
}
