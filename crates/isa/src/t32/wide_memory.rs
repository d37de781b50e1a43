//! The 32-bit loads and stores: A6.3.5 to A6.3.10.

use super::row::{Place, Row, row, special, unpredictable};
use super::{ItState, memory};
use crate::decode::{bit, bits};

/// What T32 forbids to LDM and STM beyond A32 (A8.8.57, A8.8.60, A8.8.199, A8.8.201): fewer than two registers, LR and
/// PC together, the base in the list where it is written back. A load of the PC is a branch.
fn list(raw: u32, it: ItState) -> bool {
    let (regs, rn) = (bits(raw, 15, 0), bits(raw, 19, 16));
    let (load, writeback) = (bit(raw, 20), bit(raw, 21));
    regs.count_ones() >= 2
        && regs >> 14 != 0b11
        && !(writeback && regs >> rn & 1 != 0)
        && !(load && bit(raw, 15) && it.in_block() && !it.is_last())
}

/// A6.3.5. In a store's list, the PC should not be; in none SP.
pub(super) static MULTIPLE: &[Row] = &[
    row("1110 1000 00w0 (1101 1100 0000 000) mmmmm", "1111 1001 01w0 1101 0000 0101 000 mmmmm", ""), // SRSDB
    row("1110 1001 10w0 (1101 1100 0000 000) mmmmm", "1111 1000 11w0 1101 0000 0101 000 mmmmm", ""), // SRSIA
    row("1110 1000 00w1 nnnn (1100 0000 0000 0000)", "1111 1001 00w1 nnnn 0000 1010 0000 0000", "").place(Place::Last),
    row("1110 1001 10w1 nnnn (1100 0000 0000 0000)", "1111 1000 10w1 nnnn 0000 1010 0000 0000", "").place(Place::Last),
    row("1110 1000 10w0 nnnn (0)m(0)r rrrr rrrr rrrr", "1110 1000 10w0 nnnn 0m0r rrrr rrrr rrrr", "").check(list),
    row("1110 1000 10w1 nnnn pm(0)r rrrr rrrr rrrr", "1110 1000 10w1 nnnn pm0r rrrr rrrr rrrr", "").check(list),
    row("1110 1001 00w0 nnnn (0)m(0)r rrrr rrrr rrrr", "1110 1001 00w0 nnnn 0m0r rrrr rrrr rrrr", "").check(list),
    row("1110 1001 00w1 nnnn pm(0)r rrrr rrrr rrrr", "1110 1001 00w1 nnnn pm0r rrrr rrrr rrrr", "").check(list),
];

/// LDRD, STRD (A8.8.72, A8.8.73, A8.8.210): a base that is written back is neither of the registers nor the PC. The PC
/// is the base of loads only, and a load's registers differ.
fn dual(raw: u32, _: ItState) -> bool {
    let (n, t, t2) = (bits(raw, 19, 16), bits(raw, 15, 12), bits(raw, 11, 8));
    let (load, writeback) = (bit(raw, 20), bit(raw, 21));
    !(writeback && (n == t || n == t2)) && !(n == 15 && (writeback || !load)) && !(load && t == t2)
}

/// STREX (A8.8.212): the status register is no other one.
const fn strex(raw: u32, _: ItState) -> bool {
    let d = bits(raw, 11, 8);
    d != bits(raw, 19, 16) && d != bits(raw, 15, 12)
}

/// STREXD (A8.8.214).
const fn strexd(raw: u32, _: ItState) -> bool {
    let d = bits(raw, 3, 0);
    d != bits(raw, 19, 16) && d != bits(raw, 15, 12) && d != bits(raw, 11, 8)
}

