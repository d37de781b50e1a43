//! A serial port that takes a byte in a tick, and guests and Spica, who print more.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use spica_console::SerialPort;
use spica_console::consoles::{Consoles, LOG_BYTES, View};
use spica_console::output::{BYTES, GUESTS};
use spica_console::transmitter::Transmitter;

/// Bytes of the port's FIFO.
const FIFO: usize = 16;
/// Ticks that it takes at most from when a line is there until it is on the wire, whatever others print: what guests
/// have in the ring, the longest line of another guest, the FIFO, and the line itself.
const SOON: u64 = GUESTS as u64 + 440 + FIFO as u64 + 100;

#[derive(Default)]
struct Wire {
    now: u64,
    fifo: VecDeque<u8>,
    /// All that was sent, each byte with the tick in which it left.
    sent: Vec<(u64, u8)>,
    interrupt: bool,
    /// Times that somebody looked whether there is room, since the last tick.
    looks: usize,
    may_poll: bool,
}

impl Wire {
    fn tick(&mut self) {
        self.now += 1;
        self.looks = 0;
        let now = self.now;
        self.sent.extend(self.fifo.pop_front().map(|byte| (now, byte)));
    }

    fn raised(&self) -> bool {
        self.interrupt && self.fifo.is_empty()
    }
}

struct Port(Arc<Mutex<Wire>>);

impl SerialPort for Port {
    fn try_put(&mut self, byte: u8) -> bool {
        let mut wire = self.0.lock().unwrap();
        wire.looks += 1;
        if wire.fifo.len() == FIFO && wire.may_poll {
            wire.tick();
        }
        let room = wire.fifo.len() < FIFO;
        if room {
            wire.fifo.push_back(byte);
        }
        room
    }

    fn put(&mut self, byte: u8) {
        assert!(self.0.lock().unwrap().may_poll, "a port is waited for while guests run");
        assert!(self.try_put(byte));
    }

    fn set_tx_interrupt(&mut self, on: bool) {
        self.0.lock().unwrap().interrupt = on;
    }

    fn get(&mut self) -> Option<u8> {
        None
    }

    fn enable_rx_interrupt(&mut self) {}
}

struct Board {
    wire: Arc<Mutex<Wire>>,
    console: Transmitter,
    consoles: Consoles,
}

impl Board {
    fn new(names: &[&str]) -> Board {
        let wire = Arc::new(Mutex::new(Wire::default()));
        let mut console = Transmitter::new();
        console.port = Some(Box::new(Port(wire.clone())));
        console.start_buffer();
        Board { wire, console, consoles: Consoles::new(names.iter().map(ToString::to_string)) }
    }

    fn now(&self) -> u64 {
        self.wire.lock().unwrap().now
    }

    /// A tick, with the port's interrupt if there is one. What is printed in a tick may fill the FIFO, and so may the
    /// interrupt; who fills it finds it full twice, and whoever else prints once.
    fn tick(&mut self) {
        let looks = self.wire.lock().unwrap().looks;
        self.tick_flooded();
        assert!(looks <= FIFO + 4 && self.wire.lock().unwrap().looks <= FIFO + 2, "{looks}");
    }

    /// The same, whoever printed.
    fn tick_flooded(&mut self) {
        self.wire.lock().unwrap().tick();
        if self.wire.lock().unwrap().raised() {
            self.console.send(&mut self.consoles, 512);
        }
    }

    /// Guest `at` prints what there is room for. How much that was.
    fn print(&mut self, at: usize, text: &[u8]) -> usize {
        let taken = text.len().min(self.consoles.room(at));
        text[..taken].iter().for_each(|&byte| self.consoles.put(at, byte));
        if taken < text.len() {
            self.consoles.wait(at);
        }
        self.console.send(&mut self.consoles, 256);
        taken
    }

    /// What went out, by lines: the tick of the last byte of each, and its text.
    fn lines(&self) -> Vec<(u64, String)> {
        let wire = self.wire.lock().unwrap();
        let lines = wire.sent.split_inclusive(|&(_, byte)| byte == b'\n');
        let text = |line: &[(u64, u8)]| String::from_utf8(line.iter().map(|&(_, byte)| byte).collect()).unwrap();
        lines.map(|line| (line.last().unwrap().0, text(line).trim_end().to_string())).collect()
    }
}

