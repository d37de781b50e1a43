//! Aborts: entries that the shadow tables lack, devices, writes to code, and the guest's own faults.
//!
//! Functions that are never inlined mark what an abort turned out to be: `spica bench --events` counts their calls
//! (`parts::count!`).

use spica_addr::{CachePc, GuestPa, GuestVa};
use spica_isa::{Decoded, Op};
use spica_mmu::{AccessKind, Fault, FaultKind, Fill, View};
use spica_vcpu::interp::{self, Step};
use spica_vcpu::{Effect, Exception};

use super::{emulate, indirect, interrupt, locate, undefined};
use crate::arch::cp15::{Dfar, Dfsr, Ifar, Ifsr, SysRegRead};
use crate::engine::{Engine, KernelEngine};
use crate::host::Host;
use crate::host_cpu::{HostCpu, HostSpace};
use crate::machine::GuestMachine;
use crate::papers;
use crate::parts;
use crate::vm::env::TrapEnv;
use crate::vm::in_place;
use crate::vm::instruction::Instruction;
use crate::vm::user_code;
use crate::vm::watched;
use crate::vm::{Resume, Stop, Vm, regime};
use crate::world::Privilege;

/// Fault status, bits 10 and 3:0 of an FSR in the short-descriptor format (table B3-23).
fn status(fsr: u32) -> u32 {
    fsr >> 6 & 0x10 | fsr & 0xf
}

/// Whether a status is one that the shadow tables can be the cause of: translation, access flag, domain, permission.
fn is_mmu_fault(status: u32) -> bool {
    matches!(status, 0b00101 | 0b00111 | 0b00011 | 0b00110 | 0b01001 | 0b01011 | 0b01101 | 0b01111)
}

/// Whether an FSR says that the tables have no entry or do not permit the access: a translation or permission fault.
pub fn is_for_tables(fsr: u32) -> bool {
    // 0b00101, 0b00111, 0b01101, 0b01111.
    status(fsr) & !0b01010 == 0b00101
}

fn is_domain_fault(status: u32) -> bool {
    matches!(status, 0b01001 | 0b01011)
}

const ALIGNMENT: u32 = 0b00001;
const DEBUG_EVENT: u32 = 0b00010;

fn fill(vm: &mut Vm, host_space: HostSpace<'_>, view: View, va: GuestVa, kind: AccessKind) -> Fill {
    let regime = regime(&vm.vcpu.context.cpu);
    vm.vcpu.mmu.fill(&vm.common.ram.at(host_space), &regime, view, va, kind)
}

/// [`fill`] for a fetch of user code.
fn fetch(vm: &mut Vm, host_space: HostSpace<'_>, va: GuestVa) -> Fill {
    match fill(vm, host_space, View::User, va, AccessKind::Fetch) {
        Fill::Trapped(pa) => user_code::fetch(vm, host_space, va, pa),
        fill => fill,
    }
}

