//! What changed between two result files, worst first: `spica bench --compare A B`.
//!
//! The figures repeat exactly, so every difference is a change and there is no noise to allow for. First come figures
//! that B has lost, for a workload that no longer runs is worse than any slowdown; then what became slower, the most
//! first; then what became faster, the least first, so that the whole reads from worst to best; then what is new. If a
//! native figure changed, the two files were not made under the same conditions, and the comparison says so.

use std::cmp::Ordering;
use std::fmt::Write as _;

use crate::format;
use crate::results::{Figures, Key, Measurement, Results, Status};

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
    /// Both have a figure without a native counterpart, and they differ.
    Moved {
        /// What was found in A and in B.
        value: (f64, f64),
        /// In this unit.
        unit: String,
        /// Whether that is worse.
        worse: bool,
    },
    /// B has a figure and A has none, for this reason.
    Gained {
        /// Why A has none.
        reason: String,
        /// B's ratio, or its value and unit.
        gained: String,
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
            Change::Lost { .. } | Change::Moved { .. } | Change::Gained { .. } => None,
        }
    }

    /// Whether anything became slower, or was lost.
    fn is_worse(&self) -> bool {
        match self {
            Change::Lost { .. } => true,
            Change::Changed { .. } => self.factor().is_some_and(|f| f > 1.0),
            Change::Moved { worse, .. } => *worse,
            Change::Gained { .. } => false,
        }
    }

    /// Where it stands in the order from worst to best.
    fn rank(&self) -> (u8, f64) {
        match self {
            Change::Lost { .. } => (0, 0.0),
            Change::Changed { .. } => (1, -self.factor().unwrap_or(1.0)),
            Change::Moved { worse: true, .. } => (1, f64::NEG_INFINITY),
            Change::Moved { worse: false, .. } => (1, f64::INFINITY),
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
        let made = |m: &&Measurement| m.is_made();
        match (in_a.filter(made), in_b.filter(made)) {
            (Some(old), Some(new)) => {
                if old.status == new.status {
                    result.unchanged += 1;
                    continue;
                }
                result.changes.push((key, change(old, new)));
            }
            (Some(_), None) => result.changes.push((key, Change::Lost { reason: why(in_b, b_name) })),
            (None, Some(new)) => {
                result.changes.push((key, Change::Gained { reason: why(in_a, a_name), gained: figure(new) }));
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

/// What became of a measurement that both files have, and that is not the same in both.
fn change(old: &Measurement, new: &Measurement) -> Change {
    let all = |f: &Figures| f.events.as_ref().and_then(|e| e.all_traps_per_operation());
    match (&old.status, &new.status) {
        (Status::Measured(old), Status::Measured(new)) => Change::Changed {
            virtualised: (old.virtualised, new.virtualised),
            native: (old.native, new.native),
            traps: all(old).zip(all(new)),
        },
        (Status::Found(before), Status::Found(now)) => {
            Change::Moved { value: (before.value, now.value), unit: new.unit.clone(), worse: now.is_worse_than(before) }
        }
        _ => Change::Gained { reason: format!("it was {}", figure(old)), gained: figure(new) },
    }
}

/// A measurement's figure, in a few words.
fn figure(measurement: &Measurement) -> String {
    match &measurement.status {
        Status::Measured(f) => format!("{}×", format::ratio(f.ratio())),
        Status::Found(f) => format!("{} {}", format::fine(f.value), measurement.unit),
        Status::Missing { .. } | Status::NotImplemented { .. } => String::new(),
    }
}

/// Why a file has no figure.
fn why(measurement: Option<&Measurement>, file: &str) -> String {
    match measurement.map(|m| &m.status) {
        Some(Status::Missing { reason, .. }) => format!("missing: {reason}"),
        Some(Status::NotImplemented { reason }) => format!("does not exist yet: {reason}"),
        Some(Status::Measured(_) | Status::Found(_)) | None => format!("not in {file}"),
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
        self.changes.iter().any(|(_, change)| change.is_worse())
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
        let slower = count(|c| c.is_worse() && !matches!(c, Change::Lost { .. }));
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
        let moved = count(|c| matches!(c, Change::Moved { worse: false, .. }));
        if moved > 0 {
            parts.push(format!("{moved} moved to what is no worse"));
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
        Change::Gained { reason, gained } => ["new".into(), key, gained.clone(), format!("before {reason}")],
        Change::Moved { value: (old, new), unit, worse } => {
            let what = if *worse { "worse" } else { "moved" };
            [what.into(), key, format!("{} → {}", format::fine(*old), format::fine(*new)), unit.clone()]
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
