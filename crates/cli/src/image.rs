//! The board image: the hypervisor as the boot loader starts it.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::error::{Context, Result};
use crate::process;
use crate::progress::Step;
use crate::project::Project;

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
    /// What compares the trap handlers in assembly with those in Rust, instead of running guests (feature `check-fast-paths`).
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

    /// Its ELF file, once it is built.
    #[must_use]
    pub fn elf(self, project: &Project) -> PathBuf {
        project.build(&format!("{}.elf", self.name()))
    }
}

/// Builds the image, if anything changed, and gives its file.
///
/// Cargo decides what changed. The image is built for another target than this program, with its own standard library:
/// `crates/hypervisor` is a workspace of its own with its own options.
///
/// # Errors
/// If it does not compile; with the end of the compiler's output.
pub fn build(project: &Project, which: Image) -> Result<PathBuf> {
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
    process::output(&mut cargo, "cannot build the hypervisor")?;

    let elf = target.join("armv7a-none-eabi/release/spica-hypervisor");
    let image = project.build(&format!("{}.bin", which.name()));
    let built = fs::metadata(&elf).and_then(|m| m.modified()).context(|| format!("cannot read {}", elf.display()))?;
    if !fs::metadata(&image).and_then(|m| m.modified()).is_ok_and(|m| m >= built) {
        // The next image takes this one's place where Cargo puts them.
        fs::copy(&elf, which.elf(project)).context(|| format!("cannot copy {}", elf.display()))?;
        let new = image.with_extension("bin.new");
        let mut objcopy = Command::new("arm-none-eabi-objcopy");
        process::output(objcopy.args(["-O", "binary"]).arg(&elf).arg(&new), "cannot make the board image")?;
        fs::rename(&new, &image).context(|| format!("cannot write {}", image.display()))?;
    }
    Ok(image)
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