/// A data abort.
pub fn data(vm: &mut Vm, core: &mut HostCpu, host: &mut Host, privilege: Privilege) -> Resume {
    let (fsr, far) = (Dfsr::read_raw(), Dfar::read_raw());
    let write = fsr >> 11 & 1 != 0;
    let pc = vm.vcpu.context.cpu.pc;
    let again = match privilege {
        Privilege::Kernel => Resume::Cache(CachePc(pc)),
        Privilege::User => Resume::Guest(GuestVa(pc)),
    };
    match status(fsr) {
        ALIGNMENT
            if privilege == Privilege::Kernel && stands_for_another_at(vm, core.enter_host_space(), CachePc(pc)) =>
        {
            interpret(vm, core, host, CachePc(pc))
        }
        ALIGNMENT => deliver(vm, core, privilege, Fault::without_descriptor(FaultKind::Alignment), write, far),
        // A watchpoint is nothing that a guest could have set.
        s if !is_mmu_fault(s) => Resume::Stop(Stop::BadAbort { fsr, far }),
        _ => {
            let lazy =
                privilege == Privilege::Kernel && vm.vcpu.context.cpu.page.dacr_real != vm.vcpu.context.cpu.cp15.dacr;
            let view = privilege.view();
            let kind = if write { AccessKind::Write } else { AccessKind::Read };
            match fill(vm, core.enter_host_space(), view, GuestVa(far), kind) {
                Fill::Mapped => {
                    vm.common.counters.hidden_faults += 1;
                    if lazy && is_domain_fault(status(fsr)) {
                        // The bet that what the guest opened would not be used was lost.
                        vm.common.counters.lazy_openings += 1;
                        let site = CachePc(vm.vcpu.context.cpu.page.dacr_site);
                        vm.common.engine.blocks.make_dacr_eager(site);
                    }
                    again
                }
                _ if privilege == Privilege::Kernel
                    && stands_for_another_at(vm, core.enter_host_space(), CachePc(pc)) =>
                {
                    interpret(vm, core, host, CachePc(pc))
                }
                Fill::GuestFault(fault) => deliver(vm, core, privilege, fault, write, far),
                Fill::CodePageWrite(pa) | Fill::Device(pa) if vm.common.watches.has_page(pa) => {
                    watched::accessed(vm, core, host, (privilege, kind), pa)
                }
                Fill::CodePageWrite(pa) => match papers::write_to_table(vm, core, host, privilege, pa, far, again) {
                    Some(resume) => resume,
                    None => write_to_code(vm, core, host, privilege, (GuestVa(far), pa), again),
                },
                Fill::Device(pa) if privilege == Privilege::Kernel => {
                    note_device(vm, core.enter_host_space(), CachePc(pc), GuestVa(far), write);
                    emulate_access(vm, core, host, CachePc(pc), (GuestVa(far), pa), write, None)
                }
                Fill::Device(_) => match emulate_user_access(vm, core, host, pc) {
                    Some(resume) => resume,
                    None => deliver(vm, core, privilege, Fault::without_descriptor(FaultKind::External), write, far),
                },
                Fill::Region(pa) => in_region(vm, core, host, privilege, pa, far, write),
                Fill::KernelFetch(_) | Fill::Trapped(_) => Resume::Stop(Stop::BadAbort { fsr, far }),
                Fill::OutOfTables => Resume::Stop(Stop::OutOfTables),
            }
        }
    }
}

/// The word at `pc` reaches a device at `va`: where that can be remembered, it is.
fn note_device(vm: &mut Vm, host_space: HostSpace<'_>, pc: CachePc, va: GuestVa, write: bool) {
    let Vm { vcpu, common, .. } = vm;
    if common.switches.quick_mmio
        && let Some(word) = common.engine.word(pc)
    {
        let site = (pc, common.engine.generation(), word);
        vcpu.mmu.note_device((host_space, &common.ram), site, va, write, &regime(&vcpu.context.cpu));
    }
}

/// Whether a fault of an access of the translation of `instruction` need not be that of the instruction: the access
/// stands for cache maintenance by address, or is one of a transfer of User-mode registers, whose accesses come in
/// another order, or are those of instructions in System mode behind an `MSR` that leads there.
pub fn stands_for_another(instruction: &Instruction) -> bool {
    match instruction.op() {
        Some(Op::CoprocMove { load, .. }) => !load,
        Some(Op::MemMultiple(mem)) => mem.user,
        Some(Op::MsrReg { spsr, .. }) => !spsr,
        _ => false,
    }
}

/// The same, of the word at code-cache address `pc`.
fn stands_for_another_at(vm: &Vm, host_space: HostSpace<'_>, pc: CachePc) -> bool {
    locate::find(vm, host_space, pc).is_some_and(|(_, instruction)| stands_for_another(&instruction))
}

/// Interprets the guest's instruction that the word at `pc` belongs to, and goes on behind it.
fn interpret(vm: &mut Vm, core: &mut HostCpu, host: &mut Host, pc: CachePc) -> Resume {
    let Some((location, instruction)) = locate::find(vm, core.enter_host_space(), pc) else {
        return Resume::Stop(Stop::WildJump(pc.0));
    };
    let guest = locate::restore(vm, &location);
    emulate::instruction(vm, core, host, &instruction, guest, None)
}

