//! The bundle: what a board boots.
//!
//! A board gets its guests the way Linux gets its root file system: as the *initrd* that the boot loader leaves in
//! memory. That initrd is one archive (cpio, "newc" format, see [`archive`]) with a [`manifest`](Manifest) named
//! [`MANIFEST`] and the files that the manifest names:
//!
//! ```toml
//! [[guest]]
//! name    = "debian"                 # what the monitor and the reports call it
//! kernel  = "debian/vmlinuz"         # by its name in the archive
//! initrd  = "debian/initrd.gz"       # optional
//! append  = "console=ttyAMA0"        # optional: the guest's command line
//! memory  = "256M"                   # the guest's RAM
//! weight  = 200                      # optional: its share of the processor; see docs/guests.md for all that there is
//! ```
//!
//! [`Bundle::parse`] turns the bytes into guests that can be loaded, or into one [`BundleError`] that names the file,
//! the line, the key, and what would be right. Everything that can be known from the bytes alone is checked here: a
//! guest that comes out of [`Bundle::guests`] has a [`Kernel`], or firmware, and files that fit its memory. The same
//! code runs on the board, where the error goes to the console, and on the development machine, where it keeps `spica`
//! from starting an emulator in vain; so this crate is `no_std`, and writes archives as well as reading them.
//!
//! A bundle comes from whoever owns the board, not from a guest; still, nothing in it can make this code panic or read
//! outside the archive.
#![no_std]

extern crate alloc;

pub mod archive;
mod dtb;
mod error;
mod firmware;
mod guest;
pub mod image;
mod mac;
mod manifest;
mod memory;
mod table;
mod zimage;

use alloc::string::{String, ToString};
use alloc::vec::Vec;

pub use dtb::{DtbError, check as check_dtb};
pub use error::{BundleError, InFile};
pub use firmware::{FirmwareError, check as check_firmware};
pub use guest::{
    DEFAULT_WEIGHT, Disk, DiskMode, DiskSource, Engine, FLASH_BANK, FLASH_UNIT, FwCfgFile, FwCfgSource, GuestEntry,
    GuestOptions, GuestSpec, KernelBase, MAX_DISK_NAME, MAX_DISKS, MAX_FLASH, MAX_FW_CFG, MAX_FW_CFG_NAME,
    MAX_FW_CFG_STRING, MAX_GUESTS, MAX_NAME, MAX_NETWORKS, MAX_WEIGHT, Network, Restart, SYSTEM_DISK, Start, System,
    flash_bytes, is_fw_cfg_name,
};
pub use image::{Address, ImageError, Kernel, RAM_START};
pub use mac::Mac;
pub use manifest::{Manifest, Place};
pub use memory::{MAX_MEMORY, MIN_MEMORY, MemoryError, parse_memory};
pub use zimage::{ZImage, ZImageError};

/// The manifest's name in the archive.
pub const MANIFEST: &str = "manifest.toml";

/// Bytes of a disk's sector: disks are whole sectors long.
pub const SECTOR: usize = 512;

/// All guests of a board.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bundle<'a> {
    guests: Vec<GuestSpec<'a>>,
    uplink: Option<String>,
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
        let manifest = Manifest::parse(text, Place::Board)?;
        let guests = manifest.guests.iter().map(|guest| guest.load(find)).collect::<Result<_, _>>()?;
        Ok(Self { guests, uplink: manifest.uplink })
    }

    /// The guests, in the manifest's order; at least one.
    #[must_use]
    pub fn guests(&self) -> &[GuestSpec<'a>] {
        &self.guests
    }

    /// The switch that the board's own network card is connected to.
    #[must_use]
    pub fn uplink(&self) -> Option<&str> {
        self.uplink.as_deref()
    }
}

