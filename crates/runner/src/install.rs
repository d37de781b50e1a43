//! `spica install`: the command, its manual pages and its data, put where they need no sources.
//!
//! ```text
//! PREFIX/bin/spica                    the command
//! PREFIX/share/man/man1/spica*.1      its manual pages
//! PREFIX/share/spica/guests/          the recipes of guests, and manifests
//! PREFIX/share/spica/images/spica.bin the board image, built
//! ```
//!
//! The command finds `share/spica` beside its own `bin`: see [`crate::project`]. With the image there, running and
//! packing guests needs no Rust.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::{Context, Error, Result};
use crate::image::Image;
use crate::needed;
use crate::prepare;
use crate::process;
use crate::project::{PREBUILT, Project, create_dir, read, remove_dir, write};

/// What is copied of the home.
const DATA: [&str; 4] = ["guests/debian", "guests/system", "guests/two.toml", "guests/debian-pair.toml"];

/// Installs `program` below `prefix`, with manual pages that `pages` writes to the directory that it is given.
///
/// # Errors
/// If the board image cannot be built, or something cannot be written.
pub fn install(
    project: &Project,
    program: &Path,
    pages: impl FnOnce(&Path) -> Result<()>,
    prefix: &Path,
) -> Result<Vec<PathBuf>> {
    // Said now, not after all is built.
    if prefix.exists() && !prefix.is_dir() {
        return Err(Error::usage(format!("--prefix: {} is a file; expected a directory", prefix.display())));
    }
    needed::check(Image::Shipped.tools(project))?;
    let image = read(&prepare::board_image(project, Image::Shipped)?)?;

    let share = prefix.join("share/spica");
    // Made whole beside the old one, which may be where all is copied from.
    let new = prefix.join("share/spica.new");
    remove_dir(&new)?;
    for data in DATA {
        let target = new.join(data);
        create_dir(target.parent().unwrap_or(&new))?;
        let mut copy = Command::new("cp");
        copy.arg("-R").arg("--").arg(project.source(data)).arg(&target);
        process::output(&mut copy, "cannot install Spica's data")?;
    }
    write(&new.join(PREBUILT), &image)?;
    remove_dir(&share)?;
    fs::rename(&new, &share).context(|| format!("cannot write {}", share.display()))?;

    let man = prefix.join("share/man/man1");
    pages(&man)?;

    let command = prefix.join("bin/spica");
    // Asked before: the program may be the one that is replaced. It is a new file, because the old one may be running.
    let mode = fs::metadata(program).context(|| format!("cannot read {}", program.display()))?.permissions();
    write(&command, &read(program)?)?;
    fs::set_permissions(&command, mode).context(|| format!("cannot make {} executable", command.display()))?;
    Ok(vec![command, man, share])
}
