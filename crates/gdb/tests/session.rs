//! A debugger's stay at a board that is none: what GDB says, byte by byte, and what the board is asked.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use spica_gdb::session::{Wire, serve};
use spica_gdb::{Link, NotBack, Problem};

/// A guest that answers as a board does, and keeps what it was asked.
struct Board {
    asked: Vec<String>,
    halted: bool,
    why: &'static str,
    /// Why it stands when it was to go on.
    at: &'static str,
    waiting: bool,
    answers: VecDeque<String>,
    symbols: Option<Arc<[u8]>>,
    /// Readable when an answer to `wait` is here.
    ready: (UnixStream, UnixStream),
}

impl Board {
    fn new() -> Board {
        let ready = UnixStream::pair().unwrap();
        Board {
            asked: Vec::new(),
            halted: false,
            why: "halt",
            at: "",
            waiting: false,
            answers: VecDeque::new(),
            symbols: None,
            ready,
        }
    }

    fn tell(&mut self, text: &str) {
        if std::mem::take(&mut self.waiting) {
            self.answers.push_back(text.to_string());
            self.ready.0.write_all(b"x").unwrap();
        }
    }
}

impl Link for Board {
    fn guest(&self) -> &str {
        "web"
    }

    fn ask(&mut self, question: &str) -> Result<Vec<String>, Problem> {
        self.asked.push(question.to_string());
        let words: Vec<_> = question.split(' ').collect();
        match words[..] {
            ["halt"] => {
                (self.halted, self.why) = (true, "halt");
                self.tell("halted c0008000 halt");
            }
            ["detach"] => {
                self.halted = false;
                self.tell("detached");
            }
            ["attach"] => {}
            _ if !self.halted => return Err("web is running, not halted".to_string()),
            ["go"] if self.asked.iter().any(|question| question == "watch r c0000010 100") => {
                self.why = "watch r c0000010";
            }
            ["go"] if !self.at.is_empty() => self.why = self.at,
            ["go"] => self.halted = false,
            ["step"] => self.why = "step",
            ["regs", "core"] => {
                // R0 is the address of a module, whose name is the first time another one.
                let module =
                    if self.asked.iter().filter(|question| *question == "go").count() < 2 { 0 } else { 0xc000_0000 };
                let words: Vec<_> = (0..17).map(|n: u32| format!("{:x}", if n == 0 { module } else { n })).collect();
                return Ok(vec![format!("regs {}", words.join(" "))]);
            }
            ["regs", "system"] => {
                // High vectors, and then a VBAR.
                let sctlr = if self.asked.iter().any(|question| question == "go") { 0 } else { 0x2000 };
                let words: Vec<_> = (0..16u32).map(|n| if n == 0 { sctlr } else { 0x1000_0000 * n + 0xc0 }).collect();
                let words: Vec<_> = words.iter().map(|word| format!("{word:x}")).collect();
                return Ok(vec![format!("regs {}", words.join(" "))]);
            }
            ["read", "pa", ..] => return Ok(vec![format!("memory {}", "a5".repeat(256))]),
            ["read", "va", address, _] if address.starts_with("c0") => {
                return Ok(vec![format!("memory {}", "5a".repeat(256))]);
            }
            ["read", ..] => return Err("there is no RAM".to_string()),
            ["break", "1000"] => return Err("user code".to_string()),
            ["catch" | "uncatch", "ttbr", ..] => {}
            ["set" | "write" | "break" | "clear" | "watch" | "unwatch", ..] => {}
            _ => return Err(format!("{question:?} is nothing that can be asked")),
        }
        Ok(Vec::new())
    }

    fn begin_wait(&mut self) -> Result<(), Problem> {
        assert!(!self.waiting, "once is enough");
        self.waiting = true;
        if self.halted {
            self.tell(&format!("halted c0008000 {}", self.why));
        }
        Ok(())
    }

