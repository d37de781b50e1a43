//! Several consoles on one serial port.

use spica_console::consoles::{Consoles, LOG_BYTES, View};
use spica_console::output::{BYTES, Output};

/// Consoles, and a port that takes everything.
struct Port {
    consoles: Consoles,
    output: Output,
    out: Vec<u8>,
}

impl Port {
    fn new(names: &[&str]) -> Port {
        let consoles = Consoles::new(names.iter().map(ToString::to_string));
        Port { consoles, output: Output::new(BYTES), out: Vec::new() }
    }

    fn print(&mut self, at: usize, text: &str) {
        for byte in text.bytes() {
            self.consoles.put(at, byte);
            self.send();
        }
    }

    fn send(&mut self) {
        loop {
            self.consoles.draw(&mut self.output);
            let sent = self.output.send(usize::MAX, |bytes| {
                self.out.extend_from_slice(bytes);
                bytes.len()
            });
            if sent == 0 {
                break;
            }
        }
    }

    fn shown(&mut self) -> String {
        self.send();
        String::from_utf8(std::mem::take(&mut self.out)).unwrap()
    }
}

#[test]
fn the_only_guest_is_shown_as_it_is() {
    let mut port = Port::new(&["a"]);
    port.print(0, "one\r\ntwo\x1b[6n\u{e4}");
    assert_eq!(port.shown(), "one\r\ntwo\x1b[6n\u{e4}");
}

#[test]
fn several_guests_are_shown_by_lines_that_name_them() {
    let mut port = Port::new(&["a", "b"]);
    port.print(0, "on");
    port.print(1, "spica: all is well\r\n");
    port.print(0, "e\r\ntw");
    assert_eq!(port.shown(), "b| spica: all is well\r\na| one\r\n");
    assert!(port.consoles.has_partial());
    port.consoles.show_partial();
    assert_eq!(port.shown(), "a| tw\r\n");
    port.print(0, "o\n");
    assert_eq!(port.shown(), "a| o\r\n");
    assert!(!port.consoles.has_partial());
}

#[test]
fn a_reset_ends_the_line_that_it_cuts_off() {
    let mut port = Port::new(&["a", "b"]);
    port.print(0, "one\nse");
    port.consoles.begin_again(0);
    port.print(0, "up\n");
    assert_eq!(port.shown(), "a| one\r\na| se\r\na| up\r\n");
    // Nothing more to end: at the start of a line, and where what there is of it was shown.
    port.consoles.begin_again(0);
    port.print(0, "$ ");
    port.consoles.show_partial();
    assert_eq!(port.shown(), "a| $ \r\n");
    port.consoles.begin_again(0);
    port.print(0, "up\n");
    assert_eq!(port.shown(), "a| up\r\n");
    // While the monitor is open, too.
    port.consoles.hold();
    port.print(0, "se");
    port.consoles.begin_again(0);
    port.print(0, "up\n");
    port.consoles.release();
    assert_eq!(port.shown(), "a| se\r\na| up\r\n");
    // A guest that is shown alone is shown as it is.
    port.consoles.select(View::One(0));
    port.print(0, "se");
    port.consoles.begin_again(0);
    port.print(0, "up\n");
    assert_eq!(port.shown(), "seup\n");
}

#[test]
fn no_byte_of_a_guest_begins_a_line() {
    let mut port = Port::new(&["a", "b"]);
    // What could move a cursor to the start of a line: every control character, in lines of all lengths.
    for length in 0..1000usize {
        port.print(length % 2, &"x\r\x0b\x0c".repeat(length / 4 + 1));
        port.print(length % 2, "\n");
    }
    let shown = port.shown();
    for line in shown.split_terminator("\r\n") {
        assert!(line.starts_with("a| ") || line.starts_with("b| "), "{line:?}");
        assert!(!line.contains(['\r', '\n']), "{line:?}");
    }
}

