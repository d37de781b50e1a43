//! Time, where a model of the core counted what takes it: cycles of both sides, their ratio, and where they go.

use super::chart::{Bar, BarGroup, Series as Line};
use super::figures::{Figure, ratio_chart, ratio_of};
use super::select;
use super::tables::Table;
use crate::catalogue;
use crate::format;
use crate::results::{Board, Group, Measurement, Results, Timing};
use spica_cycles::price::{self, Price, Range};
use spica_cycles::{Core, Count, Part};

/// The measurements of a board under a configuration that have a time, in the order of the report.
pub(super) fn timed<'a>(results: &'a Results, board: Board, configuration: &str) -> Vec<(&'a Measurement, &'a Timing)> {
    let of_group = |group| select::workloads(results, board, group).into_iter().map(move |workload| (group, workload));
    let all = Group::ALL.into_iter().flat_map(of_group);
    let found = all.filter_map(|(group, workload)| {
        let measurement = results.find(board, configuration, group, workload)?;
        Some((measurement, measurement.figures()?.timing.as_ref()?))
    });
    found.collect()
}

/// A ratio with its range, for people.
fn ratio(Range { low, mid, high }: Range) -> String {
    format!("{}× ({}–{})", format::ratio(mid), format::ratio(low), format::ratio(high))
}

/// The geometric means of ratios, by low, middle and high.
fn mean(ratios: &[Range]) -> Option<Range> {
    let of = |value: fn(&Range) -> f64| select::mean(ratios.iter().map(value));
    Some(Range::new(of(|r| r.low)?, of(|r| r.mid)?, of(|r| r.high)?))
}

/// The tables of a board: cycles, and their parts, by configuration.
pub fn tables(results: &Results, board: Board) -> Vec<Table> {
    let core = Core::from(board);
    let mut tables = Vec::new();
    for configuration in &results.configurations {
        let timed = timed(results, board, &configuration.name);
        if timed.is_empty() {
            continue;
        }
        let title = format!("{board}: modelled cycles of a {core}, “{}”", configuration.name);
        let columns = ["workload", "per", "#native", "#as guest", "#ratio", "#in instructions"];
        let mut table = Table::new(&title, &columns);
        for (m, timing) in &timed {
            let instructions = m.ratio().map(|r| format!("{}×", format::ratio(r))).unwrap_or_default();
            let numbers = [&timing.native, &timing.virtualised].map(|side| format::number(side.cycles(core).mid));
            let row = [m.workload.clone(), m.unit.clone()].into_iter().chain(numbers);
            table.rows.push(row.chain([ratio(timing.ratio(core)), instructions]).collect());
        }
        let is_any: fn(&str) -> bool = |_| true;
        let groups = Group::ALL.into_iter().filter(|group| *group != Group::Probes).map(|group| (group, "", is_any));
        for (group, which, is_in) in groups.chain([(Group::Application, " that compute", catalogue::computes as _)]) {
            let here = || timed.iter().filter(|(m, _)| m.group == group && is_in(&m.workload));
            let cycles: Vec<_> = here().map(|(_, timing)| timing.ratio(core)).collect();
            let instructions = select::mean(here().filter_map(|(m, _)| m.ratio()));
            if let (Some(cycles_mean), Some(instructions)) = (mean(&cycles), instructions)
                && cycles.len() > 1
            {
                let name = format!("{group}: geometric mean of {}{which}", cycles.len());
                let last = [ratio(cycles_mean), format!("{}×", format::ratio(instructions))];
                let blank = || String::new();
                table.rows.push([name, blank(), blank(), blank()].into_iter().chain(last).collect());
            }
        }
        tables.push(table);
        let title = format!("{board}: where the cycles go, native / as guest, “{}”", configuration.name);
        let mut table = Table::new(&title, &["workload"]);
        table.columns.extend(Part::ALL.map(|part| (part.label().to_string(), true)));
        for (m, timing) in &timed {
            let cells = Part::ALL.map(|part| {
                let [native, guest] =
                    [&timing.native, &timing.virtualised].map(|side| format::number(side.part(core, part).mid));
                format!("{native} / {guest}")
            });
            table.rows.push([m.workload.clone()].into_iter().chain(cells).collect());
        }
        tables.push(table);
    }
    tables
}

/// The ratios of a board as a figure, if there are any.
pub fn figure(results: &Results, board: Board) -> Option<Figure> {
    let core = Core::from(board);
    let mut timed = timed(results, board, catalogue::DEFAULT);
    // They are about the core, not about Spica.
    timed.retain(|(m, _)| m.group != Group::Probes);
    let ratios: Vec<_> = timed.iter().map(|(_, timing)| timing.ratio(core)).collect();
    let all = mean(&ratios)?;
    let title = format!("Time on a {core}, by a model that follows each instruction");
    let bar = |timing: &Timing| {
        let Range { low, mid, high } = timing.ratio(core);
        Bar::Value { value: mid, label: ratio(timing.ratio(core)), range: Some((low, high)) }
    };
    let groups = timed.iter().map(|(m, timing)| BarGroup {
        label: m.workload.clone(),
        bars: vec![select::bar(Some(m), ratio_of), bar(timing)],
    });
    let line = |label: &str, class: &str| Line { label: label.into(), class: class.into() };
    let series = vec![line("instructions, counted", "q3"), line("cycles, modelled; the line is the range", "ours")];
    let caption = vec![
        "Counted instructions and modelled cycles, each over native. The model has the core’s caches, TLBs with real \
         walks, branch prediction and pipeline; the line shows what its prices allow where they are estimates."
            .to_string(),
        format!("Geometric mean of the {} modelled: {}.", ratios.len(), ratio(all)),
    ];
    let drawing = ratio_chart(&title, series, groups.collect());
    Some(Figure { title, caption, drawing: Some(drawing) })
}

/// The prices of a core, if the run has a time.
pub fn prices(results: &Results, board: Board) -> Option<Table> {
    if !results.configurations.iter().any(|c| !timed(results, board, &c.name).is_empty()) {
        return None;
    }
    let core = Core::from(board);
    let title = format!("Prices of what the model counts on a {core}, in cycles");
    let mut table = Table::new(&title, &["what", "part", "#low", "#middle", "#high", "where it is from"]);
    for &count in Count::ALL {
        let Price { cycles: Range { low, mid, high }, source } = price::of(core, count);
        if count.part() != Part::None && high > 0.0 {
            let numbers = [low, mid, high].map(format::number);
            let names = [count.key().to_string(), count.part().label().to_string()];
            table.rows.push(names.into_iter().chain(numbers).chain([source.to_string()]).collect());
        }
    }
    Some(table)
}