    fn waits_for(&self) -> BorrowedFd<'_> {
        self.ready.1.as_fd()
    }

    fn end_wait(&mut self) -> Result<Vec<String>, Problem> {
        self.ready.1.read_exact(&mut [0]).unwrap();
        Ok(self.answers.pop_front().into_iter().collect())
    }

    fn symbols(&self) -> Option<Arc<[u8]>> {
        self.symbols.clone()
    }

    fn read_symbols(&mut self, progress: &mut dyn FnMut(&str)) -> Result<(), Problem> {
        progress("reading");
        self.symbols = Some(FILE.into());
        Ok(())
    }

    fn keep(&mut self, progress: &mut dyn FnMut(&str)) -> Result<String, Problem> {
        progress(".");
        self.asked.push("keep".into());
        Ok("all of it".into())
    }

    fn put_back(&mut self) -> Result<(), NotBack> {
        self.asked.push("put back".into());
        match self.asked.iter().filter(|question| *question == "keep").count() {
            0 => Err(NotBack::Untouched("nothing was kept".into())),
            1 => Ok(()),
            _ => Err(NotBack::Lost("a cable was pulled".into())),
        }
    }
}

/// What stands for the file of symbols; `#` and `}` are escaped in packets.
const FILE: &[u8] = b"0123}#56789";

