//! Encodings at the edges: each is defined, UNPREDICTABLE or UNDEFINED because the manual says so.

use super::{a32, outside};
use spica_isa::t32::Op;
use spica_isa::{Reg, decode};

fn assert_unpredictable(codes: &[(u32, &str)]) {
    for &(bits, what) in codes {
        assert_eq!(outside(bits).op, Op::Unpredictable, "{bits:#x}: {what}");
    }
}

fn assert_undefined(codes: &[(u32, &str)]) {
    for &(bits, what) in codes {
        assert_eq!(outside(bits).op, Op::Undefined, "{bits:#x}: {what}");
    }
}

fn assert_defined(codes: &[(u32, &str)]) {
    for &(bits, what) in codes {
        let op = outside(bits).op;
        assert!(!matches!(op, Op::Undefined | Op::Unpredictable), "{bits:#x}: {what}: {op:?}");
    }
}

#[test]
fn narrow_instructions() {
    assert_defined(&[
        (0x4487, "add pc, r0"),
        (0x44ed, "add sp, sp"),
        (0x446f, "add r7, sp, r7"),
        (0x4697, "mov pc, r2"),
        (0x46ed, "mov sp, sp"),
        (0x4778, "bx pc"),
        (0xb401, "push {r0}: one register"),
        (0xbd00, "pop {pc}"),
        (0xc101, "stm r1!, {r0}"),
        (0xc102, "stm r1!, {r1}"),
        (0xc901, "ldm r1!, {r0}"),
        (0xc902, "ldm r1, {r1}"),
        (0xbf50, "an unallocated hint is NOP (A6.2.5)"),
        (0xbfe8, "it al"),
        (0xb672, "cpsid i"),
        (0xb658, "setend be"),
    ]);
    assert_unpredictable(&[
        (0x44ff, "add pc, pc (A8.8.6)"),
        (0x4508, "cmp r0, r1 in the form for high registers (A8.8.38)"),
        (0x4587, "cmp pc, r0 (A8.8.38)"),
        (0x45f8, "cmp r8, pc (A8.8.38)"),
        (0x4701, "bx with should-be bits (A8.8.27)"),
        (0x47f8, "blx pc (A8.8.26)"),
        (0xb400, "push {} (A8.8.133)"),
        (0xbc00, "pop {} (A8.8.131)"),
        (0xc100, "stm r1!, {} (A8.8.199)"),
        (0xc900, "ldm r1, {} (A8.8.58)"),
        (0xbfec, "ite al (A8.8.54)"),
        (0xbff8, "it of 0b1111 (A8.8.54)"),
        (0xb670, "cpsid of nothing (B9.3.2)"),
        (0xb67a, "cps with a should-be bit (B9.3.2)"),
        (0xb648, "setend with a should-be bit (A8.8.167)"),
    ]);
    assert_undefined(&[
        (0xb600, "between the rows of A6.2.5"),
        (0xba80, "hlt of ARMv8"),
        (0xb800, "a row of A6.2.5 that is empty"),
        (0xde00, "udf"),
    ]);
}

#[test]
fn data_processing() {
    assert_defined(&[
        (0xf1ad_0d10, "sub sp, sp, #1024"),
        (0xf10d_0d10, "add sp, sp, #1024"),
        (0xeb0d_0dc8, "add sp, sp, r8, lsl #3"),
        (0xf1bd_0f08, "cmp sp, #8"),
        (0xf11d_0f08, "cmn sp, #8"),
        (0xebbd_0f08, "cmp sp, r8"),
        (0xea4f_000d, "mov r0, sp"),
        (0xea4f_0d00, "mov sp, r0"),
        (0xf20d_0d04, "addw sp, sp, #4"),
        (0xf20f_0004, "adr r0, #4"),
        (0xf2af_0004, "adr r0, #-4"),
        (0xfb00_f000, "mul r0, r0, r0"),
    ]);
    assert_unpredictable(&[
        (0xf10d_0f10, "add pc, sp, #16 (A8.8.9)"),
        (0xeb0d_1dc8, "add sp, sp, r8, lsl #7 (A8.8.10)"),
        (0xeb0d_0dd8, "add sp, sp, r8, lsr #3 (A8.8.10)"),
        (0xf100_0d10, "add sp, r0, #16 (A8.8.4)"),
        (0xf020_0d10, "bic sp, r0, #16 (A8.8.21)"),
        (0xea20_000d, "bic r0, r0, sp (A8.8.22)"),
        (0xf04d_0010, "orr r0, sp, #16 (A8.8.122)"),
        (0xea4f_0d0d, "mov sp, sp (A8.8.103)"),
        (0xea5f_000d, "movs r0, sp (A8.8.103)"),
        (0xea4f_0f00, "mov pc, r0 (A8.8.103)"),
        (0xea4f_0d40, "lsl sp, r0, #1 (A8.8.94)"),
        (0xea80_8001, "eor with its should-be bit (A8.8.47)"),
        (0xf04f_1000, "mov r0, #0 as a repeated byte (A6.3.2)"),
        (0xf04f_0d00, "mov sp, #0 (A8.8.102)"),
        (0xf240_0d00, "movw sp, #0 (A8.8.102)"),
        (0xf200_0d04, "addw sp, r0, #4 (A8.8.4)"),
        (0xfab0_f081, "clz r0 with two different registers (A8.8.33)"),
        (0xfa90_f0a1, "rbit r0 with two different registers (A8.8.144)"),
        (0xfb00_f00d, "mul r0, r0, sp (A8.8.114)"),
        (0xfba0_1102, "umull r1, r1, r0, r2 (A8.8.257)"),
        (0xfb90_00f0, "sdiv without its should-be bits (A8.8.165)"),
        (0xf36f_00c0, "bfi with the end before the start (A8.8.20)"),
    ]);
    assert_undefined(&[
        (0xf0a0_0000, "opcode 0101 (A6.3.1)"),
        (0xead0_0000, "pkhbt with S (A8.8.125)"),
        (0xeac0_0010, "pkhbt with T (A8.8.125)"),
        (0xfac0_f080, "crc32b of ARMv8"),
        (0xfa00_0000, "bits 15:12 of 0 (A6.3.12)"),
    ]);
}

