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
