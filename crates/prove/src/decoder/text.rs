//! Our decoder against an independent one: the text of every instruction, compared with capstone's.
//!
//! The text has everything in it that a decoder can get wrong: which instruction it is, its registers, immediates and
//! condition. The two may differ only where `expected` says so, with the manual's section as the reason. What is
//! not compared is the text of UNPREDICTABLE encodings: capstone prints most of them and rejects some.

use crate::part::{Failure, Part};
use crate::work::Work;
use capstone::prelude::*;
use spica_isa::{Cond, Decoded, Mem, Offset, Op, decode};
use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt::Write as _;

/// Puts capstone's text in our terms into `out`; false where it knows no instruction.
pub(super) fn theirs(capstone: &Capstone, word: u32, out: &mut String) -> bool {
    out.clear();
    let bytes = word.to_le_bytes();
    // One at a time: it stops at what is no instruction, and branches have addresses.
    let mut one = capstone.disasm_iter(&bytes, 0).expect("capstone runs");
    let Some(instruction) = one.next() else { return false };
    let mnemonic = instruction.mnemonic().expect("a build with text");
    let operands = instruction.op_str().unwrap_or("");
    normalise(&condition_name(mnemonic, word >> 28), out);
    if !operands.is_empty() {
        out.push(' ');
    }
    // A branch has an address there, and a distance here; the address of the instruction is 0 for both.
    match operands.strip_prefix('#').and_then(number) {
        Some(target) if mnemonic.starts_with('b') && !mnemonic.starts_with("bkpt") => {
            normalise(&format!(".{:+}", target as i32), out);
        }
        _ => normalise(operands, out),
    }
    true
}

/// A mnemonic under the condition of number `cond`, of which two have another name: it stands before the data type.
pub(super) fn condition_name(mnemonic: &str, cond: u32) -> Cow<'_, str> {
    let (name, data_type) = mnemonic.split_at(mnemonic.find('.').unwrap_or(mnemonic.len()));
    match (cond, name.strip_suffix("hs"), name.strip_suffix("lo")) {
        (2, Some(stem), _) => format!("{stem}cs{data_type}").into(),
        (3, _, Some(stem)) => format!("{stem}cc{data_type}").into(),
        _ => mnemonic.into(),
    }
}

/// One spelling for numbers (hexadecimal, 32 bits), for registers, and for blanks, behind what is in `out`.
pub(super) fn normalise(text: &str, out: &mut String) {
    let mut rest = text.trim();
    while let Some(&first) = rest.as_bytes().first() {
        let length = if first.is_ascii_alphanumeric() {
            rest.bytes().take_while(|c| c.is_ascii_alphanumeric() || *c == b'_').count()
        } else {
            1
        };
        let (token, tail) = rest.split_at(length);
        match token {
            "sb" => out.push_str("r9"),
            "sl" => out.push_str("r10"),
            "fp" => out.push_str("r11"),
            "ip" => out.push_str("r12"),
            // MSR and MRS have other names at application level, without other meaning (A8.8.109, A8.8.111).
            "apsr" => out.push_str("cpsr"),
            "apsr_nzcvq" => out.push_str("cpsr_f"),
            "apsr_g" => out.push_str("cpsr_s"),
            "apsr_nzcvqg" => out.push_str("cpsr_fs"),
            _ => match number(token) {
                Some(n @ 0..=9) => out.push(char::from(b'0' + n as u8)),
                Some(n) => drop(write!(out, "{n:x}")),
                None => out.push_str(token),
            },
        }
        rest = tail;
    }
}

pub(super) fn number(token: &str) -> Option<u32> {
    if !token.starts_with(|first: char| first.is_ascii_digit()) {
        return None;
    }
    match token.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => token.parse().ok(),
    }
}

