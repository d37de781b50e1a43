//! The interpreter: executes one guest instruction that must not run natively.
//!
//! Translated code traps here for every sensitive instruction that has no inlined translation, for branches that are
//! not linked, and for loads and stores to emulated devices. The caller has checked the condition and passes the
//! instruction's own address; the interpreter changes the virtual CPU only when the instruction completes, so that an
//! abort leaves the state as before it (base restored, B1.9.8).

use crate::Cpu;
use crate::alu;
use crate::cp15::{Effect, ReadResult, TimerReg, WriteResult, timer_reg64};
use crate::psr::{self, Mode};
use spica_isa::{Decoded, Mem, MemMultiple, MemSize, Offset, Op, Reg, t32};

/// A guest access that aborted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Abort {
    /// DFSR.
    pub fsr: u32,
    /// DFAR.
    pub far: u32,
}

/// What the interpreter needs of the world: guest memory by guest virtual address, and the generic timer.
pub trait Env {
    /// Loads `bytes` (1, 2 or 4) at `va`, with privileged or user permissions.
    ///
    /// # Errors
    /// The abort that the guest must see.
    fn load(&mut self, cpu: &mut Cpu, va: u32, bytes: u32, privileged: bool) -> Result<u32, Abort>;
    /// Stores the low `bytes` of `value` at `va`.
    ///
    /// # Errors
    /// The abort that the guest must see.
    fn store(&mut self, cpu: &mut Cpu, va: u32, bytes: u32, value: u32, privileged: bool) -> Result<(), Abort>;
    /// Reads a register of the generic timer.
    fn timer_read(&mut self, reg: TimerReg) -> u64;
    /// Writes a register of the generic timer.
    fn timer_write(&mut self, reg: TimerReg, value: u64);
}

/// What comes after an interpreted instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// The next instruction, after this effect.
    Next(Effect),
    /// A branch; bit 0 set selects Thumb state.
    Branch(u32),
    /// An exception return or other change of mode happened; execution goes on at this address (in the state and mode
    /// that the CPSR now has).
    Return(u32),
    /// Undefined Instruction.
    Undefined,
    /// Supervisor Call.
    SupervisorCall,
    /// Secure Monitor Call: the guest's firmware interface.
    SecureMonitorCall,
    /// A data abort.
    Abort(Abort),
    /// BKPT: a prefetch abort with a debug event's status (C3.1).
    Breakpoint,
    /// Wait for interrupt; then the next instruction.
    Wait,
}

/// Where an instruction is, and what it reads as its PC.
#[derive(Clone, Copy)]
struct At {
    /// The PC as an operand (A2.3).
    operand: u32,
    /// The next instruction.
    behind: u32,
    /// The return address of a call: in Thumb state, with bit 0 set.
    link: u32,
}

/// Executes `d`, which lies at `pc` and whose condition holds, in A32 state. In User mode, of loads and stores only:
/// all else that traps from there is an exception of the guest's.
pub fn execute(cpu: &mut Cpu, env: &mut impl Env, d: &Decoded, pc: u32) -> Step {
    let behind = pc.wrapping_add(4);
    execute_at(cpu, env, d, At { operand: pc.wrapping_add(8), behind, link: behind })
}

