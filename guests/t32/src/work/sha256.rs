//! SHA-256 (FIPS 180-4), of bytes that come one by one.

use core::fmt;
use core::hint::black_box;

use super::Random;
use crate::println;

/// What a hash is.
pub type Hash = [u32; 8];

/// A hash to be printed.
pub struct Hex<'a>(pub &'a Hash);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|word| write!(f, "{word:08x}"))
    }
}

/// The first 32 bits behind the point of a root of the first primes: of the square root or of the cube root.
const fn roots<const N: usize>(cube: bool) -> [u32; N] {
    let mut roots = [0; N];
    let (mut number, mut at) = (2u128, 0);
    while at < N {
        let mut divisor = 2;
        while number % divisor != 0 {
            divisor += 1;
        }
        if divisor == number {
            // The largest root with 32 bits behind the point: bit by bit.
            let (mut root, mut bit) = (0u128, 1 << 37);
            while bit != 0 {
                let more = root | bit;
                let fits = if cube { more * more * more <= number << 96 } else { more * more <= number << 64 };
                if fits {
                    root = more;
                }
                bit >>= 1;
            }
            roots[at] = root as u32;
            at += 1;
        }
        number += 1;
    }
    roots
}

const START: Hash = roots(false);
static ROUNDS: [u32; 64] = roots(true);

fn block(hash: &mut Hash, bytes: &[u8; 64]) {
    let mut words = [0; 64];
    for (word, bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
        *word = u32::from_be_bytes(*bytes);
    }
    for at in 16..64 {
        let (early, late) = (words[at - 15], words[at - 2]);
        let early = early.rotate_right(7) ^ early.rotate_right(18) ^ early >> 3;
        let late = late.rotate_right(17) ^ late.rotate_right(19) ^ late >> 10;
        words[at] = early.wrapping_add(late).wrapping_add(words[at - 16]).wrapping_add(words[at - 7]);
    }
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = *hash;
    for (word, round) in words.iter().zip(&ROUNDS) {
        let first = (e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25))
            .wrapping_add(e & f ^ !e & g)
            .wrapping_add(h)
            .wrapping_add(*round)
            .wrapping_add(*word);
        let second = (a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22)).wrapping_add(a & b ^ a & c ^ b & c);
        (h, g, f, e, d, c, b, a) = (g, f, e, d.wrapping_add(first), c, b, a, first.wrapping_add(second));
    }
    for (word, more) in hash.iter_mut().zip([a, b, c, d, e, f, g, h]) {
        *word = word.wrapping_add(more);
    }
}

/// The hash of bytes.
pub fn of(bytes: impl Iterator<Item = u8>) -> Hash {
    let (mut hash, mut buffer, mut len) = (START, [0; 64], 0);
    let mut take = |byte: u8, len: usize| {
        buffer[len % 64] = byte;
        if len % 64 == 63 {
            block(&mut hash, &buffer);
        }
    };
    for byte in bytes {
        take(byte, len);
        len += 1;
    }
    let bits = (len as u64 * 8).to_be_bytes();
    take(0x80, len);
    let zeroes = (len + 1..).take_while(|at| at % 64 != 56);
    let mut end = len + 1;
    for at in zeroes {
        take(0, at);
        end = at + 1;
    }
    for (byte, at) in bits.into_iter().zip(end..) {
        take(byte, at);
    }
    hash
}

/// The hash of so many random bytes.
pub fn of_row(seed: u32, len: usize) -> Hash {
    of(Random::new(seed).map(|word| word as u8).take(len))
}

/// All of that: a vector that is known, and lengths about a block.
pub fn run() {
    println!("  abc {}", Hex(&of(black_box("abc").bytes())));
    for len in [0, 55, 56, 64, 4001] {
        println!("  {len} bytes {}", Hex(&of_row(2, len)));
    }
}
