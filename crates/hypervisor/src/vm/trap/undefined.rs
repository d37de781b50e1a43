//! Undefined Instruction: VFP that is off for now, a generic timer that the host lacks, or the guest's own exception.

use spica_addr::{CachePc, GuestVa};
use spica_isa::{Cond, Decoded, Op};
use spica_mmu::{Access, AccessKind, translate};
use spica_vcpu::cp15::{TimerReg, timer_reg, timer_reg64};
use spica_vcpu::{Exception, psr};

use super::{indirect, locate};
use crate::engine::Engine;
use crate::host::Host;
use crate::host_cpu::{HostCpu, HostSpace};
use crate::machine::GuestMachine;
use crate::vm::{Resume, Stop, Vm, in_place, regime, vfp_enabled};
use crate::world::Privilege;

/// CNTKCTL.PL0PCTEN and PL0VCTEN: User mode may read the physical and the virtual counter, and with either CNTFRQ
/// (B4.1.26).
const PL0PCTEN: u64 = 1;
const PL0VCTEN: u64 = 2;

/// See the module's text.
pub fn handle(vm: &mut Vm, core: &mut HostCpu, host: &mut Host, privilege: Privilege) -> Resume {
    let cpu = &vm.vcpu.context.cpu;
    let pc = cpu.pc.wrapping_sub(if cpu.psr & psr::T != 0 { 2 } else { 4 });
    // The guest has VFP on and the core has it off: turn it on, and try again. Should the instruction be another one,
    // it comes back here with VFP on.
    if vfp_enabled(cpu, privilege) && vm.vcpu.core_state.enable_vfp() {
        vm.common.counters.vfp_switches += 1;
        return match privilege {
            Privilege::Kernel => Resume::Cache(CachePc(pc)),
            Privilege::User => Resume::Guest(GuestVa(pc)),
        };
    }
    if privilege == Privilege::User {
        if let Some(resume) = read_counter(vm, core.enter_host_space(), host, pc) {
            return resume;
        }
        vm.common.counters.undefined += 1;
        return vm.vcpu.take(Exception::Undefined { pc });
    }
    if vm.common.engine.blocks.is_in_mirror(pc) {
        vm.common.counters.mirror_misses += 1;
        return indirect::reflected(vm, pc);
    }
    if vm.common.engine.is_guest_address(CachePc(pc)) {
        return in_place::trapped(vm, core, host, GuestVa(pc));
    }
    vm.common.counters.undefined += 1;
    match locate::guest_pc(vm, core.enter_host_space(), CachePc(pc)) {
        Some(guest) => vm.vcpu.take(Exception::Undefined { pc: guest.0 }),
        None => Resume::Stop(Stop::WildJump(pc)),
    }
}

/// User code that reads a counter of the generic timer, as far as the guest permits it: the host has none.
fn read_counter(vm: &mut Vm, host_space: HostSpace<'_>, host: &mut Host, pc: u32) -> Option<Resume> {
    let (decoded, bytes) = fetch(vm, host_space, pc)?;
    let now = host.guest_now(vm.common.start);
    let machine = &mut vm.common.machine;
    let permitted = machine.timer_read(TimerReg::Cntkctl, now);
    let cpu = &mut vm.vcpu.context.cpu;
    // In an IT block the condition is in the PSR (A8.3.2).
    let it = cpu.psr >> 8 & 0xfc | cpu.psr >> 25 & 3;
    let cond = if cpu.psr & psr::T != 0 && it & 0xf != 0 { Cond::ALL[(it >> 4) as usize % 15] } else { decoded.cond };
    if !cond.holds(cpu.psr) {
        return None;
    }
    match decoded.op {
        Op::CoprocMove2 { load: true, coproc: 15, opc1, crm: 14, rt, rt2 } => {
            let (reg, needs) = match timer_reg64(opc1)? {
                TimerReg::Cntpct => (TimerReg::Cntpct, PL0PCTEN),
                TimerReg::Cntvct => (TimerReg::Cntvct, PL0VCTEN),
                _ => return None,
            };
            let value = machine.timer_read(reg, now);
            if permitted & needs == 0 || rt.is_pc() || rt2.is_pc() {
                return None;
            }
            cpu.regs[rt.n() as usize] = value as u32;
            cpu.regs[rt2.n() as usize] = (value >> 32) as u32;
        }
        Op::CoprocMove { load: true, reg, rt } if (reg.coproc, reg.opc1, reg.crn) == (15, 0, 14) => {
            if timer_reg(reg.crm, reg.opc2)? != TimerReg::Cntfrq || permitted & (PL0PCTEN | PL0VCTEN) == 0 || rt.is_pc()
            {
                return None;
            }
            cpu.regs[rt.n() as usize] = machine.timer_read(TimerReg::Cntfrq, now) as u32;
        }
        _ => return None,
    }
    cpu.psr = psr::advance_it(cpu.psr);
    Some(Resume::Guest(GuestVa(pc.wrapping_add(bytes))))
}

/// The instruction of user code at `pc`, and its length. Coprocessor instructions are encoded alike in T32 (A6.3.18)
/// and in A32 with the condition `AL`; other T32 instructions are not decoded.
pub fn fetch(vm: &Vm, host_space: HostSpace<'_>, pc: u32) -> Option<(Decoded, u32)> {
    let cpu = &vm.vcpu.context.cpu;
    let half = |va: u32| {
        let access = Access { kind: AccessKind::Fetch, privileged: false };
        let mapping = translate(&vm.common.ram.at(host_space), &regime(cpu), GuestVa(va), access).ok()?;
        vm.common.ram.load(host_space, mapping.pa, 2)
    };
    let (first, second) = (half(pc)?, half(pc.wrapping_add(2))?);
    if cpu.psr & psr::T == 0 {
        return Some((spica_isa::decode(second << 16 | first), 4));
    }
    (first >> 8 == 0b1110_1100 || first >> 8 == 0b1110_1110).then(|| (spica_isa::decode(first << 16 | second), 4))
}
