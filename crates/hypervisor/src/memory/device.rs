//! Windows to the host's devices, and access to their registers.
//!
//! Each window is one megabyte of the hypervisor region, mapped as device memory, privileged, never executable. A
//! driver works through its window whatever table is current: the UART is used in the middle of a guest's trap as well
//! as in the host address space.

use core::fmt;

use spica_addr::HostPa;
use spica_drivers::hardware::Registers;

use super::host_space;
use crate::arch::fixup;
use crate::arch::interrupts::IrqCell;
use crate::layout::{DEVICE_WINDOWS, DEVICES_START, MEGABYTE};

/// The windows in use, in order: which megabyte of physical addresses each shows.
struct Windows {
    megabytes: [u32; DEVICE_WINDOWS],
    used: usize,
    /// Guests' tables hold copies of the windows: no more can be added.
    sealed: bool,
}

static WINDOWS: IrqCell<Windows> = IrqCell::new(Windows { megabytes: [0; DEVICE_WINDOWS], used: 0, sealed: false });

/// Why a device could not be mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapError {
    /// All windows are in use: `layout::DEVICE_WINDOWS` is too small for the board.
    NoWindow,
    /// The registers cross from one megabyte to the next.
    Crosses,
    /// Guests exist already, and their tables would lack the window.
    Sealed,
}

impl fmt::Display for MapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoWindow => write!(f, "all {DEVICE_WINDOWS} device windows are in use"),
            Self::Crosses => write!(f, "the registers cross a megabyte boundary, which no window can show"),
            Self::Sealed => write!(f, "device windows cannot be added once guests exist"),
        }
    }
}

/// Makes the `len` bytes of registers at `pa` accessible, in a window that is shared with other devices of the same
/// megabyte.
///
/// # Errors
/// See [`MapError`].
pub fn map(pa: HostPa, len: u32) -> Result<Mmio, MapError> {
    let megabyte = pa.0 / MEGABYTE;
    if len == 0 || (pa.0 % MEGABYTE).saturating_add(len) > MEGABYTE {
        return Err(MapError::Crosses);
    }
    let index = WINDOWS.with(|windows| {
        if let Some(index) = windows.megabytes[..windows.used].iter().position(|&shown| shown == megabyte) {
            return Ok(index);
        }
        if windows.sealed {
            return Err(MapError::Sealed);
        }
        let index = windows.used;
        *windows.megabytes.get_mut(index).ok_or(MapError::NoWindow)? = megabyte;
        windows.used += 1;
        host_space::map_device_megabyte(DEVICES_START + index as u32 * MEGABYTE, megabyte * MEGABYTE);
        Ok(index)
    })?;
    Ok(Mmio { base: DEVICES_START + index as u32 * MEGABYTE + pa.0 % MEGABYTE, len })
}

/// No windows from here on: the caller is about to copy the hypervisor region into guests' tables.
pub fn seal() {
    WINDOWS.with(|windows| windows.sealed = true);
}

/// The registers of one device.
#[derive(Clone, Copy, Debug)]
pub struct Mmio {
    base: u32,
    len: u32,
}

impl Registers for Mmio {
    #[inline]
    fn address(&self, offset: u32, size: u32) -> u32 {
        assert!(
            offset.is_multiple_of(size) && offset.checked_add(size).is_some_and(|end| end <= self.len),
            "no register {offset:#x}"
        );
        self.base + offset
    }

    #[inline]
    fn read(&self, offset: u32) -> u32 {
        // SAFETY: a register within the mapped window, aligned.
        unsafe { (self.address(offset, 4) as *const u32).read_volatile() }
    }

    #[inline]
    fn write(&self, offset: u32, value: u32) {
        // SAFETY: a register within the mapped window, aligned; drivers write what their device's manual allows.
        unsafe { (self.address(offset, 4) as *mut u32).write_volatile(value) }
    }

    #[inline]
    fn read_byte(&self, offset: u32) -> u8 {
        // SAFETY: as for `read`.
        unsafe { (self.address(offset, 1) as *const u8).read_volatile() }
    }

    #[inline]
    fn write_byte(&self, offset: u32, value: u8) {
        // SAFETY: as for `write`.
        unsafe { (self.address(offset, 1) as *mut u8).write_volatile(value) }
    }

    #[inline]
    fn try_read(&self, offset: u32) -> Option<u32> {
        // SAFETY: as for `read`; what reading does to the device is as much the driver's business as there.
        unsafe { fixup::read_word(self.address(offset, 4)) }
    }
}
