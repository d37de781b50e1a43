//! The decoder: one function per decoding table of the manual's chapter A5, named after it and citing its section.
//!
//! The tables are written as `match` on the same bit fields, in the same order, as the manual writes them, so that each
//! can be checked against its page. There is no allocation and no table in memory: the compiler turns the matches
//! into jumps, and a decode costs a few tens of instructions. It runs once per guest instruction that is translated,
//! and once per instruction that is emulated.
//!
//! Three answers need care, because the translator copies what it is told is harmless, and the copy then runs in USR
//! mode on the real core:
//!
//! * [`Op::Undefined`]: unallocated. The guest gets its Undefined Instruction exception.
//! * [`Op::Unpredictable`]: the manual promises nothing, so neither do we execute it. This covers should-be-zero and
//!   should-be-one bits that are wrong, PC where the manual forbids it, and writeback to a register that is
//!   transferred. It never covers anything that the manual defines.
//! * everything that is copied ([`Op::Plain`], [`Op::Exclusive`], [`Op::Vfp`]): was checked to have no PC operand.
//!
//! Deliberately kept as what they are, though the manual leaves part of their effect open: STM with writeback and the
//! base in the list (the stored value is UNKNOWN unless the base is the lowest register: A8.8.199), and MCR from PC
//! (old code uses it to write registers that ignore the value). Whether a mode number in CPS or SRS is valid is a
//! question for the execution of the instruction.

mod simd;
mod simd_memory;
mod vfp;

use crate::{Cond, CpReg, Decoded, DpOp, Mem, MemMultiple, MemSize, ModImm, Offset, Op, Operand2, Reg, ShiftType};

/// Bits `hi` to `lo` of `word`, both included, as in the manual's `word<hi:lo>`.
pub(crate) const fn bits(word: u32, hi: u32, lo: u32) -> u32 {
    word >> lo & (u32::MAX >> (31 - (hi - lo)))
}

/// Whether bit `n` of `word` is set.
pub(crate) const fn bit(word: u32, n: u32) -> bool {
    word >> n & 1 != 0
}

/// The register in the four-bit field whose lowest bit is `lo`.
const fn reg(word: u32, lo: u32) -> Reg {
    Reg::new(word >> lo)
}

/// Whether the four-bit register field at `lo` names the PC.
const fn is_pc(word: u32, lo: u32) -> bool {
    bits(word, lo + 3, lo) == 15
}

/// The positions of the register fields. Which of them is `Rd` or `Rt` differs from table to table; the positions
/// don't.
const F16: u32 = 16;
const F12: u32 = 12;
const F8: u32 = 8;
const F0: u32 = 0;

/// Whether one of the register fields at `fields` names the PC.
fn any_pc(word: u32, fields: &[u32]) -> bool {
    fields.iter().any(|&lo| is_pc(word, lo))
}

/// `op` if what the manual requires of it holds, else [`Op::Unpredictable`].
const fn require(holds: bool, op: Op) -> Op {
    if holds { op } else { Op::Unpredictable }
}

/// The four shift types (A8.4.1).
pub(crate) const fn shift_type(field: u32) -> ShiftType {
    match field & 3 {
        0 => ShiftType::Lsl,
        1 => ShiftType::Lsr,
        2 => ShiftType::Asr,
        _ => ShiftType::Ror,
    }
}

/// Decodes one A32 instruction. Total: every word has an answer, and `encode(&decode(word)) == word`.
#[must_use]
pub fn decode(word: u32) -> Decoded {
    match Cond::ALL.get(bits(word, 31, 28) as usize) {
        Some(&cond) => Decoded { word, cond, uncond: false, op: conditional(word, cond) },
        None => Decoded { word, cond: Cond::Al, uncond: true, op: unconditional(word) },
    }
}

/// The register of a LDR or STR of a word at an immediate offset from its base, which stays (A8.8.62 to 64, A8.8.203):
/// what most accesses to memory are, told without decoding all of it. `None` for all else, and for the PC.
#[must_use]
pub const fn word_at_offset(word: u32) -> Option<Reg> {
    let rt = word >> 12 & 0xf;
    let is_it = word & 0x0f60_0000 == 0x0500_0000 && word >> 28 != 0xf && rt != Reg::PC.n();
    if is_it { Some(Reg::new(rt)) } else { None }
}

