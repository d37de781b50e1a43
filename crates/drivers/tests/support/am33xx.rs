//! A device tree of the shape of an AM335x board's own: devices in the nodes of their modules, clocks behind
//! multiplexers.

use dtoolkit::model::DeviceTreeNode;
use spica_drivers::models::am33xx::{TIMER2, UART0};

use super::{blob, node, text, words};

/// The path of the UART.
pub const UART: &str = "/ocp/interconnect@44c00000/target-module@9000/serial@0";

fn bus_node(name: &str, ranges: &[u32], children: Vec<DeviceTreeNode>) -> DeviceTreeNode {
    let cells = [words("#address-cells", &[1]), words("#size-cells", &[1]), words("ranges", ranges)];
    node(name, cells, children)
}

/// A device in the node of its module, whose clock is `clock`.
fn module(at: u32, clock: [u32; 3], device: DeviceTreeNode) -> DeviceTreeNode {
    let properties = [
        text("compatible", "ti,sysc-omap2\0ti,sysc"),
        words("clocks", &clock),
        words("#address-cells", &[1]),
        words("#size-cells", &[1]),
        words("ranges", &[0, at, 0x1000]),
    ];
    node(&format!("target-module@{at:x}"), properties, [device])
}

fn timer(interrupt: u32, clocked: bool) -> DeviceTreeNode {
    let mut properties =
        vec![text("compatible", "ti,am335x-timer"), words("reg", &[0, 0x400]), words("interrupts", &[interrupt])];
    if clocked {
        properties.extend([words("clocks", &[0x3c]), words("assigned-clock-parents", &[0x0d])]);
    }
    node("timer@0", properties, [])
}

/// The tree. `clocked`: whether timer 2 has its clock in the tree; `timers`: how many there are.
pub fn tree(clocked: bool, timers: usize) -> Vec<u8> {
    let fixed =
        |name: &str, phandle, hertz| node(name, [words("clock-frequency", &[hertz]), words("phandle", &[phandle])], []);
    let gates = |name: &str, phandle, reg: &[u32]| {
        let cells = words("#clock-cells", &[2]);
        node(name, [text("compatible", "ti,clkctrl"), words("reg", reg), words("phandle", &[phandle]), cells], [])
    };
    let manager = |at: u32, gates| {
        let properties = [
            words("reg", &[at, 0x400]),
            words("#address-cells", &[1]),
            words("#size-cells", &[1]),
            words("ranges", &[0, at, 0x400]),
        ];
        node(&format!("clock@{at:x}"), properties, [gates])
    };
    let mux = |name: &str, phandle, properties: Vec<_>| {
        let all = [text("compatible", "ti,mux-clock"), words("#clock-cells", &[0]), words("phandle", &[phandle])];
        node(name, all.into_iter().chain(properties), [])
    };
    let timer2 = mux("timer2-fck@508", 0x3c, vec![words("clocks", &[0x1a, 0x0d, 0x19, 0, 0]), words("reg", &[0x508])]);
    let crystal = mux(
        "sys-clkin@40",
        0x0d,
        vec![words("clocks", &[0x2e, 0x2f, 0x30, 0x31]), words("ti,bit-shift", &[22]), words("reg", &[0x40])],
    );
    let with_cells = |name: &str, reg: &[u32], children: Vec<DeviceTreeNode>| {
        let properties = [
            words("reg", reg),
            words("#address-cells", &[1]),
            words("#size-cells", &[1]),
            words("ranges", &[0, 0, reg[1]]),
        ];
        node(name, properties, children)
    };
    let crystals = [(0x2e, 19_200_000), (0x2f, 24_000_000), (0x30, 25_000_000), (0x31, 26_000_000)];
    let mut clocks: Vec<_> =
        crystals.iter().map(|&(phandle, hertz)| fixed(&format!("virt-{hertz}"), phandle, hertz)).collect();
    clocks.extend([fixed("tclkin", 0x1a, 12_000_000), timer2]);
    let prcm = with_cells(
        "prcm@0",
        &[0, 0x2000],
        vec![
            node("clocks", [], clocks),
            manager(0, gates("clock@38", 0x39, &[0x38, 0x2c, 0x6c, 0x28])),
            manager(0x400, gates("clock@0", 0x0b, &[0, 0x10, 0xb4, 0x24])),
            manager(0x300, gates("clock@14c", 0x19, &[0x14c, 4])),
        ],
    );
    let scm = with_cells("scm@0", &[0, 0x800], vec![node("clocks", [], [crystal])]);
    let uart = [
        text("compatible", "ti,am3352-uart\0ti,omap3-uart"),
        words("reg", &[0, 0x1000]),
        words("interrupts", &[UART0]),
    ];
    let watchdog = [text("compatible", "ti,omap3-wdt"), words("reg", &[0, 0x1000])];
    let wakeup = bus_node(
        "interconnect@44c00000",
        &[0, 0x44e0_0000, 0x10_0000],
        vec![
            bus_node("target-module@0", &[0, 0, 0x2000], vec![prcm]),
            module(0x9000, [0x0b, 0xb4, 0], node("serial@0", uart, [])),
            bus_node("target-module@10000", &[0, 0x10000, 0x10000], vec![scm]),
            module(0x35000, [0x0b, 0xd4, 0], node("wdt@0", watchdog, [])),
        ],
    );
    let both =
        [module(0x40000, [0x39, 0x48, 0], timer(TIMER2, clocked)), module(0x42000, [0x39, 0x4c, 0], timer(69, false))];
    let peripherals =
        bus_node("interconnect@48000000", &[0, 0x4800_0000, 0x100_0000], both.into_iter().take(timers).collect());
    let intc = [
        text("compatible", "ti,am33xx-intc"),
        words("#interrupt-cells", &[1]),
        words("reg", &[0x4820_0000, 0x1000]),
        words("phandle", &[1]),
    ];
    let ocp = bus_node("ocp", &[], vec![wakeup, peripherals, node("interrupt-controller@48200000", intc, [])]);
    let chosen = node("chosen", [text("stdout-path", UART)], []);
    blob([words("interrupt-parent", &[1]), words("#address-cells", &[1]), words("#size-cells", &[1])], [chosen, ocp])
}
