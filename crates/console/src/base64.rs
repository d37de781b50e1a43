//! Bytes as text, four characters for three (RFC 4648, 4): what a serial line carries of memory.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// `bytes` as text.
#[must_use]
pub fn encode(bytes: &[u8]) -> String {
    let mut text = vec![b'='; bytes.len().div_ceil(3) * 4];
    let digits = |[a, b, c]: [u8; 3]| {
        let word = u32::from(a) << 16 | u32::from(b) << 8 | u32::from(c);
        [18, 12, 6, 0].map(|shift| DIGITS[(word >> shift & 63) as usize])
    };
    let (groups, rest) = bytes.as_chunks::<3>();
    let (quads, _) = text.as_chunks_mut::<4>();
    quads.iter_mut().zip(groups).for_each(|(quad, group)| *quad = digits(*group));
    if let (Some([quad @ .., _]), [a, b]) = (quads.last_mut(), rest) {
        quad.copy_from_slice(&digits([*a, *b, 0])[..3]);
    } else if let (Some([quad @ .., _, _]), [a]) = (quads.last_mut(), rest) {
        quad.copy_from_slice(&digits([*a, 0, 0])[..2]);
    }
    // They are ASCII.
    String::from_utf8(text).unwrap_or_default()
}

/// What was encoded. `None` if that is no such text.
#[must_use]
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let (groups, rest) = text.as_bytes().as_chunks::<4>();
    let mut bytes = Vec::with_capacity(3 * groups.len());
    for (n, group) in groups.iter().enumerate() {
        let count = group.iter().position(|&digit| digit == b'=').unwrap_or(4);
        if count < 2 || count < 4 && n + 1 != groups.len() || group[count..].iter().any(|&digit| digit != b'=') {
            return None;
        }
        let mut word = 0;
        for (n, &digit) in group[..count].iter().enumerate() {
            let value = match digit {
                b'A'..=b'Z' => digit - b'A',
                b'a'..=b'z' => digit - b'a' + 26,
                b'0'..=b'9' => digit - b'0' + 52,
                b'+' => 62,
                b'/' => 63,
                _ => return None,
            };
            word |= u32::from(value) << (18 - 6 * n);
        }
        bytes.extend_from_slice(&word.to_be_bytes()[1..count]);
    }
    rest.is_empty().then_some(bytes)
}
