//! Random guest code, weighted towards what the translator has rules for, and random states for it to run in.

pub use super::generate_t32::{KINDS as KINDS_OF_T32, kind as kind_of_t32};
use super::{CODE, CODE_PAGES, CTR, DATA, DATA_PAGES, Memory};
use crate::decoder::words;
use crate::random::Random;
use crate::translator::model::{self, Machine, SYSTEM, Supervisor};
use spica_addr::GuestVa;
use spica_dbt::in_place::{Text, Words, is_sensitive};
use spica_dbt::layout::PAGE;
use spica_dbt::{Options, Spill};

const PC: u32 = 15;

/// Words of the code that a case runs in.
pub const WORDS: u32 = 96;

/// The code that a case runs in, the rest of the code pages holds older code.
#[derive(Clone, Copy)]
pub struct Window {
    pub start: u32,
    pub words: u32,
    /// Its first words that are T32.
    pub thumb: u32,
}

impl Window {
    pub fn random(random: &mut Random) -> Window {
        let words = WORDS;
        let last = CODE_PAGES * PAGE - 4 * words;
        let start = if random.one_in(2) {
            // Across the end of a page.
            PAGE * (1 + random.below(CODE_PAGES - 1)) - 4 * (1 + random.below(words - 1))
        } else {
            4 * random.below(last / 4)
        };
        Window { start: CODE + start.min(last), words, thumb: 0 }
    }

    /// The same with T32 code in its first half.
    pub fn with_t32(self) -> Window {
        Window { thumb: self.words / 2, ..self }
    }

    /// The address of some code in it, bit 0 of which is the state.
    pub fn address(&self, random: &mut Random) -> u32 {
        let word = random.below(self.words);
        let at = self.start + 4 * word;
        if word < self.thumb { at | random.below(2) << 1 | 1 } else { at }
    }
}

fn condition(random: &mut Random) -> u32 {
    if random.one_in(2) { 14 << 28 } else { random.below(15) << 28 }
}

pub fn reg(random: &mut Random) -> u32 {
    random.below(15)
}

/// A register for an operand; the PC half of the time where the instruction may name it.
fn operand(random: &mut Random, pc: bool) -> u32 {
    if pc && random.one_in(2) { PC } else { reg(random) }
}

fn imm12(random: &mut Random) -> u32 {
    match random.below(3) {
        0 => random.below(64) * 4 % 256,
        _ => random.below(4096),
    }
}

/// Shift by a constant: bits 11:5 of the instruction.
fn shift(random: &mut Random) -> u32 {
    let amount = random.pick(&[0, 0, 0, 1, 2, 2, 4, 16, 31]);
    (amount << 2 | random.below(4)) << 5
}

fn data_processing(random: &mut Random, pc: bool) -> u32 {
    let opcode = random.below(16);
    let test = matches!(opcode, 8..=11);
    let s = u32::from(test || random.one_in(2));
    let rn = if matches!(opcode, 13 | 15) { 0 } else { operand(random, pc) };
    let mut rd = if test { 0 } else { reg(random) };
    let op2 = match random.below(if pc { 5 } else { 6 }) {
        0 | 1 => 1 << 25 | imm12(random),
        5 => reg(random) | 1 << 4 | random.below(4) << 5 | reg(random) << 8,
        _ => {
            let rm = operand(random, pc);
            if rm != PC && !test && random.one_in(3) {
                rd = rm;
            }
            rm | shift(random)
        }
    };
    if rn != PC && !test && random.one_in(3) {
        rd = rn;
    }
    opcode << 21 | s << 20 | rn << 16 | rd << 12 | op2
}

/// Data processing into the PC.
fn alu_to_pc(random: &mut Random) -> u32 {
    match random.below(6) {
        // ADD PC, PC, Rm, LSL #2
        0 | 1 => 0x008f_f100 | reg(random),
        // ADD PC, PC, #4 * n; SUB PC, PC, #4 * n
        2 => 0x028f_f000 | (4 * random.below(8)),
        3 => 0x024f_f000 | (4 * random.below(16)),
        // MOV PC, Rm
        4 => 0x01a0_f000 | reg(random),
        _ => data_processing(random, true) & !(1 << 20 | 0xf000) & !0x0180_0000 | 0xf000,
    }
}

