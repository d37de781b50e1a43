//! One encoding of a T32 instruction as one line: its bits, as the manual draws them, and those of the A32 instruction
//! that does the same.
//!
//! ```text
//! row("000 11 1 0 iii nnn ddd", "1110 0010 100F 0nnn 0ddd 0000 00000iii", "")       ADDS Rd, Rn, #imm3
//! ```
//!
//! Digits are fixed. Digits in parentheses are the manual's should-be bits: an encoding that has them wrong is
//! UNPREDICTABLE. A letter stands for a field, in both drawings for the same one. So a line is decoder and encoder at
//! once: the decoder moves the fields from left to right, the encoder from right to left. A field that one side has
//! twice is the same both times: two registers of A32 that are one of T32 (`ADDS Rdn, #imm8`), or a register that T32
//! encodes twice (`CLZ`). `F` on the right is the flag bit S of a narrow instruction, which sets flags outside of IT
//! blocks only (A6.2). The condition AL on the right stands for any condition.
//!
//! The third string names register fields that T32 restricts: `"dm"` may be neither SP nor PC, `"n:pc"` not the PC,
//! `"n:sp"` not SP. Everything that A32 forbids as well, the A32 decoder finds.
//!
//! The drawings are taken apart at compile time. What is left of a line is some 80 bytes.

use super::{Decoded, ItState, Op};
use crate::Cond;
use crate::decode::bits;

/// Consecutive bits of a T32 instruction that are consecutive bits of an A32 one, too.
#[derive(Clone, Copy)]
struct Move {
    from: u8,
    to: u8,
    width: u8,
}

/// Moves of one line.
const MOVES: usize = 8;

/// Whether an instruction may stand in an IT block.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Anywhere,
    /// Outside of one, or as its last instruction: most branches.
    Last,
    /// Only outside.
    Outside,
}

/// How an encoding that no A32 instruction equals becomes an [`Op`], and back. What is packed is unpacked again by the
/// caller and compared: values that do not fit need no check.
pub(super) struct Special {
    pub(super) unpack: fn(u32) -> Op,
    /// Puts the fields of the instruction into the first argument; nothing if it is another instruction.
    pub(super) pack: fn(u32, &Decoded) -> Option<u32>,
}

enum Meaning {
    A32 { base: u32, moves: [Move; MOVES], count: usize, flags: u32 },
    Special(Special),
    Unpredictable,
}

/// One encoding.
pub(super) struct Row {
    mask: u32,
    value: u32,
    should: u32,
    ones: u32,
    /// Register fields that may not be SP, as bits 0 to 3 for those at bits 0, 8, 12 and 16.
    no_sp: u8,
    no_pc: u8,
    place: Place,
    /// Where the condition is, if the instruction has one itself.
    cond: Option<u8>,
    /// Executed whatever the condition is.
    always: bool,
    /// What else has to hold.
    check: Option<fn(u32, ItState) -> bool>,
    meaning: Meaning,
}

/// A drawing taken apart: bit n of the masks, and byte n of the letters, for bit n.
struct Drawing {
    bits: usize,
    fixed: u32,
    value: u32,
    should: u32,
    ones: u32,
    letters: [u8; 32],
}

impl Drawing {
    const fn parse(text: &str) -> Drawing {
        let text = text.as_bytes();
        let mut d = Drawing { bits: 0, fixed: 0, value: 0, should: 0, ones: 0, letters: [0; 32] };
        let mut should = false;
        let mut at = text.len();
        while at > 0 {
            at -= 1;
            match text[at] {
                b' ' => continue,
                b')' => {
                    should = true;
                    continue;
                }
                b'(' => {
                    should = false;
                    continue;
                }
                digit @ (b'0' | b'1') => {
                    let value = ((digit == b'1') as u32) << d.bits;
                    if should {
                        d.should |= 1 << d.bits;
                        d.ones |= value;
                    } else {
                        d.fixed |= 1 << d.bits;
                        d.value |= value;
                    }
                }
                letter => {
                    assert!(letter.is_ascii_alphabetic() && !should, "a field is a letter");
                    d.letters[d.bits] = letter;
                }
            }
            d.bits += 1;
        }
        assert!(d.bits == 16 || d.bits == 32, "an instruction has 16 or 32 bits");
        d
    }

