//! The other end of the control socket: finds the run that is meant, and asks it.

use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};

use super::server::Who;
use super::socket;
use crate::error::{Context, Error, Result};
use crate::interactive::{Keys, RawMode};
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

    fn connect(directory: &Path) -> Result<Self> {
        let no = || format!("{} does not answer", directory.display());
        let stream = socket::connect(directory).context(no)?;
        stream.set_read_timeout(Some(GREETING)).context(no)?;
        let who = Who { run: String::new(), board: String::new(), guests: Vec::new() };
        let mut board = Self { who, pid: 0, stream: BufReader::new(stream) };
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
        let gone = || Error::failed("the board was switched off before it had answered");
        self.stream.get_mut().write_all(format!("{command}\n").as_bytes()).map_err(|_| gone())?;
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

    /// Makes this terminal one of the board's, on which `guest` is shown, until the user or the board leaves.
    ///
    /// # Errors
    /// If there is no such guest, or another terminal is one already.
    pub fn attach(mut self, guest: &str) -> Result<()> {
        // The log of all would be a riddle.
        let log = if guest == "all" { Vec::new() } else { self.ask(&format!("log {guest}"))? };
        self.ask(&format!("attach {guest}"))?;
        let stdin = std::io::stdin();
        let raw = RawMode::of_terminal()?;
        eprint!("spica: the console of {guest}; Ctrl-A x leaves{}", RawMode::end_of_line(raw.as_ref()));
        let log: Vec<_> = log.iter().map(|line| line.strip_prefix("log ").unwrap_or("")).collect();
        self.pass(log.join(RawMode::end_of_line(raw.as_ref())).as_bytes())?;

        let mut keys = Keys::default();
        let mut input = Some(stdin.as_fd());
        let mut buffer = [0; 4096];
        loop {
            let board = self.stream.buffer().to_vec();
            if !board.is_empty() {
                self.pass(&board)?;
                self.stream.consume(board.len());
            }
            let mut fds = vec![PollFd::new(self.stream.get_ref(), PollFlags::IN)];
            fds.extend(input.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)));
            match poll(&mut fds, None) {
                Err(rustix::io::Errno::INTR) => continue,
                result => drop(result.context(|| "cannot wait for the board")?),
            }
            let ready: Vec<_> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
            if ready[0] && !self.stream.fill_buf().is_ok_and(|bytes| !bytes.is_empty()) {
                drop(raw);
                eprintln!("\nspica: the board was switched off");
                return Ok(());
            }
            if let Some(fd) = input.filter(|_| ready[1]) {
                let count = rustix::io::read(fd, &mut buffer).unwrap_or(0);
                if count == 0 {
                    input = None;
                }
                let Some(bytes) = keys.translate(&buffer[..count]) else { break };
                // If the board has gone, the next read says so.
                let _ = self.stream.get_mut().write_all(&bytes);
            }
        }
        drop(raw);
        eprintln!();
        Ok(())
    }

    /// The connection itself, once it is a terminal.
    #[cfg(test)]
    pub(super) fn terminal(&mut self) -> &mut UnixStream {
        self.stream.get_mut()
    }

    fn pass(&self, bytes: &[u8]) -> Result<()> {
        let mut out = std::io::stdout();
        out.write_all(bytes).and_then(|()| out.flush()).context(|| "cannot write to the terminal")
    }
}
