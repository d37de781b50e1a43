//! CP15 and CP14: every encoding has an answer, registers that are storage keep what is written to them, and what is
//! announced to others is announced rightly.

use crate::support;
use spica_isa::CpReg;
use spica_vcpu::cp15::{Cp15, LineOp, ReadResult, TimerReg, TlbOp, WriteResult};
use spica_vcpu::interp::Step;
use spica_vcpu::{CpuId, Effect};
use support::{World, execute, vcpu};

fn reg(crn: u8, opc1: u8, crm: u8, opc2: u8) -> CpReg {
    CpReg { coproc: 15, opc1, crn, crm, opc2 }
}

fn id() -> CpuId {
    let mut next = 0x1000;
    let mut value = || {
        next += 1;
        next
    };
    CpuId {
        midr: value(),
        ctr: value(),
        tcmtr: value(),
        tlbtr: value(),
        mpidr: value(),
        revidr: value(),
        pfr: [0x1031, value()],
        dfr0: value(),
        afr0: value(),
        mmfr: [value(), value(), value(), value()],
        isar: [value(), value(), value(), value(), value(), value()],
        clidr: value(),
        ccsidr_data: value(),
        ccsidr_instr: value(),
        fpsid: value(),
        mvfr: [value(), value()],
        dbgdidr: value(),
        lpae: false,
    }
}

#[test]
fn every_encoding_has_an_answer() {
    for id in [CpuId::default(), id()] {
        let mut cp15 = Cp15::reset();
        for coproc in 0..16 {
            for crn in 0..16 {
                for crm in 0..16 {
                    for opc1 in 0..8 {
                        for opc2 in 0..8 {
                            let reg = CpReg { coproc, opc1, crn, crm, opc2 };
                            let read = cp15.read(&id, reg, 1, 2);
                            let write = cp15.write(&id, reg, 0xffff_ffff);
                            cp15.write(&id, reg, 0);
                            if coproc != 14 && coproc != 15 {
                                assert_eq!((read, write), (ReadResult::Undefined, WriteResult::Undefined));
                            }
                        }
                    }
                }
            }
        }
    }
}

/// CRn, opc1, CRm, opc2.
type Encoding = (u8, u8, u8, u8);

/// Registers that are storage: encoding, and the bits that are kept.
const STORAGE: &[(Encoding, u32)] = &[
    ((1, 0, 0, 1), u32::MAX),    // ACTLR
    ((1, 0, 0, 2), 0xc0f0_0000), // CPACR
    ((2, 0, 0, 0), u32::MAX),    // TTBR0
    ((2, 0, 0, 1), u32::MAX),    // TTBR1
    ((2, 0, 0, 2), 0x37),        // TTBCR
    ((3, 0, 0, 0), u32::MAX),    // DACR
    ((5, 0, 0, 0), u32::MAX),    // DFSR
    ((5, 0, 0, 1), u32::MAX),    // IFSR
    ((5, 0, 1, 0), u32::MAX),    // ADFSR
    ((5, 0, 1, 1), u32::MAX),    // AIFSR
    ((6, 0, 0, 0), u32::MAX),    // DFAR
    ((6, 0, 0, 2), u32::MAX),    // IFAR
    ((7, 0, 4, 0), u32::MAX),    // PAR
    ((10, 0, 2, 0), u32::MAX),   // PRRR
    ((10, 0, 2, 1), u32::MAX),   // NMRR
    ((12, 0, 0, 0), !0x1f),      // VBAR
    ((13, 0, 0, 1), u32::MAX),   // CONTEXTIDR
    ((13, 0, 0, 2), u32::MAX),   // TPIDRURW
    ((0, 2, 0, 0), 0xf),         // CSSELR
];

#[test]
fn storage_keeps_what_is_written() {
    let mut cp15 = Cp15::reset();
    for value in [u32::MAX, 0x1234_5678, 0] {
        for (n, &((crn, opc1, crm, opc2), _)) in STORAGE.iter().enumerate() {
            let value = value ^ n as u32;
            assert!(matches!(cp15.write(&id(), reg(crn, opc1, crm, opc2), value), WriteResult::Done(_)));
        }
        // Read only when all are written, so that two that share a place are found out.
        for (n, &((crn, opc1, crm, opc2), kept)) in STORAGE.iter().enumerate() {
            let expected = (value ^ n as u32) & kept;
            let found = cp15.read(&id(), reg(crn, opc1, crm, opc2), 0, 0);
            assert_eq!(found, ReadResult::Value(expected), "c{crn}, {opc1}, c{crm}, {opc2}");
        }
    }
}

