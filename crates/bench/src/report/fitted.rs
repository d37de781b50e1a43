//! What ticks of the guest's timer and other exceptions add to programs that compute.
//!
//! Such a program has hardly any kernel code of its own: what it takes more as a guest than natively is its start, the
//! ticks that fall into its run, and its page faults and system calls. Programs differ in how many of each they have,
//! so what one of each adds can be told apart: by least squares, with errors relative to what each program takes more.

use super::tables::Table;
use super::timing::timed;
use crate::catalogue;
use crate::format;
use crate::results::{Board, Results, Timing};
use spica_cycles::{Core, Count, Part};

/// Ticks of Debian's kernel in a second (`CONFIG_HZ`).
const TICKS_PER_SECOND: f64 = 250.0;
/// Fewer programs say little about three unknowns.
const ENOUGH: usize = 6;

/// A program: how many starts (1), ticks and other exceptions its run has, and what it takes more, by part, in cycles.
struct Program {
    name: String,
    causes: [f64; 3],
    parts: [f64; Part::ALL.len()],
    weight: f64,
}

impl Program {
    fn new(name: &str, core: Core, instructions: f64, timing: &Timing, icount_shift: u8) -> Program {
        let ticks = instructions * f64::from(1u32 << icount_shift) * 1e-9 * TICKS_PER_SECOND;
        let native = &timing.native;
        let exceptions = native.counts().get(Count::ExceptionEntry) as f64 / native.operations as f64;
        let more = |part| timing.virtualised.part(core, part).mid - native.part(core, part).mid;
        let parts = Part::ALL.map(more);
        // Relative errors; where hardly anything is added, a thousandth of the program is as good as nothing.
        let weight = 1.0 / parts.iter().sum::<f64>().abs().max(native.cycles(core).mid / 1000.0);
        Program { name: name.to_string(), causes: [1.0, ticks, (exceptions - ticks).max(0.0)], parts, weight }
    }

    fn more(&self) -> f64 {
        self.parts.iter().sum()
    }

    fn explained(&self, by: &[f64; 3]) -> f64 {
        self.causes.iter().zip(by).map(|(times, cycles)| times * cycles).sum()
    }
}

/// What one of each cause adds, by weighted least squares; none if the programs do not tell the causes apart.
fn fit<'a>(programs: impl Iterator<Item = &'a Program>, of: impl Fn(&Program) -> f64) -> Option<[f64; 3]> {
    let (mut matrix, mut right) = ([[0.0; 3]; 3], [0.0; 3]);
    for program in programs {
        let row = program.causes.map(|times| times * program.weight);
        for (i, a) in row.iter().enumerate() {
            right[i] += a * of(program) * program.weight;
            for (j, b) in row.iter().enumerate() {
                matrix[i][j] += a * b;
            }
        }
    }
    // Causes are of very different sizes: the determinant is compared with the diagonal.
    let size = matrix[0][0] * matrix[1][1] * matrix[2][2];
    let all = determinant(&matrix);
    (all > size * 1e-9).then(|| {
        std::array::from_fn(|unknown| {
            let mut replaced = matrix;
            replaced.iter_mut().zip(right).for_each(|(row, value)| row[unknown] = value);
            determinant(&replaced) / all
        })
    })
}

fn determinant(m: &[[f64; 3]; 3]) -> f64 {
    let minor = |a: usize, b: usize| m[1][a] * m[2][b] - m[1][b] * m[2][a];
    m[0][0] * minor(1, 2) - m[0][1] * minor(0, 2) + m[0][2] * minor(0, 1)
}

fn programs(results: &Results, board: Board, configuration: &str) -> Vec<Program> {
    let computes = timed(results, board, configuration).into_iter().filter(|(m, _)| catalogue::computes(&m.workload));
    let of = |(m, timing): (&crate::results::Measurement, &Timing)| {
        let instructions = m.native()?;
        Some(Program::new(&m.workload, Core::from(board), instructions, timing, results.run.icount_shift))
    };
    computes.filter_map(of).collect()
}

