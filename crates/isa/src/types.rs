//! The types of a decoded instruction.

/// A core register, R0 to R15.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Reg(u8);

impl Reg {
    /// R13, the stack pointer.
    pub const SP: Reg = Reg(13);
    /// R14, the link register.
    pub const LR: Reg = Reg(14);
    /// R15, the program counter.
    pub const PC: Reg = Reg(15);

    /// The register of number `n` modulo 16.
    #[must_use]
    pub const fn new(n: u32) -> Reg {
        Reg((n & 15) as u8)
    }

    /// Its number, 0 to 15.
    #[must_use]
    pub const fn n(self) -> u32 {
        self.0 as u32
    }

    /// Whether it is the program counter.
    #[must_use]
    pub const fn is_pc(self) -> bool {
        self.0 == 15
    }
}

/// A condition code (A8.3). The unconditional space (0b1111) is not a condition: its instructions carry `Al`, and
/// [`Decoded::uncond`] is set.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
#[expect(missing_docs, reason = "the manual's names")]
pub enum Cond {
    Eq,
    Ne,
    Cs,
    Cc,
    Mi,
    Pl,
    Vs,
    Vc,
    Hi,
    Ls,
    Ge,
    Lt,
    Gt,
    Le,
    Al,
}

impl Cond {
    /// All of them, in the order of their encodings.
    pub const ALL: [Cond; 15] = [
        Cond::Eq,
        Cond::Ne,
        Cond::Cs,
        Cond::Cc,
        Cond::Mi,
        Cond::Pl,
        Cond::Vs,
        Cond::Vc,
        Cond::Hi,
        Cond::Ls,
        Cond::Ge,
        Cond::Lt,
        Cond::Gt,
        Cond::Le,
        Cond::Al,
    ];

    /// The condition that holds exactly when this one does not; `Al` has none.
    #[must_use]
    pub const fn inverse(self) -> Option<Cond> {
        match self {
            Cond::Al => None,
            c => Some(Self::ALL[(c as usize) ^ 1]),
        }
    }

    /// Whether the condition holds for the flags in bits 31:28 of `psr` (A8.3.1).
    #[must_use]
    pub const fn holds(self, psr: u32) -> bool {
        let (n, z, c, v) = (psr >> 31 & 1 != 0, psr >> 30 & 1 != 0, psr >> 29 & 1 != 0, psr >> 28 & 1 != 0);
        match self {
            Cond::Eq => z,
            Cond::Ne => !z,
            Cond::Cs => c,
            Cond::Cc => !c,
            Cond::Mi => n,
            Cond::Pl => !n,
            Cond::Vs => v,
            Cond::Vc => !v,
            Cond::Hi => c && !z,
            Cond::Ls => !c || z,
            Cond::Ge => n == v,
            Cond::Lt => n != v,
            Cond::Gt => !z && n == v,
            Cond::Le => z || n != v,
            Cond::Al => true,
        }
    }
}

/// A decoded instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Decoded {
    /// The word it was decoded from.
    pub word: u32,
    /// Its condition; `Al` where `uncond`.
    pub cond: Cond,
    /// Whether it is from the unconditional space (bits 31:28 = 0b1111).
    pub uncond: bool,
    /// What it does.
    pub op: Op,
}

/// Data-processing opcodes in the order of their encoding (A5.2.1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
#[expect(missing_docs, reason = "the manual's names")]
pub enum DpOp {
    And,
    Eor,
    Sub,
    Rsb,
    Add,
    Adc,
    Sbc,
    Rsc,
    Tst,
    Teq,
    Cmp,
    Cmn,
    Orr,
    Mov,
    Bic,
    Mvn,
}

impl DpOp {
    /// TST, TEQ, CMP and CMN: they write flags and no register.
    #[must_use]
    pub const fn is_test(self) -> bool {
        matches!(self, DpOp::Tst | DpOp::Teq | DpOp::Cmp | DpOp::Cmn)
    }

    /// MOV and MVN have no first operand.
    #[must_use]
    pub const fn has_rn(self) -> bool {
        !matches!(self, DpOp::Mov | DpOp::Mvn)
    }
}

/// Shift types in the order of their encoding (A8.4.1). `Ror` by 0 is RRX.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
#[expect(missing_docs, reason = "the manual's names")]
pub enum ShiftType {
    Lsl,
    Lsr,
    Asr,
    Ror,
}

/// An A32 modified immediate constant (A5.2.4): 8 bits rotated right by twice 4 bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ModImm(u16);

impl ModImm {
    /// From the 12-bit field of an instruction.
    #[must_use]
    pub const fn from_field(field: u32) -> ModImm {
        ModImm((field & 0xfff) as u16)
    }

