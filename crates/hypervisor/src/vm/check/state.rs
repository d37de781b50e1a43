//! What a step starts from, and what the guest can see of how it ended.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use spica_addr::GuestVa;
use spica_machine::Setting;
use spica_machine::map::{GICC, GICD};
use spica_vcpu::cp15::TimerReg;
use spica_vcpu::psr::Mode;
use spica_vcpu::{Bank, Banked};

use super::memory;
use super::random::Random;
use crate::host::Host;
use crate::host_cpu::HostSpace;
use crate::machine::{Done, GuestMachine};
use crate::vm::{Stop, Vm};

/// How a step ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// At the SMC at this address of the guest's.
    At(GuestVa),
    /// The VM stopped.
    Stop(Stop),
    /// It did not end: so many traps had come.
    Endless,
    /// It ran on without a trap: random words that user code came upon may be a loop.
    Loop,
    /// User code came upon words that read the counter, which is not the same twice.
    Clock,
}

/// All that the guest can see, in words that have names.
#[derive(PartialEq)]
pub struct Seen {
    /// How the step ended.
    pub end: End,
    words: Vec<u32>,
    pages: Vec<u32>,
}

/// Puts random values where the guest may have any, and ends the interrupts that the last step has left.
pub fn begin(vm: &mut Vm, random: &mut Random, mode: Mode) {
    // GICD_ICENABLER0 but for SGIs, GICD_ICACTIVER0, GICD_CPENDSGIR, GICC_APR0. What time it is does not matter.
    let quiet =
        [(GICD, 0x180, 0xffff_0000), (GICD, 0x380, !0), (GICD, 0xf10, !0), (GICD, 0xf14, !0), (GICD, 0xf18, !0)];
    for (frame, offset, value) in quiet.into_iter().chain([(GICD, 0xf1c, !0), (GICC, 0xd0, 0)]) {
        let _ = vm.common.machine.mmio_write(frame.wrapping_add(offset), 4, value, 0);
    }
    let cpu = &mut vm.vcpu.context.cpu;
    let flags = random.word() & 0xf80f_0000;
    let masks = if random.one_in(3) { random.word() & 0x1c0 } else { 0xc0 };
    cpu.set_cpsr(flags | masks | mode as u32);
    for reg in &mut cpu.regs {
        *reg = random.word();
    }
    let page = &mut *cpu.page;
    let any_mode =
        |random: &mut Random| random.word() & 0xf80f_01c0 | random.pick(&[0x10, 0x12, 0x13, 0x17, 0x1b, 0x1f]);
    for bank in &mut page.bank {
        *bank = Banked { spsr: any_mode(random), sp: random.word(), lr: random.word() };
    }
    page.spsr = any_mode(random);
    for reg in &mut page.bank_r8_r12 {
        *reg = random.word();
    }
    page.target = random.word();
    page.counter = [0; 2];
    page.tpidruro = random.word();
    page.tpidrprw = random.word();
    for slot in &mut page.spill {
        *slot = random.word();
    }
}

/// Has the interrupt controller deliver what comes.
pub fn enable_interrupts(vm: &mut Vm, host: &mut Host) {
    let now = host.guest_now(vm.common.start);
    let machine = &mut vm.common.machine;
    // GICD_CTLR, GICC_PMR, GICC_CTLR.
    for (at, value) in [(GICD, 1), (GICC.wrapping_add(4), 0xff), (GICC, 1)] {
        let _ = machine.mmio_write(at, 4, value, now);
    }
}

/// User code may read what the generic timer has (B4.1.26: PL0PCTEN, PL0VCTEN).
pub fn permit_counters(vm: &mut Vm, host: &mut Host) {
    let now = host.guest_now(vm.common.start);
    vm.common.machine.timer_write(TimerReg::Cntkctl, 3, now);
}

/// A virtual interrupt waits from now on: one that software sends to itself.
pub fn interrupt(vm: &mut Vm, host: &mut Host) {
    let now = host.guest_now(vm.common.start);
    // GICD_SGIR.
    let _ = vm.common.machine.mmio_write(GICD.wrapping_add(0xf00), 4, 0x0200_0000, now);
}

/// If the guest has read its counter, that was between the time `begun` and now.
pub fn check_counter(vm: &mut Vm, host: &mut Host, begun: u64) -> Result<(), String> {
    let [low, high] = vm.vcpu.context.cpu.page.counter;
    let (read, now) = (u64::from(high) << 32 | u64::from(low), host.guest_now(vm.common.start));
    if read == 0 || (begun..=now).contains(&read) {
        Ok(())
    } else {
        Err(format!("the counter was {read:#x}, between {begun:#x} and {now:#x}"))
    }
}

/// Timers that were set to a time that was to come at `begun` are off: no trace of the time is left.
pub fn stop_timers(vm: &mut Vm, host: &mut Host, begun: u64) {
    let settings = vm.common.machine.timers().map(|timer| {
        let soon = timer.compare >= begun && timer.compare < begun.saturating_add(1 << 30);
        if soon { Setting::default() } else { timer }
    });
    if settings != vm.common.machine.timers() {
        vm.common.machine.catch_up(Done { timers: Some(settings), ..Done::default() });
        vm.common.machine.update(host.guest_now(vm.common.start));
        vm.vcpu.context.timer.note(settings);
    }
}