#[test]
fn what_comes_while_the_monitor_is_open_follows() {
    for names in [&["a"][..], &["a", "b"]] {
        let mut port = Port::new(names);
        port.print(0, "before\n");
        port.consoles.hold();
        port.shown();
        port.print(0, "meanwhile\n");
        assert_eq!(port.shown(), "");
        port.consoles.release();
        assert!(port.shown().contains("meanwhile"));
        port.consoles.release();
        assert_eq!(port.shown(), "");
    }
}

#[test]
fn a_flood_loses_its_own_oldest_bytes_and_says_so() {
    let mut port = Port::new(&["a", "b"]);
    port.consoles.hold();
    port.print(1, "kept\n");
    port.print(0, &"0123456789\n".repeat(3000));
    port.consoles.release();
    let shown = port.shown();
    // Whole lines, of which the log has the last.
    let lost = (33_000 - LOG_BYTES).next_multiple_of(11);
    assert!(shown.contains(&format!("a| [{lost} bytes lost]\r\na| 0123456789\r\n")), "{}", &shown[..100]);
    assert!(shown.contains("b| kept\r\n"));
    assert_eq!(log(&port.consoles, 0, 256).len(), LOG_BYTES);
    assert_eq!(log(&port.consoles, 1, 256), b"kept\n");
}

#[test]
fn one_of_several_can_be_looked_at() {
    let mut port = Port::new(&["a", "b"]);
    port.print(1, "early\n");
    port.shown();
    port.consoles.select(View::One(1));
    port.print(0, "hidden\n");
    port.print(1, "login: ");
    assert_eq!(port.shown(), "login: ");
    port.consoles.typed(b'x');
    assert_eq!((port.consoles.peek_input(0), port.consoles.peek_input(1)), (None, Some(b'x')));
    port.consoles.pop_input(1);
    assert_eq!(port.consoles.peek_input(1), None);
    // Back to all: what was not looked at stays in the log.
    port.consoles.select(View::All);
    port.print(0, "seen\n");
    assert_eq!(port.shown(), "a| seen\r\n");
    assert_eq!(log(&port.consoles, 0, 256), b"hidden\nseen\n");
}

/// The whole log of a guest, in pieces.
fn log(consoles: &Consoles, at: usize, piece: usize) -> Vec<u8> {
    let end = consoles.printed(at);
    let (mut all, mut from) = (Vec::new(), Some(0));
    while let Some(start) = from {
        let (bytes, next) = consoles.log(at, start, end, piece);
        assert!(!bytes.is_empty() && bytes.len() <= piece);
        assert!(next.is_none() || bytes.ends_with(b"\n") || !bytes.contains(&b'\n'), "a piece ends in a line");
        all.extend(bytes);
        from = next;
    }
    all
}

#[test]
fn a_log_comes_in_pieces_that_end_lines() {
    let mut port = Port::new(&["a", "b"]);
    let text: String = (0..100).map(|n| format!("{}\n", "x".repeat(n % 30))).collect();
    port.print(0, &text);
    port.print(0, "and no end");
    for piece in [11, 40, 256, 100_000] {
        assert_eq!(log(&port.consoles, 0, piece), format!("{text}and no end").into_bytes());
    }
    // What is printed, and what falls out of the log, between two pieces does not lengthen it.
    let (end, (_, next)) = (port.consoles.printed(0), port.consoles.log(0, 0, port.consoles.printed(0), 40));
    port.print(0, &"later\n".repeat(LOG_BYTES / 3));
    assert_eq!(port.consoles.log(0, next.unwrap(), end, 40), (Vec::new(), None));
}

#[test]
fn what_is_not_shown_yet_follows_when_the_view_changes() {
    let mut port = Port::new(&["a", "b"]);
    port.print(0, "half a li");
    port.print(1, "other");
    port.consoles.select(View::One(0));
    assert_eq!(port.shown(), "half a li");
    port.consoles.put(0, b'n');
    port.consoles.put(0, b'e');
    port.consoles.put(0, b'\n');
    port.consoles.select(View::All);
    assert_eq!(port.shown(), "a| ne\r\n");
    port.consoles.select(View::One(0));
    port.consoles.select(View::One(1));
    port.print(1, "now");
    assert_eq!(port.shown(), "now");
}
