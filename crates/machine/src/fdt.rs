//! The device tree that describes the machine to a guest's kernel.
//!
//! It follows the one that QEMU makes for its `virt` board, so that whatever boots there finds what it expects, with
//! these differences: PSCI is called by `smc`; the timer is marked `arm,cpu-registers-not-fw-configured`, which makes
//! Linux use the physical timer and keep user mode away from the counter; there is flash only where firmware was given;
//! and there is no PCI, PMU, or MSI frame.
//!
//! Firmware hands the tree on to what it starts, adds to it before that, and counts on the room that QEMU leaves in it:
//! see [`Blob::for_firmware`].

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use dtoolkit::model::{DeviceTree, DeviceTreeNode, DeviceTreeProperty};
use dtoolkit::{Node as _, Property as _, ToPropertyValue};
use spica_addr::GuestPa;
use spica_devices::fw_cfg;

use crate::map;

/// What differs from one guest to another.
#[derive(Clone, Copy, Debug)]
pub struct FdtSpec<'a> {
    /// The size of RAM in bytes, from [`map::RAM`] on.
    pub ram_size: u32,
    /// The kernel's command line.
    pub bootargs: &'a str,
    /// The initial RAM disk: start and length in bytes.
    pub initrd: Option<(GuestPa, u32)>,
    /// What kind of CPU the guest sees, such as `arm,cortex-a9`.
    pub cpu_compatible: &'a str,
    /// Whether there is flash.
    pub flash: bool,
}

/// The handles by which nodes refer to each other, in the order of their making.
mod phandle {
    pub const GIC: u32 = 1;
    pub const CLOCK: u32 = 2;
    pub const GPIO: u32 = 3;
}

/// The kinds of interrupt that the first cell of an interrupt specifier names.
const SPI: u32 = 0;
const PPI: u32 = 1;
/// Flags of an interrupt specifier.
const EDGE_RISING: u32 = 1;
const LEVEL_HIGH: u32 = 4;
/// For a PPI: it goes to CPU 0.
const CPU_0: u32 = 1 << 8;

const GPIO_ACTIVE_HIGH: u32 = 0;
/// Linux's code of the power key.
const KEY_POWER: u32 = 116;
/// The clock of the UART and of the bus, in Hz.
const APB_HZ: u32 = 24_000_000;

/// A node under construction: names are ours, so they are valid by construction.
struct Node(DeviceTreeNode);

impl Node {
    fn new(name: impl Into<String>) -> Self {
        Self(DeviceTreeNode::new_unchecked(name))
    }

    fn with(mut self, name: &str, value: impl ToPropertyValue) -> Self {
        self.0.add_property(DeviceTreeProperty::new_unchecked(name, value));
        self
    }

    /// A property whose presence says it all.
    fn flag(self, name: &str) -> Self {
        self.with(name, [0u8; 0])
    }

    /// A list of strings.
    fn strings(self, name: &str, strings: &[&str]) -> Self {
        let bytes: Vec<u8> = strings.iter().flat_map(|string| string.bytes().chain([0])).collect();
        self.with(name, bytes)
    }

    /// `reg` with one frame.
    fn reg(self, base: GuestPa, size: u32) -> Self {
        self.with("reg", [0, base.0, 0, size])
    }

    fn child(mut self, child: Self) -> Self {
        self.0.add_child(child.0);
        self
    }
}

/// How large QEMU makes the tree of its `virt` board, in bytes.
const QEMU_LEN: u32 = 1 << 20;

/// A blob as it goes into a guest's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blob {
    /// Its beginning.
    pub bytes: Vec<u8>,
    /// How many zeroes belong behind that.
    pub zeroes: u32,
}

impl Blob {
    /// With nothing behind it, as kernels get it.
    #[must_use]
    pub fn for_kernel(bytes: Vec<u8>) -> Self {
        Self { bytes, zeroes: 0 }
    }

    /// As large as QEMU's, and for the most part empty.
    ///
    /// Some systems boot by this only. GRUB asks UEFI for memory for an initial RAM disk, for a copy of this tree, and
    /// for the kernel, in this order, and gets it downwards. Linux 6.1's decompressor writes to 64 KiB *behind* its
    /// image that the image's header does not ask for. On QEMU's board, the copy lies there, and is large enough to
    /// come between. A small copy fits into some gap elsewhere, and the RAM disk loses its beginning.
    #[must_use]
    pub fn for_firmware(mut bytes: Vec<u8>) -> Self {
        let zeroes = QEMU_LEN.saturating_sub(bytes.len() as u32);
        // The field `totalsize` (Devicetree Specification 5.2).
        if let (1.., Some(total)) = (zeroes, bytes.get_mut(4..8)) {
            total.copy_from_slice(&QEMU_LEN.to_be_bytes());
        }
        Self { bytes, zeroes }
    }

