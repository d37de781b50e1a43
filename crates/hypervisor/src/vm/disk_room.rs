//! Room for what guests write to copy-on-write disks: some memory of each disk's own, and behind that, pages that
//! guests have given to their balloons.

use spica_addr::HostPa;
use spica_bundle::{DiskMode, DiskSource, GuestSpec};
use spica_virtio::backend::SECTOR;
use spica_virtio::disk::{CLUSTER, Clusters, Image, Slab};

use crate::host_cpu::HostSpace;
use crate::memory::{lending, phys, ram as host_ram};

/// The most that can be written to a copy-on-write disk, in bytes: what is known of each cluster takes room on the
/// heap.
const OVERLAY_MOST: u32 = 128 << 20;
/// The most pages that a disk borrows.
pub const LENT_MOST: usize = 4096;
/// Slots from here on are pages that are borrowed, by their tickets.
const BORROWED: usize = 1 << 24;
/// Bytes of the heap for a cluster: two places in the overlay's records, and what a B-tree takes around them.
const PLACES: u32 = 2 * 48;
/// And for a page that is borrowed.
const TICKET: u32 = 64;

/// The models of disks know nothing of tables; but whoever calls one has come by `AnyDisk::at`, and so is in the host
/// address space until that call ends.
fn host_space<'a>() -> HostSpace<'a> {
    // SAFETY: see above; and what is lent of it here does not outlive that call, since it borrows from the disk.
    unsafe { HostSpace::assume() }
}

/// RAM of the host that belongs to a disk.
struct DiskMemory {
    pa: HostPa,
    len: u32,
}

impl AsRef<[u8]> for DiskMemory {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: taken for this disk alone, and mapped in the host address space (`host_space`).
        unsafe { phys::slice(self.pa, self.len) }
    }
}

impl AsMut<[u8]> for DiskMemory {
    fn as_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `self` is borrowed mutably.
        unsafe { phys::slice_mut(self.pa, self.len) }
    }
}

/// See the module's text.
pub struct DiskRoom {
    own: Slab<DiskMemory>,
    borrowed: usize,
}

impl DiskRoom {
    /// For a disk of `sectors` sectors, with `share` bytes of its own at most.
    ///
    /// # Errors
    /// The bytes that are not to be had.
    pub fn new(sectors: u64, share: u32) -> Result<DiskRoom, u32> {
        let len = overlay_bytes(sectors, share);
        let pa = host_ram::take(HostPa(0), len, 4096).ok_or(len)?;
        Ok(DiskRoom { own: Slab::new(DiskMemory { pa, len }), borrowed: 0 })
    }
}

impl Clusters for DiskRoom {
    fn take(&mut self) -> Option<usize> {
        if let Some(slot) = self.own.take() {
            return Some(slot);
        }
        if self.borrowed == LENT_MOST {
            return None;
        }
        let ticket = lending::borrow()?;
        self.borrowed += 1;
        Some(BORROWED + ticket as usize)
    }

    fn free(&mut self, slot: usize) {
        match slot.checked_sub(BORROWED) {
            Some(ticket) => {
                lending::release(host_space(), ticket as u32);
                self.borrowed -= 1;
            }
            None => self.own.free(slot),
        }
    }

    fn bytes(&mut self, slot: usize) -> &mut [u8] {
        match slot.checked_sub(BORROWED) {
            Some(ticket) => lending::bytes(host_space(), ticket as u32),
            None => self.own.bytes(slot),
        }
    }

    fn used(&self) -> (usize, usize) {
        let (used, total) = self.own.used();
        (used + self.borrowed, total + lending::most().min(LENT_MOST))
    }

    fn own(&self) -> usize {
        self.own.own() + self.borrowed
    }
}

/// Bytes that can be written to a copy-on-write disk of `sectors` sectors where each gets `share` at most.
fn overlay_bytes(sectors: u64, share: u32) -> u32 {
    let most = u64::from(share.min(OVERLAY_MOST));
    (sectors * u64::from(SECTOR)).min(most).next_multiple_of(4096) as u32
}

/// How many copy-on-write disks there are.
pub fn overlays(guests: &[GuestSpec<'static>]) -> usize {
    guests.iter().flat_map(|guest| &guest.disks).filter(|disk| disk.mode == DiskMode::CopyOnWrite).count()
}

/// How many bytes can be written to each copy-on-write disk of `guests`, if `taken` bytes of the RAM that is free now
/// go to others.
pub fn overlay_share(guests: &[GuestSpec<'static>], taken: u64) -> u32 {
    let count = overlays(guests) as u64;
    let spare = host_ram::free_bytes().saturating_sub(taken);
    let share = spare.checked_div(count).map_or(0, |share| share.min(host_ram::most_bytes_each(count)));
    (share.min(u32::MAX.into()) as u32) & !0xfff
}

/// Bytes of the heap that the records of a guest's copy-on-write disks may need, if each can have `share` bytes of its
/// own, and pages of others if somebody `lends`.
pub fn overlay_records(guest: &GuestSpec<'static>, share: u32, lends: bool) -> u32 {
    let borrowed = if lends { LENT_MOST as u32 * (PLACES + TICKET) } else { 0 };
    let bytes = guest.disks.iter().map(|disk| match (&disk.source, disk.mode) {
        (DiskSource::File(bytes), DiskMode::CopyOnWrite) => {
            records(overlay_bytes(Image(bytes).sectors(), share)) + borrowed
        }
        // How large it is, is not known yet.
        (_, DiskMode::CopyOnWrite) => records(overlay_bytes(u32::MAX.into(), share)) + borrowed,
        _ => 0,
    });
    bytes.sum()
}

fn records(bytes: u32) -> u32 {
    bytes / CLUSTER as u32 * PLACES
}
