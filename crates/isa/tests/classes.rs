//! What must and must not be executed: encodings at the edges of the architecture, chosen by hand from the manual.
//!
//! The oracle has no opinion about UNPREDICTABLE; these lists have. An instruction that the manual defines must never
//! be called UNPREDICTABLE, because a guest would see an exception for a correct program.

use spica_isa::{CpReg, MemMultiple, Op, Reg, decode};

fn assert_unpredictable(words: &[(u32, &str)]) {
    for &(word, what) in words {
        assert_eq!(decode(word).op, Op::Unpredictable, "{word:#010x}: {what}");
    }
}

fn assert_defined(words: &[(u32, &str)]) {
    for &(word, what) in words {
        let op = decode(word).op;
        assert!(!matches!(op, Op::Undefined | Op::Unpredictable), "{word:#010x}: {what}: {op:?}");
    }
}

#[test]
fn data_processing() {
    assert_defined(&[
        (0xe1a0_f00e, "mov pc, lr"),
        (0xe1b0_f00e, "movs pc, lr: exception return"),
        (0xe25e_f004, "subs pc, lr, #4: exception return"),
        (0xe08f_f102, "add pc, pc, r2, lsl #2"),
        (0xe15f_000f, "cmp pc, pc"),
        (0xe3a0_0ff0, "mov r0, #960 in an unusual rotation"),
    ]);
    assert_unpredictable(&[
        (0xe08f_0112, "add r0, pc, r2, lsl r1 (A8.8.8)"),
        (0xe080_f112, "add pc, r0, r2, lsl r1 (A8.8.8)"),
        (0xe080_0f12, "add r0, r0, r2, lsl pc (A8.8.8)"),
        (0xe1a1_0002, "mov with Rn (A8.8.104)"),
        (0xe150_1002, "cmp with Rd (A8.8.38)"),
        (0xe300_f000, "movw pc (A8.8.102)"),
        (0xe340_f000, "movt pc (A8.8.106)"),
    ]);
}

#[test]
fn single_transfers() {
    assert_defined(&[
        (0xe58f_0000, "str r0, [pc]"),
        (0xe58f_f000, "str pc, [pc]"),
        (0xe7df_0001, "ldrb r0, [pc, r1]"),
        (0xe49d_f004, "ldr pc, [sp], #4"),
        (0xe79f_f101, "ldr pc, [pc, r1, lsl #2]"),
        (0xe4a0_f000, "strt pc, [r0] (A8.8.220)"),
        (0xe690_1000, "ldr r1, [r0], r0 (A8.8.66: since ARMv6)"),
        (0xe1cf_00d0, "ldrd r0, r1, [pc]"),
        (0xe1cf_00f0, "strd r0, r1, [pc]"),
        (0xe1c0_c0d0, "ldrd r12, sp, [r0]"),
        (0xe180_00f1, "strd r0, r1, [r0, r1]"),
    ]);
    assert_unpredictable(&[
        (0xe5b0_0000, "ldr r0, [r0]! (A8.8.63)"),
        (0xe490_0004, "ldr r0, [r0], #4 (A8.8.63)"),
        (0xe5a0_0000, "str r0, [r0]! (A8.8.204)"),
        (0xe5bf_0000, "ldr r0, [pc]! (A8.8.64)"),
        (0xe5af_0000, "str r0, [pc]! (A8.8.204)"),
        (0xe790_000f, "ldr r0, [r0, pc] (A8.8.66)"),
        (0xe5d0_f000, "ldrb pc, [r0] (A8.8.68)"),
        (0xe5c0_f000, "strb pc, [r0] (A8.8.207)"),
        (0xe4b0_f000, "ldrt pc, [r0] (A8.8.92)"),
        (0xe1d0_f0b0, "ldrh pc, [r0] (A8.8.80)"),
        (0xe190_01b1, "ldrh with bits 11:8 set (A8.8.82)"),
        (0xe1c0_10d0, "ldrd r1, r2, [r0] (A8.8.72)"),
        (0xe1c0_e0d0, "ldrd lr, pc, [r0] (A8.8.72)"),
        (0xe1e1_00d0, "ldrd r0, r1, [r1]! (A8.8.72)"),
        (0xe180_00d1, "ldrd r0, r1, [r0, r1] (A8.8.74)"),
        (0xe0e2_00d0, "ldrd with P = 0, W = 1 (A8.8.72)"),
    ]);
}