/// A5.1: the instruction classes, `op1` = bits 27:25, `op` = bit 4.
fn conditional(word: u32, cond: Cond) -> Op {
    match (bits(word, 27, 25), bit(word, 4)) {
        (0b000 | 0b001, _) => data_processing_and_misc(word, cond),
        (0b010, _) | (0b011, false) => load_store_word_byte(word),
        (0b011, true) => media(word),
        (0b100 | 0b101, _) => branch_and_block_transfer(word),
        _ => coprocessor_and_svc(word),
    }
}

/// A5.2: `op` = bit 25, `op1` = bits 24:20, `op2` = bits 7:4.
fn data_processing_and_misc(word: u32, cond: Cond) -> Op {
    let op1 = bits(word, 24, 20);
    // The compare opcodes without S are other instructions.
    let other = op1 & 0b11001 == 0b10000;
    if bit(word, 25) {
        return match op1 {
            0b10000 => move_wide(word, false),
            0b10100 => move_wide(word, true),
            0b10010 | 0b10110 => msr_immediate_and_hints(word),
            _ => data_processing(word, Operand2::Imm(ModImm::from_field(word))),
        };
    }
    match (bit(word, 7), bit(word, 4)) {
        (false, _) if other => miscellaneous(word, cond),
        (true, false) if other => halfword_multiply(word),
        (_, false) => data_processing(
            word,
            Operand2::Shifted {
                rm: reg(word, F0),
                shift: shift_type(bits(word, 6, 5)),
                amount: bits(word, 11, 7) as u8,
            },
        ),
        (false, true) => {
            // A5.2.2: with a register-controlled shift, no operand may be the PC.
            let op = data_processing(
                word,
                Operand2::ShiftedByReg { rm: reg(word, F0), shift: shift_type(bits(word, 6, 5)), rs: reg(word, F8) },
            );
            require(!any_pc(word, &[F16, F12, F8, F0]), op)
        }
        (true, true) => match bits(word, 6, 5) {
            0b00 if op1 & 0b10000 == 0 => multiply(word),
            0b00 => synchronization(word),
            _ => extra_load_store(word),
        },
    }
}

/// A5.2.1 to A5.2.3: the sixteen data-processing opcodes. The field of an operand that the opcode does not have
/// should be zero.
fn data_processing(word: u32, op2: Operand2) -> Op {
    const OPS: [DpOp; 16] = [
        DpOp::And,
        DpOp::Eor,
        DpOp::Sub,
        DpOp::Rsb,
        DpOp::Add,
        DpOp::Adc,
        DpOp::Sbc,
        DpOp::Rsc,
        DpOp::Tst,
        DpOp::Teq,
        DpOp::Cmp,
        DpOp::Cmn,
        DpOp::Orr,
        DpOp::Mov,
        DpOp::Bic,
        DpOp::Mvn,
    ];
    let op = OPS[bits(word, 24, 21) as usize];
    let (rd, rn) = (reg(word, F12), reg(word, F16));
    let unused_are_zero = (!op.is_test() || rd.n() == 0) && (op.has_rn() || rn.n() == 0);
    require(unused_are_zero, Op::DataProcessing { op, s: bit(word, 20), rd, rn, op2 })
}

/// MOVW and MOVT: A8.8.102 (encoding A2), A8.8.106.
fn move_wide(word: u32, top: bool) -> Op {
    let imm = (bits(word, 19, 16) << 12 | bits(word, 11, 0)) as u16;
    require(!is_pc(word, F12), Op::MoveWide { top, rd: reg(word, F12), imm })
}

/// A5.2.11: MSR (immediate) and the hints, which are MSR CPSR with an empty mask.
fn msr_immediate_and_hints(word: u32) -> Op {
    let (spsr, mask) = (bit(word, 22), bits(word, 19, 16) as u8);
    if bits(word, 15, 12) != 15 {
        return Op::Unpredictable;
    }
    if mask != 0 {
        return Op::MsrImm { spsr, mask, imm: ModImm::from_field(word) };
    }
    if spsr || bits(word, 11, 8) != 0 {
        return Op::Unpredictable;
    }
    match bits(word, 7, 0) {
        2 => Op::WaitForEvent,
        3 => Op::WaitForInterrupt,
        _ => Op::Hint,
    }
}

