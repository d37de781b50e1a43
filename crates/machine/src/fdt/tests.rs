use dtoolkit::fdt::Fdt;

use super::*;
use alloc::vec;

const SPEC: FdtSpec<'static> = FdtSpec {
    ram_size: 128 << 20,
    bootargs: "console=ttyAMA0 panic=-1",
    initrd: Some((GuestPa(0x4400_0000), 0x1234)),
    cpu_compatible: "arm,cortex-a9",
    flash: false,
};

/// The blob, read back. Unchecked, for the check refuses names of more than 31 characters, as the specification does,
/// while Linux's binding of the timer has one.
fn parse(blob: &[u8]) -> Fdt<'_> {
    Fdt::new_unchecked(blob)
}

fn property(blob: &[u8], path: &str, name: &str) -> Option<Vec<u8>> {
    let node = parse(blob).find_node(path)?;
    node.property(name).map(|property| property.value().to_vec())
}

fn cells(blob: &[u8], path: &str, name: &str) -> Vec<u32> {
    let value = property(blob, path, name).unwrap_or_else(|| panic!("{path} has no {name}"));
    value.chunks_exact(4).map(|cell| u32::from_be_bytes(cell.try_into().unwrap())).collect()
}

#[test]
fn chosen_tells_what_this_guest_is_given() {
    let blob = build(&SPEC);
    assert_eq!(property(&blob, "/chosen", "bootargs").unwrap(), b"console=ttyAMA0 panic=-1\0");
    assert_eq!(property(&blob, "/chosen", "stdout-path").unwrap(), b"/pl011@9000000\0");
    assert_eq!(cells(&blob, "/chosen", "linux,initrd-start"), [0x4400_0000]);
    assert_eq!(cells(&blob, "/chosen", "linux,initrd-end"), [0x4400_1234]);
    assert_eq!(cells(&blob, "/memory@40000000", "reg"), [0, 0x4000_0000, 0, 128 << 20]);
    assert_eq!(property(&blob, "/cpus/cpu@0", "compatible").unwrap(), b"arm,cortex-a9\0");
    assert_eq!(property(&blob, "/aliases", "serial0").unwrap(), b"/pl011@9000000\0");

    let without = build(&FdtSpec { initrd: None, ..SPEC });
    assert!(property(&without, "/chosen", "linux,initrd-start").is_none());
}

#[test]
fn fw_cfg_is_described_as_by_qemu() {
    let (blob, path) = (build(&SPEC), "/fw-cfg@9020000");
    assert_eq!(property(&blob, path, "compatible").unwrap(), b"qemu,fw-cfg-mmio\0");
    assert_eq!(cells(&blob, path, "reg"), [0, 0x0902_0000, 0, 0x18]);
    assert_eq!(property(&blob, path, "dma-coherent").unwrap(), []);
}

#[test]
fn flash_is_there_for_firmware_only() {
    assert!(property(&build(&SPEC), "/flash@0", "reg").is_none());
    let blob = build(&FdtSpec { flash: true, ..SPEC });
    assert_eq!(property(&blob, "/flash@0", "compatible").unwrap(), b"cfi-flash\0");
    assert_eq!(cells(&blob, "/flash@0", "reg"), [0, 0, 0, 0x400_0000, 0, 0x400_0000, 0, 0x400_0000]);
    assert_eq!(cells(&blob, "/flash@0", "bank-width"), [4]);
}

#[test]
fn firmware_has_room_to_add_to_it() {
    let bytes = build(&FdtSpec { flash: true, ..SPEC });
    let kernels = Blob::for_kernel(bytes.clone());
    assert_eq!((&kernels.bytes, kernels.len()), (&bytes, bytes.len() as u32));

    let blob = Blob::for_firmware(bytes.clone());
    assert_eq!(blob.len(), 0x10_0000);
    assert!(blob.bytes.len() < 0x1_0000, "there is no copy of what is empty");
    // Whole, and the same tree, for who looks at its length.
    let mut memory = blob.bytes.clone();
    memory.resize(blob.len() as usize, 0);
    assert_eq!(adapt(&memory, &SPEC), adapt(&bytes, &SPEC));
    assert_eq!(adapt(&blob.bytes, &SPEC), Err(AdaptError::Damaged), "it says that it goes on");

    // One that is larger by itself stays as it is.
    let large = vec![7; 0x10_0000];
    assert_eq!(Blob::for_firmware(large.clone()), Blob { bytes: large, zeroes: 0 });
}

