//! Where a kernel has its log.
//!
//! It is a `struct printk_ringbuffer` to which the variable `prb` of `kernel/printk/printk.c` points. Few kernels have
//! the names of their variables in memory (`CONFIG_KALLSYMS_ALL`), but all that have names at all have those of the
//! functions there. So the functions that use `prb` are looked through for the addresses that they load words from,
//! which are in their code as constants: halves of words that MOVW and MOVT load (ARM ARM A8.8.102 and A8.8.106), or
//! words of a literal pool. Of these, one is right where a pointer to a sound ring is ([`Ring::at`]), which nothing
//! else looks like.

use std::collections::BTreeSet;
use std::ops::Range;

use spica_kallsyms::tables::Memory;
use spica_kallsyms::{Problem, Symbol};

use crate::ring::Ring;

/// Functions of `printk.c` that use `prb`, and are not the same in all versions. A compiler may put something behind
/// the name.
const USERS: [&str; 7] = [
    "kmsg_dump_get_line",
    "kmsg_dump_get_buffer",
    "vprintk_store",
    "devkmsg_read",
    "syslog_print_all",
    "do_syslog",
    "console_unlock",
];
/// Bytes of a function that are looked at, at most.
const MOST_CODE: u32 = 0x1000;
/// Constants that are tried at most.
const TRIES: usize = 200;

/// The kernel's linear map: RAM has the same order in the kernel's virtual addresses as it has physically.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Linear {
    /// Where RAM begins in virtual addresses.
    pub start: u32,
    /// The physical addresses of RAM.
    pub ram: Range<u32>,
}

impl Linear {
    /// That of the kernel with these symbols. The kernel is at the beginning of RAM, and RAM begins at a multiple of
    /// 256 MiB in virtual addresses, whichever way they are split (`CONFIG_VMSPLIT_…`).
    #[must_use]
    pub fn of(symbols: &[Symbol], ram: Range<u32>) -> Option<Linear> {
        let begins = ["_text", "stext", "_stext"];
        let text = begins.iter().find_map(|name| symbols.iter().find(|symbol| symbol.name == *name))?;
        Some(Linear { start: text.address & 0xf000_0000, ram })
    }

    /// Where `bytes` bytes at a virtual address are, if they are in RAM.
    #[must_use]
    pub fn physical(&self, address: u32, bytes: u32) -> Option<u32> {
        let offset = address.checked_sub(self.start)?;
        let end = offset.checked_add(bytes)?;
        (end <= self.ram.end - self.ram.start).then(|| self.ram.start + offset)
    }

    /// Reads the words at a virtual address. `None` if they are not all in RAM.
    ///
    /// # Errors
    /// If the memory cannot be read.
    pub fn words(&self, memory: &mut dyn Memory, address: u32, count: u32) -> Result<Option<Vec<u32>>, Problem> {
        let bytes = self.bytes(memory, address, 4 * count)?;
        Ok(bytes.map(|bytes| bytes.as_chunks::<4>().0.iter().map(|&word| u32::from_le_bytes(word)).collect()))
    }

    /// Reads the bytes at a virtual address. `None` if they are not all in RAM.
    ///
    /// # Errors
    /// If the memory cannot be read.
    pub fn bytes(&self, memory: &mut dyn Memory, address: u32, bytes: u32) -> Result<Option<Vec<u8>>, Problem> {
        let Some(at) = self.physical(address, bytes) else { return Ok(None) };
        if bytes == 0 {
            return Ok(Some(Vec::new()));
        }
        let read = memory.read(at, bytes)?;
        Ok((read.len() as u32 == bytes).then_some(read))
    }
}

/// Finds the ring of the kernel with these symbols, in the order of their addresses.
///
/// # Errors
/// If there is none that is understood, or the memory cannot be read.
pub fn find(memory: &mut dyn Memory, ram: Range<u32>, symbols: &[Symbol]) -> Result<Ring, Problem> {
    let Some(linear) = Linear::of(symbols, ram) else {
        return Err("this kernel's names do not say where it is in memory".into());
    };
    for pointer in pointers(memory, &linear, symbols)? {
        if let Some(ring) = linear.words(memory, pointer, 1)?
            && let Some(ring) = Ring::at(memory, &linear, ring[0])?
        {
            return Ok(ring);
        }
    }
    let has = |start: &str| symbols.iter().any(|symbol| symbol.name.starts_with(start));
    Err(match (has("prb_"), has("vprintk")) {
        (true, _) => "the kernel's log was not found: its form is another one than that of Linux 5.10 to 6.12",
        (false, true) => "this kernel is older than Linux 5.10: its log has another form, which is not understood",
        (false, false) => "this kernel has no log: it was built without CONFIG_PRINTK",
    }
    .into())
}

/// Addresses that may be that of `prb`; the likeliest first.
fn pointers(memory: &mut dyn Memory, linear: &Linear, symbols: &[Symbol]) -> Result<Vec<u32>, Problem> {
    let mut found: Vec<u32> = symbols.iter().filter(|symbol| symbol.name == "prb").map(|it| it.address).collect();
    let mut known: BTreeSet<u32> = found.iter().copied().collect();
    for name in USERS {
        for (n, symbol) in symbols.iter().enumerate() {
            if symbol.name.split('.').next() != Some(name) {
                continue;
            }
            let next = symbols[n..].iter().map(|next| next.address).find(|&next| next > symbol.address);
            let end = next.unwrap_or(u32::MAX).min(symbol.address.saturating_add(MOST_CODE));
            let Some(code) = linear.words(memory, symbol.address & !3, (end - symbol.address) / 4)? else { continue };
            found.extend(loads(&code).filter(|&address| address % 4 == 0 && known.insert(address)));
        }
    }
    found.truncate(TRIES);
    Ok(found)
}

/// The addresses from which code that consists of these words loads words, as far as they are known: constants, which a
/// compiler may have some variables behind, and an offset. A register keeps its constant until it gets another one:
/// what else is done to it only makes for an address that is none.
fn loads(code: &[u32]) -> impl Iterator<Item = u32> + '_ {
    let mut constants = [None::<u32>; 16];
    (0..).zip(code).filter_map(move |(n, &word)| {
        let (register, half) = ((word >> 12 & 0xf) as usize, word >> 4 & 0xf000 | word & 0xfff);
        match word & 0x0ff0_0000 {
            0x0300_0000 => constants[register] = Some(half),
            0x0340_0000 => constants[register] = constants[register].map(|low| half << 16 | low & 0xffff),
            // LDR of a word with an offset, upwards or downwards (A8.8.63, A8.8.64).
            0x0590_0000 | 0x0510_0000 => {
                let (base, offset) = ((word >> 16 & 0xf) as usize, word & 0xfff);
                let offset = if word & 1 << 23 != 0 { offset } else { offset.wrapping_neg() };
                if base == 15 {
                    let at = (4 * n + 8u32).wrapping_add(offset);
                    constants[register] = code.get(at as usize / 4).copied();
                } else {
                    return constants[base].map(|base| base.wrapping_add(offset));
                }
            }
            _ => {}
        }
        None
    })
}
