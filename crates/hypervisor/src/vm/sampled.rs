//! Samples of what a guest's kernel executes, while that is counted ([`super::counted`]): where it is, and what on its
//! stack may be return addresses. Whoever reads them makes a flame graph of that.
//!
//! A sample is due behind a number of *instructions* of the kernel, not of ticks: counted code takes the length of each
//! run from a countdown, and traps where that falls below 0 ([`spica_dbt::trap::SAMPLE`]). So each instruction has the
//! same chance, whatever the host's clock does, whatever Spica itself is busy with, and however fast the board is. The
//! distance is random, between one instruction and twice the mean, so that no loop is in step with it.
//!
//! All that is read here is the guest's to write: the countdown, its SP, and the stack. So a sample looks at a bounded
//! number of words, through the guest's own tables, and a ring of a fixed size keeps it. If that is full, the sample is
//! lost, and counted.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::ops::Range;

use spica_addr::{CachePc, pieces};
use spica_console::debug::{SAMPLE_CALL, SAMPLE_LOOKS, SAMPLE_LR, SAMPLE_STALE, SAMPLE_WORDS};

use super::backtrace::{Code, STACK, near, stale};
use super::{Vm, trap};
use crate::host_cpu::{HostCpu, HostSpace};

/// Bytes of samples that wait to be read at most.
const RING: usize = 0x1_0000;
/// Bytes of a sample without words of the stack, and of each of these.
const HEAD: usize = 9;
const WORD: usize = 6;

/// What samples are to be taken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// How many instructions apart they are in the mean.
    pub every: u32,
    /// Addresses of the kernel's code, if they are known: other words of the stack are left out. Without them, words
    /// are that have a call in front of them.
    pub code: Option<Range<u32>>,
}

/// Samples that were taken.
pub struct Samples {
    wanted: Wanted,
    /// Whole samples: how many words, PC, TPIDRURO, and each word's number on the stack with marks, and itself.
    ring: VecDeque<u8>,
    taken: u32,
    lost: u32,
    /// The state of a generator of numbers.
    random: u32,
}

impl Samples {
    /// None yet.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn new(wanted: Wanted) -> Result<Samples, &'static str> {
        let mut ring = VecDeque::new();
        ring.try_reserve_exact(RING).map_err(|_| "there is no memory for samples")?;
        Ok(Samples { wanted, ring, taken: 0, lost: 0, random: 0x2545_f491 })
    }

    /// The number of instructions to the next one: Marsaglia's generator with three shifts.
    pub fn next_distance(&mut self) -> u32 {
        let mut x = self.random;
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        self.random = x;
        1 + ((u64::from(x) * u64::from(2 * self.wanted.every - 1)) >> 32) as u32
    }

    /// How many were taken, those that were lost included, how many of them were lost, and how many bytes wait.
    pub fn figures(&self) -> (u32, u32, usize) {
        (self.taken, self.lost, self.ring.len())
    }

    /// Whole samples, of so many bytes at most together.
    pub fn take(&mut self, most: usize) -> Vec<u8> {
        let mut end = 0;
        while let Some(&words) = self.ring.get(end) {
            let behind = end + HEAD + WORD * usize::from(words);
            if behind > most {
                break;
            }
            end = behind;
        }
        self.ring.drain(..end).collect()
    }

    fn keep(&mut self, head: &[u32; 2], words: &[(u16, u32)]) {
        self.taken = self.taken.saturating_add(1);
        if self.ring.len() + HEAD + WORD * words.len() > RING {
            self.lost = self.lost.saturating_add(1);
            return;
        }
        self.ring.push_back(words.len() as u8);
        self.ring.extend(head.iter().flat_map(|word| word.to_le_bytes()));
        for (place, word) in words {
            self.ring.extend(place.to_le_bytes());
            self.ring.extend(word.to_le_bytes());
        }
    }
}

/// Words of a stack that may be return addresses.
struct Found {
    words: [(u16, u32); SAMPLE_WORDS],
    count: usize,
    /// The innermost place from which what is looked at may have been called.
    inner: u32,
}

impl Found {
    /// Looks at a word. False if there is no room for more.
    fn look(&mut self, wanted: &Wanted, code: &mut Code<'_>, place: u16, word: u32) -> bool {
        let fits = match &wanted.code {
            Some(range) => word.is_multiple_of(4) && range.contains(&word),
            None => near(word, self.inner),
        };
        if !fits {
            return true;
        }
        let mut marks = 0;
        match code.call(word) {
            Some(called) => {
                marks |= SAMPLE_CALL;
                if stale(called, self.inner) {
                    marks |= SAMPLE_STALE;
                } else {
                    self.inner = word;
                }
            }
            None if wanted.code.is_none() => return true,
            None => {}
        }
        let Some(to) = self.words.get_mut(self.count) else { return false };
        *to = (place | marks, word);
        self.count += 1;
        true
    }
}

impl Vm {
    /// A sample is due, says translated code in front of `behind`, which may be forged.
    #[cold]
    pub(super) fn sample(&mut self, core: &mut HostCpu, behind: CachePc) {
        let Some(mut samples) = self.common.samples.take() else { return };
        if let Some((counters, memory)) = self.common.engine.blocks.counters() {
            let left = counters.countdown(memory);
            *left = left.wrapping_add(samples.next_distance());
            // Far below 0 it is only where somebody else has written: it would take as long.
            if left.cast_signed() < 0 {
                *left = samples.next_distance();
            }
        }
        let host_space = core.enter_host_space();
        if let Some(pc) = trap::guest_pc_of(self, host_space, CachePc(behind.0.wrapping_sub(4))) {
            self.take_sample(host_space, &mut samples, pc.0);
        }
        self.common.samples = Some(samples);
    }

    /// Keeps what on the stack may be return addresses, with the kernel at `pc`.
    pub(super) fn take_sample(&self, host_space: HostSpace<'_>, samples: &mut Samples, pc: u32) {
        let cpu = &self.vcpu.context.cpu;
        let (sp, lr) = (cpu.regs[13] & !3, cpu.regs[14]);
        let mut code = Code::new(self, host_space, SAMPLE_LOOKS);
        let mut found = Found { words: [(0, 0); SAMPLE_WORDS], count: 0, inner: pc };
        found.look(&samples.wanted, &mut code, SAMPLE_LR, lr);
        let mut stack = Code::new(self, host_space, 0);
        'words: for (at, len) in pieces(sp, (STACK - sp % STACK) as usize) {
            let Some(pa) = stack.place(sp.wrapping_add(at as u32)) else { break };
            let Some(bytes) = self.common.ram.bytes(host_space, pa, len as u32) else { break };
            for (n, &word) in bytes.as_chunks::<4>().0.iter().enumerate() {
                let word = u32::from_le_bytes(word);
                if !found.look(&samples.wanted, &mut code, (at / 4 + n) as u16, word) {
                    break 'words;
                }
            }
        }
        samples.keep(&[pc, cpu.page.tpidruro], &found.words[..found.count]);
    }

    /// How many samples were taken and lost, and how many bytes of them wait.
    pub fn sampled(&self) -> (u32, u32, usize) {
        self.common.samples.as_ref().map_or((0, 0, 0), |samples| samples.figures())
    }

    /// Some samples ([`spica_console::debug::Debug::Samples`]).
    pub fn take_samples(&mut self) -> Vec<u8> {
        let samples = self.common.samples.as_mut();
        samples.map_or_else(Vec::new, |samples| samples.take(spica_console::trace::PIECE_BYTES))
    }
}
