//! The pipeline: when instructions are issued, if memory and prediction cost nothing.
//!
//! **Cortex-A8** (TRM chapter 16): two instructions a cycle, in order. An instruction waits until its operands are
//! there. Results of arithmetic and addresses that are written back are there in the next cycle, those of loads one
//! later, of multiplies three; addresses and shifted operands are needed a cycle before others, what is stored a cycle
//! behind them. The second of a pair must not need the result of the first, nor the same unit; what takes several
//! cycles is issued first, and what comes behind may join its last cycle. A load of PC takes a cycle more (§16.8).
//!
//! **Cortex-A9**: two instructions a cycle are dispatched in order; each starts when its operands are there, however
//! late that is for those before it; no more than a window of them is under way. Loads and stores start one a cycle,
//! branches too. An address that was loaded is there two cycles later than for arithmetic: 4 cycles from load to load
//! are measured (7-cpu, and Texas Instruments' `lat_mem_rd` of an AM437x), where TRM §B.3 has 3.
//!
//! What both leave out is in `docs/cycles.md`.

use crate::core::Parts;
use crate::decode::{Flow, Instruction, Unit};

/// Registers that results are waited for in: the core's, and the flags.
const REGISTERS: usize = 17;

/// The pipeline of a core.
#[derive(Clone, Debug)]
pub struct Pipeline {
    /// When each register may be used by plain arithmetic, in half cycles.
    ready: [u64; REGISTERS],
    /// The registers whose values were loaded.
    loaded: u32,
    /// When the last instruction was issued or dispatched, in half cycles.
    now: u64,
    /// Of the instruction issued last, if another may join it: what it needs, and what it writes.
    open: Option<(Unit, u32)>,
    /// When the instructions of the window are done, in half cycles.
    window: Vec<u64>,
    /// The oldest of them.
    oldest: usize,
    /// When the next access to memory may start, and the next branch.
    free: [u64; 2],
    /// When the last instruction was executed, where that may be later than it was dispatched.
    executed: u64,
}

/// Half cycles in a cycle.
const CYCLE: u64 = 2;

impl Pipeline {
    /// An empty pipeline.
    #[must_use]
    pub fn new(parts: &Parts) -> Pipeline {
        let window = vec![0; parts.window.unwrap_or(0)];
        Pipeline { ready: [0; REGISTERS], loaded: 0, now: 0, open: None, window, oldest: 0, free: [0; 2], executed: 0 }
    }

    /// The cycles until now.
    #[must_use]
    pub const fn cycles(&self) -> u64 {
        self.now / CYCLE
    }

    /// Takes an instruction.
    pub fn issue(&mut self, i: &Instruction) {
        if self.window.is_empty() { self.issue_in_order(i) } else { self.dispatch(i) }
    }

    /// When the operands of an instruction are there; what was loaded is there so much later for an address.
    fn operands(&self, i: &Instruction, loaded: u64) -> u64 {
        let mut at = 0;
        let mut left = i.reads & 0x1_7fff;
        while left != 0 {
            let register = left.trailing_zeros();
            left &= left - 1;
            if i.late >> register & 1 != 0 {
                at = at.max(self.ready[register as usize].saturating_sub(CYCLE));
                continue;
            }
            let early = if i.early >> register & 1 == 0 {
                0
            } else if self.loaded >> register & 1 == 0 {
                CYCLE
            } else {
                CYCLE + loaded
            };
            at = at.max(self.ready[register as usize] + early);
        }
        at
    }

    /// Results are there then, or so much later.
    fn results(&mut self, i: &Instruction, at: u64, later: u64) {
        let mut left = i.writes & 0x1_7fff;
        let loaded = if i.unit == Unit::Memory { left & !i.base } else { 0 };
        self.loaded = self.loaded & !left | loaded;
        while left != 0 {
            let register = left.trailing_zeros();
            left &= left - 1;
            let is_base = i.base >> register & 1 != 0;
            self.ready[register as usize] = if is_base { at } else { at + later };
        }
    }

