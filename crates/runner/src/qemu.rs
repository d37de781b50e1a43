//! One run of QEMU: the process, and its console as a sequence of events.
//!
//! QEMU's serial port is its standard input and output, and both are pipes that we hold: no key has a meaning to QEMU,
//! and nothing reaches the terminal that we did not let through. Everything happens on one thread, in
//! [`Session::next`], which waits for whatever comes first.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use crate::board::Board;
use crate::console::{Ending, Lines, Piece, Splitter, Tail};
use crate::control::answers::{Answer, Filter, PROGRAM, random_id};
use crate::control::server::{Action, Server};
use crate::error::{Context, Error, Result};
use crate::progress;

mod launch;

pub use launch::{Boot, Channels, Plugin};

/// How long bytes at the start of a line are held back that might become a line of Spica's.
const PATIENCE: Duration = Duration::from_millis(50);
/// The same of bytes that have all of what Spica's lines begin with: an emulator that is not given the processor may
/// stop for long in the middle of an answer's name, and the line would be lost.
const LONG_PATIENCE: Duration = Duration::from_secs(5);

/// Something that happened in a session.
#[derive(Clone, Debug)]
pub enum Event {
    /// The guest wrote.
    Guest(Vec<u8>),
    /// Spica wrote a line.
    Spica(String),
    /// The kernel wrote a line that means its end.
    Ending(Ending),
    /// Standard input had bytes; none means that it ended.
    Input(Vec<u8>),
    /// QEMU ended.
    Exited(ExitStatus),
    /// The time was up before anything happened.
    Quiet,
}

/// A running board. Dropping it ends QEMU.
#[derive(Debug)]
pub struct Session {
    child: Option<Child>,
    stdin: File,
    stdout: Option<File>,
    stderr: Option<File>,
    said: Tail,
    filter: Filter,
    splitter: Splitter,
    lines: Lines,
    console: Tail,
    log: Option<File>,
    events: VecDeque<Event>,
    outgoing: VecDeque<u8>,
    server: Option<Server>,
    /// Answers that have come while nobody is served.
    answers: Vec<Answer>,
    /// The board has printed something: it hears what is typed.
    speaks: bool,
}

impl Session {
    /// Starts a board. The whole console is written to `log`, too, if there is one.
    ///
    /// # Errors
    /// If QEMU cannot be started or the log not be written.
    pub fn start(board: &Board, boot: &Boot<'_>, log: Option<&Path>, verbose: bool) -> Result<Self> {
        Self::launch(boot.command(board), boot.debug, log, verbose)
    }

    /// Starts QEMU as `command` says, whose board's UART must be its standard input and output.
    ///
    /// # Errors
    /// As [`Session::start`].
    pub fn launch(command: Command, debug: Option<Channels<'_>>, log: Option<&Path>, verbose: bool) -> Result<Self> {
        if verbose {
            progress::say(format_args!("{command:?}"));
        }
        let log = log.map(output_file).transpose()?;
        let mut child = launch::spawn(command, debug)?;
        let pipes = child.stdin.take().zip(child.stdout.take()).zip(child.stderr.take());
        let ((stdin, stdout), stderr) = pipes.ok_or_else(|| Error::failed("QEMU has no pipes"))?;
        Self::over(Some(child), stdin.into(), stdout.into(), Some(stderr.into()), log)
    }

    /// A session over a board's UART, wherever that is: `to` takes what is typed, `from` gives what is printed.
    ///
    /// # Errors
    /// If they cannot be made not to block.
    pub fn over(
        child: Option<Child>,
        to: OwnedFd,
        from: OwnedFd,
        stderr: Option<OwnedFd>,
        log: Option<File>,
    ) -> Result<Self> {
        for fd in [Some(&to), Some(&from), stderr.as_ref()].into_iter().flatten() {
            let flags = fcntl_getfl(fd).context(|| "cannot talk to the board")?;
            fcntl_setfl(fd, flags | OFlags::NONBLOCK).context(|| "cannot talk to the board")?;
        }
        Ok(Self {
            child,
            stdin: to.into(),
            stdout: Some(from.into()),
            stderr: stderr.map(Into::into),
            said: Tail::default(),
            filter: Filter::default(),
            splitter: Splitter::default(),
            lines: Lines::default(),
            console: Tail::default(),
            log,
            events: VecDeque::new(),
            outgoing: VecDeque::new(),
            server: None,
            answers: Vec::new(),
            speaks: false,
        })
    }

    /// From now on, serves those who connect to the control socket.
    pub fn serve(&mut self, server: Server) {
        self.server = Some(server);
    }

    fn ask(&mut self, id: &str, command: &str) {
        self.filter.expect(id);
        self.outgoing.push_back(PROGRAM);
        self.outgoing.extend(format!("@{id} {command}\n").bytes());
    }