/// An unprivileged access whose check is the trap at `svc`, and which follows it: if User mode may do it, it is done
/// with the kernel's rights; if not, or if it is no plain access to RAM, it is interpreted.
pub fn unprivileged(vm: &mut Vm, core: &mut HostCpu, host: &mut Host, svc: CachePc, kind: AccessKind) -> Resume {
    let va = vm.vcpu.context.cpu.page.target;
    // Not across the end of a page.
    if va & 0xfff <= 0xff0 && fill(vm, core.enter_host_space(), View::User, GuestVa(va), kind) == Fill::Mapped {
        return Resume::Back(svc.wrapping_add(4));
    }
    interpret(vm, core, host, svc)
}

/// ICIMVAU, whose trap is at `svc`, of an address that the kernel view lacks, or that is nothing for assembly: all
/// instructions are forgotten before user code runs.
pub fn forget_line(vm: &mut Vm, core: &mut HostCpu, host: &mut Host, svc: CachePc) -> Resume {
    vm.common.counters.lines += 1;
    interpret(vm, core, host, svc)
}

/// DCCMVAU, DCCMVAC or DCCIMVAC, whose trap is at `svc`, of an address that the kernel view lacks, or that is nothing
/// for assembly: it is interpreted, by the guest's own tables. The next one at this address need not come here, as far
/// as that can be: what the guest has there is mapped from now on, even in a domain that is closed to its kernel.
pub fn clean_line(vm: &mut Vm, core: &mut HostCpu, host: &mut Host, svc: CachePc) -> Resume {
    vm.common.counters.lines += 1;
    let host_space = core.enter_host_space();
    let Some((location, instruction)) = locate::find(vm, host_space, svc) else {
        return Resume::Stop(Stop::WildJump(svc.0));
    };
    let cpu = &vm.vcpu.context.cpu;
    let (va, regime) = (GuestVa(cpu.page.target), regime(cpu));
    // Whatever this answers, the instruction is not the access that it is about.
    let _ = vm.vcpu.mmu.fill_closed(&vm.common.ram.at(host_space), &regime, va);
    let guest = locate::restore(vm, &location);
    emulate::instruction(vm, core, host, &instruction, guest, Some(svc.wrapping_add(4)))
}

parts::count!(deliver, "trap.guest-abort");
/// The guest takes the abort.
#[inline(never)]
fn deliver(vm: &mut Vm, core: &mut HostCpu, privilege: Privilege, fault: Fault, write: bool, far: u32) -> Resume {
    vm.common.counters.guest_aborts += 1;
    let pc = vm.vcpu.context.cpu.pc;
    let pc = match privilege {
        Privilege::User => GuestVa(pc),
        Privilege::Kernel => match locate::guest_pc(vm, core.enter_host_space(), CachePc(pc)) {
            Some(guest) => guest,
            None => return Resume::Stop(Stop::WildJump(pc)),
        },
    };
    let fault = fault.under(&regime(&vm.vcpu.context.cpu));
    vm.vcpu.take(Exception::DataAbort { pc: pc.0, fsr: fault.fsr(write), far })
}

parts::count!(emulate_access, "trap.mmio");
/// A load or store of translated code that reached the device at `pa` by `va`: interpreted from the code cache, with
/// the registers that it has there (a spilled register may stand in for another). `known` is a page that it may reach,
/// and where that is.
#[inline(never)]
pub fn emulate_access(
    vm: &mut Vm,
    core: &mut HostCpu,
    host: &mut Host,
    pc: CachePc,
    (va, pa): (GuestVa, GuestPa),
    write: bool,
    known: Option<(GuestVa, GuestPa)>,
) -> Resume {
    let Some(word) = vm.common.engine.word(pc) else { return Resume::Stop(Stop::WildJump(pc.0)) };
    let decoded = spica_isa::decode(word);
    if !matches!(decoded.op, Op::Mem(_) | Op::MemMultiple(_)) {
        // Exclusives and VFP on a device: no bus supports it.
        return deliver(vm, core, Privilege::Kernel, Fault::without_descriptor(FaultKind::External), write, va.0);
    }
    if vm.common.machine.flash(pa).is_some()
        && let Some(code) = vm.common.engine.code_at(pc)
        && vm.common.machine.flash(vm.common.engine.source(code).1).is_some()
    {
        return flash_from_flash(vm, core, host, pc, code);
    }
    if let Some(resume) = interpret_in_cache(vm, core, host, pc, &decoded, known) {
        return resume;
    }
    // What the guest did to the device may have raised an interrupt.
    interrupt::leave_soon(vm, pc);
    Resume::Cache(pc.wrapping_add(4))
}

