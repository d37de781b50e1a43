//! A board that is stopped at chosen instructions, and says how many it has executed until there.
//!
//! Two channels lead to QEMU. On one, GDB's remote protocol: breakpoints are set, the board is let go, and QEMU tells
//! when it stopped. On the other QMP, of which one answer is needed: `query-replay` gives the count of executed
//! instructions, exact to the instruction while the board stands still and `-icount` is on. (Neither knows what the
//! other does.)
//!
//! While the board runs, its console must be read, or it would wait for us; and it may end in other ways than at a
//! breakpoint. So everything is an event of the [`Session`], the debugger's bytes included.

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::console::{Ending, Lines};
use crate::error::{Context, Error, Result};
use crate::prepare::Run;
use crate::qemu::{Boot, Channels, Event, Plugin, Session};
use crate::spica::HALTED;

/// How long QEMU may take to answer while the board stands still. A busy machine may be slow.
const PATIENCE: Duration = Duration::from_secs(60);
/// How much of the console an error shows.
const TAIL_LINES: usize = 25;

/// A board under control. Dropping it ends QEMU.
#[derive(Debug)]
pub struct Debugger {
    session: Session,
    gdb: UnixStream,
    qmp: UnixStream,
    packets: Packets,
    answers: Vec<u8>,
    /// The breakpoint that the board stopped at last, which is not set now.
    lifted: Option<u32>,
    lines: Lines,
    /// The lines that the guest wrote.
    pub guest: Vec<String>,
    /// The lines that Spica wrote.
    pub spica: Vec<String>,
}

impl Debugger {
    /// Starts a board, which stands at its first instruction. QEMU loads a plugin if there is an argument for it.
    ///
    /// # Errors
    /// If QEMU cannot be started or does not answer.
    pub fn start(run: &Run, plugin: Option<Plugin<'_>>, log: Option<&Path>, verbose: bool) -> Result<Self> {
        let pair = || UnixStream::pair().context(|| "cannot make a channel to QEMU");
        let ((gdb, its_gdb), (qmp, its_qmp)) = (pair()?, pair()?);
        let channels = Channels { gdb: its_gdb.as_fd(), qmp: its_qmp.as_fd() };
        let session = Session::start(run.board, &Boot { debug: Some(channels), plugin, ..run.boot() }, log, verbose)?;
        // Else nobody would notice QEMU's end.
        drop((its_gdb, its_qmp));
        qmp.set_read_timeout(Some(PATIENCE)).context(|| "cannot talk to QEMU")?;
        let mut debugger = Self {
            session,
            gdb,
            qmp,
            packets: Packets::default(),
            answers: Vec::new(),
            lifted: None,
            lines: Lines::default(),
            guest: Vec::new(),
            spica: Vec::new(),
        };
        // QEMU's greeting is not an answer, but it comes before any.
        debugger.ask("qmp_capabilities")?;
        Ok(debugger)
    }

    /// Lets the board run until it stands before the instruction at `address`; gives how many instructions it has
    /// executed since reset.
    ///
    /// # Errors
    /// If it ends before, or does not get there within `timeout`.
    pub fn run_to(&mut self, address: u32, timeout: Duration) -> Result<u64> {
        self.stop_at(&[address])?;
        let (_, count) = self.run(timeout)?;
        self.lifted = None;
        Ok(count)
    }

    /// Sees to it that the board stops before the instructions at these addresses.
    ///
    /// # Errors
    /// If QEMU refuses.
    pub fn stop_at(&mut self, addresses: &[u32]) -> Result<()> {
        addresses.iter().try_for_each(|address| self.command(&format!("Z0,{address:x},4"), "OK"))
    }

    /// Lets the board run until it stops, not at the same place as the last time; gives the address, and how many
    /// instructions it has executed since reset.
    ///
    /// # Errors
    /// If it ends before, or does not stop within `timeout`.
    pub fn run(&mut self, timeout: Duration) -> Result<(u32, u64)> {
        self.send("c")?;
        let stop = self.reply(Instant::now() + timeout)?;
        if !stop.starts_with('T') && !stop.starts_with('S') {
            return Err(Error::failed(format!("QEMU's debugger says {stop:?} where the board should have stopped")));
        }
        // All registers, each as the bytes of a little-endian word; R15 is the sixteenth.
        self.send("g")?;
        let reply = self.reply(Instant::now() + PATIENCE)?;
        let pc = reply.get(15 * 8..16 * 8).and_then(|hex| u32::from_str_radix(hex, 16).ok()).ok_or_else(|| {
            Error::failed(format!("QEMU's debugger says {reply:?} where the values of registers should have come"))
        })?;
        let pc = pc.swap_bytes();
        // It would stop here again at once: QEMU's single steps do not always get over an instruction. So this
        // breakpoint is out of the way until another one has been reached.
        if let Some(other) = self.lifted.replace(pc) {
            self.command(&format!("Z0,{other:x},4"), "OK")?;
        }
        self.command(&format!("z0,{pc:x},4"), "OK")?;
        Ok((pc, self.executed()?))
    }

    /// The count of executed instructions.
    fn executed(&mut self) -> Result<u64> {
        let answer = self.ask("query-replay")?;
        number_of(&answer, "icount").ok_or_else(|| {
            Error::failed(format!("QEMU does not say how many instructions were executed: {}", answer.trim()))
        })
    }

