//! What is to be measured: workloads, and the runs of a board that measure them.
//!
//! A *suite* is what one boot measures: the two boot workloads, all machine operations, or the workloads of a group
//! that run one after the other in one Linux. A [`Job`] is one boot: a suite on a board, with or without Spica. Figures
//! may depend on what ran before in the same boot, so a job is never run in part: what an interrupted run lacks is made
//! by running its whole job again. That is how a resumed run gives the figures of one that was not interrupted.

use std::collections::BTreeSet;

use spica_bench::results::{self, Figures, Group, Key, Measurement, Results, Status};

use super::configurations::{self, Configuration};
use super::{Side, glob};
use crate::board::{self, Board};
use crate::error::{Error, Result};

/// Why a measurement that is only planned has no figures.
const PLANNED: &str = "not run yet";

/// How the reason begins why there is no native figure.
pub const NATIVELY: &str = "without Spica: ";
/// How workloads begin the reason for which they cannot be done on a board.
const BOARD: &str = "this board";

/// A workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Its group.
    pub group: Group,
    /// Its name, unique within the group.
    pub name: String,
    /// What one operation is.
    pub unit: String,
    /// What program makes the figure.
    pub source: String,
    /// Whether it belongs to the quick subset.
    pub quick: bool,
}

/// The boards that can be measured, in the order of the result file.
#[must_use]
pub fn boards() -> Vec<&'static Board> {
    results::Board::ALL.iter().filter_map(|b| board::find(b.name()).ok()).collect()
}

/// The boards of these names; without names, all.
///
/// # Errors
/// If there is none of such a name; the error lists those that there are.
pub fn select_boards(names: &[String]) -> Result<Vec<&'static Board>> {
    let all = boards();
    if let Some(name) = names.iter().find(|n| !all.iter().any(|b| b.name == n.as_str())) {
        let known: Vec<_> = all.iter().map(|b| format!("{} ({})", b.name, b.cpu)).collect();
        return Err(Error::usage(format!("unknown board {name:?}; benchmarks run on {}", known.join(" and "))));
    }
    Ok(all.into_iter().filter(|b| names.is_empty() || names.iter().any(|n| n == b.name)).collect())
}

/// The workloads that patterns describe: names, or groups. Without patterns, all. With `quick`, only those of the quick
/// subset; a pattern that names others then describes none.
///
/// # Errors
/// If a pattern describes no workload; the error lists those that there are.
pub fn select_items(items: &[Item], patterns: &[String], quick: bool) -> Result<Vec<Item>> {
    let describes = |pattern: &str, item: &Item| {
        glob::matches(pattern, &item.name) || glob::matches(pattern, &format!("{}/{}", item.group, item.name))
    };
    let offered: Vec<_> = items.iter().filter(|i| !quick || i.quick).collect();
    for pattern in patterns {
        if !offered.iter().any(|item| describes(pattern, item)) {
            return Err(no_such_workload(pattern, &offered, quick && items.iter().any(|i| describes(pattern, i))));
        }
    }
    let wanted = |item: &&&Item| patterns.is_empty() || patterns.iter().any(|p| describes(p, item));
    Ok(offered.iter().filter(wanted).map(|i| (*i).clone()).collect())
}

fn no_such_workload(pattern: &str, offered: &[&Item], not_quick: bool) -> Error {
    let mut text = if not_quick {
        format!("workload {pattern:?} is not in the quick subset; leave out --quick, or choose among these:")
    } else {
        format!("no workload is called {pattern:?}; the workloads are:")
    };
    for group in Group::ALL {
        let names: Vec<_> = offered.iter().filter(|i| i.group == group).map(|i| i.name.as_str()).collect();
        if !names.is_empty() {
            text.push_str(&format!("\n  {group}/  {}", names.join(" ")));
        }
    }
    Error::usage(text)
}

/// One boot of a board.
#[derive(Clone, Debug)]
pub struct Job {
    /// The board.
    pub board: &'static Board,
    /// With or without Spica.
    pub side: Side,
    /// The group whose workloads it measures.
    pub group: Group,
    /// Those of them that are wanted.
    pub items: Vec<Item>,
}

impl Job {
    /// For people: `cubieboard, default, kernel`.
    #[must_use]
    pub fn title(&self) -> String {
        format!("{}, {}, {}", self.board.name, self.side.name(), self.group)
    }
}

/// A board of the result file.
///
/// # Panics
/// If it is not one that is measured.
#[must_use]
pub fn results_board(board: &Board) -> results::Board {
    results::Board::from_name(board.name).expect("boards were selected among those of the result file")
}

