//! The system control coprocessor, CP15, and the little of CP14 that a guest kernel touches (B4.1, C11).
//!
//! A read gives a value at once. A write stores what is plain storage and says in an [`Effect`] what else has to
//! happen: the MMU, the caches and the timer belong to others.

use serde::{Deserialize, Serialize};
pub use spica_devices::TimerReg;
use spica_devices::Unsound;
use spica_isa::CpReg;

/// MMU enable.
pub const SCTLR_M: u32 = 1 << 0;
/// Alignment checking.
pub const SCTLR_A: u32 = 1 << 1;
/// Data cache enable.
pub const SCTLR_C: u32 = 1 << 2;
/// SWP and SWPB enable.
pub const SCTLR_SW: u32 = 1 << 10;
/// Branch prediction enable.
pub const SCTLR_Z: u32 = 1 << 11;
/// Instruction cache enable.
pub const SCTLR_I: u32 = 1 << 12;
/// High exception vectors.
pub const SCTLR_V: u32 = 1 << 13;
/// Endianness on exception entry.
pub const SCTLR_EE: u32 = 1 << 25;
/// TEX remap enable.
pub const SCTLR_TRE: u32 = 1 << 28;
/// Access flag enable.
pub const SCTLR_AFE: u32 = 1 << 29;
/// Exceptions are taken in Thumb state.
pub const SCTLR_TE: u32 = 1 << 30;

const SCTLR_WRITABLE: u32 =
    SCTLR_M | SCTLR_A | SCTLR_C | SCTLR_SW | SCTLR_Z | SCTLR_I | SCTLR_V | SCTLR_EE | SCTLR_TRE | SCTLR_AFE | SCTLR_TE;
/// The value after reset on Cortex-A8 and A9 (their TRMs): all features off, the RAO bits set.
const SCTLR_RESET: u32 = 0x00c5_0078;
/// Bits of SCTLR that change translation or permission checks.
const SCTLR_REGIME: u32 = SCTLR_M | SCTLR_TRE | SCTLR_AFE;

/// Long descriptors.
pub const TTBCR_EAE: u32 = 1 << 31;
/// With long descriptors: TTBR1 has the ASID.
const TTBCR_A1: u32 = 1 << 22;

/// FPEXC.EN: VFP and Advanced SIMD are enabled.
pub const FPEXC_EN: u32 = 1 << 30;

/// What the identification registers say: the host's own values, less what the guest must not see (DESIGN, guest
/// machine).
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the manual's names")]
pub struct CpuId {
    pub midr: u32,
    pub ctr: u32,
    pub tcmtr: u32,
    pub tlbtr: u32,
    pub mpidr: u32,
    pub revidr: u32,
    pub pfr: [u32; 2],
    pub dfr0: u32,
    pub afr0: u32,
    pub mmfr: [u32; 4],
    pub isar: [u32; 6],
    pub clidr: u32,
    pub ccsidr_data: u32,
    pub ccsidr_instr: u32,
    pub fpsid: u32,
    pub mvfr: [u32; 2],
    pub dbgdidr: u32,
    /// Long descriptors can be used, whatever `mmfr` says: see `Cp15::write_wide`.
    pub lpae: bool,
}

/// Registers that hold state.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the manual's names")]
pub struct Cp15 {
    pub sctlr: u32,
    pub actlr: u32,
    pub cpacr: u32,
    pub ttbr0: u32,
    pub ttbr1: u32,
    pub ttbcr: u32,
    pub dacr: u32,
    pub dfsr: u32,
    pub ifsr: u32,
    pub adfsr: u32,
    pub aifsr: u32,
    pub dfar: u32,
    pub ifar: u32,
    pub par: u32,
    pub prrr: u32,
    pub nmrr: u32,
    pub vbar: u32,
    pub contextidr: u32,
    pub csselr: u32,
    pub tpidrurw: u32,
    pub fpexc: u32,
    pub pmuserenr: u32,
    pub diagnostic: u32,
    pub l2ctlr: u32,
    pub teecr: u32,
    pub teehbr: u32,
    /// The upper words of TTBR0, TTBR1 and PAR, where there are long descriptors.
    pub tops: [u32; 3],
}

/// A TLB maintenance operation (B4.2.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TlbOp {
    /// The whole TLB.
    All,
    /// One address of one ASID (and global entries).
    Page {
        /// Any address in the page.
        va: u32,
        /// The ASID, or any.
        asid: Option<u8>,
    },
    /// All non-global entries of an ASID.
    Asid(u8),
}

/// A data-cache operation by address (B4.2.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the manual's names")]
pub enum LineOp {
    CleanToPou,
    CleanToPoc,
    CleanInvalidate,
    Invalidate,
}

