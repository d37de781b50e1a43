//! What a step does with the state of the kernel's own mode: masks, flags, thread IDs, and changes of mode.

use alloc::vec;
use alloc::vec::Vec;

use spica_vcpu::psr::{self, Mode};

use super::{CPSID_I, T32_NOP, Writer, mcr};
use crate::vm::check::random::Random;

impl Writer<'_> {
    /// Masks, thread IDs, flags.
    pub(super) fn state(&mut self) {
        match self.random.below(6) {
            // MOV SP, R3; MOV LR, R5: whatever they have.
            4 => self.put(0xe1a0_d003),
            5 => self.put(0xe1a0_e005),
            // CPSIE and CPSID of I.
            0 => self.put(0xf108_0080),
            1 => self.put(0xf10c_0080),
            2 => {
                let value = self.random.word();
                self.with(mcr(0, 13, 0, 3), value);
            }
            _ => {
                let value = self.random.word();
                self.load(0, value);
                // MSR APSR_nzcvqg, R0.
                self.put(0xe12c_f000);
            }
        }
        self.modes_in_t32();
    }

    /// From mode to mode by MSR in T32 code, with SP and LR of each, and back to A32 code: Supervisor and System mode,
    /// Abort and Undefined mode, which differ in the same bits.
    fn modes_in_t32(&mut self) {
        // Numbers of its own, as in `timer`.
        let seed = self.words.iter().fold(self.va, |sum, word| sum.rotate_left(3) ^ word);
        let mut random = Random::new(seed, 37);
        let other = |mode| match mode {
            Mode::Svc => Some(Mode::Sys),
            Mode::Sys => Some(Mode::Svc),
            Mode::Abt => Some(Mode::Und),
            Mode::Und => Some(Mode::Abt),
            _ => None,
        };
        if random.one_in(3) || other(self.mode).is_none() {
            return;
        }
        self.acts.push("modes in T32");
        // ADD R0, PC, #1; BX R0.
        self.put(0xe28f_0001);
        self.put(0xe12f_ff10);
        let mut code: Vec<u16> = vec![];
        for _ in 0..=random.below(4) {
            // MRS R1, CPSR; EOR R1, R1, #0x0c.
            code.extend([0xf3ef, 0x8100, 0xf081, 0x010c]);
            // MSR CPSR_c, R1; or CPSR_xc, or from R14, which is for Rust.
            match random.below(8) {
                0 => code.extend([0xf381, 0x8300]),
                1 => code.extend([0x468e, 0xf38e, 0x8100]),
                _ => code.extend([0xf381, 0x8100]),
            }
            // MOV R3, SP; MOV R4, LR.
            code.extend([0x466b, 0x4674]);
            if random.one_in(2) {
                // MOV SP, R2; MOV LR, R3.
                code.extend([0x4695, 0x469e]);
            }
            self.mode = other(self.mode).unwrap_or(self.mode);
        }
        if !code.len().is_multiple_of(2) {
            code.push(T32_NOP);
        }
        // BX PC, at a word: to what is behind the next one.
        code.extend([0x4778, T32_NOP]);
        for pair in code.as_chunks::<2>().0 {
            self.put(u32::from(pair[0]) | u32::from(pair[1]) << 16);
        }
    }

    /// The interrupt mask is restored, to what it is, where an interrupt may wait for it: in A32 or in T32 code, under
    /// a condition or not. Now and then F or I changes, or R14 has the value, which is for Rust. Uses R7 or R14, and
    /// R0.
    pub(super) fn restore_masks(&mut self) {
        // Numbers of its own, as in `timer`.
        let seed = self.words.iter().fold(self.va, |sum, word| sum.rotate_left(9) ^ word);
        let mut random = Random::new(seed, 39);
        if random.one_in(4) {
            return;
        }
        self.acts.push("masks");
        if random.one_in(3) {
            // ADD R0, PC, #1; BX R0.
            self.put(0xe28f_0001);
            self.put(0xe12f_ff10);
            // MRS R7, CPSR; MSR CPSR_c, R7; BX PC; NOP: to what is behind.
            self.put(0x8700_f3ef);
            self.put(0x8100_f387);
            self.put(u32::from(T32_NOP) << 16 | 0x4778);
            return;
        }
        let from = if random.one_in(8) { 14 } else { 7 };
        // MRS, and EOR: of F, or of I.
        self.put(0xe10f_0000 | from << 12);
        let changed = random.pick(&[0, 0, psr::F, psr::I, psr::I]);
        if changed != 0 {
            self.put(0xe220_0000 | from << 16 | from << 12 | changed);
        }
        let condition = if random.one_in(4) { random.below(14) } else { 14 };
        self.put(condition << 28 | 0x0121_f000 | from);
        // If nothing waits: what comes later is not to be taken while code runs, as above.
        self.put(CPSID_I);
    }
}
