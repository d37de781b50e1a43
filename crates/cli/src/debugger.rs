//! A guest's debugger: GDB, connected by TCP or by our standard input and output, and the board that it asks.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use spica_gdb::session::{Wire, serve};
use spica_gdb::{Link, NotBack, Problem};
use spica_runner::control::client::Board;
use spica_runner::error::{Context, Error, Result};
use spica_runner::progress::Step;
use spica_runner::project::Project;

use crate::snapshot::file::Snapshot;
use crate::snapshot::{self, Failure};
use crate::symbols;

/// GDB hears so often that somebody is at work: it waits for two seconds.
const SIGN_OF_LIFE: Duration = Duration::from_millis(500);

/// How often somebody looks whether the board has gone, as long as there is no debugger.
const LOOK: Duration = Duration::from_secs(1);

/// The port that GDB's manuals and QEMU have.
pub const PORT: u16 = 1234;

/// A guest of a running board, whose debugger we are.
pub struct Guest {
    name: String,
    number: usize,
    questions: Board,
    /// Another connection, for what takes long to be answered.
    waits: Board,
    /// The names of its kernel's functions, once they were read.
    symbols: Option<Arc<[u8]>>,
    /// What it was, to go back to.
    checkpoint: Option<Snapshot>,
}

/// The guest of that name or number on a board, or the only one.
///
/// # Errors
/// If there is none: those that there are.
pub fn choose(board: &Board, guest: Option<&str>) -> Result<usize> {
    let names = &board.who.guests;
    match guest {
        None if names.len() == 1 => Ok(0),
        None => Err(Error::usage(format!("which guest? there are {}", names.join(", ")))),
        Some(guest) => {
            let number = guest.parse().ok().filter(|&at: &usize| at < names.len());
            names
                .iter()
                .position(|name| name == guest)
                .or(number)
                .ok_or_else(|| Error::usage(format!("no guest is called {guest:?}; there are {}", names.join(", "))))
        }
    }
}

impl Guest {
    /// Becomes the debugger of `guest`, or of the only one, on the running board that `run` says.
    ///
    /// # Errors
    /// If there is no such board or guest, or it has a debugger.
    pub fn attach(project: &Project, run: Option<&str>, guest: Option<&str>) -> Result<Self> {
        let questions = Board::find(project, run)?;
        let waits = questions.another()?;
        let number = choose(&questions, guest)?;
        let name = questions.who.guests[number].clone();
        let mut guest = Guest { name, number, questions, waits, symbols: None, checkpoint: None };
        guest.ask("attach").map_err(Error::failed)?;
        Ok(guest)
    }

    /// Reads the names of its kernel's functions; or says that they come later.
    pub fn look_for_symbols(&mut self, say: &mut dyn FnMut(&str)) {
        let step = Step::begin("reading the names of the kernel's functions");
        let read = self.read_symbols(&mut |_| ());
        drop(step);
        if let Err(problem) = read {
            say(&format!("{problem}; in GDB, `monitor symbols` looks again"));
        }
    }

    /// The same of names that were read already, in an ELF file.
    #[must_use]
    pub fn with_symbols(self, file: Vec<u8>) -> Self {
        Guest { symbols: Some(file.into()), ..self }
    }

    /// Whether the board has closed the connection, while nothing is asked.
    fn board_has_gone(&self) -> bool {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut fds = [PollFd::from_borrowed_fd(self.questions.waits_for(), PollFlags::IN)];
        poll(&mut fds, Some(&now)).is_ok_and(|ready| ready != 0)
    }

    fn command(&self, question: &str) -> String {
        format!("debug {} {question}", self.number)
    }
}

impl Link for Guest {
    fn guest(&self) -> &str {
        &self.name
    }

    fn ask(&mut self, question: &str) -> std::result::Result<Vec<String>, Problem> {
        let command = self.command(question);
        self.questions.ask(&command).map_err(|error| error.message)
    }

    fn begin_wait(&mut self) -> std::result::Result<(), Problem> {
        let command = self.command("wait");
        self.waits.begin(&command).map_err(|error| error.message)
    }

