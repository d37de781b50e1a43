//! Timelines of a running board: records are read from it by questions to the monitor, and written when enough have
//! come, the board has gone, or a signal asks this process to end.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use spica_console::base64;
use spica_runner::control::client::Board;
use spica_runner::error::{Context, Error, Result};
use spica_runner::progress::{self, Step};
use spica_runner::project::Project;
use spica_runner::qemu;
use spica_trace::{Recording, Timeline, page, perfetto, summary};
use spica_trace_ring::record::TASK;
use spica_trace_ring::wire;

use crate::attached::not_understood;
use crate::signals::Signals;
use crate::tasks::Tasks;

/// The time between two questions, if there was little to read.
const REST: Duration = Duration::from_millis(50);
/// That many records are no longer little.
const MUCH: usize = 2000;
/// Records of a recording at most: as a timeline, they take some 1.5 GB.
const MOST: usize = 5_000_000;
/// How long names are read for, once the recording has ended, and how long a board that has gone may take to be said
/// so.
const PATIENCE: Duration = Duration::from_secs(1);
/// Lines of the summary for each guest.
const LINES: usize = 12;

/// A file for a timeline, which can be written.
pub struct Output {
    path: PathBuf,
    file: File,
}

impl Output {
    /// Makes the file, so that nobody waits for a recording that cannot be written.
    ///
    /// # Errors
    /// If that cannot be.
    pub fn create(path: PathBuf) -> Result<Self> {
        let file = qemu::output_file(&path)?;
        Ok(Self { path, file })
    }

    /// Writes a timeline: as a page, or for Perfetto.
    fn write(self, timeline: &Timeline) -> Result<()> {
        let problem = || format!("cannot write {}", self.path.display());
        let is_page = self.path.extension().is_some_and(|extension| extension == "html" || extension == "htm");
        if !is_page {
            return perfetto::write(timeline, BufWriter::new(self.file)).context(problem);
        }
        let page = page::write(timeline).map_err(std::io::Error::from).context(problem)?;
        (&self.file).write_all(page.as_bytes()).context(problem)
    }
}

/// A recording under way.
pub struct Tracer {
    board: Board,
    recording: Recording,
    tasks: Tasks,
}

/// Why a recording has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The time was up.
    Time,
    /// Somebody wanted it to end.
    Asked,
    /// The board has gone, or does not answer: what is known of that.
    Gone(String),
    /// It was long enough.
    Full,
}

impl End {
    /// Says why a recording that began at `begun` has ended, if that was not because the time was up.
    pub fn say(&self, begun: Instant) {
        let passed = begun.elapsed().as_millis();
        match self {
            End::Time => {}
            End::Asked => eprintln!("spica: stopped after {passed} ms"),
            End::Gone(problem) => eprintln!("spica: after {passed} ms: {problem}"),
            End::Full => eprintln!("spica: the recording was full after {passed} ms"),
        }
    }
}

impl Tracer {
    /// Has the board record what its guests do from now on, or from its start on if it does already for whoever comes.
    ///
    /// # Errors
    /// If it does for somebody else, or has gone.
    pub fn start(board: Board) -> Result<Self> {
        Self::ask(board, "trace start")
    }

    /// Has the board record the system calls of guest number `guest`, and nothing else ([`spica_trace::calls`]).
    ///
    /// # Errors
    /// If it records already, or has gone.
    pub fn start_calls(board: Board, guest: usize) -> Result<Self> {
        Self::ask(board, &format!("trace calls {guest}"))
    }

    fn ask(mut board: Board, question: &str) -> Result<Self> {
        let lines = board.ask(question)?;
        let hertz = lines.first().and_then(|line| line.strip_prefix("clock ")?.split(' ').next()?.parse().ok());
        let hertz = hertz.ok_or_else(not_understood)?;
        let guests = board.who.guests.clone();
        Ok(Self { board, recording: Recording { hertz, guests, ..Recording::default() }, tasks: Tasks::default() })
    }

    /// Reads what was recorded since the last time; how much that was.
    ///
    /// # Errors
    /// If the board has gone.
    fn read(&mut self) -> Result<usize> {
        // Of tasks that were seen the last time: by now, most have the names that they keep.
        self.tasks.read(&mut self.board);
        let before = self.recording.records.len();
        for line in self.board.ask("trace read")? {
            let piece = line.strip_prefix("records ").and_then(base64::decode);
            self.recording.records.extend(piece.and_then(|piece| wire::read(&piece)).ok_or_else(not_understood)?);
        }
        for (_, record) in self.recording.records[before..].iter().filter(|(_, record)| record.kind == TASK) {
            self.tasks.note(record.guest.into(), record.argument);
        }
        Ok(self.recording.records.len() - before)
    }

    /// Records until `until`, or `stop` holds, or the board goes or says what is not understood. What came by then is
    /// kept.
    pub fn record(&mut self, until: Option<Instant>, stop: &dyn Fn() -> bool) -> End {
        self.record_until(until, stop).unwrap_or_else(|error| End::Gone(error.message))
    }

