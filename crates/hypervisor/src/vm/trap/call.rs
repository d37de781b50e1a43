//! Supervisor calls: system calls of the guest's user code, and the exits of translated code.

use spica_addr::{CachePc, GuestVa};
use spica_dbt::trap;
use spica_isa::t32::{self, Code, ItState};
use spica_mmu::AccessKind;
use spica_vcpu::{Exception, psr};

use super::{abort, emulate, indirect, interrupt, timer};
use crate::engine::Engine;
use crate::engine::blocks::From;
use crate::host::Host;
use crate::host_cpu::HostCpu;
use crate::papers;
use crate::vm::counters::Class;
use crate::vm::in_place;
use crate::vm::instruction::Instruction;
use crate::vm::{Resume, Stop, Vm};

/// SVC from the guest's user code: its system call.
pub fn from_user(vm: &mut Vm) -> Resume {
    vm.common.counters.user_calls += 1;
    let cpu = &vm.vcpu.context.cpu;
    let pc = cpu.pc.wrapping_sub(if cpu.psr & psr::T != 0 { 2 } else { 4 });
    vm.vcpu.take(Exception::SupervisorCall { pc })
}

/// SVC from translated code. What is read here may be forged by a guest that jumps into the middle of a code page: see
/// [`spica_dbt::trap`].
// What follows has much to keep; a branch that is not linked has nothing.
#[inline]
pub fn from_kernel(vm: &mut Vm, core: &mut HostCpu, host: &mut Host) -> Resume {
    let behind = CachePc(vm.vcpu.context.cpu.pc);
    let svc = CachePc(behind.0.wrapping_sub(4));
    if vm.common.engine.is_guest_address(svc) && vm.vcpu.context.cpu.psr & psr::T == 0 {
        return in_place::replaced(vm, core, host, GuestVa(svc.0));
    }
    let wild = Resume::Stop(Stop::WildJump(svc.0));
    // Zero is no SVC. Behind one, it is as good as any other word that a guest makes up: it stands for what the guest
    // could have executed or branched to anyway.
    let [word, first, second] = vm.common.engine.blocks.words(svc);
    if vm.vcpu.context.cpu.psr & psr::T != 0 || word >> 24 & 0xf != 0xf || word >> 28 == 0xf {
        return wild;
    }
    let number = trap::number(word);
    if number == trap::LINK && !vm.common.engine.blocks.links() {
        // Which exit it is does not matter: a forged one leads to where the guest could have branched.
        vm.common.counters.links += 1;
        return vm.branch(first);
    }
    answer(vm, core, host, behind, [word, first, second])
}

/// `WFI` without a condition (A8.8.425).
const WFI: u32 = 0xe320_f003;

/// Answers the trap of the `SVC` in front of `behind`: that, and the two words there.
fn answer(vm: &mut Vm, core: &mut HostCpu, host: &mut Host, behind: CachePc, words: [u32; 3]) -> Resume {
    let svc = CachePc(behind.0.wrapping_sub(4));
    let wild = Resume::Stop(Stop::WildJump(svc.0));
    let [word, first, second] = words;
    match trap::number(word) {
        number if number & !0xf == trap::CLOSED => indirect::closed(vm, svc),
        trap::CLOSED_RETURN => papers::closed_return(vm, svc),
        trap::LINK => {
            let Some(exit) = vm.common.engine.blocks.exit(svc) else { return wild };
            vm.common.counters.links += 1;
            if let Some(entry) = vm.link_known(exit, GuestVa(first)) {
                return Resume::Back(entry);
            }
            let target = vm.vcpu.leave_block(GuestVa(first), ItState::OUTSIDE);
            // While an interrupt waits for the end of this block, exits stay as they are: the block is left here.
            if vm.interrupt_deliverable() { Resume::Guest(target) } else { Resume::Led(target, From::Exit(exit)) }
        }
        trap::INDIRECT => {
            vm.common.counters.indirect += 1;
            let target = vm.vcpu.context.cpu.page.target;
            vm.note_kernel(GuestVa(target));
            vm.branch(target)
        }
        trap::EXCEPTION_RETURN => {
            vm.common.counters.emulated[Class::ExceptionReturn as usize] += 1;
            let cpu = &mut vm.vcpu.context.cpu;
            let (target, spsr) = (cpu.page.target, cpu.page.spsr);
            cpu.set_cpsr(spsr);
            Resume::Guest(GuestVa(target & if spsr & psr::T != 0 { !1 } else { !3 }))
        }
        trap::UNPRIVILEGED_LOAD => abort::unprivileged(vm, core, host, svc, AccessKind::Read),
        trap::UNPRIVILEGED_STORE => abort::unprivileged(vm, core, host, svc, AccessKind::Write),
        trap::CLEAN_LINE => {
            let cpu = &mut vm.vcpu.context.cpu;
            if trap::is_line_at_r12(word) {
                cpu.page.target = cpu.regs[12];
            }
            abort::clean_line(vm, core, host, svc)
        }
        trap::FORGET_LINE => abort::forget_line(vm, core, host, svc),
        trap::TLB_PAGE => emulate::invalidate_pages(vm, core, 1, behind),
        trap::TLB_RANGE => {
            let rounds = emulate::do_rounds(&mut vm.vcpu.context.cpu, word);
            emulate::invalidate_pages(vm, core, rounds, behind)
        }
        trap::TTBR0 | trap::CONTEXTIDR => emulate::switch_space(vm, core, word & 0xff == trap::TTBR0, behind),
        trap::COUNTER => {
            vm.common.counters.emulated[Class::Coprocessor as usize] += 1;
            let now = host.guest_now(vm.common.start);
            vm.vcpu.context.cpu.page.counter = [now as u32, (now >> 32) as u32];
            Resume::Back(behind)
        }
        // The value was taken over before the trap got here: see `super::handle`.
        trap::DACR | trap::VFP => Resume::Cache(behind),
        trap::SAMPLE => {
            vm.sample(core, behind);
            Resume::Back(behind)
        }
        trap::CHECK => {
            vm.check_access(core, behind, word);
            Resume::Back(behind)
        }
        trap::HOOK => {
            vm.at_hook(core, behind, trap::hook_number(word));
            Resume::Back(behind)
        }
        trap::EMULATE => {
            let next = behind.wrapping_add(4 * trap::EMULATE_LITERALS);
            if let Some(resume) = timer::write(vm, host, first, GuestVa(second), next) {
                return resume;
            }
            if first == WFI {
                return emulate::sleep(vm, first, GuestVa(second));
            }
            if let Some(resume) = interrupt::unmasked(vm, core, host, first, GuestVa(second)) {
                return resume;
            }
            let instruction = Instruction::A32(spica_isa::decode(first));
            emulate::instruction(vm, core, host, &instruction, GuestVa(second), Some(next))
        }
        trap::EMULATE_T32 => {
            let next = behind.wrapping_add(4 * trap::EMULATE_LITERALS);
            let it = trap::it_state(word);
            let halves = if first >> 16 == 0 { [first, 0] } else { [first >> 16, first] };
            let [one, other] = halves.map(|half| half as u16);
            let instruction = Instruction::T32(t32::decode(Code::new(one, other), it));
            let pc = vm.vcpu.leave_block(GuestVa(second | 1), it);
            emulate::instruction(vm, core, host, &instruction, pc, Some(next))
        }
        trap::IN_IT => {
            vm.common.counters.links += 1;
            Resume::Guest(vm.vcpu.leave_block(GuestVa(first | 1), trap::it_state(word)))
        }
        _ => wild,
    }
}
