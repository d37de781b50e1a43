//! Constructors for the instructions that the translator emits itself.
//!
//! Each function returns the A32 encoding. Arguments are registers and validated immediates, so that an encoding that
//! does not exist cannot be asked for.

use crate::{Cond, ModImm, Reg};

const fn c(cond: Cond) -> u32 {
    (cond as u32) << 28
}

/// `B<cond>` over `offset` bytes from the instruction's address + 8, if it is in reach (±32 MiB).
#[must_use]
pub const fn b(cond: Cond, offset: i32) -> Option<u32> {
    if offset & 3 != 0 || offset < -0x200_0000 || offset > 0x1ff_fffc {
        return None;
    }
    Some(c(cond) | 0x0a00_0000 | (offset >> 2) as u32 & 0xff_ffff)
}

/// `MOVW<cond> rd, #imm`.
#[must_use]
pub const fn movw(cond: Cond, rd: Reg, imm: u16) -> u32 {
    c(cond) | 0x0300_0000 | (imm as u32 & 0xf000) << 4 | rd.n() << 12 | imm as u32 & 0xfff
}

/// `MOVT<cond> rd, #imm`.
#[must_use]
pub const fn movt(cond: Cond, rd: Reg, imm: u16) -> u32 {
    c(cond) | 0x0340_0000 | (imm as u32 & 0xf000) << 4 | rd.n() << 12 | imm as u32 & 0xfff
}

/// `LDR<cond> rt, [rn, #offset]` or `STR`, if `offset` is in ±4095. `rn` may be PC.
#[must_use]
pub const fn ldr_str(load: bool, cond: Cond, rt: Reg, rn: Reg, offset: i32) -> Option<u32> {
    if offset < -4095 || offset > 4095 {
        return None;
    }
    let (u, imm) = if offset < 0 { (0, -offset) } else { (1 << 23, offset) };
    Some(c(cond) | 0x0500_0000 | u | (load as u32) << 20 | rn.n() << 16 | rt.n() << 12 | imm as u32)
}

/// `ADD<cond> rd, rn, #imm`.
#[must_use]
pub const fn add_imm(cond: Cond, rd: Reg, rn: Reg, imm: ModImm) -> u32 {
    c(cond) | 0x0280_0000 | rn.n() << 16 | rd.n() << 12 | imm.field()
}

/// `SUB<cond> rd, rn, #imm`.
#[must_use]
pub const fn sub_imm(cond: Cond, rd: Reg, rn: Reg, imm: ModImm) -> u32 {
    c(cond) | 0x0240_0000 | rn.n() << 16 | rd.n() << 12 | imm.field()
}

/// `SVC<cond> #imm`, the low 24 bits of `imm`.
#[must_use]
pub const fn svc(cond: Cond, imm: u32) -> u32 {
    c(cond) | 0x0f00_0000 | imm & 0xff_ffff
}

/// `UDF #imm` (A8.8.247): permanently undefined, in every condition state.
#[must_use]
pub const fn udf(imm: u16) -> u32 {
    0xe7f0_00f0 | (imm as u32 & 0xfff0) << 4 | imm as u32 & 0xf
}

/// `NOP`.
pub const NOP: u32 = 0xe320_f000;

/// `EOR<cond> rd, rn, rm`.
#[must_use]
pub const fn eor_reg(cond: Cond, rd: Reg, rn: Reg, rm: Reg) -> u32 {
    c(cond) | 0x0020_0000 | rn.n() << 16 | rd.n() << 12 | rm.n()
}

/// `SUB<cond> rd, rn, rm`.
#[must_use]
pub const fn sub_reg(cond: Cond, rd: Reg, rn: Reg, rm: Reg) -> u32 {
    c(cond) | 0x0040_0000 | rn.n() << 16 | rd.n() << 12 | rm.n()
}

/// `EOR<cond> rd, rn, #imm`.
#[must_use]
pub const fn eor_imm(cond: Cond, rd: Reg, rn: Reg, imm: ModImm) -> u32 {
    c(cond) | 0x0220_0000 | rn.n() << 16 | rd.n() << 12 | imm.field()
}

/// `ORR<cond> rd, rn, #imm`.
#[must_use]
pub const fn orr_imm(cond: Cond, rd: Reg, rn: Reg, imm: ModImm) -> u32 {
    c(cond) | 0x0380_0000 | rn.n() << 16 | rd.n() << 12 | imm.field()
}

/// `AND<cond> rd, rn, #imm`.
#[must_use]
pub const fn and_imm(cond: Cond, rd: Reg, rn: Reg, imm: ModImm) -> u32 {
    c(cond) | 0x0200_0000 | rn.n() << 16 | rd.n() << 12 | imm.field()
}

/// `BIC<cond> rd, rn, #imm`.
#[must_use]
pub const fn bic_imm(cond: Cond, rd: Reg, rn: Reg, imm: ModImm) -> u32 {
    c(cond) | 0x03c0_0000 | rn.n() << 16 | rd.n() << 12 | imm.field()
}

