//! T32 instructions in the interpreter: what the PC reads as, where calls return to, what becomes of ITSTATE, and what
//! A32 does not have.

use crate::support::{ABSENT, ALIGNMENT, RAM, TRANSLATION, World, vcpu};
use spica_isa::t32::{self, Code, ItState};
use spica_vcpu::interp::{self, Abort, Step};
use spica_vcpu::{Cpu, Effect, psr};

const PC: u32 = 0x8002;

/// Executes an instruction, wide if it has bits above 15, in this state of an IT block.
fn execute(cpu: &mut Cpu, world: &mut World, bits: u32, it: ItState) -> Step {
    let [first, second] = if bits >> 16 == 0 { [bits, 0] } else { [bits >> 16, bits] };
    cpu.psr = cpu.psr & !psr::IT | psr::T | it.to_psr();
    interp::execute_t32(cpu, world, &t32::decode(Code::new(first as u16, second as u16), it), PC)
}

fn it(cpu: &Cpu) -> u8 {
    ItState::from_psr(cpu.psr).bits()
}

#[test]
fn the_pc_is_four_ahead_and_aligned_as_a_base() {
    let (mut cpu, mut world) = (vcpu(), World::default());
    cpu.regs[1] = 0x100;
    // ADD PC, R1; MOV PC, R1: no change of state, whatever bit 0 is
    assert_eq!(execute(&mut cpu, &mut world, 0x448f, ItState::OUTSIDE), Step::Branch((PC + 4 + 0x100) | 1));
    assert_eq!(execute(&mut cpu, &mut world, 0x468f, ItState::OUTSIDE), Step::Branch(0x101));
    // BX PC goes to A32; BLX R1 returns to Thumb state
    assert_eq!(execute(&mut cpu, &mut world, 0x4778, ItState::OUTSIDE), Step::Branch(PC + 4));
    assert_eq!(execute(&mut cpu, &mut world, 0x4788, ItState::OUTSIDE), Step::Branch(0x100));
    assert_eq!(cpu.regs[14], (PC + 2) | 1);
}

#[test]
fn table_branches_count_half_words() {
    let (mut cpu, mut world) = (vcpu(), World::default());
    world.set_word(RAM, 0x0807_0605);
    (cpu.regs[1], cpu.regs[2]) = (RAM, 1);
    // TBB [R1, R2]; TBH [R1, R2, LSL #1]
    assert_eq!(execute(&mut cpu, &mut world, 0xe8d1_f002, ItState::OUTSIDE), Step::Branch((PC + 4 + 2 * 6) | 1));
    assert_eq!(execute(&mut cpu, &mut world, 0xe8d1_f012, ItState::OUTSIDE), Step::Branch((PC + 4 + 2 * 0x807) | 1));
    cpu.regs[1] = ABSENT;
    let abort = Abort { fsr: TRANSLATION, far: ABSENT + 1 };
    assert_eq!(execute(&mut cpu, &mut world, 0xe8d1_f002, ItState::OUTSIDE), Step::Abort(abort));
}

