//! The running board's end of the control socket.
//!
//! A part of the one loop in which everything happens ([`crate::qemu::Session::next`]): nothing here waits.
//! [`Server::turn`] moves what can be moved, and says what is to be typed on the board's UART.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;

use super::answers::{Answer, random_id};
use super::socket;
use crate::error::{Context, Result};

/// How long a board may take to answer. Boards are emulated, and the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(30);
/// The longest command.
const LINE: usize = 200;
/// The longest one of a debugger's, which may have a page of memory in it.
const LONG_LINE: usize = 5550;
/// A terminal that is so many bytes behind is let go: nobody reads there.
const BEHIND: usize = 4 << 20;

/// Who runs here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Who {
    /// The run's name.
    pub run: String,
    /// The board's name.
    pub board: String,
    /// The guests' names.
    pub guests: Vec<String>,
}

impl Who {
    /// The guest of that name or number.
    fn find(&self, guest: &str) -> Option<usize> {
        let by_name = self.guests.iter().position(|name| name == guest);
        by_name.or_else(|| guest.parse().ok().filter(|&at: &usize| at < self.guests.len()))
    }
}

/// What is to be done for a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Ask the board, under this name.
    Ask {
        /// The question's name.
        id: String,
        /// The command.
        command: String,
    },
    /// No longer wait for the answer of this name.
    Forget(String),
    /// Type this on the board's UART.
    Type(Vec<u8>),
}

/// See the module's text.
#[derive(Debug)]
pub struct Server {
    listener: UnixListener,
    who: Who,
    clients: Vec<Client>,
}

#[derive(Debug)]
struct Client {
    stream: UnixStream,
    input: Vec<u8>,
    output: VecDeque<u8>,
    state: State,
    /// The guest that it debugs, or has asked for.
    debugs: Option<usize>,
    /// The board records for it what guests do, or it has asked for that.
    traces: bool,
    gone: bool,
}

#[derive(Debug)]
enum State {
    /// Its next line is a command.
    Idle,
    /// Its command is with the board.
    Asked { id: String, kind: Kind, until: Option<Instant> },
    /// It is a terminal.
    Attached,
}

/// What the answer to a client's question means for us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Nothing.
    Plain,
    /// It becomes a terminal.
    Attach,
    /// It becomes a guest's debugger.
    Debugger,
    /// It is one no longer.
    NoDebugger,
    /// The board records for it what guests do.
    Tracer,
    /// It does no longer.
    NoTracer,
}

impl Server {
    /// Listens in the directory of a run.
    ///
    /// # Errors
    /// If the socket cannot be made.
    pub fn open(directory: &Path, who: Who) -> Result<Self> {
        let problem = || format!("cannot listen in {}", directory.display());
        let listener = socket::listen(directory).context(problem)?;
        listener.set_nonblocking(true).context(problem)?;
        Ok(Self { listener, who, clients: Vec::new() })
    }

    /// What to wait for.
    pub fn waits_for(&self) -> impl Iterator<Item = (BorrowedFd<'_>, PollFlags)> {
        let clients = self.clients.iter().map(|client| {
            let flags = if client.output.is_empty() { PollFlags::IN } else { PollFlags::IN | PollFlags::OUT };
            (client.stream.as_fd(), flags)
        });
        clients.chain([(self.listener.as_fd(), PollFlags::IN)])
    }

