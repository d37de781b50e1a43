//! Timelines of guests on emulated boards, and the page in a browser: Debian's package `chromium-headless-shell`.

use std::fs;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use spica_cli::tracer::{self, End, Output, Tracer};
use spica_runner::board;
use spica_runner::control::client::Board as Running;
use spica_runner::exec::{Script, exec};
use spica_runner::prepare::{Request, prepare};
use spica_runner::project::Project;
use spica_tests::Machine;
use spica_tests::several::{BLANK, Board, Part};
use spica_trace::{Row, Subject, Timeline, page};

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

/// A sleeper, a guest with a disk, and perhaps one that never waits, while they are recorded.
fn live_guests_are_recorded(machine: Machine, spins: bool) {
    let parts = [
        Part::new("sleeper", "sleep", &[250_000, 1 << 30, 0]),
        Part::new("writer", "disk", &[64]).with("disks", &format!("[{{ file = \"{BLANK}\" }}]")),
        Part::new("spinner", "spin", &[1, 1 << 20, 1 << 21]),
    ];
    let mut board = Board::start(machine, &parts[..if spins { 3 } else { 2 }], false);
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
    let until = Instant::now() + Duration::from_millis(700);
    let work = thread::spawn(move || (tracer.record(Some(until)).expect("an end"), tracer.into_recording()));
    board.poll("the end of the recording", |_| work.is_finished());
    let (end, recording) = work.join().expect("a recording");
    assert_eq!(end, End::Time);
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
    for (raised, handler) in around("raised").zip(around("handler")) {
        assert_eq!(raised.end, handler.begin, "a handler begins when its line has been seen");
    }
    let traps = row(&timeline, 0, "Spica");
    assert!(count(traps, "interrupt controller read") >= handled && count(traps, "WFI") > 10);
    // The disk: its driver notifies it, and it works.
    let virtio = row(&timeline, 1, "virtio");
    assert!(virtio.points.iter().filter(|point| point.name == "driver notifies virtio 0").count() >= 64);
    assert!(count(virtio, "devices work") >= 64);
    if spins {
        assert!(count(row(&timeline, 2, "Spica"), "host interrupt") > 10);
    }

    let dom = in_a_browser(&page::write(&timeline).expect("a page"));
    let drawn = dom.split_once("data-drawn=\"").expect("a script that ran").1;
    let drawn: usize = drawn.split_once('"').expect("a number").0.parse().expect("a number");
    assert!(drawn > 300 && dom.matches("<rect").count() > 200, "{drawn} drawn");
    for shown in ["<b>sleeper</b>", "<b>writer</b>", "virtual timer", "<td>trap: WFI</td>"] {
        assert!(dom.contains(shown), "no {shown} in the page");
    }

    // Without whoever looks, nothing is recorded, and nothing was lost but what was counted.
    board.tell("trace start");
    board.tell("trace stop");
    let name = run.clone();
    let start = thread::spawn(move || Tracer::start(running(&name)));
    board.poll("another recording", |_| start.is_finished());
    let mut tracer = start.join().expect("a thread").expect("a recording");
    // The board goes while it is looked at: what came is kept.
    let work = thread::spawn(move || (tracer.record(None).expect("an end"), tracer.into_recording()));
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

/// Its clock is the core's own, which assembly reads in another way. There, a guest that spins traps at each look at the
/// time, which is more than the serial line carries.
#[test]
fn live_guests_are_recorded_on_virt() {
    live_guests_are_recorded(Machine::Virt, false);
}

/// As `spica run --trace` does it.
#[test]
fn debian_is_recorded_from_its_first_instruction_to_its_last() {
    let project = Project::find(None).expect("the project");
    let board = board::find("cubieboard").expect("a board");
    let mut request = Request {
        unpacked: true,
        spica_append: "spica.trace".into(),
        label: Some("traced".into()),
        ..Request::new(board)
    };
    let script = Script::new(
        "i=0; while [ $i -lt 5 ]; do cat /dev/null; i=$((i+1)); done; \
                  while [ $i -lt 3000 ]; do i=$((i+1)); done; echo $i",
        &mut request.overlay,
    );
    let run = prepare(&project, &request).expect("a run");
    let file = project.build(&format!("test-{}-trace.json", std::process::id()));
    let output = Output::create(file.clone()).expect("a file");
    let beside = tracer::beside(&project, &run.label, output);
    let mut printed = Vec::new();
    let outcome = exec(&run, &script.expect("a script"), Duration::from_secs(900), None, false, &mut |bytes| {
        printed.extend_from_slice(bytes);
        Ok(Vec::new())
    });
    let recording = beside.end().expect("a recording");
    assert_eq!(outcome.expect("a status").status, 0);
    assert_eq!(String::from_utf8_lossy(&printed).trim(), "3000", "answers are in the way of what guests print");
    let _ = fs::remove_file(&file);

    let timeline = Timeline::new(&recording, None);
    let rows = &timeline.rows[&Subject::Guest(0)];
    let spans = || rows.iter().flat_map(|row| &row.spans);
    let longest = |name: &str| spans().filter(|span| span.name == name).map(|span| span.end - span.begin).max();
    for name in ["user code", "page fault", "interrupt", "execve", "exit_group", "wait4", "translation"] {
        assert!(longest(name).is_some_and(|ticks| ticks > 0), "no {name}");
    }
    for name in ["shadow fault", "guest's abort", "unlinked branch", "TLB flush: page", "PSCI call", "UART write"] {
        assert!(longest(name).is_some(), "no trap for {name}");
    }
    // Tasks, with their names: that which idles, threads of the kernel, and programs.
    let tasks: Vec<_> = rows.iter().filter_map(|row| row.name.split_once(", task 0x").map(|(name, _)| name)).collect();
    for name in ["swapper", "kworker/", "init"] {
        assert!(tasks.iter().any(|task| task.starts_with(name)), "no {name} in {tasks:?}");
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
