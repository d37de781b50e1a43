//! A machine of bytes with a stack, whose loop is one dense `match`: a jump table, which T32 has TBB and TBH for.

use core::hint::black_box;

use super::Random;
use crate::println;

/// What a program ends with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// This was on top of the stack.
    Value(i32),
    /// It had too few or too many values.
    Stack,
    /// It jumped out of itself, or has an instruction that is none.
    Lost(usize),
    /// It took too long.
    Endless,
}

const PUSH: u8 = 0;
const ADD: u8 = 1;
const SUB: u8 = 2;
const MUL: u8 = 3;
const DIV: u8 = 4;
const REM: u8 = 5;
const AND: u8 = 6;
const OR: u8 = 7;
const XOR: u8 = 8;
const NOT: u8 = 9;
const LESS: u8 = 10;
const DUP: u8 = 11;
const DROP: u8 = 12;
const SWAP: u8 = 13;
const LOAD: u8 = 14;
const STORE: u8 = 15;
const JUMP: u8 = 16;
const JUMP_IF: u8 = 17;
const END: u8 = 18;

/// A machine, with what it remembers.
struct Machine {
    stack: [i32; 16],
    depth: usize,
    variables: [i32; 4],
}

impl Machine {
    fn pop(&mut self) -> Result<i32, End> {
        self.depth = self.depth.checked_sub(1).ok_or(End::Stack)?;
        Ok(self.stack[self.depth])
    }

    fn push(&mut self, value: i32) -> Result<(), End> {
        *self.stack.get_mut(self.depth).ok_or(End::Stack)? = value;
        self.depth += 1;
        Ok(())
    }

    fn two(&mut self, of: impl FnOnce(i32, i32) -> i32) -> Result<(), End> {
        let (second, first) = (self.pop()?, self.pop()?);
        self.push(of(first, second))
    }

    /// Carries out the instruction at `at`; gives where the next one is.
    fn step(&mut self, program: &[u8], at: usize) -> Result<usize, End> {
        let byte = |at: usize| program.get(at).copied().ok_or(End::Lost(at));
        let mut next = at + 1;
        match byte(at)? {
            PUSH => {
                self.push(i32::from(byte(next)?))?;
                next += 1;
            }
            ADD => self.two(i32::wrapping_add)?,
            SUB => self.two(i32::wrapping_sub)?,
            MUL => self.two(i32::wrapping_mul)?,
            DIV => self.two(|a, b| a.checked_div(b).unwrap_or(0))?,
            REM => self.two(|a, b| a.checked_rem(b).unwrap_or(a))?,
            AND => self.two(|a, b| a & b)?,
            OR => self.two(|a, b| a | b)?,
            XOR => self.two(|a, b| a ^ b)?,
            NOT => {
                let value = self.pop()?;
                self.push(!value)?;
            }
            LESS => self.two(|a, b| (a < b).into())?,
            DUP => {
                let value = self.pop()?;
                self.push(value)?;
                self.push(value)?;
            }
            DROP => {
                self.pop()?;
            }
            SWAP => {
                let (second, first) = (self.pop()?, self.pop()?);
                self.push(second)?;
                self.push(first)?;
            }
            LOAD => {
                self.push(self.variables[usize::from(byte(next)?) % 4])?;
                next += 1;
            }
            STORE => {
                self.variables[usize::from(byte(next)?) % 4] = self.pop()?;
                next += 1;
            }
            JUMP => next = byte(next)?.into(),
            JUMP_IF => {
                let target = byte(next)?.into();
                next = if self.pop()? != 0 { target } else { next + 1 };
            }
            END => return Err(End::Value(self.pop()?)),
            _ => return Err(End::Lost(at)),
        }
        Ok(next)
    }
}

/// Runs a program.
#[inline(never)]
fn execute(program: &[u8]) -> End {
    let mut machine = Machine { stack: [0; 16], depth: 0, variables: [0; 4] };
    let mut at = 0;
    for _ in 0..20_000 {
        match machine.step(program, at) {
            Ok(next) => at = next,
            Err(end) => return end,
        }
    }
    End::Endless
}

/// Steps that Collatz's sequence takes from 97 to 1.
#[rustfmt::skip]
const COLLATZ: &[u8] = &[
    PUSH, 97, STORE, 0,
    // 4: it ends at 1.
    LOAD, 0, PUSH, 2, LESS, JUMP_IF, 43,
    // 11
    LOAD, 1, PUSH, 1, ADD, STORE, 1,
    // 18
    LOAD, 0, PUSH, 2, REM, JUMP_IF, 34,
    // 25
    LOAD, 0, PUSH, 2, DIV, STORE, 0, JUMP, 4,
    // 34: a number that is odd.
    LOAD, 0, PUSH, 3, MUL, PUSH, 1, JUMP, 46,
    // 43
    LOAD, 1, END,
    // 46
    ADD, STORE, 0, JUMP, 4,
];

/// All kinds of instruction: ((7 - 9) * -4 | 32) ^ ((250 % 11) & 5).
#[rustfmt::skip]
const ALL: &[u8] = &[
    PUSH, 7, PUSH, 9, SUB, PUSH, 3, NOT, MUL, PUSH, 32, OR, PUSH, 11, PUSH, 250, SWAP, REM, PUSH, 5, AND, XOR,
    DUP, DROP, END,
];

/// All of that.
pub fn run() {
    println!("  {:?} {:?}", execute(black_box(COLLATZ)), execute(black_box(ALL)));
    let wrong: [&[u8]; 5] = [&[ADD], &[JUMP, 0], &[DUP, END], &[PUSH, 1, JUMP, 0], &[JUMP, 200]];
    let [a, b, c, d, e] = black_box(wrong).map(execute);
    println!("  {a:?} {b:?} {c:?} {d:?} {e:?} {:?}", execute(black_box(&[19])));
    // Programs by chance.
    let (mut ends, mut bytes) = ([0; 4], [0; 32]);
    let mut random = Random::new(5);
    for _ in 0..200 {
        bytes.fill_with(|| (random.next().unwrap_or_default() >> 8) as u8 % 20);
        ends[match execute(&bytes) {
            End::Value(_) => 0,
            End::Stack => 1,
            End::Lost(_) => 2,
            End::Endless => 3,
        }] += 1;
    }
    println!("  {ends:?}");
}
