//! A guest under GDB: the real one, from Debian's package `gdb-multiarch`.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use object::{Object, ObjectSymbol};
use rustix::process::{Pid, Signal};
use spica_cli::debugger::{self, Guest};
use spica_console::base64;
use spica_kallsyms::Symbol;
use spica_runner::error::Result;
use spica_runner::project::Project;
use spica_tests::Machine;
use spica_tests::several::{Board, Part};

/// GDB waits for answers as long as tests wait for anything: a machine that is busy takes its time.
const PATIENCE: &str = "set remotetimeout 600";

/// A board whose guest `it` can be debugged, and the port for that; and that of the guest `user`.
struct Debugged {
    board: Board,
    run: String,
    port: u16,
    user_port: u16,
    /// Those who serve at these ports.
    servers: [JoinHandle<Result<()>>; 2],
}

impl Debugged {
    fn start() -> Debugged {
        let parts = [
            Part::new("it", "debugged", &[]),
            Part::new("other", "sleep", &[125_000, 1 << 30, 0]),
            Part::new("watched", "watched", &[]).with("rng", "true"),
            Part::new("user", "userland", &[]),
        ];
        let mut board = Board::start_with(Machine::Cubieboard, &parts, false, "spica.halt");
        let run = board.serve();
        let [(port, it), (user_port, user)] = ["it", "user"].map(|guest| serve(&run, guest));
        Debugged { board, run, port, user_port, servers: [it, user] }
    }

    /// The address of a symbol of the guest's.
    #[track_caller]
    fn address_of(&self, name: &str) -> u64 {
        self.address_in("it", name)
    }

    /// The same, of another guest.
    #[track_caller]
    fn address_in(&self, guest: &str, name: &str) -> u64 {
        let bytes = std::fs::read(self.board.symbols(guest)).expect("the guest");
        let file = object::File::parse(&*bytes).expect("an ELF file");
        file.symbols().find(|symbol| symbol.name() == Ok(name)).expect(name).address()
    }

    /// Has GDB obey `commands` behind `target remote`, and gives what it printed.
    #[track_caller]
    fn gdb(&mut self, commands: &[&str]) -> String {
        self.gdb_while(commands, |_, _| ())
    }

    /// The same, with something done again and again meanwhile, to the board or to GDB's process.
    #[track_caller]
    fn gdb_while(&mut self, commands: &[&str], meanwhile: impl FnMut(&mut Board, Pid)) -> String {
        self.gdb_of(("it", self.port), commands, meanwhile)
    }

    /// The same, of this guest, at this port.
    #[track_caller]
    fn gdb_of(
        &mut self,
        (guest, port): (&str, u16),
        commands: &[&str],
        mut meanwhile: impl FnMut(&mut Board, Pid),
    ) -> String {
        let mut gdb = Command::new("gdb-multiarch");
        gdb.args(["-nx", "-batch", "-ex", "set architecture arm", "-ex", "set confirm off"]);
        gdb.args(["-ex", PATIENCE]);
        gdb.args(["-ex", &format!("target remote :{port}")]);
        gdb.args(commands.iter().flat_map(|command| ["-ex", command]));
        gdb.arg(self.board.symbols(guest)).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let gdb = gdb.spawn().expect("gdb-multiarch");
        let id = Pid::from_child(&gdb);
        let work = thread::spawn(move || gdb.wait_with_output().expect("GDB's output"));
        self.board.poll("GDB", |board| {
            meanwhile(board, id);
            work.is_finished()
        });
        let output = work.join().expect("GDB");
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        eprintln!("{text}");
        text
    }
}

/// Serves debuggers of a guest of the board of that name: the port, and who serves there until the board ends.
fn serve(run: &str, guest: &'static str) -> (u16, JoinHandle<Result<()>>) {
    let listener = debugger::listen(0).expect("a port");
    let port = listener.local_addr().expect("its number").port();
    let run = run.to_string();
    let server = thread::spawn(move || {
        let project = Project::find(None).expect("the project");
        let attach = || Guest::attach(&project, Some(&run), Some(guest));
        debugger::over_tcp(listener, attach, &mut |line| eprintln!("{line}"))
    });
    (port, server)
}

