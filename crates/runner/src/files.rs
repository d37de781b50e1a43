//! The files of a bundle: each stored once, however many guests have it.

use spica_bundle::archive::Writer;
use spica_bundle::{Bundle, DiskSource, FwCfgSource, GuestEntry, MANIFEST, Manifest};

use crate::error::{Error, Result};

/// Files for a bundle, under names of their own.
#[derive(Clone, Debug, Default)]
pub struct Files {
    files: Vec<(String, Vec<u8>)>,
    uplink: Option<String>,
}

impl Files {
    /// None so far, for a bundle where the board's network card is connected to the switch `uplink`.
    #[must_use]
    pub const fn new(uplink: Option<String>) -> Self {
        Self { files: Vec::new(), uplink }
    }

    /// Adds a file that is what the key `kind` of a guest names, and gives its name in the archive: that of the same
    /// bytes, if they are there already.
    pub fn add(&mut self, kind: &str, bytes: Vec<u8>) -> String {
        if let Some((name, _)) = self.files.iter().find(|(_, b)| *b == bytes) {
            return name.clone();
        }
        let taken = self.files.iter().filter(|(name, _)| name.split('-').next() == Some(kind)).count();
        let name = if taken == 0 { kind.to_string() } else { format!("{kind}-{}", taken + 1) };
        self.files.push((name.clone(), bytes));
        name
    }

    /// Makes every file that `guest` names part of the archive, as `read` gives it, and lets the guest name it so.
    ///
    /// # Errors
    /// Those of `read`, which gets the key and the name.
    pub fn adopt(
        &mut self,
        guest: &mut GuestEntry,
        mut read: impl FnMut(&'static str, &str) -> Result<Vec<u8>>,
    ) -> Result<()> {
        let keys = [("kernel", &mut guest.kernel), ("initrd", &mut guest.initrd), ("dtb", &mut guest.dtb)];
        let mut named: Vec<(&'static str, &'static str, &mut String)> =
            keys.into_iter().filter_map(|(key, file)| Some((key, key, file.as_mut()?))).collect();
        named.extend(guest.flash.iter_mut().map(|file| ("flash", "flash", file)));
        named.extend(guest.fw_cfg.iter_mut().filter_map(|entry| match &mut entry.source {
            FwCfgSource::File(file) => Some(("file", "fw_cfg", file)),
            FwCfgSource::Text(_) => None,
        }));
        named.extend(guest.disks.iter_mut().filter_map(|disk| match &mut disk.source {
            DiskSource::File(file) => Some(("file", "disk", file)),
            _ => None,
        }));
        for (key, kind, file) in named {
            *file = self.add(kind, read(key, file)?);
        }
        Ok(())
    }

    /// The archive that a board boots.
    ///
    /// # Errors
    /// If it would not boot: what Spica would say.
    pub fn bundle(self, guests: Vec<GuestEntry>) -> Result<Vec<u8>> {
        let mut archive = Writer::new();
        archive.file(MANIFEST, 0o644, Manifest { guests, uplink: self.uplink }.to_toml().as_bytes());
        for (name, bytes) in &self.files {
            archive.file(name, 0o644, bytes);
        }
        let bytes = archive.finish();
        Bundle::parse(&bytes).map_err(|e| Error::failed(e.to_string()))?;
        Ok(bytes)
    }

    /// How many bytes there are in all.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.files.iter().map(|(_, bytes)| bytes.len() as u64).sum()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spica_bundle::archive::entries;
    use spica_bundle::{Disk, DiskMode, Kernel, Start};

    fn zimage(last: u8) -> Vec<u8> {
        let mut file = vec![0; 64];
        file[0x24..0x28].copy_from_slice(&0x016f_2818_u32.to_le_bytes());
        file[0x2c] = 64;
        file[63] = last;
        file
    }

    #[test]
    fn equal_files_are_stored_once() {
        let mut files = Files::default();
        let mut guests = Vec::new();
        for (name, kernel) in [("a", "k1"), ("b", "k1"), ("c", "k2")] {
            let mut guest = GuestEntry::new(name, 16 << 20);
            guest.kernel = Some(kernel.to_string());
            guest.initrd = Some("rd".to_string());
            let source = DiskSource::File("image".to_string());
            guest.disks.push(Disk { name: "d".to_string(), source, mode: DiskMode::CopyOnWrite });
            let read = |key: &str, name: &str| match (key, name) {
                ("kernel", "k1") => Ok(zimage(1)),
                ("kernel", "k2") => Ok(zimage(2)),
                ("initrd", "rd") => Ok(b"rd".to_vec()),
                ("file", "image") => Ok(vec![7; 512]),
                other => panic!("{other:?}"),
            };
            files.adopt(&mut guest, read).unwrap();
            guests.push(guest);
        }
        let kernels: Vec<_> = guests.iter().map(|g| g.kernel.clone().unwrap()).collect();
        assert_eq!(kernels, ["kernel", "kernel", "kernel-2"]);
        let bytes = files.bundle(guests).unwrap();
        let names: Vec<_> = entries(&bytes).map(|e| e.unwrap().name).collect();
        assert_eq!(names, ["manifest.toml", "kernel", "initrd", "disk", "kernel-2"]);
        assert_eq!(Bundle::parse(&bytes).unwrap().guests()[2].start, Start::Kernel(Kernel::ZImage(&zimage(2))));
    }

    #[test]
    fn what_spica_would_refuse_is_refused_here() {
        let mut files = Files::default();
        let mut guest = GuestEntry::new("a", 16 << 20);
        guest.kernel = Some("k".to_string());
        files.adopt(&mut guest, |_, _| Ok(vec![0; 64])).unwrap();
        let error = files.bundle(vec![guest]).unwrap_err();
        assert!(
            error.message.starts_with("manifest.toml:1: guest `a`: kernel `kernel`: not an ARM Linux zImage"),
            "{error}"
        );
    }
}
