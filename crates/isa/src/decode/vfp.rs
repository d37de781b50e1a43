//! VFP and Advanced SIMD in the coprocessor space: coprocessors 10 and 11, chapter A7.5, A7.6, A7.8 and A7.9.
//!
//! None of these is sensitive but VMRS and VMSR of the system registers, which have an [`Op`] of their own. What
//! matters to the translator is whether a core register, and so the PC, takes part.

use super::{F12, F16, any_pc, bit, bits, is_pc, reg, require};
use crate::Op;

/// The rows `coproc` = 101x of A5.6, `op1` = bits 25:20.
pub(super) fn coprocessor(word: u32) -> Op {
    match (bits(word, 25, 20), bit(word, 4)) {
        (0b000100 | 0b000101, _) => transfer_64(word),
        (0b000000..=0b011111, _) => load_store(word),
        (_, false) => data_processing(word),
        (_, true) => transfer(word),
    }
}

/// A7.6: extension register load/store, by P, U and W; bit 22 is D, bit 20 is L.
fn load_store(word: u32) -> Op {
    let (p, u, w) = (bit(word, 24), bit(word, 23), bit(word, 21));
    let rn = reg(word, F16);
    let load = bit(word, 20);
    match (p, u, w) {
        (true, _, false) => Op::VfpMem { load, rn, multiple: false, writeback: false },
        (false, true, _) | (true, false, true) => {
            let imm8 = bits(word, 7, 0);
            let (first, count, most) = if bit(word, 8) {
                (bits(word, 22, 22) << 4 | bits(word, 15, 12), imm8 >> 1, 16)
            } else {
                (bits(word, 15, 12) << 1 | bits(word, 22, 22), imm8, 32)
            };
            let ok = count != 0 && count <= most && first + count <= 32 && !(w && rn.is_pc());
            require(ok, Op::VfpMem { load, rn, multiple: true, writeback: w })
        }
        _ => Op::Undefined,
    }
}

/// A7.9: VMOV between two core registers and a doubleword register or two singles.
fn transfer_64(word: u32) -> Op {
    if bits(word, 7, 4) & 0b1101 != 0b0001 {
        return Op::Undefined;
    }
    let to_core = bit(word, 20);
    let same = bits(word, 15, 12) == bits(word, 19, 16);
    let pair_ok = bit(word, 8) || word & 0b10_1111 != 0b10_1111;
    let wrong = any_pc(word, &[F16, F12]) || to_core && same;
    require(!wrong && pair_ok, Op::Vfp)
}

/// A7.8: transfers of 8, 16 and 32 bits; `L` = bit 20, `C` = bit 8, `A` = bits 23:21, `B` = bits 6:5.
fn transfer(word: u32) -> Op {
    let (l, a, b) = (bit(word, 20), bits(word, 23, 21), bits(word, 6, 5));
    let low_zero = bits(word, 3, 0) == 0;
    let rt_ok = !is_pc(word, F12);
    if !bit(word, 8) {
        return match a {
            // VMOV of a single
            0b000 => require(low_zero && b == 0 && rt_ok, Op::Vfp),
            // VMSR, VMRS
            0b111 => {
                let sysreg = bits(word, 19, 16) as u8;
                let ok = low_zero && bits(word, 7, 5) == 0 && (rt_ok || l && sysreg == 1);
                require(ok, Op::VfpSystem { load: l, sysreg, rt: reg(word, F12) })
            }
            _ => Op::Undefined,
        };
    }
    // opc1 = bits 22:21, opc2 = bits 6:5
    let opc = (a & 0b11) << 2 | b;
    let allocated = match (l, a >> 2) {
        // VMOV to a scalar: bytes, halfwords, or one of two words
        (false, 0) => opc & 0b1000 != 0 || opc & 1 != 0 || opc & 0b11 == 0,
        // VDUP: no size 11, and quadwords have even numbers
        (false, _) => b & 0b10 == 0 && !(bit(word, 22) && bit(word, 5)) && !(bit(word, 21) && bit(word, 16)),
        // VMOV from a scalar: words have no unsigned form
        (true, u) => opc & 0b1000 != 0 || opc & 1 != 0 || opc & 0b11 == 0 && u == 0,
    };
    if !allocated {
        return Op::Undefined;
    }
    require(low_zero && rt_ok, Op::Vfp)
}

/// A7.5: VFP data processing; `opc1` = bits 23:20, `opc2` = bits 19:16, `opc3` = bits 7:6.
fn data_processing(word: u32) -> Op {
    let op = bit(word, 6);
    match (bits(word, 23, 20) & 0b1011, op) {
        // VMLA, VMLS, VNMLA, VNMLS, VNMUL, VMUL, VADD, VSUB; VDIV; VFNMA, VFNMS, VFMA, VFMS
        (0b0000..=0b0011, _) | (0b1000, false) | (0b1001 | 0b1010, _) => Op::Vfp,
        // VMOV (immediate)
        (0b1011, false) => require(!bit(word, 7) && !bit(word, 5), Op::Vfp),
        (0b1011, true) => other_data_processing(word),
        _ => Op::Undefined,
    }
}

/// The second half of A7.5: one operand, `opc2` = bits 19:16, bit 7 the higher of `opc3`.
fn other_data_processing(word: u32) -> Op {
    let high = bit(word, 7);
    match bits(word, 19, 16) {
        // VMOV, VABS; VNEG, VSQRT
        0b0000 | 0b0001 => Op::Vfp,
        // VCVTB, VCVTT: half precision to and from single; the size bit should be zero
        0b0010 | 0b0011 => require(!bit(word, 8), Op::Vfp),
        0b0100 => Op::Vfp,                                                  // VCMP, VCMPE
        0b0101 => require(!bit(word, 5) && bits(word, 3, 0) == 0, Op::Vfp), // VCMP, VCMPE with zero
        0b0111 if high => Op::Vfp,                                          // VCVT double to or from single
        0b1000 | 0b1100 | 0b1101 => Op::Vfp,                                // VCVT to and from integer
        // VCVT to and from fixed point: no more fraction bits than bits
        0b1010 | 0b1011 | 0b1110 | 0b1111 => {
            let imm = bits(word, 3, 0) << 1 | bits(word, 5, 5);
            require(imm <= if high { 32 } else { 16 }, Op::Vfp)
        }
        _ => Op::Undefined,
    }
}
