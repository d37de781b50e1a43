//! What can be asked of the monitor: the escape keys, and the line behind them.
//!
//! Ctrl-] opens the monitor: a person gets a prompt and types commands; an empty line goes back to the guests. A
//! program sends the byte 0x1e and `@ID COMMAND` as a line: it gets no prompt and no echo, whatever a person is typing,
//! and its answer is lines that begin with `spica: @ID`, which no guest can forge that does not know ID. Either key
//! pressed twice is for the guest.

use alloc::string::{String, ToString};

use crate::debug::{self, Debug};
use crate::trace::{self, Trace};

/// The escape key for people: Ctrl-], as telnet has it.
const ESCAPE: u8 = 0x1d;
/// The escape key for programs: RS, in nobody's reach on a keyboard.
const PROGRAM: u8 = 0x1e;

/// Bytes of a line; the rest of a longer one is lost.
const LINE_BYTES: usize = 200;
/// The same of a program's line: a page of memory has room in it.
pub const PROGRAM_LINE_BYTES: usize = 5600;

/// All guests, or all counters.
const ALL: &str = "all";

/// Commands, with what `help` says of them.
pub const HELP: &[(&str, &str)] = &[
    ("list", "the guests, what they do and what they got"),
    ("console GUEST", "shows one guest's console and types to it"),
    ("console all", "shows all guests' lines, each with its name"),
    ("console", "goes back to the guests, as an empty line does"),
    ("pause GUEST", "stops it; its clocks stand still"),
    ("resume GUEST", "lets it go on"),
    ("shutdown GUEST", "presses its power key: it shuts itself down"),
    ("reset GUEST", "resets it, as a reset key would"),
    ("stop GUEST", "turns it off, as pulling the plug would"),
    ("start GUEST", "turns it on again"),
    ("balloon GUEST MIB", "asks it to do without so much of its memory"),
    ("regs [GUEST]", "registers, devices and traps, for a guest that is silent"),
    ("stats [GUEST]", "what it got and did since the board's start"),
    ("stats [GUEST] all", "all counters"),
    ("log GUEST", "what it printed last"),
    ("check", "whether Spica's own memory is as it was at the start"),
    ("help", "this text"),
];

/// What is asked for. `debug` and `trace`, which [`debug`] and [`trace`] describe, are for programs. Guests are named
/// as the asker named them: by name or by number, from 0.
///
/// `stats` gives a program all counters, and a person only with `all` behind it; a program has `summary` for what a
/// person is told.
#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "HELP says what they do")]
pub enum Command {
    List,
    Console(String),
    ConsoleAll,
    Leave,
    Pause(String),
    Resume(String),
    Shutdown(String),
    Reset(String),
    Stop(String),
    Start(String),
    Balloon(String, u32),
    Registers(Option<String>),
    Stats(Option<String>, bool),
    Summary(Option<String>),
    Log(String),
    Check,
    Help,
    Debug(String, Debug),
    Trace(Trace),
}

/// A line that was typed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// The asker's word, if it is a program.
    pub id: Option<String>,
    /// What is asked for, or what is wrong with the line.
    pub command: Result<Command, String>,
}