#[test]
fn a_flood_loses_its_own_and_nobody_else_waits() {
    let mut board = Board::new(&["flood", "other"]);
    let mut due = Vec::new();
    let mut text = b"all work and no play\n".repeat(20);
    for tick in 0..200_000u64 {
        // All speeds from a trickle to more than there will ever be room for.
        let flood = [0, 1, 50, 300][tick as usize / 50_000];
        board.print(0, &text[..flood]);
        text.rotate_left(flood % 21);
        if tick % 1000 == 500 {
            board.print(1, format!("tick {tick}\n").as_bytes());
            due.push((tick, format!("other| tick {tick}")));
        }
        if tick % 5000 == 4000 {
            board.console.print(format_args!("spica: at {tick}\n"));
            due.push((tick, format!("spica: at {tick}")));
        }
        board.tick();
    }
    let lines = board.lines();
    for (tick, line) in &due[..due.len() - 1] {
        let (sent, _) = lines.iter().find(|(_, text)| text == line).unwrap_or_else(|| panic!("{line:?} is lost"));
        assert!(sent - tick < SOON, "{line:?} is out at {sent}");
    }
    // Each byte of the flood is on the wire, or told to be lost.
    board.print(0, b"\n");
    (0..LOG_BYTES).for_each(|_| board.tick_flooded());
    (0..LOG_BYTES).for_each(|_| board.tick_flooded());
    let lines = board.lines();
    let of_flood: Vec<_> = lines.iter().filter_map(|(_, line)| line.strip_prefix("flood| ")).collect();
    let lost = |line: &&str| line.strip_prefix('[')?.strip_suffix(" bytes lost]")?.parse::<u64>().ok();
    let losses: u64 = of_flood.iter().filter_map(lost).sum();
    let whole = |line: &&&str| **line == "all work and no play";
    let shown = of_flood.iter().filter(|line| lost(line).is_none()).map(|line| line.len() as u64 + 1).sum::<u64>();
    assert_eq!(losses + shown, board.consoles.printed(0));
    assert!(of_flood.iter().filter(whole).count() > 3000 && losses > 10_000_000, "{shown}, {losses}");
    // The wire is never idle while there is anything to send.
    let wire = board.wire.lock().unwrap();
    let flooded = wire.sent.iter().filter(|&&(tick, _)| (100_100..=200_000).contains(&tick)).count();
    // All but the ticks between an empty FIFO and its interrupt.
    assert!(flooded > 99_000, "{flooded}");
}

#[test]
fn all_floods_get_their_share() {
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let mut board = Board::new(&names);
    for _ in 0..100_000 {
        (0..8).for_each(|at| assert_eq!(board.print(at, b"a line of a flood, like all others\n"), 35));
        board.tick_flooded();
    }
    let lines = board.lines();
    let of = |name| lines.iter().filter(|(_, line)| line.starts_with(&format!("{name}| a line"))).count();
    let counts = names.map(of);
    let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
    assert!(*least > 100 && most - least <= 2, "{counts:?}");
}

#[test]
fn a_guest_alone_waits_and_loses_nothing() {
    let mut board = Board::new(&["a"]);
    let text: Vec<u8> = (0..60_000u32).map(|n| b' ' + (n % 90) as u8).collect();
    let (mut at, mut goes, mut waited) = (0, true, 0);
    while board.wire.lock().unwrap().sent.len() < text.len() {
        if goes && at < text.len() {
            let piece = text.len().min(at + 300);
            at += board.print(0, &text[at..piece]);
            goes = at == piece;
            waited += u32::from(!goes);
        }
        board.tick();
        goes |= board.consoles.goes_on(0);
        assert!(board.now() < 70_000, "the guest is not told that it may go on");
    }
    assert!((50..200).contains(&waited), "it waited {waited} times");
    let wire = board.wire.lock().unwrap();
    assert!(wire.sent.iter().map(|&(_, byte)| byte).eq(text.iter().copied()));
    assert!(wire.now < text.len() as u64 + 600, "the wire was idle: {}", wire.now);
}

#[test]
fn a_guest_that_nobody_sees_does_not_wait() {
    let mut board = Board::new(&["a", "b"]);
    board.consoles.select(View::One(0));
    assert_eq!(board.print(1, &[b'x'; 40_000]), 40_000);
    let printed: usize = (0..100).map(|_| board.print(0, &[b'x'; 40_000])).sum();
    assert!(printed < 2000, "{printed}");
    // Who types to the monitor stops nobody.
    assert!(!board.consoles.goes_on(0));
    board.consoles.hold();
    assert!(board.consoles.goes_on(0) && !board.consoles.goes_on(0));
    assert_eq!(board.print(0, &[b'x'; 40_000]), 40_000);
}

