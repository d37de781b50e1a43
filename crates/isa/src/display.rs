//! The disassembler: UAL text for traces, the monitor, and error messages.
//!
//! Whatever has fields is printed from its fields, so that the text of an instruction that the translator has changed
//! is that of its new form. Instructions that are only a class are read from the word ([`plain`]); VFP and Advanced
//! SIMD data instructions, and words that are no instruction, appear as `.inst` with a comment that an assembler
//! accepts. Branch targets are relative to the instruction (`b .+16`), because a decoded instruction has no address.

mod plain;

use core::fmt;

use crate::{Cond, Decoded, DpOp, Mem, MemMultiple, MemSize, ModImm, Offset, Op, Operand2, Reg, ShiftType};

impl fmt::Display for Reg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.n() {
            13 => f.write_str("sp"),
            14 => f.write_str("lr"),
            15 => f.write_str("pc"),
            n => write!(f, "r{n}"),
        }
    }
}

impl fmt::Display for Cond {
    /// The suffix of a mnemonic: nothing for `Al`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [&str; 15] =
            ["eq", "ne", "cs", "cc", "mi", "pl", "vs", "vc", "hi", "ls", "ge", "lt", "gt", "le", ""];
        f.write_str(NAMES[*self as usize])
    }
}

impl fmt::Display for ShiftType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ShiftType::Lsl => "lsl",
            ShiftType::Lsr => "lsr",
            ShiftType::Asr => "asr",
            ShiftType::Ror => "ror",
        })
    }
}

impl fmt::Display for DpOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [&str; 16] = [
            "and", "eor", "sub", "rsb", "add", "adc", "sbc", "rsc", "tst", "teq", "cmp", "cmn", "orr", "mov", "bic",
            "mvn",
        ];
        f.write_str(NAMES[*self as usize])
    }
}

/// An immediate: decimal where that is one digit, else hexadecimal.
pub(crate) struct Imm(pub(crate) u32);

impl fmt::Display for Imm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 < 10 { write!(f, "#{}", self.0) } else { write!(f, "#{:#x}", self.0) }
    }
}

impl fmt::Display for ModImm {
    /// The constant; where an assembler would choose another rotation for it, the byte and the rotation.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if ModImm::encode(self.value()) == Some(*self) {
            return write!(f, "{}", Imm(self.value()));
        }
        write!(f, "{}, {}", Imm(self.field() & 0xff), Imm(self.field() >> 8 << 1))
    }
}

/// A register shifted by a constant, from its raw fields (A8.4.1).
pub(crate) struct Shifted(pub(crate) Reg, pub(crate) ShiftType, pub(crate) u8);

impl fmt::Display for Shifted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shifted(rm, shift, amount) = *self;
        match (shift, amount) {
            (ShiftType::Lsl, 0) => write!(f, "{rm}"),
            (ShiftType::Ror, 0) => write!(f, "{rm}, rrx"),
            (_, 0) => write!(f, "{rm}, {shift} #32"),
            _ => write!(f, "{rm}, {shift} #{amount}"),
        }
    }
}

impl fmt::Display for Operand2 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Operand2::Imm(imm) => write!(f, "{imm}"),
            Operand2::Shifted { rm, shift, amount } => write!(f, "{}", Shifted(rm, shift, amount)),
            Operand2::ShiftedByReg { rm, shift, rs } => write!(f, "{rm}, {shift} {rs}"),
        }
    }
}

/// A register list in braces.
pub(crate) struct List(pub(crate) u16);

impl fmt::Display for List {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        let mut separator = "";
        for n in (0..16).filter(|n| self.0 >> n & 1 != 0) {
            write!(f, "{separator}{}", Reg::new(n))?;
            separator = ", ";
        }
        f.write_str("}")
    }
}

/// The fields of CPSR or SPSR that an MSR writes.
struct StatusFields(bool, u8);

impl fmt::Display for StatusFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0 { "spsr_" } else { "cpsr_" })?;
        (0..4).rev().filter(|n| self.1 >> n & 1 != 0).try_for_each(|n| f.write_str(&"cxsf"[n..=n]))
    }
}

