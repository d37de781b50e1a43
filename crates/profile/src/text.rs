//! Profiles as text: for a terminal, and in Markdown.

use std::fmt::Write;

use spica_bench::format::{fine, number, ratio};

use crate::profile::{Part, Profile, Row};

mod cycles;

/// Rows that are less than this share of the whole are summed up as one.
const SMALL: f64 = 0.0005;

/// A table for a terminal.
#[must_use]
pub fn terminal(profile: &Profile) -> String {
    let mut text = format!("{}\n", head(profile));
    let mut line = |name: &str, instructions: f64, times: &str| {
        let share = 100.0 * instructions / profile.sum();
        let _ = writeln!(text, "  {name:<58} {:>13} {share:>6.1} % {times:>11}", number(instructions));
    };
    for (part, rows) in tables(profile) {
        line(part.section.title(), part.instructions(), "");
        for row in rows {
            line(&format!("  {}", row.name), row.instructions, &times(&row));
        }
    }
    // A run with cycles does not tell them apart.
    if !profile.slow.is_empty() {
        let _ = writeln!(text, "  slow traps by kind, with all that Spica did for them");
    }
    for row in together(&profile.slow, profile) {
        let (instructions, times) = (number(row.instructions), times(&row));
        let _ = writeln!(text, "    {:<56} {instructions:>13} {:>8} {times:>11}", row.name, "");
    }
    let _ = writeln!(text, "  Spica's functions, by themselves");
    for row in &profile.symbols {
        let _ = writeln!(text, "    {:>11} {}", number(row.instructions), shortened(&row.name));
    }
    text.extend(profile.cycles.as_ref().map(|cycles| cycles::terminal(profile, cycles)));
    text
}

/// A section of a page.
#[must_use]
pub fn markdown(profile: &Profile) -> String {
    let mut text = format!("## `{}`\n\n{}\n\n", profile.workload, head(profile));
    text.push_str("| what | instructions | share | times |\n|---|--:|--:|--:|\n");
    let mut line = |name: &str, instructions: f64, times: &str| {
        let share = 100.0 * instructions / profile.sum();
        let _ = writeln!(text, "| {name} | {} | {share:.1} % | {times} |", number(instructions));
    };
    for (part, rows) in tables(profile) {
        line(&format!("**{}**", part.section.title()), part.instructions(), "");
        for row in rows {
            line(&row.name.replace('|', "\\|"), row.instructions, &times(&row));
        }
    }
    if !profile.slow.is_empty() {
        text.push_str("\nSlow traps by kind, with all that Spica did for them:\n\n");
        text.push_str("| trap | instructions | times | each |\n|---|--:|--:|--:|\n");
    }
    for row in together(&profile.slow, profile) {
        let each = row.times.filter(|times| *times > 0.0).map(|times| number((row.instructions / times).round()));
        let (instructions, each) = (number(row.instructions), each.unwrap_or_default());
        let _ = writeln!(text, "| {} | {instructions} | {} | {each} |", row.name, times(&row));
    }
    text.push_str(
        "\nThe functions of Spica's that took most, by themselves:\n\n| function | instructions |\n|---|--:|\n",
    );
    for row in &profile.symbols {
        let _ = writeln!(text, "| `{}` | {} |", shortened(&row.name).replace('|', "\\|"), number(row.instructions));
    }
    text.extend(profile.cycles.as_ref().map(|cycles| cycles::markdown(profile, cycles)));
    text
}

/// A function's name, of which what it is an instance for may take several lines.
fn shortened(name: &str) -> String {
    const ENOUGH: usize = 96;
    match name.char_indices().nth(ENOUGH) {
        Some((end, _)) => format!("{} …", &name[..end]),
        None => name.into(),
    }
}

