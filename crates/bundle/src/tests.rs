//! One test per thing that can be wrong with a bundle, each by the words that a user will read.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use crate::archive::{Writer, entries};
use crate::{Bundle, Kernel, MAX_MEMORY, MemoryError, Start, ZImage, parse_memory};

mod options;

/// The smallest file that is a zImage.
fn zimage() -> Vec<u8> {
    let mut file = vec![0u8; 0x40];
    file[0x24..0x28].copy_from_slice(&ZImage::MAGIC.to_le_bytes());
    file[0x2c..0x30].copy_from_slice(&0x40u32.to_le_bytes());
    file
}

const GOOD: &str = "[[guest]]\nname = \"debian\"\nkernel = \"vmlinuz\"\nmemory = \"256M\"\n";

fn archive(manifest: &str) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.dir("dir", 0o755);
    writer.file("manifest.toml", 0o644, manifest.as_bytes());
    writer.file("vmlinuz", 0o644, &zimage());
    writer.file("./initrd", 0o644, b"12345");
    writer.symlink("link", "vmlinuz");
    writer.finish()
}

#[track_caller]
fn error(bytes: &[u8]) -> String {
    Bundle::parse(bytes).expect_err("the bundle is broken").to_string()
}

#[test]
fn a_whole_bundle() {
    let text = "# two guests\n[[guest]]\nname = \"debian\"\nkernel = \"vmlinuz\"\ninitrd = \"initrd\"\n\
                append = \"console=ttyAMA0 \\\"x\\\"\"\nmemory = \"256M\"\n\n[[guest]]\nname = \"two\"\n\
                kernel = \"vmlinuz\"\nmemory = \"1G\"\n";
    let mut bytes = archive(text);
    bytes.extend_from_slice(&[0; 512]); // A boot loader's padding.
    let bundle = Bundle::parse(&bytes).unwrap();
    let [debian, two] = bundle.guests() else { panic!("two guests") };
    assert_eq!(debian.name, "debian");
    assert_eq!(debian.start, Start::Kernel(Kernel::ZImage(&zimage())));
    assert_eq!(debian.initrd, Some(&b"12345"[..]));
    assert_eq!(debian.append, "console=ttyAMA0 \"x\"");
    assert_eq!(debian.memory_bytes, 256 << 20);
    assert_eq!((two.name.as_str(), two.initrd, two.append.as_str()), ("two", None, ""));
    assert_eq!(two.memory_bytes, 1 << 30);
}

#[test]
fn empty_archive() {
    assert_eq!(error(b""), "bundle: the archive is empty; expected a cpio archive in newc format");
}

#[test]
fn not_an_archive() {
    let expected = "bundle: not a cpio archive in newc format: it does not begin with 070701";
    assert_eq!(error(&[0; 4096]), expected);
    assert_eq!(error(b"\x1f\x8b\x08\0"), expected);
}

#[test]
fn every_truncation_is_an_error() {
    let bytes = archive(GOOD);
    // The trailer's entry is its header, the name with NUL, and padding; it is whole without the padding.
    let whole = bytes.len() - (bytes.len() - bytes.iter().rposition(|&b| b != 0).unwrap()) + 2;
    for length in 1..whole {
        let error = error(&bytes[..length]);
        assert!(error.contains("cut short"), "{length}: {error}");
    }
    assert!(Bundle::parse(&bytes[..whole]).is_ok());
}

#[test]
fn truncation_names_the_file() {
    let mut writer = Writer::new();
    writer.file("manifest.toml", 0o644, GOOD.as_bytes());
    let at = writer.clone().finish().len();
    writer.file("vmlinuz", 0o644, &[0; 5000]);
    let bytes = writer.finish();
    let error = error(&bytes[..at + 1000]);
    assert!(error.starts_with("bundle: the archive is cut short in vmlinuz: it has"), "{error}");
}

#[test]
fn corrupt_headers() {
    let good = archive(GOOD);
    let second = 110 + 4 + 2; // The entry "dir": header, name and NUL, padded.
    let mut bytes = good.clone();
    bytes[second] = b'x';
    assert_eq!(error(&bytes), "bundle: the archive is corrupt: no entry header (070701) at offset 0x74");
    let mut bytes = good.clone();
    bytes[second + 54 + 3] = b'g';
    let expected = "bundle: the archive is corrupt: field c_filesize of the header at offset 0x74 is not hexadecimal";
    assert_eq!(error(&bytes), expected);
    // A size and a name size that would wrap in 32 bits.
    for field in [54, 94] {
        let mut bytes = good.clone();
        bytes[second + field..second + field + 8].copy_from_slice(b"ffffffff");
        assert!(error(&bytes).contains("cut short"));
    }
    let mut bytes = good;
    bytes[second + 110] = 0xff;
    assert_eq!(error(&bytes), "bundle: the archive is corrupt: the entry at offset 0x74 has no proper name");
}

