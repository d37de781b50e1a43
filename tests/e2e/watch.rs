//! Clients that look into guests: what is counted of a guest's kernel, and system calls.

use std::collections::BTreeMap;
use std::fs;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use object::{Object, ObjectSymbol};
use spica_cli::counts::{self, Counter, Counts};
use spica_cli::tracer::Tracer;
use spica_runner::board;
use spica_runner::control::client::Board as Running;
use spica_runner::exec::{Script, exec};
use spica_runner::prepare::{Request, prepare};
use spica_runner::project::Project;
use spica_tests::Machine;
use spica_tests::several::{Board, Part};
use spica_trace::calls::{Calls, Outcome};

/// How often each instruction is executed in one round of `counted.S`, as its labels say.
#[track_caller]
fn known(board: &Board) -> BTreeMap<u32, u64> {
    let bytes = fs::read(board.symbols("it")).expect("the guest");
    let file = object::File::parse(&*bytes).expect("an ELF file");
    let label = |symbol: object::Symbol<'_, '_>| -> Option<(u32, u64)> {
        let name = symbol.name().ok()?.strip_prefix('x')?;
        let count = if name == "end" { u64::MAX } else { name.split_once('_')?.0.parse().ok()? };
        Some((symbol.address() as u32, count))
    };
    let labels: BTreeMap<u32, u64> = file.symbols().filter_map(label).collect();
    assert!(labels.len() > 25, "{labels:x?}");
    let pairs = labels.iter().zip(labels.keys().skip(1));
    pairs.flat_map(|((from, count), to)| (*from..*to).step_by(4).map(|at| (at, *count))).collect()
}

/// How often each of those instructions was executed.
fn found(counts: &Counts, known: &BTreeMap<u32, u64>) -> BTreeMap<u32, u64> {
    let mut found: BTreeMap<u32, u64> = known.keys().map(|at| (*at, 0)).collect();
    for run in &counts.runs {
        for n in 0..run.length {
            if let Some(count) = found.get_mut(&(run.start + 4 * n)) {
                *count += run.count;
            }
        }
    }
    found
}

/// The guest has made so many rounds more while it was counted.
#[track_caller]
fn is_exact(board: &mut Board, known: &BTreeMap<u32, u64>, rounds: u64) {
    let counts = counts::understand(&board.tell("debug it counts")).expect("counts");
    assert_eq!((counts.missed, counts.uncounted), (0, 0));
    let found = found(&counts, known);
    let wrong: Vec<_> = known.iter().filter(|(at, count)| found[at] != *count * rounds).collect();
    let say = |(at, count): &(&u32, &u64)| format!("{at:x}: {} times, not {}", found[at], *count * rounds);
    assert!(wrong.is_empty(), "{}", wrong.iter().map(say).collect::<Vec<_>>().join("\n"));
}

fn halt(board: &mut Board) {
    board.tell("debug it halt");
    assert!(board.tell("debug it wait")[0].starts_with("halted"));
}

/// A guest is counted from its first instruction on, and again later, with the same result; in between it is not.
#[test]
fn each_instruction_of_a_guest_is_counted() {
    let parts = [Part::new("it", "counted", &[]), Part::new("other", "sleep", &[125_000, 1 << 30, 0])];
    let mut board = Board::start_with(Machine::Cubieboard, &parts, false, "spica.halt");
    board.spica("guest it: waits for a debugger", 1);
    board.spica("guest other: waits for a debugger", 1);
    board.tell("resume other");
    let known = known(&board);
    assert!(board.ask("debug it count").expect_err("no debugger").contains("nobody debugs it"));
    board.tell("debug it attach");
    board.tell("debug it count");
    board.tell("debug it go");
    board.line("it", "done", 1);
    board.show(Some("it"));
    board.type_keys("a");
    board.line("it", "done", 2);
    assert!(board.ask("debug it uncount").expect_err("it runs").contains("not halted"));
    halt(&mut board);
    board.tell("debug it uncount");
    is_exact(&mut board, &known, 2);
    // Not counted: what was counted stays as it was.
    board.tell("debug it go");
    board.type_keys("a");
    board.line("it", "done", 3);
    is_exact(&mut board, &known, 2);
    // Anew, and left in the middle: the guest goes on as ever.
    halt(&mut board);
    board.tell("debug it count");
    board.tell("debug it go");
    board.type_keys("a");
    board.line("it", "done", 4);
    is_exact(&mut board, &known, 1);
    board.tell("debug it detach");
    assert!(board.ask("debug it counts").expect_err("no debugger").contains("nobody debugs it"));
    board.type_keys("a");
    board.line("it", "done", 5);
    board.tell("debug it attach");
    assert_eq!(board.tell("debug it counts"), ["counted 0 0"], "what was counted is forgotten");
}

