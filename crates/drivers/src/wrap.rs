//! A 64-bit clock from a counter of 32 bits. Pure.

/// Extends a counter that counts up and wraps at 2^32. It has to be asked at least once per turn.
#[derive(Clone, Copy, Debug, Default)]
pub struct Extended {
    last: u32,
    turns: u32,
}

impl Extended {
    /// A clock that begins within its first turn.
    pub const fn new() -> Self {
        Self { last: 0, turns: 0 }
    }

    /// The 64-bit time at which the counter reads `count`.
    #[inline]
    pub fn at(&mut self, count: u32) -> u64 {
        if count < self.last {
            self.turns += 1;
        }
        self.last = count;
        u64::from(self.turns) << 32 | u64::from(count)
    }
}

/// Ticks to load into a 32-bit one-shot timer at `now` for a deadline: at least 1, at most half a turn, so that a clock
/// which is read at each expiry misses no turn. No deadline counts as the farthest.
#[inline]
pub fn ticks_until(deadline: Option<u64>, now: u64) -> u32 {
    const FARTHEST: u64 = 1 << 31;
    let ticks = deadline.map_or(FARTHEST, |deadline| deadline.saturating_sub(now));
    ticks.clamp(1, FARTHEST) as u32
}
