//! From the boot loader to `main`: the start code, and the steps in which the machine becomes usable.
//!
//! `start.s` leaves off with MMU and caches on, under a boot table that maps just the image and the device tree. [`rust_start`]
//! goes on from there: its own vectors, the home table with the image write-xor-execute, the UART (so that from here on anything
//! that goes wrong can be said), memory, the pool and the heap, the other devices, and then `main`.

use spica_addr::HostPa;

use crate::assemble::assemble;

assemble! {
    files: [include_str!("start.s")];
    functions: [rust_start];
}

/// What the loader told us.
#[derive(Clone, Copy, Debug)]
pub struct Handover {
    /// Physical address of the image's first byte, after the start code moved it.
    pub image: HostPa,
    /// Physical address of the device tree.
    pub device_tree: HostPa,
    /// Bytes of the device tree; 0 if the loader passed none.
    pub device_tree_size: u32,
}

/// The start code's way into Rust: Supervisor mode, MMU on with the boot table, .bss cleared, interrupts masked.
extern "C" fn rust_start(device_tree: u32, device_tree_size: u32, image: u32) -> ! {
    crate::main(Handover { image: HostPa(image), device_tree: HostPa(device_tree), device_tree_size })
}