    fn issue_in_order(&mut self, i: &Instruction) {
        let joins = self.open.is_some_and(|(unit, writes)| {
            let alone = i.cycles > 1 || loads_pc(i) || matches!(i.unit, Unit::System | Unit::Multiply | Unit::Float);
            let same = unit == i.unit && i.unit != Unit::Arithmetic;
            // A branch may go with what sets its flags: it is resolved later (an estimate).
            let reads = if i.unit == Unit::Branch { i.reads & 0xffff } else { i.reads };
            !alone && !same && writes & (reads & !i.late | i.writes) == 0
        });
        let operands = self.operands(&Instruction { reads: reads_in_order(i), ..*i }, 0);
        let soonest = if joins { self.now } else { self.now + CYCLE };
        let alone = operands > soonest || !joins;
        let mut at = soonest.max(operands).next_multiple_of(CYCLE);
        let cycles = match i.unit {
            // VFPLite is not pipelined (TRM §16.7): a figure between a move and a multiplication.
            Unit::Float => u64::from(i.cycles).max(4),
            _ => u64::from(i.cycles) + u64::from(loads_pc(i)),
        };
        at += (cycles - 1) * CYCLE;
        self.now = at;
        self.results(i, at + CYCLE, u64::from(i.latency) * CYCLE);
        self.open = (alone && i.unit != Unit::System).then_some((i.unit, i.writes));
    }

    fn dispatch(&mut self, i: &Instruction) {
        let oldest = self.window[self.oldest];
        self.now = (self.now + 1).max(oldest);
        let mut start = self.now.max(self.operands(i, CYCLE));
        let cycles = u64::from(i.cycles) * CYCLE;
        let units = [i.unit == Unit::Memory, i.flow != Flow::Next];
        for (needs, free) in units.into_iter().zip(&mut self.free) {
            if needs {
                start = start.max(*free);
                *free = start + cycles;
            }
        }
        if i.unit == Unit::System {
            // Nothing overtakes it, and it overtakes nothing.
            self.now = self.now.max(start);
        }
        let float = if i.unit == Unit::Float { 3 } else { 0 };
        let later = (u64::from(i.latency) + float) * CYCLE;
        self.executed = start + cycles;
        self.results(i, start + cycles, later);
        self.window[self.oldest] = start + cycles + later;
        self.oldest = (self.oldest + 1) % self.window.len();
    }

    /// The last instruction went where nobody expected it to go: what comes next cannot begin before that is known.
    pub fn redirect(&mut self) {
        self.now = self.now.max(self.executed);
        self.stall();
    }

    /// The pipeline stood still for long: all results are there.
    pub fn stall(&mut self) {
        self.ready.fill(0);
        self.window.fill(0);
        self.free = [0; 2];
        self.open = None;
    }
}

/// Whether PC is loaded.
fn loads_pc(i: &Instruction) -> bool {
    i.unit == Unit::Memory && i.flow != Flow::Next
}

