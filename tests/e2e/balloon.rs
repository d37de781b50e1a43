//! Memory that one guest gives to its balloon, used by another one's disk, and taken back.

use spica_tests::Machine;
use spica_tests::several::{BLANK, Board, Part, value};

/// Pieces of 4 KiB: what the lender gives, what the disk has of its own, what is written.
const GIVEN: u32 = 64;
const OWN: u32 = 16;
const WRITTEN: u32 = 40;

/// A key for guest `name`, which alone is shown from now on, and the `count`th line of its answer that begins with
/// `start`.
#[track_caller]
fn press(board: &mut Board, name: &str, key: &str, start: &str, count: usize) -> String {
    board.show(Some(name));
    board.type_keys(key);
    board.line(name, start, count)
}

/// A figure of `stats`, divided by 4 KiB, once it is `expected`.
#[track_caller]
fn pages(board: &mut Board, figure: &str, expected: u32) {
    let wanted = format!("stat {figure} {}", expected * 4096);
    board.poll(&wanted, |board| board.tell("stats").contains(&wanted));
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

    // What a lender left in its pages is not on the disk, where a piece is written in part; nor has the lender what
    // was.
    assert_eq!(value(&press(&mut board, "writer", "p", "partly", 1), "wrong"), 0);
    pages(&mut board, "all memory.given-used-bytes", WRITTEN - OWN + 1);

    assert_eq!(
        board.ask("balloon writer 1"),
        Err("writer has no balloon: `balloon = true` in the manifest".to_string())
    );
    board.tell("balloon a 1");
}

/// How the prompt of the Debian guest's shell begins.
const PROMPT: &str = "root@lender:";

/// Types a command to the Debian guest, which alone is shown, and gives what it prints.
#[track_caller]
fn command(board: &mut Board, command: &str) -> String {
    let before = board.console("lender").len();
    board.type_keys(&format!("{command}\r"));
    board.until(command, |board| {
        let text = &board.console("lender")[before..];
        // What was typed is shown, too.
        let (_, output) = text.split_once('\n')?;
        output.rsplit_once(PROMPT).map(|(output, _)| output.to_string())
    })
}

/// MiB of RAM that Linux has free.
#[track_caller]
fn free(board: &mut Board) -> u32 {
    let text = command(board, "grep MemFree /proc/meminfo");
    let kib = text.split_whitespace().nth(1).and_then(|word| word.parse::<u32>().ok());
    kib.unwrap_or_else(|| panic!("{text:?}")) / 1024
}

/// The same with Linux's own driver: a Debian guest gives memory, another guest's disk uses it, and Debian has it back.
fn lend_by_linux(machine: Machine) {
    const MIB: u32 = 16;
    let (given, written) = ([GIVEN], [WRITTEN]);
    let keys = "memory = \"96M\"\nballoon = true\nrestart = \"never\"\n".to_string();
    let parts = [
        Part { name: "lender", guest: None, keys },
        Part::new("other", "balloon", &given).with("balloon", "true"),
        Part::new("writer", "disk", &written).with("disks", &format!("[{{ file = \"{BLANK}\" }}]")),
    ];
    let mut board = Board::start_with(machine, &parts, false, &format!("spica.overlay={}", OWN * 4));
    for name in ["other", "writer"] {
        board.line(name, "up", 1);
    }
    board.until("shell", |board| board.console("lender").contains(PROMPT).then_some(()));
    board.show(Some("lender"));
    let before = free(&mut board);
    assert_eq!(value(&press(&mut board, "writer", "w", "wrote", 1), "failed"), WRITTEN - OWN);

    board.tell(&format!("balloon lender {MIB}"));
    pages(&mut board, "lender memory.given-bytes", MIB * 256);
    board.show(Some("lender"));
    let meanwhile = free(&mut board);
    assert!(meanwhile + MIB <= before + 2, "{before} MiB were free before, {meanwhile} are now");
    assert_eq!(value(&press(&mut board, "writer", "w", "wrote", 2), "failed"), 0);
    pages(&mut board, "all memory.given-used-bytes", WRITTEN - OWN);

    // All but what is in use comes back at once. The rest does when somebody else gives as much.
    board.tell("balloon lender 0");
    pages(&mut board, "lender memory.given-bytes", WRITTEN - OWN);
    assert_eq!(value(&press(&mut board, "writer", "r", "read", 1), "wrong"), 0);
    press(&mut board, "other", "g", "given", 1);
    pages(&mut board, "lender memory.given-bytes", 0);
    assert_eq!(value(&press(&mut board, "writer", "r", "read", 2), "wrong"), 0);

    // Linux uses what it has back.
    board.show(Some("lender"));
    let after = free(&mut board);
    assert!(after + 2 >= before, "{before} MiB were free before, {after} are now");
    // Short lines: what does not fit the terminal's would be shown in two.
    command(&mut board, &format!("dd if=/dev/urandom of=/tmp/x bs=1M count={} 2>/dev/null", after / 2));
    let sum = command(&mut board, "sha256sum /tmp/x");
    assert_eq!(command(&mut board, "sha256sum /tmp/x"), sum);
    let log = command(&mut board, "dmesg | grep -iE 'balloon|bad page|oops' || echo none");
    assert_eq!(log.trim(), "none");
}

macro_rules! boards {
    ($($module:ident: $machine:ident $(, #[$slow:meta])?;)*) => { $(
        mod $module {
            use super::*;

            #[test]
            $(#[$slow])?
            fn memory_is_lent_and_taken_back() {
                lend(Machine::$machine);
            }

            #[test]
            $(#[$slow])?
            fn linux_lends_and_takes_back() {
                lend_by_linux(Machine::$machine);
            }
        }
    )* };
}

boards! {
    cubieboard: Cubieboard, #[ignore = "what the other board shows, too: three minutes"];
    vexpress_a9: VexpressA9;
}
