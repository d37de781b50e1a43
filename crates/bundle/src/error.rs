//! What can be wrong with a bundle, in words that say what would be right.

use alloc::string::String;
use core::fmt;

use crate::archive::ArchiveError;
use crate::{DtbError, FLASH_BANK, FirmwareError, ImageError, MANIFEST, Mac, SECTOR};

/// Why a bundle cannot be booted. Lines count from 1 in the manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are what the variants' texts name")]
pub enum BundleError {
    /// The archive itself is damaged.
    Archive(ArchiveError),
    /// The archive holds two files of this name.
    DuplicateFile(String),
    /// The archive has no manifest.
    NoManifest,
    /// The manifest is not text.
    ManifestNotUtf8 { line: usize },
    /// The manifest is not TOML.
    Syntax { line: usize, message: String },
    /// A key that means nothing here.
    UnknownKey { line: usize, key: String, place: &'static str, known: &'static [&'static str] },
    /// A key that must be there and is not.
    MissingKey { line: usize, key: &'static str, place: &'static str },
    /// A value of the wrong type or out of its range.
    BadValue { line: usize, key: &'static str, expected: String },
    /// There is no guest to run.
    NoGuest,
    /// A disk without contents.
    NoDiskSource { line: usize },
    /// A second guest of the same name; the first begins on line `first`.
    DuplicateName { line: usize, first: usize, name: String },
    /// The archive does not hold a file that a guest names.
    MissingFile { guest: String, line: usize, key: &'static str, file: String },
    /// A guest's kernel is not one.
    Kernel { guest: String, line: usize, file: String, error: ImageError },
    /// A file for flash that is empty, or larger than a bank.
    FlashSize { guest: String, line: usize, file: String, size: usize },
    /// The first file for flash begins with nothing that the processor can start with.
    Firmware { guest: String, line: usize, file: String, error: FirmwareError },
    /// A guest's device tree is none.
    Dtb { guest: String, line: usize, file: String, error: DtbError },
    /// A disk that does not consist of whole sectors.
    DiskSize { guest: String, line: usize, file: String, size: usize },
    /// A second card of the same address; the first is one of guest `first`.
    DuplicateMac { line: usize, mac: Mac, first: String },
    /// A disk of the board that guest `first` has, too, and that one of them may change.
    SharedHostDisk { line: usize, first: String },
    /// The files are larger than the guest's memory.
    DoesNotFit { guest: String, line: usize, needed: u64, memory: u32 },
}

impl BundleError {
    /// The error as one of a manifest that has another name than the archive's: a user's file on the development
    /// machine.
    #[must_use]
    pub const fn in_file<'a>(&'a self, file: &'a str) -> InFile<'a> {
        InFile { error: self, file }
    }
}

/// A [`BundleError`] that names a certain file as the manifest: see [`BundleError::in_file`].
#[derive(Clone, Copy, Debug)]
pub struct InFile<'a> {
    error: &'a BundleError,
    file: &'a str,
}

impl fmt::Display for BundleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.in_file(MANIFEST).fmt(f)
    }
}

impl fmt::Display for InFile<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let manifest = self.file;
        match self.error {
            BundleError::Archive(error) => write!(f, "bundle: {error}"),
            BundleError::DuplicateFile(name) => {
                write!(f, "bundle: the archive holds two files named {name}; expected one")
            }
            BundleError::NoManifest => write!(f, "bundle: the archive has no {MANIFEST}, which lists the guests"),
            BundleError::ManifestNotUtf8 { line } => write!(f, "{manifest}:{line}: not UTF-8 text"),
            BundleError::Syntax { line, message } => write!(f, "{manifest}:{line}: {message}"),
            BundleError::UnknownKey { line, key, place, known } => {
                write!(f, "{manifest}:{line}: unknown key `{key}` in {place}; expected one of ")?;
                for (i, known) in known.iter().enumerate() {
                    write!(f, "{}`{known}`", if i == 0 { "" } else { ", " })?;
                }
                Ok(())
            }
            BundleError::MissingKey { line, key, place } => {
                write!(f, "{manifest}:{line}: {place} has no key `{key}`, which it needs")
            }
            BundleError::BadValue { line, key, expected } => {
                write!(f, "{manifest}:{line}: wrong value of `{key}`: {expected}")
            }
            BundleError::NoGuest => write!(f, "{manifest}: there is no guest to run; expected at least one [[guest]]"),
            BundleError::DuplicateName { line, first, name } => {
                write!(f, "{manifest}:{line}: a guest named `{name}` begins on line {first} already; names must differ")
            }
            BundleError::MissingFile { guest, line, key, file } => write!(
                f,
                "{manifest}:{line}: guest `{guest}`: the archive has no file `{file}`, which its `{key}` names"
            ),
            BundleError::NoDiskSource { line } => write!(
                f,
                "{manifest}:{line}: [[guest.disks]] has neither a `file`, which becomes part of the bundle, nor a `host`, \
                 which names a disk of the board"
            ),
            BundleError::DuplicateMac { line, mac, first } => write!(
                f,
                "{manifest}:{line}: the network address {mac} is one of guest `{first}` already; addresses must differ"
            ),
            BundleError::SharedHostDisk { line, first } => write!(
                f,
                "{manifest}:{line}: guest `{first}` has the same disk of the board, or may have, and one of both may change \
                 it; expected another disk, or a mode other than \"read-write\" for both"
            ),
            BundleError::Dtb { guest, line, file, error } => {
                write!(f, "{manifest}:{line}: guest `{guest}`: dtb `{file}`: {error}")
            }
            BundleError::DiskSize { guest, line, file, size } => write!(
                f,
                "{manifest}:{line}: guest `{guest}`: disk `{file}` has {size} bytes; expected a multiple of {SECTOR}, and at least one"
            ),
            BundleError::Kernel { guest, line, file, error } => {
                write!(f, "{manifest}:{line}: guest `{guest}`: kernel `{file}`: {error}")
            }
            BundleError::FlashSize { guest, line, file, size } => write!(
                f,
                "{manifest}:{line}: guest `{guest}`: flash `{file}` has {size} bytes; expected {FLASH_BANK} at most, and at \
                 least one"
            ),
            BundleError::Firmware { guest, line, file, error } => {
                write!(f, "{manifest}:{line}: guest `{guest}`: flash `{file}`: {error}")
            }
            BundleError::DoesNotFit { guest, line, needed, memory } => write!(
                f,
                "{manifest}:{line}: guest `{guest}`: its files have {needed} bytes, more than its memory of {}M",
                memory >> 20
            ),
        }
    }
}

impl core::error::Error for BundleError {}
