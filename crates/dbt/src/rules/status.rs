//! The CPSR: reading it, and changing the interrupt mask, in the vCPU page (STAR §5.2).
//!
//! Flags, GE and E of the real CPSR are the guest's own; A, I, F and the mode are in [`field::CONTROL`]. No flag is
//! touched: what has to be tested is made 0 or ±1, and that many words are added to the PC, over or onto a branch to
//! the slow path, which interprets the instruction. Unmasking stores the mask *first* and looks for an interrupt that
//! waits afterwards.

use super::{Flow, bit, restore, scratch, spill};
use crate::at::At;
use crate::emit::Emitter;
use spica_isa::t32::{self, ItState};
use spica_isa::{Cond, Decoded, DpOp, Mem, MemSize, Offset, Op, Operand2, Reg, asm};
use spica_vcpu::psr::{self, Mode};
use spica_vcpu::{Bank, field};

/// What System mode's number is above Supervisor mode's (table B1-1); no two other modes are so far apart.
const SYSTEM_ABOVE: u32 = Mode::Sys as u32 - Mode::Svc as u32;
const _: () = assert!(SYSTEM_ABOVE == Mode::Sys as u32 ^ Mode::Svc as u32);

/// `MRS rd, CPSR`. Bits 9:0 are not defined in User mode (B9.3.8), and E is 0 in translated code.
pub fn read(e: &mut Emitter<'_>, d: &Decoded, rd: Reg) -> Flow {
    let rs = scratch(bit(rd));
    spill(e, d.cond, rs);
    e.emit(asm::mrs(d.cond, rd));
    e.page_field(true, d.cond, rs, field::CONTROL);
    e.emit(asm::bfi(d.cond, rd, rs, 0, 10));
    restore(e, d.cond, rs);
    Flow::Continues
}

/// `CPSID i` and `CPSIE i`.
pub fn mask_irq(e: &mut Emitter<'_>, d: &Decoded, mask: bool) -> Flow {
    let rs = scratch(0);
    let i = asm::imm(psr::I);
    spill(e, Cond::Al, rs);
    e.page_field(true, Cond::Al, rs, field::CONTROL);
    e.emit(if mask { asm::orr_imm(Cond::Al, rs, rs, i) } else { asm::bic_imm(Cond::Al, rs, rs, i) });
    e.page_field(false, Cond::Al, rs, field::CONTROL);
    if mask {
        restore(e, Cond::Al, rs);
    } else {
        let slow = e.begin_slow(rs, d.word);
        leave_if_pending(e, rs, &slow);
        restore(e, Cond::Al, rs);
        e.end_slow(slow);
    }
    Flow::Continues
}

/// `MSR CPSR_c, rn`: inline where nothing but I changes.
pub fn write(e: &mut Emitter<'_>, d: &Decoded, rn: Reg) -> Flow {
    let rs = scratch(bit(rn));
    let skip = e.begin_skip(d.cond);
    spill(e, Cond::Al, rs);
    let slow = e.begin_slow(rs, d.word);
    e.page_field(true, Cond::Al, rs, field::CONTROL);
    e.emit(asm::eor_reg(Cond::Al, rs, rs, rn));
    // The low seven bits are to be the same.
    leave_unless_zero(e, rs, 25, &slow);
    e.store_page_byte(Cond::Al, rn, field::CONTROL);
    leave_if_pending(e, rs, &slow);
    restore(e, Cond::Al, rs);
    e.end_slow(slow);
    e.end_skip(skip);
    Flow::Continues
}

/// What the last instructions of the block look like they do: change from Supervisor to System mode, or back.
///
/// There is no `LDM` or `STM` of User-mode registers in T32. So Linux reads the CPSR, changes the mode in it by `EOR`,
/// and writes it; it stores or loads SP and LR; it does `EOR` once more, and writes the CPSR again.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum ModeChange {
    /// Nothing of that.
    #[default]
    None,
    /// This register has the CPSR.
    Read(Reg),
    /// It has that with the other mode: System, or else Supervisor.
    Toggled(Reg, bool),
}

