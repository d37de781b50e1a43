//! A board with several bare-metal guests: their consoles, and the monitor's answers.
//!
//! The guests come from a manifest, as those of `spica run --guests` do. With counted instructions a run repeats to the
//! digit, as long as nobody types: who measures lets the guests come to their end by themselves.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use spica_runner::bare;
pub use spica_runner::bare::{BLANK, Part};
use spica_runner::bench::ICOUNT_SHIFT;
use spica_runner::control::answers::{Answer, Filter, PROGRAM, random_id};
use spica_runner::error::Result;
use spica_runner::guests::Source;
use spica_runner::prepare::{Request, Run, prepare};
use spica_runner::project::{Project, write};
use spica_runner::qemu::{Event, Session};
use spica_runner::spica::HALTED;
use spica_runner::{board, process};

use crate::Machine;

/// How long a test waits for anything, unless it says so. Tests do not depend on it: a machine that is slow and busy
/// needs some of it.
const PATIENCE: Duration = Duration::from_secs(600);
/// The time between two questions of the same kind to the monitor.
const REST: Duration = Duration::from_millis(50);

/// A directory for as long as a board runs.
#[derive(Debug)]
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        // What is left behind is in build/several, and does not matter.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What is in the board's RAM when it is switched on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Remains {
    /// From so many bytes behind its start on.
    pub from: u32,
    /// For so many bytes; a whole number of words.
    pub bytes: u32,
    /// This word, again and again.
    pub word: u32,
}

impl Remains {
    /// QEMU's options, with a file in `scratch`.
    fn options(&self, machine: Machine, scratch: &Path) -> Result<Vec<String>> {
        if self.bytes == 0 {
            return Ok(Vec::new());
        }
        let file = scratch.join("remains.bin");
        write(&file, &self.word.to_le_bytes().repeat(self.bytes as usize / 4))?;
        let start = if machine == Machine::VexpressA9 { 0x6000_0000 } else { 0x4000_0000 } + self.from;
        let device = format!("loader,file={},addr={start:#x},force-raw=on", file.display());
        Ok(vec!["-device".into(), device])
    }
}

/// A running board.
#[derive(Debug)]
pub struct Board {
    session: Session,
    run: Run,
    scratch: Scratch,
    /// Finds answers where they stand in a guest's line.
    filter: Filter,
    answers: VecDeque<Answer>,
    /// What each guest printed, complete lines or not.
    consoles: BTreeMap<String, String>,
    /// The console's line that is not complete.
    line: Vec<u8>,
    /// The only guest that is shown, by its bytes.
    shown: Option<String>,
    /// Spica's own lines, without answers.
    pub spica: Vec<String>,
    /// Spica has halted the board.
    pub halted: bool,
    /// How long to wait for anything.
    pub patience: Duration,
}