/// `!` where the base is written back.
pub(crate) const fn bang(writeback: bool) -> &'static str {
    if writeback { "!" } else { "" }
}

/// The addressing modes of SRS, RFE, LDM and STM.
const fn mode_name(before: bool, increment: bool) -> &'static str {
    match (before, increment) {
        (false, false) => "da",
        (false, true) => "ia",
        (true, false) => "db",
        (true, true) => "ib",
    }
}

/// The options of the barriers (A8.8.43); those without a name are written as numbers.
struct BarrierOption(u8);

impl fmt::Display for BarrierOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            15 => "sy",
            14 => "st",
            11 => "ish",
            10 => "ishst",
            7 => "nsh",
            6 => "nshst",
            3 => "osh",
            2 => "oshst",
            n => return write!(f, "{}", Imm(u32::from(n))),
        })
    }
}

impl fmt::Display for Decoded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (c, word) = (self.cond, self.word);
        match self.op {
            Op::DataProcessing { op, s, rd, rn, op2 } => data_processing(f, c, op, s, rd, rn, op2),
            Op::MoveWide { top, rd, imm } => {
                write!(f, "mov{}{c} {rd}, {}", if top { 't' } else { 'w' }, Imm(u32::from(imm)))
            }
            Op::Mem(mem) => load_store(f, c, &mem),
            Op::MemMultiple(m) => block_transfer(f, c, &m),
            Op::Preload { rn, rm } => preload(f, word, rn, rm),
            Op::Exclusive => plain::exclusive(f, c, word),
            Op::Branch { link, offset } => write!(f, "b{}{c} .{:+}", if link { "l" } else { "" }, offset + 8),
            Op::BranchLinkExchangeImm { offset } => write!(f, "blx .{:+}", offset + 8),
            Op::BranchExchange { link, rm } => write!(f, "b{}x{c} {rm}", if link { "l" } else { "" }),
            Op::BranchJazelle { rm } => write!(f, "bxj{c} {rm}"),
            Op::SupervisorCall { imm } => write!(f, "svc{c} {}", Imm(imm)),
            Op::SecureMonitorCall { imm } => write!(f, "smc{c} {}", Imm(u32::from(imm))),
            Op::HypervisorCall { imm } => write!(f, "hvc{c} {}", Imm(u32::from(imm))),
            Op::Breakpoint { imm } => write!(f, "bkpt{c} {}", Imm(u32::from(imm))),
            Op::Mrs { spsr, rd } => write!(f, "mrs{c} {rd}, {}", if spsr { "spsr" } else { "cpsr" }),
            Op::MsrReg { spsr, mask, rn } => write!(f, "msr{c} {}, {rn}", StatusFields(spsr, mask)),
            Op::MsrImm { spsr, mask, imm } => write!(f, "msr{c} {}, {imm}", StatusFields(spsr, mask)),
            Op::ChangeState { imod, aif, mode } => change_state(f, imod, aif, mode),
            Op::SetEndian { big } => write!(f, "setend {}", if big { "be" } else { "le" }),
            Op::StoreReturnState { before, increment, writeback, mode } => {
                let name = mode_name(before, increment);
                write!(f, "srs{name} sp{}, {}", bang(writeback), Imm(u32::from(mode)))
            }
            Op::ReturnFromException { before, increment, writeback, rn } => {
                write!(f, "rfe{} {rn}{}", mode_name(before, increment), bang(writeback))
            }
            Op::Hint if self.uncond => write!(f, ".inst {word:#010x} @ memory hint"),
            Op::Hint => match word & 0xff {
                0 => write!(f, "nop{c}"),
                1 => write!(f, "yield{c}"),
                4 => write!(f, "sev{c}"),
                n if n >= 0xf0 => write!(f, "dbg{c} {}", Imm(n & 15)),
                n => write!(f, "hint{c} {}", Imm(n)),
            },
            Op::WaitForEvent => write!(f, "wfe{c}"),
            Op::WaitForInterrupt => write!(f, "wfi{c}"),
            Op::ClearExclusive => f.write_str("clrex"),
            Op::DataSyncBarrier { option } => write!(f, "dsb {}", BarrierOption(option)),
            Op::DataMemBarrier { option } => write!(f, "dmb {}", BarrierOption(option)),
            Op::InstrSyncBarrier { option: 15 } => f.write_str("isb sy"),
            Op::InstrSyncBarrier { option } => write!(f, "isb {}", Imm(u32::from(option))),
            Op::CoprocMove { load, reg, rt } => {
                let name = if load { "mrc" } else { "mcr" };
                write!(f, "{name}{}{c} p{}, {}, ", self.two(), reg.coproc, Imm(u32::from(reg.opc1)))?;
                match rt {
                    Reg::PC if load => f.write_str("apsr_nzcv")?,
                    rt => write!(f, "{rt}")?,
                }
                write!(f, ", c{}, c{}, {}", reg.crn, reg.crm, Imm(u32::from(reg.opc2)))
            }
            Op::CoprocMove2 { load, coproc, opc1, crm, rt, rt2 } => {
                let name = if load { "mrrc" } else { "mcrr" };
                let opc1 = Imm(u32::from(opc1));
                write!(f, "{name}{}{c} p{coproc}, {opc1}, {rt}, {rt2}, c{crm}", self.two())
            }
            Op::CoprocData { coproc } => {
                let (opc1, crn, crd) = (Imm(word >> 20 & 15), word >> 16 & 15, word >> 12 & 15);
                let (crm, opc2) = (word & 15, Imm(word >> 5 & 7));
                write!(f, "cdp{}{c} p{coproc}, {opc1}, c{crd}, c{crn}, c{crm}, {opc2}", self.two())
            }
            Op::CoprocMem { load, coproc, rn } => {
                let (name, long) = (if load { "ldc" } else { "stc" }, if word >> 22 & 1 != 0 { "l" } else { "" });
                write!(f, "{name}{}{long}{c} p{coproc}, c{}, ", self.two(), word >> 12 & 15)?;
                coprocessor_address(f, word, rn)
            }
            Op::VfpSystem { load, sysreg, rt } => vfp_system(f, c, load, sysreg, rt),
            Op::VfpMem { load, rn, multiple: false, .. } => {
                let name = if load { "vldr" } else { "vstr" };
                write!(f, "{name}{c} {}, ", VectorRegister::first(word))?;
                coprocessor_address(f, word, rn)
            }
            Op::VfpMem { load, rn, writeback, .. } => vfp_multiple(f, c, word, load, rn, writeback),
            Op::Plain | Op::Divide => plain::plain(f, c, word),
            Op::Vfp if self.uncond => write!(f, ".inst {word:#010x} @ simd"),
            Op::Vfp => write!(f, ".inst {word:#010x} @ vfp"),
            Op::VirtExt => write!(f, ".inst {word:#010x} @ virtualisation extensions"),
            Op::Undefined if word & 0xfff0_00f0 == 0xe7f0_00f0 => {
                write!(f, "udf {}", Imm(word >> 4 & 0xfff0 | word & 15))
            }
            Op::Undefined => write!(f, ".inst {word:#010x} @ undefined"),
            Op::Unpredictable => write!(f, ".inst {word:#010x} @ unpredictable"),
        }
    }
}

