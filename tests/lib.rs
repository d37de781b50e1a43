//! End-to-end tests: guests on emulated boards, started as `spica run --exec` starts them.
//!
//! A boot takes long, a check is quick; so one boot serves many tests. A script for the guest (`tests/guest/*.sh`) runs
//! all checks of a kind, with the test programs of `tests/guest/programs` at hand, and prints each one's output and
//! exit status as a section. [`transcript`] boots each [`Machine`] once per test program, and every test looks at its
//! section. If the guest dies in between, the tests of the sections before still pass, and the others say what
//! happened.
//!
//! Debian's kernel comes without its decompressor in most of these boots (`spica_runner::unpacked`): that is the same
//! in each, and takes longer than the kernel. `e2e/image.rs`, the benchmarks and the complete systems have it run.
//!
//! Every test of a guest under Spica also runs on the same board without Spica: that shows that the test is right.

pub mod bare;
pub mod exact;
pub mod fast_paths;
#[path = "bare/garbage.rs"]
pub mod garbage;
pub mod hostile;
pub mod known;
pub mod module;
pub mod several;
pub mod siege;
pub mod silicon;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use spica_runner::bench::ICOUNT_SHIFT;
use spica_runner::board;
use spica_runner::error::{Error, Result};
use spica_runner::exec::{Script, exec};
use spica_runner::prepare::{self, Request, prepare};
use spica_runner::project::{Project, create_dir, read, read_text};
use spica_runner::{process, spica};

/// A guest machine under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Machine {
    /// Spica on a Cortex-A8.
    Cubieboard,
    /// Spica on a Cortex-A9.
    VexpressA9,
    /// Spica on a Cortex-A15, which has the virtualisation extensions, a generic timer and virtio devices.
    Virt,
    /// The kernel alone on the Cortex-A8.
    CubieboardNative,
    /// The kernel alone on the Cortex-A9.
    VexpressA9Native,
    /// The kernel alone on the board whose devices Spica's guest machine has.
    VirtNative,
}

impl Machine {
    /// The board's name.
    #[must_use]
    pub const fn board(self) -> &'static str {
        match self {
            Self::Cubieboard | Self::CubieboardNative => "cubieboard",
            Self::VexpressA9 | Self::VexpressA9Native => "vexpress-a9",
            Self::Virt | Self::VirtNative => "virt",
        }
    }

    /// Whether the kernel runs without Spica.
    #[must_use]
    pub const fn native(self) -> bool {
        !matches!(self, Self::Cubieboard | Self::VexpressA9 | Self::Virt)
    }
}

/// What one check printed.
#[derive(Clone, Debug, Default)]
pub struct Section {
    /// Its lines.
    pub lines: Vec<String>,
    /// When each line came, since QEMU started.
    pub times: Vec<Duration>,
    /// Its exit status; `None` if it did not end.
    pub status: Option<i32>,
}

/// All that came of one boot.
#[derive(Debug)]
pub struct Transcript {
    /// All checks that ended or began, by name.
    pub sections: BTreeMap<String, Section>,
    /// What Spica reported at each `@@report` that the script printed.
    pub reports: Vec<Vec<String>>,
    /// What went wrong with the whole run, in words.
    pub error: Option<String>,
}

impl Transcript {
    /// The section of a check that ended with status 0.
    ///
    /// # Panics
    /// If it did not: with its output, or with what became of the guest before.
    #[must_use]
    #[track_caller]
    pub fn passed(&self, check: &str) -> &Section {
        let section = self.section(check);
        assert_eq!(section.status, Some(0), "{check} printed:\n{}\n{}", section.lines.join("\n"), self.trouble());
        section
    }

    /// The section of a check that ended, well or not.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    #[track_caller]
    pub fn section(&self, check: &str) -> &Section {
        let section = self.sections.get(check);
        section.unwrap_or_else(|| panic!("the guest did not come to {check}\n{}", self.trouble()))
    }

    fn trouble(&self) -> &str {
        self.error.as_deref().unwrap_or_default()
    }
}

/// The time that a boot with all its checks may take. It is generous: the machine may be slow and busy.
const TIMEOUT: Duration = Duration::from_secs(900);

/// What a script prints to have Spica report; it sleeps for a second then.
const REPORT: &str = "@@report";