    /// The 12-bit field.
    #[must_use]
    pub const fn field(self) -> u32 {
        self.0 as u32
    }

    /// The constant that it stands for.
    #[must_use]
    pub const fn value(self) -> u32 {
        ((self.0 & 0xff) as u32).rotate_right(2 * (self.0 >> 8) as u32)
    }

    /// The encoding of `value` with the smallest rotation, if it has one.
    #[must_use]
    pub fn encode(value: u32) -> Option<ModImm> {
        (0..16u32).find(|r| value.rotate_left(2 * r) < 256).map(|r| ModImm((r << 8 | value.rotate_left(2 * r)) as u16))
    }
}

/// The flexible second operand of a data-processing instruction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[expect(missing_docs, reason = "the manual's names")]
pub enum Operand2 {
    Imm(ModImm),
    /// Register shifted by a constant: `amount` is the raw 5-bit field (0 means 32 for LSR/ASR, RRX for ROR).
    Shifted {
        rm: Reg,
        shift: ShiftType,
        amount: u8,
    },
    /// Register shifted by a register.
    ShiftedByReg {
        rm: Reg,
        shift: ShiftType,
        rs: Reg,
    },
}

/// The offset of a single load or store. For `Reg`, `amount` is the raw 5-bit field; the halfword and doubleword forms
/// have `shift` LSL and `amount` 0.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[expect(missing_docs, reason = "the manual's names")]
pub enum Offset {
    Imm(u16),
    Reg { rm: Reg, shift: ShiftType, amount: u8 },
}

/// What a single load or store moves.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[expect(missing_docs, reason = "the manual's names")]
pub enum MemSize {
    Word,
    Byte,
    Half,
    SignedByte,
    SignedHalf,
    Dual,
}

/// A single load or store: LDR, STR, LDRB, STRB, LDRH, STRH, LDRSB, LDRSH, LDRD, STRD and their unprivileged forms.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Mem {
    /// Load or store.
    pub load: bool,
    /// Width and sign.
    pub size: MemSize,
    /// Register loaded or stored; the first of two for `Dual`.
    pub rt: Reg,
    /// Base register.
    pub rn: Reg,
    /// Offset.
    pub offset: Offset,
    /// U: add the offset (else subtract).
    pub add: bool,
    /// P: the offset applies before the access. P=0 is post-indexing.
    pub pre: bool,
    /// The base is written back: P=0, or W=1.
    pub writeback: bool,
    /// LDRT, STRT and so on: P=0 and W=1. Access with user permissions (sensitive).
    pub unprivileged: bool,
}

/// LDM or STM, any addressing mode, the two forms with `^` included.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct MemMultiple {
    /// Load or store.
    pub load: bool,
    /// P: before (IB, DB) instead of after (IA, DA).
    pub before: bool,
    /// U: increment (IA, IB) instead of decrement.
    pub increment: bool,
    /// S: user-bank transfer, or with PC in a load's list exception return (sensitive).
    pub user: bool,
    /// W: the base is written back.
    pub writeback: bool,
    /// Base register.
    pub rn: Reg,
    /// Bit n set: Rn is in the list.
    pub regs: u16,
}

/// A coprocessor register: `MRC/MCR coproc, opc1, Rt, CRn, CRm, opc2`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[expect(missing_docs, reason = "the manual's names")]
pub struct CpReg {
    pub coproc: u8,
    pub opc1: u8,
    pub crn: u8,
    pub crm: u8,
    pub opc2: u8,
}