/// A5.2.12: `op` = bits 22:21, `op2` = bits 6:4; bit 9 (B) tells the banked register forms.
fn miscellaneous(word: u32, cond: Cond) -> Op {
    let op = bits(word, 22, 21);
    let imm16 = (bits(word, 19, 8) << 4 | bits(word, 3, 0)) as u16;
    match (bits(word, 6, 4), op) {
        (0b000, _) if bit(word, 9) => Op::VirtExt,
        (0b000, 0b00 | 0b10) => {
            let ok = bits(word, 19, 16) == 15 && bits(word, 11, 0) == 0 && !is_pc(word, F12);
            require(ok, Op::Mrs { spsr: bit(word, 22), rd: reg(word, F12) })
        }
        (0b000, _) => {
            let mask = bits(word, 19, 16) as u8;
            let ok = bits(word, 15, 4) == 0xf00 && mask != 0 && !is_pc(word, F0);
            require(ok, Op::MsrReg { spsr: bit(word, 22), mask, rn: reg(word, F0) })
        }
        (0b001, 0b01) => require(bits(word, 19, 8) == 0xfff, Op::BranchExchange { link: false, rm: reg(word, F0) }),
        (0b001, 0b11) => {
            let ok = bits(word, 19, 16) == 15 && bits(word, 11, 8) == 15 && !any_pc(word, &[F12, F0]);
            require(ok, Op::Plain) // CLZ
        }
        (0b010, 0b01) => {
            let ok = bits(word, 19, 8) == 0xfff && !is_pc(word, F0);
            require(ok, Op::BranchJazelle { rm: reg(word, F0) })
        }
        (0b011, 0b01) => {
            let ok = bits(word, 19, 8) == 0xfff && !is_pc(word, F0);
            require(ok, Op::BranchExchange { link: true, rm: reg(word, F0) })
        }
        // A5.2.6: QADD, QSUB, QDADD, QDSUB.
        (0b101, _) => require(bits(word, 11, 8) == 0 && !any_pc(word, &[F16, F12, F0]), Op::Plain),
        (0b110, 0b11) => Op::VirtExt, // ERET
        (0b111, 0b01) => require(matches!(cond, Cond::Al), Op::Breakpoint { imm: imm16 }),
        (0b111, 0b10) => require(matches!(cond, Cond::Al), Op::HypervisorCall { imm: imm16 }),
        (0b111, 0b11) => require(bits(word, 19, 8) == 0, Op::SecureMonitorCall { imm: bits(word, 3, 0) as u8 }),
        _ => Op::Undefined,
    }
}

/// A5.2.7: SMLAxy, SMLAWy, SMULWy, SMLALxy, SMULxy.
fn halfword_multiply(word: u32) -> Op {
    let inputs_ok = !any_pc(word, &[F16, F8, F0]);
    let ok = match (bits(word, 22, 21), bit(word, 5)) {
        (0b00, _) | (0b01, false) => !is_pc(word, F12),      // SMLAxy, SMLAWy
        (0b01, true) | (0b11, _) => bits(word, 15, 12) == 0, // SMULWy, SMULxy
        _ => !is_pc(word, F12) && bits(word, 15, 12) != bits(word, 19, 16), // SMLALxy
    };
    require(inputs_ok && ok, Op::Plain)
}

/// A5.2.5: MUL to SMLAL, `op` = bits 23:20.
fn multiply(word: u32) -> Op {
    let ok = match bits(word, 23, 20) {
        0b0000 | 0b0001 => bits(word, 15, 12) == 0,    // MUL
        0b0010 | 0b0011 | 0b0110 => !is_pc(word, F12), // MLA, MLS
        0b0101 | 0b0111 => return Op::Undefined,
        // UMAAL, UMULL, UMLAL, SMULL, SMLAL: the two results in different registers.
        _ => !is_pc(word, F12) && bits(word, 15, 12) != bits(word, 19, 16),
    };
    require(ok && !any_pc(word, &[F16, F8, F0]), Op::Plain)
}

