//! What a run of endurance came to, and whether that is well.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// By how much the last rounds may take longer than the first ones, in hundredths: what a guest's kernel does for
/// itself differs from round to round.
const SLOWER: u64 = 3;

/// Spica's pools that must come back to their level, and how many bytes above it they may be. Tables are those of
/// processes that happen to live.
const POOLS: [(&str, u64); 3] =
    [("memory.heap-bytes", 16 * 1024), ("memory.overhead-bytes", 256 * 1024), ("memory.table-bytes", 256 * 1024)];

/// A part of a round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its name.
    pub name: String,
    /// Hundredths of a second of guest time that it took.
    pub time: u64,
    /// A checksum of what came of it, or `failed:` and why.
    pub result: String,
}

/// A round: its parts, in their order.
pub type Round = Vec<Part>;

/// All that is known of a run.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// The rounds.
    pub rounds: Vec<Round>,
    /// Spica's counters behind the second round, and at the end.
    pub levels: Vec<BTreeMap<String, u64>>,
    /// The guest's free memory in KiB at the same times.
    pub free: Vec<u64>,
    /// The guest has said that it is done.
    pub done: bool,
    shift: u8,
}

impl Record {
    /// Nothing yet, with instructions that take 2 to the power of `shift` nanoseconds.
    #[must_use]
    pub fn new(shift: u8) -> Self {
        Self { shift, ..Self::default() }
    }

    /// Takes a line of the guest's; gives a line to be shown when a round has ended.
    pub fn hear(&mut self, line: &str) -> Option<String> {
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["@round", _] => {
                let said = self.rounds.last().map(|_| self.last_round());
                self.rounds.push(Round::new());
                return said;
            }
            ["@part", name, time, result] => {
                let part = Part { name: name.into(), time: time.parse().unwrap_or(0), result: result.into() };
                self.rounds.last_mut()?.push(part);
            }
            ["@levels", free] => self.free.extend(free.parse::<u64>()),
            ["@done"] => {
                self.done = true;
                return Some(self.last_round());
            }
            _ => {}
        }
        None
    }

    fn last_round(&self) -> String {
        let number = self.rounds.len();
        let mut text = format!("round {number}:");
        for part in self.rounds.last().into_iter().flatten() {
            let mark = if self.expected(&part.name) == Some(&part.result) { "" } else { " WRONG" };
            let _ = write!(text, " {} {}.{:02} s{mark}", part.name, part.time / 100, part.time % 100);
        }
        text
    }

    /// What a part gave in the first round.
    fn expected(&self, name: &str) -> Option<&String> {
        self.rounds.first()?.iter().find(|p| p.name == name).map(|p| &p.result)
    }

    /// Instructions, in millions, of hundredths of a second.
    fn millions(&self, time: u64) -> u64 {
        ((time * 10_000_000) >> self.shift) / 1_000_000
    }

    /// The median time of a part, or of all with `None`, in the first and the last quarter of the rounds, without the
    /// first two and the two at which pools are looked at.
    #[must_use]
    pub fn first_and_last(&self, part: Option<&str>) -> Option<[u64; 2]> {
        let times: Vec<u64> = self.rounds.iter().skip(3).map(|r| time(r, part)).collect();
        let quarter = times.len().div_ceil(4);
        let median = |times: &[u64]| {
            let mut sorted = times.to_vec();
            sorted.sort_unstable();
            sorted.get(sorted.len() / 2).copied()
        };
        Some([median(&times[..quarter])?, median(&times[times.len() - quarter..])?])
    }

    /// The names of all parts.
    #[must_use]
    pub fn parts(&self) -> BTreeSet<&str> {
        self.rounds.iter().flatten().map(|p| p.name.as_str()).collect()
    }

    /// The guest's time in all rounds, in seconds.
    #[must_use]
    pub fn seconds(&self) -> u64 {
        self.rounds.iter().map(|r| time(r, None)).sum::<u64>() / 100
    }

    /// All that is wrong; nothing, if all is well.
    #[must_use]
    pub fn verdict(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        if !self.done {
            wrong.push("the guest did not come to its end".to_string());
        }
        for (number, round) in self.rounds.iter().enumerate() {
            for part in round {
                let expected = self.expected(&part.name);
                if part.result.starts_with("failed") || expected != Some(&part.result) {
                    let text = format!("round {}: {} gave {}", number + 1, part.name, part.result);
                    wrong.push(format!("{text}, in round 1 {}", expected.map_or("nothing", String::as_str)));
                }
            }
            if round.len() != self.rounds[0].len() {
                wrong.push(format!("round {} has {} parts", number + 1, round.len()));
            }
        }
        if let [before, .., after] = &self.levels[..] {
            for (pool, more) in POOLS {
                match (before.get(pool), after.get(pool)) {
                    (Some(before), Some(after)) if *after <= before + more => {}
                    (before, after) => wrong.push(format!("{pool} was {before:?}, and is {after:?}")),
                }
            }
        }
        if self.rounds.len() >= 8
            && let Some([first, last]) = self.first_and_last(None)
            && last * 100 > first * (100 + SLOWER)
        {
            let [first, last] = [first, last].map(|time| self.millions(time));
            wrong.push(format!("a round took {first} million instructions at first, and takes {last} million"));
        }
        wrong
    }

    /// The figures, for people.
    #[must_use]
    pub fn figures(&self) -> String {
        let mut text = format!("{} rounds, {} s of guest time\n", self.rounds.len(), self.seconds());
        let all = self.parts().into_iter().map(Some).chain([None]);
        for part in all {
            if let Some([first, last]) = self.first_and_last(part) {
                let name = part.unwrap_or("a round");
                let [a, b] = [first, last].map(|time| self.millions(time));
                let _ = writeln!(text, "{name}: {a} million instructions at first, {b} million at the end");
            }
        }
        if let [before, .., after] = &self.levels[..] {
            for (name, before) in before {
                let after = after.get(name).copied().unwrap_or(0);
                if ["memory.", "translator.", "mmu.spaces"].iter().any(|p| name.starts_with(p)) {
                    let _ = writeln!(text, "{name}: {before}, {after}");
                }
            }
        }
        let _ = writeln!(text, "free memory of the guest, in KiB: {:?}", self.free);
        text
    }
}

