//! A guest that a client looks into: attached as a debugger is, so that there is one at most.

use std::time::{Duration, Instant};

use spica_runner::control::client::Board;
use spica_runner::error::{Error, Result};

/// The time between two looks at whether somebody wants it to end.
const REST: Duration = Duration::from_millis(20);

/// Waits until `until`, or `stop` holds.
pub(crate) fn wait_until(until: Instant, stop: &dyn Fn() -> bool) {
    while !stop() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        std::thread::sleep(left.min(REST));
    }
}

/// What is said of an answer of the board's that nobody understands.
pub(crate) fn not_understood() -> Error {
    Error::failed("the board answered what this version does not understand")
}

/// See the module's text. When this goes, so does what the client has set up.
pub struct Attached {
    /// The board.
    pub board: Board,
    waits: Board,
    /// The guest's number.
    pub guest: usize,
}

impl Attached {
    /// Attaches to guest number `guest`.
    ///
    /// # Errors
    /// If somebody debugs it or looks into it already, or the board has gone.
    pub fn new(board: Board, guest: usize) -> Result<Self> {
        let waits = board.another()?;
        let mut attached = Self { board, waits, guest };
        attached.ask("attach").map_err(|error| {
            let taken = error.message.contains("has a debugger already");
            if taken {
                Error::failed(format!("{}, or another `spica watch` looks into it", error.message))
            } else {
                error
            }
        })?;
        Ok(attached)
    }

    /// What the board answers to `debug GUEST QUESTION`.
    ///
    /// # Errors
    /// If it cannot, or has gone.
    pub fn ask(&mut self, question: &str) -> Result<Vec<String>> {
        self.board.ask(&format!("debug {} {question}", self.guest))
    }

    /// The guest stands between two instructions then.
    ///
    /// # Errors
    /// If it is off, or the board has gone.
    pub fn halt(&mut self) -> Result<()> {
        self.waits.begin(&format!("debug {} wait", self.guest))?;
        self.ask("halt")?;
        match self.waits.end()?.first() {
            Some(line) if line.starts_with("halted") => Ok(()),
            _ => Err(Error::failed("the guest is off")),
        }
    }
}
