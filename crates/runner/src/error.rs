//! Errors, as the person at the terminal meets them.
//!
//! An error is one sentence that names the thing and says what would be right, an exit status that a script can tell
//! apart, and where it helps the end of a log: the console of a guest that died, the output of a compiler.

use std::fmt;
use std::io;

/// The exit status for a command line that makes no sense.
pub const USAGE: u8 = 2;
/// The exit status for a guest that did not finish in time, as `timeout(1)` has it.
pub const TIMEOUT: u8 = 124;
/// The exit status for everything else that goes wrong outside the guest's command.
pub const FAILED: u8 = 125;

/// What went wrong.
#[derive(Debug)]
pub struct Error {
    /// The exit status of `spica`.
    pub status: u8,
    /// One sentence, without a full stop.
    pub message: String,
    /// The end of a log that shows more, if there is one.
    pub details: Option<String>,
}

/// `Result` with [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// The command line asks for something that does not exist or does not fit.
    pub fn usage(message: impl Into<String>) -> Self {
        Self { status: USAGE, message: message.into(), details: None }
    }

    /// Something failed that is not the guest's command.
    pub fn failed(message: impl Into<String>) -> Self {
        Self { status: FAILED, message: message.into(), details: None }
    }

    /// The time is up.
    pub fn timeout(message: impl Into<String>) -> Self {
        Self { status: TIMEOUT, message: message.into(), details: None }
    }

    /// Adds the end of a log; an empty one adds nothing.
    #[must_use]
    pub fn with_details(mut self, details: impl Into<String>) -> Self {
        self.details = Some(details.into()).filter(|d| !d.trim().is_empty());
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if let Some(details) = &self.details {
            for line in details.lines() {
                write!(f, "\n  | {line}")?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for Error {}

/// Says what was being done when an error of the operating system came up.
pub trait Context<T> {
    /// Turns the error into an [`Error`] that begins with `what`.
    fn context<S: Into<String>>(self, what: impl FnOnce() -> S) -> Result<T>;
}

impl<T> Context<T> for io::Result<T> {
    fn context<S: Into<String>>(self, what: impl FnOnce() -> S) -> Result<T> {
        self.map_err(|e| Error::failed(format!("{}: {e}", what().into())))
    }
}

impl<T> Context<T> for std::result::Result<T, rustix::io::Errno> {
    fn context<S: Into<String>>(self, what: impl FnOnce() -> S) -> Result<T> {
        self.map_err(io::Error::from).context(what)
    }
}
