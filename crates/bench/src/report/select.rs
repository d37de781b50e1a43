//! What the figures and tables pick out of a result file, and in which order.

use std::cmp::Ordering;

use super::chart::Bar;
use crate::catalogue::{self, Kind};
use crate::events::Trap;
use crate::results::{Board, Figures, Group, Measurement, Results, Status};

/// The workloads of a group, those of the catalogue first and in its order.
pub fn workloads(results: &Results, board: Board, group: Group) -> Vec<&str> {
    let mut all = results.workloads(board, group);
    if group == Group::Kernel {
        let place = |name: &str| catalogue::KERNEL.iter().position(|o| o.name == name).unwrap_or(usize::MAX);
        all.sort_by_key(|name| place(name));
    }
    all
}

/// Whether a run has anything of a group under a configuration, be it only a reason why there is no figure.
pub fn is_in(results: &Results, board: Board, configuration: &str, group: Group) -> bool {
    results.measurements.iter().any(|m| m.board == board && m.group == group && m.configuration == configuration)
}

/// Why a measurement has no figures.
pub fn reason(measurement: Option<&Measurement>) -> String {
    match measurement.map(|m| &m.status) {
        Some(Status::Missing { reason, .. }) => format!("missing: {reason}"),
        Some(Status::NotImplemented { reason }) => format!("does not exist yet: {reason}"),
        Some(Status::Measured(_) | Status::Found(_)) | None => "not in this run".into(),
    }
}

/// A bar for a measurement, or the reason why there is none.
pub fn bar(measurement: Option<&Measurement>, value: impl Fn(&Figures) -> (f64, String)) -> Bar {
    match measurement.and_then(Measurement::figures) {
        Some(figures) => {
            let (value, label) = value(figures);
            Bar::Value { value, label, range: None }
        }
        None => Bar::Missing(reason(measurement)),
    }
}

/// The ratios of a group under a configuration, by workload.
pub fn ratios<'a>(results: &'a Results, board: Board, configuration: &str, group: Group) -> Vec<(&'a str, f64)> {
    let here = |m: &&Measurement| m.board == board && m.group == group && m.configuration == configuration;
    let mut all: Vec<_> =
        results.measurements.iter().filter(here).filter_map(|m| Some((m.workload.as_str(), m.ratio()?))).collect();
    all.sort_by(|a, b| a.1.partial_cmp(&b.1).unwrap_or(Ordering::Equal));
    all
}

/// The measurements of kernel operations of a kind under a configuration.
pub fn of_kind<'a>(results: &'a Results, board: Board, configuration: &str, kind: Kind) -> Vec<&'a Measurement> {
    let wanted = |m: &&Measurement| {
        m.board == board
            && m.group == Group::Kernel
            && m.configuration == configuration
            && catalogue::kernel_operation(&m.workload).is_some_and(|o| o.kind == kind)
    };
    results.measurements.iter().filter(wanted).collect()
}

/// The geometric mean: the right one for ratios.
pub fn mean(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let (mut sum, mut count) = (0.0, 0);
    for value in values {
        sum += value.ln();
        count += 1;
    }
    (count > 0).then(|| (sum / f64::from(count)).exp())
}

/// The least and the greatest.
pub fn extremes(values: impl IntoIterator<Item = f64>) -> Option<(f64, f64)> {
    values.into_iter().fold(None, |limits, v| match limits {
        None => Some((v, v)),
        Some((low, high)) => Some((low.min(v), high.max(v))),
    })
}

/// Trap classes that are control flow without being sensitive, as STAR's §5.1 sums them up.
pub const CONTROL_FLOW: [Trap; 3] = [Trap::DirectBranch, Trap::Return, Trap::IndirectBranch];
/// The classes that make up STAR's Figure 4: traps to the interpreter. Interrupts and faults are not among them.
pub const INTERPRETED: [Trap; 12] = [
    Trap::DirectBranch,
    Trap::Return,
    Trap::IndirectBranch,
    Trap::ExceptionReturn,
    Trap::ModeChange,
    Trap::UserBank,
    Trap::Unprivileged,
    Trap::Coprocessor,
    Trap::StatusRegister,
    Trap::KernelCall,
    Trap::Sleep,
    Trap::OtherEmulated,
];

/// The share that some classes have in the traps to the interpreter, if traps were counted and any was taken.
pub fn share(figures: &Figures, of: &[Trap]) -> Option<f64> {
    let events = figures.events.as_ref()?;
    let count = |traps: &[Trap]| traps.iter().filter_map(|t| events.traps.get(t.key())).map(|&n| n as f64).sum::<f64>();
    let all = count(&INTERPRETED);
    (all > 0.0).then(|| count(of) / all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means() {
        assert_eq!(mean([]), None);
        assert!((mean([2.0, 8.0]).unwrap() - 4.0).abs() < 1e-12);
        assert_eq!(extremes([3.0, 1.0, 2.0]), Some((1.0, 3.0)));
    }
}
