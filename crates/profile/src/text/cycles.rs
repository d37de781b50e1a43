//! Cycles as text.

use std::fmt::Write;

use spica_bench::format::{number, ratio};
use spica_cycles::Part;

use crate::cycles::{Cycles, Parts, Spot};
use crate::profile::{Profile, Section};

/// Columns: parts of the time that belong together.
const COLUMNS: [(&str, &[Part]); 7] = [
    ("base", &[Part::Base]),
    ("I-cache", &[Part::InstructionCache]),
    ("D-cache", &[Part::DataCache]),
    ("TLBs", &[Part::InstructionTlb, Part::DataTlb, Part::Walks]),
    ("branches", &[Part::MissedDirect, Part::MissedIndirect, Part::MissedReturn]),
    ("exceptions", &[Part::Exceptions]),
    ("CP15, devices", &[Part::Maintenance, Part::Devices]),
];

/// Rows that are less than this share of the whole are left out of a section's rows.
const SMALL: f64 = 0.002;

/// The figures of a line: all, then each column.
fn figures(parts: &Parts) -> [f64; COLUMNS.len() + 1] {
    let mut figures = [parts.total(); COLUMNS.len() + 1];
    figures[1..].iter_mut().zip(COLUMNS).for_each(|(figure, (_, which))| *figure = parts.some(which));
    figures
}

/// The lines of the first table: names, how far they are indented, and what they took.
fn lines(cycles: &Cycles) -> Vec<(String, bool, Parts)> {
    let all = cycles.parts();
    let mut lines = vec![("all".to_string(), false, all)];
    for section in Section::ALL {
        let rows: Vec<_> = cycles.rows.iter().filter(|row| row.section == section).collect();
        if rows.is_empty() {
            continue;
        }
        let mut sum = Parts::default();
        rows.iter().for_each(|row| sum.add(&row.parts));
        lines.push((section.title().into(), false, sum));
        let large = rows.iter().filter(|row| row.parts.total().abs() >= SMALL * all.total());
        lines.extend(large.map(|row| (row.name.clone(), true, row.parts)));
    }
    lines
}

/// What the tables of a profile's cycles are of.
fn head(profile: &Profile, cycles: &Cycles) -> String {
    let [low, middle, high] = cycles.total.map(number);
    let mut text = format!("{} takes {middle} cycles of a {} ({low} to {high})", profile.operation, cycles.core);
    if let Some([user, kernel]) = &cycles.native {
        let native = user.total() + kernel.total();
        let _ = write!(
            text,
            ", {} times the {} of the bare board ({} of user code, {} of the kernel)",
            ratio(cycles.total[1] / native),
            number(native),
            number(user.total()),
            number(kernel.total())
        );
    }
    text.push('.');
    text
}

