//! Timelines of guests on emulated boards, and the page in a browser: Debian's package `chromium-headless-shell`.

use std::cell::Cell;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use spica_bundle::MAX_GUESTS;
use spica_cli::tracer::{End, Tracer};
use spica_console::base64;
use spica_runner::bare;
use spica_runner::board;
use spica_runner::control::client::Board as Running;
use spica_runner::exec::{Script, exec};
use spica_runner::prepare::{Request, prepare};
use spica_runner::project::{HOME_VARIABLE, Project, create_dir};
use spica_tests::Machine;
use spica_tests::several::{BLANK, Board, Part};
use spica_trace::{Recording, Row, Subject, Timeline, page};
use spica_trace_ring::record::{LOST, Record, SYSTEM_CALL};
use spica_trace_ring::wire;

use crate::install;

/// A run of this process's, once it can be asked.
fn running(run: &str) -> Running {
    Running::find(&Project::find(None).expect("the project"), Some(run)).expect("the board")
}

/// The row of a guest's of which the name begins so.
#[track_caller]
fn row<'a>(timeline: &'a Timeline, guest: usize, name: &str) -> &'a Row {
    let rows = timeline.rows.get(&Subject::Guest(guest)).expect("rows");
    let names = || rows.iter().map(|row| row.name.as_str()).collect::<Vec<_>>();
    rows.iter().find(|row| row.name.starts_with(name)).unwrap_or_else(|| panic!("no {name:?} in {:?}", names()))
}

/// How many spans of a row have this name.
fn count(row: &Row, name: &str) -> usize {
    row.spans.iter().filter(|span| span.name == name).count()
}

