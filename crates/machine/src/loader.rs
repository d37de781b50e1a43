//! Where the parts of a Linux guest go in its memory.
//!
//! The rules are the kernel's (Documentation/arm/booting.rst): the `zImage` anywhere in the first 128 MiB, with room
//! to decompress below its final address; the initial RAM disk and the device tree out of the way of both, within
//! lowmem. The places are QEMU's, so that a guest behaves as it does there: kernel at 64 KiB, initial RAM disk at half
//! the memory but at most 128 MiB up, device tree behind it.

use core::fmt;

use spica_addr::GuestPa;

use crate::map;

/// The kernel's offset in RAM: QEMU's.
const KERNEL_OFFSET: u32 = 0x1_0000;
/// The highest offset of the initial RAM disk.
const MAX_INITRD_OFFSET: u32 = 128 << 20;
const PAGE: u32 = 4096;

const MAGIC_OFFSET: usize = 0x24;
const MAGIC: u32 = 0x016f_2818;
const START_OFFSET: usize = 0x28;
const END_OFFSET: usize = 0x2c;

/// Where things go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Placement {
    /// The kernel image, and its entry point.
    pub kernel: GuestPa,
    /// The initial RAM disk; where it would be, if there is none.
    pub initrd: GuestPa,
    /// The device tree.
    pub dtb: GuestPa,
}

/// Why a guest cannot be loaded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LoadError {
    /// The file is too short to have a `zImage` header: its length in bytes.
    TooShort(usize),
    /// The magic number of a `zImage` is missing: this stands in its place.
    NotZImage(u32),
    /// The image says that it is this many bytes long, and the file has fewer.
    Truncated {
        /// The length in bytes by the image's header.
        stated: u32,
        /// The length in bytes of the file.
        actual: usize,
    },
    /// The image's header has its end before its start, or no room for itself in between.
    BadExtent {
        /// The start by the header.
        start: u32,
        /// The end by the header.
        end: u32,
    },
    /// The kernel reaches into the place of the initial RAM disk.
    KernelTooBig {
        /// The length of the kernel in bytes.
        len: usize,
        /// The bytes that there are below the initial RAM disk.
        room: u32,
    },
    /// Initial RAM disk and device tree reach beyond the end of RAM.
    TooLittleRam {
        /// The bytes of RAM that there are.
        ram: u32,
        /// The bytes of RAM that would do.
        needed: u64,
    },
    /// This many bytes of RAM are more than fit below 4 GiB.
    TooMuchRam(u32),
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::TooShort(len) => {
                write!(
                    f,
                    "the kernel has {len} bytes: too short for an ARM zImage, whose header has {END_OFFSET} and more"
                )
            }
            Self::NotZImage(found) => write!(
                f,
                "the kernel is no ARM zImage: {found:#010x} at offset {MAGIC_OFFSET:#x}, where {MAGIC:#010x} is expected; \
                 a raw Image, uImage or ELF file has to be a zImage (arch/arm/boot/zImage, or a distribution's vmlinuz)"
            ),
            Self::Truncated { stated, actual } => {
                write!(
                    f,
                    "the kernel is cut short: its header states {stated} bytes, the file has {actual}; copy it again"
                )
            }
            Self::BadExtent { start, end } => {
                write!(f, "the kernel's header is damaged: it ends at {end:#x}, and starts at {start:#x}")
            }
            Self::KernelTooBig { len, room } => write!(
                f,
                "the kernel has {len} bytes, and there are {room} for it: it goes below the initial RAM disk, which \
                 starts at half of the memory, but at most {} MiB up; give the guest more memory, or a smaller kernel",
                MAX_INITRD_OFFSET >> 20
            ),
            Self::TooLittleRam { ram, needed } => write!(
                f,
                "{} MiB of memory are too few for this guest: its initial RAM disk and device tree need {} MiB",
                ram >> 20,
                needed.div_ceil(1 << 20)
            ),
            Self::TooMuchRam(ram) => {
                write!(f, "{} MiB of memory are more than fit below 4 GiB: {} MiB do", ram >> 20, map::MAX_RAM >> 20)
            }
        }
    }
}

impl core::error::Error for LoadError {}

fn word(image: &[u8], offset: usize) -> Result<u32, LoadError> {
    let bytes = image.get(offset..).and_then(|rest| rest.first_chunk()).ok_or(LoadError::TooShort(image.len()))?;
    Ok(u32::from_le_bytes(*bytes))
}

/// Checks that `kernel` is a complete `zImage`.
fn check_kernel(kernel: &[u8]) -> Result<(), LoadError> {
    let (magic, start, end) = (word(kernel, MAGIC_OFFSET)?, word(kernel, START_OFFSET)?, word(kernel, END_OFFSET)?);
    if magic != MAGIC {
        return Err(LoadError::NotZImage(magic));
    }
    let fits = |stated: &u32| *stated as usize >= END_OFFSET + 4;
    let stated = end.checked_sub(start).filter(fits).ok_or(LoadError::BadExtent { start, end })?;
    if (kernel.len() as u64) < u64::from(stated) {
        return Err(LoadError::Truncated { stated, actual: kernel.len() });
    }
    Ok(())
}

/// Decides where the kernel, an initial RAM disk of `initrd_len` bytes (0: none) and a device tree of `dtb_len` bytes
/// go in `ram_size` bytes of RAM.
///
/// # Errors
///
/// If the kernel is no complete `zImage`, or the memory is too small or too big.
pub fn plan(kernel: &[u8], initrd_len: u32, dtb_len: u32, ram_size: u32) -> Result<Placement, LoadError> {
    check_kernel(kernel)?;
    if ram_size > map::MAX_RAM {
        return Err(LoadError::TooMuchRam(ram_size));
    }
    let initrd = (ram_size / 2).min(MAX_INITRD_OFFSET) & !(PAGE - 1);
    let room = initrd.saturating_sub(KERNEL_OFFSET);
    if kernel.len() as u64 > u64::from(room) {
        return Err(LoadError::KernelTooBig { len: kernel.len(), room });
    }
    let dtb = (u64::from(initrd) + u64::from(initrd_len)).next_multiple_of(PAGE.into());
    let end = dtb + u64::from(dtb_len);
    if end > u64::from(ram_size) {
        // More memory moves the initial RAM disk up as well, until it is as high as it gets.
        let highest = u64::from(MAX_INITRD_OFFSET);
        let above = end - u64::from(initrd);
        return Err(LoadError::TooLittleRam { ram: ram_size, needed: above + above.min(highest) });
    }
    // All of it is below `ram_size`, so it fits in 32 bits.
    let at = |offset: u32| map::RAM.wrapping_add(offset);
    Ok(Placement { kernel: at(KERNEL_OFFSET), initrd: at(initrd), dtb: at(dtb as u32) })
}

#[cfg(test)]
mod tests;
