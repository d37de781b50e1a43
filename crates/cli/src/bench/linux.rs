//! The workloads that run in a Linux guest: one boot, one after the other.
//!
//! What they are, and how they are measured, is in [`workloads`]. Here they are started: the guest of `guests/debian`, with
//! the programs and the script laid over its initial RAM disk, as `spica run --exec` would do it, but with nothing in it
//! that differs from one run to the next.

use spica_bench::results::Group;

use super::plan::{Item, Job};
use super::watch::{Flow, watch};
use super::workloads::{self, Prepared, Reading};
use super::{Context, Said, instructions};
use crate::error::{Error, Result};
use crate::prepare;

/// The workloads.
#[must_use]
pub fn items() -> Vec<Item> {
    let item = |w: &workloads::Workload| Item {
        group: w.group,
        name: w.name.into(),
        unit: w.unit.into(),
        source: w.description.into(),
        quick: w.quick,
    };
    workloads::list().iter().map(item).collect()
}

/// Makes the workloads of a group ready that are among `items`.
///
/// # Errors
/// As [`workloads::prepare`].
pub(super) fn prepare(project: &crate::project::Project, group: Group, items: &[Item]) -> Result<Prepared> {
    let names: Vec<_> = items.iter().filter(|i| i.group == group).map(|i| i.name.as_str()).collect();
    workloads::prepare(project, &names)
}

/// Runs the workloads of a job. What they say goes to `said`.
///
/// # Errors
/// If the guest does not get to the end.
pub(super) fn run(context: &Context<'_>, job: &Job, said: &mut Said<'_>) -> Result<()> {
    let prepared = context.suites.get(&job.group);
    let prepared = prepared.ok_or_else(|| Error::failed(format!("no workloads of group {} are ready", job.group)))?;
    let mut request = super::request(job.board, job.side);
    request.overlay = prepared.overlay.clone();
    // As `exec::Script`, whose token is another one in each run.
    request.overlay.file("spica/token", 0o600, b"bench");
    request.overlay.file("spica/command", 0o700, prepared.command.as_bytes());
    let run = prepare::prepare(context.project, &request)?;
    let log = context.log(job.board, job.side, job.group.name())?;
    let mut each = |line: &str| {
        // What is no line of its own may stand before it.
        let reading = line.find("@bench ").and_then(|at| workloads::parse(&line[at..]));
        match reading {
            Some(Reading::Time { name, ns }) => (said.found)(&name, Ok(instructions(ns))),
            Some(Reading::Missing { name, reason }) => (said.found)(&name, Err(reason)),
            Some(Reading::Digest { name, sha256 }) => drop(said.digests.insert(name, sha256)),
            Some(Reading::Done) => return Flow::Last,
            Some(Reading::Begin { .. }) | None => {}
        }
        Flow::Continue
    };
    watch(&run, &log, context.stall, context.verbose, said.spica, &mut each)
}
