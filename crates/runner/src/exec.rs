//! One command in the guest, without a person: its output, its exit status, or why there is none.
//!
//! The command travels in the initial RAM disk, so neither the kernel's command line nor the console limits it, and its
//! output comes over the console between two markers with a token that nobody can guess (see `guests/debian/init`).
//! Before and behind the markers is what the kernel prints; it is shown only when something went wrong.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use crate::console::Ending;
use crate::error::{Context, Error, Result};
use crate::initramfs::Overlay;
use crate::prepare::Run;
use crate::progress;
use crate::qemu::{Event, Session};
use crate::spica::{HALTED, REPORT, REPORT_END, failure, report_line};

/// How much of the console an error shows.
const TAIL_LINES: usize = 25;
/// How long a kernel that panics, or Spica when it is asked for a report, may go on talking.
const LAST_WORDS: Duration = Duration::from_secs(3);
/// How long switching off may take, once the command has ended.
const SWITCHING_OFF: Duration = Duration::from_secs(20);

/// A command to be run.
#[derive(Clone, Debug)]
pub struct Script {
    token: String,
}

impl Script {
    /// Adds `command`, a script for the guest's shell, to the initial RAM disk.
    ///
    /// # Errors
    /// If this machine has no random numbers.
    pub fn new(command: &str, overlay: &mut Overlay) -> Result<Self> {
        let mut random = [0u8; 16];
        let source = "/dev/urandom";
        File::open(source).and_then(|mut f| f.read_exact(&mut random)).context(|| format!("cannot read {source}"))?;
        let token: String = random.iter().map(|b| format!("{b:02x}")).collect();
        overlay.file("spica/token", 0o600, token.as_bytes());
        overlay.file("spica/command", 0o700, command.as_bytes());
        Ok(Self { token })
    }
}

/// How a command ended.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Its exit status.
    pub status: u8,
    /// The lines that Spica wrote.
    pub spica: Vec<String>,
}

/// Takes the command's output as it comes, and gives what is to be typed on the board's UART in answer: mostly nothing.
pub type Listener<'a> = dyn FnMut(&[u8]) -> std::io::Result<Vec<u8>> + 'a;

/// Boots a run whose initial RAM disk has this script, and passes the command's output on to `listener` as it comes.
///
/// # Errors
/// If the guest does not come to the end of the command: it panics, Spica stops it, QEMU ends, or the time is up.
pub fn exec(
    run: &Run,
    script: &Script,
    timeout: Duration,
    log: Option<&Path>,
    verbose: bool,
    listener: &mut Listener<'_>,
) -> Result<Outcome> {
    let deadline = Instant::now() + timeout;
    let mut session = run.start(log, verbose)?;
    let mut frame = Frame::new(&script.token);
    let mut spica: Vec<String> = Vec::new();
    let mut names = run.function_names();
    // Set when the run is about to end: when to stop waiting, and what the end is then.
    let mut last: Option<(Instant, End)> = None;
    loop {
        let until = last.as_ref().map_or(deadline, |(until, _)| deadline.min(*until));
        match session.next(None, Some(until))? {
            Event::Guest(bytes) => {
                let (output, other) = frame.feed(&bytes);
                if !output.is_empty() {
                    let answer = listener(&output).context(|| "cannot pass on the command's output")?;
                    session.send(&answer);
                }
                if verbose {
                    progress::pass(&other);
                }
                if let Some(status) = frame.status
                    && !matches!(last, Some((_, End::Command(_))))
                {
                    if run.native {
                        return Ok(Outcome { status, spica });
                    }
                    last = Some((Instant::now() + SWITCHING_OFF, End::Command(status)));
                }
            }
            Event::Spica(line) => {
                if verbose {
                    progress::say(names.put_into(&line));
                }
                let halted = line == HALTED;
                spica.push(line);
                if halted {
                    return conclude(run, &session, frame.status, spica);
                }
            }
            Event::Ending(Ending::Panic) if last.is_none() => {
                last = Some((Instant::now() + LAST_WORDS, End::Panic));
            }
            Event::Ending(Ending::Off) if run.native => {
                return Err(Error::failed("the guest switched itself off before the command had ended")
                    .with_details(session.console(TAIL_LINES)));
            }
            Event::Ending(Ending::Restart) if frame.status.is_none() => {
                return Err(Error::failed("the guest restarted before the command had ended")
                    .with_details(session.console(TAIL_LINES)));
            }
            Event::Ending(_) | Event::Input(_) => {}
            Event::Exited(status) => {
                return match (last, frame.status) {
                    (Some((_, End::Panic)), _) => Err(panic_error(&session)),
                    (_, Some(status)) => Ok(Outcome { status, spica }),
                    (_, None) => Err(exited(&session, status)),
                };
            }
            Event::Quiet => {
                return Err(match last {
                    Some((_, End::Panic)) => panic_error(&session),
                    Some((_, End::Command(status))) => Error::failed(format!(
                        "the command ended with status {status}, but the guest did not switch itself off"
                    ))
                    .with_details(report(&mut session, run)?),
                    None => Error::timeout(format!(
                        "the command did not end within {} s; --timeout sets another limit",
                        timeout.as_secs()
                    ))
                    .with_details(report(&mut session, run)?),
                });
            }
        }
    }
}

