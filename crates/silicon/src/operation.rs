//! What an instruction does that the rules are about.

/// What an instruction does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// `ISB`.
    Isb,
    /// `DSB`.
    Dsb,
    /// A write of a register of [`crate::Context`].
    Context,
    /// TLBIALL, of any kind.
    TlbAll,
    /// TLBIMVA.
    TlbPage,
    /// TLBIMVAA.
    TlbPageOfAll,
    /// TLBIASID.
    TlbAsid,
    /// A line of the data cache is cleaned by address, to whichever point.
    Clean,
    /// Lines of the data cache are cleaned by set and way.
    CleanSets,
    /// ICIMVAU.
    InstructionLine,
    /// ICIALLU.
    InstructionAll,
    /// BPIALL.
    Predictor,
    /// BPIMVA.
    PredictorWord,
    /// An address is translated, as if it were read or written, in this mode: the ATS1C operations.
    Translate {
        /// As if it were written.
        write: bool,
        /// By User mode.
        user: bool,
    },
    /// What came of that is read: PAR.
    ReadTranslated,
    /// LDREX and its like.
    LoadExclusive,
    /// STREX and its like: the register of the result, that of the address, and what is added to it.
    StoreExclusive {
        /// Where the result is put.
        status: u8,
        /// Where the address is.
        base: u8,
        /// What is added.
        offset: u16,
    },
    /// `CLREX`.
    ClearExclusive,
    /// VFP or Advanced SIMD.
    Float,
}

impl Operation {
    /// Of an A32 instruction.
    #[must_use]
    pub const fn arm(word: u32) -> Option<Operation> {
        match word {
            0xf57f_f01f => return Some(Operation::ClearExclusive),
            _ if word & 0xffff_fff0 == 0xf57f_f040 => return Some(Operation::Dsb),
            _ if word & 0xffff_fff0 == 0xf57f_f060 => return Some(Operation::Isb),
            _ => {}
        }
        if word >> 28 == 0xf {
            // Advanced SIMD: data processing, loads and stores of elements (A7.4, A7.7).
            let float = word & 0xfe00_0000 == 0xf200_0000 || word & 0xff10_0000 == 0xf400_0000;
            return if float { Some(Operation::Float) } else { None };
        }
        // A5.2.10: LDREX and STREX of a word, double word, byte, half-word.
        if word & 0x0f80_00f0 == 0x0180_0090 {
            if word & 1 << 20 != 0 {
                return Some(Operation::LoadExclusive);
            }
            let (status, base) = ((word >> 12 & 15) as u8, (word >> 16 & 15) as u8);
            return Some(Operation::StoreExclusive { status, base, offset: 0 });
        }
        coprocessor(word)
    }

    /// Of a T32 instruction: its first half-word, and the second one of a long one.
    #[must_use]
    pub const fn thumb(first: u16, second: Option<u16>) -> Option<Operation> {
        let Some(second) = second else { return None };
        let word = (first as u32) << 16 | second as u32;
        match word {
            0xf3bf_8f2f => return Some(Operation::ClearExclusive),
            _ if word & 0xffff_fff0 == 0xf3bf_8f40 => return Some(Operation::Dsb),
            _ if word & 0xffff_fff0 == 0xf3bf_8f60 => return Some(Operation::Isb),
            _ => {}
        }
        let base = (first & 15) as u8;
        // A6.3.6.
        let sized = matches!(second >> 4 & 15, 4 | 5 | 7);
        match first & 0xfff0 {
            0xe850 => return Some(Operation::LoadExclusive),
            0xe840 => {
                let (status, offset) = ((second >> 8 & 15) as u8, (second & 0xff) * 4);
                return Some(Operation::StoreExclusive { status, base, offset });
            }
            0xe8d0 if sized => return Some(Operation::LoadExclusive),
            0xe8c0 if sized => {
                return Some(Operation::StoreExclusive { status: (second & 15) as u8, base, offset: 0 });
            }
            _ => {}
        }
        // Advanced SIMD.
        if word & 0xef00_0000 == 0xef00_0000 || word & 0xff10_0000 == 0xf900_0000 {
            return Some(Operation::Float);
        }
        // The rest is A32's under AL (A6.3.18).
        if word >> 28 == 0xe { coprocessor(word) } else { None }
    }