/// What the table is of.
fn head(profile: &Profile) -> String {
    let Profile { workload, operation, operations, executed, .. } = profile;
    let mut text = format!("{workload}: {operation} takes {} instructions", number(*executed));
    if let Some(native) = profile.native {
        let _ = write!(
            text,
            ", {} times the {} of the bare board ({} of user code, {} of the kernel)",
            ratio(executed / (native.user + native.kernel)),
            number(native.user + native.kernel),
            number(native.user),
            number(native.kernel)
        );
        if native.new_blocks >= 1.0 {
            let _ = write!(text, ", which executes {} blocks for the first time", number(native.new_blocks));
        }
    }
    if *operations > 1 {
        let _ = write!(text, "; {} were counted", number(*operations as f64));
    }
    text.push('.');
    text
}

/// The parts that have anything, with their rows; small ones come to one.
fn tables(profile: &Profile) -> Vec<(&Part, Vec<Row>)> {
    let parts = profile.parts.iter().filter(|part| !part.rows.is_empty());
    parts.map(|part| (part, together(&part.rows, profile))).collect()
}

/// Rows, of which small ones come to one.
fn together(rows: &[Row], profile: &Profile) -> Vec<Row> {
    let (small, mut large): (Vec<_>, Vec<_>) =
        rows.iter().cloned().partition(|row| row.instructions.abs() < SMALL * profile.sum());
    match &small[..] {
        [] => {}
        [one] => large.push(one.clone()),
        _ => {
            let instructions = small.iter().map(|row| row.instructions).sum();
            large.push(Row { name: format!("{} rows below 0.05 %", small.len()), instructions, times: None });
        }
    }
    large
}

fn times(row: &Row) -> String {
    let text = |times: f64| if times.abs() < 1.0 { fine(times) } else { number(times) };
    row.times.map(text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Native, Section};

    pub(super) fn profile() -> Profile {
        let row = |name: &str, instructions, times| Row { name: name.into(), instructions, times };
        let part = |section, rows| Part { section, rows };
        Profile {
            workload: "null".into(),
            operation: "a system call".into(),
            operations: 1000,
            executed: 300.0,
            reported: None,
            native: Some(Native { user: 10.0, kernel: 90.0, new_blocks: 0.0 }),
            parts: vec![
                part(Section::Guest, vec![row("user code", 199.9, None), row("kernel code", 100.0, None)]),
                part(Section::Fast, vec![row("DACR", 0.06, Some(2.0)), row("vectors", 0.04, None)]),
                part(Section::Mmu, Vec::new()),
            ],
            slow: vec![row("start", 30.0, Some(2.0))],
            symbols: vec![row("a|b", 7.0, None)],
            cycles: None,
        }
    }

    #[test]
    fn a_table_says_what_it_is_of() {
        let text = terminal(&profile());
        let head = "null: a system call takes 300 instructions, 3.00 times the 100 of the bare board (10 of user code, 90 of \
                    the kernel); 1000 were counted.";
        assert_eq!(text.lines().next(), Some(head));
        let boot = Profile { native: Some(Native { user: 10.0, kernel: 90.0, new_blocks: 7.0 }), ..profile() };
        let head = head.replace("the kernel);", "the kernel), which executes 7 blocks for the first time;");
        assert_eq!(terminal(&boot).lines().next(), Some(head.as_str()));
        assert!(text.contains("2 rows below 0.05 %"), "{text}");
        assert!(!text.contains("MMU"), "{text}");
    }

    #[test]
    fn numbers_and_names_are_short() {
        let row = |times| Row { name: String::new(), instructions: 0.0, times: Some(times) };
        assert_eq!([times(&row(0.0005)), times(&row(2.004)), times(&row(118.3))], ["0.0005", "2", "118"]);
        assert_eq!(shortened("spica_dbt::x"), "spica_dbt::x");
        assert_eq!(shortened(&"é".repeat(200)).chars().count(), 98);
    }

    #[test]
    fn markdown_is_a_table() {
        let text = markdown(&profile());
        assert!(text.contains("| **the guest's own instructions** | 300 | 100.0 % |  |"), "{text}");
        assert!(text.contains("| kernel code | 100 | 33.3 % |  |"), "{text}");
        assert!(text.contains("| start | 30 | 2 | 15 |"), "{text}");
        assert!(text.contains("| `a\\|b` | 7 |"), "{text}");
    }
}
