//! Running parts one after the other: the time shared among them, a line of progress, and a summary.

use crate::part::{Failure, Part};
use crate::work::{Limit, Work};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _};
use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// How parts are run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// For all of them together, or so many cases for each.
    pub limit: Limit,
    /// Where random parts begin.
    pub seed: u64,
    /// Threads for parts that can use several.
    pub jobs: usize,
    /// A directory for what outlives the run; each part has one in there.
    pub state: PathBuf,
}

/// What came of a part.
#[derive(Debug)]
pub struct Outcome {
    /// The part's name.
    pub name: String,
    /// Cases that were run.
    pub cases: u64,
    /// How long it took.
    pub time: Duration,
    /// What it noted, and how many times that happened.
    pub notes: BTreeMap<String, u64>,
    /// What should have happened and did not.
    pub unseen: Vec<String>,
    /// What is wrong, if anything.
    pub failure: Option<Failure>,
}

impl Outcome {
    /// The outcome in words: one line, and what is wrong.
    #[must_use]
    pub fn report(&self) -> String {
        let Outcome { name, cases, time, .. } = self;
        let verdict = if self.failure.is_some() { "FAILED" } else { "nothing wrong" };
        let mut text = format!("prove: {name}: {cases} cases in {:.1} s, {verdict}\n", time.as_secs_f64());
        if let Some(failure) = &self.failure {
            for line in failure.message.lines() {
                let _ = writeln!(text, "  | {line}");
            }
            if let Some(case) = &failure.case {
                let _ = writeln!(text, "  repeat with: ./spica prove --part {name} --case '{case}'");
            }
        }
        for what in &self.unseen {
            let _ = writeln!(text, "prove: {name}: never seen: {what}");
        }
        text
    }

    /// What happened how often, a line for each.
    #[must_use]
    pub fn coverage(&self) -> String {
        self.notes.iter().fold(String::new(), |mut text, (what, times)| {
            let _ = writeln!(text, "prove: {}: {times:>12} {what}", self.name);
            text
        })
    }
}

/// Runs one part with the given limit, and shows how it gets on.
pub fn part(part: &dyn Part, limit: Limit, plan: &Plan) -> Outcome {
    let work = Work::new(limit, plan.seed, plan.jobs, plan.state.join(part.name()));
    finish(part, &work, |part| part.run(&work))
}

/// Runs the one case of a part that a failure named.
pub fn case(part: &dyn Part, case: &str, plan: &Plan) -> Outcome {
    let work = Work::new(Limit::Cases(1), plan.seed, 1, plan.state.join(part.name()));
    let mut outcome = finish(part, &work, |part| part.repeat(case, &work));
    (outcome.cases, outcome.unseen) = (1, Vec::new());
    outcome
}

fn finish(part: &dyn Part, work: &Work, run: impl FnOnce(&dyn Part) -> Result<(), Failure> + Send) -> Outcome {
    let start = Instant::now();
    let result = std::thread::scope(|scope| {
        let (end, ended) = channel::<()>();
        scope.spawn(move || {
            // A line that is written over; where that is not to be had, one in a minute.
            let terminal = std::io::stderr().is_terminal();
            let pause = Duration::from_secs(if terminal { 1 } else { 60 });
            while ended.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                progress(part.name(), work, start, terminal);
            }
        });
        let result = run(part);
        drop(end);
        result
    });
    if std::io::stderr().is_terminal() {
        eprint!("\r\x1b[K");
    }
    let notes = work.notes();
    // A run that was cut short has not seen much.
    let must_see = if result.is_ok() { part.must_see() } else { Vec::new() };
    let unseen = must_see.into_iter().filter(|what| !notes.contains_key(what)).collect();
    Outcome {
        name: part.name().into(),
        cases: work.done(),
        time: start.elapsed(),
        notes,
        unseen,
        failure: result.err(),
    }
}

/// Says how far a part is.
fn progress(name: &str, work: &Work, start: Instant, terminal: bool) {
    let mut err = std::io::stderr();
    let seconds = start.elapsed().as_secs();
    let left = match work.limit() {
        Limit::Time(_) => format!(", {} s left", work.left().as_secs()),
        Limit::Cases(cases) => format!(" of {cases}"),
    };
    let (begin, end) = if terminal { ("\r\x1b[K", "") } else { ("", "\n") };
    let _ = write!(err, "{begin}prove: {name}: {} cases in {seconds} s{left} {}{end}", work.done(), work.doing());
    let _ = err.flush();
}

/// Runs parts one after the other, each with its share of the time: what one leaves over, those behind it get.
pub fn all(parts: &[Box<dyn Part>], plan: &Plan, mut each: impl FnMut(&Outcome)) -> bool {
    let start = Instant::now();
    let mut weights: u32 = parts.iter().map(|part| part.weight()).sum();
    let mut good = true;
    for one in parts {
        let limit = match plan.limit {
            Limit::Time(time) => {
                Limit::Time(time.saturating_sub(start.elapsed()).mul_f64(f64::from(one.weight()) / f64::from(weights)))
            }
            cases => cases,
        };
        weights -= one.weight();
        let outcome = part(one.as_ref(), limit, plan);
        good &= outcome.failure.is_none();
        each(&outcome);
    }
    good
}
