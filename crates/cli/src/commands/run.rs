//! `spica run`: its arguments.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use spica_bundle::{Address, MAX_FW_CFG, is_fw_cfg_name};
use spica_cli::tracer::{self, Output};
use spica_cli::{debugger, interactive};
use spica_options::Options;
use spica_runner::bench::ICOUNT_SHIFT;
use spica_runner::board::{self, BOARDS};
use spica_runner::error::{Error, Result};
use spica_runner::exec::{self, Script};
use spica_runner::guests::Source;
use spica_runner::plugged::Plugged;
use spica_runner::prepare::{self, Request};
use spica_runner::project::Project;

use super::seconds;

const SEVERAL: &str = "\
spica: Ctrl-] opens Spica's monitor: `console GUEST` there types to one guest, `help` lists more; Ctrl-A x leaves
spica: in another terminal: `spica list`, `spica console GUEST`";

/// What describes the one guest, where there are not several.
const ONE_GUEST: [&str; 10] =
    ["native", "exec", "kernel", "load", "entry", "bios", "initrd", "append", "memory", "fw_cfg"];

/// What runs the kernels of guests, where nothing else is said.
pub const DEFAULT_ENGINE: &str = "in-place";

/// How long a command in the guest may take, boot included, in seconds.
const DEFAULT_TIMEOUT: u64 = 300;

#[derive(Args)]
#[command(after_help = "\
Keys:
  Ctrl-A x    leave at once            Ctrl-A Ctrl-A    a Ctrl-A for the guest
  Ctrl-]      Spica's monitor: `help` lists what can be asked, an empty line goes back
  The guest's `poweroff -f`, or the end of its shell, leaves, too.

Several guests:
  Their output is shown line by line, each behind its guest's name; what is typed goes to the first one. Ctrl-] opens
  Spica's monitor: `console 2` or `console NAME` shows one guest alone and types to it, `console all` shows all again, and
  `help` lists what else there is. The same from another terminal: `spica list`, `spica console NAME`, `spica stats`.
  The board ends when all guests have switched themselves off.

Exit status:
  0 when the guest switched itself off; with --exec, that of the command.
  2 for a wrong command line, 124 when the time is up, 125 when anything else goes wrong.

Examples:
  spica run --board vexpress-a9          on a Cortex-A9
  spica run --exec 'dmesg | tail'        only the command's output, on standard output
  spica run --exec 'sh -c \"exit 3\"'; echo $?
  spica run --count 3                    three guests side by side
  spica run --guests guests/two.toml     guests of your own; docs/guests.md has every key
  spica run --kernel zImage --initrd initrd.gz --append 'root=/dev/ram0' --memory 128M
  spica run --kernel app.bin --load 0x40008000   a raw image
  spica run --bios u-boot.bin            U-Boot, as for QEMU's virt, from flash
  spica run --bios uefi.fd --kernel zImage --append 'console=ttyAMA0'   a kernel that UEFI starts
  spica run --board virt --disk FILE     a board with a disk, which the guest has as /dev/vda
  spica run --board virt --uplink        a board with a network card; 10.0.2.2 is this machine")]
