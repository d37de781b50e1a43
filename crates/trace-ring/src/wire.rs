//! How records travel: in pieces that are complete by themselves, small numbers in few bytes.
//!
//! A piece begins with the time of its first record, 64 bits, the lowest byte first. A record is a byte, its kind in
//! bits 4:0 and what follows in bits 7:5; the guest's number, if it is another one than before; the time since the
//! record before, which can be negative, since what takes time is written at its end; `detail` and `length`, if they
//! are not 0; and how much more `argument` is than that of the last record of the same kind in this piece: addresses
//! are near each other. Numbers have seven bits in a byte, the lowest first, and bit 7 where more follow; signed ones
//! are doubled, and negative ones inverted then. It comes to 6 to 9 bytes where the ring has 16.

use alloc::vec::Vec;

use crate::record::{KINDS, NOBODY, Record};
use crate::ring::Ring;

/// Bytes of a record at most.
const RECORD_BYTES: usize = 1 + 1 + 10 + 3 + 5 + 5;

const GUEST: u8 = 1 << 7;
const DETAIL: u8 = 1 << 6;
const LENGTH: u8 = 1 << 5;

/// Takes records out of `ring` until there are none, or a piece has no more than `most` bytes. `now` is the time, and
/// `last` that of the last record that was taken, or when there was none yet. Empty if there is none.
///
/// # Panics
/// If `most` is too little for a record.
#[must_use]
pub fn take(ring: &Ring, last: &mut u64, now: u64, most: usize) -> Vec<u8> {
    assert!(most >= 8 + RECORD_BYTES, "a piece of {most} bytes has no record");
    let mut piece = Vec::with_capacity(most);
    let (mut guest, mut arguments) = (NOBODY, [0; KINDS as usize]);
    while most - piece.len() >= RECORD_BYTES {
        let Some(record) = ring.take(now) else { break };
        let before = core::mem::replace(last, record.whole_time(*last));
        let passed = if piece.is_empty() { 0 } else { last.wrapping_sub(before) };
        if piece.is_empty() {
            piece.extend_from_slice(&last.to_le_bytes());
        }
        let flag = |flag: u8, holds: bool| if holds { flag } else { 0 };
        let flags =
            flag(GUEST, record.guest != guest) | flag(DETAIL, record.detail != 0) | flag(LENGTH, record.length != 0);
        let kind = record.kind % KINDS;
        piece.push(kind | flags);
        if record.guest != guest {
            guest = record.guest;
            piece.push(guest);
        }
        match i32::try_from(passed.cast_signed()) {
            Ok(passed) => signed(&mut piece, passed),
            Err(_) => long(&mut piece, passed.cast_signed()),
        }
        if record.detail != 0 {
            number(&mut piece, record.detail.into());
        }
        if record.length != 0 {
            number(&mut piece, record.length);
        }
        let before = core::mem::replace(&mut arguments[usize::from(kind)], record.argument);
        signed(&mut piece, record.argument.wrapping_sub(before).cast_signed());
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

fn signed(piece: &mut Vec<u8>, difference: i32) {
    number(piece, (difference << 1 ^ difference >> 31).cast_unsigned());
}

/// The same for what needs more than 32 bits, which is seldom.
#[cold]
fn long(piece: &mut Vec<u8>, difference: i64) {
    let mut left = (difference << 1 ^ difference >> 63).cast_unsigned();
    while left >= 0x80 {
        piece.push(left as u8 | 0x80);
        left >>= 7;
    }
    piece.push(left as u8);
}

/// The records of a piece, each with its time in 64 bits. `None` if it is none.
#[must_use]
pub fn read(piece: &[u8]) -> Option<Vec<(u64, Record)>> {
    let (time, mut rest) = piece.split_first_chunk()?;
    let (mut time, mut guest, mut arguments) = (u64::from_le_bytes(*time), NOBODY, [0u32; KINDS as usize]);
    let mut records = Vec::new();
    while let Some((&first, behind)) = rest.split_first() {
        rest = behind;
        if first & GUEST != 0 {
            let (&number, behind) = rest.split_first()?;
            (guest, rest) = (number, behind);
        }
        time = time.wrapping_add_signed(read_signed(&mut rest)?);
        let detail = if first & DETAIL != 0 { u16::try_from(read_number(&mut rest)?).ok()? } else { 0 };
        let length = if first & LENGTH != 0 { u32::try_from(read_number(&mut rest)?).ok()? } else { 0 };
        let kind = first % KINDS;
        let argument = &mut arguments[usize::from(kind)];
        *argument = argument.wrapping_add_signed(i32::try_from(read_signed(&mut rest)?).ok()?);
        records.push((time, Record { time: time as u32, kind, guest, detail, length, argument: *argument }));
    }
    Some(records)
}

fn read_signed(rest: &mut &[u8]) -> Option<i64> {
    let number = read_number(rest)?;
    Some((number >> 1 ^ (number & 1).wrapping_neg()).cast_signed())
}

fn read_number(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, behind) = rest.split_first()?;
        *rest = behind;
        if shift == 63 && byte > 1 {
            return None;
        }
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}
