//! What firmware begins with. A core starts at the first word of flash, in A32 state: SCTLR.TE is 0 at reset on these
//! boards (ARM ARM B1.9.1, `TakeReset()`; B4.1.130). Files for other processors are told by that word, rather than by
//! silence for ever.

use core::fmt;

/// What the first word of flash is instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirmwareError {
    /// The vector table of a Cortex-M, which has addresses: that of the stack, and where it starts, in Thumb state.
    Addresses {
        /// The first word.
        stack: u32,
        /// The second.
        reset: u32,
    },
    /// A branch in T32, as in a vector table for SCTLR.TE = 1.
    T32 {
        /// The first word.
        word: u32,
    },
    /// A branch in A64.
    A64 {
        /// The first word.
        word: u32,
    },
    /// What erased flash reads as.
    Erased,
    /// An instruction under a condition, with flags that nobody has set.
    Conditional {
        /// The first word.
        word: u32,
    },
}

/// Whether firmware may begin as `file` does.
///
/// # Errors
/// What it begins with instead.
pub fn check(file: &[u8]) -> Result<(), FirmwareError> {
    let word = |at: usize| file.get(4 * at..)?.first_chunk().copied().map(u32::from_le_bytes);
    let Some(first) = word(0) else { return Ok(()) };
    // `ANDEQ R0, R0, R0` does nothing, whatever the flags are.
    if first == 0 {
        return Ok(());
    }
    // B.W and LDR.W to the PC (A8.8.18 T4, A8.8.64 T2); the first half-word is the lower one.
    let t32 = first & 0xd000_f800 == 0x9000_f000 || first & 0xf000_ffff == 0xf000_f8df;
    match first >> 28 {
        0xf if t32 => Err(FirmwareError::T32 { word: first }),
        0xf if first == u32::MAX => Err(FirmwareError::Erased),
        0xe | 0xf => Ok(()),
        _ => Err(match (word(1), word(2), word(3)) {
            (Some(reset), Some(nmi), Some(fault)) if is_table([first, reset, nmi, fault]) => {
                FirmwareError::Addresses { stack: first, reset }
            }
            _ if t32 => FirmwareError::T32 { word: first },
            // B (ARM ARM for ARMv8-A, C6.2.25).
            _ if first >> 26 == 0b000101 => FirmwareError::A64 { word: first },
            _ => FirmwareError::Conditional { word: first },
        }),
    }
}

/// Whether these are the stack and the first three vectors of a Cortex-M (ARMv7-M ARM B1.5.3): handlers in T32, close
/// to each other.
fn is_table([stack, handlers @ ..]: [u32; 4]) -> bool {
    const CLOSE: u32 = 16 << 20;
    stack & 3 == 0 && handlers.iter().all(|&at| at & 1 != 0 && at.abs_diff(handlers[0]) < CLOSE)
}

impl fmt::Display for FirmwareError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Addresses { stack, reset } => write!(
                f,
                "it begins with the vector table of a Cortex-M: {stack:#010x} for its stack, {reset:#010x} to start at"
            )?,
            Self::T32 { word } => write!(f, "it begins with a branch in T32, {word:#010x}")?,
            Self::A64 { word } => write!(f, "it begins with a branch in A64, {word:#010x}: it is for 64-bit ARM")?,
            Self::Erased => write!(f, "it begins with 0xffffffff, as flash does that was erased")?,
            Self::Conditional { word } => {
                write!(f, "its first word is {word:#010x}, an instruction under a condition that nothing has set")?;
            }
        }
        write!(f, "; expected A32 code, in which an ARMv7-A core starts at the first word of flash")
    }
}

impl core::error::Error for FirmwareError {}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn of(words: &[u32]) -> Result<(), FirmwareError> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        check(&bytes)
    }

    #[test]
    fn firmware_for_this_processor() {
        // U-Boot, UEFI; a mode and masks, the PC from a literal, something that does nothing.
        for first in [0xea00_00b8, 0xea00_03fe, 0xf10c_01d3, 0xe59f_f018, 0xe1a0_0000, 0] {
            assert_eq!(of(&[first, 0xe59f_f014, 0xe59f_f014, 0xe59f_f014]), Ok(()), "{first:#x}");
            assert_eq!(of(&[first]), Ok(()));
        }
        assert_eq!(check(&[0xff; 3]), Ok(()));
    }

    #[test]
    fn vectors_of_other_processors() {
        let (stack, reset) = (0x2002_0000, 0x0800_01c5);
        assert_eq!(of(&[stack, reset, 0x0800_0201, 0x0800_0203]), Err(FirmwareError::Addresses { stack, reset }));
        // In A32, or far away, they are no handlers.
        for vectors in [[stack, reset, 0x0800_0200, 0x0800_0203], [stack, reset, 0x0a00_0201, 0x0800_0203]] {
            assert_eq!(of(&vectors), Err(FirmwareError::Conditional { word: stack }));
        }
        // b.w .+0x1c4; b.w backwards; ldr.w pc, [pc, #0x1c]
        for word in [0xb8e0_f000, 0xbffe_f7ff, 0xf01c_f8df] {
            assert_eq!(of(&[word; 8]), Err(FirmwareError::T32 { word }));
        }
        assert_eq!(of(&[0x1400_000a, 0xd503_201f]), Err(FirmwareError::A64 { word: 0x1400_000a }));
        assert_eq!(of(&[u32::MAX; 4]), Err(FirmwareError::Erased));
    }

    #[test]
    fn what_is_said_names_what_is_expected() {
        let error = of(&[0x1400_000a]).unwrap_err();
        let expected = "it begins with a branch in A64, 0x1400000a: it is for 64-bit ARM; expected A32 code, in which an \
                        ARMv7-A core starts at the first word of flash";
        assert_eq!(alloc::string::ToString::to_string(&error), expected);
    }
}
