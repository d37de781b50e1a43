//! The bundle: what a board boots.
//!
//! A board gets its guests the way Linux gets its root file system: as the *initrd* that the boot loader leaves in memory.
//! That initrd is one archive (cpio, "newc" format, see [`archive`]) with a [`manifest`](Manifest) named
//! [`MANIFEST`] and the files that the manifest names:
//!
//! ```toml
//! [[guest]]
//! name    = "debian"                 # what the monitor and the reports call it
//! kernel  = "debian/vmlinuz"         # a zImage, by its name in the archive
//! initrd  = "debian/initrd.gz"       # optional
//! append  = "console=ttyAMA0"        # optional: the guest's command line
//! memory  = "256M"                   # the guest's RAM
//! ```
//!
//! [`Bundle::parse`] turns the bytes into guests that can be loaded, or into one [`BundleError`] that names the file,
//! the line, the key, and what would be right. Everything that can be known from the bytes alone is checked here: a
//! guest that comes out of [`Bundle::guests`] has a kernel that is a [`ZImage`] and files that fit its memory. The same
//! code runs on the board, where the error goes to the console, and on the development machine, where it keeps `spica`
//! from starting an emulator in vain; so this crate is `no_std`, and writes archives as well as reading them.
//!
//! A bundle comes from whoever owns the board, not from a guest; still, nothing in it can make this code panic or read
//! outside the archive.
#![no_std]

extern crate alloc;

pub mod archive;
mod error;
mod manifest;
mod memory;
mod zimage;

use alloc::string::{String, ToString};
use alloc::vec::Vec;

pub use error::BundleError;
pub use manifest::{GuestEntry, Manifest};
pub use memory::{MAX_MEMORY, MIN_MEMORY, MemoryError, parse_memory};
pub use zimage::{ZImage, ZImageError};

/// The manifest's name in the archive.
pub const MANIFEST: &str = "manifest.toml";

/// One guest of a bundle, ready to be loaded: its files borrow from the archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuestSpec<'a> {
    /// Its name, unique in the bundle: 1 to 32 of `a`–`z`, `0`–`9`, `-`, `_`, `.`.
    pub name: String,
    /// The kernel's file, a zImage, as the owner gave it.
    pub kernel: &'a [u8],
    /// The initial RAM disk's file, if there is one.
    pub initrd: Option<&'a [u8]>,
    /// The kernel's command line; may be empty.
    pub append: String,
    /// The size of its RAM in bytes: a multiple of 1 MiB from [`MIN_MEMORY`] to [`MAX_MEMORY`].
    pub memory_bytes: u32,
}

/// All guests of a board.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bundle<'a> {
    guests: Vec<GuestSpec<'a>>,
}

impl<'a> Bundle<'a> {
    /// Reads and checks a bundle from the bytes of the board's initrd. Bytes after the archive's end are ignored, since
    /// boot loaders pad.
    ///
    /// # Errors
    /// The first thing that is wrong, as a [`BundleError`].
    pub fn parse(bytes: &'a [u8]) -> Result<Self, BundleError> {
        let mut files: Vec<archive::Entry<'a>> = Vec::new();
        for entry in archive::entries(bytes) {
            let entry = entry.map_err(BundleError::Archive)?;
            if !entry.is_file() {
                continue;
            }
            if files.iter().any(|f| f.name == entry.name) {
                return Err(BundleError::DuplicateFile(entry.name.to_string()));
            }
            files.push(entry);
        }
        let find = |name: &str| files.iter().find(|f| f.name == name).map(|f| f.data);

        let text = find(MANIFEST).ok_or(BundleError::NoManifest)?;
        let text = core::str::from_utf8(text).map_err(|e| BundleError::ManifestNotUtf8 {
            line: 1 + text.iter().take(e.valid_up_to()).filter(|&&b| b == b'\n').count(),
        })?;
        let manifest = Manifest::parse(text)?;

        let file = |guest: &GuestEntry, key: &'static str, name: &str| {
            find(name).ok_or_else(|| BundleError::MissingFile {
                guest: guest.name.clone(),
                line: guest.line,
                key,
                file: name.to_string(),
            })
        };
        let mut guests = Vec::with_capacity(manifest.guests.len());
        for guest in &manifest.guests {
            let kernel = file(guest, "kernel", &guest.kernel)?;
            let initrd = match &guest.initrd {
                Some(name) => Some(file(guest, "initrd", name)?),
                None => None,
            };
            ZImage::parse(kernel).map_err(|error| BundleError::Kernel {
                guest: guest.name.clone(),
                file: guest.kernel.clone(),
                error,
            })?;
            let needed = kernel.len() as u64 + initrd.map_or(0, |i| i.len() as u64);
            if needed > u64::from(guest.memory_bytes) {
                return Err(BundleError::DoesNotFit {
                    guest: guest.name.clone(),
                    line: guest.line,
                    needed,
                    memory: guest.memory_bytes,
                });
            }
            guests.push(GuestSpec {
                name: guest.name.clone(),
                kernel,
                initrd,
                append: guest.append.clone(),
                memory_bytes: guest.memory_bytes,
            });
        }
        Ok(Self { guests })
    }

    /// The guests, in the manifest's order; at least one.
    #[must_use]
    pub fn guests(&self) -> &[GuestSpec<'a>] {
        &self.guests
    }
}

#[cfg(test)]
mod tests;