    /// Asks QEMU itself; gives the line of its answer.
    fn ask(&mut self, what: &str) -> Result<String> {
        let context = || "cannot talk to QEMU";
        writeln!(self.qmp, "{{\"execute\": \"{what}\"}}").context(context)?;
        loop {
            while let Some(end) = self.answers.iter().position(|&b| b == b'\n') {
                let line: Vec<_> = self.answers.drain(..=end).collect();
                let line = String::from_utf8_lossy(&line).into_owned();
                if line.starts_with("{\"return\"") {
                    return Ok(line);
                }
                if line.starts_with("{\"error\"") {
                    return Err(Error::failed(format!("QEMU refuses {what}: {}", line.trim())));
                }
                // Else the greeting, or an event.
            }
            let mut buffer = [0; 4096];
            match self.qmp.read(&mut buffer).context(context)? {
                0 => return Err(self.over("QEMU ended")),
                n => self.answers.extend_from_slice(&buffer[..n]),
            }
        }
    }

    /// Sends the debugger a command that has one good answer.
    fn command(&mut self, command: &str, expected: &str) -> Result<()> {
        self.send(command)?;
        let reply = self.reply(Instant::now() + PATIENCE)?;
        if reply == expected {
            return Ok(());
        }
        Err(Error::failed(format!("QEMU's debugger answers {command:?} with {reply:?}; expected {expected:?}")))
    }

    fn send(&mut self, command: &str) -> Result<()> {
        self.gdb.write_all(&packet(command)).context(|| "cannot talk to QEMU's debugger")
    }

    /// Waits for the debugger's next packet, and meanwhile reads the console.
    fn reply(&mut self, deadline: Instant) -> Result<String> {
        loop {
            if let Some(packet) = self.packets.next() {
                self.gdb.write_all(b"+").context(|| "cannot talk to QEMU's debugger")?;
                return Ok(packet);
            }
            match self.session.next(Some(self.gdb.as_fd()), Some(deadline))? {
                Event::Input(bytes) if bytes.is_empty() => return Err(self.over("QEMU ended")),
                Event::Input(bytes) => self.packets.feed(&bytes),
                Event::Ending(Ending::Panic) => return Err(self.over("the guest's kernel panicked")),
                Event::Spica(line) if line == HALTED => return Err(self.over("Spica stopped the guest")),
                Event::Exited(status) => return Err(self.over(&format!("QEMU ended ({status})"))),
                Event::Quiet => {
                    return Err(Error::timeout("the guest did not get there in time").with_details(self.tail()));
                }
                Event::Spica(line) => self.spica.push(line),
                Event::Guest(bytes) => self.lines.feed(&bytes, |line| self.guest.push(line.to_string())),
                Event::Ending(_) => {}
            }
        }
    }

    /// Lets the board run until the guest writes a line for which `last` holds.
    ///
    /// # Errors
    /// If it ends before, or does not write it within `timeout`.
    pub fn run_to_line(&mut self, timeout: Duration, last: &mut dyn FnMut(&str) -> bool) -> Result<()> {
        self.send("c")?;
        let deadline = Instant::now() + timeout;
        loop {
            if self.guest.drain(..).any(|line| last(&line)) {
                return Ok(());
            }
            match self.session.next(None, Some(deadline))? {
                Event::Guest(bytes) => self.lines.feed(&bytes, |line| self.guest.push(line.to_string())),
                Event::Spica(line) if line == HALTED => return Err(self.over("Spica stopped the guest")),
                Event::Spica(line) => self.spica.push(line),
                Event::Exited(status) => return Err(self.over(&format!("QEMU ended ({status})"))),
                Event::Quiet => {
                    return Err(Error::timeout("the guest did not get there in time").with_details(self.tail()));
                }
                Event::Ending(_) | Event::Input(_) => {}
            }
        }
    }

    fn over(&self, what: &str) -> Error {
        Error::failed(format!("{what} before the guest got there")).with_details(self.tail())
    }

    fn tail(&self) -> String {
        format!("{}\n{}", self.session.console(TAIL_LINES), self.session.said())
    }
}

/// A command as GDB's remote protocol sends it: `$command#checksum`.
fn packet(command: &str) -> Vec<u8> {
    let sum = command.bytes().fold(0u8, u8::wrapping_add);
    format!("${command}#{sum:02x}").into_bytes()
}

/// The debugger's bytes, made packets of. What stands between packets acknowledges ours; on a local socket nothing is
/// lost, so the checksums say nothing either.
#[derive(Debug, Default)]
struct Packets {
    bytes: Vec<u8>,
}

impl Packets {
    fn feed(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    fn next(&mut self) -> Option<String> {
        let start = self.bytes.iter().position(|&b| b == b'$')?;
        let length = self.bytes[start..].iter().position(|&b| b == b'#')?;
        let end = start + length + 3;
        if self.bytes.len() < end {
            return None;
        }
        let text = String::from_utf8_lossy(&self.bytes[start + 1..start + length]).into_owned();
        self.bytes.drain(..end);
        Some(text)
    }
}

/// The number behind a key in a line of JSON.
fn number_of(line: &str, key: &str) -> Option<u64> {
    let rest = line.split_once(&format!("\"{key}\":"))?.1.trim_start();
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest[..digits].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_come_whole() {
        assert_eq!(packet("Z0,10,4"), b"$Z0,10,4#77");
        let text = b"+$OK#9a+$T05thread:01;#07+";
        for chunk in 1..text.len() {
            let mut packets = Packets::default();
            let mut found = Vec::new();
            for bytes in text.chunks(chunk) {
                packets.feed(bytes);
                found.extend(std::iter::from_fn(|| packets.next()));
            }
            assert_eq!(found, ["OK", "T05thread:01;"]);
        }
    }

    #[test]
    fn the_count_is_found() {
        let line = "{\"return\": {\"icount\": 3589076638, \"mode\": \"none\"}}\r\n";
        assert_eq!(number_of(line, "icount"), Some(3_589_076_638));
        assert_eq!(number_of("{\"return\": {}}", "icount"), None);
    }
}
