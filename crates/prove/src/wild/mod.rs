//! Random kernels that do all that a kernel may do and should not: sequences of privileged operations with sound and
//! unsound operands.
//!
//! A [`Program`] is what `tests/bare/wild.S` finds behind its image and carries out: chunks, each some [`Op`]s in a
//! row. It is made from a seed alone, on the development machine, so that a failure can be made smaller by leaving out
//! operations and running what is left ([`Program::only`]). What is drawn how often is in `kinds`: most of all what
//! Spica answers in assembly.
//!
//! Nothing says what such a kernel should do: it may do anything to itself. Who watches are its neighbours.

mod code;
mod kinds;

pub use kinds::names;

use crate::random::Random;
use code::Code;
use std::fmt;

/// Chunks in a program: its image has room for them.
pub const CHUNKS: usize = 2_000;
/// Operations in a chunk, at most.
const OPS: u32 = 12;

/// One operation: words of A32 code that go on behind themselves, whatever happens, if their exception is passed over.
#[derive(Clone, Debug)]
pub struct Op {
    /// Its place in the program: chunk, and number in there.
    pub place: (usize, usize),
    /// What kind of operation it is.
    pub kind: &'static str,
    /// What it does in particular.
    pub text: String,
    words: Vec<u32>,
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind, self.text)
    }
}

/// Operations that are executed as one piece of code.
#[derive(Clone, Debug)]
struct Chunk {
    /// Where it runs, and where that is in memory.
    at: u32,
    memory: u32,
    /// What is put right before: see `CHUNK_BEFORE` in `wild.S`.
    before: u32,
}

/// A program.
#[derive(Clone, Debug)]
pub struct Program {
    chunks: Vec<Chunk>,
    ops: Vec<Op>,
}

/// Where chunks run.
const ARENA: u32 = 0x4040_0000;
const ARENA_PAGES: u32 = 512;
/// From an address to the one at which the same memory has a return mirror.
const TO_KERNEL: u32 = 0x8000_0000;

impl Chunk {
    fn random(random: &mut Random) -> Chunk {
        // Few places, so that code comes to where other code was.
        let pages = if random.one_in(4) { ARENA_PAGES } else { 16 };
        let memory = ARENA + 0x1000 * random.below(pages) + 4 * random.below(0x380);
        let table = random.below(4) << 8;
        match random.below(8) {
            0..3 => Chunk { at: memory + TO_KERNEL, memory, before: 1 | table | (random.below(2) << 1) },
            3 => Chunk { at: memory, memory, before: 1 | table },
            4 => Chunk { at: memory, memory, before: 2 },
            _ => Chunk { at: memory, memory, before: 0 },
        }
    }
}

impl Program {
    /// The program of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Program {
        let mut random = Random::new(seed);
        let mut program = Program { chunks: Vec::new(), ops: Vec::new() };
        for chunk in 0..CHUNKS {
            program.chunks.push(Chunk::random(&mut random));
            for number in 0..1 + random.below(OPS) as usize {
                let mut code = Code::default();
                let (kind, text) = kinds::draw(&mut random, &mut code);
                program.ops.push(Op { place: (chunk, number), kind, text, words: code.words });
            }
        }
        program
    }

    /// All operations, in the order in which they are carried out.
    #[must_use]
    pub fn ops(&self) -> &[Op] {
        &self.ops
    }

    /// The same with these operations alone.
    #[must_use]
    pub fn only(&self, ops: &[Op]) -> Program {
        Program { chunks: self.chunks.clone(), ops: ops.to_vec() }
    }

    /// The words behind the guest's image.
    #[must_use]
    pub fn words(&self) -> Vec<u32> {
        let mut words = Vec::new();
        for ops in self.ops.chunk_by(|one, other| one.place.0 == other.place.0) {
            let Chunk { at, memory, before } = self.chunks[ops[0].place.0];
            let code: Vec<u32> =
                ops.iter().flat_map(|op| op.words.iter().copied()).chain([code::END_OF_CHUNK]).collect();
            words.extend([code.len() as u32, at, memory, before]);
            words.extend(code);
        }
        words.push(0);
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Room behind the image: up to the stacks of `runtime.inc`, less a megabyte's 64 KiB at the start and the guest's
    /// own code.
    const ROOM: usize = 0x1e_0000 - 0x8000;

    #[test]
    fn programs_fit_and_hold_everything() {
        let mut seen = BTreeSet::new();
        for seed in 0..4 {
            let program = Program::new(seed);
            assert!(4 * program.words().len() < ROOM, "{} words", program.words().len());
            seen.extend(program.ops().iter().map(|op| op.kind));
        }
        assert_eq!(seen, names().collect());
    }

    #[test]
    fn a_seed_is_a_program() {
        assert_eq!(Program::new(7).words(), Program::new(7).words());
        assert_ne!(Program::new(7).words(), Program::new(8).words());
    }

    #[test]
    fn what_is_left_out_is_out() {
        let program = Program::new(1);
        let two = program.only(&[program.ops()[3].clone(), program.ops()[100].clone()]);
        let words = two.words();
        assert_eq!(words[0] as usize, program.ops()[3].words.len() + 1);
        assert_eq!(words.last(), Some(&0));
        assert_eq!(words.len(), 2 * 5 + program.ops()[3].words.len() + program.ops()[100].words.len() + 1);
    }

    /// Chunks do not run over the end of where they run: their pages are followed by others of the arena, or by the
    /// victims.
    #[test]
    fn chunks_stay_in_the_arena() {
        for seed in 0..4 {
            let words = Program::new(seed).words();
            let mut at = 0;
            while words[at] != 0 {
                let (length, memory) = (words[at], words[at + 2]);
                assert!(length < 0x400 && memory >= ARENA && memory + 4 * length <= ARENA + 0x1000 * (ARENA_PAGES + 1));
                at += 4 + length as usize;
            }
        }
    }
}
