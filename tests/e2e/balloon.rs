//! Memory that one guest gives to its balloon, used by another one's disk, and taken back.

use std::time::{Duration, Instant};

use spica_tests::Machine;
use spica_tests::several::{BLANK, Board, Part, value};

/// Pieces of 4 KiB: what the lender gives, what the disk has of its own, what is written.
const GIVEN: u32 = 64;
const OWN: u32 = 16;
const WRITTEN: u32 = 40;

/// A key for guest `name`, which alone is shown from now on, and the `count`th line of its answer that begins with `start`.
#[track_caller]
fn press(board: &mut Board, name: &str, key: &str, start: &str, count: usize) -> String {
    board.show(Some(name));
    board.type_keys(key);
    board.line(name, start, count)
}

/// A figure of `stats`, divided by 4 KiB, once it is `expected`.
#[track_caller]
fn pages(board: &mut Board, figure: &str, expected: u32) {
    let deadline = Instant::now() + Duration::from_secs(60);
    let wanted = format!("stat {figure} {}", expected * 4096);
    while !board.tell("stats").contains(&wanted) {
        assert!(Instant::now() < deadline, "no `{wanted}` in {:?}", board.tell("stats"));
    }
}

fn lend(machine: Machine) {
    let given = [GIVEN];
    let written = [WRITTEN];
    let lender = |name| Part::new(name, "balloon", &given).with("balloon", "true");
    let writer = Part::new("writer", "disk", &written).with("disks", &format!("[{{ file = \"{BLANK}\" }}]"));
    let words = format!("spica.overlay={}", OWN * 4);
    let mut board = Board::start_with(machine, &[lender("a"), lender("b"), writer], true, &words);
    for name in ["a", "b", "writer"] {
        board.line(name, "up", 1);
    }

    // What is beyond the disk's own memory fails, until somebody gives some.
    assert_eq!(value(&press(&mut board, "writer", "w", "wrote", 1), "failed"), WRITTEN - OWN);
    assert_eq!(value(&press(&mut board, "a", "g", "given", 1), "aborts"), 2, "what is given is out of reach");
    pages(&mut board, "all memory.given-idle-bytes", GIVEN);
    assert_eq!(value(&press(&mut board, "writer", "w", "wrote", 2), "failed"), 0);
    assert_eq!(value(&press(&mut board, "writer", "r", "read", 1), "wrong"), 0);
    pages(&mut board, "all memory.given-used-bytes", WRITTEN - OWN);

    // The lender gets back what is not in use; what is, moves out of the way as long as there is room.
    board.show(Some("a"));
    board.type_keys("b");
    pages(&mut board, "a memory.given-bytes", WRITTEN - OWN);
    assert_eq!(value(&press(&mut board, "writer", "r", "read", 2), "wrong"), 0);
    assert!(!board.console("a").contains("back"), "it has to wait for the rest");
    let problem = board.ask("reset a").expect_err("its memory is not there");
    assert!(problem.contains("96 KiB"), "{problem}");
    assert_eq!(board.state("a"), "off");

    // Another one gives as much: there it goes.
    press(&mut board, "b", "g", "given", 1);
    board.show(Some("a"));
    board.tell("start a");
    board.line("a", "up", 2);
    pages(&mut board, "a memory.given-bytes", 0);
    assert_eq!(value(&press(&mut board, "writer", "r", "read", 3), "wrong"), 0);

    // And back again, with a driver that waits.
    press(&mut board, "a", "g", "given", 2);
    assert_eq!(value(&press(&mut board, "b", "b", "back", 1), "foreign"), 0);
    board.show(Some("a"));
    board.type_keys("b");
    pages(&mut board, "a memory.given-bytes", WRITTEN - OWN);
    press(&mut board, "b", "g", "given", 2);
    pages(&mut board, "a memory.given-bytes", 0);
    assert_eq!(value(&press(&mut board, "a", "c", "back", 1), "foreign"), 0);
    assert_eq!(value(&press(&mut board, "writer", "r", "read", 4), "wrong"), 0);

    assert_eq!(
        board.ask("balloon writer 1"),
        Err("writer has no balloon: `balloon = true` in the manifest".to_string())
    );
    board.tell("balloon a 1");
}

macro_rules! boards {
    ($($module:ident: $machine:ident;)*) => { $(
        mod $module {
            use super::*;

            #[test]
            fn memory_is_lent_and_taken_back() {
                lend(Machine::$machine);
            }
        }
    )* };
}

boards! {
    cubieboard: Cubieboard;
    vexpress_a9: VexpressA9;
}
