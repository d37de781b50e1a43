//! What a processor knows of those who take turns on it.

use crate::{Floor, Slices};

/// Who has the processor, whose slice it is, and up to when its time is charged to somebody.
#[derive(Clone, Copy, Debug)]
pub struct RunQueue {
    /// How long whoever has the processor may keep it.
    pub slices: Slices,
    floor: Floor,
    current: Option<usize>,
    last: Option<usize>,
    /// Up to this time all time is charged to some guest, or to nobody.
    charged: u64,
}

impl RunQueue {
    /// A queue with slices of `slice` ticks, which begins at `now`. Nobody has the processor.
    pub fn new(slice: u64, now: u64) -> RunQueue {
        RunQueue { slices: Slices::new(slice), floor: Floor::default(), current: None, last: None, charged: now }
    }

    /// The least virtual time of those who want to run, or did when somebody last wanted to: `used` is what each of
    /// them has used ([`Turn::used`](crate::Turn::used)).
    pub fn floor(&mut self, used: impl Iterator<Item = u64>) -> u64 {
        self.floor.follow(used)
    }

    /// Whether what the processor has is guest `at`'s.
    pub fn is_current(&self, at: usize) -> bool {
        self.current == Some(at)
    }

    /// What the processor has is guest `at`'s from now on.
    pub fn set_current(&mut self, at: usize) {
        self.current = Some(at);
    }

    /// Whose what the processor has is.
    pub fn current(&self) -> Option<usize> {
        self.current
    }

    /// Nothing in the processor is a guest's any more. Whose it was.
    pub fn take_current(&mut self) -> Option<usize> {
        self.current.take()
    }

    /// Guest `at` runs next. Who ran before it, which may be the same.
    pub fn follows(&mut self, at: usize) -> usize {
        self.last.replace(at).unwrap_or(at)
    }

    /// Charges somebody for the time up to `until` that nobody was charged for yet: so many ticks.
    pub fn charge(&mut self, until: u64) -> u64 {
        until.saturating_sub(core::mem::replace(&mut self.charged, until))
    }
}
