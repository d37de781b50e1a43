//! The machine-readable result file.
//!
//! One file per run of `spica bench`, in JSON, so that other programs can read it and `git diff` can show it. It says
//! what was measured ([`Measurement`]), with what ([`Run`]), and, just as plainly, what was not: a measurement that
//! failed stands in the file as [`Status::Missing`] with the reason, one that needs a part of Spica that does not
//! exist as [`Status::NotImplemented`]. Nothing is left out in silence and nothing is filled in.
//!
//! Ratios are not stored but derived, so that a file cannot contradict itself. A file is written anew after each
//! workload; an interrupted run is resumed by loading it, measuring what [`Results::is_settled`] does not report as
//! done, and [`Results::put`]ting the rest; two part runs of the same commit are joined by [`Results::merge`].
//!
//! Reading is strict. Unknown fields, duplicate measurements, figures that are not positive numbers and configurations
//! that the file does not declare are errors, which name the file and the field.

use std::collections::{BTreeMap, HashSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::events::{Event, Trap};

/// The version of the file's form that this code writes, and the only one that it reads.
pub const SCHEMA: u32 = 1;

/// A result file.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Results {
    /// [`SCHEMA`].
    pub schema: u32,
    /// What the figures were measured with.
    pub run: Run,
    /// The configurations that measurements name, and those that Spica cannot do, in the order in which tables and figures
    /// show them.
    pub configurations: Vec<Configuration>,
    /// The measurements, in the order in which they were made.
    pub measurements: Vec<Measurement>,
}

/// What a run was made with: all that must be equal for its figures to repeat exactly. The date alone is for people.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// Spica's git commit, in full.
    pub commit: String,
    /// Whether the work tree differed from that commit.
    pub dirty: bool,
    /// When the run was started, as `YYYY-MM-DD` or `YYYY-MM-DDTHH:MM:SSZ`.
    pub date: String,
    /// QEMU's version, as it states it.
    pub qemu: String,
    /// QEMU's `-icount shift=N`: one instruction takes 2^N nanoseconds of guest time.
    pub icount_shift: u8,
    /// The software that ran on each board.
    pub boards: BTreeMap<Board, Software>,
    /// Parameters of the workloads and whatever else fixes the figures, by name.
    pub parameters: BTreeMap<String, String>,
}

/// A board's software.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Software {
    /// The kernel's release and package version.
    pub kernel: String,
    /// Versions of the packages that workloads come from, by package name.
    pub packages: BTreeMap<String, String>,
}

/// An emulated board that figures are measured on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Board {
    /// QEMU's `cubieboard`: Allwinner A10, Cortex-A8.
    #[serde(rename = "cubieboard")]
    Cubieboard,
    /// QEMU's `vexpress-a9`: Versatile Express, Cortex-A9.
    #[serde(rename = "vexpress-a9")]
    VexpressA9,
}

impl Board {
    /// All boards.
    pub const ALL: [Board; 2] = [Board::Cubieboard, Board::VexpressA9];

    /// QEMU's name of it, which is also its name on the command line and in result files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Board::Cubieboard => "cubieboard",
            Board::VexpressA9 => "vexpress-a9",
        }
    }

    /// The board of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Board> {
        Board::ALL.into_iter().find(|b| b.name() == name)
    }
}

impl fmt::Display for Board {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A configuration of Spica: which optimisations, spilling technique and memory mode.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Configuration {
    /// Its name on the command line, such as `naive+link`.
    pub name: String,
    /// What it is, in a few words, for captions.
    pub description: String,
    /// The comparisons that it belongs to, each shown as a figure of its own.
    pub series: Vec<Series>,
    /// If Spica cannot do it: what is missing. Files name such configurations whether or not anybody asked for them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lacks: Option<String>,
}

/// A comparison between configurations. For the spilling techniques, the first configuration of a series is the one
/// that the others are compared with.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Series {
    /// Optimisations added one after the other (STAR's Figure 8).
    Optimisation,
    /// Ways to spill one register (STAR's Figure 6).
    SpillOne,
    /// Ways to spill two registers (STAR's Figure 7).
    SpillTwo,
    /// Ways to keep guest kernel and guest user apart in memory.
    Memory,
}

/// A group of workloads.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Group {
    /// Kernel operations, measured by lmbench in the guest's user space.
    Kernel,
    /// Machine operations one by one, measured by bare-metal guests.
    Machine,
    /// Application programs.
    Application,
    /// From reset to a point in the start of the system.
    Boot,
}

impl Group {
    /// All groups, in the order of the report.
    pub const ALL: [Group; 4] = [Group::Kernel, Group::Machine, Group::Application, Group::Boot];

