//! Other programs: run them to their end, and show what they said only when they fail.

use std::process::{Command, Stdio};

use crate::error::{Error, Result};
use crate::needed;

/// How much of a failed program's output an error shows.
const TAIL_LINES: usize = 30;

/// Runs `command` to its end and gives its standard output.
///
/// # Errors
/// If it cannot be started, or ends with a failure; then the error says what `purpose` was not reached ("cannot build
/// the hypervisor") and carries the end of what the program printed.
pub fn output(command: &mut Command, purpose: &str) -> Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|e| Error::failed(format!("{purpose}: {program} cannot be started: {e}{}", whose(&program))))?;
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(stdout);
    }
    let said = format!("{stdout}{}", String::from_utf8_lossy(&output.stderr));
    Err(Error::failed(format!("{purpose}: {program} failed ({})", output.status)).with_details(tail(&said, TAIL_LINES)))
}

/// Where one gets `program`, to follow the error of one that cannot be started.
#[must_use]
pub fn whose(program: &str) -> String {
    needed::package(program).map_or(String::new(), |package| format!("; it is in Debian's package {package}"))
}

/// The last `count` lines of `text`.
#[must_use]
pub fn tail(text: &str, count: usize) -> String {
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}