#[test]
fn block_transfers() {
    assert_defined(&[
        (0xe8bd_8000, "ldm sp!, {pc}"),
        (0xe92d_ffff, "push {r0-pc}: the base in the list"),
        (0xe8a1_0003, "stm r1!, {r0, r1}: UNKNOWN value (A8.8.199)"),
        (0xe891_0002, "ldm r1, {r1} without writeback"),
        (0xe8dd_8000, "ldm sp, {pc}^"),
        (0xe8fd_8001, "ldm sp!, {r0, pc}^ (B9.3.5)"),
        (0xe8dd_6000, "ldm sp, {sp, lr}^ (B9.3.6)"),
        (0xe8cd_6000, "stm sp, {sp, lr}^ (B9.3.17)"),
    ]);
    assert_unpredictable(&[
        (0xe890_0000, "ldm r0, {}"),
        (0xe880_0000, "stm r0, {}"),
        (0xe89f_0001, "ldm pc, {r0}"),
        (0xe88f_0001, "stm pc, {r0}"),
        (0xe8b1_0002, "ldm r1!, {r1}"),
        (0xe8fd_6000, "ldm sp!, {sp, lr}^"),
        (0xe8ed_0001, "stm sp!, {r0}^ (B9.3.17)"),
        (0xe8f1_8002, "ldm r1!, {r1, pc}^ (B9.3.5)"),
    ]);
    let Op::MemMultiple(m) = decode(0xe959_7fff).op else { panic!() };
    let expected = MemMultiple {
        load: true,
        before: true,
        increment: false,
        user: true,
        writeback: false,
        rn: Reg::new(9),
        regs: 0x7fff,
    };
    assert_eq!(m, expected);
}

#[test]
fn exclusives_multiplies_and_media() {
    assert_defined(&[
        (0xe190_0f9f, "ldrex r0, [r0]"),
        (0xe180_1f92, "strex r1, r2, [r0]"),
        (0xe1a0_8f96, "strexd r8, r6, r7, [r0]"),
        (0xe102_0091, "swp r0, r1, [r2]"),
        (0xe000_0090, "mul r0, r0, r0"),
        (0xe782_f011, "usad8 r2, r1, r0: Ra of 15 is no PC"),
        (0xe7cf_001f, "bfc r0, #0, #16: Rn of 15 is no PC"),
        (0xe6af_0071, "sxtb r0, r1: Rn of 15 is no PC"),
        (0xe750_f211, "smmul r0, r1, r2: Ra of 15 is no PC"),
    ]);
    assert_unpredictable(&[
        (0xe180_0f92, "strex r0, r2, [r0]: Rd is Rn (A8.8.212)"),
        (0xe180_2f92, "strex r2, r2, [r0]: Rd is Rt (A8.8.212)"),
        (0xe1a0_7f96, "strexd r7, r6, r7, [r0]: Rd is Rt2 (A8.8.214)"),
        (0xe1b0_1f9f, "ldrexd r1, r2, [r0] (A8.8.77)"),
        (0xe1b0_ef9f, "ldrexd lr, pc, [r0] (A8.8.77)"),
        (0xe101_0091, "swp r0, r1, [r1] (A8.8.229)"),
        (0xe000_1090, "mul with Ra (A8.8.114)"),
        (0xe081_1392, "umull r1, r1, r2, r3 (A8.8.257)"),
        (0xe02f_0091, "mla pc (A8.8.100)"),
        (0xe16f_ff11, "clz pc, r1 (A8.8.33)"),
        (0xe7c0_0f91, "bfi with the end before the start (A8.8.20)"),
        (0xe7bf_00d1, "sbfx across the end (A8.8.164)"),
    ]);
    assert_eq!(decode(0xe710_f211).op, Op::Divide);
    assert_eq!(decode(0xe730_f211).op, Op::Divide);
}

