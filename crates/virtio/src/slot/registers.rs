//! The registers of a slot by their offsets (virtio 4.2.2).

use spica_devices::Width;

use super::Plugged;
use crate::device::CONFIG;

const MAGIC_VALUE: u32 = 0x000;
const VERSION: u32 = 0x004;
const DEVICE_ID: u32 = 0x008;
const VENDOR_ID: u32 = 0x00c;
const DEVICE_FEATURES: u32 = 0x010;
const DEVICE_FEATURES_SEL: u32 = 0x014;
const DRIVER_FEATURES: u32 = 0x020;
const DRIVER_FEATURES_SEL: u32 = 0x024;
const QUEUE_SEL: u32 = 0x030;
const QUEUE_NUM_MAX: u32 = 0x034;
const QUEUE_NUM: u32 = 0x038;
const QUEUE_READY: u32 = 0x044;
const QUEUE_NOTIFY: u32 = 0x050;
const INTERRUPT_STATUS: u32 = 0x060;
const INTERRUPT_ACK: u32 = 0x064;
const STATUS: u32 = 0x070;
const QUEUE_DESC_LOW: u32 = 0x080;
const QUEUE_DESC_HIGH: u32 = 0x084;
const QUEUE_DRIVER_LOW: u32 = 0x090;
const QUEUE_DRIVER_HIGH: u32 = 0x094;
const QUEUE_DEVICE_LOW: u32 = 0x0a0;
const QUEUE_DEVICE_HIGH: u32 = 0x0a4;
const SHM_LEN_LOW: u32 = 0x0b0;
const SHM_BASE_HIGH: u32 = 0x0bc;
const QUEUE_RESET: u32 = 0x0c0;
const CONFIG_GENERATION: u32 = 0x0fc;
/// Where the device's configuration space begins.
const CONFIG_SPACE: u32 = 0x100;

/// "virt", little-endian.
const MAGIC: u32 = 0x7472_6976;
/// The transport of virtio 1.0 and later.
const MODERN: u32 = 2;
/// "Spic", little-endian. Nobody assigns these; drivers may look for quirks by them.
const VENDOR: u32 = 0x6369_7053;
/// There is no shared memory: its length and base read as all ones.
const NO_SHARED_MEMORY: u32 = u32::MAX;

/// A register of a slot in which nothing is plugged.
pub(super) const fn read_empty(offset: u32, width: Width) -> u32 {
    match (offset, width) {
        (MAGIC_VALUE, Width::Word) => MAGIC,
        (VERSION, Width::Word) => MODERN,
        _ => 0,
    }
}

/// The half of a 64-bit value that `high` says.
const fn half(value: u64, high: u32) -> u32 {
    match high {
        0 => value as u32,
        1 => (value >> 32) as u32,
        _ => 0,
    }
}

/// Replaces a half of a 64-bit value.
const fn set_half(value: &mut u64, high: u32, new: u32) {
    match high {
        0 => *value = *value & !0xffff_ffff | new as u64,
        1 => *value = *value & 0xffff_ffff | (new as u64) << 32,
        _ => {}
    }
}

impl Plugged {
    pub(super) fn read(&self, offset: u32, width: Width) -> u32 {
        if offset >= CONFIG_SPACE {
            return self.read_config(offset - CONFIG_SPACE, width);
        }
        if width != Width::Word {
            return 0;
        }
        let queue = self.queues.get(self.selected as usize);
        match offset {
            MAGIC_VALUE => MAGIC,
            VERSION => MODERN,
            DEVICE_ID => self.model.device().id(),
            VENDOR_ID => VENDOR,
            DEVICE_FEATURES => half(self.offered(), self.device_half),
            QUEUE_NUM_MAX => queue.map_or(0, |queue| queue.max().into()),
            QUEUE_READY => queue.is_some_and(|queue| queue.is_ready()).into(),
            INTERRUPT_STATUS => self.interrupt,
            STATUS => self.status,
            SHM_LEN_LOW..=SHM_BASE_HIGH if offset & 3 == 0 => NO_SHARED_MEMORY,
            CONFIG_GENERATION => self.generation,
            _ => 0,
        }
    }

    pub(super) fn write(&mut self, offset: u32, width: Width, value: u32) {
        if offset >= CONFIG_SPACE {
            return self.write_config(offset - CONFIG_SPACE, width, value);
        }
        if width != Width::Word {
            return;
        }
        match offset {
            DEVICE_FEATURES_SEL => self.device_half = value,
            DRIVER_FEATURES if self.status & super::status::FEATURES_OK == 0 => {
                set_half(&mut self.accepted, self.driver_half, value);
            }
            DRIVER_FEATURES_SEL => self.driver_half = value,
            QUEUE_SEL => self.selected = value,
            QUEUE_NOTIFY if (value as usize) < self.queues.len() => self.attention = true,
            INTERRUPT_ACK => {
                self.interrupt &= !value;
                self.edge = self.interrupt != 0;
            }
            STATUS => self.write_status(value),
            QUEUE_NUM..=QUEUE_RESET => self.write_queue(offset, value),
            _ => {}
        }
    }

    /// The registers of the selected queue.
    fn write_queue(&mut self, offset: u32, value: u32) {
        let Some(queue) = self.queues.get_mut(self.selected as usize) else { return };
        match offset {
            QUEUE_NUM => {
                if let Some(size) = queue.size_mut() {
                    *size = value;
                }
            }
            QUEUE_READY => {
                let before = queue.is_ready();
                match queue.set_ready(value & 1 != 0) {
                    Err(malformed) => self.fail(malformed),
                    // A queue that starts anew has no open request.
                    Ok(()) if !before => self.model.device_mut().reset_queue(self.selected as usize),
                    Ok(()) => {}
                }
            }
            // Reading it gives 0: done already.
            QUEUE_RESET if value == 1 && self.accepted & crate::features::RING_RESET != 0 => {
                queue.reset();
                self.model.device_mut().reset_queue(self.selected as usize);
            }
            _ => {
                let Some(place) = queue.place_mut() else { return };
                match offset {
                    QUEUE_DESC_LOW => set_half(&mut place.table, 0, value),
                    QUEUE_DESC_HIGH => set_half(&mut place.table, 1, value),
                    QUEUE_DRIVER_LOW => set_half(&mut place.driver, 0, value),
                    QUEUE_DRIVER_HIGH => set_half(&mut place.driver, 1, value),
                    QUEUE_DEVICE_LOW => set_half(&mut place.device, 0, value),
                    QUEUE_DEVICE_HIGH => set_half(&mut place.device, 1, value),
                    _ => {}
                }
            }
        }
    }

    fn read_config(&self, offset: u32, width: Width) -> u32 {
        let config = self.model.device().config();
        let bytes = config.get(offset as usize..).unwrap_or_default();
        let bytes = bytes.iter().take(width.bytes() as usize);
        bytes.rev().fold(0, |value, &byte| value << 8 | u32::from(byte))
    }

    fn write_config(&mut self, offset: u32, width: Width, value: u32) {
        if offset < CONFIG as u32 {
            let bytes = value.to_le_bytes();
            self.model.device_mut().write_config(offset, bytes.get(..width.bytes() as usize).unwrap_or_default());
        }
    }
}
