//! Boots of a board with several bare-metal guests, each kind once.

use std::collections::BTreeMap;
use std::path::Path;

use spica_bench::results::Group;

use super::super::plan::Job;
use super::super::watch::{Flow, watch};
use super::super::{Context, request};
use super::devices;
use crate::bare::{self, Part};
use crate::error::{Error, Result};
use crate::guests::Source;
use crate::prepare::{self, Request};
use crate::project::create_dir;

/// When a spinner counts: from when to when, and until when it goes on for others to count, in milliseconds since its
/// start.
type During = [u32; 3];
/// For what takes as long as it takes.
pub const SHORT: During = [100, 600, 700];
/// For what comes in slices: two seconds are 25 of each of 8 guests.
pub const LONG: During = [150, 2150, 2300];
/// A sleeper: 250 ticks a second, for less long than a spinner spins; then it is off.
pub const SLEEPS: [u32; 3] = [250_000, 125, 0];
/// One that ticks for as long as a spinner spins.
pub const TICKS: [u32; 3] = [250_000, 175, 0];
/// One that waits for as long.
pub const WAITS: [u32; 2] = [700, 0];

/// A guest: what it runs, for a time, with a weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// `spin.S`, with VFP or without.
    Spinner { during: During, weight: u32, vfp: bool },
    /// `sleep.S`.
    Sleeper([u32; 3]),
    /// `end.S`.
    Waiter([u32; 2]),
}

/// What a guest said at last, and what Spica counted of it.
#[derive(Clone, Debug, Default)]
pub struct Said {
    /// Its lines.
    pub lines: Vec<String>,
    /// Spica's counters.
    pub counters: BTreeMap<String, u64>,
}

impl Said {
    /// Its line that begins with `start`.
    ///
    /// # Errors
    /// If there is none.
    pub fn line(&self, start: &str) -> Result<&str> {
        let line = self.lines.iter().find(|line| line.starts_with(start));
        line.map(String::as_str)
            .ok_or_else(|| Error::failed(format!("a guest did not say `{start}`: {:?}", self.lines)))
    }

    /// One of Spica's counters.
    ///
    /// # Errors
    /// If Spica did not say it.
    pub fn counter(&self, name: &str) -> Result<f64> {
        let value = self.counters.get(name).map(|&n| n as f64);
        value.ok_or_else(|| Error::failed(format!("Spica did not count {name}")))
    }

    /// Rounds in a millisecond of a spinner's.
    ///
    /// # Errors
    /// If it did not say how many it did.
    pub fn rate(&self) -> Result<f64> {
        let line = self.line("done")?;
        bare::rate(line).ok_or_else(|| Error::failed(format!("a spinner said {line:?}")))
    }
}

/// A board that boots with guests.
pub struct Boots<'a, 'c> {
    /// What all boots of the run have in common.
    pub context: &'a Context<'c>,
    /// The job: board and configuration.
    pub job: &'a Job,
    /// Where files are.
    pub scratch: &'a Path,
    log: &'a Path,
    spica: &'a mut Vec<String>,
    done: BTreeMap<Vec<Kind>, Vec<Said>>,
    /// What Linux guests said.
    linux: BTreeMap<devices::Board, Vec<String>>,
}

/// The lines of Spica.
pub type Spica = Vec<String>;

impl<'a, 'c> Boots<'a, 'c> {
    /// None so far. Files are in `scratch`; the console of boot N in `log`, with N in its name.
    pub fn new(
        context: &'a Context<'c>,
        job: &'a Job,
        scratch: &'a Path,
        log: &'a Path,
        spica: &'a mut Vec<String>,
    ) -> Self {
        Self { context, job, scratch, log, spica, done: BTreeMap::new(), linux: BTreeMap::new() }
    }

    /// The frequency of the board's timer.
    pub fn timer_hertz(&self) -> f64 {
        if self.job.board.name == "cubieboard" { 24e6 } else { 1e6 }
    }

    /// What these guests say at once on a board, in their order. The same guests are booted once only: they would say
    /// the same.
    ///
    /// # Errors
    /// If one of them does not get to its end.
    pub fn boot(&mut self, kinds: &[Kind]) -> Result<Vec<Said>> {
        if let Some(said) = self.done.get(kinds) {
            return Ok(said.clone());
        }
        let said = self.boot_anew(kinds)?;
        self.done.insert(kinds.to_vec(), said.clone());
        Ok(said)
    }

