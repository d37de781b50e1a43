//! Packages of Debian's that are neither the guest nor a workload: fetched and unpacked once.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::apt::{self, ARMHF, Apt};
use crate::error::{Context, Error, Result};
use crate::process;
use crate::progress::Step;
use crate::project::{Project, create_dir, remove_dir};

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

/// The source of a package, as its authors publish it: the archive.
///
/// # Errors
/// If it cannot be fetched.
pub fn source(project: &Project, package: &str) -> Result<PathBuf> {
    let dir = project.build(&format!("sources/{package}"));
    let there = fs::read_dir(&dir).ok().and_then(|mut files| Some(files.next()?.ok()?.path()));
    if let Some(archive) = there {
        return Ok(archive);
    }
    let download = project.build(&format!("sources/{package}.new"));
    let archive = Apt::update_sources(&project.build("apt-sources"), ARMHF)?.download_source(package, &download)?;
    let kept = dir.join(archive.file_name().unwrap_or_default());
    create_dir(&dir)?;
    fs::rename(&archive, &kept).context(|| format!("cannot write {}", kept.display()))?;
    remove_dir(&download)?;
    Ok(kept)
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

/// The kernel of this release with its debug symbols, out of the package that Debian has for each of its kernels. It is
/// 620 MB to fetch; what is kept is one file of half of that.
///
/// # Errors
/// If `release` is none, Debian has no such kernel, or it cannot be fetched or unpacked.
pub fn debug_kernel(project: &Project, release: &str) -> Result<PathBuf> {
    // It may come from a guest, and becomes a package's name and a file's.
    let is_known = |c: char| c.is_ascii_alphanumeric() || ".+-_~".contains(c);
    if !release.starts_with(|c: char| c.is_ascii_digit()) || !release.chars().all(is_known) {
        return Err(Error::failed(format!("{release:?} is no release of a kernel")));
    }
    let (dir, name) = (project.build("debug"), format!("vmlinux-{release}"));
    let path = dir.join(&name);
    if path.is_file() {
        return Ok(path);
    }
    let package = format!("linux-image-{release}-dbg");
    let (lists, download) = (project.build("apt"), dir.join("download"));
    let unknown = |mut error: Error| {
        error.message = format!("Debian's package {package} cannot be had: {}", error.message);
        error
    };
    let files = Apt::recent(&lists, ARMHF)?.download(&[&package], &download).map_err(unknown)?;
    let _step = Step::begin(format!("unpacking {name}"));
    let inside = format!("./usr/lib/debug/boot/{name}");
    let mut unpack = Command::new("sh");
    // Of the whole tree, which is 2.7 GB, one file is wanted.
    let pipe = "set -e; dpkg-deb --fsys-tarfile \"$1\" | tar -x --to-stdout \"$2\" > vmlinux.new; test -s vmlinux.new";
    unpack.current_dir(&dir).args(["-c", pipe, "sh"]).arg(&files[0]).arg(&inside);
    process::output(&mut unpack, &format!("cannot unpack {package}"))?;
    fs::rename(dir.join("vmlinux.new"), &path).context(|| format!("cannot write {}", path.display()))?;
    remove_dir(&download)?;
    Ok(path)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_release_becomes_no_file() {
        let project = Project::find(None).expect("this is it");
        for release in ["", "../6.1", "-6.1", "6.1/..", "6.1 x", "6.1;x", "six"] {
            let error = debug_kernel(&project, release).expect_err("no release");
            assert!(error.message.contains("no release of a kernel"), "{error}");
        }
    }
}
