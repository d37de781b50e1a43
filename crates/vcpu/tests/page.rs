//! The vCPU page: where its fields lie for those who reach them without Rust's help, and that its copies of system
//! control registers are what those registers are, after whatever wrote them.

use crate::support;
use spica_isa::CpReg;
use spica_vcpu::cp15::{FPEXC_EN, ReadResult};
use spica_vcpu::interp::Step;
use spica_vcpu::{Bank, Banked, Cpu, CpuId, Effect, Exception, Shown, VcpuPage, field};
use std::mem::offset_of;
use support::{MODES, RAM, Random, Seed, World, cases, execute, vcpu};

const AL: u32 = 14 << 28;
const PC: u32 = 0x8000;

/// MRC and MCR of a CP15 register to and from R1, by CRn, opc1, CRm, opc2.
fn system(load: bool, (crn, opc1, crm, opc2): (u32, u32, u32, u32)) -> u32 {
    AL | 0x0e00_1f10 | u32::from(load) << 20 | opc1 << 21 | crn << 16 | opc2 << 5 | crm
}

/// The handlers in assembly have these offsets as numbers: what they are is part of the layout.
#[test]
fn offsets_that_assembly_relies_on() {
    assert_eq!((size_of::<VcpuPage>(), align_of::<VcpuPage>()), (4096, 4096));
    assert_eq!((offset_of!(Cpu, regs), offset_of!(Cpu, pc), offset_of!(Cpu, psr)), (0, 60, 64));
    for (name, offset, expected) in [
        ("target", offset_of!(VcpuPage, target), 16),
        ("spsr", offset_of!(VcpuPage, spsr), 24),
        ("control", offset_of!(VcpuPage, control), 28),
        ("tpidrurw", offset_of!(VcpuPage, tpidrurw), 32),
        ("tpidruro", offset_of!(VcpuPage, tpidruro), 36),
        ("stale", offset_of!(VcpuPage, stale), 40),
        ("dacr", offset_of!(VcpuPage, dacr), 44),
        ("dacr_real", offset_of!(VcpuPage, dacr_real), 48),
        ("bank", offset_of!(VcpuPage, bank), 96),
    ] {
        assert_eq!(offset, expected, "{name}");
    }
    // LDM and STM of SP and LR, with the mode's number from a table.
    assert_eq!((size_of::<Banked>(), offset_of!(Banked, spsr)), (12, 0));
    let order = [Bank::Usr, Bank::Svc, Bank::Abt, Bank::Und, Bank::Irq, Bank::Fiq];
    for (n, bank) in order.into_iter().enumerate() {
        assert_eq!(bank as usize, n);
        assert_eq!(field::bank_spsr(bank) as usize, offset_of!(VcpuPage, bank) + 12 * n);
        assert_eq!(field::bank_sp(bank), field::bank_spsr(bank) + 4);
        assert_eq!(field::bank_lr(bank), field::bank_sp(bank) + 4);
    }
}

/// Translated code reaches a field in the page behind its own only below this offset, where its code begins.
#[test]
fn fields_of_translated_code_are_words_below_256() {
    let fields = [
        field::spill(0),
        field::spill(1),
        field::spill(2),
        field::spill(3),
        field::TARGET,
        field::CONTROL,
        field::PENDING,
        field::SPSR,
        field::TPIDRPRW,
        field::TPIDRURO,
        field::STALE,
        field::DACR,
        field::DACR_REAL,
        field::DACR_SITE,
        field::FPEXC,
        field::FPEXC_REAL,
        field::TEEHBR,
        field::CTR,
        field::SCTLR,
        field::TTBR0,
        field::TTBR1,
        field::CONTEXTIDR,
        field::DFSR,
        field::IFSR,
        field::DFAR,
        field::IFAR,
        field::bank_sp(Bank::Usr),
        field::bank_lr(Bank::Usr),
    ];
    for (n, &field) in fields.iter().enumerate() {
        assert!(field < 256 && field % 4 == 0, "{field}");
        assert!(!fields[..n].contains(&field), "{field} twice");
    }
    assert_eq!(field::spill(7), field::spill(3), "no slot outside");
}

