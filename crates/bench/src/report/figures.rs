//! The figures: STAR's, redrawn from our data, and those that STAR has no like of.
//!
//! Each says in its caption what is seen in it, in words worked out from the same data.

use std::collections::BTreeSet;

use super::chart::{Bar, BarGroup, Bars, Series as Line, Slice, Stack, Stacks};
use super::compared::{memory_modes, optimisations, spilling, without_each};
use super::markup::Element;
use super::scale::Scale;
use super::select;
use crate::catalogue;
use crate::events::{Event, Trap};
use crate::format;
use crate::model::costs::{Core, Range};
use crate::model::{self, Cycles, Handlers};
use crate::results::{Board, Figures, Group, Results, Series};

/// A figure of the report.
pub struct Figure {
    /// Its heading.
    pub title: String,
    /// What is seen in it, in sentences.
    pub caption: Vec<String>,
    /// The drawing; none if the run holds nothing for it, which the caption then says.
    pub drawing: Option<Element>,
}

impl Figure {
    fn nothing(title: &str, why: &str) -> Figure {
        Figure { title: title.into(), caption: vec![why.into()], drawing: None }
    }
}

/// All figures of a board.
pub fn all(results: &Results, board: Board) -> Vec<Figure> {
    let mut figures = vec![
        group_ratios(results, board, Group::Kernel, "Kernel operations (lmbench)"),
        traps(results, board, catalogue::NAIVE, "Traps by class, naive translator (after STAR’s Figure 4)"),
        traps(results, board, catalogue::LINKED, "Traps by class, direct branches linked"),
        traps(results, board, catalogue::DEFAULT, "Traps by class, Spica as shipped"),
        optimisations(results, board),
        without_each(results, board),
        spilling(results, board, Series::SpillOne, "Spilling one register (after STAR’s Figure 6)"),
    ];
    if results.series(Series::SpillTwo).next().is_some() {
        let title = "Spilling two registers (after STAR’s Figure 7)";
        figures.push(spilling(results, board, Series::SpillTwo, title));
    }
    figures.extend([
        spilling(results, board, Series::Indirect, "Indirect branches and returns"),
        memory_modes(results, board),
        applications(results, board),
        boot(results, board),
        group_ratios(results, board, Group::Machine, "Machine operations, one by one"),
        modelled(results, board),
        overhead_parts(results, board),
    ]);
    figures
}

/// A ratio, for people.
pub fn ratio_text(value: f64) -> String {
    format!("{}×", format::ratio(value))
}

/// A measurement's ratio, and that for people.
pub fn ratio_of(figures: &Figures) -> (f64, String) {
    (figures.ratio(), ratio_text(figures.ratio()))
}

fn group_ratios(results: &Results, board: Board, group: Group, title: &str) -> Figure {
    let workloads = select::workloads(results, board, group);
    if workloads.is_empty() {
        return Figure::nothing(title, "This run did not include them.");
    }
    let series = vec![Line { label: catalogue::DEFAULT.into(), class: "ours".into() }];
    let group_of = |w: &&str| BarGroup {
        label: (*w).to_string(),
        bars: vec![select::bar(results.find(board, catalogue::DEFAULT, group, w), ratio_of)],
    };
    let groups: Vec<BarGroup> = workloads.iter().map(group_of).collect();
    let mut caption = vec![
        "Instructions executed as Spica’s guest over instructions on the bare board, per operation. Shorter is better."
            .to_string(),
    ];
    caption.extend(spread(results, board, catalogue::DEFAULT, group));
    let drawing = ratio_chart(title, series, groups);
    Figure { title: title.into(), caption, drawing: Some(drawing) }
}