/// The same in Thumb state. CPSR.T and ITSTATE of `cpu` are as the guest has them at the instruction; ITSTATE is
/// advanced where the instruction completes, or is an SVC (B1.9.4), and the caller has not to do that again.
pub fn execute_t32(cpu: &mut Cpu, env: &mut impl Env, d: &t32::Decoded, pc: u32) -> Step {
    let behind = pc.wrapping_add(d.code.length());
    let at = At { operand: pc.wrapping_add(4), behind, link: behind | 1 };
    let psr = cpu.psr;
    let step = match d.op {
        // ADD and MOV to the PC stay in Thumb state (A2.3.2).
        t32::Op::A32(same) => match (execute_at(cpu, env, &same, at), same.op) {
            (Step::Branch(target), Op::DataProcessing { .. }) => Step::Branch(target | 1),
            (step, _) => step,
        },
        t32::Op::Mem(mem) => single(cpu, env, &mem, at),
        t32::Op::MemDual(m) => dual(cpu, env, &m, at),
        t32::Op::TableBranch { half, rn, rm } => {
            let (bytes, shift) = if half { (2, 1) } else { (1, 0) };
            let index = cpu.regs[rm.n() as usize % 15];
            let address = read_reg(cpu, rn, at).wrapping_add(index << shift);
            let privileged = cpu.privileged();
            match env.load(cpu, address, bytes, privileged) {
                Ok(value) => Step::Branch(at.operand.wrapping_add(2 * value) | 1),
                Err(abort) => Step::Abort(abort),
            }
        }
        t32::Op::LoadExclusive { rt, rt2: Some(rt2), rn, .. } => load_exclusive(cpu, env, rt, rt2, rn),
        t32::Op::StoreExclusive { rd, rt, rt2: Some(rt2), rn, .. } => store_exclusive(cpu, env, rd, [rt, rt2], rn),
        t32::Op::Hint | t32::Op::IfThen(_) | t32::Op::ThumbEe { enter: false } => Step::Next(Effect::None),
        // Branches with offsets and data processing are never trapped for.
        _ => Step::Undefined,
    };
    match step {
        // Exceptions that are taken at the instruction, and returns, which have an ITSTATE of their own.
        Step::Undefined | Step::Abort(_) | Step::Breakpoint => {}
        Step::Return(_) if returns_from_exception(d) => {}
        _ => cpu.psr = cpu.psr & !psr::IT | psr::advance_it(psr) & psr::IT,
    }
    step
}

/// Whether an instruction takes a new CPSR from elsewhere.
fn returns_from_exception(d: &t32::Decoded) -> bool {
    match d.op {
        t32::Op::A32(same) => {
            !matches!(same.op, Op::ChangeState { .. } | Op::SetEndian { .. } | Op::MsrReg { .. } | Op::MsrImm { .. })
        }
        _ => false,
    }
}

/// LDRD of any two registers (A8.8.72, A8.8.73), or STRD (A8.8.210).
fn dual(cpu: &mut Cpu, env: &mut impl Env, m: &t32::MemDual, at: At) -> Step {
    let privileged = cpu.privileged();
    let base = read_base(cpu, m.rn, at);
    let offset = u32::from(m.offset);
    let moved = if m.add { base.wrapping_add(offset) } else { base.wrapping_sub(offset) };
    let address = if m.pre { moved } else { base };
    if let Err(abort) = aligned(address, !m.load) {
        return Step::Abort(abort);
    }
    let second = address.wrapping_add(4);
    if m.load {
        let loaded = env.load(cpu, address, 4, privileged);
        match loaded.and_then(|low| env.load(cpu, second, 4, privileged).map(|high| (low, high))) {
            Err(abort) => return Step::Abort(abort),
            Ok((low, high)) => {
                if m.writeback {
                    set_reg(cpu, m.rn, moved);
                }
                set_reg(cpu, m.rt, low);
                set_reg(cpu, m.rt2, high);
            }
        }
    } else {
        let (low, high) = (read_reg(cpu, m.rt, at), read_reg(cpu, m.rt2, at));
        let stored = env.store(cpu, address, 4, low, privileged);
        if let Err(abort) = stored.and_then(|()| env.store(cpu, second, 4, high, privileged)) {
            return Step::Abort(abort);
        }
        if m.writeback {
            set_reg(cpu, m.rn, moved);
        }
    }
    Step::Next(Effect::None)
}

/// Doublewords are exclusive in units of their own size (A3.4.1, A3.2.1).
fn doubleword(address: u32, write: bool) -> Result<(), Abort> {
    aligned(if address & 4 == 0 { address } else { address | 1 }, write)
        .map_err(|abort| Abort { far: address, ..abort })
}

