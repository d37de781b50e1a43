//! The header of a zImage, the format that the Linux ARM boot protocol loads.
//!
//! Its first 36 bytes are instructions; then come the magic number and the addresses of its start (0 when it is
//! position-independent) and of its end (`Documentation/arch/arm/booting.rst` and `arch/arm/boot/compressed/head.S` in
//! Linux).

use core::fmt;

/// The header of a zImage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZImage {
    /// The address that it wants to be loaded at; 0 where any will do.
    pub start: u32,
    /// The bytes from its start to its end as the header says; the file has at least as many.
    pub size: u32,
}

/// Why a file is not a kernel that can be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZImageError {
    /// The magic number is missing: `found` is the word in its place, if the file is long enough to have one.
    NotZImage {
        /// The word at offset 0x24.
        found: Option<u32>,
    },
    /// The header's end does not lie after its start.
    BadHeader {
        /// The header's start.
        start: u32,
        /// The header's end.
        end: u32,
    },
    /// The file is shorter than its header says.
    Truncated {
        /// The size by the header, in bytes.
        size: u32,
        /// The file's size in bytes.
        have: usize,
    },
}

impl fmt::Display for ZImageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotZImage { found: Some(found) } => write!(
                f,
                "not an ARM Linux zImage: the word at offset 0x24 is {found:#010x} instead of {:#010x}",
                ZImage::MAGIC
            ),
            Self::NotZImage { found: None } => write!(f, "not an ARM Linux zImage: it is shorter than a header"),
            Self::BadHeader { start, end } => {
                write!(f, "its zImage header is corrupt: it ends at {end:#x}, but starts at {start:#x}")
            }
            Self::Truncated { size, have } => {
                write!(f, "the zImage is cut short: its header says {size} bytes, the file has {have}")
            }
        }
    }
}

impl core::error::Error for ZImageError {}

impl ZImage {
    /// The magic number at offset 0x24.
    pub const MAGIC: u32 = 0x016f_2818;

    /// Reads the header of a kernel's file.
    ///
    /// # Errors
    /// A [`ZImageError`] if the file is something else, or shorter than its header says.
    pub fn parse(file: &[u8]) -> Result<Self, ZImageError> {
        let word = |offset: usize| Some(u32::from_le_bytes(file.get(offset..offset + 4)?.try_into().ok()?));
        let (Some(start), Some(end)) = (word(0x28), word(0x2c)) else {
            return Err(ZImageError::NotZImage { found: word(0x24) });
        };
        let magic = word(0x24);
        if magic != Some(Self::MAGIC) {
            return Err(ZImageError::NotZImage { found: magic });
        }
        let size = end.checked_sub(start).filter(|&s| s >= 0x30).ok_or(ZImageError::BadHeader { start, end })?;
        if (file.len() as u64) < u64::from(size) {
            return Err(ZImageError::Truncated { size, have: file.len() });
        }
        Ok(Self { start, size })
    }
}
