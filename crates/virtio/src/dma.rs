//! The seam between a device and guest memory: [`Dma`].

use spica_addr::GuestPa;

use crate::Malformed;

/// An address range that is not, or not wholly, in the guest's RAM.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OutsideRam;

/// Guest memory as devices reach it: by guest physical address.
///
/// Every access is checked: a range that is not RAM throughout fails as a whole, and nothing was read or written.
/// Whoever implements it keeps up what hangs on guest memory, above all code translated from a page that is written.
pub trait Dma {
    /// Copies guest memory at `pa` to `into`.
    ///
    /// # Errors
    /// The range is not RAM.
    fn read(&self, pa: GuestPa, into: &mut [u8]) -> Result<(), OutsideRam>;

    /// Copies `from` to guest memory at `pa`.
    ///
    /// # Errors
    /// The range is not RAM.
    fn write(&mut self, pa: GuestPa, from: &[u8]) -> Result<(), OutsideRam>;

    /// Whether the `len` bytes at `pa` are RAM. While a device has a request, RAM does not shrink.
    fn is_ram(&self, pa: GuestPa, len: u32) -> bool;

    /// From now on, it is the device of this number (virtio 5) that reads and writes.
    fn serves(&mut self, _device: u32) {}
}

/// A guest physical address as rings have it, in 64 bits, plus an offset: there is no RAM above 4 GiB.
pub(crate) fn address(base: u64, offset: u32) -> Result<GuestPa, Malformed> {
    let sum = base.checked_add(offset.into()).and_then(|sum| u32::try_from(sum).ok());
    sum.map(GuestPa).ok_or(Malformed::Address)
}

/// Two bytes at `base + offset`, little-endian.
pub(crate) fn read_u16(dma: &dyn Dma, base: u64, offset: u32) -> Result<u16, Malformed> {
    let mut bytes = [0; 2];
    dma.read(address(base, offset)?, &mut bytes)?;
    Ok(u16::from_le_bytes(bytes))
}

/// Writes two bytes at `base + offset`, little-endian.
pub(crate) fn write_u16(dma: &mut dyn Dma, base: u64, offset: u32, value: u16) -> Result<(), Malformed> {
    Ok(dma.write(address(base, offset)?, &value.to_le_bytes())?)
}
