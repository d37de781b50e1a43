//! The console: the serial port, shared by everything that prints and reads.

use alloc::boxed::Box;
use core::fmt::{self, Write};
use core::sync::atomic::{AtomicBool, Ordering};

use crate::arch::interrupts::IrqCell;
use crate::board::SerialPort;

static PORT: IrqCell<Option<Box<dyn SerialPort>>> = IrqCell::new(None);
/// A guest has written part of a line: what Spica has to say begins a new one.
static IN_GUEST_LINE: AtomicBool = AtomicBool::new(false);

/// Prints to `port` from now on.
pub fn set_port(port: Box<dyn SerialPort>) {
    PORT.with(|current| *current = Some(port));
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

/// Prints; what is printed before there is a port is lost. Also used by the panic handler: a port that is in use (the panic came
/// from within its driver) is left alone.
pub fn print(arguments: fmt::Arguments<'_>) {
    PORT.try_with(|mut port| {
        if let Some(port) = port.as_deref_mut() {
            if IN_GUEST_LINE.swap(false, Ordering::Relaxed) {
                let _ = Text(port).write_str("\n");
            }
            // The serial port takes everything.
            let _ = Text(port).write_fmt(arguments);
        }
    });
}

/// Sends bytes as they are: a guest's console output.
pub fn write(bytes: &[u8]) {
    PORT.with(|port| {
        if let Some(port) = port {
            bytes.iter().for_each(|&byte| port.put(byte));
            if let Some(&last) = bytes.last() {
                IN_GUEST_LINE.store(last != b'\n', Ordering::Relaxed);
            }
        }
    });
}

/// A byte that somebody typed, if there is one.
pub fn read() -> Option<u8> {
    PORT.with(|port| port.as_deref_mut().and_then(|port| port.get()))
}

/// Makes the port raise its interrupt ([`crate::board::Board::console_line`]) when there is something to [`read`].
pub fn enable_rx_interrupt() {
    PORT.with(|port| {
        if let Some(port) = port {
            port.enable_rx_interrupt();
        }
    });
}

/// Prints to the console.
#[macro_export]
macro_rules! print {
    ($($argument:tt)*) => { $crate::console::print(format_args!($($argument)*)) };
}

/// Prints a line to the console.
#[macro_export]
macro_rules! println {
    () => { $crate::print!("\n") };
    ($($argument:tt)*) => { $crate::console::print(format_args!("{}\n", format_args!($($argument)*))) };
}
