//! Where a rule puts the register that it needs for itself: the vCPU page, or one of STAR's four techniques (§4), which
//! are there to be compared with it.
//!
//! | technique                | spill                                          | reload                              |
//! |--------------------------|------------------------------------------------|-------------------------------------|
//! | [`Spill::VcpuPage`]      | `STR rs, [PC, #…]`                             | `LDR rs, [PC, #…]`                  |
//! | [`Spill::TrapPrivate`]   | [`TRAP`]; `STR rs, [PC, #…]`; [`RETURN`]       | `LDR rs, [PC, #…]`                  |
//! | [`Spill::TrapShared`]    | [`TRAP`]; `LR` = slot; `STR rs, [LR]`; [`RETURN`] | [`TRAP`]; `LR` = slot; `LDR rs, [LR]`; [`RETURN`] |
//! | [`Spill::Tpidrurw`]      | `MCR p15, 0, rs, c13, c0, 2`                   | `MRC`                               |
//! | [`Spill::Pmccntr`]       | `MCR p15, 0, rs, c9, c13, 0`                   | `MRC`                               |
//!
//! A **lightweight trap** is an Undefined Instruction exception whose handler goes on behind the instruction, in
//! Undefined mode: the next words of the code cache are privileged. [`RETURN`] takes them back to User mode, flags
//! included. The private slot lies in the cold part of the block itself, which User mode can read; the shared one is
//! privileged memory ([`crate::layout::Layout::shared_slot`]).
//!
//! That is unsafe by nature, and never in the shipped image: feature `papers`. What is done about it: the handler looks
//! at SPSR.T and at the word that trapped, and *no word of a code page is [`TRAP`] but those that begin such a
//! sequence*. Literals that would be it are made otherwise (`literal`), pages are emptied before they are used again,
//! and the word behind a private slot, to which a guest can write anything by jumping to the sequence, is a [`RETURN`].
//!
//! SP and LR of Undefined mode are not User mode's, so a rule that has no other register to spill takes the vCPU page
//! with lightweight traps, too.

use core::ops::Deref;

use crate::emit::{self, Emitter};
use crate::layout::Layout;
use crate::options::Spill;
use spica_addr::CachePc;
use spica_isa::{Cond, Reg, asm};

/// The instruction of a lightweight trap: undefined (A5.7), and the one that STAR has.
pub const TRAP: u32 = 0xffff_ffff;
/// `SUBS PC, PC, #4`: to the next instruction, with the SPSR as CPSR (B9.3.20).
pub const RETURN: u32 = 0xe25f_f004;
/// What a guest's own [`TRAP`] is to the interpreter: as undefined as that.
pub(crate) const UNDEFINED: u32 = asm::udf(0);

impl Spill {
    /// Whether it makes lightweight traps.
    #[must_use]
    pub const fn traps(self) -> bool {
        matches!(self, Spill::TrapPrivate | Spill::TrapShared)
    }

    /// What frees `reg`: lightweight traps cannot reach SP and LR.
    const fn for_register(self, reg: Reg) -> Spill {
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
    /// [`Layout::shared_slot`].
    Shared,
    /// TPIDRURW of the core.
    Tpidrurw,
    /// PMCCNTR of the core.
    Pmccntr,
}

/// The room that a block needs for one more guest instruction, where spills and reloads are longer: see [`emit::ROOM`].
const ROOM_TO_TRAP: usize = 48;

/// How an emitter spills registers.
pub(crate) struct Spilling {
    technique: Spill,
    shared_slot: u32,
    /// Where the code page is.
    page: CachePc,
    /// The block's private slot, once it has one.
    private_slot: Option<usize>,
}

impl Spilling {
    /// By `technique`, in the code page at `page`, in a code cache that lies as `layout` says.
    pub(crate) const fn new(technique: Spill, layout: &Layout, page: CachePc) -> Self {
        Self { technique, shared_slot: layout.shared_slot(), page, private_slot: None }
    }

