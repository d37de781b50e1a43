//! Aborts that need little: an entry that the shadow lacks, a fault of the guest's, a device that is known, and a word
//! that a kernel patches.
//!
//! A guest that pages on demand has two of the former for each page: its own fault, then the hidden one. What
//! [`handle`] and [`Vm::resume`] look after at every trap does not matter here: no block and no register of the guest's
//! but those of the exception is concerned, and the guest goes on either at the privilege that was left or at one that
//! `fast.s` could have switched to. So the conditions are `fast.s`'s own: `Context::slow_path` is 0 where privilege
//! changes. What is out of the ordinary is left as it is, for [`handle`].
//!
//! [`handle`]: super::handle
//! [`Vm::resume`]: crate::vm::Vm

use spica_addr::{CachePc, GuestPa, GuestVa};
use spica_mmu::guest::plain::stores_to;
use spica_mmu::{AccessKind, FastFill, Fault};
use spica_vcpu::{Cpu, Exception, psr};

use super::{abort, interrupt, locate};
use crate::arch::cp15::{Dfar, Dfsr, Ifar, Ifsr, SysRegRead};
use crate::arch::{barrier, tlb};
use crate::engine::Engine;
use crate::host::Host;
use crate::host_cpu::{HostCpu, HostSpace};
use crate::machine::GuestMachine;
use crate::papers;
use crate::vm::events::What;
use crate::vm::mmio::{Known, plain_register};
use crate::vm::mmu::Mmu;
use crate::vm::{Common, Resume, Vm};
use crate::world::{Privilege, Trap};

/// What became of a trap.
pub enum Answer {
    /// Nothing: all is as it was.
    None,
    /// It is answered, and the guest can be entered at this privilege, with everything in place.
    Enter(Privilege),
    /// It is answered; the guest goes on here, once others have seen to what they have to.
    Resume(Resume),
}

/// Answers an abort, if it is an ordinary one.
pub fn handle(vm: &mut Vm, core: &mut HostCpu, host: &mut Host, privilege: Privilege, trap: Trap) -> Answer {
    let (status, far, kind) = match (trap, privilege) {
        (Trap::DataAbort, _) => {
            let fsr = Dfsr::read_raw();
            (fsr, Dfar::read_raw(), if fsr >> 11 & 1 != 0 { AccessKind::Write } else { AccessKind::Read })
        }
        (Trap::PrefetchAbort, Privilege::User) => (Ifsr::read_raw(), Ifar::read_raw(), AccessKind::Fetch),
        _ => return Answer::None,
    };
    let Vm { vcpu, common, .. } = vm;
    let context = &mut vcpu.context;
    // A domain fault may be that of a bet on DACR; an alignment fault is the guest's, whatever its tables say.
    if !abort::is_for_tables(status) || context.space_switched() {
        return Answer::None;
    }
    let write = kind == AccessKind::Write;
    if privilege == Privilege::Kernel
        && let Some(known) = vcpu.mmu.known_device(
            CachePc(context.cpu.pc),
            common.engine.generation(),
            GuestVa(far),
            write,
            context.cpu.page.dacr,
        )
    {
        return device(vm, core, host, far, write, known);
    }
    if write && privilege == Privilege::Kernel && context.is_forgotten(GuestVa(far)) {
        context.note_stored();
        return store_once(vm, core, host, GuestVa(far));
    }
    if !vcpu.mmu.has_plain_tables() {
        return Answer::None;
    }
    let view = privilege.view();
    let guest = (context.cpu.cp15.ttbr0, context.cpu.page.dacr);
    // The handler of the guest's fault, if it is translated. In FIQ mode, blocks are for one execution.
    let vector = context.cpu.vectors() | if kind == AccessKind::Fetch { 0x0c } else { 0x10 };
    let ordinary = context.slow_path == 0 && context.leave == 0;
    let handler = if ordinary { common.engine.known(GuestVa(vector)) } else { None };
    let memory = common.ram.at(core.enter_host_space());
    let filled = vcpu.mmu.fast_fill(&memory, guest, view, GuestVa(far), kind);
    let privilege = match (filled, handler, privilege) {
        (FastFill::Mapped, ..) => {
            common.counters.hidden_faults += 1;
            privilege
        }
        (FastFill::GuestFault(fault), Some(entry), Privilege::User) => {
            common.counters.guest_aborts += 1;
            deliver(&mut context.cpu, fault, far, kind);
            context.cpu.pc = entry.0;
            context.cpu.page.dacr_real = context.kernel.guest_dacr;
            vcpu.core_state.set_dacr(context.kernel.dacr);
            vcpu.enter_block();
            Privilege::Kernel
        }
        (FastFill::GuestFault(fault), Some(entry), Privilege::Kernel) => {
            // A kernel copies from and to pages that its user code has not touched yet. What DACR really is may stay.
            let pc = CachePc(vm.vcpu.context.cpu.pc);
            let Some((location, instruction)) = locate::find(vm, core.enter_host_space(), pc) else {
                return Answer::None;
            };
            if abort::stands_for_another(&instruction) {
                return Answer::None;
            }
            vm.common.counters.guest_aborts += 1;
            let pc = locate::restore(vm, &location).0;
            vm.vcpu.context.cpu.pc = pc;
            let fsr = fault.fsr(write);
            vm.vcpu.events.note(What::Exception(Exception::DataAbort { pc, fsr, far }));
            deliver(&mut vm.vcpu.context.cpu, fault, far, kind);
            vm.vcpu.context.cpu.pc = entry.0;
            vm.vcpu.enter_block();
            Privilege::Kernel
        }
        _ => return Answer::None,
    };
    core.go_to(vm.vcpu.context.view_registers(privilege));
    Answer::Enter(privilege)
}

