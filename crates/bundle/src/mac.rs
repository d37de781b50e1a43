//! The addresses of network cards.

use core::fmt;

/// An Ethernet address of a single card: 48 bits, the first one sent being the lowest of the first byte (IEEE 802-2014,
/// 8.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// The address of a card for which the manifest has none: locally administered, the same in every boot, and unique
    /// on the board. Counts begin at 0; more than 255 do not occur.
    #[must_use]
    pub const fn generated(guest: u8, card: u8) -> Self {
        Self([0x02, b's', b'p', 0, guest, card])
    }

    /// Reads six bytes as two hexadecimal digits each, with colons between. `None` if it is something else, or not the
    /// address of a single card: a group's (the lowest bit of the first byte is set) or all zeros.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut bytes = [0; 6];
        let mut parts = text.split(':');
        for byte in &mut bytes {
            let part = parts.next().filter(|p| p.len() == 2 && p.bytes().all(|b| b.is_ascii_hexdigit()))?;
            *byte = u8::from_str_radix(part, 16).ok()?;
        }
        (parts.next().is_none() && bytes[0] & 1 == 0 && bytes != [0; 6]).then_some(Self(bytes))
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}
