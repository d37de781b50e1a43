//! How long guests that wait are left waiting.

/// Upper bounds of the classes, in microseconds; the last class has none.
pub const BOUNDS: [u32; 8] = [10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000];

/// [`BOUNDS`] in ticks of a clock of `frequency` Hz: what is below one of those is below the other.
#[must_use]
pub fn bounds_in_ticks(frequency: u32) -> [u64; BOUNDS.len()] {
    BOUNDS.map(|bound| (u64::from(bound) * u64::from(frequency)).div_ceil(1_000_000))
}

/// Times from an interrupt's coming due to its guest's going on, by [`BOUNDS`].
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Latency {
    counts: [u64; BOUNDS.len() + 1],
}

impl Latency {
    /// Counts one of `ticks`, of the clock that `bounds` are [of](bounds_in_ticks): a division for each would be dear.
    pub fn record(&mut self, ticks: u64, bounds: &[u64; BOUNDS.len()]) {
        let class = bounds.iter().position(|&bound| ticks < bound).unwrap_or(BOUNDS.len());
        self.counts[class] += 1;
    }

    /// The counts with their upper bounds; `None` for the class that has none.
    pub fn classes(&self) -> impl Iterator<Item = (Option<u32>, u64)> + '_ {
        BOUNDS.iter().copied().map(Some).chain([None]).zip(self.counts.iter().copied())
    }
}
