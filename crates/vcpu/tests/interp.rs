//! The interpreter: loads and stores with the right permissions, aborts that leave everything as it was, results of
//! data processing, and no panic whatever the instruction, the registers and the vCPU page are.

use crate::support;
use spica_isa::{DpOp, ModImm, Operand2, Reg, ShiftType};
use spica_vcpu::alu;
use spica_vcpu::interp::{Abort, Step};
use spica_vcpu::{Banked, Effect, Exception, Shown};
use support::{
    ABSENT, ALIGNMENT, Access, PERMISSION, PRIVILEGED, RAM, Random, SVC, Seed, TRANSLATION, USR, WRITE, World, cases,
    execute, snapshot, vcpu,
};

const AL: u32 = 14 << 28;
const PC: u32 = 0x8000;

#[test]
fn unprivileged_transfers_have_user_permissions() {
    // LDRT, LDRBT, LDRHT, LDRSBT, LDRSHT, STRT, STRBT, STRHT r1, [r2], #4
    for (word, bytes, write) in [
        (0x04b2_1004, 4, false),
        (0x04f2_1004, 1, false),
        (0x00f2_10b4, 2, false),
        (0x00f2_10d4, 1, false),
        (0x00f2_10f4, 2, false),
        (0x04a2_1004, 4, true),
        (0x04e2_1004, 1, true),
        (0x00e2_10b4, 2, true),
    ] {
        let (mut cpu, mut world) = (vcpu(), World::default());
        world.set_word(RAM + 8, 0xffff_80f1);
        (cpu.regs[1], cpu.regs[2]) = (0x1234_5678, RAM + 8);
        assert_eq!(execute(&mut cpu, &mut world, AL | word, PC), Step::Next(Effect::None));
        assert_eq!(world.log, [Access { va: RAM + 8, bytes, write, privileged: false }]);
        assert_eq!(cpu.regs[2], RAM + 12, "{word:#x}: written back");
        if !write {
            let expected = match word & 0xf0 {
                0xd0 => 0xffff_fff1,
                0xf0 => 0xffff_80f1,
                _ => 0xffff_80f1 & u32::MAX >> (32 - 8 * bytes),
            };
            assert_eq!(cpu.regs[1], expected, "{word:#x}");
        } else {
            let mask = u32::MAX >> (32 - 8 * bytes);
            assert_eq!(world.word(RAM + 8), 0xffff_80f1 & !mask | 0x1234_5678 & mask);
        }
        // What only privileged code may reach, faults, and nothing changes.
        cpu.regs[2] = PRIVILEGED;
        let before = snapshot(&cpu);
        let fsr = PERMISSION | if write { WRITE } else { 0 };
        assert_eq!(execute(&mut cpu, &mut world, AL | word, PC), Step::Abort(Abort { fsr, far: PRIVILEGED }));
        assert_eq!(snapshot(&cpu), before);
    }
}

#[test]
fn other_transfers_have_the_permissions_of_the_mode() {
    for (mode, privileged) in [(SVC, true), (USR, false)] {
        for word in [0x0592_1000, 0x0582_1000, 0x08b2_0018, 0x08a2_0018, 0x01c2_40d0] {
            let (mut cpu, mut world) = (vcpu(), World::default());
            cpu.set_cpsr(mode);
            cpu.regs[2] = PRIVILEGED;
            let step = execute(&mut cpu, &mut world, AL | word, PC);
            assert!(!world.log.is_empty(), "{word:#x} reached no memory");
            assert!(world.log.iter().all(|access| access.privileged == privileged), "{word:#x} in mode {mode:#x}");
            assert_eq!(step == Step::Next(Effect::None), privileged);
        }
    }
}