/// A load or store of translated code that is known to reach a device.
fn device(vm: &mut Vm, core: &mut HostCpu, host: &mut Host, far: u32, write: bool, known: Known) -> Answer {
    let pc = CachePc(vm.vcpu.context.cpu.pc);
    let plain = known.plain.filter(|_| far & 3 == 0 && vm.vcpu.context.cpu.psr & (psr::E | psr::T) == 0);
    if let Some(reg) = plain
        && plain_access(vm, host, reg, write, GuestPa(known.page.0 | far & 0xfff)).is_some()
    {
        interrupt::leave_soon(vm, pc);
        let behind = pc.wrapping_add(4);
        let goes_on = vm.goes_on_behind_device(core, host, behind);
        return if goes_on { Answer::Enter(Privilege::Kernel) } else { Answer::Resume(Resume::Cache(behind)) };
    }
    // The access may go on into another page, which DACR decides about.
    super::settle(vm, core);
    let at = (GuestVa(far), GuestPa(known.page.0 | far & 0xfff));
    let known = Some((GuestVa(far).page(), known.page));
    match abort::emulate_access(vm, core, host, pc, at, write, known) {
        Resume::Cache(behind) if vm.goes_on_behind_device(core, host, behind) => Answer::Enter(Privilege::Kernel),
        resume => Answer::Resume(resume),
    }
}

/// The kernel was left by a Data Abort: if that is of a store as [`store_once`] has it, of a word on which nothing
/// depends but what is executed there, it is done here, and the kernel goes on behind it, as behind a trap that
/// assembly answers. False: all is as it was.
///
/// Nobody else has anything to see to then that was not there when the guest was entered, but for interrupts, which
/// have their own trap.
pub fn stores_on(vm: &mut Vm, core: &mut HostCpu) -> bool {
    let Vm { vcpu, .. } = vm;
    let (fsr, va) = (Dfsr::read_raw(), GuestVa(Dfar::read_raw()));
    let context = &vcpu.context;
    let write = fsr >> 11 & 1 != 0;
    if !write || !abort::is_for_tables(fsr) || context.space_switched() || !context.is_forgotten(va) {
        return false;
    }
    core.found(&context.kernel);
    let done = match stored_word(vm, core, va) {
        Some((pa, value)) => store_plainly(vm, core.enter_host_space(), pa, value),
        None => false,
    };
    let Vm { vcpu, common, .. } = vm;
    core.go_to(&vcpu.context.kernel);
    if done {
        vcpu.context.note_stored();
        vcpu.context.cpu.pc = vcpu.context.cpu.pc.wrapping_add(4);
        common.engine.publish(true);
    }
    done
}

/// The address and the value of a store by kernel code, as [`store_once`] has it. `None` if it is not for that.
// Twice in the image: of what it finds, each wants all in registers.
#[inline(always)]
fn stored_word(vm: &mut Vm, core: &mut HostCpu, va: GuestVa) -> Option<(GuestPa, u32)> {
    let Vm { vcpu, common, .. } = vm;
    let cpu = &vcpu.context.cpu;
    // Somebody else is to hear of it, or it is not for here. (What the guest has mapped in the hypervisor region is its
    // RAM all the same.)
    let odd = va.0 & 3 != 0 || cpu.psr & (psr::E | psr::T) != 0 || papers::tracks_writes(vcpu.mmu.shadow());
    if odd || !vcpu.mmu.has_plain_tables() {
        return None;
    }
    let reg = tlb::user_word(cpu.pc).and_then(plain_register)?;
    let value = *cpu.regs.get(usize::from(reg))?;
    let guest = (cpu.cp15.ttbr0, cpu.page.dacr);
    let pa = stores_to(&common.ram.at(core.enter_host_space()), guest, va)?;
    let ordinary = !common.watches.has_page(pa) && !vcpu.mmu.hides_page(pa) && common.ram.has_word(pa);
    ordinary.then_some((pa, value))
}

/// Stores a word at `pa`, if nothing depends on it but what runs in place.
fn store_plainly(vm: &mut Vm, host_space: HostSpace<'_>, pa: GuestPa, value: u32) -> bool {
    let Vm { vcpu, common, .. } = vm;
    let mmu = &vcpu.mmu;
    let is_code = mmu.shadow().is_code_page(pa);
    vcpu.context.patches_code = is_code.into();
    if is_code {
        let at = (pa.0 >> 2 & 0x3ff) as usize;
        let others = common.volatile.contains(pa) || mmu.call_vector.rests_on(pa, 4) || mmu.copies_user_code();
        if others || !common.engine.patch((pa.page(), at), value) {
            return false;
        }
        patched(common);
        let place = pa.page().0.wrapping_sub(vcpu.context.ram.base);
        if vcpu.context.patching.is_worth(place) && place < vcpu.context.ram.size {
            begin_patching(vm, pa.page(), place);
        }
    } else {
        common.counters.hidden_faults += 1;
    }
    if let Some(word) = vm.common.ram.word_mut(host_space, pa) {
        *word = value;
    }
    true
}

