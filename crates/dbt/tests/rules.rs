//! Each translation rule over its whole space of forms, in step with the model: where `spica prove --part translator`
//! throws dice, this counts.

use spica_dbt::Options;
use spica_prove::translator::generate::Window;
use spica_prove::translator::model::{self, Event, Machine, Supervisor};
use spica_prove::translator::{CODE, CODE_PAGES, CTR, DATA, Disturb, End, Lockstep, Memory};

const PC: u32 = 15;
const AL: u32 = 14 << 28;
const WINDOW: Window = Window { start: CODE, words: 96, thumb: 0 };

/// Registers that point into the data pages, to the middle of the second one.
fn machine(pc: u32, psr: u32) -> Machine {
    Machine {
        r: std::array::from_fn(|n| DATA + 0x1800 + 0x40 * n as u32),
        pc,
        psr,
        length: 4,
        vfp: std::array::from_fn(|n| n as u32),
        thread: [1, 2],
        cycles: None,
        vfp_on: false,
        mode: 0x13,
        strict: false,
        supervisor: Some(Supervisor {
            fpexc: model::EN,
            masks: 0xc0,
            spsr: 0x6000_0010,
            banked: [3, 4],
            thread_private: 5,
            system: std::array::from_fn(|n| if n == model::CTR { CTR } else { 0x100 + n as u32 }),
            ..Supervisor::default()
        }),
    }
}

fn memory() -> Memory {
    let mut memory = Memory::new();
    for at in (DATA..DATA + 0x4000).step_by(4) {
        memory.set_word(at, CODE + (at & 0xffc));
    }
    memory
}

/// Runs `words` one after the other, from `machine`'s PC; all are to be executed.
fn march(lockstep: &mut Lockstep, memory: &mut Memory, words: &[u32], machine: Machine) {
    for (n, &word) in words.iter().enumerate() {
        memory.set_word(machine.pc + 4 * n as u32, word);
    }
    lockstep.start(machine, memory, WINDOW, 1);
    assert_eq!(lockstep.run(words.len() as u32, Disturb::Nothing), End::Enough);
    assert_eq!((lockstep.skipped, lockstep.strayed), (0, 0), "an instruction is not what it was meant to be");
}

/// Marches through a long list, in pieces that fit the code pages.
fn march_all(words: &[u32]) {
    let mut lockstep = Lockstep::new(Options::all());
    let mut memory = memory();
    for piece in words.chunks(3060) {
        march(&mut lockstep, &mut memory, piece, machine(CODE, 0x6000_0000));
    }
    assert_eq!(lockstep.faults, 0);
}

/// The second operands with the PC, and those with a register that go with it.
fn operands(rm: &[u32]) -> Vec<u32> {
    let mut operands = vec![1 << 25, 1 << 25 | 0x0ff, 1 << 25 | 0x4ff, 1 << 25 | 0xf03];
    for &rm in rm {
        for kind in 0..4 {
            for amount in [0, 1, 7, 31] {
                operands.push(rm | kind << 5 | amount << 7);
            }
        }
    }
    operands
}

#[test]
fn data_processing_with_the_pc_as_operand() {
    let mut words = Vec::new();
    for opcode in 0..16 {
        let (test, move_) = (matches!(opcode, 8..=11), matches!(opcode, 13 | 15));
        for s in if test { 1..2 } else { 0..2 } {
            for rn in if move_ { vec![0] } else { vec![PC, 1, 2] } {
                for op2 in operands(&[PC, 1, 2]) {
                    let reads_pc = !move_ && rn == PC || op2 >> 25 == 0 && op2 & 15 == PC;
                    for rd in if test { vec![0] } else { vec![0, 1, 2, 13, 14] } {
                        for cond in if reads_pc { vec![0, 1, 14] } else { vec![14] } {
                            words.push(cond << 28 | opcode << 21 | s << 20 | rn << 16 | rd << 12 | op2);
                        }
                    }
                }
            }
        }
    }
    assert!(words.len() > 10_000);
    march_all(&words);
}

/// Register lists of every shape: which is the lowest and which the highest, with gaps, with and without the base.
fn lists() -> Vec<u32> {
    let mut lists = Vec::new();
    for low in 0..15 {
        for high in low..15 {
            lists.push(1 << low | 1 << high);
            lists.push((2 << high) - (1 << low));
        }
    }
    lists.push(0);
    lists.sort_unstable();
    lists.dedup();
    lists
}

