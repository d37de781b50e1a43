//! Printing: a line at a time, so that lines of two processes do not mix.

use core::fmt::{self, Write};

use crate::linux;

/// The number of standard output.
pub const OUTPUT: u32 = 1;
/// The number of standard error.
pub const ERROR: u32 = 2;

struct Line {
    bytes: [u8; 512],
    used: usize,
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = self.bytes.get_mut(self.used..self.used + text.len()).ok_or(fmt::Error)?;
        room.copy_from_slice(text.as_bytes());
        self.used += text.len();
        Ok(())
    }
}

/// Prints a line to a file; of what does not fit into 511 bytes, whole pieces are left out.
pub fn line(file: u32, text: fmt::Arguments<'_>) {
    let mut line = Line { bytes: [0; 512], used: 0 };
    let _ = line.write_fmt(text);
    let end = line.used.min(line.bytes.len() - 1);
    line.bytes[end] = b'\n';
    linux::write(file, &line.bytes[..=end]);
}
