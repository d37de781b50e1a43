//! The encoder: the inverse of [`decode`](crate::decode).
//!
//! An instruction whose operands are all in its [`Op`] is assembled from those alone. That is what the translator uses
//! to substitute registers: change `rn`, or the register list, or the condition, and encode again. An instruction
//! whose `Op` is only a class ([`Op::Plain`], [`Op::Vfp`] …) is its `word`, with the condition and those registers that
//! the `Op` does name put in.

use crate::{Decoded, Mem, MemMultiple, MemSize, Offset, Op, Operand2, Reg, ShiftType};

const fn flag(set: bool, position: u32) -> u32 {
    (set as u32) << position
}

/// `word` with the register field at `lo` replaced.
const fn with_reg(word: u32, lo: u32, reg: Reg) -> u32 {
    word & !(15 << lo) | reg.n() << lo
}

/// Encodes an instruction. For every word, `encode(&decode(word)) == word`.
///
/// Fields that are wider in Rust than in the instruction (a branch offset, an immediate, a mode) are cut to size; a
/// caller that changes one has to stay in range. Instructions of the unconditional space get 0b1111 in bits 31:28.
#[must_use]
pub fn encode(d: &Decoded) -> u32 {
    let cond = if d.uncond { 0xf000_0000 } else { (d.cond as u32) << 28 };
    // The class-only instructions: what the word says, under the condition that the fields say.
    let word = cond | d.word & 0x0fff_ffff;
    match d.op {
        Op::DataProcessing { op, s, rd, rn, op2 } => {
            cond | (op as u32) << 21 | flag(s, 20) | rn.n() << 16 | rd.n() << 12 | operand2(op2)
        }
        Op::MoveWide { top, rd, imm } => {
            let imm = u32::from(imm);
            cond | 0x0300_0000 | flag(top, 22) | (imm >> 12) << 16 | rd.n() << 12 | imm & 0xfff
        }
        Op::Mem(mem) => cond | load_store(&mem),
        Op::MemMultiple(m) => cond | block_transfer(&m),
        Op::Branch { link, offset } => cond | 0x0a00_0000 | flag(link, 24) | imm24(offset),
        Op::BranchLinkExchangeImm { offset } => 0xfa00_0000 | flag(offset & 2 != 0, 24) | imm24(offset),
        Op::BranchExchange { link, rm } => cond | 0x012f_ff10 | flag(link, 5) | rm.n(),
        Op::BranchJazelle { rm } => cond | 0x012f_ff20 | rm.n(),
        Op::SupervisorCall { imm } => cond | 0x0f00_0000 | imm & 0xff_ffff,
        Op::SecureMonitorCall { imm } => cond | 0x0160_0070 | u32::from(imm) & 15,
        Op::HypervisorCall { imm } => cond | 0x0140_0070 | imm12_4(imm),
        Op::Breakpoint { imm } => cond | 0x0120_0070 | imm12_4(imm),
        Op::Mrs { spsr, rd } => cond | 0x010f_0000 | flag(spsr, 22) | rd.n() << 12,
        Op::MsrReg { spsr, mask, rn } => cond | 0x0120_f000 | flag(spsr, 22) | (u32::from(mask) & 15) << 16 | rn.n(),
        Op::MsrImm { spsr, mask, imm } => {
            cond | 0x0320_f000 | flag(spsr, 22) | (u32::from(mask) & 15) << 16 | imm.field()
        }
        Op::ChangeState { imod, aif, mode } => {
            let masks = (u32::from(imod) & 3) << 18 | (u32::from(aif) & 7) << 6;
            0xf100_0000 | masks | flag(mode.is_some(), 17) | u32::from(mode.unwrap_or(0)) & 31
        }
        Op::SetEndian { big } => 0xf101_0000 | flag(big, 9),
        Op::StoreReturnState { before, increment, writeback, mode } => {
            0xf84d_0500 | indexing(before, increment, writeback) | u32::from(mode) & 31
        }
        Op::ReturnFromException { before, increment, writeback, rn } => {
            0xf810_0a00 | indexing(before, increment, writeback) | rn.n() << 16
        }
        Op::WaitForEvent => cond | 0x0320_f002,
        Op::WaitForInterrupt => cond | 0x0320_f003,
        Op::ClearExclusive => 0xf57f_f01f,
        Op::DataSyncBarrier { option } => 0xf57f_f040 | u32::from(option) & 15,
        Op::DataMemBarrier { option } => 0xf57f_f050 | u32::from(option) & 15,
        Op::InstrSyncBarrier { option } => 0xf57f_f060 | u32::from(option) & 15,
        Op::CoprocMove { load, reg, rt } => {
            let crs = (u32::from(reg.crn) & 15) << 16 | u32::from(reg.crm) & 15;
            let opcs = (u32::from(reg.opc1) & 7) << 21 | (u32::from(reg.opc2) & 7) << 5;
            cond | 0x0e00_0010 | flag(load, 20) | opcs | crs | coproc(reg.coproc) | rt.n() << 12
        }
        Op::CoprocMove2 { load, coproc: cp, opc1, crm, rt, rt2 } => {
            let fields = (u32::from(opc1) & 15) << 4 | u32::from(crm) & 15;
            cond | 0x0c40_0000 | flag(load, 20) | rt2.n() << 16 | rt.n() << 12 | coproc(cp) | fields
        }
        Op::CoprocMem { rn, .. } | Op::VfpMem { rn, .. } => with_reg(word, 16, rn),
        Op::Preload { rn, rm } => {
            let word = with_reg(word, 16, rn);
            rm.map_or(word, |rm| with_reg(word, 0, rm))
        }
        Op::VfpSystem { load, sysreg, rt } => {
            cond | 0x0ee0_0a10 | flag(load, 20) | (u32::from(sysreg) & 15) << 16 | rt.n() << 12
        }
        Op::Exclusive
        | Op::Hint
        | Op::CoprocData { .. }
        | Op::Vfp
        | Op::Plain
        | Op::Divide
        | Op::VirtExt
        | Op::Undefined
        | Op::Unpredictable => word,
    }
}

