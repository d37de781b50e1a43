//! The board's console: one stream of bytes in which the guest and Spica speak by turns.
//!
//! Spica's lines begin with [`PREFIX`]; everything else is the guest's (or without Spica, the kernel's). [`Splitter`]
//! tells them apart. The end of a run on a board that cannot switch itself off is a line, too, see [`Ending`].

/// What each of Spica's lines begins with.
pub const PREFIX: &str = "spica: ";

/// A piece of the console's stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Bytes of the guest.
    Guest(Vec<u8>),
    /// A line of Spica, without prefix and end of line.
    Spica(String),
}

/// Splits a stream into the guest's bytes and Spica's lines.
///
/// The guest's bytes come out as soon as it is clear that they are the guest's: at the start of a line, bytes that
/// might become the prefix are held back until the next byte, or until [`Splitter::flush`].
#[derive(Debug, Default)]
pub struct Splitter {
    state: State,
    held: Vec<u8>,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum State {
    /// At the start of a line; `held` is a proper prefix of [`PREFIX`].
    #[default]
    Start,
    /// In a line of the guest.
    Guest,
    /// In a line of Spica; `held` is the line so far.
    Spica,
}

impl Splitter {
    /// Takes the next bytes, and gives what became clear by them.
    pub fn feed(&mut self, bytes: &[u8]) -> Vec<Piece> {
        let mut pieces = Vec::new();
        let mut guest = Vec::new();
        for &byte in bytes {
            match self.state {
                State::Start => {
                    self.held.push(byte);
                    if self.held == PREFIX.as_bytes() {
                        self.held.clear();
                        self.state = State::Spica;
                    } else if !PREFIX.as_bytes().starts_with(&self.held) {
                        guest.append(&mut self.held);
                        self.state = if line_end(byte) { State::Start } else { State::Guest };
                    }
                }
                State::Guest => {
                    guest.push(byte);
                    if line_end(byte) {
                        self.state = State::Start;
                    }
                }
                State::Spica if byte == b'\n' => {
                    if !guest.is_empty() {
                        pieces.push(Piece::Guest(std::mem::take(&mut guest)));
                    }
                    let line = String::from_utf8_lossy(&self.held).trim_end_matches('\r').to_string();
                    pieces.push(Piece::Spica(line));
                    self.held.clear();
                    self.state = State::Start;
                }
                State::Spica => self.held.push(byte),
            }
        }
        if !guest.is_empty() {
            pieces.push(Piece::Guest(guest));
        }
        pieces
    }

    /// Whether bytes are held back that could be the guest's.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.state == State::Start && !self.held.is_empty()
    }

    /// Gives up waiting: what is held back at the start of a line is the guest's.
    pub fn flush(&mut self) -> Option<Piece> {
        if !self.holds() {
            return None;
        }
        self.state = State::Guest;
        Some(Piece::Guest(std::mem::take(&mut self.held)))
    }
}

const fn line_end(byte: u8) -> bool {
    matches!(byte, b'\n' | b'\r')
}

/// How a kernel on the bare board says that it has ended. An emulated board may not be able to switch itself off, so
/// this is where its run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It switched the board off, or stopped it for good.
    Off,
    /// It restarted.
    Restart,
    /// It panicked.
    Panic,
}

impl Ending {
    /// What a line of the kernel's log means: `[    1.234567] reboot: Power down`. A program's output without an end of
    /// line may stand before it.
    #[must_use]
    pub fn of_line(line: &str) -> Option<Self> {
        let (before, message) = line.trim_end().rsplit_once("] ")?;
        let (_, time) = before.rsplit_once('[')?;
        time.trim().parse::<f64>().ok()?;
        let off = ["reboot: Power down", "reboot: System halted", "Reboot failed -- System halted"];
        if off.contains(&message) {
            Some(Self::Off)
        } else if message == "reboot: Restarting system" {
            Some(Self::Restart)
        } else if message.starts_with("Kernel panic - not syncing") {
            Some(Self::Panic)
        } else {
            None
        }
    }
}

/// Collects a stream's lines.
#[derive(Debug, Default)]
pub struct Lines {
    line: Vec<u8>,
}

