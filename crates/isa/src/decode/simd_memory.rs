//! Advanced SIMD element and structure loads and stores: chapter A7.7, VLD1 to VLD4 and VST1 to VST4.
//!
//! They have a core register as base, which the PC cannot be, and as index `Rm`, where 15 means "none" and 13 "by the
//! size of the transfer": they can be copied as they are.

use super::{F16, bit, bits, is_pc, require};
use crate::Op;

/// A7.7: `A` = bit 23, `L` = bit 21, `B` = bits 11:8.
pub(super) fn load_store(word: u32) -> Op {
    let last = match (bit(word, 23), bits(word, 11, 10)) {
        (false, _) => multiple_structures(word),
        (true, 0b11) => all_lanes(word),
        (true, _) => one_lane(word),
    };
    match last {
        Some(last) => require(last < 32 && !is_pc(word, F16), Op::Vfp),
        None => Op::Undefined,
    }
}

/// The first vector register.
const fn first(word: u32) -> u32 {
    bits(word, 22, 22) << 4 | bits(word, 15, 12)
}

/// Several structures; `type` = bits 11:8, `size` = bits 7:6, `align` = bits 5:4. The number of the last register, or
/// nothing if the encoding is not allocated.
fn multiple_structures(word: u32) -> Option<u32> {
    let (size, align) = (bits(word, 7, 6), bits(word, 5, 4));
    let (exists, span) = match bits(word, 11, 8) {
        0b0111 => (align < 2, 0),              // VLD1 of one register
        0b1010 => (align < 3, 1),              // of two
        0b0110 => (align < 2, 2),              // of three
        0b0010 => (true, 3),                   // of four
        0b1000 => (size != 3 && align < 3, 1), // VLD2 of two registers, adjacent
        0b1001 => (size != 3 && align < 3, 2), // and not
        0b0011 => (size != 3, 3),              // VLD2 of four
        0b0100 => (size != 3 && align < 2, 2), // VLD3, adjacent
        0b0101 => (size != 3 && align < 2, 4), // and not
        0b0000 => (size != 3, 3),              // VLD4, adjacent
        0b0001 => (size != 3, 6),              // and not
        _ => (false, 0),
    };
    exists.then(|| first(word) + span)
}

/// One structure to or from one lane; `size` = bits 11:10, the number of elements less one = bits 9:8,
/// `index_align` = bits 7:4.
fn one_lane(word: u32) -> Option<u32> {
    let (size, elements, align) = (bits(word, 11, 10), bits(word, 9, 8), bits(word, 7, 4));
    let exists = match (elements, size) {
        (0, 0) => align & 0b0001 == 0,
        (0, 1) => align & 0b0010 == 0,
        (0, _) => align & 0b0100 == 0 && matches!(align & 0b0011, 0b00 | 0b11),
        (1, 2) => align & 0b0010 == 0,
        (2, 0 | 1) => align & 0b0001 == 0,
        (2, _) => align & 0b0011 == 0,
        (3, 2) => align & 0b0011 != 0b0011,
        _ => true,
    };
    let increment = match size {
        1 if align & 0b0010 != 0 => 2,
        2 if align & 0b0100 != 0 => 2,
        _ => 1,
    };
    exists.then(|| first(word) + elements * increment)
}

/// One structure to all lanes: only loads; the number of elements less one = bits 9:8, `size` = bits 7:6, `T` = bit 5,
/// `a` = bit 4.
fn all_lanes(word: u32) -> Option<u32> {
    let (elements, size) = (bits(word, 9, 8), bits(word, 7, 6));
    let (t, a) = (bits(word, 5, 5), bit(word, 4));
    let exists = match elements {
        0 => size != 3 && !(size == 0 && a),
        1 => size != 3,
        2 => size != 3 && !a,
        _ => size != 3 || a,
    };
    // For VLD1, T adds a register; for the others, it spreads them.
    let span = if elements == 0 { t } else { elements * (1 + t) };
    (exists && bit(word, 21)).then(|| first(word) + span)
}
