//! `spica pack`: its arguments.

use std::path::PathBuf;

use clap::Args;
use spica_runner::error::{Error, Result};
use spica_runner::guests::Source;
use spica_runner::pack;
use spica_runner::project::Project;

#[derive(Args)]
#[command(after_help = "\
Writes spica.zImage, guests.cpio, boot.cmd, boot.scr, README, and with --board-dtb also board.dtb. On the first partition
of a card that U-Boot boots from, boot.scr starts Spica by itself. docs/booting.md says more, docs/guests.md how to write a
manifest.

Examples:
  spica pack --guests guests/two.toml --output card
  spica pack --count 2 --board-dtb sun4i-a10-cubieboard.dtb --board-memory 1G --output /media/boot")]
pub struct PackArgs {
    /// The manifest of the guests
    #[arg(long, value_name = "FILE", conflicts_with = "count", required_unless_present = "count")]
    guests: Option<PathBuf>,
    /// N Debian guests, named debian-1 and so on
    #[arg(long, value_name = "N")]
    count: Option<usize>,
    /// The board's device tree [default: the one that U-Boot has]
    #[arg(long, value_name = "FILE")]
    board_dtb: Option<PathBuf>,
    /// The board's memory, which the guests must fit
    #[arg(long, value_name = "SIZE", default_value = "512M")]
    board_memory: String,
    /// Spica's command line: words that begin with `spica.`
    #[arg(long, value_name = "STRING", default_value = "", hide_default_value = true)]
    append: String,
    /// The directory for the files; it is made if it is not there
    #[arg(long, value_name = "DIR")]
    output: PathBuf,
}

/// Does what the arguments say.
pub fn run(project: &Project, args: PackArgs) -> Result<()> {
    let memory = spica_bundle::parse_memory(&args.board_memory)
        .map_err(|e| Error::usage(format!("wrong value {:?} of --board-memory: {e}", args.board_memory)))?;
    let guests = match (args.guests, args.count) {
        (Some(file), _) => Source::Manifest(file),
        (None, count) => Source::Count(count.unwrap_or_default()),
    };
    let request = pack::Request {
        guests,
        board_memory_mib: memory >> 20,
        board_dtb: args.board_dtb,
        append: args.append,
        output: args.output,
    };
    for (path, size) in pack::pack(project, &request)? {
        println!("{size:>10}  {}", path.display());
    }
    Ok(())
}
