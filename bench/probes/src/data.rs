//! What the probes load.

use crate::{Kind, PAGE};

/// How many bytes of data a probe needs, in whole pages.
#[must_use]
pub const fn bytes(kind: Kind) -> u32 {
    match kind {
        Kind::Chase { bytes, .. } | Kind::Stores { bytes } => bytes.next_multiple_of(PAGE),
        Kind::Pages { count } => count * PAGE,
        _ => PAGE,
    }
}

/// The bytes of a node of the ring of [`Kind::Indirect`]: the next node, and a target.
pub const NODE: u32 = 8;

/// Fills a probe's data, which is zeroes and will be at `base`; `target` gives the address of a target of its code.
///
/// # Panics
/// If there is less than [`bytes`] of it.
pub fn fill(kind: Kind, data: &mut [u32], base: u32, target: impl Fn(u32) -> u32) {
    match kind {
        Kind::Chase { bytes, stride, shuffled } => {
            ring(data, base, bytes / stride, shuffled, |n| n * stride);
        }
        Kind::Pages { count } => ring(data, base, count, false, page),
        Kind::Indirect { targets } => {
            ring(data, base, targets, false, |n| n * NODE);
            (0..targets).for_each(|n| data[(n * NODE / 4 + 1) as usize] = target(n));
        }
        _ => {}
    }
}

/// Where the pointer of the n-th page is: pages of an even and of an odd number are in different halves of a cache of
/// 8 KiB a way as it is, so two neighbours may be at the same place in theirs.
const fn page(n: u32) -> u32 {
    n * PAGE + n / 2 * 32 % PAGE
}

/// Writes a ring of pointers, each at the place that `place` gives for its number, to the one of the next number; or
/// to any other, if `shuffled`, but so that it is still one ring (Sattolo's way to shuffle).
fn ring(data: &mut [u32], base: u32, count: u32, shuffled: bool, place: impl Fn(u32) -> u32) {
    let at = |n: u32| (place(n) / 4) as usize;
    if !shuffled {
        (0..count).for_each(|n| data[at(n)] = base + place((n + 1) % count));
        return;
    }
    (0..count).for_each(|n| data[at(n)] = base + place(n));
    let mut random = 0x9e37_79b9u32;
    for n in (1..count).rev() {
        // xorshift
        random ^= random << 13;
        random ^= random >> 17;
        random ^= random << 5;
        let other = ((u64::from(random) * u64::from(n)) >> 32) as u32;
        data.swap(at(n), at(other));
    }
}