/// LDREXD of any two registers. What is loaded is remembered: see [`Cpu::exclusive`].
fn load_exclusive(cpu: &mut Cpu, env: &mut impl Env, rt: Reg, rt2: Reg, rn: Reg) -> Step {
    let (address, privileged) = (cpu.regs[rn.n() as usize % 15], cpu.privileged());
    let loaded = doubleword(address, false)
        .and_then(|()| env.load(cpu, address, 4, privileged))
        .and_then(|low| env.load(cpu, address.wrapping_add(4), 4, privileged).map(|high| [low, high]));
    match loaded {
        Err(abort) => Step::Abort(abort),
        Ok([low, high]) => {
            cpu.exclusive = Some((address, [low, high]));
            set_reg(cpu, rt, low);
            set_reg(cpu, rt2, high);
            Step::Next(Effect::None)
        }
    }
}

/// STREXD of any two registers.
fn store_exclusive(cpu: &mut Cpu, env: &mut impl Env, rd: Reg, [rt, rt2]: [Reg; 2], rn: Reg) -> Step {
    let (address, privileged) = (cpu.regs[rn.n() as usize % 15], cpu.privileged());
    let (low, high) = (cpu.regs[rt.n() as usize % 15], cpu.regs[rt2.n() as usize % 15]);
    let second = address.wrapping_add(4);
    let same = doubleword(address, true)
        .and_then(|()| env.load(cpu, address, 4, privileged))
        .and_then(|low| env.load(cpu, second, 4, privileged).map(|high| (address, [low, high])));
    let stored = match same {
        Ok(now) if cpu.exclusive == Some(now) => env
            .store(cpu, address, 4, low, privileged)
            .and_then(|()| env.store(cpu, second, 4, high, privileged))
            .map(|()| true),
        Ok(_) => Ok(false),
        // It stores, or would have.
        Err(abort) => Err(Abort { fsr: abort.fsr | 1 << 11, ..abort }),
    };
    match stored {
        Err(abort) => Step::Abort(abort),
        Ok(stored) => {
            cpu.exclusive = None;
            set_reg(cpu, rd, u32::from(!stored));
            Step::Next(Effect::None)
        }
    }
}

