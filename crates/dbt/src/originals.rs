//! Which instruction a twin's `SVC` stands for, by its number.
//!
//! A guest may read its text, and what is [replaced](crate::in_place) there reads as what replaces it. Some copy what
//! they read, and execute the copy: Linux makes the code for an optimised kprobe from a template in its text. So that
//! the copy does what its original would do, the number of each `SVC` says what is meant. Numbers last as long as the
//! machine, since nobody knows which copies there are. They are part of a guest's state ([`Originals::kept`]), and go
//! with it to another run, and to one that runs nothing in place.
//!
//! Kernels have few different instructions that are replaced. If there are too many, the last ones have no number.

use alloc::vec;
use alloc::vec::Vec;

use spica_isa::{Cond, asm};

use crate::in_place::{Words, instead, is_sensitive, is_window_edge};
use crate::trap;

/// How many different instructions can have a number.
const SLOTS: usize = 2048;
/// How many slots are tried for one.
const TRIES: usize = 32;
/// Where the slot's number begins in the number of an `SVC`, from 1 on: below is what all have.
const SLOT: u32 = 8;

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

    /// Those that were [kept](Self::kept). None of them makes more of the guest than it is: what they stand for is
    /// interpreted with the guest's own rights, and none stands for an `SVC`, which could stand for itself.
    ///
    /// # Errors
    /// If there is no memory, or if this is none that can have been kept: what is wrong.
    pub fn restore(kept: impl IntoIterator<Item = (u16, u32)>) -> Result<Originals, &'static str> {
        let mut words = Vec::new();
        words.try_reserve_exact(SLOTS).map_err(|_| "more instructions in place than there is memory for")?;
        words.resize(SLOTS, 0);
        let mut originals = Originals { words };
        for (slot, word) in kept {
            // Whatever is replaced, and no more.
            let replaced = is_sensitive(word) && instead(word).is_none();
            let free = originals.words.get_mut(usize::from(slot)).filter(|there| replaced && **there == 0);
            *free.ok_or("an instruction in place that cannot be")? = word;
        }
        let found = originals.kept().all(|(slot, word)| originals.place(word) == Some(slot.into()));
        found.then_some(originals).ok_or("an instruction in place that is not where it is looked for")
    }

    /// All that have a number: the slot and the instruction.
    pub fn kept(&self) -> impl Iterator<Item = (u16, u32)> {
        let used = self.words.iter().enumerate().filter(|&(_, &word)| word != 0);
        used.map(|(slot, &word)| (slot as u16, word))
    }

    /// The slot of the instruction `word`, or one for it, if there is any left.
    fn place(&self, word: u32) -> Option<usize> {
        const SHIFT: u32 = u32::BITS - SLOTS.ilog2();
        // Knuth, The Art of Computer Programming, 6.4: the golden ratio spreads what is alike.
        let first = (word.wrapping_mul(0x9e37_79b1) >> SHIFT) as usize;
        (first..first + TRIES)
            .map(|slot| slot % SLOTS)
            .find(|&slot| matches!(self.words[slot], 0) || self.words[slot] == word)
    }

    /// The number of the instruction `word`, as an `SVC` has it; 0 if there is no slot for it.
    fn number(&mut self, word: u32) -> u32 {
        let number = self.place(word).map_or(0, |slot| {
            self.words[slot] = word;
            slot as u32 + 1
        });
        number << SLOT
    }

    /// The `SVC` that stands for the instruction `word`.
    pub fn stand_in(&mut self, word: u32) -> u32 {
        let number = self.number(word);
        asm::svc(Cond::Al, number | trap::REPLACED)
    }

    /// The same for word `at` of `page`, which assembly may do where it is ([`trap::DACR_IN_PLACE`]).
    pub fn stand_in_at(&mut self, page: &Words, at: usize) -> u32 {
        if is_window_edge(page, at) {
            let number = self.number(page[at]);
            if number != 0 {
                let register = page[at] >> 12 & 7;
                return asm::svc(Cond::Al, number | trap::DACR_IN_PLACE | register);
            }
        }
        self.stand_in(page[at])
    }

    /// The instruction that the `SVC` of number `svc` stands for, if it does.
    #[must_use]
    pub fn of(&self, svc: u32) -> Option<u32> {
        let low = svc & ((1 << SLOT) - 1);
        let stands_in = low == trap::REPLACED || low & !7 == trap::DACR_IN_PLACE;
        let slot = (svc >> SLOT).checked_sub(1).filter(|_| stands_in)?;
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
            // The lowest byte is looked at in assembly.
            assert_eq!((svc >> 24, svc & 0xff), (0xef, trap::REPLACED));
            assert_eq!(originals.of(svc & 0x00ff_ffff), Some(word));
            assert_eq!(originals.stand_in(word), svc);
        }
        for none in [0, 1, trap::REPLACED, 0x40, 0x90_0004, 0xff_ffff, 0xff_ff20] {
            assert_eq!(originals.of(none), None, "{none:x}");
        }
    }

    #[test]
    fn what_is_kept_is_what_comes_back() {
        let mut originals = Originals::new();
        // MRS R0, CPSR and the like, of all conditions and registers, more than fit in their places.
        let all = |n: u32| (n % 15) << 28 | 0x010f_0000 | (n / 15 % 15) << 12 | (n / 225 % 2) << 22;
        let svcs: Vec<u32> = (0..450).map(|n| originals.stand_in(all(n))).collect();
        let kept: Vec<_> = originals.kept().collect();
        assert_eq!(kept.len(), 450);
        let mut back = Originals::restore(kept.iter().copied()).expect("what was kept");
        for (n, svc) in svcs.into_iter().enumerate() {
            assert_eq!(back.of(svc & 0x00ff_ffff), Some(all(n as u32)));
            assert_eq!(back.stand_in(all(n as u32)), svc);
        }
        assert!(Originals::restore([]).is_ok_and(|none| none.kept().next().is_none()));
    }

    #[test]
    fn what_cannot_have_been_kept_is_refused() {
        const MRS: u32 = 0xe10f_0000;
        let mut originals = Originals::new();
        originals.stand_in(MRS);
        let (slot, _) = originals.kept().next().unwrap();
        let is_refused = |kept: &[(u16, u32)]| Originals::restore(kept.iter().copied()).is_err();
        assert!(!is_refused(&[(slot, MRS)]));
        // Not where it is looked for; there twice; and in no slot at all.
        assert!(is_refused(&[(slot + 1, MRS)]) && is_refused(&[(slot, MRS), (slot, MRS)]));
        assert!(is_refused(&[(slot, MRS), (slot + 1, MRS)]) && is_refused(&[(SLOTS as u16, MRS)]));
        // Wherever it is: SVC, which may stand for itself; NOP, B, SMC, BKPT, nothing, which are never replaced; a read
        // of TPIDRURO, which has another instruction.
        for word in [asm::svc(Cond::Al, 0x60), 0xe1a0_0000, 0xeaff_fffe, 0xe160_0070, 0xe120_0070, 0, 0xee1d_0f70] {
            let place = originals.place(word).unwrap() as u16;
            assert!(is_refused(&[(place, word)]), "{word:x}");
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
