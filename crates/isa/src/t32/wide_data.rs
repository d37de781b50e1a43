//! The 32-bit data-processing encodings: A6.3.1, A6.3.3, A6.3.11 to A6.3.17.

use super::ItState;
use super::data;
use super::row::{Row, row, special};
use crate::decode::{bit, bits};

/// A6.3.1: all opcodes in one, because whether A32 has the constant does not depend on the opcode.
pub(super) static MODIFIED_IMMEDIATE: &[Row] =
    &[special("11110 i 0 oooo s nnnn 0 iii dddd iiiiiiii", "", data::CONSTANT).check(data::constant_registers)];

/// The base of ADDW and SUBW: with SP, the result may be SP (A8.8.9, A8.8.225); with the PC, they are ADR (A8.8.12).
const fn add_wide(raw: u32, _: ItState) -> bool {
    let (d, n) = (bits(raw, 11, 8), bits(raw, 19, 16));
    d != 15 && (d != 13 || n == 13)
}

/// A6.3.3.
pub(super) static PLAIN_IMMEDIATE: &[Row] = &[
    special("11110 i 1 0000 0 nnnn 0 iii dddd iiiiiiii", "", data::ADD_WIDE).check(add_wide),
    special("11110 i 1 0101 0 nnnn 0 iii dddd iiiiiiii", "", data::ADD_WIDE).check(add_wide),
    row("11110 i 10 0100 hhhh 0 jjj dddd llllllll", "1110 0011 0000 hhhh dddd ijjj llllllll", "d"), // MOVW
    row("11110 i 10 1100 hhhh 0 jjj dddd llllllll", "1110 0011 0100 hhhh dddd ijjj llllllll", "d"), // MOVT
    // SSAT16 and USAT16 before SSAT and USAT
    row("11110 (0) 11 0010 nnnn 0 000 dddd 00 (00) ssss", "1110 0110 1010 ssss dddd 1111 0011 nnnn", "dn"),
    row("11110 (0) 11 1010 nnnn 0 000 dddd 00 (00) ssss", "1110 0110 1110 ssss dddd 1111 0011 nnnn", "dn"),
    row("11110 (0) 11 00t0 nnnn 0 iii dddd ii (0) sssss", "1110 0110 101 sssss dddd iiiii t01 nnnn", "dn"),
    row("11110 (0) 11 10t0 nnnn 0 iii dddd ii (0) sssss", "1110 0110 111 sssss dddd iiiii t01 nnnn", "dn"),
    row("11110 (0) 11 0100 nnnn 0 iii dddd ii (0) wwwww", "1110 0111 101 wwwww dddd iiiii 101 nnnn", "dn"), // SBFX
    row("11110 (0) 11 1100 nnnn 0 iii dddd ii (0) wwwww", "1110 0111 111 wwwww dddd iiiii 101 nnnn", "dn"), // UBFX
    row("11110 (0) 11 0110 nnnn 0 iii dddd ii (0) mmmmm", "1110 0111 110 mmmmm dddd iiiii 001 nnnn", "d n:sp"), // BFI
];

/// AND, EOR: the PC as destination is TST, TEQ, which set flags.
const fn logical(raw: u32, _: ItState) -> bool {
    let d = bits(raw, 11, 8);
    d != 13 && (d != 15 || bit(raw, 20))
}

/// ADD, SUB: the same with CMN, CMP; SP is a destination where it is the base, with a small shift (A8.8.10, A8.8.226).
const fn arithmetic(raw: u32, _: ItState) -> bool {
    let (d, n) = (bits(raw, 11, 8), bits(raw, 19, 16));
    let shift_is_small = bits(raw, 14, 12) == 0 && bits(raw, 5, 4) == 0;
    n != 15 && (d != 15 || bit(raw, 20)) && (d != 13 || n == 13 && shift_is_small)
}

/// MOV without a shift (A8.8.103, encoding T3): with flags, neither SP nor PC; without, no PC, and not SP to SP.
const fn mov(raw: u32, _: ItState) -> bool {
    let (d, m) = (bits(raw, 11, 8), bits(raw, 3, 0));
    let sp = (d == 13) as u32 + (m == 13) as u32;
    d != 15 && m != 15 && sp <= !bit(raw, 20) as u32
}

