//! Printing: a line at a time.

use core::fmt::{self, Write};

use crate::linux;

struct Line {
    bytes: [u8; 256],
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

/// Prints a line to a file; what does not fit into 250 bytes is left out.
pub fn line(file: u32, text: fmt::Arguments<'_>) {
    let mut line = Line { bytes: [0; 256], used: 0 };
    let _ = line.write_fmt(text);
    let end = line.used.min(line.bytes.len() - 1);
    line.bytes[end] = b'\n';
    linux::write(file, &line.bytes[..=end]);
}