    /// The room that a block needs for one more guest instruction.
    pub(crate) const fn room(&self) -> usize {
        room(self.technique)
    }
}

/// The same, with `technique`.
pub(crate) const fn room(technique: Spill) -> usize {
    if technique.traps() { ROOM_TO_TRAP } else { emit::ROOM }
}

impl Emitter<'_> {
    /// Where `reg` is when it is spilled.
    pub(crate) fn place(&self, reg: Reg) -> Place {
        match self.spilling.technique.for_register(reg) {
            Spill::VcpuPage => Place::Slot(0),
            Spill::TrapPrivate => Place::Word(self.private_slot()),
            Spill::TrapShared => Place::Shared,
            Spill::Tpidrurw => Place::Tpidrurw,
            Spill::Pmccntr => Place::Pmccntr,
        }
    }

    /// Where the private slot is.
    fn private_slot(&self) -> CachePc {
        let slot = self.spilling.private_slot.unwrap_or_default();
        CachePc(self.spilling.page.0 + 4 * slot as u32)
    }

    /// Gives the block its private slot, if spilling `reg` needs it. A guest can have any word written there: what
    /// comes behind leads back to User mode.
    pub(crate) fn make_slot(&mut self, reg: Reg) {
        if self.spilling.technique.for_register(reg) == Spill::TrapPrivate && self.spilling.private_slot.is_none() {
            self.spilling.private_slot = Some(self.emit_cold(&[0, RETURN]));
        }
    }

    /// A spill or a reload as it reads at word `at`.
    pub(crate) fn spilled_access(&self, at: usize, load: bool, cond: Cond, reg: Reg) -> Sequence {
        match self.spilling.technique.for_register(reg) {
            Spill::VcpuPage => Sequence::one(Self::field_access(at, load, cond, reg, spica_vcpu::field::spill(0))),
            Spill::Tpidrurw => Sequence::one(asm::cp15(load, cond, reg, 13, 0, 2)),
            Spill::Pmccntr => Sequence::one(asm::cp15(load, cond, reg, 9, 13, 0)),
            Spill::TrapPrivate => {
                let Some(slot) = self.spilling.private_slot else { unreachable!("it was spilled") };
                // User mode may read code pages.
                let at = if load { at } else { at + before_inner(cond) };
                let inner = if load { cond } else { Cond::Al };
                match asm::ldr_str(load, inner, reg, Reg::PC, Self::relative(at, slot)) {
                    Some(word) if load => Sequence::one(word),
                    Some(word) => Sequence::trapping(cond, &[word]),
                    None => unreachable!("a page is within reach of itself"),
                }
            }
            Spill::TrapShared => {
                let (al, slot) = (Cond::Al, self.spilling.shared_slot);
                let low = asm::movw(al, Reg::LR, slot as u16);
                let high = asm::movt(al, Reg::LR, (slot >> 16) as u16);
                let access = asm::ldr_str(load, al, reg, Reg::LR, 0).unwrap_or(asm::NOP);
                Sequence::trapping(cond, &[low, high, access])
            }
        }
    }
}

/// A guest's instruction as a literal: no literal is a lightweight trap, and what stands for one is as undefined.
pub(crate) const fn literal(word: u32) -> u32 {
    if word == TRAP { UNDEFINED } else { word }
}

/// The same for the bits of a T32 instruction: `UDF.W #0` (A8.8.247).
pub(crate) const fn literal_t32(code: u32) -> u32 {
    if code == TRAP { 0xf7f0_a000 } else { code }
}

impl Layout {
    /// VA of the word to which registers are spilled with [`Spill::TrapShared`]: behind the last data page, for
    /// privileged code only.
    #[must_use]
    pub const fn shared_slot(&self) -> u32 {
        self.base.wrapping_add(self.va_size())
    }
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
    fn one(word: u32) -> Sequence {
        let mut words = [0; MOST];
        words[0] = word;
        Sequence { words, len: 1 }
    }

    /// By a lightweight trap, where `cond` holds; `inner` are the privileged words.
    fn trapping(cond: Cond, inner: &[u32]) -> Sequence {
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
}

impl Deref for Sequence {
    type Target = [u32];

    fn deref(&self) -> &[u32] {
        &self.words[..self.len]
    }
}

/// Words between the start of a trapping sequence and its first privileged one.
const fn before_inner(cond: Cond) -> usize {
    if matches!(cond, Cond::Al) { 1 } else { 2 }
}