/// Notes in `results` all that is going to be measured, as missing so far, and what cannot be, be it asked for or not.
/// What is there stays.
pub fn note(
    results: &mut Results,
    boards: &[&'static Board],
    configurations: &[&'static Configuration],
    items: &[Item],
) {
    let lacking = configurations::all().iter().filter(|c| c.lacks.is_some());
    for configuration in configurations.iter().copied().chain(lacking) {
        if results.configuration(configuration.name).is_none() {
            results.configurations.push(configuration.declared());
        }
    }
    // Also those that a resumed run adds: reports show them in this order.
    results.configurations.sort_by_key(|c| configurations::all().iter().position(|known| known.name == c.name));
    for board in boards {
        for configuration in configurations {
            for item in items {
                let status = match configuration.lacks {
                    Some(reason) => Status::NotImplemented { reason: reason.into() },
                    None => Status::Missing { reason: PLANNED.into(), native: None },
                };
                let measurement = measurement(results_board(board), configuration.name, item, status);
                if results.get(&measurement.key()).is_none() {
                    results.put(measurement);
                }
            }
        }
    }
}

/// A measurement of a workload.
#[must_use]
pub fn measurement(board: results::Board, configuration: &str, item: &Item, status: Status) -> Measurement {
    Measurement {
        board,
        configuration: configuration.into(),
        group: item.group,
        workload: item.name.clone(),
        unit: item.unit.clone(),
        source: item.source.clone(),
        status,
    }
}

/// The key of a measurement.
#[must_use]
pub fn key(board: &Board, configuration: &str, item: &Item) -> Key {
    Key {
        board: results_board(board),
        configuration: configuration.into(),
        group: item.group,
        workload: item.name.clone(),
    }
}

/// Whether there is nothing left to measure: it is measured, Spica cannot do it, or the board cannot.
#[must_use]
pub fn is_settled(results: &Results, key: &Key) -> bool {
    let not_here = |reason: &str| reason.strip_prefix(NATIVELY).is_some_and(|r| r.starts_with(BOARD));
    results.is_settled(key) || results.get(key).and_then(Measurement::reason).is_some_and(not_here)
}

/// Whether traps can be counted, and time modelled. Machine operations run all in one boot, and nothing in it tells
/// them apart; with several guests it is the board's time that is looked at.
#[must_use]
pub fn is_countable(group: Group) -> bool {
    !matches!(group, Group::Machine | Group::Several | Group::Latency)
}

/// Whether nothing is left to count: it was counted, or cannot be.
#[must_use]
pub fn is_counted(results: &Results, key: &Key, wanted: Wanted) -> bool {
    let counted = |figures: &Figures| match wanted {
        Wanted::Native | Wanted::Figures => true,
        Wanted::Events => figures.events.is_some(),
        Wanted::Cycles => figures.timing.is_some(),
    };
    !is_countable(key.group) || results.get(key).and_then(Measurement::figures).is_none_or(counted)
}

/// What is wanted of the measurements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wanted {
    /// Figures of the bare board.
    Native,
    /// Figures.
    Figures,
    /// Traps and other events, too.
    Events,
    /// The time, too.
    Cycles,
}

/// The boots that are still needed for what is wanted. Native ones come first: without their half there is no figure.
#[must_use]
pub fn jobs(
    results: &Results,
    boards: &[&'static Board],
    configurations: &[&'static Configuration],
    items: &[Item],
    wanted: Wanted,
) -> Vec<Job> {
    let groups: BTreeSet<_> = items.iter().map(|i| i.group).collect();
    let of_group = |group| items.iter().filter(|i| i.group == group).cloned().collect::<Vec<_>>();
    let there = |c: &&&Configuration| c.lacks.is_none();
    let mut guests = Vec::new();
    for configuration in configurations.iter().filter(there).filter(|_| wanted != Wanted::Native) {
        for &board in boards {
            for &group in &groups {
                let items = of_group(group);
                let done = |i: &Item| {
                    let key = key(board, configuration.name, i);
                    is_settled(results, &key) && is_counted(results, &key, wanted)
                };
                if !items.iter().all(done) {
                    guests.push(Job { board, side: Side::Spica(configuration), group, items });
                }
            }
        }
    }
    let mut jobs = Vec::new();
    for &board in boards {
        for &group in groups.iter().filter(|group| group.has_native()) {
            let items = of_group(group);
            let has_native = |i: &Item| results.native(results_board(board), group, &i.name).is_some();
            let not_here = |i: &Item| {
                let all = configurations.iter().filter(there);
                all.clone().count() > 0 && all.into_iter().all(|c| is_settled(results, &key(board, c.name, i)))
            };
            // What is counted natively is not in the file before its other half is.
            let counted = matches!(wanted, Wanted::Events | Wanted::Cycles)
                && is_countable(group)
                && guests.iter().any(|j| j.board == board && j.group == group);
            if counted || !items.iter().all(|i| has_native(i) || not_here(i)) {
                jobs.push(Job { board, side: Side::Native, group, items });
            }
        }
    }
    jobs.extend(guests);
    jobs
}

#[cfg(test)]
mod tests;
