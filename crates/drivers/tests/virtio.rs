//! Which of the board's virtio devices are found.

use crate::support;
use crate::support::plain;
use dtoolkit::model::DeviceTreeNode;
use plain::discover;
use spica_drivers::Line;
use spica_drivers::models::bus::{self, Model};
use spica_drivers::models::generic_timer;
use spica_virtio_driver::Kind;
use support::{node, text, words};

const HERTZ: u32 = 1_000_000;

/// The registers by which a device is recognised (virtio 4.2.2).
struct Virtio {
    version: u32,
    device: u32,
}

impl Model for Virtio {
    fn read(&mut self, offset: u32) -> Option<u32> {
        Some(match offset {
            0 => 0x7472_6976,
            4 => self.version,
            8 => self.device,
            _ => panic!("register {offset:#x} is read of a device that nobody wants so far"),
        })
    }

    fn write(&mut self, offset: u32, _value: u32) {
        panic!("register {offset:#x} is written of a device that nobody wants so far");
    }
}

/// Puts a device on the bus; its node.
fn attach(at: u32, interrupt: u32, version: u32, device: u32) -> DeviceTreeNode {
    bus::attach(at, 0x200, Virtio { version, device });
    let properties = [text("compatible", "virtio,mmio"), words("reg", &[at, 0x200]), words("interrupts", &[interrupt])];
    node(&format!("virtio@{at:x}"), properties, [])
}

#[test]
fn disks_and_network_cards_are_found_in_the_order_of_their_addresses() {
    generic_timer::attach(HERTZ, HERTZ);
    let nodes = [attach(0xa000_0400, 22, 2, 2), attach(0xa000_0200, 21, 2, 0), attach(0xa000_0000, 20, 2, 1)];
    let board = discover(None, nodes).unwrap();
    let found = board.virtio.iter().map(|device| (device.kind, device.line, device.node.as_str()));
    let expected = [(Kind::Net, Line(20), "/virtio@a0000000"), (Kind::Block, Line(22), "/virtio@a0000400")];
    assert!(found.eq(expected));
    assert!(board.warnings.is_empty());
}

#[test]
fn a_device_of_before_virtio_1_is_a_warning() {
    generic_timer::attach(HERTZ, HERTZ);
    let board = discover(None, [attach(0xa000_0000, 20, 1, 2)]).unwrap();
    assert!(board.virtio.is_empty());
    let [warning] = &board.warnings[..] else { panic!("{:?}", board.warnings) };
    assert!(warning.starts_with("/virtio@a0000000 is of virtio before 1.0"), "{warning}");
}