    /// Whether User mode may do it.
    #[must_use]
    pub const fn is_unprivileged(self) -> bool {
        !matches!(
            self,
            Operation::Context
                | Operation::TlbAll
                | Operation::TlbPage
                | Operation::TlbPageOfAll
                | Operation::TlbAsid
                | Operation::Clean
                | Operation::CleanSets
                | Operation::InstructionLine
                | Operation::InstructionAll
                | Operation::Predictor
                | Operation::PredictorWord
                | Operation::Translate { .. }
                | Operation::ReadTranslated
        )
    }
}

/// MCR to CP15 (B4.2, B3.17), and all that coprocessors 10 and 11 do (A7.5 to A7.9).
const fn coprocessor(word: u32) -> Option<Operation> {
    let class = word >> 24 & 15;
    if class >> 1 == 6 || class == 14 {
        let number = word >> 8 & 15;
        if number == 10 || number == 11 {
            // VMRS and VMSR of system registers (opc1 = 7) need no CPACR to be new: FPEXC decides there.
            let system = class == 14 && word & 0x00e0_0f10 == 0x00e0_0a10;
            return if system { None } else { Some(Operation::Float) };
        }
        // MRC p15, 0, Rt, c7, c4, 0.
        if word & 0x0fff_0fff == 0x0e17_0f14 {
            return Some(Operation::ReadTranslated);
        }
        // MCR p15, 0.
        if class == 14 && word & 0x00f0_0f10 == 0x0000_0f10 {
            return match (word >> 16 & 15, word & 15, word >> 5 & 7) {
                (1 | 2 | 3 | 10 | 12, _, _) | (13, 0, 1) => Some(Operation::Context),
                (7, 5, 4) => Some(Operation::Isb),
                (7, 10, 4) => Some(Operation::Dsb),
                (7, 1 | 5, 0) => Some(Operation::InstructionAll),
                (7, 5, 1) => Some(Operation::InstructionLine),
                (7, 1 | 5, 6) => Some(Operation::Predictor),
                (7, 5, 7) => Some(Operation::PredictorWord),
                (7, 8, op @ 0..=3) => Some(Operation::Translate { write: op & 1 != 0, user: op & 2 != 0 }),
                (7, 10 | 11 | 14, 1) => Some(Operation::Clean),
                (7, 10 | 14, 2) => Some(Operation::CleanSets),
                (8, 3 | 5 | 6 | 7, 0) => Some(Operation::TlbAll),
                (8, 3 | 5 | 6 | 7, 1) => Some(Operation::TlbPage),
                (8, 3 | 5 | 6 | 7, 2) => Some(Operation::TlbAsid),
                (8, 3 | 5 | 6 | 7, 3) => Some(Operation::TlbPageOfAll),
                _ => None,
            };
        }
    }
    None
}

