//! The serial port's transmitter, and what waits for it.
//!
//! Bytes are sent by polling until guests run, and once Spica has nothing more to do but to say so. In between nobody
//! waits for the port: what is printed goes into a ring ([`crate::output`]), and from there to the port, a bounded
//! number of bytes when something is printed, and as many when the port's interrupt says that it has room.

use alloc::boxed::Box;
use core::fmt::{self, Write};

use crate::SerialPort;
use crate::consoles::Consoles;
use crate::output::{BYTES, Output};

/// Bytes that are sent at once at most: more than any transmitter's FIFO takes, see [`SerialPort::set_tx_interrupt`].
const AT_ONCE: usize = 256;

/// See the module's text.
pub struct Transmitter {
    /// The port, once there is one. Whoever receives uses it, too.
    pub port: Option<Box<dyn SerialPort>>,
    /// The ring, once there is one.
    output: Option<Output>,
    /// It is empty, and bytes are sent by polling.
    polled: bool,
    /// The port's transmit interrupt is on.
    interrupt: bool,
    /// It is not to be turned on.
    paused: bool,
    /// Guests' output may wait in their logs.
    rest: bool,
}

/// What [`Transmitter::send`] did.
pub struct Sent {
    /// Bytes that the port took.
    pub bytes: usize,
    /// There are more, and the transmit interrupt is [paused](Transmitter::pause).
    pub waits: bool,
}

/// Text to the serial port, polled, each line end with a carriage return before it.
struct Text<'a>(&'a mut dyn SerialPort);

impl Write for Text<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            if byte == b'\n' {
                self.0.put(b'\r');
            }
            self.0.put(byte);
        }
        Ok(())
    }
}

/// Sends everything, by polling.
fn flush(output: &mut Output, port: &mut dyn SerialPort) {
    output.send(usize::MAX, |bytes| {
        bytes.iter().for_each(|&byte| port.put(byte));
        bytes.len()
    });
}

impl Transmitter {
    /// Without a port: what is printed is lost.
    pub const fn new() -> Transmitter {
        Transmitter { port: None, output: None, polled: true, interrupt: false, paused: false, rest: false }
    }

    /// From now on the port is not waited for.
    pub fn start_buffer(&mut self) {
        self.output.get_or_insert_with(|| Output::new(BYTES));
        self.polled = false;
    }

    /// Sends everything that was printed, and waits for that.
    pub fn drain(&mut self) {
        if let Some((output, port)) = self.buffer() {
            flush(output, port);
            self.set_interrupt(false);
        }
    }

    /// The same, and sends bytes by polling from now on.
    pub fn poll(&mut self) {
        self.drain();
        self.polled = true;
    }

    /// The same, after all that guests have printed: none of them runs any more.
    pub fn finish(&mut self, consoles: &mut Consoles) {
        consoles.release();
        while let Some((output, port)) = self.buffer() {
            consoles.draw(output);
            if output.is_empty() {
                break;
            }
            flush(output, port);
        }
        self.poll();
    }

    /// Prints a message.
    pub fn print(&mut self, arguments: fmt::Arguments<'_>) {
        if let Some((output, _)) = self.buffer() {
            output.message(arguments);
            self.send_some();
            return;
        }
        let new_line = self.output.as_mut().is_some_and(Output::end_line);
        if let Some(port) = self.port.as_deref_mut() {
            // The serial port takes everything.
            let _ = Text(port).write_str(if new_line { "\n" } else { "" });
            let _ = Text(port).write_fmt(arguments);
        }
    }

    /// Prints a message that whoever reads takes out again ([`Output::insert`]).
    pub fn insert(&mut self, arguments: fmt::Arguments<'_>) {
        if let Some((output, _)) = self.buffer() {
            output.insert(arguments);
            self.send_some();
        }
    }

    /// Sends bytes as they are.
    pub fn write(&mut self, bytes: &[u8]) {
        if let Some((output, _)) = self.buffer() {
            output.raw(bytes);
            self.send_some();
        } else if let Some(port) = &mut self.port {
            bytes.iter().for_each(|&byte| port.put(byte));
        }
    }

    /// Sends what is to be shown of the guests' output, as far as the port has room now, and at most `most` bytes. If
    /// that is not all, the port raises its interrupt when it has room, unless that is [paused](Self::pause).
    pub fn send(&mut self, consoles: &mut Consoles, most: usize) -> Sent {
        let mut bytes = 0;
        loop {
            let Some((output, port)) = self.buffer() else { return Sent { bytes, waits: false } };
            consoles.draw(output);
            if output.is_empty() {
                self.rest = false;
                self.set_interrupt(false);
                return Sent { bytes, waits: false };
            }
            match output.send(AT_ONCE.min(most - bytes), |bytes| port.try_put_all(bytes)) {
                0 => {
                    self.rest = true;
                    self.want_interrupt();
                    return Sent { bytes, waits: self.paused };
                }
                sent => bytes += sent,
            }
        }
    }

    /// The same for what guest `at` has printed, which has ended: before that of others, and for more of it.
    pub fn send_last(&mut self, consoles: &mut Consoles, at: usize) {
        if let Some((output, _)) = self.buffer() {
            consoles.draw_last(at, output);
        }
        self.send_some();
    }

    /// Keeps the port from raising its transmit interrupt, or lets it.
    pub fn pause(&mut self, pause: bool) {
        self.paused = pause;
        if pause {
            self.set_interrupt(false);
        }
    }

    /// Whether the transmit interrupt is paused, and something may wait for the port.
    pub fn waits(&self) -> bool {
        let some = !self.polled && self.output.as_ref().is_some_and(|output| !output.is_empty());
        self.paused && (self.rest || some)
    }

    /// Bytes that there is room for until the port must send some: without end where it is polled.
    pub fn room(&self) -> usize {
        self.output.as_ref().filter(|_| !self.polled).map_or(usize::MAX, Output::room)
    }

    fn buffer(&mut self) -> Option<(&mut Output, &mut dyn SerialPort)> {
        let output = self.output.as_mut().filter(|_| !self.polled)?;
        Some((output, self.port.as_deref_mut()?))
    }

    /// Sends what the port has room for now.
    fn send_some(&mut self) {
        if let Some((output, port)) = self.buffer() {
            output.send(AT_ONCE, |bytes| port.try_put_all(bytes));
            if !output.is_empty() {
                self.want_interrupt();
            }
        }
    }

    /// The port has to tell when there is room.
    fn want_interrupt(&mut self) {
        if !self.paused {
            self.set_interrupt(true);
        }
    }

    fn set_interrupt(&mut self, on: bool) {
        if self.interrupt != on
            && let Some(port) = &mut self.port
        {
            port.set_tx_interrupt(on);
            self.interrupt = on;
        }
    }
}

impl Default for Transmitter {
    fn default() -> Self {
        Transmitter::new()
    }
}