/// The allow-list: why the two decoders may differ on this instruction.
pub(super) fn expected(d: &Decoded, theirs: Option<&str>) -> Option<&'static str> {
    let Some(theirs) = theirs else {
        return match d.op {
            Op::Hint if d.uncond => Some("A5.7.1: unallocated memory hints execute as NOP; capstone rejects them"),
            Op::VirtExt => Some("B9.3.3, B9.3.9, B9.3.10: should-be bits are of no interest where all are UNDEFINED"),
            Op::VfpMem { multiple: true, .. } if d.word & 0x101 == 0x101 => {
                Some("A8.8.50: FLDMX and FSTMX are VLDM and VSTM, with any base and 32 registers where those have them")
            }
            Op::VfpSystem { load: false, sysreg: 5..=7, .. } => {
                Some("B9.3.22: the feature registers cannot be written; sensitive in any case")
            }
            Op::VfpSystem { sysreg: 2..=4 | 11..=15, .. } => {
                Some("A8.8.348, A8.8.349: registers that only some subarchitecture may have; sensitive in any case")
            }
            _ => None,
        };
    };
    let (mnemonic, _) = theirs.split_once(' ').unwrap_or((theirs, ""));
    let coprocessor = d.word >> 8 & 15;
    match d.op {
        Op::Mem(Mem { add: false, offset: Offset::Imm(4), .. }) if mnemonic.starts_with("pop") => {
            Some("A8.8.131: POP of one register adds 4 to SP; capstone has it for a subtraction, too")
        }
        Op::DataSyncBarrier { .. } if ["dfb", "ssbb", "pssbb"].iter().any(|name| mnemonic.starts_with(name)) => {
            Some("A8.8.44: options of DSB that ARMv8 named, SY in ARMv7")
        }
        Op::Hint if ["csdb", "esb"].iter().any(|name| mnemonic.starts_with(name)) => {
            Some("A5.2.11: hints that ARMv8 allocated, NOP in ARMv7")
        }
        Op::Undefined if mnemonic == "trap" => Some("A8.8.247: two UDFs that toolchains call TRAP"),
        Op::Undefined if mnemonic.starts_with("vlldm") || mnemonic.starts_with("vlstm") => {
            Some("A7.6: P = U = D = 0 with writeback is UNDEFINED; ARMv8-M has lazy loads and stores there")
        }
        Op::Undefined if mnemonic.contains(".f16") => Some("A7.4: half-precision arithmetic came with ARMv8.2"),
        Op::Undefined if ["vsel", "vmaxnm", "vminnm", "vrint"].iter().any(|name| mnemonic.starts_with(name)) => {
            Some("A7.5: selection, rounding, and IEEE 754-2008 minimum and maximum came with ARMv8")
        }
        Op::Undefined if d.uncond && ["vcvta", "vcvtn", "vcvtp", "vcvtm"].iter().any(|n| mnemonic.starts_with(n)) => {
            Some("A7.5: conversion with a rounding mode of its own came with ARMv8")
        }
        Op::Undefined
            if matches!(coprocessor, 10 | 11) && (mnemonic.starts_with("ldc2") || mnemonic.starts_with("stc2")) =>
        {
            Some("A8.8.55, A8.8.198: LDC2 and STC2 are UNDEFINED for coprocessors 10 and 11")
        }
        Op::CoprocData { .. } | Op::CoprocMem { .. } | Op::CoprocMove { .. } | Op::CoprocMove2 { .. }
            if coprocessor == 9 && !mnemonic.starts_with(['m', 'c', 's', 'l']) =>
        {
            Some("A7.5: coprocessor 9 became half-precision VFP with ARMv8.2")
        }
        Op::CoprocData { .. } | Op::CoprocMem { .. } | Op::CoprocMove { .. } | Op::CoprocMove2 { .. }
            if d.uncond && matches!(coprocessor, 8 | 12 | 13) && mnemonic.starts_with('v') =>
        {
            Some("A5.7: the unconditional space of other coprocessors became Advanced SIMD with ARMv8.2")
        }
        _ => None,
    }
}