#[test]
fn timer_and_psci_are_those_of_a_secure_guest() {
    let blob = build(&SPEC);
    assert_eq!(cells(&blob, "/timer", "interrupts"), [1, 13, 0x104, 1, 14, 0x104, 1, 11, 0x104, 1, 10, 0x104]);
    for flag in ["always-on", "arm,cpu-registers-not-fw-configured"] {
        assert_eq!(property(&blob, "/timer", flag).unwrap(), b"");
    }
    assert_eq!(property(&blob, "/psci", "method").unwrap(), b"smc\0");
    assert_eq!(property(&blob, "/psci", "compatible").unwrap(), b"arm,psci-1.0\0arm,psci-0.2\0arm,psci\0");
}

#[test]
fn every_phandle_leads_to_the_node_that_is_meant() {
    let blob = build(&SPEC);
    let gic = cells(&blob, "/intc@8000000", "phandle");
    let clock = cells(&blob, "/apb-pclk", "phandle");
    let gpio = cells(&blob, "/pl061@9030000", "phandle");
    assert_eq!(cells(&blob, "/", "interrupt-parent"), gic);
    for device in ["/pl011@9000000", "/pl031@9010000", "/pl061@9030000"] {
        let clocks = cells(&blob, device, "clocks");
        assert!(!clocks.is_empty() && clocks.iter().all(|handle| [*handle] == clock[..]), "{device}: {clocks:?}");
    }
    assert_eq!(cells(&blob, "/gpio-keys/poweroff", "gpios"), [gpio[0], 3, 0]);
    assert_eq!(cells(&blob, "/gpio-keys/poweroff", "linux,code"), [116]);
}

#[test]
fn devices_have_their_frames_and_interrupts() {
    let blob = build(&SPEC);
    for (path, base, spi) in
        [("/pl011@9000000", 0x0900_0000, 1), ("/pl031@9010000", 0x0901_0000, 2), ("/pl061@9030000", 0x0903_0000, 7)]
    {
        assert_eq!(cells(&blob, path, "reg"), [0, base, 0, 0x1000]);
        assert_eq!(cells(&blob, path, "interrupts"), [0, spi, 4]);
    }
    assert_eq!(cells(&blob, "/intc@8000000", "reg"), [0, 0x0800_0000, 0, 0x1_0000, 0, 0x0801_0000, 0, 0x1_0000]);
    for slot in 0..32 {
        let path = format!("/virtio_mmio@{:x}", 0x0a00_0000 + slot * 0x200);
        assert_eq!(cells(&blob, &path, "reg"), [0, 0x0a00_0000 + slot * 0x200, 0, 0x200]);
        assert_eq!(cells(&blob, &path, "interrupts"), [0, 16 + slot, 1]);
        assert_eq!(property(&blob, &path, "dma-coherent").unwrap(), b"");
    }
}

#[test]
fn nothing_is_announced_that_the_machine_does_not_have() {
    let blob = build(&SPEC);
    let known = ["arm,pl011", "arm,pl031", "arm,pl061", "qemu,fw-cfg-mmio", "virtio,mmio", "arm,cortex-a15-gic"];
    let mut seen = vec![];
    for node in parse(&blob).root().children() {
        if node.property("reg").is_some() && !node.name().starts_with("memory") {
            let kind = node.compatible().and_then(|mut kinds| kinds.next()).unwrap();
            assert!(known.contains(&kind), "{kind}");
            seen.push(kind);
        }
    }
    assert_eq!(seen.len(), 5 + 32);
}

#[test]
fn somebodys_own_tree_gets_what_a_boot_loader_fills_in() {
    let own = build(&FdtSpec { ram_size: 64 << 20, bootargs: "its own", initrd: None, ..SPEC });
    let blob = adapt(&own, &SPEC).unwrap();
    assert_eq!(cells(&blob, "/memory@40000000", "reg"), [0, 0x4000_0000, 0, 128 << 20]);
    assert_eq!(property(&blob, "/chosen", "bootargs").unwrap(), b"console=ttyAMA0 panic=-1\0");
    assert_eq!(property(&blob, "/chosen", "stdout-path").unwrap(), b"/pl011@9000000\0");
    assert_eq!(cells(&blob, "/chosen", "linux,initrd-end"), [0x4400_1234]);
    let quiet = adapt(&own, &FdtSpec { bootargs: "", ..SPEC }).unwrap();
    assert_eq!(property(&quiet, "/chosen", "bootargs").unwrap(), b"its own\0");
}

#[test]
fn a_damaged_tree_is_refused_or_read_but_never_a_panic() {
    let good = build(&SPEC);
    assert_eq!(adapt(&[], &SPEC), Err(AdaptError::Damaged));
    for len in 0..good.len() {
        assert_eq!(adapt(&good[..len], &SPEC), Err(AdaptError::Damaged));
    }
    let mut refused = 0;
    for at in 0..good.len() {
        for value in [0x00, 0x01, 0x80, 0xff] {
            let mut bad = good.clone();
            bad[at] = value;
            refused += usize::from(adapt(&bad, &SPEC).is_err());
        }
    }
    assert!(refused > good.len() / 10, "{refused}");
}
