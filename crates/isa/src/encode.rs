use crate::Decoded;
/// Encodes.
#[must_use]
pub fn encode(d: &Decoded) -> u32 { d.word }
