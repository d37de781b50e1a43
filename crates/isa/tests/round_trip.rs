//! The encoder is the inverse of the decoder, and takes what has fields from the fields alone.

mod support;

use spica_isa::{Cond, Decoded, MemMultiple, Op, Operand2, Reg, decode, encode};

/// Instructions that are encoded from their fields, without a look at the word.
fn has_all_fields(op: Op) -> bool {
    !matches!(
        op,
        Op::Preload { .. }
            | Op::Exclusive
            | Op::Hint
            | Op::CoprocData { .. }
            | Op::CoprocMem { .. }
            | Op::VfpMem { .. }
            | Op::Vfp
            | Op::Plain
            | Op::Divide
            | Op::VirtExt
            | Op::Undefined
            | Op::Unpredictable
    )
}

fn check(word: u32) {
    let d = decode(word);
    assert_eq!(encode(&d), word, "{d:?}");
    assert_eq!(d.word, word);
    assert_eq!(d.uncond, word >> 28 == 15);
    if has_all_fields(d.op) {
        assert_eq!(encode(&Decoded { word: 0, ..d }), word, "from the fields alone: {d:?}");
    }
    // Under another condition, it is the same instruction (BKPT and HVC have none: A8.8.24, B9.3.4).
    if !d.uncond && !matches!(d.op, Op::Breakpoint { .. } | Op::HypervisorCall { .. } | Op::Unpredictable) {
        let other = decode(encode(&Decoded { cond: Cond::Ne, ..d }));
        assert_eq!((other.cond, other.op), (Cond::Ne, d.op), "{word:#010x}");
    }
}

#[test]
fn every_selector_survives() {
    support::structured(32, check);
}

#[test]
fn random_words_survive() {
    let mut random = support::Random::new(2);
    for _ in 0..support::samples(4_000_000) {
        check(random.word());
        check(random.biased_word());
    }
}

/// The instruction with its base register replaced.
fn with_base(d: Decoded, base: Reg) -> Option<Decoded> {
    let op = match d.op {
        Op::Mem(m) => Op::Mem(spica_isa::Mem { rn: base, ..m }),
        Op::MemMultiple(m) => Op::MemMultiple(MemMultiple { rn: base, ..m }),
        Op::CoprocMem { load, coproc, .. } => Op::CoprocMem { load, coproc, rn: base },
        Op::VfpMem { load, multiple, writeback, .. } => Op::VfpMem { load, rn: base, multiple, writeback },
        Op::Preload { rm, .. } => Op::Preload { rn: base, rm },
        Op::ReturnFromException { before, increment, writeback, .. } => {
            Op::ReturnFromException { before, increment, writeback, rn: base }
        }
        Op::DataProcessing { op, s, rd, op2, .. } if op.has_rn() => Op::DataProcessing { op, s, rd, rn: base, op2 },
        _ => return None,
    };
    Some(Decoded { op, ..d })
}

#[test]
fn a_new_base_register_is_the_only_change() {
    support::structured(8, |word| {
        let d = decode(word);
        for base in [Reg::new(0), Reg::new(9), Reg::LR] {
            let Some(changed) = with_base(d, base) else { continue };
            assert_eq!(encode(&changed), word & !0x000f_0000 | base.n() << 16, "{d:?}");
        }
    });
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
