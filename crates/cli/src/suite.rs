//! `spica test`: all tests, a plain summary of them, which of them took longest, and why each that failed did.
//!
//! The tests of the libraries and those on emulated boards run beside each other, and the board images are built beside
//! both: each of these has long stretches in which it keeps one processor busy, or none.
//!
//! How long a test took is known to libtest alone. It says so on request, behind the test's result, in a form that is
//! not stable: so a line that is not understood has no time, and is passed on as it is.

use std::env;
use std::io::{BufRead, BufReader};
use std::num::NonZeroUsize;
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::{Duration, Instant};

use spica_runner::error::{Context, Error, Result};
use spica_runner::image::Image;
use spica_runner::project::Project;
use spica_runner::{needed, prepare};

/// The package of the end-to-end tests.
const END_TO_END: &str = "spica-tests";

/// How many of the slowest tests the summary names.
const SLOWEST: usize = 10;

/// How many lines of each failed test's message the summary repeats: whoever has only the end of a long log sees why.
const MESSAGE_LINES: usize = 8;
/// How many characters of each of these lines.
const MESSAGE_WIDTH: usize = 200;

/// Debian's packages of boot loaders that the tests start. They are fetched while there is something to compile:
/// without them, some tests at the end would wait for a server, and for nothing else.
const BOOT_LOADERS: [&str; 3] = ["u-boot-qemu", "u-boot-sunxi", "qemu-efi-arm"];

/// What libtest is told, to say how long each test took.
const REPORT_TIME: [&str; 3] = ["-Z", "unstable-options", "--report-time"];

/// How many end-to-end tests run at a time beyond one for each processor: boards wait now and then, for a guest that
/// sleeps or for a limit to pass.
const WAITING: usize = 2;

