//! Our figures beside those of the papers, row by row, each with what may be said of the two.

use super::figures;
use super::select;
use super::tables::Table;
use crate::catalogue::{self, Kind};
use crate::events::Trap;
use crate::format;
use crate::model::costs::Core;
use crate::model::{self, Handlers};
use crate::papers::{self, Figure};
use crate::results::{Board, Figures, Group, Measurement, Results};

/// The table for a board.
pub fn table(results: &Results, board: Board) -> Table {
    let columns = ["", "the paper: time on a Cortex-A8", "ours: instructions", "ours: modelled cycles", "note"];
    let mut table = Table::new(&format!("{board} beside the papers"), &columns);
    let rows =
        slowdowns(results, board).into_iter().chain(trap_shares(results, board)).chain(trap_counts(results, board));
    table.rows.extend(rows.map(Vec::from));
    table
}

fn slowdowns(results: &Results, board: Board) -> Vec<[String; 5]> {
    let kind = |configuration: &str, kind| select::of_kind(results, board, configuration, kind);
    let starred = |configuration: &str| -> Vec<&Measurement> {
        let known = |m: &&Measurement| catalogue::kernel_operation(&m.workload).is_some_and(|o| o.star.is_some());
        let here = |m: &&Measurement| m.board == board && m.group == Group::Kernel && m.configuration == configuration;
        results.measurements.iter().filter(here).filter(known).collect()
    };
    let applications = |configuration: &str| -> Vec<&Measurement> {
        let here =
            |m: &&Measurement| m.board == board && m.group == Group::Application && m.configuration == configuration;
        let alike = |m: &&Measurement| catalogue::mibench(&m.workload).is_some();
        results.measurements.iter().filter(here).filter(alike).collect()
    };
    let select_10 = results.find(board, catalogue::NAIVE, Group::Kernel, "select-10").into_iter().collect();
    let row = |what: &str, paper: &Figure, ours: Vec<&Measurement>, note: &str| {
        let (instructions, cycles) = both(results, board, &ours);
        [what.to_string(), cite(paper), instructions, cycles, note.to_string()]
    };
    let linked = "STAR’s unoptimised version links direct branches, as ours here does";
    vec![
        row("all of STAR’s benchmarks, unoptimised", &papers::STAR_UNOPTIMISED, starred(catalogue::LINKED), linked),
        row(
            "simple system calls, unoptimised",
            &papers::STAR_CALLS_UNOPTIMISED,
            kind(catalogue::LINKED, Kind::SystemCall),
            linked,
        ),
        row(
            "simple system calls, optimised",
            &papers::STAR_CALLS_OPTIMISED,
            kind(catalogue::DEFAULT, Kind::SystemCall),
            "STAR’s text gives one value, ours is least to most",
        ),
        row(
            "process creation, unoptimised",
            &papers::STAR_PROCESS_UNOPTIMISED,
            kind(catalogue::LINKED, Kind::Process),
            linked,
        ),
        row(
            "process creation, optimised",
            &papers::STAR_PROCESS_OPTIMISED,
            kind(catalogue::DEFAULT, Kind::Process),
            "the cost of memory virtualisation shows here, and caches, which the model lacks",
        ),
        row(
            "select on 10 files, no optimisation",
            &papers::ARMVISOR_SELECT,
            select_10,
            "ARMvisor traps by hand-placed calls, our naive version traps at control flow too",
        ),
        row(
            "applications of MiBench’s kind, unoptimised",
            &papers::STAR_APPLICATIONS_NAIVE,
            applications(catalogue::LINKED),
            "other programs and inputs; STAR’s §7 says “up to five times”",
        ),
        row(
            "applications of MiBench’s kind, optimised",
            &papers::STAR_APPLICATIONS_OPTIMISED,
            applications(catalogue::DEFAULT),
            "16 % more is 1.16×; other programs and inputs",
        ),
    ]
}

fn cite(paper: &Figure) -> String {
    format!("{} {}: {paper}", paper.paper, paper.place)
}

