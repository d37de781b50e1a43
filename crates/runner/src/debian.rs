//! Packages of Debian's that are neither the guest nor a workload: fetched and unpacked once.

use std::fs;
use std::path::{Path, PathBuf};

use crate::apt::{self, ARMHF, Apt};
use crate::error::{Context, Error, Result};
use crate::project::{Project, remove_dir};

/// The tree of a package. The lists are those that the guest's packages were found in, if these are not old.
///
/// # Errors
/// If it cannot be fetched or unpacked.
pub fn unpacked(project: &Project, package: &str) -> Result<PathBuf> {
    tree(&project.build(&format!("packages/{package}")), |download| {
        let lists = project.build("apt");
        let files = Apt::recent(&lists, ARMHF)?.download(&[package], download);
        // The package may be newer than the lists, and the one that they name gone.
        files.or_else(|_| Apt::update(&lists, ARMHF)?.download(&[package], download))
    })
}

/// The kernel of a meta package, as of the day when it was fetched: of Debian's release, or of its backports.
///
/// # Errors
/// If it cannot be fetched or unpacked, or is no such package.
pub fn kernel(project: &Project, meta: &str, backports: bool) -> Result<PathBuf> {
    let name = if backports { format!("{meta}-backports") } else { meta.to_string() };
    let tree = tree(&project.build(&format!("packages/{name}")), |download| {
        let apt = if backports {
            Apt::update_backports(&project.build("apt-backports"), ARMHF)?
        } else {
            Apt::update(&project.build("apt"), ARMHF)?
        };
        let fields = apt.show(meta)?;
        let package = fields.dependency("linux-image-");
        apt.download(&[package.ok_or_else(|| Error::failed(format!("{meta} is no kernel's meta package")))?], download)
    })?;
    let boot = tree.join("boot");
    let found = fs::read_dir(&boot).context(|| format!("cannot read {}", boot.display()))?;
    let mut files = found.filter_map(|entry| Some(entry.ok()?.path()));
    let is_kernel =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"vmlinuz-"));
    files.find(is_kernel).ok_or_else(|| Error::failed(format!("there is no kernel in {}", boot.display())))
}

/// The tree in `dir` of the package that `fetch` downloads into a directory, if it is not there yet.
fn tree(dir: &Path, fetch: impl FnOnce(&Path) -> Result<Vec<PathBuf>>) -> Result<PathBuf> {
    let tree = dir.join("tree");
    if !tree.is_dir() {
        let (new, download) = (dir.join("tree.new"), dir.join("download"));
        let files = fetch(&download)?;
        remove_dir(&new)?;
        apt::unpack(&files[0], &new)?;
        // Last: what is there is whole.
        fs::rename(&new, &tree).context(|| format!("cannot rename {}", new.display()))?;
        remove_dir(&download)?;
    }
    Ok(tree)
}
