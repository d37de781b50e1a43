//! The text of T32 instructions, compared with capstone's; the parent's `text` says more.

use super::super::text::{Reading, condition_name, names_pc, normalise, number};
use super::cases::Case;
use crate::work::Work;
use capstone::prelude::*;
use spica_isa::Cond;
use spica_isa::t32::{Decoded, ItState, Op, decode};
use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt::Write as _;

/// Where the instruction is, so that there is room before it.
const ADDRESS: u32 = 0x1_0000;

/// Shows capstone the instruction, behind the IT that makes the state, and puts its text in our terms into `out`; false
/// where it knows no instruction.
fn theirs(capstone: &Capstone, case: Case, cond: Cond, out: &mut String) -> bool {
    out.clear();
    let bits = case.code.bits();
    let (first, second) = if case.code.is_wide() { ((bits >> 16) as u16, bits as u16) } else { (bits as u16, 0) };
    let it = 0xbf00 | u16::from(case.it.bits());
    let mut bytes = [0; 6];
    for (place, half) in bytes.chunks_exact_mut(2).zip([it, first, second]) {
        place.copy_from_slice(&half.to_le_bytes());
    }
    let in_block = case.it != ItState::OUTSIDE;
    let code = if in_block { &bytes[..] } else { &bytes[2..] };
    let code = &code[..code.len() - if case.code.is_wide() { 0 } else { 2 }];
    let address = u64::from(ADDRESS) - if in_block { 2 } else { 0 };
    // Not with its iterator, which never forgets an IT.
    let all = capstone.disasm_count(code, address, 1 + usize::from(in_block)).expect("capstone runs");
    let Some(instruction) = all.get(usize::from(in_block)) else { return false };
    assert_eq!(instruction.bytes().len() as u32, case.code.length(), "capstone reads {case} as another length");
    let (mnemonic, operands) = (instruction.mnemonic().expect("a build with text"), instruction.op_str().unwrap_or(""));
    let (mnemonic, operands) = address_of(mnemonic, operands, case.code.is_wide());
    // A narrow sum with SP has SP first (A8.8.10).
    let register = operands.split_once(", sp, ").filter(|(one, other)| one == other && !case.code.is_wide());
    match register {
        Some((register, _)) if mnemonic.starts_with("add") => {
            spell(&mnemonic, &format!("{register}, {register}, sp"), cond, out);
        }
        _ => spell(&mnemonic, &operands, cond, out),
    }
    true
}

/// ADR by its other name, ADD or SUB of the PC (A8.8.12); else what it is.
fn address_of<'a>(mnemonic: &'a str, operands: &'a str, wide: bool) -> (Cow<'a, str>, Cow<'a, str>) {
    let (Some(condition), Some((register, offset))) = (mnemonic.strip_prefix("adr"), operands.split_once(", #")) else {
        return (mnemonic.into(), operands.into());
    };
    let condition = condition.strip_suffix(".w").unwrap_or(condition);
    let w = if wide { "w" } else { "" };
    match offset.strip_prefix('-') {
        Some(offset) => (format!("sub{w}{condition}").into(), format!("{register}, pc, #{offset}").into()),
        None => (format!("add{w}{condition}").into(), format!("{register}, pc, #{offset}").into()),
    }
}

/// Mnemonics whose first operand, the destination, UAL may leave out if it is the second as well.
const TWO_OPERANDS: [&str; 13] =
    ["add", "sub", "and", "eor", "orr", "bic", "adc", "sbc", "lsl", "lsr", "asr", "ror", "mul"];

/// Capstone's text in our terms.
fn spell(mnemonic: &str, operands: &str, cond: Cond, out: &mut String) {
    let mnemonic = mnemonic.strip_suffix(".w").unwrap_or(mnemonic);
    let operands = match operands {
        "hs" => "cs",
        "lo" => "cc",
        operands => operands,
    };
    let mnemonic = condition_name(mnemonic, cond as u32);
    let register = operands.split(", ").next().unwrap_or("");
    let rest = operands.strip_prefix(register).unwrap_or("").trim_start_matches(", ");
    normalise(&mnemonic, out);
    if !operands.is_empty() {
        out.push(' ');
    }
    // A branch has an address there, and a distance here.
    let target = |text: &str| text.strip_prefix('#').and_then(number).map(|target| target.wrapping_sub(ADDRESS) as i32);
    // An offset of 0 that is added may be left out.
    if let Some(register) = operands.strip_suffix("[pc, #0]") {
        normalise(&format!("{register}[pc]"), out);
    } else if mnemonic.starts_with('b')
        && !["bkpt", "bfc", "bfi", "bic"].iter().any(|name| mnemonic.starts_with(name))
        && let Some(distance) = target(operands)
    {
        normalise(&format!(".{distance:+}"), out);
    } else if mnemonic.starts_with("cb")
        && let Some(distance) = target(rest)
    {
        normalise(&format!("{register}, .{distance:+}"), out);
    } else if TWO_OPERANDS.iter().any(|name| mnemonic.starts_with(name)) && rest.split(", ").count() == 1 {
        normalise(&format!("{register}, {operands}"), out);
    } else if let Some((rest, negative)) = operands.split_once("#-")
        && !rest.contains('[')
        && let Some(number) = number(negative)
    {
        // A constant is no offset: the same 32 bits without a sign.
        normalise(&format!("{rest}#{:#x}", number.wrapping_neg()), out);
    } else {
        normalise(operands, out);
    }
}

