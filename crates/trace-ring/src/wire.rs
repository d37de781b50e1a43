//! How records travel: in pieces that are complete by themselves, small numbers in few bytes.
//!
//! A piece begins with the time of its first record, 64 bits, the lowest byte first. A record is a byte, its kind in
//! bits 4:0 and what follows in bits 7:5; the guest's number, if it is another one than before; the time since the
//! record before, which can be negative, since what takes time is written at its end; and, if they are not 0, `detail`
//! and `length`; `argument`. Numbers have seven bits in a byte, the lowest first, and bit 7 where more follow; signed
//! ones are doubled, and negative ones inverted then. It comes to 6 to 10 bytes where the ring has 16.

use alloc::vec::Vec;

use crate::record::{KINDS, NOBODY, Record};
use crate::ring::Ring;

/// Bytes of a record at most.
const RECORD_BYTES: usize = 1 + 1 + 5 + 3 + 5 + 5;

const GUEST: u8 = 1 << 7;
const DETAIL: u8 = 1 << 6;
const LENGTH: u8 = 1 << 5;

/// Takes records out of `ring` until there are none, or a piece has no more than `most` bytes; `now` is the time. None
/// of them is as old as half a turn of a clock of 32 bits. Empty if there is none.
///
/// # Panics
/// If `most` is too little for a record.
#[must_use]
pub fn take(ring: &Ring, now: u64, most: usize) -> Vec<u8> {
    assert!(most >= 8 + RECORD_BYTES, "a piece of {most} bytes has no record");
    let mut piece = Vec::with_capacity(most);
    let (mut last, mut guest) = (0, NOBODY);
    while most - piece.len() >= RECORD_BYTES {
        let Some(record) = ring.take(now as u32) else { break };
        if piece.is_empty() {
            last = record.time;
            let passed = (now as u32).wrapping_sub(record.time);
            piece.extend_from_slice(&now.wrapping_sub(u64::from(passed)).to_le_bytes());
        }
        let flag = |flag: u8, holds: bool| if holds { flag } else { 0 };
        let flags =
            flag(GUEST, record.guest != guest) | flag(DETAIL, record.detail != 0) | flag(LENGTH, record.length != 0);
        piece.push((record.kind % KINDS) | flags);
        if record.guest != guest {
            guest = record.guest;
            piece.push(guest);
        }
        let passed = record.time.wrapping_sub(last) as i32;
        last = record.time;
        number(&mut piece, (passed << 1 ^ passed >> 31) as u32);
        if record.detail != 0 {
            number(&mut piece, record.detail.into());
        }
        if record.length != 0 {
            number(&mut piece, record.length);
        }
        number(&mut piece, record.argument);
    }
    piece
}

fn number(piece: &mut Vec<u8>, mut number: u32) {
    while number >= 0x80 {
        piece.push(number as u8 | 0x80);
        number >>= 7;
    }
    piece.push(number as u8);
}

/// The records of a piece, each with its time in 64 bits. `None` if it is none.
#[must_use]
pub fn read(piece: &[u8]) -> Option<Vec<(u64, Record)>> {
    let (time, mut rest) = piece.split_first_chunk()?;
    let (mut time, mut guest) = (u64::from_le_bytes(*time), NOBODY);
    let mut records = Vec::new();
    while let Some((&first, behind)) = rest.split_first() {
        rest = behind;
        if first & GUEST != 0 {
            let (&number, behind) = rest.split_first()?;
            (guest, rest) = (number, behind);
        }
        let passed = read_number(&mut rest)?;
        let passed = (passed >> 1) as i32 ^ -((passed & 1) as i32);
        time = time.wrapping_add_signed(passed.into());
        let detail = if first & DETAIL != 0 { u16::try_from(read_number(&mut rest)?).ok()? } else { 0 };
        let length = if first & LENGTH != 0 { read_number(&mut rest)? } else { 0 };
        let argument = read_number(&mut rest)?;
        let record = Record { time: time as u32, kind: first % KINDS, guest, detail, length, argument };
        records.push((time, record));
    }
    Some(records)
}

fn read_number(rest: &mut &[u8]) -> Option<u32> {
    let mut number = 0u32;
    for shift in [0, 7, 14, 21, 28] {
        let (&byte, behind) = rest.split_first()?;
        *rest = behind;
        let bits = u32::from(byte & 0x7f);
        if shift == 28 && byte > 0xf {
            return None;
        }
        number |= bits << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}
