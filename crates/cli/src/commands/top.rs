//! `spica top`: its arguments.

use std::time::Duration;

use clap::Args;
use spica_cli::times;
use spica_cli::top::{self, Order, Until};
use spica_runner::control::client::Board;
use spica_runner::error::Result;
use spica_runner::project::Project;

#[derive(Args)]
#[command(after_help = "\
Columns; all but the first four count what happened in a second:
  PROCESSOR  how much of the time it had the processor, the work of Spica for it included
  MEMORY     what it has; what it gave to its balloon is taken off
  WAKES      it was woken from waiting for an interrupt
  IRQ        it took an interrupt
  SYSCALL    its programs made a system call
  FAULT      it took an abort of its own, such as a page fault, or an undefined instruction
  SHADOW     its shadow tables lacked an entry, or did not allow an access yet: nothing that it sees
  BRANCH     a branch of its kernel trapped: an indirect one, or one whose target was not translated
  EMULATE    an instruction of its kernel was interpreted
  DEVICE     it accessed a device
  CODE       it wrote to code that was translated

A guest that is slow has much of one of these: many BRANCH and CODE say that its kernel changes code, many SHADOW that it
changes its tables, many DEVICE that its driver asks for each byte.

Keys:
  q, Esc, Ctrl-C    leave              s    next order: by number, processor, traps, memory, name
  space             show it now        r    the other way round

For scripts: where standard output is no terminal, or with --once, one table follows the other.
  spica top --once                       what happened in one second
  spica top --for 10s --every 5s         two tables")]
pub struct TopArgs {
    /// The time between two tables: 200ms, 1s, 1m
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = every)]
    every: Duration,
    /// End after this time
    #[arg(long = "for", value_name = "TIME", value_parser = times::parse)]
    time: Option<Duration>,
    /// One table, and the end
    #[arg(long, conflicts_with = "time")]
    once: bool,
    /// The order of the guests
    #[arg(long, value_name = "ORDER", default_value = "number")]
    sort: Order,
    /// Of several boards that run, the one of `spica run --name NAME`, or of this process
    #[arg(long, value_name = "NAME|PID")]
    run: Option<String>,
}

/// A time between two tables: a board on a slow line takes some tenths of a second to answer.
fn every(text: &str) -> std::result::Result<Duration, String> {
    let time = times::parse(text)?;
    if time < Duration::from_millis(100) { Err("expected 100ms or more".into()) } else { Ok(time) }
}

/// Does what the arguments say.
pub fn run(project: &Project, args: TopArgs) -> Result<()> {
    let board = Board::find(project, args.run.as_deref())?;
    let until = match (args.once, args.time) {
        (true, _) => Until::Once,
        (false, Some(time)) => Until::Passed(time),
        (false, None) => Until::Asked,
    };
    top::show(board, args.every, until, args.sort)
}
