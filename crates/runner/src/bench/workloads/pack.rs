//! Takes files out of unpacked packages, with the shared libraries behind them.
//!
//! An initial RAM disk costs emulated time and the guest's memory for each of its bytes, so it gets those libraries
//! that programs name, and those that these name, and nothing else. `ldd` would tell by running the program; here, the
//! names are read from the files: an ELF file has them as `DT_NEEDED`, and its loader's path as `PT_INTERP`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read;
use std::path::{Component, Path, PathBuf};

use object::Endianness;
use object::elf::{DT_NEEDED, FileHeader32};
use object::read::elf::{FileHeader, ProgramHeader};

use super::Program;
use crate::error::{Context, Error, Result};
use crate::project::read;

/// Where Debian has libraries, in packages; and the first of them in the guest, too. The last is for what only Ceph's
/// own libraries look for, by a path of theirs.
const LIBRARIES: [&str; 3] =
    ["lib/arm-linux-gnueabihf", "usr/lib/arm-linux-gnueabihf", "usr/lib/arm-linux-gnueabihf/ceph"];

/// How long a chain of symbolic links may be.
const LINKS: u32 = 16;

/// Files for a guest.
#[derive(Debug)]
pub struct Files {
    root: PathBuf,
    files: BTreeMap<String, (u32, Vec<u8>)>,
    libraries: BTreeSet<String>,
}

impl Files {
    /// None yet; packages are unpacked in `root`.
    #[must_use]
    pub fn new(root: &Path) -> Self {
        Self { root: root.to_path_buf(), files: BTreeMap::new(), libraries: BTreeSet::new() }
    }

    /// Adds a file of these bytes.
    pub fn put(&mut self, path: &str, permissions: u32, data: Vec<u8>) {
        self.files.insert(path.to_string(), (permissions, data));
    }

    /// Adds a file that `make` makes, unless it is there.
    pub fn make(&mut self, path: &str, make: impl FnOnce() -> Vec<u8>) {
        self.files.entry(path.to_string()).or_insert_with(|| (0o644, make()));
    }

    /// Adds a file of a package, and if it is a program, what it needs to run.
    ///
    /// # Errors
    /// If the packages do not have it, or not the libraries.
    pub fn add(&mut self, program: &Program) -> Result<()> {
        if self.files.contains_key(program.to) {
            return Ok(());
        }
        let path = self.find(program.from)?;
        let mut data = read(&path)?;
        if program.from.ends_with(".gz") && !program.to.ends_with(".gz") {
            let mut plain = Vec::new();
            let result = flate2::read::GzDecoder::new(&data[..]).read_to_end(&mut plain);
            result.context(|| format!("cannot decompress {}", path.display()))?;
            data = plain;
        }
        self.add_needs(&path, &data)?;
        self.put(program.to, 0o755, data);
        Ok(())
    }

    /// All files: paths, permissions and bytes, in the order of the paths.
    pub fn finish(self) -> impl Iterator<Item = (String, u32, Vec<u8>)> {
        self.files.into_iter().map(|(path, (permissions, data))| (path, permissions, data))
    }

    /// Adds the loader and the libraries that a file names, if it is an ELF file.
    fn add_needs(&mut self, path: &Path, data: &[u8]) -> Result<()> {
        if !data.starts_with(b"\x7fELF") {
            return Ok(());
        }
        let needs = needs(data).map_err(|e| Error::failed(format!("{}: {e}", path.display())))?;
        if let Some(loader) = needs.loader {
            let loader = loader.trim_start_matches('/').to_string();
            if !self.files.contains_key(&loader) {
                let data = read(&self.find(&loader)?)?;
                self.put(&loader, 0o755, data);
            }
        }
        for name in needs.libraries {
            if !self.libraries.insert(name.clone()) {
                continue;
            }
            let found = LIBRARIES.iter().find_map(|dir| resolve(&self.root, &format!("{dir}/{name}")));
            // The loader is a library, too, in a place of its own.
            let found = found.or_else(|| resolve(&self.root, &format!("lib/{name}")));
            let found = found.ok_or_else(|| {
                let wanted = path.strip_prefix(&self.root).unwrap_or(path).display();
                Error::failed(format!("{wanted} needs the library {name}, which no package has that it depends on"))
            })?;
            let data = read(&found)?;
            self.add_needs(&found, &data)?;
            self.put(&format!("{}/{name}", LIBRARIES[0]), 0o644, data);
        }
        Ok(())
    }

