//! Emulation of one guest instruction, and of what it asks for beyond the virtual CPU: MMU, caches, firmware.

use spica_addr::{CachePc, GuestPa, GuestVa};
use spica_dbt::trap::{tlb_range_registers, tlb_range_rounds};
use spica_isa::Decoded;
use spica_machine::psci::PsciResult;
use spica_mmu::{Access, AccessKind, Fault, FaultKind, PageSize, translate};
use spica_vcpu::cp15::{LineOp, TlbOp};
use spica_vcpu::interp::Step;
use spica_vcpu::psr::Mode;
use spica_vcpu::{Cpu, Effect, Exception, psr};

use crate::arch::cache;
use crate::engine::Engine;
use crate::fault;
use crate::host::Host;
use crate::host_cpu::{HostCpu, HostSpace};
use crate::machine::GuestMachine;
use crate::papers;
use crate::vm::counters::Class;
use crate::vm::env::TrapEnv;
use crate::vm::events::What;
use crate::vm::in_place;
use crate::vm::instruction::Instruction;
use crate::vm::{Resume, Stop, Vm, regime};
use crate::world::announced_line;

/// Emulates the instruction at guest address `pc`, in whose state the virtual CPU is; the block goes on at `next`, or
/// ends.
pub fn instruction(
    vm: &mut Vm,
    core: &mut HostCpu,
    host: &mut Host,
    instruction: &Instruction,
    pc: GuestVa,
    next: Option<CachePc>,
) -> Resume {
    let resume = execute(vm, core, host, instruction, pc, next);
    if instruction.is_thumb() && matches!(resume, Resume::Cache(_) | Resume::Back(_)) {
        vm.vcpu.enter_block();
    }
    resume
}

/// [`instruction`] for a `WFI` at `pc`, which each sleep of a kernel begins with: it need not be decoded.
pub fn sleep(vm: &mut Vm, word: u32, pc: GuestVa) -> Resume {
    let class = Class::Sleep;
    vm.common.counters.emulated[class as usize] += 1;
    vm.vcpu.events.note(What::Interpreted { class, word, pc: pc.0 });
    vm.common.counters.waits += 1;
    Resume::Wait(pc.wrapping_add(4))
}

fn execute(
    vm: &mut Vm,
    core: &mut HostCpu,
    host: &mut Host,
    instruction: &Instruction,
    pc: GuestVa,
    next: Option<CachePc>,
) -> Resume {
    let decoded = instruction.a32();
    let class = Class::of(decoded);
    vm.common.counters.emulated[class as usize] += 1;
    vm.vcpu.events.note(What::Interpreted { class, word: decoded.word, pc: pc.0 });
    let version = vm.common.engine.version();
    let (cpu, mut env) = TrapEnv::new(vm, core, host);
    let step = instruction.execute(cpu, &mut env, pc.0);
    let behind = pc.wrapping_add(instruction.length());
    let back = next.map_or(Resume::Guest(behind), Resume::Back);
    if step == Step::Next(Effect::None) && concerns_registers_alone(decoded) {
        return back;
    }
    match step {
        Step::Next(effect) => match apply(vm, core, effect) {
            Ok(Stay::Yes) if vm.common.engine.version() == version && !vm.interrupt_deliverable() => match next {
                Some(_) if writes_timer(decoded) => {
                    vm.note_interrupts();
                    back
                }
                Some(next) if concerns_world(effect) => Resume::Cache(next),
                _ => back,
            },
            Ok(Stay::Waits) => {
                vm.common.counters.waits += 1;
                Resume::Wait(behind)
            }
            Ok(Stay::Regime) => vm.look_for_ttbr(Resume::Guest(behind)),
            Ok(_) => Resume::Guest(behind),
            Err(After::Abort { fsr, far }) => {
                vm.common.counters.guest_aborts += 1;
                vm.vcpu.take(Exception::DataAbort { pc: pc.0, fsr, far })
            }
            Err(After::Stop(stop)) => Resume::Stop(stop),
        },
        Step::Branch(target) => vm.branch(target),
        Step::Return(target) => {
            let cpu = &vm.vcpu.context.cpu;
            let stays = target == behind.0
                && cpu.privileged()
                && cpu.mode() != Mode::Fiq
                && cpu.psr & psr::E == 0
                && (cpu.psr & psr::T != 0) == instruction.is_thumb()
                && !vm.interrupt_deliverable()
                && falls_through(decoded);
            if stays { back } else { Resume::Guest(GuestVa(target)) }
        }
        Step::Undefined => {
            vm.common.counters.undefined += 1;
            vm.vcpu.take(Exception::Undefined { pc: pc.0 })
        }
        Step::SupervisorCall => match in_place::original(vm, instruction) {
            // Which is no `SVC`, and may have a condition. A block ends with an `SVC`: nothing follows there.
            Some(original) if original.a32().cond.holds(vm.vcpu.context.cpu.psr) => {
                execute(vm, core, host, &original, pc, None)
            }
            Some(_) => Resume::Guest(behind),
            None => vm.vcpu.take(Exception::SupervisorCall { pc: pc.0 }),
        },
        Step::SecureMonitorCall => firmware(vm, behind),
        Step::Abort(abort) => {
            vm.common.counters.guest_aborts += 1;
            vm.vcpu.take(Exception::DataAbort { pc: pc.0, fsr: abort.fsr, far: abort.far })
        }
        Step::Breakpoint => {
            let fault = Fault::without_descriptor(FaultKind::Debug);
            vm.vcpu.take(Exception::PrefetchAbort { pc: pc.0, fsr: fault.ifsr(), far: pc.0 })
        }
        Step::Wait => {
            vm.common.counters.waits += 1;
            Resume::Wait(behind)
        }
    }
}