    /// Its length in memory.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "none is empty")]
    pub fn len(&self) -> u32 {
        self.bytes.len() as u32 + self.zeroes
    }
}

/// Builds the device tree blob.
#[must_use]
pub fn build(spec: &FdtSpec<'_>) -> Vec<u8> {
    let mut root = Node::new("")
        .with("compatible", "linux,dummy-virt")
        .with("model", "linux,dummy-virt")
        .with("#address-cells", 2u32)
        .with("#size-cells", 2u32)
        .with("interrupt-parent", phandle::GIC)
        .child(chosen(spec))
        .child(Node::new("aliases").strings("serial0", &[&uart_path()]))
        .child(memory(spec))
        .child(cpus(spec))
        .child(psci())
        .child(timer())
        .child(clock())
        .child(interrupt_controller())
        .child(uart())
        .child(rtc())
        .child(fw_cfg())
        .child(gpio())
        .child(power_key());
    if spec.flash {
        root = root.child(flash());
    }
    for slot in 0..map::VIRTIO_SLOTS {
        root = root.child(virtio(slot));
    }
    let mut tree = DeviceTree::new();
    tree.root = root.0;
    tree.to_dtb()
}

/// Why somebody's own device tree cannot be given to a guest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AdaptError {
    /// It is damaged.
    Damaged,
    /// Its root's `#address-cells` and `#size-cells` are not both 2, as those of the machine's own tree are.
    Cells,
}

impl fmt::Display for AdaptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Damaged => write!(f, "the device tree is damaged: `dtc -I dtb` tells where"),
            Self::Cells => {
                write!(
                    f,
                    "the device tree's root needs #address-cells and #size-cells of 2, as the machine's own tree has"
                )
            }
        }
    }
}

/// Somebody's own device tree, with what a boot loader fills in: RAM, the command line, the initial RAM disk. A command
/// line of the tree's own stays if `spec` has none.
///
/// # Errors
/// If it cannot be read.
pub fn adapt(blob: &[u8], spec: &FdtSpec<'_>) -> Result<Vec<u8>, AdaptError> {
    let parsed = spica_fdt::open(blob).ok_or(AdaptError::Damaged)?;
    for name in ["#address-cells", "#size-cells"] {
        if parsed.root().property(name).is_none_or(|property| property.value() != 2u32.to_be_bytes()) {
            return Err(AdaptError::Cells);
        }
    }
    let mut tree = DeviceTree::from_fdt(&parsed);
    let others: Vec<String> = tree.root.children_mut().map(|node| node.name().into()).collect();
    for name in others.iter().filter(|name| name.split('@').next() == Some("memory")) {
        tree.root.remove_child(name);
    }
    tree.root.add_child(memory(spec).0);
    if tree.root.child_mut("chosen").is_none() {
        tree.root.add_child(DeviceTreeNode::new_unchecked("chosen"));
    }
    if let Some(node) = tree.root.child_mut("chosen") {
        let mut set = |name: &str, property: DeviceTreeProperty| {
            node.remove_property(name);
            node.add_property(property);
        };
        if !spec.bootargs.is_empty() {
            set("bootargs", DeviceTreeProperty::new_unchecked("bootargs", spec.bootargs));
        }
        for (name, value) in initrd_properties(spec) {
            set(name, DeviceTreeProperty::new_unchecked(name, value));
        }
    }
    Ok(tree.to_dtb())
}

fn memory(spec: &FdtSpec<'_>) -> Node {
    Node::new(format!("memory@{:x}", map::RAM.0)).with("device_type", "memory").reg(map::RAM, spec.ram_size)
}

fn initrd_properties(spec: &FdtSpec<'_>) -> impl Iterator<Item = (&'static str, u32)> {
    let places = |(start, len): (GuestPa, u32)| {
        [("linux,initrd-start", start.0), ("linux,initrd-end", start.wrapping_add(len).0)]
    };
    spec.initrd.into_iter().flat_map(places)
}

fn uart_path() -> String {
    format!("/pl011@{:x}", map::UART.0)
}

fn chosen(spec: &FdtSpec<'_>) -> Node {
    let chosen = Node::new("chosen").strings("stdout-path", &[&uart_path()]).with("bootargs", spec.bootargs);
    initrd_properties(spec).fold(chosen, |chosen, (name, value)| chosen.with(name, value))
}

