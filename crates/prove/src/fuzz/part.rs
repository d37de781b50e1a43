//! The parts of the fuzz targets: libFuzzer, built with what counts branches, started for a time; and for tests,
//! without it.

use super::{TARGETS, Target};
use crate::part::{Failure, Part};
use crate::random::Random;
use crate::work::{Limit, Work, attempt, verdict};
use spica_runner::project::{self, Project};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// What makes the compiler count branches and show comparisons, as libFuzzer wants them. The pass is LLVM's, in any
/// rustc.
const FLAGS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares --cfg fuzzing";
/// Not for build scripts: they are for the host, which is the same, but named otherwise.
const TRIPLE: &str = "x86_64-unknown-linux-gnu";
/// The longest input in bytes.
const LONGEST: usize = 16384;
/// An input that takes longer than this many seconds is a failure.
const SLOWEST: u32 = 10;

/// One target as a part.
pub struct Fuzz {
    target: &'static Target,
    name: String,
}

/// A part for each target.
#[must_use]
pub fn parts() -> Vec<Box<dyn Part>> {
    let part = |target| Box::new(Fuzz { target, name: format!("fuzz-{}", target.name) }) as Box<dyn Part>;
    TARGETS.iter().map(part).collect()
}

/// The fuzzer's program, built if need be.
fn program(project: &Project) -> Result<PathBuf, Failure> {
    let trouble = |e: spica_runner::error::Error| Failure::trouble(e.to_string());
    let directory = project.build("prove/fuzz");
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--locked", "--release", "--target", TRIPLE, "--target-dir"]).arg(&directory);
    cargo.current_dir(project.source("fuzz")).env("RUSTFLAGS", FLAGS).env("RUSTC_BOOTSTRAP", "1");
    spica_runner::process::output(&mut cargo, "cannot build the fuzzer").map_err(trouble)?;
    Ok(directory.join(TRIPLE).join("release/fuzz"))
}

fn hexadecimal(data: &[u8]) -> String {
    data.iter().fold(String::from("hex:"), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The bytes of a case: `hex:0123…`, or a file.
fn bytes(case: &str) -> Result<Vec<u8>, Failure> {
    let wrong = || Failure::trouble("a case is hex: with digits, or a file");
    match case.strip_prefix("hex:") {
        Some(digits) => (0..digits.len())
            .step_by(2)
            .map(|at| digits.get(at..at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok()).ok_or_else(wrong))
            .collect(),
        None => project::read(Path::new(case)).map_err(|e| Failure::trouble(e.to_string())),
    }
}

/// Something like `data`, as a fuzzer without eyes makes it.
fn mutated(random: &mut Random, data: &[u8]) -> Vec<u8> {
    let mut data = data.to_vec();
    for _ in 0..1 + random.below(8) {
        let at = random.below(data.len() as u32 + 1) as usize;
        let any = random.word();
        let word = random.pick(&[0, 1, 0x7f, 0xff, any]).to_le_bytes();
        match random.below(4) {
            0 => data.truncate(at.max(1)),
            1 => data.splice(at..at, word).for_each(drop),
            2 => data.iter_mut().skip(at).zip(word).for_each(|(byte, new)| *byte = new),
            _ => data.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << (word[0] & 7)),
        }
    }
    data
}

impl Fuzz {
    /// For tests: the seeds, and what becomes of them by chance.
    fn blind(&self, work: &Work) -> Result<(), Failure> {
        let seeds = (self.target.seeds)();
        let input = |number: u64| match seeds.get((number - work.numbers().start) as usize) {
            Some(seed) => seed.clone(),
            None => {
                let mut random = Random::new(number);
                let seed = &seeds[random.below(seeds.len() as u32) as usize];
                mutated(&mut random, seed)
            }
        };
        let ran = work.cases(work.numbers(), 1, || (), |(), number| (self.target.run)(&input(number)));
        ran.map(drop).map_err(|(number, message)| self.failure(work, &input(number), &message))
    }

    /// A failure with its input, made smaller: in its name if it is short, else in a file.
    fn failure(&self, work: &Work, data: &[u8], message: &str) -> Failure {
        let data = crate::reduce::list(data, 2000, |data| attempt(|| (self.target.run)(data)).is_err());
        let message = attempt(|| (self.target.run)(&data)).err().unwrap_or_else(|| message.into());
        if data.len() <= 200 {
            return Failure::of(hexadecimal(&data), message);
        }
        let file = work.state.join("smallest");
        match project::write(&file, &data) {
            Ok(()) => Failure::of(file.display().to_string(), message),
            Err(error) => Failure::trouble(format!("{message}\n{error}")),
        }
    }

    /// Lets libFuzzer look until the time is over.
    fn guided(&self, work: &Work) -> Result<(), Failure> {
        let trouble = |e: spica_runner::error::Error| Failure::trouble(e.to_string());
        let project = Project::find(None).map_err(trouble)?;
        work.say("building the fuzzer");
        let program = program(&project)?;
        let (corpus, found) = (work.state.join("corpus"), work.state.join("found"));
        for (n, seed) in (self.target.seeds)().iter().enumerate() {
            project::write(&corpus.join(format!("seed-{n}")), seed).map_err(trouble)?;
        }
        project::remove_dir(&found).map_err(trouble)?;
        project::create_dir(&found).map_err(trouble)?;
        work.say("");
        // The time that building took is not the fuzzer's to make up for.
        let seconds = work.left().max(Duration::from_secs(5)).as_secs();
        let mut fuzzer = Command::new(&program);
        fuzzer.arg(&corpus).env("SPICA_FUZZ_TARGET", self.target.name).stdin(Stdio::null());
        fuzzer.args([format!("-max_total_time={seconds}"), format!("-max_len={LONGEST}")]);
        fuzzer.args([format!("-timeout={SLOWEST}"), format!("-seed={}", work.seed as u32 | 1)]);
        fuzzer.args([format!("-artifact_prefix={}/", found.display()), "-print_final_stats=1".into()]);
        let output = fuzzer.output().map_err(|e| Failure::trouble(format!("{}: {e}", program.display())))?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let number = |name: &str| said.lines().rev().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        work.count(number("stat::number_of_executed_units:").unwrap_or(0));
        let branches = said.lines().rev().find_map(|line| line.split("cov: ").nth(1)?.split(' ').next()?.parse().ok());
        work.note("branches reached", branches.unwrap_or(0));
        let entries = std::fs::read_dir(&corpus).map_or(0, Iterator::count);
        work.note("inputs that reach something of their own", entries as u64);
        if output.status.success() {
            return Ok(());
        }
        let tail = spica_runner::process::tail(&said, 30);
        match std::fs::read_dir(&found).into_iter().flatten().find_map(|entry| std::fs::read(entry.ok()?.path()).ok()) {
            // One that is too slow, or that takes the whole process with it, is not tried in this one.
            Some(data) if said.contains("panicked at") => Err(self.failure(work, &data, &tail)),
            Some(data) => Err(Failure::of(hexadecimal(&data), tail)),
            None => Err(Failure::trouble(tail)),
        }
    }
}

impl Part for Fuzz {
    fn name(&self) -> &str {
        &self.name
    }

    fn about(&self) -> &str {
        self.target.about
    }

    fn run(&self, work: &Work) -> Result<(), Failure> {
        match work.limit() {
            Limit::Time(_) => self.guided(work),
            Limit::Cases(_) => self.blind(work),
        }
    }

    fn repeat(&self, case: &str, _work: &Work) -> Result<(), Failure> {
        let data = bytes(case)?;
        verdict(case, attempt(|| (self.target.run)(&data)))
    }
}
