//! Endurance: a guest that works for hours of its own time, with nothing wrong, nothing lost, and nothing slower at the
//! end than at the beginning.
//!
//! The work is `tests/guest/endurance.sh`: rounds that are all the same, of stress-ng, hackbench, a compiler, pipelines
//! of compressors and sorters, and modules that come and go. Time is the count of executed instructions, so how long a
//! round takes is how many instructions it takes, on any machine under any load; and idle guests cost no time of ours.
//! What is judged:
//!
//! * each part of each round must give what it gave in the first;
//! * Spica's pools must be at the end where they were behind the second round;
//! * the last rounds must take as long as the first that found everything in caches.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use crate::bench::workloads::pack::Files;
use crate::bench::workloads::packages;
use crate::bench::workloads::table::Program;
use crate::board::Board;
use crate::control::answers::PROGRAM;
use crate::error::{Error, Result};
use crate::exec::{Script, exec};
use crate::prepare::{Request, prepare};
use crate::project::{Project, read_text};

mod judge;

pub use judge::{Part, Record, Round};

/// The packages that the work is made of.
const PACKAGES: [&str; 4] = ["stress-ng", "rt-tests", "tcc", "xz-utils"];

/// What is taken from them; libraries come by themselves.
const PROGRAMS: [Program; 5] = [
    Program { from: "usr/bin/stress-ng", to: "bench/usr/bin/stress-ng" },
    Program { from: "usr/bin/hackbench", to: "bench/usr/bin/hackbench" },
    Program { from: "usr/bin/xz", to: "bench/usr/bin/xz" },
    Program { from: "usr/bin/tcc", to: "bench/usr/bin/tcc" },
    // What compiled programs are linked with, where the compiler looks for it.
    Program { from: LIBTCC1, to: LIBTCC1 },
];
const LIBTCC1: &str = "usr/lib/arm-linux-gnueabihf/tcc/libtcc1.a";

/// The name that our questions to Spica's monitor have.
const QUESTION: &str = "endurance";

/// What is to be run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The board.
    pub board: &'static Board,
    /// Whether without Spica: for results to compare with.
    pub native: bool,
    /// Seconds of guest time.
    pub seconds: u32,
    /// By how much a round has less of everything.
    pub less: u32,
    /// So many rounds at least.
    pub rounds: u32,
    /// An instruction takes 2 to the power of this nanoseconds of guest time.
    pub shift: u8,
    /// Seconds of this machine's time, at most.
    pub timeout: Duration,
    /// Where all that appears on the board's UART goes.
    pub log: Option<PathBuf>,
}

impl Options {
    /// So many seconds of a guest under Spica, 15.6 million instructions each: an hour of them is less than an hour of
    /// ours.
    #[must_use]
    pub fn new(board: &'static Board, seconds: u32) -> Self {
        Self {
            board,
            native: false,
            seconds,
            less: 1,
            rounds: 3,
            shift: 6,
            timeout: Duration::from_secs(24 * 3600),
            log: None,
        }
    }
}

/// Runs the work; `progress` gets a line for each round.
///
/// # Errors
/// If packages cannot be had, or the guest does not come to the end of its work. That its results are wrong is no
/// error: see [`Record::verdict`].
pub fn run(project: &Project, options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Record> {
    let tree = packages::fetch(project, PACKAGES.map(String::from).into())?;
    if let Some(trouble) = tree.trouble {
        return Err(Error::failed(trouble));
    }
    let mut request = Request {
        native: options.native,
        unpacked: true,
        append: "quiet".into(),
        icount: Some(options.shift),
        ..Request::new(options.board)
    };
    let mut files = Files::new(&tree.root);
    PROGRAMS.iter().try_for_each(|program| files.add(program))?;
    for (path, permissions, data) in files.finish() {
        request.overlay.file(&path, permissions, &data);
    }
    let work = read_text(&project.source("tests/guest/endurance.sh"))?;
    let arguments = format!("{} {} {}", options.seconds, options.less, options.rounds);
    let script = Script::new(&format!("set -- {arguments}\n{work}"), &mut request.overlay)?;
    let run = prepare(project, &request)?;

    let mut record = Record::new(options.shift);
    let mut line = Vec::new();
    let mut listener = |bytes: &[u8]| {
        let mut keys = Vec::new();
        for &byte in bytes {
            if byte != b'\n' {
                line.push(byte);
                continue;
            }
            let text = String::from_utf8_lossy(&line).trim_end().to_string();
            line.clear();
            if text.starts_with("@levels") {
                if !options.native {
                    keys.push(PROGRAM);
                    keys.extend(format!("@{QUESTION} stats\n").bytes());
                }
                // The key that ends the guest's wait.
                keys.push(b'\n');
            }
            if let Some(said) = record.hear(&text) {
                progress(&said);
            }
        }
        Ok(keys)
    };
    let outcome = exec(&run, &script, options.timeout, options.log.as_deref(), false, &mut listener)?;
    if outcome.status != 0 {
        return Err(Error::failed(format!("the work ended with status {}", outcome.status)));
    }
    record.levels = levels(&outcome.spica);
    Ok(record)
}

/// Spica's answers about its pools and counters, one map for each.
fn levels(lines: &[String]) -> Vec<BTreeMap<String, u64>> {
    let mut all = Vec::new();
    let mut current = BTreeMap::new();
    for line in lines.iter().filter_map(|l| l.strip_prefix('@')?.strip_prefix(QUESTION)) {
        match line.trim_start().split(' ').collect::<Vec<_>>()[..] {
            ["stat", _, name, value] => {
                current.extend(value.parse().ok().map(|value: u64| (name.to_string(), value)));
            }
            ["ok"] => all.push(std::mem::take(&mut current)),
            _ => {}
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_told_apart() {
        let lines = [
            "hello",
            "@endurance stat debian a.b 3",
            "@endurance stat all heap 7",
            "@endurance ok",
            "@other stat all heap 1",
            "@endurance stat all heap 8",
            "@endurance ok",
            "@endurance stat all heap 9",
        ];
        let found = levels(&lines.map(String::from));
        assert_eq!(found.len(), 2);
        assert_eq!((found[0]["a.b"], found[0]["heap"], found[1]["heap"]), (3, 7, 8));
    }
}
