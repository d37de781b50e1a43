//! The `spica` command on the development machine: reads its arguments and hands over to the library.

mod closed_output;
mod commands;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use commands::bench::BenchArgs;
use commands::control::Control;
use commands::gdb::GdbArgs;
use commands::install::InstallArgs;
use commands::line::LineArgs;
use commands::pack::PackArgs;
use commands::profile::ProfileArgs;
use commands::prove::ProveArgs;
use commands::run::RunArgs;
use commands::snapshot::{RestoreArgs, SaveArgs};
use commands::symbols::SymbolsArgs;
use commands::top::TopArgs;
use commands::trace::TraceArgs;
use commands::watch::WatchArgs;
use spica_cli::suite;
use spica_cli::terminal::StandardError;
use spica_runner::error::{Result, USAGE};
use spica_runner::project::Project;
use spica_runner::{prepare, progress};

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
  spica run --count 3                    three guests side by side
  spica list                             in another terminal: what they do
  spica top                              the same as a table that is renewed each second
  spica test                             everything that can be tested here
  spica prove --for 10m                  whatever is wrong, against independent oracles
  spica bench --quick                    what it costs to run under Spica, in instructions
  spica profile                          where those instructions go"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// Show what is done, Spica's own log, and with --exec the guest's boot, on standard error
    #[arg(long, short, global = true)]
    verbose: bool,
    /// Use the sources, or the installed data, in DIR; docs/installing.md says which are used otherwise
    #[arg(long, global = true, value_name = "DIR")]
    home: Option<PathBuf>,
}

#[derive(Subcommand)]
enum Command {
    /// Boot a guest on an emulated board, with its shell on this terminal
    Run(Box<RunArgs>),
    /// Speak to a real board at a serial line, on which Spica runs
    Line(LineArgs),
    #[command(flatten)]
    Control(Control),
    /// Show what the guests of a board that runs do, as they do it: a table that is renewed
    Top(TopArgs),
    /// Let GDB debug a guest's kernel on a board that runs
    Gdb(GdbArgs),
    /// Write a file with the names of the functions of a guest's kernel, for GDB
    Symbols(SymbolsArgs),
    /// Record what the guests of a board that runs do when: a timeline, for Perfetto or as a page
    Trace(TraceArgs),
    /// Keep all that a guest of a running board is in a file: a snapshot
    Save(SaveArgs),
    /// Put a guest of a running board back to what it was in a snapshot
    Restore(RestoreArgs),
    /// Watch a guest of a board that runs from outside: its system calls, what its kernel executes
    Watch(WatchArgs),
    /// Write the files that a board with U-Boot boots Spica and its guests from
    Pack(PackArgs),
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
        /// Also the tests that take long; complete Debian systems are installed for some: hours
        #[arg(long, conflicts_with = "quick")]
        all: bool,
        /// Only tests whose names contain this
        filter: Option<String>,
    },
    /// Look for mistakes with random and exhaustive cases, for as long as you like
    Prove(ProveArgs),
    /// Measure how many instructions work takes under Spica and on the bare board
    Bench(Box<BenchArgs>),
    /// Show where the instructions of an operation go: the guest, translation, each kind of trap
    Profile(ProfileArgs),
    /// Install this command, its manual pages, and what it needs to run and pack guests
    Install(InstallArgs),
    /// Write the manual pages of this command and its subcommands
    Man {
        /// The directory for them; it is made if it is not there
        dir: PathBuf,
    },
}

