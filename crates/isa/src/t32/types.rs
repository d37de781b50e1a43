//! The types of a decoded T32 instruction.

use crate::{Cond, DpOp, Mem, Reg, ShiftType};

/// The bits of a T32 instruction: one halfword, or two.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Code(u32);

impl Code {
    /// Whether an instruction that begins with this halfword has another one (A6.1).
    #[must_use]
    pub const fn begins_wide(first: u16) -> bool {
        first >> 11 >= 0b11101
    }

    /// The instruction that begins with `first`; `second` counts only if [`Code::begins_wide`] holds for `first`.
    #[must_use]
    pub const fn new(first: u16, second: u16) -> Code {
        if Code::begins_wide(first) { Code((first as u32) << 16 | second as u32) } else { Code(first as u32) }
    }

    /// From what [`Code::bits`] gave.
    pub(super) const fn from_bits(bits: u32) -> Code {
        Code(bits)
    }

    /// The first halfword in bits 31:16 and the second in bits 15:0; a single one in bits 15:0.
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Whether it has two halfwords.
    #[must_use]
    pub const fn is_wide(self) -> bool {
        self.0 >> 16 != 0
    }

    /// Its length in bytes, 2 or 4.
    #[must_use]
    pub const fn length(self) -> u32 {
        if self.is_wide() { 4 } else { 2 }
    }
}

/// How far the execution of an IT block has come (ITSTATE, A2.5.2): the condition of the next instruction in bits 7:4,
/// what follows in bits 3:0. With bits 3:0 clear, it is outside of a block.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct ItState(u8);

impl ItState {
    /// Outside of any block.
    pub const OUTSIDE: ItState = ItState(0);

    /// From the eight bits of ITSTATE, or of an IT instruction.
    #[must_use]
    pub const fn new(bits: u8) -> ItState {
        ItState(bits)
    }

    /// In a block whose last instruction is next, with this condition; outside for AL.
    #[must_use]
    pub const fn only(cond: Cond) -> ItState {
        match cond {
            Cond::Al => ItState::OUTSIDE,
            cond => ItState((cond as u8) << 4 | 0b1000),
        }
    }

    /// From the bits of CPSR or SPSR: IT\[7:2\] in bits 15:10, IT\[1:0\] in bits 26:25 (B1.3.3).
    #[must_use]
    pub const fn from_psr(psr: u32) -> ItState {
        ItState((psr >> 8 & 0xfc | psr >> 25 & 3) as u8)
    }

    /// Its bits in CPSR or SPSR; the others are 0.
    #[must_use]
    pub const fn to_psr(self) -> u32 {
        (self.0 as u32 & 0xfc) << 8 | (self.0 as u32 & 3) << 25
    }

    /// The eight bits.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Whether the next instruction is in a block.
    #[must_use]
    pub const fn in_block(self) -> bool {
        self.0 & 15 != 0
    }

    /// Whether the next instruction is the last one of a block.
    #[must_use]
    pub const fn is_last(self) -> bool {
        self.0 & 15 == 0b1000
    }

    /// The condition of the next instruction: AL outside of a block. A condition of 0b1111 does not exist, and is AL.
    #[must_use]
    pub const fn cond(self) -> Cond {
        match self.0 >> 4 {
            n @ 0..=13 if self.in_block() => Cond::ALL[n as usize],
            _ => Cond::Al,
        }
    }

    /// The state behind the next instruction: `ITAdvance()`.
    #[must_use]
    pub const fn advance(self) -> ItState {
        if self.0 & 7 == 0 { ItState::OUTSIDE } else { ItState(self.0 & 0xe0 | self.0 << 1 & 0x1f) }
    }
}

/// A T32 modified immediate constant (A6.3.2): a byte, once, twice or four times, or rotated.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ModImm(u16);

impl ModImm {
    /// From the 12 bits `i:imm3:imm8` of an instruction. A byte of zero that is repeated is UNPREDICTABLE.
    #[must_use]
    pub const fn from_field(field: u32) -> Option<ModImm> {
        let repeated = matches!(field >> 8 & 15, 1..=3);
        if repeated && field & 0xff == 0 { None } else { Some(ModImm((field & 0xfff) as u16)) }
    }

    /// The 12-bit field.
    #[must_use]
    pub const fn field(self) -> u32 {
        self.0 as u32
    }

    /// The constant that it stands for: `ThumbExpandImm()`.
    #[must_use]
    pub const fn value(self) -> u32 {
        let byte = self.field() & 0xff;
        match self.field() >> 8 {
            0b0000 => byte,
            0b0001 => byte << 16 | byte,
            0b0010 => byte << 24 | byte << 8,
            0b0011 => byte << 24 | byte << 16 | byte << 8 | byte,
            _ => (byte | 0x80).rotate_right(self.field() >> 7),
        }
    }

    /// The encoding of `value`, if it has one. There is never more than one.
    #[must_use]
    pub const fn encode(value: u32) -> Option<ModImm> {
        let byte = value & 0xff;
        let field = if value == byte {
            byte
        } else if value == byte << 16 | byte {
            0x100 | byte
        } else if value == (value >> 8 & 0xff) * 0x0100_0100 {
            0x200 | value >> 8 & 0xff
        } else if value == byte * 0x0101_0101 {
            0x300 | byte
        } else {
            // The highest bit that is set is the one that every rotated byte has.
            let rotation = value.leading_zeros() + 8;
            let byte = value.rotate_left(rotation);
            if byte > 0xff {
                return None;
            }
            rotation << 7 | byte & 0x7f
        };
        Some(ModImm(field as u16))
    }
}

