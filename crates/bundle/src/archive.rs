//! The archive format: cpio "newc", read and written in memory.
//!
//! It is the format of Linux's initramfs, so every build system can make one (`cpio -o -H newc`), and the same writer
//! serves for the bundle and for a guest's root file system. An entry is a header of six magic and 104 hexadecimal
//! characters, a name with a terminating NUL, and the data; name and data are padded to multiples of four bytes. The
//! entry named [`TRAILER`] ends the archive. (`Documentation/driver-api/early-userspace/buffer-format.rst` in Linux.)
//!
//! The reader is ours, small as it is, because the ones that exist for `no_std` end quietly at the first thing that
//! they do not understand; a bundle that was cut short by a download or by a boot loader's size limit must say so.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

/// The name of the entry that ends an archive.
pub const TRAILER: &str = "TRAILER!!!";

const MAGIC: &[u8; 6] = b"070701";
const HEADER: usize = 110;
const S_IFMT: u32 = 0o170_000;
const S_IFREG: u32 = 0o100_000;
const S_IFDIR: u32 = 0o040_000;
const S_IFLNK: u32 = 0o120_000;
const S_IFCHR: u32 = 0o020_000;

/// One entry of an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Its path, without leading `./` or `/`.
    pub name: &'a str,
    /// File type and permissions, as in `stat`'s `st_mode`.
    pub mode: u32,
    /// The file's bytes, or a symbolic link's target.
    pub data: &'a [u8],
}

impl Entry<'_> {
    /// Whether it is a regular file.
    #[must_use]
    pub const fn is_file(&self) -> bool {
        self.mode & S_IFMT == S_IFREG
    }
}

/// What is wrong with an archive. Offsets count bytes from the archive's start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArchiveError {
    /// There are no bytes at all.
    Empty,
    /// The bytes at `offset` are not the header of a newc entry.
    BadMagic {
        /// Where the header was expected.
        offset: usize,
    },
    /// The header at `offset` has something else than eight hexadecimal digits in a field.
    BadNumber {
        /// Where the header is.
        offset: usize,
        /// The field's name in the format's description.
        field: &'static str,
    },
    /// The entry at `offset` has a name that is empty, not UTF-8, or not terminated by NUL.
    BadName {
        /// Where the header is.
        offset: usize,
    },
    /// The archive ends inside an entry.
    Truncated {
        /// The entry's name, where that much is there.
        name: Option<String>,
        /// Where this part of the entry would end.
        needed: u64,
        /// The archive's length.
        have: usize,
    },
    /// The archive ends after a whole entry, but without the entry `TRAILER!!!`.
    NoTrailer {
        /// The archive's length.
        have: usize,
    },
}

impl fmt::Display for ArchiveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(f, "the archive is empty; expected a cpio archive in newc format"),
            Self::BadMagic { offset: 0 } => {
                write!(f, "not a cpio archive in newc format: it does not begin with 070701")
            }
            Self::BadMagic { offset } => {
                write!(f, "the archive is corrupt: no entry header (070701) at offset {offset:#x}")
            }
            Self::BadNumber { offset, field } => {
                write!(
                    f,
                    "the archive is corrupt: field {field} of the header at offset {offset:#x} is not hexadecimal"
                )
            }
            Self::BadName { offset } => {
                write!(f, "the archive is corrupt: the entry at offset {offset:#x} has no proper name")
            }
            Self::Truncated { name: Some(name), needed, have } => {
                write!(f, "the archive is cut short in {name}: it has {have} bytes, but needs at least {needed}")
            }
            Self::Truncated { name: None, needed, have } => {
                write!(f, "the archive is cut short in a header: it has {have} bytes, but needs at least {needed}")
            }
            Self::NoTrailer { have } => {
                write!(f, "the archive is cut short: after {have} bytes its last entry, {TRAILER}, is missing")
            }
        }
    }
}

impl core::error::Error for ArchiveError {}

/// The entries of an archive up to its trailer, or up to the first error, which ends the iteration.
#[must_use]
pub const fn entries(bytes: &[u8]) -> Entries<'_> {
    Entries { bytes, offset: 0, done: false }
}

/// The iterator that [`entries`] makes.
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    bytes: &'a [u8],
    offset: usize,
    done: bool,
}

const fn pad4(n: u64) -> u64 {
    n.next_multiple_of(4)
}

