//! Address types.
//!
//! Spica juggles five kinds of 32-bit addresses; a mix-up of two of them is a security hole, so each has its own
//! type and no arithmetic crosses from one to the other. Conversions happen only where a walk, a shadow table or the
//! code cache says what corresponds to what.
#![no_std]

use core::fmt;

macro_rules! address {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        #[repr(transparent)]
        pub struct $name(pub u32);

        impl $name {
            /// The address `bytes` further on, modulo 2^32.
            #[must_use]
            pub const fn wrapping_add(self, bytes: u32) -> Self {
                Self(self.0.wrapping_add(bytes))
            }

            /// The start of the 4 KiB page that holds this address.
            #[must_use]
            pub const fn page(self) -> Self {
                Self(self.0 & !0xfff)
            }

            /// The offset of this address in its 4 KiB page.
            #[must_use]
            pub const fn page_offset(self) -> u32 {
                self.0 & 0xfff
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({:#010x})"), self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:#010x}", self.0)
            }
        }
    };
}

address! {
    /// Guest virtual address: what the guest's program counter and pointers hold.
    GuestVa
}
address! {
    /// Guest physical address: what the guest's translation tables hold.
    GuestPa
}
address! {
    /// Physical address of the real board.
    HostPa
}
address! {
    /// Virtual address of an instruction in the code cache, in the kernel view of a guest's shadow tables.
    CachePc
}

/// The pieces of `bytes` bytes at `address` that are in one page each: where they begin among them, and how long they
/// are.
pub fn pieces(address: u32, bytes: usize) -> impl Iterator<Item = (usize, usize)> {
    let first = (0x1000 - (address & 0xfff) as usize).min(bytes);
    let rest = (first..bytes).step_by(0x1000).map(move |at| (at, (bytes - at).min(0x1000)));
    core::iter::once((0, first)).chain(rest).filter(|piece| piece.1 > 0)
}

#[cfg(test)]
mod tests {
    use super::pieces;

    #[test]
    fn pieces_are_in_one_page_each_and_all_there_is() {
        for address in [0, 1, 0xff0, 0xfff, 0x1000, 0xffff_fff0] {
            for bytes in [0, 1, 15, 16, 17, 0xfff, 0x1000, 0x1001, 0x3000, 0x3001] {
                let mut end = 0;
                for (at, len) in pieces(address, bytes) {
                    assert_eq!(at, end, "{address:#x} {bytes:#x}");
                    let first = address.wrapping_add(at as u32);
                    assert!(len > 0 && first >> 12 == first.wrapping_add(len as u32 - 1) >> 12);
                    assert!(at == 0 || first & 0xfff == 0);
                    end += len;
                }
                assert_eq!(end, bytes, "{address:#x}");
            }
        }
    }
}
