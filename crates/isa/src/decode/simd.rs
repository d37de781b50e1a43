//! Advanced SIMD data processing, in the unconditional space: chapter A7.4.
//!
//! No instruction here has a core register or is sensitive; what there is to know is which encodings exist. That
//! matters all the same: later architectures filled the gaps, and a guest has to see the same Undefined Instruction
//! exceptions whatever core it lands on. The conditions under which the pages of chapter A8.8 say UNDEFINED (a quadword
//! register with an odd number, an element size that the operation does not have) are part of the tables below.

use super::{bit, bits, require};
use crate::Op;

/// Which of the three vector registers are quadwords; those have even numbers in the encoding.
#[derive(Clone, Copy)]
struct Quad {
    d: bool,
    n: bool,
    m: bool,
}

impl Quad {
    const NONE: Quad = Quad { d: false, n: false, m: false };
    const D: Quad = Quad { d: true, ..Quad::NONE };
    const DN: Quad = Quad { d: true, n: true, m: false };
    const NM: Quad = Quad { d: false, n: true, m: true };
    const M: Quad = Quad { m: true, ..Quad::NONE };
    const DM: Quad = Quad { d: true, n: false, m: true };

    /// These registers where `q` is set, else none.
    const fn when(self, q: bool) -> Quad {
        if q { self } else { Quad::NONE }
    }

    /// Whether no register that has to be even is odd.
    const fn allows(self, word: u32) -> bool {
        !(self.d && bit(word, 12) || self.n && bit(word, 16) || self.m && bit(word, 0))
    }
}

/// Advanced SIMD data processing, allocated or not.
const fn allocated(yes: bool) -> Op {
    if yes { Op::Vfp } else { Op::Undefined }
}

/// A7.4: `U` = bit 24, `A` = bits 23:19, `B` = bits 11:8, `C` = bits 7:4.
pub(super) fn data_processing(word: u32) -> Op {
    if !bit(word, 23) {
        return allocated(three_same(word));
    }
    if bit(word, 4) {
        return if !bit(word, 7) && bits(word, 21, 19) == 0 {
            modified_immediate(word)
        } else {
            allocated(shift(word))
        };
    }
    if bits(word, 21, 20) != 0b11 {
        return allocated(if bit(word, 6) { scalar(word) } else { three_different(word) });
    }
    let q = bit(word, 6);
    match (bit(word, 24), bits(word, 11, 8)) {
        // VEXT
        (false, imm4) => allocated(Quad { n: true, ..Quad::DM }.when(q).allows(word) && (q || imm4 < 8)),
        (true, 0b0000..=0b0111) => allocated(two_misc(word)),
        // VTBL, VTBX: the table lies within the register file
        (true, 0b1000..=0b1011) => {
            let first = bits(word, 7, 7) << 4 | bits(word, 19, 16);
            require(first + bits(word, 9, 8) < 32, Op::Vfp)
        }
        // VDUP (scalar)
        (true, 0b1100) if !bit(word, 7) => allocated(Quad::D.when(q).allows(word) && bits(word, 18, 16) != 0),
        _ => Op::Undefined,
    }
}

/// A7.4.1: three registers of the same length; `A` = bits 11:8, `B` = bit 4, `C` = bits 21:20.
fn three_same(word: u32) -> bool {
    let (u, q, size) = (bit(word, 24), bit(word, 6), bits(word, 21, 20));
    let quad = Quad { n: true, ..Quad::DM }.when(q);
    // Floating point: bit 20 is the size, and only single precision exists; bit 21 is part of the opcode.
    let (single, c1) = (size & 1 == 0, size & 2 != 0);
    let exists = match (bits(word, 11, 8), bit(word, 4)) {
        // VQADD; logical; VQSUB; VSHL, VQSHL, VRSHL, VQRSHL; VADD, VSUB
        (0b0000..=0b0010, true) | (0b0100 | 0b0101, _) | (0b1000, false) => true,
        // VHADD, VRHADD, VHSUB; VCGT, VCGE; VMAX, VMIN; VABD, VABA; VTST, VCEQ; VMLA, VMLS
        (0b0000..=0b0010, false) | (0b0011 | 0b0110 | 0b0111, _) | (0b1000, true) | (0b1001, false) => size != 3,
        (0b1001, true) => {
            if u {
                size == 0
            } else {
                size != 3
            }
        } // VMUL of polynomials, of integers
        (0b1010, _) => size != 3 && !q,                // VPMAX, VPMIN
        (0b1011, false) => matches!(size, 1 | 2),      // VQDMULH, VQRDMULH
        (0b1011, true) => !u && size != 3 && !q,       // VPADD
        (0b1100, true) => !u && single,                // VFMA, VFMS
        (0b1101, false) => single && !(u && !c1 && q), // VADD, VSUB, VABD; VPADD
        (0b1101, true) => single && !(u && c1),        // VMLA, VMLS, VMUL
        (0b1110, false) => single && (u || !c1),       // VCEQ, VCGE, VCGT
        (0b1110, true) => single && u,                 // VACGE, VACGT
        (0b1111, false) => single && !(u && q),        // VMAX, VMIN; VPMAX, VPMIN
        (0b1111, true) => single && !u,                // VRECPS, VRSQRTS
        _ => false,
    };
    exists && quad.allows(word)
}

