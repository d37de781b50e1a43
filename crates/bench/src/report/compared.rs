//! The figures that compare configurations with each other: STAR's Figures 6 to 8, and memory modes.

use super::chart::{Bar, BarGroup, Bars, Series as Line};
use super::figures::{Figure, ratio_chart, ratio_of, ratio_text};
use super::scale::Scale;
use super::select;
use crate::catalogue;
use crate::format;
use crate::results::{Board, Configuration, Group, Measurement, Results, Series, Status};

/// A comparison without anything to compare: what there is, if anything, and what is absent.
fn nothing_to_compare(title: &str, drawn: &[&Configuration], absent: Vec<String>) -> Figure {
    let alone = drawn.iter().map(|c| format!("Only “{}” is in this run: there is nothing to compare it with.", c.name));
    let mut caption: Vec<String> = alone.chain(absent).collect();
    if caption.is_empty() {
        caption.push("This run did not include them.".into());
    }
    Figure { title: title.into(), caption, drawing: None }
}

/// Parts configurations into those to draw, which have a measurement or should have one, and sentences about the
/// others: it takes no row of empty boxes to say that a configuration does not exist.
fn drawn<'a>(
    results: &Results,
    board: Board,
    configurations: impl Iterator<Item = &'a Configuration>,
) -> (Vec<&'a Configuration>, Vec<String>) {
    let (mut drawn, mut absent, mut elsewhere) = (Vec::new(), Vec::new(), Vec::new());
    for configuration in configurations {
        let here =
            |m: &&Measurement| m.board == board && m.group == Group::Kernel && m.configuration == configuration.name;
        let statuses: Vec<_> = results.measurements.iter().filter(here).map(|m| &m.status).collect();
        match (statuses.first(), &configuration.lacks) {
            (None, Some(reason)) => absent.push((describe(configuration), reason.as_str())),
            (None, None) => elsewhere.push(format!("“{}”", configuration.name)),
            (Some(Status::NotImplemented { reason }), _)
                if statuses.iter().all(|s| matches!(s, Status::NotImplemented { .. })) =>
            {
                absent.push((describe(configuration), reason.as_str()));
            }
            (Some(_), _) => drawn.push(configuration),
        }
    }
    let mut sentences = Vec::new();
    while let Some(&(_, reason)) = absent.first() {
        let (same, others): (Vec<_>, Vec<_>) = absent.into_iter().partition(|(_, r)| *r == reason);
        let same: Vec<String> = same.into_iter().map(|(what, _)| what).collect();
        sentences.push(format!("Not drawn, because it does not exist yet: {}. ({reason}.)", same.join("; ")));
        absent = others;
    }
    if !elsewhere.is_empty() {
        sentences.push(format!("Not in this run: {}.", elsewhere.join(", ")));
    }
    (drawn, sentences)
}

/// The colours of a sequence of configurations: from pale to deep, and Spica as shipped in the colour that is its own.
fn sequence(configurations: &[&Configuration]) -> Vec<Line> {
    let steps = configurations.iter().filter(|c| c.name != catalogue::DEFAULT).count();
    let mut step = 0;
    let mut class = |c: &Configuration| {
        if c.name == catalogue::DEFAULT {
            return "ours".to_string();
        }
        let shade = if steps > 1 { 1 + (7 * step + (steps - 1) / 2) / (steps - 1) } else { 5 };
        step += 1;
        format!("q{}", shade.min(8))
    };
    configurations.iter().map(|c| Line { label: describe(c), class: class(c) }).collect()
}

fn describe(configuration: &Configuration) -> String {
    if configuration.description.is_empty() {
        configuration.name.clone()
    } else {
        format!("{}: {}", configuration.name, configuration.description)
    }
}

/// The optimisations, one after the other.
pub fn optimisations(results: &Results, board: Board) -> Figure {
    let title = "Slowdown, optimisation by optimisation (after STAR’s Figure 8)";
    let (configurations, absent) = drawn(results, board, results.series(Series::Optimisation));
    if configurations.len() < 2 {
        return nothing_to_compare(title, &configurations, absent);
    }
    // Slow configurations are often measured with a part of the workloads only.
    let find = |c: &Configuration, w: &str| results.find(board, &c.name, Group::Kernel, w);
    let steps = || configurations.iter().filter(|c| c.name != catalogue::DEFAULT);
    let mut workloads = select::workloads(results, board, Group::Kernel);
    workloads.retain(|w| steps().any(|c| find(c, w).is_some()));
    let bars = |w: &str| {
        configurations.iter().map(|c| select::bar(results.find(board, &c.name, Group::Kernel, w), ratio_of)).collect()
    };
    let groups = workloads.iter().map(|w| BarGroup { label: (*w).into(), bars: bars(w) }).collect();
    let mut caption = vec![
        "Instructions as a guest over native, with the optimisations switched on one after the other, from top to \
         bottom."
            .to_string(),
    ];
    let everywhere = |w: &&&str| configurations.iter().all(|c| find(c, w).is_some_and(|m| m.figures().is_some()));
    let compared: Vec<_> = workloads.iter().filter(everywhere).collect();
    let mean = |c: &&Configuration| {
        let ratios = compared.iter().filter_map(|w| find(c, w)?.ratio());
        Some((c.name.clone(), select::mean(ratios)?))
    };
    let means: Vec<_> = configurations.iter().filter_map(mean).collect();
    if let [(first, before), .., (last, after)] = means.as_slice() {
        let (before, after) = (ratio_text(*before), ratio_text(*after));
        caption.push(format!(
            "The geometric mean of the {} workloads measured in all of them goes from {before} ({first}) to {after} ({last}).",
            compared.len()
        ));
    }
    caption.extend(absent);
    let drawing = ratio_chart(title, sequence(&configurations), groups);
    Figure { title: title.into(), caption, drawing: Some(drawing) }
}

