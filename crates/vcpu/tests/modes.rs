//! Modes, banked registers and exceptions: random sequences of everything that changes the mode, against a model that
//! has one cell for each register of figure B1-2; and each exception from each state, by the tables of B1.8 and B1.9.

use crate::support;
use spica_vcpu::Exception;
use spica_vcpu::cp15::{SCTLR_EE, SCTLR_TE, SCTLR_V};
use spica_vcpu::interp::Step;
use spica_vcpu::psr::{self, Mode};
use support::{
    A, ABT, E, F, FIQ, FLAGS, I, IRQ, IT, MODES, RAM, Random, Registers, SVC, SYS, Seed, T, UND, USR, World, cases,
    execute, vcpu,
};

const AL: u32 = 14 << 28;
const PC: u32 = 0x8000;

/// An exception, with what the tables say of it: mode, vector, LR in A32 and in T32 state, masks.
fn exceptions(pc: u32) -> [(Exception, u32, u32, u32, u32, u32); 6] {
    let (fsr, far) = (0x805, 0x1234_5678);
    [
        (Exception::Undefined { pc }, UND, 0x04, pc + 4, pc + 2, I),
        (Exception::SupervisorCall { pc }, SVC, 0x08, pc + 4, pc + 2, I),
        (Exception::PrefetchAbort { pc, fsr, far }, ABT, 0x0c, pc + 4, pc + 4, I | A),
        (Exception::DataAbort { pc, fsr, far }, ABT, 0x10, pc + 8, pc + 8, I | A),
        (Exception::Irq { pc }, IRQ, 0x18, pc + 4, pc + 4, I | A),
        (Exception::Fiq { pc }, FIQ, 0x1c, pc + 4, pc + 4, I | A | F),
    ]
}

