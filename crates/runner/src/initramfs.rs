//! The guest's initial RAM disk: busybox, a few modules, and our `init`.
//!
//! Equal inputs give equal bytes, so that a boot that is measured twice decompresses and unpacks the same. What differs
//! from run to run (a command to be executed, test programs) comes in a second archive behind it, see [`Overlay`]: the
//! kernel unpacks all archives that it finds, one over the other.

use std::io::Write;

use flate2::{Compression, GzBuilder};
use spica_bundle::archive::Writer;

use crate::error::{Error, Result};
use crate::modules::{Module, aliases, dependencies};

/// Changes whenever [`make`] puts other things into an archive, so that old ones are not taken for current.
pub const FORMAT: &str = "2";

/// Makes the initial RAM disk.
///
/// # Errors
/// If `busybox` is not one: the names of its applets are taken from it.
pub fn make(busybox: &[u8], version: &str, modules: &[Module], init: &[u8], profile: &[u8]) -> Result<Vec<u8>> {
    let mut out = Writer::new();
    for dir in ["bin", "dev", "etc", "lib", "proc", "root", "run", "sys", "tmp"] {
        out.dir(dir, 0o755);
    }
    // The kernel opens it for the first process, before anything is mounted.
    out.char_device("dev/console", 0o600, (5, 1));
    out.file("init", 0o755, init);
    out.file("etc/passwd", 0o644, b"root::0:0:root:/root:/bin/sh\n");
    out.file("etc/group", 0o644, b"root:x:0:\n");
    out.file("etc/profile", 0o644, profile);

    out.file("bin/busybox", 0o755, busybox);
    for applet in applets(busybox)?.iter().filter(|a| *a != "busybox") {
        out.symlink(&format!("bin/{applet}"), "busybox");
    }
    out.symlink("sbin", "bin");

    let base = format!("lib/modules/{version}");
    let mut dirs = Vec::new();
    for module in modules {
        let path = format!("{base}/{}", module.path);
        for (end, _) in path.match_indices('/') {
            let dir = &path[..end];
            if dir != "lib" && !dirs.iter().any(|d| d == dir) {
                out.dir(dir, 0o755);
                dirs.push(dir.to_string());
            }
        }
        out.file(&path, 0o644, &module.data);
    }
    out.file(&format!("{base}/modules.dep"), 0o644, dependencies(modules).as_bytes());
    out.file(&format!("{base}/modules.alias"), 0o644, aliases(modules).as_bytes());

    let mut gzip = GzBuilder::new().mtime(0).write(Vec::new(), Compression::default());
    let compressed = gzip.write_all(&out.finish()).and_then(|()| gzip.finish());
    compressed.map_err(|e| Error::failed(format!("cannot compress the initial RAM disk: {e}")))
}

/// The applets of a busybox: it has their names as a sorted list, each with a NUL, that begins with `[` and `[[`.
fn applets(busybox: &[u8]) -> Result<Vec<String>> {
    let start = busybox.windows(5).position(|w| w == b"[\0[[\0");
    let start = start.ok_or_else(|| Error::failed("the guest's busybox has no list of its applets"))?;
    let names = busybox[start..].split(|&b| b == 0).take_while(|n| !n.is_empty());
    let legal = |b: &u8| b.is_ascii_alphanumeric() || b"[-_.".contains(b);
    Ok(names.take_while(|n| n.iter().all(legal)).map(|n| String::from_utf8_lossy(n).into_owned()).collect())
}

/// Files to be laid over the initial RAM disk of one run.
#[derive(Clone, Debug, Default)]
pub struct Overlay {
    files: Vec<(String, u32, Vec<u8>)>,
}

impl Overlay {
    /// No files.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a file by its path without a leading `/`. Its directories are made, too.
    pub fn file(&mut self, path: &str, permissions: u32, data: &[u8]) -> &mut Self {
        self.files.push((path.to_string(), permissions, data.to_vec()));
        self
    }

    /// Appends the files to an initial RAM disk.
    pub fn append_to(&self, initrd: &mut Vec<u8>) {
        if self.files.is_empty() {
            return;
        }
        let mut out = Writer::new();
        for (path, permissions, data) in &self.files {
            for (end, _) in path.match_indices('/') {
                out.dir(&path[..end], 0o755);
            }
            out.file(path, *permissions, data);
        }
        // The kernel skips zeros between archives, and wants an uncompressed one at a multiple of four.
        initrd.resize(initrd.len().next_multiple_of(4), 0);
        initrd.extend_from_slice(&out.finish());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spica_bundle::archive::entries;

    const BUSYBOX: &[u8] = b"\x7fELF..x\0[\0[[\0ash\0mkfs.x\0\0more\0";

    #[test]
    fn applets_are_found() {
        assert_eq!(applets(BUSYBOX).unwrap(), ["[", "[[", "ash", "mkfs.x"]);
        assert!(applets(b"no busybox").is_err());
    }

    #[test]
    fn the_archive_is_deterministic_and_whole() {
        let module = |path: &str, needs: &[usize]| Module {
            path: path.into(),
            data: vec![1],
            needs: needs.into(),
            aliases: vec!["virtio:*".into()],
        };
        let modules = [module("kernel/a/x.ko", &[]), module("kernel/a/y.ko", &[0])];
        let make = || make(BUSYBOX, "6.1", &modules, b"init", b"profile").unwrap();
        assert_eq!(make(), make());
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&make()[..]), &mut bytes).unwrap();
        let names: Vec<_> = entries(&bytes).map(|e| e.unwrap().name).collect();
        let directory = |n: &str| names.iter().position(|x| *x == n);
        assert!(directory("lib/modules/6.1/kernel/a") < directory("lib/modules/6.1/kernel/a/x.ko"));
        assert_eq!(names.iter().filter(|n| **n == "lib/modules/6.1/kernel").count(), 1);
        assert!(names.contains(&"bin/ash") && names.contains(&"lib/modules/6.1/modules.dep"));
        assert!(names.contains(&"lib/modules/6.1/modules.alias"));
    }

    #[test]
    fn an_overlay_begins_at_a_multiple_of_four() {
        let mut initrd = vec![1, 2, 3, 4, 5];
        Overlay::new().append_to(&mut initrd);
        assert_eq!(initrd.len(), 5);
        Overlay::new().file("spica/bin/x", 0o755, b"data").append_to(&mut initrd);
        let names: Vec<_> = entries(&initrd[8..]).map(|e| e.unwrap().name).collect();
        assert_eq!(names, ["spica", "spica/bin", "spica/bin/x"]);
    }
}