/// The A32 instruction that is this one; in the coprocessor and Advanced SIMD spaces, where the bits are those of A32,
/// also if it is not allocated (A6.3.18, A7.4, A7.7).
fn a32(d: &Decoded) -> Option<spica_isa::Decoded> {
    let bits = d.code.bits();
    let word = match (d.op, bits >> 24) {
        (Op::A32(same), _) => return Some(same),
        (_, 0xef | 0xff) => 0xf200_0000 | bits >> 28 << 24 & 0x0100_0000 | bits & 0x00ff_ffff,
        (_, 0xf9) if bits >> 20 & 1 == 0 => 0xf400_0000 | bits & 0x00ff_ffff,
        (_, 0xec..=0xee | 0xfc..=0xfe) => bits,
        _ => return None,
    };
    Some(spica_isa::decode(word))
}

/// The allow-list: why the two decoders may differ on this instruction. What holds for A32 holds for T32.
fn expected(d: &Decoded, theirs: Option<&str>) -> Option<&'static str> {
    let a32 = a32(d);
    if let Some(reason) = a32.and_then(|a32| super::super::text::expected(&a32, theirs)) {
        return Some(reason);
    }
    let mnemonic = theirs.map(|theirs| theirs.split_once(' ').map_or(theirs, |(mnemonic, _)| mnemonic));
    match (d.op, mnemonic) {
        (Op::Hint, None) => Some("A6.3.8, A6.3.9: unallocated memory hints execute as NOP; capstone rejects them"),
        (Op::ThumbEe { .. }, None) => Some("A9.3.1: ENTERX and LEAVEX; capstone does not know ThumbEE"),
        (Op::A32(_), Some("eret")) => Some("B9.3.19: SUBS PC, LR, #0 is ERET of the virtualisation extensions"),
        (Op::Undefined, Some("trap")) => Some("A8.8.247: two UDFs that toolchains call TRAP"),
        (Op::Undefined, Some(name)) if name.starts_with("stl") || name.starts_with("lda") => {
            Some("A6.3.6: loads that acquire and stores that release came with ARMv8")
        }
        _ => None,
    }
}

/// What a thread needs: not to be shared, and slow to make.
struct Reader {
    thumb: Capstone,
    arm: Capstone,
    /// Texts as they come, and in one spelling.
    text: String,
    ours: String,
    theirs: String,
    a32: String,
}

impl Reader {
    fn new() -> Reader {
        let capstone = |mode| Capstone::new().arm().mode(mode).build().expect("capstone has the decoder built in");
        Reader {
            thumb: capstone(arch::arm::ArchMode::Thumb),
            arm: capstone(arch::arm::ArchMode::Arm),
            text: String::new(),
            ours: String::new(),
            theirs: String::new(),
            a32: String::new(),
        }
    }

    fn read(&mut self, case: Case) -> Reading {
        let d = decode(case.code, case.it);
        if d.op == Op::Unpredictable {
            return Reading::Same;
        }
        let Reader { thumb, arm, text, ours, theirs: buffer, a32 } = self;
        let theirs = theirs(thumb, case, d.cond, buffer).then_some(buffer.as_str());
        text.clear();
        ours.clear();
        let _ = write!(text, "{d}");
        normalise(text, ours);
        let agree = match (d.op, theirs) {
            (Op::Undefined, None) => true,
            (Op::A32(same), Some(theirs)) => match same.op {
                // Only a class. But capstone has a text for the A32 instruction that it is said to be.
                spica_isa::Op::Vfp => {
                    let known = super::super::text::theirs(arm, same.word, a32);
                    if same.uncond {
                        let end = a32.find(['.', ' ']).unwrap_or(a32.len());
                        a32.insert_str(end, &d.cond.to_string());
                    }
                    known && a32 == theirs && theirs.starts_with('v') && !names_pc(theirs)
                }
                spica_isa::Op::VirtExt => true,
                spica_isa::Op::Plain | spica_isa::Op::Divide | spica_isa::Op::Exclusive => {
                    ours == theirs && !names_pc(theirs)
                }
                _ => ours == theirs,
            },
            (_, Some(theirs)) => ours == theirs,
            _ => false,
        };
        if agree {
            return Reading::Same;
        }
        match expected(&d, theirs) {
            Some(reason) => Reading::Known(reason),
            None => Reading::Wrong(format!("{case}: {:?}\nours:     {ours}\ncapstone: {theirs:?}", d.op)),
        }
    }
}

thread_local! {
    static READER: RefCell<Reader> = RefCell::new(Reader::new());
}

/// Panics if the texts differ; counts the known differences.
pub fn check(case: Case, work: &Work) {
    READER.with_borrow_mut(|reader| reader.read(case)).settle(work);
}

#[cfg(test)]
mod tests {
    use super::*;
    use spica_isa::t32::Code;

    /// Each IT instruction, and behind it four times `adds r0, r1, r2`.
    #[test]
    fn blocks_advance_as_capstone_says() {
        let reader = Reader::new();
        for state in (0..0xe0).map(ItState::new).filter(|state| state.in_block()) {
            let it = 0xbf00 | u16::from(state.bits());
            let code = [it, 0x1888, 0x1888, 0x1888, 0x1888].map(u16::to_le_bytes).concat();
            let theirs = reader.thumb.disasm_count(&code, 0, 5).expect("capstone runs");
            let mut state = state;
            for theirs in theirs.iter().skip(1) {
                let d = decode(Code::new(0x1888, 0), state);
                let mut text = String::new();
                spell(theirs.mnemonic().unwrap(), theirs.op_str().unwrap(), d.cond, &mut text);
                assert_eq!(d.to_string(), text, "behind {it:#x}");
                state = state.advance();
            }
            assert_eq!(theirs.len(), 5);
        }
    }
}