/// What a CP15 write asks for beyond storing a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Nothing.
    None,
    /// The translation regime changed: MMU enable, TTBRs, TTBCR, ASID, remap registers.
    Regime,
    /// DACR changed from this value.
    Dacr {
        /// The value before.
        old: u32,
    },
    /// Bits of SCTLR that the real core mirrors (alignment, SWP) may have changed.
    Mirror,
    /// Where or how exceptions are taken may have changed.
    Vectors,
    /// TLB maintenance.
    Tlb(TlbOp),
    /// Invalidate all instruction caches, or one line of them (`Some`), to the point of unification.
    InstructionCache(Option<u32>),
    /// Invalidate branch predictors.
    BranchPredictor,
    /// Data-cache maintenance by address.
    DataCache(LineOp, u32),
    /// Cleaning of the data cache by set and way.
    DataCacheBySet,
    /// Translate an address into PAR (B4.2.4).
    Translate {
        /// The address.
        va: u32,
        /// With privileged permissions.
        privileged: bool,
        /// For a write.
        write: bool,
    },
    /// The real TPIDRURO must follow.
    ThreadIdReadOnly(u32),
    /// The real TPIDRURW must follow.
    ThreadIdReadWrite(u32),
    /// CPACR or FPEXC changed: whether VFP may be used must be looked at again.
    Vfp,
    /// Wait for interrupt by its old encoding.
    WaitForInterrupt,
}

/// Where an access by MRC, MCR, MRRC or MCRR goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadResult {
    /// The value.
    Value(u32),
    /// The generic timer has it.
    Timer(TimerReg),
    /// No such register: Undefined Instruction.
    Undefined,
}

/// The result of a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WriteResult {
    /// Stored; this is left to do.
    Done(Effect),
    /// The generic timer takes it.
    Timer(TimerReg),
    /// No such register: Undefined Instruction.
    Undefined,
}

/// The generic timer's 32-bit registers by (CRm, opc2) of c14.
#[must_use]
pub fn timer_reg(crm: u8, opc2: u8) -> Option<TimerReg> {
    Some(match (crm, opc2) {
        (0, 0) => TimerReg::Cntfrq,
        (1, 0) => TimerReg::Cntkctl,
        (2, 0) => TimerReg::CntpTval,
        (2, 1) => TimerReg::CntpCtl,
        (3, 0) => TimerReg::CntvTval,
        (3, 1) => TimerReg::CntvCtl,
        _ => return None,
    })
}

/// The generic timer's 64-bit registers by opc1 of `MRRC p15, opc1, …, c14`.
#[must_use]
pub fn timer_reg64(opc1: u8) -> Option<TimerReg> {
    Some(match opc1 {
        0 => TimerReg::Cntpct,
        1 => TimerReg::Cntvct,
        2 => TimerReg::CntpCval,
        3 => TimerReg::CntvCval,
        _ => return None,
    })
}

impl Cp15 {
    /// Reset values (B4.1, and the Cortex-A8 and A9 TRMs).
    #[must_use]
    pub const fn reset() -> Cp15 {
        Cp15 {
            sctlr: SCTLR_RESET,
            actlr: 0,
            cpacr: 0,
            ttbr0: 0,
            ttbr1: 0,
            ttbcr: 0,
            dacr: 0,
            dfsr: 0,
            ifsr: 0,
            adfsr: 0,
            aifsr: 0,
            dfar: 0,
            ifar: 0,
            par: 0,
            prrr: 0x0009_8aa4,
            nmrr: 0x44e0_48e0,
            vbar: 0,
            contextidr: 0,
            csselr: 0,
            tpidrurw: 0,
            fpexc: 0,
            pmuserenr: 0,
            diagnostic: 0,
            l2ctlr: 0,
            teecr: 0,
            teehbr: 0,
            tops: [0; 3],
        }
    }

    /// Whether these are values that a guest with this processor can have brought the registers to ([`Cp15::write`]).
    ///
    /// # Errors
    /// If not.
    pub fn check(&self, id: &CpuId) -> Result<(), Unsound> {
        let ttbcr = if id.lpae && self.ttbcr & TTBCR_EAE != 0 { 0xbfc7_3f87 } else { 0x37 };
        let thumbee = has_thumbee(id);
        let registers = [
            (self.sctlr & !SCTLR_WRITABLE, SCTLR_RESET & !SCTLR_WRITABLE),
            (self.cpacr & !0xc0f0_0000, 0),
            (self.ttbcr & !ttbcr, 0),
            (self.vbar & 0x1f, 0),
            (self.csselr & !0xf, 0),
            (self.fpexc & !FPEXC_EN, 0),
            (self.pmuserenr & !1, 0),
            (self.teecr & if thumbee { !1 } else { !0 }, 0),
            (self.teehbr & 3, 0),
        ];
        let fit = registers.iter().all(|(value, expected)| value == expected) && (id.lpae || self.tops == [0; 3]);
        if fit { Ok(()) } else { Err(Unsound("a system control register that cannot be")) }
    }