    /// Asks the board, before others are served: its answer, or nothing if it has none until `deadline`. What else it
    /// prints meanwhile comes as events later.
    ///
    /// # Errors
    /// If the board does not do what it is asked, or is lost.
    pub fn question(&mut self, command: &str, deadline: Instant) -> Result<Option<Vec<String>>> {
        let id = random_id()?;
        self.ask(&id, command);
        let mut lines = Vec::new();
        while Instant::now() < deadline && self.stdout.is_some() {
            self.wait(None, Some(deadline), None)?;
            for answer in std::mem::take(&mut self.answers).into_iter().filter(|answer| answer.id == id) {
                match answer.end() {
                    Some(Ok(())) => return Ok(Some(lines)),
                    Some(Err(message)) => return Err(Error::failed(message)),
                    None => lines.push(answer.text),
                }
            }
        }
        self.filter.forget(&id);
        Ok(None)
    }

    /// Types bytes on the board's UART.
    pub fn send(&mut self, bytes: &[u8]) {
        self.outgoing.extend(bytes);
    }

    /// The next event, or [`Event::Quiet`] when there was none until `deadline`. With `input`, bytes from there are
    /// events, too.
    ///
    /// # Errors
    /// If the pipes fail, or the log.
    pub fn next(&mut self, input: Option<BorrowedFd<'_>>, deadline: Option<Instant>) -> Result<Event> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Ok(event);
            }
            let now = Instant::now();
            if deadline.is_some_and(|d| now >= d) {
                return Ok(Event::Quiet);
            }
            if self.stdout.is_none() && self.stderr.is_none() {
                let status = self.child.as_mut().map(Child::wait).transpose().context(|| "cannot wait for QEMU")?;
                return Ok(Event::Exited(status.unwrap_or_default()));
            }
            let patience = if self.filter.holds_prefix() { LONG_PATIENCE } else { PATIENCE };
            let patience = (self.splitter.holds() || self.filter.holds()).then(|| now + patience);
            let control = self.server.as_ref().and_then(Server::deadline);
            self.wait(input, [deadline, patience, control].into_iter().flatten().min(), patience)?;
            self.control()?;
        }
    }

    /// Waits once for any of the descriptors, and moves what they have.
    fn wait(&mut self, input: Option<BorrowedFd<'_>>, until: Option<Instant>, patience: Option<Instant>) -> Result<()> {
        let sending = !self.outgoing.is_empty();
        let timeout = until.map(|u| u.saturating_duration_since(Instant::now()));
        let timeout = timeout.map(|t| Timespec { tv_sec: t.as_secs().cast_signed(), tv_nsec: t.subsec_nanos().into() });
        let [mut out_ready, mut err_ready, mut in_ready, mut input_ready] = [false; 4];
        {
            let sources = [
                (self.stdout.as_ref().map(AsFd::as_fd), PollFlags::IN, &mut out_ready),
                (self.stderr.as_ref().map(AsFd::as_fd), PollFlags::IN, &mut err_ready),
                (sending.then(|| self.stdin.as_fd()), PollFlags::OUT, &mut in_ready),
                (input, PollFlags::IN, &mut input_ready),
            ];
            let (mut fds, mut flags) = (Vec::new(), Vec::new());
            for (fd, events, ready) in sources {
                if let Some(fd) = fd {
                    fds.push(PollFd::from_borrowed_fd(fd, events));
                    flags.push(ready);
                }
            }
            let control = self.server.iter().flat_map(Server::waits_for);
            fds.extend(control.map(|(fd, events)| PollFd::from_borrowed_fd(fd, events)));
            match poll(&mut fds, timeout.as_ref()) {
                Err(rustix::io::Errno::INTR) => {}
                result => drop(result.context(|| "cannot wait for the board")?),
            }
            for (fd, ready) in fds.iter().zip(flags) {
                *ready = !fd.revents().is_empty();
            }
        }

        let mut buffer = [0; 16 << 10];
        if err_ready {
            match read_some(self.stderr.as_mut(), &mut buffer)? {
                Some(0) => self.stderr = None,
                Some(n) => self.said.feed(&buffer[..n]),
                None => {}
            }
        }
        if out_ready {
            match read_some(self.stdout.as_mut(), &mut buffer)? {
                Some(0) => {
                    self.stdout = None;
                    self.flush();
                }
                Some(n) => {
                    if let Some(log) = &mut self.log {
                        log.write_all(&buffer[..n]).context(|| "cannot write the log")?;
                    }
                    self.console.feed(&buffer[..n]);
                    self.speaks = true;
                    let (rest, answers) = self.filter.feed(&buffer[..n]);
                    match &mut self.server {
                        Some(server) => answers.iter().for_each(|answer| server.answer(answer)),
                        None => self.answers.extend(answers),
                    }
                    self.console_bytes(&rest);
                }
                None => {}
            }
        } else if patience.is_some_and(|p| Instant::now() >= p) {
            self.flush();
        }
        if in_ready {
            let (first, _) = self.outgoing.as_slices();
            match self.stdin.write(first) {
                Ok(n) => drop(self.outgoing.drain(..n)),
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                // QEMU has ended, which its output will say.
                Err(_) => self.outgoing.clear(),
            }
        }
        if let Some(fd) = input.filter(|_| input_ready) {
            match rustix::io::read(fd, &mut buffer) {
                Ok(n) => self.events.push_back(Event::Input(buffer[..n].to_vec())),
                Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {}
                Err(_) => self.events.push_back(Event::Input(Vec::new())),
            }
        }
        Ok(())
    }

    /// Does what those want who are connected to the control socket.
    fn control(&mut self) -> Result<()> {
        let Some(server) = &mut self.server else { return Ok(()) };
        for action in server.turn(self.speaks)? {
            match action {
                Action::Ask { id, command } => self.ask(&id, &command),
                Action::Forget(id) => self.filter.forget(&id),
                Action::Type(bytes) => self.send(&bytes),
            }
        }
        Ok(())
    }

    /// Makes events of the next bytes of the console's stream.
    fn console_bytes(&mut self, bytes: &[u8]) {
        if let Some(server) = &mut self.server {
            server.console(bytes);
        }
        self.splitter.feed(bytes).into_iter().for_each(|piece| self.take(Some(piece)));
    }

    /// Gives up waiting for what may come behind bytes that were held back.
    fn flush(&mut self) {
        let bytes = self.filter.flush();
        self.console_bytes(&bytes);
        self.take(None);
    }

    /// Makes events of a piece of the console's stream; without one, of what was held back.
    fn take(&mut self, piece: Option<Piece>) {
        match piece.or_else(|| self.splitter.flush()) {
            Some(Piece::Guest(bytes)) => {
                let mut endings = Vec::new();
                self.lines.feed(&bytes, |line| endings.extend(Ending::of_line(line)));
                self.events.push_back(Event::Guest(bytes));
                self.events.extend(endings.into_iter().map(Event::Ending));
            }
            Some(Piece::Spica(line)) => self.events.push_back(Event::Spica(line)),
            None => {}
        }
    }

    /// The last lines of the console.
    #[must_use]
    pub fn console(&self, count: usize) -> String {
        self.console.lines(count)
    }

    /// What QEMU itself had to say.
    #[must_use]
    pub fn said(&self) -> String {
        self.said.lines(10)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // Both fail only if it has ended.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Opens a file to be written anew. A pipe that nobody reads is an error, where it would make us wait for somebody.
///
/// # Errors
/// If it cannot be written.
pub fn output_file(path: &Path) -> Result<File> {
    let problem = || format!("cannot write {}", path.display());
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().write(true).create(true).truncate(true).custom_flags(flags).open(path);
    if matches!(&file, Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error())) {
        return Err(Error::failed(format!("{}: it is a pipe or socket, and nobody reads there", problem())));
    }
    let file = file.context(problem)?;
    let flags = fcntl_getfl(&file).context(problem)?;
    fcntl_setfl(&file, flags - OFlags::NONBLOCK).context(problem)?;
    Ok(file)
}

