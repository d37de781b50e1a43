//! The life of several guests on a board: paused, reset, stopped, started, crashed and started again, each without the
//! others noticing; and who hears and says what on the one serial port.

use std::process::{Command, Stdio};

use spica_cli::{counts, debugger, symbols};
use spica_runner::control::client::Board as Running;
use spica_runner::project::{HOME_VARIABLE, Project};
use spica_tests::Machine;
use spica_tests::several::{Board, Part, value};

use crate::install;
use crate::several::timer_hertz;

/// A guest that ticks every two milliseconds, for longer than any test.
const TICKING: [u32; 3] = [125_000, 1 << 30, 0];

/// The virtual interrupts of guest `name` so far: each a tick of the clock that it looks at.
#[track_caller]
fn ticks(board: &mut Board, name: &str) -> u64 {
    board.counters(name)["guest.interrupts"]
}

/// Waits until guest `name` has ticked `more` times.
#[track_caller]
fn goes_on(board: &mut Board, name: &str, more: u64) {
    let before = ticks(board, name);
    board.poll(&format!("{more} more ticks of {name}"), |board| ticks(board, name) >= before + more);
}

fn pause_reset_stop_start(machine: Machine) {
    let sleeps = [625_000, 5000, 0];
    let parts = [Part::new("other", "sleep", &TICKING), Part::new("it", "sleep", &sleeps)];
    let mut board = Board::start(machine, &parts, true);
    board.line("it", "up", 1);

    // The clock of a guest that is paused stands still: 5,000 ticks, 10 ms apart, whatever happens in between.
    goes_on(&mut board, "it", 10);
    board.tell("pause it");
    assert_eq!(board.state("it"), "paused");
    let frozen = ticks(&mut board, "it");
    goes_on(&mut board, "other", 1500);
    assert_eq!(ticks(&mut board, "it"), frozen);
    assert!(board.ask("pause it").is_err() && board.ask("start it").is_err());
    board.tell("resume it");
    let line = board.line("it", "slept", 1);
    let of = |name| value(&line, name);
    assert_eq!((of("ticks"), of("backwards"), of("early")), (5000, 0, 0), "{line}");
    // With the pause of three seconds it would be 5,300.
    assert_eq!(of("elapsed") / 625_000, 5000, "{line}");
    // Who sleeps is not charged for that, whether it sleeps in its turn, as nobody else wants to run, or not.
    let charged = board.counters("it")["scheduler.ticks"] as f64 / timer_hertz(machine);
    assert!(charged < 5.0, "{charged} s of the 50 s that it slept");
    board.spica("guest it: powered off", 1);
    assert_eq!(board.state("it"), "off");

    board.tell("start it");
    board.line("it", "up", 2);
    board.tell("reset it");
    board.line("it", "up", 3);
    board.tell("stop it");
    assert_eq!(board.state("it"), "off");
    let stopped = ticks(&mut board, "it");
    goes_on(&mut board, "other", 100);
    assert_eq!(ticks(&mut board, "it"), stopped);
    for wrong in ["stop it", "reset it", "pause it", "resume it"] {
        assert!(board.ask(wrong).is_err(), "{wrong}");
    }
    board.tell("start it");
    board.line("it", "up", 4);
    goes_on(&mut board, "it", 10);

    // Nobody else noticed anything.
    goes_on(&mut board, "other", 100);
    assert_eq!(board.console("other").matches("up").count(), 1);
    assert_eq!(board.counters("other")["guest.resets"], 0);
    assert!(board.ask("stop nobody").is_err());
}

