use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use super::*;

const RAM: u32 = 64 << 20;
const NOWHERE: Address = Address { load: None, entry: None };

fn put(file: &mut [u8], at: usize, value: u32) {
    file[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

/// A segment: virtual address, physical address, bytes in the file, bytes in memory.
type Segment = (u32, u32, u32, u32);

fn elf(entry: u32, segments: &[Segment]) -> Vec<u8> {
    let mut file = vec![0; 52 + 32 * segments.len()];
    file[..7].copy_from_slice(b"\x7fELF\x01\x01\x01");
    put(&mut file, 16, 2 | 40 << 16);
    put(&mut file, 20, 1);
    put(&mut file, 24, entry);
    put(&mut file, 28, 52);
    put(&mut file, 40, 52 | 32 << 16);
    put(&mut file, 44, segments.len() as u32);
    for (n, &(va, pa, in_file, in_memory)) in segments.iter().enumerate() {
        let offset = file.len() as u32;
        for (field, value) in [1, offset, va, pa, in_file, in_memory, 7, 4].into_iter().enumerate() {
            put(&mut file, 52 + 32 * n + 4 * field, value);
        }
        file.extend((0..in_file).map(|byte| byte as u8 ^ n as u8));
    }
    file
}

fn uimage(load: u32, entry: u32, data: &[u8], change: impl Fn(&mut [u8])) -> Vec<u8> {
    let mut file = vec![0; 64];
    let fields = [(0, 0x2705_1956), (12, data.len() as u32), (16, load), (20, entry), (24, uimage::crc32(&[data]))];
    for (at, value) in fields {
        file[at..at + 4].copy_from_slice(&value.to_be_bytes());
    }
    file[28..32].copy_from_slice(&[5, 2, 2, 0]);
    change(&mut file);
    let crc = uimage::crc32(&[&file]);
    file[4..8].copy_from_slice(&crc.to_be_bytes());
    file.extend(data);
    file
}

fn fixed(file: &[u8], address: Address) -> FixedKernel<'_> {
    match Kernel::parse(file, address, RAM) {
        Ok(Kernel::Fixed(kernel)) => kernel,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn error(file: &[u8], address: Address) -> String {
    Kernel::parse(file, address, RAM).expect_err("it cannot be started").to_string()
}

#[test]
fn the_checksum_is_that_of_zip() {
    assert_eq!(uimage::crc32(&[b"1234", b"56789"]), 0xcbf4_3926);
}

#[test]
fn an_elf_file_goes_to_its_physical_addresses_and_starts_at_a_virtual_one() {
    let file = elf(0xc000_8010, &[(0xc000_8000, 0x4000_8000, 0x40, 0x100), (0xc010_0000, 0x4010_0000, 0, 0x2000)]);
    let kernel = fixed(&file, NOWHERE);
    assert_eq!((kernel.kind, kernel.entry), (Kind::Elf, 0x4000_8010));
    let pieces: Vec<_> = kernel.pieces.iter().map(|piece| (piece.start, piece.data.len(), piece.zeroes)).collect();
    assert_eq!(pieces, [(0x4000_8000, 0x40, 0xc0), (0x4010_0000, 0, 0x2000)]);
    assert_eq!(kernel.pieces[0].data[..3], [0, 1, 2]);
    // In Thumb state.
    let file = elf(0xc000_8013, &[(0xc000_8000, 0x4000_8000, 0x40, 0x100)]);
    assert_eq!(fixed(&file, NOWHERE).entry, 0x4000_8013);
    // A physical entry point, where no segment has that virtual address.
    let file = elf(0x4000_8004, &[(0xc000_8000, 0x4000_8000, 0x40, 0x40)]);
    assert_eq!(fixed(&file, NOWHERE).entry, 0x4000_8004);
}

#[test]
fn what_an_elf_file_cannot_be() {
    let good = elf(0x4000_0000, &[(0x4000_0000, 0x4000_0000, 8, 8)]);
    assert!(Kernel::parse(&good, NOWHERE, RAM).is_ok());
    let with = |at: usize, value: &[u8]| {
        let mut file = good.clone();
        file[at..at + value.len()].copy_from_slice(value);
        error(&file, NOWHERE)
    };
    let cases: [(usize, &[u8], &str); 10] = [
        (4, &[2], "the ELF file's field EI_CLASS is 0x2; expected 1, 32-bit"),
        (5, &[2], "the ELF file's field EI_DATA is 0x2; expected 1, little-endian"),
        (18, &[3, 0], "the ELF file's field e_machine is 0x3; expected 40, ARM"),
        (16, &[3], "the ELF file's field e_type is 0x3; expected 2, an executable at fixed addresses"),
        (42, &[56], "the ELF file's field e_phentsize is 0x38; expected 32"),
        (44, &[0], "the ELF file's field e_phnum is 0x0; expected a segment to load at least"),
        (52 + 20, &[7], "the ELF file's field p_filesz is 0x8; expected no more than the segment's p_memsz"),
        (
            24,
            &[2],
            "the ELF file starts at 0x40000002; expected a multiple of four for A32 code, or an odd address for T32",
        ),
        (24, &[9], "the ELF file starts at 0x40000009, where it has nothing; expected an address in it"),
        (24, &[8], "the ELF file starts at 0x40000008, where it has nothing; expected an address in it"),
    ];
    for (at, value, text) in cases {
        assert_eq!(with(at, value), text);
    }
    assert_eq!(
        with(28, &[0xff; 4]),
        "the ELF file is cut short: its table of segments needs 4294967327 bytes, the file has 92"
    );
    assert_eq!(
        with(52 + 4, &[0xff; 4]),
        "the ELF file is cut short: a segment needs 4294967303 bytes, the file has 92"
    );
    assert_eq!(error(&good[..51], NOWHERE), "the ELF file is cut short: its header needs 52 bytes, the file has 51");
    let many = vec![(0x4000_0000, 0x4000_0000, 0, 4); MAX_PIECES + 1];
    assert!(error(&elf(0, &many), NOWHERE).contains("16 segments to load at most"));
}

#[test]
fn segments_are_in_ram_and_apart() {
    let of = |pa, bytes| elf(0x4000_0000, &[(0x4000_0000, 0x4000_0000, 8, 8), (pa, pa, 0, bytes)]);
    let outside =
        [(0x3fff_fff8, 16), (0, 4), (0x43ff_fffc, 8), (0x4400_0000, 4), (0x4000_1000, u32::MAX), (u32::MAX, u32::MAX)];
    for (pa, bytes) in outside {
        let text = format!(
            "the ELF file wants {bytes:#x} bytes at {pa:#010x}, but the guest's RAM is 0x40000000 to 0x43ffffff; expected \
             an address in there, or more `memory`"
        );
        assert_eq!(error(&of(pa, bytes), NOWHERE), text);
    }
    assert!(Kernel::parse(&of(0x4000_0008, RAM - 8), NOWHERE, RAM).is_ok());
    let overlap = "the ELF file's segments at 0x40000000 and 0x40000004 (physical addresses) overlap";
    assert_eq!(error(&of(0x4000_0004, 64), NOWHERE), overlap);
}

#[test]
fn a_uimage_says_where_it_goes() {
    let data = [1, 2, 3, 4, 5, 6, 7, 8, 9];
    let file = uimage(0x4000_8000, 0x4000_8004, &data, |_| ());
    let kernel = fixed(&file, NOWHERE);
    assert_eq!((kernel.kind, kernel.entry), (Kind::UImage, 0x4000_8004));
    assert_eq!(kernel.pieces, [Piece { start: 0x4000_8000, data: &data, zeroes: 0 }]);
    let with = |change: fn(&mut [u8])| error(&uimage(0x4000_8000, 0x4000_8000, &data, change), NOWHERE);
    assert_eq!(with(|file| file[29] = 22), "the uImage's field ih_arch is 0x16; expected 2, ARM");
    assert!(with(|file| file[30] = 4).contains("ih_type is 0x4; expected 2, a kernel"));
    assert!(with(|file| file[31] = 1).contains("ih_comp is 0x1; expected 0, not compressed"));
    assert_eq!(with(|file| file[15] = 10), "the uImage is cut short: its data needs 74 bytes, the file has 73");
    assert!(with(|file| file[12] = 0xff).contains("its data needs 4278190"), "the largest sizes");
    assert!(with(|file| file[16] = 0x50).starts_with("the uImage wants 0x9 bytes at 0x50008000"));
    for (at, what) in [(40, "header"), (70, "data")] {
        let mut file = file.clone();
        file[at] ^= 1;
        assert_eq!(error(&file, NOWHERE), format!("the checksum of the uImage's {what} does not hold; copy it again"));
    }
    assert_eq!(error(&file[..63], NOWHERE), "the uImage is cut short: its header needs 64 bytes, the file has 63");
}

#[test]
fn a_raw_image_goes_where_its_owner_says() {
    let at = |load, entry| Address { load: Some(load), entry };
    let file = [0; 16];
    assert_eq!(fixed(&file, at(0x4000_8000, None)).entry, 0x4000_8000);
    assert_eq!(fixed(&file, at(0x4000_8000, Some(0x4000_800c))).entry, 0x4000_800c);
    assert!(error(&file, at(0x4000_8000, Some(0x4000_8010))).starts_with("the raw image starts at 0x40008010, where"));
    assert!(error(&file, at(0x8000, None)).starts_with("the raw image wants 0x10 bytes at 0x00008000"));
    assert!(error(&file, at(u32::MAX, None)).starts_with("the raw image wants 0x10 bytes at 0xffffffff"));
    // T32 begins at any half-word, and one is enough.
    for entry in [0x4000_8001, 0x4000_8003, 0x4000_800f] {
        assert_eq!(fixed(&file, at(0x4000_8000, Some(entry))).entry, entry);
    }
    assert!(error(&file, at(0x4000_8000, Some(0x4000_8011))).starts_with("the raw image starts at 0x40008011, where"));
    assert!(error(&file[..1], at(0x4000_8000, Some(0x4000_8001))).contains("where it has nothing"));
    assert!(error(&file, at(0x4000_8000, Some(0x4000_8002))).contains("or an odd address for T32"));
    assert!(error(&file, at(0x4000_8001, None)).starts_with("the raw image starts at 0x40008001, where"));
    assert!(error(&[], at(0x4000_8000, None)).contains("a first instruction needs 4 bytes, the file has 0"));
    let entry_alone = Address { load: None, entry: Some(0x4000_8000) };
    assert!(error(&file, entry_alone).contains("`load` must say where they go"));
    let known = elf(0x4000_0000, &[(0x4000_0000, 0x4000_0000, 8, 8)]);
    assert!(error(&known, at(0x4000_8000, None)).contains("this is an ELF file, which says itself where it goes"));
}

#[test]
fn what_is_known_for_something_else_is_named() {
    assert!(error(b"\x1f\x8b\x08\0", NOWHERE).contains("packed with gzip"));
    assert!(error(b"\xfd7zXZ\0", NOWHERE).contains("packed with xz"));
    assert!(error(b"\xd0\x0d\xfe\xed", NOWHERE).contains("FIT image"));
    let mut arm64 = [0; 64];
    arm64[0x38..].copy_from_slice(b"ARM\x64\0\0\0\0");
    assert!(error(&arm64, NOWHERE).contains("64-bit ARM"));
}

/// Whatever bytes a file has, nothing panics, and what passes is in RAM, apart, and begins in itself.
#[test]
fn no_bytes_lead_out_of_ram() {
    let mut seed = 7u32;
    let mut random = move || {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        seed >> 8
    };
    let data = [0xa5; 48];
    let good = [
        elf(0x4000_0000, &[(0x4000_0000, 0x4000_0000, 32, 64), (0xc010_0000, 0x4010_0000, 8, 16)]),
        uimage(0x4000_8000, 0x4000_8000, &data, |_| ()),
        data.to_vec(),
    ];
    let mut passed = 0;
    for _ in 0..30_000 {
        let mut file = good[random() as usize % good.len()].clone();
        for _ in 0..random() % 4 {
            let at = random() as usize % file.len();
            file[at] = [random() as u8, 0, 0xff, 1 << (random() % 8), file[at] ^ 4][random() as usize % 5];
        }
        file.truncate(file.len() - [0, 0, 0, random() as usize % 16][random() as usize % 4]);
        let address = match random() % 4 {
            0 => Address { load: Some(random() << 12), entry: None },
            1 => Address { load: Some(0x4000_0000 + random() % (RAM + 64)), entry: Some(0x4000_0000 + random() % RAM) },
            _ => NOWHERE,
        };
        let Ok(Kernel::Fixed(kernel)) = Kernel::parse(&file, address, RAM) else { continue };
        passed += 1;
        assert!(!kernel.pieces.is_empty() && kernel.pieces.len() <= MAX_PIECES && kernel.entry % 4 != 2);
        let spans: Vec<_> = kernel.pieces.iter().map(|piece| (u64::from(piece.start), piece.end())).collect();
        for (n, &(start, end)) in spans.iter().enumerate() {
            assert!(start >= u64::from(RAM_START) && end <= u64::from(RAM_START + RAM), "{spans:x?}");
            assert!(spans[..n].iter().all(|&(s, e)| end <= s || e <= start), "{spans:x?}");
        }
        let (entry, len) = (u64::from(kernel.entry & !1), if kernel.entry % 2 == 0 { 4 } else { 2 });
        assert!(spans.iter().any(|&(start, end)| start <= entry && entry + len <= end), "{kernel:?}");
    }
    assert!(passed > 1000, "{passed} files passed");
}