/// The second operand of [`Op::OrNot`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[expect(missing_docs, reason = "the manual's names")]
pub enum OrNotOperand {
    Imm(ModImm),
    /// As in [`Operand2::Shifted`](crate::Operand2::Shifted).
    Shifted {
        rm: Reg,
        shift: ShiftType,
        amount: u8,
    },
}

/// LDRD or STRD: two registers, any two.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct MemDual {
    /// Load or store.
    pub load: bool,
    /// First register.
    pub rt: Reg,
    /// Second register.
    pub rt2: Reg,
    /// Base register. A PC is `Align(PC, 4)`.
    pub rn: Reg,
    /// Offset in bytes, a multiple of 4 up to 1020.
    pub offset: u16,
    /// U: add the offset (else subtract).
    pub add: bool,
    /// P: the offset applies before the access.
    pub pre: bool,
    /// The base is written back: P=0, or W=1.
    pub writeback: bool,
}

/// What a T32 instruction does. Fields carry the manual's names.
///
/// Where an instruction uses the PC, the state matters (A2.3.1, A2.3.2), also for [`Op::A32`]:
/// * The PC reads as the instruction's address + 4. As base of a load, and where an immediate is added to it or
///   subtracted from it (ADR), it is `Align(PC, 4)`.
/// * ADD and MOV to the PC branch without a change of state, whatever bit 0 is. In A32, they change it.
/// * BL and BLX leave a return address in LR whose bit 0 is set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the manual's names")]
pub enum Op {
    /// What this A32 instruction does, but for the PC. Its condition is that of [`Decoded::cond`], unless it is from
    /// the unconditional space. It is neither [`Undefined`](crate::Op::Undefined) nor
    /// [`Unpredictable`](crate::Op::Unpredictable), and no branch with an offset.
    A32(crate::Decoded),
    /// Data processing with a constant that A32 cannot encode. Unused fields are 0. The carry behind the logical
    /// operations is bit 31 of a constant that is not repeated, and unchanged by one that is.
    DataProcessing { op: DpOp, s: bool, rd: Reg, rn: Reg, imm: ModImm },
    /// ORN.
    OrNot { s: bool, rd: Reg, rn: Reg, op2: OrNotOperand },
    /// ADDW, SUBW, and the wide ADR, where `rn` is the PC: an immediate of 12 bits, and no flags.
    AddWide { subtract: bool, rd: Reg, rn: Reg, imm: u16 },
    /// A single load or store as A32 does not have it: halfwords and signed bytes with a larger offset or a shifted
    /// index; and unprivileged ones, which have an offset and do not write the base back.
    Mem(Mem),
    /// LDRD, STRD.
    MemDual(MemDual),
    /// LDREX with an offset in bytes that is not 0, and LDREXD of any two registers.
    LoadExclusive { rt: Reg, rt2: Option<Reg>, rn: Reg, offset: u16 },
    /// STREX, STREXD in the same way.
    StoreExclusive { rd: Reg, rt: Reg, rt2: Option<Reg>, rn: Reg, offset: u16 },
    /// B, with a condition or without, and BL; `offset` in bytes, relative to the instruction's address + 4.
    Branch { link: bool, offset: i32 },
    /// BLX to A32; `offset` is relative to `Align(PC, 4)`, and a multiple of 4.
    BranchLinkExchangeImm { offset: i32 },
    /// CBZ and CBNZ (`nonzero`); `offset` as for B, never negative.
    CompareBranch { nonzero: bool, rn: Reg, offset: u8 },
    /// TBB and TBH (`half`): branches forward by twice the byte at `rn + rm`, or the halfword at `rn + 2 * rm`. As
    /// `rn`, the PC is not aligned.
    TableBranch { half: bool, rn: Reg, rm: Reg },
    /// IT: the state behind it.
    IfThen(ItState),
    /// ENTERX and LEAVEX: to ThumbEE and back (A9.3.1). Undefined on processors without it; LEAVEX has no effect here.
    ThumbEe { enter: bool },
    /// An unallocated memory hint, which executes as NOP (A6.3.8, A6.3.9).
    Hint,
    /// UDF, and encodings that the architecture leaves unallocated.
    Undefined,
    /// UNPREDICTABLE encodings that we will not execute.
    Unpredictable,
}

impl Op {
    /// What the A32 instruction `word`, of condition AL or unconditional, does under a condition.
    pub(super) fn of_a32(word: u32, cond: Cond) -> Op {
        let always = crate::decode(word);
        match always.op {
            crate::Op::Undefined => Op::Undefined,
            crate::Op::Unpredictable => Op::Unpredictable,
            _ if always.uncond => Op::A32(always),
            _ => Op::A32(crate::Decoded { word: word & 0x0fff_ffff | (cond as u32) << 28, cond, ..always }),
        }
    }

    /// The A32 instruction of condition AL that has these fields.
    pub(super) fn of_a32_fields(op: crate::Op) -> Op {
        let fields = crate::Decoded { word: 0, cond: Cond::Al, uncond: false, op };
        Op::A32(crate::Decoded { word: crate::encode(&fields), ..fields })
    }
}

/// A decoded T32 instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Decoded {
    /// The bits that it was decoded from.
    pub code: Code,
    /// Its condition: its own, or that of the IT block.
    pub cond: Cond,
    /// What it does.
    pub op: Op,
}