/// All copies are what a read of the register gives.
fn check(cpu: &Cpu, what: &str) {
    let page = &cpu.page;
    let Shown { ctr, sctlr, ttbr0, ttbr1, contextidr, dfsr, ifsr, dfar, ifar } = page.shown;
    for (value, (crn, crm, opc2)) in [
        (ctr, (0, 0, 1)),
        (sctlr, (1, 0, 0)),
        (ttbr0, (2, 0, 0)),
        (ttbr1, (2, 0, 1)),
        (page.dacr, (3, 0, 0)),
        (dfsr, (5, 0, 0)),
        (ifsr, (5, 0, 1)),
        (dfar, (6, 0, 0)),
        (ifar, (6, 0, 2)),
        (contextidr, (13, 0, 1)),
        (page.tpidruro, (13, 0, 3)),
        (page.tpidrprw, (13, 0, 4)),
    ] {
        let reg = CpReg { coproc: 15, opc1: 0, crn, crm, opc2 };
        let read = cpu.cp15.read(&cpu.id, reg, page.tpidruro, page.tpidrprw);
        assert_eq!(read, ReadResult::Value(value), "c{crn}, c{crm}, {opc2} after {what}");
    }
    assert_eq!((page.fpexc, page.teehbr), (cpu.cp15.fpexc, cpu.cp15.teehbr), "after {what}");
}

fn with_id() -> Cpu {
    let id = CpuId { ctr: 0x8444_c004, pfr: [0x1031, 0], ..CpuId::default() };
    Cpu::new(Box::leak(Box::new(VcpuPage::reset())), id)
}

#[test]
fn a_new_cpu_and_one_that_was_reset_show_their_registers() {
    let mut cpu = with_id();
    check(&cpu, "creation");
    assert_eq!((cpu.page.shown.ctr, cpu.page.shown.sctlr), (0x8444_c004, 0x00c5_0078));
    cpu.regs[1] = u32::MAX;
    execute(&mut cpu, &mut World::default(), system(false, (5, 0, 0, 0)), PC);
    assert_eq!(cpu.page.shown.dfsr, u32::MAX);
    cpu.reset();
    check(&cpu, "reset");
    assert_eq!(cpu.page.shown.dfsr, 0);
}

/// Writes to every register there is, exceptions, and reads in between.
#[test]
fn the_copies_follow_the_registers() {
    let mut shown = 0;
    for seed in cases(60) {
        let _seed = Seed(seed);
        let mut random = Random::new(seed);
        let (mut cpu, mut world) = (with_id(), World::default());
        cpu.cp15.cpacr = 0x00f0_0000;
        for _ in 0..400 {
            cpu.set_cpsr(random.pick(&MODES[1..]));
            cpu.regs[1] = random.word();
            let before = cpu.page.shown;
            let what = match random.below(8) {
                0 => {
                    let (fsr, far) = (random.word(), random.word());
                    let exception = random.pick(&[
                        Exception::PrefetchAbort { pc: PC, fsr, far },
                        Exception::DataAbort { pc: PC, fsr, far },
                        Exception::Irq { pc: PC },
                    ]);
                    cpu.take_exception(exception);
                    format!("{exception:?}")
                }
                1 => {
                    let word = AL | random.pick(&[0x0ee8_1a10, 0x0ec1_1e10, 0x0ec0_1e10]);
                    execute(&mut cpu, &mut world, word, PC);
                    format!("{word:#x}")
                }
                2 => {
                    // Translated code writes, and traps; what it wrote may be taken over after an abort.
                    let new = random.word();
                    (cpu.page.dacr, cpu.page.fpexc, cpu.page.teehbr) = (new, new & FPEXC_EN, new & !3);
                    (cpu.page.tpidruro, cpu.page.tpidrprw) = (random.word(), random.word());
                    if random.below(2) == 0 {
                        cpu.take_exception(Exception::DataAbort { pc: PC, fsr: random.word(), far: random.word() });
                        assert_eq!((cpu.page.dacr, cpu.page.fpexc), (new, new & FPEXC_EN), "an abort has undone it");
                    }
                    cpu.take_dacr();
                    cpu.take_vfp();
                    "a write of translated code".to_string()
                }
                _ => {
                    let crn = random.pick(&[1, 2, 3, 5, 6, 13, 12, 10]);
                    let register = (crn, 0, random.pick(&[0, 0, 0, 2]), random.below(5));
                    execute(&mut cpu, &mut world, system(false, register), PC);
                    format!("a write to {register:?}")
                }
            };
            check(&cpu, &what);
            shown += u32::from(cpu.page.shown != before);
            // What the interpreter reads is the same.
            let Shown { ttbr0, ifsr, ifar, contextidr, .. } = cpu.page.shown;
            let (register, value) = random.pick(&[
                ((2, 0, 0, 0), ttbr0),
                ((3, 0, 0, 0), cpu.page.dacr),
                ((5, 0, 0, 1), ifsr),
                ((6, 0, 0, 2), ifar),
                ((13, 0, 0, 1), contextidr),
            ]);
            assert_eq!(execute(&mut cpu, &mut world, system(true, register), PC), Step::Next(Effect::None));
            assert_eq!(cpu.regs[1], value, "{register:?} after {what}");
        }
    }
    assert!(shown > 100 || std::env::var_os("SPICA_CASES").is_some(), "{shown} changes");
}