/// A session, GDB's end of it, and what came of it: how it ended, what the board was asked, and what was said.
type Ended = (Result<&'static str, Problem>, Vec<String>, Vec<String>);

fn session() -> (UnixStream, JoinHandle<Ended>) {
    session_at(Board::new)
}

fn session_at(board: fn() -> Board) -> (UnixStream, JoinHandle<Ended>) {
    let (gdb, ours) = UnixStream::pair().unwrap();
    let work = std::thread::spawn(move || {
        let (mut board, mut said) = (board(), Vec::new());
        let wire = Wire::new(ours.try_clone().unwrap().into(), ours.into());
        let how = serve(&mut board, wire, &mut |text| said.push(text.to_string()));
        (how, board.asked, said)
    });
    (gdb, work)
}

/// Sends a packet, and gives the answer to it.
fn ask(gdb: &mut UnixStream, packet: &str) -> String {
    let sum = packet.bytes().fold(0u8, u8::wrapping_add);
    gdb.write_all(format!("${packet}#{sum:02x}").as_bytes()).unwrap();
    answer(gdb)
}

fn answer(gdb: &mut UnixStream) -> String {
    let (mut text, mut byte) = (String::new(), [0]);
    loop {
        gdb.read_exact(&mut byte).unwrap();
        match byte[0] {
            b'#' => break,
            b'$' => text.clear(),
            other => text.push(char::from(other)),
        }
    }
    gdb.read_exact(&mut [0; 2]).unwrap();
    // Whoever has detached hears no more.
    let _ = gdb.write_all(b"+");
    text
}

/// Without the protocol's run-length encoding: `0*"` is `0000`.
fn expand(text: &str) -> String {
    let (mut plain, mut chars) = (String::new(), text.chars());
    while let Some(char) = chars.next() {
        match (char, plain.chars().last()) {
            ('*', Some(last)) => {
                let count = chars.next().map_or(0, |count| count as usize - 29);
                plain.extend(std::iter::repeat_n(last, count));
            }
            _ => plain.push(char),
        }
    }
    plain
}

#[test]
fn a_guest_is_looked_at_changed_and_let_go() {
    let (mut gdb, work) = session();
    assert!(ask(&mut gdb, "qSupported:swbreak+").contains("qXfer:features:read+"));
    let registers = ask(&mut gdb, "g");
    assert!(registers.len() > 40, "{registers}");
    assert_eq!(ask(&mut gdb, "g"), registers);
    assert!(ask(&mut gdb, "mc0000010,4").starts_with("5a"));
    assert!(ask(&mut gdb, "mc0000020,4").starts_with("5a"));
    assert!(ask(&mut gdb, "m10,4").starts_with('E'));
    assert_eq!(ask(&mut gdb, "Mc0000010,2:0102"), "OK");
    assert!(ask(&mut gdb, "mc0000010,4").starts_with("5a"));
    assert_eq!(ask(&mut gdb, "Z0,c0008000,4"), "OK");
    assert!(ask(&mut gdb, "Z0,1000,4").starts_with('E'));
    // T32, of two bytes and of four.
    assert_eq!(ask(&mut gdb, "Z0,8002,2"), "OK");
    assert_eq!(ask(&mut gdb, "Z1,8004,3"), "OK");
    assert_eq!(ask(&mut gdb, "z1,8004,3"), "OK");
    assert!(ask(&mut gdb, "z0,8002,4").starts_with('E'), "it is another one in A32");
    assert!(ask(&mut gdb, "vCont;s:1").starts_with('S'));
    assert_eq!(ask(&mut gdb, "D"), "OK");
    let (how, asked, said) = work.join().unwrap();
    assert_eq!(how, Ok("the debugger has detached"));
    // What was read is not read again, until something may have changed it.
    let reads: Vec<_> = asked.iter().filter(|question| question.starts_with("read")).collect();
    assert_eq!(reads, ["read va c0000000 100", "read va 0 100", "read va c0000000 100"]);
    assert_eq!(asked.iter().filter(|question| *question == "regs core").count(), 1);
    assert_eq!(asked[asked.len() - 2..], ["detach", "attach"]);
    let thumb: Vec<_> = asked.iter().filter(|question| question.contains("800") && !question.contains('c')).collect();
    assert_eq!(thumb, ["break 8003", "break 8005"]);
    assert!(asked.contains(&"clear 8005".to_string()));
    assert_eq!(said, ["user code"]);
}

/// LLDB reads the memory behind an address in pieces that go beyond all memory.
#[test]
fn addresses_beyond_32_bits_are_an_error_and_no_end() {
    let (mut gdb, session) = session();
    for packet in ["m100000000,200", "mffffffffffffffff,4", "M100000000,1:00", "Z0,100000000,4", "Z2,100000000,4"] {
        assert!(ask(&mut gdb, packet).starts_with('E'), "{packet}");
    }
    assert_eq!(ask(&mut gdb, "D"), "OK");
    let (left, asked, _) = session.join().unwrap();
    assert!(left.is_ok() && asked.iter().all(|question| !question.contains("100000000")), "{asked:?}");
}

#[test]
fn a_guest_goes_back_to_its_checkpoint() {
    let (mut gdb, work) = session();
    assert!(ask(&mut gdb, "qSupported:swbreak+").contains("ReverseContinue+"));
    assert_eq!(ask(&mut gdb, "Z0,c0008000,4"), "OK");
    assert_eq!(ask(&mut gdb, "Z2,c0000100,4"), "OK");
    assert_eq!(ask(&mut gdb, "Z2,c0000200,4"), "OK");
    assert_eq!(ask(&mut gdb, "z2,c0000200,4"), "OK");
    monitor(&mut gdb, "catch svc 4 5");
    monitor(&mut gdb, "catch irq");
    monitor(&mut gdb, "catch ttbr 4000");
    // Nothing was kept: it stands as it stood, for another reason than a breakpoint.
    assert_eq!(ask(&mut gdb, "bc")[1..][..2], *"11", "SIGSTOP");
    monitor(&mut gdb, "checkpoint");
    assert!(ask(&mut gdb, "mc0000010,4").starts_with("5a"));
    assert!(ask(&mut gdb, "bc").contains("replaylog:begin;"));
    // All that was known is asked for anew.
    assert!(ask(&mut gdb, "mc0000010,4").starts_with("5a"));
    monitor(&mut gdb, "checkpoint");
    assert!(ask(&mut gdb, "bc").starts_with('W'), "half of a guest is off");
    let (how, asked, said) = work.join().unwrap();
    assert_eq!(how, Ok("the guest is off"));
    let set = [
        "break c0008000",
        "break ffff0018",
        "break ffff0008 7 4",
        "break ffff0008 7 5",
        "watch w c0000100 4",
        "catch ttbr 4000",
    ];
    let clear = ["clear c0008000", "clear ffff0018", "clear ffff0008", "unwatch w c0000100 4", "uncatch ttbr"];
    // What stops it goes before, and is back behind, whether it went back or not; but not of one that is lost.
    let back: Vec<_> = (0..asked.len()).filter(|&at| asked[at] == "put back").collect();
    assert_eq!(back.len(), 3);
    for (time, at) in back.into_iter().enumerate() {
        assert_eq!(asked[at - clear.len()..at], clear);
        if time < 2 {
            assert_eq!(asked[at + 1..][..set.len()], set);
        }
    }
    assert_eq!(asked.iter().filter(|question| *question == "read va c0000000 100").count(), 2);
    assert_eq!(asked[asked.len() - 3..], ["put back", "detach", "attach"]);
    assert_eq!(said, ["nothing was kept", "a cable was pulled; half of web was replaced, and it will be off"]);
}

#[test]
fn addresses_are_physical_ones_on_request() {
    let (mut gdb, work) = session();
    let monitor = |text: &str| format!("qRcmd,{}", text.bytes().map(|byte| format!("{byte:02x}")).collect::<String>());
    for (command, byte) in [("physical on", "a5"), ("physical off", "5a"), ("physical", "5a"), ("physical on", "a5")] {
        assert!(ask(&mut gdb, &monitor(command)).starts_with('O'), "{command}");
        assert_eq!(answer(&mut gdb), "OK");
        assert!(ask(&mut gdb, "mc0000010,1").starts_with(byte), "{command}");
    }
    assert_eq!(ask(&mut gdb, "Mc0000010,1:00"), "OK");
    drop(gdb);
    let (_, asked, _) = work.join().unwrap();
    let of =
        |verb: &str| asked.iter().filter(|question| question.starts_with(verb)).map(String::as_str).collect::<Vec<_>>();
    assert_eq!(of("read"), ["read pa c0000000 100", "read va c0000000 100"], "each is kept");
    assert_eq!(of("write"), ["write pa c0000010 00"]);
}

/// GDB takes it that on ARM the access is still to be made, and steps over it; it has been made.
#[test]
fn a_watchpoint_is_told_behind_the_access() {
    let (mut gdb, work) = session();
    for (packet, expected) in [("Z2,c0000000,4", "OK"), ("Z3,c0000010,100", "OK"), ("Z4,c0001000,1", "OK")] {
        assert_eq!(ask(&mut gdb, packet), expected);
    }
    assert!(expand(&ask(&mut gdb, "vCont;c:1")).ends_with("rwatch:c0000010;"));
    assert_eq!(ask(&mut gdb, "z3,c0000010,100"), "OK");
    assert!(ask(&mut gdb, "vCont;s:1").starts_with('S'));
    // Only once.
    assert!(ask(&mut gdb, "vCont;s:1").starts_with('S'));
    drop(gdb);
    let (_, asked, _) = work.join().unwrap();
    let questions = ["watch", "unwatch", "go", "step"];
    let asked: Vec<_> = asked.iter().filter(|it| questions.contains(&it.split(' ').next().unwrap())).collect();
    assert_eq!(
        asked,
        ["watch w c0000000 4", "watch r c0000010 100", "watch a c0001000 1", "go", "unwatch r c0000010 100", "step"]
    );
}

/// What a command of `monitor` says.
fn monitor(gdb: &mut UnixStream, text: &str) -> String {
    let command: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
    let (mut said, mut text) = (String::new(), ask(gdb, &format!("qRcmd,{command}")));
    while text != "OK" {
        said += expand(&text).strip_prefix('O').expect("words, or the end of them");
        text = answer(gdb);
    }
    let digits: Vec<u32> = said.chars().map(|digit| digit.to_digit(16).expect("a digit")).collect();
    digits.chunks(2).map(|pair| char::from((pair[0] << 4 | pair[1]) as u8)).collect()
}

/// An ELF file with the function at which modules are caught, at this address.
fn names(address: u32) -> Vec<u8> {
    let name = "do_init_module".to_string();
    spica_kallsyms::elf::write(&[spica_kallsyms::Symbol { address, kind: b't', name }]).expect("a file")
}

/// The board stands at a breakpoint there whenever it is to go on, for two modules by turns: their names are in what it
/// reads.
#[test]
fn modules_are_caught_by_their_names_where_linux_initialises_them() {
    let (mut gdb, work) = session();
    assert!(monitor(&mut gdb, "catch module").contains("are not known"));
    drop(gdb);
    drop(work.join().unwrap());
    let (mut gdb, work) = session_at(|| Board { symbols: Some(FILE.into()), ..Board::new() });
    assert!(monitor(&mut gdb, "catch module").contains("no function do_init_module"));
    drop(gdb);
    let (_, asked, _) = work.join().unwrap();
    assert!(!asked.iter().any(|question| question.starts_with("break")), "{asked:?}");

    let (mut gdb, work) =
        session_at(|| Board { symbols: Some(names(0xc000_8000).into()), at: "breakpoint", ..Board::new() });
    assert!(monitor(&mut gdb, "uncatch module web").contains("only `catch module`"));
    // What the board has everywhere is `Z`.
    let name = "Z".repeat(60);
    let said = monitor(&mut gdb, &format!("catch module zz-top {name}"));
    assert!(said.contains(&format!("in do_init_module, 0xc0008000, if it is zz_top, {name}")), "{said}");
    // Its own breakpoint there is another thing.
    assert_eq!(ask(&mut gdb, "Z0,c0008000,4"), "OK");
    assert_eq!(ask(&mut gdb, "z0,c0008000,4"), "OK");
    // The name is not that one, and then it is.
    assert!(ask(&mut gdb, "vCont;c:1").contains("05"));
    assert!(monitor(&mut gdb, "catch module").contains("in do_init_module, 0xc0008000"));
    assert!(ask(&mut gdb, "vCont;c:1").contains("05"));
    assert!(monitor(&mut gdb, "uncatch module").contains("is not caught"));
    drop(gdb);
    let (_, asked, said) = work.join().unwrap();
    let told: Vec<_> =
        asked.iter().filter(|it| ["break", "clear", "go"].contains(&it.split(' ').next().unwrap())).collect();
    let expected = ["break c0008000", "go", "go", "clear c0008000", "break c0008000", "go", "clear c0008000"];
    assert_eq!(told, expected);
    assert_eq!(said[0], format!("web has loaded the module {name}, `struct module` at 0xc0000000"));
}

/// Modules that are not wanted are loaded without end: Ctrl-C is heard all the same.
#[test]
fn what_is_not_wanted_keeps_nobody_from_stopping_the_guest() {
    let (mut gdb, work) =
        session_at(|| Board { symbols: Some(names(0xc000_8000).into()), at: "breakpoint", ..Board::new() });
    assert!(monitor(&mut gdb, "catch module dummy").contains("if it is dummy"));
    let packet = "vCont;c:1";
    let sum = packet.bytes().fold(0u8, u8::wrapping_add);
    gdb.write_all(format!("${packet}#{sum:02x}\x03").as_bytes()).unwrap();
    assert!(answer(&mut gdb).contains("02"), "SIGINT");
    drop(gdb);
    assert!(work.join().unwrap().1.contains(&"halt".to_string()));
}

#[test]
fn changes_of_ttbr0_are_caught_by_the_board() {
    let (mut gdb, work) = session_at(|| Board { at: "ttbr 4000406a 4002806a", ..Board::new() });
    for wrong in ["catch ttbr x", "catch ttbr 1 2", "uncatch ttbr 1", "catch ttbr 123456789"] {
        assert!(monitor(&mut gdb, wrong).contains("hexadecimal"), "{wrong}");
    }
    assert!(monitor(&mut gdb, "catch ttbr").contains("is caught"));
    assert!(monitor(&mut gdb, "catch ttbr 0x4002806A").contains("to 0x4002806A"));
    assert!(ask(&mut gdb, "vCont;c:1").contains("05"));
    assert!(monitor(&mut gdb, "uncatch ttbr").contains("is not caught"));
    drop(gdb);
    let (_, asked, said) = work.join().unwrap();
    let ttbr: Vec<_> =
        asked.iter().filter(|question| question.ends_with("ttbr") || question.contains("ttbr ")).collect();
    assert_eq!(ttbr, ["catch ttbr", "catch ttbr 4002806a", "uncatch ttbr"]);
    assert_eq!(said[0], "web has changed TTBR0 from 0x4000406a to 0x4002806a");
}

#[test]
fn exceptions_are_caught_at_their_vectors() {
    let (mut gdb, work) = session();
    assert!(monitor(&mut gdb, "catch everything").contains("undef, svc, pabt, dabt, irq, fiq"));
    for wrong in ["catch svc irq", "catch irq 1", "catch svc 0x5", "uncatch svc 5"] {
        assert!(monitor(&mut gdb, wrong).contains("numbers of system calls"), "{wrong}");
    }
    assert!(monitor(&mut gdb, "catch ").contains("exceptions are"));
    assert!(monitor(&mut gdb, "catch svc").contains("0xffff0008"));
    // A breakpoint at the same place is another thing.
    assert_eq!(ask(&mut gdb, "Z0,ffff0008,4"), "OK");
    assert_eq!(ask(&mut gdb, "z0,ffff0008,4"), "OK");
    assert!(ask(&mut gdb, "z0,ffff0008,4").starts_with('E'));
    assert_eq!(ask(&mut gdb, "Z0,ffff0008,4"), "OK");
    assert!(monitor(&mut gdb, "uncatch svc").contains("not caught"));
    assert_eq!(ask(&mut gdb, "z0,ffff0008,4"), "OK");
    // Some system calls; they are caught still when a breakpoint there goes.
    assert!(monitor(&mut gdb, "catch svc 5 322").contains("if its number is 5, 322"));
    assert_eq!(ask(&mut gdb, "Z0,ffff0008,4"), "OK");
    assert_eq!(ask(&mut gdb, "z0,ffff0008,4"), "OK");
    assert!(monitor(&mut gdb, "catch svc").contains("0xffff0008"));
    assert!(monitor(&mut gdb, "uncatch svc").contains("not caught"));
    // The base is looked at when an exception is caught.
    let packet = "vCont;c:1";
    let sum = packet.bytes().fold(0u8, u8::wrapping_add);
    gdb.write_all(format!("${packet}#{sum:02x}\x03").as_bytes()).unwrap();
    assert!(answer(&mut gdb).contains("02"));
    assert!(monitor(&mut gdb, "catch dabt").contains("0xa00000d0"));
    assert!(monitor(&mut gdb, "uncatch dabt").contains("not caught"));
    drop(gdb);
    let (_, asked, _) = work.join().unwrap();
    let places: Vec<_> =
        asked.iter().filter(|question| question.starts_with("break") || question.starts_with("clear")).collect();
    let expected = [
        "break ffff0008",
        "clear ffff0008",
        "break ffff0008 7 5",
        "break ffff0008 7 142",
        "break ffff0008",
        "clear ffff0008",
        "break ffff0008 7 5",
        "break ffff0008 7 142",
        "clear ffff0008",
        "break ffff0008",
        "clear ffff0008",
        "break a00000d0",
        "clear a00000d0",
    ];
    assert_eq!(places, expected);
}

#[test]
fn breakpoints_with_conditions_are_the_boards() {
    let (mut gdb, work) = session_at(|| Board { at: "breakpoint", ..Board::new() });
    for wrong in ["break vfs_read", "break 0xc0008000", "break 0xc0008000 r15 1", "break 0xc0008000 r1 x", "break 1 r1"]
    {
        let said = monitor(&mut gdb, wrong);
        assert!(said.contains("a condition is") || said.contains("names are not known"), "{wrong}: {said}");
    }
    assert!(monitor(&mut gdb, "unbreak 0xc0008000").contains("no breakpoint with a condition at"));
    assert!(monitor(&mut gdb, "break 0xc0008000 r2 4096 0x20").contains("0xc0008000, if r2 is 0x1000 or 0x20"));
    // A breakpoint there goes, and the conditions stay.
    assert_eq!(ask(&mut gdb, "Z0,c0008000,4"), "OK");
    assert_eq!(ask(&mut gdb, "z0,c0008000,4"), "OK");
    // It is not GDB's.
    assert_eq!(ask(&mut gdb, "vCont;c:1"), "S05");
    // Another condition instead.
    assert!(monitor(&mut gdb, "break 0xc0008000 sp 7").contains("if r13 is 0x7"));
    assert!(monitor(&mut gdb, "unbreak 0xc0008000").contains("no breakpoint with a condition at"));
    drop(gdb);
    let (_, asked, said) = work.join().unwrap();
    let places: Vec<_> =
        asked.iter().filter(|question| question.starts_with("break") || question.starts_with("clear")).collect();
    let expected = [
        "break c0008000 2 1000",
        "break c0008000 2 20",
        "break c0008000",
        "clear c0008000",
        "break c0008000 2 1000",
        "break c0008000 2 20",
        "clear c0008000",
        "break c0008000 d 7",
        "clear c0008000",
    ];
    assert_eq!(places, expected);
    assert_eq!(said, ["web is at 0xc0008000, and r2 is 0x1000 or 0x20"]);
}

#[test]
fn a_debugger_reads_the_kernels_names() {
    let (mut gdb, work) = session_at(|| Board { symbols: Some(FILE.into()), ..Board::new() });
    let name = |text: &str| text.bytes().map(|byte| format!("{byte:02x}")).collect::<String>();
    assert!(ask(&mut gdb, "qSupported:swbreak+").contains("qXfer:exec-file:read+"));
    assert_eq!(ask(&mut gdb, "qXfer:exec-file:read:1:0,ff"), "m/kernel");
    assert_eq!(ask(&mut gdb, "qXfer:exec-file:read:1:7,ff"), "l");
    assert_eq!(ask(&mut gdb, &format!("vFile:open:{},0,0", name("/etc/passwd"))), "F-1,02");
    assert_eq!(ask(&mut gdb, &format!("vFile:open:{},1,0", name("/kernel"))), "F-1,1e");
    assert_eq!(ask(&mut gdb, &format!("vFile:open:{},0,0", name("/kernel"))), "F00");
    assert!(ask(&mut gdb, "vFile:fstat:0").starts_with("F40;"));
    assert_eq!(ask(&mut gdb, "vFile:pread:0,4,1"), "F04;123}]");
    assert_eq!(ask(&mut gdb, "vFile:pread:0,ff,9"), "F02;89");
    for beyond in ["b", "c", "ffffffffffffffff"] {
        assert_eq!(ask(&mut gdb, &format!("vFile:pread:0,ff,{beyond}")), "F00;");
    }
    assert_eq!(ask(&mut gdb, "vFile:pread:1,1,0"), "F-1,09");
    assert_eq!(ask(&mut gdb, "vFile:close:0"), "F0");
    assert_eq!(ask(&mut gdb, "vFile:close:0"), "F-1,09");
    for fd in 1..=16 {
        assert_eq!(ask(&mut gdb, &format!("vFile:open:{},0,0", name("/kernel"))), format!("F{fd:02x}"));
    }
    assert_eq!(ask(&mut gdb, &format!("vFile:open:{},0,0", name("/kernel"))), "F-1,18");
    drop(gdb);
    work.join().unwrap().0.unwrap();

    // Where they are not known, nobody asks for them before they are read.
    let (mut gdb, work) = session();
    assert!(!ask(&mut gdb, "qSupported:swbreak+").contains("exec-file"));
    assert_eq!(ask(&mut gdb, &format!("vFile:open:{},0,0", name("/kernel"))), "F-1,02");
    assert_eq!(ask(&mut gdb, &format!("qRcmd,{}", name("symbols"))), format!("O{}", name("reading")));
    assert!(answer(&mut gdb).starts_with('O'));
    assert_eq!(answer(&mut gdb), "OK");
    assert_eq!(ask(&mut gdb, &format!("vFile:open:{},0,0", name("/kernel"))), "F00");
    drop(gdb);
    work.join().unwrap().0.unwrap();
}

#[test]
fn ctrl_c_stops_it_and_a_closed_connection_lets_it_go() {
    let (mut gdb, work) = session();
    let packet = "vCont;c:1";
    let sum = packet.bytes().fold(0u8, u8::wrapping_add);
    gdb.write_all(format!("${packet}#{sum:02x}\x03").as_bytes()).unwrap();
    assert!(answer(&mut gdb).contains("02"), "SIGINT");
    drop(gdb);
    let (how, asked, _) = work.join().unwrap();
    assert_eq!(how, Ok("the debugger's connection is closed"));
    assert_eq!(asked, ["halt", "go", "halt", "detach", "attach"]);
    // The same while the guest runs, with `wait` unanswered.
    let (mut gdb, work) = session();
    gdb.write_all(format!("${packet}#{sum:02x}").as_bytes()).unwrap();
    gdb.shutdown(std::net::Shutdown::Write).unwrap();
    let (how, asked, _) = work.join().unwrap();
    assert_eq!(how, Ok("the debugger's connection is closed"));
    assert_eq!(asked, ["halt", "go", "detach", "attach"]);
}

#[test]
fn any_bytes_end_with_the_guest_going_on() {
    // Pieces of packets in any order, right and wrong checksums, and what belongs to none.
    let pieces = [
        "$",
        "#",
        "00",
        "g",
        "m",
        "M",
        "c0000000",
        ",",
        ":",
        ";",
        "4",
        "ffffffff",
        "Z0",
        "z0",
        "vCont",
        "?",
        "s",
        "c",
        "\u{3}",
        "+",
        "-",
        "}",
        "*",
        "qSupported",
        "qXfer:features:read:target.xml:0,fff",
        "P19=",
        "p1a",
        "X",
        "H",
        "T",
        "\u{7f}",
        "$?#3f",
        "$g#67",
        "$m0,99999999#00",
        "Z0,8002,2",
        "z1,8002,3",
        "Z1,c0008000,4",
        "vCont;c:1",
    ];
    // And commands of `monitor`, of pieces as well.
    let words =
        ["catch", "uncatch", "ttbr", "module", "svc", "0x", "5", "dummy", "é", "", "physical on", "catch module"];
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut dice = |sides: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 33) as usize % sides
    };
    for _ in 0..300 {
        let (mut gdb, work) =
            session_at(|| Board { symbols: Some(names(0xc000_8000).into()), at: "breakpoint", ..Board::new() });
        for _ in 0..dice(40) {
            let mut piece = pieces[dice(pieces.len())].to_string();
            let commanded = dice(4) == 0;
            if commanded {
                let command: Vec<_> = (0..=dice(4)).map(|_| words[dice(words.len())]).collect();
                let command = command.join(" ");
                piece = "qRcmd,".to_string() + &command.bytes().map(|byte| format!("{byte:02x}")).collect::<String>();
            }
            if commanded || dice(3) == 0 {
                let sum = piece.bytes().fold(0u8, u8::wrapping_add);
                piece = format!("${piece}#{sum:02x}");
            }
            if gdb.write_all(piece.as_bytes()).is_err() {
                break;
            }
        }
        // Nobody reads what is answered, and that is not much.
        let _ = gdb.shutdown(std::net::Shutdown::Write);
        let (_, asked, _) = work.join().expect("no panic");
        assert_eq!(asked[asked.len() - 2..], ["detach", "attach"]);
    }
}