#[test]
fn no_byte_of_an_archive_makes_it_panic() {
    let good = archive(GOOD);
    for i in 0..good.len() {
        for value in [0, b'0', b'f', 0x7f, 0xff] {
            let mut bytes = good.clone();
            bytes[i] = value;
            let _ = Bundle::parse(&bytes);
        }
    }
}

#[test]
fn two_files_of_one_name() {
    let mut writer = Writer::new();
    writer.file("manifest.toml", 0o644, GOOD.as_bytes());
    writer.file("./manifest.toml", 0o644, GOOD.as_bytes());
    let expected = "bundle: the archive holds two files named manifest.toml; expected one";
    assert_eq!(error(&writer.finish()), expected);
}

#[test]
fn no_manifest() {
    let mut writer = Writer::new();
    writer.file("vmlinuz", 0o644, &zimage());
    assert_eq!(error(&writer.finish()), "bundle: the archive has no manifest.toml, which lists the guests");
    // A directory is not a manifest.
    let mut writer = Writer::new();
    writer.dir("manifest.toml", 0o755);
    assert_eq!(error(&writer.finish()), "bundle: the archive has no manifest.toml, which lists the guests");
}

#[test]
fn manifest_that_is_not_text() {
    let mut writer = Writer::new();
    writer.file("manifest.toml", 0o644, b"# first\n\xff\n");
    assert_eq!(error(&writer.finish()), "manifest.toml:2: not UTF-8 text");
}

#[test]
fn manifest_syntax() {
    let error = error(&archive("[[guest]]\nname = \"debian\nkernel = 1\n"));
    assert!(error.starts_with("manifest.toml:2: "), "{error}");
}

#[test]
fn no_guest() {
    let expected = "manifest.toml: there is no guest to run; expected at least one [[guest]]";
    assert_eq!(error(&archive("")), expected);
    assert_eq!(error(&archive("guest = []")), expected);
}

#[test]
fn guest_of_the_wrong_shape() {
    let expected = "manifest.toml:2: wrong value of `guest`: expected tables that begin with [[guest]]";
    assert_eq!(error(&archive("\nguest = 3")), expected);
    assert_eq!(error(&archive("\nguest = [3]")), expected);
    assert_eq!(error(&archive("\n[guest]\nname = \"x\"")), expected);
}

#[test]
fn unknown_keys() {
    assert_eq!(
        error(&archive("[[guest]]\nname = \"debian\"\nmemroy = \"256M\"\nkernel = \"vmlinuz\"\n")),
        "manifest.toml:3: unknown key `memroy` in [[guest]]; expected one of `name`, `system`, `kernel`, `load`, `entry`, `flash`, `initrd`, `dtb`, \
         `append`, `memory`, `weight`, `restart`, `autostart`, `engine`, `fw_cfg`, `disks`, `networks`, `console`, `rng`, \
         `balloon`"
    );
    assert_eq!(
        error(&archive(&format!("colour = 1\n{GOOD}"))),
        "manifest.toml:1: unknown key `colour` in the manifest; expected one of `guest`, `uplink`"
    );
}

#[test]
fn missing_keys() {
    for key in ["name", "kernel", "memory"] {
        let text: String = GOOD.lines().filter(|l| !l.starts_with(key)).map(|l| format!("{l}\n")).collect();
        let expected = format!("manifest.toml:2: [[guest]] has no key `{key}`, which it needs");
        assert_eq!(error(&archive(&format!("\n{text}"))), expected);
    }
}

#[test]
fn wrong_types() {
    let text = GOOD.replace("\"256M\"", "256");
    let expected = "manifest.toml:4: wrong value of `memory`: expected a string, in double quotes";
    assert_eq!(error(&archive(&text)), expected);
}

#[test]
fn names_that_no_guest_may_have() {
    for name in ["", "De", "a b", "ä", "a23456789012345678901234567890123", "all", "0", "42"] {
        let expected = "manifest.toml:2: wrong value of `name`: expected 1 to 32 of a-z, 0-9, '-', '_' and '.', but neither \
                        \"all\" nor digits only";
        assert_eq!(error(&archive(&GOOD.replace("debian", name))), expected);
    }
}

#[test]
fn command_line_of_two_lines() {
    let error = error(&archive(&format!("{GOOD}append = \"a\\nb\"\n")));
    assert_eq!(error, "manifest.toml:5: wrong value of `append`: expected one line without NUL");
}

