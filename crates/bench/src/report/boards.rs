//! Modelled cycles of the bare board beside what was measured on real ones.

use super::tables::Table;
use super::timing;
use crate::boards;
use crate::catalogue;
use crate::format;
use crate::results::{Board, Results};
use spica_cycles::Core;

/// The tables of a board: workloads that somebody measured on silicon, and who. Nothing without such a workload.
pub fn tables(results: &Results, board: Board) -> Vec<Table> {
    let core = Core::from(board);
    let all: Vec<_> = boards::of(core).collect();
    let title = format!("{board}: modelled cycles without Spica, beside what was measured on other boards");
    let mut table = Table::new(&title, &["workload", "per", "#modelled", "#by the ranges"]);
    table.columns.extend(all.iter().map(|m| (m.board.to_string(), true)));
    for (measurement, timing) in timing::timed(results, board, catalogue::DEFAULT) {
        let measured: Vec<_> = all.iter().map(|m| m.cycles(&measurement.workload)).collect();
        if measured.iter().all(Option::is_none) {
            continue;
        }
        let cycles = timing.native.cycles(core);
        let cell = |measured: &Option<f64>| match measured {
            Some(measured) => format!("{} ({}×)", format::number(*measured), format::ratio(cycles.mid / measured)),
            None => String::new(),
        };
        let range = format!("{} to {}", format::number(cycles.low), format::number(cycles.high));
        let ours = [measurement.workload.clone(), measurement.unit.clone(), format::number(cycles.mid), range];
        table.rows.push(ours.into_iter().chain(measured.iter().map(cell)).collect());
    }
    if table.rows.is_empty() {
        return Vec::new();
    }
    let mut sources = Table::new(&format!("{board}: the other boards"), &["board", "where it was published"]);
    sources.rows.extend(all.iter().map(|m| vec![m.board.to_string(), m.source.to_string()]));
    vec![table, sources]
}
