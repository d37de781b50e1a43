//! What a run of a board came to, put into the results.

use std::collections::BTreeMap;

use spica_bench::results::{Figures, Finding, Group, Measurement, Results, Status};

use super::counts::Beside;
use super::plan::{Item, Job, NATIVELY, key, measurement, results_board};
use super::{Side, configurations};
use crate::board::Board;

/// What a job's boot said, and how it ended.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Instructions by workload, or why there are none.
    pub found: BTreeMap<String, Result<f64, String>>,
    /// Figures that have no native counterpart, by workload.
    pub findings: BTreeMap<String, Finding>,
    /// The SHA-256 of workloads' outputs.
    pub digests: BTreeMap<String, String>,
    /// Spica's lines.
    pub spica: Vec<String>,
    /// What was counted, by workload.
    pub beside: BTreeMap<String, Beside>,
    /// Why it ended early, if it did.
    pub error: Option<String>,
}

impl Outcome {
    fn of(&self, item: &Item) -> Result<f64, String> {
        let silent = || Err(self.error.clone().unwrap_or_else(|| "the guest printed no figure".into()));
        self.found.get(&item.name).cloned().unwrap_or_else(silent)
    }
}

/// Puts a job's outcome into the results. `configurations` are those that are measured in this run: a native figure is
/// half of each one's.
pub fn record(
    results: &mut Results,
    job: &Job,
    outcome: &Outcome,
    configurations: &[&'static configurations::Configuration],
) {
    for item in &job.items {
        match job.side {
            Side::Native => {
                if let Some(digest) = outcome.digests.get(&item.name) {
                    results.run.parameters.insert(digest_name(job, item), digest.clone());
                }
                for configuration in configurations.iter().filter(|c| c.lacks.is_none()) {
                    native(results, job, item, configuration.name, outcome.of(item));
                }
            }
            Side::Spica(configuration) => {
                let unknown = |words| unknown_word(&outcome.spica, words);
                let status = match unknown(configuration.words).or_else(|| unknown(configuration.quick_boot)) {
                    Some(word) => Status::NotImplemented { reason: format!("this Spica does not know {word}") },
                    None if !item.group.has_native() => single(outcome, item),
                    None => {
                        let beside = outcome.beside.get(&item.name).cloned().unwrap_or_default();
                        virtualised(results, job, item, checked(results, job, item, outcome), beside)
                    }
                };
                results.put(measurement(results_board(job.board), configuration.name, item, status));
            }
        }
    }
}

/// Notes that a workload cannot be run, in none of the configurations.
pub fn impossible(
    results: &mut Results,
    boards: &[&'static Board],
    configurations: &[&'static configurations::Configuration],
    items: &[Item],
    group: Group,
    name: &str,
    why: &str,
) {
    for item in items.iter().filter(|i| i.group == group && i.name == name) {
        for board in boards {
            for configuration in configurations {
                if !results.is_settled(&key(board, configuration.name, item)) {
                    let status = Status::Missing { reason: why.into(), native: None };
                    results.put(measurement(results_board(board), configuration.name, item, status));
                }
            }
        }
    }
}

/// What a workload's output was natively is a parameter of the run, so that a resumed run knows it, too.
fn digest_name(job: &Job, item: &Item) -> String {
    format!("output.{}.{}", job.board.name, item.name)
}

/// A figure under Spica; none if the workload's output was not that of the native run.
fn checked(results: &Results, job: &Job, item: &Item, outcome: &Outcome) -> Result<f64, String> {
    let expected = results.run.parameters.get(&digest_name(job, item));
    match (expected, outcome.digests.get(&item.name)) {
        (Some(expected), Some(digest)) if expected != digest => {
            Err("wrong output: not that of the run without Spica".into())
        }
        _ => outcome.of(item),
    }
}

fn native(results: &mut Results, job: &Job, item: &Item, configuration: &str, found: Result<f64, String>) {
    let key = key(job.board, configuration, item);
    let old = results.get(&key).map(|m| m.status.clone());
    let status = match (found, old) {
        (Ok(native), Some(Status::Measured(figures))) => Status::Measured(Figures { native, ..figures }),
        (Ok(native), _) => Status::Missing { reason: "not run under Spica yet".into(), native: Some(native) },
        // What was measured before was measured.
        (Err(_), Some(Status::Measured(_))) => return,
        (Err(why), _) => Status::Missing { reason: format!("{NATIVELY}{why}"), native: None },
    };
    results.put(measurement(key.board, configuration, item, status));
}

/// What became of a workload that has no native counterpart.
fn single(outcome: &Outcome, item: &Item) -> Status {
    match (outcome.findings.get(&item.name), outcome.of(item)) {
        (Some(finding), _) => Status::Found(finding.clone()),
        (None, Err(reason)) => Status::Missing { reason, native: None },
        (None, Ok(_)) => Status::Missing { reason: "it is a figure with a native counterpart".into(), native: None },
    }
}

fn virtualised(
    results: &Results,
    job: &Job,
    item: &Item,
    found: Result<f64, String>,
    Beside { events, timing }: Beside,
) -> Status {
    let native = results.native(results_board(job.board), item.group, &item.name);
    match (found, native) {
        (Ok(virtualised), Some(native)) => Status::Measured(Figures { native, virtualised, events, timing }),
        (Ok(_), None) => {
            // The native run has said why.
            let old = results.get(&key(job.board, job.side.name(), item)).and_then(Measurement::reason);
            Status::Missing { reason: old.unwrap_or("there is no native figure").into(), native }
        }
        (Err(reason), native) => Status::Missing { reason, native },
    }
}

/// The first of a configuration's words that Spica said it does not know.
fn unknown_word(spica: &[String], words: &str) -> Option<String> {
    let unknown = |word: &str| spica.iter().any(|l| l.contains(&format!("{word} on the command line means nothing")));
    words.split_whitespace().find(|w| unknown(w)).map(str::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::plan;
    use spica_bench::results::Run;

    fn item(name: &str) -> Item {
        Item { group: Group::Kernel, name: name.into(), unit: "call".into(), source: "test".into(), quick: true }
    }

    fn job(side: Side) -> Job {
        let board = plan::select_boards(&["cubieboard".into()]).unwrap()[0];
        Job { board, side, group: Group::Kernel, items: vec![item("a"), item("b")] }
    }

    fn outcome(found: &[(&str, f64)], error: Option<&str>) -> Outcome {
        let found = found.iter().map(|(name, n)| (name.to_string(), Ok(*n))).collect();
        Outcome { found, error: error.map(str::to_string), ..Outcome::default() }
    }

    fn results() -> Results {
        let run = Run {
            commit: "c".into(),
            dirty: false,
            date: "2026-01-01".into(),
            qemu: "7.2".into(),
            icount_shift: 1,
            boards: [].into(),
            parameters: [].into(),
        };
        Results::new(run, Vec::new())
    }

    #[test]
    fn two_halves_make_a_figure() {
        let naive = configurations::named("naive").unwrap();
        let default = configurations::named("default").unwrap();
        let mut results = results();
        let status = |results: &Results, name: &str, configuration: &str| {
            results.get(&key(job(Side::Native).board, configuration, &item(name))).unwrap().status.clone()
        };
        record(&mut results, &job(Side::Native), &outcome(&[("a", 4.0), ("b", 5.0)], None), &[naive, default]);
        record(&mut results, &job(Side::Spica(default)), &outcome(&[("a", 8.0)], Some("it died")), &[naive, default]);
        let figures = Figures { native: 4.0, virtualised: 8.0, events: None, timing: None };
        assert_eq!(status(&results, "a", "default"), Status::Measured(figures));
        let died = Status::Missing { reason: "it died".into(), native: Some(5.0) };
        assert_eq!(status(&results, "b", "default"), died);
        let waiting = Status::Missing { reason: "not run under Spica yet".into(), native: Some(4.0) };
        assert_eq!(status(&results, "a", "naive"), waiting);
    }

    #[test]
    fn without_a_native_figure_there_is_none() {
        let default = configurations::named("default").unwrap();
        let mut results = results();
        record(&mut results, &job(Side::Native), &outcome(&[], Some("panic")), &[default]);
        let reason = |results: &Results| results.measurements[0].reason().unwrap().to_string();
        assert_eq!(reason(&results), "without Spica: panic");
        record(&mut results, &job(Side::Spica(default)), &outcome(&[("a", 8.0)], None), &[default]);
        assert_eq!(reason(&results), "without Spica: panic");
        assert_eq!(results.measurements[1].reason(), Some("the guest printed no figure"));
    }

    #[test]
    fn wrong_output_is_no_figure() {
        let default = configurations::named("default").unwrap();
        let mut results = results();
        let with = |a: &str, b: &str| Outcome {
            digests: [("a".to_string(), a.to_string()), ("b".to_string(), b.to_string())].into(),
            ..outcome(&[("a", 4.0), ("b", 5.0)], None)
        };
        record(&mut results, &job(Side::Native), &with("1", "2"), &[default]);
        record(&mut results, &job(Side::Spica(default)), &with("1", "3"), &[default]);
        assert!(results.measurements[0].figures().is_some());
        assert_eq!(results.measurements[1].reason(), Some("wrong output: not that of the run without Spica"));
    }

    #[test]
    fn a_word_that_spica_does_not_know_is_not_measured() {
        let naive = configurations::named("naive").unwrap();
        let mut results = results();
        record(&mut results, &job(Side::Native), &outcome(&[("a", 4.0), ("b", 5.0)], None), &[naive]);
        let said = format!("warning: {} on the command line means nothing to Spica", naive.words);
        let outcome = Outcome { spica: vec![said], ..outcome(&[("a", 8.0), ("b", 9.0)], None) };
        record(&mut results, &job(Side::Spica(naive)), &outcome, &[naive]);
        let reason = format!("this Spica does not know {}", naive.words);
        assert!(results.measurements.iter().all(|m| m.status == Status::NotImplemented { reason: reason.clone() }));
    }
}
