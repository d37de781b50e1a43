//! A32.

use spica_isa::{Cond, DpOp, Mem, MemSize, Offset, Op, Operand2, Reg, ShiftType};

use super::{FLAGS, Flow, Instruction, System, Unit, coprocessor};

/// The bit of PC in a list of registers.
const PC_LISTED: u16 = 0x8000;

const fn bit(reg: Reg) -> u32 {
    1 << reg.n()
}

pub fn decode(address: u32, word: u32) -> Instruction {
    let decoded = spica_isa::decode(word);
    let conditional = decoded.cond != Cond::Al;
    let mut i = Instruction::plain(address, 4);
    if conditional {
        i.reads |= FLAGS;
    }
    let indirect = Flow::Indirect { conditional, call: false };
    let back = Flow::Return { conditional };
    match decoded.op {
        Op::DataProcessing { op, s, rd, rn, op2 } => {
            i.reads |= bit(rn);
            match op2 {
                Operand2::Imm(_) => {}
                Operand2::Shifted { rm, shift, amount } => {
                    i.reads |= bit(rm);
                    if (shift, amount) != (ShiftType::Lsl, 0) {
                        i.early |= bit(rm);
                    }
                }
                Operand2::ShiftedByReg { rm, rs, .. } => {
                    i.reads |= bit(rm) | bit(rs);
                    i.early |= bit(rm) | bit(rs);
                }
            }
            if op == DpOp::Mov || op == DpOp::Mvn {
                i.reads &= !bit(rn) | op2_reads(op2);
            }
            if s || op.is_test() {
                i.writes |= FLAGS;
            }
            if !op.is_test() {
                i.writes |= bit(rd);
                if rd.is_pc() {
                    let is_lr = matches!(op2, Operand2::Shifted { rm: Reg::LR, shift: ShiftType::Lsl, amount: 0 });
                    i.flow = match (s, op) {
                        (true, _) => Flow::ExceptionReturn,
                        (false, DpOp::Mov) if is_lr => back,
                        _ => indirect,
                    };
                }
            }
        }
        Op::MoveWide { top, rd, .. } => {
            i.writes |= bit(rd);
            if top {
                i.reads |= bit(rd);
            }
        }
        Op::Mem(m) => memory(&mut i, m, indirect, back),
        Op::MemMultiple(m) => {
            i.transfer(m.regs.count_ones());
            i.reads |= bit(m.rn);
            i.early |= bit(m.rn);
            if m.load {
                i.writes |= u32::from(m.regs);
                i.latency = 1;
                if m.regs & PC_LISTED != 0 {
                    i.flow = match (m.user, m.rn) {
                        (true, _) => Flow::ExceptionReturn,
                        (false, Reg::SP) => back,
                        _ => indirect,
                    };
                }
            } else {
                i.reads |= u32::from(m.regs);
                i.late |= u32::from(m.regs) & !i.early;
            }
            if m.writeback {
                i.write_back(bit(m.rn));
            }
        }
        Op::Preload { rn, .. } => {
            i.transfer(1);
            i.reads |= bit(rn);
            i.early |= bit(rn);
        }
        Op::Exclusive => {
            i.transfer(1);
            let (rn, rd) = (1 << (word >> 16 & 15), 1 << (word >> 12 & 15));
            i.reads |= rn;
            i.early |= rn;
            i.writes |= rd;
            i.latency = 1;
        }
        Op::Branch { link, .. } => {
            i.unit = Unit::Branch;
            i.flow = Flow::Direct { conditional, call: link };
            if link {
                i.writes |= bit(Reg::LR);
            }
        }
        Op::BranchLinkExchangeImm { .. } => {
            i.unit = Unit::Branch;
            i.flow = Flow::Direct { conditional: false, call: true };
            i.writes |= bit(Reg::LR);
        }
        Op::BranchExchange { link, rm } => {
            i.unit = Unit::Branch;
            i.reads |= bit(rm);
            i.flow = match (link, rm) {
                (false, Reg::LR) => back,
                _ => Flow::Indirect { conditional, call: link },
            };
            if link {
                i.writes |= bit(Reg::LR);
            }
        }
        Op::BranchJazelle { rm } => {
            i.unit = Unit::Branch;
            i.reads |= bit(rm);
            i.flow = indirect;
        }
        Op::MsrReg { spsr, mask, rn } => {
            i.reads |= bit(rn);
            status(&mut i, spsr, mask);
        }
        Op::MsrImm { spsr, mask, .. } => status(&mut i, spsr, mask),
        Op::Mrs { rd, .. } => {
            i.reads |= FLAGS;
            i.writes |= bit(rd);
        }
        Op::ChangeState { .. } => system(&mut i, System::ModeChange),
        Op::StoreReturnState { .. } => i.transfer(2),
        Op::ReturnFromException { rn, .. } => {
            i.transfer(2);
            i.reads |= bit(rn);
            i.flow = Flow::ExceptionReturn;
        }
        Op::DataSyncBarrier { .. } => system(&mut i, System::Dsb),
        Op::DataMemBarrier { .. } => system(&mut i, System::Dmb),
        Op::InstrSyncBarrier { .. } => system(&mut i, System::Isb),
        Op::CoprocMove { load, reg, rt } => {
            coprocessor(&mut i, load, (reg.coproc, reg.opc1, reg.crn, reg.crm, reg.opc2), rt.n() as u8);
        }
        Op::CoprocMove2 { load, .. } => system(&mut i, if load { System::Read } else { System::Write }),
        Op::Vfp => i.unit = Unit::Float,
        Op::VfpSystem { .. } => {
            i.unit = Unit::Float;
            i.cycles = 2;
        }
        Op::VfpMem { rn, .. } => {
            // The number of words is in the lower byte, for one register it is not.
            let multiple = word & 0x0120_0000 != 0x0100_0000;
            i.transfer(if multiple { (word & 0xff).min(32) } else { 2 });
            i.reads |= bit(rn);
            i.early |= bit(rn);
        }
        Op::Plain => plain(&mut i, word),
        _ => {}
    }
    i
}