/// Whether the operands of a text name the PC.
pub(super) fn names_pc(text: &str) -> bool {
    text.split(|c: char| !c.is_ascii_alphanumeric()).any(|token| token == "pc")
}

/// The other name of a load from the stack: LDR of one register is POP (A8.8.63, A8.8.131).
fn pop(text: &str) -> Option<String> {
    let (mnemonic, register) = text.strip_suffix(", [sp], #4")?.split_once(' ')?;
    let condition = mnemonic.strip_prefix("ldr")?;
    // Neither LDRBT nor LDRSH: those are no conditions.
    let is_condition = Cond::ALL.iter().any(|one| one.to_string() == condition);
    is_condition.then(|| format!("pop{condition} {{{register}}}"))
}

/// What our reading of a word is worth.
pub(super) enum Reading {
    /// As theirs.
    Same,
    /// Another, for a reason.
    Known(&'static str),
    /// Another.
    Wrong(String),
}

impl Reading {
    /// Panics if the texts differ; counts the known differences.
    pub(super) fn settle(self, work: &Work) {
        match self {
            Reading::Same => {}
            Reading::Known(reason) => work.note(&format!("known difference: {reason}"), 1),
            Reading::Wrong(message) => panic!("{message}"),
        }
    }
}

/// What a thread needs: not to be shared, and slow to make.
struct Reader {
    capstone: Capstone,
    /// Texts as they come, and in one spelling.
    text: String,
    ours: String,
    theirs: String,
}

impl Reader {
    fn new() -> Reader {
        let capstone = Capstone::new()
            .arm()
            .mode(arch::arm::ArchMode::Arm)
            .build()
            .expect("capstone has the ARM decoder built in");
        Reader { capstone, text: String::new(), ours: String::new(), theirs: String::new() }
    }

    fn read(&mut self, word: u32) -> Reading {
        let d = decode(word);
        if d.op == Op::Unpredictable {
            return Reading::Same;
        }
        let Reader { capstone, text, ours, theirs: buffer } = self;
        let theirs = theirs(capstone, word, buffer).then_some(buffer.as_str());
        text.clear();
        ours.clear();
        let _ = write!(text, "{d}");
        normalise(pop(text).as_deref().unwrap_or(text), ours);
        let agree = match (d.op, theirs) {
            (Op::Undefined, None) => true,
            // Only classes: that there is such an instruction, and for what is copied, that the PC has no part in it.
            (Op::Vfp, Some(theirs)) => theirs.starts_with('v') && !names_pc(theirs),
            (Op::VirtExt, Some(_)) => true,
            (Op::Plain | Op::Divide | Op::Exclusive, Some(theirs)) => ours == theirs && !names_pc(theirs),
            (_, Some(theirs)) => ours == theirs,
            _ => false,
        };
        if agree {
            return Reading::Same;
        }
        match expected(&d, theirs) {
            Some(reason) => Reading::Known(reason),
            None => Reading::Wrong(format!("{word:#010x}: {:?}\nours:     {ours}\ncapstone: {theirs:?}", d.op)),
        }
    }
}

thread_local! {
    static READER: RefCell<Reader> = RefCell::new(Reader::new());
}

/// Panics if the texts differ; counts the known differences.
pub(super) fn check(word: u32, work: &Work) {
    READER.with_borrow_mut(|reader| reader.read(word)).settle(work);
}

/// Sampled words.
pub struct Text;

impl Part for Text {
    fn name(&self) -> &str {
        "decoder"
    }

    fn about(&self) -> &str {
        "sampled A32 words: their text, with all their fields, against capstone's"
    }

    fn run(&self, work: &Work) -> Result<(), Failure> {
        super::sample(work, |word| check(word, work))
    }

    fn repeat(&self, case: &str, work: &Work) -> Result<(), Failure> {
        super::repeat(case, |word| check(word, work))
    }
}