fn execute_at(cpu: &mut Cpu, env: &mut impl Env, d: &Decoded, at: At) -> Step {
    match d.op {
        Op::DataProcessing { op, s, rd, rn, op2 } => {
            let carry = cpu.psr >> 29 & 1 != 0;
            let read = |r: Reg| read_reg(cpu, r, at);
            let value = alu::result(op, read(rn), alu::operand2(op2, carry, &read), carry);
            match (rd.is_pc(), s) {
                (true, true) => exception_return(cpu, value, cpu.page.spsr),
                (true, false) => Step::Branch(value),
                // Flags of ordinary data processing are the real core's business.
                _ => Step::Undefined,
            }
        }
        Op::Branch { link, offset } => {
            if link {
                cpu.regs[14] = at.link;
            }
            Step::Branch(at.operand.wrapping_add(offset as u32))
        }
        Op::BranchLinkExchangeImm { offset } => {
            cpu.regs[14] = at.link;
            Step::Branch((at.operand & !3).wrapping_add(offset as u32) | 1)
        }
        Op::BranchExchange { link, rm } => {
            let target = read_reg(cpu, rm, at);
            if link {
                cpu.regs[14] = at.link;
            }
            Step::Branch(target)
        }
        // Without Jazelle, and with JMCR.JE = 0, BXJ is BX (A2.10.2).
        Op::BranchJazelle { rm } => Step::Branch(read_reg(cpu, rm, at)),
        Op::SupervisorCall { .. } => Step::SupervisorCall,
        // As QEMU's `virt` has it without firmware of its own: HVC calls it, too, from privileged modes (B9.3.4).
        Op::SecureMonitorCall { .. } => Step::SecureMonitorCall,
        Op::HypervisorCall { .. } if cpu.privileged() => Step::SecureMonitorCall,
        Op::Mrs { spsr, rd } => {
            // MRS of the CPSR reads IT, J, T as zero (B9.3.8).
            let value = if spsr { cpu.page.spsr } else { cpu.cpsr() & !(psr::IT | psr::J | psr::T) };
            cpu.regs[rd.n() as usize % 15] = value;
            Step::Next(Effect::None)
        }
        Op::MsrReg { spsr, mask, rn } => write_psr(cpu, spsr, mask, read_reg(cpu, rn, at), at),
        Op::MsrImm { spsr, mask, imm } => write_psr(cpu, spsr, mask, imm.value(), at),
        Op::ChangeState { imod, aif, mode } => {
            let which = u32::from(aif & 7) << 6;
            match imod {
                2 => cpu.set_masks(0, which),
                3 => cpu.set_masks(which, which),
                _ => {}
            }
            if let Some(mode) = mode.and_then(|m| Mode::from_bits(u32::from(m))) {
                cpu.change_mode(mode);
            }
            Step::Return(at.behind)
        }
        Op::SetEndian { big } => {
            cpu.psr = cpu.psr & !psr::E | if big { psr::E } else { 0 };
            Step::Return(at.behind)
        }
        Op::StoreReturnState { before, increment, writeback, mode } => {
            let Some(mode) = Mode::from_bits(u32::from(mode)) else { return Step::Undefined };
            let base = cpu.sp_of(mode);
            let address = block_start(base, 2, before, increment);
            let (lr, spsr) = (cpu.regs[14], cpu.page.spsr);
            if let Err(abort) = aligned(address, true)
                .and_then(|()| env.store(cpu, address, 4, lr, true))
                .and_then(|()| env.store(cpu, address.wrapping_add(4), 4, spsr, true))
            {
                return Step::Abort(abort);
            }
            if writeback {
                cpu.set_sp_of(mode, block_end(base, 2, increment));
            }
            Step::Next(Effect::None)
        }
        Op::ReturnFromException { before, increment, writeback, rn } => {
            let base = read_reg(cpu, rn, at);
            let address = block_start(base, 2, before, increment);
            let loaded = aligned(address, false)
                .and_then(|()| env.load(cpu, address, 4, true))
                .and_then(|pc| env.load(cpu, address.wrapping_add(4), 4, true).map(|psr| (pc, psr)));
            match loaded {
                Err(abort) => Step::Abort(abort),
                Ok((target, new_psr)) => {
                    if writeback {
                        cpu.regs[rn.n() as usize % 15] = block_end(base, 2, increment);
                    }
                    exception_return(cpu, target, new_psr)
                }
            }
        }
        Op::Mem(mem) => single(cpu, env, &mem, at),
        Op::MemMultiple(mem) => transfer_multiple(cpu, env, &mem, at),
        // MCR2, MRC2, MCRR2 and MRRC2 reach neither CP14 nor CP15.
        Op::CoprocMove { .. } | Op::CoprocMove2 { .. } if d.uncond => Step::Undefined,
        Op::CoprocMove { load: true, reg, rt } => {
            let value = match cpu.cp15.read(&cpu.id, reg, cpu.page.tpidruro, cpu.page.tpidrprw) {
                ReadResult::Value(value) => value,
                ReadResult::Timer(reg) => env.timer_read(reg) as u32,
                ReadResult::Undefined => return Step::Undefined,
            };
            if rt.is_pc() {
                cpu.psr = cpu.psr & 0x0fff_ffff | value & 0xf000_0000;
            } else {
                cpu.regs[rt.n() as usize] = value;
            }
            Step::Next(Effect::None)
        }
        Op::CoprocMove { load: false, reg, rt } => {
            let value = read_reg(cpu, rt, at);
            match (reg.coproc, reg.crn, reg.opc1, reg.crm, reg.opc2) {
                (15, 13, 0, 0, 3) => {
                    cpu.page.tpidruro = value;
                    return Step::Next(Effect::ThreadIdReadOnly(value));
                }
                (15, 13, 0, 0, 4) => {
                    cpu.page.tpidrprw = value;
                    return Step::Next(Effect::None);
                }
                _ => {}
            }
            match cpu.cp15.write(&cpu.id, reg, value) {
                WriteResult::Done(effect) => {
                    cpu.show();
                    Step::Next(effect)
                }
                WriteResult::Timer(reg) => {
                    env.timer_write(reg, u64::from(value));
                    Step::Next(Effect::None)
                }
                WriteResult::Undefined => Step::Undefined,
            }
        }
        Op::CoprocMove2 { load, coproc: 15, opc1, crm: 14, rt, rt2 } => {
            let Some(reg) = timer_reg64(opc1) else { return Step::Undefined };
            if load {
                let value = env.timer_read(reg);
                cpu.regs[rt.n() as usize % 15] = value as u32;
                cpu.regs[rt2.n() as usize % 15] = (value >> 32) as u32;
            } else {
                let value = u64::from(read_reg(cpu, rt, at)) | u64::from(read_reg(cpu, rt2, at)) << 32;
                match reg {
                    TimerReg::Cntpct | TimerReg::Cntvct => return Step::Undefined,
                    reg => env.timer_write(reg, value),
                }
            }
            Step::Next(Effect::None)
        }
        Op::CoprocMove2 { load: true, coproc: 15, opc1, crm, rt, rt2 } => {
            let Some([high, low]) = cpu.cp15.read_wide(&cpu.id, opc1, crm) else { return Step::Undefined };
            cpu.regs[rt.n() as usize % 15] = low;
            cpu.regs[rt2.n() as usize % 15] = high;
            Step::Next(Effect::None)
        }
        Op::CoprocMove2 { load: false, coproc: 15, opc1, crm, rt, rt2 } => {
            let value = [read_reg(cpu, rt2, at), read_reg(cpu, rt, at)];
            match cpu.cp15.write_wide(&cpu.id, opc1, crm, value) {
                Some(effect) => {
                    cpu.show();
                    Step::Next(effect)
                }
                None => Step::Undefined,
            }
        }
        Op::VfpSystem { load, sysreg, rt } => vfp_system(cpu, load, sysreg, rt),
        Op::WaitForInterrupt => Step::Wait,
        Op::Breakpoint { .. } => Step::Breakpoint,
        // One processor: the event that WFE waits for may always have happened already (B1.8.13).
        Op::WaitForEvent
        | Op::Hint
        | Op::ClearExclusive
        | Op::DataSyncBarrier { .. }
        | Op::DataMemBarrier { .. }
        | Op::InstrSyncBarrier { .. }
        | Op::Preload { .. } => Step::Next(Effect::None),
        // Everything else has no business here: unallocated, UNPREDICTABLE, absent extensions and coprocessors.
        _ => Step::Undefined,
    }
}

