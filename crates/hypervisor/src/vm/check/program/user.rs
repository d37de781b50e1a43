//! The user code that a program returns to in the end.

use alloc::vec;

use spica_vcpu::psr::Mode;

use super::{MOV_LR_R6, MOVS_PC_LR, MSR_SPSR_R5, T32_NOP, Writer, any_psr};
use crate::vm::check::memory::{self, harmless};
use crate::vm::check::random::Random;

impl Writer<'_> {
    /// To user code.
    pub(super) fn user(&mut self) {
        self.acts.push("user return");
        if self.mode == Mode::Sys {
            self.put(0xf102_0013);
        }
        let thumb = self.random.one_in(3);
        let mut psr = any_psr(self.random, Mode::Usr as u32) | u32::from(thumb) << 5;
        if !self.random.one_in(6) {
            psr &= !0x1c0;
        }
        if self.random.one_in(16) {
            // Data is big-endian.
            psr |= 0x200;
        }
        self.load(5, psr);
        self.put(MSR_SPSR_R5);
        let target = if self.random.one_in(3) {
            self.address() & if thumb { !1 } else { !3 }
        } else {
            self.user_program(thumb);
            self.user_va
        };
        // Most of them in one megabyte: where nothing of a megabyte is there yet, it is Rust that begins.
        let favourite = self.random.pick(&self.kind.favourites);
        let addresses: [u32; 4] = core::array::from_fn(|_| {
            let favourites = if self.random.one_in(3) { self.kind.favourites } else { [favourite; 2] };
            memory::address(self.random, favourites)
        });
        let value = harmless(self.random.word());
        self.load(6, target);
        self.put(MOV_LR_R6);
        // One at any place, three for words.
        self.load(0, addresses[0]);
        for (reg, address) in [3, 7, 9].into_iter().zip(&addresses[1..]) {
            self.load(reg, address & !3);
        }
        self.load(2, value);
        self.put(MOVS_PC_LR);
    }

    /// Some instructions, mostly of memory; what is behind them is SVC.
    fn user_program(&mut self, thumb: bool) {
        let count = 1 + self.random.below(5);
        if thumb {
            // MOV SP, R2; MOV LR, R7; LDR R1, [R0]; LDR R1, [R7]; STR R2, [R7]; STR R2, [R3]; LDRB; LDR R1, [R3]; UDF;
            // SVC; MRRC of the counter; VMOV; MCR; NOP.
            const HALVES: [[u16; 2]; 18] = [
                [0x4695, 0],
                [0x46be, 0],
                [0x6801, 0],
                [0x6801, 0],
                [0x6839, 0],
                [0x6839, 0],
                [0x603a, 0],
                [0x603a, 0],
                [0x601a, 0],
                [0x7801, 0],
                [0x6819, 0],
                [0x601a, 0],
                [0xde01, 0],
                [0xdf07, 0],
                [0xec52, 0x1f0e],
                [0xee00, 0x1a10],
                [0xee08, 0x0f17],
                [0xbf00, 0],
            ];
            let mut halves = vec![];
            for _ in 0..count {
                let [first, second] = self.random.pick(&HALVES);
                halves.push(first);
                if second != 0 {
                    halves.push(second);
                }
            }
            if self.kind.frequency {
                // MRC of the frequency.
                halves.iter_mut().for_each(|half| match *half {
                    0xec52 => *half = 0xee1e,
                    0x1f0e => *half = 0x1f10,
                    _ => {}
                });
            }
            // Numbers of its own, as in `timer`: the SVC may be in the middle of an IT block.
            let seed = halves.iter().fold(self.user_va, |sum, half| sum.rotate_left(5) ^ u32::from(*half));
            let mut random = Random::new(seed, 43);
            if random.one_in(3) {
                // ITTTT AL; NOP.
                halves.push(0xbfe1);
                halves.extend([T32_NOP].repeat(random.below(4) as usize));
            }
            halves.extend([0xdf01; 3]);
            self.user = halves.chunks_exact(2).map(|two| u32::from(two[1]) << 16 | u32::from(two[0])).collect();
        } else {
            // MOV SP, R2; MOV LR, R7; LDR R1, [R0]; STR R2, [R3], and the same with R7 and R9; LDRB R1, [R0]; STRB R2,
            // [R3]; LDM R0, {R1, R4}; LDRD R4, [R3]; STRD R4, [R3]; LDREX R1, [R3]; MRC of TPIDRURO and of the
            // counter's kin; MCR of CP15; UDF; SVC; BKPT; VMOV; VLDR S0, [R3]; STRH.
            const WORDS: [u32; 34] = [
                0xe1a0_d002,
                0xe1a0_e007,
                0xe1a0_d002,
                0xe1a0_e007,
                0xe590_1000,
                0xe590_1000,
                0xe583_2000,
                0xe583_2000,
                0xe583_2000,
                0xe597_1000,
                0xe597_1000,
                0xe587_2000,
                0xe587_2000,
                0xe587_2000,
                0xe599_1000,
                0xe599_1000,
                0xe589_2000,
                0xe589_2000,
                0xe5d0_1000,
                0xe5c3_2000,
                0xe890_0012,
                0xe1c3_40d0,
                0xe193_1f9f,
                0xee1d_1f70,
                0xee1e_1f10,
                0xec52_1f0e,
                0xee08_0f17,
                0xe7f0_00f0,
                0xef00_0007,
                0xe120_0070,
                0xee00_1a10,
                0xed93_0a00,
                0xe1c3_20b0,
                0xfe00_0000,
            ];
            let frequency = |word| if word == 0xec52_1f0e && self.kind.frequency { 0xee1e_1f10 } else { word };
            let words = (0..count).map(|_| self.random.pick(&WORDS)).map(frequency);
            self.user = words.chain([0xef00_0001; 2]).collect();
        }
    }
}