impl Decoded {
    /// The `2` of the unconditional coprocessor instructions.
    const fn two(&self) -> &'static str {
        if self.uncond { "2" } else { "" }
    }
}

fn data_processing(
    f: &mut fmt::Formatter<'_>,
    c: Cond,
    op: DpOp,
    s: bool,
    rd: Reg,
    rn: Reg,
    op2: Operand2,
) -> fmt::Result {
    let flags = if s && !op.is_test() { "s" } else { "" };
    // A MOV that shifts has the name of the shift.
    match (op, op2) {
        (DpOp::Mov, Operand2::Shifted { shift: ShiftType::Lsl, amount: 0, .. }) => {}
        (DpOp::Mov, Operand2::Shifted { rm, shift: ShiftType::Ror, amount: 0 }) => {
            return write!(f, "rrx{flags}{c} {rd}, {rm}");
        }
        (DpOp::Mov, Operand2::Shifted { rm, shift, amount }) => {
            let amount = if amount == 0 { 32 } else { amount };
            return write!(f, "{shift}{flags}{c} {rd}, {rm}, #{amount}");
        }
        (DpOp::Mov, Operand2::ShiftedByReg { rm, shift, rs }) => {
            return write!(f, "{shift}{flags}{c} {rd}, {rm}, {rs}");
        }
        _ => {}
    }
    write!(f, "{op}{flags}{c} ")?;
    if !op.is_test() {
        write!(f, "{rd}, ")?;
    }
    if op.has_rn() {
        write!(f, "{rn}, ")?;
    }
    write!(f, "{op2}")
}

