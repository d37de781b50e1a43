//! Golden files of T32: as those of A32, for each rule that T32 has of its own, and some that it shares.

use crate::golden::{Code, compare, made};
use spica_addr::{GuestPa, GuestVa};
use spica_dbt::layout::{Layout, PAGE_WORDS, Window};
use spica_dbt::{Capacity, Options, Start, Translator};
use spica_isa::Cond;
use spica_isa::t32::{self, ItState};
use std::fmt::Write;

/// A32 code from here on has a return mirror.
const MIRROR: Window =
    Window { start: 0xc000_0000, size: 0x10_0000, distance: 0x3300_0000, t32: false, guarded: false };
/// T32 code from here on has one.
const T32_MIRROR: Window = Window { size: 0x8_0000, distance: 0x7300_0000, t32: true, ..MIRROR };
/// The same for a guest that may have code anywhere.
const GUARDED_MIRROR: Window = Window { guarded: true, ..T32_MIRROR };
const NOP: u32 = 0xbf00_bf00;

/// What the instruction `bits` at `va` becomes in this state of an IT block.
fn translate(options: Options, va: u32, bits: u32, it: ItState, mirror: Window) -> String {
    translate_all(options, va, &[bits], it, mirror)
}

/// What several instructions, the first at `va`, become that are one behind the other.
fn translate_all(options: Options, va: u32, codes: &[u32], it: ItState, mirror: Window) -> String {
    let layout = Layout { base: 0xf180_0000, pages: 1, mirror: Some(mirror) };
    let mut code = Code(vec![[0; PAGE_WORDS]]);
    let mut translator = Translator::new(layout, options, Capacity { blocks: 4, exits: 64, mirror_pages: 1 });
    let mut guest = [NOP; PAGE_WORDS];
    let halves = |bits: u32| if bits >> 16 == 0 { [bits, 0xbf00] } else { [bits >> 16, bits & 0xffff] };
    let mut at = va;
    let mut places = Vec::new();
    for &bits in codes {
        places.push((at, bits));
        for half in halves(bits).into_iter().take(if bits >> 16 == 0 { 1 } else { 2 }) {
            let (word, shift) = ((at & 0xfff) as usize / 4, 8 * (at & 2));
            guest[word] = guest[word] & !(0xffff << shift) | half << shift;
            at += 2;
        }
    }
    let start = Start { it, next_page: None };
    let block = translator.translate_from(GuestVa(va | 1), GuestPa(va), true, &guest, start, &mut code);
    let mut text = String::new();
    for (at, bits) in places {
        let [first, second] = halves(bits);
        let decoded = t32::decode(t32::Code::new(first as u16, second as u16), it);
        let shown = if bits >> 16 == 0 { format!("{bits:04x}    ") } else { format!("{bits:08x}") };
        text += &format!("{at:08x}: {shown}  {decoded}\n");
        text += &made(&translator, &code, &guest, block, GuestVa(at | 1));
    }
    text
}

/// Compares with `tests/golden/t32/<name>.txt`: with everything on and off, at both kinds of halfword, and in an IT
/// block, which this class of instruction may stand in or not.
fn check(name: &str, codes: &[u32], in_it: bool) {
    let all = Options { vfp: true, thumbee: true, ..Options::all() };
    let eq = ItState::only(Cond::Eq);
    let mut text = String::new();
    for (title, options, va, it, mirror) in [
        ("all()", all, 0x8000_8010, ItState::OUTSIDE, MIRROR),
        ("all(), at an odd half-word", all, 0x8000_8012, ItState::OUTSIDE, MIRROR),
        ("naive()", Options::naive(), 0x8000_8010, ItState::OUTSIDE, MIRROR),
        ("all(), where A32 code has a return mirror", all, 0xc000_8010, ItState::OUTSIDE, MIRROR),
        ("all(), code that has a return mirror", all, 0xc000_8010, ItState::OUTSIDE, T32_MIRROR),
        ("all(), code that has a guarded return mirror", all, 0xc000_8010, ItState::OUTSIDE, GUARDED_MIRROR),
        ("all(), last of an IT block", all, 0x8000_8010, eq, MIRROR),
        ("all(), last of an IT block, with a return mirror", all, 0xc000_8010, eq, T32_MIRROR),
    ] {
        if it == eq && !in_it || va == 0xc000_8010 && !matches!(name, "branch" | "indirect") {
            continue;
        }
        let odd = va & 2 != 0;
        writeln!(text, "# Options::{title}\n").expect("a string");
        for &code in codes {
            let one = translate(options, va, code, it, mirror);
            // Where the PC does not matter, neither does the half-word.
            if !odd || one.contains("pc") || name == "branch" {
                writeln!(text, "{one}").expect("a string");
            }
        }
    }
    compare(&format!("t32/{name}"), &text);
}

