//! `spica symbols`: its arguments.

use std::path::PathBuf;

use clap::Args;
use spica_cli::{debugger, symbols};
use spica_runner::control::client::Board;
use spica_runner::debian;
use spica_runner::error::{Context, Result};
use spica_runner::progress::Step;
use spica_runner::project::Project;

#[derive(Args)]
#[command(after_help = "\
A Linux kernel has the names of its functions in its memory, for its own messages (CONFIG_KALLSYMS). They are found
there and read, which takes some seconds; the guest runs on, and nothing of it is changed. The file is an ELF file that
has symbols and nothing else, for GDB and other programs:

  spica symbols
  gdb-multiarch debian.elf -ex 'target remote :1234'

`spica gdb` does this by itself: GDB has the names as soon as it is connected. Names in modules, lines and types are not
in memory. With --debug, the kernel's own file with them comes from Debian's package `linux-image-…-dbg` for the kernel
that the guest runs, 620 MB, once:

  spica symbols --debug
  gdb-multiarch build/debug/vmlinux-6.1.0-50-armmp -ex 'target remote :1234'
  spica watch profile --lines build/debug/vmlinux-6.1.0-50-armmp")]
pub struct SymbolsArgs {
    /// The guest: its name or number, as `spica list` shows them [default: the only one]
    guest: Option<String>,
    /// The file to write [default: the guest's name with `.elf` behind it]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Fetch Debian's debug symbols of the guest's kernel instead, and say where they are
    #[arg(long, conflicts_with = "output")]
    debug: bool,
    /// Of several boards that run, the one of `spica run --name NAME`, or of this process
    #[arg(long, value_name = "NAME|PID")]
    run: Option<String>,
}

/// Does what the arguments say.
pub fn run(project: &Project, args: SymbolsArgs) -> Result<()> {
    let mut board = Board::find(project, args.run.as_deref())?;
    let guest = debugger::choose(&board, args.guest.as_deref())?;
    if args.debug {
        let step = Step::begin("looking for the kernel's version");
        let release = symbols::release(&mut board, guest)?;
        drop(step);
        println!("{}", debian::debug_kernel(project, &release)?.display());
        return Ok(());
    }
    let name = board.who.guests[guest].clone();
    let output = args.output.unwrap_or_else(|| format!("{name}.elf").into());
    let step = Step::begin("reading the names of the kernel's functions");
    let found = symbols::read(&mut board, guest, &mut || ())?;
    drop(step);
    std::fs::write(&output, &found.file).context(|| format!("cannot write {}", output.display()))?;
    println!("{}: {} names of {name}'s kernel", output.display(), found.count);
    Ok(())
}
