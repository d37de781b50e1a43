//! What a kernel's file is, by its own header: a zImage, a uImage or an ELF file; or a raw image, if its owner says
//! where it goes. What comes out of [`Kernel::parse`] lies in the guest's RAM and in no place twice, and begins in
//! itself.
//!
//! Sources: the zImage's header, see [`ZImage`]; U-Boot's `include/image.h` for the uImage's ("legacy image"); the ELF
//! specification, with the ARM supplement (ARM IHI 0044) for the bit of an entry point that selects T32.

use alloc::vec::Vec;
use core::fmt;

use crate::{ZImage, ZImageError};

/// Where a guest's RAM begins, as on QEMU's `virt`.
pub const RAM_START: u32 = 0x4000_0000;
/// The most pieces of a kernel.
pub const MAX_PIECES: usize = 16;

/// A run of memory that a kernel starts with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece<'a> {
    /// Where it goes: a guest physical address.
    pub start: u32,
    /// What it holds.
    pub data: &'a [u8],
    /// So many bytes behind that are 0.
    pub zeroes: u32,
}

impl Piece<'_> {
    /// All of its bytes.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.data.len() as u64 + self.zeroes as u64
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The address behind it.
    const fn end(&self) -> u64 {
        self.start as u64 + self.len()
    }
}

/// A kernel that goes to certain addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FixedKernel<'a> {
    /// What it was taken for.
    pub kind: Kind,
    /// Its pieces, of which no two overlap; all are in RAM.
    pub pieces: Vec<Piece<'a>>,
    /// Where the processor starts. Bit 0 selects the state, as in a branch: 0 for A32, a multiple of four; 1 for T32.
    pub entry: u32,
}

/// A kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kernel<'a> {
    /// A zImage, which runs anywhere.
    ZImage(&'a [u8]),
    /// Anything else.
    Fixed(FixedKernel<'a>),
}

/// The kinds of file of [`FixedKernel`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A uImage.
    UImage,
    /// An ELF file.
    Elf,
    /// No kind: its owner says where it goes.
    Raw,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UImage => "uImage",
            Self::Elf => "ELF file",
            Self::Raw => "raw image",
        })
    }
}

/// What is known of a kernel beside its file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Address {
    /// Where a raw image goes.
    pub load: Option<u32>,
    /// Where the processor starts in it, in Thumb state if that is odd; `None`: at its first byte.
    pub entry: Option<u32>,
}

/// Why a file cannot be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImageError {
    /// It is of no kind that is known; as a zImage, this is wrong with it.
    Unknown(ZImageError),
    /// It is known for something else: what, and what to do.
    Other(&'static str),
    /// The file ends within its header, or within what that says that it has.
    Truncated {
        /// What it was taken for.
        kind: Kind,
        /// The part of the file that is not all there.
        what: &'static str,
        /// The bytes that this needs.
        needed: u64,
        /// The bytes of the file.
        have: usize,
    },
    /// A field has a value that cannot be used.
    Field {
        /// What it was taken for.
        kind: Kind,
        /// The field's name.
        field: &'static str,
        /// Its value.
        found: u32,
        /// What would be right.
        expected: &'static str,
    },
    /// A checksum does not hold.
    Checksum {
        /// Of what.
        what: &'static str,
    },
    /// It goes to where the guest has no RAM.
    OutsideRam {
        /// What it was taken for.
        kind: Kind,
        /// Where it would go.
        start: u32,
        /// How many bytes.
        len: u64,
        /// The bytes of RAM.
        ram: u32,
    },
    /// Two segments cover the same address.
    Overlap {
        /// Where one begins.
        first: u32,
        /// Where the other begins.
        second: u32,
    },
    /// The processor would start where nothing is.
    EntryOutside {
        /// What it was taken for.
        kind: Kind,
        /// Where that would be.
        entry: u32,
    },
    /// The processor would start between two A32 instructions.
    Misaligned {
        /// What it was taken for.
        kind: Kind,
        /// Where that would be.
        entry: u32,
    },
    /// Its owner says where it goes, but it says so itself.
    NotRaw {
        /// What it is.
        kind: &'static str,
    },
}

