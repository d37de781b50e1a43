//! The names of a Linux kernel's functions and variables, found in its memory, and an ELF file of them for debuggers.
//!
//! A kernel that is built with `CONFIG_KALLSYMS` has them in its read-only data, compressed, for its own backtraces
//! and for `/proc/kallsyms`. Nothing points there from a place that one knows from outside, so [`tables`] finds them by
//! what they look like, [`names`] decompresses them, and [`elf`] writes a file that has nothing but symbols.
//!
//! The memory belongs to a guest and may hold anything. Whatever that is, nothing here panics, reads more than
//! [`tables::MOST_BYTES`] for one place that looks right, or makes more of it than [`names::MOST_TEXT`]; and no name
//! has a character that a terminal would obey.

pub mod elf;
pub mod names;
pub mod tables;

use std::ops::Range;

pub use tables::Memory;

/// What goes wrong, for a person.
pub type Problem = String;

/// A symbol of the kernel.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Symbol {
    /// Its virtual address.
    pub address: u32,
    /// What it is, as `nm` says it: `T` is a function, `t` one that only its file knows.
    pub kind: u8,
    /// Its name.
    pub name: String,
}

/// Places that look like a kernel's tables and are not: that many are tried.
const TRIES: u32 = 16;

/// Finds the symbols of the kernel that lies in this range of physical addresses, in the order of their addresses. They
/// are looked for from `first` on, and then in front of it.
///
/// # Errors
/// If there are none, or the memory cannot be read.
pub fn find(memory: &mut dyn Memory, range: Range<u32>, first: u32) -> Result<Vec<Symbol>, Problem> {
    let first = first.clamp(range.start, range.end);
    for part in [first..range.end, range.start..first] {
        let mut from = part.start;
        for _ in 0..TRIES {
            let Some(at) = memory.find(from, part.end, tables::DIGITS)? else { break };
            if !(from..part.end).contains(&at) {
                return Err(format!("{at:#x} was found where nobody looked for it"));
            }
            if let Some(tables) = tables::Tables::around(memory, &range, at)?
                && let Some(symbols) = names::symbols(&tables)
            {
                return Ok(symbols);
            }
            from = at + 1;
        }
    }
    Err("no kernel with names of its functions was found: it has not started yet, it is no Linux, or it was built \
         without CONFIG_KALLSYMS"
        .to_string())
}