#[test]
fn system_instructions() {
    assert_eq!(decode(0xf10e_0000).op, Op::Unpredictable, "cpsid that masks nothing");
    assert_eq!(decode(0xf10c_0080).op, Op::ChangeState { imod: 3, aif: 2, mode: None });
    assert_eq!(decode(0xf10e_01d3).op, Op::ChangeState { imod: 3, aif: 7, mode: Some(0x13) });
    assert_eq!(decode(0xf102_0010).op, Op::ChangeState { imod: 0, aif: 0, mode: Some(0x10) });
    assert_eq!(decode(0xe129_f000).op, Op::MsrReg { spsr: false, mask: 9, rn: Reg::new(0) });
    assert_eq!(decode(0xe320_f000).op, Op::Hint);
    assert_eq!(decode(0xe320_f002).op, Op::WaitForEvent);
    assert_eq!(decode(0xe320_f003).op, Op::WaitForInterrupt);
    assert_eq!(decode(0xe320_f042).op, Op::Hint, "unallocated hints are NOP (A5.2.11)");
    assert_eq!(decode(0xf57f_f01f).op, Op::ClearExclusive);
    assert_eq!(decode(0xe120_0070).op, Op::Breakpoint { imm: 0 });
    assert_eq!(decode(0xe7f0_00f0).op, Op::Undefined);
    assert_eq!(decode(0xf410_f000).op, Op::Hint, "unallocated memory hints are NOP (A5.7.1)");
    assert_eq!(decode(0xe100_0200).op, Op::VirtExt, "mrs r0, r8_usr");
    assert_eq!(decode(0xe160_006e).op, Op::VirtExt, "eret");
    assert_unpredictable(&[
        (0x0120_0070, "bkpteq (A8.8.24)"),
        (0x0140_0070, "hvceq (B9.3.4)"),
        (0xe120_f000, "msr cpsr_, r0 (B9.3.12)"),
        (0xe360_f000, "msr spsr_, #0 (B9.3.11)"),
        (0xe129_f00f, "msr cpsr_fc, pc (B9.3.12)"),
        (0xe10f_f000, "mrs pc, cpsr (B9.3.8)"),
        (0xf8bf_0a00, "rfe pc! (B9.3.13)"),
        (0xf102_0040, "cps with a mask and no imod (B9.3.2)"),
        (0xf100_0010, "cps without anything to do (B9.3.2)"),
        (0xf59f_f000, "pldw [pc] (A5.7.1)"),
    ]);
    assert_defined(&[
        (0xf55f_f000, "pld [pc, #-0]"),
        (0xf7df_f001, "pld [pc, r1]"),
        (0xf8bd_0a00, "rfeia sp!"),
        (0xf96d_0513, "srsdb sp!, #0x13"),
        (0xe12f_ff1f, "bx pc"),
    ]);
}

#[test]
fn coprocessors() {
    let dacr = CpReg { coproc: 15, opc1: 0, crn: 3, crm: 0, opc2: 0 };
    assert_eq!(decode(0xee03_0f10).op, Op::CoprocMove { load: false, reg: dacr, rt: Reg::new(0) });
    assert_defined(&[
        (0xee1f_fe17, "mrc p14, 0, apsr_nzcv, c15, c7, 0"),
        (0xed9f_5e01, "ldc p14, c5, [pc, #4]"),
        (0xecdf_5e01, "ldc p14, c5, [pc], {1}"),
        (0xee01_ff10, "mcr p15, 0, pc, c1, c0, 0: kept for old code"),
    ]);
    assert_unpredictable(&[
        (0xec50_0f1f, "mrrc p15, 1, r0, r0, c15 (A8.8.108)"),
        (0xec5f_0f1f, "mrrc p15, 1, r0, pc, c15 (A8.8.108)"),
        (0xedbf_5e01, "ldc p14, c5, [pc, #4]! (A8.8.56)"),
    ]);
    assert_eq!(decode(0xec00_0e00).op, Op::Undefined, "P = U = W = D = 0 (A5.6)");
    assert_eq!(decode(0xfd90_0a00).op, Op::Undefined, "ldc2 p10 (A8.8.55)");
}

#[test]
fn floating_point_and_simd() {
    assert_eq!(decode(0xeef1_fa10).op, Op::VfpSystem { load: true, sysreg: 1, rt: Reg::PC });
    assert_eq!(decode(0xeee8_0a10).op, Op::VfpSystem { load: false, sysreg: 8, rt: Reg::new(0) });
    let literal = Op::VfpMem { load: true, rn: Reg::PC, multiple: false, writeback: false };
    assert_eq!(decode(0xed9f_0b00).op, literal);
    assert_eq!(decode(0xee30_0a00).op, Op::Vfp, "vadd.f32 s0, s0, s0");
    assert_eq!(decode(0xf420_070f).op, Op::Vfp, "vld1.8 d0, [r0]");
    assert_unpredictable(&[
        (0xeef8_fa10, "vmrs pc, fpexc (B9.3.21)"),
        (0xeee1_fa10, "vmsr fpscr, pc (A8.8.349)"),
        (0xee00_fa10, "vmov s0, pc (A8.8.343)"),
        (0xecbf_0b02, "vldm pc!, {d0} (A8.8.332)"),
        (0xec90_0b00, "vldm r0, {} (A8.8.332)"),
        (0xec90_0b22, "vldm r0, {d0-d16} (A8.8.332)"),
        (0xf42f_070f, "vld1.8 {d0}, [pc] (A8.8.320)"),
        (0xf460_f00f, "vld4.8 {d31-d34}, [r0] (A8.8.326)"),
    ]);
    assert_eq!(decode(0xf200_1844).op, Op::Undefined, "vadd.i8 q0.5: an odd quadword");
}