/// What real systems do: a module is loaded, processes take turns, a program is stopped behind its system call and
/// stepped. `names` are those of the kernel of a guest on the board `run`, whose shell does all that in a loop.
pub fn debian_is_debugged(run: &str, names: &[Symbol]) {
    let file = spica_kallsyms::elf::write(names).expect("a file");
    let listener = debugger::listen(0).expect("a port");
    let port = listener.local_addr().expect("its number").port();
    let said = Arc::new(Mutex::new(String::new()));
    let (run, text) = (run.to_string(), said.clone());
    thread::spawn(move || {
        let project = Project::find(None).expect("the project");
        let attach = || Ok(Guest::attach(&project, Some(&run), None)?.with_symbols(file.clone()));
        let _ = debugger::over_tcp(listener, attach, &mut |line| *text.lock().expect("a text") += &format!("{line}\n"));
    });
    let commands = [
        // Not that one, and then that one.
        "monitor catch module tun",
        "monitor catch module loop dummy",
        "continue",
        "info symbol $pc",
        "x/s $r0 + 12",
        "monitor uncatch module",
        "monitor catch ttbr",
        "continue",
        "p $a = $ttbr0",
        "continue",
        "p $a != $ttbr0",
        "monitor uncatch ttbr",
        "monitor catch svc 4",
        "continue",
        "monitor uncatch svc",
        "p $spsr_svc >> 5 & 1",
        "set arm fallback-mode thumb",
        "break *$lr_svc",
        "continue",
        "p/x $cpsr & 0x3f",
        "p (int)$r0 > 0",
        "stepi 20",
        "continue",
        "p/x $cpsr & 0x3f",
        "delete",
        "detach",
    ];
    let mut gdb = Command::new("gdb-multiarch");
    gdb.args(["-nx", "-batch", "-ex", "set architecture arm", "-ex", PATIENCE]);
    gdb.args(["-ex", &format!("target remote :{port}")]);
    gdb.args(commands.iter().flat_map(|command| ["-ex", command])).stdin(Stdio::null());
    let output = gdb.output().expect("gdb-multiarch");
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    eprintln!("{text}");
    in_order(
        &text,
        &[
            "SIGTRAP",
            "do_init_module in section",
            "\"dummy\"",
            "SIGTRAP",
            "SIGTRAP",
            "= 1",
            "SIGTRAP",
            "= 1",
            "Breakpoint 1, 0x",
            "= 0x30",
            "= 1",
            "Breakpoint 1, 0x",
            "= 0x30",
            "detached",
        ],
    );
    let said = said.lock().expect("a text");
    in_order(
        &said,
        &["has loaded the module dummy", "has changed TTBR0 from 0x", "takes a system call (SVC), number 4"],
    );
    assert_eq!(said.matches("has loaded").count(), 1, "{said}");
}

/// Whether the pieces are in a text, one behind the other.
#[track_caller]
fn in_order(text: &str, pieces: &[&str]) {
    let mut rest = text;
    for piece in pieces {
        let Some((_, behind)) = rest.split_once(piece) else { panic!("no {piece:?} in\n{rest}\nof\n{text}") };
        rest = behind;
    }
}

/// A packet of GDB's protocol.
fn packet(text: &str) -> Vec<u8> {
    let sum = text.bytes().fold(0u8, u8::wrapping_add);
    format!("${text}#{sum:02x}").into_bytes()
}

/// What `spica symbols` asks, of a guest that stands.
fn memory_is_searched_and_dumped(board: &mut Board) {
    let pattern = b"0\x001\x002\x003\x004\x005\x006\x007\0";
    let digits: String = pattern.iter().map(|byte| format!("{byte:02x}")).collect();
    // Over the end of a page, and of what is searched at once.
    board.tell(&format!("debug it write pa 40203ff8 {digits}"));
    assert_eq!(board.tell(&format!("debug it find 40100000 400000 {digits}")), ["found 40203ff8"]);
    for (from, bytes) in [(0x4010_0000, 0x10_3ff8), (0x4020_3ff9, 0x1000), (0x7000_0000, 0x40_0000)] {
        assert!(board.tell(&format!("debug it find {from:x} {bytes:x} {digits}")).is_empty(), "{from:x}");
    }
    let dump = |lines: Vec<String>| -> Vec<u8> {
        let bytes =
            lines.iter().map(|line| base64::decode(line.strip_prefix("memory ").expect("memory")).expect("bytes"));
        bytes.flatten().collect()
    };
    let bytes = dump(board.tell("debug it dump 40203ff0 2000"));
    assert_eq!((bytes.len(), &bytes[8..24]), (0x2000, &pattern[..]));
    assert!(dump(board.tell("debug it dump 70000000 10000")).is_empty());
}