/// The kernel patches words of the page at `pa`, which is at `place` in its RAM: assembly is to do that as long as it
/// gets no further, as [`store_plainly`] would.
#[inline(never)]
fn begin_patching(vm: &mut Vm, pa: GuestPa, place: u32) {
    end_patching(vm);
    let Vm { vcpu, common, .. } = vm;
    if !vcpu.mmu.call_vector.rests_on(pa, 4096)
        && let Some((patchable, twin)) = common.engine.patchable(pa)
    {
        vcpu.context.patching.begin(place, &patchable, twin);
        vcpu.context.patches_code = 0;
    }
}

/// Assembly is to patch no words any more: others see to the guest now.
#[inline(never)]
pub fn end_patching(vm: &mut Vm) {
    let Vm { vcpu, common, .. } = vm;
    if vcpu.context.patching.is_any() {
        let (twin, times) = vcpu.context.patching.end();
        common.engine.were_patched(twin, times);
        common.counters.code_patches += u64::from(times);
    }
}

crate::parts::count!(patched, "trap.protected-write");
/// A word of code has been patched.
#[inline(never)]
fn patched(common: &mut Common) {
    common.counters.code_patches += 1;
}

/// STR of a word by kernel code to a page of the kernel's range, the first one since the guest's TLB maintenance was
/// about that page. Linux maps a page of its fixmap for each word of its text that it patches, and unmaps it at once:
/// so the word is stored here, and nothing is mapped that the next maintenance would have to look for. Who stores there
/// again has the page mapped.
fn store_once(vm: &mut Vm, core: &mut HostCpu, host: &mut Host, va: GuestVa) -> Answer {
    let pc = CachePc(vm.vcpu.context.cpu.pc);
    let Some((pa, value)) = stored_word(vm, core, va) else { return Answer::None };
    let host_space = core.enter_host_space();
    let Vm { vcpu, common, .. } = vm;
    if !vcpu.mmu.shadow().is_code_page(pa) {
        common.counters.hidden_faults += 1;
        common.ram.store(host_space, pa, 4, value);
    } else if common.engine.code_at(pc).is_some_and(|code| common.engine.source(code).1.page() == pa.page()) {
        // It may drop the very block that it is in.
        return Answer::None;
    } else {
        patch(common, &mut vcpu.mmu, host_space, pa, value);
    }
    let behind = pc.wrapping_add(4);
    let goes_on = vm.goes_on(core, host, behind);
    if goes_on { Answer::Enter(Privilege::Kernel) } else { Answer::Resume(Resume::Back(behind)) }
}

crate::parts::count!(patch, "trap.protected-write");
/// Stores a word at `pa`, in a page from which code was made.
#[inline(never)]
fn patch(common: &mut Common, mmu: &mut Mmu, host_space: HostSpace<'_>, pa: GuestPa, value: u32) {
    common.code_is_stored_to(mmu, host_space, (pa, 4, value), true);
    common.ram.store(host_space, pa, 4, value);
    common.code_was_stored_to(mmu, host_space, pa, 4);
}

crate::parts::count!(plain_access, "trap.mmio");
/// LDR or STR of a word at `pa`, of a device. `None` if nothing is there, and nothing has been done.
#[inline(never)]
fn plain_access(vm: &mut Vm, host: &mut Host, reg: u8, write: bool, pa: GuestPa) -> Option<()> {
    let Vm { vcpu, common, .. } = vm;
    let now = host.guest_now(common.start);
    let reg = reg as usize % 15;
    if write {
        common.machine.mmio_write(pa, 4, vcpu.context.cpu.regs[reg], now)?;
        common.pass_output(host);
        common.arm_timer(&mut vcpu.context.timer, host);
    } else {
        vcpu.context.cpu.regs[reg] = common.machine.mmio_read(pa, 4, now)?;
    }
    vcpu.events.note_value(if write { What::Write(pa) } else { What::Read(pa) }, vcpu.context.cpu.regs[reg]);
    common.counters.mmio += 1;
    host.tracer.note_device(pa, write);
    Some(())
}

crate::parts::count!(deliver, "trap.guest-abort");
/// The guest takes the abort of the instruction at its PC.
#[inline(never)]
fn deliver(cpu: &mut Cpu, fault: Fault, far: u32, kind: AccessKind) {
    barrier::clear_exclusive();
    let pc = cpu.pc;
    cpu.take_exception(match kind {
        AccessKind::Fetch => Exception::PrefetchAbort { pc, fsr: fault.ifsr(), far },
        _ => Exception::DataAbort { pc, fsr: fault.fsr(kind == AccessKind::Write), far },
    });
}
