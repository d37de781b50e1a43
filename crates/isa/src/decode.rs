use crate::{Decoded, Op, Cond};
/// Decodes one A32 instruction.
#[must_use]
pub fn decode(word: u32) -> Decoded { Decoded { word, cond: Cond::Al, uncond: false, op: Op::Undefined } }