/// What each optimisation is worth: everything but it, beside everything.
pub fn without_each(results: &Results, board: Board) -> Figure {
    let title = "Without each optimisation";
    let (configurations, absent) = drawn(results, board, results.series(Series::Without));
    let Some((base, others)) = configurations.split_first().filter(|(_, others)| !others.is_empty()) else {
        return nothing_to_compare(title, &configurations, absent);
    };
    let workloads = select::workloads(results, board, Group::Kernel);
    let figure =
        |c: &Configuration, w: &str| Some(results.find(board, &c.name, Group::Kernel, w)?.figures()?.virtualised);
    let bars_of = |c: &&Configuration| {
        let ratios = workloads.iter().filter_map(|w| Some((*w, figure(c, w)? / figure(base, w)?)));
        let ratios: Vec<(&str, f64)> = ratios.collect();
        let most = ratios.iter().max_by(|a, b| a.1.total_cmp(&b.1));
        let value = |value: f64, label: String| Bar::Value { value, label, range: None };
        let bars = match (select::mean(ratios.iter().map(|r| r.1)), most) {
            (Some(mean), Some(&(workload, most))) => {
                vec![value(mean, change(mean)), value(most, format!("{} ({workload})", change(most)))]
            }
            _ => vec![Bar::Missing("nothing that both have measured".into()); 2],
        };
        BarGroup { label: c.name.clone(), bars }
    };
    let groups: Vec<_> = others.iter().map(bars_of).collect();
    let series = [("geometric mean of the kernel operations", "q6"), ("the operation that takes most more", "q3")];
    let series = series.map(|(label, class)| Line { label: label.into(), class: class.into() }).to_vec();
    let mut caption = vec![format!("Instructions as a guest over those of {}. 1 is the same.", describe(base))];
    caption.extend(absent);
    let drawing = bars(title, base, series, groups).draw();
    Figure { title: title.into(), caption, drawing: Some(drawing) }
}

/// A ratio as what it is more or less than 1.
fn change(ratio: f64) -> String {
    format!("{}{} %", if ratio < 1.0 { "−" } else { "+" }, format::percent((ratio - 1.0).abs()))
}

/// Bars of ratios to `base`.
fn bars(title: &str, base: &Configuration, series: Vec<Line>, groups: Vec<BarGroup>) -> Bars {
    let values = groups.iter().flat_map(|g| &g.bars).filter_map(|b| match b {
        Bar::Value { value, .. } => Some(*value),
        Bar::Missing(_) => None,
    });
    let scale = Scale::for_ratios(values);
    let start = if scale.is_log() { 1.0 } else { 0.0 };
    let axis = format!("times “{}”", base.name);
    Bars { title: title.into(), axis, scale, base: start, mark: Some(1.0), series, groups }
}

/// Ways to spill registers, or to branch, each beside the first one.
pub fn spilling(results: &Results, board: Board, which: Series, title: &str) -> Figure {
    let (configurations, absent) = drawn(results, board, results.series(which));
    let workloads = select::workloads(results, board, Group::Kernel);
    let Some((base, others)) = configurations.split_first().filter(|(_, others)| !others.is_empty()) else {
        return nothing_to_compare(title, &configurations, absent);
    };
    let group_of = |w: &&str| {
        let reference = results.find(board, &base.name, Group::Kernel, w);
        let bars = others.iter().map(|c| match reference.and_then(|m| m.figures()) {
            None => Bar::Missing(format!("{} has no figure to compare with", base.name)),
            Some(reference) => select::bar(results.find(board, &c.name, Group::Kernel, w), |figures| {
                let ratio = figures.virtualised / reference.virtualised;
                (ratio, change(ratio))
            }),
        });
        BarGroup { label: (*w).to_string(), bars: bars.collect() }
    };
    let groups: Vec<_> = workloads.iter().map(group_of).collect();
    let mut caption = vec![format!("Instructions as a guest over those of {}. 1 is the same.", describe(base))];
    if which != Series::Indirect {
        caption.push("STAR compares with a code cache that the guest can write, which is fast and unsafe.".to_string());
    }
    caption.extend(absent);
    let drawing = bars(title, base, sequence(others), groups).draw();
    Figure { title: title.into(), caption, drawing: Some(drawing) }
}

/// Ways to keep guest kernel and guest user apart.
pub fn memory_modes(results: &Results, board: Board) -> Figure {
    let title = "Memory modes";
    let (configurations, absent) = drawn(results, board, results.series(Series::Memory));
    if configurations.len() < 2 {
        return nothing_to_compare(title, &configurations, absent);
    }
    // Slow configurations are often measured with a part of the workloads only.
    let find = |c: &Configuration, w: &str| results.find(board, &c.name, Group::Kernel, w);
    let steps = || configurations.iter().filter(|c| c.name != catalogue::DEFAULT);
    let mut workloads = select::workloads(results, board, Group::Kernel);
    workloads.retain(|w| steps().any(|c| find(c, w).is_some()));
    let bars = |w: &str| {
        configurations.iter().map(|c| select::bar(results.find(board, &c.name, Group::Kernel, w), ratio_of)).collect()
    };
    let groups = workloads.iter().map(|w| BarGroup { label: (*w).into(), bars: bars(w) }).collect();
    let mut caption: Vec<String> =
        vec!["Instructions as a guest over native, by how guest kernel and guest user are kept apart.".into()];
    caption.extend(absent);
    Figure { title: title.into(), caption, drawing: Some(ratio_chart(title, sequence(&configurations), groups)) }
}