/// What a caption says of a group's ratios.
fn spread(results: &Results, board: Board, configuration: &str, group: Group) -> Option<String> {
    let ratios = select::ratios(results, board, configuration, group);
    let ((best, low), (worst, high)) = (ratios.first()?, ratios.last()?);
    let mean = select::mean(ratios.iter().map(|(_, r)| *r))?;
    Some(if ratios.len() == 1 {
        format!("Only {best} was measured: {}.", ratio_text(*low))
    } else {
        format!(
            "From {} ({best}) to {} ({worst}); geometric mean of the {} measured: {}.",
            ratio_text(*low),
            ratio_text(*high),
            ratios.len(),
            ratio_text(mean)
        )
    })
}

/// A chart of ratios to native.
pub fn ratio_chart(title: &str, series: Vec<Line>, groups: Vec<BarGroup>) -> Element {
    let values = groups.iter().flat_map(|g| &g.bars).flat_map(|bar| match bar {
        Bar::Value { value, range, .. } => [Some(*value), range.map(|r| r.0), range.map(|r| r.1)],
        Bar::Missing(_) => [None; 3],
    });
    let scale = Scale::for_ratios(values.flatten());
    let base = if scale.is_log() { 1.0 } else { 0.0 };
    let axis = "times native (1 is native)".to_string();
    Bars { title: title.into(), axis, scale, base, mark: Some(1.0), series, groups }.draw()
}

fn traps(results: &Results, board: Board, configuration: &str, title: &str) -> Figure {
    let groups = [Group::Kernel, Group::Application, Group::Boot];
    let of_group = |&group: &Group| {
        let workloads = select::workloads(results, board, group).into_iter();
        workloads.filter_map(move |workload| trap_stack(results, board, configuration, group, workload))
    };
    let stacks: Vec<_> = groups.iter().flat_map(of_group).collect();
    if stacks.is_empty() {
        return Figure::nothing(title, &format!("This run did not include Linux guests under “{configuration}”."));
    }
    if stacks.iter().all(|s| s.slices.is_err()) {
        return Figure::nothing(title, &format!("This run counted no traps under “{configuration}”."));
    }
    let mut caption = vec!["Entries into the hypervisor by what caused them, as shares of all entries.".to_string()];
    let shares = select::extremes(control_flow_shares(results, board, configuration));
    if shares.is_some() {
        caption.push(format!(
            "Control flow is {} of the traps to the interpreter in kernel operations (faults, interrupts and system \
             calls aside).",
            format::percent_span(shares)
        ));
    }
    let drawing = Stacks { title: title.into(), axis: "share of traps".into(), stacks }.draw();
    Figure { title: title.into(), caption, drawing: Some(drawing) }
}

/// The traps of a workload by class, or why there are none; nothing if the run was not to measure it.
fn trap_stack(results: &Results, board: Board, configuration: &str, group: Group, workload: &str) -> Option<Stack> {
    let measurement = results.find(board, configuration, group, workload)?;
    let Some(figures) = measurement.figures() else {
        return Some(Stack { label: workload.into(), slices: Err(select::reason(Some(measurement))) });
    };
    let Some((events, all)) = figures.events.as_ref().and_then(|e| Some((e, e.all_traps_per_operation()?))) else {
        return Some(Stack { label: workload.into(), slices: Err("traps were not counted".into()) });
    };
    let slice = |&trap: &Trap| Slice {
        class: format!("t-{}", trap.key()),
        label: trap.label().into(),
        value: events.traps_per_operation(trap).unwrap_or(0.0),
    };
    let label = format!("{workload}: {} traps per {}", format::number(all), measurement.unit);
    Some(Stack { label, slices: Ok(Trap::ALL.iter().map(slice).collect()) })
}

/// The share of control flow in the traps to the interpreter, for each kernel operation.
pub fn control_flow_shares(results: &Results, board: Board, configuration: &str) -> Vec<f64> {
    let names = results.workloads(board, Group::Kernel);
    let figures = names.iter().filter_map(|w| results.find(board, configuration, Group::Kernel, w)?.figures());
    figures.filter_map(|f| select::share(f, &select::CONTROL_FLOW)).collect()
}