impl<'a> Entries<'a> {
    /// Reads the entry at `self.offset`; `None` is the trailer.
    fn read(&mut self) -> Result<Option<Entry<'a>>, ArchiveError> {
        let (bytes, offset) = (self.bytes, self.offset);
        let have = bytes.len();
        let rest = bytes.get(offset..).unwrap_or_default();
        if rest.is_empty() {
            return Err(if offset == 0 { ArchiveError::Empty } else { ArchiveError::NoTrailer { have } });
        }
        if !rest.starts_with(&MAGIC[..rest.len().min(MAGIC.len())]) {
            return Err(ArchiveError::BadMagic { offset });
        }
        // Ends are computed in 64 bits: a size of 0xffff_ffff must not wrap on a 32-bit board.
        let base = offset as u64;
        let slice = |from: u64, to: u64, name: Option<&str>| {
            let range = usize::try_from(from).ok().zip(usize::try_from(to).ok());
            range.and_then(|(from, to)| bytes.get(from..to)).ok_or_else(|| ArchiveError::Truncated {
                name: name.map(ToString::to_string),
                needed: to,
                have,
            })
        };
        let header = slice(base, base + HEADER as u64, None)?;
        let number = |index: usize, field: &'static str| {
            let digits = &header[6 + 8 * index..14 + 8 * index];
            let mut value = 0u32;
            for &digit in digits {
                let digit = (digit as char).to_digit(16).ok_or(ArchiveError::BadNumber { offset, field })?;
                value = value << 4 | digit;
            }
            Ok(value)
        };
        let mode = number(1, "c_mode")?;
        let size = u64::from(number(6, "c_filesize")?);
        let name_size = u64::from(number(11, "c_namesize")?);

        let name_at = base + HEADER as u64;
        let name = slice(name_at, name_at + name_size, None)?;
        let name = name.strip_suffix(b"\0").and_then(|n| core::str::from_utf8(n).ok());
        let name = name.filter(|n| !n.is_empty() && !n.contains('\0')).ok_or(ArchiveError::BadName { offset })?;
        if name == TRAILER {
            return Ok(None);
        }
        // Every entry starts at a multiple of four, so aligning the offset aligns the place in the entry.
        let data_at = pad4(name_at + name_size);
        let data = slice(data_at, data_at + size, Some(name))?;
        // The padding of the last entry may be missing; then the trailer is missing, too, and the next read says so.
        self.offset = usize::try_from(pad4(data_at + size)).unwrap_or(have).min(have);
        let name = name.trim_start_matches("./").trim_start_matches('/');
        Ok(Some(Entry { name, mode, data }))
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<Entry<'a>, ArchiveError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let entry = self.read().transpose();
        self.done = !matches!(entry, Some(Ok(_)));
        entry
    }
}

/// Writes an archive. Equal calls give equal bytes: times, owners and inode numbers do not come from the machine.
#[derive(Clone, Debug, Default)]
pub struct Writer {
    out: Vec<u8>,
    inode: u32,
}

impl Writer {
    /// An archive without entries.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a regular file. `permissions` are the low twelve bits of its mode.
    ///
    /// # Panics
    /// If `data` is 4 GiB or more: the format has no room for its size.
    pub fn file(&mut self, name: &str, permissions: u32, data: &[u8]) {
        self.entry(name, S_IFREG | permissions & 0o7777, (0, 0), data);
    }

    /// Adds a directory.
    pub fn dir(&mut self, name: &str, permissions: u32) {
        self.entry(name, S_IFDIR | permissions & 0o7777, (0, 0), &[]);
    }

    /// Adds a symbolic link that points to `target`.
    pub fn symlink(&mut self, name: &str, target: &str) {
        self.entry(name, S_IFLNK | 0o777, (0, 0), target.as_bytes());
    }

    /// Adds a character device of this major and minor number.
    pub fn char_device(&mut self, name: &str, permissions: u32, device: (u32, u32)) {
        self.entry(name, S_IFCHR | permissions & 0o7777, device, &[]);
    }

    /// Ends the archive and gives its bytes; their number is a multiple of four, so that archives can be concatenated.
    #[must_use]
    pub fn finish(mut self) -> Vec<u8> {
        self.inode = 0;
        self.entry(TRAILER, 0, (0, 0), &[]);
        self.out
    }

    fn entry(&mut self, name: &str, mode: u32, device: (u32, u32), data: &[u8]) {
        let size = u32::try_from(data.len()).expect("a cpio entry holds less than 4 GiB");
        let name_size = u32::try_from(name.len() + 1).expect("a name is short");
        let links = if mode & S_IFMT == S_IFDIR { 2 } else { 1 };
        self.out.extend_from_slice(MAGIC);
        let fields = [self.inode, mode, 0, 0, links, 0, size, 0, 0, device.0, device.1, name_size, 0];
        for field in fields {
            for shift in (0..8).rev() {
                let digit = field >> (4 * shift) & 0xf;
                self.out.push(b"0123456789abcdef"[digit as usize]);
            }
        }
        self.out.extend_from_slice(name.as_bytes());
        self.out.push(0);
        self.pad();
        self.out.extend_from_slice(data);
        self.pad();
        self.inode += 1;
    }

    fn pad(&mut self) {
        self.out.resize(self.out.len().next_multiple_of(4), 0);
    }
}