    fn waits_for(&self) -> BorrowedFd<'_> {
        self.waits.waits_for()
    }

    fn end_wait(&mut self) -> std::result::Result<Vec<String>, Problem> {
        self.waits.end().map_err(|error| error.message)
    }

    fn symbols(&self) -> Option<Arc<[u8]>> {
        self.symbols.clone()
    }

    fn read_symbols(&mut self, progress: &mut dyn FnMut(&str)) -> std::result::Result<(), Problem> {
        let read = symbols::read(&mut self.questions, self.number, &mut || progress("."));
        let found = read.map_err(|error| error.message)?;
        progress(&format!(" {} names", found.count));
        self.symbols = Some(found.file.into());
        Ok(())
    }

    fn keep(&mut self, progress: &mut dyn FnMut(&str)) -> std::result::Result<String, Problem> {
        let mut said = Instant::now();
        let tell = &mut |_: &str, _, _| {
            if said.elapsed() > SIGN_OF_LIFE {
                said = Instant::now();
                progress(".");
            }
        };
        let kept = snapshot::keep(&mut self.questions, self.number, tell).map_err(|error| error.message)?;
        let disks = kept.about.disk_pages;
        let disks = if disks == 0 { String::new() } else { format!(", {disks} of disks") };
        let text = format!("{} pages of memory{disks}", kept.pages.len());
        self.checkpoint = Some(kept);
        Ok(text)
    }

    fn put_back(&mut self) -> std::result::Result<(), NotBack> {
        let none = || NotBack::Untouched("there is no checkpoint: `monitor checkpoint` makes one".into());
        let kept = self.checkpoint.as_ref().ok_or_else(none)?;
        let back = snapshot::put_back(&mut self.questions, self.number, kept, &mut |_, _, _| ());
        back.map_err(|failure| match failure {
            Failure::Untouched(error) => NotBack::Untouched(error.message),
            Failure::Half(error) => NotBack::Lost(error.message),
        })
    }
}

/// Serves GDB at our standard input and output.
///
/// # Errors
/// If the guest cannot be stopped, or the board has gone.
pub fn over_stdio(mut guest: Guest, say: &mut dyn FnMut(&str)) -> Result<()> {
    let no = || "cannot use standard input and output".to_string();
    let input = std::io::stdin().as_fd().try_clone_to_owned().context(no)?;
    let output = std::io::stdout().as_fd().try_clone_to_owned().context(no)?;
    let how = serve(&mut guest, Wire::new(input, output), say).map_err(Error::failed)?;
    say(&format!("{how}; {} goes on", guest.name));
    Ok(())
}

/// Listens for GDB, on this machine only.
///
/// # Errors
/// If somebody else does.
pub fn listen(port: u16) -> Result<TcpListener> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port))
        .context(|| format!("cannot listen on port {port}; `--port` chooses another one"))
}

/// Serves one GDB after the other that connects to `listener`, until the board ends. `attach` is asked for the guest
/// when it is needed.
///
/// # Errors
/// If the guest is not to be had, or the board has gone.
pub fn over_tcp(
    listener: TcpListener,
    mut attach: impl FnMut() -> Result<Guest>,
    say: &mut (dyn FnMut(&str) + Send),
) -> Result<()> {
    let busy = Arc::new(AtomicBool::new(false));
    let (found, connections) = mpsc::channel::<TcpStream>();
    let taken = busy.clone();
    // Whoever comes while one is served hears of it at once: its connection is closed.
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            if taken.swap(true, Ordering::SeqCst) {
                eprintln!("spica: a second debugger was refused: there is one already\r");
            } else if found.send(stream).is_err() {
                return;
            }
        }
    });
    let mut guest: Option<Guest> = None;
    loop {
        let stream = match connections.recv_timeout(LOOK) {
            Ok(stream) => stream,
            Err(RecvTimeoutError::Timeout) if guest.as_ref().is_some_and(Guest::board_has_gone) => {
                return Err(Error::failed("the board has ended"));
            }
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        };
        let guest = match &mut guest {
            Some(guest) => guest,
            none => none.insert(attach()?),
        };
        let _ = stream.set_nodelay(true);
        let problem = || "cannot use the debugger's connection".to_string();
        let output: OwnedFd = stream.try_clone().context(problem)?.into();
        // Who sees the connection's end may connect again at once, and is not to be refused.
        let open = stream.try_clone().context(problem)?;
        say(&format!("a debugger is here; {} stands", guest.name));
        match serve(guest, Wire::new(stream.into(), output), say) {
            Ok(how) => say(&format!("{how}; {} goes on", guest.name)),
            Err(problem) => {
                say(&problem);
                // If the board has gone, this is the end.
                guest.questions.ask("list")?;
            }
        }
        busy.store(false, Ordering::SeqCst);
        drop(open);
    }
}