/// All STM with the PC in these lists: four addressing modes, with and without writeback, any base.
fn store_multiples() -> Vec<u32> {
    let mut words = Vec::new();
    for list in lists() {
        for form in 0..8 {
            for rn in 0..15 {
                words.push(AL | 0x0800_8000 | (form >> 1) << 23 | (form & 1) << 21 | rn << 16 | list);
            }
        }
    }
    words
}

/// `rd = value`.
fn constant(rd: u32, value: u32) -> [u32; 2] {
    let split = |imm: u32| (imm & 0xf000) << 4 | imm & 0xfff;
    [AL | 0x0300_0000 | rd << 12 | split(value & 0xffff), AL | 0x0340_0000 | rd << 12 | split(value >> 16)]
}

#[test]
fn store_multiple_with_the_pc() {
    let mut words = Vec::new();
    for (n, word) in store_multiples().into_iter().enumerate() {
        words.extend(constant(word >> 16 & 15, DATA + 0x200 + 0x54 * (n as u32 % 140)));
        words.push(word);
    }
    assert!(words.len() > 50_000);
    march_all(&words);
}

/// One instruction with base register `rn` at each place where it meets the end of a page, each of the two pages absent
/// in turn.
/// Returns the number of faults seen, each of which was checked.
fn faults(lockstep: &mut Lockstep, memory: &mut Memory, word: u32, rn: u32, places: &[u32]) -> u32 {
    let at = CODE + 0x7f8;
    memory.set_word(at, word);
    let before = lockstep.faults;
    for &place in places {
        for absent in [1, 2] {
            let mut state = machine(at, 0x2000_0000);
            state.r[rn as usize] = (DATA + 0x2000).wrapping_add(place);
            let pages = CODE_PAGES as usize;
            memory.present[pages + 1] = absent & 1 == 0;
            memory.present[pages + 2] = absent & 2 == 0;
            lockstep.start(state, memory, WINDOW, 1);
            assert_eq!(lockstep.run(1, Disturb::Nothing), End::Enough);
        }
    }
    lockstep.faults - before
}

#[test]
fn faults_of_store_multiple() {
    let mut lockstep = Lockstep::new(Options::all());
    let mut memory = memory();
    let mut seen = 0;
    for word in store_multiples().into_iter().filter(|word| [0, 1, 6, 13, 14].contains(&(word >> 16 & 15))) {
        // The last word of the one page and the first of the other, at the start and at the end of what is stored.
        let bytes = 4 * (word & 0xffff).count_ones();
        let places = if word >> 23 & 1 != 0 { [0, 0u32.wrapping_sub(bytes - 4)] } else { [0, bytes - 4] };
        seen += faults(&mut lockstep, &mut memory, word, word >> 16 & 15, &places);
    }
    assert!(seen > 10_000, "{seen} faults");
}

#[test]
fn misaligned_store_multiple() {
    let mut lockstep = Lockstep::new(Options::all());
    let mut memory = memory();
    for word in store_multiples().into_iter().step_by(7) {
        memory.set_word(CODE, word);
        for off in 1..4 {
            let mut state = machine(CODE, 0);
            state.r[(word >> 16 & 15) as usize] += off;
            lockstep.start(state, &memory, WINDOW, 1);
            // The harness counts the skipped instruction behind a checked fault as none executed.
            lockstep.run(1, Disturb::Nothing);
        }
    }
    assert_eq!(lockstep.faults, lockstep.skipped);
    assert!(lockstep.faults > 3 * 2000, "{} faults", lockstep.faults);
}

/// Single loads and stores, and LDM, that the translator rewrites.
fn rewritten_transfers() -> Vec<u32> {
    let mut words = Vec::new();
    // STR PC and LDR PC: immediate and register offset, all the ways of indexing.
    for load in 0..2 {
        for rn in [0, 1, 2, 13, 14] {
            for (pre, w) in [(1, 0), (1, 1), (0, 0)] {
                for up in 0..2 {
                    let common = AL | 0x0400_f000 | pre << 24 | up << 23 | w << 21 | load << 20 | rn << 16;
                    words.extend([common, common | 4, common | 1 << 25 | 3, common | 1 << 25 | 12 | 2 << 7]);
                }
            }
        }
    }
    // LDM with the PC
    for word in store_multiples().into_iter().step_by(5) {
        let rn = word >> 16 & 15;
        let base_loaded = word >> rn & 1 != 0;
        words.push((word | 1 << 20) & !(u32::from(base_loaded) << 21));
    }
    words
}

