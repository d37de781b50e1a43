//! Guest memory by guest virtual address, for the interpreter: translated by the guest's own tables, devices included.

use spica_addr::{GuestPa, GuestVa};
use spica_mmu::{Access, AccessKind, Fault, FaultKind, translate};
use spica_vcpu::cp15::{SCTLR_A, TimerReg};
use spica_vcpu::interp::{Abort, Env};
use spica_vcpu::{Cpu, psr};

use super::events::{Events, What};
use super::mmu::Mmu;
use super::{Common, Vm, regime};
use crate::arch::tlb;
use crate::host::Host;
use crate::host_cpu::HostCpu;
use crate::machine::GuestMachine;
use crate::world::GuestTimer;

/// The guest's memory and timer during one trap.
pub struct TrapEnv<'a> {
    /// What the VM has beside the virtual CPU.
    pub common: &'a mut Common,
    /// The virtual CPU's MMU.
    pub mmu: &'a mut Mmu,
    /// What the virtual CPU did last.
    pub events: &'a mut Events,
    /// What assembly knows of the generic timer.
    pub timer: &'a mut GuestTimer,
    /// The processor, to enter the host address space for the guest's RAM.
    pub core: &'a mut HostCpu,
    /// The host, for the time.
    pub host: &'a mut Host,
    /// A page of which it is known that the access may be made, and where that is.
    pub known: Option<(GuestVa, GuestPa)>,
    /// What was translated from a word that was written is dropped already. If there is another one, its page changes
    /// as a whole: the time of a trap has a bound.
    pub patched: bool,
}

impl<'a> TrapEnv<'a> {
    /// For a trap of which nothing is known; and the registers of the virtual CPU.
    pub fn new(vm: &'a mut Vm, core: &'a mut HostCpu, host: &'a mut Host) -> (&'a mut Cpu, Self) {
        let Vm { vcpu, common, .. } = vm;
        let context = &mut *vcpu.context;
        let timer = &mut context.timer;
        let (mmu, events) = (&mut vcpu.mmu, &mut *vcpu.events);
        (&mut context.cpu, Self { common, mmu, events, timer, core, host, known: None, patched: false })
    }
}

impl TrapEnv<'_> {
    fn locate(&mut self, cpu: &Cpu, va: u32, kind: AccessKind, privileged: bool) -> Result<GuestPa, Abort> {
        if let Some((page, pa)) = self.known
            && page == GuestVa(va).page()
        {
            return Ok(GuestPa(pa.0 | va & 0xfff));
        }
        let write = kind == AccessKind::Write;
        let memory = self.common.ram.at(self.core.enter_host_space());
        let mapping = translate(&memory, &regime(cpu), GuestVa(va), Access { kind, privileged });
        mapping.map(|mapping| mapping.pa).map_err(|fault| Abort { fsr: fault.fsr(write), far: va })
    }

    /// The word at `va`, if the guest's kernel reads it from RAM by the tables that are in force: interpreting an
    /// instruction is no reason to enter the host address space then. In that space, where User mode may read nothing,
    /// there is none.
    fn at_hand(&self, va: u32) -> Option<u32> {
        // What kernel code could read in the hypervisor region is not the guest's; address 0 is no pointer.
        if va == 0 || self.mmu.shadow().in_region(GuestVa(va)) { None } else { tlb::user_word(va) }
    }

    /// Runs `one` for the access, or for each byte of one that crosses a page.
    fn split(va: u32, bytes: u32, mut one: impl FnMut(u32, u32, u32) -> Result<(), Abort>) -> Result<(), Abort> {
        if va & 0xfff <= 0x1000 - bytes {
            return one(va, bytes, 0);
        }
        (0..bytes).try_for_each(|n| one(va.wrapping_add(n), 1, 8 * n))
    }
}

/// The bytes of a value the other way round, if CPSR.E says so: only user code can have it set.
fn endian(cpu: &Cpu, value: u32, bytes: u32) -> u32 {
    if cpu.psr & psr::E == 0 { value } else { value.swap_bytes() >> (32 - 8 * bytes) }
}

/// Alignment goes before everything else (B3.12.4).
fn check_alignment(cpu: &Cpu, va: u32, bytes: u32, write: bool) -> Result<(), Abort> {
    if va & (bytes - 1) != 0 && cpu.cp15.sctlr & SCTLR_A != 0 {
        return Err(Abort {
            fsr: Fault::without_descriptor(FaultKind::Alignment).under(&regime(cpu)).fsr(write),
            far: va,
        });
    }
    Ok(())
}

