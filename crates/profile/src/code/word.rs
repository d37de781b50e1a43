//! What a single word of a code page says of itself.

use spica_dbt::layout::{HOT_FIELDS, PAGE};
use spica_dbt::return_mirror::LINK_SLOT;
use spica_dbt::trap;
use spica_isa::{Cond, CpReg, Decoded, DpOp, Mem, Op, Operand2, Reg, ShiftType, decode};
use spica_vcpu::field;

/// A word that is executed in a code page, as far as rules are told by it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Word {
    /// A load from a field of the vCPU page, or a store to it.
    Field { load: bool, rt: Reg, field: u32 },
    /// `MOVW` or, for the upper half, `MOVT`.
    Half { rd: Reg, top: bool },
    /// `SVC` with this number.
    Trap(u32),
    /// A branch by that many words.
    Branch { always: bool, words: i32 },
    /// `ADD PC, Rn, #…`: through the return mirror.
    Reflect,
    /// `ADD PC, PC, Rm, LSL #2`: over the next words, or not.
    Choose,
    /// A barrier behind which a block ends.
    Barrier,
    /// Anything else.
    Plain,
}

impl Word {
    /// The word `at` of a page.
    pub fn of(at: usize, word: u32) -> Self {
        // No instruction of the guest is copied that is any of these, so the fields tell enough.
        let d = decode(word);
        let always = d.cond == Cond::Al;
        match d.op {
            Op::Mem(mem @ Mem { rn: Reg::PC, .. }) => Self::relative(at, mem),
            Op::SupervisorCall { .. } if !d.uncond => Self::Trap(trap::number(word)),
            Op::MoveWide { top, rd, .. } => Self::Half { rd, top },
            Op::Branch { link: false, offset } => Self::Branch { always, words: offset / 4 + 2 },
            Op::DataProcessing { op: DpOp::Add, s: false, rd: Reg::PC, rn, op2 } => match op2 {
                Operand2::Imm(_) => Self::Reflect,
                Operand2::Shifted { shift: ShiftType::Lsl, amount: 2, .. } if rn == Reg::PC => Self::Choose,
                Operand2::Shifted { shift: ShiftType::Lsr, .. } if rn == Reg::PC => Self::Choose,
                _ => Self::Plain,
            },
            _ if is_barrier(&d) => Self::Barrier,
            _ => Self::Plain,
        }
    }

    fn relative(at: usize, mem: Mem) -> Self {
        let spica_isa::Offset::Imm(offset) = mem.offset else { return Self::Plain };
        let target = 4 * at as u32 + 8 + u32::from(offset);
        let field = target.wrapping_sub(PAGE);
        if !mem.add {
            Self::Plain
        } else if field < HOT_FIELDS {
            Self::Field { load: mem.load, rt: mem.rt, field }
        } else {
            Self::Plain
        }
    }

    /// The start of a block of code that has a return mirror.
    pub fn is_landing(self) -> bool {
        self == Self::Field { load: true, rt: Reg::LR, field: field::spill(LINK_SLOT) }
    }

    /// The first word of a branch through the mirror: LR is put away.
    pub fn is_put_away(self) -> bool {
        self == Self::Field { load: false, rt: Reg::LR, field: field::spill(LINK_SLOT) }
    }

    /// A branch through the mirror, closed or not.
    pub fn reflects(self) -> bool {
        match self {
            Self::Reflect => true,
            Self::Trap(number) => number & !0xf == trap::CLOSED,
            _ => false,
        }
    }

    /// An exit that is always taken, linked or not; a literal is behind it.
    pub fn exits(self) -> bool {
        matches!(self, Self::Trap(trap::LINK) | Self::Branch { always: true, .. })
    }
}

fn is_barrier(d: &Decoded) -> bool {
    const CP15ISB: CpReg = CpReg { coproc: 15, opc1: 0, crn: 7, crm: 5, opc2: 4 };
    matches!(d.op, Op::InstrSyncBarrier { .. } | Op::CoprocMove { load: false, reg: CP15ISB, .. })
}
