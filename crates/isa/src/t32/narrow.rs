//! The 16-bit encodings: A6.2.

use super::row::{Place, Row, row, special};
use super::{ItState, branch, memory};
use crate::decode::{bit, bits};

/// The table that an instruction is in, by bits 15:12 or more.
pub(super) fn table(raw: u32) -> &'static [Row] {
    match bits(raw, 15, 12) {
        0b0000..=0b0011 => SHIFT_ADD_SUBTRACT_MOVE_COMPARE,
        0b0100 => match bits(raw, 11, 10) {
            0b00 => DATA_PROCESSING,
            0b01 => SPECIAL_DATA_AND_BRANCH_EXCHANGE,
            _ => LITERAL,
        },
        0b0101..=0b1001 => LOAD_STORE,
        0b1011 => MISCELLANEOUS,
        0b1101..=0b1111 => BRANCH_AND_CALL,
        _ => ADDRESS_AND_MULTIPLE,
    }
}

/// A6.2.1. The shift by 0 is MOV, which does not exist in an IT block (A8.8.103).
static SHIFT_ADD_SUBTRACT_MOVE_COMPARE: &[Row] = &[
    row("000 00 00000 mmm ddd", "1110 0001 101F 0000 0ddd 0000 0000 0mmm", "").place(Place::Outside),
    row("000 00 iiiii mmm ddd", "1110 0001 101F 0000 0ddd iiiii 000 0mmm", ""),
    row("000 01 iiiii mmm ddd", "1110 0001 101F 0000 0ddd iiiii 010 0mmm", ""),
    row("000 10 iiiii mmm ddd", "1110 0001 101F 0000 0ddd iiiii 100 0mmm", ""),
    row("000 11 0 0 mmm nnn ddd", "1110 0000 100F 0nnn 0ddd 0000 0000 0mmm", ""),
    row("000 11 0 1 mmm nnn ddd", "1110 0000 010F 0nnn 0ddd 0000 0000 0mmm", ""),
    row("000 11 1 0 iii nnn ddd", "1110 0010 100F 0nnn 0ddd 0000 00000iii", ""),
    row("000 11 1 1 iii nnn ddd", "1110 0010 010F 0nnn 0ddd 0000 00000iii", ""),
    row("001 00 ddd iiiiiiii", "1110 0011 101F 0000 0ddd 0000 iiiiiiii", ""),
    row("001 01 nnn iiiiiiii", "1110 0011 0101 0nnn 0000 0000 iiiiiiii", ""),
    row("001 10 ddd iiiiiiii", "1110 0010 100F 0ddd 0ddd 0000 iiiiiiii", ""),
    row("001 11 ddd iiiiiiii", "1110 0010 010F 0ddd 0ddd 0000 iiiiiiii", ""),
];

/// A6.2.2.
static DATA_PROCESSING: &[Row] = &[
    row("010000 0000 mmm ddd", "1110 0000 000F 0ddd 0ddd 0000 0000 0mmm", ""), // AND
    row("010000 0001 mmm ddd", "1110 0000 001F 0ddd 0ddd 0000 0000 0mmm", ""), // EOR
    row("010000 0010 mmm ddd", "1110 0001 101F 0000 0ddd 0mmm 0001 0ddd", ""), // LSL
    row("010000 0011 mmm ddd", "1110 0001 101F 0000 0ddd 0mmm 0011 0ddd", ""), // LSR
    row("010000 0100 mmm ddd", "1110 0001 101F 0000 0ddd 0mmm 0101 0ddd", ""), // ASR
    row("010000 0101 mmm ddd", "1110 0000 101F 0ddd 0ddd 0000 0000 0mmm", ""), // ADC
    row("010000 0110 mmm ddd", "1110 0000 110F 0ddd 0ddd 0000 0000 0mmm", ""), // SBC
    row("010000 0111 mmm ddd", "1110 0001 101F 0000 0ddd 0mmm 0111 0ddd", ""), // ROR
    row("010000 1000 mmm nnn", "1110 0001 0001 0nnn 0000 0000 0000 0mmm", ""), // TST
    row("010000 1001 nnn ddd", "1110 0010 011F 0nnn 0ddd 0000 0000 0000", ""), // RSB from 0
    row("010000 1010 mmm nnn", "1110 0001 0101 0nnn 0000 0000 0000 0mmm", ""), // CMP
    row("010000 1011 mmm nnn", "1110 0001 0111 0nnn 0000 0000 0000 0mmm", ""), // CMN
    row("010000 1100 mmm ddd", "1110 0001 100F 0ddd 0ddd 0000 0000 0mmm", ""), // ORR
    row("010000 1101 nnn ddd", "1110 0000 000F 0ddd 0000 0ddd 1001 0nnn", ""), // MUL
    row("010000 1110 mmm ddd", "1110 0001 110F 0ddd 0ddd 0000 0000 0mmm", ""), // BIC
    row("010000 1111 mmm ddd", "1110 0001 111F 0000 0ddd 0000 0000 0mmm", ""), // MVN
];

