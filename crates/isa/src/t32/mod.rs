//! The T32 (Thumb-2) instruction set: decode, encode, classify, disassemble.
//!
//! Nearly every T32 instruction does what some A32 instruction does. So [`decode`] says which: [`Op::A32`] has that
//! one with its word, and what holds for an A32 instruction holds for it, except for the PC ([`Op`] says how). What A32
//! has nothing for is an [`Op`] of its own. For every instruction, `encode(&decode(code, it)) == Some(code)`.
//!
//! Each encoding is one line in the tables of `narrow.rs` and `wide*.rs`, which `row.rs` explains. The tables are those
//! of the manual's chapter A6, in its order. As in A32, what the manual leaves unallocated is [`Op::Undefined`], and
//! what it calls UNPREDICTABLE is [`Op::Unpredictable`]: should-be bits that are wrong, SP or PC where T32 forbids them
//! (SP in many places where A32 does not), branches in the middle of an IT block.
//!
//! What an instruction does depends on where it stands: in an IT block ([`ItState`], A2.5.2), it has the block's
//! condition, and most narrow ones do not set flags.

mod branch;
mod data;
mod display;
mod memory;
mod narrow;
mod row;
mod types;
mod wide;
mod wide_data;
mod wide_memory;

pub use types::*;

use row::Row;

/// The table that an instruction is in: A6.1 and A6.3.
fn table(code: Code) -> &'static [Row] {
    if code.is_wide() { wide::table(code.bits()) } else { narrow::table(code.bits()) }
}

/// The encoding of an instruction, if it is allocated.
fn find(code: Code) -> Option<&'static Row> {
    table(code).iter().find(|row| row.matches(code.bits()))
}

/// Decodes one T32 instruction, as it is in this state of its IT block. Total: every code has an answer.
#[must_use]
pub fn decode(code: Code, it: ItState) -> Decoded {
    let (cond, op) = match find(code) {
        Some(row) => row.decode(code.bits(), it),
        None => (it.cond(), Op::Undefined),
    };
    Decoded { code, cond, op }
}

/// Encodes an instruction: in the same encoding as its `code`, with the operands, and for branches the condition, of
/// its `op`. The inverse of [`decode`]; nothing if operands that were changed do not fit into this encoding.
///
/// Whether a narrow instruction sets flags, and its condition, are not part of its encoding, but of where it stands.
#[must_use]
pub fn encode(d: &Decoded) -> Option<Code> {
    if matches!(d.op, Op::Undefined | Op::Unpredictable) {
        return Some(d.code);
    }
    let row = find(d.code)?;
    let code = row.encode(d).map(Code::from_bits)?;
    // With other operands it may be another instruction: LDR with a base of PC is a literal, for one.
    find(code).is_some_and(|found| core::ptr::eq(found, row)).then_some(code)
}