#[test]
fn branches_and_control() {
    assert_defined(&[
        (0xe8df_f000, "tbb [pc, r0]"),
        (0xf7ff_fffe, "bl"),
        (0xf3c0_8f00, "bxj r0"),
        (0xf3de_8f04, "subs pc, lr, #4"),
        (0xf3de_8f00, "eret"),
    ]);
    assert_unpredictable(&[
        (0xe8dd_f000, "tbb [sp, r0] (A8.8.238)"),
        (0xe8d0_f00d, "tbb [r0, sp] (A8.8.238)"),
        (0xf3cd_8f00, "bxj sp (A8.8.28)"),
        (0xf3dd_8f04, "subs pc, sp, #4 (B9.3.19)"),
        (0xf380_8000, "msr cpsr_, r0 (B9.3.12)"),
        (0xf38d_8900, "msr cpsr_fc, sp (B9.3.12)"),
        (0xf3ef_8d00, "mrs sp, cpsr (B9.3.8)"),
        (0xf3af_a020, "a hint with bit 13 (A6.3.4)"),
        (0xf3af_8301, "cps of nothing, with a mode (B9.3.2)"),
        (0xf3bf_8040, "dsb without its should-be bits (A8.8.44)"),
    ]);
    assert_undefined(&[
        (0xf7f0_a000, "udf.w"),
        (0xf000_c001, "blx with H (A8.8.25)"),
        (0xf3bf_8f70, "miscellaneous control that is not allocated (A6.3.4)"),
        (0xf7d0_8000, "between SMC and the branches (A6.3.4)"),
    ]);
    assert_eq!(outside(0xf3bf_8f1f).op, Op::ThumbEe { enter: true });
    assert_eq!(outside(0xf3bf_8f0f).op, Op::ThumbEe { enter: false });
    assert_eq!(a32(0xf3af_8003).op, spica_isa::Op::WaitForInterrupt);
    assert_eq!(a32(0xf3ef_8000).op, spica_isa::Op::Mrs { spsr: false, rd: Reg::new(0) });
    assert_eq!(a32(0xf3af_8750).op, spica_isa::Op::ChangeState { imod: 3, aif: 2, mode: Some(16) });
    assert_eq!(a32(0xf3e0_8020).op, spica_isa::Op::VirtExt, "mrs r0, r8_usr");
    assert_eq!(a32(0xf7e1_8234).op, spica_isa::Op::HypervisorCall { imm: 0x1234 });
    assert_eq!(a32(0xf7f1_8000).op, spica_isa::Op::SecureMonitorCall { imm: 1 });
}

