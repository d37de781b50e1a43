//! The header of a flattened device tree, as far as it tells one from another file (Devicetree Specification v0.4,
//! §5.2).

use core::fmt;

/// The magic number at the start, big-endian.
const MAGIC: u32 = 0xd00d_feed;
/// Bytes of the header of version 17.
const HEADER: u32 = 40;

/// Why a file is not a flattened device tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DtbError {
    /// It does not begin with the magic number.
    NotDtb,
    /// The file is shorter than its header says, or the header says less than its own length.
    Size {
        /// The size by the header, in bytes.
        size: u32,
        /// The file's size in bytes.
        have: usize,
    },
}

impl fmt::Display for DtbError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotDtb => {
                write!(f, "not a device tree: it does not begin with {MAGIC:#010x}; `dtc -O dtb` makes one")
            }
            Self::Size { size, have } => {
                write!(f, "the device tree is cut short: its header says {size} bytes, the file has {have}")
            }
        }
    }
}

impl core::error::Error for DtbError {}

/// Checks that a file is a flattened device tree, by its header.
///
/// # Errors
/// If it is something else, or shorter than its header says.
pub fn check(file: &[u8]) -> Result<(), DtbError> {
    let word = |offset: usize| Some(u32::from_be_bytes(file.get(offset..offset + 4)?.try_into().ok()?));
    if word(0) != Some(MAGIC) {
        return Err(DtbError::NotDtb);
    }
    let size = word(4).unwrap_or(0);
    if size < HEADER || u64::from(size) > file.len() as u64 {
        return Err(DtbError::Size { size, have: file.len() });
    }
    Ok(())
}
