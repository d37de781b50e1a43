//! The guest's instruction at an address, in either state, as far as the harness has to know what it is: what traps
//! stand for it, how long it is, and what its handler would put right.

use crate::translator::memory::Memory;
use crate::translator::model::t32::is_wide;
use spica_isa::t32::{self, Code, ItState};
use spica_isa::{Decoded, Op};

/// An instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Instruction {
    A32(Decoded),
    T32(t32::Decoded),
}

/// The half-word at an address.
pub fn half(memory: &Memory, va: u32) -> u32 {
    memory.word(va & !3) >> (8 * (va & 2)) & 0xffff
}

/// Length in bytes of the instruction at `entry`, whose bit 0 is the state.
pub fn length_at(memory: &Memory, entry: u32) -> u32 {
    if entry & 1 == 0 || is_wide(half(memory, entry & !1)) { 4 } else { 2 }
}

impl Instruction {
    /// The instruction at `entry`, in this state of an IT block.
    pub fn at(memory: &Memory, entry: u32, it: ItState) -> Instruction {
        let va = entry & !1;
        if entry & 1 == 0 {
            return Instruction::A32(spica_isa::decode(memory.word(va)));
        }
        let first = half(memory, va) as u16;
        // Beyond the last page there is nothing that is executed.
        let behind = va.wrapping_add(2);
        let second = if Memory::page(behind).is_some() { half(memory, behind) as u16 } else { 0 };
        Instruction::T32(t32::decode(Code::new(first, second), it))
    }

    /// What it is in A32, if it is that.
    pub fn a32(&self) -> Option<Decoded> {
        match self {
            Instruction::A32(decoded) => Some(*decoded),
            Instruction::T32(t32::Decoded { op: t32::Op::A32(same), .. }) => Some(*same),
            Instruction::T32(_) => None,
        }
    }

    /// The same, as operation.
    pub fn op(&self) -> Option<Op> {
        self.a32().map(|decoded| decoded.op)
    }

    pub fn length(&self) -> u32 {
        match self {
            Instruction::A32(_) => 4,
            Instruction::T32(decoded) => decoded.code.length(),
        }
    }

    /// Whether it is no instruction.
    pub fn is_undefined(&self) -> bool {
        match self {
            Instruction::A32(decoded) => decoded.op == Op::Undefined,
            Instruction::T32(decoded) => decoded.op == t32::Op::Undefined,
        }
    }

    pub fn is_unpredictable(&self) -> bool {
        match self {
            Instruction::A32(decoded) => decoded.op == Op::Unpredictable,
            Instruction::T32(decoded) => decoded.op == t32::Op::Unpredictable,
        }
    }

    /// Whether it is a load or store that the interpreter knows.
    pub fn is_transfer(&self) -> bool {
        match (self, self.op()) {
            (_, Some(Op::Mem(_) | Op::MemMultiple(_))) => true,
            (Instruction::T32(decoded), _) => matches!(decoded.op, t32::Op::Mem(_) | t32::Op::MemDual(_)),
            _ => false,
        }
    }

    /// Whether it is a load or store with the rights of User mode; and whether it loads.
    pub fn unprivileged(&self) -> Option<bool> {
        match (self, self.op()) {
            (_, Some(Op::Mem(mem))) => mem.unprivileged.then_some(mem.load),
            (Instruction::T32(t32::Decoded { op: t32::Op::Mem(mem), .. }), _) => mem.unprivileged.then_some(mem.load),
            _ => None,
        }
    }

    /// The register that has the address of what it accesses.
    pub fn base(&self) -> Option<usize> {
        let rn = match (self, self.a32()) {
            (_, Some(Decoded { op: Op::CoprocMove { rt, .. }, .. })) => rt,
            (_, Some(Decoded { op: Op::Mem(mem), .. })) => mem.rn,
            (_, Some(Decoded { op: Op::MemMultiple(mem), .. })) => mem.rn,
            (_, Some(Decoded { op: Op::VfpMem { rn, .. }, .. })) => rn,
            (_, Some(Decoded { word, .. })) => spica_isa::Reg::new(word >> 16),
            (Instruction::T32(decoded), _) => match decoded.op {
                t32::Op::Mem(mem) => mem.rn,
                t32::Op::MemDual(mem) => mem.rn,
                t32::Op::LoadExclusive { rn, .. }
                | t32::Op::StoreExclusive { rn, .. }
                | t32::Op::TableBranch { rn, .. } => rn,
                _ => return None,
            },
            _ => return None,
        };
        (!rn.is_pc()).then_some(rn.n() as usize)
    }

    /// Whether a block has no word of it: hints that are dropped, and IT.
    pub fn is_wordless(&self) -> bool {
        match (self, self.op()) {
            (_, Some(Op::Preload { .. })) => true,
            (Instruction::T32(decoded), _) => {
                matches!(decoded.op, t32::Op::IfThen(_) | t32::Op::Hint | t32::Op::ThumbEe { enter: false })
            }
            _ => false,
        }
    }
}

impl std::fmt::Display for Instruction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Instruction::A32(decoded) => decoded.fmt(f),
            Instruction::T32(decoded) => decoded.fmt(f),
        }
    }
}