pub struct RunArgs {
    /// The board to emulate
    #[arg(long, value_name = "NAME", default_value = BOARDS[0].name, long_help = board_help())]
    board: String,
    /// Boot the guest on the board itself, without Spica
    #[arg(long)]
    native: bool,
    /// Boot the guests that this manifest describes; docs/guests.md has every key
    #[arg(long, value_name = "FILE", conflicts_with_all = ONE_GUEST)]
    guests: Option<PathBuf>,
    /// Boot N Debian guests, named debian-1 and so on, with as much memory as fits
    #[arg(long, value_name = "N", conflicts_with_all = ONE_GUEST, conflicts_with = "guests")]
    count: Option<usize>,
    /// Run COMMAND in the guest's shell instead of a terminal; its standard error joins its output
    #[arg(long, value_name = "COMMAND")]
    exec: Option<String>,
    /// Give up after this many seconds [default: none; 300 with --exec]
    #[arg(long, value_name = "SECS", value_parser = seconds())]
    timeout: Option<u64>,
    /// A kernel of your own for 32-bit ARM: a zImage, a uImage, an ELF file, or with --load a raw image
    #[arg(long, value_name = "FILE")]
    kernel: Option<PathBuf>,
    /// Where a raw image goes in the guest's memory, which begins at 0x40000000
    #[arg(long, value_name = "ADDRESS", value_parser = address, requires = "kernel",
          conflicts_with_all = ["native", "bios"])]
    load: Option<u32>,
    /// Where the processor starts in a raw image [default: its first byte]
    #[arg(long, value_name = "ADDRESS", value_parser = address, requires = "load")]
    entry: Option<u32>,
    /// Firmware of your own, such as U-Boot for QEMU's `virt`: starts from flash. It finds --kernel, --initrd and
    /// --append in fw_cfg, as on QEMU, if a kernel is given
    #[arg(long, value_name = "FILE", conflicts_with_all = ["native", "exec"])]
    bios: Option<PathBuf>,
    /// A file that the guest finds in its fw_cfg under NAME, which begins with `opt/`; as often as you like
    #[arg(long, value_name = "NAME=FILE", value_parser = fw_cfg, conflicts_with = "native")]
    fw_cfg: Vec<(String, PathBuf)>,
    /// An initial RAM disk of your own
    #[arg(long, value_name = "FILE", conflicts_with = "exec")]
    initrd: Option<PathBuf>,
    /// Add to the guest's command line, which begins with its console
    #[arg(long, value_name = "STRING", default_value = "", hide_default_value = true, allow_hyphen_values = true)]
    append: String,
    /// The guest's memory: 256M, 1G … [default: 256M; with --native, the board's]
    #[arg(long, value_name = "SIZE")]
    memory: Option<String>,
    /// Plug a disk into the board: an image file, which guests may change; several in the order of their addresses
    #[arg(long, value_name = "FILE")]
    disk: Vec<PathBuf>,
    /// Connect the board's network card, through this machine or as QEMU's option -netdev says
    #[arg(long, value_name = "NETDEV", num_args = 0..=1, default_missing_value = "user")]
    uplink: Option<String>,
    /// A name for this run, by which `spica list --run NAME` finds it [default: the number of the process]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Let the guest wait at its first instruction for GDB, which connects to PORT of this machine; see `spica gdb
    /// --help`
    #[arg(long, value_name = "PORT", num_args = 0..=1, default_missing_value = "1234",
          conflicts_with_all = ["native", "exec", "guests", "count"])]
    gdb: Option<u16>,
    /// Record what guests do when, from their first instruction on, and write a timeline to FILE: a page if its name
    /// ends in .html, else JSON for Perfetto; see `spica trace --help`
    #[arg(long, value_name = "FILE", conflicts_with = "native")]
    trace: Option<PathBuf>,
    /// What runs the kernels of guests: `in-place`, their own code at its own addresses as far as that can be, or
    /// `blocks`, translated code; `in-place@0x80000000` says where kernels begin, where that is not found by itself;
    /// docs/in-place.md has both. A manifest's key `engine` may say another one for a guest
    #[arg(long, value_name = "ENGINE", default_value = DEFAULT_ENGINE, value_parser = engine, conflicts_with = "native")]
    engine: String,
    /// Let time be the count of executed instructions: equal runs give equal figures
    #[arg(long)]
    icount: bool,
    /// Write all that appears on the board's UART to FILE
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
}

fn board_help() -> String {
    let mut text = String::from("The board to emulate:\n");
    for board in BOARDS {
        text.push_str(&format!("  {:<12} {}, {} MiB\n", board.name, board.cpu, board.memory_mib));
    }
    text
}

/// An engine, by the name that the board knows it by.
pub fn engine(text: &str) -> std::result::Result<String, String> {
    let known = text.split_ascii_whitespace().eq([text]) && Options::parse(&engine_word(text)).unknown.is_empty();
    let right =
        "`in-place`, `blocks`, or `in-place@0x80000000` with the address where kernels begin, a multiple of 16 MiB";
    if known { Ok(text.to_string()) } else { Err(format!("expected {right}")) }
}

/// The word of the board's command line for an engine.
pub fn engine_word(engine: &str) -> String {
    format!("spica.engine={engine}")
}

/// An address: hexadecimal behind 0x, else decimal.
fn address(text: &str) -> std::result::Result<u32, String> {
    let plain = text.replace('_', "");
    let number = match plain.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => plain.parse(),
    };
    number.map_err(|_| "expected an address of 32 bits, such as 0x40008000".to_string())
}

/// A name in fw_cfg and a file.
fn fw_cfg(text: &str) -> std::result::Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((name, file)) if is_fw_cfg_name(name) && !file.is_empty() => Ok((name.to_string(), file.into())),
        Some((name, file)) if is_fw_cfg_name(name) && file.is_empty() => Err(format!("expected a file behind {name}=")),
        _ => Err("expected NAME=FILE, such as opt/org.example/settings=settings.txt, where NAME begins with opt/ and \
                  has 55 characters of ASCII at most, no blanks"
            .to_string()),
    }
}

