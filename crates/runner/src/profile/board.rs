//! A boot whose instructions are counted: started, stopped at the places that matter, and read there.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use object::{Object, ObjectSymbol};
use spica_cycles::ledger;
use spica_profile::area::{BYTES, Counted, USER, Window};
use spica_profile::cycles::{Due, Places};

use super::workloads::{Chosen, Kind};
use super::{Context, Tool, entries};
use crate::bench::clock::Clock;
use crate::bench::debugger::Debugger;
use crate::bench::marker::{BEFORE, BEHIND, INIT, Marker, SHELL};
use crate::bench::{ICOUNT_SHIFT, MEMORY, counter, workloads};
use crate::board::Board;
use crate::error::{Context as _, Error, Result};
use crate::image::Image;
use crate::initramfs::Overlay;
use crate::prepare::{self, Request, Run};
use crate::process;
use crate::progress;
use crate::project::{Project, read};
use crate::qemu::Plugin;

/// What the guest's lines begin with that are for us.
const LINE: &str = "@profile ";

/// What had been counted when the board stood still.
struct Stop {
    counted: Counted,
    /// What was due to each instruction, where that is modelled.
    places: Places,
}

impl Stop {
    /// Nothing yet.
    fn reset() -> Self {
        Self { counted: Counted::nothing(), places: Places::new() }
    }
}

/// What was counted for a workload.
pub struct Reading {
    /// The workload.
    pub workload: Chosen,
    /// Where the window begins, and where it ends; in between, if it is one that is done twice as often the second
    /// time.
    stops: Vec<Stop>,
    /// The instructions that were executed in it before the MMU was on.
    pub before_mmu: i64,
    /// How long an operation takes by the guest's clock, as the workload says.
    pub nanoseconds: Option<f64>,
}

impl Reading {
    /// The window of the workload's operations.
    pub fn window(&self) -> Window<'_> {
        match &self.stops[..] {
            [begin, end] => Window::between(&begin.counted, &end.counted),
            [begin, middle, end] => Window::beyond(&begin.counted, &middle.counted, &end.counted),
            _ => unreachable!("there are two stops or three"),
        }
    }

    /// What was due to each instruction in it, where that is modelled.
    pub fn due(&self) -> Due<'_> {
        match &self.stops[..] {
            [begin, end] => Due { window: [&begin.places, &end.places], less: None },
            [begin, middle, end] => {
                let less = Some([&begin.places, &middle.places]);
                Due { window: [&middle.places, &end.places], less }
            }
            _ => unreachable!("there are two stops or three"),
        }
    }

    /// How many operations are in it.
    pub fn operations(&self) -> u64 {
        self.workload.operations
    }
}

/// Sees to it that QEMU can count.
///
/// # Errors
/// If it has no plugins, or is not there.
pub fn look_for_plugins() -> Result<()> {
    let help = process::output(Command::new("qemu-system-arm").arg("-help"), "cannot ask QEMU for its options")?;
    if help.contains("-plugin ") {
        return Ok(());
    }
    Err(Error::failed(
        "this QEMU was built without plugins, by which instructions are counted; Debian's package qemu-system-arm has them",
    ))
}

/// Addresses in the stopwatch where the board stops.
struct Stops {
    begins: u32,
    middle: u32,
    ends: u32,
}

impl Stops {
    fn of(program: &[u8]) -> Result<Self> {
        let file =
            object::File::parse(program).map_err(|e| Error::failed(format!("the stopwatch is no ELF file: {e}")))?;
        let at = |name: &str| {
            let symbol = file.symbols().find(|s| s.name() == Ok(name));
            let missing = || Error::failed(format!("the stopwatch has no {name}, where the board would be stopped"));
            symbol.map(|s| s.address() as u32).ok_or_else(missing)
        };
        Ok(Self { begins: at("profile_begins")?, middle: at("profile_middle")?, ends: at("profile_ends")? })
    }
}

/// A file that a plugin writes, removed at the end.
struct Shared(PathBuf);

impl Shared {
    fn new(file: PathBuf, bytes: usize) -> Result<Self> {
        let made = File::create(&file).and_then(|made| made.set_len(bytes as u64));
        made.context(|| format!("cannot write {}", file.display()))?;
        Ok(Self(file))
    }

    fn too_short(&self) -> Error {
        Error::failed(format!("{} is too short", self.0.display()))
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // It is of no use without the run.
        let _ = fs::remove_file(&self.0);
    }
}

/// What a plugin writes.
enum Counters {
    /// A counter for each word of code.
    Instructions(Shared),
    /// What the model counts, all together and for each instruction, and copies of code.
    Cycles { clock: Clock, places: Shared, code: Shared },
}

impl Counters {
    fn new(context: &Context<'_>, run: &Run, log: &Path, from: Option<u32>) -> Result<Self> {
        let file = |extension| log.with_extension(extension);
        Ok(match &context.tool {
            Tool::Counter(_) => Self::Instructions(Shared::new(file("counters"), BYTES)?),
            Tool::Clock(tools) => Self::Cycles {
                clock: Clock::new(tools, &file("counts"), run, from)?,
                places: Shared::new(file("places"), ledger::LENGTH * size_of::<u64>())?,
                code: Shared::new(file("code"), BYTES)?,
            },
        })
    }

