//! The `spica` command on the development machine: reads its arguments and hands over to the library.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use spica_cli::board::{self, BOARDS};
use spica_cli::error::{Error, Result, USAGE};
use spica_cli::exec::{self, Script};
use spica_cli::prepare::{self, Request};
use spica_cli::project::Project;
use spica_cli::{bench, interactive, suite};

/// How long a command in the guest may take, boot included, in seconds.
const DEFAULT_TIMEOUT: u64 = 300;

/// Spica runs unmodified guest operating systems on ARMv7-A boards without virtualisation extensions.
#[derive(Parser)]
#[command(
    name = "spica",
    version,
    arg_required_else_help = true,
    after_help = "\
Examples:
  spica run                              Debian's kernel and a shell, under Spica, on an emulated Cortex-A8
  spica run --native                     the same guest on the same board without Spica
  spica run --exec 'uname -a; cat /proc/cpuinfo'
  spica test                             everything that can be tested here
  spica bench --quick                    what it costs to run under Spica, in instructions"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// Show what is done, Spica's own log, and with --exec the guest's boot, on standard error
    #[arg(long, short, global = true)]
    verbose: bool,
}

#[derive(Subcommand)]
enum Command {
    /// Boot a guest on an emulated board, with its shell on this terminal
    Run(Box<RunArgs>),
    /// Fetch the guest's packages from Debian, if they are not here yet
    Fetch {
        /// Fetch the newest ones, whatever is here
        #[arg(long)]
        update: bool,
    },
    /// Run the tests: those of this machine, then those of the emulated boards
    Test {
        /// Only the tests that need no board
        #[arg(long)]
        quick: bool,
        /// Only tests whose names contain this
        filter: Option<String>,
    },
    /// Measure how many instructions work takes under Spica and on the bare board
    Bench(Box<BenchArgs>),
}

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
  spica bench --config all                        every configuration: hours
  spica bench --resume build/bench/FILE.json      what that run had not measured yet
  spica bench --compare before.json after.json    what changed, worst first")]
struct BenchArgs {
    /// Only this board; may be given more than once [default: all]
    #[arg(long, value_name = "NAME")]
    board: Vec<String>,
    /// This configuration of Spica, `all`, or `native`; may be given more than once [default: default]
    #[arg(long, value_name = "NAME")]
    config: Vec<String>,
    /// Only workloads that this describes: a name or GROUP/NAME, with * and ?; may be given more than once
    #[arg(long, value_name = "GLOB")]
    workload: Vec<String>,
    /// Only the quick subset
    #[arg(long)]
    quick: bool,
    /// Count traps by class, too: one or two more boots for each workload that runs in Linux
    #[arg(long)]
    traps: bool,
    /// Print what can be measured
    #[arg(long, exclusive = true)]
    list: bool,
    /// Where results go [default: build/bench]
    #[arg(long, value_name = "DIR", conflicts_with = "resume")]
    output: Option<PathBuf>,
    /// Go on with the run that left FILE; without other choices, with all that it lacks
    #[arg(long, value_name = "FILE")]
    resume: Option<PathBuf>,
    /// How many boards run at the same time [default: one for each processor]
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Give a guest up that prints nothing for so long
    #[arg(long, value_name = "SECS", default_value_t = 1800)]
    stall: u64,
    /// Print what changed from one result file to another
    #[arg(long, value_names = ["A", "B"], num_args = 2, exclusive = true)]
    compare: Option<Vec<PathBuf>>,
    /// Write the tables and the page of a result file anew
    #[arg(long, value_name = "FILE", exclusive = true)]
    report: Option<PathBuf>,
}

fn bench(project: &Project, args: BenchArgs, verbose: bool) -> Result<u8> {
    if args.list {
        return bench::list(project).map(|()| 0);
    }
    if let Some([a, b]) = args.compare.as_deref() {
        return bench::show_changes(a, b);
    }
    if let Some(file) = args.report {
        return bench::show_report(&file).map(|()| 0);
    }
    let options = bench::Options {
        boards: args.board,
        configurations: args.config,
        workloads: args.workload,
        quick: args.quick,
        traps: args.traps,
        output: args.output,
        resume: args.resume,
        jobs: args.jobs,
        stall: Duration::from_secs(args.stall),
        verbose,
    };
    bench::run(project, &options)
}

#[derive(Args)]
#[command(after_help = "\
Keys:
  Ctrl-A x    leave at once            Ctrl-A Ctrl-A    a Ctrl-A for the guest
  Ctrl-]      Spica's monitor: `help` lists what can be asked, an empty line goes back
  The guest's `poweroff -f`, or the end of its shell, leaves, too.

