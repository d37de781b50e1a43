//! Who runs next: virtual time, which passes the more slowly for a guest the greater its weight.
//!
//! Of those that want to run, the one with the least virtual time does, so that over any while in which several want to
//! run their shares are as their weights. One that waited is brought up to the others, less a little credit: it runs at
//! once when its interrupt comes, but it cannot save up time by sleeping.

use core::num::NonZeroU32;

/// Virtual time passes at this weight as real time does.
const UNIT: u64 = 1024;

/// The least virtual time of those who want to run: where somebody who comes back joins them. It never goes back, and
/// while nobody wants to run it stands still; or the first to come would be brought up to nobody, and run alone until
/// it had caught up with what others once used.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Floor(u64);

impl Floor {
    /// Those who want to run have `used` so much.
    pub fn follow(&mut self, used: impl Iterator<Item = u64>) -> u64 {
        self.0 = self.0.max(used.min().unwrap_or(0));
        self.0
    }
}

/// A guest's place in the order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Turn {
    weight: NonZeroU32,
    /// Virtual time that passes with a tick, in 2^-32: the core may have no division, and turns are short.
    pace: u64,
    /// Virtual time used, in ticks.
    used: u64,
}

impl Turn {
    /// The place of a guest with `weight` among others whose least virtual time is `floor`.
    pub fn new(weight: NonZeroU32, floor: u64) -> Turn {
        Turn { weight, pace: (UNIT << 32) / u64::from(weight.get()), used: floor }
    }

    /// Its weight.
    pub fn weight(&self) -> NonZeroU32 {
        self.weight
    }

    /// Virtual time used: whoever has the least is next.
    pub fn used(&self) -> u64 {
        self.used
    }

    /// The guest has run, or was worked for, for `ticks`.
    pub fn charge(&mut self, ticks: u64) {
        self.used = self.used.saturating_add(self.scaled(ticks));
    }

    /// The guest waited and wants to run again; `floor` is where ([`Floor`]), `credit` the ticks that
    /// it may be ahead of them.
    pub fn wake(&mut self, floor: u64, credit: u64) {
        self.used = self.used.max(floor.saturating_sub(self.scaled(credit)));
    }

    /// Whether this one is to take over from `running`, whose slice is not over: only if it is well ahead, or they
    /// would take turns for nothing.
    pub fn preempts(&self, running: &Turn, margin: u64) -> bool {
        self.used.saturating_add(self.scaled(margin)) < running.used
    }

    fn scaled(&self, ticks: u64) -> u64 {
        u64::try_from((u128::from(ticks) * u128::from(self.pace)) >> 32).unwrap_or(u64::MAX)
    }
}