    /// What QEMU is told behind `-plugin`.
    fn argument(&self, context: &Context<'_>, native: bool) -> Result<String> {
        let path = |path: &Path| path.display().to_string().replace(',', ",,");
        Ok(match (self, &context.tool) {
            (Self::Cycles { clock, places, code }, _) => {
                format!("{},places={},code={}", clock.argument, path(&places.0), path(&code.0))
            }
            (Self::Instructions(counters), Tool::Counter(plugin)) => {
                // The image is built by now.
                let entries =
                    if native { String::new() } else { entries(&counter::notes(context.project, Image::Shipped)?) };
                format!("file={},profile={}{entries}", path(plugin), path(&counters.0))
            }
            (Self::Instructions(_), Tool::Clock(_)) => unreachable!("made for the tool"),
        })
    }

    /// What was counted until now. The board stands still, and has executed so many instructions.
    fn read(&self, executed: u64) -> Result<Stop> {
        match self {
            Self::Instructions(file) => {
                let counted = Counted::from_bytes(executed, &read(&file.0)?).ok_or_else(|| file.too_short())?;
                Ok(Stop { counted, places: Places::new() })
            }
            Self::Cycles { places, code, .. } => {
                let bytes = read(&places.0)?;
                let numbers: Vec<_> = bytes.as_chunks().0.iter().map(|bytes| u64::from_ne_bytes(*bytes)).collect();
                let due = ledger::read(&numbers).ok_or_else(|| places.too_short())?;
                let counted = Counted::of_places(executed, &read(&code.0)?, &due).ok_or_else(|| code.too_short())?;
                Ok(Stop { counted, places: due })
            }
        }
    }
}

/// Boots a board, with Spica or without, and profiles what is chosen.
///
/// # Errors
/// If the guest does not get to the end.
pub fn run(context: &Context<'_>, board: &'static Board, native: bool) -> Result<Vec<Reading>> {
    let side = if native { "native" } else { "spica" };
    let program = read(&workloads::stopwatch(context.project)?)?;
    let stops = Stops::of(&program)?;
    let mut request = Request {
        native,
        kernel: context.options.kernel.clone(),
        append: "quiet".into(),
        spica_append: context.options.engine.clone(),
        memory: Some(MEMORY.into()),
        icount: Some(ICOUNT_SHIFT),
        ..Request::new(board)
    };
    let chosen = |kind| context.chosen.iter().filter(move |c| c.kind == kind);
    let operations: Vec<_> = chosen(Kind::Operation).collect();
    let applications: Vec<_> = chosen(Kind::Application).collect();
    let script = benchmarks(context.project, &applications, &mut request.overlay)?;
    overlay(context.project, &mut request.overlay, &program, &operations, &script)?;
    let run = prepare::prepare(context.project, &request)?;
    let log = context.dir.join(format!("{}-{side}.log", board.name));
    // A boot is modelled from reset. All else needs no more than warm caches, which come with its first round.
    let from = match (chosen(Kind::Boot).next(), operations.is_empty()) {
        (Some(_), _) => None,
        (None, false) => Some(stops.begins),
        (None, true) => Some(BEFORE.address()),
    };
    let counters = Counters::new(context, &run, &log, from)?;
    let argument = counters.argument(context, native)?;
    let emulator = match &context.tool {
        Tool::Counter(_) => None,
        Tool::Clock(tools) => Some(&tools.emulator),
    };
    let plugin = Plugin { argument: &argument, emulator };
    let mut debugger = Debugger::start(&run, Some(plugin), Some(&log), context.options.verbose)?;
    let markers = [INIT, SHELL, BEFORE, BEHIND].map(Marker::address);
    debugger.stop_at(&[&markers[..], &[stops.begins, stops.middle, stops.ends]].concat())?;

    let title = format!("{} {}", board.name, if native { "without Spica" } else { "under Spica" });
    let mut told = Progress { title, begun: Instant::now() };
    let stall = context.options.stall;
    let mut next = |what: &str, address: u32, debugger: &mut Debugger| -> Result<Stop> {
        let (at, executed) = debugger.run(stall)?;
        if at != address {
            return Err(Error::failed(format!("the board stopped at {at:#010x}, not at {address:#010x}: {what}")));
        }
        told.tell(what, executed);
        counters.read(executed)
    };
    let init = next("the first process begins", INIT.address(), &mut debugger)?;
    let shell = next("a shell starts its first program", SHELL.address(), &mut debugger)?;
    let reset = Stop::reset();
    // No user code ran until then.
    let before_mmu = Window::between(&reset.counted, &init.counted).counter(USER);
    drop(init);
    let mut boot = Some(vec![reset, shell]);
    let mut readings = Vec::new();
    for workload in operations {
        let name = &workload.name;
        let begin = next(&format!("{name} begins"), stops.begins, &mut debugger)?;
        let middle = next(&format!("{name} was done {} times", workload.operations), stops.middle, &mut debugger)?;
        let end = next(&format!("{name} was done {} times", 2 * workload.operations), stops.ends, &mut debugger)?;
        let stops = vec![begin, middle, end];
        readings.push(Reading { workload: workload.clone(), stops, before_mmu: 0, nanoseconds: None });
    }
    for workload in applications {
        let begin = next(&format!("{} begins", workload.name), BEFORE.address(), &mut debugger)?;
        let end = next(&format!("{} was done", workload.name), BEHIND.address(), &mut debugger)?;
        let stops = vec![begin, end];
        readings.push(Reading { workload: workload.clone(), stops, before_mmu: 0, nanoseconds: None });
    }
    hear(&mut debugger, stall, &mut readings)?;
    for workload in chosen(Kind::Boot) {
        // It is asked for more than once at most by mistake.
        let stops = boot.take();
        readings.extend(stops.map(|stops| Reading {
            workload: workload.clone(),
            stops,
            before_mmu,
            nanoseconds: None,
        }));
    }
    // In the order of the command line.
    readings.sort_by_key(|r| context.chosen.iter().position(|c| *c == r.workload));
    Ok(readings)
}

