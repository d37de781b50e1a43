//! `spica list`, `spica stats`, `spica console` and the others that speak to a board that runs.

use std::io::Write;

use clap::{Args, Subcommand};
use spica_cli::{debugger, interactive, symbols};
use spica_runner::control::client::Board;
use spica_runner::control::reply;
use spica_runner::error::Result;
use spica_runner::names::Names;
use spica_runner::project::Project;

const LIST_HELP: &str = "\
Columns:
  STATE    running, waiting (for an interrupt), paused, or off
  WEIGHT   its share of the processor, beside those of the others that want to run
  RAN      how much of the time since the board's start it ran
  ENGINE   what runs its kernel: translated blocks, or its own code in place; docs/in-place.md has both";

const STATS_HELP: &str = "\
Counts are from the board's start on, resets of the guest included. `spica top` shows them second by second. With --all
or --json there are all counters, of the translator and the shadow tables too; docs/benchmarks.md says what they mean.";

const LOG_HELP: &str = "\
Without --kernel, this is the end of what the guest wrote to its console: 16 KiB of it. A kernel that prints nothing
there keeps its messages all the same:

  spica log --kernel                     all of them
  spica log --kernel --last 20 web       of the guest `web`, the last 20

They are read from the guest's memory, for which the guest needs nothing and does not stop: while it hangs, before it
has a console, and after it has panicked or was stopped, until it starts anew. The guest runs Linux 5.10 or later, with
the names of its functions in memory (CONFIG_KALLSYMS), as distributions' kernels have. It takes some seconds.";

const CONSOLE_HELP: &str = "\
What the guest printed last is shown first. The terminal of `spica run` goes on showing what the board prints, which is
this guest alone meanwhile; the output of the others is kept. When this ends, all guests are shown again.

Keys:
  Ctrl-A x    leave                    Ctrl-A Ctrl-A    a Ctrl-A for the guest
  Ctrl-]      Spica's monitor: `help` there lists its commands";

const BALLOON_HELP: &str = "\
The guest needs `balloon = true` in the manifest, and a driver. It gives when it can, and need not: asked again, this command
says how much it has given by then.";

/// What can be asked of a running board.
#[derive(Subcommand)]
pub enum Control {
    /// Show the guests of a running board, and what they do
    #[command(after_help = LIST_HELP)]
    List {
        /// As JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        run: RunChoice,
    },
    /// Show what a running board's guests got and did so far
    #[command(after_help = STATS_HELP)]
    Stats {
        /// Only this guest's: its name or number
        guest: Option<String>,
        /// Every counter that there is, by its name
        #[arg(long)]
        all: bool,
        /// All counters as JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        run: RunChoice,
    },
    /// Show a guest's console on this terminal, and type to it
    #[command(after_help = CONSOLE_HELP)]
    Console(GuestChoice),
    /// Show what a guest printed last, or its kernel's own log
    #[command(after_help = LOG_HELP)]
    Log(LogArgs),
    /// Show a guest's registers and devices, and why it stopped
    Regs(GuestChoice),
    /// Stop a guest where it is; its clocks stand still
    Pause(GuestChoice),
    /// Let a paused guest go on
    Resume(GuestChoice),
    /// Press a guest's power key: it shuts itself down
    Shutdown(GuestChoice),
    /// Restart a guest, as a reset key would
    Reset(GuestChoice),
    /// Turn a guest off, as pulling the plug would
    Stop(GuestChoice),
    /// Turn on a guest that is off
    Start(GuestChoice),
    /// Ask a guest to do without so much of its memory, for others' copy-on-write disks
    #[command(after_help = BALLOON_HELP)]
    Balloon {
        #[command(flatten)]
        choice: GuestChoice,
        /// How many MiB; 0 gives all of it back
        mib: u32,
    },
}

/// What of a guest's output is shown.
#[derive(Args)]
pub struct LogArgs {
    /// The guest: its name or number, as `spica list` shows them [default: the only one]
    guest: Option<String>,
    /// Read the kernel's log from the guest's memory, as `dmesg` shows it in the guest
    #[arg(long)]
    kernel: bool,
    /// Of the kernel's log, only the last so many messages
    #[arg(long, value_name = "COUNT", requires = "kernel")]
    last: Option<u32>,
    #[command(flatten)]
    run: RunChoice,
}