/// Whether an instruction that was executed can have changed nothing but core registers and the SPSR.
fn concerns_registers_alone(d: &Decoded) -> bool {
    use spica_isa::Op;
    matches!(
        d.op,
        Op::CoprocMove { load: true, .. }
            | Op::CoprocMove2 { load: true, .. }
            | Op::Mrs { .. }
            | Op::MsrReg { spsr: true, .. }
            | Op::MsrImm { spsr: true, .. }
    )
}

/// Whether an instruction writes to the generic timer (CP15 c14): then nothing else can have changed but interrupts
/// that wait.
fn writes_timer(d: &Decoded) -> bool {
    use spica_isa::Op;
    match d.op {
        Op::CoprocMove { load: false, reg, .. } => (reg.coproc, reg.crn) == (15, 14),
        Op::CoprocMove2 { load: false, coproc: 15, crm: 14, .. } => true,
        _ => false,
    }
}

/// Whether what the guest's kernel needs of the real core, or interrupts that wait, may be others after an effect was
/// carried out. User code gets its thread ID when it is entered.
const fn concerns_world(effect: Effect) -> bool {
    !matches!(
        effect,
        Effect::ThreadIdReadOnly(_)
            | Effect::ThreadIdReadWrite(_)
            | Effect::InstructionCache(_)
            | Effect::BranchPredictor
            | Effect::DataCache(..)
            | Effect::DataCacheBySet
            | Effect::Translate { .. }
    )
}

/// Whether the block has code behind the instruction: CPS, MSR and SETEND, not the exception returns, which end it.
fn falls_through(d: &Decoded) -> bool {
    use spica_isa::Op;
    matches!(d.op, Op::ChangeState { .. } | Op::MsrReg { .. } | Op::MsrImm { .. } | Op::SetEndian { .. })
}

/// Whether the block may go on.
enum Stay {
    Yes,
    /// No: the translation regime has changed.
    Regime,
    /// No, and the guest waits for an interrupt.
    Waits,
}

/// What else can come of an effect.
enum After {
    Abort { fsr: u32, far: u32 },
    Stop(Stop),
}