/// What cannot be seen in one of them.
fn check_fw_cfg(files: &[(String, PathBuf)]) -> Result<()> {
    let twice = files.iter().enumerate().find(|(at, (name, _))| files[..*at].iter().any(|(other, _)| other == name));
    if let Some((_, (name, _))) = twice {
        return Err(Error::usage(format!("two files of --fw-cfg have the name {name}; names must differ")));
    }
    if files.len() > MAX_FW_CFG {
        return Err(Error::usage(format!(
            "{} times --fw-cfg is too often; expected at most {MAX_FW_CFG}",
            files.len()
        )));
    }
    Ok(())
}

/// A name that can be typed and listed.
fn run_name(name: String) -> Result<String> {
    let legal = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
    if name.is_empty() || name.len() > 32 || !name.bytes().all(legal) || name.bytes().all(|b| b.is_ascii_digit()) {
        return Err(Error::usage(format!(
            "wrong value {name:?} of --name: expected 1 to 32 letters, digits, '-', '_' and '.', but not digits only"
        )));
    }
    Ok(name)
}

/// Does what the arguments say; gives the exit status.
pub fn run(project: &Project, args: RunArgs, verbose: bool) -> Result<u8> {
    check_fw_cfg(&args.fw_cfg)?;
    let mut request = Request {
        native: args.native,
        label: args.name.map(run_name).transpose()?,
        guests: args.guests.map(Source::Manifest).or(args.count.map(Source::Count)),
        kernel: args.kernel,
        address: Address { load: args.load, entry: args.entry },
        bios: args.bios,
        fw_cfg: args.fw_cfg,
        initrd: args.initrd,
        append: args.append,
        memory: args.memory,
        icount: args.icount.then_some(ICOUNT_SHIFT),
        plugged: Plugged { disks: args.disk, network: args.uplink },
        spica_append: [
            ("spica.verbose", verbose),
            ("spica.halt", args.gdb.is_some()),
            ("spica.trace", args.trace.is_some()),
            (&engine_word(&args.engine), args.engine != DEFAULT_ENGINE),
        ]
        .iter()
        .filter_map(|(word, wanted)| wanted.then_some(*word))
        .collect::<Vec<_>>()
        .join(" "),
        ..Request::new(board::find(&args.board)?)
    };
    let timeout = args.timeout.map(Duration::from_secs);
    let log = args.log.as_deref();
    let tracer = args.trace.map(Output::create).transpose()?;
    let Some(command) = args.exec else {
        interactive::describe_terminal(&mut request.overlay);
        let run = prepare::prepare(project, &request)?;
        let place = if run.native { "without Spica" } else { "under Spica" };
        let board = run.board;
        let (names, memory) = (run.names.join(", "), run.board_memory_mib());
        if run.names.len() > 1 {
            eprintln!("spica: booting {names} {place} on {} ({}, {memory}M, emulated)", board.name, board.cpu);
            eprintln!("{SEVERAL}");
        } else {
            eprintln!("spica: booting {names} {place} on {} ({}, emulated)", board.name, board.cpu);
            eprintln!("spica: `exit` or Ctrl-A x leaves{}", if run.native { "" } else { "; Ctrl-] opens the monitor" });
        }
        let listener = args.gdb.map(debugger::listen).transpose()?;
        let debugger = listener.map(|listener| (project, listener));
        let tracer = tracer.map(|output| tracer::beside(project, &run.label, output)).transpose()?;
        let result = interactive::interact(&run, timeout, log, verbose, debugger);
        tracer.map_or(Ok(()), |tracer| tracer.finish())?;
        result?;
        return Ok(0);
    };
    let script = Script::new(&command, &mut request.overlay)?;
    if !verbose {
        request.append = format!("quiet {}", request.append);
    }
    let run = prepare::prepare(project, &request)?;
    let timeout = timeout.unwrap_or(Duration::from_secs(DEFAULT_TIMEOUT));
    let mut print = |bytes: &[u8]| {
        let mut out = std::io::stdout();
        out.write_all(bytes).and_then(|()| out.flush()).map(|()| Vec::new())
    };
    let tracer = tracer.map(|output| tracer::beside(project, &run.label, output)).transpose()?;
    let result = exec::exec(&run, &script, timeout, log, verbose, &mut print);
    tracer.map_or(Ok(()), |tracer| tracer.finish())?;
    Ok(result?.status)
}