#[test]
fn data() {
    check(
        "data",
        &[
            0x2001,      // movs r0, #1
            0x3102,      // adds r1, r1, #2
            0x00d1,      // lsls r1, r2, #3
            0x4251,      // rsbs r1, r2, #0
            0x4351,      // muls r1, r2, r1
            0xab04,      // add r3, sp, #16
            0xb082,      // sub sp, #8
            0xa102,      // adr r1, .+12
            0x4479,      // add r1, pc
            0x4679,      // mov r1, pc
            0x4541,      // cmp r1, r8
            0xf5a2_3190, // sub.w r1, r2, #0x12000
            0xf602_71ff, // addw r1, r2, #0xfff
            0xf2ad_4d04, // subw sp, sp, #0x404
            0xf201_1104, // addw r1, r1, #0x104
            0xf20f_1110, // .inst.w 0xf20f1110
            0xf2af_1110, // .inst.w 0xf2af1110
            0xf04f_11ab, // mov.w r1, #0x00ab00ab
            0xf06f_21ab, // mvn r1, #0xab00ab00
            0xf042_11ab, // orr r1, r2, #0x00ab00ab
            0xf081_21ab, // eor r1, r1, #0xab00ab00
            0xf002_11ab, // and r1, r2, #0x00ab00ab
            0xf001_31ab, // and r1, r1, #0xabababab
            0xf012_11ab, // ands r1, r2, #0x00ab00ab
            0xf011_51ff, // ands r1, r1, #0x1fe00000
            0xf05f_51ff, // movs.w r1, #0x1fe00000
            0xf47f_71ff, // mvns r1, #0x000001fe
            0xf411_7fff, // tst r1, #0x1fe
            0xf091_3f01, // teq r1, #0x01010101
            0xf1b1_3f01, // cmp r1, #0x01010101
            0xf112_3101, // adds r1, r2, #0x01010101
            0xf171_3101, // sbcs r1, r1, #0x01010101
            0xf10d_3d01, // add sp, sp, #0x01010101
            0xea62_0103, // orn r1, r2, r3
            0xea61_0183, // orn r1, r1, r3, lsl #2
            0xea72_0133, // orns r1, r2, r3, rrx
            0xf062_0101, // orn r1, r2, #1
            0xf472_71ff, // orns r1, r2, #0x1fe
            0xf071_3101, // orns r1, r1, #0x01010101
            0xf241_2134, // movw r1, #0x1234
            0xf362_01c6, // bfi r1, r2, #3, #4
            0xfab2_f182, // clz r1, r2
        ],
        true,
    );
}

#[test]
fn memory() {
    check(
        "memory",
        &[
            0x4904,      // ldr r1, [pc, #16]
            0xf85f_1010, // ldr.w r1, [pc, #-16]
            0xf8df_1ffc, // ldr.w r1, [pc, #4092]
            0xe9df_1304, // ldrd r1, r3, [pc, #16]
            0xe9df_3104, // ldrd r3, r1, [pc, #16]
            0xf8bf_1010, // ldrh.w r1, [pc, #16]
            0xf9bf_1010, // ldrsh.w r1, [pc, #16]
            0xed9f_0b04, // vldr d0, [pc, #16]
            0xf89f_f010, // pld [pc, #16]
            0xb510,      // push {r4, lr}
            0xbc10,      // pop {r4}
            0xf8b2_1123, // ldrh.w r1, [r2, #0x123]
            0xf991_1200, // ldrsb.w r1, [r1, #0x200]
            0xf8a2_1fff, // strh.w r1, [r2, #0xfff]
            0xf8a1_1100, // strh.w r1, [r1, #0x100]
            0xf832_1013, // ldrh.w r1, [r2, r3, lsl #1]
            0xf822_1013, // strh.w r1, [r2, r3, lsl #1]
            0xe9d4_2302, // ldrd r2, r3, [r4, #8]
            0xe9d4_2341, // ldrd r2, r3, [r4, #0x104]
            0xe974_2341, // ldrd r2, r3, [r4, #-0x104]!
            0xe8f4_2341, // ldrd r2, r3, [r4], #0x104
            0xe9d4_1200, // ldrd r1, r2, [r4]
            0xe9d4_1402, // ldrd r1, r4, [r4, #8]
            0xe9d4_2102, // ldrd r2, r1, [r4, #8]
            0xe9cd_2302, // strd r2, r3, [sp, #8]
            0xe9c4_1302, // strd r1, r3, [r4, #8]
            0xe964_1302, // strd r1, r3, [r4, #-8]!
            0xe8e4_3102, // strd r3, r1, [r4], #8
            0xe9c4_3102, // strd r3, r1, [r4, #8]
            0xe9c4_3000, // strd r3, r0, [r4]
            0xe9c4_1402, // strd r1, r4, [r4, #8]
            0xe9c4_1100, // strd r1, r1, [r4]
            0xf852_1e00, // ldrt r1, [r2]
            0xf852_1e04, // ldrt r1, [r2, #4]
            0xf842_1e04, // strt r1, [r2, #4]
            0xf822_1e00, // strht r1, [r2]
            0xf912_1e01, // ldrsbt r1, [r2, #1]
            0xe852_1f00, // ldrex r1, [r2]
            0xe852_1f02, // ldrex r1, [r2, #8]
            0xe852_2f02, // ldrex r2, [r2, #8]
            0xe842_1002, // strex r0, r1, [r2, #8]
            0xe842_2002, // .inst.w 0xe8422002
            0xe8d4_237f, // ldrexd r2, r3, [r4]
            0xe8d4_127f, // ldrexd r1, r2, [r4]
            0xe8c4_2370, // strexd r0, r2, r3, [r4]
            0xe8c4_1270, // strexd r0, r1, r2, [r4]
        ],
        true,
    );
}