/// Boots a machine with a script of `tests/guest`, perhaps with words behind its name that are its arguments, once: the
/// second call gives the first one's transcript.
///
/// # Panics
/// If nothing can be booted at all.
#[must_use]
pub fn transcript(machine: Machine, script: &'static str) -> &'static Transcript {
    transcript_with(machine, script, "")
}

/// The same with `words` on Spica's command line.
///
/// # Panics
/// As [`transcript`].
#[must_use]
pub fn transcript_with(machine: Machine, script: &'static str, words: &'static str) -> &'static Transcript {
    type Known = BTreeMap<(Machine, &'static str, &'static str), &'static OnceLock<Transcript>>;
    static KNOWN: Mutex<Known> = Mutex::new(BTreeMap::new());
    let cell = {
        let mut known = KNOWN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        *known.entry((machine, script, words)).or_insert_with(|| Box::leak(Box::default()))
    };
    cell.get_or_init(|| {
        boot(machine, script, words, None).unwrap_or_else(|e| panic!("{machine:?} cannot be booted: {e}"))
    })
}

/// A boot of its own in which time is the count of executed instructions, so that nothing depends on how fast and how
/// busy this machine is.
///
/// # Panics
/// As [`transcript`].
#[must_use]
pub fn counted_transcript(machine: Machine, script: &str) -> Transcript {
    boot(machine, script, "", Some(ICOUNT_SHIFT)).unwrap_or_else(|e| panic!("{machine:?} cannot be booted: {e}"))
}

/// More words for Spica's command line in tests of guests of our own, from the environment's `SPICA_TEST_WORDS`: to run
/// what is there in another way, such as in place.
#[must_use]
pub fn more_words() -> String {
    std::env::var("SPICA_TEST_WORDS").unwrap_or_default()
}

/// Debian boots to a shell under Spica with `words` on its command line, and all of the guest's own checks (`modes.sh`)
/// are right.
///
/// # Panics
/// If not.
#[track_caller]
pub fn debian_boots(words: &'static str) {
    let transcript = transcript_with(Machine::Cubieboard, "modes.sh", words);
    assert_eq!(transcript.passed("shell-script").lines, ["sum 10793960"]);
    let _ = transcript.passed("kprobe");
    for probe in [
        "thread-register",
        "fault-loop",
        "mprotect",
        "copy-on-write",
        "efault",
        "fork-exit",
        "pipe",
        "alarm",
        "float",
        "kuser",
        "mode-change",
    ] {
        let _ = transcript.passed(&format!("probe-{probe}"));
    }
}

fn boot(machine: Machine, script: &str, words: &str, icount: Option<u8>) -> Result<Transcript> {
    let project = Project::find(None)?;
    let (file, arguments) = script.split_once(' ').unwrap_or((script, ""));
    let command = read_text(&project.source(&format!("tests/guest/{file}")))?;
    let command = format!("set -- {arguments}\n{command}");
    let board = board::find(machine.board())?;
    let native = machine.native();
    let mut request = Request { native, unpacked: true, spica_append: words.into(), icount, ..Request::new(board) };
    request.overlay.file("bin/probe", 0o755, &read(&probe()?)?);
    request.overlay.file(
        "lib/reads-user-memory.ko",
        0o644,
        &module::reads_user_memory(&read(&any_module(&project)?)?)?,
    );
    let frame = Script::new(&command, &mut request.overlay)?;
    let run = prepare(&project, &request)?;

    create_dir(&project.build("logs"))?;
    let name = if words.is_empty() { script.replace(' ', "-") } else { format!("{words}-{script}") };
    let name = if icount.is_some() { format!("counted-{name}") } else { name };
    let log = project.build(&format!("logs/{machine:?}-{name}.log"));
    let start = Instant::now();
    let mut parser = Parser::default();
    let mut listener = |bytes: &[u8]| Ok(parser.feed(bytes, start.elapsed()));
    let result = exec(&run, &frame, TIMEOUT, Some(&log), false, &mut listener);
    let spica = result.as_ref().map(|o| o.spica.clone()).unwrap_or_default();
    let error = match result {
        Ok(outcome) if outcome.status == 0 => None,
        Ok(outcome) => Some(format!("{script} ended with status {}; see {}", outcome.status, log.display())),
        Err(error) => Some(format!("{error}\nthe whole console is in {}", log.display())),
    };
    Ok(Transcript { sections: parser.sections, reports: reports(&spica), error })
}

