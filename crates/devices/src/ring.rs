//! A byte queue of fixed capacity: the FIFOs of the UART, without an allocator.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A first-in-first-out queue of at most `N` bytes.
#[derive(Clone, Debug)]
pub(crate) struct Ring<const N: usize> {
    bytes: [u8; N],
    head: usize,
    len: usize,
}

impl<const N: usize> Ring<N> {
    pub(crate) const fn new() -> Self {
        Self { bytes: [0; N], head: 0, len: 0 }
    }

    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) const fn is_full(&self) -> bool {
        self.len == N
    }

    pub(crate) fn clear(&mut self) {
        self.len = 0;
    }

    /// Appends a byte; false, and nothing changes, if there is no room.
    pub(crate) fn push(&mut self, byte: u8) -> bool {
        if self.is_full() {
            return false;
        }
        let tail = (self.head + self.len) % N;
        if let Some(slot) = self.bytes.get_mut(tail) {
            *slot = byte;
        }
        self.len += 1;
        true
    }

    /// Takes the oldest byte.
    pub(crate) fn pop(&mut self) -> Option<u8> {
        if self.is_empty() {
            return None;
        }
        let byte = self.bytes.get(self.head).copied();
        self.head = (self.head + 1) % N;
        self.len -= 1;
        byte
    }
}

/// As its bytes, oldest first.
impl<const N: usize> Serialize for Ring<N> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut rest = self.clone();
        let mut bytes = [0; N];
        let mut len = 0;
        while let (Some(byte), Some(place)) = (rest.pop(), bytes.get_mut(len)) {
            *place = byte;
            len += 1;
        }
        serializer.serialize_bytes(bytes.get(..len).unwrap_or_default())
    }
}

impl<'a, const N: usize> Deserialize<'a> for Ring<N> {
    fn deserialize<D: Deserializer<'a>>(deserializer: D) -> Result<Self, D::Error> {
        let bytes = <&[u8]>::deserialize(deserializer)?;
        let mut ring = Self::new();
        if bytes.iter().all(|&byte| ring.push(byte)) { Ok(ring) } else { Err(D::Error::custom("a queue is too long")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_order_across_the_seam_and_refuses_when_full() {
        let mut ring = Ring::<3>::new();
        for round in 0..5u8 {
            assert!(ring.push(round) && ring.push(round + 1) && ring.push(round + 2));
            assert!(ring.is_full() && !ring.push(99));
            assert_eq!([ring.pop(), ring.pop()], [Some(round), Some(round + 1)]);
            assert_eq!((ring.pop(), ring.pop()), (Some(round + 2), None));
        }
    }
}
