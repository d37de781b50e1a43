//! The guest's user code under a debugger: its breakpoints ([`super::mmu::user_breakpoints`]), and its execution
//! instruction by instruction.
//!
//! A single step is done here, as far as it is a branch, a load or a store that the interpreter knows, or an
//! instruction whose condition does not hold. All else is executed natively, and leads to an exception or behind it,
//! where a BKPT ends the step. Interrupts of the guest wait meanwhile, so nobody else executes user code.

use spica_addr::{GuestPa, GuestVa};
use spica_dbt::at::address;
use spica_isa::{Op, t32};
use spica_mmu::{Access, AccessKind, Fill, lookup, translate};
use spica_vcpu::interp::Step;
use spica_vcpu::{Exception, psr};

use super::env::TrapEnv;
use super::instruction::Instruction;
use super::watched::of_user;
use super::{Resume, Vm, regime};
use crate::host::Host;
use crate::host_cpu::{HostCpu, HostSpace};

/// User code fetches an instruction at `va`, from a trapped page, which the guest has at `pa` and may execute.
#[cold]
pub fn fetch(vm: &mut Vm, host_space: HostSpace<'_>, va: GuestVa, pa: GuestPa) -> Fill {
    let Vm { vcpu, common, .. } = vm;
    let cpu = &mut vcpu.context.cpu;
    vcpu.mmu.protect_code_page(pa);
    let Some(page) = common.ram.page(host_space, pa) else { return Fill::Device(pa) };
    let Some((code, new)) = vcpu.mmu.copy_user_code((va, pa), cpu.cp15.ttbr0, page) else { return Fill::OutOfTables };
    if new {
        // Other instructions were there before.
        cpu.page.stale_code = 1;
    }
    vcpu.mmu.fill_trapped(&common.ram.at(host_space), &regime(cpu), va, code)
}

impl Vm {
    /// User code has executed a BKPT. Where the guest goes on, if that is none of its own.
    pub(super) fn user_breakpoint(&mut self, core: &mut HostCpu) -> Option<Resume> {
        let at = self.user_entry();
        if self.vcpu.mmu.user_code.ends_at(at) {
            return Some(Resume::Guest(address(at)));
        }
        if !self.vcpu.mmu.user_code.has(at) {
            return None;
        }
        let host_space = core.enter_host_space();
        let access = Access { kind: AccessKind::Fetch, privileged: false };
        let mapping = translate(&self.common.ram.at(host_space), &regime(&self.vcpu.context.cpu), address(at), access);
        let page = self.common.ram.page(host_space, mapping.ok()?.pa)?;
        let ours = self.vcpu.mmu.user_code.is_in(at, page);
        ours.then(|| Resume::Stop(self.at_breakpoint(at)))
    }

    /// Where user code is, with the state in bit 0.
    pub(super) fn user_entry(&self) -> GuestVa {
        let cpu = &self.vcpu.context.cpu;
        GuestVa(cpu.pc & !1 | u32::from(cpu.psr & psr::T != 0))
    }

    /// Sets a breakpoint for user code.
    ///
    /// # Errors
    /// If there can be none.
    pub(super) fn set_user_breakpoint(&mut self, core: &mut HostCpu, at: GuestVa) -> Result<(), &'static str> {
        let Vm { vcpu, common, .. } = self;
        let host_space = core.enter_host_space();
        let cpu = &vcpu.context.cpu;
        let mapping = lookup(&common.ram.at(host_space), &regime(cpu), address(at));
        let page = mapping.ok().and_then(|mapping| common.ram.page(host_space, mapping.pa));
        vcpu.mmu.set_user_breakpoint(at, cpu.cp15.ttbr0, page)
    }
}

