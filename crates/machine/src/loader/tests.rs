use super::*;
use alloc::string::ToString;

const MIB: u32 = 1 << 20;

const fn zimage(len: u32) -> Program<'static> {
    Program::ZImage(len)
}

#[test]
fn small_memory_is_split_in_half() {
    let placement = plan(&zimage(5 << 20), 0x12_3456, 0x4000, 64 * MIB).unwrap();
    assert_eq!(
        placement,
        Placement { entry: GuestPa(0x4001_0000), initrd: GuestPa(0x4200_0000), dtb: GuestPa(0x4212_4000) }
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
fn a_program_with_addresses_keeps_them_and_the_rest_makes_room() {
    let at = |mib: u32| GuestPa(map::RAM.0 + mib * MIB);
    let place = |pieces: &[(GuestPa, u32)]| plan(&Program::Fixed { pieces, entry: at(1) }, MIB + 1, 0x4000, 64 * MIB);
    let placement = place(&[(at(1), MIB), (at(40), MIB)]).unwrap();
    assert_eq!(placement, Placement { entry: at(1), initrd: at(32), dtb: GuestPa(at(33).0 + 0x1000) });
    // What is in the way is passed, and so is what is behind it.
    assert_eq!(place(&[(at(31), 2 * MIB), (at(34), 5)]).unwrap().initrd, GuestPa(at(34).0 + 0x1000));
    let full = place(&[(at(20), 44 * MIB)]);
    assert_eq!(full, Err(LoadError::NoRoom { needed: u64::from(MIB + 0x1000 + 0x4000) }));
    for (start, len) in
        [(GuestPa(0), 4), (GuestPa(0x3fff_ffff), 2), (at(63), MIB + 1), (at(64), 1), (GuestPa(u32::MAX), u32::MAX)]
    {
        assert_eq!(place(&[(at(1), MIB), (start, len)]), Err(LoadError::OutsideRam { start, len, ram: 64 * MIB }));
    }
}

#[test]
fn firmware_finds_the_device_tree_where_ram_begins() {
    let placement = plan(&Program::Firmware, 0, 0x4000, 16 * MIB).unwrap();
    assert_eq!((placement.entry, placement.dtb), (GuestPa(0), map::RAM));
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