/// A6.3.6.
pub(super) static DUAL_EXCLUSIVE_AND_TABLE_BRANCH: &[Row] = &[
    row("1110 1000 0100 nnnn tttt dddd 0000 0000", "1110 0001 1000 nnnn dddd 1111 1001 tttt", "dt n:pc"), // STREX
    special("1110 1000 0100 nnnn tttt dddd iiii iiii", "dt n:pc", memory::STREX).check(strex),
    row("1110 1000 0101 nnnn tttt (1111) 0000 0000", "1110 0001 1001 nnnn tttt 1111 1001 1111", "t n:pc"), // LDREX
    special("1110 1000 0101 nnnn tttt (1111) iiii iiii", "t n:pc", memory::LDREX),
    row("1110 1000 1100 nnnn tttt (1111) 0100 dddd", "1110 0001 1100 nnnn dddd 1111 1001 tttt", "dt n:pc"), // STREXB
    row("1110 1000 1100 nnnn tttt (1111) 0101 dddd", "1110 0001 1110 nnnn dddd 1111 1001 tttt", "dt n:pc"), // STREXH
    special("1110 1000 1100 nnnn tttt ssss 0111 dddd", "dts n:pc", memory::STREXD).check(strexd),
    special("1110 1000 1101 nnnn (1111 0000) 000h mmmm", "m n:sp", super::branch::TABLE).place(Place::Last),
    row("1110 1000 1101 nnnn tttt (1111) 0100 (1111)", "1110 0001 1101 nnnn tttt 1111 1001 1111", "t n:pc"), // LDREXB
    row("1110 1000 1101 nnnn tttt (1111) 0101 (1111)", "1110 0001 1111 nnnn tttt 1111 1001 1111", "t n:pc"), // LDREXH
    special("1110 1000 1101 nnnn tttt ssss 0111 (1111)", "ts n:pc", memory::LDREXD)
        .check(|raw, _| bits(raw, 15, 12) != bits(raw, 11, 8)),
    // Post-indexed, and with an offset or pre-indexed
    special("1110 1000 u11l nnnn tttt ssss iiii iiii", "ts", memory::DUAL).check(dual),
    special("1110 1001 u1wl nnnn tttt ssss iiii iiii", "ts", memory::DUAL).check(dual),
];

/// A load of the PC is a branch.
fn branch_is_last(raw: u32, it: ItState) -> bool {
    bits(raw, 15, 12) != 15 || !it.in_block() || it.is_last()
}

/// A6.3.7: LDR, from a literal first.
pub(super) static WORD: &[Row] = &[
    row("1111 1000 u101 1111 tttt iiii iiii iiii", "1110 0101 u001 1111 tttt iiii iiii iiii", "").check(branch_is_last),
    row("1111 1000 1101 nnnn tttt iiii iiii iiii", "1110 0101 1001 nnnn tttt iiii iiii iiii", "").check(branch_is_last),
    row("1111 1000 0101 nnnn tttt 1100 iiii iiii", "1110 0101 0001 nnnn tttt 0000 iiii iiii", "").check(branch_is_last),
    special("1111 1000 0101 nnnn tttt 1110 iiii iiii", "t", memory::SINGLE), // LDRT
    row("1111 1000 0101 nnnn tttt 10u1 iiii iiii", "1110 0100 u001 nnnn tttt 0000 iiii iiii", "").check(branch_is_last),
    row("1111 1000 0101 nnnn tttt 11u1 iiii iiii", "1110 0101 u011 nnnn tttt 0000 iiii iiii", "").check(branch_is_last),
    row("1111 1000 0101 nnnn tttt 0000 00ss mmmm", "1110 0111 1001 nnnn tttt 000s s000 mmmm", "m")
        .check(branch_is_last),
];