/// Whether a step of it is done by the interpreter.
fn is_interpreted(instruction: &Instruction) -> bool {
    match (instruction.op(), instruction) {
        (Some(Op::Mem(mem)), _) => !mem.unprivileged,
        // With `^`, it is UNPREDICTABLE.
        (Some(Op::MemMultiple(mem)), _) => !mem.user,
        (
            Some(
                Op::Branch { .. }
                | Op::BranchLinkExchangeImm { .. }
                | Op::BranchExchange { .. }
                | Op::BranchJazelle { .. },
            ),
            _,
        ) => true,
        (Some(Op::DataProcessing { op, s: false, rd, .. }), _) => rd.is_pc() && !op.is_test(),
        (None, Instruction::T32(t32::Decoded { op, .. })) => {
            matches!(op, t32::Op::Mem(_) | t32::Op::MemDual(_) | t32::Op::TableBranch { .. })
        }
        _ => false,
    }
}

/// Where a branch of T32 with an offset leads, from `pc`, and whether it leaves a return address.
fn offset_branch(decoded: &t32::Decoded, pc: u32, regs: &[u32]) -> Option<(u32, bool)> {
    let operand = pc.wrapping_add(4);
    match decoded.op {
        t32::Op::Branch { link, offset } => Some((operand.wrapping_add(offset as u32) | 1, link)),
        t32::Op::BranchLinkExchangeImm { offset } => Some(((operand & !3).wrapping_add(offset as u32), true)),
        t32::Op::CompareBranch { nonzero, rn, offset } => {
            let branches = (regs.get(rn.n() as usize) != Some(&0)) == nonzero;
            let behind = pc.wrapping_add(decoded.code.length());
            Some((if branches { operand.wrapping_add(u32::from(offset)) } else { behind } | 1, false))
        }
        _ => None,
    }
}

impl Vm {
    /// Begins a single step of user code at `pc`, and ends it, if it is done here: then, where the guest goes on. If
    /// not, user code is to be run until it is elsewhere.
    ///
    /// # Errors
    /// If there is no memory.
    pub(super) fn begin_user_step(
        &mut self,
        core: &mut HostCpu,
        host: &mut Host,
        pc: GuestVa,
    ) -> Result<Option<Resume>, &'static str> {
        // If it cannot be fetched, the guest takes the abort.
        let Some(instruction) = of_user(self, core.enter_host_space(), pc.0) else { return Ok(None) };
        let behind = pc.wrapping_add(instruction.length());
        let cpu = &mut self.vcpu.context.cpu;
        let cond = match instruction {
            Instruction::A32(decoded) => decoded.cond,
            Instruction::T32(decoded) => decoded.cond,
        };
        if !cond.holds(cpu.psr) {
            cpu.psr = psr::advance_it(cpu.psr);
            return Ok(Some(Resume::Guest(behind)));
        }
        if let Instruction::T32(decoded) = &instruction
            && let Some((target, link)) = offset_branch(decoded, pc.0, &cpu.regs)
        {
            cpu.psr = psr::advance_it(cpu.psr);
            if link {
                cpu.regs[14] = behind.0 | 1;
            }
            return Ok(Some(self.vcpu.branch(target)));
        }
        if is_interpreted(&instruction) {
            let (cpu, mut env) = TrapEnv::new(self, core, host);
            match instruction.execute(cpu, &mut env, pc.0) {
                Step::Next(_) => return Ok(Some(Resume::Guest(behind))),
                Step::Branch(target) => return Ok(Some(self.vcpu.branch(target))),
                Step::Abort(abort) => {
                    self.common.counters.guest_aborts += 1;
                    let exception = Exception::DataAbort { pc: pc.0, fsr: abort.fsr, far: abort.far };
                    return Ok(Some(self.vcpu.take(exception)));
                }
                // It changed nothing.
                _ => {}
            }
        }
        let state = u32::from(instruction.is_thumb());
        let step = (GuestVa(pc.0 | state), GuestVa(behind.0 | state));
        self.vcpu.mmu.step_user_code(Some(step)).map(|()| None)
    }
}
