//! The kinds of operations, how often each is drawn, and with which operands. Memory is laid out as in `wild.S`.

use super::code::{Code, Cp15, KERNEL_AGAIN};
use crate::random::Random;

/// Where the guest has what it works on.
const SCRATCH: u32 = 0x4020_0000;
const FIRST_LEVEL: u32 = 0x4030_0000;
const SECOND_LEVEL: u32 = 0x4031_0000;
const VICTIMS: u32 = 0x4060_0000;
const WINDOWS: [u32; 4] = [0x5000_0000, 0xbef0_0000, 0xc100_0000, 0xdf00_0000];
const GICD: u32 = 0x0800_0000;
const GICC: u32 = 0x0801_0000;
const VIRTIO: u32 = 0x0a00_0000;
const VECTORS: u32 = 0x4001_1000;
/// Spica's places: the hypervisor region, and in it the code cache, its every other page the vCPU page, and the return
/// mirror.
const REGION: (u32, u32) = (0xf180_0000, 0xfd00_0000);
const MIRROR_DISTANCE: u32 = 0x3300_0000;

const USR: u32 = 0x10;
const MODES: [u32; 7] = [USR, 0x11, 0x12, 0x13, 0x17, 0x1b, 0x1f];

type Draw = fn(&mut Random, &mut Code) -> String;

/// Kinds, and how often they come.
const KINDS: &[(&str, u32, Draw)] = &[
    ("TLB maintenance", 14, tlb),
    ("TLB maintenance in a loop", 8, tlb_range),
    ("DACR", 6, dacr),
    ("CONTEXTIDR", 5, context_id),
    ("TTBR", 7, table_base),
    ("TTBCR", 2, table_control),
    ("SCTLR", 5, control),
    ("VBAR", 2, vectors),
    ("VFP", 4, vfp),
    ("exception return", 10, exception_return),
    ("user code", 10, user_code),
    ("CPS", 5, change_state),
    ("MSR", 4, status),
    ("banked registers", 4, banked),
    ("unprivileged access", 8, unprivileged),
    ("access", 12, access),
    ("cache maintenance", 6, cache),
    ("cache maintenance in a loop", 4, lines),
    ("self-modification", 6, self_modification),
    ("code elsewhere", 8, victim_code),
    ("first-level table", 8, first_level),
    ("second-level table", 8, second_level),
    ("timer", 4, timer),
    ("interrupt controller", 3, interrupts),
    ("virtio", 2, virtio),
    ("firmware", 1, firmware),
    ("exception", 5, exception),
    ("loop", 4, counting),
    ("exclusives", 3, exclusives),
    ("coprocessor register", 3, coprocessor),
    ("branch to anywhere", 1, wild_branch),
    ("random word", 2, random_word),
];

/// The kinds' names.
pub fn names() -> impl Iterator<Item = &'static str> {
    KINDS.iter().map(|(name, ..)| *name)
}

/// Draws an operation: its kind, and what it does in particular.
pub fn draw(random: &mut Random, code: &mut Code) -> (&'static str, String) {
    let mut at = random.below(KINDS.iter().map(|(_, weight, _)| weight).sum());
    let (name, _, draw) = KINDS
        .iter()
        .find(|(_, weight, _)| {
            let here = at < *weight;
            at = at.wrapping_sub(*weight);
            here
        })
        .expect("the weights add up");
    (name, draw(random, code))
}

/// An address where something is, or nothing, or Spica.
fn address(random: &mut Random) -> u32 {
    let page = 0x1000 * random.below(256);
    let base = match random.below(16) {
        0..4 => random.pick(&WINDOWS) + 0x10_0000 * random.below(2) + page,
        4 => SCRATCH + page,
        5 => VICTIMS + page,
        6 => VICTIMS + 0x8000_0000 + page,
        7 => REGION.0 + 0x1000 * random.below((REGION.1 - REGION.0) >> 12),
        8 => REGION.0 + 0x1000 * random.below(16),
        9 => VICTIMS + 0x8000_0000 + MIRROR_DISTANCE + page,
        10 => {
            random.pick(&[0, 0xfff0_0000, 0xffff_0000, 0xffff_f000, 0xbeff_f000, 0xbf00_0000, 0xf17f_f000, 0xfd00_0000])
        }
        11 => random.pick(&[GICD, GICC, VIRTIO, 0x0b00_0000, 0x0900_0000, 0x6000_0000, 0x8000_0000]),
        12 => table_page(random),
        _ => random.word() & !0xfff,
    };
    base | match random.below(4) {
        0 => 0,
        1 => random.below(0x400) * 4,
        2 => random.below(0x1000),
        _ => 0x40,
    }
}

