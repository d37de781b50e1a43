//! An instruction of the guest's kernel, in either state.

use spica_dbt::Location;
use spica_dbt::at::is_thumb;
use spica_isa::t32::{self, Code};
use spica_isa::{Cond, Decoded, Op};
use spica_vcpu::Cpu;
use spica_vcpu::interp::{self, Env, Step};

/// See the module's text.
#[derive(Clone, Copy, Debug)]
pub enum Instruction {
    /// A32.
    A32(Decoded),
    /// T32, in its place in an IT block.
    T32(t32::Decoded),
}

impl Instruction {
    /// The instruction at `location`, in the page that reads `words`; `next_page` is what the page behind has of it.
    pub fn of(location: &Location, words: &[u32; 1024], next_page: Option<u16>) -> Instruction {
        let offset = location.guest.page_offset() as usize & 0xffe;
        if !is_thumb(location.guest) {
            return Instruction::A32(spica_isa::decode(words[offset / 4]));
        }
        let half = |at: usize| words.get(at / 4).map(|word| (word >> (8 * (at & 2))) as u16);
        let first = half(offset).unwrap_or(0);
        let second = half(offset + 2).or(next_page).unwrap_or(0);
        Instruction::T32(t32::decode(Code::new(first, second), location.it))
    }

    /// What it does, where A32 has that.
    pub fn op(&self) -> Option<Op> {
        match self {
            Instruction::A32(decoded) | Instruction::T32(t32::Decoded { op: t32::Op::A32(decoded), .. }) => {
                Some(decoded.op)
            }
            Instruction::T32(_) => None,
        }
    }

    /// The A32 word of it, if it may be in the code cache as it is.
    pub fn word(&self) -> Option<u32> {
        match self {
            Instruction::A32(decoded) | Instruction::T32(t32::Decoded { op: t32::Op::A32(decoded), .. }) => {
                Some(decoded.word)
            }
            Instruction::T32(_) => None,
        }
    }

    /// The same, as far as it matters to whoever asks for operations that A32 has: anything else is plain.
    #[inline]
    pub fn a32(&self) -> &Decoded {
        const PLAIN: &Decoded = &Decoded { word: 0, cond: Cond::Al, uncond: false, op: Op::Plain };
        match self {
            Instruction::A32(decoded) | Instruction::T32(t32::Decoded { op: t32::Op::A32(decoded), .. }) => decoded,
            Instruction::T32(_) => PLAIN,
        }
    }

    /// Whether it is T32.
    pub fn is_thumb(&self) -> bool {
        matches!(self, Instruction::T32(_))
    }

    /// Whether it is a load or store that the interpreter knows: neither an exclusive one nor one of VFP.
    pub fn is_transfer(&self) -> bool {
        match (self, self.op()) {
            (_, Some(op)) => matches!(op, Op::Mem(_) | Op::MemMultiple(_)),
            (Instruction::T32(decoded), None) => matches!(decoded.op, t32::Op::Mem(_) | t32::Op::MemDual(_)),
            (Instruction::A32(_), None) => false,
        }
    }

    /// Bytes.
    pub fn length(&self) -> u32 {
        match self {
            Instruction::A32(_) => 4,
            Instruction::T32(decoded) => decoded.code.length(),
        }
    }

    /// Interprets it, with the virtual CPU in the guest's state at `pc`.
    #[inline]
    pub fn execute(&self, cpu: &mut Cpu, env: &mut impl Env, pc: u32) -> Step {
        match self {
            Instruction::A32(decoded) => interp::execute(cpu, env, decoded, pc),
            Instruction::T32(decoded) => interp::execute_t32(cpu, env, decoded, pc),
        }
    }
}
