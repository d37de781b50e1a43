//! A guest's kernel without its decompressor, for boots in which that shows nothing.
//!
//! A zImage is a decompressor with the kernel in it, packed by `xz`. The decompressor is the same code in each boot,
//! and nearly all that is executed between reset and the first process: the tests, which boot Debian dozens of times,
//! have it run in a few of these boots. For the others, the kernel is unpacked here, once, and put behind a zImage's
//! header so that it lies where the decompressor would have put it. The kernel itself is the package's, byte for byte.
//!
//! What is known of a zImage is from Linux: `Documentation/arch/arm/booting.rst` and
//! `arch/arm/boot/compressed/head.S`.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use spica_bundle::ZImage;

use crate::error::{Context, Error, Result};
use crate::needed;
use crate::project::{Project, fingerprint, read, write};

/// The program that unpacks.
const XZ: &str = "xz";

/// What the packed kernel begins with: magic bytes and flags (the .xz file format, 2.1.1). The flags say that the check
/// is a CRC32, as `scripts/xz_wrap.sh` has it; the decompressor has the magic bytes alone among its constants.
const XZ_HEADER: &[u8] = b"\xfd7zXZ\0\0\x01";

/// Where a zImage is loaded, from the start of RAM: by QEMU, and by Spica as by QEMU (`crates/machine/src/loader.rs`).
const LOADED_AT: usize = 0x1_0000;

/// What the decompressor does to find where the kernel goes (`CONFIG_AUTO_ZRELADDR`): `AND R0, R0, #0xF8000000` for the
/// start of RAM, and soon after that `ADD R4, R0, #TEXT_OFFSET`, without its immediate.
const START_OF_RAM: u32 = 0xe200_033e;
const ADD_TEXT_OFFSET: u32 = 0xe280_4000;

/// The kernel of a zImage, unpacked: a file in `build/`, made when it is not there.
///
/// # Errors
/// If the kernel is not packed by `xz`, or that program is not here.
pub fn kernel(project: &Project, packed: &Path) -> Result<PathBuf> {
    let bytes = read(packed)?;
    let file = project.build(&format!("unpacked/{}", &fingerprint(&[&bytes])[..16]));
    if !file.is_file() {
        needed::check(&[XZ])?;
        let not = |what| Error::failed(format!("{}: cannot be unpacked: {what}", packed.display()));
        let stream = stream(&bytes).ok_or_else(|| not("no kernel in it that is packed by xz, as Debian's are"))?;
        let offset = text_offset(&bytes).ok_or_else(|| not("its decompressor does not say where the kernel goes"))?;
        let image = image(&unpack(stream)?, offset);
        write(&file, &image.ok_or_else(|| not("the kernel goes to where a zImage is loaded"))?)?;
    }
    Ok(file)
}

/// What begins as the packed kernel in a zImage; there is more behind its end.
pub(crate) fn stream(zimage: &[u8]) -> Option<&[u8]> {
    let at = zimage.windows(XZ_HEADER.len()).position(|bytes| bytes == XZ_HEADER)?;
    Some(&zimage[at..])
}

/// Where the kernel has to be, from the start of RAM.
fn text_offset(zimage: &[u8]) -> Option<usize> {
    let mut words = zimage.chunks_exact(4).map(|bytes| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]));
    words.find(|&word| word == START_OF_RAM)?;
    let add = words.take(32).find(|word| word & !0xfff == ADD_TEXT_OFFSET)?;
    // A modified immediate (ARM ARM A5.2.4).
    Some((add & 0xff).rotate_right(add >> 7 & 0x1e) as usize)
}

/// Unpacks such a stream.
///
/// # Errors
/// If it is none, or the program for that is not here.
pub(crate) fn unpack(stream: &[u8]) -> Result<Vec<u8>> {
    let context = || "cannot unpack the kernel";
    let mut child = Command::new(XZ)
        .args(["--decompress", "--stdout", "--single-stream", "--no-warn", "--quiet"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context(context)?;
    let stdin = child.stdin.take();
    let output = std::thread::scope(|scope| {
        // It stops reading behind the end of the stream.
        scope.spawn(|| stdin.is_some_and(|mut pipe| pipe.write_all(stream).is_ok()));
        child.wait_with_output()
    });
    let output = output.context(context)?;
    // Trailing garbage is a warning, status 2.
    if !matches!(output.status.code(), Some(0 | 2)) || output.stdout.is_empty() {
        return Err(Error::failed(format!("cannot unpack the kernel: {XZ} ended with {}", output.status)));
    }
    Ok(output.stdout)
}

/// A zImage that is `kernel` at its place, `offset` bytes from the start of RAM, and a branch to it. `None` if the
/// header is there.
fn image(kernel: &[u8], offset: usize) -> Option<Vec<u8>> {
    let start = offset.checked_sub(LOADED_AT).filter(|&start| start >= 0x30)?;
    let mut file = vec![0; start];
    let mut put = |at: usize, word: u32| file[at..at + 4].copy_from_slice(&word.to_le_bytes());
    // B: the offset is in words, from 8 behind the instruction (ARM ARM A8.8.18).
    put(0, 0xea00_0000 | ((start - 8) / 4) as u32);
    put(0x24, ZImage::MAGIC);
    put(0x2c, (start + kernel.len()) as u32);
    file.extend_from_slice(kernel);
    Some(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_image_is_a_zimage_with_the_kernel_at_its_place() {
        let kernel: Vec<u8> = (0..=100).collect();
        let file = image(&kernel, 0x1_8000).unwrap();
        let header = ZImage::parse(&file).unwrap();
        assert_eq!((header.start, header.size as usize), (0, file.len()));
        assert_eq!(file[0x8000..], kernel);
        let branch = u32::from_le_bytes(file[..4].try_into().unwrap());
        assert_eq!((branch >> 24, 8 + 4 * (branch & 0xff_ffff)), (0xea, 0x8000));
        assert_eq!(image(&kernel, 0x8000), None);
        assert_eq!(image(&kernel, 0x1_0000), None);
    }

    #[test]
    fn the_place_is_what_the_decompressor_computes() {
        let code = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>();
        // ADD R4, R0, #0x8000 before and #0x208000 behind the AND.
        let zimage = code(&[0xe280_4902, 0xe1a0_0000, START_OF_RAM, 0xe1a0_0000, 0xe280_4982]);
        assert_eq!(text_offset(&zimage), Some(0x20_8000));
        assert_eq!(text_offset(&zimage[..12]), None);
        assert_eq!(text_offset(&code(&[0xe280_4982])), None);
    }

    #[test]
    fn the_stream_is_found() {
        let zimage = b"decompressor\xfd7zXZ\0constants\xfd7zXZ\0\0\x01kernel";
        assert_eq!(stream(zimage), Some(&b"\xfd7zXZ\0\0\x01kernel"[..]));
        assert_eq!(stream(b"gzip"), None);
    }
}
