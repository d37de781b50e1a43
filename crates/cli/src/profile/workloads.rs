//! What can be profiled: a boot, and the operations of the program that the benchmarks have.

use std::process::Command;

use crate::bench::workloads::WORKLOADS;
use crate::error::{Error, Result};
use crate::process;
use crate::project::Project;

/// From reset to the first program that a shell starts.
pub const BOOT: &str = "boot";

/// Those of docs/profile.md.
const USUAL: [&str; 4] = ["null", "fork-exit", "fork-exec", BOOT];

/// How many operations are counted, by the beginning of a name: enough for ticks of the kernel's timer to have their share, and not
/// more, because five times as many are done.
const COUNTS: [(&str, u64); 6] =
    [("null", 40_000), ("fork-exit", 400), ("fork-exec", 200), ("fork-shell", 50), ("mmap", 100), ("", 10_000)];

/// Operations whose figure is what is left when something else is taken off, which is executed all the same.
const LESS_ANOTHER: [&str; 3] = ["signal-catch", "protection-fault", "page-fault"];

/// A workload to be profiled.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Chosen {
    /// Its name.
    pub name: String,
    /// What one operation is.
    pub operation: &'static str,
    /// How many are counted.
    pub operations: u64,
}

/// Names and operations of all of them.
pub fn list() -> impl Iterator<Item = (&'static str, &'static str)> {
    let operations = WORKLOADS.iter().filter(|w| w.own && !LESS_ANOTHER.contains(&w.name)).map(|w| (w.name, w.unit));
    operations.chain([(BOOT, "a boot, from reset to the first program of a shell")])
}

/// The workloads of these names.
///
/// # Errors
/// If there is no such workload.
pub fn choose(names: &[String]) -> Result<Vec<Chosen>> {
    let usual: Vec<_> = USUAL.iter().map(ToString::to_string).collect();
    let names = if names.is_empty() { &usual } else { names };
    let one = |name: &String| {
        let (_, operation) = list().find(|(known, _)| known == name).ok_or_else(|| {
            let known: Vec<_> = list().map(|(known, _)| known).collect();
            Error::usage(format!("{name:?} cannot be profiled; what can be is {}", known.join(", ")))
        })?;
        let count = COUNTS.iter().find(|(start, _)| name.starts_with(start)).map_or(1, |(_, count)| *count);
        Ok(Chosen { name: name.clone(), operation, operations: if name == BOOT { 1 } else { count } })
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
        assert!(error.message.contains("\"nul\"") && error.message.contains("fork-exit"), "{error}");
    }
}