#[test]
fn sctlr_keeps_its_fixed_bits() {
    let (mut cp15, sctlr) = (Cp15::reset(), reg(1, 0, 0, 0));
    assert_eq!(cp15.sctlr, 0x00c5_0078);
    cp15.write(&id(), sctlr, u32::MAX);
    // M, A, C, SW, Z, I, V, EE, TRE, AFE, TE, and the bits that read as one.
    assert_eq!(cp15.sctlr, 0x7200_3c07 | 0x00c5_0078);
    cp15.write(&id(), sctlr, 0);
    assert_eq!(cp15.sctlr, 0x00c5_0078);
}

#[test]
fn identification() {
    let (id, mut cp15) = (id(), Cp15::reset());
    let read = |crn, opc1, crm, opc2| cp15.read(&id, reg(crn, opc1, crm, opc2), 0, 0);
    assert_eq!(read(0, 0, 0, 0), ReadResult::Value(id.midr));
    assert_eq!(read(0, 0, 0, 1), ReadResult::Value(id.ctr));
    assert_eq!(read(0, 0, 0, 3), ReadResult::Value(id.tlbtr));
    assert_eq!(read(0, 0, 0, 4), ReadResult::Value(id.midr), "an alias");
    assert_eq!(read(0, 0, 0, 5), ReadResult::Value(id.mpidr));
    assert_eq!(read(0, 0, 1, 0), ReadResult::Value(id.pfr[0]));
    assert_eq!(read(0, 0, 1, 1), ReadResult::Value(id.pfr[1]));
    assert_eq!(read(0, 0, 1, 4), ReadResult::Value(id.mmfr[0]));
    assert_eq!(read(0, 0, 1, 7), ReadResult::Value(id.mmfr[3]));
    for n in 0..6 {
        assert_eq!(read(0, 0, 2, n), ReadResult::Value(id.isar[usize::from(n)]));
    }
    assert_eq!(read(0, 0, 2, 7), ReadResult::Value(0));
    assert_eq!(read(0, 1, 0, 1), ReadResult::Value(id.clidr));
    assert_eq!(read(0, 1, 0, 0), ReadResult::Value(id.ccsidr_data));
    cp15.csselr = 1;
    assert_eq!(cp15.read(&id, reg(0, 1, 0, 0), 0, 0), ReadResult::Value(id.ccsidr_instr));
    // None of it can be written.
    let before = format!("{cp15:?}");
    for (opc1, crm, opc2) in [(0, 0, 0), (0, 0, 5), (0, 1, 1), (0, 2, 4), (1, 0, 1)] {
        cp15.write(&id, reg(0, opc1, crm, opc2), 7);
    }
    assert_eq!(format!("{cp15:?}"), before);
}

