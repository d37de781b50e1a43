//! `spica profile`: where the instructions of an operation go.
//!
//! One boot for each side, with and without Spica. The guest's first process and its first program are markers
//! ([`crate::bench::marker`]). Behind them `stopwatch` (`bench/linux/program`) does each operation N times and 2 N
//! times, with functions in between at which the board is stopped. At each stop the counters of QEMU's plugin are read
//! ([`spica_profile::area`]). What they mean is the business of the crate `spica-profile`; here the board is run
//! (`board.rs`), and the tables are written.
//!
//! Time is the count of instructions, as for `spica bench`, so a profile repeats to the digit.

mod board;
mod workloads;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use spica_cycles::Core;
use spica_profile::cycles::{self, Cycles};
use spica_profile::executed::{image_listing, listing};
use spica_profile::image::{Entry, Image as Notes};
use spica_profile::profile::{Profile, profile};
use spica_profile::text;

use crate::bench::plan::results_board;
use crate::bench::{clock, counter, instructions};
use crate::board::find;
use crate::error::{Error, Result};
use crate::image::Image;
use crate::project::{Project, create_dir, write};
use board::Reading;
use workloads::Chosen;
pub use workloads::list;

/// What the command line asks for.
#[derive(Clone, Debug)]
pub struct Options {
    /// The board's name.
    pub board: String,
    /// Names of workloads; none means those of docs/profile.md.
    pub workloads: Vec<String>,
    /// A Linux of the user's in place of Debian's.
    pub kernel: Option<PathBuf>,
    /// The word of Spica's command line for the engine.
    pub engine: String,
    /// Run without Spica, too.
    pub native: bool,
    /// Model cycles, too.
    pub cycles: bool,
    /// List the executed words of the code cache and of Spica's image, too.
    pub code: bool,
    /// Where tables go; `None` means `build/profile`.
    pub output: Option<PathBuf>,
    /// How long a guest may take to the next stop.
    pub stall: Duration,
    /// Show what is done.
    pub verbose: bool,
}

/// What all boots have in common.
struct Context<'a> {
    project: &'a Project,
    options: &'a Options,
    /// Where tables and consoles go.
    dir: PathBuf,
    /// QEMU's plugin.
    tool: Tool,
    /// What is profiled.
    chosen: Vec<Chosen>,
}

/// QEMU's plugin.
enum Tool {
    /// Counts instructions.
    Counter(PathBuf),
    /// Models a core, and notes what is due to each instruction.
    Clock(clock::Tools),
}

/// What a run came to.
#[derive(Clone, Debug)]
pub struct Profiled {
    /// The profile of each workload.
    pub profiles: Vec<Profile>,
    /// The files with all of them: tables, and JSON.
    pub files: [PathBuf; 2],
}

impl Profiled {
    /// Whether each profile adds up.
    ///
    /// # Errors
    /// Those that do not.
    pub fn check(&self) -> Result<()> {
        let wrong: Vec<_> = self.profiles.iter().filter_map(|profile| profile.check().err()).collect();
        if wrong.is_empty() { Ok(()) } else { Err(Error::failed(wrong.join("; "))) }
    }
}

/// The file for programs.
#[derive(Serialize)]
struct File<'a> {
    board: &'a str,
    commit: &'a str,
    profiles: &'a [Profile],
}

/// Profiles, and writes the tables. Whether they add up, [`Profiled::check`] says.
///
/// # Errors
/// If the command line asks for what does not exist, or if a guest does not get to its end.
pub fn run(project: &Project, options: &Options) -> Result<Profiled> {
    let board = find(&options.board)?;
    let chosen = workloads::choose(&options.workloads)?;
    let tool = if options.cycles {
        Tool::Clock(clock::prepare(project)?)
    } else {
        board::look_for_plugins()?;
        Tool::Counter(counter::build(project)?)
    };
    let dir = options.output.clone().unwrap_or_else(|| project.build("profile"));
    create_dir(&dir)?;
    let context = Context { project, options, dir, tool, chosen };
    let natives = if options.native { Some(board::run(&context, board, true)?) } else { None };
    let readings = board::run(&context, board, false)?;
    let image = counter::notes(project, Image::Shipped)?;
    if !image.unknown.is_empty() {
        let names = image.unknown.join(", ");
        return Err(Error::failed(format!("no note in Spica's image says what this code is for: {names}")));
    }
    let profiles: Vec<_> = readings
        .iter()
        .enumerate()
        .map(|(at, reading)| {
            let native = natives.as_ref().and_then(|natives| natives.get(at));
            let core = options.cycles.then(|| Core::from(results_board(board)));
            of_reading(reading, native, &image, core)
        })
        .collect();

    if options.code {
        for reading in &readings {
            let (window, operations) = (reading.window(), reading.operations());
            let file = |extension| context.dir.join(format!("{}-{}.{extension}", board.name, reading.workload.name));
            write(&file("code"), listing(&window, operations).as_bytes())?;
            write(&file("image"), image_listing(&window, operations, &image.pieces).as_bytes())?;
        }
    }
    let commit = workloads::commit(project)?;
    let name = |extension: &str| context.dir.join(board.name).with_extension(extension);
    let markdown: Vec<_> = profiles.iter().map(text::markdown).collect();
    let markdown = format!("On `{}`, commit {commit}.\n\n{}", board.name, markdown.join("\n"));
    write(&name("md"), markdown.as_bytes())?;
    let file = File { board: board.name, commit: &commit, profiles: &profiles };
    let json =
        serde_json::to_string_pretty(&file).map_err(|e| Error::failed(format!("cannot write a profile: {e}")))?;
    write(&name("json"), json.as_bytes())?;
    Ok(Profiled { profiles, files: [name("md"), name("json")] })
}

fn of_reading(reading: &Reading, without: Option<&Reading>, image: &Notes, core: Option<Core>) -> Profile {
    let work = spica_profile::profile::Workload {
        name: &reading.workload.name,
        operation: reading.workload.operation,
        operations: reading.operations(),
        before_mmu: reading.before_mmu,
    };
    let native =
        |native: &Reading| spica_profile::profile::native(&native.window(), native.operations(), native.before_mmu);
    let cycles = core.map(|core| {
        let cycles = cycles::cycles(core, &reading.due(), &reading.window(), reading.operations(), image);
        let native = without.map(|native| cycles::native(core, &native.due(), native.operations()));
        Cycles { native, ..cycles }
    });
    Profile {
        reported: reading.nanoseconds.map(instructions),
        native: without.map(native),
        cycles,
        ..profile(&work, &reading.window(), image)
    }
}

/// What the plugin is told about slow traps.
fn entries(image: &Notes) -> String {
    let mut text = format!(",leave={:#x}", image.guest);
    for Entry { at, kind, .. } in &image.entries {
        let _ = write!(text, ",enter={at:#x}:{kind}");
    }
    text
}
