//! U-Boot's legacy image format, as far as scripts need it.
//!
//! A header of 64 bytes, big-endian, then the data, which begins with the lengths of its parts: for a script, one
//! length and a zero (`include/image.h` and `tools/mkimage.c` in U-Boot).

use flate2::Crc;

const MAGIC: u32 = 0x2705_1956;
const HEADER: usize = 64;
const NAME: usize = 32;
/// `IH_OS_LINUX`, `IH_ARCH_ARM`, `IH_TYPE_SCRIPT`, `IH_COMP_NONE`.
const KIND: [u8; 4] = [5, 2, 6, 0];

/// A script as U-Boot's `source` takes it. Equal scripts give equal images: the time of its making is left out.
///
/// # Panics
/// If the script is 4 GiB long or more.
#[must_use]
pub fn script(name: &str, text: &str) -> Vec<u8> {
    let length = u32::try_from(text.len()).expect("a script is short");
    let data = [&length.to_be_bytes()[..], &[0; 4], text.as_bytes()].concat();
    let mut header = Vec::with_capacity(HEADER);
    // Magic number, the header's checksum, the time, the data's length, load address, entry point, the data's checksum.
    for word in [MAGIC, 0, 0, length + 8, 0, 0, checksum(&data)] {
        header.extend_from_slice(&word.to_be_bytes());
    }
    header.extend_from_slice(&KIND);
    header.extend(name.bytes().take(NAME - 1));
    header.resize(HEADER, 0);
    // It is computed as if it were zero.
    let sum = checksum(&header);
    header[4..8].copy_from_slice(&sum.to_be_bytes());
    [header, data].concat()
}

/// CRC-32 as zlib and Ethernet have it.
fn checksum(bytes: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(bytes);
    crc.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `mkimage -A arm -O linux -T script -C none -n "a name" -d FILE` makes of `echo hello`, with the time 0.
    const GOLDEN: &str = "2705195682851457000000000000001300000000000000003db55e6f0502060061206e616d6500000000000000000000000000000000000000000000000000000000000b000000006563686f2068656c6c6f0a";

    #[test]
    fn as_mkimage_makes_it() {
        let hex: String = script("a name", "echo hello\n").iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(hex, GOLDEN);
    }

    #[test]
    fn a_long_name_is_cut() {
        let image = script(&"x".repeat(40), "");
        assert_eq!((image[62], image[63], image.len()), (b'x', 0, 72));
    }
}