/// A page of tables, but not the quarter of a first-level table that maps this kernel: who stores there is gone.
fn table_page(random: &mut Random) -> u32 {
    let page = random.below(20);
    FIRST_LEVEL + 0x1000 * if page < 16 && page % 4 == 1 { page + 1 } else { page }
}

/// The same, but no place where a guest's own end is: for what is written.
fn target(random: &mut Random) -> u32 {
    loop {
        let address = address(random);
        // The console, this kernel's own code and stacks.
        if address >> 20 != 0x090 && !(0x400..0x402).contains(&(address >> 20)) && address >> 16 != 0xffff {
            return address;
        }
    }
}

/// What may be asked of the TLB: by address, by ASID, all of it; both TLBs or one, inner shareable or not (B4.2.2).
fn tlb(random: &mut Random, code: &mut Code) -> String {
    let operand = match random.below(6) {
        0 => address(random) & !0xfff | random.below(4),
        1 => address(random) & !0xfff | random.below(0x1000),
        2 => address(random),
        3 => random.below(0x1000),
        _ => random.pick(&WINDOWS) + 0x1000 * random.below(512) + random.pick(&[0, 1, 2, 0x100, 0xf01]),
    };
    let crm = random.pick(&[7, 7, 7, 7, 3, 5, 6]);
    let opc2 = random.pick(&[1, 1, 1, 1, 3, 2, 0]);
    code.set(0, operand).mcr(0, (8, 0, crm, opc2));
    if random.one_in(2) {
        code.barriers();
    }
    format!("c8, c{crm}, {opc2} of {operand:#010x}")
}

/// The loop that Spica knows, and some that are nearly like that.
fn tlb_range(random: &mut Random, code: &mut Code) -> String {
    let start = address(random) & !0xfff | random.pick(&[0, 0, 1, 2, 0xff, 0x100, 0x801, 0xfff]);
    let pages = match random.below(4) {
        0 => random.below(4),
        1 => 256,
        _ => random.below(300),
    };
    let end = start.wrapping_add(pages << 12).wrapping_add(random.pick(&[0, 0, 0, 4, 0x800]));
    let step = random.pick(&[0xe280_0a01, 0xe280_0a01, 0xe280_0a01, 0xe280_0a02]);

    // Until they are equal only if they will be: at the end of memory it does not end either, but by the timer.
    let equal = step == 0xe280_0a01 && end.wrapping_sub(start) & 0xfff == 0;
    let condition = random.pick(&[3, 3, 3, if equal { 1 } else { 3 }, 9]) << 28;
    code.set(0, start).set(1, end);
    let operation: Cp15 = (8, 0, random.pick(&[7, 7, 7, 3]), random.pick(&[1, 1, 1, 3]));
    code.mcr(0, operation).put(&[step, 0xe150_0001, 0x0aff_fffb | condition]);
    format!("from {start:#010x} to before {end:#010x}, {operation:?}, step {step:#x}, condition {}", condition >> 28)
}

fn dacr(random: &mut Random, code: &mut Code) -> String {
    let own = if random.one_in(400) { random.below(4) } else { random.pick(&[1, 1, 1, 3]) };
    let value = match random.below(4) {
        0 => 0x5555_5555,
        1 => 0,
        2 => random.word() & 0x5555_5555,
        _ => random.word(),
    } & !3
        | own;
    code.set(0, value).mcr(0, (3, 0, 0, 0));
    if random.one_in(2) {
        let va = random.pick(&WINDOWS) + 0x1000 * random.below(256);
        code.set(1, va).put(&[0xe591_2000]);
    }
    format!("{value:#010x}")
}

fn context_id(random: &mut Random, code: &mut Code) -> String {
    let value = if random.one_in(8) { random.word() } else { random.below(300) };
    code.set(0, value).mcr(0, (13, 0, 0, 1)).put(&[0xf57f_f06f]);
    format!("{value:#x}")
}

/// One of the four tables; rarely one that is none.
fn some_table(random: &mut Random) -> u32 {
    if random.one_in(1500) {
        random.pick(&[0, 0x0800_0000, 0x8000_0000, 0x40ff_c000, 0xf180_0000, 0xf600_0000, SCRATCH, 0x7fff_c000])
    } else {
        FIRST_LEVEL + 0x4000 * random.below(4)
    }
}

