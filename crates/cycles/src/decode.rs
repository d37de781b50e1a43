//! What the model needs to know of an instruction, found out once.
//!
//! A32 is decoded by `spica_isa`. Of T32, which only user programs have here, no more than this is decoded.

mod arm;
mod thumb;

/// What an instruction does to the flow of the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flow {
    /// The next one follows.
    Next,
    /// A branch to an address that the instruction has.
    Direct {
        /// Whether it may not be taken.
        conditional: bool,
        /// Whether it leaves a return address.
        call: bool,
    },
    /// A branch to an address that is computed or loaded.
    Indirect {
        /// Whether it may not be taken.
        conditional: bool,
        /// Whether it leaves a return address.
        call: bool,
    },
    /// What compilers return by, and return stacks predict: `BX LR`, `MOV PC, LR`, loads of PC by SP (Cortex-A8 TRM
    /// §5.2).
    Return {
        /// Whether it may not be taken.
        conditional: bool,
    },
    /// A return from an exception, which nothing predicts.
    ExceptionReturn,
}

impl Flow {
    /// Whether it may not be taken.
    #[must_use]
    pub const fn is_conditional(self) -> bool {
        match self {
            Flow::Direct { conditional, .. } | Flow::Indirect { conditional, .. } | Flow::Return { conditional } => {
                conditional
            }
            Flow::Next | Flow::ExceptionReturn => false,
        }
    }

    /// Whether the return stack predicts it.
    #[must_use]
    pub const fn is_return(self) -> bool {
        matches!(self, Flow::Return { .. })
    }

    /// Whether the return stack keeps where it returns to.
    #[must_use]
    pub const fn is_call(self) -> bool {
        matches!(self, Flow::Direct { call: true, .. } | Flow::Indirect { call: true, .. })
    }
}

/// What unit of the core an instruction needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// Arithmetic, logic, moves.
    Arithmetic,
    /// The multiplier.
    Multiply,
    /// Loads and stores, and preloads.
    Memory,
    /// The branch unit alone.
    Branch,
    /// VFP and NEON.
    Float,
    /// Coprocessor 15, barriers, status registers: nothing else runs beside them.
    System,
}

/// An operation on the system that time or the model's state depends on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum System {
    /// `ISB`.
    Isb,
    /// `DSB`.
    Dsb,
    /// `DMB`.
    Dmb,
    /// A change of mode or masks.
    ModeChange,
    /// A read of a coprocessor register.
    Read,
    /// A write of a register that has to do with translation.
    Context,
    /// Another write.
    Write,
    /// TLBIALL of either TLB or both.
    TlbAll,
    /// TLBIMVA: a page of an address space.
    TlbPage,
    /// TLBIMVAA: a page of all address spaces.
    TlbPageOfAll,
    /// TLBIASID.
    TlbAsid,
    /// An operation on a line of the data cache that removes it, by address.
    DataLineInvalidate,
    /// An operation on a line of the data cache that leaves it.
    DataLineClean,
    /// Any operation on the data cache by set and way.
    DataSetWay,
    /// ICIMVAU.
    InstructionLine,
    /// ICIALLU.
    InstructionAll,
    /// BPIALL.
    Predictor,
    /// BPIMVA.
    PredictorWord,
}

/// The bit of the flags in a set of registers; the lower 16 are the core's.
pub const FLAGS: u32 = 1 << 16;

/// An instruction as the model sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Instruction {
    /// Its virtual address.
    pub address: u32,
    /// Its length in bytes.
    pub size: u8,
    /// What it does to the flow.
    pub flow: Flow,
    /// What executes it.
    pub unit: Unit,
    /// How many cycles it is issued for.
    pub cycles: u8,
    /// How many cycles later than that of plain arithmetic its results are there.
    pub latency: u8,
    /// Registers that it reads, and [`FLAGS`].
    pub reads: u32,
    /// Those of them that it needs a cycle earlier than others: for an address or a shift.
    pub early: u32,
    /// Those of them that it needs a cycle later: what it stores.
    pub late: u32,
    /// Registers that it writes, and [`FLAGS`].
    pub writes: u32,
    /// The register among them that a load or store writes its address back to: it is there as early as the results of
    /// plain arithmetic.
    pub base: u32,
    /// What it does to the system.
    pub system: Option<System>,
    /// The register that a system operation takes its address from.
    pub operand: u8,
}

impl Instruction {
    /// Decodes an A32 instruction.
    #[must_use]
    pub fn arm(address: u32, word: u32) -> Instruction {
        arm::decode(address, word)
    }

    /// Decodes a T32 instruction: the first half-word, and the second one of a long instruction.
    #[must_use]
    pub fn thumb(address: u32, first: u16, second: Option<u16>) -> Instruction {
        thumb::decode(address, first, second)
    }

    /// One that does nothing.
    const fn plain(address: u32, size: u8) -> Instruction {
        Instruction {
            address,
            size,
            flow: Flow::Next,
            unit: Unit::Arithmetic,
            cycles: 1,
            latency: 0,
            reads: 0,
            early: 0,
            late: 0,
            writes: 0,
            base: 0,
            system: None,
            operand: 0,
        }
    }

