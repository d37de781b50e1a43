//! The boots of a run, some at the same time.
//!
//! Threads take jobs from a list; one thread, the caller's, hears what they come to, says it, and records it. A boot
//! under Spica waits until the native boot that is its other half has ended: if that one failed, no figure can come of
//! it, and it is not run.

use std::collections::{BTreeMap, HashSet};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use spica_bench::format;
use spica_bench::results::{Finding, Group, Results};

use super::plan::{Item, Job};
use super::record::Outcome;
use super::say::{figure, first_line};
use super::{Context, Options, Said, Side, boot, configurations, counts, linux, machine, several};
use crate::board::{self, Board};
use crate::error::Result;
use crate::progress::say;

/// How often a run that says nothing else says that it goes on.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// What is wanted: boards, configurations, workloads.
pub type Selection = (Vec<&'static Board>, Vec<&'static configurations::Configuration>, Vec<Item>);

/// What a resumed run measures: of `all` that the command line describes, what it asks for expressly; for the rest,
/// what is in the file.
pub fn resumed(results: &Results, options: &Options, all: Selection) -> Selection {
    let (mut boards, mut chosen_configurations, mut items) = all;
    if options.boards.is_empty() {
        boards = results.boards().into_iter().filter_map(|b| board::find(b.name()).ok()).collect();
    }
    if options.configurations.is_empty() {
        let in_it = |name: &str| results.measurements.iter().any(|m| m.configuration == name);
        let names = results.configurations.iter().map(|c| c.name.as_str()).filter(|name| in_it(name));
        chosen_configurations = names.filter_map(configurations::named).collect();
    }
    if options.workloads.is_empty() && !options.quick {
        let there = |i: &Item| results.measurements.iter().any(|m| m.group == i.group && m.workload == i.name);
        items.retain(there);
    }
    (boards, chosen_configurations, items)
}

