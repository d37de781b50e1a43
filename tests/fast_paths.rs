//! The trap handlers in assembly against those in Rust: boots of the image that compares them
//! (`crates/hypervisor/src/vm/check`), and what it says.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use spica_runner::bench::ICOUNT_SHIFT;
use spica_runner::board;
use spica_runner::error::{Error, Result};
use spica_runner::image::Image;
use spica_runner::prepare;
use spica_runner::project::Project;
use spica_runner::qemu::{Boot, Event, Session};

use crate::Machine;

/// For one boot: a session takes a tenth of a second, on a busy machine several times that.
const TIMEOUT: Duration = Duration::from_secs(600);

/// What each run of some length has handlers in assembly do, by the names that the image has for it.
pub const ANSWERED: &[&str] = &[
    "jumps",
    "calls",
    "kernel-returns",
    "aborts",
    "fills",
    "undefined",
    "vfp-turns",
    "tlb-pages",
    "lines",
    "counters",
    "timers",
    "spaces",
    "interrupts",
    "alarms",
    "modes",
    "masks",
    "unmasked",
    "patches",
];

/// Which sessions, and under which switches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cases {
    /// The number of the first.
    pub first: u32,
    /// How many.
    pub count: u32,
    /// So many steps of the last one, if not all.
    pub steps: Option<u32>,
    /// Steps that are left out of it.
    pub without: Vec<u32>,
    /// More words for the command line, each with a space before it.
    pub words: String,
}

impl Cases {
    /// All steps of so many sessions.
    #[must_use]
    pub fn all(first: u32, count: u32, words: &str) -> Self {
        Self { first, count, steps: None, without: Vec::new(), words: words.into() }
    }

    fn command_line(&self) -> String {
        let mut line = format!("spica.sessions={}+{}", self.first, self.count);
        if let Some(steps) = self.steps {
            let _ = write!(line, " spica.steps={steps}");
        }
        if !self.without.is_empty() {
            let list: Vec<String> = self.without.iter().map(u32::to_string).collect();
            let _ = write!(line, " spica.without={}", list.join(","));
        }
        line + &self.words
    }
}

/// What came of a boot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing differed: how many steps there were, and what assembly answered how often.
    Good {
        /// Steps.
        steps: u64,
        /// Times, by the names of [`ANSWERED`].
        answered: BTreeMap<String, u64>,
    },
    /// Something differed, in this step of this session.
    Bad {
        /// The session's number.
        session: u32,
        /// The step's.
        step: u32,
        /// What the image says.
        report: String,
    },
}

/// Boots the image on a board.
///
/// # Errors
/// If it cannot be built or booted, or does not come to an end.
pub fn run(machine: Machine, cases: &Cases) -> Result<Verdict> {
    let project = Project::find(None)?;
    let image = prepare::board_image(&project, Image::CheckFastPaths)?;
    let trees = prepare::fetch(&project, false)?.device_trees;
    let board = board::find(machine.board())?;
    let tree = board.device_tree.map(|tree| trees.join(tree));
    let boot = Boot {
        kernel: &image,
        initrd: None,
        append: &cases.command_line(),
        device_tree: tree.as_deref(),
        memory_mib: None,
        icount: Some(ICOUNT_SHIFT),
        plugged: &[],
        debug: None,
        plugin: None,
    };
    let mut session = Session::start(board, &boot, None, false)?;
    let deadline = Instant::now() + TIMEOUT;
    let mut said = String::new();
    loop {
        match session.next(None, Some(deadline))? {
            Event::Guest(bytes) => said.push_str(&String::from_utf8_lossy(&bytes)),
            Event::Spica(line) if line.contains("panic") => said += &format!("spica: {line}\ncheck: done\n"),
            Event::Quiet | Event::Exited(_) => {
                return Err(Error::failed(format!("the check did not come to an end:\n{said}")));
            }
            _ => {}
        }
        if said.contains("check: done\n") || said.contains("check: done\r\n") {
            return verdict(&said).ok_or_else(|| Error::failed(format!("the check failed:\n{said}")));
        }
    }
}

/// What the image said, read.
fn verdict(said: &str) -> Option<Verdict> {
    const FAILED: &str = "check: FAILED in session ";
    if let Some(at) = said.find(FAILED) {
        let report = &said[at..];
        let (session, rest) = report[FAILED.len()..].split_once(": step ")?;
        let step = rest.split_once(' ')?.0;
        return Some(Verdict::Bad {
            session: session.parse().ok()?,
            step: step.parse().ok()?,
            report: report.replace('\r', "").replace("check: done\n", ""),
        });
    }
    let line = said.lines().find(|line| line.starts_with("check: ") && line.contains(" steps; "))?;
    let (before, answered) = line.split_once(" steps; ")?;
    let steps = before.rsplit(' ').next()?.parse().ok()?;
    let pair = |pair: &str| pair.split_once(' ').and_then(|(name, n)| Some((name.to_string(), n.parse().ok()?)));
    let answered = answered.trim_end().split(", ").map(pair).collect::<Option<_>>()?;
    Some(Verdict::Good { steps, answered })
}

/// Runs cases in which nothing may differ; how many steps they had, and what assembly answered.
///
/// # Panics
/// If something differs.
#[track_caller]
pub fn agree(machine: Machine, cases: &Cases) -> (u64, BTreeMap<String, u64>) {
    match run(machine, cases) {
        Ok(Verdict::Good { steps, answered }) => (steps, answered),
        Ok(Verdict::Bad { report, .. }) => panic!("{machine:?}, {cases:?}: {report}"),
        Err(error) => panic!("{machine:?}, {cases:?}: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_image_says_is_read() {
        let good = "check: 2 sessions, 96 steps; jumps 3, calls 4\r\ncheck: done\r\n";
        let answered = BTreeMap::from([("jumps".to_string(), 3), ("calls".to_string(), 4)]);
        assert_eq!(verdict(good), Some(Verdict::Good { steps: 96, answered }));
        let bad = "x\r\ncheck: FAILED in session 7: step 3 (rust): r0 0x1, in Rust 0x2; \r\ncheck: acts []\r\ncheck: done\r\n";
        match verdict(bad) {
            Some(Verdict::Bad { session: 7, step: 3, report }) => assert!(report.ends_with("acts []\n"), "{report}"),
            other => panic!("{other:?}"),
        }
        assert_eq!(verdict("spica: panic: no\ncheck: done\n"), None);
    }
}