#[test]
fn faults_of_rewritten_transfers() {
    let mut lockstep = Lockstep::new(Options::all());
    let mut memory = memory();
    let mut seen = 0;
    for word in rewritten_transfers() {
        let block = word >> 25 & 7 == 4;
        let bytes = if block { 4 * (word & 0xffff).count_ones() } else { 4 };
        let places = if word >> 23 & 1 != 0 { [0, 0u32.wrapping_sub(bytes)] } else { [0, bytes] };
        // A misaligned base changes where LDR PC leads, but both see the same.
        seen += faults(&mut lockstep, &mut memory, word, word >> 16 & 15, &places);
    }
    assert!(seen > 2000, "{seen} faults");
}

/// LDM and STM of the User bank: these lists, four addressing modes, any base.
fn user_transfers() -> Vec<u32> {
    let mut words = Vec::new();
    for list in lists().into_iter().chain([0x7ffe, 0x7fff, 0x6fff]).filter(|&list| list != 0) {
        for form in 0..8 {
            for rn in [0, 1, 2, 7, 12, 13, 14] {
                words.push(AL | 0x0840_0000 | (form >> 1) << 23 | (form & 1) << 20 | rn << 16 | list);
            }
        }
    }
    words
}

#[test]
fn user_bank() {
    let mut words = Vec::new();
    for (n, word) in user_transfers().into_iter().enumerate() {
        words.extend(constant(word >> 16 & 15, DATA + 0x200 + 0x54 * (n as u32 % 140)));
        words.push(word);
    }
    assert!(words.len() > 30_000);
    march_all(&words);
}

#[test]
fn faults_of_user_bank() {
    let mut lockstep = Lockstep::new(Options::all());
    let mut memory = memory();
    let mut seen = 0;
    for word in user_transfers().into_iter().filter(|word| [0, 13].contains(&(word >> 16 & 15))) {
        let bytes = 4 * (word & 0xffff).count_ones();
        let places = if word >> 23 & 1 != 0 { [0, 0u32.wrapping_sub(bytes - 4)] } else { [0, bytes - 4] };
        seen += faults(&mut lockstep, &mut memory, word, word >> 16 & 15, &places);
    }
    assert!(seen > 2000, "{seen} faults");
}

/// Exception returns: `LDM` of every shape, upwards and not, and data processing.
fn exception_returns() -> Vec<u32> {
    let mut words = Vec::new();
    for list in lists() {
        for form in 0..8 {
            for rn in [0, 1, 13, 14] {
                let base_loaded = list >> rn & 1 != 0;
                let w = form & 1 & u32::from(!base_loaded);
                words.push(AL | 0x0850_8000 | (form >> 1) << 23 | w << 21 | rn << 16 | list);
            }
        }
    }
    for opcode in [0, 1, 2, 3, 4, 5, 6, 7, 12, 13, 14, 15] {
        for rn in if matches!(opcode, 13 | 15) { vec![0] } else { vec![0, 3, 14, PC] } {
            for op2 in operands(&[0, 3, 14, PC]) {
                words.push(AL | opcode << 21 | 1 << 20 | rn << 16 | 0xf000 | op2);
            }
        }
    }
    words
}

/// Each return to Supervisor mode again, and to User mode, where the harness goes on behind.
#[test]
fn exception_return() {
    let mut lockstep = Lockstep::new(Options::all());
    let mut memory = memory();
    let at = CODE + 0x7f8;
    for (n, word) in exception_returns().into_iter().enumerate() {
        memory.set_word(at, word);
        // To User mode, what comes behind is the same for all.
        let modes = if n % 4 == 0 { &[0xa80a_0153, 0x6000_0010][..] } else { &[0xa80a_0153] };
        for &spsr in modes {
            let mut state = machine(at, 0x2000_0000);
            state.supervisor.as_mut().expect("a kernel").spsr = spsr;
            lockstep.start(state, &memory, WINDOW, 1);
            assert_eq!(lockstep.run(1, Disturb::Nothing), End::Enough);
        }
    }
    let followed = lockstep.seen["an exception return that is followed"];
    assert!(followed > 3000 && lockstep.skipped >= followed / 4 && lockstep.faults == 0, "{followed}");
}