/// What a run is about to end with.
enum End {
    /// The command's status.
    Command(u8),
    /// The kernel's panic.
    Panic,
}

/// Spica halted the board: well or not?
fn conclude(run: &Run, session: &Session, status: Option<u8>, spica: Vec<String>) -> Result<Outcome> {
    if let Some(report) = failure(&spica, &run.names) {
        let mut names = run.function_names();
        let report_lines: Vec<_> = report.iter().map(|line| names.put_into(line)).collect();
        let details = format!("{}\n{}", session.console(TAIL_LINES), report_lines.join("\n"));
        return Err(Error::failed(format!("Spica stopped the guest: {}", report[0])).with_details(details));
    }
    match status {
        Some(status) => Ok(Outcome { status, spica }),
        None => Err(Error::failed("the guest switched itself off before the command had ended")
            .with_details(session.console(TAIL_LINES))),
    }
}

fn panic_error(session: &Session) -> Error {
    Error::failed("the guest's kernel panicked").with_details(session.console(2 * TAIL_LINES))
}

fn exited(session: &Session, status: ExitStatus) -> Error {
    let mut details = session.console(TAIL_LINES);
    let _ = write!(details, "\n{}", session.said());
    Error::failed(format!("QEMU ended before the command had ended ({status})")).with_details(details)
}

/// The end of the console, and behind it Spica's report on what the guest is doing.
fn report(session: &mut Session, run: &Run) -> Result<String> {
    let mut text = session.console(TAIL_LINES);
    if run.native {
        return Ok(text);
    }
    let mut names = run.function_names();
    session.send(REPORT);
    let until = Instant::now() + LAST_WORDS;
    loop {
        match session.next(None, Some(until))? {
            Event::Spica(line) if line == REPORT_END => return Ok(text),
            Event::Spica(line) => {
                let _ = write!(text, "\nspica: {}", names.put_into(report_line(&line).unwrap_or(&line)));
            }
            Event::Quiet | Event::Exited(_) => return Ok(text),
            _ => {}
        }
    }
}

/// Finds the command's output in the guest's bytes.
struct Frame {
    begin: Vec<u8>,
    end: Vec<u8>,
    begun: bool,
    status: Option<u8>,
    pending: Vec<u8>,
}

impl Frame {
    fn new(token: &str) -> Self {
        Self {
            begin: format!("<spica {token} begin>").into_bytes(),
            end: format!("<spica {token} end ").into_bytes(),
            begun: false,
            status: None,
            pending: Vec::new(),
        }
    }

    /// Takes the next bytes; gives those of the command's output, and those of the rest.
    fn feed(&mut self, bytes: &[u8]) -> (Vec<u8>, Vec<u8>) {
        let (mut output, mut other) = (Vec::new(), Vec::new());
        self.pending.extend_from_slice(bytes);
        if !self.begun {
            match find(&self.pending, &self.begin) {
                Found::At(at) => {
                    other.extend(self.pending.drain(..at));
                    self.pending.drain(..self.begin.len());
                    self.begun = true;
                }
                Found::Perhaps(at) => other.extend(self.pending.drain(..at)),
            }
        }
        if self.begun && self.status.is_none() {
            match find(&self.pending, &self.end) {
                Found::At(at) => {
                    output.extend(self.pending.drain(..at));
                    let digits = &self.pending[self.end.len()..];
                    if let Some(length) = digits.iter().position(|&b| b == b'>') {
                        let digits = std::str::from_utf8(&digits[..length]).unwrap_or_default();
                        self.status = Some(digits.parse().unwrap_or(u8::MAX));
                        self.pending.drain(..self.end.len() + length + 1);
                    }
                }
                Found::Perhaps(at) => output.extend(self.pending.drain(..at)),
            }
        }
        if self.status.is_some() {
            other.append(&mut self.pending);
        }
        (output, other)
    }
}

enum Found {
    /// The needle is here.
    At(usize),
    /// From here on, the needle may begin; before, it does not.
    Perhaps(usize),
}

fn find(hay: &[u8], needle: &[u8]) -> Found {
    if let Some(at) = hay.windows(needle.len()).position(|w| w == needle) {
        return Found::At(at);
    }
    let from = hay.len().saturating_sub(needle.len() - 1);
    Found::Perhaps((from..hay.len()).find(|&i| needle.starts_with(&hay[i..])).unwrap_or(hay.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_what_stands_between_the_markers() {
        let text = b"boot <spica t begi\n<spica t begin>out <spica t en\x00put<spica t end 7>\nafter";
        for chunk in 1..text.len() {
            let mut frame = Frame::new("t");
            let (mut output, mut other) = (Vec::new(), Vec::new());
            for bytes in text.chunks(chunk) {
                let (a, b) = frame.feed(bytes);
                output.extend(a);
                other.extend(b);
            }
            assert_eq!(output, b"out <spica t en\x00put");
            assert_eq!(other, b"boot <spica t begi\n\nafter");
            assert_eq!(frame.status, Some(7));
        }
    }

    #[test]
    fn another_token_is_output() {
        let mut frame = Frame::new("t");
        assert_eq!(frame.feed(b"<spica t begin><spica u end 0>x").0, b"<spica u end 0>x");
        assert_eq!(frame.status, None);
    }
}