const fn op2_reads(op2: Operand2) -> u32 {
    match op2 {
        Operand2::Imm(_) => 0,
        Operand2::Shifted { rm, .. } => bit(rm),
        Operand2::ShiftedByReg { rm, rs, .. } => bit(rm) | bit(rs),
    }
}

fn memory(i: &mut Instruction, m: Mem, indirect: Flow, back: Flow) {
    i.transfer(if m.size == MemSize::Dual { 2 } else { 1 });
    i.reads |= bit(m.rn);
    i.early |= bit(m.rn);
    if let Offset::Reg { rm, .. } = m.offset {
        i.reads |= bit(rm);
        i.early |= bit(rm);
    }
    let both = if m.size == MemSize::Dual { bit(m.rt) << 1 & 0xffff } else { 0 };
    if m.load {
        i.writes |= bit(m.rt) | both;
        i.latency = 1;
        if m.rt.is_pc() {
            i.flow = if m.rn == Reg::SP && !m.pre { back } else { indirect };
        }
    } else {
        i.reads |= bit(m.rt) | both;
        i.late |= (bit(m.rt) | both) & !i.early;
    }
    if m.writeback {
        i.write_back(bit(m.rn));
    }
}

fn system(i: &mut Instruction, system: System) {
    i.unit = Unit::System;
    i.system = Some(system);
}

fn status(i: &mut Instruction, spsr: bool, mask: u8) {
    if !spsr && mask & 8 != 0 {
        i.writes |= FLAGS;
    }
    if !spsr && mask & 1 != 0 {
        system(i, System::ModeChange);
    }
}

/// Multiplies and the rest, by the fields that they have in common.
fn plain(i: &mut Instruction, word: u32) {
    let field = |at: u32| 1u32 << (word >> at & 15);
    // A5.2.5 and A5.4.4: multiplies have their destination in bits 19:16.
    let multiply = word & 0x0f00_00f0 == 0x0000_0090 || word & 0x0f80_0010 == 0x0700_0010 || halfword_multiply(word);
    if multiply {
        i.unit = Unit::Multiply;
        i.reads |= field(0) | field(8);
        i.writes |= field(16);
        // Accumulation, and the lower half of a long result.
        if word & 0x0020_0000 != 0 {
            i.reads |= field(12);
        }
        if word & 0x0f80_00f0 == 0x0080_0090 {
            i.writes |= field(12);
            i.cycles = 3;
        } else {
            i.cycles = if halfword_multiply(word) { 1 } else { 2 };
        }
        // The result is there in stage 5 instead of 2 (Cortex-A8 TRM §16.2.2).
        i.latency = 3;
    } else {
        i.reads |= field(0) | field(16);
        i.early |= field(0);
        i.writes |= field(12);
    }
}

const fn halfword_multiply(word: u32) -> bool {
    word & 0x0f90_0090 == 0x0100_0080
}
