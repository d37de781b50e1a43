//! Constants, offsets, and the encoder.

use super::{a32, code, outside};
use spica_isa::t32::{Code, Decoded, ModImm, Op, OrNotOperand, encode};
use spica_isa::{Cond, DpOp, Mem, MemSize, Offset, Operand2, Reg};

#[test]
fn modified_immediates() {
    for field in 0..4096u32 {
        // A6.3.2, ThumbExpandImm_C(), written as in the manual
        let imm8 = field & 0xff;
        let expected = match (field >> 10, field >> 8 & 3) {
            (0b00, 0b00) => Some(imm8),
            (0b00, _) if imm8 == 0 => None,
            (0b00, 0b01) => Some(imm8 << 16 | imm8),
            (0b00, 0b10) => Some(imm8 << 24 | imm8 << 8),
            (0b00, _) => Some(imm8 << 24 | imm8 << 16 | imm8 << 8 | imm8),
            _ => Some((0x80 | field & 0x7f).rotate_right(field >> 7)),
        };
        let imm = ModImm::from_field(field);
        assert_eq!(imm.map(ModImm::value), expected, "{field:#x}");
        if let (Some(imm), Some(value)) = (imm, expected) {
            assert_eq!(imm.field(), field);
            assert_eq!(ModImm::encode(value), Some(imm), "{value:#x} has one encoding");
        }
    }
    for none in [0x101, 0x1ff, 0xffff, 0x0102_0102, 0x00ff_00fe, 0x8000_0001, 0x1234_0000] {
        assert_eq!(ModImm::encode(none), None, "{none:#x}");
    }
}

#[test]
fn constants_are_those_of_a32_where_it_has_them() {
    let op2 = |bits| match a32(bits).op {
        spica_isa::Op::DataProcessing { op2: Operand2::Imm(imm), .. } => imm.value(),
        other => panic!("{other:?}"),
    };
    assert_eq!(op2(0xf04f_00ff), 0xff);
    assert_eq!(op2(0xf44f_7080), 0x100);
    assert_eq!(op2(0xf04f_407f), 0xff00_0000);
    // Repeated, or rotated by an odd distance: only T32 has them.
    for (bits, value) in [(0xf04f_10ab, 0x00ab_00ab), (0xf04f_30ab, 0xabab_abab), (0xf44f_70ff, 0x1fe)] {
        let Op::DataProcessing { op: DpOp::Mov, s: false, rd, rn, imm } = outside(bits).op else {
            panic!("{:?}", outside(bits));
        };
        assert_eq!((rd.n(), rn.n(), imm.value()), (0, 0, value));
    }
}

#[test]
fn branches_reach_as_far_as_the_manual_says() {
    let offset = |bits| match outside(bits).op {
        Op::Branch { offset, .. } | Op::BranchLinkExchangeImm { offset } => offset,
        other => panic!("{other:?}"),
    };
    // A8.8.18: T1, T2, T3, T4; A8.8.25
    assert_eq!((offset(0xd080), offset(0xd07f)), (-256, 254));
    assert_eq!((offset(0xe400), offset(0xe3ff)), (-2048, 2046));
    assert_eq!((offset(0xf400_8000), offset(0xf03f_afff)), (-0x10_0000, 0xf_fffe));
    assert_eq!((offset(0xf400_d000), offset(0xf3ff_d7ff)), (-0x100_0000, 0xff_fffe));
    assert_eq!((offset(0xf400_c000), offset(0xf3ff_c7fe)), (-0x100_0000, 0xff_fffc));
    let far = |offset| Decoded { op: Op::Branch { link: true, offset }, ..outside(0xf000_f800) };
    for reach in [0, 2, -2, 0x80_0000, -0x80_0002, 0xff_fffe, -0x100_0000] {
        let code = encode(&far(reach)).expect("in reach");
        assert_eq!(offset(code.bits()), reach);
    }
    for far_away in [1, 0x100_0000, -0x100_0002, i32::MIN] {
        assert_eq!(encode(&far(far_away)), None, "{far_away:#x}");
    }
}

