//! Whether bytes that come from outside are a device tree that can be walked.
#![no_std]

use dtoolkit::fdt::Fdt;

const BEGIN_NODE: u32 = 1;
const END_NODE: u32 = 2;
const PROPERTY: u32 = 3;
const NOP: u32 = 4;
const END: u32 = 9;

/// A device tree that can be walked, or nothing if it is damaged. The library's own check refuses names of more than 31
/// characters, as the specification does; Linux's binding of the timer has one, and so have the trees of many boards.
#[must_use]
pub fn open(blob: &[u8]) -> Option<Fdt<'_>> {
    structure(blob).map(|()| Fdt::new_unchecked(blob))
}

/// Checks header and structure of a flattened device tree (Devicetree Specification v0.4, chapter 5): every token, name
/// and value lies in its block, nodes are closed, names end and are text. Nodes nest 64 deep at most.
fn structure(blob: &[u8]) -> Option<()> {
    let header = |at: usize| word(blob, 4 * at).map(|value| value as usize);
    if header(0)? != 0xd00d_feed || header(5)? < 17 || header(6)? > 17 {
        return None;
    }
    let total = header(1)?;
    let blob = blob.get(..total)?;
    let block = |start: usize, size: usize| blob.get(start..start.checked_add(size)?);
    let strings = block(header(3)?, header(8)?)?;
    let structure = block(header(2)?, header(9)?)?;
    // The list of reserved ranges ends with one that is empty.
    let mut reserved = header(4)?;
    while blob.get(reserved..reserved.checked_add(16)?)?.iter().any(|&byte| byte != 0) {
        reserved += 16;
    }

    let (mut at, mut depth, mut roots) = (0usize, 0usize, 0usize);
    loop {
        let token = word(structure, at)?;
        at += 4;
        match token {
            BEGIN_NODE if depth < 64 && (depth > 0 || roots == 0) => {
                at = (at + text(structure, at)?.len() + 1).next_multiple_of(4);
                roots += usize::from(depth == 0);
                depth += 1;
            }
            END_NODE => depth = depth.checked_sub(1)?,
            PROPERTY if depth > 0 => {
                let (len, name) = (word(structure, at)? as usize, word(structure, at + 4)? as usize);
                text(strings, name)?;
                let end = (at + 8).checked_add(len)?;
                structure.get(at + 8..end)?;
                at = end.next_multiple_of(4);
            }
            NOP => {}
            END if depth == 0 && roots == 1 => return Some(()),
            _ => return None,
        }
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_be_bytes(bytes.try_into().ok()?))
}

/// The text at `at`, which ends with a NUL.
fn text(bytes: &[u8], at: usize) -> Option<&str> {
    let rest = bytes.get(at..)?;
    core::str::from_utf8(&rest[..rest.iter().position(|&byte| byte == 0)?]).ok()
}