/// A6.3.11, with its table for moves and shifts.
pub(super) static SHIFTED_REGISTER: &[Row] = &[
    row("11101 01 0000 1 nnnn (0) iii 1111 ii tt mmmm", "1110 0001 0001 nnnn 0000 iiiii tt0 mmmm", "nm"), // TST
    row("11101 01 0000 s nnnn (0) iii dddd ii tt mmmm", "1110 0000 000s nnnn dddd iiiii tt0 mmmm", "nm").check(logical),
    row("11101 01 0001 s nnnn (0) iii dddd ii tt mmmm", "1110 0001 110s nnnn dddd iiiii tt0 mmmm", "dnm"), // BIC
    row("11101 01 0010 s 1111 (0) 000 dddd 00 00 mmmm", "1110 0001 101s 0000 dddd 00000 000 mmmm", "").check(mov),
    row("11101 01 0010 s 1111 (0) iii dddd ii tt mmmm", "1110 0001 101s 0000 dddd iiiii tt0 mmmm", "dm"), // LSL …
    row("11101 01 0010 s nnnn (0) iii dddd ii tt mmmm", "1110 0001 100s nnnn dddd iiiii tt0 mmmm", "dnm"), // ORR
    row("11101 01 0011 s 1111 (0) iii dddd ii tt mmmm", "1110 0001 111s 0000 dddd iiiii tt0 mmmm", "dm"), // MVN
    special("11101 01 0011 s nnnn (0) iii dddd ii tt mmmm", "dnm", data::OR_NOT),
    row("11101 01 0100 1 nnnn (0) iii 1111 ii tt mmmm", "1110 0001 0011 nnnn 0000 iiiii tt0 mmmm", "nm"), // TEQ
    row("11101 01 0100 s nnnn (0) iii dddd ii tt mmmm", "1110 0000 001s nnnn dddd iiiii tt0 mmmm", "nm").check(logical),
    row("11101 01 0110 0 nnnn (0) iii dddd ii t0 mmmm", "1110 0110 1000 nnnn dddd iiiii t01 mmmm", "dnm"), // PKH
    row("11101 01 1000 1 nnnn (0) iii 1111 ii tt mmmm", "1110 0001 0111 nnnn 0000 iiiii tt0 mmmm", "m n:pc"), // CMN
    row("11101 01 1000 s nnnn (0) iii dddd ii tt mmmm", "1110 0000 100s nnnn dddd iiiii tt0 mmmm", "m")
        .check(arithmetic),
    row("11101 01 1010 s nnnn (0) iii dddd ii tt mmmm", "1110 0000 101s nnnn dddd iiiii tt0 mmmm", "dnm"), // ADC
    row("11101 01 1011 s nnnn (0) iii dddd ii tt mmmm", "1110 0000 110s nnnn dddd iiiii tt0 mmmm", "dnm"), // SBC
    row("11101 01 1101 1 nnnn (0) iii 1111 ii tt mmmm", "1110 0001 0101 nnnn 0000 iiiii tt0 mmmm", "m n:pc"), // CMP
    row("11101 01 1101 s nnnn (0) iii dddd ii tt mmmm", "1110 0000 010s nnnn dddd iiiii tt0 mmmm", "m")
        .check(arithmetic),
    row("11101 01 1110 s nnnn (0) iii dddd ii tt mmmm", "1110 0000 011s nnnn dddd iiiii tt0 mmmm", "dnm"), // RSB
];

