//! Clients that look into guests: what is counted of a guest's kernel, and system calls.

use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use object::{Object, ObjectSymbol, SymbolKind};
use spica_cli::counts::{self, Counter, Counts, Sampling};
use spica_cli::stacks::{Stacks, UNKNOWN};
use spica_cli::symbols;
use spica_cli::tracer::Tracer;
use spica_cli::unwind::Tables;
use spica_kallsyms::Symbol;
use spica_runner::bench::ICOUNT_SHIFT;
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

/// The functions of a guest, as a kernel's own names.
#[track_caller]
fn functions(board: &Board, name: &str) -> Vec<Symbol> {
    let bytes = fs::read(board.symbols(name)).expect("the guest");
    let file = object::File::parse(&*bytes).expect("an ELF file");
    let functions = file.symbols().filter(|symbol| symbol.kind() == SymbolKind::Text);
    let mut found: Vec<Symbol> = functions
        .map(|symbol| Symbol {
            address: symbol.address() as u32,
            kind: b't',
            name: symbol.name().expect("a name").to_string(),
        })
        .collect();
    found.sort_by_key(|symbol| symbol.address);
    // The last one ends, too.
    let end = found.last().map_or(0, |symbol| symbol.address + 0x100);
    found.push(Symbol { address: end, kind: b't', name: "end".to_string() });
    found
}

/// Three of four instructions of `leaf` are executed for `left`, the rest for `right`. Nobody reads samples meanwhile:
/// there are more than the board keeps.
fn samples_are_fair(board: &mut Board) {
    let functions = functions(board, "calls");
    board.show(Some("calls"));
    board.tell("debug calls attach");
    for wrong in ["debug calls count 10", "debug calls count 1388 1"] {
        assert!(board.ask(wrong).is_err(), "{wrong}");
    }
    board.tell("debug calls count 1388");
    board.tell("debug calls go");
    board.line("calls", "done", 1);
    assert!(!board.console("calls").contains("wrong"), "{}", board.console("calls"));
    board.tell("debug calls halt");
    assert!(board.tell("debug calls wait")[0].starts_with("halted"));
    board.tell("debug calls uncount");
    let counts = counts::understand(&board.tell("debug calls counts")).expect("counts");
    let (mut samples, mut all) = (Vec::new(), 0);
    // What was said to be there is read, and nothing twice.
    for _ in 0..2 {
        let lines = board.tell("debug calls samples");
        all = lines[0].split(' ').nth(1).and_then(|taken| taken.parse().ok()).expect("how many were taken");
        let lost = counts::understand_samples(&lines, &mut samples).expect("samples");
        assert_eq!(samples.len() as u32 + lost, all);
        assert!(lost > 0 && samples.len() > 1000, "{lost} of {all} were lost");
    }
    let expected = counts.instructions() / 5000;
    assert!(u64::from(all).abs_diff(expected) < expected / 20, "{all} samples, not some {expected}");
    let counts = Counts { samples, ..counts };
    let stacks = Stacks::new(&counts, &functions, &Tables::default(), 5000);
    assert_eq!(stacks.instructions(), counts.instructions());
    let below = |caller: &str| -> u64 {
        let of = |stack: &[String]| {
            let names: Vec<&str> = stack.iter().rev().take(3).map(String::as_str).collect();
            names == ["leaf", caller, "top"]
        };
        stacks.iter().filter(|(stack, _)| of(stack)).map(|(_, instructions)| instructions).sum()
    };
    let (left, right) = (below("left"), below("right"));
    let share = left as f64 / (left + right) as f64;
    assert!((0.72..0.78).contains(&share), "{left} for `left`, {right} for `right`");
    // 201 instructions of `leaf`, 80,000 times; what of these has other callers is what was sampled at its last one.
    assert!(left + right > 15_900_000, "{}", stacks.folded());
    board.tell("debug calls detach");
    assert!(board.ask("debug calls samples").is_err());
}

/// A guest is counted from its first instruction on, and again later, with the same result; in between it is not.
#[test]
fn each_instruction_of_a_guest_is_counted() {
    let parts = [
        Part::new("it", "counted", &[]),
        Part::new("other", "sleep", &[125_000, 1 << 30, 0]),
        Part::new("calls", "stacks", &[]),
    ];
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
    // Anew, with samples, and left in the middle: the guest goes on as ever.
    halt(&mut board);
    board.tell("debug it count 1388");
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
    samples_are_fair(&mut board);
}

/// What was seen of Debian.
struct Watched {
    names: Vec<Symbol>,
    tables: Tables,
    counts: Counts,
    calls: Calls,
}

/// Instructions between two samples.
const EVERY: u32 = 10_000;
/// Samples to wait for: of some rounds of what the guest does, each of which has a thousand, and enough for shares.
const SAMPLES: usize = 3000;

