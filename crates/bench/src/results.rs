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

mod board;
mod check;
mod file;
mod finding;
mod timing;

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::events::Trap;

pub use board::Board;
pub use check::{Error, Mismatch};
pub use finding::{Class, Finding};
pub use timing::{Counted, Timing};

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
    /// The configurations that measurements name, and those that Spica cannot do, in the order in which tables and
    /// figures show them.
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
    /// Ways to spill two registers (STAR's Figure 7). Only in old files: no configuration spills two any more.
    SpillTwo,
    /// Ways of indirect branches and returns.
    Indirect,
    /// Ways to keep guest kernel and guest user apart in memory.
    Memory,
    /// Everything but one optimisation, for each of them.
    Without,
}

/// A group of workloads.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Group {
    /// Kernel operations, measured by lmbench in the guest's user space.
    Kernel,
    /// Machine operations one by one, measured by bare-metal guests.
    Machine,
    /// What ordinary programs do that is many times slower under a hypervisor than natively, unless it sees to that.
    Cliff,
    /// What a core does, one by one, by programs of the guest that probe it: the same under Spica as without. Only
    /// where somebody asks for it.
    Probes,
    /// Application programs.
    Application,
    /// From reset to a point in the start of the system.
    Boot,
    /// What several guests on one board cost each other: nothing that a bare board could be compared with.
    Several,
    /// How late a guest is woken beside one that attacks; not compared with a bare board, either.
    Latency,
}

impl Group {
    /// All groups, in the order of the report.
    pub const ALL: [Group; 8] = [
        Group::Kernel,
        Group::Machine,
        Group::Cliff,
        Group::Probes,
        Group::Application,
        Group::Boot,
        Group::Several,
        Group::Latency,
    ];

    /// Its name in result files and on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Group::Kernel => "kernel",
            Group::Machine => "machine",
            Group::Cliff => "cliff",
            Group::Probes => "probes",
            Group::Application => "application",
            Group::Boot => "boot",
            Group::Several => "several",
            Group::Latency => "latency",
        }
    }

    /// Whether its workloads are operations that a guest repeats for as long as it takes to time them.
    #[must_use]
    pub const fn is_repeated(self) -> bool {
        matches!(self, Group::Kernel | Group::Cliff | Group::Probes)
    }

    /// Whether its workloads run on the bare board, too.
    #[must_use]
    pub const fn has_native(self) -> bool {
        !matches!(self, Group::Several | Group::Latency)
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
    /// It was made, and there is no counterpart on the bare board.
    Found(Finding),
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
    /// What a model of the core counted, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timing: Option<Timing>,
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
    /// Architectural events on the bare board: keys are those of [`crate::events::Event`].
    #[serde(default)]
    pub native: BTreeMap<String, u64>,
    /// Architectural events as a guest: keys are those of [`crate::events::Event`].
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
            Status::Found(_) | Status::Missing { .. } | Status::NotImplemented { .. } => None,
        }
    }

    /// The figure without a native counterpart, if it was made.
    #[must_use]
    pub fn finding(&self) -> Option<&Finding> {
        match &self.status {
            Status::Found(finding) => Some(finding),
            Status::Measured(_) | Status::Missing { .. } | Status::NotImplemented { .. } => None,
        }
    }

    /// Whether it was made.
    #[must_use]
    pub fn is_made(&self) -> bool {
        matches!(self.status, Status::Measured(_) | Status::Found(_))
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
            Status::Found(_) | Status::NotImplemented { .. } => None,
        }
    }

    /// Why there are no figures, if there are none.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        match &self.status {
            Status::Measured(_) | Status::Found(_) => None,
            Status::Missing { reason, .. } | Status::NotImplemented { reason } => Some(reason),
        }
    }
}