fn single(random: &mut Random, rn: u32, rt: u32) -> u32 {
    let (pre, w) = match rn {
        PC => (1, 0),
        _ => random.pick(&[(1, 0), (1, 0), (1, 1), (0, 0), (0, 1)]),
    };
    // LDRT has no form for the PC.
    let w = if rt == PC && pre == 0 { 0 } else { w };
    let common = pre << 24 | random.below(2) << 23 | w << 21 | rn << 16 | rt << 12;
    let offset = if random.one_in(2) {
        random.pick(&[0, 0, 4, 8, 60, 2, 1]) + if random.one_in(4) { random.below(0xf80) } else { 0 }
    } else {
        1 << 25 | reg(random) | shift(random)
    };
    0x0400_0000 | common | offset
}

/// LDR, LDRB, STR, STRB, or one of the halfword and doubleword forms.
fn load_store(random: &mut Random, pc_base: bool) -> u32 {
    let rn = if pc_base { PC } else { reg(random) };
    if random.one_in(2) {
        let load = random.below(if pc_base { 8 } else { 2 }).min(1) << 20;
        let byte = random.below(2) << 22;
        let rt = reg(random);
        return single(random, rn, rt) | byte | load;
    }
    let rt = reg(random);
    let form =
        random.pick(&[0x0010_00b0, 0x0010_00d0, 0x0010_00f0, 0x0000_00d0, 0x0000_00d0, 0x0000_00b0, 0x0000_00f0]);
    let (form, rt) = if form & 0x0010_0040 == 0x40 { (form, 2 * random.below(7)) } else { (form, rt) };
    let (pre, w) = if rn == PC { (1, 0) } else { random.pick(&[(1, 0), (1, 1), (0, 0)]) };
    let offset = if random.one_in(2) {
        let offset = random.pick(&[0, 4, 8, 2, 1, 0x20]) + random.below(2) * 4 * random.below(48);
        1 << 22 | (offset & 0xf0) << 4 | offset & 15
    } else {
        reg(random)
    };
    form | pre << 24 | random.below(2) << 23 | w << 21 | rn << 16 | rt << 12 | offset
}

/// LDM or STM; the list gets a shape, so that each branch of Algorithm 1 is met.
fn block_transfer(random: &mut Random, load: bool, pc: bool) -> u32 {
    let mut list = match random.below(5) {
        0 => 1 << reg(random),
        1 => (1 << (1 + random.below(15))) - 1,
        2 => random.below(1 << 15) | 1 << 14,
        3 => 1 << 14,
        _ => random.below(1 << 15),
    };
    let any = reg(random);
    let rn = random.pick(&[13, 13, 14, 0, 1, any]);
    let mut w = random.below(2);
    if load && list >> rn & 1 != 0 {
        w = 0;
    }
    list |= if pc { 1 << 15 } else { 0 };
    list |= if list == 0 { 1 << 3 } else { 0 };
    0x0800_0000 | random.below(4) << 23 | w << 21 | u32::from(load) << 20 | rn << 16 | list
}

/// VLDR, VSTR, VLDM, VSTM.
fn vfp_transfer(random: &mut Random) -> u32 {
    let (double, load, d, vd) = (random.below(2), random.below(2), random.below(2), random.below(16));
    let rn = random.pick(&[PC, PC, 13, 0, 1, 2]);
    let common = 0x0c00_0a00 | d << 22 | rn << 16 | load << 20 | vd << 12 | double << 8;
    let count = (1 + random.below(6)) << double;
    match random.below(4) {
        0 => common | 1 << 23 | u32::from(rn != PC) << 21 | count,
        1 if rn != PC => common | 1 << 24 | 1 << 21 | count,
        2 => common | 1 << 23 | count,
        _ => common | 1 << 24 | random.below(2) << 23 | random.below(32),
    }
}

fn branch(random: &mut Random, at: u32, window: &Window) -> u32 {
    let target = if random.one_in(8) { at } else { window.address(random) };
    let link = random.below(3) & 1;
    0x0a00_0000 | link << 24 | (target.wrapping_sub(at + 8) >> 2) & 0x00ff_ffff
}

