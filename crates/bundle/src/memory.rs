//! Sizes of guest memory, as people write them: `256M`.

use core::fmt;

/// The least memory of a guest: 16 MiB. A kernel and its decompressor do not start in less.
pub const MIN_MEMORY: u32 = 16 << 20;

/// The most memory of a guest: 3 GiB, from the start of the guest machine's RAM to the end of the address space (less
/// the last megabyte, so that the size has 32 bits and its end does, too).
pub const MAX_MEMORY: u32 = (3 << 30) - (1 << 20);

const MIB: u64 = 1 << 20;

/// Why a text is not the size of a guest's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryError {
    /// It is not a number with an optional `K`, `M` or `G`.
    NotASize,
    /// It is not a multiple of 1 MiB, the unit in which memory is given to guests.
    NotMegabytes,
    /// It is less than [`MIN_MEMORY`] or more than [`MAX_MEMORY`].
    OutOfRange,
}

impl fmt::Display for MemoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotASize => write!(f, "expected a size such as \"256M\" or \"1G\""),
            Self::NotMegabytes => write!(f, "expected a whole number of megabytes, such as \"256M\""),
            Self::OutOfRange => {
                let mib = |bytes: u32| u64::from(bytes) / MIB;
                write!(f, "expected a size from \"{}M\" to \"{}M\"", mib(MIN_MEMORY), mib(MAX_MEMORY))
            }
        }
    }
}

impl core::error::Error for MemoryError {}

/// Bytes of a memory size: decimal digits, then `K`, `M` or `G` (powers of 1024; small letters will do), or nothing for
/// bytes.
///
/// # Errors
/// A [`MemoryError`], which says what would be right.
pub fn parse_memory(text: &str) -> Result<u32, MemoryError> {
    let (digits, unit) = match text.as_bytes().last() {
        Some(b'K' | b'k') => (&text[..text.len() - 1], 1 << 10),
        Some(b'M' | b'm') => (&text[..text.len() - 1], MIB),
        Some(b'G' | b'g') => (&text[..text.len() - 1], 1 << 30),
        _ => (text, 1),
    };
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(MemoryError::NotASize);
    }
    // Digits only: what does not parse, or overflows, is too large.
    let bytes = digits.parse::<u64>().ok().and_then(|n| n.checked_mul(unit)).ok_or(MemoryError::OutOfRange)?;
    if bytes % MIB != 0 {
        return Err(MemoryError::NotMegabytes);
    }
    u32::try_from(bytes).ok().filter(|b| (MIN_MEMORY..=MAX_MEMORY).contains(b)).ok_or(MemoryError::OutOfRange)
}
