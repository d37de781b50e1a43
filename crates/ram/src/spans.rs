//! Ranges of physical addresses, and the arithmetic of taking some away from others.

use alloc::vec::Vec;
use core::fmt;

/// A range of physical addresses below 4 GiB. Ends are exclusive and 64-bit, so that one may reach the top.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Span {
    /// First address.
    pub start: u64,
    /// The address after the last.
    pub end: u64,
}

impl Span {
    /// The range of `len` bytes from `start` on.
    pub const fn new(start: u64, len: u64) -> Self {
        Self { start, end: start.saturating_add(len) }
    }

    /// Bytes in the range.
    pub const fn len(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    /// Whether there is no byte in it.
    pub const fn is_empty(&self) -> bool {
        self.end <= self.start
    }

    /// Whether the two have a byte in common.
    pub const fn overlaps(&self, other: &Self) -> bool {
        !self.is_empty() && !other.is_empty() && self.start < other.end && other.start < self.end
    }

    /// Whether all of `other` lies within.
    pub const fn contains(&self, other: &Self) -> bool {
        self.start <= other.start && other.end <= self.end
    }

    /// The whole pages of `unit` bytes (a power of two) that lie within.
    #[must_use]
    pub const fn shrunk_to(&self, unit: u64) -> Self {
        Self { start: align_up(self.start, unit), end: self.end & !(unit - 1) }
    }

    /// The whole pages of `unit` bytes (a power of two) that have a byte in common with it.
    #[must_use]
    pub const fn grown_to(&self, unit: u64) -> Self {
        Self { start: self.start & !(unit - 1), end: align_up(self.end, unit) }
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#010x}-{:#010x}", self.start, self.end)
    }
}

const fn align_up(value: u64, unit: u64) -> u64 {
    value.saturating_add(unit - 1) & !(unit - 1)
}

/// A range of RAM that somebody occupies already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Occupied {
    /// Which addresses.
    pub span: Span,
    /// True if it must not even be mapped (`no-map`): a speculative access could abort or disturb its owner.
    pub no_map: bool,
}

/// The most bytes, a multiple of `unit` (a power of two), so that as many as `count` pieces of that length fit into
/// `spans`.
pub fn most_each(spans: &[Span], count: u64, unit: u64) -> u64 {
    let whole: Vec<u64> = spans.iter().map(|span| span.shrunk_to(unit).len()).collect();
    // The longest pieces fill some span completely, but for a rest smaller than a unit each.
    let lengths = whole.iter().flat_map(|len| (1..=count).map(move |parts| (len / parts) & !(unit - 1)));
    lengths.filter(|&len| len > 0 && whole.iter().map(|w| w / len).sum::<u64>() >= count).max().unwrap_or(0)
}

/// What is left of `spans` without `hole`.
pub fn subtract(spans: &[Span], hole: Span) -> Vec<Span> {
    let mut left = Vec::new();
    for span in spans {
        if !span.overlaps(&hole) {
            left.push(*span);
            continue;
        }
        let before = Span { start: span.start, end: hole.start };
        let after = Span { start: hole.end, end: span.end };
        left.extend([before, after].into_iter().filter(|part| !part.is_empty()));
    }
    left
}

/// The first place at or above `from` for `len` bytes, aligned to `align` (a power of two), within one of `spans`.
pub fn place(spans: &[Span], from: u64, len: u64, align: u64) -> Option<Span> {
    spans
        .iter()
        .filter_map(|span| {
            let candidate = Span::new(align_up(span.start.max(from), align), len);
            (len > 0 && span.contains(&candidate)).then_some(candidate)
        })
        .min()
}