fn time(round: &Round, part: Option<&str>) -> u64 {
    round.iter().filter(|p| part.is_none_or(|name| p.name == name)).map(|p| p.time).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(rounds: u64, time: impl Fn(u64) -> u64, result: impl Fn(u64) -> &'static str) -> Record {
        let mut record = Record::new(5);
        for round in 1..=rounds {
            record.hear(&format!("@round {round}"));
            record.hear(&format!("@part sort {} {}", time(round), result(round)));
            record.hear("@part fork 7 abc");
        }
        record.hear("@done");
        let level = BTreeMap::from(POOLS.map(|(name, _)| (name.to_string(), 1000)));
        record.levels = vec![level.clone(), level];
        record
    }

    #[test]
    fn the_same_for_ever_is_well() {
        assert_eq!(record(40, |_| 100, |_| "x").verdict(), [""; 0]);
        assert_eq!(record(40, |round| if round < 3 { 900 } else { 100 }, |_| "x").verdict(), [""; 0]);
    }

    #[test]
    fn a_wrong_result_is_seen() {
        let wrong = record(40, |_| 100, |round| if round == 17 { "y" } else { "x" }).verdict();
        assert_eq!(wrong, ["round 17: sort gave y, in round 1 x"]);
        assert_eq!(record(5, |_| 100, |_| "failed:no").verdict().len(), 5);
    }

    #[test]
    fn slower_is_seen() {
        let wrong = record(40, |round| 100 + round, |_| "x").verdict();
        assert_eq!(wrong.len(), 1);
        assert!(wrong[0].starts_with("a round took"), "{wrong:?}");
    }

    #[test]
    fn a_leak_is_seen() {
        let mut record = record(40, |_| 100, |_| "x");
        record.levels[1].insert("memory.heap-bytes".into(), 1000 + 16_385);
        assert_eq!(record.verdict(), ["memory.heap-bytes was Some(1000), and is Some(17385)"]);
        record.levels[1].remove("memory.heap-bytes");
        assert_eq!(record.verdict().len(), 1);
    }

    #[test]
    fn an_early_end_is_seen() {
        let mut record = record(4, |_| 100, |_| "x");
        record.done = false;
        assert_eq!(record.verdict(), ["the guest did not come to its end"]);
    }
}
