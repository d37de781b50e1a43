//! Made-up results with a bit of everything, for tests. None of these figures was measured.

#![allow(dead_code, reason = "each file of tests uses its part")]

use std::collections::BTreeMap;

use spica_bench::catalogue::{DEFAULT, KERNEL, LINKED, NAIVE};
use spica_bench::events::Trap;
use spica_bench::results::*;

/// What the made-up run was made with.
pub fn run() -> Run {
    let software = Software {
        kernel: "6.1.0-18-armmp 6.1.76-1".into(),
        packages: BTreeMap::from([("lmbench".to_string(), "3.0-a9+debian.1-6".to_string())]),
    };
    Run {
        commit: "0123456789abcdef0123456789abcdef01234567".into(),
        dirty: false,
        date: "2026-01-01".into(),
        qemu: "7.2.11".into(),
        icount_shift: 1,
        boards: Board::ALL.into_iter().map(|b| (b, software.clone())).collect(),
        parameters: BTreeMap::from([("lmbench repetitions".to_string(), "11".to_string())]),
    }
}

pub fn configuration(name: &str, description: &str, series: &[Series]) -> Configuration {
    Configuration { name: name.into(), description: description.into(), series: series.to_vec(), lacks: None }
}

pub fn configurations() -> Vec<Configuration> {
    use Series::*;
    vec![
        configuration(NAIVE, "everything in STAR's Table 1 traps", &[Optimisation]),
        configuration(LINKED, "direct branches linked", &[Optimisation]),
        configuration("naive+link+returns", "return mirror", &[Optimisation]),
        configuration("naive+link+returns+masks", "interrupt masks inlined", &[Optimisation]),
        configuration(DEFAULT, "Spica as shipped", &[SpillOne, SpillTwo, Memory, Optimisation, Without]),
        configuration("spill-tpidrurw", "TPIDRURW", &[SpillOne, SpillTwo]),
        configuration("spill-lightweight-private", "lightweight trap, private slot", &[SpillOne, SpillTwo]),
        configuration("single-shadow", "one shadow table, DACR switched", &[Memory]),
        configuration("without-link", "everything but `link`", &[Without]),
    ]
}

/// A measurement with round figures.
pub fn measured(
    board: Board,
    configuration: &str,
    group: Group,
    workload: &str,
    native: f64,
    ratio: f64,
) -> Measurement {
    Measurement {
        board,
        configuration: configuration.into(),
        group,
        workload: workload.into(),
        unit: if group == Group::Kernel { "operation".into() } else { "run".into() },
        source: "made up".into(),
        status: Status::Measured(Figures { native, virtualised: native * ratio, events: None, timing: None }),
    }
}

/// A figure of several guests.
pub fn found(board: Board, workload: &str, value: f64, goal: Option<f64>) -> Measurement {
    let histogram = [(1000, 3), (2000, 96), (4000, 1)].map(|(below, count)| Class { below, count }).into();
    let histogram = if workload.starts_with("wake") { histogram } else { Vec::new() };
    let parts = [("at worst".to_string(), 3.0 * value)].into();
    Measurement {
        unit: if goal.is_some() { "% of the core".into() } else { "instructions".into() },
        status: Status::Found(Finding { value, goal, parts, histogram }),
        ..measured(board, DEFAULT, Group::Several, workload, 1.0, 1.0)
    }
}

pub fn with_events(mut measurement: Measurement, events: Events) -> Measurement {
    if let Status::Measured(figures) = &mut measurement.status {
        figures.events = Some(events);
    }
    measurement
}

/// Counts of traps over 100 operations, by class.
pub fn traps(counts: &[(Trap, u64)]) -> Events {
    let traps = counts.iter().map(|(t, n)| (t.key().to_string(), *n)).collect();
    Events { operations: 100, traps, ..Events::default() }
}

/// Everything that a report can hold, the odd cases included.
pub fn sample() -> Results {
    let mut results = Results::new(run(), configurations());
    let names: Vec<String> = configurations().into_iter().map(|c| c.name).collect();
    for board in Board::ALL {
        for (at, operation) in KERNEL.iter().enumerate() {
            let native = 129.0 * 1.5f64.powi(at as i32);
            for (step, name) in names.iter().enumerate() {
                let ratio = match name.as_str() {
                    DEFAULT => 1.9 + 0.1 * at as f64,
                    NAIVE => 70.0 - 2.0 * at as f64,
                    LINKED => 30.0 - at as f64,
                    // Half more; of the second operation, twice as much.
                    "without-link" => (1.9 + 0.1 * at as f64) * if at == 1 { 2.0 } else { 1.5 },
                    _ => 12.0 - step as f64 + 0.1 * at as f64,
                };
                let naive = if *name == NAIVE { 20 } else { 1 };
                let events = traps(&[
                    (Trap::DirectBranch, 200 * (naive - 1)),
                    (Trap::IndirectBranch, 40 * naive),
                    (Trap::Coprocessor, 6 * naive),
                    (Trap::ModeChange, 9 * naive + at as u64),
                    (Trap::ExceptionReturn, 4 * naive),
                    (Trap::UserCall, 100),
                    (Trap::HiddenFault, 3 * at as u64),
                    (Trap::Interrupt, 1),
                ]);
                let mut m = with_events(measured(board, name, Group::Kernel, operation.name, native, ratio), events);
                if name == "single-shadow" {
                    m.status = Status::NotImplemented { reason: "a single shadow table".into() };
                }
                if operation.name == "mmap" && name == DEFAULT {
                    m.status = Status::Missing {
                        reason: "the guest died: \"jumped <astray>\" & more".into(),
                        native: Some(native),
                    };
                }
                results.put(m);
            }
        }
        for (at, name) in ["lame", "toast", "cjpeg", "sqlite"].into_iter().enumerate() {
            for (configuration, ratio) in [(LINKED, 1.9), (DEFAULT, 1.02)] {
                let ratio = ratio + 0.03 * at as f64;
                results.put(measured(board, configuration, Group::Application, name, 2.5e9, ratio));
            }
        }
        for (at, name) in ["svc", "data-abort", "mmio", "tlb-eviction", "same-page-direct"].into_iter().enumerate() {
            let events = match name {
                "mmio" => traps(&[(Trap::Mmio, 100), (Trap::Interrupt, 1)]),
                "tlb-eviction" => traps(&[(Trap::HiddenFault, 800)]),
                _ => Events { operations: 100, ..Events::default() },
            };
            let m = measured(board, DEFAULT, Group::Machine, name, 20.0, 8f64.powi(at as i32));
            results.put(with_events(m, events));
        }
        for (name, value, goal) in [
            ("share", 0.0125, Some(2.0)),
            ("idle-neighbour", 0.75, Some(0.5)),
            ("switch", 3155.0, None),
            ("wake-alone", 1200.0, None),
            ("wake-beside", 1500.0, None),
        ] {
            results.put(found(board, name, value, goal));
        }
        results.put(measured(board, DEFAULT, Group::Boot, "init", 3.5e9, 1.4));
        results.put(measured(board, DEFAULT, Group::Boot, "shell", 3.7e9, 1.5));
    }
    results
}
