//! `spica line`: its arguments.

use std::path::PathBuf;

use clap::Args;
use spica_cli::interactive;
use spica_runner::error::Result;
use spica_runner::line::{BAUD, Line};
use spica_runner::project::Project;
use spica_runner::qemu;

#[derive(Args)]
#[command(after_help = "\
On the board, Spica runs already, booted from its card (docs/booting.md); here, its serial line ends. This terminal is
the board's then, as with any terminal program, and besides, all commands know the board that speak to one that runs:

  spica line /dev/ttyUSB0                in one terminal
  spica list                             in another
  spica gdb web
  spica watch syscalls --guest web

Nobody else is to use the line meanwhile. Without a terminal, as in `spica line /dev/ttyUSB0 < /dev/null &`, it goes on
until it is ended.

Keys:
  Ctrl-A x    leave; the board runs on   Ctrl-A Ctrl-A    a Ctrl-A for the guest
  Ctrl-]      Spica's monitor: `help` lists what can be asked, an empty line goes back")]
pub struct LineArgs {
    /// The serial line: /dev/ttyUSB0, /dev/ttyACM0, /dev/ttyS0 …
    device: PathBuf,
    /// How fast it is, in bits per second
    #[arg(long, value_name = "BAUD", default_value_t = BAUD)]
    baud: u32,
    /// A name by which `--run NAME` of other commands finds the board [default: the number of the process]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Write all that comes over the line to FILE
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
}

/// Does what the arguments say.
pub fn run(project: &Project, args: &LineArgs) -> Result<()> {
    let log = args.log.as_deref().map(qemu::output_file).transpose()?;
    let mut line = Line::attach(project, &args.device, args.baud, args.name.as_deref(), log)?;
    eprintln!("spica: a board with {}; Ctrl-A x leaves it", line.guests.join(", "));
    interactive::at_line(&mut line.session)
}