/// Reads what there is: `Some(0)` is the end, `None` that there is nothing now.
fn read_some(source: Option<&mut impl Read>, buffer: &mut [u8]) -> Result<Option<usize>> {
    let Some(source) = source else { return Ok(None) };
    match source.read(buffer) {
        Ok(n) => Ok(Some(n)),
        Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(None),
        Err(e) => Err(Error::failed(format!("cannot read from the board: {e}"))),
    }
}

#[cfg(test)]
mod tests {
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    #[test]
    fn a_log_waits_for_nobody() {
        let dir = std::env::temp_dir().join(format!("spica-log-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
        let (fifo, file) = (dir.join("fifo"), dir.join("file"));
        mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let error = output_file(&fifo).unwrap_err().message;
        let expected = format!("cannot write {}: it is a pipe or socket, and nobody reads there", fifo.display());
        assert_eq!(error, expected);
        // With a reader, writing waits until there is room: nothing is lost.
        let reader = OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(&fifo);
        let log = output_file(&fifo).unwrap();
        assert!(!fcntl_getfl(&log).unwrap().contains(OFlags::NONBLOCK));
        drop(reader);
        std::fs::write(&file, b"old").unwrap();
        drop(output_file(&file).unwrap());
        assert_eq!(std::fs::read(&file).unwrap(), b"");
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
