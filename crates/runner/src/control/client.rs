//! The other end of the control socket: finds the run that is meant, and asks it.

use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::server::Who;
use super::socket;
use crate::error::{Context, Error, Result};
use crate::names::{self, Names};
use crate::project::Project;

/// How long a run may take to say who it is. It need not ask its board for that.
const GREETING: Duration = Duration::from_secs(5);

/// A connection to a running board.
#[derive(Debug)]
pub struct Board {
    /// Who runs there.
    pub who: Who,
    /// The process of that run.
    pub pid: u32,
    /// Where its socket is.
    directory: PathBuf,
    stream: BufReader<UnixStream>,
}

impl Board {
    /// The running board; of several, the one that `wanted` names or whose process ID that is.
    ///
    /// # Errors
    /// If there is none, or more than one: those that there are.
    pub fn find(project: &Project, wanted: Option<&str>) -> Result<Self> {
        Self::find_in(&project.build("run"), wanted)
    }

    pub(super) fn find_in(runs: &Path, wanted: Option<&str>) -> Result<Self> {
        let directories = std::fs::read_dir(runs).into_iter().flatten().flatten();
        // What a run left that was killed does not answer.
        let mut boards: Vec<_> = directories.filter_map(|d| Self::connect(&d.path()).ok()).collect();
        boards.sort_by_key(|b| b.pid);
        let list = |boards: &[Self]| boards.iter().map(Self::describe).collect::<Vec<_>>().join("; ");
        let chosen = |b: &Self| wanted.is_none_or(|w| b.who.run == w || b.pid.to_string() == w);
        let all = list(&boards);
        let none = boards.is_empty();
        boards.retain(chosen);
        match (boards.pop(), wanted) {
            (Some(board), _) if boards.is_empty() => Ok(board),
            (Some(board), _) => {
                boards.push(board);
                let (count, all) = (boards.len(), list(&boards));
                Err(Error::usage(format!("{count} boards are running: {all}; choose one with --run NAME or --run PID")))
            }
            (None, Some(wanted)) if !none => Err(Error::usage(format!("no run is called {wanted:?}; running: {all}"))),
            (None, _) => Err(Error::failed("no board is running; `spica run` starts one, in another terminal")),
        }
    }

    fn describe(&self) -> String {
        let Who { run, board, guests } = &self.who;
        format!("{run} (process {}, {board}: {})", self.pid, guests.join(", "))
    }

    /// The names of the functions of its guests' kernels, for their reports.
    #[must_use]
    pub fn function_names(&self) -> Names {
        Names::of(names::bundle_in(&self.directory))
    }

    /// Another connection to the same board.
    ///
    /// # Errors
    /// If it has gone.
    pub fn another(&self) -> Result<Self> {
        Self::connect(&self.directory)
    }

    fn connect(directory: &Path) -> Result<Self> {
        let no = || format!("{} does not answer", directory.display());
        let stream = socket::connect(directory).context(no)?;
        stream.set_read_timeout(Some(GREETING)).context(no)?;
        let who = Who { run: String::new(), board: String::new(), guests: Vec::new() };
        let mut board = Self { who, pid: 0, directory: directory.to_path_buf(), stream: BufReader::new(stream) };
        let lines = board.ask("who")?;
        let mut words = lines.first().map(String::as_str).unwrap_or_default().split(' ').skip(1).map(str::to_string);
        let mut word = || words.next().ok_or_else(|| Error::failed(no()));
        board.who.run = word()?;
        board.pid = word()?.parse().map_err(|_| Error::failed(no()))?;
        board.who.board = word()?;
        board.who.guests = words.collect();
        board.stream.get_ref().set_read_timeout(None).context(no)?;
        Ok(board)
    }

    /// Asks the board, and gives the lines of its answer without the last one.
    ///
    /// # Errors
    /// What the board says is wrong, or if it ends.
    pub fn ask(&mut self, command: &str) -> Result<Vec<String>> {
        self.begin(command)?;
        self.end()
    }

    /// Asks the board something that it may take long to answer: [`Self::end`] has the answer.
    ///
    /// # Errors
    /// If the board has gone.
    pub fn begin(&mut self, command: &str) -> Result<()> {
        self.stream.get_mut().write_all(format!("{command}\n").as_bytes()).map_err(|_| gone())
    }

    /// What can be read when an answer begins.
    #[must_use]
    pub fn waits_for(&self) -> BorrowedFd<'_> {
        self.stream.get_ref().as_fd()
    }

    /// Takes the answer to the last question, as [`Self::ask`].
    ///
    /// # Errors
    /// What the board says is wrong, or if it ends.
    pub fn end(&mut self) -> Result<Vec<String>> {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            match self.stream.read_line(&mut line) {
                Ok(n) if n > 0 => {}
                _ => return Err(gone()),
            }
            let line = line.trim_end_matches('\n');
            match line.split_once(' ') {
                None if line == "ok" => return Ok(lines),
                Some(("error", message)) => return Err(Error::failed(message)),
                _ => lines.push(line.to_string()),
            }
        }
    }

    /// Makes this connection a terminal of the board's, on which `guest` is shown. Gives the lines that the guest
    /// printed last, and the connection: what is written there is typed, and what the board prints is read there.
    ///
    /// # Errors
    /// If there is no such guest, or another terminal is one already.
    pub fn attach(mut self, guest: &str) -> Result<(Vec<String>, BufReader<UnixStream>)> {
        // The log of all would be a riddle.
        let log = if guest == "all" { Vec::new() } else { self.ask(&format!("log {guest}"))? };
        self.ask(&format!("attach {guest}"))?;
        let log = log.iter().map(|line| line.strip_prefix("log ").unwrap_or("").to_string()).collect();
        Ok((log, self.stream))
    }

    /// The connection itself, once it is a terminal.
    #[cfg(test)]
    pub(super) fn terminal(&mut self) -> &mut UnixStream {
        self.stream.get_mut()
    }
}

fn gone() -> Error {
    Error::failed("the board was switched off before it had answered")
}
