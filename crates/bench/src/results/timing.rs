//! What a model of the core counted (`spica_cycles`), and the cycles that follow.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use spica_cycles::price::{self, Range};
use spica_cycles::{Core, Count, Counts, Part};

/// The time of a measurement, on either side.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Timing {
    /// On the bare board.
    pub native: Counted,
    /// As Spica's guest.
    pub virtualised: Counted,
}

/// Counts over a known number of operations.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Counted {
    /// How many operations the counts cover. At least 1.
    pub operations: u64,
    /// Counts: keys are those of [`Count`]. One that is absent is 0.
    pub counts: BTreeMap<String, u64>,
}

impl Counted {
    /// Counts of so many operations.
    #[must_use]
    pub fn new(operations: u64, counts: &Counts) -> Counted {
        let named = |c: &Count| (c.key().to_string(), counts.get(*c));
        Counted { operations, counts: Count::ALL.iter().map(named).filter(|(_, n)| *n > 0).collect() }
    }

    /// The counts.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for count in Count::ALL {
            counts.set(*count, self.counts.get(count.key()).copied().unwrap_or(0));
        }
        counts
    }

    /// Cycles per operation.
    #[must_use]
    pub fn cycles(&self, core: Core) -> Range {
        price::total(core, &self.counts()) * (1.0 / self.operations as f64)
    }

    /// Cycles of a part per operation.
    #[must_use]
    pub fn part(&self, core: Core, part: Part) -> Range {
        price::part(core, &self.counts(), part) * (1.0 / self.operations as f64)
    }

    pub(super) fn check(&self, side: &str) -> Result<(), (String, String)> {
        let field = |name: &str| format!("measured.timing.{side}.{name}");
        if self.operations == 0 {
            return Err((field("operations"), "0 operations cannot have counts".into()));
        }
        match self.counts.keys().find(|name| !Count::ALL.iter().any(|c| c.key() == name.as_str())) {
            Some(name) => Err((field(&format!("counts.{name}")), "nothing that is counted has this name".into())),
            None => Ok(()),
        }
    }
}

impl Timing {
    /// How many times more cycles it takes as a guest: with all prices low, middle and high, sorted.
    #[must_use]
    pub fn ratio(&self, core: Core) -> Range {
        let (native, virtualised) = (self.native.cycles(core), self.virtualised.cycles(core));
        let ratios = [virtualised.low / native.low, virtualised.mid / native.mid, virtualised.high / native.high];
        let low = ratios.into_iter().fold(f64::INFINITY, f64::min);
        let high = ratios.into_iter().fold(0.0, f64::max);
        Range::new(low, ratios[1], high)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_of_operations() {
        let mut counts = Counts::default();
        counts.set(Count::Base, 100);
        let native = Counted::new(10, &counts);
        counts.set(Count::MissedReturn, 10);
        let virtualised = Counted::new(5, &counts);
        assert_eq!(virtualised.counts(), counts);
        let timing = Timing { native, virtualised };
        assert_eq!(timing.native.cycles(Core::CortexA8).mid, 10.0);
        assert_eq!(timing.virtualised.part(Core::CortexA8, Part::MissedReturn).mid, 26.0);
        let ratio = timing.ratio(Core::CortexA8);
        assert!((ratio.mid - 4.6).abs() < 1e-9 && ratio.low < ratio.mid && ratio.mid < ratio.high, "{ratio:?}");
    }
}