    /// The current ASID (B4.1.36).
    #[must_use]
    pub fn asid(&self) -> u8 {
        match self.ttbcr & (TTBCR_EAE | TTBCR_A1) {
            TTBCR_EAE => (self.tops[0] >> 16) as u8,
            both if both & TTBCR_EAE != 0 => (self.tops[1] >> 16) as u8,
            _ => self.contextidr as u8,
        }
    }

    /// Reads a register of 64 bits by MRRC: the upper word and the lower one. `None` if there is none.
    #[must_use]
    pub fn read_wide(&self, id: &CpuId, opc1: u8, crm: u8) -> Option<[u32; 2]> {
        let low = match (id.lpae, opc1, crm) {
            (true, 0, 2) => self.ttbr0,
            (true, 1, 2) => self.ttbr1,
            (true, 0, 7) => self.par,
            _ => return None,
        };
        Some([self.tops[if crm == 7 { 2 } else { opc1.into() }], low])
    }

    /// Writes one by MCRR. With long descriptors the guest's TTBRs have 64 bits (B4.1.154). They are for guests whose
    /// firmware expects QEMU's own processor; other processors of this architecture do not have them.
    pub fn write_wide(&mut self, id: &CpuId, opc1: u8, crm: u8, [high, low]: [u32; 2]) -> Option<Effect> {
        let (field, top) = match (id.lpae, opc1, crm) {
            (true, 0, 2) => (&mut self.ttbr0, 0),
            (true, 1, 2) => (&mut self.ttbr1, 1),
            (true, 0, 7) => (&mut self.par, 2),
            _ => return None,
        };
        let same = (*field, self.tops[top]) == (low, high);
        (*field, self.tops[top]) = (low, high);
        Some(if same || crm == 7 { Effect::None } else { Effect::Regime })
    }

    /// Reads a CP15 or CP14 register. `tpidrprw` and `tpidruro` live in the vCPU page and are passed in.
    #[must_use]
    pub fn read(&self, id: &CpuId, reg: CpReg, tpidruro: u32, tpidrprw: u32) -> ReadResult {
        if reg.coproc == 14 {
            return self.read_cp14(id, reg);
        }
        if reg.coproc != 15 {
            return ReadResult::Undefined;
        }
        ReadResult::Value(match (reg.crn, reg.opc1, reg.crm, reg.opc2) {
            (0, 0, 0, 1) => id.ctr,
            (0, 0, 0, 2) => id.tcmtr,
            (0, 0, 0, 3) => id.tlbtr,
            (0, 0, 0, 5) => id.mpidr,
            (0, 0, 0, 6) => id.revidr,
            // Unallocated encodings of this row read as MIDR (B4.1.105).
            (0, 0, 0, _) => id.midr,
            (0, 0, 1, n @ 0..=1) => id.pfr[usize::from(n)],
            (0, 0, 1, 2) => id.dfr0,
            (0, 0, 1, 3) => id.afr0,
            (0, 0, 1, n @ 4..=7) => id.mmfr[usize::from(n) - 4],
            (0, 0, 2, n @ 0..=5) => id.isar[usize::from(n)],
            // The rest of the CPUID scheme's space reads as zero (B7.1).
            (0, 0, 2..=7, _) => 0,
            (0, 1, 0, 0) => {
                if self.csselr & 1 != 0 {
                    id.ccsidr_instr
                } else {
                    id.ccsidr_data
                }
            }
            (0, 1, 0, 1) => id.clidr,
            (0, 1, 0, 7) => 0,
            (0, 2, 0, 0) => self.csselr,
            (1, 0, 0, 0) => self.sctlr,
            (1, 0, 0, 1) => self.actlr,
            (1, 0, 0, 2) => self.cpacr,
            // NSACR as Non-secure state reads it: coprocessors 10 and 11 are ours to use (B4.1.111).
            (1, 0, 1, 2) => 0xc00,
            (2, 0, 0, 0) => self.ttbr0,
            (2, 0, 0, 1) => self.ttbr1,
            (2, 0, 0, 2) => self.ttbcr,
            (3, 0, 0, 0) => self.dacr,
            (5, 0, 0, 0) => self.dfsr,
            (5, 0, 0, 1) => self.ifsr,
            (5, 0, 1, 0) => self.adfsr,
            (5, 0, 1, 1) => self.aifsr,
            (6, 0, 0, 0) => self.dfar,
            (6, 0, 0, 2) => self.ifar,
            (7, 0, 4, 0) => self.par,
            (9, 1, 0, 2) => self.l2ctlr,
            // No performance counters: PMCR.N = 0, and all of them read as zero (C12).
            (9, 0, 12..=14, _) => {
                if (reg.crm, reg.opc2) == (14, 0) {
                    self.pmuserenr
                } else {
                    0
                }
            }
            (9, _, _, _) | (11, _, _, _) => 0,
            (10, 0, 2, 0) => self.prrr,
            (10, 0, 2, 1) => self.nmrr,
            // TLB lockdown of Cortex-A8 and A9: nothing is ever locked.
            (10, 0, _, _) => 0,
            (12, 0, 0, 0) => self.vbar,
            // ISR: pending physical exceptions; the guest has no use for it that its GIC does not serve.
            (12, 0, 1, 0) => 0,
            (13, 0, 0, 0) => 0,
            (13, 0, 0, 1) => self.contextidr,
            (13, 0, 0, 2) => self.tpidrurw,
            (13, 0, 0, 3) => tpidruro,
            (13, 0, 0, 4) => tpidrprw,
            (14, 0, crm, opc2) => return timer_reg(crm, opc2).map_or(ReadResult::Undefined, ReadResult::Timer),
            // Cortex-A9: power control, diagnostic register, configuration base (0: no private peripherals).
            (15, 0, 0, 1) => self.diagnostic,
            (15, _, _, _) => 0,
            _ => return ReadResult::Undefined,
        })
    }