    /// The instruction behind it.
    #[must_use]
    pub const fn behind(&self) -> u32 {
        self.address.wrapping_add(self.size as u32)
    }

    /// Makes it write its address back to registers.
    const fn write_back(&mut self, to: u32) {
        // What is loaded into the register itself comes later, and is unpredictable besides (A8.8.63).
        self.base |= to & !self.writes;
        self.writes |= to;
    }

    /// Makes it a load or store of so many words.
    const fn transfer(&mut self, words: u32) {
        self.unit = Unit::Memory;
        // 64 bits in a cycle.
        self.cycles = if words > 2 { words.div_ceil(2) as u8 } else { 1 };
    }
}

/// The part of a multiply, load or coprocessor write that both instruction sets have in common.
fn coprocessor(i: &mut Instruction, load: bool, register: (u8, u8, u8, u8, u8), rt: u8) {
    let (coprocessor, opc1, crn, crm, opc2) = register;
    i.unit = Unit::System;
    i.operand = rt;
    if load {
        i.writes |= 1 << (rt & 15);
    } else {
        i.reads |= 1 << (rt & 15);
    }
    i.system = Some(match (coprocessor, opc1, crn, crm, opc2) {
        _ if load => System::Read,
        (15, 0, 1 | 2 | 3 | 10 | 12, _, _) | (15, 0, 13, 0, 1) => System::Context,
        (15, 0, 7, 5, 4) => System::Isb,
        (15, 0, 7, 10, 4) => System::Dsb,
        (15, 0, 7, 10, 5) => System::Dmb,
        (15, 0, 7, 5 | 1, 0) => System::InstructionAll,
        (15, 0, 7, 5, 1) => System::InstructionLine,
        (15, 0, 7, 5 | 1, 6) => System::Predictor,
        (15, 0, 7, 5, 7) => System::PredictorWord,
        (15, 0, 7, 6 | 14, 1) => System::DataLineInvalidate,
        (15, 0, 7, 10 | 11, 1) => System::DataLineClean,
        (15, 0, 7, 6 | 10 | 14, 2) => System::DataSetWay,
        (15, 0, 8, 3 | 5 | 6 | 7, 0) => System::TlbAll,
        (15, 0, 8, 3 | 5 | 6 | 7, 1) => System::TlbPage,
        (15, 0, 8, 3 | 5 | 6 | 7, 3) => System::TlbPageOfAll,
        (15, 0, 8, 3 | 5 | 6 | 7, 2) => System::TlbAsid,
        _ => System::Write,
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_of_a32() {
        let direct = |conditional, call| Flow::Direct { conditional, call };
        let indirect = |call| Flow::Indirect { conditional: false, call };
        let back = Flow::Return { conditional: false };
        for (word, flow) in [
            (0xe1a0_0000, Flow::Next),                         // nop
            (0xea00_0000, direct(false, false)),               // b
            (0x1a00_0000, direct(true, false)),                // bne
            (0xeb00_0000, direct(false, true)),                // bl
            (0xfa00_0000, direct(false, true)),                // blx
            (0xe12f_ff33, indirect(true)),                     // blx r3
            (0xe12f_ff13, indirect(false)),                    // bx r3
            (0xe12f_ff1e, back),                               // bx lr
            (0x012f_ff1e, Flow::Return { conditional: true }), // bxeq lr
            (0xe1a0_f00e, back),                               // mov pc, lr
            (0xe8bd_8010, back),                               // pop {r4, pc}
            (0xe49d_f004, back),                               // pop {pc}
            (0xe597_f000, indirect(false)),                    // ldr pc, [r7]
            (0xe08f_f103, indirect(false)),                    // add pc, pc, r3, lsl #2
            (0xe25e_f004, Flow::ExceptionReturn),              // subs pc, lr, #4
            (0xe8fd_8001, Flow::ExceptionReturn),              // ldm sp!, {r0, pc}^
            (0xf8bd_0a00, Flow::ExceptionReturn),              // rfeia sp!
            (0xef00_0000, Flow::Next),                         // svc
        ] {
            assert_eq!(Instruction::arm(0x8000, word).flow, flow, "{word:08x}");
        }
    }

    #[test]
    fn flows_of_t32() {
        let direct = |conditional, call| Flow::Direct { conditional, call };
        let indirect = |call| Flow::Indirect { conditional: false, call };
        let back = Flow::Return { conditional: false };
        for (first, second, flow) in [
            (0xbf00, None, Flow::Next),                   // nop
            (0xe7fe, None, direct(false, false)),         // b
            (0xd0fe, None, direct(true, false)),          // beq
            (0xb108, None, direct(true, false)),          // cbz
            (0xdf00, None, Flow::Next),                   // svc
            (0x4770, None, back),                         // bx lr
            (0x4718, None, indirect(false)),              // bx r3
            (0x4798, None, indirect(true)),               // blx r3
            (0xbd10, None, back),                         // pop {r4, pc}
            (0x46f7, None, back),                         // mov pc, lr
            (0x4687, None, indirect(false)),              // mov pc, r0
            (0xf000, Some(0xf800), direct(false, true)),  // bl
            (0xf000, Some(0xe800), direct(false, true)),  // blx
            (0xf000, Some(0xb800), direct(false, false)), // b.w
            (0xf040, Some(0x8000), direct(true, false)),  // bne.w
            (0xe8bd, Some(0x8ff0), back),                 // pop.w {r4-r11, pc}
            (0xf85d, Some(0xfb04), back),                 // ldr.w pc, [sp], #4
            (0xf8d3, Some(0xf000), indirect(false)),      // ldr.w pc, [r3]
            (0xe8df, Some(0xf001), indirect(false)),      // tbb [pc, r1]
            (0xf8d3, Some(0x0000), Flow::Next),           // ldr.w r0, [r3]
        ] {
            assert_eq!(Instruction::thumb(0x8000, first, second).flow, flow, "{first:04x} {second:04x?}");
        }
    }

    #[test]
    fn system_operations() {
        for (word, system) in [
            (0xf57f_f06f, Some(System::Isb)),
            (0xf57f_f04f, Some(System::Dsb)),
            (0xf57f_f05f, Some(System::Dmb)),
            (0xee07_0f95, Some(System::Isb)),
            (0xee02_0f10, Some(System::Context)), // TTBR0
            (0xee0d_0f30, Some(System::Context)), // CONTEXTIDR
            (0xee03_0f10, Some(System::Context)), // DACR
            (0xee0d_0f90, Some(System::Write)),   // TPIDRPRW
            (0xee1d_0f70, Some(System::Read)),    // TPIDRURO
            (0xee08_0f17, Some(System::TlbAll)),
            (0xee08_0f37, Some(System::TlbPage)),
            (0xee08_0f53, Some(System::TlbAsid)),
            (0xee07_0f15, Some(System::InstructionAll)),
            (0xee07_0f35, Some(System::InstructionLine)),
            (0xee07_0fd5, Some(System::Predictor)),
            (0xee07_0ff5, Some(System::PredictorWord)),
            (0xee07_0f3a, Some(System::DataLineClean)),
            (0xee07_0f3e, Some(System::DataLineInvalidate)),
            (0xf102_0013, Some(System::ModeChange)), // cps #19
            (0xe121_f000, Some(System::ModeChange)), // msr cpsr_c, r0
            (0xe128_f000, None),                     // msr cpsr_f, r0
            (0xe5903004, None),
        ] {
            assert_eq!(Instruction::arm(0, word).system, system, "{word:08x}");
        }
        assert_eq!(Instruction::thumb(0, 0xee1d, Some(0x3f70)).system, Some(System::Read));
        assert_eq!(Instruction::thumb(0, 0xf3bf, Some(0x8f5f)).system, Some(System::Dmb));
    }

    #[test]
    fn registers_of_a_load_and_what_uses_it() {
        let load = Instruction::arm(0, 0xe590_3004); // ldr r3, [r0, #4]
        assert_eq!((load.unit, load.reads, load.early, load.writes), (Unit::Memory, 1, 1, 8));
        let add = Instruction::arm(4, 0xe093_2001); // adds r2, r3, r1
        assert_eq!((add.unit, add.reads, add.writes), (Unit::Arithmetic, 0b1010, 4 | FLAGS));
        let pop = Instruction::arm(8, 0xe8bd_80f0); // pop {r4-r7, pc}
        assert_eq!((pop.unit, pop.cycles, pop.reads), (Unit::Memory, 3, 1 << 13));
        let store = Instruction::arm(8, 0xe580_3000); // str r3, [r0]
        assert_eq!((store.reads, store.early, store.late), (9, 1, 8));
        let pop = Instruction::arm(8, 0xe49d_f004); // pop {pc}
        assert_eq!((pop.writes, pop.base), (1 << 15 | 1 << 13, 1 << 13));
        let push = Instruction::thumb(8, 0xb510, None); // push {r4, lr}
        assert_eq!((push.writes, push.base), (1 << 13, 1 << 13));
        let load = Instruction::thumb(8, 0xf853, Some(0x2b04)); // ldr r2, [r3], #4
        assert_eq!((load.writes, load.base), (0b1100, 0b1000));
        let multiply = Instruction::arm(0, 0xe000_0291); // mul r0, r1, r2
        assert_eq!((multiply.unit, multiply.reads, multiply.writes), (Unit::Multiply, 6, 1));
        let load = Instruction::thumb(0, 0x6843, None); // ldr r3, [r0, #4]
        assert_eq!((load.unit, load.reads, load.writes), (Unit::Memory, 1, 8));
    }

    #[test]
    fn every_word_is_something() {
        // No word panics, and each has a length and takes a cycle.
        let mut word = 1u32;
        for _ in 0..200_000 {
            word = word.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let arm = Instruction::arm(0, word);
            let thumb = Instruction::thumb(0, word as u16, (word as u16 >= 0xe800).then_some((word >> 16) as u16));
            assert!(arm.size == 4 && arm.cycles > 0 && thumb.cycles > 0, "{word:08x}");
        }
    }
}
