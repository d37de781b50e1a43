//! What changed between two result files, worst first: `spica bench --compare A B`.
//!
//! The figures repeat exactly, so every difference is a change and there is no noise to allow for. First come figures
//! that B has lost, for a workload that no longer runs is worse than any slowdown; then what became slower, the most
//! first; then what became faster, the least first, so that the whole reads from worst to best; then what is new. If a
//! native figure changed, the two files were not made under the same conditions, and the comparison says so.

use std::cmp::Ordering;
use std::fmt::Write as _;

use crate::format;
use crate::results::{Key, Measurement, Results, Status};

/// What became of one measurement from A to B.
#[derive(Clone, PartialEq, Debug)]
pub enum Change {
    /// A has a figure and B has none, for this reason.
    Lost {
        /// Why.
        reason: String,
    },
    /// Both have figures, and they differ.
    Changed {
        /// Virtualised instructions per operation, in A and in B.
        virtualised: (f64, f64),
        /// Native instructions per operation, in A and in B.
        native: (f64, f64),
        /// Traps per operation, in A and in B, if both counted them.
        traps: Option<(f64, f64)>,
    },
    /// B has a figure and A has none, for this reason.
    Gained {
        /// Why A has none.
        reason: String,
        /// B's ratio.
        ratio: f64,
    },
}

impl Change {
    /// B's ratio of virtualised to native instructions over A's, if both have one.
    #[must_use]
    pub fn factor(&self) -> Option<f64> {
        match self {
            Change::Changed { virtualised, native, .. } => {
                Some((virtualised.1 / native.1) / (virtualised.0 / native.0))
            }
            Change::Lost { .. } | Change::Gained { .. } => None,
        }
    }

    /// Where it stands in the order from worst to best.
    fn rank(&self) -> (u8, f64) {
        match self {
            Change::Lost { .. } => (0, 0.0),
            Change::Changed { .. } => (1, -self.factor().unwrap_or(1.0)),
            Change::Gained { .. } => (2, 0.0),
        }
    }
}

/// A comparison of two results.
#[derive(Clone, PartialEq, Debug)]
pub struct Comparison {
    /// A's name, for headings.
    pub a: String,
    /// B's name.
    pub b: String,
    /// Differences in what the two were measured with: field, A's value, B's value. The date is not among them.
    pub conditions: Vec<(String, String, String)>,
    /// All changes, worst first.
    pub changes: Vec<(Key, Change)>,
    /// Measurements that neither has a figure for, with B's reason.
    pub missing: Vec<(Key, String)>,
    /// How many figures are the same in both.
    pub unchanged: usize,
}

/// Compares the results called `a_name` and `b_name`.
#[must_use]
pub fn compare(a_name: &str, a: &Results, b_name: &str, b: &Results) -> Comparison {
    let mut result = Comparison {
        a: a_name.to_string(),
        b: b_name.to_string(),
        conditions: conditions(a, b),
        changes: Vec::new(),
        missing: Vec::new(),
        unchanged: 0,
    };
    let only_in_b = b.measurements.iter().map(Measurement::key).filter(|key| a.get(key).is_none());
    for key in a.measurements.iter().map(Measurement::key).chain(only_in_b) {
        let (in_a, in_b) = (a.get(&key), b.get(&key));
        match (in_a.and_then(Measurement::figures), in_b.and_then(Measurement::figures)) {
            (Some(old), Some(new)) => {
                if old == new {
                    result.unchanged += 1;
                    continue;
                }
                let all = |f: &crate::results::Figures| f.events.as_ref().and_then(|e| e.all_traps_per_operation());
                let change = Change::Changed {
                    virtualised: (old.virtualised, new.virtualised),
                    native: (old.native, new.native),
                    traps: all(old).zip(all(new)),
                };
                result.changes.push((key, change));
            }
            (Some(_), None) => result.changes.push((key, Change::Lost { reason: why(in_b, b_name) })),
            (None, Some(new)) => {
                let change = Change::Gained { reason: why(in_a, a_name), ratio: new.ratio() };
                result.changes.push((key, change));
            }
            (None, None) => {
                let reason = if in_b.is_some() { why(in_b, b_name) } else { why(in_a, a_name) };
                result.missing.push((key, reason));
            }
        }
    }
    // Stable, so that equals stay in the order of A.
    result.changes.sort_by(|(_, x), (_, y)| x.rank().partial_cmp(&y.rank()).unwrap_or(Ordering::Equal));
    result
}

/// Why a file has no figure.
fn why(measurement: Option<&Measurement>, file: &str) -> String {
    match measurement.map(|m| &m.status) {
        Some(Status::Missing { reason, .. }) => format!("missing: {reason}"),
        Some(Status::NotImplemented { reason }) => format!("does not exist yet: {reason}"),
        Some(Status::Measured(_)) | None => format!("not in {file}"),
    }
}