/// Sensitive instructions, and what else has a rule of its own.
fn special(random: &mut Random) -> u32 {
    let rt = reg(random) << 12;
    match random.below(15) {
        0 => 0x010f_0000 | rt,
        1 => 0x014f_0000 | rt,
        2 if random.one_in(2) => 0x0121_f000 | reg(random),
        2 => 0x0128_f000 | random.below(2) << 18 | reg(random),
        3 => 0x0328_f000 | imm12(random),
        4 => 0x0160_f000 | (1 + random.below(15)) << 16 | reg(random),
        5 => 0x0320_f000 | random.pick(&[0, 1, 4, 0xf0]),
        6 => 0x0e1d_0f10 | random.pick(&[2, 3, 4]) << 5 | rt,
        7 => 0x0e0d_0f10 | random.pick(&[2, 3, 4]) << 5 | rt,
        8 => 0x0e07_0f10 | random.pick(&[0x5 | 4 << 5, 0xa | 4 << 5, 0xa | 5 << 5]) | rt,
        // LDM and STM of the User bank
        9 => block_transfer(random, true, false) & !(1 << 21) | 1 << 22,
        10 => {
            let pc = random.one_in(3);
            block_transfer(random, false, pc) & !(1 << 21) | 1 << 22
        }
        // LDRT, STRT, LDRBT, STRBT
        11 => {
            let (rn, rt) = (reg(random), reg(random));
            single(random, rn, rt) & !(1 << 24) | 1 << 21 | random.below(2) << 20 | random.below(2) << 22
        }
        // LDREX, STREX
        12 => 0x0190_0f9f | rt | reg(random) << 16,
        13 => 0x0180_0f90 | rt | reg(random) << 16 | reg(random),
        // SVC, an exception return, an undefined instruction
        _ => random.pick(&[0x0f00_0001, 0x01b0_f00e, 0x07f0_00f0, 0x0320_f003, 0x0f12_3456]),
    }
}

pub const LDM_USER: &str = "LDM of the User bank";
pub const STM_USER: &str = "STM of the User bank";
pub const LDM_RETURN: &str = "LDM, returning from an exception";

/// The kinds of instructions with a rule that random code must not miss.
pub const KINDS: &[&str] = &[
    LDM_USER,
    STM_USER,
    LDM_RETURN,
    "data processing, returning from an exception",
    "a literal",
    "MRC of a thread ID",
    "MCR of a thread ID",
    "MRC of a system register",
    "MCR of a system register",
    "MCR of DACR",
    "MCR of an instruction cache or predictor",
    "MCR of a data cache by address",
    "MCR of a data cache by set and way",
    "MCR of one TLB entry",
    "an unprivileged access",
    "VMRS of FPEXC",
    "VMSR of FPEXC",
    "MRC of TEEHBR",
    "MCR of TEEHBR",
];

/// The kind of a word, whatever its condition. Looked at in passing: the model says what it does.
pub fn kind(word: u32) -> Option<&'static str> {
    let (rn, load) = (word >> 16 & 15, word & 1 << 20 != 0);
    if word >> 28 == 15 {
        return None;
    }
    match word >> 25 & 7 {
        0 | 1 if word & 0x0190_f000 == 0x0110_f000 => None,
        0 | 1 if word & 0x0010_f000 == 0x0010_f000 && word & 0x0200_0090 != 0x90 => {
            Some("data processing, returning from an exception")
        }
        2 if rn == PC && load && word & 0x0040_0000 == 0 && word & 0xf000 != 0xf000 => Some("a literal"),
        2 | 3 if word & 0x0120_0000 == 0x0020_0000 && word & 0x0200_0010 != 0x0200_0010 => {
            Some("an unprivileged access")
        }
        7 if word & 0x0fef_0fff == 0x0ee8_0a10 => Some(if load { "VMRS of FPEXC" } else { "VMSR of FPEXC" }),
        7 if word & 0x0fef_0fff == 0x0ec1_0e10 => Some(if load { "MRC of TEEHBR" } else { "MCR of TEEHBR" }),
        4 if word & 1 << 22 != 0 => match (load, word & 0x8000 != 0) {
            (true, true) => Some(LDM_RETURN),
            (true, false) => Some(LDM_USER),
            _ => Some(STM_USER),
        },
        7 if word & 0x0100_0f10 == 0x0000_0f10 => {
            let register = (rn, word >> 21 & 7, word & 15, word >> 5 & 7);
            match (load, register) {
                (true, (13, 0, 0, 2..=4)) => Some("MRC of a thread ID"),
                (false, (13, 0, 0, 2..=4)) => Some("MCR of a thread ID"),
                (false, (3, 0, 0, 0)) => Some("MCR of DACR"),
                (true, known) if SYSTEM.contains(&known) => Some("MRC of a system register"),
                (false, known) if SYSTEM.contains(&known) => Some("MCR of a system register"),
                (false, (7, 0, 1, _) | (7, 0, 5, 0 | 1 | 6 | 7)) => Some("MCR of an instruction cache or predictor"),
                (false, (7, 0, 6 | 10 | 11 | 14, 1)) => Some("MCR of a data cache by address"),
                (false, (7, 0, 6 | 10 | 14, 2)) => Some("MCR of a data cache by set and way"),
                (false, (8, 0, _, 1)) => Some("MCR of one TLB entry"),
                _ => None,
            }
        }
        _ => None,
    }
}

