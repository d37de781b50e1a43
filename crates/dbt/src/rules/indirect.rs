//! Indirect branches: through the return mirror where the code has one, else the target goes to the vCPU page and a
//! trap looks it up.
//!
//! Returns (`BX LR`, `MOV PC, LR`, `LDM {…, PC}`, `LDR PC, [SP], #4`) are ten times as frequent as all other indirect
//! branches together. Through the mirror ([`crate::return_mirror`]) they are: store LR, get the target, add to the PC;
//! then the branch in the mirror, and the landing. The trap handler answers a hit in the jump cache without leaving
//! assembly.

use super::{Flow, bit, data, emulate, restore, scratch, spill};
use crate::at::At;
use crate::block::Undo;
use crate::emit::Emitter;
use crate::layout::Window;
use crate::options::Options;
use crate::papers::shadow_stack;
use crate::papers::spill::Place;
use crate::return_mirror::{self, LINK_SLOT};
use spica_isa::{Cond, Decoded, DpOp, Mem, MemMultiple, Offset, Op, Operand2, Reg, ShiftType, asm, encode};
use spica_vcpu::field;

/// LR = the address behind a call at `pc`, always. Where returns do not go through the mirror, they may be expected.
pub fn set_link(e: &mut Emitter<'_>, options: &Options, at: At) {
    let behind = at.behind();
    if window(e, options, at).is_some() || !shadow_stack::call(e, options, behind) {
        e.load_constant(Cond::Al, Reg::LR, behind.0);
    }
}

/// The end of every sequence: the target is in place, look it up.
fn leave(e: &mut Emitter<'_>, skip: Option<usize>) -> Flow {
    e.emit(asm::svc(Cond::Al, crate::trap::INDIRECT));
    left(e, skip)
}

/// The same where the target is in `rs`, which is spilled.
pub(super) fn leave_spilled(e: &mut Emitter<'_>, rs: Reg, skip: Option<usize>) -> Flow {
    e.page_field(false, Cond::Al, rs, field::TARGET);
    restore(e, Cond::Al, rs);
    leave(e, skip)
}

/// Behind a sequence that leaves where its condition holds.
pub(crate) fn left(e: &mut Emitter<'_>, skip: Option<usize>) -> Flow {
    e.end_skip(skip);
    if skip.is_none() { Flow::Ends } else { Flow::Continues }
}

/// The start of every block that has a place in the return mirror: gets LR back. Other entries begin behind it.
pub fn landing(e: &mut Emitter<'_>) {
    e.set_undo(Undo::spilled(Reg::LR, Place::Slot(LINK_SLOT)));
    e.page_field(true, Cond::Al, Reg::LR, field::spill(LINK_SLOT));
    e.set_undo(Undo::NONE);
}

/// The mirror for an indirect branch at `pc`.
pub(super) fn window(e: &Emitter<'_>, options: &Options, at: At) -> Option<Window> {
    e.mirror_for(at.entry()).filter(|_| options.return_mirror)
}

/// Puts the guest's LR away for the landing.
pub(crate) fn put_link_away(e: &mut Emitter<'_>, cond: Cond) {
    e.page_field(false, cond, Reg::LR, field::spill(LINK_SLOT));
    e.set_undo(Undo::spilled(Reg::LR, Place::Slot(LINK_SLOT)));
}

/// The branch through the mirror to the address in `target`.
pub(super) fn reflect(e: &mut Emitter<'_>, cond: Cond, target: Reg, window: Window) -> Flow {
    return_mirror::branch(e, cond, target, window);
    if cond == Cond::Al { Flow::Ends } else { Flow::Continues }
}

/// `BX` and `BLX` to a register.
pub fn exchange(e: &mut Emitter<'_>, options: &Options, d: &Decoded, link: bool, rm: Reg, at: At) -> Flow {
    if rm.is_pc() || !options.indirect {
        return emulate(e, d, true);
    }
    if let Some(window) = window(e, options, at)
        && !(link && rm == Reg::LR)
    {
        if link {
            e.load_constant(d.cond, Reg::LR, at.behind().0);
        }
        put_link_away(e, d.cond);
        return reflect(e, d.cond, rm, window);
    }
    if rm == Reg::LR
        && !link
        && let Some(flow) = shadow_stack::return_by(e, options, d.cond, None)
    {
        return flow;
    }
    let skip = e.begin_skip(d.cond);
    e.page_field(false, Cond::Al, rm, field::TARGET);
    if link {
        set_link(e, options, at);
    }
    leave(e, skip)
}

/// Data processing into the PC without `S`.
pub fn alu(e: &mut Emitter<'_>, options: &Options, d: &Decoded, at: At) -> Flow {
    let Op::DataProcessing { op, rn, op2, .. } = d.op else { return emulate(e, d, true) };
    if !options.indirect {
        return emulate(e, d, true);
    }
    if let (DpOp::Mov, Operand2::Shifted { rm, shift: ShiftType::Lsl, amount: 0 }) = (op, op2)
        && !rm.is_pc()
    {
        return exchange(e, options, d, false, rm, at);
    }
    let mut used = if op.has_rn() { bit(rn) } else { 0 };
    match op2 {
        Operand2::Imm(_) => {}
        Operand2::Shifted { rm, .. } => used |= bit(rm),
        Operand2::ShiftedByReg { rm, rs, .. } => used |= bit(rm) | bit(rs),
    }
    if let Some(window) = window(e, options, at)
        && used & bit(Reg::LR) == 0
    {
        put_link_away(e, d.cond);
        if used & bit(Reg::PC) != 0 {
            e.load_constant(d.cond, Reg::LR, at.pc().0);
        }
        let Op::DataProcessing { op, s, rn, op2, .. } = data::substitute(d, Reg::LR).op else {
            return emulate(e, d, true);
        };
        e.emit(encode(&Decoded { op: Op::DataProcessing { op, s, rd: Reg::LR, rn, op2 }, ..*d }));
        return reflect(e, d.cond, Reg::LR, window);
    }
    let rs = scratch(used);
    let skip = e.begin_skip(d.cond);
    spill(e, Cond::Al, rs);
    if used & bit(Reg::PC) != 0 {
        e.load_constant(Cond::Al, rs, at.pc().0);
    }
    let Op::DataProcessing { op, s, rn, op2, .. } = data::substitute(d, rs).op else { return emulate(e, d, true) };
    e.emit(encode(&Decoded { cond: Cond::Al, op: Op::DataProcessing { op, s, rd: rs, rn, op2 }, ..*d }));
    leave_spilled(e, rs, skip)
}