fn table_base(random: &mut Random, code: &mut Code) -> String {
    let value = some_table(random) | if random.one_in(2) { random.below(0x80) } else { 0 };
    let opc2 = random.pick(&[0, 0, 0, 1]);
    code.set(0, value).mcr(0, (2, 0, 0, opc2)).put(&[0xf57f_f06f]);
    format!("TTBR{opc2} = {value:#010x}")
}

fn table_control(random: &mut Random, code: &mut Code) -> String {
    let value = random.below(8) | if random.one_in(200) { random.word() & 0x30 } else { 0 };
    code.set(0, some_table(random)).mcr(0, (2, 0, 0, 1)).set(0, value).mcr(0, (2, 0, 0, 2)).put(&[0xf57f_f06f]);
    format!("{value:#x}")
}

fn control(random: &mut Random, code: &mut Code) -> String {
    // M, A, C, Z, I, HA, TRE, AFE; V, FI, VE, NMFI, EE, TE and whatever else there is.
    let often = [0, 1, 2, 11, 12, 17, 28, 29];
    let mut bits = 1 << random.pick(&often) | if random.one_in(2) { 1 << random.pick(&often) } else { 0 };
    if random.one_in(20) {
        bits |= random.word() & 0x0020_0400;
    }
    if random.one_in(300) {
        bits |= 1 << 13;
    }
    if random.one_in(500) {
        bits |= random.word();
    }
    code.mrc(0, (1, 0, 0, 0)).set(1, bits).put(&[0xe020_0001]).mcr(0, (1, 0, 0, 0));
    if random.one_in(2) {
        code.put(&[0xf57f_f06f]);
    }
    format!("bits {bits:#010x} change")
}

fn vectors(random: &mut Random, code: &mut Code) -> String {
    let value = match random.below(1000) {
        0 => address(random),
        1..10 => VECTORS + 0x8000_0000,
        _ => VECTORS,
    };
    code.set(0, value).mcr(0, (12, 0, 0, 0)).put(&[0xf57f_f06f]);
    format!("{value:#010x}")
}

fn vfp(random: &mut Random, code: &mut Code) -> String {
    let cpacr = random.pick(&[0x00f0_0000, 0x00f0_0000, 0x0050_0000, 0, 0x40f0_0000, 0xffff_ffff]);
    let fpexc = random.pick(&[0x4000_0000, 0x4000_0000, 0, 0xc000_0000]);
    if random.one_in(2) {
        code.set(0, cpacr).mcr(0, (1, 0, 0, 2)).put(&[0xf57f_f06f]);
    }
    code.set(0, fpexc);
    if random.one_in(2) {
        code.put(&[0xeee8_0a10]); // VMSR FPEXC, R0
    }
    let va = address(random) & !3;
    code.set(1, va);
    // VMOV, VADD, VLDR, VLDM, VLD1, VMRS, VSTR.
    let words = [0xee00_0a10, 0xee30_0b01, 0xed91_0a00, 0xec91_0b08, 0xf421_070f, 0xeef1_2a10, 0xed81_1b02];
    for _ in 0..1 + random.below(3) {
        code.put(&[random.pick(&words)]);
    }
    format!("CPACR {cpacr:#x}, FPEXC {fpexc:#x}, at {va:#010x}")
}

/// A PSR for what follows: mostly one that lets it be executed.
fn psr(random: &mut Random, mode: u32) -> u32 {
    let mut value = mode | random.word() & 0xf80f_0000 | random.pick(&[0, 0, 0, 0x80, 0x1c0, 0x100, 0x40]);
    // For a kernel, Thumb state and big-endian data are the end.
    if random.one_in(if mode == USR { 20 } else { 5000 }) {
        value |= random.word() & 0x0700_fe20;
    }
    if random.one_in(4000) {
        value = random.word();
    }
    value
}