    /// Finds a file by its path in packages, in which one part may be `*`.
    fn find(&self, path: &str) -> Result<PathBuf> {
        let path = match path.split_once("*/") {
            None => path.to_string(),
            Some((before, after)) => {
                let dir = self.root.join(before);
                let entries = fs::read_dir(&dir).context(|| format!("cannot list {}", dir.display()))?;
                let mut names: Vec<_> = entries.flatten().filter_map(|e| e.file_name().into_string().ok()).collect();
                names.sort();
                let mut paths = names.iter().map(|n| format!("{before}{n}/{after}"));
                let found = paths.find(|p| resolve(&self.root, p).is_some());
                found.unwrap_or_else(|| path.to_string())
            }
        };
        resolve(&self.root, &path).ok_or_else(|| Error::failed(format!("the packages of workloads have no {path}")))
    }
}

/// What an ELF file needs to run.
#[derive(Debug, Default, PartialEq, Eq)]
struct Needs {
    loader: Option<String>,
    libraries: Vec<String>,
}

fn needs(file: &[u8]) -> object::Result<Needs> {
    let header = FileHeader32::<Endianness>::parse(file)?;
    let endian = header.endian()?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut needs = Needs::default();
    for segment in header.program_headers(endian, file)? {
        if let Some(loader) = segment.interpreter(endian, file)? {
            needs.loader = Some(text(loader));
        }
    }
    let dynamic = header.sections(endian, file)?.dynamic_table(endian, file)?;
    for entry in dynamic.iter().filter(|e| e.tag == DT_NEEDED) {
        needs.libraries.push(text(dynamic.string(entry)?));
    }
    Ok(needs)
}

/// The file that a path in an unpacked tree leads to, symbolic links followed within the tree.
fn resolve(root: &Path, path: &str) -> Option<PathBuf> {
    let mut left: Vec<String> = parts(Path::new(path));
    left.reverse();
    let (mut at, mut links) = (PathBuf::new(), 0);
    while let Some(part) = left.pop() {
        if part == ".." {
            at.pop();
            continue;
        }
        let next = at.join(&part);
        let full = root.join(&next);
        match fs::symlink_metadata(&full) {
            Ok(m) if m.file_type().is_symlink() => {
                links += 1;
                if links > LINKS {
                    return None;
                }
                let target = fs::read_link(&full).ok()?;
                if target.is_absolute() {
                    at = PathBuf::new();
                }
                left.extend(parts(&target).into_iter().rev());
            }
            Ok(_) => at = next,
            Err(_) => return None,
        }
    }
    let full = root.join(at);
    full.is_file().then_some(full)
}

