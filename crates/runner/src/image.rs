//! The board image: the hypervisor as the boot loader starts it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use crate::error::{Context, Error, Result};
use crate::needed;
use crate::process;
use crate::progress::Step;
use crate::project::{Project, read};

/// Which image.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Image {
    /// The one that is shipped.
    #[default]
    Shipped,
    /// With what others have measured, to be compared (feature `papers` of the hypervisor).
    Papers,
    /// That with one shadow table for kernel and user code (feature `single-table`).
    SingleTable,
    /// What compares the trap handlers in assembly with those in Rust, instead of running guests (feature
    /// `check-fast-paths`).
    CheckFastPaths,
}

impl Image {
    /// The image that knows these words of Spica's command line.
    #[must_use]
    pub fn for_words(words: &str) -> Self {
        if words.contains("tables=single") {
            Self::SingleTable
        } else if ["spill=", "+shadow-stack", "tracking=writes"].iter().any(|word| words.contains(word)) {
            Self::Papers
        } else {
            Self::Shipped
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Shipped => "spica",
            Self::Papers => "spica-papers",
            Self::SingleTable => "spica-single-table",
            Self::CheckFastPaths => "spica-check-fast-paths",
        }
    }

    fn feature(self) -> Option<&'static str> {
        match self {
            Self::Shipped => None,
            Self::Papers => Some("papers"),
            Self::SingleTable => Some("single-table"),
            Self::CheckFastPaths => Some("check-fast-paths"),
        }
    }

    /// The programs that it is built with here: none if it is there already.
    #[must_use]
    pub fn tools(self, project: &Project) -> &'static [&'static str] {
        if self.prebuilt(project).is_some() { &[] } else { needed::FOR_IMAGE }
    }

    /// The image that was installed in place of the sources.
    fn prebuilt(self, project: &Project) -> Option<PathBuf> {
        project.prebuilt().filter(|_| self == Self::Shipped)
    }

    /// Its ELF file, once it is built.
    #[must_use]
    pub fn elf(self, project: &Project) -> PathBuf {
        project.build(&format!("{}.elf", self.name()))
    }
}

/// Builds the image, if anything changed, and gives its file. Without the sources, it is the one that was installed.
///
/// Cargo decides what changed, once in a process: sources that change while it runs are for the next one. So all boots
/// of a test suite are of one image, and none but the first waits for cargo. The image is built for another target than
/// this program, with its own standard library: `crates/hypervisor` is a workspace of its own with its own options.
///
/// # Errors
/// If there are no sources, or if it does not compile; with the end of the compiler's output.
pub fn build(project: &Project, which: Image) -> Result<PathBuf> {
    if let Some(image) = which.prebuilt(project) {
        return Ok(image);
    }
    project.needs_sources("a board image that is not installed")?;
    static BUILT: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
    let image = project.build(&format!("{}.bin", which.name()));
    // Held while it is built: others need the same.
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    if built.contains(&image) && image.is_file() {
        return Ok(image);
    }
    let _step = Step::begin("building the hypervisor");
    let target = project.build("hypervisor");
    let mut cargo = Command::new("cargo");
    cargo.current_dir(project.source("crates/hypervisor"));
    // Only the distribution's toolchain needs this; a nightly one does not mind.
    cargo.env("RUSTC_BOOTSTRAP", "1").env_remove("CARGO_TARGET_DIR");
    cargo.args(["build", "--release", "--locked", "--quiet", "--target-dir"]).arg(&target);
    if let Some(feature) = which.feature() {
        cargo.args(["--features", feature]);
    }
    process::output(&mut cargo, "cannot build the hypervisor").map_err(explained)?;

    let elf = target.join("armv7a-none-eabi/release/spica-hypervisor");
    // Cargo has one place for all of them, and the sources may be others than those of last time.
    let copy = which.elf(project);
    if !image.is_file() || !same(&elf, &copy)? {
        let new = image.with_extension("bin.new");
        let mut objcopy = Command::new("arm-none-eabi-objcopy");
        process::output(objcopy.args(["-O", "binary"]).arg(&elf).arg(&new), "cannot make the board image")?;
        fs::rename(&new, &image).context(|| format!("cannot write {}", image.display()))?;
        // Last: what is the same as this has an image.
        fs::copy(&elf, &copy).context(|| format!("cannot copy {}", elf.display()))?;
    }
    built.insert(image.clone());
    Ok(image)
}

/// Whether two files have the same bytes. The second need not be there.
fn same(file: &Path, other: &Path) -> Result<bool> {
    Ok(other.is_file() && read(file)? == read(other)?)
}

/// An error of the compiler, or what it is for want of.
fn explained(error: Error) -> Error {
    let (library, package) = needed::LIBRARY_SOURCE;
    let sysroot = process::output(Command::new("rustc").args(["--print", "sysroot"]), "cannot ask rustc");
    match sysroot {
        Ok(sysroot) if !Path::new(sysroot.trim()).join(library).is_dir() => Error::failed(format!(
            "cannot build the hypervisor: the source of Rust's library is missing in {}; it is in Debian's package {package}, \
             and with rustup it is the component rust-src",
            sysroot.trim()
        )),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::Image;

    #[test]
    fn words_choose_the_image_that_knows_them() {
        for words in ["", "spica.translation=naive,+link", "spica.tables=double spica.tracking=maintenance"] {
            assert_eq!(Image::for_words(words), Image::Shipped, "{words}");
        }
        let papers = [
            "spica.translation=all,spill=tpidrurw",
            "spica.boot-translation=-return-mirror,+shadow-stack",
            "spica.tracking=writes spica.verbose",
        ];
        for words in papers {
            assert_eq!(Image::for_words(words), Image::Papers, "{words}");
        }
        let both = "spica.tracking=writes spica.tables=single";
        assert_eq!(Image::for_words(both), Image::SingleTable, "it has the rest, too");
    }
}
