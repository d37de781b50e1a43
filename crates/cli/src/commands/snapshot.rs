//! `spica save` and `spica restore`: their arguments.

use std::path::PathBuf;

use clap::Args;
use spica_cli::debugger;
use spica_cli::snapshot::file::Snapshot;
use spica_cli::snapshot::{restore, save};
use spica_runner::control::client::Board;
use spica_runner::error::{Error, Result};
use spica_runner::project::Project;

#[derive(Args)]
#[command(after_help = "\
The file has all that the guest is: its memory, its processor's registers, its devices. The guest stands while it is
read, then goes on; on its own clock, no time has passed. `spica restore` puts it back as often as you like:

  spica save debian before.snap          keep what it is now
  spica restore debian before.snap       whatever it did since did not happen

Also in another run: of the same kind of board, of a guest with as much memory and the same devices. Pages that are
empty take no room, the others are compressed; a Debian that has booted takes some 15 MB. Reading them takes a while: a
board's serial line is slow, an emulated one's too.

Of a disk that is copied on write, it has what the guest has written: it is put back over the same file alone. The
board's own disks are not part of it, nor pages that are in a balloon: a guest with either is not saved, and the message
says so.
docs/snapshots.md has all of it.")]
pub struct SaveArgs {
    /// The guest: its name or number, as `spica list` shows them
    guest: String,
    /// The file to write
    file: PathBuf,
    /// Of several boards that run, the one of `spica run --name NAME`, or of this process
    #[arg(long, value_name = "NAME|PID")]
    run: Option<String>,
}

#[derive(Args)]
#[command(after_help = "\
The guest stands while its memory is replaced, and goes on where it was when `spica save` saw it; its counter of time
goes on from there, too, while its real-time clock shows the time of today. Only pages that differ are sent: to go back
to a snapshot of the same run takes less than to bring one to a new run.

  spica run                              in another terminal: the same guest, and the same kind of board
  spica restore debian before.snap

Nothing of the guest is changed if the file is damaged, or of another version, or does not fit the guest: the message
says what would. If this command is interrupted later, the guest is off: half of it would be no use. `spica start` boots
it, and `spica restore` can be tried again then. If its disks were being replaced by then, what it had written to them
is gone.")]
pub struct RestoreArgs {
    /// The guest: its name or number, as `spica list` shows them
    guest: String,
    /// The file that `spica save` wrote
    file: PathBuf,
    /// Of several boards that run, the one of `spica run --name NAME`, or of this process
    #[arg(long, value_name = "NAME|PID")]
    run: Option<String>,
}

/// `spica save`.
pub fn run_save(project: &Project, args: &SaveArgs) -> Result<()> {
    let mut board = Board::find(project, args.run.as_deref())?;
    let guest = debugger::choose(&board, Some(&args.guest))?;
    let snapshot = save(&mut board, guest)?;
    let bytes = snapshot.write(&args.file)?;
    let (name, pages) = (&snapshot.about.guest, snapshot.pages.len());
    let disks = match (snapshot.disks.len(), snapshot.about.disk_pages) {
        (0, _) => String::new(),
        (_, pages) => format!(", {pages} of disks"),
    };
    println!("{}: {name}, {pages} pages of memory{disks}, {} KiB", args.file.display(), bytes.div_ceil(1024));
    Ok(())
}

/// `spica restore`.
pub fn run_restore(project: &Project, args: &RestoreArgs) -> Result<()> {
    let snapshot = Snapshot::read(&args.file)?;
    let mut board = Board::find(project, args.run.as_deref())?;
    let guest = debugger::choose(&board, Some(&args.guest))?;
    let about = &snapshot.about;
    let with_file = |error: Error| Error { message: format!("{}: {}", args.file.display(), error.message), ..error };
    if about.board != board.who.board {
        let (saved, here) = (&about.board, &board.who.board);
        return Err(with_file(Error::failed(format!(
            "it was saved on the board {saved}, and this one is {here}; `spica run --board {saved}` starts one for it"
        ))));
    }
    restore(&mut board, guest, &snapshot).map_err(with_file)?;
    println!("{}: {} goes on from there", args.file.display(), board.who.guests[guest]);
    Ok(())
}
