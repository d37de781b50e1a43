//! Spica's counters, which it prints at the end of a guest: `stat trap.mmio 12`.

use std::collections::BTreeMap;

use spica_bench::events::Trap;

/// Which trap a counter of Spica's counts.
const TRAPS: &[(&str, Trap)] = &[
    ("trap.branch.unlinked", Trap::DirectBranch),
    ("trap.branch.indirect-hit", Trap::IndirectBranch),
    ("trap.branch.indirect-miss", Trap::IndirectBranch),
    ("trap.branch.mirror-miss", Trap::IndirectBranch),
    ("trap.emulated.direct-branch", Trap::DirectBranch),
    ("trap.emulated.indirect-branch", Trap::IndirectBranch),
    ("trap.emulated.exception-return", Trap::ExceptionReturn),
    ("trap.emulated.mode-change", Trap::ModeChange),
    ("trap.emulated.status-register", Trap::StatusRegister),
    ("trap.emulated.coprocessor", Trap::Coprocessor),
    ("trap.emulated.user-bank", Trap::UserBank),
    ("trap.emulated.unprivileged", Trap::Unprivileged),
    ("trap.emulated.system-call", Trap::KernelCall),
    ("trap.emulated.sleep", Trap::Sleep),
    ("trap.emulated.other", Trap::OtherEmulated),
    ("trap.system-call", Trap::UserCall),
    ("trap.undefined", Trap::Undefined),
    ("trap.hidden-fault", Trap::HiddenFault),
    ("trap.guest-abort", Trap::GuestAbort),
    ("trap.mmio", Trap::Mmio),
    ("trap.code-page-write", Trap::ProtectedWrite),
    ("trap.host-interrupt", Trap::Interrupt),
];

/// The counts of traps by class in what Spica said; none if it did not count.
#[must_use]
pub fn traps(spica: &[String]) -> BTreeMap<Trap, u64> {
    let mut counts = BTreeMap::new();
    for line in spica {
        let mut words = line.split_whitespace();
        let (Some("stat"), Some(name), Some(value)) = (words.next(), words.next(), words.next()) else { continue };
        let trap = TRAPS.iter().find(|(n, _)| *n == name).map(|(_, trap)| *trap);
        if let (Some(trap), Ok(value)) = (trap, value.parse::<u64>()) {
            *counts.entry(trap).or_insert(0) += value;
        }
    }
    counts
}

/// What `with` counted beyond `without`, by the names of the result file.
#[must_use]
pub fn beyond(with: &BTreeMap<Trap, u64>, without: &BTreeMap<Trap, u64>) -> BTreeMap<String, u64> {
    let base = |trap| without.get(trap).copied().unwrap_or(0);
    with.iter().map(|(trap, &n)| (trap.key().to_string(), n.saturating_sub(base(trap)))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_add_up_by_class() {
        let lines = |text: &str| text.lines().map(str::to_string).collect::<Vec<_>>();
        let counts = traps(&lines(
            "guest debian: powered off\nstat trap.branch.indirect-hit 5\nstat trap.branch.indirect-miss 2\n\
             stat trap.mmio 9\nstat mmu.page-fills 7\nstat trap.mmio x",
        ));
        assert_eq!(counts, BTreeMap::from([(Trap::IndirectBranch, 7), (Trap::Mmio, 9)]));
        let less = BTreeMap::from([(Trap::IndirectBranch, 3), (Trap::Mmio, 10)]);
        let expected = BTreeMap::from([("indirect-branch".to_string(), 4), ("mmio".to_string(), 0)]);
        assert_eq!(beyond(&counts, &less), expected);
        assert!(traps(&lines("hello")).is_empty());
    }
}