/// To what follows, by one of the ways (B9.3), in `mode`.
fn go_to(random: &mut Random, code: &mut Code, mode: u32) -> String {
    let psr = psr(random, mode);
    // From System mode, which has no SPSR, there is no way that is defined.
    if !random.one_in(100) {
        code.put(&[0xf102_0013]);
    }
    code.set(0, psr);
    let way = match random.below(5) {
        0 => {
            code.put(&[0xe16f_f000, 0xe28f_e000, 0xe1b0_f00e]);
            "MOVS PC, LR"
        }
        1 => {
            code.put(&[0xe16f_f000, 0xe28f_e004, 0xe25e_f004]);
            "SUBS PC, LR, #4"
        }
        2 => {
            code.put(&[0xe16f_f000]).set(1, SCRATCH + 0x100).put(&[0xe28f_2004, 0xe581_2000, 0xe8d1_8000]);
            "LDM ^"
        }
        3 => {
            code.set(1, SCRATCH + 0x200).put(&[0xe1a0_3000, 0xe28f_2004, 0xe881_000c, 0xf891_0a00]);
            "RFE"
        }
        _ => {
            code.put(&[0xe129_f000]); // MSR CPSR_fc
            "MSR"
        }
    };
    format!("{way} with {psr:#010x}")
}

fn exception_return(random: &mut Random, code: &mut Code) -> String {
    let mode = random.pick(&MODES[1..]);
    go_to(random, code, mode)
}

/// Some user code, in A32, that comes back by a call.
fn user_code(random: &mut Random, code: &mut Code) -> String {
    let mut text = go_to(random, code, USR);
    for _ in 0..1 + random.below(4) {
        let what = match random.below(8) {
            0 => {
                code.put(&[0xef00_0000 | random.below(0x20)]);
                "a call"
            }
            1 => {
                code.put(&[0xe7f0_00f0]);
                "undefined"
            }
            2 => {
                code.put(&[random.pick(&[
                    0xee01_0f10,
                    0xee11_0f10,
                    0xee1d_0f70,
                    0xee0d_0f50,
                    0xec51_0f1e,
                    0xe100_0070,
                ])]);
                "a coprocessor"
            }
            3 => {
                code.put(&[random.pick(&[
                    0xf102_0013,
                    0xe321_f013,
                    0xe10f_0000,
                    0xe14f_0000,
                    0xf57f_f06f,
                    0xe320_f003,
                ])]);
                "status"
            }
            4 => {
                let va = address(random);
                code.set(3, va).put(&[0xe12f_ff33]); // BLX R3
                "code elsewhere"
            }
            _ => {
                let va = target(random);
                code.set(3, va).put(&[random.pick(&[0xe593_0000, 0xe583_0000, 0xe893_0006, 0xe193_0f9f, 0xe5d3_0001])]);
                "an access"
            }
        };
        text += &format!(", {what}");
    }
    code.put(&[KERNEL_AGAIN]);
    text
}

fn change_state(random: &mut Random, code: &mut Code) -> String {
    let mode = random.pick(&MODES[1..]);
    let masks = random.below(8) << 6;
    let word = match random.below(4) {
        0 => 0xf102_0000 | mode,
        1 => 0xf108_0000 | masks,
        2 => 0xf10c_0080,
        _ => 0xf10a_0000 | masks | mode,
    };
    code.put(&[word]);
    format!("{word:#010x}")
}

fn status(random: &mut Random, code: &mut Code) -> String {
    let mode = random.pick(&MODES[1..]);
    let value = psr(random, mode);
    let fields = random.below(16) << 16;
    // Of the CPSR, or of the SPSR.
    let word = if random.one_in(2) { 0xe120_f000 | fields & 0x9_0000 } else { 0xe160_f000 | fields };
    code.set(0, value).put(&[word, 0xe10f_1000, 0xe14f_2000]);
    format!("{word:#010x} with {value:#010x}")
}

fn banked(random: &mut Random, code: &mut Code) -> String {
    code.set(0, if random.one_in(3) { address(random) & !3 } else { SCRATCH + 0x400 });
    let mode = random.pick(&MODES);
    // STM ^, LDM ^ of SP and LR; SRS; SP and LR of this mode.
    let words =
        [0xe8c0_6000, 0xe8d0_6000, 0xe8c0_7fff, 0xf84d_0500 | mode, 0xf96d_0500 | mode, 0xe1a0_d000, 0xe1a0_e000];
    let word = random.pick(&words);
    code.put(&[word]);
    format!("{word:#010x}")
}

fn unprivileged(random: &mut Random, code: &mut Code) -> String {
    let va = target(random);
    code.set(0, va);
    // LDRT, STRT, LDRBT, STRBT, LDRHT, STRHT, LDRSBT, LDRSHT; by a register.
    let words = [
        0xe4b0_1000,
        0xe4a0_1000,
        0xe4f0_1000,
        0xe4e0_1000,
        0xe0f0_10b0,
        0xe0e0_10b0,
        0xe0f0_10d0,
        0xe0f0_10f0,
        0xe6b0_1006,
    ];
    let count = 1 + random.below(3);
    for _ in 0..count {
        code.put(&[random.pick(&words)]);
    }
    format!("{count} at {va:#010x}")
}