/// A5.2.10: SWP, SWPB and the exclusives, `op` = bits 23:20.
fn synchronization(word: u32) -> Op {
    let (n, d, t) = (bits(word, 19, 16), bits(word, 15, 12), bits(word, 3, 0));
    let ok = match bits(word, 23, 20) {
        // SWP, SWPB
        0b0000 | 0b0100 => bits(word, 11, 8) == 0 && !any_pc(word, &[F16, F12, F0]) && n != d && n != t,
        // STREX, STREXB, STREXH
        0b1000 | 0b1100 | 0b1110 => bits(word, 11, 8) == 15 && !any_pc(word, &[F16, F12, F0]) && d != n && d != t,
        // STREXD: an even register other than LR, and its successor
        0b1010 => {
            let pair_ok = t & 1 == 0 && t != 14 && d != t && d != t + 1;
            bits(word, 11, 8) == 15 && !any_pc(word, &[F16, F12]) && d != n && pair_ok
        }
        // LDREX, LDREXB, LDREXH
        0b1001 | 0b1101 | 0b1111 => bits(word, 11, 0) == 0xf9f && !any_pc(word, &[F16, F12]),
        // LDREXD
        0b1011 => bits(word, 11, 0) == 0xf9f && !is_pc(word, F16) && d & 1 == 0 && d != 14,
        _ => return Op::Undefined,
    };
    require(ok, Op::Exclusive)
}

/// A5.2.8 and A5.2.9: halfwords, signed bytes and doublewords, and their unprivileged forms.
fn extra_load_store(word: u32) -> Op {
    let (load, size) = match (bits(word, 6, 5), bit(word, 20)) {
        (0b01, load) => (load, MemSize::Half),
        (0b10, true) => (true, MemSize::SignedByte),
        (0b11, true) => (true, MemSize::SignedHalf),
        (0b10, _) => (true, MemSize::Dual),
        _ => (false, MemSize::Dual),
    };
    let immediate = bit(word, 22);
    let offset = if immediate {
        Offset::Imm((bits(word, 11, 8) << 4 | bits(word, 3, 0)) as u16)
    } else {
        Offset::Reg { rm: reg(word, F0), shift: ShiftType::Lsl, amount: 0 }
    };
    let op = load_store(word, load, size, offset);
    let Op::Mem(mem) = op else { return op };
    if !immediate && bits(word, 11, 8) != 0 {
        return Op::Unpredictable;
    }
    if size != MemSize::Dual {
        return require(!mem.rt.is_pc(), op);
    }
    // A8.8.72 to A8.8.74, A8.8.210, A8.8.211: an even register and its successor. There is no unprivileged form.
    let (t, n) = (mem.rt.n(), mem.rn.n());
    let mut ok = t & 1 == 0 && t != 14 && !mem.unprivileged;
    ok &= !(mem.writeback && n == t + 1);
    if let (true, Offset::Reg { rm, .. }) = (load, offset) {
        ok &= rm.n() != t && rm.n() != t + 1;
    }
    require(ok, op)
}

/// A5.3: LDR, STR, LDRB, STRB and their unprivileged forms.
fn load_store_word_byte(word: u32) -> Op {
    let (load, byte) = (bit(word, 20), bit(word, 22));
    let offset = if bit(word, 25) {
        Offset::Reg { rm: reg(word, F0), shift: shift_type(bits(word, 6, 5)), amount: bits(word, 11, 7) as u8 }
    } else {
        Offset::Imm(bits(word, 11, 0) as u16)
    };
    let op = load_store(word, load, if byte { MemSize::Byte } else { MemSize::Word }, offset);
    let Op::Mem(mem) = op else { return op };
    // The PC can be stored (STR, STRT) and loaded (LDR: a branch), but LDRT cannot load it, and a byte is no address.
    let no_pc = byte || load && mem.unprivileged;
    require(!(no_pc && mem.rt.is_pc()), op)
}

/// What all single loads and stores have in common: base, indexing, and the rules about them. No index is the PC; a
/// base that is written back is neither the PC nor the register that is transferred.
fn load_store(word: u32, load: bool, size: MemSize, offset: Offset) -> Op {
    let (pre, w) = (bit(word, 24), bit(word, 21));
    let mem = Mem {
        load,
        size,
        rt: reg(word, F12),
        rn: reg(word, F16),
        offset,
        add: bit(word, 23),
        pre,
        writeback: !pre || w,
        unprivileged: !pre && w,
    };
    let base_ok = !mem.writeback || (!mem.rn.is_pc() && mem.rn != mem.rt);
    let index_ok = !matches!(offset, Offset::Reg { rm: Reg::PC, .. });
    require(base_ok && index_ok, Op::Mem(mem))
}