impl fmt::Display for ImageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(error @ ZImageError::NotZImage { .. }) => {
                write!(f, "{error}; nor a uImage or an ELF file; for a raw image, say with `load` where it goes")
            }
            Self::Unknown(error) => error.fmt(f),
            Self::Other(text) => f.write_str(text),
            Self::Truncated { kind, what, needed, have } => {
                write!(f, "the {kind} is cut short: {what} needs {needed} bytes, the file has {have}")
            }
            Self::Field { kind, field, found, expected } => {
                write!(f, "the {kind}'s field {field} is {found:#x}; expected {expected}")
            }
            Self::Checksum { what } => write!(f, "the checksum of the uImage's {what} does not hold; copy it again"),
            Self::OutsideRam { kind, start, len, ram } => write!(
                f,
                "the {kind} wants {len:#x} bytes at {start:#010x}, but the guest's RAM is {RAM_START:#010x} to {:#010x}; \
                 expected an address in there, or more `memory`",
                u64::from(RAM_START) + u64::from(*ram) - 1
            ),
            Self::Overlap { first, second } => {
                write!(f, "the ELF file's segments at {first:#010x} and {second:#010x} (physical addresses) overlap")
            }
            Self::EntryOutside { kind, entry } => {
                write!(f, "the {kind} starts at {entry:#010x}, where it has nothing; expected an address in it")
            }
            Self::Misaligned { kind, entry } => write!(
                f,
                "the {kind} starts at {entry:#010x}; expected a multiple of four for A32 code, or an odd address for \
                 T32"
            ),
            Self::NotRaw { kind } => {
                write!(f, "`load` and `entry` are for raw images, and this is {kind}, which says itself where it goes")
            }
        }
    }
}

impl core::error::Error for ImageError {}

/// Bytes at an offset, if they are there.
fn bytes<const N: usize>(file: &[u8], at: usize) -> Option<[u8; N]> {
    file.get(at..)?.first_chunk().copied()
}

impl<'a> Kernel<'a> {
    /// Says what `file` is, and where it goes in `ram` bytes of RAM.
    ///
    /// # Errors
    /// Why it cannot be started.
    pub fn parse(file: &'a [u8], address: Address, ram: u32) -> Result<Self, ImageError> {
        if address == Address::default() {
            return Self::recognise(file, ram);
        }
        let known = match bytes(file, 0) {
            Some(elf::MAGIC) => Some("an ELF file"),
            Some(uimage::MAGIC) => Some("a uImage"),
            _ => ZImage::parse(file).is_ok().then_some("a zImage"),
        };
        known.map_or_else(|| raw(file, address, ram), |kind| Err(ImageError::NotRaw { kind }))
    }

    fn recognise(file: &'a [u8], ram: u32) -> Result<Self, ImageError> {
        match bytes(file, 0) {
            Some(elf::MAGIC) => return elf::parse(file, ram),
            Some(uimage::MAGIC) => return uimage::parse(file, ram),
            Some([0x1f, 0x8b, ..]) => return Err(ImageError::Other("it is packed with gzip; unpack it (gunzip)")),
            Some([0xfd, b'7', b'z', b'X']) => return Err(ImageError::Other("it is packed with xz; unpack it (unxz)")),
            Some([0xd0, 0x0d, 0xfe, 0xed]) => {
                let fit = "it is a device tree, or a FIT image, which is one; take the kernel out of it (dumpimage)";
                return Err(ImageError::Other(fit));
            }
            _ => {}
        }
        if bytes(file, 0x38) == Some(*b"ARM\x64") {
            return Err(ImageError::Other("it is a kernel for 64-bit ARM; expected one for 32-bit ARM"));
        }
        match ZImage::parse(file) {
            Ok(_) => Ok(Self::ZImage(file)),
            Err(error) => Err(ImageError::Unknown(error)),
        }
    }

    /// What it was taken for.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::ZImage(_) => "zImage",
            Self::Fixed(kernel) => match kernel.kind {
                Kind::UImage => "uImage",
                Kind::Elf => "ELF file",
                Kind::Raw => "raw image",
            },
        }
    }
}