/// A load or store by which block `code`, made of flash, reaches flash. It may be what programs the block's own page,
/// or what another piece of that is erased with: what the block was made of is gone then, and with that where its words
/// come from. So the guest's instruction is interpreted, and a block that did not outlive it is left, as in
/// [`write_to_code`].
#[cold]
fn flash_from_flash(
    vm: &mut Vm,
    core: &mut HostCpu,
    host: &mut Host,
    pc: CachePc,
    code: <KernelEngine as Engine>::Code,
) -> Resume {
    let Some((location, instruction)) = locate::find(vm, core.enter_host_space(), pc) else {
        return Resume::Stop(Stop::WildJump(pc.0));
    };
    let copied = vm.common.engine.word(pc) == instruction.word();
    let guest = locate::restore(vm, &location);
    let (cpu, mut env) = TrapEnv::new(vm, core, host);
    match instruction.execute(cpu, &mut env, guest.0) {
        Step::Next(Effect::None) if copied && vm.common.engine.is_live(code) => {
            vm.vcpu.enter_block();
            interrupt::leave_soon(vm, pc);
            Resume::Cache(pc.wrapping_add(4))
        }
        Step::Next(Effect::None) => Resume::Guest(guest.wrapping_add(instruction.length())),
        Step::Branch(target) => vm.branch(target),
        Step::Abort(abort) => {
            vm.common.counters.guest_aborts += 1;
            vm.vcpu.take(Exception::DataAbort { pc: guest.0, fsr: abort.fsr, far: abort.far })
        }
        _ => Resume::Stop(Stop::WildJump(pc.0)),
    }
}

/// Interprets a load or store in the code cache, as it is there. `None` if it is done; else where the guest goes on.
fn interpret_in_cache(
    vm: &mut Vm,
    core: &mut HostCpu,
    host: &mut Host,
    pc: CachePc,
    decoded: &Decoded,
    known: Option<(GuestVa, GuestPa)>,
) -> Option<Resume> {
    let (cpu, env) = TrapEnv::new(vm, core, host);
    let mut env = TrapEnv { known, ..env };
    match interp::execute(cpu, &mut env, decoded, pc.0) {
        Step::Next(Effect::None) => None,
        Step::Abort(abort) => Some(match locate::guest_pc(vm, core.enter_host_space(), pc) {
            Some(guest) => {
                vm.common.counters.guest_aborts += 1;
                vm.vcpu.take(Exception::DataAbort { pc: guest.0, fsr: abort.fsr, far: abort.far })
            }
            None => Resume::Stop(Stop::WildJump(pc.0)),
        }),
        _ => Some(Resume::Stop(Stop::WildJump(pc.0))),
    }
}

/// A load or store to where Spica lives, which the guest's tables allow: what they map there is reached by emulation,
/// however slow, or not at all.
fn in_region(
    vm: &mut Vm,
    core: &mut HostCpu,
    host: &mut Host,
    privilege: Privilege,
    pa: GuestPa,
    far: u32,
    write: bool,
) -> Resume {
    let pc = vm.vcpu.context.cpu.pc;
    if write && vm.vcpu.mmu.shadow().is_code_page(pa) {
        let again = if privilege == Privilege::User { Resume::Guest(GuestVa(pc)) } else { Resume::Cache(CachePc(pc)) };
        return write_to_code(vm, core, host, privilege, (GuestVa(far), pa), again);
    }
    let resume = match privilege {
        Privilege::User => emulate_user_access(vm, core, host, pc),
        Privilege::Kernel => vm
            .common
            .engine
            .word(CachePc(pc))
            .is_some_and(|word| matches!(spica_isa::decode(word).op, Op::Mem(_) | Op::MemMultiple(_)))
            .then(|| emulate_access(vm, core, host, CachePc(pc), (GuestVa(far), pa), write, None)),
    };
    match resume {
        Some(resume) => resume,
        None if vm.common.ram.contains(pa) || vm.common.machine.has_device(pa) => {
            Resume::Stop(Stop::RegionMapped(GuestVa(far)))
        }
        None => deliver(vm, core, privilege, Fault::without_descriptor(FaultKind::External), write, far),
    }
}

