//! Where things are: the sources, and what is made from them.

use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use spica_bundle::MAX_MEMORY;

use crate::error::{Context, Error, Result};
use crate::regular::{self, Most};

/// The longest text that makes sense, in MiB: Debian's package lists have as much.
const TEXT_MIB: u64 = 64;

/// The checked-out project.
#[derive(Clone, Debug)]
pub struct Project {
    root: PathBuf,
}

impl Project {
    /// Finds the project: where `SPICA_ROOT` says, which the bootstrap script sets, or where this program was built.
    ///
    /// # Errors
    /// If there is no project any more.
    pub fn find() -> Result<Self> {
        let root = std::env::var_os("SPICA_ROOT")
            .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."), PathBuf::from);
        let root = root.canonicalize().context(|| format!("cannot find the project at {}", root.display()))?;
        if !root.join("guests").is_dir() {
            return Err(Error::failed(format!("{} is not Spica's project: it has no guests/", root.display())));
        }
        Ok(Self { root })
    }

    /// The root of the sources.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// A file of the sources.
    #[must_use]
    pub fn source(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    /// A path under `build/`, which holds all that this tool makes or fetches.
    #[must_use]
    pub fn build(&self, path: &str) -> PathBuf {
        self.root.join("build").join(path)
    }
}

/// Reads a file: one that is not larger than any guest's memory.
///
/// # Errors
/// As [`regular::read`].
pub fn read(path: &Path) -> Result<Vec<u8>> {
    regular::read(path, &Most::mib(u64::from(MAX_MEMORY) >> 20))
}

/// Reads a text file.
///
/// # Errors
/// As [`regular::read`], or if it is not UTF-8.
pub fn read_text(path: &Path) -> Result<String> {
    let bytes = regular::read(path, &Most::mib(TEXT_MIB))?;
    let text = String::from_utf8(bytes);
    text.map_err(|_| Error::failed(format!("cannot read {}: it is no text; expected UTF-8", path.display())))
}

/// Makes a directory and those above it.
///
/// # Errors
/// With the directory's name.
pub fn create_dir(path: &Path) -> Result<()> {
    fs::create_dir_all(path).context(|| format!("cannot make the directory {}", path.display()))
}

/// Writes a file in one piece: readers see the old one or the whole new one, also after a crash or beside another run.
///
/// # Errors
/// With the file's name.
pub fn write(path: &Path, data: &[u8]) -> Result<()> {
    if let Some(dir) = path.parent() {
        create_dir(dir)?;
    }
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{}.new", std::process::id()));
    let new = path.with_file_name(name);
    fs::write(&new, data).and_then(|()| fs::rename(&new, path)).context(|| format!("cannot write {}", path.display()))
}

/// Removes a directory with all that is in it, if it is there.
///
/// # Errors
/// With the directory's name.
pub fn remove_dir(path: &Path) -> Result<()> {
    match fs::remove_dir_all(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::failed(format!("cannot remove {}: {e}", path.display())))
        }
        _ => Ok(()),
    }
}

/// The SHA-256 of all `parts`, each with its length, as 64 hexadecimal digits.
#[must_use]
pub fn fingerprint(parts: &[&[u8]]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hash.finalize().iter().map(|b| format!("{b:02x}")).collect()
}