/// The modified immediate of a constant below 256, which needs no rotation.
#[must_use]
pub const fn imm(value: u32) -> ModImm {
    assert!(value < 256, "needs a rotation: use ModImm::encode");
    ModImm::from_field(value)
}

/// `ADD` or `SUB<cond> rd, rn, #±offset`, below 256.
#[must_use]
pub const fn offset(cond: Cond, rd: Reg, rn: Reg, offset: i32) -> u32 {
    if offset < 0 { sub_imm(cond, rd, rn, imm(-offset as u32)) } else { add_imm(cond, rd, rn, imm(offset as u32)) }
}

/// `BIC<cond> rd, rn, rm`.
#[must_use]
pub const fn bic_reg(cond: Cond, rd: Reg, rn: Reg, rm: Reg) -> u32 {
    c(cond) | 0x01c0_0000 | rn.n() << 16 | rd.n() << 12 | rm.n()
}

/// `MVN<cond> rd, #0`: all ones.
#[must_use]
pub const fn all_ones(cond: Cond, rd: Reg) -> u32 {
    c(cond) | 0x03e0_0000 | rd.n() << 12
}

/// `LDRB`/`STRB` of the same operands as `word`, an `LDR` or `STR` with an immediate offset.
#[must_use]
pub const fn as_byte(word: u32) -> u32 {
    word | 1 << 22
}

/// `LSL<cond> rd, rm, #amount`, up to 31; with 0, `MOV<cond> rd, rm`.
#[must_use]
pub const fn lsl_imm(cond: Cond, rd: Reg, rm: Reg, amount: u32) -> u32 {
    c(cond) | 0x01a0_0000 | rd.n() << 12 | (amount & 31) << 7 | rm.n()
}

/// `LSR<cond> rd, rm, #amount`, 1 to 31.
#[must_use]
pub const fn lsr_imm(cond: Cond, rd: Reg, rm: Reg, amount: u32) -> u32 {
    c(cond) | 0x01a0_0020 | rd.n() << 12 | (amount & 31) << 7 | rm.n()
}

/// `ADD<cond> rd, rn, rm, LSL #amount`.
#[must_use]
pub const fn add_reg_lsl(cond: Cond, rd: Reg, rn: Reg, rm: Reg, amount: u32) -> u32 {
    c(cond) | 0x0080_0000 | rn.n() << 16 | rd.n() << 12 | (amount & 31) << 7 | rm.n()
}

/// `EOR<cond> rd, rn, rm, LSR #amount`, 1 to 31.
#[must_use]
pub const fn eor_reg_lsr(cond: Cond, rd: Reg, rn: Reg, rm: Reg, amount: u32) -> u32 {
    c(cond) | 0x0020_0020 | rn.n() << 16 | rd.n() << 12 | (amount & 31) << 7 | rm.n()
}

/// `ROR<cond> rd, rm, #amount`, 1 to 31.
#[must_use]
pub const fn ror_imm(cond: Cond, rd: Reg, rm: Reg, amount: u32) -> u32 {
    c(cond) | 0x01a0_0060 | rd.n() << 12 | (amount & 31) << 7 | rm.n()
}

/// `CLZ<cond> rd, rm`.
#[must_use]
pub const fn clz(cond: Cond, rd: Reg, rm: Reg) -> u32 {
    c(cond) | 0x016f_0f10 | rd.n() << 12 | rm.n()
}

/// `BFI<cond> rd, rn, #lsb, #width`, with `lsb + width` at most 32 and `width` at least 1.
#[must_use]
pub const fn bfi(cond: Cond, rd: Reg, rn: Reg, lsb: u32, width: u32) -> u32 {
    c(cond) | 0x07c0_0010 | ((lsb + width - 1) & 31) << 16 | rd.n() << 12 | (lsb & 31) << 7 | rn.n()
}

/// `MRC<cond> p15, 0, rt, crn, crm, opc2`, or `MCR`.
#[must_use]
pub const fn cp15(load: bool, cond: Cond, rt: Reg, crn: u32, crm: u32, opc2: u32) -> u32 {
    c(cond) | 0x0e00_0f10 | (load as u32) << 20 | (crn & 15) << 16 | rt.n() << 12 | (opc2 & 7) << 5 | crm & 15
}

/// `MRS<cond> rd, CPSR`.
#[must_use]
pub const fn mrs(cond: Cond, rd: Reg) -> u32 {
    c(cond) | 0x010f_0000 | rd.n() << 12
}

/// `ADD PC, PC, rm, LSR #amount`: a jump to the instruction's address + 8, and what is left of `rm` in bytes on.
#[must_use]
pub const fn add_pc_lsr(rm: Reg, amount: u32) -> u32 {
    c(Cond::Al) | 0x0080_0020 | 15 << 16 | 15 << 12 | (amount & 31) << 7 | rm.n()
}

/// `ADD PC, PC, rm, LSL #2`: a jump to the instruction's address + 8, and `rm` words on.
#[must_use]
pub const fn add_pc(rm: Reg) -> u32 {
    c(Cond::Al) | 0x0080_0000 | 15 << 16 | 15 << 12 | 2 << 7 | rm.n()
}
