//! A package of Debian's that is neither the guest nor a workload: fetched and unpacked once.

use std::fs;
use std::path::PathBuf;

use crate::apt::{self, ARMHF, Apt};
use crate::error::{Context, Result};
use crate::project::{Project, remove_dir};

/// The tree of a package. The lists are those that the guest's packages were found in, if these are not old.
///
/// # Errors
/// If it cannot be fetched or unpacked.
pub fn unpacked(project: &Project, package: &str) -> Result<PathBuf> {
    let dir = project.build(&format!("packages/{package}"));
    let tree = dir.join("tree");
    if !tree.is_dir() {
        let (lists, download) = (project.build("apt"), dir.join("download"));
        let files = Apt::recent(&lists, ARMHF)?.download(&[package], &download);
        // The package may be newer than the lists, and the one that they name gone.
        let files = files.or_else(|_| Apt::update(&lists, ARMHF)?.download(&[package], &download))?;
        let new = dir.join("tree.new");
        remove_dir(&new)?;
        apt::unpack(&files[0], &new)?;
        // Last: what is there is whole.
        fs::rename(&new, &tree).context(|| format!("cannot rename {}", new.display()))?;
        remove_dir(&dir.join("download"))?;
    }
    Ok(tree)
}