/// Whether pieces and entry point are as [`FixedKernel`] says.
fn checked<'a>(kind: Kind, pieces: Vec<Piece<'a>>, entry: u32, ram: u32) -> Result<Kernel<'a>, ImageError> {
    let ram_end = u64::from(RAM_START) + u64::from(ram);
    for (at, piece) in pieces.iter().enumerate() {
        if piece.start < RAM_START || piece.end() > ram_end {
            return Err(ImageError::OutsideRam { kind, start: piece.start, len: piece.len(), ram });
        }
        let other = pieces[..at]
            .iter()
            .find(|other| u64::from(other.start) < piece.end() && u64::from(piece.start) < other.end());
        if let Some(other) = other {
            return Err(ImageError::Overlap { first: other.start, second: piece.start });
        }
    }
    // The shortest first instruction.
    let (first, len) = match entry & 3 {
        0 => (entry, 4),
        2 => return Err(ImageError::Misaligned { kind, entry }),
        _ => (entry & !1, 2),
    };
    let holds = |piece: &Piece<'_>| {
        piece.start <= first && u64::from(first) + len <= u64::from(piece.start) + piece.data.len() as u64
    };
    if !pieces.iter().any(holds) {
        return Err(ImageError::EntryOutside { kind, entry });
    }
    Ok(Kernel::Fixed(FixedKernel { kind, pieces, entry }))
}

fn raw(file: &[u8], address: Address, ram: u32) -> Result<Kernel<'_>, ImageError> {
    let (kind, Some(start)) = (Kind::Raw, address.load) else {
        return Err(ImageError::Other("`entry` is for raw images, for which `load` must say where they go"));
    };
    if file.is_empty() {
        return Err(ImageError::Truncated { kind, what: "a first instruction", needed: 4, have: 0 });
    }
    let piece = Piece { start, data: file, zeroes: 0 };
    checked(kind, Vec::from([piece]), address.entry.unwrap_or(start), ram)
}

mod elf {
    use super::{ImageError, Kernel, Kind, MAX_PIECES, Piece, Vec, bytes, checked};

    pub(super) const MAGIC: [u8; 4] = *b"\x7fELF";
    const KIND: Kind = Kind::Elf;
    const HEADER_BYTES: usize = 52;
    const SEGMENT_BYTES: usize = 32;
    const PT_LOAD: u32 = 1;

    fn half(file: &[u8], at: usize) -> u32 {
        bytes(file, at).map_or(0, |b| u16::from_le_bytes(b).into())
    }

    fn word(file: &[u8], at: usize) -> u32 {
        bytes(file, at).map_or(0, u32::from_le_bytes)
    }

    const fn wrong(field: &'static str, found: u32, expected: &'static str) -> ImageError {
        ImageError::Field { kind: KIND, field, found, expected }
    }

    /// By physical addresses, as a loader without an MMU does it.
    pub(super) fn parse(file: &[u8], ram: u32) -> Result<Kernel<'_>, ImageError> {
        let have = file.len();
        let within = |what, needed: u64| {
            if needed <= have as u64 { Ok(()) } else { Err(ImageError::Truncated { kind: KIND, what, needed, have }) }
        };
        within("its header", HEADER_BYTES as u64)?;
        match (file[4], file[5]) {
            (1, 1) => {}
            (1, data) => return Err(wrong("EI_DATA", data.into(), "1, little-endian")),
            (class, _) => return Err(wrong("EI_CLASS", class.into(), "1, 32-bit")),
        }
        match (half(file, 18), half(file, 16)) {
            (40, 2) => {}
            (40, kind) => return Err(wrong("e_type", kind, "2, an executable at fixed addresses")),
            (machine, _) => return Err(wrong("e_machine", machine, "40, ARM")),
        }
        let (table, size, count) = (word(file, 28), half(file, 42), half(file, 44));
        if size as usize != SEGMENT_BYTES {
            return Err(wrong("e_phentsize", size, "32"));
        }
        within("its table of segments", u64::from(table) + u64::from(count) * SEGMENT_BYTES as u64)?;
        let entry = word(file, 24);
        let mut start = entry;
        let mut pieces = Vec::new();
        for segment in file[table as usize..].chunks_exact(SEGMENT_BYTES).take(count as usize) {
            let field = |index: usize| word(segment, 4 * index);
            let (offset, va, pa, in_file, in_memory) = (field(1), field(2), field(3), field(4), field(5));
            if field(0) != PT_LOAD || in_memory == 0 {
                continue;
            }
            if pieces.len() == MAX_PIECES {
                return Err(wrong("e_phnum", count, "16 segments to load at most"));
            }
            let zeroes = in_memory.checked_sub(in_file).ok_or(wrong(
                "p_filesz",
                in_file,
                "no more than the segment's p_memsz",
            ))?;
            within("a segment", u64::from(offset) + u64::from(in_file))?;
            // The entry point is a virtual address (bit 0 apart). Some linkers give a physical one.
            if (entry & !1).wrapping_sub(va) < in_memory {
                start = entry.wrapping_sub(va).wrapping_add(pa);
            }
            pieces.push(Piece { start: pa, data: &file[offset as usize..][..in_file as usize], zeroes });
        }
        if pieces.is_empty() {
            return Err(wrong("e_phnum", count, "a segment to load at least"));
        }
        checked(KIND, pieces, start, ram)
    }
}

