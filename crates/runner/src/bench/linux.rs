//! The workloads that run in a Linux guest: one boot, one after the other.
//!
//! What they are, and how they are measured, is in [`workloads`]. Here they are started: the guest of `guests/debian`,
//! with the programs and the script laid over its initial RAM disk, as `spica run --exec` would do it, but with nothing
//! in it that differs from one run to the next.

use std::path::Path;

use spica_bench::results::Group;

use super::counts::{self, Stop};
use super::debugger::Debugger;
use super::marker;
use super::meter::Meter;
use super::plan::{Item, Job};
use super::watch::{Flow, watch};
use super::workloads::{self, Prepared, Reading};
use super::{Context, Said, instructions};
use crate::error::{Error, Result};
use crate::prepare::{self, Request};

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
    workloads::list().map(item).collect()
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
    let mut request = super::request(job.board, job.side, job.group);
    request.kernel.clone_from(&context.kernel);
    request.overlay = prepared.overlay.clone();
    // As `exec::Script`, whose token is another one in each run.
    request.overlay.file("spica/token", 0o600, b"bench");
    request.overlay.file("spica/command", 0o700, prepared.command.as_bytes());
    let log = context.log(job.board, job.side, job.group.name())?;
    if context.instrument.is_some() {
        return run_counting(context, job, request, &log, said);
    }
    let run = prepare::prepare(context.project, &request)?;
    let mut spica = Vec::new();
    let result =
        watch(&run, &log, context.stall(job.side), context.verbose, &mut spica, &mut |line| understand(line, said));
    said.spica.append(&mut spica);
    result
}

/// The same, with stops at the markers around workloads.
fn run_counting(context: &Context<'_>, job: &Job, mut request: Request, log: &Path, said: &mut Said<'_>) -> Result<()> {
    for (name, marker) in [
        ("next", marker::NEXT),
        ("before", marker::BEFORE),
        ("middle", marker::MIDDLE),
        ("behind", marker::BEHIND),
        ("end", marker::END),
    ] {
        // An application is done once.
        if name != "middle" || job.group.is_repeated() {
            request.overlay.file(&format!("spica/{name}"), 0o755, &marker.program(""));
        }
    }
    let run = prepare::prepare(context.project, &request)?;
    // What comes before the first workload is of no interest.
    let from = Some(marker::NEXT.address());
    let meter = Meter::new(context, &run, job.side, log, from)?.ok_or_else(|| Error::failed("nothing counts"))?;
    let mut debugger = Debugger::start(&run, Some(meter.plugin()), Some(log), context.verbose)?;
    counts::prepare(&mut debugger)?;
    let mut names = context.suites[&job.group].names.iter();
    let mut current = "";
    loop {
        let stopped = debugger.run(context.stall(job.side));
        said.spica.append(&mut debugger.spica);
        for line in debugger.guest.drain(..) {
            understand(&line, said);
        }
        let (address, executed) = stopped?;
        match marker::IN_WORKLOADS.into_iter().find(|m| m.address() == address) {
            Some(marker::END) => break,
            Some(marker::NEXT) => current = names.next().copied().unwrap_or_default(),
            Some(marker) => {
                let stop = Stop { marker, executed, counts: meter.read()? };
                said.stops.entry(current.to_string()).or_default().push(stop);
            }
            None => return Err(Error::failed(format!("the board stopped at {address:#010x}, where nothing is"))),
        }
    }
    // The last lines may still be on their way.
    let mut end = |line: &str| understand(line, said) == Flow::Last;
    debugger.run_to_line(context.stall(job.side), &mut end)
}

/// Takes what a line of the guest says.
fn understand(line: &str, said: &mut Said<'_>) -> Flow {
    let Said { found, digests, again, .. } = said;
    // What is no line of its own may stand before it.
    let reading = line.find("@bench ").and_then(|at| workloads::parse(&line[at..]));
    match reading {
        Some(Reading::Time { name, ns }) => found(&name, Ok(instructions(ns))),
        Some(Reading::Missing { name, reason }) => found(&name, Err(reason)),
        Some(Reading::Digest { name, sha256 }) => drop(digests.insert(name, sha256)),
        Some(Reading::Done) => return Flow::Last,
        Some(Reading::Again { name, ns }) => drop(again.insert(name, instructions(ns))),
        Some(Reading::Begin { .. }) | None => {}
    }
    Flow::Continue
}
