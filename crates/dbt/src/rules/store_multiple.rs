//! `STM` with the PC in its list: STAR's Algorithm 1.

use super::{Flow, emulate, restore};
use crate::at::At;
use crate::block::Undo;
use crate::emit::Emitter;
use spica_isa::{Cond, Decoded, Mem, MemMultiple, MemSize, ModImm, Offset, Op, Reg, asm, encode};

/// Stores all registers but the PC with one `STM`, and the PC (its value, +8) by a substitute: in the same `STM` where
/// a register above all others is free, else by a `STR` whose addressing mode leaves the base as the original would.
pub fn translate(e: &mut Emitter<'_>, d: &Decoded, mem: MemMultiple, at: At) -> Flow {
    let (inc, before, wback) = (mem.increment, mem.before, mem.writeback);
    let regs = mem.regs & 0x7fff;
    let rn = mem.rn;
    if rn.is_pc() {
        return emulate(e, d, false);
    }
    let count = regs.count_ones();
    let highest = 15 - (u32::from(regs) | 1 << rn.n()).leading_zeros().wrapping_sub(16);
    let low = Reg::new(u32::from(rn.n() == 0));
    // A lone PC has any other register for a substitute; STR would not do, for it allows a misaligned address.
    let substitute = if regs == 0 { low } else { Reg::new(highest + 1) };
    let whole = !substitute.is_pc();
    // Algorithm 1 lowers the base first, and would store the lowered one.
    if !whole && !inc && regs >> rn.n() & 1 != 0 {
        return emulate(e, d, false);
    }
    let (four, four_imm) = (4u32, ModImm::from_field(4));
    // The whole is skipped where the condition fails: shorter to reason about than seven conditional words.
    let skip = e.begin_skip(d.cond);
    let rs = if whole { substitute } else { low };
    let part = MemMultiple { regs, ..mem };
    let mut undo = Undo::NONE;
    if !whole {
        if !inc {
            e.emit(asm::sub_imm(Cond::Al, rn, rn, four_imm));
            undo = undo.adjusting(rn, four);
            e.set_undo(undo);
        }
        e.emit(encode(&Decoded { cond: Cond::Al, op: Op::MemMultiple(part), ..*d }));
        if wback {
            let moved = 4 * count;
            let back = if inc { moved.wrapping_neg() } else { moved.wrapping_add(four) };
            undo = undo.adjusting(rn, back);
        }
        e.set_undo(undo);
    }
    e.spill(Cond::Al, rs);
    e.load_constant(Cond::Al, rs, at.pc().0);
    if whole {
        let all = MemMultiple { regs: regs | 1 << rs.n(), ..mem };
        e.emit(encode(&Decoded { cond: Cond::Al, op: Op::MemMultiple(all), ..*d }));
    } else {
        let (offset, pre, writeback) = match (inc == wback, inc == before) {
            (true, true) => (four, true, true),
            (true, false) => (four, false, true),
            (false, true) => (4 * count + four, true, false),
            (false, false) => (4 * count, true, false),
        };
        let store = Mem {
            load: false,
            size: MemSize::Word,
            rt: rs,
            rn,
            offset: Offset::Imm(offset as u16),
            add: true,
            pre,
            writeback,
            unprivileged: false,
        };
        e.emit(encode(&Decoded { word: 0, cond: Cond::Al, uncond: false, op: Op::Mem(store) }));
    }
    restore(e, Cond::Al, rs);
    e.end_skip(skip);
    Flow::Continues
}