#[test]
fn messages_are_whole_or_counted() {
    let mut board = Board::new(&["a"]);
    let mut printed = 0u32;
    while board.console.room() > 100 {
        board.console.print(format_args!("spica: message {printed}\n"));
        printed += 1;
    }
    assert!(printed as usize > BYTES / 30);
    for _ in 0..50 {
        board.console.print(format_args!("spica: a longer message that finds no room, number {printed}\n"));
    }
    (0..BYTES).for_each(|_| board.tick_flooded());
    board.console.print(format_args!("spica: done\n"));
    (0..200).for_each(|_| board.tick());
    let lines: Vec<_> = board.lines().into_iter().map(|(_, line)| line).collect();
    let whole =
        |line: &&String| line.starts_with("spica: a longer message that") && line.ends_with(&printed.to_string());
    let longer = lines.iter().filter(whole).count();
    let expected: Vec<_> = (0..printed).map(|n| format!("spica: message {n}")).collect();
    assert_eq!(lines[..expected.len()], expected);
    assert_eq!(lines[expected.len() + longer], format!("spica: [{} messages lost]", 50 - longer));
    assert_eq!(lines[expected.len() + longer + 1..], ["spica: done"]);
}

#[test]
fn a_message_does_not_break_into_a_line() {
    let mut board = Board::new(&["a"]);
    board.print(0, b"# ");
    board.console.print(format_args!("spica: @x1 guest 0 a\n"));
    board.console.print(format_args!("spica: @x1 ok\n"));
    board.print(0, b"ls");
    (0..100).for_each(|_| board.tick());
    let lines: Vec<_> = board.lines().into_iter().map(|(_, line)| line).collect();
    assert_eq!(lines, ["#", "spica: @x1 guest 0 a", "spica: @x1 ok", "ls"]);
}

#[test]
fn at_the_end_everything_goes_out() {
    for names in [&["a"][..], &["a", "b"]] {
        let mut board = Board::new(names);
        board.print(0, b"first\nsecond");
        board.console.print(format_args!("spica: third\n"));
        board.consoles.hold();
        board.print(0, b"fourth\nfifth");
        board.wire.lock().unwrap().may_poll = true;
        board.console.finish(&mut board.consoles);
        board.console.print(format_args!("spica: board halted\n"));
        (0..FIFO).for_each(|_| board.wire.lock().unwrap().tick());
        let lines: Vec<_> = board.lines().into_iter().map(|(_, line)| line).collect();
        if names.len() == 1 {
            assert_eq!(lines, ["first", "second", "spica: third", "fourth", "fifth", "spica: board halted"]);
        } else {
            let expected = ["a| first", "spica: third", "a| secondfourth", "a| fifth", "spica: board halted"];
            assert_eq!(lines, expected);
        }
        assert_eq!(board.console.room(), usize::MAX);
    }
}

#[test]
fn last_words_come_before_what_is_said_of_the_end() {
    for names in [&["a"][..], &["a", "b"]] {
        let mut board = Board::new(names);
        board.print(0, "x\n".repeat(500).as_bytes());
        "last words\n".bytes().for_each(|byte| board.consoles.put(0, byte));
        board.console.send_last(&mut board.consoles, 0);
        board.console.print(format_args!("spica: guest a: powered off\n"));
        (0..10_000).for_each(|_| board.tick_flooded());
        let lines = board.lines();
        let last: Vec<_> = lines[lines.len() - 2..].iter().map(|(_, line)| line.trim_start_matches("a| ")).collect();
        assert_eq!(last, ["last words", "spica: guest a: powered off"]);
    }
}

#[test]
fn a_port_that_is_paused_raises_nothing_and_is_known_to_wait() {
    let mut board = Board::new(&["a"]);
    assert!(!board.console.waits());
    board.console.pause(true);
    assert_eq!(board.print(0, &[b'x'; 900]), 900);
    assert!(board.console.waits());
    for _ in 0..100 {
        board.tick();
        assert!(!board.wire.lock().unwrap().interrupt);
    }
    assert_eq!(board.wire.lock().unwrap().sent.len(), FIFO);
    board.console.pause(false);
    assert!(!board.console.waits());
    assert_eq!(board.console.send(&mut board.consoles, 5).bytes, 5);
    (0..1000).for_each(|_| board.tick());
    assert_eq!(board.wire.lock().unwrap().sent.len(), 900);
    assert!(!board.wire.lock().unwrap().interrupt, "there is nothing to send");
}
