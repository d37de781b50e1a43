//! Exception returns (B9.3.2, B9.3.19): the target goes to the vCPU page, a trap does the rest.

use super::user_bank::aligned_load;
use super::{Flow, bit, emulate, restore, scratch, spill};
use crate::emit::Emitter;
use crate::options::Options;
use crate::trap;
use spica_isa::{Cond, Decoded, DpOp, MemMultiple, Op, Operand2, Reg, ShiftType, asm, encode};
use spica_vcpu::field;

/// The end of every sequence: the target is in place. `vector`: the kernel goes on behind one of its vectors.
fn leave(e: &mut Emitter<'_>, options: &Options, vector: bool, skip: Option<usize>) -> Flow {
    let trap = match (options.lent_thread_id, vector) {
        (false, _) => trap::EXCEPTION_RETURN,
        (true, false) => trap::LENT_EXCEPTION_RETURN,
        (true, true) => trap::LENT_VECTOR_RETURN,
    };
    e.emit(asm::svc(Cond::Al, trap));
    e.end_skip(skip);
    if skip.is_none() { Flow::Ends } else { Flow::Continues }
}

/// `MOVS PC, LR`, `SUBS PC, LR, #4` and the like.
pub fn alu(e: &mut Emitter<'_>, options: &Options, d: &Decoded) -> Flow {
    let Op::DataProcessing { op, rn, op2, .. } = d.op else { return emulate(e, d, true) };
    let plain = match (op, op2) {
        (DpOp::Mov, Operand2::Shifted { rm, shift: ShiftType::Lsl, amount: 0 }) => !rm.is_pc(),
        (DpOp::Add | DpOp::Sub, Operand2::Imm(_)) => !rn.is_pc(),
        _ => false,
    };
    if !options.exception_return || !plain {
        return emulate(e, d, true);
    }
    let skip = e.begin_skip(d.cond);
    let mut vector = false;
    if let Operand2::Shifted { rm, .. } = op2 {
        e.page_field(false, Cond::Al, rm, field::TARGET);
        vector = rm == Reg::LR && !e.loads_user_bank;
    } else {
        let rs = scratch(bit(rn));
        spill(e, Cond::Al, rs);
        e.emit(encode(&Decoded { cond: Cond::Al, op: Op::DataProcessing { op, s: false, rd: rs, rn, op2 }, ..*d }));
        e.page_field(false, Cond::Al, rs, field::TARGET);
        restore(e, Cond::Al, rs);
    }
    leave(e, options, vector, skip)
}

/// `LDM {…, PC}^`, upwards, as Linux has it. The registers are those of the mode that is left.
pub fn load_multiple(e: &mut Emitter<'_>, options: &Options, d: &Decoded, mem: MemMultiple) -> Flow {
    let regs = u32::from(mem.regs) & 0x7fff;
    let base_in_list = regs & bit(mem.rn) != 0;
    if !options.exception_return || !mem.increment || mem.before || mem.rn.is_pc() || mem.writeback && base_in_list {
        return emulate(e, d, true);
    }
    let skip = e.begin_skip(d.cond);
    let rs = scratch(bit(mem.rn));
    spill(e, Cond::Al, rs);
    let at = 4 * regs.count_ones() as i32;
    aligned_load(e, d, rs, mem.rn, at);
    e.page_field(false, Cond::Al, rs, field::TARGET);
    if regs & bit(rs) == 0 {
        restore(e, Cond::Al, rs);
    }
    if regs != 0 {
        let plain = MemMultiple { user: false, writeback: false, regs: regs as u16, ..mem };
        e.emit(encode(&Decoded { cond: Cond::Al, op: Op::MemMultiple(plain), ..*d }));
    }
    if mem.writeback {
        e.emit(asm::offset(Cond::Al, mem.rn, mem.rn, at + 4));
    }
    leave(e, options, false, skip)
}