/// MRC and MCR of a CP15 register, by CRn, opc1, CRm, opc2.
pub const fn cp15(load: bool, (crn, opc1, crm, opc2): (u32, u32, u32, u32), rt: u32) -> u32 {
    0x0e00_0f10 | (load as u32) << 20 | opc1 << 21 | crn << 16 | rt << 12 | opc2 << 5 | crm
}

/// Cache maintenance: of instruction caches and predictors, of data caches by set and way and by address (B4.2.1).
pub const CACHES: [(u32, u32, u32, u32); 13] = [
    (7, 0, 1, 0),
    (7, 0, 1, 6),
    (7, 0, 5, 0),
    (7, 0, 5, 1),
    (7, 0, 5, 6),
    (7, 0, 5, 7),
    (7, 0, 6, 2),
    (7, 0, 10, 2),
    (7, 0, 14, 2),
    (7, 0, 6, 1),
    (7, 0, 10, 1),
    (7, 0, 11, 1),
    (7, 0, 14, 1),
];

/// System control, and the User bank.
fn system(random: &mut Random) -> u32 {
    let rt = reg(random);
    match random.below(20) {
        16 => 0x0ee8_0a10 | random.below(3).min(1) << 20 | rt << 12,
        // The generic timer's counters and comparators.
        14 => {
            // Twice the same register is UNPREDICTABLE.
            let rt2 = match reg(random) {
                same if same == rt => (rt + 1) % 13,
                other => other,
            };
            0x0c50_0f0e | rt2 << 16 | rt << 12 | random.pick(&[0, 0, 1, 1, 2, 3]) << 4
        }
        17 => 0x0ec1_0e10 | random.below(2) << 20 | rt << 12,
        // LDRT, STRT, LDRBT, STRBT; LDRHT, STRHT, LDRSBT, LDRSHT
        18 | 19 => {
            let (rn, rt) = (reg(random), reg(random));
            if random.one_in(3) {
                let form = random.pick(&[0x0010_00b0, 0x0000_00b0, 0x0010_00d0, 0x0010_00f0]);
                form | 1 << 22 | 1 << 21 | random.below(2) << 23 | rn << 16 | rt << 12 | (4 * random.below(4))
            } else {
                single(random, rn, rt) & !(1 << 24) | 1 << 21 | random.below(2) << 20 | random.below(2) << 22
            }
        }
        0 | 1 => cp15(true, random.pick(&SYSTEM), rt),
        2 => cp15(false, random.pick(&SYSTEM), rt),
        3..=5 => cp15(false, SYSTEM[model::DACR], rt),
        6..=8 => cp15(false, random.pick(&CACHES), rt),
        9 => cp15(false, (8, 0, random.pick(&[3, 5, 6, 7]), random.pick(&[0, 1, 1, 1, 2, 3])), rt),
        10..=12 => {
            let load = random.one_in(2);
            let list = match random.below(4) {
                // SP and LR alone, or with all others.
                0 => 0x6000,
                1 => random.pick(&[0x2000, 0x4000, 0x1fff, 0x7fff, 0x7ffe]),
                _ => 0,
            };
            let word = block_transfer(random, load, false) & !(1 << 21) | 1 << 22;
            if list == 0 { word } else { word & !0xffff | list }
        }
        13 => {
            let word = block_transfer(random, true, true) | 1 << 22;
            // As a kernel has it, or in any other way.
            if random.one_in(2) { word & !(1 << 24) | 1 << 23 } else { word }
        }
        _ => match random.below(4) {
            // MOVS pc, rm; SUBS pc, rn, #n; ADDS pc, rn, #n
            0 => 0x01b0_f000 | random.pick(&[14, rt]),
            1 => 0x0250_f000 | random.pick(&[14, rt]) << 16 | random.pick(&[4, 8, 0, 0xf01]),
            2 => 0x0290_f000 | rt << 16 | random.pick(&[4, 8]),
            _ => data_processing(random, true) & !(0xf000 | 3 << 23) | 1 << 20 | 0xf000,
        },
    }
}

