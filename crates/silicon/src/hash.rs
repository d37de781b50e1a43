//! Hash tables of numbers that nobody chooses to do harm: a multiplication is enough.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A table with [`Multiply`].
pub type Map<K, V> = HashMap<K, V, BuildHasherDefault<Multiply>>;

/// Multiplies each number in.
#[derive(Clone, Copy, Default, Debug)]
pub struct Multiply(u64);

impl Hasher for Multiply {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u32(byte.into()));
    }

    fn write_u32(&mut self, number: u32) {
        // Fibonacci's multiplier; the table takes its index from either end.
        self.0 = (self.0.rotate_left(26) ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 ^= self.0 >> 29;
    }

    fn write_u8(&mut self, number: u8) {
        self.write_u32(number.into());
    }
}