/// Which board.
#[derive(Args)]
pub struct RunChoice {
    /// Of several boards that run, the one of `spica run --name NAME`, or of this process
    #[arg(long, value_name = "NAME|PID")]
    run: Option<String>,
}

/// Which guest of which board.
#[derive(Args)]
pub struct GuestChoice {
    /// The guest: its name or number, as `spica list` shows them
    guest: String,
    #[command(flatten)]
    run: RunChoice,
}

/// Does what the arguments say.
pub fn run(project: &Project, command: Control) -> Result<()> {
    let find = |choice: &RunChoice| Board::find(project, choice.run.as_deref());
    let (verb, choice) = match command {
        Control::List { json, run } => {
            let guests = reply::guests(&find(&run)?.ask("list")?)?;
            print!("{}", if json { reply::json(&guests) } else { reply::guest_table(&guests) });
            return Ok(());
        }
        Control::Stats { guest, all, json, run } => {
            let of = |what: &str| guest.as_ref().map_or(what.to_string(), |guest| format!("{what} {guest}"));
            if !all && !json {
                print!("{}", reply::summary_text(&reply::summaries(&find(&run)?.ask(&of("summary"))?)?));
                return Ok(());
            }
            let counters = reply::counters(&find(&run)?.ask(&of("stats"))?)?;
            print!("{}", if json { reply::json(&counters) } else { reply::counter_table(&counters) });
            return Ok(());
        }
        Control::Balloon { mib, choice } => {
            let mut board = find(&choice.run)?;
            board.ask(&format!("balloon {} {mib}", choice.guest))?;
            let counters = reply::counters(&board.ask(&format!("stats {}", choice.guest))?)?;
            let given = counters.first("memory.given-bytes").unwrap_or(0) >> 20;
            println!("{} is to do without {mib} MiB, and does without {given} MiB so far", choice.guest);
            return Ok(());
        }
        Control::Console(choice) => return interactive::attach(find(&choice.run)?, &choice.guest),
        Control::Log(args) => return log(find(&args.run)?, &args),
        Control::Regs(choice) => return print_lines(&mut find(&choice.run)?, "regs", &choice.guest),
        Control::Pause(choice) => ("pause", choice),
        Control::Resume(choice) => ("resume", choice),
        Control::Shutdown(choice) => ("shutdown", choice),
        Control::Reset(choice) => ("reset", choice),
        Control::Stop(choice) => ("stop", choice),
        Control::Start(choice) => ("start", choice),
    };
    let mut board = find(&choice.run)?;
    board.ask(&format!("{verb} {}", choice.guest))?;
    let is_it = |g: &reply::GuestState| g.name == choice.guest || g.index.to_string() == choice.guest;
    if let Some(guest) = reply::guests(&board.ask("list")?)?.into_iter().find(is_it) {
        println!("{} is {}", guest.name, guest.state);
    }
    Ok(())
}

/// Prints what a guest printed, or what its kernel did.
fn log(mut board: Board, args: &LogArgs) -> Result<()> {
    let guest = debugger::choose(&board, args.guest.as_deref())?;
    if !args.kernel {
        return print_lines(&mut board, "log", &guest.to_string());
    }
    let log = symbols::read_log(&mut board, guest, args.last.unwrap_or(u32::MAX))?;
    let mut output = std::io::stdout().lock();
    for record in &log.records {
        // Whoever reads no further wants no more.
        if writeln!(output, "{record}").is_err() {
            break;
        }
    }
    Ok(())
}

/// Prints the lines of an answer that is text, without the word that each begins with.
fn print_lines(board: &mut Board, command: &str, guest: &str) -> Result<()> {
    let mut names = if command == "regs" { board.function_names() } else { Names::default() };
    for line in board.ask(&format!("{command} {guest}"))? {
        let line = line.strip_prefix(command).map_or(line.as_str(), |l| l.strip_prefix(' ').unwrap_or(l));
        println!("{}", names.put_into(line));
    }
    Ok(())
}