/// Instructions with no condition.
fn unconditional(random: &mut Random) -> u32 {
    let masks = if random.one_in(2) { 1 << 7 } else { (1 + random.below(7)) << 6 };
    let rn = reg(random);
    random.pick(&[
        0xf57f_f05b,
        0xf57f_f04f,
        0xf57f_f06f,
        0xf57f_f01f,
        0xf5d0_f000 | rn << 16,
        // PLD and PLI of a literal
        0xf5df_f010,
        0xf4df_f010,
        0xf108_0000 | masks,
        0xf10c_0000 | masks,
    ])
}

fn arithmetic(random: &mut Random) -> u32 {
    let (a, b, c) = (reg(random), reg(random), reg(random));
    match random.below(8) {
        0 => 0x0000_0090 | random.below(2) << 20 | a << 16 | b << 8 | c,
        1 => 0x0020_0090 | random.below(2) << 20 | a << 16 | reg(random) << 12 | b << 8 | c,
        2 => 0x0080_0090 | random.below(2) << 22 | random.below(2) << 20 | a << 16 | ((a + 1) % 15) << 12 | b << 8 | c,
        3 => 0x0060_0090 | a << 16 | reg(random) << 12 | b << 8 | c,
        4 | 5 => 0x0300_0000 | random.below(2) << 22 | random.below(16) << 16 | a << 12 | random.below(4096),
        6 => 0x016f_0f10 | a << 12 | b,
        _ => 0x0100_0050 | random.below(4) << 21 | a << 16 | b << 12 | c,
    }
}

/// Sensitive instructions that are rare, and words of any kind: most are no instructions, or UNPREDICTABLE.
fn rare(random: &mut Random) -> u32 {
    let register = reg(random);
    match random.below(12) {
        // VMRS and VMSR of FPSCR and the feature registers
        0 => 0x0ee1_0a10 | random.below(2) << 20 | register << 12,
        1 => 0x0ef0_0a10 | random.pick(&[0, 6, 7, 9]) << 16 | register << 12,
        // SMC, BKPT, BXJ, SETEND
        2 => random.pick(&[0x0160_0070, 0x0120_0070, 0x012f_ff20]) | register,
        3 => 0xf101_0000 | random.below(2) << 9,
        // SRS, RFE, CPS with a mode
        4 => 0xf84d_0500 | random.below(4) << 23 | random.below(2) << 21 | random.pick(&[0x13, 0x12, 0x1f, 0x10]),
        5 => 0xf810_0a00 | random.below(4) << 23 | random.below(2) << 21 | register << 16,
        6 => 0xf102_0000 | random.below(16) << 17 | random.below(8) << 6 | random.pick(&[0x13, 0x1f, 0x12]),
        // BLX of a constant
        7 => 0xfa00_0000 | random.below(2) << 24 | random.below(64),
        // CP14, and CP15 of any kind
        8 => 0x0e00_0e10 | random.word() & 0x001f_f0ef,
        9 => 0x0e00_0f10 | random.word() & 0x00ff_f0ef,
        10 => words::biased(random),
        _ => random.word(),
    }
}

/// One instruction, to be at `at`.
pub fn instruction(random: &mut Random, at: u32, window: &Window) -> u32 {
    let body = match random.below(29) {
        0..=4 => data_processing(random, true),
        5..=6 => data_processing(random, false),
        7..=8 => load_store(random, true),
        9..=10 => load_store(random, false),
        // STR PC
        11 => {
            let rn = reg(random);
            single(random, rn, PC)
        }
        12..=13 => block_transfer(random, false, true),
        14 => {
            let load = random.one_in(2);
            block_transfer(random, load, false)
        }
        15 => block_transfer(random, true, true),
        // LDR PC
        16 => {
            let rn = operand(random, true);
            single(random, rn, PC) | 1 << 20
        }
        17 => alu_to_pc(random),
        18 if random.one_in(16) => 0x012f_ff1f, // BX PC
        18 => random.pick(&[0x012f_ff10, 0x012f_ff30]) | reg(random),
        19..=20 => branch(random, at, window),
        21 => special(random),
        22 => return unconditional(random),
        23 => vfp_transfer(random),
        24..=26 => system(random),
        27 => match rare(random) {
            word if word >> 28 == 15 => return word,
            word => word,
        },
        _ => arithmetic(random),
    };
    condition(random) | body & 0x0fff_ffff
}

