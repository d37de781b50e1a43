//! IT blocks: what they make of the instructions in them.

use super::{code, outside};
use spica_isa::t32::{Decoded, ItState, Op, decode};
use spica_isa::{Cond, DpOp};

/// In the middle of a block of EQ, and at its end.
const MIDDLE: ItState = ItState::new(0x04);
const LAST: ItState = ItState::new(0x08);

fn sets_flags(d: Decoded) -> bool {
    match d.op {
        Op::A32(spica_isa::Decoded { op: spica_isa::Op::DataProcessing { s, .. }, .. }) => s,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_state_advances_as_the_manual_says() {
    for bits in 0..=255u8 {
        let it = ItState::new(bits);
        // A2.5.2, ITAdvance()
        let expected = if bits & 0b111 == 0 { 0 } else { bits & 0b1110_0000 | bits << 1 & 0b0001_1111 };
        assert_eq!(it.advance().bits(), expected);
        assert_eq!(it.in_block(), bits & 0b1111 != 0);
        assert_eq!(it.is_last(), bits & 0b1111 == 0b1000);
        assert_eq!(ItState::from_psr(it.to_psr()), it);
        assert_eq!(ItState::from_psr(!0x0600_fc00 | it.to_psr()), it);
    }
    assert_eq!(ItState::new(0xff).to_psr(), 0x0600_fc00, "IT is in bits 26:25 and 15:10 (B1.3.3)");
    assert_eq!(ItState::new(0x03).to_psr(), 0x0600_0000);
}

#[test]
fn a_block_has_the_conditions_that_it_writes() {
    // ittee ge, behind which instructions are under GE, GE, LT, LT
    let Op::IfThen(mut it) = outside(0xbfa7).op else { panic!() };
    assert_eq!(outside(0xbfa7).to_string(), "ittee ge");
    let mut conditions = Vec::new();
    while it.in_block() {
        conditions.push(it.cond());
        it = it.advance();
    }
    assert_eq!(conditions, [Cond::Ge, Cond::Ge, Cond::Lt, Cond::Lt]);
    assert_eq!(it, ItState::OUTSIDE);
}

#[test]
fn narrow_instructions_set_flags_outside_only() {
    // lsls, adds, subs, movs, ands, mvns …; and never ADD and MOV of any registers
    for bits in [0x0048, 0x1888, 0x1a88, 0x1c48, 0x2001, 0x3001, 0x4008, 0x4048, 0x4248, 0x43c8] {
        assert!(sets_flags(outside(bits)), "{bits:#x}");
        assert!(!sets_flags(decode(code(bits), LAST)), "{bits:#x}");
        assert!(!sets_flags(decode(code(bits), ItState::new(0xe8))), "{bits:#x} in a block of AL");
    }
    for bits in [0x4440, 0x4640] {
        assert!(!sets_flags(outside(bits)), "{bits:#x}");
    }
    // cmp, cmn, tst always; wide ones as they say
    for (bits, s) in
        [(0x2800, true), (0x4288, true), (0x42c8, true), (0x4208, true), (0xf111_0001, true), (0xf101_0001, false)]
    {
        assert_eq!([sets_flags(outside(bits)), sets_flags(decode(code(bits), LAST))], [s, s], "{bits:#x}");
    }
    let d = decode(code(0x1888), LAST);
    assert_eq!(d.to_string(), "addeq r0, r1, r2");
    assert_eq!(d.cond, Cond::Eq);
    let Op::A32(same) = d.op else { panic!() };
    assert_eq!((same.word, same.cond), (0x0081_0002, Cond::Eq));
    assert!(matches!(same.op, spica_isa::Op::DataProcessing { op: DpOp::Add, s: false, .. }));
}

#[test]
fn some_have_no_condition() {
    // bkpt, udf, udf.w
    for bits in [0xbe00, 0xde00, 0xf7f0_a000] {
        assert_eq!(decode(code(bits), LAST).cond, Cond::Al, "{bits:#x}");
    }
    assert_eq!(decode(code(0xf3bf_8f4f), LAST).to_string(), "dsbeq sy");
    assert_eq!(decode(code(0xdf01), LAST).to_string(), "svceq #1");
}

#[test]
fn branches_stand_at_the_end() {
    let branches = [
        (0xe7fe, "b"),
        (0xf7ff_bffe, "b.w"),
        (0xf7ff_fffe, "bl"),
        (0xf7ff_effe, "blx"),
        (0x4770, "bx lr"),
        (0x4780, "blx r0"),
        (0x4687, "mov pc, r0"),
        (0x4487, "add pc, r0"),
        (0xbd01, "pop {r0, pc}"),
        (0xe8bd_8003, "pop.w {r0, r1, pc}"),
        (0xf85d_fb04, "ldr pc, [sp], #4"),
        (0xf8df_f000, "ldr pc, [pc]"),
        (0xf850_f001, "ldr pc, [r0, r1]"),
        (0xe8df_f000, "tbb [pc, r0]"),
        (0xf3de_8f00, "subs pc, lr, #0"),
        (0xf3c0_8f00, "bxj r0"),
        (0xe810_c000, "rfedb r0"),
        (0xf7f0_8000, "smc"),
    ];
    for (bits, what) in branches {
        assert_ne!(outside(bits).op, Op::Unpredictable, "{what}");
        assert_ne!(decode(code(bits), LAST).op, Op::Unpredictable, "{what}");
        assert_eq!(decode(code(bits), MIDDLE).op, Op::Unpredictable, "{what}");
    }
    // Loads of other registers may stand anywhere, and so may calls of the supervisor.
    for bits in [0xbc01, 0xe8bd_0003, 0xf85d_0b04, 0xdf00, 0xe80d_c013] {
        assert_ne!(decode(code(bits), MIDDLE).op, Op::Unpredictable, "{bits:#x}");
    }
}

#[test]
fn some_stand_outside_only() {
    let instructions = [
        (0xd0fe, "beq"),
        (0xf43f_affe, "beq.w"),
        (0xb100, "cbz"),
        (0xbf08, "it"),
        (0xb672, "cpsid i"),
        (0xf3af_8750, "cpsid i, #16"),
        (0xb658, "setend be"),
        (0x0008, "movs r0, r1 (A8.8.103)"),
        (0xf7e0_8000, "hvc (B9.3.4)"),
        (0xf3bf_8f1f, "enterx (A9.3.1)"),
    ];
    for (bits, what) in instructions {
        assert_ne!(outside(bits).op, Op::Unpredictable, "{what}");
        assert_eq!(decode(code(bits), LAST).op, Op::Unpredictable, "{what}");
    }
}
