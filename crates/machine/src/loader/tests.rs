use super::*;
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;

const MIB: u32 = 1 << 20;

/// A `zImage` of `len` bytes, header only.
fn zimage(len: usize) -> Vec<u8> {
    let mut image = vec![0; len];
    image[0x24..0x28].copy_from_slice(&0x016f_2818u32.to_le_bytes());
    image[0x2c..0x30].copy_from_slice(&(len as u32).to_le_bytes());
    image
}

#[test]
fn small_memory_is_split_in_half() {
    let placement = plan(&zimage(5 << 20), 0x12_3456, 0x4000, 64 * MIB).unwrap();
    assert_eq!(
        placement,
        Placement { kernel: GuestPa(0x4001_0000), initrd: GuestPa(0x4200_0000), dtb: GuestPa(0x4212_4000) }
    );
}

#[test]
fn in_big_memory_everything_stays_low() {
    let placement = plan(&zimage(5 << 20), 30 * MIB, 0x4000, 1024 * MIB).unwrap();
    assert_eq!(placement.initrd, GuestPa(0x4800_0000));
    assert_eq!(placement.dtb, GuestPa(0x4800_0000 + 30 * MIB));
    assert!(plan(&zimage(5 << 20), 30 * MIB, 0x4000, map::MAX_RAM).is_ok());
}

#[test]
fn without_initial_ram_disk_the_device_tree_takes_its_place() {
    let placement = plan(&zimage(4096), 0, 0x4000, 64 * MIB).unwrap();
    assert_eq!(placement.dtb, placement.initrd);
}

#[test]
fn a_file_that_is_no_zimage_is_refused_with_advice() {
    assert_eq!(plan(&[0; 0x2f], 0, 0, 64 * MIB), Err(LoadError::TooShort(0x2f)));
    assert_eq!(plan(&[], 0, 0, 64 * MIB), Err(LoadError::TooShort(0)));
    let error = plan(&[0x7f; 4096], 0, 0, 64 * MIB).unwrap_err();
    assert_eq!(error, LoadError::NotZImage(0x7f7f_7f7f));
    assert!(error.to_string().contains("zImage"));
}

#[test]
fn a_truncated_or_damaged_kernel_is_refused() {
    let mut image = zimage(8192);
    image.truncate(8000);
    assert_eq!(plan(&image, 0, 0, 64 * MIB), Err(LoadError::Truncated { stated: 8192, actual: 8000 }));
    let mut image = zimage(8192);
    image[0x28..0x2c].copy_from_slice(&0x9000u32.to_le_bytes());
    assert_eq!(plan(&image, 0, 0, 64 * MIB), Err(LoadError::BadExtent { start: 0x9000, end: 0x2000 }));
    // Not even as long as the header.
    image[0x28..0x2c].copy_from_slice(&0x1fd1u32.to_le_bytes());
    assert_eq!(plan(&image, 0, 0, 64 * MIB), Err(LoadError::BadExtent { start: 0x1fd1, end: 0x2000 }));
    // Appended data, such as a device tree, is no damage.
    let mut image = zimage(8192);
    image.extend([0; 100]);
    assert!(plan(&image, 0, 0, 64 * MIB).is_ok());
}

#[test]
fn parts_that_do_not_fit_are_refused_with_what_is_needed() {
    // 16 MiB of kernel in 32 MiB reach beyond the half.
    assert_eq!(
        plan(&zimage(16 << 20), 0, 0, 32 * MIB),
        Err(LoadError::KernelTooBig { len: 16 << 20, room: 16 * MIB - 0x1_0000 })
    );
    let error = plan(&zimage(4096), 40 * MIB, 0x4000, 64 * MIB).unwrap_err();
    assert_eq!(error, LoadError::TooLittleRam { ram: 64 * MIB, needed: u64::from(80 * MIB + 0x8000) });
    assert!(plan(&zimage(4096), 40 * MIB, 0x4000, 80 * MIB + 0x8000).is_ok(), "what is said to do does");
    assert!(plan(&zimage(4096), 40 * MIB, 0x4000, 80 * MIB + 0x6000).is_err());
    assert!(error.to_string().contains("81 MiB"), "{error}");
    assert_eq!(plan(&zimage(4096), 0, 0, map::MAX_RAM + 4096), Err(LoadError::TooMuchRam(map::MAX_RAM + 4096)));
    assert!(matches!(plan(&zimage(4096), 0, 0, 0), Err(LoadError::KernelTooBig { room: 0, .. })));
    assert!(matches!(plan(&zimage(4096), u32::MAX, u32::MAX, u32::MAX), Err(LoadError::TooMuchRam(_))));
    assert!(matches!(plan(&zimage(4096), u32::MAX, u32::MAX, 1024 * MIB), Err(LoadError::TooLittleRam { .. })));
}
