//! From the boot loader to `main`: the start code, and the steps in which the machine becomes usable.
//!
//! `start.s` leaves off with MMU and caches on, under a boot table that maps just the image and the device tree.
//! [`rust_start`] goes on from there: its own vectors, the host table with the image write-xor-execute, the UART (so
//! that from here on anything that goes wrong can be said), memory, the pool and the heap, the other devices, and then
//! `main`.

use spica_addr::HostPa;
use spica_vcpu::psr::{self, Mode};

use crate::assemble::assemble;
use crate::layout::{HOST_DACR, HOST_DOMAIN, IMAGE_MEGABYTES, MEGABYTE, TTBR_WALK};
use crate::memory::host_space::{
    LARGE_PAGE, LARGE_PAGE_BITS, PAGE, PAGE_NOT_GLOBAL, PAGE_READ_WRITE, SECTION, SECTION_NORMAL, SECTION_NOT_GLOBAL,
    SECTION_XN,
};

assemble! {
    files: [include_str!("start.s")];
    functions: [rust_start];

    PSR_MODE = psr::MODE;
    PSR_IF = psr::I | psr::F;
    PSR_A = psr::A;
    MODE_SVC = Mode::Svc as u32;
    MODE_HYP = MODE_HYP;

    MEGABYTE = MEGABYTE;
    IMAGE_MEGABYTES = IMAGE_MEGABYTES;
    MEGABYTE_BITS = MEGABYTE.trailing_zeros();
    // Executable, not global: under ASID 0, until the host table is there.
    BOOT_SECTION = SECTION & !SECTION_XN | SECTION_NORMAL | SECTION_NOT_GLOBAL;
    SECTION_XN = SECTION_XN;
    // The same by pages: the first-level entry, and those of the second level.
    BOOT_PAGES = HOST_DOMAIN << 5 | 0b01;
    BOOT_PAGE = PAGE | PAGE_READ_WRITE | PAGE_NOT_GLOBAL;
    BOOT_LARGE_PAGE = LARGE_PAGE | PAGE_READ_WRITE | PAGE_NOT_GLOBAL;
    LARGE_PAGE_BITS = LARGE_PAGE_BITS;
    TTBR_WALK = TTBR_WALK;
    // The host's domain, and domain 0.
    BOOT_DACR = HOST_DACR | 1;
}

/// Hyp mode in a PSR (B1.3.1), which nothing but the start code has to do with.
const MODE_HYP: u32 = 0x1a;

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
