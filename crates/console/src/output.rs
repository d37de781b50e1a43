//! What waits for the serial port: Spica's messages and guests' output, in the order in which they go out.
//!
//! A serial port takes a byte in 87 µs, so nobody waits for it: what is printed goes into a ring, and from there to the
//! port as it has room. Guests get little of the ring ([`GUESTS`]): the rest of what they print waits in their own logs
//! (`guests/consoles.rs`), where a guest that prints too much is in nobody's way but its own. So a message of Spica's
//! has room, and is not long in going out.

use alloc::boxed::Box;
use alloc::vec;
use core::fmt::{self, Write};

/// Bytes of the ring.
pub const BYTES: usize = 64 * 1024;
/// Guests' output is put in as long as less than this waits: 44 ms at 115,200 baud.
pub const GUESTS: usize = 512;
/// The same for what a guest printed last before it ended: it comes before the message that says so.
pub const LAST_WORDS: usize = 8 * 1024;

/// See the module's text.
#[derive(Default)]
pub struct Output {
    bytes: Box<[u8]>,
    /// Where the oldest byte is, and how many there are.
    first: usize,
    len: usize,
    /// The last byte is a guest's, or was typed, and ends no line: what Spica has to say begins a new one.
    in_line: bool,
    /// Messages that had no room.
    lost: u32,
}

/// A message on its way into the ring.
struct Message<'a>(&'a mut Output);

impl Write for Message<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for (n, line) in text.split('\n').enumerate() {
            let room = (n == 0 || self.0.push_all(b"\r\n")) && self.0.push_all(line.as_bytes());
            if !room {
                return Err(fmt::Error);
            }
        }
        Ok(())
    }
}

impl Output {
    /// Nothing, and room for `bytes`.
    pub fn new(bytes: usize) -> Output {
        Output { bytes: vec![0; bytes].into(), ..Output::default() }
    }

    /// How many bytes wait.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether none does.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many more there is room for.
    #[inline]
    pub fn room(&self) -> usize {
        self.bytes.len() - self.len
    }

    #[inline]
    fn push(&mut self, byte: u8) -> bool {
        if self.room() == 0 {
            return false;
        }
        let at = self.first + self.len;
        // Not `%`: the core may have no division.
        self.bytes[if at < self.bytes.len() { at } else { at - self.bytes.len() }] = byte;
        self.len += 1;
        true
    }

    /// Appends all of these bytes, or none.
    fn push_all(&mut self, bytes: &[u8]) -> bool {
        if self.room() < bytes.len() {
            return false;
        }
        let at = self.first + self.len;
        let at = if at < self.bytes.len() { at } else { at - self.bytes.len() };
        let (front, back) = bytes.split_at(bytes.len().min(self.bytes.len() - at));
        self.bytes[at..][..front.len()].copy_from_slice(front);
        self.bytes[..back.len()].copy_from_slice(back);
        self.len += bytes.len();
        true
    }

    /// Appends bytes as they are: a guest's, or what is typed to the monitor. What has no room is lost.
    #[inline]
    pub fn raw(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| _ = self.push(byte));
        if let Some(&last) = bytes.last() {
            self.in_line = last != b'\n';
        }
    }

    /// Appends a message of Spica's, which begins a line. It is there as a whole, or not at all; then that is said when
    /// there is room again.
    pub fn message(&mut self, arguments: fmt::Arguments<'_>) {
        let fits = match self.lost {
            0 => self.whole(arguments),
            lost => self.whole(format_args!("spica: [{lost} messages lost]\n{arguments}")),
        };
        self.lost = if fits { 0 } else { self.lost.saturating_add(1) };
    }

    /// The same for a message that whoever reads takes out again, so that nothing is left of it: where a line is not
    /// complete, it begins none, and the line goes on behind it.
    pub fn insert(&mut self, arguments: fmt::Arguments<'_>) {
        let in_line = self.end_line();
        self.message(arguments);
        self.in_line = in_line;
    }

    /// Whether the last byte ends no line. Then one is to be begun.
    pub fn end_line(&mut self) -> bool {
        core::mem::take(&mut self.in_line)
    }

    fn whole(&mut self, arguments: fmt::Arguments<'_>) -> bool {
        let before = (self.len, self.in_line);
        let new_line = if self.end_line() { "\n" } else { "" };
        let mut message = Message(self);
        let fits = message.write_str(new_line).and_then(|()| message.write_fmt(arguments)).is_ok();
        if !fits {
            (self.len, self.in_line) = before;
        }
        fits
    }

    /// Gives the oldest bytes to `port`, which says how many it takes of those that it is given, as long as it takes
    /// them all, at most so many. How many it took.
    pub fn send(&mut self, most: usize, mut port: impl FnMut(&[u8]) -> usize) -> usize {
        let mut sent = 0;
        while sent < most && self.len != 0 {
            let end = (self.first + self.len.min(most - sent)).min(self.bytes.len());
            let given = &self.bytes[self.first..end];
            let (given, taken) = (given.len(), port(given));
            self.first = if self.first + taken < self.bytes.len() { self.first + taken } else { 0 };
            self.len -= taken;
            sent += taken;
            if taken < given {
                break;
            }
        }
        sent
    }
}