/// Understands a command.
///
/// # Errors
/// What is wrong, and what would be right.
pub fn parse(line: &str) -> Result<Command, String> {
    let mut words = line.split_ascii_whitespace();
    let Some(verb) = words.next() else { return Ok(Command::Leave) };
    if verb == "trace" {
        return Ok(Command::Trace(trace::parse(words)?));
    }
    let guest = words.next().map(ToString::to_string);
    if verb == "debug" {
        return Ok(Command::Debug(guest.unwrap_or_default(), debug::parse(words)?));
    }
    if verb == "balloon" {
        let megabytes = words.next().and_then(|word| word.parse().ok());
        return match (guest, megabytes, words.next()) {
            (Some(guest), Some(megabytes), None) => Ok(Command::Balloon(guest, megabytes)),
            _ => Err("`balloon` needs a guest and how many MiB it is to do without: `balloon web 64`".into()),
        };
    }
    let next = words.next();
    if verb == "stats" {
        // No guest has this name.
        let (guest, all) = match (guest, next) {
            (Some(word), None) if word == ALL => (None, true),
            (guest, Some(ALL)) => (guest, true),
            (guest, None) => (guest, false),
            (_, Some(word)) => {
                return Err(alloc::format!("`{word}` is one word too many: `stats web all` has all counters"));
            }
        };
        return match words.next() {
            None => Ok(Command::Stats(guest, all)),
            Some(word) => Err(alloc::format!("`{word}` is one word too many")),
        };
    }
    if let Some(word) = next {
        return Err(alloc::format!("`{word}` is one word too many"));
    }
    let needed = |guest: Option<String>, make: fn(String) -> Command| {
        guest.map(make).ok_or_else(|| alloc::format!("`{verb}` needs the name or number of a guest: `list` shows them"))
    };
    match (verb, guest) {
        ("list", None) => Ok(Command::List),
        ("help", None) => Ok(Command::Help),
        ("check", None) => Ok(Command::Check),
        ("list" | "help" | "check", Some(word)) => Err(alloc::format!("`{word}` is one word too many")),
        ("console", None) => Ok(Command::Leave),
        ("console", Some(guest)) if guest == ALL => Ok(Command::ConsoleAll),
        ("console", guest) => needed(guest, Command::Console),
        ("pause", guest) => needed(guest, Command::Pause),
        ("resume", guest) => needed(guest, Command::Resume),
        ("shutdown", guest) => needed(guest, Command::Shutdown),
        ("reset", guest) => needed(guest, Command::Reset),
        ("stop", guest) => needed(guest, Command::Stop),
        ("start", guest) => needed(guest, Command::Start),
        ("log", guest) => needed(guest, Command::Log),
        ("regs", guest) => Ok(Command::Registers(guest)),
        ("summary", guest) => Ok(Command::Summary(guest)),
        (verb, _) => Err(alloc::format!("`{verb}` is no command: `help` lists them")),
    }
}

/// What a typed byte comes to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Typed {
    /// It is for the guest that is selected.
    Guest(u8),
    /// It opened the monitor.
    Opened,
    /// It became part of the monitor's line, or nothing; what is to be echoed, where 8 erases the last character.
    Part(Option<u8>),
    /// It ended the line.
    Line(Request),
}

/// The erase character, for the echo.
pub const BACKSPACE: u8 = 8;

/// The monitor's lines, while they are typed.
#[derive(Default)]
pub struct Lines {
    person: Option<String>,
    program: Option<String>,
}

impl Lines {
    /// Begins the next line of a person who goes on.
    pub fn reopen(&mut self) {
        self.person = Some(String::new());
    }

    /// Takes in a byte.
    pub fn typed(&mut self, byte: u8) -> Typed {
        if self.program.is_some() {
            return self.program_typed(byte);
        }
        let Some(text) = &mut self.person else {
            return match byte {
                ESCAPE => {
                    self.reopen();
                    Typed::Opened
                }
                PROGRAM => {
                    self.program = Some(String::new());
                    Typed::Part(None)
                }
                _ => Typed::Guest(byte),
            };
        };
        match byte {
            PROGRAM => {
                self.program = Some(String::new());
                Typed::Part(None)
            }
            ESCAPE if text.is_empty() => {
                self.person = None;
                Typed::Guest(byte)
            }
            b'\r' | b'\n' => {
                let text = core::mem::take(text);
                self.person = None;
                Typed::Line(Request { id: None, command: parse(&text) })
            }
            BACKSPACE | 0x7f => Typed::Part(text.pop().map(|_| BACKSPACE)),
            b' '..=b'~' if text.len() < LINE_BYTES => {
                text.push(char::from(byte));
                Typed::Part(Some(byte))
            }
            _ => Typed::Part(None),
        }
    }

    fn program_typed(&mut self, byte: u8) -> Typed {
        let Some(text) = &mut self.program else { return Typed::Part(None) };
        match byte {
            PROGRAM if text.is_empty() => {
                self.program = None;
                Typed::Guest(byte)
            }
            b'\r' | b'\n' => {
                let text = core::mem::take(text);
                self.program = None;
                Typed::Line(request(&text))
            }
            b' '..=b'~' if text.len() < PROGRAM_LINE_BYTES => {
                text.push(char::from(byte));
                Typed::Part(None)
            }
            _ => Typed::Part(None),
        }
    }
}

/// A program's line.
fn request(text: &str) -> Request {
    let (id, line) = text.strip_prefix('@').unwrap_or("").split_once(' ').unwrap_or_default();
    let legal = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    if id.is_empty() || id.len() > 16 || !id.bytes().all(legal) {
        let command = Err("a program's line is `@ID COMMAND`, ID being 1 to 16 of a-z and 0-9".into());
        return Request { id: Some("0".into()), command };
    }
    Request { id: Some(id.into()), command: parse(line) }
}