/// In order, the flags of a conditional branch are not waited for: it is resolved behind what sets them.
const fn reads_in_order(i: &Instruction) -> u32 {
    if matches!(i.unit, Unit::Branch) { i.reads & 0xffff } else { i.reads }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::Core;

    /// The cycles of a program that is repeated, each time.
    fn cycles(core: Core, words: &[u32]) -> f64 {
        let program: Vec<_> = words.iter().map(|w| Instruction::arm(0, *w)).collect();
        let mut pipeline = Pipeline::new(core.parts());
        let rounds = 1000;
        for _ in 0..rounds {
            program.iter().for_each(|i| pipeline.issue(i));
        }
        pipeline.cycles() as f64 / f64::from(rounds)
    }

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() < 0.1
    }

    #[test]
    fn two_that_have_nothing_to_do_with_each_other_go_together() {
        for core in Core::ALL {
            // add r0, r1, r2; add r3, r4, r5
            assert!(near(cycles(core, &[0xe081_0002, 0xe084_3005]), 1.0), "{core}");
        }
    }

    #[test]
    fn a_chain_goes_one_by_one() {
        for core in Core::ALL {
            // add r0, r0, r1 twice
            assert!(near(cycles(core, &[0xe080_0001, 0xe080_0001]), 2.0), "{core}");
        }
    }

    #[test]
    fn loads_take_as_long_as_the_manuals_say() {
        // ldr r0, [r0]: three cycles to the next address on the Cortex-A8.
        assert!(near(cycles(Core::CortexA8, &[0xe590_0000]), 3.0));
        // ldr r1, [r0]; add r2, r1, r1; ldr r3, [r0]: the add waits for two cycles, the second load joins it.
        assert!(near(cycles(Core::CortexA8, &[0xe590_1000, 0xe081_2001, 0xe590_3000]), 3.0));
        // Two loads use one unit.
        for core in Core::ALL {
            assert!(near(cycles(core, &[0xe590_1000, 0xe590_3000]), 2.0), "{core}");
        }
    }

    #[test]
    fn loads_one_after_the_other_take_as_long_as_is_measured() {
        // ldr r0, [r0]: 7-cpu and Texas Instruments.
        let chain = cycles(Core::CortexA9, &[0xe590_0000]);
        // The last ones of the window are still under way.
        assert!((3.8..4.0).contains(&chain), "{chain}");
        // ldr r1, [r0]; add r0, r1, r1, and round again: TRM B.3's fast case, and an addition.
        let chain = cycles(Core::CortexA9, &[0xe590_1000, 0xe081_0001]);
        assert!((3.8..4.01).contains(&chain), "{chain}");
    }

    #[test]
    fn an_address_is_written_back_at_once() {
        for core in Core::ALL {
            // ldr r1, [r0], #4: an address needs a cycle more than the sum that is not loaded.
            assert!(near(cycles(core, &[0xe490_1004]), 2.0), "{core}");
            // pop {r4, r5}; add r13, r13, #8: the sum does not wait for what is loaded, and the next address for it.
            assert!(near(cycles(core, &[0xe8bd_0030, 0xe28d_d008]), 3.0), "{core}");
        }
    }

    #[test]
    fn branches_go_one_a_cycle() {
        for core in Core::ALL {
            assert!(near(cycles(core, &[0xeaff_ffff, 0xeaff_ffff]), 2.0), "{core}");
        }
    }

    #[test]
    fn the_manuals_example_takes_as_long_as_the_manual_says() {
        // Cortex-A8 TRM §16.8: the cycle in which each of these is issued; a load of PC takes a second one.
        let example = [
            (0xe12f_ff1e, 1),  // bx r14
            (0xe350_0000, 1),  // cmp r0, #0
            (0xe3a0_3003, 2),  // mov r3, #3
            (0xe3a0_0000, 2),  // mov r0, #0
            (0x0581_3000, 3),  // streq r3, [r1]
            (0xe352_0004, 3),  // cmp r2, #4
            (0x979f_f102, 5),  // ldrls pc, [pc, r2, lsl #2]
            (0xe3a0_0001, 5),  // mov r0, #1
            (0xea00_0000, 6),  // b
            (0xe581_0000, 6),  // str r0, [r1]
            (0xe49d_f004, 8),  // ldr pc, [r13], #4
            (0xe284_200c, 8),  // add r2, r4, #12
            (0xe596_0004, 9),  // ldr r0, [r6, #4]
            (0xe3a0_100a, 9),  // mov r1, #10
            (0xe590_0000, 12), // ldr r0, [r0]
            (0xe584_0000, 13), // str r0, [r4]
        ];
        let mut pipeline = Pipeline::new(Core::CortexA8.parts());
        let issued = example.map(|(word, _)| {
            pipeline.issue(&Instruction::arm(0, word));
            pipeline.cycles()
        });
        assert_eq!(issued, example.map(|(_, cycle)| cycle));
    }

    #[test]
    fn out_of_order_hides_what_in_order_waits_for() {
        // mul r0, r1, r2; add r3, r0, r0; then four that are independent.
        let words = [0xe000_0291, 0xe080_3000, 0xe3a0_4001, 0xe3a0_5001, 0xe3a0_6001, 0xe3a0_7001];
        assert!(cycles(Core::CortexA9, &words) < cycles(Core::CortexA8, &words));
        assert!(near(cycles(Core::CortexA9, &words), 3.0));
    }

    #[test]
    fn no_program_is_faster_than_two_a_cycle() {
        let mut word = 7u32;
        for core in Core::ALL {
            let mut pipeline = Pipeline::new(core.parts());
            let count = 100_000;
            for _ in 0..count {
                word = word.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                pipeline.issue(&Instruction::arm(0, word));
            }
            assert!(pipeline.cycles() >= count / 2, "{core}");
        }
    }
}