/// What is accessed is seen by whoever accesses it; what lies beside it is not; and the guest sees nothing of it all.
fn memory_is_watched(it: &mut Debugged) {
    let (word, range, lock) = (0x4020_0000, 0x4020_0100, 0x4020_1200);
    let at = |name: &str| it.address_in("watched", name) as u32;
    let k_check = at("k_check") + 4;
    let (k_store, k_load, k_multiple) = (at("k_store") + 4, at("k_load") + 4, at("k_multiple") + 4);
    let (u_store, u_load, t_store) = (at("u_store") + 4, at("u_load") + 4, at("t_store") + 2);
    let board = &mut it.board;
    board.tell("resume watched");
    board.show(Some("watched"));
    board.line("watched", "up", 1);
    board.tell("debug watched attach");
    let stand = |board: &mut Board| {
        board.tell("debug watched halt");
        assert!(board.tell("debug watched wait")[0].starts_with("halted"));
    };
    stand(board);
    for wrong in ["watch x 40200000 4", "watch w 40200000 100001", "watch w 70000000 4", "unwatch w 40200000 4"] {
        assert!(board.ask(&format!("debug watched {wrong}")).is_err(), "{wrong}");
    }
    let mut rounds = 0;
    // Each place where the guest stands in a round, and then its end.
    let mut round = |board: &mut Board, watches: &[(char, u32, u32)], places: &[(u32, char, u32)]| {
        for (kind, address, bytes) in watches {
            board.tell(&format!("debug watched watch {kind} {address:x} {bytes:x}"));
        }
        board.tell("debug watched go");
        board.type_keys("a");
        for (pc, kind, address) in places {
            let halted = board.tell("debug watched wait");
            assert_eq!(halted, [format!("halted {pc:x} watch {kind} {address:x}")]);
            board.tell("debug watched go");
        }
        rounds += 1;
        board.line("watched", "done", rounds);
        stand(board);
        for (kind, address, bytes) in watches {
            board.tell(&format!("debug watched unwatch {kind} {address:x} {bytes:x}"));
        }
    };
    let writes = [(k_store, 'w', word), (u_store, 'w', word), (t_store, 'w', word)];
    round(board, &[('w', word, 4)], &writes);
    round(board, &[('w', word, 2)], &writes);
    round(board, &[('w', word + 2, 2)], &writes[..2].iter().map(|it| (it.0, 'w', word + 2)).collect::<Vec<_>>());
    round(board, &[('w', range + 4, 8)], &[(k_multiple, 'w', range + 4)]);
    round(board, &[('r', range, 16)], &[]);
    round(board, &[('a', range + 15, 1)], &[(k_multiple, 'a', range + 15)]);
    // Two of a page, and one that lies in two pages.
    round(
        board,
        &[('w', range, 4), ('r', word + 1, 1)],
        &[(k_load, 'r', word + 1), (k_multiple, 'w', range), (u_load, 'r', word + 1), (k_check, 'r', word + 1)],
    );
    round(board, &[('w', word - 8, 9)], &writes.map(|it| (it.0, 'w', word - 8))[..2]);
    // Nobody watches any more.
    round(board, &[], &[]);

    // An exclusive access is let through, in one go with what has led to it, and seen a little later.
    for kind in ['w', 'a'] {
        board.tell(&format!("debug watched watch {kind} {lock:x} 4"));
        board.tell("debug watched go");
        board.type_keys("a");
        let halted = board.tell("debug watched wait").remove(0);
        assert!(halted.ends_with(&format!("watch {kind} {lock:x}")), "{halted}");
        board.tell(&format!("debug watched unwatch {kind} {lock:x} 4"));
        board.tell("debug watched go");
        rounds += 1;
        board.line("watched", "done", rounds);
        stand(board);
    }
    // So it is among many pages, of which others are as ever; more there cannot be.
    let (start, bytes) = (lock & !0xfff, 0x10_0000);
    board.tell(&format!("debug watched watch w {start:x} {bytes:x}"));
    let many = board.ask(&format!("debug watched watch w {word:x} 4")).expect_err("one more");
    assert!(many.contains("too many watchpoints: 256"), "{many}");
    board.tell("debug watched go");
    board.type_keys("a");
    let halted = board.tell("debug watched wait").remove(0);
    assert!(halted.ends_with(&format!("watch w {start:x}")), "{halted}");
    board.tell(&format!("debug watched unwatch w {start:x} {bytes:x}"));
    board.tell("debug watched go");
    rounds += 1;
    board.line("watched", "done", rounds);
    stand(board);
    // What a device writes is seen, in a page that user and kernel code have as well, and beside what is watched it is
    // not; so is the ring where it says so. What it reads is not.
    let (buffer, used) = (0x4020_2000, 0x4021_2000);
    let device_rounds: [(char, u32, u32, bool); 5] = [
        ('w', buffer, 4, true),
        ('a', buffer + 15, 1, true),
        ('w', buffer + 16, 4, false),
        ('w', used + 2, 2, true),
        ('r', buffer, 16, false),
    ];
    for (kind, address, bytes, seen) in device_rounds {
        board.tell(&format!("debug watched watch {kind} {address:x} {bytes:x}"));
        board.tell("debug watched go");
        board.type_keys("d");
        if seen {
            let halted = board.tell("debug watched wait").remove(0);
            assert!(halted.ends_with(&format!(" watch {kind} {address:x}")), "{halted}");
            board.tell(&format!("debug watched unwatch {kind} {address:x} {bytes:x}"));
            board.tell("debug watched go");
        }
        rounds += 1;
        board.line("watched", "done", rounds);
        stand(board);
        if !seen {
            board.tell(&format!("debug watched unwatch {kind} {address:x} {bytes:x}"));
        }
    }
    // It has the bytes.
    assert_ne!(board.tell(&format!("debug watched read pa {buffer:x} 10")), [format!("memory {}", "0".repeat(32))]);
    // What is watched is forgotten with the debugger.
    for n in 0..20 {
        board.tell(&format!("debug watched watch w {:x} 4", word + 4 * n));
    }
    board.tell("debug watched detach");
    for n in 1..3 {
        board.type_keys("a");
        board.line("watched", "done", rounds + n);
    }
    assert!(!board.console("watched").contains("wrong"), "{}", board.console("watched"));
    board.tell("stop watched");
    board.show(None);
}

