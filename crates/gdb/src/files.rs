//! The one file that a guest has for a debugger: the names of its kernel's functions and variables.
//!
//! A debugger that was not told what it debugs asks the target for the name of its program (`qXfer:exec-file:read`),
//! and reads the file of that name from the target (`vFile`). Ours is [`KERNEL`], an ELF file of symbols. So `target
//! remote` alone gives names. GDB asks once, when it connects; if the names were not known then, `monitor symbols` and
//! `symbol-file target:/kernel` have them later.

use std::sync::Arc;

use gdbstub::common::Pid;
use gdbstub::target::TargetResult;
use gdbstub::target::ext::exec_file::ExecFile;
use gdbstub::target::ext::host_io::{
    HostIo, HostIoClose, HostIoCloseOps, HostIoErrno, HostIoError, HostIoFstat, HostIoFstatOps, HostIoOpen,
    HostIoOpenFlags, HostIoOpenMode, HostIoOpenOps, HostIoPread, HostIoPreadOps, HostIoResult, HostIoStat,
};

use crate::target::Guest;

/// The file's name.
pub const KERNEL: &str = "/kernel";
/// Files that are open at once at most.
const MOST_OPEN: u32 = 16;

/// Files that are open, which all are the same.
#[derive(Default)]
pub(crate) struct Open {
    files: Vec<(u32, Arc<[u8]>)>,
    next: u32,
}

impl Open {
    fn get(&self, fd: u32) -> Option<&Arc<[u8]>> {
        self.files.iter().find(|file| file.0 == fd).map(|file| &file.1)
    }
}

/// Copies what is at `offset`, as far as there is room, and says how much that is.
fn piece(bytes: &[u8], offset: u64, count: usize, buffer: &mut [u8]) -> usize {
    let from = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
    let count = count.min(bytes.len() - from).min(buffer.len());
    buffer[..count].copy_from_slice(&bytes[from..from + count]);
    count
}

impl ExecFile for Guest<'_> {
    fn get_exec_file(
        &self,
        _: Option<Pid>,
        offset: u64,
        length: usize,
        buffer: &mut [u8],
    ) -> TargetResult<usize, Self> {
        Ok(piece(KERNEL.as_bytes(), offset, length, buffer))
    }
}

impl HostIo for Guest<'_> {
    fn support_open(&mut self) -> Option<HostIoOpenOps<'_, Self>> {
        Some(self)
    }

    fn support_close(&mut self) -> Option<HostIoCloseOps<'_, Self>> {
        Some(self)
    }

    fn support_pread(&mut self) -> Option<HostIoPreadOps<'_, Self>> {
        Some(self)
    }

    fn support_fstat(&mut self) -> Option<HostIoFstatOps<'_, Self>> {
        Some(self)
    }
}

impl HostIoOpen for Guest<'_> {
    fn open(&mut self, name: &[u8], flags: HostIoOpenFlags, _: HostIoOpenMode) -> HostIoResult<u32, Self> {
        // GDB looks for more beside it, and for the same with other names.
        let bytes = self.link.symbols().filter(|_| name == KERNEL.as_bytes());
        let bytes = bytes.ok_or(HostIoError::Errno(HostIoErrno::ENOENT))?;
        if flags != HostIoOpenFlags::O_RDONLY {
            return Err(HostIoError::Errno(HostIoErrno::EROFS));
        }
        if self.open.files.len() as u32 == MOST_OPEN {
            return Err(HostIoError::Errno(HostIoErrno::EMFILE));
        }
        let fd = self.open.next;
        self.open.next = fd.wrapping_add(1);
        self.open.files.push((fd, bytes));
        Ok(fd)
    }
}

impl HostIoClose for Guest<'_> {
    fn close(&mut self, fd: u32) -> HostIoResult<(), Self> {
        let at = self.open.files.iter().position(|file| file.0 == fd);
        self.open.files.swap_remove(at.ok_or(HostIoError::Errno(HostIoErrno::EBADF))?);
        Ok(())
    }
}

impl HostIoPread for Guest<'_> {
    fn pread(&mut self, fd: u32, count: usize, offset: u64, buffer: &mut [u8]) -> HostIoResult<usize, Self> {
        let bytes = self.open.get(fd).ok_or(HostIoError::Errno(HostIoErrno::EBADF))?;
        // A byte may become two in a packet, which has a few more.
        let room = buffer.len().saturating_sub(64) / 2;
        Ok(piece(bytes, offset, count.min(room), buffer))
    }
}

impl HostIoFstat for Guest<'_> {
    fn fstat(&mut self, fd: u32) -> HostIoResult<HostIoStat, Self> {
        let bytes = self.open.get(fd).ok_or(HostIoError::Errno(HostIoErrno::EBADF))?;
        Ok(HostIoStat {
            st_dev: 0,
            st_ino: 0,
            st_mode: HostIoOpenMode::S_IFREG | HostIoOpenMode::S_IRUSR,
            st_nlink: 1,
            st_uid: 0,
            st_gid: 0,
            st_rdev: 0,
            st_size: bytes.len() as u64,
            st_blksize: 4096,
            st_blocks: bytes.len().div_ceil(512) as u64,
            st_atime: 0,
            st_mtime: 0,
            st_ctime: 0,
        })
    }
}