    const fn count(&self, letter: u8) -> usize {
        let (mut n, mut at) = (0, 0);
        while at < 32 {
            n += (self.letters[at] == letter) as usize;
            at += 1;
        }
        n
    }

    /// The bit that is number `index` of those with this letter, from the lowest on.
    const fn find(&self, letter: u8, index: usize) -> u8 {
        let (mut n, mut at) = (0, 0);
        while at < 32 {
            if self.letters[at] == letter {
                if n == index {
                    return at as u8;
                }
                n += 1;
            }
            at += 1;
        }
        panic!("no such field");
    }

    /// Which of the four places a register field is at.
    const fn register(&self, letter: u8) -> u8 {
        let lowest = self.find(letter, 0);
        assert!(self.find(letter, 3) == lowest + 3, "a register field has four bits");
        match lowest {
            0 => 1,
            8 => 2,
            12 => 4,
            16 => 8,
            _ => panic!("a place where no register is"),
        }
    }
}

/// The moves between two drawings, and how many there are.
const fn moves(t32: &Drawing, a32: &Drawing) -> ([Move; MOVES], usize) {
    let mut moves = [Move { from: 0, to: 0, width: 0 }; MOVES];
    let mut count = 0;
    let mut letter = b'A';
    while letter <= b'z' {
        let (here, there) = (t32.count(letter), a32.count(letter));
        if letter != b'F' && here + there > 0 {
            assert!(here > 0 && there > 0, "a field that one side does not have");
            let all = if here > there { here } else { there };
            assert!(all % here == 0 && all % there == 0, "a field of another width");
            let (mut index, first) = (0, count);
            while index < all {
                let (from, to) = (t32.find(letter, index % here), a32.find(letter, index % there));
                if count > first && moves[count - 1].from + moves[count - 1].width == from && {
                    let last = moves[count - 1];
                    last.to + last.width == to
                } {
                    moves[count - 1].width += 1;
                } else {
                    moves[count] = Move { from, to, width: 1 };
                    count += 1;
                }
                index += 1;
            }
        }
        letter += 1;
    }
    (moves, count)
}

/// The register fields that `rules` names, which may not be SP, and which not the PC.
const fn registers(t32: &Drawing, rules: &str) -> (u8, u8) {
    let rules = rules.as_bytes();
    let (mut no_sp, mut no_pc) = (0, 0);
    let (mut word, mut at) = (0, 0);
    while at < rules.len() {
        match rules[at] {
            b' ' => word = 0,
            b':' => {
                // What was said of this word holds for one of the two only.
                match rules[at + 1] {
                    b's' => no_pc &= !word,
                    b'p' => no_sp &= !word,
                    _ => panic!("sp or pc"),
                }
                at += 2;
            }
            letter => {
                let field = t32.register(letter);
                word |= field;
                no_sp |= field;
                no_pc |= field;
            }
        }
        at += 1;
    }
    (no_sp, no_pc)
}

const fn new(t32: &Drawing, rules: &str, meaning: Meaning) -> Row {
    let (no_sp, no_pc) = registers(t32, rules);
    Row {
        mask: t32.fixed,
        value: t32.value,
        should: t32.should,
        ones: t32.ones,
        no_sp,
        no_pc,
        place: Place::Anywhere,
        cond: None,
        always: false,
        check: None,
        meaning,
    }
}

/// An encoding that is an A32 instruction.
pub(super) const fn row(t32: &str, a32: &str, registers: &str) -> Row {
    let (t32, a32) = (Drawing::parse(t32), Drawing::parse(a32));
    assert!(a32.bits == 32 && a32.should == 0, "an A32 instruction as it is");
    let (moves, count) = moves(&t32, &a32);
    let flags = if a32.count(b'F') == 1 { 1 << a32.find(b'F', 0) } else { 0 };
    new(&t32, registers, Meaning::A32 { base: a32.value, moves, count, flags })
}

/// An encoding that A32 has nothing for.
pub(super) const fn special(t32: &str, registers: &str, special: Special) -> Row {
    new(&Drawing::parse(t32), registers, Meaning::Special(special))
}

/// An encoding that the manual calls UNPREDICTABLE.
pub(super) const fn unpredictable(t32: &str) -> Row {
    new(&Drawing::parse(t32), "", Meaning::Unpredictable)
}

impl Row {
    /// The same, restricted to outside of IT blocks, or to their end.
    pub(super) const fn place(mut self, place: Place) -> Row {
        self.place = place;
        self
    }