fn external(cpu: &Cpu, va: u32, write: bool) -> Abort {
    Abort { fsr: Fault::without_descriptor(FaultKind::External).under(&regime(cpu)).fsr(write), far: va }
}

impl Env for TrapEnv<'_> {
    fn load(&mut self, cpu: &mut Cpu, va: u32, bytes: u32, privileged: bool) -> Result<u32, Abort> {
        check_alignment(cpu, va, bytes, false)?;
        // Only kernel code makes accesses with its own rights, so its view is in force, if not the host address space.
        if privileged
            && bytes == 4
            && let Some(word) = self.at_hand(va)
        {
            return Ok(endian(cpu, word, bytes));
        }
        let mut value = 0;
        Self::split(va, bytes, |va, bytes, shift| {
            let pa = self.locate(cpu, va, AccessKind::Read, privileged)?;
            self.common.watches.note(pa, bytes, false, self.host);
            let part = match self.common.ram.load(self.core.enter_host_space(), pa, bytes) {
                Some(part) => part,
                None => {
                    self.common.counters.mmio += 1;
                    let host_space = self.core.enter_host_space();
                    if let Some(part) = self.common.flash_load(self.mmu, host_space, pa, bytes) {
                        value |= part << shift;
                        return Ok(());
                    }
                    self.host.tracer.note_device(pa, false);
                    let now = self.host.guest_now(self.common.start);
                    let fw_cfg = self.common.fw_cfg_load(host_space, pa, bytes);
                    let read = fw_cfg.or_else(|| self.common.machine.mmio_read(pa, bytes, now));
                    self.events.note_value(What::Read(pa), read.unwrap_or(0));
                    match read {
                        Some(part) => part,
                        None => {
                            self.common.misses(pa, false);
                            return Err(external(cpu, va, false));
                        }
                    }
                }
            };
            value |= part << shift;
            Ok(())
        })?;
        Ok(endian(cpu, value, bytes))
    }

    fn store(&mut self, cpu: &mut Cpu, va: u32, bytes: u32, value: u32, privileged: bool) -> Result<(), Abort> {
        let value = endian(cpu, value, bytes);
        check_alignment(cpu, va, bytes, true)?;
        // The second page of an access that crosses may fault: nothing may have been written then.
        if va & 0xfff > 0x1000 - bytes {
            self.locate(cpu, va, AccessKind::Write, privileged)?;
            self.locate(cpu, va.wrapping_add(bytes - 1) & !0xfff, AccessKind::Write, privileged)?;
        }
        Self::split(va, bytes, |va, bytes, shift| {
            let pa = self.locate(cpu, va, AccessKind::Write, privileged)?;
            if self.common.ram.contains(pa) {
                let host_space = self.core.enter_host_space();
                self.common.watches.note(pa, bytes, true, self.host);
                let is_code = self.mmu.shadow().is_code_page(pa) || self.mmu.hides_page(pa);
                if is_code {
                    let written = (pa, bytes, value >> shift);
                    self.patched |= self.common.code_is_stored_to(self.mmu, host_space, written, !self.patched);
                }
                self.common.ram.store(host_space, pa, bytes, value >> shift).ok_or(external(cpu, va, true))?;
                if is_code {
                    self.common.code_was_stored_to(self.mmu, host_space, pa, bytes);
                }
                self.mmu.table_written(host_space, pa, bytes);
                return Ok(());
            }
            self.common.counters.mmio += 1;
            let host_space = self.core.enter_host_space();
            if self.common.flash_store(self.mmu, host_space, pa, bytes, value >> shift).is_some() {
                return Ok(());
            }
            self.host.tracer.note_device(pa, true);
            self.events.note_value(What::Write(pa), value >> shift);
            if self.common.machine.fw_cfg_write(pa, bytes, value >> shift).is_some() {
                return Ok(());
            }
            let now = self.host.guest_now(self.common.start);
            if self.common.machine.mmio_write(pa, bytes, value >> shift, now).is_none() {
                self.common.misses(pa, true);
                return Err(external(cpu, va, true));
            }
            self.common.pass_output(self.host);
            self.common.arm_timer(self.timer, self.host);
            Ok(())
        })
    }

    fn timer_read(&mut self, reg: TimerReg) -> u64 {
        let now = self.host.guest_now(self.common.start);
        self.common.machine.timer_read(reg, now)
    }

    fn timer_write(&mut self, reg: TimerReg, value: u64) {
        self.common.set_timer(self.timer, self.host, reg, value);
    }
}