    /// Its name in result files and on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Group::Kernel => "kernel",
            Group::Machine => "machine",
            Group::Application => "application",
            Group::Boot => "boot",
        }
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One workload on one board under one configuration.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measurement {
    /// The board.
    pub board: Board,
    /// The [`Configuration`]'s name.
    pub configuration: String,
    /// The workload's group.
    pub group: Group,
    /// The workload's name, unique within its group.
    pub workload: String,
    /// What one operation is: instructions are counted per this, such as `call`, `switch`, `run`.
    pub unit: String,
    /// What program made the figure, such as `lmbench 3.0-a9` or `own program: lmbench not available`.
    pub source: String,
    /// The figures, or why there are none.
    pub status: Status,
}

/// What became of a measurement.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Status {
    /// It was made.
    Measured(Figures),
    /// It should have been made and was not.
    Missing {
        /// Why, in a sentence for people.
        reason: String,
        /// The native figure, if that half was measured: it is the same for every configuration.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        native: Option<f64>,
    },
    /// It needs a part of Spica that does not exist yet.
    NotImplemented {
        /// Which part.
        reason: String,
    },
}

/// The figures of one measurement.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Figures {
    /// Instructions per operation on the bare board. Positive.
    pub native: f64,
    /// Instructions per operation as Spica's guest. Positive.
    pub virtualised: f64,
    /// What else was counted, if anything was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events: Option<Events>,
}

impl Figures {
    /// How many times more instructions it takes as a guest.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        self.virtualised / self.native
    }
}

/// Counts over a known number of operations. A name that is absent was not counted; one that is 0 did not happen.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Events {
    /// How many operations the counts below cover. At least 1.
    pub operations: u64,
    /// Traps by class: keys are those of [`Trap`].
    #[serde(default)]
    pub traps: BTreeMap<String, u64>,
    /// Architectural events on the bare board: keys are those of [`Event`].
    #[serde(default)]
    pub native: BTreeMap<String, u64>,
    /// Architectural events as a guest: keys are those of [`Event`].
    #[serde(default)]
    pub virtualised: BTreeMap<String, u64>,
}

impl Events {
    /// How often this trap was taken per operation, if it was counted.
    #[must_use]
    pub fn traps_per_operation(&self, trap: Trap) -> Option<f64> {
        self.traps.get(trap.key()).map(|&n| n as f64 / self.operations as f64)
    }

    /// Traps of all classes per operation; none if no class was counted.
    #[must_use]
    pub fn all_traps_per_operation(&self) -> Option<f64> {
        (!self.traps.is_empty()).then(|| self.traps.values().map(|&n| n as f64).sum::<f64>() / self.operations as f64)
    }
}

/// What tells one measurement from the others of a file.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Key {
    /// The board.
    pub board: Board,
    /// The configuration's name.
    pub configuration: String,
    /// The group.
    pub group: Group,
    /// The workload's name.
    pub workload: String,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}/{}", self.board, self.configuration, self.group, self.workload)
    }
}

impl Measurement {
    /// What tells it from the others.
    #[must_use]
    pub fn key(&self) -> Key {
        Key {
            board: self.board,
            configuration: self.configuration.clone(),
            group: self.group,
            workload: self.workload.clone(),
        }
    }

    /// The figures, if it was made.
    #[must_use]
    pub fn figures(&self) -> Option<&Figures> {
        match &self.status {
            Status::Measured(figures) => Some(figures),
            Status::Missing { .. } | Status::NotImplemented { .. } => None,
        }
    }

    /// [`Figures::ratio`], if it was made.
    #[must_use]
    pub fn ratio(&self) -> Option<f64> {
        self.figures().map(Figures::ratio)
    }

    /// The native figure, which may be known where the other half is missing.
    #[must_use]
    pub fn native(&self) -> Option<f64> {
        match &self.status {
            Status::Measured(figures) => Some(figures.native),
            Status::Missing { native, .. } => *native,
            Status::NotImplemented { .. } => None,
        }
    }

    /// Why there are no figures, if there are none.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        match &self.status {
            Status::Measured(_) => None,
            Status::Missing { reason, .. } | Status::NotImplemented { reason } => Some(reason),
        }
    }
}

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
    /// positive numbers, counts over no operations) are kept out of the file: the measurement is then missing, and
    /// says why.
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
            let keep = ours.is_some_and(|m| m.figures().is_some()) && measurement.figures().is_none();
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

    /// Checks what the types cannot. The error is a field and what is wrong with it.
    fn check(&self) -> Result<(), (String, String)> {
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
    fn check(&self) -> Result<(), (String, String)> {
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
                figures.events.as_ref().map_or(Ok(()), Events::check)
            }
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
fn parse<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, (String, String)> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let value = serde_path_to_error::deserialize(&mut deserializer).map_err(|e| {
        let path = e.path().to_string();
        (if path == "." { String::new() } else { path }, e.into_inner().to_string())
    })?;
    deserializer.end().map_err(|e| (String::new(), e.to_string()))?;
    Ok(value)
}
