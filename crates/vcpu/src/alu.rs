//! Data-processing results (A8.4.3, A2.2.1), for the instructions whose result is a branch target.

use spica_isa::{DpOp, Operand2, Reg, ShiftType};

/// The value of a shifted operand; `carry` is CPSR.C. The shifter's carry-out is not needed here: a flag-setting
/// instruction that writes the PC takes its flags from the SPSR.
fn shift(value: u32, kind: ShiftType, amount: u32, immediate: bool, carry: bool) -> u32 {
    match (kind, amount) {
        (ShiftType::Ror, 0) if immediate => u32::from(carry) << 31 | value >> 1,
        (ShiftType::Lsr, 0) if immediate => 0,
        (ShiftType::Asr, 0) if immediate => (value as i32 >> 31) as u32,
        (_, 0) => value,
        (ShiftType::Lsl, n) => value.checked_shl(n).unwrap_or(0),
        (ShiftType::Lsr, n) => value.checked_shr(n).unwrap_or(0),
        (ShiftType::Asr, n) => (value as i32 >> n.min(31)) as u32,
        (ShiftType::Ror, n) => value.rotate_right(n & 31),
    }
}

/// The second operand, with registers read by `reg`.
pub fn operand2(op2: Operand2, carry: bool, reg: &impl Fn(Reg) -> u32) -> u32 {
    match op2 {
        Operand2::Imm(imm) => imm.value(),
        Operand2::Shifted { rm, shift: kind, amount } => shift(reg(rm), kind, u32::from(amount), true, carry),
        Operand2::ShiftedByReg { rm, shift: kind, rs } => shift(reg(rm), kind, reg(rs) & 0xff, false, carry),
    }
}

/// The result of `op` on `a` and `b` with the carry flag.
#[must_use]
pub fn result(op: DpOp, a: u32, b: u32, carry: bool) -> u32 {
    let c = u32::from(carry);
    match op {
        DpOp::And | DpOp::Tst => a & b,
        DpOp::Eor | DpOp::Teq => a ^ b,
        DpOp::Sub | DpOp::Cmp => a.wrapping_sub(b),
        DpOp::Rsb => b.wrapping_sub(a),
        DpOp::Add | DpOp::Cmn => a.wrapping_add(b),
        DpOp::Adc => a.wrapping_add(b).wrapping_add(c),
        DpOp::Sbc => a.wrapping_sub(b).wrapping_sub(1 - c),
        DpOp::Rsc => b.wrapping_sub(a).wrapping_sub(1 - c),
        DpOp::Orr => a | b,
        DpOp::Mov => b,
        DpOp::Bic => a & !b,
        DpOp::Mvn => !b,
    }
}
