//! What a Linux kernel has printed, read from its memory while it runs, or after it has stopped.
//!
//! A kernel that prints nothing on its console has a log all the same, which programs in the guest read with `dmesg`.
//! [`place`] finds it by the names of the kernel's functions, and [`ring`] reads it. This works from the kernel's first
//! message on, whether a console is there or not, and takes nothing of the guest: it goes on meanwhile.
//!
//! The memory belongs to a guest and may hold anything. Whatever that is, nothing here panics or reads more than
//! [`ring::MOST_BYTES`]; and of what the guest has printed, control characters are left out of [`Record::lines`].

pub mod place;
pub mod ring;

use std::fmt;
use std::ops::Range;

use spica_kallsyms::tables::Memory;
use spica_kallsyms::{Problem, Symbol};

/// A message of the kernel's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// Its number: the first has 0.
    pub number: u64,
    /// Nanoseconds on the kernel's own clock, which begins about when the kernel does.
    pub nanoseconds: u64,
    /// How urgent it is, from 0 (`KERN_EMERG`) to 7 (`KERN_DEBUG`).
    pub level: u8,
    /// The text, of one line or several.
    pub text: Vec<u8>,
}

impl Record {
    /// Its lines, as a terminal may show them.
    pub fn lines(&self) -> impl Iterator<Item = String> + '_ {
        let text = self.text.strip_suffix(b"\n").unwrap_or(&self.text);
        text.split(|&byte| byte == b'\n').map(|line| {
            String::from_utf8_lossy(line).chars().filter(|&char| char == '\t' || !char.is_control()).collect()
        })
    }
}

/// As `dmesg` shows it: each line with its time.
impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let microseconds = self.nanoseconds / 1000;
        for (n, line) in self.lines().enumerate() {
            if n > 0 {
                writeln!(f)?;
            }
            write!(f, "[{:5}.{:06}] {line}", microseconds / 1_000_000, microseconds % 1_000_000)?;
        }
        Ok(())
    }
}

/// What was found.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Log {
    /// The messages, the oldest first.
    pub records: Vec<Record>,
    /// So many older ones are in the kernel's memory, too.
    pub older: u32,
}

/// Reads the log of the kernel with these symbols, which runs in a guest whose RAM this is; the last `most` messages.
///
/// # Errors
/// If the kernel has none, or one of another form, or the memory cannot be read.
pub fn read(memory: &mut dyn Memory, ram: Range<u32>, symbols: &[Symbol], most: u32) -> Result<Log, Problem> {
    let ring = place::find(memory, ram, symbols)?;
    ring.read(memory, most)
}