parts::count!(emulate_user_access, "trap.mmio");
/// A load or store of user code that reached a device. `None` if it is not one of A32's: for a device, an
/// external abort is then what a bus gives for an access that it does not support.
#[inline(never)]
pub fn emulate_user_access(vm: &mut Vm, core: &mut HostCpu, host: &mut Host, pc: u32) -> Option<Resume> {
    let (decoded, bytes) = undefined::fetch(vm, core.enter_host_space(), pc)?;
    let allowed = match decoded.op {
        Op::Mem(_) => true,
        Op::MemMultiple(mem) => !mem.user,
        _ => false,
    };
    if !allowed {
        return None;
    }
    let (cpu, mut env) = TrapEnv::new(vm, core, host);
    match interp::execute(cpu, &mut env, &decoded, pc) {
        Step::Next(_) => Some(Resume::Guest(GuestVa(pc.wrapping_add(bytes)))),
        Step::Branch(target) => Some(vm.vcpu.branch(target)),
        Step::Abort(abort) => {
            vm.common.counters.guest_aborts += 1;
            Some(vm.vcpu.take(Exception::DataAbort { pc, fsr: abort.fsr, far: abort.far }))
        }
        _ => None,
    }
}

parts::count!(write_to_code, "trap.protected-write");
/// A write to a page from which code was translated.
///
/// A store of one register by other kernel code is interpreted, as one that reaches a device is: what goes is up to
/// [`Common::code_is_stored_to`](crate::vm::Common::code_is_stored_to), and the page stays protected, as a rule. After
/// any other write, several words are to be expected: all of the page's code goes, and it becomes writable.
///
/// If the block writes to its own page, the guest's store is interpreted. Does the block itself go with that, it is
/// left, and a new one begins behind the store: its words are not those any more by which a fault in it could be
/// located.
#[inline(never)]
fn write_to_code(
    vm: &mut Vm,
    core: &mut HostCpu,
    host: &mut Host,
    privilege: Privilege,
    (va, pa): (GuestVa, GuestPa),
    again: Resume,
) -> Resume {
    let pc = CachePc(vm.vcpu.context.cpu.pc);
    let own = privilege == Privilege::Kernel
        && vm.common.engine.code_at(pc).is_some_and(|code| vm.common.engine.source(code).1.page() == pa.page());
    if !own {
        // One that crosses the end of a page may write to the block's own page as well.
        let within = (8..=0xff8).contains(&va.page_offset());
        let store = if within && privilege == Privilege::Kernel { vm.common.engine.word(pc) } else { None };
        if let Some(store) = store.map(spica_isa::decode).filter(|decoded| matches!(decoded.op, Op::Mem(_))) {
            let known = Some((va.page(), pa.page()));
            let done = interpret_in_cache(vm, core, host, pc, &store, known);
            return done.unwrap_or(Resume::Back(pc.wrapping_add(4)));
        }
        vm.code_changes(pa);
        return again;
    }
    let (Some(code), Some((location, instruction))) =
        (vm.common.engine.code_at(pc), locate::find(vm, core.enter_host_space(), pc))
    else {
        return Resume::Stop(Stop::WildJump(pc.0));
    };
    let copied = vm.common.engine.word(pc) == instruction.word();
    let guest = locate::restore(vm, &location);
    if !instruction.is_transfer() {
        // Exclusives and VFP: executed natively, in a page that is not protected from now on.
        vm.code_changes(pa);
        vm.common.wrote_to_itself(&mut vm.vcpu.mmu, pa, true);
        return Resume::Guest(guest);
    }
    let (cpu, mut env) = TrapEnv::new(vm, core, host);
    let step = instruction.execute(cpu, &mut env, guest.0);
    if copied && step == Step::Next(Effect::None) && vm.common.engine.is_live(code) {
        vm.vcpu.enter_block();
        return Resume::Back(pc.wrapping_add(4));
    }
    vm.common.wrote_to_itself(&mut vm.vcpu.mmu, pa, false);
    match step {
        Step::Next(_) => Resume::Guest(guest.wrapping_add(instruction.length())),
        Step::Abort(abort) => {
            vm.common.counters.guest_aborts += 1;
            vm.vcpu.take(Exception::DataAbort { pc: guest.0, fsr: abort.fsr, far: abort.far })
        }
        _ => Resume::Stop(Stop::WildJump(pc.0)),
    }
}

