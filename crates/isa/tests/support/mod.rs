//! What the tests share: a deterministic source of instruction words, and how many to take.

#![allow(dead_code, reason = "each test binary uses its part")]

/// SplitMix64: small, seedable, and good enough to reach every corner of a 32-bit space.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub fn word(&mut self) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ z >> 31) >> 32) as u32
    }

    pub fn below(&mut self, n: u32) -> u32 {
        ((u64::from(self.word()) * u64::from(n)) >> 32) as u32
    }

    /// A word whose four-bit fields are often 0 or 15: those are what should-be bits and the PC are made of, and
    /// uniformly random words almost never have them.
    pub fn biased_word(&mut self) -> u32 {
        (0..8).fold(0, |word, field| {
            let value = match self.below(4) {
                0 => 0,
                1 => 15,
                _ => self.below(16),
            };
            word | value << (4 * field)
        })
    }
}

/// How many words a sampling test takes: SPICA_ISA_SAMPLES, or `default`.
pub fn samples(default: u32) -> u32 {
    match std::env::var("SPICA_ISA_SAMPLES") {
        Ok(n) => n.parse().expect("SPICA_ISA_SAMPLES is a number"),
        Err(_) => default,
    }
}

/// Every combination of bits 27:20 and 7:4 (which select the instruction in nearly all tables of the manual) under the
/// conditions EQ, AL and 0b1111, each with `patterns` fillings of the other bits.
pub fn structured(patterns: u32, mut visit: impl FnMut(u32)) {
    let mut random = Random::new(0x5eed);
    for cond in [0x0000_0000, 0xe000_0000, 0xf000_0000] {
        for selector in 0..4096 {
            let fixed = cond | (selector & 0xff0) << 16 | (selector & 15) << 4;
            for fill in [0x0000_0000, 0x000f_ff0f, 0x000f_f000, 0x0001_2003, 0x000d_4000, 0x000f_0f00, 0x0000_f000] {
                visit(fixed | fill);
            }
            for _ in 0..patterns {
                visit(fixed | random.biased_word() & 0x000f_ff0f);
            }
        }
    }
}