impl GuestEntry {
    /// Finds the files of the guest, and checks them.
    ///
    /// # Errors
    /// The first file that is missing, or that is not what it should be.
    pub fn load<'a>(&self, find: impl Fn(&str) -> Option<&'a [u8]>) -> Result<GuestSpec<'a>, BundleError> {
        let guest = self;
        let file = |key: &'static str, name: &str| {
            find(name).ok_or_else(|| BundleError::MissingFile {
                guest: guest.name.clone(),
                line: guest.line,
                key,
                file: name.to_string(),
            })
        };
        let optional = |key, name: &Option<_>| name.as_deref().map(|name| file(key, name)).transpose();
        let (initrd, dtb) = (optional("initrd", &guest.initrd)?, optional("dtb", &guest.dtb)?);
        // A manifest for a board has a name here, or flash.
        let (start, kernel) = if guest.flash.is_empty() {
            let name = guest.kernel.as_deref().unwrap_or_default();
            let bytes = file("kernel", name)?;
            let kernel = Kernel::parse(bytes, guest.address, guest.memory_bytes);
            let kernel = kernel.map_err(|error| BundleError::Kernel {
                guest: guest.name.clone(),
                line: guest.line,
                file: name.to_string(),
                error,
            })?;
            (Start::Kernel(kernel), bytes)
        } else {
            let mut banks: [&[u8]; MAX_FLASH] = [&[]; MAX_FLASH];
            for (bank, name) in banks.iter_mut().zip(&guest.flash) {
                *bank = file("flash", name)?;
                if !(1..=FLASH_BANK).contains(&bank.len()) {
                    let (line, size) = (guest.line, bank.len());
                    return Err(BundleError::FlashSize { guest: guest.name.clone(), line, file: name.clone(), size });
                }
            }
            firmware::check(banks[0]).map_err(|error| BundleError::Firmware {
                guest: guest.name.clone(),
                line: guest.line,
                file: guest.flash[0].clone(),
                error,
            })?;
            // What firmware is to start is its business.
            let kernel = optional("kernel", &guest.kernel)?;
            (Start::Firmware { banks, kernel }, kernel.unwrap_or_default())
        };
        if let Some(dtb) = dtb {
            let name = || guest.dtb.clone().unwrap_or_default();
            dtb::check(dtb).map_err(|error| BundleError::Dtb {
                guest: guest.name.clone(),
                line: guest.line,
                file: name(),
                error,
            })?;
        }
        let length = |file: Option<&[u8]>| file.map_or(0, |f| f.len() as u64);
        let needed = length(Some(kernel)) + length(initrd) + length(dtb);
        if needed > u64::from(guest.memory_bytes) {
            return Err(BundleError::DoesNotFit {
                guest: guest.name.clone(),
                line: guest.line,
                needed,
                memory: guest.memory_bytes,
            });
        }
        let fw_cfg = guest.fw_cfg.iter().map(|entry| {
            let source = match &entry.source {
                FwCfgSource::File(name) => FwCfgSource::File(file("file", name)?),
                FwCfgSource::Text(text) => FwCfgSource::Text(text.clone()),
            };
            Ok(FwCfgFile { name: entry.name.clone(), source })
        });
        let fw_cfg = fw_cfg.collect::<Result<_, _>>()?;
        let mut disks = Vec::with_capacity(guest.disks.len());
        for disk in &guest.disks {
            let source = match &disk.source {
                DiskSource::File(name) => {
                    let bytes = file("file", name)?;
                    if bytes.is_empty() || bytes.len() % SECTOR != 0 {
                        let (line, size) = (guest.line, bytes.len());
                        let (guest, file) = (guest.name.clone(), name.clone());
                        return Err(BundleError::DiskSize { guest, line, file, size });
                    }
                    DiskSource::File(bytes)
                }
                DiskSource::FirstHostDisk => DiskSource::FirstHostDisk,
                DiskSource::HostDisk(name) => DiskSource::HostDisk(name.clone()),
            };
            disks.push(Disk { name: disk.name.clone(), source, mode: disk.mode });
        }
        Ok(GuestSpec {
            name: guest.name.clone(),
            start,
            initrd,
            dtb,
            append: guest.append.clone(),
            memory_bytes: guest.memory_bytes,
            options: guest.options.clone(),
            fw_cfg,
            disks,
        })
    }
}

#[cfg(test)]
mod tests;