fn restarts(machine: Machine) {
    let off = [50, 0];
    let crashes = [50, 2];
    let resets = [50, 1];
    let part = |name, parameters, policy: &str| Part::new(name, "end", parameters).with("restart", policy);
    let parts = [
        Part::new("other", "sleep", &TICKING),
        part("never", &crashes, "\"never\""),
        part("on-crash", &crashes, "\"on-crash\""),
        part("unless", &off, "\"on-crash\""),
        part("always", &off, "\"always\""),
        part("resets", &resets, "\"never\""),
    ];
    let mut board = Board::start(machine, &parts, true);
    board.spica("guest on-crash: starts again in 4 s", 1);
    board.spica("guest always: starts again in 4 s", 1);
    for name in ["on-crash", "always"] {
        for wait in ["1 s", "2 s", "4 s"] {
            board.spica(&format!("guest {name}: starts again in {wait}"), 1);
        }
        assert!((3..=4).contains(&board.console(name).matches("up\n").count()), "{}", board.tail());
    }
    for (name, end) in [("never", "stopped: its exception vectors"), ("unless", "powered off")] {
        board.spica(&format!("guest {name}: {end}"), 1);
        assert_eq!(board.console(name).matches("up\n").count(), 1, "{}", board.tail());
        assert_eq!(board.state(name), "off");
    }
    // What a guest asks for itself has no delay.
    board.poll("50 resets", |board| board.counters("resets")["guest.resets"] >= 50);
    // It is said, but not each time: it could keep the console busy with that.
    board.spica("guest resets: restarted", 6);
    let said: Vec<_> = board.spica.iter().filter(|line| line.starts_with("guest resets: restarted")).cloned().collect();
    assert!(said[..4].iter().all(|line| line == "guest resets: restarted"), "{said:?}");
    assert!(said[4..].iter().all(|line| line.ends_with(" times")), "{said:?}");
    assert!((said.len() as u64) < board.counters("resets")["guest.resets"] / 3, "{said:?}");
    assert_eq!(board.console("other").matches("up\n").count(), 1);
    goes_on(&mut board, "other", 10);

    // The report says where it was, how that began, and what came before.
    let report = board.spica.iter().skip_while(|line| !line.starts_with("guest never: stopped"));
    let report: Vec<_> = report.filter(|line| !line.starts_with("guest ")).map(String::as_str).collect();
    let behind = |heading: &'static str| report.iter().copied().skip_while(move |line| !line.contains(heading)).skip(1);
    let udf = behind("called from").next().expect("a place").trim();
    let caller = behind("called from").nth(1).expect("a caller");
    assert!(caller.contains(" calls ") && !caller.contains('?'), "{report:#?}");
    let undefined = format!("{udf} undefined instruction");
    assert_eq!(behind("the first of the exceptions").next().map(str::trim), Some(&*undefined), "{report:#?}");
    let last: Vec<_> = behind("did last").take_while(|line| line.starts_with("    ")).map(str::trim).collect();
    let at = last.iter().position(|line| *line == undefined).expect("the first exception among the last events");
    assert!(last[..at].iter().any(|line| line.contains("write to 0x09000000")), "what it printed: {last:#?}");
    let [first, others] = &last[at + 1..] else { panic!("{last:#?}") };
    assert!(first.contains(" prefetch abort at 0b000004"), "{first}");
    assert!(others.contains(" prefetch abort at 0b00000c") && others.ends_with(", 15 times"), "{others}");
}

fn consoles(machine: Machine) {
    let parts = [Part::new("a", "echo", &[]), Part::new("b", "echo", &[])];
    let mut board = Board::start(machine, &parts, true);
    board.line("a", "up", 1);
    board.line("b", "up", 1);
    // What is typed goes to the first guest, until another one is chosen.
    board.type_keys("one\r");
    board.line("a", "heard one", 1);
    board.show(Some("b"));
    board.type_keys("two\r");
    board.line("b", "heard two", 1);
    board.show(None);
    board.type_keys("three\r");
    board.line("b", "heard three", 1);
    board.show(Some("a"));
    board.type_keys("four\r");
    board.line("a", "heard four", 1);
    assert_eq!(board.console("a"), "up\nheard one\nheard four\n");
    assert_eq!(board.console("b"), "up\nheard two\nheard three\n");
    let log = board.tell("log b");
    assert_eq!(log, ["log up", "log heard two", "log heard three"]);
    let regs = board.tell("regs b");
    assert!(
        regs[0] == "regs guest b: report, as asked for" && regs.iter().all(|line| line.starts_with("regs ")),
        "{regs:?}"
    );
    // Ctrl-] twice is one for the guest.
    board.type_keys("\x1d\x1d\r");
    board.until("Ctrl-] from a", |board| board.console("a").ends_with("heard \x1d\n").then_some(()));
}

/// What is in use of memory and of pools: by the guest `it`, and by all together.
#[track_caller]
fn in_use(board: &mut Board) -> Vec<String> {
    let mut lines = board.tell("stats");
    lines.retain(|line| !line.starts_with("stat other ") && (line.contains(" memory.") || line.contains("-now ")));
    assert!(lines.len() > 4 && lines.iter().any(|line| line.starts_with("stat all memory.heap-bytes ")), "{lines:?}");
    lines
}

