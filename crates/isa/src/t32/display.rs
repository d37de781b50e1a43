//! UAL text of T32 instructions, as of A32 ones (see the parent's `display`): what is an A32 instruction has its text.
//!
//! The condition of an IT block is a suffix of the mnemonic, also where A32 has no condition (`dsbeq sy`). Registers
//! are written even where assemblers allow to leave them out (`adds r0, r0, #1`), and there is no `.w`: the text says
//! what an instruction does, not how it is encoded. Offsets of branches count from the instruction (`b .+16`).

use core::fmt::{self, Write};

use super::{Decoded, ItState, MemDual, Op, OrNotOperand};
use crate::display::{Hex, Imm, List, Shifted, bang, load_store};
use crate::{Cond, MemMultiple, Operand2, Reg};

impl fmt::Display for Decoded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let c = self.cond;
        match self.op {
            Op::A32(same) => match same.op {
                crate::Op::Vfp => inst(f, *self, if same.uncond { "simd" } else { "vfp" }),
                crate::Op::VirtExt => inst(f, *self, "virtualisation extensions"),
                _ => a32(f, c, same),
            },
            Op::DataProcessing { op, s, rd, rn, imm } => {
                write!(f, "{op}{}{c} ", flags(s && !op.is_test()))?;
                if !op.is_test() {
                    write!(f, "{rd}, ")?;
                }
                if op.has_rn() {
                    write!(f, "{rn}, ")?;
                }
                write!(f, "{}", Imm(imm.value()))
            }
            Op::OrNot { s, rd, rn, op2 } => {
                write!(f, "orn{}{c} {rd}, {rn}, ", flags(s))?;
                match op2 {
                    OrNotOperand::Imm(imm) => write!(f, "{}", Imm(imm.value())),
                    OrNotOperand::Shifted { rm, shift, amount } => write!(f, "{}", Shifted(rm, shift, amount)),
                }
            }
            Op::AddWide { subtract, rd, rn, imm } => {
                write!(f, "{}w{c} {rd}, {rn}, {}", if subtract { "sub" } else { "add" }, Imm(u32::from(imm)))
            }
            Op::Mem(mem) => load_store(f, c, &mem),
            Op::MemDual(m) => dual(f, c, &m),
            Op::LoadExclusive { rt, rt2: Some(rt2), rn, .. } => write!(f, "ldrexd{c} {rt}, {rt2}, [{rn}]"),
            Op::LoadExclusive { rt, rn, offset, .. } => {
                write!(f, "ldrex{c} {rt}, [{rn}, {}]", Imm(u32::from(offset)))
            }
            Op::StoreExclusive { rd, rt, rt2: Some(rt2), rn, .. } => {
                write!(f, "strexd{c} {rd}, {rt}, {rt2}, [{rn}]")
            }
            Op::StoreExclusive { rd, rt, rn, offset, .. } => {
                write!(f, "strex{c} {rd}, {rt}, [{rn}, {}]", Imm(u32::from(offset)))
            }
            Op::Branch { link, offset } => write!(f, "b{}{c} .{:+}", if link { "l" } else { "" }, offset + 4),
            Op::BranchLinkExchangeImm { offset } => write!(f, "blx{c} .{:+}", offset + 4),
            Op::CompareBranch { nonzero, rn, offset } => {
                write!(f, "cb{}z {rn}, .{:+}", if nonzero { "n" } else { "" }, i32::from(offset) + 4)
            }
            Op::TableBranch { half: false, rn, rm } => write!(f, "tbb{c} [{rn}, {rm}]"),
            Op::TableBranch { rn, rm, .. } => write!(f, "tbh{c} [{rn}, {rm}, lsl #1]"),
            Op::IfThen(state) => if_then(f, state),
            Op::ThumbEe { enter } => f.write_str(if enter { "enterx" } else { "leavex" }),
            Op::Hint => inst(f, *self, "memory hint"),
            Op::Undefined => match self.code.bits() {
                narrow if narrow >> 8 == 0b1101_1110 => write!(f, "udf {}", Imm(narrow & 0xff)),
                wide if wide & 0xfff0_f000 == 0xf7f0_a000 => {
                    write!(f, "udf {}", Imm(wide >> 4 & 0xf000 | wide & 0xfff))
                }
                _ => inst(f, *self, "undefined"),
            },
            Op::Unpredictable => inst(f, *self, "unpredictable"),
        }
    }
}