/// Breakpoints and single steps in user code, A32 and T32, of two processes that have a page of code in common, another
/// program each at the same address, and code that comes on demand (`tests/bare/userland.S`).
fn user_code_is_debugged(it: &mut Debugged) {
    let user = ("user", it.user_port);
    let text = it.gdb_of(
        user,
        &[
            // The kernel is about to run the first process, which has all of its code but what comes on demand.
            "tbreak in_space",
            "continue",
            "break *0x50000004",
            "break *0x50001004",
            "break *0x50002004",
            "p/x $ttbr0",
            "continue",
            "p/x $cpsr & 0x3f",
            // Nobody sees the breakpoint.
            "x/i $pc",
            "p *(int *)0x50000004 == *(int *)((char *)&shared + 4)",
            // Over the breakpoint, a literal, what nobody interprets, and a branch.
            "stepi",
            "p/x $pc",
            "stepi",
            "p $r1",
            "stepi",
            "p $r2",
            "stepi",
            "p/x $pc",
            "continue",
            "continue",
            "stepi",
            "p/x $r0",
            // The other process has the first page as well, and other programs at the other addresses.
            "continue",
            "p/x $ttbr0",
            "delete 2",
            "continue",
            "p/x $ttbr0",
            // Its code comes from elsewhere now.
            "continue",
            "p/x $ttbr0",
            "delete",
            // T32: in an IT block, of four bytes, under a condition.
            "set arm fallback-mode thumb",
            "break *0x50000044",
            "break *0x50000048 if $r0 == 9",
            "continue",
            "p/x $cpsr & 0x3f",
            "stepi",
            "p $r0",
            "stepi",
            "p/x $pc",
            "continue",
            "delete 5",
            "continue",
            "stepi",
            "p $r1",
            "stepi",
            "p $r0",
            "stepi",
            "p/x $pc",
            "stepi",
            "info symbol $pc",
            "set arm fallback-mode arm",
            // Where kernel and user code live together; a system call.
            "delete",
            "hbreak *&work",
            "tbreak *&work_ends",
            "continue",
            "stepi",
            "info symbol $pc",
            "continue",
            "delete",
            // Changes of address space: any, and one.
            "monitor catch ttbr",
            "continue",
            "p $old = $ttbr0",
            "continue",
            "p $old != $ttbr0",
            "monitor catch ttbr 40384000",
            "continue",
            "p/x $ttbr0",
            "continue",
            "p/x $ttbr0",
            "monitor uncatch ttbr",
            // A condition that never holds costs time, and nothing else.
            "break *0x50000004 if $r0 == 77",
            "tbreak leave",
            "continue",
            "detach",
        ],
        |_, _| (),
    );
    in_order(
        &text,
        &[
            "Temporary breakpoint 1, ",
            "in_space ()",
            "$1 = 0x40300000",
            "Breakpoint 2, 0x50000004",
            "$2 = 0x10",
            "add\tr0, r0, #2",
            "$3 = 1",
            "$4 = 0x50000008",
            "$5 = 5",
            "$6 = 25",
            "$7 = 0x50000018",
            "Breakpoint 3, 0x50001004",
            "Breakpoint 4, 0x50002004",
            "$8 = 0x47",
            "Breakpoint 2, 0x50000004",
            "$9 = 0x40384000",
            "Breakpoint 3, 0x50001004",
            "$10 = 0x40300000",
            "Breakpoint 4, 0x50002004",
            "$11 = 0x40300000",
            "Breakpoint 5, 0x50000044",
            "$12 = 0x30",
            "$13 = 9",
            "$14 = 0x50000048",
            "Breakpoint 5, 0x50000044",
            "Breakpoint 6, 0x50000048",
            "$15 = 7",
            "$16 = 16",
            "$17 = 0x50000050",
            "work + 20",
            "Temporary breakpoint 8, ",
            "in work_ends ()",
            "own_vectors + 8",
            "Breakpoint 7, ",
            "in work ()",
            "SIGTRAP",
            "$18 = ",
            "SIGTRAP",
            "$19 = 1",
            "SIGTRAP",
            "$20 = 0x40384000",
            "SIGTRAP",
            "$21 = 0x40384000",
            "Temporary breakpoint 10, ",
            "in leave ()",
            "detached",
        ],
    );
    // It goes on at its own pace.
    assert_ne!(it.board.state("user"), "paused");
    let calls = it.board.counters("user")["trap.system-call"];
    it.board.poll("rounds without a debugger", |board| board.counters("user")["trap.system-call"] > calls + 100);
    it.gdb_of(user, &["set var *(int *)&go_on = 0", "detach"], |_, _| ());
    let line = it.board.line("user", " rounds=", 1);
    assert!(line.ends_with(" wrong=00000000"), "{line}");
}