#[test]
fn dacr_is_taken_over_once_and_its_old_value_told() {
    let mut cpu = vcpu();
    assert_eq!(cpu.take_dacr(), None);
    cpu.page.dacr = 0x5555_5551;
    assert_eq!(cpu.take_dacr(), Some(0));
    assert_eq!((cpu.cp15.dacr, cpu.take_dacr()), (0x5555_5551, None));
    // The interpreter tells it in its own way, and leaves nothing to be taken over.
    cpu.regs[1] = 7;
    let step = execute(&mut cpu, &mut World::default(), system(false, (3, 0, 0, 0)), PC);
    assert_eq!(step, Step::Next(Effect::Dacr { old: 0x5555_5551 }));
    assert_eq!((cpu.page.dacr, cpu.take_dacr()), (7, None));
    // Other writes do not bring an old value back.
    cpu.page.dacr = 9;
    cpu.take_dacr();
    execute(&mut cpu, &mut World::default(), system(false, (5, 0, 0, 0)), PC);
    assert_eq!((cpu.page.dacr, cpu.cp15.dacr), (9, 9));
}

#[test]
fn fpexc_and_teehbr_are_taken_over_as_far_as_they_mean_anything() {
    let mut cpu = with_id();
    cpu.page.fpexc = !FPEXC_EN;
    cpu.page.teehbr = u32::MAX;
    assert!(!cpu.take_vfp());
    assert_eq!((cpu.cp15.fpexc, cpu.cp15.teehbr), (0, !3));
    cpu.page.fpexc = u32::MAX;
    assert!(cpu.take_vfp());
    assert!(!cpu.take_vfp());
    assert_eq!(cpu.cp15.fpexc, FPEXC_EN);
    cpu.page.fpexc = 0;
    assert!(cpu.take_vfp());
    assert_eq!(cpu.cp15.fpexc, 0);
}

/// SP and LR of User mode are where translated code finds them, in every mode but User and System.
#[test]
fn the_user_bank_is_in_the_page() {
    let mut world = World::default();
    for &mode in &MODES[1..6] {
        let mut cpu = vcpu();
        cpu.set_cpsr(mode);
        cpu.page.bank[Bank::Usr as usize] = Banked { spsr: 0, sp: 0x1111, lr: 0x2222 };
        (cpu.regs[13], cpu.regs[14]) = (0x3333, 0x4444);
        cpu.regs[0] = RAM + 0x100;
        // STMIA r0, {sp, lr}^
        execute(&mut cpu, &mut world, AL | 0x08c0_6000, PC);
        assert_eq!((world.word(RAM + 0x100), world.word(RAM + 0x104)), (0x1111, 0x2222));
        world.set_word(RAM + 0x100, 0x5555);
        world.set_word(RAM + 0x104, 0x6666);
        execute(&mut cpu, &mut world, AL | 0x08d0_6000, PC);
        assert_eq!(cpu.page.bank[Bank::Usr as usize], Banked { spsr: 0, sp: 0x5555, lr: 0x6666 });
        assert_eq!((cpu.regs[13], cpu.regs[14]), (0x3333, 0x4444));
    }
}