/// Clients come and go while Debian runs, both at once, and one that goes without a word.
fn watch_debian(run: &str) -> Watched {
    let board = || Running::find(&Project::find(None).expect("the project"), Some(run)).expect("the board");
    let names = symbols::names(&mut board(), 0).expect("names");
    let tables = symbols::unwind_tables(&mut board(), 0, &names).expect("tables");
    let sampling = Sampling::new(EVERY, &names);
    let (counts, calls) = thread::scope(|threads| {
        let mut tracer = Tracer::start_calls(board(), 0).expect("a recording");
        assert!(Tracer::start_calls(board(), 0).is_err(), "calls are recorded for two");
        let (ended, end) = mpsc::channel::<Counts>();
        threads.spawn(move || {
            let mut counter = Counter::start(board(), 0, Some(&sampling)).expect("counts");
            let second = Counter::start(board(), 0, None).err().expect("counts for two");
            assert!(second.message.contains("looks into it"), "{}", second.message);
            let begun = Instant::now();
            while counter.samples().len() < SAMPLES && begun.elapsed() < Duration::from_secs(120) {
                counter.count(Instant::now() + Duration::from_millis(500), &|| false).expect("a board");
            }
            ended.send(counter.end().expect("counts")).expect("somebody who waits");
        });
        let mut counts = None;
        let deadline = Instant::now() + Duration::from_secs(180);
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
    let mut killed = Counter::start(board(), 0, None).expect("counts");
    killed.count(Instant::now() + Duration::from_millis(100), &|| false).expect("a board");
    drop(killed);
    Watched { names, tables, counts, calls }
}

/// Stacks of Debian's kernel begin where it is entered, and calls in them are ones that it has.
fn stacks_are_sound(watched: &Watched) {
    let Watched { names, tables, counts, .. } = watched;
    assert!(tables.len() > 20_000 && counts.samples.len() > 200, "{}, {}", tables.len(), counts.samples.len());
    let stacks = Stacks::new(counts, names, tables, EVERY);
    assert_eq!(stacks.instructions(), counts.instructions());
    let entries = [
        "ret_fast_syscall",
        "vector_swi",
        "slow_work_pending",
        "no_work_pending",
        "ret_from_fork",
        // The process that idles.
        "rest_init",
        // An interrupt's own stack.
        "call_with_stack",
    ];
    let (mut all, mut sound) = (0, 0);
    let (mut calls, mut wrong) = (0, 0);
    for (stack, instructions) in stacks.iter().filter(|(stack, _)| stack[0] != UNKNOWN) {
        all += instructions;
        if entries.contains(&stack[0].as_str()) || stack[0].ends_with("_usr") || stack[0].starts_with("[0xffff") {
            sound += instructions;
        }
        for pair in stack.windows(2).filter(|pair| pair[1] == "vfs_write") {
            calls += instructions;
            if !["ksys_write", "redirected_tty_write"].contains(&pair[0].as_str()) {
                wrong += instructions;
            }
        }
    }
    assert!(sound * 100 > all * 97, "{sound} of {all}:\n{}", stacks.folded());
    // In the middle of `__switch_to`, which says nothing of its frame, a stack may be half of one process's.
    assert!(wrong * 100 <= calls, "{wrong} of {calls}:\n{}", stacks.folded());
    let writes =
        |stack: &[String]| stack.starts_with(&["ret_fast_syscall", "ksys_write", "vfs_write"].map(String::from));
    assert!(stacks.iter().any(|(stack, _)| writes(stack)), "{}", stacks.folded());
    let flames = stacks.flames("title", "below").expect("a flame graph");
    assert!(flames.starts_with("<?xml") && flames.contains("<title>vfs_write ("), "{flames}");
}

#[test]
fn debian_is_watched() {
    let project = Project::find(None).expect("the project");
    let label = format!("watched-{}", std::process::id());
    let board = board::find("cubieboard").expect("a board");
    // Time is the count of instructions: on a busy machine a guest that is counted would do little but keep its clock.
    let icount = Some(ICOUNT_SHIFT);
    let mut request = Request { unpacked: true, label: Some(label.clone()), icount, ..Request::new(board) };
    let script = Script::new(
        "until read -t 1 line </dev/console; do cat /nonexist 2>/dev/null; i=0; \
         while [ $i -lt 200 ]; do echo more; i=$((i+1)); done; done; \
         until read -t 1 line </dev/console; do modprobe dummy; rmmod dummy; echo more; done; echo 1000",
        &mut request.overlay,
    );
    let run = prepare(&project, &request).expect("a run");
    let (begins, begun) = mpsc::channel();
    let is_watched = Arc::new(AtomicBool::new(false));
    let enough = is_watched.clone();
    let watcher = thread::spawn(move || {
        begun.recv().expect("a guest");
        let watched = watch_debian(&label);
        enough.store(true, Ordering::SeqCst);
        crate::debugger::debian_is_debugged(&label, &watched.names);
        watched
    });
    let mut printed = Vec::new();
    let outcome = exec(&run, &script.expect("a script"), Duration::from_secs(300), None, false, &mut |bytes| {
        printed.extend_from_slice(bytes);
        let _ = begins.send(());
        // First the next loop is to begin, and then to end.
        Ok(if is_watched.swap(false, Ordering::SeqCst) || watcher.is_finished() { b"\n".to_vec() } else { Vec::new() })
    });
    assert_eq!(outcome.expect("a status").status, 0);
    let watched = watcher.join().expect("a watcher");
    stacks_are_sound(&watched);
    let Watched { counts, calls, .. } = watched;
    let printed = String::from_utf8_lossy(&printed).replace('\r', "");
    // What the board says of its guests may break a line, more than once.
    assert_eq!(printed.lines().find(|line| !"more".contains(line)), Some("1000"));

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
