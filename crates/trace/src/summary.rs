//! A timeline in figures: how long each thing took, all of its kind together.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::timeline::{Subject, Timeline};

/// A line of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// What it is about.
    pub subject: Subject,
    /// What.
    pub name: String,
    /// How often.
    pub count: u64,
    /// How long, all together, in nanoseconds.
    pub total: u64,
    /// The longest.
    pub longest: u64,
}

/// What there was of each kind, the most time first within a subject. Rows of a guest's processes count together, with
/// what user code took, and its kernel in each system call.
#[must_use]
pub fn lines(timeline: &Timeline) -> Vec<Line> {
    let mut sums: BTreeMap<(Subject, String), (u64, u64, u64)> = BTreeMap::new();
    for (&subject, rows) in &timeline.rows {
        for row in rows {
            for span in row.spans.iter().filter(|span| span.category != "process") {
                let length = timeline.nanoseconds(span.end) - timeline.nanoseconds(span.begin);
                let name = match span.category {
                    "trap" | "kernel" => format!("{}: {}", span.category, span.name),
                    "interrupt" if row.name.starts_with("interrupt") => format!("{}: {}", row.name, span.name),
                    _ => span.name.to_string(),
                };
                let (count, total, longest) = sums.entry((subject, name)).or_default();
                (*count, *total, *longest) = (*count + 1, *total + length, length.max(*longest));
            }
        }
    }
    let mut lines: Vec<Line> = sums
        .into_iter()
        .map(|((subject, name), (count, total, longest))| Line { subject, name, count, total, longest })
        .collect();
    lines.sort_by(|a, b| (a.subject, b.total).cmp(&(b.subject, a.total)));
    lines
}

/// Microseconds with one decimal.
#[must_use]
pub fn microseconds(nanoseconds: u64) -> String {
    format!("{}.{}", nanoseconds / 1000, nanoseconds / 100 % 10)
}

/// The table as text, of each subject as many lines as said at most.
#[must_use]
pub fn text(timeline: &Timeline, most: usize) -> String {
    let mut text = String::new();
    let lines = lines(timeline);
    let span = timeline.nanoseconds(timeline.range.1).max(1);
    for &subject in timeline.rows.keys() {
        let name = match subject {
            Subject::Board => "board",
            Subject::Guest(number) => &timeline.guests[number],
        };
        let _ = writeln!(text, "{name:<46}      times    share     mean   longest (µs)");
        for line in lines.iter().filter(|line| line.subject == subject).take(most) {
            let share = line.total * 1000 / span;
            let _ = writeln!(
                text,
                "  {:<44} {:>10} {:>5}.{} % {:>8} {:>9}",
                line.name,
                line.count,
                share / 10,
                share % 10,
                microseconds(line.total / line.count.max(1)),
                microseconds(line.longest)
            );
        }
    }
    text
}

/// Seconds with three decimals.
#[must_use]
pub fn seconds(nanoseconds: u64) -> String {
    format!("{}.{:03} s", nanoseconds / 1_000_000_000, nanoseconds / 1_000_000 % 1000)
}