#[test]
fn it_state_goes_on_where_an_instruction_completes() {
    let (mut cpu, mut world) = (vcpu(), World::default());
    let second_of_three = ItState::new(0b0010_1100);
    let behind = second_of_three.advance().bits();
    // MRS R0, CPSR; CPSID i, which is not allowed there; SVC #1
    assert_eq!(execute(&mut cpu, &mut world, 0xf3ef_8000, second_of_three), Step::Next(Effect::None));
    assert_eq!((it(&cpu), cpu.regs[0] & (psr::T | psr::IT)), (behind, 0));
    assert_eq!(execute(&mut cpu, &mut world, 0xb672, second_of_three), Step::Undefined);
    assert_eq!(it(&cpu), second_of_three.bits());
    assert_eq!(execute(&mut cpu, &mut world, 0xdf01, second_of_three), Step::SupervisorCall);
    assert_eq!(it(&cpu), behind);
    // LDRD R0, R1, [R2]: a fault leaves it
    cpu.regs[2] = ABSENT;
    let abort = Abort { fsr: TRANSLATION, far: ABSENT };
    assert_eq!(execute(&mut cpu, &mut world, 0xe9d2_0100, second_of_three), Step::Abort(abort));
    assert_eq!(it(&cpu), second_of_three.bits());
    // SUBS PC, LR, #4: the ITSTATE of the SPSR
    (cpu.regs[14], cpu.page.spsr) = (0x9004, 0x33 | ItState::new(0x18).to_psr());
    assert_eq!(execute(&mut cpu, &mut world, 0xf3de_8f04, ItState::OUTSIDE), Step::Return(0x9000));
    assert_eq!((it(&cpu), cpu.psr & psr::T), (0x18, psr::T));
    // CPSID i
    assert_eq!(execute(&mut cpu, &mut world, 0xb672, ItState::OUTSIDE), Step::Return(PC + 2));
}

#[test]
fn doublewords_of_any_two_registers() {
    let (mut cpu, mut world) = (vcpu(), World::default());
    (cpu.regs[3], cpu.regs[1], cpu.regs[4]) = (0x33, 0x11, RAM + 0x108);
    // STRD R3, R1, [R4, #-0x104]!; LDRD R0, R7, [R4], #8
    assert_eq!(execute(&mut cpu, &mut world, 0xe964_3141, ItState::OUTSIDE), Step::Next(Effect::None));
    assert_eq!((cpu.regs[4], world.word(RAM + 4), world.word(RAM + 8)), (RAM + 4, 0x33, 0x11));
    assert_eq!(execute(&mut cpu, &mut world, 0xe8f4_0702, ItState::OUTSIDE), Step::Next(Effect::None));
    assert_eq!((cpu.regs[4], cpu.regs[0], cpu.regs[7]), (RAM + 12, 0x33, 0x11));
    cpu.regs[4] = RAM + 2;
    let abort = Abort { fsr: ALIGNMENT, far: RAM + 2 };
    assert_eq!(execute(&mut cpu, &mut world, 0xe9d4_0700, ItState::OUTSIDE), Step::Abort(abort));
}

#[test]
fn exclusive_doublewords_of_any_two_registers() {
    const LDREXD_R1_R2: u32 = 0xe8d4_127f;
    const STREXD_R0_R2_R1: u32 = 0xe8c4_2170;
    let (mut cpu, mut world) = (vcpu(), World::default());
    world.set_word(RAM + 8, 1);
    world.set_word(RAM + 12, 2);
    cpu.regs[4] = RAM + 8;
    let step = |cpu: &mut Cpu, world: &mut World, bits| {
        assert_eq!(execute(cpu, world, bits, ItState::OUTSIDE), Step::Next(Effect::None));
        cpu.regs[0]
    };
    assert_eq!(step(&mut cpu, &mut world, STREXD_R0_R2_R1), 1, "nothing was loaded");
    step(&mut cpu, &mut world, LDREXD_R1_R2);
    assert_eq!((cpu.regs[1], cpu.regs[2]), (1, 2));
    assert_eq!(step(&mut cpu, &mut world, STREXD_R0_R2_R1), 0);
    assert_eq!((world.word(RAM + 8), world.word(RAM + 12)), (2, 1));
    assert_eq!(step(&mut cpu, &mut world, STREXD_R0_R2_R1), 1, "once for each load");
    step(&mut cpu, &mut world, LDREXD_R1_R2);
    world.set_word(RAM + 12, 9);
    assert_eq!(step(&mut cpu, &mut world, STREXD_R0_R2_R1), 1, "somebody else stored");
    cpu.regs[4] = RAM + 12;
    let abort = Abort { fsr: ALIGNMENT, far: RAM + 12 };
    assert_eq!(execute(&mut cpu, &mut world, LDREXD_R1_R2, ItState::OUTSIDE), Step::Abort(abort));
}
