//! Translation rules, one file per class of instruction.
//!
//! A rule emits words for one guest instruction and says how control goes on. It must not assume that it runs in a
//! block of its own making: what it needs comes from the instruction and its address.

mod branch;
mod compare_branch;
mod copied;
mod coproc;
mod data;
mod exception_return;
pub(crate) mod indirect;
mod memory;
mod status;
mod store_multiple;
mod t32;
mod user_bank;

pub use compare_branch::in_a32;
pub(crate) use copied::is_copied;
pub use coproc::make_eager;
pub use indirect::landing;
pub use status::ModeChange;
pub use t32::translate as t32;

use crate::at::At;
use crate::block::Undo;
use crate::emit::Emitter;
use crate::options::Options;
use spica_addr::GuestVa;
use spica_isa::{Cond, Decoded, Op, Operand2, Reg};
use spica_vcpu::field;

/// How control goes on behind an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flow {
    /// To the next instruction.
    Continues,
    /// Elsewhere, always: the block ends.
    Ends,
    /// To the next instruction, but in a block of its own.
    Splits,
}

/// Translates one instruction.
pub fn translate(e: &mut Emitter<'_>, options: &Options, d: &Decoded, at: At) -> Flow {
    match d.op {
        Op::DataProcessing { s, rd, .. } if rd.is_pc() && !is_test(d) => {
            if s {
                exception_return::alu(e, options, d)
            } else {
                indirect::alu(e, options, d, at)
            }
        }
        Op::DataProcessing { .. } => data::translate(e, d, at),
        Op::Mem(mem) if mem.unprivileged => memory::unprivileged(e, options, d, mem),
        Op::Mem(mem) if mem.load && mem.rt.is_pc() => indirect::load(e, options, d, mem, at),
        Op::Mem(mem) => memory::single(e, d, mem, at),
        Op::MemMultiple(mem) if mem.user && mem.load && mem.regs & 0x8000 != 0 => {
            exception_return::load_multiple(e, options, d, mem)
        }
        Op::MemMultiple(mem) if mem.user => user_bank::transfer(e, options, d, mem),
        Op::MemMultiple(mem) if mem.regs & 0x8000 == 0 => copy(e, d),
        Op::MemMultiple(mem) if mem.load => indirect::load_multiple(e, options, d, mem, at),
        Op::MemMultiple(mem) => store_multiple::translate(e, d, mem, at),
        Op::Preload { rn, rm } => {
            // A hint: one that would need the PC is dropped (A8.8.126).
            if !rn.is_pc() && !rm.is_some_and(Reg::is_pc) {
                e.emit(d.word);
            }
            Flow::Continues
        }
        Op::VfpMem { rn, .. } if rn.is_pc() => memory::vfp(e, d, at),
        Op::Branch { link, offset } => branch::direct(e, options, d, link, at.pc().wrapping_add(offset as u32), at),
        // To T32: bit 0 is set.
        Op::BranchLinkExchangeImm { offset } => {
            let target = GuestVa(at.pc().wrapping_add(offset as u32).0 | 1);
            branch::direct(e, options, d, true, target, at)
        }
        Op::BranchExchange { link, rm } => indirect::exchange(e, options, d, link, rm, at),
        Op::CoprocMove { load, reg, rt } => coproc::register(e, options, d, load, reg, rt),
        Op::Mrs { spsr: true, rd } if options.plain_registers && !rd.is_pc() => {
            e.page_field(true, d.cond, rd, field::SPSR);
            Flow::Continues
        }
        Op::MsrReg { spsr: true, mask: 0xf, rn } if options.plain_registers && !rn.is_pc() => {
            e.page_field(false, d.cond, rn, field::SPSR);
            Flow::Continues
        }
        Op::Mrs { spsr: false, rd } if options.masks && !rd.is_pc() => status::read(e, d, rd),
        Op::MsrReg { spsr: false, mask: 1, rn } if options.masks && !rn.is_pc() => status::write(e, d, rn),
        Op::ChangeState { imod, aif: 0b010, mode: None } if options.masks && imod & 2 != 0 => {
            status::mask_irq(e, d, imod & 1 != 0)
        }
        // CNTPCT and CNTVCT.
        Op::CoprocMove2 { load: true, coproc: 15, opc1: 0 | 1, crm: 14, rt, rt2 }
            if options.counter && !d.uncond && rt != rt2 && !rt.is_pc() && !rt2.is_pc() =>
        {
            coproc::counter(e, d, rt, rt2)
        }
        Op::VfpSystem { sysreg: 1, .. } => copy(e, d),
        Op::VfpSystem { load, sysreg: 8, rt } if options.fpexc && options.vfp && !rt.is_pc() => {
            coproc::vfp_enable(e, d, load, rt)
        }
        Op::VfpSystem { load: true, sysreg, rt }
            if options.vfp_ids && options.vfp && !rt.is_pc() && field::vfp_id(sysreg).is_some() =>
        {
            coproc::vfp_id(e, d, sysreg, rt)
        }
        Op::Plain
        | Op::MoveWide { .. }
        | Op::Exclusive
        | Op::Vfp
        | Op::VfpMem { .. }
        | Op::Divide
        | Op::Hint
        | Op::ClearExclusive
        | Op::DataSyncBarrier { .. }
        | Op::DataMemBarrier { .. } => copy(e, d),
        Op::InstrSyncBarrier { .. } => barrier(e, d),
        Op::Mrs { .. }
        | Op::MsrReg { .. }
        | Op::MsrImm { .. }
        | Op::ChangeState { .. }
        | Op::StoreReturnState { .. }
        | Op::WaitForInterrupt
        | Op::WaitForEvent
        | Op::CoprocMove2 { .. }
        | Op::CoprocData { .. }
        | Op::CoprocMem { .. }
        | Op::VfpSystem { .. }
        | Op::SecureMonitorCall { .. }
        | Op::SetEndian { .. } => emulate(e, d, false),
        Op::BranchJazelle { .. }
        | Op::SupervisorCall { .. }
        | Op::ReturnFromException { .. }
        | Op::Breakpoint { .. }
        | Op::HypervisorCall { .. }
        | Op::VirtExt
        | Op::Undefined
        | Op::Unpredictable => emulate(e, d, true),
    }
}