/// A5.4: the media instructions, `op1` = bits 24:20, `op2` = bits 7:5.
fn media(word: u32) -> Op {
    let (op1, op2) = (bits(word, 24, 20), bits(word, 7, 5));
    match op1 {
        0b00000..=0b00111 => parallel_add_subtract(word),
        0b01000..=0b01111 => packing(word),
        0b10000..=0b10111 => signed_multiply(word),
        // USAD8, USADA8: Ra = 15 is USAD8, not the PC
        0b11000 if op2 == 0 => require(!any_pc(word, &[F16, F8, F0]), Op::Plain),
        // SBFX, UBFX: the field ends within the register
        0b11010 | 0b11011 | 0b11110 | 0b11111 if op2 & 0b11 == 0b10 => {
            let ok = !any_pc(word, &[F12, F0]) && bits(word, 11, 7) + bits(word, 20, 16) <= 31;
            require(ok, Op::Plain)
        }
        // BFC, BFI: Rn = 15 is BFC, not the PC
        0b11100 | 0b11101 if op2 & 0b11 == 0b00 => {
            require(!is_pc(word, F12) && bits(word, 20, 16) >= bits(word, 11, 7), Op::Plain)
        }
        // UDF is here, as 0b11111 with `op2` = 0b111.
        _ => Op::Undefined,
    }
}

/// A5.4.1 and A5.4.2: parallel addition and subtraction.
fn parallel_add_subtract(word: u32) -> Op {
    if bits(word, 21, 20) == 0 || matches!(bits(word, 7, 5), 0b101 | 0b110) {
        return Op::Undefined;
    }
    require(bits(word, 11, 8) == 15 && !any_pc(word, &[F16, F12, F0]), Op::Plain)
}

/// A5.4.3: packing, unpacking, saturation and reversal, `op1` = bits 22:20, `op2` = bits 7:5.
fn packing(word: u32) -> Op {
    let ok = match (bits(word, 22, 20), bits(word, 7, 5)) {
        // PKHBT, PKHTB
        (0b000, 0b000 | 0b010 | 0b100 | 0b110) => !any_pc(word, &[F16, F12, F0]),
        // SSAT, USAT
        (0b010 | 0b011 | 0b110 | 0b111, 0b000 | 0b010 | 0b100 | 0b110) => !any_pc(word, &[F12, F0]),
        // SEL
        (0b000, 0b101) => bits(word, 11, 8) == 15 && !any_pc(word, &[F16, F12, F0]),
        // SSAT16, USAT16
        (0b010 | 0b110, 0b001) => bits(word, 11, 8) == 15 && !any_pc(word, &[F12, F0]),
        // SXTAB16, SXTAB, SXTAH and the unsigned ones: Rn = 15 is the form that does not add, not the PC
        (0b000 | 0b010 | 0b011 | 0b100 | 0b110 | 0b111, 0b011) => bits(word, 9, 8) == 0 && !any_pc(word, &[F12, F0]),
        // REV, REV16, RBIT, REVSH
        (0b011 | 0b111, 0b001 | 0b101) => {
            bits(word, 19, 16) == 15 && bits(word, 11, 8) == 15 && !any_pc(word, &[F12, F0])
        }
        _ => return Op::Undefined,
    };
    require(ok, Op::Plain)
}

/// A5.4.4: signed multiplies of the media space, and the divisions. `Ra` (bits 15:12) of 15 selects the form that
/// does not accumulate, where there is one.
fn signed_multiply(word: u32) -> Op {
    let operands_ok = !any_pc(word, &[F16, F8, F0]);
    match (bits(word, 22, 20), bits(word, 7, 5)) {
        // SMLAD, SMUAD, SMLSD, SMUSD; SMMLA, SMMUL
        (0b000, 0b000..=0b011) | (0b101, 0b000 | 0b001) => require(operands_ok, Op::Plain),
        // SMMLS
        (0b101, 0b110 | 0b111) => require(operands_ok && !is_pc(word, F12), Op::Plain),
        // SMLALD, SMLSLD
        (0b100, 0b000..=0b011) => {
            let results_ok = !is_pc(word, F12) && bits(word, 15, 12) != bits(word, 19, 16);
            require(operands_ok && results_ok, Op::Plain)
        }
        // SDIV, UDIV
        (0b001 | 0b011, 0b000) => require(operands_ok && is_pc(word, F12), Op::Divide),
        _ => Op::Undefined,
    }
}