/// What a browser makes of a page: its elements.
#[track_caller]
fn in_a_browser(page: &str) -> String {
    let project = Project::find(None).expect("the project");
    let file = project.build(&format!("test-{}-timeline.html", std::process::id()));
    fs::write(&file, page).expect("a file");
    let mut browser = Command::new("chromium-headless-shell");
    browser.args(["--no-sandbox", "--disable-gpu", "--virtual-time-budget=5000", "--dump-dom"]);
    let output = browser.arg(format!("file://{}", file.display())).output().expect("chromium-headless-shell");
    let _ = fs::remove_file(&file);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// The `spica` command, under way. Ctrl-C ends it, also where whoever runs the tests ignores that, as a shell does for
/// what it runs in the background.
fn spica(project: &Project, arguments: &[&str]) -> Child {
    let mut command = Command::new("env");
    command.arg("--default-signal=INT").arg(install::command(project));
    command.args(arguments).env(HOME_VARIABLE, project.root()).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the command")
}

/// Presses Ctrl-C.
fn interrupt(child: &Child) {
    let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(kill.expect("kill").success());
}

/// How many spans a file has of this name.
#[track_caller]
fn count_in(file: &Path, name: &str) -> usize {
    let text = fs::read_to_string(file).expect("a file");
    assert!(text.starts_with("{\"displayTimeUnit\"") && text.ends_with("]}\n"), "it is not complete");
    text.lines().filter(|line| line.contains(&format!("\"ph\":\"X\",\"name\":\"{name}\""))).count()
}

/// A sleeper, a guest with a disk, perhaps one that never waits, and as many more as a board has at most, while they
/// are recorded: there is memory for that, however many there are.
fn live_guests(machine: Machine, spins: bool) -> (Board, String, Recording) {
    let idle: Vec<_> = (0..MAX_GUESTS).map(|n| format!("idle{n}")).collect();
    let mut parts = vec![
        Part::new("sleeper", "sleep", &[250_000, 1 << 30, 0]),
        Part::new("writer", "disk", &[64]).with("disks", &format!("[{{ file = \"{BLANK}\" }}]")),
    ];
    if spins {
        parts.push(Part::new("spinner", "spin", &[1, 1 << 20, 1 << 21]));
    }
    let more = MAX_GUESTS - parts.len();
    parts.extend(idle[..more].iter().map(|name| Part::new(name, "end", &[0, 3])));
    let mut board = Board::start(machine, &parts, false);
    let run = board.serve();
    board.line("sleeper", "up", 1);
    board.line("writer", "up", 1);
    let name = run.clone();
    let start = thread::spawn(move || Tracer::start(running(&name)));
    board.poll("the recording", |_| start.is_finished());
    let mut tracer = start.join().expect("a thread").expect("a recording");
    assert!(board.ask("trace start").is_err(), "it is recorded for two");
    board.tell("console writer");
    board.type_keys("w");
    let until = Instant::now() + Duration::from_millis(500);
    let work = thread::spawn(move || (tracer.record(Some(until), &|| false), tracer.into_recording()));
    board.poll("the end of the recording", |_| work.is_finished());
    let (end, recording) = work.join().expect("a recording");
    assert_eq!(end, End::Time);
    (board, run, recording)
}

fn live_guests_are_recorded(machine: Machine, spins: bool) {
    let (mut board, run, recording) = live_guests(machine, spins);
    let timeline = Timeline::new(&recording, None);

    let processor = &timeline.rows[&Subject::Board][0];
    for name in ["sleeper", if spins { "spinner" } else { "idle" }] {
        assert!(count(processor, name) > 10, "{name}: {} times", count(processor, name));
    }
    assert_eq!(timeline.lost, 0);
    assert!(processor.spans.windows(2).all(|pair| pair[0].end <= pair[1].begin), "two have the processor");
    // Each tick of the timer: its line, its handler; the sleeper waits in between.
    let ticks = row(&timeline, 0, "interrupt 2");
    let (raised, handled) = (count(ticks, "raised"), count(ticks, "handler"));
    assert!(handled > 10 && raised.abs_diff(handled) <= 1, "{raised} raised, {handled} handled");
    let around = |name: &'static str| ticks.spans.iter().filter(move |span| span.name == name);
    assert!(around("raised").filter(|span| span.begin < span.end).count() > 10, "no time since the timer was due");
    for (raised, handler) in around("raised").zip(around("handler")) {
        assert_eq!(raised.end, handler.begin, "a handler begins when its line has been seen");
    }
    let traps = row(&timeline, 0, "Spica");
    // One more or less at either end of the recording.
    assert!(count(traps, "interrupt controller read") + 1 >= handled && count(traps, "WFI") > 10);
    // The disk: its driver notifies it, and it works.
    let virtio = row(&timeline, 1, "virtio");
    assert!(virtio.points.iter().filter(|point| point.name == "driver notifies virtio 0").count() >= 64);
    assert!(count(virtio, "devices work") >= 64);
    if spins {
        assert!(count(row(&timeline, 2, "Spica"), "host interrupt") > 10);
    }

    // The command, which Ctrl-C ends long before its time; then it is recorded for nobody.
    let project = Project::find(None).expect("the project");
    board.tell("trace read");
    assert_eq!(board.tell("trace read"), [] as [&str; 0], "something is recorded for nobody");
    let file = project.build(&format!("test-{run}.json"));
    let text = file.display().to_string();
    let trace = spica(&project, &["trace", "--run", &run, "--guest", "sleeper", "--for", "60m", "--output", &text]);
    board.poll("the command's recording", |board| !board.tell("trace read").is_empty());
    let until = Instant::now() + Duration::from_millis(200);
    board.poll("some records", |_| Instant::now() > until);
    interrupt(&trace);
    let work = thread::spawn(move || trace.wait_with_output().expect("an end"));
    board.poll("the command's end", |_| work.is_finished());
    let output = work.join().expect("an end");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && said.contains("spica: stopped after "), "{} {said}", output.status);
    assert!(count_in(&file, "handler") > 10 && count_in(&file, "devices work") == 0, "not what the sleeper did");
    let _ = fs::remove_file(&file);
    board.tell("trace start");
    board.tell("trace stop");
    let name = run.clone();
    let start = thread::spawn(move || Tracer::start(running(&name)));
    board.poll("another recording", |_| start.is_finished());
    let mut tracer = start.join().expect("a thread").expect("a recording");
    // The board goes while it is looked at: what came is kept.
    let work = thread::spawn(move || (tracer.record(None, &|| false), tracer.into_recording()));
    let until = Instant::now() + Duration::from_millis(200);
    board.poll("some records", |_| Instant::now() > until);
    drop(board);
    let (end, recording) = work.join().expect("a recording");
    assert_eq!(end, End::Gone("the board was switched off before it had answered".into()));
    assert!(recording.records.len() > 20, "{} records", recording.records.len());
}