/// Stops and starts a guest so many times while another works. When it is off after the same work, as much is in use as
/// it was the first time: of the heap by all, and by that guest of table memory, the code cache's pages and records,
/// the return mirror, and all else that `memory.` and `-now` count.
fn cycles(machine: Machine, count: usize) {
    let parts = [Part::new("other", "sleep", &TICKING), Part::new("it", "cycle", &[])];
    let mut board = Board::start(machine, &parts, true);
    let mut level = None;
    let (mut ups, mut offs, mut stopped) = (0, 0, 0);
    for cycle in 1..=count {
        ups += 1;
        board.line("it", "up", ups);
        if cycle > 1 {
            // Somewhere in the middle of its work, if it is not at the end already.
            if board.ask("stop it").is_ok() {
                stopped += 1;
            } else {
                offs += 1;
            }
            board.tell("start it");
            ups += 1;
        }
        offs += 1;
        board.spica("guest it: powered off", offs);
        let now = in_use(&mut board);
        assert_eq!(level.get_or_insert_with(|| now.clone()), &now, "after {cycle} cycles");
        board.tell("start it");
    }
    assert!(stopped > count / 2, "{stopped} of {count} times it was stopped at work");
    assert_eq!(board.console("other").matches("up\n").count(), 1);
    goes_on(&mut board, "other", 10);
}

fn debian(machine: Machine) {
    let names = ["a", "b", "c"];
    let mut parts = names.map(|name| Part { name, guest: None, keys: "memory = \"128M\"\n".to_string() });
    // Each has the engine that it asks for; whoever does not ask has the board's.
    parts[0] = parts[0].clone().with("engine", "\"in-place\"");
    parts[1] = parts[1].clone().with("engine", "\"blocks\"");
    let engines = ["in-place", "blocks", "in-place"];
    let mut board = Board::start(machine, &parts, false);
    for name in names {
        let prompt = format!("root@{name}:");
        board.until(&prompt, |board| board.console(name).contains(&prompt).then_some(()));
    }
    for name in names {
        board.show(Some(name));
        board.type_keys("echo the sum is $((6 * 7)) on $(hostname)\r");
        board.line(name, &format!("the sum is 42 on {name}"), 1);
    }
    for (name, engine) in names.into_iter().zip(engines) {
        assert_eq!(board.engine(name), engine, "{name}");
        assert_eq!(board.counters(name)["in-place.twins"] > 500, engine == "in-place", "{name}");
    }
    counted_by_blocks(&mut board, "a");
    let run = board.serve();
    kernel_log(&mut board, &run, "b");
    names_in_a_report(&mut board, &run, "c");
    top_and_stats(&mut board, &run, &names);
}

/// A kernel that runs in place does so no longer while it is counted, and again afterwards.
fn counted_by_blocks(board: &mut Board, name: &'static str) {
    let work = |board: &mut Board, times| {
        board.type_keys("cat /proc/self/maps > /dev/null; echo that was a lot of wo''rk\r");
        board.line(name, "that was a lot of work", times);
    };
    let halt = |board: &mut Board| {
        board.tell(&format!("debug {name} halt"));
        assert!(board.tell(&format!("debug {name} wait"))[0].starts_with("halted"));
    };
    board.show(Some(name));
    board.tell(&format!("debug {name} attach"));
    halt(board);
    board.tell(&format!("debug {name} count"));
    board.tell(&format!("debug {name} go"));
    assert_eq!(board.engine(name), "blocks");
    let twins = board.counters(name)["in-place.twins"];
    work(board, 1);
    assert_eq!(board.counters(name)["in-place.twins"], twins, "pages run in place while they are counted");
    halt(board);
    board.tell(&format!("debug {name} uncount"));
    board.tell(&format!("debug {name} go"));
    let counts = counts::understand(&board.tell(&format!("debug {name} counts"))).expect("counts");
    // There is not room for all counters; nearly all is counted nevertheless.
    let executed: u64 = counts.runs.iter().map(|run| run.count).sum();
    println!("{} runs, {executed} times, and {} times not counted", counts.runs.len(), counts.uncounted);
    assert!(counts.uncounted * 20 < executed, "{executed} were counted, {} not", counts.uncounted);
    let of_kernel = counts.runs.iter().filter(|run| run.start >= 0xc000_0000).count();
    assert!(of_kernel > 1000, "{of_kernel} of {} runs", counts.runs.len());
    board.tell(&format!("debug {name} detach"));
    work(board, 2);
    assert!(board.counters(name)["in-place.twins"] > twins + 100, "nothing runs in place any more");
    assert_eq!(board.engine(name), "in-place");
}

