//! What a step does with the guest's counter, its timers, and the interrupts of its controller.

use spica_machine::map::{TIMER_NONSECURE_PPI, TIMER_VIRTUAL_PPI};

use super::{CPSID_I, DACR, ISB, Writer, any_dacr};
use crate::vm::check::memory;
use crate::vm::check::random::Random;

/// The interrupts of the physical and the virtual timer in a register of the interrupt controller with a bit for each:
/// private ones begin at 16.
const TIMERS: u32 = 1 << (16 + TIMER_NONSECURE_PPI) | 1 << (16 + TIMER_VIRTUAL_PPI);

impl Writer<'_> {
    /// Two reads, of which the second is not before the first; what they are is forgotten.
    pub(super) fn counter(&mut self) {
        let physical = self.random.below(2) << 4;
        let read = |low: u32, high: u32| 0xec50_0f0e | high << 16 | low << 12 | physical;
        self.put(read(1, 2));
        self.put(read(3, 4));
        // SUBS R5, R3, R1; SBCS R6, R4, R2; MOV R5, #0; ADC R5, R5, R5; then no trace of the values.
        for word in [0xe053_5001, 0xe0d4_6002, 0xe3a0_5000, 0xe0a5_5005, 0xe155_0005] {
            self.put(word);
        }
        for reg in [1, 2, 3, 4, 6] {
            self.put(0xe3a0_0000 | reg << 12);
        }
        self.timer();
        self.interrupts();
        self.alarm();
    }

    /// A timer is set to a time that is to come: in half a second, and taken back before, or soon, and waited for.
    fn alarm(&mut self) {
        // Numbers of its own, as in `timer`.
        let seed = self.words.iter().fold(self.va, |sum, word| sum.rotate_left(7) ^ word);
        let mut random = Random::new(seed, 29);
        if !random.one_in(2) {
            return;
        }
        self.acts.push("alarm");
        self.put(CPSID_I);
        const CONTROL: u32 = 0xee0e_0f32;
        const COMPARE: u32 = 0xec40_0f2e;
        const LOAD: u32 = 1 << 20;
        let other = random.below(2);
        // Nothing would come where an interrupt has not been ended.
        let soon = random.one_in(2) && !self.acts.contains(&"interrupts");
        let set = |writer: &mut Self| {
            // R1 and R2: the counter, and 2^25 or 2^13 ticks; half a second, or 131 microseconds.
            writer.put(0xec52_1f0e);
            writer.put(if soon { 0xe291_1a02 } else { 0xe291_1402 });
            writer.put(0xe2a2_2000);
            writer.put(COMPARE | other << 4 | 2 << 16 | 1 << 12);
            // MSR APSR_nzcvq, #0.
            writer.put(0xe328_f000);
        };
        // The one is not armed, or is at times, when the other is.
        let value = random.pick(&[0, 0, 2, 1]);
        self.load(1, 0);
        self.load(2, 0x1000);
        self.load(4, value);
        self.put(COMPARE | (other ^ 1) << 4 | 2 << 16 | 1 << 12);
        self.put(CONTROL | (other ^ 1) | 4 << 12);
        if soon {
            // With its interrupt, which ends the step at its vector, if nothing else does before: the store may be
            // refused, so the time is in no register yet.
            self.load(10, memory::CONTROLLER_FRAMES[0]);
            self.load(3, TIMERS);
            self.put(0xe580_0000 | 10 << 16 | 3 << 12 | 0x100);
            self.load(3, 0);
        }
        set(self);
        self.load(4, 1);
        self.put(CONTROL | other | 4 << 12);
        if soon {
            // No trace of the time.
            self.load(1, 0);
            self.load(2, 0);
            // CPSIE I; B to itself.
            self.put(0xf108_0080);
            self.put(0xeaff_fffe);
            return;
        }
        self.put(LOAD | CONTROL | other | 5 << 12);
        if random.one_in(2) {
            // While it is armed.
            set(self);
            self.put(LOAD | CONTROL | other | 6 << 12);
        }
        if random.one_in(3) {
            self.load(4, 3);
            self.put(CONTROL | other | 4 << 12);
            self.load(4, 1);
            self.put(CONTROL | other | 4 << 12);
        }
        self.load(4, 0);
        self.put(CONTROL | other | 4 << 12);
        self.load(1, 0);
        self.load(2, 0);
        self.put(COMPARE | other << 4 | 2 << 16 | 1 << 12);
    }

    /// Interrupts are acknowledged and ended, as a handler does it, in rounds of the same code: what assembly answers
    /// must have been seen once. They are those that software sends to itself, and those of the timers.
    fn interrupts(&mut self) {
        // Numbers of its own, as in `timer`.
        let seed = self.words.iter().fold(self.va, |sum, word| sum.rotate_left(3) ^ word);
        let mut random = Random::new(seed, 28);
        if !random.one_in(2) {
            return;
        }
        self.acts.push("interrupts");
        self.put(CPSID_I);
        let [distributor, interface] = memory::CONTROLLER_FRAMES;
        const ENABLE: u32 = 0x100;
        const DISABLE: u32 = 0x180;
        const GENERATE: u32 = 0xf00;
        const STORE: u32 = 0xe580_0000;
        const LOAD: u32 = 0xe590_0000;
        const CONTROL: u32 = 0xee0e_0f32;
        const COMPARE: u32 = 0xec40_0f2e;
        // R8 counts the rounds; R9 has the CPU interface, R10 the distributor.
        let (base, to) = (9u32 << 16, 10u32 << 16);
        let timers = random.one_in(2);
        self.load(9, interface);
        self.load(10, distributor);
        self.load(8, 1 + random.below(5));
        if timers {
            self.load(1, TIMERS);
            self.put(STORE | to | 1 << 12 | ENABLE);
        }
        let other = random.below(2);
        let begin = self.here();
        if !random.one_in(4) {
            if timers && random.one_in(2) {
                // It was due long ago: its line rises.
                for (reg, value) in [(2, 0), (3, 0), (4, 1)] {
                    self.load(reg, value);
                }
                self.put(COMPARE | other << 4 | 3 << 16 | 2 << 12);
                self.put(CONTROL | other | 4 << 12);
            } else {
                self.load(1, 2 << 24 | random.below(16));
                self.put(STORE | to | 1 << 12 | GENERATE);
            }
        }
        self.restore_masks();
        // What the timer is set to without Rust, before the interrupt is acknowledged and after.
        let quiet = |writer: &mut Self, random: &mut Random| {
            if random.one_in(2) {
                let value = random.pick(&[0, 2, 2, 3, 3]);
                let timer = if random.one_in(4) { other ^ 1 } else { other };
                writer.load(4, value);
                writer.put(CONTROL | timer | 4 << 12);
            }
        };
        if random.one_in(3) {
            quiet(self, &mut random);
        }
        if random.one_in(8) {
            let dacr = any_dacr(&mut random);
            self.with(DACR, dacr);
            self.put(ISB);
        }
        if random.one_in(5) {
            // In the last round, the domain of the controller is closed: CMP R8, #1; BICEQ R0, R0, #0xc.
            self.load(0, 0x4000_4555);
            self.put(0xe358_0001);
            self.put(0x03c0_000c);
            self.put(DACR);
            self.put(ISB);
        }
        let into = random.pick(&[0, 1, 2, 5, 7, 11, 12]);
        self.put(LOAD | base | into << 12 | 0x00c);
        quiet(self, &mut random);
        if random.one_in(4) {
            // Another place that reads: one of them is known.
            self.put(LOAD | base | 6 << 12 | 0x00c);
        }
        let ended = if random.one_in(6) {
            let value = if random.one_in(2) { random.below(32) } else { random.word() };
            self.load(3, value);
            3
        } else {
            into
        };
        self.put(STORE | base | ended << 12 | 0x010);
        // SUBS R8, R8, #1; BNE.
        self.put(0xe258_8001);
        let back = (begin.wrapping_sub(self.here() + 8) >> 2) & 0x00ff_ffff;
        self.put(0x1a00_0000 | back);
        // What is signalled now, and what is active.
        self.put(LOAD | base | 2 << 12 | 0x018);
        self.put(LOAD | base | 3 << 12 | 0x014);
        self.put(LOAD | to | 4 << 12 | 0x300);
        if timers {
            self.load(1, TIMERS);
            self.put(STORE | to | 1 << 12 | DISABLE);
        }
    }

    /// The timers are set and read. What they are compared with was reached long ago, or is ages ahead: so what is read
    /// does not depend on the time.
    fn timer(&mut self) {
        // The physical timer's; the virtual one's have a bit more each.
        const CONTROL: u32 = 0xee0e_0f32;
        const COMPARE: u32 = 0xec40_0f2e;
        const LOAD: u32 = 1 << 20;
        // Numbers of its own: all else that a session does was the same before there was this.
        let seed = self.words.iter().fold(self.va, |sum, word| sum.rotate_left(5) ^ word);
        let mut random = Random::new(seed, 27);
        for _ in 0..random.below(8) {
            let (rt, rt2, other) = (random.below(13), random.below(13), random.below(2));
            let word = match random.below(5) {
                0 | 1 => LOAD | CONTROL | other | rt << 12,
                2 | 3 => {
                    let value = if random.one_in(4) { random.word() } else { random.below(4) };
                    self.load(rt, value);
                    CONTROL | other | rt << 12
                }
                _ => {
                    let ahead = random.one_in(2);
                    let (low, high) = if ahead { (random.word(), random.word() | 0x1000) } else { (0, 0) };
                    self.load(rt, low);
                    self.load(rt2, high);
                    // The same register twice: as far ahead.
                    COMPARE | other << 4 | rt2 << 16 | rt << 12
                }
            };
            self.put(if random.one_in(8) { word & 0x0fff_ffff | random.below(14) << 28 } else { word });
        }
    }
}