#[test]
fn effects() {
    let mut cp15 = Cp15::reset();
    let va = 0xc123_4567;
    for ((crn, opc1, crm, opc2), value, effect) in [
        ((1, 0, 0, 0), 1, Effect::Regime),
        ((1, 0, 0, 0), 1 | 1 << 12, Effect::Vectors),
        ((1, 0, 0, 0), 1 | 1 << 12, Effect::None),
        ((1, 0, 0, 0), 1 | 1 << 13, Effect::Vectors),
        ((1, 0, 0, 0), 1 | 1 << 1, Effect::Mirror),
        ((1, 0, 0, 0), 1 << 28, Effect::Regime),
        ((2, 0, 0, 0), 0x4000, Effect::Regime),
        ((2, 0, 0, 0), 0x4000, Effect::None),
        ((13, 0, 0, 1), 5, Effect::Regime),
        ((12, 0, 0, 0), 0x8000_0000, Effect::Vectors),
        ((3, 0, 0, 0), 0x55, Effect::Dacr { old: 0 }),
        ((3, 0, 0, 0), 0x51, Effect::Dacr { old: 0x55 }),
        ((1, 0, 0, 2), 0x00f0_0000, Effect::Vfp),
        ((13, 0, 0, 2), 9, Effect::ThreadIdReadWrite(9)),
        ((8, 0, 7, 0), 0, Effect::Tlb(TlbOp::All)),
        ((8, 0, 5, 0), 0, Effect::Tlb(TlbOp::All)),
        ((8, 0, 6, 1), va, Effect::Tlb(TlbOp::Page { va: 0xc123_4000, asid: Some(0x67) })),
        ((8, 0, 7, 2), 0x67, Effect::Tlb(TlbOp::Asid(0x67))),
        ((8, 0, 7, 3), va, Effect::Tlb(TlbOp::Page { va: 0xc123_4000, asid: None })),
        ((8, 0, 3, 0), 0, Effect::Tlb(TlbOp::All)),
        ((7, 0, 5, 0), 0, Effect::InstructionCache(None)),
        ((7, 0, 1, 0), 0, Effect::InstructionCache(None)),
        ((7, 0, 5, 1), va, Effect::InstructionCache(Some(va))),
        ((7, 0, 5, 6), 0, Effect::BranchPredictor),
        ((7, 0, 5, 7), va, Effect::BranchPredictor),
        ((7, 0, 6, 1), va, Effect::DataCache(LineOp::Invalidate, va)),
        ((7, 0, 10, 1), va, Effect::DataCache(LineOp::CleanToPoc, va)),
        ((7, 0, 11, 1), va, Effect::DataCache(LineOp::CleanToPou, va)),
        ((7, 0, 14, 1), va, Effect::DataCache(LineOp::CleanInvalidate, va)),
        ((7, 0, 6, 2), 0, Effect::None),
        ((7, 0, 10, 2), 0, Effect::DataCacheBySet),
        ((7, 0, 14, 2), 0, Effect::DataCacheBySet),
        ((7, 0, 8, 0), va, Effect::Translate { va, privileged: true, write: false }),
        ((7, 0, 8, 1), va, Effect::Translate { va, privileged: true, write: true }),
        ((7, 0, 8, 2), va, Effect::Translate { va, privileged: false, write: false }),
        ((7, 0, 8, 3), va, Effect::Translate { va, privileged: false, write: true }),
        ((7, 0, 0, 4), 0, Effect::WaitForInterrupt),
    ] {
        let found = cp15.write(&id(), reg(crn, opc1, crm, opc2), value);
        assert_eq!(found, WriteResult::Done(effect), "c{crn}, {opc1}, c{crm}, {opc2} = {value:#x}");
    }
    assert_eq!(cp15.asid(), 5);
}

#[test]
fn the_timer_is_reached_by_both_kinds_of_move() {
    let (mut cpu, mut world) = (vcpu(), World::default());
    let base = 0x0123_4567_89ab_cd00u64;
    for (crm, opc2, timer) in [
        (0, 0, TimerReg::Cntfrq),
        (1, 0, TimerReg::Cntkctl),
        (2, 0, TimerReg::CntpTval),
        (2, 1, TimerReg::CntpCtl),
        (3, 0, TimerReg::CntvTval),
        (3, 1, TimerReg::CntvCtl),
    ] {
        let word = 0xee0e_1f10 | opc2 << 5 | crm;
        assert_eq!(execute(&mut cpu, &mut world, word | 1 << 20, 0), Step::Next(Effect::None));
        assert_eq!(cpu.regs[1], (base | timer as u64) as u32);
        cpu.regs[1] = 0x55;
        assert_eq!(execute(&mut cpu, &mut world, word, 0), Step::Next(Effect::None));
        assert_eq!(world.timer.pop(), Some((timer, 0x55)));
    }
    for (opc1, timer, writable) in [
        (0, TimerReg::Cntpct, false),
        (1, TimerReg::Cntvct, false),
        (2, TimerReg::CntpCval, true),
        (3, TimerReg::CntvCval, true),
    ] {
        let word = 0xec42_1f0e | opc1 << 4;
        assert_eq!(execute(&mut cpu, &mut world, word | 1 << 20, 0), Step::Next(Effect::None));
        let value = base | timer as u64;
        assert_eq!((cpu.regs[1], cpu.regs[2]), (value as u32, (value >> 32) as u32));
        let step = execute(&mut cpu, &mut world, word, 0);
        assert_eq!(step == Step::Next(Effect::None), writable);
        assert_eq!(world.timer.pop(), writable.then_some((timer, value)));
    }
}

#[test]
fn the_unconditional_moves_are_undefined() {
    let (mut cpu, mut world) = (vcpu(), World::default());
    // MRC2 and MCR2 of SCTLR, MRRC2 and MCRR2 of the counter's compare value
    for word in [0xfe11_1f10, 0xfe01_1f10, 0xfc52_1f2e, 0xfc42_1f2e] {
        assert_eq!(execute(&mut cpu, &mut world, word, 0), Step::Undefined, "{word:#x}");
    }
    assert_eq!(world.timer, []);
}