fn read_reg(cpu: &Cpu, reg: Reg, at: At) -> u32 {
    if reg.is_pc() { at.operand } else { cpu.regs[reg.n() as usize] }
}

/// The base register of a load or store: a PC is aligned.
fn read_base(cpu: &Cpu, reg: Reg, at: At) -> u32 {
    if reg.is_pc() { at.operand & !3 } else { cpu.regs[reg.n() as usize] }
}

/// Transfers of several words have to be word-aligned, whatever SCTLR.A says (A3.2.1): an alignment fault if not.
fn aligned(address: u32, write: bool) -> Result<(), Abort> {
    const ALIGNMENT: u32 = 0b00001;
    if address & 3 == 0 { Ok(()) } else { Err(Abort { fsr: u32::from(write) << 11 | ALIGNMENT, far: address }) }
}

/// The lowest address of a block transfer of `words` (A8.8.58 and its siblings).
fn block_start(base: u32, words: u32, before: bool, increment: bool) -> u32 {
    match (increment, before) {
        (true, false) => base,
        (true, true) => base.wrapping_add(4),
        (false, false) => base.wrapping_sub(4 * words).wrapping_add(4),
        (false, true) => base.wrapping_sub(4 * words),
    }
}

fn block_end(base: u32, words: u32, increment: bool) -> u32 {
    if increment { base.wrapping_add(4 * words) } else { base.wrapping_sub(4 * words) }
}

