//! Branch prediction: a buffer of targets, counters for directions, a stack of return addresses.
//!
//! Both cores predict what the buffer of targets knows as a branch, and nothing else: a branch that is not in it runs
//! as if it were not taken (Cortex-A8 TRM §5.1). Of a branch that is in it, two-bit counters say the direction, if it
//! has a condition, and the return stack the target, if it is a return.

use crate::core::Parts;
use crate::decode::Flow;

/// The predictors of a core.
#[derive(Clone, Debug)]
pub struct Predictor {
    /// Branches and where they went last: sets, one after the other.
    targets: Vec<Option<(u32, u32)>>,
    ways: usize,
    /// For each set, the way that is replaced next.
    next: Vec<u8>,
    /// Two-bit counters: 2 and 3 say that the branch is taken.
    counters: Vec<u8>,
    history: u32,
    history_bits: u32,
    stack: Vec<u32>,
    /// Where the stack's newest entry is.
    top: usize,
}

/// A branch that was executed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Branch {
    /// Where it is.
    pub address: u32,
    /// The instruction behind it.
    pub behind: u32,
    /// The instruction that was executed after it.
    pub went: u32,
    /// What it is.
    pub flow: Flow,
}

impl Predictor {
    /// Predictors that know nothing.
    #[must_use]
    pub fn new(parts: &Parts) -> Predictor {
        let (sets, ways) = parts.branch_targets;
        Predictor {
            targets: vec![None; sets * ways],
            ways,
            next: vec![0; sets],
            // Weakly not taken: an estimate.
            counters: vec![1; 1 << parts.direction_bits],
            history: 0,
            history_bits: parts.history_bits,
            stack: vec![0; parts.return_stack],
            top: 0,
        }
    }

    /// Whether a branch was predicted rightly; the predictors learn from it.
    pub fn resolve(&mut self, branch: Branch) -> bool {
        let taken = branch.went != branch.behind;
        // By words: two short instructions of a word are in two ways of a set.
        let first = (branch.address >> 2) as usize % self.next.len() * self.ways;
        let known = self.targets[first..][..self.ways].iter().position(|t| t.is_some_and(|t| t.0 == branch.address));
        let mut said = branch.behind;
        if let Some(way) = known {
            let target = self.targets[first + way].map_or(0, |t| t.1);
            let direction = !branch.flow.is_conditional() || self.counters[self.counter(branch.address)] >= 2;
            if direction {
                said = if branch.flow.is_return() { self.stack[self.top] } else { target };
            }
        }
        if branch.flow.is_conditional() {
            let at = self.counter(branch.address);
            let counter = &mut self.counters[at];
            *counter = if taken { (*counter + 1).min(3) } else { counter.saturating_sub(1) };
            self.history = (self.history << 1 | u32::from(taken)) & ((1 << self.history_bits) - 1);
        }
        if taken {
            let way = known.unwrap_or_else(|| {
                let set = first / self.ways;
                let way = usize::from(self.next[set]);
                self.next[set] = ((way + 1) % self.ways) as u8;
                way
            });
            self.targets[first + way] = Some((branch.address, branch.went));
            if branch.flow.is_return() {
                self.top = (self.top + self.stack.len() - 1) % self.stack.len();
            } else if branch.flow.is_call() {
                self.top = (self.top + 1) % self.stack.len();
                self.stack[self.top] = branch.behind;
            }
        }
        said == branch.went
    }

    /// The counter for a branch: the history chooses, and as much of the address as fits beside it.
    fn counter(&self, address: u32) -> usize {
        let index = (address >> 1) << self.history_bits ^ self.history;
        // Whatever is above the index is folded into it.
        (index ^ index >> 12) as usize & (self.counters.len() - 1)
    }

    /// Forgets the targets of branches in the word at an address (BPIMVA).
    pub fn forget(&mut self, address: u32) {
        let first = (address >> 2) as usize % self.next.len() * self.ways;
        for target in &mut self.targets[first..][..self.ways] {
            if target.is_some_and(|(from, _)| (from ^ address) & !3 == 0) {
                *target = None;
            }
        }
    }

    /// Forgets the targets (BPIALL).
    pub fn flush(&mut self) {
        self.targets.fill(None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::Core;

    const CONDITIONAL: Flow = Flow::Direct { conditional: true, call: false };
    const CALL: Flow = Flow::Direct { conditional: false, call: true };

    fn branch(address: u32, went: u32, flow: Flow) -> Branch {
        Branch { address, behind: address + 4, went, flow }
    }

    #[test]
    fn a_loop_is_missed_when_it_is_new() {
        for core in Core::ALL {
            let mut predictor = Predictor::new(core.parts());
            let wrong = (0..1000).filter(|_| !predictor.resolve(branch(0x100, 0x40, CONDITIONAL))).count();
            assert!((1..30).contains(&wrong), "{core}: {wrong}");
            assert!(!predictor.resolve(branch(0x100, 0x104, CONDITIONAL)), "its end comes as a surprise");
        }
    }

    #[test]
    fn a_pattern_is_learnt() {
        for core in Core::ALL {
            let mut predictor = Predictor::new(core.parts());
            let mut wrong = 0;
            for n in 0..4000u32 {
                let went = if n % 3 == 0 { 0x104 } else { 0x40 };
                let right = predictor.resolve(branch(0x100, went, CONDITIONAL));
                wrong += usize::from(!right && n >= 2000);
            }
            assert_eq!(wrong, 0, "{core}");
        }
    }

    #[test]
    fn calls_return_as_deep_as_the_stack_is() {
        for core in Core::ALL {
            let mut predictor = Predictor::new(core.parts());
            let mut wrong_at = |depth: u32| {
                let mut wrong = 0;
                for round in 0..3 {
                    for n in 0..depth {
                        predictor.resolve(branch(0x1004 * n, 0x1004 * (n + 1), CALL));
                    }
                    for n in (0..depth).rev() {
                        let back = branch(0x1004 * (n + 1) + 0x80, 0x1004 * n + 4, Flow::Return { conditional: false });
                        let right = predictor.resolve(back);
                        wrong += usize::from(!right && round == 2);
                    }
                }
                wrong
            };
            assert_eq!(wrong_at(8), 0, "{core}");
            assert_eq!(wrong_at(12), 4, "{core}");
        }
    }

    #[test]
    fn an_indirect_branch_is_said_to_go_where_it_went() {
        let mut predictor = Predictor::new(Core::CortexA8.parts());
        let indirect = Flow::Indirect { conditional: false, call: false };
        assert!(!predictor.resolve(branch(0x100, 0x800, indirect)));
        assert!(predictor.resolve(branch(0x100, 0x800, indirect)));
        assert!(!predictor.resolve(branch(0x100, 0x900, indirect)));
        predictor.forget(0x104);
        assert!(predictor.resolve(branch(0x100, 0x900, indirect)));
        predictor.forget(0x100);
        assert!(!predictor.resolve(branch(0x100, 0x900, indirect)));
        predictor.flush();
        assert!(!predictor.resolve(branch(0x100, 0x900, indirect)));
    }

    #[test]
    fn more_branches_than_targets_are_missed() {
        let mut predictor = Predictor::new(Core::CortexA8.parts());
        let jump = Flow::Direct { conditional: false, call: false };
        let mut round = |n: u32| (0..n).filter(|b| !predictor.resolve(branch(4 * b, 0x10_0000, jump))).count();
        round(128);
        assert_eq!(round(128), 0);
        round(2048);
        assert_eq!(round(2048), 2048);
    }
}