/// Carries out what a CP15 write asks for.
fn apply(vm: &mut Vm, core: &mut HostCpu, effect: Effect) -> Result<Stay, After> {
    let Vm { vcpu, common, .. } = vm;
    let cpu = &mut vcpu.context.cpu;
    match effect {
        Effect::None | Effect::ThreadIdReadOnly(_) => {}
        // The real state follows at the next entry (`Vm::prepare`).
        Effect::Mirror | Effect::Vectors => vcpu.mmu.make_stale(),
        Effect::Vfp => {
            vcpu.mmu.make_stale();
            if common.engine.set_vfp(cpu.cp15.cpacr >> 20 & 3 != 0) {
                common.code_is_gone(&mut vcpu.mmu);
            }
        }
        Effect::Regime => {
            vm.regime_changed(core).map_err(After::Stop)?;
            return Ok(Stay::Regime);
        }
        Effect::Dacr { old } => domains_changed(vm, core, old),
        Effect::Tlb(op) => invalidate_tlb(vm, core, op, 1),
        // Translated code needs neither: its sources are write-protected. User code runs from the real caches.
        Effect::InstructionCache(_) => cache::invalidate_instructions(),
        Effect::BranchPredictor => cache::invalidate_branch_predictor(),
        // The guest's caches have one set of one way (`vm::load::cpu_id`): whoever cleans that means all.
        Effect::DataCacheBySet => cache::clean_all_to_pou(),
        Effect::DataCache(op, va) => {
            let host_space = core.enter_host_space();
            match spica_mmu::lookup(&common.ram.at(host_space), &regime(cpu), GuestVa(va)) {
                Ok(mapping) => clean(vm, host_space, op, mapping.pa),
                // An operation by address takes translation faults, which are reported as writes (B3.12.3).
                Err(fault) => return Err(After::Abort { fsr: fault.fsr(true), far: va }),
            }
        }
        Effect::Translate { va, privileged, write } => {
            let kind = if write { AccessKind::Write } else { AccessKind::Read };
            let memory = common.ram.at(core.enter_host_space());
            let regime = regime(cpu);
            cpu.cp15.tops[2] = 0;
            // PAR in the short-descriptor format (B4.1.112): PA with SS for supersections, or the fault status and F.
            cpu.cp15.par = match translate(&memory, &regime, GuestVa(va), Access { kind, privileged }) {
                // In the other format: bit 11 says so, and the status has six bits.
                Ok(mapping) if regime.is_long() => mapping.pa.0 & 0xffff_f000 | 1 << 11 | 1 << 9,
                Err(fault) if regime.is_long() && fault.kind != FaultKind::ExternalOnWalk => {
                    1 << 11 | (fault.ifsr() & 0x3f) << 1 | 1
                }
                Ok(mapping) if mapping.size == PageSize::Super16M => mapping.pa.0 & 0xff00_0000 | 1 << 1,
                Ok(mapping) => mapping.pa.0 & 0xffff_f000,
                // The only fault that is taken instead of being put into PAR (B3.13.1).
                Err(fault) if fault.kind == FaultKind::ExternalOnWalk => {
                    return Err(After::Abort { fsr: fault.fsr(false), far: va });
                }
                Err(fault) => {
                    let status = fault.ifsr();
                    (status >> 10 & 1) << 5 | (status & 0xf) << 1 | 1
                }
            };
        }
        Effect::ThreadIdReadWrite(value) if vcpu.context.lends_thread_id() => {
            vcpu.context.cpu.page.tpidrurw = value;
        }
        Effect::ThreadIdReadWrite(value) => vcpu.core_state.set_thread_id_read_write(value),
        Effect::WaitForInterrupt => return Ok(Stay::Waits),
    }
    Ok(Stay::Yes)
}

/// A write to TTBR0, or else to CONTEXTIDR, of a value that is in the vCPU page; the block goes on at `next`.
pub fn switch_space(vm: &mut Vm, core: &mut HostCpu, ttbr0: bool, next: CachePc) -> Resume {
    vm.common.counters.emulated[Class::Coprocessor as usize] += 1;
    let cpu = &mut vm.vcpu.context.cpu;
    let (value, cp15) = (cpu.page.target, &mut cpu.cp15);
    *(if ttbr0 { &mut cp15.ttbr0 } else { &mut cp15.contextidr }) = value;
    cpu.show();
    match vm.regime_changed(core) {
        Ok(()) => {
            super::leave_soon(vm, next);
            vm.look_for_ttbr(Resume::Cache(next))
        }
        Err(stop) => Resume::Stop(stop),
    }
}

/// DACR changed from `old`. The real one follows at the next entry.
pub fn domains_changed(vm: &mut Vm, core: &mut HostCpu, old: u32) {
    let vcpu = &mut vm.vcpu;
    let new = vcpu.context.cpu.cp15.dacr;
    // A domain that becomes manager, or stops being one, costs all entries; so does domain 15, which has none of its
    // own.
    if regime(&vcpu.context.cpu).mmu_on() && (manager(old) != manager(new) || (old ^ new) >> 30 != 0) {
        vcpu.mmu.set_dacr(core.enter_host_space(), new);
        // What the handlers in assembly know of User mode's was right for the entries that are gone.
        vcpu.context.user.guest_dacr = !new;
        // So was what they know of two values of DACR.
        vcpu.mmu.make_stale();
    }
}

/// The domains that are manager, a bit each in the even positions.
fn manager(dacr: u32) -> u32 {
    dacr & dacr >> 1 & 0x5555_5555
}

/// Rounds of a loop over pages that are done at once, at most: what waits meanwhile, an interrupt of another guest for
/// example, does not wait for long.
const ROUNDS: u32 = 32;