#[test]
fn two_guests_of_one_name() {
    let expected = "manifest.toml:5: a guest named `debian` begins on line 1 already; names must differ";
    assert_eq!(error(&archive(&format!("{GOOD}{GOOD}"))), expected);
}

#[test]
fn missing_files() {
    let error_of = |text: &str| error(&archive(text));
    assert_eq!(
        error_of(&GOOD.replace("vmlinuz", "vmlinux")),
        "manifest.toml:1: guest `debian`: the archive has no file `vmlinux`, which its `kernel` names"
    );
    assert_eq!(
        error_of(&format!("{GOOD}initrd = \"disk\"\n")),
        "manifest.toml:1: guest `debian`: the archive has no file `disk`, which its `initrd` names"
    );
    // A symbolic link is not a file.
    assert!(error_of(&GOOD.replace("vmlinuz", "link")).contains("no file `link`"));
}

#[test]
fn kernels_that_are_none() {
    let with = |kernel: &[u8]| {
        let mut writer = Writer::new();
        writer.file("manifest.toml", 0o644, GOOD.as_bytes());
        writer.file("vmlinuz", 0o644, kernel);
        error(&writer.finish())
    };
    let prefix = "manifest.toml:1: guest `debian`: kernel `vmlinuz`: ";
    let else_what = "; nor a uImage or an ELF file; for a raw image, say with `load` where it goes";
    let short = format!("{prefix}not an ARM Linux zImage: it is shorter than a header{else_what}");
    assert_eq!(with(b""), short);
    assert_eq!(with(&[0; 0x27]), short);
    let not = "not an ARM Linux zImage: the word at offset 0x24 is 0x00000000 instead of 0x016f2818";
    let not = format!("{prefix}{not}{else_what}");
    assert_eq!(with(&[0; 0x28]), not);
    assert_eq!(with(&[0; 64]), not);
    let cut = format!("{prefix}the zImage is cut short: its header says 64 bytes, the file has 63");
    assert_eq!(with(&zimage()[..63]), cut);
    let mut corrupt = zimage();
    corrupt[0x28..0x2c].copy_from_slice(&0x1000u32.to_le_bytes());
    assert_eq!(with(&corrupt), format!("{prefix}its zImage header is corrupt: it ends at 0x40, but starts at 0x1000"));
}

#[test]
fn files_larger_than_memory() {
    let mut writer = Writer::new();
    let text = format!("{}initrd = \"initrd\"\n", GOOD.replace("256M", "16M"));
    writer.file("manifest.toml", 0o644, text.as_bytes());
    writer.file("vmlinuz", 0o644, &zimage());
    writer.file("initrd", 0o644, &vec![0; 16 << 20]);
    let expected = "manifest.toml:1: guest `debian`: its files have 16777280 bytes, more than its memory of 16M";
    assert_eq!(error(&writer.finish()), expected);
}

#[test]
fn memory_sizes() {
    assert_eq!(parse_memory("256M"), Ok(256 << 20));
    assert_eq!(parse_memory("1g"), Ok(1 << 30));
    assert_eq!(parse_memory("32768k"), Ok(32 << 20));
    assert_eq!(parse_memory("16777216"), Ok(16 << 20));
    assert_eq!(parse_memory("3071M"), Ok(MAX_MEMORY));
    for text in ["", "M", "256MB", "-1M", "+16M", "1.5G", "0x10M", " 16M", "１６M"] {
        assert_eq!(parse_memory(text), Err(MemoryError::NotASize), "{text}");
    }
    for text in ["16777217", "16385K"] {
        assert_eq!(parse_memory(text), Err(MemoryError::NotMegabytes), "{text}");
    }
    for text in ["0", "15M", "3G", "4096M", "4G", "99999999999999999999", "17179869184G"] {
        assert_eq!(parse_memory(text), Err(MemoryError::OutOfRange), "{text}");
    }
    let error = error(&archive(&GOOD.replace("256M", "8M")));
    assert_eq!(error, "manifest.toml:4: wrong value of `memory`: expected a size from \"16M\" to \"3071M\"");
}

#[test]
fn what_the_writer_writes() {
    let mut writer = Writer::new();
    writer.char_device("dev/console", 0o600, (5, 1));
    writer.symlink("bin/sh", "busybox");
    let bytes = writer.finish();
    assert_eq!(bytes.len() % 4, 0);
    let all: Vec<_> = entries(&bytes).map(Result::unwrap).map(|e| (e.name, e.mode, e.data)).collect();
    assert_eq!(all, [("dev/console", 0o020_600, &b""[..]), ("bin/sh", 0o120_777, &b"busybox"[..])]);
    assert_eq!(&bytes[6 + 8 * 9..6 + 8 * 11], b"0000000500000001");
}
