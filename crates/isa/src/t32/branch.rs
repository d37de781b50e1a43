//! Branches with offsets, and IT.

use super::row::Special;
use super::{Decoded, ItState, Op};
use crate::Reg;
use crate::decode::{bit, bits};

/// The low `width` bits of `value`, sign-extended.
const fn sign_extend(value: u32, width: u32) -> i32 {
    (value << (32 - width)) as i32 >> (32 - width)
}

const fn plain(offset: i32) -> Op {
    Op::Branch { link: false, offset }
}

/// The offset of a branch that is not BL.
const fn plain_offset(d: &Decoded) -> Option<u32> {
    match d.op {
        Op::Branch { link: false, offset } => Some(offset as u32),
        _ => None,
    }
}

/// A8.8.18, encoding T1: `1101 cond imm8`.
pub(super) const NARROW_CONDITIONAL: Special = Special {
    unpack: |raw| plain(sign_extend(bits(raw, 7, 0) << 1, 9)),
    pack: |raw, d| {
        let offset = plain_offset(d)?;
        Some(raw | (d.cond as u32) << 8 | bits(offset, 8, 1))
    },
};

/// A8.8.18, encoding T2: `11100 imm11`.
pub(super) const NARROW: Special = Special {
    unpack: |raw| plain(sign_extend(bits(raw, 10, 0) << 1, 12)),
    pack: |raw, d| Some(raw | bits(plain_offset(d)?, 11, 1)),
};

/// A8.8.18, encoding T3: `11110 S cond imm6 10 J1 0 J2 imm11`, the offset is `S:J2:J1:imm6:imm11:0`.
pub(super) const CONDITIONAL: Special = Special {
    unpack: |raw| {
        let top = bits(raw, 26, 26) << 20 | bits(raw, 11, 11) << 19 | bits(raw, 13, 13) << 18;
        plain(sign_extend(top | bits(raw, 21, 16) << 12 | bits(raw, 10, 0) << 1, 21))
    },
    pack: |raw, d| {
        let offset = plain_offset(d)?;
        let top = bits(offset, 20, 20) << 26 | bits(offset, 19, 19) << 11 | bits(offset, 18, 18) << 13;
        Some(raw | (d.cond as u32) << 22 | top | bits(offset, 17, 12) << 16 | bits(offset, 11, 1))
    },
};

/// The offset of encoding T4 of B, of BL and of BLX: `S:I1:I2:imm10:imm11:0`, with I as `NOT(J EOR S)`.
const fn far_offset(raw: u32) -> i32 {
    let s = bits(raw, 26, 26);
    let (i1, i2) = (bits(raw, 13, 13) ^ s ^ 1, bits(raw, 11, 11) ^ s ^ 1);
    sign_extend(s << 24 | i1 << 23 | i2 << 22 | bits(raw, 25, 16) << 12 | bits(raw, 10, 0) << 1, 25)
}

/// `raw` with the offset put in.
const fn with_far_offset(raw: u32, offset: i32) -> u32 {
    let offset = offset as u32;
    let s = bits(offset, 24, 24);
    let (j1, j2) = (bits(offset, 23, 23) ^ s ^ 1, bits(offset, 22, 22) ^ s ^ 1);
    raw | s << 26 | j1 << 13 | j2 << 11 | bits(offset, 21, 12) << 16 | bits(offset, 11, 1)
}

/// A8.8.18, encoding T4.
pub(super) const WIDE: Special = Special {
    unpack: |raw| plain(far_offset(raw)),
    pack: |raw, d| Some(with_far_offset(raw, plain_offset(d)? as i32)),
};

/// A8.8.25, encoding T1: BL.
pub(super) const LINK: Special = Special {
    unpack: |raw| Op::Branch { link: true, offset: far_offset(raw) },
    pack: |raw, d| match d.op {
        Op::Branch { link: true, offset } => Some(with_far_offset(raw, offset)),
        _ => None,
    },
};

/// A8.8.25, encoding T2: BLX, whose lowest bit, H, is 0.
pub(super) const LINK_EXCHANGE: Special = Special {
    unpack: |raw| Op::BranchLinkExchangeImm { offset: far_offset(raw) },
    pack: |raw, d| match d.op {
        Op::BranchLinkExchangeImm { offset } => Some(with_far_offset(raw, offset)),
        _ => None,
    },
};

/// A8.8.29: `1011 op 0 i 1 imm5 Rn`.
pub(super) const COMPARE: Special = Special {
    unpack: |raw| Op::CompareBranch {
        nonzero: bit(raw, 11),
        rn: Reg::new(bits(raw, 2, 0)),
        offset: (bits(raw, 9, 9) << 6 | bits(raw, 7, 3) << 1) as u8,
    },
    pack: |raw, d| match d.op {
        Op::CompareBranch { nonzero, rn, offset } => {
            let offset = u32::from(offset);
            let fields = bits(offset, 6, 6) << 9 | bits(offset, 5, 1) << 3 | rn.n() & 7;
            Some(raw | u32::from(nonzero) << 11 | fields)
        }
        _ => None,
    },
};

/// A8.8.238: TBB and TBH, `H` in bit 4.
pub(super) const TABLE: Special = Special {
    unpack: |raw| Op::TableBranch { half: bit(raw, 4), rn: Reg::new(raw >> 16), rm: Reg::new(raw) },
    pack: |raw, d| match d.op {
        Op::TableBranch { half, rn, rm } => Some(raw | rn.n() << 16 | u32::from(half) << 4 | rm.n()),
        _ => None,
    },
};

/// A8.8.54.
pub(super) const IF_THEN: Special = Special {
    unpack: |raw| Op::IfThen(ItState::new(raw as u8)),
    pack: |raw, d| match d.op {
        Op::IfThen(state) => Some(raw | u32::from(state.bits())),
        _ => None,
    },
};
