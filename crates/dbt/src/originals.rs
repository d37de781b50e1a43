//! Which instruction a twin's `SVC` stands for, by its number.
//!
//! A guest may read its text, and what is [replaced](crate::in_place) there reads as what replaces it. Some copy what
//! they read, and execute the copy: Linux makes the code for an optimised kprobe from a template in its text. So that
//! the copy does what its original would do, the number of each `SVC` says what is meant. Numbers last as long as the
//! machine, since nobody knows which copies there are.
//!
//! Kernels have few different instructions that are replaced. If there are too many, the last ones have no number.

use alloc::vec;
use alloc::vec::Vec;

use spica_isa::{Cond, asm};

use crate::trap;

/// How many different instructions can have a number.
const SLOTS: usize = 2048;
/// How many slots are tried for one.
const TRIES: usize = 32;
/// Where the slot's number begins in the number of an `SVC`, from 1 on: below is what all have.
const SLOT: u32 = 6;

/// See the module's text.
pub struct Originals {
    /// By slot: an instruction, or 0, which is never replaced.
    words: Vec<u32>,
}

impl Originals {
    /// Bytes that [`Originals::new`] takes.
    pub const BYTES: usize = SLOTS * 4;

    /// None has a number yet.
    #[must_use]
    pub fn new() -> Originals {
        Originals { words: vec![0; SLOTS] }
    }

    /// The `SVC` that stands for the instruction `word`.
    pub fn stand_in(&mut self, word: u32) -> u32 {
        const SHIFT: u32 = u32::BITS - SLOTS.ilog2();
        // Knuth, The Art of Computer Programming, 6.4: the golden ratio spreads what is alike.
        let first = (word.wrapping_mul(0x9e37_79b1) >> SHIFT) as usize;
        let free = (first..first + TRIES)
            .map(|slot| slot % SLOTS)
            .find(|&slot| matches!(self.words[slot], 0) || self.words[slot] == word);
        let number = free.map_or(0, |slot| {
            self.words[slot] = word;
            slot as u32 + 1
        });
        asm::svc(Cond::Al, number << SLOT | trap::REPLACED)
    }

    /// The instruction that the `SVC` of number `svc` stands for, if it does.
    #[must_use]
    pub fn of(&self, svc: u32) -> Option<u32> {
        let slot = (svc >> SLOT).checked_sub(1).filter(|_| svc & ((1 << SLOT) - 1) == trap::REPLACED)?;
        self.words.get(slot as usize).copied().filter(|&word| word != 0)
    }
}

impl Default for Originals {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_svc_says_what_it_stands_for() {
        let mut originals = Originals::new();
        let all = (1..=1000u32).map(|n| 0xe10f_0000 | n << 4);
        let stand_ins: Vec<u32> = all.clone().map(|word| originals.stand_in(word)).collect();
        for (word, svc) in all.zip(stand_ins) {
            // The lowest five bits are looked at in assembly.
            assert_eq!((svc >> 24, svc & 0x1f), (0xef, 0));
            assert_eq!(originals.of(svc & 0x00ff_ffff), Some(word));
            assert_eq!(originals.stand_in(word), svc);
        }
        for none in [0, 1, trap::REPLACED, 0x40, 0x90_0004, 0xff_ffff, 0xff_ffe0] {
            assert_eq!(originals.of(none), None, "{none:x}");
        }
    }

    #[test]
    fn too_many_have_no_number() {
        let mut originals = Originals::new();
        let without = (1..=100_000).filter(|&word| originals.stand_in(word) & 0x00ff_ffff == trap::REPLACED).count();
        assert_eq!(without, 100_000 - SLOTS);
        let known = (0..SLOTS as u32).filter_map(|slot| originals.of((slot + 1) << SLOT | trap::REPLACED)).count();
        assert_eq!(known, SLOTS);
    }
}
