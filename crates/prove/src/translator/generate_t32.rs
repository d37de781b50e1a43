//! Random T32 code, weighted as A32's is.

use super::generate::{CACHES, Window, cp15, reg};
use crate::random::Random;
use crate::translator::model::{self, SYSTEM};
use spica_isa::t32::{Decoded, Op};

/// The kinds of T32 instructions that random code must not miss.
pub const KINDS: &[&str] = &[
    "T32, BL or BLX",
    "T32, CBZ or CBNZ",
    "T32, IT",
    "T32, LDRD or STRD",
    "T32, LDREX or STREX with an offset",
    "T32, LDREXD or STREXD",
    "T32, ORN",
    "T32, TBB or TBH",
    "T32, a branch",
    "T32, a constant",
    "T32, a constant of twelve bits",
    "T32, a halfword with an offset",
    "T32, narrow as A32",
    "T32, unprivileged",
    "T32, wide as A32",
];

/// Which of these an instruction is.
pub fn kind(d: &Decoded) -> Option<&'static str> {
    Some(match d.op {
        Op::A32(_) if d.code.is_wide() => "T32, wide as A32",
        Op::A32(_) => "T32, narrow as A32",
        Op::DataProcessing { .. } => "T32, a constant",
        Op::OrNot { .. } => "T32, ORN",
        Op::AddWide { .. } => "T32, a constant of twelve bits",
        Op::Mem(mem) if mem.unprivileged => "T32, unprivileged",
        Op::Mem(_) => "T32, a halfword with an offset",
        Op::MemDual(_) => "T32, LDRD or STRD",
        Op::LoadExclusive { rt2: None, .. } | Op::StoreExclusive { rt2: None, .. } => {
            "T32, LDREX or STREX with an offset"
        }
        Op::LoadExclusive { .. } | Op::StoreExclusive { .. } => "T32, LDREXD or STREXD",
        Op::Branch { link: true, .. } | Op::BranchLinkExchangeImm { .. } => "T32, BL or BLX",
        Op::Branch { .. } => "T32, a branch",
        Op::CompareBranch { .. } => "T32, CBZ or CBNZ",
        Op::TableBranch { .. } => "T32, TBB or TBH",
        Op::IfThen(_) => "T32, IT",
        _ => return None,
    })
}

/// The bits of an instruction: one half-word, or two, the first of which is in bits 31:16.
pub fn instruction(random: &mut Random, at: u32, window: &Window) -> u32 {
    match random.below(30) {
        0..=6 => narrow(random),
        7..=9 => 0xbf00 | random.below(15) << 4 | (1 + random.below(15)),
        10 | 11 => 0xf000_0000 | random.word() & 0x05ff_7fff,
        12 => {
            random.pick(&[0xf200_0000, 0xf2a0_0000, 0xf240_0000, 0xf2c0_0000, 0xf340_0000, 0xf360_0000, 0xf3c0_0000])
                | random.word() & 0x040f_7fdf
        }
        13 | 14 => 0xea00_0000 | random.word() & 0x01ff_7fff,
        15..=18 => load_store(random),
        19 => dual_or_exclusive(random),
        20 => multiple(random),
        21..=23 => branch(random, at, window),
        24 => indirect(random),
        25 | 26 => system(random),
        27 => random.pick(&[0xfb00_0000, 0xfb80_0000, 0xfa00_f000, 0xfa90_f080]) | random.word() & 0x007f_0fff,
        28 => 0xe800_0000 | random.word() & 0x17ff_ffff,
        _ => 0xed10_0a00 | random.word() & 0x00ef_f10f | reg(random) << 16,
    }
}

/// Anything of one half-word but what leaves.
fn narrow(random: &mut Random) -> u32 {
    loop {
        let code = random.below(0xe800);
        let leaves = matches!(code >> 8, 0xbe | 0xde | 0xdf);
        if !leaves || random.one_in(32) {
            return code;
        }
    }
}

/// A base, and other registers.
fn base(random: &mut Random) -> u32 {
    let any = reg(random);
    random.pick(&[any, any, any, 13, 15]) << 16
}

