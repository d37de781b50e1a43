//! Data processing that A32 has in part: modified immediate constants, ORN, 12-bit immediates.

use super::row::Special;
use super::{Decoded, ItState, ModImm, Op, OrNotOperand};
use crate::decode::{bit, bits, shift_type};
use crate::{DpOp, Operand2, Reg};

/// The 12 bits `i:imm3:imm8`.
const fn imm12(raw: u32) -> u32 {
    bits(raw, 26, 26) << 11 | bits(raw, 14, 12) << 8 | bits(raw, 7, 0)
}

const fn with_imm12(raw: u32, imm: u32) -> u32 {
    raw | bits(imm, 11, 11) << 26 | bits(imm, 10, 8) << 12 | bits(imm, 7, 0)
}

/// `S`, `Rn` and `Rd`.
const fn with_registers(raw: u32, s: bool, rn: Reg, rd: Reg) -> u32 {
    raw | (s as u32) << 20 | rn.n() << 16 | rd.n() << 8
}

/// The opcodes of A6.3.1 and A6.3.11 with that of A32, and the other one that a PC as destination (with S) or as first
/// operand makes of them. ORN is the one without.
const OPCODES: [(u32, Option<DpOp>, Option<DpOp>); 10] = [
    (0b0000, Some(DpOp::And), Some(DpOp::Tst)),
    (0b0001, Some(DpOp::Bic), None),
    (0b0010, Some(DpOp::Orr), Some(DpOp::Mov)),
    (0b0011, None, Some(DpOp::Mvn)),
    (0b0100, Some(DpOp::Eor), Some(DpOp::Teq)),
    (0b1000, Some(DpOp::Add), Some(DpOp::Cmn)),
    (0b1010, Some(DpOp::Adc), None),
    (0b1011, Some(DpOp::Sbc), None),
    (0b1101, Some(DpOp::Sub), Some(DpOp::Cmp)),
    (0b1110, Some(DpOp::Rsb), None),
];

/// A6.3.1: `11110 i 0 op S Rn 0 imm3 Rd imm8`.
pub(super) const CONSTANT: Special = Special { unpack: constant, pack: pack_constant };

fn constant(raw: u32) -> Op {
    let Some(&(_, usual, other)) = OPCODES.iter().find(|entry| entry.0 == bits(raw, 24, 21)) else {
        return Op::Undefined;
    };
    let Some(imm) = ModImm::from_field(imm12(raw)) else { return Op::Unpredictable };
    let (s, rd, rn) = (bit(raw, 20), Reg::new(raw >> 8), Reg::new(raw >> 16));
    let none = Reg::new(0);
    let (op, rd, rn) = match other {
        Some(test) if test.is_test() && rd.is_pc() && s => (test, none, rn),
        Some(mov) if !mov.has_rn() && rn.is_pc() => (mov, rd, none),
        _ => match usual {
            Some(op) => (op, rd, rn),
            None => return Op::OrNot { s, rd, rn, op2: OrNotOperand::Imm(imm) },
        },
    };
    match crate::ModImm::encode(imm.value()) {
        // The carry is that of A32 as well: a constant that is rotated there is rotated here.
        Some(imm) => Op::of_a32_fields(crate::Op::DataProcessing { op, s, rd, rn, op2: Operand2::Imm(imm) }),
        None => Op::DataProcessing { op, s, rd, rn, imm },
    }
}

fn pack_constant(raw: u32, d: &Decoded) -> Option<u32> {
    let a32_imm = |imm: crate::ModImm| ModImm::encode(imm.value());
    let (op, s, rd, rn, imm) = match d.op {
        Op::A32(crate::Decoded {
            op: crate::Op::DataProcessing { op, s, rd, rn, op2: Operand2::Imm(imm) }, ..
        }) => (Some(op), s, rd, rn, a32_imm(imm)?),
        Op::DataProcessing { op, s, rd, rn, imm } => (Some(op), s, rd, rn, imm),
        Op::OrNot { s, rd, rn, op2: OrNotOperand::Imm(imm) } => (None, s, rd, rn, imm),
        _ => return None,
    };
    let entry = OPCODES.iter().find(|entry| entry.1 == op || op.is_some() && entry.2 == op)?;
    let (rd, rn) = match op {
        Some(op) if op.is_test() => (Reg::PC, rn),
        Some(op) if !op.has_rn() => (rd, Reg::PC),
        _ => (rd, rn),
    };
    Some(with_imm12(with_registers(raw | entry.0 << 21, s, rn, rd), imm.field()))
}

/// The registers that the pages of chapter A8.8 forbid to the instructions of A6.3.1.
pub(super) fn constant_registers(raw: u32, _: ItState) -> bool {
    let (s, d, n) = (bit(raw, 20), bits(raw, 11, 8), bits(raw, 19, 16));
    let general = |r: u32| r != 13 && r != 15;
    // With the PC as destination and S, it is a comparison.
    let tests = d == 15 && s;
    match bits(raw, 24, 21) {
        0b0000 | 0b0100 => general(n) && (general(d) || tests), // AND, TST; EOR, TEQ
        0b0010 | 0b0011 => general(d) && n != 13,               // ORR, MOV; ORN, MVN
        // ADD, CMN; SUB, CMP: SP is a destination where it is the base (A8.8.9, A8.8.225)
        0b1000 | 0b1101 => n != 15 && (general(d) || tests || d == 13 && n == 13),
        _ => general(d) && general(n),
    }
}

/// A8.8.4 and A8.8.221, encodings T4, and A8.8.12: bit 23 tells SUBW from ADDW.
pub(super) const ADD_WIDE: Special = Special {
    unpack: |raw| Op::AddWide {
        subtract: bit(raw, 23),
        rd: Reg::new(raw >> 8),
        rn: Reg::new(raw >> 16),
        imm: imm12(raw) as u16,
    },
    pack: |raw, d| match d.op {
        Op::AddWide { rd, rn, imm, .. } => Some(with_imm12(with_registers(raw, false, rn, rd), u32::from(imm))),
        _ => None,
    },
};

/// A8.8.121: `11101 01 0011 S Rn (0) imm3 Rd imm2 type Rm`.
pub(super) const OR_NOT: Special = Special {
    unpack: |raw| {
        let amount = (bits(raw, 14, 12) << 2 | bits(raw, 7, 6)) as u8;
        let op2 = OrNotOperand::Shifted { rm: Reg::new(raw), shift: shift_type(bits(raw, 5, 4)), amount };
        Op::OrNot { s: bit(raw, 20), rd: Reg::new(raw >> 8), rn: Reg::new(raw >> 16), op2 }
    },
    pack: |raw, d| match d.op {
        Op::OrNot { s, rd, rn, op2: OrNotOperand::Shifted { rm, shift, amount } } => {
            let amount = u32::from(amount);
            let operand = bits(amount, 4, 2) << 12 | bits(amount, 1, 0) << 6 | (shift as u32) << 4 | rm.n();
            Some(with_registers(raw, s, rn, rd) | operand)
        }
        _ => None,
    },
};