/// The register `DN:Rdn` of the forms with high registers.
const fn high(raw: u32) -> u32 {
    bits(raw, 7, 7) << 3 | bits(raw, 2, 0)
}

/// A write of the PC is a branch, which stands at the end of an IT block.
fn branch_is_last(raw: u32, it: ItState) -> bool {
    high(raw) != 15 || !it.in_block() || it.is_last()
}

/// A6.2.3: ADD, CMP, MOV of any registers, BX, BLX.
static SPECIAL_DATA_AND_BRANCH_EXCHANGE: &[Row] = &[
    // A8.8.6: not of twice the PC. The forms with SP (A8.8.10) are no others.
    row("010001 00 d mmmm ddd", "1110 0000 1000 dddd dddd 0000 0000 mmmm", "")
        .check(|raw, it| branch_is_last(raw, it) && !(high(raw) == 15 && bits(raw, 6, 3) == 15)),
    // A8.8.38: not of two low registers, and not of the PC.
    row("010001 01 n mmmm nnn", "1110 0001 0101 nnnn 0000 0000 0000 mmmm", "")
        .check(|raw, _| (high(raw) > 7 || bits(raw, 6, 3) > 7) && high(raw) != 15 && bits(raw, 6, 3) != 15),
    row("010001 10 d mmmm ddd", "1110 0001 1010 0000 dddd 0000 0000 mmmm", "").check(branch_is_last),
    row("010001 11 0 mmmm (000)", "1110 0001 0010 1111 1111 1111 0001 mmmm", "").place(Place::Last),
    row("010001 11 1 mmmm (000)", "1110 0001 0010 1111 1111 1111 0011 mmmm", "")
        .place(Place::Last)
        .check(|raw, _| bits(raw, 6, 3) != 15),
];

/// The row of A6.2 with the load of a literal: A8.8.64.
static LITERAL: &[Row] = &[row("01001 ttt iiiiiiii", "1110 0101 1001 1111 0ttt 00 iiiiiiii 00", "")];

/// A6.2.4.
static LOAD_STORE: &[Row] = &[
    row("0101 000 mmm nnn ttt", "1110 0111 1000 0nnn 0ttt 0000 0000 0mmm", ""), // STR
    row("0101 001 mmm nnn ttt", "1110 0001 1000 0nnn 0ttt 0000 1011 0mmm", ""), // STRH
    row("0101 010 mmm nnn ttt", "1110 0111 1100 0nnn 0ttt 0000 0000 0mmm", ""), // STRB
    row("0101 011 mmm nnn ttt", "1110 0001 1001 0nnn 0ttt 0000 1101 0mmm", ""), // LDRSB
    row("0101 100 mmm nnn ttt", "1110 0111 1001 0nnn 0ttt 0000 0000 0mmm", ""), // LDR
    row("0101 101 mmm nnn ttt", "1110 0001 1001 0nnn 0ttt 0000 1011 0mmm", ""), // LDRH
    row("0101 110 mmm nnn ttt", "1110 0111 1101 0nnn 0ttt 0000 0000 0mmm", ""), // LDRB
    row("0101 111 mmm nnn ttt", "1110 0001 1001 0nnn 0ttt 0000 1111 0mmm", ""), // LDRSH
    row("0110 0 iiiii nnn ttt", "1110 0101 1000 0nnn 0ttt 00000 iiiii 00", ""), // STR
    row("0110 1 iiiii nnn ttt", "1110 0101 1001 0nnn 0ttt 00000 iiiii 00", ""), // LDR
    row("0111 0 iiiii nnn ttt", "1110 0101 1100 0nnn 0ttt 0000000 iiiii", ""),  // STRB
    row("0111 1 iiiii nnn ttt", "1110 0101 1101 0nnn 0ttt 0000000 iiiii", ""),  // LDRB
    row("1000 0 hhiii nnn ttt", "1110 0001 1100 0nnn 0ttt 00hh 1011 iii0", ""), // STRH
    row("1000 1 hhiii nnn ttt", "1110 0001 1101 0nnn 0ttt 00hh 1011 iii0", ""), // LDRH
    row("1001 0 ttt iiiiiiii", "1110 0101 1000 1101 0ttt 00 iiiiiiii 00", ""),  // STR to the stack
    row("1001 1 ttt iiiiiiii", "1110 0101 1001 1101 0ttt 00 iiiiiiii 00", ""),  // LDR from the stack
];