fn applications(results: &Results, board: Board) -> Figure {
    let title = "Applications (after STAR’s Figure 9)";
    let workloads = select::workloads(results, board, Group::Application);
    let mut series = vec![Line { label: catalogue::DEFAULT.into(), class: "ours".into() }];
    if select::is_in(results, board, catalogue::LINKED, Group::Application) {
        series.insert(0, Line { label: catalogue::LINKED.into(), class: "q3".into() });
    }
    if workloads.is_empty() {
        return Figure::nothing(title, "This run did not include them.");
    }
    let bars = |w: &str| {
        series.iter().map(|s| select::bar(results.find(board, &s.label, Group::Application, w), ratio_of)).collect()
    };
    let label = |w: &str| match catalogue::mibench(w) {
        Some(program) => format!("{w} (like mibench’s {program})"),
        None => w.to_string(),
    };
    let groups = workloads.iter().map(|w| BarGroup { label: label(w), bars: bars(w) }).collect();
    let mut caption = vec!["Instructions of whole program runs as a guest over native.".to_string()];
    caption.extend(spread(results, board, catalogue::DEFAULT, Group::Application));
    Figure { title: title.into(), caption, drawing: Some(ratio_chart(title, series, groups)) }
}

fn boot(results: &Results, board: Board) -> Figure {
    let title = "Boot";
    let workloads = select::workloads(results, board, Group::Boot);
    if workloads.is_empty() {
        return Figure::nothing(title, "This run did not include it.");
    }
    let group_of = |w: &&str| {
        let measurement = results.find(board, catalogue::DEFAULT, Group::Boot, w);
        let native = match results.native(board, Group::Boot, w) {
            Some(value) => Bar::Value { value, label: format::short(value), range: None },
            None => Bar::Missing(select::reason(measurement)),
        };
        let guest = select::bar(measurement, |f| {
            (f.virtualised, format!("{} ({})", format::short(f.virtualised), ratio_text(f.ratio())))
        });
        BarGroup { label: (*w).to_string(), bars: vec![native, guest] }
    };
    let groups: Vec<_> = workloads.iter().map(group_of).collect();
    let values = groups.iter().flat_map(|g| &g.bars).filter_map(|b| match b {
        Bar::Value { value, .. } => Some(*value),
        Bar::Missing(_) => None,
    });
    let scale = Scale::from_zero(values);
    let line = |label: &str, class: &str| Line { label: label.into(), class: class.into() };
    let series = vec![line("bare board", "native"), line("as Spica’s guest", "ours")];
    let mut caption = vec!["Instructions from reset, the decompression of the kernel included.".to_string()];
    caption.extend(spread(results, board, catalogue::DEFAULT, Group::Boot));
    let axis = "instructions".to_string();
    let drawing = Bars { title: title.into(), axis, scale, base: 0.0, mark: None, series, groups }.draw();
    Figure { title: title.into(), caption, drawing: Some(drawing) }
}

/// What the model makes of the kernel operations and applications under the shipped configuration, by workload.
pub fn model_of(results: &Results, board: Board, group: Group, workload: &str) -> Option<Cycles> {
    let figures = results.find(board, catalogue::DEFAULT, group, workload)?.figures()?;
    let handlers = Handlers::measured(results, board, catalogue::DEFAULT);
    model::cycles(Core::from(board), figures, &handlers)
}

