//! The decoder and the encoder of T32: every instruction, in every state of an IT block that makes a difference.
//!
//! [`rules`] asks what needs no oracle: whether the encoder is the inverse of the decoder, whether an IT block changes
//! the condition, the flags, and nothing else. `text` compares the text of instructions with capstone's.

pub mod cases;
#[cfg(feature = "command")]
pub mod parts;
pub mod rules;
#[cfg(feature = "command")]
mod text;