#[test]
fn faults_of_exception_return() {
    let mut lockstep = Lockstep::new(Options::all());
    let mut memory = memory();
    let mut seen = 0;
    for word in exception_returns().into_iter().filter(|word| word >> 25 & 7 == 4) {
        let bytes = 4 * (word & 0xffff).count_ones();
        let places = if word >> 23 & 1 != 0 { [0, 0u32.wrapping_sub(bytes - 4)] } else { [0, bytes - 4] };
        seen += faults(&mut lockstep, &mut memory, word, word >> 16 & 15, &places);
    }
    assert!(seen > 5000, "{seen} faults");
}

/// What a fault of `word`, an `LDM r0, …^` across the end of a page, leaves in R0, and what it was.
fn base_behind_an_abort(word: u32) -> (u32, u32) {
    let mut lockstep = Lockstep::new(Options::all());
    let mut memory = memory();
    let pages = CODE_PAGES as usize;
    memory.present[pages + 2] = false;
    let mut state = machine(CODE + 0x7f8, 0);
    state.r[0] = DATA + 0x2000 - 4;
    memory.set_word(state.pc, word);
    lockstep.stop_at_faults = true;
    lockstep.start(state, &memory, WINDOW, 1);
    assert_eq!(lockstep.run(1, Disturb::Nothing), End::Fault);
    (lockstep.machine.r[0], state.r[0])
}

/// Base Restored Abort Model (B1.9.8): the base of a load that aborts is as it was, also if it is in the list.
#[test]
fn the_base_of_a_user_bank_load_is_restored() {
    for word in [0xe8d0_0003, 0xe8d0_1fff, 0xe8d0_6003, 0xe8d0_7fff, 0xe8d0_0006, 0xe8d0_7ffe] {
        let (found, expected) = base_behind_an_abort(word);
        assert_eq!(found, expected, "{word:#x}");
    }
}

#[test]
fn the_base_of_an_exception_return_is_restored() {
    for word in [0xe8d0_8003, 0xe8d0_8001, 0xe8d0_ffff] {
        let (found, expected) = base_behind_an_abort(word);
        assert_eq!(found, expected, "{word:#x}");
    }
}

/// Block transfers have to be word-aligned (A3.2.1), also where the rules use single loads and stores instead.
#[test]
fn block_transfers_of_other_modes_check_alignment() {
    let mut memory = memory();
    let mut missed = Vec::new();
    // STMDB r0, {sp, lr}^; LDMIA r0, {sp, lr}^; STMIA r0, {r1, lr}^; LDMIA r0, {r1, lr}^; LDM r0, {pc}^; LDM r0!, {pc}^
    for word in [0xe940_6000, 0xe8d0_6000, 0xe8c0_4002, 0xe8d0_4002, 0xe8d0_8000, 0xe8f0_8000] {
        for off in 1..4 {
            let mut lockstep = Lockstep::new(Options::all());
            let mut state = machine(CODE, 0);
            state.r[0] += off;
            memory.set_word(CODE, word);
            lockstep.stop_at_faults = true;
            lockstep.start(state, &memory, WINDOW, 1);
            let end = lockstep.run(1, Disturb::Nothing);
            if end != End::Fault || lockstep.memory.bytes != memory.bytes {
                missed.push((word, off));
            }
        }
    }
    assert_eq!(missed, []);
}