impl ModeChange {
    /// The same behind the instruction `d`.
    pub fn behind(self, d: &Decoded) -> ModeChange {
        match d.op {
            _ if d.cond != Cond::Al => ModeChange::None,
            Op::Mrs { spsr: false, rd } => ModeChange::Read(rd),
            Op::DataProcessing { op: DpOp::Eor, s: false, rd, rn, op2: Operand2::Imm(imm) }
                if rd == rn && imm.value() == SYSTEM_ABOVE =>
            {
                ModeChange::Toggled(rd, self == ModeChange::Read(rd))
            }
            _ => ModeChange::None,
        }
    }
}

/// `MSR CPSR_c, rn` that is likely to lead to System mode from Supervisor mode, or back, and to change nothing else;
/// whatever else it does takes the slow path. SP and LR change places with those of the other mode.
///
/// System mode has no SPSR (B1.3.2), so [`field::SPSR`] keeps that of Supervisor mode. To an invalid mode, the
/// instruction is UNPREDICTABLE (B9.3.12): some of those pass for one of the two, and it is done as if they were. A
/// guest that wants [`field::CONTROL`] to have such a mode can write it there.
pub fn change_mode(e: &mut Emitter<'_>, d: &Decoded, rn: Reg, to_system: bool) -> Flow {
    let al = Cond::Al;
    let rs = scratch(bit(rn));
    let skip = e.begin_skip(d.cond);
    spill(e, al, rs);
    let slow = e.begin_slow(rs, d.word);
    e.page_field(true, al, rs, field::CONTROL);
    // Of the difference, one byte counts. Flags of `rn`, and CPSR.A, are above it.
    e.emit(if to_system { asm::sub_reg(al, rs, rn, rs) } else { asm::sub_reg(al, rs, rs, rn) });
    e.emit(asm::eor_imm(al, rs, rs, asm::imm(SYSTEM_ABOVE)));
    leave_unless_zero(e, rs, 24, &slow);
    e.store_page_byte(al, rn, field::CONTROL);
    let (from, to) = if to_system { (Bank::Svc, Bank::Usr) } else { (Bank::Usr, Bank::Svc) };
    e.page_field(false, al, Reg::SP, field::bank_sp(from));
    e.page_field(false, al, Reg::LR, field::bank_lr(from));
    let (source, place) =
        if to_system { (field::SPSR, field::bank_spsr(from)) } else { (field::bank_spsr(to), field::SPSR) };
    e.page_field(true, al, Reg::LR, source);
    e.page_field(false, al, Reg::LR, place);
    e.page_field(true, al, Reg::SP, field::bank_sp(to));
    e.page_field(true, al, Reg::LR, field::bank_lr(to));
    restore(e, al, rs);
    e.end_slow(slow);
    e.end_skip(skip);
    Flow::Continues
}

/// SP or LR, loaded or stored in System mode.
struct UserAccess {
    load: bool,
    link: bool,
    rn: Reg,
    offset: i32,
}

/// What an instruction has to be for [`through_system_mode`], where `rt` has the CPSR.
fn user_access(first: u16, second: u16, rt: Reg) -> Option<UserAccess> {
    let decoded = t32::decode(t32::Code::new(first, second), ItState::OUTSIDE);
    match decoded.op {
        t32::Op::A32(Decoded { op: Op::Mem(mem), .. }) => match mem {
            Mem { load, size: MemSize::Word, rt: Reg::SP | Reg::LR, rn, pre: true, writeback: false, .. }
                if !mem.unprivileged && rn.n() < 13 && rn != rt =>
            {
                let Offset::Imm(imm) = mem.offset else { return None };
                let offset = if mem.add { i32::from(imm) } else { -i32::from(imm) };
                Some(UserAccess { load, link: mem.rt == Reg::LR, rn, offset })
            }
            _ => None,
        },
        _ => None,
    }
}