/// Clients come and go while Debian runs, both at once, and one that goes without a word.
fn watch_debian(run: &str) -> (Counts, Calls) {
    let board = || Running::find(&Project::find(None).expect("the project"), Some(run)).expect("the board");
    let calls = thread::scope(|threads| {
        let mut tracer = Tracer::start_calls(board(), 0).expect("a recording");
        assert!(Tracer::start_calls(board(), 0).is_err(), "calls are recorded for two");
        let (ended, end) = mpsc::channel::<Counts>();
        threads.spawn(move || {
            let mut counter = Counter::start(board(), 0).expect("counts");
            let second = Counter::start(board(), 0).err().expect("counts for two");
            assert!(second.message.contains("is counted by another"), "{}", second.message);
            counter.count(Instant::now() + Duration::from_millis(2500), &|| false);
            ended.send(counter.end().expect("counts")).expect("somebody who waits");
        });
        let mut counts = None;
        let deadline = Instant::now() + Duration::from_secs(60);
        let is_over = std::cell::Cell::new(false);
        let received = std::cell::RefCell::new(&mut counts);
        tracer.record(Some(deadline), &|| {
            if let Ok(found) = end.try_recv() {
                **received.borrow_mut() = Some(found);
                is_over.set(true);
            }
            is_over.get()
        });
        (counts.expect("counts"), Calls::new(&tracer.into_recording()))
    });
    let mut killed = Counter::start(board(), 0).expect("counts");
    killed.count(Instant::now() + Duration::from_millis(100), &|| false);
    drop(killed);
    calls
}

#[test]
fn debian_is_watched() {
    let project = Project::find(None).expect("the project");
    let label = format!("watched-{}", std::process::id());
    let board = board::find("cubieboard").expect("a board");
    let mut request = Request { unpacked: true, label: Some(label.clone()), ..Request::new(board) };
    let script = Script::new(
        "until read -t 1 line </dev/console; do i=0; while [ $i -lt 100 ]; do cat /nonexist 2>/dev/null; echo more; \
         i=$((i+1)); done; done; echo 1000",
        &mut request.overlay,
    );
    let run = prepare(&project, &request).expect("a run");
    let (begins, begun) = mpsc::channel();
    let watcher = thread::spawn(move || {
        begun.recv().expect("a guest");
        watch_debian(&label)
    });
    let mut printed = Vec::new();
    let outcome = exec(&run, &script.expect("a script"), Duration::from_secs(300), None, false, &mut |bytes| {
        printed.extend_from_slice(bytes);
        let _ = begins.send(());
        Ok(if watcher.is_finished() { b"\n".to_vec() } else { Vec::new() })
    });
    assert_eq!(outcome.expect("a status").status, 0);
    let (counts, calls) = watcher.join().expect("a watcher");
    let printed = String::from_utf8_lossy(&printed).replace('\r', "");
    assert_eq!(printed.lines().find(|line| !line.is_empty() && *line != "more"), Some("1000"));

    assert!(counts.instructions() > 100_000 && counts.runs.len() > 1000, "{} runs", counts.runs.len());
    assert_eq!((counts.missed, counts.uncounted), (0, 0));
    // The vector of system calls is executed once for each; they were recorded longer than it was counted.
    let vector = counts.runs.iter().filter(|run| run.start == 0xffff_0008).map(|run| run.count).sum::<u64>();
    let seen = calls.calls.len() as u64;
    assert!(vector > 20 && vector <= seen + calls.lost, "{vector} calls counted, {seen} seen, {} lost", calls.lost);
    let of = |number: u32| calls.calls.iter().filter(move |call| call.number == number);
    // open or openat, and write.
    assert!(of(5).chain(of(322)).any(|call| call.error() == Some(2)), "nothing was not there");
    let wrote = |call: &spica_trace::calls::Call| {
        call.arguments[0] == Some(1) && call.arguments[2] == Some(5) && call.outcome == Outcome::Returned(5)
    };
    assert!(of(4).any(wrote), "`more` was not written");
}