    /// CP14: the debug architecture is announced as on the host, its unit as powered down or locked, so that a guest
    /// finds no breakpoints to use (C11).
    fn read_cp14(&self, id: &CpuId, reg: CpReg) -> ReadResult {
        match (reg.opc1, reg.crn, reg.crm, reg.opc2) {
            (0, 0, 0, 0) => ReadResult::Value(id.dbgdidr),
            // DBGDSCR, internal view.
            (0, 0, 1, 0) => ReadResult::Value(0),
            // DBGDRAR, DBGDSAR: no memory-mapped debug registers.
            (0, 1 | 2, 0, 0) => ReadResult::Value(0),
            (0, 0..=1, _, _) => ReadResult::Value(0),
            // ThumbEE (A2.10.1): its state is never entered, its registers are kept for a kernel that switches them.
            (6, 0, 0, 0) if has_thumbee(id) => ReadResult::Value(self.teecr),
            (6, 1, 0, 0) if has_thumbee(id) => ReadResult::Value(self.teehbr),
            _ => ReadResult::Undefined,
        }
    }

    /// Writes a CP15 or CP14 register that is not in the vCPU page.
    pub fn write(&mut self, id: &CpuId, reg: CpReg, value: u32) -> WriteResult {
        if reg.coproc == 14 {
            return match (reg.opc1, reg.crn) {
                (0, 0..=1) => WriteResult::Done(Effect::None),
                (6, 0) if has_thumbee(id) => WriteResult::Done(store(&mut self.teecr, value & 1)),
                (6, 1) if has_thumbee(id) => WriteResult::Done(store(&mut self.teehbr, value & !3)),
                _ => WriteResult::Undefined,
            };
        }
        if reg.coproc != 15 {
            return WriteResult::Undefined;
        }
        let effect = match (reg.crn, reg.opc1, reg.crm, reg.opc2) {
            (0, 2, 0, 0) => {
                self.csselr = value & 0xf;
                Effect::None
            }
            (1, 0, 0, 0) => {
                let new = self.sctlr & !SCTLR_WRITABLE | value & SCTLR_WRITABLE;
                let changed = self.sctlr ^ new;
                self.sctlr = new;
                if changed & SCTLR_REGIME != 0 {
                    Effect::Regime
                } else if changed & (SCTLR_A | SCTLR_SW) != 0 {
                    Effect::Mirror
                } else if changed != 0 {
                    Effect::Vectors
                } else {
                    Effect::None
                }
            }
            (1, 0, 0, 1) => store(&mut self.actlr, value),
            (1, 0, 0, 2) => {
                // cp10 and cp11, D32DIS and ASEDIS (B4.1.40); the others have no coprocessor behind them.
                self.cpacr = value & 0xc0f0_0000;
                Effect::Vfp
            }
            (1, 0, 1, _) => Effect::None,
            (2, 0, 0, 0) => regime(&mut self.ttbr0, value),
            (2, 0, 0, 1) => regime(&mut self.ttbr1, value),
            // The format of long descriptors (B4.1.153): IMPLEMENTATION DEFINED and reserved bits are 0.
            (2, 0, 0, 2) if id.lpae && value & TTBCR_EAE != 0 => regime(&mut self.ttbcr, value & 0xbfc7_3f87),
            // That of short ones: N, PD0 and PD1.
            (2, 0, 0, 2) => regime(&mut self.ttbcr, value & 0x37),
            (3, 0, 0, 0) => {
                let old = self.dacr;
                self.dacr = value;
                Effect::Dacr { old }
            }
            (5, 0, 0, 0) => store(&mut self.dfsr, value),
            (5, 0, 0, 1) => store(&mut self.ifsr, value),
            (5, 0, 1, 0) => store(&mut self.adfsr, value),
            (5, 0, 1, 1) => store(&mut self.aifsr, value),
            (6, 0, 0, 0) => store(&mut self.dfar, value),
            (6, 0, 0, 2) => store(&mut self.ifar, value),
            (7, 0, crm, opc2) => return self.cache_or_translate(crm, opc2, value),
            (8, 0, 3 | 5 | 6 | 7, opc2) => Effect::Tlb(match opc2 {
                0 => TlbOp::All,
                1 => TlbOp::Page { va: value & !0xfff, asid: Some(value as u8) },
                2 => TlbOp::Asid(value as u8),
                3 => TlbOp::Page { va: value & !0xfff, asid: None },
                _ => return WriteResult::Undefined,
            }),
            (9, 1, 0, 2) => store(&mut self.l2ctlr, value),
            (9, 0, 14, 0) => store(&mut self.pmuserenr, value & 1),
            (9, _, _, _) | (11, _, _, _) => Effect::None,
            (10, 0, 2, 0) => regime(&mut self.prrr, value),
            (10, 0, 2, 1) => regime(&mut self.nmrr, value),
            (10, 0, _, _) => Effect::None,
            (12, 0, 0, 0) => {
                self.vbar = value & !0x1f;
                Effect::Vectors
            }
            // FCSEIDR: no FCSE (B4.1.64).
            (13, 0, 0, 0) => Effect::None,
            (13, 0, 0, 1) => regime(&mut self.contextidr, value),
            (13, 0, 0, 2) => {
                self.tpidrurw = value;
                Effect::ThreadIdReadWrite(value)
            }
            (14, 0, crm, opc2) => return timer_reg(crm, opc2).map_or(WriteResult::Undefined, WriteResult::Timer),
            (15, 0, 0, 1) => store(&mut self.diagnostic, value),
            (15, _, _, _) => Effect::None,
            _ => return WriteResult::Undefined,
        };
        WriteResult::Done(effect)
    }