/// An exception return (B1.9.2): CPSR from `new_psr`, PC from `target`, aligned for the new instruction set.
fn exception_return(cpu: &mut Cpu, target: u32, new_psr: u32) -> Step {
    cpu.set_cpsr(new_psr);
    Step::Return(target & if new_psr & psr::T != 0 { !1 } else { !3 })
}

fn write_psr(cpu: &mut Cpu, spsr: bool, mask: u8, value: u32, at: At) -> Step {
    if spsr {
        let bytes = (0..4).filter(|n| mask >> n & 1 != 0).fold(0, |m, n| m | 0xff << (8 * n));
        cpu.page.spsr = cpu.page.spsr & !bytes | value & bytes;
        return Step::Next(Effect::None);
    }
    cpu.write_cpsr_fields(value, mask);
    Step::Return(at.behind)
}

/// VMRS and VMSR of the registers that unprivileged code cannot reach (B4.1.57, B4.1.58, B9.3.25); FPSCR as well, for
/// code that traps because VFP is off.
fn vfp_system(cpu: &mut Cpu, load: bool, sysreg: u8, rt: Reg) -> Step {
    // cp10 access: 0b00 denies, 0b01 allows privileged code (B4.1.40).
    if cpu.cp15.cpacr >> 20 & 3 == 0 {
        return Step::Undefined;
    }
    let rt = rt.n() as usize;
    if rt == 15 {
        return Step::Undefined;
    }
    match (load, sysreg) {
        (true, 0) => cpu.regs[rt] = cpu.id.fpsid,
        (true, 6) => cpu.regs[rt] = cpu.id.mvfr[1],
        (true, 7) => cpu.regs[rt] = cpu.id.mvfr[0],
        (true, 8) => cpu.regs[rt] = cpu.cp15.fpexc,
        (false, 8) => {
            cpu.cp15.fpexc = cpu.regs[rt] & crate::cp15::FPEXC_EN;
            cpu.show();
            return Step::Next(Effect::Vfp);
        }
        // FPINST and FPINST2 do not exist on cores that never bounce; FPSID is read-only.
        (false, 0) | (_, 9 | 10) => {}
        _ => return Step::Undefined,
    }
    Step::Next(Effect::None)
}

/// A single load or store.
fn single(cpu: &mut Cpu, env: &mut impl Env, mem: &Mem, at: At) -> Step {
    let privileged = !mem.unprivileged && cpu.privileged();
    match transfer(cpu, env, mem, at, privileged) {
        Ok(None) => Step::Next(Effect::None),
        Ok(Some(target)) => Step::Branch(target),
        Err(abort) => Step::Abort(abort),
    }
}