/// Packets that a debugger may send.
const PACKETS: [&str; 52] = [
    "?",
    "g",
    "G00000000",
    "pf",
    "p13",
    "Pf=00800040",
    "mc0000000,40",
    "m70000000,4",
    "Mc0000000,4:00000000",
    "Xc0000000,4:abcd",
    "Z0,c0000000,4",
    "z0,c0000000,4",
    "Z0,1000,2",
    "Z1,c0000004,4",
    "Z2,c0000010,4",
    "Z3,c0000010,100",
    "Z4,c0000010,1000000",
    "z3,c0000010,100",
    "c",
    "s",
    "bc",
    "bs",
    "vCont?",
    "vCont;c",
    "vCont;c:p1.1",
    "vCont;s:p1.-1",
    "Hg0",
    "Hc-1",
    "T1",
    "D",
    "D;1",
    "k",
    "vKill;1",
    "R00",
    "!",
    "qSupported:multiprocess+;swbreak+;xmlRegisters=i386",
    "qXfer:features:read:target.xml:0,ffb",
    "qXfer:features:read:target.xml:ffffffff,ffffffff",
    "qXfer:exec-file:read:1:0,ffb",
    "vFile:setfs:0",
    "vFile:open:2f6b65726e656c,0,1c0",
    "vFile:pread:1,ffffffff,ffffffffffffffff",
    "vFile:fstat:1",
    "vFile:close:1",
    "qfThreadInfo",
    "qC",
    "qAttached:1",
    "QStartNoAckMode",
    "vMustReplyEmpty",
    // Of the monitor: `physical on`, `catch svc 5`, `break 4 r2 7`.
    "qRcmd,706879736963616c206f6e",
    "qRcmd,6361746368207376632035",
    "qRcmd,627265616b20342072322037",
];

