//! `spica bench`: its arguments.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use spica_runner::bench;
use spica_runner::error::Result;
use spica_runner::project::Project;

use super::seconds;

#[derive(Args)]
#[command(after_help = "\
A measurement is a workload on a board in a configuration of Spica, beside the same workload on the same board without
Spica. QEMU counts instructions, so figures do not depend on how fast or busy this machine is, and repeat to the digit.
Results go to DIR/DATE-COMMIT.json, after each boot of a board; tables (.md) and a page with figures (.html) beside it;
consoles to the directory .logs. What was interrupted goes on with --resume.

Exit status:
  0 when all was measured; 1 when something is missing, which is said, or when --compare found something worse;
  2 for a wrong command line, 125 when anything else goes wrong.

Examples:
  spica bench --list                              boards, configurations, and workloads
  spica bench --quick                             a subset, in minutes
  spica bench --workload 'boot/*' --board cubieboard
  spica bench --workload null --workload 'fork-*' --config naive --config default
  spica bench --cycles --workload 'kernel/*'      the time of kernel operations, modelled
  spica bench --config all                        every configuration: hours
  spica bench --resume build/bench/FILE.json      what that run had not measured yet
  spica bench --compare before.json after.json    what changed, worst first
  spica bench --report FILE.json --output DIR     tables and page of a run that was stored as JSON alone")]
pub struct BenchArgs {
    /// Only this board; may be given more than once [default: all]
    #[arg(long, value_name = "NAME")]
    board: Vec<String>,
    /// This configuration of Spica, a pattern such as `without-*`, `all`, or `native`; may be given more than once
    /// [default: default]
    #[arg(long, value_name = "NAME")]
    config: Vec<String>,
    /// Only workloads that this describes: a name or GROUP/NAME, with * and ?; may be given more than once
    #[arg(long, value_name = "GLOB")]
    workload: Vec<String>,
    /// Run this Linux, a zImage, in place of Debian's, natively and under Spica
    #[arg(long, value_name = "FILE")]
    kernel: Option<PathBuf>,
    /// Only the quick subset, with --events unless --cycles is given
    #[arg(long)]
    quick: bool,
    /// Count traps by class and what else costs time on a board, too, in boots of their own
    #[arg(long)]
    events: bool,
    /// Model the time on a Cortex-A8 and an A9, too, with a QEMU 10 that is fetched if this machine has none
    #[arg(long, conflicts_with = "events")]
    cycles: bool,
    /// Print what can be measured
    #[arg(long, exclusive = true)]
    list: bool,
    /// Where results go, or with --report the tables and the page [default: build/bench; with --report, beside FILE]
    #[arg(long, value_name = "DIR", conflicts_with = "resume")]
    output: Option<PathBuf>,
    /// Go on with the run that left FILE; without other choices, with all that it lacks
    #[arg(long, value_name = "FILE")]
    resume: Option<PathBuf>,
    /// How many boards run at the same time [default: one for each processor]
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Give a guest up that prints nothing for so long
    #[arg(long, value_name = "SECS", default_value_t = 1800, value_parser = seconds())]
    stall: u64,
    /// Print what changed from one result file to another
    #[arg(long, value_names = ["A", "B"], num_args = 2, exclusive = true)]
    compare: Option<Vec<PathBuf>>,
    /// Make the tables and the page of a result file, and measure nothing
    #[arg(long, value_name = "FILE", conflicts_with_all = MEASURING)]
    report: Option<PathBuf>,
}

/// What says what is to be measured, and how.
const MEASURING: [&str; 10] =
    ["board", "config", "workload", "kernel", "quick", "events", "cycles", "resume", "jobs", "stall"];

/// The status when something could not be measured, or when a comparison found something worse.
const INCOMPLETE: u8 = 1;

/// Does what the arguments say; gives the exit status.
pub fn run(project: &Project, args: BenchArgs, verbose: bool) -> Result<u8> {
    if let Some([a, b]) = args.compare.as_deref() {
        let changes = bench::changes(a, b)?;
        print!("{}", changes.text());
        return Ok(if changes.is_worse() { INCOMPLETE } else { 0 });
    }
    if let Some(file) = args.report {
        for report in bench::report_again(&file, args.output.as_deref())? {
            println!("{}", report.display());
        }
        return Ok(0);
    }
    project.needs_sources("spica bench")?;
    if args.list {
        print!("{}", bench::list(project)?);
        return Ok(0);
    }
    let options = bench::Options {
        boards: args.board,
        configurations: args.config,
        workloads: args.workload,
        kernel: args.kernel,
        quick: args.quick,
        events: args.events || args.quick && !args.cycles && args.resume.is_none(),
        cycles: args.cycles,
        output: args.output,
        resume: args.resume,
        jobs: args.jobs,
        stall: Duration::from_secs(args.stall),
        verbose,
    };
    let measured = bench::run(project, &options)?;
    print!("{}", measured.summary);
    println!("{}", measured.file.display());
    Ok(if measured.complete { 0 } else { INCOMPLETE })
}
