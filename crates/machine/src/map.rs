//! The memory map and the interrupt wiring of QEMU's `virt` board, as far as we have it.

use spica_addr::GuestPa;

/// Where RAM starts; there is nothing above its end.
pub const RAM: GuestPa = GuestPa(0x4000_0000);
/// The most RAM that fits: up to the end of the 32-bit space.
pub const MAX_RAM: u32 = 0xc000_0000;

/// The two banks of flash. The processor starts at the beginning of the first, if there is flash.
pub const FLASH: [GuestPa; 2] = [GuestPa(0), GuestPa(0x0400_0000)];
/// The size of each of them.
pub const FLASH_BANK: u32 = 0x0400_0000;

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
/// The firmware configuration device. Its frame has [`spica_devices::fw_cfg::FRAME`] bytes.
pub const FW_CFG: GuestPa = GuestPa(0x0902_0000);
/// The GPIO block with the power key.
pub const GPIO: GuestPa = GuestPa(0x0903_0000);
/// The size of the frame of the console, the clock and the GPIO block.
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

/// The private peripheral interrupt of the secure physical timer, which this machine has not.
pub const TIMER_SECURE_PPI: u32 = 13;
/// The private peripheral interrupt of the non-secure physical timer: the one that CP15 reaches.
pub const TIMER_NONSECURE_PPI: u32 = 14;
/// The private peripheral interrupt of the virtual timer.
pub const TIMER_VIRTUAL_PPI: u32 = 11;
/// The private peripheral interrupt of the hypervisor's timer.
pub const TIMER_HYP_PPI: u32 = 10;

/// The GPIO line of the power key.
pub const POWER_KEY_LINE: u32 = 3;

/// The frequency of the guest's counter in Hz, as on QEMU.
pub const COUNTER_HZ: u32 = 62_500_000;

/// What QEMU's board has that a guest may lack, by the address where it begins and its size; in order.
const ABSENT: [(u32, u32, &str); 13] = [
    (0, 0x0800_0000, "flash"),
    (0x0802_0000, 0x1000, "the frame for message-signalled interrupts"),
    (0x0803_0000, 0x2_0000, "the interrupt controller's part for virtual machines"),
    (0x080a_0000, 0xf6_0000, "redistributors of a GICv3"),
    (0x0904_0000, 0x1000, "the secure UART"),
    (0x0905_0000, 0x2_0000, "the SMMU"),
    (0x0907_0000, 0x4_0000, "slots for memory, and ACPI's devices"),
    (0x090b_0000, 0x1000, "the secure GPIO"),
    (0x0c00_0000, 0x0200_0000, "the platform bus"),
    (0x0e00_0000, 0x0100_0000, "secure memory"),
    (0x1000_0000, 0x2eff_0000, "PCI devices"),
    (0x3eff_0000, 0x1_0000, "PCI ports"),
    (0x3f00_0000, 0x0100_0000, "PCI configuration"),
];

/// What QEMU's board has at an address where a guest found nothing, if anything.
#[must_use]
pub fn absent(pa: GuestPa) -> Option<&'static str> {
    ABSENT.iter().find(|&&(base, size, _)| pa.0.wrapping_sub(base) < size).map(|&(_, _, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_absent_has_a_name_and_what_is_there_none() {
        assert_eq!(absent(GuestPa(0x0400_0004)), Some("flash"));
        assert_eq!(absent(GuestPa(0x3f00_0000)), Some("PCI configuration"));
        for there in [GICD, GICC, UART, RTC, FW_CFG, GPIO, VIRTIO, RAM, GuestPa(u32::MAX)] {
            assert_eq!(absent(there), None, "{there}");
        }
        for (at, pair) in ABSENT.windows(2).enumerate() {
            assert!(pair[0].0 + pair[0].1 <= pair[1].0, "entry {at} reaches into the next");
        }
    }
}