/// A checkpoint, and back to it twice: the guest is what it was, GDB knows it, and all stops are as they were.
fn it_goes_back(it: &mut Debugged) {
    let text = it.gdb(&[
        "tbreak work",
        "continue",
        // There is none yet.
        "reverse-continue",
        "set var *(int *)&rounds = 0x3000",
        "monitor checkpoint",
        "break *0x40208000",
        "monitor catch svc",
        "continue",
        "p/x *(int *)&rounds",
        "continue",
        "reverse-continue",
        "p/x *(int *)&rounds",
        "info symbol $pc",
        "p $r0 == (int)&rounds",
        "continue",
        "p/x *(int *)&rounds",
        "continue",
        "awatch *(int *)&rounds",
        "reverse-continue",
        "continue",
        "info symbol $pc",
        "monitor uncatch svc",
        "delete",
        "detach",
    ]);
    in_order(
        &text,
        &[
            "Temporary breakpoint 1, ",
            "SIGSTOP",
            "Breakpoint 2, 0x40208000",
            "$1 = 0x3001",
            "SIGTRAP",
            "in own_vectors ()",
            "No more reverse-execution history",
            " in work ()",
            "$2 = 0x3000",
            "work + 8 in section",
            "$3 = 1",
            "Breakpoint 2, 0x40208000",
            "$4 = 0x3001",
            "SIGTRAP",
            "in own_vectors ()",
            "No more reverse-execution history",
            " in work ()",
            "Hardware access (read/write) watchpoint 3: *(int *)&rounds",
            "Old value = 12289",
            "New value = 12288",
            "work + 12 in section",
            "detached",
        ],
    );
    assert!(text.contains(" pages of memory: `reverse-continue` goes back to it"), "{text}");
}

/// T32 code of the kernel: breakpoints in front of an IT block, in it and behind it, one under a condition, single
/// steps.
fn t32_code_of_the_kernel_is_debugged(it: &mut Debugged) {
    let text = it.gdb(&[
        "delete",
        "break *&thumb_work",
        "continue",
        "p/x $cpsr & 0x3f",
        "p/x *(short *)$pc",
        "stepi",
        "p $r0",
        "stepi",
        "stepi",
        "stepi",
        "p $r0",
        // ITSTATE (B1.3.3): bits 7 to 2 of it, and bits 1 and 0.
        "p $cpsr >> 8 & 0xfc | $cpsr >> 25 & 3",
        "info symbol $pc",
        "delete",
        // In the middle of what was one block.
        "tbreak *&thumb_in_it",
        "continue",
        "info symbol $pc",
        "p $r0",
        "tbreak *&thumb_end if $r0 == 6",
        "tbreak *&thumb_end if $r0 == 7",
        "continue",
        "p $r0",
        "finish",
        "p/x $cpsr & 0x20",
        "delete",
        "detach",
    ]);
    in_order(
        &text,
        &[
            "Breakpoint 1, ",
            " in thumb_work ()",
            "$1 = 0x33",
            "$2 = 0x2003",
            "$3 = 3",
            "$4 = 8",
            "$5 = 12",
            "thumb_in_it in section",
            "Temporary breakpoint 2, ",
            "thumb_in_it in section",
            "$6 = 8",
            "Temporary breakpoint 4, ",
            " in thumb_end ()",
            "$7 = 7",
            " in go_round ()",
            "$8 = 0x0",
            "detached",
        ],
    );
}

