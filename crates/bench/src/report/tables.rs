//! The tables, once, for Markdown and HTML alike.

use std::fmt::Write as _;

use super::figures;
use super::markup::{Element, el, text};
use super::select;
use crate::catalogue;
use crate::events::{Event, Trap};
use crate::format;
use crate::model::Handlers;
use crate::model::costs::{self, Core, Range};
use crate::model::effects;
use crate::papers;
use crate::results::{Board, Group, Results, Status};

/// A table. Numbers stand to the right.
pub struct Table {
    /// Its heading.
    pub title: String,
    /// The columns: their heading, and whether they hold numbers.
    pub columns: Vec<(String, bool)>,
    /// The rows.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// A table without rows; the headings of number columns begin with `#`.
    pub fn new(title: &str, columns: &[&str]) -> Table {
        let column = |c: &&str| (c.trim_start_matches('#').to_string(), c.starts_with('#'));
        Table { title: title.into(), columns: columns.iter().map(column).collect(), rows: Vec::new() }
    }

    /// As Markdown, with its heading.
    pub fn markdown(&self) -> String {
        let mut out = format!("\n### {}\n\n", format::cell(&self.title));
        let heads: Vec<_> = self.columns.iter().map(|(name, _)| format::cell(name)).collect();
        let lines: Vec<_> = self.columns.iter().map(|(_, number)| if *number { "---:" } else { "---" }).collect();
        let _ = writeln!(out, "| {} |\n|{}|", heads.join(" | "), lines.join("|"));
        for row in &self.rows {
            let cells: Vec<_> = row.iter().map(|c| format::cell(c)).collect();
            let _ = writeln!(out, "| {} |", cells.join(" | "));
        }
        out
    }

    /// As HTML, with its heading.
    pub fn html(&self) -> Element {
        let class = |number: bool| if number { "n" } else { "t" };
        let head = self.columns.iter().map(|(name, number)| text("th", name).class(class(*number)));
        let row = |row: &Vec<String>| {
            let cells = row.iter().zip(&self.columns).map(|(cell, (_, number))| text("td", cell).class(class(*number)));
            el("tr").children(cells)
        };
        let head = el("thead").child(el("tr").children(head));
        let table = el("table").child(head).child(el("tbody").children(self.rows.iter().map(row)));
        el("div").child(text("h3", &self.title)).child(el("div").class("scroll").child(table))
    }
}

/// Figures of a group under the shipped configuration.
pub fn group(results: &Results, board: Board, group: Group) -> Option<Table> {
    let workloads = select::workloads(results, board, group);
    if workloads.is_empty() {
        return None;
    }
    let title = format!("{}: {group}, “{}”", board, catalogue::DEFAULT);
    let columns =
        ["workload", "per", "#native", "#as guest", "#ratio", "#traps", "#modelled slowdown", "measured with"];
    let mut table = Table::new(&title, &columns);
    for workload in workloads {
        let Some(m) = results.find(board, catalogue::DEFAULT, group, workload) else { continue };
        let native = m.native().map(format::number).unwrap_or_default();
        let mut row = vec![workload.to_string(), m.unit.clone(), native];
        match m.figures() {
            None => {
                let what =
                    if matches!(m.status, Status::NotImplemented { .. }) { "does not exist yet" } else { "missing" };
                row.extend([what.into(), String::new(), String::new(), String::new()]);
            }
            Some(f) => {
                let traps = f.events.as_ref().and_then(|e| e.all_traps_per_operation());
                let modelled = figures::model_of(results, board, group, workload).map(|c| range(c.slowdown()));
                row.push(format::number(f.virtualised));
                row.push(format!("{}×", format::ratio(f.ratio())));
                row.push(traps.map_or_else(|| "not counted".into(), format::number));
                row.push(modelled.unwrap_or_else(|| "not modelled".into()));
            }
        }
        row.push(m.source.clone());
        table.rows.push(row);
    }
    Some(table)
}

fn range(r: Range) -> String {
    format!("{}× ({}–{})", format::ratio(r.mid), format::ratio(r.low), format::ratio(r.high))
}

/// Ratios of a group under all configurations.
pub fn configurations(results: &Results, board: Board, group: Group) -> Option<Table> {
    let workloads = select::workloads(results, board, group);
    let measured = |name: &str| workloads.iter().any(|w| results.find(board, name, group, w).is_some());
    let names: Vec<_> = results.configurations.iter().map(|c| c.name.as_str()).filter(|n| measured(n)).collect();
    if names.len() < 2 {
        return None;
    }
    let mut table = Table::new(&format!("{board}: {group}, times native by configuration"), &["workload"]);
    table.columns.extend(names.iter().map(|n| ((*n).to_string(), true)));
    for workload in workloads {
        let cell = |name: &&str| match results.find(board, name, group, workload).map(|m| &m.status) {
            Some(Status::Measured(f)) => format::ratio(f.ratio()),
            Some(Status::Missing { .. }) => "missing".into(),
            Some(Status::NotImplemented { .. }) => "–".into(),
            Some(Status::Found(_)) | None => String::new(),
        };
        table.rows.push([workload.to_string()].into_iter().chain(names.iter().map(cell)).collect());
    }
    Some(table)
}