    fn record_until(&mut self, until: Option<Instant>, stop: &dyn Fn() -> bool) -> Result<End> {
        let end = loop {
            let count = self.read()?;
            if self.recording.records.len() >= MOST {
                break End::Full;
            }
            if stop() {
                break End::Asked;
            }
            let left = until.map_or(REST, |until| until.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                break End::Time;
            }
            if count < MUCH {
                std::thread::sleep(left.min(REST));
            }
        };
        self.board.ask("trace stop")?;
        // What is in the ring by now is read, too, and who it was.
        self.read()?;
        let patience = Instant::now() + PATIENCE;
        self.tasks.read(&mut self.board);
        while self.tasks.has_more() && Instant::now() < patience {
            self.tasks.read(&mut self.board);
        }
        Ok(end)
    }

    /// What was recorded.
    #[must_use]
    pub fn into_recording(self) -> Recording {
        Recording { names: self.tasks.names, ..self.recording }
    }
}

/// Writes what was recorded, of one guest alone if that is said; gives what there is to say of it, in lines.
///
/// # Errors
/// If nothing was recorded, or a file cannot be written.
pub fn write(recording: &Recording, only: Option<usize>, outputs: Vec<Output>) -> Result<String> {
    if recording.records.is_empty() {
        return Err(Error::failed("nothing was recorded"));
    }
    let step = Step::begin("writing the timeline");
    let timeline = Timeline::new(recording, only);
    let mut text = summary::text(&timeline, LINES);
    for output in outputs {
        let path = output.path.display().to_string();
        output.write(&timeline)?;
        text += &format!("{path}: {} of guests' time", summary::seconds(timeline.nanoseconds(timeline.range.1)));
        text += &format!(", {} spans and points\n", timeline.len());
    }
    drop(step);
    if timeline.lost != 0 {
        text += &format!(
            "{} of {} records were lost: guests did more than the serial line carries\n",
            timeline.lost,
            timeline.lost + recording.records.len() as u64
        );
    }
    Ok(text)
}

/// A recording beside a run of this process.
pub struct Beside {
    ended: Arc<AtomicBool>,
    signals: Signals,
    thread: JoinHandle<(Result<Recording>, Output)>,
}

/// Records the run of that name, which this process is about to start, from its beginning to its end. A signal that
/// asks this process to end does so when what came by then is written.
///
/// # Errors
/// If the system has no threads or signals for that.
pub fn beside(project: &Project, run: &str, output: Output) -> Result<Beside> {
    let problem = || "cannot record beside the run";
    let signals = Signals::keep().context(problem)?;
    let ended = Arc::new(AtomicBool::new(false));
    let (project, run, over, asked) = (project.clone(), run.to_string(), ended.clone(), signals.clone());
    let record = move || {
        let is_over = || over.load(Ordering::SeqCst);
        let recording = record_run(&project, &run, &is_over, &|| asked.has_come());
        // Nobody else obeys signals.
        while !is_over() && !asked.has_come() {
            std::thread::sleep(REST);
        }
        if !asked.has_come() {
            return (recording, output);
        }
        let written = recording.and_then(|recording| write(&recording, None, vec![output]));
        let mut out = std::io::stderr();
        // There may be no terminal any more.
        let _ = match written {
            Ok(text) => write!(out, "{text}"),
            Err(error) => writeln!(out, "spica: {error}"),
        };
        asked.obey();
        std::process::exit(1)
    };
    let thread = std::thread::Builder::new().spawn(record).context(problem)?;
    Ok(Beside { ended, signals, thread })
}

fn record_run(project: &Project, run: &str, is_over: &dyn Fn() -> bool, stop: &dyn Fn() -> bool) -> Result<Recording> {
    let board = loop {
        match Board::find(project, Some(run)) {
            Ok(board) => break board,
            Err(error) if is_over() || stop() => return Err(error),
            Err(_) => std::thread::sleep(REST),
        }
    };
    let mut tracer = Tracer::start(board)?;
    match tracer.record(None, stop) {
        End::Full => progress::say("the recording is full, and ends before the run"),
        End::Gone(problem) => {
            // As a rule it is the run that ends, which is soon said.
            let patience = Instant::now() + PATIENCE;
            while !is_over() && !stop() && Instant::now() < patience {
                std::thread::sleep(REST);
            }
            if !is_over() && !stop() {
                progress::say(format_args!("the recording ends before the run: {problem}"));
            }
        }
        End::Time | End::Asked => {}
    }
    Ok(tracer.into_recording())
}

impl Beside {
    /// The run has ended: what came of it, which is not written.
    ///
    /// # Errors
    /// If nothing did.
    pub fn end(self) -> Result<Recording> {
        self.join().0
    }

    /// The same, and writes it.
    ///
    /// # Errors
    /// If nothing came of it, or the file cannot be written.
    pub fn finish(self) -> Result<()> {
        let signals = self.signals.clone();
        let (recording, output) = self.join();
        eprint!("{}", write(&recording?, None, vec![output])?);
        signals.obey();
        Ok(())
    }

    fn join(self) -> (Result<Recording>, Output) {
        self.ended.store(true, Ordering::SeqCst);
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}
