//! The monitor's lines.

use spica_console::command::{BACKSPACE, Command, HELP, Lines, Request, Typed, parse};

/// Types `bytes`, and gives what went to the guest, the echo, and the requests.
fn typed(lines: &mut Lines, bytes: &[u8]) -> (Vec<u8>, Vec<u8>, Vec<Request>) {
    let (mut guest, mut echo, mut requests) = (Vec::new(), Vec::new(), Vec::new());
    for &byte in bytes {
        match lines.typed(byte) {
            Typed::Guest(byte) => guest.push(byte),
            Typed::Opened => echo.extend(b"> "),
            Typed::Part(byte) => echo.extend(byte),
            Typed::Line(request) => requests.push(request),
        }
    }
    (guest, echo, requests)
}

fn person(command: Result<Command, String>) -> Request {
    Request { id: None, command }
}

#[test]
fn a_person_types_a_command_and_goes_back() {
    let mut lines = Lines::default();
    let (guest, echo, requests) = typed(&mut lines, b"ab\x1dlizt\x08\x7fst\rcd");
    assert_eq!((guest.as_slice(), echo.as_slice()), (&b"abcd"[..], &b"> lizt\x08\x08st"[..]));
    assert_eq!(requests, [person(Ok(Command::List))]);
    assert_eq!(typed(&mut lines, b"\x1d\n").2, [person(Ok(Command::Leave))]);
}

#[test]
fn the_escape_key_twice_is_for_the_guest() {
    assert_eq!(typed(&mut Lines::default(), b"\x1d\x1dx\x1e\x1ey").0, b"\x1dx\x1ey");
}

#[test]
fn a_program_asks_without_a_trace() {
    let mut lines = Lines::default();
    let (guest, echo, requests) = typed(&mut lines, b"a\x1e@x1 stats web\nb");
    assert_eq!((guest.as_slice(), echo.as_slice()), (&b"ab"[..], &b""[..]));
    assert_eq!(requests, [Request { id: Some("x1".into()), command: Ok(Command::Stats(Some("web".into()), false)) }]);
    // In the middle of a person's line, which stays as it is.
    let (guest, echo, requests) = typed(&mut lines, b"\x1dli\x1e@7 list\nst\n");
    assert_eq!((guest.as_slice(), echo.as_slice()), (&b""[..], &b"> list"[..]));
    assert_eq!(requests[1], person(Ok(Command::List)));
    assert_eq!(requests[0].id.as_deref(), Some("7"));
}

#[test]
fn a_program_that_is_wrong_is_told_so() {
    for line in [&b"list"[..], b"@ list", b"@A list", b"@seventeencharacte list", b"@x\xc3\xa4- list", b"@x", b""] {
        let text = [b"\x1e", line, b"\n"].concat();
        let requests = typed(&mut Lines::default(), &text).2;
        assert!(
            matches!(&requests[..], [Request { id: Some(id), command: Err(_) }] if id == "0"),
            "{line:?}: {requests:?}"
        );
    }
}

#[test]
fn every_command_that_help_lists_is_known() {
    for (usage, _) in HELP {
        let usage = usage.replace("MIB", "64");
        let line = usage.replace("[GUEST]", "").replace("GUEST", "web");
        assert!(parse(&line).is_ok(), "{usage}");
        let line = usage.replace("[GUEST]", "web").replace("GUEST", "web");
        assert!(parse(&line).is_ok(), "{usage}");
    }
    assert_eq!(parse("console all"), Ok(Command::ConsoleAll));
    assert_eq!(parse("balloon web 64"), Ok(Command::Balloon("web".into(), 64)));
    assert_eq!(parse("stats"), Ok(Command::Stats(None, false)));
    assert_eq!(parse("stats all"), Ok(Command::Stats(None, true)));
    assert_eq!(parse("stats web all"), Ok(Command::Stats(Some("web".into()), true)));
    assert_eq!(parse("summary web"), Ok(Command::Summary(Some("web".into()))));
    assert_eq!(parse("console 2"), Ok(Command::Console("2".into())));
    assert_eq!(parse("  pause   web "), Ok(Command::Pause("web".into())));
}

#[test]
fn mistakes_are_explained() {
    for (line, expected) in [
        ("lsit", "`lsit` is no command: `help` lists them"),
        ("pause", "`pause` needs the name or number of a guest: `list` shows them"),
        ("pause a b", "`b` is one word too many"),
        ("stats web some", "`some` is one word too many: `stats web all` has all counters"),
        ("stats web all b", "`b` is one word too many"),
        ("list a", "`a` is one word too many"),
        ("balloon web", "`balloon` needs a guest and how many MiB it is to do without: `balloon web 64`"),
    ] {
        assert_eq!(parse(line), Err(expected.into()));
    }
}

#[test]
fn any_bytes_are_survived() {
    let mut lines = Lines::default();
    let mut state = 12345u32;
    for _ in 0..200_000 {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let byte = [0x1d, 0x1e, b'\n', b'@', BACKSPACE, b' ', b'a', (state >> 8) as u8][(state >> 24) as usize % 8];
        if let Typed::Line(Request { id: None, .. }) = lines.typed(byte) {
            lines.reopen();
        }
    }
    // However long the line, it ends.
    typed(&mut lines, b"\n\n");
}
