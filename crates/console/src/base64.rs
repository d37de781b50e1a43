//! Bytes as text, four characters for three (RFC 4648, 4): what a serial line carries of memory.

use alloc::string::String;
use alloc::vec::Vec;

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// `bytes` as text.
#[must_use]
pub fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let at = |n: usize| u32::from(group.get(n).copied().unwrap_or(0));
        let word = at(0) << 16 | at(1) << 8 | at(2);
        for n in 0..4 {
            let digit = DIGITS[(word >> (18 - 6 * n) & 63) as usize];
            text.push(if n <= group.len() { char::from(digit) } else { '=' });
        }
    }
    text
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