#[test]
fn thread_ids_live_in_the_page() {
    let (mut cpu, mut world) = (vcpu(), World::default());
    cpu.regs[1] = 0x1111;
    assert_eq!(execute(&mut cpu, &mut world, 0xee0d_1f70, 0), Step::Next(Effect::ThreadIdReadOnly(0x1111)));
    cpu.regs[1] = 0x2222;
    assert_eq!(execute(&mut cpu, &mut world, 0xee0d_1f90, 0), Step::Next(Effect::None));
    assert_eq!((cpu.page.tpidruro, cpu.page.tpidrprw), (0x1111, 0x2222));
    execute(&mut cpu, &mut world, 0xee1d_3f70, 0);
    execute(&mut cpu, &mut world, 0xee1d_4f90, 0);
    assert_eq!((cpu.regs[3], cpu.regs[4]), (0x1111, 0x2222));
}

#[test]
fn vfp_system_registers_need_the_coprocessor() {
    let (mut cpu, mut world) = (vcpu(), World::default());
    cpu.id = id();
    // VMRS r1, FPEXC; VMSR FPEXC, r1
    assert_eq!(execute(&mut cpu, &mut world, 0xeef8_1a10, 0), Step::Undefined);
    cpu.cp15.cpacr = 0x00f0_0000;
    cpu.regs[1] = 1 << 30 | 0x1234;
    assert_eq!(execute(&mut cpu, &mut world, 0xeee8_1a10, 0), Step::Next(Effect::Vfp));
    assert_eq!(execute(&mut cpu, &mut world, 0xeef8_2a10, 0), Step::Next(Effect::None));
    assert_eq!(cpu.regs[2], 1 << 30);
    for (sysreg, expected) in [(0, cpu.id.fpsid), (7, cpu.id.mvfr[0]), (6, cpu.id.mvfr[1])] {
        execute(&mut cpu, &mut world, 0xeef0_2a10 | sysreg << 16, 0);
        assert_eq!(cpu.regs[2], expected);
    }
}

#[test]
fn thumbee_registers_exist_with_thumbee() {
    let mut cp15 = Cp15::reset();
    let teecr = CpReg { coproc: 14, opc1: 6, crn: 0, crm: 0, opc2: 0 };
    let teehbr = CpReg { crn: 1, ..teecr };
    assert_eq!(cp15.read(&CpuId::default(), teecr, 0, 0), ReadResult::Undefined);
    cp15.write(&id(), teecr, u32::MAX);
    cp15.write(&id(), teehbr, u32::MAX);
    assert_eq!(cp15.read(&id(), teecr, 0, 0), ReadResult::Value(1));
    assert_eq!(cp15.read(&id(), teehbr, 0, 0), ReadResult::Value(!3));
}

#[test]
fn long_descriptors_are_there_for_those_who_were_given_them() {
    let ttbcr = CpReg { coproc: 15, opc1: 0, crn: 2, crm: 0, opc2: 2 };
    let (without, with) = (id(), CpuId { lpae: true, ..id() });
    let mut cp15 = Cp15::reset();
    // On other cores EAE does not exist, nor do 64-bit registers.
    cp15.write(&without, ttbcr, u32::MAX);
    assert_eq!(cp15.ttbcr, 0x37);
    assert_eq!(cp15.write_wide(&without, 0, 2, [1, 2]), None);
    assert_eq!(cp15.read_wide(&without, 0, 2), None);

    cp15.write(&with, ttbcr, 0x7fff_ffff);
    assert_eq!(cp15.ttbcr, 0x37, "without EAE, the format is the short one");
    assert_eq!(cp15.write(&with, ttbcr, 0x8000_0f00), WriteResult::Done(Effect::Regime));
    assert_eq!(cp15.ttbcr, 0x8000_0f00);
    for (opc1, crm) in [(0, 2), (1, 2)] {
        let value = [0x0012_0003 << opc1, 0x4000_0000 + u32::from(opc1)];
        assert_eq!(cp15.write_wide(&with, opc1, crm, value), Some(Effect::Regime));
        assert_eq!(cp15.write_wide(&with, opc1, crm, value), Some(Effect::None), "nothing changes");
        assert_eq!(cp15.read_wide(&with, opc1, crm), Some(value));
    }
    assert_eq!((cp15.ttbr0, cp15.ttbr1, cp15.asid()), (0x4000_0000, 0x4000_0001, 0x12));
    cp15.write(&with, ttbcr, 1 << 31 | 1 << 22);
    assert_eq!(cp15.asid(), 0x24, "TTBCR.A1: it is TTBR1's");
    assert_eq!(cp15.write_wide(&with, 0, 7, [1, 2]), Some(Effect::None));
    assert_eq!(cp15.read_wide(&with, 0, 7), Some([1, 2]));
    assert_eq!((cp15.read_wide(&with, 2, 2), cp15.read_wide(&with, 1, 7)), (None, None));
}
