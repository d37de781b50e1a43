//! Bare-metal guests: assembled here, run on a board, their console read.
//!
//! A guest is one file `tests/bare/NAME.S` and the runtime that it includes, linked to where a kernel is loaded. It looks
//! like a zImage, so that `spica run --kernel` takes it.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::Machine;
use spica_cli::error::{Context, Result};
use spica_cli::prepare::{Request, prepare};
use spica_cli::project::{Project, create_dir, read, write};
use spica_cli::qemu::{Event, Session};
use spica_cli::{board, process, spica};

/// Where the runtime has its parameters, in bytes from the start of the image.
const PARAMETERS: usize = 0x34;
/// The guest's memory: all that its code expects.
const MEMORY: &str = "16M";
/// How long Spica may take to answer when asked for a report.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a guest is built from.
#[derive(Clone, Debug)]
pub struct Guest<'a> {
    /// The file in `tests/bare`, without its extension.
    pub name: &'a str,
    /// Words that the guest finds at `parameters`: six at most.
    pub parameters: &'a [u32],
    /// Words that the guest finds behind its image.
    pub payload: &'a [u32],
}

/// What came of a run.
#[derive(Debug, Default)]
pub struct Outcome {
    /// What the guest printed.
    pub guest: String,
    /// What Spica printed, without its prefix.
    pub spica: Vec<String>,
    /// Whether the machine came to an end before the time was up: Spica halted the board, or the board is off.
    pub ended: bool,
    /// Whether Spica, when the time was up, answered with its report.
    pub answered: bool,
}

impl Outcome {
    /// Spica's line about the guest's end: `powered off`, `stopped: …`.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        self.spica.iter().rev().find_map(|line| line.strip_prefix("guest guest: "))
    }

    /// Whether Spica itself failed.
    #[must_use]
    pub fn panicked(&self) -> bool {
        self.spica.iter().any(|line| line.starts_with("panic"))
    }

    /// The end of all that was said, for a failed test to show.
    #[must_use]
    pub fn tail(&self) -> String {
        let mut text = process::tail(&self.guest, 12);
        for line in self.spica.iter().take(40) {
            let _ = write!(text, "\nspica: {line}");
        }
        text
    }
}

/// Builds a guest and runs it for at most `timeout`; if it is still running then, Spica is asked for its report.
///
/// # Errors
/// If it cannot be built, or the board not be started.
pub fn run(machine: Machine, guest: &Guest<'_>, timeout: Duration) -> Result<Outcome> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let project = Project::find()?;
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let scratch = project.build(&format!("bare/{}-{number}", std::process::id()));
    create_dir(&scratch)?;
    let outcome = run_in(&scratch, &project, machine, guest, timeout);
    // What is left behind is in build/bare, and does not matter.
    let _ = fs::remove_dir_all(&scratch);
    outcome
}

fn run_in(
    scratch: &Path,
    project: &Project,
    machine: Machine,
    guest: &Guest<'_>,
    timeout: Duration,
) -> Result<Outcome> {
    let kernel = build(scratch, project, guest)?;
    let initrd = scratch.join("initrd");
    write(&initrd, &[0; 4])?;
    let request = Request {
        native: machine.native(),
        kernel: Some(kernel),
        initrd: Some(initrd),
        memory: Some(MEMORY.to_string()),
        ..Request::new(board::find(machine.board())?)
    };
    let run = prepare(project, &request)?;
    let mut session = Session::start(run.board, &run.boot(), None, false)?;
    let mut deadline = Instant::now() + timeout;
    let mut asked = false;
    let mut outcome = Outcome::default();
    loop {
        match session.next(None, Some(deadline))? {
            Event::Guest(bytes) => outcome.guest.push_str(&String::from_utf8_lossy(&bytes).replace('\r', "")),
            Event::Spica(line) if line == spica::HALTED => outcome.ended = true,
            Event::Spica(line) if line == spica::REPORT_END => return Ok(outcome),
            Event::Spica(line) => {
                let report = spica::report_line(&line);
                outcome.answered |= report.is_some();
                outcome.spica.push(report.unwrap_or(&line).to_string());
            }
            Event::Exited(_) => outcome.ended = true,
            Event::Quiet if asked || machine.native() => return Ok(outcome),
            Event::Quiet => {
                session.send(spica::REPORT);
                asked = true;
                deadline = Instant::now() + PATIENCE;
            }
            Event::Ending(_) | Event::Input(_) => {}
        }
        // A guest that prints without end has shown enough.
        if outcome.ended || outcome.guest.len() > 4 << 20 {
            return Ok(outcome);
        }
    }
}

/// Assembles, links, and puts parameters and payload in; gives the kernel's file, in `scratch`.
///
/// # Errors
/// If that does not work.
pub fn build(scratch: &Path, project: &Project, guest: &Guest<'_>) -> Result<PathBuf> {
    let sources = project.source("tests/bare");
    let [object, elf, image] = ["o", "elf", "bin"].map(|e| scratch.join(format!("kernel.{e}")));
    let mut assembler = Command::new("arm-none-eabi-as");
    assembler.arg("--no-warn").arg("-I").arg(&sources).arg("-o").arg(&object);
    assembler.arg(sources.join(format!("{}.S", guest.name)));
    process::output(&mut assembler, "cannot assemble a guest")?;
    let mut linker = Command::new("arm-none-eabi-ld");
    linker.arg("-T").arg(sources.join("image.ld")).arg("-o").arg(&elf).arg(&object);
    process::output(&mut linker, "cannot link a guest")?;
    let mut objcopy = Command::new("arm-none-eabi-objcopy");
    process::output(objcopy.args(["-O", "binary"]).arg(&elf).arg(&image), "cannot make a guest's image")?;

    let mut bytes = read(&image)?;
    for (at, word) in guest.parameters.iter().enumerate() {
        bytes[PARAMETERS + 4 * at..][..4].copy_from_slice(&word.to_le_bytes());
    }
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    for word in guest.payload {
        bytes.extend(word.to_le_bytes());
    }
    fs::write(&image, &bytes).context(|| format!("cannot write {}", image.display()))?;
    Ok(image)
}