/// The configurations that Spica does not have.
pub fn not_implemented(results: &Results) -> Option<Table> {
    let mut table = Table::new("Not implemented", &["configuration", "what it would be", "what is missing"]);
    for configuration in &results.configurations {
        if let Some(lacks) = &configuration.lacks {
            table.rows.push(vec![configuration.name.clone(), configuration.description.clone(), lacks.clone()]);
        }
    }
    (!table.rows.is_empty()).then_some(table)
}

/// What was not measured, and why; equal reasons together.
pub fn not_measured(results: &Results) -> Option<Table> {
    let mut table = Table::new("Not measured", &["board", "configuration", "why", "workloads"]);
    for m in results.measurements.iter().filter(|m| !m.is_made()) {
        let head = [m.board.to_string(), m.configuration.clone(), select::reason(Some(m))];
        match table.rows.iter_mut().find(|row| row[..3] == head) {
            Some(row) => row[3] = format!("{}, {}", row[3], m.workload),
            None => table.rows.push(head.into_iter().chain([m.workload.clone()]).collect()),
        }
    }
    (!table.rows.is_empty()).then_some(table)
}

/// What the run was made with.
pub fn conditions(results: &Results) -> Table {
    let run = &results.run;
    let mut table = Table::new("Measured with", &["", ""]);
    let mut row = |name: &str, value: &str| table.rows.push(vec![name.to_string(), value.to_string()]);
    row("Spica’s commit", &run.commit);
    row("work tree", if run.dirty { "with changes that are not in the commit" } else { "clean" });
    row("date", &run.date);
    row("QEMU", &run.qemu);
    row(
        "time",
        &format!("-icount shift={}: one instruction is {} ns", run.icount_shift, 1u64 << run.icount_shift.min(63)),
    );
    for (board, software) in &run.boards {
        row(&format!("{board}: kernel"), &software.kernel);
        for (package, version) in &software.packages {
            row(&format!("{board}: {package}"), version);
        }
    }
    for (name, value) in &run.parameters {
        row(name, value);
    }
    table
}

/// The model's costs for a core.
pub fn costs(core: Core) -> Table {
    let title = format!("Costs on the {core}, in cycles");
    let mut table = Table::new(&title, &["event", "#low", "#middle", "#high", "where it is from"]);
    let mut row = |name: &str, cost: costs::Cost| {
        let Range { low, mid, high } = cost.cycles;
        let mut source = cost.source.to_string();
        if let Some(ends) = cost.ends {
            let _ = write!(source, "; its range: {ends}");
        }
        table.rows.push(vec![name.into(), format::number(low), format::number(mid), format::number(high), source]);
    };
    row("an instruction", costs::base_cpi(core));
    for &event in Event::ALL {
        row(event.label(), costs::cost(core, event));
    }
    table
}

/// What traps are assumed to do to the core.
pub fn effects() -> Table {
    let mut table = Table::new("What a trap is assumed to do to the core, where it was not counted", &["trap"]);
    table.columns.extend(effects::effects(Trap::Mmio).map(|e| (e.event.label().to_string(), true)));
    for &trap in Trap::ALL {
        let cells = effects::effects(trap).map(|e| {
            let Range { low, mid, high } = e.times;
            if low == high { format::number(low) } else { [low, mid, high].map(format::number).join(" / ") }
        });
        table.rows.push([trap.label().to_string()].into_iter().chain(cells).collect());
    }
    table
}

/// The handlers' lengths that the model used for a board.
pub fn handlers(results: &Results, board: Board) -> Table {
    let columns = ["trap", "#low", "#middle", "#high", "where it is from"];
    let mut table = Table::new(&format!("{board}: instructions to handle a trap"), &columns);
    for (trap, handler) in Handlers::measured(results, board, catalogue::DEFAULT).iter() {
        let Range { low, mid, high } = handler.instructions;
        let numbers = [low, mid, high].map(format::number);
        let row = [trap.label().to_string()].into_iter().chain(numbers).chain([handler.source.to_string()]);
        table.rows.push(row.collect());
    }
    table
}

/// Everything that the papers' texts state.
pub fn papers() -> Vec<Table> {
    let mut stated = Table::new("What the papers’ texts state", &["paper", "where", "what", "#figure"]);
    for f in papers::FIGURES {
        stated.rows.push(vec![f.paper.to_string(), f.place.into(), f.what.into(), f.to_string()]);
    }
    let mut traps =
        Table::new("ARMvisor’s Table 7: traps of a program that does nothing", &["trap", "#kvm_orig", "#kvm_opt"]);
    for t in papers::ARMVISOR_TABLE_7.iter().chain([&papers::ARMVISOR_TABLE_7_TOTAL]) {
        let numbers = [t.original, t.optimised].map(|n| format::number(n as f64));
        traps.rows.push([t.name.to_string()].into_iter().chain(numbers).collect());
    }
    let mut settings = Table::new("What the papers measured on", &["paper", "where", "board", "guest", "how"]);
    for s in papers::SETTINGS {
        let cells = [s.place, s.board, s.guest, s.method].map(str::to_string);
        settings.rows.push([s.paper.to_string()].into_iter().chain(cells).collect());
    }
    let columns = ["paper", "#figure", "shows", "its text states only"];
    let mut charts = Table::new("Charts whose values are printed nowhere, and which are not reproduced", &columns);
    for c in papers::CHARTS {
        charts.rows.push(vec![c.paper.to_string(), c.number.to_string(), c.shows.into(), c.stated.into()]);
    }
    vec![stated, traps, settings, charts]
}
