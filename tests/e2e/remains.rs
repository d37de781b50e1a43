//! What a guest finds in its RAM: nothing of anybody else's, and after a reset what it left there itself.

use spica_tests::Machine;
use spica_tests::several::{Board, Part, Remains, value};

/// Words that guests leave in their RAM, and those that there are.
const WORD: u32 = 0x5ec4_e701;
const WORDS: u32 = (0x4080_0000 - 0x4020_0000 + 0x4100_0000 - 0x4090_0000) / 4;

/// What the guest of that name found the `count`th time that it began: words of its own, and others.
#[track_caller]
fn found(board: &mut Board, name: &str, count: usize) -> (u32, u32) {
    let line = board.line(name, "found", count);
    (value(&line, "own"), value(&line, "foreign"))
}

fn remains(machine: Machine) {
    let word = [WORD];
    let other = [WORD + 1];
    // What a loader, or what ran on the board before, left behind: the second guest's word, and so a boot of other
    // guests.
    let left = Remains { from: 8 << 20, bytes: 100 << 20, word: WORD + 1 };
    let parts = [Part::new("a", "remains", &word), Part::new("b", "remains", &other)];
    let mut board = Board::start_among(machine, &parts, &left);
    assert_eq!(found(&mut board, "a", 1), (0, 0));
    assert_eq!(found(&mut board, "b", 1), (0, 0));
    // Only then it has all its words: whatever takes a guest by surprise comes later.
    let left = |board: &mut Board, count| drop(board.line("a", "left", count));
    left(&mut board, 1);

    // A reset, its own or the monitor's, leaves it what it had.
    board.show(Some("a"));
    board.type_keys("r");
    assert_eq!(found(&mut board, "a", 2), (WORDS, 0));
    left(&mut board, 2);
    board.tell("reset a");
    assert_eq!(found(&mut board, "a", 3), (WORDS, 0));
    left(&mut board, 3);

    // Off and on again, it is as at first.
    board.tell("stop a");
    board.tell("start a");
    assert_eq!(found(&mut board, "a", 4), (0, 0));
    left(&mut board, 4);
    board.type_keys("x");
    board.spica("guest a: powered off", 1);
    board.tell("start a");
    assert_eq!(found(&mut board, "a", 5), (0, 0));
    left(&mut board, 5);
    // A reset before all is cleared does not leave the rest. If all is cleared before the reset comes, there is nothing
    // to be seen: before the guest has said what it found, it leaves nothing.
    board.tell("stop a");
    board.tell("pause b");
    board.tell("start a");
    board.tell("reset a");
    assert_eq!(found(&mut board, "a", 6), (0, 0));
}

#[test]
fn cubieboard() {
    remains(Machine::Cubieboard);
}

#[test]
fn vexpress_a9() {
    remains(Machine::VexpressA9);
}