#[test]
fn each_exception_from_each_mode_and_state() {
    for mode in MODES {
        for thumb in [false, true] {
            for masks in [0, I, F, A, A | I | F] {
                for sctlr in [0, SCTLR_V, SCTLR_TE, SCTLR_EE, SCTLR_V | SCTLR_TE | SCTLR_EE] {
                    for (exception, new_mode, vector, lr_arm, lr_thumb, new_masks) in exceptions(PC) {
                        let mut cpu = vcpu();
                        cpu.cp15.vbar = 0x4000_0040;
                        cpu.cp15.sctlr = sctlr;
                        let it = if thumb { IT & 0x0400_a400 } else { 0 };
                        let old = FLAGS & 0xa80a_0000 | it | E | masks | u32::from(thumb) << 5 | mode;
                        cpu.set_cpsr(old);
                        assert_eq!(cpu.cpsr(), old);
                        for n in 0..15 {
                            cpu.regs[n] = 0x100 + n as u32;
                        }
                        let target = cpu.take_exception(exception);
                        let what = format!("{exception:?} from mode {mode:#x}, T = {thumb}, SCTLR {sctlr:#x}");
                        let base = if sctlr & SCTLR_V != 0 { 0xffff_0000 } else { 0x4000_0040 };
                        let to_thumb = sctlr & SCTLR_TE != 0;
                        assert_eq!(target, base + vector + u32::from(to_thumb), "{what}");
                        assert_eq!(cpu.regs[14], if thumb { lr_thumb } else { lr_arm }, "{what}");
                        assert_eq!(cpu.page.spsr, old, "{what}");
                        let mut new = old & FLAGS | masks | new_masks | new_mode;
                        new |= if to_thumb { T } else { 0 };
                        new |= if sctlr & SCTLR_EE != 0 { E } else { 0 };
                        assert_eq!(cpu.cpsr(), new, "{what}");
                        match exception {
                            Exception::DataAbort { fsr, far, .. } => {
                                assert_eq!((cpu.cp15.dfsr, cpu.cp15.dfar), (fsr, far));
                            }
                            Exception::PrefetchAbort { fsr, far, .. } => {
                                assert_eq!((cpu.cp15.ifsr, cpu.cp15.ifar), (fsr, far));
                            }
                            _ => assert_eq!((cpu.cp15.dfsr, cpu.cp15.ifsr, cpu.cp15.dfar, cpu.cp15.ifar), (0, 0, 0, 0)),
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn what_reaches_the_real_cpsr_is_sanitized() {
    let mut random = Random::new(7);
    for _ in 0..10_000 {
        let value = random.word();
        let clean = psr::sanitize(value);
        assert_eq!(clean & 0x1f, USR);
        assert_eq!(clean & (A | I | F | psr::J), 0);
        assert_eq!(clean & (FLAGS | T | E), value & (FLAGS | T | E));
        assert_eq!(clean & IT, if value & T != 0 { value & IT } else { 0 });
        assert_eq!(clean & 0x00f0_0000, 0);
    }
    for bits in 0..32 {
        assert_eq!(Mode::from_bits(bits).map(|mode| mode as u32), MODES.contains(&bits).then_some(bits));
    }
}

/// `MSR` of each set of fields, from each mode, of values with every bit: only what B1.3.3 lets it change changes.
#[test]
fn msr_writes_just_what_it_may() {
    let mut world = World::default();
    for mode in MODES {
        for mask in 1..16u32 {
            for value in [0, u32::MAX, 0x5555_5555, 0xaaaa_aaaa, USR, FIQ | I, SYS | F | T, 0x16, 0x1a, 0x14 | A] {
                for old in [mode, FLAGS | E | A | I | F | mode] {
                    let mut cpu = vcpu();
                    cpu.set_cpsr(old);
                    cpu.regs[3] = value;
                    cpu.regs[2] = 2;
                    let step = execute(&mut cpu, &mut world, AL | 0x0120_f003 | mask << 16, PC);
                    assert_eq!(step, Step::Return(PC + 4));
                    let mut writable = 0;
                    writable |= if mask & 8 != 0 { 0xf800_0000 } else { 0 };
                    writable |= if mask & 4 != 0 { 0x000f_0000 } else { 0 };
                    writable |= if mask & 2 != 0 { E } else { 0 };
                    if mode != USR {
                        writable |= if mask & 2 != 0 { A } else { 0 };
                        writable |= if mask & 1 != 0 { I | F } else { 0 };
                        if mask & 1 != 0 && MODES.contains(&(value & 0x1f)) {
                            writable |= 0x1f;
                        }
                    }
                    let expected = old & !writable | value & writable;
                    assert_eq!(cpu.cpsr(), expected, "{value:#x} to fields {mask:#x} of {old:#x}");
                }
            }
        }
    }
}

#[test]
fn msr_of_the_spsr_writes_whole_bytes() {
    let mut world = World::default();
    for mask in 1..16u32 {
        let mut cpu = vcpu();
        cpu.page.spsr = 0x1122_3344;
        cpu.regs[3] = 0xaabb_ccdd;
        assert!(matches!(execute(&mut cpu, &mut world, AL | 0x0160_f003 | mask << 16, PC), Step::Next(_)));
        let byte = |n: u32| if mask >> n & 1 != 0 { cpu.regs[3] } else { 0x1122_3344 } & 0xff << (8 * n);
        assert_eq!(cpu.page.spsr, byte(0) | byte(1) | byte(2) | byte(3));
    }
}

/// A value for a PSR: a mode that exists, any other bits, T and IT included.
fn status(random: &mut Random) -> u32 {
    random.word() & !0x1f | random.pick(&MODES)
}

/// The CPSR that an exception return of `value` gives: no J, IT only with T, bits 23:20 read as zero.
fn returned(value: u32) -> u32 {
    let it = if value & T != 0 { value & IT } else { 0 };
    value & (FLAGS | E | A | I | F | T | 0x1f) | it
}

/// One random operation on both.
fn operate(cpu: &mut spica_vcpu::Cpu, model: &mut Registers, world: &mut World, random: &mut Random) -> String {
    let mode = model.mode();
    match random.below(12) {
        0..=2 => {
            let n = random.below(15) as usize;
            let value = random.word();
            cpu.regs[n] = value;
            model.set(mode, n, value);
            format!("R{n} = {value:#x}")
        }
        // CPS
        3 if mode != USR => {
            let (imod, aif, new) = (random.pick(&[0, 2, 3]), 1 + random.below(7), random.pick(&MODES));
            let aif = if imod == 0 { 0 } else { aif };
            let word = 0xf102_0000 | imod << 18 | aif << 6 | new;
            assert_eq!(execute(cpu, world, word, PC), Step::Return(PC + 4));
            match imod {
                2 => model.cpsr &= !(aif << 6),
                3 => model.cpsr |= aif << 6,
                _ => {}
            }
            model.cpsr = model.cpsr & !0x1f | new;
            format!("CPS {word:#x}")
        }
        // MSR CPSR_fsxc of a register that is not banked
        4 if mode != USR => {
            let value = status(random);
            cpu.regs[0] = value;
            model.set(mode, 0, value);
            let fields = 1 + random.below(15);
            execute(cpu, world, AL | 0x0120_f000 | fields << 16, PC);
            let mut mask = 0;
            mask |= if fields & 8 != 0 { 0xf800_0000 } else { 0 };
            mask |= if fields & 4 != 0 { 0x000f_0000 } else { 0 };
            mask |= if fields & 2 != 0 { E | A } else { 0 };
            mask |= if fields & 1 != 0 { I | F | 0x1f } else { 0 };
            model.cpsr = model.cpsr & !mask | value & mask;
            format!("MSR CPSR of {value:#x}, fields {fields:#x}")
        }
        // MSR SPSR
        5 if model.has_spsr() => {
            let value = status(random);
            cpu.regs[0] = value;
            model.set(mode, 0, value);
            execute(cpu, world, AL | 0x016f_f000, PC);
            model.set(mode, 16, value);
            format!("MSR SPSR of {value:#x}")
        }
        // An exception
        6 | 7 => {
            let (exception, new, _, arm, thumb, masks) = exceptions(PC)[random.below(6) as usize];
            cpu.take_exception(exception);
            let old = model.cpsr;
            model.cpsr = old & (FLAGS | A | I | F) | masks | new;
            model.set(new, 16, old);
            model.set(new, 14, if old & T != 0 { thumb } else { arm });
            format!("{exception:?}")
        }
        // MOVS PC, LR
        8 if model.has_spsr() => {
            let spsr = model.get(mode, 16);
            let lr = model.get(mode, 14);
            let step = execute(cpu, world, AL | 0x01b0_f00e, PC);
            assert_eq!(step, Step::Return(lr & if spsr & T != 0 { !1 } else { !3 }));
            set_cpsr(model, spsr);
            format!("exception return to {spsr:#x}")
        }
        // LDM sp!, {r1, r9, lr, pc}^, of registers in the mode that is left
        9 if model.has_spsr() => {
            for n in 0..4 {
                world.set_word(RAM + 0x100 + 4 * n, random.word());
            }
            cpu.regs[13] = RAM + 0x100;
            let spsr = model.get(mode, 16);
            let step = execute(cpu, world, AL | 0x08fd_c202, PC);
            for (at, n) in [1, 9, 14].into_iter().enumerate() {
                model.set(mode, n, world.word(RAM + 0x100 + 4 * at as u32));
            }
            model.set(mode, 13, RAM + 0x110);
            let target = world.word(RAM + 0x10c);
            assert_eq!(step, Step::Return(target & if spsr & T != 0 { !1 } else { !3 }));
            set_cpsr(model, spsr);
            format!("LDM sp!, {{r1, r9, lr, pc}}^ to {spsr:#x}")
        }
        // STM and LDM of the User bank
        10 if !matches!(mode, USR | SYS) => {
            let list = 1 + random.below(0x7ffe);
            let base = random.below(15);
            // The base has to be a good pointer in this mode's own register.
            cpu.regs[base as usize] = RAM + 0x200;
            model.set(mode, base as usize, RAM + 0x200);
            let listed: Vec<usize> = (0..15).filter(|n| list >> n & 1 != 0).collect();
            if random.one_in(2) {
                execute(cpu, world, AL | 0x08c0_0000 | base << 16 | list, PC);
                for (at, &n) in listed.iter().enumerate() {
                    assert_eq!(world.word(RAM + 0x200 + 4 * at as u32), model.get(USR, n), "R{n}_usr stored");
                }
                format!("STM r{base}, {list:#x}^")
            } else {
                for at in 0..16 {
                    world.set_word(RAM + 0x200 + 4 * at, random.word());
                }
                execute(cpu, world, AL | 0x08d0_0000 | base << 16 | list, PC);
                for (at, &n) in listed.iter().enumerate() {
                    model.set(USR, n, world.word(RAM + 0x200 + 4 * at as u32));
                }
                format!("LDM r{base}, {list:#x}^")
            }
        }
        // SRS to the stack of any mode, and RFE from there
        11 if model.has_spsr() => {
            let to = random.pick(&MODES);
            cpu.set_sp_of(Mode::from_bits(to).expect("a mode"), RAM + 0x400);
            model.set(to, 13, RAM + 0x400);
            assert!(matches!(execute(cpu, world, 0xf96d_0500 | to, PC), Step::Next(_)));
            model.set(to, 13, RAM + 0x3f8);
            assert_eq!(world.word(RAM + 0x3f8), model.get(mode, 14));
            assert_eq!(world.word(RAM + 0x3fc), model.get(mode, 16));
            assert_eq!(cpu.sp_of(Mode::from_bits(to).expect("a mode")), RAM + 0x3f8);
            if random.one_in(2) {
                return format!("SRSDB sp!, #{to:#x}");
            }
            cpu.regs[2] = RAM + 0x3f8;
            let (lr, spsr) = (model.get(mode, 14), model.get(mode, 16));
            let step = execute(cpu, world, 0xf8b2_0a00, PC);
            assert_eq!(step, Step::Return(lr & if spsr & T != 0 { !1 } else { !3 }));
            model.set(mode, 2, RAM + 0x400);
            set_cpsr(model, spsr);
            format!("SRS to mode {to:#x} and RFE to {spsr:#x}")
        }
        // Out of User mode there is no way but an exception.
        _ => {
            let value = random.word();
            let flags = value & 0xf800_0000;
            cpu.psr = cpu.psr & !0xf800_0000 | flags;
            model.cpsr = model.cpsr & !0xf800_0000 | flags;
            format!("flags {flags:#x}")
        }
    }
}

fn set_cpsr(model: &mut Registers, value: u32) {
    // A mode that does not exist is not entered. MSR SPSR of the test only makes good ones, but an SPSR may be 0 still.
    let mode = if MODES.contains(&(value & 0x1f)) { value & 0x1f } else { model.mode() };
    model.cpsr = returned(value) & !0x1f | mode;
}

#[test]
fn random_sequences_of_mode_changes() {
    for seed in cases(60) {
        let _seed = Seed(seed);
        let mut random = Random::new(seed);
        let (mut cpu, mut model, mut world) = (vcpu(), Registers::new(), World::default());
        model.check(&cpu, "reset");
        for _ in 0..500 {
            let what = operate(&mut cpu, &mut model, &mut world, &mut random);
            model.check(&cpu, &what);
            // The instruction is interpreted in A32 state always.
            cpu.psr &= !(T | IT);
            model.cpsr &= !(T | IT);
        }
    }
}

#[test]
fn the_sp_of_any_mode_from_any_mode() {
    for current in MODES {
        let (mut cpu, mut model) = (vcpu(), Registers::new());
        cpu.set_cpsr(current);
        model.cpsr = current;
        for (n, of) in MODES.into_iter().enumerate() {
            let value = 0x1000 + n as u32;
            cpu.set_sp_of(Mode::from_bits(of).expect("a mode"), value);
            model.set(of, 13, value);
            model.check(&cpu, "a write to one SP");
            for of in MODES {
                assert_eq!(cpu.sp_of(Mode::from_bits(of).expect("a mode")), model.get(of, 13));
            }
        }
    }
}

#[test]
fn mrs_reads_no_execution_state() {
    let mut world = World::default();
    for mode in MODES {
        let mut cpu = vcpu();
        cpu.set_cpsr(FLAGS | E | A | F | mode);
        cpu.page.spsr = 0x1234_5678;
        execute(&mut cpu, &mut world, AL | 0x010f_1000, PC);
        assert_eq!(cpu.regs[1], FLAGS | E | A | F | mode);
        execute(&mut cpu, &mut world, AL | 0x014f_1000, PC);
        assert_eq!(cpu.regs[1], 0x1234_5678);
    }
}

#[test]
fn reset_is_supervisor_mode_with_all_masked() {
    let mut cpu = vcpu();
    cpu.set_cpsr(USR);
    cpu.regs = [7; 15];
    cpu.cp15.sctlr = u32::MAX;
    cpu.reset();
    assert_eq!(cpu.cpsr(), A | I | F | SVC);
    assert_eq!(cpu.regs, [0; 15]);
    assert_eq!((cpu.pc, cpu.vector_base()), (0, 0));
    assert!(cpu.privileged() && cpu.irq_masked() && cpu.fiq_masked());
}

/// What a debugger shows as banked registers: from each mode, each of them is the one of its name.
#[test]
fn all_banked_registers_from_any_mode() {
    let mut places = vec![(USR, 13), (USR, 14)];
    places.extend([SVC, ABT, UND, IRQ, FIQ].into_iter().flat_map(|mode| [13, 14, 16].map(|n| (mode, n))));
    places.extend((8..13).map(|n| (FIQ, n)));
    for current in MODES {
        let (mut cpu, mut model) = (vcpu(), Registers::new());
        cpu.set_cpsr(current);
        model.cpsr = current;
        for (n, &(mode, register)) in places.iter().enumerate() {
            let value = 0x2000 + n as u32;
            *cpu.banked(n).expect("a register") = value;
            model.set(mode, register, value);
            model.check(&cpu, "a write to one banked register");
        }
        let shown: Vec<u32> = (0..places.len()).map(|n| *cpu.banked(n).expect("a register")).collect();
        assert_eq!(shown, places.iter().map(|&(mode, n)| model.get(mode, n)).collect::<Vec<_>>());
        assert!(cpu.banked(places.len()).is_none());
        // The same seen from the other modes.
        for mode in MODES {
            cpu.set_cpsr(mode);
            model.cpsr = mode;
            model.check(&cpu, "a change of mode");
        }
    }
}