/// A guest that has taken the addresses of its kernel's stubs runs by blocks until it starts anew, and no longer.
#[test]
fn a_start_is_in_place_again() {
    // The other one keeps the board up.
    let words = "spica.engine=in-place-from-start@0x40000000";
    let parts = [Part::new("it", "gives_way", &[]), Part::new("other", "sleep", &[125_000, 1 << 30, 0])];
    let mut board = Board::start_with(Machine::Cubieboard, &parts, true, words);
    for times in 1..=3 {
        let left = "guest it: it needs 0x3fa00000, where its kernel's stubs are: that runs by blocks now";
        board.until("what it takes", |board| {
            (board.spica.iter().filter(|line| *line == left).count() >= times).then_some(())
        });
        board.until("its end", |board| {
            let ended = board.spica.iter().filter(|line| line.starts_with("guest it: powered off")).count();
            (ended >= times).then_some(())
        });
        assert_eq!(board.engine("it"), "blocks");
        board.tell("start it");
    }
}

/// The same guest goes on by blocks when it was counted, too.
#[test]
fn who_has_taken_the_place_keeps_it() {
    let words = "spica.engine=in-place-from-start@0x40000000 spica.loglevel=info";
    let parts = [Part::new("taker", "gives_way", &[1 << 30]), Part::new("other", "sleep", &[125_000, 1 << 30, 0])];
    let mut board = Board::start_with(Machine::Cubieboard, &parts, true, words);
    let works = |board: &mut Board| {
        let done = |board: &Board| board.console("taker").matches("once more").count();
        let before = done(board);
        board.until("more work", |board| (done(board) >= before + 2).then_some(()));
    };
    works(&mut board);
    board.tell("debug taker attach");
    for step in ["count", "uncount", "forget"] {
        board.tell("debug taker halt");
        assert!(board.tell("debug taker wait")[0].starts_with("halted"));
        match step {
            "forget" => board.tell("debug taker detach"),
            _ => board.tell(&format!("debug taker {step}")),
        };
        if step != "forget" {
            board.tell("debug taker go");
        }
        works(&mut board);
    }
    assert_eq!(board.engine("taker"), "blocks");
    let said = |what: &str| board.spica.iter().filter(|line| line.contains(what)).count();
    assert_eq!((said("runs by blocks now"), said("its kernel runs by blocks:")), (1, 0), "{:#?}", board.spica);
}

/// One that starts anew while it is counted goes on by blocks, although it is to run in place from the start.
#[test]
fn who_is_counted_starts_by_blocks() {
    let words = "spica.engine=in-place-from-start@0x40000000";
    let parts = [Part::new("counted", "gives_way", &[1 << 30]), Part::new("other", "sleep", &[125_000, 1 << 30, 0])];
    let mut board = Board::start_with(Machine::Cubieboard, &parts, true, words);
    // A board does not hear before it speaks.
    let _ = board.line("other", "up", 1);
    board.tell("debug counted attach");
    board.tell("debug counted halt");
    assert!(board.tell("debug counted wait")[0].starts_with("halted"));
    board.tell("debug counted count");
    board.tell("debug counted go");
    for times in 1..=2 {
        board.tell("stop counted");
        board.tell("start counted");
        let starts = |board: &Board| board.console("counted").matches("with nothing there").count();
        board.until("another start", |board| (starts(board) >= times).then_some(()));
        assert_eq!(board.engine("counted"), "blocks");
    }
}

/// The report of a guest that idles says where its kernel is, by the names of its functions.
fn names_in_a_report(board: &mut Board, run: &str, name: &'static str) {
    let run = run.to_string();
    let report = board.meanwhile("a report", move || {
        let mut asked = Running::find(&Project::find(None).expect("the project"), Some(&run)).expect("the board");
        let mut names = asked.function_names();
        let mut report = || {
            let lines = asked.ask(&format!("regs {name}")).expect("a report");
            lines.iter().map(|line| names.put_into(line.strip_prefix("regs ").expect("a line"))).collect::<Vec<_>>()
        };
        // It may have something to do just then, as in a tick of its timer.
        let mut reports = (0..100).map(|_| report());
        let idles = |line: &String| line.contains("<arch_cpu_idle+") && line.contains(" calls by a register");
        reports.find(|report| report.iter().any(idles)).expect("an idle kernel")
    });
    let callers =
        report.iter().skip_while(|line| !line.contains("called from")).take_while(|line| !line.contains("did last"));
    let callers: Vec<_> = callers.filter(|line| !line.contains('?')).cloned().collect();
    for name in ["<arch_cpu_idle+", " calls c", "<do_idle+", "<cpu_startup_entry"] {
        assert!(callers.iter().any(|line| line.contains(name)), "no {name}: {report:#?}");
    }
}

