//! `spica gdb`: its arguments.

use clap::Args;
use spica_cli::debugger::{self, Guest, PORT};
use spica_runner::error::Result;
use spica_runner::project::Project;

#[derive(Args)]
#[command(after_help = "\
The guest stops when GDB connects, its clock stands still, and other guests run on. When GDB detaches, ends, or dies, the
guest goes on. GDB sees the guest's kernel and what it has mapped; there are breakpoints and single steps in A32 code of
the kernel, also before its MMU is on. Guest memory is never changed for them.

A session:
  spica run                              in one terminal
  spica gdb                              in another
  gdb-multiarch                          in a third, from Debian's package of that name
  (gdb) target remote :1234
  (gdb) info registers                   `info registers system` has CP15, `info registers banked` the other modes
  (gdb) x/4i $pc
  (gdb) break vfs_read                   names are read from the kernel's memory; `monitor symbols` does so again
  (gdb) continue                         Ctrl-C stops the guest again
  (gdb) stepi
  (gdb) monitor catch svc                stop at system calls; also undef, pabt, dabt, irq, fiq
  (gdb) monitor checkpoint               keep the guest as it is; `reverse-continue` makes it that again
  (gdb) monitor physical on              from now on, addresses are guest physical ones
  (gdb) detach

In one terminal less:
  gdb-multiarch -ex 'target remote | spica gdb --stdio'

From the guest's first instruction on:
  spica run --gdb")]
pub struct GdbArgs {
    /// The guest: its name or number, as `spica list` shows them [default: the only one]
    guest: Option<String>,
    /// The port on this machine where GDB connects
    #[arg(long, value_name = "PORT", default_value_t = PORT, conflicts_with = "stdio")]
    port: u16,
    /// Speak GDB's protocol on standard input and output
    #[arg(long)]
    stdio: bool,
    /// Of several boards that run, the one of `spica run --name NAME`, or of this process
    #[arg(long, value_name = "NAME|PID")]
    run: Option<String>,
}

/// Does what the arguments say.
pub fn run(project: &Project, args: GdbArgs) -> Result<()> {
    let attach = || Guest::attach(project, args.run.as_deref(), args.guest.as_deref());
    let mut say = |text: &str| eprintln!("spica: {text}");
    let mut guest = attach()?;
    if args.stdio {
        // GDB has connected, and is not used to wait.
        return debugger::over_stdio(guest, &mut say);
    }
    let listener = debugger::listen(args.port)?;
    guest.look_for_symbols(&mut say);
    say(&format!("GDB may connect: target remote :{}", args.port));
    let mut guest = Some(guest);
    debugger::over_tcp(listener, || guest.take().map_or_else(attach, Ok), &mut say)
}
