//! Loads and stores that A32 has not, or not with these operands.

use super::row::Special;
use super::{Decoded, MemDual, Op};
use crate::decode::{bit, bits};
use crate::{Mem, MemMultiple, MemSize, Offset, Reg, ShiftType};

/// A8.8.57, encoding T1: `11001 Rn list`. The base is written back unless it is loaded.
pub(super) const NARROW_LDM: Special = Special {
    unpack: |raw| {
        let (rn, regs) = (Reg::new(bits(raw, 10, 8)), bits(raw, 7, 0) as u16);
        let writeback = regs >> rn.n() & 1 == 0;
        let ldm = MemMultiple { load: true, before: false, increment: true, user: false, writeback, rn, regs };
        Op::of_a32_fields(crate::Op::MemMultiple(ldm))
    },
    pack: |raw, d| match d.op {
        Op::A32(crate::Decoded { op: crate::Op::MemMultiple(m), .. }) => {
            Some(raw | (m.rn.n() & 7) << 8 | u32::from(m.regs) & 0xff)
        }
        _ => None,
    },
};

/// A6.3.7 to A6.3.10: `11111 00 S U size L Rn Rt`, and the forms of the second halfword.
pub(super) const SINGLE: Special = Special { unpack: single, pack: pack_single };

fn single(raw: u32) -> Op {
    let rn = Reg::new(raw >> 16);
    let size = match (bits(raw, 22, 21), bit(raw, 24)) {
        (0b00, false) => MemSize::Byte,
        (0b00, true) => MemSize::SignedByte,
        (0b01, false) => MemSize::Half,
        (0b01, true) => MemSize::SignedHalf,
        _ => MemSize::Word,
    };
    let upwards = bit(raw, 23);
    let (offset, add, unprivileged) = if upwards || rn.is_pc() {
        (Offset::Imm(bits(raw, 11, 0) as u16), upwards, false)
    } else if bit(raw, 11) {
        (Offset::Imm(bits(raw, 7, 0) as u16), true, true)
    } else {
        let amount = bits(raw, 5, 4) as u8;
        (Offset::Reg { rm: Reg::new(raw), shift: ShiftType::Lsl, amount }, true, false)
    };
    let rt = Reg::new(raw >> 12);
    Op::Mem(Mem { load: bit(raw, 20), size, rt, rn, offset, add, pre: true, writeback: false, unprivileged })
}

/// The row fixes which instruction it is; what is left are the sign, `U` of a literal, the registers, and the offset.
fn pack_single(raw: u32, d: &Decoded) -> Option<u32> {
    let Op::Mem(m) = d.op else { return None };
    let offset = match m.offset {
        Offset::Imm(imm) if m.unprivileged => u32::from(imm) & 0xff,
        Offset::Imm(imm) => u32::from(m.add) << 23 | u32::from(imm) & 0xfff,
        Offset::Reg { rm, amount, .. } => (u32::from(amount) & 3) << 4 | rm.n(),
    };
    let signed = matches!(m.size, MemSize::SignedByte | MemSize::SignedHalf);
    Some(raw | u32::from(signed) << 24 | m.rn.n() << 16 | m.rt.n() << 12 | offset)
}

/// A8.8.72, A8.8.73, A8.8.210: `1110 100P U1WL Rn Rt Rt2 imm8`.
pub(super) const DUAL: Special = Special {
    unpack: |raw| {
        let pre = bit(raw, 24);
        Op::MemDual(MemDual {
            load: bit(raw, 20),
            rt: Reg::new(raw >> 12),
            rt2: Reg::new(raw >> 8),
            rn: Reg::new(raw >> 16),
            offset: (bits(raw, 7, 0) << 2) as u16,
            add: bit(raw, 23),
            pre,
            writeback: !pre || bit(raw, 21),
        })
    },
    pack: |raw, d| match d.op {
        Op::MemDual(m) => {
            let indexing = u32::from(m.pre) << 24 | u32::from(m.add) << 23 | u32::from(m.writeback) << 21;
            let registers = m.rn.n() << 16 | m.rt.n() << 12 | m.rt2.n() << 8;
            Some(raw | indexing | u32::from(m.load) << 20 | registers | bits(u32::from(m.offset), 9, 2))
        }
        _ => None,
    },
};

/// A8.8.75: `1110 1000 0101 Rn Rt (1111) imm8`.
pub(super) const LDREX: Special = Special {
    unpack: |raw| Op::LoadExclusive {
        rt: Reg::new(raw >> 12),
        rt2: None,
        rn: Reg::new(raw >> 16),
        offset: (bits(raw, 7, 0) << 2) as u16,
    },
    pack: |raw, d| match d.op {
        Op::LoadExclusive { rt, rt2: None, rn, offset } => {
            Some(raw | rn.n() << 16 | rt.n() << 12 | bits(u32::from(offset), 9, 2))
        }
        _ => None,
    },
};

/// A8.8.77: `1110 1000 1101 Rn Rt Rt2 0111 (1111)`.
pub(super) const LDREXD: Special = Special {
    unpack: |raw| Op::LoadExclusive {
        rt: Reg::new(raw >> 12),
        rt2: Some(Reg::new(raw >> 8)),
        rn: Reg::new(raw >> 16),
        offset: 0,
    },
    pack: |raw, d| match d.op {
        Op::LoadExclusive { rt, rt2: Some(rt2), rn, .. } => Some(raw | rn.n() << 16 | rt.n() << 12 | rt2.n() << 8),
        _ => None,
    },
};

/// A8.8.212: `1110 1000 0100 Rn Rt Rd imm8`.
pub(super) const STREX: Special = Special {
    unpack: |raw| Op::StoreExclusive {
        rd: Reg::new(raw >> 8),
        rt: Reg::new(raw >> 12),
        rt2: None,
        rn: Reg::new(raw >> 16),
        offset: (bits(raw, 7, 0) << 2) as u16,
    },
    pack: |raw, d| match d.op {
        Op::StoreExclusive { rd, rt, rt2: None, rn, offset } => {
            Some(raw | rn.n() << 16 | rt.n() << 12 | rd.n() << 8 | bits(u32::from(offset), 9, 2))
        }
        _ => None,
    },
};

/// A8.8.214: `1110 1000 1100 Rn Rt Rt2 0111 Rd`.
pub(super) const STREXD: Special = Special {
    unpack: |raw| Op::StoreExclusive {
        rd: Reg::new(raw),
        rt: Reg::new(raw >> 12),
        rt2: Some(Reg::new(raw >> 8)),
        rn: Reg::new(raw >> 16),
        offset: 0,
    },
    pack: |raw, d| match d.op {
        Op::StoreExclusive { rd, rt, rt2: Some(rt2), rn, .. } => {
            Some(raw | rn.n() << 16 | rt.n() << 12 | rt2.n() << 8 | rd.n())
        }
        _ => None,
    },
};

/// Memory hints that the architecture leaves unallocated: NOP, whatever their fields say (A6.3.8, A6.3.9).
pub(super) const HINT: Special =
    Special { unpack: |_| Op::Hint, pack: |_, d| matches!(d.op, Op::Hint).then(|| d.code.bits()) };