/// The commands' tables have a line for each guest, and what it does.
fn top_and_stats(board: &mut Board, run: &str, names: &[&str]) {
    let spica = |arguments: &'static [&'static str]| {
        let run = run.to_string();
        move || {
            let project = Project::find(None).expect("the project");
            let mut command = Command::new(install::command(&project));
            command.args(arguments).args(["--run", &run]).env(HOME_VARIABLE, project.root()).stdin(Stdio::null());
            let output = command.output().expect("the command");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8(output.stdout).expect("text")
        }
    };
    let top = board.meanwhile("two tables", spica(&["top", "--for", "3s", "--every", "1500ms", "--sort", "name"]));
    assert_eq!(top.matches("GUEST ").count(), 2, "{top}");
    let mut interrupts = 0;
    for name in names {
        let row = top.lines().rfind(|line| line.starts_with(&format!("{name} "))).expect("a row");
        let words: Vec<_> = row.split_whitespace().collect();
        let rates: Vec<u64> = words[5..].iter().map(|word| word.parse().expect("a rate")).collect();
        assert!(words[4] == "128M" && rates.len() == 9, "{row}");
        interrupts += rates[1];
    }
    assert!(interrupts > 0, "no kernel has had a tick for 1.5 s: {top}");
    let list = board.meanwhile("a list", spica(&["list"]));
    let engines = list.lines().skip(1).filter_map(|line| line.split_whitespace().next_back());
    assert_eq!(engines.collect::<Vec<_>>(), ["in-place", "blocks", "in-place"], "{list}");
    let stats = board.meanwhile("a summary", spica(&["stats", "a"]));
    let calls = stats.lines().find_map(|line| line.strip_suffix("  system calls")).expect("system calls");
    assert!(calls.trim().parse::<u64>().expect("a count") > 100, "{stats}");
    let all = board.meanwhile("all counters", spica(&["stats", "a", "--all"]));
    assert!(all.contains("  trap.system-call ") && all.lines().count() > 50, "{all}");
}

/// The kernel's log, read from memory while all guests run, is what the guest itself reads there.
fn kernel_log(board: &mut Board, run: &str, name: &'static str) {
    board.show(Some(name));
    // The marks are not in what is echoed.
    board.type_keys("echo log beg''ins; dmesg; echo log en''ds\r");
    board.line(name, "log ends", 1);
    let inside: Vec<_> = board.console(name).lines().skip_while(|line| *line != "log begins").skip(1).collect();
    let inside: Vec<_> = inside.iter().take_while(|line| **line != "log ends").map(|line| line.to_string()).collect();
    let read = |most| {
        let run = run.to_string();
        move || {
            let mut asked = Running::find(&Project::find(None).expect("the project"), Some(&run)).expect("the board");
            let guest = debugger::choose(&asked, Some(name)).expect("the guest");
            let log = symbols::read_log(&mut asked, guest, most).expect("a log");
            let lines = log
                .records
                .iter()
                .flat_map(|record| record.to_string().lines().map(str::to_string).collect::<Vec<_>>());
            (lines.collect::<Vec<_>>(), log.older)
        }
    };
    let (outside, older) = board.meanwhile("the log", read(u32::MAX));
    assert_eq!((&outside, older), (&inside, 0));
    assert!(outside.len() > 100 && outside[1].contains("Linux version"), "{outside:#?}");
    let (outside, older) = board.meanwhile("the end of the log", read(3));
    assert!(inside.ends_with(&outside) && older > 90, "{outside:#?}");
}

macro_rules! boards {
    ($($module:ident: $machine:ident $(, #[$slow:meta])?;)*) => { $(
        mod $module {
            use super::*;
            const MACHINE: Machine = Machine::$machine;

            #[test]
            fn one_guest_is_paused_reset_stopped_started() {
                pause_reset_stop_start(MACHINE);
            }

            #[test]
            $(#[$slow])?
            fn restart_policies() {
                restarts(MACHINE);
            }

            #[test]
            $(#[$slow])?
            fn stopping_and_starting_takes_nothing() {
                cycles(MACHINE, 200);
            }

            #[test]
            #[ignore = "the same, more often: two minutes"]
            fn stopping_and_starting_takes_nothing_for_long() {
                cycles(MACHINE, 1000);
            }

            #[test]
            $(#[$slow])?
            fn three_times_debian() {
                debian(MACHINE);
            }

            #[test]
            fn one_serial_port() {
                consoles(MACHINE);
            }
        }
    )* };
}

boards! {
    cubieboard: Cubieboard;
    vexpress_a9: VexpressA9, #[ignore = "what the other board shows, too: two minutes for all that are ignored here"];
}