/// A6.3.8: LDRH, LDRSH, PLDW. A destination of 15 is a hint.
pub(super) static HALFWORD_AND_HINTS: &[Row] = &[
    // PLD of a literal has no form for writes (A8.8.127); the others are unallocated.
    unpredictable("1111 1000 u011 1111 1111 iiii iiii iiii"),
    special("1111 1001 u011 1111 1111 iiii iiii iiii", "", memory::HINT),
    row("1111 1000 u011 1111 tttt 0000 hhhh llll", "1110 0001 u101 1111 tttt hhhh 1011 llll", "t"),
    row("1111 1001 u011 1111 tttt 0000 hhhh llll", "1110 0001 u101 1111 tttt hhhh 1111 llll", "t"),
    special("1111 100s u011 1111 tttt iiii iiii iiii", "t", memory::SINGLE),
    row("1111 1000 1011 nnnn 1111 iiii iiii iiii", "1111 0101 1001 nnnn 1111 iiii iiii iiii", ""), // PLDW
    row("1111 1000 0011 nnnn 1111 1100 iiii iiii", "1111 0101 0001 nnnn 1111 0000 iiii iiii", ""),
    row("1111 1000 0011 nnnn 1111 0000 00ss mmmm", "1111 0111 1001 nnnn 1111 000s s000 mmmm", "m"),
    special("1111 1001 1011 nnnn 1111 iiii iiii iiii", "", memory::HINT),
    special("1111 1001 0011 nnnn 1111 1100 iiii iiii", "", memory::HINT),
    special("1111 1001 0011 nnnn 1111 0000 00ii mmmm", "", memory::HINT),
    row("1111 1000 1011 nnnn tttt 0000 hhhh llll", "1110 0001 1101 nnnn tttt hhhh 1011 llll", "t"),
    row("1111 1001 1011 nnnn tttt 0000 hhhh llll", "1110 0001 1101 nnnn tttt hhhh 1111 llll", "t"),
    special("1111 100s 1011 nnnn tttt iiii iiii iiii", "t", memory::SINGLE),
    row("1111 1000 0011 nnnn tttt 1100 hhhh llll", "1110 0001 0101 nnnn tttt hhhh 1011 llll", "t"),
    row("1111 1001 0011 nnnn tttt 1100 hhhh llll", "1110 0001 0101 nnnn tttt hhhh 1111 llll", "t"),
    special("1111 100s 0011 nnnn tttt 1110 iiii iiii", "t", memory::SINGLE), // LDRHT, LDRSHT
    row("1111 1000 0011 nnnn tttt 10u1 hhhh llll", "1110 0000 u101 nnnn tttt hhhh 1011 llll", "t"),
    row("1111 1001 0011 nnnn tttt 10u1 hhhh llll", "1110 0000 u101 nnnn tttt hhhh 1111 llll", "t"),
    row("1111 1000 0011 nnnn tttt 11u1 hhhh llll", "1110 0001 u111 nnnn tttt hhhh 1011 llll", "t"),
    row("1111 1001 0011 nnnn tttt 11u1 hhhh llll", "1110 0001 u111 nnnn tttt hhhh 1111 llll", "t"),
    row("1111 1000 0011 nnnn tttt 0000 0000 mmmm", "1110 0001 1001 nnnn tttt 0000 1011 mmmm", "tm"),
    row("1111 1001 0011 nnnn tttt 0000 0000 mmmm", "1110 0001 1001 nnnn tttt 0000 1111 mmmm", "tm"),
    special("1111 100s 0011 nnnn tttt 0000 00ii mmmm", "tm", memory::SINGLE),
];

/// A6.3.9: LDRB, LDRSB, PLD, PLI. A destination of 15 is a hint.
pub(super) static BYTE_AND_HINTS: &[Row] = &[
    row("1111 1000 u001 1111 1111 iiii iiii iiii", "1111 0101 u101 1111 1111 iiii iiii iiii", ""), // PLD
    row("1111 1001 u001 1111 1111 iiii iiii iiii", "1111 0100 u101 1111 1111 iiii iiii iiii", ""), // PLI
    row("1111 1000 u001 1111 tttt iiii iiii iiii", "1110 0101 u101 1111 tttt iiii iiii iiii", "t"),
    row("1111 1001 u001 1111 tttt 0000 hhhh llll", "1110 0001 u101 1111 tttt hhhh 1101 llll", "t"),
    special("1111 1001 u001 1111 tttt iiii iiii iiii", "t", memory::SINGLE),
    row("1111 1000 1001 nnnn 1111 iiii iiii iiii", "1111 0101 1101 nnnn 1111 iiii iiii iiii", ""), // PLD
    row("1111 1000 0001 nnnn 1111 1100 iiii iiii", "1111 0101 0101 nnnn 1111 0000 iiii iiii", ""),
    row("1111 1000 0001 nnnn 1111 0000 00ss mmmm", "1111 0111 1101 nnnn 1111 000s s000 mmmm", "m"),
    row("1111 1001 1001 nnnn 1111 iiii iiii iiii", "1111 0100 1101 nnnn 1111 iiii iiii iiii", ""), // PLI
    row("1111 1001 0001 nnnn 1111 1100 iiii iiii", "1111 0100 0101 nnnn 1111 0000 iiii iiii", ""),
    row("1111 1001 0001 nnnn 1111 0000 00ss mmmm", "1111 0110 1101 nnnn 1111 000s s000 mmmm", "m"),
    row("1111 1000 1001 nnnn tttt iiii iiii iiii", "1110 0101 1101 nnnn tttt iiii iiii iiii", "t"),
    row("1111 1001 1001 nnnn tttt 0000 hhhh llll", "1110 0001 1101 nnnn tttt hhhh 1101 llll", "t"),
    special("1111 1001 1001 nnnn tttt iiii iiii iiii", "t", memory::SINGLE),
    row("1111 1000 0001 nnnn tttt 1100 iiii iiii", "1110 0101 0101 nnnn tttt 0000 iiii iiii", "t"),
    row("1111 1001 0001 nnnn tttt 1100 hhhh llll", "1110 0001 0101 nnnn tttt hhhh 1101 llll", "t"),
    special("1111 100s 0001 nnnn tttt 1110 iiii iiii", "t", memory::SINGLE), // LDRBT, LDRSBT
    row("1111 1000 0001 nnnn tttt 10u1 iiii iiii", "1110 0100 u101 nnnn tttt 0000 iiii iiii", "t"),
    row("1111 1001 0001 nnnn tttt 10u1 hhhh llll", "1110 0000 u101 nnnn tttt hhhh 1101 llll", "t"),
    row("1111 1000 0001 nnnn tttt 11u1 iiii iiii", "1110 0101 u111 nnnn tttt 0000 iiii iiii", "t"),
    row("1111 1001 0001 nnnn tttt 11u1 hhhh llll", "1110 0001 u111 nnnn tttt hhhh 1101 llll", "t"),
    row("1111 1000 0001 nnnn tttt 0000 00ss mmmm", "1110 0111 1101 nnnn tttt 000s s000 mmmm", "tm"),
    row("1111 1001 0001 nnnn tttt 0000 0000 mmmm", "1110 0001 1001 nnnn tttt 0000 1101 mmmm", "tm"),
    special("1111 1001 0001 nnnn tttt 0000 00ii mmmm", "tm", memory::SINGLE),
];