fn dispatch(cli: Cli) -> Result<u8> {
    progress::listen(StandardError);
    let project = Project::find(cli.home.as_deref())?;
    match cli.command {
        Command::Man { dir } => commands::man::pages(&dir, Cli::command())?,
        Command::Install(args) => commands::install::run(&project, args, Cli::command())?,
        Command::Run(args) => return commands::run::run(&project, *args, cli.verbose),
        Command::Fetch { update } => {
            for package in prepare::fetch(&project, update)?.packages {
                println!("{} {} sha256:{}", package.name, package.version, package.sha256);
            }
        }
        Command::Line(args) => commands::line::run(&project, &args)?,
        Command::Control(command) => commands::control::run(&project, command)?,
        Command::Top(args) => commands::top::run(&project, args)?,
        Command::Gdb(args) => commands::gdb::run(&project, args)?,
        Command::Symbols(args) => commands::symbols::run(&project, args)?,
        Command::Trace(args) => commands::trace::run(&project, args)?,
        Command::Save(args) => commands::snapshot::run_save(&project, &args)?,
        Command::Restore(args) => commands::snapshot::run_restore(&project, &args)?,
        Command::Watch(args) => commands::watch::run(&project, args)?,
        Command::Pack(args) => commands::pack::run(&project, args)?,
        Command::Prove(args) => commands::prove::run(&project, args)?,
        Command::Bench(args) => return commands::bench::run(&project, *args, cli.verbose),
        Command::Profile(args) => commands::profile::run(&project, args, cli.verbose)?,
        Command::Test { quick, all, filter } => suite::run(&project, quick, all, filter.as_deref())?,
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
    closed_output::end_quietly(|| match dispatch(cli) {
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            eprintln!("spica: {error}");
            ExitCode::from(error.status)
        }
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    /// What clap says of these arguments.
    fn mistake(arguments: &str) -> String {
        match Cli::try_parse_from(arguments.split(' ')) {
            Ok(_) => panic!("{arguments}: understood"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn the_definitions_are_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn several_guests_are_not_described_as_one() {
        for one in ["--native", "--exec true", "--kernel k", "--initrd i", "--append a", "--memory 1G"] {
            for several in ["--guests g.toml", "--count 2"] {
                let error = mistake(&format!("spica run {several} {one}"));
                assert!(error.contains("cannot be used with"), "{one} {several}: {error}");
            }
        }
        assert!(mistake("spica run --count 2 --guests g.toml").contains("cannot be used with"));
        assert!(mistake("spica run --count two").contains("invalid digit"));
        for fine in
            ["spica run --count 2 --board virt --timeout 9 --icount --log l --name lab", "spica run --append -x"]
        {
            assert!(Cli::try_parse_from(fine.split(' ')).is_ok(), "{fine}");
        }
    }

    #[test]
    fn engines_are_those_that_the_board_knows() {
        for fine in ["blocks", "in-place", "in-place@0x80000000", "in-place-from-start@0x40000000"] {
            assert!(Cli::try_parse_from(["spica", "run", "--engine", fine]).is_ok(), "{fine}");
        }
        for wrong in ["block", "in-place@80000000", "in-place@0x80001000", "in-place spica.stats", ""] {
            let error = Cli::try_parse_from(["spica", "run", "--engine", wrong]).err().expect("a mistake").to_string();
            assert!(error.contains("expected `in-place`, `blocks`, or"), "{wrong}: {error}");
        }
    }

    #[test]
    fn commands_for_a_running_board() {
        for fine in [
            "list",
            "list --json --run 12",
            "stats",
            "stats web --json",
            "stats --all",
            "console all",
            "pause 1 --run lab",
        ] {
            assert!(Cli::try_parse_from(format!("spica {fine}").split(' ')).is_ok(), "{fine}");
        }
        for fine in ["log", "log web", "log --kernel", "log 0 --kernel --last 9 --run lab"] {
            assert!(Cli::try_parse_from(format!("spica {fine}").split(' ')).is_ok(), "{fine}");
        }
        assert!(mistake("spica log web --last 9").contains("--kernel"));
        for verb in ["console", "regs", "pause", "resume", "shutdown", "reset", "stop", "start"] {
            assert!(mistake(&format!("spica {verb}")).contains("<GUEST>"), "{verb}");
        }
    }

    #[test]
    fn a_report_goes_where_one_likes_and_measures_nothing() {
        assert!(Cli::try_parse_from("spica bench --report r.json --output d".split(' ')).is_ok());
        for choice in ["--board b", "--config c", "--workload w", "--quick", "--events", "--jobs 1", "--stall 9"] {
            let error = mistake(&format!("spica bench --report r.json {choice}"));
            assert!(error.contains("cannot be used with"), "{choice}: {error}");
        }
    }

    #[test]
    fn packing_needs_guests_and_a_place() {
        assert!(mistake("spica pack --output d").contains("--guests <FILE>"));
        assert!(mistake("spica pack --count 1").contains("--output <DIR>"));
        assert!(mistake("spica pack --count 1 --guests g --output d").contains("cannot be used with"));
        assert!(Cli::try_parse_from("spica pack --count 1 --output d --board-memory 1G".split(' ')).is_ok());
    }
}
