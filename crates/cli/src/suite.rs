//! `spica test`: all tests, a plain summary of them, and which of them took longest.
//!
//! How long a test took is known to libtest alone. It says so on request, behind the test's result, in a form that is
//! not stable: so a line that is not understood has no time, and is passed on as it is.

use std::env;
use std::io::{BufRead, BufReader};
use std::num::NonZeroUsize;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use spica_runner::error::{Context, Error, Result};
use spica_runner::needed;
use spica_runner::project::Project;

/// The package of the end-to-end tests.
const END_TO_END: &str = "spica-tests";

/// How many of the slowest tests the summary names.
const SLOWEST: usize = 10;

/// What libtest is told, to say how long each test took.
const REPORT_TIME: [&str; 3] = ["-Z", "unstable-options", "--report-time"];

/// How many end-to-end tests run at a time beyond one for each processor: boards wait now and then, for a guest that
/// sleeps or for a limit to pass.
const WAITING: usize = 2;

/// Runs the tests whose names contain `filter`; with `quick`, only those that need no board; with `all`, also those that
/// are ignored because they take long.
///
/// # Errors
/// If a test fails or does not compile.
pub fn run(project: &Project, quick: bool, all: bool, filter: Option<&str>) -> Result<()> {
    project.needs_sources("spica test")?;
    needed::check(&["cargo", "rustc", "cc"])?;
    let start = Instant::now();
    let processors = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let mut parts = vec![("on this machine", vec!["--workspace", "--exclude", END_TO_END], processors)];
    if !quick {
        parts.push(("on emulated boards", vec!["--package", END_TO_END], processors + WAITING));
    }
    let mut summary = Vec::new();
    let mut slowest = Slowest::default();
    let mut failed = false;
    for (place, packages, threads) in parts {
        let start = Instant::now();
        let counts = cargo_test(project, &packages, threads, all, filter, &mut slowest)?;
        failed |= !counts.success;
        summary.push(format!("{place}: {counts}, {} s", start.elapsed().as_secs()));
    }
    println!();
    if !slowest.tests.is_empty() {
        println!("spica test: what took longest, waiting for boots and other tests included:");
    }
    for (time, test) in &slowest.tests {
        println!("spica test: {:8.1} s  {test}", time.as_secs_f64());
    }
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

/// The slowest tests, slowest first.
#[derive(Debug, Default)]
struct Slowest {
    tests: Vec<(Duration, String)>,
}

impl Slowest {
    fn add(&mut self, time: Duration, test: &str) {
        // Behind those that took as long: what came first stays first.
        let place = self.tests.partition_point(|(known, _)| *known >= time);
        self.tests.insert(place, (time, test.to_string()));
        self.tests.truncate(SLOWEST);
    }
}

/// A line of a test program's output.
#[derive(Debug, PartialEq)]
struct Line<'a> {
    /// As it is without times.
    plain: &'a str,
    /// The test that it is about, and how long that took.
    took: Option<(&'a str, Duration)>,
}

impl<'a> Line<'a> {
    /// Takes the time out of `test NAME ... ok <1.234s>`.
    fn parse(line: &'a str) -> Self {
        let timed = || {
            let (name, result) = line.strip_prefix("test ")?.split_once(" ... ")?;
            let (_, time) = result.strip_suffix("s>")?.rsplit_once(" <")?;
            let took = Duration::try_from_secs_f64(time.parse().ok()?).ok()?;
            Some(Self { plain: &line[..line.len() - " <s>".len() - time.len()], took: Some((name, took)) })
        };
        timed().unwrap_or(Self { plain: line, took: None })
    }
}

/// Runs `cargo test`, so many tests at a time unless `RUST_TEST_THREADS` says otherwise, passing its output on without
/// the times, which are added to `slowest`.
fn cargo_test(
    project: &Project,
    packages: &[&str],
    threads: usize,
    all: bool,
    filter: Option<&str>,
    slowest: &mut Slowest,
) -> Result<Counts> {
    let mut command = Command::new("cargo");
    // Documentation has no examples that are tests; to look for some takes a second for each package.
    command.current_dir(project.root()).args(["test", "--locked", "--no-fail-fast", "--tests"]).args(packages);
    if env::var_os("RUST_TEST_THREADS").is_none() {
        command.env("RUST_TEST_THREADS", threads.to_string());
    }
    // libtest takes options that are not stable from whom the compiler takes them, too.
    command.args(filter).arg("--").args(REPORT_TIME).env("RUSTC_BOOTSTRAP", "1");
    command.args(all.then_some("--include-ignored"));
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context(|| "cannot start cargo")?;
    let mut counts = Counts::default();
    if let Some(stdout) = child.stdout.take() {
        for line in BufReader::new(stdout).split(b'\n') {
            let line = line.context(|| "cannot read from cargo")?;
            let line = String::from_utf8_lossy(&line);
            let line = Line::parse(&line);
            println!("{}", line.plain);
            counts.add(line.plain);
            if let Some((test, time)) = line.took {
                slowest.add(time, test);
            }
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

    #[test]
    fn times_are_taken_out_of_lines() {
        let of = |line| {
            let line = Line::parse(line);
            (line.plain.to_string(), line.took.map(|(name, time)| (name, time.as_millis())))
        };
        assert_eq!(of("test a::b ... ok <12.345s>"), ("test a::b ... ok".to_string(), Some(("a::b", 12345))));
        assert_eq!(of("test a - should panic ... FAILED <0.001s>").0, "test a - should panic ... FAILED");
        assert_eq!(of("test a ... FAILED (note <1s>) <0.001s>").0, "test a ... FAILED (note <1s>)");
        let doctest = of("test src/lib.rs - f (line 7) ... ok <0.250s>");
        assert_eq!(doctest.1, Some(("src/lib.rs - f (line 7)", 250)));
        for line in [
            "test a ... ok",
            "test a ... ignored, takes 2 h",
            "test a ... ok <fast>",
            "test a ... ok <-1.0s>",
            "test a ... ok <1e99s>",
            "test result: ok. 3 passed; 0 failed; finished in 0.00s",
            "a <b> <1.000s>",
            "",
        ] {
            assert_eq!(of(line), (line.to_string(), None));
        }
    }

    #[test]
    fn the_slowest_come_first() {
        let mut slowest = Slowest::default();
        for (number, time) in [5, 1, 9, 9, 3, 7, 2, 8, 4, 6, 0, 11].into_iter().enumerate() {
            slowest.add(Duration::from_secs(time), &number.to_string());
        }
        let tests: Vec<_> = slowest.tests.iter().map(|(time, test)| (time.as_secs(), test.as_str())).collect();
        let expected =
            [(11, "11"), (9, "2"), (9, "3"), (8, "7"), (7, "5"), (6, "9"), (5, "0"), (4, "8"), (3, "4"), (2, "6")];
        assert_eq!(tests, expected);
    }
}
