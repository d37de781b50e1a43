//! Data processing with the PC as a source operand (STAR §3.6, Table 2).

use super::{Flow, bit, copy, restore, scratch, spill};
use crate::at::At;
use crate::emit::Emitter;
use spica_isa::{Cond, Decoded, DpOp, Op, Operand2, Reg, encode};

/// An instruction whose result is not the PC.
pub fn translate(e: &mut Emitter<'_>, d: &Decoded, at: At) -> Flow {
    let Op::DataProcessing { op, s, rd, rn, op2 } = d.op else { return copy(e, d) };
    let mut used = if op.is_test() { 0 } else { bit(rd) };
    let mut sources = if op.has_rn() { bit(rn) } else { 0 };
    match op2 {
        Operand2::Imm(_) => {}
        Operand2::Shifted { rm, .. } => sources |= bit(rm),
        Operand2::ShiftedByReg { rm, rs, .. } => sources |= bit(rm) | bit(rs),
    }
    if sources & bit(Reg::PC) == 0 {
        return copy(e, d);
    }
    let value = at.pc().0;
    // The common forms are constants: ADR (ADD and SUB of an immediate) and MOV Rd, PC.
    if !s && !op.is_test() {
        let constant = match (op, op2) {
            (DpOp::Add, Operand2::Imm(imm)) => Some(at.base().0.wrapping_add(imm.value())),
            (DpOp::Sub, Operand2::Imm(imm)) => Some(at.base().0.wrapping_sub(imm.value())),
            (DpOp::Mov, Operand2::Shifted { shift: spica_isa::ShiftType::Lsl, amount: 0, .. }) => Some(value),
            _ => None,
        };
        if let Some(constant) = constant {
            e.load_constant(d.cond, rd, constant);
            return Flow::Continues;
        }
    }
    used |= sources;
    if !op.is_test() && sources & bit(rd) == 0 {
        // Rd is overwritten anyway: it stands in for the PC. No fault can happen in between.
        e.load_constant(d.cond, rd, value);
        e.emit(encode(&substitute(d, rd)));
        return Flow::Continues;
    }
    let rs = scratch(used);
    // Where flags change, the restore cannot carry the same condition: skip as a whole (Table 2, example 4).
    let (skip, cond) = if s { (e.begin_skip(d.cond), Cond::Al) } else { (None, d.cond) };
    spill(e, cond, rs);
    e.load_constant(cond, rs, value);
    e.emit(encode(&Decoded { cond, ..substitute(d, rs) }));
    restore(e, cond, rs);
    e.end_skip(skip);
    Flow::Continues
}

/// The instruction with `by` in place of the PC as a source.
pub fn substitute(d: &Decoded, by: Reg) -> Decoded {
    let Op::DataProcessing { op, s, rd, rn, op2 } = d.op else { return *d };
    let swap = |r: Reg| if r.is_pc() { by } else { r };
    let op2 = match op2 {
        Operand2::Imm(_) => op2,
        Operand2::Shifted { rm, shift, amount } => Operand2::Shifted { rm: swap(rm), shift, amount },
        Operand2::ShiftedByReg { rm, shift, rs } => Operand2::ShiftedByReg { rm: swap(rm), shift, rs: swap(rs) },
    };
    let rn = if op.has_rn() { swap(rn) } else { rn };
    Decoded { op: Op::DataProcessing { op, s, rd, rn, op2 }, ..*d }
}