    /// CP15 c7 (B4.2.1, B4.2.4).
    fn cache_or_translate(&mut self, crm: u8, opc2: u8, value: u32) -> WriteResult {
        WriteResult::Done(match (crm, opc2) {
            (0, 4) => Effect::WaitForInterrupt,
            (4, 0) => store(&mut self.par, value),
            (1 | 5, 0) => Effect::InstructionCache(None),
            (5, 1) => Effect::InstructionCache(Some(value)),
            (1 | 5, 6 | 7) => Effect::BranchPredictor,
            // Barriers; the instruction itself is emitted as well where they are translated.
            (5, 4) | (10, 4 | 5) => Effect::None,
            (6, 1) => Effect::DataCache(LineOp::Invalidate, value),
            (10, 1) => Effect::DataCache(LineOp::CleanToPoc, value),
            (11, 1) => Effect::DataCache(LineOp::CleanToPou, value),
            (14, 1) => Effect::DataCache(LineOp::CleanInvalidate, value),
            // DCISW: nothing says that a line was not written back before.
            (6, 2) => Effect::None,
            (10 | 14, 2) => Effect::DataCacheBySet,
            (8, op @ 0..=3) => Effect::Translate { va: value, privileged: op < 2, write: op & 1 != 0 },
            _ => return WriteResult::Undefined,
        })
    }
}

/// Whether the core has ThumbEE (ID_PFR0, B4.1.93).
#[must_use]
pub fn has_thumbee(id: &CpuId) -> bool {
    id.pfr[0] >> 12 & 0xf != 0
}

fn store(field: &mut u32, value: u32) -> Effect {
    *field = value;
    Effect::None
}

fn regime(field: &mut u32, value: u32) -> Effect {
    if *field == value {
        return Effect::None;
    }
    *field = value;
    Effect::Regime
}
