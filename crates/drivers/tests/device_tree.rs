//! The device-tree reader: addresses through buses, interrupts through maps, and errors that say where.

use crate::support;
use std::slice;

use dtoolkit::model::DeviceTreeProperty;
use spica_drivers::info::Info;
use spica_drivers::tree::Tree;
use spica_drivers::tree::interrupt::Interrupt;
use support::{blob, node, text, words};

/// Shaped like the Versatile Express: a nexus that maps interrupts, a bus with chip selects, a bus within a bus.
fn nested() -> Vec<u8> {
    let uart = node("uart@9000", [words("reg", &[0x9000, 0x1000]), words("interrupts", &[5])], []);
    let stray = node("stray@30000", [words("reg", &[0x30000, 0x1000]), words("interrupts", &[9])], []);
    let fpga = node(
        "iofpga@7,0",
        [words("#address-cells", &[1]), words("#size-cells", &[1]), words("ranges", &[0, 7, 0, 0x20000])],
        [uart, stray],
    );
    let motherboard = node(
        "motherboard",
        [
            words("#address-cells", &[2]),
            words("#size-cells", &[1]),
            words("ranges", &[0, 0, 0x4000_0000, 0x400_0000, 7, 0, 0x1000_0000, 0x20000]),
        ],
        [fpga],
    );
    let bus = node(
        "bus",
        [
            words("#address-cells", &[1]),
            words("#size-cells", &[1]),
            words("ranges", &[0x4000_0000, 0x4000_0000, 0x1000_0000, 0x1000_0000, 0x1000_0000, 0x20000]),
            words("#interrupt-cells", &[1]),
            words("interrupt-map-mask", &[0, 0x3f]),
            words("interrupt-map", &[0, 4, 1, 0, 4, 4, 0, 5, 1, 0, 5, 4]),
        ],
        [motherboard],
    );
    let gic = node(
        "gic@1e001000",
        [
            words("phandle", &[1]),
            words("#interrupt-cells", &[3]),
            words("reg", &[0x1e00_1000, 0x1000, 0x1e00_0100, 0x100]),
        ],
        [],
    );
    blob([words("#address-cells", &[1]), words("#size-cells", &[1]), words("interrupt-parent", &[1])], [bus, gic])
}

#[test]
fn an_address_goes_through_the_ranges_of_every_bus() {
    let blob = nested();
    let tree = Tree::new(&blob).unwrap();
    let uart = tree.at("/bus/motherboard/iofpga/uart").unwrap();
    assert_eq!(uart.path(), "/bus/motherboard/iofpga@7,0/uart@9000");
    assert_eq!(uart.reg(0).map(|(pa, len)| (pa.0, len)), Ok((0x1000_9000, 0x1000)));
    assert_eq!(tree.at("/gic").unwrap().reg(1).map(|(pa, len)| (pa.0, len)), Ok((0x1e00_0100, 0x100)));
}

#[test]
fn an_address_that_no_range_maps_is_an_error_that_names_the_bus() {
    let blob = nested();
    let error = Tree::new(&blob).unwrap().at("/bus/motherboard/iofpga/stray").unwrap().reg(0).unwrap_err();
    assert_eq!((error.node.as_str(), error.property), ("/bus/motherboard/iofpga@7,0", "ranges"));
}

#[test]
fn an_interrupt_goes_through_the_map_to_the_controller() {
    let blob = nested();
    let tree = Tree::new(&blob).unwrap();
    let uart = tree.at("/bus/motherboard/iofpga/uart").unwrap();
    let expected = Interrupt { controller: "/gic@1e001000".into(), cells: vec![0, 5, 4] };
    assert_eq!(tree.interrupt(&uart, 0), Ok(expected));
    assert_eq!(tree.interrupt(&uart, 1).unwrap_err().property, "interrupts");
}

#[test]
fn an_interrupt_that_is_not_in_the_map_is_an_error() {
    let blob = nested();
    let tree = Tree::new(&blob).unwrap();
    let stray = tree.at("/bus/motherboard/iofpga/stray").unwrap();
    let error = tree.interrupt(&stray, 0).unwrap_err();
    assert!(error.problem.contains("not in the interrupt-map of /bus"), "{error}");
}

#[test]
fn an_interrupt_map_that_leads_in_a_circle_ends_in_an_error() {
    let nexus = |name: &str, own: u32, other: u32| {
        node(
            name,
            [
                words("phandle", &[own]),
                words("#interrupt-cells", &[1]),
                words("#address-cells", &[0]),
                words("interrupt-map", &[3, other, 3]),
            ],
            [],
        )
    };
    let device = node("device", [words("interrupts", &[3]), words("interrupt-parent", &[1])], []);
    let blob = blob([], [nexus("a", 1, 2), nexus("b", 2, 1), device]);
    let tree = Tree::new(&blob).unwrap();
    assert!(tree.interrupt(&tree.at("/device").unwrap(), 0).is_err());
}