fn access(random: &mut Random, code: &mut Code) -> String {
    let va = target(random);
    code.set(0, va);
    // Loads and stores of words, bytes, halfwords, double words, several; preloads.
    let words = [
        0xe590_1000,
        0xe580_1000,
        0xe5d0_1003,
        0xe5c0_1003,
        0xe1d0_10b2,
        0xe1c0_10b2,
        0xe1c0_20d0,
        0xe1c0_20f0,
        0xe890_001e,
        0xe880_001e,
        0xe910_001e,
        0xf5d0_f000,
        0xe4b0_1004,
        0xe5a0_1004,
    ];
    let count = 1 + random.below(3);
    for _ in 0..count {
        code.put(&[random.pick(&words)]);
    }
    format!("{count} at {va:#010x}")
}

/// Caches, branch predictors, barriers, and address translation (B4.2.1, B4.2.4), by address and by set and way.
fn cache(random: &mut Random, code: &mut Code) -> String {
    let operand = if random.one_in(3) { random.word() } else { address(random) };
    let operations: [Cp15; 20] = [
        (7, 0, 5, 0),
        (7, 0, 5, 1),
        (7, 0, 5, 6),
        (7, 0, 5, 7),
        (7, 0, 6, 1),
        (7, 0, 6, 2),
        (7, 0, 10, 1),
        (7, 0, 10, 2),
        (7, 0, 11, 1),
        (7, 0, 14, 1),
        (7, 0, 14, 2),
        (7, 0, 8, 0),
        (7, 0, 8, 1),
        (7, 0, 8, 2),
        (7, 0, 8, 3),
        (7, 0, 1, 0),
        (7, 0, 1, 6),
        (7, 0, 10, 4),
        (7, 0, 10, 5),
        (7, 0, 5, 4),
    ];
    let operation = random.pick(&operations);
    code.set(0, operand).mcr(0, operation).mrc(1, (7, 0, 4, 0));
    format!("{operation:?} of {operand:#010x}")
}

/// The loop that Spica knows, with any step; and some that are nearly like that. Where the step is 0, it is the timer
/// that ends it.
fn lines(random: &mut Random, code: &mut Code) -> String {
    let start = if random.one_in(6) { random.word() } else { address(random) };
    let step = random.pick(&[0x200, 0x200, 0x100, 0x80, 0x40, 0x20, 4, 0, 0x1000, u32::MAX]);
    let end = start.wrapping_add(random.pick(&[0, 4, 0x200, 0x1000, 0x1_0000, 0x20_0000, u32::MAX]));
    let operation: Cp15 = (7, 0, random.pick(&[5, 6, 10, 11, 14]), 1);
    let [add, compare, condition] =
        [random.pick(&[0xe080_0002, 0xe080_0002, 0xe040_0002]), 0xe150_0001, random.pick(&[3, 3, 3, 9]) << 28];
    code.set(0, start).set(1, end).set(2, step);
    code.mcr(0, operation).put(&[add, compare, 0x0aff_fffb | condition]);
    format!("from {start:#010x} to before {end:#010x}, {operation:?}, step {step:#x}, {add:#x}, {}", condition >> 28)
}

/// A store over what comes right behind, a few words on, with maintenance or without, or over a victim's function.
fn self_modification(random: &mut Random, code: &mut Code) -> String {
    let immediate = random.below(256);
    code.set(0, 0xe3a0_2000 | immediate); // MOV R2, #n
    let maintained = random.one_in(2);
    let clean: [Cp15; 3] = [(7, 0, 11, 1), (7, 0, 5, 1), (7, 0, 5, 6)];
    if random.one_in(2) {
        // ADD R1, PC, #distance to the word to be changed, behind all that follows.
        let words = 1 + if maintained { clean.len() as u32 + 2 } else { 0 } + random.below(2);
        code.put(&[0xe28f_1000 | (4 * (words - 1)), 0xe581_0000]);
        let before = code.words.len();
        if maintained {
            for operation in clean {
                code.mcr(1, operation);
            }
            code.barriers();
        }
        while code.words.len() - before < words as usize {
            code.put(&[0xe1a0_0000]);
        }
        code.put(&[0xe1a0_0000]);
        return format!("the word {words} on, maintained: {maintained}");
    }
    let page = random.below(64);
    let alias =
        random.pick(&[VICTIMS, VICTIMS + 0x8000_0000, 0x5000_0000, 0xc100_0000, 0xbef0_0000]) + 0x1000 * page + 0x40;
    code.set(1, alias).put(&[0xe581_0000]);
    if maintained {
        for operation in clean {
            code.mcr(1, operation);
        }
        code.barriers();
    }
    format!("the function at {alias:#010x}, maintained: {maintained}")
}