/// Says how far a board is.
struct Progress {
    title: String,
    begun: Instant,
}

impl Progress {
    fn tell(&mut self, what: &str, executed: u64) {
        let seconds = self.begun.elapsed().as_secs();
        let (title, millions) = (&self.title, executed / 1_000_000);
        progress::say(format_args!("{title}: {what}: {millions} M instructions, {seconds} s"));
    }
}

/// What the guest said of the operations' times.
fn hear(debugger: &mut Debugger, stall: Duration, readings: &mut [Reading]) -> Result<()> {
    // What an application takes, it does not say by itself, and the window has more than the program.
    let lines_wanted = readings.iter().filter(|r| r.workload.kind == Kind::Operation).count();
    let mut missing = lines_wanted;
    let mut understand = |line: &str| {
        // What is no line of its own may stand before it.
        let mut words = line.find(LINE).map(|at| line[at + LINE.len()..].split(' ')).into_iter().flatten();
        if let (Some(name), Some(time)) = (words.next(), words.next())
            && let Some(reading) = readings.iter_mut().find(|r| r.workload.name == name && r.nanoseconds.is_none())
        {
            reading.nanoseconds = time.trim().parse().ok();
            missing -= 1;
        }
        missing == 0
    };
    let lines: Vec<_> = debugger.guest.drain(..).collect();
    // All of them, though the last may be known by then.
    if lines.iter().fold(lines_wanted == 0, |_, line| understand(line)) {
        return Ok(());
    }
    debugger.run_to_line(stall, &mut understand)
}

/// Lays the applications and the benchmarks' script over a guest, with markers around each, and returns the command for
/// them.
fn benchmarks(project: &Project, applications: &[&Chosen], overlay: &mut Overlay) -> Result<String> {
    if applications.is_empty() {
        return Ok(String::new());
    }
    let names: Vec<_> = applications.iter().map(|c| c.name.as_str()).collect();
    let prepared = workloads::prepare(project, &names)?;
    if let Some((name, reason)) = prepared.missing.first() {
        return Err(Error::failed(format!("{name} cannot be profiled: {reason}")));
    }
    *overlay = prepared.overlay;
    overlay.file("spica/before", 0o755, &BEFORE.program(""));
    overlay.file("spica/behind", 0o755, &BEHIND.program(""));
    Ok(prepared.command)
}

/// Lays the markers, the program and the script over a guest, which goes on with the commands `then`.
fn overlay(project: &Project, overlay: &mut Overlay, program: &[u8], operations: &[&Chosen], then: &str) -> Result<()> {
    let mut script = String::from("/spica/shell\ndd if=/dev/zero of=/tmp/bench-file bs=1M count=4 2>/dev/null\n");
    if !operations.is_empty() {
        // As the benchmarks do, and for the same reason (bench/linux/run.sh); longer, because less came before.
        script.push_str("/bench/bin/stopwatch operation stat 6000000 >/dev/null\n");
    }
    for Chosen { name, operations, .. } in operations {
        let _ = writeln!(script, "echo \"{LINE}{name} $(/bench/bin/stopwatch profile {name} {operations})\"");
    }
    script.push_str(then);
    let init = read(&project.source("guests/debian/init"))?;
    overlay.file("init", 0o755, &INIT.program("/spica/init"));
    overlay.file("spica/init", 0o755, &init);
    overlay.file("spica/token", 0o600, b"profile");
    overlay.file("spica/command", 0o700, script.as_bytes());
    overlay.file("spica/shell", 0o755, &SHELL.program(""));
    overlay.file("bench/bin/stopwatch", 0o755, program);
    Ok(())
}