impl Board {
    /// Builds the guests and starts a board with them, with counted instructions if `icount`.
    ///
    /// # Panics
    /// If that does not work.
    #[must_use]
    #[track_caller]
    pub fn start(machine: Machine, parts: &[Part<'_>], icount: bool) -> Self {
        Self::start_with(machine, parts, icount, "")
    }

    /// The same with more words on Spica's command line.
    ///
    /// # Panics
    /// If that does not work.
    #[must_use]
    #[track_caller]
    pub fn start_with(machine: Machine, parts: &[Part<'_>], icount: bool, words: &str) -> Self {
        let remains = Remains::default();
        Self::try_start(machine, parts, icount, words, &remains, |_, _| Ok(()))
            .unwrap_or_else(|error| panic!("{machine:?}: {error}"))
    }

    /// Starts a board, with counted instructions, and with something done to its run before it starts.
    ///
    /// # Errors
    /// If that does not work.
    pub fn start_changed(
        machine: Machine,
        parts: &[Part<'_>],
        change: impl FnOnce(&Project, &mut Run) -> Result<()>,
    ) -> Result<Self> {
        Self::try_start(machine, parts, true, "", &Remains::default(), change)
    }

    /// The same on a board whose RAM is not empty when it is switched on; instructions are counted.
    ///
    /// # Panics
    /// If that does not work.
    #[must_use]
    #[track_caller]
    pub fn start_among(machine: Machine, parts: &[Part<'_>], remains: &Remains) -> Self {
        Self::try_start(machine, parts, true, "", remains, |_, _| Ok(()))
            .unwrap_or_else(|error| panic!("{machine:?}: {error}"))
    }

    fn try_start(
        machine: Machine,
        parts: &[Part<'_>],
        icount: bool,
        words: &str,
        remains: &Remains,
        change: impl FnOnce(&Project, &mut Run) -> Result<()>,
    ) -> Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let project = Project::find(None)?;
        let scratch =
            project.build(&format!("several/{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed)));
        let scratch = Scratch(scratch);
        let mut run = Self::prepare(&project, &scratch.0, machine, parts, icount, words)?;
        change(&project, &mut run)?;
        let mut boot = run.boot();
        let options = [boot.plugged, &remains.options(machine, &scratch.0)?].concat();
        boot.plugged = &options;
        let session = Session::start(run.board, &boot, None, false)?;
        let consoles = parts.iter().map(|part| (part.name.to_string(), String::new())).collect();
        let shown = (parts.len() == 1).then(|| parts[0].name.to_string());
        Ok(Self {
            session,
            run,
            scratch,
            filter: Filter::default(),
            answers: VecDeque::new(),
            consoles,
            line: Vec::new(),
            shown,
            spica: Vec::new(),
            halted: false,
            patience: PATIENCE,
        })
    }

    fn prepare(
        project: &Project,
        scratch: &Path,
        machine: Machine,
        parts: &[Part<'_>],
        icount: bool,
        words: &str,
    ) -> Result<Run> {
        let file = bare::manifest(scratch, project, parts)?;
        if parts.iter().any(|part| part.keys.contains(BLANK)) {
            write(&scratch.join(BLANK), &vec![0; 1 << 20])?;
        }
        let request = Request {
            guests: Some(Source::Manifest(file)),
            unpacked: true,
            spica_append: format!("spica.stats {words} {}", crate::more_words()),
            icount: icount.then_some(ICOUNT_SHIFT),
            label: scratch.file_name().map(|name| name.to_string_lossy().into_owned()),
            ..Request::new(board::find(machine.board())?)
        };
        prepare(project, &request)
    }

    /// Takes in what happens next; `false` when nothing does until `deadline`.
    fn turn(&mut self, deadline: Instant) -> bool {
        match self.session.next(None, Some(deadline)).unwrap_or_else(|error| panic!("{error}")) {
            Event::Guest(bytes) => {
                let (bytes, answers) = self.filter.feed(&bytes);
                self.answers.extend(answers);
                self.hear(&bytes);
            }
            Event::Spica(line) => match line.strip_prefix('@').and_then(|answer| answer.split_once(' ')) {
                Some((id, text)) => self.answers.push_back(Answer { id: id.to_string(), text: text.to_string() }),
                None => {
                    self.halted |= line == HALTED;
                    self.spica.push(line);
                }
            },
            Event::Exited(status) => panic!("QEMU ended: {status}\n{}", self.tail()),
            Event::Quiet => return false,
            Event::Ending(_) | Event::Input(_) => {}
        }
        true
    }

    /// Lets the board be controlled from elsewhere; by the name of the run.
    ///
    /// # Panics
    /// If that cannot be.
    #[track_caller]
    pub fn serve(&mut self) -> String {
        self.run.serve(&mut self.session).unwrap_or_else(|error| panic!("{error}"));
        self.run.label.clone()
    }

    /// The ELF file of guest `name`, with its symbols.
    #[must_use]
    pub fn symbols(&self, name: &str) -> PathBuf {
        self.scratch.0.join(name).join("kernel.elf")
    }

    fn hear(&mut self, bytes: &[u8]) {
        if let Some(console) = self.shown.as_ref().and_then(|name| self.consoles.get_mut(name)) {
            console.push_str(&String::from_utf8_lossy(bytes).replace('\r', ""));
            return;
        }
        for &byte in bytes {
            self.line.push(byte);
            if byte != b'\n' {
                continue;
            }
            let line = String::from_utf8_lossy(&self.line).replace(['\r', '\n'], "");
            self.line.clear();
            let Some((name, text)) = line.split_once("| ") else { continue };
            if let Some(console) = self.consoles.get_mut(name) {
                console.push_str(text);
                console.push('\n');
            }
        }
    }

    /// Waits until `look` finds something.
    ///
    /// # Panics
    /// If it does not, in a long time, with `what` that is.
    #[track_caller]
    pub fn until<T>(&mut self, what: &str, look: impl Fn(&Self) -> Option<T>) -> T {
        let deadline = Instant::now() + self.patience;
        loop {
            if let Some(found) = look(self) {
                return found;
            }
            assert!(!self.halted, "no {what} before the board was halted\n{}", self.tail());
            assert!(self.turn(deadline), "no {what} within {:?}\n{}", self.patience, self.tail());
        }
    }

    /// Asks the monitor again and again until `holds`, with rests: an answer of the monitor stops all guests, and
    /// whoever asks again at once leaves them next to nothing.
    ///
    /// # Panics
    /// If it does not in a long time, with `what` that is.
    #[track_caller]
    pub fn poll(&mut self, what: &str, mut holds: impl FnMut(&mut Self) -> bool) {
        let deadline = Instant::now() + self.patience;
        while !holds(self) {
            assert!(Instant::now() < deadline, "not {what} within {:?}\n{}", self.patience, self.tail());
            let rested = Instant::now() + REST;
            while Instant::now() < rested && self.turn(rested) {}
        }
    }

    /// Does something elsewhere while the board goes on.
    ///
    /// # Panics
    /// If that takes a long time.
    #[track_caller]
    pub fn meanwhile<T: Send + 'static>(&mut self, what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
        let work = std::thread::spawn(work);
        self.poll(what, |_| work.is_finished());
        work.join().expect(what)
    }

    /// Waits until guest `name` has printed a complete line that begins with `start`, at its `count`th, from 1, and
    /// gives it.
    #[track_caller]
    pub fn line(&mut self, name: &str, start: &str, count: usize) -> String {
        self.until(&format!("`{start}` from {name}"), |board| {
            let (complete, _) = board.consoles[name].rsplit_once('\n')?;
            complete.lines().filter(|line| line.starts_with(start)).nth(count - 1).map(str::to_string)
        })
    }

    /// Waits until Spica has said a line that begins with `start`, at its `count`th, from 1.
    #[track_caller]
    pub fn spica(&mut self, start: &str, count: usize) -> String {
        self.until(&format!("`{start}` from Spica"), |board| {
            board.spica.iter().filter(|line| line.starts_with(start)).nth(count - 1).cloned()
        })
    }

    /// Waits until all guests are off.
    #[track_caller]
    pub fn end(&mut self) {
        self.until("end of the board", |board| board.halted.then_some(()));
    }

    /// What guest `name` printed so far.
    #[must_use]
    pub fn console(&self, name: &str) -> &str {
        &self.consoles[name]
    }

    /// Types on the board's UART.
    pub fn type_keys(&mut self, keys: &str) {
        self.session.send(keys.as_bytes());
    }

    /// Shows only the guest of this name, which gets what is typed, or all.
    ///
    /// # Panics
    /// If there is no such guest.
    #[track_caller]
    pub fn show(&mut self, name: Option<&str>) {
        let answer = self.ask(&format!("console {}", name.unwrap_or("all")));
        assert_eq!(answer, Ok(Vec::new()));
        self.shown = name.map(str::to_string);
    }

    /// Asks the monitor: the lines of its answer, or its error.
    ///
    /// # Errors
    /// What the monitor says.
    ///
    /// # Panics
    /// If there is no answer.
    #[track_caller]
    pub fn ask(&mut self, command: &str) -> std::result::Result<Vec<String>, String> {
        let id = random_id().unwrap_or_else(|error| panic!("{error}"));
        self.filter.expect(&id);
        self.session.send(&[PROGRAM]);
        self.session.send(format!("@{id} {command}\n").as_bytes());
        let deadline = Instant::now() + self.patience;
        let mut lines = Vec::new();
        let end = loop {
            let Some(answer) = self.answers.pop_front() else {
                assert!(!self.halted, "no answer to `{command}` before the board was halted\n{}", self.tail());
                assert!(self.turn(deadline), "no answer to `{command}`\n{}", self.tail());
                continue;
            };
            assert_eq!(answer.id, id);
            match answer.end() {
                None => lines.push(answer.text),
                Some(end) => break end.map_err(str::to_string),
            }
        };
        self.filter.forget(&id);
        end.map(|()| lines)
    }

    /// Asks the monitor, which obeys.
    ///
    /// # Panics
    /// If it does not.
    #[track_caller]
    pub fn tell(&mut self, command: &str) -> Vec<String> {
        self.ask(command).unwrap_or_else(|problem| panic!("`{command}`: {problem}\n{}", self.tail()))
    }

    /// The state of guest `name`, in the monitor's word.
    #[track_caller]
    pub fn state(&mut self, name: &str) -> String {
        self.listed(name, 3)
    }

    /// What runs the kernel of guest `name`, in the monitor's word.
    #[track_caller]
    pub fn engine(&mut self, name: &str) -> String {
        self.listed(name, 7)
    }

    /// Word `at` of what `list` answers of guest `name`.
    #[track_caller]
    fn listed(&mut self, name: &str, at: usize) -> String {
        let list = self.tell("list");
        let words = list.iter().map(|line| line.split(' ').collect::<Vec<_>>()).find(|words| words[2] == name);
        words.unwrap_or_else(|| panic!("no {name} in {list:?}"))[at].to_string()
    }

    /// Guest `name`'s counters, from the monitor.
    #[track_caller]
    pub fn counters(&mut self, name: &str) -> BTreeMap<String, u64> {
        let prefix = format!("stat {name} ");
        counters(self.tell(&format!("stats {name}")).iter().filter_map(|line| line.strip_prefix(&prefix)))
    }

    /// Guest `name`'s counters at its end, for good.
    #[must_use]
    pub fn last_counters(&self, name: &str) -> BTreeMap<String, u64> {
        let start = format!("guest {name}: ");
        let report = self.spica.iter().skip_while(|line| !line.starts_with(&start)).skip(1);
        counters(report.take_while(|line| !line.starts_with("guest ")).filter_map(|line| line.strip_prefix("stat ")))
    }

    /// The end of all that was said, for a failed test to show.
    #[must_use]
    pub fn tail(&self) -> String {
        let mut text = String::new();
        for (name, console) in &self.consoles {
            let _ = writeln!(text, "{name} printed:\n{}", process::tail(console, 8));
        }
        let lines = self.spica.iter().filter(|line| !line.starts_with("stat "));
        for line in lines.take(60) {
            let _ = writeln!(text, "spica: {line}");
        }
        text
    }
}

fn counters<'a>(lines: impl Iterator<Item = &'a str>) -> BTreeMap<String, u64> {
    let pairs = lines.filter_map(|line| line.split_once(' '));
    pairs.filter_map(|(name, value)| Some((name.to_string(), value.parse().ok()?))).collect()
}

/// The number behind ` NAME=` in a guest's line.
///
/// # Panics
/// If there is none.
#[must_use]
#[track_caller]
pub fn value(line: &str, name: &str) -> u32 {
    bare::value(line, name).unwrap_or_else(|| panic!("no {name} in {line:?}"))
}