fn parts(path: &Path) -> Vec<String> {
    let part = |c: Component<'_>| match c {
        Component::Normal(name) => Some(name.to_string_lossy().into_owned()),
        Component::ParentDir => Some("..".to_string()),
        _ => None,
    };
    path.components().filter_map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// A directory that goes away with the test.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let dir = std::env::temp_dir().join(format!("spica-pack-{name}-{}", std::process::id()));
            fs::create_dir_all(&dir).unwrap();
            Self(dir)
        }

        fn put(&self, path: &str, data: &[u8]) {
            let file = self.0.join(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, data).unwrap();
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    /// An ELF file with a loader and these libraries.
    fn elf(loader: &str, libraries: &[&str]) -> Vec<u8> {
        let mut strings = b"\0".to_vec();
        let mut dynamic = Vec::new();
        let word = |out: &mut Vec<u8>, words: &[u32]| words.iter().for_each(|w| out.extend(w.to_le_bytes()));
        for library in libraries {
            word(&mut dynamic, &[1, strings.len() as u32]);
            strings.extend(library.bytes());
            strings.push(0);
        }
        word(&mut dynamic, &[0, 0]);
        let (header, segment, section) = (52, 32, 40);
        let dynamic_at = header + segment;
        let strings_at = dynamic_at + dynamic.len();
        let loader_at = strings_at + strings.len();
        let sections_at = (loader_at + loader.len() + 1).next_multiple_of(4);
        let mut out = b"\x7fELF\x01\x01\x01\0\0\0\0\0\0\0\0\0\x03\0\x28\0".to_vec();
        word(&mut out, &[1, 0, header as u32, sections_at as u32, 0]);
        for half in [header, segment, 1, section, 3, 2] {
            out.extend((half as u16).to_le_bytes());
        }
        let length = loader.len() as u32 + 1;
        word(&mut out, &[3, loader_at as u32, 0, 0, length, length, 4, 1]);
        out.extend(&dynamic);
        out.extend(&strings);
        out.extend(loader.bytes());
        out.resize(sections_at, 0);
        word(&mut out, &[0; 10]);
        word(&mut out, &[0, 6, 0, 0, dynamic_at as u32, dynamic.len() as u32, 2, 0, 4, 8]);
        word(&mut out, &[0, 3, 0, 0, strings_at as u32, strings.len() as u32, 0, 0, 1, 0]);
        out
    }

    #[test]
    fn programs_come_with_loader_and_libraries() {
        let tree = Scratch::new("closure");
        tree.put("usr/lib/x/bin/arch/lat", &elf("/lib/ld.so.3", &["libc.so.6", "liba.so.1"]));
        tree.put("lib/arm-linux-gnueabihf/ld.so.3", b"loader");
        symlink("arm-linux-gnueabihf/ld.so.3", tree.0.join("lib/ld.so.3")).unwrap();
        tree.put("lib/arm-linux-gnueabihf/libc.so.6", &elf("/lib/ld.so.3", &[]));
        tree.put("usr/lib/arm-linux-gnueabihf/liba.so.1.2", &elf("/lib/ld.so.3", &["libc.so.6", "libb.so.2"]));
        symlink("liba.so.1.2", tree.0.join("usr/lib/arm-linux-gnueabihf/liba.so.1")).unwrap();
        tree.put("usr/lib/arm-linux-gnueabihf/libb.so.2", &elf("/lib/ld.so.3", &["liba.so.1"]));
        tree.put("usr/lib/arm-linux-gnueabihf/libunused.so.2", b"");
        let mut files = Files::new(&tree.0);
        files.add(&Program { from: "usr/lib/x/bin/*/lat", to: "bench/lat" }).unwrap();
        let paths: Vec<_> = files.finish().map(|(path, _, _)| path).collect();
        let in_lib = |n: &str| format!("lib/arm-linux-gnueabihf/{n}");
        let expected = ["bench/lat".into(), in_lib("liba.so.1"), in_lib("libb.so.2"), in_lib("libc.so.6")];
        assert_eq!(paths[..4], expected);
        assert_eq!(paths[4..], ["lib/ld.so.3"]);
    }

    #[test]
    fn a_missing_library_is_named() {
        let tree = Scratch::new("missing");
        tree.put("bin/x", &elf("/lib/ld.so.3", &["libz.so.1"]));
        tree.put("lib/ld.so.3", b"loader");
        let mut files = Files::new(&tree.0);
        let error = files.add(&Program { from: "bin/x", to: "bin/x" }).unwrap_err().message;
        assert!(error.contains("bin/x") && error.contains("libz.so.1"), "{error}");
        let error = files.add(&Program { from: "bin/y", to: "bin/y" }).unwrap_err().message;
        assert!(error.contains("bin/y"), "{error}");
    }

    #[test]
    fn links_stay_in_the_tree() {
        let tree = Scratch::new("links");
        tree.put("usr/bin/real", b"");
        symlink("/usr/bin/real", tree.0.join("usr/bin/absolute")).unwrap();
        symlink("../../../../../usr/bin/real", tree.0.join("usr/bin/up")).unwrap();
        symlink("loop", tree.0.join("usr/bin/loop")).unwrap();
        symlink("/etc/passwd", tree.0.join("usr/bin/outside")).unwrap();
        let real = Some(tree.0.join("usr/bin/real"));
        assert_eq!(resolve(&tree.0, "usr/bin/absolute"), real);
        assert_eq!(resolve(&tree.0, "usr/bin/up"), real);
        assert_eq!(resolve(&tree.0, "usr/bin/loop"), None);
        assert_eq!(resolve(&tree.0, "usr/bin/outside"), None);
        assert_eq!(resolve(&tree.0, "usr/bin"), None);
    }

    #[test]
    fn what_is_compressed_is_decompressed() {
        let tree = Scratch::new("gzip");
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut gzip, b"words").unwrap();
        tree.put("usr/share/words.gz", &gzip.finish().unwrap());
        let mut files = Files::new(&tree.0);
        files.add(&Program { from: "usr/share/words.gz", to: "bench/words" }).unwrap();
        let data: Vec<_> = files.finish().map(|(_, _, data)| data).collect();
        assert_eq!(data, [b"words"]);
    }
}
