//! A running board's control socket, from both ends, with a board that is a thread of the test.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::thread::JoinHandle;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};

use super::client::Board;
use super::reply;
use super::server::{Server, Who};
use crate::line::{BAUD, Line};
use crate::project::Project;
use crate::qemu::{Event, Session};

/// A board with two guests, `web` and `db`, of which only `web` prints, and that as fast as it can.
///
/// It understands a part of what Spica's monitor does. What is typed beside that, it echoes.
fn board(mut uart: impl Read + Write) {
    let mut paused = false;
    let mut view = "all".to_string();
    let mut debugger = "none".to_string();
    let mut tracer = "none".to_string();
    let mut input = Vec::new();
    let _ = uart.write_all(b"spica: a board\r\n");
    loop {
        let mut byte = [0];
        if uart.read(&mut byte).unwrap_or(0) == 0 {
            return;
        }
        input.push(byte[0]);
        if input[0] != 0x1e {
            // A guest's echo: no complete line, as the prompt of a shell.
            let _ = uart.write_all(&[&b"web$ "[..], &input].concat());
            input.clear();
            continue;
        }
        if byte[0] != b'\n' {
            continue;
        }
        let line = String::from_utf8(input.split_off(1)).unwrap();
        input.clear();
        let (id, command) = line.trim_end().split_once(' ').unwrap();
        let answer = match command {
            "list" => {
                let state = if paused { "paused" } else { "running" };
                format!("guest 0 web {state} 100 256 750 blocks\nguest 1 db off 50 64 3 in-place\nok")
            }
            "stats" => "stat web traps.svc 7\nstat db traps.svc 0\nok".to_string(),
            "stats web" => "stat web traps.svc 7\nok".to_string(),
            "pause web" if paused => "error web is paused".to_string(),
            "pause web" => {
                paused = true;
                "ok".to_string()
            }
            "log web" => "log login:\nlog\nok".to_string(),
            "console web" | "console all" => {
                view = command.to_string();
                "ok".to_string()
            }
            "debug web attach" | "debug 0 detach" => {
                debugger = command.to_string();
                "ok".to_string()
            }
            "debug db attach" => "error db is off".to_string(),
            // It comes when the guest stands.
            "debug web wait" => continue,
            "trace start" | "trace stop" => {
                tracer = command.to_string();
                "ok".to_string()
            }
            "which tracer" => format!("{tracer}\nok"),
            "which debugger" => format!("{debugger}\nok"),
            "which view" => format!("view {view}\nok"),
            "silence" => continue,
            "end" => return,
            other => format!("error `{other}` is no command: `help` lists them"),
        };
        // In the middle of a guest's line, with what a guest would forge if it could.
        let mut text = "web$ spica: @guess ok\nweb| spica: @".to_string();
        for line in answer.lines() {
            text += &format!("spica: {id} {line}\r\n");
        }
        let _ = uart.write_all(text.as_bytes());
    }
}

/// A run of that board in a directory below `runs`.
struct Run {
    runs: PathBuf,
    session: Option<JoinHandle<(Vec<u8>, Vec<String>)>>,
    stop: UnixStream,
}

impl Run {
    fn start(test: &str, names: &[&str]) -> Vec<Self> {
        // Longer than the address of a socket may be.
        let runs = std::env::temp_dir().join(format!("spica-control-{test}-{}-{:0100}", std::process::id(), 0));
        let _ = fs::remove_dir_all(&runs);
        fs::create_dir_all(runs.join("left-behind")).unwrap();
        fs::write(runs.join("left-behind/control"), "").unwrap();
        let run = |name: &&str| {
            let directory = runs.join(name);
            fs::create_dir_all(&directory).unwrap();
            let guests = vec!["web".to_string(), "db".to_string()];
            let who = Who { run: name.to_string(), board: "cubieboard".to_string(), guests };
            let (ours, theirs) = UnixStream::pair().unwrap();
            std::thread::spawn(move || board(theirs));
            let mut session = Session::over(None, ours.try_clone().unwrap().into(), ours.into(), None, None).unwrap();
            session.serve(Server::open(&directory, who).unwrap());
            let (stop, stopped) = UnixStream::pair().unwrap();
            let session = std::thread::spawn(move || {
                let (mut guest, mut spica) = (Vec::new(), Vec::new());
                loop {
                    match session.next(Some(std::os::fd::AsFd::as_fd(&stopped)), None).unwrap() {
                        Event::Guest(bytes) => guest.extend(bytes),
                        Event::Spica(line) => spica.push(line),
                        Event::Exited(_) | Event::Input(_) => return (guest, spica),
                        _ => {}
                    }
                }
            });
            Run { runs: runs.clone(), session: Some(session), stop }
        };
        names.iter().map(run).collect()
    }

