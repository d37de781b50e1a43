//! `spica trace`: its arguments.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use spica_cli::signals::Signals;
use spica_cli::tracer::{self, Output, Tracer};
use spica_cli::{debugger, times};
use spica_runner::control::client::Board;
use spica_runner::error::{Context, Result};
use spica_runner::progress::Step;
use spica_runner::project::Project;

#[derive(Args)]
#[command(after_help = "\
The timeline has, for the board, who had the processor when, and for each guest: its processes, and in each what user
code, system calls, page faults and interrupts took; traps that Spica answered, by class and with their length;
translation; interrupts from the line to the handler to its end; virtio devices. Guests run on, and notice nothing but
that some of the processor's time is not theirs. What they do faster than the serial line carries is lost, and
counted.

A file whose name ends in .html is a page by itself. Any other is JSON for Perfetto's viewer: open it at
https://ui.perfetto.dev, which keeps it in the browser, or with chrome://tracing.

A session:
  spica run                                    in one terminal
  spica trace --for 5s --output t.json         in another, while the guest does something

Ctrl-C ends it before its time, and writes what came by then.

From the first instruction on:
  spica run --trace boot.html --exec true

docs/tracing.md says what is seen, what is not, and what it costs.")]
pub struct TraceArgs {
    /// Only this guest: its name or number, as `spica list` shows them
    #[arg(long, value_name = "GUEST")]
    guest: Option<String>,
    /// How long to record: 500ms, 5s, 2m
    #[arg(long = "for", value_name = "TIME", default_value = "5s", value_parser = times::parse)]
    time: Duration,
    /// The file to write; several may be given
    #[arg(long, short, value_name = "FILE", default_value = "trace.json")]
    output: Vec<PathBuf>,
    /// Of several boards that run, the one of `spica run --name NAME`, or of this process
    #[arg(long, value_name = "NAME|PID")]
    run: Option<String>,
}

/// Does what the arguments say.
pub fn run(project: &Project, args: TraceArgs) -> Result<()> {
    let board = Board::find(project, args.run.as_deref())?;
    let only = args.guest.as_deref().map(|guest| debugger::choose(&board, Some(guest))).transpose()?;
    let outputs = args.output.into_iter().map(Output::create).collect::<Result<Vec<_>>>()?;
    let signals = Signals::keep().context(|| "cannot wait for Ctrl-C")?;
    let mut tracer = Tracer::start(board)?;
    let begun = Instant::now();
    let step = Step::begin("recording what guests do");
    let end = tracer.record(Some(begun + args.time), &|| signals.has_come());
    drop(step);
    end.say(begun);
    print!("{}", tracer::write(&tracer.into_recording(), only, outputs)?);
    Ok(())
}
