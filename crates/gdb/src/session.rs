//! A debugger's stay: from when it connects, and the guest stands, until it leaves, and the guest goes on.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use gdbstub::conn::{Connection, ConnectionExt};
use gdbstub::stub::run_blocking::{BlockingEventLoop, Event, WaitForStopReasonError};
use gdbstub::stub::{DisconnectReason, GdbStub};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::target::{Guest, Stop};
use crate::{Link, Problem};

/// How long a guest may take until it stands: the board is emulated, and the guest may still be loaded.
const PATIENCE: Duration = Duration::from_secs(30);

/// Bytes of a packet at most: files are read by so many.
const PACKET: usize = 0x4000;

/// What GDB is connected by.
pub struct Wire {
    input: File,
    output: File,
    buffer: Vec<u8>,
    read: std::collections::VecDeque<u8>,
}

impl Wire {
    /// Bytes come from `input`, and go to `output`.
    #[must_use]
    pub fn new(input: OwnedFd, output: OwnedFd) -> Wire {
        Wire { input: input.into(), output: output.into(), buffer: Vec::new(), read: Default::default() }
    }

    fn fill(&mut self) -> std::io::Result<()> {
        let mut buffer = [0; 4096];
        match self.input.read(&mut buffer)? {
            0 => Err(std::io::ErrorKind::UnexpectedEof.into()),
            count => {
                self.read.extend(&buffer[..count]);
                Ok(())
            }
        }
    }
}

impl Connection for Wire {
    type Error = std::io::Error;

    fn write(&mut self, byte: u8) -> std::io::Result<()> {
        self.buffer.push(byte);
        Ok(())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.output.write_all(&std::mem::take(&mut self.buffer))?;
        self.output.flush()
    }
}

impl ConnectionExt for Wire {
    fn read(&mut self) -> std::io::Result<u8> {
        loop {
            match self.read.pop_front() {
                Some(byte) => return Ok(byte),
                None => self.fill()?,
            }
        }
    }

    fn peek(&mut self) -> std::io::Result<Option<u8>> {
        Ok(self.read.front().copied())
    }
}

/// What happens while the guest runs.
struct Running<'a>(std::marker::PhantomData<&'a ()>);

impl<'a> BlockingEventLoop for Running<'a> {
    type Target = Guest<'a>;
    type Connection = Wire;
    type StopReason = Stop;

    fn wait_for_stop_reason(
        guest: &mut Guest<'a>,
        wire: &mut Wire,
    ) -> Result<Event<Stop>, WaitForStopReasonError<Problem, std::io::Error>> {
        if let Some(stop) = guest.take_reported() {
            return Ok(Event::TargetStopped(stop));
        }
        while wire.read.is_empty() {
            let mut fds = [
                PollFd::from_borrowed_fd(guest.link.waits_for(), PollFlags::IN),
                PollFd::new(&wire.input, PollFlags::IN),
            ];
            poll(&mut fds, None).map_err(|errno| WaitForStopReasonError::Connection(errno.into()))?;
            let [stands, typed] = fds.map(|fd| !fd.revents().is_empty());
            if stands && let Some(stop) = guest.stopped().map_err(WaitForStopReasonError::Target)? {
                return Ok(Event::TargetStopped(stop));
            }
            if typed {
                wire.fill().map_err(WaitForStopReasonError::Connection)?;
            }
        }
        wire.read().map(Event::IncomingData).map_err(WaitForStopReasonError::Connection)
    }

    fn on_interrupt(guest: &mut Guest<'a>) -> Result<Option<Stop>, Problem> {
        // It says when it stands.
        guest.halt().map(|()| None)
    }
}

/// Serves a debugger that has just connected, until it leaves. What GDB has no words for goes to `say`. The guest goes
/// on then. How it left, in words.
///
/// # Errors
/// If the guest cannot be stopped, or the board has gone.
pub fn serve(link: &mut dyn Link, wire: Wire, say: &mut dyn FnMut(&str)) -> Result<&'static str, Problem> {
    let mut guest = Guest::new(link, say);
    let result = stay(&mut guest, wire);
    let left = guest.leave();
    result.and_then(|how| left.map(|()| how))
}

fn stay<'a>(guest: &mut Guest<'a>, wire: Wire) -> Result<&'static str, Problem> {
    guest.halt()?;
    let time = Timespec { tv_sec: PATIENCE.as_secs() as i64, tv_nsec: 0 };
    let fd = guest.link.waits_for();
    let ready = poll(&mut [PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN)], Some(&time));
    if ready.unwrap_or(0) == 0 {
        return Err(format!("{} did not come to stand within {} s", guest.link.guest(), PATIENCE.as_secs()));
    }
    if let Some(Stop::Exited(_)) = guest.stopped()? {
        return Err(format!("{0} is off: `spica start {0}` turns it on", guest.link.guest()));
    }
    let stub = GdbStub::builder(wire).packet_buffer_size(PACKET).build().map_err(|error| error.to_string())?;
    match stub.run_blocking::<Running<'a>>(guest) {
        Ok(DisconnectReason::Disconnect) => Ok("the debugger has detached"),
        Ok(DisconnectReason::Kill) => Ok("the debugger has left (`kill` ends its session, not the guest)"),
        Ok(DisconnectReason::TargetExited(_) | DisconnectReason::TargetTerminated(_)) => Ok("the guest is off"),
        Err(error) if error.is_connection_error() => Ok("the debugger's connection is closed"),
        // The guest's board has failed us.
        Err(error) if error.is_target_error() => Err(error.into_target_error().unwrap_or_default()),
        Err(error) => Err(format!("the debugger was not understood: {error}")),
    }
}
