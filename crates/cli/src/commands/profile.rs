//! `spica profile`: its arguments.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use spica_profile::text;
use spica_runner::error::Result;
use spica_runner::profile;
use spica_runner::project::Project;

use super::seconds;

#[derive(Args)]
#[command(after_help = "\
One boot of an emulated board, in which QEMU counts every instruction by its address. The table says of one operation, or of a
boot from reset to a shell, how many instructions went to
  the guest's own code         user code, and kernel instructions: each counts once, whatever it was translated to
  translation overhead         what else the translations executed, by the rule that made them
  fast and slow traps          what is answered in assembly, and by Rust
  translator, MMU, devices …   Spica's functions, by crate and module
and, of the same, what each kind of slow trap cost, and which functions took most. `times` is how often: guest instructions of a rule, entries of a handler.

An operation is done N times and 2 N times; the profile is the difference, so beginning and end are not in it. What it comes to
must be what QEMU says was executed, within 0.1 per cent, and what the program itself measured, within one; else the command fails.

Tables are printed; the same as Markdown, and as JSON for programs, go to DIR, with the board's console. The command knows
translations with every optimisation on, and code in place of a kernel at 0xc0000000. docs/profile.md says how to read a profile.

Examples:
  spica profile                                null system call, fork, exec, boot
  spica profile --workload null --native       with the bare board's figure beside it: one boot more
  spica profile --workload pipe --board vexpress-a9
  spica profile --workload stat --kernel zImage    with another Linux than Debian's
  spica profile --workload stat --engine blocks    by the other engine
  spica profile --workload stat --cycles       where the cycles go by the model of docs/cycles.md; several minutes
  spica profile --workload null --code         which instructions these are, as they were translated
  spica profile --list")]
pub struct ProfileArgs {
    /// Profile this; may be given more than once [default: null, fork-exit, fork-exec, boot]
    #[arg(long, value_name = "NAME")]
    workload: Vec<String>,
    /// Emulate this board
    #[arg(long, value_name = "NAME", default_value = "cubieboard")]
    board: String,
    /// Run this Linux, a zImage, in place of Debian's
    #[arg(long, value_name = "FILE")]
    kernel: Option<PathBuf>,
    /// What runs the guest's kernel: `in-place` or `blocks` (docs/in-place.md)
    #[arg(long, value_name = "ENGINE", default_value = super::run::DEFAULT_ENGINE, value_parser = super::run::engine)]
    engine: String,
    /// Do the same without Spica, too, for comparison
    #[arg(long)]
    native: bool,
    /// Model cycles, too, with another QEMU: which part of the time each row is, and which pages, lines and
    /// instructions are at fault
    #[arg(long)]
    cycles: bool,
    /// List every executed word, too, with how often: DIR/BOARD-NAME.code has those of the code cache and what they
    /// count as, DIR/BOARD-NAME.image those of Spica's functions
    #[arg(long)]
    code: bool,
    /// Where tables go [default: build/profile]
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Give a guest up that does not get to the next operation in so long
    #[arg(long, value_name = "SECS", default_value_t = 1800, value_parser = seconds())]
    stall: u64,
    /// Print what can be profiled
    #[arg(long, exclusive = true)]
    list: bool,
}

/// Does what the arguments say.
pub fn run(project: &Project, args: ProfileArgs, verbose: bool) -> Result<()> {
    if args.list {
        for (name, operation) in profile::list() {
            println!("{name:<18} {operation}");
        }
        return Ok(());
    }
    project.needs_sources("spica profile")?;
    let profiled = profile::run(
        project,
        &profile::Options {
            board: args.board,
            workloads: args.workload,
            kernel: args.kernel,
            engine: super::run::engine_word(&args.engine),
            native: args.native,
            cycles: args.cycles,
            code: args.code,
            output: args.output,
            stall: Duration::from_secs(args.stall),
            verbose,
        },
    )?;
    for profile in &profiled.profiles {
        println!("{}", text::terminal(profile));
    }
    for file in &profiled.files {
        println!("{}", file.display());
    }
    profiled.check()
}