    fn find(&self, wanted: Option<&str>) -> crate::error::Result<Board> {
        Board::find_in(&self.runs, wanted)
    }

    /// Ends the session, and gives what the guests printed and what Spica did.
    fn end(mut self) -> (String, Vec<String>) {
        self.stop.write_all(b"x").unwrap();
        let (guest, spica) = self.session.take().unwrap().join().unwrap();
        (String::from_utf8(guest).unwrap(), spica)
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.runs);
    }
}

#[test]
fn questions_are_answered_and_leave_no_trace() {
    let run = Run::start("ask", &["lab"]).pop().unwrap();
    let mut board = run.find(None).unwrap();
    assert_eq!((board.who.run.as_str(), board.pid), ("lab", std::process::id()));
    assert_eq!(board.who.guests, ["web", "db"]);
    let guests = reply::guests(&board.ask("list").unwrap()).unwrap();
    assert_eq!((guests[0].state.as_str(), guests[1].state.as_str()), ("running", "off"));
    assert_eq!(board.ask("stats").unwrap(), ["stat web traps.svc 7", "stat db traps.svc 0"]);
    let counters = reply::counters(&board.ask("stats web").unwrap()).unwrap();
    assert_eq!(reply::json(&counters), "{\n  \"web\": {\n    \"traps.svc\": 7\n  }\n}\n");
    board.ask("pause web").unwrap();
    assert_eq!(reply::guests(&board.ask("list").unwrap()).unwrap()[0].state, "paused");
    assert_eq!(board.ask("pause web").unwrap_err().message, "web is paused");
    assert_eq!(board.ask("dance").unwrap_err().message, "`dance` is no command: `help` lists them");
    let (guest, spica) = run.end();
    // Seven questions: what the guest printed around their answers is whole.
    assert_eq!(guest, "web$ spica: @guess ok\nweb| spica: @".repeat(7));
    assert_eq!(spica, ["a board"]);
}

#[test]
fn a_command_is_one_line_of_text() {
    let run = Run::start("text", &["lab"]).pop().unwrap();
    let mut board = run.find(None).unwrap();
    for command in ["list\u{1e}@x stop web", "pause w\u{e9}b", &"x".repeat(201)] {
        let error = run.find(None).unwrap().ask(command).unwrap_err().message;
        assert_eq!(error, "a command is up to 200 characters of ASCII");
    }
    board.ask("list").unwrap();
}

#[test]
fn a_console_is_shown_in_another_terminal() {
    let run = Run::start("attach", &["lab"]).pop().unwrap();
    let mut first = run.find(None).unwrap();
    let mut second = run.find(None).unwrap();
    first.ask("attach web").unwrap();
    assert_eq!(second.ask("attach web").unwrap_err().message, "another terminal shows a guest's console already");
    assert_eq!(second.ask("which view").unwrap(), ["view console web"]);
    first.terminal().write_all(b"x").unwrap();
    let mut shown = Vec::new();
    while !shown.ends_with(b"web$ x") {
        let mut buffer = [0; 256];
        let count = first.terminal().read(&mut buffer).unwrap();
        assert_ne!(count, 0, "the board has gone");
        shown.extend(&buffer[..count]);
    }
    drop(first);
    // The view goes back when the terminal has gone, which the run notices some time.
    let goes_back = |_| second.ask("which view").unwrap() == ["view console all"];
    assert!((0..100_000).any(goes_back), "the view stays");
    second.ask("attach web").unwrap();
}

#[test]
fn a_guest_whose_debugger_has_gone_goes_on() {
    let run = Run::start("debug", &["lab"]).pop().unwrap();
    let [mut first, mut waiting, mut second] = [(); 3].map(|()| run.find(None).unwrap());
    let refused = |board: &mut Board, guest: &str| board.ask(&format!("debug {guest} attach")).unwrap_err().message;
    first.ask("debug web attach").unwrap();
    waiting.begin("debug web wait").unwrap();
    assert_eq!(refused(&mut second, "web"), "web has a debugger already");
    assert_eq!(refused(&mut second, "0"), "web has a debugger already");
    assert_eq!(refused(&mut second, "moon"), "no guest `moon`: there are web, db");
    assert_eq!(refused(&mut second, "db"), "db is off");
    // Who has asked in vain, or only waits, takes nothing along.
    drop(second);
    drop(waiting);
    let mut second = run.find(None).unwrap();
    assert_eq!(second.ask("which debugger").unwrap(), ["debug web attach"]);
    drop(first);
    let detached = |_| second.ask("which debugger").unwrap() == ["debug 0 detach"];
    assert!((0..100_000).any(detached), "it stands for ever");
    second.ask("debug web attach").unwrap();
}

