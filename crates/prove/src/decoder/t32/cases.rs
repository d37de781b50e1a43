//! What is decoded: an instruction, and how far an IT block has come.

use super::super::words;
use crate::random::Random;
use spica_isa::Cond;
use spica_isa::t32::{Code, ItState};
use std::fmt;
use std::str::FromStr;

/// An instruction in a state.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// The instruction.
    pub code: Code,
    /// The state before it.
    pub it: ItState,
}

/// In the middle of a block, under a condition that the next instruction has, too.
#[must_use]
pub fn middle(cond: Cond) -> ItState {
    ItState::new((cond as u8) << 4 | (cond as u8 & 1) << 3 | 0b100)
}

/// The states that make a difference: outside; at the end and in the middle of a block, under each condition. AL in a
/// block is a state of its own: no condition, and no flags either.
pub fn states() -> impl Iterator<Item = ItState> {
    let blocks = Cond::ALL.into_iter().flat_map(|cond| [ItState::new((cond as u8) << 4 | 0b1000), middle(cond)]);
    std::iter::once(ItState::OUTSIDE).chain(blocks)
}

impl Case {
    /// From the instruction's bits: a halfword that begins a wide one must not be alone.
    #[must_use]
    pub fn of(bits: u32, it: ItState) -> Case {
        let code =
            if bits >> 16 == 0 { Code::new(bits as u16, 0) } else { Code::new((bits >> 16) as u16, bits as u16) };
        Case { code, it }
    }

    /// Whether capstone can be brought into this state: by an IT instruction, of which AL has no useful ones.
    #[must_use]
    pub fn has_text(self) -> bool {
        self.it == ItState::OUTSIDE || self.it.in_block() && self.it.bits() < 0xe0
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.code.bits())?;
        if self.it == ItState::OUTSIDE { Ok(()) } else { write!(f, "@{:#x}", self.it.bits()) }
    }
}

impl FromStr for Case {
    type Err = ();

    fn from_str(text: &str) -> Result<Case, ()> {
        let (code, it) = text.split_once('@').unwrap_or((text, "0"));
        let number = |text: &str| u32::from_str_radix(text.trim_start_matches("0x"), 16).map_err(drop);
        Ok(Case::of(number(code)?, ItState::new(number(it)? as u8)))
    }
}

/// The 16-bit codes that are no half of an instruction.
const NARROW: u32 = 0xe800;

/// A wide instruction as [`words`] chooses A32 ones: random, or with fields of 0 and 15, or with all bits that select.
fn wide(random: &mut Random, kind: u64) -> u32 {
    let first = NARROW + random.below(0x1_0000 - NARROW);
    match kind {
        0 => first << 16 | random.word() & 0xffff,
        1 => match words::biased(random) | 0xe000_0000 {
            word if word >> 27 == 0b11100 => word | 1 << (27 + random.below(2)),
            word => word,
        },
        _ => first << 16 | words::biased(random) & 0xffff,
    }
}

/// A group of `count` cases: the first ones together are all narrow instructions, once outside of a block and twice in
/// one; the others are wide ones.
pub fn sampled(number: u64, count: u64) -> impl Iterator<Item = Case> {
    let narrow = 3 << 16;
    let mut random = Random::new(number);
    let all: Vec<ItState> = states().collect();
    (number * count..(number + 1) * count).map(move |n| {
        if n < narrow {
            let code = n as u32 & 0xffff;
            let cond = Cond::ALL[(code % 14) as usize];
            let it = [ItState::OUTSIDE, ItState::only(cond), middle(cond)][(n >> 16) as usize];
            return Case::of(code.min(NARROW - 1), it);
        }
        let it = if random.one_in(3) { random.pick(&all) } else { ItState::OUTSIDE };
        Case::of(wide(&mut random, n % 3), it)
    })
}

/// Cases in a piece of everything.
pub const PIECE: u64 = 1 << 16;
/// One for the narrow instructions in each state, one for each first half of a wide instruction.
pub const PIECES: u64 = 31 + (0x1_0000 - NARROW) as u64;

/// A piece of everything. Of the wide instructions, one in sixteen has its text compared in a block, too.
pub fn piece(number: u64) -> impl Iterator<Item = Case> {
    let state = states().nth(number as usize);
    let wide = number.checked_sub(31).map(|n| (NARROW + n as u32) << 16);
    let narrow = state.into_iter().flat_map(|it| (0..NARROW).map(move |code| Case::of(code, it)));
    let wide = wide.into_iter().flat_map(|first| {
        (0..0x1_0000).flat_map(move |second| {
            let block = (first >> 16 ^ second) & 15 == 0;
            let states = [Some(ItState::OUTSIDE), block.then(|| middle(Cond::Ge))];
            states.into_iter().flatten().map(move |it| Case::of(first | second, it))
        })
    });
    narrow.chain(wide)
}
