//! Unix sockets in directories with long names.
//!
//! The address of such a socket has room for 107 bytes, which a path can exceed. The directory, opened, has a short
//! name.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// The socket's name in the directory of a run.
pub const NAME: &str = "control";

/// Opens the directory; its short name is good while the file is open.
fn short(directory: &Path) -> io::Result<(File, PathBuf)> {
    let file = File::open(directory)?;
    let path = PathBuf::from(format!("/proc/self/fd/{}/{NAME}", file.as_raw_fd()));
    Ok((file, path))
}

/// Makes the socket in `directory` and listens.
pub fn listen(directory: &Path) -> io::Result<UnixListener> {
    let (_open, path) = short(directory)?;
    UnixListener::bind(path)
}

/// Connects to the socket in `directory`.
pub fn connect(directory: &Path) -> io::Result<UnixStream> {
    let (_open, path) = short(directory)?;
    UnixStream::connect(path)
}
