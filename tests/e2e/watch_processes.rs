//! Clients that tell a guest's processes apart: who uses which lines of its memory, and who takes which edges of its
//! kernel's control flow. The guest is Debian, with processes that share a page of a file, one that has a page for
//! itself, and one that calls what no other does.

use std::time::{Duration, Instant};

use spica_addr::GuestVa;
use spica_cli::edges::{self, EdgeCounter, Map};
use spica_cli::sharing::{self, Findings, Line, Watcher};
use spica_cli::switching::Switching;
use spica_cli::symbols;
use spica_console::base64;
use spica_dbt::edges::place;
use spica_isa::{Op, decode};
use spica_kallsyms::Symbol;
use spica_runner::control::client::Board as Running;
use spica_sharing::{Context, LINE, User};

use crate::beside::beside;

/// What is in the file that two processes use, and in the one that a third has for itself.
const SHARED: &str = "this-line-is-shared";
const PRIVATE: &str = "this-line-is-private";

/// A line of the guest's memory.
fn contents(board: &mut Running, address: u32) -> Vec<u8> {
    let pa = address - 0xc000_0000 + 0x4000_0000;
    let lines = board.ask(&format!("debug 0 dump {pa:x} {LINE:x}")).expect("memory");
    lines.iter().filter_map(|line| base64::decode(line.strip_prefix("memory ")?)).flatten().collect()
}

/// What the process of this name did with a line.
fn by<'a>(findings: &Findings, line: &'a Line, name: &str) -> Option<&'a User> {
    line.users.iter().find(|user| findings.name(user.context).starts_with(&format!("{name}[")))
}

/// The line that begins with this, of those that are shared.
fn holding<'a>(board: &mut Running, findings: &'a Findings, text: &str) -> Option<&'a Line> {
    findings.lines.iter().find(|line| contents(board, line.address).starts_with(text.as_bytes()))
}

/// The line of the file that both use, if all of that was found which is to be.
fn expected<'a>(board: &mut Running, findings: &'a Findings) -> Option<(&'a User, &'a User)> {
    let line = holding(board, findings, SHARED)?;
    let (writer, reader) = (by(findings, line, "writer")?, by(findings, line, "reader")?);
    // More often than once: lines are closed at each switch.
    (writer.writes && reader.reads && writer.turns > 2 && reader.turns > 2).then_some((writer, reader))
}

/// The function that an instruction is in.
fn function(pc: u32, names: &[Symbol]) -> &str {
    let behind = names.partition_point(|symbol| symbol.address <= pc);
    behind.checked_sub(1).map_or("", |last| &names[last].name)
}

/// A line of what the scheduler knows: the timer's interrupt writes it, and so does who switches to another process.
fn of_scheduler<'a>(findings: &'a Findings, names: &[Symbol]) -> Option<&'a Line> {
    findings.lines.iter().find(|line| {
        let ticks =
            |user: &User| user.context == Context::INTERRUPTS && function(user.store, names) == "scheduler_tick";
        let switches = |user: &User| {
            findings.tasks.contains_key(&user.context) && function(user.store, names).starts_with("finish_task_switch")
        };
        line.users.iter().any(ticks) && line.users.iter().any(switches)
    })
}

/// The edge by which a function gets to what it calls first, with nothing in front of it that it may branch by.
fn edge_of_first_call(board: &mut Running, names: &[Symbol], function: &str) -> u16 {
    let start = names.iter().find(|symbol| symbol.name == function).expect("the function").address;
    let words = contents(board, start);
    let words = words.as_chunks::<4>().0.iter().map(|&word| decode(u32::from_le_bytes(word)));
    let call = (start..).step_by(4).zip(words).find_map(|(at, instruction)| match instruction.op {
        Op::Branch { link: true, offset, .. } => Some(at.wrapping_add(8).wrapping_add_signed(offset)),
        _ => None,
    });
    place(GuestVa(call.expect("a call in the first words"))) ^ place(GuestVa(start)) >> 1
}

