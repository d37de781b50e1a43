//! The console: the serial port, shared by everything that prints and reads. See [`spica_console::transmitter`] for who
//! waits for it, and when: nobody while guests run.

use alloc::boxed::Box;
use core::fmt;

use spica_console::SerialPort;
use spica_console::consoles::Consoles;
use spica_console::transmitter::{Sent, Transmitter};

use crate::arch::interrupts::IrqCell;

static CONSOLE: IrqCell<Transmitter> = IrqCell::new(Transmitter::new());

/// Prints to `port` from now on.
pub fn set_port(port: Box<dyn SerialPort>) {
    CONSOLE.with(|console| console.port = Some(port));
}

/// See [`Transmitter::start_buffer`].
pub fn start_buffer() {
    CONSOLE.with(Transmitter::start_buffer);
}

/// See [`Transmitter::poll`]. A port that is in use is left alone, as in [`print`].
pub fn poll() {
    CONSOLE.try_with(|mut console| console.poll());
}

/// See [`Transmitter::finish`].
pub fn finish(consoles: &mut Consoles) {
    CONSOLE.with(|console| console.finish(consoles));
}

/// Prints; what is printed before there is a port is lost. Also used by the panic handler: a port that is in use (the
/// panic came from within its driver) is left alone.
pub fn print(arguments: fmt::Arguments<'_>) {
    CONSOLE.try_with(|mut console| console.print(arguments));
}

/// See [`Transmitter::insert`].
pub fn insert(arguments: fmt::Arguments<'_>) {
    CONSOLE.with(|console| console.insert(arguments));
}

/// See [`Transmitter::drain`].
pub fn drain() {
    CONSOLE.with(|console| console.drain());
}

/// Sends bytes as they are: what the monitor echoes.
pub fn write(bytes: &[u8]) {
    CONSOLE.with(|console| console.write(bytes));
}

/// See [`Transmitter::send`].
pub fn send(consoles: &mut Consoles, most: usize) -> Sent {
    CONSOLE.with(|console| console.send(consoles, most))
}

/// See [`Transmitter::send_last`].
pub fn send_last(consoles: &mut Consoles, at: usize) {
    CONSOLE.with(|console| console.send_last(consoles, at));
}

/// See [`Transmitter::pause`].
pub fn pause(pause: bool) {
    CONSOLE.with(|console| console.pause(pause));
}

/// See [`Transmitter::waits`].
pub fn waits() -> bool {
    CONSOLE.with(|console| console.waits())
}

/// See [`Transmitter::room`].
pub fn room() -> usize {
    CONSOLE.with(|console| console.room())
}

/// See [`spica_console::SerialPort::expect_much`].
pub fn expect_much(much: bool) {
    CONSOLE.with(|console| {
        if let Some(port) = &mut console.port {
            port.expect_much(much);
        }
    });
}

/// A byte that somebody typed, if there is one.
pub fn read() -> Option<u8> {
    CONSOLE.with(|console| console.port.as_deref_mut().and_then(|port| port.get()))
}

/// Makes the port raise its interrupt ([`spica_drivers::Board::console_line`]) when there is something to [`read`].
pub fn enable_rx_interrupt() {
    CONSOLE.with(|console| {
        if let Some(port) = &mut console.port {
            port.enable_rx_interrupt();
        }
    });
}

/// What `log`'s macros print to: quiet by default, because the console is the guests'.
struct Log;

impl log::Log for Log {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        // The macros have asked for the level.
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        print(format_args!("spica: {}\n", record.args()));
    }

    fn flush(&self) {}
}

/// Messages up to `level` are printed from now on.
pub fn start_log(level: log::LevelFilter) {
    // Only a second call finds a logger there, the same one.
    let _ = log::set_logger(&Log);
    log::set_max_level(level);
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
