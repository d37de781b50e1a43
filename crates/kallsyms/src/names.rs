//! The names, decompressed.

use crate::Symbol;
use crate::tables::{Tables, length};

/// Bytes that all names have together at most: Debian's kernel has some 2.5 million.
pub const MOST_TEXT: usize = 64 << 20;

/// The symbols of these tables, in the order of their addresses. `None` if they cannot be a kernel's.
///
/// A name that has anything but visible ASCII characters is left out, and so are the marks by which an assembler tells
/// code from data.
#[must_use]
pub fn symbols(tables: &Tables) -> Option<Vec<Symbol>> {
    let (mut rest, mut text, mut symbols) = (&tables.names[..], 0, Vec::new());
    for &address in &tables.addresses {
        let (header, bytes) = length(rest)?;
        let name = rest.get(header..header + bytes)?;
        rest = &rest[header + bytes..];
        let name: Vec<u8> =
            name.iter().filter_map(|&token| tables.tokens.get(usize::from(token))).flatten().copied().collect();
        text += name.len();
        if text > MOST_TEXT {
            return None;
        }
        if let [kind, first, ..] = name[..]
            && kind.is_ascii_alphabetic()
            && first != b'$'
            && name.iter().all(u8::is_ascii_graphic)
        {
            symbols.push(Symbol { address, kind, name: name[1..].iter().copied().map(char::from).collect() });
        }
    }
    symbols.sort_by_key(|symbol| symbol.address);
    (!symbols.is_empty()).then_some(symbols)
}
