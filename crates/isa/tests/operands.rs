//! Immediates, conditions, and the constructors of the translator's own instructions.

use spica_isa::{
    Cond, Decoded, Mem, MemMultiple, MemSize, ModImm, Offset, Op, Operand2, Reg, asm, decode, encode, word_at_offset,
};

#[test]
fn modified_immediates() {
    // A5.2.4
    for (field, value) in [(0x000, 0), (0x0ff, 0xff), (0x4ff, 0xff00_0000), (0x102, 0x8000_0000), (0xfab, 0x2ac)] {
        assert_eq!(ModImm::from_field(field).value(), value);
    }
    for field in 0..4096 {
        let imm = ModImm::from_field(field);
        assert_eq!(imm.field(), field);
        let canonical = ModImm::encode(imm.value()).expect("has an encoding");
        assert_eq!(canonical.value(), imm.value());
        assert!(canonical.field() >> 8 <= field >> 8, "the smallest rotation");
    }
    for none in [0x101, 0xffff, 0x1fe, 0x0012_3000, 0x8000_0100, 0xffff_ffff] {
        assert_eq!(ModImm::encode(none), None, "{none:#x}");
    }
}

#[test]
fn conditions() {
    for n in 0..16u32 {
        let psr = n << 28;
        for (encoding, cond) in Cond::ALL.into_iter().enumerate() {
            assert_eq!(cond as usize, encoding);
            // A8.3.1, ConditionPassed(), written as in the manual
            let flag = |bit: u32| psr >> bit & 1 == 1;
            let (n, z, c, v) = (flag(31), flag(30), flag(29), flag(28));
            let result = match encoding >> 1 {
                0b000 => z,
                0b001 => c,
                0b010 => n,
                0b011 => v,
                0b100 => c && !z,
                0b101 => n == v,
                0b110 => n == v && !z,
                _ => true,
            };
            let expected = if encoding & 1 == 1 { !result } else { result };
            assert_eq!(cond.holds(psr), expected, "{cond:?} under {psr:#x}");
            assert_eq!(cond.holds(psr | 0x0fff_ffff), expected, "only the flags count");
            match cond.inverse() {
                Some(inverse) => assert_ne!(inverse.holds(psr), cond.holds(psr)),
                None => assert_eq!(cond, Cond::Al),
            }
        }
    }
}

#[test]
fn constructors() {
    let r = Reg::new;
    let text = |word: u32| decode(word).to_string();
    let imm = |value| ModImm::encode(value).expect("has an encoding");
    assert_eq!(text(asm::movw(Cond::Al, r(3), 0xbeef)), "movw r3, #0xbeef");
    assert_eq!(text(asm::movt(Cond::Lt, Reg::LR, 0x1)), "movtlt lr, #1");
    assert_eq!(text(asm::add_imm(Cond::Al, Reg::PC, Reg::LR, imm(0x3f00_0000))), "add pc, lr, #0x3f000000");
    assert_eq!(text(asm::sub_imm(Cond::Eq, r(0), r(1), imm(4))), "subeq r0, r1, #4");
    assert_eq!(text(asm::svc(Cond::Al, 0xff12_3456)), "svc #0x123456");
    assert_eq!(text(asm::udf(0xbeef)), "udf #0xbeef");
    assert_eq!(text(asm::NOP), "nop");
    assert_eq!(decode(asm::udf(0xffff)).op, Op::Undefined);
}

#[test]
fn branches_reach_32_mib() {
    for offset in [0, 4, -4, -8, 0x1ff_fffc, -0x200_0000] {
        let word = asm::b(Cond::Al, offset).expect("in reach");
        assert_eq!(decode(word).op, Op::Branch { link: false, offset });
    }
    for offset in [1, 2, -3, 0x200_0000, -0x200_0004, i32::MIN, i32::MAX] {
        assert_eq!(asm::b(Cond::Al, offset), None, "{offset:#x}");
    }
}

#[test]
fn loads_and_stores_reach_4095() {
    for (offset, text) in [(0, "[pc]"), (4095, "[pc, #0xfff]"), (-4095, "[pc, #-0xfff]"), (-4, "[pc, #-4]")] {
        let load = asm::ldr_str(true, Cond::Al, Reg::new(5), Reg::PC, offset).expect("in reach");
        assert_eq!(decode(load).to_string(), format!("ldr r5, {text}"));
        let store = asm::ldr_str(false, Cond::Hi, Reg::PC, Reg::PC, offset).expect("in reach");
        assert_eq!(decode(store).to_string(), format!("strhi pc, {text}"));
    }
    for offset in [4096, -4096, i32::MIN] {
        assert_eq!(asm::ldr_str(true, Cond::Al, Reg::SP, Reg::PC, offset), None);
    }
}

#[test]
fn every_operand_can_be_replaced() {
    // add r0, pc, pc, lsl #3 -> add r1, r2, r3, lsl #3, as the translator does it
    let d = decode(0xe08f_018f);
    let op2 = match d.op {
        Op::DataProcessing { op2: Operand2::Shifted { shift, amount, .. }, .. } => {
            Operand2::Shifted { rm: Reg::new(3), shift, amount }
        }
        other => panic!("{other:?}"),
    };
    let Op::DataProcessing { op, s, .. } = d.op else { unreachable!() };
    let changed = Decoded { op: Op::DataProcessing { op, s, rd: Reg::new(1), rn: Reg::new(2), op2 }, ..d };
    assert_eq!(encode(&changed), 0xe082_1183);

    // ldmia sp!, {r4, pc} -> ldmia sp!, {r4, lr}
    let d = decode(0xe8bd_8010);
    let Op::MemMultiple(m) = d.op else { panic!("{d:?}") };
    assert_eq!(encode(&Decoded { op: Op::MemMultiple(MemMultiple { regs: 0x4010, ..m }), ..d }), 0xe8bd_4010);

    // pld [r1, r2, lsl #1] -> pld [r3, r4, lsl #1]
    let d = decode(0xf7d1_f082);
    let op = Op::Preload { rn: Reg::new(3), rm: Some(Reg::new(4)) };
    assert_eq!(encode(&Decoded { op, ..d }), 0xf7d3_f084);
}

/// What is told at a glance is what decoding says: for all kinds of instructions, registers and conditions.
#[test]
fn words_at_offsets() {
    let mut words = 0;
    for n in 0..1u32 << 24 {
        // All of bits 31:12, and some of the others.
        let word = n << 8 | n.wrapping_mul(0x9e37_79b9) >> 24;
        let plain = match decode(word).op {
            Op::Mem(Mem { size: MemSize::Word, pre: true, writeback: false, offset: Offset::Imm(_), rt, .. }) => {
                Some(rt)
            }
            _ => None,
        };
        assert_eq!(word_at_offset(word), plain.filter(|rt| !rt.is_pc()), "{word:08x} {}", decode(word));
        words += u32::from(plain.is_some());
    }
    assert!(words > 100_000, "{words}");
}