/// A6.3.10, where a base of 15 is UNDEFINED.
pub(super) fn store(raw: u32) -> &'static [Row] {
    if bits(raw, 19, 16) == 15 { &[] } else { STORE }
}

static STORE: &[Row] = &[
    row("1111 1000 1000 nnnn tttt iiii iiii iiii", "1110 0101 1100 nnnn tttt iiii iiii iiii", "t"), // STRB
    row("1111 1000 0000 nnnn tttt 1100 iiii iiii", "1110 0101 0100 nnnn tttt 0000 iiii iiii", "t"),
    special("1111 1000 0000 nnnn tttt 1110 iiii iiii", "t", memory::SINGLE), // STRBT
    row("1111 1000 0000 nnnn tttt 10u1 iiii iiii", "1110 0100 u100 nnnn tttt 0000 iiii iiii", "t"),
    row("1111 1000 0000 nnnn tttt 11u1 iiii iiii", "1110 0101 u110 nnnn tttt 0000 iiii iiii", "t"),
    row("1111 1000 0000 nnnn tttt 0000 00ss mmmm", "1110 0111 1100 nnnn tttt 000s s000 mmmm", "tm"),
    row("1111 1000 1010 nnnn tttt 0000 hhhh llll", "1110 0001 1100 nnnn tttt hhhh 1011 llll", "t"), // STRH
    special("1111 1000 1010 nnnn tttt iiii iiii iiii", "t", memory::SINGLE),
    row("1111 1000 0010 nnnn tttt 1100 hhhh llll", "1110 0001 0100 nnnn tttt hhhh 1011 llll", "t"),
    special("1111 1000 0010 nnnn tttt 1110 iiii iiii", "t", memory::SINGLE), // STRHT
    row("1111 1000 0010 nnnn tttt 10u1 hhhh llll", "1110 0000 u100 nnnn tttt hhhh 1011 llll", "t"),
    row("1111 1000 0010 nnnn tttt 11u1 hhhh llll", "1110 0001 u110 nnnn tttt hhhh 1011 llll", "t"),
    row("1111 1000 0010 nnnn tttt 0000 0000 mmmm", "1110 0001 1000 nnnn tttt 0000 1011 mmmm", "tm"),
    special("1111 1000 0010 nnnn tttt 0000 00ii mmmm", "tm", memory::SINGLE),
    row("1111 1000 1100 nnnn tttt iiii iiii iiii", "1110 0101 1000 nnnn tttt iiii iiii iiii", "t:pc"), // STR
    row("1111 1000 0100 nnnn tttt 1100 iiii iiii", "1110 0101 0000 nnnn tttt 0000 iiii iiii", "t:pc"),
    special("1111 1000 0100 nnnn tttt 1110 iiii iiii", "t", memory::SINGLE), // STRT
    row("1111 1000 0100 nnnn tttt 10u1 iiii iiii", "1110 0100 u000 nnnn tttt 0000 iiii iiii", "t:pc"),
    row("1111 1000 0100 nnnn tttt 11u1 iiii iiii", "1110 0101 u010 nnnn tttt 0000 iiii iiii", "t:pc"),
    row("1111 1000 0100 nnnn tttt 0000 00ss mmmm", "1110 0111 1000 nnnn tttt 000s s000 mmmm", "m t:pc"),
];