/// Runs the tests whose names contain `filter`; with `quick`, only those that need no board; with `all`, also those
/// that are ignored because they take long.
///
/// # Errors
/// If a test fails or does not compile.
pub fn run(project: &Project, quick: bool, all: bool, filter: Option<&str>) -> Result<()> {
    project.needs_sources("spica test")?;
    needed::check(&["cargo", "rustc", "cc"])?;
    let start = Instant::now();
    let processors = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let mut parts = vec![Part {
        place: "on this machine",
        packages: &["--workspace", "--exclude", END_TO_END],
        threads: processors,
    }];
    if !quick {
        parts.push(Part {
            place: "on emulated boards",
            packages: &["--package", END_TO_END],
            threads: processors + WAITING,
        });
    }
    let mut summary = Vec::new();
    let mut slowest = Slowest::default();
    let mut failures = Failures::default();
    let mut failed = false;
    let run = Run { project, all, filter };
    let done = thread::scope(|scope| -> Result<_> {
        // With a filter, who knows which of them are needed.
        let mut images = (!quick && filter.is_none()).then(|| {
            let (sender, built) = mpsc::channel();
            scope.spawn(move || build_images(project, all, &sender));
            built
        });
        // First alone: two of cargo's would wait for each other, and say so.
        if !run.compile(&parts[0])? {
            return Err(Error { status: 1, ..Error::failed("the tests do not compile") });
        }
        let mut running = Vec::new();
        for part in &parts {
            let images = if part.packages.contains(&END_TO_END) { images.take() } else { None };
            let (sender, lines) = mpsc::channel();
            let run = &run;
            let thread = scope.spawn(move || {
                if let Some(images) = images {
                    run.compile(part)?;
                    // What most tests boot. What fails there fails in the tests again, where it is reported.
                    let _ = images.recv();
                }
                run.test(part, &sender)
            });
            running.push((part, lines, thread));
        }
        // What the first one says is shown at once; what the others say meanwhile, when it has ended.
        let mut done = Vec::new();
        for (part, lines, thread) in running {
            let mut counts = Counts::default();
            for line in lines {
                let line = Line::parse(&line);
                println!("{}", line.plain);
                counts.add(line.plain);
                failures.add(line.plain);
                if let Some((test, time)) = line.took {
                    slowest.add(time, test);
                }
            }
            let Ok(ended) = thread.join() else { return Err(Error::failed("a thread that runs tests has panicked")) };
            let (success, time) = ended?;
            done.push((part.place, Counts { success, ..counts }, time));
        }
        Ok(done)
    })?;
    for (place, counts, time) in done {
        failed |= !counts.success;
        summary.push(format!("{place}: {counts}, {} s", time.as_secs()));
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
    for failure in &failures.all {
        match failure.place.as_str() {
            "" => println!("spica test: {} failed", failure.test),
            place => println!("spica test: {} failed at {place}", failure.test),
        }
        for line in &failure.message {
            println!("spica test:     {line}");
        }
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

/// Why a test failed: its first panic.
#[derive(Debug, Default, PartialEq)]
struct Failure {
    test: String,
    /// Where the panic came from; empty if there was none.
    place: String,
    /// The beginning of what it said.
    message: Vec<String>,
}

/// The failures that a test program's output tells of, in its order.
#[derive(Debug, Default)]
struct Failures {
    all: Vec<Failure>,
    /// Whether lines belong to the message of the last one.
    is_in_message: bool,
}

impl Failures {
    /// Adds what a line of the output says.
    fn add(&mut self, line: &str) {
        if let Some(test) = line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" stdout ----")) {
            self.all.push(Failure { test: test.to_string(), ..Failure::default() });
            self.is_in_message = false;
            return;
        }
        let Some(failure) = self.all.last_mut() else { return };
        if failure.place.is_empty() {
            // What follows the thread's name and number.
            if let Some((_, place)) = line.split_once(" panicked at ").filter(|_| line.starts_with("thread '")) {
                failure.place = place.trim_end_matches(':').to_string();
                self.is_in_message = true;
            }
        } else if line == "stack backtrace:" || line.starts_with("note: ") || failure.message.len() == MESSAGE_LINES {
            self.is_in_message = false;
        } else if self.is_in_message && !line.is_empty() {
            failure.message.push(line.chars().take(MESSAGE_WIDTH).collect());
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

/// Tests that are run together.
struct Part {
    /// Where they run, for people.
    place: &'static str,
    /// Cargo's options that choose their packages.
    packages: &'static [&'static str],
    /// How many of them run at a time, unless `RUST_TEST_THREADS` says otherwise.
    threads: usize,
}

/// How tests are run.
struct Run<'a> {
    project: &'a Project,
    all: bool,
    filter: Option<&'a str>,
}

impl Run<'_> {
    fn cargo(&self, part: &Part) -> Command {
        let mut command = Command::new("cargo");
        // Documentation has no examples that are tests; to look for some takes a second for each package.
        command.current_dir(self.project.root()).args(["test", "--locked", "--no-fail-fast", "--tests"]);
        command.args(part.packages).stdin(Stdio::null());
        // libtest takes options that are not stable from whom the compiler takes them, too.
        command.env("RUSTC_BOOTSTRAP", "1");
        command
    }

    /// Compiles the tests of a part: whether that went well.
    fn compile(&self, part: &Part) -> Result<bool> {
        let status = self.cargo(part).arg("--no-run").status().context(|| "cannot start cargo")?;
        Ok(status.success())
    }

    /// Runs a part's tests, and sends each line of their output. Whether they succeeded, and how long they took.
    fn test(&self, part: &Part, lines: &Sender<String>) -> Result<(bool, Duration)> {
        let start = Instant::now();
        let mut command = self.cargo(part);
        if env::var_os("RUST_TEST_THREADS").is_none() {
            command.env("RUST_TEST_THREADS", part.threads.to_string());
        }
        command.args(self.filter).arg("--").args(REPORT_TIME).args(self.all.then_some("--include-ignored"));
        let mut child = command.stdout(Stdio::piped()).spawn().context(|| "cannot start cargo")?;
        if let Some(stdout) = child.stdout.take() {
            for line in BufReader::new(stdout).split(b'\n') {
                let line = line.context(|| "cannot read from cargo")?;
                // Whoever prints them has a reason if it does not listen any more.
                let _ = lines.send(String::from_utf8_lossy(&line).into_owned());
            }
        }
        let success = child.wait().context(|| "cannot wait for cargo")?.success();
        Ok((success, start.elapsed()))
    }
}

/// Fetches the guest and boot loaders, and builds the board images that the tests boot. The one that most of them need
/// comes first, and is announced to `built`: tests that need another one build it themselves, or wait for it.
fn build_images(project: &Project, all: bool, built: &Sender<Image>) -> Result<()> {
    prepare::fetch(project, false)?;
    BOOT_LOADERS.into_iter().try_for_each(|package| prepare::package(project, package).map(drop))?;
    let long = all.then_some(Image::SingleTable);
    for image in [Image::Shipped, Image::CheckFastPaths, Image::Papers].into_iter().chain(long) {
        prepare::board_image(project, image)?;
        // Whoever waited has got what it waited for.
        let _ = built.send(image);
    }
    Ok(())
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
    fn failures_are_repeated() {
        let mut failures = Failures::default();
        let output = "\
running 3 tests
test a::b ... FAILED
test c ... ok

failures:

---- a::b stdout ----
it said this before

thread 'a::b' (17) panicked at src/a.rs:7:5:
assertion failed: one
 and more of it
stack backtrace:
   0: std::panicking::begin
note: run with more
thread 'a::b' (17) panicked at src/a.rs:9:5:
another one

---- d stdout ----
Error: \"none panicked\"

---- e stdout ----

thread 'e' (18) panicked at src/e.rs:1:1:
1

2
3
4
5
6
7
8
9

failures:
    a::b
    d";
        output.lines().for_each(|line| failures.add(line));
        failures.add("---- f stdout ----");
        failures.add("thread 'f' (1) panicked at f.rs:1:1:");
        failures.add(&"ä".repeat(MESSAGE_WIDTH + 1));
        let of = |test: &str, place: &str, message: &[&str]| Failure {
            test: test.to_string(),
            place: place.to_string(),
            message: message.iter().map(ToString::to_string).collect(),
        };
        assert_eq!(
            failures.all,
            [
                of("a::b", "src/a.rs:7:5", &["assertion failed: one", " and more of it"]),
                of("d", "", &[]),
                of("e", "src/e.rs:1:1", &["1", "2", "3", "4", "5", "6", "7", "8"]),
                of("f", "f.rs:1:1", &[&"ä".repeat(MESSAGE_WIDTH)]),
            ]
        );
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