Exit status:
  0 when the guest switched itself off; with --exec, that of the command.
  2 for a wrong command line, 124 when the time is up, 125 when anything else goes wrong.

Examples:
  spica run --board vexpress-a9          on a Cortex-A9
  spica run --exec 'dmesg | tail'        only the command's output, on standard output
  spica run --exec 'sh -c \"exit 3\"'; echo $?
  spica run --kernel zImage --initrd initrd.gz --append 'root=/dev/ram0' --memory 128M")]
struct RunArgs {
    /// The board to emulate
    #[arg(long, value_name = "NAME", default_value = BOARDS[0].name, long_help = board_help())]
    board: String,
    /// Boot the guest on the board itself, without Spica
    #[arg(long)]
    native: bool,
    /// Run COMMAND in the guest's shell instead of a terminal; its standard error joins its output
    #[arg(long, value_name = "COMMAND")]
    exec: Option<String>,
    /// Give up after this many seconds [default: none; 300 with --exec]
    #[arg(long, value_name = "SECS")]
    timeout: Option<u64>,
    /// A kernel of your own: an ARMv7 zImage
    #[arg(long, value_name = "FILE")]
    kernel: Option<PathBuf>,
    /// An initial RAM disk of your own
    #[arg(long, value_name = "FILE", conflicts_with = "exec")]
    initrd: Option<PathBuf>,
    /// Add to the guest's command line, which begins with its console
    #[arg(long, value_name = "STRING", default_value = "", hide_default_value = true, allow_hyphen_values = true)]
    append: String,
    /// The guest's memory: 256M, 1G … [default: 256M; with --native, the board's]
    #[arg(long, value_name = "SIZE")]
    memory: Option<String>,
    /// Let time be the count of executed instructions: equal runs give equal figures
    #[arg(long)]
    icount: bool,
    /// Write all that appears on the board's UART to FILE
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
}

fn board_help() -> String {
    let mut text = String::from("The board to emulate:\n");
    for board in BOARDS {
        text.push_str(&format!("  {:<12} {}, {} MiB\n", board.name, board.cpu, board.memory_mib));
    }
    text
}

fn run(project: &Project, args: RunArgs, verbose: bool) -> Result<u8> {
    let mut request = Request {
        native: args.native,
        kernel: args.kernel,
        initrd: args.initrd,
        append: args.append,
        memory: args.memory,
        icount: args.icount,
        spica_append: if verbose { "spica.verbose".to_string() } else { String::new() },
        ..Request::new(board::find(&args.board)?)
    };
    if args.timeout == Some(0) {
        return Err(Error::usage("--timeout 0 leaves no time; expected seconds, such as 300"));
    }
    let timeout = args.timeout.map(Duration::from_secs);
    let log = args.log.as_deref();
    let Some(command) = args.exec else {
        interactive::describe_terminal(&mut request.overlay);
        let run = prepare::prepare(project, &request)?;
        let place = if run.native { "without Spica" } else { "under Spica" };
        let board = run.board;
        eprintln!("spica: booting {} {place} on {} ({}, emulated)", run.name, board.name, board.cpu);
        eprintln!("spica: `exit` or Ctrl-A x leaves{}", if run.native { "" } else { "; Ctrl-] opens the monitor" });
        interactive::interact(&run, timeout, log, verbose)?;
        return Ok(0);
    };
    let script = Script::new(&command, &mut request.overlay)?;
    if !verbose {
        request.append = format!("quiet {}", request.append);
    }
    let run = prepare::prepare(project, &request)?;
    let timeout = timeout.unwrap_or(Duration::from_secs(DEFAULT_TIMEOUT));
    let mut print = |bytes: &[u8]| {
        let mut out = std::io::stdout();
        out.write_all(bytes).and_then(|()| out.flush()).map(|()| Vec::new())
    };
    Ok(exec::exec(&run, &script, timeout, log, verbose, &mut print)?.status)
}

fn dispatch(cli: Cli) -> Result<u8> {
    let project = Project::find()?;
    match cli.command {
        Command::Run(args) => return run(&project, *args, cli.verbose),
        Command::Fetch { update } => {
            for package in prepare::fetch(&project, update)?.packages {
                println!("{} {} sha256:{}", package.name, package.version, package.sha256);
            }
        }
        Command::Bench(args) => return bench(&project, *args, cli.verbose),
        Command::Test { quick, filter } => suite::run(&project, quick, filter.as_deref())?,
    }
    Ok(0)
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version come this way, too; they are not mistakes.
            let _ = error.print();
            return if error.use_stderr() { ExitCode::from(USAGE) } else { ExitCode::SUCCESS };
        }
    };
    match dispatch(cli) {
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            eprintln!("spica: {error}");
            ExitCode::from(error.status)
        }
    }
}