/// Bits 25 and 11:0 of a data-processing instruction.
const fn operand2(op2: Operand2) -> u32 {
    match op2 {
        Operand2::Imm(imm) => 1 << 25 | imm.field(),
        Operand2::Shifted { rm, shift, amount } => shifted(rm, shift, amount),
        Operand2::ShiftedByReg { rm, shift, rs } => rs.n() << 8 | (shift as u32) << 5 | 1 << 4 | rm.n(),
    }
}

/// Bits 11:0 for a register shifted by a constant.
const fn shifted(rm: Reg, shift: ShiftType, amount: u8) -> u32 {
    (amount as u32 & 31) << 7 | (shift as u32) << 5 | rm.n()
}

/// P, U and W.
const fn indexing(before: bool, increment: bool, writeback: bool) -> u32 {
    flag(before, 24) | flag(increment, 23) | flag(writeback, 21)
}

/// Bits 27:0 of a single load or store.
const fn load_store(m: &Mem) -> u32 {
    // With P = 0, writeback is implied and W means "unprivileged".
    let w = if m.pre { m.writeback } else { m.unprivileged };
    let common = indexing(m.pre, m.add, w) | m.rn.n() << 16 | m.rt.n() << 12;
    let (load_bit, op2) = match m.size {
        MemSize::Word | MemSize::Byte => {
            let kind = flag(matches!(m.size, MemSize::Byte), 22) | flag(m.load, 20);
            return common
                | kind
                | match m.offset {
                    Offset::Imm(imm) => 0x0400_0000 | imm as u32 & 0xfff,
                    Offset::Reg { rm, shift, amount } => 0x0600_0000 | shifted(rm, shift, amount),
                };
        }
        MemSize::Half => (m.load, 0b01),
        MemSize::SignedByte => (true, 0b10),
        MemSize::SignedHalf => (true, 0b11),
        // LDRD has bit 20 clear, and is told from STRD by `op2`.
        MemSize::Dual => (false, if m.load { 0b10 } else { 0b11 }),
    };
    let offset = match m.offset {
        Offset::Imm(imm) => 1 << 22 | (imm as u32 & 0xf0) << 4 | imm as u32 & 15,
        Offset::Reg { rm, .. } => rm.n(),
    };
    common | flag(load_bit, 20) | 0x90 | op2 << 5 | offset
}

/// Bits 27:0 of LDM or STM.
const fn block_transfer(m: &MemMultiple) -> u32 {
    0x0800_0000
        | indexing(m.before, m.increment, m.writeback)
        | flag(m.user, 22)
        | flag(m.load, 20)
        | m.rn.n() << 16
        | m.regs as u32
}

const fn imm24(offset: i32) -> u32 {
    (offset >> 2) as u32 & 0xff_ffff
}

/// A 16-bit immediate in bits 19:8 and 3:0.
const fn imm12_4(imm: u16) -> u32 {
    (imm as u32 & 0xfff0) << 4 | imm as u32 & 15
}

const fn coproc(number: u8) -> u32 {
    (number as u32 & 15) << 8
}
