//! Disks in a snapshot ([`super::snapshot`]): what the guest has written to those that are copied on write, and what
//! that is over.
//!
//! What was written means nothing over another image. So a snapshot has the image's checksum. To work it out takes as
//! long as the image is large: it is done once, in pieces, when somebody first asks. Images do not change. What is on
//! the board's own disks does, whoever writes there; guests with such a disk are not kept.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use spica_machine::virtio::Plug;
use spica_snapshot::{PAGE, Sum};
use spica_virtio::disk::{CLUSTER, Image, Overlay};

use super::devices::{AnyDisk, Devices};
use super::disk_room::DiskRoom;
use crate::host_cpu::HostSpace;

const _: () = assert!(PAGE == CLUSTER, "a page of a snapshot is a cluster");

/// Bytes of an image that are looked at in one go: some 60,000 instructions.
const SUMMED: usize = 32 * 1024;

/// What is known of the image below a disk: the checksum of its first bytes.
#[derive(Default)]
pub struct Base {
    sum: Sum,
    bytes: usize,
}

/// What is kept of a disk, beside what was written to it.
#[derive(Serialize, Deserialize)]
pub struct KeptDisk {
    sectors: u64,
    read_only: bool,
    base: u64,
    /// Clusters that take memory, and those that are noted ([`Overlay::written`]).
    written: [u32; 2],
}

impl Devices {
    /// The name of a disk, as its guest reads it.
    fn disk_name(&self, disk: usize) -> String {
        let is_it = |plug: &&Plug| matches!(plug, Plug::Block { disk: number, .. } if *number == disk);
        let Some(Plug::Block { serial, .. }) = self.plug(is_it) else { return format!("{disk}") };
        String::from_utf8_lossy(serial.split(|&byte| byte == 0).next().unwrap_or_default()).into()
    }

    /// A disk whose contents are not the guest's to keep.
    pub fn foreign_disk(&self) -> Option<String> {
        let is_foreign = |disk: &AnyDisk| matches!(disk, AnyDisk::Host(_) | AnyDisk::HostOverlay(_));
        self.disks.iter().position(is_foreign).map(|disk| self.disk_name(disk))
    }