/// A5.5: B, BL, and the block transfers.
fn branch_and_block_transfer(word: u32) -> Op {
    if bit(word, 25) {
        return Op::Branch { link: bit(word, 24), offset: branch_offset(word) };
    }
    let m = MemMultiple {
        load: bit(word, 20),
        before: bit(word, 24),
        increment: bit(word, 23),
        user: bit(word, 22),
        writeback: bit(word, 21),
        rn: reg(word, F16),
        regs: bits(word, 15, 0) as u16,
    };
    let base_in_list = m.regs >> m.rn.n() & 1 != 0;
    let exception_return = m.load && m.user && m.regs >> 15 & 1 != 0;
    let ok = m.regs != 0
        && !m.rn.is_pc()
        && !(m.load && m.writeback && base_in_list)
        // The user-bank transfers have no writeback (B9.3.6, B9.3.17); exception return has (B9.3.5).
        && !(m.user && m.writeback && !exception_return);
    require(ok, Op::MemMultiple(m))
}

/// `SignExtend(imm24:'00')`.
const fn branch_offset(word: u32) -> i32 {
    (word << 8) as i32 >> 6
}

/// A5.6: coprocessor instructions and SVC. Coprocessors 10 and 11 are VFP and Advanced SIMD.
fn coprocessor_and_svc(word: u32) -> Op {
    if bits(word, 25, 24) == 0b11 {
        return Op::SupervisorCall { imm: bits(word, 23, 0) };
    }
    if bits(word, 11, 9) == 0b101 { vfp::coprocessor(word) } else { coprocessor(word) }
}

/// The coprocessor part of A5.6 and A5.7: LDC, STC, MCRR, MRRC, CDP, MCR, MRC, and their unconditional twins.
fn coprocessor(word: u32) -> Op {
    let (coproc, load) = (bits(word, 11, 8) as u8, bit(word, 20));
    if bit(word, 25) {
        if !bit(word, 4) {
            return Op::CoprocData { coproc };
        }
        let reg_ = CpReg {
            coproc,
            opc1: bits(word, 23, 21) as u8,
            crn: bits(word, 19, 16) as u8,
            crm: bits(word, 3, 0) as u8,
            opc2: bits(word, 7, 5) as u8,
        };
        return Op::CoprocMove { load, reg: reg_, rt: reg(word, F12) };
    }
    match bits(word, 24, 21) {
        0b0000 => Op::Undefined,
        0b0010 => {
            let (rt, rt2) = (reg(word, F12), reg(word, F16));
            let opc1 = bits(word, 7, 4) as u8;
            let crm = bits(word, 3, 0) as u8;
            let wrong = rt.is_pc() || rt2.is_pc() || load && rt == rt2;
            require(!wrong, Op::CoprocMove2 { load, coproc, opc1, crm, rt, rt2 })
        }
        _ => {
            // The PC may be the base where it is not written back (A8.8.55, A8.8.56, A8.8.198).
            let rn = reg(word, F16);
            require(!(rn.is_pc() && bit(word, 21)), Op::CoprocMem { load, coproc, rn })
        }
    }
}

/// A5.7: the unconditional space, `op1` = bits 27:20.
fn unconditional(word: u32) -> Op {
    match bits(word, 27, 25) {
        0b000..=0b011 => hints_simd_and_misc(word),
        0b100 => match (bit(word, 22), bit(word, 20)) {
            (true, false) => srs(word),
            (false, true) => rfe(word),
            _ => Op::Undefined,
        },
        0b101 => Op::BranchLinkExchangeImm { offset: branch_offset(word) | (bits(word, 24, 24) << 1) as i32 },
        _ if bits(word, 27, 24) == 15 => Op::Undefined,
        // A8.8.28 and the others: the unconditional forms are UNDEFINED for coprocessors 10 and 11.
        _ if bits(word, 11, 9) == 0b101 => Op::Undefined,
        _ => coprocessor(word),
    }
}

