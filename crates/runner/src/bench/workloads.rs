//! The workloads that run in a Linux guest: kernel operations and applications.
//!
//! All programs are Debian's, unpacked from packages for `armhf` that are fetched at run time ([`packages`]); nothing
//! of them is in this repository, and nothing is installed. [`pack`] takes the few files that a selection of workloads
//! needs, with the shared libraries behind them, and lays them over the guest's initial RAM disk, with inputs that are
//! made here ([`inputs`]) and a script (`bench/linux/run.sh`). The script runs one workload after the other, and prints
//! a line for each, which [`parse`] understands. What is the same natively and under Spica: every byte of this.
//!
//! A figure counts only if the work was done right. Outputs whose contents are known beforehand are compared with that
//! in the guest (a decompressed file, a query's result, the words that a spelling checker should find); of all others
//! the script prints the SHA-256, and `record` refuses the figure under Spica where it is not that of the native run.
//!
//! A package that cannot be had costs only its workloads: they are missing, with the reason. For kernel operations, a
//! program of our own with lmbench's definitions steps in, and is labelled as such.

pub mod inputs;
pub mod pack;
pub mod packages;
pub mod reading;
pub mod table;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;

use crate::apt::ARMHF;
use crate::error::{Error, Result};
use crate::guest::Package;
use crate::initramfs::Overlay;
use crate::process;
use crate::progress::Step;
use crate::project::{Project, read};

pub use reading::{Reading, parse};
pub use table::{PROBES, Program, WORKLOADS, Workload};

/// What lmbench is told in its environment, and other fixed parameters: names and values, as the script sees them.
///
/// `ENOUGH` is how many microseconds lmbench repeats an operation for; `LOOP_O` and `TIMING_O` are what it takes off
/// for its own loop (two instructions of 2 ns) and for reading the clock (nothing, beside 50 ms). It would measure the
/// latter two by itself, with noise, and would then take off something else under Spica than natively.
///
/// `CLIFF_ENOUGH` is the same for the cliffs, unless something is counted. In 50 ms, what Spica does once in a while (a
/// preemptive flush, half a million instructions) was 2 % of an operation, and a fifth of one that mostly sleeps, or
/// nothing.
pub const PARAMETERS: &[(&str, &str)] = &[
    ("ENOUGH", "50000"),
    ("CLIFF_ENOUGH", "400000"),
    ("LOOP_O", "0.004"),
    ("TIMING_O", "0"),
    ("LMBENCH_OPTIONS", "-P 1 -W 0 -N 1"),
    ("REDIS_REQUESTS", inputs::REDIS_REQUESTS),
];

/// All workloads for Linux guests, in the order in which they are best run.
pub fn list() -> impl Iterator<Item = &'static Workload> {
    WORKLOADS.iter().chain(&PROBES)
}

/// The workload of this name.
///
/// # Errors
/// If there is none; the error lists those that there are.
pub fn find(name: &str) -> Result<&'static Workload> {
    list().find(|w| w.name == name).ok_or_else(|| {
        let known: Vec<_> = list().map(|w| w.name).collect();
        Error::usage(format!("unknown workload {name:?}; those of Linux guests are {}", known.join(", ")))
    })
}