/// All addressing of LDR and STR, in short: address and written-back base by hand.
#[test]
fn addressing_modes() {
    // (word without condition, address, base afterwards), with r2 = RAM + 0x100, r3 = 0x10, C = 1
    let base = RAM + 0x100;
    for (word, address, after) in [
        (0x0592_1004, base + 4, base),                 // [r2, #4]
        (0x0512_1004, base - 4, base),                 // [r2, #-4]
        (0x05b2_1004, base + 4, base + 4),             // [r2, #4]!
        (0x0492_1004, base, base + 4),                 // [r2], #4
        (0x0412_1004, base, base - 4),                 // [r2], #-4
        (0x0792_1003, base + 0x10, base),              // [r2, r3]
        (0x0712_1003, base - 0x10, base),              // [r2, -r3]
        (0x0792_1103, base + 0x40, base),              // [r2, r3, LSL #2]
        (0x0792_1123, base + 4, base),                 // [r2, r3, LSR #2]
        (0x0792_1023, base, base),                     // [r2, r3, LSR #32]
        (0x06b2_1003 & !(1 << 21), base, base + 0x10), // [r2], r3
        (0x01d2_10b4, base + 4, base),                 // LDRH [r2, #4]
        (0x01f2_10b4, base + 4, base + 4),             // LDRH [r2, #4]!
        (0x0112_10b3, base - 0x10, base),              // LDRH [r2, -r3]
    ] {
        let (mut cpu, mut world) = (vcpu(), World::default());
        (cpu.regs[2], cpu.regs[3]) = (base, 0x10);
        world.set_word(address, 0x0000_7654);
        assert_eq!(execute(&mut cpu, &mut world, AL | word, PC), Step::Next(Effect::None), "{word:#x}");
        assert_eq!((cpu.regs[1], cpu.regs[2]), (0x7654, after), "{word:#x}");
    }
    // RRX: [r2, r3, RRX] with the carry clear
    let (mut cpu, mut world) = (vcpu(), World::default());
    (cpu.regs[2], cpu.regs[3]) = (base, 8);
    world.set_word(base + 4, 77);
    execute(&mut cpu, &mut world, AL | 0x0792_1063, PC);
    assert_eq!(cpu.regs[1], 77);
    // The PC: LDR pc, [r2] branches; STR pc, [r2] stores the address + 8; LDR r1, [pc, #8] reads there.
    world.set_word(base, 0x1235);
    assert_eq!(execute(&mut cpu, &mut world, AL | 0x0592_f000, PC), Step::Branch(0x1235));
    execute(&mut cpu, &mut world, AL | 0x0582_f000, PC);
    assert_eq!(world.word(base), PC + 8);
    world.set_word(RAM + 0x10, 99);
    execute(&mut cpu, &mut world, AL | 0x059f_1008, RAM);
    assert_eq!(cpu.regs[1], 99);
}

/// Every form of transfer whose second part, or whose only part, faults: the CPU is as before.
#[test]
fn an_abort_leaves_the_cpu_as_it_was() {
    let words = [
        (0x0592_1000, 4),  // LDR r1, [r2]
        (0x05b2_1004, 4),  // LDR r1, [r2, #4]!
        (0x0492_1004, 4),  // LDR r1, [r2], #4
        (0x0582_1000, 4),  // STR
        (0x04a2_1004, 4),  // STRT
        (0x0592_f000, 4),  // LDR pc
        (0x01c2_40d0, 8),  // LDRD
        (0x01e2_40d8, 8),  // LDRD r4, [r2, #8]!
        (0x00c2_40f8, 8),  // STRD r4, [r2], #8
        (0x08b2_00f8, 20), // LDM r2!, {r3-r7}
        (0x0892_00fc, 24), // LDM r2, {r2-r7}
        (0x08a2_00f8, 20), // STM r2!
        (0x08d2_7f00, 28), // LDM r2, {r8-r14}^
        (0x08c2_7f00, 28), // STM r2, {r8-r14}^
        (0x08f2_8018, 12), // LDM r2!, {r3, r4, pc}^
        (0x08b2_8018, 12), // LDM r2!, {r3, r4, pc}
    ];
    for mode in [SVC, support::FIQ, support::IRQ] {
        for (word, bytes) in words {
            for part in [4u32, bytes].into_iter().filter(|part| part % 4 == 0) {
                let (mut cpu, mut world) = (vcpu(), World::default());
                cpu.set_cpsr(mode | support::FLAGS);
                for n in 0..15 {
                    cpu.regs[n] = 0x5000 + n as u32;
                }
                // All but `part` bytes lie in the page that is there.
                let indexed = if word == 0x05b2_1004 {
                    4
                } else if word == 0x01e2_40d8 {
                    8
                } else {
                    0
                };
                cpu.regs[2] = ABSENT - (bytes - part) - indexed;
                let before = snapshot(&cpu);
                let write = word >> 20 & 1 == 0 && word != 0x01c2_40d0 && word != 0x01e2_40d8;
                let step = execute(&mut cpu, &mut world, AL | word, PC);
                let fsr = TRANSLATION | if write { WRITE } else { 0 };
                assert_eq!(step, Step::Abort(Abort { fsr, far: ABSENT }), "{word:#x}");
                assert_eq!(snapshot(&cpu), before, "{word:#x}");
            }
        }
        for (word, write) in [(0xf8b2_0a00, false), (0xf96d_0500 | mode, true)] {
            let (mut cpu, mut world) = (vcpu(), World::default());
            cpu.set_cpsr(mode);
            cpu.regs[2] = ABSENT - 4;
            cpu.regs[13] = ABSENT + 4;
            let before = snapshot(&cpu);
            let fsr = TRANSLATION | if write { WRITE } else { 0 };
            assert_eq!(execute(&mut cpu, &mut world, word, PC), Step::Abort(Abort { fsr, far: ABSENT }), "{word:#x}");
            assert_eq!(snapshot(&cpu), before, "{word:#x}");
        }
    }
}