impl Lines {
    /// Longer lines are cut here, so that a stream without any does not fill the memory.
    const LONGEST: usize = 4096;

    /// Takes the next bytes, and calls `each` with every line that they end.
    pub fn feed(&mut self, bytes: &[u8], mut each: impl FnMut(&str)) {
        for &byte in bytes {
            if byte != b'\n' {
                self.line.push(byte);
            }
            if byte == b'\n' || self.line.len() >= Self::LONGEST {
                each(String::from_utf8_lossy(&self.line).trim_end_matches('\r'));
                self.line.clear();
            }
        }
    }
}

/// The end of a stream: its last bytes, for an error to show.
#[derive(Debug, Default)]
pub struct Tail {
    bytes: Vec<u8>,
}

impl Tail {
    const KEPT: usize = 64 << 10;

    /// Takes the next bytes.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        if self.bytes.len() > 2 * Self::KEPT {
            self.bytes.drain(..self.bytes.len() - Self::KEPT);
        }
    }

    /// The last `count` lines, fit to be printed: control characters are left out.
    #[must_use]
    pub fn lines(&self, count: usize) -> String {
        let text = String::from_utf8_lossy(&self.bytes);
        let text: String = text.chars().filter(|&c| c == '\n' || c == '\t' || !c.is_control()).collect();
        crate::process::tail(text.trim_end(), count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(chunks: &[&str]) -> (String, Vec<String>) {
        let mut splitter = Splitter::default();
        let (mut guest, mut spica) = (Vec::new(), Vec::new());
        let mut pieces: Vec<_> = chunks.iter().flat_map(|c| splitter.feed(c.as_bytes())).collect();
        pieces.extend(splitter.flush());
        for piece in pieces {
            match piece {
                Piece::Guest(bytes) => guest.extend(bytes),
                Piece::Spica(line) => spica.push(line),
            }
        }
        (String::from_utf8(guest).unwrap(), spica)
    }

    #[test]
    fn lines_of_spica_are_taken_out() {
        let text = "spica: one\r\nguest spica: not\r\nspica: two\nspicy\nspspica: \nspica";
        let expected = ("guest spica: not\r\nspicy\nspspica: \nspica".to_string(), vec!["one".into(), "two".into()]);
        assert_eq!(split(&[text]), expected);
        let bytes: Vec<_> = text.split_inclusive(|_| true).collect();
        assert_eq!(split(&bytes), expected);
    }

    #[test]
    fn order_is_kept() {
        let pieces = Splitter::default().feed(b"a\nspica: x\nb");
        let guest = |s: &[u8]| Piece::Guest(s.to_vec());
        assert_eq!(pieces, [guest(b"a\n"), Piece::Spica("x".into()), guest(b"b")]);
    }

    #[test]
    fn a_flush_gives_up_the_prefix() {
        let mut splitter = Splitter::default();
        assert!(splitter.feed(b"spi").is_empty() && splitter.holds());
        assert_eq!(splitter.flush(), Some(Piece::Guest(b"spi".to_vec())));
        assert_eq!(splitter.feed(b"ca: x\n"), [Piece::Guest(b"ca: x\n".to_vec())]);
    }

    #[test]
    fn endings() {
        assert_eq!(Ending::of_line("[   12.345678] reboot: Power down\r"), Some(Ending::Off));
        assert_eq!(Ending::of_line("[    0.1] Kernel panic - not syncing: VFS"), Some(Ending::Panic));
        assert_eq!(Ending::of_line("output[    1.9] reboot: System halted"), Some(Ending::Off));
        assert_eq!(Ending::of_line("[    2.5] reboot: Restarting system"), Some(Ending::Restart));
        assert_eq!(Ending::of_line("reboot: Power down"), None);
        assert_eq!(Ending::of_line("[x] reboot: Power down"), None);
    }

    #[test]
    fn a_tail_is_fit_to_print() {
        let mut tail = Tail::default();
        tail.feed(b"one\r\n\x1b[31mtwo\r\nthree\r\n");
        assert_eq!(tail.lines(2), "[31mtwo\nthree");
    }
}
