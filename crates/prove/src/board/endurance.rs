//! A guest that works for as long as there is time: see `spica_runner::endurance`.

use spica_runner::board;
use spica_runner::endurance::{self, Options};
use spica_runner::project::{Project, create_dir};
use std::time::Duration;

use crate::part::{Failure, Part};
use crate::work::{Limit, Work};

/// The board.
const BOARD: &str = "cubieboard";

/// What three rounds take at least, on a machine that is not the fastest.
const LEAST: Duration = Duration::from_secs(600);

/// What has to have been seen.
const ROUNDS: &str = "three rounds, which ten minutes are needed for";

/// Nothing is wrong, lost or slower after hours of work.
pub struct Endurance;

impl Part for Endurance {
    fn name(&self) -> &str {
        "endurance"
    }

    fn about(&self) -> &str {
        "rounds of the same work in Linux: the same results, pools at their level, no more instructions at the end"
    }

    fn weight(&self) -> u32 {
        4
    }

    fn on_board(&self) -> bool {
        true
    }

    fn must_see(&self) -> Vec<String> {
        vec![ROUNDS.into()]
    }

    /// A second of the guest takes less than one of ours, for most machines.
    fn run(&self, work: &Work) -> Result<(), Failure> {
        match work.limit() {
            // Rounds are not to be had one by one: three it is.
            Limit::Cases(_) => run(work, 1),
            Limit::Time(_) if work.left() < LEAST => Ok(()),
            Limit::Time(_) => run(work, work.left().as_secs().min(24 * 3600) as u32),
        }
    }

    fn repeat(&self, case: &str, work: &Work) -> Result<(), Failure> {
        match case.parse() {
            Ok(seconds) => run(work, seconds),
            Err(_) => Err(Failure::trouble(format!("{case:?} is no number of seconds"))),
        }
    }
}

fn run(work: &Work, seconds: u32) -> Result<(), Failure> {
    let trouble = |error: spica_runner::error::Error| {
        Failure::trouble(format!("{error}\n{}", error.details.as_deref().unwrap_or_default()))
    };
    let project = Project::find(None).map_err(trouble)?;
    let board = board::find(BOARD).map_err(trouble)?;
    create_dir(&work.state).map_err(trouble)?;
    let log = Some(work.state.join("console.log"));
    let options = Options { log, ..Options::new(board, seconds) };
    let record = endurance::run(&project, &options, &mut |line| {
        work.say(line);
        work.count(1);
    })
    .map_err(trouble)?;
    if record.rounds.len() >= 3 {
        work.note(ROUNDS, 1);
    }
    let wrong = record.verdict();
    if wrong.is_empty() {
        return Ok(());
    }
    Err(Failure::of(seconds.to_string(), format!("{}\n{}", wrong.join("\n"), record.figures())))
}
