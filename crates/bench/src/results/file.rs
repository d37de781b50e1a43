//! A result file: read, written, asked, added to.

use std::collections::HashSet;

use serde::Deserialize;

use super::check::parse;
use super::{Board, Configuration, Error, Group, Key, Measurement, Mismatch, Results, Run, SCHEMA, Series, Status};

impl Results {
    /// Results without measurements.
    #[must_use]
    pub fn new(run: Run, configurations: Vec<Configuration>) -> Results {
        Results { schema: SCHEMA, run, configurations, measurements: Vec::new() }
    }

    /// Reads the text of the file called `file`.
    ///
    /// # Errors
    /// If it is not a result file of this version, or contradicts itself.
    pub fn from_json(file: &str, text: &str) -> Result<Results, Error> {
        #[derive(Deserialize)]
        struct Version {
            schema: u32,
        }
        let error = |field: String, problem: String| Error { file: file.to_string(), field, problem };
        let version: Version = parse(text).map_err(|(field, problem)| error(field, problem))?;
        if version.schema != SCHEMA {
            return Err(error(
                "schema".into(),
                format!("the file has version {}; this spica reads version {SCHEMA}", version.schema),
            ));
        }
        let results: Results = parse(text).map_err(|(field, problem)| error(field, problem))?;
        results.check().map_err(|(field, problem)| error(field, problem))?;
        Ok(results)
    }

    /// The file's text. The same results always give the same text.
    ///
    /// # Panics
    /// Never: every field can be written as JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("results hold only what JSON can hold");
        text.push('\n');
        text
    }

    /// The measurement of that key.
    #[must_use]
    pub fn get(&self, key: &Key) -> Option<&Measurement> {
        self.find(key.board, &key.configuration, key.group, &key.workload)
    }

    /// The measurement of that key, in parts.
    #[must_use]
    pub fn find(&self, board: Board, configuration: &str, group: Group, workload: &str) -> Option<&Measurement> {
        self.measurements.iter().find(|m| {
            m.board == board && m.group == group && m.workload == workload && m.configuration == configuration
        })
    }

    /// The native figure of a workload, from whichever configuration has it: it does not depend on the configuration.
    #[must_use]
    pub fn native(&self, board: Board, group: Group, workload: &str) -> Option<f64> {
        self.measurements
            .iter()
            .filter(|m| m.board == board && m.group == group && m.workload == workload)
            .find_map(Measurement::native)
    }

    /// Whether nothing is left to measure there: it was measured, or needs a part that does not exist.
    #[must_use]
    pub fn is_settled(&self, key: &Key) -> bool {
        self.get(key).is_some_and(|m| !matches!(m.status, Status::Missing { .. }))
    }

    /// Adds a measurement; it takes the place of an older one of the same key. Figures that cannot be right (no
    /// positive numbers, counts over no operations, infinite findings) are kept out of the file: the measurement is
    /// then missing, and says why.
    pub fn put(&mut self, mut measurement: Measurement) {
        if let Err((field, problem)) = measurement.status.check() {
            measurement.status = Status::Missing { reason: format!("{field}: {problem}"), native: None };
        }
        let key = measurement.key();
        match self.measurements.iter_mut().find(|m| m.key() == key) {
            Some(old) => *old = measurement,
            None => self.measurements.push(measurement),
        }
    }

    /// Adds what another part of the same run measured. Its figures take the place of ours, but a figure never gives
    /// way to a missing one. The date stays ours.
    ///
    /// # Errors
    /// If the two were not made with the same commit, QEMU, software or parameters; nothing is changed then.
    pub fn merge(&mut self, other: Results) -> Result<(), Mismatch> {
        self.run.same_conditions(&other.run)?;
        for (board, software) in other.run.boards {
            self.run.boards.entry(board).or_insert(software);
        }
        for (name, value) in other.run.parameters {
            self.run.parameters.entry(name).or_insert(value);
        }
        for configuration in other.configurations {
            if self.configuration(&configuration.name).is_none() {
                self.configurations.push(configuration);
            }
        }
        for measurement in other.measurements {
            let ours = self.get(&measurement.key());
            let keep = ours.is_some_and(Measurement::is_made) && !measurement.is_made();
            if !keep {
                self.put(measurement);
            }
        }
        Ok(())
    }

    /// The configuration of that name.
    #[must_use]
    pub fn configuration(&self, name: &str) -> Option<&Configuration> {
        self.configurations.iter().find(|c| c.name == name)
    }

    /// The configurations of a comparison, in order.
    pub fn series(&self, series: Series) -> impl Iterator<Item = &Configuration> {
        self.configurations.iter().filter(move |c| c.series.contains(&series))
    }

    /// The boards that have measurements, in order.
    #[must_use]
    pub fn boards(&self) -> Vec<Board> {
        Board::ALL.into_iter().filter(|&b| self.measurements.iter().any(|m| m.board == b)).collect()
    }

    /// The workloads of a group on a board, in the order in which they were first measured.
    #[must_use]
    pub fn workloads(&self, board: Board, group: Group) -> Vec<&str> {
        let mut seen = HashSet::new();
        let here = self.measurements.iter().filter(|m| m.board == board && m.group == group);
        here.map(|m| m.workload.as_str()).filter(|w| seen.insert(*w)).collect()
    }
}
