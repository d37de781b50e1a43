//! The plugin that counts while a board runs (`bench/counter`): built, told what to count, and read.
//!
//! What an instruction counts as, the plugin knows by itself. Exceptions it recognises by where they are taken to, so
//! it is told the addresses of the vectors: those of Linux on the bare board, those of Spica's image otherwise. Why a
//! guest was interrupted by an abort, no instruction tells; Spica has a function for each reason, and the plugin counts
//! their calls. The image says itself where its vectors and these functions are ([`spica_profile::image`]).

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use spica_bench::events::{COUNTERS, Event, Trap};
use spica_profile::image::Image as Notes;

use super::Side;
use crate::error::{Error, Result};
use crate::image::Image;
use crate::process;
use crate::progress::Step;
use crate::project::{Project, read, write};

/// Where Linux has its vectors (SCTLR.V is set).
const LINUX_VECTORS: u32 = 0xffff_0000;

/// The vectors (B1.8.1) that exceptions are taken through: undefined instruction, supervisor call, aborts, interrupts.
const VECTORS: [u32; 6] = [0x04, 0x08, 0x0c, 0x10, 0x18, 0x1c];

/// Builds the plugin, if anything changed; gives its file.
///
/// # Errors
/// If it does not compile.
pub fn build(project: &Project) -> Result<PathBuf> {
    let _step = Step::begin("building the counter");
    let target = project.build("bench/counter");
    let mut cargo = Command::new("cargo");
    cargo.current_dir(project.root()).env_remove("CARGO_TARGET_DIR");
    cargo.args(["build", "--release", "--locked", "--quiet", "-p", "spica-counter", "--target-dir"]).arg(&target);
    process::output(&mut cargo, "cannot build the counter")?;
    Ok(target.join("release/libspica_counter.so"))
}

/// The counters of a board that runs.
#[derive(Debug)]
pub struct Counter {
    file: PathBuf,
    /// What QEMU is told behind `-plugin`.
    pub argument: String,
}

/// What was counted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Counts(Vec<u64>);

impl Counter {
    /// Counters that are all 0, in a file of that name.
    ///
    /// # Errors
    /// If the file cannot be written, or Spica's image lacks what its traps are told apart by.
    pub fn new(project: &Project, plugin: &Path, file: &Path, side: Side) -> Result<Self> {
        write(file, &[0; COUNTERS * size_of::<u64>()])?;
        let path = |path: &Path| path.display().to_string().replace(',', ",,");
        let mut argument = format!("file={},counts={}", path(plugin), path(file));
        let mut at = |address: u32, name: &str| {
            let _ = write!(argument, ",at={address:#x}:{name}");
        };
        if side == Side::Native {
            VECTORS.iter().for_each(|vector| at(LINUX_VECTORS + vector, Event::ExceptionEntry.key()));
        } else {
            for (address, event) in notes(project, Image::for_words(side.words()))?.counts {
                at(address, &event);
            }
            argument.push_str(",traps=on");
        }
        Ok(Self { file: file.into(), argument })
    }

    /// What was counted until now. The board stands still.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn read(&self) -> Result<Counts> {
        let bytes = read(&self.file)?;
        let (words, _) = bytes.as_chunks();
        let mut counts: Vec<_> = words.iter().map(|w| u64::from_ne_bytes(*w)).collect();
        // Every abort was taken for a hidden fault.
        let others: u64 = [Trap::Mmio, Trap::GuestAbort, Trap::ProtectedWrite].map(|t| counts[place(t)]).iter().sum();
        let hidden = &mut counts[place(Trap::HiddenFault)];
        *hidden = hidden.saturating_sub(others);
        Ok(Counts(counts))
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        // A few hundred bytes among the consoles, where it stays.
        let _ = fs::remove_file(&self.file);
    }
}

fn place(trap: Trap) -> usize {
    spica_bench::events::place_of_trap(trap)
}

impl Counts {
    /// Counts made up for a test.
    #[cfg(test)]
    pub fn from_fn(count: impl FnMut(usize) -> u64) -> Counts {
        Counts((0..COUNTERS).map(count).collect())
    }

    /// What was counted since `before`.
    #[must_use]
    pub fn since(&self, before: &Counts) -> Counts {
        Counts(self.0.iter().zip(&before.0).map(|(now, then)| now.saturating_sub(*then)).collect())
    }

    /// What was counted more than in `less`, another stretch of time, by which this one is longer. A class of traps of
    /// which the other has more has nothing to do with that: it is left out, and so it is of the exceptions.
    #[must_use]
    pub fn beyond(&self, less: &Counts) -> Counts {
        let mut counts = self.since(less);
        let fewer: u64 = Trap::ALL.iter().map(|t| less.trap(*t).saturating_sub(self.trap(*t))).sum();
        let entries = self.event(Event::ExceptionEntry) + fewer;
        counts.0[spica_bench::events::place(Event::ExceptionEntry)] =
            entries.saturating_sub(less.event(Event::ExceptionEntry));
        counts
    }

    /// How often an event happened.
    #[must_use]
    pub fn event(&self, event: Event) -> u64 {
        self.0[spica_bench::events::place(event)]
    }

    /// How often a trap was taken.
    #[must_use]
    pub fn trap(&self, trap: Trap) -> u64 {
        self.0[place(trap)]
    }
}

/// What Spica's image, which is built, says of its code.
///
/// # Errors
/// If it cannot be read, or says nothing that makes sense.
pub fn notes(project: &Project, image: Image) -> Result<Notes> {
    Notes::parse(&read(&image.elf(project))?).map_err(Error::failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traps_beyond_those_of_another_time_are_exceptions() {
        let (entry, calls, links) = (Event::ExceptionEntry, Trap::UserCall, Trap::DirectBranch);
        let counts = |entries: u64, c: u64, l: u64| {
            let places = [(spica_bench::events::place(entry), entries), (place(calls), c), (place(links), l)];
            Counts::from_fn(|at| places.iter().find(|(p, _)| *p == at).map_or(0, |(_, n)| *n))
        };
        // The shorter time had seven links, the longer one none; both had a trap of no class.
        let more = counts(41, 40, 0).beyond(&counts(28, 20, 7));
        assert_eq!((more.event(entry), more.trap(calls), more.trap(links)), (20, 20, 0));
    }

    #[test]
    fn what_is_no_other_abort_is_a_hidden_fault() {
        let file = std::env::temp_dir().join(format!("spica-counter-{}", std::process::id()));
        let mut counts = vec![0u64; COUNTERS];
        counts[place(Trap::HiddenFault)] = 10;
        counts[place(Trap::Mmio)] = 3;
        counts[place(Trap::GuestAbort)] = 2;
        let bytes: Vec<_> = counts.iter().flat_map(|c| c.to_ne_bytes()).collect();
        fs::write(&file, bytes).unwrap();
        let counter = Counter { file: file.clone(), argument: String::new() };
        let counts = counter.read().unwrap();
        assert_eq!((counts.trap(Trap::HiddenFault), counts.trap(Trap::Mmio)), (5, 3));
        assert_eq!(counts.since(&counts).trap(Trap::HiddenFault), 0);
        drop(counter);
        assert!(!file.exists());
    }
}