/// SRS: B9.3.16.
fn srs(word: u32) -> Op {
    let ok = word & 0xf_ffe0 == 0xd_0500;
    let mode = bits(word, 4, 0) as u8;
    let (before, increment, writeback) = (bit(word, 24), bit(word, 23), bit(word, 21));
    require(ok, Op::StoreReturnState { before, increment, writeback, mode })
}

/// RFE: B9.3.13.
fn rfe(word: u32) -> Op {
    let ok = bits(word, 15, 0) == 0x0a00 && !is_pc(word, F16);
    let (before, increment, writeback) = (bit(word, 24), bit(word, 23), bit(word, 21));
    require(ok, Op::ReturnFromException { before, increment, writeback, rn: reg(word, F16) })
}

/// A5.7.1: memory hints, Advanced SIMD, and miscellaneous, `op1` = bits 26:20, `op2` = bits 7:4.
fn hints_simd_and_misc(word: u32) -> Op {
    let (op1, op2) = (bits(word, 26, 20), bits(word, 7, 4));
    match op1 {
        0b0010000 if !bit(word, 16) && op2 & 0b0010 == 0 => cps(word),
        0b0010000 if bit(word, 16) && op2 == 0 => {
            let ok = bits(word, 19, 17) == 0 && word & 0xfdff == 0;
            require(ok, Op::SetEndian { big: bit(word, 9) })
        }
        0b0100000..=0b0111111 => simd::data_processing(word),
        0b1000000..=0b1001111 if !bit(word, 20) => simd_memory::load_store(word),
        0b1010111 => barriers(word),
        // Bits 26:25 = 10: immediate; 11: register, with bit 4 clear.
        0b1000000..=0b1111111 if !bit(word, 25) || !bit(word, 4) => memory_hint(word),
        _ => Op::Undefined,
    }
}

/// PLD, PLDW, PLI and the unallocated memory hints of A5.7.1: bits 24, 22:20.
fn memory_hint(word: u32) -> Op {
    let rn = reg(word, F16);
    let rm = bit(word, 25).then(|| reg(word, F0));
    let preload = Op::Preload { rn, rm };
    let ok = bits(word, 15, 12) == 15 && rm != Some(Reg::PC);
    match (bit(word, 24), bits(word, 22, 20)) {
        (false, 0b001) => Op::Hint,
        (false, 0b101) => require(ok, preload),               // PLI
        (true, 0b001) => require(ok && !rn.is_pc(), preload), // PLDW
        (true, 0b101) => require(ok, preload),                // PLD
        (_, 0b011 | 0b111) => Op::Unpredictable,
        _ => Op::Undefined,
    }
}

/// CPS: B9.3.2. Changing nothing, or naming a mode or masks that are not used, is UNPREDICTABLE.
fn cps(word: u32) -> Op {
    let (imod, m) = (bits(word, 19, 18) as u8, bit(word, 17));
    let (aif, mode) = (bits(word, 8, 6) as u8, bits(word, 4, 0) as u8);
    let mode_ok = m || mode == 0;
    let masks_ok = match imod {
        0b00 => m && aif == 0,
        0b01 => false,
        _ => aif != 0,
    };
    let ok = bits(word, 15, 9) == 0 && mode_ok && masks_ok;
    require(ok, Op::ChangeState { imod, aif, mode: m.then_some(mode) })
}

/// CLREX, DSB, DMB, ISB: the row `op1` = 1010111 of A5.7.1.
fn barriers(word: u32) -> Op {
    let option = bits(word, 3, 0) as u8;
    let ok = bits(word, 19, 8) == 0xff0;
    match bits(word, 7, 4) {
        0b0001 => require(ok && option == 15, Op::ClearExclusive),
        0b0100 => require(ok, Op::DataSyncBarrier { option }),
        0b0101 => require(ok, Op::DataMemBarrier { option }),
        0b0110 => require(ok, Op::InstrSyncBarrier { option }),
        _ => Op::Unpredictable,
    }
}
