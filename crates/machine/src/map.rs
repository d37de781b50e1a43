//! The memory map and the interrupt wiring of QEMU's `virt` board, as far as we have it.

use spica_addr::GuestPa;

/// Where RAM starts; there is nothing above its end.
pub const RAM: GuestPa = GuestPa(0x4000_0000);
/// The most RAM that fits: up to the end of the 32-bit space.
pub const MAX_RAM: u32 = 0xc000_0000;

/// The interrupt controller's distributor.
pub const GICD: GuestPa = GuestPa(0x0800_0000);
/// The interrupt controller's CPU interface.
pub const GICC: GuestPa = GuestPa(0x0801_0000);
/// The size of each of the interrupt controller's two frames.
pub const GIC_FRAME: u32 = 0x1_0000;

/// The console.
pub const UART: GuestPa = GuestPa(0x0900_0000);
/// The real-time clock.
pub const RTC: GuestPa = GuestPa(0x0901_0000);
/// The GPIO block with the power key.
pub const GPIO: GuestPa = GuestPa(0x0903_0000);
/// The size of the frame of each of these three.
pub const PRIMECELL_FRAME: u32 = 0x1000;

/// The first virtio slot.
pub const VIRTIO: GuestPa = GuestPa(0x0a00_0000);
/// How many virtio slots there are.
pub const VIRTIO_SLOTS: u32 = 32;
/// The size of a virtio slot's frame, and the distance to the next.
pub const VIRTIO_FRAME: u32 = 0x200;

/// The shared peripheral interrupt of the console.
pub const UART_SPI: u32 = 1;
/// The shared peripheral interrupt of the real-time clock.
pub const RTC_SPI: u32 = 2;
/// The shared peripheral interrupt of the GPIO block.
pub const GPIO_SPI: u32 = 7;
/// The shared peripheral interrupt of the first virtio slot; the others follow.
pub const VIRTIO_SPI: u32 = 16;

/// The private peripheral interrupt of the secure physical timer.
pub const TIMER_SECURE_PPI: u32 = 13;
/// The private peripheral interrupt of the non-secure physical timer.
pub const TIMER_NONSECURE_PPI: u32 = 14;
/// The private peripheral interrupt of the virtual timer.
pub const TIMER_VIRTUAL_PPI: u32 = 11;
/// The private peripheral interrupt of the hypervisor's timer.
pub const TIMER_HYP_PPI: u32 = 10;

/// The GPIO line of the power key.
pub const POWER_KEY_LINE: u32 = 3;

/// The frequency of the guest's counter in Hz, as on QEMU.
pub const COUNTER_HZ: u32 = 62_500_000;