fn cpus(spec: &FdtSpec<'_>) -> Node {
    let cpu = Node::new("cpu@0").with("device_type", "cpu").with("compatible", spec.cpu_compatible).with("reg", 0u32);
    Node::new("cpus").with("#address-cells", 1u32).with("#size-cells", 0u32).child(cpu)
}

fn psci() -> Node {
    // The function numbers are for kernels that know PSCI 0.1 only.
    Node::new("psci")
        .strings("compatible", &["arm,psci-1.0", "arm,psci-0.2", "arm,psci"])
        .with("method", "smc")
        .with("cpu_suspend", 0x8400_0001u32)
        .with("cpu_off", 0x8400_0002u32)
        .with("cpu_on", 0x8400_0003u32)
}

fn timer() -> Node {
    let ppi = |number| [PPI, number, LEVEL_HIGH | CPU_0];
    let interrupts =
        [map::TIMER_SECURE_PPI, map::TIMER_NONSECURE_PPI, map::TIMER_VIRTUAL_PPI, map::TIMER_HYP_PPI].map(ppi);
    Node::new("timer")
        .with("compatible", "arm,armv7-timer")
        .with("interrupts", interrupts.as_flattened())
        .flag("always-on")
        .flag("arm,cpu-registers-not-fw-configured")
}

fn clock() -> Node {
    Node::new("apb-pclk")
        .with("compatible", "fixed-clock")
        .with("#clock-cells", 0u32)
        .with("clock-frequency", APB_HZ)
        .with("clock-output-names", "clk24mhz")
        .with("phandle", phandle::CLOCK)
}

fn interrupt_controller() -> Node {
    Node::new(format!("intc@{:x}", map::GICD.0))
        .with("compatible", "arm,cortex-a15-gic")
        .flag("interrupt-controller")
        .with("#interrupt-cells", 3u32)
        .with("#address-cells", 0u32)
        .with("reg", [0, map::GICD.0, 0, map::GIC_FRAME, 0, map::GICC.0, 0, map::GIC_FRAME])
        .with("phandle", phandle::GIC)
}

/// A node of a PrimeCell with its one interrupt.
fn primecell(kind: &str, base: GuestPa, spi: u32) -> Node {
    Node::new(format!("{kind}@{:x}", base.0))
        .strings("compatible", &[&format!("arm,{kind}"), "arm,primecell"])
        .reg(base, map::PRIMECELL_FRAME)
        .with("interrupts", [SPI, spi, LEVEL_HIGH])
}

fn uart() -> Node {
    primecell("pl011", map::UART, map::UART_SPI)
        .with("clocks", [phandle::CLOCK, phandle::CLOCK])
        .strings("clock-names", &["uartclk", "apb_pclk"])
}

fn rtc() -> Node {
    primecell("pl031", map::RTC, map::RTC_SPI).with("clocks", phandle::CLOCK).with("clock-names", "apb_pclk")
}

fn fw_cfg() -> Node {
    Node::new(format!("fw-cfg@{:x}", map::FW_CFG.0))
        .with("compatible", "qemu,fw-cfg-mmio")
        .reg(map::FW_CFG, fw_cfg::FRAME)
        .flag("dma-coherent")
}

fn gpio() -> Node {
    primecell("pl061", map::GPIO, map::GPIO_SPI)
        .with("clocks", phandle::CLOCK)
        .with("clock-names", "apb_pclk")
        .flag("gpio-controller")
        .with("#gpio-cells", 2u32)
        .with("phandle", phandle::GPIO)
}

fn power_key() -> Node {
    let key = Node::new("poweroff")
        .with("label", "GPIO Key Poweroff")
        .with("linux,code", KEY_POWER)
        .with("gpios", [phandle::GPIO, map::POWER_KEY_LINE, GPIO_ACTIVE_HIGH]);
    Node::new("gpio-keys").with("compatible", "gpio-keys").child(key)
}

fn flash() -> Node {
    let [first, second] = map::FLASH;
    Node::new(format!("flash@{:x}", first.0))
        .with("compatible", "cfi-flash")
        .with("reg", [0, first.0, 0, map::FLASH_BANK, 0, second.0, 0, map::FLASH_BANK])
        .with("bank-width", 4u32)
}

fn virtio(slot: u32) -> Node {
    let base = map::VIRTIO.wrapping_add(slot * map::VIRTIO_FRAME);
    Node::new(format!("virtio_mmio@{:x}", base.0))
        .with("compatible", "virtio,mmio")
        .reg(base, map::VIRTIO_FRAME)
        .with("interrupts", [SPI, map::VIRTIO_SPI + slot, EDGE_RISING])
        .flag("dma-coherent")
}

#[cfg(test)]
mod tests;
