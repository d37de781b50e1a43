//! Nanoseconds as ticks of a clock.

/// How far a clock has come.
#[derive(Default)]
pub struct Ticks {
    /// Nanoseconds that have been counted.
    until: u64,
    /// What is left of a tick, in Hz times nanoseconds.
    part: u128,
}

impl Ticks {
    /// The ticks of a clock of `hertz` that are new at `now`.
    pub fn new_at(&mut self, now: u64, hertz: u64) -> u64 {
        let passed = now.saturating_sub(self.until);
        self.until += passed;
        let all = u128::from(passed) * u128::from(hertz) + self.part;
        self.part = all % 1_000_000_000;
        (all / 1_000_000_000) as u64
    }
}
