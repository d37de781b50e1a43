//! Random bytes for guests: a generator of hashes, keyed with what the board has that is hard to guess.
//!
//! No board that Spica runs on has a random number generator that it drives. What there is are the host's clock at
//! moments that depend on what guests and people do, and the time of boot. A guest should mix in what else it has, as
//! Linux does.
//!
//! Each request hashes the key with the clock and a counter, and makes a new key afterwards, so that what was given out
//! cannot be worked out from the key that is there later.

use sha2::{Digest, Sha256};

/// See the module's text.
pub struct Entropy {
    key: [u8; 32],
}

impl Entropy {
    /// A generator that begins with these bytes.
    pub fn new(seed: &[&[u8]]) -> Entropy {
        let mut hash = Sha256::new();
        seed.iter().for_each(|bytes| hash.update(bytes));
        Entropy { key: hash.finalize().into() }
    }

    /// Fills `into`; `clock` is the host's.
    pub fn fill(&mut self, into: &mut [u8], clock: u64) {
        for (block, number) in into.chunks_mut(32).zip(1u32..) {
            block.copy_from_slice(&self.hash(clock, number)[..block.len()]);
        }
        self.key = self.hash(clock, 0);
    }

    fn hash(&self, clock: u64, number: u32) -> [u8; 32] {
        Sha256::new()
            .chain_update(self.key)
            .chain_update(clock.to_le_bytes())
            .chain_update(number.to_le_bytes())
            .finalize()
            .into()
    }
}