/// What an instruction does. Fields carry the manual's names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the manual's names")]
pub enum Op {
    /// A5.2.1 to A5.2.4, incl. MOV and shifts (which are MOV with `op2` shifted); not MOVW and MOVT. Unused fields are
    /// 0.
    DataProcessing {
        op: DpOp,
        s: bool,
        rd: Reg,
        rn: Reg,
        op2: Operand2,
    },
    /// MOVW (`top` = false) and MOVT. PC as `rd` is [`Op::Unpredictable`].
    MoveWide {
        top: bool,
        rd: Reg,
        imm: u16,
    },
    /// Single loads and stores.
    Mem(Mem),
    /// LDM and STM with a non-empty list.
    MemMultiple(MemMultiple),
    /// PLD, PLDW, PLI with base register `rn` (PC for the literal form); `rm` for the register form. A hint: may be
    /// dropped.
    Preload {
        rn: Reg,
        rm: Option<Reg>,
    },
    /// LDREX, LDREXB, LDREXH, LDREXD, STREX …: registers other than PC, copied as they are; also SWP and SWPB.
    Exclusive,
    /// B and BL; `offset` is in bytes, relative to the instruction's address + 8.
    Branch {
        link: bool,
        offset: i32,
    },
    /// BLX to Thumb; `offset` incl. the H bit, relative to the instruction's address + 8.
    BranchLinkExchangeImm {
        offset: i32,
    },
    /// BX (`link` = false), BLX.
    BranchExchange {
        link: bool,
        rm: Reg,
    },
    /// BXJ.
    BranchJazelle {
        rm: Reg,
    },
    /// SVC.
    SupervisorCall {
        imm: u32,
    },
    /// SMC.
    SecureMonitorCall {
        imm: u8,
    },
    /// HVC: undefined without the virtualisation extensions, decoded for completeness.
    HypervisorCall {
        imm: u16,
    },
    /// BKPT. UNPREDICTABLE unless the condition is AL.
    Breakpoint {
        imm: u16,
    },
    /// MRS of CPSR (`spsr` = false) or SPSR.
    Mrs {
        spsr: bool,
        rd: Reg,
    },
    /// MSR of a register to the fields in `mask` (bit 0 = c, 1 = x, 2 = s, 3 = f) of CPSR or SPSR.
    MsrReg {
        spsr: bool,
        mask: u8,
        rn: Reg,
    },
    /// MSR of an immediate; a mask of 0 with `spsr` = false is not this but a hint.
    MsrImm {
        spsr: bool,
        mask: u8,
        imm: ModImm,
    },
    /// CPS: `imod` is the raw 2-bit field, `aif` bits 2:0 = A, I, F; `mode` where M is set.
    ChangeState {
        imod: u8,
        aif: u8,
        mode: Option<u8>,
    },
    /// SETEND.
    SetEndian {
        big: bool,
    },
    /// SRS.
    StoreReturnState {
        before: bool,
        increment: bool,
        writeback: bool,
        mode: u8,
    },
    /// RFE.
    ReturnFromException {
        before: bool,
        increment: bool,
        writeback: bool,
        rn: Reg,
    },
    /// NOP, YIELD, SEV, DBG and the unallocated hints, which execute as NOP.
    Hint,
    /// WFE.
    WaitForEvent,
    /// WFI.
    WaitForInterrupt,
    /// CLREX.
    ClearExclusive,
    /// DSB, DMB, ISB.
    DataSyncBarrier {
        option: u8,
    },
    DataMemBarrier {
        option: u8,
    },
    InstrSyncBarrier {
        option: u8,
    },
    /// MCR and MRC (and MCR2, MRC2 where `Decoded::uncond`), coprocessors other than 10 and 11.
    CoprocMove {
        load: bool,
        reg: CpReg,
        rt: Reg,
    },
    /// MCRR and MRRC, coprocessors other than 10 and 11.
    CoprocMove2 {
        load: bool,
        coproc: u8,
        opc1: u8,
        crm: u8,
        rt: Reg,
        rt2: Reg,
    },
    /// CDP, coprocessors other than 10 and 11.
    CoprocData {
        coproc: u8,
    },
    /// LDC and STC, coprocessors other than 10 and 11.
    CoprocMem {
        load: bool,
        coproc: u8,
        rn: Reg,
    },
    /// VMRS and VMSR: `sysreg` 1 is FPSCR; 0 (FPSID), 5 to 7 (MVFR2 to 0), 8 (FPEXC) are sensitive. `rt` may be PC for
    /// VMRS APSR_nzcv, FPSCR.
    VfpSystem {
        load: bool,
        sysreg: u8,
        rt: Reg,
    },
    /// VLDR, VSTR, VLDM, VSTM, VPUSH, VPOP: `rn` may be PC for VLDR and VSTR (and VLDM, VSTM without writeback).
    VfpMem {
        load: bool,
        rn: Reg,
        multiple: bool,
        writeback: bool,
    },
    /// Any other VFP or Advanced SIMD instruction (data processing, transfers; element and structure loads with `rn`
    /// other than PC): copied as it is.
    Vfp,
    /// Anything else allocated and unprivileged with no PC operand: multiplies, saturating, parallel and packing
    /// arithmetic, bit fields, CLZ, REV, …: copied as it is.
    Plain,
    /// SDIV and UDIV: undefined on cores without the divide extension (Cortex-A8, A9).
    Divide,
    /// MRS and MSR of banked registers, ERET: virtualisation extensions; undefined without them.
    VirtExt,
    /// UDF, and encodings that the architecture leaves unallocated.
    Undefined,
    /// UNPREDICTABLE encodings that we will not execute.
    Unpredictable,
}
