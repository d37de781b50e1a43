//! The emulated boards, as QEMU starts them.

use crate::error::{Error, Result};

/// A board.
#[derive(Debug, PartialEq, Eq)]
pub struct Board {
    /// Its name on the command line; QEMU's name of the machine, too.
    pub name: &'static str,
    /// Its processor, for people.
    pub cpu: &'static str,
    /// QEMU's options beyond the machine's name and memory.
    pub options: &'static [&'static str],
    /// Its memory in MiB, as it is sold.
    pub memory_mib: u32,
    /// The most memory in MiB that QEMU gives it, for several guests.
    pub most_memory_mib: u32,
    /// Its device tree in the kernel's package; `None` if QEMU makes one.
    pub device_tree: Option<&'static str>,
    /// What a kernel that runs on it without Spica calls its UART.
    pub console: &'static str,
    /// Whether it has slots for virtio devices.
    pub virtio: bool,
}

/// All boards; the first one is the default.
pub const BOARDS: &[Board] = &[
    Board {
        name: "cubieboard",
        cpu: "Cortex-A8",
        options: &[],
        memory_mib: 512,
        most_memory_mib: 1024,
        device_tree: Some("sun4i-a10-cubieboard.dtb"),
        console: "ttyS0",
        virtio: false,
    },
    Board {
        name: "vexpress-a9",
        cpu: "Cortex-A9",
        options: &[],
        memory_mib: 1024,
        most_memory_mib: 1024,
        device_tree: Some("vexpress-v2p-ca9.dtb"),
        console: "ttyAMA0",
        virtio: false,
    },
    Board {
        name: "virt",
        cpu: "Cortex-A15",
        // Spica drives devices of virtio 1.0 and later.
        options: &["-cpu", "cortex-a15", "-global", "virtio-mmio.force-legacy=false"],
        memory_mib: 1024,
        most_memory_mib: 2048,
        device_tree: None,
        console: "ttyAMA0",
        virtio: true,
    },
];

/// The board of this name.
///
/// # Errors
/// If there is none; the error lists those that there are.
pub fn find(name: &str) -> Result<&'static Board> {
    BOARDS.iter().find(|b| b.name == name).ok_or_else(|| {
        let known: Vec<_> = BOARDS.iter().map(|b| format!("{} ({})", b.name, b.cpu)).collect();
        Error::usage(format!("unknown board {name:?}; the boards are {}", known.join(", ")))
    })
}
