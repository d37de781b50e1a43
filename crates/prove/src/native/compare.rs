//! What native code left, against what the model says.

use super::piece::Piece;
use super::record::{DFSR, IFSR, Record};
use super::stepper::Native;
use crate::translator::{CODE, CODE_PAGES, DATA, Memory};
use spica_dbt::layout::PAGE;
use spica_isa::decode;
use std::fmt::Write as _;

/// Bits of a word that do not count, for this piece.
fn unknown(piece: &Piece, n: usize) -> u32 {
    match n {
        _ if piece.unknown.contains(&n) => u32::MAX,
        // The domain is not valid for faults of the first level (B3.13.3), and IFSR has none (B4.1.96).
        DFSR | IFSR => 0xf0,
        _ => 0,
    }
}

/// The words of a piece and the state before it.
fn listing(piece: &Piece, got: &Record) -> String {
    let mut text = format!("expected to end with {:?}\n", piece.end);
    for (at, word) in &piece.words {
        let _ = writeln!(text, "{at:08x}: {word:08x}  {}", decode(*word));
    }
    let _ = writeln!(text, "before {:x?}\nafter  {:x?}", &piece.start.0[..48], &got.0[..48]);
    text
}

/// All pieces of a case, and its memory in the end.
pub fn all(pieces: &[Piece], memory: &Memory, native: &Native) -> Result<(), String> {
    for (n, (piece, got)) in pieces.iter().zip(&native.pieces).enumerate() {
        let differences = got.differences(&piece.expected, |n| unknown(piece, n));
        if !differences.is_empty() {
            return Err(format!("piece {n}: {}\n{}", differences.join("; "), listing(piece, got)));
        }
    }
    let different = (0..memory.bytes.len()).find(|&n| memory.bytes[n] != native.bytes[n]);
    let Some(at) = different else { return Ok(()) };
    let (page, offset) = (at as u32 / PAGE, at as u32 % PAGE);
    let va = if page < CODE_PAGES { CODE + page * PAGE } else { DATA + (page - CODE_PAGES) * PAGE } + offset;
    let mut message = format!("memory at {va:#x}: {:#x}, expected {:#x}\n", native.bytes[at], memory.bytes[at]);
    for (piece, got) in pieces.iter().zip(&native.pieces).filter(|(piece, _)| piece.stored.contains(&(va & !3))) {
        message.push_str(&listing(piece, got));
    }
    Err(message)
}