/// A6.3.12, with A6.3.13 to A6.3.15: parallel addition and subtraction, and miscellaneous.
pub(super) static REGISTER: &[Row] = &[
    row("11111 010 000 s nnnn 1111 dddd 0000 mmmm", "1110 0001 101s 0000 dddd mmmm 0001 nnnn", "dnm"), // LSL
    row("11111 010 001 s nnnn 1111 dddd 0000 mmmm", "1110 0001 101s 0000 dddd mmmm 0011 nnnn", "dnm"), // LSR
    row("11111 010 010 s nnnn 1111 dddd 0000 mmmm", "1110 0001 101s 0000 dddd mmmm 0101 nnnn", "dnm"), // ASR
    row("11111 010 011 s nnnn 1111 dddd 0000 mmmm", "1110 0001 101s 0000 dddd mmmm 0111 nnnn", "dnm"), // ROR
    row("11111 010 0000 nnnn 1111 dddd 1(0)rr mmmm", "1110 0110 1011 nnnn dddd rr00 0111 mmmm", "dm n:sp"), // SXTAH
    row("11111 010 0001 nnnn 1111 dddd 1(0)rr mmmm", "1110 0110 1111 nnnn dddd rr00 0111 mmmm", "dm n:sp"), // UXTAH
    row("11111 010 0010 nnnn 1111 dddd 1(0)rr mmmm", "1110 0110 1000 nnnn dddd rr00 0111 mmmm", "dm n:sp"), // SXTAB16
    row("11111 010 0011 nnnn 1111 dddd 1(0)rr mmmm", "1110 0110 1100 nnnn dddd rr00 0111 mmmm", "dm n:sp"), // UXTAB16
    row("11111 010 0100 nnnn 1111 dddd 1(0)rr mmmm", "1110 0110 1010 nnnn dddd rr00 0111 mmmm", "dm n:sp"), // SXTAB
    row("11111 010 0101 nnnn 1111 dddd 1(0)rr mmmm", "1110 0110 1110 nnnn dddd rr00 0111 mmmm", "dm n:sp"), // UXTAB
    // ADD16, ASX, SAX, SUB16, ADD8, SUB8: wrapping, saturating, halving
    row("11111 010 1001 nnnn 1111 dddd 0u00 mmmm", "1110 0110 0u01 nnnn dddd 1111 0001 mmmm", "dnm"),
    row("11111 010 1010 nnnn 1111 dddd 0u00 mmmm", "1110 0110 0u01 nnnn dddd 1111 0011 mmmm", "dnm"),
    row("11111 010 1110 nnnn 1111 dddd 0u00 mmmm", "1110 0110 0u01 nnnn dddd 1111 0101 mmmm", "dnm"),
    row("11111 010 1101 nnnn 1111 dddd 0u00 mmmm", "1110 0110 0u01 nnnn dddd 1111 0111 mmmm", "dnm"),
    row("11111 010 1000 nnnn 1111 dddd 0u00 mmmm", "1110 0110 0u01 nnnn dddd 1111 1001 mmmm", "dnm"),
    row("11111 010 1100 nnnn 1111 dddd 0u00 mmmm", "1110 0110 0u01 nnnn dddd 1111 1111 mmmm", "dnm"),
    row("11111 010 1001 nnnn 1111 dddd 0u01 mmmm", "1110 0110 0u10 nnnn dddd 1111 0001 mmmm", "dnm"),
    row("11111 010 1010 nnnn 1111 dddd 0u01 mmmm", "1110 0110 0u10 nnnn dddd 1111 0011 mmmm", "dnm"),
    row("11111 010 1110 nnnn 1111 dddd 0u01 mmmm", "1110 0110 0u10 nnnn dddd 1111 0101 mmmm", "dnm"),
    row("11111 010 1101 nnnn 1111 dddd 0u01 mmmm", "1110 0110 0u10 nnnn dddd 1111 0111 mmmm", "dnm"),
    row("11111 010 1000 nnnn 1111 dddd 0u01 mmmm", "1110 0110 0u10 nnnn dddd 1111 1001 mmmm", "dnm"),
    row("11111 010 1100 nnnn 1111 dddd 0u01 mmmm", "1110 0110 0u10 nnnn dddd 1111 1111 mmmm", "dnm"),
    row("11111 010 1001 nnnn 1111 dddd 0u10 mmmm", "1110 0110 0u11 nnnn dddd 1111 0001 mmmm", "dnm"),
    row("11111 010 1010 nnnn 1111 dddd 0u10 mmmm", "1110 0110 0u11 nnnn dddd 1111 0011 mmmm", "dnm"),
    row("11111 010 1110 nnnn 1111 dddd 0u10 mmmm", "1110 0110 0u11 nnnn dddd 1111 0101 mmmm", "dnm"),
    row("11111 010 1101 nnnn 1111 dddd 0u10 mmmm", "1110 0110 0u11 nnnn dddd 1111 0111 mmmm", "dnm"),
    row("11111 010 1000 nnnn 1111 dddd 0u10 mmmm", "1110 0110 0u11 nnnn dddd 1111 1001 mmmm", "dnm"),
    row("11111 010 1100 nnnn 1111 dddd 0u10 mmmm", "1110 0110 0u11 nnnn dddd 1111 1111 mmmm", "dnm"),
    // QADD, QDADD, QSUB, QDSUB: the two bits that tell them apart are in the other order
    row("11111 010 1000 nnnn 1111 dddd 10ab mmmm", "1110 0001 0ba0 nnnn dddd 0000 0101 mmmm", "dnm"),
    row("11111 010 1001 mmmm 1111 dddd 1000 mmmm", "1110 0110 1011 1111 dddd 1111 0011 mmmm", "dm"), // REV
    row("11111 010 1001 mmmm 1111 dddd 1001 mmmm", "1110 0110 1011 1111 dddd 1111 1011 mmmm", "dm"), // REV16
    row("11111 010 1001 mmmm 1111 dddd 1010 mmmm", "1110 0110 1111 1111 dddd 1111 0011 mmmm", "dm"), // RBIT
    row("11111 010 1001 mmmm 1111 dddd 1011 mmmm", "1110 0110 1111 1111 dddd 1111 1011 mmmm", "dm"), // REVSH
    row("11111 010 1010 nnnn 1111 dddd 1000 mmmm", "1110 0110 1000 nnnn dddd 1111 1011 mmmm", "dnm"), // SEL
    row("11111 010 1011 mmmm 1111 dddd 1000 mmmm", "1110 0001 0110 1111 dddd 1111 0001 mmmm", "dm"), // CLZ
];

