//! The guests' consoles on the one serial port. Pure.
//!
//! What a guest prints goes into a log of its own, the last [`LOG_BYTES`] of it, and is shown as the view asks for: one
//! guest's bytes as they are, or the lines of all guests, each behind its guest's name. A guest cannot make a line look like
//! another's, nor like Spica's, as long as all are shown. While somebody types to the monitor nothing is shown; what came
//! meanwhile follows.

use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;

/// Bytes of output that are kept for each guest.
pub const LOG_BYTES: usize = 16 * 1024;
/// Bytes of input that are kept for each guest until it takes them.
const INPUT_BYTES: usize = 4096;
/// A line that is longer is shown in pieces.
const LINE_BYTES: u64 = 400;

/// What is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum View {
    /// The bytes of this guest, as they are.
    One(usize),
    /// The lines of all guests, with their names.
    All,
}

struct Console {
    name: String,
    log: VecDeque<u8>,
    /// Bytes ever printed, and how many of them were shown or shall not be.
    printed: u64,
    shown: u64,
    /// Bytes since the last line feed.
    partial: u64,
    input: VecDeque<u8>,
}

impl Console {
    /// The bytes of the log from number `from` on, with the number of those that are lost already.
    fn since(&self, from: u64) -> (u64, impl Iterator<Item = u8> + '_) {
        let oldest = self.printed - self.log.len() as u64;
        let first = from.max(oldest);
        (first - from, self.log.range((first - oldest) as usize..).copied())
    }
}

/// See the module's text.
pub struct Consoles {
    guests: Vec<Console>,
    view: View,
    /// Who gets what is typed.
    selected: usize,
    held: bool,
}

impl Consoles {
    /// Consoles for guests of these names: the only one's bytes are shown as they are, several ones' as lines.
    pub fn new(names: impl IntoIterator<Item = String>) -> Consoles {
        let guests: Vec<Console> = names
            .into_iter()
            .map(|name| Console {
                name,
                log: VecDeque::with_capacity(LOG_BYTES),
                printed: 0,
                shown: 0,
                partial: 0,
                input: VecDeque::new(),
            })
            .collect();
        let view = if guests.len() == 1 { View::One(0) } else { View::All };
        Consoles { guests, view, selected: 0, held: false }
    }

    /// A byte that guest `at` prints.
    pub fn put(&mut self, at: usize, byte: u8, out: &mut impl FnMut(&[u8])) {
        let console = &mut self.guests[at];
        if console.log.len() == LOG_BYTES {
            console.log.pop_front();
        }
        console.log.push_back(byte);
        console.printed += 1;
        console.partial = if byte == b'\n' { 0 } else { console.partial + 1 };
        if self.held {
            return;
        }
        match self.view {
            View::One(one) if one == at => {
                out(&[byte]);
                console.shown = console.printed;
            }
            View::One(_) => {}
            View::All if console.partial == 0 || console.partial.is_multiple_of(LINE_BYTES) => show_lines(console, out),
            View::All => {}
        }
    }

    /// Shows lines that are not complete as well: nothing more is coming for a while.
    pub fn show_partial(&mut self, out: &mut impl FnMut(&[u8])) {
        if self.view == View::All && !self.held {
            self.guests.iter_mut().for_each(|console| show_lines(console, out));
        }
    }

    /// Whether [`Self::show_partial`] would show anything.
    pub fn has_partial(&self) -> bool {
        self.view == View::All && !self.held && self.guests.iter().any(|console| console.shown != console.printed)
    }

    /// Shows nothing until [`Self::release`].
    pub fn hold(&mut self, out: &mut impl FnMut(&[u8])) {
        self.show_partial(out);
        self.held = true;
    }

    /// Shows what came since [`Self::hold`], and from now on what comes.
    pub fn release(&mut self, out: &mut impl FnMut(&[u8])) {
        self.held = false;
        match self.view {
            View::One(one) => {
                let console = &mut self.guests[one];
                let (_, bytes) = console.since(console.shown);
                bytes.for_each(|byte| out(&[byte]));
                console.shown = console.printed;
            }
            View::All => self.show_partial(out),
        }
    }

    /// Changes what is shown, and who gets what is typed.
    pub fn select(&mut self, view: View) {
        if let View::One(one) = view {
            self.selected = one;
        } else {
            // What one guest printed while another was shown is in its log.
            self.guests.iter_mut().for_each(|console| console.shown = console.printed);
        }
        self.view = view;
    }

    /// What is shown.
    pub fn view(&self) -> View {
        self.view
    }

    /// Who gets what is typed.
    pub fn selected(&self) -> usize {
        self.selected
    }

    /// The log of guest `at`.
    pub fn log(&self, at: usize) -> impl Iterator<Item = u8> + '_ {
        self.guests[at].since(0).1
    }

    /// A byte that was typed, for the guest that is selected. What it does not take for long is lost.
    pub fn typed(&mut self, byte: u8) {
        let input = &mut self.guests[self.selected].input;
        if input.len() < INPUT_BYTES {
            input.push_back(byte);
        }
    }

    /// The next byte of input of guest `at`, left in place.
    pub fn peek_input(&self, at: usize) -> Option<u8> {
        self.guests[at].input.front().copied()
    }

    /// Takes the byte that was looked at.
    pub fn pop_input(&mut self, at: usize) {
        self.guests[at].input.pop_front();
    }

    /// What was typed to guest `at` and not taken is lost: it starts anew.
    pub fn forget_input(&mut self, at: usize) {
        self.guests[at].input.clear();
    }
}

/// Shows what is new of a console as lines with its name.
fn show_lines(console: &mut Console, out: &mut impl FnMut(&[u8])) {
    if console.shown == console.printed {
        return;
    }
    let (lost, bytes) = console.since(console.shown);
    if lost != 0 {
        out(alloc::format!("{}| [{lost} bytes lost]\r\n", console.name).as_bytes());
    }
    let mut at_start = true;
    for byte in bytes {
        if at_start {
            out(console.name.as_bytes());
            out(b"| ");
        }
        at_start = byte == b'\n';
        match byte {
            b'\n' => out(b"\r\n"),
            // A carriage return would let a line overwrite its own name.
            b'\r' => {}
            _ => out(&[byte]),
        }
    }
    if !at_start {
        out(b"\r\n");
    }
    console.shown = console.printed;
}
