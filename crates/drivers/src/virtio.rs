//! The board's own virtio devices behind virtio-mmio: finding them. Their drivers are in `spica-virtio-driver`.
//!
//! Found are disks and network cards; the drivers take them over when a guest needs them, and not before.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use spica_virtio_driver::{Kind, kind};

use super::error::BoardError;
use super::hardware::{Hardware, Registers};
use super::tree::{Node, Tree};
use super::{Found, InterruptController, Line, map, resolve};

/// A device that no driver has taken over yet.
pub struct Device<R> {
    /// Its registers.
    pub registers: Window<R>,
    /// Its interrupt.
    pub line: Line,
    /// What it is.
    pub kind: Kind,
    /// Path of its node.
    pub node: String,
}

/// A device's registers, as its driver wants to see them.
#[derive(Clone, Copy, Debug)]
pub struct Window<R>(R);

impl<R: Registers> spica_virtio_driver::Registers for Window<R> {
    fn read(&self, offset: u32) -> u32 {
        self.0.read(offset)
    }

    fn write(&mut self, offset: u32, value: u32) {
        self.0.write(offset, value);
    }
}

/// The disks and network cards that the device tree tells of, in the order of their addresses. What is there and cannot
/// be driven is told to `warnings`.
///
/// # Errors
/// If a description does not make sense.
pub(crate) fn find<H: Hardware>(
    tree: Tree<'_>,
    interrupts: &Found<dyn InterruptController>,
    warnings: &mut Vec<String>,
) -> Result<Vec<Device<H::Registers>>, BoardError> {
    let mut nodes: Vec<Node<'_>> = Vec::new();
    tree.find(|node| {
        if node.is("virtio,mmio") && node.is_enabled() {
            nodes.push(node.clone());
        }
        false
    });
    let mut devices: Vec<(u32, Device<H::Registers>)> = Vec::new();
    for node in nodes {
        let registers = Window(map::<H>(&node, 0)?);
        match kind(&registers) {
            Kind::Other => {}
            Kind::Legacy => {
                warnings.push(format!(
                    "{} is of virtio before 1.0 and not used; in QEMU, it takes -global virtio-mmio.force-legacy=false",
                    node.path()
                ));
            }
            kind => {
                let line = resolve(tree, interrupts, &node, 0)?;
                let pa = node.reg(0)?.0.0;
                let place = devices.partition_point(|(before, _)| *before < pa);
                devices.insert(place, (pa, Device { registers, line, kind, node: node.path() }));
            }
        }
    }
    Ok(devices.into_iter().map(|(_, device)| device).collect())
}