/// A value for a register or a word of data.
pub fn value(random: &mut Random, window: &Window) -> u32 {
    match random.below(16) {
        0..=4 => window.address(random),
        5..=8 => {
            let page = DATA + PAGE * random.below(DATA_PAGES);
            let at = match random.below(3) {
                // Where transfers cross into the next page.
                0 => (PAGE - 64) + 4 * random.below(16),
                1 => 4 * random.below(16),
                _ => 4 * random.below(PAGE / 4),
            };
            page + at + if random.one_in(12) { random.below(4) } else { 0 }
        }
        9..=11 => random.below(12),
        // CPSR values for MSR: this mode, with and without masks
        12 if random.one_in(2) => 0x13 | random.below(8) << 6 | random.word() & 0xffff_f000,
        // Or for DACR
        12 if random.one_in(2) => random.pick(&[0x5555_5555, 0x5555_5551, 0x4000_0000, 0xffff_ffff, 0x10]),
        12 => random.pick(&[0, 1, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff]),
        13 => window.address(random) | 1,
        _ => random.word(),
    }
}

/// A state to start from.
pub fn machine(random: &mut Random, window: &Window) -> Machine {
    let mut r = [0; 15];
    for value_of in &mut r {
        *value_of = value(random, window);
    }
    // A stack, and a return address.
    r[13] = DATA + PAGE * random.below(DATA_PAGES) + 4 * random.below(PAGE / 4);
    r[14] = window.address(random);
    let thumb = window.thumb != 0;
    let mut system = std::array::from_fn(|_| random.word());
    system[model::CTR] = CTR;
    system[model::DACR] = value(random, window);
    Machine {
        r,
        pc: window.start + 4 * random.below(8),
        psr: random.word() & 0xf80f_0000 | if thumb { model::T } else { 0 },
        length: 4,
        vfp: std::array::from_fn(|_| random.word()),
        thread: [random.word(), random.word()],
        cycles: None,
        vfp_on: false,
        mode: model::SUPERVISOR_MODE,
        strict: false,
        supervisor: Some(Supervisor {
            masks: random.word() & 0x1c0,
            // Back to Supervisor mode, or nowhere that the test follows.
            spsr: if random.one_in(4) {
                random.word()
            } else {
                random.word() & 0xf80f_01c0 | 0x13 | if thumb && random.one_in(2) { model::T } else { 0 }
            },
            banked: [value(random, window), value(random, window)],
            thread_private: random.word(),
            system,
            fpexc: if random.one_in(4) { 0 } else { model::EN },
            vfp_denied: random.one_in(16),
            teehbr: random.word() & !3,
            ..Supervisor::default()
        }),
    }
}

const ISB: u32 = 0xf57f_f06f;

/// Whether that is an ISB of all of the system.
pub const fn is_isb(word: u32) -> bool {
    word == ISB
}

/// Puts a function into a window, and some calls of it: by chance, few calls are returned from.
fn function(random: &mut Random, memory: &mut Memory, window: &Window) {
    const BX_LR: u32 = 0xe12f_ff1e;
    const MOV_PC_LR: u32 = 0xe1a0_f00e;
    let start = random.below(window.words - 2);
    let (first, last) = random.pick(&[
        (None, BX_LR),
        (None, MOV_PC_LR),
        // PUSH {R4, LR}; POP {R4, PC}
        (Some(0xe92d_4010), 0xe8bd_8010),
        // STR LR, [SP, #-4]!; LDR PC, [SP], #4
        (Some(0xe52d_e004), 0xe49d_f004),
    ]);
    if let Some(first) = first {
        memory.set_word(window.start + 4 * start, first);
    }
    memory.set_word(window.start + 4 * (start + 2), last);
    for _ in 0..1 + random.below(3) {
        let from = random.below(window.words);
        let condition = if random.one_in(4) { random.below(14) } else { 14 };
        let offset = start.wrapping_sub(from + 2) & 0x00ff_ffff;
        memory.set_word(window.start + 4 * from, condition << 28 | 0x0b00_0000 | offset);
        // What Linux has around calls: DACR is written in front of it and behind it.
        if random.one_in(3) && from >= 2 && from + 2 < window.words {
            let [open, close] = [(); 2].map(|()| 14 << 28 | cp15(false, SYSTEM[model::DACR], random.below(9)));
            for (at, word) in [(from - 2, open), (from - 1, ISB), (from + 1, close), (from + 2, ISB)] {
                memory.set_word(window.start + 4 * at, word);
            }
            // And it looks for its current task.
            if from + 3 < window.words && random.one_in(2) {
                memory.set_word(window.start + 4 * (from + 3), 14 << 28 | cp15(true, (13, 0, 0, 3), random.below(13)));
            }
        }
    }
}

