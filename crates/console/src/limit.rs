//! How often Spica says the same of a guest that makes it happen again and again.

/// So many times it is said at once.
const AT_ONCE: u32 = 4;

/// One thing that happens to a guest: the first times it is said, then at most once a second, with how often it has
/// happened.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    /// Ticks of the host's timer in a second.
    second: u64,
    /// How often it may be said now.
    left: u32,
    /// When that becomes one more.
    more_at: u64,
    /// How often it happened since it was said last.
    unsaid: u32,
}

impl Limit {
    /// Nothing has happened; `second` are the ticks of the host's timer in a second.
    pub fn new(second: u64) -> Limit {
        Limit { second, left: AT_ONCE, more_at: 0, unsaid: 0 }
    }

    /// It happens.
    pub fn happens(&mut self) {
        self.unsaid = self.unsaid.saturating_add(1);
    }

    /// How often it happened since it was said last, if that is to be said at `now`.
    pub fn to_say(&mut self, now: u64) -> Option<u32> {
        if self.left < AT_ONCE && now >= self.more_at {
            let long_ago = now - self.more_at >= u64::from(AT_ONCE) * self.second;
            self.left = if long_ago { AT_ONCE } else { self.left + 1 };
            self.more_at = now + self.second;
        }
        if self.unsaid == 0 || self.left == 0 {
            return None;
        }
        if self.left == AT_ONCE {
            self.more_at = now + self.second;
        }
        self.left -= 1;
        Some(core::mem::take(&mut self.unsaid))
    }

    /// How often it happened since it was said last, whenever that was: something else is to be said after it.
    pub fn rest(&mut self) -> Option<u32> {
        (self.unsaid != 0).then(|| core::mem::take(&mut self.unsaid))
    }

    /// When [`to_say`](Self::to_say) is to be asked again, if nothing happens.
    pub fn deadline(&self) -> Option<u64> {
        (self.unsaid != 0).then_some(self.more_at)
    }
}