#[test]
fn branch() {
    check(
        "branch",
        &[
            0xe006,      // b .+16
            0xd006,      // beq .+16
            0xf000_b806, // b.w .+16
            0xf000_8006, // beq.w .+16
            0xf000_f806, // bl .+16
            0xf000_e806, // blx .+16
            0xb131,      // cbz r1, .+16
            0xb931,      // cbnz r1, .+16
            0xe8df_f001, // tbb [pc, r1]
            0xe8d2_f001, // tbb [r2, r1]
            0xe8df_f011, // tbh [pc, r1, lsl #1]
            0xe8d2_f011, // tbh [r2, r1, lsl #1]
        ],
        false,
    );
}

#[test]
fn indirect() {
    check(
        "indirect",
        &[
            0x4770,      // bx lr
            0x4798,      // blx r3
            0x47f0,      // blx lr
            0x4778,      // bx pc
            0x46f7,      // mov pc, lr
            0x448f,      // add pc, r1
            0x44f7,      // add pc, lr
            0xbd00,      // pop {pc}
            0xbd10,      // pop {r4, pc}
            0xf8df_f010, // ldr.w pc, [pc, #16]
            0xf852_f023, // ldr.w pc, [r2, r3, lsl #2]
            0xe8bd_8030, // ldmia.w sp!, {r4, r5, pc}
        ],
        true,
    );
}

#[test]
fn system() {
    check(
        "system",
        &[
            0xdf01,      // svc #1
            0xde00,      // udf #0
            0xbe00,      // bkpt #0
            0xbf00,      // nop
            0xbf30,      // wfi
            0xb672,      // cpsid i
            0xb662,      // cpsie i
            0xf3af_8773, // cpsid.w if, #0x13
            0xb658,      // setend be
            0xf3ef_8100, // mrs r1, cpsr
            0xf3ff_8100, // mrs r1, spsr
            0xf381_8100, // msr cpsr_c, r1
            0xf391_8f00, // msr spsr_fsxc, r1
            0xf3de_8f04, // subs pc, lr, #4
            0xf3de_8f00, // movs pc, lr
            0xe9bd_c000, // rfeia sp!
            0xe82d_c013, // srsdb sp!, #0x13
            0xee1d_1f90, // mrc p15, 0, r1, c13, c0, 4
            0xee03_1f10, // mcr p15, 0, r1, c3, c0, 0
            0xee08_1f37, // mcr p15, 0, r1, c8, c7, 1
            0xec51_0f0e, // mrrc p15, 0, r0, r1, c14
            0xf3bf_8f4f, // dsb
            0xf3bf_8f6f, // isb
            0xf7f0_8000, // smc #0
        ],
        true,
    );
}

/// What Linux does to store or load SP and LR of User mode: by way of System mode, if all of it is in one block; and
/// the changes of mode alone.
#[test]
fn modes() {
    const READ: u32 = 0xf3ef_8100; // mrs r1, cpsr
    const TOGGLE: u32 = 0xf081_010c; // eor r1, r1, #12
    const WRITE: u32 = 0xf381_8100; // msr cpsr_c, r1
    let all = Options { vfp: true, thumbee: true, ..Options::all() };
    let mut text = String::new();
    for (title, codes) in [
        // str.w sp, [r0, #52]; str.w lr, [r0, #56]
        ("two stores in System mode", [READ, TOGGLE, WRITE, 0xf8c0_d034, 0xf8c0_e038, TOGGLE, WRITE]),
        // ldr.w sp, [r0, #52]; ldr.w lr, [r0, #56]
        ("two loads in System mode", [READ, TOGGLE, WRITE, 0xf8d0_d034, 0xf8d0_e038, TOGGLE, WRITE]),
        // mov sp, r2; mov lr, r3
        ("something else in System mode", [READ, TOGGLE, WRITE, 0x4695, 0x469e, TOGGLE, WRITE]),
    ] {
        let made = translate_all(all, 0x8000_8010, &codes, ItState::OUTSIDE, MIRROR);
        writeln!(text, "# Options::all(), {title}\n\n{made}").expect("a string");
    }
    compare("t32/modes", &text);
}