/// Pages, lines and instructions, with their titles.
fn spots(cycles: &Cycles) -> [(&'static str, &[Spot]); 3] {
    [
        ("pages of code that take most beyond the pipeline's own cycles", &cycles.pages),
        ("lines of the instruction cache", &cycles.lines),
        ("instructions", &cycles.instructions),
    ]
}

/// Tables for a terminal.
#[must_use]
pub fn terminal(profile: &Profile, cycles: &Cycles) -> String {
    let mut text = format!("  {}\n", head(profile, cycles));
    let mut line = |name: &str, cells: [String; COLUMNS.len() + 1]| {
        let _ = write!(text, "  {name:<48}");
        cells.iter().for_each(|cell| {
            let _ = write!(text, " {cell:>9.9}");
        });
        text.push('\n');
    };
    let mut titles = [const { String::new() }; COLUMNS.len() + 1];
    titles[0] = "cycles".into();
    titles[1..].iter_mut().zip(COLUMNS).for_each(|(title, (name, _))| *title = name.into());
    line("", titles);
    for (name, indented, parts) in lines(cycles) {
        let name = if indented { format!("  {name}") } else { name };
        line(&name, figures(&parts).map(short));
    }
    for (which, parts) in
        ["the bare board's user code", "the bare board's kernel"].iter().zip(cycles.native.iter().flatten())
    {
        line(which, figures(parts).map(short));
    }
    for (title, spots) in spots(cycles) {
        let _ = writeln!(text, "  {title}");
        for spot in spots {
            let _ = write!(text, "    {:08x}", spot.address);
            figures(&spot.parts).map(short).iter().for_each(|cell| {
                let _ = write!(text, " {cell:>9}");
            });
            let _ = writeln!(text, "  {}", super::shortened(&spot.what));
        }
    }
    text
}

/// The same in Markdown.
#[must_use]
pub fn markdown(profile: &Profile, cycles: &Cycles) -> String {
    let mut text = format!("\n{}\n", head(profile, cycles));
    let columns: Vec<_> = COLUMNS.iter().map(|(name, _)| *name).collect();
    let rule = "--:|".repeat(COLUMNS.len() + 1);
    let cells = |parts: &Parts| figures(parts).map(short).join(" | ");
    let _ = write!(text, "\n| what | cycles | {} |\n|---|{rule}\n", columns.join(" | "));
    for (name, indented, parts) in lines(cycles) {
        let name = name.replace('|', "\\|");
        let name = if indented { name } else { format!("**{name}**") };
        let _ = writeln!(text, "| {name} | {} |", cells(&parts));
    }
    for (which, parts) in
        ["the bare board's user code", "the bare board's kernel"].iter().zip(cycles.native.iter().flatten())
    {
        let _ = writeln!(text, "| {which} | {} |", cells(parts));
    }
    for (title, spots) in spots(cycles) {
        let _ =
            write!(text, "\nThe {title}:\n\n| address | what | cycles | {} |\n|---|---|{rule}\n", columns.join(" | "));
        for spot in spots {
            let what = super::shortened(&spot.what).replace('|', "\\|");
            let _ = writeln!(text, "| `{:08x}` | {what} | {} |", spot.address, cells(&spot.parts));
        }
    }
    text
}

/// A figure of a table: what is less than a hundredth is nothing.
fn short(cycles: f64) -> String {
    match cycles.abs() {
        0.0..0.01 => String::new(),
        0.01..10.0 => format!("{cycles:.2}"),
        10.0..100.0 => format!("{cycles:.1}"),
        _ => number(cycles),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cycles::Row;

    fn cycles() -> Cycles {
        let parts = |base: f64, walks: f64| {
            let mut parts = Parts::default();
            parts.0[Part::ALL.iter().position(|p| *p == Part::Base).unwrap()] = base;
            parts.0[Part::ALL.iter().position(|p| *p == Part::Walks).unwrap()] = walks;
            parts
        };
        let row = |name: &str, section, base, walks| Row { section, name: name.into(), parts: parts(base, walks) };
        Cycles {
            core: "Cortex-A8".into(),
            total: [400.0, 600.0, 900.0],
            native: Some([parts(50.0, 0.0), parts(250.0, 0.0)]),
            rows: vec![
                row("kernel code", Section::Guest, 300.0, 0.0),
                row("indirect|branches", Section::Fast, 100.0, 199.75),
                row("next to nothing", Section::Fast, 0.25, 0.0),
            ],
            pages: vec![Spot { address: 0xf180_1000, what: "translated code".into(), parts: parts(1.0, 30.0) }],
            lines: Vec::new(),
            instructions: Vec::new(),
        }
    }

    fn profile() -> Profile {
        Profile { cycles: Some(cycles()), ..super::super::tests::profile() }
    }

    #[test]
    fn a_terminal_has_a_column_for_each_part() {
        let text = terminal(&profile(), &cycles());
        let head = "  a system call takes 600 cycles of a Cortex-A8 (400 to 900), 2.00 times the 300 of the bare board \
                    (50 of user code, 250 of the kernel).";
        assert_eq!(text.lines().next(), Some(head));
        let cells = |name: &str| {
            let line =
                text.lines().find(|line| line.trim_start().starts_with(name)).unwrap_or_else(|| panic!("{text}"));
            line.trim_start()[name.len()..].split_whitespace().map(String::from).collect::<Vec<_>>()
        };
        assert_eq!(cells("all"), ["600", "400", "200"]);
        assert_eq!(cells("fast traps (assembly)"), ["300", "100", "200"]);
        assert_eq!(cells("the bare board's kernel"), ["250", "250"]);
        assert_eq!(cells("f1801000"), ["31.0", "1.00", "30.0", "translated", "code"]);
        assert!(!text.contains("next to nothing"), "{text}");
    }

    #[test]
    fn markdown_has_the_same() {
        let text = markdown(&profile(), &cycles());
        assert!(text.contains("| **all** | 600 | 400 |  |  | 200 |  |  |  |"), "{text}");
        assert!(text.contains("| indirect\\|branches | 300 | 100 |"), "{text}");
        assert!(text.contains("| `f1801000` | translated code | 31.0 | 1.00 |"), "{text}");
        let columns = |line: &str| line.matches('|').count() - line.matches("\\|").count();
        let table: Vec<_> =
            text.lines().filter(|line| line.starts_with("| **all") || line.starts_with("| what")).collect();
        assert!(table.iter().all(|line| columns(line) == COLUMNS.len() + 3), "{table:?}");
    }
}