/// The same in Thumb state, where it does not change the state (A2.3.2).
pub fn alu_in_state(e: &mut Emitter<'_>, options: &Options, d: &Decoded, at: At) -> Flow {
    let Op::DataProcessing { op, rn, op2, .. } = d.op else { return emulate(e, d, true) };
    let Operand2::Shifted { rm, .. } = op2 else { return emulate(e, d, true) };
    if !options.indirect {
        return emulate(e, d, true);
    }
    let used = bit(rm) | if op.has_rn() { bit(rn) } else { 0 };
    let result = |e: &mut Emitter<'_>, cond: Cond, rd: Reg| {
        if used & bit(Reg::PC) != 0 {
            e.load_constant(cond, rd, at.pc().0);
        }
        let Op::DataProcessing { op, s, rn, op2, .. } = data::substitute(d, rd).op else { return };
        e.emit(encode(&Decoded { cond, op: Op::DataProcessing { op, s, rd, rn, op2 }, ..*d }));
        e.emit(asm::orr_imm(cond, rd, rd, asm::imm(1)));
    };
    if let Some(window) = window(e, options, at)
        && used & (bit(Reg::LR) | bit(Reg::PC)) != bit(Reg::LR) | bit(Reg::PC)
    {
        put_link_away(e, d.cond);
        result(e, d.cond, Reg::LR);
        return reflect(e, d.cond, Reg::LR, window);
    }
    let rs = scratch(used);
    let skip = e.begin_skip(d.cond);
    spill(e, Cond::Al, rs);
    result(e, Cond::Al, rs);
    leave_spilled(e, rs, skip)
}

/// `LDR PC, …`.
pub fn load(e: &mut Emitter<'_>, options: &Options, d: &Decoded, mem: Mem, at: At) -> Flow {
    if !options.indirect {
        return emulate(e, d, true);
    }
    let mut used = bit(mem.rn);
    if let Offset::Reg { rm, .. } = mem.offset {
        used |= bit(rm);
    }
    if let Some(window) = window(e, options, at)
        && used & bit(Reg::LR) == 0
    {
        put_link_away(e, d.cond);
        let mut mem = Mem { rt: Reg::LR, ..mem };
        if mem.rn.is_pc() {
            e.load_constant(d.cond, Reg::LR, at.base().0);
            mem.rn = Reg::LR;
        }
        e.emit(encode(&Decoded { op: Op::Mem(mem), ..*d }));
        return reflect(e, d.cond, Reg::LR, window);
    }
    let whole = Op::Mem(Mem { rt: Reg::LR, ..mem });
    if mem.rn == Reg::SP
        && used & bit(Reg::LR) == 0
        && let Some(flow) = shadow_stack::return_by(e, options, d.cond, Some(whole))
    {
        return flow;
    }
    let rs = scratch(used);
    let skip = e.begin_skip(d.cond);
    spill(e, Cond::Al, rs);
    let mut mem = Mem { rt: rs, ..mem };
    if mem.rn.is_pc() {
        e.load_constant(Cond::Al, rs, at.base().0);
        mem.rn = rs;
    }
    e.emit(encode(&Decoded { cond: Cond::Al, op: Op::Mem(mem), ..*d }));
    leave_spilled(e, rs, skip)
}

/// `LDM {…, PC}`: a register above all others of the list, LR as a rule, takes the PC's place.
pub fn load_multiple(e: &mut Emitter<'_>, options: &Options, d: &Decoded, mem: MemMultiple, at: At) -> Flow {
    let regs = mem.regs & 0x7fff;
    if let Some(window) = window(e, options, at)
        && u32::from(regs) & bit(Reg::LR) == 0
        && mem.rn != Reg::LR
        && !mem.rn.is_pc()
    {
        put_link_away(e, d.cond);
        let mem = MemMultiple { regs: regs | 1 << Reg::LR.n(), ..mem };
        e.emit(encode(&Decoded { op: Op::MemMultiple(mem), ..*d }));
        return reflect(e, d.cond, Reg::LR, window);
    }
    let whole = Op::MemMultiple(MemMultiple { regs: regs | 1 << Reg::LR.n(), ..mem });
    if mem.rn == Reg::SP
        && u32::from(regs) & bit(Reg::LR) == 0
        && let Some(flow) = shadow_stack::return_by(e, options, d.cond, Some(whole))
    {
        return flow;
    }
    let free = (0..15).rev().map(Reg::new).find(|r| u32::from(regs) >> r.n() == 0 && *r != mem.rn);
    let Some(rs) = free.filter(|_| options.indirect && !mem.rn.is_pc()) else {
        return emulate(e, d, true);
    };
    let skip = e.begin_skip(d.cond);
    spill(e, Cond::Al, rs);
    let mem = MemMultiple { regs: regs | 1 << rs.n(), ..mem };
    e.emit(encode(&Decoded { cond: Cond::Al, op: Op::MemMultiple(mem), ..*d }));
    leave_spilled(e, rs, skip)
}
