//! Several consoles on one serial port.

use spica_hypervisor_host_tests::guests::consoles::{Consoles, LOG_BYTES, View};

struct Port {
    consoles: Consoles,
    out: Vec<u8>,
}

impl Port {
    fn new(names: &[&str]) -> Port {
        Port { consoles: Consoles::new(names.iter().map(ToString::to_string)), out: Vec::new() }
    }

    fn print(&mut self, at: usize, text: &str) {
        for byte in text.bytes() {
            self.consoles.put(at, byte, &mut |bytes| self.out.extend(bytes));
        }
    }

    fn with(&mut self, body: impl FnOnce(&mut Consoles, &mut dyn FnMut(&[u8]))) {
        body(&mut self.consoles, &mut |bytes| self.out.extend(bytes));
    }

    fn shown(&mut self) -> String {
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
    port.with(|consoles, mut out| consoles.show_partial(&mut out));
    assert_eq!(port.shown(), "a| tw\r\n");
    port.print(0, "o\n");
    assert_eq!(port.shown(), "a| o\r\n");
    assert!(!port.consoles.has_partial());
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
        port.with(|consoles, mut out| consoles.hold(&mut out));
        port.shown();
        port.print(0, "meanwhile\n");
        assert_eq!(port.shown(), "");
        port.with(|consoles, mut out| consoles.release(&mut out));
        assert!(port.shown().contains("meanwhile"));
        port.with(|consoles, mut out| consoles.release(&mut out));
        assert_eq!(port.shown(), "");
    }
}

#[test]
fn a_flood_loses_its_own_oldest_bytes_and_says_so() {
    let mut port = Port::new(&["a", "b"]);
    port.with(|consoles, mut out| consoles.hold(&mut out));
    port.print(1, "kept\n");
    port.print(0, &"0123456789\n".repeat(3000));
    port.with(|consoles, mut out| consoles.release(&mut out));
    let shown = port.shown();
    assert!(shown.contains(&format!("a| [{} bytes lost]\r\n", 33_000 - LOG_BYTES)), "{}", &shown[..100]);
    assert!(shown.contains("b| kept\r\n"));
    assert_eq!(port.consoles.log(0).count(), LOG_BYTES);
    assert_eq!(port.consoles.log(1).collect::<Vec<_>>(), b"kept\n");
}

#[test]
fn one_of_several_can_be_looked_at() {
    let mut port = Port::new(&["a", "b"]);
    port.print(1, "early\n");
    port.shown();
    port.with(|consoles, _| consoles.select(View::One(1)));
    port.print(0, "hidden\n");
    port.print(1, "login: ");
    assert_eq!(port.shown(), "login: ");
    port.consoles.typed(b'x');
    assert_eq!((port.consoles.peek_input(0), port.consoles.peek_input(1)), (None, Some(b'x')));
    port.consoles.pop_input(1);
    assert_eq!(port.consoles.peek_input(1), None);
    // Back to all: what was not looked at stays in the log.
    port.with(|consoles, _| consoles.select(View::All));
    port.print(0, "seen\n");
    assert_eq!(port.shown(), "a| seen\r\n");
    assert_eq!(port.consoles.log(0).collect::<Vec<_>>(), b"hidden\nseen\n");
}
