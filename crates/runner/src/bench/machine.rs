//! The machine operations: bare-metal guests of `bench/machine`, without any operating system.
//!
//! The same sources are built for each board and for Spica's guest machine; they differ in where devices are, not in
//! what is measured. All categories run one after the other in one boot, which takes a second.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use object::{Object, ObjectSection, ObjectSymbol};
use spica_bench::results::Group;

use super::plan::Item;
use super::watch::{Flow, watch};
use super::workloads::{self, Reading};
use super::{Context, Said, Side, instructions};
use crate::board::Board;
use crate::error::{Context as _, Error, Result};
use crate::prepare;
use crate::process;
use crate::project::{Project, create_dir, read, write};

/// Where the sources are.
const SOURCES: &str = "bench/machine";
/// The file that must be linked first: it has the beginning, and the category that the others are compared with.
const FIRST: &str = "start.S";
/// What Spica's guest machine is called there.
const GUEST_MACHINE: &str = "virt";
/// What the program puts before the names of its categories.
const PREFIX: &str = "machine.";
/// The memory that it expects.
const MEMORY: &str = "16M";

/// The machine operations.
///
/// # Errors
/// If the program cannot be built.
pub fn items(project: &Project) -> Result<Vec<Item>> {
    let (_, names) = build(project, GUEST_MACHINE)?;
    let item = |name: String| Item {
        group: Group::Machine,
        name,
        unit: "operation".into(),
        source: format!("bare-metal guest {SOURCES}"),
        quick: true,
    };
    Ok(names.into_iter().map(item).collect())
}

/// Runs all of them. What they say goes to `said`.
///
/// # Errors
/// If the guest does not get to the end.
pub(super) fn run(context: &Context<'_>, board: &'static Board, side: Side, said: &mut Said<'_>) -> Result<()> {
    let platform = if side == Side::Native { board.name } else { GUEST_MACHINE };
    let (image, _) = build(context.project, platform)?;
    let initrd = image.with_file_name("initrd");
    write(&initrd, &[0; 4])?;
    let mut request = super::request(board, side, Group::Machine);
    request.kernel = Some(image);
    request.initrd = Some(initrd);
    request.memory = Some(MEMORY.into());
    let run = prepare::prepare(context.project, &request)?;
    let log = context.log(board, side, "machine")?;
    let short = |name: String| name.strip_prefix(PREFIX).map_or(name.clone(), str::to_string);
    let mut each = |line: &str| {
        match workloads::parse(line) {
            Some(Reading::Time { name, ns }) => (said.found)(&short(name), Ok(instructions(ns))),
            Some(Reading::Missing { name, reason }) => (said.found)(&short(name), Err(reason)),
            Some(Reading::Done) => return Flow::Last,
            _ => {}
        }
        Flow::Continue
    };
    watch(&run, &log, context.stall(side), context.verbose, said.spica, &mut each)
}

/// Builds the program for a board, if anything changed; gives its image and the names of its categories.
fn build(project: &Project, platform: &str) -> Result<(PathBuf, Vec<String>)> {
    let sources = project.source(SOURCES);
    let dir = project.build(&format!("bench/machine/{platform}"));
    create_dir(&dir)?;
    let entries = fs::read_dir(&sources).context(|| format!("cannot list {}", sources.display()))?;
    let names = entries.flatten().filter_map(|e| e.file_name().into_string().ok());
    let mut files: Vec<_> = names.filter(|n| n.ends_with(".S")).collect();
    files.sort_by_key(|name| (name != FIRST, name.clone()));
    // Each run builds its own objects: another one may be building, too.
    let scratch = dir.join(format!("{}-{:?}", std::process::id(), std::thread::current().id()));
    create_dir(&scratch)?;
    let built = link(&sources, platform, &files, &scratch).and_then(|(elf, image)| {
        let names = categories(&read(&elf)?)?;
        let kept = dir.join("kernel");
        fs::rename(&image, &kept).context(|| format!("cannot write {}", kept.display()))?;
        Ok((kept, names))
    });
    let _ = fs::remove_dir_all(&scratch);
    built
}

fn link(sources: &Path, platform: &str, files: &[String], scratch: &Path) -> Result<(PathBuf, PathBuf)> {
    let mut objects = Vec::new();
    for file in files {
        let object = scratch.join(file).with_extension("o");
        let mut assembler = Command::new("arm-none-eabi-as");
        assembler.arg("--no-warn").arg("-I").arg(sources.join(platform)).arg("-I").arg(sources);
        assembler.arg("-o").arg(&object).arg(sources.join(file));
        process::output(&mut assembler, &format!("cannot assemble {SOURCES}/{file} for {platform}"))?;
        objects.push(object);
    }
    let [elf, image] = ["elf", "bin"].map(|e| scratch.join(format!("kernel.{e}")));
    let mut linker = Command::new("arm-none-eabi-ld");
    linker.arg("-T").arg(sources.join("image.ld")).arg("-o").arg(&elf).args(&objects);
    process::output(&mut linker, &format!("cannot link {SOURCES} for {platform}"))?;
    let mut objcopy = Command::new("arm-none-eabi-objcopy");
    process::output(objcopy.args(["-O", "binary"]).arg(&elf).arg(&image), "cannot make an image of it")?;
    Ok((elf, image))
}

/// The names of the categories: strings behind the table of categories.
fn categories(elf: &[u8]) -> Result<Vec<String>> {
    let wrong = |what: String| Error::failed(format!("the program of {SOURCES} {what}"));
    let file = object::File::parse(elf).map_err(|e| wrong(format!("is no ELF file: {e}")))?;
    let end = file.symbols().find(|s| s.name() == Ok("benches_end")).map(|s| s.address());
    let end = end.ok_or_else(|| wrong("has no symbol benches_end".into()))?;
    let text = file.section_by_name(".text").ok_or_else(|| wrong("has no section .text".into()))?;
    let data = text.data().map_err(|e| wrong(format!("has an unreadable section .text: {e}")))?;
    let names = usize::try_from(end - text.address()).ok().and_then(|at| data.get(at..)).unwrap_or_default();
    let names = names.split(|&b| b == 0).take_while(|n| !n.is_empty());
    Ok(names.map(|n| String::from_utf8_lossy(n).into_owned()).collect())
}
