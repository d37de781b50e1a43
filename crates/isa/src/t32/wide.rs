//! The 32-bit encodings: A6.3, and of its tables those for branches, miscellaneous control, and coprocessors.

use super::row::{Place, Row, Special, row, special};
use super::{ItState, Op, branch, wide_data, wide_memory};
use crate::decode::{bit, bits};

/// A6.3: `op1` = bits 28:27, `op2` = bits 26:20, `op` = bit 15.
pub(super) fn table(raw: u32) -> &'static [Row] {
    let op2 = bits(raw, 26, 20);
    match (bits(raw, 28, 27), op2 >> 5) {
        (0b01, 0b00) if !bit(raw, 22) => wide_memory::MULTIPLE,
        (0b01, 0b00) => wide_memory::DUAL_EXCLUSIVE_AND_TABLE_BRANCH,
        (0b01, 0b01) => wide_data::SHIFTED_REGISTER,
        (0b10, _) if bit(raw, 15) => BRANCHES_AND_CONTROL,
        (0b10, _) if bit(raw, 25) => wide_data::PLAIN_IMMEDIATE,
        (0b10, _) => wide_data::MODIFIED_IMMEDIATE,
        (0b11, 0b00) => match op2 & 0b10111 {
            0b00000 | 0b00010 | 0b00100 | 0b00110 => wide_memory::store(raw),
            0b10000 | 0b10010 | 0b10100 | 0b10110 => SIMD_LOAD_STORE,
            0b00001 | 0b10001 => wide_memory::BYTE_AND_HINTS,
            0b00011 | 0b10011 => wide_memory::HALFWORD_AND_HINTS,
            0b00101 => wide_memory::WORD,
            _ => &[],
        },
        (0b11, 0b01) if !bit(raw, 24) => wide_data::REGISTER,
        (0b11, 0b01) if !bit(raw, 23) => wide_data::MULTIPLY,
        (0b11, 0b01) => wide_data::LONG_MULTIPLY,
        _ => COPROCESSOR,
    }
}

/// A6.3.4, with its tables for CPS and hints, and for miscellaneous control.
static BRANCHES_AND_CONTROL: &[Row] = &[
    row("1111 0011 100r nnnn 10 (0) 0 mmmm (00) 0 (00000)", "1110 0001 0r10 mmmm 1111 0000 0000 nnnn", "n"), // MSR
    row("1111 0011 100r nnnn 10 (0) 0 mmmm (00) 1 s (0000)", "1110 0001 0r10 mmmm 1111 001s 0000 nnnn", "n"), // banked
    row("1111 0011 1010 (1111) 10 (0) 0 (0) 000 hhhhhhhh", "1110 0011 0010 0000 1111 0000 hhhhhhhh", ""),
    row("1111 0011 1010 (1111) 10 (0) 0 (0) nnm abf ooooo", "1111 0001 0000 nnm 0 0000 000a bf0 ooooo", "")
        .place(Place::Outside), // CPS
    special("1111 0011 1011 (1111) 10 (0) 0 (1111) 000 e (1111)", "", THUMB_EE).place(Place::Outside),
    row("1111 0011 1011 (1111) 10 (0) 0 (1111) 0010 (1111)", "1111 0101 0111 1111 1111 0000 0001 1111", ""), // CLREX
    row("1111 0011 1011 (1111) 10 (0) 0 (1111) 0100 oooo", "1111 0101 0111 1111 1111 0000 0100 oooo", ""),   // DSB
    row("1111 0011 1011 (1111) 10 (0) 0 (1111) 0101 oooo", "1111 0101 0111 1111 1111 0000 0101 oooo", ""),   // DMB
    row("1111 0011 1011 (1111) 10 (0) 0 (1111) 0110 oooo", "1111 0101 0111 1111 1111 0000 0110 oooo", ""),   // ISB
    row("1111 0011 1100 mmmm 10 (0) 0 (1111 00000000)", "1110 0001 0010 1111 1111 1111 0010 mmmm", "m")
        .place(Place::Last), // BXJ
    // B9.3.19. With an immediate of 0, it is ERET of the virtualisation extensions, which does the same.
    row("1111 0011 1101 (1110) 10 (0) 0 (1111) iiiiiiii", "1110 0010 0101 1110 1111 0000 iiiiiiii", "")
        .place(Place::Last),
    row("1111 0011 111r (1111) 10 (0) 0 dddd (00) 0 (00000)", "1110 0001 0r00 1111 dddd 0000 0000 0000", "d"), // MRS
    row("1111 0011 111r mmmm 10 (0) 0 dddd (00) 1 s (0000)", "1110 0001 0r00 mmmm dddd 001s 0000 0000", "d"),  // banked
    row("1111 0111 1110 hhhh 1000 iiiiiiii llll", "1110 0001 0100 hhhh iiiiiiii 0111 llll", "").place(Place::Outside),
    row("1111 0111 1111 iiii 1000 (0000 00000000)", "1110 0001 0110 0000 0000 0000 0111 iiii", "").place(Place::Last),
    row("1111 0111 1111 hhhh 1010 iiiiiiii llll", "1110 0111 1111 hhhh iiiiiiii 1111 llll", "").always(), // UDF
    special("11110 s 0ccc iiiiii 10 j 0 k iiiiiiiiiii", "", branch::CONDITIONAL).cond(22).place(Place::Outside),
    special("11110 s 10cc iiiiii 10 j 0 k iiiiiiiiiii", "", branch::CONDITIONAL).cond(22).place(Place::Outside),
    special("11110 s 110c iiiiii 10 j 0 k iiiiiiiiiii", "", branch::CONDITIONAL).cond(22).place(Place::Outside),
    special("11110 s iiiiiiiiii 10 j 1 k iiiiiiiiiii", "", branch::WIDE).place(Place::Last),
    special("11110 s iiiiiiiiii 11 j 0 k iiiiiiiiii 0", "", branch::LINK_EXCHANGE).place(Place::Last),
    special("11110 s iiiiiiiiii 11 j 1 k iiiiiiiiiii", "", branch::LINK).place(Place::Last),
];

