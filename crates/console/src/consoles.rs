//! The guests' consoles on the one serial port.
//!
//! What a guest prints goes into a log of its own, the last [`LOG_BYTES`] of it, and is shown as the view asks for: one
//! guest's bytes as they are, or the lines of all guests, each behind its guest's name. A guest cannot make a line look
//! like another's, nor like Spica's, as long as all are shown. While somebody types to the monitor nothing is shown;
//! what came meanwhile follows.
//!
//! The serial port may be slower than what is printed. [`Consoles::draw`] takes from the logs as the port has room.
//! Where all are shown, guests get a line each by turns, and none waits: what comes out of a log before it was shown is
//! lost, which is said in its place. A guest that is shown alone has nobody to share with, so it waits, as it would for
//! a real UART ([`Consoles::room`]).

use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;

use crate::output::{GUESTS, LAST_WORDS, Output};

/// Bytes of output that are kept for each guest.
pub const LOG_BYTES: usize = 16 * 1024;
/// Bytes of input that are kept for each guest until it takes them.
const INPUT_BYTES: usize = 4096;
/// A line that is longer is shown in pieces.
const LINE_BYTES: u64 = 400;
/// Bytes that a guest that is shown alone may be ahead of the serial port.
const AHEAD: u64 = 1024;

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
    /// As many as were printed when the last line was complete, or long enough, or kept back for long enough.
    ready: u64,
    /// Something that it wanted to print had no room.
    waits: bool,
    /// Bytes since the last line feed.
    partial: u64,
    input: VecDeque<u8>,
}

impl Console {
    /// The number of the log's first byte.
    fn oldest(&self) -> u64 {
        self.printed - self.log.len() as u64
    }

    /// The bytes of the log from number `from` on, which is in it.
    fn since(&self, from: u64) -> impl Iterator<Item = u8> + '_ {
        self.log.range((from - self.oldest()) as usize..).copied()
    }

    /// Shows nothing of what was printed so far.
    fn skip(&mut self) {
        self.shown = self.printed;
    }

    /// Shows bytes as they are, as long as fewer than `most` wait for the port.
    fn show_bytes(&mut self, output: &mut Output, most: usize) {
        let room = most.saturating_sub(output.len());
        if self.shown == self.printed || room == 0 {
            return;
        }
        self.shown = self.shown.max(self.oldest());
        let before = output.len();
        self.since(self.shown).take(room).for_each(|byte| output.raw(&[byte]));
        self.shown += (output.len() - before) as u64;
    }

    /// Shows a line with its name, or a piece of one that is long. False if there is nothing to show.
    fn show_line(&mut self, output: &mut Output) -> bool {
        if self.shown >= self.ready {
            return false;
        }
        let mut lost = self.oldest().saturating_sub(self.shown);
        if lost != 0 {
            // The rest of a line of which the beginning is lost is no use either.
            lost +=
                self.log.iter().take(LINE_BYTES as usize).position(|&byte| byte == b'\n').map_or(0, |at| at as u64 + 1);
            output.raw(alloc::format!("{}| [{lost} bytes lost]\r\n", self.name).as_bytes());
            self.shown += lost;
            self.ready = self.ready.max(self.shown);
        }
        // Together with a line, or a guest that prints fast enough would lose that, too, until its next turn.
        if self.shown == self.ready {
            return true;
        }
        output.raw(self.name.as_bytes());
        output.raw(b"| ");
        let most = (self.ready - self.shown).min(LINE_BYTES);
        let mut taken = 0;
        for byte in self.since(self.shown).take(most as usize) {
            taken += 1;
            match byte {
                b'\n' => break,
                // A carriage return would let a line overwrite its own name.
                b'\r' => {}
                _ => output.raw(&[byte]),
            }
        }
        output.raw(b"\r\n");
        self.shown += taken;
        true
    }
}

