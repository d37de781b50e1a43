//! The seam between a load or store and a device: [`Mmio`].
//!
//! An access has an offset from the start of the device's frame and a [`Width`]. It never straddles a word: the machine
//! refuses misaligned accesses before they get here, as Device memory does (DDI 0406C, A3.2.1).

/// How wide an access is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Width {
    /// 8 bits: LDRB, STRB.
    Byte,
    /// 16 bits: LDRH, STRH.
    Half,
    /// 32 bits: LDR, STR, and each word of LDRD, LDM and so on.
    Word,
}

impl Width {
    /// The width of an access of 1, 2 or 4 bytes; no other exists on the device bus.
    #[must_use]
    pub const fn from_bytes(bytes: u32) -> Option<Self> {
        match bytes {
            1 => Some(Self::Byte),
            2 => Some(Self::Half),
            4 => Some(Self::Word),
            _ => None,
        }
    }

    /// The size in bytes.
    #[must_use]
    pub const fn bytes(self) -> u32 {
        match self {
            Self::Byte => 1,
            Self::Half => 2,
            Self::Word => 4,
        }
    }

    /// The bits of a register that an access of this width at byte lane 0 covers.
    #[must_use]
    pub const fn mask(self) -> u32 {
        match self {
            Self::Byte => 0xff,
            Self::Half => 0xffff,
            Self::Word => 0xffff_ffff,
        }
    }

    /// How far the accessed bits lie from bit 0 of the word that contains them.
    #[must_use]
    pub const fn lane_shift(offset: u32) -> u32 {
        (offset & 3) * 8
    }

    /// The part of `word` that an access of this width at `offset` sees, in the low bits.
    #[must_use]
    pub const fn extract(self, word: u32, offset: u32) -> u32 {
        (word >> Self::lane_shift(offset)) & self.mask()
    }

    /// `old` with the accessed part replaced by `value`.
    #[must_use]
    pub const fn insert(self, old: u32, offset: u32, value: u32) -> u32 {
        let lanes = self.mask() << Self::lane_shift(offset);
        (old & !lanes) | ((value << Self::lane_shift(offset)) & lanes)
    }
}

/// A device that answers loads and stores.
pub trait Mmio {
    /// The value of a load at `offset` bytes into the device's frame, zero-extended. Reading may change the device, as
    /// reading a FIFO does. An offset where no register is reads as zero.
    fn read(&mut self, offset: u32, width: Width) -> u32;

    /// A store of the low bits of `value` at `offset`. An offset where no register is ignores the store.
    fn write(&mut self, offset: u32, width: Width, value: u32);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_bus_widths_exist() {
        assert_eq!(Width::from_bytes(1), Some(Width::Byte));
        assert_eq!(Width::from_bytes(2), Some(Width::Half));
        assert_eq!(Width::from_bytes(4), Some(Width::Word));
        for bytes in [0, 3, 8, u32::MAX] {
            assert_eq!(Width::from_bytes(bytes), None);
        }
    }

    #[test]
    fn lanes_select_and_replace_bytes() {
        assert_eq!(Width::Byte.extract(0x4433_2211, 2), 0x33);
        assert_eq!(Width::Half.extract(0x4433_2211, 2), 0x4433);
        assert_eq!(Width::Word.extract(0x4433_2211, 0), 0x4433_2211);
        assert_eq!(Width::Byte.insert(0x4433_2211, 1, 0xffff_ffaa), 0x4433_aa11);
        assert_eq!(Width::Half.insert(0x4433_2211, 2, 0xbbaa), 0xbbaa_2211);
    }
}
