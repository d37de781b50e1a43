//! Where a rule puts the register that it needs for itself: the vCPU page, or one of STAR's four techniques (§4), which are
//! there to be compared with it.
//!
//! | technique                | spill                                          | reload                              |
//! |--------------------------|------------------------------------------------|-------------------------------------|
//! | [`Spill::VcpuPage`]      | `STR rs, [PC, #…]`                             | `LDR rs, [PC, #…]`                  |
//! | [`Spill::TrapPrivate`]   | [`TRAP`]; `STR rs, [PC, #…]`; [`RETURN`]       | `LDR rs, [PC, #…]`                  |
//! | [`Spill::TrapShared`]    | [`TRAP`]; `LR` = slot; `STR rs, [LR]`; [`RETURN`] | [`TRAP`]; `LR` = slot; `LDR rs, [LR]`; [`RETURN`] |
//! | [`Spill::Tpidrurw`]      | `MCR p15, 0, rs, c13, c0, 2`                   | `MRC`                               |
//! | [`Spill::Pmccntr`]       | `MCR p15, 0, rs, c9, c13, 0`                   | `MRC`                               |
//!
//! A **lightweight trap** is an Undefined Instruction exception whose handler goes on behind the instruction, in Undefined
//! mode: the next words of the code cache are privileged. [`RETURN`] takes them back to User mode, flags included. The private
//! slot lies in the cold part of the block itself, which User mode can read; the shared one is privileged memory
//! ([`crate::layout::Layout::shared_slot`]).
//!
//! That is unsafe by nature, and never in the shipped image. What is done about it: the handler looks at SPSR.T and at the
//! word that trapped, and *no word of a code page is [`TRAP`] but those that begin such a sequence*. Literals that would be it
//! are made otherwise (`emit.rs`), pages are emptied before they are used again, and the word behind a private slot, to
//! which a guest can write anything by jumping to the sequence, is a [`RETURN`].
//!
//! SP and LR of Undefined mode are not User mode's, so a rule that has no other register to spill takes the vCPU page with
//! lightweight traps, too.

use spica_addr::CachePc;
use spica_isa::{Cond, Reg, asm};

/// The instruction of a lightweight trap: undefined (A5.7), and the one that STAR has.
pub const TRAP: u32 = 0xffff_ffff;
/// `SUBS PC, PC, #4`: to the next instruction, with the SPSR as CPSR (B9.3.20).
pub const RETURN: u32 = 0xe25f_f004;
/// What a guest's own [`TRAP`] is to the interpreter: as undefined as that.
pub(crate) const UNDEFINED: u32 = asm::udf(0);

/// A technique.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Spill {
    /// A slot of the vCPU page, which every instruction reaches.
    #[default]
    VcpuPage,
    /// Lightweight trap, and a slot in the block (STAR §4.1).
    TrapPrivate,
    /// Lightweight trap, and one slot for all, which User mode cannot read (STAR §4.1).
    TrapShared,
    /// TPIDRURW (STAR §4.2). The guest's own is [`VcpuPage::tpidrurw`](spica_vcpu::VcpuPage::tpidrurw) while its kernel runs.
    Tpidrurw,
    /// PMCCNTR, which does not count (STAR §4.2). User mode can reach it while the guest's kernel runs.
    Pmccntr,
}

impl Spill {
    /// All, with their names behind `spill=` in a list of switches.
    pub const ALL: [(&str, Spill); 5] = [
        ("vcpu-page", Spill::VcpuPage),
        ("trap-private", Spill::TrapPrivate),
        ("trap-shared", Spill::TrapShared),
        ("tpidrurw", Spill::Tpidrurw),
        ("pmccntr", Spill::Pmccntr),
    ];

    /// The technique of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Spill> {
        Spill::ALL.iter().find(|(known, _)| *known == name).map(|(_, spill)| *spill)
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Spill::VcpuPage => "vcpu-page",
            Spill::TrapPrivate => "trap-private",
            Spill::TrapShared => "trap-shared",
            Spill::Tpidrurw => "tpidrurw",
            Spill::Pmccntr => "pmccntr",
        }
    }

    /// Whether it makes lightweight traps.
    #[must_use]
    pub const fn traps(self) -> bool {
        matches!(self, Spill::TrapPrivate | Spill::TrapShared)
    }

    /// What frees `reg`: lightweight traps cannot reach SP and LR.
    pub(crate) const fn for_register(self, reg: Reg) -> Spill {
        if self.traps() && reg.n() >= 13 { Spill::VcpuPage } else { self }
    }
}

/// Where the value of a register is while a rule uses the register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// This slot of the vCPU page.
    Slot(u32),
    /// This word of the code cache.
    Word(CachePc),
    /// [`crate::layout::Layout::shared_slot`].
    Shared,
    /// TPIDRURW of the core.
    Tpidrurw,
    /// PMCCNTR of the core.
    Pmccntr,
}

/// At most so many words are a spill or a reload.
const MOST: usize = 6;

/// The words of a spill or a reload.
pub(crate) struct Sequence {
    words: [u32; MOST],
    len: usize,
}

impl Sequence {
    /// One word.
    pub(crate) fn one(word: u32) -> Sequence {
        let mut words = [0; MOST];
        words[0] = word;
        Sequence { words, len: 1 }
    }

    /// By a lightweight trap, where `cond` holds; `inner` are the privileged words.
    pub(crate) fn trapping(cond: Cond, inner: &[u32]) -> Sequence {
        let mut sequence = Sequence { words: [0; MOST], len: 0 };
        let mut push = |word| {
            sequence.words[sequence.len] = word;
            sequence.len += 1;
        };
        if let Some(inverse) = cond.inverse() {
            // Over the whole; the PC is two words on.
            push(asm::b(inverse, 4 * (inner.len() as i32 + 1)).unwrap_or(asm::NOP));
        }
        push(TRAP);
        inner.iter().copied().for_each(&mut push);
        push(RETURN);
        sequence
    }

    /// The words.
    pub(crate) fn words(&self) -> &[u32] {
        &self.words[..self.len]
    }
}

/// Words between the start of a trapping sequence and its first privileged one.
pub(crate) const fn before_inner(cond: Cond) -> usize {
    if matches!(cond, Cond::Al) { 1 } else { 2 }
}