/// The jobs that wait, and what the native ones came to.
struct Jobs {
    waiting: Vec<(usize, Job)>,
    /// Native boots that have not ended.
    native: HashSet<(&'static str, Group)>,
    /// Native boots that gave nothing, and why.
    failed: BTreeMap<(&'static str, Group), String>,
}

enum Message {
    Begun(usize),
    /// A workload, and what became of it, for people.
    Found(usize, String, String),
    Ended(usize, Job, Outcome),
}

/// Runs `jobs`, `workers` at a time; `record` is called with each one's outcome.
///
/// # Errors
/// Those of `record`. A boot that fails is an outcome.
pub fn measure(
    context: &Context<'_>,
    jobs: Vec<Job>,
    workers: usize,
    record: &mut dyn FnMut(&Job, &Outcome) -> Result<()>,
) -> Result<()> {
    let (count, titles) = (jobs.len(), jobs.iter().map(Job::title).collect::<Vec<_>>());
    let native = jobs.iter().filter(|j| j.side == Side::Native).map(|j| (j.board.name, j.group)).collect();
    let waiting = jobs.into_iter().enumerate().collect();
    let jobs = Mutex::new(Jobs { waiting, native, failed: BTreeMap::new() });
    let changed = Condvar::new();
    let (sender, receiver) = channel();
    std::thread::scope(|scope| {
        for _ in 0..workers.min(count) {
            let sender = sender.clone();
            let (jobs, changed) = (&jobs, &changed);
            scope.spawn(move || work(context, jobs, changed, &sender));
        }
        drop(sender);
        let mut running: BTreeMap<usize, (Instant, String)> = BTreeMap::new();
        loop {
            match receiver.recv_timeout(HEARTBEAT) {
                Ok(Message::Begun(at)) => {
                    say(format_args!("[{}/{count}] {}: begins", at + 1, titles[at]));
                    running.insert(at, (Instant::now(), String::new()));
                }
                Ok(Message::Found(at, name, text)) => {
                    say(format_args!("[{}/{count}] {}: {name}: {text}", at + 1, titles[at]));
                    if let Some((_, last)) = running.get_mut(&at) {
                        *last = name;
                    }
                }
                Ok(Message::Ended(at, job, outcome)) => {
                    let seconds = running.remove(&at).map_or(0, |(begun, _)| begun.elapsed().as_secs());
                    let end = match &outcome.error {
                        Some(why) => format!("failed after {seconds} s: {why}"),
                        None => format!("{seconds} s"),
                    };
                    say(format_args!("[{}/{count}] {}: {end}", at + 1, titles[at]));
                    if let Err(error) = record(&job, &outcome) {
                        // The boots that run end with their threads; no new ones begin.
                        lock(&jobs).waiting.clear();
                        return Err(error);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    for (at, (begun, last)) in &running {
                        let behind = if last.is_empty() { String::new() } else { format!(", behind {last}") };
                        let seconds = begun.elapsed().as_secs();
                        say(format_args!("[{}/{count}] {}: {seconds} s{behind} …", at + 1, titles[*at]));
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
        }
    })
}

fn lock(jobs: &Mutex<Jobs>) -> std::sync::MutexGuard<'_, Jobs> {
    jobs.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A thread's work: job after job.
fn work(context: &Context<'_>, jobs: &Mutex<Jobs>, changed: &Condvar, sender: &Sender<Message>) {
    loop {
        let (number, job, failed) = {
            let mut all = lock(jobs);
            loop {
                if all.waiting.is_empty() {
                    return;
                }
                let ready =
                    |(_, j): &(usize, Job)| j.side == Side::Native || !all.native.contains(&(j.board.name, j.group));
                if let Some(at) = all.waiting.iter().position(ready) {
                    let (number, job) = all.waiting.remove(at);
                    let failed = all.failed.get(&(job.board.name, job.group)).cloned();
                    break (number, job, failed);
                }
                all = changed.wait(all).unwrap_or_else(PoisonError::into_inner);
            }
        };
        // That nobody listens any more is no reason to stop in the middle.
        let _ = sender.send(Message::Begun(number));
        let outcome = match failed {
            Some(why) => Outcome { error: Some(format!("not run: {why}")), ..Outcome::default() },
            None => boot(context, &job, &|name, text| drop(sender.send(Message::Found(number, name.into(), text)))),
        };
        if job.side == Side::Native {
            let mut all = lock(jobs);
            let place = (job.board.name, job.group);
            all.native.remove(&place);
            if !outcome.found.values().any(std::result::Result::is_ok) {
                let why = outcome.error.as_deref().map_or("nothing was measured", first_line);
                all.failed.insert(place, format!("without Spica, {why}"));
            }
            drop(all);
            changed.notify_all();
        }
        let _ = sender.send(Message::Ended(number, job, outcome));
    }
}

/// One boot.
fn boot(context: &Context<'_>, job: &Job, tell: &dyn Fn(&str, String)) -> Outcome {
    let mut outcome = Outcome::default();
    let found = &mut outcome.found;
    let mut found = |name: &str, value: std::result::Result<f64, String>| {
        if job.items.iter().any(|i| i.name == name) {
            let text = match &value {
                Ok(n) => format!("{} instructions", figure(*n)),
                Err(why) => format!("missing: {why}"),
            };
            tell(name, text);
            found.insert(name.to_string(), value);
        }
    };
    let mut stops = counts::Stops::new();
    let mut again = BTreeMap::new();
    let findings = &mut outcome.findings;
    let mut single = |name: &str, finding: Finding| {
        if let Some(item) = job.items.iter().find(|i| i.name == name) {
            tell(name, format!("{} {}", format::fine(finding.value), item.unit));
            findings.insert(name.to_string(), finding);
        }
    };
    let mut said = Said {
        found: &mut found,
        single: &mut single,
        digests: &mut outcome.digests,
        spica: &mut outcome.spica,
        stops: &mut stops,
        again: &mut again,
    };
    let result = match job.group {
        Group::Boot => boot::run(context, job.board, job.side, &mut said),
        Group::Machine => machine::run(context, job.board, job.side, &mut said),
        Group::Kernel | Group::Cliff | Group::Probes | Group::Application => linux::run(context, job, &mut said),
        Group::Several => several::run(context, job, &mut said),
        Group::Latency => several::late::run(context, job, &mut said),
    };
    outcome.error = result.err().map(|e| e.to_string());
    for (name, stops) in &stops {
        let Some(Ok(first)) = outcome.found.get(name) else { continue };
        match (counts::window(job.group, name, stops, *again.get(name).unwrap_or(first)), job.side) {
            (Ok(window), Side::Native) => context.natives.keep(job.board, job.group, name, window),
            (Ok(window), Side::Spica(_)) => {
                let beside = context.natives.with(job.board, job.group, name, &window);
                outcome.beside.extend(beside.map(|beside| (name.clone(), beside)));
            }
            (Err(why), _) => tell(name, format!("missing: nothing was counted: {why}")),
        }
    }
    outcome
}
