//! What is wrong with a result file, and whether two of them are of the same run.
//!
//! Types say what can be in a file; here is what they cannot say.

use std::collections::HashSet;
use std::fmt;

use serde::Deserialize;

use super::{Events, Results, Run, Status};
use crate::events::{Event, Trap};

/// What is wrong with a result file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Error {
    /// The file's name, as the caller gave it.
    pub file: String,
    /// The field, such as `measurements[3].status.measured.native`; empty if the whole file is meant.
    pub field: String,
    /// What is wrong with it, and what would be right.
    pub problem: String,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.file)?;
        if !self.field.is_empty() {
            write!(f, "{}: ", self.field)?;
        }
        f.write_str(&self.problem)
    }
}

impl std::error::Error for Error {}

/// Why two results cannot be merged: a field of [`Run`] in which they differ.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mismatch {
    /// The field.
    pub field: String,
    /// Its value in the results merged into.
    pub ours: String,
    /// Its value in the results that were to be added.
    pub theirs: String,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "results of different runs: {} is {} in one and {} in the other", self.field, self.ours, self.theirs)
    }
}

impl std::error::Error for Mismatch {}

impl Results {
    /// Checks what the types cannot. The error is a field and what is wrong with it.
    pub(super) fn check(&self) -> Result<(), (String, String)> {
        let mut names = HashSet::new();
        for (at, configuration) in self.configurations.iter().enumerate() {
            if !names.insert(configuration.name.as_str()) {
                let problem = format!("{} is declared twice", configuration.name);
                return Err((format!("configurations[{at}].name"), problem));
            }
        }
        let mut keys = HashSet::new();
        for (at, measurement) in self.measurements.iter().enumerate() {
            let fail = |field: &str, problem: String| Err((format!("measurements[{at}]{field}"), problem));
            let key = measurement.key();
            if !names.contains(measurement.configuration.as_str()) {
                return fail(".configuration", format!("{:?} is not among `configurations`", key.configuration));
            }
            if let Err((field, problem)) = measurement.status.check() {
                return fail(&format!(".status.{field}"), problem);
            }
            let text = key.to_string();
            if !keys.insert(key) {
                return fail("", format!("{text} is there twice"));
            }
        }
        Ok(())
    }
}

impl Run {
    /// Whether two runs were made with the same things, the date aside. Boards and parameters that only one of them has
    /// do not matter.
    ///
    /// # Errors
    /// The first field in which they differ.
    pub fn same_conditions(&self, other: &Run) -> Result<(), Mismatch> {
        let same = |field: String, ours: String, theirs: String| {
            if ours == theirs { Ok(()) } else { Err(Mismatch { field, ours, theirs }) }
        };
        same("commit".into(), self.commit.clone(), other.commit.clone())?;
        same("dirty".into(), self.dirty.to_string(), other.dirty.to_string())?;
        same("qemu".into(), self.qemu.clone(), other.qemu.clone())?;
        same("icount_shift".into(), self.icount_shift.to_string(), other.icount_shift.to_string())?;
        for (board, ours) in &self.boards {
            let Some(theirs) = other.boards.get(board) else { continue };
            same(format!("boards.{board}.kernel"), ours.kernel.clone(), theirs.kernel.clone())?;
            for (name, version) in &ours.packages {
                let Some(their_version) = theirs.packages.get(name) else { continue };
                same(format!("boards.{board}.packages.{name}"), version.clone(), their_version.clone())?;
            }
        }
        for (name, ours) in &self.parameters {
            let Some(theirs) = other.parameters.get(name) else { continue };
            same(format!("parameters.{name}"), ours.clone(), theirs.clone())?;
        }
        Ok(())
    }
}

impl Status {
    pub(super) fn check(&self) -> Result<(), (String, String)> {
        let positive = |field: &str, value: f64| {
            if value.is_finite() && value > 0.0 {
                Ok(())
            } else {
                Err((field.to_string(), format!("{value} is not a positive number of instructions")))
            }
        };
        match self {
            Status::Measured(figures) => {
                positive("measured.native", figures.native)?;
                positive("measured.virtualised", figures.virtualised)?;
                figures.events.as_ref().map_or(Ok(()), Events::check)?;
                let Some(timing) = &figures.timing else { return Ok(()) };
                timing.native.check("native")?;
                timing.virtualised.check("virtualised")
            }
            Status::Found(finding) => finding.check(),
            Status::Missing { native: Some(native), .. } => positive("missing.native", *native),
            Status::Missing { .. } | Status::NotImplemented { .. } => Ok(()),
        }
    }
}

impl Events {
    fn check(&self) -> Result<(), (String, String)> {
        let field = |name: &str| format!("measured.events.{name}");
        if self.operations == 0 {
            return Err((field("operations"), "0 operations cannot have counts".into()));
        }
        if let Some(name) = self.traps.keys().find(|name| Trap::from_key(name).is_none()) {
            return Err((field(&format!("traps.{name}")), "no trap class has this name".into()));
        }
        for (side, counts) in [("native", &self.native), ("virtualised", &self.virtualised)] {
            if let Some(name) = counts.keys().find(|name| Event::from_key(name).is_none()) {
                return Err((field(&format!("{side}.{name}")), "no event has this name".into()));
            }
        }
        Ok(())
    }
}

/// Parses JSON. The error is the field, as a path from the root, and what is wrong with it.
pub(super) fn parse<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, (String, String)> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let value = serde_path_to_error::deserialize(&mut deserializer).map_err(|e| {
        let path = e.path().to_string();
        (if path == "." { String::new() } else { path }, e.into_inner().to_string())
    })?;
    deserializer.end().map_err(|e| (String::new(), e.to_string()))?;
    Ok(value)
}
