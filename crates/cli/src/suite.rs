//! `spica test`: all tests, and a plain summary of them.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Instant;

use spica_runner::error::{Context, Error, Result};
use spica_runner::project::Project;

/// The package of the end-to-end tests.
const END_TO_END: &str = "spica-tests";

/// Runs the tests whose names contain `filter`; with `quick`, only those that need no board.
///
/// # Errors
/// If a test fails or does not compile.
pub fn run(project: &Project, quick: bool, filter: Option<&str>) -> Result<()> {
    let start = Instant::now();
    let mut parts = vec![("on this machine", vec!["--workspace", "--exclude", END_TO_END])];
    if !quick {
        parts.push(("on emulated boards", vec!["--package", END_TO_END]));
    }
    let mut summary = Vec::new();
    let mut failed = false;
    for (place, packages) in parts {
        let start = Instant::now();
        let counts = cargo_test(project, &packages, filter)?;
        failed |= !counts.success;
        summary.push(format!("{place}: {counts}, {} s", start.elapsed().as_secs()));
    }
    println!();
    for line in &summary {
        println!("spica test: {line}");
    }
    let seconds = start.elapsed().as_secs();
    if failed {
        return Err(Error { status: 1, ..Error::failed(format!("tests failed, after {seconds} s")) });
    }
    println!("spica test: all passed in {seconds} s");
    Ok(())
}

/// What a run of `cargo test` came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    passed: u32,
    failed: u32,
    ignored: u32,
    success: bool,
}

impl std::fmt::Display for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)?;
        if self.ignored > 0 {
            write!(f, ", {} ignored", self.ignored)?;
        }
        if !self.success && self.failed == 0 {
            write!(f, ", and some did not compile or did not end")?;
        }
        Ok(())
    }
}

impl Counts {
    /// Adds what a line of a test program's output says: `test result: ok. 3 passed; 0 failed; 1 ignored; …`.
    fn add(&mut self, line: &str) {
        let Some(result) = line.strip_prefix("test result: ") else { return };
        for part in result.split(['.', ';']) {
            let mut words = part.split_whitespace();
            let (Some(number), Some(kind)) = (words.next().and_then(|w| w.parse::<u32>().ok()), words.next()) else {
                continue;
            };
            match kind {
                "passed" => self.passed += number,
                "failed" => self.failed += number,
                "ignored" => self.ignored += number,
                _ => {}
            }
        }
    }
}

/// Runs `cargo test`, passing its output on.
fn cargo_test(project: &Project, packages: &[&str], filter: Option<&str>) -> Result<Counts> {
    let mut command = Command::new("cargo");
    command.current_dir(project.root()).args(["test", "--locked", "--no-fail-fast"]).args(packages);
    command.args(filter).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().context(|| "cannot start cargo")?;
    let mut counts = Counts::default();
    if let Some(stdout) = child.stdout.take() {
        for line in BufReader::new(stdout).split(b'\n') {
            let line = line.context(|| "cannot read from cargo")?;
            let line = String::from_utf8_lossy(&line);
            println!("{line}");
            counts.add(&line);
        }
    }
    counts.success = child.wait().context(|| "cannot wait for cargo")?.success();
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_add_up() {
        let mut counts = Counts::default();
        counts.add("test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out; finished in 0.00s");
        counts.add("test result: FAILED. 4 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out");
        counts.add("test x ... ok");
        assert_eq!(counts, Counts { passed: 7, failed: 2, ignored: 1, success: false });
    }
}