/// Calls of functions, by any of their addresses.
fn victim_code(random: &mut Random, code: &mut Code) -> String {
    let base = random.pick(&[VICTIMS, VICTIMS + 0x8000_0000, 0x5000_0000, 0xc100_0000, 0xdf00_0000, 0xbef0_0000]);
    let first = base + 0x1000 * random.below(256) + 0x40;
    let count = random.pick(&[1, 1, 2, 16, 64]);
    // One page after the other.
    code.set(4, first).set(5, count);
    code.put(&[0xe12f_ff34, 0xe284_4a01, 0xe255_5001, 0x1aff_fffb]);
    format!("{count} pages from {first:#010x}")
}

/// A first-level descriptor (B3.5.1).
fn section(random: &mut Random) -> u32 {
    let domain = if random.one_in(2) { 0 } else { random.below(16) << 5 };
    match random.below(12) {
        0 => 0,
        // RAM: scratch memory and what is behind.
        1..4 => (0x4020_0002 + 0x10_0000 * random.below(14)) | 0xc00 | random.word() & 0x3_f21c | domain,
        4 => random.pick(&[VIRTIO, 0x6000_0000, 0x8000_0000, 0, 0xf600_0000, 0xfff0_0000]) | 0xc02 | domain,
        5 => 0x4000_0402 | 1 << 18, // a supersection
        6..9 => (SECOND_LEVEL + 0x400 * random.below(16)) | 1 | domain,
        9 => (FIRST_LEVEL + 0x400 * random.below(64)) | 1 | domain,
        10 => random.pick(&[0x8000_0001, 0x40ff_fc01, 0x0800_0001, 0x4100_0001, 0xf180_0001, 0xffff_fc01, 1]),
        _ => random.word(),
    }
}

fn first_level(random: &mut Random, code: &mut Code) -> String {
    let (mut megabyte, mut descriptor) = (target(random) >> 20, section(random));
    if megabyte == 0x400 || megabyte == 0xfff {
        megabyte = 0x500;
    }
    let table = FIRST_LEVEL + 0x4000 * random.below(4);
    let count = random.pick(&[1, 1, 1, 2, 16]);
    // What is mapped over code cache and return mirror ends the machine; the last of the second-level tables maps
    // nothing.
    if (0xf18 - count..0xf48).contains(&megabyte) && !random.one_in(200) {
        let tables = [0x8000_0001, SECOND_LEVEL + 0x400 * 15 + 1, 0xf180_0001];
        descriptor = random.pick(&tables);
    }
    code.set(0, table + 4 * megabyte).set(1, descriptor).set(2, count);
    code.put(&[0xe480_1004, 0xe252_2001, 0x1aff_fffc]);
    forget(random, code, megabyte << 20);
    format!("{count} from {megabyte:#05x} of {table:#010x}: {descriptor:#010x}")
}

fn second_level(random: &mut Random, code: &mut Code) -> String {
    let descriptor = match random.below(10) {
        0 => 0,
        // Small pages, and now and then large ones (B3.5.1).
        1..5 => (VICTIMS + 0x1000 * random.below(256)) | 0x32 | random.word() & 0xa0d,
        5 => table_page(random) | 0x32,
        6 => random.pick(&[VIRTIO, 0x8000_0000, 0x4100_0000, 0xf600_0000, 0xffff_f000]) | 0x32 | random.word() & 0xe0c,
        7 => (VICTIMS + 0x1_0000 * random.below(16)) | 0x31,
        8 => (0x4040_0000 + 0x1000 * random.below(32)) | 0x32 | random.word() & 0xa00,
        _ => random.word(),
    };
    let (table, index) = (random.below(15), random.below(256));
    let count = random.pick(&[1, 1, 1, 16, 256]).min(256 - index);
    let entry = SECOND_LEVEL + 0x400 * table + 4 * index;
    code.set(0, entry).set(1, descriptor).set(2, count);
    code.put(&[0xe480_1004, 0xe252_2001, 0x1aff_fffc]);
    let va = match table {
        0..4 => 0x5000_0000 + (table << 20),
        4 | 5 => 0xbef0_0000 + ((table - 4) << 20),
        6 | 7 => 0xc100_0000 + ((table - 6) << 20),
        _ => 0xdf00_0000 + ((table - 8) << 20),
    };
    forget(random, code, va + (index << 12));
    format!("{count} from {entry:#010x}: {descriptor:#010x}")
}