    /// The same, with a condition of its own at this bit. It must not be AL or 0b1111: those are other rows.
    pub(super) const fn cond(mut self, lo: u8) -> Row {
        self.cond = Some(lo);
        self
    }

    /// The same, executed whatever the condition is.
    pub(super) const fn always(mut self) -> Row {
        self.always = true;
        self
    }

    /// The same; UNPREDICTABLE where this does not hold.
    pub(super) const fn check(mut self, check: fn(u32, ItState) -> bool) -> Row {
        self.check = Some(check);
        self
    }

    /// Whether `raw` is of this encoding.
    pub(super) const fn matches(&self, raw: u32) -> bool {
        raw & self.mask == self.value
    }

    /// Whether the T32 instruction keeps to all rules that A32 does not have.
    fn keeps_rules(&self, raw: u32, it: ItState) -> bool {
        let place_ok = match self.place {
            Place::Anywhere => true,
            Place::Last => !it.in_block() || it.is_last(),
            Place::Outside => !it.in_block(),
        };
        let registers_ok = [0u32, 8, 12, 16].into_iter().enumerate().all(|(n, lo)| match bits(raw, lo + 3, lo) {
            13 => self.no_sp >> n & 1 == 0,
            15 => self.no_pc >> n & 1 == 0,
            _ => true,
        });
        raw & self.should == self.ones && registers_ok && place_ok && self.check.is_none_or(|check| check(raw, it))
    }

    /// Decodes an instruction of this encoding: its condition, and what it does.
    pub(super) fn decode(&self, raw: u32, it: ItState) -> (Cond, Op) {
        let cond = match self.cond {
            Some(lo) => {
                Cond::ALL.get(bits(raw, u32::from(lo) + 3, u32::from(lo)) as usize).copied().unwrap_or(Cond::Al)
            }
            None if self.always => Cond::Al,
            None => it.cond(),
        };
        let op = match &self.meaning {
            Meaning::A32 { base, moves, count, flags } => {
                let word = moves[..*count].iter().fold(*base, |word, m| {
                    word | bits(raw, u32::from(m.from + m.width) - 1, u32::from(m.from)) << m.to
                });
                // A register that is encoded twice must be the same both times.
                if self.t32(word, moves, *count) | raw & self.should != raw | self.ones {
                    return (cond, Op::Unpredictable);
                }
                Op::of_a32(if it.in_block() { word } else { word | flags }, cond)
            }
            Meaning::Special(special) => match (special.unpack)(raw) {
                Op::A32(same) => Op::of_a32(same.word, cond),
                op => op,
            },
            Meaning::Unpredictable => Op::Unpredictable,
        };
        (cond, if op == Op::Undefined || self.keeps_rules(raw, it) { op } else { Op::Unpredictable })
    }

    /// The T32 bits of an A32 word.
    fn t32(&self, word: u32, moves: &[Move; MOVES], count: usize) -> u32 {
        moves[..count].iter().fold(self.value | self.ones, |raw, m| {
            raw | bits(word, u32::from(m.to + m.width) - 1, u32::from(m.to)) << m.from
        })
    }

    /// Encodes an instruction in this encoding, if it can be.
    pub(super) fn encode(&self, d: &Decoded) -> Option<u32> {
        let raw = match (&self.meaning, &d.op) {
            (Meaning::A32 { moves, count, .. }, Op::A32(same)) => self.t32(crate::encode(same), moves, *count),
            (Meaning::Special(special), _) => (special.pack)(self.value | self.ones, d)?,
            _ => return None,
        };
        let it = if matches!(self.place, Place::Outside) || self.cond.is_some() {
            ItState::OUTSIDE
        } else {
            ItState::only(d.cond)
        };
        let (cond, op) = self.decode(raw, it);
        (self.matches(raw) && cond == d.cond && self.is_same(&op, &d.op)).then_some(raw)
    }

    /// Whether two are the same in this encoding, which does not know whether it sets flags.
    fn is_same(&self, one: &Op, other: &Op) -> bool {
        let flags = if let Meaning::A32 { flags, .. } = self.meaning { flags } else { 0 };
        match (one, other) {
            (Op::A32(one), Op::A32(other)) => (crate::encode(one) ^ crate::encode(other)) & !flags == 0,
            _ => one == other,
        }
    }
}