/// Transfers of several words need a word-aligned address (A3.2.1).
#[test]
fn misaligned_transfers_of_several_words_fault() {
    for (word, write) in [
        (AL | 0x01c2_40d0, false),
        (AL | 0x01c2_40f0, true),
        (AL | 0x0892_0018, false),
        (AL | 0x0882_0018, true),
        (AL | 0x08d2_6000, false),
        (AL | 0x08c2_6000, true),
        (AL | 0x08b2_8018, false),
        (AL | 0x08f2_8018, false),
        (0xf892_0a00, false),
        (0xf8cd_0513, true),
    ] {
        for off in 1..4 {
            let (mut cpu, mut world) = (vcpu(), World::default());
            (cpu.regs[2], cpu.regs[13]) = (RAM + off, RAM + off);
            let before = snapshot(&cpu);
            let fsr = ALIGNMENT | if write { WRITE } else { 0 };
            assert_eq!(
                execute(&mut cpu, &mut world, word, PC),
                Step::Abort(Abort { fsr, far: RAM + off }),
                "{word:#x}"
            );
            assert_eq!(snapshot(&cpu), before);
            assert_eq!(world.log, []);
        }
    }
}

/// Shifts a place at a time.
fn slow_shift(value: u32, kind: ShiftType, amount: u32) -> u32 {
    (0..amount).fold(value, |value, _| match kind {
        ShiftType::Lsl => value << 1,
        ShiftType::Lsr => value >> 1,
        ShiftType::Asr => value >> 1 | value & 0x8000_0000,
        ShiftType::Ror => value.rotate_right(1),
    })
}

#[test]
fn second_operands() {
    let kinds = [ShiftType::Lsl, ShiftType::Lsr, ShiftType::Asr, ShiftType::Ror];
    let values = [0, 1, 0x8000_0000, 0x7fff_ffff, 0xffff_ffff, 0x1234_5678, 0x8765_4321];
    for value in values {
        for kind in kinds {
            for amount in 0..32u8 {
                for carry in [false, true] {
                    let op2 = Operand2::Shifted { rm: Reg::new(1), shift: kind, amount };
                    let places = match (kind, amount) {
                        (ShiftType::Lsr | ShiftType::Asr, 0) => 32,
                        (_, n) => u32::from(n),
                    };
                    let expected = if (kind, amount) == (ShiftType::Ror, 0) {
                        value >> 1 | u32::from(carry) << 31
                    } else {
                        slow_shift(value, kind, places)
                    };
                    assert_eq!(alu::operand2(op2, carry, &|_| value), expected, "{value:#x} {kind:?} #{amount}");
                }
            }
            // By a register: its low byte, 0 included.
            for places in (0..256u32).chain([0x100, 0xffff_ff04]) {
                let op2 = Operand2::ShiftedByReg { rm: Reg::new(1), shift: kind, rs: Reg::new(2) };
                let found = alu::operand2(op2, true, &|reg| if reg.n() == 1 { value } else { places });
                assert_eq!(found, slow_shift(value, kind, places & 0xff), "{value:#x} {kind:?} by {places}");
            }
        }
    }
    for field in 0..0x1000u32 {
        let expected = (0..field >> 8).fold(field & 0xff, |value, _| value.rotate_right(2));
        assert_eq!(alu::operand2(Operand2::Imm(ModImm::from_field(field)), false, &|_| 0), expected);
    }
}