#[test]
fn loads_and_stores() {
    assert_defined(&[
        (0xf8d0_f000, "ldr pc, [r0]"),
        (0xf8df_f000, "ldr pc, [pc]"),
        (0xf8cd_d000, "str sp, [sp]"),
        (0xf84d_0d04, "str r0, [sp, #-4]!"),
        (0xf850_0e00, "ldrt r0, [r0]: nothing is written back"),
        (0xe9df_0100, "ldrd r0, r1, [pc]"),
        (0xe9d0_1200, "ldrd r1, r2: any two registers"),
        (0xe8b0_0006, "ldm r0!, {r1, r2}"),
        (0xe8bd_8001, "pop {r0, pc}"),
        (0xe850_0f01, "ldrex r0, [r0, #4]"),
        (0xf83d_f000, "pldw [sp, r0]"),
        (0xf99f_f000, "pli [pc]"),
    ]);
    assert_unpredictable(&[
        (0xf8c0_f000, "str pc, [r0] (A8.8.203)"),
        (0xf890_d000, "ldrb sp, [r0] (A8.8.67)"),
        (0xf8b0_d000, "ldrh sp, [r0] (A8.8.79)"),
        (0xf850_000d, "ldr r0, [r0, sp] (A8.8.65)"),
        (0xf850_0b04, "ldr r0, [r0], #4 (A8.8.62)"),
        (0xf850_fe00, "ldrt pc, [r0] (A8.8.92)"),
        (0xf8bf_f000, "pldw [pc] (A8.8.127)"),
        (0xf830_fb01, "ldrh pc, [r0], #1 (A8.8.79)"),
        (0xe9d0_1100, "ldrd r1, r1, [r0] (A8.8.72)"),
        (0xe9f0_0100, "ldrd r0, r1, [r0]! (A8.8.72)"),
        (0xe9ff_0100, "ldrd r0, r1, [pc]! (A8.8.73)"),
        (0xe9cf_0100, "strd r0, r1, [pc] (A8.8.210)"),
        (0xe8b0_0001, "ldm r0!, {r0} (A8.8.57)"),
        (0xe890_0002, "ldm r0, {r1}: one register (A8.8.57)"),
        (0xe890_2002, "ldm r0, {r1, sp} (A8.8.57)"),
        (0xe890_c000, "ldm r0, {lr, pc} (A8.8.57)"),
        (0xe8a0_0003, "stm r0!, {r0, r1} (A8.8.199)"),
        (0xe880_8001, "stm r0, {r0, pc} (A8.8.199)"),
        (0xe89f_0003, "ldm pc, {r0, r1} (A8.8.57)"),
        (0xe840_0000, "strex r0, r0, [r0] (A8.8.212)"),
        (0xe8c0_1271, "strexd r1, r1, r2, [r0] (A8.8.214)"),
        (0xe8d0_117f, "ldrexd r1, r1, [r0] (A8.8.77)"),
        (0xe85f_0f00, "ldrex r0, [pc] (A8.8.75)"),
    ]);
    assert_undefined(&[
        (0xf8cf_0000, "str r0, [pc] (A8.8.203)"),
        (0xf84f_0000, "str r0, [pc, r0] (A8.8.205)"),
        (0xf850_0800, "ldr with P = W = 0 (A8.8.62)"),
        (0xf8e0_0000, "a size of three (A6.3.10)"),
        (0xf870_0000, "00xx111 (A6.3)"),
        (0xe8d0_0f8f, "lda of ARMv8"),
    ]);
    assert_eq!(outside(0xf9b0_f000).op, Op::Hint, "an unallocated memory hint (A6.3.8)");
}

#[test]
fn coprocessors_and_simd() {
    assert_defined(&[
        (0xee10_0f10, "mrc p15, 0, r0, c0, c0, 0"),
        (0xee10_ff10, "mrc p15, 0, apsr_nzcv, c0, c0, 0"),
        (0xed9f_5e01, "ldc p14, c5, [pc, #4]"),
        (0xed9f_0b00, "vldr d0, [pc]"),
        (0xeef1_fa10, "vmrs apsr_nzcv, fpscr"),
        (0xef00_0840, "vadd.i8 q0, q0, q0"),
        (0xf920_070f, "vld1.8 {d0}, [r0]"),
    ]);
    assert_unpredictable(&[
        (0xee10_df10, "mrc p15, 0, sp, c0, c0, 0 (A8.8.107)"),
        (0xee00_ff10, "mcr p15, 0, pc, c0, c0, 0 (A8.8.98)"),
        (0xec4d_0f00, "mcrr p15, 0, r0, sp, c0 (A8.8.99)"),
        (0xecdf_5e01, "ldc p14, c5, [pc], {1} (A8.8.56)"),
        (0xed8f_5e01, "stc p14, c5, [pc, #4] (A8.8.198)"),
        (0xed8f_0b00, "vstr d0, [pc] (A8.8.413)"),
        (0xec8f_0b02, "vstm pc, {d0} (A8.8.412)"),
        (0xee00_da10, "vmov s0, sp (A8.8.343)"),
        (0xeee1_da10, "vmsr fpscr, sp (A8.8.349)"),
        (0xf92f_070f, "vld1.8 {d0}, [pc] (A8.8.320)"),
    ]);
    assert_undefined(&[
        (0xec00_0e00, "P = U = W = D = 0 (A5.6)"),
        (0xfd90_0a00, "ldc2 p10 (A8.8.55)"),
        (0xef00_1844, "vadd.i8 q0.5: an odd quadword"),
    ]);
    // A7.4 and A7.7: the same instructions under other prefixes
    assert_eq!(a32(0xff00_0840), decode(0xf300_0840));
    assert_eq!(a32(0xef00_0840), decode(0xf200_0840));
    assert_eq!(a32(0xf9a0_000f), decode(0xf4a0_000f));
    assert_eq!(a32(0xfe10_0f10), decode(0xfe10_0f10), "mrc2");
}