pub(crate) fn load_store(f: &mut fmt::Formatter<'_>, c: Cond, m: &Mem) -> fmt::Result {
    let size = match m.size {
        MemSize::Word => "",
        MemSize::Byte => "b",
        MemSize::Half => "h",
        MemSize::SignedByte => "sb",
        MemSize::SignedHalf => "sh",
        MemSize::Dual => "d",
    };
    let unprivileged = if m.unprivileged { "t" } else { "" };
    write!(f, "{}{size}{unprivileged}{c} {}, ", if m.load { "ldr" } else { "str" }, m.rt)?;
    if m.size == MemSize::Dual {
        write!(f, "{}, ", Reg::new(m.rt.n() + 1))?;
    }
    // A subtracted zero is another encoding than an added one, and is left out in neither form but the plain one.
    let sign = if m.add { "" } else { "-" };
    write!(f, "[{}{}", m.rn, if m.pre { "" } else { "]" })?;
    match m.offset {
        Offset::Imm(0) if m.add && m.pre && !m.writeback => {}
        Offset::Imm(imm) => write!(f, ", #{sign}{}", Hex(u32::from(imm)))?,
        Offset::Reg { rm, shift, amount } => write!(f, ", {sign}{}", Shifted(rm, shift, amount))?,
    }
    if m.pre { write!(f, "]{}", bang(m.writeback)) } else { Ok(()) }
}

/// A number without `#`: decimal where that is one digit, else hexadecimal.
pub(crate) struct Hex(pub(crate) u32);

impl fmt::Display for Hex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 < 10 { write!(f, "{}", self.0) } else { write!(f, "{:#x}", self.0) }
    }
}

fn block_transfer(f: &mut fmt::Formatter<'_>, c: Cond, m: &MemMultiple) -> fmt::Result {
    // PUSH and POP of one register are LDR and STR (A8.8.131, A8.8.133).
    let stack = m.rn == Reg::SP && m.writeback && !m.user && m.regs.count_ones() > 1;
    match (m.load, m.before, m.increment) {
        (true, false, true) if stack => return write!(f, "pop{c} {}", List(m.regs)),
        (false, true, false) if stack => return write!(f, "push{c} {}", List(m.regs)),
        _ => {}
    }
    // Increment-after is the mode without a name.
    let mode = if !m.before && m.increment { "" } else { mode_name(m.before, m.increment) };
    let name = if m.load { "ldm" } else { "stm" };
    write!(f, "{name}{mode}{c} {}{}, {}{}", m.rn, bang(m.writeback), List(m.regs), if m.user { " ^" } else { "" })
}

fn preload(f: &mut fmt::Formatter<'_>, word: u32, rn: Reg, rm: Option<Reg>) -> fmt::Result {
    let name = match (word >> 24 & 1, word >> 22 & 1) {
        (0, _) => "pli",
        (_, 0) => "pldw",
        _ => "pld",
    };
    let sign = if word >> 23 & 1 != 0 { "" } else { "-" };
    match (rm, word & 0xfff) {
        (Some(rm), _) => {
            let shift = crate::decode::shift_type(word >> 5);
            write!(f, "{name} [{rn}, {sign}{}]", Shifted(rm, shift, (word >> 7 & 31) as u8))
        }
        (None, 0) if sign.is_empty() => write!(f, "{name} [{rn}]"),
        (None, imm) => write!(f, "{name} [{rn}, #{sign}{}]", Hex(imm)),
    }
}

