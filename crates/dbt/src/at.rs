//! A guest instruction's place, and what follows from it for its PC (A2.3).
//!
//! Wherever the translator takes the address of guest code, bit 0 says the state, as it does in a branch target
//! (A2.3.2): 0 for A32, 1 for T32. So blocks, exits, return addresses and entries of the jump cache tell the two apart
//! by themselves.

use spica_addr::GuestVa;

/// Whether code at `entry` is T32.
#[must_use]
pub const fn is_thumb(entry: GuestVa) -> bool {
    entry.0 & 1 != 0
}

/// The address of the first byte of code at `entry`.
#[must_use]
pub const fn address(entry: GuestVa) -> GuestVa {
    GuestVa(entry.0 & !1)
}

/// See the module's text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct At {
    entry: GuestVa,
    /// Bytes.
    length: u32,
}

impl At {
    /// An A32 instruction at `va`.
    #[must_use]
    pub const fn a32(va: GuestVa) -> At {
        At { entry: va, length: 4 }
    }

    /// A T32 instruction of `length` bytes at `va`.
    #[must_use]
    pub const fn t32(va: GuestVa, length: u32) -> At {
        At { entry: GuestVa(va.0 | 1), length }
    }

    /// Whether it is T32.
    #[must_use]
    pub const fn thumb(self) -> bool {
        is_thumb(self.entry)
    }

    /// Its address, with its state in bit 0.
    #[must_use]
    pub const fn entry(self) -> GuestVa {
        self.entry
    }

    /// What it reads as its PC.
    #[must_use]
    pub const fn pc(self) -> GuestVa {
        GuestVa(address(self.entry).0.wrapping_add(if self.thumb() { 4 } else { 8 }))
    }

    /// The same as the base of a literal or of an address: `Align(PC, 4)`.
    #[must_use]
    pub const fn base(self) -> GuestVa {
        GuestVa(self.pc().0 & !3)
    }

    /// Where a call returns to: the next instruction, with the state in bit 0.
    #[must_use]
    pub const fn behind(self) -> GuestVa {
        GuestVa(self.entry.0.wrapping_add(self.length))
    }

    /// The address `target` in this instruction's state: where a branch leads that does not change it.
    #[must_use]
    pub const fn in_state(self, target: GuestVa) -> GuestVa {
        GuestVa(target.0 | self.entry.0 & 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pc_is_ahead_by_the_state() {
        let a32 = At::a32(GuestVa(0x8000));
        assert_eq!((a32.pc(), a32.base(), a32.behind()), (GuestVa(0x8008), GuestVa(0x8008), GuestVa(0x8004)));
        let narrow = At::t32(GuestVa(0x8002), 2);
        assert_eq!((narrow.pc(), narrow.base(), narrow.behind()), (GuestVa(0x8006), GuestVa(0x8004), GuestVa(0x8005)));
        let wide = At::t32(GuestVa(0x8002), 4);
        assert_eq!((wide.entry(), wide.behind()), (GuestVa(0x8003), GuestVa(0x8007)));
        assert_eq!((wide.in_state(GuestVa(0x10)), a32.in_state(GuestVa(0x10))), (GuestVa(0x11), GuestVa(0x10)));
    }
}
