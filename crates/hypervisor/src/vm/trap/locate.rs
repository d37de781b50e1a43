//! From an address in the code cache to the guest instruction that it stands for, with the guest's registers as they
//! were before it (STAR §3.7.1).

use spica_addr::{CachePc, GuestVa};
use spica_dbt::Location;
use spica_dbt::at::{address, is_thumb};
use spica_vcpu::psr;

use crate::engine::Engine;
use crate::host_cpu::HostSpace;
use crate::papers;
use crate::vm::Vm;
use crate::vm::instruction::Instruction;

/// Where the word at code-cache address `pc` comes from, and the guest's instruction there. `None` if `pc` is in no
/// live block: only a wild jump gets there.
pub fn find(vm: &Vm, host_space: HostSpace<'_>, pc: CachePc) -> Option<(Location, Instruction)> {
    let engine = &vm.common.engine;
    let code = engine.code_at(pc).filter(|&code| engine.is_live(code))?;
    let (_, pa) = engine.source(code);
    let words = vm.common.source_words(host_space, pa)?;
    let location = engine.locate(code, pc, words)?;
    Some((location, Instruction::of(&location, words, engine.next_page_of(code))))
}

/// The guest's PC where the core was left at `pc`, in translated code. `None` if that is not where it was.
pub fn guest_pc_of(vm: &Vm, host_space: HostSpace<'_>, pc: CachePc) -> Option<GuestVa> {
    find(vm, host_space, pc).map(|(location, _)| location.guest)
}

/// Puts the guest's registers and its state right for an exception at `location`, and returns the guest's own PC.
pub fn restore(vm: &mut Vm, location: &Location) -> GuestVa {
    if let Some((reg, place)) = location.undo.spilled {
        vm.vcpu.context.cpu.regs[reg.n() as usize % 15] = papers::spilled(vm, place);
    }
    let cpu = &mut vm.vcpu.context.cpu;
    if let Some(reg) = location.undo.beside {
        cpu.regs[reg.n() as usize % 15] = cpu.page.spill[1];
    }
    if let Some((reg, by)) = location.undo.adjust {
        let reg = &mut cpu.regs[reg.n() as usize % 15];
        *reg = reg.wrapping_add(by);
    }
    if is_thumb(location.guest) {
        cpu.psr |= psr::T | location.it.to_psr();
    }
    address(location.guest)
}

/// Both of these.
pub fn guest_pc(vm: &mut Vm, host_space: HostSpace<'_>, pc: CachePc) -> Option<GuestVa> {
    let (location, _) = find(vm, host_space, pc)?;
    Some(restore(vm, &location))
}
