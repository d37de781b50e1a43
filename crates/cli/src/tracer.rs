//! Timelines of a running board: records are read from it by questions to the monitor, and written when enough have come
//! or the board has gone.

use std::fs::File;
use std::io::BufWriter;
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

use crate::tasks::Tasks;

/// The time between two questions, if there was little to read.
const REST: Duration = Duration::from_millis(50);
/// That many records are no longer little.
const MUCH: usize = 2000;
/// Records of a recording at most: half a gigabyte.
const MOST: usize = 20_000_000;
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
        std::io::Write::write_all(&mut &self.file, page.as_bytes()).context(problem)
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
    /// The board has gone, or does not answer: what is known of that.
    Gone(String),
    /// It was long enough.
    Full,
}

impl Tracer {
    /// Has the board record what its guests do from now on, or from its start on if it does already for whoever comes.
    ///
    /// # Errors
    /// If it does for somebody else, or has gone.
    pub fn start(mut board: Board) -> Result<Self> {
        let lines = board.ask("trace start")?;
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

    /// Records until `until`, or the board goes.
    ///
    /// # Errors
    /// If the board says what is not understood.
    pub fn record(&mut self, until: Option<Instant>) -> Result<End> {
        loop {
            let count = match self.unless_gone(Self::read)? {
                Ok(count) => count,
                Err(problem) => return Ok(End::Gone(problem)),
            };
            if self.recording.records.len() >= MOST {
                return Ok(End::Full);
            }
            let left = until.map_or(REST, |until| until.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                break;
            }
            if count < MUCH {
                std::thread::sleep(left.min(REST));
            }
        }
        // What is in the ring by now is read, too.
        let stop = |tracer: &mut Self| tracer.board.ask("trace stop");
        Ok(match (self.unless_gone(stop)?, self.unless_gone(Self::read)?) {
            (Ok(_), Ok(_)) => {
                self.tasks.read(&mut self.board);
                while self.tasks.has_more() {
                    self.tasks.read(&mut self.board);
                }
                End::Time
            }
            (Err(problem), _) | (_, Err(problem)) => End::Gone(problem),
        })
    }

    /// What was asked, or why it was in vain: then what came so far is kept.
    fn unless_gone<R>(&mut self, ask: impl FnOnce(&mut Self) -> Result<R>) -> Result<std::result::Result<R, String>> {
        match ask(self) {
            Ok(answer) => Ok(Ok(answer)),
            Err(error) if error.message == NOT_UNDERSTOOD => Err(error),
            Err(error) => Ok(Err(error.message)),
        }
    }

    /// What was recorded.
    #[must_use]
    pub fn into_recording(self) -> Recording {
        Recording { names: self.tasks.names, ..self.recording }
    }
}

const NOT_UNDERSTOOD: &str = "the board answered what this version does not understand";

fn not_understood() -> Error {
    Error::failed(NOT_UNDERSTOOD)
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
    thread: JoinHandle<Result<Recording>>,
    output: Option<Output>,
}

/// Records the run of that name, which this process is about to start, from its beginning to its end.
#[must_use]
pub fn beside(project: &Project, run: &str, output: Output) -> Beside {
    let ended = Arc::new(AtomicBool::new(false));
    let (project, run, over) = (project.clone(), run.to_string(), ended.clone());
    let thread = std::thread::spawn(move || {
        let board = loop {
            match Board::find(&project, Some(&run)) {
                Ok(board) => break board,
                Err(error) if over.load(Ordering::SeqCst) => return Err(error),
                Err(_) => std::thread::sleep(REST),
            }
        };
        let mut tracer = Tracer::start(board)?;
        let end = tracer.record(None)?;
        if !over.load(Ordering::SeqCst) && end != End::Full {
            progress::say(format_args!("the recording has ended before the run: {end:?}"));
        }
        Ok(tracer.into_recording())
    });
    Beside { ended, thread, output: Some(output) }
}

impl Beside {
    /// The run has ended: what came of it, which is not written.
    ///
    /// # Errors
    /// If nothing did.
    pub fn end(self) -> Result<Recording> {
        self.ended.store(true, Ordering::SeqCst);
        self.thread.join().map_err(|_| Error::failed("the recording has failed"))?
    }

    /// The same, and writes it.
    ///
    /// # Errors
    /// If nothing came of it, or the file cannot be written.
    pub fn finish(mut self) -> Result<()> {
        let outputs = self.output.take().into_iter().collect();
        eprint!("{}", write(&self.end()?, None, outputs)?);
        Ok(())
    }
}
