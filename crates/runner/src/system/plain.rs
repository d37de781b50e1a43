//! Debian's packages without their compression.
//!
//! A package is an `ar` archive of three members: the format's version, and two tar archives, `control.tar` and
//! `data.tar`, compressed ([deb(5)]). An emulated board takes a minute and more to undo that, this machine seconds.
//! dpkg takes packages whose archives are not compressed as they are.
//!
//! [deb(5)]: https://manpages.debian.org/bookworm/dpkg-dev/deb.5.en.html

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;

use crate::error::{Context, Error, Result};
use crate::project::{create_dir, write};

/// What an `ar` archive begins with.
const MAGIC: &[u8] = b"!<arch>\n";
/// The version of the format that a package has.
const VERSION: &[u8] = b"2.0\n";

/// Writes the packages of directory `from` to `to`, without compression; of those that `wanted` names, also their files
/// as one archive `NAME.tar`, to `trees`.
///
/// # Errors
/// If one of them cannot be read or written.
pub fn packages(from: &Path, to: &Path, wanted: &[String], trees: &Path) -> Result<()> {
    for dir in [to, trees] {
        create_dir(dir)?;
    }
    let entries = fs::read_dir(from).context(|| format!("cannot list {}", from.display()))?;
    let files: Vec<_> =
        entries.flatten().map(|e| e.path()).filter(|p| p.extension().is_some_and(|e| e == "deb")).collect();
    let waiting = Mutex::new(files);
    let next = || waiting.lock().ok()?.pop();
    let work = || -> Result<()> {
        while let Some(file) = next() {
            package(&file, to, wanted, trees)?;
        }
        Ok(())
    };
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        let ended = |thread: std::thread::ScopedJoinHandle<'_, Result<()>>| {
            thread.join().unwrap_or_else(|_| Err(Error::failed("a thread that unpacked packages panicked")))
        };
        threads.into_iter().try_for_each(ended)
    })
}

fn package(file: &Path, to: &Path, wanted: &[String], trees: &Path) -> Result<()> {
    let control = tar(file, "--ctrl-tarfile")?;
    let data = tar(file, "--fsys-tarfile")?;
    let name = file.file_name().unwrap_or_default();
    write(&to.join(name), &archive(&[("debian-binary", VERSION), ("control.tar", &control), ("data.tar", &data)]))?;
    let package = name.to_string_lossy().split('_').next().unwrap_or_default().to_string();
    if wanted.contains(&package) { write(&trees.join(format!("{package}.tar")), &data) } else { Ok(()) }
}

/// One of a package's archives.
fn tar(package: &Path, which: &str) -> Result<Vec<u8>> {
    let what = || format!("cannot unpack {}", package.display());
    let output = Command::new("dpkg-deb").arg(which).arg(package).output().context(what)?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    Err(Error::failed(format!("{}: {}", what(), String::from_utf8_lossy(&output.stderr).trim())))
}

/// An `ar` archive, as dpkg reads it: see ar(5).
fn archive(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    for (name, content) in members {
        // Name, time, owner, group, mode, size, and the end of the header.
        bytes.extend(format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n", 0, 0, 0, "100644", content.len()).bytes());
        bytes.extend(*content);
        if content.len() % 2 == 1 {
            bytes.push(b'\n');
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_begin_at_even_places() {
        let bytes = archive(&[("debian-binary", VERSION), ("control.tar", b"abc"), ("data.tar", b"de")]);
        let text = String::from_utf8(bytes).unwrap();
        let header = |name: &str, size: usize| format!("{name:<16}0           0     0     100644  {size:<10}`\n");
        let expected = format!(
            "!<arch>\n{}2.0\n{}abc\n{}de",
            header("debian-binary", 4),
            header("control.tar", 3),
            header("data.tar", 2)
        );
        assert_eq!(text, expected);
        assert_eq!(header("", 0).len(), 60);
    }
}