/// What Linux does to mend misaligned accesses: several unprivileged ones, byte by byte.
fn bytes(random: &mut Random, memory: &mut Memory, window: &Window) {
    let (length, rn) = (2 + random.below(4), reg(random));
    let form = random.pick(&[0xe4f0_0001, 0xe4e0_0001]) | rn << 16;
    let first = random.below(window.words);
    for at in first..(first + length).min(window.words) {
        memory.set_word(window.start + 4 * at, form | reg(random) << 12);
    }
}

/// Fills a window with code, the data pages with data, and takes some pages away.
pub fn memory(random: &mut Random, memory: &mut Memory, window: &Window) {
    super::generate_t32::fill_if_any(random, window, |at, half| memory.set_half(at, half));
    for n in window.thumb..window.words {
        let at = window.start + 4 * n;
        memory.set_word(at, instruction(random, at, window));
    }
    for _ in 0..if window.thumb == 0 { random.below(4) } else { 0 } {
        function(random, memory, window);
    }
    for _ in 0..if window.thumb == 0 { random.below(3) } else { 0 } {
        bytes(random, memory, window);
    }
    let page = DATA + PAGE * random.below(DATA_PAGES);
    for n in 0..PAGE / 4 {
        memory.set_word(page + 4 * n, value(random, window));
    }
    for page in CODE_PAGES..CODE_PAGES + DATA_PAGES {
        memory.present[page as usize] = !random.one_in(3);
        memory.kernel_only[page as usize] = random.one_in(4);
    }
}

/// The pages of code in front of that of `va`, that, and the one behind it, as far as they are there.
pub fn text_at(memory: &Memory, va: u32) -> [Option<Words>; 3] {
    [PAGE.wrapping_neg(), 0, PAGE].map(|offset| {
        let at = va.wrapping_add(offset);
        Memory::is_code(at).then(|| memory.page_words(at))
    })
}

/// Makes a window look like what a compiler makes, so that it can run in place: nearly all instructions have no
/// condition, and none that is sensitive is read as a literal, or looks like data for another reason. Nobody could tell
/// then that it is executed.
pub fn make_text(random: &mut Random, memory: &mut Memory, window: &Window) {
    const NOP: u32 = 0xe320_f000;
    for at in (window.start..window.start + 4 * window.words).step_by(4) {
        let word = memory.word(at);
        if word >> 28 < 14 && !random.one_in(4) {
            memory.set_word(at, word & 0x0fff_ffff | 14 << 28);
        }
    }
    // Each makes others look more like code.
    for _ in 0..4 {
        for at in (window.start..window.start + 4 * window.words).step_by(4) {
            let [before, page, behind] = text_at(memory, at);
            let Some(page) = page else { continue };
            let text = Text { va: GuestVa(at), page: &page, before: before.as_ref(), behind: behind.as_ref() };
            let word = (at % PAGE / 4) as usize;
            if text.is_replaced(word) != Some(is_sensitive(page[word])) {
                memory.set_word(at, NOP);
            }
        }
    }
}

/// Any options.
pub fn options(random: &mut Random) -> Options {
    let mut options = Options {
        max_block: random.pick(&[1, 2, 3, 8, 32]),
        vfp: random.one_in(2),
        thumbee: random.one_in(2),
        ..Options::naive()
    };
    for name in Options::NAMES {
        *options.switch(name).expect("a name") = random.one_in(2);
    }
    options.spill = random.pick(&Spill::ALL).1;
    options
}