#[test]
fn malformed_properties_are_errors_and_no_panics() {
    let odd = node("odd@0", [DeviceTreeProperty::new("reg", vec![1u8, 2, 3]).unwrap(), words("interrupts", &[1])], []);
    let zero = node("zero@0", [words("reg", &[0, 0])], []);
    let high = node("high@0", [words("reg", &[0xffff_f000, 0x1000])], []);
    let wide = node(
        "wide",
        [words("#address-cells", &[u32::MAX]), words("#size-cells", &[1]), words("ranges", &[1, 2])],
        [node("x@0", [words("reg", &[1])], [])],
    );
    let blob = blob([words("#address-cells", &[1]), words("#size-cells", &[1])], [odd, zero, high, wide]);
    let tree = Tree::new(&blob).unwrap();
    let at = |path| tree.at(path).unwrap();
    assert!(at("/odd").reg(0).is_err() && at("/odd").pairs("reg").is_err());
    assert!(tree.interrupt(&at("/odd"), 0).is_err(), "no interrupt parent");
    assert!(at("/zero").reg(0).is_err());
    assert!(at("/high").reg(0).is_ok());
    assert!(at("/wide/x").reg(0).is_err());
    assert!(Tree::new(&blob[..blob.len() - 8]).is_err());
    assert!(Tree::new(b"no device tree at all, just text").is_err());
}

#[test]
fn a_path_may_start_with_an_alias() {
    let serial = node("serial@1c28000", [text("compatible", "snps,dw-apb-uart")], []);
    let soc = node("soc", [], [serial]);
    let aliases = node("aliases", [text("serial0", "/soc/serial@1c28000")], []);
    let blob = blob([], [aliases, soc]);
    let tree = Tree::new(&blob).unwrap();
    assert_eq!(tree.at("serial0").unwrap().path(), "/soc/serial@1c28000");
    assert!(tree.at("serial1").is_none());
}

#[test]
fn memory_and_the_boot_loaders_words_are_read() {
    let memory =
        node("memory@40000000", [text("device_type", "memory"), words("reg", &[0, 0x4000_0000, 0, 0x2000_0000])], []);
    let secure = node("secure@5f000000", [words("reg", &[0, 0x5f00_0000, 0, 0x10_0000]), words("no-map", &[])], []);
    let reserved = node(
        "reserved-memory",
        [words("#address-cells", &[2]), words("#size-cells", &[2]), words("ranges", &[])],
        [secure],
    );
    let chosen = node(
        "chosen",
        [
            text("bootargs", "spica.verbose"),
            words("linux,initrd-start", &[0, 0x4800_0000]),
            words("linux,initrd-end", &[0x4800_1001]),
        ],
        [],
    );
    let blob = blob(
        [
            words("#address-cells", &[2]),
            words("#size-cells", &[2]),
            text("model", "Board"),
            text("compatible", "some,chip"),
        ],
        [memory, reserved, chosen],
    );
    let info = Info::read(Tree::new(&blob).unwrap()).unwrap();
    assert_eq!(info.model, "Board (some,chip)");
    assert_eq!(info.banks, slice::from_ref(&(0x4000_0000..0x6000_0000)));
    assert_eq!(info.initrd, Some(0x4800_0000..0x4800_1001));
    assert_eq!(info.command_line, "spica.verbose");
    assert_eq!(
        info.reserved.iter().map(|taken| (taken.range.start, taken.no_map)).collect::<Vec<_>>(),
        [(0x5f00_0000, true)]
    );
}

#[test]
fn a_board_without_memory_is_told_what_is_missing() {
    let blob = blob([text("model", "Board")], []);
    let error = Info::read(Tree::new(&blob).unwrap()).unwrap_err();
    assert_eq!((error.node.as_str(), error.property), ("/memory", "reg"));
}

/// As most boards with a generic timer have it; the specification's limit is 31 characters.
#[test]
fn a_name_may_be_longer_than_the_specification_allows() {
    let name = "arm,cpu-registers-not-fw-configured";
    let mut timer = node("timer", [], []);
    timer.add_property(DeviceTreeProperty::new_unchecked(name, Vec::<u8>::new()));
    let blob = blob([], [timer]);
    assert!(Tree::new(&blob).unwrap().at("/timer").unwrap().property(name).is_some());
}