/// No interrupt waits any more.
pub fn take_interrupt(vm: &mut Vm, host: &mut Host) {
    let now = host.guest_now(vm.common.start);
    let machine = &mut vm.common.machine;
    // GICC_IAR, GICC_EOIR.
    if let Some(id) = machine.mmio_read(GICC.wrapping_add(0xc), 4, now) {
        let _ = machine.mmio_write(GICC.wrapping_add(0x10), 4, id, now);
    }
}

fn fields(vm: &Vm) -> Vec<(&'static str, u32)> {
    let cpu = &vm.vcpu.context.cpu;
    let (page, cp15) = (&*cpu.page, &cpu.cp15);
    const REGS: [&str; 15] =
        ["r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7", "r8", "r9", "r10", "r11", "r12", "sp", "lr"];
    const BANKS: [[&str; 3]; 6] = [
        ["sp_usr", "lr_usr", ""],
        ["sp_svc", "lr_svc", "spsr_svc"],
        ["sp_abt", "lr_abt", "spsr_abt"],
        ["sp_und", "lr_und", "spsr_und"],
        ["sp_irq", "lr_irq", "spsr_irq"],
        ["sp_fiq", "lr_fiq", "spsr_fiq"],
    ];
    let mut fields: Vec<(&str, u32)> = REGS.into_iter().zip(cpu.regs).collect();
    fields.push(("cpsr", cpu.cpsr()));
    fields.push(("control", page.control));
    let own = Bank::of(cpu.mode());
    if own != Bank::Usr {
        fields.push(("spsr", page.spsr));
    }
    for (bank, names) in BANKS.into_iter().enumerate() {
        // What is current is not in its bank.
        if bank != own as usize {
            fields.push((names[0], page.bank[bank].sp));
            fields.push((names[1], page.bank[bank].lr));
            if bank != Bank::Usr as usize {
                fields.push((names[2], page.bank[bank].spsr));
            }
        }
    }
    fields.extend(["r8'", "r9'", "r10'", "r11'", "r12'"].into_iter().zip(page.bank_r8_r12));
    let shown = &page.shown;
    fields.extend([
        ("sctlr", cp15.sctlr),
        ("cpacr", cp15.cpacr),
        ("ttbr0", cp15.ttbr0),
        ("ttbr0 shown", shown.ttbr0),
        ("contextidr", cp15.contextidr),
        ("contextidr shown", shown.contextidr),
        ("dacr", cp15.dacr),
        ("dacr of the page", page.dacr),
        ("dfsr", cp15.dfsr),
        ("dfsr shown", shown.dfsr),
        ("ifsr", cp15.ifsr),
        ("ifsr shown", shown.ifsr),
        ("dfar", cp15.dfar),
        ("dfar shown", shown.dfar),
        ("ifar", cp15.ifar),
        ("ifar shown", shown.ifar),
        ("fpexc", cp15.fpexc),
        ("teehbr", cp15.teehbr),
        ("tpidruro", page.tpidruro),
        ("tpidrprw", page.tpidrprw),
        ("vbar", cp15.vbar),
    ]);
    let (signalled, active) = vm.common.machine.interrupts();
    let none = u32::MAX;
    fields.extend([
        ("signalled", signalled.unwrap_or(none)),
        ("active", active.unwrap_or(none)),
        ("interrupt asserted", vm.common.machine.irq_asserted().into()),
    ]);
    const TIMERS: [[&str; 3]; 2] =
        [["cntp_cval", "cntp_cval high", "cntp_ctl"], ["cntv_cval", "cntv_cval high", "cntv_ctl"]];
    for (names, timer) in TIMERS.into_iter().zip(vm.common.machine.timers()) {
        fields.extend(names.into_iter().zip([timer.compare as u32, (timer.compare >> 32) as u32, timer.control]));
    }
    fields
}

/// What the guest can see now.
pub fn seen(vm: &Vm, host_space: HostSpace<'_>, end: End) -> Seen {
    let words = fields(vm).into_iter().map(|(_, word)| word).collect();
    Seen { end, words, pages: memory::sums(host_space, vm) }
}

/// What differs, if anything does: `answered` is what assembly made, `vm` what Rust did.
pub fn compare(vm: &Vm, host_space: HostSpace<'_>, end: End, answered: &Seen) -> Result<(), String> {
    let reference = seen(vm, host_space, end);
    if reference == *answered {
        return Ok(());
    }
    if reference.end != answered.end {
        return Err(format!("ended {:x?}, in Rust {end:x?}", answered.end));
    }
    let mut said = String::new();
    if reference.words.len() == answered.words.len() {
        for ((name, word), other) in fields(vm).into_iter().zip(&answered.words) {
            if word != *other {
                said += &format!("{name} {other:#010x}, in Rust {word:#010x}; ");
            }
        }
    } else {
        said += "another mode; ";
    }
    for (page, (sum, other)) in reference.pages.iter().zip(&answered.pages).enumerate() {
        if sum != other {
            said += &format!("memory of page {page:#x} of the area; ");
        }
    }
    Err(said)
}

/// Modes that a step can start in.
pub fn any_mode(random: &mut Random) -> Mode {
    let others = [Mode::Irq, Mode::Abt, Mode::Und, Mode::Sys, Mode::Fiq];
    if random.one_in(4) { random.pick(&others) } else { Mode::Svc }
}