fn change_state(f: &mut fmt::Formatter<'_>, imod: u8, aif: u8, mode: Option<u8>) -> fmt::Result {
    f.write_str("cps")?;
    if imod & 2 != 0 {
        f.write_str(if imod & 1 != 0 { "id " } else { "ie " })?;
        (0..3).rev().filter(|n| aif >> n & 1 != 0).try_for_each(|n| f.write_str(&"fia"[n..=n]))?;
        if mode.is_some() {
            f.write_str(",")?;
        }
    }
    mode.map_or(Ok(()), |mode| write!(f, " {}", Imm(u32::from(mode))))
}

/// The address of LDC, STC, VLDR and VSTR: words, or an option in braces.
fn coprocessor_address(f: &mut fmt::Formatter<'_>, word: u32, rn: Reg) -> fmt::Result {
    let (pre, add, w) = (word >> 24 & 1 != 0, word >> 23 & 1 != 0, word >> 21 & 1 != 0);
    let (sign, imm8) = (if add { "" } else { "-" }, word & 0xff);
    match (pre, w) {
        (true, false) if add && imm8 == 0 => write!(f, "[{rn}]"),
        (true, _) => write!(f, "[{rn}, #{sign}{}]{}", Hex(imm8 * 4), bang(w)),
        (false, true) => write!(f, "[{rn}], #{sign}{}", Hex(imm8 * 4)),
        (false, false) => write!(f, "[{rn}], {{{}}}", Hex(imm8)),
    }
}

fn vfp_multiple(f: &mut fmt::Formatter<'_>, c: Cond, word: u32, load: bool, rn: Reg, writeback: bool) -> fmt::Result {
    let mode = mode_name(word >> 24 & 1 != 0, word >> 23 & 1 != 0);
    let first = VectorRegister::first(word);
    let words = word & 0xff;
    // An odd number of words with doubleword registers is the old FLDMX or FSTMX (A8.8.50).
    let old = first.double && words & 1 != 0;
    let stack = rn == Reg::SP && writeback && !old && load == (mode == "ia");
    match (load, old) {
        (true, _) if stack => write!(f, "vpop{c} {{{first}")?,
        (false, _) if stack => write!(f, "vpush{c} {{{first}")?,
        (true, true) => write!(f, "fldm{mode}x{c} {rn}{}, {{{first}", bang(writeback))?,
        (false, true) => write!(f, "fstm{mode}x{c} {rn}{}, {{{first}", bang(writeback))?,
        (true, false) => write!(f, "vldm{mode}{c} {rn}{}, {{{first}", bang(writeback))?,
        (false, false) => write!(f, "vstm{mode}{c} {rn}{}, {{{first}", bang(writeback))?,
    }
    let count = if first.double { words >> 1 } else { words };
    (1..count).try_for_each(|i| write!(f, ", {}", VectorRegister { n: first.n + i, ..first }))?;
    f.write_str("}")
}

fn vfp_system(f: &mut fmt::Formatter<'_>, c: Cond, load: bool, sysreg: u8, rt: Reg) -> fmt::Result {
    let name = match sysreg {
        0 => "fpsid",
        1 => "fpscr",
        5 => "mvfr2",
        6 => "mvfr1",
        7 => "mvfr0",
        8 => "fpexc",
        9 => "fpinst",
        10 => "fpinst2",
        n if load => return write!(f, "vmrs{c} {rt}, sysreg{n}"),
        n => return write!(f, "vmsr{c} sysreg{n}, {rt}"),
    };
    match (load, rt) {
        (true, Reg::PC) => write!(f, "vmrs{c} apsr_nzcv, {name}"),
        (true, rt) => write!(f, "vmrs{c} {rt}, {name}"),
        (false, rt) => write!(f, "vmsr{c} {name}, {rt}"),
    }
}

/// A register of the VFP and Advanced SIMD register file.
#[derive(Clone, Copy)]
struct VectorRegister {
    double: bool,
    n: u32,
}

impl VectorRegister {
    /// `Vd` and D of a load or store, whose bit 8 tells the size.
    const fn first(word: u32) -> VectorRegister {
        let (vd, d, double) = (word >> 12 & 15, word >> 22 & 1, word >> 8 & 1 != 0);
        VectorRegister { double, n: if double { d << 4 | vd } else { vd << 1 | d } }
    }
}

impl fmt::Display for VectorRegister {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", if self.double { 'd' } else { 's' }, self.n)
    }
}
