//! The probes' instructions.
//!
//! A probe is a function by the rules of C for ARM: R0 is where its data is, R1 how many rounds it shall go. It keeps
//! what such functions have to keep.

use crate::{Kind, UNROLLED};

/// How many words of code a probe has at most.
#[must_use]
pub const fn words(kind: Kind) -> usize {
    match kind {
        Kind::Taken { count, spacing } => (count * spacing / 4) as usize + 32,
        _ => 256,
    }
}

const PUSH: u32 = 0xe92d_40b0; // push {r4, r5, r7, lr}
const POP: u32 = 0xe8bd_80b0; // pop {r4, r5, r7, pc}
const NOP: u32 = 0xe320_f000;
const LOAD_NEXT: u32 = 0xe590_0000; // ldr r0, [r0]
const LOAD_TARGET: u32 = 0xe590_2004; // ldr r2, [r0, #4]
const STORE_LINE: u32 = 0xe480_2040; // str r2, [r0], #64
const GO_TO_TARGET: u32 = 0xe12f_ff12; // bx r2
const COUNT_DOWN: u32 = 0xe251_1001; // subs r1, r1, #1
const BASE_TO_R4: u32 = 0xe1a0_4000; // mov r4, r0
const R4_TO_BASE: u32 = 0xe1a0_0004; // mov r0, r4
const COUNT_DOWN_R5: u32 = 0xe255_5001; // subs r5, r5, #1
const RIGHT_BY_ONE: u32 = 0xe1b0_20a2; // movs r2, r2, lsr #1
const ROTATE_BY_ONE: u32 = 0xe1b0_20e2; // movs r2, r2, ror #1
const FEED_BACK: u32 = 0x2022_2003; // eorcs r2, r2, r3
const COMPARE_ROUNDS: u32 = 0xe351_0000; // cmp r1, #0
const SAVE_LR: u32 = 0xe52d_e004; // push {lr}
const RETURN_SAVED: u32 = 0xe49d_f004; // pop {pc}
const RETURN: u32 = 0xe12f_ff1e; // bx lr
const CALL_KERNEL: u32 = 0xef00_0000; // svc #0

const ALWAYS: u32 = 0xea00_0000; // b
const IF_NOT_ZERO: u32 = 0x1a00_0000; // bne
const IF_ZERO: u32 = 0x0a00_0000; // beq
const IF_CARRY: u32 = 0x2a00_0000; // bcs
const CALL: u32 = 0xeb00_0000; // bl

/// The system call that returns the parent's number, which lmbench's `null` is.
const GETPPID: u32 = 64;

/// Words that are written one behind the other.
struct Writer<'a> {
    words: &'a mut [u32],
    at: usize,
}

impl Writer<'_> {
    fn put(&mut self, word: u32) {
        self.words[self.at] = word;
        self.at += 1;
    }

    fn times(&mut self, count: u32, word: u32) {
        (0..count).for_each(|_| self.put(word));
    }

    /// A branch of a kind from here to the word of that number.
    fn branch(&mut self, kind: u32, to: usize) {
        let distance = to as i32 - self.at as i32 - 2;
        self.put(kind | distance as u32 & 0x00ff_ffff);
    }

    /// A constant in a register: `movw`, `movt`.
    fn constant(&mut self, register: u32, value: u32) {
        let half = |half: u32| half >> 12 << 16 | half & 0xfff;
        self.put(0xe300_0000 | register << 12 | half(value & 0xffff));
        self.put(0xe340_0000 | register << 12 | half(value >> 16));
    }

    /// The end of a round that began there.
    fn round(&mut self, began: usize) {
        self.put(COUNT_DOWN);
        self.branch(IF_NOT_ZERO, began);
    }
}

/// Where the first target of [`Kind::Indirect`] is, and how far the next one is from it, in words.
/// The instruction behind the branch is none: going there could not be told from not branching.
const TARGETS: (usize, usize) = (8, 4);

/// The address of the n-th target of [`Kind::Indirect`] in code that is at `code`.
#[must_use]
pub const fn target(code: u32, n: u32) -> u32 {
    code + (TARGETS.0 as u32 + TARGETS.1 as u32 * n) * 4
}

