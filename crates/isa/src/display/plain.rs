//! The names and operands of the instructions that the decoder only classifies: [`Op::Plain`](crate::Op::Plain),
//! [`Op::Divide`](crate::Op::Divide) and [`Op::Exclusive`](crate::Op::Exclusive).
//!
//! The tables follow those of the decoder, which has already made sure that the word is allocated. An operand list is
//! the positions of the register fields, in the order in which UAL writes them.

use core::fmt;

use crate::decode::{bits, shift_type};
use crate::{Cond, Reg};

/// What follows the registers.
enum Tail {
    None,
    /// A shift of the last register.
    Shift(u32),
    /// A rotation of the last register, by bytes.
    Rotate,
    /// The position and width of a bit field.
    Field {
        lsb: u32,
        width: u32,
    },
}

/// An instruction as text: a name in up to three parts, an immediate after the first register, and the operands.
struct Text {
    name: [&'static str; 3],
    regs: &'static [u32],
    saturate: Option<u32>,
    tail: Tail,
}

impl Text {
    const fn new(name: [&'static str; 3], regs: &'static [u32]) -> Text {
        Text { name, regs, saturate: None, tail: Tail::None }
    }
}

/// The half of a register that a halfword multiply takes.
const fn half(top: bool) -> &'static str {
    if top { "t" } else { "b" }
}

/// Writes a Plain or Divide instruction.
pub(super) fn plain(f: &mut fmt::Formatter<'_>, c: Cond, word: u32) -> fmt::Result {
    let t = match bits(word, 27, 25) {
        0b011 => media(word),
        _ => multiply_and_misc(word),
    };
    write!(f, "{}{}{}{c} ", t.name[0], t.name[1], t.name[2])?;
    for (i, &position) in t.regs.iter().enumerate() {
        let (separator, reg) = (if i == 0 { "" } else { ", " }, Reg::new(word >> position));
        write!(f, "{separator}{reg}")?;
        if let (0, Some(n)) = (i, t.saturate) {
            write!(f, ", #{n}")?;
        }
    }
    match t.tail {
        Tail::None => Ok(()),
        Tail::Shift(kind) => {
            let amount = bits(word, 11, 7);
            match (kind, amount) {
                (0, 0) => Ok(()),
                (_, 0) => write!(f, ", {} #32", shift_type(kind)),
                _ => write!(f, ", {} #{amount}", shift_type(kind)),
            }
        }
        Tail::Rotate if bits(word, 11, 10) == 0 => Ok(()),
        Tail::Rotate => write!(f, ", ror #{}", bits(word, 11, 10) * 8),
        Tail::Field { lsb, width } => write!(f, ", #{lsb}, #{width}"),
    }
}

/// Multiplies (A5.2.5, A5.2.7), saturating additions (A5.2.6) and CLZ.
fn multiply_and_misc(word: u32) -> Text {
    let s = if bits(word, 20, 20) != 0 { "s" } else { "" };
    let (x, y) = (half(bits(word, 5, 5) != 0), half(bits(word, 6, 6) != 0));
    match (bits(word, 7, 4), bits(word, 24, 21)) {
        (0b1001, 0b0000) => Text::new(["mul", s, ""], &[16, 0, 8]),
        (0b1001, 0b0001) => Text::new(["mla", s, ""], &[16, 0, 8, 12]),
        (0b1001, 0b0010) => Text::new(["umaal", "", ""], &[12, 16, 0, 8]),
        (0b1001, 0b0011) => Text::new(["mls", "", ""], &[16, 0, 8, 12]),
        (0b1001, op) => {
            const NAMES: [&str; 4] = ["umull", "umlal", "smull", "smlal"];
            Text::new([NAMES[(op & 3) as usize], s, ""], &[12, 16, 0, 8])
        }
        (0b0001, _) => Text::new(["clz", "", ""], &[12, 0]),
        (0b0101, op) => {
            const NAMES: [&str; 4] = ["qadd", "qsub", "qdadd", "qdsub"];
            Text::new([NAMES[(op & 3) as usize], "", ""], &[12, 0, 16])
        }
        (_, 0b1000) => Text::new(["smla", x, y], &[16, 0, 8, 12]),
        (_, 0b1001) if bits(word, 5, 5) == 0 => Text::new(["smlaw", y, ""], &[16, 0, 8, 12]),
        (_, 0b1001) => Text::new(["smulw", y, ""], &[16, 0, 8]),
        (_, 0b1010) => Text::new(["smlal", x, y], &[12, 16, 0, 8]),
        _ => Text::new(["smul", x, y], &[16, 0, 8]),
    }
}

/// The media instructions (A5.4).
fn media(word: u32) -> Text {
    let unsigned = bits(word, 22, 22) != 0;
    match bits(word, 24, 23) {
        0b00 => parallel(word),
        0b01 => packing(word),
        0b10 => signed_multiply(word),
        _ => match bits(word, 22, 21) {
            0b00 if bits(word, 15, 12) == 15 => Text::new(["usad8", "", ""], &[16, 0, 8]),
            0b00 => Text::new(["usada8", "", ""], &[16, 0, 8, 12]),
            0b10 => {
                let (lsb, msb) = (bits(word, 11, 7), bits(word, 20, 16));
                let tail = Tail::Field { lsb, width: msb + 1 - lsb };
                let base = if bits(word, 3, 0) == 15 {
                    Text::new(["bfc", "", ""], &[12])
                } else {
                    Text::new(["bfi", "", ""], &[12, 0])
                };
                Text { tail, ..base }
            }
            _ => {
                let tail = Tail::Field { lsb: bits(word, 11, 7), width: bits(word, 20, 16) + 1 };
                Text { tail, ..Text::new([if unsigned { "ubfx" } else { "sbfx" }, "", ""], &[12, 0]) }
            }
        },
    }
}

/// A5.4.1 and A5.4.2.
fn parallel(word: u32) -> Text {
    const PREFIXES: [&str; 8] = ["", "s", "q", "sh", "", "u", "uq", "uh"];
    const NAMES: [&str; 8] = ["add16", "asx", "sax", "sub16", "add8", "", "", "sub8"];
    let (prefix, name) = (PREFIXES[bits(word, 22, 20) as usize], NAMES[bits(word, 7, 5) as usize]);
    Text::new([prefix, name, ""], &[12, 16, 0])
}

/// A5.4.3.
fn packing(word: u32) -> Text {
    let unsigned = bits(word, 22, 22) != 0;
    let (op1, op2, sign) = (bits(word, 21, 20), bits(word, 7, 5), if unsigned { "u" } else { "s" });
    let tail = Tail::Shift(if op2 & 2 != 0 { 2 } else { 0 });
    match (op1, op2) {
        (0b00, 0b101) => Text::new(["sel", "", ""], &[12, 16, 0]),
        (_, 0b011) => {
            let kind = ["b16", "", "b", "h"][op1 as usize];
            if bits(word, 19, 16) == 15 {
                Text { tail: Tail::Rotate, ..Text::new([sign, "xt", kind], &[12, 0]) }
            } else {
                Text { tail: Tail::Rotate, ..Text::new([sign, "xta", kind], &[12, 16, 0]) }
            }
        }
        (0b10, 0b001) => {
            let saturate = Some(bits(word, 19, 16) + u32::from(!unsigned));
            Text { saturate, ..Text::new([sign, "sat16", ""], &[12, 0]) }
        }
        (_, 0b001) => Text::new([if unsigned { "rbit" } else { "rev" }, "", ""], &[12, 0]),
        (_, 0b101) => Text::new([if unsigned { "revsh" } else { "rev16" }, "", ""], &[12, 0]),
        (0b00, _) => Text { tail, ..Text::new([if op2 & 2 != 0 { "pkhtb" } else { "pkhbt" }, "", ""], &[12, 16, 0]) },
        _ => {
            let saturate = Some(bits(word, 20, 16) + u32::from(!unsigned));
            Text { saturate, tail, ..Text::new([sign, "sat", ""], &[12, 0]) }
        }
    }
}

/// A5.4.4.
fn signed_multiply(word: u32) -> Text {
    let (op1, op2) = (bits(word, 22, 20), bits(word, 7, 5));
    let (x, r) = if op2 & 1 != 0 { ("x", "r") } else { ("", "") };
    let accumulates = bits(word, 15, 12) != 15;
    match (op1, op2 >> 1) {
        (0b000, 0b00) if accumulates => Text::new(["smlad", x, ""], &[16, 0, 8, 12]),
        (0b000, 0b00) => Text::new(["smuad", x, ""], &[16, 0, 8]),
        (0b000, _) if accumulates => Text::new(["smlsd", x, ""], &[16, 0, 8, 12]),
        (0b000, _) => Text::new(["smusd", x, ""], &[16, 0, 8]),
        (0b100, 0b00) => Text::new(["smlald", x, ""], &[12, 16, 0, 8]),
        (0b100, _) => Text::new(["smlsld", x, ""], &[12, 16, 0, 8]),
        (0b101, 0b00) if accumulates => Text::new(["smmla", r, ""], &[16, 0, 8, 12]),
        (0b101, 0b00) => Text::new(["smmul", r, ""], &[16, 0, 8]),
        (0b101, _) => Text::new(["smmls", r, ""], &[16, 0, 8, 12]),
        (0b001, _) => Text::new(["sdiv", "", ""], &[16, 0, 8]),
        _ => Text::new(["udiv", "", ""], &[16, 0, 8]),
    }
}

/// Writes an Exclusive instruction: A5.2.10.
pub(super) fn exclusive(f: &mut fmt::Formatter<'_>, c: Cond, word: u32) -> fmt::Result {
    let (rn, rd, rt) = (Reg::new(word >> 16), Reg::new(word >> 12), Reg::new(word));
    let size = ["", "d", "b", "h"][bits(word, 22, 21) as usize];
    match bits(word, 23, 20) {
        0b0000 => write!(f, "swp{c} {rd}, {rt}, [{rn}]"),
        0b0100 => write!(f, "swpb{c} {rd}, {rt}, [{rn}]"),
        0b1010 => write!(f, "strexd{c} {rd}, {rt}, {}, [{rn}]", Reg::new(rt.n() + 1)),
        0b1011 => write!(f, "ldrexd{c} {rd}, {}, [{rn}]", Reg::new(rd.n() + 1)),
        op if op & 1 != 0 => write!(f, "ldrex{size}{c} {rd}, [{rn}]"),
        _ => write!(f, "strex{size}{c} {rd}, {rt}, [{rn}]"),
    }
}