#[test]
fn data_processing_results() {
    use DpOp::*;
    let mut random = Random::new(3);
    for _ in 0..20_000 {
        let pick = |random: &mut Random| random.pick(&[0, 1, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff]);
        let (a, b) =
            if random.one_in(2) { (pick(&mut random), pick(&mut random)) } else { (random.word(), random.word()) };
        for carry in [false, true] {
            let (wide_a, wide_b, c) = (u64::from(a), u64::from(b), u64::from(carry));
            let modulo = 1u64 << 32;
            for (op, expected) in [
                (And, wide_a & wide_b),
                (Eor, wide_a ^ wide_b),
                (Sub, wide_a + modulo - wide_b),
                (Rsb, wide_b + modulo - wide_a),
                (Add, wide_a + wide_b),
                (Adc, wide_a + wide_b + c),
                (Sbc, wide_a + modulo - wide_b - 1 + c),
                (Rsc, wide_b + modulo - wide_a - 1 + c),
                (Tst, wide_a & wide_b),
                (Teq, wide_a ^ wide_b),
                (Cmp, wide_a + modulo - wide_b),
                (Cmn, wide_a + wide_b),
                (Orr, wide_a | wide_b),
                (Mov, wide_b),
                (Bic, wide_a & (modulo - 1 - wide_b)),
                (Mvn, modulo - 1 - wide_b),
            ] {
                assert_eq!(alu::result(op, a, b, carry), expected as u32, "{op:?} of {a:#x}, {b:#x}, C = {carry}");
            }
        }
    }
}

#[test]
fn branches() {
    let (mut cpu, mut world) = (vcpu(), World::default());
    cpu.regs[1] = 0x1235;
    assert_eq!(execute(&mut cpu, &mut world, AL | 0x0a00_0002, PC), Step::Branch(PC + 16));
    assert_eq!(cpu.regs[14], 0);
    assert_eq!(execute(&mut cpu, &mut world, AL | 0x0bff_fffe, PC), Step::Branch(PC));
    assert_eq!(cpu.regs[14], PC + 4);
    assert_eq!(execute(&mut cpu, &mut world, AL | 0x012f_ff11, PC), Step::Branch(0x1235));
    cpu.regs[14] = 0x4321;
    assert_eq!(execute(&mut cpu, &mut world, AL | 0x012f_ff3e, PC), Step::Branch(0x4321));
    assert_eq!(cpu.regs[14], PC + 4, "BLX lr reads LR before it writes it");
    assert_eq!(execute(&mut cpu, &mut world, AL | 0x012f_ff21, PC), Step::Branch(0x1235), "BXJ is BX");
    // BLX to Thumb, over a halfword
    assert_eq!(execute(&mut cpu, &mut world, 0xfb00_0000, PC), Step::Branch(PC + 8 + 2 + 1));
    // ADD pc, pc, r1, LSL #2
    cpu.regs[1] = 3;
    assert_eq!(execute(&mut cpu, &mut world, AL | 0x008f_f101, PC), Step::Branch(PC + 8 + 12));
}

#[test]
fn what_is_left_to_others() {
    let (mut cpu, mut world) = (vcpu(), World::default());
    for (word, expected) in [
        (AL | 0x0f00_0000, Step::SupervisorCall),
        (AL | 0x0160_0070, Step::SecureMonitorCall),
        (AL | 0x0120_0070, Step::Breakpoint),
        (AL | 0x0320_f003, Step::Wait),
        (AL | 0x0320_f002, Step::Next(Effect::None)),
        (AL | 0x07f0_00f0, Step::Undefined),
        (0xffff_ffff, Step::Undefined),
        (AL | 0x0e00_0000, Step::Undefined),         // CDP p0
        (AL | 0x0d90_0000, Step::Undefined),         // LDC p0
        (AL | 0x0140_0070, Step::SecureMonitorCall), // HVC
    ] {
        let before = snapshot(&cpu);
        assert_eq!(execute(&mut cpu, &mut world, word, PC), expected, "{word:#x}");
        assert_eq!(snapshot(&cpu), before);
    }
    // Nothing of User mode's (B9.3.4).
    cpu.set_cpsr(USR);
    assert_eq!(execute(&mut cpu, &mut world, AL | 0x0140_0070, PC), Step::Undefined);
}

