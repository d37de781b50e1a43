//! What several guests cost each other: figures that are not compared with the bare board.

use super::chart::{Bar, BarGroup, Bars, Series as Line};
use super::figures::Figure;
use super::scale::Scale;
use super::select;
use super::tables::Table;
use crate::catalogue;
use crate::format;
use crate::results::{Board, Finding, Group, Measurement, Results};

/// The measurements of the two groups under the shipped configuration.
fn measurements(results: &Results, board: Board) -> Vec<&Measurement> {
    let of = |group| {
        let names = results.workloads(board, group).into_iter();
        names.filter_map(move |name| results.find(board, catalogue::DEFAULT, group, name))
    };
    [Group::Several, Group::Latency].into_iter().flat_map(of).collect()
}

/// The figures with what was aimed at, and the spreads of those that have one.
pub fn tables(results: &Results, board: Board) -> Vec<Table> {
    let all = measurements(results, board);
    if all.is_empty() {
        return Vec::new();
    }
    let title = format!("{board}: several guests, “{}”", catalogue::DEFAULT);
    let columns = ["workload", "#figure", "unit", "#aimed at", "made from", "measured with"];
    let mut table = Table::new(&title, &columns);
    for m in &all {
        let (value, goal, parts) = match m.finding() {
            None => (select::reason(Some(m)), String::new(), String::new()),
            Some(f) => (format::fine(f.value), aim(f), parts(f)),
        };
        table.rows.push(vec![m.workload.clone(), value, m.unit.clone(), goal, parts, m.source.clone()]);
    }
    let mut tables = vec![table];
    for (m, finding) in all.iter().filter_map(|m| Some((m, m.finding()?))).filter(|(_, f)| !f.histogram.is_empty()) {
        let title = format!("{board}: {}, how {} are spread", m.workload, m.unit);
        let mut spread = Table::new(&title, &["#below", "#events", "#share so far"]);
        let total: u64 = finding.histogram.iter().map(|class| class.count).sum();
        let mut sum = 0;
        for class in &finding.histogram {
            sum += class.count;
            let share = format!("{} %", format::percent(sum as f64 / total.max(1) as f64));
            spread.rows.push(vec![format::number(class.below as f64), class.count.to_string(), share]);
        }
        tables.push(spread);
    }
    tables
}

/// A chart for each unit, and the spreads beside each other.
pub fn figures(results: &Results, board: Board) -> Vec<Figure> {
    let all = measurements(results, board);
    let found: Vec<_> = all.iter().filter_map(|m| Some((*m, m.finding()?))).collect();
    let mut figures = Vec::new();
    let mut units: Vec<&str> = Vec::new();
    for (m, _) in &found {
        if !units.contains(&m.unit.as_str()) {
            units.push(&m.unit);
        }
    }
    for unit in units {
        figures.push(of_unit(unit, found.iter().filter(|(m, _)| m.unit == unit).copied()));
    }
    figures.extend(spreads(&found));
    figures
}

fn of_unit<'a>(unit: &str, found: impl Iterator<Item = (&'a Measurement, &'a Finding)> + Clone) -> Figure {
    let title = format!("Several guests: {unit}");
    // What is better than the ideal has no length to be drawn.
    let bar = |(m, f): (&Measurement, &Finding)| BarGroup {
        label: m.workload.clone(),
        bars: vec![Bar::Value { value: f.value.max(0.0), label: format::fine(f.value), range: None }],
    };
    let goals: Vec<_> = found.clone().map(|(_, f)| f.goal).collect();
    let goal = goals.first().copied().flatten().filter(|_| goals.iter().all(|g| *g == goals[0]));
    let mut caption = vec!["Shorter is better.".to_string()];
    if let Some(goal) = goal {
        caption.push(format!("The line is what was aimed at: less than {}.", format::fine(goal)));
    }
    let series = vec![Line { label: catalogue::DEFAULT.into(), class: "ours".into() }];
    let scale = Scale::from_zero(found.clone().map(|(_, f)| f.value).chain(goal));
    let groups = found.map(bar).collect();
    let drawing = Bars { title: title.clone(), axis: unit.into(), scale, base: 0.0, mark: goal, series, groups }.draw();
    Figure { title, caption, drawing: Some(drawing) }
}

/// Histograms with the same classes in one chart.
fn spreads(found: &[(&Measurement, &Finding)]) -> Option<Figure> {
    const COLOURS: [&str; 4] = ["q1", "q3", "ours", "native"];
    let bounds = |f: &Finding| f.histogram.iter().map(|c| c.below).collect::<Vec<_>>();
    let (first, classes) = found.iter().map(|(m, f)| (m, bounds(f))).find(|(_, bounds)| !bounds.is_empty())?;
    let drawn: Vec<_> = found.iter().filter(|(_, f)| bounds(f) == classes).take(COLOURS.len()).collect();
    let series = drawn.iter().zip(COLOURS).map(|((m, _), c)| Line { label: m.workload.clone(), class: c.into() });
    let share = |f: &Finding, at: usize| {
        f.histogram[at].count as f64 / f.histogram.iter().map(|c| c.count).sum::<u64>().max(1) as f64
    };
    let bar = |f: &Finding, at: usize| Bar::Value {
        value: 100.0 * share(f, at),
        label: f.histogram[at].count.to_string(),
        range: None,
    };
    let some = |at: &usize| drawn.iter().any(|(_, f)| f.histogram[*at].count > 0);
    let group = |at: usize| BarGroup {
        label: format!("below {}", format::number(classes[at] as f64)),
        bars: drawn.iter().map(|(_, f)| bar(f, at)).collect(),
    };
    let groups: Vec<_> = (0..classes.len()).filter(some).map(group).collect();
    let title = format!("Several guests: how {} are spread", first.unit);
    let drawing = Bars {
        title: title.clone(),
        axis: "per cent of the events".into(),
        scale: Scale::from_zero([100.0].into_iter()),
        base: 0.0,
        mark: None,
        series: series.collect(),
        groups,
    };
    let caption =
        vec!["Events below each bound and not below the one before; classes without any are left out.".into()];
    Some(Figure { title, caption, drawing: Some(drawing.draw()) })
}

/// What was aimed at, and whether it was met.
fn aim(finding: &Finding) -> String {
    match (finding.goal, finding.meets_goal()) {
        (Some(goal), Some(met)) => format!("< {}{}", format::fine(goal), if met { "" } else { ": MISSED" }),
        _ => String::new(),
    }
}

fn parts(finding: &Finding) -> String {
    finding.parts.iter().map(|(name, value)| format!("{name}: {}", format::fine(*value))).collect::<Vec<_>>().join("; ")
}
