//! The encoder is the inverse of the decoder, and takes what has fields from the fields alone.

use spica_isa::{Cond, Decoded, Mem, MemMultiple, Op, Reg, decode, encode};

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

/// The instruction with its base register replaced.
fn with_base(d: Decoded, base: Reg) -> Option<Decoded> {
    let op = match d.op {
        Op::Mem(m) => Op::Mem(Mem { rn: base, ..m }),
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

/// Whether it has a condition, and may have any (BKPT and HVC have none: A8.8.24, B9.3.4).
fn is_conditional(d: &Decoded) -> bool {
    !d.uncond && !matches!(d.op, Op::Breakpoint { .. } | Op::HypervisorCall { .. } | Op::Unpredictable)
}

/// Panics if the word does not survive.
pub fn check(word: u32) {
    let d = decode(word);
    assert_eq!(encode(&d), word, "{d:?}");
    assert_eq!(d.word, word, "{word:#010x}");
    assert_eq!(d.uncond, word >> 28 == 15, "{word:#010x}");
    if has_all_fields(d.op) {
        assert_eq!(encode(&Decoded { word: 0, ..d }), word, "from the fields alone: {d:?}");
    }
    if is_conditional(&d) {
        let other = decode(encode(&Decoded { cond: Cond::Ne, ..d }));
        assert_eq!((other.cond, other.op), (Cond::Ne, d.op), "{word:#010x} under another condition");
    }
    for base in [Reg::new(0), Reg::new(9), Reg::LR] {
        let Some(changed) = with_base(d, base) else { break };
        let expected = word & !0x000f_0000 | base.n() << 16;
        assert_eq!(encode(&changed), expected, "with another base register: {d:?}");
    }
}

/// Panics if the word is not what it is under the condition AL, but for the condition.
pub fn check_condition(word: u32) {
    let (d, always) = (decode(word), decode(word & 0x0fff_ffff | 14 << 28));
    assert_eq!((d.word, d.cond as u32, d.uncond), (word, word >> 28, false), "{word:#010x}");
    if is_conditional(&always) {
        assert_eq!(d.op, always.op, "{word:#010x}, against AL");
    } else {
        assert_eq!(d.op, Op::Unpredictable, "{word:#010x}: has no condition");
    }
}