#[test]
fn live_guests_are_recorded_on_cubieboard() {
    live_guests_are_recorded(Machine::Cubieboard, true);
}

/// Its clock is the core's own, which assembly reads in another way. There, a guest that spins traps at each look at
/// the time, which is more than the serial line carries.
#[test]
fn live_guests_are_recorded_on_virt() {
    live_guests_are_recorded(Machine::Virt, false);
}

#[test]
#[ignore = "what the other boards show, too: half a minute with the other ones here"]
fn live_guests_are_recorded_on_vexpress_a9() {
    live_guests_are_recorded(Machine::VexpressA9, true);
}

#[test]
#[ignore = "a browser, for which `./spica test --all` installs 220 MB"]
fn a_browser_draws_the_page() {
    let (_, _, recording) = live_guests(Machine::Virt, false);
    let page = page::write(&Timeline::new(&recording, None)).expect("a page");
    let drawn = |dom: &str| -> usize {
        let drawn = dom.split_once("data-drawn=\"").expect("a script that ran").1;
        drawn.split_once('"').expect("a number").0.parse().expect("a number")
    };
    let dom = in_a_browser(&page);
    assert!(drawn(&dom) > 300 && dom.matches("<rect").count() > 200, "{} drawn", drawn(&dom));
    for shown in ["<b>sleeper</b>", "<b>writer</b>", "virtual timer", "<td>trap: WFI</td>"] {
        assert!(dom.contains(shown), "no {shown} in the page");
    }
    // Magnified, there is less to be seen; moved far to the left, the beginning; and then all again.
    let press = |keys: &str| {
        let press = "(key) => window.dispatchEvent(new KeyboardEvent('keydown', { key }))";
        in_a_browser(&page.replace("</script>", &format!("[...'{keys}'].forEach({press});</script>")))
    };
    let near = press("wwwwwwwwwwww");
    assert!((1..drawn(&dom) / 2).contains(&drawn(&near)), "{} of {}", drawn(&near), drawn(&dom));
    assert!(press("wwwwaaaaaaaaaaaaaaaaaaaa").contains(">0.000 µs</text>"), "no beginning");
    assert_eq!(drawn(&press("wwwdd0")), drawn(&dom));
}

/// A ring that nobody reads while a guest makes system calls, which assembly records: what has no room is counted, and
/// nothing that comes later stands before that.
#[test]
fn what_has_no_room_is_counted_by_assembly() {
    let mut board = Board::start(Machine::Cubieboard, &[Part::new("it", "calls", &[])], false);
    board.line("it", "up", 1);
    let calls = |board: &mut Board| board.counters("it")["trap.fast.user-call"];
    board.poll("calls that assembly answers", |board| calls(board) > 1000);
    let started = board.tell("trace start");
    let slots: u64 = started[0].rsplit(' ').next().expect("slots").parse().expect("a number");
    let before = calls(&mut board);
    board.poll("a full ring", |board| calls(board) > before + 4 * slots);
    let after = calls(&mut board);

    let mut records = Vec::new();
    // Guests go on between the pieces of an answer, and behind it.
    for _ in 0..2 {
        for line in board.tell("trace read") {
            let piece = base64::decode(line.strip_prefix("records ").expect("records")).expect("a piece");
            records.extend(wire::read(&piece).expect("a piece"));
        }
    }
    board.tell("trace stop");
    let is_lost = |(_, record): &(u64, Record)| record.kind == LOST;
    assert_eq!(records.iter().position(is_lost), Some(slots as usize), "something stands before what was lost");
    let lost: u64 = records.iter().filter(|it| is_lost(it)).map(|(_, record)| u64::from(record.argument)).sum();
    let seen = records.iter().filter(|(_, record)| record.kind == SYSTEM_CALL).count() as u64;
    assert!(seen > slots / 3, "{seen} calls in {} records", records.len());
    assert!(seen + lost >= after - before, "{} calls, of which {seen} are recorded and {lost} lost", after - before);
}

