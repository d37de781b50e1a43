//! A guest's memory between a board and the development machine: pages, compressed for the serial line, and their
//! checksums, by which only those are sent that the other side does not have.
//!
//! Compression is LZ4's, a page at a time: it takes a board some ten instructions for each byte, so that nobody else
//! waits for long. The checksum is xxHash's with 64 bits. It protects from accidents alone: what a guest could gain by
//! two pages of the same checksum is a wrong page of its own.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

use alloc::vec;
use alloc::vec::Vec;

/// Bytes of a page.
pub const PAGE: usize = 4096;
/// Bytes of the state of a guest's processor and devices at most.
pub const STATE_BYTES: usize = 32 * 1024;

/// The checksum of a page.
#[must_use]
pub fn sum(page: &[u8]) -> u64 {
    xxhash_rust::xxh64::xxh64(page, 0)
}

/// The checksum of what is too long to be looked at in one go.
#[derive(Clone)]
pub struct Sum(xxhash_rust::xxh64::Xxh64);

impl Sum {
    /// Of nothing.
    #[must_use]
    pub const fn new() -> Sum {
        Sum(xxhash_rust::xxh64::Xxh64::new(0))
    }

    /// Of these bytes behind the others.
    pub fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Of all of them.
    #[must_use]
    pub fn finish(&self) -> u64 {
        self.0.digest()
    }
}

impl Default for Sum {
    fn default() -> Self {
        Self::new()
    }
}

/// A page for the line. One that cannot be compressed stays as it is.
#[must_use]
pub fn pack(page: &[u8; PAGE]) -> Vec<u8> {
    let mut packed = vec![0; lz4_flex::block::get_maximum_output_size(PAGE)];
    match lz4_flex::block::compress_into(page, &mut packed) {
        Ok(len) if len < PAGE => {
            packed.truncate(len);
            packed
        }
        _ => page.to_vec(),
    }
}

/// Unpacks a page. False if that is none; what is in `page` then is anything.
#[must_use]
pub fn unpack(packed: &[u8], page: &mut [u8; PAGE]) -> bool {
    if packed.len() == PAGE {
        page.copy_from_slice(packed);
        return true;
    }
    lz4_flex::block::decompress_into(packed, page).is_ok_and(|len| len == PAGE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages() -> Vec<[u8; PAGE]> {
        let mut seed = 1u32;
        let mut random = || {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 24) as u8
        };
        let noise = core::array::from_fn(|_| random());
        let text = core::array::from_fn(|at| b"in a page of text, "[at % 19]);
        let half = core::array::from_fn(|at| if at < PAGE / 2 { 0 } else { random() });
        vec![[0; PAGE], [0xff; PAGE], noise, text, half]
    }

    #[test]
    fn pages_come_back_as_they_went() {
        let mut unpacked = [1; PAGE];
        for page in pages() {
            let packed = pack(&page);
            assert!(packed.len() <= PAGE && unpack(&packed, &mut unpacked));
            assert!(unpacked == page && sum(&unpacked) == sum(&page));
        }
        assert!(pack(&pages()[3]).len() < 100);
    }

    #[test]
    fn a_sum_in_pieces_is_the_sum() {
        for page in pages() {
            let mut pieces = Sum::new();
            page.chunks(100).for_each(|piece| pieces.add(piece));
            assert_eq!(pieces.finish(), sum(&page));
        }
    }

    #[test]
    fn damage_is_refused_or_has_another_sum() {
        let mut unpacked = [0; PAGE];
        for page in pages() {
            let packed = pack(&page);
            for at in 0..packed.len() {
                let mut spoilt = packed.clone();
                spoilt[at] ^= 0x41;
                assert!(!unpack(&spoilt, &mut unpacked) || unpacked == page || sum(&unpacked) != sum(&page));
                assert!(!unpack(&packed[..at], &mut unpacked) || sum(&unpacked) != sum(&page));
            }
        }
        assert!(!unpack(&[], &mut unpacked));
    }
}