#[test]
fn nothing_is_recorded_for_whoever_has_gone() {
    let run = Run::start("trace", &["lab"]).pop().unwrap();
    let [mut first, mut second] = [(); 2].map(|()| run.find(None).unwrap());
    first.ask("trace start").unwrap();
    let refused = second.ask("trace start").unwrap_err().message;
    assert_eq!(refused, "what this board's guests do is recorded for somebody else already");
    // Nor does anybody read it, or end it, but for whom it is.
    for command in ["trace read", "trace stop"] {
        assert_eq!(second.ask(command).unwrap_err().message, "what is recorded is for somebody else");
    }
    drop(second);
    let mut second = run.find(None).unwrap();
    assert_eq!(second.ask("which tracer").unwrap(), ["trace start"]);
    drop(first);
    let stopped = |_| second.ask("which tracer").unwrap() == ["trace stop"];
    assert!((0..100_000).any(stopped), "it is recorded for ever");
    second.ask("trace start").unwrap();
    second.ask("trace stop").unwrap();
    run.find(None).unwrap().ask("trace start").unwrap();
}

#[test]
fn of_several_runs_one_is_chosen() {
    let runs = Run::start("several", &["lab", "field"]);
    let run = &runs[0];
    assert_eq!(run.find(Some("field")).unwrap().who.run, "field");
    let pid = std::process::id();
    // Both are in the process of this test, so the order is not defined.
    let error = run.find(None).unwrap_err().message;
    assert!(error.starts_with("2 boards are running: ") && error.ends_with("--run NAME or --run PID"), "{error}");
    assert!(error.contains(&format!("field (process {pid}, cubieboard: web, db)")), "{error}");
    assert!(error.contains(&format!("lab (process {pid}, cubieboard: web, db)")), "{error}");
    let error = run.find(Some("moon")).unwrap_err().message;
    assert!(error.starts_with("no run is called \"moon\"; running: "), "{error}");
}

#[test]
fn no_board_runs() {
    let runs = std::env::temp_dir().join("spica-control-nothing-is-here");
    let error = Board::find_in(&runs, None).unwrap_err().message;
    assert_eq!(error, "no board is running; `spica run` starts one, in another terminal");
    let error = Board::find_in(&runs, Some("lab")).unwrap_err().message;
    assert_eq!(error, "no board is running; `spica run` starts one, in another terminal");
}

#[test]
fn a_board_that_ends_is_said() {
    let run = Run::start("end", &["lab"]).pop().unwrap();
    let mut board = run.find(None).unwrap();
    let error = board.ask("end").unwrap_err().message;
    assert_eq!(error, "the board was switched off before it had answered");
}

#[test]
fn who_leaves_does_not_disturb_the_others() {
    let run = Run::start("leave", &["lab"]).pop().unwrap();
    let mut silent = run.find(None).unwrap();
    silent.terminal().write_all(b"silence\n").unwrap();
    drop(silent);
    assert_eq!(run.find(None).unwrap().ask("list").unwrap().len(), 2);
}

/// A pseudo terminal is a serial line: at its other end is the board.
#[test]
fn a_board_at_a_serial_line_is_one_like_others() {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY;
    let uart = openpt(flags).unwrap();
    grantpt(&uart).unwrap();
    unlockpt(&uart).unwrap();
    let path = ptsname(&uart, Vec::new()).unwrap().into_string().unwrap();
    // What the board prints first is not to be echoed to it.
    let mut modes = tcgetattr(&uart).unwrap();
    modes.make_raw();
    tcsetattr(&uart, OptionalActions::Now, &modes).unwrap();
    std::thread::spawn(move || board(File::from(uart)));
    let project = Project::find(None).unwrap();
    let label = format!("line-{}", std::process::id());
    let mut line = Line::attach(&project, path.as_ref(), BAUD, Some(&label), None).unwrap();
    assert_eq!(line.guests, ["web", "db"]);
    let second = Line::attach(&project, path.as_ref(), BAUD, None, None).unwrap_err();
    assert!(second.message.ends_with("somebody else uses the line"), "{second}");
    let session = std::thread::spawn(move || {
        let mut printed = String::new();
        loop {
            match line.session.next(None, None).unwrap() {
                Event::Spica(line) => printed += &line,
                Event::Exited(_) => return printed,
                _ => {}
            }
        }
    });
    let mut client = Board::find(&project, Some(&label)).unwrap();
    assert_eq!((client.who.board.as_str(), client.who.guests.len()), (path.as_str(), 2));
    client.ask("pause web").unwrap();
    assert_eq!(reply::guests(&client.ask("list").unwrap()).unwrap()[0].state, "paused");
    assert!(client.ask("end").is_err());
    // What it had printed before anybody was served is not lost.
    assert_eq!(session.join().unwrap(), "a board");
}