/// A6.3.16: an accumulator of 15 is the form without one.
pub(super) static MULTIPLY: &[Row] = &[
    row("11111 0110 000 nnnn 1111 dddd 0000 mmmm", "1110 0000 0000 dddd 0000 mmmm 1001 nnnn", "dnm"), // MUL
    row("11111 0110 000 nnnn aaaa dddd 0000 mmmm", "1110 0000 0010 dddd aaaa mmmm 1001 nnnn", "dnma"), // MLA
    row("11111 0110 000 nnnn aaaa dddd 0001 mmmm", "1110 0000 0110 dddd aaaa mmmm 1001 nnnn", "dnma"), // MLS
    row("11111 0110 001 nnnn 1111 dddd 00xy mmmm", "1110 0001 0110 dddd 0000 mmmm 1yx0 nnnn", "dnm"), // SMULxy
    row("11111 0110 001 nnnn aaaa dddd 00xy mmmm", "1110 0001 0000 dddd aaaa mmmm 1yx0 nnnn", "dnma"), // SMLAxy
    row("11111 0110 010 nnnn aaaa dddd 000x mmmm", "1110 0111 0000 dddd aaaa mmmm 00x1 nnnn", "dnm a:sp"), // SMLAD
    row("11111 0110 011 nnnn 1111 dddd 000y mmmm", "1110 0001 0010 dddd 0000 mmmm 1y10 nnnn", "dnm"), // SMULWy
    row("11111 0110 011 nnnn aaaa dddd 000y mmmm", "1110 0001 0010 dddd aaaa mmmm 1y00 nnnn", "dnma"), // SMLAWy
    row("11111 0110 100 nnnn aaaa dddd 000x mmmm", "1110 0111 0000 dddd aaaa mmmm 01x1 nnnn", "dnm a:sp"), // SMLSD
    row("11111 0110 101 nnnn aaaa dddd 000r mmmm", "1110 0111 0101 dddd aaaa mmmm 00r1 nnnn", "dnm a:sp"), // SMMLA
    row("11111 0110 110 nnnn aaaa dddd 000r mmmm", "1110 0111 0101 dddd aaaa mmmm 11r1 nnnn", "dnma"), // SMMLS
    row("11111 0110 111 nnnn aaaa dddd 0000 mmmm", "1110 0111 1000 dddd aaaa mmmm 0001 nnnn", "dnm a:sp"), // USADA8
];

/// A6.3.17.
pub(super) static LONG_MULTIPLY: &[Row] = &[
    row("11111 0111 000 nnnn llll hhhh 0000 mmmm", "1110 0000 1100 hhhh llll mmmm 1001 nnnn", "nmlh"), // SMULL
    row("11111 0111 001 nnnn (1111) dddd 1111 mmmm", "1110 0111 0001 dddd 1111 mmmm 0001 nnnn", "dnm"), // SDIV
    row("11111 0111 010 nnnn llll hhhh 0000 mmmm", "1110 0000 1000 hhhh llll mmmm 1001 nnnn", "nmlh"), // UMULL
    row("11111 0111 011 nnnn (1111) dddd 1111 mmmm", "1110 0111 0011 dddd 1111 mmmm 0001 nnnn", "dnm"), // UDIV
    row("11111 0111 100 nnnn llll hhhh 0000 mmmm", "1110 0000 1110 hhhh llll mmmm 1001 nnnn", "nmlh"), // SMLAL
    row("11111 0111 100 nnnn llll hhhh 10xy mmmm", "1110 0001 0100 hhhh llll mmmm 1yx0 nnnn", "nmlh"), // SMLALxy
    row("11111 0111 100 nnnn llll hhhh 110x mmmm", "1110 0111 0100 hhhh llll mmmm 00x1 nnnn", "nmlh"), // SMLALD
    row("11111 0111 101 nnnn llll hhhh 110x mmmm", "1110 0111 0100 hhhh llll mmmm 01x1 nnnn", "nmlh"), // SMLSLD
    row("11111 0111 110 nnnn llll hhhh 0000 mmmm", "1110 0000 1010 hhhh llll mmmm 1001 nnnn", "nmlh"), // UMLAL
    row("11111 0111 110 nnnn llll hhhh 0110 mmmm", "1110 0000 0100 hhhh llll mmmm 1001 nnnn", "nmlh"), // UMAAL
];