/// A small module of the kernel's package.
fn any_module(project: &Project) -> Result<PathBuf> {
    kernel_module(project, "lib/test_static_key_base.ko")
}

/// A module of the kernel's package, by its path in there.
///
/// # Errors
/// If the package cannot be had.
pub fn kernel_module(project: &Project, path: &str) -> Result<PathBuf> {
    prepare::fetch(project, false)?;
    let versions = project.build("guests/debian/tree/lib/modules");
    let found = std::fs::read_dir(&versions).ok().and_then(|mut entries| entries.next()?.ok());
    let version = found.ok_or_else(|| Error::failed(format!("no kernel modules in {}", versions.display())))?;
    Ok(version.path().join("kernel").join(path))
}

/// The guest's test programs (`probe`), built where the hypervisor is: what both have of Rust's library is compiled
/// once.
///
/// # Errors
/// If they cannot be built.
pub fn probe() -> Result<PathBuf> {
    static BUILT: OnceLock<()> = OnceLock::new();
    let project = Project::find(None)?;
    let target = project.build("hypervisor");
    if BUILT.get().is_none() {
        let mut cargo = Command::new("cargo");
        cargo.current_dir(project.source("tests/guest/programs"));
        cargo.env("RUSTC_BOOTSTRAP", "1").env_remove("CARGO_TARGET_DIR");
        cargo.args(["build", "--release", "--locked", "--quiet", "--target-dir"]).arg(&target);
        process::output(&mut cargo, "cannot build the guest's test programs")?;
        let _ = BUILT.set(());
    }
    Ok(target.join("armv7a-none-eabi/release/probe"))
}

/// Reads sections: `=== NAME`, the check's output, `--- STATUS`.
#[derive(Debug, Default)]
struct Parser {
    sections: BTreeMap<String, Section>,
    current: Option<String>,
    pending: Vec<u8>,
}

impl Parser {
    /// Takes the next bytes, and gives the keys to be typed in answer.
    fn feed(&mut self, bytes: &[u8], now: Duration) -> Vec<u8> {
        let mut keys = Vec::new();
        self.pending.extend_from_slice(bytes);
        while let Some(end) = self.pending.iter().position(|&b| b == b'\n') {
            let line: Vec<u8> = self.pending.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line[..end]).into_owned();
            if line == REPORT {
                keys.extend(spica::REPORT);
            }
            self.line(line, now);
        }
        keys
    }

    fn line(&mut self, line: String, now: Duration) {
        if let Some(name) = line.strip_prefix("=== ") {
            self.current = Some(name.to_string());
            self.sections.insert(name.to_string(), Section::default());
            return;
        }
        let Some(section) = self.current.as_ref().and_then(|c| self.sections.get_mut(c)) else { return };
        if let Some(status) = line.strip_prefix("--- ") {
            section.status = status.parse().ok();
            self.current = None;
        } else {
            section.lines.push(line);
            section.times.push(now);
        }
    }
}

/// Divides what Spica said into reports: each begins with a line that says that it was asked for.
fn reports(lines: &[String]) -> Vec<Vec<String>> {
    let mut reports: Vec<Vec<String>> = Vec::new();
    for line in lines.iter().filter_map(|line| spica::report_line(line)) {
        if line.ends_with("report, as asked for") {
            reports.push(Vec::new());
        } else if let Some(report) = reports.last_mut() {
            report.push(line.to_string());
        }
    }
    reports
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_are_read() {
        let mut parser = Parser::default();
        assert!(parser.feed(b"noise\n=== a\none\ntw", Duration::from_secs(1)).is_empty());
        assert_eq!(parser.feed(b"o\n@@report\n--- 0\n=== b\nx\n", Duration::from_secs(2)), spica::REPORT);
        let a = &parser.sections["a"];
        assert_eq!((a.lines.as_slice(), a.status), (&["one".into(), "two".into(), "@@report".into()][..], Some(0)));
        assert_eq!(a.times[1], Duration::from_secs(2));
        assert_eq!(parser.sections["b"].status, None);
    }

    #[test]
    fn reports_are_told_apart() {
        let lines = "hello\n@report regs guest a: report, as asked for\n@report regs  one 1\nguest b: restarted\n\
                     @report regs guest a: report, as asked for\n@report regs  two\nguest a: powered off\n three";
        let lines: Vec<_> = lines.lines().map(str::to_string).collect();
        assert_eq!(reports(&lines), [[" one 1"], [" two"]]);
    }
}