/// The guest's loop over pages that invalidates the page in the vCPU page, whose registers the trap's `word` names,
/// goes on as after so many rounds as this answers: see [`spica_dbt::trap::tlb_range`]. All are of one megabyte.
pub fn do_rounds(cpu: &mut Cpu, word: u32) -> u32 {
    let (page, end) = tlb_range_registers(word);
    let first = cpu.page.target;
    let rounds = tlb_range_rounds(first, cpu.regs[end]).min(ROUNDS);
    cpu.regs[page] = first + ((rounds - 1) << 12);
    rounds
}

/// TLBIMVA, with the operand in the vCPU page, and of `count - 1` pages behind that in its megabyte; the block goes on
/// at `next`.
pub fn invalidate_pages(vm: &mut Vm, core: &mut HostCpu, count: u32, next: CachePc) -> Resume {
    vm.common.counters.emulated[Class::Coprocessor as usize] += 1;
    let value = vm.vcpu.context.cpu.page.target;
    invalidate_tlb(vm, core, TlbOp::Page { va: value & !0xfff, asid: Some(value as u8) }, count);
    Resume::Back(next)
}

/// TLB maintenance (B4.2.2); of a page, `count` times, of pages in a row in one megabyte.
fn invalidate_tlb(vm: &mut Vm, core: &mut HostCpu, op: TlbOp, count: u32) {
    // The page may be one of a block of long descriptors, pieces of which are in many megabytes.
    let long = regime(&vm.vcpu.context.cpu).is_long();
    let (op, count) = if long && matches!(op, TlbOp::Page { .. }) { (TlbOp::All, 1) } else { (op, count) };
    let mmu = &mut vm.vcpu.mmu;
    if !matches!(op, TlbOp::Asid(_)) {
        mmu.forget_devices();
    }
    let tracks = papers::tracks_writes(mmu.shadow());
    // Only an operation on the cache's own addresses, or on all, announces a mapping there.
    let concerns_cache = match op {
        // The shadow knows already.
        TlbOp::All if tracks => true,
        TlbOp::Page { va, .. } if tracks => mmu.shadow().in_region(GuestVa(va)),
        TlbOp::Asid(_) if tracks => false,
        TlbOp::All => {
            mmu.invalidate_all(core.enter_host_space());
            true
        }
        // Single entries go without a change of tables: Linux maintains thousands of pages in a row.
        TlbOp::Page { va, asid } => {
            mmu.invalidate_pages(GuestVa(va), count, asid);
            if count == 1 {
                vm.vcpu.context.note_forgotten(GuestVa(va));
            }
            mmu.shadow().in_region(GuestVa(va))
        }
        TlbOp::Asid(asid) => {
            mmu.invalidate_asid(core.enter_host_space(), asid);
            false
        }
    };
    vm.revalidate(core, op, count);
    if concerns_cache {
        vm.look_through_cache();
    }
}

/// Cleans (and invalidates, but never without cleaning) the line of guest RAM at `pa`, as the guest's CTR has it.
fn clean(vm: &mut Vm, host_space: HostSpace<'_>, op: LineOp, pa: GuestPa) {
    let line = announced_line();
    let Some(bytes) = vm.common.ram.bytes(host_space, GuestPa(pa.0 & !(line - 1)), line) else { return };
    let va = bytes.as_ptr() as u32;
    match op {
        LineOp::CleanToPou => cache::clean_to_pou(va, line),
        LineOp::CleanToPoc | LineOp::CleanInvalidate | LineOp::Invalidate => cache::clean_invalidate(va, line),
    }
}

/// The guest's firmware: PSCI.
fn firmware(vm: &mut Vm, behind: GuestVa) -> Resume {
    let regs = &vm.vcpu.context.cpu.regs;
    vm.vcpu.events.note(What::Firmware { function: regs[0], behind: behind.0 });
    if fault::asked_for(regs[0], regs[1]) {
        return Resume::Guest(behind);
    }
    match vm.common.machine.firmware(regs[0], [regs[1], regs[2], regs[3]]) {
        PsciResult::Value(value) => {
            vm.vcpu.context.cpu.regs[0] = value;
            Resume::Guest(behind)
        }
        PsciResult::Suspend => {
            vm.common.counters.waits += 1;
            vm.vcpu.context.cpu.regs[0] = 0;
            Resume::Wait(behind)
        }
        PsciResult::PowerOff => Resume::Stop(Stop::PowerOff),
        PsciResult::Reset => Resume::Stop(Stop::Reset),
    }
}
