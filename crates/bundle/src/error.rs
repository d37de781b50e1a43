//! What can be wrong with a bundle, in words that say what would be right.

use alloc::string::String;
use core::fmt;

use crate::archive::ArchiveError;
use crate::{MANIFEST, ZImageError};

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
    /// A second guest of the same name; the first begins on line `first`.
    DuplicateName { line: usize, first: usize, name: String },
    /// The archive does not hold a file that a guest names.
    MissingFile { guest: String, line: usize, key: &'static str, file: String },
    /// A guest's kernel is not one.
    Kernel { guest: String, file: String, error: ZImageError },
    /// Kernel and initrd are larger than the guest's memory.
    DoesNotFit { guest: String, line: usize, needed: u64, memory: u32 },
}

impl fmt::Display for BundleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Archive(error) => write!(f, "bundle: {error}"),
            Self::DuplicateFile(name) => write!(f, "bundle: the archive holds two files named {name}; expected one"),
            Self::NoManifest => write!(f, "bundle: the archive has no {MANIFEST}, which lists the guests"),
            Self::ManifestNotUtf8 { line } => write!(f, "{MANIFEST}:{line}: not UTF-8 text"),
            Self::Syntax { line, message } => write!(f, "{MANIFEST}:{line}: {message}"),
            Self::UnknownKey { line, key, place, known } => {
                write!(f, "{MANIFEST}:{line}: unknown key `{key}` in {place}; expected one of ")?;
                for (i, known) in known.iter().enumerate() {
                    write!(f, "{}`{known}`", if i == 0 { "" } else { ", " })?;
                }
                Ok(())
            }
            Self::MissingKey { line, key, place } => {
                write!(f, "{MANIFEST}:{line}: {place} has no key `{key}`, which every guest needs")
            }
            Self::BadValue { line, key, expected } => {
                write!(f, "{MANIFEST}:{line}: wrong value of `{key}`: {expected}")
            }
            Self::NoGuest => write!(f, "{MANIFEST}: there is no guest to run; expected at least one [[guest]]"),
            Self::DuplicateName { line, first, name } => {
                write!(f, "{MANIFEST}:{line}: a guest named `{name}` begins on line {first} already; names must differ")
            }
            Self::MissingFile { guest, line, key, file } => write!(
                f,
                "{MANIFEST}:{line}: guest `{guest}`: the archive has no file `{file}`, which its `{key}` names"
            ),
            Self::Kernel { guest, file, error } => write!(f, "guest `{guest}`: kernel `{file}`: {error}"),
            Self::DoesNotFit { guest, line, needed, memory } => write!(
                f,
                "{MANIFEST}:{line}: guest `{guest}`: kernel and initrd have {needed} bytes, more than its memory of {}M",
                memory >> 20
            ),
        }
    }
}

impl core::error::Error for BundleError {}