/// The register that an MCR takes its value from.
#[must_use]
pub const fn operand(word: u32) -> u8 {
    (word >> 12 & 15) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_of_a32() {
        let store = |status, base| Operation::StoreExclusive { status, base, offset: 0 };
        for (word, operation) in [
            (0xf57f_f06f, Some(Operation::Isb)),
            (0xf57f_f04e, Some(Operation::Dsb)), // dsb st
            (0xf57f_f05f, None),                 // dmb
            (0xee07_0f95, Some(Operation::Isb)),
            (0xee07_0f9a, Some(Operation::Dsb)),
            (0xf57f_f01f, Some(Operation::ClearExclusive)),
            (0xe190_3f9f, Some(Operation::LoadExclusive)), // ldrex r3, [r0]
            (0xe1b0_2f9f, Some(Operation::LoadExclusive)), // ldrexd r2, [r0]
            (0xe180_1f93, Some(store(1, 0))),              // strex r1, r3, [r0]
            (0xe1e4_2f95, Some(store(2, 4))),              // strexh r2, r5, [r4]
            (0xe100_3091, None),                           // swp
            (0xee02_0f10, Some(Operation::Context)),       // TTBR0
            (0xee12_0f10, None),                           // a read
            (0xee0d_0f30, Some(Operation::Context)),       // CONTEXTIDR
            (0xee0d_0f90, None),                           // TPIDRPRW
            (0xee0c_0f10, Some(Operation::Context)),       // VBAR
            (0xee01_0f50, Some(Operation::Context)),       // CPACR
            (0xee08_0f17, Some(Operation::TlbAll)),
            (0xee08_0f37, Some(Operation::TlbPage)),
            (0xee08_0f73, Some(Operation::TlbPageOfAll)),
            (0xee08_0f57, Some(Operation::TlbAsid)),
            (0xee07_0f3b, Some(Operation::Clean)),
            (0xee07_0f3a, Some(Operation::Clean)),
            (0xee07_0f3e, Some(Operation::Clean)),
            (0xee07_0f18, Some(Operation::Translate { write: false, user: false })),
            (0xee07_1f78, Some(Operation::Translate { write: true, user: true })),
            (0xee17_6f14, Some(Operation::ReadTranslated)),
            (0xee07_6f14, None),
            (0xee07_0f36, None), // DCIMVAC
            (0xee07_0f5a, Some(Operation::CleanSets)),
            (0xee07_0f15, Some(Operation::InstructionAll)),
            (0xee07_0f35, Some(Operation::InstructionLine)),
            (0xee07_0fd5, Some(Operation::Predictor)),
            (0xee07_0ff5, Some(Operation::PredictorWord)),
            (0xee30_0a00, Some(Operation::Float)), // vadd.f32
            (0xed90_0b00, Some(Operation::Float)), // vldr
            (0xeee8_0a10, None),                   // vmsr fpexc, r0
            (0xf420_078f, Some(Operation::Float)), // vld1
            (0xf3bf_8f6f, Some(Operation::Float)), // in A32, Advanced SIMD
            (0xf590_f000, None),                   // pld
            (0xe590_3004, None),
        ] {
            assert_eq!(Operation::arm(word), operation, "{word:08x}");
        }
    }

    #[test]
    fn operations_of_t32() {
        for (first, second, operation) in [
            (0xf3bf, Some(0x8f6f), Some(Operation::Isb)),
            (0xf3bf, Some(0x8f4f), Some(Operation::Dsb)),
            (0xf3bf, Some(0x8f5f), None),
            (0xf3bf, Some(0x8f2f), Some(Operation::ClearExclusive)),
            (0xe850, Some(0x3f00), Some(Operation::LoadExclusive)), // ldrex r3, [r0]
            (0xe840, Some(0x3102), Some(Operation::StoreExclusive { status: 1, base: 0, offset: 8 })),
            (0xe8d0, Some(0x3f4f), Some(Operation::LoadExclusive)), // ldrexb
            (0xe8c0, Some(0x3f41), Some(Operation::StoreExclusive { status: 1, base: 0, offset: 0 })),
            (0xe8df, Some(0xf001), None), // tbb
            (0xee07, Some(0x0f95), Some(Operation::Isb)),
            (0xee1d, Some(0x3f70), None), // a read
            (0xee30, Some(0x0a00), Some(Operation::Float)),
            (0xf920, Some(0x078f), Some(Operation::Float)), // vld1
            (0xf8d3, Some(0x0000), None),                   // ldr
            (0xbf00, None, None),
        ] {
            assert_eq!(Operation::thumb(first, second), operation, "{first:04x} {second:04x?}");
        }
    }
}
