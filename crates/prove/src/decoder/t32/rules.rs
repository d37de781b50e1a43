//! What holds for every T32 instruction, without another decoder to ask.

use super::cases::{Case, states};
use spica_isa::t32::{Decoded, ItState, Op, decode, encode};
use spica_isa::{Mem, MemMultiple, Reg};

/// Panics if something is wrong.
pub fn check(case: Case) {
    let d = decode(case.code, case.it);
    assert_eq!(d.code, case.code, "{d:?}");
    assert_eq!(encode(&d), Some(case.code), "{d:?}");
    if let Op::A32(same) = d.op {
        assert_eq!(spica_isa::decode(same.word), same, "not the A32 instruction of its own word: {d:?}");
        assert!(same.uncond || same.cond == d.cond, "another condition: {d:?}");
        let nothing = matches!(same.op, spica_isa::Op::Undefined | spica_isa::Op::Unpredictable);
        assert!(!nothing, "an A32 instruction that there is not: {d:?}");
    }
    operands(d, case.it);
    if case.it == ItState::OUTSIDE && case.code.is_wide() {
        let first = 1 + case.code.bits() as usize % 7;
        states().skip(first).step_by(7).for_each(|it| block(d, it));
    }
}

/// The encoder takes operands from the fields: they survive in an encoding that had others, and others survive.
fn operands(d: Decoded, it: ItState) {
    if matches!(d.op, Op::Undefined | Op::Unpredictable) {
        return;
    }
    for flip in [0x0001, 0x0100, 0x1008, 0x0001_0040] {
        if !d.code.is_wide() && flip > 0xffff {
            continue;
        }
        let other = Case::of(d.code.bits() ^ flip, it);
        if let Some(code) = encode(&Decoded { code: other.code, ..d })
            && !matches!(decode(other.code, it).op, Op::Undefined | Op::Unpredictable)
        {
            // A branch that has a condition itself may have become one that must have it from a block.
            let here = [it, ItState::only(d.cond)].map(|it| decode(code, it));
            assert!(here.iter().any(|one| same(one, &d)), "became {here:?} in the encoding of {other}: {d:?}");
        }
    }
    for base in [Reg::new(0), Reg::new(5), Reg::LR] {
        let Some(changed) = with_base(d, base) else { break };
        if let Some(code) = encode(&changed) {
            let back = decode(code, it);
            assert!(same(&back, &changed), "with another base register {back:?}, expected {changed:?}");
        }
    }
}

/// The instruction with its base register replaced.
fn with_base(d: Decoded, base: Reg) -> Option<Decoded> {
    let op = match d.op {
        Op::A32(same) => {
            let op = match same.op {
                spica_isa::Op::Mem(m) => spica_isa::Op::Mem(Mem { rn: base, ..m }),
                spica_isa::Op::MemMultiple(m) => spica_isa::Op::MemMultiple(MemMultiple { rn: base, ..m }),
                spica_isa::Op::DataProcessing { op, s, rd, op2, .. } if op.has_rn() => {
                    spica_isa::Op::DataProcessing { op, s, rd, rn: base, op2 }
                }
                _ => return None,
            };
            Op::A32(spica_isa::Decoded { op, ..same })
        }
        Op::Mem(m) => Op::Mem(Mem { rn: base, ..m }),
        Op::MemDual(m) => Op::MemDual(spica_isa::t32::MemDual { rn: base, ..m }),
        Op::AddWide { subtract, rd, imm, .. } => Op::AddWide { subtract, rd, rn: base, imm },
        Op::CompareBranch { nonzero, offset, .. } => Op::CompareBranch { nonzero, rn: base, offset },
        _ => return None,
    };
    Some(Decoded { op, ..d })
}

/// Whether two do the same under the same condition, however they are encoded.
fn same(one: &Decoded, other: &Decoded) -> bool {
    let equal = match (one.op, other.op) {
        (Op::A32(one), Op::A32(other)) => spica_isa::encode(&one) == spica_isa::encode(&other),
        (one, other) => one == other,
    };
    equal && one.cond == other.cond
}

/// In a block, a wide instruction is what it is outside, but for its condition; or it must not stand there.
fn block(outside: Decoded, it: ItState) {
    let inside = decode(outside.code, it);
    assert_eq!(encode(&inside), Some(outside.code), "{inside:?}");
    match (inside.op, outside.op) {
        (Op::Unpredictable, _) => return,
        (Op::A32(one), Op::A32(other)) => {
            let (one, other) = (one.word, other.word);
            assert_eq!(one << 4, other << 4, "in the block of {it:?}, {inside:?} and not {outside:?}");
        }
        (one, other) => assert_eq!(one, other, "in the block of {it:?}"),
    }
    // UDF has no condition (A8.8.247).
    let udf = matches!(inside.op, Op::Undefined) && inside.code.bits() & 0xfff0_f000 == 0xf7f0_a000;
    assert!(udf || inside.cond == it.cond(), "not under the condition of {it:?}: {inside:?}");
}