/// A6.2.5, with its table for IT and hints. Hints that are not allocated are NOP.
static MISCELLANEOUS: &[Row] = &[
    row("1011 0000 0 iiiiiii", "1110 0010 1000 1101 1101 1111 0iiiiiii", ""), // ADD SP, SP, #imm
    row("1011 0000 1 iiiiiii", "1110 0010 0100 1101 1101 1111 0iiiiiii", ""), // SUB SP, SP, #imm
    special("1011 o 0 i 1 iiiii nnn", "", branch::COMPARE).place(Place::Outside),
    row("1011 0010 00 mmm ddd", "1110 0110 1011 1111 0ddd 0000 0111 0mmm", ""), // SXTH
    row("1011 0010 01 mmm ddd", "1110 0110 1010 1111 0ddd 0000 0111 0mmm", ""), // SXTB
    row("1011 0010 10 mmm ddd", "1110 0110 1111 1111 0ddd 0000 0111 0mmm", ""), // UXTH
    row("1011 0010 11 mmm ddd", "1110 0110 1110 1111 0ddd 0000 0111 0mmm", ""), // UXTB
    row("1011 010 m rrrrrrrr", "1110 1001 0010 1101 0m00 0000 rrrrrrrr", ""),   // PUSH
    row("1011 0110 010 (1) e (000)", "1111 0001 0000 0001 0000 00e0 0000 0000", "").place(Place::Outside), // SETEND
    row("1011 0110 011 m (0) aif", "1111 0001 0000 1m 00 0000 000a if 000000", "").place(Place::Outside), // CPS
    row("1011 1010 00 mmm ddd", "1110 0110 1011 1111 0ddd 1111 0011 0mmm", ""), // REV
    row("1011 1010 01 mmm ddd", "1110 0110 1011 1111 0ddd 1111 1011 0mmm", ""), // REV16
    row("1011 1010 11 mmm ddd", "1110 0110 1111 1111 0ddd 1111 1011 0mmm", ""), // REVSH
    row("1011 110 p rrrrrrrr", "1110 1000 1011 1101 p000 0000 rrrrrrrr", "")
        .check(|raw, it| !bit(raw, 8) || !it.in_block() || it.is_last()), // POP
    row("1011 1110 hhhhllll", "1110 0001 0010 0000 0000 hhhh 0111 llll", "").always(), // BKPT
    row("1011 1111 hhhh 0000", "1110 0011 0010 0000 1111 0000 0000 hhhh", ""),
    special("1011 1111 cccc mmmm", "", branch::IF_THEN).place(Place::Outside).check(|raw, _| match bits(raw, 7, 4) {
        15 => false,
        // A8.8.54: AL has no opposite, so that all of the block is under it.
        14 => bits(raw, 3, 0).count_ones() == 1,
        _ => true,
    }),
];

/// The rows of A6.2 from ADR to LDM: A8.8.12, A8.8.9, A8.8.199, A8.8.57.
static ADDRESS_AND_MULTIPLE: &[Row] = &[
    row("1010 0 ddd iiiiiiii", "1110 0010 1000 1111 0ddd 1111 iiiiiiii", ""), // ADR
    row("1010 1 ddd iiiiiiii", "1110 0010 1000 1101 0ddd 1111 iiiiiiii", ""), // ADD Rd, SP, #imm
    row("1100 0 nnn rrrrrrrr", "1110 1000 1010 0nnn 0000 0000 rrrrrrrr", ""), // STM
    special("1100 1 nnn rrrrrrrr", "", memory::NARROW_LDM),
];

/// A6.2.6, conditional branches and SVC, and the branch of A8.8.18.
static BRANCH_AND_CALL: &[Row] = &[
    row("1101 1110 hhhhllll", "1110 0111 1111 0000 0000 hhhh 1111 llll", "").always(), // UDF
    row("1101 1111 iiiiiiii", "1110 1111 0000 0000 0000 0000 iiiiiiii", ""),           // SVC
    special("1101 cccc iiiiiiii", "", branch::NARROW_CONDITIONAL).cond(8).place(Place::Outside),
    special("11100 iiiiiiiiiii", "", branch::NARROW).place(Place::Last),
];