/// A9.3.1: ENTERX with bit 4, LEAVEX without.
const THUMB_EE: Special = Special {
    unpack: |raw| Op::ThumbEe { enter: bit(raw, 4) },
    pack: |raw, d| match d.op {
        Op::ThumbEe { enter } => Some(raw | u32::from(enter) << 4),
        _ => None,
    },
};

/// A7.7: the bits of A32 under another prefix.
static SIMD_LOAD_STORE: &[Row] =
    &[row("1111 1001 xxx0 xxxx xxxx xxxx xxxx xxxx", "1111 0100 xxx0 xxxx xxxx xxxx xxxx xxxx", "")];

/// A6.3.18: Advanced SIMD data processing (A7.4), whose U is elsewhere, and everything of A5.6 and A5.7 as it is.
static COPROCESSOR: &[Row] = &[
    row("111u 1111 xxxx xxxx xxxx xxxx xxxx xxxx", "1111 001u xxxx xxxx xxxx xxxx xxxx xxxx", ""),
    row("1110 11xx xxxx xxxx xxxx xxxx xxxx xxxx", "1110 11xx xxxx xxxx xxxx xxxx xxxx xxxx", "").check(coprocessor),
    row("1111 11xx xxxx xxxx xxxx xxxx xxxx xxxx", "1111 11xx xxxx xxxx xxxx xxxx xxxx xxxx", "").check(coprocessor),
];

/// What T32 forbids to coprocessor instructions beyond A32: SP as a core register (A8.8.98, A8.8.107 and the others);
/// the PC as the source of MCR; the PC as a base, but for LDC and VLDR with an offset and without write-back (A8.8.56,
/// A8.8.333).
fn coprocessor(raw: u32, _: ItState) -> bool {
    let (rt, rn, load) = (bits(raw, 15, 12), bits(raw, 19, 16), bit(raw, 20));
    if bit(raw, 25) {
        let vfp = bits(raw, 11, 9) == 0b101;
        return !bit(raw, 4) || rt != 13 && (rt != 15 || load || vfp);
    }
    match bits(raw, 24, 21) {
        // MCRR, MRRC, VMOV of two registers
        0b0010 => rt != 13 && rn != 13,
        _ => rn != 15 || load && bit(raw, 24) && !bit(raw, 21),
    }
}