/// A prefetch abort.
pub fn prefetch(vm: &mut Vm, core: &mut HostCpu, host: &mut Host, privilege: Privilege) -> Resume {
    let (fsr, far) = (Ifsr::read_raw(), Ifar::read_raw());
    let pc = vm.vcpu.context.cpu.pc;
    if privilege == Privilege::Kernel && !vm.common.engine.blocks.is_in_mirror(pc) && vm.common.engine.runs_in_place() {
        return match status(fsr) {
            // BKPT (C3.1).
            DEBUG_EVENT => in_place::trapped(vm, core, host, GuestVa(pc)),
            ALIGNMENT => deliver_fetch(vm, ALIGNMENT, far),
            s if !is_mmu_fault(s) => Resume::Stop(Stop::BadAbort { fsr, far }),
            _ => in_place::fetch(vm, GuestVa(pc)),
        };
    }
    if privilege == Privilege::Kernel {
        // Direct branches of translated code lead into the cache, so it was one through the return mirror.
        vm.common.counters.mirror_misses += 1;
        return indirect::reflected(vm, pc);
    }
    match status(fsr) {
        // BKPT in user code (C3.1).
        DEBUG_EVENT => match vm.user_breakpoint(core) {
            Some(resume) => resume,
            None => deliver_fetch(vm, DEBUG_EVENT, pc),
        },
        // A branch of A32 code to an odd half-word, UNPREDICTABLE (A2.3.1), aborts on some cores.
        ALIGNMENT => deliver_fetch(vm, ALIGNMENT, far),
        s if !is_mmu_fault(s) => Resume::Stop(Stop::BadAbort { fsr, far }),
        _ => match fetch(vm, core.enter_host_space(), GuestVa(far)) {
            Fill::Mapped => {
                vm.common.counters.hidden_faults += 1;
                Resume::Guest(GuestVa(pc))
            }
            Fill::GuestFault(fault) => deliver_fetch(vm, fault.ifsr(), far),
            Fill::Device(pa) if vm.common.watches.has_page(pa) => {
                watched::accessed(vm, core, host, (privilege, AccessKind::Fetch), pa)
            }
            Fill::Device(_) => {
                let fault = Fault::without_descriptor(FaultKind::External).under(&regime(&vm.vcpu.context.cpu));
                deliver_fetch(vm, fault.ifsr(), far)
            }
            // Nothing is there that could be executed, whoever lives at the address.
            Fill::Region(pa) if !vm.common.ram.contains(pa) => {
                deliver_fetch(vm, Fault::without_descriptor(FaultKind::External).ifsr(), far)
            }
            Fill::Region(_) => Resume::Stop(Stop::RegionMapped(GuestVa(far))),
            Fill::CodePageWrite(_) | Fill::KernelFetch(_) | Fill::Trapped(_) => {
                Resume::Stop(Stop::BadAbort { fsr, far })
            }
            Fill::OutOfTables => Resume::Stop(Stop::OutOfTables),
        },
    }
}

parts::count!(deliver_fetch, "trap.guest-abort");
/// The guest takes the prefetch abort.
#[inline(never)]
fn deliver_fetch(vm: &mut Vm, fsr: u32, far: u32) -> Resume {
    vm.common.counters.guest_aborts += 1;
    let pc = vm.vcpu.context.cpu.pc;
    vm.vcpu.take(Exception::PrefetchAbort { pc, fsr, far })
}