fn conditions(a: &Results, b: &Results) -> Vec<(String, String, String)> {
    let (a, b) = (&a.run, &b.run);
    let mut all = vec![
        ("commit".to_string(), commit(&a.commit, a.dirty), commit(&b.commit, b.dirty)),
        ("qemu".to_string(), a.qemu.clone(), b.qemu.clone()),
        ("icount_shift".to_string(), a.icount_shift.to_string(), b.icount_shift.to_string()),
    ];
    for (board, old) in &a.boards {
        let Some(new) = b.boards.get(board) else { continue };
        all.push((format!("{board} kernel"), old.kernel.clone(), new.kernel.clone()));
        for (package, version) in &old.packages {
            if let Some(other) = new.packages.get(package) {
                all.push((format!("{board} {package}"), version.clone(), other.clone()));
            }
        }
    }
    for (name, value) in &a.parameters {
        if let Some(other) = b.parameters.get(name) {
            all.push((name.clone(), value.clone(), other.clone()));
        }
    }
    all.retain(|(_, old, new)| old != new);
    all
}

fn commit(hash: &str, dirty: bool) -> String {
    let short: String = hash.chars().take(12).collect();
    if dirty { format!("{short} with changes") } else { short }
}

impl Comparison {
    /// Whether every figure is the same and none is missing on one side only.
    #[must_use]
    pub fn is_identical(&self) -> bool {
        self.changes.is_empty()
    }

    /// Whether anything became slower or was lost.
    #[must_use]
    pub fn is_worse(&self) -> bool {
        let worse = |c: &Change| matches!(c, Change::Lost { .. }) || c.factor().is_some_and(|f| f > 1.0);
        self.changes.iter().any(|(_, change)| worse(change))
    }

    /// For a terminal.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = format!("{} -> {}\n", self.a, self.b);
        for (field, old, new) in &self.conditions {
            let _ = writeln!(out, "  {field}: {old} -> {new}");
        }
        let rows: Vec<[String; 4]> = self.changes.iter().map(|(key, change)| row(key, change)).collect();
        let width = |at: usize| rows.iter().map(|r| r[at].chars().count()).max().unwrap_or(0);
        let widths = [width(0), width(1), width(2)];
        for [change, key, ratio, rest] in &rows {
            let line = format!("{change:>0$}  {key:<1$}  {ratio:<2$}  {rest}", widths[0], widths[1], widths[2]);
            let _ = writeln!(out, "{}", line.trim_end());
        }
        for (key, reason) in &self.missing {
            let _ = writeln!(out, "in neither: {key}: {reason}");
        }
        let _ = writeln!(out, "{}", self.summary());
        out
    }

    fn summary(&self) -> String {
        let count = |of: fn(&Change) -> bool| self.changes.iter().filter(|(_, c)| of(c)).count();
        let lost = count(|c| matches!(c, Change::Lost { .. }));
        let slower = count(|c| c.factor().is_some_and(|f| f > 1.0));
        let faster = count(|c| c.factor().is_some_and(|f| f < 1.0));
        let same_ratio = count(|c| c.factor() == Some(1.0));
        let gained = count(|c| matches!(c, Change::Gained { .. }));
        let mut parts =
            vec![format!("{slower} slower"), format!("{faster} faster"), format!("{} the same", self.unchanged)];
        if lost > 0 {
            parts.insert(0, format!("{lost} lost"));
        }
        if same_ratio > 0 {
            parts.push(format!("{same_ratio} with the same ratio but other counts"));
        }
        if gained > 0 {
            parts.push(format!("{gained} new"));
        }
        if !self.missing.is_empty() {
            parts.push(format!("{} in neither", self.missing.len()));
        }
        parts.join(", ")
    }
}

/// Change, measurement, ratios, the rest.
fn row(key: &Key, change: &Change) -> [String; 4] {
    let key = key.to_string();
    match change {
        Change::Lost { reason } => ["lost".into(), key, String::new(), reason.clone()],
        Change::Gained { reason, ratio } => {
            ["new".into(), key, format!("{}×", format::ratio(*ratio)), format!("before {reason}")]
        }
        Change::Changed { virtualised, native, traps } => {
            let percent = 100.0 * (change.factor().unwrap_or(1.0) - 1.0);
            let ratios =
                format!("{}× → {}×", format::ratio(virtualised.0 / native.0), format::ratio(virtualised.1 / native.1));
            let mut rest =
                format!("{} → {} instructions", format::number(virtualised.0), format::number(virtualised.1));
            if let Some((old, new)) = traps.filter(|(old, new)| old != new) {
                let _ = write!(rest, "; {} → {} traps", format::number(old), format::number(new));
            }
            if native.0 != native.1 {
                let (old, new) = (format::number(native.0), format::number(native.1));
                let _ = write!(rest, "; NATIVE figure changed too: {old} → {new}");
            }
            [format!("{percent:+.1} %"), key, ratios, rest]
        }
    }
}
