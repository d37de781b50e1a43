//! QEMU's plugin with the model of time ([`bench/cycles`](../../../../bench/cycles/src/lib.rs)): built, loaded, read.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use spica_cycles::{Core, Counts};

use super::plan::results_board;
use crate::board::Board;
use crate::emulator::{self, Emulator};
use crate::error::{Error, Result};
use crate::prepare::Run;
use crate::process;
use crate::progress::Step;
use crate::project::{Project, read, write};

/// The plugin, and the QEMU that can load it.
#[derive(Clone, Debug)]
pub struct Tools {
    /// The plugin's file.
    pub plugin: PathBuf,
    /// The QEMU.
    pub emulator: Emulator,
}

/// Gets a QEMU that will do, and builds the plugin, if anything changed.
///
/// # Errors
/// If there is no such QEMU to be had, or the plugin does not compile.
pub fn prepare(project: &Project) -> Result<Tools> {
    let emulator = emulator::prepare(project)?;
    let _step = Step::begin("building the model of time");
    let target = project.build("bench/cycles");
    let mut cargo = Command::new("cargo");
    cargo.current_dir(project.root()).env_remove("CARGO_TARGET_DIR");
    cargo.args(["build", "--release", "--locked", "--quiet", "-p", "spica-clock", "--target-dir"]).arg(&target);
    process::output(&mut cargo, "cannot build the model of time")?;
    Ok(Tools { plugin: target.join("release/libspica_clock.so"), emulator })
}

/// Where a board has its memory.
fn memory(board: &Board) -> u32 {
    match results_board(board) {
        spica_bench::results::Board::Cubieboard => 0x4000_0000,
        spica_bench::results::Board::VexpressA9 => 0x6000_0000,
    }
}

/// The counts of a board that runs.
#[derive(Debug)]
pub struct Clock {
    file: PathBuf,
    /// What QEMU is told behind `-plugin`.
    pub argument: String,
}

impl Clock {
    /// Counts of a run that are all 0, in a file of that name. With `from`, nothing is modelled before the instruction
    /// there.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn new(tools: &Tools, file: &Path, run: &Run, from: Option<u32>) -> Result<Self> {
        let mib = run.boot().memory_mib.unwrap_or(run.board.memory_mib);
        write(file, &[0; Counts::LENGTH * size_of::<u64>()])?;
        let path = |path: &Path| path.display().to_string().replace(',', ",,");
        let from = from.map_or_else(String::new, |address| format!(",from={address:#x}"));
        let argument = format!(
            "file={},counts={},core={},ram={:#x}:{:#x}{from}",
            path(&tools.plugin),
            path(file),
            Core::from(results_board(run.board)).key(),
            memory(run.board),
            u64::from(mib) << 20,
        );
        Ok(Self { file: file.into(), argument })
    }

    /// What was counted until now. The board stands still.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn read(&self) -> Result<Counts> {
        let bytes = read(&self.file)?;
        let (words, _) = bytes.as_chunks();
        let numbers: Vec<_> = words.iter().map(|w| u64::from_ne_bytes(*w)).collect();
        let numbers = numbers.try_into();
        Ok(Counts::of(numbers.map_err(|_| Error::failed(format!("{} is too short", self.file.display())))?))
    }
}

impl Drop for Clock {
    fn drop(&mut self) {
        // A few hundred bytes among the consoles, where it stays.
        let _ = fs::remove_file(&self.file);
    }
}
