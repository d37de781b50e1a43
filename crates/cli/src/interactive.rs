//! A guest's console on this terminal: of a run that begins here, or of one that another process began.
//!
//! All keys go to the guest, but for one: Ctrl-A is a command to us (`x` leaves, Ctrl-A again is a Ctrl-A for the
//! guest). Ctrl-] goes to the board like any other key; there, Spica takes it and opens its monitor.

use std::io::{BufRead, IsTerminal, Write};
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

use spica_runner::console::Ending;
use spica_runner::control::client::Board;
use spica_runner::error::{Context, Error, Result};
use spica_runner::initramfs::Overlay;
use spica_runner::prepare::Run;
use spica_runner::project::Project;
use spica_runner::qemu::{Event, Session};
use spica_runner::spica::{HALTED, failure, is_power_off};

use crate::debugger::{self, Guest};

const CTRL_A: u8 = 0x01;

/// Tells the guest about this terminal: its kind and size.
pub fn describe_terminal(overlay: &mut Overlay) {
    let mut text = String::new();
    let plain = |t: &String| t.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.+".contains(&b));
    if let Some(kind) = std::env::var("TERM").ok().filter(plain) {
        text.push_str(&format!("export TERM={kind}\n"));
    }
    if let Ok(size) = tcgetwinsize(std::io::stdin())
        && size.ws_row > 0
    {
        text.push_str(&format!("export SPICA_ROWS={} SPICA_COLUMNS={}\n", size.ws_row, size.ws_col));
    }
    overlay.file("spica/terminal", 0o644, text.as_bytes());
}

/// Boots a run and connects its console with this terminal until it ends. With `debugger`, the guest waits for one,
/// which may connect there.
///
/// # Errors
/// If Spica stops the guest, or QEMU ends by itself with a failure, or `timeout` passes.
pub fn interact(
    run: &Run,
    timeout: Option<Duration>,
    log: Option<&Path>,
    verbose: bool,
    mut debugger: Option<(&Project, TcpListener)>,
) -> Result<()> {
    let mut session = run.start(log, verbose)?;
    let deadline = timeout.map(|t| Instant::now() + t);
    let stdin = std::io::stdin();
    let raw = RawMode::of_terminal()?;
    let end_of_line = RawMode::end_of_line(raw.as_ref());
    let say = |line: &str| eprint!("{line}{end_of_line}");

    let mut keys = Keys::default();
    let mut input = Some(stdin.as_fd());
    let mut spica: Vec<String> = Vec::new();
    let mut names = run.function_names();
    // Spica's own lines are shown from the guest's first output on: then they answer a key, or tell of trouble.
    let mut show = verbose;
    let mut hide = false;
    loop {
        match session.next(input, deadline)? {
            Event::Guest(bytes) => {
                show |= bytes.iter().any(|b| !b.is_ascii_whitespace());
                print(&bytes)?;
            }
            Event::Spica(line) => {
                if line.contains(WAITS_FOR_DEBUGGER)
                    && let Some((project, listener)) = debugger.take()
                {
                    serve_debugger(project.clone(), listener, end_of_line);
                    continue;
                }
                // Where a guest stood that switched itself off is of no interest; the report's lines are indented.
                let power_off = run.names.iter().any(|name| is_power_off(&line, name));
                hide = (hide && line.starts_with("  ") || power_off) && !verbose;
                let halted = line == HALTED;
                if show && !halted && !(hide && (run.names.len() == 1 || !power_off)) {
                    say(&format!("spica: {}", names.put_into(&line)));
                }
                spica.push(line);
                if halted {
                    drop(raw);
                    return match failure(&spica, &run.names) {
                        None => Ok(()),
                        Some(report) if show => Err(Error::failed(format!("the guest was stopped: {}", report[0]))),
                        Some(report) => {
                            let report: Vec<_> = report.iter().map(|line| names.put_into(line)).collect();
                            Err(Error::failed("Spica stopped").with_details(report.join("\n")))
                        }
                    };
                }
            }
            Event::Ending(Ending::Off) if run.native => return Ok(()),
            Event::Ending(_) => {}
            Event::Input(bytes) if bytes.is_empty() => input = None,
            Event::Input(bytes) => match keys.translate(&bytes) {
                Some(bytes) => session.send(&bytes),
                None => {
                    drop(raw);
                    eprintln!();
                    return Ok(());
                }
            },
            Event::Exited(status) if status.success() => return Ok(()),
            Event::Exited(status) => {
                drop(raw);
                return Err(Error::failed(format!("QEMU ended ({status})")).with_details(session.said()));
            }
            Event::Quiet => {
                drop(raw);
                let limit = timeout.unwrap_or_default().as_secs();
                return Err(Error::timeout(format!("the guest did not end within {limit} s")));
            }
        }
    }
}

