//! One serial port for many guests: what each prints and what was printed last, the ring before the port, and what is
//! typed.
//!
//! Nobody waits for the port while guests run. [`consoles`] has a log for each guest and merges what they print, by
//! lines; [`transmitter`] sends that through the ring of [`output`], as the port has room; [`command`] reads the
//! monitor's commands from what is typed. The port is a [`SerialPort`], whose drivers are the hypervisor's.
#![no_std]

extern crate alloc;

pub mod base64;
pub mod command;
pub mod consoles;
pub mod debug;
mod limit;
pub mod output;
mod plain;
mod port;
pub mod trace;
pub mod transmitter;

pub use limit::Limit;
pub use plain::plain;
pub use port::SerialPort;
