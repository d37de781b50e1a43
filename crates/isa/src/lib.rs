//! The A32 and T32 instruction sets as data: decode, encode, classify, disassemble.
//!
//! [`decode`] turns a word into a [`Decoded`] instruction, [`encode`] turns it back; for every word
//! `encode(decode(w)) == w`. The types keep apart what a binary translator must keep apart: what touches the program
//! counter, what is sensitive (STAR, Table 1), and what may be copied as it is. An encoding that the architecture
//! leaves unallocated decodes to [`Op::Undefined`]; one that it calls UNPREDICTABLE decodes to [`Op::Unpredictable`]
//! where we will not execute it. Section numbers are those of the ARM Architecture Reference Manual, ARMv7-A and
//! ARMv7-R edition (ARM DDI 0406C).
//!
//! All of that is A32. T32 is in [`t32`], and made of it: nearly every T32 instruction is an A32 one in other bits.
#![no_std]

pub mod asm;
mod decode;
mod display;
mod encode;
pub mod t32;
mod types;

pub use decode::{decode, word_at_offset};
pub use encode::encode;
pub use types::*;