/// Fills the vCPU page with whatever a guest can write there.
fn poison(cpu: &mut spica_vcpu::Cpu, random: &mut Random) {
    let mut garbage = || if random.one_in(4) { random.pick(&[0, 1, 0x1f, 0x10, u32::MAX]) } else { random.word() };
    let page = &mut *cpu.page;
    page.target = garbage();
    page.control = garbage();
    page.pending = garbage();
    page.spsr = garbage();
    page.tpidrprw = garbage();
    page.tpidruro = garbage();
    for word in [
        &mut page.stale,
        &mut page.dacr,
        &mut page.dacr_real,
        &mut page.dacr_site,
        &mut page.fpexc,
        &mut page.fpexc_real,
        &mut page.teehbr,
    ] {
        *word = garbage();
    }
    page.bank.fill_with(|| Banked { spsr: garbage(), sp: garbage(), lr: garbage() });
    let ctr = garbage();
    page.shown =
        Shown { ctr, sctlr: ctr, ttbr0: ctr, ttbr1: ctr, contextidr: ctr, dfsr: ctr, ifsr: ctr, dfar: ctr, ifar: ctr };
    page.spill.fill_with(&mut garbage);
    page.bank_r8_r12.fill_with(&mut garbage);
}

/// Whatever the guest writes into its page, the mode is one that exists and nothing panics.
#[test]
fn a_hostile_page() {
    for seed in cases(400) {
        let _seed = Seed(seed);
        let mut random = Random::new(seed);
        let (mut cpu, mut world) = (vcpu(), World::default());
        for _ in 0..100 {
            poison(&mut cpu, &mut random);
            assert!(support::MODES.contains(&(cpu.cpsr() & 0x1f)));
            cpu.regs.fill_with(|| random.word());
            let word = match random.below(4) {
                0 => random.word(),
                // System instructions: SRS, RFE, CPS, MSR, LDM ^, MOVS pc, MRC, MCR, MRRC, VMRS.
                1 => random.pick(&[0xf84d_0500, 0xf810_0a00, 0xf102_0000]) | random.word() & 0x01af_001f,
                2 => AL | random.pick(&[0x0120_f000, 0x0160_f000, 0x010f_0000, 0x014f_0000]) | random.word() & 0xff00f,
                _ => {
                    let form =
                        random.pick(&[0x0e00_0f10, 0x0e00_0e10, 0x0c40_0f00, 0x0ee0_0a10, 0x0850_0000, 0x01b0_f000]);
                    AL | form | random.word() & 0x01bf_f0ff
                }
            };
            let pc = random.word() & !3;
            let old = cpu.cp15.dacr;
            let written = cpu.page.dacr;
            assert_eq!(cpu.take_dacr(), (old != written).then_some(old));
            cpu.take_vfp();
            assert_eq!((cpu.cp15.fpexc & !(1 << 30), cpu.cp15.teehbr & 3), (0, 0), "only what means anything");
            execute(&mut cpu, &mut world, word, pc);
            let far = random.word();
            cpu.take_exception(random.pick(&[
                Exception::Undefined { pc },
                Exception::SupervisorCall { pc },
                Exception::PrefetchAbort { pc, fsr: 5, far },
                Exception::DataAbort { pc, fsr: 5, far },
                Exception::Irq { pc },
                Exception::Fiq { pc },
            ]));
            poison(&mut cpu, &mut random);
            for n in 0..15 {
                let value = cpu.user_reg(n);
                cpu.set_user_reg(n, value);
            }
            world.log.clear();
            world.timer.clear();
        }
    }
}

/// Any word at all, with any registers, in any mode. An abort leaves them as they were.
#[test]
fn any_instruction() {
    let mut aborts = 0;
    for seed in cases(200) {
        let _seed = Seed(seed);
        let mut random = Random::new(seed);
        let (mut cpu, mut world) = (vcpu(), World::default());
        for _ in 0..1000 {
            cpu.set_cpsr(random.word() & !0x1f | random.pick(&support::MODES));
            cpu.regs.fill_with(|| if random.one_in(2) { RAM + random.below(0x2100) } else { random.word() });
            let (before, word) = (snapshot(&cpu), random.word());
            let step = execute(&mut cpu, &mut world, word, 0xffff_fff0 + random.below(4) * 4);
            if let Step::Abort(_) = step {
                assert_eq!(snapshot(&cpu), before, "{word:#x}");
                aborts += 1;
            }
            world.log.clear();
            world.timer.clear();
        }
    }
    assert!(aborts > 1000 || std::env::var_os("SPICA_CASES").is_some(), "{aborts} aborts");
}
