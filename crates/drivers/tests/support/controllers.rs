//! Boards with a GIC, and with the Allwinner A10's interrupt controller.

use dtoolkit::model::DeviceTreeNode;

use super::{blob, node, text, words};

/// The GIC's registers: distributor, CPU interface.
pub const GIC: [u32; 2] = [0x1e00_1000, 0x1e00_0100];

/// The INTC's registers.
pub const INTC: u32 = 0x01c2_0400;

/// A board whose interrupt controller is a GIC.
pub fn with_gic(others: impl IntoIterator<Item = DeviceTreeNode>) -> Vec<u8> {
    with("arm,cortex-a9-gic", 3, &[GIC[0], 0x1000, GIC[1], 0x100], others)
}

/// A board whose interrupt controller is the A10's.
pub fn with_intc(others: impl IntoIterator<Item = DeviceTreeNode>) -> Vec<u8> {
    with("allwinner,sun4i-a10-ic", 1, &[INTC, 0x400], others)
}

/// A board with this controller.
pub fn with(
    compatible: &str,
    cells: u32,
    registers: &[u32],
    others: impl IntoIterator<Item = DeviceTreeNode>,
) -> Vec<u8> {
    let properties = [
        text("compatible", compatible),
        words("#interrupt-cells", &[cells]),
        words("reg", registers),
        words("phandle", &[1]),
    ];
    let controller = node("interrupt-controller", properties, []);
    let cells = [words("interrupt-parent", &[1]), words("#address-cells", &[1]), words("#size-cells", &[1])];
    blob(cells, [controller].into_iter().chain(others))
}