fn modelled(results: &Results, board: Board) -> Figure {
    let title = format!("Modelled slowdown on a {}", Core::from(board));
    let (mut left_out, mut assumed) = (BTreeSet::new(), BTreeSet::new());
    let mut groups = Vec::new();
    for group in [Group::Kernel, Group::Application] {
        for workload in select::workloads(results, board, group) {
            let measurement = results.find(board, catalogue::DEFAULT, group, workload);
            let cycles = match model_of(results, board, group, workload) {
                None if measurement.is_some_and(|m| m.figures().is_some()) => {
                    Bar::Missing("not modelled: traps were not counted".into())
                }
                None => Bar::Missing(select::reason(measurement)),
                Some(cycles) => {
                    left_out.extend(&cycles.left_out);
                    assumed.extend(cycles.assumed.iter().map(|(event, _)| *event));
                    let Range { low, mid, high } = cycles.slowdown();
                    let label = format!("{}× ({}–{})", format::ratio(mid), format::ratio(low), format::ratio(high));
                    Bar::Value { value: mid, label, range: Some((low, high)) }
                }
            };
            groups.push(BarGroup { label: workload.into(), bars: vec![select::bar(measurement, ratio_of), cycles] });
        }
    }
    if groups.is_empty() {
        return Figure::nothing(&title, "This run holds nothing to model.");
    }
    let line = |label: &str, class: &str| Line { label: label.into(), class: class.into() };
    let series = vec![line("instructions, counted", "q3"), line("cycles, modelled; the line is the range", "ours")];
    let mut caption = vec![
        "Counted instructions and modelled cycles, each over native. Most costs are estimates: the line shows all \
         that they allow, and only the whole range may be compared with a time. What translated code does to caches \
         and branch prediction is not in it."
            .to_string(),
    ];
    let names = |events: BTreeSet<Event>| events.into_iter().map(Event::label).collect::<Vec<_>>().join(", ");
    if !assumed.is_empty() {
        caption.push(format!("Assumed per trap, not counted: {}.", names(assumed)));
    }
    if !left_out.is_empty() {
        caption.push(format!("Left out, because not counted: {}.", names(left_out)));
    }
    let drawing = ratio_chart(&title, series, groups);
    Figure { title, caption, drawing: Some(drawing) }
}

fn overhead_parts(results: &Results, board: Board) -> Figure {
    let title = "Where the modelled overhead goes (ARMvisor’s T_virt)";
    let mut stacks = Vec::new();
    for group in [Group::Kernel, Group::Application] {
        for workload in select::workloads(results, board, group) {
            let Some(cycles) = model_of(results, board, group, workload) else { continue };
            stacks.push(parts_stack(workload, &cycles));
        }
    }
    if stacks.is_empty() {
        return Figure::nothing(title, "This run holds nothing to model.");
    }
    let caption = vec![
        "Modelled cycles of virtualisation taken apart after ARMvisor’s §4, all costs at their middle values. T_cpu \
         is what is left of the whole: sensitive instructions, and all that translation adds. GPR is the guest \
         performance ratio T_host / T_guest with its range: 1 is native speed."
            .to_string(),
    ];
    let drawing = Stacks { title: title.into(), axis: "share of T_virt".into(), stacks }.draw();
    Figure { title: title.into(), caption, drawing: Some(drawing) }
}

fn parts_stack(workload: &str, cycles: &Cycles) -> Stack {
    let Range { low, mid, high } = cycles.performance;
    let label = format!("{workload}: GPR {mid:.2} ({low:.2}–{high:.2})");
    let Some(parts) = &cycles.parts else {
        return Stack { label, slices: Err("traps were not counted".into()) };
    };
    let named = [
        ("p-cpu", "T_cpu", parts.cpu.mid),
        ("p-mem", "T_mem", parts.memory.mid),
        ("p-io", "T_io", parts.device.mid),
        ("p-suspend", "T_suspend", parts.suspend.mid),
        ("p-side", "ε", parts.side_effects.mid),
    ];
    if let Some((_, name, _)) = named.iter().find(|(_, _, value)| *value < 0.0) {
        return Stack {
            label,
            slices: Err(format!("{name} is below 0 at middle costs: handlers are estimated too long")),
        };
    }
    let slice = |(class, label, value): (&str, &str, f64)| Slice { class: class.into(), label: label.into(), value };
    Stack { label, slices: Ok(named.into_iter().map(slice).collect()) }
}