/// Loads and stores with the PC as base, at the end of a page, with what they reach in the page and behind it.
#[test]
fn literals() {
    let mut lockstep = Lockstep::new(Options::all());
    let mut memory = memory();
    for load_form in [
        0x0510_0000, // LDR
        0x0550_0000, // LDRB
        0x0150_00b0, // LDRH
        0x0150_00d0, // LDRSB
        0x0150_00f0, // LDRSH
        0x0140_00d0, // LDRD
        0x0500_0000, // STR
        0x0540_0000, // STRB
        0x0140_00b0, // STRH
        0x0140_00f0, // STRD
    ] {
        let extra = load_form & 0x0e00_0000 == 0;
        for rt in [0, 2, 12] {
            for at in [CODE + 0x1000 - 4, CODE + 0x1000 - 12, CODE + 0x1000 - 16, CODE + 0x1000 - 40, CODE + 0x1004] {
                for offset in 0..40u32 {
                    for (up, absent) in [(0, false), (0, true), (1, false), (1, true)] {
                        let imm = if extra { (offset & 0xf0) << 4 | offset & 15 } else { offset };
                        // The page that the code is not in.
                        let other = usize::from(at < CODE + 0x1000);
                        memory.present[other] = !absent;
                        let old = memory.word(at);
                        memory.set_word(at, AL | load_form | up << 23 | PC << 16 | rt << 12 | imm);
                        lockstep.start(machine(at, 0), &memory, WINDOW, 1);
                        assert_eq!(lockstep.run(1, Disturb::Nothing), End::Enough);
                        memory.set_word(at, old);
                        memory.present[other] = true;
                    }
                }
            }
        }
    }
    assert!(lockstep.faults > 1000, "{} faults", lockstep.faults);
}

/// One instruction of each rule, the condition left out.
const SAMPLES: &[(&str, u32)] = &[
    ("copied", 0x0082_1003),
    ("copied, flags", 0x0092_1003),
    ("ADR", 0x028f_1010),
    ("MOV r1, pc", 0x01a0_100f),
    ("ADD r1, pc, r2", 0x008f_1002),
    ("ADDS r1, pc, r2", 0x009f_1002),
    ("ADD r1, pc, r1", 0x008f_1001),
    ("ADDS r1, pc, r1", 0x009f_1001),
    ("TST pc, #4", 0x031f_0004),
    ("ADC r3, r3, pc, LSL #3", 0x00a3_318f),
    ("LDR r1, literal", 0x059f_1010),
    ("LDR r1, literal of the page before", 0x051f_1f00),
    ("LDRD r2, literal", 0x01cf_21d0),
    ("LDR r1, [pc, r2]", 0x079f_1002),
    ("STR r1, literal", 0x058f_1010),
    ("STR pc, [r2]", 0x0582_f000),
    ("STR pc, [r2], #4", 0x0482_f004),
    ("STM r2!, {r1, pc}", 0x08a2_8002),
    ("STMDB sp!, {fp, ip, lr, pc}", 0x092d_d800),
    ("STMDB sp, {sp, lr, pc}", 0x090d_e000),
    ("LDM sp!, {r4, pc}", 0x08bd_8010),
    ("LDM sp, {fp, sp, pc}", 0x089d_a800),
    ("LDR pc, [r2]", 0x0592_f000),
    ("LDR pc, [sp], #4", 0x049d_f004),
    ("LDR pc, literal", 0x059f_f010),
    ("ADD pc, pc, r1, LSL #2", 0x008f_f101),
    ("MOV pc, lr", 0x01a0_f00e),
    ("BX lr", 0x012f_ff1e),
    ("BX pc", 0x012f_ff1f),
    ("BLX r1", 0x012f_ff31),
    ("BLX lr", 0x012f_ff3e),
    ("B", 0x0a00_0010),
    ("BL", 0x0b00_0010),
    ("B .", 0x0aff_fffe),
    ("VLDR d0, literal", 0x0d9f_0b04),
    ("VLDR s1, literal of the page before", 0x0d5f_0a80),
    ("VSTR d17, literal", 0x0dcf_1b04),
    ("VLDM r1!, {d0-d3}", 0x0cb1_0b08),
    ("VLDM pc, {s0-s3}", 0x0c9f_0a04),
    ("MRS r1, CPSR", 0x010f_1000),
    ("MRS r1, SPSR", 0x014f_1000),
    ("MSR CPSR_f, r1", 0x0128_f001),
    ("MSR CPSR_c, r3, nothing changes", 0x0121_f003),
    ("MSR CPSR_c, r4, I changes", 0x0121_f004),
    ("MSR CPSR_c, r5, F changes", 0x0121_f005),
    ("MSR CPSR_c, r6, I and T change", 0x0121_f006),
    ("MSR CPSR_fsxc, r3", 0x012f_f003),
    ("MSR SPSR_fsxc, r1", 0x016f_f001),
    ("MSR SPSR_fc, r1", 0x0169_f001),
    ("MRC TPIDRPRW", 0x0e1d_1f90),
    ("MRC TPIDRURW", 0x0e1d_1f50),
    ("MCR TPIDRURO", 0x0e0d_1f70),
    ("MRC TPIDRURO", 0x0e1d_1f70),
    ("MCR TPIDRPRW", 0x0e0d_1f90),
    ("MRC SCTLR", 0x0e11_1f10),
    ("MRC CTR", 0x0e10_1f30),
    ("MRC DFAR", 0x0e16_1f10),
    ("MRC DACR", 0x0e13_1f10),
    ("MCR DFAR", 0x0e06_1f10),
    ("MCR TTBR0", 0x0e02_1f10),
    ("MCR DACR", 0x0e03_1f10),
    ("MCR DACR of r0", 0x0e03_0f10),
    ("MCR ICIALLU", 0x0e07_1f15),
    ("MCR BPIALL", 0x0e07_1fd5),
    ("MCR ICIMVAU", 0x0e07_1f35),
    ("MCR DCCMVAC", 0x0e07_1f3a),
    ("MCR DCCIMVAC of r0", 0x0e07_0f3e),
    ("MCR DCCMVAU", 0x0e07_1f3b),
    ("MCR DCCISW", 0x0e07_1f5e),
    ("MCR TLBIMVA", 0x0e08_1f37),
    ("MCR TLBIALL", 0x0e08_1f17),
    ("MCR TEEHBR", 0x0ec1_1e10),
    ("MRC TEEHBR", 0x0ed1_1e10),
    ("VMSR FPEXC", 0x0ee8_1a10),
    ("VMRS FPEXC", 0x0ef8_1a10),
    ("VMRS FPSID", 0x0ef0_1a10),
    ("VMRS MVFR1", 0x0ef6_1a10),
    ("VMRS MVFR0", 0x0ef7_1a10),
    ("MOVS pc, lr", 0x01b0_f00e),
    ("SUBS pc, lr, #4", 0x025e_f004),
    ("ADDS pc, r1, #8", 0x0291_f008),
    ("EORS pc, r1, r2", 0x0031_f002),
    ("LDM r1!, {r0, r2, pc}^", 0x08f1_8005),
    ("LDM r1, {r1, r3, pc}^", 0x08d1_800a),
    ("LDMDB r1!, {r2, pc}^", 0x0971_8004),
    ("STM r1, {sp, lr}^", 0x08c1_6000),
    ("LDMDB r1, {r0-lr}^", 0x0951_7fff),
    ("STRT r1, [r2], #4", 0x04a2_1004),
    ("STRHT r1, [r2], #4", 0x00e2_10b4),
    ("LDM r1, {r2, sp, lr}^", 0x08d1_6004),
    ("STM r1, {r2, sp, lr}^", 0x08c1_6004),
    ("LDRT r1, [r2], #4", 0x04b2_1004),
];

