//! Clients that look into guests: what is counted of a guest's kernel, and system calls.

use std::collections::BTreeMap;
use std::fs;

use object::{Object, ObjectSymbol};
use spica_cli::counts::{self, Counts};
use spica_tests::Machine;
use spica_tests::several::{Board, Part};

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
