//! A virtio-mmio slot in which nothing is plugged (virtio 1.2, 4.2.2).
//!
//! Software that scans the slots reads three registers: the magic value, the version and the device ID. An ID of zero
//! means "placeholder", and drivers pass over it in silence.

use crate::mmio::{Mmio, Width};

/// "virt", little-endian.
const MAGIC: u32 = 0x7472_6976;
/// The transport of virtio 1.0 and later.
const VERSION: u32 = 2;

/// A slot with the device ID 0. It has no state.
#[derive(Clone, Copy, Debug, Default)]
pub struct EmptySlot;

impl Mmio for EmptySlot {
    fn read(&mut self, offset: u32, width: Width) -> u32 {
        let word = match offset & !3 {
            0x000 => MAGIC,
            0x004 => VERSION,
            _ => 0,
        };
        width.extract(word, offset)
    }

    fn write(&mut self, _offset: u32, _width: Width, _value: u32) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_virtio_and_nobody_home() {
        let mut slot = EmptySlot;
        assert_eq!([0, 4, 8].map(|offset| slot.read(offset, Width::Word)), [0x7472_6976, 2, 0]);
        slot.write(8, Width::Word, 1);
        assert_eq!(slot.read(8, Width::Word), 0);
    }
}