/// Every rule under every condition and all flags.
#[test]
fn conditions() {
    let mut memory = memory();
    let all = Options { vfp: true, thumbee: true, ..Options::all() };
    // Every combination once, a few more often.
    for (options, step) in [(all, 1), (Options { side_exits: false, ..all }, 5), (Options::naive(), 3)] {
        let mut lockstep = Lockstep::new(options);
        for &(name, word) in SAMPLES {
            for cond in 0..15 {
                for flags in (0..16).step_by(step) {
                    let at = CODE + 0x1400;
                    memory.set_word(at, cond << 28 | word);
                    memory.set_word(at + 4, AL | 0x01a0_0000);
                    let mut state = machine(at, flags << 28 | 0x0805_0000);
                    if word & 0x0f00_0000 == 0 {
                        state.r[1] = 3;
                    }
                    // Values for the CPSR, around the present one.
                    if word & 0x0ff0_f000 == 0x0120_f000 {
                        (state.r[3], state.r[4], state.r[5], state.r[6]) = (0xd3, 0x53, 0x93, 0x73);
                    }
                    if word == 0x079f_1002 {
                        state.r[2] = (DATA + 0x1800).wrapping_sub(at);
                    }
                    // Exception returns that the harness can follow.
                    state.supervisor.as_mut().expect("a kernel").spsr = 0x6000_0053;
                    let skipped = lockstep.skipped;
                    lockstep.start(state, &memory, WINDOW, 1);
                    assert_eq!(
                        lockstep.run(2, Disturb::Nothing),
                        End::Enough,
                        "{name}, condition {cond}, flags {flags}"
                    );
                    // A store of VFP registers to its own page is the one thing that the harness cannot execute.
                    let executed = lockstep.skipped == skipped || name.starts_with("VSTR");
                    assert!(executed, "{name} is not what it was meant to be");
                }
            }
        }
        assert_eq!(lockstep.faults, 0);
    }
}