/// The tables of a board: what one of each cause adds, and how much of each program that explains. None where too few
/// programs that compute have cycles.
pub fn tables(results: &Results, board: Board) -> Vec<Table> {
    let of = |configuration: &str| {
        let programs = programs(results, board, configuration);
        let whole = fit(programs.iter(), Program::more).filter(|_| programs.len() >= ENOUGH)?;
        Some([causes(board, configuration, &programs, whole)?, explained(board, configuration, &programs, &whole)])
    };
    results.configurations.iter().filter_map(|c| of(&c.name)).flatten().collect()
}

fn causes(board: Board, configuration: &str, programs: &[Program], whole: [f64; 3]) -> Option<Table> {
    let title = format!("{board}: cycles that a guest’s programs that compute take more, by cause, “{configuration}”");
    let mut table = Table::new(&title, &["part", "#start", "#a tick", "#any other exception"]);
    let (mut low, mut high) = (whole, whole);
    for left_out in 0..programs.len() {
        let others = programs.iter().enumerate().filter(|(at, _)| *at != left_out).map(|(_, program)| program);
        for (at, value) in fit(others, Program::more)?.into_iter().enumerate() {
            low[at] = low[at].min(value);
            high[at] = high[at].max(value);
        }
    }
    let number = |value: f64| format::number(value.round());
    let span = |at: usize| format!("{} ({} to {})", number(whole[at]), number(low[at]), number(high[at]));
    let name = "all (and if any one program is left out)".to_string();
    table.rows.push([name].into_iter().chain([0, 1, 2].map(span)).collect());
    for (at, part) in Part::ALL.into_iter().enumerate() {
        let values = fit(programs.iter(), |program| program.parts[at])?;
        table.rows.push([part.label().to_string()].into_iter().chain(values.map(number)).collect());
    }
    Some(table)
}

fn explained(board: Board, configuration: &str, programs: &[Program], by: &[f64; 3]) -> Table {
    let title = format!("{board}: what start, ticks and exceptions explain, “{configuration}”");
    let columns = ["workload", "#ticks", "#other exceptions", "#cycles more", "#explained", "#per cent of it"];
    let mut table = Table::new(&title, &columns);
    for program in programs {
        let (more, explained) = (program.more(), program.explained(by));
        let numbers = [program.causes[1], program.causes[2], more, explained, 100.0 * explained / more];
        let cells = numbers.map(|value| format::number(value.round()));
        table.rows.push([program.name.clone()].into_iter().chain(cells).collect());
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(ticks: f64, exceptions: f64, more: f64) -> Program {
        let mut parts = [0.0; Part::ALL.len()];
        parts[0] = more;
        Program { name: String::new(), causes: [1.0, ticks, exceptions], parts, weight: 1.0 / more }
    }

    #[test]
    fn causes_are_told_apart() {
        let of = |ticks: f64, exceptions: f64| program(ticks, exceptions, 4e6 + 5e4 * ticks + 1e4 * exceptions);
        let programs = [of(20.0, 400.0), of(600.0, 3400.0), of(90.0, 700.0), of(300.0, 380.0), of(40.0, 1500.0)];
        let found = fit(programs.iter(), Program::more).expect("a solution");
        for (found, put_in) in found.iter().zip([4e6, 5e4, 1e4]) {
            assert!((found / put_in - 1.0).abs() < 1e-6, "{found} for {put_in}");
        }
        assert!((programs[1].explained(&found) / programs[1].more() - 1.0).abs() < 1e-6);
    }

    #[test]
    fn equal_programs_tell_nothing() {
        let programs = [1, 2, 3, 4].map(|_| program(20.0, 400.0, 9e6));
        assert_eq!(fit(programs.iter(), Program::more), None);
        assert_eq!(fit([].into_iter(), Program::more), None);
    }
}