/// The maintenance that is due behind a change of a table, or none.
fn forget(random: &mut Random, code: &mut Code, va: u32) {
    match random.below(4) {
        0 => {}
        1 => {
            code.put(&[0xf57f_f04f]).mcr(0, (8, 0, 7, 0)).barriers();
        }
        _ => {
            code.set(0, va).put(&[0xf57f_f04f]).mcr(0, (8, 0, 7, 1)).barriers();
        }
    }
    if random.one_in(2) {
        code.set(0, va).put(&[random.pick(&[0xe590_1000, 0xe580_1000])]);
    }
}

fn timer(random: &mut Random, code: &mut Code) -> String {
    let value = match random.below(4) {
        0 => random.word(),
        1 => 0,
        _ => random.below(5000),
    };
    code.set(0, value);
    // CNTV_TVAL, CNTP_TVAL, CNTKCTL; CNTV_CVAL; counters.
    let choice = random.below(6);
    match choice {
        0 | 1 => {
            code.mcr(0, (14, 0, 3, 0));
        }
        2 => {
            code.mcr(0, (14, 0, 2, 0));
        }
        3 => {
            code.mcr(0, (14, 0, 1, 0));
        }
        4 => {
            code.put(&[0xec41_0f3e]);
        }
        _ => {
            code.put(&[0xec51_0f1e, 0xec51_0f0e]);
        }
    }
    let control = random.pick(&[1, 1, 1, 3, 0]);
    code.set(0, control).mcr(0, (14, 0, 3, 1)).put(&[0xf57f_f06f]);
    match random.below(4) {
        // CPSIE i
        0 => {
            code.put(&[0xf108_0080]);
        }
        // WFI, with a tick to come.
        1 => {
            code.set(0, random.below(3000)).mcr(0, (14, 0, 3, 0)).set(0, 1).mcr(0, (14, 0, 3, 1)).put(&[0xe320_f003]);
        }
        _ => {}
    }
    format!("{choice}: {value:#x}, control {control}")
}

fn interrupts(random: &mut Random, code: &mut Code) -> String {
    let (base, offset) = match random.below(3) {
        0 => (GICC, 4 * random.below(8)),
        1 => (
            GICD,
            random.pick(&[0, 0x80, 0x100, 0x104, 0x180, 0x200, 0x204, 0x280, 0x300, 0x400, 0x418, 0x800, 0xc00, 0xf00]),
        ),
        _ => (GICD, 4 * random.below(0x400)),
    };
    let value = if random.one_in(2) { random.word() } else { 1 << random.below(32) };
    code.set(0, base).set(1, value).set(2, offset);
    code.put(&[random.pick(&[0xe780_1002, 0xe780_1002, 0xe790_1002, 0xe7c0_1002])]);
    if random.one_in(2) {
        // An interrupt to itself, and masks open.
        code.set(0, GICD + 0xf00).set(1, 0x0200_0000 | random.below(16)).put(&[0xe580_1000, 0xf108_0080]);
    }
    format!("{:#010x}: {value:#x}", base + offset)
}

const VALUES: [u32; 7] = [0, 1, 3, 8, 0xb, 0xf, SCRATCH + 0x8000];

fn virtio(random: &mut Random, code: &mut Code) -> String {
    let slots = if random.one_in(4) { 32 } else { 2 };
    let slot = VIRTIO + 0x200 * random.below(slots);
    let registers =
        [0x14, 0x20, 0x24, 0x30, 0x38, 0x44, 0x50, 0x64, 0x70, 0x80, 0x84, 0x90, 0x94, 0xa0, 0xa4, 0x100, 0xb0];
    let (register, value) =
        (random.pick(&registers), if random.one_in(8) { random.word() } else { random.pick(&VALUES) });
    code.set(0, slot).set(1, value).set(2, register);
    code.put(&[0xe780_1002, 0xe790_3002]);
    format!("{slot:#010x} + {register:#x}: {value:#x}")
}