/// The model, where everything else rests on it: a few results by hand.
#[test]
fn the_model_itself() {
    let mut memory = memory();
    let mut run = |word: u32, change: &dyn Fn(&mut Machine)| {
        let mut state = machine(CODE, 0);
        change(&mut state);
        memory.set_word(CODE, word);
        (state.step(&mut memory), state)
    };
    // ADDS r0, r1, r2 with carry and overflow
    let (event, state) = run(0xe091_0002, &|m| (m.r[1], m.r[2]) = (0x8000_0000, 0x8000_0000));
    assert_eq!((event, state.r[0], state.psr >> 28), (Event::Done, 0, 0b0111));
    // SUBS r0, r1, r1
    let (_, state) = run(0xe051_0001, &|_| ());
    assert_eq!((state.r[0], state.psr >> 28), (0, 0b0110));
    // MOVS r0, r1, RRX
    let (_, state) = run(0xe1b0_0061, &|m| (m.r[1], m.psr) = (3, model::C));
    assert_eq!((state.r[0], state.psr >> 28), (0x8000_0001, 0b1010));
    // MOVS r0, r1, LSR #32
    let (_, state) = run(0xe1b0_0021, &|m| m.r[1] = 0x8000_0000);
    assert_eq!((state.r[0], state.psr >> 28), (0, 0b0110));
    // MOVS r0, r1, ROR r2, of 32
    let (_, state) = run(0xe1b0_0271, &|m| (m.r[1], m.r[2]) = (0x8000_0001, 32));
    assert_eq!((state.r[0], state.psr >> 28), (0x8000_0001, 0b1010));
    // RSCS r0, r1, #0 without carry
    let (_, state) = run(0xe2f1_0000, &|m| m.r[1] = 1);
    assert_eq!((state.r[0], state.psr >> 28), (0xffff_fffe, 0b1000));
    // MOV r0, pc
    assert_eq!(run(0xe1a0_000f, &|_| ()).1.r[0], CODE + 8);
    // STMDB sp!, {r0, pc}, then LDMIA sp!, {r0, pc}
    let (_, state) = run(0xe92d_8001, &|m| m.r[0] = 7);
    assert_eq!(state.r[13], machine(0, 0).r[13] - 8);
    let sp = state.r[13];
    let (_, state) = run(0xe8bd_8001, &|m| m.r[13] = sp);
    assert_eq!((state.r[0], state.pc, state.r[13]), (7, CODE + 8, sp + 8));
    // LDRD r2, [r1, #8]!
    let (_, state) = run(0xe1e1_20d8, &|_| ());
    let base = machine(0, 0).r[1] + 8;
    assert_eq!((state.r[2], state.r[3], state.r[1]), (CODE + (base & 0xffc), CODE + (base & 0xffc) + 4, base));
    // LDRSH r0, [r1]; BLX r1 to Thumb
    let (_, state) = run(0xe1d1_00f0, &|_| ());
    assert_eq!(state.r[0], ((CODE + (machine(0, 0).r[1] & 0xffc)) as i16) as u32);
    let (_, state) = run(0xe12f_ff31, &|m| m.r[1] |= 1);
    assert_eq!((state.pc, state.psr & model::T, state.r[14]), (machine(0, 0).r[1], model::T, CODE + 4));
    // QADD r0, r1, r2 saturates
    let (_, state) = run(0xe102_0051, &|m| (m.r[1], m.r[2]) = (0x7fff_ffff, 1));
    assert_eq!((state.r[0], state.psr), (0x7fff_ffff, model::Q));
}