/// Conditions that the board evaluates, in code of both states: registers have one of some values.
fn conditions_are_the_boards(it: &mut Debugged) {
    let [call, end] = ["call", "thumb_end"].map(|name| it.address_of(name) as u32 & !1);
    let text = it.gdb(&[
        "delete",
        &format!("monitor break {call:#x} r0 1 0x54"),
        &format!("monitor break {:#x} r0 6", end | 1),
        "tbreak work",
        "continue",
        "tbreak work",
        // Past both, twice.
        "continue",
        &format!("monitor break {:#x} r0 6 7", end | 1),
        "continue",
        "info symbol $pc",
        &format!("monitor unbreak {:#x}", end | 1),
        // In place of the one that there was.
        &format!("monitor break {call:#x} r0 0x66 0x55"),
        "continue",
        "info symbol $pc",
        &format!("monitor unbreak {call:#x}"),
        "tbreak work",
        "continue",
        "detach",
    ]);
    in_order(
        &text,
        &[
            "Temporary breakpoint 1, ",
            "Temporary breakpoint 2, ",
            "SIGTRAP",
            "thumb_end in section",
            "SIGTRAP",
            "call in section",
            "Temporary breakpoint 3, ",
            "detached",
        ],
    );
}

/// LLDB finds its way as well: registers by our description, memory, breakpoints, steps, watchpoints.
#[test]
#[ignore = "LLDB, for which `./spica test --all` installs 100 MB"]
fn lldb_debugs_a_guests_kernel() {
    let mut it = Debugged::start();
    it.board.spica("guest it: waits for a debugger", 1);
    let [work, rounds] = ["work", "rounds"].map(|name| it.address_of(name));
    let commands = [
        format!("gdb-remote 127.0.0.1:{}", it.port),
        "register read pc cpsr sctlr d31".to_string(),
        format!("breakpoint set -a {work:#x}"),
        "process continue".to_string(),
        "register read r0".to_string(),
        "thread step-inst".to_string(),
        "breakpoint delete -f".to_string(),
        format!("memory write {rounds:#x} -s 4 0x1000"),
        format!("memory read -s 4 -f x -c 1 {rounds:#x}"),
        format!("watchpoint set expression -w write -s 4 -- {rounds:#x}"),
        "process continue".to_string(),
        "register read r0".to_string(),
        "process detach".to_string(),
    ];
    let mut lldb = Command::new("lldb");
    lldb.arg("--batch").args(commands.iter().flat_map(|command| ["-o", command])).stdin(Stdio::null());
    let lldb = lldb.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("lldb");
    let work_of_lldb = thread::spawn(move || lldb.wait_with_output().expect("LLDB's output"));
    it.board.poll("LLDB", |_| work_of_lldb.is_finished());
    let output = work_of_lldb.join().expect("LLDB");
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    eprintln!("{text}");
    in_order(
        &text,
        &[
            "sctlr = 0x00",
            "stop reason = breakpoint 1.1",
            &format!("r0 = {rounds:#010x}"),
            "instruction step into",
            &format!("{rounds:#x}: 0x00001000"),
            "stop reason = watchpoint 1",
            "r0 = 0x00001001",
            "detached",
        ],
    );
    it.board.poll("rounds without a debugger", |board| board.state("it") != "paused");
}

