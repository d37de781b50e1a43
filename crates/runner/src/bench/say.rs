//! For people: what can be measured, and what was.

use std::fmt::Write as _;

use spica_bench::format;
use spica_bench::results::{Figures, Group, Results, Status};
use spica_cycles::Core;

use super::configurations::{self, Configuration, NATIVE, WITHOUT};
use super::items;
use super::plan::{self, Item};
use crate::board::Board;
use crate::error::Result;
use crate::project::Project;

/// The figures that were wanted, a line each.
pub fn summary(
    results: &Results,
    boards: &[&'static Board],
    configurations: &[&'static Configuration],
    items: &[Item],
    native_only: bool,
) -> String {
    let mut text = String::new();
    for board in boards {
        for configuration in configurations {
            for item in items {
                let Some(measurement) = results.get(&plan::key(board, configuration.name, item)) else { continue };
                let side = if native_only { NATIVE } else { configuration.name };
                let _ = write!(text, "{:<12} {side:<14} {:<12} {:<26} ", board.name, item.group.name(), item.name);
                let _ = match &measurement.status {
                    Status::Measured(f) => {
                        let _ =
                            write!(text, "{:>14} {:>14} {:>8.3}", figure(f.native), figure(f.virtualised), f.ratio());
                        writeln!(text, "{}", cycles(f, Core::from(plan::results_board(board))))
                    }
                    Status::Found(f) => {
                        let met = if f.meets_goal() == Some(false) { ", which is more than was aimed at" } else { "" };
                        writeln!(text, "{:>14} {}{met}", format::fine(f.value), item.unit)
                    }
                    Status::Missing { native: Some(native), .. } if native_only => {
                        writeln!(text, "{:>14}", figure(*native))
                    }
                    Status::Missing { reason, .. } => writeln!(text, "missing: {}", first_line(reason)),
                    Status::NotImplemented { reason } => writeln!(text, "not implemented: {reason}"),
                };
            }
        }
    }
    text
}

/// Modelled cycles, for people, if there are any: on both sides, and their ratio with its range.
fn cycles(figures: &Figures, core: Core) -> String {
    let Some(timing) = &figures.timing else { return String::new() };
    let (native, virtualised, ratio) =
        (timing.native.cycles(core), timing.virtualised.cycles(core), timing.ratio(core));
    let [low, mid, high] = [ratio.low, ratio.mid, ratio.high].map(format::ratio);
    format!(" {:>12.1} {:>12.1} cycles {mid:>6} ({low} to {high})", native.mid, virtualised.mid)
}

/// Instructions, for people: with as many decimals as there is anything behind the point.
#[must_use]
pub fn figure(instructions: f64) -> String {
    if instructions.fract() == 0.0 { format!("{instructions}") } else { format!("{instructions:.2}") }
}

/// The first line.
#[must_use]
pub fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

/// What can be measured.
///
/// # Errors
/// If the workloads cannot be made ready.
pub fn list(project: &Project) -> Result<String> {
    let mut text = String::from("Boards:\n");
    for board in plan::boards() {
        let _ = writeln!(text, "  {:<20} {}", board.name, board.cpu);
    }
    text.push_str("\nConfigurations, all = every one of these:\n");
    let _ = writeln!(text, "  {NATIVE:<20} without Spica; measured with each of the others, too");
    let (without, table): (Vec<&Configuration>, Vec<&Configuration>) =
        configurations::all().iter().partition(|c| c.name.starts_with(WITHOUT));
    for configuration in table {
        let _ = writeln!(text, "  {:<20} {}", configuration.name, configuration.description);
        if let Some(lacks) = configuration.lacks {
            let _ = writeln!(text, "  {:<20} not implemented: {lacks}", "");
        }
    }
    let _ = writeln!(text, "  {WITHOUT}SWITCH       everything but one switch of the translator's:");
    let switches: Vec<_> = without.iter().map(|c| &c.name[WITHOUT.len()..]).collect();
    for line in switches.chunks(6) {
        let _ = writeln!(text, "  {:<20} {}", "", line.join(" "));
    }
    let items = items(project)?;
    for group in Group::ALL {
        let _ = writeln!(text, "\nWorkloads, group {group} (* = in the quick subset):");
        for item in items.iter().filter(|i| i.group == group) {
            let quick = if item.quick { '*' } else { ' ' };
            let unit = if group.has_native() { format!("per {}", item.unit) } else { item.unit.clone() };
            let _ = writeln!(text, "{quick} {:<28} {unit:<16} {}", item.name, item.source);
        }
    }
    Ok(text)
}