/// Connects a board that runs by itself with this terminal, until the user leaves or its line ends. If standard input
/// is no terminal and ends, nothing more is typed.
///
/// # Errors
/// If the line was closed, or cannot be used any more.
pub fn at_line(session: &mut Session) -> Result<()> {
    let stdin = std::io::stdin();
    let raw = RawMode::of_terminal()?;
    let end_of_line = RawMode::end_of_line(raw.as_ref());
    let mut keys = Keys::default();
    let mut input = Some(stdin.as_fd());
    loop {
        match session.next(input, None)? {
            Event::Guest(bytes) => print(&bytes)?,
            Event::Spica(line) => eprint!("spica: {line}{end_of_line}"),
            Event::Ending(_) | Event::Quiet => {}
            Event::Input(bytes) if bytes.is_empty() => input = None,
            Event::Input(bytes) => match keys.translate(&bytes) {
                Some(bytes) => session.send(&bytes),
                None => {
                    drop(raw);
                    eprintln!();
                    return Ok(());
                }
            },
            Event::Exited(_) => {
                drop(raw);
                return Err(Error::failed("the serial line was closed"));
            }
        }
    }
}

/// What Spica says of a guest that waits at its first instruction.
const WAITS_FOR_DEBUGGER: &str = ": waits for a debugger";

/// Serves debuggers of the guest of this run, beside the guest's console.
fn serve_debugger(project: Project, listener: TcpListener, end_of_line: &'static str) {
    let mut say = move |line: &str| eprint!("spica: {line}{end_of_line}");
    match listener.local_addr() {
        Ok(address) => {
            let port = address.port();
            say(&format!(
                "the guest waits at its first instruction for GDB: target remote :{port}; `spica gdb --help`"
            ));
        }
        Err(error) => say(&format!("no debugger can connect: {error}")),
    }
    std::thread::spawn(move || {
        let run = std::process::id().to_string();
        if let Err(error) = debugger::over_tcp(listener, || Guest::attach(&project, Some(&run), None), &mut say) {
            say(&error.to_string());
        }
    });
}

/// Finds our commands among the keys.
#[derive(Debug, Default)]
pub struct Keys {
    command: bool,
}

impl Keys {
    /// The bytes for the board, or `None` if the user wants to leave.
    pub fn translate(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
        let mut out = Vec::with_capacity(bytes.len());
        for &byte in bytes {
            match (std::mem::take(&mut self.command), byte) {
                (false, CTRL_A) => self.command = true,
                (true, b'x') => return None,
                (true, CTRL_A | b'a') => out.push(CTRL_A),
                (true, other) => out.extend([CTRL_A, other]),
                (false, other) => out.push(other),
            }
        }
        Some(out)
    }
}

/// Makes this terminal one of a running board's, on which `guest` is shown, until the user or the board leaves.
///
/// # Errors
/// If there is no such guest, or another terminal is one already.
pub fn attach(board: Board, guest: &str) -> Result<()> {
    let (log, mut board) = board.attach(guest)?;
    let stdin = std::io::stdin();
    let raw = RawMode::of_terminal()?;
    eprint!("spica: the console of {guest}; Ctrl-A x leaves{}", RawMode::end_of_line(raw.as_ref()));
    print(log.join(RawMode::end_of_line(raw.as_ref())).as_bytes())?;

    let mut keys = Keys::default();
    let mut input = Some(stdin.as_fd());
    let mut buffer = [0; 4096];
    loop {
        let bytes = board.buffer();
        if !bytes.is_empty() {
            print(bytes)?;
            let count = bytes.len();
            board.consume(count);
        }
        let mut fds = vec![PollFd::new(board.get_ref(), PollFlags::IN)];
        fds.extend(input.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)));
        match poll(&mut fds, None) {
            Err(rustix::io::Errno::INTR) => continue,
            result => drop(result.context(|| "cannot wait for the board")?),
        }
        let ready: Vec<_> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        if ready[0] && !board.fill_buf().is_ok_and(|bytes| !bytes.is_empty()) {
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
            let _ = board.get_mut().write_all(&bytes);
        }
    }
    drop(raw);
    eprintln!();
    Ok(())
}

fn print(bytes: &[u8]) -> Result<()> {
    let mut out = std::io::stdout();
    out.write_all(bytes).and_then(|()| out.flush()).context(|| "cannot write to the terminal")
}

/// The terminal passes every key on, until this is dropped.
#[derive(Debug)]
pub struct RawMode(Termios);

impl RawMode {
    /// Enters it if standard input is a terminal.
    ///
    /// # Errors
    /// If the terminal cannot be set up.
    pub fn of_terminal() -> Result<Option<Self>> {
        if std::io::stdin().is_terminal() { Self::enter().map(Some) } else { Ok(None) }
    }

    /// What ends a line of ours: in raw mode, a line feed does not return.
    #[must_use]
    pub fn end_of_line(raw: Option<&Self>) -> &'static str {
        if raw.is_some() { "\r\n" } else { "\n" }
    }

    fn enter() -> Result<Self> {
        let stdin = std::io::stdin();
        let before = tcgetattr(&stdin).context(|| "cannot set up the terminal")?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(&stdin, OptionalActions::Flush, &raw).context(|| "cannot set up the terminal")?;
        Ok(Self(before))
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Drain, &self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ctrl_a_is_ours() {
        let mut keys = Keys::default();
        assert_eq!(keys.translate(b"ab\x01"), Some(b"ab".to_vec()));
        assert_eq!(keys.translate(b"\x01x"), Some(b"\x01x".to_vec()));
        assert_eq!(keys.translate(b"\x01c\x1d\x03"), Some(b"\x01c\x1d\x03".to_vec()));
        assert_eq!(keys.translate(b"y\x01x"), None);
    }
}