/// The edges that processes take, once those of the ones that are looked for were counted.
fn edges_are_found(board: &dyn Fn() -> Running, names: &[Symbol], switching: &Switching) {
    let calls = edge_of_first_call(&mut board(), names, "ksys_sync");
    let of = |findings: &edges::Findings, name: &str| -> Map {
        findings.maps.iter().find(|(known, _)| known == name).map(|(_, map)| map.clone()).unwrap_or_default()
    };
    let mut counter = EdgeCounter::start(board(), 0, switching, &[]).expect("a counter");
    let begun = Instant::now();
    let findings = loop {
        counter.wait(Instant::now() + Duration::from_secs(2), &|| false);
        let findings = counter.findings().expect("findings");
        // A program that starts has so many edges before it does what it is for.
        let has_begun = ["sync", "reader", "interrupts"].iter().all(|name| of(&findings, name).len() > 100);
        if has_begun && of(&findings, "sync").contains_key(&calls) {
            break counter.end().expect("findings");
        }
        assert!(begun.elapsed() < Duration::from_secs(120), "{}", edges::report(&findings));
    };
    println!("{:?}: {}", begun.elapsed(), edges::report(&findings));
    assert!(of(&findings, "sync").contains_key(&calls), "the call in ksys_sync: {calls:#x}");
    for other in ["reader", "writer", "loner", "interrupts"] {
        assert!(!of(&findings, other).contains_key(&calls), "{other} has the call in ksys_sync: {calls:#x}");
    }
    // Of one name alone, the others are not told apart.
    let only = ["reader".to_string()];
    let counter = EdgeCounter::start(board(), 0, switching, &only).expect("a counter");
    counter.wait(Instant::now() + Duration::from_secs(4), &|| false);
    let again = counter.end().expect("findings");
    let named: Vec<&str> = again.maps.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(named, ["reader", "interrupts", "all other processes"]);
    // It does the same again.
    let (before, now) = (of(&findings, "reader"), of(&again, "reader"));
    let both = now.keys().filter(|edge| before.contains_key(edge)).count();
    println!("reader: {} edges, then {}, {both} of both", before.len(), now.len());
    assert!(2 * both > now.len(), "reader: {} edges, then {}, {both} of both", before.len(), now.len());
}

#[test]
fn what_processes_do_is_told_apart() {
    let program = |text: String| format!("#!/bin/sh\nwhile :; do {text}; done\n");
    let programs = [
        ("writer", program(format!("echo {SHARED} 1<>/tmp/shared"))),
        ("reader", program("read line < /tmp/shared".into())),
        ("syncer", program("sync; sleep 0.1".into())),
        ("loner", program(format!("echo {PRIVATE} 1<>/tmp/private; read line < /tmp/private"))),
    ];
    let script = format!(
        "echo {SHARED} > /tmp/shared; echo {PRIVATE} > /tmp/private; \
         for n in writer reader loner syncer; do /lib/$n & all=\"$all $!\"; done; \
         until read -t 1 line </dev/console; do echo more; done; kill $all; \
         dmesg | grep -c -e BUG -e WARNING -e Oops || true"
    );
    let give = |_: &_, request: &mut spica_runner::prepare::Request| {
        for (name, text) in &programs {
            request.overlay.file(&format!("lib/{name}"), 0o755, text.as_bytes());
        }
    };
    let watch = |board: &dyn Fn() -> Running, names: &[Symbol]| {
        let switching = symbols::switching(&mut board(), 0, names).expect("places");
        let mut watcher = Watcher::start(board(), 0, &switching).expect("a watcher");
        let second = Watcher::start(board(), 0, &switching).err().expect("a watcher for two");
        assert!(second.message.contains("looks into it"), "{}", second.message);
        let mut board_too = board();
        let begun = Instant::now();
        loop {
            watcher.wait(Instant::now() + Duration::from_secs(1), &|| false).expect("a board");
            let findings = watcher.findings().expect("findings");
            if expected(&mut board_too, &findings).is_some() && of_scheduler(&findings, names).is_some() {
                break;
            }
            let report = || sharing::report(&findings, names, 50);
            assert!(begun.elapsed() < Duration::from_secs(120), "{}", report());
        }
        let findings = watcher.end().expect("findings");
        println!("{:?}: {}", begun.elapsed(), sharing::report(&findings, names, 10));
        let (writer, reader) = expected(&mut board_too, &findings).expect("a line that is shared");
        let functions = [writer.store, reader.load].map(|pc| function(pc, names).to_string());
        let private = holding(&mut board_too, &findings, PRIVATE).cloned();
        // It can be begun again, and left without a word.
        drop(Watcher::start(board(), 0, &switching).expect("another watcher"));
        edges_are_found(board, names, &switching);
        (findings, functions, private)
    };
    let (printed, (findings, functions, private)) = beside("processes", give, &script, Duration::from_secs(300), watch);
    assert!(printed.trim_end().ends_with("\n0"), "the guest has noticed it: {printed}");
    assert!(findings.to_the_end && findings.lost == 0 && findings.switches > 10, "{findings:?}");
    assert_eq!(private, None);
    // Names that begin with underscores are of the same code.
    let [store, load] = functions;
    assert!(store.contains("copy_from_user") && load.contains("copy_to_user"), "{store}, {load}");
}