/// Writes a probe's code; gives its words.
///
/// # Panics
/// If there is room for less than [`words`].
pub fn write(kind: Kind, words: &mut [u32]) -> usize {
    let mut code = Writer { words, at: 0 };
    code.put(PUSH);
    match kind {
        Kind::Chase { .. } | Kind::Pages { .. } => unrolled(&mut code, LOAD_NEXT),
        Kind::Instruction { word } => {
            // Not zero: what is multiplied or added is to be something.
            code.constant(2, 0x1234_5679);
            code.constant(3, 0x0001_0003);
            unrolled(&mut code, word);
        }
        Kind::Stores { bytes } => {
            code.put(BASE_TO_R4);
            let outer = code.at;
            code.put(R4_TO_BASE);
            code.constant(5, bytes / 64 / UNROLLED);
            let inner = code.at;
            code.times(UNROLLED, STORE_LINE);
            code.put(COUNT_DOWN_R5);
            code.branch(IF_NOT_ZERO, inner);
            code.round(outer);
        }
        Kind::Taken { count, spacing } => {
            let began = code.at;
            let space = (spacing / 4) as usize;
            for _ in 0..count {
                let next = code.at + space;
                code.branch(ALWAYS, next);
                code.times(space as u32 - 1, NOP);
            }
            code.round(began);
        }
        Kind::NotTaken => {
            let began = code.at;
            code.put(COMPARE_ROUNDS);
            for _ in 0..UNROLLED {
                let behind = code.at + 2;
                code.branch(IF_ZERO, behind);
                code.put(NOP);
            }
            code.round(began);
        }
        Kind::Pattern { bits } => {
            code.constant(2, bits);
            let began = code.at;
            code.put(ROTATE_BY_ONE);
            by_carry(&mut code, began);
        }
        Kind::Random => {
            // A shift register with feedback, whose period is 2^32 - 1: what leaves it decides.
            code.constant(2, 0x1234_5679);
            code.constant(3, 0x8020_0003);
            let began = code.at;
            code.put(RIGHT_BY_ONE);
            code.put(FEED_BACK);
            by_carry(&mut code, began);
        }
        Kind::Indirect { targets } => {
            let began = code.at;
            code.put(LOAD_TARGET);
            code.put(LOAD_NEXT);
            code.put(GO_TO_TARGET);
            code.times((TARGETS.0 - code.at) as u32, NOP);
            let join = TARGETS.0 + TARGETS.1 * targets as usize;
            for _ in 0..targets {
                code.branch(ALWAYS, join);
                code.times(TARGETS.1 as u32 - 1, NOP);
            }
            code.round(began);
        }
        Kind::Calls { depth } => return calls(code, depth),
        Kind::SystemCall => {
            code.constant(7, GETPPID);
            let began = code.at;
            code.times(kind.in_round(), CALL_KERNEL);
            code.round(began);
        }
    }
    code.put(POP);
    code.at
}

fn unrolled(code: &mut Writer<'_>, word: u32) {
    let began = code.at;
    code.times(UNROLLED, word);
    code.round(began);
}

/// A branch that the carry decides, and the end of the round.
fn by_carry(code: &mut Writer<'_>, began: usize) {
    let behind = code.at + 2;
    code.branch(IF_CARRY, behind);
    code.put(NOP);
    code.round(began);
}

/// The words of a function among [`calls`], so that no two of its branches are near each other.
const FUNCTION: usize = 4;

/// Functions, each of which calls the next one; the last one returns.
fn calls(mut code: Writer<'_>, depth: u32) -> usize {
    let began = code.at;
    let function = |n: u32| began + 4 + n as usize * FUNCTION;
    code.branch(CALL, function(0));
    code.round(began);
    code.put(POP);
    for n in 1..depth {
        code.put(SAVE_LR);
        code.branch(CALL, function(n));
        code.put(RETURN_SAVED);
        code.put(NOP);
    }
    code.put(RETURN);
    code.at
}
