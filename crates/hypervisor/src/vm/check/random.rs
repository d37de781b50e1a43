//! Random numbers that are the same for the same seed: a case is no more than its numbers.

/// Deterministic pseudo-random numbers (xorshift64*), the generator of `spica prove`.
pub struct Random(u64);

impl Random {
    /// A generator for two numbers, small ones included.
    pub fn new(seed: u32, stream: u32) -> Random {
        let seed = u64::from(seed) << 32 | u64::from(stream);
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        for _ in 0..6 {
            random.word();
        }
        random
    }

    /// 32 random bits.
    pub fn word(&mut self) -> u32 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) as u32
    }

    /// A number below `limit`, which is not 0.
    pub fn below(&mut self, limit: u32) -> u32 {
        ((u64::from(self.word()) * u64::from(limit)) >> 32) as u32
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: u32) -> bool {
        self.below(n) == 0
    }

    /// One of these.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u32) as usize]
    }
}