#[test]
fn operands_can_be_replaced_where_they_fit() {
    let with_mem = |bits, change: fn(Mem) -> Mem| {
        let d = outside(bits);
        let op = match d.op {
            Op::A32(same) => {
                let spica_isa::Op::Mem(m) = same.op else { panic!("{d:?}") };
                Op::A32(spica_isa::Decoded { op: spica_isa::Op::Mem(change(m)), ..same })
            }
            Op::Mem(m) => Op::Mem(change(m)),
            other => panic!("{other:?}"),
        };
        encode(&Decoded { op, ..d }).map(Code::bits)
    };
    // ldr r0, [r1, #4]: a low register, and no high one
    assert_eq!(with_mem(0x6848, |m| Mem { rn: Reg::new(7), ..m }), Some(0x6878));
    assert_eq!(with_mem(0x6848, |m| Mem { rn: Reg::new(8), ..m }), None);
    assert_eq!(with_mem(0x6848, |m| Mem { offset: Offset::Imm(124), ..m }), Some(0x6fc8));
    assert_eq!(with_mem(0x6848, |m| Mem { offset: Offset::Imm(128), ..m }), None);
    assert_eq!(with_mem(0x6848, |m| Mem { offset: Offset::Imm(2), ..m }), None);
    assert_eq!(with_mem(0x6848, |m| Mem { size: MemSize::Byte, ..m }), None);
    // ldrsh.w r0, [r1, #4000]
    assert_eq!(with_mem(0xf9b1_0fa0, |m| Mem { rn: Reg::LR, ..m }), Some(0xf9be_0fa0));
    assert_eq!(with_mem(0xf9b1_0fa0, |m| Mem { rn: Reg::PC, ..m }), None, "that is the literal form");
    // beq to bne, and not to b
    let beq = outside(0xd0fe);
    assert_eq!(encode(&Decoded { cond: Cond::Ne, ..beq }).map(Code::bits), Some(0xd1fe));
    assert_eq!(encode(&Decoded { cond: Cond::Al, ..beq }), None);
    // orn r0, r1, #0x10001 to the register form
    let orn = outside(0xf061_1001);
    assert_eq!(orn.to_string(), "orn r0, r1, #0x10001");
    let Op::OrNot { op2: OrNotOperand::Imm(imm), .. } = orn.op else { panic!("{orn:?}") };
    assert_eq!(imm.value(), 0x1_0001);
}

#[test]
fn texts() {
    for (bits, text) in [
        (0x4448, "add r0, r0, r9"),
        (0xa001, "add r0, pc, #4"),
        (0xb402, "push {r1}"),
        (0xbd00, "pop {pc}"),
        (0xb10b, "cbz r3, .+6"),
        (0xd0fe, "beq .+0"),
        (0xf000_f800, "bl .+4"),
        (0xe8df_f010, "tbh [pc, r0, lsl #1]"),
        (0xf102_238b, "add r3, r2, #0x8b008b00"),
        (0xf60d_7dff, "addw sp, sp, #0xfff"),
        (0xe9d1_2302, "ldrd r2, r3, [r1, #8]"),
        (0xe851_0f02, "ldrex r0, [r1, #8]"),
        (0xf831_0012, "ldrh r0, [r1, r2, lsl #1]"),
        (0xf811_0e07, "ldrbt r0, [r1, #7]"),
        (0xef00_0840, ".inst.w 0xef000840 @ simd"),
        (0xf7f1_a234, "udf #0x1234"),
        (0xb800, ".inst.n 0xb800 @ undefined"),
    ] {
        assert_eq!(outside(bits).to_string(), text, "{bits:#x}");
        assert_eq!(encode(&outside(bits)), Some(code(bits)));
    }
}
