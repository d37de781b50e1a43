//! Files that are read whole: regular ones, of a size that makes sense.
//!
//! Whoever runs the command may name anything as a file. A device may never end, a FIFO waits for somebody to write to
//! it, and a sparse file may have more bytes than this machine has memory. So nothing is read before it is known what
//! it is.

use std::fmt;
use std::fs::{File, Metadata, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

use crate::error::{Context, Error, Result};

const MIB: u64 = 1 << 20;

/// How large a file may be, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Most {
    /// Bytes.
    pub bytes: u64,
    /// What they are, such as "the memory of cubieboard"; empty if that says nothing.
    pub what: String,
}

impl Most {
    /// As much as the memory of a board, which has so many MiB.
    #[must_use]
    pub fn memory(board: &str, mib: u32) -> Self {
        Self { bytes: u64::from(mib) * MIB, what: format!("the memory of {board}") }
    }

    /// So many MiB.
    #[must_use]
    pub const fn mib(mib: u64) -> Self {
        Self { bytes: mib * MIB, what: String::new() }
    }

    /// As large as it likes: for a file that is not read whole.
    #[must_use]
    pub const fn any() -> Self {
        Self { bytes: u64::MAX, what: String::new() }
    }
}

impl fmt::Display for Most {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.what.as_str() {
            "" => write!(f, "at most {}M", self.bytes / MIB),
            what => write!(f, "at most {}M, {what}", self.bytes / MIB),
        }
    }
}

/// The bytes of a file.
///
/// # Errors
/// If it is not there, not a regular file, or larger than `most`.
pub fn size(path: &Path, most: &Most) -> Result<u64> {
    check(path, &path.metadata().context(|| trouble(path))?, most)
}

/// Reads a file whole.
///
/// # Errors
/// As [`size`], or if it cannot be read.
pub fn read(path: &Path, most: &Most) -> Result<Vec<u8>> {
    // Before it is opened: that alone does something to some devices.
    size(path, most)?;
    // Another file may have the name by now. Opened so, none makes us wait.
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).context(|| trouble(path))?;
    let size = check(path, &file.metadata().context(|| trouble(path))?, most)?;
    let mut bytes = Vec::new();
    let reserved = bytes.try_reserve_exact(size as usize);
    reserved
        .map_err(|_| Error::failed(format!("{}: {}M do not fit this machine", trouble(path), size.div_ceil(MIB))))?;
    // The size is that of a moment ago, and files of the kernel have none.
    File::take(file, most.bytes.saturating_add(1)).read_to_end(&mut bytes).context(|| trouble(path))?;
    fits(path, bytes.len() as u64, most)?;
    Ok(bytes)
}

fn check(path: &Path, file: &Metadata, most: &Most) -> Result<u64> {
    let kind = file.file_type();
    let what = match () {
        () if kind.is_file() => return fits(path, file.len(), most),
        () if kind.is_dir() => "directory",
        () if kind.is_fifo() => "pipe",
        () if kind.is_socket() => "socket",
        () => "device",
    };
    Err(Error::failed(format!("{}: it is a {what}; expected {}", trouble(path), expected(most))))
}

fn fits(path: &Path, bytes: u64, most: &Most) -> Result<u64> {
    if bytes <= most.bytes {
        return Ok(bytes);
    }
    Err(Error::failed(format!("{}: it has {}M; expected {}", trouble(path), bytes.div_ceil(MIB), expected(most))))
}

fn expected(most: &Most) -> String {
    if most.bytes == u64::MAX { "a regular file".to_string() } else { format!("a regular file of {most}") }
}

fn trouble(path: &Path) -> String {
    format!("cannot read {}", path.display())
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;
    use std::path::PathBuf;
    use std::sync::mpsc::channel;
    use std::thread;
    use std::time::Duration;

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    /// What reading says: at once, or the test fails.
    fn reading(path: &Path) -> String {
        let (sender, receiver) = channel();
        let path = path.to_path_buf();
        thread::spawn(move || sender.send(read(&path, &Most::memory("a board", 3))));
        match receiver.recv_timeout(Duration::from_secs(20)).expect("an answer at once") {
            Ok(bytes) => format!("{} bytes", bytes.len()),
            Err(error) => error.message,
        }
    }

    fn directory(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("spica-regular-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
        dir
    }

    #[test]
    fn what_is_no_regular_file_is_refused_at_once() {
        let dir = directory("kinds");
        mknodat(CWD, dir.join("fifo"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let _socket = UnixListener::bind(dir.join("socket")).unwrap();
        std::os::unix::fs::symlink("/dev/zero", dir.join("link")).unwrap();
        let kinds = [(".", "directory"), ("fifo", "pipe"), ("socket", "socket"), ("link", "device")];
        for (name, kind) in kinds {
            let path = dir.join(name);
            let expected = format!(
                "cannot read {}: it is a {kind}; expected a regular file of at most 3M, the memory of a board",
                path.display()
            );
            assert_eq!(reading(&path), expected);
        }
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn sizes_are_limited() {
        let dir = directory("sizes");
        let path = dir.join("file");
        let file = File::create(&path).unwrap();
        for (bytes, expected) in [
            (0, "0 bytes".to_string()),
            (3 << 20, "3145728 bytes".to_string()),
            (
                (3 << 20) + 1,
                format!(
                    "cannot read {}: it has 4M; expected a regular file of at most 3M, the memory of a board",
                    path.display()
                ),
            ),
            (
                8 << 30,
                format!(
                    "cannot read {}: it has 8192M; expected a regular file of at most 3M, the memory of a board",
                    path.display()
                ),
            ),
        ] {
            file.set_len(bytes).unwrap();
            assert_eq!(reading(&path), expected);
        }
        std::fs::remove_dir_all(dir).unwrap();
        assert!(reading(&path).ends_with(": No such file or directory (os error 2)"));
        // It has no size.
        assert_ne!(reading(Path::new("/proc/self/status")), "0 bytes");
    }
}
