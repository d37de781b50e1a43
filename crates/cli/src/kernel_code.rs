//! The code of a guest's kernel as it is read from outside: where functions are, where they return, and where they
//! branch to.

use std::ops::Range;

use spica_isa::{Decoded, Mem, Offset, Op, Reg, decode};
use spica_kallsyms::Symbol;
use spica_runner::error::Result;

/// Bytes of a function, at most.
const MOST_FUNCTION: u32 = 0x4000;

/// Code that is read: the words from an address up to another.
pub type Read<'a> = dyn FnMut(Range<u32>) -> Result<Vec<u32>> + 'a;

/// The names of a kernel, in the order of their addresses.
#[derive(Clone, Copy)]
pub struct Names<'a>(pub &'a [Symbol]);

impl Names<'_> {
    /// Where a function begins and ends.
    #[must_use]
    pub fn range(self, name: &str) -> Option<Range<u32>> {
        self.range_from(self.0.iter().find(|symbol| symbol.name == name)?.address)
    }

    /// The same of the function that begins there.
    #[must_use]
    pub fn range_from(self, start: u32) -> Option<Range<u32>> {
        let behind = self.0.partition_point(|symbol| symbol.address <= start);
        let begins = behind.checked_sub(1).is_some_and(|last| self.0[last].address == start);
        let end = self.0[behind..].first().filter(|_| begins)?.address;
        (end - start <= MOST_FUNCTION).then_some(start..end)
    }
}

/// Words of code as instructions, with their addresses.
pub fn instructions(start: u32, words: &[u32]) -> impl Iterator<Item = (u32, Decoded)> {
    (start..).step_by(4).zip(words.iter().map(|&word| decode(word)))
}

/// Where a branch leads, with or without a link.
#[must_use]
pub fn target(at: u32, instruction: &Decoded) -> Option<u32> {
    match instruction.op {
        Op::Branch { offset, .. } => Some(at.wrapping_add(8).wrapping_add_signed(offset)),
        _ => None,
    }
}

/// How many words an instruction takes from the stack by which a function returns.
#[must_use]
pub fn popped(instruction: &Decoded) -> Option<u8> {
    match instruction.op {
        Op::MemMultiple(mem) if mem.load && mem.rn == Reg::SP && mem.regs & 0x8000 != 0 && !mem.user => {
            (mem.increment && !mem.before).then(|| mem.regs.count_ones() as u8)
        }
        Op::Mem(Mem { load: true, rt, rn: Reg::SP, offset: Offset::Imm(4), add: true, pre: false, .. })
            if rt.is_pc() =>
        {
            Some(1)
        }
        Op::BranchExchange { link: false, rm: Reg::LR } => Some(0),
        _ => None,
    }
}