    fn boot_anew(&mut self, kinds: &[Kind]) -> Result<Vec<Said>> {
        let number = self.done.len();
        let scratch = self.scratch.join(number.to_string());
        create_dir(&scratch)?;
        let names: Vec<_> = (0..kinds.len()).map(|n| format!("guest{n}")).collect();
        let parameters: Vec<Vec<u32>> = kinds.iter().map(|kind| kind.parameters()).collect();
        let named = names.iter().zip(kinds).zip(&parameters);
        let parts: Vec<_> = named.map(|((name, kind), parameters)| part(name, *kind, parameters)).collect();
        let mut request = request(self.job.board, self.job.side, Group::Several);
        request.guests = Some(Source::Manifest(bare::manifest(&scratch, self.context.project, &parts)?));
        request.append = String::new();
        request.memory = None;
        request.spica_append = format!("spica.stats {}", request.spica_append).trim().to_string();
        let mut said = vec![Said::default(); kinds.len()];
        let mut each = |line: &str| {
            let (name, text) = line.split_once("| ").unwrap_or((&names[0], line));
            if let Some(at) = names.iter().position(|n| n == name) {
                said[at].lines.push(text.to_string());
            }
            let over = |(said, kind): (&Said, &Kind)| said.lines.iter().any(|line| line.starts_with(kind.last_line()));
            if said.iter().zip(kinds).all(over) { Flow::Last } else { Flow::Continue }
        };
        let spica = self.watch(&request, &number.to_string(), &mut each)?;
        for (name, said) in names.iter().zip(&mut said) {
            said.counters = counters(&spica, name);
        }
        Ok(said)
    }

    /// What the first guest of such a board says, which boots once only.
    ///
    /// # Errors
    /// If it does not get to its end.
    pub fn lines(&mut self, board: devices::Board) -> Result<Vec<String>> {
        if let Some(lines) = self.linux.get(&board) {
            return Ok(lines.clone());
        }
        let lines = devices::boot(self, board)?;
        self.linux.insert(board, lines.clone());
        Ok(lines)
    }

    /// Runs a board to its end; `each` hears its guests' lines. Gives what Spica said.
    ///
    /// # Errors
    /// If it cannot be started, or does not end well.
    pub fn watch(&mut self, request: &Request, name: &str, each: &mut dyn FnMut(&str) -> Flow) -> Result<Spica> {
        let run = prepare::prepare(self.context.project, request)?;
        let log = self.log.with_extension(format!("{name}.log"));
        let mut spica = Vec::new();
        let stall = self.context.stall(self.job.side);
        let result = watch(&run, &log, stall, self.context.verbose, &mut spica, each);
        self.spica.extend(spica.iter().cloned());
        result.map(|()| spica)
    }
}

impl Kind {
    fn parameters(self) -> Vec<u32> {
        match self {
            Self::Spinner { during: [from, to, until], vfp, .. } => vec![from, to, until, u32::from(vfp)],
            Self::Sleeper(parameters) => parameters.into(),
            Self::Waiter(parameters) => parameters.into(),
        }
    }

    /// How the last line begins that it prints.
    fn last_line(self) -> &'static str {
        match self {
            Self::Spinner { .. } => "all",
            Self::Sleeper(_) => "slept",
            Self::Waiter(_) => "up",
        }
    }
}

fn part<'a>(name: &'a str, kind: Kind, parameters: &'a [u32]) -> Part<'a> {
    match kind {
        Kind::Spinner { weight, .. } => Part::new(name, "spin", parameters).with("weight", &weight.to_string()),
        Kind::Sleeper(_) => Part::new(name, "sleep", parameters),
        Kind::Waiter(_) => Part::new(name, "end", parameters),
    }
}

/// A guest's counters, which Spica says at its end.
#[must_use]
fn counters(spica: &[String], name: &str) -> BTreeMap<String, u64> {
    let start = format!("guest {name}: ");
    let report = spica.iter().skip_while(|line| !line.starts_with(&start)).skip(1);
    let stats = report.take_while(|line| !line.starts_with("guest ")).filter_map(|line| line.strip_prefix("stat "));
    let pairs = stats.filter_map(|line| line.split_once(' '));
    pairs.filter_map(|(name, value)| Some((name.to_string(), value.parse().ok()?))).collect()
}