fn load_store(random: &mut Random) -> u32 {
    let (rn, rt) = (base(random), reg(random) << 12);
    let size = random.pick(&[0, 1, 2]);
    let load = random.below(2);
    let sign = if load == 1 && size < 2 { random.below(2) } else { 0 };
    let common = 0xf800_0000 | sign << 24 | size << 21 | load << 20 | rn | rt;
    match random.below(4) {
        0 => common | 1 << 23 | random.pick(&[0, 4, 8, 0x104, 0x200, 0xff]),
        1 => common | random.below(4) << 4 | reg(random),
        2 => common | 0xe00 | random.below(8),
        _ => common | 0x800 | (random.pick(&[4, 6, 7, 1, 3, 5, 7, 3]) << 8) | (4 * random.below(16)),
    }
}

fn dual_or_exclusive(random: &mut Random) -> u32 {
    let (rn, rt, rt2) = (base(random), reg(random), reg(random));
    let rt2 = if random.one_in(3) { (rt + 1) % 15 } else { rt2 };
    let registers = rn | rt << 12 | rt2 << 8;
    match random.below(6) {
        0 => 0xe850_0f00 | rn | rt << 12 | random.below(8),
        1 => 0xe840_0000 | registers | random.below(8),
        2 if random.one_in(2) => 0xe8d0_007f | registers,
        2 => 0xe8c0_0070 | registers | reg(random),
        _ => {
            let mode = random.pick(&[0b100, 0b110, 0b101, 0b111, 0b001, 0b011]);
            let (p, u, w) = (mode >> 2, mode >> 1 & 1, mode & 1);
            let imm = random.pick(&[0, 1, 2, 16, 64, 65]);
            0xe840_0000 | p << 24 | u << 23 | w << 21 | random.below(2) << 20 | registers | imm
        }
    }
}

fn multiple(random: &mut Random) -> u32 {
    let list = random.word() & if random.one_in(2) { 0x40ff } else { 0x5fff };
    let mode = random.pick(&[0xe880_0000, 0xe900_0000]);
    let load = random.below(2);
    let pc = if load == 1 && random.one_in(3) { 0x8000 } else { 0 };
    let list = if pc != 0 { list & !0x4000 } else { list };
    mode | random.below(2) << 21 | load << 20 | base(random) & 0xe_0000 | list | pc
}

/// The offset of a far branch, in its place.
fn far(offset: u32) -> u32 {
    let s = offset >> 24 & 1;
    let (j1, j2) = (offset >> 23 & 1 ^ s ^ 1, offset >> 22 & 1 ^ s ^ 1);
    s << 26 | j1 << 13 | j2 << 11 | (offset >> 12 & 0x3ff) << 16 | offset >> 1 & 0x7ff
}

fn branch(random: &mut Random, at: u32, window: &Window) -> u32 {
    let target = window.address(random) & !1;
    let offset = target.wrapping_sub(at + 4);
    let cond = random.below(14);
    match random.below(8) {
        0 => 0xe000 | offset >> 1 & 0x7ff,
        1 => 0xd000 | cond << 8 | offset >> 1 & 0xff,
        2 => 0xf000_9000 | far(offset),
        3 => {
            let place = (offset >> 20 & 1) << 26 | (offset >> 19 & 1) << 11 | (offset >> 18 & 1) << 13;
            0xf000_8000 | cond << 22 | place | (offset >> 12 & 0x3f) << 16 | offset >> 1 & 0x7ff
        }
        4 => 0xf000_d000 | far(offset),
        // To the other half of the window.
        5 => 0xf000_c000 | far((target & !3).wrapping_sub((at + 4) & !3)),
        _ => {
            let offset = 2 * random.below(32);
            0xb100 | random.below(2) << 11 | (offset >> 6) << 9 | (offset >> 1 & 31) << 3 | random.below(8)
        }
    }
}

fn indirect(random: &mut Random) -> u32 {
    let rm = reg(random);
    match random.below(10) {
        0 | 1 => 0x4700 | random.pick(&[14, rm]) << 3,
        2 => 0x4780 | rm << 3,
        3 => 0x4778,
        4 => 0x4687 | rm << 3,
        5 => 0x4487 | rm << 3,
        6 => 0xbd00 | random.below(256),
        7 => 0xf8d0_f000 | base(random) | random.pick(&[0, 4, 8, 60]),
        8 => 0xf850_f000 | rm << 16 | random.below(4) << 4 | reg(random),
        // TBB and TBH, whose tables are data
        _ => 0xe8d0_f000 | random.pick(&[rm, rm, 15]) << 16 | random.below(2) << 4 | reg(random) & 7,
    }
}