    /// When [`Server::turn`] has something to do, whatever comes.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        let until = |client: &Client| match client.state {
            State::Asked { until, .. } => until,
            _ => None,
        };
        self.clients.iter().filter_map(until).min()
    }

    /// Moves what can be moved, without waiting. What is asked of a board waits until it `speaks`: what is typed before
    /// it has a driver for its UART is lost.
    ///
    /// # Errors
    /// If this machine has no random numbers.
    pub fn turn(&mut self, speaks: bool) -> Result<Vec<Action>> {
        let mut actions = Vec::new();
        while let Ok((stream, _)) = self.listener.accept() {
            if stream.set_nonblocking(true).is_ok() {
                let (input, output) = (Vec::new(), VecDeque::new());
                let (state, debugs) = (State::Idle, None);
                self.clients.push(Client { stream, input, output, state, debugs, traces: false, gone: false });
            }
        }
        for index in 0..self.clients.len() {
            self.clients[index].receive();
            self.obey(index, speaks, &mut actions)?;
            self.clients[index].send();
        }
        // Who leaves leaves nothing behind: no question, no guest that alone is shown, and none that stands, and
        // nothing that is recorded.
        for client in self.clients.extract_if(.., |c| c.gone) {
            if let Some(guest) = client.debugs {
                actions.push(Action::Ask { id: random_id()?, command: format!("debug {guest} detach") });
            }
            if client.traces {
                actions.push(Action::Ask { id: random_id()?, command: "trace stop".to_string() });
            }
            match client.state {
                State::Asked { id, .. } => actions.push(Action::Forget(id)),
                State::Attached if self.who.guests.len() > 1 => {
                    actions.push(Action::Ask { id: random_id()?, command: "console all".to_string() });
                }
                State::Attached | State::Idle => {}
            }
        }
        Ok(actions)
    }

    /// Does what a client's input says.
    fn obey(&mut self, index: usize, speaks: bool, actions: &mut Vec<Action>) -> Result<()> {
        let attaches = |state: &State| matches!(state, State::Attached | State::Asked { kind: Kind::Attach, .. });
        let taken = self.clients.iter().any(|c| attaches(&c.state));
        let traced = self.clients.iter().any(|c| c.traces);
        let debugged: Vec<_> = self.clients.iter().filter_map(|c| c.debugs).collect();
        let client = &mut self.clients[index];
        match &client.state {
            State::Attached if client.input.is_empty() => {}
            State::Attached => actions.push(Action::Type(std::mem::take(&mut client.input))),
            State::Asked { id, until, .. } => {
                if until.is_some_and(|until| Instant::now() >= until) {
                    actions.push(Action::Forget(id.clone()));
                    client.state = State::Idle;
                    client.say(&format!("error the board did not answer within {} s", PATIENCE.as_secs()));
                }
            }
            State::Idle => {
                let Some(end) = client.input.iter().position(|&b| b == b'\n') else {
                    client.gone |= client.input.len() > LONG_LINE;
                    return Ok(());
                };
                if !speaks && client.input[..end] != *b"who" {
                    return Ok(());
                }
                let line: Vec<u8> = client.input.drain(..=end).collect();
                let line = String::from_utf8_lossy(&line[..end]).into_owned();
                if line == "who" {
                    let Who { run, board, guests } = &self.who;
                    client.say(&format!("run {run} {} {board} {}", std::process::id(), guests.join(" ")));
                    client.say("ok");
                    return Ok(());
                }
                let attach = line.strip_prefix("attach ");
                if attach.is_some() && taken {
                    client.say("error another terminal shows a guest's console already");
                    return Ok(());
                }
                // Nothing of a command but plain text reaches the board.
                let command = attach.map_or(line.clone(), |guest| format!("console {guest}"));
                let most = if command.starts_with("debug ") { LONG_LINE } else { LINE };
                if command.len() > most || !command.bytes().all(|b| (b' '..=b'~').contains(&b)) {
                    client.say(&format!("error a command is up to {most} characters of ASCII"));
                    return Ok(());
                }
                let words: Vec<_> = command.split(' ').collect();
                let (kind, patience) = match words[..] {
                    ["debug", guest, "attach"] => {
                        let Some(guest) = self.who.find(guest) else {
                            let problem = format!("error no guest `{guest}`: there are {}", self.who.guests.join(", "));
                            client.say(&problem);
                            return Ok(());
                        };
                        if debugged.contains(&guest) {
                            client.say(&format!("error {} has a debugger already", self.who.guests[guest]));
                            return Ok(());
                        }
                        client.debugs = Some(guest);
                        (Kind::Debugger, Some(PATIENCE))
                    }
                    ["trace", "start"] | ["trace", "calls", _] => {
                        if traced {
                            client.say("error what this board's guests do is recorded for somebody else already");
                            return Ok(());
                        }
                        client.traces = true;
                        (Kind::Tracer, Some(PATIENCE))
                    }
                    ["trace", _] if traced && !client.traces => {
                        client.say("error what is recorded is for somebody else");
                        return Ok(());
                    }
                    ["trace", "stop"] => (Kind::NoTracer, Some(PATIENCE)),
                    ["debug", _, "detach"] => (Kind::NoDebugger, Some(PATIENCE)),
                    // That may take as long as it likes.
                    ["debug", _, "wait"] => (Kind::Plain, None),
                    _ if attach.is_some() => (Kind::Attach, Some(PATIENCE)),
                    _ => (Kind::Plain, Some(PATIENCE)),
                };
                let id = random_id()?;
                actions.push(Action::Ask { id: id.clone(), command });
                client.state = State::Asked { id, kind, until: patience.map(|patience| Instant::now() + patience) };
            }
        }
        Ok(())
    }

    /// Takes a line of an answer; who has asked may be gone.
    pub fn answer(&mut self, answer: &Answer) {
        let asked = |c: &&mut Client| matches!(&c.state, State::Asked { id, .. } if *id == answer.id);
        let Some(client) = self.clients.iter_mut().find(asked) else { return };
        client.say(&answer.text);
        if let Some(end) = answer.end() {
            let kind = if let State::Asked { kind, .. } = client.state { kind } else { Kind::Plain };
            let attached = kind == Kind::Attach && end.is_ok();
            client.state = if attached { State::Attached } else { State::Idle };
            if kind == Kind::NoDebugger || kind == Kind::Debugger && end.is_err() {
                client.debugs = None;
            }
            if kind == Kind::NoTracer || kind == Kind::Tracer && end.is_err() {
                client.traces = false;
            }
        }
        client.send();
    }

    /// Takes bytes of the console, for terminals.
    pub fn console(&mut self, bytes: &[u8]) {
        for client in self.clients.iter_mut().filter(|c| matches!(c.state, State::Attached)) {
            client.output.extend(bytes);
            client.gone |= client.output.len() > BEHIND;
            client.send();
        }
    }
}

impl Client {
    fn say(&mut self, line: &str) {
        self.output.extend(line.bytes().chain([b'\n']));
    }

    fn receive(&mut self) {
        let mut buffer = [0; 4096];
        match self.stream.read(&mut buffer) {
            Ok(0) => self.gone = true,
            Ok(n) => self.input.extend_from_slice(&buffer[..n]),
            Err(e) => self.gone |= !passing(&e),
        }
    }

    fn send(&mut self) {
        while !self.output.is_empty() {
            match self.stream.write(self.output.as_slices().0) {
                Ok(n) => drop(self.output.drain(..n)),
                Err(e) => {
                    self.gone |= !passing(&e);
                    return;
                }
            }
        }
    }
}

fn passing(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