/// See the module's text.
pub struct Consoles {
    guests: Vec<Console>,
    view: View,
    /// Who gets what is typed.
    selected: usize,
    held: bool,
    /// Whose line is shown next.
    next: usize,
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
                ready: 0,
                waits: false,
                partial: 0,
                input: VecDeque::new(),
            })
            .collect();
        let view = if guests.len() == 1 { View::One(0) } else { View::All };
        Consoles { guests, view, selected: 0, held: false, next: 0 }
    }

    /// A byte that guest `at` prints.
    #[inline]
    pub fn put(&mut self, at: usize, byte: u8) {
        let console = &mut self.guests[at];
        if console.log.len() == LOG_BYTES {
            console.log.pop_front();
        }
        console.log.push_back(byte);
        console.printed += 1;
        console.partial = if byte == b'\n' { 0 } else { console.partial + 1 };
        if console.partial == 0 || console.partial.is_multiple_of(LINE_BYTES) {
            console.ready = console.printed;
        }
    }

    /// How many bytes guest `at` may print now. It has to wait only for itself: where others are shown, or nothing is,
    /// its log takes all.
    #[inline]
    pub fn room(&self, at: usize) -> usize {
        let console = &self.guests[at];
        match self.view {
            View::One(one) if one == at && !self.held => AHEAD.saturating_sub(console.printed - console.shown) as usize,
            _ => usize::MAX,
        }
    }

    /// Guest `at` has more to print than there is room for.
    #[inline]
    pub fn wait(&mut self, at: usize) {
        self.guests[at].waits = true;
    }

    /// Whether guest `at` waits and there is a good deal of room again.
    #[inline]
    pub fn may_go_on(&self, at: usize) -> bool {
        self.guests[at].waits && self.room(at) >= AHEAD as usize / 2
    }

    /// Whether any guest but `current` waits and may go on.
    #[inline]
    pub fn others_may_go_on(&self, current: usize) -> bool {
        (0..self.guests.len()).any(|at| at != current && self.may_go_on(at))
    }

    /// The same as [`may_go_on`](Self::may_go_on); then it does.
    #[inline]
    pub fn goes_on(&mut self, at: usize) -> bool {
        let may = self.may_go_on(at);
        self.guests[at].waits &= !may;
        may
    }

    /// Puts what is to be shown behind what waits for the port, as long as that is little.
    pub fn draw(&mut self, output: &mut Output) {
        match self.view {
            _ if self.held => {}
            View::One(one) => self.guests[one].show_bytes(output, GUESTS),
            View::All => {
                let mut without = 0;
                while output.len() < GUESTS && without < self.guests.len() {
                    let at = self.next;
                    self.next = if at + 1 < self.guests.len() { at + 1 } else { 0 };
                    without = if self.guests[at].show_line(output) { 0 } else { without + 1 };
                }
            }
        }
    }

    /// The same for guest `at`, which has ended, and for more: so that what it printed last comes before what is said
    /// of its end, as far as there is room.
    pub fn draw_last(&mut self, at: usize, output: &mut Output) {
        let console = &mut self.guests[at];
        match self.view {
            _ if self.held => {}
            View::One(one) if one == at => console.show_bytes(output, LAST_WORDS),
            View::One(_) => {}
            View::All => {
                console.ready = console.printed;
                while output.len() < LAST_WORDS && console.show_line(output) {}
            }
        }
    }

    /// Lines that are not complete are to be shown as well: nothing more is coming for a while.
    pub fn show_partial(&mut self) {
        self.guests.iter_mut().for_each(|console| console.ready = console.printed);
    }

    /// Whether [`Self::show_partial`] would show anything.
    pub fn has_partial(&self) -> bool {
        let partial = |console: &Console| console.shown.max(console.ready) != console.printed;
        self.view == View::All && !self.held && self.guests.iter().any(partial)
    }

    /// Shows nothing until [`Self::release`].
    pub fn hold(&mut self) {
        self.held = true;
    }

    /// What came since [`Self::hold`] is to be shown, and from now on what comes.
    pub fn release(&mut self) {
        self.held = false;
        self.show_partial();
    }

    /// Changes what is shown, and who gets what is typed. What a guest printed while another one was shown stays in its
    /// log.
    pub fn select(&mut self, view: View) {
        match (self.view, view) {
            (View::One(old), View::One(new)) if old != new => self.guests[new].skip(),
            (View::One(old), View::All) => {
                let others = self.guests.iter_mut().enumerate().filter(|&(at, _)| at != old);
                others.for_each(|(_, console)| console.skip());
            }
            _ => {}
        }
        if let View::One(one) = view {
            self.selected = one;
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

    /// The lines of guest `at`'s log from the byte of number `from` on, complete or not, at most so many `bytes` of
    /// them; and the number of the byte behind them, if there are more up to that of number `end`. Lines that are
    /// longer come in pieces.
    pub fn log(&self, at: usize, from: u64, end: u64, bytes: usize) -> (Vec<u8>, Option<u64>) {
        let console = &self.guests[at];
        let from = from.clamp(console.oldest(), console.printed);
        let left = end.saturating_sub(from).min(bytes as u64) as usize;
        let mut piece: Vec<u8> = console.since(from).take(left).collect();
        if from + (piece.len() as u64) < end
            && let Some(last) = piece.iter().rposition(|&byte| byte == b'\n')
        {
            piece.truncate(last + 1);
        }
        let next = from + piece.len() as u64;
        (piece, (next < end).then_some(next))
    }

    /// How many bytes guest `at` has ever printed.
    pub fn printed(&self, at: usize) -> u64 {
        self.guests[at].printed
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

    /// Guest `at` begins again: what was typed to it and not taken is lost. Where lines are shown, what it prints next
    /// does not go on with the one that its reset cut off.
    pub fn begin_again(&mut self, at: usize) {
        let console = &mut self.guests[at];
        console.input.clear();
        if self.view == View::All && console.partial != 0 && console.shown != console.printed {
            self.put(at, b'\n');
        }
    }
}
