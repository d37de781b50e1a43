//! Which instruction each count is due to.
//!
//! A [`Places`] is a table in memory that others can read while it grows: a plugin of QEMU keeps it in a mapped file.
//! It has a fixed number of places, so that nothing is ever moved; what comes when it is full is due to
//! [`ELSEWHERE`].

use std::collections::BTreeMap;

use crate::counts::{Count, Counts};

/// Where a model notes what each count is due to.
pub trait Ledger {
    /// So many more of a count are due to the instruction at `address`.
    fn charge(&mut self, address: u32, count: Count, times: u64);
}

/// Nobody wants to know.
impl Ledger for () {
    fn charge(&mut self, _address: u32, _count: Count, _times: u64) {}
}

/// No ledger, or one.
impl<L: Ledger> Ledger for Option<L> {
    fn charge(&mut self, address: u32, count: Count, times: u64) {
        if let Some(ledger) = self {
            ledger.charge(address, count, times);
        }
    }
}

/// Places of a table.
const PLACES: usize = 1 << 18;
/// Numbers of a place: its address and 1, then its counts.
const NUMBERS: usize = 1 + Counts::LENGTH;
/// Numbers of a table.
pub const LENGTH: usize = PLACES * NUMBERS;
/// How many places are looked at for an address, one behind the other.
const TRIES: usize = 64;
/// The address of all for which there is no place left: no instruction is there, for it is odd and the last.
pub const ELSEWHERE: u32 = u32::MAX;

/// A table that is written.
#[derive(Debug)]
pub struct Places<'a> {
    numbers: &'a mut [u64; LENGTH],
    /// The address that was charged last, and its place.
    last: (u32, usize),
}

impl<'a> Places<'a> {
    /// A table of numbers that are all 0, or that were written by another before.
    #[must_use]
    pub fn new(numbers: &'a mut [u64; LENGTH]) -> Self {
        let place = find(numbers, ELSEWHERE);
        Self { numbers, last: (ELSEWHERE, place) }
    }
}

impl Ledger for Places<'_> {
    fn charge(&mut self, address: u32, count: Count, times: u64) {
        if times == 0 {
            return;
        }
        if self.last.0 != address {
            self.last = (address, find(self.numbers, address));
        }
        self.numbers[self.last.1 * NUMBERS + 1 + count as usize] += times;
    }
}

/// The place of an address, which is taken if nobody has it. The last one is that of [`ELSEWHERE`].
fn find(numbers: &mut [u64; LENGTH], address: u32) -> usize {
    let key = u64::from(address) + 1;
    // Knuth's multiplicative hash: the golden ratio of 2 to the power of 32.
    let first = (address.wrapping_mul(0x9e37_79b1) >> 14) as usize;
    let tried = (0..TRIES).map(|n| (first + n) % (PLACES - 1));
    let place = tried.into_iter().find(|place| [0, key].contains(&numbers[place * NUMBERS]));
    let place = place.filter(|_| address != ELSEWHERE).unwrap_or(PLACES - 1);
    numbers[place * NUMBERS] = if place == PLACES - 1 { u64::from(ELSEWHERE) + 1 } else { key };
    place
}

/// What a table has, by address. `None` if these are not the numbers of one.
#[must_use]
pub fn read(numbers: &[u64]) -> Option<BTreeMap<u32, Counts>> {
    let (places, rest) = numbers.as_chunks::<NUMBERS>();
    if (places.len(), rest.len()) != (PLACES, 0) {
        return None;
    }
    let taken = places.iter().filter(|place| place[0] != 0);
    let counts = |place: &[u64; NUMBERS]| Counts::of(std::array::from_fn(|at| place[1 + at]));
    Some(taken.map(|place| ((place[0] - 1) as u32, counts(place))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Box<[u64; LENGTH]> {
        vec![0; LENGTH].into_boxed_slice().try_into().unwrap()
    }

    #[test]
    fn what_is_charged_is_read() {
        let mut numbers = table();
        let mut places = Places::new(&mut numbers);
        for n in 0..1000u32 {
            places.charge(0xf180_0000 + 4 * (n % 100), Count::Isb, u64::from(n));
            places.charge(0x1_0000, Count::Dsb, 2);
        }
        places.charge(0x2_0000, Count::Dsb, 0);
        let read = read(&numbers[..]).unwrap();
        assert_eq!(read.len(), 102, "those, and the one for the rest");
        assert_eq!(read[&0x1_0000].get(Count::Dsb), 2000);
        // 7, 107, 207 … 907.
        assert_eq!(read[&0xf180_001c].get(Count::Isb), 4570);
        assert_eq!(super::read(&numbers[1..]), None);
    }

    #[test]
    fn a_full_table_loses_places_and_no_counts() {
        let mut numbers = table();
        let mut places = Places::new(&mut numbers);
        let all = PLACES as u32 + 1000;
        (0..all).for_each(|n| places.charge(4 * n, Count::Dmb, 1));
        let read = read(&numbers[..]).unwrap();
        let sum: u64 = read.values().map(|counts| counts.get(Count::Dmb)).sum();
        assert_eq!(sum, u64::from(all));
        assert!(read[&ELSEWHERE].get(Count::Dmb) >= 1000);
    }
}