const fn flags(s: bool) -> &'static str {
    if s { "s" } else { "" }
}

/// What has no text of its own, as an assembler takes it.
fn inst(f: &mut fmt::Formatter<'_>, d: Decoded, what: &str) -> fmt::Result {
    if d.code.is_wide() {
        write!(f, ".inst.w {:#010x} @ {what}", d.code.bits())
    } else {
        write!(f, ".inst.n {:#06x} @ {what}", d.code.bits())
    }
}

/// An A32 instruction. Its constants are written as what they stand for: how A32 encodes them is of no interest.
fn a32(f: &mut fmt::Formatter<'_>, c: Cond, same: crate::Decoded) -> fmt::Result {
    let canonical = match same.op {
        crate::Op::DataProcessing { op, s, rd, rn, op2: Operand2::Imm(imm) } => {
            let imm = crate::ModImm::encode(imm.value()).unwrap_or(imm);
            let op2 = Operand2::Imm(imm);
            crate::Decoded { op: crate::Op::DataProcessing { op, s, rd, rn, op2 }, ..same }
        }
        // In T32, PUSH and POP of one register are no other instructions (A8.8.131, A8.8.133).
        crate::Op::MemMultiple(MemMultiple {
            load,
            before,
            increment,
            user: false,
            writeback: true,
            rn: Reg::SP,
            regs,
        }) if regs.count_ones() == 1 && before != load && increment == load => {
            return write!(f, "{}{c} {}", if load { "pop" } else { "push" }, List(regs));
        }
        _ => same,
    };
    if !same.uncond || matches!(c, Cond::Al) {
        return write!(f, "{canonical}");
    }
    let mut suffixed = Suffixed { f, cond: Some(c) };
    write!(suffixed, "{canonical}")?;
    suffixed.finish()
}

/// Writes a condition behind the first word, which is the mnemonic of an instruction that has none in A32.
struct Suffixed<'a, 'b> {
    f: &'a mut fmt::Formatter<'b>,
    cond: Option<Cond>,
}

impl Suffixed<'_, '_> {
    fn finish(&mut self) -> fmt::Result {
        self.cond.take().map_or(Ok(()), |cond| write!(self.f, "{cond}"))
    }
}

impl Write for Suffixed<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        match text.find(' ') {
            Some(end) => {
                self.f.write_str(&text[..end])?;
                self.finish()?;
                self.f.write_str(&text[end..])
            }
            None => self.f.write_str(text),
        }
    }
}

fn dual(f: &mut fmt::Formatter<'_>, c: Cond, m: &MemDual) -> fmt::Result {
    let name = if m.load { "ldrd" } else { "strd" };
    let sign = if m.add { "" } else { "-" };
    write!(f, "{name}{c} {}, {}, [{}", m.rt, m.rt2, m.rn)?;
    let offset = Hex(u32::from(m.offset));
    match (m.pre, m.writeback) {
        (true, false) if m.add && m.offset == 0 => f.write_str("]"),
        (true, writeback) => write!(f, ", #{sign}{offset}]{}", bang(writeback)),
        (false, _) => write!(f, "], #{sign}{offset}"),
    }
}

/// IT with a T or an E for each instruction behind the first (A8.8.54), and the condition of that one.
fn if_then(f: &mut fmt::Formatter<'_>, state: ItState) -> fmt::Result {
    let bits = u32::from(state.bits());
    f.write_str("it")?;
    let behind = 3 - (bits & 15).trailing_zeros().min(3);
    (0..behind).try_for_each(|n| f.write_str(if (bits >> (3 - n) ^ bits >> 4) & 1 == 0 { "t" } else { "e" }))?;
    match state.cond() {
        Cond::Al => f.write_str(" al"),
        cond => write!(f, " {cond}"),
    }
}