/// A packet as it is, or with bytes that are others, more or fewer; with its checksum, or a wrong one; or no packet.
fn any_packet() -> impl Strategy<Value = Vec<u8>> {
    let change = (0..3u8, any::<Index>(), any::<u8>());
    (0..PACKETS.len(), vec(change, 0..4), 0..12u8, any::<u8>()).prop_map(|(n, changes, kind, byte)| {
        let mut packet = PACKETS[n].as_bytes().to_vec();
        for (change, at, byte) in if kind < 6 { Vec::new() } else { changes } {
            let at = at.index(packet.len().max(1));
            match change {
                0 if at < packet.len() => packet[at] = byte,
                1 => packet.insert(at.min(packet.len()), byte),
                _ => packet.truncate(at),
            }
        }
        let sum = packet.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte));
        let sum = if kind == 11 { byte } else { sum };
        match kind {
            10 => vec![byte],
            9 => vec![3],
            _ => [b"$", &packet[..], format!("#{sum:02x}+").as_bytes()].concat(),
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// Whatever comes, the guest goes on behind it, and can be debugged again.
    #[test]
    fn whatever_a_debugger_says_the_guest_goes_on(packets in vec(any_packet(), 1..40)) {
        let (mut gdb, work) = session();
        gdb.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        for packet in &packets {
            // The session may be over.
            if gdb.write_all(packet).is_err() {
                break;
            }
            // What it says is read, so that it never waits for us.
            while gdb.read(&mut [0; 4096]).is_ok_and(|bytes| bytes != 0) {}
        }
        let _ = gdb.shutdown(std::net::Shutdown::Both);
        let (_, asked, _) = work.join().expect("a session that ends");
        prop_assert_eq!(&asked[asked.len() - 2..], ["detach", "attach"]);
    }
}