/// The whole of what [`ModeChange`] is about, from the first `MSR CPSR_c, rt` to the second: two transfers of
/// User-mode registers, from Supervisor mode, by way of the vCPU page. `None` if it is something else that follows, or
/// if that may not belong to the block.
///
/// The mode does not change. Neither does anything else before the end, but for SP and LR in the vCPU page if they are
/// loaded: so if an access faults, the first `MSR` is interpreted, the guest goes on in System mode behind it, and the
/// fault comes again.
pub fn through_system_mode(e: &mut Emitter<'_>, d: &Decoded, rt: Reg, at: At) -> Option<Flow> {
    const INSTRUCTIONS: usize = 4;
    let al = Cond::Al;
    let n = rt.n() as u16;
    let [a, b, c, d2, toggle @ ..] = e.next_halves::<8>()?;
    let accesses = [user_access(a, b, rt)?, user_access(c, d2, rt)?];
    // Not one that has another value there.
    if rt.n() > 12 || e.it().in_block() || accesses[0].load != accesses[1].load {
        return None;
    }
    let back = [0xf080 | n, SYSTEM_ABOVE as u16 | n << 8, 0xf380 | n, 0x8100];
    if toggle != back || !e.take_next(INSTRUCTIONS, 4 * INSTRUCTIONS as u32) {
        return None;
    }
    let rs = scratch(bit(rt) | bit(accesses[0].rn) | bit(accesses[1].rn));
    spill(e, al, rs);
    let slow = e.begin_slow_alone(rs, d.word, at.behind());
    e.page_field(true, al, rs, field::CONTROL);
    e.emit(asm::sub_reg(al, rs, rt, rs));
    e.emit(asm::eor_imm(al, rs, rs, asm::imm(SYSTEM_ABOVE)));
    leave_unless_zero(e, rs, 24, &slow);
    for UserAccess { load, link, rn, offset } in accesses {
        let place = if link { field::bank_lr(Bank::Usr) } else { field::bank_sp(Bank::Usr) };
        if !load {
            e.page_field(true, al, rs, place);
        }
        // The offset is one of A32's.
        if let Some(access) = asm::ldr_str(load, al, rs, rn, offset) {
            e.emit(access);
        }
        if load {
            e.page_field(false, al, rs, place);
        }
    }
    restore(e, al, rs);
    e.emit(asm::eor_imm(al, rt, rt, asm::imm(SYSTEM_ABOVE)));
    Some(Flow::Continues)
}

/// Leaves by the slow path unless `rs`, shifted left by `shift`, is 0. It is lost.
fn leave_unless_zero(e: &mut Emitter<'_>, rs: Reg, shift: u32, slow: &crate::emit::SlowPath) {
    e.emit(asm::lsl_imm(Cond::Al, rs, rs, shift));
    // Only of zero there are 32 leading zeroes.
    e.emit(asm::clz(Cond::Al, rs, rs));
    e.emit(asm::lsr_imm(Cond::Al, rs, rs, 5));
    // 0 adds nothing to an address 8 bytes on, where the way out is; 1 leads over that. The word between is never
    // reached.
    e.emit(asm::add_pc(rs));
    e.emit(asm::NOP);
    e.branch_slow(slow);
}

/// Leaves by the slow path if a virtual interrupt waits: [`field::PENDING`] is −1 then, which leads to the branch; 0
/// leads over it. A guest that writes something else there branches somewhere in its own world. If the interrupt is
/// masked still, the slow path comes back.
fn leave_if_pending(e: &mut Emitter<'_>, rs: Reg, slow: &crate::emit::SlowPath) {
    e.page_field(true, Cond::Al, rs, field::PENDING);
    e.emit(asm::add_pc(rs));
    e.branch_slow(slow);
}
