//! `spica install`: its arguments.

use std::path::PathBuf;

use clap::{Args, Command};
use spica_runner::error::{Context, Result};
use spica_runner::install::install;
use spica_runner::project::Project;

use super::man::pages;

#[derive(Args)]
#[command(after_help = "\
Writes DIR/bin/spica, manual pages to DIR/share/man/man1, and to DIR/share/spica the recipes of guests and the board
image. What is there of an earlier installation is replaced. The installed command needs neither the sources nor Rust to
run and to pack guests; what it fetches and makes goes to ~/.cache/spica. `test`, `prove`, `bench` and `profile` need
the sources.

Examples:
  spica install --prefix ~/.local
  sudo ./spica install --prefix /usr/local")]
pub struct InstallArgs {
    /// Where to install; it is made if it is not there
    #[arg(long, value_name = "DIR")]
    prefix: PathBuf,
}

/// Does what the arguments say. `command` is the whole command line, for the manual pages.
pub fn run(project: &Project, args: InstallArgs, command: Command) -> Result<()> {
    let program = std::env::current_exe().context(|| "cannot find this program")?;
    for path in install(project, &program, |dir| pages(dir, command), &args.prefix)? {
        println!("{}", path.display());
    }
    Ok(())
}