/// Workloads that are ready to be run in one boot.
#[derive(Clone, Debug, Default)]
pub struct Prepared {
    /// What is laid over the guest's initial RAM disk.
    pub overlay: Overlay,
    /// The command for the guest's shell, to be given to [`crate::exec::Script`].
    pub command: String,
    /// The workloads that it runs, in this order.
    pub names: Vec<&'static str>,
    /// The packages that their files came from.
    pub packages: Vec<Package>,
    /// Where each workload's program comes from: `lmbench 3.0-a9+debian.1-6 (Debian)`.
    pub sources: BTreeMap<&'static str, String>,
    /// The workloads that cannot be run, each with the reason.
    pub missing: Vec<(&'static str, String)>,
    /// What a person should know: what could not be had, and what helps.
    pub warnings: Vec<String>,
}

/// Makes workloads ready to be run in the order of `names`: fetches the packages that are not here yet, builds the
/// stopwatch, makes the inputs, and packs it all. Nothing is fetched if all is here.
///
/// Workloads whose packages cannot be had are in [`Prepared::missing`]; that is no error.
///
/// # Errors
/// If there is no such workload, if the stopwatch cannot be built, or if files under `build/` cannot be read or
/// written.
pub fn prepare(project: &Project, names: &[&str]) -> Result<Prepared> {
    let workloads = names.iter().map(|n| find(n)).collect::<Result<Vec<_>>>()?;
    let wanted = workloads.iter().flat_map(|w| w.packages).map(ToString::to_string);
    let tree = packages::fetch(project, wanted.collect())?;
    let stopwatch = read(&stopwatch(project)?)?;
    let script = read(&project.source("bench/linux/run.sh"))?;
    let mut prepared = assemble(&tree, &workloads, &script, &stopwatch)?;
    prepared.warnings.extend(tree.trouble.iter().cloned());
    Ok(prepared)
}

/// Packs what [`prepare`] has brought together.
fn assemble(
    tree: &packages::Tree,
    workloads: &[&'static Workload],
    script: &[u8],
    stopwatch: &[u8],
) -> Result<Prepared> {
    let mut prepared = Prepared { command: "exec sh /bench/run.sh\n".into(), ..Prepared::default() };
    let mut files = pack::Files::new(&tree.root);
    let mut expected = String::new();
    let mut used = Vec::new();
    for workload in workloads {
        let absent: Vec<_> = workload.packages.iter().copied().filter(|p| tree.version(p).is_none()).collect();
        if absent.is_empty() && !workload.packages.is_empty() {
            let have = |p: &&str| Some(format!("{p} {}", tree.version(p)?));
            let versions: Vec<_> = workload.packages.iter().filter_map(have).collect();
            prepared.sources.insert(workload.name, format!("Debian's {}", versions.join(", ")));
            workload.programs.iter().try_for_each(|p| files.add(p))?;
            used.extend(workload.packages);
        } else if workload.own {
            let source = if workload.packages.is_empty() { "" } else { ", with lmbench's definitions" };
            prepared.sources.insert(workload.name, format!("a program of Spica's own{source}"));
        } else if workload.packages.is_empty() {
            prepared.sources.insert(workload.name, "the guest's busybox".into());
        } else {
            let reason = format!("the Debian package {} cannot be had", absent.join(", "));
            prepared.missing.push((workload.name, reason));
            continue;
        }
        prepared.names.push(workload.name);
        for (path, make) in workload.inputs {
            files.make(path, *make);
        }
        if let Some(known) = workload.expected {
            let _ = writeln!(expected, "{} {}", workload.name, known());
        }
    }
    prepared.warnings = advice(workloads, tree);
    prepared.packages = tree.packages_of(&used);

    let order: String = prepared.names.iter().map(|n| format!("{n}\n")).collect();
    let parameters: String = PARAMETERS.iter().map(|(name, value)| format!("{name}='{value}'\n")).collect();
    files.put("bench/run.sh", 0o755, script.to_vec());
    files.put("bench/bin/stopwatch", 0o755, stopwatch.to_vec());
    files.put("bench/order", 0o644, order.into_bytes());
    files.put("bench/parameters", 0o644, parameters.into_bytes());
    files.put("bench/expected", 0o644, expected.into_bytes());
    // Without it, there is no localhost.
    files.put("etc/hosts", 0o644, b"127.0.0.1 localhost\n".to_vec());
    for (path, permissions, data) in files.finish() {
        prepared.overlay.file(&path, permissions, &data);
    }
    Ok(prepared)
}

/// Says once for each package that cannot be had what follows, and what helps.
fn advice(workloads: &[&'static Workload], tree: &packages::Tree) -> Vec<String> {
    let mut absent: BTreeMap<&str, Vec<&'static Workload>> = BTreeMap::new();
    for workload in workloads {
        for package in workload.packages.iter().filter(|p| tree.version(p).is_none()) {
            absent.entry(package).or_default().push(workload);
        }
    }
    let say = |(package, workloads): (&str, Vec<&Workload>)| {
        let names = |own: bool| {
            let names: Vec<_> = workloads.iter().filter(|w| w.own == own).map(|w| w.name).collect();
            Some(names.join(", ")).filter(|n| !n.is_empty())
        };
        let own = names(true).map(|names| format!("a program of Spica's own measures {names}"));
        let without = names(false).map(|names| format!("there will be no figures of {names}"));
        let follows: Vec<_> = own.into_iter().chain(without).collect();
        let component = if packages::NON_FREE.contains(&package) { "non-free" } else { "main" };
        format!(
            "the package {package} for {ARMHF} cannot be had: {0}; it is in Debian's {component}, which the archives in \
             /etc/apt must offer for {ARMHF}, and they must be within reach",
            follows.join(", "),
        )
    };
    absent.into_iter().map(say).collect()
}

/// Builds the program that times others in the guest.
///
/// # Errors
/// If that does not work.
pub fn stopwatch(project: &Project) -> Result<PathBuf> {
    let _step = Step::begin("building the guest's stopwatch");
    let target = project.build("bench/stopwatch");
    let mut cargo = Command::new("cargo");
    cargo.current_dir(project.source("bench/linux/program"));
    // Only the distribution's toolchain needs this; a nightly one does not mind.
    cargo.env("RUSTC_BOOTSTRAP", "1").env_remove("CARGO_TARGET_DIR");
    cargo.args(["build", "--release", "--locked", "--quiet", "--target-dir"]).arg(&target);
    process::output(&mut cargo, "cannot build the guest's stopwatch")?;
    Ok(target.join("armv7a-none-eabi/release/stopwatch"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinct_and_fit_a_line() {
        let mut names: Vec<_> = list().map(|w| w.name).collect();
        let fits = |n: &str| n.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
        assert!(names.iter().all(|n| fits(n)), "{names:?}");
        names.sort_unstable();
        let all = names.len();
        names.dedup();
        assert_eq!(names.len(), all);
    }

    #[test]
    fn the_script_knows_every_workload() {
        let script = include_str!("../../../../bench/linux/run.sh");
        for workload in WORKLOADS {
            let label = format!("\n    {})", workload.name);
            assert_eq!(script.matches(&label).count(), 1, "{}", workload.name);
        }
        assert!(PROBES.iter().all(|w| w.name.starts_with("probe-")) && script.contains("\n    probe-*)"));
        for (name, _) in PARAMETERS {
            assert!(script.contains(name), "{name} is not used");
        }
    }

    #[test]
    fn own_operations_are_in_the_stopwatch() {
        let source = include_str!("../../../../bench/linux/program/src/operations.rs");
        for workload in WORKLOADS.iter().filter(|w| w.own) {
            assert!(source.contains(&format!("(\"{}\", ", workload.name)), "{}", workload.name);
        }
        assert!(list().all(|w| !w.own || w.group.is_repeated()));
    }

    #[test]
    fn what_was_measured_on_boards_is_measured_here() {
        let names: Vec<_> =
            spica_bench::boards::MEASURED.iter().flat_map(|m| m.cycles).map(|(name, _)| *name).collect();
        assert!(!names.is_empty() && names.iter().all(|name| find(name).is_ok()), "{names:?}");
    }

    #[test]
    fn an_unknown_name_is_said() {
        let error = find("nul").unwrap_err();
        assert_eq!(error.status, crate::error::USAGE);
        assert!(error.message.contains("\"nul\"") && error.message.contains("null"));
    }

    #[test]
    fn without_packages_only_own_operations_are_left() {
        let tree = packages::Tree::default();
        let workloads: Vec<_> = list().collect();
        let prepared = assemble(&tree, &workloads, b"script", b"stopwatch").unwrap();
        assert!(prepared.names.contains(&"null") && !prepared.names.contains(&"context-2"));
        assert!(prepared.sources["null"].contains("own"));
        assert_eq!(prepared.names.len() + prepared.missing.len(), workloads.len());
        let reason = &prepared.missing.iter().find(|(n, _)| *n == "gzip").unwrap().1;
        assert!(reason.contains("package gzip"), "{reason}");
        let lmbench = prepared.warnings.iter().find(|w| w.contains("lmbench")).unwrap();
        assert!(lmbench.contains("non-free") && lmbench.contains("context-2"), "{lmbench}");
    }
}
