//! What can be profiled: a boot, the operations of the program that the benchmarks have, and the benchmarks'
//! applications.

use std::process::Command;

use spica_bench::results::Group;

use crate::bench::workloads::WORKLOADS;
use crate::error::{Error, Result};
use crate::process;
use crate::project::Project;

/// From reset to the first program that a shell starts.
pub const BOOT: &str = "boot";

/// Those of docs/profile.md.
const USUAL: [&str; 4] = ["null", "fork-exit", "fork-exec", BOOT];

/// How many operations are counted, by the beginning of a name: enough for ticks of the kernel's timer to have their
/// share, and not more, because five times as many are done. Fresh pages come by whole mappings of 256.
const COUNTS: [(&str, u64); 10] = [
    ("null", 40_000),
    ("fork-exit", 400),
    ("fork-exec", 200),
    ("fork-shell", 50),
    ("mmap", 100),
    ("ftrace", 1),
    ("interval-timer", 2_000),
    ("compute", 50),
    ("fresh-page", 40 * 256),
    ("", 10_000),
];

/// Operations of the stopwatch that are no workloads of the benchmarks: what a program that computes asks of a kernel,
/// one by one.
const PROFILED_ALONE: [(&str, &str); 2] = [
    ("compute", "two million instructions of user code, and the tick in between"),
    ("fresh-page", "a store to a page that the kernel has to clear first"),
];

/// Operations whose figure is what is left when something else is taken off, which is executed beside them, or waited
/// for.
const LESS_ANOTHER: [&str; 4] = ["signal-catch", "protection-fault", "page-fault", "sleep"];

/// A workload to be profiled.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Chosen {
    /// Its name.
    pub name: String,
    /// What one operation is.
    pub operation: &'static str,
    /// How many are counted.
    pub operations: u64,
    /// How it is run.
    pub kind: Kind,
}

/// How a workload is run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// The board does it when it is turned on.
    Boot,
    /// Many times, by the stopwatch.
    Operation,
    /// Once, by the benchmarks' script: the window is what that times, and the start of the program that times it.
    Application,
}

/// Names and operations of all of them.
pub fn list() -> impl Iterator<Item = (&'static str, &'static str)> {
    all().map(|(name, operation, _)| (name, operation))
}

fn all() -> impl Iterator<Item = (&'static str, &'static str, Kind)> {
    let own = WORKLOADS.iter().filter(|w| w.own && !LESS_ANOTHER.contains(&w.name));
    let applications = WORKLOADS.iter().filter(|w| w.group == Group::Application);
    own.map(|w| (w.name, w.unit, Kind::Operation))
        .chain(PROFILED_ALONE.map(|(name, operation)| (name, operation, Kind::Operation)))
        .chain([(BOOT, "a boot, from reset to the first program of a shell", Kind::Boot)])
        .chain(applications.map(|w| (w.name, w.description, Kind::Application)))
}

/// The workloads of these names.
///
/// # Errors
/// If there is no such workload.
pub fn choose(names: &[String]) -> Result<Vec<Chosen>> {
    let usual: Vec<_> = USUAL.iter().map(ToString::to_string).collect();
    let names = if names.is_empty() { &usual } else { names };
    let one = |name: &String| {
        let (_, operation, kind) = all().find(|(known, ..)| known == name).ok_or_else(|| {
            let known: Vec<_> = list().map(|(known, _)| known).collect();
            Error::usage(format!("{name:?} cannot be profiled; what can be is {}", known.join(", ")))
        })?;
        let count = COUNTS.iter().find(|(start, _)| name.starts_with(start)).map_or(1, |(_, count)| *count);
        let operations = if kind == Kind::Operation { count } else { 1 };
        Ok(Chosen { name: name.clone(), operation, operations, kind })
    };
    names.iter().map(one).collect()
}

/// What is profiled, for the reader of a file: the commit, with a plus if something was changed since.
///
/// # Errors
/// If git cannot be asked.
pub fn commit(project: &Project) -> Result<String> {
    let mut git = Command::new("git");
    git.current_dir(project.root()).args(["describe", "--always", "--dirty=+", "--abbrev=12", "--exclude=*"]);
    Ok(process::output(&mut git, "cannot ask git for the commit")?.trim().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workloads_are_chosen_by_name() {
        let chosen = choose(&[]).unwrap();
        let names: Vec<_> = chosen.iter().map(|c| (c.name.as_str(), c.operations)).collect();
        assert_eq!(names, [("null", 40_000), ("fork-exit", 400), ("fork-exec", 200), (BOOT, 1)]);
        let error = choose(&["nul".into()]).unwrap_err();
        assert_eq!(error.status, crate::error::USAGE);
        assert!(choose(&["page-fault".into()]).is_err());
        let kinds: Vec<_> = choose(&["mmap".into(), "compute".into(), "gzip".into(), BOOT.into()])
            .unwrap()
            .iter()
            .map(|c| c.kind)
            .collect();
        assert_eq!(kinds, [Kind::Operation, Kind::Operation, Kind::Application, Kind::Boot]);
        assert!(error.message.contains("\"nul\"") && error.message.contains("fork-exit"), "{error}");
    }
}