/// A single load or store, in full. `Ok(Some(target))` is a load of the PC.
fn transfer(cpu: &mut Cpu, env: &mut impl Env, mem: &Mem, at: At, privileged: bool) -> Result<Option<u32>, Abort> {
    let base = read_base(cpu, mem.rn, at);
    let carry = cpu.psr >> 29 & 1 != 0;
    let offset = match mem.offset {
        Offset::Imm(imm) => u32::from(imm),
        Offset::Reg { rm, shift, amount } => {
            alu::operand2(spica_isa::Operand2::Shifted { rm, shift, amount }, carry, &|r| read_reg(cpu, r, at))
        }
    };
    let moved = if mem.add { base.wrapping_add(offset) } else { base.wrapping_sub(offset) };
    let address = if mem.pre { moved } else { base };
    let (bytes, sign) = match mem.size {
        MemSize::Word | MemSize::Dual => (4, 0),
        MemSize::Byte => (1, 0),
        MemSize::Half => (2, 0),
        MemSize::SignedByte => (1, 24),
        MemSize::SignedHalf => (2, 16),
    };
    let dual = mem.size == MemSize::Dual;
    if dual {
        aligned(address, !mem.load)?;
    }
    let second = Reg::new(mem.rt.n() + 1);
    let mut branch = None;
    if mem.load {
        let value = env.load(cpu, address, bytes, privileged)?;
        let value = ((value << sign) as i32 >> sign) as u32;
        let high = if dual { Some(env.load(cpu, address.wrapping_add(4), 4, privileged)?) } else { None };
        if mem.writeback {
            set_reg(cpu, mem.rn, moved);
        }
        if mem.rt.is_pc() {
            branch = Some(value);
        } else {
            set_reg(cpu, mem.rt, value);
        }
        if let Some(high) = high {
            set_reg(cpu, second, high);
        }
    } else {
        let value = read_reg(cpu, mem.rt, at);
        env.store(cpu, address, bytes, value, privileged)?;
        if dual {
            let high = read_reg(cpu, second, at);
            env.store(cpu, address.wrapping_add(4), 4, high, privileged)?;
        }
        if mem.writeback {
            set_reg(cpu, mem.rn, moved);
        }
    }
    Ok(branch)
}

fn set_reg(cpu: &mut Cpu, reg: Reg, value: u32) {
    if !reg.is_pc() {
        cpu.regs[reg.n() as usize] = value;
    }
}

/// The numbers of the bits that are set, from the lowest on.
fn set_bits(mut bits: u16) -> impl Iterator<Item = usize> + Clone {
    core::iter::from_fn(move || {
        let lowest = (bits != 0).then(|| bits.trailing_zeros() as usize);
        bits &= bits.wrapping_sub(1);
        lowest
    })
}

/// LDM and STM in all their forms (A8.8.58 to 61, A8.8.199 to 202, B9.3.5, B9.3.6, B9.3.17).
fn transfer_multiple(cpu: &mut Cpu, env: &mut impl Env, mem: &MemMultiple, at: At) -> Step {
    let privileged = cpu.privileged();
    let words = mem.regs.count_ones();
    let loads_pc = mem.load && mem.regs & 0x8000 != 0;
    let user_bank = mem.user && !loads_pc;
    let base = read_reg(cpu, mem.rn, at);
    let mut address = block_start(base, words, mem.before, mem.increment);
    let end = block_end(base, words, mem.increment);
    if let Err(abort) = aligned(address, !mem.load) {
        return Step::Abort(abort);
    }
    let listed = set_bits(mem.regs);
    if mem.load {
        let mut values = [0u32; 16];
        for n in listed.clone() {
            match env.load(cpu, address, 4, privileged) {
                Ok(value) => values[n] = value,
                Err(abort) => return Step::Abort(abort),
            }
            address = address.wrapping_add(4);
        }
        if mem.writeback {
            set_reg(cpu, mem.rn, end);
        }
        for n in listed.filter(|&n| n < 15) {
            if user_bank {
                cpu.set_user_reg(n, values[n]);
            } else {
                cpu.regs[n] = values[n];
            }
        }
        return match (loads_pc, mem.user) {
            (true, true) => exception_return(cpu, values[15], cpu.page.spsr),
            (true, false) => Step::Branch(values[15]),
            _ => Step::Next(Effect::None),
        };
    }
    for n in listed {
        let value = match n {
            15 => at.operand,
            n if user_bank => cpu.user_reg(n),
            n => cpu.regs[n],
        };
        if let Err(abort) = env.store(cpu, address, 4, value, privileged) {
            return Step::Abort(abort);
        }
        address = address.wrapping_add(4);
    }
    if mem.writeback {
        set_reg(cpu, mem.rn, end);
    }
    Step::Next(Effect::None)
}
