//! Bare-metal guests of `tests/bare`: run on a board, their console read.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::Machine;
pub use spica_runner::bare::{Guest, build, value};
use spica_runner::bench::ICOUNT_SHIFT;
use spica_runner::error::Result;
use spica_runner::prepare::{Request, Run, prepare};
use spica_runner::project::{Project, create_dir, write};
use spica_runner::qemu::{Event, Session};
use spica_runner::{board, process, spica};

/// The guest's memory: all that its code expects.
const MEMORY: &str = "16M";
/// How long Spica may take to answer when asked for a report.
const PATIENCE: Duration = Duration::from_secs(30);

/// What came of a run.
#[derive(Debug, Default)]
pub struct Outcome {
    /// What the guest printed.
    pub guest: String,
    /// What Spica printed, without its prefix.
    pub spica: Vec<String>,
    /// Whether the machine came to an end before the time was up: Spica halted the board, or the board is off.
    pub ended: bool,
    /// Whether Spica, when the time was up, answered with its report.
    pub answered: bool,
}

impl Outcome {
    /// Spica's line about the guest's end: `powered off`, `stopped: …`.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        self.spica.iter().rev().find_map(|line| line.strip_prefix("guest guest: "))
    }

    /// Whether Spica itself failed.
    #[must_use]
    pub fn panicked(&self) -> bool {
        self.spica.iter().any(|line| line.starts_with("panic"))
    }

    /// The end of all that was said, for a failed test to show.
    #[must_use]
    pub fn tail(&self) -> String {
        let mut text = process::tail(&self.guest, 12);
        for line in self.spica.iter().take(40) {
            let _ = write!(text, "\nspica: {line}");
        }
        text
    }
}

/// Builds a guest and runs it for at most `timeout`; if it is still running then, Spica is asked for its report.
///
/// # Errors
/// If it cannot be built, or the board not be started.
pub fn run(machine: Machine, guest: &Guest<'_>, timeout: Duration) -> Result<Outcome> {
    run_with(machine, guest, timeout, "")
}

/// The same with `words` on Spica's command line.
///
/// # Errors
/// As [`run`].
pub fn run_with(machine: Machine, guest: &Guest<'_>, timeout: Duration, words: &str) -> Result<Outcome> {
    run_prepared(machine, guest, timeout, words, |_| Ok(()))
}

/// The same, with something done to the run before it starts.
///
/// # Errors
/// As [`run`].
pub fn run_prepared(
    machine: Machine,
    guest: &Guest<'_>,
    timeout: Duration,
    words: &str,
    change: impl FnOnce(&mut Run) -> Result<()>,
) -> Result<Outcome> {
    in_scratch(machine, guest, timeout, (words, None), change)
}

/// The same as [`run_with`], where time is the count of executed instructions: nothing depends on how busy this machine
/// is.
///
/// # Errors
/// As [`run`].
pub fn run_counted(machine: Machine, guest: &Guest<'_>, timeout: Duration, words: &str) -> Result<Outcome> {
    in_scratch(machine, guest, timeout, (words, Some(ICOUNT_SHIFT)), |_| Ok(()))
}

fn in_scratch(
    machine: Machine,
    guest: &Guest<'_>,
    timeout: Duration,
    (words, icount): (&str, Option<u8>),
    change: impl FnOnce(&mut Run) -> Result<()>,
) -> Result<Outcome> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let project = Project::find(None)?;
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let scratch = project.build(&format!("bare/{}-{number}", std::process::id()));
    create_dir(&scratch)?;
    let outcome = run_in(&scratch, &project, machine, guest, timeout, (words, icount), change);
    // What is left behind is in build/bare, and does not matter.
    let _ = fs::remove_dir_all(&scratch);
    outcome
}

fn run_in(
    scratch: &Path,
    project: &Project,
    machine: Machine,
    guest: &Guest<'_>,
    timeout: Duration,
    (words, icount): (&str, Option<u8>),
    change: impl FnOnce(&mut Run) -> Result<()>,
) -> Result<Outcome> {
    let kernel = build(scratch, project, guest)?;
    let initrd = scratch.join("initrd");
    write(&initrd, &[0; 4])?;
    let request = Request {
        native: machine.native(),
        kernel: Some(kernel),
        initrd: Some(initrd),
        memory: Some(MEMORY.to_string()),
        spica_append: format!("{words} {}", crate::more_words()),
        icount,
        ..Request::new(board::find(machine.board())?)
    };
    let mut run = prepare(project, &request)?;
    change(&mut run)?;
    let mut session = Session::start(run.board, &run.boot(), None, false)?;
    let mut deadline = Instant::now() + timeout;
    let mut asked = false;
    let mut outcome = Outcome::default();
    loop {
        match session.next(None, Some(deadline))? {
            Event::Guest(bytes) => outcome.guest.push_str(&String::from_utf8_lossy(&bytes).replace('\r', "")),
            Event::Spica(line) if line == spica::HALTED => outcome.ended = true,
            Event::Spica(line) if line == spica::REPORT_END => return Ok(outcome),
            Event::Spica(line) => {
                let report = spica::report_line(&line);
                outcome.answered |= report.is_some();
                outcome.spica.push(report.unwrap_or(&line).to_string());
            }
            Event::Exited(_) => outcome.ended = true,
            Event::Quiet if asked || machine.native() => return Ok(outcome),
            Event::Quiet => {
                session.send(spica::REPORT);
                asked = true;
                deadline = Instant::now() + PATIENCE;
            }
            Event::Ending(_) | Event::Input(_) => {}
        }
        // A guest that prints without end has shown enough.
        if outcome.ended || outcome.guest.len() > 4 << 20 {
            return Ok(outcome);
        }
    }
}