/// Least to most of the ratios, counted and modelled: by the model of the core where it followed the run, else by the
/// prices of counted events.
fn both(results: &Results, board: Board, ours: &[&Measurement]) -> (String, String) {
    let figures: Vec<&Figures> = ours.iter().filter_map(|m| m.figures()).collect();
    if figures.is_empty() {
        return ("not measured".into(), String::new());
    }
    let modelled: Vec<_> = ours
        .iter()
        .filter_map(|m| {
            let handlers = Handlers::measured(results, board, &m.configuration);
            Some(model::cycles(Core::from(board), m.figures()?, &handlers)?.slowdown())
        })
        .collect();
    let counted = span(select::extremes(figures.iter().map(|f| f.ratio())));
    let missing = ours.len() - figures.len();
    let counted = if missing > 0 { format!("{counted} ({missing} missing)") } else { counted };
    let timed: Vec<_> = figures.iter().filter_map(|f| Some(f.timing.as_ref()?.ratio(board.into()))).collect();
    if !timed.is_empty() {
        let likely = span(select::extremes(timed.iter().map(|r| r.mid)));
        let low = timed.iter().map(|r| r.low).fold(f64::INFINITY, f64::min);
        let high = timed.iter().map(|r| r.high).fold(0.0, f64::max);
        return (counted, format!("{likely}, within {}", span(Some((low, high)))));
    }
    if modelled.is_empty() {
        return (counted, "not modelled: neither traps nor cycles were counted".into());
    }
    let low = modelled.iter().map(|r| r.low).fold(f64::INFINITY, f64::min);
    let high = modelled.iter().map(|r| r.high).fold(0.0, f64::max);
    (counted, format!("within {}", span(Some((low, high)))))
}

fn span(limits: Option<(f64, f64)>) -> String {
    match limits {
        None => "not measured".into(),
        Some((low, high)) if format::ratio(low) == format::ratio(high) => format!("{}×", format::ratio(low)),
        Some((low, high)) => format!("{} to {}×", format::ratio(low), format::ratio(high)),
    }
}

fn trap_shares(results: &Results, board: Board) -> Vec<[String; 5]> {
    let share_of = |classes: &[Trap]| {
        let names = results.workloads(board, Group::Kernel);
        let figures = names.iter().filter_map(|w| results.find(board, catalogue::NAIVE, Group::Kernel, w)?.figures());
        format::percent_span(select::extremes(figures.filter_map(|f| select::share(f, classes))))
    };
    let row = |what: &str, paper: &Figure, ours: String, note: &str| {
        [what.to_string(), cite(paper), ours, "–".into(), note.to_string()]
    };
    let control_flow =
        format::percent_span(select::extremes(figures::control_flow_shares(results, board, catalogue::NAIVE)));
    vec![
        row(
            "control flow, share of traps, naive",
            &papers::STAR_CONTROL_FLOW,
            control_flow,
            "comparable in kind; the kernels differ",
        ),
        row(
            "exception returns, share of traps, naive",
            &papers::STAR_EXCEPTION_RETURNS,
            share_of(&[Trap::ExceptionReturn]),
            "STAR says this of “an optimised DBT engine”",
        ),
        row(
            "mode changes, share of traps, naive",
            &papers::STAR_MODE_CHANGES,
            share_of(&[Trap::ModeChange]),
            "comparable in kind; the kernels differ",
        ),
        row(
            "user registers (LDM/STM ^), share of traps, naive",
            &papers::STAR_USER_REGISTERS,
            share_of(&[Trap::UserBank]),
            "comparable in kind; the kernels differ",
        ),
        row(
            "coprocessor and special registers, share of traps, naive",
            &papers::STAR_COPROCESSOR,
            share_of(&[Trap::Coprocessor, Trap::StatusRegister]),
            "STAR tells writes (mostly up to 5 %) from plain reads (§5.6: 1 to 9 %); ours are both together. Debian’s \
             kernel writes DACR twice per system call",
        ),
    ]
}

fn trap_counts(results: &Results, board: Board) -> Vec<[String; 5]> {
    let total = papers::ARMVISOR_TABLE_7_TOTAL;
    let row = |what: &str, theirs: u64, configuration: &str, note: &str| {
        let measurement = results.find(board, configuration, Group::Kernel, "fork-exec");
        let traps = measurement.and_then(|m| m.figures()?.events.as_ref()?.all_traps_per_operation());
        let ours = traps.map_or_else(|| "not measured".into(), |t| format!("{} traps", format::number(t)));
        let theirs = format!("ARMvisor §6.1, Table 7: {} traps", format::number(theirs as f64));
        [what.to_string(), theirs, ours, "–".into(), note.to_string()]
    };
    vec![
        row(
            "traps to run a program that does nothing, no optimisation",
            total.original,
            catalogue::NAIVE,
            "ours is fork+exec; ARMvisor’s guest is paravirtualised and does not trap at control flow",
        ),
        row(
            "the same, all optimisations",
            total.optimised,
            catalogue::DEFAULT,
            "ARMvisor’s guest tells its hypervisor of page table changes; ours is unmodified",
        ),
    ]
}