fn system(random: &mut Random) -> u32 {
    let rt = reg(random);
    match random.below(14) {
        0 => 0xf3ef_8000 | random.below(2) << 20 | rt << 8,
        1 => 0xf380_8100 | rt << 16 | random.below(2) << 11,
        2 => 0xf390_8000 | rt << 16 | (1 + random.below(15)) << 8,
        3 => random.pick(&[0xb672, 0xb662, 0xb671, 0xf3af_8640, 0xf3af_8440]),
        4 => random.pick(&[0xf3bf_8f4f, 0xf3bf_8f5f, 0xf3bf_8f6f, 0xf3bf_8f2f, 0xbf00, 0xbf10]),
        5 => 0xf3de_8f00 | random.pick(&[0, 4, 8]),
        6 => 0xe000_0000 | cp15(true, random.pick(&SYSTEM), rt),
        7 => 0xe000_0000 | cp15(false, random.pick(&SYSTEM), rt),
        8 => 0xe000_0000 | cp15(false, SYSTEM[model::DACR], rt),
        9 => 0xe000_0000 | cp15(false, random.pick(&CACHES), rt),
        10 => 0xee0d_0f10 | random.below(2) << 20 | random.pick(&[2, 3, 4]) << 5 | rt << 12,
        11 => 0xe000_0000 | cp15(false, (8, 0, random.pick(&[3, 5, 6, 7]), random.pick(&[0, 1, 1, 1, 2, 3])), rt),
        // SRS, RFE, SMC, SVC, UDF
        12 => random.pick(&[0xe82d_c013, 0xe9bd_c000, 0xf7f0_8000, 0xdf01, 0xde00, 0xbe00, 0xbf30]),
        _ => 0xeee8_0a10 | random.below(3).min(1) << 20 | rt << 12,
    }
}

/// Puts code into the first part of a window.
pub fn fill_if_any(random: &mut Random, window: &Window, mut put: impl FnMut(u32, u32)) {
    if window.thumb == 0 {
        return;
    }
    let end = window.start + 4 * window.thumb;
    let mut at = window.start;
    while at < end {
        let code = instruction(random, at, window);
        let halves = if code >> 16 == 0 { vec![code] } else { vec![code >> 16, code & 0xffff] };
        for half in halves {
            if at < end {
                put(at, half);
            }
            at += 2;
        }
    }
    for _ in 0..random.below(4) {
        function(random, window, &mut put);
    }
    if random.one_in(2) {
        user_registers(random, window, &mut put);
    }
}

/// What Linux does where A32 code has LDM or STM of User-mode registers: it goes to System mode, stores or loads SP and
/// LR, and goes back.
fn user_registers(random: &mut Random, window: &Window, put: &mut impl FnMut(u32, u32)) {
    let (rt, rn) = (reg(random), reg(random));
    let toggle = [0xf080_000c | rt << 16 | rt << 8, 0xf380_8100 | rt << 16];
    let access = 0xf8c0_0000 | random.below(2) << 20 | rn << 16;
    let codes = [0xf3ef_8000 | rt << 8, toggle[0], toggle[1], access | 13 << 12, access | 14 << 12 | 4];
    let halves = codes.into_iter().chain(toggle).flat_map(|code| [code >> 16, code & 0xffff]);
    let start = window.start + 2 * random.below(2 * window.thumb);
    let end = window.start + 4 * window.thumb;
    (start..end).step_by(2).zip(halves).for_each(|(at, half)| put(at, half));
}

/// A function, and some calls of it.
fn function(random: &mut Random, window: &Window, put: &mut impl FnMut(u32, u32)) {
    let halves = 2 * window.thumb;
    let start = window.start + 2 * random.below(halves - 4);
    let (first, last) = random.pick(&[(None, 0x4770), (Some(0xb510), 0xbd10), (None, 0x46f7)]);
    if let Some(first) = first {
        put(start, first);
    }
    put(start + 4, last);
    for _ in 0..1 + random.below(3) {
        let from = window.start + 2 * random.below(halves - 2);
        let code = 0xf000_d000 | far(start.wrapping_sub(from + 4));
        put(from, code >> 16);
        put(from + 2, code & 0xffff);
    }
}
