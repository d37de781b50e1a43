//! Where the parts of a guest go in its memory.
//!
//! For Linux, the rules are the kernel's (Documentation/arm/booting.rst): the `zImage` anywhere in the first 128 MiB,
//! with room to decompress below its final address; the initial RAM disk and the device tree out of the way of both,
//! within lowmem. The places are QEMU's, so that a guest behaves as it does there: kernel at 64 KiB, initial RAM disk
//! at half the memory but at most 128 MiB up, device tree behind it.

use core::fmt;

use spica_addr::GuestPa;

use crate::map;

/// The kernel's offset in RAM: QEMU's.
const KERNEL_OFFSET: u32 = 0x1_0000;
/// The highest offset of the initial RAM disk.
const MAX_INITRD_OFFSET: u32 = 128 << 20;
const PAGE: u32 = 4096;

/// What is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program<'a> {
    /// A `zImage` of so many bytes, complete: it goes where QEMU puts it, and is entered at its first byte.
    ZImage(u32),
    /// Pieces at addresses of their own, in RAM: start and length in bytes.
    Fixed {
        /// Where they go.
        pieces: &'a [(GuestPa, u32)],
        /// Where the processor starts; bit 0 selects the state.
        entry: GuestPa,
    },
    /// What is in flash, entered at its first byte. It finds the device tree at the start of RAM.
    Firmware,
}

/// Where things go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Placement {
    /// Where the processor starts, in Thumb state if bit 0 is set; a `zImage` goes there.
    pub entry: GuestPa,
    /// The initial RAM disk; where it would be, if there is none.
    pub initrd: GuestPa,
    /// The device tree.
    pub dtb: GuestPa,
}

/// Why a guest cannot be loaded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LoadError {
    /// The kernel reaches into the place of the initial RAM disk.
    KernelTooBig {
        /// The length of the kernel in bytes.
        len: u32,
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
    /// A piece of the program is not all in RAM.
    OutsideRam {
        /// Where it would go.
        start: GuestPa,
        /// Its length in bytes.
        len: u32,
        /// The bytes of RAM that there are.
        ram: u32,
    },
    /// There is no room for RAM disk and device tree beside the program's pieces.
    NoRoom {
        /// The bytes that they have.
        needed: u64,
    },
    /// This many bytes of RAM are more than fit below 4 GiB.
    TooMuchRam(u32),
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
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
            Self::OutsideRam { start, len, ram } => write!(
                f,
                "the kernel wants {len:#x} bytes at {start}, and RAM is at {} to {:#010x}; link it to an address there, or \
                 give the guest more memory",
                map::RAM,
                u64::from(map::RAM.0) + u64::from(ram) - 1
            ),
            Self::NoRoom { needed } => write!(
                f,
                "there is no room for the {needed} bytes of initial RAM disk and device tree beside the kernel; give the \
                 guest more memory"
            ),
            Self::TooMuchRam(ram) => {
                write!(f, "{} MiB of memory are more than fit below 4 GiB: {} MiB do", ram >> 20, map::MAX_RAM >> 20)
            }
        }
    }
}

impl core::error::Error for LoadError {}

/// Decides where the program, an initial RAM disk of `initrd_len` bytes (0: none) and a device tree of `dtb_len` bytes
/// go in `ram_size` bytes of RAM.
///
/// # Errors
/// If the memory is too small or too big, or a piece of the program is not all in it.
pub fn plan(program: &Program<'_>, initrd_len: u32, dtb_len: u32, ram_size: u32) -> Result<Placement, LoadError> {
    if ram_size > map::MAX_RAM {
        return Err(LoadError::TooMuchRam(ram_size));
    }
    match *program {
        Program::ZImage(len) => plan_zimage(len, initrd_len, dtb_len, ram_size),
        Program::Fixed { pieces, entry } => plan_fixed(pieces, entry, initrd_len, dtb_len, ram_size),
        Program::Firmware if dtb_len > ram_size => {
            Err(LoadError::TooLittleRam { ram: ram_size, needed: dtb_len.into() })
        }
        // As QEMU does for firmware; a RAM disk would be its own business.
        Program::Firmware => Ok(Placement { entry: map::FLASH[0], initrd: map::RAM, dtb: map::RAM }),
    }
}

fn plan_zimage(len: u32, initrd_len: u32, dtb_len: u32, ram_size: u32) -> Result<Placement, LoadError> {
    let initrd = (ram_size / 2).min(MAX_INITRD_OFFSET) & !(PAGE - 1);
    let room = initrd.saturating_sub(KERNEL_OFFSET);
    if len > room {
        return Err(LoadError::KernelTooBig { len, room });
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
    Ok(Placement { entry: at(KERNEL_OFFSET), initrd: at(initrd), dtb: at(dtb as u32) })
}

/// RAM disk and device tree go to where those of a `zImage` go, if nothing of the program is there; else behind the
/// piece that is in the way, or behind the next one.
fn plan_fixed(
    pieces: &[(GuestPa, u32)],
    entry: GuestPa,
    initrd_len: u32,
    dtb_len: u32,
    ram_size: u32,
) -> Result<Placement, LoadError> {
    let offsets = |&(start, len): &(GuestPa, u32)| {
        let from = u64::from(start.0.wrapping_sub(map::RAM.0));
        (from, from + u64::from(len))
    };
    if let Some(&(start, len)) = pieces.iter().find(|piece| offsets(piece).1 > u64::from(ram_size)) {
        return Err(LoadError::OutsideRam { start, len, ram: ram_size });
    }
    let page = u64::from(PAGE);
    let needed = u64::from(initrd_len).next_multiple_of(page) + u64::from(dtb_len);
    let mut at = u64::from((ram_size / 2).min(MAX_INITRD_OFFSET) & !(PAGE - 1));
    // Each round passes a piece for good.
    while let Some((_, end)) = pieces.iter().map(offsets).find(|&(from, end)| from < at + needed && at < end) {
        at = end.next_multiple_of(page);
    }
    if at + needed > u64::from(ram_size) {
        return Err(LoadError::NoRoom { needed });
    }
    // All of it is below `ram_size`.
    let initrd = map::RAM.wrapping_add(at as u32);
    Ok(Placement { entry, initrd, dtb: initrd.wrapping_add(initrd_len.next_multiple_of(PAGE)) })
}

#[cfg(test)]
mod tests;