#[test]
fn gdb_debugs_a_guests_kernel() {
    let mut it = Debugged::start();
    it.board.spica("guest it: waits for a debugger", 1);
    it.board.spica("guest other: waits for a debugger", 1);
    it.board.spica("guest watched: waits for a debugger", 1);
    it.board.spica("guest user: waits for a debugger", 1);
    it.board.tell("resume other");
    memory_is_watched(&mut it);
    user_code_is_debugged(&mut it);

    // From the first instruction on; the MMU is off, and code is written that has a breakpoint already.
    let text = it.gdb(&[
        "p/x $pc",
        "p/x $cpsr",
        "break main",
        "break *0x40208000",
        "continue",
        "p $sctlr & 1",
        "info symbol $lr",
        "continue",
        "p $sctlr & 1",
        "x/i $pc",
        "p *(int *)0x40208000 == *(int *)&late_source",
        "stepi",
        "p/x $r0",
        "bt",
        // An exception, and the return from it.
        "break call",
        "continue",
        "stepi",
        "x/i $pc",
        "stepi",
        "info symbol $pc",
        "stepi",
        "info symbol $pc",
        // What is changed is changed; out of a function, into another one.
        "delete",
        "set var *(int *)&rounds = 0x1000",
        "tbreak work",
        "continue",
        "finish",
        "p/x $r0",
        // While it stands, its clock stands still: half a second is no part of the longest round. A busy machine may
        // take as long for a round itself, but for one of these.
        "set $least = ~0U",
        "set var *(int *)&longest = 0",
        "shell sleep 0.6",
        "tbreak work",
        "continue",
        "set $least = *(unsigned *)&longest < $least ? *(unsigned *)&longest : $least",
        "set var *(int *)&longest = 0",
        "shell sleep 0.6",
        "tbreak work",
        "continue",
        "set $least = *(unsigned *)&longest < $least ? *(unsigned *)&longest : $least",
        "set var *(int *)&longest = 0",
        "shell sleep 0.6",
        "tbreak work",
        "continue",
        "set $least = *(unsigned *)&longest < $least ? *(unsigned *)&longest : $least",
        "p $least > 0 && $least < 500 * 62500",
        // If that is wanted, it runs on.
        "monitor clock runs",
        "set var *(int *)&longest = 0",
        "shell sleep 0.6",
        "monitor clock stands",
        "tbreak work",
        "continue",
        "p *(unsigned *)&longest >= 600 * 62500",
        // Code that is written for it, where other code ran.
        "set var *(int *)0x40208000 = 0xe3a00066",
        "tbreak call",
        "continue",
        "p/x $r0",
        // A word is watched: who writes it is said, with what was there before and what is there then.
        "delete",
        "set var *(int *)&rounds = 0x2000",
        "watch *(int *)&rounds",
        "continue",
        "x/i $pc",
        "continue",
        "delete",
        "awatch *(int *)&go_on",
        "continue",
        "delete",
        "rwatch *(int *)&longest",
        "continue",
        "delete",
        "tbreak call",
        "continue",
        // An exception is caught at its vector.
        "monitor catch svc",
        "continue",
        "x/i $pc",
        "continue",
        // Of system calls, some.
        "monitor catch svc 6 7",
        "set var $r7 = 5",
        "tbreak work",
        "continue",
        "tbreak work",
        "continue",
        "set var $r7 = 7",
        "continue",
        "monitor uncatch svc",
        "monitor physical on",
        "p/x *(int *)&rounds",
        "monitor physical off",
        "p/x *(int *)0x70000000",
        "info registers banked",
        "p $d0 = 1.5",
        "p $d0",
        "detach",
    ]);
    in_order(
        &text,
        &[
            "$1 = 0x40010000",
            "$2 = 0x1d3",
            "Breakpoint 1, 0x4001",
            " in main",
            "$3 = 0",
            "start + ",
            "Breakpoint 2, 0x40208000",
            "$4 = 1",
            "mov\tr0, #85",
            "$5 = 1",
            "$6 = 0x55",
            "Breakpoint 3, ",
            " in call ()",
            "handler>",
            "handler in section",
            "call + 4",
            "Temporary breakpoint 4, ",
            " in go_round ()",
            "$7 = 0x1001",
            "Temporary breakpoint 5, ",
            "Temporary breakpoint 6, ",
            "Temporary breakpoint 7, ",
            "$8 = 1",
            "Temporary breakpoint 8, ",
            "$9 = 1",
            "Temporary breakpoint 9, ",
            "$10 = 0x66",
            "Hardware watchpoint 10: *(int *)&rounds",
            "Hardware watchpoint 10: *(int *)&rounds",
            "Old value = 8192",
            "New value = 8193",
            "<work+20>",
            "Hardware watchpoint 10: *(int *)&rounds",
            "Old value = 8193",
            "New value = 8194",
            "Hardware access (read/write) watchpoint 11: *(int *)&go_on",
            "Value = 1",
            "Hardware read watchpoint 12: *(int *)&longest",
            "Temporary breakpoint 13, ",
            "SIGTRAP",
            "<own_vectors+8>",
            "SIGTRAP",
            "Temporary breakpoint 14, ",
            "Temporary breakpoint 15, ",
            "SIGTRAP",
            "in own_vectors ()",
            "$11 = 0x200",
            "spsr_und",
            "1.5",
            "1.5",
            "detached",
        ],
    );
    for said in ["Cannot access memory at address 0x70000000", "physical ones", "if its number is 6, 7", "clock runs"] {
        assert!(text.contains(said), "{text}");
    }
    assert_ne!(it.board.state("it"), "paused");
    let resets = |board: &mut Board| board.counters("it")["guest.resets"];
    assert_eq!(resets(&mut it.board), 0);

    t32_code_of_the_kernel_is_debugged(&mut it);
    conditions_are_the_boards(&mut it);
    it_goes_back(&mut it);

    // Bytes that are no packets end the session, and the guest goes on.
    let port = it.port;
    let run = it.run.clone();
    let connect = move || TcpStream::connect(("127.0.0.1", port)).expect("a connection");
    for garbage in ["$g#00", "$Z0,;#b0\u{3}$m,#99", "}}}$$#24#"] {
        it.board.meanwhile("the end of a bad connection", move || {
            let mut stream = connect();
            let _ = stream.write_all(garbage.as_bytes());
            let _ = stream.shutdown(Shutdown::Write);
            let _ = stream.read_to_end(&mut Vec::new());
        });
        it.board.poll("it goes on", |board| board.state("it") != "paused");
    }

    // Whoever comes second is refused, at the port and at the board.
    let breakpoint = packet(&format!("Z0,{:x},4", it.address_of("work")));
    let first = it.board.meanwhile("a connection", move || {
        let mut first = connect();
        first.write_all(b"+$?#3f").expect("it listens");
        first.read_exact(&mut [0; 2]).expect("an answer");
        // Its breakpoint goes with it.
        first.write_all(&breakpoint).expect("it listens");
        let (mut answer, mut byte) = (Vec::new(), [0]);
        while !answer.ends_with(b"$OK#") {
            first.read_exact(&mut byte).expect("an answer");
            answer.push(byte[0]);
        }
        first
    });
    assert_eq!(it.board.state("it"), "paused");
    // While it stands, another one goes on.
    let ticks = it.board.counters("other")["guest.interrupts"];
    it.board.poll("the other guest's ticks", |board| board.counters("other")["guest.interrupts"] > ticks + 100);
    assert_eq!(it.board.state("it"), "paused");
    let second = it.board.meanwhile("the end of the second connection", move || connect().read(&mut [0; 16]));
    assert_eq!(second.ok().unwrap_or(0), 0, "hung up");
    let attach = move |guest| {
        let project = Project::find(None).expect("the project");
        Guest::attach(&project, Some(&run), Some(guest)).err().expect("no").message
    };
    let (again, nobody) = it.board.meanwhile("two refusals", move || (attach("it"), attach("nobody")));
    assert_eq!(again, "it has a debugger already");
    assert_eq!(nobody, "no guest is called \"nobody\"; there are it, other, watched, user");

    let refused = it.board.ask("debug it attach").expect_err("no");
    assert_eq!(refused, "it has a debugger already");
    memory_is_searched_and_dumped(&mut it.board);

    // A connection that ends while the guest stands.
    drop(first);
    it.board.poll("it goes on", |board| board.state("it") != "paused");

    // Ctrl-C stops it; a guest that is reset under its debugger comes to the same breakpoints again; and it ends there.
    // GDB goes on when it has been seen that the guest stands, and Ctrl-C comes when it has been seen that it goes on.
    let seen = it.board.symbols("it").with_extension("seen");
    let wait = format!("shell while [ ! -e {} ]; do sleep 0.05; done", seen.display());
    let (mut stood, mut typed) = (false, false);
    let text = it.gdb_while(&["p *(int *)&rounds > 0x1000", &wait, "continue", "detach"], |board, gdb| {
        let stands = board.state("it") == "paused";
        if stands && !stood {
            std::fs::write(&seen, "").expect("a file");
            stood = true;
        } else if !stands && stood && !typed {
            rustix::process::kill_process(gdb, Signal::INT).expect("GDB");
            typed = true;
        }
    });
    in_order(&text, &["$1 = 1", "SIGINT", "detached"]);
    std::fs::remove_file(&seen).expect("the file");
    let (mut stood, mut reset) = (false, false);
    let commands = ["hbreak main", &wait, "continue", "delete", "set var *(int *)&go_on = 0", "continue"];
    let text = it.gdb_while(&commands, |board, _| {
        let stands = board.state("it") == "paused";
        if stands && !stood {
            std::fs::write(&seen, "").expect("a file");
            stood = true;
        } else if !stands && stood && !reset {
            board.tell("reset it");
            reset = true;
        }
    });
    in_order(&text, &["Breakpoint 1, ", " in main", "exited normally"]);
    it.board.spica("guest it: powered off", 1);
    assert_eq!(it.board.line("it", " rounds=", 1), " rounds=00000001");

    // With the board, those end who have waited for more debuggers.
    let Debugged { board, servers, .. } = it;
    drop(board);
    for server in servers {
        let error = server.join().expect("a server").expect_err("the board has ended");
        assert!(error.message.contains("the board"), "{error}");
    }
}