/// Whether what an A32 instruction is translated to may leave the block without a trap to the interpreter. Without a
/// condition, it ends the block then.
#[must_use]
pub fn may_leave(d: &Decoded) -> bool {
    match d.op {
        Op::DataProcessing { rd, .. } => rd.is_pc() && !is_test(d),
        Op::Mem(mem) => mem.load && mem.rt.is_pc(),
        Op::MemMultiple(mem) => mem.load && mem.regs & 0x8000 != 0,
        Op::Branch { .. } | Op::BranchLinkExchangeImm { .. } | Op::BranchExchange { .. } => true,
        _ => false,
    }
}

fn is_test(d: &Decoded) -> bool {
    matches!(d.op, Op::DataProcessing { op, .. } if op.is_test())
}

/// An innocuous instruction, as it is.
fn copy(e: &mut Emitter<'_>, d: &Decoded) -> Flow {
    e.emit(d.word);
    Flow::Continues
}

/// An ISB. What comes behind it is fetched anew, and may have been changed by the code before it: in a page whose code
/// is not kept, that is translated anew as well. In others nothing can be [joined](Emitter::join_next) across it that
/// changes.
fn barrier(e: &mut Emitter<'_>, d: &Decoded) -> Flow {
    e.emit(d.word);
    Flow::Splits
}

/// A trap to the interpreter, taken only where the condition holds; `leaves` where it never comes back to the next
/// instruction.
fn emulate(e: &mut Emitter<'_>, d: &Decoded, leaves: bool) -> Flow {
    let skip = e.begin_skip(d.cond);
    e.emulate(d.word);
    e.end_skip(skip);
    if leaves && skip.is_none() { Flow::Ends } else { Flow::Continues }
}

/// The lowest register that `used` (a bit per register) leaves free, SP apart.
fn scratch(used: u32) -> Reg {
    // No instruction names more than four registers, a block transfer goes through `scratch_above`.
    Reg::new((0..13).find(|n| used >> n & 1 == 0).unwrap_or(14))
}

/// A register, none of those that are `used`, that the guest's next instruction overwrites without having read it, or
/// the one behind an ISB, if nothing can come in between: no fault, and no other flow. The block goes on with that
/// instruction then.
fn free_register(e: &mut Emitter<'_>, options: &Options, used: u32) -> Option<Reg> {
    let next = match e.word_behind(1)? {
        ISB => e.word_behind(2)?,
        word => word,
    };
    let rd = overwritten(next, used)?;
    if is_thread_id(next) && !options.plain_registers {
        return None;
    }
    e.join_next(rd);
    Some(rd)
}

/// `ISB` of the full system (A8.8.53).
pub(crate) const ISB: u32 = 0xf57f_f06f;

/// The register, none of those that are `used`, that the instruction `word` overwrites without having read it, if it
/// cannot fault and is translated to one word.
pub(crate) fn overwritten(word: u32, used: u32) -> Option<Reg> {
    let decoded = spica_isa::decode(word);
    let (rd, read) = match decoded.op {
        Op::DataProcessing { op, rd, rn, op2, .. } if !op.is_test() => {
            let read = match op2 {
                Operand2::Imm(_) => 0,
                Operand2::Shifted { rm, .. } => bit(rm),
                Operand2::ShiftedByReg { rm, rs, .. } => bit(rm) | bit(rs),
            };
            (rd, read | if op.has_rn() { bit(rn) } else { 0 })
        }
        Op::CoprocMove { rt, .. } if is_thread_id(word) => (rt, 0),
        _ => return None,
    };
    let plain = decoded.cond == Cond::Al && rd.n() < 13 && read & bit(Reg::PC) == 0;
    (plain && (used | read) & bit(rd) == 0).then_some(rd)
}

/// `MRC p15, 0, Rt, c13, c0, 3`: TPIDRURO (B4.1.149), which is in the vCPU page.
const fn is_thread_id(word: u32) -> bool {
    word & 0xffff_0fff == 0xee1d_0f70
}

fn bit(reg: Reg) -> u32 {
    1 << reg.n()
}

/// Frees `reg`.
fn spill(e: &mut Emitter<'_>, cond: Cond, reg: Reg) {
    e.spill(cond, reg);
}

/// Gets `reg` back.
fn restore(e: &mut Emitter<'_>, cond: Cond, reg: Reg) {
    e.reload(cond, reg);
    e.set_undo(Undo::NONE);
}