/// A directory with one guest, and the command that runs and records it.
fn recorded_run(name: &str, part: Part<'_>) -> (PathBuf, Child) {
    let project = Project::find(None).expect("the project");
    let scratch = project.build(&format!("test-{}-{name}", std::process::id()));
    create_dir(&scratch).expect("a directory");
    let manifest = bare::manifest(&scratch, &project, &[part]).expect("a manifest");
    let [manifest, file] = [manifest, scratch.join("t.json")].map(|path| path.display().to_string());
    let run = spica(&project, &["run", "--board", "virt", "--name", name, "--guests", &manifest, "--trace", &file]);
    (scratch, run)
}

/// Ctrl-C ends a run, as ever, but what came of its recording by then is written.
#[test]
fn a_recorded_run_that_is_interrupted_leaves_its_file() {
    let (scratch, mut run) = recorded_run("interrupted", Part::new("sleeper", "sleep", &[250_000, 1 << 30, 0]));
    let mut printed = BufReader::new(run.stdout.take().expect("its output"));
    let mut line = String::new();
    while !line.contains("up") {
        line.clear();
        assert_ne!(printed.read_line(&mut line).expect("text"), 0, "it ended before it was interrupted");
    }
    thread::sleep(Duration::from_millis(200));
    interrupt(&run);
    let output = run.wait_with_output().expect("an end");
    assert_eq!(output.status.signal(), Some(2), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(count_in(&scratch.join("t.json"), "handler") > 10);
    let _ = fs::remove_dir_all(&scratch);
}

#[test]
fn a_run_is_recorded_from_its_first_instruction_to_its_last() {
    let (scratch, run) = recorded_run("recorded", Part::new("ends", "end", &[20, 0]));
    let output = run.wait_with_output().expect("an end");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    assert!(!said.contains("the recording ends") && !said.contains("lost"), "{said}");
    let file = scratch.join("t.json");
    assert!(count_in(&file, "PSCI call") == 1 && count_in(&file, "translation") > 0);
    let text = fs::read_to_string(&file).expect("a file");
    let turns: Vec<_> = text.lines().filter(|line| line.contains("\"cat\":\"guest\"")).collect();
    assert!(turns[0].contains("\"ts\":0.0,"), "{}", turns[0]);
    assert!(turns[turns.len() - 1].contains("\"then\":\"stops\""), "{turns:?}");
    let _ = fs::remove_dir_all(&scratch);
}

/// Once it has booted, for as long as it goes on.
#[test]
fn debian_is_recorded() {
    /// So often the ring is read before the guest may end. Its tasks' names are read meanwhile: they are in its memory,
    /// which is gone once it has ended.
    const READS: u32 = 40;
    let project = Project::find(None).expect("the project");
    let board = board::find("cubieboard").expect("a board");
    let label = format!("traced-{}", std::process::id());
    let mut request = Request { unpacked: true, label: Some(label.clone()), ..Request::new(board) };
    let script = Script::new(
        "wait() { until read -t 1 line </dev/console; do echo wait; done; }; wait; \
         i=0; while [ $i -lt 40 ]; do cat /dev/null; i=$((i+1)); done; wait; \
         while [ $i -lt 1000 ]; do i=$((i+1)); done; echo $i",
        &mut request.overlay,
    );
    let run = prepare(&project, &request).expect("a run");
    let (ready, started) = mpsc::channel();
    let (begins, begun) = mpsc::channel();
    let (names_known, may_end) = mpsc::channel();
    let recorder = thread::spawn(move || {
        begun.recv().expect("a guest");
        let mut tracer = Tracer::start(running(&label)).expect("a recording");
        ready.send(()).expect("a run");
        // As a rule, that is enough for the ring to be full.
        thread::sleep(Duration::from_millis(1500));
        let times = Cell::new(0);
        let read = || {
            times.set(times.get() + 1);
            if times.get() == READS {
                names_known.send(()).expect("a run");
            }
            false
        };
        (tracer.record(None, &read), tracer.into_recording())
    });
    let mut printed = Vec::new();
    let outcome = exec(&run, &script.expect("a script"), Duration::from_secs(900), None, false, &mut |bytes| {
        printed.extend_from_slice(bytes);
        // Whoever waits no longer is told again; nobody is.
        let _ = begins.send(());
        let goes_on = started.try_recv().is_ok() || may_end.try_recv().is_ok();
        Ok(if goes_on { b"\n".to_vec() } else { Vec::new() })
    });
    assert_eq!(outcome.expect("a status").status, 0);
    let (end, recording) = recorder.join().expect("a recording");
    assert_eq!(end, End::Gone("the board was switched off before it had answered".into()));
    let printed = String::from_utf8_lossy(&printed).replace('\r', "");
    let last = printed.lines().find(|line| *line != "wait" && !line.is_empty());
    assert_eq!(last, Some("1000"), "answers are in the way of what guests print");

    // Nothing that came while records were lost stands before what says so, whoever wrote it.
    let mut known = 0;
    for (time, record) in &recording.records {
        if record.kind == LOST {
            let since = time.saturating_sub(known) * 1000 / u64::from(recording.hertz);
            assert!(record.argument < 1000 || since > 5, "{} records lost within {since} ms", record.argument);
        }
        known = known.max(*time);
    }

    let timeline = Timeline::new(&recording, None);
    let rows = &timeline.rows[&Subject::Guest(0)];
    let spans = || rows.iter().flat_map(|row| &row.spans);
    let longest = |name: &str| spans().filter(|span| span.name == name).map(|span| span.end - span.begin).max();
    for name in ["user code", "page fault", "interrupt", "execve", "exit_group", "wait4", "translation"] {
        assert!(longest(name).is_some_and(|ticks| ticks > 0), "no {name}");
    }
    for name in ["shadow fault", "guest's abort", "unlinked branch", "PSCI call", "UART write"] {
        assert!(longest(name).is_some(), "no trap for {name}");
    }
    // Tasks, with their names: that which idles, threads of the kernel, and programs.
    let tasks: Vec<_> = rows.iter().filter_map(|row| row.name.split_once(", task 0x").map(|(name, _)| name)).collect();
    for names in [&["swapper"][..], &["kworker/", "ksoftirqd/", "migration/", "rcu"], &["sh"]] {
        let found =
            tasks.iter().any(|task| task.split(", ").any(|task| names.iter().any(|name| task.starts_with(name))));
        assert!(found, "none of {names:?} in {tasks:?}");
    }
    // Parts of a process lie in its time, one behind the other.
    for row in rows.iter().filter(|row| row.name.contains("process") || row.name.contains("task")) {
        let (outer, inner): (Vec<_>, Vec<_>) = row.spans.iter().partition(|span| span.category == "process");
        assert!(inner.windows(2).all(|pair| pair[0].end <= pair[1].begin), "{} does two things at once", row.name);
        let within = |span: &&spica_trace::Span| outer.iter().any(|o| o.begin <= span.begin && span.end <= o.end);
        assert!(inner.iter().all(within), "{} does something while it does not run", row.name);
    }
    // The last that a guest does is to call PSCI, which stops it: that is in the recording, too.
    let last = timeline.rows[&Subject::Board][0].spans.iter().rfind(|span| span.name == "debian").expect("a turn");
    assert_eq!(last.details, [("then", spica_trace::Value::Text("stops".into()))]);
}
