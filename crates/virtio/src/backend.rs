//! The other ends of devices, which the host provides: disks, random bytes, terminals, a network, a keeper of pages.
//!
//! A machine owns none of them. It is given a [`Backends`] for each time that it serves its devices, so that several
//! machines can share one, such as the switch, without knowing of each other.
//!
//! No method blocks. A backend that cannot go on says so, and the host calls [`Slot::poke`](crate::Slot::poke) once it
//! can.

use spica_addr::GuestPa;

/// The bytes of a sector, which is the unit of disks whatever their blocks are (virtio 5.2.2).
pub const SECTOR: u32 = 512;

/// Why a disk did not do what it should.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DiskError {
    /// The medium failed, does not permit it, or has no room. The guest is told of an error.
    Failed,
    /// It takes time. The request is made again after a poke.
    Later,
}

/// A disk. Sectors and lengths are within the number of sectors that the device was plugged with; lengths are multiples
/// of [`SECTOR`].
pub trait Disk {
    /// Reads from sector `sector` on.
    ///
    /// # Errors
    /// See [`DiskError`].
    fn read(&mut self, sector: u64, into: &mut [u8]) -> Result<(), DiskError>;

    /// Writes from sector `sector` on.
    ///
    /// # Errors
    /// See [`DiskError`].
    fn write(&mut self, sector: u64, from: &[u8]) -> Result<(), DiskError>;

    /// Makes what was written last.
    ///
    /// # Errors
    /// See [`DiskError`].
    fn flush(&mut self) -> Result<(), DiskError>;

    /// Makes sectors read as zero, at most [`RANGE_MOST`] at once.
    ///
    /// # Errors
    /// See [`DiskError`].
    fn clear(&mut self, sector: u64, sectors: u32) -> Result<(), DiskError>;

    /// The guest does not need what is in these sectors any more, at most [`RANGE_MOST`] at once. They may read as
    /// anything afterwards that the guest may see.
    ///
    /// # Errors
    /// See [`DiskError`].
    fn discard(&mut self, _sector: u64, _sectors: u32) -> Result<(), DiskError> {
        Ok(())
    }
}

/// The most sectors that are cleared or discarded at once.
pub const RANGE_MOST: u32 = 64;

/// A source of random bytes.
pub trait Entropy {
    /// Fills the start of `into`, and says how many bytes. 0: none are to be had now.
    fn fill(&mut self, into: &mut [u8]) -> usize;
}

/// What is at the other end of a console's port.
pub trait Terminal {
    /// Takes output of the guest: the first bytes of `from`, and says how many. 0: there is no room now.
    fn put(&mut self, from: &[u8]) -> usize;

    /// Gives input for the guest: fills the start of `into`, and says how many bytes. 0: there are none now.
    fn get(&mut self, into: &mut [u8]) -> usize;
}

/// Where a network device is plugged in. Frames are Ethernet's, without the checksum.
pub trait Network {
    /// Takes a frame from the device at port `port`, to deliver it or not: networks lose frames.
    fn send(&mut self, port: usize, frame: &[u8]);

    /// The next frame for the device at port `port`.
    fn next(&self, port: usize) -> Option<&[u8]>;

    /// Forgets that frame: it was delivered, or cannot be.
    fn pop(&mut self, port: usize);
}

/// Who uses the memory that a guest can do without.
pub trait Pages {
    /// The guest does not need the 4 KiB page at `page` any more. What is in it is lost. Not called for a page that it
    /// has given already.
    fn give(&mut self, page: GuestPa);

    /// The guest has the page back, which it gave before; what it finds in it must not be of another guest. False if it
    /// cannot have it yet, because somebody uses it and there is no other: it is asked for again when the slot is
    /// [poked](crate::Slot::poke).
    fn take(&mut self, page: GuestPa) -> bool;
}

/// The backends of one machine. The numbers are those with which devices were [plugged](crate::Plug).
pub trait Backends {
    /// A disk.
    fn disk(&mut self, disk: usize) -> &mut dyn Disk;

    /// Random bytes.
    fn entropy(&mut self) -> &mut dyn Entropy;

    /// What is behind a console.
    fn terminal(&mut self, terminal: usize) -> &mut dyn Terminal;

    /// The network.
    fn network(&mut self) -> &mut dyn Network;

    /// Who uses the balloon's pages.
    fn pages(&mut self) -> &mut dyn Pages;
}