mod uimage {
    use super::{ImageError, Kernel, Kind, Piece, Vec, bytes, checked};

    pub(super) const MAGIC: [u8; 4] = 0x2705_1956u32.to_be_bytes();
    const KIND: Kind = Kind::UImage;
    const HEADER_BYTES: usize = 64;

    /// The checksum of zip and Ethernet (polynomial 0x04c11db7, reflected).
    pub(super) fn crc32(parts: &[&[u8]]) -> u32 {
        const NIBBLES: [u32; 16] = {
            let mut table = [0; 16];
            let mut index = 0;
            while index < 16 {
                let mut value = index as u32;
                let mut bit = 0;
                while bit < 4 {
                    value = if value & 1 != 0 { value >> 1 ^ 0xedb8_8320 } else { value >> 1 };
                    bit += 1;
                }
                table[index] = value;
                index += 1;
            }
            table
        };
        let step = |crc: u32, nibble: u32| crc >> 4 ^ NIBBLES[((crc ^ nibble) & 0xf) as usize];
        !parts
            .iter()
            .flat_map(|part| part.iter())
            .fold(u32::MAX, |crc, &byte| step(step(crc, byte.into()), u32::from(byte) >> 4))
    }

    pub(super) fn parse(file: &[u8], ram: u32) -> Result<Kernel<'_>, ImageError> {
        let truncated = |what, needed| ImageError::Truncated { kind: KIND, what, needed, have: file.len() };
        let Some((header, rest)) = file.split_at_checked(HEADER_BYTES) else {
            return Err(truncated("its header", HEADER_BYTES as u64));
        };
        let word = |index: usize| bytes(header, 4 * index).map_or(0, u32::from_be_bytes);
        let (header_crc, size, load, entry, data_crc) = (word(1), word(3), word(4), word(5), word(6));
        // Its own checksum counts as 0.
        if crc32(&[&header[..4], &[0; 4], &header[8..]]) != header_crc {
            return Err(ImageError::Checksum { what: "header" });
        }
        let field = |at: usize, field, right: &[u8], expected| match header[at] {
            found if right.contains(&found) => Ok(()),
            found => Err(ImageError::Field { kind: KIND, field, found: found.into(), expected }),
        };
        field(29, "ih_arch", &[2], "2, ARM")?;
        field(30, "ih_type", &[1, 2], "2, a kernel, or 1, a standalone program")?;
        field(31, "ih_comp", &[0], "0, not compressed; make it so (mkimage -C none)")?;
        let data = rest.get(..size as usize).ok_or(truncated("its data", HEADER_BYTES as u64 + u64::from(size)))?;
        if crc32(&[data]) != data_crc {
            return Err(ImageError::Checksum { what: "data" });
        }
        checked(KIND, Vec::from([Piece { start: load, data, zeroes: 0 }]), entry, ram)
    }
}

#[cfg(test)]
mod tests;