/// A7.4.2: three registers of different lengths; `A` = bits 11:8, `U` = bit 24. The size is not 0b11 here.
fn three_different(word: u32) -> bool {
    let (u, size) = (bit(word, 24), bits(word, 21, 20));
    match bits(word, 11, 8) {
        // VADDL, VSUBL; VABAL, VABDL; VMLAL, VMLSL; VMULL
        0b0000 | 0b0010 | 0b0101 | 0b0111 | 0b1000 | 0b1010 | 0b1100 => Quad::D.allows(word),
        0b0001 | 0b0011 => Quad::DN.allows(word), // VADDW, VSUBW
        0b0100 | 0b0110 => Quad::NM.allows(word), // VADDHN, VRADDHN, VSUBHN, VRSUBHN
        0b1001 | 0b1011 | 0b1101 => !u && size != 0 && Quad::D.allows(word), // VQDMLAL, VQDMLSL, VQDMULL
        0b1110 => !u && size == 0 && Quad::D.allows(word), // VMULL of polynomials
        _ => false,
    }
}

/// A7.4.3: two registers and a scalar; `A` = bits 11:8. Bit 24 is Q or U. The size is not 0b11 here.
fn scalar(word: u32) -> bool {
    let (bit24, size) = (bit(word, 24), bits(word, 21, 20));
    let same_length = Quad::DN.when(bit24).allows(word);
    match bits(word, 11, 8) {
        // VMLA, VMLS, VMUL; VQDMULH, VQRDMULH
        0b0000 | 0b0100 | 0b1000 | 0b1100 | 0b1101 => size != 0 && same_length,
        0b0001 | 0b0101 | 0b1001 => size == 2 && same_length, // the same of single precision
        0b0010 | 0b0110 | 0b1010 => size != 0 && Quad::D.allows(word), // VMLAL, VMLSL, VMULL
        0b0011 | 0b0111 | 0b1011 => !bit24 && size != 0 && Quad::D.allows(word), // VQDMLAL, VQDMLSL, VQDMULL
        _ => false,
    }
}

/// A7.4.4: two registers and a shift amount; `A` = bits 11:8, `U` = bit 24, `B` = bit 6, `L` = bit 7.
fn shift(word: u32) -> bool {
    let (u, q, l) = (bit(word, 24), bit(word, 6), bit(word, 7));
    let same_length = Quad::DM.when(q).allows(word);
    match bits(word, 11, 8) {
        // VSHR, VSRA, VRSHR, VRSRA; VSHL, VSLI; VQSHL
        0b0000..=0b0011 | 0b0101 | 0b0111 => same_length,
        0b0100 | 0b0110 => u && same_length, // VSRI; VQSHLU
        // VSHRN, VRSHRN, VQSHRUN, VQRSHRUN, VQSHRN, VQRSHRN
        0b1000 | 0b1001 => !l && Quad::M.allows(word),
        0b1010 => !l && !q && Quad::D.allows(word),            // VSHLL, VMOVL
        0b1110 | 0b1111 => !l && bit(word, 21) && same_length, // VCVT to and from fixed point
        _ => false,
    }
}

/// A7.4.5: two registers, miscellaneous; `A` = bits 17:16, `B` = bits 10:6, the size in bits 19:18.
fn two_misc(word: u32) -> bool {
    let (q, size) = (bit(word, 6), bits(word, 19, 18));
    let same_length = Quad::DM.when(q).allows(word);
    match (bits(word, 17, 16), bits(word, 10, 7)) {
        // VREV64, VREV32, VREV16: the container is wider than the element
        (0b00, op @ 0b0000..=0b0010) => op + size < 3 && same_length,
        // VPADDL; VCLS, VCLZ; VPADAL; VQABS, VQNEG
        (0b00, 0b0100 | 0b0101 | 0b1000 | 0b1001 | 0b1100..=0b1111) => size != 3 && same_length,
        (0b00, 0b1010 | 0b1011) => size == 0 && same_length, // VCNT, VMVN
        // VCGT, VCGE, VCEQ, VCLE, VCLT with zero; VABS, VNEG; bit 10 says floating point
        (0b01, op) if !matches!(op & 0b0111, 0b0101) => {
            (if op & 0b1000 != 0 { size == 2 } else { size != 3 }) && same_length
        }
        (0b10, 0b0000) => size == 0 && same_length, // VSWP
        (0b10, 0b0001) => size != 3 && same_length, // VTRN
        // VUZP, VZIP: two doublewords of words are VTRN
        (0b10, 0b0010 | 0b0011) => size != 3 && (q || size != 2) && same_length,
        (0b10, 0b0100 | 0b0101) => size != 3 && Quad::M.allows(word), // VMOVN, VQMOVUN, VQMOVN
        (0b10, 0b0110) => !q && size != 3 && Quad::D.allows(word),    // VSHLL by the element size
        (0b10, 0b1100) => !q && size == 1 && Quad::M.allows(word),    // VCVT to half precision
        (0b10, 0b1110) => !q && size == 1 && Quad::D.allows(word),    // VCVT from half precision
        // VRECPE, VRSQRTE; VCVT to and from integer
        (0b11, 0b1000..=0b1111) => size == 2 && same_length,
        _ => false,
    }
}

/// A7.4.6: one register and a modified immediate; `op` = bit 5, `cmode` = bits 11:8.
fn modified_immediate(word: u32) -> Op {
    let (op, cmode) = (bit(word, 5), bits(word, 11, 8));
    if op && cmode == 15 || !Quad::D.when(bit(word, 6)).allows(word) {
        return Op::Undefined;
    }
    // A7.4.6: the encodings that shift the byte, or shift ones in, are UNPREDICTABLE with a byte of zero.
    let shifted = matches!(cmode >> 1, 0b001 | 0b010 | 0b011 | 0b101 | 0b110);
    let imm8 = bits(word, 24, 24) << 7 | bits(word, 18, 16) << 4 | bits(word, 3, 0);
    require(!shifted || imm8 != 0, Op::Vfp)
}