    fn image(&self, disk: usize) -> Option<Image<'static>> {
        match self.disks.get(disk)? {
            AnyDisk::Image(image) => Some(*image),
            AnyDisk::Overlay(overlay) => Some(*overlay.base()),
            _ => None,
        }
    }

    fn overlay(&mut self, disk: usize) -> Option<&mut Overlay<Image<'static>, DiskRoom>> {
        match self.disks.get_mut(disk)? {
            AnyDisk::Overlay(overlay) => Some(overlay),
            _ => None,
        }
    }

    fn written(&self, disk: usize) -> (usize, usize) {
        match self.disks.get(disk) {
            Some(AnyDisk::Overlay(overlay)) => overlay.written(),
            _ => (0, 0),
        }
    }

    /// Looks at some more of what is below a disk, if there is one: the bytes that are left then, and how many pages
    /// were written.
    pub fn look_at_base(&mut self, _: HostSpace<'_>, disk: usize) -> Option<(usize, usize)> {
        let image = self.image(disk)?;
        let base = self.bases.get_mut(disk)?;
        let rest = image.0.get(base.bytes..).unwrap_or_default();
        let now = rest.get(..SUMMED).unwrap_or(rest);
        base.sum.add(now);
        base.bytes += now.len();
        Some((rest.len() - now.len(), self.written(disk).1))
    }

    /// What is kept of each disk.
    ///
    /// # Errors
    /// If one has not been looked at.
    pub fn kept_disks(&self) -> Result<Vec<KeptDisk>, String> {
        let kept = |(number, base): (usize, &Base)| {
            let image = self.image(number).filter(|image| image.0.len() == base.bytes);
            let image = image.ok_or_else(|| format!("nobody has looked at disk {number}: `base` comes first"))?;
            let (slots, places) = self.written(number);
            Ok(KeptDisk {
                sectors: image.sectors(),
                read_only: matches!(self.disks[number], AnyDisk::Image(_)),
                base: base.sum.finish(),
                written: [slots as u32, places as u32],
            })
        };
        self.bases.iter().enumerate().map(kept).collect()
    }

    /// Whether disks that were kept are over what these are over.
    ///
    /// # Errors
    /// Which is not, and what would be right.
    pub fn check_disks(&self, kept: &[KeptDisk]) -> Result<(), String> {
        for (number, (kept, own)) in kept.iter().zip(self.kept_disks()?).enumerate() {
            let name = self.disk_name(number);
            if kept.read_only != own.read_only {
                let [saved, here] = [kept, &own].map(|disk| if disk.read_only { "read-only" } else { "copy-on-write" });
                return Err(format!(
                    "the saved guest's disk {name} is {saved}, and this one's {here}: it must be {saved}"
                ));
            }
            if kept.sectors != own.sectors || kept.base != own.base {
                let [saved, here] = [kept, &own].map(|disk| (disk.sectors.div_ceil(2), disk.base));
                return Err(format!(
                    "its disk {name} is another one: the saved guest's file has {} KiB and the checksum {:016x}, and \
                     this one's {} KiB and {:016x}; it needs the same file",
                    saved.0, saved.1, here.0, here.1
                ));
            }
        }
        Ok(())
    }

    /// Whether there is room for what was written to disks that were kept, which [are these](Self::check_disks).
    ///
    /// # Errors
    /// Where there is not.
    pub fn check_room(&self, kept: &[KeptDisk]) -> Result<(), String> {
        for (number, kept) in kept.iter().enumerate() {
            let [slots, places] = kept.written.map(|count| count as usize);
            let fits = match self.disks.get(number) {
                Some(AnyDisk::Overlay(overlay)) => overlay.has_room((slots, places)),
                _ => (slots, places) == (0, 0),
            };
            if !fits {
                return Err(format!(
                    "the saved guest has written {} KiB to its disk {}, for which this one has no room: the board \
                     needs more memory, or spica.overlay more KiB",
                    slots.saturating_mul(CLUSTER / 1024),
                    self.disk_name(number)
                ));
            }
        }
        Ok(())
    }

    /// The first page from byte `from` on that was written to a disk.
    pub fn next_written(&mut self, _: HostSpace<'_>, disk: usize, from: u32) -> Option<(u32, Box<[u8; PAGE]>)> {
        let mut page = Box::new([0; PAGE]);
        let cluster = self.overlay(disk)?.next_written(u64::from(from).div_ceil(PAGE as u64), &mut page)?;
        Some((u32::try_from(cluster * PAGE as u64).ok()?, page))
    }

    /// Has a page of a disk be one that was written.
    ///
    /// # Errors
    /// If there is none, or no room.
    pub fn put_written(&mut self, _: HostSpace<'_>, disk: usize, at: u32, page: &[u8; PAGE]) -> Result<(), String> {
        self.half_replaced = true;
        let overlay = self.overlay(disk).filter(|_| at.is_multiple_of(PAGE as u32));
        let put = overlay.map(|overlay| overlay.put(u64::from(at) / PAGE as u64, page));
        let no_page = || format!("there is no page at {at:x} of disk {disk}, or no room for it");
        put.ok_or_else(no_page)?.map_err(|_| no_page())
    }

    /// Has pages of a disk be ones that were not written.
    ///
    /// # Errors
    /// If it is none that is copied on write.
    pub fn put_unwritten(&mut self, _: HostSpace<'_>, disk: usize, at: u32, bytes: u32) -> Result<(), String> {
        self.half_replaced = true;
        let overlay = self.overlay(disk).ok_or_else(|| format!("disk {disk} is not copied on write"))?;
        let first = u64::from(at) / PAGE as u64;
        (first..first + u64::from(bytes) / PAGE as u64).for_each(|cluster| overlay.take_back(cluster));
        Ok(())
    }

    /// Where disks were replaced by half, what was written is forgotten: half of it would be no file system. Whether
    /// that was so.
    pub fn forget_half(&mut self, _: HostSpace<'_>) -> bool {
        let half = core::mem::take(&mut self.half_replaced);
        for disk in self.disks.iter_mut().filter(|_| half) {
            if let AnyDisk::Overlay(overlay) = disk {
                overlay.take_all_back();
            }
        }
        half
    }
}