/// Not off, nor a reset: that is the end.
fn firmware(random: &mut Random, code: &mut Code) -> String {
    let call =
        random.pick(&[0x8400_0000, 0x8400_0001, 0x8400_0003, 0x8400_0004, 0x8400_0006, 0x8400_000a, 0x8000_0000, 0]);
    // A suspend ends with the timer's interrupt.
    code.set(0, random.below(3000)).mcr(0, (14, 0, 3, 0)).set(0, 1).mcr(0, (14, 0, 3, 1));
    // Nor to where it is suspended with its state lost.
    let power_down = if random.one_in(200) { 0 } else { 1 << 16 };
    code.set(1, random.word() & !power_down).set(2, random.word()).set(3, random.word()).set(0, call);
    code.put(&[0xe160_0070 | random.pick(&[0, 0, 0, 1])]);
    format!("{call:#010x}")
}

fn exception(random: &mut Random, code: &mut Code) -> String {
    let word = match random.below(4) {
        0 => 0xef00_0000 | random.below(0x40),
        1 => 0xe7f0_00f0 | random.below(16) | random.below(0x1000) << 8,
        2 => 0xe120_0070 | random.below(16),
        _ => random.pick(&[0xe140_0070, 0xf57f_f01f, 0xee00_0010, 0xec00_0000]),
    };
    code.put(&[word]);
    format!("{word:#010x}")
}

fn counting(random: &mut Random, code: &mut Code) -> String {
    let rounds = 1 + random.below(3000);
    code.set(0, rounds);
    if random.one_in(2) {
        // By way of a second block.
        code.put(&[0xe250_0001, 0x0a00_0000, 0xeaff_fffc]);
    } else {
        code.put(&[0xe250_0001, 0x1aff_fffd]);
    }
    format!("{rounds} rounds")
}

fn exclusives(random: &mut Random, code: &mut Code) -> String {
    let va = if random.one_in(2) { SCRATCH + 0x600 } else { address(random) & !7 };
    code.set(0, va);
    let words =
        [0xe190_1f9f, 0xe180_2f91, 0xe1b0_2f9f, 0xe1a0_1f92, 0xe1d0_1f9f, 0xe1c0_2f91, 0xf57f_f01f, 0xe100_1091];
    let count = 1 + random.below(4);
    for _ in 0..count {
        code.put(&[random.pick(&words)]);
    }
    format!("{count} at {va:#010x}")
}

/// Any register of CP15 and CP14, but for those that end it all.
fn coprocessor(random: &mut Random, code: &mut Code) -> String {
    let register = (random.below(16), random.below(8), random.below(16), random.below(8));
    let spared = [(1, 0, 0, 0), (2, 0, 0, 0), (2, 0, 0, 1), (2, 0, 0, 2), (3, 0, 0, 0), (7, 0, 0, 4), (12, 0, 0, 0)];
    let write = random.one_in(2) && !spared.contains(&register);
    code.set(0, random.word());
    if write {
        code.mcr(0, register);
    } else {
        code.mrc(0, register);
    }
    if random.one_in(4) {
        code.put(&[0xee10_0e10
            | random.below(8) << 21
            | random.below(16) << 16
            | random.below(8) << 5
            | random.below(16)]);
    }
    format!("{register:?}, written: {write}")
}

/// The handler has it go on with the next chunk.
fn wild_branch(random: &mut Random, code: &mut Code) -> String {
    let mut va = address(random);
    // To Thumb code is the end.
    if !random.one_in(200) {
        va &= !3;
    }
    let word = random.pick(&[0xe12f_ff10, 0xe12f_ff30, 0xe1a0_f000, 0xe1a0_e000]);
    code.set(0, va).put(&[word, if word == 0xe1a0_e000 { 0xe12f_ff1e } else { 0xe1a0_0000 }]);
    format!("{va:#010x} by {word:#010x}")
}

fn random_word(random: &mut Random, code: &mut Code) -> String {
    // Not the privileged ones that leave nothing to go on with: those have kinds of their own. Not backwards, either.
    let word = loop {
        let word = random.word();
        let supervisor = word & 0x0f00_0000 == 0x0f00_0000;
        let branch = word & 0x0e00_0000 == 0x0a00_0000;
        let coprocessor = word & 0x0f00_0f10 == 0x0e00_0f10;
        let smc = word & 0x0ff0_00f0 == 0x0160_0070;
        let jump = word >> 12 & 15 == 15 || word & 0x0e10_8000 == 0x0810_8000;
        if !supervisor && !branch && !coprocessor && !smc && (!jump || random.one_in(200)) {
            break word;
        }
    };
    code.put(&[word]);
    format!("{word:#010x}")
}
